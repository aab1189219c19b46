#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory servers with keys: clients that are admitted or refused; the rights of each role; keys that
# are removed while their holders work.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"

unset NAM_KEY
keys=$tmp/keys

# logged ID TEXT
logged() {
	grep -q -- "$2" "$tmp/server$1.log"
}

# reload EVENT: all memory servers read the keys again, the lead first: it fences.
reload() {
	local id

	signalled=$EPOCHREALTIME
	for id in "${!nam_server_pids[@]}"; do
		: >"$tmp/server$id.log"
		kill -HUP "${nam_server_pids[id]}"
		until_true logged "$id" "event=$1"
	done
}

# as KEY COMMAND...: namctl with that key.
as() {
	NAM_KEY=$tmp/$1.key namctl --cluster "$cluster" "${@:2}"
}

test_key_files() {
	expect 0 namctl key new "$keys" app "$tmp/app.key"
	says "SIGHUP"
	expect 0 namctl key new "$keys" ops "$tmp/ops.key" --role admin --json
	json 'r["role"] == "admin" and len(r["fingerprint"]) == 16'
	expect 0 namctl key new "$tmp/others" app "$tmp/stranger.key" --quiet
	prints ""
	expect 4 namctl key new "$keys" app
	says "it has a key app already"
	expect 4 namctl key new "$keys" more "$tmp/app.key"
	says "File exists"
	expect 0 namctl key list "$keys" --json
	json '[k["name"] for k in r["keys"]] == ["app", "ops"]'
	[ "$(stat -c %a "$keys" "$tmp/app.key" | tr '\n' ' ')" = "600 600 " ] ||
		fail "others may read the keys"
	printf '# no line feed' >"$tmp/comment" && chmod 600 "$tmp/comment"
	expect 0 namctl key new "$tmp/comment" app --quiet
	expect 0 namctl key list "$tmp/comment"
	says "app"
	(umask 022 && : >"$tmp/open")
	expect 2 namctl key new "$tmp/open" app
	says "chmod 600"
	[ ! -s "$tmp/open" ] || fail "a secret is where all can read it"
	expect 2 namctl key new "$keys" "a b"
	expect 2 namctl key new "$keys" b --role root
	! grep -q "$(cut -d ' ' -f 3 "$tmp/app.key")" <<<"$out$err" || fail "a secret is printed"
}

test_doors() {
	expect 3 namctl --cluster "$cluster" index list
	says "namctl: --key: the memory server at"
	expect 3 nam-bench connect --cluster "$cluster" --ops 10
	says "nam-bench: --key: the memory server at"
	expect 3 as stranger index list
	says "does not admit the key app"
	logged 0 'event=refused peer=".*" reason=no_key' || fail "no_key is not logged"
	logged 0 "reason=wrong_key" || fail "wrong_key is not logged"
	expect 0 as app index create t
	expect 0 as app put t 1 2
	expect 0 as app get t 1
	prints 2
	expect 0 nam-bench connect --cluster "$cluster" --key "$tmp/app.key" --ops 10 --json -
	json 'r["ops"] == 10'
	expect 3 nam-bench connect --cluster "$cluster" --key "$tmp/stranger.key" --ops 10
	expect 0 as ops status --json
	json 'r["servers"][0]["refused"]["key"] >= 2 and "client" in r["servers"][0]["refused"]'
	chmod 644 "$tmp/app.key"
	expect 2 as app index list
	says "chmod 600"
	chmod 600 "$tmp/app.key"
	expect 2 namctl --cluster "$cluster" --key "$keys" index list
	says "a client has one"
}

test_roles() {
	local command

	nam_server_start 2 --memory 64M --region 8M --pages 4k --keys "$keys" ||
		fail "no third server"
	expect 3 as app server add "$(nam_server_address 2)"
	says "the memory server does not admit this user or key"
	expect 0 as ops status --json
	json 'len(r["servers"]) == 2'
	expect 0 as ops server add "$(nam_server_address 2)"
	for command in sweep "status --books"; do
		# shellcheck disable=SC2086 # with its option
		expect 3 as app $command
		says "the memory server does not admit this user or key"
		# shellcheck disable=SC2086
		expect 0 as ops $command
	done
}

# by_the_other: memory server 1 alone knows where the lead is.
by_the_other() {
	local cluster

	cluster=$(nam_server_address 1)
	expect 0 as app index list
}

# Writers form the first view, and renew members, and their copies of it are taken.
test_writers_copies() {
	expect 0 as app index list
	by_the_other
	kill -KILL "${nam_server_pids[1]}"
	wait "${nam_server_pids[1]}" 2>/dev/null
	unset "nam_server_pids[1]"
	nam_server_start 1 --memory 64M --region 8M --pages 4k --keys "$keys" ||
		fail "memory server 1 does not come again"
	expect 0 as app index list
	by_the_other
}

# A memory server without keys does not get the client's work.
test_server_without_keys() {
	local listed=$cluster

	nam_server_start 3 --memory 16M --pages 4k || fail "no fourth server"
	cluster=$(nam_server_address 3)
	expect 3 as app index list
	says "has not proven"
	cluster=$listed
	kill -TERM "${nam_server_pids[3]}"
	wait "${nam_server_pids[3]}"
	unset "nam_server_pids[3]"
}

# unfinished COUNT: so many connections have ended before their proof.
unfinished() {
	expect 0 as ops status --json
	python json 'r["servers"][0]["refused"]["unfinished"]'
	[ "$value" -eq "$1" ]
}

# Each connection that stops half-way is counted; 16 in a second are logged.
test_attack() {
	local attack before lines since=$SECONDS
	attack=$(dirname "${BASH_SOURCE[0]}")/keys_attack.py

	unfinished 0 || true
	before=$value
	if [ "$1" = shm ]; then
		expect 0 python3 "$attack" "$(nam_server_address 0 | cut -d : -f 2)"
		until_true unfinished $((before + 200))
	else
		expect 0 python3 "$attack" "$(sed "s/tcp:\([^,]*\).*/\1/" <<<"$cluster")" \
			"${cluster##*tcp:}" "$tmp/app.key"
		says "the holder of a key came"
		until_true unfinished $((before + 1000))
	fi
	lines=$(grep -c 'level=warn event=refused peer=".*[0-9]" reason=unfinished' \
		"$tmp/server0.log")
	[ "$lines" -ge 1 ] && [ "$lines" -le $((16 * (SECONDS - since + 2))) ] &&
		logged 0 "reason=unfinished next=silence" ||
		fail "$lines lines in $((SECONDS - since)) s: $(cat "$tmp/server0.log")"
}

test_removed() {
	local pid fenced status=0

	NAM_KEY=$tmp/app.key nam-bench index --cluster "$cluster" --keys 2000 --fibers 4 --ops 1G \
		--mix update=100 >"$tmp/bench" 2>&1 &
	pid=$!
	until_true eval 'as ops index list | grep -q bench'
	sed 's/^app/# &/' "$keys" >"$keys.new" && chmod 600 "$keys.new" && mv "$keys.new" "$keys"
	reload reloaded
	if [ "$1" = shm ]; then
		logged 0 'event=key_removed client=[0-9]* .*remedy="end its process' ||
			fail "no event key_removed: $(cat "$tmp/server0.log")"
		kill -0 $pid || fail "its memory is mapped, and it is gone: $(cat "$tmp/bench")"
		kill -KILL $pid
		wait $pid 2>/dev/null
	else
		wait $pid || status=$?
		[ $status -eq 3 ] && grep -q "connect anew" "$tmp/bench" ||
			fail "$status instead of 3: $(cat "$tmp/bench")"
		logged 0 'event=key_removed client=[0-9]* .*fenced=1' ||
			fail "no event key_removed: $(cat "$tmp/server0.log")"
		fenced=$(date +%s.%N -d "$(sed -n 's/^time=\([^ ]*\) .*=key_removed .*/\1/p' \
			"$tmp/server0.log" | tail -n 1)")
		awk -v a="$signalled" -v b="$fenced" 'BEGIN { exit b - a > 1 }' ||
			fail "signalled at $signalled, fenced at $fenced"
	fi
	expect 3 as app index list
	expect 0 as ops get t 1
	prints 2
}

test_reload_that_fails() {
	cp -p "$keys" "$tmp/good"
	echo "half a" >>"$keys"
	reload not_reloaded
	logged 0 "keys:3: a line is NAME ROLE SECRET" || fail "$(cat "$tmp/server0.log")"
	expect 0 as ops index list
	cp -p "$tmp/good" "$keys"
	reload reloaded
}

test_insecure() {
	local port=$((10000 + $$ % 1000 * 20 + 9))

	for address in "tcp:0.0.0.0:$port" "tcp:[::]:$port"; do
		expect 2 nam-memserver --listen "$address" --memory 16M
		says "--keys"
		says "--insecure"
	done
	expect 1 nam-memserver --listen "shm:$tmp/x" --memory 16M --keys "$tmp/none"
	says "$tmp/none: No such file"
}

test_key_files
test_insecure
for fabric in shm tcp:127.0.0.1:0; do
	NAM_TEST_FABRIC=$fabric
	cp -p "$keys" "$tmp/all"
	nam_servers_start 2 --memory 64M --region 8M --pages 4k --keys "$keys" || exit 1
	test_writers_copies
	test_doors
	test_roles
	test_server_without_keys
	test_attack "$fabric"
	test_removed "$fabric"
	test_reload_that_fails
	nam_servers_stop || fail "a memory server ended badly"
	cp -p "$tmp/all" "$keys"
done
finish "keys: doors, roles and removals are as they should be"
