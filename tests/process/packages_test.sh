#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# example_packages: a table that is rewritten by several processes while others read it.  Its checks
# hold; and would find it if transactions were none.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_CLUSTER NAM_TRANSPORT
packages=$tmp/packages

# stanza NUMBER SOURCE
stanza() {
	printf 'Package: p%d\nSource: s%d (7)\nVersion: 1:2.%d-3\nSection: section%d\n' \
		"$1" "$2" "$1" $(($1 % 7))
	printf 'Installed-Size: %d\nMaintainer: M%d <m@example.org>\nDescription: none\n more\n\n' \
		$(($1 * 10)) $(($1 % 2))
}

# 300 packages of 24 sources, which have 1 to 24 of them; one twice, and what is no package.
catalogue() {
	local number=0 source turn

	for ((turn = 1; turn <= 24; turn++)); do
		for ((source = turn; source <= 24; source++)); do
			stanza $((++number)) "$source"
		done
	done
	stanza 300 24
	printf 'Package: incomplete\nVersion: 1\n\n\n\n'
}

# packages STATUS OPTION...: run it; all rows are there, and all kinds of reads were tried.  Its
# figures are in $out, and in $report for people.
packages() {
	local status=$1
	shift
	expect "$status" example_packages "$cluster" --catalogue "$packages" --json "$tmp/json" "$@"
	report=$out
	out=$(cat "$tmp/json")
	json 'r["packages"] == r["rows"] == 300 and r["sources"] == 24 and r["violations"] == 0 and
		r["entries"] == 900 + r["stale_entries"] and r["wrong"] == 0 and
		r["rows_written"] > r["releases"] > 0 and r["rows_read"] > r["reads"] > 0 and
		r["scans_section"] > 0 and r["scans_size"] > 0 and r["scans_maintainer"] > 0'
}

test_transactions() {
	packages 0 --processes 3 --writers 3 --seconds "$(nam_scaled 2 1)"
	json 'r["processes"] == 3 and r["writers"] == 3 and not r["unsafe"] and
		r["fractured"] == 0 and r["stale_entries"] == 0 and
		{(s["name"], s["packages"]) for s in r["maintainers"]} ==
			{("M0 <m@example.org>", 150), ("M1 <m@example.org>", 150)} and
		sum(s["packages"] for s in r["sections"]) == 5 * 43 and
		r["largest"][0] == {"name": "p300 1:2.300-3", "size_kib": 3000}'
	[[ $report == *"300 packages of 24 sources"*"300 rows, 900 entries, 0 violations"* ]] ||
		fail "figures for people: $report"
}

# Rows one by one: nothing is lost or wrong, but what belongs together is seen apart.
test_unsafe() {
	packages 1 --unsafe --seconds "$(nam_scaled 2 1)"
	json 'r["unsafe"] and r["fractured"] > 0'
	[[ $err == *"of its source"* || $err == *"than the rest of its source"* ]] ||
		fail "it does not say what was fractured: $err"
}

# So many and no more; by one process; and nothing remains of it.
test_options() {
	expect 0 example_packages "$cluster" --catalogue "$packages" --rows 100 --processes 1 \
		--seconds 0.1
	says "100 rows, 300 entries, 0 violations"
	says "1 process with 4 writers"
	expect 0 namctl --cluster "$cluster" index list
	prints ""
	expect 0 namctl --cluster "$cluster" records list
	prints ""
}

test_errors() {
	local wrong

	for wrong in "--rows 0" "--rows -1" "--seconds x" "--seconds 0" "--processes 9" \
		"--writers 1x" --no-such-option another; do
		# shellcheck disable=SC2086	# an option and its value
		expect 2 example_packages "$cluster" $wrong
		says "example_packages --help"
	done
	expect 1 example_packages "$cluster" --catalogue "$tmp/none"
	says "$tmp/none: "
	says "--catalogue wants"
	stanza 1 1 >"$tmp/one"
	expect 1 example_packages "$cluster" --catalogue "$tmp/one"
	says "$tmp/one: no two packages of one source"
	expect 1 example_packages "$cluster" --catalogue "$packages" --seconds 0.1 \
		--json "$tmp/none/json"
	says "$tmp/none/json: "
}

# A process that is killed is missed, and the others end.
test_killed() {
	local first other status=0

	example_packages "$cluster" --catalogue "$packages" --seconds 2 >"$tmp/out" 2>"$tmp/err" &
	first=$!
	until grep -q "by size" "$tmp/out" || ! kill -0 $first; do
		sleep 0.05
	done
	other=$(pgrep -P $first)
	kill -KILL "$other"
	wait $first || status=$?
	[ $status -eq 1 ] || fail "it ended with $status though a process was killed"
	grep -q "another process: it did not end well" "$tmp/err" ||
		fail "it does not say that a process was killed: $(cat "$tmp/err")"
}

catalogue >"$packages"
nam_servers_start 2 --memory 64M --pages 4k || exit 1
test_transactions
test_unsafe
test_options
test_errors
test_killed
nam_servers_stop || fail "the servers did not end well"
finish "packages: transactions are seen whole, and not whole without them"
