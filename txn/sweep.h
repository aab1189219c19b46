/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h -- nam_sweep(): the memory that dead clients have left. */
#ifndef NAM_TXN_SWEEP_H
#define NAM_TXN_SWEEP_H

#include <stdbool.h>

#include "../compute/remote.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks for nam_worker_pace(): 1 KiB each, a sweep takes a hundredth of a fast network. */
#define NAM_SWEEP_PACE 100000u

/*
 * used = named + freed + those that living clients have, or that nam_keep() gave to none.
 * During the sweep, `named` counts no versions of records, and only blocks `used` when it began.
 * `named` and the last three then show its progress, for nam_worker_stop_when().
 */
struct nam_sweep_stat {
	struct nam_blocks used;		/* of all clients, before the end of the sweep */
	struct nam_blocks named;	/* that names lead to */
	struct nam_blocks freed;
	uint64_t parts;			/* dropped: trees and parts of key-value stores */
	/* Bytes of trees and parts: of all, of those that names lead to, of those dropped. */
	uint64_t parts_used_bytes, parts_named_bytes, parts_freed_bytes;
	uint64_t entries;		/* of tables' indexes: of versions that are freed */
	uint32_t indexes, record_stores, tables;
};

/**
 * nam_sweep -- free the blocks that dead clients allocated and that no name leads to.
 *
 * The blocks were in block caches or in limbo, or belong to half-done loads, splits, drops and
 * transactions.  Names of indexes lead to nodes, those of record stores to heads and versions.
 * Trees and parts of key-value stores on memory servers are dropped likewise.  First, also if
 * `dry`, transactions of dead clients are completed or aborted, as by nam_records_collect().  A
 * client is dead once all memory servers have closed its connections, soon after its end.
 *
 * @dry		only say what would be freed
 *
 * Other operations go on meanwhile, and living clients lose nothing.  If a client is killed
 * meanwhile, its blocks are for the next sweep.
 *
 * Returns 0 or a negative code, and the worker's diag says why.  Some entries and parts may be gone
 * then, and blocks of those memory servers that had answered.  The rest is for the next sweep.
 *	-NAM_E_LOCK_TIMEOUT	another client sweeps, completes transactions, is stopped, or is in
 *				a long operation; it is named
 *	-EAGAIN			another sweep has begun
 *	-NAM_E_LOST, -NAM_E_RESTART_*, -NAM_E_LOCK_ORPHANED, -NAM_E_REMOTE_CORRUPT
 *				an index or a store cannot be read whole: as nam_index_open(),
 *				nam_index_stat() and nam_records_open() say; it is named.  No sweep
 *				frees anything until it is dropped
 *	-NAM_E_FABRIC_DENIED	the client's key is not an admin's
 *	-NAM_E_FABRIC_*, -NAM_E_FENCED, -ENOMEM
 *	-ECANCELED		as nam_worker_stop_when() says
 *
 * Suspends:	yes.  nam_worker_pace() limits what it looks at.  Blocks are reusable by the next
 *		client that lacks memory.
 * Cost:	an RPC to each memory server, and 3 for each 4,096 blocks of it.  A walk of each
 *		index, as nam_index_stat(), and one RPC for each 506 nodes.  For each record store
 *		nam_records_collect(), a scan of its keys and one RPC for each 506 records.  For
 *		each index of a table a scan, and one RPC to each memory server for 64 entries.
 *		Then about 50 ms for clients to report.
 */
NAM_FIBER_FN int nam_sweep(struct nam_worker *worker, bool dry,
	struct nam_sweep_stat *ret_stat) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_SWEEP_H */
