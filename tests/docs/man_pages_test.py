#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages say what --help says: the same options, with the same arguments, and exit statuses.

Needs NAM_BUILD_DIR.  Where mandoc is installed, it must find nothing wrong.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

BIN = os.path.join(os.environ["NAM_BUILD_DIR"], "bin")
MAN = os.path.join(os.environ["NAM_BUILD_DIR"], "share", "man", "man1")

# Program, and how its man page is divided: heading of a .Ss, and the words that ask for that help.
PAGES = {
    "nam-memserver": {None: []},
    "namctl": {None: []},
    "nam-steward": {None: []},
    "nam-bench": {"nam-bench": [], "nam-bench raw": ["raw"], "nam-bench index": ["index"],
                  "nam-bench rpc": ["rpc"], "nam-bench kv": ["kv"], "nam-bench pilaf": ["pilaf"],
                  "nam-bench connect": ["connect"], "nam-bench cuckoo": ["cuckoo"],
                  "nam-bench ramp": ["ramp"], "nam-bench txn": ["txn"]},
    "nam-bench-peers": {None: []},
}

# Their exit statuses are those of common/exit.h.
ALIKE = ["namctl", "nam-bench", "nam-bench-peers"]

failures = 0


def fail(text):
    global failures
    print(f"FAILED: {text}")
    failures += 1


def help_text(program, words):
    command = [os.path.join(BIN, program), *words, "--help"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def help_options(text):
    """{"--name": argument in lower case or ""} of the lines that define an option."""
    options = {}
    for line in text.split("\n"):
        if not re.match(r" +--?[A-Za-z]", line):
            continue
        definition = re.split(r"(?<=\S)  +", line.strip())[0]
        for part in definition.split(", "):
            words = part.replace("=", " ").split(" ")
            options[words[0]] = " ".join(words[1:]).lower()
    return options


def exit_statuses(text):
    """The last paragraph, as one line."""
    return " ".join(text[text.index("Exit status") :].split())


def help_statuses(text):
    return set(re.findall(r"[;,:] (\d+) ", exit_statuses(text)))


def man_options(text):
    """The same of mdoc's items: ".It Fl l , Fl -listen Ar address"."""
    options = {}
    for line in text.split("\n"):
        if not line.startswith(".It Fl"):
            continue
        flags = re.findall(r"Fl (\S+)", line)
        argument = re.search(r"Ar (.*)$", line)
        for flag in flags:
            options["-" + flag] = argument.group(1).lower() if argument else ""
        for flag in flags[:-1]:  # the short form stands alone in --help
            options["-" + flag] = ""
    return options


def man_statuses(text):
    section = re.search(r"^\.Sh EXIT STATUS\n(.*?)^\.Sh", text, re.M | re.S).group(1)
    return set(re.findall(r"^\.It (\d+)", section, re.M))


def compare(where, ours, theirs):
    for name in sorted(set(ours) | set(theirs)):
        if name not in theirs:
            fail(f"{where}: {name} is in --help and not in the man page")
        elif name not in ours:
            fail(f"{where}: {name} is in the man page and not in --help")
        elif ours[name] != theirs[name]:
            fail(f"{where}: {name}: --help has '{ours[name]}', the man page '{theirs[name]}'")


def check_page(program, parts):
    with open(os.path.join(MAN, program + ".1"), encoding="utf-8") as file:
        man = file.read()
    sections = dict(re.findall(r"^\.Ss (nam-[^\n]*)\n(.*?)(?=^\.S[sh])", man, re.M | re.S))
    count = 0
    for heading, words in parts.items():
        text = help_text(program, words)
        where = " ".join([program, *words])
        ours = help_options(text)
        compare(where, ours, man_options(sections[heading] if heading else man))
        if help_statuses(text) != man_statuses(man):
            fail(
                f"{where}: exit statuses: --help has {sorted(help_statuses(text))}, "
                f"the man page {sorted(man_statuses(man))}"
            )
        count += len(ours)
    print(f"{program}: {count} options")


def check_statuses():
    """Programs that fail alike end alike, and say so in the same words."""
    helps, pages = set(), set()
    for program in ALIKE:
        for words in PAGES[program].values():
            text = help_text(program, words)
            helps.add(exit_statuses(text))
        with open(os.path.join(MAN, program + ".1"), encoding="utf-8") as file:
            man = file.read()
        pages.add(re.search(r"^\.Sh EXIT STATUS\n(.*?)^\.El", man, re.M | re.S).group(1))
    if len(helps) != 1 or len(pages) != 1:
        fail(f"{' and '.join(ALIKE)} have other exit statuses, or other words for them")


def check_lint():
    if not shutil.which("mandoc"):
        print("mandoc is not installed: the markup was not checked")
        return
    pages = glob.glob(os.path.join(os.path.dirname(MAN), "man*", "*"))
    pages = sorted(page for page in pages if not os.path.islink(page))
    made = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "style", *pages], capture_output=True, text=True, check=False
    )
    # Our own pages are not installed where it looks for those that are referred to.
    lines = [x for x in made.stdout.split("\n") if x and "referenced manual not found" not in x]
    if lines:
        fail("mandoc complains\n" + "\n".join(lines))


for name, divided in PAGES.items():
    check_page(name, divided)
check_statuses()
check_lint()
sys.exit(1 if failures else 0)
