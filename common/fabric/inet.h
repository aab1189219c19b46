/* SPDX-License-Identifier: Apache-2.0 */
/* inet.h -- addresses NAME:HOST:PORT; HOST is a name, an IPv4 address, or [an IPv6 address]. */
#ifndef NAM_COMMON_FABRIC_INET_H
#define NAM_COMMON_FABRIC_INET_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct sockaddr;

/*
 * The socket addresses behind "NAME:HOST:PORT"; NAME may be left out.  The caller frees the list by
 * freeaddrinfo().  May wait for name servers.  -EINVAL: malformed, or no such host.
 */
int nam__inet_resolve(const char *name, const char *address, bool passive,
	struct addrinfo **ret, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * Whether other hosts reach a socket address behind it.  False for what is no address, or no known
 * host.  May wait for name servers.
 */
bool nam__inet_is_reached(const char *name, const char *address);

/* HOST:PORT in numbers, for people. */
void nam__inet_text(const struct sockaddr *at, char *text, size_t size);

#endif /* NAM_COMMON_FABRIC_INET_H */
