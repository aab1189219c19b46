/* SPDX-License-Identifier: Apache-2.0 */
/* indexed.h -- secondary indexes of stores: their leaves and entries in a transaction. */
#ifndef NAM_TXN_SERIAL_INDEXED_H
#define NAM_TXN_SERIAL_INDEXED_H

#include "compute/client/names.h"
#include "index/leaves.h"
#include "index/unnamed.h"
#include "serial.h"

#define NAM__SERIAL_STRAYS_MAX 4u

/* A leaf that a transaction depends on.  Lies in registered memory. */
struct nam__serial_leaf {
	uint64_t seen[NAM__LEAF_STAMP_WORDS];	/* as the validation READ it */
	struct nam__leaf_note note;
	uint32_t index;
};

/* An entry in the range of a scan. */
struct nam__serial_gathered {
	struct nam_gaddr at;		/* of the record */
	struct nam_serial_record *image;	/* NULL: the item has it */
	struct nam__serial_item *item;
	uint8_t key[NAM_KEY_BYTES_MAX];	/* of the index */
};

/* An entry without a record of that key: a dead client has left it. */
struct nam__serial_stray {
	const struct nam__serial_item *item;
	uint32_t index;
	uint8_t key[NAM_KEY_BYTES_MAX];
};

struct nam__serial_scans {
	uint32_t leaves_count, strays_count, gathered_count;
	struct nam__serial_leaf leaves[NAM_TXN_LEAVES_MAX];
	struct nam__serial_stray strays[NAM__SERIAL_STRAYS_MAX];
	struct nam__serial_gathered gathered[NAM_TXN_RECORDS_MAX];
	struct nam__read reads[NAM_TXN_RECORDS_MAX + NAM_TXN_LEAVES_MAX];
};

enum nam__serial_pass { NAM__SERIAL_INSERTS, NAM__SERIAL_REMOVES };

/* The entries that a commit inserts, by index, and those that it removes. */
struct nam__serial_entries {
	uint32_t bytes;			/* of this */
	bool entered;			/* some may have been inserted */
	uint32_t begin[2][NAM_TXN_INDEXES_MAX + 1];
	struct nam_index_change changes[];
};

/* ---- indexes.c ------------------------------------------------------------------------------- */

struct nam__serial_indexes_made {
	uint32_t count;
	struct nam__index_made *made[NAM_TXN_INDEXES_MAX];
};

int nam__serial_indexes_check(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options) NAM_MUST_CHECK;
/* Make those of the options, without their names, which are added to `names`. */
NAM_FIBER_FN int nam__serial_indexes_make(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, struct nam_serial_superblock *shape,
	struct nam_rpc_catalog_entry *names, struct nam__serial_indexes_made *ret) NAM_MUST_CHECK;
/* @rc	of nam__names_put() */
NAM_FIBER_FN void nam__serial_indexes_made_end(struct nam_worker *worker,
	struct nam__serial_indexes_made *made, int rc);
/* Those of the shape. */
NAM_FIBER_FN int nam__serial_indexes_open(struct nam_worker *worker, struct nam_txn_store *store,
	uint64_t cache_bytes) NAM_MUST_CHECK;
void nam__serial_indexes_close(struct nam_txn_store *store);
void nam__serial_index_name(const char *store, uint32_t number, char *ret_text);

/* ---- scan.c ---------------------------------------------------------------------------------- */

/* The key of a record in an index; NULL: it is not in it. */
static inline const uint8_t *
nam__serial_index_key(const struct nam_txn_store *store, uint32_t number,
	const struct nam_serial_record *record)
{
	const struct nam_txn_index *index = &store->options.indexes[number];

	if (record->absent || record->value_bytes < index->value_offset + index->key_bytes ||
		(index->key_first && record->bytes[0] != index->key_first))
		return NULL;
	return record->bytes + record->key_bytes + index->value_offset;
}

void nam__serial_scans_free(struct nam_txn *txn);
/* Z11: add the READs of the leaves' stamps.  Returns the count of all. */
uint32_t nam__serial_leaves_add(struct nam_txn *txn, struct nam__read *reads, uint32_t count);
/* Whether these are the stamps that were noted. */
bool nam__serial_leaves_hold(const struct nam_txn *txn);

static inline uint32_t
nam__serial_leaves_count(const struct nam_txn *txn)
{
	return txn->scans ? txn->scans->leaves_count : 0;
}

/* ---- entries.c ------------------------------------------------------------------------------- */

/* The changes of the indexes by a commit: all records that it writes were READ. */
int nam__serial_entries_list(struct nam_txn *txn) NAM_MUST_CHECK;
void nam__serial_entries_free(struct nam_txn *txn);
/* Z12: all records are locked.  Leaves that were scanned are noted anew.  In an operation. */
NAM_FIBER_FN int nam__serial_entries_insert(struct nam_txn *txn) NAM_MUST_CHECK;
/* After an abort, under the locks.  After a FABRIC code the locks must stay. */
NAM_FIBER_FN int nam__serial_entries_undo(struct nam_txn *txn) NAM_MUST_CHECK;
/* Z12: the records are written, and locked.  Likewise. */
NAM_FIBER_FN int nam__serial_entries_remove(struct nam_txn *txn) NAM_MUST_CHECK;
/* Words of the log. */
uint32_t nam__serial_removes_words(const struct nam_txn *txn);
/* Returns where the words end. */
uint64_t *nam__serial_removes_log(const struct nam_txn *txn, struct nam_serial_log *log,
	uint64_t *words);
/* Z12: the same of a dead client's transaction, for one of its records, which is locked. */
NAM_FIBER_FN int nam__serial_removes_redo(struct nam_worker *worker, struct nam_txn_store *store,
	const struct nam_serial_log *log, struct nam_gaddr at) NAM_MUST_CHECK;
/* Z13: remove entries that scans found without records of these keys.  In an operation. */
NAM_FIBER_FN void nam__serial_strays_remove(struct nam_txn *txn);

static inline bool
nam__serial_removes_some(const struct nam_txn *txn)
{
	const struct nam__serial_entries *entries = txn->entries;

	return entries && entries->begin[NAM__SERIAL_REMOVES][NAM_TXN_INDEXES_MAX] >
		entries->begin[NAM__SERIAL_REMOVES][0];
}

/* ---- store.c, drop.c: a table's own store, whose names come and go with the table's ---------- */

#define NAM__SERIAL_NAMES (1 + NAM_TXN_INDEXES_MAX)	/* its own, and those of its indexes */

/* A store before its names are there. */
struct nam__serial_made {
	struct nam_gaddr at;
	struct nam_serial_superblock *shape;
	struct nam__serial_indexes_made indexes;
};

/*
 * As nam_txn_store_create(), but the names are not entered: they are added to `names`.
 *
 * @tables	for their rows
 */
NAM_FIBER_FN int nam__serial_store_make(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, bool tables,
	struct nam_rpc_catalog_entry *names, uint32_t *count,
	struct nam__serial_made *ret_made) NAM_MUST_CHECK;
/* @rc	of nam__names_put(); if the names cannot be there, the store is gone */
NAM_FIBER_FN void nam__serial_store_made_end(struct nam_worker *worker,
	struct nam__serial_made *made, int rc);
/* As both, with nam__names_put() between them. */
NAM_FIBER_FN int nam__serial_store_create(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, bool tables) NAM_MUST_CHECK;

/* As nam_txn_store_open().  @tables	it must be for their rows; or must not */
NAM_FIBER_FN int nam__serial_store_open(struct nam_worker *worker, const char *name,
	uint64_t cache_bytes, bool tables, struct nam_txn_store **ret_store) NAM_MUST_CHECK;

/* A drop; an epoch is pinned meanwhile (G7). */
struct nam__serial_drop {
	struct nam_txn_store *store;		/* NULL: its superblock does not verify */
	struct nam_gaddr superblock;
	char name[NAM_INDEX_NAME_BYTES];
	struct nam__index_drop indexes[NAM_TXN_INDEXES_MAX];
	uint32_t indexes_count;
};

/* As nam__records_drop_join(), with up to NAM__SERIAL_NAMES.  nam__serial_drop_end() follows. */
NAM_FIBER_FN int nam__serial_drop_join(struct nam_worker *worker, const char *name,
	struct nam__serial_drop *ret_drop, struct nam_rpc_catalog_entry *names,
	uint32_t *count) NAM_MUST_CHECK;
/* As nam__index_drop_end(). */
NAM_FIBER_FN int nam__serial_drop_end(struct nam_worker *worker, struct nam__serial_drop *drop,
	int name_rc) NAM_MUST_CHECK;

#endif /* NAM_TXN_SERIAL_INDEXED_H */
