#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/netns: a cluster across network namespaces, used, cut, killed at every step of its making,
# and gone afterwards.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/processes.sh
. "$lib/processes.sh"

script=$lib/../../deploy/netns
name=t$$
mark=NAM_TEST_NETNS=$name
bench=(nam-bench index --keys "$(nam_scaled 10000 1000)" --ops "$(nam_scaled 5000 500)" --verify)
bound=$((20 * ${NAM_TEST_SLOWNESS:-1}))	# seconds; TCP gives up after 2 to 3

# netns COMMAND ARGUMENT...: of our cluster.
netns() {
	env "$mark" "$script" "$1" --name "$name" "${@:2}"
}

clean_up() {
	netns down >/dev/null 2>&1
	env "$mark" "$script" down --name "${name}b" >/dev/null 2>&1
	nam_temporary_remove
}

# await_for SECONDS COMMAND...: until it succeeds.
await_for() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# down_leaves_nothing [NAME]
down_leaves_nothing() {
	expect 0 env "$mark" "$script" down --name "${1:-$name}"
	[ ! -e "/run/nam-netns-${1:-$name}" ] || fail "down leaves /run/nam-netns-${1:-$name}"
	! compgen -G "/run/netns/nam-${1:-$name}-*" || fail "down leaves namespaces"
}

# ---- permissions and usage -----------------------------------------------------------------------

test_usage() {
	local options

	expect 0 "$script" --help
	says "--delay MS"
	for options in "" "fly" "up --fast" "up here" "up --memory 3" "up --name A-b" "up --name" \
		"down --memory 64M" "up --delay soon" "up --loss 100" "run" "cut" "cut mem7" \
		"mend mem0 mem1"; do
		# shellcheck disable=SC2086	# words
		expect 2 "$script" $options
		says "--help"
	done
}

test_needs_root() {
	mkdir "$tmp/deploy"
	cp "$script" "$tmp/deploy/"
	chmod 755 "$tmp" "$tmp/deploy"
	expect 3 setpriv --reuid=nobody --regid=nogroup --clear-groups \
		"$tmp/deploy/netns" up --name "$name"
	says "need root"
}

# ---- a cluster -----------------------------------------------------------------------------------

test_up_twice() {
	local first

	expect 0 netns up --memory 64M
	first=$out
	says "tcp:10.77.0.1:7000  memory=64M"
	expect 0 netns up --memory 64M
	says "up already"
	expect 0 netns status
	prints "$first"
	expect 1 netns up --memory 32M
	says "take it down first"
	[[ $(ip -o link) == "$links" ]] || fail "interfaces outside: $(ip -o link) were $links"
}

test_run() {
	expect 7 netns run -- sh -c 'echo "$NAM_CLUSTER"; exit 7'
	prints "tcp:10.77.0.1:7000"
	expect 0 netns run -- ip -br -4 addr show dev eth0
	says "10.77.0.3/24"
	expect 0 netns run -- namctl status
	says "64.0 MiB"
	expect 0 netns run -- "${bench[@]}" --workload ycsb-a --json "$tmp/json"
	out=$(cat "$tmp/json")
	json 'r["fabric"] == "tcp" and r["memservers"] == 2 and r["errors"] == 0 and r["ops"] > 0'
}

test_two_clusters() {
	expect 0 env "$mark" "$script" up --name "${name}b" --memory 32M
	expect 0 env "$mark" "$script" run --name "${name}b" -- namctl status
	says "32.0 MiB"
	expect 0 netns run -- namctl status
	says "64.0 MiB"
	down_leaves_nothing "${name}b"
	expect 0 netns run -- namctl status
}

# moved: what has left a memory server, in bytes, since it is up.
moved() {
	ip netns exec "nam-$name-switch" cat /sys/class/net/mem1/statistics/rx_bytes
}

# has_moved BYTES
has_moved() {
	[ "$(moved)" -gt "$1" ]
}

# cut_under_load HOST: its end is noticed in bounded time on either side; then all is well.
cut_under_load() {
	local pid began status=0 before

	before=$(moved)
	env "$mark" timeout -s KILL $((3 * bound)) "$script" run --name "$name" -- \
		nam-bench index --name "cut_$1" --keys 2k --seconds 300 --quiet \
		>"$tmp/load" 2>&1 &
	pid=$!
	await_for "$bound" has_moved $((before + 1000000)) || fail "$1: no load: $(cat "$tmp/load")"
	expect 0 netns cut "$1"
	began=$SECONDS
	expect 1 netns status
	says "cut off"
	wait "$pid" || status=$?
	[ $status -eq 3 ] || fail "$1: the load ended with $status: $(cat "$tmp/load")"
	[ $((SECONDS - began)) -lt "$bound" ] || fail "$1: $((SECONDS - began)) s to its end"
	grep -q "tcp:10.77.0..:7000" "$tmp/load" || fail "$1: names no server: $(cat "$tmp/load")"
	expect 0 netns mend "$1"
	expect 0 netns status
	await_for "$bound" netns run -- namctl --quiet status 2>"$tmp/err" ||
		fail "$1: not mended: $(cat "$tmp/err")"
	expect 0 netns run -- "${bench[@]}" --name "mended_$1" --quiet
}

test_server_dies() {
	kill -KILL "$(cat "/run/nam-netns-$name/server1.pid")"
	await_for "$bound" eval '! netns status >/dev/null' || fail "status sees no death"
	expect 1 netns status
	says "memory server 1 has ended"
	expect 0 netns up --memory 64M
	says "removing the remains"
	expect 0 netns run -- namctl status
}

test_down() {
	netns run -- sleep 1000 &
	await_for "$bound" eval '[ "$(ip netns pids "nam-$name-compute" | wc -l)" -gt 0 ]'
	down_leaves_nothing
	wait $!
	expect 0 netns down
	says "is not up"
	expect 1 netns status
	says "is not up"
	expect 1 netns run -- true
	says "is not up"
	expect 1 netns cut mem0
}

# ---- killed midway -------------------------------------------------------------------------------

# An ip that kills up before the call whose number is in a file, and then goes on.
make_deadly_ip() {
	mkdir "$tmp/bin"
	cat >"$tmp/bin/ip" <<-END
		#!/bin/bash
		echo >>"$tmp/calls"
		if [ "\$(wc -l <"$tmp/calls")" -eq "\$(cat "$tmp/deadly")" ]; then
			kill -KILL "\$(cat "$tmp/victim")"
		fi
		exec $(command -v ip) "\$@"
	END
	chmod +x "$tmp/bin/ip"
}

# up_with_end CALL: what it ended with; 137 if it was killed.
up_with_end() {
	: >"$tmp/calls"
	echo "$1" >"$tmp/deadly"
	# shellcheck disable=SC2016	# for the other shell
	{
		env "$mark" PATH="$tmp/bin:$PATH" bash -c 'echo $$ >"$1"; exec "${@:2}"' - \
			"$tmp/victim" "$script" up --name "$name" --memory 16M >"$tmp/up" 2>&1
	} 2>/dev/null
}

test_up_killed_at_every_step() {
	local call status killed=0

	make_deadly_ip
	for ((call = 1; call < 60; call++)); do
		status=0
		up_with_end "$call" || status=$?
		[ "$(wc -l <"$tmp/calls")" -ge "$call" ] || break
		# Two calls at the same time may both pass for the later one.
		[ $status -ne 137 ] || killed=$((killed + 1))
		if [ $((call % 2)) -eq 0 ]; then
			expect 0 netns up --memory 16M
			expect 0 netns run -- namctl --quiet status
		fi
		down_leaves_nothing
	done
	[ "$status" -eq 0 ] || fail "up that is not killed: $(cat "$tmp/up")"
	[ $killed -gt 10 ] || fail "up was killed in $killed places only: $(cat "$tmp/up")"
	expect 0 netns status
	down_leaves_nothing
}

# ---- a slow network ------------------------------------------------------------------------------

test_netem() {
	local status=0

	netns up --memory 16M --delay 5 --loss 1 >"$tmp/up" 2>&1 || status=$?
	if [ $status -eq 3 ]; then
		grep -q netem "$tmp/up" || fail "no netem, and it says: $(cat "$tmp/up")"
		echo "passed over: this kernel has no netem"
		expect 1 netns status
	else
		[ $status -eq 0 ] || fail "--delay: $(cat "$tmp/up")"
		expect 0 netns run -- nam-bench raw --op read --bytes 64 --depth 1 --ops 100 \
			--json "$tmp/json"
		out=$(cat "$tmp/json")
		json 'r["latency_ns"]["p50"] >= 10e6'
		expect 0 netns run -- "${bench[@]}"
	fi
	down_leaves_nothing
}

if [ "$(id -u)" -ne 0 ]; then
	echo "network namespaces need root"
	exit 77
fi
test_usage
netns up --memory 64M >"$tmp/up" 2>&1
if [ $? -eq 3 ]; then
	cat "$tmp/up"
	exit 77
fi
trap clean_up EXIT
down_leaves_nothing
links=$(ip -o link)
test_needs_root
test_up_twice
test_run
test_two_clusters
for host in mem1 mem0 compute; do
	cut_under_load "$host"
done
test_server_dies
test_down
test_up_killed_at_every_step
test_netem
nam_end_processes "$mark" || fail "processes are left"
[[ $(ip -o link) == "$links" ]] || fail "interfaces are left: $(ip -o link) were $links"
finish "netns: all as it should be"
