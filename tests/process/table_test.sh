#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tables from a shell: every command of namctl table over the rows that an example has made.
# Entries are taken away, a store is, and a memory server is restarted.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

test_names() {
	expect 0 namctl table list
	prints ""
	expect 0 example_orders "$cluster"
	expect 0 namctl table list
	prints $'lines\norders'
	expect 0 namctl table list --json
	json 'r == {"tables": ["lines", "orders"]}'
	expect 5 namctl table get nothing x
	says "there is no table 'nothing': namctl table list shows which there are"
	expect 5 namctl table drop nothing
	says "there is no table 'nothing'"
	expect 0 namctl index create people
	expect 2 namctl table stat people
	says "'people' is an index"
	expect 2 namctl get orders 1
	says "'orders' is a table"
	expect 4 namctl kv create orders
	says "taken"
	expect 0 namctl index drop people
	expect 2 namctl table
	says "say create, list, stat, verify, get, put, delete, scan or drop"
	expect 2 namctl table scan orders
	says "usage: namctl table scan NAME COLUMN [LOW [HIGH]]"
	expect 2 namctl table get orders 1000 --limit 1
	says "--limit does not belong to 'get'"
	expect 2 namctl table get orders 1000 --key-type u64
	says "'u64' is not text or hex, as keys of tables are written"
}

# The six orders that are never cancelled are there, each at one customer.
test_rows() {
	local count total customer

	expect 0 namctl table get orders 1000 --json
	json 'r["table"] == "orders" and r["key"] == "1000" and r["found"] and
		r["timestamp"] > 0 and list(r["columns"]) == ["customer", "lines", "total"] and
		r["columns"]["customer"] in ("ada", "grace", "hedy") and
		len(r["columns"]["total"]["hex"]) == 16'
	python json 'r["columns"]["customer"]'
	customer=$value
	python json 'r["columns"]["lines"]'
	count=$value
	python json 'r["columns"]["total"]["hex"]'
	total=$value
	expect 0 namctl table get orders 1000
	prints "customer         $customer
lines            $count
total            0x$total"
	expect 0 namctl --key-type hex table get orders 0x31303030
	says "total            0x$total"
	says "lines            0x3$count"
	expect 0 namctl --quiet table get orders 1000
	prints ""
	expect 1 namctl table get orders none
	says "no such row (NAM_E_NOTFOUND)"
	expect 1 namctl table get orders none --json
	json 'r == {"table": "orders", "key": "none", "found": False}'
	expect 2 namctl --key-type hex table get orders 0x123
	says "'0x123' is not two hexadecimal digits for each byte"
	expect 2 namctl table get orders "$(printf 'k%.0s' {1..248})"
	says "a key of 248 bytes; keys have 1 to 247"
	# The order's row agrees with its lines.
	expect 0 namctl table scan lines order 1000 1000 --json
	json "r['table'] == 'lines' and r['column'] == 'order' and r['count'] == $count and
		[x['key'] for x in r['rows']] == ['1000/%d' % (i + 1) for i in range($count)] and
		sum(int(x['columns']['amount']['hex'], 16) for x in r['rows']) == 0x$total"
}

test_ranges() {
	local all second

	expect 0 namctl table scan orders customer --json
	json 'r["count"] == len(r["rows"]) and 6 <= r["count"] <= 12 and
		len(set(x["key"] for x in r["rows"])) == r["count"] and
		set("100%d" % i for i in range(6)) <= set(x["key"] for x in r["rows"])'
	json '[(x["columns"]["customer"], x["key"]) for x in r["rows"]] ==
		sorted((x["columns"]["customer"], x["key"]) for x in r["rows"])'
	python json 'r["count"]'
	all=$value
	# By numbers, of which some bytes cannot be shown; bounds in digits, one of them open.
	expect 0 namctl table scan orders total --json
	json "r['count'] == $all and [x['columns']['total']['hex'] for x in r['rows']] ==
		sorted(x['columns']['total']['hex'] for x in r['rows'])"
	python json 'sorted(set(x["columns"]["total"]["hex"] for x in r["rows"]))[1]'
	second=$value
	expect 0 namctl --key-type hex table scan orders total - "$second" --json
	json "2 <= r['count'] <= $all and r['rows'][-1]['columns']['total']['hex'] == '$second'"
	expect 0 namctl --key-type hex table scan orders total "0x$second" --json
	json "r['count'] < $all and r['rows'][0]['columns']['total']['hex'] == '$second'"
	expect 0 namctl table scan orders customer --limit 2
	[ "$(wc -l <<<"$out")" -eq 3 ] || fail "two rows and their heading: $out"
	grep -qE '^key +customer +lines +total$' <<<"$out" || fail "no heading: $out"
	grep -qE '^10[01][0-9]  [adeghrcy]+ +[1-4]      0x[0-9a-f]{16}$' <<<"$out" ||
		fail "no row: $out"
	expect 0 namctl table scan orders customer zoe
	[ "$(wc -l <<<"$out")" -eq 1 ] || fail "a row comes after zoe: $out"
	expect 2 namctl table scan orders lines
	says "column 'lines' of table 'orders' has no index; scan by one that has: customer, total"
	expect 2 namctl table scan orders price
	says "table 'orders' has no column 'price'; it has customer, lines, total"
	expect 2 namctl table scan orders customer z a
	says "the low bound is above the high one"
	expect 2 namctl --key-type hex table scan orders total zz
}

# An entry is taken away, with what indexes are looked after with: it is missed.
test_verify() {
	local rows

	expect 0 namctl table stat orders --json
	json 'r["columns"] == ["customer", "lines", "total"] and r["shares_store"] and
		r["record_store"] == "shop" and r["indexes"] == [
		{"column": "customer", "bytes": 16}, {"column": "total", "bytes": 8}] and
		r["entries"] == 2 * r["rows"] + r["stale_entries"] and r["row_bytes"] > 0'
	python json 'r["rows"]'
	rows=$value
	expect 0 namctl table stat orders
	says "index            orders.by.total, of the first 8 bytes"
	says "rows             $rows, "
	says "record store     shop, which other tables may share"
	expect 0 namctl table verify orders
	prints "orders: $rows rows, and each has its entries"
	expect 0 namctl table verify lines --json
	json 'r["violations"] == [] and r["count"] == 0 and r["rows"] > 0'
	python json 'r["stale_entries"]'
	[ "$value" -eq 0 ] || fail "$value entries of rows that were replaced have been left"
	expect 0 namctl --key-type hex range lines.by.order - - --limit 1
	expect 0 namctl --key-type hex delete lines.by.order "${out%%$'\t'*}"
	expect 1 namctl table verify lines
	says "has no entry in the index of column 'order'"
	says "lines: 1 entries are missing among"
	expect 1 namctl table verify lines --json
	json 'r["count"] == 1 and len(r["violations"]) == 1'
	expect 1 namctl --quiet table verify lines
	prints ""
	# A new write of the rows repairs it.
	expect 0 example_orders "$cluster"
	expect 0 namctl table verify lines
}

# Tables give back their memory.  Their shared store stays until it is dropped.
test_drop() {
	expect 0 namctl table drop orders
	says "dropped orders"
	says "once no other table is in that, namctl records drop shop"
	expect 0 namctl table list
	prints lines
	expect 0 namctl table verify lines
	expect 0 namctl index list
	prints $'lines.by.order\nshop.keys'
	# The wrong way round.
	expect 0 namctl records drop shop
	expect 5 namctl table get lines 1000/1
	says "table 'lines' is damaged: there is no record store 'shop'"
	says "namctl table drop lines takes away what is left of it"
	expect 0 namctl table drop lines --json
	json 'r == {"dropped": "lines", "memory_left": False}'
	expect 0 namctl table list
	prints ""
	expect 0 namctl index list
	prints ""
	expect 0 namctl status --json
	json 'all(x["carved_bytes"] == x["free_bytes"] for x in r["servers"])'
}

# The same commands on a serializable table, beside a read-atomic one.
test_isolations() {
	expect 2 namctl table create people name,town --isolation snapshot
	expect 2 namctl table create people name,town --indexes age
	says "--indexes: the table has no column 'age'"
	expect 2 namctl table create people name,town --rows 100
	says "are of serializable tables"
	expect 2 namctl table create people name,town --isolation serializable --row-bytes-max 4k \
		--indexes town
	says "--row-bytes-max: 4096, and 24 for the indexes of the store"
	expect 0 namctl table create people name,town --indexes town --isolation serializable
	prints "created people: serializable, columns name, town"
	expect 4 namctl table create people name
	expect 0 namctl table create places town,size --indexes size:2 --json
	json 'r["isolation"] == "read-atomic" and r["columns"] == ["town", "size"] and
		r["indexes"] == [{"column": "size", "bytes": 2}] and not r["shares_store"]'
	for person in "1 ada london" "2 grace york" "3 hedy london"; do
		# shellcheck disable=SC2086
		expect 0 namctl table put people $person
	done
	expect 0 namctl table put places york york 9 --isolation read-atomic
	expect 2 namctl table put people 4 joan
	says "1 values; table 'people' has 2 columns: name, town"
	expect 0 namctl table put people 1 ada york --json
	json 'r["key"] == "1" and r["timestamp"] > 0'
	expect 0 namctl table get people 1 --isolation serializable
	prints $'name             ada\ntown             york'
	expect 0 namctl table scan people town york york
	prints $'key  name   town\n1    ada    york\n2    grace  york'
	expect 0 namctl table scan places size
	# One is not taken for the other.
	expect 2 namctl table get people 1 --isolation read-atomic
	says "table 'people' is serializable and not read-atomic"
	expect 2 namctl table scan places size --isolation serializable
	says "table 'places' is read-atomic and not serializable"
	expect 2 namctl table create more name --isolation serializable --store places.rows
	expect 0 namctl table create more name --isolation serializable --store shared
	expect 2 namctl table create most name --store shared
	says "'shared' is a store of serializable transactions and not a record store"
	expect 0 namctl table list
	prints $'more\npeople\nplaces'
	expect 0 namctl table delete people 3
	expect 1 namctl table delete people 3
	says "no such row (NAM_E_NOTFOUND)"
	expect 0 namctl table delete places york
	expect 1 namctl table get places york
	expect 0 namctl table stat people
	says "isolation        serializable"
	says "index            people.rows.index0, of the first 16 bytes"
	says "rows             2, "
	says "entries          2, 0 of them"
	expect 0 namctl index verify people.rows.index0
	expect 0 namctl table verify people
	prints "people: 2 rows, and each has its entries"
	# Without an entry scans miss the row, until it is written with another value.
	expect 0 namctl --key-type hex range people.rows.index0 - - --limit 1
	expect 0 namctl --key-type hex delete people.rows.index0 "${out%%$'\t'*}" "${out##*$'\t'}"
	expect 1 namctl table verify people
	says "has no entry in the index of column 'town'"
	expect 0 namctl sweep
	expect 0 namctl table get people 2
	for table in people places more; do
		expect 0 namctl table drop $table
	done
	expect 0 namctl records list
	prints shared
	expect 0 namctl records drop shared
	expect 0 namctl index list
	prints ""
	expect 0 namctl status --json
	json 'all(x["carved_bytes"] == x["free_bytes"] for x in r["servers"])'
}

# A memory server is restarted: what lay there is lost, and told so; the names can be taken away.
test_server_is_restarted() {
	expect 0 example_orders "$cluster"
	expect 0 namctl table create people name,town --indexes town --isolation serializable
	expect 0 namctl table put people 1 ada york
	kill -KILL "${nam_server_pids[1]}"
	wait "${nam_server_pids[1]}" 2>/dev/null
	unset 'nam_server_pids[1]'
	nam_server_start 1 --memory 64M --pages 4k || exit 1
	expect 6 namctl table get orders 1000
	says NAM_E_LOST
	for table in orders lines; do
		expect 0 namctl table drop $table
		says "a memory server was restarted or removed since it was made"
	done
	expect 0 namctl table drop people
	says "a memory server was restarted or removed since it was made"
	expect 0 namctl records drop shop --json
	json 'r == {"dropped": "shop", "memory_left": True}'
	expect 0 namctl table list
	prints ""
	expect 0 example_orders "$cluster"
	expect 0 namctl table verify orders
}

nam_servers_start 2 --memory 64M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_names
test_rows
test_ranges
test_verify
test_drop
test_isolations
test_server_is_restarted
nam_servers_stop || fail "the servers did not end well"
finish "tables: all as they should be"
