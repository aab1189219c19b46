#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# points.sh RUN_SIM [SEEDS]: every race point of the source is reached in so many runs by --vary of
# each profile, from seed 1 on.

set -u
here=$(dirname "${BASH_SOURCE[0]}")
run_sim=$1
seeds=${2:-80}
reached=$(mktemp) || exit 1
trap 'rm -f "$reached"' EXIT

for profile in strict verbs weak routed; do
	"$run_sim" --profile "$profile" --vary --seed 1 --seeds "$seeds" --points --quiet \
		>>"$reached" || {
		cat "$reached"
		exit 1
	}
done
grep -q '^point ' "$reached" || exit 77 # no race points here
points=0
missed=0
while read -r point; do
	points=$((points + 1))
	count=$(awk -v point="$point" '$1 == "point" && $2 == point { n += $3 } END { print n + 0 }' \
		"$reached")
	echo "$point $count"
	[ "$count" -gt 0 ] || missed=$((missed + 1))
done < <(grep -rhoE --include='*.c' 'nam_race_point\("[^"]+"' \
	"$here"/../../{common,compute,index,memserver} |
	sed -E 's/.*"([^"]+)"/\1/' | sort -u)
echo "$points race points, $missed never reached"
[ "$points" -gt 0 ] && [ "$missed" -eq 0 ]
