# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# servers.sh -- memory servers for a test script.  Source temporary.sh first: sockets and logs lie
# in $tmp.
#
#	nam_servers_start 2 --memory 64M --region 16M
#	namctl status "$cluster"
#	nam_servers_stop
#
# They listen at sockets there, or, where NAM_TEST_FABRIC is for example verbs:10.0.0.1:0, at ports
# of that host.

cluster=		# what clients connect to
nam_server_pids=()	# by server id

# shellcheck disable=SC2154	# tmp is from temporary.sh

# nam_server_address ID
nam_server_address() {
	case ${NAM_TEST_FABRIC:-shm} in
	*:0) echo "${NAM_TEST_FABRIC%:0}:$((10000 + $$ % 1000 * 20 + $1))" ;;
	*) echo "shm:$tmp/server$1" ;;
	esac
}

# nam_server_nobody: an address at which no memory server is.
nam_server_nobody() {
	case ${NAM_TEST_FABRIC:-shm} in
	*:0) echo "${NAM_TEST_FABRIC%:0}:9" ;;
	*) echo "shm:$tmp/nobody" ;;
	esac
}

# nam_scaled COUNT LEAST: COUNT times the factor NAM_TEST_SCALE, and no fewer than LEAST.
nam_scaled() {
	awk -v n="$1" -v least="$2" -v scale="${NAM_TEST_SCALE:-1}" \
		'BEGIN { n *= scale; printf "%d\n", n < least ? least : n }'
}

# nam_server_start ID OPTION...: returns once it is ready; prints its log if it does not get there.
nam_server_start() {
	local id=$1 log=$tmp/server$1.log address waited
	address=$(nam_server_address "$1")
	shift
	if [ -n "${nam_server_pids[id]:-}" ]; then
		echo "memory server $id is running already" >&2
		return 1
	fi
	# Emptied here: the server is started in the background, and an earlier one was ready, too.
	: >"$log"
	nam-memserver --insecure --listen "$address" --id "$id" "$@" >"$log" 2>&1 </dev/null &
	nam_server_pids[id]=$!
	for ((waited = 0; waited < 300; waited++)); do
		if grep -q "server $id ready" "$log"; then
			return 0
		fi
		if ! kill -0 "${nam_server_pids[id]}" 2>/dev/null; then
			break
		fi
		sleep 0.05
	done
	echo "memory server $id did not get ready:" >&2
	cat "$log" >&2
	kill -KILL "${nam_server_pids[id]}" 2>/dev/null || true
	wait "${nam_server_pids[id]}" 2>/dev/null || true
	unset "nam_server_pids[id]"
	return 1
}

# nam_servers_start COUNT OPTION...: ids 0 and up; sets $cluster.
nam_servers_start() {
	local count=$1 id
	shift
	trap 'nam_servers_kill; nam_temporary_remove' EXIT
	cluster=
	for ((id = 0; id < count; id++)); do
		nam_server_start "$id" "$@" || return 1
		cluster+=${cluster:+,}$(nam_server_address "$id")
	done
}

# End all as an operator would; fails when one does not end with status 0.
nam_servers_stop() {
	local id status=0

	for id in "${!nam_server_pids[@]}"; do
		kill -TERM "${nam_server_pids[id]}" 2>/dev/null || true
		if ! wait "${nam_server_pids[id]}"; then
			echo "memory server $id ended badly:" >&2
			cat "$tmp/server$id.log" >&2
			status=1
		fi
		unset "nam_server_pids[id]"
	done
	return $status
}

# End all as a power failure would.
nam_servers_kill() {
	local id

	for id in "${!nam_server_pids[@]}"; do
		kill -KILL "${nam_server_pids[id]}" 2>/dev/null || true
		wait "${nam_server_pids[id]}" 2>/dev/null || true
		unset "nam_server_pids[id]"
	done
}
