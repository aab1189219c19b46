#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kept_seeds.sh RUN_SIM: every run of kept_seeds once more.

set -u
runs=0
failed=0
while read -r line; do
	case $line in
	'' | '#'*)
		continue
		;;
	esac
	runs=$((runs + 1))
	read -ra arguments <<<"$line"
	if ! "$1" --quiet "${arguments[@]}"; then
		echo "FAILED: run_sim $line"
		failed=$((failed + 1))
	fi
done <"$(dirname "${BASH_SOURCE[0]}")/kept_seeds"
echo "$runs kept runs, $failed failed"
[ "$runs" -gt 0 ] && [ "$failed" -eq 0 ]
