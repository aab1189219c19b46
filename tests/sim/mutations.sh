#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mutations.sh RUN_SIM LITMUS_TEST [GUARD]: every guard of common/guard.h turned off; see mutations.

set -u
here=$(dirname "${BASH_SOURCE[0]}")
run_sim=$1
litmus=$2
only=${3:-}
runs=0
failed=0

# run SEED GUARDS ARGUMENT...: 0 if all was well.
run() {
	local seed=$1 guards=$2 program=$3 guard
	shift 3
	if [ "$program" = litmus ]; then
		# shellcheck disable=SC2086
		timeout 60 "$litmus" "$1" "$2" "$seed" "${@:3}" $guards 2>&1
		return
	fi
	if [ "$program" = tables ]; then
		# shellcheck disable=SC2086
		timeout 60 "${litmus%/*}/sim_tables_test" "$1" "$seed" $guards 2>&1
		return
	fi
	for guard in $guards; do
		set -- --guard-off "$guard" "$@"
	done
	timeout 60 "$run_sim" --quiet --seed "$seed" "$@" 2>&1
}

# The violation, in one line.
reason() {
	grep -m 1 -E 'FAILED|Assertion' <<<"$1" | sed -E 's/.*FAILED: //; s/.*(Assertion .*)/\1/' |
		cut -c 1-120
}

if ! "$run_sim" --guard-off lock-cas --ops 0 --quiet >/dev/null 2>&1; then
	echo "skip: guards cannot be turned off in this build: take the preset dev"
	exit 77
fi
while read -r guard seeds program arguments; do
	case $guard in
	'' | '#'*)
		continue
		;;
	esac
	[ -z "$only" ] || [ "$only" = "$guard" ] || continue
	runs=$((runs + 1))
	read -ra words <<<"$arguments"
	found=
	for ((seed = 1; seed <= seeds; seed++)); do
		status=0
		said=$(run "$seed" "$guard" "$program" ${words[@]+"${words[@]}"}) || status=$?
		# 124: out of time, which says nothing.
		if [ $status -ne 0 ] && [ $status -ne 124 ]; then
			found=$seed
			break
		fi
	done
	# With the guard all of them are well: what the guard keeps is there, not its switch only.
	wrong=
	for ((seed = 1; seed <= seeds; seed++)); do
		if ! control=$(run "$seed" '' "$program" ${words[@]+"${words[@]}"}); then
			wrong=$seed
			break
		fi
	done
	# A guard with several lines here may have a line for each seed there.
	# shellcheck disable=SC2016	# backquotes of the list
	stated=$(sed -nE 's/^\* `'"$guard"'` \(([0-9]+ of [0-9]+)\):( .*|$)/\1/p' "$here/README.md")
	if [ -z "$found" ]; then
		echo "$guard: nothing found in $seeds seeds: $program $arguments"
		failed=$((failed + 1))
	elif [ -n "$wrong" ]; then
		echo "$guard: seed $wrong fails with the guard, too: $(reason "$control")"
		failed=$((failed + 1))
	elif ! grep -qxF "$found of $seeds" <<<"$stated"; then
		echo "$guard: seed $found of $seeds, and README.md says ${stated:-nothing}"
		failed=$((failed + 1))
	else
		echo "$guard: seed $found of $seeds: $(reason "$said")"
	fi
done <"$here/mutations"
# A guard without a line is not tested.
while read -r guard; do
	if ! grep -q "^${guard}[[:space:]]" "$here/mutations"; then
		echo "$guard: no line in $here/mutations"
		failed=$((failed + 1))
	fi
done < <(sed -nE 's/^\tX\([A-Z_]+, "([a-z-]+)".*/\1/p' "$here/../../common/guard.h")
echo "$runs guards turned off, $failed not missed"
[ "$runs" -gt 0 ] && [ "$failed" -eq 0 ]
