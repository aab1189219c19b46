#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench kv: by each transport, on real memory servers and on a simulated card, where fetching
# beats replies by WRITE as in the paper's measurements, whatever is asked for.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

test_bench() {
	local transport

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
	expect 2 nam-bench kv --distribution bell
	says "'bell' is not known"
	expect 2 nam-bench kv --value-bytes 3801
	says 3800
	expect 2 nam-bench kv --bytes 3
	says '--bytes'
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

test_simulated
nam_servers_start 2 --memory 32M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_bench
nam_servers_stop || fail "the servers did not end well"
finish "nam-bench kv: all as it should be"
