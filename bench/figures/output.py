# SPDX-License-Identifier: Apache-2.0
"""CSV files, tables, plots, and one page with all of them."""

import csv
import html
import os

from plan import (FIGURES, HERD, MIXES, PAPER_KEYS, PEER_LINES, STORE_LINES, TABLE_LINES,
                  TIME_LINES, setting, time_shares, workload)
from model import shares

COLOURS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#000000", "#999999", "#e69f00", "#56b4e9"]
MARKERS = ["s", "o", "D", "^", "v", "x", "P", "*"]
UNITS = {"rate": ("operations/s", 1), "bytes": ("bytes/s", 1), "latency": ("latency, µs", 1e-3),
         "kicks": ("kick-outs of an insert", 1), "loops": ("% of inserts", 100),
         "ns": ("ns of an operation", 1)}
COLUMN = {"rate": "ops_per_s", "bytes": "bytes_per_s", "latency": "p50_ns",
          "kicks": "kicks_per_op", "loops": "loops_share", "ns": "ns_per_op"}
X_LABELS = {
    "clients": "clients", "keys": "keys", "memservers": "memory servers",
    "cache": "MiB of cache of each client", "colocated": "co-located",
    "rpc_threads": "handler threads", "get_percent": "% GET", "value_bytes": "bytes of a value",
    "transport": "", "transaction_size": "records of a transaction",
    "read_ratio": "% of transactions that read", "mix": "", "load_factor": "load factor",
    "insert_percent": "% INSERT; the rest GET",
    "time": "ms of simulated time; lines: so many memory servers, or so many with a backup",
}
X_NAMES = {"colocated": ["apart", "co-located"], "mix": list(MIXES.values())}
PAPERS = {"rhkv-9": "HERD"}  # printed values that are not of the line that they stand at
LOG_X = {"keys": 10, "memservers": 2, "value_bytes": 2, "transaction_size": 2}


def short(value, form=".6g"):
    return "" if value is None else format(value, form)


def row_of(o, points, point):
    """The point as columns of the CSV file."""
    figure, panel = point.figure, point.panel
    result = point.result or {}
    if figure.kind == "cuckoo":
        return table_row_of(o, point, result)
    if figure.kind == "peers":
        return peer_row_of(o, point, result)
    if figure.kind == "times":
        return times_row_of(o, points, point, result)
    if point.slice:
        return slice_row_of(o, point, result)
    per_op = result.get("per_op", {})
    network = o.sockets if point.over_sockets else o.network
    source = "model" if figure.model_only else "simulated" if o.simulated else "measured"
    made = {
        "memservers": point.memservers,
        "handler_threads": "" if source != "simulated" else
                           point.rpc_threads or o.rpc_threads or network.rpc_threads,
        "clients": "" if figure.model_only else point.clients,
    }
    ops = result.get("ops_per_s")
    costs = {name + "_per_op": short(per_op.get(name))
             for name in ("round_trips", "work_requests", "bytes_in", "bytes_out")}
    rates = {"ops_per_s": short(ops)}
    latency = result.get("latency_ns", {})
    rates |= {name + "_ns": short(latency.get(name)) for name in ("p50", "p99")}
    last = {"source": source, "profile": network.name if source == "simulated" else "",
            "seed": o.seed}
    row = {"figure": figure.name}
    if figure.kind == "index":
        skewed = panel.skewed and point.memservers > 1
        row |= {"design": point.line, "partitioning": point.partitioning,
                "workload": panel.workload, "selectivity": short(panel.selectivity or None, "g"),
                "skew": shares(point.memservers).replace(",", "/") if skewed else "uniform",
                "keys": PAPER_KEYS if figure.model_only else point.keys, **made,
                "cache_mb": "" if figure.model_only else short(point.cache_mb),
                "colocated": "" if figure.model_only else "yes" if point.colocated else "no",
                "height": short(result.get("memory", {}).get("height"), ".0f"), **rates}
        costs.pop("work_requests_per_op")
        total = (per_op.get("bytes_in", 0) + per_op.get("bytes_out", 0)) * ops if ops else None
        row |= {**costs, "bytes_per_s": short(total), **cache_columns(result)}
        for name, value in zip(("bytes_per_s", "bytes_per_op", "ops_per_s"),
                               point.model or (None,) * 3):
            row["model_" + name] = short(value)
    elif figure.family == "rhkv":
        costs.pop("work_requests_per_op")
        engine, transport = STORE_LINES[point.line]
        row |= {"engine": engine, "transport": transport, "get": result.get("get", ""),
                "workload": workload(point),
                **{name: short(result.get(name)) for name in ("get_percent", "insert_percent")},
                "distribution": result.get("distribution", ""), "value_bytes": 32, **made,
                **rates, "mean_ns": short(latency.get("mean")), **costs,
                "against_herd": short(against(points, point, HERD, "ops_per_s"), ".4g"),
                "latency_against_herd": short(against(points, point, HERD, "mean_ns"), ".4g"),
                **{name: short(result.get(name))
                   for name in ("load_factor", "load_factor_end", "refused")}}
    elif figure.kind == "kv":
        costs.pop("work_requests_per_op")
        row |= {"transport": point.line, "get_percent": setting(point, "get_percent"),
                "distribution": "zipfian" if panel.zipfian else "uniform",
                "value_bytes": setting(point, "value_bytes"),
                "fetch_bytes": panel.fetch_bytes or "", **made, **rates, **costs}
    else:
        row |= {"transport": point.line, "transaction_size": setting(point, "transaction_size"),
                "read_ratio": setting(point, "read_ratio"),
                "distribution": "zipfian" if panel.zipfian else "uniform",
                "value_bytes": short(result.get("value_bytes"), ".0f"),
                "records": short(result.get("keys"), ".0f"), **made, **rates, **costs,
                "against_sockets": short(against(points, point, "sockets", "ops_per_s"), ".4g")}
    return {name: str(value) for name, value in {**row, **last}.items()}


def peer_row_of(o, point, result):
    system, transport = PEER_LINES[point.line]
    panel, latency = point.panel, result.get("latency_ns", {})
    row = {"figure": point.figure.name, "system": system, "transport": transport,
           "version": result.get("version", ""), "workload": workload(point),
           "distribution": "latest" if panel.workload else
                           "zipfian" if panel.zipfian else "uniform",
           "value_bytes": 32, "depth": short(result.get("depth")),
           "ops_per_s": short(result.get("ops_per_s")),
           **{name + "_ns": short(latency.get(name)) for name in ("p50", "p99", "mean")},
           "source": "measured", "profile": "", "seed": o.seed}
    return {name: str(value) for name, value in row.items()}


def slice_row_of(o, point, result):
    """A slice of a run; errors, max_ns and used_bytes are of the whole run."""
    row = {"figure": point.figure.name, "design": point.line, "clients": point.clients,
           "keys": point.keys, "until_ms": short(point.x),
           **{name: short(result.get(name), ".9g")
              for name in ("memservers", "backups", "ops", "ops_per_s", "errors", "max_ns")},
           "used_bytes": "/".join(f"{used:.0f}" for used in result.get("used_bytes", [])),
           "source": "simulated", "profile": o.network.name, "seed": o.seed}
    return {name: str(value) for name, value in row.items()}


def table_row_of(o, point, result):
    scheme, bucket_slots = TABLE_LINES[point.line]
    counts = {name: short(result.get(name))
              for name in ("load_factor_end", "kicks_per_op", "loops_share", "stashed", "ops")}
    row = {"figure": point.figure.name, "scheme": scheme, "bucket_slots": bucket_slots,
           "load_factor": point.x, **counts, "source": "counted", "profile": "", "seed": o.seed}
    return {name: str(value) for name, value in row.items()}


def times_row_of(o, points, point, result):
    """against_5_percent: the ratio to graph, divided by that with 5 % INSERT."""
    name = TIME_LINES[point.line]
    least = next((p.result for p in points if p.panel is point.panel and p.x == 5), None) or {}
    ratio = result.get(name + "_ratio")
    against_least = None
    if point.figure.x == "insert_percent" and ratio and least:
        against_least = ratio / least["plain_ratio"]
    row = {"figure": point.figure.name, "scheme": point.line,
           "load_factor": point.panel.load_factor,
           "workload": workload(point) if point.figure.x == "mix" else "",
           **{f"{kind}_percent": short(share)
              for kind, share in zip(("get", "update", "insert"), time_shares(point))},
           "ns_per_op": short(y_of(point.figure, point), ".4g"),
           "against_graph": short(ratio if name == "plain" else None, ".4g"),
           "against_5_percent": short(against_least, ".4g"),
           "against_lock": short(ratio if name == "htm" else None, ".4g"),
           "source": "measured", "profile": "", "seed": o.seed}
    return {name: str(value) for name, value in row.items()}


def cache_columns(result):
    cache = result.get("cache") or {}
    wanted = sum(cache.get(name, 0) for name in ("hits", "misses", "stale"))
    return {f"cache_{name}_rate": short(cache.get(key, 0) / wanted if wanted else None)
            for name, key in (("hit", "hits"), ("stale", "stale"))}


def against(points, point, line, column):
    """How many times as much as another line has at that place."""
    for other in points:
        if (other.line == line and other.panel is point.panel and other.x == point.x
                and other.result and point.result):
            return y_of(point.figure, point, column) / y_of(point.figure, other, column)
    return None


def write_csv(path, rows):
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    os.replace(path + ".new", path)


def lines_of(points, panel):
    """(name, index of the colour, points) of each line of a panel."""
    lines = {}
    for point in points:
        if point.panel is panel:
            name = point.line + (" by hash" if point.partitioning == "hash" else "")
            lines.setdefault(name, []).append(point)
    return [(name, mine[0].figure.lines.index(mine[0].line), mine)
            for name, mine in lines.items()]


def y_of(figure, point, column=None):
    if figure.model_only:
        return point.model[2]
    if not point.result:
        return None
    if figure.kind == "cuckoo":
        return point.result[COLUMN[figure.y]]
    if figure.kind == "times":
        return point.result.get(TIME_LINES[point.line] + "_ns")
    if (column or COLUMN[figure.y]) == "ops_per_s":
        return point.result["ops_per_s"]
    if figure.y == "bytes":
        per_op = point.result["per_op"]
        return (per_op["bytes_in"] + per_op["bytes_out"]) * point.result["ops_per_s"]
    return point.result["latency_ns"][(column or "p50_ns").removesuffix("_ns")]


# ---- tables


def scaled(value, unit=""):
    for limit, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def cell(figure, points, point):
    if point is None or y_of(figure, point) is None:
        return "-"
    y = y_of(figure, point)
    if figure.kind == "cuckoo":
        return f"{y * UNITS[figure.y][1]:.3g}" + (" %" if figure.y == "loops" else "")
    if figure.y == "ns":
        return f"{y:.3g} ns"
    if figure.y == "latency":
        return f"{y * 1e-3:.3g} {y_of(figure, point, 'p99_ns') * 1e-3:.3g} µs"
    times = against(points, point, "sockets", "ops_per_s") if figure.kind == "ramp" else None
    unit = "B/s" if figure.y == "bytes" else "/s"
    return scaled(y, unit) + (f" {times:.2f} x" if times else "")


def heading(figure, o):
    what = f"simulated: {o.network.name}" if o.simulated else "measured"
    if figure.kind == "cuckoo":
        what = "counted"
    if figure.model_only:
        return f"{figure.name} ({figure.paper}): {figure.title}"
    return (f"{figure.name} ({figure.paper}), {what}: {figure.title}"
            + (", p50 and p99" if figure.y == "latency" else ""))


def x_text(figure, x):
    if figure.x == "transport":
        return ""
    if figure.x in X_NAMES:
        return X_NAMES[figure.x][int(x)]
    return f"{x:.6g}"


def print_tables(figure, o, points):
    print(f"\n{heading(figure, o)}")
    for panel in figure.panels:
        lines = lines_of(points, panel)
        print(f"\n  {panel.title}\n  {X_LABELS[figure.x]:28}"
              + "".join(f"{name:>20}" for name, _, _ in lines))
        for x in sorted({point.x for _, _, mine in lines for point in mine}):
            cells = [next((p for p in mine if p.x == x), None) for _, _, mine in lines]
            shown = x_text(figure, x)
            print(f"  {shown:28}" + "".join(f"{cell(figure, points, p):>20}" for p in cells))


# ---- plots


def subtitle(figure, o, points):
    if figure.model_only:
        return "the model of its section 2.3, z = 10"
    if figure.kind == "cuckoo":
        return "counted, no cluster; plain gives up after 500 kick-outs"
    first = points[0]
    if figure.kind == "times":
        return "measured on this host in one thread; all lines take turns"
    if figure.kind == "peers":
        return "measured on this host, 100,000 keys; one memory server, one thread of each client"
    parts = [f"simulated, profile {o.network.name}" if o.simulated else "measured"]
    if o.sockets and any(point.over_sockets for point in points):
        parts[0] += f" (sockets: {o.sockets.name})"
    if figure.kind == "index" and figure.x != "keys":
        parts.append(f"{o.keys:,} keys")
    if figure.x != "memservers":
        grow = "1 to " if figure.name == "growth" else ""
        parts.append(f"{grow}{first.memservers} memory servers")
    if figure.x != "clients":
        parts.append(f"{first.clients} clients")
    return ", ".join(parts)


def draw(figure, o, points, rows, stem):
    """stem.svg and stem.png."""
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel

    columns = 2 if len(figure.panels) > 1 else 1
    count = -(-len(figure.panels) // columns)
    page, axes = pyplot.subplots(count, columns, figsize=(12.8, 4.3 * count + 0.6), squeeze=False)
    page.suptitle(f"{figure.source}, {figure.paper}: {figure.title}\n"
                  + subtitle(figure, o, points))
    for panel, axis in zip(figure.panels, axes.flat):
        draw_panel(axis, figure, points, rows, panel)
    for axis in axes.flat[len(figure.panels):]:
        axis.set_visible(False)
    page.tight_layout()
    for form in ("svg", "png"):
        page.savefig(f"{stem}.{form}", dpi=100)
    pyplot.close(page)


def draw_panel(axis, figure, points, rows, panel):
    from matplotlib.ticker import EngFormatter  # pylint: disable=import-outside-toplevel

    label, scale = UNITS[figure.y]
    axis.set_title(panel.title)
    axis.set_xlabel(X_LABELS[figure.x])
    axis.set_ylabel("transactions/s" if figure.kind == "ramp" else label)
    for name, colour, mine in lines_of(points, panel):
        mine = [point for point in mine if y_of(figure, point) is not None]
        style = {"color": COLOURS[colour], "marker": MARKERS[colour]}
        xs, ys = [p.x for p in mine], [y_of(figure, p) * scale for p in mine]
        if figure.x == "transport":
            axis.bar([name], ys or [0], color=COLOURS[colour])
            continue
        between = "" if figure.x == "mix" else "--" if "hash" in name else "-"
        axis.plot(xs, ys, linestyle=between, label=name, **style)
        if figure.y == "latency":
            axis.plot(xs, [y_of(figure, p, "p99_ns") * scale for p in mine], linestyle=":",
                      label=f"{name}, p99", **style)
        modelled = [p for p in mine if p.model and not figure.model_only]
        if modelled and figure.y == "rate" and figure.x != "colocated":
            axis.plot([p.x for p in modelled], [p.model[2] for p in modelled], linestyle="--",
                      color=COLOURS[colour], linewidth=1, label=f"{name}, model of 2.3")
    if figure.x == "time":
        draw_changes(axis, figure, lines_of(points, panel)[0][2])
    for row, point, column, value in printed_of(figure, points, rows):
        if point.panel is panel and column == COLUMN[figure.y]:
            axis.plot([point.x], [value * scale], marker="*", markersize=14, linestyle="",
                      color=COLOURS[figure.lines.index(point.line)], markeredgecolor="black",
                      label=f"{PAPERS.get(figure.name, point.line)}, the paper")
    if figure.y in ("latency", "kicks") or figure.model_only or figure.x == "keys":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    if figure.x in LOG_X:
        axis.set_xscale("log", base=LOG_X[figure.x])
        axis.set_xticks(sorted({point.x for point in points}))
        axis.xaxis.set_major_formatter(EngFormatter() if figure.x == "keys" else "{x:g}")
    if figure.x in X_NAMES:
        axis.set_xticks(range(len(X_NAMES[figure.x])), X_NAMES[figure.x])
    if figure.y != "latency":
        axis.yaxis.set_major_formatter(EngFormatter())
    axis.grid(axis="y", color="#dddddd")
    if figure.x != "transport":
        names = dict(zip(*reversed(axis.get_legend_handles_labels())))
        axis.legend(names.values(), names.keys(), fontsize="small")


def draw_changes(axis, figure, points):
    """
    A line at the end of each slice in which memory servers came, and how many there are.  Or in
    which one lost its backup, or got one, and how many have one.
    """
    name = "backups" if figure.name == "failover" else "memservers"
    last = None
    for point in points:
        count = (point.result or {}).get(name, last)
        if last is not None and count != last:
            axis.axvline(point.x, color="#999999", linewidth=1)
            axis.text(point.x, 0, f" {count:.0f}", fontsize="small")
        last = count


def printed_of(figure, points, rows):
    """(row, point, column, the paper's value) for each value that the paper prints."""
    for wanted, column, value in figure.printed:
        for point, row in zip(points, rows):
            if all(row[name] == text for name, text in wanted.items()):
                yield row, point, column, value


# ---- one page


def write_page(folder):
    """index.html: all figures in the folder, and the papers' printed values beside ours."""
    body = []
    for figure in FIGURES:
        stem = os.path.join(folder, figure.name)
        if not os.path.exists(stem + ".csv"):
            continue
        with open(stem + ".csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        about = f"{figure.name}: {figure.source}, {figure.paper}, {figure.title}"
        links = [f'<a href="{figure.name}.{form}">{form.upper()}</a>'
                 for form in ("csv", "svg", "png") if os.path.exists(f"{stem}.{form}")]
        body.append(f"<h2>{html.escape(about)}</h2>\n<p>{' '.join(links)}</p>")
        if os.path.exists(stem + ".svg"):
            body.append(f'<img src="{figure.name}.svg" alt="{html.escape(about)}">')
        body += printed_table(figure, rows)
    page = ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<title>Figures</title><style>body{font-family:sans-serif;max-width:80em;margin:auto}"
            "img{max-width:100%}td,th{padding:0.1em 1em;text-align:right}</style></head>\n<body>\n"
            + "\n".join(body) + "\n</body></html>\n")
    with open(os.path.join(folder, "index.html"), "w", encoding="utf-8") as file:
        file.write(page)


def printed_table(figure, rows):
    lines = []
    for wanted, column, value in figure.printed:
        for row in rows:
            if row.get(column) and all(row[name] == text for name, text in wanted.items()):
                where = ", ".join(f"{name} {text}" for name, text in wanted.items())
                lines.append(f"<tr><td>{where}</td><td>{column}</td><td>{scaled(value)}</td>"
                             f"<td>{scaled(float(row[column]))}</td><td>{row['source']}</td></tr>")
    for where, column, value, reason in figure.alone:
        lines.append(f"<tr><td>{where}</td><td>{column}</td><td>{scaled(value)}</td><td>-</td>"
                     f"<td>{reason}</td></tr>")
    if not lines:
        return []
    return ["<table><tr><th>point</th><th>column</th><th>the paper</th><th>ours</th><th></th></tr>",
            *lines, "</table>"]
