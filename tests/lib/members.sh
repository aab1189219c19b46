# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154	# script.sh sets what is not set here
# members.sh -- memory servers that come to a cluster, and a client that stays; after script.sh.

# shellcheck disable=SC2034	# for scripts that source this
memory=(--memory 16M --region 8M --pages 4k)
client=

# A client that stays: namctl load reads its input from a pipe that is ours.
client_start() {
	rm -f "$tmp/input"
	mkfifo "$tmp/input"
	namctl --cluster "$(nam_server_address 0)" load held - <"$tmp/input" \
		>"$tmp/client.out" 2>&1 &
	client=$!
	exec 9>"$tmp/input"
	until_json "r['view'].get('clients') == 1"
}

client_end() {
	kill -CONT "$client" 2>/dev/null
	exec 9>&-
	wait "$client"
	client=
}

# Without the pipe, which ends when all of its writers have closed it.
server_start() {
	nam_server_start "$1" "${memory[@]}" 9>&-
}

server_end() {
	kill -KILL "${nam_server_pids[$1]}"
	wait "${nam_server_pids[$1]}" 2>/dev/null
	unset "nam_server_pids[$1]"
}

# is_json CONDITION: of the status as JSON.
is_json() {
	out=$(namctl --cluster "$(nam_server_address 0)" --json status 2>/dev/null)
	python json "bool($1)"
	[ "$value" = True ]
}

# until_json CONDITION: in the end.
until_json() {
	await is_json "$1" ||
		fail "never $1: $(namctl --cluster "$(nam_server_address 0)" status)"
}

load=

# Clients run until they are told to end.
load_start() {
	"$@" >"$tmp/load.out" 2>"$tmp/load.err" &
	load=$!
}

# Sets $out: what the client found, as JSON.  SIGINT ends nam-bench in order, with status 130.
load_end() {
	local status=0

	kill -INT $load
	wait $load || status=$?
	load=
	out=$(cat "$tmp/load.out")
	[ "$status" -eq "$1" ] || fail "the client ended with $status: $(cat "$tmp/load.err")"
	json 'r["errors"] == 0 and r["ops"] > 0'
}

# Beside trees that memory servers search, named trees, of 5,000 pairs.
hybrid_load_start() {
	seq 1 5000 | awk '{ print $1 "\t" $1 }' >"$tmp/pairs"
	expect 0 namctl --cluster "$cluster" index create trees --design coarse
	expect 0 namctl --cluster "$cluster" load trees "$tmp/pairs"
	load_start nam-bench index --cluster "$cluster" --design hybrid --keys 5k \
		--distribution zipfian \
		--mix lookup=40,update=40,insert=20 --seconds 600 --fibers 4 --json -
	until_json "r['view'].get('clients') == 1"
	sleep 0.5
}
