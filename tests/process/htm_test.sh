#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-memserver --htm: the log says what partitions of stores use.  With RTM transactions commit;
# without RTM and HLE `on` is an error.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_CLUSTER NAM_TRANSPORT

# kind_with WHEN THREADS: starts a memory server; $kind is what it uses, and $commits how many
# transactions of a few changes have committed.
kind_with() {
	nam_servers_start 1 --memory 16M --region 4M --pages 4k --htm "$1" --rpc-threads "$2" ||
		exit 1
	kind=$(sed -n 's/.* event=htm kind=//p' "$tmp/server0.log")
	export NAM_CLUSTER=$cluster
	expect 0 namctl kv create shop --memory 1M --partitions 1 --engine cuckoo
	for key in 1 2 3 4 5 6 7 8; do
		expect 0 namctl kv put shop "$key" "value $key"
		expect 0 namctl kv get shop "$key"
		prints "value $key"
	done
	expect 0 namctl kv stat shop --json
	python json 'r["htm_commits"]'
	commits=$value
	json 'r["puts"] == r["hits"] == 8'
	nam_servers_stop || fail "the server did not end well"
	unset NAM_CLUSTER
}

kind_with off 2
[ "$kind" = none ] || fail "--htm off: $kind"
[ "$commits" -eq 0 ] || fail "--htm off: $commits transactions"
kind_with auto 1
[ "$kind" = none ] || fail "--htm auto, and one handler thread: $kind"
kind_with auto 2
available=$kind
case $available in
rtm | hle) [ "$commits" -gt 0 ] || fail "$available works, and nothing has committed" ;;
none) [ "$commits" -eq 0 ] || fail "none: $commits transactions" ;;
*) fail "--htm auto: '$available'" ;;
esac
if [ "$available" = none ]; then
	expect 2 nam-memserver --insecure --listen "$(nam_server_address 1)" --memory 16M --htm on
	says "this processor has neither RTM nor HLE"
	says "choose auto or off"
else
	kind_with on 1
	[ "$kind" = "$available" ] || fail "--htm on: $kind, and auto: $available"
fi
expect 2 nam-memserver --insecure --listen "$(nam_server_address 1)" --memory 16M --htm maybe
says "--htm: 'maybe' is not known; choose auto, on or off"
finish "--htm: partitions use $available here"
