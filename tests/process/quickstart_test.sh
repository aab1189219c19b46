#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/quickstart over shared memory and over TCP.  Cases: no usable folder for its sockets or no
# usable port, after a run that was killed, a user other than root, wrong options.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/processes.sh
. "$lib/processes.sh"

# A tree that is built already, on a machine with a dozen packages of four sources.
mkdir -p "$tmp/nam/deploy" "$tmp/nam/tests/lib" "$tmp/nam/build/release" "$tmp/bin" || exit 1
cp "$lib/../../deploy/quickstart" "$tmp/nam/deploy/" || exit 1
cp "$lib/packages.sh" "$tmp/nam/tests/lib/" || exit 1
ln -s "$NAM_BUILD_DIR/bin" "$tmp/nam/build/release/bin" || exit 1
cat >"$tmp/bin/cmake" <<'END'
#!/bin/bash
echo "$*" >>"$(dirname "$0")/../cmake.log"
END
cat >"$tmp/bin/apt-cache" <<'END'
#!/bin/bash
for i in {1..12}; do
	printf 'Package: p%d\nSource: s%d\nVersion: 1.%d\nSection: libs\n' \
		"$i" $((i / 4)) "$i"
	printf 'Maintainer: Ada <ada@example.org>\nInstalled-Size: %d\n\n' $((i * 40000))
done
END
chmod +x "$tmp/bin/cmake" "$tmp/bin/apt-cache"
PATH=$tmp/bin:$PATH
account=nobody	# a user without rights
quickstart=$tmp/nam/deploy/quickstart

# runs_with TEXT VARIABLE=VALUE...: it ends well, prints TEXT, and leaves no folder.
runs_with() {
	local text=$1 out status=0
	shift
	out=$(env -u XDG_RUNTIME_DIR -u TMPDIR "$@" "$quickstart" "${options[@]}" --keys 1000 \
		--seconds 0.01 --memory 64M 2>&1) || status=$?
	[ $status -eq 0 ] || fail "$*: ended with $status: $out"
	[[ $out == *"$text"* ]] || fail "$*: no '$text' in: $out"
	[[ $out == *"12 rows, 36 entries, 0 violations"*"No fractured read"* ]] ||
		fail "$*: no table in: $out"
	[[ $out == *"That was it."* ]] || fail "$*: not all of it: $out"
	[[ $out == *"the first time"* ]] || fail "$*: nothing is said before the build: $out"
}

options=()

# ends_with_2 OPTION...; what it said is in $out.
ends_with_2() {
	local status=0
	out=$("$quickstart" "$@" 2>&1) || status=$?
	[ $status -eq 2 ] || fail "'$*' ended with $status: $out"
	[[ $out == *"--help"* ]] || fail "'$*': no way to help in: $out"
}

ends_with_2 --no-such-option
ends_with_2 --keys
ends_with_2 --keys many
ends_with_2 --seconds -1
ends_with_2 --seconds 0
ends_with_2 --seconds 0.0
ends_with_2 --seconds 3601
ends_with_2 --memory 3
ends_with_2 --memory 15M
[[ $out == *"needs 16M"* ]] || fail "--memory 15M: $out"
ends_with_2 --fabric
ends_with_2 --fabric ether
[[ $out == *"'ether' is neither shm nor tcp"* ]] || fail "--fabric ether: $out"
ends_with_2 --fabric verbs
[[ $out == *deploying.md* ]] || fail "--fabric verbs: $out"
ends_with_2 --port 7000
ends_with_2 --fabric tcp --port 0
ends_with_2 --fabric tcp --port 65530
out=$("$quickstart" --help) || fail "--help: $out"
[[ $out == *"--fabric NAME"*tcp* ]] || fail "--help says nothing of --fabric: $out"

long=$tmp/$(printf 'a%.0s' {1..90})
mkdir "$long" "$tmp/closed" "$tmp/run"
chmod 555 "$tmp/closed"
runs_with "$tmp/no-such" XDG_RUNTIME_DIR="$tmp/no-such"
runs_with "$long: is too long" XDG_RUNTIME_DIR="$long" TMPDIR="$tmp/run"
runs_with "$long: is too long" XDG_RUNTIME_DIR="$tmp/no-such" TMPDIR="$long"
# Root may write anywhere, but root's sockets avoid other users' folders.
if [ "$(id -u)" -eq 0 ]; then
	chown "$account" "$tmp/closed"
fi
runs_with "$tmp/closed: " XDG_RUNTIME_DIR="$tmp/closed"

# The first port belongs to a memory server of ours: quickstart takes the next two.
next_port_if_taken() {
	local port=$((12000 + $$ % 7000)) pid waited

	nam-memserver --listen "tcp:127.0.0.1:$port" --memory 16M --region 16M --pages 4k \
		>"$tmp/taken" 2>&1 &
	pid=$!
	for ((waited = 0; waited < 300; waited++)); do
		grep -q " ready " "$tmp/taken" && break
		sleep 0.1
	done
	options=(--fabric tcp --port "$port")
	runs_with "127.0.0.1:$((port + 1))" TMPDIR="$tmp/run"
	kill -TERM "$pid" && wait "$pid" || fail "first server at the port: $(cat "$tmp/taken")"
}

# says_why TEXT SCRIPT: what it says when nam-bench ends as that script does.
says_why() {
	local out status=0 build=$tmp/nam/build/release

	mkdir -p "$tmp/other" && ln -sf "$NAM_BUILD_DIR"/bin/* "$tmp/other/"
	rm -f "$tmp/other/nam-bench"
	printf '#!/bin/bash\n%s\n' "$2" >"$tmp/other/nam-bench"
	chmod +x "$tmp/other/nam-bench"
	ln -sfn "$tmp/other" "$build/bin"
	out=$(env -u XDG_RUNTIME_DIR TMPDIR="$tmp/run" "$quickstart" --keys 1000 \
		--memory 64M 2>&1) || status=$?
	ln -sfn "$NAM_BUILD_DIR/bin" "$build/bin"
	[ $status -eq 1 ] || fail "'$2' ended it with $status"
	[[ $out == *"point queries: $1"* ]] || fail "no '$1' in: $out"
}

# killed_midway FABRIC: its memory servers live on until the next run, which ends them.
killed_midway() {
	local mark="NAM_TEST_KILLED=$1-$$" log=$tmp/killed-$1.log pid waited

	env -u XDG_RUNTIME_DIR TMPDIR="$tmp/run" "$mark" "$quickstart" --fabric "$1" \
		--keys 1000 --seconds 300 --memory 64M >"$log" 2>&1 &
	pid=$!
	# However long that takes: quickstart ends by itself if its memory servers do not start.
	until grep -qs "bytes in" "$log"; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL "$pid" 2>/dev/null || fail "$1: quickstart ended early: $(cat "$log")"
	wait "$pid" 2>/dev/null
	[ "$(nam_marked_processes "$mark" | wc -l)" -ge 2 ] ||
		fail "$1: no memory servers outlived the one that was killed: $(cat "$log")"
	options=(--fabric "$1")
	runs_with "after a run that was killed" TMPDIR="$tmp/run"
	# Its benchmark sees its memory servers end.
	for ((waited = 0; waited < 200; waited++)); do
		[ -n "$(nam_marked_processes "$mark")" ] || break
		sleep 0.1
	done
	nam_end_processes "$mark" || fail "$1: the run that was killed left processes behind"
}

# A user without rights to install packages or lock memory, if the build is readable.
as_nobody() {
	local as=(setpriv --reuid="$account" --regid=nogroup --clear-groups)

	chmod 755 "$tmp"
	chmod 666 "$tmp/cmake.log"
	chown "$account" "$tmp/closed"
	chmod 700 "$tmp/closed"
	if ! "${as[@]}" test -x "$tmp/nam/build/release/bin/nam-memserver"; then
		echo "passed over: user $account may not run what was built"
		return
	fi
	options=(--fabric "$1")
	runs_with "over $1" TMPDIR="$tmp/closed" "${as[@]}"
}

options=(--fabric tcp)
runs_with "at tcp:127.0.0.1:" TMPDIR="$tmp/run"
next_port_if_taken
says_why "nam-bench found something wrong" 'exit 1'
says_why "nam-bench does not accept its options" 'exit 2'
says_why "nam-bench was ended by signal KILL" 'kill -KILL $$'
# shellcheck disable=SC2016	# for that script
says_why "memory server 1 has ended (status 137)" 'for at; do
	[[ $at != */bench.json ]] || kill -KILL "$(cat "${at%/*}/server1.pid")"
done
sleep 0.2
exit 3'
killed_midway tcp
killed_midway shm
if [ "$(id -u)" -eq 0 ]; then
	as_nobody tcp
	as_nobody shm
fi
left=$(find "$tmp" -name 'nam-quickstart.*')
[ -z "$left" ] || fail "left behind: $left"

finish "quickstart: all as it should be"
