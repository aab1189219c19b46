/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c -- the client that is stopped, or cut off, and holds back the epoch (C25).
 *
 * The lead looks whenever it is asked for the view, so a client counts as silent from the second
 * question on.
 */
#include "memserver/memserver_internal.h"

/* Whether its slot is old.  One that has changed since the last look is a sign of life. */
static bool
holds_back(const struct nam__membership *membership, uint32_t id, uint64_t now)
{
	struct nam__member *member = &membership->members[id];
	uint64_t slot = __atomic_load_n(&membership->epoch_slots[id], __ATOMIC_RELAXED);
	uint64_t word = __atomic_load_n(membership->epoch_word, __ATOMIC_RELAXED);

	if (slot && slot == member->epoch_seen && nam_epoch_ahead(word, slot) > 0)
		return true;
	member->epoch_seen = slot;
	member->heard_ns = now;
	return false;
}

uint16_t
nam__member_silent(struct nam__membership *membership, uint32_t *ret_ms)
{
	uint32_t left = membership->members ? membership->alive_count : 0;
	uint64_t now = nam_now_ns(), since = now;
	uint16_t silent = 0;

	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && left; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE)
			continue;
		left--;
		if (holds_back(membership, id, now) && member->heard_ns < since) {
			since = member->heard_ns;
			silent = id;
		}
	}
	*ret_ms = now - since > UINT32_MAX * 1000000ull ? UINT32_MAX :
		(uint32_t)((now - since) / 1000000);
	return silent;
}
