# SPDX-License-Identifier: Apache-2.0
"""Lengths of files and functions, the number of files in a folder, and files without a room."""

import os
import re
from collections import Counter

from checks.tree import room_of

SOURCE_LINES_MAX = 800
HEADER_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
FOLDER_FILES_MAX = 20
TOP = re.compile(r"[A-Z]+\.md|CMake\w+\.(?:txt|json)|LICENSE|nam\.h|\..+")


def function_sizes(text):
    """(line, name, lines) of each function: name, brace and end in column 0."""
    lines = text.split("\n")
    name = begin = None
    for number, line in enumerate(lines, 1):
        if re.match(r"\w+\(", line):
            name = line.split("(")[0]
        elif line == "{" and name:
            begin = number
        elif line == "}" and begin:
            yield begin, name, number - begin - 1
            name = begin = None


def check_sizes(tree):
    for name in tree.texts:
        if not tree.is_code(name):
            continue
        lines = tree.texts[name].count("\n")
        header = name.endswith(".h") and room_of(name) != "tests"
        limit = HEADER_LINES_MAX if header else SOURCE_LINES_MAX
        if lines > limit:
            tree.find(name, lines, f"{lines} lines", f"split it: at most {limit}")


def check_functions(tree):
    for name in tree.named(".c"):
        if room_of(name) == "tests":
            continue
        for number, function, length in function_sizes(tree.texts[name]):
            if length > FUNCTION_LINES_MAX:
                remedy = f"split it: at most {FUNCTION_LINES_MAX}"
                tree.find(name, number, f"{function} has {length} lines", remedy)


def check_strays(tree):
    for name in tree.texts:
        if "/" not in name and not TOP.fullmatch(name):
            tree.find(name, 1, "a file in the top folder", "remove it, or move it into a room")


def check_folders(tree):
    names = [name for name in tree.named(".c", ".h") if room_of(name) != "tests"]
    for folder, count in Counter(os.path.dirname(name) for name in names).items():
        if count > FOLDER_FILES_MAX:
            remedy = f"split it: at most {FOLDER_FILES_MAX}"
            tree.find(folder, 1, f"{count} C files in one folder", remedy)
