#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/figures/draw: CSV files, plots, resumption, messages without matplotlib, and mistakes.

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
# A machine without matplotlib, and without a way to install it.
mkdir "$tmp/bin" "$tmp/none"
ln -s "$NAM_BUILD_DIR/bin/nam-bench" "$tmp/bin/"
echo 'raise ImportError("none")' >"$tmp/none/matplotlib.py"
draw=$NAM_SOURCE_DIR/bench/figures/draw
without="env PATH=$tmp/bin PYTHONPATH=$tmp/none $draw"

# ---- a figure, as two designs make it
expect 0 draw tree-7 --csv --quick --designs coarse,fine --out "$tmp/out" --seed 7
says 'tree-7 (figure 7), simulated: connect-ib: throughput, skewed data'
says 'A: point queries, skewed data'
[ ! -e "$tmp/out/tree-7.png" ] || fail "a plot despite --csv"
csv tree-7 'set(r[0]) == set("figure design partitioning workload selectivity skew keys memservers
	handler_threads clients cache_mb colocated height ops_per_s p50_ns p99_ns round_trips_per_op
	bytes_in_per_op bytes_out_per_op bytes_per_s cache_hit_rate cache_stale_rate
	model_bytes_per_s model_bytes_per_op model_ops_per_s source profile seed".split())'
csv tree-7 'len(r) == 16 and set(i["cache_mb"] for i in r) == {"0"} and
	all(i["source"] == "simulated" and i["profile"] == "connect-ib" and
	i["seed"] == "7" and i["keys"] == "20000" and i["memservers"] == "2" for i in r)'
csv tree-7 'set(i["skew"] for i in r) == {"80/20"}'
csv tree-7 'sorted((i["design"], i["partitioning"], i["clients"]) for i in r if
	i["workload"] == "tree-a") == [("coarse", "range", "4"), ("coarse", "range", "8"),
	("fine", "none", "4"), ("fine", "none", "8")]'
csv tree-7 'sorted(set(i["selectivity"] for i in r)) == ["", "0.001", "0.01", "0.1"]'
# One round trip by RPC, as many as the tree is high one-sided, without a cache.
csv tree-7 'all(n(i["round_trips_per_op"]) == (1 if i["design"] == "coarse" else n(i["height"]))
	and n(i["ops_per_s"]) > 0 and 0 < n(i["p50_ns"]) <= n(i["p99_ns"])
	and i["handler_threads"] == "10" for i in r if i["workload"] == "tree-a")'
# The model of two memory servers under skew.
csv tree-7 'set(n(i["model_bytes_per_s"]) for i in r if i["design"] == "coarse") == {6.8e9}'
csv tree-7 'set(n(i["model_bytes_per_s"]) for i in r if i["design"] == "fine") == {13.6e9}'
csv tree-7 'all(abs(n(i["model_ops_per_s"]) * n(i["model_bytes_per_op"]) /
	n(i["model_bytes_per_s"]) - 1) < 1e-4 for i in r)'
expect 1 $without tree-7 --quick --designs fine --clients 2 --out "$tmp/out" --quiet
says 'install python3-matplotlib'
[ -z "$out" ] || fail "--quiet printed $out"

# ---- table 1 and figure 3 of the paper: 4 levels of 1 KiB, and 0.1 % of 2.4 M leaves
expect 0 draw --csv tree-3 --out "$tmp/out"
csv tree-3 'all(i["source"] == "model" and i["ops_per_s"] == "" for i in r)'
csv tree-3 'len(r) == 36 and [n(i["model_ops_per_s"]) // 1000 for i in r if i["design"] == "fine"
	and i["memservers"] == "64" and i["skew"] == "uniform"] == [1331]'
csv tree-3 'len(set(i["model_ops_per_s"] for i in r if i["partitioning"] == "range" and
	i["skew"] != "uniform")) == 1'

# ---- inserts, caches: fine alone; what the library or the cluster refuses is left out
expect 0 draw --csv tree-12 tree-cache --quick --designs fine --clients 4 --out "$tmp/out"
csv tree-12 'set(i["workload"] for i in r) == {"tree-c", "tree-d"} and len(r) == 2'
csv tree-12 'all(i["model_ops_per_s"] == "" for i in r)'
csv tree-cache '[n(i["round_trips_per_op"]) for i in r if i["workload"] == "tree-a"] ==
	[n(r[0]["height"]), 1]'
# A complete cache is always right while there are no inserts.
csv tree-cache '[i["cache_hit_rate"] + i["cache_stale_rate"] for i in r if n(i["cache_mb"]) == 0] ==
	[""] * 4'
csv tree-cache '[(n(i["cache_hit_rate"]), n(i["cache_stale_rate"])) for i in r if
	i["workload"] in ("tree-a", "tree-b") and n(i["cache_mb"])] == [(1, 0)] * 2'
csv tree-cache 'all(0.5 < n(i["cache_hit_rate"]) <= 1 and 0 <= n(i["cache_stale_rate"]) < 0.5 and
	n(i["cache_hit_rate"]) + n(i["cache_stale_rate"]) <= 1 for i in r if n(i["cache_mb"]))'
sed 's/^\[cpu\]/[cpu]\nno_such_key = 1/' "$NAM_SOURCE_DIR/deploy/profiles/shm.ini" >"$tmp/odd.ini"
expect 2 draw --csv tree-8 --quick --cluster "sim:$tmp/odd.ini" --out "$tmp/out"
says "there is no 'no_such_key'"
expect 3 draw --csv tree-8 --quick --cluster shm:/nowhere/at/all --out "$tmp/out"
says 'fine is left out: '

# ---- memory servers that are added; times are simulated, so they are exact
expect 0 draw --csv growth --quick --out "$tmp/out"
says 'growth (ours), simulated: connect-ib: rate over time while memory servers are added'
csv growth '[(i["design"], n(i["until_ms"])) for i in r] ==
	[(d, 20 * s) for d in ("fine", "hybrid") for s in range(1, 13)]'
csv growth 'all(i["errors"] == "0" and n(i["ops_per_s"]) > 0 and n(i["max_ns"]) < 50e6 for i in r)'
csv growth 'all([n(i["memservers"]) for i in r if i["design"] == d] == sorted(n(i["memservers"])
	for i in r if i["design"] == d) for d in ("fine", "hybrid"))'
csv growth '[i["memservers"] for i in r if i["until_ms"] in ("20", "160", "240")] ==
	["1", "2", "4"] * 2'
csv growth 'all(len(used) == 4 and min(used) > 0 for used in
	([n(b) for b in i["used_bytes"].split("/")] for i in r))'
expect 0 draw --csv failover --quick --clients 24 --out "$tmp/out"
csv failover 'all(i["errors"] == "0" for i in r)'
csv failover '(lambda b: b[0] == b[-1] == "4" and "3" in b)([i["backups"] for i in r])'
csv failover 'n(r[-1]["ops_per_s"]) > 0.8 * n(r[0]["ops_per_s"])'
expect 2 draw --csv growth --cluster shm:/nowhere
says 'growth: only with --cluster sim:PROFILE'

# ---- plots, and a page with all of them
expect 0 draw tree-8 tree-13 rfp-5 ramp-5 growth --quick --clients 2,35 --designs fine \
	--out "$tmp/plots"
for figure in tree-8 tree-13 rfp-5 ramp-5 growth; do
	head -c 8 "$tmp/plots/$figure.png" | grep -q PNG || fail "$figure: no PNG"
	grep -q '</svg>' "$tmp/plots/$figure.svg" || fail "$figure: no SVG"
	grep -q "$figure.svg" "$tmp/plots/index.html" || fail "$figure is not in index.html"
done
# The printed value stands beside ours.
grep -q '<td>5.8 k</td>' "$tmp/plots/index.html" || fail "no value of the paper"

# ---- an interrupted call resumes: points with results run no more
printf '#!/bin/sh\necho "$@" >>"%s"\nexec "%s" "$@"\n' "$tmp/calls" \
	"$NAM_BUILD_DIR/bin/nam-bench" >"$tmp/counting"
chmod +x "$tmp/counting"
# resumed RUNS OPTION...: so many have run by now, in all.
resumed() {
	local runs=$1

	shift
	expect 0 draw rfp-6 --csv --quick --out "$tmp/again" --nam-bench "$tmp/counting" "$@"
	[ "$(grep -c get-percent "$tmp/calls")" -eq "$runs" ] || fail "$runs: $(cat "$tmp/calls")"
}
resumed 6
rm "$(find "$tmp/again/points" -name '*.json' | head -n 1)"
resumed 7
resumed 13 --fresh

# ---- a key-value store by each transport, on the card of the paper that fetched first
expect 0 draw --csv rfp-4a rfp-6 rfp-8 rfp-9 rfp-10 --quick --out "$tmp/out"
says 'rfp-6 (figure 6), simulated: connectx3: shares of GET, uniform keys'
csv rfp-6 'len(r) == 6 and set(i["transport"] for i in r) == {"srq", "mailbox", "fetch"} and
	all(i["clients"] == "35" and i["profile"] == "connectx3" for i in r)'
csv rfp-9 'set(i["distribution"] for i in r) == {"zipfian"} and set(i["get_percent"] for i in r) ==
	{"5", "95"}'
csv rfp-4a 'sorted(set(i["handler_threads"] for i in r)) == ["1", "4"]'
csv rfp-10 'set(i["value_bytes"] for i in r) == {"mixed"} and
	all(2 <= n(i["round_trips_per_op"]) <= 2.02 for i in r if i["transport"] == "fetch")'
# 95 % of the requests are GETs of 64 bytes: of them the smallest fetch takes another READ.
csv rfp-8 '[(i["fetch_bytes"], i["value_bytes"], round(n(i["round_trips_per_op"]), 1))
	for i in r] == [("80", "32", 2), ("80", "64", 2.9), ("176", "32", 2), ("176", "64", 2),
	("560", "32", 2), ("560", "64", 2)]'
expect 2 draw --csv rfp-4a --cluster shm:/nowhere
says 'rfp-4a: only with --cluster sim:PROFILE'

# ---- transactions by each transport, and by messages over sockets
expect 0 draw --csv ramp-5 ramp-6 ramp-7 ramp-8 --quick --out "$tmp/out"
says 'ramp-6 (figure 6), simulated: connectx2: transaction sizes'
csv ramp-5 '[i["transport"] for i in r] == "sockets message plus star onesided".split() and
	all(i["transaction_size"] == "8" and i["read_ratio"] == "95" for i in r)'
for figure in ramp-5 ramp-6 ramp-7 ramp-8; do
	csv $figure 'all(i["memservers"] == "4" and i["clients"] == "8" and
		i["handler_threads"] == "8" and i["source"] == "simulated" and (i["profile"] ==
		("connectx2-ipoib" if "sockets" in i["transport"] else "connectx2")) for i in r)'
	csv $figure 'all(abs(n(i["against_sockets"]) * n(s["ops_per_s"]) / n(i["ops_per_s"])
		- 1) < 1e-3 for i in r for s in r if s["transport"] == "sockets" and
		[s["transaction_size"], s["read_ratio"]] ==
		[i["transaction_size"], i["read_ratio"]])'
done
csv ramp-6 'len(r) == 12 and set(i["transaction_size"] for i in r) == {"1", "4"}'
csv ramp-7 'len(r) == 12 and set(i["read_ratio"] for i in r) == {"0", "100"}'
csv ramp-8 'set((i["distribution"], i["records"], i["value_bytes"], i["transaction_size"])
	for i in r) == {("zipfian", "1000", "1000", "4")}'
# The paper's ratio to sockets: 2.78 with four records, 2.67 where all read; GET+ twice.
csv ramp-6 'all(n(i["against_sockets"]) >= 2.78 for i in r if i["transport"] == "star" and
	i["transaction_size"] == "4")'
csv ramp-7 'all(n(i["against_sockets"]) >= 2.67 for i in r if i["transport"] == "star" and
	i["read_ratio"] == "100")'
csv ramp-8 'all(n(i["against_sockets"]) >= 2.67 for i in r if i["transport"] == "star" and
	i["read_ratio"] == "100")'
for figure in ramp-5 ramp-6 ramp-7 ramp-8; do
	csv $figure 'all(n(i["against_sockets"]) >= 2 for i in r if i["transport"] == "plus")'
done
# A reader with a warm cache needs a READ per record and one round trip.
csv ramp-7 'all(i["round_trips_per_op"] == "1" and i["work_requests_per_op"] == "8" for i in r if
	i["transport"] in ("star", "onesided") and i["read_ratio"] == "100")'
# Over sockets locking asks once more, to let go.
csv ramp-7 'all(n(i["against_sockets"]) < 0.7 and 2 <= n(i["round_trips_per_op"]) < 2.1 for i in r
	if i["transport"] == "2pl-sockets" and i["read_ratio"] == "100")'
# With one handler thread and many clients processors are the limit, and onesided needs none.
expect 0 draw --csv ramp-7 --quick --cluster sim:connectx5 --clients 64 --rpc-threads 1 \
	--seconds 0.001 --out "$tmp/out"
csv ramp-7 'all(i["handler_threads"] == "1" and i["clients"] == "64" for i in r) and
	dict((i["transport"], i["profile"]) for i in r)["sockets"] == "connectx2-ipoib" and
	dict((i["transport"], i["profile"]) for i in r)["star"] == "connectx5"'
csv ramp-7 'all(n(o["ops_per_s"]) >= n(s["ops_per_s"]) for o in r if o["transport"] == "onesided"
	for s in r if s["transport"] in ("star", "plus") and
	s["read_ratio"] == o["read_ratio"] == "0")'
csv ramp-7 'all(abs(n(o["ops_per_s"]) / n(s["ops_per_s"]) - 1) < 0.02 for o in r if
	o["transport"] == "onesided" for s in r if s["transport"] == "star" and
	s["read_ratio"] == o["read_ratio"] == "100")'

# ---- real memory servers: there is no figure for sockets there
nam_servers_start 2 --memory 64M --region 32M --pages 4k || exit 1
expect 0 draw --csv ramp-6 --quick --cluster "$cluster" --clients 2 --seconds 0.02 \
	--out "$tmp/out"
csv ramp-6 '[i["transport"] for i in r] == ["message"] * 2 + ["plus"] * 2 + ["star"] * 2 +
	["onesided"] * 2 and all(i["source"] == "measured" and i["against_sockets"] ==
	i["profile"] == i["handler_threads"] == "" and i["memservers"] == "2" and
	n(i["ops_per_s"]) > 0 for i in r)'
nam_servers_stop || fail "the servers did not end well"

# ---- told to end, it ends what it has begun
# ends_all COMMAND...: so does draw with a child that has not ended.
ends_all() {
	local pid status=0 child

	"$@" 2>"$tmp/err" &
	pid=$!
	until pgrep -P $pid >"$tmp/children"; do
		kill -0 $pid || break
	done
	kill -TERM $pid
	wait $pid || status=$?
	[ "$status" -eq 143 ] || fail "'$*' told to end: $status, $(cat "$tmp/err")"
	while read -r child; do
		[ ! -e "/proc/$child" ] || fail "'$*': process $child goes on"
	done <"$tmp/children"
}
ends_all draw --csv tree-8 --seconds 1000 --out "$tmp/out" --quiet
# ---- mistakes
expect 2 draw
says 'no figure is named'
expect 2 draw --csv tree-3 --cluster ""
says "--cluster: it is empty"
expect 2 draw --csv tree-99
says "there is no figure 'tree-99'"
expect 2 draw --csv tree-8 --designs coarse,bushy
says "--designs: 'bushy' is not known"
expect 2 draw --csv tree-8 --clients 4,many
says "--clients: 'many' is not a whole number"
expect 2 draw --csv tree-11 --cluster shm:/nowhere
says 'tree-11: only with --cluster sim:PROFILE'
expect 2 draw --csv tree-8 --cluster shm:/nowhere --memservers 4
says '--memservers: only with --cluster sim:PROFILE'
echo >"$tmp/file"
expect 2 draw --csv tree-3 --out "$tmp/file"
says 'it is no folder'

finish "figures: all as they should be"
