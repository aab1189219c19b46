/* SPDX-License-Identifier: Apache-2.0 */
/* notes.c -- see notes.h. */
#include "notes.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rpc/move_rpc.h"
#include "worker.h"

/* ---- a worker ------------------------------------------------------------------------------ */

static void
note(struct nam__notes *notes, const struct nam_region_block *block, const struct nam_wr *wr)
{
	const struct nam_region *region = nam_region_block_at(block, wr->rkey, wr->remote);
	uint64_t page, last;
	_Atomic uint64_t *words;

	if (!region || !wr->bytes)
		return;
	words = notes->words + (size_t)(region - block->regions) * notes->region_words;
	page = (wr->remote - region->remote) / NAM_MOVE_NOTE_BYTES;
	last = (wr->remote - region->remote + wr->bytes - 1) / NAM_MOVE_NOTE_BYTES;
	for (; page <= last; page++) {
		uint64_t bit = 1ull << page % 64;

		/* Most pages are noted already, and a load keeps their cache line shared. */
		if (!(atomic_load_explicit(&words[page / 64], memory_order_relaxed) & bit))
			atomic_fetch_or_explicit(&words[page / 64], bit, memory_order_relaxed);
	}
}

/* In place of the provider's: C30. */
static int
post_noted(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const struct nam__answering *answering = qp->user;
	const struct nam_client *client = answering->worker->client;
	struct nam__notes *notes = atomic_load_explicit(&client->notes, memory_order_acquire);
	const struct nam_region_block *block = notes && notes->slot == answering->slot ?
		nam_region_table_block(&client->regions, notes->id) : NULL;

	for (unsigned i = 0; block && i < count; i++)
		if (wrs[i].op >= NAM_WR_WRITE && wrs[i].op <= NAM_WR_FETCH_ADD &&
			NAM_GUARD(NOTE_WRITES))
			note(notes, block, &wrs[i]);
	return client->backed ? client->post_backed(qp, wrs, count) :
		qp->ops->qp_post(qp, wrs, count);
}

void
nam__notes_follow(struct nam_worker *worker)
{
	const struct nam_client *client = worker->client;

	worker->qp_post = atomic_load_explicit(&client->notes, memory_order_acquire) ?
		post_noted :
		client->backed ? client->post_backed : client->domains[0]->ops->qp_post;
	/* C34 */
	worker->cq_poll = client->backed && !(client->caps & NAM_CAP_LASTING) ?
		client->poll_backed : client->domains[0]->ops->cq_poll;
}

/* ---- the epoch thread ------------------------------------------------------------------------ */

/* The notes of an earlier copy of that member, or new ones. */
static struct nam__notes *
notes_of(struct nam_client *client, uint32_t slot, uint32_t region_words, uint32_t count)
{
	struct nam__notes *notes;

	SLIST_FOREACH(notes, &client->notes_made, made)
		if (notes->slot == slot && notes->count == count)
			return notes;
	notes = calloc(1, sizeof(*notes) + count * sizeof(notes->words[0]));
	if (!notes)
		return NULL;
	notes->taken = calloc(count, sizeof(notes->taken[0]));
	if (!notes->taken) {
		free(notes);
		return NULL;
	}
	notes->slot = slot;
	notes->id = client->servers[slot].id;
	notes->region_words = region_words;
	notes->count = count;
	SLIST_INSERT_HEAD(&client->notes_made, notes, made);
	return notes;
}

int
nam__notes_begin(struct nam_client *client, uint32_t slot)
{
	const struct nam__server *server = &client->servers[slot];
	struct nam__notes *notes = atomic_load_explicit(&client->notes, memory_order_relaxed);
	const struct nam_region_block *block = nam_region_table_block(&client->regions,
		server->id);
	uint32_t region_words;

	if (notes && notes->slot == slot)
		return 0;
	if (!block)
		return -NAM_E_NOREGION;
	region_words = nam_move_note_words(block->regions[0].bytes);
	notes = notes_of(client, slot, region_words, region_words * server->regions_count);
	if (!notes)
		return -ENOMEM;
	/* Release: workers find it whole. */
	atomic_store_explicit(&client->notes, notes, memory_order_release);
	return 0;
}

bool
nam__notes_end(struct nam_client *client, uint32_t slot)
{
	const struct nam__notes *notes = atomic_load_explicit(&client->notes,
		memory_order_relaxed);

	if (!notes || notes->slot != slot)
		return false;
	atomic_store_explicit(&client->notes, NULL, memory_order_release);
	return true;
}

void
nam__notes_take(struct nam__notes *notes)
{
	for (uint32_t i = 0; i < notes->count; i++)
		if (atomic_load_explicit(&notes->words[i], memory_order_relaxed))
			notes->taken[i] |= atomic_exchange_explicit(&notes->words[i], 0,
				memory_order_relaxed);
}

void
nam__notes_free(struct nam_client *client)
{
	struct nam__notes *notes;

	while ((notes = SLIST_FIRST(&client->notes_made))) {
		SLIST_REMOVE_HEAD(&client->notes_made, made);
		free(notes->taken);
		free(notes);
	}
}
