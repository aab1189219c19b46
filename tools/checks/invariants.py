# SPDX-License-Identifier: Apache-2.0
"""Invariants: the README of a room defines them, comments name them beside the steps."""

import os
import re

from checks.tree import room_of

ROOMS = ["compute", "index", "txn"]
# Their code also takes steps of protocols of other rooms, and names the invariants of these.
SERVER_ROOMS = ["memserver"]
DEFINED = re.compile(r"\*\*([A-Z]\d{1,2})\*\*")
NAMED = re.compile(r"\b[A-Z]\d{1,2}\b")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STEP = re.compile(r"\bNAM_(GUARD)\((\w+)\)|\bnam_(race_point)\(\"([\w.]+)\"\)")
FUNCTION = re.compile(r"(?:^[^\n]+\n)+^\{\n.*?^\}", re.M | re.S)


def defined(tree, room):
    """The invariants of a room, each with its line in the README."""
    found = {}
    for number, line in tree.lines(f"{room}/README.md"):
        for invariant in DEFINED.findall(line):
            found.setdefault(invariant, number)
    return found


def named(tree, room):
    """The invariants that comments of a room name, each with one place."""
    found = {}
    for name in tree.named(".c", ".h"):
        if room_of(name) != room:
            continue
        for comment in COMMENT.finditer(tree.texts[name]):
            for match in NAMED.finditer(comment[0]):
                line = tree.texts[name].count("\n", 0, comment.start() + match.start()) + 1
                found.setdefault(match[0], (name, line))
    return found


def check_steps(tree, room, known, where):
    """A function with a guard or a race point names an invariant in it, or in the comment above."""
    for name in tree.named(".c", ".h"):
        if room_of(name) != room:
            continue
        text = tree.texts[name]
        for function in FUNCTION.finditer(text):
            comments = " ".join(COMMENT.findall(function[0]))
            if known.keys() & set(NAMED.findall(comments)):
                continue
            for step in STEP.finditer(function[0]):
                line = text.count("\n", 0, function.start() + step.start()) + 1
                kind, of = filter(None, step.groups())
                kind = kind.lower().replace("_", " ")
                tree.find(
                    name,
                    line,
                    f"{kind} {of} stands in a function that names no invariant",
                    f"name the one of {where} that breaks without it",
                )


def check_letters(tree):
    """A letter is of one README, so that it names one invariant in the whole tree."""
    owners = {}
    for readme in tree.named("README.md"):
        for number, line in tree.lines(readme):
            for invariant in DEFINED.findall(line):
                owner = owners.setdefault(invariant[0], readme)
                if owner != readme:
                    tree.find(
                        readme,
                        number,
                        f"{invariant}: {invariant[0]} is the letter of {owner}",
                        "take a letter that no other README uses",
                    )


def check_invariants(tree):
    check_letters(tree)
    rooms = [os.path.dirname(name) for name in tree.named("/README.md")]
    every = {invariant: 0 for room in rooms for invariant in defined(tree, room)}
    for room in SERVER_ROOMS:
        check_steps(tree, room, every, "a room's README")
    for room in ROOMS:
        readme = f"{room}/README.md"
        if readme not in tree.texts:
            continue
        known = defined(tree, room)
        used = named(tree, room)
        check_steps(tree, room, known, readme)
        for invariant in used.keys() - known.keys():
            tree.find(*used[invariant], f"{invariant} is not in {readme}", "define it there")
        for invariant in known.keys() - used.keys():
            tree.find(
                readme,
                known[invariant],
                f"no comment in {room} names {invariant}",
                "name it beside the step that keeps it",
            )
