/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- transactions of dead clients are decided by the clients that meet their locks.
 *
 * A transaction was committed if its log is whole (Z5).  Then its records are written once more.
 * Before a client writes there, it locks the record with a word of its own, and logs the same with
 * that word.  So if it dies, too, the next client finds a log for each lock word (Z6).
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/backup/backed.h"
#include "compute/backup/backups.h"
#include "compute/remote/lock.h"
#include "compute/remote/lock_slot.h"
#include "common/hash/hash.h"
#include "indexed.h"

#define FENCING_PAUSE_NS 200000u
#define KEPT_NS 5000000u		/* a suspect that was met; others wait for its place */
#define LOGS_MAX 1000000u		/* in a list; more would be a circle */

/* ---- redo ------------------------------------------------------------------------------------ */

/* Z6: an entry of a log: lock, write, release.  Other clients may have done so. */
NAM_FIBER_FN static int
entry_redo(struct nam_worker *worker, struct nam_txn_store *store,
	const struct nam_serial_log *log, struct nam_gaddr at, struct nam_serial_record *record,
	uint64_t dead)
{
	const uint64_t word = log->word;
	const uint32_t from = offsetof(struct nam_serial_record, hash);
	const uint32_t bytes = nam__serial_bytes(record->key_bytes, record->value_bytes);
	uint64_t old;
	/* Z6: one client gets the record, and its own log is there already. */
	int rc = nam__serial_word_cas(worker, store, at, dead, word, &old); /* SUSPENDS */
	struct nam_batch batch;

	if (rc || old != dead)
		return rc;
	nam_race_point("serial.taken");
	nam_batch_init(&batch, worker);
	nam_batch_write(&batch, at, from, (const uint8_t *)record + from, bytes - from);
	rc = nam_batch_await(&batch); /* SUSPENDS */
	if (!rc)
		rc = nam__serial_removes_redo(worker, store, log, at); /* SUSPENDS */
	nam_race_point("serial.redone");
	/* Z4: the word comes after the bytes. */
	return rc ? rc : nam__serial_word_cas(worker, store, at, word, record->sequence,
		&old); /* SUSPENDS */
}

/* @log	whole, in registered memory */
NAM_FIBER_FN static int
redo(struct nam_worker *worker, struct nam_txn_store *store, struct nam_serial_log *log)
{
	const uint64_t dead = log->word, word = nam__lock_word_new(worker);
	struct nam__serial_log_block *block;
	uint64_t *entry = log->entries;
	int rc = nam__serial_log_take(worker, store, log->bytes, &block); /* SUSPENDS */

	if (rc)
		return rc;
	log->word = word;
	/* Z6: if this client dies, the next one finds a log of this word. */
	rc = nam__serial_log_write(worker, store, block, log); /* SUSPENDS */
	for (uint32_t i = 0; i < log->count && !rc; i++) {
		struct nam_serial_record *record = (void *)(entry + 1);

		rc = entry_redo(worker, store, log, NAM_GADDR(entry[0]), record,
			dead); /* SUSPENDS */
		entry += nam__serial_entry_words(record);
	}
	if (rc)
		free(block);		/* its log stays in the directory */
	else
		nam__serial_log_give(store, block);
	return rc;
}

/* ---- decide ---------------------------------------------------------------------------------- */

/* Z5: without a log nothing was written.  The record is as its bytes say. */
NAM_FIBER_FN static int
record_undo(struct nam_worker *worker, struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t dead, struct nam_serial_record *image)
{
	uint64_t old;
	/* No more: a region may end with its last block. */
	int rc = nam_read_await(worker, at, image,
		nam__serial_read_bytes(store, store->options.key_bytes_max)); /* SUSPENDS */

	if (rc || image->word != dead)
		return rc;
	if (!nam__serial_whole(store, image, at))
		return nam_diag_set(&worker->diag, -NAM_E_LOCK_ORPHANED, "store '%s': the record "
			"at region %u offset %llu was half-written by client %u, which died and "
			"has left no log", store->name, nam_gaddr_region(at),
			(unsigned long long)nam_gaddr_offset(at), nam_lock_owner(dead));
	return nam__serial_word_cas(worker, store, at, dead, image->sequence, &old); /* SUSPENDS */
}

/* LOG_FOUND: it is whole, and of that lock word. */
enum log { LOG_ABSENT, LOG_FOUND };

/* READ one log.  *ret_next: the one behind it.  An enum log, or < 0. */
NAM_FIBER_FN static int
log_look(struct nam_worker *worker, struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t word, struct nam_serial_log *log, struct nam_gaddr *ret_next)
{
	int rc = nam_read_await(worker, at, log, sizeof(*log)); /* SUSPENDS */
	uint32_t bytes = log->bytes;

	*ret_next = NAM_GADDR(log->next);
	if (rc || log->word != word || bytes < sizeof(*log) || bytes > NAM__SERIAL_LOG_BYTES_MAX)
		return rc ?: LOG_ABSENT;
	rc = nam_read_await(worker, at, log, bytes); /* SUSPENDS */
	return rc ?: nam__serial_log_whole(store, log, at, bytes) ? LOG_FOUND : LOG_ABSENT;
}

/*
 * The member does not show the log of that lock word, but its backups may have it.  If a backup got
 * the place, other clients would find it there.  So it ends there before a record is
 * undone.  A lock word is used once, so a log of a client that lives stays.
 *
 * @moves	the worker's, before the log was READ
 */
NAM_FIBER_FN static int
log_end(struct nam_worker *worker, struct nam_gaddr at, uint64_t word, uint32_t moves)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	uint64_t old;
	int rc = 0;

	for (uint32_t place = 0; !rc && place < NAM_BACKUPS_MAX; place++)
		if (worker->moves == moves && slot != NAM__NO_SLOT &&
			nam__backup_boot(worker->client, slot, place))
			rc = nam__backup_cas(worker, slot, place, at,
				offsetof(struct nam_serial_log, word), word, 0,
				&old); /* SUSPENDS */
	/* A backup that does not answer is none soon.  If it has the place by now, look again. */
	if (nam_err_is(rc, NAM_E_FABRIC) || rc == -NAM_E_CLUSTER || worker->moves != moves)
		return -NAM_E_CONFLICT;
	return rc;
}

/* LOG_FOUND: the log of that lock word, READ whole.  LOG_ABSENT: nor is there one at a backup. */
NAM_FIBER_FN static int
log_find(struct nam_worker *worker, struct nam_txn_store *store, uint64_t word,
	struct nam_serial_log *log)
{
	uint64_t *heads = (void *)log;
	const uint32_t id = nam_lock_owner(word);
	struct nam_gaddr dir = NAM_GADDR(store->shape.logs), at;
	int rc = nam_read_await(worker, nam_gaddr_make(nam_gaddr_region(dir),
		nam_gaddr_offset(dir) + id / 8 * 64, 0), heads, 64); /* SUSPENDS */

	at = NAM_GADDR(rc ? 0 : heads[id % 8]);
	for (uint32_t i = 0; rc == LOG_ABSENT && at.raw; i++) {
		const struct nam_gaddr one = at;
		const uint32_t moves = worker->moves;

		if (i == LOGS_MAX)
			return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "store '%s': the "
				"logs of client %u have no end", store->name, id);
		rc = log_look(worker, store, one, word, log, &at); /* SUSPENDS */
		if (rc == LOG_ABSENT)
			rc = log_end(worker, one, word, moves); /* SUSPENDS */
	}
	return rc;
}

/* A record that was locked early, and is not written, is not in the log. */
static bool
log_has(const struct nam_serial_log *log, struct nam_gaddr at)
{
	const uint64_t *entry = log->entries;

	for (uint32_t i = 0; i < log->count; i++) {
		if (entry[0] == at.raw)
			return true;
		entry += nam__serial_entry_words((const void *)(entry + 1));
	}
	return false;
}

/* Z6: the client of that word is dead, so its log does not change any more. */
NAM_FIBER_FN static int
decide(struct nam_worker *worker, struct nam_txn_store *store, struct nam_gaddr at, uint64_t dead)
{
	struct nam_serial_log *log = nam_buffer_take(worker, NAM__SERIAL_LOG_BYTES_MAX);
	int rc = log ? log_find(worker, store, dead, log) : -ENOMEM; /* SUSPENDS */
	bool written = rc == LOG_FOUND && log_has(log, at);

	nam_race_point("serial.deciding");
	/* Z5: a whole log says that the transaction was committed. */
	if (rc == LOG_FOUND)
		rc = redo(worker, store, log); /* SUSPENDS */
	if (!rc && !written)
		rc = record_undo(worker, store, at, dead, (void *)log); /* SUSPENDS */
	if (log)
		nam_buffer_give(worker, log, NAM__SERIAL_LOG_BYTES_MAX);
	return rc;
}

/* ---- suspects -------------------------------------------------------------------------------- */

static uint64_t
lock_timeout_ns(const struct nam_txn_store *store)
{
	return store->client->options.lock_timeout_ms * 1000000ull;
}

static struct nam__serial_suspect *
suspect_of(struct nam_txn_store *store, uint64_t word)
{
	return &store->suspects[nam_mix64(word) % NAM__SERIAL_SUSPECTS];
}

/* Whether the word has been met for so long that its client may be dead. */
static bool
is_suspect(struct nam_txn_store *store, uint64_t word)
{
	struct nam__serial_suspect *suspect = suspect_of(store, word);
	uint64_t now_ns = nam_now_ns();
	/* Hints: another thread may write them at the same time. */
	bool known = atomic_load_explicit(&suspect->word, memory_order_relaxed) == word;

	/* Another word that is still met keeps its place. */
	if (!known && now_ns - atomic_load_explicit(&suspect->met_ns, memory_order_relaxed) <
			KEPT_NS)
		return false;
	atomic_store_explicit(&suspect->met_ns, now_ns, memory_order_relaxed);
	if (known)
		return now_ns - atomic_load_explicit(&suspect->since_ns, memory_order_relaxed) >
		       NAM__SUSPECT_NS;
	atomic_store_explicit(&suspect->word, word, memory_order_relaxed);
	atomic_store_explicit(&suspect->since_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&suspect->raised_ns, now_ns, memory_order_relaxed);
	return false;
}

/* Whether the word has been met for lock_timeout_ms, and again for as long since this said so. */
static bool
is_overdue(struct nam__serial_suspect *suspect, uint64_t timeout_ns)
{
	uint64_t now_ns = nam_now_ns();

	if (now_ns - atomic_load_explicit(&suspect->raised_ns, memory_order_relaxed) < timeout_ns)
		return false;
	atomic_store_explicit(&suspect->raised_ns, now_ns, memory_order_relaxed);
	return true;
}

/*
 * Z6: its client lives, so no other one decides.  If a backup had the word of another client, its
 * member may have got that after the lock ended at both.  The backup decides again: the member gets
 * the word that it has.
 */
NAM_FIBER_FN static int
leave_to_living(struct nam_worker *worker, struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t word)
{
	struct nam__serial_suspect *suspect = suspect_of(store, word);
	uint64_t seen;
	int rc = 0;

	atomic_store_explicit(&suspect->since_ns, nam_now_ns(), memory_order_relaxed);
	if (worker->client->backed)
		rc = nam__serial_word_cas(worker, store, at, word, word, &seen); /* SUSPENDS */
	/* If the client is stopped, its epoch slot is old from now on. */
	if (!rc && is_overdue(suspect, lock_timeout_ns(store)))
		rc = nam__epoch_add(worker, 1, &seen); /* SUSPENDS */
	return rc ? rc : -NAM_E_CONFLICT;
}

int
nam__serial_met(struct nam_worker *worker, struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t word)
{
	uint64_t end_ns = nam_now_ns() + lock_timeout_ns(store);
	struct nam__lock_holder holder;
	int rc;

	/* A client with a reader's key leaves it to others. */
	if (worker->reads_only || !is_suspect(store, word))
		return -NAM_E_CONFLICT;
	for (;;) {
		rc = nam__lock_holder_query(worker, word, &holder); /* SUSPENDS */
		if (rc)
			return rc;
		/* Z6: only if nothing of it can take effect any more. */
		if (holder.dead || !NAM_GUARD(SERIAL_DEAD))
			break;
		if (!holder.fencing)
			return leave_to_living(worker, store, at, word); /* SUSPENDS */
		if (nam_now_ns() >= end_ns)
			return -NAM_E_CONFLICT;
		nam__pause_await(worker, FENCING_PAUSE_NS); /* SUSPENDS */
	}
	rc = decide(worker, store, at, word); /* SUSPENDS */
	return rc ? rc : -NAM_E_CONFLICT;
}
