/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h -- memory servers as of one moment, in the order of their ids.
 *
 * A client's list of servers grows as the view does.  A function that makes or looks for the parts
 * of one structure takes one snapshot, and goes by that to its end.
 */
#ifndef NAM_COMPUTE_CLIENT_MEMBERS_H
#define NAM_COMPUTE_CLIENT_MEMBERS_H

#include "common/gaddr.h"
#include "compute/client.h"

struct nam__members {
	uint64_t view;			/* number of a view that had been installed before; or 0 */
	uint32_t count;
	uint16_t slots[NAM_SERVERS_MAX];
	uint8_t ids[NAM_SERVERS_MAX / 8];	/* bit i: server id i is one of them */
};

/* A new structure lies on these: members that are UP or MOVING. */
void nam__members_joined(const struct nam_client *client, struct nam__members *ret_members);
/* A structure that exists may lie on these: all that the client knows. */
void nam__members_installed(const struct nam_client *client, struct nam__members *ret_members);

#endif /* NAM_COMPUTE_CLIENT_MEMBERS_H */
