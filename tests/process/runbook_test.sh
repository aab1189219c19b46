#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hosts that break, that are serviced, and etcd that loses members and its data: the commands of
# docs/deploying.md, typed in a shell for each host, on loopback addresses of this test alone.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/processes.sh
. "$lib/processes.sh"
# shellcheck source=tests/lib/page.sh
. "$lib/page.sh"

section="When hosts are lost"
net=127.$((2 + $$ % 250)).$((1 + $$ / 250 % 250))
mark=NAM_TEST_RUNBOOK=$$
pairs=500
typed=0
declare -A shells

# adapt: what differs from the page; on standard input and output.
adapt() {
	sed -e "s|10\.1\.0\.|$net.|g; s|/etc/nam/|$tmp/|g; s|/var/lib/etcd/|$tmp/etcd-|g" \
		-e 's/64G/32M --region 4M/g; s/256G/256M/' \
		-e 's/^etcd /&--heartbeat-interval 20 --election-timeout 200 /' \
		-e 's/^nam-steward /&--lease-ms 1000 --interval-ms 20 --copy-rate 0 /'
}

clean_up() {
	nam_end_processes "$mark" >/dev/null
	nam_temporary_remove
}

# ---- shells ----------------------------------------------------------------------------------

# shell_start HOST ID: a terminal there.
shell_start() {
	local fd

	mkfifo "$tmp/in$1"
	env "$mark" here="$net.$1" id="$2" bash <"$tmp/in$1" >"$tmp/host$1.log" 2>&1 &
	exec {fd}>"$tmp/in$1"
	shells[$1]=$fd
}

typed_at() {
	grep -q "^typed $typed " "$tmp/host$1.log"
}

# type_at HOST TEXT: until it has ended there, with its status.
type_at() {
	typed=$((typed + 1))
	printf '%s\necho "typed %s $?"\n' "$2" "$typed" >&"${shells[$1]}"
	await typed_at "$1" || fail "at $1, this does not end: $2"
	return "$(sed -n "s/^typed $typed //p" "$tmp/host$1.log")"
}

# types TITLE: that step of the page, on the hosts that it names.
types() {
	local text host

	text=$(step "$1")
	[ -n "$text" ] || fail "the page has no step '$1'"
	for host in $(sed -n '1s/^# \(.*\): .*/\1/p' <<<"$text" | tr -d ,); do
		type_at "${host##*.}" "$(adapt <<<"$text")" || return 1
	done
}

must_type() {
	types "$1" || fail "$1: $(tail -n 5 "$tmp"/host*.log)"
}

# Lines that come too early are refused.
types_in_the_end() {
	await types "$1" || fail "$1: $(tail -n 5 "$tmp"/host*.log)"
}

# breaks HOST: what was started there last.
breaks() {
	type_at "$1" "kill -KILL \$!; wait \$! 2>/dev/null; true"
}

# ---- what holds ------------------------------------------------------------------------------

# holds CONDITION: of the status as JSON.
holds() {
	out=$(namctl --json status 2>/dev/null)
	python json "bool($1)"
	[ "$value" = True ]
}

# until_copies COUNT: so many members there are, and each is alive and has a backup.
until_copies() {
	await holds "[s['alive'] and bool(s.get('backup')) for s in r['servers']
		if s.get('member') == 'up'] == [True] * $1" ||
		fail "not $1 memory servers with backups: $out$(tail -n 20 "$tmp/host11.log")"
	expect 0 namctl index verify people
	expect 0 namctl get people $((1 + RANDOM % pairs))
}

test_start() {
	must_type "etcd with three members"
	must_type "a key for operators"
	must_type "a memory server, with room"
	for host in 11 12 13; do
		await grep -q "event=ready" "$tmp/host$host.log" || fail "no memory server at $host"
	done
	must_type "a steward, and a second copy"
	export NAM_KEY=$tmp/ops.key
	export NAM_CLUSTER=tcp:$net.11:7000
	expect 0 namctl index create people
	seq $pairs | awk '{ print $1 "\t" $1 }' | namctl load people - >/dev/null ||
		fail "no pairs are loaded"
	until_copies 3
}

test_broken_host() {
	breaks 12
	until_copies 3
	must_type "a memory server with a new number"
	await grep -q "event=ready" "$tmp/host14.log" || fail "no memory server at 14"
	types_in_the_end "it is added$"
	until_copies 4
}

test_maintenance() {
	types_in_the_end "10.1.0.13 is emptied"
	until_copies 4
	must_type "once namctl status shows all copies"
	await grep -q "event=ready.*7001" "$tmp/host13.log" || fail "no memory server at 13"
	types_in_the_end "the new one is added"
	until_copies 5
}

test_majority_lost() {
	breaks 22
	breaks 23
	await grep -q 'event=failed text="the view store' "$tmp/host11.log" ||
		fail "the steward does not see that etcd is lost"
	expect 0 namctl index verify people
	breaks 14
	breaks 21
	must_type "etcd ends if it still runs"
	until_copies 5
}

# The last host has all memory then, and no room for copies elsewhere.
test_etcd_lost() {
	breaks 21
	breaks 13
	must_type "an empty etcd"
	await holds "[s['alive'] for s in r['servers'] if s.get('member') == 'up'] ==
		[True] * 5" || fail "not 5 memory servers: $out$(tail -n 20 "$tmp/host11.log")"
	expect 0 namctl index verify people
}

if ! command -v etcd >/dev/null; then
	echo "there is no etcd: see tests/run for Debian's packages"
	exit 77
fi
trap clean_up EXIT
python_start
for host in 11 12 13 14 21 22 23; do
	shell_start "$host" $((host - 11))
done
for test in start broken_host maintenance majority_lost etcd_lost; do
	began=$EPOCHREALTIME
	"test_$test"
	awk -v name="$test" -v began="$began" -v now="$EPOCHREALTIME" \
		'BEGIN { printf "%-16s %.1f s\n", name, now - began }'
	[ $failures -eq 0 ] || break
done
finish "runbook: all as it should be"
