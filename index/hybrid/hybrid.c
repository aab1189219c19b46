/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid.c -- what concerns all parts of a hybrid index. */
#include "hybrid.h"

#include <errno.h>
#include <stdlib.h>

#include "index/fine/fine.h"
#include "index/maintain/maintain.h"

#define LOOKUPS_MAX 1024u		/* of one part, looked up in one go */

/* ---- making -------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
leaf_create(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_at)
{
	static const struct nam__key lowest;
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	struct nam_gaddr at;
	uint32_t generation;
	int rc;

	if (!image)
		return -ENOMEM;
	rc = nam__node_alloc(worker, index, &at, &generation); /* SUSPENDS */
	if (rc)
		goto give_image;
	nam__node_init(&index->g, image, NAM__NODE_LEAF, 0, generation, lowest.w, NULL);
	rc = nam__new_node_await(worker, index, at, image); /* SUSPENDS */
	if (rc)
		nam_free_unseen(worker, at, index->g.stride);
	else
		*ret_at = at;
give_image:
	nam_buffer_give(worker, image, index->g.node_bytes);
	return rc;
}

int
nam__hybrid_create(struct nam_worker *worker, const char *name, uint64_t tree,
	const struct nam_index_options *options, struct nam_gaddr *ret_leaves)
{
	struct nam_index index = {
		.client = worker->client,
		.ordered_loads = worker->client->caps & NAM_CAP_ORDERED_LOADS,
	};
	uint32_t count = worker->client->servers_count, made = 0;
	int rc = nam__geometry_init(&index.g, options, tree);

	while (!rc && made < count) {
		rc = leaf_create(worker, &index, &ret_leaves[made]); /* SUSPENDS */
		made += !rc;
	}
	nam_race_point("create.leaves_written");
	if (!rc)
		rc = nam__parts_create(worker, name, tree, options, ret_leaves); /* SUSPENDS */
	if (rc)
		nam__hybrid_uncreate(worker, options, ret_leaves, made);
	return rc;
}

void
nam__hybrid_uncreate(struct nam_worker *worker, const struct nam_index_options *options,
	const struct nam_gaddr *leaves, uint32_t count)
{
	struct nam__geometry g;
	int rc = nam__geometry_init(&g, options, 0);

	while (!rc && count)
		nam_free_unseen(worker, leaves[--count], g.stride);
}

NAM_FIBER_FN static int
open_leaves(struct nam_worker *worker, struct nam_index *index, uint32_t part,
	uint64_t cache_bytes, bool to_drop)
{
	struct nam_index *leaves = calloc(1, sizeof(*leaves));

	if (!leaves)
		return -ENOMEM;
	*leaves = *index;
	leaves->ops = &nam__fine_ops;
	leaves->parts = NULL;
	leaves->leaves = NULL;
	leaves->inner_rpc = true;
	leaves->inner_rpc_slot = index->parts->slots[part];
	leaves->inner_rpc_part = part;
	index->leaves[part] = leaves;
	return nam__fine_open(worker, leaves, cache_bytes, to_drop); /* SUSPENDS */
}

int
nam__hybrid_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	uint32_t count;
	int rc = nam__parts_open(worker, index, to_drop); /* SUSPENDS */

	if (rc)
		return rc;
	count = index->parts->count;
	index->leaves = calloc(count, sizeof(index->leaves[0]));
	if (!index->leaves)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = open_leaves(worker, index, i, cache_bytes / count, to_drop); /* SUSPENDS */
	return rc;
}

void
nam__hybrid_close(struct nam_index *index)
{
	for (uint32_t i = 0; index->leaves && i < index->parts->count && index->leaves[i]; i++) {
		nam__fine_close(index->leaves[i]);
		free(index->leaves[i]);
	}
	free(index->leaves);
	nam__parts_free(index->parts);
}

int
nam__hybrid_free_leaves(struct nam_worker *worker, struct nam_index *index)
{
	int rc = 0;

	for (uint32_t i = 0; i < index->parts->count; i++) {
		int part_rc = nam__leaves_free(worker, index->leaves[i]); /* SUSPENDS */

		if (!rc)
			rc = part_rc;
	}
	return rc;
}

/* ---- looking up ---------------------------------------------------------------------------- */

/* Those of the keys that lie in one part, and where their answers belong. */
struct some {
	uint32_t count;
	uint32_t positions[LOOKUPS_MAX];
	uint64_t payloads[LOOKUPS_MAX];
	int rcs[LOOKUPS_MAX];
	uint8_t keys[];
};

NAM_FIBER_FN static int
look_up_some(struct nam_worker *worker, struct nam_index *leaves, struct some *some,
	uint64_t *ret_payloads, int *ret_rcs)
{
	int rc = 0;

	if (some->count)
		rc = nam__fine_lookup_many(worker, leaves, some->keys, some->count,
			some->payloads, some->rcs); /* SUSPENDS */
	for (uint32_t i = 0; i < some->count && !rc; i++) {
		ret_rcs[some->positions[i]] = some->rcs[i];
		if (!some->rcs[i])
			ret_payloads[some->positions[i]] = some->payloads[i];
	}
	some->count = 0;
	return rc;
}

int
nam__hybrid_lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	uint32_t key_bytes = index->g.key_bytes, parts = index->parts->count;
	struct some *some = malloc(sizeof(*some) + LOOKUPS_MAX * key_bytes);
	uint8_t *part_of = malloc(count ? count : 1);
	int rc = some && part_of ? 0 : -ENOMEM;

	_Static_assert(NAM_SERVERS_MAX <= 256, "a part's number is a byte");
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct nam__key full;

		nam__key_encode(&index->g, (const uint8_t *)keys + (size_t)i * key_bytes, 0, &full);
		part_of[i] = (uint8_t)nam__part_of(index, full.w);
	}
	for (uint32_t part = 0; part < parts && !rc; part++) {
		some->count = 0;
		for (uint32_t i = 0; i < count && !rc; i++) {
			if (part_of[i] != part)
				continue;
			memcpy(some->keys + (size_t)some->count * key_bytes,
				(const uint8_t *)keys + (size_t)i * key_bytes, key_bytes);
			some->positions[some->count++] = i;
			if (some->count == LOOKUPS_MAX)
				rc = look_up_some(worker, index->leaves[part], some, ret_payloads,
					ret_rcs); /* SUSPENDS */
		}
		if (!rc)
			rc = look_up_some(worker, index->leaves[part], some, ret_payloads,
				ret_rcs); /* SUSPENDS */
	}
	free(part_of);
	free(some);
	return rc;
}

/* ---- the whole ----------------------------------------------------------------------------- */

void
nam__hybrid_cache_stat(const struct nam_index *index, struct nam_index_stat *stat)
{
	for (uint32_t i = 0; i < index->parts->count; i++)
		nam__fine_cache_stat(index->leaves[i], stat);
}

int
nam__hybrid_stat(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_stat *ret_stat)
{
	struct nam_index_stat above, stat = { 0 };
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = nam__coarse_stat(worker, index, &above); /* SUSPENDS */
	for (uint32_t i = 0; i < index->parts->count && !rc; i++)
		rc = nam__count_level(worker, index->leaves[i], 0, 1, &stat); /* SUSPENDS */
	nam__op_end(worker);
	if (rc)
		return rc;
	stat.height = above.height + 1;
	stat.inner_nodes = above.leaves + above.inner_nodes;
	stat.remote_bytes += above.remote_bytes;
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++)
		stat.servers_nodes[id] += above.servers_nodes[id];
	if (stat.leaves)
		stat.leaf_fill = (double)stat.entries /
			((double)stat.leaves * index->g.leaf_capacity);
	nam__hybrid_cache_stat(index, &stat);
	*ret_stat = stat;
	return 0;
}

int
nam__hybrid_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations)
{
	uint64_t sum = 0, violations = 0;
	int rc;

	rc = nam__coarse_verify(worker, index, violation, arg, &sum); /* SUSPENDS */
	for (uint32_t i = 0; i < index->parts->count && !rc; i++) {
		rc = nam__fine_verify(worker, index->leaves[i], violation, arg,
			&violations); /* SUSPENDS */
		sum += violations;
	}
	if (!rc)
		*ret_violations = sum;
	return rc;
}

/* Leaves by this client, then the levels above by their memory servers: no client waits. */
int
nam__hybrid_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat)
{
	struct nam_collect_stat sum = { 0 }, stat;
	int rc = 0, orphaned_rc = 0;

	for (uint32_t i = 0; i < index->parts->count && !rc; i++) {
		rc = nam__fine_collect(worker, index->leaves[i], &stat); /* SUSPENDS */
		if (rc == -NAM_E_LOCK_ORPHANED) {
			orphaned_rc = rc;
			rc = 0;
		}
		if (rc)
			return rc;
		sum.nodes_visited += stat.nodes_visited;
		sum.merges += stat.merges;
		sum.heads_written += stat.heads_written;
		sum.nodes_retired += stat.nodes_retired;
		sum.nodes_reusable += stat.nodes_reusable;
	}
	rc = nam__coarse_collect(worker, index, &stat); /* SUSPENDS */
	if (rc)
		return rc;
	sum.nodes_visited += stat.nodes_visited;
	sum.merges += stat.merges;
	sum.nodes_retired += stat.nodes_retired;
	sum.nodes_reusable += stat.nodes_reusable;
	*ret_stat = sum;
	return orphaned_rc;
}
