/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c -- scans of secondary indexes.
 *
 * An entry leads to a record, which says whether it has that key (Z13).  The transaction depends on
 * all records that it came to, and on each leaf of the range (Z11).
 */
#include <errno.h>

#include "compute/worker/buffer.h"
#include "indexed.h"

_Static_assert(sizeof(struct nam__serial_scans) <= 64u << 10, "two of them fit into a slab");

struct scan {
	struct nam_txn *txn;
	uint32_t number;		/* of the index */
	const struct nam_range *range;
	struct nam_cursor *cursor;
	struct nam_entries entries;	/* of a leaf; */
	uint32_t at;			/* those before were gathered */
	bool more;			/* there may be another leaf */
	struct nam_txn_row *rows;
	uint32_t count, wanted;
};

void
nam__serial_scans_free(struct nam_txn *txn)
{
	if (txn->scans)
		nam__buffer_give(txn->worker, txn->scans, sizeof(*txn->scans));
}

static int
scans_take(struct nam_txn *txn)
{
	if (!txn->scans) {
		txn->scans = nam__buffer_take(txn->worker, sizeof(*txn->scans));
		if (!txn->scans)
			return -ENOMEM;
		memset(txn->scans, 0, offsetof(struct nam__serial_scans, leaves));
	}
	return 0;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

/* Z11: the transaction depends on the leaf. */
static int
leaf_add(struct nam_txn *txn, uint32_t number, const struct nam__leaf_note *note)
{
	struct nam__serial_scans *scans = txn->scans;

	for (uint32_t i = 0; i < scans->leaves_count; i++) {
		const struct nam__serial_leaf *leaf = &scans->leaves[i];

		if (leaf->note.at.raw == note->at.raw)
			return memcmp(leaf->note.stamp, note->stamp, sizeof(note->stamp)) ?
				-NAM_E_CONFLICT : 0;
	}
	if (scans->leaves_count == NAM_TXN_LEAVES_MAX)
		return nam_diag_set(&txn->worker->diag, -NAM_E_LIMIT, "store '%s': scans of more "
			"than %u leaves in a transaction", txn->store->name, NAM_TXN_LEAVES_MAX);
	scans->leaves[scans->leaves_count++] = (struct nam__serial_leaf){ .note = *note,
		.index = number };
	return 0;
}

uint32_t
nam__serial_leaves_add(struct nam_txn *txn, struct nam__read *reads, uint32_t count)
{
	for (uint32_t i = 0; i < nam__serial_leaves_count(txn); i++) {
		struct nam__serial_leaf *leaf = &txn->scans->leaves[i];

		reads[count++] = (struct nam__read){ leaf->note.at, leaf->seen,
			sizeof(leaf->seen) };
	}
	return count;
}

bool
nam__serial_leaves_hold(const struct nam_txn *txn)
{
	for (uint32_t i = 0; i < nam__serial_leaves_count(txn); i++) {
		const struct nam__serial_leaf *leaf = &txn->scans->leaves[i];

		if (memcmp(leaf->seen + 1, leaf->note.stamp, sizeof(leaf->note.stamp)))
			return false;
	}
	return true;
}

/* Entries of the range, until as many are there as rows are missing. */
NAM_FIBER_FN static int
gather(struct scan *scan)
{
	struct nam__serial_scans *scans = scan->txn->scans;

	scans->gathered_count = 0;
	while (scan->more && scans->gathered_count < scan->wanted - scan->count &&
		scans->gathered_count < NAM_TXN_RECORDS_MAX) {
		struct nam__serial_gathered *one = &scans->gathered[scans->gathered_count];
		struct nam__leaf_note note;
		int rc;

		if (scan->at < scan->entries.count) {
			one->at = NAM_GADDR(nam_entries_payload(&scan->entries, scan->at));
			nam_entries_key(&scan->entries, scan->at++, one->key);
			scans->gathered_count++;
			continue;
		}
		scan->at = scan->entries.count = 0;
		rc = nam__leaves_next(scan->cursor, &note, &scan->entries,
			&scan->more); /* SUSPENDS */
		if (!rc && scan->more)
			rc = leaf_add(scan->txn, scan->number, &note);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

/* All records that the entries lead to, together. */
NAM_FIBER_FN static int
records_read(struct nam_txn *txn)
{
	struct nam__serial_scans *scans = txn->scans;
	const uint32_t room = nam__serial_room(txn->store);
	const uint32_t bytes = nam__serial_read_bytes(txn->store,
		txn->store->options.key_bytes_max);

	for (uint32_t i = 0; i < scans->gathered_count; i++)
		scans->gathered[i].image = NULL;
	for (uint32_t i = 0; i < scans->gathered_count; i++) {
		struct nam__serial_gathered *one = &scans->gathered[i];

		one->image = nam__buffer_take(txn->worker, room);
		if (!one->image)
			return -ENOMEM;
		scans->reads[i] = (struct nam__read){ one->at, one->image, bytes };
	}
	return nam__serial_reads_await(txn, scans->reads, scans->gathered_count); /* SUSPENDS */
}

/* The transaction has this record already. */
NAM_FIBER_FN static int
known_came(struct nam_txn *txn, const struct nam__serial_item *item,
	const struct nam__serial_gathered *one)
{
	uint64_t word = one->image->word;

	/* The commit READs it. */
	if (item->state == NAM__SERIAL_BLIND)
		return 0;
	/* Z2: its own early lock is on what it has read. */
	if (item->locked && word == txn->word)
		return 0;
	if (item->state == NAM__SERIAL_FOUND ? word == item->sequence : word == NAM__SERIAL_MADE)
		return 0;
	return nam__serial_locked(word) ? nam__serial_met(txn->worker, txn->store, one->at,
		word) : -NAM_E_CONFLICT; /* SUSPENDS */
}

NAM_FIBER_FN static int
record_take(struct nam_txn *txn, struct nam__serial_gathered *one)
{
	const struct nam_serial_record *image = one->image;
	struct nam__serial_item *item;

	/* A record's key and store are constant until it is dropped. */
	if (image->store != txn->store->store || image->word == NAM__SERIAL_DROPPED)
		return nam__serial_dropped(txn->worker, txn->store);
	item = one->item = nam__serial_item_of(txn, image->bytes, image->key_bytes);
	if (!item)
		return nam__serial_limit(txn, image->key_bytes);
	if (item->state != NAM__SERIAL_BLIND || item->next || item->read)
		return known_came(txn, item, one); /* SUSPENDS */
	item->read = true;
	item->at = one->at;
	item->state = NAM__SERIAL_RECORD;
	item->image = one->image;
	one->image = NULL;
	return nam__serial_record_came(txn, item); /* SUSPENDS */
}

NAM_FIBER_FN static int
records_take(struct nam_txn *txn)
{
	struct nam__serial_scans *scans = txn->scans;
	bool pending = false;
	int rc = records_read(txn); /* SUSPENDS */

	for (uint32_t i = 0; i < scans->gathered_count; i++) {
		struct nam__serial_gathered *one = &scans->gathered[i];

		if (!rc)
			rc = record_take(txn, one); /* SUSPENDS */
		pending |= !rc && one->item->state == NAM__SERIAL_RECORD;
		if (one->image)
			nam__buffer_give(txn->worker, one->image, nam__serial_room(txn->store));
	}
	return rc || !pending ? rc : nam__serial_execute(txn); /* SUSPENDS */
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct nam_txn_row
row_of(const struct nam_serial_record *record)
{
	return (struct nam_txn_row){ record->bytes, record->bytes + record->key_bytes,
		record->key_bytes, record->value_bytes };
}

static void
stray_note(struct nam_txn *txn, uint32_t number, const struct nam__serial_gathered *one)
{
	struct nam__serial_scans *scans = txn->scans;
	struct nam__serial_stray *stray = &scans->strays[scans->strays_count];

	if (scans->strays_count == NAM__SERIAL_STRAYS_MAX)
		return;
	stray->item = one->item;
	stray->index = number;
	memcpy(stray->key, one->key, sizeof(stray->key));
	scans->strays_count++;
}

/* Z13: the record says whether it has the key of the entry. */
static void
committed_add(struct scan *scan)
{
	const struct nam__serial_scans *scans = scan->txn->scans;
	const struct nam_txn_store *store = scan->txn->store;

	for (uint32_t i = 0; i < scans->gathered_count; i++) {
		const struct nam__serial_gathered *one = &scans->gathered[i];
		const struct nam__serial_item *item = one->item;
		const uint8_t *key;

		if (item->next || item->state != NAM__SERIAL_FOUND)
			continue;
		key = nam__serial_index_key(store, scan->number, item->image);
		if (NAM_GUARD(SERIAL_CONFIRM) ? !key || memcmp(key, one->key,
				store->options.indexes[scan->number].key_bytes) :
				item->image->absent)
			stray_note(scan->txn, scan->number, one);
		else if (scan->count < scan->wanted)
			scan->rows[scan->count++] = row_of(item->image);
	}
}

static bool
in_range(const struct scan *scan, const uint8_t *key, uint32_t bytes)
{
	const struct nam_range *range = scan->range;

	return (!range->low || memcmp(key, range->low, bytes) >= 0) &&
	       (!range->high || memcmp(key, range->high, bytes) < range->high_inclusive);
}

/* A row of the transaction's writes comes before that one of the range. */
static bool
comes_before(const struct scan *scan, const uint8_t *key, const struct nam_txn_row *row)
{
	const struct nam_txn_index *index = &scan->txn->store->options.indexes[scan->number];
	int order = memcmp(key, (const uint8_t *)row->value + index->value_offset,
		index->key_bytes);

	return scan->range->reverse ? order > 0 : order < 0;
}

/* If there is no room, the last row is beyond the scan. */
static void
own_add(struct scan *scan)
{
	const struct nam_txn *txn = scan->txn;
	const uint32_t bytes = txn->store->options.indexes[scan->number].key_bytes;

	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam_serial_record *next = txn->items[i].next;
		const uint8_t *key = next ? nam__serial_index_key(txn->store, scan->number, next) :
			NULL;
		uint32_t at = scan->count;

		if (!key || !in_range(scan, key, bytes))
			continue;
		while (at && comes_before(scan, key, &scan->rows[at - 1]))
			at--;
		if (at == scan->wanted)
			continue;
		scan->count += scan->count < scan->wanted;
		memmove(&scan->rows[at + 1], &scan->rows[at],
			(scan->count - 1 - at) * sizeof(scan->rows[0]));
		scan->rows[at] = row_of(next);
	}
}

/* ---- the scan -------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
perform(struct scan *scan)
{
	int rc;

	nam__op_begin(scan->txn->worker, NAM_OP_TXN_READ);
	rc = nam__serial_check(scan->txn); /* SUSPENDS */
	while (!rc && scan->more && scan->count < scan->wanted) {
		rc = gather(scan); /* SUSPENDS */
		if (!rc && scan->txn->scans->gathered_count)
			rc = records_take(scan->txn); /* SUSPENDS */
		if (!rc)
			committed_add(scan);
	}
	if (!rc)
		own_add(scan);
	nam__leaves_close(scan->cursor); /* SUSPENDS */
	nam__op_end(scan->txn->worker);
	return rc;
}

int
nam_txn_scan(struct nam_txn *txn, uint32_t index, const struct nam_range *range,
	struct nam_txn_row *rows, uint32_t capacity, uint32_t *ret_count)
{
	struct scan scan = { .txn = txn, .number = index, .range = range, .more = true,
		.rows = rows, .wanted = capacity };
	struct nam_range hint = *range;
	int rc;

	if (txn->failed)
		return txn->failed;
	if (index >= txn->store->indexes_count)
		return nam_diag_set(&txn->worker->diag, -EINVAL, "store '%s' has %u indexes, and "
			"none with the number %u", txn->store->name, txn->store->indexes_count,
			index);
	if (!capacity)
		return nam_diag_set(&txn->worker->diag, -EINVAL, "a scan needs room for a row");
	if (range->limit && range->limit < capacity)
		scan.wanted = (uint32_t)range->limit;
	hint.limit = scan.wanted;
	rc = nam__leaves_open(txn->worker, txn->store->indexes[index], &hint, &scan.cursor);
	if (rc)
		return rc;
	rc = scans_take(txn);
	if (!rc)
		rc = perform(&scan); /* SUSPENDS */
	else
		nam__leaves_close(scan.cursor); /* SUSPENDS */
	/* Others changed the index all the time: begin anew. */
	if (nam_err_is(rc, NAM_E_RESTART))
		rc = -NAM_E_CONFLICT;
	txn->failed = rc;
	if (!rc)
		*ret_count = scan.count;
	return rc;
}
