#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --metrics: the figures of a memory server over HTTP, on loopback unless told otherwise.  Its log:
# an event is a line.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

trap 'nam_servers_kill; nam_temporary_remove' EXIT
port=$((20000 + $$ % 1000 * 10))

# get HOST PORT PATH: the answer of the web server, or of curl's kind of failure.
get() {
	python3 - "http://$1:$2$3" <<'PYTHON'
import sys, urllib.error, urllib.request
try:
	with urllib.request.urlopen(sys.argv[1], timeout=10) as answer:
		print(answer.status, answer.headers["Content-Type"])
		print(answer.read().decode(), end="")
except urllib.error.HTTPError as error:
	print(error.code)
except OSError as error:
	print("refused")
PYTHON
}

nam_server_start 0 --memory 32M --pages 4k --metrics $port --log-level debug || exit 1
export NAM_CLUSTER
NAM_CLUSTER=$(nam_server_address 0)
expect 0 namctl index create keys --design coarse
expect 5 namctl get nothing 1
out=$(get 127.0.0.1 $port /metrics) err=
says "200 text/plain; version=0.0.4"
says 'nam_info{id="0",version='
says 'nam_memory_bytes{id="0",kind="private",state="used"} '
says 'nam_request_seconds_count{id="0",service="CATALOG_PUT"} 1'
says 'nam_request_failures_total{id="0",service="CATALOG_GET"} 1'
says 'nam_request_seconds_bucket{id="0",service="CATALOG_PUT",le="+Inf"} 1'
says 'nam_refusals_total{id="0",reason="peer"} 0'
says 'nam_refusals_total{id="0",reason="unfinished"} 0'
says 'nam_restarts_total{cause='
[[ $out != *'kind="private",state="used"} 0'* ]] || fail "no private memory is in use: $out"
out=$(get 127.0.0.1 $port /)
expect 0 namctl --json status
json 'r["servers"][0]["services"]["CATALOG_PUT"]["requests"] == 1'
json 'r["servers"][0]["memory"]["private"]["carved_bytes"] > 0'
json 'r["servers"][0]["memory"]["read_only"]["bytes"] == 0'
expect 0 namctl kv create pairs --engine cuckoo --onesided --memory 4M
expect 0 namctl --json status
json 'r["servers"][0]["memory"]["read_only"]["carved_bytes"] == 4 << 20'
out=$(get 127.0.0.1 $port /metrics) err=
says 'nam_memory_bytes{id="0",kind="read_only",state="used"} 4194304'
expect 0 namctl top --interval-ms 50
says "STATUS"
says "p99 us"
# Without a terminal: the others are shown, and one that is not there decides the exit status.
expect 3 namctl --cluster "$NAM_CLUSTER,shm:$tmp/absent" top --interval-ms 50
says "STATUS"
says "$tmp/absent"
says "(NAM_E_FABRIC_CONNECT)"
expect 2 namctl status --interval-ms 50
says "--interval-ms does not belong to 'status'"
other=$(hostname -I | awk '{ print $1 }')
if [ -n "$other" ]; then
	out=$(get "$other" $port /metrics)
	prints refused
fi
expect 3 nam-memserver --listen "shm:$tmp/second" --memory 16M --pages 4k --metrics $port
says "--metrics: $port: Address already in use; choose another port"
printf '[server 0]\nlisten = shm:%s/second\nmetrics = %s\n' "$tmp" $port >"$tmp/second.ini"
expect 3 nam-memserver --config "$tmp/second.ini" --memory 16M --pages 4k
says "$tmp/second.ini, [server] at line 2: metrics: $port: Address already in use"
expect 2 nam-memserver --listen "shm:$tmp/second" --memory 16M --pages 4k \
	--metrics nowhere.invalid:1
says "--metrics: 'nowhere.invalid:1' is no PORT or HOST:PORT"
nam_servers_stop || fail "the memory server ended badly"
for event in ready connected disconnected region_private region_read_only stopping; do
	grep -Eq "^time=[-0-9T:.]+Z level=(info|debug) event=$event [a-z]+=" "$tmp/server0.log" ||
		fail "no event $event in the log: $(cat "$tmp/server0.log")"
done
[ "$(grep -Evc '^(time=.* level=|nam-memserver: server 0 ready)' "$tmp/server0.log")" -eq 0 ] ||
	fail "lines of the log are no events: $(cat "$tmp/server0.log")"

host=127.0.0.1
[ ! -s /proc/net/if_inet6 ] || host="[::1]"
nam_server_start 0 --memory 32M --pages 4k --metrics "$host:$port" --log-level error ||
	exit 1
out=$(get "$host" $port /metrics)
says 'nam_uptime_seconds{id="0"} '
nam_servers_stop || fail "the memory server ended badly"
[ "$(wc -l <"$tmp/server0.log")" -eq 1 ] || fail "a quiet log: $(cat "$tmp/server0.log")"

# The path of a socket may have any bytes: the event is one line, and has the fields that it has.
listen="shm:$tmp/a\" level=error x=\\"$'\n\x1b'"time=now"
nam-memserver --listen "$listen" --memory 16M --pages 4k >/dev/null 2>"$tmp/server0.log" &
nam_server_pids[0]=$!
for ((waited = 0; waited < 600; waited++)); do
	! grep -q "event=ready" "$tmp/server0.log" || break
	sleep 0.1
done
nam_servers_stop || fail "the memory server ended badly"
grep -qF " server=0 listen=\"shm:$tmp/a\\\" level=error x=\\\\\\x0a\\x1btime=now\" memory=\"16 MiB" \
	"$tmp/server0.log" || fail "the address is not one value: $(cat "$tmp/server0.log")"
[ "$(grep -vc '^time=.* level=' "$tmp/server0.log")" -eq 0 ] ||
	fail "an event has several lines: $(cat "$tmp/server0.log")"

# The process that has the memory of two memory servers shows both.
for id in 0 1; do
	nam_server_start $id --memory 16M --pages 4k --spare 24M --metrics $((port + id)) || exit 1
done
NAM_CLUSTER=$(nam_server_address 0),$(nam_server_address 1)
expect 0 namctl index create keys --design coarse
expect 0 namctl server drain 1
out=$(get 127.0.0.1 $port /metrics) err=
for id in 0 1; do
	says "nam_info{id=\"$id\",version="
	says "nam_phase{id=\"$id\"} 0"
	says "nam_memory_bytes{id=\"$id\",kind=\"private\",state=\"used\"} "
	says "nam_request_seconds_count{id=\"$id\",service="
done
says "nam_spare_bytes $((8 << 20))"
twice=$(sed -E '/^nam_/s/ [^ ]*$//' <<<"$out" | sort | uniq -d)
[ -z "$twice" ] || fail "families or samples that come twice: $twice"
out=$(get 127.0.0.1 $((port + 1)) /metrics) err=
says 'nam_phase{id="1"} 3'
[[ $out != *'id="0"'* ]] || fail "server 0 is in another process: $out"
nam_servers_stop || fail "a memory server ended badly"
finish "metrics: of all memory servers of a process, on loopback, and of what was done"
