#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/run, with a cmake and a ctest that only wait.  One runs at a time in a build folder; its
# processes end with it, even if it is killed.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
run=$lib/../run

mkdir "$tmp/bin"
printf '#!/bin/bash\n' >"$tmp/bin/cmake"
# A test of it, in a session of its own as a daemon has it, waits for the file "go".
cat >"$tmp/bin/ctest" <<'END'
#!/bin/bash
tmp=$(dirname "$0")/..
setsid sleep 600 &
echo $! >"$tmp/test.pid"
echo $$ >"$tmp/ctest.pid"
until [ -e "$tmp/go" ]; do sleep 0.05; done
kill %1
echo "1/2 Test #1: some/test ....   Passed    0.01 sec"
echo "2/2 Test #2: an/other ....***Skipped   0.01 sec"
mkdir -p "$2/Testing/Temporary"
cat >"$2/Testing/Temporary/LastTest.log" <<'LOG'
1/2 Test: some/test
Output:
----------------------------------------------------------
nothing
<end of output>
2/2 Test: an/other
Output:
----------------------------------------------------------
what it did first
skip: the moon is down
<end of output>
LOG
END
chmod +x "$tmp/bin/cmake" "$tmp/bin/ctest"
PATH=$tmp/bin:$PATH

# wait_for CONDITION...: for at most 30 s.
wait_for() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" && return
		sleep 0.05
	done
	fail "this did not happen in time: $*"
	return 1
}

has_ended() {
	[ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

for preset in nope base ''; do
	status=0
	out=$("$run" --preset "$preset" --build-dir "$tmp/nope" 2>&1) || status=$?
	[ $status -eq 2 ] || fail "--preset '$preset' ended with $status: $out"
	[[ $out == *"no preset '$preset'"* ]] || fail "--preset '$preset': $out"
	[ ! -e "$tmp/nope" ] || fail "--preset '$preset' left a folder"
done

"$run" --build-dir "$tmp/build" >"$tmp/first.log" 2>&1 </dev/null &
first=$!
wait_for test -s "$tmp/ctest.pid" || { cat "$tmp/first.log" >&2; exit 1; }
ctest=$(cat "$tmp/ctest.pid")
test=$(cat "$tmp/test.pid")

out=$("$run" --build-dir "$tmp/build" 2>&1) && fail "a second run was let in"
[[ $out == *"tests/run with process id $first is at work"* ]] || fail "no run is named: $out"

kill -KILL $first
wait $first 2>/dev/null
wait_for has_ended "$ctest" || kill -KILL "$ctest"
wait_for has_ended "$test" || kill -KILL "$test"

touch "$tmp/go"
out=$("$run" --build-dir "$tmp/build" 2>&1) || fail "the next run: $out"
[[ $out == *"1 passed, 0 failed, 1 skipped" ]] || fail "the next run: $out"
grep -q '^  an/other  *the moon is down$' <<<"$out" || fail "why was it skipped? $out"
# Its watcher has the lock until it has looked around.
flock "$tmp/build/tests-run.lock" true

finish "tests/run: all as it should be"
