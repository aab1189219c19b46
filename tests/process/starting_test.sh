#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A memory server that populates its memory answers at once: its state, clients wait for it, and
# it ends when it is told to.  Signals of terminals do not end a server.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

trap 'nam_servers_kill; nam_temporary_remove' EXIT
cluster=$(nam_server_address 0)

# start_server: in the background; it has the address when this returns, and not yet the memory.
start_server() {
	local waited

	nam-memserver --listen "$cluster" --memory 2G --pages 4k \
		>"$tmp/server0.log" 2>&1 </dev/null &
	nam_server_pids[0]=$!
	for ((waited = 0; waited < 300; waited++)); do
		out=$(namctl --json --cluster "$cluster" status 2>/dev/null)
		[[ $out == *NAM_E_FABRIC_CONNECT* ]] || return 0
		sleep 0.01
	done
	fail "no memory server has taken the address: $out"
}

start_server
json 'r["servers"][0]["state"] == "starting"'
json 'r["servers"][0]["memory_bytes"] == 2 << 30'
json 'r["servers"][0]["ready_bytes"] < 2 << 30'
expect 0 namctl --cluster "$cluster" index create early
says "created early"
grep -q "server 0 ready" "$tmp/server0.log" || fail "the client did not wait"
kill -HUP "${nam_server_pids[0]}"
expect 0 namctl --cluster "$cluster" index list
says early
nam_servers_stop || fail "a server that got SIGHUP ended badly"

start_server
json 'r["servers"][0]["state"] == "starting"'
before=$(date +%s%N)
nam_servers_stop || fail "a starting server ended badly"
took=$((($(date +%s%N) - before) / 1000000))
! grep -q ready "$tmp/server0.log" || fail "it populated its memory before it ended"
finish "a starting server answered, was waited for, and ended in $took ms when told to"
