#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Designs of an index from a shell: namctl makes and shows them, nam-bench loads and checks them, by
# each partitioning.  Options that make no sense are refused by name.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_TRANSPORT

test_namctl() {
	expect 0 namctl index create plain
	expect 0 namctl --json index stat plain
	json 'r["design"] == "fine" and r["partitioning"] == "none" and "bounds" not in r'

	expect 0 namctl index create parts --design coarse --bounds 100,2000
	says 'created parts: coarse by range'
	expect 0 namctl index stat parts
	says 'design           coarse, unique'
	says 'parts            by range'
	says 'part 1         from 100'
	says 'part 2         from 2000'
	expect 0 namctl --json index stat parts
	json 'r["design"] == "coarse" and r["partitioning"] == "range"'
	json 'r["bounds"] == [100, 2000]'
	# A key on each side of each bound is found again, in the order of keys.
	printf '%s\t1\n' 1 99 100 1999 2000 9000 >"$tmp/pairs.tsv"
	expect 0 namctl load parts "$tmp/pairs.tsv"
	expect 0 namctl range parts - -
	[ "$out" = "$(cat "$tmp/pairs.tsv")" ] || fail "range parts: $out"
	expect 0 namctl range parts 99 2000 --reverse --limit 3
	[ "$out" = $'2000\t1\n1999\t1\n100\t1' ] || fail "range parts, reverse: $out"
	expect 0 namctl get parts 1999
	expect 0 namctl put parts 1999 5
	expect 0 namctl delete parts 99
	expect 0 namctl index verify parts
	expect 0 namctl gc parts
	expect 0 namctl --json index stat parts
	json 'r["entries"] == 5 and len(r["nodes_by_server"]) == 3'

	# The options of an index, as printed later; a coarse-grained index has no head nodes.
	expect 0 namctl --json index create told --design coarse --bounds 100,2000
	json 'r["partitioning"] == "range" and r["bounds"] == [100, 2000]'
	json '"head_interval" not in r'
	expect 0 namctl --json index stat told
	json 'r["bounds"] == [100, 2000] and "head_interval" not in r'
	expect 0 namctl --json index create named --design hybrid
	json 'r["partitioning"] == "hash" and "bounds" not in r and r["head_interval"] == 32'
	expect 0 namctl index drop told
	expect 0 namctl index drop named

	expect 0 namctl index create words --design coarse --key-bytes 16 --bounds 'h,m\x2cn'
	expect 0 namctl --json index stat words
	json 'r["bounds"] == ["h", "m,n"]'
	expect 0 namctl index create hashed --design coarse
	says 'created hashed: coarse by hash'
	expect 0 namctl index create dealt --design coarse --partition round-robin --non-unique
	expect 0 namctl --json index stat dealt
	json 'r["partitioning"] == "round-robin"'

	# Leaves lie on all memory servers, independent of their keys.
	expect 0 namctl index create mixed --design hybrid --bounds 5,6
	says 'created mixed: hybrid by range'
	seq 1000 2999 | sed 's/$/\t7/' >"$tmp/many.tsv"
	expect 0 namctl load mixed "$tmp/many.tsv"
	expect 0 namctl range mixed - -
	[ "$out" = "$(cat "$tmp/many.tsv")" ] || fail "range mixed: $out"
	expect 0 namctl put mixed 5 1
	expect 0 namctl delete mixed 2000
	expect 0 namctl gc mixed
	expect 0 namctl index verify mixed
	expect 0 namctl --json index stat mixed
	json 'r["design"] == "hybrid" and r["bounds"] == [5, 6] and r["entries"] == 2000'
	json 'len(r["nodes_by_server"]) == 3 and min(r["nodes_by_server"].values()) > 5'

	expect 2 namctl index create x --design bushy
	says "--design: 'bushy' is not known; choose fine, coarse or hybrid"
	expect 2 namctl index create x --design coarse --partition modulo
	says "--partition: 'modulo' is not known"
	expect 2 namctl index create x --bounds 5,6
	says '--bounds: a fine-grained index has no parts'
	expect 2 namctl index create x --partition hash
	says '--partition: a fine-grained index has no parts'
	expect 2 namctl index create x --design coarse --partition hash --bounds 5,6
	says '--bounds: only with --partition range'
	expect 2 namctl index create x --design coarse --partition range
	says 'needs bounds'
	expect 2 namctl index create x --design coarse --bounds 5
	says '--bounds: 1 keys for 3 memory servers: say 2'
	expect 2 namctl index create x --design coarse --bounds 5,6,7
	says '--bounds: 3 keys for 3 memory servers: say 2'
	expect 2 namctl index create x --design coarse --bounds 0,5
	says 'nothing would lie in the first part'
	expect 2 namctl index create x --design coarse --bounds 6,5
	says 'do not ascend'
	expect 2 namctl index create x --design coarse --bounds 5,six
	says '--bounds: '
	expect 2 namctl index create x --design coarse --head-interval 5
	says '--head-interval: a coarse-grained index has no head nodes'
	expect 2 namctl index stat parts --design coarse
	says "--design does not belong to 'stat'"
	expect 0 namctl index list
	[ "$out" = $'dealt\nhashed\nmixed\nparts\nplain\nwords' ] || fail "index list: $out"
	for name in $out; do
		namctl --quiet index drop "$name" || fail "drop $name"
	done
}

# bench EXPRESSION OPTION...: all of it is right, and EXPRESSION holds of the result.
bench() {
	local holds=$1
	shift
	expect 0 nam-bench index --keys 6k --ops 3k --verify --json - "$@"
	json 'r["errors"] == 0 and r["violations"] == 0 and r["ops"] == 3000'
	json "$holds"
}

test_bench() {
	local design how
	for how in range hash round-robin; do
		for design in coarse hybrid; do
			bench 'r["design"] == "'$design'" and r["partitioning"] == "'$how'"' \
				--design $design --partition $how --mix \
				lookup=30,insert=20,delete=20,upsert=10,update=10,scan=10
		done
		bench 'r["per_op"]["round_trips"] >= 1' --design coarse --partition $how \
			--workload tree-b --selectivity 0.05 --non-unique --key-bytes 16
	done
	bench 'r["partitioning"] == "range" and r["per_op"]["round_trips"] == 1' --design coarse \
		--workload tree-a
	for how in mailbox fetch; do
		bench 'r["transport"] == "'$how'" and r["per_op"]["round_trips"] >= 1' \
			--transport $how --design coarse --mix lookup=50,upsert=40,scan=10
	done
	bench 'r["per_op"]["round_trips"] == 2' --design hybrid --workload tree-a --cache-mb 0
	bench '0.99 < r["per_op"]["round_trips"] < 1.3' --design hybrid --workload tree-a
	bench 'r["design"] == "fine" and r["partitioning"] == "none"' --workload tree-c
	bench 'r["shares"] == [70, 20, 10]' --design coarse --shares 70,20,10 --load insert \
		--workload tree-d --collect
	expect 0 nam-bench index --keys 6k --ops 100 --design coarse --shares 70,20,10 --name kept \
		--keep
	says 'index       coarse'
	says 'parts       by range, 70/20/10 % of the loaded keys'
	expect 0 namctl --json index stat kept
	json 'sum(r["nodes_by_server"].values()) > 100'
	json 'r["nodes_by_server"]["0"] > 3 * r["nodes_by_server"]["1"] * 0.9 and
		r["nodes_by_server"]["1"] > 1.5 * r["nodes_by_server"]["2"]'
	expect 0 nam-bench index --keys 6k --ops 1k --load none --name kept --verify --json - --keep
	json 'r["design"] == "coarse" and r["errors"] == 0'
	expect 2 nam-bench index --keys 6k --ops 1k --load none --name kept --design fine
	says "index 'kept' is coarse: leave --design away"
	expect 2 nam-bench index --keys 6k --ops 1k --load none --name kept --design coarse \
		--partition hash
	says "index 'kept' is coarse, partitioning range: leave --partition away"
	expect 2 nam-bench index --keys 6k --load none --name kept --shares 70,20,10
	says '--shares: only of an index that is loaded'

	expect 2 nam-bench index --design bushy
	says "--design: 'bushy' is not known; choose fine, coarse or hybrid"
	expect 2 nam-bench index --design coarse --partition modulo
	says "--partition: 'modulo' is not known"
	expect 2 nam-bench index --partition hash
	says '--partition: a fine-grained index has no parts'
	expect 2 nam-bench index --shares 80,20
	says '--shares: a fine-grained index has no parts'
	expect 2 nam-bench index --design coarse --partition hash --shares 80,20
	says '--shares: only with --partition range'
	expect 2 nam-bench index --design coarse --shares 80,10
	says "'80,10' is 90 per cent in all, not 100"
	expect 2 nam-bench index --design coarse --shares 100,0
	says "--shares: '0' in '100,0' is not a number above 0"
	expect 2 nam-bench index --design coarse --shares 80,,20
	says "--shares: '' in '80,,20' is not a number"
	expect 2 nam-bench index --design coarse --shares 80,20
	says '--shares: 2 shares for 3 memory servers'
	expect 2 nam-bench index --design coarse --cache-mb 4
	says '--cache-mb: a coarse-grained index caches nothing'
	expect 2 nam-bench index --design coarse --head-interval 4
	says '--head-interval: a coarse-grained index has no head nodes'
	expect 2 nam-bench index --rpc-threads 4
	says '--rpc-threads: only with --cluster sim:PROFILE'
	expect 2 nam-bench index --colocate
	says '--colocate: only with --cluster sim:PROFILE'
	expect 2 nam-bench index --cluster sim:connect-ib --design coarse --shares 80,12,8
	says '--shares: 3 shares for 2 memory servers'
}

nam_servers_start 3 --memory 32M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_namctl
test_bench
nam_servers_stop || fail "the servers did not end well"
finish "designs: all as they should be"
