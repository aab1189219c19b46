#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl sweep: after kills of clients a name leads to each block, or it is free again.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

# bytes_used: of clients, without those that wait for readers.
bytes_used() {
	expect 0 namctl status --json
	python json 'sum(m["carved_bytes"] - m["free_bytes"] - m["waiting_bytes"]
		for m in (s["memory"]["public"] for s in r["servers"]))'
}

# names: of indexes and stores, a line each; an index of keys comes before its record store.
names() {
	namctl index list | grep -v '\.keys$'
	namctl records list
	namctl kv list
}

# has_names COUNT: so many, or more.
has_names() {
	[ "$(names | wc -l)" -ge "$1" ]
}

# start_KIND: a client that fills something and changes it.
start_index() {
	exec nam-bench index --keep --keys 20k --design "$1" \
		--mix insert=50,delete=20,lookup=30 --seconds 100 --quiet
}

start_ramp() {
	exec nam-bench ramp --keys 1k --read-ratio 20 --fibers 4 --seconds 100 --quiet "$@"
}

start_kv() {
	exec nam-bench kv --keys 1k --get-percent 20 --seconds 100 --quiet
}

start_table() {
	exec table_load_tool "$NAM_CLUSTER" 100 50
}

# kill_all KIND...: a client of each is killed, once what they fill has names.
kill_all() {
	local kind before pids=()

	before=$(names | wc -l)
	for kind; do
		# shellcheck disable=SC2086 # with its options
		start_$kind >"$tmp/load.${#pids[@]}" 2>&1 &
		pids+=($!)
	done
	await has_names $((before + $#)) || fail "a client has made nothing: $(cat "$tmp"/load.*)"
	sleep 0.5
	kill -KILL "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	await are_dead "${pids[@]}" || fail "a killed client is not dead"
}

# are_dead PID...: a later client has fenced them.
are_dead() {
	local IFS=,

	namctl index list >/dev/null
	out=$(namctl --json status)
	python json "not r['view']['clients'] and
		r['view'].get('fencing', {}).get('pid') not in ($*,)"
	[ "$value" = True ]
}

# is_tidy: a sweep frees nothing, and finds no replaced versions that it has to give back first.
is_tidy() {
	out=$(namctl sweep --dry-run --rate 0 --json)
	python json "r['freed_blocks'] == 0 and r['held_blocks'] == 0"
	[ "$value" = True ]
}

# expect_equation: all blocks are reachable, held by clients, left by dead ones, or free.
expect_equation() {
	expect 0 namctl status --books --rate 0 --json
	json 'sum(r["books"][k + "_blocks"] for k in ("named", "held", "dead")) ==
		r["books"]["used_blocks"]'
	json 'sum(r["books"][k + "_bytes"] for k in ("named", "held", "dead", "free", "waiting")) ==
		r["books"]["allocated_bytes"]'
	json 'sum(s["memory"]["public"]["carved_bytes"] for s in r["servers"]) ==
		r["books"]["allocated_bytes"]'
	json 'r["books"]["changed_bytes"] == 0'
	json 'sum(r["books"]["parts"][k + "_bytes"] for k in ("named", "held", "dead", "free")) ==
		r["books"]["parts"]["allocated_bytes"] == sum(s["memory"][k]["carved_bytes"]
		for s in r["servers"] for k in ("private", "read_only"))'
	json 'r["books"]["parts"]["changed_bytes"] == 0'
}

# expect_books: names lead to all that is used, to the block.
expect_books() {
	await is_tidy || fail "after a sweep there are blocks without a name: $out"
	json "r['used_blocks'] == r['named_blocks'] and r['used_bytes'] == r['named_bytes']"
	python json 'r["named_bytes"]'
	named=$value
	bytes_used
	[ "$value" = "$named" ] || fail "$value bytes are used, and names lead to $named"
	expect_equation
	json "r['books']['named_bytes'] == $named and r['books']['used_bytes'] == $named"
	json 'r["books"]["parts"]["named_bytes"] == r["books"]["parts"]["used_bytes"]'
}

kills() {
	local kinds freed named name

	nam_servers_start 2 --memory 96M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	for kinds in "index fine,index coarse" "index hybrid,kv" \
		"ramp --transport onesided,ramp --algorithm small --transport plus" \
		"ramp --transport star,ramp --algorithm 2pl --transport plus"; do
		kill_all "${kinds%,*}" "${kinds#*,}"
		kill_all "${kinds%,*}" "${kinds#*,}"
		expect_equation
		json 'r["books"]["dead_blocks"] > 10'
		expect 0 namctl sweep --dry-run --rate 0 --json
		json 'r["dry_run"] and r["freed_blocks"] > 10'
		python json 'r["freed_blocks"]'
		freed=$value
		expect 0 namctl sweep --rate 0 --json
		# Replaced versions that it has given back first are its own.
		json "not r['dry_run'] and 0 <= $freed - r['freed_blocks'] <= r['held_blocks']"
		json 'r["parts"] == 0'
		expect_books
	done
	kill_all table
	expect 0 namctl sweep
	expect_books
	expect 0 namctl --json table verify load
	json 'r["stale_entries"] == 0'
	expect 0 namctl sweep
	says "0 blocks (0 B) are free"
	expect 0 namctl sweep --rate 0 --json
	json "r['record_stores'] == 9 and r['indexes'] == 16 and r['tables'] == 1"
	expect 0 namctl kv list
	for name in $out; do
		expect 0 namctl --json kv stat "$name"
		json '0 < r["keys"] <= 1000'
		expect 0 namctl kv drop "$name"
	done
	expect 0 namctl table drop load
	expect 0 namctl records list
	for name in $out; do
		expect 0 namctl records collect "$name"
		expect 0 namctl records drop "$name"
	done
	expect 0 namctl index list
	for name in $out; do
		namctl index verify "$name" >"$tmp/verified" 2>&1
		grep -q "all right\|every invariant" "$tmp/verified" || fail "$(<"$tmp/verified")"
		expect 0 namctl index drop "$name"
	done
	# R6: two writers were killed, each perhaps between its claim of a version and the CAS of
	# the head.  Another client that replaces this version does not retire it.
	expect 0 namctl sweep --rate 0 --json
	json 'r["freed_blocks"] <= 2'
	expect_books
	[ "$named" = 0 ] || fail "$named bytes are used, by nothing"
	# Blocks that waited serve other sizes.
	expect 0 namctl kv create filling --memory 30M
	nam_servers_stop || fail "the servers did not end well"
}

is_there() {
	out=$(namctl --json status 2>/dev/null)
	python json "r['view'].get('clients') == 1"
	[ "$value" = True ]
}

# A client that is stopped may have any block in its limbo.
test_stopped() {
	local pid

	nam_servers_start 2 --memory 16M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	nam-bench raw --memory 1M --seconds 100 --quiet &
	pid=$!
	await is_there || fail "no client"
	kill -STOP $pid
	expect 6 namctl --timeout-ms 300 sweep
	says "(nam-bench, pid $pid) has not looked at the epoch"
	expect 6 namctl --timeout-ms 300 status --books
	says "in blocks = "
	says "namctl: status --books: client"
	expect 0 namctl client list
	expect 1 namctl client fence "$(sed -n 's/^\([0-9]*\) .*nam-bench.*/\1/p' <<<"$out")"
	says "is alive, and over shm what it has mapped cannot be revoked"
	kill -CONT $pid
	expect 0 namctl sweep
	kill $pid
	wait $pid
	expect 2 namctl sweep now
	expect 0 namctl sweep --rate 0
	expect 0 namctl status --books --rate 1M
	says "in blocks = 0 B (0 blocks) that names lead to"
	expect 2 namctl top --rate 5
	nam_servers_stop || fail "the servers did not end well"
}

# holds_blocks
holds_blocks() {
	[ -s "$tmp/held" ]
}

# A client that lives has so many blocks that no name leads to, and a sweep leaves them alone.
test_held() {
	local pid blocks bytes

	nam_servers_start 2 --memory 32M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	expect 0 nam-bench index --keep --keys 10k --seconds 0.1 --quiet
	mkfifo "$tmp/pipe"
	hold_tool "$cluster" 1000 <"$tmp/pipe" >"$tmp/held" &
	pid=$!
	exec 9>"$tmp/pipe"
	await holds_blocks || fail "no blocks"
	read -r blocks bytes <"$tmp/held"
	[ "$blocks" -ge 1000 ] || fail "it has $blocks blocks"
	expect 0 namctl sweep --rate 0 --json
	json "r['held_blocks'] == $blocks and r['held_bytes'] == $bytes"
	expect_equation
	json "r['books']['held_blocks'] == $blocks and r['books']['held_bytes'] == $bytes"
	exec 9>&-
	wait $pid || fail "the client ended with $?"
	expect_books
	nam_servers_stop || fail "the servers did not end well"
}

# refused PID: a sweep fails, and its message names this process as the one that sweeps.
refused() {
	out=$(namctl --timeout-ms 100 sweep 2>&1)
	[ $? = 6 ] && [[ $out == *"one client at a time sweeps"*"pid $1), which is alive"* ]]
}

# One client at a time sweeps, and a dead one is succeeded.
test_two() {
	local pid

	nam_servers_start 1 --memory 16M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	expect 0 nam-bench index --keep --keys 10k --seconds 0.1 --quiet
	namctl sweep --rate 1 >"$tmp/slow" 2>&1 &
	pid=$!
	await refused $pid || fail "two sweeps at a time: $out"
	kill -KILL $pid
	wait $pid 2>/dev/null
	expect 0 namctl sweep --rate 200
	[[ $out$err != *sweeping:* ]] || fail "progress without a terminal: $out$err"
	out=$(script -qec "namctl sweep --rate 200" /dev/null </dev/null)
	[[ $out =~ sweeping:\ [0-9]+\ of\ [0-9]+\ blocks ]] || fail "no progress: $out"
	nam_servers_stop || fail "the servers did not end well"
}

# has_parts MS: after a kill in the middle of a creation, one memory server or more has a part.
has_parts() {
	local pid

	namctl kv create halved --memory 40M >/dev/null 2>&1 &
	pid=$!
	sleep "$(printf '0.%03d' "$1")"
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
	await are_dead $pid || fail "a killed client is not dead"
	namctl kv drop halved >/dev/null 2>&1
	out=$(namctl status --books --rate 0 --json)
	python json 'r["books"]["parts"]["dead"] > 0'
	[ "$value" = True ]
}

# A creation of a store is killed: the books have its parts, and a sweep drops them.
test_parts() {
	local i dead

	nam_servers_start 2 --memory 96M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	expect 0 namctl index create parted --design coarse
	seq 1 20000 | awk '{ print $1 "\t" NR }' >"$tmp/pairs"
	expect 0 namctl load parted "$tmp/pairs"
	expect_books
	json 'r["books"]["parts"]["named_bytes"] >= 20000 * 16'
	for ((i = 0; i < 300; i++)); do
		has_parts $((i % 60)) && break
	done
	[ "$i" -lt 300 ] || fail "no kill met a creation"
	expect_equation
	python json 'r["books"]["parts"]["dead_bytes"]'
	dead=$value
	json "$dead >= 20 << 20"
	expect 0 namctl status --books --rate 0
	says " that dead clients left"
	expect 0 namctl sweep --dry-run --rate 0 --json
	json "r['parts'] > 0 and r['parts_bytes'] == $dead"
	expect 0 namctl sweep --rate 0 --json
	json "r['parts'] > 0 and r['parts_bytes'] == $dead"
	expect_books
	json 'r["books"]["parts"]["dead"] == 0 and r["books"]["parts"]["dead_bytes"] == 0'
	nam_servers_stop || fail "the servers did not end well"
}

python_start
kills
[ -z "${NAM_TEST_SANITIZE:-}" ] || finish "sweep: all as it should be"
test_parts
test_stopped
test_held
test_two
NAM_TEST_FABRIC=tcp:127.0.0.1:0 kills
finish "sweep: all as it should be"
