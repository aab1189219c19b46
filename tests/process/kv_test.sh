#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Key-value stores with processes of all kinds: every command of namctl kv; a client and a memory
# server that are killed.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

test_stores() {
	expect 0 namctl kv list
	prints ""
	expect 0 namctl kv create shop --mode store --memory 1M --partitions 2
	says "created shop: store, engine chained, 1.0 MiB in 2 partitions on each of 2"
	expect 4 namctl kv create shop
	says "the name 'shop' is taken already"
	expect 4 namctl index create shop
	expect 0 namctl index create people
	expect 2 namctl kv get people x
	says "'people' is an index"
	expect 2 namctl get shop 1
	says "'shop' is a key-value store"
	expect 0 namctl kv list
	prints shop
	expect 0 namctl kv list --json
	json 'r == {"stores": ["shop"]}'
	expect 0 namctl index list
	prints people
	expect 0 namctl status --json
	json 'r["servers"][0]["indexes"] == 1 and r["servers"][0]["stores"] == 1'
	expect 5 namctl kv stat nothing
	says "there is no store 'nothing'"
	expect 6 namctl kv create huge --memory 1G
	says "store 'huge'"
	expect 2 namctl kv create x --memory 10k
	says "too few"
	expect 2 namctl kv create x --memory lots
	says "'lots' is not a size"
	expect 2 namctl kv create x --engine steam
	says "'steam' is not known; choose chained or cuckoo"
	expect 2 namctl kv create x --mode pile
	says "'pile' is not known; choose cache or store"
	expect 2 namctl kv
	says "say create, list, stat, get, put, delete or drop"
	expect 2 namctl kv get shop k --mode cache
	says "--mode does not belong to 'get'"
}

test_pairs() {
	expect 0 namctl kv put shop apple red
	expect 0 namctl kv get shop apple
	prints red
	expect 0 namctl kv put shop apple 'gr"ün'
	expect 0 namctl kv get shop apple --json
	json 'r == {"store": "shop", "key": "apple", "found": True, "bytes": 6, "value": "gr\"ün"}'
	expect 1 namctl kv get shop pear
	says "no such key"
	expect 1 namctl kv get shop pear --json
	json 'r["found"] == False'
	expect 0 namctl --key-type hex kv put shop 00ff FE00
	expect 0 namctl --key-type hex kv get shop 00FF
	prints fe00
	expect 0 namctl --key-type hex kv get shop 00ff --json
	json 'r["key_hex"] == "00ff" and r["value_hex"] == "fe00"'
	expect 2 namctl --key-type hex kv get shop 0
	expect 2 namctl --key-type hex kv get shop 0g
	expect 2 namctl --key-type u64 kv get shop 1
	printf 'a\0b' | namctl kv put shop file - || fail "put from standard input"
	expect 0 namctl kv get shop file --json
	json 'r["bytes"] == 3 and r["value_hex"] == "610062"'
	head -c 1048577 /dev/zero | namctl kv put shop file - 2>"$tmp/err" && fail "too long"
	grep -q 'a value of 1048577 bytes; values have up to 1048576' "$tmp/err" ||
		fail "no limit told"
	expect 2 namctl kv put shop "$(printf 'k%.0s' {1..256})" v
	says "a key of 256 bytes; keys have 1 to 255"
	expect 0 namctl kv stat shop --json
	json 'r["mode"] == "store" and r["keys"] == 3 and r["puts"] == 4 and r["memory_bytes"] ==
		1 << 20 and r["partitions"] == 2 and r["servers"] == 2 and r["bytes"] == 11 + 4 + 7'
	expect 0 namctl kv stat shop
	says "pairs            3, 22 bytes"
	expect 0 namctl kv delete shop apple
	expect 1 namctl kv delete shop apple
	expect 0 namctl kv drop shop
	says "dropped shop"
	expect 5 namctl kv drop shop
	expect 5 namctl kv get shop file
	expect 0 namctl index drop people
}

# Values longer than a message, through a pipe and back.
test_long_values() {
	local engine bytes transport

	for engine in chained cuckoo; do
		expect 0 namctl kv create long --mode store --memory 12M --partitions 1 \
			--engine $engine
		for bytes in 3800 3801 33792 33793 1048575 1048576; do
			tr -dc 'a-z0-9' </dev/urandom | head -c $bytes >"$tmp/value"
			for transport in srq mailbox fetch; do
				NAM_TRANSPORT=$transport namctl kv put long "k$bytes" - \
					<"$tmp/value" || fail "put $bytes by $transport"
				NAM_TRANSPORT=$transport namctl kv get long "k$bytes" >"$tmp/got" ||
					fail "get $bytes by $transport"
				echo | cat "$tmp/value" - | cmp - "$tmp/got" ||
					fail "another value of $bytes bytes by $transport"
			done
		done
		expect 0 namctl kv get long k1048576 --json
		json 'r["bytes"] == 1 << 20 and len(r["value"]) == 1 << 20'
		expect 0 namctl kv stat long --json
		json 'r["keys"] == 6 and r["puts"] == 18'
		expect 0 namctl kv drop long
		# A share of a partition is too little, in a cache as well.
		expect 0 namctl kv create long --mode cache --memory 1M --partitions 2 \
			--engine $engine
		namctl kv put long k - <"$tmp/value" 2>"$tmp/err" && fail "a pair without room"
		grep -q 'one of fewer partitions' "$tmp/err" || fail "no remedy told"
		expect 0 namctl kv drop long
	done
}

# A client is killed as it writes: the others read and write on, and what was there is there.
test_client_is_killed() {
	local client transport i

	expect 0 namctl kv create shared --mode store --memory 4M --engine cuckoo
	for i in 1 2 3 4 5; do
		expect 0 namctl kv put shared "key$i" "value $i"
	done
	for transport in srq fetch; do
		NAM_TRANSPORT=$transport nam-bench kv --engine cuckoo --keys 2k --seconds 60 \
			--get-percent 5 --quiet >/dev/null 2>&1 &
		client=$!
		# Until it has a store of its own, and so is at work.
		until [ "$(namctl kv list | wc -l)" -gt 1 ]; do
			kill -0 $client 2>/dev/null || break
		done
		sleep 0.2
		kill -KILL $client
		wait $client 2>/dev/null
		for i in 1 2 3 4 5; do
			expect 0 namctl kv get shared "key$i"
			prints "value $i"
		done
		# Its leftovers can be inspected and dropped.
		expect 0 namctl kv list
		i=$(grep bench-kv <<<"$out")
		expect 0 namctl kv stat "$i" --json
		json 'r["keys"] > 0'
		expect 0 namctl kv drop "$i"
	done
	expect 0 namctl kv list
	prints shared
	expect 0 namctl kv stat shared
	says "engine           cuckoo"
	expect 0 namctl kv stat shared --json
	json 'r["engine"] == "cuckoo" and r["keys"] == 5 and r["slots"] > 1000 and
		r["kicked"] == [5, 0, 0, 0, 0, 0, 0, 0] and r["loops"] == r["stashed"] == 0'
}

# A client that names only some memory servers drops a store on all.
test_other_cluster_text() {
	expect 0 namctl kv create spread --memory 4M
	expect 0 namctl --cluster "${cluster%%,*}" kv drop spread
	expect 5 namctl kv stat spread
	expect 0 namctl kv create spread --memory 4M
	expect 0 namctl kv drop spread
}

# A memory server is killed: named errors, soon; and when it is back, its part is lost, and told so.
test_server_is_killed() {
	local client status=0

	nam-bench kv --keys 2k --seconds 60 --quiet >/dev/null 2>"$tmp/err" &
	client=$!
	until [ "$(namctl kv list | wc -l)" -gt 1 ]; do
		kill -0 $client 2>/dev/null || break
	done
	kill -KILL "${nam_server_pids[1]}"
	wait "${nam_server_pids[1]}" 2>/dev/null
	unset 'nam_server_pids[1]'
	wait $client || status=$?
	[ $status -eq 3 ] || fail "its memory server was killed: $status, $(cat "$tmp/err")"
	nam_server_start 1 --memory 32M --region 16M --pages 4k || exit 1
	expect 6 namctl kv get shared key1
	says NAM_E_LOST
	expect 0 namctl kv drop shared
	expect 0 namctl kv list
	prints ""
	expect 0 namctl kv create shared --memory 4M
	expect 0 namctl kv put shared key1 anew
	expect 0 namctl kv get shared key1
	prints anew
	expect 0 namctl kv drop shared
}

nam_servers_start 2 --memory 32M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_stores
test_pairs
test_long_values
test_client_is_killed
test_other_cluster_text
test_server_is_killed
nam_servers_stop || fail "the servers did not end well"
finish "key-value stores: all as they should be"
