#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: made, installed by dpkg below a folder, used from there, and removed without
# a trace.  dpkg sees the packages of this machine, so that it checks dependencies and collisions.

set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for program in cpack dpkg-shlibdeps file; do
	if ! command -v $program >/dev/null; then
		echo "skip: needs $program (Debian: cmake, dpkg-dev, file)"
		exit 77
	fi
done
# shellcheck source=tests/lib/temporary.sh
. "$here/../lib/temporary.sh"
# shellcheck source=tests/lib/servers.sh
. "$here/../lib/servers.sh"

fail() {
	echo "FAILED: $*"
	exit 1
}

# run COMMAND...: shows its output only if it fails.
run() {
	"$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "$*"; }
}

# Maintainer scripts run outside $root, with DPKG_ROOT; that of libnam0 calls ldconfig without it.
dpkg_below() {
	PATH=$tmp/bin:$PATH run dpkg --root="$root" --force-not-root --force-script-chrootless "$@"
}

# The files below $root but those of dpkg itself and of the users.
listing() {
	(cd "$root" && find . -path ./var/lib/dpkg -prune -o \
		! -path './etc/*passwd*' ! -path './etc/*group*' ! -path './etc/*shadow*' \
		! -path './etc/.pwd.lock' -print | sort)
}

root=$tmp/root
mkdir -p "$tmp/bin" "$root/etc" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
printf '#!/bin/sh\n' >"$tmp/bin/ldconfig" && chmod +x "$tmp/bin/ldconfig"
cp /etc/passwd /etc/group "$root/etc/"
cp /var/lib/dpkg/status "$root/var/lib/dpkg/"
cp /var/lib/dpkg/info/*.list "$root/var/lib/dpkg/info/"
cp /var/lib/dpkg/arch "$root/var/lib/dpkg/" 2>/dev/null || true
packages=(libnam0 libnam-dev nam-server nam-tools)
listing >"$tmp/before"

echo "== build and install"
run cpack --config "$NAM_BUILD_DIR/CPackConfig.cmake" -B "$tmp/packages"
dpkg_below --install "$tmp"/packages/*.deb
for package in "${packages[@]}"; do
	[ -s "$root/usr/share/doc/$package/copyright" ] || fail "$package has no copyright"
	dpkg --root="$root" --verify "$package" | grep . && fail "$package is not as it was packed"
done
! command -v systemd-sysusers >/dev/null || grep -q ^nam: "$root/etc/passwd" ||
	fail "nam-server makes no user"
for file in lib/systemd/system/{nam-memserver@,nam-steward}.service lib/sysusers.d/nam.conf \
	share/man/man1/{nam-memserver,nam-steward,namctl}.1 share/man/man3/nam_index_lookup.3 \
	share/doc/nam/docs/deploying.md; do
	[ -s "$root/usr/$file" ] || fail "no package has /usr/$file"
done

echo "== an upgrade keeps /etc/nam/cluster.ini as it was edited"
sed -i "s|/run/nam/|$tmp/|; s|= 1G|= 16M|" "$root/etc/nam/cluster.ini"
cp "$root/etc/nam/cluster.ini" "$tmp/edited"
dpkg_below --install "$tmp"/packages/nam-server_*.deb
cmp "$tmp/edited" "$root/etc/nam/cluster.ini" || fail "the edited cluster.ini is lost"

echo "== servers and programs"
export PATH=$root/usr/bin:$PATH
export LD_LIBRARY_PATH=$root/usr/lib PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
nam_servers_start 2 --config "$root/etc/nam/cluster.ini"
export NAM_CLUSTER=@$root/etc/nam/cluster.ini
namctl status
nam-bench index --keys 1k --ops 100 --quiet

echo "== libnam-dev: pkg-config, and CMake"
examples=$root/usr/share/doc/nam/examples
# shellcheck disable=SC2046	# lists of words
"${CC:-cc}" -std=gnu17 "$examples/hello_index.c" "$examples/lib/example.c" \
	$(pkg-config --cflags --libs nam) -o "$tmp/hello"
"$tmp/hello" "$cluster"
run cmake -S "$here" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$root/usr"
run cmake --build "$tmp/build" --target consumer server
"$tmp/build/consumer"
"$tmp/build/server" "shm:$tmp/socket"
nam_servers_stop || fail "a memory server"

echo "== remove"
dpkg_below --purge "${packages[@]}"
listing >"$tmp/after"
diff "$tmp/before" "$tmp/after" || fail "files are left"
