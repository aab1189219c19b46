/* SPDX-License-Identifier: Apache-2.0 */
#include "transport.h"

#include <errno.h>
#include <string.h>

static const char *const names[NAM_CARRIERS_COUNT] = {
	[NAM_CARRIER_SRQ] = "srq",
	[NAM_CARRIER_MAILBOX] = "mailbox",
	[NAM_CARRIER_FETCH] = "fetch",
	[NAM_CARRIER_DATAGRAM] = "datagram",
};

const char *
nam_carrier_name(enum nam_carrier carrier)
{
	return carrier < NAM_CARRIERS_COUNT ? names[carrier] : NULL;
}

int
nam_carrier_find(const char *name)
{
	for (int i = NAM_CARRIER_SRQ; i < NAM_CARRIERS_COUNT; i++)
		if (!strcmp(names[i], name))
			return i;
	return -EINVAL;
}
