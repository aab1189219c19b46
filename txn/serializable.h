/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serializable.h -- serializable transactions on records in place.
 *
 * A record is bytes under a key of bytes, on one of the memory servers.  A transaction reads,
 * writes, inserts and deletes 1 to NAM_TXN_RECORDS_MAX records of one store.  Transactions are
 * strictly serializable: there is one order of all, and a transaction that begins after another
 * one's end comes later.  Clients READ, CAS and WRITE; or memory servers do so for them, by RPC.
 *
 * Concurrency control is optimistic (X. Wei et al., "Deconstructing RDMA-enabled Distributed
 * Transactions: Hybrid is Better!", OSDI 2018).  Writes are kept by the client until the commit.
 * The commit locks the records to be written, validates those that were read, logs and writes.  If
 * another transaction is in the way, the transaction fails with -NAM_E_CONFLICT, and has changed
 * nothing.  The caller begins anew, or leaves that to nam_txn_run().
 *
 * Every function takes the calling thread's worker, or a transaction of it, and may be called from
 * its fibers.  A transaction belongs to one fiber.  All workers of a client may share a store's
 * handle.  From its begin to its end a transaction holds back the reuse of memory.  If its worker
 * does not run meanwhile, it also holds back failovers and moves of memory.
 *
 * ERRORS: every function that suspends (NAM_FIBER_FN) may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer
 *	-NAM_E_FABRIC_FENCED	this client was declared dead: it must connect anew
 *	-NAM_E_DROPPED, -NAM_E_REMOTE_CORRUPT	the store was dropped; memory was overwritten
 *	-NAM_E_LOCK_ORPHANED	a client died in the middle of a record, and has left no log of it
 * Outputs are untouched on failure unless a comment says otherwise.
 */
#ifndef NAM_TXN_SERIALIZABLE_H
#define NAM_TXN_SERIALIZABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../compute/client.h"
#include "phases.h"
#include "scans.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_txn_store;
struct nam_txn;

#define NAM_TXN_RECORDS_MAX 256u	/* in one transaction */
#define NAM_TXN_KEY_BYTES_MAX 128u	/* and 1 at least */
#define NAM_TXN_VALUE_BYTES_MAX 4096u	/* 0 is a value, too */

struct nam_txn_store_options {
	uint32_t key_bytes_max;		/* of its keys, up to NAM_TXN_KEY_BYTES_MAX; default 32 */
	uint32_t value_bytes_max;	/* of its values, likewise; default 256 */
	/* Expected, up to 2^25; default 2^16.  8 times more: a cold look-up takes 1 READ more. */
	uint64_t records;
	/*
	 * enum nam_txn_phase, of handles that set no others; default 0.  By RPC, keys and values
	 * have up to NAM_TXN_RPC_BYTES_MAX together.
	 */
	uint32_t phases;
	/* The first one that is none ends the list.  Default: none. */
	struct nam_txn_index indexes[NAM_TXN_INDEXES_MAX];
};

void nam_txn_store_options_init(struct nam_txn_store_options *options);

/**
 * nam_txn_store_create -- make an empty store and enter it into the catalog.
 *
 * @name	1 to 63 printable bytes without blanks; with indexes up to 56
 * @options	NULL: the defaults
 *
 * Index number n is fine-grained, and has the name "<name>.index<n>": it can be verified and
 * collected like any other.  The store ends with nam_txn_store_drop(), or with the memory servers.
 * Each record takes the memory of the longest key and value.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name, or an option; the diag says which
 *	-NAM_E_INDEX_EXISTS	the name is taken
 *	-NAM_E_REMOTE_FULL	no memory server has room
 *	-NAM_E_LIMIT		the catalog is full
 *
 * Cost:	WRITEs of 16 bytes for each expected record, and 1 RPC.
 */
NAM_FIBER_FN int nam_txn_store_create(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options) NAM_MUST_CHECK;

/**
 * nam_txn_store_open -- find a store by its name.
 *
 * @cache_bytes	of this process, for the addresses of records, 32 bytes each; and as many for the
 *		inner nodes of each index.  0 keeps none
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name
 *	-NAM_E_NOINDEX		nothing has that name
 *	-NAM_E_KIND		that is the name of something else, such as a RAMP store, or of
 *				tables' rows
 *	-NAM_E_FABRIC_VERSION	it was made by a library with another format
 *	-NAM_E_FABRIC_CAPABILITY	this fabric does not allow its phases; the diag says why
 *
 * Cost:	1 RPC, 1 READ; and as nam_index_open() for each index.
 */
NAM_FIBER_FN int nam_txn_store_open(struct nam_worker *worker, const char *name,
	uint64_t cache_bytes, struct nam_txn_store **ret_store) NAM_MUST_CHECK;

/**
 * nam_txn_store_phases_set -- choose which phases of a handle's transactions go by RPC.
 *
 * @phases	enum nam_txn_phase.  No transaction of the handle may be under way
 *
 * Returns 0, or a negative code and a diag, and then they are as they were:
 *	-EINVAL				no such phase; or by RPC, with records that are too long
 *	-NAM_E_FABRIC_CAPABILITY	words would be changed by NICs and by memory servers' CPUs
 *
 * Suspends:	no.
 */
int nam_txn_store_phases_set(struct nam_worker *worker, struct nam_txn_store *store,
	uint32_t phases) NAM_MUST_CHECK;

/* No transaction may be under way; those that are only being written may.  NULL is nothing. */
void nam_txn_store_close(struct nam_txn_store *store);
/* The options that it was made with. */
const struct nam_txn_store_options *nam_txn_store_properties(const struct nam_txn_store *store);

/**
 * nam_txn_store_drop -- take the name away, then give the memory back.
 *
 * Close other handles first: their later transactions fail, or are lost.
 *
 * Returns 0 or a negative code, as nam_txn_store_open().
 * Cost:	1 RPC; a READ of 16 bytes for each expected record; 1 WRITE for each record.
 */
NAM_FIBER_FN int nam_txn_store_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* A result other than 0 ends the list, and nam_txn_store_list() returns it. */
typedef int (*nam_txn_store_list_fn)(void *arg, const char *name);
/* The names of all such stores, in their order.  Cost: 1 RPC for each 56 names, and 1. */
NAM_FIBER_FN int nam_txn_store_list(struct nam_worker *worker, nam_txn_store_list_fn fn,
	void *arg) NAM_MUST_CHECK;

/**
 * nam_txn_begin -- begin a transaction.
 *
 * It ends with nam_txn_commit() or nam_txn_abort(), one of which must follow.
 *
 * Returns 0 or -ENOMEM; or what nam_txn_flush() would return, if that is a failure.
 * Suspends:	no.
 * Cost:	nothing.
 */
int nam_txn_begin(struct nam_worker *worker, struct nam_txn_store *store,
	struct nam_txn **ret_txn) NAM_MUST_CHECK;

/* A record to be read: the caller sets the first four. */
struct nam_txn_get {
	const void *key;
	uint32_t key_bytes;
	uint32_t size;			/* room at value */
	void *value;			/* NULL with size 0: only its length */
	uint32_t value_bytes;		/* out: its length, also if there is not enough room */
	int rc;				/* out: 0; -NAM_E_NOTFOUND; -NAM_E_LIMIT: no room */
	/*
	 * Out: of the transaction that wrote or deleted it (nam_txn_commit()); 0: none ever did.
	 * A record of this transaction's writes has the sequence of what it replaces.
	 */
	uint64_t sequence;
	/* In: the transaction is going to write it.  NAM_TXN_LOCK_EARLY locks it at once. */
	bool update;
};

/**
 * nam_txn_read_all -- read some records.
 *
 * @gets	`count` of them.  A key may occur more than once
 *
 * A record that this transaction wrote is read as it wrote it; one that it read before, as it was.
 * All reads are of one moment only if the transaction commits.
 *
 * Returns 0, and then each has its answer; or a negative code, and then none means anything:
 *	-NAM_E_CONFLICT		another transaction writes one of the records
 *	-NAM_E_LIMIT		the transaction would have more than NAM_TXN_RECORDS_MAX records,
 *				or the length of a key; the transaction goes on
 * After another code than LIMIT nam_txn_abort() is all that may follow.  Reads and the commit
 * return that code again.
 *
 * Cost:	1 round trip, 1 READ for each record, if the addresses are cached; nothing for
 *		records that the transaction has.  1 round trip more, with 1 READ each, for
 *		addresses that are not cached; and 1 more for each bucket's overflow.  Round trips
 *		again if a record is locked or half-written, 8 at the most.
 * Progress:	does not wait for other clients, except to end a dead client's transaction.
 * Source:	DrTM+H, execution phase; differs: txn/README.md.
 */
NAM_FIBER_FN int nam_txn_read_all(struct nam_txn *txn, struct nam_txn_get *gets,
	uint32_t count) NAM_MUST_CHECK;

/**
 * nam_txn_read -- read one record.
 *
 * @size	room at value
 * @ret_bytes	its length, on success, and with -NAM_E_LIMIT if there is not enough room
 *
 * Returns 0, -NAM_E_NOTFOUND, -NAM_E_LIMIT; or as nam_txn_read_all().
 * Cost:	that of nam_txn_read_all().
 */
NAM_FIBER_FN int nam_txn_read(struct nam_txn *txn, const void *key, uint32_t key_bytes,
	void *value, uint32_t size, uint32_t *ret_bytes) NAM_MUST_CHECK;

/**
 * nam_txn_write -- give a record a value at the commit, whether it exists or not.
 *
 * The value is copied.  The last write of a key counts.
 *
 * Returns 0 or a negative code; the transaction goes on:
 *	-NAM_E_LIMIT		as nam_txn_read_all(); or the length of a value
 *
 * Suspends:	no.
 * Cost:	nothing; the commit READs records that the transaction has not read, together.
 */
int nam_txn_write(struct nam_txn *txn, const void *key, uint32_t key_bytes, const void *value,
	uint32_t value_bytes) NAM_MUST_CHECK;

/**
 * nam_txn_insert, nam_txn_delete -- the same for a record that must not, or must, exist.
 *
 * Returns 0; -NAM_E_EXISTS or -NAM_E_NOTFOUND, after which the transaction goes on and has read
 * the record; or as nam_txn_read_all() and nam_txn_write().
 *
 * Cost:	nothing for a record that the transaction has read or written; else that of
 *		nam_txn_read_all().
 */
NAM_FIBER_FN int nam_txn_insert(struct nam_txn *txn, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes) NAM_MUST_CHECK;
NAM_FIBER_FN int nam_txn_delete(struct nam_txn *txn, const void *key,
	uint32_t key_bytes) NAM_MUST_CHECK;

/**
 * nam_txn_commit -- make the writes take effect if all reads still hold, and end the transaction.
 *
 * A transaction that has written nothing takes no lock and writes nothing, unless its
 * scans have met stray entries.
 *
 * @ret_sequence	on success: of the records that it wrote, more than those of all records
 *		that it read or replaced; 0: it wrote nothing.  On failure the one that it has if it
 *		was committed, or 0.  May be NULL
 *
 * Returns 0 or a negative code.  The transaction has ended, and nothing was changed after
 *	-NAM_E_CONFLICT		another transaction wrote, or is writing, a record of it; or a leaf
 *				that it scanned has changed
 *	-NAM_E_REMOTE_FULL	no memory server has room for a new record, for the log, or for a
 *				leaf of an index
 *	-NAM_E_LOCK_TIMEOUT	a leaf of an index stays locked
 * After a FABRIC code all of it was written, or nothing: others decide (txn/README.md).
 *
 * Cost:	txn/README.md, "Costs of serializable transactions".  Reads only: 1 round trip, 1
 *		READ of 8 bytes for each record; nothing for one record.
 * Progress:	does not wait for other clients, except to end a dead client's transaction.
 * Source:	DrTM+H, validation, logging and commit; differs: txn/README.md.
 */
NAM_FIBER_FN int nam_txn_commit(struct nam_txn *txn, uint64_t *ret_sequence) NAM_MUST_CHECK;

/**
 * nam_txn_flush -- with NAM_TXN_PASSIVE, wait until what this worker committed is written.
 *
 * Returns 0; or the first failure to write records of a transaction of the handle that had
 * committed.  Each failure is returned once.  The transaction stays committed: if this client ends,
 * other clients write its records.  Until then those that could not be written stay locked.
 */
NAM_FIBER_FN int nam_txn_flush(struct nam_worker *worker,
	struct nam_txn_store *store) NAM_MUST_CHECK;

/*
 * End a transaction that has no effect.  NULL is nothing.  Does not suspend; costs nothing.  A task
 * of its own takes back locks of NAM_TXN_LOCK_EARLY.
 */
void nam_txn_abort(struct nam_txn *txn);

/* The body of a transaction.  0: commit.  Another value: abort, and nam_txn_run() returns it. */
typedef int (*nam_txn_fn)(struct nam_txn *txn, void *arg);

#define NAM_TXN_TRIES_MAX 64u
#define NAM_TXN_PAUSE_NS_MIN 1000u	/* before the second try; twice as long each time, */
#define NAM_TXN_PAUSE_NS_MAX 256000u	/* up to this; and of that a random part from the half up */

/**
 * nam_txn_run -- begin a transaction, call fn, and commit; again after each conflict.
 *
 * @fn		may be called up to NAM_TXN_TRIES_MAX times, and forgets earlier calls.  If it gets
 *		-NAM_E_CONFLICT, it returns that
 * @ret_sequence	as nam_txn_commit(); may be NULL
 * @ret_tries	calls of fn, also on failure; may be NULL
 *
 * Returns 0; what fn returned; or as nam_txn_commit(), with -NAM_E_CONFLICT after the last try.
 */
NAM_FIBER_FN int nam_txn_run(struct nam_worker *worker, struct nam_txn_store *store, nam_txn_fn fn,
	void *arg, uint64_t *ret_sequence, uint32_t *ret_tries) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_SERIALIZABLE_H */
