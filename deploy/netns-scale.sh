# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154	# deploy/netns sets what is not set here
# netns-scale.sh -- deploy/netns scale: memory servers and clients that come and go under load.
#
# In the folder of the state:
#
#	events		when each event began and ended, what it was, and how many there are then
#	clients		number and kind of each client, when and how it ended
#	clientN.json	what it found, unless it was killed

etcd_port=2379
wait_s=30	# for whatever has to happen
doing=	# the event that is under way, or the last one
steward=
view_store=
bench=()
events=0
clients=0
serving=0	# processes of memory servers
declare -A client_pids client_kinds

# The indexes and the records that clients use.  They check every answer.
#	shared		lookups and updates of one index, by all clients of this kind
#	fine, hybrid	lookups, inserts and updates in an index of the client's own
#	records		transactions in a record store of the client's own
kinds=(- shared fine shared hybrid shared records shared fine)
victim=7

# ---- the machine ---------------------------------------------------------------------------------

scale_check() {
	local program

	for program in namctl nam-bench nam-steward; do
		command -v $program >/dev/null || die 3 "there is no $program beside nam-memserver:" \
			"cmake --preset release && cmake --build --preset release"
	done
	command -v etcd >/dev/null || die 3 "there is no etcd: apt-get install etcd-server"
	[ -x /usr/bin/python3 ] || die 3 "there is no python3: apt-get install python3"
	{ mkdir -p "$out" && [ -w "$out" ]; } ||
		die 1 "--out: $out is no folder that can be written"
}

# failed LOG TEXT...: the end of a step that did not work; the log, unless it is -, has the cause.
failed() {
	[ ! -s "$1" ] || tail -n 5 "$1" >&2
	die 1 "${doing:+step $events, $doing: }${*:2}"
}

# late LOG WHAT...
late() {
	failed "$1" "${*:2} in $wait_s s; if the log names no cause, this machine is too busy"
}

# await COMMAND...: until it succeeds.
await() {
	local end=$((SECONDS + wait_s))

	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# has_ended PID
has_ended() {
	! kill -0 "$1" 2>/dev/null
}

# ---- etcd and the steward ------------------------------------------------------------------------

# on_steward COMMAND...: in a session of its own.
on_steward() {
	exec setsid ip netns exec "$(namespace steward)" "$@" </dev/null 9<&-
}

start_etcd() {
	local url=http://${addresses[5]}:$etcd_port

	view_store=etcd:http://${addresses[5]}:$etcd_port/netns
	(on_steward etcd --data-dir "$state/etcd" --listen-client-urls "$url" \
		--advertise-client-urls "$url" >"$state/etcd.log" 2>&1) &
	await grep -qs "ready to serve client requests" "$state/etcd.log" ||
		late "$state/etcd.log" "etcd did not get ready"
}

start_steward() {
	rm -f "$state/steward.log"
	(on_steward nam-steward --cluster "$(nam_cluster)" --key "$state/key" \
		--view-store "$view_store" --lease-ms 2000 --interval-ms 50 \
		>"$state/steward.log" 2>&1) &
	steward=$!
	await grep -qs event=leads "$state/steward.log" ||
		late "$state/steward.log" "the steward did not lead"
}

# Only a process that leads moves memory, so no steward does meanwhile.
end_steward() {
	kill -TERM "$steward"
	await has_ended "$steward" ||
		late "$state/steward.log" "the steward did not end"
	# If it took too long to end, its lease ends by itself.
	grep -qs event=ended "$state/steward.log" || sleep 4
}

# ---- clients -------------------------------------------------------------------------------------

# bench_of KIND: sets the arguments of nam-bench.
bench_of() {
	bench=(index --keys 5k --cache-mb 4 --warmup 1 --slices 12000)
	case $1 in
	shared) bench+=(--name shared --load none --mix "lookup=50,update=50"
		--distribution zipfian) ;;
	fine | hybrid) bench+=(--design "$1" --mix "lookup=70,insert=10,update=20") ;;
	records) bench=(ramp --keys 100 --read-ratio 90) ;;	# it fills them one by one
	esac
}

make_shared_index() {
	bench_of shared
	(become nam-bench index --name shared --keys 5k --keep --ops 1 --mix "update=1" --quiet) ||
		failed - "the index 'shared' cannot be made"
}

# start_client NUMBER
start_client() {
	local kind=${kinds[$1]}

	bench_of "$kind"
	(become nam-bench "${bench[@]}" --fibers 4 --seconds 600 --seed "$1" --quiet \
		--json "$state/client$1.json" >"$state/client$1.log" 2>&1 </dev/null 9<&-) &
	client_pids[$1]=$!
	client_kinds[$1]=$kind
	clients=$((clients + 1))
}

# start_clients NUMBER...: until the cluster counts them.
start_clients() {
	local number

	for number; do
		start_client "$number"
	done
	await clients_are "$clients" || late "$state/client$1.log" \
		"the cluster did not have $clients clients, but $(count_clients),"
}

# Clients that are alive or not yet known to be dead.
count_clients() {
	(become namctl status 2>/dev/null) | sed -n 's/^view .*, \([0-9]*\) clients\?$/\1/p'
}

clients_are() {
	[ "$(count_clients)" = "$1" ]
}

# note_end NUMBER STATUS: and when that was.
note_end() {
	echo "$1 ${client_kinds[$1]} $EPOCHREALTIME $2" >>"$state/clients"
	unset "client_pids[$1]"
	clients=$((clients - 1))
}

# end_clients NUMBER...: nam-bench reports what it found, and ends with 128 + SIGINT.
end_clients() {
	local number status pid
	local -A pids=()

	for number; do
		pids[$number]=${client_pids[$number]}
		kill -INT "${pids[$number]}"
		note_end "$number" 130
	done
	for number; do
		pid=${pids[$number]}
		await has_ended "$pid" ||
			late "$state/client$number.log" "client $number did not end"
		status=0
		wait "$pid" || status=$?
		[ $status -eq 130 ] ||
			failed "$state/client$number.log" "client $number (${kinds[$number]})" \
				"ended with $status instead of 130"
	done
}

# Killed at work.  It counts as dead once no memory server has a connection of it.
kill_client() {
	kill -KILL "${client_pids[$1]}"
	wait "${client_pids[$1]}" 2>/dev/null
	note_end "$1" killed
	await clients_are "$clients" ||
		late "$state/steward.log" "client $1 was killed, and did not count as dead"
}

check_clients() {
	local number

	for number in "${!client_pids[@]}"; do
		! has_ended "${client_pids[$number]}" ||
			failed "$state/client$number.log" \
				"client $number (${kinds[$number]}) has ended"
	done
}

# ---- memory servers ------------------------------------------------------------------------------

# administer WHAT...: a command of namctl that changes the view.
administer() {
	local log=$state/namctl.log

	(become namctl "$@" --view-store "$view_store" >"$log" 2>&1 9<&-) ||
		failed "$log" "namctl $* failed"
}

# add_servers ID...
add_servers() {
	local id

	for id; do
		start_server "$id"
	done
	for id; do
		await_server "$id"
		administer server add "tcp:${addresses[$id]}:$server_port"
		serving=$((serving + 1))
	done
}

# drain_server ID: the lead takes its memory, and the process ends.
drain_server() {
	administer server drain "tcp:${addresses[$1]}:$server_port"
	kill -TERM "$(cat "$state/server$1.pid")"
	await server_has_ended "$1" ||
		late "$state/server$1.log" "memory server $1 did not end"
	serving=$((serving - 1))
}

server_has_ended() {
	! server_lives "$1"
}

# ---- the run -------------------------------------------------------------------------------------

# event KIND TEXT COMMAND...: it happens, and load goes on for a while.  KIND is one word.
event() {
	local from=$EPOCHREALTIME

	doing="'$2'"
	events=$((events + 1))
	"${@:3}"
	echo "$from $EPOCHREALTIME $serving $clients $1 $2" >>"$state/events"
	say $events "$2"
	[ "$1" != drain ] || start_steward
	sleep "$step"
	doing="after '$2'"
	check_clients
}

drained() {
	end_steward
	event drain "$1" drain_server "$2"
}

run_load() {
	event load "1 client starts" start_clients 1
	event add "memory server 1 is added" add_servers 1
	event load "7 more clients start" start_clients 2 3 4 5 6 7 8
	event add "memory servers 2 and 3 are added" add_servers 2 3
	event death "client $victim is killed" kill_client $victim
	drained "memory server 3 is drained and ends" 3
	drained "memory server 2 is drained and ends" 2
	event end "5 clients end" end_clients 3 4 5 6 8
	drained "memory server 1 is drained and ends" 1
	event end "2 clients end" end_clients 1 2
}

count_processes() {
	(become namctl --json status) | grep -o '"pid":[^,]*' | sort -u | wc -l
}

one_process_is_left() {
	[ "$(count_processes)" -eq 1 ]
}

# All memory is in the process of the lead, and the index that all shared is whole.
check_end() {
	local text

	await one_process_is_left ||
		failed - "memory is in $(count_processes) processes instead of 1"
	# A lock of the killed client stays until another client wants it.
	text=$( (become namctl index verify shared) 2>&1) ||
		[[ $text == *"the pairs are all right"* ]] ||
		failed - "the index 'shared' is damaged: $text"
}

scale() {
	scale_check
	set_hosts 4 compute steward
	export LC_ALL=C	# for a point in times
	take_lock
	[ ! -e "$state/up" ] || die 1 "$name is up: take it down first, or give another --name"
	give_up_at_end
	tear_down
	make_network
	write_cluster_file
	start_server 0 --spare "$((3 * ${memory%?}))${memory: -1}"
	await_server 0
	serving=1
	start_etcd
	start_steward
	make_shared_index
	run_load
	check_end
	"$source/bench/figures/scale" ${csv:+"$csv"} "$state" "$out" || die 1 "the table failed"
}
