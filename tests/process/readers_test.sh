#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client with a reader's key, over shm and tcp: it finds what writers put there, and changes
# nothing; the programs say why.  And a writer whose key becomes a reader's while it works.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

unset NAM_KEY
keys=$tmp/keys

# as KEY COMMAND...: namctl with that key.
as() {
	namctl --cluster "$cluster" --key "$tmp/$1" "${@:2}" </dev/null
}

# has KEY TEXT COMMAND...: it succeeds and says that.
has() {
	expect 0 as "$1" "${@:3}"
	says "$2"
}

# denied COMMAND...: the reader may not, and hears why.
denied() {
	expect 3 as reader "$@"
	says "key is for reading"
}

test_indexes() {
	local design i

	for ((i = 1; i <= 40; i++)); do
		printf '%u\t%u\n' "$i" "$((10 * i))"
	done >"$tmp/pairs"
	for design in fine coarse hybrid; do
		has app created index create "$design" --design "$design"
		has app "" load "$design" "$tmp/pairs"
		has reader 70 get "$design" 7
		has reader 400 range "$design" 38 -
		has reader "every invariant holds" index verify "$design"
		denied put "$design" 7 1
		denied delete "$design" 7
		denied gc "$design"
		denied index drop "$design"
		has app 70 get "$design" 7
	done
	denied index create another
}

test_pairs() {
	has app "" kv create pairs --memory 1M
	has app "" kv put pairs color blue
	has reader blue kv get pairs color
	denied kv put pairs color red
	denied kv delete pairs color
	denied kv drop pairs
	has app blue kv get pairs color
}

# Its connections end where they can be ended, and those that come READ only.
test_demoted() {
	local pid status=0

	nam-bench index --cluster "$cluster" --key "$tmp/app" --keys 2000 --fibers 4 --ops 1G \
		--mix update=100 >"$tmp/bench" 2>&1 &
	pid=$!
	until_true eval 'as reader index list 2>/dev/null | grep -q bench'
	sed -i 's/^app write/app read/' "$keys"
	kill -HUP "${nam_server_pids[0]}"
	until_true grep -q "event=reloaded" "$tmp/server0.log"
	until_true grep -q "event=key_removed client=[1-9]" "$tmp/server0.log"
	[ "$1" != shm ] || kill -KILL $pid
	wait $pid 2>/dev/null || status=$?
	[ "$1" = shm ] || [ $status -eq 3 ] || fail "$status instead of 3: $(cat "$tmp/bench")"
	# Its file says that it is a writer's.
	expect 3 as app put fine 7 1
	says "needs that role in its file"
	has reader 70 get fine 7
	sed 's/ write / read /' "$tmp/app" >"$tmp/demoted" && chmod 600 "$tmp/demoted"
	has demoted 70 get fine 7
	sed -i 's/^app read/app write/' "$keys"
}

expect 0 namctl key new "$keys" app "$tmp/app"
expect 0 namctl key new "$keys" reader "$tmp/reader" --role read
for NAM_TEST_FABRIC in shm tcp:127.0.0.1:0; do
	nam_servers_start 1 --memory 64M --pages 4k --keys "$keys" || exit 1
	denied index list # there is no view yet
	test_indexes
	test_pairs
	has reader "$cluster" status
	test_demoted "$NAM_TEST_FABRIC"
	nam_servers_stop || fail "the memory server ended badly"
done
finish "readers: they read, and change nothing"
