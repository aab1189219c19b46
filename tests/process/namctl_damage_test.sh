#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# namctl with damage: the findings of verify, signals while it waits for a lock, and a memory server
# that dies under a load.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

# damaged NAME [HOW]: an index of two levels with something wrong.
damaged() {
	namctl --quiet index create "$1" || fail "create $1"
	seq 1 500 | awk '{ print $1 "\t" $1 }' | namctl --quiet load "$1" - || fail "load $1"
	[ $# -eq 1 ] || damage_tool "$cluster" "$1" "$2" >/dev/null || fail "damage $1"
}

is_there() {
	namctl client list | grep -q " $1 "
}

test_verdicts() {
	local pid

	damaged whole
	expect 0 namctl index verify whole
	says "whole: every invariant holds"
	damaged late separator
	expect 0 namctl index verify late
	says "I7: region"
	says "late: the pairs are all right, but 1 separator is late, which costs "
	says "which costs time and no more; the next reader to pass adds it"
	damaged locked lock
	expect 0 namctl index verify locked
	says "I9: region"
	says "locked: the pairs are all right, but 1 lock is set and 0 separators are late; no "
	says "other client is alive, so a writer died: the next writers of these nodes take the "
	nam-bench raw --memory 1M --seconds 100 --quiet &
	pid=$!
	until_true is_there $pid
	expect 1 namctl index verify locked
	says "; if no client was writing meanwhile, a writer died: the next writers of these "
	kill $pid
	wait $pid
	damaged spoilt hash
	expect 1 namctl index verify spoilt
	says "I2: region"
	says "spoilt: 1 violation of the invariants in index/README.md; if no client was writing"
	says "meanwhile, the index is damaged: load it anew"
	expect 1 namctl --json index verify spoilt
	says '"damaged":	true'
	expect 0 namctl --json index verify locked
	says '"damaged":	false'
}

# Behind a node that a dead client left torn no node is found; the name goes all the same.
test_drop_torn() {
	damaged torn torn
	expect 0 namctl --json index drop torn
	says "one of its nodes cannot be read"
	json 'r == {"dropped": "torn", "nodes_left": True, "blocks_lost": 0, "blocks_waiting": 0}'
	expect 5 namctl index drop torn
}

# catches PID NUMBER: whether the process has a handler for that signal.
catches() {
	local name value caught=0
	while read -r name value; do
		[ "$name" != SigCgt: ] || caught=$value
	done <"/proc/$1/status"
	(( 0x$caught >> ($2 - 1) & 1 ))
} 2>/dev/null

# put_is_told SIGNAL KEY PAUSE: so long after it has a handler; until then the key's leaf is locked.
# Sets $status to how it ended.
put_is_told() {
	local number holder pid
	number=$(kill -l "$1")
	damage_tool "$cluster" held hold <"$tmp/pipe" >"$tmp/held" &
	holder=$!
	exec 9>"$tmp/pipe"
	until grep -q 'done' "$tmp/held"; do sleep 0.01; done
	# The shell has its background commands ignore SIGINT.
	env --default-signal="$1" namctl put held "$2" 7 >"$tmp/out" 2>&1 9>&- &
	pid=$!
	# Before that it dies of the signal, and has begun nothing.
	until catches $pid "$number" || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
	sleep "$3"
	kill -"$1" $pid 2>/dev/null
	exec 9>&-
	wait $holder || fail "the holder ended with $?"
	status=0
	wait $pid || status=$?
}

# A command that is told to end while it waits for a lock finishes what it has begun.
test_signals() {
	local signal key=0 status pause ended
	namctl --quiet index create held || fail "create held"
	mkfifo "$tmp/pipe"
	for signal in INT TERM; do
		ended=$((128 + $(kill -l $signal)))
		# After one of them it is waiting, and has not given up after its second.  On a slow
		# machine it takes longer to begin, and so does the sleep.
		for pause in 0.4 0.2 0.8 0 1.2 1.6 2; do
			key=$((key + 1))
			put_is_told $signal $key $pause
			[ "$status" -ne $ended ] || ! namctl --quiet get held $key >"$tmp/out2" ||
				break
		done
		[ "$status" -eq $ended ] || fail "put ended with $status: $(cat "$tmp/out")"
		expect 0 namctl get held $key
		says 7
	done
	expect 0 namctl index verify held
}

# A closed pipe ends a range, which leaves nothing behind.
test_reader_goes() {
	local statuses
	damaged read
	seq 1000 60000 | awk '{ print $1 "\t" $1 }' | namctl --quiet load read - || fail "load read"
	env --default-signal=PIPE namctl range read - - 2>"$tmp/err" | head -n 1 >"$tmp/out"
	statuses=("${PIPESTATUS[@]}")
	[ "${statuses[0]}" -eq 141 ] || fail "range ended with ${statuses[0]}: $(cat "$tmp/err")"
	[ "$(cat "$tmp/out")" = $'1\t1' ] || fail "range printed $(cat "$tmp/out")"
	expect 0 namctl index verify read
}

test_server_dies_under_load() {
	local pid status=0 i count
	count=$(nam_scaled 1000000 60000)
	namctl --quiet index create dying || fail "create dying"
	# All over the place: in order they go to one leaf, whose memory server might live on.
	seq 1 "$count" | awk '{ print $1 * 7919 % 1000003 "\t" $1 }' >"$tmp/pairs"
	namctl load dying "$tmp/pairs" >"$tmp/out" 2>"$tmp/load.err" &
	pid=$!
	# It stands still while others look: on a slow machine it would be done before they had.
	# With a thousand pairs both memory servers have leaves; with one, the other is not missed.
	for ((i = 0; i < 600; i++)); do
		sleep 0.05
		kill -STOP $pid
		[ "$(namctl range dying - - --limit 1000 2>/dev/null | wc -l)" -lt 1000 ] || break
		kill -CONT $pid
	done
	[ $i -lt 600 ] || fail "no thousand pairs were loaded in $i turns"
	kill -KILL "${nam_server_pids[1]}"
	wait "${nam_server_pids[1]}" 2>/dev/null
	unset "nam_server_pids[1]"
	kill -CONT $pid
	wait $pid || status=$?
	out=$(cat "$tmp/out") err=$(cat "$tmp/load.err")
	[ $status -eq 3 ] || fail "the load ended with $status: $out $err"
	says "$tmp/pairs:"
	says " of $count pairs had been loaded until then; whether they are still there,"
	says "namctl status tells"
}

memory=$(nam_scaled 64 16)
nam_servers_start 2 --memory "${memory}M" --region $((memory / 2))M --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_verdicts
test_drop_torn
test_signals
test_reader_goes
test_server_dies_under_load
finish "namctl: all as it should be"
