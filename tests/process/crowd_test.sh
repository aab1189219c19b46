#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A memory server with few descriptors, or one peer with very many connections.  Others are served,
# the rest is refused at once with a named error, and `namctl status` works.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

trap 'crowd_end; nam_servers_kill; nam_temporary_remove' EXIT
crowd_pid=

# crowd CLUSTER MOST: $held connections are held; $reason is why there are no more.
crowd() {
	local waited

	mkfifo "$tmp/hold"
	crowd_tool "$1" "$2" <"$tmp/hold" >"$tmp/crowd" 2>&1 &
	crowd_pid=$!
	exec 9>"$tmp/hold"
	rm "$tmp/hold"
	for ((waited = 0; waited < 600; waited++)); do
		[ "$(wc -l <"$tmp/crowd")" -ge 2 ] && break
		sleep 0.05
	done
	{ read -r held && read -r reason; } <"$tmp/crowd" || fail "crowd_tool: $(cat "$tmp/crowd")"
}

crowd_end() {
	exec 9>&-
	[ -z "$crowd_pid" ] || wait "$crowd_pid"
	crowd_pid=
}

# A memory server with as many descriptors, if $descriptors says so.
nam-memserver() {
	[ -z "$descriptors" ] || ulimit -n "$descriptors"
	exec env nam-memserver "$@"
}

# try DESCRIPTORS TEXT: one peer holds $held connections and hears TEXT; the server logs it once.
try() {
	local descriptors=$1
	nam_server_start 0 --memory 16M --pages 4k --rpc-threads 1 || exit 1
	crowd "$near" 1000
	[[ $reason == *"$2"* ]] || fail "$near: $held connections, then: $reason"
	[ "$(grep -c "level=warn event=refused peer=.* remedy=" "$tmp/server0.log")" -eq 1 ] ||
		fail "$near: the log of the memory server: $(cat "$tmp/server0.log")"
	expect 0 namctl --cluster "$near" status
}

# Over tcp the second peer is another address of this host.
fabrics=(shm "tcp:[::]:0")
[ -s /proc/net/if_inet6 ] || fabrics=(shm)

for fabric in "${fabrics[@]}"; do
	NAM_TEST_FABRIC=$fabric
	near=$(nam_server_address 0) far=$near
	[ "$fabric" = shm ] || near=${near/\[::\]/127.0.0.1} far=${far/::/::1}

	try 150 "no file descriptors left"
	[ "$held" -ge 20 ] || fail "$near: only $held connections"
	expect 3 namctl --cluster "$far" index list
	says "no file descriptors left"
	crowd_end
	expect 0 namctl --cluster "$far" index list
	nam_servers_stop || fail "a server with few descriptors ended badly"

	try "" "three quarters"
	[ "$held" -eq 749 ] || fail "$near: $held connections"
	expect 0 namctl --cluster "$far" index list
	crowd_end
	nam_servers_stop || fail "a server with many connections ended badly"
done
finish "crowds: as many connections as fit, others are served"
