#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# points.sh RUN_SIM [SEEDS]: every race point of the source is reached when an index shrinks, or in
# at most so many runs by --vary of each profile, from seed 1 on.  Those of record stores are for
# litmus_test and ramp_test.

set -u
here=$(dirname "${BASH_SOURCE[0]}")
run_sim=$1
seeds=${2:-80}
batch=10
reached=$(mktemp) || exit 1
trap 'rm -f "$reached"' EXIT

points=$(grep -rhoE --include='*.c' 'nam_race_point\("[^"]+"' \
	"$here"/../../{common,compute,index,kv,memserver} |
	sed -E 's/.*"([^"]+)"/\1/' | grep -vE '^(records|locking)\.' | sort -u)
[ -n "$points" ] || exit 1

# Each point and how often it was reached; fails if one never was.
count_points() {
	awk 'NR == FNR { if ($1 == "point") reached[$2] += $3; next }
		{ print $1, reached[$1] + 0; missed += !reached[$1] }
		END { print FNR " race points, " missed + 0 " never reached"; exit missed > 0 }' \
		"$reached" <(echo "$points")
}

# An index that shrinks: some head nodes come too close to the ones before them.
"$run_sim" --bulk 50 --keys 200 --head-interval 6 --mix 0,0,0,90,5,5 --collects 100 --ops 100 \
	--seed 1 --seeds 5 --points --quiet >>"$reached" || {
	cat "$reached"
	exit 1
}

for ((first = 1; first <= seeds; first += batch)); do
	for profile in strict verbs weak routed; do
		"$run_sim" --profile "$profile" --vary --seed "$first" --seeds "$batch" --points \
			--quiet >>"$reached" || {
			cat "$reached"
			exit 1
		}
	done
	if ! grep -q '^point ' "$reached"; then
		echo "skip: no race points in this build: take the preset dev"
		exit 77
	fi
	if count_points >/dev/null; then
		count_points
		echo "in $((first + batch - 1)) runs of each profile"
		exit 0
	fi
done
count_points
