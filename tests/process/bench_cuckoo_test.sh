#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench cuckoo: the counts of both schemes, which are the same on every machine; and times, of
# which only the answers are checked.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_CLUSTER

# counts SCHEME LOAD-FACTOR OPTION...
counts() {
	expect 0 nam-bench cuckoo --scheme "$1" --load-factor "$2" --tables 20 --json - "${@:3}"
	json 'r["ops"] == 800 and r["slots"] == 4088 and
		sum(r["kicked"]) + r["stashed"] + r["loops"] == r["ops"]'
	python json 'r["kicks_per_op"]'
	kicks=$value
}

test_counts() {
	local factor graph

	for factor in 0.6 0.8 0.9 0.95; do
		counts graph $factor
		json 'abs(r["load_factor"] - '$factor') < 3e-4 and r["loops"] == r["stashed"] == 0'
		graph=$kicks
		counts plain $factor
		json 'abs(r["load_factor"] - '$factor') < 3e-4 and r["loops"] == 0'
		# The shortest way to a free slot is no longer than any other.
		json "r['kicks_per_op'] >= $graph"
	done
	json "r['kicks_per_op'] > 10 * $graph"
	# Above the threshold of 0.977: failures there, predictions here, and no kick-out for these.
	counts plain 0.99
	json 'r["loops_share"] > 0.9 and r["kicks_per_op"] > 400'
	counts graph 0.99
	json 'r["loops_share"] > 0.9 and r["kicks_per_op"] < 0.1'
	# Buckets of one slot, as the paper has them: half full is full.
	counts plain 0.4 --bucket-slots 1
	json 'r["loops"] == 0'
	counts plain 0.6 --bucket-slots 1
	json 'r["loops_share"] > 0.02'
	# So many and no more.
	counts plain 0.99 --kicks-max 7
	json 'r["kicks_per_op"] <= 7 and sum(r["kicked"][4:]) == 0'
}

test_same() {
	local first

	counts graph 0.9 --seed 5
	first=$out
	counts graph 0.9 --seed 5
	prints "$first"
	counts graph 0.9 --seed 6
	[ "$out" != "$first" ] || fail "another seed, the same result"
}

test_times() {
	local mix

	for mix in "80" "95" "50 --update-percent 50" "100"; do
		# shellcheck disable=SC2086
		expect 0 nam-bench cuckoo --get-percent $mix --tables 3 --json -
		json 'r["errors"] == 0 and r["graph_ns"] > 0 and r["plain_ns"] > 0'
		json 'r["htm"] in ("none", "hle") or r["htm_ns"] > 0 and
			r["htm_commits"] + r["htm_fallbacks"] == r["ops"]'
	done
	json 'r["ops"] == 3 * 800'
	expect 0 nam-bench cuckoo --get-percent 80 --tables 3
	says "80 % GET, 0 % UPDATE; the rest INSERT"
	# A pair that an insert gave up is missed.
	expect 1 nam-bench cuckoo --get-percent 50 --tables 3 --kicks-max 1 --quiet
	says "operations failed"
	expect 2 nam-bench cuckoo --get-percent 80 --load-factor 0.95
	says "--get-percent: with --load-factor 0.93 at most"
	expect 2 nam-bench cuckoo --get-percent 80 --update-percent 30
	says "together they are more than 100"
}

test_output() {
	expect 0 nam-bench cuckoo --tables 2
	says "graph, 2 of 4088 slots, 4 a bucket"
	says "0 % predicted to loop, 0 % in the stash"
	expect 0 nam-bench cuckoo --tables 2 --scheme plain --quiet
	prints ""
	expect 2 nam-bench cuckoo --scheme pagh
	says "--scheme: 'pagh' is not known; choose graph or plain"
	expect 2 nam-bench cuckoo --bucket-slots 1
	says "--bucket-slots: buckets of --scheme graph have 4 slots"
	expect 2 nam-bench cuckoo --cluster shm:/nowhere
	says "--cluster"
}

test_counts
test_same
test_times
test_output
finish "nam-bench cuckoo: all as it should be"
