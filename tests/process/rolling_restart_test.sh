#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every memory server gets a new process, one after the other, as docs/deploying.md has it: a client
# at work meets no error, and nothing is lost.  The commands are typed from the page.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

page=$(dirname "${BASH_SOURCE[0]}")/../../docs/deploying.md
options="--insecure --memory 64M --region 8M --pages 4k"
declare -A processes
place=3			# the number of the next process

# typed TEXT: the page's line in that block which begins so, for memory server $id and its new
# process.  The page has ids and addresses of its own.
typed() {
	local line

	line=$(awk '/^### Restart all memory servers$/ { here = 1; next } /^#/ { here = 0 }
		here && /^    / { print }' "$page" | grep -m 1 "^    $1") ||
		{ fail "the page has no line '$1'"; return; }
	line=${line%%#*}
	line=${line//--id 1/--id $id}
	line=${line// 1 / $id }
	line=${line//verbs:10.1.0.12:7001/$(nam_server_address $place)}
	echo "${line#    }"
}

# restart ID: its process at $old ends, once another one has its memory.
restart() {
	id=$1
	: >"$tmp/server$place.log"
	exec_typed nam-memserver >"$tmp/server$place.log" 2>&1 </dev/null &
	processes[$id.new]=$!
	await grep -q "event=ready" "$tmp/server$place.log" ||
		fail "process $place: $(cat "$tmp/server$place.log")"
	# shellcheck disable=SC2046
	expect 0 $(typed "namctl server back")
	kill -TERM "${processes[$id]}"
	wait "${processes[$id]}"
	# shellcheck disable=SC2046
	expect 0 $(typed "namctl server promote")
	processes[$id]=${processes[$id.new]}
	NAM_CLUSTER=${NAM_CLUSTER/$(nam_server_address "$id")/$(nam_server_address $place)}
	place=$((place + 1))
}

# shellcheck disable=SC2046	# words of a command
exec_typed() {
	exec $(typed "$1" | sed "s/\$options/$options/")
}

# shellcheck disable=SC2086
nam_servers_start 3 ${options#--insecure } || exit 1
for number in 0 1 2; do
	processes[$number]=${nam_server_pids[$number]}
	unset "nam_server_pids[$number]"
done
export NAM_CLUSTER=$cluster
seq 1 20000 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
expect 0 namctl index create held
expect 0 namctl load held "$tmp/pairs"
load_start nam-bench index --keys 20k --distribution zipfian --mix lookup=40,update=40,insert=20 \
	--seconds 600 --fibers 4 --json -
until_json "r['view'].get('clients') == 1"
for server in 1 2 0; do
	restart $server
done
sleep 0.5
load_end 130
expect 0 namctl --json status
json "sorted((s['id'], s['address']) for s in r['servers']) == [(0, '$(nam_server_address 5)'),
	(1, '$(nam_server_address 3)'), (2, '$(nam_server_address 4)')]"
expect 0 namctl index verify held
expect 0 namctl range held 1 20000
[ "$out" = "$(cat "$tmp/pairs")" ] || fail "pairs are missing"
for number in 0 1 2; do
	kill -TERM "${processes[$number]}"
	wait "${processes[$number]}" || fail "memory server $number: SIGTERM"
done
finish "rolling restart: nothing is lost"
