/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drop.c -- the end of a store, and the marks of a sweep.
 *
 * A drop takes the name, makes each record DROPPED, and clears the buckets.  Then no transaction
 * that begins later uses a block of the store (Z8).
 */
#include <errno.h>

#include "compute/client/names.h"
#include "compute/view/sweep.h"
#include "indexed.h"
#include "walk.h"

struct dropping {
	struct nam_worker *worker;
	const struct nam_txn_store *store;
	void *zeroes;			/* as long as a chunk */
};

/* Z8: whatever the word is.  Its transaction finds another word when it releases the lock. */
NAM_FIBER_FN static int
record_drop(const struct dropping *dropping, struct nam_gaddr at)
{
	uint64_t seen = 0, old;
	int rc;

	do {
		old = seen;
		rc = nam__serial_word_cas(dropping->worker, dropping->store, at, old,
			NAM__SERIAL_DROPPED, &seen); /* SUSPENDS */
	} while (!rc && seen != old && seen != NAM__SERIAL_DROPPED);
	return rc;
}

NAM_FIBER_FN static int
block_drop(void *arg, enum nam__serial_block kind, struct nam_gaddr at, uint32_t stride)
{
	struct dropping *dropping = arg;
	int rc = 0;

	if (kind == NAM__SERIAL_BLOCK_RECORD)
		rc = record_drop(dropping, at); /* SUSPENDS */
	/* Z8: no search comes to a record from here any more. */
	else if (kind == NAM__SERIAL_BLOCK_BUCKET || kind == NAM__SERIAL_BLOCK_CHUNK)
		rc = nam_write_await(dropping->worker, at, dropping->zeroes, stride); /* SUSPENDS */
	if (!rc)
		nam_retire(dropping->worker, at, stride);
	return rc;
}

NAM_FIBER_FN static int
all_drop(struct nam_worker *worker, struct nam_txn_store *store)
{
	const uint32_t bytes = store->shape.chunk_buckets *
		(uint32_t)sizeof(struct nam_serial_bucket);
	struct dropping dropping = { worker, store, nam_buffer_take(worker, bytes) };
	int rc;

	if (!dropping.zeroes)
		return -ENOMEM;
	memset(dropping.zeroes, 0, bytes);
	/* Z8: until the buckets are cleared, they lead to records that are retired. */
	nam__labels_hold(worker);
	nam_retire(worker, store->superblock, sizeof(struct nam_serial_superblock));
	rc = nam__serial_walk(worker, store, block_drop, &dropping); /* SUSPENDS */
	nam__labels_release(worker);
	nam_buffer_give(worker, dropping.zeroes, bytes);
	return rc;
}

/* A store without its names: in the hands of this client alone (G7). */
NAM_FIBER_FN static int
unnamed_drop(struct nam_worker *worker, struct nam_txn_store *store,
	struct nam__index_drop *indexes, uint32_t count)
{
	int rc, index_rc;

	nam__op_begin(worker, NAM_OP_OTHER);
	rc = all_drop(worker, store); /* SUSPENDS */
	nam__op_end(worker);
	for (uint32_t i = 0; i < count; i++) {
		index_rc = nam__index_drop_end(worker, &indexes[i], 0); /* SUSPENDS */
		rc = rc ? rc : index_rc;
	}
	return rc;
}

/* The names of the store and of its indexes go together. */
NAM_FIBER_FN static int
names_drop(struct nam_worker *worker, struct nam_txn_store *store, struct nam__index_drop *indexes,
	uint32_t *ret_joined)
{
	struct nam_rpc_catalog_entry names[1 + NAM_TXN_INDEXES_MAX];
	uint32_t count = 1, joined = 0;
	int rc = 0;

	names[0] = nam__name_entry(NAM_CATALOG_SERIAL, store->name, store->superblock.raw);
	for (; joined < NAM_TXN_INDEXES_MAX && store->options.indexes[joined].key_bytes && !rc;
		joined += !rc) {
		char text[NAM_INDEX_NAME_BYTES];

		nam__serial_index_name(store->name, joined, text);
		rc = nam__index_drop_join(worker, text, &indexes[joined], names,
			&count); /* SUSPENDS */
	}
	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__names_take(worker, names, count); /* SUSPENDS */
		nam__op_end(worker);
	}
	for (uint32_t i = 0; rc && i < joined; i++)
		(void)!nam__index_drop_end(worker, &indexes[i], rc); /* SUSPENDS */
	*ret_joined = joined;
	return rc;
}

int
nam_txn_store_drop(struct nam_worker *worker, const char *name)
{
	struct nam__index_drop indexes[NAM_TXN_INDEXES_MAX];
	struct nam_txn_store *store;
	uint32_t count;
	uint64_t epoch;
	int rc = nam__serial_open(worker, name, &store); /* SUSPENDS */

	if (rc)
		return rc;
	epoch = nam__epoch_pin(worker);
	rc = names_drop(worker, store, indexes, &count); /* SUSPENDS */
	if (!rc)
		rc = unnamed_drop(worker, store, indexes, count); /* SUSPENDS */
	nam__epoch_unpin(worker, epoch);
	nam_txn_store_close(store);
	nam__drop_reclaim(worker); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
block_mark(void *arg, enum nam__serial_block kind, struct nam_gaddr at, uint32_t stride)
{
	(void)kind;
	(void)stride;
	return nam__sweep_mark(arg, at); /* SUSPENDS */
}

int
nam__serial_mark(struct nam__sweep *sweep, const char *name)
{
	struct nam_worker *worker = sweep->worker;
	struct nam_txn_store *store;
	int rc = nam__serial_open(worker, name, &store); /* SUSPENDS */

	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__serial_walk(worker, store, block_mark, sweep); /* SUSPENDS */
	nam__op_end(worker);
	nam_txn_store_close(store);
	return rc;
}
