/* SPDX-License-Identifier: Apache-2.0 */
#include "inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HOST_BYTES 256

/* Cut "NAME:HOST:PORT" in two. */
static int
split(const char *name, const char *address, char host[HOST_BYTES], char port[8],
	struct nam_diag *diag)
{
	size_t length = strlen(name);
	const char *rest = address, *colon, *end;
	unsigned long number = 0;

	if (!strncmp(address, name, length) && address[length] == ':')
		rest += length + 1;
	if (*rest == '[') {
		rest++;
		end = strchr(rest, ']');
		colon = end && end[1] == ':' ? end + 1 : NULL;
	} else {
		colon = end = strrchr(rest, ':');
		if (colon && memchr(rest, ':', (size_t)(colon - rest)))
			return nam_diag_set(diag, -EINVAL, "'%s': write an IPv6 address in "
				"brackets, for example %s:[fe80::1%%eth0]:7000", address, name);
	}
	if (!colon || end == rest || (size_t)(end - rest) >= HOST_BYTES)
		return nam_diag_set(diag, -EINVAL, "'%s': write %s:HOST:PORT, for example "
			"%s:10.0.0.1:7000 or %s:[fd00::1]:7000", address, name, name, name);
	for (const char *digit = colon + 1; *digit; digit++) {
		if (*digit < '0' || *digit > '9' || number > 65535)
			number = 65536;
		else
			number = number * 10 + (unsigned long)(*digit - '0');
	}
	/* Clients must know the port before, so 0 for any is of no use. */
	if (!number || number > 65535)
		return nam_diag_set(diag, -EINVAL, "'%s': the port '%s' is not a number from 1 to "
			"65535", address, colon + 1);
	memcpy(host, rest, (size_t)(end - rest));
	host[end - rest] = '\0';
	(void)snprintf(port, 8, "%lu", number);
	return 0;
}

int
nam__inet_resolve(const char *name, const char *address, bool passive, struct addrinfo **ret,
	struct nam_diag *diag)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	char host[HOST_BYTES], port[8];
	int rc = split(name, address, host, port, diag);

	if (rc)
		return rc;
	rc = getaddrinfo(host, port, &hints, ret);
	if (rc == 0)
		return 0;
	return nam_diag_set(diag, rc == EAI_SYSTEM ? -errno : -EINVAL,
		"'%s': the host '%s' is not known: %s", address, host,
		rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

static bool
is_loopback(const struct sockaddr *at)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)at;
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)at;

	return at->sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) :
		ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool
nam__inet_is_reached(const char *name, const char *address)
{
	struct addrinfo *list;
	bool reached = false;

	if (nam__inet_resolve(name, address, true, &list, NULL))
		return false;
	for (const struct addrinfo *at = list; at; at = at->ai_next)
		reached |= !is_loopback(at->ai_addr);
	freeaddrinfo(list);
	return reached;
}

void
nam__inet_text(const struct sockaddr *at, char *text, size_t size)
{
	if (getnameinfo(at, sizeof(struct sockaddr_storage), text, (socklen_t)size, NULL, 0,
		NI_NUMERICHOST))
		(void)snprintf(text, size, "an unknown address");
}
