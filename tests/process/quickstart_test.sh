#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/quickstart where the folder for its sockets is not as hoped, and with wrong options.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/temporary.sh
. "$here/../lib/temporary.sh"
failures=0

fail() {
	echo "FAILED: $*" >&2
	failures=$((failures + 1))
}

# A tree that is built already, on a machine with a dozen packages of four sources.
mkdir -p "$tmp/nam/deploy" "$tmp/nam/tests/lib" "$tmp/nam/build/release" "$tmp/bin" || exit 1
cp "$here/../../deploy/quickstart" "$tmp/nam/deploy/" || exit 1
cp "$here/../lib/packages.sh" "$tmp/nam/tests/lib/" || exit 1
ln -s "${NAM_BUILD_DIR:?}/bin" "$tmp/nam/build/release/bin" || exit 1
cat >"$tmp/bin/cmake" <<'END'
#!/bin/bash
echo "$*" >>"$(dirname "$0")/../cmake.log"
END
cat >"$tmp/bin/apt-cache" <<'END'
#!/bin/bash
for i in {1..12}; do
	printf 'Package: p%d\nSource: s%d\nVersion: 1.%d\nSection: libs\n' \
		"$i" $((i / 4)) "$i"
	printf 'Maintainer: Ada <ada@example.org>\nInstalled-Size: %d\n\n' $((i * 40000))
done
END
chmod +x "$tmp/bin/cmake" "$tmp/bin/apt-cache"
PATH=$tmp/bin:$PATH
quickstart=$tmp/nam/deploy/quickstart

# runs_with TEXT VARIABLE=VALUE...: it ends well, prints TEXT, and leaves no folder.
runs_with() {
	local text=$1 out status=0
	shift
	out=$(env -u XDG_RUNTIME_DIR -u TMPDIR "$@" "$quickstart" --keys 1000 --seconds 0.01 \
		--memory 64M 2>&1) || status=$?
	[ $status -eq 0 ] || fail "$*: ended with $status: $out"
	[[ $out == *"$text"* ]] || fail "$*: no '$text' in: $out"
	[[ $out == *"12 rows, 36 entries, 0 violations"*"No fractured read"* ]] ||
		fail "$*: no table in: $out"
	[[ $out == *"That was it."* ]] || fail "$*: not all of it: $out"
	[[ $out == *"the first time"* ]] || fail "$*: nothing is said before the build: $out"
}

ends_with_2() {
	local out status=0
	out=$("$quickstart" "$@" 2>&1) || status=$?
	[ $status -eq 2 ] || fail "'$*' ended with $status: $out"
	[[ $out == *"--help"* ]] || fail "'$*': no way to help in: $out"
}

ends_with_2 --no-such-option
ends_with_2 --keys
ends_with_2 --keys many
ends_with_2 --seconds -1
ends_with_2 --memory 3

long=$tmp/$(printf 'a%.0s' {1..90})
mkdir "$long" "$tmp/closed" "$tmp/run"
chmod 555 "$tmp/closed"
runs_with "$tmp/no-such" XDG_RUNTIME_DIR="$tmp/no-such"
runs_with "$long: is too long" XDG_RUNTIME_DIR="$long" TMPDIR="$tmp/run"
runs_with "$long: is too long" XDG_RUNTIME_DIR="$tmp/no-such" TMPDIR="$long"
# Root may write anywhere, but what is somebody else's is not for root's sockets either.
if [ "$(id -u)" -eq 0 ]; then
	chown nobody "$tmp/closed"
fi
runs_with "$tmp/closed: " XDG_RUNTIME_DIR="$tmp/closed"
left=$(find "$tmp" -name 'nam-quickstart.*')
[ -z "$left" ] || fail "left behind: $left"

[ $failures -eq 0 ]
