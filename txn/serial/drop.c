/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drop.c -- the end of a store, and the marks of a sweep.
 *
 * A drop takes the name, makes each record DROPPED, and clears the buckets.  Then no transaction
 * that begins later uses a block of the store (Z8).
 */
#include <errno.h>

#include "compute/view/sweep.h"
#include "indexed.h"
#include "walk.h"

struct dropping {
	struct nam_worker *worker;
	const struct nam_txn_store *store;
	void *zeroes;			/* as long as the longest buckets together */
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
	else if (kind == NAM__SERIAL_BLOCK_BUCKETS || kind == NAM__SERIAL_BLOCK_CHUNK)
		rc = nam_write_await(dropping->worker, at, dropping->zeroes, stride); /* SUSPENDS */
	if (!rc)
		nam_retire(dropping->worker, at, stride);
	return rc;
}

NAM_FIBER_FN static int
all_drop(struct nam_worker *worker, struct nam_txn_store *store)
{
	const uint32_t chunk_bytes = store->shape.chunk_buckets *
		(uint32_t)sizeof(struct nam_serial_bucket);
	const uint32_t bytes = chunk_bytes > NAM__SERIAL_NEXT_BYTES ? chunk_bytes :
		NAM__SERIAL_NEXT_BYTES;
	struct dropping dropping = { worker, store, nam_buffer_take(worker, bytes) };
	int rc;

	if (!dropping.zeroes)
		return -ENOMEM;
	memset(dropping.zeroes, 0, bytes);
	/* Z8: until the buckets are cleared, they lead to records that are retired. */
	nam__labels_hold(worker);
	rc = nam__serial_walk(worker, store, block_drop, &dropping); /* SUSPENDS */
	nam__labels_release(worker);
	nam_buffer_give(worker, dropping.zeroes, bytes);
	return rc;
}

int
nam__serial_drop_join(struct nam_worker *worker, const char *name,
	struct nam__serial_drop *ret_drop, struct nam_rpc_catalog_entry *names, uint32_t *count)
{
	int rc = nam__name_check(worker, NAM_CATALOG_SERIAL, name);

	*ret_drop = (struct nam__serial_drop){ .store = NULL };
	if (rc)
		return rc;
	memcpy(ret_drop->name, name, strlen(name) + 1);
	rc = nam__serial_open(worker, name, &ret_drop->store); /* SUSPENDS */
	if (!rc) {
		ret_drop->superblock = ret_drop->store->superblock;
	} else if (nam__is_unreadable(rc)) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__name_find(worker, NAM_CATALOG_SERIAL, name,
			&ret_drop->superblock.raw); /* SUSPENDS */
		nam__op_end(worker);
	}
	if (rc)
		return rc;
	names[(*count)++] = nam__name_entry(NAM_CATALOG_SERIAL, name, ret_drop->superblock.raw);
	/* Any that there may be: only a superblock that can be read says how many there are. */
	for (uint32_t i = 0; i < NAM_TXN_INDEXES_MAX && !rc; i++) {
		char text[NAM_INDEX_NAME_BYTES];

		if (ret_drop->store && !ret_drop->store->options.indexes[i].key_bytes)
			break;
		nam__serial_index_name(name, i, text);
		rc = nam__index_drop_join(worker, text, &ret_drop->indexes[i], names,
			count); /* SUSPENDS */
		ret_drop->indexes_count += !rc;
	}
	return rc ? nam__serial_drop_end(worker, ret_drop, rc) : 0; /* SUSPENDS */
}

/* A store without its names: in the hands of this client alone (G7). */
NAM_FIBER_FN static int
unnamed_drop(struct nam_worker *worker, const struct nam__serial_drop *drop)
{
	struct nam_diag said;
	int rc;

	nam_retire(worker, drop->superblock, sizeof(struct nam_serial_superblock));
	if (!drop->store)
		return nam_diag_set(&worker->diag, -NAM_E_LOST, "store '%s' was dropped, but its "
			"superblock does not verify: its records stay allocated until a sweep",
			drop->name);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = all_drop(worker, drop->store); /* SUSPENDS */
	nam__op_end(worker);
	/* The memory of a server that was restarted is gone, or is another's. */
	if (nam__is_unreadable(rc) || rc == -NAM_E_DROPPED)
		rc = -NAM_E_LOST;
	said = worker->diag;
	return !rc ? 0 : nam_diag_set(&worker->diag, rc, "store '%s' was dropped, but some of it "
		"stays allocated until a sweep: %s", drop->name, said.text);
}

int
nam__serial_drop_end(struct nam_worker *worker, struct nam__serial_drop *drop, int name_rc)
{
	int rc = name_rc ? name_rc : unnamed_drop(worker, drop); /* SUSPENDS */

	for (uint32_t i = 0; i < drop->indexes_count; i++) {
		int index_rc = nam__index_drop_end(worker, &drop->indexes[i],
			name_rc); /* SUSPENDS */

		rc = rc ? rc : index_rc;
	}
	nam_txn_store_close(drop->store);
	return rc;
}

int
nam_txn_store_drop(struct nam_worker *worker, const char *name)
{
	struct nam_rpc_catalog_entry names[NAM__SERIAL_NAMES];
	uint64_t epoch = nam__epoch_pin(worker);
	struct nam__serial_drop drop;
	uint32_t count = 0;
	int rc = nam__serial_drop_join(worker, name, &drop, names, &count); /* SUSPENDS */

	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__names_take(worker, names, count); /* SUSPENDS */
		nam__op_end(worker);
		rc = nam__serial_drop_end(worker, &drop, rc); /* SUSPENDS */
	}
	nam__epoch_unpin(worker, epoch);
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
