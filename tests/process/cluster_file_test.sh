#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/cluster.ini and cluster-tcp.ini: memory servers start by them, clients find them by them;
# SIGHUP makes a memory server read its file again.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

example=$lib/../../deploy/cluster.ini
example_tcp=$lib/../../deploy/cluster-tcp.ini
file=$tmp/cluster.ini

# expect STATUS TEXT COMMAND...: how it ends and what it says.
expect() {
	local wanted=$1 text=$2 status=0 out
	shift 2
	out=$(timeout 60 "$@" 2>&1) || status=$?
	[ "$status" -eq "$wanted" ] || fail "'$*' ended with $status instead of $wanted: $out"
	[[ $out == *"$text"* ]] || fail "'$*' should say '$text' and says: $out"
}

# As it lies there: read to its end, where a third server is missing.
test_example_is_well_formed() {
	expect 2 "no section [server 2]" nam-memserver --config "$example" --id 2
	expect 2 "no section [server 2]" nam-memserver --config "$example_tcp" --id 2
}

# The same in a folder of ours, and smaller; what the command line says goes first.
test_servers_and_clients() {
	sed "s|shm:/run/nam/|shm:$tmp/|" "$example" >"$file"
	trap 'nam_servers_kill; nam_temporary_remove' EXIT
	nam_server_start 1 --config "$file" --memory 64M --pages 4k || fail "server 1"
	nam_server_start 0 --config "$file" --memory 64M --pages 4k || fail "server 0"
	expect 0 "64.0 MiB" namctl --cluster "@$file" status
	expect 0 "created things" namctl --cluster "@$file" index create things
	expect 0 "" namctl --cluster "@$file" put things 1 11
	# The file and the list of its addresses are the same cluster.
	expect 0 "11" namctl --cluster "shm:$tmp/server1,shm:$tmp/server0" get things 1
	expect 0 "11" env "NAM_CLUSTER=@$file" namctl get things 1
	expect 3 "listening" nam-memserver --config "$file" --id 0 --memory 64M
}

# On this host, and smaller; where they listen they know from the file alone.
test_tcp() {
	local port=$((12000 + $$ % 1000 * 20)) id waited
	local pids=()

	sed -e "s|10.1.0.11:7000|127.0.0.1:$port|; s|10.1.0.12:7000|localhost:$((port + 1))|" \
		-e "s|/etc/nam/|$tmp/|" "$example_tcp" >"$tmp/tcp.ini"
	expect 0 "added app" namctl key new "$tmp/keys" app "$tmp/app.key"
	for id in 0 1; do
		nam-memserver --config "$tmp/tcp.ini" --id $id --memory 64M --pages 4k \
			>"$tmp/tcp$id.log" 2>&1 &
		pids+=($!)
	done
	for id in 0 1; do
		for ((waited = 0; waited < 600; waited++)); do
			grep -q "server $id ready" "$tmp/tcp$id.log" && break
			kill -0 "${pids[id]}" || break
			sleep 0.1
		done
	done
	expect 0 "64.0 MiB" namctl --cluster "@$tmp/tcp.ini" \
		--key "$tmp/app.key" status
	expect 0 "created things" namctl --cluster "@$tmp/tcp.ini" \
		--key "$tmp/app.key" index create things
	kill -TERM "${pids[@]}"
	for id in 0 1; do
		wait "${pids[id]}" || fail "tcp, server $id: $(cat "$tmp/tcp$id.log")"
	done
}

# event TEXT: server 0 has logged it.
event() {
	local waited

	for ((waited = 0; waited < 300; waited++)); do
		grep -qF -- "$1" "$tmp/server0.log" && return
		sleep 0.1
	done
	fail "no '$1' in $(cat "$tmp/server0.log")"
}

# not_reloaded LINE TEXT: with that line first in its section, SIGHUP changes nothing and says why.
not_reloaded() {
	local at

	cp "$file" "$tmp/good.ini"
	sed -i "/^\[server 0\]/,/^\[server 1\]/{/^${1%% *} /d}; s/^\[server 0\]/&\n$1/" "$file"
	at=$(grep -n "^$1" "$file") && at=${at%%:*}
	kill -HUP "${nam_server_pids[0]}"
	event "event=not_reloaded text=\"$file, [server] at line $at: $2"
	mv "$tmp/good.ini" "$file"
}

test_reload() {
	! grep -q level=debug "$tmp/server0.log" || fail "debug was not asked for"
	sed -i '0,/^rpc_threads/s/^rpc_threads.*/rpc_threads = 2\nlog_level = debug/' "$file"
	kill -HUP "${nam_server_pids[0]}"
	event 'level=warn event=reloaded server=0 log_level=debug needs_restart="rpc_threads"'
	expect 0 "11" namctl --cluster "@$file" get things 1
	event level=debug
	not_reloaded "log_level = loud" "log_level: 'loud' is not known"
	not_reloaded "rpc_threads = lots" "rpc_threads: 'lots' is not a whole number"
	not_reloaded "numa = x" "numa: 'x' is not a whole number"
	not_reloaded "numa = 900" "numa: this host has no NUMA node 900"
	not_reloaded "region = 12Q" "region: '12Q' is not a size"
	not_reloaded "region = 128k" "region: 128 KiB is not a multiple of 4 KiB between"
	not_reloaded "metrics = 94x66" "metrics: '94x66' is no PORT or HOST:PORT"
	sed -i '/^log_level/d; 0,/^rpc_threads/s/^rpc_threads.*/rpc_threads = 1/' "$file"
	kill -HUP "${nam_server_pids[0]}"
	event 'level=info event=reloaded server=0 log_level=info needs_restart=""'
	expect 0 "11" namctl --cluster "@$file" get things 1
}

# A SIGHUP while the server reads its file at the start; the reload waits for a writer for ever.
test_reload_that_waits() {
	local pid began waited

	mkfifo "$tmp/slow.ini"
	nam-memserver --config "$tmp/slow.ini" --id 0 >"$tmp/slow.log" 2>&1 &
	pid=$!
	exec 7>"$tmp/slow.ini"
	kill -HUP "$pid"
	printf '[server 0]\nlisten = shm:%s/slow\nmemory = 64M\npages = 4k\n' "$tmp" >&7
	exec 7>&-
	for ((waited = 0; waited < 600; waited++)); do
		! grep -q " ready " "$tmp/slow.log" || break
		kill -0 "$pid" || fail "SIGHUP ended a server that starts: $(cat "$tmp/slow.log")"
		sleep 0.1
	done
	began=$SECONDS
	kill -TERM "$pid"
	wait "$pid" || fail "a server that waits for its file ended with $?"
	[ $((SECONDS - began)) -lt 30 ] || fail "a server that waits for its file did not end"
}

test_ids_of_file_and_servers_differ() {
	sed 's/^\[server 0\]/[server 9]/; s/^\[server 1\]/[server 0]/; s/^\[server 9\]/[server 1]/' \
		"$file" >"$tmp/swapped.ini"
	expect 2 "$tmp/server" namctl --cluster "@$tmp/swapped.ini" status
}

test_mistakes() {
	local line

	for line in "memory = plenty" "speed = 9" "listen"; do
		printf '[server 0]\nlisten = shm:%s/x\n%s\n' "$tmp" "$line" >"$tmp/wrong.ini"
		expect 2 "wrong.ini" nam-memserver --config "$tmp/wrong.ini" --id 0
	done
	# Before the memory is asked for, of which there is not so much.
	printf '[server 0]\nlisten = shm:%s/x\nmemory = 60T\nregion = 256G\nmetrics = 94x66\n' \
		"$tmp" >"$tmp/wrong.ini"
	expect 2 "$tmp/wrong.ini, [server] at line 2: metrics: '94x66' is no PORT or HOST:PORT" \
		nam-memserver --config "$tmp/wrong.ini" --id 0
	expect 2 "no-such.ini" nam-memserver --config "$tmp/no-such.ini" --id 0
}

test_example_is_well_formed
test_servers_and_clients
test_reload
test_reload_that_waits
test_tcp
test_ids_of_file_and_servers_differ
test_mistakes
nam_servers_stop || fail "the servers did not end well"
finish "cluster file: all as it should be"
