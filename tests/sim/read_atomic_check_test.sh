#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# read_atomic_check_test.sh PROGRAM: what it says of texts, and its exit status.

set -u
program=$1
failed=0

# check STATUS WORDS [OPTION]: of the text on standard input.
check() {
	local out status

	out=$("$program" ${3:+"$3"} - 2>&1)
	status=$?
	if [ $status -ne "$1" ] || ! grep -qF -- "$2" <<<"$out"; then
		echo "FAILED: exit status $status, not $1 with \"$2\":"
		echo "$out"
		failed=1
	fi
}

check 0 '3 transactions, 6 reads and writes, 0 violations' <<'END'
w(7,1,0,0)
w(8,2,0,0)
w(7,70,1,1)
w(8,80,1,1)

r( 7, 70, 2, 2 )
w(8,81,1,-1)
END
check 1 'fractured: transaction 2 (session 2) read key 7 = 70 of transaction 1' <<'END'
w(7,1,0,0)
w(8,2,0,0)
w(7,70,1,1)
w(8,80,1,1)
r(7,70,2,2)
r(8,2,2,2)
END
check 1 '1 violations, 1 aborted' <<'END'
w(7,70,1,-1)
r(7,70,2,2)
END
swings=$(printf '%s\n' 'w(7,70,1,1)' 'w(7,71,2,2)' 'r(7,70,3,3)' 'r(7,71,3,4)' 'r(7,70,3,5)')
check 1 'no-order' <<<"$swings"
check 0 '0 violations' --no-monotone-reads <<<"$swings"
check 2 'line 2: not r(key,value,session,txn)' <<'END'
w(7,70,1,1)
x(7,70,2,2)
END
check 2 '1 unusable' <<'END'
w(7,70,1,1)
w(7,70,2,2)
END
check 2 'usage:' --unknown </dev/null
"$program" /nonexistent/file 2>/dev/null
[ $? -eq 2 ] || {
	echo "FAILED: a file that is not there"
	failed=1
}
"$program" --help | grep -q '^usage:' || failed=1
exit $failed
