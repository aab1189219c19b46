#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A view store over TLS: nam-steward and namctl with an etcd that asks for certificates.  Their
# messages if the options do not fit that etcd.  openssl makes the certificates.

set -u
# shellcheck source=tests/lib/script.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/script.sh"
# shellcheck source=tests/lib/members.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/members.sh"
# shellcheck source=tests/lib/certificates.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/certificates.sh"

for program in etcd:etcd-server openssl:openssl; do
	if ! command -v "${program%:*}" >/dev/null; then
		echo "skipped: there is no ${program%:*}; install ${program#*:}"
		exit 77
	fi
done

etcd=
steward=
declare -A pids
port=$((30000 + $$ % 900 * 3))		# https; and beside it http, peers
bound=$((20 * ${NAM_TEST_SLOWNESS:-1}))	# in seconds, for what ends by itself
secure=etcd:https://127.0.0.1:$port/test

cleanup() {
	[ -z "$steward" ] || kill -KILL "$steward" 2>/dev/null
	[ -z "$etcd" ] || kill -KILL "$etcd" 2>/dev/null
	nam_servers_kill
	nam_temporary_remove
}

# tls AUTHORITY CERTIFICATE: sets the options $tls.
tls() {
	tls=(--view-store-cacert "$tmp/$1.pem" --view-store-cert "$tmp/$2.pem"
		--view-store-key "$tmp/$2.key")
}

# ---- etcd ------------------------------------------------------------------------------------

# etcd_start CERTIFICATE AUTHORITIES: the latter are those of certificates that clients show.
etcd_start() {
	local at=https://127.0.0.1:$port peer=http://127.0.0.1:$((port + 2))

	etcd --name one --data-dir "$tmp/etcd" --advertise-client-urls "$at" \
		--listen-client-urls "$at,http://127.0.0.1:$((port + 1))" \
		--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
		--initial-cluster "one=$peer" --heartbeat-interval 20 --election-timeout 200 \
		--cert-file "$tmp/$1.pem" --key-file "$tmp/$1.key" --client-cert-auth \
		--trusted-ca-file "$tmp/$2.pem" >"$tmp/etcd.log" 2>&1 &
	etcd=$!
}

etcd_end() {
	kill -KILL "$etcd"
	wait "$etcd" 2>/dev/null
	etcd=
}

# etcd_ask_for_users: as in view_store_etcd.c, for user nam with the password secret.
etcd_ask_for_users() {
	python3 - "$tmp" "https://127.0.0.1:$port/v3/auth/" <<'END' || fail "no users of etcd"
import json, ssl, sys, urllib.request

folder, at = sys.argv[1:]
context = ssl.create_default_context(cafile=folder + "/others.pem")
context.verify_flags &= ~ssl.VERIFY_X509_STRICT
context.load_cert_chain(folder + "/client.pem", folder + "/client.key")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
	urllib.request.HTTPSHandler(context=context))
for path, body in (
		("user/add", {"name": "root", "password": "r"}),
		("role/add", {"name": "root"}),
		("user/grant", {"user": "root", "role": "root"}),
		("user/add", {"name": "nam", "password": "secret"}),
		("role/add", {"name": "nam"}),
		("role/grant", {"name": "nam", "perm": {"permType": "READWRITE",
			"key": "bmFtLw==", "range_end": "bmFtMA=="}}),
		("user/grant", {"user": "nam", "role": "nam"}),
		("enable", {})):
	opener.open(at + path, json.dumps(body).encode(), 20).read()
END
}

# ---- commands --------------------------------------------------------------------------------

# once OPTION...: a pass, which asks for a minute if that can help.
once() {
	timeout "$bound" nam-steward --cluster "$cluster" --once --collect-s 0 \
		--timeout-ms 60000 "$@"
}

# add ADDRESS OPTION...
add() {
	timeout "$bound" namctl --cluster "$cluster" --timeout-ms 60000 server add "$@"
}

# refused STATUS TEXT OPTION...: by both, well within the minute.
refused() {
	expect "$1" once "${@:3}"
	says "$2"
	expect "$1" add "$(nam_server_nobody)" "${@:3}"
	says "$2"
}

# later NAME COMMAND...: beside this script.
later() {
	"${@:2}" >"$tmp/$1.out" 2>&1 &
	pids[$1]=$!
}

# ended STATUS NAME TEXT
ended() {
	local status=0

	wait "${pids[$2]}" || status=$?
	out=
	err=$(<"$tmp/$2.out")
	[ $status -eq "$1" ] || fail "$2 ended with $status instead of $1: $err"
	says "$3"
}

until_logged() {
	await grep -q -- "$1" "$tmp/steward.log" ||
		fail "the steward never says $1: $(<"$tmp/steward.log")"
}

# ---- tests -----------------------------------------------------------------------------------

test_works() {
	tls ours client
	expect 0 once --view-store "$secure" "${tls[@]}"
	says "event=leads"
	server_start 2 || fail "server 2"
	expect 0 add "$(nam_server_address 2)" --view-store "$secure" "${tls[@]}"
	expect 0 namctl --cluster "$cluster" --json status
	json "[s['member'] for s in r['servers']] == ['up'] * 3"
	# A key may lie in the certificate's file.
	cat "$tmp/client.pem" "$tmp/client.key" >"$tmp/both.pem"
	expect 0 once --view-store "$secure" --view-store-cacert "$tmp/ours.pem" \
		--view-store-cert "$tmp/both.pem"
	# The certificate does not name the first host; the second one does.
	expect 0 once --view-store "etcd:https://localhost:$port,127.0.0.1:$port/test" "${tls[@]}"
}

# A later try would not help either, so there is none.
test_not_trusted() {
	tls others client
	refused 3 "--view-store-cacert names the authorities" --view-store "$secure" "${tls[@]}"
	says "https://127.0.0.1:$port is not trusted"
	refused 3 "--view-store-cacert names the authorities" --view-store "$secure" "${tls[@]:2}"
	tls ours client
	refused 3 "that etcd's certificate names" --view-store "etcd:https://localhost:$port/test" \
		"${tls[@]}"
	says "localhost"
	tls ours stranger
	refused 3 "etcd may not trust the certificate of --view-store-cert" \
		--view-store "$secure" "${tls[@]}"
	refused 3 "name it with --view-store-cert and --view-store-key" --view-store "$secure" \
		--view-store-cacert "$tmp/ours.pem"
}

# A later try might help, if etcd has only just ended a connection.  Meanwhile other tests run.
wrong_scheme_start() {
	local short=$((1000 * ${NAM_TEST_SLOWNESS:-1})) plain other

	tls ours client
	plain=(--view-store "etcd:http://127.0.0.1:$port/test" --timeout-ms "$short")
	other=(--view-store "etcd:https://127.0.0.1:$((port + 1))/test" --timeout-ms "$short")
	later plain_once once "${plain[@]}"
	later plain_add add "$(nam_server_nobody)" "${plain[@]}"
	later other_once once "${tls[@]}" "${other[@]}"
	later other_add add "$(nam_server_nobody)" "${tls[@]}" "${other[@]}"
}

test_wrong_scheme() {
	ended 3 plain_once "if etcd uses TLS there, write https://"
	ended 3 plain_add "if etcd uses TLS there, write https://"
	ended 3 other_once "if etcd uses no TLS there, write http://"
	ended 3 other_add "if etcd uses no TLS there, write http://"
	tls ours client
	refused 2 "--view-store-cacert: http:// does not use it" \
		--view-store "etcd:http://127.0.0.1:$port/test" "${tls[@]}"
}

test_files() {
	tls ours client
	refused 2 "--view-store-cacert: $tmp/none: " --view-store "$secure" \
		--view-store-cacert "$tmp/none"
	refused 2 "--view-store-cert: $tmp/none: " --view-store "$secure" \
		--view-store-cert "$tmp/none"
	refused 2 "--view-store-key: $tmp/none: " --view-store "$secure" "${tls[@]:0:4}" \
		--view-store-key "$tmp/none"
	refused 2 "name its certificate with --view-store-cert" --view-store "$secure" \
		--view-store-key "$tmp/client.key"
	refused 2 "--view-store-cacert: " --view-store "$secure" \
		--view-store-cacert "$tmp/client.key"
	refused 2 "--view-store-cert, --view-store-key: " --view-store "$secure" "${tls[@]:0:4}" \
		--view-store-key "$tmp/stranger.key"
	refused 2 "--view-store-cert, --view-store-key: " --view-store "$secure" "${tls[@]:0:4}"
	# At a terminal no passphrase is asked for.
	openssl ec -in "$tmp/client.key" -aes256 -passout pass:secret -out "$tmp/closed.key" \
		2>/dev/null
	expect 2 script -qec "timeout $bound nam-steward --cluster $cluster --once \
		--view-store $secure ${tls[*]:0:4} --view-store-key $tmp/closed.key" "$tmp/script"
	says "--view-store-cert, --view-store-key: "
	refused 2 "--view-store: https://127.0.0.1:99999" "${tls[@]}" \
		--view-store etcd:https://127.0.0.1:99999/test
}

# A steward goes on with certificates that take the place of others.
test_replaced() {
	cp "$tmp/ours.pem" "$tmp/current.pem"
	: >"$tmp/steward.log"
	nam-steward --cluster "$cluster" --interval-ms 20 --collect-s 0 --view-store "$secure" \
		--view-store-cacert "$tmp/current.pem" --view-store-cert "$tmp/client.pem" \
		--view-store-key "$tmp/client.key" >"$tmp/steward.log" 2>&1 &
	steward=$!
	until_logged event=leads
	etcd_end
	cat "$tmp/ours.pem" "$tmp/others.pem" >"$tmp/all.pem"
	etcd_start elsewhere all
	until_logged "is not trusted"
	cp "$tmp/others.pem" "$tmp/current.pem"
	until_logged event=recovered
	kill -TERM "$steward"
	wait "$steward" || fail "the steward ended with $?: $(<"$tmp/steward.log")"
	steward=
}

# The last test: etcd keeps its users.  It has the certificate of test_replaced.
test_user() {
	local as=(--view-store-user nam --view-store-password-file "$tmp/password")

	etcd_ask_for_users
	tls others client
	echo secret >"$tmp/password"
	expect 0 once --view-store "$secure" "${tls[@]}" "${as[@]}"
	says "event=leads"
	echo wrong >"$tmp/password"
	refused 3 "authentication failed" --view-store "$secure" "${tls[@]}" "${as[@]}"
	echo secret >"$tmp/password"
	tls others named
	refused 3 "CommonName" --view-store "$secure" "${tls[@]}" "${as[@]}"
	[[ $err != *$'\n'* ]] || fail "several lines: $err"
}

nam_servers_start 2 "${memory[@]}" || exit 1
trap cleanup EXIT
authority ours
authority others
certificate etcd ours /O=etcd
certificate elsewhere others /O=etcd
certificate client ours /O=client
certificate named ours /CN=client
certificate stranger others /O=client
etcd_start etcd ours
expect 0 namctl --cluster "$cluster" index list
test_works
wrong_scheme_start
test_not_trusted
test_files
test_wrong_scheme
test_replaced
test_user
etcd_end
nam_servers_stop || fail "SIGTERM"
finish "view store over TLS: all as it should be"
