/* SPDX-License-Identifier: Apache-2.0 */
#include "transport.h"

#include <errno.h>
#include <string.h>

static const char *const names[NAM_TRANSPORTS_COUNT] = {
	[NAM_TRANSPORT_SRQ] = "srq",
	[NAM_TRANSPORT_MAILBOX] = "mailbox",
	[NAM_TRANSPORT_FETCH] = "fetch",
	[NAM_TRANSPORT_DATAGRAM] = "datagram",
};

const char *
nam_transport_name(enum nam_transport transport)
{
	return transport < NAM_TRANSPORTS_COUNT ? names[transport] : NULL;
}

int
nam_transport_find(const char *name)
{
	for (int i = NAM_TRANSPORT_SRQ; i < NAM_TRANSPORTS_COUNT; i++)
		if (!strcmp(names[i], name))
			return i;
	return -EINVAL;
}
