#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server add while clients are at work: twice, after a restart, beside a stopped client, by
# two at once, after one that was killed.  And the output of namctl status about it.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"

# The view as JSON, and in words.
view() {
	expect 0 namctl --cluster "$(nam_server_address 0)" --json status
}

add() {
	local wanted=$1
	shift
	expect "$wanted" namctl --cluster "$(nam_server_address 0)" "$@"
}

# Members as ID:STATE.
members() {
	view
	python json '" ".join("%s:%s" % (s.get("id"), s.get("member", "-")) for s in r["servers"])'
	[ "$value" = "$1" ] || fail "the members should be '$1' and are '$value'"
}

# ---- status ----------------------------------------------------------------------------------

# To look forms no view, whatever the seeds.
test_status() {
	expect 0 namctl --cluster "$(nam_server_address 0)" status
	says "no view yet"
	members "0:-"
	json 'r["view"] == {"number": 0}'
	expect 0 namctl --cluster "$cluster" index create first
	view
	json 'r["view"]["number"] == 1 and r["view"]["lead"].endswith("server0")'
	# One seed shows all of them, in particular one that is not the lead.
	members "0:up 1:up"
	expect 0 namctl --cluster "$(nam_server_address 1)" status
	says "view 1, lead $(nam_server_address 0), 0 clients"
	grep -q "^1  *$(nam_server_address 1)  *up " <<<"$out" || fail "no server 1 in: $out"
	grep -q "^0  *$(nam_server_address 0)  *up " <<<"$out" || fail "no server 0 in: $out"
}

# ---- one addition ----------------------------------------------------------------------------

# The blocks of a client that was there before go to the new memory server, too.
test_add() {
	local i carved

	client_start
	# Its regions have another size than those of the others.
	nam_server_start 2 --memory 32M --region 4M --pages 4k 9>&- || fail "server 2"
	expect 2 namctl --cluster "$(nam_server_address 0),$(nam_server_address 2)" status
	says "namctl server add $(nam_server_address 2)"
	add 0 server add "$(nam_server_address 2)"
	prints "memory server 2 has been added: view 3"
	members "0:up 1:up 2:up"
	json 'r["view"]["number"] == 3'
	add 0 server add "$(nam_server_address 2)"
	prints "memory server 2 is a member already: view 3"
	add 0 --json server add "$(nam_server_address 0)"
	json "r == {'id': 0, 'address': '$(nam_server_address 0)', 'added': False, 'view': 3}"
	seq 1 20000 | awk '{ print $1 "\t" $1 }' >&9
	client_end
	carved=$(namctl --cluster "$(nam_server_address 2)" --json status |
		python3 -c 'import json, sys
print([s["carved_bytes"] for s in json.load(sys.stdin)["servers"] if s["id"] == 2][0])')
	[ "$carved" -gt 65536 ] || fail "only $carved bytes are in use at the new memory server"
	expect 0 namctl --cluster "$(nam_server_address 2)" index verify held
	expect 0 namctl --cluster "$(nam_server_address 1)" get held 20000
	prints 20000
}

# ---- what cannot be added --------------------------------------------------------------------

# alone_start ADDRESS ID OPTION...: a memory server beside the cluster; sets $pid.
alone_start() {
	: >"$tmp/twin.log"
	nam-memserver --listen "$1" --id "$2" "${memory[@]}" "${@:3}" >>"$tmp/twin.log" 2>&1 &
	pid=$!
	await grep -q ready "$tmp/twin.log" || fail "$1: $(cat "$tmp/twin.log")"
}

test_refused() {
	local twin=shm:$tmp/twin pid other

	add 3 --timeout-ms 500 server add "$(nam_server_nobody)"
	says "$(nam_server_nobody)"
	add 2 server add "$cluster"
	says "one at a time"
	add 2 server add "not an address"
	add 2 server add
	add 2 server remove
	add 2 server add "$(nam_server_address 1)" --limit 3
	add 2 server add tcp:127.0.0.1:9
	says "different fabrics (shm, tcp)"
	alone_start "$twin" 1
	add 2 server add "$twin"
	says "$twin has the id 1, as the one at $(nam_server_address 1)"
	kill -KILL $pid
	wait $pid 2>/dev/null
	# It waits for the memory of server 1, and serves no client before.
	alone_start "$twin" 1 --successor
	add 3 server add "$twin"
	says "the memory server waits for the memory of another one"
	expect 0 namctl --cluster "$(nam_server_address 0),$twin" status
	says "note: the memory server at $twin refused the connection"
	grep -q "^1  *$twin  *successor " <<<"$out" || fail "no successor in: $out"
	grep -q "^1  *$(nam_server_address 1)  *up " <<<"$out" || fail "no server 1 in: $out"
	expect 3 namctl --cluster "$(nam_server_address 0),$twin" index list
	kill -KILL $pid
	wait $pid 2>/dev/null
	# The lead of another cluster, and one of its members.
	alone_start "shm:$tmp/lead" 0
	server_start 7 || fail "server 7"
	expect 0 namctl --cluster "shm:$tmp/lead,$(nam_server_address 7)" index create theirs
	add 2 server add "$(nam_server_address 7)"
	says "belongs to the cluster of the memory server at shm:$tmp/lead"
	add 2 server add "shm:$tmp/lead"
	says "$tmp/lead"
	# A third lead, whose first client names that member.
	other=$pid
	alone_start "shm:$tmp/third" 0
	expect 2 namctl --cluster "shm:$tmp/third,$(nam_server_address 7)" index list
	says "belongs to the cluster of the memory server at shm:$tmp/lead"
	kill -KILL $pid $other
	wait $other 2>/dev/null
	wait $pid 2>/dev/null
	# The lead has gone, and its cluster with it.  The member has names of that one's clients.
	add 2 server add "$(nam_server_address 7)"
	says "or of another cluster. Restart it, and add it again"
	server_end 7
	server_start 7 || fail "server 7, again"
	add 0 server add "$(nam_server_address 7)"
	members "0:up 1:up 2:up 7:up"
}

# ---- clients that lag ------------------------------------------------------------------------

test_stopped_client() {
	client_start
	kill -STOP "$client"
	server_start 3 || fail "server 3"
	add 3 --timeout-ms 500 server add "$(nam_server_address 3)"
	grep -Eq "client [0-9]+ \(namctl, pid $client\) has not acknowledged view" <<<"$err" ||
		fail "which client? $err"
	members "0:up 1:up 2:up 3:joining 7:up"
	json "r['view']['delaying']['pid'] == $client and r['view']['delaying']['name'] == 'namctl'"
	expect 0 namctl --cluster "$cluster" status
	grep -Eq "^view [0-9]+, lead .*, 1 client, client [0-9]+ \(namctl, pid $client\) delays" \
		<<<"$out" || fail "which client? $out"
	# A client may come meanwhile.
	expect 0 namctl --cluster "$cluster" get held 7
	prints 7
	client_end
	add 0 server add "$(nam_server_address 3)"
	prints "memory server 3 has been added: view $(view_number)"
	members "0:up 1:up 2:up 3:up 7:up"
}

view_number() {
	namctl --cluster "$(nam_server_address 0)" --json status |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["view"]["number"])'
}

# ---- ends at any time ------------------------------------------------------------------------

# With a client that lags, an addition stays where it is.
test_killed() {
	local pid

	client_start
	kill -STOP "$client"
	server_start 4 || fail "server 4"
	namctl --cluster "$(nam_server_address 0)" --timeout-ms 60000 server add \
		"$(nam_server_address 4)" >"$tmp/adder.out" 2>&1 9>&- &
	pid=$!
	until_json "[s for s in r['servers'] if s.get('id') == 4 and s.get('member') == 'joining']"
	kill -KILL $pid
	wait $pid 2>/dev/null
	members "0:up 1:up 2:up 3:up 4:joining 7:up"
	# The memory server was restarted: the addition begins anew.
	server_end 4
	server_start 4 || fail "server 4 anew"
	add 3 --timeout-ms 1000 server add "$(nam_server_address 4)"
	says "pid $client"
	# It has ended: an addition of any other goes on without it.
	server_end 4
	server_start 5 || fail "server 5"
	add 3 --timeout-ms 1000 server add "$(nam_server_address 5)"
	members "0:up 1:up 2:up 3:up 5:joining 7:up"
	server_end 5
	add 3 server add "$(nam_server_address 5)"
	members "0:up 1:up 2:up 3:up 7:up"
	# It ends while a process waits for clients.
	server_start 5 || fail "server 5 anew"
	namctl --cluster "$(nam_server_address 0)" --timeout-ms 60000 server add \
		"$(nam_server_address 5)" >"$tmp/adder.out" 2>&1 9>&- &
	pid=$!
	until_json "[s for s in r['servers'] if s.get('id') == 5 and s.get('member') == 'joining']"
	server_end 5
	wait $pid
	[ $? -eq 3 ] || fail "the addition of what has ended: $(cat "$tmp/adder.out")"
	members "0:up 1:up 2:up 3:up 7:up"
	client_end
	add 3 server add "$(nam_server_address 5)"
}

# Each addition ends the one that it meets, and then its own.
test_two_at_once() {
	local first second

	server_start 4 || fail "server 4"
	server_start 5 || fail "server 5"
	client_start
	kill -STOP "$client"
	namctl --cluster "$cluster" --timeout-ms 60000 server add "$(nam_server_address 4)" \
		>"$tmp/first.out" 2>&1 9>&- &
	first=$!
	namctl --cluster "$cluster" --timeout-ms 60000 server add "$(nam_server_address 5)" \
		>"$tmp/second.out" 2>&1 9>&- &
	second=$!
	until_json "[s for s in r['servers'] if s.get('member') == 'joining']"
	client_end
	wait $first || fail "first: $(cat "$tmp/first.out")"
	wait $second || fail "second: $(cat "$tmp/second.out")"
	members "0:up 1:up 2:up 3:up 4:up 5:up 7:up"
}

# A member that was restarted at its address is added again: clients connect anew.
test_restarted_member() {
	server_end 5
	server_start 5 || fail "server 5 anew"
	add 0 server add "$(nam_server_address 5)"
	says "has been added"
	members "0:up 1:up 2:up 3:up 4:up 5:up 7:up"
	expect 0 namctl --cluster "$cluster" index list
	# Through a seed that is not the lead.
	server_start 6 || fail "server 6"
	expect 0 namctl --cluster "$(nam_server_address 5)" server add "$(nam_server_address 6)"
	members "0:up 1:up 2:up 3:up 4:up 5:up 6:up 7:up"
	expect 0 namctl --cluster "$(nam_server_address 6)" index list
}

nam_servers_start 2 "${memory[@]}" || exit 1
test_status
expect 0 namctl --cluster "$cluster" index create held
test_add
test_refused
test_stopped_client
test_killed
test_two_at_once
test_restarted_member
nam_servers_stop || fail "SIGTERM"
finish "server add: all as it should be"
