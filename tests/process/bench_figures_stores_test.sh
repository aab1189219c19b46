#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/draw: the figures of RHKV, stores and kick-outs.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER

# csv FIGURE EXPRESSION: must hold of its rows r.
csv() {
	out=$(cat "$tmp/out/$1.csv")
	python csv "bool($2)"
	[ "$value" = True ] || fail "$1: $2: $value"
}

PATH=$NAM_SOURCE_DIR/bench/figures:$PATH

# ---- stores under the mixes of YCSB, and beside the same requests over sockets
expect 0 draw --csv rhkv-8 rhkv-9 rhkv-t4 --quick --out "$tmp/out"
says 'rhkv-9 (figure 9), simulated: connectx3: stores over RDMA, GET:UPDATE and GET:INSERT'
# Only inserts change the load factor: the tables of cuckoo fill, or grow and have more slots.
csv rhkv-8 'set((i["workload"], i["distribution"], i["get_percent"], i["insert_percent"])
	for i in r) == {("ycsb-d", "latest", "95", "5")} and len(r) == 6 and
	all(i["refused"] == "0" and (n(i["load_factor_end"]) > n(i["load_factor"]) or
	i["engine"] == "cuckoo" and n(i["load_factor_end"]) < n(i["load_factor"])) for i in r)'
csv rhkv-9 'len(r) == 28 and all(i["profile"] == "connectx3" and i["clients"] == "35" for i in r)
	and set((i["engine"], i["transport"]) for i in r) == set((e, t) for e in
	("cuckoo", "chained") for t in ("srq", "fetch", "datagram"))
	and set((i["workload"], i["distribution"]) for i in r) == set((w, d) for w in
	("ycsb-a", "ycsb-d") for d in ("uniform", "zipfian"))'
csv rhkv-9 'all(2 * n(s["ops_per_s"]) < n(f["ops_per_s"]) for f in r if f["transport"] == "fetch"
	for s in r if s["transport"] == "srq" and s["get"] == "request")'
csv rhkv-9 'all(n(s["ops_per_s"]) < n(o["ops_per_s"]) for o in r if o["get"] == "onesided"
	for s in r if s["transport"] == "srq" and s["get"] == "request")'
csv rhkv-t4 '[(i["profile"], i["workload"]) for i in r] == [("connectx3", "ycsb-a"),
	("connectx3", "ycsb-d"), ("connectx2-ipoib", "ycsb-a"), ("connectx2-ipoib", "ycsb-d")] and
	all(i["engine"] == "cuckoo" and i["transport"] == "srq" and i["clients"] == "1" for i in r)'
csv rhkv-t4 'n(r[0]["ops_per_s"]) > 10 * n(r[2]["ops_per_s"])'
grep -q '<td>15.2 M</td>' "$tmp/out/index.html" || fail "no value of table 4"
# Values that the text prints of RHKV and HERD, as ratios.
csv rhkv-9 'all(i["against_herd"] == i["latency_against_herd"] == "1" for i in r
	if (i["engine"], i["transport"]) == ("chained", "datagram")) and
	all(abs(n(i["against_herd"]) * n(h["ops_per_s"]) / n(i["ops_per_s"]) - 1) < 1e-3 and
	abs(n(i["latency_against_herd"]) * n(h["mean_ns"]) / n(i["mean_ns"]) - 1) < 1e-3
	for i in r for h in r if (h["engine"], h["transport"]) == ("chained", "datagram") and
	(h["workload"], h["distribution"]) == (i["workload"], i["distribution"]))'
csv rhkv-t4 'all(i["against_herd"] == "" for i in r)'
for value in 1.09 1.07 0.92; do
	grep -q "against_herd</td><td>$value</td>" "$tmp/out/index.html" || fail "no $value"
done

# ---- one-sided GETs beside all transports; with one handler thread their rate is the same
expect 0 draw --csv rhkv-onesided --quick --out "$tmp/out"
csv rhkv-onesided 'sorted(set((i["transport"], i["get"], i["handler_threads"]) for i in r)) ==
	[("datagram", "request", "10"), ("fetch", "request", "1"), ("fetch", "request", "10"),
	("mailbox", "request", "10"), ("read", "dependent", "10"), ("srq", "onesided", "1"),
	("srq", "onesided", "10"), ("srq", "request", "10")] and set(i["clients"] for i in r) ==
	{"4", "35"} and all(i["get_percent"] == "100" and i["distribution"] == "zipfian" and
	i["engine"] == ("pilaf" if i["get"] == "dependent" else "cuckoo") for i in r)'
expect 0 draw --csv rhkv-onesided --quick --cluster sim:connectx5 --clients 80 --out "$tmp/out"
csv rhkv-onesided 'all(n(i["round_trips_per_op"]) < 1.02 for i in r if i["get"] == "onesided") and
	all(0.99 < n(one["ops_per_s"]) / n(ten["ops_per_s"]) < 1.01 for one in r for ten in r if
	one["get"] == ten["get"] == "onesided") and
	all(2 * n(one["ops_per_s"]) < n(ten["ops_per_s"]) for one in r for ten in r if
	one["transport"] == ten["transport"] == "fetch" and one["handler_threads"] == "1" and
	ten["handler_threads"] == "10")'

# ---- kick-outs, which are counted: two figures of the same runs
expect 0 draw --csv rhkv-kicks rhkv-loops --quick --out "$tmp/out" --seed 3
says 'rhkv-kicks (section 6.3), counted: kick-outs of an insert'
for figure in rhkv-kicks rhkv-loops; do
	csv $figure '[(i["scheme"], i["bucket_slots"], i["load_factor"]) for i in r] ==
		[("graph", "4", "0.5"), ("graph", "4", "0.9"), ("plain", "4", "0.5"),
		("plain", "4", "0.9"), ("plain", "1", "0.5")] and
		all(i["source"] == "counted" and i["profile"] == "" and i["seed"] == "3" and
		i["ops"] == "400" for i in r)'
done
csv rhkv-kicks 'n(r[1]["kicks_per_op"]) < 1 < 3 < n(r[3]["kicks_per_op"]) and
	all(i["loops_share"] == "0" for i in r[:4])'

# ---- times of tables: values beside those of the text, whatever they are
expect 0 draw --csv rhkv-inserts rhkv-htm --quick --out "$tmp/out"
says 'rhkv-inserts (section 6.3), measured: GETs and INSERTs in tables of this process'
csv rhkv-inserts '[(i["load_factor"], i["scheme"], i["insert_percent"]) for i in r] ==
	[(f, s, p) for f in ("0.5", "0.8", "0.9") for s in ("graph", "plain") for p in ("5", "20")]
	and all(n(i["ns_per_op"]) > 0 and i["source"] == "measured" for i in r)'
csv rhkv-inserts '[i["against_5_percent"] for i in r if i["insert_percent"] == "5"] ==
	["", "1"] * 3 and all(abs(n(i["against_5_percent"]) * n(least["against_graph"]) /
	n(i["against_graph"]) - 1) < 2e-3 for i in r for least in r if i["scheme"] ==
	least["scheme"] == "plain" and least["insert_percent"] == "5" and
	least["load_factor"] == i["load_factor"])'
grep -q '>against_5_percent</td><td>1.15</td>' "$tmp/out/index.html" || fail "no ratio of inserts"
csv rhkv-htm '[(i["scheme"], i["workload"]) for i in r] == [("graph", "ycsb-a"),
	("graph", "ycsb-d"), ("graph, HTM", "ycsb-a"), ("graph, HTM", "ycsb-d")] and
	all(i["against_lock"] == "" for i in r[:2]) and n(r[0]["ns_per_op"]) > 0'

# ---- plots, with the names of mixes below
expect 0 draw rhkv-t4 rhkv-loops --quick --out "$tmp/out"
for figure in rhkv-t4 rhkv-loops; do
	head -c 8 "$tmp/out/$figure.png" | grep -q PNG || fail "$figure: no PNG"
	grep -q "$figure.svg" "$tmp/out/index.html" || fail "$figure is not in index.html"
done
grep -q '95:5 INSERT' "$tmp/out/rhkv-t4.svg" || fail "no names of mixes"

finish "figures of stores: all as they should be"
