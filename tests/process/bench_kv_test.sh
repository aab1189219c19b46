#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench kv: by each transport, on real memory servers and on a simulated card.  There fetching
# beats replies by WRITE for every workload, as in the paper's measurements.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

test_bench() {
	local transport engine

	for transport in srq mailbox fetch; do
		expect 0 nam-bench kv --transport $transport --keys 2k \
			--ops "$(nam_scaled 4000 400)" --value-bytes mixed \
			--distribution zipfian --get-percent 50 --threads 2 --fibers 4 --json -
		json 'r["workload"] == "kv" and r["errors"] == 0 and r["value_bytes"] == "mixed" and
			r["transport"] == "'$transport'" and r["ops"] > 0'
		expect 0 namctl kv list
		prints ""
	done
	expect 2 nam-bench kv --transport pigeon
	says "--transport: 'pigeon' is not known; choose srq, mailbox, fetch or datagram"
	expect 3 nam-bench kv --cluster shm:/nowhere --transport datagram
	says "the fabric shm has no datagrams"
	for engine in chained cuckoo; do
		expect 0 nam-bench kv --workload ycsb-d --keys 2k --ops "$(nam_scaled 4000 400)" \
			--threads 2 --fibers 4 --engine $engine --json -
		json 'r["errors"] == r["refused"] == 0 and r["inserts"] > 0 and
			r["distribution"] == "latest" and r["engine"] == "'$engine'"'
	done
	expect 0 nam-bench kv --compare --engine cuckoo --keys 2k --load-factor 0.5 --get-percent 50 \
		--seconds 0.02 --fibers 4 --json -
	json 'r["errors"] == 0 and r["engine"] == "cuckoo" and r["ops"] > 0 and
		r["compare_pairs"] > 1 and
		0 < r["compare_low"] <= r["compare_ratio"] <= r["compare_high"]'
	expect 0 namctl kv list
	prints ""
	expect 2 nam-bench kv --compare --ops 10
	says "--compare: only of a cluster that is not simulated, for --seconds"
	expect 0 nam-bench pilaf --keys 2k --ops "$(nam_scaled 4000 400)" --threads 2 --fibers 4 \
		--json -
	json 'r["errors"] == 0 and r["ops"] > 0'
	expect 2 nam-bench kv --distribution bell
	says "'bell' is not known"
	for engine in chained cuckoo; do
		expect 0 nam-bench kv --value-bytes 100000 --keys 20 --partitions 1 --ops 100 \
			--get-percent 50 --transport fetch --engine $engine --json -
		json 'r["errors"] == 0 and r["value_bytes"] == 100000 and
			r["per_op"]["bytes_in"] > 40000 and r["per_op"]["bytes_out"] > 40000'
	done
	expect 2 nam-bench kv --value-bytes 1048577
	says 1048576
	expect 2 nam-bench kv --bytes 3
	says '--bytes'
	expect 2 nam-bench kv --workload ycsb-e
	says "a key-value store has no scan, and no rmw; choose one of ycsb-a to ycsb-d"
	expect 2 nam-bench kv --workload ycsb-z
	says "there is none called 'ycsb-z'"
	expect 2 nam-bench kv --workload ycsb-a --get-percent 10
	says "--workload and --get-percent: say one of them"
	expect 2 nam-bench kv --workload ycsb-a --insert-percent 10
	says "--workload and --insert-percent: say one of them"
	expect 2 nam-bench kv --get-percent 90 --insert-percent 11
	says "together they are more than 100"
	expect 2 nam-bench kv --load-factor 0.5 --value-bytes mixed
	says "--load-factor: only if all values have one length"
	expect 2 nam-bench kv --load-factor 0.5 --engine cuckoo --value-bytes 33
	says "values of 32 bytes at most"
	expect 2 nam-bench kv --load-factor 1.1
	says "--load-factor: '1.1' is not a number from 0.01 to 1"
}

# Sets $rate.
simulate() {
	expect 0 nam-bench kv --cluster sim:connectx3 --seconds 0.0003 --json - "$@"
	json 'r["errors"] == 0'
	python json 'int(r["ops_per_s"])'
	rate=$value
}

# The memory server's card sends 2.11 M/s, and serves 11.26 M/s.
test_simulated() {
	local share distribution reply

	for share in 95 50 5; do
		for distribution in uniform zipfian; do
			set -- --get-percent $share --distribution $distribution --clients 35
			simulate "$@" --transport mailbox
			json '1.9e6 < r["ops_per_s"] < 2.15e6 and r["per_op"]["round_trips"] == 1'
			reply=$rate
			simulate "$@" --transport fetch
			json '2 <= r["per_op"]["round_trips"] <= 2.02'
			[ $((rate * 10)) -ge $((reply * 24)) ] ||
				fail "$*: fetch $rate/s, replies by WRITE $reply/s"
		done
	done
	# A datagram there and one back; a reply that none holds is a message.
	for reply in 32 1000; do
		simulate --clients 35 --transport datagram --get-percent 50 --value-bytes $reply
		json '1.9e6 < r["ops_per_s"] < 2.15e6 and 1 <= r["per_op"]["round_trips"] < 1.02'
	done
	# A value that one fetch does not hold takes another.
	simulate --clients 35 --transport fetch --get-percent 100 --value-bytes 64 --fetch-bytes 80
	json '3 <= r["per_op"]["round_trips"] <= 3.02'
	simulate --clients 35 --transport fetch --get-percent 100 --value-bytes 128 \
		--fetch-bytes 176
	json '2 <= r["per_op"]["round_trips"] <= 2.02'
}

# GETs of short pairs by READs of two buckets, beside inserts and updates by requests.
test_onesided() {
	# Clients have learnt the layouts before.
	simulate --engine cuckoo --get onesided --get-percent 100 --clients 40
	json 'r["get"] == "onesided" and 1 <= r["per_op"]["round_trips"] < 1.02 and
		1.9 < r["per_op"]["work_requests"] < 2'
	# Of a hot key, the bucket that had it lately.
	simulate --engine cuckoo --get onesided --get-percent 100 --clients 40 \
		--distribution zipfian
	json '1 <= r["per_op"]["round_trips"] < 1.02 and
		1 < r["per_op"]["work_requests"] < 1.9'
	simulate --engine cuckoo --get onesided --workload ycsb-d --clients 4 --fibers 2
	# Twenty keys with one doorbell.
	simulate --engine cuckoo --get onesided --get-percent 100 --clients 4 --batch 20
	json '0.05 <= r["per_op"]["round_trips"] < 0.06 and
		1.9 < r["per_op"]["work_requests"] < 2'
	simulate --engine cuckoo --get onesided --workload ycsb-a --clients 4 --fibers 2
	expect 2 nam-bench kv --cluster sim:connectx3 --get onesided
	says "--get onesided: only with --engine cuckoo"
}

# GETs of a table of pointers, by dependent READs.
test_pilaf() {
	expect 0 nam-bench pilaf --cluster sim:connectx3 --seconds 0.0003 --clients 40 \
		--value-bytes 100 --distribution zipfian --json -
	# 11.26 M READs a second; two buckets of 64 bytes, and a pair.
	json 'r["errors"] == 0 and r["per_op"]["round_trips"] == 2 and
		r["per_op"]["work_requests"] == 3 and r["per_op"]["bytes_in"] == 128 + 16 + 100 and
		3.5e6 < r["ops_per_s"] < 3.8e6 and r["transport"] == "read"'
	expect 0 nam-bench pilaf --cluster sim:connectx3 --seconds 0.0003 --keys 1 --value-bytes 0
	says "two READs of buckets, then one of the pair"
	expect 2 nam-bench pilaf --value-bytes 3801
	expect 2 nam-bench pilaf --get-percent 50
}

# counts OPTION...: of a simulated run, which is the same each time.
counts() {
	expect 0 nam-bench kv --cluster sim:connectx3 --keys 20k --ops 5k --json - "$@"
}

test_shares() {
	counts --workload ycsb-a
	json '(r["get_percent"], r["insert_percent"], r["distribution"]) == (50, 0, "zipfian") and
		r["inserts"] == 0'
	counts --workload ycsb-b --distribution uniform
	json '(r["get_percent"], r["insert_percent"], r["distribution"]) == (95, 0, "uniform")'
	counts --workload ycsb-c
	json '(r["get_percent"], r["insert_percent"]) == (100, 0)'
	counts --workload ycsb-d --clients 3 --fibers 4
	json '(r["get_percent"], r["insert_percent"], r["distribution"]) == (95, 5, "latest") and
		150 < r["inserts"] < 350'
	counts --insert-percent 20
	json '(r["get_percent"], r["insert_percent"]) == (80, 20) and 850 < r["inserts"] < 1150'
}

test_load_factor() {
	local engine factor

	for engine in chained cuckoo; do
		for factor in 0.3 0.6 0.9; do
			counts --engine $engine --load-factor $factor --insert-percent 20
			json 'abs(r["load_factor"] - '$factor') < 0.015 and r["refused"] == 0 and
				abs(r["load_factor_end"] / r["load_factor"] -
				(r["keys"] + r["inserts"]) / r["keys"]) < 1e-3'
		done
	done
	counts --engine cuckoo --load-factor 0.6 --insert-percent 20
	json 'sum(r["kicked"]) == r["inserts"] == sum(r["kicked"][:3]) and r["loops"] == 0'
	# Full: what is refused counts as a loop, and every key that was there still is.
	counts --engine cuckoo --load-factor 0.95 --partitions 1 --insert-percent 50
	json 'r["load_factor_end"] > 0.975 and r["refused"] == r["loops"] > 500 and
		r["loops_share"] == float("%.6g" % (r["loops"] / (r["loops"] + r["inserts"]))) and
		sum(r["kicked"][2:]) > 100 and r["stashed"] == 8'
	counts --engine chained --load-factor 0.95 --partitions 1 --insert-percent 50
	json 'r["load_factor_end"] == 1 and r["refused"] > 500'
	# Reads of the newest keys do not miss, although some inserts were refused.
	counts --engine cuckoo --load-factor 0.95 --partitions 1 --insert-percent 50 \
		--distribution latest --clients 2 --fibers 3
	json 'r["errors"] == 0 and r["refused"] > 0 and r["inserts"] > 0'
	expect 6 nam-bench kv --cluster sim:connectx3 --keys 20k --engine cuckoo --load-factor 1
	says "--load-factor 1: chance gives some partitions more keys"
	# 20,619 places would be 0.97; there are 20,472 or 20,984.
	expect 6 nam-bench kv --cluster sim:connectx3 --keys 20k --engine cuckoo --partitions 1 \
		--load-factor 0.97
	says "or whole chunks are too few"
	expect 0 nam-bench kv --cluster sim:connectx3 --keys 20k --engine cuckoo --load-factor 0.9 \
		--insert-percent 20 --ops 5k
	says "load factor 0.90"
	says "0 refused, 0 % predicted to loop"
	says "kick-outs   0: "
}

test_simulated
test_onesided
test_pilaf
test_shares
test_load_factor
nam_servers_start 2 --memory 32M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_bench
nam_servers_stop || fail "the servers did not end well"
finish "nam-bench kv: all as it should be"
