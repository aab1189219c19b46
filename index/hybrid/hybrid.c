/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid.c -- the hybrid design: its table; one key concerns the leaves of one part. */
#include "hybrid.h"

#include <errno.h>
#include <stdlib.h>

#include "index/fine/fine.h"
#include "index/fine/scan_internal.h"
#include "index/maintain/maintain.h"
#include "index/parts_scan.h"

#define LOOKUPS_MAX 1024u		/* of one part, looked up in one go */

/* The first leaf of a part.  I11: it is whole before a tree leads to it. */
NAM_FIBER_FN static int
leaf_create(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_at)
{
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	struct nam_gaddr at;
	uint32_t generation;
	int rc;

	if (!image)
		return -ENOMEM;
	rc = nam__node_alloc(worker, index, false, &at, &generation); /* SUSPENDS */
	if (rc)
		goto give_image;
	nam__node_init(&index->g, image, NAM__NODE_LEAF, 0, generation, nam__key_lowest.w, NULL);
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
nam__hybrid_create(struct nam_worker *worker, struct nam_index *index, const char *name,
	const struct nam__members *members, struct nam_gaddr *ret_leaves)
{
	uint32_t made = 0;
	int rc = 0;

	while (!rc && made < members->count) {
		rc = leaf_create(worker, index, &ret_leaves[made]); /* SUSPENDS */
		made += !rc;
	}
	nam_race_point("create.leaves_written");
	/* H2: the leaves are written before entries lead to them. */
	if (!rc)
		rc = nam__parts_create(worker, index, name, members, ret_leaves); /* SUSPENDS */
	while (rc && made)
		nam_free_unseen(worker, ret_leaves[--made], index->g.stride);
	return rc;
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
	leaves->whole = index;
	leaves->inner = &nam__inner_rpc;
	leaves->names = true;
	leaves->names_slot = index->parts->slots[part];
	leaves->part = part;
	index->leaves[part] = leaves;
	return nam__fine_open(worker, leaves, cache_bytes, to_drop); /* SUSPENDS */
}

NAM_FIBER_FN static int
open_parts(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	uint32_t count;
	int rc = nam__parts_open(worker, index, cache_bytes, to_drop); /* SUSPENDS */

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

static void
close_parts(struct nam_index *index)
{
	for (uint32_t i = 0; index->leaves && i < index->parts->count && index->leaves[i]; i++) {
		nam__fine_close(index->leaves[i]);
		free(index->leaves[i]);
	}
	free(index->leaves);
	nam__parts_close(index);
}

/*
 * The leaves go first: only their readers ask for the trees.  If a memory server was restarted,
 * pointers of the remaining leaves may lead to nodes of other indexes.
 */
NAM_FIBER_FN static int
free_parts(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	int rc = 0, drop_rc;

	for (uint32_t i = 0; i < index->parts->count && !lost; i++) {
		int part_rc = nam__level_free(worker, index->leaves[i], 0, 1); /* SUSPENDS */

		rc = rc ?: part_rc;
	}
	drop_rc = nam__parts_free(worker, index, lost); /* SUSPENDS */
	return rc ? rc : drop_rc;
}

/* The handle whose leaves keep a key. */
static inline struct nam_index *
leaves_of(struct nam_index *index, const void *key)
{
	struct nam__key full;

	nam__key_encode(&index->g, key, 0, &full);
	return index->leaves[nam__part_of(index, full.w)];
}

NAM_FIBER_FN static int
lookup(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t *ret_payload)
{
	return nam__fine_lookup(worker, leaves_of(index, key), key, ret_payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	return nam__fine_change(worker, leaves_of(index, key), kind, key, payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t payload)
{
	return nam__fine_delete_pair(worker, leaves_of(index, key), key, payload); /* SUSPENDS */
}

NAM_FIBER_FN static void
change_many(struct nam_worker *worker, struct nam_index *index, struct nam_index_change *changes,
	const struct nam__sorted *sorted, uint32_t count)
{
	for (uint32_t at = 0, end; at < count; at = end) {
		for (end = at + 1; end < count && sorted[end].part == sorted[at].part; end++)
			;
		nam__fine_change_many(worker, index->leaves[sorted[at].part], changes, sorted + at,
			end - at); /* SUSPENDS */
	}
}

/* The keys that lie in one part, and where their answers belong. */
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

NAM_FIBER_FN static int
lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
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

static int
leaves_begin(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	struct nam_range range = scan->range;

	if (range.limit)
		range.limit = scan->remaining;
	return nam__scan_open(scan->head.worker, scan->head.index->leaves[stream->part], &range,
		&stream->leaves);
}

NAM_FIBER_FN static int
leaves_fill(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	int rc = nam__scan_next_entries(stream->leaves, &stream->entries); /* SUSPENDS */

	(void)scan;
	if (rc)
		return rc;
	stream->at = 0;
	stream->more = stream->entries.count > 0;
	return 0;
}

NAM_FIBER_FN static int
leaves_next(struct nam__part_stream *stream, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	return nam__scan_next(stream->leaves, keys, payloads, capacity, ret_count); /* SUSPENDS */
}

NAM_FIBER_FN static void
leaves_end(struct nam__parts_scan *scan, struct nam__part_stream *stream)
{
	(void)scan;
	if (stream->leaves)
		nam__scan_close(stream->leaves); /* SUSPENDS */
}

static const struct nam__part_reader leaves_reader = {
	.begin = leaves_begin,
	.fill = leaves_fill,
	.next = leaves_next,
	.end = leaves_end,
};

NAM_FIBER_FN static int
stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *stat,
	const struct nam__seen *seen)
{
	int rc = nam__coarse_stat(worker, index, stat, seen); /* SUSPENDS */

	for (uint32_t i = 0; i < index->parts->count && !rc; i++)
		rc = nam__count_level(worker, index->leaves[i], 0, 1, stat, seen); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
verify(struct nam_worker *worker, struct nam_index *index, nam_index_violation_fn violation,
	void *arg, uint64_t *violations)
{
	int rc = nam__coarse_verify(worker, index, violation, arg, violations); /* SUSPENDS */

	for (uint32_t i = 0; i < index->parts->count && !rc; i++)
		rc = nam__leaves_verify(worker, index->leaves[i], violation, arg,
			violations); /* SUSPENDS */
	return rc;
}

/* Leaves by this client, then the levels above by their memory servers: no client waits. */
NAM_FIBER_FN static int
collect(struct nam_worker *worker, struct nam_index *index, struct nam_collect_stat *stat)
{
	int rc, orphaned_rc = 0;

	for (uint32_t i = 0; i < index->parts->count; i++) {
		rc = nam__leaves_collect(worker, index->leaves[i], stat); /* SUSPENDS */
		if (rc == -NAM_E_LOCK_ORPHANED)
			orphaned_rc = rc;
		else if (rc)
			return rc;
	}
	rc = nam__coarse_collect(worker, index, stat); /* SUSPENDS */
	return rc ? rc : orphaned_rc;
}

const struct nam__index_ops nam__hybrid_ops = {
	.open = open_parts,
	.close = close_parts,
	.free = free_parts,
	.lookup = lookup,
	.lookup_many = lookup_many,
	.change = change,
	.delete_pair = delete_pair,
	.change_many = change_many,
	.cursor_open = nam__parts_scan_open,
	.cursor_next = nam__parts_scan_next,
	.cursor_next_entries = nam__parts_scan_next_entries,
	.cursor_close = nam__parts_scan_close,
	.reader = &leaves_reader,
	.bulk_load = nam__hybrid_bulk_load,
	.stat = stat,
	.verify = verify,
	.collect = collect,
};
