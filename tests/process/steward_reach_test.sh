#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A memory server joins that a client does not reach, as it does not admit that client's key.  A
# steward takes the memory server out again, and the client works on.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"

keys=$tmp/keys
export NAM_KEY=$tmp/ops.key

expect 0 namctl key new "$keys" ops "$tmp/ops.key" --role admin
cp "$keys" "$tmp/fewer"
expect 0 namctl key new "$keys" app "$tmp/app.key"
trap 'nam_servers_kill; nam_temporary_remove' EXIT
nam_server_start 0 "${memory[@]}" --keys "$keys" || exit 1
nam_server_start 1 "${memory[@]}" --keys "$tmp/fewer" || exit 1
cluster=$(nam_server_address 0)
expect 0 namctl --cluster "$cluster" index create held
NAM_KEY=$tmp/app.key load_start nam-bench index --cluster "$cluster" --design fine --keys 5k \
	--mix lookup=50,update=50 --seconds 600 --fibers 2 --json -
until_json "r['view'].get('clients') == 1"
expect 3 namctl --cluster "$cluster" --timeout-ms 500 server add "$(nam_server_address 1)"
says "does not reach the memory server"
nam-steward --cluster "$cluster" --interval-ms 20 --lease-ms 1000 --collect-s 0 --fence-ms 1500 \
	>"$tmp/steward.log" 2>&1 &
steward=$!
await grep -q "change=abort id=1" "$tmp/steward.log" || fail "no abort: $(<"$tmp/steward.log")"
grep -q reason=stopped "$tmp/steward.log" && fail "a client was fenced: $(<"$tmp/steward.log")"
load_end 130
kill -TERM $steward
wait $steward || fail "the steward ended with $?"
# With its key it is reached.
cp "$keys" "$tmp/fewer"
kill -HUP "${nam_server_pids[1]}"
until_true grep -q event=reloaded "$tmp/server1.log"
NAM_KEY=$tmp/app.key load_start nam-bench index --cluster "$cluster" --design fine --keys 5k \
	--mix lookup=50,update=50 --seconds 600 --fibers 2 --json -
until_json "r['view'].get('clients') == 1"
expect 0 namctl --cluster "$cluster" server add "$(nam_server_address 1)"
load_end 130
nam_servers_stop || fail "SIGTERM"
finish "a member out of reach: all as it should be"
