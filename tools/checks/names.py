# SPDX-License-Identifier: Apache-2.0
"""Symbols of the library, and shell scripts."""

import os
import re
import shutil

from checks.tree import room_of

LIBRARY_ROOMS = ["common", "compute", "index", "kv", "txn"]


def newest_library(tree):
    found = []
    build = os.path.join(tree.root, "build")
    for preset in ("release", "dev", "clang"):  # sanitizers add symbols of their own
        path = os.path.join(build, preset, "lib", "libnam.a")
        if os.path.exists(path):
            found.append(path)
    return max(found, key=os.path.getmtime, default=None)


def changed_since(tree, library):
    """A source of libnam that is newer than the library, or None."""
    for name in tree.named(".c"):
        if room_of(name) in LIBRARY_ROOMS and not name.startswith("common/sim/"):
            path = os.path.join(tree.root, name)
            if os.path.getmtime(path) > os.path.getmtime(library):
                return name
    return None


def check_stale(tree):
    library = newest_library(tree)
    name = library and changed_since(tree, library)
    if name:
        folder = os.path.relpath(library, tree.root).removesuffix("/lib/libnam.a")
        tree.find(
            name,
            1,
            f"libnam.a of {folder} is older, so its symbols are not those of the sources",
            f"build it: cmake --build {folder} --target nam_static",
        )


def defined_at(tree, symbol):
    pattern = re.compile(r"^(?:\w[\w *]*\W)?" + re.escape(symbol) + r"\b")
    for name in tree.named(".c"):
        for number, line in tree.lines(name):
            if room_of(name) in LIBRARY_ROOMS and pattern.match(line):
                return name, number
    return None


def check_symbols(tree):
    library = newest_library(tree)
    if not library:
        tree.notes.append("no build has libnam.a: names of symbols were not checked")
        return
    listing = tree.run(["nm", "-g", "--defined-only", "-P", library]).stdout
    for line in listing.split("\n"):
        words = line.split()
        if len(words) < 2 or words[0].startswith("nam_"):
            continue
        where = defined_at(tree, words[0])
        if where:  # otherwise the library is older than the sources
            tree.find(*where, f"{words[0]} is visible outside its file", "make it static")


def check_simulator(tree):
    library = newest_library(tree)
    if not library:
        return
    listing = tree.run(["nm", "-g", "--defined-only", "-P", library]).stdout
    found = re.findall(r"^nam__?sim\w*", listing, re.M)
    if found:
        tree.find(
            "common/sim",
            1,
            f"libnam contains {len(found)} symbols of the simulator, such as {found[0]}",
            "programs that simulate link and register it",
        )


def changed_scripts(tree, scripts):
    """Those that the upstream branch has otherwise, or all: shellcheck takes half of our time."""
    git = ["git", "-c", "safe.directory=*", "diff", "--name-only", "@{upstream}"]
    made = tree.run(git)
    changed = set(made.stdout.split())
    # Many scripts read these.
    shared = any(name.startswith("tests/lib/") or name == ".shellcheckrc" for name in changed)
    if tree.everything or made.returncode or shared:
        return scripts
    return [name for name in scripts if name in changed]


LIBRARY = re.compile(r"(?!\w+/program/|common/options/)"
                     r"(?:common|compute|index|txn|kv|memserver|steward)/.*\.[ch]$")
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
PROGRAM = re.compile(r"\b(?:nam-memserver|nam-steward|nam-bench|namctl|numactl)\b")


def check_flags(tree):
    """A diag of a library names fields of options.  It names a flag only with its program."""
    for name in filter(LIBRARY.match, tree.texts):
        source = tree.texts[name]
        for text in TEXT.finditer(source):
            words = re.sub(r'"\s*"', "", text[0])
            flag = re.search(r"(?<![\w-])--[a-z][a-z-]*", words)
            if flag and not PROGRAM.search(words):
                line = source.count("\n", 0, text.start()) + 1
                remedy = "name the field of the options, or the program beside its flag"
                tree.find(name, line, f"a text of a library names the flag {flag[0]}", remedy)


def check_shell(tree):
    scripts = [name for name in tree.texts if tree.is_shell(name)]
    for name in scripts:
        made = tree.run(["bash", "-n", name])
        if made.returncode:
            where = re.search(r"line (\d+):", made.stderr)
            tree.find(
                name,
                int(where.group(1)) if where else 1,
                "bash cannot parse it",
                made.stderr.strip().split("\n")[0],
            )
    if not shutil.which("shellcheck"):
        tree.notes.append("shellcheck is not installed: shell scripts were only parsed")
    else:
        linter = ["shellcheck", "-x", "-S", "warning", "-f", "gcc"]
        made = tree.run_shared(linter, changed_scripts(tree, scripts))
        for line in made.split("\n"):
            match = re.match(r"([^:]+):(\d+):\d+: \w+: (.*)", line)
            if match:
                tree.find(match[1], int(match[2]), match[3], "see shellcheck's wiki")
