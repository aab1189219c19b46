/* SPDX-License-Identifier: Apache-2.0 */
/* device.c -- the device that the address leads to, or that the user named, and its limits. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_internal.h"

#define VENDOR_RXE 0xffffffu		/* only Soft-RoCE says this */
#define FIND_NS 4000000000ull
#define ASK_MS 200

static const char *
setting(const char *option, const char *variable)
{
	const char *text = option && *option ? option : getenv(variable);

	return text && *text ? text : NULL;
}

/* ---- rdma_cm ------------------------------------------------------------------------------- */

int
nam__verbs_channel_create(struct rdma_event_channel **ret, struct nam_diag *diag)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int rc;

	if (!channel)
		return nam_diag_set(diag, errno ? -errno : -ENODEV, "verbs: cannot open "
			"/dev/infiniband/rdma_cm: %s; load the kernel module rdma_ucm, and let "
			"this user read and write that file", strerror(errno ? errno : ENODEV));
	rc = nam__verbs_nonblocking(channel->fd);
	if (rc) {
		rdma_destroy_event_channel(channel);
		return nam_diag_set(diag, rc, "verbs: rdma_cm: %s", nam_err_text(rc));
	}
	*ret = channel;
	return 0;
}

int
nam__verbs_cm_wait(struct rdma_event_channel *channel, uint64_t until_ns,
	struct rdma_cm_event **ret)
{
	while (rdma_get_cm_event(channel, ret)) {
		struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
		uint64_t now = nam_now_ns();

		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (now >= until_ns)
			return -ETIMEDOUT;
		if (poll(&ready, 1, (int)((until_ns - now + 999999) / 1000000)) < 0 &&
			errno != EINTR)
			return -errno;
	}
	return 0;
}

int
nam__verbs_find_way(struct rdma_cm_id *id, const struct verbs_domain *domain,
	const struct sockaddr *to, uint64_t until_ns)
{
	struct sockaddr_storage from = domain->source;
	struct rdma_cm_event *event;
	int rc;

	/* The kernel may look again only when the time is over: so, short times. */
	do {
		if (rdma_resolve_addr(id, from.ss_family ? (struct sockaddr *)&from : NULL,
			(struct sockaddr *)(uintptr_t)to, ASK_MS))
			return -errno;
		rc = nam__verbs_cm_wait(id->channel, until_ns, &event);
		if (rc)
			return rc;
		rc = event->event == RDMA_CM_EVENT_ADDR_RESOLVED ? 0 :
			event->status < 0 ? event->status : -EHOSTUNREACH;
		(void)rdma_ack_cm_event(event);
	} while (rc == -ETIMEDOUT && nam_now_ns() < until_ns);
	return rc;
}

/* The device of an address; else `name` is empty, and *ret_way says why.  Needs rdma_cm. */
static int
find_by_address(const struct verbs_domain *domain, const struct nam_fabric_options *options,
	char name[IBV_SYSFS_NAME_MAX], int *ret_way, struct nam_diag *diag)
{
	struct rdma_event_channel *channel;
	struct addrinfo *at;
	struct rdma_cm_id *id;
	int rc;

	name[0] = '\0';
	if (nam__inet_resolve("verbs", options->address, options->listens, &at, NULL))
		return 0;
	rc = nam__verbs_channel_create(&channel, diag);
	if (rc)
		goto free_address;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
		rc = nam_diag_set(diag, -errno, "verbs: rdma_create_id: %s", strerror(errno));
		goto destroy_channel;
	}
	if (options->listens) {
		/* On another port: this one may be in use, which is for listen() to say. */
		struct sockaddr_storage any = { 0 };

		memcpy(&any, at->ai_addr, at->ai_addrlen);
		((struct sockaddr_in *)&any)->sin_port = 0;	/* where IPv6 has its, too */
		rc = rdma_bind_addr(id, (struct sockaddr *)&any);
	} else {
		rc = nam__verbs_find_way(id, domain, at->ai_addr, nam_now_ns() + FIND_NS);
	}
	if (!rc && id->verbs)
		(void)snprintf(name, IBV_SYSFS_NAME_MAX, "%s",
			ibv_get_device_name(id->verbs->device));
	*ret_way = rc;
	rc = 0;		/* an address that leads nowhere is one of no device */
	(void)rdma_destroy_id(id);
destroy_channel:
	rdma_destroy_event_channel(channel);
free_address:
	freeaddrinfo(at);
	return rc;
}

/* ---- choosing ------------------------------------------------------------------------------ */

/* The index in `list` of the device to use, or a negative code. */
static int
choose(const struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct ibv_device **list, int count, struct nam_diag *diag)
{
	const char *wanted = setting(options->device, "NAM_DEVICE");
	char found[IBV_SYSFS_NAME_MAX] = "", names[200] = "";
	size_t used = 0;
	int way = 0;

	if (!wanted && count == 1)
		return 0;
	if (!wanted && options->address) {
		int rc = find_by_address(domain, options, found, &way, diag);

		if (rc)
			return rc;
	}
	for (int i = 0; i < count && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
			used ? ", " : "", ibv_get_device_name(list[i]));
	for (int i = 0; i < count; i++) {
		const char *name = ibv_get_device_name(list[i]);

		if (!strcmp(name, wanted ? wanted : found))
			return i;
	}
	if (wanted)
		return nam_diag_set(diag, -EINVAL, "verbs: there is no RDMA device '%s'; this host "
			"has: %s", wanted, names);
	return nam__verbs_diag_no_device(options->address, names, way, diag);
}

/* ---- what it can do ------------------------------------------------------------------------ */

static uint32_t
lesser(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* libibverbs does not say it, and libnuma knows network, block and PCI devices only. */
static int
read_numa_node(const char *device)
{
	char path[128];
	FILE *file;
	int node = -1;

	(void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node", device);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	(void)fclose(file);
	return node;
}

/* The largest inline size up to what we like that the device makes such long queue pairs with. */
static uint32_t
probe_inline(const struct verbs_domain *domain, uint32_t requests)
{
	struct ibv_cq *cq = ibv_create_cq(domain->verbs, 1, NULL, NULL, 0);
	uint32_t bytes = 0;

	for (uint32_t asked = VERBS_INLINE_BYTES; cq && asked >= 32 && !bytes; asked /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = {
				.max_send_wr = requests,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = asked,
			},
			.qp_type = IBV_QPT_RC,
		};
		struct ibv_qp *qp = ibv_create_qp(domain->pd, &attr);

		if (!qp)
			continue;
		bytes = lesser(attr.cap.max_inline_data, VERBS_INLINE_BYTES);
		(void)ibv_destroy_qp(qp);
	}
	if (cq)
		(void)ibv_destroy_cq(cq);
	return bytes;
}

struct ibv_qp *
nam__verbs_device_qp(struct verbs_qp *qp, const struct verbs_rq *rq, enum ibv_qp_type type,
	uint32_t depth)
{
	const struct verbs_domain *domain = qp->domain;
	const uint32_t receives = rq || type == IBV_QPT_RC ? 0 : 1;
	struct ibv_qp_init_attr attr = {
		.qp_context = qp,
		.send_cq = qp->cq->sends.cq,
		.recv_cq = rq ? rq->recvs.cq : qp->cq->sends.cq,
		.srq = rq ? rq->srq : NULL,
		.cap = {
			.max_send_wr = depth,
			.max_recv_wr = receives,
			.max_send_sge = 1,
			.max_recv_sge = receives,
			.max_inline_data = domain->pub.limits.inline_bytes,
		},
		.qp_type = type,
	};
	struct ibv_qp *made = ibv_create_qp(domain->pd, &attr);

	/* A hold has room for so many. */
	qp->inline_bytes = attr.cap.max_inline_data < VERBS_INLINE_BYTES ?
		attr.cap.max_inline_data : VERBS_INLINE_BYTES;
	return made;
}

int
nam__verbs_usable(const char *device, const struct ibv_device_attr *attr, struct nam_diag *diag)
{
	static const char other[] = "use another device (the option device, or NAM_DEVICE in "
		"the environment)";

	if (attr->atomic_cap == IBV_ATOMIC_NONE)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY, "verbs: the device %s has no "
			"atomic operations (compare and swap, fetch and add), which every lock "
			"here is made of; %s", device, other);
	if (attr->max_srq < 1 || attr->max_srq_wr < 1)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY, "verbs: the device %s has no "
			"shared receive queues; %s", device, other);
	if (attr->max_srq_wr < (int)VERBS_RQ_DEPTH_MAX)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY, "verbs: a shared receive queue "
			"of the device %s holds %d messages, and must hold %u; %s", device,
			attr->max_srq_wr, VERBS_RQ_DEPTH_MAX, other);
	/* A post waits for room for a whole doorbell; and one place is the watcher's. */
	if (attr->max_qp_wr < (int)VERBS_QP_DEPTH_MIN + 1)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY, "verbs: a queue pair of the "
			"device %s holds %d requests, and must hold %u; %s", device,
			attr->max_qp_wr, VERBS_QP_DEPTH_MIN + 1, other);
	return 0;
}

/* InfiniBand's rules for a reliable connection; the device says if atomics hold against the CPU. */
uint32_t
nam__verbs_caps(const struct ibv_device_attr *attr)
{
	return NAM_CAP_ORDER_WRITES | NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ |
		NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ | NAM_CAP_UD |
		(attr->atomic_cap == IBV_ATOMIC_GLOB ? NAM_CAP_ATOMIC_VS_CPU : 0);
}

static int
query(struct verbs_domain *domain, struct nam_diag *diag)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	uint64_t longest = 0;
	uint32_t depth;
	int rc = -ibv_query_device(domain->verbs, &attr);

	if (rc)
		return nam_diag_set(diag, rc, "verbs: %s: cannot be asked what it can do: %s",
			domain->device, nam_err_text(rc));
	rc = nam__verbs_usable(domain->device, &attr, diag);
	if (rc)
		return rc;
	for (uint8_t i = 1; i <= attr.phys_port_cnt; i++) {
		memset(&port, 0, sizeof(port));
		if (ibv_query_port(domain->verbs, i, &port))
			continue;
		if (port.max_msg_sz > longest)
			longest = port.max_msg_sz;
		if (port.active_mtu > domain->port_mtu)
			domain->port_mtu = port.active_mtu;
		domain->up[i] = port.state == IBV_PORT_ACTIVE;
	}
	domain->ports = attr.phys_port_cnt;
	domain->longest = longest ? longest : 1u << 20;
	domain->reads_out = (uint8_t)lesser((uint64_t)attr.max_qp_init_rd_atom, 255);
	domain->reads_in = (uint8_t)lesser((uint64_t)attr.max_qp_rd_atom, 255);
	domain->soft = attr.vendor_id == VENDOR_RXE;
	domain->cqes_max = (uint32_t)attr.max_cqe;
	domain->numa_node = read_numa_node(domain->device);
	/* The watcher needs one place. */
	depth = lesser(VERBS_QP_DEPTH, (uint64_t)attr.max_qp_wr - 1);
	domain->pub.limits = (struct nam_fabric_limits){
		.caps = nam__verbs_caps(&attr),
		.qp_depth = depth,
		.message_bytes = lesser(VERBS_MESSAGE_BYTES, domain->longest),
		.inline_bytes = probe_inline(domain, depth + 1),
		.regions_are_files = 1,
		.device = attr.node_guid,
	};
	/* iWARP has neither UC nor UD. */
	if (domain->verbs->device->transport_type != IBV_TRANSPORT_IB)
		domain->pub.limits.caps &= ~(uint32_t)NAM_CAP_UD;
	else
		domain->pub.limits.datagram_bytes = lesser(VERBS_DATAGRAM_BYTES,
			128u << (domain->mtu ? domain->mtu : domain->port_mtu));
	return 0;
}

/* ---- overrides ----------------------------------------------------------------------------- */

static int
take_mtu(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag)
{
	static const char *const known[] = { [IBV_MTU_256] = "256", [IBV_MTU_512] = "512",
		[IBV_MTU_1024] = "1024", [IBV_MTU_2048] = "2048", [IBV_MTU_4096] = "4096" };
	const char *text = setting(options->mtu, "NAM_MTU");

	for (unsigned i = IBV_MTU_256; text && i <= IBV_MTU_4096; i++) {
		if (!strcmp(text, known[i]))
			domain->mtu = (enum ibv_mtu)i;
	}
	if (text && !domain->mtu)
		return nam_diag_set(diag, -EINVAL, "mtu, NAM_MTU: '%s' is none of 256, 512, "
			"1024, 2048, 4096", text);
	return 0;
}

int
nam__verbs_gid_find(const struct verbs_domain *domain, uint32_t index, struct ibv_gid_entry *ret)
{
	static const bool states[] = { true, false };

	for (unsigned i = 0; i < 2; i++)
		for (unsigned port = 1; port <= domain->ports; port++)
			if (domain->up[port] == states[i] &&
				!ibv_query_gid_ex(domain->verbs, port, index, ret, 0))
				return (int)port;
	return -ENOENT;
}

/* The address behind a GID is what makes rdma_cm choose that GID. */
static int
take_gid(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag)
{
	const char *text = setting(options->gid_index, "NAM_GID_INDEX");
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&domain->source;
	struct sockaddr_in *four = (struct sockaddr_in *)&domain->source;
	struct ibv_gid_entry entry;
	const struct in6_addr *gid = (const struct in6_addr *)(const void *)entry.gid.raw;
	char *end;
	long index;

	if (!text)
		return 0;
	errno = 0;
	index = strtol(text, &end, 10);
	if (end == text || *end || errno || index < 0 || index > 65535)
		return nam_diag_set(diag, -EINVAL, "gid_index, NAM_GID_INDEX: '%s' is not a "
			"number from 0 to 65535", text);
	if (nam__verbs_gid_find(domain, (uint32_t)index, &entry) < 0)
		return nam_diag_set(diag, -EINVAL, "gid_index, NAM_GID_INDEX: %s has no GID %ld; "
			"see `rdma link` and /sys/class/infiniband/%s/ports/*/gids",
			domain->device, index, domain->device);
	if (entry.gid_type == IBV_GID_TYPE_IB)
		return nam_diag_set(diag, -EINVAL, "gid_index, NAM_GID_INDEX: on InfiniBand the "
			"address of its network interface chooses the GID; leave it out");
	if (IN6_IS_ADDR_V4MAPPED(gid)) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, gid->s6_addr + 12, 4);
	} else {
		six->sin6_family = AF_INET6;
		six->sin6_addr = *gid;
		six->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(gid) ? entry.ndev_ifindex : 0;
	}
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int
open_device(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag)
{
	int count = 0, chosen, rc = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list || !count) {
		rc = nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY, "verbs: this host has no RDMA "
			"device (`rdma link` shows none). Load the driver of its network card, or "
			"set up Soft-RoCE: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev "
			"INTERFACE. On one host without either, use shm:PATH");
		goto free_list;
	}
	chosen = choose(domain, options, list, count, diag);
	if (chosen < 0) {
		rc = chosen;
		goto free_list;
	}
	(void)snprintf(domain->device, sizeof(domain->device), "%s",
		ibv_get_device_name(list[chosen]));
	domain->verbs = ibv_open_device(list[chosen]);
	if (!domain->verbs)
		rc = nam_diag_set(diag, errno ? -errno : -ENODEV, "verbs: cannot open the device "
			"%s: %s; may this user read and write /dev/infiniband/uverbs*?",
			domain->device, strerror(errno));
free_list:
	if (list)
		ibv_free_device_list(list);
	return rc;
}

int
nam__verbs_device_open(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag)
{
	struct addrinfo *at;
	int rc;

	/* A wrong address is wrong on hosts without a device, too. */
	if (options->address) {
		rc = nam__inet_resolve("verbs", options->address, options->listens, &at, diag);
		if (rc)
			return rc;
		freeaddrinfo(at);
	}
	/*
	 * Keeps registered pages out of a child, or the parent loses them at its next write.
	 * Kernels from 5.12 on copy them for the child.
	 */
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		(void)ibv_fork_init();
	rc = take_mtu(domain, options, diag);
	if (rc)
		return rc;
	rc = open_device(domain, options, diag);
	if (rc)
		return rc;
	domain->pd = ibv_alloc_pd(domain->verbs);
	if (!domain->pd) {
		rc = nam_diag_set(diag, -errno, "verbs: %s: protection domain: %s", domain->device,
			strerror(errno));
		goto close_device;
	}
	rc = query(domain, diag);
	if (!rc && domain->mtu && domain->port_mtu && domain->mtu > domain->port_mtu)
		rc = nam_diag_set(diag, -EINVAL, "mtu, NAM_MTU: packets of %u bytes are more "
			"than the %u that %s carries. Raise the MTU of its network interface (`ip "
			"link set ... mtu ...`) on every machine and switch between, or leave the "
			"option out", 128u << domain->mtu, 128u << domain->port_mtu,
			domain->device);
	if (!rc)
		rc = take_gid(domain, options, diag);
	if (!rc)
		rc = nam__verbs_nonblocking(domain->verbs->async_fd);
	if (rc)
		goto free_pd;
	return 0;

free_pd:
	(void)ibv_dealloc_pd(domain->pd);
close_device:
	(void)ibv_close_device(domain->verbs);
	return rc;
}

void
nam__verbs_device_close(struct verbs_domain *domain)
{
	(void)ibv_dealloc_pd(domain->pd);
	(void)ibv_close_device(domain->verbs);
}
