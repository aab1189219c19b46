#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cases.sh [--verbose] CASE...: run test cases one after the other; on descriptor 3 a line for each
# goes to tests/softroce/run, "case NAME passed|failed|skipped".
#
# A case is a script with 0 for passed and 77 for skipped.  It has a minute, or what a line
# "# timeout: SECONDS" of its says, and must leave no process behind.  Or it is a line of the file
# tests beside this one: a test of tests/run, with memory servers over verbs.

set -u
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/lib/processes.sh
. "$here/../lib/processes.sh"
TAIL_LINES=60

verbose=
if [ "${1:-}" = --verbose ]; then
	verbose=yes
	shift
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# In the guest a control group knows all descendants at once; elsewhere we look for our mark.
group=/sys/fs/cgroup/case.$$
if [ -z "${NAM_SOFTROCE_GUEST:-}" ] || ! mkdir "$group" 2>/dev/null; then
	group=
fi
mark=NAM_SOFTROCE_CASE=$$
# Factor on the time bounds of tests, under emulation.
slowness=${NAM_SOFTROCE_GUEST:+10}

# All hosts are one kernel, and what is tested is the network: but for the case `near`.
export NAM_COLOCATED_ACCESS=0

# Sets $command and $seconds, which it may take.
compose() {
	local program=() design='' transport='' records=''

	if [ -e "$here/cases/$1" ]; then
		seconds=$(sed -n 's/^# timeout: *\([0-9][0-9]*\)$/\1/p' "$here/cases/$1")
		command=(bash "$here/cases/$1")
		return
	fi
	read -r seconds scale < <(sed -nE "s|^$1[[:space:]]+([0-9]+)[[:space:]]+([0-9.]+).*|\1 \2|p" \
		"$here/tests")
	# index/scan_hybrid_range: index/scan with this design.
	if [[ $1 =~ ^(.*)_(coarse|hybrid)_(hash|range|round-robin)$ ]]; then
		set -- "${BASH_REMATCH[1]}"
		design=${BASH_REMATCH[2]}:${BASH_REMATCH[3]}
	fi
	# compute/worker_fetch: compute/worker with this transport; an index is coarse-grained.
	if [[ $1 =~ ^(.*)_(mailbox|fetch)$ ]]; then
		set -- "${BASH_REMATCH[1]}"
		transport=${BASH_REMATCH[2]}
		[[ $1 != index/* ]] || design=coarse:hash
	fi
	# txn/records_star: txn/records with this kind of record store.
	if [[ $1 =~ ^(.*records)_(star|message|small|hybrid|none|2pl)$ ]]; then
		set -- "${BASH_REMATCH[1]}"
		records=${BASH_REMATCH[2]}
	fi
	program=("$NAM_BUILD_DIR/tests/${1//\//_}_test")
	[[ $1 != process/* ]] || program=("${program%_test}")
	[ ! -e "$here/../${1}_test.sh" ] || program=(bash "$here/../${1}_test.sh")
	command=(env "NAM_TEST_FABRIC=verbs:$NAM_LEFT:0" "NAM_TEST_SCALE=$scale"
		"NAM_TEST_SLOWNESS=$slowness" ${design:+"NAM_TEST_DESIGN=$design"}
		${transport:+"NAM_TRANSPORT=$transport"} ${records:+"NAM_TEST_RECORDS=$records"}
		"${program[@]}")
}

# Runs a case; its output goes to the log.
run_case() {
	local command seconds scale

	compose "$1"
	(
		[ -z "$group" ] || echo $BASHPID >"$group/cgroup.procs"
		exec env "$mark" timeout -k 5 "${seconds:-60}" "${command[@]}" </dev/null 2>&1 3>&-
	) | if [ -n "$verbose" ]; then tee "$log"; else cat >"$log"; fi
	return "${PIPESTATUS[0]}"
}

# Fails, and says so, if the case has left processes running.
end_processes() {
	local pid

	if [ -z "$group" ]; then
		nam_end_processes "$mark"
		return
	fi
	[ -s "$group/cgroup.procs" ] || [ -n "$(<"$group/cgroup.procs")" ] || return 0
	while read -r pid; do
		echo "left running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
	done <"$group/cgroup.procs"
	echo 1 >"$group/cgroup.kill"
	return 1
}

failures=0
for name in "$@"; do
	begin=${EPOCHREALTIME/./}
	run_case "$name"
	status=$?
	case $status in
	0) outcome=passed ;;
	77) outcome=skipped ;;
	*) outcome=failed ;;
	esac
	end_processes >>"$log" || outcome=failed
	tenths=$(((${EPOCHREALTIME/./} - begin) / 100000))
	printf '%-8s %-32s %4d.%d s\n' "$outcome" "$name" $((tenths / 10)) $((tenths % 10))
	if [ "$outcome" = failed ]; then
		failures=$((failures + 1))
		case $status in
		124 | 137) echo "  ended by its timeout" ;;
		*) echo "  exit status $status" ;;
		esac
		[ -n "$verbose" ] || grep -vF '[       OK ]' "$log" | tail -n $TAIL_LINES |
			sed 's/^/  | /'
	elif [ -z "$verbose" ]; then
		# Measurements, and reasons of skips.
		sed -n 's/^\(figure\|skip\) /  \1 /p' "$log"
	fi
	echo "case $name $outcome" >&3
done
[ -z "$group" ] || rmdir "$group"
[ $failures -eq 0 ]
