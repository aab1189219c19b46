#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# absent_test.sh LIBNAM.a LIBNAM.so NAM-SIM.a: libnam neither defines nor needs a simulator symbol.
set -euo pipefail

symbols='[[:space:]]nam_+sim_'
nm "$3" | grep -E "$symbols" >/dev/null || { echo "FAILED: nm finds no symbol in $3"; exit 1; }
for library in "$1" "$2"; do
	if nm "$library" | grep -E "$symbols"; then
		echo "FAILED: $library has the symbols above; they belong into nam-sim"
		exit 1
	fi
done
