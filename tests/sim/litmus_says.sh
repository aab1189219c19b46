#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# litmus_says.sh LITMUS_TEST: what it prints of a run, of a failing one, and of what is no run.

set -u
litmus=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect STATUS PATTERN ARGUMENT...
expect() {
	local status=$1 pattern=$2 said rc
	shift 2
	said=$("$litmus" "$@" 2>&1)
	rc=$?
	if [ "$rc" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$said"; then
		printf '%s: status %d, and not "%s" but:\n%s\n' "$*" "$rc" "$pattern" "$said"
		failed=$((failed + 1))
	fi
}

expect 0 '^torn_node +entries move' --list
expect 0 'SCENE PROFILE SEED \[GUARD' --help
expect 2 "'nothing' is no scene" nothing verbs 1
expect 2 "'fast' is no profile" torn_node fast 1
expect 2 "'x' is no seed" torn_node verbs x
expect 2 "'hope' is no guard" torn_node verbs 1 hope
expect 2 'usage:' torn_node
expect 1 '^FAILED: ' torn_node verbs 1 node-hash
expect 1 '^scene torn_node, profile verbs, seed 1, guards off: node-hash, commit [^ ]+$' \
	torn_node verbs 1 node-hash
expect 1 '^again: sim_litmus_test torn_node verbs 1 node-hash$' torn_node verbs 1 node-hash

# Every event, twice the same.
expect 0 'note: A: insert\(111\)' stale_parent weak 2 --trace
expect 0 'fault directed: m[0-9]+ READ waits' torn_node routed 1 --trace
"$litmus" stale_parent weak 2 --trace >"$folder/one"
"$litmus" stale_parent weak 2 --trace >"$folder/two"
if ! cmp "$folder/one" "$folder/two"; then
	failed=$((failed + 1))
fi
echo "$failed failures"
[ "$failed" -eq 0 ]
