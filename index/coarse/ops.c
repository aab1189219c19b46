/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the table of the coarse-grained design, and its operations as they are counted. */
#include "coarse.h"
#include "index/design.h"

#define KEYS_MAX 4096u			/* looked up in one go */

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
cache_stat(const struct nam_index *index, struct nam_index_stat *ret_stat)
{
	(void)index;
	ret_stat->cache_bytes = 0;
	ret_stat->cache_nodes = 0;
	ret_stat->cache_budget_bytes = 0;
	ret_stat->cache_evictions = 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
lookup(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t *ret_payload)
{
	struct nam__key full;
	int rc;

	nam__key_encode(&index->g, key, 0, &full);
	nam__op_begin(worker, NAM_OP_LOOKUP);
	rc = nam__coarse_lookup(worker, index, full.w, ret_payload); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

NAM_FIBER_FN static int
lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys, uint32_t count,
	uint64_t *ret_payloads, int *ret_rcs)
{
	int rc = 0;

	nam__op_begin(worker, NAM_OP_LOOKUP);
	worker->counters[NAM_OP_LOOKUP].ops += (uint64_t)count - 1;
	for (uint32_t i = 0; i < count && !rc; i += KEYS_MAX)
		rc = nam__coarse_lookup_many(worker, index,
			(const uint8_t *)keys + (size_t)i * index->g.key_bytes,
			count - i < KEYS_MAX ? count - i : KEYS_MAX, ret_payloads + i,
			ret_rcs + i); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

NAM_FIBER_FN static int
change_as(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind,
	enum nam_rpc_tree_point point, const void *key, uint64_t payload)
{
	struct nam__key full;
	int rc;

	nam__key_encode(&index->g, key, payload, &full);
	nam__op_begin(worker, kind);
	rc = nam__coarse_change(worker, index, point, full.w, payload); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

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

	return change_as(worker, index, kind, points[kind], key, payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t payload)
{
	return change_as(worker, index, NAM_OP_DELETE, NAM_RPC_TREE_DELETE_PAIR, key,
		payload); /* SUSPENDS */
}

/* ---- the whole ----------------------------------------------------------------------------- */

NAM_FIBER_FN static int
bulk_load(struct nam_worker *worker, struct nam_index *index, nam_index_source_fn source, void *arg,
	uint32_t fill_percent, uint64_t *ret_count)
{
	int rc;

	nam__op_begin(worker, NAM_OP_BULK_LOAD);
	rc = nam__coarse_bulk_load(worker, index, source, arg, fill_percent,
		ret_count); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

NAM_FIBER_FN static int
stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *ret_stat)
{
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = nam__coarse_stat(worker, index, ret_stat); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

NAM_FIBER_FN static int
verify(struct nam_worker *worker, struct nam_index *index, nam_index_violation_fn violation,
	void *arg, uint64_t *ret_violations)
{
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = nam__coarse_verify(worker, index, violation, arg, ret_violations); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

NAM_FIBER_FN static int
collect(struct nam_worker *worker, struct nam_index *index, struct nam_collect_stat *ret_stat)
{
	int rc;

	nam__op_begin(worker, NAM_OP_COLLECT);
	rc = nam__coarse_collect(worker, index, ret_stat); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

const struct nam__index_ops nam__coarse_ops = {
	.scattered = false,
	.open = open_parts,
	.close = close_parts,
	.free = free_trees,
	.lookup = lookup,
	.lookup_many = lookup_many,
	.change = change,
	.delete_pair = delete_pair,
	.cursor_open = nam__merge_open,
	.cursor_next = nam__merge_next,
	.cursor_next_entries = nam__cursor_next_copied,
	.cursor_close = nam__merge_close,
	.bulk_load = bulk_load,
	.stat = stat,
	.verify = verify,
	.collect = collect,
	.cache_stat = cache_stat,
};
