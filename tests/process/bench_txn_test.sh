#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench txn: workloads on real memory servers and on simulated ones, under contention.  Sums are
# exact, and histories are strictly serializable.  Also the cost of a transaction.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT
check=$(dirname "${BASH_SOURCE[0]}")/history_check.py

# The shares of SmallBank's transactions, in per cent, within 3 points of 4,000.
mix='all(abs(100 * n / r["ops"] - share) < 3 for n, share in zip(r["kinds"].values(),
	[15, 15, 15, 25, 15, 15])) and sum(r["kinds"].values()) == r["ops"]'

test_bench() {
	expect 0 nam-bench txn --keys 50 --ops 4000 --threads 2 --fibers 4 --json -
	json 'r["workload"] == "txn" and r["transactions"] == "smallbank" and r["errors"] == 0 and
		r["store"] == "serializable" and r["ops"] == 4000'
	json 'r["sum"] == r["sum_expected"] != 50 * 2 * 1000000'
	json "$mix"
	expect 0 nam-bench txn --workload ycsb-t --keys 50 --distribution zipfian --read-ratio 50 \
		--transaction-size 8 --value-bytes 100 --ops "$(nam_scaled 4000 400)" --threads 2 \
		--fibers 4 --json -
	json 'r["errors"] == 0 and r["sum"] == r["sum_expected"] and
		r["sum"] == 8 * r["kinds"]["update"] > 0 and r["distribution"] == "zipfian"'
	expect 0 nam-bench txn --workload ycsb-t --keys 1000 --read-ratio 100 --fibers 4 \
		--raw-ratio --seconds 0.2 --json -
	json 'r["errors"] == 0 and 0 < r["raw_ratio"] and 0 < r["raw_ops_per_cpu_s"] and
		4 <= r["raw_depth"] <= 64 and 64 <= r["raw_bytes"] < 128'
}

# Transactions of 2pl that read and then write are two, so a run alone has the right sum.
test_2pl() {
	expect 0 nam-bench txn --store 2pl --keys 50 --ops 1000 --json -
	json 'r["store"] == "2pl" and r["sum"] == r["sum_expected"] and r["conflicts"] == 0'
	expect 0 nam-bench txn --store 2pl --keys 50 --ops "$(nam_scaled 4000 400)" --threads 2 \
		--transport mailbox --fibers 4 --json -
	json 'r["errors"] == 0 and r["transport"] == "mailbox"'
	# The check of the sum can fail: simulated updates are lost, the same ones each time.
	expect 0 nam-bench txn --cluster sim:connectx4 --store 2pl --keys 50 --clients 4 \
		--ops 1000 --json -
	json 'r["errors"] == 0 and r["sum"] != r["sum_expected"]'
}

test_simulated() {
	local workload

	for workload in smallbank ycsb-t; do
		expect 0 nam-bench txn --cluster sim:connectx4 --memservers 3 --clients 4 \
			--fibers 4 --keys 100 --workload $workload --ops 4000 --json -
		json 'r["fabric"] == "sim" and r["errors"] == 0 and r["conflicts"] > 0 and
			r["sum"] == r["sum_expected"]'
	done
}

# Clients' threads do the memory servers' work.
test_symmetric() {
	expect 0 nam-bench txn --cluster sim:connectx4 --memservers 3 --clients 3 --symmetric \
		--fibers 4 --keys 100 --preset fasst --ops 600 --json -
	json 'r["symmetric"] is True and r["errors"] == 0 and r["sum"] == r["sum_expected"]'
	expect 2 nam-bench txn --symmetric
	says '--symmetric: only with --cluster sim:PROFILE'
}

# Rows of a small TPC-C; its consistency is checked at the end.
small="--warehouses 2 --items 100 --customers 15"

test_rows() {
	local cluster preset

	for cluster in "$NAM_CLUSTER" sim:connectx4; do
		# shellcheck disable=SC2086	# words
		expect 0 nam-bench txn --cluster "$cluster" --workload tpcc $small --threads 2 \
			--fibers 2 --ops 600 --json -
		json 'r["errors"] == r["violated"] == 0 and sum(r["kinds"].values()) == 600'
		json 'all(abs(n / 6 - share) < 8 for n, share in zip(r["kinds"].values(),
			[45, 43, 4, 4, 4])) and all(r["kinds"].values())'
		json 'r["orders"] == 300 + r["kinds"]["new_order"] - r["rolled_back"]'
		for preset in farm drtm-r fasst drtm-h; do
			# shellcheck disable=SC2086	# words
			expect 0 nam-bench txn --cluster "$cluster" --workload tpcc-new-order \
				$small --fibers 2 --ops 500 --preset $preset --json -
			json 'r["errors"] == r["violated"] == 0 and r["rolled_back"] > 0 and
				r["orders"] == 500 - r["rolled_back"]'
		done
	done
	for cluster in "$NAM_CLUSTER" sim:connectx4; do
		expect 0 nam-bench txn --cluster "$cluster" --workload tpce-customer-position \
			--keys 100 --fibers 2 --ops 500 --json -
		json 'r["errors"] == r["conflicts"] == 0 and r["per_op"]["round_trips"] == 4 and
			r["kinds"]["customer_position"] == 500'
	done
	# shellcheck disable=SC2086	# words
	expect 0 nam-bench txn --workload tpcc-new-order $small --ops 100 \
		--one-at-a-time --no-address-cache --log rpc
	says 'consistency conditions 1 to 12 of clause 3.3.2 hold'
	says '7.3 M/s at the peak of DrTM+H'
}

# history_is STATUS TEXT...: of a history with these transactions, one after another.
history_is() {
	local index=0 type value

	for value in "${@:2}"; do
		for type in invoke ok; do
			echo "{:index $((index++)), :type :$type, :process 0, :time 0, :f :txn," \
				":value [$value]}"
		done
	done >"$tmp/hand.edn"
	expect "$1" python3 "$check" "$tmp/hand.edn"
}

test_history() {
	local cluster

	for cluster in "$NAM_CLUSTER" sim:connectx4; do
		expect 0 nam-bench txn --cluster "$cluster" --keys 20 --threads 2 --fibers 4 \
			--ops 1000 --history "$tmp/history.edn" --quiet
		# Loaded by 3, read by both threads, and at last once more.
		expect 0 python3 "$check" "$tmp/history.edn"
		prints 1012
	done
	expect 2 nam-bench txn --store 2pl --history "$tmp/history.edn"
	says 'not with --store 2pl'
	expect 2 nam-bench txn --history "$tmp/nowhere/history.edn"
	[ "$err" = "nam-bench: $tmp/nowhere/history.edn: No such file or directory (ENOENT)" ] ||
		fail "$err"
	# The check can fail.
	history_is 0 '[:w 1 5]' '[:r 1 5] [:w 1 6]' '[:r 1 6] [:r 2 nil]'
	history_is 1 '[:w 1 5]' '[:r 1 5] [:w 1 6]' '[:r 1 5]'
	history_is 1 '[:w 1 5]' '[:r 1 5] [:w 1 6]' '[:r 1 5] [:w 1 7]'
	history_is 1 '[:w 1 5]' '[:r 1 nil]'
	history_is 1 '[:w 1 5]' '[:r 1 4]'
}

# Warm, alone: READs of all records, and then their validation.
test_costs() {
	expect 0 nam-bench txn --workload ycsb-t --keys 64 --read-ratio 100 --ops 1000 --json -
	json 'r["per_op"]["round_trips"] == 2 and r["per_op"]["work_requests"] == 8'
	expect 0 nam-bench txn --workload ycsb-t --keys 64 --read-ratio 100 --ops 1000 \
		--transaction-size 1 --json -
	json 'r["per_op"]["round_trips"] == 1 and r["per_op"]["work_requests"] == 1'
}

test_refusals() {
	expect 2 nam-bench txn --workload tatp
	says "'tatp' is not known"
	expect 2 nam-bench txn --store ramp
	says "'ramp' is not known"
	expect 2 nam-bench txn --read-ratio 10
	says 'only with --workload ycsb-t'
	expect 2 nam-bench txn --workload ycsb-t --transaction-size 33 --store 2pl
	says '32 at most'
	expect 2 nam-bench txn --raw-ratio
	says 'with --workload ycsb-t and --read-ratio 100'
	expect 2 nam-bench txn --keys 1
	says 2
	expect 2 nam-bench txn --warehouses 3
	says 'only with --workload tpcc'
	expect 2 nam-bench txn --workload tpcc --keys 100
	says 'say --warehouses'
	expect 2 nam-bench txn --workload tpcc --store 2pl
	says 'only with --workload smallbank or ycsb-t'
}

nam_servers_start 2 --memory 64M --region 32M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_refusals
test_bench
test_2pl
test_simulated
test_symmetric
test_rows
test_history
test_costs
# They leave nothing behind.
expect 0 namctl index list
prints ""
nam_servers_stop || fail "the servers did not end well"
finish "nam-bench txn: all as it should be"
