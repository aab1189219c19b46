/* SPDX-License-Identifier: Apache-2.0 */
/* address.c -- hellos, and what the device's words for failures mean here. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "verbs_internal.h"

int
nam__verbs_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_LOC_PROT_ERR:	/* our own key is wrong */
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return -NAM_E_FABRIC_ACCESS;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_WR_FLUSH_ERR:	/* with no reason before it: the other side ended it */
		return -NAM_E_FABRIC_PEER_DEAD;
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -NAM_E_FABRIC_TIMEOUT;
	case IBV_WC_LOC_LEN_ERR:	/* a message longer than its receive buffer, both sides */
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_BAD_RESP_ERR:
	case IBV_WC_REM_INV_RD_REQ_ERR:
		return -NAM_E_FABRIC_PROTOCOL;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_EEC_OP_ERR:
	case IBV_WC_MW_BIND_ERR:
		return -NAM_E_FABRIC_CAPABILITY;
	default:
		return -NAM_E_FABRIC;
	}
}

void
nam__verbs_hello_pack(const struct nam_hello *hello, uint8_t mtu, struct verbs_hello *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->magic = VERBS_MAGIC;
	ret->version = VERBS_VERSION;
	ret->mtu = mtu;
	if (!hello || hello->bytes > NAM_HELLO_BYTES_MAX)
		return;
	ret->bytes = (uint8_t)hello->bytes;
	memcpy(ret->data, hello->data, hello->bytes);
}

int
nam__verbs_hello_unpack(const void *data, size_t bytes, struct nam_hello *ret, uint8_t *ret_mtu)
{
	struct verbs_hello hello;

	if (!data || bytes < sizeof(hello))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(&hello, data, sizeof(hello));
	if (hello.magic != VERBS_MAGIC || hello.bytes > NAM_HELLO_BYTES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	if (hello.version != VERBS_VERSION)
		return -NAM_E_FABRIC_VERSION;
	ret->bytes = hello.bytes;
	memcpy(ret->data, hello.data, hello.bytes);
	if (ret_mtu)
		*ret_mtu = hello.mtu <= IBV_MTU_4096 ? hello.mtu : 0;
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
