#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The units of deploy/systemd, as systemd reads them.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deploy=$here/../../deploy/systemd
# shellcheck source=tests/lib/temporary.sh
. "$here/../lib/temporary.sh"

failures=0

fail() {
	echo "FAILED: $*" >&2
	failures=$((failures + 1))
}

if ! command -v systemd-analyze >/dev/null; then
	echo "systemd is not installed"
	exit 77
fi

# The unit as it is, but for programs and files that are not installed here.
test_unit() {
	local unit=$tmp/nam-memserver@.service

	sed -e "s|^ExecStart=nam-memserver|ExecStart=${NAM_BUILD_DIR:?}/bin/nam-memserver|" \
		-e '/^Documentation=/d' "$deploy/nam-memserver@.service" >"$unit"
	cp "$unit" "$tmp/nam-memserver@0.service"
	# It warns with 0 about words that it does not know.
	SYSTEMD_UNIT_PATH=$tmp: systemd-analyze verify "$tmp/nam-memserver@0.service" \
		>"$tmp/verify" 2>&1 || fail "systemd-analyze: $(cat "$tmp/verify")"
	grep -F nam-memserver "$tmp/verify" && fail "systemd-analyze warns"
}

test_user() {
	systemd-sysusers --dry-run "$deploy/nam.sysusers" >"$tmp/sysusers" 2>&1 ||
		fail "systemd-sysusers: $(cat "$tmp/sysusers")"
}

test_unit
test_user
[ $failures -eq 0 ] || exit 1
echo "unit: all as it should be"
