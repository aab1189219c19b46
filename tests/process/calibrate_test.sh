#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The results of bench/calibrate with programs that measure nothing: no timing.
set -eu
source=${NAM_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
# shellcheck source=tests/lib/temporary.sh
. "$source/tests/lib/temporary.sh"

mkdir "$tmp/bin"
cat >"$tmp/bin/nam-memserver" <<'END'
#!/bin/bash
trap 'exit 0' TERM INT
while [ "$1" != --id ]; do shift; done
echo "server $2 ready"
while :; do sleep 0.05; done
END
# Rates by arguments: operations in a processor's half second; every second round of a kind is the
# slower one.  IS_FIBERS: of the rounds that are compared.  SIMULATED: of a simulation.
cat >"$tmp/bin/nam-bench" <<'END'
#!/bin/bash
arguments=" $* "
case $arguments in
*' --cluster sim:'*)
	profile=${arguments#*sim:}
	cp "${profile%% *}" "$SEEN"
	printf '{"ops_per_s": %d}\n' "$SIMULATED"
	exit
	;;
*' --keep '*) exit 0 ;;
*' --depth 1 '*) kind=alone rate=4000000 ;;
*' --depth 32 '*) kind=window rate=${WINDOW:-25000000} ;;
*' --fibers 16 '*) kind=fibers rate=10000000 ;;
*) kind=batch rate=10000000 ;;
esac
echo >>"$SEEN.$kind"
if [ $kind = fibers ] && [ $(($(wc -l <"$SEEN.fibers") % 2)) = 0 ]; then
	rate=$IS_FIBERS
fi
printf '{"ops": %d, "seconds": 17.0, "cpu_seconds": 0.5}\n' $((rate / 2))
END
chmod +x "$tmp/bin/nam-memserver" "$tmp/bin/nam-bench"

# expect STATUS IS_FIBERS SIMULATED ARGUMENT...
expect() {
	local expected=$1 status=0
	rm -f "$tmp"/seen*
	SEEN=$tmp/seen IS_FIBERS=$2 SIMULATED=$3 PATH=$tmp/bin:$PATH NAM_BUILD_DIR='' \
		"$source/bench/calibrate" "${@:4}" >"$tmp/out" 2>&1 || status=$?
	if [ $status != "$expected" ]; then
		echo "calibrate ${*:4} ($2, $3): status $status, not $expected" >&2
		cat "$tmp/out" >&2
		exit 1
	fi
}

# value SECTION KEY: of the profile that was simulated last.
value() {
	awk -v section="[$1]" -v key="$2" '$1 ~ /^\[/ { at = $1 }
		at == section && $1 == key { print $3 }' "$tmp/seen"
}

# A READ alone 250 ns, in a window 40; a lookup 100: 60 are the library's.
expect 0 10000000 10000000 --rounds 2
[ "$(value read round_trip)" = 250.0 ]
[ "$(value atomic loaded_round_trip)" = 250.0 ]
[ "$(value cpu completion)" = 32.0 ]
[ "$(value cpu operation)" = 60.0 ]
[ "$(value cpu batched_operation)" = 60.0 ]
[ "$(value cpu post)" = 8 ]
[ "$(value queue_pairs cached)" = 65536 ]

expect 0 10000000 12000000 --rounds 1
expect 0 10000000 8000000 --rounds 1
expect 1 10000000 12100000 --rounds 1
expect 1 10000000 7900000 --rounds 1
expect 3 8000000 10000000 --rounds 1
grep -q 'the same rounds differ' "$tmp/out"
expect 3 12000000 10000000 --rounds 1
WINDOW=9000000 expect 3 10000000 10000000 --rounds 1
grep -q 'lookups (10000000/s) were faster' "$tmp/out"
expect 2 10000000 10000000 --wrong 1
expect 4 10000000 none --rounds 1
