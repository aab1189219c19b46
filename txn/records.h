/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h -- records on the memory servers, read and written by RAMP transactions.
 *
 * A record is bytes under a key of bytes.  A transaction reads several (nam_records_get_all) or
 * writes several (nam_records_put_all), wherever they lie, and is read atomic: whoever reads sees
 * all that another transaction wrote to the records that it reads, or something newer, or none of
 * it (P. Bailis et al., "Scalable Atomic Visibility with RAMP Transactions", SIGMOD 2014).  Nobody
 * waits for anybody.  Of two transactions that write the same record the one with the later
 * timestamp wins; timestamps are unique, later than all that the client has seen, and later than
 * what they replace.
 *
 * A store is of one of two kinds (enum nam_records_commit).  In a one-sided one, the default,
 * memory servers do nothing: versions are prepared by WRITE and committed by CAS, found by cached
 * addresses and READ.  In a served one memory servers prepare and commit as they are asked to, and
 * find versions, which may still be READ by cached addresses.  Cost is said of one-sided stores;
 * of served ones it stands in txn/README.md.
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  A handle may
 * be shared by all workers of the client that opened it, which are one session: it reads what it
 * has written, and nothing older than what it has read.
 *
 * ERRORS: every function that suspends may also return
 *	-ENOMEM			this host has no memory left
 *	-NAM_E_FABRIC_*		a memory server is gone or does not answer
 *	-NAM_E_REMOTE_CORRUPT	remote memory is not as it should be; or the store was dropped
 * What is not repeated below.  Outputs are untouched on failure unless a comment says otherwise.
 */
#ifndef NAM_TXN_RECORDS_H
#define NAM_TXN_RECORDS_H

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
 * How a reader finds out that it has half of a transaction: what versions say of the others.  Or,
 * to compare with, how it never has: LOCKING is strict two-phase locking with two-phase commit, and
 * serializable; transactions wait for each other.
 */
enum nam_ramp {
	NAM_RAMP_FAST = 1,		/* which they are: 1 round, or 2 */
	NAM_RAMP_SMALL = 2,		/* nothing: always 2 rounds */
	NAM_RAMP_HYBRID = 3,		/* a Bloom filter of their keys: 1 round, or 2 */
	NAM_RAMP_NONE = 4,		/* nothing, and nobody looks: not read atomic */
	NAM_RAMP_LOCKING = 5,		/* which they are, for who has to settle it: 2 rounds */
};

/* "fast", "small", "hybrid", "none", "2pl"; NULL for what is none of them. */
const char *nam_ramp_name(enum nam_ramp algorithm);

/* The algorithm of that name, or -EINVAL. */
int nam_ramp_find(const char *name);

/* Who moves the heads of records. */
enum nam_records_commit {
	NAM_RECORDS_ONESIDED = 1,	/* clients, by CAS; only with RAMP_FAST */
	NAM_RECORDS_SERVED = 2,		/* memory servers, asked by request: PUT, PUT+ */
};

struct nam_records_options {
	enum nam_ramp algorithm;	/* default fast */
	enum nam_records_commit commit;	/* default one-sided */
};

/* The defaults above. */
void nam_records_options_init(struct nam_records_options *options);

/**
 * nam_records_create -- make an empty record store and enter it into the catalog.
 *
 * @name	1 to NAM_RECORDS_NAME_BYTES_MAX printable bytes without blanks.  "<name>.keys" will
 *		be the name of an index, which is the store's and nobody else's to change
 *
 * @options	NULL: the defaults
 *
 * It outlives its creator and ends with nam_records_drop(), or with the memory servers.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			the name, an option, or options that do not go together
 *	-NAM_E_INDEX_EXISTS	one of the names is taken
 *	-NAM_E_REMOTE_FULL	no memory server has room
 *	-NAM_E_LIMIT		the catalog is full
 *
 * Suspends:	yes.
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
 *	-NAM_E_CLUSTER		records lie on memory servers that the cluster text lacks
 *	-NAM_E_LOST		a memory server was restarted since it was made: drop it
 *	-NAM_E_FABRIC_VERSION	it was made by a library with another format
 *
 * Suspends:	yes.
 * Cost:	1 RPC, 1 READ, and that of nam_index_open().
 */
NAM_FIBER_FN int nam_records_open(struct nam_worker *worker, const char *name,
	uint64_t cache_bytes, struct nam_records **ret_records) NAM_MUST_CHECK;

/* No operation may be under way.  NULL is nothing. */
void nam_records_close(struct nam_records *records);

/* What it was made with. */
const struct nam_records_options *nam_records_properties(const struct nam_records *records);

/**
 * nam_records_star -- whether this handle reads by cached addresses (GET*), or asks memory servers
 * (GET, GET+).  By default it reads, where versions name their siblings.
 *
 * Returns 0; or -EINVAL, and the diag says why: heads are one-sided, and there is nobody to ask; or
 * the algorithm is not RAMP_FAST, and who reads by address would not notice what it has half of.
 */
int nam_records_star(struct nam_worker *worker, struct nam_records *records, int star)
	NAM_MUST_CHECK;

/**
 * nam_records_drop -- take the name away, then give the memory of all records back.
 *
 * Close other handles first: what they do from then on fails, or is lost.
 *
 * Returns 0 or a negative code, as nam_records_open(); a store part of which is lost is dropped,
 * too, and what is left of it stays allocated.
 *
 * Suspends:	yes.
 * Cost:	3 round trips for each 32 records, and that of nam_index_drop().
 */
NAM_FIBER_FN int nam_records_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* What is not 0 ends the list, and is what nam_records_list() returns. */
typedef int (*nam_records_list_fn)(void *arg, const char *name);

/* The names of all record stores, in their order.  Cost: 1 RPC for each 56 names, and 1. */
NAM_FIBER_FN int nam_records_list(struct nam_worker *worker, nam_records_list_fn fn, void *arg)
	NAM_MUST_CHECK;

/* One of those to be read: the first four are the caller's. */
struct nam_record_get {
	const void *key;
	uint32_t key_bytes;
	uint32_t size;			/* room at value */
	void *value;
	uint32_t value_bytes;		/* out: its length, also where there is not room enough */
	int rc;				/* out: 0; -NAM_E_NOTFOUND; -NAM_E_LIMIT: no room */
	uint64_t timestamp;		/* out: of who wrote or deleted it; 0: nobody ever did */
};

/**
 * nam_records_get_all -- read some records, of one moment as far as transactions go.
 *
 * @gets	`count`, 1 .. NAM_RECORDS_MAX.  A key may occur more than once
 *
 * Returns 0, and then each has its answer; or a negative code, and then none means anything:
 *	-NAM_E_LIMIT		count, or the length of a key
 *	-NAM_E_RESTART_DEAD	versions were replaced so quickly that none could be read, 64 times
 *	-NAM_E_RESTART_TORN, -NAM_E_LOCK_ORPHANED	where no place of a record is cached: as
 *				nam_index_lookup()
 *	-NAM_E_LOCK_TIMEOUT	RAMP_LOCKING: some were locked by others whenever they were asked
 *				for, in 8 times lock_timeout_ms; the diag says by whom
 *
 * Suspends:	yes.
 * Cost:	1 round trip, 1 READ for each record, where the cached addresses are of the latest
 *		versions.  Where they are not: 2 more.  Where none is cached: 2, and what
 *		nam_index_lookup() takes for each.  Where a transaction is half committed: 1 more to
 *		read the other half, and 2 to commit it for its writer, who may be dead; 3
 *		where that record was not read lately.  RAMP_LOCKING: 2, with 2 messages to
 *		each memory server; each time that one of them refuses, as much again; and 3 more
 *		to end what a transaction of the late or dead has left.
 * Progress:	waits for nobody, but to find a record at first as nam_index_lookup() does;
 *		RAMP_LOCKING: for who writes one of them, the older goes first.
 * Source:	GET* of "Accelerating Read Atomic Multi-partition Transaction with Remote Direct
 *		Memory Access", algorithm 4; differs: txn/README.md, D1 to D4.
 */
NAM_FIBER_FN int nam_records_get_all(struct nam_worker *worker, struct nam_records *records,
	struct nam_record_get *gets, uint32_t count) NAM_MUST_CHECK;

/* A transaction of those that nam_records_get_many() reads: the first two are the caller's. */
struct nam_records_reading {
	struct nam_record_get *gets;
	uint32_t count;
	int rc;				/* out: as of nam_records_get_all() */
};

/**
 * nam_records_get_many -- read several transactions, each by itself; if by addresses, together.
 *
 * @readings	`count` of them.  Each is of one moment, but one may be of a later moment than the
 *		next, or an earlier one: they are as if fibers had called nam_records_get_all()
 *
 * Returns 0; or why a transaction was not read, the first that failed, of which the diag speaks.
 * Each has its own answer in `rc`, and what that means is as of nam_records_get_all().
 *
 * Suspends:	yes.
 * Cost:	that of nam_records_get_all() for each; but those whose places are all cached share
 *		a round trip, up to 32 records and 64 KiB of their versions, which is the quickest
 *		way to read several.  Others go one by one: there fibers are quicker, as they are
 *		for all where a store is asked for versions and does not READ them
 *		(nam_records_star()).
 * Progress:	as nam_records_get_all().
 */
NAM_FIBER_FN int nam_records_get_many(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_reading *readings, uint32_t count) NAM_MUST_CHECK;

struct nam_record_put {
	const void *key;
	uint32_t key_bytes;
	uint32_t value_bytes;
	const void *value;		/* NULL: delete the record, whether it is there or not */
};

/**
 * nam_records_put_all -- write some records, all or none.
 *
 * @puts	`count`, 1 .. NAM_RECORDS_MAX, no key twice
 * @ret_timestamp	the transaction's, if it was committed; after a FABRIC code what it is if
 *		it was, or untouched.  May be NULL
 *
 * Returns 0 or a negative code.  Nothing was changed after
 *	-EINVAL			a key twice
 *	-NAM_E_LIMIT		count, or the length of a key or value
 *	-NAM_E_REMOTE_FULL	a memory server has no room for its part
 *	-NAM_E_LOCK_*, -NAM_E_RESTART_TORN	of a key that is new: as nam_index_insert()
 *	-NAM_E_LOCK_TIMEOUT	RAMP_LOCKING: as nam_records_get_all()
 * After a FABRIC code all of it was written, or nothing, or readers will see to it that all is.
 *
 * Suspends:	yes.
 * Cost:	2 round trips: for each record 1 WRITE and 1 READ of 8 bytes, then 2 CAS; a
 *		doorbell for 20 of them on each memory server touched.  1 more where what is
 *		replaced was not read or written lately, where somebody else commits meanwhile, or
 *		where clocks differ.  A key that is new takes 1 lookup and 1 insert of the index,
 *		and 1 WRITE, beforehand.  Served: 2 round trips, 2 messages to each memory server;
 *		RAMP_LOCKING: and as nam_records_get_all().
 * Progress:	waits for nobody, but for a key that is new as nam_index_insert() does;
 *		RAMP_LOCKING: for who reads or writes one of them, the older goes first.
 * Source:	as above; preparing and committing without the memory servers is ours.
 */
NAM_FIBER_FN int nam_records_put_all(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, uint64_t *ret_timestamp) NAM_MUST_CHECK;

struct nam_records_stat {
	uint64_t keys;			/* that were ever put */
	uint64_t records;		/* of those, not deleted */
	uint64_t value_bytes;		/* of these */
	uint64_t remote_bytes;		/* of heads and latest versions; the index has its own */
	uint64_t others;		/* versions that are prepared, or were replaced lately */
	uint64_t others_bytes;		/* of remote memory that these take; served stores only */
	uint32_t servers;
};

/**
 * nam_records_stat -- count what a store consists of; not of one moment if it is in use.
 *
 * Suspends:	yes.
 * Cost:	a scan of the index, 2 round trips for each 32 records, and 1 for each of `others`.
 */
NAM_FIBER_FN int nam_records_stat(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_stat *ret_stat) NAM_MUST_CHECK;

struct nam_records_collected {
	uint64_t records;		/* looked at */
	uint64_t versions;		/* given up, */
	uint64_t bytes;			/* and the remote memory that comes back with them */
	uint64_t committed;		/* transactions of clients that are gone: for them, here
					 * and perhaps by others who collect at the same time, */
	uint64_t aborted;		/* RAMP_LOCKING: or never to be */
	uint64_t undecided;		/* versions of such clients that stay prepared */
};

/**
 * nam_records_collect -- give back what nobody will ask for any more, and end what clients that are
 * gone have left half done.
 *
 * A record of a served store keeps the version that was last replaced until it is written again:
 * here it goes, if that was 100 ms ago.  A transaction whose writer has no connection to any memory
 * server any more is committed for him if all of it was prepared.  If it was not, versions stay
 * until the record that lacks one has something newer.  RAMP_SMALL and RAMP_HYBRID: one record
 * leads; where its version is not there, or not any more, another one stays until its own record
 * has something newer.  RAMP_LOCKING: locks of clients that are gone are settled.
 *
 * Any number of clients may collect at once, beside readers and writers, and be interrupted.  A
 * second time finds what was too young, and what hung on a transaction that the first time has
 * committed.
 *
 * @ret_collected	what was done, also where it then failed.  May be NULL
 *
 * Returns 0 or a negative code:
 *	-NAM_E_FABRIC_*		a memory server did not answer: without it nobody can be known to be
 *				gone
 *	-NAM_E_RESTART_*, -NAM_E_LOCK_*	of the index of the keys: as nam_cursor_next()
 *	-ENOMEM
 *
 * Suspends:	yes.
 * Cost:	a scan of the index, and for each 32 records 2 round trips, and 1 where there is
 *		something to give back; for each version that is not the latest 1 more.  Where some
 *		are prepared, or, of a one-sided store, were written together with others: 1 RPC to
 *		each memory server for each 32 records, and 3 round trips for each transaction whose
 *		writer is gone; of RAMP_SMALL and RAMP_HYBRID 4 to 6, for each of its versions if it
 *		can't be committed.  Where a record of theirs has only what is newer, all of that
 *		twice, the second time 100 ms later: at the end, or when there are 256 of them.
 * Source:	RAMP's cooperative termination (Bailis et al.), with versions that say where their
 *		siblings are, by clients: txn/README.md, "Collecting".
 */
NAM_FIBER_FN int nam_records_collect(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_collected *ret_collected) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_RECORDS_H */
