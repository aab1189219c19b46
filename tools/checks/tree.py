# SPDX-License-Identifier: Apache-2.0
"""The files that git tracks, and what was found in them."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Tree:
    """A checked-out tree and what was found in it."""

    def __init__(self, root):
        self.root = root
        self.findings = []
        self.notes = []
        self.everything = False  # also what takes long and has not changed
        # A clone may belong to another user, as in a container; git only lists names here.
        listing = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"]
        out = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        # A tracked file that is gone from the disk is about to be removed.
        self.files = [f for f in out.split("\0") if f and os.path.isfile(os.path.join(root, f))]
        self.texts = {}
        for name in self.files:
            with open(os.path.join(root, name), "rb") as file:
                data = file.read()
            if b"\0" not in data:
                self.texts[name] = data.decode("utf-8", errors="replace")

    def find(self, name, line, what, remedy):
        self.findings.append((name, line, what, remedy))

    def lines(self, name):
        return enumerate(self.texts[name].split("\n"), 1)

    def named(self, *endings):
        return [name for name in self.texts if name.endswith(endings)]

    def is_shell(self, name):
        return name.endswith(".sh") or re.match(r"#!.*\b(?:ba)?sh\b", self.texts[name]) is not None

    def is_code(self, name):
        script = self.texts[name].startswith("#!")
        return script or is_cmake(name) or name.endswith((".c", ".cc", ".h", ".py", ".sh"))

    def run(self, command, **options):
        return subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, check=False, **options
        )

    def run_shared(self, command, names):
        """One process for each processor; they share the names.  Returns all output."""
        parts = [part for i in range(os.cpu_count()) if (part := names[i :: os.cpu_count()])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = pool.map(lambda part: self.run([*command, *part]), parts)
            return "".join(one.stdout for one in made)


def room_of(name):
    return name.split("/", 1)[0]


def is_cmake(name):
    return name.endswith((".cmake", "CMakeLists.txt"))


def resolve(tree, name, target):
    """The tracked file that an #include means, or None."""
    beside = os.path.normpath(os.path.join(os.path.dirname(name), target))
    if beside in tree.texts:
        return beside
    if target.startswith("nam/") and target[4:] in tree.texts:
        return target[4:]
    return target if target in tree.texts else None
