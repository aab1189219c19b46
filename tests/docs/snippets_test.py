#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C of docs/c-api.md compiles.

Blocks that define functions stand as they are; the others become bodies of functions that have what
the text says they may assume.  Needs NAM_BUILD_DIR and NAM_SOURCE_DIR.
"""

import os
import re
import subprocess
import sys

SOURCE = os.environ["NAM_SOURCE_DIR"]
INCLUDE = os.path.join(os.environ["NAM_BUILD_DIR"], "include")
DOCUMENT = "docs/c-api.md"

HEAD = """
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <nam/nam.h>
"""

BODY = """
int snippet_{number}(struct nam_client *client, struct nam_worker *worker, struct nam_index *index);
int
snippet_{number}(struct nam_client *client, struct nam_worker *worker, struct nam_index *index)
{{
	unsigned char key[8] = {{ 0 }};
	uint64_t payload = 0;
	int rc = 0;

	(void)client, (void)worker, (void)index, (void)key, (void)payload;
	{{
#line {line} "{document}"
{text}
	}}
	return rc;
}}
"""


def blocks(markdown):
    """(line, text) of each C block."""
    for match in re.finditer(r"^```c\n(.*?)^```$", markdown, re.M | re.S):
        yield markdown.count("\n", 0, match.start()) + 2, match.group(1)


def unit(markdown):
    parts = [HEAD]
    for number, (line, text) in enumerate(blocks(markdown), 1):
        if re.search(r"^\{$", text, re.M):
            parts.append(f'#line {line} "{DOCUMENT}"\n{text}')
        else:
            parts.append(BODY.format(number=number, line=line, document=DOCUMENT, text=text))
    return len(parts) - 1, "".join(parts)


with open(os.path.join(SOURCE, DOCUMENT), encoding="utf-8") as file:
    count, program = unit(file.read())
compiler = os.environ.get("CC", "cc")
made = subprocess.run(
    [compiler, "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    + ["-Wno-unused-but-set-variable", "-fsyntax-only", "-I", INCLUDE, "-x", "c", "-"],
    input=program,
    text=True,
    check=False,
)
print(f"{DOCUMENT}: {count} snippets, {'all compile' if not made.returncode else 'FAILED'}")
sys.exit(made.returncode or count == 0)
