/* SPDX-License-Identifier: Apache-2.0 */
/* succession.c -- the backup of the lead leads: which clients it has then (M25). */
#include "memserver/memserver_internal.h"

void
nam__membership_lead(struct nam__membership *membership)
{
	membership->alive_count = membership->fencing_count = 0;
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX; id++) {
		uint16_t incarnation = membership->newest[id].incarnation;
		struct nam__member *member = &membership->members[id];

		/* Whether it may still act is found out by fencing it: no other one is DEAD now. */
		if (member->incarnation != incarnation)
			*member = (struct nam__member){ .incarnation = incarnation,
				.state = incarnation ? NAM_CLIENT_FENCING : NAM_CLIENT_UNKNOWN,
				.connections = membership->present[id] };
		/* Until now it has given its signs of life to the lead. */
		member->heard_ns = member->acknowledged_ns = nam_now_ns();
		member->epoch_seen = 0;
		membership->alive_count += member->state == NAM_CLIENT_ALIVE;
		membership->fencing_count += member->state == NAM_CLIENT_FENCING;
		if (!nam__member_lives(membership, id))
			__atomic_store_n(&membership->epoch_slots[id], 0, __ATOMIC_SEQ_CST);
	}
	/* M4: the lead may have given out ids that did not come here. */
	membership->newest_of_all = (uint16_t)(membership->newest_of_all + 2) ?: 1;
	membership->sweep = 0;
	/* Clients that were DEAD there may be none here. */
	membership->unclean = true;
	__atomic_store_n(membership->sweep_word, 0, __ATOMIC_SEQ_CST);
	/* Release: the rest is seen by handlers that find it leading. */
	atomic_store_explicit(&membership->view.is_standby, false, memory_order_release);
}
