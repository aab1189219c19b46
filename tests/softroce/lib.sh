# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# lib.sh -- for test cases: the hosts, servers, figures.
#
# The hosts are variables, set by tests/softroce/run.  NAM_LEFT, NAM_RIGHT and NAM_ALONE are IPv4
# addresses, NAM_LEFT_DEVICE the RDMA device, NAM_LEFT_PORT its port.  NAM_LEFT_GID is the index of
# the address's GID there, NAM_LEFT_WIRE the interface, and so on.  With --host all three are the
# same device.

set -u
set -o pipefail
tmp=
# shellcheck source=tests/lib/temporary.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/temporary.sh"

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

skip() {
	echo "skip $*"
	exit 77
}

# figure NAME VALUE UNIT: a line for people and for programs.
figure() {
	echo "figure $1 $2 $3"
}

# need_wire: the case delays, loses or cuts what is between the hosts.
need_wire() {
	[ -n "${NAM_LEFT_WIRE:-}" ] || skip "the hosts have no wire that is ours"
}

# wire NETEM...: both ways.
wire() {
	local end

	for end in "$NAM_LEFT_WIRE" "$NAM_RIGHT_WIRE"; do
		tc qdisc replace dev "$end" root netem "$@" || fail "tc: no netem $* on $end"
	done
}

# cut: all packets between the hosts are lost, silently.
cut() {
	wire loss 100%
}

# mend: the wire as it was.
mend() {
	tc qdisc del dev "$NAM_LEFT_WIRE" root
	tc qdisc del dev "$NAM_RIGHT_WIRE" root
	true
} 2>/dev/null

# counter DEVICE NAME: one of the driver's, of its port 1.
counter() {
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

server_pid=

# serve COMMAND...: in the background, with its output in $tmp/server.
serve() {
	"$@" >"$tmp/server" 2>&1 </dev/null &
	server_pid=$!
}

# await SECONDS COMMAND...: until it succeeds.
await() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# tcp_listening PORT: whether a server listens there.
tcp_listening() {
	grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf '%04X' "$1") [0-9A-F]+:0000 0A " \
		/proc/net/tcp /proc/net/tcp6
}

# cm_listening PORT: the same for rdma_cm.
cm_listening() {
	rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN.*:$1 "
}

# await_server COMMAND...: until it listens; ends the case if it does not.
await_server() {
	local end=$((SECONDS + 20))

	while kill -0 "$server_pid" 2>/dev/null && [ $SECONDS -lt $end ]; do
		"$@" && return
		sleep 0.1
	done
	cat "$tmp/server" >&2
	fail "the server does not listen: $*"
}

# end_server: by itself, with 0.
end_server() {
	if ! wait "$server_pid"; then
		cat "$tmp/server" >&2
		fail "the server has failed"
	fi
	server_pid=
}

memory_server_pids=()	# by id

# memory_server ID PORT OPTION...: one of the left host's; returns when it is ready.
memory_server() {
	local id=$1 log=$tmp/memory_server$1 address=verbs:$NAM_LEFT:$2 end=$((SECONDS + 20))
	shift 2
	: >"$log"
	nam-memserver --insecure --id "$id" --listen "$address" "$@" >"$log" 2>&1 </dev/null &
	memory_server_pids[id]=$!
	while kill -0 "${memory_server_pids[id]}" 2>/dev/null && [ $SECONDS -lt $end ]; do
		! grep -q " ready " "$log" || return 0
		sleep 0.1
	done
	fail "memory server $id does not get ready: $(cat "$log")"
}

# cluster OPTION...: two memory servers on the left host; its clients are the right one.
cluster() {
	memory_server 0 7100 "$@"
	memory_server 1 7101 "$@"
	export NAM_CLUSTER=verbs:$NAM_LEFT:7100,verbs:$NAM_LEFT:7101
}

# end_cluster: as an operator would.
end_cluster() {
	local id

	for id in "${!memory_server_pids[@]}"; do
		kill -TERM "${memory_server_pids[id]}"
		wait "${memory_server_pids[id]}" ||
			fail "memory server $id has ended badly: $(cat "$tmp/memory_server$id")"
		unset "memory_server_pids[id]"
	done
}

# at_exit: neither a server nor a file remains.
at_exit() {
	local pid

	for pid in $server_pid "${memory_server_pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
		# It gives its memory and queue pairs back first.
		wait "$pid" 2>/dev/null
	done
	nam_temporary_remove
}
trap at_exit EXIT
