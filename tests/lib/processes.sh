# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# processes.sh -- find what tests have started, wherever it went.  Daemons leave their process group
# and their session, but they keep their first environment.

# nam_marked_processes MARK: pids of all living processes that have MARK, NAME=VALUE, in their
# environment, but for the calling shell and its subshells.
nam_marked_processes() {
	local environ pid

	for environ in /proc/[0-9]*/environ; do
		pid=${environ#/proc/}
		pid=${pid%/environ}
		case $pid in
		"$$" | "$BASHPID") continue ;;
		esac
		grep -qzxF -- "$1" "$environ" 2>/dev/null || continue
		# A zombie has ended; only its parent has not looked.
		grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || echo "$pid"
	done
}

# nam_end_processes MARK: end them.  Prints one line for each; succeeds when there were none.
nam_end_processes() {
	local pids pid

	pids=$(nam_marked_processes "$1")
	[ -n "$pids" ] || return 0
	for pid in $pids; do
		echo "left running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
		kill -TERM "$pid" 2>/dev/null
	done
	sleep 0.5
	for pid in $(nam_marked_processes "$1"); do
		kill -KILL "$pid" 2>/dev/null
	done
	return 1
}
