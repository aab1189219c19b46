#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# points.sh RUN_SIM [SEEDS]: every race point of the source is reached when an index shrinks, or in
# runs by --vary.  These are at most so many of each profile, from seed 1 on.  Those of record
# stores are reached only by litmus_test and ramp_test, and those of memory that moves by
# litmus_test.  At every race point of what clients do a client dies in one of further runs, but for
# those of `spared`.  No run has a steward: scenes of litmus_steward.c stop stewards at both of
# their points, and kill one at `steward.decided`.

set -u
here=$(dirname "${BASH_SOURCE[0]}")
root=$here/../..
run_sim=$1
tests=$(dirname "$run_sim")/..
seeds=${2:-80}
batch=10
profiles=(strict verbs weak routed)
reached=$(mktemp) || exit 1
trap 'rm -f "$reached"' EXIT

# Where no client can die, and why.
spared='
^server\.		memory servers carry these steps out
^(move|gate|backup|promote|lead)\.	few runs move memory: litmus_move.c, _backup.c, _lead.c
^lease\.		nor is a member silent: litmus_silent.c
^records\.written$	the observer makes the store
^records\.unnamed$	the observer drops it
^table\.found$	the same
^table\.unnamed$	the same
^table\.verify$	nothing has changed yet
^kv\.(created|unnamed)$	the observer makes and drops the store; sweep_objects, sweep_undropped
^kv\.drop_found$	nothing has changed yet
^kv\.(removed|before_head|half_written|kicked|looked|found)$	memory servers
^kv\.(put_large|get_large)$	the same
'

# points_in DIRECTORY...: the names of race points.
points_in() {
	(cd "$root" && grep -rhoE --include='*.c' 'nam_race_point\("[^"]+"' "$@") |
		sed -E 's/.*"([^"]+)"/\1/' | sort -u
}

# mortal DIRECTORY...: those where a client has to die.
mortal() {
	points_in "$@" | grep -vEf <(awk 'NF { print $1 }' <<<"$spared")
}

points=$(points_in common compute index kv memserver |
	grep -vE '^(records|locking|serial|move|gate|backup|promote|lead|lease)\.')
[ -n "$points" ] || exit 1

# Each point and how often it was reached; fails if one never was.
count_points() {
	awk 'NR == FNR { if ($1 == "point") reached[$2] += $3; next }
		{ print $1, reached[$1] + 0; missed += !reached[$1] }
		END { print FNR " race points, " missed + 0 " never reached"; exit missed > 0 }' \
		"$reached" <(echo "$points")
}

# run PROGRAM ARGUMENT...: its race points are added to those reached.
run() {
	"$@" >>"$reached" && return
	cat "$reached"
	exit 1
}

reach_points() {
	local first profile

	# An index that shrinks: some head nodes come too close to the ones before them.
	run "$run_sim" --bulk 50 --keys 200 --head-interval 6 --mix 0,0,0,90,5,5 --collects 100 \
		--ops 100 --seed 1 --seeds 5 --points --quiet
	for ((first = 1; first <= seeds; first += batch)); do
		for profile in "${profiles[@]}"; do
			run "$run_sim" --profile "$profile" --vary --seed "$first" \
				--seeds "$batch" --points --quiet
		done
		if ! grep -q '^point ' "$reached"; then
			echo "skip: no race points in this build: take the preset dev"
			exit 77
		fi
		if count_points >/dev/null; then
			count_points
			echo "in $((first + batch - 1)) runs of each profile"
			return
		fi
	done
	count_points
	exit 1
}

# deadless POINT...: those where no client has died, with commas.
deadless() {
	awk 'NR == FNR { if ($1 == "point") deaths[$2] += $4; next } !deaths[$1]' "$reached" \
		<(printf '%s\n' "$@") | paste -sd,
}

# die_at RUNS COMMAND POINT...: COMMAND PROFILE SEED POINTS, until a client has died at each.
die_at() {
	local command=$2 most=$1 seed profile left

	shift 2
	for ((seed = 1; seed <= most; seed++)); do
		profile=${profiles[seed % ${#profiles[@]}]}
		left=$(deadless "$@")
		[ -n "$left" ] || break
		"$command" "$profile" "$seed" "$left"
	done
	left=$(deadless "$@")
	[ -z "$left" ] || echo "no client dies at $left"
	[ -z "$left" ] && echo "a client dies at each of $# race points, in $((seed - 1)) rounds"
}

index_runs() {
	local first=$((4 * $2))

	run "$run_sim" --profile "$1" --vary --seed $first --seeds 4 --kill-at "$3" --points --quiet
	run "$run_sim" --profile "$1" --seed $first --seeds 4 --kill-at "$3" --points --quiet \
		--bulk 50 --keys 200 --head-interval 6 --mix 0,0,0,90,5,5 --collects 100
	# Others complete what the dead have begun, and die of it.
	run "$run_sim" --profile "$1" --seed $first --seeds 4 --kill-at "$3" --points --quiet \
		--faults kill=1000,race=300000 --clients 6 --keys 100 --mix 40,0,0,30,25,5 \
		--add 1 --sweeps 20
}

kv_runs() {
	run "$run_sim" --profile "$1" --vary --seed $((4 * $2)) --seeds 4 --kv 4 --kill-at "$3" \
		--points --quiet
}

# Others die as they end what one has prepared.
record_runs() {
	run "$tests/sim_ramp_test" "$1" "$2" --kill-at "records.prepared,$3"
	run "$tests/sim_tables_test" "$1" "$2" --kill-at "records.prepared,$3"
}

# Others die as they decide about a transaction.
serial_runs() {
	run "$tests/sim_serial_test" "$1" "$2" --kill-at "serial.logged,$3"
}

reach_points
# shellcheck disable=SC2046	# names are words
die_at 60 index_runs $(mortal compute index) &&
	die_at 60 kv_runs $(mortal kv) &&
	die_at 60 record_runs $(mortal txn | grep -v '^serial\.') &&
	die_at 60 serial_runs $(mortal txn/serial)
