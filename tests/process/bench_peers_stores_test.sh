#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench-peers --workload: stores beside stand-ins for memcached and redis-server, and the
# figures that are drawn from it.  The stand-ins also make the mistakes that the client must see.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_CLUSTER NAM_TRANSPORT FAKE_CACHE FAKE_CACHE_GET
export TMPDIR=$tmp
export FAKE_CACHE_KEY=16		# as nam-bench kv has them
brief=(--keys 2k --seconds 0.05 --fabric shm --depth 8)

mkdir "$tmp/bin"
ln -s "$NAM_BUILD_DIR/tests/fake_cache_tool" "$tmp/bin/memcached"
ln -s "$NAM_BUILD_DIR/tests/fake_cache_tool" "$tmp/bin/redis-server"

# compare OPTION...: with the stand-ins.
compare() {
	PATH=$tmp/bin:$PATH nam-bench-peers "${brief[@]}" "$@"
}

test_usage() {
	expect 2 nam-bench-peers --workload ycsb-e
	says "--workload: 'ycsb-e' is not known; choose ycsb-a, ycsb-b, ycsb-c, ycsb-d"
	expect 2 nam-bench-peers --workload ycsb-a --distribution bell
	says "--distribution: 'bell' is not known"
	expect 2 nam-bench-peers --distribution uniform
	says "--distribution: only with --workload"
	expect 2 nam-bench-peers --workload ycsb-a --depth 513
}

test_stores() {
	expect 0 compare --workload ycsb-a --json -
	json '[(s["system"], s.get("fabric") or s["transport"]) for s in r["systems"]] ==
		[("memcached", "unix"), ("memcached", "tcp"), ("redis", "unix"), ("redis", "tcp"),
		("chained", "shm"), ("cuckoo", "shm"), ("one-sided", "shm")]'
	json '(r["workload"], r["distribution"], r["value_bytes"], r["errors"], r["fabrics"]) ==
		("ycsb-a", "zipfian", 32, 0, [])'
	json 'all(s["ops"] > 0 and s["depth"] == 8 and 0 < s["latency_ns"]["p50"]
		for s in r["systems"])'
	expect 0 compare --workload ycsb-c --without memcached,redis --json -
	json 'len(r["systems"]) == 3 and r["errors"] == 0'
	expect 0 nam-bench-peers --keys 100 --seconds 0.05 --fabric shm --depth 8 --workload ycsb-a \
		--bytes 16384 --rounds 1 --without memcached,redis --json -
	json 'r["value_bytes"] == 16384 and r["errors"] == 0'
	expect 0 compare --workload ycsb-d --without redis
	says "ycsb-d, values of 32 bytes; latest"
	says "at depth 8"
	says "errors      0"
	expect 0 compare --workload ycsb-b --distribution uniform --bytes 9 --without memcached \
		--json -
	json 'r["distribution"] == "uniform" and r["value_bytes"] == 9 and r["errors"] == 0'
	# Parts of replies.
	export FAKE_CACHE=pieces
	expect 0 compare --workload ycsb-d --quiet
	unset FAKE_CACHE
}

# mistake KIND STATUS TEXT: is seen behind the client, in both protocols.
mistake() {
	local other

	export FAKE_CACHE=$1 FAKE_CACHE_GET=3000
	for other in memcached redis; do
		expect "$2" compare --workload ycsb-b --without $other --quiet
		says "$3"
	done
	unset FAKE_CACHE FAKE_CACHE_GET
}

test_mistakes() {
	mistake wrong 1 "bytes, is not the one that was stored"
	mistake miss 1 "was not found"
	mistake error 6 "of a test'"
	mistake garbage 6 "what it answers makes no sense"
	mistake close 6 "it has closed the connection"
}

test_figures() {
	local draw=$NAM_SOURCE_DIR/bench/figures/draw

	expect 0 env PATH="$tmp/bin:$PATH" "$draw" --csv --quick rhkv-8-peers --seconds 0.05 \
		--out "$tmp/out"
	says "rhkv-8-peers (figure 8), measured: latency of one request"
	out=$(cat "$tmp/out/rhkv-8-peers.csv")
	python csv '[(i["system"], i["transport"]) for i in r] == [("cuckoo", "shm"),
		("chained", "shm"), ("cuckoo", "tcp"), ("chained", "tcp"), ("memcached", "tcp"),
		("redis", "tcp")] and all(i["source"] == "measured" and i["depth"] == "1" and
		i["distribution"] == "latest" and n(i["p50_ns"]) > 0 for i in r)'
	[ "$value" = True ] || fail "rhkv-8-peers: $out"
	grep -q '<td>0.4</td><td>-</td><td>MongoDB is not run</td>' "$tmp/out/index.html" ||
		fail "rhkv-8-peers: nothing of MongoDB"
	# Systems that are not installed are left out.
	expect 0 env PATH="$NAM_BUILD_DIR/bin" "$draw" --csv --quick rhkv-8-peers --seconds 0.05 \
		--out "$tmp/without"
	out=$(cat "$tmp/without/rhkv-8-peers.csv")
	python csv 'set(i["system"] for i in r) == {"cuckoo", "chained"}'
	[ "$value" = True ] || fail "rhkv-8-peers: $out"
}

test_usage
test_stores
test_mistakes
test_figures
finish "nam-bench-peers --workload: all as it should be"
