#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ramp_plain_test.sh RAMP_TEST READ_ATOMIC_CHECK: histories of runs, written as text, are read again
# whole.  Nothing is wrong with them unless there is no algorithm, or a line was changed.

set -u
ramp=$1
check=$2
file=$(mktemp) || exit 1
trap 'rm -f "$file" "$file.good" "$file.changed"' EXIT
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

# Transactions and lines of which the text consists, but for the loader's.
counted() {
	awk -F '[(,)]' '!($4 == 0 && $5 == 0) { n += $5 == -1 || !seen[$4, $5]++; lines++ }
		END { print n + 0, lines + 0 }' "$file"
}

halves=0
for profile in strict verbs weak routed; do
	for seed in 1 5 17 20 26 30 40; do
		said=$("$ramp" "$profile" "$seed" --plain "$file") || fail "$profile $seed: $said"
		read -r txns lines < <(counted)
		reads=$(sed -nE 's/.* ([0-9]+) reads, .*/\1/p' <<<"$said")
		[ "$txns" -ge "${reads:-1000000}" ] ||
			fail "$profile $seed: $txns transactions, $lines lines, of '$said'"
		found=$("$check" "$file")
		status=$?
		# Without an algorithm halves of transactions are seen, and no order explains that.
		case $said,$status,$found in
		*'served none'*,1,*' fractured'* | *'served none'*,1,*' no-order'*)
			halves=$((halves + 1))
			;;
		*,0,"$txns transactions, "*' 0 violations') cp "$file" "$file.good" ;;
		*) fail "$profile $seed: status $status, $txns transactions written: $found" ;;
		esac
	done
done
[ $halves -gt 0 ] || fail 'halves of transactions, by no algorithm, that the check missed'

# A reader has seen a value without a writer.
sed -E '0,/^r\(([0-9]+),[0-9]+,/s//r(\1,123456789,/' "$file.good" >"$file.changed"
cmp -s "$file.good" "$file.changed" && fail 'no read to be changed'
found=$("$check" "$file.changed")
[ $? -eq 1 ] && grep -q 'thin-air' <<<"$found" || fail "a changed read: $found"

"$ramp" verbs 1 --plain /nonexistent/file >/dev/null 2>&1 && fail 'a file that cannot be written'
"$ramp" --plain "$file" >/dev/null 2>&1 && fail 'a history of which run?'
exit $failed
