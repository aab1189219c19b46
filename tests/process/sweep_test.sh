#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl sweep: after kills of clients each block is in an index or free again, to the block.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

superblock=2240			# NAM_SUPERBLOCK_STRIDE, of each index

# bytes_used: of clients, without those that wait for readers.
bytes_used() {
	expect 0 namctl status --json
	python json 'sum(m["carved_bytes"] - m["free_bytes"] - m["waiting_bytes"]
		for m in (s["memory"]["public"] for s in r["servers"]))'
}

# A client that fills an index and changes it is killed.
kill_one() {
	local pid

	nam-bench index --keep --design "$1" --keys 20k --seconds 100 \
		--mix insert=50,delete=20,lookup=30 --quiet >"$tmp/bench" 2>&1 &
	pid=$!
	sleep 1
	kill -KILL $pid
	wait $pid 2>/dev/null
	await is_dead $pid || fail "a killed client is not dead"
}

# is_dead PID: a later client has fenced it.
is_dead() {
	namctl index list >/dev/null
	out=$(namctl --json status)
	python json "not r['view']['clients'] and r['view'].get('fencing', {}).get('pid') != $1"
	[ "$value" = True ]
}

# Nodes are swept.  Superblocks are not, of which a client that makes an index has 15 in stock.
kills() {
	local design indexes=0 named freed name

	nam_servers_start 2 --memory 64M --region 8M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	for design in fine hybrid; do
		kill_one "$design"
		kill_one "$design"
		indexes=$((indexes + 2))
		expect 0 namctl sweep --dry-run --json
		json 'r["dry_run"] and r["freed_blocks"] > 10'
		python json 'r["freed_blocks"]'
		freed=$value
		expect 0 namctl sweep --json
		json "not r['dry_run'] and r['freed_blocks'] == $freed"
		json "r['indexes'] == $indexes"
		python json 'r["named_blocks"]'
		named=$value
		bytes_used
		[ "$value" = $((named * 1088 + indexes * 16 * superblock)) ] ||
			fail "$value bytes are used, by $named nodes of $indexes indexes"
		expect 0 namctl sweep
		says "0 blocks (0 B) are free"
	done
	expect 0 namctl index list
	for name in $out; do
		namctl index verify "$name" >"$tmp/verified" 2>&1
		grep -q "all right\|every invariant" "$tmp/verified" || fail "$(<"$tmp/verified")"
		expect 0 namctl index drop "$name"
	done
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
	kill -CONT $pid
	expect 0 namctl sweep
	kill $pid
	wait $pid
	expect 2 namctl sweep now
	nam_servers_stop || fail "the servers did not end well"
}

python_start
kills
[ -z "${NAM_TEST_SANITIZE:-}" ] || finish "sweep: all as it should be"
test_stopped
NAM_TEST_FABRIC=tcp:127.0.0.1:0 kills
finish "sweep: all as it should be"
