#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench-peers beside stand-ins for memcached and redis-server, which also make the mistakes that
# it must see.  Where the real ones are installed, it runs beside these, too.  redis-benchmark is
# real.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_CLUSTER NAM_TRANSPORT FAKE_CACHE FAKE_CACHE_GET FAKE_CACHE_KEY
export TMPDIR=$tmp
fabric=shm
brief=(--keys 2k --seconds 0.05 --rounds 1)

if ! command -v redis-benchmark >/dev/null; then
	echo "skip: redis-benchmark is not installed (redis-tools)"
	exit 77
fi
mkdir "$tmp/bin"
ln -s "$NAM_BUILD_DIR/tests/fake_cache_tool" "$tmp/bin/memcached"
ln -s "$NAM_BUILD_DIR/tests/fake_cache_tool" "$tmp/bin/redis-server"

# compare OPTION...: with the stand-ins.
compare() {
	PATH=$tmp/bin:$PATH nam-bench-peers --fabric $fabric "${brief[@]}" "$@"
}

# Nothing of a run is left: no folder, and so no socket.
left_nothing() {
	local folder

	for folder in "$tmp"/nam-compare.*; do
		[ ! -e "$folder" ] || fail "$folder is still there"
	done
}

test_usage() {
	expect 0 nam-bench-peers --help
	expect 0 nam-bench-peers --version
	prints "$(nam-bench --version)"
	expect 2 nam-bench-peers --fabric pigeon
	says "--fabric: 'pigeon' is not known; choose shm, tcp or verbs"
	expect 2 nam-bench-peers --fabric sim
	says "--fabric: 'sim' is not known"
	expect 2 nam-bench-peers --fabric shm,shm
	says "'shm' is said twice"
	expect 2 nam-bench-peers --fabric shm --cluster "$(nam_server_nobody)"
	says "--cluster and --fabric: say one of them"
	expect 2 nam-bench-peers --cluster sim:shm
	says "--cluster: what a simulated cluster does is not measured"
	expect 2 nam-bench-peers --without mysql
	says "--without: 'mysql' is not known; choose memcached, redis or memcached,redis"
	expect 2 nam-bench-peers --bytes 0
	expect 2 nam-bench-peers --bytes 16385
	says 16384
	expect 2 nam-bench-peers --keys 0
	expect 2 nam-bench-peers --frobnicate
	expect 2 nam-bench-peers stray
	expect 2 nam-bench-peers --json "$tmp/no/such/folder.json"
	says "no/such/folder.json cannot be written"
	expect 3 nam-bench-peers "${brief[@]}" --without memcached,redis \
		--cluster "$(nam_server_nobody)"
	left_nothing
}

# Before anything else is started.
test_missing() {
	expect 1 env PATH="$NAM_BUILD_DIR/bin" nam-bench-peers "${brief[@]}"
	says "there is no memcached in PATH: apt-get install memcached redis-server, or say \
--without memcached"
	expect 1 env PATH="$NAM_BUILD_DIR/bin" nam-bench-peers "${brief[@]}" --without memcached
	says "there is no redis-server in PATH"
	mkdir "$tmp/server_only"
	ln -s "$tmp/bin/redis-server" "$tmp/server_only"
	expect 1 env PATH="$NAM_BUILD_DIR/bin:$tmp/server_only" nam-bench-peers "${brief[@]}" \
		--without memcached
	says "there is no redis-benchmark in PATH"
	left_nothing
}

# Checks a report beside memcached and redis, over each transport.
whole_report() {
	json 'r["workload"] == "compare" and r["errors"] == 0 and r["keys"] == 2000'
	json '[s["system"] for s in r["systems"]][-4:] == ["raw READs", "raw READs, fibers",
		"lookups", "lookups, batched"]'
	json '[(s["system"], s["transport"]) for s in r["systems"][:-4]] == [("memcached", "unix"),
		("memcached", "tcp"), ("redis", "unix"), ("redis", "tcp")]'
	json 'all(s["ops"] > 0 and 0 < s["ops_per_s"] <= s["best_ops_per_s"] and
		0 < s["latency_ns"]["p50"] <= s["latency_ns"]["p99"] for s in r["systems"])'
	json 'all(s["depth"] in [d["depth"] for d in s["depths"]] and
		max(d["ops_per_s"] for d in s["depths"]) ==
		[d["ops_per_s"] for d in s["depths"] if d["depth"] == s["depth"]][0]
		for s in r["systems"])'
	json 'len(r["fabrics"]) == 1 and r["fabrics"][0]["fabric"] == "'"$fabric"'" and
		r["fabrics"][0]["raw_ratio"] > 0 and r["fabrics"][0]["raw_bytes"] == 1024'
	json '[(g["system"], g["transport"]) for g in r["fabrics"][0]["gets"]] ==
		[(s["system"], s["transport"]) for s in r["systems"][:-4]] and
		all(g["ratio"] > 0 and g["raw_ratio"] > 0 for g in r["fabrics"][0]["gets"])'
}

test_stand_ins() {
	# Without --rounds there are several, and depths are tried twice.
	expect 0 env PATH="$tmp/bin:$PATH" nam-bench-peers --fabric shm --keys 2k --seconds 0.05 \
		--json -
	whole_report
	json 'r["rounds"] == 7'
	json '[s["version"] for s in r["systems"][:-4]] == ["1.6.0-test"] * 2 + ["7.0.0-test"] * 2'
	left_nothing
	expect 0 compare --bytes 37 --without redis
	says "memcached 1.6.0-test (-t 1)"
	says "x the quickest GETs, memcached over"
	says "errors      0"
	expect 0 compare --without memcached,redis --json -
	json 'r["rounds"] == 1'
	json '[s["system"] for s in r["systems"]] == ["raw READs", "raw READs, fibers", "lookups",
		"lookups, batched"] and r["fabrics"][0]["gets"] == []'
	# Over all fabrics that need no device.
	expect 0 env PATH="$tmp/bin:$PATH" nam-bench-peers "${brief[@]}" --without redis --json -
	json '[f["fabric"] for f in r["fabrics"]] == ["shm", "tcp"] and r["errors"] == 0 and
		all(len(f["gets"]) == 2 and f["raw_ratio"] > 0 for f in r["fabrics"])'
	json '[s.get("fabric") for s in r["systems"]] == [None] * 2 + ["shm"] * 4 + ["tcp"] * 4'
	left_nothing
	# Parts of replies.
	export FAKE_CACHE=pieces
	expect 0 compare --bytes 50 --quiet
	unset FAKE_CACHE
	left_nothing
}

# mistake KIND STATUS TEXT: is seen, in both protocols.
mistake() {
	local other

	export FAKE_CACHE=$1
	for other in memcached redis; do
		expect "$2" compare --without $other --quiet
		says "$3"
	done
	unset FAKE_CACHE
	left_nothing
}

test_mistakes() {
	mistake wrong 1 "bytes, is not the one that was stored"
	mistake short 1 "7 bytes, is not the one that was stored"
	mistake miss 1 "was not found"
	mistake error 6 "of a test'"
	mistake garbage 6 "what it answers makes no sense"
	mistake close 6 "it has closed the connection"
	mistake surplus 6 ""
	mistake refuse 6 "ended at once: there is nothing to be had here"
}

# later KIND STATUS TEXT: is seen behind redis-benchmark, too, which looks at no value.
later() {
	export FAKE_CACHE=$1 FAKE_CACHE_GET=3000
	expect "$2" compare --without memcached --quiet
	says "$3"
	unset FAKE_CACHE FAKE_CACHE_GET
	left_nothing
}

test_later_mistakes() {
	later miss 1 "redis over unix: what 1 of its GETs asked for was not found"
	later error 6 "redis over unix: Error from server: ERR of a test"
	later garbage 6 "redis over unix: "
	later close 6 "redis over unix: Error: Server closed the connection"
}

# No answer is an answer, too, after a while: from the beginning, and behind redis-benchmark.  All
# of them wait at the same time.
test_silence() {
	local options names=(memcached redis later) pids=() i status

	export FAKE_CACHE=silent
	for options in "redis 500" "memcached 500" "memcached 3000"; do
		FAKE_CACHE_GET=${options#* } compare --without "${options% *}" --quiet \
			>"$tmp/silent${#pids[@]}" 2>&1 &
		pids+=($!)
	done
	unset FAKE_CACHE
	for i in "${!pids[@]}"; do
		status=0
		wait "${pids[i]}" || status=$?
		[ $status -eq 6 ] || fail "a silent server (${names[i]}): status $status"
		grep -q "it does not answer" "$tmp/silent$i" ||
			fail "a silent server (${names[i]}): $(cat "$tmp/silent$i")"
	done
	grep -q "redis over unix: it does not answer" "$tmp/silent2" ||
		fail "silent later: $(cat "$tmp/silent2")"
	left_nothing
}

# Of a process: the servers that it has started, and no clients.
servers() {
	local child

	for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		case $(cat "/proc/$child/comm" 2>/dev/null) in
		memcached | redis-server | nam-memserver) echo "$child" ;;
		esac
	done
}

# Of a process: all that it has started.
children() {
	cat "/proc/$1/task/$1/children" 2>/dev/null
}

# lives PID: and is no zombie.
lives() {
	[ -e "/proc/$1/status" ] && ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

# The process group of a process.
group_of() {
	sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 3
}

# interrupted SIGNAL: ends a run in the middle; sets $status and $started.
interrupted() {
	local pid child group waited

	PATH=$tmp/bin:$PATH nam-bench-peers --fabric $fabric --keys 2k --seconds 60 --quiet \
		2>"$tmp/interrupted" &
	pid=$!
	for ((waited = 0; waited < 200; waited++)); do
		started=$(servers "$pid")
		[ "$(wc -w <<<"$started")" -lt 5 ] || break
		sleep 0.05
	done
	[ "$(wc -w <<<"$started")" -eq 5 ] || fail "not five servers: '$started'"
	# Clients in the middle of the run, too.
	for ((waited = 0; waited < 400; waited++)); do
		[ "$(children "$pid" | wc -w)" -lt 6 ] || break
		sleep 0.01
	done
	started=$(children "$pid")
	# So that ^C at a terminal, which is for a group, is for this program to act on.
	for child in $started; do
		for ((waited = 0; waited < 100; waited++)); do
			group=$(group_of "$child")
			if [ "$group" = "$child" ] || ! lives "$child"; then
				break
			fi
			sleep 0.01
		done
		[ "$waited" -lt 100 ] || fail "process $child is in group $group"
	done
	sleep 0.3
	kill -"$1" "$pid"
	{ wait "$pid"; } 2>/dev/null
	status=$?
}

# Servers end with it, however that comes.
test_signals() {
	local signal child waited

	for signal in INT TERM KILL; do
		interrupted $signal
		[ $status -eq $((128 + $(kill -l $signal))) ] ||
			fail "$signal: status $status: $(cat "$tmp/interrupted")"
		[ ! -s "$tmp/interrupted" ] || fail "$signal: $(cat "$tmp/interrupted")"
		for child in $started; do
			for ((waited = 0; waited < 100; waited++)); do
				lives "$child" || break
				sleep 0.05
			done
			[ "$waited" -lt 100 ] || fail "$signal: server $child outlived the run"
		done
		# A killed process leaves its files.
		[ $signal = KILL ] || left_nothing
		rm -rf "$tmp"/nam-compare.*
	done
}

test_cluster() {
	nam_servers_start 2 --memory 32M --region 16M --pages 4k || exit 1
	fabric=shm
	expect 0 env PATH="$tmp/bin:$PATH" nam-bench-peers --cluster "$cluster" "${brief[@]}" \
		--without redis --json -
	json 'r["errors"] == 0 and r["fabrics"][0]["memservers"] == 2'
	expect 0 env NAM_CLUSTER="$cluster" namctl index list
	prints ""
	nam_servers_stop || fail "the servers did not end well"
}

test_real_ones() {
	if ! command -v memcached >/dev/null || ! command -v redis-server >/dev/null; then
		echo "memcached or redis-server is not installed: stand-ins only"
		return
	fi
	expect 0 nam-bench-peers --fabric $fabric "${brief[@]}" --json -
	whole_report
	left_nothing
}

test_usage
test_missing
test_stand_ins
test_mistakes
test_later_mistakes
test_silence
test_signals
test_cluster
test_real_ones
finish "nam-bench-peers: all as it should be"
