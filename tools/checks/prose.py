# SPDX-License-Identifier: Apache-2.0
"""Width of Markdown, tables too, and sentences that hide their subject."""

import re

COLUMNS = 100
# Spelled so that this file does not find itself.
SUBJECT = r"W" + r"ho(?:ever)?|N" + r"obody|S" + r"omebody|W" + r"hat(?:ever)?"
BEGINS = re.compile(rf"(?:^|[.:!?] +)[\s*/#>-]*((?:{SUBJECT})\b)(?![^.]*\?)")
WORDS = re.compile(
    r"\b(h" + r"e|h" + r"is|h" + r"im|n" + r"obody|s" + r"omebody|wh" + r"oever)\b", re.IGNORECASE
)
# Pages with a table of examples of what not to write.
TABLE_OF_EXAMPLES = ["CONTRIBUTING.md"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def prose(tree, name):
    """(line, text) of what people read in a file: all of it, or its comments."""
    text = tree.texts[name]
    if name.endswith((".c", ".h")):
        for match in COMMENT.finditer(text):
            first = text.count("\n", 0, match.start()) + 1
            for offset, line in enumerate(match[0].split("\n")):
                yield first + offset, line
    elif name.endswith((".md", ".1", ".3", ".7")):
        for number, line in tree.lines(name):
            if not (name in TABLE_OF_EXAMPLES and line.startswith("|")):
                yield number, line
    elif name.endswith((".py", ".sh")) or text.startswith("#!"):
        for number, line in tree.lines(name):
            if line.lstrip().startswith("#"):
                yield number, line


def check_width(tree):
    for name in tree.named(".md"):
        for number, line in tree.lines(name):
            unbreakable = not re.search(r"\S\s+\S", re.sub(r"^[\s>*-]+", "", line))
            if len(line) > COLUMNS and not unbreakable:
                tree.find(name, number, f"{len(line)} columns", f"break it at {COLUMNS}")


def check_prose(tree):
    for name in tree.texts:
        for number, line in prose(tree, name):
            match = BEGINS.search(line) or WORDS.search(line)
            if match:
                remedy = "name the role: the reader, the writer, the memory server"
                tree.find(name, number, f"'{match[1]}'", remedy)
