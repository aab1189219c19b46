#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-steward: additions that stopped half-way, two stewards, one that is killed or stopped, ends by
# signals, exit statuses.  And the same commands with a real etcd.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"

etcd=
declare -A stewards

# ---- processes -------------------------------------------------------------------------------

# steward_start NAME OPTION...: its log is $tmp/NAME.log.
steward_start() {
	local name=$1
	shift
	: >"$tmp/$name.log"
	nam-steward --cluster "$(nam_server_address 0)" --interval-ms 20 --lease-ms 1000 \
		--collect-s 0 "$@" \
		>"$tmp/$name.log" 2>&1 9>&- &
	stewards[$name]=$!
}

# By SIGTERM, within two seconds.
steward_end() {
	local begin=$SECONDS

	kill -TERM "${stewards[$1]}"
	wait "${stewards[$1]}" || fail "$1 ended with $?: $(cat "$tmp/$1.log")"
	[ $((SECONDS - begin)) -le 3 ] || fail "$1 took $((SECONDS - begin)) s to end"
	unset "stewards[$1]"
}

steward_kill() {
	kill -KILL "${stewards[$1]}"
	wait "${stewards[$1]}" 2>/dev/null
	unset "stewards[$1]"
}

# until_logged NAME TEXT
until_logged() {
	await grep -q -- "$2" "$tmp/$1.log" || fail "$1 never says $2: $(cat "$tmp/$1.log")"
}

# Members as ID:STATE, in the end.
until_members() {
	until_json "' '.join('%s:%s' % (s.get('id'), s.get('member', '-'))
		for s in r['servers']) == '$1'"
}

# half_add ID OPTION...: it stays joining, because a client is stopped.
half_add() {
	local id=$1
	shift
	server_start "$id" || fail "server $id"
	client_start
	kill -STOP "$client"
	expect 3 namctl --cluster "$cluster" --timeout-ms 300 server add \
		"$(nam_server_address "$id")" "$@"
}

cleanup() {
	local name

	for name in "${!stewards[@]}"; do
		kill -KILL "${stewards[$name]}" 2>/dev/null
	done
	[ -z "$etcd" ] || kill -KILL "$etcd" 2>/dev/null
	nam_servers_kill
	nam_temporary_remove
}

# ---- tests -----------------------------------------------------------------------------------

test_usage() {
	expect 2 nam-steward
	says "--cluster"
	expect 2 nam-steward --cluster "$cluster" --view-store zookeeper:x
	says "should be embedded"
	expect 2 nam-steward --cluster "$cluster" --view-store etcd:http://127.0.0.1
	says "NAME"
	expect 3 nam-steward --cluster "$(nam_server_nobody)" --once
	expect 0 nam-steward --cluster "$cluster" --once
	says "event=leads term=1 store=embedded"
	expect 0 nam-steward --cluster "$cluster" --once
	says "term=2"
}

# The addition was given up; a steward goes on.
test_completes() {
	half_add 2
	steward_start one
	until_logged one event=leads
	until_members "0:up 1:up 2:joining"
	client_end
	until_members "0:up 1:up 2:up"
	until_logged one "event=view number=3 change=up id=2"
	half_add 3
	server_end 3
	until_logged one "event=view number=5 change=abort id=3"
	until_members "0:up 1:up 2:up"
	client_end
	expect 4 nam-steward --cluster "$cluster" --once
	says "another steward leads"
}

# A member was restarted, and no client joins.
test_renews() {
	steward_start renewer
	until_logged renewer event=leads
	server_end 1
	server_start 1 || fail "server 1"
	until_logged renewer "event=view number=[0-9]* change=renew id=1"
	# One seed, whose copy says where the lead is.
	expect 0 namctl --cluster "$(nam_server_address 1)" index list
	steward_end renewer
	[ "$(grep -c change=renew "$tmp/renewer.log")" = 1 ] || fail "it is renewed again and again"
}

# The lease of one that was killed ends by itself, that of one that ended at once.
test_two() {
	steward_start two
	sleep 0.1
	steward_kill one
	until_logged two event=leads
	steward_start three
	steward_end two
	until_logged three event=leads
	kill -STOP "${stewards[three]}"
	steward_start four
	until_logged four event=leads
	kill -CONT "${stewards[three]}"
	until_logged three event=deposed
	[ "$(grep -c event=leads "$tmp/three.log")" = 1 ] || fail "three leads beside four"
	steward_end three
	# An addition needs no lease.
	server_start 3 || fail "server 3"
	expect 0 namctl --cluster "$cluster" server add "$(nam_server_address 3)"
	until_members "0:up 1:up 2:up 3:up"
	steward_end four
}

# A stopped client delays a view.  Over shm it has memory mapped until its process ends.
test_stays() {
	half_add 4
	steward_start late --fence-ms 100
	until_logged late "event=not_fenced client="
	until_members "0:up 1:up 2:up 3:up 4:joining"
	client_end
	until_members "0:up 1:up 2:up 3:up 4:up"
	[ "$(grep -c event=not_fenced "$tmp/late.log")" = 1 ] || fail "told more than once"
	steward_end late
}

# A new index has one pass.
test_collects() {
	local key

	expect 0 namctl --cluster "$cluster" index create sparse --node-bytes 256
	seq 130 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
	expect 0 namctl --cluster "$cluster" load sparse "$tmp/pairs"
	for key in {1..60}; do
		namctl --cluster "$cluster" --quiet delete sparse "$key" || fail "delete $key"
	done
	expect 0 nam-steward --cluster "$cluster" --once --collect-s 0
	[[ $err != *collected* ]] || fail "it collects: $err"
	steward_start gatherer --collect-s 3600 --collect-rate 1M
	until_logged gatherer 'kind=index name="sparse" nodes=[1-9][0-9]* freed_bytes=[1-9]'
	steward_end gatherer
	expect 0 nam-steward --cluster "$cluster" --once
	says 'event=collected kind=index name="sparse"'
	says "event=swept named_blocks="
	expect 0 namctl --cluster "$cluster" index verify sparse
	expect 0 namctl --cluster "$cluster" index drop sparse
	expect 2 nam-steward --cluster "$cluster" --collect-percent 101
}

# Names lead to all blocks.  A sweep without effect gives replaced versions back first.
is_swept() {
	out=$(namctl --cluster "$cluster" --json sweep --dry-run --rate 0)
	python json "r['used_blocks'] == r['named_blocks'] and r['tables'] == 1"
	[ "$value" = True ]
}

has_table() {
	namctl --cluster "$cluster" table list | grep -qx load
}

test_sweeps() {
	local pid

	table_load_tool "$cluster" 100 50 >"$tmp/load" 2>&1 &
	pid=$!
	until_true has_table
	sleep 0.5
	kill -KILL $pid
	wait $pid 2>/dev/null
	until_json "not r['view']['clients']"
	expect 0 nam-steward --cluster "$cluster" --once
	[[ $err =~ event=swept\ named_blocks=[0-9]+\ freed_blocks=[1-9] ]] || fail "not freed: $err"
	[[ $err != *not_collected* ]] || fail "it left something: $err"
	until_true is_swept
	expect 0 namctl --cluster "$cluster" table drop load
}

# logged_times NAME TEXT COUNT
logged_times() {
	[ "$(grep -c -- "$2" "$tmp/$1.log")" -ge "$3" ]
}

# A steward that leads sweeps again and again.
test_sweeps_again() {
	steward_start sweeper --collect-s 1
	await logged_times sweeper "event=swept " 2 || fail "one sweep: $(cat "$tmp/sweeper.log")"
	steward_end sweeper
}

# It goes on, and finds out.
fenced_client_end() {
	local status=0

	kill -CONT "$client"
	seq 1 20000 | awk '{ print $1 "\t" $1 }' >&9 2>/dev/null
	exec 9>&-
	wait "$client" || status=$?
	client=
	[ $status -eq 3 ] || fail "the fenced client ended with $status: $(cat "$tmp/client.out")"
	grep -q NAM_E_FABRIC "$tmp/client.out" || fail "no word of it: $(cat "$tmp/client.out")"
}

# Over tcp it is fenced.
test_fences() {
	local count

	half_add 2
	steward_start fencer --fence-ms 200
	until_logged fencer "event=fenced client="
	until_members "0:up 1:up 2:up"
	fenced_client_end
	expect 0 namctl --cluster "$cluster" index verify held
	steward_end fencer
	# A steward that leaves no client behind has no more to fence than those of others.
	steward_start alone --fence-ms 200
	until_logged alone event=leads
	expect 0 namctl --cluster "$cluster" index list
	until_json "'fencing' not in r['view']"
	count=$(grep -c event=fenced "$tmp/alone.log")
	sleep 0.3
	[ "$count" = "$(grep -c event=fenced "$tmp/alone.log")" ] ||
		fail "again and again: $(<"$tmp/alone.log")"
	steward_end alone
}

# A client is stopped, and blocks that were retired wait for it.
blocks_wait() {
	client_start
	seq 1 20000 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
	expect 0 namctl --cluster "$cluster" index create filling
	expect 0 namctl --cluster "$cluster" load filling "$tmp/pairs"
	kill -STOP "$client"
}

# Over shm it stays, and the commands say which client that is.
test_stopped_stays() {
	blocks_wait
	steward_start watcher --fence-ms 200
	expect 0 namctl --cluster "$cluster" --timeout-ms 500 --json index drop filling
	json "r['blocks_waiting'] > 0"
	until_json "r['view'].get('silent', {}).get('pid') == $client"
	expect 0 namctl --cluster "$cluster" status
	says "(namctl, pid $client) has been silent for"
	until_logged watcher "event=not_fenced client="
	expect 0 namctl --cluster "$cluster" index list
	client_end || fail "the client ended with $?: $(cat "$tmp/client.out")"
	steward_end watcher
}

# Over tcp the blocks are free again before the command ends that has retired them.
test_stopped_fenced() {
	blocks_wait
	steward_start watcher --fence-ms 200
	expect 0 namctl --cluster "$cluster" --timeout-ms 60000 --json index drop filling
	json "r['blocks_waiting'] == 0 and r['blocks_lost'] == 0"
	until_logged watcher "event=fenced client="
	fenced_client_end
	steward_end watcher
}

# No client can acknowledge a member that is silent, and none is to blame.
test_silent_member() {
	half_add 3
	kill -STOP "${nam_server_pids[3]}"
	kill -CONT "$client"
	steward_start patient --fence-ms 300
	until_logged patient "change=abort id=3"
	until_members "0:up 1:up 2:up"
	grep -q event=fenced "$tmp/patient.log" &&
		fail "a client was fenced: $(<"$tmp/patient.log")"
	seq 1 100 | awk '{ print $1 "\t" $1 }' >&9
	exec 9>&-
	wait "$client" || fail "the client ended with $?: $(cat "$tmp/client.out")"
	client=
	steward_end patient
	kill -CONT "${nam_server_pids[3]}"
}

# A lead that is stopped answers nothing.
test_silent_lead() {
	steward_start five
	until_logged five event=leads
	kill -STOP "${nam_server_pids[0]}"
	until_logged five event=failed
	steward_end five
	kill -CONT "${nam_server_pids[0]}"
}

etcd_start() {
	local peer=http://127.0.0.1:$((port + 1)) at=http://127.0.0.1:$port

	etcd --name one --data-dir "$tmp/etcd" --listen-client-urls "$at" \
		--advertise-client-urls "$at" --listen-peer-urls "$peer" \
		--initial-advertise-peer-urls "$peer" --initial-cluster "one=$peer" \
		--heartbeat-interval 20 --election-timeout 200 >"$tmp/etcd.log" 2>&1 9>&- &
	etcd=$!
}

test_etcd() {
	local store

	port=$((20000 + $$ % 10000))
	store=(--view-store "etcd:http://127.0.0.1:$port/test")
	etcd_start
	steward_start six "${store[@]}"
	until_logged six event=leads
	server_start 5 || fail "server 5"
	expect 2 namctl --cluster "$cluster" server add "$(nam_server_address 5)"
	says "name it with --view-store"
	expect 2 nam-steward --cluster "$cluster" --once
	says "event=failed"
	says "the embedded one decides the view of this cluster; name it with --view-store"
	expect 0 namctl --cluster "$cluster" server add "$(nam_server_address 5)" "${store[@]}"
	until_members "0:up 1:up 2:up 3:up 4:up 5:up"
	kill -KILL "$etcd"
	wait "$etcd" 2>/dev/null
	until_logged six "event=failed text=\"the view store"
	expect 3 namctl --cluster "$cluster" --timeout-ms 300 server add \
		"$(nam_server_nobody)" "${store[@]}"
	expect 0 namctl --cluster "$cluster" index list
	etcd_start
	until_logged six event=recovered
	half_add 6 "${store[@]}"
	until_members "0:up 1:up 2:up 3:up 4:up 5:up 6:joining"
	client_end
	until_members "0:up 1:up 2:up 3:up 4:up 5:up 6:up"
	steward_end six
	# Without a steward namctl leads, and a steward comes after it.
	server_end 6
	server_start 7 || fail "server 7"
	expect 0 namctl --cluster "$cluster" server add "$(nam_server_address 7)" "${store[@]}"
	expect 0 nam-steward --cluster "$cluster" --once --collect-s 0 "${store[@]}"
	# A client of the whole cluster would lack a member.
	expect 3 nam-steward --cluster "$cluster" --once "${store[@]}"
	says "event=leads"
	says "event=failed text=\"$(nam_server_address 6)"
	kill -TERM "$etcd"
	wait "$etcd"
	etcd=
}

nam_servers_start 2 "${memory[@]}" || exit 1
trap cleanup EXIT
# Before the pipe of a client, which it would keep open.
python_start
expect 0 namctl --cluster "$cluster" index create held
test_usage
test_completes
test_two
test_stays
test_stopped_stays
test_collects
test_sweeps
test_sweeps_again
test_silent_lead
if command -v etcd >/dev/null; then
	test_etcd
else
	echo "without etcd: install etcd-server"
fi
nam_servers_stop || fail "SIGTERM"
export NAM_TEST_FABRIC=tcp:127.0.0.1:0
nam_servers_start 2 "${memory[@]}" || exit 1
expect 0 namctl --cluster "$cluster" index create held
test_fences
test_stopped_fenced
test_silent_member
nam_servers_stop || fail "SIGTERM"
unset NAM_TEST_FABRIC
nam_servers_start 2 "${memory[@]}" || exit 1
expect 0 namctl --cluster "$cluster" index list
test_renews
nam_servers_stop || fail "SIGTERM"
finish "steward: all as it should be"
