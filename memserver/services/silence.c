/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c -- the client that is stopped, or cut off, and is in the way of others (C25).  The lead
 * looks when it is asked for the view, so a client counts as silent from the second question on.
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

/* Of each member that a living client has lost: which was the first, and since when. */
struct losses {
	uint32_t count;			/* members */
	struct {
		const struct nam_view_member *from;
		uint64_t since_ns;
		uint16_t client;
	} each[NAM_SERVERS_MAX];
};

static void
loss_add(struct losses *losses, const struct nam_view_member *from, uint16_t client,
	uint64_t since_ns)
{
	uint32_t i = 0;

	while (i < losses->count && losses->each[i].from != from)
		i++;
	losses->count += i == losses->count;
	if (losses->each[i].from == from && losses->each[i].since_ns <= since_ns)
		return;
	losses->each[i].from = from;
	losses->each[i].since_ns = since_ns;
	losses->each[i].client = client;
}

uint16_t
nam__member_cut(const struct nam__membership *membership, uint16_t *ret_from, uint32_t *ret_ms)
{
	uint32_t left = membership->members ? membership->alive_count : 0, turn;
	struct losses losses = { 0 };
	uint64_t now = nam_now_ns();

	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && left; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE)
			continue;
		left--;
		for (uint32_t i = 0; i < CUTS; i++) {
			const struct nam_view_member *from = up_with_boot(&membership->view,
				member->cut[i].boot);

			if (from)
				loss_add(&losses, from, id, member->cut[i].since_ns);
		}
	}
	*ret_from = 0;
	*ret_ms = 0;
	if (!losses.count)
		return 0;
	/* A host that is gone hides no client that is cut off from another one. */
	turn = (uint32_t)(now / (NAM_VIEW_CUT_TURN_MS * 1000000ull) % losses.count);
	*ret_from = losses.each[turn].from->id;
	*ret_ms = nam__ms_since(losses.each[turn].since_ns, now);
	return losses.each[turn].client;
}
