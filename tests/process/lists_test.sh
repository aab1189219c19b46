#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients with different server lists, and every kind of structure.  A list names seeds: any of them
# leads to the same memory servers, and one outside of the view is refused until it is added.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

designs="fine coarse hybrid"
engines="chained cuckoo"
keys=1600		# as many again are loaded after the memory server was added

# on LIST COMMAND...: namctl with that list.
on() {
	local list=$1
	shift
	namctl --cluster "$list" "$@"
}

# pairs FIRST LAST: a file of pairs, in no order.  Sets $file.
pairs() {
	file=$tmp/pairs.$1.tsv
	seq "$1" "$2" | awk '{ print $1 "\t" $1 * 3 }' | shuf --random-source=/dev/zero >"$file"
}

# outside COMMAND...: a list with a memory server that is not in the view is refused.
outside() {
	expect 2 "$@"
	says "namctl server add $c"
}

# ---- before the third memory server is added --------------------------------------------------

test_index_outside() {
	local design=$1

	expect 0 on "$a,$b" index create "$design" --design "$design" --node-bytes 256
	pairs 1 $keys
	expect 0 on "$a,$b" load "$design" "$file"
	pairs $((keys + 1)) $((2 * keys))
	outside on "$a,$b,$c" load "$design" "$file"
	outside on "$a,$b,$c" get "$design" 1
	outside on "$c,$b,$a" put "$design" 1 5
	outside on "$a,$b,$c" gc "$design"
	same_pairs "$design" $keys "$a,$b" "$b,$a" "$a"
}

test_kv_outside() {
	local engine=$1 key

	expect 0 on "$a,$b" kv create "kv-$engine" --engine "$engine" --mode store --memory 4M
	for key in 1 2 3 4 5 6; do
		expect 0 on "$a,$b" kv put "kv-$engine" "key$key" "old$key"
		outside on "$a,$b,$c" kv put "kv-$engine" "key$key" "new$key"
	done
	outside on "$a,$b,$c" kv drop "kv-$engine"
	same_values "$engine" old "$a,$b" "$b" "$a"
}

test_tables_outside() {
	expect 0 example_orders "$a,$b"
	expect 1 example_orders "$a,$b,$c"
	says "namctl server add $c"
	outside on "$a,$b,$c" table verify orders
	outside on "$a,$b,$c" records stat shop
	outside nam-bench ramp --cluster "$a,$b,$c" --keys 30 --ops 200
	same_tables "$a,$b" "$b,$a" "$a"
}

# ---- after ------------------------------------------------------------------------------------

# same_pairs INDEX COUNT LIST...: with each list the index has these pairs, and is whole.
same_pairs() {
	local index=$1 count=$2 list
	shift 2
	seq 1 "$count" | awk '{ print $1 "\t" $1 * 3 }' >"$tmp/wanted"
	for list in "$@"; do
		expect 0 on "$list" get "$index" "$count"
		prints $((count * 3))
		expect 1 on "$list" get "$index" $((count + 1))
		on "$list" range "$index" - - >"$tmp/got" 2>"$tmp/err" ||
			fail "$index by $list: $(cat "$tmp/err")"
		cmp -s "$tmp/wanted" "$tmp/got" ||
			fail "$index by $list: $(wc -l <"$tmp/got") pairs, other than $count"
		expect 0 on "$list" index verify "$index"
	done
}

# same_values ENGINE TEXT LIST...: what is under the six keys of its store.
same_values() {
	local engine=$1 text=$2 list key
	shift 2
	for list in "$@"; do
		for key in 1 2 3 4 5 6; do
			expect 0 on "$list" kv get "kv-$engine" "key$key"
			prints "$text$key"
		done
		expect 0 on "$list" kv stat "kv-$engine" --json
		json 'r["servers"] == 2 and r["keys"] == 6'
	done
}

# same_tables LIST...: each table has all entries; both have as many rows with each list.
same_tables() {
	local list table rows=()

	for table in orders lines; do
		for list in "$@"; do
			expect 0 on "$list" table verify "$table" --json
			json 'r["violations"] == [] and r["rows"] > 0'
			python json 'r["rows"]'
			rows+=("$value")
		done
		[ "$(printf '%s\n' "${rows[@]}" | sort -u | wc -l)" -eq 1 ] ||
			fail "$table has ${rows[*]} rows by $*"
		rows=()
	done
}

test_add() {
	local list

	expect 0 on "$a,$b" server add "$c"
	for list in "${lists[@]}"; do
		expect 0 on "$list" status --json
		json 'len(r["servers"]) == 3'
	done
	# Again: nothing is left to do.
	expect 0 on "$a" server add "$c"
}

# Each list in turn loads a part; the new nodes lie on the new memory server, too.
test_index_added() {
	local design=$1 from=$((keys + 1)) list
	local part=$((keys / ${#lists[@]}))

	for list in "${lists[@]}"; do
		pairs $from $((from + part - 1))
		expect 0 on "$list" load "$design" "$file"
		from=$((from + part))
	done
	same_pairs "$design" $((2 * keys)) "${lists[@]}"
	expect 0 on "$c" gc "$design"
	same_pairs "$design" $((2 * keys)) "${lists[@]}"
}

test_kv_added() {
	local engine=$1 key

	same_values "$engine" old "${lists[@]}"
	for key in 1 2 3 4 5 6; do
		expect 0 on "${lists[key % ${#lists[@]}]}" kv put "kv-$engine" "key$key" "new$key"
	done
	same_values "$engine" new "${lists[@]}"
}

# Two processes write the same tables by different lists, and check each other's changes.
test_tables_added() {
	local first status=0

	example_orders "$c" >"$tmp/first" 2>&1 &
	first=$!
	expect 0 example_orders "$b,$a"
	wait $first || status=$?
	[ $status -eq 0 ] || fail "example_orders by $c: $(cat "$tmp/first")"
	expect 0 example_orders "$a,$b,$c"
	same_tables "${lists[@]}"
	expect 0 nam-bench ramp --cluster "$c" --keys 30 --ops 200
}

# Structures made now have a part on each memory server, and the list may name any of them.
test_made_after() {
	local design list

	for design in $designs; do
		expect 0 on "$c" index create late --design "$design" --node-bytes 256
		pairs 1 $keys
		expect 0 on "$a" load late "$file"
		same_pairs late $keys "${lists[@]}"
		expect 0 on "$b,$a" index drop late
	done
	expect 0 on "$b" kv create late
	for list in "${lists[@]}"; do
		expect 0 on "$list" kv put late key value
		expect 0 on "$list" kv stat late --json
		json 'r["servers"] == 3 and r["keys"] == 1'
	done
	expect 0 on "$a,$b" kv drop late
}

# By a shorter list than what was written with: no block stays.
test_drop() {
	local design engine

	expect 0 on "$a" status --json
	json 'all(x["carved_bytes"] > x["free_bytes"] for x in r["servers"])'
	for design in $designs; do
		expect 0 on "$a,$b" index drop "$design"
	done
	for engine in $engines; do
		expect 0 on "$a" kv drop "kv-$engine"
	done
	expect 0 on "$b" table drop orders
	expect 0 on "$c" table drop lines
	expect 0 on "$a" records drop shop
	expect 0 on "$c" status --json
	json 'all(x["carved_bytes"] == x["free_bytes"] for x in r["servers"])'
	json 'sum(x["stores"] for x in r["servers"]) == 0'
}

# again ID: its process is killed, and another one comes to its address.
again() {
	kill -KILL "${nam_server_pids[$1]}"
	wait "${nam_server_pids[$1]}" 2>/dev/null
	unset "nam_server_pids[$1]"
	nam_server_start "$1" --memory 32M --region 4M --pages 4k || exit 1
}

# Once the third memory server is restarted, an index with nodes there is lost.
test_restart() {
	expect 0 on "$a" index create lost
	pairs 1 $keys
	expect 0 on "$a" load lost "$file"
	again 2
	for list in "${lists[@]}"; do
		expect 6 on "$list" get lost 1
		says NAM_E_LOST
	done
	expect 0 on "$a" index create found
	expect 0 on "$a" load found "$file"
	same_pairs found $keys "${lists[@]}"
}

# Members' copies of the view are of the lead's life before, and one memory server has none.
test_restart_lead() {
	again 0
	nam_server_start 3 --memory 32M --region 4M --pages 4k || exit 1
	for list in "$b,$(nam_server_address 3)" "$(nam_server_address 3),$b"; do
		expect 5 on "$list" get found 1
		says NAM_E_NOINDEX
	done
}

nam_servers_start 3 --memory 32M --region 4M --pages 4k || exit 1
IFS=, read -r a b c <<<"$cluster"
lists=("$a" "$c" "$b,$a" "$a,$b,$c")
for design in $designs; do
	test_index_outside "$design"
done
for engine in $engines; do
	test_kv_outside "$engine"
done
test_tables_outside
test_add
for design in $designs; do
	test_index_added "$design"
done
for engine in $engines; do
	test_kv_added "$engine"
done
test_tables_added
test_made_after
test_drop
test_restart
test_restart_lead
nam_servers_stop || fail "the servers did not end well"
finish "lists of servers: any one leads to the same cluster"
