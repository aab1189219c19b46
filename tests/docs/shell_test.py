#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/shell.md works as it stands.

The block is pasted into a shell in a folder that has the build where the text expects it.  Every
command must succeed, the range must print the pairs that were loaded, and nothing may be left.
Needs NAM_BUILD_DIR and NAM_SOURCE_DIR.
"""

import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["NAM_SOURCE_DIR"]
BUILD = os.environ["NAM_BUILD_DIR"]
DOCUMENT = "docs/shell.md"
EXPECTED = "1000\t7\n1500\t8\n"


def block(markdown):
    """(line, text) of the block under the heading."""
    start = markdown.index("```sh\n", markdown.index("## From a shell\n")) + len("```sh\n")
    return markdown.count("\n", 0, start) + 1, markdown[start : markdown.index("```\n", start)]


def checked(line, text):
    """The block, each line with a test of its status; then what must hold after it."""
    parts = []
    for number, command in enumerate(text.splitlines(), line):
        parts.append(f"{command}\n")
        parts.append(f"[ $? -eq 0 ] || {{ echo 'FAILED: line {number}' >&2; exit 1; }}\n")
    assert 'wait "$first" && wait "$second"' in text, "the servers end well"
    parts.append('[ ! -e "$folder" ] || { echo "FAILED: $folder is left" >&2; exit 1; }\n')
    return "".join(parts)


with open(os.path.join(SOURCE, DOCUMENT), encoding="utf-8") as file:
    first, commands = block(file.read())
with tempfile.TemporaryDirectory() as tree:
    os.makedirs(os.path.join(tree, "build", "release"))
    os.symlink(os.path.join(BUILD, "bin"), os.path.join(tree, "build", "release", "bin"))
    program = 'trap \'kill -9 $(jobs -p) 2>/dev/null; [ -z "$folder" ] || rm -rf "$folder"\' EXIT\n'
    environment = {"HOME": tree, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    for name in os.environ:
        if name.startswith(("NAM_TEST_", "ASAN_", "UBSAN_", "TSAN_", "LSAN_")):
            environment[name] = os.environ[name]
    ran = subprocess.run(
        ["bash", "-c", program + checked(first, commands)],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
print(ran.stdout, ran.stderr, sep="")
if ran.returncode == 0 and EXPECTED not in ran.stdout:
    sys.exit("FAILED: the range did not print what was loaded")
sys.exit(ran.returncode)
