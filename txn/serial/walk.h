/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h -- all blocks of a store of serializable transactions. */
#ifndef NAM_TXN_SERIAL_WALK_H
#define NAM_TXN_SERIAL_WALK_H

#include "common/gaddr.h"
#include "compute/client.h"

struct nam__sweep;
struct nam_txn_store;

enum nam__serial_block {
	NAM__SERIAL_BLOCK_RECORD,
	NAM__SERIAL_BLOCK_BUCKETS,	/* behind a full one; after all that is behind them */
	NAM__SERIAL_BLOCK_CHUNK,	/* after its records */
	NAM__SERIAL_BLOCK_LOG,
	NAM__SERIAL_BLOCK_LOGS,
};

/* A block with its stride.  A result other than 0 ends the walk, and is its result. */
typedef int nam__serial_block_fn(void *arg, enum nam__serial_block kind, struct nam_gaddr at,
	uint32_t stride);

/*
 * In an operation, which keeps the blocks from reuse.  -NAM_E_REMOTE_CORRUPT: buckets are deeper
 * than they can be.  Cost: a READ of each but the records.
 */
NAM_FIBER_FN int nam__serial_walk(struct nam_worker *worker, const struct nam_txn_store *store,
	nam__serial_block_fn *fn, void *arg) NAM_MUST_CHECK;

/* drop.c: mark the blocks of the store with that name. */
NAM_FIBER_FN int nam__serial_mark(struct nam__sweep *sweep, const char *name) NAM_MUST_CHECK;

#endif /* NAM_TXN_SERIAL_WALK_H */
