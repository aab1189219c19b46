#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server add under load: reads and writes by YCSB's keys on fine and hybrid indexes, records
# and tables.  No operation fails, and new nodes and rows come to lie on the new memory server.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 128M --region 16M --pages 4k)

# Sets $value: the bytes in use on that memory server, as Python sees them.
used_on() {
	out=$(namctl --cluster "$(nam_server_address 0)" --json status)
	python json "sum(s['carved_bytes'] - s['free_bytes'] for s in r['servers']
		if s.get('id') == $1)"
}

add() {
	server_start 2 || fail "server 2"
	expect 0 namctl --cluster "$(nam_server_address 0)" server add "$(nam_server_address 2)"
	prints "memory server 2 has been added: view 3"
}

# holds MEMORY_SERVER BYTES: it has more than that in use.
holds() {
	used_on "$1" && [ "$value" -gt "$2" ]
}

# Blocks come to be in use on the new memory server, within 2 s.
allocated() {
	local began=$EPOCHREALTIME

	until_true holds 2 0
	awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {
		printf "blocks on the new memory server after %.2f s\n", b - a
		exit b - a > 2 }' || fail "no blocks there within 2 s"
}

# The longest operation of the client that has ended.  It depends on the machine: the simulator's
# scene view_in_time has the limit.
say_wait() {
	python json 'max(k["max"] for k in r["latency_by_kind_ns"].values()) / 1e6
		if "latency_by_kind_ns" in r else r["latency_ns"]["max"] / 1e6'
	echo "the longest operation took $value ms"
}

# grows STATUS COMMAND...: the client adds entries, so that much is in use when its run is on.
grows() {
	nam_servers_start 2 "${memory[@]}" || exit 1
	load_start "${@:2}"
	await holds 0 1500000 ||
		fail "'${*:2}' adds nothing: $value bytes, $(cat "$tmp/load.err")"
	add
	allocated
	load_end "$1"
	nam_servers_stop || fail "the servers did not end well"
}

# There are 5,000 records.
are_loaded() {
	out=$(namctl --cluster "$cluster" --json records list)
	python json '(r["record_stores"] or [""])[0]'
	[ -n "$value" ] || return 1
	out=$(namctl --cluster "$cluster" --json records stat "$value" 2>/dev/null) || return 1
	python json 'r["records"] == 5000'
	[ "$value" = True ]
}

# Versions of a record lie where its head is, so only new records go to a new memory server; of
# those see txn/records.
test_records() {
	nam_servers_start 2 "${memory[@]}" || exit 1
	load_start nam-bench ramp --cluster "$cluster" --keys 5k --read-ratio 50 \
		--transaction-size 2 --distribution zipfian --fibers 16 --seconds 600 --json -
	await are_loaded || fail "no records: $out, $(cat "$tmp/load.err")"
	add
	sleep 0.5
	load_end 130
	say_wait
	nam_servers_stop || fail "the servers did not end well"
}

both=$(nam_server_address 0),$(nam_server_address 1)
for design in fine hybrid; do
	grows 130 nam-bench index --design $design --cluster "$both" --keys 5k \
		--mix lookup=40,update=40,insert=20 --distribution zipfian --seconds 600 --json -
	json 'r["memservers"] == 3'
	say_wait
done
grows 0 table_load_tool "$both" 600 20
test_records
finish "memory servers come under load: all as it should be"
