/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liveness.c -- the client that is stopped, or cut off, and is in the way of others (C25).  The
 * lead looks when it is asked for the view, so a client counts as silent from the second question
 * on.
 */
#include "memserver/memserver_internal.h"

#define CUTS (sizeof(((struct nam__member *)0)->cut) / sizeof(((struct nam__member *)0)->cut[0]))

/*
 * Whether its slot is old, or 0: then it has not begun, or has ended, and a sweep waits for it.  A
 * slot that has changed is a sign of life.
 */
static bool
holds_back(const struct nam__membership *membership, uint32_t id, uint64_t now)
{
	struct nam__member *member = &membership->members[id];
	uint64_t slot = __atomic_load_n(&membership->epoch_slots[id], __ATOMIC_RELAXED);
	uint64_t word = __atomic_load_n(membership->epoch_word, __ATOMIC_RELAXED);

	if (slot == member->epoch_seen && (!slot || nam_epoch_ahead(word, slot) > 0))
		return true;
	member->epoch_seen = slot;
	member->heard_ns = now;
	return false;
}

uint32_t
nam__ms_since(uint64_t since, uint64_t now)
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
	*ret_ms = nam__ms_since(since, now);
	return silent;
}

/* The member whose memory that process has; one that moves may stay there. */
static const struct nam_view_member *
up_with_boot(const struct nam__view *view, uint64_t boot)
{
	for (uint32_t i = 0; boot && i < view->head.count; i++)
		if (view->members[i].boot == boot && view->members[i].state != NAM_VIEW_JOINING)
			return &view->members[i];
	return NULL;
}

void
nam__member_lost(const struct nam__membership *membership, struct nam__member *member, uint32_t id,
	uint64_t boot)
{
	const struct nam_view_member *lost = up_with_boot(&membership->view, boot);
	uint32_t at = 0;

	/* If it has been restarted, nothing of the client is there. */
	if (!lost || lost->id != id)
		return;
	for (uint32_t i = 0; i < CUTS; i++)
		if (member->cut[i].boot == boot)
			return;
	while (at < CUTS && up_with_boot(&membership->view, member->cut[at].boot))
		at++;
	if (at == CUTS)
		return;
	member->cut[at].boot = boot;
	member->cut[at].since_ns = nam_now_ns();
}

uint16_t
nam__member_cut(const struct nam__membership *membership, uint16_t *ret_from, uint32_t *ret_ms)
{
	struct {
		uint64_t since_ns;
		uint16_t client;	/* 0: none has lost it */
	} first[NAM_SERVERS_MAX] = { 0 };	/* for each member of the view */
	uint32_t left = membership->members ? membership->alive_count : 0, count = 0, turn, at = 0;
	const struct nam__view *view = &membership->view;
	uint64_t now = nam_now_ns();

	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && left; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE)
			continue;
		left--;
		for (uint32_t i = 0; i < CUTS; i++) {
			uint64_t since_ns = member->cut[i].since_ns;
			const struct nam_view_member *from = up_with_boot(view,
				member->cut[i].boot);
			size_t k = from ? (size_t)(from - view->members) : 0;

			if (!from || (first[k].client && first[k].since_ns <= since_ns))
				continue;
			count += !first[k].client;
			first[k].since_ns = since_ns;
			first[k].client = id;
		}
	}
	*ret_from = 0;
	*ret_ms = 0;
	if (!count)
		return 0;
	/* A host that is gone hides no client that is cut off from another one. */
	turn = (uint32_t)(now / (NAM_VIEW_CUT_TURN_MS * 1000000ull) % count);
	while (!first[at].client || turn-- > 0)
		at++;
	*ret_from = view->members[at].id;
	*ret_ms = nam__ms_since(first[at].since_ns, now);
	return first[at].client;
}
