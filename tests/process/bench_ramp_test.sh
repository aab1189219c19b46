#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench ramp: by each algorithm and transport that go together, on real memory servers, under
# contention.  There are no fractured reads, unless readers do not check.  Also the cost of a
# transaction.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

test_bench() {
	local pair

	for pair in fast:onesided fast:star fast:plus fast:message small:plus small:message \
		hybrid:plus hybrid:message 2pl:plus 2pl:message; do
		expect 0 nam-bench ramp --algorithm ${pair%:*} --transport ${pair#*:} --keys 30 \
			--ops "$(nam_scaled 4000 400)" --read-ratio 50 --threads 2 --fibers 4 \
			--json -
		json 'r["workload"] == "ramp" and r["errors"] == 0 and r["fractured"] == 0 and
			r["algorithm"] == "'${pair%:*}'" and r["transport"] == "'${pair#*:}'" and
			r["ops"] > 0'
	done
	for pair in onesided star plus; do
		expect 0 nam-bench ramp --transport $pair --keys 30 --batch 5 --ops 777 \
			--read-ratio 50 --threads 2 --fibers 4 --json -
		json 'r["errors"] == 0 and r["fractured"] == 0 and r["batch"] == 5 and
			777 <= r["ops"] <= 778'
	done
	for pair in onesided star; do
		expect 0 nam-bench ramp --transport $pair --keys 1000 --read-ratio 100 --fibers 4 \
			--raw-ratio --seconds 0.2 --json -
		json 'r["errors"] == 0 and 0 < r["raw_ratio"] and 0 < r["raw_ops_per_cpu_s"] and
			4 <= r["raw_depth"] <= 64 and r["raw_bytes"] == 512 and
			r["per_op"]["work_requests"] < 4.1'
	done
	# They leave nothing behind.
	expect 0 namctl records list
	prints ""
	expect 0 namctl index list
	prints ""
}

# A killed client leaves its store, which can be inspected and dropped.
test_what_is_left() {
	local client left

	nam-bench ramp --keys 500 --seconds 60 --quiet >/dev/null 2>"$tmp/err" &
	client=$!
	left=
	until [ -n "$left" ]; do
		left=$(namctl records list)
		kill -0 $client 2>/dev/null || break
	done
	kill -KILL $client
	wait $client 2>/dev/null
	expect 0 namctl records stat "$left" --json
	json 'r["record_store"] == "'"$left"'" and r["algorithm"] == "fast" and
		r["committed_by"] == "clients" and r["servers"] == 2 and r["records"] <= 500'
	expect 0 namctl records stat "$left"
	says 'committed by     clients'
	expect 0 namctl records collect "$left" --json
	json 'r["record_store"] == "'"$left"'" and r["records"] <= 500 and r["undecided"] == 0 and
		r["versions"] == 0 and r["aborted"] == 0'
	expect 0 namctl records collect "$left"
	says 'looked at'
	expect 0 namctl index list
	prints "$left.keys"
	expect 0 namctl records drop "$left"
	prints "dropped $left"
	expect 0 namctl index list
	prints ""
	expect 5 namctl records stat "$left"
	says 'namctl records list'
	expect 5 namctl records collect "$left"
	expect 5 namctl records drop "$left"
}

# Warm, alone: a transaction that reads takes one round trip whatever its size, one that writes two.
test_costs() {
	local size

	for size in 1 4 32; do
		expect 0 nam-bench ramp --keys 64 --transaction-size $size --read-ratio 100 \
			--ops 1000 --json -
		json 'r["per_op"]["round_trips"] == 1 and r["per_op"]["work_requests"] == '$size
	done
	# Several of a call share it, up to 32 records.
	expect 0 nam-bench ramp --keys 64 --batch 16 --read-ratio 100 --ops 1600 --json -
	json 'r["per_op"]["round_trips"] == 1 / 8 and r["per_op"]["work_requests"] == 4 and
		r["batch"] == 16 and r["ops"] == 1600'
	expect 0 nam-bench ramp --keys 64 --transport star --read-ratio 100 --ops 1000 --json -
	json '1 <= r["per_op"]["round_trips"] < 1.01'
	expect 0 nam-bench ramp --keys 64 --read-ratio 0 --ops 1000 --json -
	json '2 <= r["per_op"]["round_trips"] < 2.2'
}

test_refusals() {
	expect 2 nam-bench ramp --algorithm quick
	says "'quick' is not known"
	expect 2 nam-bench ramp --transport pigeon
	says "'pigeon' is not known"
	expect 2 nam-bench ramp --algorithm small --transport star
	says 'with --algorithm fast only'
	expect 2 nam-bench ramp --algorithm hybrid
	says 'with --algorithm fast only'
	expect 2 nam-bench ramp --algorithm 2pl --transport star
	says 'memory servers keep its locks'
	expect 2 nam-bench ramp --raw-ratio
	says 'and --read-ratio 100'
	expect 2 nam-bench ramp --transaction-size 33
	says 32
	expect 2 nam-bench ramp --value-bytes 7
	says 8
}

nam_servers_start 2 --memory 64M --region 32M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_refusals
test_bench
test_costs
test_what_is_left
nam_servers_stop || fail "the servers did not end well"
finish "nam-bench ramp: all as it should be"
