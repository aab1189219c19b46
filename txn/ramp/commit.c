/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c -- moving the heads of records from one version to the next (P2).
 *
 * R4: by CAS, and forward in time only.  The client knows the timestamp of the version that it
 * replaces.  It has it from the cache, if that was the latest recently (nam__seen_lately()), or
 * else by a READ of its header.  Any client may move the head for the writer: once one version of a
 * transaction is committed, all of them will be.
 *
 * R8, P3: if a client finds that a version is not, or will not be, the latest, it claims it.  The
 * claim is a CAS of its word `current` from its timestamp to a mark.  The client whose mark is
 * there retires the block.  Timestamps are unique, so a late CAS finds another timestamp and does
 * nothing.  A drop commits nothing, NAM_RECORD_DROPPED, in place of each latest version.
 *
 * With a backup, the word counts that the member has once the CAS has been carried out at both.  A
 * CAS that is repeated finds the mark, or the version's own address.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "txn/records/protocols.h"

#define ROUNDS_MAX 1000u
/* Nested completions; each takes some 250 bytes of the stack. */
#define DEPTH_MAX 8u

void
nam__version_retire(struct nam_worker *worker, struct nam_gaddr at, uint64_t timestamp)
{
	uint32_t stride = nam__version_stride(nam__version_at_bytes(at));

	at = nam_gaddr_untagged(at);
	/* R7: through the limbo.  G5: a version lies in a block of its writer's. */
	if (timestamp % NAM_CLIENTS_MAX == worker->client->id)
		nam__retire_own(worker, at, stride);
	else
		nam_retire(worker, at, stride);
}

/*
 * A version of the item's record is claimed.  T3: a row's version is kept until all of the
 * transaction that replaced it is committed.
 */
static void
replaced(struct nam__txn *txn, const struct nam__item *item, struct nam_gaddr at,
	uint64_t timestamp)
{
	if (!txn->records->rows)
		nam__version_retire(txn->worker, at, timestamp);
	else if (txn->replaced_count < NAM__REPLACED_MAX)
		txn->replaced[txn->replaced_count++] = (struct nam__replaced){ at,
			(uint32_t)(item - txn->items) };
	else
		nam__block_leaked(txn->records->client,
			nam__version_stride(nam__version_at_bytes(at)));
}

void
nam__item_base_found(struct nam__txn *txn, struct nam__item *item)
{
	const struct nam__address *address = &item->cached;

	item->base.raw = item->word;
	item->base_timestamp = 0;
	if (item->word == item->at.raw) {
		item->latest = true;
		item->state = NAM__ITEM_DONE;
	} else if (!nam__head_is_of(txn->records, item->word, item->tag)) {
		/* Other clients may find its siblings, but not complete it: the blocks are ours. */
		item->dropped = true;
		item->state = item->owned ? NAM__ITEM_LATE : NAM__ITEM_DONE;
	} else if (!item->word) {
		item->state = NAM__ITEM_SWAP;
	} else if (address->at.raw == item->word && nam__address_is_recent(txn->worker, address)) {
		item->base_timestamp = address->timestamp;
		item->state = NAM__ITEM_SWAP;
	} else {
		item->state = NAM__ITEM_HEADER;
	}
}

#define CURRENT ((uint32_t)offsetof(struct nam_version, current))

/* R8: at most one client finds its mark there, and retires the version. */
static void
claim_post(const struct nam__txn *txn, struct nam_batch *batch, struct nam__item *item,
	struct nam_gaddr at, uint64_t timestamp)
{
	nam__batch_word_cas(batch, at, CURRENT, timestamp, txn->mark, item->claim);
}

/* R8: this client retires the version with that timestamp. */
static bool
is_claimed(const struct nam__txn *txn, const struct nam__item *item, uint64_t timestamp)
{
	return nam__word_now(item->claim, timestamp, txn->mark) == txn->mark;
}

/*
 * R6: the claim comes first.  In between, the head leads to a claimed version that is the latest.
 * In the other order an unclaimed version is not the latest, for ever if this client dies.  A
 * reader with its cached address would return it after newer ones were acknowledged.
 */
static void
swap_post(const struct nam__txn *txn, struct nam_batch *batch, struct nam__item *item)
{
	if (item->base.raw)
		claim_post(txn, batch, item, item->base, item->base_timestamp);
	nam__batch_word_cas(batch, item->head, 0, item->base.raw, item->at.raw, item->move);
	/* R6: some queue pairs reorder atomics; the fence keeps the order. */
	if (item->base.raw && batch->count &&
		!(batch->worker->client->caps & NAM_CAP_ORDER_ATOMIC_READ))
		batch->wrs[batch->count - 1].flags |= NAM_WR_FENCE;
}

/* Post the next access of the item. */
static void
ask(const struct nam__txn *txn, struct nam_batch *batch, struct nam__item *item)
{
	item->asked = true;
	if (batch->count + 2 > NAM_BATCH_MAX)
		nam__batch_post(batch);
	switch (item->state) {
	case NAM__ITEM_HEAD:
		nam_batch_read(batch, item->head, &item->word, NAM__HEAD_READ_BYTES);
		break;
	case NAM__ITEM_HEADER:
		nam_batch_read(batch, item->base, &item->header, sizeof(item->header));
		break;
	case NAM__ITEM_SWAP:
		swap_post(txn, batch, item);
		break;
	case NAM__ITEM_LATE:
		claim_post(txn, batch, item, item->at, item->timestamp);
		break;
	default:
		item->asked = false;
	}
}

static int
header_arrived(struct nam__txn *txn, struct nam__item *item)
{
	/* The head led there during this operation, so the block is a version of this record. */
	if (item->header.head != item->head.raw || item->header.store != txn->records->store)
		return nam__version_misled(txn->worker, txn->records);
	item->base_timestamp = item->header.timestamp;
	item->state = NAM__ITEM_SWAP;
	/* R4: a later version is there. */
	if (NAM_GUARD(COMMIT_FORWARD) && item->base_timestamp > item->timestamp)
		item->state = NAM__ITEM_LATE;
	return 0;
}

static void
swap_arrived(struct nam__txn *txn, struct nam__item *item)
{
	struct nam_gaddr base = item->base;

	/* R8.  If another client has moved the head, the version is replaced all the same. */
	if (base.raw && (is_claimed(txn, item, item->base_timestamp) || !NAM_GUARD(RETIRE_ONCE)))
		replaced(txn, item, base, item->base_timestamp);
	item->word = nam__word_now(item->move, base.raw, item->at.raw);
	if (item->word == item->at.raw) {
		item->latest = true;
		item->state = NAM__ITEM_DONE;
		return;
	}
	nam__count_restart(txn->worker, NAM_RESTART_OUTRUN);
	nam__item_base_found(txn, item);
}

static int
arrived(struct nam__txn *txn, struct nam__item *item)
{
	switch (item->state) {
	case NAM__ITEM_HEAD:
		nam__item_base_found(txn, item);
		return 0;
	case NAM__ITEM_HEADER:
		return header_arrived(txn, item);
	case NAM__ITEM_SWAP:
		swap_arrived(txn, item);
		return 0;
	default:
		/* R6: something newer is there, so this version is claimed. */
		if (is_claimed(txn, item, item->timestamp))
			replaced(txn, item, item->at, item->timestamp);
		item->state = NAM__ITEM_DONE;
		if (item->dropped)
			return 0;
		item->late = true;
		item->at = item->base;
		item->timestamp = item->base_timestamp;
		item->latest = true;
		return 0;
	}
}

/* One round trip for the items in these states; NAM__STEP_MORE: there were some. */
NAM_FIBER_FN static enum nam__step
round_of(struct nam__txn *txn, unsigned states, int *ret_rc)
{
	struct nam_batch batch;
	bool any = false;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].state == NAM__ITEM_HEADER)
			rc = nam__version_at_check(txn->worker, txn->records, txn->items[i].base);
	if (rc)
		return nam__step_failed(rc, ret_rc);
	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		txn->items[i].asked = false;
		if (states >> txn->items[i].state & 1)
			ask(txn, &batch, &txn->items[i]);
		any |= txn->items[i].asked;
	}
	if (!any)
		return NAM__STEP_DONE;
	rc = nam_batch_await(&batch); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].asked)
			rc = arrived(txn, &txn->items[i]);
	return rc ? nam__step_failed(rc, ret_rc) : NAM__STEP_MORE;
}

int
nam__txn_find_bases(struct nam__txn *txn)
{
	const unsigned states = 1u << NAM__ITEM_HEAD | 1u << NAM__ITEM_HEADER;
	int rc = 0;

	while (round_of(txn, states, &rc) == NAM__STEP_MORE) /* SUSPENDS */
		;
	return rc;
}

/* ---- for other clients ----------------------------------------------------------------------- */

void
nam__txn_add_version(struct nam__txn *txn, const struct nam_version_sibling *sibling,
	uint64_t timestamp)
{
	struct nam__item *item = &txn->items[txn->count++];

	memset((uint8_t *)item + sizeof(item->header), 0, sizeof(*item) - sizeof(item->header));
	item->id.word[0] = sibling->key_id;
	item->head.raw = sibling->head;
	item->at.raw = sibling->at;
	item->timestamp = timestamp;
	item->state = NAM__ITEM_HEAD;
}

int
nam__txn_complete(struct nam__txn *of, const struct nam_version_sibling *self, uint64_t timestamp,
	const struct nam_version_sibling *siblings, uint32_t count)
{
	struct nam__txn *txn = nam__txn_new(of->worker, of->records);
	int rc;

	if (!txn)
		return -ENOMEM;
	txn->depth = of->depth + 1;
	nam__txn_add_version(txn, self, timestamp);
	for (uint32_t i = 0; i < count && i < NAM_RECORDS_MAX - 1; i++)
		nam__txn_add_version(txn, &siblings[i], timestamp);
	rc = nam__txn_commit(txn); /* SUSPENDS */
	nam__txn_free(txn);
	return rc;
}

int
nam__txn_complete_of(struct nam__txn *of, const struct nam_version *version, struct nam_gaddr at)
{
	const struct nam_version_sibling self = { version->key_id, version->head, at.raw };
	const struct nam_version_sibling *siblings;
	uint32_t count = nam__version_siblings(version, &siblings);

	return nam__txn_complete(of, &self, version->timestamp, siblings, count); /* SUSPENDS */
}

/* Complete the transaction of a version that was the latest during this operation. */
NAM_FIBER_FN static int
complete_at(struct nam__txn *txn, struct nam_gaddr at)
{
	uint32_t bytes = nam__version_at_bytes(at);
	struct nam_version *version = nam_buffer_take(txn->worker, bytes);
	int rc = version ? nam_read_await(txn->worker, at, version, bytes) : -ENOMEM; /* SUSPENDS */

	if (!rc && !nam__version_whole(version, at, txn->records->store, false))
		rc = -NAM_E_REMOTE_CORRUPT;
	if (!rc)
		rc = nam__txn_complete_of(txn, version, at); /* SUSPENDS */
	nam_buffer_give(txn->worker, version, bytes);
	return rc;
}

/*
 * All of this transaction is committed.  T3: versions that it replaced can go, entries first, after
 * the scans that began before.  If a newer transaction outran this one, that one must be committed
 * as well.
 */
NAM_FIBER_FN static int
replaced_keep(struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->replaced_count; i++) {
		const struct nam__replaced *gone = &txn->replaced[i];
		const struct nam__item *item = &txn->items[gone->item];
		uint32_t stride = nam__version_stride(nam__version_at_bytes(gone->at));
		int rc = 0;

		if (item->late && NAM_GUARD(ENTRY_REPLACED))
			rc = txn->depth < DEPTH_MAX ? complete_at(txn, item->at) : /* SUSPENDS */
				-NAM_E_RESTART;
		if (rc)
			nam__block_leaked(txn->records->client, stride);
		else
			nam__retire_kept(txn->worker, txn->records, gone->at, stride);
		if (nam_err_is(rc, NAM_E_FABRIC))
			return rc;
	}
	return 0;
}

/* A client that commits for others has no timestamp in the transaction. */
void
nam__txn_mark(struct nam__txn *txn)
{
	txn->mark = ~(txn->timestamp ? txn->timestamp :
		nam__timestamp_next(txn->worker->client));
}

int
nam__txn_commit(struct nam__txn *txn)
{
	/* R6: a version that comes late is claimed. */
	const unsigned all = 1u << NAM__ITEM_HEAD | 1u << NAM__ITEM_HEADER |
		1u << NAM__ITEM_SWAP | (unsigned)NAM_GUARD(LATE_CLAIM) << NAM__ITEM_LATE;
	bool dropped = false;
	enum nam__step step = NAM__STEP_MORE;
	int rc = 0;

	nam__txn_mark(txn);
	/* R4: heads and timestamps are known before a head moves. */
	for (unsigned i = 0; i < ROUNDS_MAX && step == NAM__STEP_MORE; i++) {
		nam_race_point("records.commit");
		step = round_of(txn, all, &rc); /* SUSPENDS */
	}
	if (step != NAM__STEP_DONE)
		return step == NAM__STEP_FAILED ? rc : -NAM_E_RESTART;
	for (uint32_t i = 0; i < txn->count; i++)
		dropped |= txn->items[i].dropped;
	if (!dropped)
		return replaced_keep(txn); /* SUSPENDS */
	/* The entries of a dropped store's rows are nothing to wait for. */
	for (uint32_t i = 0; i < txn->replaced_count; i++)
		nam__version_retire(txn->worker, txn->replaced[i].at, 0);
	return nam__records_dropped(txn->worker, txn->records);
}
