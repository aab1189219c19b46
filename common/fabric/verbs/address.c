/* SPDX-License-Identifier: Apache-2.0 */
/* address.c -- hellos, and what the device's words for failures mean here. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "verbs_internal.h"

int
nam__verbs_status(enum ibv_wc_status status)
{
	static const int codes[] = {
		[IBV_WC_LOC_PROT_ERR] = NAM_E_FABRIC_ACCESS,	/* our own key is wrong */
		[IBV_WC_LOC_ACCESS_ERR] = NAM_E_FABRIC_ACCESS,
		[IBV_WC_REM_ACCESS_ERR] = NAM_E_FABRIC_ACCESS,
		[IBV_WC_RETRY_EXC_ERR] = NAM_E_FABRIC_PEER_DEAD,
		[IBV_WC_REM_ABORT_ERR] = NAM_E_FABRIC_PEER_DEAD,
		/* With no reason before it: the other side ended it. */
		[IBV_WC_WR_FLUSH_ERR] = NAM_E_FABRIC_PEER_DEAD,
		[IBV_WC_RNR_RETRY_EXC_ERR] = NAM_E_FABRIC_TIMEOUT,
		[IBV_WC_RESP_TIMEOUT_ERR] = NAM_E_FABRIC_TIMEOUT,
		/* A message longer than its receive buffer, both sides. */
		[IBV_WC_LOC_LEN_ERR] = NAM_E_FABRIC_PROTOCOL,
		[IBV_WC_REM_INV_REQ_ERR] = NAM_E_FABRIC_PROTOCOL,
		[IBV_WC_REM_OP_ERR] = NAM_E_FABRIC_PROTOCOL,
		[IBV_WC_BAD_RESP_ERR] = NAM_E_FABRIC_PROTOCOL,
		[IBV_WC_REM_INV_RD_REQ_ERR] = NAM_E_FABRIC_PROTOCOL,
		[IBV_WC_LOC_QP_OP_ERR] = NAM_E_FABRIC_CAPABILITY,
		[IBV_WC_LOC_EEC_OP_ERR] = NAM_E_FABRIC_CAPABILITY,
		[IBV_WC_MW_BIND_ERR] = NAM_E_FABRIC_CAPABILITY,
	};
	unsigned i = (unsigned)status;

	if (status == IBV_WC_SUCCESS)
		return 0;
	return i < sizeof(codes) / sizeof(codes[0]) && codes[i] ? -codes[i] : -NAM_E_FABRIC;
}

int
nam__verbs_sent_status(enum ibv_wc_status status, uint8_t op)
{
	return status == IBV_WC_REM_INV_REQ_ERR && op != NAM_WR_SEND ? -NAM_E_FABRIC_ACCESS :
		nam__verbs_status(status);
}

int
nam__verbs_diag_no_device(const char *address, const char *names, int way, struct nam_diag *diag)
{
	if (way == -ETIMEDOUT || way == -EHOSTUNREACH || way == -ENETUNREACH)
		return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "verbs: '%s' cannot be reached: "
			"%s; is the host up, and the address one of an RDMA device there? (RDMA "
			"devices of this host: %s)", address, strerror(-way), names);
	return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "verbs: this host has several RDMA "
		"devices (%s), and '%s' leads to none of them. Name one (the option device, or "
		"NAM_DEVICE in the environment), or one's address", names,
		address ? address : "");
}

void
nam__verbs_pack(enum verbs_message message, const struct nam_hello *hello, uint8_t mtu, void *ret)
{
	struct verbs_reply packed = {
		.magic = VERBS_MAGIC,
		.version = VERBS_VERSION,
		.params.mtu = mtu,
	};

	packed.bytes = (uint8_t)nam__hello_put(packed.data, hello, message);
	memcpy(ret, &packed, offsetof(struct verbs_reply, data) + message);
}

int
nam__verbs_unpack(enum verbs_message message, const void *data, size_t bytes,
	struct nam_hello *ret, struct verbs_params *ret_params)
{
	enum verbs_kind kind = message == VERBS_HELLO ? VERBS_ANSWER : VERBS_CHALLENGE;
	size_t wanted = offsetof(struct verbs_reply, data) + message;
	struct verbs_reply reply;

	if (!data || bytes < wanted)
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(&reply, data, wanted);
	if (reply.magic != VERBS_MAGIC || reply.bytes > message)
		return -NAM_E_FABRIC_PROTOCOL;
	if (reply.version != VERBS_VERSION)
		return -NAM_E_FABRIC_VERSION;
	if (reply.params.kind != VERBS_PLAIN && reply.params.kind != kind)
		return -NAM_E_FABRIC_PROTOCOL;
	ret->bytes = reply.bytes;
	ret->absent = 0;
	memcpy(ret->data, reply.data, reply.bytes);
	*ret_params = reply.params;
	if (ret_params->mtu > IBV_MTU_4096)
		ret_params->mtu = 0;
	return 0;
}

uint8_t
nam__verbs_mtu(uint8_t path, uint8_t own, uint8_t peers)
{
	uint8_t mtu = path;

	if (own && own < mtu)
		mtu = own;
	if (peers && peers < mtu)
		mtu = peers;
	return mtu;
}

int
nam__verbs_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return 0;
}
