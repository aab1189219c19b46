#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench index on simulated clusters.  Every workload is right, says that it is simulated, and is
# the same for the same seed.  More machines do more.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# simulate STATUS ARGUMENT...: of nam-bench index.
simulate() {
	expect "$1" nam-bench index "${@:2}"
}

# Sets $rate.
rate() {
	python json 'int(r["ops_per_s"])'
	rate=$value
}

# ---- what is printed
simulate 0 --cluster sim:connect-ib --memservers 2 --clients 3 --keys 20k --ops 3k
says 'simulated: connect-ib'
says '3 of 1 thread of 16 fibers'
says 'the slowest completed 1000 operations, the fastest 1000'
simulate 0 --cluster sim:connectx6 --memservers 3 --clients 4 --threads 2 --fibers 2 --keys 20k \
	--ops 4k --json -
json 'r["simulated"] is True and r["profile"] == "connectx6" and r["memservers"] == 3'
json 'r["clients"] == 4 and r["threads"] == 2 and r["ops"] == 4000 and r["errors"] == 0'
json '0.999 < r["per_op"]["round_trips"] < 1.05'
json 'r["slowest_thread_ops"] == r["fastest_thread_ops"] == 500'
first=$out
simulate 0 --cluster sim:connectx6 --memservers 3 --clients 4 --threads 2 --fibers 2 --keys 20k \
	--ops 4k --json -
[ "$first" = "$out" ] || fail "one seed, two results: $first $out"

# ---- every workload
for workload in ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f nam-a nam-b nam-c nam-d; do
	simulate 0 --cluster sim:connectx4 --clients 3 --workload $workload --keys 5k --ops 1500 \
		--fibers 4 --verify --json -
	json 'r["errors"] == 0 and r["violations"] == 0 and r["ops"] == 1500'
done
simulate 0 --cluster sim:connect-ib --clients 4 --keys 5k --ops 8k --load insert --collect --verify \
	--mix insert=25,delete=25,lookup=20,upsert=20,scan=10 --threads 2 --json -
json 'r["errors"] == 0 and r["violations"] == 0 and r["ops"] == 8000'
simulate 0 --cluster sim:connectx5 --clients 2 --keys 20k --batch 16 --fibers 2 --ops 2k --json -
json 'r["errors"] == 0 and r["ops"] == 2000'
simulate 0 --cluster sim:connect-ib --keys 20k --raw-ratio --ops 2k --json -
json 'r["errors"] == 0 and 0 < r["raw_ratio"] < 1.5'
for profile in connectx3 shm; do
	simulate 0 --cluster sim:$profile --clients 2 --keys 20k --ops 2k --json -
	json 'r["errors"] == 0'
done

# ---- clients that have just joined find each other: no turn at a lock word is lost
simulate 0 --cluster sim:connectx5 --memservers 8 --clients 256 --fibers 1 --keys 60 \
	--mix update=100 --seconds 0.004 --json -
json 'r["errors"] == 0 and r["latency_ns"]["max"] < 5e6'

# ---- ratios that only the network explains: a lone fiber waits, many do not; one server is full
simulate 0 --cluster sim:connect-ib --memservers 1 --clients 1 --fibers 1 --keys 20k --json -
rate
lone=$rate
# A round trip of 1.9 us, a KiB on its way, and the processor's share.
[ "$lone" -gt 350000 ] && [ "$lone" -lt 500000 ] || fail "a lone fiber: $lone a second"
simulate 0 --cluster sim:connect-ib --memservers 1 --clients 1 --keys 20k --json -
rate
[ "$rate" -gt $((4 * lone)) ] || fail "16 fibers: $rate a second, one: $lone"
simulate 0 --cluster sim:connect-ib --memservers 1 --clients 40 --fibers 2 --keys 20k --json -
rate
full=$rate
# 6.8 GB/s of 1,024 bytes and 30 of header.
[ "$full" -gt 6000000 ] && [ "$full" -lt 6500000 ] || fail "a full port: $full a second"
simulate 0 --cluster sim:connect-ib --memservers 4 --clients 40 --fibers 2 --keys 20k --json -
rate
[ "$rate" -gt $((3 * full / 2)) ] || fail "four memory servers: $rate, one: $full a second"

# ---- designs
coarse='--cluster sim:connect-ib --design coarse --cache-mb 0 --fibers 1'
hybrid=${coarse/coarse/hybrid}
for how in range hash round-robin; do
	for design in "$coarse" "$hybrid"; do
		simulate 0 $design --partition $how --clients 3 --keys 5k --ops 1500 --verify \
			--mix insert=20,delete=20,lookup=20,upsert=20,scan=20 --json -
		json 'r["errors"] == 0 and r["violations"] == 0 and r["partitioning"] == "'$how'"'
	done
done
# Leaves are READ: one level less is searched.
simulate 0 $hybrid --memservers 1 --rpc-threads 1 --clients 60 --keys 20k --seconds 0.002 --json -
json '0.95 < r["ops_per_s"] * (150 + 250 * (r["memory"]["height"] - 1) + 30) * 1e-9 < 1.01'
# Handler threads are busy as long as the profile says.  It says 150 ns for a request, 250 for each
# node on the way down, 30 for a pair of a page of 254.
for threads in 1 4; do
	simulate 0 $coarse --memservers 1 --rpc-threads $threads --clients 60 --keys 20k \
		--seconds 0.002 --json -
	json 'r["rpc_threads"] == '$threads' and r["per_op"]["round_trips"] == 1'
	json '0.95 < r["ops_per_s"] * (150 + 250 * r["memory"]["height"]) * 1e-9 /
		'$threads' < 1.01'
done
simulate 0 $coarse --memservers 1 --rpc-threads 1 --clients 60 --keys 20k --json - \
	--workload tree-b --selectivity 0.0127 --ops 600
json '0.85 < r["entries_per_s"] / 254 * (150 + 250 * r["memory"]["height"] + 254 * 30) * 1e-9
	< 1.05'
# Two of four memory servers' processors: what the others keep is little.
simulate 0 $coarse --memservers 4 --rpc-threads 1 --clients 60 --keys 20k --seconds 0.002 \
	--json -
rate
even=$rate
simulate 0 $coarse --memservers 4 --rpc-threads 1 --clients 60 --keys 20k --seconds 0.002 \
	--shares 80,12,5,3 --json -
json 'r["shares"] == [80, 12, 5, 3]'
rate
[ "$even" -gt $((5 * rate / 2)) ] || fail "even: $even a second, skewed: $rate"
simulate 0 $coarse --memservers 2 --clients 4 --colocate --keys 5k --ops 1k --verify --json -
json 'r["colocated"] is True and r["errors"] == 0'
# A lookup is a request, which takes the round trips of its transport.
for transport in srq:1 mailbox:1 fetch:2 datagram:1; do
	simulate 0 $coarse --clients 4 --keys 5k --ops 10k --verify \
		--transport ${transport%:*} --json -
	json 'r["transport"] == "'${transport%:*}'" and r["errors"] == 0 and r["violations"] == 0'
	json '0 <= r["per_op"]["round_trips"] - '${transport#*:}' < 0.05'
done
NAM_TRANSPORT=pigeon simulate 0 $coarse --keys 5k --ops 100 --transport fetch
says 'handler threads each, requests by fetch'
simulate 0 --cluster sim:connect-ib --clients 2 --keys 20k --cache-mb 0.5 --ops 1k --json -
json '"transport" not in r'
json 'r["cache_mb"] == 0.5 and r["per_op"]["round_trips"] < 1.05'
# ---- what a cache was worth: all is there and so; leaves are divided; no room; none
json 'r["cache"] == {"hits": 1000, "misses": 0, "stale": 0, "hit_rate": 1}'
for design in fine hybrid; do
	for batch in 1 8; do
		simulate 0 --cluster sim:connect-ib --design $design --clients 2 --keys 20k \
			--batch $batch --cache-mb 1 --ops 16k --workload nam-d --json -
		# An operation counts each pointer that it had: a second one after a split.
		json 'r["cache"]["stale"] > 0 and r["cache"]["hits"] > 12000 and 0 <=
			sum(r["cache"][i] for i in ("hits", "misses", "stale")) - 16000 <=
			min(r["restarts"]["fence"], 4)'
		json 'r["restarts"]["sibling"] + r["restarts"]["fence"] > 0'
	done
	simulate 0 --cluster sim:connect-ib --design $design --clients 2 --keys 200k --fibers 1 \
		--cache-mb 0.05 --ops 2k --json -
	json 'r["cache"]["misses"] > 200 < r["cache"]["hits"] and r["cache"]["stale"] == 0 and
		r["cache"]["hits"] + r["cache"]["misses"] == 2000'
	json 'abs(r["cache"]["hit_rate"] - r["cache"]["hits"] / 2000) < 1e-5'
done
simulate 0 --cluster sim:connect-ib --clients 2 --keys 20k --cache-mb 0.5 --ops 1k
says 'cache hits 100.00 %: 1000; misses 0; stale 0'
simulate 0 --cluster sim:connect-ib --design coarse --clients 2 --keys 20k --ops 1k --json -
json '"cache" not in r'
simulate 0 --cluster sim:connect-ib --clients 2 --keys 20k --cache-mb 0 --ops 1k --json -
json '"cache" not in r'
simulate 2 --cluster sim:connect-ib --rpc-threads 0
says '--rpc-threads'

# ---- memory servers that come: 2, then 3, while clients insert, delete and scan
simulate 0 --cluster sim:connect-ib --memservers 1 --grow 3 --slices 6 --clients 5 --threads 2 \
	--keys 5k --mix insert=40,delete=10,lookup=20,scan=30 --seconds 0.09 --verify --json -
json 'r["errors"] == r["violations"] == r["blocks_lost"] == 0 and r["memservers"] == 3'
json '[s["memservers"] for s in r["slices"]] == [1, 1, 2, 2, 3, 3]'
json '[round(s["seconds"] * 1000) for s in r["slices"]] == [15, 30, 45, 60, 75, 90]'
json 'all(abs(s["ops"] / s["ops_per_s"] / 0.015 - 1) < 1e-3 and s["ops"] for s in r["slices"])'
json '0 <= r["ops"] - sum(s["ops"] for s in r["slices"]) <= 5 * 2 * 16'
json '[s["id"] for s in r["memory"]["servers"]] == [0, 1, 2] and
	all(s["carved_bytes"] > s["free_bytes"] for s in r["memory"]["servers"])'
simulate 0 --cluster sim:connect-ib --slices 2 --clients 2 --keys 5k --seconds 0.001
says 'until      rate/s   memory servers'
simulate 2 --cluster sim:connect-ib --memservers 3 --grow 3
says '--grow: there are 3 memory servers from the beginning'
simulate 2 --cluster sim:connect-ib --memservers 1 --grow 2 --ops 100
says '--grow: not with --ops'
simulate 2 --cluster sim:connect-ib --slices 2 --raw-ratio
says '--slices: not with --raw-ratio'
simulate 2 --cluster shm:/nowhere --grow 3
says "to real ones 'namctl server add' adds memory servers"

# ---- mistakes
simulate 2 --cluster sim:connectx99
says "there is no profile 'connectx99': connectx2, connectx2-ipoib, connectx3, connect-ib"
simulate 2 --cluster sim:connect-ib --keep
says 'a simulated cluster ends with the run'
simulate 2 --cluster sim:connect-ib --load none --name x
says 'a simulated cluster ends with the run'
simulate 2 --cluster shm:/nowhere --clients 3
says '--clients: only with --cluster sim:PROFILE'
# ---- a memory server's processor: each record that it finds or prepares costs a node
records() {
	expect 0 nam-bench ramp --cluster "$1" --keys 100 --ops 200 --transaction-size 8 \
		--transport "$2" --read-ratio "$3" --json -
	python json 'int(r["latency_ns"]["mean"])'
	mean=$value
}
sed 's/^node = 250/node = 5000/' "$NAM_SOURCE_DIR/deploy/profiles/connectx3.ini" >"$tmp/slow.ini"
for ratio in 0 100; do
	records sim:connectx3 message $ratio
	quick=$mean
	records "sim:$tmp/slow.ini" message $ratio
	# Eight records: 38 us more.
	[ $((mean - quick)) -gt 37000 ] && [ $((mean - quick)) -lt 39000 ] ||
		fail "records cost $quick and $mean ns, $ratio % read"
done
records sim:connectx3 star 100
quick=$mean
records "sim:$tmp/slow.ini" star 100
[ "$mean" -eq "$quick" ] || fail "READs of records cost $quick and $mean ns"

# ---- a warm-up of 1,024 lookups that take 20 ms each: it ends after 5 s, unless it was asked for
sed 's/^\(loaded_\|\)round_trip = [0-9]*/\1round_trip = 20000000/' \
	"$NAM_SOURCE_DIR/deploy/profiles/connectx3.ini" >"$tmp/far.ini"
simulate 0 --cluster "sim:$tmp/far.ini" --keys 2000 --fibers 1 --ops 10 --json -
json '200 < r["warmup_lookups"] < 260'
simulate 0 --cluster "sim:$tmp/far.ini" --keys 2000 --fibers 1 --ops 10
says 'ended after 5 s and 2'
simulate 0 --cluster "sim:$tmp/far.ini" --keys 2000 --fibers 1 --ops 10 --warmup 400 --json -
json 'r["warmup_lookups"] == 400'

printf '[cpu]\nspeed = 3\n' >"$tmp/odd.ini"
simulate 2 --cluster "sim:$tmp/odd.ini"
says "odd.ini:2: there is no 'speed' in [cpu]"

finish "simulated clusters: all as they should be"
