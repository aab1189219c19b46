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
    "compute/worker/worker.c": LICENCE
    + '#include "../remote/epoch.h"\n\n/*\n * Says why: a lock\n * whose CAS succeeded.\n */\n'
    + "static int wh" + "o;\n",
    "index/README.md": "**I1** *Chain.* A range of keys stays reachable.\n",
    "index/index.h": LICENCE + '#include "../common/error.h"\n/* The chain (I1). */\n',
    "index/server/tree.h": LICENCE,
    "index/index_internal.h": LICENCE + '#include "../compute/remote/epoch.h"\n',
    "memserver/memory.c": LICENCE + '#include "../common/error.h"\n',
    "tests/lib/x.sh": "# SPDX-License-Identifier: Apache-2.0\n# shellcheck shell=bash\n"
    + "cat <<EOF\n    text\nEOF\nsetpriv --reuid=nobody ls\n",
    "tools/x.py": "# SPDX-License-Identifier: Apache-2.0\nprint('a reader waits')\n",
    "tools/nam.1": ".TH NAM 1\nA reader waits.\n",
    "CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\n",
}

# Subjects that say nothing, divided so that this file has none.
HIDDEN = [
    ("n", "obody"),
    ("some", "body"),
    ("any", "body"),
    ("any", "one"),
    ("every", "body"),
    ("every", "one"),
    ("some", "one"),
    ("n", "o one"),
    ("n", "o\n * one"),
    ("w", "hoever"),
    ("w", "homever"),
]


def comment_plant(begin, end):
    """A comment of which that is the subject."""
    word = begin + end
    return (
        f"hidden subject {word!r}",
        "common/error.c",
        lambda t: t + f"\n/*\n * It waits until {word} answers.\n */\n",
        "name the role",
    )


# (what, file, how its text changes, what the finding must say)
PLANTS = [
    ("trailing blank", "common/error.c", lambda t: t.replace("return 0;", "return 0; "), "blanks"),
    ("no newline at the end", "common/error.c", lambda t: t.rstrip("\n"), "no newline"),
    (
        "spaces for indentation",
        "common/error.c",
        lambda t: t.replace("\treturn 0;", "        return 0;"),
        "indented by spaces",
    ),
    (
        "long line",
        "common/error.c",
        lambda t: t + "/* " + "x" * 98 + " */\n",
        "columns",
    ),
    ("no licence", "common/error.c", lambda t: t.replace(LICENCE, ""), "no licence line"),
    ("no licence in a script", "tests/lib/x.sh", lambda t: t.split("\n", 1)[1], "no licence line"),
    (
        "machine path",
        "common/error.c",
        lambda t: t + "/* see /ho" + "me/user/x.c */\n",
        "a path of one machine",
    ),
    ("conflict", "README.md", lambda t: t + "<" * 7 + " HEAD\n", "a conflict of two versions"),
    ("unfinished", "common/error.c", lambda t: t + "/* TO" + "DO: more */\n", "unfinished"),
    (
        "brace on the wrong line",
        "common/error.c",
        lambda t: t.replace("nam_fail(int rc)\n{", "nam_fail(int rc) {"),
        "not in our format",
    ),
    (
        "no blank after if",
        "common/error.c",
        lambda t: t.replace("if (rc)", "if(rc)"),
        "not in our format",
    ),
    (
        "include that points up",
        "common/error.c",
        lambda t: t.replace('"error.h"', '"error.h"\n#include "../index/index.h"'),
        "common must not include index/index.h",
    ),
    (
        "memory server includes compute",
        "memserver/memory.c",
        lambda t: t + '#include "../compute/remote/epoch.h"\n',
        "memserver must not include compute/",
    ),
    (
        "another room's inside",
        "memserver/memory.c",
        lambda t: t + '#include "../index/index_internal.h"\n',
        "internal to index",
    ),
    (
        "public header includes a private one",
        "index/index.h",
        lambda t: t + '#include "index_internal.h"\n',
        "which is not installed",
    ),
    (
        "verbs outside their provider",
        "compute/worker/worker.c",
        lambda t: t + "#include <infiniband/verbs.h>\n",
        "outside the verbs provider",
    ),
    (
        "header that needs another",
        "index/index.h",
        lambda t: t + "int nam_size(size_t bytes);\n",
        "does not compile alone with",
    ),
    (
        "public header that is not C++",
        "index/index.h",
        lambda t: t + "static inline int\nnam_one(void)\n{\n\treturn (int){ 1 };\n}\n",
        "does not compile alone with g++",
    ),
    (
        "symbol without prefix",
        "common/error.c",
        lambda t: t + "\nint helper(void);\nint\nhelper(void)\n{\n\treturn 0;\n}\n",
        "helper is visible outside its file",
    ),
    (
        "library older than a source",
        "common/error.c",
        lambda t: t + "/* More. */\n",
        "cmake --build build/dev --target nam_static",
    ),
    ("broken script", "tests/lib/x.sh", lambda t: t + "if true; then\n", "bash cannot parse it"),
    (
        "what shellcheck warns of",
        "tests/lib/x.sh",
        lambda t: t + 'cd "$1"\n',
        "Use 'cd ... || exit'",
    ),
    ("overlong file", "common/error.c", lambda t: t + "/* */\n" * 800, "at most 800"),
    ("overlong header", "common/error.h", lambda t: t + "/* */\n" * 300, "at most 300"),
    (
        "overlong function",
        "common/error.c",
        lambda t: t.replace("\treturn 0;", "\trc++;\n" * 71 + "\treturn 0;"),
        "nam_fail has",
    ),
    (
        "call cycle",
        "common/error.c",
        lambda t: t.replace("\treturn 0;", "\treturn nam_retry(rc);"),
        "a call cycle of 2 modules",
    ),
    (
        "client header behind another",
        "index/server/tree.h",
        lambda t: t + '#include "../index.h"\n',
        "code of memory servers includes a header of clients",
    ),
    (
        "arrow around a corner",
        "memserver/memory.c",
        lambda t: t + '#include "../index/index_internal.h"\n',
        "index/index_internal.h -> compute/remote/epoch.h",
    ),
    (
        "simulator in the library",
        "common/error.c",
        lambda t: t + "\nint nam__sim_run(void);\nint\nnam__sim_run(void)\n{\n\treturn 0;\n}\n",
        "symbols of the simulator",
    ),
    (
        "invariant without definition",
        "index/index.h",
        lambda t: t + "/* Keeps I2. */\n",
        "I2 is not in index/README.md",
    ),
    (
        "invariant that no code names",
        "index/README.md",
        lambda t: t + "| **I2** | Images are whole. |\n",
        "no comment in index names I2",
    ),
    (
        "guard without invariant",
        "index/index.h",
        lambda t: t + "\nstatic int\ntorn(void)\n{\n\treturn NAM_GUARD(NODE_HASH);\n}\n",
        "guard NODE_HASH stands in a function that names no invariant",
    ),
    ("wide Markdown", "README.md", lambda t: t + "word " * 20 + "word\n", "columns"),
    (
        "wide row of a table",
        "README.md",
        lambda t: t + "| a row of a table | " + "is wide " * 10 + "|\n",
        "columns",
    ),
    ("hidden subject", "README.md", lambda t: t + "W" + "ho reads waits.\n", "name the role"),
    (
        "hidden subject in a comment",
        "common/error.c",
        lambda t: t + "/* The writer knows that h" + "e waits. */\n",
        "name the role",
    ),
    *[comment_plant(*word) for word in HIDDEN],
    (
        "free relative clause",
        "common/error.c",
        lambda t: t + "\n/* The lock goes to wh" + "o asks. */\n",
        "'wh" + "o'",
    ),
    (
        "free relative clause on the next line",
        "common/error.c",
        lambda t: t + "\n/*\n * The lock goes to the first\n * wh" + "o asks.\n */\n",
        "'wh" + "o'",
    ),
    (
        "question for an object",
        "common/error.c",
        lambda t: t + "\n/* Says for wh" + "om it waits. */\n",
        "'wh" + "om'",
    ),
    (
        "question for an owner",
        "common/error.c",
        lambda t: t + "\n/* Says wh" + "ose lock it is. */\n",
        "'wh" + "ose'",
    ),
    (
        "question for an owner at the beginning",
        "common/error.c",
        lambda t: t + "\n/* wh" + "ose lock it is */\n",
        "'wh" + "ose'",
    ),
    (
        "hidden subject in a message",
        "common/error.c",
        lambda t: t + '\nstatic const char text[] = "any' + 'body may read";\n',
        "name the role",
    ),
    (
        "hidden subject in a message of two literals",
        "common/error.c",
        lambda t: t + '\nstatic const char text[] = "n' + 'o "\n\t"one may read";\n',
        "name the role",
    ),
    (
        "hidden subject in the second line of a message",
        "common/error.c",
        lambda t: t + '\nstatic const char text[] = "It waits.\\nW' + 'hat it reads is old.";\n',
        "name the role",
    ),
    (
        "hidden subject in printed text",
        "tests/lib/x.sh",
        lambda t: t + "echo 'read by n" + "obody'\n",
        "name the role",
    ),
    (
        "hidden subject in the second line of printed text",
        "tests/lib/x.sh",
        lambda t: t + "printf 'It waits.\\nW" + "hat it reads is old.'\n",
        "name the role",
    ),
    (
        "hidden subject in a here-document",
        "tests/lib/x.sh",
        lambda t: t.replace("    text", "    n" + "obody"),
        "name the role",
    ),
    (
        "hidden subject printed by Python",
        "tools/x.py",
        lambda t: t.replace("a reader", "some" + "one"),
        "name the role",
    ),
    (
        "hidden subject in a comment of Python",
        "tools/x.py",
        lambda t: t.replace("\nprint", "\n# It waits for wh" + "o asks.\nprint"),
        "name the role",
    ),
    (
        "hidden subject in a man page",
        "tools/nam.1",
        lambda t: t.replace("A reader", "Every" + "one"),
        "name the role",
    ),
    (
        "hidden subject in CMake",
        "CMakeLists.txt",
        lambda t: t + "# For wh" + "o builds a part.\n",
        "name the role",
    ),
]

# A folder with one file too many: (file, text) of each.
CROWD = [(f"common/crowd/part{i}.h", LICENCE) for i in range(21)]

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
            tree.write(name, change(CLEAN[name]))
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
        for name, text in CROWD:
            tree.write(name, text)
        subprocess.run(["git", "-C", root, "add", "-A"], check=True)
        hit = any("in one folder" in found for _, _, found, _ in check_tree(root).findings)
        print(f"crowded folder: {'found' if hit else 'NOT FOUND'}")
        failures += not hit
        tree.commit("base", "-b", "base")
        tree.commit("A subject " + "that is too long " * 4, "-b", "work", "--track", "base")
        hit = any("a subject of" in found for _, _, found, _ in check_tree(root).findings)
        print(f"long subject: {'found' if hit else 'NOT FOUND'}")
        failures += not hit
    finally:
        shutil.rmtree(root)
    print(f"{len(PLANTS) + 2} kinds, {failures} failures")
    return 1 if failures else 0
