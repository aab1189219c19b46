#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server move while clients are at work: the successor has the memory, and no operation
# fails.  Some moves are refused.  A mover is killed, or waits for a stopped client.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 128M --region 16M --pages 4k)
declare -A successors

move() {
	expect "$1" namctl --cluster "$(nam_server_address 0)" "${@:2}"
}

# successor_start NUMBER [ID [OPTION...]]: at the address of that number.
successor_start() {
	local number=$1 id=${2:-1}

	: >"$tmp/server$number.log"
	nam-memserver --insecure --listen "$(nam_server_address "$number")" --id "$id" --successor \
		"${memory[@]}" "${@:3}" >"$tmp/server$number.log" 2>&1 </dev/null 9>&- &
	successors[$number]=$!
	await grep -q "event=ready" "$tmp/server$number.log" ||
		fail "successor $number: $(cat "$tmp/server$number.log")"
}

successor_end() {
	kill -KILL "${successors[$1]}"
	wait "${successors[$1]}" 2>/dev/null
	unset "successors[$1]"
}

# at NUMBER: memory server 1 has its memory there.
at() {
	is_json "[s for s in r['servers'] if s.get('id') == 1 and s.get('member') == 'up' and
		s['address'] == '$(nam_server_address "$1")']" ||
		fail "memory server 1 is not at $1: $out"
}

# ---- under load ------------------------------------------------------------------------------

# To one successor after another; old processes are ended.
test_load() {
	hybrid_load_start
	for number in 2 3 4; do
		successor_start $number
		move 0 server move "$(nam_server_address $number)"
		says "the memory of memory server 1 has moved"
		echo "$out"
		at $number
		if [ $number -eq 2 ]; then
			server_end 1
		else
			successor_end $((number - 1))
		fi
		sleep 0.3
	done
	load_end 130
	expect 0 namctl --cluster "$(nam_server_address 4)" index verify held
	expect 0 namctl --cluster "$(nam_server_address 4)" index verify trees
	expect 0 namctl --cluster "$(nam_server_address 4)" get trees 5000
	prints 5000
}

# Versions of records are at both.
test_records() {
	load_start nam-bench ramp --cluster "$(nam_server_address 0)" --keys 5k --read-ratio 50 \
		--transaction-size 2 --fibers 8 --seconds 600 --json -
	until_json "r['view'].get('clients') == 1"
	sleep 1
	successor_start 5
	move 0 --json server move "$(nam_server_address 5)"
	json "r['id'] == 1 and r['moved'] and r['retired'] and r['bytes'] > 0"
	at 5
	move 0 --json server move "$(nam_server_address 5)"
	json "r['id'] == 1 and not r['moved']"
	sleep 0.5
	load_end 130
}

# ---- what is refused -------------------------------------------------------------------------

test_refused() {
	move 3 --timeout-ms 500 server move "$(nam_server_nobody)"
	move 2 server move
	move 2 server move "$cluster"
	says "one successor"
	# A member that is no successor.
	move 0 server move "$(nam_server_address 0)"
	says "memory server 0 has its memory there already"
	# No such member; other regions; the lead.
	successor_start 6 9
	move 2 server move "$(nam_server_address 6)"
	says "no member"
	successor_end 6
	successor_start 6 1 --region 32M
	move 2 server move "$(nam_server_address 6)"
	says "regions"
	successor_end 6
	# It serves no clients, and forms no cluster.
	successor_start 6
	expect 3 namctl --cluster "$(nam_server_address 6)" index list
	says "waits for the memory"
	at 5
}

# ---- ends at any time ------------------------------------------------------------------------

# The lead lets the clients go on when the mover's connection ends.
test_killed() {
	local mover

	client_start
	kill -STOP "$client"
	move 3 --timeout-ms 1000 server move "$(nam_server_address 6)"
	says "pid $client"
	at 5
	namctl --cluster "$(nam_server_address 0)" --timeout-ms 60000 server move \
		"$(nam_server_address 6)" >"$tmp/mover.out" 2>&1 9>&- &
	mover=$!
	until_json "[s for s in r['servers'] if s.get('member') == 'copying']"
	# Memory is copied only once the stopped client notes what it changes; others go on.
	expect 0 namctl --cluster "$(nam_server_address 0)" index verify held
	kill -KILL $mover
	wait $mover 2>/dev/null
	until_json "not [s for s in r['servers'] if s.get('member') == 'copying']"
	at 5
	expect 0 namctl --cluster "$(nam_server_address 0)" index list
	kill -CONT "$client"
	seq 1 2000 | awk '{ print $1 "\t" $1 }' >&9
	move 0 server move "$(nam_server_address 6)"
	at 6
	client_end
	expect 0 namctl --cluster "$(nam_server_address 6)" index verify held
	expect 0 namctl --cluster "$(nam_server_address 6)" get held 2000
	prints 2000
}

# Clients know where the pairs of such a store lie.
test_unmovable() {
	successor_start 7
	expect 0 namctl --cluster "$(nam_server_address 0)" kv create pairs \
		--engine cuckoo --onesided
	move 2 server move "$(nam_server_address 7)"
	says "cannot move"
	expect 0 namctl --cluster "$(nam_server_address 0)" kv drop pairs
	at 6
}

nam_servers_start 2 "${memory[@]}" || exit 1
expect 0 namctl --cluster "$cluster" index create held
test_load
test_records
test_refused
test_killed
test_unmovable
for number in "${!successors[@]}"; do
	successor_end "$number"
done
nam_servers_stop || fail "SIGTERM"
finish "server move: all as it should be"
