# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# certificates.sh -- authorities and certificates in $tmp, by openssl.  Source script.sh first.

# shellcheck disable=SC2154	# tmp is from temporary.sh

key_options=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

# authority NAME
authority() {
	openssl req -x509 "${key_options[@]}" -keyout "$tmp/$1.key" -out "$tmp/$1.pem" -days 2 \
		-subj "/O=$1" 2>"$tmp/openssl" || fail "openssl: $(<"$tmp/openssl")"
}

# certificate NAME AUTHORITY SUBJECT [ADDRESS]: of a host that is also a client.
certificate() {
	printf 'subjectAltName=IP:%s\nextendedKeyUsage=serverAuth,clientAuth\n' \
		"${4:-127.0.0.1}" >"$tmp/use"
	{
		openssl req "${key_options[@]}" -keyout "$tmp/$1.key" -out "$tmp/request" \
			-subj "$3" &&
			openssl x509 -req -in "$tmp/request" -CA "$tmp/$2.pem" \
				-CAkey "$tmp/$2.key" -CAcreateserial -days 2 -extfile "$tmp/use" \
				-out "$tmp/$1.pem"
	} >/dev/null 2>"$tmp/openssl" || fail "openssl: $(<"$tmp/openssl")"
}
