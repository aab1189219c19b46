/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup_many.c -- look-ups in groups: all READs of a group share one wait.
 *
 * The steps of the single look-up (point_ops.c), each taken for the whole group before the next, so
 * that the misses of one key's step overlap with the work of the others', and what is paid per wait
 * (a switch of fibers, a doorbell, a poll) is paid once.
 */
#include <errno.h>

#include "index_internal.h"
#include "search.h"

#define GROUP_MAX NAM__CACHE_GROUP_MAX

struct group {
	struct nam_index *index;
	uint32_t count;
	uint64_t *images;		/* GROUP_MAX nodes */
	uint64_t keys[GROUP_MAX];
	struct nam_gaddr at[GROUP_MAX];	/* null: the cache does not know */
};

static uint64_t *
image_of(const struct group *group, uint32_t number)
{
	return group->images + (size_t)number * group->index->g.node_words;
}

/* Step 1: which leaves. */
static void
find_leaves(struct group *group, const uint8_t *keys)
{
	for (uint32_t i = 0; i < group->count; i++)
		group->keys[i] = nam_key_to_u64(keys + 8 * i);
	nam__cache_leaf_group(group->index->cache, group->keys, group->count, group->at);
}

/* Step 2: one READ each, one wait for all. */
NAM_FIBER_FN static int
read_leaves(struct nam_worker *worker, struct group *group)
{
	struct nam_batch batch;

	nam_batch_init(&batch, worker);
	for (uint32_t i = 0; i < group->count; i++)
		if (!nam_gaddr_is_null(group->at[i]))
			nam_batch_read(&batch, group->at[i], image_of(group, i),
				group->index->g.node_bytes);
	return nam_batch_await(&batch); /* SUSPENDS */
}

/* Step 3: the payload, if the image is what the pointer promised; else 1: go the long way. */
static int
search_leaf(const struct group *group, uint32_t number, uint64_t *ret_payload)
{
	const uint64_t *image = image_of(group, number);
	const uint64_t *entries = image + group->index->g.entries_at;
	unsigned count = nam__node_count(image), sorted = nam__node_sorted(image), entry;
	uint64_t key = group->keys[number];

	if (nam_gaddr_is_null(group->at[number]) ||
		!nam__leaf_fits(group->index, image, group->at[number], &key))
		return 1;
	entry = nam__count_below(entries, sorted, 2, &key, 1, false);
	if (entry == sorted || entries[2 * entry] != key)
		for (entry = sorted; entry < count && entries[2 * entry] != key; entry++)
			continue;
	if (entry == count)
		return -NAM_E_NOTFOUND;
	*ret_payload = entries[2 * entry + 1];
	return 0;
}

NAM_FIBER_FN static int
lookup_group(struct nam_worker *worker, struct group *group, const uint8_t *keys,
	uint64_t *ret_payloads, int *ret_rcs)
{
	int rc;

	nam__op_begin(worker, NAM_OP_LOOKUP);
	worker->counters[NAM_OP_LOOKUP].ops += group->count - 1;
	find_leaves(group, keys);
	rc = read_leaves(worker, group); /* SUSPENDS */
	for (uint32_t i = 0; i < group->count && !rc; i++)
		ret_rcs[i] = search_leaf(group, i, &ret_payloads[i]);
	nam__op_end(worker);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < group->count; i++) {
		if (ret_rcs[i] <= 0)
			continue;
		worker->counters[NAM_OP_LOOKUP].ops--;	/* counted again */
		ret_rcs[i] = nam_index_lookup(worker, group->index, keys + 8 * i,
			&ret_payloads[i]); /* SUSPENDS */
	}
	return 0;
}

int
nam_index_lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	uint32_t key_bytes = index->g.key_bytes, done = 0;
	struct group group = { .index = index };
	const uint8_t *key = keys;
	int rc = 0;

	if (!index->fast_lookups) {
		for (; done < count; done++)
			ret_rcs[done] = nam_index_lookup(worker, index, key + done * key_bytes,
				&ret_payloads[done]); /* SUSPENDS */
		return 0;
	}
	group.images = nam_buffer_take(worker, GROUP_MAX * index->g.node_bytes);
	if (!group.images)
		return -ENOMEM;
	while (done < count && !rc) {
		group.count = count - done < GROUP_MAX ? count - done : GROUP_MAX;
		rc = lookup_group(worker, &group, key + 8 * done, ret_payloads + done,
			ret_rcs + done); /* SUSPENDS */
		done += group.count;
	}
	nam_buffer_give(worker, group.images, GROUP_MAX * index->g.node_bytes);
	return rc;
}
