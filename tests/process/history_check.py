# SPDX-License-Identifier: Apache-2.0
"""Whether a history that nam-bench txn wrote is strictly serializable.

usage: history_check.py FILE

All versions of a record are known, and their order: that of their sequences.  So an order of the
transactions exists if the graph of these edges has no cycle: a version's writer to its readers and
to the next version's writer, its readers to that writer, and an end to each later beginning.
"""

import collections
import re
import sys

LINE = re.compile(
    r"\{:index (\d+), :type :(invoke|ok|info), :process (\d+), :time \d+, :f :txn, "
    r":value \[(.*)\]\}"
)
ACCESS = re.compile(r"\[:([rw]) (\d+) (\d+|nil)\]")


def transactions(lines):
    """Those that were committed, as their accesses; and for each line its transaction, in order."""
    begun, found, moments = {}, [], []
    for number, line in enumerate(lines):
        index, kind, process, value = LINE.fullmatch(line).groups()
        accesses = ACCESS.findall(value)
        assert int(index) == number and "[" + "] [".join(map(" ".join, accesses)) + "]" == (
            value.replace(":", "") or "[]"
        ), line
        if kind == "invoke":
            assert process not in begun, line
            begun[process] = len(found)
            found.append(None)
        else:
            found[begun[process]] = accesses
        moments.append((kind, begun[process] if kind == "invoke" else begun.pop(process)))
    assert not begun
    return found, moments


def edges_of(found, moments):
    """The edges of the graph: its nodes are transactions, and the moments at which some end."""
    edges = collections.defaultdict(set)
    versions = collections.defaultdict(dict)  # of a record: sequence to writer
    for writer, accesses in enumerate(found):
        for kind, record, sequence in accesses:
            if kind == "w":
                assert int(sequence) not in versions[record], (record, sequence, "written twice")
                versions[record][int(sequence)] = writer
    later = {}  # a record's version to the next one's writer
    for record, writers in versions.items():
        order = [0] + sorted(writers)
        for this, after in zip(order, order[1:]):
            later[record, this] = writers[after]
            edges[writers.get(this)].add(writers[after])
    for reader, accesses in enumerate(found):
        for kind, record, sequence in accesses:
            if kind == "r":
                version = 0 if sequence == "nil" else int(sequence)
                edges[versions[record][version] if version else None].add(reader)
                edges[reader].add(later.get((record, version), reader))
    last = None
    for moment, (kind, transaction) in enumerate(moments):
        if kind == "invoke":
            edges[last].add(transaction)
        else:
            edges[transaction].add(("moment", moment))
            edges[last].add(("moment", moment))
            last = ("moment", moment)
    return edges


def has_cycle(edges):
    """Nodes without incoming edges go, until none is left, or only cycles and what they lead to."""
    into = collections.Counter(to for node, tos in edges.items() for to in tos if to != node)
    nodes = set(into) | set(edges)
    free = [node for node in nodes if not into[node]]
    for node in free:
        for to in edges.get(node, set()) - {node}:
            into[to] -= 1
            if not into[to]:
                free.append(to)
    return len(free) < len(nodes)


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        found, moments = transactions(file.read().splitlines())
    if has_cycle(edges_of(found, moments)):
        sys.exit(f"{sys.argv[1]}: no order of its transactions explains it")
    print(len(found))


main()
