/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h -- any number of records, read of one moment as far as transactions go, for scans.
 *
 * The scan pins an epoch, names records by their heads, and reads until nothing is missing.  It
 * follows the siblings of each version, as RAMP-Fast does, also to records that were not named
 * (T5).
 */
#ifndef NAM_TXN_RECORDS_VIEW_H
#define NAM_TXN_RECORDS_VIEW_H

#include "txn_internal.h"

enum nam__seen_state {
	NAM__SEEN_HEAD,		/* the head is to be READ */
	NAM__SEEN_VERSION,		/* the version at `at` is */
	NAM__SEEN_FOUND,
	NAM__SEEN_ABSENT,		/* there is none, or none that matters */
};

/* A record. */
struct nam__seen {
	uint64_t head, at, timestamp;
	uint64_t bytes_at;		/* in the arena: key, then value */
	uint32_t value_bytes;
	uint8_t key_bytes;
	uint8_t state;
	bool deleted;
	bool named;			/* or else only another's sibling */
	bool sibling;			/* it was found as one, and may not be committed yet */
};

/* Numbers by words, which are not 0. */
struct nam__word_map {
	struct nam__word_slot {
		uint64_t word;
		uint32_t number;
	} *slots;
	uint32_t count, size;
};

/* A transaction, as described by the first of its versions that was read. */
struct nam__seen_txn {
	uint64_t timestamp;
	struct nam_version_sibling self;
	uint32_t first, count;		/* of the siblings */
	bool half;			/* some of it may not be committed yet */
};

struct nam__view {
	struct nam_worker *worker;
	struct nam_records *records;
	struct nam__seen *found;
	struct nam__seen_txn *txns;
	struct nam_version_sibling *siblings;
	uint8_t *arena;
	uint64_t found_size, txns_size, siblings_size, arena_size;	/* room in each */
	uint32_t found_count, first_wanted;
	uint32_t txns_count, first_unfollowed;
	uint32_t siblings_count;
	uint64_t arena_bytes;
	struct nam__word_map by_head, by_timestamp;
	uint64_t reads, reads_most;	/* versions READ, and when to give up */
};

/* Room for so many at *list, or -ENOMEM; present ones stay, but move.  @each	bytes */
int nam__reserve(void *list, uint64_t wanted, uint64_t *size, size_t each) NAM_MUST_CHECK;

/* Begin anew, with the memory of the last use. */
void nam__view_reset(struct nam__view *view, struct nam_worker *worker,
	struct nam_records *records);
void nam__view_free(struct nam__view *view);

/* A record that is wanted; its number, or -ENOMEM.  @at	where it may well be, or 0 */
int64_t nam__view_name(struct nam__view *view, uint64_t head, uint64_t at) NAM_MUST_CHECK;

/* The record with that head, or NULL. */
struct nam__seen *nam__view_find(const struct nam__view *view, uint64_t head);

/* Adds the version of a record that was read elsewhere. */
int nam__view_keep(struct nam__view *view, struct nam_gaddr head,
	const struct nam_version *version) NAM_MUST_CHECK;

/* READ the latest versions of all named records.  Inside of an operation. */
NAM_FIBER_FN int nam__view_read(struct nam__view *view) NAM_MUST_CHECK;

/* Afterwards: READ the missing versions of their transactions, and complete these. */
NAM_FIBER_FN int nam__view_whole(struct nam__view *view) NAM_MUST_CHECK;

#endif /* NAM_TXN_RECORDS_VIEW_H */
