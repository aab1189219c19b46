#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server drain while clients are at work.  All memory of a process passes to processes with
# room for it, and no operation fails.  Some drains are refused, and a drain that is killed goes on.
# And namctl rebalance.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 64M --region 16M --pages 4k)

# spare_start ID SIZE: with room for so much more.
spare_start() {
	nam_server_start "$1" "${memory[@]}" --spare "$2" 9>&-
}

drain() {
	expect "$1" namctl --cluster "$(nam_server_address 0)" "${@:2}"
}

# in_process ID NUMBER: the memory of that member is in the process of that number.
in_process() {
	until_json "[s for s in r['servers'] if s.get('id') == $1 and s.get('member') == 'up' and
		s.get('pid') == ${nam_server_pids[$2]}]"
}

# Its memory goes where most is to spare; then the process ends, and the data is there.
test_load() {
	hybrid_load_start
	drain 0 server drain 1
	says "the memory of memory server 1 has moved to"
	says "can be ended"
	echo "$out"
	in_process 1 2
	# The id is with its memory; the address is the process's.
	drain 0 --json server drain "$(nam_server_address 1)"
	json "r['moves'] == []"
	# A list may name it as long as it names another one.
	expect 0 namctl --cluster "$(nam_server_address 1),$(nam_server_address 0)" index list
	server_end 1
	sleep 0.3
	# Two members are there.
	spare_start 3 128M
	expect 0 namctl --cluster "$(nam_server_address 0)" server add "$(nam_server_address 3)"
	drain 0 --json server drain 2
	json "[m['id'] for m in r['moves']] == [1, 2]"
	in_process 1 3
	in_process 2 3
	server_end 2
	sleep 0.3
	load_end 130
	expect 0 namctl --cluster "$(nam_server_address 0)" index verify held
	expect 0 namctl --cluster "$(nam_server_address 0)" index verify trees
	expect 0 namctl --cluster "$(nam_server_address 0)" get trees 5000
	prints 5000
}

# Pairs of both engines, short ones and long ones; every value is checked.
test_stores() {
	local engine number=4

	for engine in chained cuckoo; do
		load_start nam-bench kv --cluster "$(nam_server_address 0)" --engine $engine \
			--keys 3k --value-bytes mixed --get-percent 50 --fibers 4 --seconds 600 \
			--json -
		until_json "r['view'].get('clients') == 1"
		sleep 0.5
		spare_start $((number + 1)) $((number * 64))M
		expect 0 namctl --cluster "$(nam_server_address 0)" server add \
			"$(nam_server_address $((number + 1)))"
		drain 0 --json server drain $number
		json "len(r['moves']) == $number"
		server_end $number
		number=$((number + 1))
		sleep 0.3
		load_end 130
	done
}

test_refused() {
	drain 2 server drain
	drain 2 server drain "$(nam_server_nobody)"
	drain 2 server drain 9
	says "no memory server of this cluster has the id or the address 9"
	# The lead has 32 MiB, and no other process has room.
	drain 6 server drain 0
	says "Start a nam-memserver with enough --spare"
	drain 6 server drain 3
	says "Start a nam-memserver with enough --spare"
}

# A store for one-sided GETs does not move; all goes on where it is.
test_unmovable() {
	expect 0 namctl --cluster "$(nam_server_address 0)" kv create pairs \
		--engine cuckoo --onesided
	drain 2 server drain 6
	says "cannot move"
	in_process 6 6
	expect 0 namctl --cluster "$(nam_server_address 0)" kv drop pairs
}

# Six members are in one process; another one has room for all.
test_rebalance() {
	local pid

	spare_start 7 384M
	pid=${nam_server_pids[7]}
	expect 0 namctl --cluster "$(nam_server_address 0)" server add "$(nam_server_address 7)"
	drain 0 --json rebalance --dry-run
	json "r['dry_run'] and [m['bytes'] for m in r['moves']] == [64 << 20] * 2"
	is_json "[s['id'] for s in r['servers'] if s.get('pid') == $pid] == [7]" ||
		fail "a dry run moves memory: $out"
	load_start nam-bench index --cluster "$(nam_server_address 0)" --keys 5k \
		--mix lookup=50,update=50 --seconds 600 --fibers 4 --json -
	until_json "r['view'].get('clients') == 1"
	drain 0 --json rebalance
	json "not r['dry_run'] and len(r['moves']) == 2"
	is_json "len([s for s in r['servers'] if s.get('pid') == $pid]) == 3" ||
		fail "not three members: $out"
	drain 0 rebalance
	says "no move of memory that a process has taken would relieve it"
	load_end 130
	drain 2 rebalance 7
	expect 0 namctl --cluster "$(nam_server_address 0)" index verify held
}

# A client that is stopped delays the drain, which is killed then.
test_killed() {
	local drainer

	spare_start 4 192M
	expect 0 namctl --cluster "$(nam_server_address 0)" server add "$(nam_server_address 4)"
	client_start
	kill -STOP "$client"
	namctl --cluster "$(nam_server_address 0)" --timeout-ms 60000 server drain 3 \
		>"$tmp/drain.out" 2>&1 9>&- &
	drainer=$!
	until_json "[s for s in r['servers'] if s.get('member') == 'copying']"
	kill -KILL $drainer
	wait $drainer 2>/dev/null
	until_json "not [s for s in r['servers'] if s.get('member') == 'copying']"
	kill -CONT "$client"
	seq 1 2000 | awk '{ print $1 "\t" $1 }' >&9
	drain 0 --json server drain 3
	json "len(r['moves']) == 3"
	for id in 1 2 3; do
		in_process $id 4
	done
	server_end 3
	client_end
	expect 0 namctl --cluster "$(nam_server_address 0)" index verify held
	expect 0 namctl --cluster "$(nam_server_address 0)" get held 2000
	prints 2000
}

trap 'nam_servers_kill; nam_temporary_remove' EXIT
spare_start 0 32M || exit 1
spare_start 1 0 || exit 1
spare_start 2 64M || exit 1
cluster=$(nam_server_address 0),$(nam_server_address 1),$(nam_server_address 2)
expect 0 namctl --cluster "$cluster" index create held
test_load
test_refused
test_killed
test_stores
test_rebalance
test_unmovable
nam_servers_stop || fail "SIGTERM"
finish "server drain: all as it should be"
