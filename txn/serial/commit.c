/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c -- the phases of a commit: lock, validate, log, write.
 *
 * All written records are locked before the first READ of the validation (Z3).  So there is a
 * moment at which the written records are locked and all others are as they were read.  The
 * transaction takes place then.
 *
 * It is committed once its log is complete.  Its records stay locked until they are written, so no
 * transaction reads what it replaces (Z14).  A task of its own may wait for that.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/lock_slot.h"
#include "compute/worker/buffer.h"
#include "indexed.h"

/* The word of a record is in the way.  If it is a lock, its client may be dead. */
static int
conflict(struct nam_txn *txn, const struct nam__serial_item *item, uint64_t word)
{
	txn->met = nam__serial_locked(word) ? word : 0;
	txn->met_at = item->at;
	return -NAM_E_CONFLICT;
}

/* ---- lock ------------------------------------------------------------------------------------ */

/* They stay. */
static void
locks_forget(struct nam_txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].locked = txn->items[i].locking = false;
}

/* Take the locks back; the records are as they were, so their sequences are, too (Z4). */
NAM_FIBER_FN static void
locks_undo(struct nam_txn *txn)
{
	/* If a memory server is gone, so are its records; or the lock ends with this client. */
	int rc = nam__serial_means_of(txn->store, NAM__SERIAL_LOCK)->words_cas(txn,
		true); /* SUSPENDS */
	uint64_t old;

	/* A member has got a backup since it took the locks: one by one. */
	for (uint32_t i = 0; i < txn->count && rc == -NAM_E_FABRIC_CAPABILITY; i++)
		if (txn->items[i].locked)
			(void)!nam__serial_word_cas(txn->worker, txn->store, txn->items[i].at,
				txn->word, txn->items[i].sequence, &old); /* SUSPENDS */
	locks_forget(txn);
}

/*
 * A backup has the lock word, as it had the sequence before, or as the CAS was repeated.  If
 * its member had another word, the lock does not count, but has to be taken back.
 */
static bool
is_at_backup(const struct nam_txn *txn, const struct nam__serial_item *item)
{
	return item->cas[0] == item->sequence || item->cas[0] == txn->word;
}

/* Z2: the CAS expects the sequence that was read, so it validates as it locks. */
NAM_FIBER_FN static int
lock(struct nam_txn *txn)
{
	struct nam__serial_item *met = NULL;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].cas[0] = 0;
	/* Those that were locked as they were READ are left out. */
	rc = nam__serial_means_of(txn->store, NAM__SERIAL_LOCK)->words_cas(txn,
		false); /* SUSPENDS */
	nam_race_point("serial.locked");
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];
		bool held = nam__word_now(item->cas, item->sequence, txn->word) == txn->word;

		if (!item->next || item->locked)
			continue;
		/* After a failure its word is unknown: the CAS that takes it back decides. */
		item->locked = rc || held || is_at_backup(txn, item);
		if (!held)
			met = item;
	}
	return !rc && met && NAM_GUARD(SERIAL_LOCK) ? conflict(txn, met, met->cas[0]) : rc;
}

/* ---- validate -------------------------------------------------------------------------------- */

static bool
still_holds(const struct nam_txn *txn, const struct nam__serial_item *item)
{
	const struct nam_serial_bucket *bucket = (const void *)item->image;

	if (item->state == NAM__SERIAL_FOUND)
		return item->seen == item->sequence;
	/* Z7: the slot at which the search ended is still free, or no bucket follows. */
	return bucket->store == txn->store->store && !(item->slot < NAM__SERIAL_SLOTS ?
		bucket->slots[item->slot] : bucket->next);
}

/* Leaves are READ together with the records, unless these go by RPC. */
NAM_FIBER_FN static int
validate_read(struct nam_txn *txn, uint32_t count)
{
	const struct nam__serial_means *means = nam__serial_means_of(txn->store,
		NAM__SERIAL_VALIDATE);
	int rc;

	if (!nam__serial_leaves_count(txn))
		return means->read(txn, count); /* SUSPENDS */
	if (means == &nam__serial_onesided) {
		memcpy(txn->scans->reads, txn->reads, count * sizeof(txn->reads[0]));
		count = nam__serial_leaves_add(txn, txn->scans->reads, count);
		return nam__serial_reads_await(txn, txn->scans->reads, count); /* SUSPENDS */
	}
	rc = count ? means->read(txn, count) : 0; /* SUSPENDS */
	if (rc)
		return rc;
	count = nam__serial_leaves_add(txn, txn->scans->reads, 0);
	return nam__serial_reads_await(txn, txn->scans->reads, count); /* SUSPENDS */
}

/* Z3, Z11: READ the words of records that are only read, and of leaves, after the locks. */
NAM_FIBER_FN static int
validate(struct nam_txn *txn)
{
	struct nam__serial_item *met = NULL;
	uint32_t count = 0;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (item->next || item->locked)
			continue;
		txn->reads[count++] = item->state == NAM__SERIAL_FOUND ?
			(struct nam__read){ item->at, &item->seen, sizeof(item->seen) } :
			(struct nam__read){ item->bucket, item->image,
				sizeof(struct nam_serial_bucket) };
	}
	rc = validate_read(txn, count); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (!txn->items[i].next && !txn->items[i].locked &&
			!still_holds(txn, &txn->items[i]))
			met = &txn->items[i];
	if (!rc && !nam__serial_leaves_hold(txn) && NAM_GUARD(SERIAL_LEAVES))
		rc = -NAM_E_CONFLICT;
	if ((rc && rc != -NAM_E_CONFLICT) || !met || !NAM_GUARD(SERIAL_VALIDATE))
		return rc;
	return conflict(txn, met, met->state == NAM__SERIAL_FOUND ? met->seen : 0);
}

/* ---- log, write ------------------------------------------------------------------------------ */

static uint32_t
log_bytes(const struct nam_txn *txn)
{
	uint32_t words = 0;

	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].next)
			words += nam__serial_entry_words(txn->items[i].next);
	words += nam__serial_removes_words(txn);
	return (uint32_t)(sizeof(struct nam_serial_log) + words * sizeof(uint64_t));
}

/* @log	room for log_bytes() */
static void
log_fill(const struct nam_txn *txn, struct nam_serial_log *log)
{
	uint64_t *entry = log->entries;

	log->word = txn->word;
	log->sequence = txn->sequence;
	log->count = 0;
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__serial_item *item = &txn->items[i];
		uint32_t words;

		if (!item->next)
			continue;
		words = nam__serial_entry_words(item->next);
		entry[words - 1] = 0;
		entry[0] = item->at.raw;
		memcpy(entry + 1, item->next, nam__serial_bytes(item->next->key_bytes,
			item->next->value_bytes));
		entry += words;
		log->count++;
	}
	entry = nam__serial_removes_log(txn, log, entry);
	log->bytes = (uint32_t)((uint8_t *)entry - (uint8_t *)log);
}

/*
 * Whether all locks were released.  If memory has moved, a release may have been repeated, and may
 * have found the word of a later transaction.
 */
static int
released(const struct nam_txn *txn, uint32_t moves)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__serial_item *item = &txn->items[i];
		uint64_t word;

		if (!item->next)
			continue;
		word = nam__word_now(item->cas, txn->word, txn->sequence);
		if (word == NAM__SERIAL_DROPPED)
			return nam__serial_dropped(txn->worker, txn->store);
		/* If a backup had the lock, another client may have been quicker at the member. */
		if (word != txn->sequence && item->cas[0] != txn->word &&
			moves == txn->worker->moves)
			return -NAM_E_FENCED;
	}
	return 0;
}

/* Z12: old entries are removed between the WRITEs and the release. */
NAM_FIBER_FN static int
write_and_remove(struct nam_txn *txn)
{
	const uint32_t from = offsetof(struct nam_serial_record, hash);
	struct nam_batch batch;
	int rc;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam_serial_record *next = txn->items[i].next;

		if (!next)
			continue;
		nam__serial_batch_room(&batch, 1); /* SUSPENDS */
		nam_batch_write(&batch, txn->items[i].at, from, (const uint8_t *)next + from,
			nam__serial_bytes(next->key_bytes, next->value_bytes) - from);
		nam__serial_apart(txn->store, &batch); /* SUSPENDS */
	}
	rc = nam_batch_await(&batch); /* SUSPENDS */
	nam_race_point("serial.written");
	if (!rc && NAM_GUARD(SERIAL_REMOVE))
		rc = nam__serial_entries_remove(txn); /* SUSPENDS */
	if (rc)
		return rc;
	/* Z4: the word of each becomes the new sequence, as if that were taken back. */
	for (uint32_t i = 0; i < txn->count; i++) {
		txn->items[i].locked |= txn->items[i].next != NULL;
		if (txn->items[i].next)
			txn->items[i].sequence = txn->sequence;
	}
	rc = nam__serial_means_of(txn->store, NAM__SERIAL_LOCK)->words_cas(txn,
		true); /* SUSPENDS */
	nam_race_point("serial.written");
	if (!rc && !NAM_GUARD(SERIAL_REMOVE))
		rc = nam__serial_entries_remove(txn); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
write_all(struct nam_txn *txn)
{
	uint32_t moves = txn->worker->moves;
	int rc = nam__serial_removes_some(txn) ? write_and_remove(txn) :
		nam__serial_means_of(txn->store, NAM__SERIAL_COMMIT)->write(txn); /* SUSPENDS */

	return rc ? rc : released(txn, moves);
}

/* The transaction is decided: it is committed with its log. */
NAM_FIBER_FN static int
log_all(struct nam_txn *txn, bool *ret_logged)
{
	const uint32_t bytes = log_bytes(txn);
	struct nam_serial_log *log = nam_buffer_take(txn->worker, bytes);
	int rc;

	if (!log)
		return -ENOMEM;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam_serial_record *next = txn->items[i].next;

		if (!next)
			continue;
		next->word = next->sequence = txn->sequence;
		nam__serial_seal(next, txn->items[i].at);
	}
	log_fill(txn, log);
	/* Z5: before the first record is written. */
	rc = nam__serial_log_write(txn->worker, txn->store, txn->log, log); /* SUSPENDS */
	nam_buffer_give(txn->worker, log, bytes);
	/* After a failure the log may be there, unless the request was not sent at all. */
	*ret_logged = rc != -NAM_E_FABRIC_CAPABILITY;
	nam_race_point("serial.logged");
	return rc;
}

/* Write a transaction whose log is complete, and give that back.  In an operation. */
NAM_FIBER_FN static int
write_finish(struct nam_txn *txn)
{
	int rc = write_all(txn); /* SUSPENDS */

	/* Records that were locked early, and not written. */
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].locked &= !txn->items[i].next;
	if (nam__serial_has_locks(txn))
		locks_undo(txn); /* SUSPENDS */
	/* Z6: a log stays until its transaction is complete. */
	if (!rc && txn->log)
		nam__serial_log_give(txn->store, txn->log);
	else
		free(txn->log);
	/* Z13: the validation has shown that they are strays. */
	if (!rc)
		nam__serial_strays_remove(txn); /* SUSPENDS */
	return rc;
}

/* ---- all phases ------------------------------------------------------------------------------ */

static bool
has_only_read(const struct nam_txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++)
		if (!txn->items[i].next && !txn->items[i].locked)
			return true;
	return false;
}

/* The records that it only writes are READ; those that are not there are made. */
NAM_FIBER_FN static int
prepare(struct nam_txn *txn)
{
	bool blind = false;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++) {
		if (txn->items[i].state != NAM__SERIAL_BLIND)
			continue;
		nam__serial_seek(txn, &txn->items[i]);
		blind = true;
	}
	if (blind)
		rc = nam__serial_execute(txn); /* SUSPENDS */
	if (!rc)
		rc = nam__serial_make(txn); /* SUSPENDS */
	if (!txn->word)
		txn->word = nam__lock_word_new(txn->worker);
	txn->sequence = 0;
	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].sequence > txn->sequence)
			txn->sequence = txn->items[i].sequence;
	txn->sequence++;
	return rc;
}

/* A request that a member with a backup refuses would leave locks behind. */
static int
backups_check(const struct nam_txn *txn)
{
	const uint32_t changes = NAM_TXN_LOCK_RPC | NAM_TXN_LOG_RPC | NAM_TXN_COMMIT_RPC;

	if (!txn->worker->client->backed || !(txn->store->phases & changes))
		return 0;
	return nam_diag_set(&txn->worker->diag, -NAM_E_FABRIC_CAPABILITY, "store '%s': while a "
		"memory server has a backup, locks, logs and writes do not go by RPC; choose "
		"one-sided phases (nam_txn_store_phases_set)", txn->store->name);
}

/* Lock, validate and log.  After a failure *ret_logged says whether the log may be there. */
NAM_FIBER_FN static int
write_commit(struct nam_txn *txn, bool *ret_logged)
{
	int rc = backups_check(txn) ?: prepare(txn); /* SUSPENDS */

	if (!rc)
		rc = nam__serial_entries_list(txn);
	if (!rc)
		rc = nam__serial_log_take(txn->worker, txn->store, log_bytes(txn),
			&txn->log); /* SUSPENDS */
	if (rc)
		return rc;
	rc = lock(txn); /* SUSPENDS */
	if (!rc && NAM_GUARD(SERIAL_ENTER))
		rc = nam__serial_entries_insert(txn); /* SUSPENDS */
	if (!rc && (has_only_read(txn) || nam__serial_leaves_count(txn)))
		rc = validate(txn); /* SUSPENDS */
	nam_race_point("serial.validated");
	if (!rc && !NAM_GUARD(SERIAL_ENTER))
		rc = nam__serial_entries_insert(txn); /* SUSPENDS */
	if (!rc)
		rc = log_all(txn, ret_logged); /* SUSPENDS */
	/* Z12: entries go before the locks. */
	if (!*ret_logged && !nam__serial_entries_undo(txn)) /* SUSPENDS */
		locks_undo(txn); /* SUSPENDS */
	else if (rc)
		locks_forget(txn);
	/* Z6: a log that may be there stays until its transaction is complete. */
	if (rc && *ret_logged)
		free(txn->log);
	else if (rc)
		nam__serial_log_give(txn->store, txn->log);
	return rc;
}

/* ---- tasks of their own ---------------------------------------------------------------------- */

/* Give the memory back, and let the epoch go. */
static void
txn_end(struct nam_txn *txn)
{
	const uint32_t room = nam__serial_room(txn->store);
	struct nam_worker *worker = txn->worker;

	for (uint32_t i = 0; i < txn->count; i++) {
		if (txn->items[i].image)
			nam__buffer_give(worker, txn->items[i].image, room);
		if (txn->items[i].next)
			nam__buffer_give(worker, txn->items[i].next, room);
	}
	nam__serial_scans_free(txn);
	nam__serial_entries_free(txn);
	nam__epoch_unpin(worker, txn->epoch);
	nam__buffer_give(worker, txn, sizeof(*txn));
}

static void
failure_note(struct nam_txn_store *store, int rc)
{
	int none = 0;

	if (rc)
		atomic_compare_exchange_strong_explicit(&store->failed, &none, rc,
			memory_order_relaxed, memory_order_relaxed);
}

NAM_FIBER_FN static void
finish_main(void *arg)
{
	struct nam_txn *txn = arg;
	struct nam_worker *worker = txn->worker;
	struct nam_txn_store *store = txn->store;

	nam__op_begin(worker, NAM_OP_TXN_FINISH);
	failure_note(store, write_finish(txn)); /* SUSPENDS */
	nam__op_end(worker);
	txn_end(txn);
	/* Release: pairs with the acquire of the last one. */
	nam__serial_unref(store);
}

/* No answer came for these: the lock may have been taken, or will be.  Then it stays. */
NAM_FIBER_FN static void
locks_find(struct nam_txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (!item->locking)
			continue;
		item->locked = !nam_read_await(txn->worker, item->at, item->image,
			sizeof(*item->image)) && item->image->word == txn->word; /* SUSPENDS */
		if (item->locked)
			item->sequence = item->image->sequence;
	}
}

NAM_FIBER_FN static void
unlock_main(void *arg)
{
	struct nam_txn *txn = arg;
	struct nam_worker *worker = txn->worker;
	struct nam_txn_store *store = txn->store;

	nam__op_begin(worker, NAM_OP_TXN_FINISH);
	locks_find(txn); /* SUSPENDS */
	locks_undo(txn); /* SUSPENDS */
	/* The lock that was in the way may be of a dead client. */
	if (txn->met)
		(void)!nam__serial_met(worker, store, txn->met_at, txn->met); /* SUSPENDS */
	nam__op_end(worker);
	txn_end(txn);
	nam__serial_unref(store);
}

NAM_FIBER_FN static int
leave(struct nam_txn *txn, nam_fiber_fn fn)
{
	struct nam_txn_store *store = txn->store;
	int rc;

	atomic_fetch_add_explicit(&store->users, 1, memory_order_relaxed);
	rc = nam__task_leave(txn->worker, fn, txn); /* SUSPENDS */
	if (rc)
		nam__serial_unref(store);
	return rc;
}

NAM_FIBER_FN static int
finish_later(struct nam_txn *txn)
{
	return txn->worker->tasks_left >= NAM__TASKS_LEFT_MAX ? -NAM_E_LIMIT :
		leave(txn, finish_main); /* SUSPENDS */
}

static void
unlock_later(struct nam_txn *txn)
{
	int rc = leave(txn, unlock_main); /* SUSPENDS */

	/* Without memory the locks stay until the client ends. */
	if (rc) {
		failure_note(txn->store, rc);
		txn_end(txn);
	}
}

int
nam__serial_failed(struct nam_worker *worker, struct nam_txn_store *store)
{
	int rc = 0;

	/* One of the callers gets it. */
	if (__builtin_expect(atomic_load_explicit(&store->failed, memory_order_relaxed), 0))
		rc = atomic_exchange_explicit(&store->failed, 0, memory_order_relaxed);
	return !rc ? 0 : nam_diag_set(&worker->diag, rc, "store '%s': records of an earlier "
		"transaction were not written or released, and may stay locked until this client "
		"ends: %s", store->name, nam_err_text(rc));
}

int
nam_txn_flush(struct nam_worker *worker, struct nam_txn_store *store)
{
	nam__left_await(worker); /* SUSPENDS */
	return nam__serial_failed(worker, store);
}

/* ---- the end --------------------------------------------------------------------------------- */

void
nam_txn_abort(struct nam_txn *txn)
{
	if (txn && nam__serial_has_locks(txn))
		unlock_later(txn);
	else if (txn)
		txn_end(txn);
}

/* The log is complete.  *ret_left: a task of its own finishes the transaction, and ends it. */
NAM_FIBER_FN static int
finish(struct nam_txn *txn, bool *ret_left)
{
	if (!(txn->store->phases & NAM_TXN_PASSIVE))
		return write_finish(txn); /* SUSPENDS */
	/* Z14: the log is not used again before its records are written. */
	if (!NAM_GUARD(SERIAL_PASSIVE)) {
		nam__serial_log_give(txn->store, txn->log);
		txn->log = NULL;
	}
	*ret_left = !finish_later(txn); /* SUSPENDS */
	return *ret_left ? 0 : write_finish(txn); /* SUSPENDS */
}

int
nam_txn_commit(struct nam_txn *txn, uint64_t *ret_sequence)
{
	struct nam_worker *worker = txn->worker;
	bool writes = false, logged = false, left = false;
	int rc = txn->failed;

	for (uint32_t i = 0; i < txn->count; i++)
		writes |= txn->items[i].next != NULL;
	nam__op_begin(worker, NAM_OP_TXN_COMMIT);
	if (!rc && writes)
		rc = write_commit(txn, &logged); /* SUSPENDS */
	else if (!rc && txn->count + nam__serial_leaves_count(txn) > 1)
		rc = validate(txn); /* SUSPENDS */
	if (ret_sequence)
		*ret_sequence = logged ? txn->sequence : 0;
	/* Its own locks are gone, or nam_txn_abort() sees to it. */
	if (rc == -NAM_E_CONFLICT && txn->met && !nam__serial_has_locks(txn))
		rc = nam__serial_met(worker, txn->store, txn->met_at, txn->met); /* SUSPENDS */
	else if (!rc && logged)
		rc = finish(txn, &left); /* SUSPENDS */
	else if (!rc)
		nam__serial_strays_remove(txn); /* SUSPENDS */
	nam__op_end(worker);
	/* Locks of a transaction that has not written are left. */
	if (!left)
		nam_txn_abort(txn);
	return rc;
}
