# SPDX-License-Identifier: Apache-2.0
"""The figures, and the points of each."""

import shutil
from dataclasses import dataclass, field

from model import model_of, shares

DESIGNS = ["coarse", "fine", "hybrid"]
TRANSPORTS = ["srq", "mailbox", "fetch"]
# Lines of the figures of transactions: algorithm and transport of nam-bench ramp.
RAMP_LINES = {
    "sockets": ("fast", "message"),
    "message": ("fast", "message"),
    "plus": ("fast", "plus"),
    "star": ("fast", "star"),
    "onesided": ("fast", "onesided"),
    "2pl-sockets": ("2pl", "message"),
}
# Lines of the figures of stores: engine and transport of nam-bench kv.
STORE_LINES = {
    **{f"{engine}, {transport}": (engine, transport) for engine in ("cuckoo", "chained")
       for transport in ("srq", "fetch", "datagram", "mailbox")},
    "cuckoo, onesided": ("cuckoo", "srq"),
    "cuckoo, sockets": ("cuckoo", "srq"),
    "fetch, 1 thread": ("cuckoo", "fetch"),
    "onesided, 1 thread": ("cuckoo", "srq"),
    "Pilaf-like": ("pilaf", "read"),
}
HERD = "chained, datagram"  # the line that stands for it
# Lines of the figures beside other servers: system and transport of nam-bench-peers.
PEER_LINES = {line: tuple(line.split(", ")) for line in (
    "cuckoo, shm", "chained, shm", "cuckoo, tcp", "chained, tcp", "memcached, tcp", "redis, tcp")}
PEERS = {"memcached": "memcached", "redis": "redis-server"}  # and the program of each
# Lines of the figures of tables: scheme of nam-bench cuckoo, slots of a bucket.
TABLE_LINES = {"graph": ("graph", 4), "plain": ("plain", 4), "plain, 1 slot": ("plain", 1)}
TABLE_X_MAX = {"plain, 1 slot": 0.6}  # it is full at a half
# Lines of the figures of times in tables, by the names of nam-bench cuckoo.
TIME_LINES = {"graph": "graph", "plain": "plain", "graph, HTM": "htm"}
MIXES = {"ycsb-a": "50:50 UPDATE", "ycsb-b": "95:5 UPDATE", "ycsb-c": "100:0",
         "ycsb-d": "95:5 INSERT"}
MIX_SHARES = {"ycsb-a": (50, 50), "ycsb-b": (95, 5), "ycsb-c": (100, 0), "ycsb-d": (95, 0)}
SOCKETS_CLUSTER = "sim:connectx2-ipoib"
CLUSTERS = {"index": "sim:connect-ib", "kv": "sim:connectx3", "ramp": "sim:connectx2",
            "cuckoo": "sim:connectx3", "peers": "", "times": ""}
SOURCES = {  # by how names of figures begin
    "tree": "Ziegler et al. (SIGMOD 2019)",
    "rfp": "Su et al. (RFP, EuroSys 2017)",
    "ramp": "RAMP over RDMA",
    "rhkv": "Wu et al. (RHKV)",
    "growth": "nam",
    "failover": "nam",
}
GROWTH_CACHE_MB = 1.0  # of each client: all inner nodes
RFP_CLIENTS = 35  # of the paper's peak
PAPER_KEYS = 100_000_000
PAPER_BYTES_PER_S = 50e9
PAPER_AMPLIFICATION = 10.0
SCANS_OF_A_CLIENT = 3.0  # at least


@dataclass
class Panel:
    """One plot: a workload."""

    title: str
    workload: str = ""
    selectivity: float = 0.0  # 0: no scans
    skewed: bool = False  # 80/12/5/3
    zipfian: bool = False
    mixed: bool = False
    fetch_bytes: int = 0
    records: int = 0
    value_bytes: int = 0
    load_factor: float = 0.0


@dataclass
class Figure:
    """An experiment of a paper.  kind: the subcommand of nam-bench that runs its points."""

    name: str
    paper: str
    title: str
    kind: str  # peers: nam-bench-peers; times: nam-bench cuckoo --get-percent
    x: str
    panels: list
    y: str = "rate"
    clients: int = 0  # if they are not x
    lines: list = field(default_factory=lambda: DESIGNS)
    transaction_size: int = 0  # if it is not x
    depth: int = 0  # peers: requests under way; 0: at which each system is best
    xs: tuple = ()  # of stores, if they are not RFP_CLIENTS_X
    model_only: bool = False
    printed: list = field(default_factory=list)  # (columns of the CSV, column, the paper's value)
    alone: list = field(default_factory=list)  # the same without ours: (point, column, value, why)

    @property
    def family(self):
        return self.name.partition("-")[0]

    @property
    def source(self):
        return SOURCES[self.family]


@dataclass
class Point:
    figure: Figure
    panel: Panel
    line: str
    x: float
    partitioning: str = "none"
    keys: int = 0
    memservers: int = 0
    clients: int = 0
    rpc_threads: int = 0
    cache_mb: float = 0.0
    colocated: bool = False
    slice: int = 0  # growth: of the run, from 1
    seconds: float = 0.0
    model: tuple = None  # bytes/s, bytes per operation, operations/s
    result: dict = None  # the JSON of nam-bench

    @property
    def over_sockets(self):
        return "sockets" in self.line


def tree(letter, selectivity=0.0, skewed=False):
    data = "skewed" if skewed else "uniform"
    title = {
        "a": f"A: point queries, {data} data",
        "b": f"B: range queries of {selectivity * 100:g} %, {data} data",
        "c": "C: 95 % point queries, 5 % inserts",
        "d": "D: 50 % point queries, 50 % inserts",
    }[letter]
    return Panel(title, "tree-" + letter, selectivity, skewed)


def a_and_b(skewed):
    return [tree("a", 0, skewed)] + [tree("b", s, skewed) for s in (0.001, 0.01, 0.1)]


def trees(name, title, x, panels, **more):
    paper = "appendix A.4" if name == "cache" else f"figure {name}"
    return Figure(f"tree-{name}", paper, title, "index", x, panels, **more)


def rfp(name, title, x, panels, lines=None, **more):
    number = name.replace("a", " (a)") if name == "4a" else name.replace("4", "4 (b)")
    more.setdefault("clients", RFP_CLIENTS)
    return Figure(f"rfp-{name}", f"figure {number}", title, "kv", x, panels,
                  lines=lines or TRANSPORTS, **more)


def ramp(name, title, x, panel, size=0, printed=()):
    lines = [line for line in RAMP_LINES if x != "transport" or line != "2pl-sockets"]
    return Figure(f"ramp-{name}", f"figure {name}", title, "ramp", x, [panel], clients=8,
                  lines=lines, transaction_size=size, printed=list(printed))


def rhkv(name, paper, title, x, panels, lines, **more):
    more.setdefault("kind", "kv")
    return Figure(f"rhkv-{name}", paper, title, x=x, panels=panels, lines=lines, **more)


def zipfian_or_not(text):
    return [Panel(f"{'zipfian' if zipfian else 'uniform'} keys, {text}", zipfian=zipfian)
            for zipfian in (False, True)]


def printed_table_4(name, tcp, rdma):
    """Mops/s and µs of the first three mixes; which rows are of TCP/IP, and of RDMA."""
    printed = {tcp: ((15.23, 43.2), (12.34, 41.3), (14.41, 39.5)),
               rdma: ((17.25, 36.2), (14.66, 31.4), (15.32, 26.5))}
    return [({name: transport, "workload": mix}, column, value)
            for transport, values in printed.items() for mix, (rate, latency) in zip(MIXES, values)
            for column, value in (("ops_per_s", rate * 1e6), ("mean_ns", latency * 1e3))]


def printed_herd():
    """Rate and latency of HERD on average, and how many times as much RHKV has: 1.09 is "up to"."""
    lines = {("chained", "datagram"): (("ops_per_s", 5.8e6), ("mean_ns", 3600)),
             ("cuckoo", "srq"): (("against_herd", 1.09), ("against_herd", 1.07),
                                 ("latency_against_herd", 0.92))}
    return [({"engine": engine, "transport": transport, "get": "request",
              "distribution": distribution, "workload": mix}, column, value)
            for (engine, transport), values in lines.items()
            for distribution in ("uniform", "zipfian") for mix in MIXES for column, value in values]


def printed_rfp(**columns):
    """The peaks that figures 4 to 10 print."""
    return [({"transport": "mailbox", **columns}, "ops_per_s", 2.1e6),
            ({"transport": "fetch", **columns}, "ops_per_s", 5.5e6)]


FIGURES = [
    trees("3", "highest throughput by the model", "memservers",
          [tree("b", 0.001), tree("b", 0.001, True)], lines=["coarse", "fine"], model_only=True),
    trees("7", "throughput, skewed data", "clients", a_and_b(True)),
    trees("8", "throughput, uniform data", "clients", a_and_b(False)),
    trees("9", "network utilisation, skewed data", "clients", a_and_b(True), y="bytes"),
    trees("10", "data sizes, uniform data", "keys", [tree("a"), tree("b", 0.1)], clients=240),
    trees("11", "numbers of memory servers", "memservers",
          [tree("a", 0, True), tree("b", 0.01, True), tree("a"), tree("b", 0.01)], clients=120),
    trees("12", "workloads with inserts, uniform data", "clients", [tree("c"), tree("d")]),
    trees("13", "latency, skewed data", "clients", a_and_b(True), y="latency"),
    trees("14", "latency, uniform data", "clients", a_and_b(False), y="latency"),
    trees("15", "co-location, uniform data", "colocated", a_and_b(False), clients=80),
    trees("cache", "caches of compute nodes", "cache",
          [tree("a"), tree("b", 0.001), tree("c"), tree("d")], clients=240,
          lines=["fine", "hybrid"]),
    rfp("4a", "handler threads", "rpc_threads", [Panel("95 % GET, values of 32 bytes")],
        printed=[({"transport": "mailbox", "handler_threads": "6"}, "ops_per_s", 2.1e6),
                 ({"transport": "fetch", "handler_threads": "4"}, "ops_per_s", 5.5e6)]),
    rfp("4", "clients", "clients", [Panel("95 % GET, values of 32 bytes")], clients=0,
        printed=printed_rfp(clients="28") +
        [({"transport": "fetch", "clients": "112"}, "ops_per_s", 3.1e6)]),
    rfp("5", "latency", "clients", [Panel("95 % GET, values of 32 bytes")], clients=0,
        y="latency",
        printed=[({"transport": "mailbox", "clients": "35"}, "p50_ns", 12.1e3),
                 ({"transport": "fetch", "clients": "35"}, "p50_ns", 5.8e3)]),
    rfp("6", "shares of GET, uniform keys", "get_percent", [Panel("values of 32 bytes")],
        printed=printed_rfp(get_percent="95")),
    rfp("7", "lengths of values", "value_bytes",
        [Panel("95 % GET; a fetch holds 32 bytes", fetch_bytes=80)],
        printed=printed_rfp(value_bytes="32")[1:] +
        [({"transport": "fetch", "value_bytes": "1024"}, "ops_per_s", 3.1e6)]),
    rfp("8", "sizes of a fetch", "value_bytes",
        [Panel(f"95 % GET; a fetch holds {n} bytes", fetch_bytes=n + 48) for n in (32, 128, 512)],
        lines=["fetch"],
        printed=[({"fetch_bytes": str(n + 48), "value_bytes": str(n)}, "ops_per_s", 5.5e6)
                 for n in (32, 128, 512)]),
    rfp("9", "shares of GET, skewed keys", "get_percent",
        [Panel("values of 32 bytes, zipfian 0.99", zipfian=True)],
        printed=printed_rfp(get_percent="95")),
    rfp("10", "mixed lengths, in the place of the paper's texts", "get_percent",
        [Panel("values of 1 to 899 bytes, 43 on average; a fetch holds 512", mixed=True,
               fetch_bytes=560)],
        printed=[({"transport": "mailbox", "get_percent": "95"}, "ops_per_s", 2.1e6),
                 ({"transport": "fetch", "get_percent": "95"}, "ops_per_s", 5.4e6)]),
    ramp("5", "RPC transports of transactions", "transport",
         Panel("8 records a transaction, 95 % of these read"), 8),
    ramp("6", "transaction sizes", "transaction_size", Panel("95 % of the transactions read"),
         printed=[({"transport": "star", "transaction_size": "4"}, "against_sockets", 2.78)]),
    ramp("7", "shares of transactions that read", "read_ratio", Panel("8 records a transaction"),
         8, [({"transport": "star", "read_ratio": "100"}, "against_sockets", 2.67),
             ({"transport": "plus", "read_ratio": "100"}, "against_sockets", 2.06)]),
    ramp("8", "shares of transactions that read, YCSB's keys and values", "read_ratio",
         Panel("1,000 records of 1,000 bytes, zipfian; 4 a transaction", zipfian=True,
               records=1000, value_bytes=1000),
         4, [({"transport": "star", "read_ratio": "100"}, "against_sockets", 2.67),
             ({"transport": "plus", "read_ratio": "100"}, "against_sockets", 2.07)]),
    rhkv("7", "figure 7", "stores beside memcached and Redis", "mix",
         zipfian_or_not("values of 32 bytes"), list(PEER_LINES), kind="peers"),
    rhkv("8-peers", "figure 8", "latency of one request, beside memcached and Redis", "mix",
         [Panel("latest keys, values of 32 bytes", "ycsb-d")], list(PEER_LINES), kind="peers",
         y="latency", depth=1,
         alone=[("RHKV, the best mix", "latency against MongoDB", 0.4, "MongoDB is not run")]),
    rhkv("t4-peers", "table 4", "memory of this host and TCP/IP, 1 thread", "mix",
         zipfian_or_not("many requests at a time")[1:], ["cuckoo, shm", "cuckoo, tcp"],
         kind="peers", printed=printed_table_4("transport", "tcp", "shm")),
    rhkv("8", "figure 8", "latency, 95 % GET and 5 % INSERT", "clients",
         [Panel("latest keys, values of 32 bytes", "ycsb-d")],
         ["cuckoo, srq", "chained, srq", "cuckoo, sockets"], y="latency"),
    rhkv("9", "figure 9", "stores over RDMA, GET:UPDATE and GET:INSERT", "mix",
         zipfian_or_not("values of 32 bytes"),
         [f"{engine}, {transport}" for engine in ("cuckoo", "chained")
          for transport in ("srq", "fetch", "datagram")] + ["cuckoo, onesided"],
         clients=RFP_CLIENTS,
         printed=printed_herd()),
    rhkv("t4", "table 4", "RDMA and TCP/IP, 1 thread", "mix", zipfian_or_not("one request")[1:],
         ["cuckoo, srq", "cuckoo, sockets"], clients=1,
         printed=printed_table_4("profile", "connectx2-ipoib", "connectx3")),
    rhkv("onesided", "section 6.4", "one-sided GETs and all RPC transports", "clients",
         [Panel("100 % GET, zipfian keys, values of 32 bytes", "ycsb-c", zipfian=True)],
         [f"cuckoo, {way}" for way in ("srq", "mailbox", "datagram", "fetch", "onesided")]
         + ["fetch, 1 thread", "onesided, 1 thread", "Pilaf-like"],
         xs=([1, 20, 40, 80, 120, 180, 240], [4, 35])),
    rhkv("kicks", "section 6.3", "kick-outs of an insert", "load_factor",
         [Panel("tables of 4,088 slots")], list(TABLE_LINES), kind="cuckoo", y="kicks"),
    rhkv("loops", "section 6.3", "inserts that loop: predicted (graph), or given up", "load_factor",
         [Panel("tables of 4,088 slots")], list(TABLE_LINES), kind="cuckoo", y="loops"),
    rhkv("inserts", "section 6.3", "GETs and INSERTs in tables of this process", "insert_percent",
         [Panel(f"tables of 4,088 slots, {load} occupied", load_factor=load)
          for load in (0.5, 0.8, 0.9)], ["graph", "plain"], kind="times", y="ns",
         printed=[({"scheme": "plain", "insert_percent": percent, "load_factor": "0.9"},
                   "against_5_percent", value)
                  for percent, value in (("20", 1.151), ("15", 1.101), ("10", 1.049), ("5", 1))]),
    rhkv("htm", "section 6.3", "hardware transactions and a lock, one thread", "mix",
         [Panel("tables of 4,088 slots, 0.9 occupied", load_factor=0.9)], ["graph", "graph, HTM"],
         kind="times", y="ns",
         printed=[({"scheme": "graph, HTM", "workload": mix}, "against_lock", value)
                  for mix, value in zip(MIXES, (0.899, 0.913, 0.918, 0.914))]),
    Figure("growth", "ours", "rate over time while memory servers are added", "index", "time",
           [Panel("half inserts, half scans of 100 entries")], clients=240,
           lines=["fine", "hybrid"]),
    Figure("failover", "ours", "rate over time as a memory server dies, with 2 replicas", "index",
           "time", [Panel("half lookups, half updates")], clients=240, lines=["fine"]),
]

# x: (all values, with --quick)
VALUES = {
    "rpc_threads": ([1, 2, 4, 6, 8, 10, 16], [1, 4]),
    "get_percent": ([5, 25, 50, 75, 95], [5, 95]),
    "value_bytes": ([32, 64, 128, 256, 512, 1024], [32, 64]),
    "transport": ([0], [0]),
    "transaction_size": ([1, 2, 4, 8, 16, 32], [1, 4]),
    "read_ratio": ([0, 25, 50, 75, 95, 100], [0, 100]),
    "mix": ([0, 1, 2, 3], [0, 3]),
    "insert_percent": ([5, 10, 15, 20], [5, 20]),
    "load_factor": ([0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96,
                     0.97], [0.5, 0.9]),
    "memservers": ([1, 2, 4, 8], [1, 2]),
    "colocated": ([0, 1], [0, 1]),
    "time": (list(range(1, 41)), list(range(1, 13))),
    "clients": ([20, 40, 80, 120, 160, 200, 240], [4, 8]),
}
RFP_CLIENTS_X = ([1, 7, 14, 21, 28, 35, 70, 112], [4, 35])
CACHES = [0, 0.03, 0.06, 0.12, 0.25, 0.5, 1]  # MiB per million keys; inner nodes take 1/3


def missing():
    """Other systems that are not installed."""
    return [name for name, program in PEERS.items() if not shutil.which(program)]


def x_values(figure, o):
    if figure.model_only:
        return [2, 4, 8, 16, 32, 64]
    if figure.x == "clients":
        if o.clients:
            return o.clients
        if not o.simulated:
            return [1, 2, 4]
        if figure.kind == "kv":
            return (figure.xs or RFP_CLIENTS_X)[o.quick]
    if figure.kind == "peers" and figure.panels[0].workload:
        return [list(MIXES).index(figure.panels[0].workload)]
    if figure.x == "memservers" and o.memservers:
        return o.memservers
    if figure.x == "keys":
        return [o.keys // 10, o.keys, o.keys * 10][:2 if o.quick else 3]
    if figure.x == "cache":
        caches = [cache * o.keys / 1e6 for cache in CACHES]
        return [caches[0], caches[-1]] if o.quick else caches
    return VALUES[figure.x][o.quick]


def set_model(o, point):
    """The paper's model of the point; scans take long enough for some of each client."""
    figure, panel = point.figure, point.panel
    made = None
    if o.simulated or figure.model_only:
        made = model_of(
            fine=point.line == "fine",
            hashed=point.partitioning == "hash",
            skewed=panel.skewed and point.memservers > 1,
            memservers=point.memservers,
            bytes_per_s=PAPER_BYTES_PER_S if figure.model_only else o.network.port_bytes_per_s,
            keys=PAPER_KEYS if figure.model_only else point.keys,
            selectivity=panel.selectivity,
            amplification=PAPER_AMPLIFICATION if figure.model_only else 1,
        )
        if panel.selectivity > 0:
            point.seconds = max(point.seconds, SCANS_OF_A_CLIENT * point.clients / made[2])
    known = point.line != "hybrid" and not point.colocated and not point.cache_mb
    if known and panel.workload in ("tree-a", "tree-b"):
        point.model = made


def new_point(figure, o, panel, line, x, partitioning="none"):
    if figure.kind in ("peers", "times"):
        return Point(figure, panel, line, x, partitioning, memservers=1, clients=1,
                     seconds=o.seconds)
    others = o.memservers[-1] if o.memservers else 0
    clients = figure.clients
    if figure.kind == "index":
        clients = 8 if o.quick else clients if o.simulated else 2
        others = others or (2 if o.quick else 4)
    else:
        clients = clients if o.simulated else 4
        others = others or (1 if figure.kind == "kv" else 4)
    point = Point(figure, panel, line, x, partitioning, seconds=o.seconds)
    point.memservers = others if o.simulated else o.real_memservers
    point.clients = o.clients[-1] if o.clients else clients
    if figure.kind == "index":
        point.keys = PAPER_KEYS if figure.model_only else o.keys
    elif figure.kind == "ramp":
        point.keys = panel.records or (1000 if o.quick else 0)
    if "1 thread" in line:
        point.rpc_threads = 1
    if figure.x in ("clients", "keys", "memservers", "rpc_threads"):
        setattr(point, figure.x, int(x))
    elif figure.x == "cache":
        point.cache_mb = x
    elif figure.x == "colocated":
        point.colocated = bool(x)
    elif figure.x == "time":
        point.memservers = o.memservers[-1] if o.memservers else 4 if o.quick else 8
        point.cache_mb, point.slice = GROWTH_CACHE_MB, x
        point.x = x * o.seconds * 1e3 / len(VALUES["time"][o.quick])
    if figure.kind == "index":
        set_model(o, point)
    return point


def plan(figure, o):
    points = []
    for panel in figure.panels:
        for line in figure.lines:
            if figure.kind == "index" and line not in o.designs and not figure.model_only:
                continue
            if ("sockets" in line or "1 thread" in line) and not o.simulated:
                continue  # there is no such figure for real memory servers
            if figure.kind == "peers" and PEER_LINES[line][0] in missing():
                continue
            ways = ["none"]
            if figure.kind == "index" and line != "fine":
                ways = ["range", "hash"] if figure.model_only and line == "coarse" else ["range"]
            for way in ways:
                points += [new_point(figure, o, panel, line, x, way) for x in x_values(figure, o)
                           if x <= TABLE_X_MAX.get(line, x)]
    return points


def table_command(o, point):
    scheme, bucket_slots = TABLE_LINES[point.line]
    return ["cuckoo", "--scheme", scheme, "--bucket-slots", bucket_slots, "--load-factor", point.x,
            "--tables", 10 if o.quick else 100]


def time_shares(point):
    """Per cent of GET, UPDATE and INSERT."""
    if point.figure.x == "insert_percent":
        return 100 - point.x, 0, point.x
    get, update = MIX_SHARES[workload(point)]
    return get, update, 100 - get - update


def times_command(o, point):
    """One run has all lines."""
    get, update, _ = time_shares(point)
    return ["cuckoo", "--get-percent", get, "--update-percent", update, "--load-factor",
            point.panel.load_factor, "--tables", 10 if o.quick else 500]


def peers_command(o, point):
    """One run has all lines."""
    figure, without = point.figure, missing()
    if not any(PEER_LINES[line][0] in PEERS for line in figure.lines):
        without = list(PEERS)
    args = ["peers", "--workload", workload(point), "--fabric", "shm,tcp"]
    if not point.panel.workload:
        args += ["--distribution", "zipfian" if point.panel.zipfian else "uniform"]
    if without:
        args += ["--without", ",".join(without)]
    if figure.depth:
        args += ["--depth", figure.depth]
    return args + ["--keys", 2000 if o.quick else 100_000, "--seconds", f"{point.seconds:.4g}"]


def of_line(point, result):
    """The line's part of a result; of a run over time the slice's."""
    if point.slice and result:
        used = [server["carved_bytes"] - server["free_bytes"]
                for server in result["memory"]["servers"]]
        return {**result["slices"][point.slice - 1], "errors": result["errors"],
                "max_ns": result["latency_ns"]["max"], "used_bytes": used}
    if point.figure.kind != "peers" or not result:
        return result
    system, transport = PEER_LINES[point.line]
    for one in result["systems"]:
        if one["system"] == system and transport in (one.get("fabric"), one.get("transport")):
            return one
    return None


def store_args(point):
    engine, transport = STORE_LINES[point.line]
    distribution = ["--distribution", "zipfian" if point.panel.zipfian else "uniform"]
    if engine == "pilaf":
        return distribution
    args = ["--engine", engine, "--transport", transport, "--workload", workload(point)]
    if "onesided" in point.line:
        args += ["--get", "onesided"]
    return args if point.panel.workload else args + distribution


def cluster_command(o, point):
    figure, panel = point.figure, point.panel
    kind = "pilaf" if "pilaf" in STORE_LINES.get(point.line, ()) else figure.kind
    args = [kind, "--cluster", SOCKETS_CLUSTER if point.over_sockets else o.cluster]
    if o.simulated:
        first = 1 if figure.name == "growth" else point.memservers
        args += ["--memservers", first, "--clients", point.clients]
        if point.rpc_threads or o.rpc_threads:
            args += ["--rpc-threads", point.rpc_threads or o.rpc_threads]
        if point.colocated:
            args += ["--colocate"]
    else:
        args += ["--threads", point.clients]
    distribution = ["--distribution", "zipfian" if panel.zipfian else "uniform"]
    if figure.kind == "index":
        args += ["--design", point.line]
        if point.partitioning != "none":
            args += ["--partition", point.partitioning]
            if panel.skewed and point.memservers > 1:
                args += ["--shares", shares(point.memservers)]
        args += ["--keys", point.keys, "--cache-mb", f"{point.cache_mb:.6g}"]
        if point.slice:
            args += ["--slices", len(VALUES["time"][o.quick])]
            args += ["--failover", "--mix", "lookup=50,update=50"] if figure.name == "failover" \
                else ["--grow", point.memservers, "--mix", "insert=50,scan=50",
                      "--scan-length", 100]
        else:
            args += ["--workload", panel.workload]
        if panel.selectivity:
            args += ["--selectivity", f"{panel.selectivity:g}"]
    elif figure.family == "rhkv":
        args += store_args(point)
    elif figure.kind == "kv":
        args += ["--transport", point.line, "--get-percent", setting(point, "get_percent")]
        args += [*distribution, "--value-bytes", setting(point, "value_bytes")]
        if panel.fetch_bytes:
            args += ["--fetch-bytes", panel.fetch_bytes]
    else:
        algorithm, transport = RAMP_LINES[point.line]
        args += ["--algorithm", algorithm, "--transport", transport]
        args += ["--transaction-size", setting(point, "transaction_size")]
        args += ["--read-ratio", setting(point, "read_ratio"), *distribution]
        if point.keys:
            args += ["--keys", point.keys]
        if panel.value_bytes:
            args += ["--value-bytes", panel.value_bytes]
    return args + ["--fibers", 1, "--seconds", f"{point.seconds:.4g}"]


COMMANDS = {"peers": peers_command, "cuckoo": table_command, "times": times_command}


def command(o, point):
    """The arguments of nam-bench that run the point."""
    args = COMMANDS.get(point.figure.kind, cluster_command)(o, point)
    return [str(arg) for arg in [*args, "--seed", o.seed, "--json", "-", "--quiet"]]


def workload(point):
    return point.panel.workload or list(MIXES)[int(point.x)]


def setting(point, name):
    """An option that is x, or stays what it is."""
    if point.figure.x == name:
        return point.x
    return {"get_percent": 95, "read_ratio": 95,
            "value_bytes": "mixed" if point.panel.mixed else 32,
            "transaction_size": point.figure.transaction_size}[name]
