/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c -- the client that is stopped, or cut off, and is in the way of others (C25).
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

static uint32_t
ms_since(uint64_t since, uint64_t now)
{
	uint64_t ms = (now - since) / 1000000;

	return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
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
	*ret_ms = ms_since(since, now);
	return silent;
}

static const struct nam_view_member *
up_with_boot(const struct nam__view *view, uint64_t boot)
{
	for (uint32_t i = 0; boot && i < view->head.count; i++)
		if (view->members[i].boot == boot && view->members[i].state == NAM_VIEW_UP)
			return &view->members[i];
	return NULL;
}

uint16_t
nam__member_cut(const struct nam__membership *membership, uint16_t *ret_from, uint32_t *ret_ms)
{
	uint32_t left = membership->members ? membership->alive_count : 0;
	uint64_t now = nam_now_ns(), since = UINT64_MAX;
	uint16_t cut = 0;

	*ret_from = 0;
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && left; id++) {
		const struct nam__member *member = &membership->members[id];
		const struct nam_view_member *from;

		if (member->state != NAM_CLIENT_ALIVE)
			continue;
		left--;
		from = up_with_boot(&membership->view, member->cut_boot);
		if (from && member->cut_ns < since) {
			since = member->cut_ns;
			*ret_from = from->id;
			cut = id;
		}
	}
	*ret_ms = cut ? ms_since(since, now) : 0;
	return cut;
}
