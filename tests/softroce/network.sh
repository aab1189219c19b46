# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# network.sh -- in the guest: two hosts that talk over a wire, and one alone, with an rxe device
# each.
#
# rxe of Linux 6.1 has its sockets in the first network namespace only, so these hosts are addresses
# and not namespaces.  The kernel would take the short cut of its loopback device.  So rules of
# routing send what is for the right host out of the left one's interface, and the other way round.
# A client of one address is the other one, unless bound to another address.
#
#	left	rxe0 on wire0	10.77.0.1	fd77::1
#	right	rxe1 on wire1	10.77.0.2	fd77::2
#	alone	rxe2 on wire2	10.77.1.1	fd77:1::1	for a host that talks to itself

# In two processes: to start one takes long here.
nam_network_links() {
	ip -batch - <<'END' || return 1
link set lo up
link add wire0 type veth peer name wire1
link add wire2 type veth peer name wire3
link set wire0 up
link set wire1 up
link set wire2 up
link set wire3 up
addr add 10.77.0.1/32 dev wire0
addr add 10.77.0.2/32 dev wire1
addr add 10.77.1.1/24 dev wire2
addr add fd77::1/128 dev wire0 nodad
addr add fd77::2/128 dev wire1 nodad
addr add fd77:1::1/64 dev wire2 nodad
route add 10.77.0.2 dev wire0 src 10.77.0.1 table 101
route add 10.77.0.1 dev wire1 src 10.77.0.2 table 102
rule add pref 1 iif wire0 lookup local
rule add pref 2 iif wire1 lookup local
rule add pref 10 to 10.77.0.2 lookup 101
rule add pref 11 to 10.77.0.1 lookup 102
rule add pref 20 lookup local
rule del pref 0
END
	ip -6 -batch - <<'END'
route add fd77::2 dev wire0 src fd77::1 table 101
route add fd77::1 dev wire1 src fd77::2 table 102
rule add pref 1 iif wire0 lookup local
rule add pref 2 iif wire1 lookup local
rule add pref 10 to fd77::2 lookup 101
rule add pref 11 to fd77::1 lookup 102
rule add pref 20 lookup local
rule del pref 0
END
}

nam_network_up() {
	local name

	for name in all default; do
		echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
	done
	# ARP requests on one wire are answered by its interface only.
	echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
	nam_network_links &&
		rdma link add rxe0 type rxe netdev wire0 &&
		rdma link add rxe1 type rxe netdev wire1 &&
		rdma link add rxe2 type rxe netdev wire2
}
