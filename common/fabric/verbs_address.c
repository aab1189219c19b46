/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_address.c -- addresses, hellos, and what the device's words for failures mean here. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "verbs_internal.h"

#define HOST_BYTES 256

/* Cut "verbs:HOST:PORT" or "verbs:[HOST]:PORT" in two. */
static int
split(const char *address, char host[HOST_BYTES], char port[8], struct nam_diag *diag)
{
	const char *rest = strncmp(address, "verbs:", 6) ? address : address + 6;
	const char *colon, *end;
	unsigned long number = 0;

	if (*rest == '[') {
		rest++;
		end = strchr(rest, ']');
		colon = end && end[1] == ':' ? end + 1 : NULL;
	} else {
		colon = end = strrchr(rest, ':');
		if (colon && memchr(rest, ':', (size_t)(colon - rest)))
			return nam_diag_set(diag, -EINVAL, "'%s': write an IPv6 address in "
				"brackets, for example verbs:[fe80::1%%eth0]:7000", address);
	}
	if (!colon || end == rest || (size_t)(end - rest) >= HOST_BYTES)
		return nam_diag_set(diag, -EINVAL, "'%s': write verbs:HOST:PORT, for example "
			"verbs:10.0.0.1:7000 or verbs:[fd00::1]:7000", address);
	for (const char *digit = colon + 1; *digit; digit++) {
		if (*digit < '0' || *digit > '9' || number > 65535)
			number = 65536;
		else
			number = number * 10 + (unsigned long)(*digit - '0');
	}
	if (!colon[1] || number > 65535)
		return nam_diag_set(diag, -EINVAL, "'%s': the port '%s' is not a number from 0 to "
			"65535", address, colon + 1);
	memcpy(host, rest, (size_t)(end - rest));
	host[end - rest] = '\0';
	(void)snprintf(port, 8, "%lu", number);
	return 0;
}

int
nam__verbs_resolve(const char *address, bool passive, struct addrinfo **ret, struct nam_diag *diag)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	char host[HOST_BYTES], port[8];
	int rc = split(address, host, port, diag);

	if (rc)
		return rc;
	rc = getaddrinfo(host, port, &hints, ret);
	if (rc == 0)
		return 0;
	return nam_diag_set(diag, rc == EAI_SYSTEM ? -errno : -EINVAL,
		"'%s': the host '%s' is not known: %s", address, host,
		rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

void
nam__verbs_address_text(const struct sockaddr *at, char *text, size_t size)
{
	char host[64], port[8];

	if (getnameinfo(at, sizeof(struct sockaddr_storage), host, sizeof(host), port,
		sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV)) {
		(void)snprintf(text, size, "an unknown address");
		return;
	}
	(void)snprintf(text, size, at->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

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
