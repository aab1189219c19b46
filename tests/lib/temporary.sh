# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# temporary.sh -- a folder of its own for a test script, gone when the script ends.

# Sets $tmp.  A test that has more to clean up replaces the trap and calls nam_temporary_remove.
nam_temporary_remove() {
	rm -rf "$tmp"
}

tmp=$(mktemp -d "${TMPDIR:-/tmp}/nam-test-XXXXXX") || exit 1
trap nam_temporary_remove EXIT
