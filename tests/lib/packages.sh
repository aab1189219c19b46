# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# packages.sh -- Debian packages: what building and testing needs, and how it gets here.

# shellcheck disable=SC2034	# for scripts that source this
nam_build_packages=(
	gcc
	g++
	libc6-dev
	cmake
	ninja-build
	pkg-config
	python3
	libxxhash-dev
	libnuma-dev
	libibverbs-dev
	librdmacm-dev
	libinih-dev
	libsodium-dev
	libcjson-dev
	libmicrohttpd-dev
	libcurl4-openssl-dev
	libcmocka-dev
	libboost-context-dev
)

nam_package_present() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# nam_install_packages PACKAGE...: those that are missing.  Does nothing, and needs neither network
# nor rights, when none is.
nam_install_packages() {
	local package
	local missing=()
	local as_root=()

	if ! command -v apt-get >/dev/null; then
		echo "not a Debian system: relying on what is installed" >&2
		return 0
	fi
	for package in "$@"; do
		nam_package_present "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null; then
			echo "missing packages; as root, run: apt-get install ${missing[*]}" >&2
			return 1
		fi
		as_root=(sudo)
	fi
	echo "installing ${missing[*]}"
	"${as_root[@]}" apt-get -q update &&
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
			-o DPkg::Lock::Timeout=300 install --no-install-recommends \
			"${missing[@]}" || return 1
	# Tests start an etcd of their own; the service of the package is not wanted.
	if [[ " ${missing[*]} " == *" etcd-server "* ]] && [ -d /run/systemd/system ]; then
		"${as_root[@]}" systemctl --quiet disable --now etcd || true
	fi
}
