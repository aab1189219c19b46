# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# script.sh -- what every test script begins with: programs in PATH, a folder $tmp of its own, what
# starts memory servers (servers.sh), and words for how commands must end and what they must say.
#
#	set -u
#	# shellcheck source=tests/lib/script.sh
#	. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
#	expect 0 namctl index list
#	prints ""
#	finish "indexes: all as they should be"

PATH=${NAM_BUILD_DIR:?}/bin:$NAM_BUILD_DIR/tests:$PATH
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/temporary.sh
. "$lib/temporary.sh"
# shellcheck source=tests/lib/servers.sh
. "$lib/servers.sh"

failures=0

fail() {
	echo "FAILED: $*" >&2
	failures=$((failures + 1))
}

# expect STATUS COMMAND...: run it; its output goes to $out, its messages to $err.
expect() {
	local wanted=$1 status=0
	shift
	out=$("$@" 2>"$tmp/err") || status=$?
	err=$(cat "$tmp/err")
	[ "$status" -eq "$wanted" ] ||
		fail "'$*' ended with $status instead of $wanted: $out $err"
}

# says TEXT: somewhere in what the last command printed.
says() {
	[[ $out$err == *"$1"* ]] || fail "'$1' was expected in: $out $err"
}

# prints TEXT: that is its output, and nothing else.
prints() {
	[ "$out" = "$1" ] || fail "expected '$1', got '$out'"
}

# json EXPRESSION: of Python, must hold of its output r.
json() {
	python3 -c 'import json, sys; r = json.loads(sys.argv[1]); assert eval(sys.argv[2]), r' \
		"$out" "${1//$'\n'/ }" 2>"$tmp/python" || fail "$1: $(tail -1 "$tmp/python")"
}

# finish TEXT: ends the script; TEXT is what there is to say if nothing has failed.
finish() {
	[ $failures -eq 0 ] || exit 1
	echo "$1"
	exit 0
}
