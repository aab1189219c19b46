#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench from a shell: what it measures, what it notices, and its exit status.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

raw() {
	expect 0 nam-bench raw --memory 4M --json - "$@"
	json 'set("workload fabric op bytes depth threads ops seconds ops_per_s errors
		blocks_lost blocks_waiting latency_ns per_op".split()) <= set(r)'
	json 'r["errors"] == r["blocks_lost"] == 0 and r["ops"] > 0 and r["ops_per_s"] > 0'
	json 'set("mean p50 p90 p99 p999 max".split()) == set(r["latency_ns"])'
}

index() {
	expect 0 nam-bench index --keys "$some" --ops "$some" --verify --json - "$@"
	json 'set("workload fabric index design partitioning memservers threads fibers keys ops
		seconds ops_per_s errors blocks_lost blocks_waiting latency_ns per_op by_operation
		load memory".split()) <= set(r)'
	json 'r["errors"] == r["blocks_lost"] == r["violations"] == 0 and r["ops"] == '"$some"
	json 'set("mean p50 p90 p99 p999 max".split()) == set(r["latency_ns"])'
	json 'all(set("round_trips colocated_reads colocated_calls doorbells work_requests bytes_in
		bytes_out restarts".split()) == set(o["per_op"]) for o in
		[r] + list(r["by_operation"].values()))'
}

test_usage() {
	expect 0 nam-bench --help
	expect 0 nam-bench raw --help
	expect 0 nam-bench index --help
	expect 0 nam-bench --version
	expect 2 nam-bench
	expect 2 nam-bench fly
	says fly
	expect 2 nam-bench index --workload ycsb-x
	says ycsb-x
	expect 2 nam-bench index --mix lookup=95,inssert=5
	says inssert
	expect 2 nam-bench index --mix lookup=50,insert=10,lookup=50
	says "'lookup' is said twice"
	expect 2 nam-bench index --keys 0
	expect 2 nam-bench index --frobnicate
	says frobnicate
	expect 2 nam-bench index --keys
	expect 2 nam-bench index stray
	expect 2 nam-bench index --design hashed
	expect 2 nam-bench index --distribution gaussian
	says "--distribution: 'gaussian' is not known; choose uniform, zipfian or latest"
	expect 2 nam-bench index --transport pigeon
	says "--transport: 'pigeon' is not known; choose srq, mailbox, fetch or datagram"
	expect 2 env NAM_TRANSPORT=pigeon nam-bench index
	says "NAM_TRANSPORT in the environment is 'pigeon'"
	expect 2 nam-bench index --non-unique --workload ycsb-a
	expect 2 nam-bench index --load none
	expect 2 nam-bench index --load insert --fill 70
	expect 2 nam-bench raw --op fly
	expect 2 nam-bench raw --op cas --bytes 16
	expect 2 nam-bench raw --bytes 12
	expect 2 nam-bench index --ops 10 --seconds 1
	says "say one of them"
	expect 2 nam-bench raw --ops 10 --seconds 1
	says "say one of them"
	# Before the run, not after it; and what is in a file stays until there is something better.
	expect 2 nam-bench index --seconds 100 --json "$tmp/no/such/folder.json"
	says "no/such/folder.json cannot be written"
	expect 2 nam-bench raw --seconds 100 --json "$tmp"
	echo kept >"$tmp/kept.json"
	expect 3 nam-bench index --cluster "$(nam_server_nobody)" --json "$tmp/kept.json"
	[ "$(cat "$tmp/kept.json")" = kept ] || fail "--json emptied its file and failed"
	expect 3 nam-bench index --cluster "$(nam_server_nobody)" --json "$tmp/new.json"
	[ ! -e "$tmp/new.json" ] || fail "--json left an empty file"
	if [ -w /dev/full ]; then
		expect 1 sh -c 'nam-bench --help >/dev/full'
		says "standard output cannot be written"
		expect 1 sh -c 'nam-bench raw --memory 4M --ops 100 >/dev/full'
		says "standard output cannot be written"
	fi
	expect 2 env -u NAM_CLUSTER nam-bench raw
	says NAM_CLUSTER
	expect 3 nam-bench index --cluster "$(nam_server_nobody)"
	says "$(nam_server_nobody)"
}

test_raw() {
	local op loop bytes
	for op in read write cas faa; do
		for loop in window fibers batch; do
			raw --op $op --loop $loop --depth 8 --ops "$few"
			json 'r["ops"] == '"$few"' and r["per_op"]["work_requests"] == 1'
		done
	done
	json 'r["per_op"]["round_trips"] == 0.125'
	raw --op read --bytes 1024 --depth 16 --threads 2 --ops "$few"
	json 'r["per_op"]["bytes_in"] == 1024 and r["per_op"]["bytes_out"] == 0'
	raw --op write --bytes 4096 --depth 1 --seconds 0.05
	raw --op send --ops 2000 --depth 4
	raw --op memcpy --ops 10000 --depth 4
	raw --seconds 0.5
	json 'r["depth"] in (1, 2, 4, 8, 12, 16, 20, 24, 32, 64)'
	# Unless told otherwise it leaves room: what it gives back serves its own size only.
	for bytes in 8192 4096; do
		expect 0 nam-bench raw --ops 100 --depth 4 --bytes $bytes --json -
		json 'r["memory_bytes"] <= 16 << 20'
	done
	expect 0 nam-bench index --keys $((5 * some)) --ops 1 --quiet
	raw --compare --seconds 0.5
	json 'r["ratio"] > 0 and r["memcpy_ops_per_s"] > 0'
	expect 0 env -u NAM_CLUSTER \
		nam-bench raw --op memcpy --memory 4M --ops 1000 --depth 4 --quiet
	[ -z "$out" ] || fail "--quiet printed $out"
}

accepted() {
	expect 0 namctl status --json
	python json 'sum(s["accepted"] for s in r["servers"])'
}

# Each client connects to both memory servers, once or more.
test_connect() {
	local before first

	accepted
	before=$value
	expect 0 nam-bench connect --ops 30 --threads 2 --json -
	json 'r["workload"] == "connect" and r["ops"] == 30 and r["errors"] == 0 and
		r["memservers"] == 2 and
		0 < r["p10_ns"] <= r["latency_ns"]["p50"] <= r["latency_ns"]["p99"]'
	accepted
	[ "$value" -ge $((before + 60)) ] || fail "from $before to $value connections"
	expect 0 nam-bench connect --seconds 0.1
	says "p10"
	expect 3 nam-bench connect --cluster "$(nam_server_nobody)"
	expect 0 nam-bench connect --cluster sim:connectx5 --ops 5 --json -
	first=$out
	json 'r["ops"] == 5 and r["latency_ns"]["p50"] > 0'
	expect 0 nam-bench connect --cluster sim:connectx5 --ops 5 --json -
	prints "$first"
}

test_workloads() {
	local workload
	for workload in ycsb-{a,b,c,d,e,f} nam-{a,b,c,d}; do
		index --workload $workload
		json "r['workload'] == '$workload'"
	done
	index --mix lookup=40,insert=20,delete=20,scan=10,upsert=10 --threads 2 --collect
	index --mix lookup=30,insert=30,delete=30,scan=10 --non-unique --threads 2
	index --index fine --mix lookup=50,insert=50 --distribution latest --fibers 3
	json "r['index'] == r['design'] == 'fine'"
	index --mix lookup=50,insert=50 --load insert --cache-mb 0 --key-bytes 24
	index --mix scan=100 --reverse --scan-length 777 --node-bytes 4k
	index --mix lookup=90,insert=10 --batch 16 --distribution zipfian
	index --mix lookup=100 --batch 7 --key-bytes 16
	index --design coarse
	json 'r["warmup_lookups"] == 0'
	index --cache-mb 0
	json 'r["warmup_lookups"] == 0'
	index --cache-mb 0 --warmup 100
	json 'r["warmup_lookups"] == 100'
	index --mix delete=100
	json 'r["by_operation"]["delete"]["ops"] > '$((some * 49 / 200))
	index --workload nam-a
	json 'r["warmup_lookups"] == r["keys"]'
	index --workload nam-a --raw-ratio
	json 'r["raw_ratio"] > 0 and r["per_op"]["round_trips"] < 1.01'
}

# Loaded and present entries differ: status 1.
test_wrong_answers() {
	local run="nam-bench index --keys $((some / 20)) --ops $some --name kept --quiet"

	expect 0 $run --keep
	expect 4 $run --keep
	says "exists already"
	expect 0 $run --load none
	expect 2 $run --load none --non-unique
	expect 2 $run --load none --key-bytes 16
	expect 2 $run --load none --node-bytes 512
	says "has nodes of 1024 bytes"
	expect 2 $run --load none --head-interval 0
	says "has 32 leaves per head node"
	expect 0 $run --load none --node-bytes 1k --head-interval 32 --key-bytes 8
	expect 2 $run --load none --fill 70
	says "--fill: only with --load bulk"
	expect 0 namctl --quiet put kept "$(namctl range kept - - --limit 1 | cut -f1)" 12345
	expect 1 $run --load none
	says "came with payload"
	says "more of these"
	expect 0 namctl --quiet delete kept "$(namctl range kept - - --limit 1 --reverse | cut -f1)"
	expect 1 $run --load none --mix scan=100
	says "missing"
	expect 0 namctl --quiet index drop kept
	# On slow fabrics with less memory: exit_status_test.sh.
	if [ "${NAM_TEST_SCALE:-1}" = 1 ]; then
		expect 6 nam-bench index --keys 1000 --ops 2M --mix insert=100 --quiet
		says NAM_E_REMOTE_FULL
	fi
	expect 0 namctl index list
	[ -z "$out" ] || fail "left behind: $out"
}

# Several processes on one index, each with its own pairs to insert and delete.
test_processes() {
	local pids=() pid

	expect 0 nam-bench index --keys "$some" --ops 1 --name shared --keep --quiet
	for _ in 1 2 3; do
		nam-bench index --keys "$some" --ops "$some" --name shared --load none --quiet \
			--mix lookup=40,insert=25,delete=25,scan=10 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "one of three processes ended with $?"
	done
	expect 0 namctl index verify shared
	expect 0 namctl --quiet index drop shared
}

test_interrupt() {
	local pid status signal

	for signal in INT HUP; do
		# Job control, or the shell would start it with SIGINT ignored.
		set -m
		nam-bench index --keys "$some" --seconds 100 --quiet &
		pid=$!
		set +m
		sleep 1
		kill -$signal $pid
		status=0
		wait $pid || status=$?
		[ $status -eq $((128 + $(kill -l $signal))) ] || fail "$signal: status $status"
		expect 0 namctl index list
		[ -z "$out" ] || fail "left behind: $out"
	done
}

# Sets $value: how much of the memory is in use.
used() {
	expect 0 namctl status --json
	python json 'sum(s["carved_bytes"] - s["free_bytes"] for s in r["servers"])'
}

# While a client is stopped, it may see what others retire: they give it back for later, and say so.
test_blocks_waiting() {
	local pid before

	used
	before=$value
	nam-bench raw --memory 4M --seconds 1000 --quiet &
	pid=$!
	while [ "$value" -eq "$before" ] && kill -0 $pid; do
		used
	done
	kill -STOP $pid
	expect 0 nam-bench index --keys "$some" --ops 100 --json -
	json 'r["blocks_waiting"] > '$((some / 100))
	json 'r["blocks_lost"] == 0'
	[[ $err == *"warning: "*" cannot be used yet: client "*" (nam-bench, pid $pid) has"* ]] ||
		fail "no warning: $err"
	kill -KILL $pid
	wait $pid 2>/dev/null
	expect 0 nam-bench index --keys "$some" --ops 100 --json -
	json 'r["blocks_lost"] == r["blocks_waiting"] == 0'
	[ -z "$err" ] || fail "a warning without a reason: $err"
}

# Memory servers that die end the run within two seconds.
test_death() {
	local pid status=0 began

	nam-bench index --keys "$some" --seconds 100 --mix insert=50,delete=50 --quiet \
		2>"$tmp/err" &
	pid=$!
	sleep 1
	began=$EPOCHREALTIME
	nam_servers_kill
	wait $pid || status=$?
	[ $status -eq 3 ] || fail "servers died: status $status: $(cat "$tmp/err")"
	awk -v a="$began" -v b="$EPOCHREALTIME" -v slowness="${NAM_TEST_SLOWNESS:-1}" \
		'BEGIN { exit b - a > 4 * slowness }' ||
		fail "servers died: it took from $began to $EPOCHREALTIME"
}

# Keys and operations: of most runs, and of the shortest.
some=$(nam_scaled 20000 2000)
few=$(nam_scaled 5000 504)
nam_servers_start 2 --memory 32M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_usage
test_raw
test_connect
test_workloads
test_wrong_answers
test_processes
test_interrupt
test_blocks_waiting
test_death
finish "nam-bench: all as it should be"
