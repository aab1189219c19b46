#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Messages of nam-memserver to its service manager.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

# Be a service manager at the address: start a memory server, and end it when it is ready.  Print
# its messages and its end.
manage() {
	timeout 60 python3 - "$1" "$tmp" "${@:2}" <<'END'
import os, signal, socket, subprocess, sys

address, folder, *more = sys.argv[1:]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0" + address[1:] if address[0] == "@" else address)
manager.settimeout(30)
server = subprocess.Popen(
    ["nam-memserver", "--listen", f"shm:{folder}/server", "--memory", "16M", "--region", "16M",
     "--pages", "4k", *more],
    env={**os.environ, "NOTIFY_SOCKET": address}, stdout=subprocess.DEVNULL)
try:
    said = manager.recv(4096).decode()
    while said:
        print(said.strip())
        if "READY=1" in said:
            server.send_signal(signal.SIGTERM)
        said = "" if "STOPPING=1" in said else manager.recv(4096).decode()
finally:
    print("status", server.wait(30) if sys.exc_info()[0] is None else server.kill())
END
}

test_notify() {
	local said address

	for address in "$tmp/notify" "@nam-test-$$"; do
		said=$(manage "$address")
		[[ $said == *"READY=1"*"STATUS="*"server 0 ready"*"STOPPING=1"*"status 0" ]] ||
			fail "at $address the server said: $said"
	done
	# A missing manager stops no server.
	NOTIFY_SOCKET=$tmp/nobody nam-memserver --listen "shm:$tmp/server" --memory 16M \
		--region 16M --pages 4k >"$tmp/log" 2>&1 &
	for _ in {1..300}; do
		grep -q ready "$tmp/log" && break
		sleep 0.1
	done
	kill -TERM $!
	wait $! || fail "without a manager: $(cat "$tmp/log")"
	grep -q "server 0 ready" "$tmp/log" || fail "without a manager: $(cat "$tmp/log")"
}

test_notify
finish "notify: all as it should be"
