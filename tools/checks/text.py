# SPDX-License-Identifier: Apache-2.0
"""Characters and lines: blanks, columns, licences, unfinished work, format."""

import difflib
import os
import re
import shutil
import tempfile

from checks.tree import is_cmake

COLUMNS = 100
TAB = 8
SUBJECT_COLUMNS = 72

# Spelled so that this file does not find itself.
MACHINE_ROOTS = "wor" + "k|hom" + "e|roo" + "t"
MACHINE_PATH = re.compile(rf"(?<![\w./~-])/(?:{MACHINE_ROOTS})(?:/|\b)(?![\w-])")
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + r"X)\b")


def check_blanks(tree):
    for name in tree.texts:
        if name.startswith("LICENSE") or "/corpus/" in name:
            continue
        for number, line in tree.lines(name):
            if line != line.rstrip():
                tree.find(name, number, "trailing blanks", "remove them")
            if re.match(r"(<{7}|>{7}) ", line):
                tree.find(name, number, "a conflict of two versions", "resolve it")
        if tree.texts[name] and not tree.texts[name].endswith("\n"):
            last = tree.texts[name].count("\n") + 1
            tree.find(name, last, "no newline at the end of the file", "add one")


def check_indentation(tree):
    for name in tree.texts:
        c_source = name.endswith((".c", ".h"))
        if not (c_source or tree.is_shell(name) or is_cmake(name)):
            continue
        document = None  # the end mark of a shell here-document, whose text is free
        for number, line in tree.lines(name):
            if document:
                document = None if line.strip() == document else document
                continue
            if tree.is_shell(name):
                begin = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line)
                document = begin.group(1) if begin else None
            # A comment's block goes on with " *"; tabs may be followed by up to 7 for alignment.
            if re.match(r" +(?![* \\])|\t* {8}(?! *\\$)", line):
                tree.find(name, number, "indented by spaces", "indent by tabs of 8")


def check_columns(tree):
    for name in tree.texts:
        if not tree.is_code(name):
            continue
        for number, line in tree.lines(name):
            columns = len(line.rstrip("\\").rstrip().expandtabs(TAB))
            if columns > COLUMNS:
                tree.find(name, number, f"{columns} columns", f"break it at {COLUMNS}")


def check_licence(tree):
    for name in tree.texts:
        if not tree.is_code(name):
            continue
        head = "\n".join(tree.texts[name].split("\n")[:3])
        if "SPDX-License-Identifier: Apache-2.0" not in head:
            tree.find(name, 1, "no licence line", "begin with SPDX-License-Identifier: Apache-2.0")


def check_machine_paths(tree):
    for name in tree.texts:
        if name.startswith("LICENSE"):
            continue
        for number, line in tree.lines(name):
            match = MACHINE_PATH.search(line)
            if match:
                tree.find(
                    name, number, f"a path of one machine ({match.group()})", "make it relative"
                )


def check_unfinished(tree):
    for name in tree.texts:
        if name.startswith("LICENSE"):
            continue
        for number, line in tree.lines(name):
            match = UNFINISHED.search(line)
            if match:
                tree.find(
                    name,
                    number,
                    f"unfinished ({match.group()})",
                    "finish it, or say under 'not done' in the room's README why it is not",
                )


def check_subjects(tree):
    """Subjects of commits that the upstream branch lacks; without one there is nothing to know."""
    git = ["git", "-c", "safe.directory=*", "log", "--format=%h %s", "@{upstream}..HEAD"]
    for line in tree.run(git).stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_COLUMNS:
            tree.find(
                f"commit {commit}",
                1,
                f"a subject of {len(subject)} columns",
                f"shorten it to {SUBJECT_COLUMNS}",
            )


def format_hunks(ours, theirs):
    """(index, our lines, their lines) of what differs in more than alignment and continuation."""

    def shape(line):
        # The formatter takes some casts and pointers for operators; trust the author's blanks.
        return re.sub(r" ?([*&-]) ?", r"\1", re.sub(r"(?<=\S)[ \t]+", " ", line.strip()))

    def flat(lines):
        text = " ".join(line.rstrip(" \\") for line in lines)
        return re.sub(r"(?<=[(\[{]) | (?=[)\]}])|(?<=[:*&-]) | (?=[:*&-])|(?<=\)) (?=\.)", "", text)

    def braces(lines):
        # Each brace, and whether it begins or ends its line.
        for line in lines:
            for match in re.finditer(r"[{}]", line.rstrip(" \\")):
                yield match[0], match.start() == 0, match.end() == len(match.string)

    def same_but_for_breaks(our, their):
        if not (all(our) and all(their)) or flat(our) != flat(their):
            return False
        # Where a block's braces stand is not the author's choice; an initializer's is.
        block = re.search(r"\) \{|;\}|\} else|else \{", flat(our))
        return not block or list(braces(our)) == list(braces(their))

    ours = [shape(line) for line in ours]
    theirs = [shape(line) for line in theirs]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        our, their = ours[begin:end], theirs[other_begin:other_end]
        if kind != "equal" and not same_but_for_breaks(our, their):
            yield begin, our, their


def check_format(tree):
    """What clang-format sees besides line breaks and alignment, which we leave to the author."""
    if not shutil.which("clang-format"):
        tree.notes.append("clang-format is not installed: spacing and braces were not checked")
        return

    names = tree.named(".c")
    # Many files for each process, since it takes as long to start as to format one.
    with tempfile.TemporaryDirectory() as copies:
        shutil.copy(os.path.join(tree.root, ".clang-format"), copies)
        paths = [os.path.join(copies, f"{number}.c") for number in range(len(names))]
        for name, path in zip(names, paths):
            with open(path, "w", encoding="utf-8") as copy:
                copy.write(tree.texts[name])
        tree.run_shared(["clang-format", "-i", "--style=file"], paths)
        for name, path in zip(names, paths):
            with open(path, encoding="utf-8") as copy:
                made = copy.read()
            if made == tree.texts[name]:
                continue
            for index, our, their in format_hunks(tree.texts[name].split("\n"), made.split("\n")):
                want = " | ".join(their)
                remedy = f"make it: {want}" if want else "remove the line"
                tree.find(name, index + 1, f"not in our format: {' | '.join(our)}", remedy)
