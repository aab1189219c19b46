/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h -- records whose heads a memory server moves: prepare, commit, find.
 *
 * Works on plain pointers into regions, and knows no fabric.  Clients name a record by the address
 * of its head, not by its key (P6).  The head's third word leads to the versions that are not the
 * latest, chained by `previous`.  They are prepared, or were replaced or came too late within
 * NAM_RECORDS_KEEP_NS, so that readers may still ask for their timestamps.
 *
 * A head has one caller at a time: nam__server_record_lock().  The memory is not trusted: clients
 * can write there.
 */
#ifndef NAM_TXN_SERVER_RECORDS_H
#define NAM_TXN_SERVER_RECORDS_H

#include "txn/records/version.h"

#define NAM__RECORDS_LOCKS 1024u

struct nam__server_head {
	uint64_t latest;
	uint32_t tag;			/* nam__record_tag() */
	uint32_t swept_ms;		/* when the chain was last looked through; 0: not yet */
	uint64_t chain;			/* of other versions, by `previous` */
	/* locks.h; elsewhere all are 0: */
	uint64_t writer;		/* timestamp of the exclusive lock; 0: free */
	uint64_t until_ns;		/* of the leases; 0 and a writer: sealed */
	uint32_t readers;		/* shared locks */
	uint32_t generation;		/* of these: another one since they were taken away */
	uint64_t fence;			/* no transaction is prepared that is not later */
	uint32_t turn_us;		/* birth of the transaction that goes before younger ones */
	uint32_t turn_until;		/* until then; 0: none */
};
_Static_assert(sizeof(struct nam__server_head) == NAM_RECORD_HEAD_BYTES, "remote layout");

struct nam__finished;

struct nam__server_records {
	/* Returns `bytes` of memory at an address of this server, or NULL. */
	void *(*find)(void *arg, uint64_t at, uint32_t bytes);
	void *arg;
	uint64_t store;			/* that the records are of; 0: any */
	bool closes;			/* also heads that are being closed */
	uint32_t *locks;		/* NAM__RECORDS_LOCKS words, 0 at first */
	const struct nam__finished *finished;	/* finished.h; or NULL */
};

/*
 * The head at that address, for this caller alone until it is unlocked.  -NAM_E_REMOTE_CORRUPT: no
 * address; -NAM_E_DROPPED: it is no head of this store (R10).
 */
int nam__server_record_lock(const struct nam__server_records *records, uint64_t head_at,
	struct nam__server_head **ret_head) NAM_MUST_CHECK;
void nam__server_record_unlock(const struct nam__server_records *records, uint64_t head_at);

/* The version of that timestamp, if it is the latest or among the others; or else 0. */
uint64_t nam__server_record_find(const struct nam__server_records *records,
	const struct nam__server_head *head, uint64_t timestamp, uint64_t now_ns);
/* The timestamp of a version, 0 of none. */
uint64_t nam__server_version_timestamp(const struct nam__server_records *records, uint64_t at);

/* The version of that timestamp, however long ago it was replaced; 0: it is not there. */
uint64_t nam__server_record_at(const struct nam__server_records *records,
	const struct nam__server_head *head, uint64_t timestamp);

/*
 * For a sweep: call fn for the latest version and all others, of any kind of store.  If the writer
 * of one is dead, and no reader will ask for it, it is unlinked instead, unless `dry`.
 *
 * @living	bit id % 64 of word id / 64: whether a client is not dead
 */
void nam__server_record_sweep(const struct nam__server_records *records,
	struct nam__server_head *head, const uint64_t *living, uint64_t now_ns, bool dry,
	void (*fn)(void *arg, uint64_t at), void *arg);

/* A complete version will be committed, or not. */
int nam__server_record_prepare(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t at) NAM_MUST_CHECK;

/*
 * From now on it is the latest version, unless something newer is.  `at` 0: there is nothing to
 * commit.  Returns how many versions no reader will ask for any more: up to `room` addresses.
 */
uint32_t nam__server_record_commit(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t at, uint64_t now_ns, uint64_t *ret_retired,
	uint32_t room);
/* The version will never be committed.  Returns whether it was prepared. */
bool nam__server_record_abort(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t at);
/*
 * R8: its store is dropped.  Versions are unlinked; how many: up to `room` addresses.  If that is
 * less, the head leads nowhere from now on, and belongs to no store.
 */
uint32_t nam__server_record_close(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t head_at, uint64_t *ret_retired, uint32_t room);

#endif /* NAM_TXN_SERVER_RECORDS_H */
