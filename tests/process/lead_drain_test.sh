#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server drain of the lead, and server move of it, while clients are at work: its memory and
# its role pass to another process, and no operation fails.  Some drains are refused, and one that
# is killed half-way goes on.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 64M --region 32M --pages 4k)
lead=0

ctl() {
	expect "$1" namctl --cluster "$(nam_server_address "$seed")" "${@:2}"
}

# status_until CONDITION, by the seed.
status_is() {
	out=$(namctl --cluster "$(nam_server_address "$seed")" --json status 2>/dev/null)
	python json "bool($1)"
	[ "$value" = True ]
}

status_until() {
	await status_is "$1" ||
		fail "never $1: $(namctl --cluster "$(nam_server_address "$seed")" status)"
}

# lead_at NUMBER: the lead is in the process of that number.
lead_at() {
	status_until "[s for s in r['servers'] if s.get('id') == 0 and s.get('member') == 'up' and
		s.get('pid') == ${nam_server_pids[$1]}]"
}

work_start() {
	load_start nam-bench index --cluster "$(nam_server_address "$seed")" --keys 5k \
		--mix lookup=50,update=50 --seconds 600 --fibers 4 --json -
	status_until "r['view'].get('clients') == 1"
	sleep 0.3
}

test_refused() {
	ctl 6 server drain 0
	says "Start a nam-memserver with enough --spare"
	nam_server_start 1 "${memory[@]}" --spare 256M
	ctl 0 server add "$(nam_server_address 1)"
	ctl 0 index create trees --design coarse
	ctl 2 server drain 0
	says "the lead keeps parts of indexes with trees"
	ctl 0 index drop trees
	ctl 0 kv create pairs --memory 1M --partitions 2
	ctl 2 server drain 0
	says "key-value stores"
	ctl 0 kv drop pairs
	lead_at 0
	# It goes on as it was, without a backup.
	ctl 0 --json status
	json "not [s for s in r['servers'] if s.get('backup')]"
}

# The new lead is in the process of memory server 1; then the old process ends.
test_load() {
	work_start
	ctl 0 --json server drain 0
	json "[m['id'] for m in r['moves']] == [0]"
	echo "clients waited for $(namctl_waited) ms"
	seed=1
	lead_at 1
	# The old process lives: a client that knows it alone is told so.
	expect 3 namctl --cluster "$(nam_server_address 0)" index list
	says "has passed to another process"
	expect 0 namctl --cluster "$(nam_server_address 0),$(nam_server_address 1)" index list
	expect 0 namctl --cluster "$(nam_server_address 1)" server drain "$(nam_server_address 0)"
	says "can be ended"
	expect 0 namctl --cluster "$(nam_server_address 1)" index list
	ctl 2 server promote 0
	nam_server_end_gently 0
	sleep 0.3
	load_end 130
	ctl 0 index verify held
	ctl 0 get held 7
	prints 7
}

# The lead is hosted now; its process has another member, too.
test_hosted() {
	nam_server_start 2 "${memory[@]}" --spare 128M
	ctl 0 server add "$(nam_server_address 2)"
	work_start
	ctl 0 server drain "$(nam_server_address 1)"
	says "the memory of memory server 0 has moved"
	says "the memory of memory server 1 has moved"
	seed=2
	lead_at 2
	ctl 0 --json server drain "$(nam_server_address 1)"
	json "r['moves'] == []"
	nam_server_end_gently 1
	load_end 130
	ctl 0 index verify held
}

# To a process of its own.
test_moved() {
	local address

	address=$(nam_server_address 5)
	nam-memserver --insecure --listen "$address" --id 0 "${memory[@]}" --successor \
		>"$tmp/server5.log" 2>&1 &
	nam_server_pids[5]=$!
	await grep -q ready "$tmp/server5.log" || fail "no successor"
	work_start
	ctl 0 --json server move "$address"
	json "r['moved'] and r['retired'] and r['id'] == 0"
	ctl 0 --json server move "$address"
	json "not r['moved']"
	seed=5
	lead_at 5
	load_end 130
	ctl 0 index verify held
	ctl 0 get held 7
	prints 7
}

namctl_waited() {
	python json "round(r['moves'][0]['stopped_us'] / 1000)"
	echo "$value"
}

nam_server_end_gently() {
	kill -TERM "${nam_server_pids[$1]}"
	wait "${nam_server_pids[$1]}" || fail "the old process ended with $?"
	unset "nam_server_pids[$1]"
}

trap 'nam_servers_kill; nam_temporary_remove' EXIT
seed=$lead
server_start 0 || exit 1
ctl 0 index create held
ctl 0 put held 7 7
test_refused
test_load
test_hosted
test_moved
nam_servers_stop || fail "SIGTERM"
finish "lead drain: all as it should be"
