/* SPDX-License-Identifier: Apache-2.0 */
/* serial.h -- open stores of serializable transactions, and transactions under way. */
#ifndef NAM_TXN_SERIAL_SERIAL_H
#define NAM_TXN_SERIAL_SERIAL_H

#include <stdatomic.h>
#include <string.h>

#include "common/guard.h"
#include "compute/remote/batch.h"
#include "compute/remote/epoch.h"
#include "compute/remote/forget.h"
#include "txn/records/txn_internal.h"
#include "txn/serializable.h"
#include "layout.h"

#define NAM__SERIAL_TRIES_MAX 8u	/* READs of a record that is locked or torn */
#define NAM__SERIAL_LOGS_FREE 256u
#define NAM__SERIAL_SUSPECTS 64u

/* A log of this client that no transaction uses.  It is in the directory. */
struct nam__serial_log_block {
	struct nam_gaddr at;
	uint64_t next;
	uint32_t capacity;
};

/* A lock word that transactions met. */
struct nam__serial_suspect {
	atomic_uint_fast64_t word;
	atomic_uint_fast64_t since_ns;	/* it was met first, or its client was alive */
	atomic_uint_fast64_t met_ns;	/* it was met last */
	atomic_uint_fast64_t raised_ns;	/* the epoch was raised for it, or it was met first */
};

/* Phases, each of which goes by one-sided requests or by RPC. */
enum nam__serial_phase {
	NAM__SERIAL_EXECUTE,
	NAM__SERIAL_LOCK,
	NAM__SERIAL_VALIDATE,
	NAM__SERIAL_LOG,
	NAM__SERIAL_COMMIT,
	NAM__SERIAL_PHASES,
};
_Static_assert(1u << NAM__SERIAL_COMMIT == NAM_TXN_COMMIT_RPC, "phases are bits");

struct nam_txn_store {
	struct nam_client *client;
	char name[NAM_INDEX_NAME_BYTES];
	struct nam_txn_store_options options;
	struct nam_gaddr superblock;
	uint64_t store;
	uint32_t stride;		/* of records */
	uint32_t phases;		/* enum nam_txn_phase */
	atomic_uint generation;		/* in which it was not dropped yet (Z8) */
	atomic_uint users;		/* the handle, and transactions that are finished later */
	atomic_int failed;		/* the first failure of one of these, not reported yet */
	struct nam__addresses *addresses;
	uint32_t indexes_count;
	struct nam_index *indexes[NAM_TXN_INDEXES_MAX];
	_Atomic(struct nam__serial_log_block *) logs[NAM__SERIAL_LOGS_FREE];
	struct nam__serial_suspect suspects[NAM__SERIAL_SUSPECTS];
	struct nam_serial_superblock shape;
};

struct nam__serial_scans;
struct nam__serial_entries;

enum nam__serial_state {
	NAM__SERIAL_BUCKET,		/* its bucket is to be READ */
	NAM__SERIAL_RECORD,		/* the record at `at` is to be READ */
	NAM__SERIAL_FOUND,		/* it is in the image */
	NAM__SERIAL_NONE,		/* no record has that key */
	NAM__SERIAL_BLIND,		/* only written: the commit READs it */
};

/* A record of a transaction.  Lies in registered memory. */
struct nam__serial_item {
	uint64_t cas[2];		/* of its word, or of its slot: nam__word_now() */
	uint64_t seen;			/* its word, as the validation READ it */
	struct nam__record_id id;
	struct nam_gaddr at;		/* of the record */
	struct nam_gaddr bucket;	/* the last one that was READ */
	uint64_t sequence;		/* of the image; 0: no record has that key */
	struct nam_serial_record *image;	/* as READ; NULL: not yet.  Or the bucket */
	struct nam_serial_record *next;	/* as it is to be; NULL: it is not written */
	enum nam__serial_state state;
	uint8_t slot;			/* where the search goes on in the bucket */
	uint8_t depth;			/* of the bucket: so many full ones are before it */
	uint8_t tries;			/* READs, */
	uint8_t torn;			/* and those that were torn while the word stayed */
	bool cached;			/* the address is of the cache */
	bool read;			/* the transaction depends on it */
	bool made;			/* there was no record when the commit began */
	bool locked;			/* to be taken back if the transaction does not commit */
	bool update;			/* it is going to be written: to be locked as it is READ */
	bool locking;			/* that was asked for, and there is no answer yet */
	uint16_t key_bytes;
	uint8_t key[NAM_TXN_KEY_BYTES_MAX];
};

struct nam_txn {
	struct nam_worker *worker;
	struct nam_txn_store *store;
	uint64_t epoch;			/* pinned (Z8) */
	uint64_t word;			/* lock word */
	uint64_t sequence;		/* of what it writes */
	uint64_t met;			/* a lock word in the way of the commit, or 0 */
	struct nam_gaddr met_at;
	uint64_t ids;			/* of items: a bit of 64 for each */
	uint32_t count;
	bool checked;			/* the store was not dropped when it began */
	int failed;			/* what failed first: only the abort may follow; or 0 */
	struct nam__serial_log_block *log;	/* of a commit */
	struct nam__serial_scans *scans;	/* NULL: there was none */
	struct nam__serial_entries *entries;	/* of indexes, that a commit changes; or NULL */
	/* Not initialized: */
	struct nam__read reads[NAM_TXN_RECORDS_MAX];
	struct nam__serial_item items[NAM_TXN_RECORDS_MAX];
};

/* ---- onesided.c, rpc.c ----------------------------------------------------------------------- */

/* How the requests of a phase go: in an operation, all at once.  Callers check what came. */
struct nam__serial_means {
	/* READ the first `count` of txn->reads. */
	NAM_FIBER_FN int (*read)(struct nam_txn *txn, uint32_t count);
	/* CAS the words of written items from their sequences to the lock word; or back. */
	NAM_FIBER_FN int (*words_cas)(struct nam_txn *txn, bool unlock);
	NAM_FIBER_FN int (*word_cas)(struct nam_worker *worker, const struct nam_txn_store *store,
		struct nam_gaddr at, uint64_t compare, uint64_t swap, uint64_t *ret_old);
	/* WRITE a log that is complete. */
	NAM_FIBER_FN int (*log)(struct nam_worker *worker, const struct nam_txn_store *store,
		struct nam_gaddr at, const struct nam_serial_log *log);
	/* WRITE all written items, each before its lock is released (Z4). */
	NAM_FIBER_FN int (*write)(struct nam_txn *txn);
};

extern const struct nam__serial_means nam__serial_onesided, nam__serial_rpc;
/* One-sided requests of a phase go together, unless the phases of the store say otherwise. */
NAM_FIBER_FN void nam__serial_apart(const struct nam_txn_store *store, struct nam_batch *batch);

/* READ items as means->read(), and lock those that are `locking` at the same time. */
NAM_FIBER_FN int nam__serial_rpc_execute(struct nam_txn *txn,
	const uint16_t *items, uint32_t count) NAM_MUST_CHECK;

static inline const struct nam__serial_means *
nam__serial_means_of(const struct nam_txn_store *store, enum nam__serial_phase phase)
{
	return store->phases >> phase & 1 ? &nam__serial_rpc : &nam__serial_onesided;
}

/* nam_cas_await() of a record's word, by what CASes these words (Z10). */
NAM_FIBER_FN int nam__serial_word_cas(struct nam_worker *worker, const struct nam_txn_store *store,
	struct nam_gaddr at, uint64_t compare, uint64_t swap, uint64_t *ret_old) NAM_MUST_CHECK;

/* A constant length takes no call, and keys of 8 bytes are common. */
static inline bool
nam__serial_key_is(const struct nam__serial_item *item, const void *key, uint32_t key_bytes)
{
	if (item->key_bytes != key_bytes)
		return false;
	return key_bytes == sizeof(uint64_t) ? !memcmp(item->key, key, sizeof(uint64_t)) :
		!memcmp(item->key, key, key_bytes);
}

/*
 * Room for `count` more requests.  Requests that were posted before the wait are not repeated
 * at a backup, so they are awaited here.  The first failure stays in the batch.
 */
NAM_FIBER_FN static inline void
nam__serial_batch_room(struct nam_batch *batch, uint32_t count)
{
	if (batch->count + count <= NAM_BATCH_MAX)
		return;
	if (batch->worker->client->backed)
		batch->rc = nam_batch_await(batch); /* SUSPENDS */
	else
		nam__batch_post(batch);
}

/* ---- record.c -------------------------------------------------------------------------------- */

static inline uint32_t
nam__serial_bytes(uint32_t key_bytes, uint32_t value_bytes)
{
	return (uint32_t)sizeof(struct nam_serial_record) + key_bytes + value_bytes;
}

/* The bytes of a READ of a record whose key is known. */
static inline uint32_t
nam__serial_read_bytes(const struct nam_txn_store *store, uint32_t key_bytes)
{
	return nam__serial_bytes(key_bytes, store->options.value_bytes_max);
}

/* The room of an image: a record, or a bucket. */
static inline uint32_t
nam__serial_room(const struct nam_txn_store *store)
{
	uint32_t bytes = nam__serial_read_bytes(store, store->options.key_bytes_max);

	return bytes < sizeof(struct nam_serial_bucket) ? sizeof(struct nam_serial_bucket) : bytes;
}

/* All is filled in but the hash.  `at` has no tag. */
void nam__serial_seal(struct nam_serial_record *record, struct nam_gaddr at);

enum nam__serial_look { NAM__SERIAL_WHOLE, NAM__SERIAL_LOCKED, NAM__SERIAL_TORN };
/* Z1: whether an image is a whole record of the store that no transaction has locked. */
enum nam__serial_look nam__serial_look(const struct nam_txn_store *store,
	const struct nam_serial_record *image, struct nam_gaddr at);
/* Z1: whether the bytes behind a record's word are whole, whatever the word is. */
bool nam__serial_whole(const struct nam_txn_store *store, const struct nam_serial_record *image,
	struct nam_gaddr at);

/* -NAM_E_DROPPED with a diag. */
int nam__serial_dropped(struct nam_worker *worker, const struct nam_txn_store *store);

/* ---- store.c --------------------------------------------------------------------------------- */

/* As nam_txn_store_open(), but without addresses and indexes: for the store as a whole. */
NAM_FIBER_FN int nam__serial_open(struct nam_worker *worker, const char *name,
	struct nam_txn_store **ret_store) NAM_MUST_CHECK;
/* The last user frees the store. */
void nam__serial_unref(struct nam_txn_store *store);
/* Z8: in an operation, before the first address of the transaction is used. */
NAM_FIBER_FN int nam__serial_check(struct nam_txn *txn) NAM_MUST_CHECK;
/* The bucket at which the search for a key begins, and that behind a full one of so many. */
struct nam_gaddr nam__serial_bucket_of(const struct nam_txn_store *store,
	const struct nam__record_id *id);
struct nam_gaddr nam__serial_bucket_behind(uint64_t next, const struct nam__record_id *id,
	uint32_t depth);

/* ---- items.c --------------------------------------------------------------------------------- */

/* The item of a key, which is new if there is none; or NULL: a limit. */
struct nam__serial_item *nam__serial_item_of(struct nam_txn *txn, const void *key,
	uint32_t key_bytes);
/* Some locks are held, or may be. */
bool nam__serial_has_locks(const struct nam_txn *txn);
/* -NAM_E_LIMIT with a diag. */
int nam__serial_limit(struct nam_txn *txn, uint32_t key_bytes);

/* ---- execute.c ------------------------------------------------------------------------------- */

/*
 * READ all items that are in the states BUCKET or RECORD: they are FOUND or NONE then.
 * -NAM_E_CONFLICT: one stays locked.  In an operation.
 */
NAM_FIBER_FN int nam__serial_execute(struct nam_txn *txn) NAM_MUST_CHECK;
/* One doorbell for NAM_BATCH_MAX of a memory server. */
NAM_FIBER_FN int nam__serial_reads_await(struct nam_txn *txn, const struct nam__read *reads,
	uint32_t count) NAM_MUST_CHECK;
/* An item in the state RECORD was READ: it is FOUND, or to be READ once more. */
NAM_FIBER_FN int nam__serial_record_came(struct nam_txn *txn,
	struct nam__serial_item *item) NAM_MUST_CHECK;
/* Where the search for an item begins: in the cache, or at its bucket. */
void nam__serial_seek(struct nam_txn *txn, struct nam__serial_item *item);
/* Make a record for each item that is written and has none.  In an operation. */
NAM_FIBER_FN int nam__serial_make(struct nam_txn *txn) NAM_MUST_CHECK;

/* ---- commit.c -------------------------------------------------------------------------------- */

/* The first failure of commits that were not awaited, once, with a diag; or 0. */
int nam__serial_failed(struct nam_worker *worker, struct nam_txn_store *store) NAM_MUST_CHECK;

/* ---- log.c ----------------------------------------------------------------------------------- */

/* A log with room for so many bytes.  In an operation. */
NAM_FIBER_FN int nam__serial_log_take(struct nam_worker *worker, struct nam_txn_store *store,
	uint32_t bytes, struct nam__serial_log_block **ret_block) NAM_MUST_CHECK;
/* Give a log back: the transaction in it is complete (Z6). */
void nam__serial_log_give(struct nam_txn_store *store, struct nam__serial_log_block *block);
void nam__serial_logs_free(struct nam_txn_store *store);
/* WRITE what the transaction is about to do: it is committed then (Z5). */
NAM_FIBER_FN int nam__serial_log_write(struct nam_worker *worker, struct nam_txn_store *store,
	const struct nam__serial_log_block *block, struct nam_serial_log *log) NAM_MUST_CHECK;
static inline uint32_t
nam__serial_entry_words(const struct nam_serial_record *record)
{
	return 1 + (nam__serial_bytes(record->key_bytes, record->value_bytes) + 7) / 8;
}

/* Whether it is a log whose transaction was committed, READ whole. */
bool nam__serial_log_whole(const struct nam_txn_store *store, const struct nam_serial_log *log,
	struct nam_gaddr at, uint32_t bytes);

/* ---- recover.c ------------------------------------------------------------------------------- */

/*
 * A lock word was met at a record.  If it has been there for long and its client is dead, decide
 * its transaction.  In an operation.  Returns -NAM_E_CONFLICT, or what failed.
 */
NAM_FIBER_FN int nam__serial_met(struct nam_worker *worker, struct nam_txn_store *store,
	struct nam_gaddr at, uint64_t word) NAM_MUST_CHECK;

#endif /* NAM_TXN_SERIAL_SERIAL_H */
