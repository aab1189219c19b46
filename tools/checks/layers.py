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
    common/fabric/fabric.h common/rpc/transport.h
    compute/client.h compute/remote.h
    index/index.h kv/kv.h txn/records.h txn/table.h
    memserver/server.h
    """.split()

# Who may include whom; each room also includes itself.  PUBLIC stands for the public headers.
# memserver/server.h is one: with it bench runs memory servers inside a simulation, its only use
# of that room.
PUBLIC = "public"
ARROWS = {
    "common": [],
    "compute": ["common"],
    "index": ["compute", "common"],
    "kv": ["compute", "common"],
    "txn": ["index", "compute", "common"],
    "memserver": ["index", "kv", "txn", "common"],
    "bench": ["txn", "index", "kv", "compute", "common", PUBLIC],
    "tools": [PUBLIC],
    "examples": [PUBLIC],
    "nam.h": [PUBLIC],
}

# Internal headers that one more room may include, because the header itself says so.
SHARED_INTERNAL = {"compute/compute_internal.h": ["index", "kv", "txn"]}


def may_include(room, target):
    allowed = ARROWS[room]
    return (
        room_of(target) == room
        or room_of(target) in allowed
        or (PUBLIC in allowed and target in PUBLIC_HEADERS)
    )


def check_arrows(tree):
    for name in tree.named(".c", ".h"):
        room = room_of(name)
        for number, line in tree.lines(name):
            match = INCLUDE.match(line)
            target = match and resolve(tree, name, match.group(2))
            if not target:
                continue
            if room in ARROWS and not may_include(room, target):
                tree.find(
                    name,
                    number,
                    f"{room} must not include {target}",
                    "includes point down: bench, txn, index, compute, common; memserver may "
                    "use index and common; tools and examples only what is public",
                )
            elif target.endswith("_internal.h") and room not in (
                [room_of(target), "tests"] + SHARED_INTERNAL.get(target, [])
            ):
                tree.find(
                    name,
                    number,
                    f"{target} is internal to {room_of(target)}",
                    "use its other headers, or move what you need into one",
                )
            if name in PUBLIC_HEADERS and target not in PUBLIC_HEADERS:
                tree.find(
                    name,
                    number,
                    f"a public header includes {target}, which is not installed",
                    "forward-declare what is needed",
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
    """Each header compiles when it is the first; public ones without _GNU_SOURCE, also as C++."""
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
        jobs += [(c, name) for c in compilers if c != "g++" or name in PUBLIC_HEADERS]
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
