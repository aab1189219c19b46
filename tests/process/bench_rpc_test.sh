#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nam-bench rpc: by each transport, on real memory servers and on a simulated card of which the
# rates are known.  There fetching beats replies by WRITE as in the paper's measurements.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
unset NAM_PROFILES NAM_CLUSTER NAM_TRANSPORT

# simulate ARGUMENT...: the card of RFP.
simulate() {
	expect 0 nam-bench rpc --cluster sim:connectx3 --seconds 0.0005 --json - "$@"
	json 'r["errors"] == 0'
}

# Sets $rate.
rate() {
	python json 'int(r["ops_per_s"])'
	rate=$value
}

# ---- the memory server's card sends 2.11 M/s, and serves 11.26 M/s
for transport in srq datagram mailbox; do
	simulate --clients 35 --transport $transport
	json '1.95e6 < r["ops_per_s"] < 2.15e6 and r["per_op"]["round_trips"] == 1'
done
rate
reply=$rate
simulate --clients 35 --transport fetch
json '2 <= r["per_op"]["round_trips"] < 2.02 and r["ops_per_s"] < 5.65e6'
rate
[ $((rate * 10)) -ge $((reply * 24)) ] || fail "fetch $rate/s, replies by WRITE $reply/s"

# ---- a reply that one fetch does not hold takes another
simulate --clients 35 --transport fetch --reply-bytes 64 --fetch-bytes 80
json '3 <= r["per_op"]["round_trips"] < 3.02'
simulate --clients 35 --transport fetch --reply-bytes 128 --fetch-bytes 176
json '2 <= r["per_op"]["round_trips"] < 2.02'

# ---- what makes no sense
expect 3 nam-bench rpc --cluster shm:/nowhere --transport datagram
says 'datagram'
expect 2 nam-bench rpc --cluster sim:connectx3 --transport pigeon
says 'pigeon'
expect 2 nam-bench rpc --cluster sim:connectx3 --frame-bytes 200
says '64'
expect 2 nam-bench rpc --cluster shm:/nowhere --clients 2
says 'simulated'
NAM_TRANSPORT=pigeon expect 2 nam-bench rpc --cluster sim:connectx3
says 'NAM_TRANSPORT'

# ---- a client that stands still with replies too long for its frames holds up itself alone
nam_servers_start 1 --memory 32M --region 16M --pages 4k --rpc-threads 1 || exit 1
nam-bench rpc --cluster "$cluster" --transport mailbox --frame-bytes 128 --reply-bytes 4072 \
	--threads 8 --fibers 64 --seconds 60 --quiet 2>/dev/null &
client=$!
until namctl --cluster "$cluster" --json status |
	grep -Eq '"connections":[[:space:]]*(9|1[0-9])'; do
	kill -0 $client || exit 1
done
kill -STOP $client
for transport in mailbox fetch srq; do
	expect 0 namctl --cluster "$cluster" --transport $transport kv list
done
kill -KILL $client
wait $client 2>/dev/null
nam_servers_stop || fail "the server did not end well"
finish "nam-bench rpc: all as it should be"
