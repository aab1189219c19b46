# SPDX-License-Identifier: Apache-2.0
"""tools/check --self-test: one planted violation of each kind, in a small tree that has none."""

import os
import shutil
import subprocess
import tempfile


LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"

# A tree in which nothing is wrong.
CLEAN = {
    ".clang-format": None,  # ours
    "common/error.h": LICENCE + "int nam_fail(int rc);\n",
    "common/error.c": LICENCE
    + '#include "error.h"\n\n'
    + "int\nnam_fail(int rc)\n{\n\tif (rc)\n\t\treturn -rc;\n\treturn 0;\n}\n",
    "common/retry.c": LICENCE
    + '#include "error.h"\n\n'
    + "int\nnam_retry(int rc)\n{\n\treturn nam_fail(rc);\n}\n",
    "README.md": "# A tree\n\nFor engineers\nwho use no one-sided reads.\n\n[link]("
    + "x" * 100
    + ")\n",
    "compute/remote/epoch.h": LICENCE + '#include "../../common/error.h"\n',
    "compute/remote/lock.h": LICENCE + '#include "../view/changer.h"\n',
    "compute/view/changer.h": LICENCE,
    "compute/worker/worker.c": LICENCE
    + '#include "../remote/epoch.h"\n\n/*\n * Says why: a lock\n * whose CAS succeeded.\n */\n'
    + "static int wh" + "o;\n",
    "index/README.md": "**I1** *Chain.* A range of keys stays reachable.\n",
    "index/index.h": LICENCE + '#include "../common/error.h"\n/* The chain (I1). */\n',
    "index/node/node.h": LICENCE,
    "index/server/tree.h": LICENCE,
    "txn/README.md": "# Transactions\n",
    "index/walk.c": LICENCE
    + '#include "index.h"\n\nint\nnam_walk(int rc)\n{\n\treturn nam_step(rc);\n}\n',
    "index/index_internal.h": LICENCE + '#include "../compute/remote/epoch.h"\n',
    "memserver/memory.c": LICENCE + '#include "../common/error.h"\n',
    "steward/store.c": LICENCE,
    "tests/lib/x.sh": "# SPDX-License-Identifier: Apache-2.0\n# shellcheck shell=bash\n"
    + "cat <<EOF\n    text\nEOF\nsetpriv --reuid=nobody ls\n",
    "tools/x.py": "# SPDX-License-Identifier: Apache-2.0\nprint('a reader waits')\n",
    "tools/nam.1": ".TH NAM 1\nA reader waits.\n",
    "CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\n",
}

ERROR_C = "common/error.c"
INDEX_H = "index/index.h"
SCRIPT = "tests/lib/x.sh"

# Subjects that say nothing, divided so that this file has none.
HIDDEN = ["n" + "obody", "some" + "body", "any" + "body", "any" + "one", "every" + "body"]
HIDDEN += ["every" + "one", "some" + "one", "n" + "o one", "n" + "o\n * one", "w" + "hoever"]
HIDDEN += ["w" + "homever"]


def instead(old, new):
    """The text with the one for the other."""
    return lambda text: text.replace(old, new)


# (where, file, what is added to it or how its text changes): each with a hidden subject
HIDDEN_IN = [
    ("a document", "README.md", "W" + "ho reads waits.\n"),
    ("a comment", ERROR_C, "/* The writer knows that h" + "e waits. */\n"),
    ("a message", ERROR_C, '\nstatic const char text[] = "any' + 'body may read";\n'),
    (
        "a message of two literals",
        ERROR_C,
        '\nstatic const char text[] = "n' + 'o "\n\t"one may read";\n',
    ),
    (
        "the second line of a message",
        ERROR_C,
        '\nstatic const char text[] = "It waits.\\nW' + 'hat it reads is old.";\n',
    ),
    ("printed text", SCRIPT, "echo 'read by n" + "obody'\n"),
    (
        "the second line of printed text",
        SCRIPT,
        "printf 'It waits.\\nW" + "hat it reads is old.'\n",
    ),
    ("a here-document", SCRIPT, instead("    text", "    n" + "obody")),
    ("text of Python", "tools/x.py", instead("a reader", "some" + "one")),
    (
        "a comment of Python",
        "tools/x.py",
        instead("\nprint", "\n# It waits for wh" + "o asks.\nprint"),
    ),
    ("a man page", "tools/nam.1", instead("A reader", "Every" + "one")),
    ("CMake", "CMakeLists.txt", "# For wh" + "o builds a part.\n"),
    *[(repr(w), ERROR_C, f"\n/*\n * It waits until {w} answers.\n */\n") for w in HIDDEN],
]

# (what, file, what is added to it or how its text changes, what the finding must say)
PLANTS = [
    ("trailing blank", ERROR_C, instead("return 0;", "return 0; "), "blanks"),
    ("no newline at the end", ERROR_C, lambda t: t.rstrip("\n"), "no newline"),
    (
        "spaces for indentation",
        ERROR_C,
        instead("\treturn 0;", "        return 0;"),
        "indented by spaces",
    ),
    ("long line", ERROR_C, "/* " + "x" * 98 + " */\n", "columns"),
    ("no licence", ERROR_C, instead(LICENCE, ""), "no licence line"),
    ("no licence in a script", SCRIPT, lambda t: t.split("\n", 1)[1], "no licence line"),
    ("machine path", ERROR_C, "/* see /ho" + "me/user/x.c */\n", "a path of one machine"),
    ("conflict", "README.md", "<" * 7 + " HEAD\n", "a conflict of two versions"),
    ("unfinished", ERROR_C, "/* TO" + "DO: more */\n", "unfinished"),
    (
        "brace on the wrong line",
        ERROR_C,
        instead("nam_fail(int rc)\n{", "nam_fail(int rc) {"),
        "not in our format",
    ),
    ("no blank after if", ERROR_C, instead("if (rc)", "if(rc)"), "not in our format"),
    (
        "include that points up",
        ERROR_C,
        instead('"error.h"', '"error.h"\n#include "../index/index.h"'),
        "common must not include index/index.h",
    ),
    (
        "memory server includes compute",
        "memserver/memory.c",
        '#include "../compute/remote/epoch.h"\n',
        "memserver must not include compute/",
    ),
    (
        "another room's inside",
        "memserver/memory.c",
        '#include "../index/index_internal.h"\n',
        "internal to index",
    ),
    (
        "another room's inside behind a header",
        "index/walk.c",
        '#include "../compute/remote/lock.h"\n',
        "compute/view/changer.h is internal to compute, and BRINGS lacks it",
    ),
    (
        "public header includes a private one",
        INDEX_H,
        '#include "index_internal.h"\n',
        "which is not installed",
    ),
    (
        "verbs outside their provider",
        "compute/worker/worker.c",
        "#include <infiniband/verbs.h>\n",
        "outside the verbs provider",
    ),
    (
        "header that needs another",
        INDEX_H,
        "int nam_size(size_t bytes);\n",
        "does not compile alone with",
    ),
    (
        "public header that is not C++",
        INDEX_H,
        "static inline int\nnam_one(void)\n{\n\treturn (int){ 1 };\n}\n",
        "does not compile alone with g++",
    ),
    (
        "symbol without prefix",
        ERROR_C,
        "\nint helper(void);\nint\nhelper(void)\n{\n\treturn 0;\n}\n",
        "helper is visible outside its file",
    ),
    (
        "library older than a source",
        ERROR_C,
        "/* More. */\n",
        "cmake --build build/dev --target nam_static",
    ),
    ("broken script", SCRIPT, "if true; then\n", "bash cannot parse it"),
    ("what shellcheck warns of", SCRIPT, 'cd "$1"\n', "Use 'cd ... || exit'"),
    ("overlong file", ERROR_C, "/* */\n" * 800, "at most 800"),
    ("overlong header", "common/error.h", "/* */\n" * 300, "at most 300"),
    (
        "overlong function",
        ERROR_C,
        instead("\treturn 0;", "\trc++;\n" * 71 + "\treturn 0;"),
        "nam_fail has",
    ),
    (
        "call cycle",
        ERROR_C,
        instead("\treturn 0;", "\treturn nam_retry(rc);"),
        "a call cycle of 2 modules",
    ),
    (
        "call cycle through a header",
        INDEX_H,
        "static inline int\nnam_step(int rc)\n{\n\treturn nam_walk(rc);\n}\n",
        "a call cycle of 2 modules",
    ),
    (
        "client header behind another",
        "index/server/tree.h",
        '#include "../index.h"\n',
        "code of memory servers includes a header of clients",
    ),
    (
        "client header in code of both sides",
        "index/node/node.h",
        '#include "../index.h"\n',
        "code of memory servers includes a header of clients",
    ),
    (
        "arrow around a corner",
        "memserver/memory.c",
        '#include "../index/index_internal.h"\n',
        "index/index_internal.h -> compute/remote/epoch.h",
    ),
    (
        "simulator in the library",
        ERROR_C,
        "\nint nam__sim_run(void);\nint\nnam__sim_run(void)\n{\n\treturn 0;\n}\n",
        "symbols of the simulator",
    ),
    (
        "flag in a library",
        ERROR_C,
        '\nstatic const char text[] = "too small: raise "\n\t"--memory";\n',
        "a text of a library names the flag --memory",
    ),
    (
        "flag in the library of stewards",
        "steward/store.c",
        '\nstatic const char text[] = "name one with --view-store";\n',
        "a text of a library names the flag --view-store",
    ),
    ("invariant without definition", INDEX_H, "/* Keeps I2. */\n", "I2 is not in index/README.md"),
    (
        "invariant that no code names",
        "index/README.md",
        "| **I2** | Images are whole. |\n",
        "no comment in index names I2",
    ),
    (
        "letter of two rooms",
        "txn/README.md",
        "| **I1** | Images are whole. |\n",
        "I1: I is the letter of index/README.md",
    ),
    (
        "guard without invariant",
        INDEX_H,
        "\nstatic int\ntorn(void)\n{\n\treturn NAM_GUARD(NODE_HASH);\n}\n",
        "guard NODE_HASH stands in a function that names no invariant",
    ),
    (
        "race point without invariant",
        INDEX_H,
        '\nstatic void\nstep(void)\n{\n\tnam_race_point("step.half");\n}\n',
        "race point step.half stands in a function that names no invariant",
    ),
    (
        "race point of a memory server without invariant",
        "memserver/memory.c",
        '\nstatic void\nstep(void)\n{\n\tnam_race_point("step.served");\n}\n',
        "race point step.served stands in a function that names no invariant",
    ),
    ("long sentence", "README.md", "\nA " + "long " * 24 + "sentence.\n", "a sentence of 26 words"),
    (
        "long sentence of a comment",
        INDEX_H,
        "\n/*\n * @rc\tgoes on\n * A " + "long " * 12 + "\n * " + "long " * 12 + "sentence.\n */\n",
        "a sentence of 26 words",
    ),
    ("wide Markdown", "README.md", "word " * 20 + "word\n", "columns"),
    (
        "wide row of a table",
        "README.md",
        "| a row of a table | " + "is wide " * 10 + "|\n",
        "columns",
    ),
    ("free relative clause", ERROR_C, "\n/* The lock goes to wh" + "o asks. */\n", "'wh" + "o'"),
    (
        "free relative clause on the next line",
        ERROR_C,
        "\n/*\n * The lock goes to the first\n * wh" + "o asks.\n */\n",
        "'wh" + "o'",
    ),
    ("question for an object", ERROR_C, "\n/* Says for wh" + "om it waits. */\n", "'wh" + "om'"),
    ("question for an owner", ERROR_C, "\n/* Says wh" + "ose lock it is. */\n", "'wh" + "ose'"),
    (
        "question for an owner at the beginning",
        ERROR_C,
        "\n/* wh" + "ose lock it is */\n",
        "'wh" + "ose'",
    ),
    *[("hidden subject in " + where, *plant, "name the role") for where, *plant in HIDDEN_IN],
]

# New files: (what, file and text of each, what the finding says).
ADDED = [
    ("crowded folder", [(f"common/crowd/part{i}.h", LICENCE) for i in range(21)], "in one folder"),
    ("stray file", [("words", "a list\n")], "in the top folder"),
]

# Findings in the library, which is built anew for each.
OF_LIBRARY = ["helper is visible outside its file", "symbols of the simulator"]

# Findings that need a tool which not every machine has.
TOOLS = {
    "not in our format": "clang-format",
    "Use 'cd ... || exit'": "shellcheck",
    "does not compile alone with g++": "g++",
}


class Planted:
    """A temporary tree under git."""

    def __init__(self, root, home):
        self.root = root
        self.home = home
        for name, text in CLEAN.items():
            self.write(name, self.original(name) if text is None else text)
        subprocess.run(["git", "init", "-q", root], check=True)
        subprocess.run(["git", "-C", root, "add", "-A"], check=True)

    def original(self, name):
        with open(os.path.join(self.home, name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, subject, *branch):
        """Commits the index on a new branch."""
        git = ["git", "-C", self.root, "-c", "user.name=check", "-c", "user.email=check@localhost"]
        subprocess.run([*git, "checkout", "-q", *branch], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)

    def build_library(self):
        """What check_symbols looks at: an archive where a build would have it."""
        library = os.path.join(self.root, "build", "dev", "lib", "libnam.a")
        os.makedirs(os.path.dirname(library), exist_ok=True)
        obj = os.path.join(self.root, "build", "error.o")
        subprocess.run(
            ["gcc", "-c", os.path.join(self.root, "common/error.c"), "-o", obj], check=True
        )
        if os.path.exists(library):
            os.remove(library)
        subprocess.run(["ar", "rc", library, obj], check=True)


def self_test(check_tree, home):
    failures = 0
    root = tempfile.mkdtemp(prefix="nam-check-")
    try:
        tree = Planted(root, home)
        tree.build_library()
        for finding in check_tree(root).findings:
            print(f"FAILED: found in a tree without faults: {finding}")
            failures += 1
        for what, name, change, says in PLANTS:
            tool = TOOLS.get(says)
            if tool and not shutil.which(tool):
                print(f"{what}: not tried, for {tool} is not installed")
                continue
            text = CLEAN[name]
            tree.write(name, text + change if isinstance(change, str) else change(text))
            if says in OF_LIBRARY:
                tree.build_library()
            findings = check_tree(root).findings
            hit = any(
                where in (name, "common/sim") and line > 0 and remedy and says in found + remedy
                for where, line, found, remedy in findings
            )
            print(f"{what}: {'found' if hit else 'NOT FOUND'}")
            failures += not hit
            tree.write(name, CLEAN[name])
            if says in OF_LIBRARY:
                tree.build_library()
        for what, files, says in ADDED:
            for name, text in files:
                tree.write(name, text)
            subprocess.run(["git", "-C", root, "add", "-A"], check=True)
            hit = any(says in found for _, _, found, _ in check_tree(root).findings)
            print(f"{what}: {'found' if hit else 'NOT FOUND'}")
            failures += not hit
        tree.commit("base", "-b", "base")
        tree.commit("A subject " + "that is too long " * 4, "-b", "work", "--track", "base")
        hit = any("a subject of" in found for _, _, found, _ in check_tree(root).findings)
        print(f"long subject: {'found' if hit else 'NOT FOUND'}")
        failures += not hit
    finally:
        shutil.rmtree(root)
    print(f"{len(PLANTS) + len(ADDED) + 1} kinds, {failures} failures")
    return 1 if failures else 0
