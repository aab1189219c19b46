/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c -- how the head of a record comes to lead to another version.
 *
 * By CAS, and forward in time only: who is to replace a version knows its timestamp.  That is in
 * the version, which is READ unless it was seen to be the latest so lately that it cannot be
 * another one by now (nam__seen_lately()).  Any client may move the head for the writer: it is
 * decided that all of a transaction's versions are committed once one is.
 *
 * Whoever has seen that a version is not, or will not be, the latest any more claims it, by CAS
 * of its word `current` from its timestamp to 0.  One of them wins, and retires the block.  Since
 * timestamps are unique, a CAS that comes late finds another timestamp there, and does nothing.
 */
#include <errno.h>
#include <stddef.h>

#include "txn_internal.h"

#define ROUNDS_MAX 1000u

void
nam__version_retire(struct nam_worker *worker, struct nam_gaddr at)
{
	uint32_t stride = nam__version_stride(nam__version_at_bytes(at));

	if (NAM_GUARD(VERSION_WAIT))
		nam_retire(worker, nam_gaddr_untagged(at), stride);
	else
		nam_free_unseen(worker, nam_gaddr_untagged(at), stride);
}

/* It is known now what is to be replaced. */
static void
judge(struct nam__item *item, uint64_t base_timestamp)
{
	item->base_timestamp = base_timestamp;
	if (NAM_GUARD(COMMIT_FORWARD) && base_timestamp > item->timestamp)
		item->state = item->owned || NAM_GUARD(LATE_CLAIM) ? NAM__ITEM_LATE :
			NAM__ITEM_DONE;
	else
		item->state = NAM__ITEM_SWAP;
}

void
nam__item_base_found(struct nam__txn *txn, struct nam__item *item)
{
	const struct nam__place *place = &item->place;

	item->base.raw = item->word;
	item->base_timestamp = 0;
	if (item->word == item->at.raw) {
		item->latest = true;
		item->state = NAM__ITEM_DONE;
	} else if (!item->word) {
		item->state = NAM__ITEM_SWAP;
	} else if (place->epoch && place->at.raw == item->word &&
		(nam__seen_lately(txn->worker, place->epoch) || !NAM_GUARD(VERSION_LATELY))) {
		item->base_timestamp = place->timestamp;
		item->state = NAM__ITEM_SWAP;
	} else {
		item->state = NAM__ITEM_HEADER;
	}
}

#define CURRENT ((uint32_t)offsetof(struct nam_version, current))

static void
claim_ask(struct nam_batch *batch, struct nam__item *item, struct nam_gaddr at, uint64_t timestamp)
{
	nam_batch_cas(batch, at, CURRENT, timestamp, 0, &item->claim);
}

/*
 * The claim first: in between, the head leads to a version that is the latest and does not look so.
 * The other way round one looks so and is not, for ever if we die; others replace ours and are told
 * so, and who has the address of that one would not notice (R6).
 */
static void
swap_ask(struct nam_batch *batch, struct nam__item *item)
{
	const bool claim_first = NAM_GUARD(CLAIM_FIRST);

	if (item->base.raw && claim_first)
		claim_ask(batch, item, item->base, item->base_timestamp);
	nam_batch_cas(batch, item->head, 0, item->base.raw, item->at.raw, &item->word);
	/* Queue pairs keep atomics in order, if they keep anything behind them. */
	if (item->base.raw && batch->count &&
		!(batch->worker->client->caps & NAM_CAP_ORDER_ATOMIC_READ))
		batch->wrs[batch->count - 1].flags |= NAM_WR_FENCE;
	if (item->base.raw && !claim_first)
		claim_ask(batch, item, item->base, item->base_timestamp);
}

/* Put what the item needs next into the batch, if there is room. */
static void
ask(struct nam_batch *batch, struct nam__item *item)
{
	item->asked = batch->count + 2 <= NAM_BATCH_MAX;
	if (!item->asked)
		return;
	switch (item->state) {
	case NAM__ITEM_HEAD:
		nam_batch_read(batch, item->head, &item->word, sizeof(item->word));
		break;
	case NAM__ITEM_HEADER:
		nam_batch_read(batch, item->base, &item->header, sizeof(item->header));
		break;
	case NAM__ITEM_SWAP:
		swap_ask(batch, item);
		break;
	case NAM__ITEM_LATE:
		claim_ask(batch, item, item->at, item->timestamp);
		break;
	default:
		item->asked = false;
	}
}

static int
header_came(struct nam__txn *txn, struct nam__item *item)
{
	/* It was the latest during this operation, so the block is a version of this record. */
	if (item->header.head != item->head.raw || item->header.store != txn->records->store)
		return nam_diag_set(&txn->worker->diag, -NAM_E_REMOTE_CORRUPT, "record store '%s': "
			"a record leads to what is no version of it; was the store dropped?",
			txn->records->name);
	judge(item, item->header.timestamp);
	return 0;
}

static void
swap_came(struct nam__txn *txn, struct nam__item *item)
{
	struct nam_gaddr base = item->base;

	/* If the head has moved on without us, what it led to is just as much replaced. */
	if (base.raw && item->claim == item->base_timestamp)
		nam__version_retire(txn->worker, base);
	if (item->word == base.raw) {
		item->latest = true;
		item->state = NAM__ITEM_DONE;
		return;
	}
	nam__count_restart(txn->worker, NAM_RESTART_OUTRUN);
	nam__item_base_found(txn, item);
}

/* What is there is newer, and the version was never to be seen by way of the head; or no more. */
static void
late_came(struct nam__txn *txn, struct nam__item *item)
{
	if (item->claim == item->timestamp)
		nam__version_retire(txn->worker, item->at);
	item->at = item->base;
	item->timestamp = item->base_timestamp;
	item->latest = true;
	item->state = NAM__ITEM_DONE;
}

static int
came(struct nam__txn *txn, struct nam__item *item)
{
	switch (item->state) {
	case NAM__ITEM_HEAD:
		nam__item_base_found(txn, item);
		return 0;
	case NAM__ITEM_HEADER:
		return header_came(txn, item);
	case NAM__ITEM_SWAP:
		swap_came(txn, item);
		return 0;
	default:
		late_came(txn, item);
		return 0;
	}
}

/* One batch for the items in these states; 1: there was one, 0: none is left. */
NAM_FIBER_FN static int
round_of(struct nam__txn *txn, unsigned states)
{
	struct nam_batch batch;
	int rc = 0;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		txn->items[i].asked = false;
		if (states >> txn->items[i].state & 1)
			ask(&batch, &txn->items[i]);
	}
	if (!batch.count)
		return 0;
	rc = nam_batch_await(&batch); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].asked)
			rc = came(txn, &txn->items[i]);
	return rc ? rc : 1;
}

int
nam__txn_find_bases(struct nam__txn *txn)
{
	int rc;

	do
		rc = round_of(txn, 1u << NAM__ITEM_HEAD | 1u << NAM__ITEM_HEADER); /* SUSPENDS */
	while (rc > 0);
	return rc;
}

int
nam__txn_commit(struct nam__txn *txn)
{
	const unsigned all = 1u << NAM__ITEM_HEAD | 1u << NAM__ITEM_HEADER |
		1u << NAM__ITEM_SWAP | 1u << NAM__ITEM_LATE;
	int rc = 1;

	for (unsigned i = 0; i < ROUNDS_MAX && rc > 0; i++) {
		nam_race_point("records.commit");
		rc = round_of(txn, all); /* SUSPENDS */
	}
	return rc > 0 ? -NAM_E_RESTART : rc;
}
