/* SPDX-License-Identifier: Apache-2.0 */
/* members.c -- memory servers as of one moment, in the order of their ids. */
#include "members.h"

#include <string.h>

#include "client_internal.h"

static void
snapshot(const struct nam_client *client, bool all, struct nam__members *ret_members)
{
	memset(ret_members->ids, 0, sizeof(ret_members->ids));
	/* Before the servers: one that is renewed meanwhile counts as later than the snapshot. */
	ret_members->view = atomic_load_explicit(&client->view_number, memory_order_acquire);
	ret_members->count = 0;
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++) {
		uint16_t slot = client->slot_of_id[id];

		/* Acquire: pairs with nam__member_note(). */
		if (slot == NAM__NO_SLOT || (!all && !atomic_load_explicit(
				&client->servers[slot].joined, memory_order_acquire)))
			continue;
		ret_members->slots[ret_members->count++] = slot;
		ret_members->ids[id / 8] |= (uint8_t)(1u << id % 8);
	}
}

void
nam__members_installed(const struct nam_client *client, struct nam__members *ret_members)
{
	snapshot(client, true, ret_members);
}

void
nam__members_joined(const struct nam_client *client, struct nam__members *ret_members)
{
	snapshot(client, false, ret_members);
}
