# SPDX-License-Identifier: Apache-2.0
"""Call cycles between the sources and headers of a room, from their text."""

import re

from checks.tree import room_of

ROOMS = ["common", "compute", "index", "kv", "txn", "memserver", "steward", "bench", "tools"]
# Comments, texts, and tags, which may be spelled like a function.
NOT_CODE = re.compile(
    r"\b(?:struct|enum|union)\s+\w+"
    r"|/\*.*?\*/|//[^\n]*"
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.S,
)
# The return type stands on the line above the name of a function or the data.
FUNCTION = re.compile(r"^([^\n#{}]*)\n(\w+)\([^;{}]*\)\n\{", re.M)
IN_LINE = re.compile(r"^[^\n#{}]*\n\w+\([^;{}]*\)\n\{.*?^\}", re.M | re.S)
# A header may call the source of its own name, which has the rare cases of its functions.  The
# rare cases of these headers are elsewhere.
RARE_CASES = {
    "bench/raw/run.h": ["bench/raw/loops.c"],  # run.c has no part in the loops
    # The common case of a lock, in line; these have waiting and turns.
    "compute/remote/lock_slot.h": ["compute/remote/lock.c", "compute/remote/lock_queue.c"],
    "compute/worker/doorbell.h": ["compute/remote/remote.c"],  # repeats requests, as of batches
}


def code_of(text):
    return NOT_CODE.sub(" ", text)


def calls(tree, room):
    """For each file of a room: the other files whose functions it names, with one function."""
    codes = {n: code_of(tree.texts[n]) for n in tree.named(".c", ".h") if room_of(n) == room}
    for name in codes:
        if name.endswith(".h"):
            codes[name] = "\n".join(IN_LINE.findall(codes[name]))
    home = {}
    static = {}
    for name, code in codes.items():
        static[name] = set()
        for kind, function in FUNCTION.findall(code):
            if name.endswith(".c") and "static" in kind.split():
                static[name].add(function)
            else:
                home[function] = name
    graph = {}
    for name, code in codes.items():
        graph[name] = {}
        own = [name, *RARE_CASES.get(name, [name[:-1] + "c"])]
        for word in sorted(set(re.findall(r"\b[A-Za-z_]\w*", code)) - static[name]):
            if home.get(word, name) not in own:
                graph[name].setdefault(home[word], word)
    return graph


def reachable(graph, start):
    """For each node that start reaches: the node before it on a shortest path."""
    before = {}
    queue = [start]
    for node in queue:
        for after in sorted(graph[node]):
            if after not in before:
                before[after] = node
                queue.append(after)
    return before


def cycles(graph):
    """A shortest cycle of each strongly connected component, and the members of that component."""
    reach = {node: reachable(graph, node) for node in graph}
    done = set()
    for node in sorted(graph):
        if node in done or node not in reach[node]:
            continue
        members = {other for other in reach[node] if node in reach[other]}
        done |= members
        path = [node]
        while len(path) == 1 or path[-1] != node:
            path.append(reach[node][path[-1]])
        yield path[::-1], members


def check_cycles(tree):
    for room in ROOMS:
        graph = calls(tree, room)
        for path, members in cycles(graph):
            steps = [f"{a} -> {b} ({graph[a][b]})" for a, b in zip(path, path[1:])]
            tree.find(
                path[0],
                1,
                f"a call cycle of {len(members)} modules: " + ", ".join(steps),
                "pass a function or a context down, or move the shared part below both",
            )
