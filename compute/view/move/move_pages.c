/* SPDX-License-Identifier: Apache-2.0 */
#include "move_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_PAGES 256u		/* 1 MiB */

/* ---- notes ----------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
claim(struct nam__move_pages *pages, struct nam_client *client, enum nam__move_at at,
	uint64_t deadline_ns)
{
	pages->at = at;
	return nam__move_call(client, NAM_RPC_MOVE_CLAIM, 0, &pages->claim, sizeof(pages->claim),
		deadline_ns, NULL, NULL); /* SUSPENDS */
}

int
nam__move_pages_claim(struct nam__move_pages *pages, uint32_t id, uint64_t deadline_ns)
{
	const struct nam_region_block *block = nam_region_table_block(&pages->old->regions, id);
	int rc;

	pages->at = NAM__MOVE_AT_OLD;
	if (!block || !block->regions[0].bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	pages->claim = (struct nam_rpc_move_claim){ .region_bytes = block->regions[0].bytes,
		.id = id, .regions = pages->old->servers[0].regions_count };
	pages->region_words = nam_move_note_words(pages->claim.region_bytes);
	pages->count = pages->region_words * pages->claim.regions;
	pages->left = 0;
	pages->all = true;
	free(pages->words);
	pages->words = calloc(pages->count, sizeof(pages->words[0]));
	if (!pages->words)
		return -ENOMEM;
	rc = claim(pages, pages->lead, NAM__MOVE_AT_LEAD, deadline_ns); /* SUSPENDS */
	/* The lead notes for both. */
	return rc || !id ? rc : claim(pages, pages->old, NAM__MOVE_AT_OLD,
		deadline_ns); /* SUSPENDS */
}

static int
notes_add(struct nam__move_pages *pages, const struct nam_rpc_move_notes *notes, uint32_t bytes)
{
	uint32_t count = (bytes - (uint32_t)sizeof(*notes)) / (uint32_t)sizeof(notes->noted[0]);

	if (bytes != sizeof(*notes) + count * sizeof(notes->noted[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_move_noted *noted = &notes->noted[i];

		if (noted->word >= pages->count)
			return -NAM_E_FABRIC_PROTOCOL;
		pages->left += (uint64_t)__builtin_popcountll(noted->pages &
			~pages->words[noted->word]);
		pages->words[noted->word] |= noted->pages;
	}
	return 0;
}

/* *ret_lost: pages have changed that are noted nowhere. */
NAM_FIBER_FN static int
take(struct nam__move_pages *pages, struct nam_client *client, enum nam__move_at at, bool *ret_lost)
{
	struct nam_rpc_move_reply *reply = nam_buffer_take(client->epoch_worker, NAM_RPC_BODY_MAX);
	const struct nam_rpc_move_notes *notes;
	uint64_t next = 0;
	int rc = 0;

	pages->at = at;
	*ret_lost = false;
	if (!reply)
		return -ENOMEM;
	notes = (const void *)reply->page;
	do {
		uint32_t bytes = NAM_RPC_BODY_MAX;

		rc = nam__move_call(client, NAM_RPC_MOVE_TAKE, next, NULL, 0, 0, reply,
			&bytes); /* SUSPENDS */
		if (!rc && (bytes < sizeof(*reply) + sizeof(*notes) ||
				(reply->bytes && reply->bytes <= next)))
			rc = -NAM_E_FABRIC_PROTOCOL;
		if (!rc)
			rc = notes_add(pages, notes, bytes - (uint32_t)sizeof(*reply));
		if (!rc) {
			*ret_lost |= notes->lost;
			next = reply->bytes;
		}
	} while (!rc && next);
	nam_buffer_give(client->epoch_worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

int
nam__move_pages_take(struct nam__move_pages *pages)
{
	bool lost, lost_here = false, is_lead = !pages->claim.id;
	struct nam_client *notes_at = is_lead ? pages->lead : pages->old;
	enum nam__move_at at = is_lead ? NAM__MOVE_AT_LEAD : NAM__MOVE_AT_OLD;
	/* Keys and kinds of regions may have changed since the last pass. */
	int rc = nam__regions_refresh(pages->old); /* SUSPENDS */

	pages->at = NAM__MOVE_AT_OLD;
	if (!rc)
		rc = take(pages, pages->lead, NAM__MOVE_AT_LEAD, &lost); /* SUSPENDS */
	if (!rc && !is_lead)
		rc = take(pages, pages->old, NAM__MOVE_AT_OLD, &lost_here); /* SUSPENDS */
	if (rc || (!pages->all && !lost && !lost_here))
		return rc;
	/* C30: now that all clients note, so runs that come later are noted, too. */
	rc = claim(pages, notes_at, at, 0); /* SUSPENDS */
	if (!rc)
		rc = take(pages, notes_at, at, &lost); /* SUSPENDS */
	pages->all = rc != 0;
	return rc;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static bool
has_page(const struct nam__move_pages *pages, uint64_t page)
{
	return pages->words[page / 64] >> page % 64 & 1;
}

/*
 * A region without blocks may have become private, and what it held is of no use.  A client with a
 * bug may name pages that are not there.
 *
 * @page	the first of so many that are neighbours
 */
NAM_FIBER_FN static int
chunk_copy(struct nam__move_pages *pages, uint64_t page, uint32_t count, void *from, void *to)
{
	uint64_t region_pages = 64ull * pages->region_words;
	uint32_t region = pages->claim.id * NAM_REGIONS_PER_SERVER +
		(uint32_t)(page / region_pages);
	struct nam_gaddr at = nam_gaddr_make((uint16_t)region,
		page % region_pages * NAM_MOVE_NOTE_BYTES, 0);
	uint32_t bytes = count * NAM_MOVE_NOTE_BYTES;
	int rc;

	if (!nam_region_table_range(&pages->old->regions, at, bytes) ||
		!nam_region_table_public(&pages->old->regions, at))
		return 0;
	pages->at = NAM__MOVE_AT_OLD;
	/* C30: if a client changes the page from here on, it notes it. */
	rc = nam_read_await(pages->old->epoch_worker, at, from, bytes); /* SUSPENDS */
	if (rc)
		return rc;
	memcpy(to, from, bytes);
	pages->at = NAM__MOVE_AT_NEW;
	return nam_write_await(pages->new->epoch_worker, at, to, bytes); /* SUSPENDS */
}

/* From *page on: how many neighbours are to be copied, within a region.  0: there are none. */
static uint32_t
chunk_find(const struct nam__move_pages *pages, uint64_t *page)
{
	uint64_t region_pages = 64ull * pages->region_words, end = 64ull * pages->count;
	uint32_t count = 0;

	while (*page < end && !has_page(pages, *page))
		*page += pages->words[*page / 64] ? 1 : 64 - *page % 64;
	if (*page >= end)
		return 0;
	do
		count++;
	while (count < CHUNK_PAGES && (*page + count) % region_pages &&
		has_page(pages, *page + count));
	return count;
}

int
nam__move_pages_copy(struct nam__move_pages *pages, int (*copied)(void *arg, uint32_t bytes),
	void *arg)
{
	uint32_t room = CHUNK_PAGES * NAM_MOVE_NOTE_BYTES, count;
	void *from = nam_buffer_take(pages->old->epoch_worker, room);
	void *to = nam_buffer_take(pages->new->epoch_worker, room);
	int rc = from && to ? 0 : -ENOMEM;

	for (uint64_t page = 0; !rc && (count = chunk_find(pages, &page)); page += count) {
		rc = chunk_copy(pages, page, count, from, to); /* SUSPENDS */
		for (uint64_t done = page; !rc && done < page + count; done++)
			pages->words[done / 64] &= ~(1ull << done % 64);
		pages->left -= rc ? 0 : count;
		if (!rc)
			rc = copied(arg, count * NAM_MOVE_NOTE_BYTES);
	}
	if (from)
		nam_buffer_give(pages->old->epoch_worker, from, room);
	if (to)
		nam_buffer_give(pages->new->epoch_worker, to, room);
	return rc;
}

void
nam__move_pages_end(struct nam__move_pages *pages)
{
	free(pages->words);
	pages->words = NULL;
}
