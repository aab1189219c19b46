#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server remove: a memory server that has ended goes out of the view, beside a client that
# works on.  Refusals name what is missing.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 64M --region 32M --pages 4k)
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

ctl() {
	expect "$1" namctl --cluster "$(nam_server_address 0)" "${@:2}"
}

test_last() {
	ctl 2 server remove 0
	says "memory server 0 is the only one of the cluster"
}

test_refused() {
	ctl 2 server remove
	ctl 2 server remove one
	ctl 2 server remove 9
	says "no memory server 9"
	ctl 2 server remove 300
	says "ids of memory servers are 0 to 255"
	ctl 2 server remove 0
	says "memory server 0 is the lead"
	says "namctl server drain 0"
	ctl 2 server remove 1
	says "has memory of the cluster"
	says "namctl server drain 1"
	kill -STOP "${nam_server_pids[1]}"
	ctl 3 --timeout-ms 300 server remove 1
	says "is silent"
	kill -CONT "${nam_server_pids[1]}"
}

# Its memory lives elsewhere, so the id stays, and the process was no member before.
test_drained() {
	ctl 0 server drain 1
	ctl 0 --json server remove 1
	json "not r['removed'] and r['memory_at'] != '$(nam_server_address 1)'"
	ctl 0 server remove 1
	says "the memory is at"
	server_end 1
	ctl 0 get held 1
	prints 1
}

# Indexes made before have addresses there; others have not.
test_ended() {
	client_start
	server_end 3
	ctl 3 index list
	ctl 0 --json server remove 3
	json "r['removed'] and r['view'] > 0"
	ctl 0 --json server remove 3
	json "not r['removed']"
	ctl 0 server remove 3
	says "was removed before"
	ctl 0 --json status
	json "[s['id'] for s in r['servers']] == [0, 1, 2]"
	# The client that stays has followed.
	until_json "r['view']['acknowledged'] == r['view']['number']"
	client_end
	ctl 0 index list
	ctl 0 index create later --design coarse
	ctl 0 put later 1 2
	ctl 0 get later 1
	prints 2
	ctl 6 get before 1
	says "memory server 3 was removed since index 'before' was made"
	ctl 0 index drop before
	ctl 0 index drop nodes
	says "cannot be found"
	# It was made before, and some of its nodes are there.
	ctl 6 range scattered - -
	says "memory that no connected server has"
	ctl 6 sweep
	says "index 'scattered' cannot be read whole"
	ctl 0 index drop scattered
	ctl 6 kv get pairs 1
	says "Drop it"
	ctl 0 kv drop pairs
	ctl 0 --json sweep
	ctl 0 get held 1
	prints 1
}

# Pointers name regions by the id.
test_not_again() {
	server_start 3
	ctl 2 server add "$(nam_server_address 3)"
	says "the id 3, which one had that was removed"
	ctl 0 index list
	server_end 3
	server_start 4
	ctl 0 server add "$(nam_server_address 4)"
	ctl 0 --json status
	json "[s['id'] for s in r['servers']] == [0, 1, 2, 4]"
}

trap 'nam_servers_kill; nam_temporary_remove' EXIT
server_start 0 || exit 1
test_last
server_start 1 || exit 1
nam_server_start 2 "${memory[@]}" --spare 64M || exit 1
for id in 1 2; do
	ctl 0 server add "$(nam_server_address $id)"
done
ctl 0 index create held
ctl 0 index create scattered
ctl 0 put held 1 1
test_refused
test_drained
server_start 3 || exit 1
ctl 0 server add "$(nam_server_address 3)"
ctl 0 index create before --design coarse
ctl 0 index create nodes
ctl 0 kv create pairs
seq 1 9000 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
ctl 0 load scattered "$tmp/pairs"
test_ended
test_not_again
nam_servers_stop || fail "SIGTERM"
finish "server remove: all as it should be"
