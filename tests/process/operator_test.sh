#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An operator's cluster on three hosts, with stewards and etcd: the commands of docs/deploying.md,
# typed on network namespaces that have the addresses of that page.  Then stewards and clients are
# killed, stopped, and cut off.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/certificates.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/certificates.sh"

# shellcheck source=tests/lib/page.sh
. "$lib/page.sh"

section="Three hosts with etcd"
etcd=10.1.0.21
hosts=(10.1.0.11 10.1.0.12 10.1.0.13)
client=	# its process
client_id=
declare -A typed pids

# adapt: what differs from the page; on standard input and output.
adapt() {
	sed -e "s|/etc/nam/|$tmp/|g; s|/var/lib/etcd/|$tmp/|g; s|~/|$tmp/|g" \
		-e 's/64G/64M/g; s/region = 1G/region = 8M/' \
		-e 's/^etcd /&--heartbeat-interval 20 --election-timeout 200 /' \
		-e 's/^nam-steward /&--lease-ms 1000 --interval-ms 20 /'
}

# ---- hosts -----------------------------------------------------------------------------------

# namespace HOST
namespace() {
	echo "nam-operator$$-${1##*.}"
}

# at HOST COMMAND...
at() {
	ip netns exec "$(namespace "$1")" "${@:2}"
}

# A bridge at the host of etcd, and a cable from each of the others.
make_network() {
	local host

	for host in "$etcd" "${hosts[@]}"; do
		ip netns add "$(namespace "$host")" || return 1
	done
	{
		echo "link add name eth0 type bridge"
		for host in "${hosts[@]}"; do
			echo "link add name port${host##*.} type veth" \
				"peer name eth0 netns $(namespace "$host")"
			echo "link set port${host##*.} master eth0 up"
		done
	} | ip -n "$(namespace "$etcd")" -batch - || return 1
	for host in "$etcd" "${hosts[@]}"; do
		printf '%s\n' "link set lo up" "addr add $host/24 dev eth0" "link set eth0 up" |
			ip -n "$(namespace "$host")" -batch - || return 1
	done
}

# cut HOST HOST: packets between the two go to a card that is not there.
cut() {
	ip -n "$(namespace "$1")" neigh replace "$2" lladdr 02:00:00:00:00:01 dev eth0 \
		nud permanent &&
		ip -n "$(namespace "$2")" neigh replace "$1" lladdr 02:00:00:00:00:01 dev eth0 \
			nud permanent || fail "$1 and $2 cannot be cut off"
}

mend() {
	ip -n "$(namespace "$1")" neigh del "$2" dev eth0 &&
		ip -n "$(namespace "$2")" neigh del "$1" dev eth0 || fail "$1 and $2: not mended"
}

# The processes in the namespaces are this test's.
processes() {
	local host

	for host in "$etcd" "${hosts[@]}"; do
		ip netns pids "$(namespace "$host")" 2>/dev/null
	done
}

# network_remove PID: of this run, or of one that was killed.
network_remove() {
	local file name pid

	for file in "/run/netns/nam-operator$1-"*; do
		name=${file##*/}
		for pid in $(ip netns pids "$name" 2>/dev/null); do
			kill -KILL "$pid" 2>/dev/null
		done
		ip netns del "$name" 2>/dev/null
	done
}

remains_remove() {
	local file pid

	for file in /run/netns/nam-operator*-"${etcd##*.}"; do
		pid=${file##*/nam-operator}
		pid=${pid%-*}
		[ -e "/proc/$pid" ] || network_remove "$pid"
	done
}

clean_up() {
	network_remove $$
	nam_temporary_remove
}

# ---- waiting ---------------------------------------------------------------------------------

# count NAME TEXT: lines of that log.
count() {
	grep -c -- "$2" "$tmp/$1.log"
}

# logs NAME TEXT [COUNT]
logs() {
	[ "$(count "$1" "$2")" -ge "${3:-1}" ]
}

# until_logged NAME TEXT [COUNT]
until_logged() {
	await logs "$@" || fail "$1 never says $2: $(cat "$tmp/$1.log")"
}

# holds CONDITION: of the status as JSON.
holds() {
	out=$(at "${hosts[0]}" namctl --cluster "@$tmp/cluster.ini" --json status 2>/dev/null)
	python json "bool($1)"
	[ "$value" = True ]
}

until_status() {
	await holds "$1" || fail "never $1: $out"
}

# ---- the page --------------------------------------------------------------------------------

# type_at HOST NAME TEXT: in a shell there, with the variables that earlier ones exported.  Its
# output goes to NAME.log and $out, and processes stay.
type_at() {
	local status=0

	: >"$tmp/pid"
	at "$1" bash -e -o pipefail -c "
[ ! -e '$tmp/env$1' ] || . '$tmp/env$1'
$3
export -p >'$tmp/env$1'
echo \"\${!:-}\" >'$tmp/pid'" >"$tmp/$2.log" 2>&1 </dev/null || status=$?
	out=$(cat "$tmp/$2.log")
	pids[$2]=$(cat "$tmp/pid")
	return $status
}

# types TITLE NAME [HOST]: that step of the page, on the hosts that it names, or on one of them.
types() {
	local text heading host
	text=$(step "$1" | adapt)
	heading=${text%%:*}

	typed[$1]=1
	[ -n "$text" ] || fail "the page has no step '$1'"
	for host in ${3:-$(tr -d '#,' <<<"$heading")}; do
		type_at "$host" "$2${host##*.}" "$text" || fail "$1, at $host: $out"
	done
}

test_walk_through() {
	local wanted

	(cd "$root" && adapt <deploy/cluster-tcp.ini >"$tmp/cluster.ini") || fail "cluster file"
	types "etcd" etcd
	types "a key for operators" keys
	export NAM_KEY=$tmp/ops.key
	types "a memory server" server
	types "another one" server
	until_logged server11 "server 0 ready"
	until_logged server12 "server 1 ready"
	types "stewards" steward
	await eval 'logs steward11 event=leads || logs steward12 event=leads' ||
		fail "no steward leads: $(cat "$tmp"/steward1?.log)"
	types "an index" programs
	printf -v wanted '\n7'
	[[ $out == *"$wanted" ]] || fail "the index has no 7: $out"
	types "a third memory server" third
	until_logged third13 "server 2 ready"
	types "it is added" programs
	says "memory server 2 has been added"
	holds '[s["member"] for s in r["servers"]] == ["up"] * 3' || fail "not up: $out"
	wanted=$(block | grep -c '^# ')
	[ ${#typed[@]} -eq "$wanted" ] || fail "the page has $wanted steps, not ${#typed[@]}"
}

# line TEXT: the command of another block of the page that begins so, without its comment.
line() {
	awk -v text="$1" 'substr($0, 1, 4) == "    " && index($0, text) == 5 {
		sub(/  +#.*/, ""); print substr($0, 5) }' "$page" | head -n 1 | adapt |
		sed 's/verbs:/tcp:/; s/--pages 2M --numa 0/--pages 4k --region 8M/'
}

# types_line HOST NAME TEXT [SED [WORDS]]: that command, edited, with words behind it.
types_line() {
	local text

	text=$(line "$3" | sed "${4:-}")
	[ -n "$text" ] || fail "the page has no line '$3'"
	type_at "$1" "$2" "export NAM_CLUSTER=@$tmp/cluster.ini
$(line 'options=')
$text ${5:-}" || fail "$text ${5:-}: $out"
}

# passage TEXT: the commands of a block from the one that begins so on, without comments.
passage() {
	awk -v text="$1" '{ command = $0; sub(/^ +/, "", command); sub(/  #.*/, "", command) }
		!/^    / && inside { exit }
		/^    / && index(command, text) == 1 { inside = 1 }
		inside { print command }' "$page" | adapt | sed 's/verbs:/tcp:/'
}

test_lines() {
	local text

	for text in "namctl key list" "namctl key new /etc/nam/keys app" "namctl sweep --dry-run" \
		"namctl sweep" "namctl status --books" "namctl client list"; do
		types_line "${hosts[1]}" line "$text"
	done
}

# A third host takes the memory of the second one, by a successor.  Then a memory server with memory
# to spare takes that host's.  A mover leads, so stewards do not meanwhile.
test_memory_moves() {
	local store

	store=$(block | sed -n 's/^namctl server add.* \(--view-store .*\)/\1/p')
	steward_end 11
	steward_end 12
	types_line "${hosts[1]}" line "nam-steward --cluster @/etc/nam/cluster.ini --once" "" \
		"$store"
	types_line "${hosts[2]}" successor "nam-memserver --id 1 --successor" \
		"s/10.1.0.14:7000/10.1.0.13:7003/" "&"
	until_logged successor "event=ready"
	types_line "${hosts[0]}" move "namctl server move" "s/10.1.0.14:7000/10.1.0.13:7003/" \
		"$store"
	kill -TERM "${pids[server12]}"
	sed -i 's/10.1.0.12:7000/10.1.0.13:7003/' "$tmp/cluster.ini"
	types_line "${hosts[2]}" spare "nam-memserver --id 2" "s/--id 2/--id 5/; s/:7000/:7004/" \
		"--spare 64M &"
	until_logged spare "event=ready"
	types_line "${hosts[0]}" added "namctl server add" "s/:7000/:7004/" "$store"
	types_line "${hosts[0]}" drain "namctl server drain" "s/10.1.0.12:7000/10.1.0.13:7003/" \
		"$store"
	says "can be ended"
	kill -TERM "${pids[successor]}"
	sed -i 's/10.1.0.13:7003/10.1.0.13:7260/' "$tmp/cluster.ini"
	holds '[s["member"] for s in r["servers"]].count("up") == 6' || fail "not up: $out"
	expect 0 at "${hosts[0]}" namctl --cluster "@$tmp/cluster.ini" index verify people
}

# ---- units -----------------------------------------------------------------------------------

# systemctl VERB UNIT: in place of systemd, which does not run here.  It runs the commands in the
# unit's file, with its environment files, but as root and without its limits.
systemctl() {
	local unit=${!#} file name line pid='' waited=0
	file=$root/deploy/systemd/${unit/@*/@}.service

	[ ! -e "$tmp/$unit.pid" ] || pid=$(cat "$tmp/$unit.pid")
	if [ "$1" = reload ]; then
		eval "MAINPID=$pid; $(sed -n 's/^ExecReload=//p' "$file")"
		return
	fi
	[ -z "$pid" ] || kill -TERM "$pid"
	while [ -n "$pid" ] && [ -e "/proc/$pid/exe" ] && ((waited++ < 400)); do
		sleep 0.05
	done
	(
		unset "${!NAM_@}"
		for name in $(sed -n 's/^EnvironmentFile=-//p' "$file" | adapt); do
			while read -r line; do
				export "${line?}"
			done <"$name"
		done
		eval "exec $(sed -n 's/^ExecStart=//p' "$file" | adapt)"
	) >>"$tmp/$unit.log" 2>&1 &
	echo $! >"$tmp/$unit.pid"
}

# The group of the unit's user, in an /etc of its own, gets the files with keys.
test_user() {
	local text

	cp -a /etc "$tmp/etc" || fail "no copy of /etc"
	{
		echo "mount --bind '$tmp/etc' /etc; cd '$root'"
		line "install -m 644 deploy/systemd/nam-memserver@.service"
		line "install -m 644 deploy/systemd/memserver.env"
		line "install -D -m 644 deploy/systemd/nam.sysusers"
		line "chown root:nam /etc/nam/keys"
		line "chown root:nam /etc/nam/ops.key"
		echo "ls /etc/systemd/system/nam-memserver@.service"
		echo "getent group nam | cut -d : -f 3"
	} >"$tmp/lines"
	[ "$(wc -l <"$tmp/lines")" -eq 8 ] || fail "the page has other lines: $(cat "$tmp/lines")"
	type_at "${hosts[0]}" user "unshare -m bash -e '$tmp/lines'" || fail "$out"
	for text in keys ops.key; do
		[ "$(stat -c %a:%U:%g "$tmp/$text")" = "640:root:${out##*$'\n'}" ] ||
			fail "$text: $(stat -c %a:%U:%g "$tmp/$text"), $out"
	done
}

# The memory server reads key file and cluster file again.
test_reload() {
	echo "${pids[server11]}" >"$tmp/nam-memserver@0.pid"
	sed -i '/^\[server 0\]/a log_level = debug' "$tmp/cluster.ini"
	types_line "${hosts[0]}" line "systemctl reload nam-memserver@0"
	until_logged server11 "event=reloaded"
	types_line "${hosts[0]}" line "namctl key list"
	until_logged server11 "level=debug"
}

# types_store STORE ID PORT: the page's lines with that store, which add a memory server.
types_store() {
	local text before

	before=$(count nam-steward event=leads)
	types_line "${hosts[2]}" "added$2" "nam-memserver --id 2" \
		"s/--id 2/--id $2/; s/:7000/:$3/" "&"
	until_logged "added$2" "server $2 ready"
	text=$(passage "store=$1" | sed "s/:7000/:$3/")
	[[ $text == *"systemctl restart nam-steward"*"namctl server add"* ]] ||
		fail "the page has no store $1: $text"
	type_at "${hosts[0]}" store "export NAM_CLUSTER=@$tmp/cluster.ini
$text" || fail "$text: $out"
	says "memory server $2 has been added"
	until_logged nam-steward event=leads $((before + 1))
}

# The steward's unit: without a store, which this cluster has; with etcd; and etcd asks for
# certificates, with its data as they are.
test_units() {
	local text

	export root tmp
	export -f systemctl adapt
	test_user
	test_reload
	types_line "${hosts[0]}" line 'echo "NAM_KEY='
	types_line "${hosts[0]}" line "systemctl enable --now nam-steward"
	until_logged nam-steward "event=failed .*--view-store"
	[ $failures -eq 0 ] || return
	types_store etcd:http: 6 7005
	says "nam/prod/view"
	authority etcd-ca
	certificate etcd etcd-ca /O=nam "$etcd"
	kill -TERM "${pids[etcd21]}"
	text=$(step etcd | adapt | sed "s/http:/https:/g; s|^etcd |&--client-cert-auth \
--cert-file $tmp/etcd.pem --key-file $tmp/etcd.key --trusted-ca-file $tmp/etcd-ca.pem |")
	until_true etcd_ended
	type_at "$etcd" etcd21 "$text" || fail "$text: $out"
	until_logged etcd21 "ready to serve client requests"
	types_store etcd:https: 7 7006
}

etcd_ended() {
	[ ! -e "/proc/${pids[etcd21]}/exe" ]
}

# ---- stewards --------------------------------------------------------------------------------

# Sets lead and other, by the number of the host.
find_lead() {
	lead=11 other=12
	logs steward11 event=leads || { lead=12 && other=11; }
}

# At its end it gives the lease back.
steward_end() {
	kill -TERM "${pids[steward$1]}"
	until_logged "steward$1" event=ended
}

swap() {
	local was=$lead

	lead=$other other=$was
}

# steward_start NUMBER: again.
steward_start() {
	types "stewards" steward "10.1.0.$1"
	until_logged "steward$1" event=started
}

test_steward_killed() {
	kill -KILL "${pids[steward$lead]}"
	until_logged "steward$other" event=leads
	steward_start "$lead"
	swap
}

# A client delays an addition when the steward stops.  It is another one's from then on.
test_steward_stopped() {
	local text status=0 before

	text=$(step "a third memory server" | adapt | sed 's/--id 2/--id 3/; s/:7000/:7001/')
	type_at "${hosts[2]}" fourth "$text" || fail "memory server 3: $out"
	until_logged fourth "server 3 ready"
	client_start
	kill -STOP "$client"
	text=$(step "it is added" | adapt | sed 's/:7000/:7001/; s/^namctl/& --timeout-ms 300/')
	type_at "${hosts[0]}" addition "$text" || status=$?
	[ $status -eq 3 ] || fail "the addition ended with $status: $out"
	says "client $client_id (namctl, pid $client) has not acknowledged"
	kill -STOP "${pids[steward$lead]}"
	until_logged "steward$other" event=leads
	before=$(count "steward$lead" event=view)
	text=$(sed -n 's/^ *\(namctl client fence\) [0-9]*$/\1/p' "$page")
	type_at "${hosts[0]}" fence "$text $client_id" ||
		fail "$text $client_id: $out"
	says "client $client_id is dead"
	until_logged "steward$other" "change=up id=3"
	kill -CONT "${pids[steward$lead]}"
	until_logged "steward$lead" event=deposed
	client_fenced
	holds '[s["member"] for s in r["servers"]] == ["up"] * 4' || fail "not up: $out"
	[ "$(count "steward$lead" event=view)" -eq "$before" ] &&
		[ "$(count "steward$lead" event=leads)" -eq 1 ] ||
		fail "a steward that was stopped goes on: $(cat "$tmp/steward$lead.log")"
	swap
}

# It follows for as long as it does not reach etcd, and leads again once the other one ends.  There
# a memory server is not added either, and nothing is left of that.
test_steward_cut_off() {
	local text status=0

	cut "10.1.0.$lead" "$etcd"
	until_logged "steward$lead" 'event=failed text="the view store'
	until_logged "steward$other" event=leads
	text=$(step "a third memory server" | adapt | sed 's/--id 2/--id 4/; s/:7000/:7002/')
	type_at "${hosts[2]}" fifth "$text" || fail "memory server 4: $out"
	until_logged fifth "server 4 ready"
	text=$(step "it is added" | adapt | sed 's/:7000/:7002/; s/^namctl/& --timeout-ms 500/')
	text="export NAM_CLUSTER=@$tmp/cluster.ini
$text"
	type_at "10.1.0.$lead" addition "$text" || status=$?
	[ $status -eq 3 ] || fail "the addition ended with $status: $out"
	says "the view store at http"
	holds 'len(r["servers"]) == 4' || fail "added without etcd: $out"
	mend "10.1.0.$lead" "$etcd"
	status=0
	type_at "10.1.0.$lead" addition "$text" || status=$?
	[ $status -eq 0 ] || fail "the addition ended with $status: $out"
	until_logged "steward$lead" event=recovered
	steward_end "$other"
	until_logged "steward$lead" event=leads 2
	steward_start "$other"
}

# ---- clients ---------------------------------------------------------------------------------

# find_client: its id, once it has one.
find_client() {
	expect 0 at "${hosts[0]}" namctl --cluster "@$tmp/cluster.ini" --json client list
	python json "next((c['id'] for c in r['clients'] if c['pid'] == $client), 0)"
	client_id=$value
	[ "$client_id" -gt 0 ]
}

until_fenced() {
	until_logged "steward$lead" "event=fenced client=$client_id "
}

# At the third host; its input is a pipe of ours.
client_start() {
	rm -f "$tmp/input"
	mkfifo "$tmp/input"
	ip netns exec "$(namespace "${hosts[2]}")" namctl --cluster "@$tmp/cluster.ini" \
		load people - <"$tmp/input" >"$tmp/client.log" 2>&1 &
	client=$!
	exec 9>"$tmp/input"
	await find_client || fail "the client is not listed: $out"
}

# It goes on, and ends at once.
client_fenced() {
	local status=0

	kill -CONT "$client"
	seq 2001 20000 | awk '{ print $1 "\t" $1 }' >&9 2>/dev/null
	exec 9>&-
	wait "$client" || status=$?
	[ $status -eq 3 ] || fail "the fenced client ended with $status: $(cat "$tmp/client.log")"
	logs client "the memory servers have fenced this client" ||
		fail "it does not say why: $(cat "$tmp/client.log")"
	expect 0 at "${hosts[0]}" namctl --cluster "@$tmp/cluster.ini" index verify people
}

# It counts as dead once no memory server has a connection of it.
test_client_killed() {
	ip netns exec "$(namespace "${hosts[2]}")" nam-bench index --cluster "@$tmp/cluster.ini" \
		--name load --keys 2k --workload ycsb-a --seconds 300 --quiet \
		>"$tmp/load.log" 2>&1 9>&- &
	client=$!
	await find_client || fail "the client is not listed: $out"
	until_status 'any(s["indexes"] > 1 for s in r["servers"])'
	kill -KILL "$client"
	wait "$client" 2>/dev/null
	until_fenced
	until_status 'r["view"]["clients"] == 0 and "fencing" not in r["view"]'
	# Its locks stay.
	out=$(at "${hosts[0]}" namctl --cluster "@$tmp/cluster.ini" index verify load 2>&1) ||
		says "the pairs are all right"
}

# The lead hears nothing of the client, while the others do.
test_client_cut_off() {
	# One that reaches all memory servers.
	if [ "$lead" = 11 ]; then
		steward_end 11
		until_logged steward12 event=leads
		steward_start 11
		swap
	fi
	client_start
	cut "${hosts[0]}" "${hosts[2]}"
	until_fenced
	mend "${hosts[0]}" "${hosts[2]}"
	client_fenced
}

# ---- the end ---------------------------------------------------------------------------------

ended() {
	[ -z "$(processes)" ]
}

test_end() {
	local pid

	expect 0 at "${hosts[2]}" namctl --cluster "@$tmp/cluster.ini" get people 1500
	prints 8
	for pid in $(processes); do
		kill -TERM "$pid"
	done
	await ended || fail "these processes do not end: $(processes)"
}

if [ "$(id -u)" -ne 0 ]; then
	echo "network namespaces need root"
	exit 77
fi
for program in ip etcd etcdctl openssl; do
	if ! command -v "$program" >/dev/null; then
		echo "there is no $program: see tests/run for Debian's packages"
		exit 77
	fi
done
trap clean_up EXIT
remains_remove
if ! make_network; then
	echo "this machine lets us make no network namespaces"
	exit 77
fi
# Before the pipe of a client, which it would keep open.
python_start
for test in walk_through lines steward_killed steward_stopped client_killed client_cut_off \
	steward_cut_off memory_moves units end; do
	began=$EPOCHREALTIME
	"test_$test"
	awk -v name="$test" -v began="$began" -v now="$EPOCHREALTIME" \
		'BEGIN { printf "%-16s %.1f s\n", name, now - began }'
	[ "$test" != walk_through ] || find_lead
	[ $failures -eq 0 ] || break
done
finish "operator: all as it should be"
