#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The units of deploy/systemd, as systemd reads them, and what they run.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
deploy=$lib/../../deploy/systemd

if ! command -v systemd-analyze >/dev/null; then
	echo "systemd is not installed"
	exit 77
fi

# The unit as it is, but for programs and files that are not installed here.
test_unit() {
	local unit=$tmp/nam-memserver@.service

	sed -e "s|^ExecStart=nam-memserver|ExecStart=$NAM_BUILD_DIR/bin/nam-memserver|" \
		-e '/^Documentation=/d' "$deploy/nam-memserver@.service" >"$unit"
	cp "$unit" "$tmp/nam-memserver@0.service"
	# It warns with 0 about words that it does not know.
	SYSTEMD_UNIT_PATH=$tmp: systemd-analyze verify "$tmp/nam-memserver@0.service" \
		>"$tmp/verify" 2>&1 || fail "systemd-analyze: $(cat "$tmp/verify")"
	grep -F nam-memserver "$tmp/verify" && fail "systemd-analyze warns"
	sed -e "s|^ExecStart=nam-steward|ExecStart=$NAM_BUILD_DIR/bin/nam-steward|" \
		-e '/^Documentation=/d' "$deploy/nam-steward.service" >"$tmp/nam-steward.service"
	SYSTEMD_UNIT_PATH=$tmp: systemd-analyze verify "$tmp/nam-steward.service" \
		>"$tmp/verify" 2>&1 || fail "systemd-analyze: $(cat "$tmp/verify")"
	grep -F nam-steward "$tmp/verify" && fail "systemd-analyze warns"
}

# The unit's command, with the variables of the example of its environment file, as systemd splits
# them: a memory server that the other example names.
test_options() {
	local port=$((11000 + $$ % 1000 * 20)) environment words waited pid
	local log=$tmp/server.log

	environment=$(sed -n 's/^EnvironmentFile=-//p' "$deploy/nam-memserver@.service" | head -n 1)
	[ "$environment" = /etc/nam/memserver.env ] || fail "the unit has its settings elsewhere"
	sed -n "s/^NAM_MEMSERVER_OPTIONS=//p" "$deploy/memserver.env" >"$tmp/options"
	sed -i "s/:7000/:$port/" "$tmp/options"
	sed -n 's/^ExecStart=//p' "$deploy/nam-memserver@.service" >"$tmp/command"
	grep -q ' \$NAM_MEMSERVER_OPTIONS$' "$tmp/command" || fail "the unit takes no options"
	sed -i "s|/etc/nam/|$tmp/|; s|%i|0|; s|\$NAM_MEMSERVER_OPTIONS|$(cat "$tmp/options")|" \
		"$tmp/command"
	namctl key new "$tmp/keys" app "$tmp/key" --quiet || fail "no key"
	sed "s|10.1.0.11:7000|127.0.0.1:$port|; s|= 64G|= 64M|; s|= 1G|= 64M|; s|/etc/nam/|$tmp/|" \
		"$deploy/../cluster-tcp.ini" >"$tmp/cluster.ini"
	read -ra words <"$tmp/command"
	"${words[@]}" >"$log" 2>&1 &
	pid=$!
	for ((waited = 0; waited < 300; waited++)); do
		grep -q " ready " "$log" && break
		sleep 0.1
	done
	grep -q "ready at tcp:0.0.0.0:$port: .*2 handler threads" "$log" ||
		fail "${words[*]}: $(cat "$log")"
	sed '/server 1/,$d' "$tmp/cluster.ini" >"$tmp/first.ini"
	timeout 30 namctl --cluster "@$tmp/first.ini" --key "$tmp/key" --quiet status ||
		fail "clients do not find what the unit runs"
	grep -qx 'ExecReload=kill -HUP $MAINPID' "$deploy/nam-memserver@.service" ||
		fail "the unit does not reload"
	kill -TERM "$pid"
	wait "$pid" || fail "what the unit runs ended with $?"
}

test_user() {
	systemd-sysusers --dry-run "$deploy/nam.sysusers" >"$tmp/sysusers" 2>&1 ||
		fail "systemd-sysusers: $(cat "$tmp/sysusers")"
}

test_unit
test_options
test_user
finish "unit: all as it should be"
