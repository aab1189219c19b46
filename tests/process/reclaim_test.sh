#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory comes back for other uses: fill with one kind, drop, fill with another kind, many times.
# If a client is stopped, it does not, and the message names that client.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

pairs=900000
brief=(--timeout-ms 1000)	# of waits for clients that are stopped, which end in no other way

# index_fill DESIGN: more than half of the memory.
index_fill() {
	expect 0 namctl index create filling --design "$1"
	expect 0 namctl load filling "$tmp/pairs"
	expect 0 namctl get filling 77
	prints 77
}

# kv_fill [MEMORY]
kv_fill() {
	expect 0 namctl kv create filling --memory "${1:-24M}"
	expect 0 namctl kv put filling key value
	expect 0 namctl kv get filling key
	prints value
}

# fill_in_turns ROUND...: by four kinds.
fill_in_turns() {
	local round

	nam_servers_start 2 --memory 16M --region 1M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	for round; do
		case $((round % 4)) in
		0) index_fill hybrid ;;
		2) index_fill coarse ;;
		*) index_fill fine ;;
		esac
		expect 0 namctl index drop filling
		if [ "$round" -eq 5 ]; then
			# Fibers put new records side by side.
			expect 0 nam-bench ramp --keys 30k --seconds 0.05 --fibers 16
		fi
		kv_fill
		expect 0 namctl kv drop filling
		expect 0 namctl status --json
		json 'all(s["carved_bytes"] == s["free_bytes"] for s in r["servers"])'
	done
	nam_servers_stop || fail "the servers did not end well"
}

fill_while_a_client_is_stopped() {
	local pid

	nam_servers_start 2 --memory 16M --region 1M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	index_fill fine
	expect 0 namctl index drop filling
	nam-bench raw --memory 1M --seconds 1000 --quiet &
	pid=$!
	value=True
	while [ "$value" = True ] && kill -0 $pid; do
		expect 0 namctl status --json
		python json 'all(s["carved_bytes"] == s["free_bytes"] for s in r["servers"])'
	done
	kill -STOP $pid
	expect 6 namctl "${brief[@]}" kv create filling --memory 24M
	says "(nam-bench, pid $pid) has not looked at the epoch"
	says "try again"
	kill -CONT $pid
	kv_fill
	kill $pid
	wait $pid
	nam_servers_stop || fail "the servers did not end well"
}

# is_used: the bytes that are in use, without those that wait.
is_used() {
	expect 0 namctl status --json
	python json 'sum(s["carved_bytes"] - s["free_bytes"] - s["waiting_bytes"]
		for s in r["servers"])'
}

# drop_while_a_client_is_stopped HOW...: what is dropped under its eyes comes back when it goes on,
# or ends.
drop_while_a_client_is_stopped() {
	local pid before how

	nam_servers_start 2 --memory 16M --region 1M --pages 4k || exit 1
	export NAM_CLUSTER=$cluster
	for how; do
		is_used
		[ "$value" -eq 0 ] || fail "$value bytes are used in the beginning"
		index_fill fine
		is_used
		before=$value
		nam-bench raw --memory 1M --seconds 1000 --quiet &
		pid=$!
		while [ "$value" -eq "$before" ] && kill -0 $pid; do
			is_used
		done
		kill -STOP $pid
		expect 0 namctl "${brief[@]}" --json index drop filling
		json 'r["blocks_lost"] == 0 and r["blocks_waiting"] > 10000'
		says "blocks cannot be used yet: client "
		says "(nam-bench, pid $pid) has not looked at the epoch"
		expect 0 namctl status --json
		json 'sum(s["waiting_bytes"] for s in r["servers"]) > 10000000'
		expect 0 namctl status
		says " of the rest wait for operations that may still read them"
		expect 6 namctl "${brief[@]}" kv create filling --memory 16M
		says "(nam-bench, pid $pid) has not looked at the epoch"
		# The blocks that a killed client has stay allocated, in some of the regions.
		[ "$how" != end ] || kill -KILL $pid
		kill -CONT $pid
		kv_fill 16M
		expect 0 namctl kv drop filling
		expect 0 namctl status --json
		json 'all(s["waiting_bytes"] == 0 for s in r["servers"])'
		kill $pid 2>/dev/null
		wait $pid 2>/dev/null
	done
	nam_servers_stop || fail "the servers did not end well"
}

seq "$pairs" | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
# Ten times without a sanitizer; with one, once by each kind, on one fabric or the other.
if [ -z "${NAM_TEST_SANITIZE:-}" ]; then
	fill_in_turns 1 2 3 4 5 6 7 8 9 10
	NAM_TEST_FABRIC="tcp:127.0.0.1:0" fill_in_turns 2 4 5
else
	fill_in_turns 5
	NAM_TEST_FABRIC="tcp:127.0.0.1:0" fill_in_turns 2 4
fi
fill_while_a_client_is_stopped
drop_while_a_client_is_stopped go_on end
finish "memory came back each time, over two fabrics"
