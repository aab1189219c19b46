#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/netns scale: memory servers and clients that come and go under load.  A whole run, without
# an error; runs that are ended, killed, or lose a client, of which nothing is left.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/processes.sh
. "$lib/processes.sh"

script=$NAM_SOURCE_DIR/deploy/netns
name=s$$
state=/run/nam-netns-$name
mark=NAM_TEST_NETNS=$name
scaling=	# its process

clean_up() {
	[ -z "$scaling" ] || kill -KILL "$scaling" 2>/dev/null
	env "$mark" "$script" down --name "$name" >/dev/null 2>&1
	nam_temporary_remove
}

nothing_is_left() {
	[ ! -e "$state" ] || fail "$state is left: $(ls "$state")"
	! compgen -G "/run/netns/nam-$name-*" || fail "namespaces are left"
}

# scale OPTION...: of our cluster.
scale() {
	env "$mark" "$script" scale --name "$name" --memory 32M --out "$tmp/out" "$@"
}

# csv NAME EXPRESSION: must hold of its rows r.
csv() {
	out=$(cat "$tmp/out/$1.csv")
	python csv "bool($2)"
	[ "$value" = True ] || fail "$1: $2: $value, of $out"
}

test_usage() {
	local options program

	expect 0 "$script" scale --help
	says "--step S"
	for options in "up --step 1" "up --out here" "run --csv -- true" "scale --step soon" \
		"scale --delay 1" "scale --memory 3" "scale mem0" "scale --out"; do
		# shellcheck disable=SC2086	# words
		expect 2 "$script" $options
		says "--help"
	done
	mkdir "$tmp/bin"
	for program in bash dirname id ip; do
		ln -s "$(command -v $program)" "$tmp/bin/"
	done
	expect 3 env PATH="$tmp/bin:$NAM_BUILD_DIR/bin" "$script" scale --name "$name"
	says "apt-get install etcd-server"
	: >"$tmp/file"
	expect 1 scale --out "$tmp/file"
	says "--out"
	nothing_is_left
}

test_whole_run() {
	local plot=--csv

	! /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || plot=
	expect 0 scale --step 0.3 ${plot:+"$plot"}
	says "memory servers 2 and 3 are added"
	nothing_is_left
	csv events '[n(i["memservers"]) for i in r] == [1, 2, 2, 4, 4, 3, 2, 2, 1, 1]'
	csv events '[n(i["clients"]) for i in r] == [1, 1, 8, 8, 7, 7, 7, 2, 2, 0]'
	csv events '[i["kind"] for i in r] == "load add load add death drain drain end drain
		end".split() and all(n(i["took_s"]) > 0 for i in r)'
	csv clients 'len(r) == 8 and [i["client"] for i in r if i["end"] == "killed"] == ["7"]'
	csv clients 'all(n(i["ops"]) > 0 and n(i["errors"]) == 0 for i in r if i["end"] == "ended")'
	csv clients 'set(i["kind"] for i in r) == {"shared", "fine", "hybrid", "records"}'
	csv rates 'any(n(i["ops_per_s"]) > 0 for i in r) and
		"client 7 is killed" in [i["events"] for i in r]'
	[ -n "$plot" ] || grep -q "client 7 is killed" "$tmp/out/scale.svg" ||
		fail "the plot lacks an event"
}

# under_load: a run until its first event is over.
under_load() {
	env "$mark" "$script" scale --name "$name" --memory 32M --out "$tmp/out" --csv --step 1 \
		>"$tmp/scale.log" 2>&1 &
	scaling=$!
	until_true [ -s "$state/events" ]
}

# ends STATUS
ends() {
	local status=0

	wait $scaling 2>/dev/null || status=$?
	scaling=
	out=$(cat "$tmp/scale.log")
	[ $status -eq "$1" ] || fail "scale ended with $status, not $1: $out"
}

test_ended() {
	under_load
	kill -TERM $scaling
	ends 143
	nothing_is_left
}

test_killed() {
	under_load
	kill -KILL $scaling
	ends 137
	expect 0 env "$mark" "$script" down --name "$name"
	nothing_is_left
}

test_client_lost() {
	local pid

	under_load
	for pid in $(ip netns pids "nam-$name-compute"); do
		! grep -qz "^nam-bench$" "/proc/$pid/cmdline" || kill -KILL "$pid"
	done
	ends 1
	says "client 1 (shared) has ended"
	nothing_is_left
}

if [ "$(id -u)" -ne 0 ]; then
	echo "network namespaces need root"
	exit 77
fi
for program in ip etcd; do
	if ! command -v "$program" >/dev/null; then
		echo "there is no $program: apt-get install iproute2 etcd-server"
		exit 77
	fi
done
env "$mark" "$script" up --name "$name" --memory 16M >"$tmp/up" 2>&1
if [ $? -eq 3 ]; then
	cat "$tmp/up"
	exit 77
fi
trap clean_up EXIT
expect 1 scale
says "$name is up"
expect 0 env "$mark" "$script" down --name "$name"
test_usage
test_whole_run
test_ended
test_killed
test_client_lost
nam_end_processes "$mark" || fail "processes are left"
finish "netns scale: all as it should be"
