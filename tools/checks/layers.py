# SPDX-License-Identifier: Apache-2.0
"""Which header may include which, and each header alone."""

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from checks.tree import INCLUDE, resolve, room_of

PUBLIC_HEADERS = """
    nam.h
    common/counters.h common/error.h common/exit.h common/fiber/fiber.h common/gaddr.h
    common/version.h
    common/fabric/endpoint.h common/fabric/fabric.h common/fabric/handshake.h
    common/fabric/request.h
    common/rpc/figures.h common/rpc/transport.h
    compute/admin.h compute/client.h compute/remote.h
    index/changes.h index/index.h index/maintain.h index/options.h index/scan.h
    kv/kv.h kv/options.h txn/isolation.h txn/phases.h txn/records.h txn/scans.h txn/serializable.h
    txn/sweep.h txn/table.h
    memserver/server.h
    """.split()

# The rooms that each room may include; each also includes itself.  PUBLIC stands for the public
# headers.  memserver/server.h is one: bench runs memory servers inside a simulation with it.
PUBLIC = "public"
ARROWS = {
    "common": [],
    "compute": ["common"],
    "index": ["compute", "common"],
    "kv": ["compute", "common"],
    "txn": ["index", "compute", "common"],
    "memserver": ["index", "kv", "txn", "common"],
    "steward": ["txn", "index", "compute", "common", PUBLIC],
    "bench": ["txn", "index", "kv", "compute", "common", PUBLIC],
    "tools": [PUBLIC],
    "examples": [PUBLIC],
    "nam.h": [PUBLIC],
}

# Headers that are not public and cross rooms: the rooms that may include each.
CROSSING = {
    "common/auth/keys.h": ["memserver", "tools"],
    "common/auth/proof.h": ["compute", "memserver"],
    "common/cluster.h": ["compute", "memserver", "steward"],
    "common/env.h": ["bench", "compute", "index", "kv", "memserver", "steward", "txn"],
    "common/fabric/colocated.h": ["compute", "memserver"],
    "common/fabric/inet.h": ["memserver"],
    "common/fabric/list.h": ["compute"],
    "common/fabric/pages.h": ["memserver"],
    "common/fabric/register.h": ["compute", "memserver"],
    "common/fabric/wait/spin.h": ["memserver"],
    "common/fiber/switch.h": ["compute"],
    "common/guard.h": ["bench", "compute", "index", "kv", "memserver", "steward", "txn"],
    "common/hash/hash.h": ["bench", "compute", "index", "kv", "memserver", "txn"],
    "common/hash/inline.h": ["kv", "txn"],
    "common/layout.h": ["bench", "compute", "index", "kv", "memserver", "steward", "txn"],
    "common/log/log.h": ["memserver", "steward"],
    "common/options/options.h": ["bench", "memserver", "steward", "tools"],
    "common/race.h": ["bench", "compute", "index", "kv", "memserver", "steward", "txn"],
    "common/region_table.h": ["compute"],
    "common/rpc/alloc_rpc.h": ["compute", "memserver"],
    "common/rpc/books_rpc.h": ["compute", "memserver"],
    "common/rpc/frame.h": ["bench", "compute", "memserver"],
    "common/rpc/kv_rpc.h": ["kv", "memserver"],
    "common/rpc/locking_rpc.h": ["bench", "memserver", "txn"],
    "common/rpc/move_rpc.h": ["compute", "memserver"],
    "common/rpc/records_rpc.h": ["bench", "memserver", "txn"],
    "common/rpc/serial_rpc.h": ["memserver", "txn"],
    "common/rpc/rpc.h": ["bench", "compute", "index", "kv", "memserver", "steward", "txn"],
    "common/rpc/status_rpc.h": ["compute", "memserver"],
    "common/rpc/sweep_rpc.h": ["compute", "memserver"],
    "common/rpc/tree_rpc.h": ["bench", "index"],
    "common/rpc/fence_rpc.h": ["compute", "memserver"],
    "common/rpc/view_rpc.h": ["compute", "memserver", "steward"],
    "common/sim/sim.h": ["bench"],
    "compute/client/members.h": ["index", "kv"],
    "compute/client/names.h": ["index", "kv", "txn"],
    "compute/backup/again.h": ["index"],
    "compute/backup/backed.h": ["txn"],
    "compute/backup/backups.h": ["index", "txn"],
    "compute/backup/lease.h": ["steward"],
    "compute/remote/batch.h": ["index", "kv", "txn"],
    "compute/view/fence.h": ["steward"],
    "compute/view/sweep.h": ["index", "txn"],
    "compute/remote/epoch.h": ["index", "kv", "txn"],
    "compute/remote/forget.h": ["index", "kv", "txn"],
    "compute/remote/lock.h": ["index", "txn"],
    "compute/remote/lock_slot.h": ["index", "txn"],
    "compute/remote/reclaim.h": ["index", "kv", "txn"],
    "compute/remote/spare.h": ["index"],
    "compute/rpc/call.h": ["index", "kv"],
    "compute/worker/buffer.h": ["txn"],
    "compute/worker/outstanding_reads.h": ["index"],
    "compute/view/lead.h": ["steward"],
    "compute/view/presence.h": ["steward", "txn"],
    "compute/view/move/server_move.h": ["steward"],
    "compute/view/succession.h": ["steward"],
    "compute/view/view_store.h": ["steward"],
    "compute/worker/pace.h": ["index", "txn"],
    "compute/worker/worker.h": ["steward", "txn"],
    "index/leaves.h": ["txn"],
    "index/maintain/collector_word.h": ["txn"],
    "index/maintain/sweep.h": ["txn"],
    "index/unnamed.h": ["txn"],
    "index/server/partition.h": ["memserver"],
    "index/server/tree.h": ["memserver"],
    "kv/server/cuckoo.h": ["bench"],
    "kv/server/htm.h": ["memserver"],
    "kv/server/partition.h": ["memserver"],
    "kv/server/place.h": ["memserver"],
    "steward/options.h": ["tools"],
    "steward/store.h": ["tools"],
    "txn/server/locks.h": ["memserver"],
    "txn/server/records.h": ["memserver"],
    "txn/server/serial.h": ["memserver"],
}

# Headers that come with one that crosses rooms: its structures or functions in line need them.
BRINGS = {
    # A client and a worker are structures whose fields inline functions of the data path read.
    "common/auth/proof.h": ["common/auth/keys.h"],
    "compute/backup/backups.h": ["compute/client/client_internal.h"],
    "compute/client/client_internal.h": [
        "common/auth/proof.h",
        "common/cluster.h",
        "common/fabric/colocated.h",
        "common/region_table.h",
    ],
    "compute/client/cluster_view.h": [
        "common/auth/proof.h",
        "compute/client/client_internal.h",
    ],
    "compute/client/names.h": ["compute/worker/worker.h"],
    "compute/remote/batch.h": ["compute/worker/worker.h"],
    "compute/remote/epoch.h": ["compute/worker/worker.h"],
    "compute/remote/reclaim.h": ["compute/worker/worker.h"],
    "compute/view/presence.h": ["compute/client/client_internal.h"],
    "compute/worker/buffer.h": ["compute/worker/worker.h"],
    "compute/worker/outstanding_reads.h": ["compute/worker/worker.h"],
    "compute/worker/pace.h": ["compute/worker/worker.h"],
    "compute/worker/worker.h": [
        "compute/backup/mirror.h",
        "compute/client/client_internal.h",
        "compute/worker/completion.h",
        "compute/worker/gates.h",
        "compute/worker/task.h",
    ],
    # A lock is taken in line.
    "compute/remote/lock_queue.h": ["compute/client/peers.h"],
    "compute/remote/lock_slot.h": [
        "compute/backup/again.h",
        "compute/remote/lock_queue.h",
        "compute/worker/buffer.h",
        "compute/worker/doorbell.h",
    ],
    # A simulation has a network.
    "common/sim/sim.h": ["common/sim/network.h"],
    # Messages have parts of other messages; callers pass and get these.
    "common/rpc/books_rpc.h": ["common/rpc/kv_rpc.h", "common/rpc/tree_rpc.h"],
    "compute/backup/backed.h": ["common/rpc/alloc_rpc.h"],
    "compute/view/fence.h": [
        "common/rpc/fence_rpc.h",
        "compute/client/client_internal.h",
        "compute/client/cluster_view.h",
    ],
    "compute/view/lead.h": ["compute/client/cluster_view.h"],
    "compute/view/succession.h": ["compute/view/changer.h"],
    "compute/view/sweep.h": ["common/rpc/sweep_rpc.h", "compute/worker/worker.h"],
    "compute/view/view_store.h": ["compute/client/cluster_view.h"],
    # Memory servers keep trees, stores and records, and nam-bench cuckoo tables, by value.
    "index/node/node.h": ["index/node/dirty.h"],
    "index/server/partition.h": ["common/rpc/tree_rpc.h"],
    "index/server/tree.h": ["index/node/node.h"],
    # Hashes of pairs and keys are in line.
    "kv/server/bucket.h": ["common/hash/inline.h"],
    "kv/server/place.h": ["common/hash/inline.h"],
    "kv/server/cuckoo.h": ["kv/server/bucket.h", "kv/server/engine.h"],
    "kv/server/engine.h": ["kv/server/partition.h"],
    "kv/server/partition.h": [
        "common/rpc/kv_rpc.h",
        "kv/server/bucket.h",
        "kv/server/cells.h",
        "kv/server/htm.h",
    ],
    "txn/server/locks.h": ["txn/server/finished.h"],
    "txn/server/records.h": ["txn/records/version.h"],
    "txn/server/serial.h": ["common/rpc/serial_rpc.h", "txn/serial/layout.h"],
}

# Code that memory servers run, and what it may use of the rooms of clients.
SERVER_CODE = re.compile(
    r"memserver/|\w+/server/|index/node/|index/fine/leaf_change\.h|txn/records/version\.|"
    r"txn/serial/layout\."
)
SERVER_MAY_USE = ["index/options.h", "kv/options.h"]


def may_include(room, target):
    allowed = ARROWS[room]
    return (
        room_of(target) == room
        or room_of(target) in allowed
        or (PUBLIC in allowed and target in PUBLIC_HEADERS)
        or (room == "tools" and room in CROSSING.get(target, []))
    )


def may_cross(room, target):
    return (
        room in (room_of(target), "tests")
        or target in PUBLIC_HEADERS
        or room in CROSSING.get(target, [])
    )


def may_come(room, includes, target):
    """Whether a room may get the header from one that includes it."""
    return may_cross(room, target) or target in BRINGS.get(includes, [])


def for_clients(target):
    """Whether a header belongs to code that only clients run."""
    if SERVER_CODE.match(target) or target in SERVER_MAY_USE:
        return False
    return room_of(target) in ("compute", "index", "kv", "txn")


def includes_of(tree):
    """For each C file: the tracked files that it includes, each with its line."""
    graph = {}
    for name in tree.named(".c", ".h"):
        graph[name] = {}
        for number, line in tree.lines(name):
            match = INCLUDE.match(line)
            target = match and resolve(tree, name, match.group(2))
            if target:
                graph[name].setdefault(target, number)
    return graph


def paths_from(graph, start):
    """For each header that start includes, directly or not: the shortest path to it."""
    paths = {start: [start]}
    queue = [start]
    for name in queue:
        for target in graph[name]:
            if target not in paths:
                paths[target] = paths[name] + [target]
                queue.append(target)
    del paths[start]
    return paths


def check_arrows(tree):
    for name, targets in includes_of(tree).items():
        room = room_of(name)
        for target, number in targets.items():
            if room in ARROWS and not may_include(room, target):
                tree.find(
                    name,
                    number,
                    f"{room} must not include {target}",
                    "includes point down: bench, txn, index, compute, common; memserver may "
                    "use common and the folders server/; tools and examples the public headers",
                )
            elif not may_cross(room, target):
                tree.find(
                    name,
                    number,
                    f"{target} is internal to {room_of(target)}",
                    "use its other headers, or list it in CROSSING of tools/checks/layers.py",
                )
            if name in PUBLIC_HEADERS and target not in PUBLIC_HEADERS:
                tree.find(
                    name,
                    number,
                    f"a public header includes {target}, which is not installed",
                    "forward-declare what is needed",
                )


def check_reach(tree):
    """Arrows, walls, and the headers of memory servers, along all paths of includes."""
    graph = includes_of(tree)
    for name in graph:
        room = room_of(name)
        for target, path in paths_from(graph, name).items():
            # If the room itself includes it, check_arrows() says so.
            indirect = room in ARROWS and room_of(path[-2]) != room
            if SERVER_CODE.match(name) and for_clients(target):
                what = "code of memory servers includes a header of clients"
            elif indirect and not may_include(room, target):
                what = f"{room} must not reach {target}"
            elif indirect and not may_come(room, path[-2], target):
                what = f"{target} is internal to {room_of(target)}, and BRINGS lacks it"
            else:
                continue
            tree.find(
                name,
                graph[name][path[1]],
                f"{what}: {' -> '.join(path)}",
                "move what both sides need into a header without the rest",
            )


def check_verbs(tree):
    for name in tree.named(".c", ".h"):
        if name.startswith("common/fabric/verbs") or name == "tools/namctl/doctor/verbs.c":
            continue
        for number, line in tree.lines(name):
            match = INCLUDE.match(line)
            if match and re.match(r"infiniband/|rdma/", match.group(2)):
                tree.find(
                    name,
                    number,
                    f"<{match.group(2)}> outside the verbs provider",
                    "only common/fabric/verbs* and namctl's doctor may; go through fabric.h",
                )


def check_headers(tree):
    """Each header compiles when it is the first; public ones without _GNU_SOURCE, by all compilers.

    Of others, gcc says what they do not include.  clang's warnings come with its build.
    """
    compilers = [name for name in ("gcc", "clang", "g++") if shutil.which(name)]
    verbs = os.path.exists("/usr/include/infiniband/verbs.h")

    def compile_alone(job):
        compiler, name = job
        options = ["-std=gnu17", "-x", "c"]
        if name.startswith("examples/"):
            options.append(f"-I{outside}")
        if compiler == "g++":
            options = ["-std=c++11", "-Wpedantic", "-x", "c++"]
        elif name not in PUBLIC_HEADERS:
            options.append("-D_GNU_SOURCE=")
        made = tree.run(
            [compiler, *options, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", "-"],
            input=f'#include "{name}"\n',
        )
        return compiler, name, made

    jobs = []
    for name in tree.named(".h"):
        if not verbs and "infiniband/" in tree.texts[name]:
            tree.notes.append(f"{name} was not compiled: libibverbs-dev is not installed")
            continue
        jobs += [(c, name) for c in compilers if name in PUBLIC_HEADERS or c == compilers[0]]
    # Examples include <nam/nam.h>, as they would outside this tree.
    with tempfile.TemporaryDirectory() as outside, ThreadPoolExecutor(os.cpu_count()) as pool:
        os.symlink(os.path.abspath(tree.root), os.path.join(outside, "nam"))
        for compiler, name, made in pool.map(compile_alone, jobs):
            if made.returncode:
                error = next((e for e in made.stderr.split("\n") if "error:" in e), made.stderr)
                where = re.match(r"[^:]*:(\d+):", error)
                tree.find(
                    name,
                    int(where.group(1)) if where else 1,
                    f"does not compile alone with {compiler}: {error.split('error: ')[-1]}",
                    "include what it uses"
                    if compiler != "g++"
                    else "public headers are for C++ too: no compound or designated initializers",
                )
