#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install into a temporary prefix; build, link and run programs against that, in all four ways that
# people do: pkg-config and find_package, shared and static.

set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib/temporary.sh
. "$here/../lib/temporary.sh"

say() {
	printf '\n== %s\n' "$*"
}

say "install, then move the tree: nothing in it may name where it was"
cmake --install "$NAM_BUILD_DIR" --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
pc=$(find "$prefix" -name nam.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=$libdir/pkgconfig
find "$prefix" -type f | sed "s|^$prefix|  |" | sort
if grep -rIl "$tmp/first" "$prefix"; then
	echo "FAILED: the files above name the first prefix"
	exit 1
fi

say "nam-bench finds the profiles of simulated networks where it was moved to"
if ! "$prefix/bin/nam-bench" index --cluster sim:connect-ib --keys 1k --ops 100 --quiet; then
	echo "FAILED: the installed nam-bench cannot simulate"
	exit 1
fi

say "the figures find nam-bench and the profiles where they were moved to"
if ! env PATH=/usr/bin:/bin "$prefix/share/nam/figures/draw" tree-7 --csv --quick --designs fine \
	--quiet --out "$tmp/figures" || [ ! -s "$tmp/figures/tree-7.csv" ]; then
	echo "FAILED: the installed figures cannot be drawn"
	exit 1
fi

say "nam-bench-peers finds nam-bench where it was moved to, and its client of stores"
if ! (cd / && "$prefix/bin/nam-bench-peers" --version) ||
	[ ! -x "$prefix/libexec/nam/store_load" ]; then
	echo "FAILED: the installed nam-bench-peers lacks a program"
	exit 1
fi

say "an incomplete build gives a message that names the remedy"
mkdir "$tmp/part"
sed "s|libnam\.a|never-built.a|" "$NAM_BUILD_DIR/cmake_install.cmake" \
	>"$tmp/part/cmake_install.cmake"
if cmake --install "$tmp/part" --prefix "$tmp/parts" >"$tmp/log" 2>&1 ||
	! grep -q "^ *cmake --build" "$tmp/log" || [ -e "$tmp/parts" ]; then
	cat "$tmp/log"
	echo "FAILED: a library that is not there"
	exit 1
fi

say "every program has its man page"
for program in "$prefix"/bin/*; do
	page=$(find "$prefix" -path "*/man1/$(basename "$program").1")
	if [ ! -s "$page" ]; then
		echo "FAILED: $(basename "$program") is installed and its man page is not"
		exit 1
	fi
done

say "the shared library shows what the headers declare, and nothing else"
nm -D --defined-only "$libdir/libnam.so" |
	awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/shown"
find "$prefix/include/nam" -name '*.h' ! -path '*/memserver/*' \
	-printf '#include <nam/%P>\n' >"$tmp/all.c"
cc=${CC:-cc}
types='(const|struct|enum|void|int|bool|_Bool|char|unsigned|size_t|u?int[0-9]+_t)'
$cc -E -P "$tmp/all.c" -I"$prefix/include" | tr '\n' ' ' | tr ';{}' '\n' |
	grep -E "^ *(extern )?$types\b[^()=]*\bnam_[a-z0-9_]+ *\(" |
	grep -oE '\bnam_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$tmp/declared"
grep -qx nam_client_connect "$tmp/declared"
if ! diff "$tmp/declared" "$tmp/shown"; then
	echo "FAILED: < is declared and not shown, > is shown and not declared; see cmake/nam.map"
	exit 1
fi
wc -l <"$tmp/shown"
while read -r function; do
	if [ ! -s "$prefix/share/man/man3/$function.3" ]; then
		echo "FAILED: $function has no page in man3; see docs/man/headers"
		exit 1
	fi
done <"$tmp/declared"
readelf -d "$libdir/libnam.so" | grep -q 'SONAME.*\[libnam\.so\.0\]'

warnings="-Wall -Wextra -Werror"
# shellcheck disable=SC2046,SC2086	# lists of words
{
	say "pkg-config, shared"
	$cc $warnings "$here/consumer.c" $(pkg-config --cflags --libs nam) \
		-Wl,-rpath,"$libdir" -o "$tmp/consumer"
	"$tmp/consumer"
	ldd "$tmp/consumer" | grep -q "libnam.so.0 => $libdir"
	if ldd "$tmp/consumer" | grep libstdc; then
		echo "FAILED: a C library must not bring the C++ runtime along"
		exit 1
	fi

	say "pkg-config, static"
	$cc $warnings "$here/consumer.c" $(pkg-config --cflags nam) \
		$(pkg-config --static --libs nam | sed 's/-lnam\b/-l:libnam.a/') \
		-o "$tmp/consumer_static"
	"$tmp/consumer_static"
	if ldd "$tmp/consumer_static" | grep libnam; then
		echo "FAILED: linked with the shared library after all"
		exit 1
	fi

	say "pkg-config, static, and nothing shared at all"
	$cc $warnings -static "$here/consumer.c" $(pkg-config --static --cflags --libs nam) \
		-o "$tmp/consumer_all_static"
	"$tmp/consumer_all_static"
	if readelf -d "$tmp/consumer_all_static" | grep NEEDED; then
		echo "FAILED: it needs shared libraries after all"
		exit 1
	fi

	say "the memory server as a library, beside the shared libnam, and all static"
	$cc $warnings "$here/server.c" $(pkg-config --cflags --libs nam-memserver nam) \
		-Wl,-rpath,"$libdir" -o "$tmp/server"
	ldd "$tmp/server" | grep -q "libnam.so.0 => $libdir"
	"$tmp/server" "shm:$tmp/socket"
	$cc $warnings -static "$here/server.c" \
		$(pkg-config --static --cflags --libs nam-memserver nam) -o "$tmp/server_static"
	"$tmp/server_static" "shm:$tmp/socket"

	say "as docs/c-api.md has it for any folder"
	mkdir -p "$tmp/stranger/build"
	ln -s "$NAM_BUILD_DIR" "$tmp/stranger/build/release"
	cp "$here/consumer.c" "$tmp/stranger/program.c"
	awk '/^```/ { shown = 0 } shown; /^Into any other folder/ { near = 1 }
		/^```sh$/ && near { shown = 1; near = 0 }' "$NAM_SOURCE_DIR/docs/c-api.md" \
		>"$tmp/commands"
	grep -q rpath "$tmp/commands"
	(
		unset PKG_CONFIG_PATH
		export HOME=$tmp/stranger
		cd "$HOME"
		. "$tmp/commands" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
		./program
		ldd program | grep "libnam.so.0 => $HOME/"
		command -v namctl | grep "^$HOME/"
	)

	say "the same from C++"
	for standard in c++11 c++20; do
		${CXX:-c++} -std=$standard $warnings -Wpedantic "$here/consumer.cc" \
			$(pkg-config --cflags --libs nam) -Wl,-rpath,"$libdir" \
			-o "$tmp/consumer_cxx"
		"$tmp/consumer_cxx"
	done

	say "examples"
	for example in "$NAM_SOURCE_DIR"/examples/*.c \
		"$NAM_SOURCE_DIR"/examples/*/main.c; do
		echo "  $example"
		# A folder is one program of several files.
		[ "${example##*/}" != main.c ] || example="${example%/*}/*.c"
		$cc -std=gnu17 $warnings $example "$NAM_SOURCE_DIR/examples/lib/example.c" \
			$(pkg-config --cflags --libs nam) -o "$tmp/example"
	done
}

say "find_package, shared and static"
cmake -S "$here" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$warnings" \
	-DCMAKE_CXX_FLAGS="$warnings -Wpedantic" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
cmake --build "$tmp/build" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
"$tmp/build/consumer"
"$tmp/build/consumer_static"
"$tmp/build/consumer_all_static"
"$tmp/build/consumer_cxx"
"$tmp/build/server" "shm:$tmp/socket"
ldd "$tmp/build/server" | grep -q "libnam.so.0 => $libdir"
