# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# script.sh -- the beginning of every test script: programs in PATH, a folder $tmp of its own, and
# servers.sh, which starts memory servers.  Its words say how commands must end and what they must
# print.
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
out=
err=

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

# await COMMAND...: until it succeeds, for 20 s or more; else 1.
await() {
	local i

	for ((i = 0; i < 400 * ${NAM_TEST_SLOWNESS:-1}; i++)); do
		"$@" && return 0
		sleep 0.05
	done
	return 1
}

# until_true COMMAND...
until_true() {
	await "$@" || fail "never: $*"
}

# A Python that stays, for to start one takes longer than most commands that are tested.
python_start() {
	coproc python_server {
		exec python3 -c '
import csv, json, sys
n = float
pending = b""
while True:
	while pending.count(b"\0") < 3:
		more = sys.stdin.buffer.read1(1 << 16)
		if not more:
			sys.exit()
		pending += more
	kind, text, expression, pending = pending.split(b"\0", 3)
	try:
		r = (json.loads(text) if kind == b"json" else
			list(csv.DictReader(text.decode().splitlines())))
		answer = str(eval(expression.decode()))
	except Exception as error:
		answer = repr(error)
	print(" ".join(answer.split()), flush=True)
'
	}
}

# python KIND EXPRESSION: with r for what the last command printed, KIND is json, or csv: its rows;
# n() makes a number of text.  Sets $value.
python() {
	[ -n "${python_server_PID:-}" ] || python_start
	value=
	printf '%s\0%s\0%s\0' "$1" "$out" "${2//$'\n'/ }" >&"${python_server[1]}"
	read -r value <&"${python_server[0]}" || fail "$2: Python has ended"
}

# json EXPRESSION: must hold of the JSON r.
json() {
	python json "bool($1)"
	[ "$value" = True ] || fail "$1: $value, of $out"
}

# finish TEXT: ends the script; TEXT is what there is to say if nothing has failed.
finish() {
	[ $failures -eq 0 ] || exit 1
	echo "$1"
	exit 0
}
