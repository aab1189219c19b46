/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute.c -- the execution phase: records are found by the cache or by their buckets, and READ.
 *
 * Slots of a bucket are filled in their order and stay.  So if a search ends at a slot that is
 * free, no record has the key.  None has it as long as that slot is free (Z7).  A table grows where
 * it is full: a bucket whose slots are filled gets eight behind it, and no record moves.
 */
#include <errno.h>

#include "compute/remote/lock_slot.h"
#include "compute/worker/buffer.h"
#include "serial.h"

/* ---- one READ each --------------------------------------------------------------------------- */

static bool
is_pending(const struct nam__serial_item *item)
{
	return item->state == NAM__SERIAL_BUCKET || item->state == NAM__SERIAL_RECORD;
}

static void
search_begin(const struct nam_txn *txn, struct nam__serial_item *item)
{
	item->bucket = nam__serial_bucket_of(txn->store, &item->id);
	item->slot = 0;
	item->depth = 0;
}

/* The bucket is full: `next` leads to those behind it. */
static void
search_deeper(struct nam__serial_item *item, uint64_t next)
{
	item->bucket = nam__serial_bucket_behind(next, &item->id, item->depth);
	item->slot = 0;
	item->depth++;
}

void
nam__serial_seek(struct nam_txn *txn, struct nam__serial_item *item)
{
	struct nam__address address;

	item->tries = 0;
	item->cached = nam__addresses_find(txn->store->addresses, &item->id, &address);
	item->state = item->cached ? NAM__SERIAL_RECORD : NAM__SERIAL_BUCKET;
	if (item->cached)
		item->at = address.head;
	else
		search_begin(txn, item);
}

/* Whether the record, whose address is known, is to be locked as it is READ. */
static bool
is_to_lock(struct nam_txn *txn, const struct nam__serial_item *item)
{
	return txn->store->phases & NAM_TXN_LOCK_EARLY && item->state == NAM__SERIAL_RECORD &&
	       (item->update || item->next) && !item->locked;
}

/* Z2: memory servers have locked the records that have the keys and were not locked before. */
static void
locks_came(struct nam_txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];
		uint64_t word;

		if (!item->locking)
			continue;
		word = item->image->word;
		item->locking = false;
		item->locked = !nam__serial_locked(word) && word != NAM__SERIAL_DROPPED &&
			nam__serial_key_is(item, item->image->bytes, item->image->key_bytes);
		if (item->locked)
			item->sequence = word;
	}
	nam_race_point("serial.locked_early");
}

/* READ what all items wait for. */
NAM_FIBER_FN static int
pending_read(struct nam_txn *txn)
{
	const struct nam_txn_store *store = txn->store;
	const uint32_t room = nam__serial_room(store);
	uint16_t items[NAM_TXN_RECORDS_MAX];
	bool locks = false;
	uint32_t count = 0;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (!is_pending(item))
			continue;
		if (!item->image)
			item->image = nam__buffer_take(txn->worker, room);
		if (!item->image)
			return -ENOMEM;
		item->locking = is_to_lock(txn, item);
		locks |= item->locking;
		items[count] = (uint16_t)i;
		txn->reads[count++] = item->state == NAM__SERIAL_BUCKET ?
			(struct nam__read){ item->bucket, item->image,
				sizeof(struct nam_serial_bucket) } :
			(struct nam__read){ item->at, item->image,
				nam__serial_read_bytes(store, item->key_bytes) };
	}
	if (!locks)
		return nam__serial_means_of(store, NAM__SERIAL_EXECUTE)->read(txn,
			count); /* SUSPENDS */
	if (!txn->word)
		txn->word = nam__lock_word_new(txn->worker);
	rc = nam__serial_rpc_execute(txn, items, count); /* SUSPENDS */
	if (!rc)
		locks_came(txn);
	return rc;
}

/* ---- what was READ --------------------------------------------------------------------------- */

/* From item->slot on: the next record whose key has the tag, another bucket, or none. */
static int
bucket_came(struct nam_txn *txn, struct nam__serial_item *item)
{
	const struct nam_serial_bucket *bucket = (const void *)item->image;
	const uint16_t tag = (uint16_t)(item->id.word[0] >> 48);

	/* Z8: if it is of the store, it stays so until this transaction ends. */
	if (bucket->store != txn->store->store)
		return nam__serial_dropped(txn->worker, txn->store);
	for (; item->slot < NAM__SERIAL_SLOTS && bucket->slots[item->slot]; item->slot++) {
		struct nam_gaddr at = NAM_GADDR(bucket->slots[item->slot]);

		if (nam_gaddr_tag(at) != tag)
			continue;
		item->at = nam_gaddr_untagged(at);
		item->state = NAM__SERIAL_RECORD;
		return 0;
	}
	if (item->slot < NAM__SERIAL_SLOTS || !bucket->next) {
		item->state = NAM__SERIAL_NONE;
		item->sequence = 0;
		return 0;
	}
	/* A bucket at the greatest depth has none behind it. */
	if (item->depth == NAM__SERIAL_DEPTH_MAX)
		return -NAM_E_REMOTE_CORRUPT;
	search_deeper(item, bucket->next);
	return 0;
}

/* The search goes on behind a record of another key, or where the cache was wrong. */
static void
search_on(const struct nam_txn *txn, struct nam__serial_item *item)
{
	item->state = NAM__SERIAL_BUCKET;
	if (item->cached)
		search_begin(txn, item);
	else
		item->slot++;
	item->cached = false;
	item->tries = 0;
}

static void
address_note(const struct nam_txn *txn, const struct nam__serial_item *item)
{
	const struct nam__address address = { .head = item->at, .epoch = txn->epoch };

	nam__addresses_note(txn->store->addresses, &item->id, &address, txn->epoch);
}

/* A transaction with locks does not wait for others'.  It looks after them when it has none. */
static bool
holds_some(struct nam_txn *txn, const struct nam__serial_item *met)
{
	if (!nam__serial_has_locks(txn))
		return false;
	txn->met = met->image->word;
	txn->met_at = met->at;
	return true;
}

int
nam__serial_record_came(struct nam_txn *txn, struct nam__serial_item *item)
{
	const struct nam_serial_record *image = item->image;
	struct nam_txn_store *store = txn->store;
	enum nam__serial_look look;

	/* The key of a record is constant, so it need not be whole otherwise. */
	if (!nam__serial_key_is(item, image->bytes, image->key_bytes)) {
		search_on(txn, item);
		return 0;
	}
	if (image->word == NAM__SERIAL_DROPPED && image->store == store->store)
		return nam__serial_dropped(txn->worker, store);
	look = nam__serial_look(store, image, item->at);
	if (look == NAM__SERIAL_WHOLE) {
		item->state = NAM__SERIAL_FOUND;
		item->sequence = image->sequence;
		if (!item->cached)
			address_note(txn, item);
		return 0;
	}
	nam__count_restart(txn->worker, look == NAM__SERIAL_LOCKED ? NAM_RESTART_LOCKED :
		NAM_RESTART_TORN);
	item->torn = look == NAM__SERIAL_TORN && image->word == item->seen ? item->torn + 1 : 0;
	item->seen = image->word;
	if (look == NAM__SERIAL_LOCKED && holds_some(txn, item))
		return -NAM_E_CONFLICT;
	if (++item->tries < NAM__SERIAL_TRIES_MAX)
		return 0;
	if (look == NAM__SERIAL_LOCKED)
		return nam__serial_met(txn->worker, store, item->at, image->word); /* SUSPENDS */
	/* The word has changed between two READs: others write. */
	if (item->torn < NAM__SERIAL_TRIES_MAX - 1)
		return -NAM_E_CONFLICT;
	if (item->cached) {
		search_on(txn, item);
		return 0;
	}
	return nam_diag_set(&txn->worker->diag, -NAM_E_REMOTE_CORRUPT, "store '%s': the record at "
		"region %u offset %llu does not verify", store->name, nam_gaddr_region(item->at),
		(unsigned long long)nam_gaddr_offset(item->at));
}

int
nam__serial_execute(struct nam_txn *txn)
{
	uint32_t pending;
	int rc = nam__serial_check(txn); /* SUSPENDS */

	do {
		if (rc)
			return rc;
		rc = pending_read(txn); /* SUSPENDS */
		pending = 0;
		for (uint32_t i = 0; i < txn->count && !rc; i++) {
			struct nam__serial_item *item = &txn->items[i];

			if (!is_pending(item))
				continue;
			rc = item->state == NAM__SERIAL_BUCKET ? bucket_came(txn, item) :
				nam__serial_record_came(txn, item); /* SUSPENDS */
			pending += is_pending(item);
		}
	} while (rc || pending);
	return 0;
}

/* ---- records that are not there yet ---------------------------------------------------------- */

static bool
is_missing(const struct nam__serial_item *item)
{
	return item->next && item->state == NAM__SERIAL_NONE;
}

/* Z7: eight buckets behind a full one, by CAS; or those of another client that was quicker. */
NAM_FIBER_FN static int
buckets_append(struct nam_txn *txn, struct nam__serial_item *item)
{
	struct nam_serial_bucket *buckets;
	struct nam_gaddr at, next;
	struct nam_batch batch;
	int rc;

	if (item->depth == NAM__SERIAL_DEPTH_MAX)
		return nam_diag_set(&txn->worker->diag, -NAM_E_REMOTE_FULL, "store '%s': too many "
			"keys have 48 bits of their hashes in common", txn->store->name);
	buckets = nam_buffer_take(txn->worker, NAM__SERIAL_NEXT_BYTES);
	if (!buckets)
		return -ENOMEM;
	rc = nam_alloc(txn->worker, NAM__SERIAL_NEXT_BYTES, &at); /* SUSPENDS */
	if (rc)
		goto give;
	at = nam_gaddr_untagged(at);
	for (uint32_t i = 0; i < NAM__SERIAL_NEXT; i++)
		buckets[i] = (struct nam_serial_bucket){ .store = txn->store->store };
	rc = nam_write_await(txn->worker, at, buckets, NAM__SERIAL_NEXT_BYTES); /* SUSPENDS */
	nam_race_point("serial.buckets_written");
	if (!rc) {
		nam_batch_init(&batch, txn->worker);
		nam__batch_word_cas(&batch, item->bucket, offsetof(struct nam_serial_bucket, next),
			0, at.raw, item->cas);
		rc = nam_batch_await(&batch); /* SUSPENDS */
	}
	next = !NAM_GUARD(SERIAL_GROWN) ? at : NAM_GADDR(nam__word_now(item->cas, 0, at.raw));
	/* After a FABRIC code they may be linked. */
	if (!nam_err_is(rc, NAM_E_FABRIC) && (rc || !nam_gaddr_same(next, at)))
		nam_free_unseen(txn->worker, at, NAM__SERIAL_NEXT_BYTES);
	if (!rc)
		search_deeper(item, next.raw);
give:
	nam_buffer_give(txn->worker, buckets, NAM__SERIAL_NEXT_BYTES);
	return rc;
}

static uint64_t
link_of(const struct nam__serial_item *item)
{
	return nam_gaddr_tagged(item->at, (uint16_t)(item->id.word[0] >> 48)).raw;
}

/* A record of a key without a value, which no other client knows. */
NAM_FIBER_FN static int
unseen_make(struct nam_txn *txn, struct nam__serial_item *item)
{
	struct nam_serial_record *record = item->image;
	int rc = item->slot == NAM__SERIAL_SLOTS ? buckets_append(txn, item) : 0; /* SUSPENDS */

	if (!rc)
		rc = nam_alloc(txn->worker, txn->store->stride, &item->at); /* SUSPENDS */
	if (rc)
		return rc;
	item->at = nam_gaddr_untagged(item->at);
	*record = (struct nam_serial_record){
		.word = NAM__SERIAL_MADE,
		.sequence = NAM__SERIAL_MADE,
		.store = txn->store->store,
		.key_bytes = (uint16_t)item->key_bytes,
		.absent = 1,
	};
	memcpy(record->bytes, item->key, item->key_bytes);
	nam__serial_seal(record, item->at);
	return 0;
}

/* Z1: the records are whole before a slot leads to them. */
NAM_FIBER_FN static int
unseen_write(struct nam_txn *txn)
{
	struct nam_batch batch;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (!is_missing(item))
			continue;
		nam__serial_batch_room(&batch, 1); /* SUSPENDS */
		nam_batch_write(&batch, item->at, 0, item->image,
			nam__serial_bytes(item->key_bytes, 0));
	}
	return nam_batch_await(&batch); /* SUSPENDS */
}

/*
 * Z7: the slot at which a search ended leads to the record, unless another client, or this
 * transaction, has filled it.  Then the search goes on there, and finds that record if it has the
 * key.
 */
NAM_FIBER_FN static int
unseen_link(struct nam_txn *txn)
{
	const size_t slots = offsetof(struct nam_serial_bucket, slots);
	struct nam_batch batch;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (!is_missing(item))
			continue;
		nam__serial_batch_room(&batch, 1); /* SUSPENDS */
		nam__batch_word_cas(&batch, item->bucket,
			(uint32_t)(slots + item->slot * sizeof(uint64_t)), 0, link_of(item),
			item->cas);
	}
	return nam_batch_await(&batch); /* SUSPENDS */
}

/* Records that were linked are there; the blocks of others go back. */
static void
unseen_end(struct nam_txn *txn, int rc)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];
		bool linked;

		if (!is_missing(item) || nam_gaddr_is_null(item->at))
			continue;
		linked = !rc && nam__word_now(item->cas, 0, link_of(item)) == link_of(item);
		/* After a FABRIC code the record may be linked. */
		if (!nam_err_is(rc, NAM_E_FABRIC) && !linked)
			nam_free_unseen(txn->worker, item->at, txn->store->stride);
		item->state = linked ? NAM__SERIAL_FOUND : NAM__SERIAL_BUCKET;
		item->sequence = NAM__SERIAL_MADE;
	}
}

/* Z7: a round for all records that are missing.  They are whole before a slot leads to them. */
NAM_FIBER_FN static int
some_make(struct nam_txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++)
		if (is_missing(&txn->items[i]))
			txn->items[i].at = NAM_GADDR_NULL;
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (is_missing(&txn->items[i]))
			rc = unseen_make(txn, &txn->items[i]); /* SUSPENDS */
	if (!rc)
		rc = unseen_write(txn); /* SUSPENDS */
	nam_race_point("serial.made");
	/* Z7: a slot gets one of them, by CAS. */
	if (!rc)
		rc = unseen_link(txn); /* SUSPENDS */
	unseen_end(txn, rc);
	return rc ? rc : nam__serial_execute(txn); /* SUSPENDS */
}

int
nam__serial_make(struct nam_txn *txn)
{
	bool missing;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].made = is_missing(&txn->items[i]);
	do {
		missing = false;
		for (uint32_t i = 0; i < txn->count; i++)
			missing |= is_missing(&txn->items[i]);
		if (missing)
			rc = some_make(txn); /* SUSPENDS */
	} while (missing && !rc);
	/* The transaction has read that no transaction ever wrote it. */
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__serial_item *item = &txn->items[i];

		if (item->made && item->read && item->sequence != NAM__SERIAL_MADE)
			rc = -NAM_E_CONFLICT;
	}
	return rc;
}
