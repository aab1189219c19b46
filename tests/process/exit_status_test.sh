#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One cause, one exit status: what ends namctl and nam-bench ends them alike, as in common/exit.h.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

small=(--keys 1000 --ops 1000 --quiet)

test_cluster() {
	local bad

	for bad in "nonsense" "@$tmp/no-such-file" "@$tmp" "tcp:host:1"; do
		expect 2 namctl --cluster "$bad" status
		expect 2 nam-bench index --cluster "$bad" "${small[@]}"
		expect 2 nam-bench raw --cluster "$bad" --ops 100
	done
	expect 3 namctl --cluster "shm:$tmp/nobody" status
	expect 3 nam-bench index --cluster "shm:$tmp/nobody" "${small[@]}"
	expect 3 nam-bench raw --cluster "shm:$tmp/nobody" --ops 100
}

test_indexes() {
	expect 0 namctl index create taken
	expect 4 namctl index create taken
	expect 4 nam-bench index --name taken "${small[@]}"
	expect 0 namctl index drop taken
	expect 5 namctl get nowhere 1
	expect 5 nam-bench index --name nowhere --load none "${small[@]}"
	expect 2 namctl index create "two words"
	expect 2 nam-bench index --name "two words" "${small[@]}"
}

test_wrong() {
	expect 0 nam-bench index --name kept --keep "${small[@]}"
	expect 0 namctl delete kept "$(namctl range kept - - --limit 1 | cut -f 1)"
	expect 1 nam-bench index --name kept --load none --mix scan=100 "${small[@]}"
	expect 1 namctl delete kept 1
	expect 0 namctl index drop kept
}

test_full() {
	expect 0 namctl index create full
	seq 1 1000000 | awk '{ print $1 "\t" $1 }' >"$tmp/full.tsv"
	expect 6 namctl load full "$tmp/full.tsv"
	expect 0 namctl index drop full
	expect 6 nam-bench index --keys 1M --ops 1 --quiet
	expect 6 nam-bench index --keys 1000 --ops 2M --mix insert=100 --quiet
	expect 0 namctl index list
	prints ""
}

# A memory server that has died: at the beginning, and under way.
test_dead() {
	local pid status=0

	nam-bench index --keys 1000 --seconds 100 --quiet 2>"$tmp/bench" &
	pid=$!
	sleep 0.5
	nam_servers_kill
	wait $pid || status=$?
	[ $status -eq 3 ] || fail "nam-bench ended with $status: $(cat "$tmp/bench")"
	expect 3 namctl index list
	expect 3 nam-bench index "${small[@]}"
	expect 3 nam-bench raw --ops 100
}

nam_servers_start 2 --memory 8M --region 4M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_cluster
test_indexes
test_wrong
test_full
test_dead
finish "exit statuses: the same for the same causes"
