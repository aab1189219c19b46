#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl from a shell: every command, what it prints, and its exit status when things go wrong.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

# A message names an address once.
prints_once() {
	[ "$(grep -o "$1" <<<"$err" | wc -l)" -eq 1 ] || fail "'$1' was expected once in: $err"
}

test_usage() {
	expect 0 namctl --help
	says "Exit status"
	expect 0 namctl --version
	expect 2 namctl
	expect 2 namctl status
	says "NAM_CLUSTER"
	expect 2 namctl --cluster "$cluster" frobnicate
	says "frobnicate"
	expect 2 namctl --cluster "$cluster" index
	expect 2 namctl --cluster "$cluster" get only-one-argument
	says "usage: namctl get NAME KEY"
	expect 2 namctl --cluster "$cluster" --no-such-option status
	expect 2 namctl --cluster "$cluster" status --limit 5
	says "--limit does not belong to 'status'"
	expect 2 namctl --cluster "$cluster" index create x --key-bytes 7
	says "from 8 to 64"
	expect 2 namctl --cluster "not an address" status
	expect 2 namctl --cluster "$cluster" --transport pigeon status
	says "--transport: 'pigeon' is not known; choose srq, mailbox, fetch or datagram"
	expect 2 namctl --cluster "$cluster" --timeout-ms 99 status
	says "from 100 to 600000"
	expect 2 namctl --cluster "$cluster" status --transport
	says "requires an argument"
	expect 2 env NAM_TRANSPORT=pigeon namctl --cluster "$cluster" index list
	says "NAM_TRANSPORT in the environment is 'pigeon'"
	expect 3 namctl --cluster shm:/nowhere --transport datagram index list
	says "the fabric shm has no datagrams"
}

# A machine with one RDMA device, or as much of it as is kept.
plant_machine() {
	local port=$tmp/machine/sys/class/infiniband/mlx5_0/ports/1

	rm -rf "$tmp/machine"
	mkdir -p "$port/gids" "$port/gid_attrs/types" "$port/gid_attrs/ndevs" \
		"$tmp/machine/sys/class/infiniband_verbs/uverbs0" \
		"$tmp/machine/sys/class/misc/rdma_cm" "$tmp/machine/dev/infiniband" \
		"$tmp/machine/proc/self"
	echo Ethernet >"$port/link_layer"
	echo "4: ACTIVE" >"$port/state"
	echo 0000:0000:0000:0000:0000:ffff:0a00:0001 >"$port/gids/0"
	echo "RoCE v2" >"$port/gid_attrs/types/0"
	echo eth7 >"$port/gid_attrs/ndevs/0"
	echo mlx5_0 >"$tmp/machine/sys/class/infiniband_verbs/uverbs0/ibdev"
	touch "$tmp/machine/dev/infiniband/uverbs0" "$tmp/machine/dev/infiniband/rdma_cm"
	echo "Max locked memory unlimited unlimited bytes" >"$tmp/machine/proc/self/limits"
}

test_doctor() {
	expect 0 namctl doctor shm
	says "shm (processes on this host): usable"
	expect 0 namctl doctor tcp
	says "tcp (between hosts, over any network): usable"
	expect 2 namctl doctor transport-pigeon
	says "transport-pigeon"
	expect 2 namctl --cluster "$cluster" status --root "$tmp"
	plant_machine
	expect 0 namctl doctor verbs --root "$tmp/machine"
	says "GID 0        10.0.0.1, RoCE v2"
	expect 0 namctl --quiet doctor verbs --root "$tmp/machine"
	prints ""
	expect 0 namctl --json doctor verbs --root "$tmp/machine"
	json 'r["fabrics"][0]["usable"]'
	echo "1: DOWN" >"$tmp/machine/sys/class/infiniband/mlx5_0/ports/1/state"
	expect 1 namctl doctor verbs --root "$tmp/machine"
	says "ip link set eth7 up"
	expect 0 namctl doctor --root "$tmp/machine"
	plant_machine
	rm -r "$tmp/machine/sys/class/misc"
	expect 1 namctl doctor verbs --root "$tmp/machine"
	says "modprobe rdma_ucm"
	expect 1 namctl doctor verbs --root "$tmp/nothing"
	says "there is no RDMA device"
}

test_no_server() {
	expect 3 namctl --cluster "$(nam_server_nobody)" status
	says "$(nam_server_nobody)"
}

test_status() {
	expect 0 namctl index list
	expect 0 namctl status
	says "$(nam_server_address 0)"
	says "$(nam_server_address 1)"
	# No client is there that fences the one that has ended.
	[[ $out != *"is not dead"* ]] || fail "an alarm: $out"
	expect 0 namctl --json status
	json '[s["id"] for s in r["servers"]] == [0, 1]'
	json "all(s['alive'] and s['memory_bytes'] == $megabytes << 20 for s in r['servers'])"
}

test_index_commands() {
	expect 0 namctl index create one
	expect 4 namctl index create one
	says "NAM_E_INDEX_EXISTS"
	expect 0 namctl index create two --non-unique --key-bytes 16 --node-bytes 512
	expect 0 namctl index list
	prints $'one\ntwo'
	expect 0 namctl --json index list
	says '"two"'
	expect 0 namctl index stat two
	says "non-unique"
	expect 0 namctl --json index stat two
	says '"key_bytes":	16'
	expect 0 namctl index verify one
	expect 0 namctl gc one
	expect 5 namctl index stat three
	says "three"
	expect 5 namctl get three 1
	expect 5 namctl index drop three
	expect 0 namctl index drop two
	expect 0 namctl index drop one
	expect 0 namctl index list
	prints ""
	expect 2 namctl index create "two words"
}

test_points() {
	local key
	namctl --quiet index create points || fail "create points"
	for key in 5 3 18446744073709551615 0 9; do
		expect 0 namctl put points $key ${#key}
	done
	expect 0 namctl get points 5
	prints 1
	expect 0 namctl put points 5 55
	expect 0 namctl get points 5
	prints 55
	expect 4 namctl put --new points 5 66
	says "exists already"
	expect 1 namctl get points 4
	says "no such key"
	expect 1 namctl --quiet get points 4
	[ -z "$out$err" ] || fail "--quiet said $out$err"
	expect 0 namctl --json get points 18446744073709551615
	says 18446744073709551615
	expect 2 namctl get points five
	says "'five' is not a whole number"
	expect 2 namctl put points 5 -1
	expect 2 namctl --key-type text get points 123456789
	says "has 9 bytes and the index's keys have 8 (NAM_E_KEY_BYTES)"
	says "9 bytes"
	expect 0 namctl range points - -
	[ "$(cut -f1 <<<"$out" | tr '\n' ' ')" = "0 3 5 9 18446744073709551615 " ] ||
		fail "range: $out"
	expect 0 namctl range points 3 9
	[ "$(cut -f1 <<<"$out" | tr '\n' ' ')" = "3 5 9 " ] || fail "range 3 9: $out"
	expect 0 namctl range points 3 9 --reverse --limit 2
	[ "$(cut -f1 <<<"$out" | tr '\n' ' ')" = "9 5 " ] || fail "range downwards: $out"
	expect 2 namctl range points 9 3
	expect 0 namctl --json range points 3 9
	json '[p["key"] for p in r["pairs"]] == [3, 5, 9] and r["count"] == 3'
	expect 0 namctl --json range points 10 11
	json 'r["pairs"] == []'
	expect 0 namctl delete points 3
	expect 1 namctl delete points 3
	says "3: no such key"
	expect 1 namctl delete points 5 999
	says "5: no such pair: the key is not there, or not with payload 999 (NAM_E_NOTFOUND)"
	expect 0 namctl delete points 5 55
	expect 0 namctl index verify points
	namctl --quiet index drop points
}

# RPCs by each transport; the option overrides the environment.
test_transports() {
	local transport

	for transport in srq mailbox fetch; do
		export NAM_TRANSPORT=pigeon
		expect 0 namctl --transport $transport status
		says "$(nam_server_address 1)"
		expect 0 namctl --transport $transport index create asked --design coarse
		expect 0 namctl --transport $transport put asked 7 77
		expect 0 namctl get asked 7 --transport $transport
		prints 77
		expect 0 namctl --transport $transport index drop asked
		unset NAM_TRANSPORT
	done
}

test_text_keys() {
	namctl --quiet index create words --key-bytes 12 || fail "create words"
	expect 0 namctl put words pear 1
	expect 0 namctl put words apple 2
	expect 0 namctl range words - -
	prints $'apple\t2\npear\t1'
	expect 0 namctl --key-type hex range words - - --limit 1
	prints $'6170706c6500000000000000\t2'
	expect 0 namctl --key-type hex get words 6170706c6500000000000000
	prints 2
	expect 2 namctl --key-type hex get words 6170706c65
	says "has 5 bytes and the index's keys have 12: write 24 hexadecimal digits"
	expect 2 namctl put words "much too long a key" 3
	says "12"
	namctl --quiet index drop words
}

# Any byte may be in a key: what range prints, load reads, and JSON is JSON.
test_strange_keys() {
	namctl --quiet index create strange --key-bytes 16 || fail "create strange"
	namctl --quiet index create again --key-bytes 16 || fail "create again"
	{
		for ((i = 0; i < 256; i++)); do
			printf '61%02x\t%d\n61%02x62\t%d\n' $i $i $i $((i + 1000))
		done
		printf '5c783431\t1\n00\t2\n'
	} | while IFS=$'\t' read -r key payload; do
		printf '%s%0*d\t%d\n' "$key" $((32 - ${#key})) 0 "$payload"
	done >"$tmp/strange.tsv"
	expect 0 namctl --key-type hex load strange "$tmp/strange.tsv"
	namctl range strange - - >"$tmp/strange.text"
	expect 0 namctl load again "$tmp/strange.text"
	cmp -s <(namctl --key-type hex range strange - -) \
		<(namctl --key-type hex range again - -) ||
		fail "the pairs of a range, loaded again, differ"
	expect 0 namctl put again 'a\\b' 7
	expect 0 namctl --key-type hex get again 615c6200000000000000000000000000
	prints 7
	expect 0 namctl get again 'a\x5cb'
	prints 7
	expect 2 namctl get again 'a\b'
	says "backslash"
	expect 0 namctl --json range strange - -
	json 'len(r["pairs"]) == r["count"] == 514'
	expect 2 namctl --key-type u64 range strange - -
	says "--key-type text or hex"
	expect 2 namctl --key-type u64 --json range strange - -
	namctl --quiet index drop strange
	namctl --quiet index drop again
}

# Told to end, load finishes what it has begun, says so, and leaves no lock behind.
test_load_is_told_to_end() {
	local signal number status pid i
	namctl --quiet index create ended || fail "create ended"
	seq 1 "$long" | awk '{ print $1 * 7 "\t" $1 }' >"$tmp/ascending.tsv"
	tac "$tmp/ascending.tsv" >"$tmp/descending.tsv"
	for signal in TERM HUP; do
		number=$(kill -l $signal)
		namctl load ended "$tmp/descending.tsv" >"$tmp/load.out" 2>"$tmp/err" &
		pid=$!
		for ((i = 0; i < 500; i++)); do
			[ -z "$(namctl range ended - - --limit 1)" ] || break
			sleep 0.01
		done
		kill -$signal $pid
		status=0
		wait $pid || status=$?
		out=$(cat "$tmp/load.out") err=$(cat "$tmp/err")
		[ $status -eq $((128 + number)) ] || fail "load ended with $status: $out $err"
		says "ended by signal $number: "
		expect 0 namctl index verify ended
		out=$(namctl range ended - - | wc -l) err=$(cat "$tmp/load.out")
		says " $out of $long pairs loaded"
		namctl --quiet index drop ended
		namctl --quiet index create ended
	done
	namctl --quiet index drop ended
}

# In bulk the same, and the index stays empty.  It is quick, even with nodes so small, so it may
# take several attempts.
test_bulk_load_is_told_to_end() {
	local attempt i pid status before
	head -"$bulk" "$tmp/ascending.tsv" >"$tmp/bulk.tsv"
	for ((attempt = 0; attempt < 20; attempt++)); do
		namctl --quiet index create ended \
			--key-bytes 16 --node-bytes 256 || fail "create ended"
		before=$(memory_taken)
		namctl load ended --key-type u64 "$tmp/bulk.tsv" \
			>"$tmp/load.out" 2>"$tmp/load.err" &
		pid=$!
		# It stands still while it is looked at, or it would be through by then.
		for ((i = 0; i < 500; i++)); do
			kill -STOP $pid 2>"$tmp/kill"
			[ "$(memory_taken)" = "$before" ] || break
			kill -CONT $pid 2>"$tmp/kill"
			sleep 0.002
		done
		kill -TERM $pid 2>"$tmp/kill"
		kill -CONT $pid 2>"$tmp/kill"
		status=0
		wait $pid || status=$?
		out=$(cat "$tmp/load.out") err=$(cat "$tmp/load.err")
		expect 0 namctl index verify ended
		grep -q ": 0 of" "$tmp/load.out" && break
		namctl --quiet index drop ended
	done
	out=$(cat "$tmp/load.out") err=$(cat "$tmp/load.err")
	[ $status -eq 143 ] || fail "bulk load ended with $status: $out $err"
	says "ended by signal 15: 0 of $bulk pairs"
	expect 0 namctl range ended - -
	prints ""
	expect 0 namctl put ended 1 1
	namctl --quiet index drop ended
}

# How much memory has been handed out, by all servers.
memory_taken() {
	namctl --json status | grep -E 'carved_bytes|free_bytes' | tr -d '\n'
}

test_output_is_full() {
	[ -w /dev/full ] || return 0
	namctl --quiet index create full || fail "create full"
	seq 1 5000 | awk '{ print $1 "\t" $1 }' | namctl --quiet load full - || fail "load full"
	for words in "--help" "--version" "status" "--json status" "range full - -" "get full 5" \
		"index list"; do
		# shellcheck disable=SC2086
		expect 1 sh -c 'namctl "$@" >/dev/full' sh $words
		says "standard output cannot be written"
	done
	namctl --quiet index drop full
}

test_load() {
	namctl --quiet index create many || fail "create many"
	seq 1 50000 | awk '{ print $1 * 3 "\t" $1 }' >"$tmp/sorted.tsv"
	expect 0 namctl load many "$tmp/sorted.tsv"
	says "50000 of 50000 pairs loaded (bulk)"
	expect 0 namctl range many - -
	cmp -s <(echo "$out") "$tmp/sorted.tsv" || fail "what was loaded in bulk differs"
	seq 1 5000 | awk '{ print ($1 * 7919 % 5000) * 3 + 1 "\t" $1 }' >"$tmp/shuffled.tsv"
	expect 0 namctl load many "$tmp/shuffled.tsv"
	says "5000 of 5000 pairs loaded (insert)"
	expect 0 namctl range many - -
	cmp -s <(echo "$out") <(sort -n "$tmp/sorted.tsv" "$tmp/shuffled.tsv") ||
		fail "what was inserted differs"
	expect 4 namctl load many - < <(printf '7000001\t1\n3\t77\n')
	says "standard input:2"
	expect 0 namctl get many 3
	prints 1
	expect 0 namctl load --replace many - < <(printf '3\t77\n')
	expect 0 namctl get many 3
	prints 77
	expect 0 namctl --json load --replace many - </dev/null
	says '"lines":	0'
	expect 0 namctl index verify many
	namctl --quiet index drop many
	expect 0 namctl status
	says "free blocks; runs of them serve other sizes when memory is short"
}

# Nothing of a malformed file is loaded, and the message says where to look.
test_malformed() {
	namctl --quiet index create strict || fail "create strict"
	printf '1\t1\n2\t2\nthree\t3\n' >"$tmp/key.tsv"
	printf '1\t1\n2 2\n' >"$tmp/tab.tsv"
	printf '1\t1\n2\t2\r\n' >"$tmp/cr.tsv"
	expect 2 namctl load strict "$tmp/key.tsv"
	says "key.tsv:3: "
	expect 2 namctl load strict "$tmp/tab.tsv"
	says "tab.tsv:2: there is no tab"
	expect 2 namctl load strict "$tmp/cr.tsv"
	says "carriage return"
	expect 2 namctl load strict "$tmp/no-such-file.tsv"
	says "no-such-file.tsv"
	expect 0 namctl range strict - -
	prints ""
	namctl --quiet index drop strict
}

test_non_unique() {
	namctl --quiet index create multi --non-unique || fail "create multi"
	for ((i = 0; i < 3000; i++)); do
		printf '%d\t%d\n' $((i % 3)) $i
	done >"$tmp/multi.tsv"
	expect 0 namctl load multi "$tmp/multi.tsv"
	expect 0 namctl get multi 1
	[ "$(wc -l <<<"$out")" -eq 1000 ] || fail "get of a key with 1000 payloads"
	expect 4 namctl put --new multi 1 1
	expect 0 namctl put multi 1 1
	expect 2 namctl delete multi 1
	says "not unique"
	expect 0 namctl delete multi 1 1
	expect 1 namctl delete multi 1 1
	says "1: no such pair"
	expect 0 namctl index verify multi
	namctl --quiet index drop multi
}

# A memory server that comes back is empty: what had nodes there can be dropped, and no more.
test_lost() {
	local first second
	first=$(nam_server_address 0)
	second=$(nam_server_address 1)
	namctl --quiet index create wide || fail "create wide"
	seq 1 5000 | awk '{ print $1 "\t" $1 }' | namctl --quiet load wide - || fail "load wide"
	# A stopped server may still have its memory.
	kill -STOP "${nam_server_pids[1]}"
	expect 3 namctl --timeout-ms $((1000 * ${NAM_TEST_SLOWNESS:-1})) status
	grep -q "^1 *$second *silent: " <<<"$out" || fail "no silent server in: $out"
	kill -CONT "${nam_server_pids[1]}"
	expect 0 namctl status
	kill -KILL "${nam_server_pids[1]}"
	wait "${nam_server_pids[1]}" 2>/dev/null
	unset "nam_server_pids[1]"
	# Only status works: it shows the live servers.
	expect 3 namctl status
	grep -q "^0  *$first .* $megabytes.0 MiB" <<<"$out" || fail "no living server in: $out"
	grep -q "^1 *$second *dead: no memory server answers" <<<"$out" ||
		fail "no dead server in: $out"
	prints_once "$second: "
	expect 3 namctl --cluster "$second,$first" --json status
	json '[s["alive"] for s in r["servers"]] == [False, True]'
	json 'r["servers"][0]["error"] == "NAM_E_FABRIC_CONNECT" and r["servers"][0]["message"]'
	json "r['servers'][1]['memory_bytes'] == $megabytes << 20"
	expect 3 namctl index list
	prints_once "$second: "
	nam_server_start 1 "${memory[@]}" || fail "server 1 again"
	expect 6 namctl get wide 1
	says NAM_E_LOST
	expect 0 namctl --json index drop wide
	says "cannot be found, and stay allocated"
	json 'r == {"dropped": "wide", "nodes_left": True, "blocks_lost": 0, "blocks_waiting": 0}'
	expect 5 namctl index drop wide
}

# Full memory is status 6, and the index stays empty; a dead server is status 3, soon.
test_full_and_dead() {
	namctl --quiet index create big || fail "create big"
	seq 1 "$full" | awk '{ print $1 "\t" $1 }' >"$tmp/big.tsv"
	expect 6 timeout 100 namctl load big "$tmp/big.tsv"
	says NAM_E_REMOTE_FULL
	expect 0 namctl range big - - --limit 1
	prints ""
	nam_servers_kill
	expect 3 timeout 10 namctl status
}

# Pairs of a load that is told to end, of one in bulk, and more than there is memory for.
long=$(nam_scaled 1500000 220000)
bulk=$(nam_scaled 800000 200000)
full=$(nam_scaled 2000000 500000)
megabytes=$(nam_scaled 64 16)
memory=(--memory "${megabytes}M" --region $((megabytes / 2))M --pages 4k)
nam_servers_start 2 "${memory[@]}" || exit 1
export NAM_CLUSTER=
test_usage
test_doctor
test_no_server
export NAM_CLUSTER=$cluster
test_status
test_index_commands
test_points
test_transports
test_text_keys
test_strange_keys
test_load
test_load_is_told_to_end
test_bulk_load_is_told_to_end
test_output_is_full
test_malformed
test_non_unique
test_lost
nam_servers_stop || fail "the servers did not end well"
rm -f "$tmp"/server*.log
nam_servers_start 2 --memory $((megabytes / 4))M --region $((megabytes / 8))M --pages 4k || exit 1
test_full_and_dead
finish "namctl: all as it should be"
