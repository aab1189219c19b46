#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl server back, promote and unback, cluster replicas: what they print, what status says
# meanwhile, and what is refused.  failover_test.c kills members under load.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# shellcheck disable=SC2034	# members.sh uses it
memory=(--memory 32M --region 8M --pages 4k)
declare -A backups

lead=$(nam_server_address 0)		# or a memory server that knows it

ctl() {
	expect "$1" namctl --cluster "$lead" "${@:2}"
}

# backup_start NUMBER [ID [OPTION...]]: what can become one, at the address of that number.
backup_start() {
	local number=$1 id=${2:-1}

	: >"$tmp/server$number.log"
	nam-memserver --insecure --listen "$(nam_server_address "$number")" --id "$id" --successor \
		"${memory[@]}" "${@:3}" >"$tmp/server$number.log" 2>&1 </dev/null &
	backups[$number]=$!
	await grep -q "event=ready" "$tmp/server$number.log" ||
		fail "process $number: $(cat "$tmp/server$number.log")"
}

backup_end() {
	kill -KILL "${backups[$1]}"
	wait "${backups[$1]}" 2>/dev/null
	unset "backups[$1]"
}

# Of memory server 1, as a Python expression.
one="[s for s in r['servers'] if s.get('id') == 1 and 'member' in s][0]"

test_refused() {
	ctl 2 server back
	ctl 2 server back "$cluster"
	says "one successor"
	ctl 3 --timeout-ms 500 server back "$(nam_server_nobody)"
	# No such member; other regions; the lead; no successor.
	backup_start 5 9
	ctl 2 server back "$(nam_server_address 5)"
	says "no member"
	backup_end 5
	backup_start 5 1 --region 16M
	ctl 2 server back "$(nam_server_address 5)"
	says "regions"
	backup_end 5
	ctl 2 server back "$(nam_server_address 0)"
	says "name another one"
	ctl 2 server promote
	ctl 2 server promote one
	says "namctl status"
	ctl 2 server promote 9
	says "no memory server 9"
	ctl 2 server promote 1
	says "has no backup"
	ctl 2 server unback -1
	ctl 2 server unback 9
	says "no memory server 9"
	ctl 2 --copy-rate 1M server promote 1
	says "does not belong"
	ctl 0 --json server unback 1
	json "r == {'id': 1, 'unbacked': True}"
}

test_backed() {
	backup_start 2
	ctl 0 --copy-rate 0 server back "$(nam_server_address 2)"
	says "memory server 1 has a backup"
	ctl 0 status
	says "its backup is at $(nam_server_address 2)"
	ctl 0 --json status
	json "$one.get('backup') == '$(nam_server_address 2)'"
	json "all('backup' not in s for s in r['servers'] if s.get('id') != 1)"
	ctl 0 --json server back "$(nam_server_address 2)"
	json "r['id'] == 1 and not r['backed'] and r['address'] == '$(nam_server_address 2)'"
	# It has one, and its process is alive.
	backup_start 3
	ctl 2 server move "$(nam_server_address 3)"
	says "has a backup at $(nam_server_address 2)"
	ctl 2 server promote 1
	says "it answers"
	says "end it first"
	# A second one, and no third.
	ctl 0 --json server back "$(nam_server_address 3)"
	json "r['id'] == 1 and r['backed'] and r['bytes'] > 0 and r['view'] > 0"
	ctl 0 status
	says "its backups are at $(nam_server_address 2), $(nam_server_address 3)"
	ctl 0 --json status
	json "$one.get('backup_2') == '$(nam_server_address 3)'"
	backup_start 6
	ctl 2 server back "$(nam_server_address 6)"
	says "has a backup at $(nam_server_address 2)"
	# Others instead.
	ctl 0 server unback 1
	says "memory server 1 has no backup"
	backup_end 2
	backup_end 3
	backup_start 3
	ctl 0 server back "$(nam_server_address 6)"
	ctl 0 server back "$(nam_server_address 3)"
}

# The member has ended, and its first backup with it.
test_promoted() {
	server_end 1
	ctl 3 status
	says "its backups are at $(nam_server_address 6), $(nam_server_address 3): "
	says ": namctl server promote 1"
	ctl 3 --json status
	json "$one.get('state') == 'dead' and $one.get('backup') == '$(nam_server_address 6)'"
	backup_end 6
	ctl 0 --json server promote 1
	json "r == {'id': 1, 'promoted': True}"
	ctl 0 --json status
	json "$one.get('address') == '$(nam_server_address 3)' and $one.get('member') == 'up'"
	json "'backup' not in $one"
	ctl 2 server promote 1
	says "see namctl status"
}

# The lead's backup has the names and the clients, and leads once the lead has ended.
test_lead() {
	backup_start 4 0
	ctl 0 --json server back "$(nam_server_address 4)"
	ctl 0 index create named
	ctl 2 server promote 0
	says "has not ended"
	server_end 0
	lead=$(nam_server_address 3)
	ctl 3 index list
	ctl 0 --json server promote 0
	json "r == {'id': 0, 'promoted': True}"
	ctl 0 status
	says "lead $(nam_server_address 4)"
	ctl 0 index list
	says named
	ctl 0 load named "$tmp/pairs"
	ctl 0 index drop named
}

# A backup that is silent is taken away only if another member knows that, so it never leads.
test_silent() {
	backup_start 5 0
	ctl 0 server back "$(nam_server_address 5)"
	lead=$(nam_server_address 4)
	kill -STOP "${backups[5]}" "${backups[3]}"
	ctl 3 --timeout-ms 300 server unback 0
	says "is silent, as are all other memory servers"
	kill -CONT "${backups[3]}"
	ctl 0 --timeout-ms 300 server unback 0
	says "memory server 0 has no backup"
	kill -CONT "${backups[5]}"
	backup_end 4
	for lead in "$(nam_server_address 5)" "$(nam_server_address 3)" \
		"$(nam_server_address 5),$(nam_server_address 3)"; do
		ctl 3 server promote 0
		says "$(nam_server_address 4): the socket is there"
	done
}

# No steward runs, so nothing follows from it.
test_replicas() {
	local number

	for number in 0 4 two ""; do
		ctl 2 cluster replicas "$number"
	done
	ctl 2 cluster replicas
	ctl 0 --json cluster replicas 2
	json "r == {'replicas': 2}"
	ctl 0 cluster replicas 2
	says "nam-steward"
	ctl 0 status
	says "replicas 2: 0 memory servers have a backup; without a copy: 0 1"
	ctl 0 --json status
	json "r['view']['replicas'] == 2 and r['view']['without_copy'] == [0, 1]"
	ctl 0 cluster replicas 3
	says "two backups"
	ctl 0 status
	says "replicas 3: 0 memory servers have a backup, and 0 a second one; without a copy: 0 1"
	ctl 0 cluster replicas 1
	says "no memory server has a backup"
	ctl 0 --json status
	json "r['view']['replicas'] == 1 and 'without_copy' not in r['view']"
}

nam_servers_start 2 "${memory[@]}" || exit 1
seq 1 3000 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
expect 0 namctl --cluster "$cluster" index create held
expect 0 namctl --cluster "$cluster" load held "$tmp/pairs"
test_refused
test_replicas
test_backed
seq 3001 4000 | awk '{ print $1 "\t" $1 }' >"$tmp/more"
ctl 0 load held "$tmp/more"
test_promoted
test_lead
ctl 0 index verify held
ctl 0 range held 1 4000
[ "$out" = "$(cat "$tmp/pairs" "$tmp/more")" ] || fail "pairs are missing"
test_silent
for number in "${!backups[@]}"; do
	backup_end "$number"
done
nam_servers_stop || fail "SIGTERM"
finish "server back: all as it should be"
