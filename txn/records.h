/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h -- records on the memory servers, read and written by RAMP transactions.
 *
 * A record is bytes under a key of bytes.  A transaction reads several records
 * (nam_records_get_all) or writes several (nam_records_put_all), on any memory servers.
 * Transactions are read atomic (P. Bailis et al., "Scalable Atomic Visibility with RAMP
 * Transactions", SIGMOD 2014).  A reader sees in its records all that another transaction
 * wrote, or something newer, or none of it.  No transaction waits for another.  If two
 * transactions write the same record, the later timestamp wins.  Timestamps are unique, and later
 * than all that the client has seen and than all that they replace.
 *
 * A store is of one of two kinds (enum nam_records_commit).  In a one-sided store, the default,
 * clients prepare by WRITE, commit by CAS, and READ by cached addresses; memory servers do nothing.
 * In a served store memory servers do so on request; clients may still READ versions.  Costs below
 * are of one-sided stores; txn/README.md has those of served ones.
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  All workers
 * of a client may share a handle, as one session.  It reads its own writes, and nothing older than
 * its earlier reads.
 *
 * ERRORS: every function that suspends (NAM_FIBER_FN) may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer
 *	-NAM_E_DROPPED, -NAM_E_REMOTE_CORRUPT	the store was dropped; memory was overwritten
 * Outputs are untouched on failure unless a comment says otherwise.
 */
#ifndef NAM_TXN_RECORDS_H
#define NAM_TXN_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "../compute/client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_records;
#define NAM_RECORDS_NAME_BYTES_MAX 58u	/* its index's name is longer by 5 */
#define NAM_RECORD_KEY_BYTES_MAX 255u	/* and 1 at least */
#define NAM_RECORD_VALUE_BYTES_MAX 1048576u	/* 0 is a value, too */
#define NAM_RECORDS_MAX 32u		/* in one transaction */

/*
 * How a reader detects that it has half of a transaction: by the metadata of the versions.
 * NONE and LOCKING are for comparison.  LOCKING is strict two-phase locking with two-phase commit:
 * it is serializable, and transactions wait for each other.
 */
enum nam_ramp {
	NAM_RAMP_FAST = 1,		/* the other records: 1 round, or 2 */
	NAM_RAMP_SMALL = 2,		/* nothing: always 2 rounds */
	NAM_RAMP_HYBRID = 3,		/* a Bloom filter of their keys: 1 round, or 2 */
	NAM_RAMP_NONE = 4,		/* nothing, and readers do not check: not read atomic */
	NAM_RAMP_LOCKING = 5,		/* the other records, for lock termination: 2 rounds */
};

/* "fast", "small", "hybrid", "none", "2pl"; to be displayed: "RAMP fast", ...; NULL: none. */
const char *nam_ramp_name(enum nam_ramp algorithm);
const char *nam_ramp_title(enum nam_ramp algorithm);
/* Whether transactions are read atomic. */
bool nam_ramp_is_atomic(enum nam_ramp algorithm);

/* The role that moves the heads of records. */
enum nam_records_commit {
	NAM_RECORDS_ONESIDED = 1,	/* clients, by CAS; only with RAMP_FAST */
	NAM_RECORDS_SERVED = 2,		/* memory servers, by request: PUT, PUT+ */
};

struct nam_records_options {
	enum nam_ramp algorithm;	/* default fast */
	enum nam_records_commit commit;	/* default one-sided */
};

void nam_records_options_init(struct nam_records_options *options);

/**
 * nam_records_create -- make an empty record store and enter it into the catalog.
 *
 * @name	1 to NAM_RECORDS_NAME_BYTES_MAX printable bytes without blanks.  The store owns the
 *		index "<name>.keys"; programs must not change it
 * @options	NULL: the defaults
 *
 * The store ends with nam_records_drop(), or with the memory servers.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name, an option, or options that do not go together
 *	-NAM_E_INDEX_EXISTS	one of the names is taken
 *	-NAM_E_REMOTE_FULL	no memory server has room
 *	-NAM_E_LIMIT		the catalog is full
 *
 * Cost:	that of nam_index_create(), 1 WRITE and 2 RPCs.
 */
NAM_FIBER_FN int nam_records_create(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options) NAM_MUST_CHECK;

/**
 * nam_records_open -- find a record store by its name.
 *
 * @cache_bytes	of this process: half for the addresses of versions, 64 bytes each, half for inner
 *		nodes of the index that leads to records.  0 keeps none of either
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name
 *	-NAM_E_NOINDEX		nothing has that name
 *	-NAM_E_KIND		that is the name of something else
 *	-NAM_E_LOST		a memory server was restarted since it was made: drop it
 *	-NAM_E_FABRIC_VERSION	it was made by a library with another format
 *
 * Cost:	1 RPC, 1 READ, and that of nam_index_open().
 */
NAM_FIBER_FN int nam_records_open(struct nam_worker *worker, const char *name,
	uint64_t cache_bytes, struct nam_records **ret_records) NAM_MUST_CHECK;

/* No operation may be under way.  NULL is nothing. */
void nam_records_close(struct nam_records *records);
/* The options that it was made with. */
const struct nam_records_options *nam_records_properties(const struct nam_records *records);

/**
 * nam_records_star -- whether this handle reads by cached addresses (GET*), or asks memory servers
 * (GET, GET+).  By default it reads, where versions name their siblings.
 *
 * Returns 0; or -EINVAL, and the diag says why.  In a one-sided store no memory server answers;
 * without RAMP_FAST a reader by address would miss half of a transaction.
 */
int nam_records_star(struct nam_worker *worker, struct nam_records *records, int star)
	NAM_MUST_CHECK;

/**
 * nam_records_drop -- take the name away, then give the memory of all records back.
 *
 * Close other handles first: their later operations fail, or are lost.  If a part of the store is
 * lost, it is dropped, too; its remains stay allocated.
 *
 * Returns 0 or a negative code, as nam_records_open().
 * Cost:	3 round trips for each 32 records, and that of nam_index_drop().
 */
NAM_FIBER_FN int nam_records_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* A result other than 0 ends the list, and nam_records_list() returns it. */
typedef int (*nam_records_list_fn)(void *arg, const char *name);
/* The names of all record stores, in their order.  Cost: 1 RPC for each 56 names, and 1. */
NAM_FIBER_FN int nam_records_list(struct nam_worker *worker, nam_records_list_fn fn, void *arg)
	NAM_MUST_CHECK;

/* A record to be read: the caller sets the first four. */
struct nam_record_get {
	const void *key;
	uint32_t key_bytes;
	uint32_t size;			/* room at value */
	void *value;
	uint32_t value_bytes;		/* out: its length, also if there is not enough room */
	int rc;				/* out: 0; -NAM_E_NOTFOUND; -NAM_E_LIMIT: no room */
	uint64_t timestamp;		/* out: of its writer or deleter; 0: never written */
};

/**
 * nam_records_get_all -- read some records, of one moment as far as transactions go.
 *
 * @gets	`count`, 1 .. NAM_RECORDS_MAX.  A key may occur more than once
 *
 * Returns 0, and then each has its answer; or a negative code, and then none means anything:
 *	-NAM_E_LIMIT		count, or the length of a key
 *	-NAM_E_RESTART_DEAD	versions were replaced so quickly that none could be read, 64 times
 *	-NAM_E_RESTART_TORN, -NAM_E_LOCK_ORPHANED	of the index: as nam_index_lookup()
 *	-NAM_E_LOCK_TIMEOUT	RAMP_LOCKING: at each request some were locked by others, for 8
 *				times lock_timeout_ms; the diag names one of them
 *
 * Cost:	1 round trip, 1 READ for each record, if the cached addresses are of the latest
 *		versions.  If they are not: 2 more.  If none is cached: 2, and nam_index_lookup()
 *		for each.  If a transaction is half committed: 1 more to read the other half, and 2
 *		to commit it.  It takes 3 if that record was not read lately.  RAMP_LOCKING: 2, with
 *		2 messages to each memory server; as much again for each refusal.  3 more to end a
 *		transaction of a late or dead client.
 * Progress:	does not wait, except to find a record at first as nam_index_lookup() does;
 *		RAMP_LOCKING: waits for writers of these records; older transactions go first.
 * Source:	GET*; differs: txn/README.md, P1 to P4.
 */
NAM_FIBER_FN int nam_records_get_all(struct nam_worker *worker, struct nam_records *records,
	struct nam_record_get *gets, uint32_t count) NAM_MUST_CHECK;

/* A transaction of nam_records_get_many(): the caller sets the first two. */
struct nam_records_reading {
	struct nam_record_get *gets;
	uint32_t count;
	int rc;				/* out: as of nam_records_get_all() */
};

/**
 * nam_records_get_many -- read several transactions, each by itself; if by addresses, together.
 *
 * @readings	`count` of them.  Each is of one moment, as if fibers called nam_records_get_all()
 *
 * Returns 0; or the code of the first transaction that failed, which the diag explains.
 *
 * Cost:	that of nam_records_get_all() for each.  Transactions whose addresses are all cached
 *		share a round trip, up to 32 records and 64 KiB of versions.  Others run one by one:
 *		for them, and without nam_records_star(), fibers are faster.
 */
NAM_FIBER_FN int nam_records_get_many(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_reading *readings, uint32_t count) NAM_MUST_CHECK;

struct nam_record_put {
	const void *key;
	uint32_t key_bytes;
	uint32_t value_bytes;
	const void *value;		/* NULL: delete the record, if there is one */
};

/**
 * nam_records_put_all -- write some records, all or none.
 *
 * @puts	`count`, 1 .. NAM_RECORDS_MAX, no key twice
 * @ret_timestamp	the transaction's, if it was committed; after a FABRIC code the one that
 *		it has if it was, or untouched.  May be NULL
 *
 * Returns 0 or a negative code.  Nothing was changed after
 *	-EINVAL			a key twice
 *	-NAM_E_LIMIT		count, or the length of a key or value
 *	-NAM_E_REMOTE_FULL	a memory server has no room for its part
 *	-NAM_E_LOCK_*, -NAM_E_RESTART_TORN	of a key that is new: as nam_index_insert()
 *	-NAM_E_LOCK_TIMEOUT	RAMP_LOCKING: as nam_records_get_all()
 * After a FABRIC code all of it was written, or nothing, or readers complete it.
 *
 * Cost:	2 round trips: for each record 1 WRITE, 1 READ of 16 bytes, then 2 CAS.  A doorbell
 *		for 20 of them on each memory server touched.  1 more if the replaced version was
 *		not read or written lately, if another client commits meanwhile, or if clocks
 *		differ.  New keys: 1 lookup and 1 insert each beforehand, and 1 round trip with 1
 *		WRITE each.  Served: 2 round trips, 2 messages to each memory server; RAMP_LOCKING
 *		as nam_records_get_all().
 * Progress:	does not wait, except for a new key as nam_index_insert() does; RAMP_LOCKING:
 *		waits for readers and writers of these records; older transactions go first.
 */
NAM_FIBER_FN int nam_records_put_all(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, uint64_t *ret_timestamp) NAM_MUST_CHECK;

struct nam_records_stat {
	uint64_t keys;			/* that were ever put */
	uint64_t records;		/* of those, not deleted */
	uint64_t value_bytes;		/* of these */
	uint64_t remote_bytes;		/* of heads and latest versions, without the index */
	uint64_t others;		/* served: versions prepared, or replaced lately */
	uint64_t others_bytes;		/* and their remote memory */
	uint32_t servers;		/* on which these records lie */
};

/**
 * nam_records_stat -- count the contents of a store; not of one moment if it is in use.
 * Cost:	a scan of the index, 2 round trips for each 32 records, and 1 for each of `others`.
 */
NAM_FIBER_FN int nam_records_stat(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_stat *ret_stat) NAM_MUST_CHECK;

struct nam_records_collected {
	uint64_t records;		/* looked at */
	uint64_t versions;		/* given up, */
	uint64_t bytes;			/* and their remote memory */
	uint64_t committed;		/* transactions of dead clients; */
	uint64_t aborted;		/* or never to be committed */
	uint64_t undecided;		/* versions of such clients that stay prepared, */
	bool busy;			/* some because another client was deciding */
};

/**
 * nam_records_collect -- give back replaced versions, and end transactions of dead clients.
 *
 * A record of a served store keeps its last replaced version until it is written again.  The
 * collector gives it back 100 ms after the replacement.  A client without a connection to any
 * memory server is dead.  If all of its transaction is prepared, or has something newer, the
 * collector commits it; if not, it aborts it.  RAMP_SMALL and RAMP_HYBRID: if the version of the
 * leading record is replaced and gone, another version stays until its own record has something
 * newer.  RAMP_LOCKING: locks of dead clients are terminated.
 * Clients may collect at once.  Only one client at a time decides; to others transactions are
 * undecided, after 100 ms.  A second run finds versions that were too young.
 *
 * @ret_collected	the work done, also before a failure.  May be NULL
 *
 * Returns 0 or a negative code:
 *	-ECANCELED		as nam_worker_stop_when() says
 *	-NAM_E_FABRIC_*		a memory server did not answer, so no client is known to be dead
 *	-NAM_E_RESTART_*, -NAM_E_LOCK_*	of the index of the keys: as nam_cursor_next()
 *
 * Cost:	a scan of the index.  For each 32 records 2 round trips, and 1 to give versions
 *		back; 1 for each version that is not the latest.  For each 32 records some of which
 *		are prepared, or written with others in a one-sided store: 1 RPC to each memory
 *		server.  3 round trips for each transaction of a dead client (served: 4 more for the
 *		first).  RAMP_SMALL and RAMP_HYBRID: 4 to 6, for each version if it can't be
 *		committed; twice if a record only has something newer, 100 ms later.
 */
NAM_FIBER_FN int nam_records_collect(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_collected *ret_collected) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_RECORDS_H */
