/* SPDX-License-Identifier: Apache-2.0 */
/* txn_internal.h -- open record stores, and transactions under way. */
#ifndef NAM_TXN_RECORDS_TXN_INTERNAL_H
#define NAM_TXN_RECORDS_TXN_INTERNAL_H

#include <string.h>

#include "common/rpc/records_rpc.h"
#include "compute/remote/batch.h"
#include "compute/remote/epoch.h"
#include "compute/remote/forget.h"
#include "index/index.h"
#include "txn/records.h"
#include "txn/ramp/siblings.h"
#include "client_state.h"
#include "version.h"

/* ---- address_cache.c ------------------------------------------------------------------------- */

/* The version address of a record, as it was last seen. */
struct nam__address {
	struct nam_gaddr head;
	struct nam_gaddr at;		/* of the latest version; null: not known */
	uint64_t timestamp;		/* of that */
	uint64_t epoch;			/* local one of an operation that saw it latest; 0: none */
};

struct nam__addresses;

/* 0 or -ENOMEM.  With too few bytes *ret is NULL, which all functions below accept. */
int nam__addresses_new(const struct nam_client *client, uint64_t bytes,
	struct nam__addresses **ret_addresses) NAM_MUST_CHECK;
void nam__addresses_free(struct nam__addresses *addresses);
void nam__addresses_prefetch(const struct nam__addresses *addresses,
	const struct nam__record_id *ids, uint32_t count);
bool nam__addresses_find(const struct nam__addresses *addresses, const struct nam__record_id *id,
	struct nam__address *ret_address);
/* All of them, each with the address of a version; or false. */
bool nam__addresses_find_all(const struct nam__addresses *addresses,
	const struct nam__record_id *ids, uint32_t count, struct nam__address *ret_addresses);
/*
 * Note an address that is newer than the known one; it may be dropped.  No lock, no wait.
 *
 * @known	local epoch that was pinned before it was learned: see forget.h
 */
void nam__addresses_note(struct nam__addresses *addresses, const struct nam__record_id *id,
	const struct nam__address *address, uint64_t known);

/* R4: the version was the latest so recently that its block is not reused in this operation. */
static inline bool
nam__address_is_recent(const struct nam_worker *worker, const struct nam__address *address)
{
	return address->epoch &&
	       (nam__seen_lately(worker, address->epoch) || !NAM_GUARD(VERSION_LATELY));
}

/* ---- a store, a transaction ------------------------------------------------------------------ */

struct nam__records_ops;
struct nam__process_locks;

struct nam_records {
	struct nam_client *client;
	char name[NAM_INDEX_NAME_BYTES];
	struct nam_records_options options;
	const struct nam__records_ops *ops;	/* ops.h; chosen when it is opened */
	bool star;			/* versions are READ by cached addresses */
	bool rows;			/* of tables: versions have entries */
	struct nam__table_store *tables;	/* then: those that are open, */
	NAM_FIBER_FN int (*rows_sweep)(struct nam_worker *worker,
		struct nam__table_store *store, uint32_t most);	/* and nam__table_sweep() */
	struct nam_gaddr superblock;
	uint64_t store;
	struct nam_index *keys;
	struct nam__addresses *addresses;
	struct nam__process_locks *process_locks;	/* of 2pl; else NULL */
	nam__named_fn named;		/* siblings.h */
	bool lasting;			/* NAM_CAP_LASTING of all fabrics */
};

/* Reading: the source of an address. */
enum nam__via { NAM__VIA_CACHE, NAM__VIA_HEAD, NAM__VIA_SIBLING };

enum nam__item_state {
	NAM__ITEM_HEAD,			/* the head is to be READ */
	NAM__ITEM_REQUEST,			/* the memory server is to be asked */
	NAM__ITEM_ARRIVED,			/* its answer is in the image */
	NAM__ITEM_VERSION,		/* the version at `at` is to be READ */
	NAM__ITEM_FOUND,
	NAM__ITEM_ABSENT,		/* there is no version */
	/* committing: */
	NAM__ITEM_HEADER,		/* the header of the replaced version is to be READ */
	NAM__ITEM_SWAP,			/* the head is to be moved from `base` to `at` */
	NAM__ITEM_LATE,			/* something newer is there: claim our own version */
	NAM__ITEM_DONE,
};

/* A record of a transaction.  Lies in registered memory, for the fields up to `claim`. */
struct nam__item {
	struct nam_version header;	/* the first is anything before it is READ */
	uint64_t word;			/* the head, as READ or as a CAS found it, */
	uint32_t tag, swept_ms;		/* and what is READ with it */
	uint64_t move[2], claim[2];	/* CASes of it, and of `current`: nam__word_now() */
	enum nam__item_state state;
	enum nam__via via;
	const void *key;
	uint32_t key_bytes;
	struct nam__record_id id;
	struct nam_gaddr head;		/* null: no record of that key is known */
	struct nam_gaddr at;		/* of the version; the tag says its length */
	uint64_t timestamp;		/* of the version; 0: any will do */
	struct nam_version *image;
	uint32_t image_bytes;		/* room there */
	bool latest;			/* it was, some time during this operation */
	bool owned;			/* it is this transaction's */
	bool made;			/* the head is, and not in the index yet */
	uint64_t stamp;			/* a timestamp that it has been asked for, or has */
	uint64_t collided;			/* head of another record whose id begins alike */
	bool asked;			/* a request is in the batch */
	uint64_t locked;		/* the head that we have a lock of; 0: none */
	uint32_t generation;		/* of that, if it is shared */
	bool late;			/* committing: something newer was there already, */
	bool dropped;			/* or the head is none of this store any more */
	struct nam_gaddr base;		/* committing: the address in the head, */
	uint64_t base_timestamp;	/* and its timestamp; 0: nothing */
	struct nam__address cached;	/* as it was */
};

/* A version that this transaction has claimed, and the item that it was of. */
struct nam__replaced {
	struct nam_gaddr at;
	uint32_t item;
};

#define NAM__REPLACED_MAX (2 * NAM_RECORDS_MAX)

struct nam__txn {
	struct nam_worker *worker;
	struct nam_records *records;
	/* 0 at first: */
	uint32_t count;
	uint32_t attempts;
	bool misled;			/* the last version by a head was none of its record */
	uint32_t depth;			/* of nested completions of other transactions */
	bool prepared;
	uint32_t retired;		/* versions that memory servers gave up, */
	uint64_t retired_bytes;		/* and the memory that they take */
	uint64_t timestamp;
	uint64_t since_ns;		/* of the first round of a transaction that reads */
	uint32_t birth_us;		/* of a transaction that locks */
	uint32_t stamps_count;
	uint32_t replaced_count;	/* rows of tables only */
	uint64_t mark;			/* of its claims; no other client has it */
	uint64_t epoch;			/* pinned: addresses go from operation to operation */
	unsigned generation;		/* of these addresses, where it is not pinned for a while */
	/* Not initialized: */
	struct nam__replaced replaced[NAM__REPLACED_MAX];
	uint64_t stamps[NAM_RECORDS_MAX];	/* to ask memory servers for */
	uint8_t item_of[NAM_RECORDS_MAX];	/* of each that the caller named */
	struct nam__item items[NAM_RECORDS_MAX];
};

/* Zero some hundred bytes, a constant number, without a string instruction, which starts slowly. */
static inline __attribute__((always_inline)) void
nam__clear(void *at, size_t bytes)
{
	size_t done = 0;

	for (; done + 64 <= bytes; done += 64)
		memset((uint8_t *)at + done, 0, 64);
	memset((uint8_t *)at + done, 0, bytes - done);
}

/* txn.c: one without items; NULL: no memory.  And its end, buffers included; NULL is nothing. */
struct nam__txn *nam__txn_new(struct nam_worker *worker, struct nam_records *records);
void nam__txn_free(struct nam__txn *txn);
/* An item for a key; its number, or -NAM_E_LIMIT.  *ret_again: there was one already. */
int nam__txn_add(struct nam__txn *txn, const void *key, uint32_t key_bytes, bool *ret_again)
	NAM_MUST_CHECK;
int nam__item_room(struct nam__txn *txn, struct nam__item *item, uint32_t bytes) NAM_MUST_CHECK;

/*
 * Addresses of versions lie in memory that every client can write.  Before a READ goes to one:
 * whether a version can be there, of a length that versions have and whole in one region.  The
 * second returns 0 or -NAM_E_REMOTE_CORRUPT with a diag.
 */
bool nam__version_can_be_at(const struct nam_client *client, struct nam_gaddr at);
int nam__version_at_check(struct nam_worker *worker, const struct nam_records *records,
	struct nam_gaddr at) NAM_MUST_CHECK;
/*
 * Whether the block of a version that was replaced long ago is private memory by now (R9).  It must
 * not be READ then, and holds no version.
 */
static inline bool
nam__version_gone(const struct nam_client *client, struct nam_gaddr at)
{
	return !nam_region_table_public(&client->regions, at);
}
/* -NAM_E_REMOTE_CORRUPT with a diag: the head of a record leads to no version of it. */
int nam__version_misled(struct nam_worker *worker, const struct nam_records *records);

/* READ of a head, into item->word and what follows it. */
#define NAM__HEAD_READ_BYTES 16u

/*
 * R10: whether a head, as it was READ in this operation, is one of the store.  If so, it is until
 * the operation ends.
 */
static inline bool
nam__head_is_of(const struct nam_records *records, uint64_t word, uint32_t tag)
{
	return word != NAM_RECORD_DROPPED &&
	       (tag == nam__record_tag(records->store) || !NAM_GUARD(HEAD_TAG));
}

/* -NAM_E_DROPPED with a diag. */
int nam__records_dropped(struct nam_worker *worker, const struct nam_records *records);

/* Find the items' addresses, in the cache or in the index. */
NAM_FIBER_FN int nam__txn_locate(struct nam__txn *txn) NAM_MUST_CHECK;
/* Note the items' addresses in the cache. */
void nam__txn_note(struct nam__txn *txn);

/* A new timestamp; and note one of another client, which later ones must exceed. */
uint64_t nam__timestamp_next(struct nam_client *client);
void nam__timestamp_seen(struct nam_client *client, uint64_t timestamp);

/* put.c: a new timestamp for all versions. */
void nam__txn_stamp(struct nam__txn *txn);
/* get.c: process images that came by request; READ or ask for the rest. */
NAM_FIBER_FN int nam__txn_read(struct nam__txn *txn) NAM_MUST_CHECK;

/*
 * commit.c: a head has been READ, into item->word: HEADER, SWAP, or DONE if that is the version to
 * be committed.  If it is none of the store: `dropped`.
 */
void nam__item_base_found(struct nam__txn *txn, struct nam__item *item);
/* READ the headers that are missing: no item is in the state HEAD or HEADER any more. */
NAM_FIBER_FN int nam__txn_find_bases(struct nam__txn *txn) NAM_MUST_CHECK;
/*
 * Move the heads of all items that are not DONE to their versions, unless something newer is there.
 * All are DONE afterwards; or a negative code is returned, and some may be.  -NAM_E_DROPPED: all
 * are, and the store is dropped: versions of this transaction that no head leads to are retired.
 */
NAM_FIBER_FN int nam__txn_commit(struct nam__txn *txn) NAM_MUST_CHECK;

/* @timestamp	of the version; 0: not known */
void nam__version_retire(struct nam_worker *worker, struct nam_gaddr at, uint64_t timestamp);

/* An item for a version of any client, in the state HEAD. */
void nam__txn_add_version(struct nam__txn *txn, const struct nam_version_sibling *sibling,
	uint64_t timestamp);

/* Commit all of a transaction: one of its versions, and its siblings (R6, T3). */
NAM_FIBER_FN int nam__txn_complete(struct nam__txn *of, const struct nam_version_sibling *self,
	uint64_t timestamp, const struct nam_version_sibling *siblings, uint32_t count)
	NAM_MUST_CHECK;
/* As nam__txn_complete(), for a version that lies at `at`. */
NAM_FIBER_FN int nam__txn_complete_of(struct nam__txn *of, const struct nam_version *version,
	struct nam_gaddr at) NAM_MUST_CHECK;

/* get.c: read the items; the caller frees the images. */
NAM_FIBER_FN int nam__txn_get(struct nam__txn *txn) NAM_MUST_CHECK;
/* As nam__txn_get() in an operation under way, with images that cached addresses led to. */
NAM_FIBER_FN int nam__txn_get_arrived(struct nam__txn *txn) NAM_MUST_CHECK;

/*
 * put.c: nam_records_put_all().  `make` runs when the addresses of all versions are known, before
 * any is seen (T1).  If the transaction fails, `unmake` runs before the blocks are given back.
 */
struct nam__put_hooks {
	NAM_FIBER_FN int (*make)(struct nam__txn *txn, void *arg);
	NAM_FIBER_FN void (*unmake)(struct nam__txn *txn, void *arg);
	void *arg;
};

NAM_FIBER_FN int nam__records_put(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, const struct nam__put_hooks *beside,
	uint64_t *ret_timestamp) NAM_MUST_CHECK;

/*
 * sweep.c: delete the entries of versions that were replaced before all running scans, then free
 * the versions.  How many, up to `most`; or a negative code.
 */
NAM_FIBER_FN int nam__table_sweep(struct nam_worker *worker, struct nam__table_store *store,
	uint32_t most) NAM_MUST_CHECK;

enum nam__records_rows { NAM__RECORDS_NO_ROWS, NAM__RECORDS_ROWS, NAM__RECORDS_ANY };

/* records.c: the same for tables' stores, or for others. */
NAM_FIBER_FN int nam__records_create(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options, bool tables) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__records_open(struct nam_worker *worker, const char *name,
	uint64_t cache_bytes, enum nam__records_rows rows,
	struct nam_records **ret_records) NAM_MUST_CHECK;

#endif /* NAM_TXN_RECORDS_TXN_INTERNAL_H */
