/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the table of the coarse-grained design. */
#include "coarse.h"
#include "index/design.h"

/* ---- the handle ---------------------------------------------------------------------------- */

NAM_FIBER_FN static int
open_parts(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes, bool to_drop)
{
	(void)cache_bytes;		/* there is nothing to keep */
	return nam__parts_open(worker, index, to_drop); /* SUSPENDS */
}

static void
close_parts(struct nam_index *index)
{
	nam__parts_free(index->parts);
}

/* Memory servers tell later requests for the trees that these are gone. */
NAM_FIBER_FN static int
free_trees(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	(void)lost;
	return nam__parts_drop(worker, index); /* SUSPENDS */
}

static void
cache_stat(const struct nam_index *index, struct nam_index_stat *stat)
{
	(void)index;
	(void)stat;
}

/* ---- changes ------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	static const enum nam_rpc_tree_point points[NAM_OP_KINDS_COUNT] = {
		[NAM_OP_INSERT] = NAM_RPC_TREE_INSERT,
		[NAM_OP_UPSERT] = NAM_RPC_TREE_UPSERT,
		[NAM_OP_UPDATE] = NAM_RPC_TREE_UPDATE,
		[NAM_OP_DELETE] = NAM_RPC_TREE_DELETE,
	};

	return nam__coarse_change(worker, index, kind, points[kind], key, payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t payload)
{
	return nam__coarse_change(worker, index, NAM_OP_DELETE, NAM_RPC_TREE_DELETE_PAIR, key,
		payload); /* SUSPENDS */
}

/* ---- the whole ----------------------------------------------------------------------------- */

NAM_FIBER_FN static int
stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *ret_stat)
{
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = nam__coarse_stat(worker, index, ret_stat); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

const struct nam__index_ops nam__coarse_ops = {
	.scattered = false,
	.open = open_parts,
	.close = close_parts,
	.free = free_trees,
	.lookup = nam__coarse_lookup,
	.lookup_many = nam__coarse_lookup_many,
	.change = change,
	.delete_pair = delete_pair,
	.cursor_open = nam__merge_open,
	.cursor_next = nam__merge_next,
	.cursor_next_entries = nam__cursor_next_copied,
	.cursor_close = nam__merge_close,
	.bulk_load = nam__coarse_bulk_load,
	.stat = stat,
	.verify = nam__coarse_verify,
	.collect = nam__coarse_collect,
	.cache_stat = cache_stat,
};
