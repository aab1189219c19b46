# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# page.sh -- the commands of docs/deploying.md, for tests that type them.  A step is a comment that
# names hosts and a title, and the lines below it.

root=$(cd "${lib:?}/../.." && pwd)
page=$root/docs/deploying.md
section=			# the heading above the steps

# The blocks of the section.
block() {
	awk -v section="$section" '/^## / { here = $0 == "## " section; inside = 0 }
		here && /^```/ { inside = $0 == "```sh"; next }
		here && inside' "$page"
}

# step TITLE: its heading and its lines.
step() {
	block | awk -v title="$1" '/^# / { here = substr($0, index($0, ": ") + 2) ~ "^" title }
		here'
}
