#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each example against two memory servers: what it prints, and how it fails.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

test_hello_index() {
	expect 0 example_hello_index "$cluster"
	says "key 2 has payload 200"
	says "key 2 is gone"
	expect 0 example_hello_index "$cluster"
	says "key 3 was there already"
	[ "$(namctl --cluster "$cluster" range hello - -)" = $'1\t100\n3\t300' ] ||
		fail "hello_index left something else than 1 and 3"
}

test_small_cache() {
	expect 0 example_small_cache "$cluster"
	says "20 pages were made for 60 requests"
	says "/page/none: no such key"
	says "/page/3: <h1>/page/3</h1>"
	expect 0 example_small_cache "$cluster"
	says "0 pages were made for 60 requests"
	[ "$(namctl --cluster "$cluster" kv get pages /page/7)" = '<h1>/page/7</h1>' ] ||
		fail "small_cache left no page 7"
}

test_fibers_and_scans() {
	expect 0 example_fibers_and_scans "$cluster"
	says "age 79: person 3999"
	says "4000 people, 500 of them in their thirties"
}

test_many_lookups() {
	expect 0 example_many_lookups "$cluster"
	says "1000000 pairs loaded"
	# A pipeline: each key reads one node of 1 KiB.
	grep -qE '^warm cache +64000 lookups: 1\.00[0-9] round trips, .* 10[0-9]{2} bytes' \
		<<<"$out" || fail "the cost of a lookup with a warm cache"
}

# 60 packages of 20 sources.  Its findings are in packages_test.sh.
test_packages() {
	local i

	for ((i = 0; i < 60; i++)); do
		printf 'Package: p%d\nSource: s%d (1.0)\nVersion: 1.%d\n' "$i" $((i / 3)) "$i"
		printf 'Section: libs\nMaintainer: Ada <ada@example.org>\nInstalled-Size: %d\n\n' \
			$((i * 100))
	done >"$tmp/packages"
	expect 0 example_packages "$cluster" --catalogue "$tmp/packages" --seconds 0.2
	says "60 packages of 20 sources"
	says "0 answers with half of a release"
	says "60 rows, 180 entries, 0 violations"
}

# Two of them at once; then one that does not use transactions, whose checks must fail.
test_orders() {
	local other status=0

	expect 0 example_orders "$cluster"
	says "0 wrong answers"
	timeout 100 example_orders "$cluster" >"$tmp/orders" 2>&1 &
	other=$!
	expect 0 example_orders "$cluster"
	wait $other || status=$?
	cat "$tmp/orders"
	[ $status -eq 0 ] || fail "the other of two example_orders ended with $status"
	expect 1 example_orders "$cluster" apart
	says "order "
	grep -qE '^[1-9][0-9]* wrong answers$' <<<"$out" ||
		fail "rows that are written apart always agreed"
	for table in orders lines; do
		namctl --cluster "$cluster" table verify $table || fail "$table is damaged"
		namctl --cluster "$cluster" table drop $table || fail "$table cannot be dropped"
	done
	namctl --cluster "$cluster" records drop shop || fail "shop cannot be dropped"
}

# Every example says what is wrong and ends with a status of its own.
test_failures() {
	local example=$1

	expect 2 "$example"
	says "Usage: $example"
	expect 0 "$example" --help
	says "$example"
	expect 1 "$example" "$(nam_server_nobody)"
	says "connecting: $(nam_server_nobody)"
}

nam_servers_start 2 --memory 64M --pages 4k || exit 1
for source in "$lib"/../../examples/*.c "$lib"/../../examples/*/main.c; do
	name=$(basename "${source%/main.c}" .c)
	if ! declare -F "test_$name" >/dev/null; then
		fail "examples/$name has no test here"
		continue
	fi
	"test_$name"
	test_failures "example_$name"
done
# Examples remove everything that they make.
[ "$(namctl --cluster "$cluster" index list)" = hello ] || fail "an example left its index behind"
nam_servers_stop || fail "the servers did not end well"
finish "examples: all as it should be"
