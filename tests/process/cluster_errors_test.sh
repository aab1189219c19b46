#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Errors when a cluster starts, and when its memory is full: messages and exit
# statuses of nam-memserver and namctl, as their --help has them.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

fake_pids=()

# expect STATUS TEXT COMMAND...: how it ends, what it says, and that it does not take for ever.
expect() {
	local wanted=$1 text=$2 status=0
	shift 2
	out=$(timeout 30 "$@" 2>&1 </dev/null) || status=$?
	[ "$status" -eq "$wanted" ] || fail "'$*' ended with $status instead of $wanted: $out"
	[[ $out == *"$text"* ]] || fail "'$*' should say '$text' and says: $out"
}

# fake HOW WHAT: a peer of another version; sets $fake to its address.
fake() {
	local pipe=$tmp/fake${#fake_pids[@]}
	mkfifo "$pipe"
	# Its standard input is ours to keep open: it ends with us.
	sleep 1000 >"$pipe" &
	fake_pids+=($!)
	fake_server_tool "$1" "$2" <"$pipe" >"$pipe.out" &
	fake_pids+=($!)
	for ((i = 0; i < 200; i++)); do
		[ -s "$pipe.out" ] && break
		sleep 0.05
	done
	fake=$(head -n 1 "$pipe.out")
	[ -n "$fake" ] || fail "the fake server ($1) did not start"
}

clean_up() {
	local pid
	for pid in "${fake_pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	nam_servers_kill
	nam_temporary_remove
}

# ---- starting a memory server ----------------------------------------------------------------

test_memserver_usage() {
	expect 0 "Exit status" nam-memserver --help
	expect 0 "" nam-memserver --version
	expect 2 "--listen" nam-memserver
	expect 2 "" nam-memserver --no-such-option
	expect 2 "tcp" nam-memserver --listen tcp:somewhere --memory 64M
	expect 2 "path" nam-memserver --listen shm: --memory 64M
	expect 2 "256" nam-memserver --listen "shm:$tmp/x" --id 256
	expect 2 "plenty" nam-memserver --listen "shm:$tmp/x" --memory plenty
	expect 2 "--memory" nam-memserver --listen "shm:$tmp/x" --memory 0
	expect 2 "3M" nam-memserver --listen "shm:$tmp/x" --pages 3M
	expect 2 "--rpc-threads" nam-memserver --listen "shm:$tmp/x" --rpc-threads 0
	expect 2 "--region" nam-memserver --listen "shm:$tmp/x" --memory 64M --region 1k
	expect 2 "make --region larger" nam-memserver --listen "shm:$tmp/x" --memory 257M \
		--region 1M
	[ ! -e "$tmp/x" ] || fail "a server that did not start left its socket"
}

test_memserver_places() {
	local long length

	expect 2 "$tmp/no/such/folder" \
		nam-memserver --listen "shm:$tmp/no/such/folder/x" --memory 64M
	for length in 108 123 124 200; do
		printf -v long "%s/%$((length - ${#tmp} - 1))s" "$tmp" ''
		long=${long// /x}
		expect 2 "path of a Unix socket may have 107 bytes" \
			nam-memserver --listen "shm:$long" --memory 64M
		expect 2 "path of a Unix socket may have 107 bytes" \
			namctl --cluster "shm:$long" status
	done
	printf '[server 0]\nlisten = shm:%s\n' "${long:0:150}" >"$tmp/long.ini"
	expect 2 "path of a Unix socket may have 107 bytes" \
		nam-memserver --config "$tmp/long.ini" --id 0
	expect 2 "127 bytes" namctl --cluster "tcp:$long:7000" status
	echo precious >"$tmp/file"
	expect 1 "not a socket" nam-memserver --listen "shm:$tmp/file" --memory 64M
	[ "$(cat "$tmp/file")" = precious ] || fail "a file was taken for a socket"
	expect 2 "tcp:HOST:PORT" nam-memserver --listen tcp:127.0.0.1 --memory 64M
	expect 2 "from 1 to 65535" nam-memserver --listen tcp:127.0.0.1:0 --memory 64M
	expect 2 "not known" nam-memserver --listen tcp:no.such.host.invalid:7000 --memory 64M
	expect 1 "no such address" nam-memserver --insecure --listen tcp:192.0.2.1:7000 --memory 64M
}

test_memserver_memory() {
	# More than any host has; and huge pages that the pool does not hold.
	expect 4 "--memory" \
		nam-memserver --listen "shm:$tmp/x" --memory 32T --region 256G --pages 4k
	local pool=/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages
	if [ "$(cat $pool 2>/dev/null || echo 0)" -lt 64 ]; then
		expect 4 "hugepages" nam-memserver --listen "shm:$tmp/x" --memory 64G --pages 1G
	fi
	expect 2 "--numa" nam-memserver --listen "shm:$tmp/x" --memory 64M --numa 900
}

test_memserver_config() {
	local file=$tmp/cluster.ini line

	expect 2 "$tmp/nothing.ini" nam-memserver --config "$tmp/nothing.ini" --id 0
	while read -r line; do
		printf '[server 0]\nlisten = shm:%s/x\n%b\n' "$tmp" "$line" >"$file"
		expect 2 "cluster.ini:" nam-memserver --config "$file" --id 0
		expect 2 "cluster.ini:" namctl --cluster "@$file" status
	done <<-'EOT'
		[server zero]\nlisten = shm:/x
		[server 256]\nlisten = shm:/x
		[server 0]\n[server 1]\nlisten = shm:/x\n[server 0]\nlisten = shm:/y
		colour = blue
		listen = shm:/again
		no equals sign
		[server 1]\nmemory = 64M
		[unfinished
	EOT
	: >"$file"
	expect 2 "no memory server" nam-memserver --config "$file" --id 0
	printf '[server 0]\nlisten = shm:%s/x\nmemory = plenty\n' "$tmp" >"$file"
	expect 2 "plenty" nam-memserver --config "$file" --id 0
	head -c 100000 /dev/urandom >"$file"
	expect 2 "cluster.ini" nam-memserver --config "$file" --id 0
	expect 2 "cluster.ini" namctl --cluster "@$file" status
	[ ! -e "$tmp/x" ] || fail "a server that did not start left its socket"
}

# A live server keeps its address; a dead one's is taken over; one that ends gives it up.
test_memserver_address() {
	nam_servers_start 1 --memory 64M --region 32M --pages 4k || fail "server 0"
	expect 3 "$tmp/server0" nam-memserver --listen "shm:$tmp/server0" --memory 64M
	expect 0 "" namctl --cluster "$cluster" status
	kill -KILL "${nam_server_pids[0]}"
	wait "${nam_server_pids[0]}" 2>/dev/null
	unset "nam_server_pids[0]"
	[ -S "$tmp/server0" ] || fail "a killed server cannot have removed its socket"
	expect 3 "$tmp/server0" namctl --cluster "$cluster" status
	nam_server_start 0 --memory 64M --region 32M --pages 4k || fail "server 0 anew"
	expect 0 "" namctl --cluster "$cluster" status
	nam_servers_stop || fail "SIGTERM"
	[ ! -e "$tmp/server0" ] || fail "a server that ended left its socket"
	[ ! -e "$tmp/server0.lock" ] || fail "a server that ended left its lock"
}

# ---- putting a cluster together ---------------------------------------------------------------

test_cluster_texts() {
	local text

	for text in "" "," "shm:" "nothing" "shm:$tmp/a,," "@" "@$tmp/no-such-file" \
		"shm:$tmp/a,shm:$tmp/a" "verbs:host:1" "shm:$tmp/a, tcp:host:1"; do
		expect 2 "" namctl --cluster "$text" status
		[ -n "$out" ] || fail "nothing was said about the cluster '$text'"
		expect 2 "" namctl --cluster "$text" index list
	done
	expect 2 "" namctl --cluster "shm:$tmp/$(printf 'x%.0s' {1..200})" status
}

test_wrong_addresses() {
	expect 3 "no memory server listens" namctl --cluster tcp:127.0.0.1:9 status
	expect 2 "not known" namctl --cluster tcp:no.such.host.invalid:7000 status
	expect 3 "$tmp/nobody" namctl --cluster "shm:$tmp/nobody" status
	says "nam-memserver"	# how to start one
	echo >"$tmp/a-file"
	expect 3 "$tmp/a-file: that is a file" namctl --cluster "shm:$tmp/a-file" status
	expect 3 "$tmp: that is a folder" namctl --cluster "shm:$tmp" status
	fake silent "$tmp/silent"
	expect 3 "$tmp/silent" namctl --cluster "$fake" --timeout-ms 500 status
	says "does not answer within 500 ms"
}

# A client without permission does not report a live server as dead.
test_permission() {
	local other=()

	nam_servers_start 1 --memory 64M --region 32M --pages 4k || fail "server 0"
	if [ "$(id -u)" -eq 0 ]; then
		other=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
	fi
	chmod 000 "$tmp/server0"
	if "${other[@]}" test -x "$NAM_BUILD_DIR/bin/namctl"; then
		expect 3 "permission denied" "${other[@]}" namctl --cluster "$cluster" status
		says "unusable: the memory server does not admit this user"
	fi
	nam_servers_stop || fail "SIGTERM"
}

# No server 0; one server under two names; two servers with one id; ids unlike the file's.
test_ids() {
	nam-memserver --listen "shm:$tmp/twin" --id 1 --memory 64M --pages 4k \
		>"$tmp/twin.log" 2>&1 &
	fake_pids+=($!)
	nam_servers_start 2 --memory 64M --region 32M --pages 4k || fail "servers"
	for ((i = 0; i < 200; i++)); do
		grep -q ready "$tmp/twin.log" && break
		sleep 0.05
	done
	expect 0 "" namctl --cluster "$cluster" status
	expect 0 "" namctl --cluster "$cluster" index list
	# Any one of them says where the others are.
	expect 0 "" namctl --cluster "shm:$tmp/server1" index list
	expect 2 "both have the id 1" namctl --cluster "$cluster,shm:$tmp/twin" status
	says "$tmp/twin"
	ln -s "$tmp/server1" "$tmp/alias"
	expect 2 "one memory server" namctl --cluster "$cluster,shm:$tmp/alias" status
	printf '[server 0]\nlisten = shm:%s/server0\n[server 2]\nlisten = shm:%s/server1\n' "$tmp" \
		"$tmp" >"$tmp/ids.ini"
	expect 2 "ids.ini" namctl --cluster "@$tmp/ids.ini" status || true
	says "its id is 1"
	expect 0 "" namctl --cluster "$cluster" index create both
	expect 1 "no such key" namctl --cluster "shm:$tmp/server0" get both 1
	nam_servers_stop || fail "SIGTERM"
}

# ---- other versions ---------------------------------------------------------------------------

test_versions() {
	local address wire

	wire=$(sed -n 's/^#define NAM_WIRE_VERSION \([0-9]*\)u$/\1/p' "$lib/../../common/rpc/rpc.h")
	fake wire "$tmp/wire"
	[[ $fake != shm:* ]] || [ -S "$tmp/wire" ] || fail "$fake does not go with \$tmp"
	expect 3 "version 99" namctl --cluster "$fake" status
	says "version $wire"
	says "$fake"
	fake handshake "$tmp/handshake"
	expect 3 "version 99" namctl --cluster "$fake" status
	says "same release"
	nam_servers_start 1 --memory 64M --region 32M --pages 4k || fail "server 0"
	address=shm:$tmp/server0
	expect 0 "refused: NAM_E_FABRIC_VERSION, version $wire" fake_server_tool client "$address"
	# A refused client does not block others.
	expect 0 "" namctl --cluster "$cluster" status
	nam_servers_stop || fail "SIGTERM"
}

# ---- indexes ----------------------------------------------------------------------------------

test_indexes() {
	nam_servers_start 2 --memory 64M --region 32M --pages 4k || fail "servers"
	export NAM_CLUSTER=$cluster
	expect 5 "nowhere" namctl get nowhere 1
	expect 5 "nowhere" namctl index verify nowhere
	expect 5 "nowhere" namctl index drop nowhere
	expect 5 "nowhere" namctl load nowhere /dev/null
	expect 0 "" namctl index create wide --key-bytes 16
	expect 2 "16" namctl put wide "a key that is longer than sixteen bytes" 1
	expect 2 "16" namctl --key-type hex put wide 0102030405060708090a0b0c0d0e0f1011 1
	expect 2 "16" namctl --key-type hex range wide - 0102030405060708090a0b0c0d0e0f1011
	printf 'short\t1\na key that is longer than sixteen bytes\t2\n' >"$tmp/wide.tsv"
	expect 2 "wide.tsv:2" namctl load wide "$tmp/wide.tsv"
	expect 0 "" namctl range wide - -
	[ -z "$out" ] || fail "some of a malformed file was loaded: $out"
	expect 1 "" namctl get wide absent
	expect 2 "1000" namctl index create odd --node-bytes 1000
	expect 2 "65" namctl index create odd --key-bytes 65
	expect 2 "" namctl index create "$(printf 'n%.0s' {1..64})"
	expect 4 "wide" namctl index create wide
	unset NAM_CLUSTER
	nam_servers_stop || fail "SIGTERM"
}

# ---- memory used up ---------------------------------------------------------------------------

test_full_memory() {
	local entries

	nam_servers_start 2 --memory 512k --region 256k --pages 4k || fail "servers"
	export NAM_CLUSTER=$cluster
	# Without head nodes, which would take what the collector gains.
	expect 0 "" namctl index create full --node-bytes 256 --head-interval 0
	# One by one, in no order: some get in, and then no more do.
	expect 0 "" namctl put full 1 1
	seq 1 50000 | awk '{ print ($1 * 7919) % 50021 + 10 "\t" $1 }' >"$tmp/many.tsv"
	expect 6 "NAM_E_REMOTE_FULL" namctl load full "$tmp/many.tsv"
	says "--memory"
	# A leaf may have found room to be divided and its parent none.  That separator is late
	# (I7), which is legal.  The collector makes it good when there is room again.
	out=$(namctl index verify full 2>&1 </dev/null) || [[ $out == *"I7: "* ]] ||
		fail "verify: $out"
	! grep -q '^I[^7]' <<<"$out" || fail "verify: $out"
	expect 0 "1" namctl get full 1
	entries=$(namctl range full - - | wc -l)
	[ "$entries" -gt 1000 ] || fail "only $entries entries got in"
	namctl range full - - | sort -n -c || fail "a range that is not in order"
	expect 6 "NAM_E_REMOTE_FULL" namctl index create another --node-bytes 16384
	# Deleted and collected entries make room, if not at once.
	namctl range full - - | cut -f 1 | head -n 250 | while read -r key; do
		namctl --quiet delete full "$key" || echo "$key"
	done >"$tmp/undeleted"
	[ ! -s "$tmp/undeleted" ] ||
		fail "keys that cannot be deleted: $(head -n 3 "$tmp/undeleted")"
	# Once to merge, once to name with what that gave back.
	expect 0 "" namctl gc full
	expect 0 "" namctl gc full
	expect 0 "" namctl index verify full
	seq 300001 300040 | awk '{ print $1 "\t" $1 }' >"$tmp/more.tsv"
	expect 0 "" namctl load full "$tmp/more.tsv"
	expect 0 "" namctl index verify full
	# Blocks keep their size: the memory of an index serves another one with such nodes.
	expect 0 "" namctl index drop full
	expect 0 "" namctl index create another --node-bytes 256
	expect 0 "" namctl load another "$tmp/more.tsv"
	expect 0 "" namctl index verify another
	unset NAM_CLUSTER
	nam_servers_stop || fail "SIGTERM"
}

trap clean_up EXIT
test_memserver_usage
test_memserver_places
test_memserver_memory
test_memserver_config
test_memserver_address
test_cluster_texts
test_wrong_addresses
test_permission
test_ids
test_versions
test_indexes
test_full_memory
trap clean_up EXIT
finish "cluster errors: all as they should be"
