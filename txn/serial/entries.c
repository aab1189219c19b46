/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries.c -- entries of secondary indexes, as commits change them.
 *
 * An entry is an index key and the record's address.  It is inserted when the record is locked, and
 * removed when the record has another value, while it is still locked (Z12).  So if a record is not
 * locked, its entries are there.  Others may be there, too: dead clients leave them (Z13).
 */
#include <errno.h>

#include "compute/backup/backups.h"
#include "compute/remote/lock_slot.h"
#include "compute/worker/buffer.h"
#include "indexed.h"

/* ---- which ----------------------------------------------------------------------------------- */

/* Whether the commit moves a record in an index.  NULL: it was not in it, or will not be. */
static bool
moves(const struct nam_txn *txn, const struct nam__serial_item *item, uint32_t number,
	const uint8_t *keys[2])
{
	const struct nam_txn_store *store = txn->store;

	if (!item->next)
		return false;
	keys[NAM__SERIAL_INSERTS] = nam__serial_index_key(store, number, item->next);
	keys[NAM__SERIAL_REMOVES] = nam__serial_index_key(store, number, item->image);
	return keys[0] && keys[1] ? memcmp(keys[0], keys[1],
		store->options.indexes[number].key_bytes) != 0 : keys[0] || keys[1];
}

static uint32_t
moves_count(const struct nam_txn *txn)
{
	const uint8_t *keys[2];
	uint32_t count = 0;

	for (uint32_t number = 0; number < txn->store->indexes_count; number++)
		for (uint32_t i = 0; i < txn->count; i++)
			if (moves(txn, &txn->items[i], number, keys))
				count += (keys[0] != NULL) + (keys[1] != NULL);
	return count;
}

/* Those of one index and pass, behind the first `count`.  Returns the new count. */
static uint32_t
list(const struct nam_txn *txn, enum nam__serial_pass pass, uint32_t number, uint32_t count)
{
	const uint8_t *keys[2];

	for (uint32_t i = 0; i < txn->count; i++)
		if (moves(txn, &txn->items[i], number, keys) && keys[pass])
			txn->entries->changes[count++] = (struct nam_index_change){ keys[pass],
				txn->items[i].at.raw, pass == NAM__SERIAL_INSERTS ?
				NAM_CHANGE_INSERT : NAM_CHANGE_DELETE_PAIR, 0 };
	return count;
}

int
nam__serial_entries_list(struct nam_txn *txn)
{
	uint32_t count = moves_count(txn), bytes, at = 0;

	if (!count)
		return 0;
	bytes = (uint32_t)(sizeof(*txn->entries) + count * sizeof(txn->entries->changes[0]));
	txn->entries = nam__buffer_take(txn->worker, bytes);
	if (!txn->entries)
		return -ENOMEM;
	txn->entries->bytes = bytes;
	txn->entries->entered = false;
	for (unsigned pass = NAM__SERIAL_INSERTS; pass <= NAM__SERIAL_REMOVES; pass++) {
		for (uint32_t number = 0; number < NAM_TXN_INDEXES_MAX; number++) {
			txn->entries->begin[pass][number] = at;
			if (number < txn->store->indexes_count)
				at = list(txn, (enum nam__serial_pass)pass, number, at);
		}
		txn->entries->begin[pass][NAM_TXN_INDEXES_MAX] = at;
	}
	return 0;
}

void
nam__serial_entries_free(struct nam_txn *txn)
{
	if (txn->entries)
		nam__buffer_give(txn->worker, txn->entries, txn->entries->bytes);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Operations do not nest.  The transaction has pinned an epoch. */
static enum nam_op_kind
op_pause(struct nam_worker *worker)
{
	enum nam_op_kind kind = (enum nam_op_kind)(worker->current->counters - worker->counters);

	nam__op_end(worker);
	return kind;
}

/* Returns what failed; an entry that is there, or is not, is no failure. */
NAM_FIBER_FN static int
index_change(struct nam_worker *worker, struct nam_index *index, struct nam_index_change *changes,
	uint32_t count)
{
	enum nam_op_kind kind = op_pause(worker);
	int rc = 0;

	(void)!nam_index_change_many(worker, index, changes, count); /* SUSPENDS */
	nam__op_resume(worker, kind);
	for (uint32_t i = 0; i < count && !nam_err_is(rc, NAM_E_FABRIC); i++)
		if (changes[i].rc && changes[i].rc != -NAM_E_EXISTS &&
			changes[i].rc != -NAM_E_NOTFOUND)
			rc = changes[i].rc;
	return nam_err_is(rc, NAM_E_RESTART) ? -NAM_E_CONFLICT : rc;
}

NAM_FIBER_FN static int
pass_change(struct nam_txn *txn, enum nam__serial_pass pass)
{
	struct nam__serial_entries *entries = txn->entries;
	int rc = 0;

	for (uint32_t number = 0; number < txn->store->indexes_count; number++) {
		const uint32_t *begin = &entries->begin[pass][number];
		int one = begin[1] == begin[0] ? 0 : index_change(txn->worker,
			txn->store->indexes[number], entries->changes + begin[0],
			begin[1] - begin[0]); /* SUSPENDS */

		rc = rc ? rc : one;
	}
	return rc;
}

/* Z11: own insertions have changed leaves that were scanned. */
NAM_FIBER_FN static int
leaves_again(struct nam_txn *txn)
{
	const struct nam__serial_entries *entries = txn->entries;

	for (uint32_t i = 0; i < nam__serial_leaves_count(txn); i++) {
		struct nam__serial_leaf *leaf = &txn->scans->leaves[i];
		struct nam_index *index = txn->store->indexes[leaf->index];
		const uint32_t *begin = &entries->begin[NAM__SERIAL_INSERTS][leaf->index];
		bool may = false;
		int rc;

		for (uint32_t k = begin[0]; k < begin[1]; k++)
			may |= !entries->changes[k].rc &&
				nam__leaf_may_cover(index, &leaf->note, entries->changes[k].key);
		if (!may)
			continue;
		rc = nam__leaf_again(txn->worker, index, entries->changes + begin[0],
			begin[1] - begin[0], &leaf->note); /* SUSPENDS */
		if (rc)
			return rc;
	}
	return 0;
}

int
nam__serial_entries_insert(struct nam_txn *txn)
{
	int rc;

	if (!txn->entries)
		return 0;
	txn->entries->entered = true;
	/* Z12: all records are locked, and none is validated yet. */
	rc = pass_change(txn, NAM__SERIAL_INSERTS); /* SUSPENDS */
	nam_race_point("serial.entered");
	return rc || !NAM_GUARD(SERIAL_ENTER) ? rc : leaves_again(txn); /* SUSPENDS */
}

int
nam__serial_entries_undo(struct nam_txn *txn)
{
	struct nam__serial_entries *entries = txn->entries;
	int rc;

	if (!entries || !entries->entered)
		return 0;
	for (uint32_t i = 0; i < entries->begin[NAM__SERIAL_REMOVES][0]; i++)
		entries->changes[i].kind = NAM_CHANGE_DELETE_PAIR;
	/* One that was there before is of no use, either (Z13). */
	rc = pass_change(txn, NAM__SERIAL_INSERTS); /* SUSPENDS */
	return nam_err_is(rc, NAM_E_FABRIC) ? rc : 0;
}

int
nam__serial_entries_remove(struct nam_txn *txn)
{
	int rc = pass_change(txn, NAM__SERIAL_REMOVES); /* SUSPENDS */

	nam_race_point("serial.removed");
	/* An entry that stays leads to a record with another key (Z13). */
	return nam_err_is(rc, NAM_E_FABRIC) ? rc : 0;
}

/* ---- logs ------------------------------------------------------------------------------------ */

static uint32_t
key_words(const struct nam_txn_store *store, uint32_t number)
{
	return (store->options.indexes[number].key_bytes + 7) / 8;
}

uint32_t
nam__serial_removes_words(const struct nam_txn *txn)
{
	const uint32_t *begin;
	uint32_t words = 0;

	if (!txn->entries)
		return 0;
	begin = txn->entries->begin[NAM__SERIAL_REMOVES];
	for (uint32_t number = 0; number < txn->store->indexes_count; number++)
		words += (begin[number + 1] - begin[number]) * (2 + key_words(txn->store, number));
	return words;
}

uint64_t *
nam__serial_removes_log(const struct nam_txn *txn, struct nam_serial_log *log, uint64_t *words)
{
	const struct nam__serial_entries *entries = txn->entries;

	log->removes = 0;
	for (uint32_t number = 0; entries && number < txn->store->indexes_count; number++) {
		const uint32_t *begin = &entries->begin[NAM__SERIAL_REMOVES][number];

		for (uint32_t i = begin[0]; i < begin[1]; i++, log->removes++) {
			words[0] = entries->changes[i].payload;
			words[1] = number;
			words[1 + key_words(txn->store, number)] = 0;
			memcpy(words + 2, entries->changes[i].key,
				txn->store->options.indexes[number].key_bytes);
			words += 2 + key_words(txn->store, number);
		}
	}
	return words;
}

int
nam__serial_removes_redo(struct nam_worker *worker, struct nam_txn_store *store,
	const struct nam_serial_log *log, struct nam_gaddr at)
{
	const uint64_t *words = log->entries;

	for (uint32_t i = 0; i < log->count; i++)
		words += nam__serial_entry_words((const void *)(words + 1));
	for (uint32_t i = 0; i < log->removes; i++) {
		struct nam_index_change change = { words + 2, at.raw, NAM_CHANGE_DELETE_PAIR, 0 };
		uint32_t number = (uint32_t)words[1];
		int rc;

		if (number >= store->indexes_count)
			return -NAM_E_REMOTE_CORRUPT;
		rc = words[0] == at.raw ? index_change(worker, store->indexes[number], &change,
			1) : 0; /* SUSPENDS */
		if (nam_err_is(rc, NAM_E_FABRIC))
			return rc;
		words += 2 + key_words(store, number);
	}
	return 0;
}

/* ---- strays ---------------------------------------------------------------------------------- */

/* A lock that only the backup of the record's member has does not count. */
NAM_FIBER_FN static bool
member_has(struct nam_txn *txn, struct nam__serial_item *item, uint64_t word)
{
	struct nam_worker *worker = txn->worker;

	if (!nam__is_backed(worker->client, nam__server_slot(worker->client, item->at)))
		return true;
	return !nam_read_await(worker, item->at, item->cas, sizeof(item->cas[0])) &&
		item->cas[0] == word; /* SUSPENDS */
}

/*
 * Z13: with the lock of the record, and its sequence, the record has not got that key meanwhile.
 * There is no log: if this client dies, the lock is taken back (Z5).
 */
NAM_FIBER_FN static int
stray_remove(struct nam_txn *txn, const struct nam__serial_stray *stray)
{
	struct nam__serial_item *item = &txn->items[stray->item - txn->items];
	struct nam_index_change change = { stray->key, item->at.raw, NAM_CHANGE_DELETE_PAIR, 0 };
	struct nam_worker *worker = txn->worker;
	const uint64_t word = nam__lock_word_new(worker), sequence = item->sequence;
	int rc = 0, change_rc = 0, undo_rc;
	uint64_t old = sequence;

	if (NAM_GUARD(SERIAL_STRAY))
		rc = nam__serial_word_cas(worker, txn->store, item->at, sequence, word,
			&old); /* SUSPENDS */
	/* A CAS that is repeated finds its own word.  One that fails may have the lock. */
	if (!rc && old != sequence && old != word)
		return 0;
	nam_race_point("serial.stray");
	if (!rc && (!NAM_GUARD(SERIAL_STRAY) || member_has(txn, item, word))) /* SUSPENDS */
		change_rc = index_change(worker, txn->store->indexes[stray->index], &change,
			1); /* SUSPENDS */
	/* A deletion that comes late must not meet an entry that is needed. */
	if (nam_err_is(change_rc, NAM_E_FABRIC) || !NAM_GUARD(SERIAL_STRAY))
		return change_rc;
	undo_rc = nam__serial_word_cas(worker, txn->store, item->at, word, sequence,
		&old); /* SUSPENDS */
	return rc ? rc : undo_rc;
}

void
nam__serial_strays_remove(struct nam_txn *txn)
{
	if (!txn->scans || txn->worker->reads_only)
		return;
	/* The next scan removes others. */
	for (uint32_t i = 0; i < txn->scans->strays_count; i++) {
		const struct nam__serial_stray *stray = &txn->scans->strays[i];

		/* Z12: this transaction may have given the record that key. */
		if (!stray->item->next && stray_remove(txn, stray)) /* SUSPENDS */
			break;
	}
}
