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
	expect 2 nam-bench index --cluster "shm:/nowhere,tcp:127.0.0.1:9" "${small[@]}"
	says "are on different fabrics"
	expect 2 nam-memserver --listen shm:/nowhere/at/all --listen tcp:127.0.0.1:9
	says "listens at one address"
	expect 3 namctl --cluster "$(nam_server_nobody)" status
	expect 3 nam-bench index --cluster "$(nam_server_nobody)" "${small[@]}"
	expect 3 nam-bench raw --cluster "$(nam_server_nobody)" --ops 100
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

# The lock word of a client that has gone: all fibers meet it, and one message names it.
test_locked() {
	local changes=(--name kept --load none --keys 20 --mix update=100 --ops 64 --quiet)

	expect 0 nam-bench index --name kept --keys 20 --ops 1 --keep --quiet
	expect 0 damage_tool "$cluster" kept orphan
	expect 6 nam-bench index "${changes[@]}"
	says "which died (NAM_E_LOCK_ORPHANED)"
	[ "$(wc -l <<<"$err")" -eq 1 ] || fail "one lock word, several messages: $err"
	expect 0 namctl index drop kept
}

test_full() {
	expect 0 namctl index create full
	seq 1 "$full" | awk '{ print $1 "\t" $1 }' >"$tmp/full.tsv"
	expect 6 namctl load full "$tmp/full.tsv"
	expect 0 namctl index drop full
	expect 6 nam-bench index --keys "$full" --ops 1 --quiet
	expect 6 nam-bench index --keys 1000 --ops $((2 * full)) --mix insert=100 --quiet
	expect 0 namctl index list
	prints ""
}

# signalled NUMBER SECONDS COMMAND...: sets $status to how it ended when told to after so long.  Not
# by the shell: a child of its that a signal finds before its exec runs our trap and cleans up.
signalled() {
	status=$(python3 -c '
import signal, subprocess, sys, time

def as_from_a_terminal():
	signal.signal(signal.SIGINT, signal.SIG_DFL)

with open(sys.argv[1], "w") as said:
	child = subprocess.Popen(sys.argv[4:], stdout=said, stderr=said,
		preexec_fn=as_from_a_terminal)
	time.sleep(float(sys.argv[3]))
	child.send_signal(int(sys.argv[2]))
	status = child.wait()
print(status if status >= 0 else 128 - status)
' "$tmp/signalled" "$@")
}

# seconds COMMAND...: how long it takes, in $took.
seconds() {
	local began=$EPOCHREALTIME
	"$@" >/dev/null 2>&1 || fail "'$*' ended with $?"
	took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
}

# at_any_moment COMMAND...: told to end at some moment, it does, with the status that says so, or it
# was done before.  $after then puts things right.  Some must have been told in time.
at_any_moment() {
	local signal number i told=0

	seconds "$@"
	$after
	for signal in INT TERM; do
		number=$(kill -l $signal)
		for ((i = 0; i < 4; i++)); do
			signalled "$number" \
				"$(awk -v t="$took" -v i=$i 'BEGIN { print t * i / 3 }')" "$@"
			case $status in
			0) ;;
			$((128 + number))) told=$((told + 1)) ;;
			*) fail "'$*', told to end by $signal, ended with $status:" \
				"$(cat "$tmp/signalled")" ;;
			esac
			$after
		done
	done
	[ $told -ge 2 ] || fail "'$*' was never told to end in time"
}

put_back() {
	expect 0 namctl put many 7 7
}

drop_brief() {
	namctl --quiet index drop brief 2>/dev/null
	[[ $? == [05] ]] || fail "an index whose creation was interrupted cannot be dropped"
}

create_brief() {
	drop_brief
	expect 0 namctl index create brief
	expect 0 namctl load brief "$tmp/brief.tsv"
}

# Nothing stays locked, damaged or allocated.
test_signals() {
	local after

	seq 1 "$(nam_scaled 20000 1000)" | awk '{ print $1 "\t" $1 }' >"$tmp/many.tsv"
	head -"$(nam_scaled 2000 500)" "$tmp/many.tsv" >"$tmp/brief.tsv"
	expect 0 namctl index create many
	expect 0 namctl load many "$tmp/many.tsv"
	after=:
	at_any_moment namctl get many 5
	at_any_moment namctl index stat many
	at_any_moment namctl index verify many
	at_any_moment namctl gc many
	after=put_back
	at_any_moment namctl delete many 7
	expect 0 namctl get many 5
	prints 5
	expect 0 namctl index verify many
	after=drop_brief
	at_any_moment namctl index create brief
	create_brief
	after=create_brief
	at_any_moment namctl index drop brief
	expect 0 namctl index drop brief
	expect 0 namctl index drop many
	expect 0 namctl --json status
	json 'all(s["carved_bytes"] == s["free_bytes"] for s in r["servers"])'
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

# More pairs than there is memory for.
full=$(nam_scaled 1000000 125000)
memory=$(nam_scaled 8192 1024)
nam_servers_start 2 --memory "${memory}k" --region $((memory / 2))k --pages 4k || exit 1
export NAM_CLUSTER=$cluster
test_cluster
test_indexes
test_wrong
test_signals
test_full
test_locked
test_dead
finish "exit statuses: the same for the same causes"
