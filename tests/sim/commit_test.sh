#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# commit_test.sh: commit.cmake names the commit as it is now, and whether anything was changed
# since.  If there is none, it says so.  It leaves a header alone that says the same already.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v git >/dev/null; then
	echo "skip: git is not installed"
	exit 77
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export GIT_CEILING_DIRECTORIES=$folder GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
failed=0

run() {
	cmake -DSOURCE="$folder/tree" -DHEADER="$folder/commit.h" -P "$here/commit.cmake" || exit 1
}

expect() {
	if ! grep -qx "#define NAM_SIM_COMMIT \"$2\"" "$folder/commit.h"; then
		echo "FAILED: $1: $(cat "$folder/commit.h")"
		failed=1
	fi
}

in_tree() {
	git -C "$folder/tree" -c user.name=nobody -c user.email=nobody@localhost "$@" >/dev/null
}

mkdir "$folder/tree"
run
expect "outside of git" unknown

in_tree -c init.defaultBranch=main init && echo one >"$folder/tree/file" &&
	in_tree add file && in_tree commit -m one
run
first=$(git -C "$folder/tree" rev-parse --short HEAD)
expect "a clean tree" "$first"

touch -d '2001-01-01' "$folder/commit.h"
run
[ "$(stat -c %Y "$folder/commit.h")" = "$(date -d '2001-01-01' +%s)" ] || {
	echo "FAILED: the header was written anew for nothing"
	failed=1
}

echo two >"$folder/tree/file"
run
expect "a changed tree" "$first-dirty"

in_tree commit -a -m two
run
expect "the next commit" "$(git -C "$folder/tree" rev-parse --short HEAD)"
exit $failed
