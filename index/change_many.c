/* SPDX-License-Identifier: Apache-2.0 */
/* change_many.c -- many changes in one call: which of them belong together. */
#include <errno.h>
#include <string.h>

#include "index/coarse/coarse.h"
#include "index/design.h"

#define CHANGES_MAX 1024u		/* looked at at a time */

/* 0, or what a change returns without a look at the index. */
static int
check(struct nam_worker *worker, const struct nam_index *index,
	const struct nam_index_change *change)
{
	if (change->kind < NAM_CHANGE_INSERT || change->kind > NAM_CHANGE_DELETE_PAIR)
		return nam_diag_set(&worker->diag, -EINVAL, "there is no change of kind %d",
			(int)change->kind);
	if (index->g.unique)
		return 0;
	if (change->kind == NAM_CHANGE_UPDATE)
		return nam__refuse_non_unique(worker, index, "an update");
	if (change->kind == NAM_CHANGE_DELETE)
		return nam__refuse_non_unique(worker, index, "a delete");
	return 0;
}

/* Whether b comes before a, which is left of it. */
static inline bool
out_of_order(const struct nam__geometry *g, const struct nam_index_change *changes,
	const struct nam__sorted *a, const struct nam__sorted *b)
{
	const struct nam_index_change *left, *right;
	int order;

	if (a->part != b->part)
		return b->part < a->part;
	if (a->word != b->word || (g->key_bytes == 8 && g->unique))
		return b->word < a->word;
	left = &changes[a->number];
	right = &changes[b->number];
	order = memcmp(left->key, right->key, g->key_bytes);
	return order ? order > 0 : !g->unique && right->payload < left->payload;
}

/* Merge sort, stable; a part that is in order already is not touched. */
static void
sort(const struct nam__geometry *g, const struct nam_index_change *changes,
	struct nam__sorted *sorted, uint32_t count, struct nam__sorted *spare)
{
	for (uint32_t run = 1; run < count; run *= 2) {
		for (uint32_t at = 0; at + run < count; at += 2 * run) {
			uint32_t left = 0, right = at + run, to = at;
			uint32_t end = count - at < 2 * run ? count : at + 2 * run;

			if (!out_of_order(g, changes, &sorted[right - 1], &sorted[right]))
				continue;
			memcpy(spare, sorted + at, run * sizeof(*spare));
			while (left < run && right < end)
				sorted[to++] = out_of_order(g, changes, &spare[left],
					&sorted[right]) ? sorted[right++] : spare[left++];
			memcpy(sorted + to, spare + left, (run - left) * sizeof(*spare));
		}
	}
}

NAM_FIBER_FN static void
change_some(struct nam_worker *worker, struct nam_index *index, struct nam_index_change *changes,
	uint32_t count)
{
	uint32_t bytes = 2 * count * (uint32_t)sizeof(struct nam__sorted), good = 0;
	struct nam__sorted *sorted = nam_buffer_take(worker, bytes);

	for (uint32_t i = 0; i < count; i++) {
		struct nam__key key;

		changes[i].rc = sorted ? check(worker, index, &changes[i]) : -ENOMEM;
		if (changes[i].rc)
			continue;
		nam__key_encode(&index->g, changes[i].key, changes[i].payload, &key);
		sorted[good++] = (struct nam__sorted){
			.word = key.w[0],
			.part = index->parts ? nam__part_of(index, key.w) : 0,
			.number = i,
		};
	}
	if (good) {
		sort(&index->g, changes, sorted, good, sorted + count);
		index->ops->change_many(worker, index, changes, sorted, good); /* SUSPENDS */
	}
	nam_buffer_give(worker, sorted, bytes);
}

int
nam_index_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, uint32_t count)
{
	int rc = nam__change_check(worker);

	for (uint32_t i = 0; rc && i < count; i++)
		changes[i].rc = rc;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < count; i += CHANGES_MAX)
		change_some(worker, index, changes + i,
			count - i < CHANGES_MAX ? count - i : CHANGES_MAX); /* SUSPENDS */
	for (uint32_t i = 0; i < count; i++)
		if (changes[i].rc)
			return changes[i].rc;
	return 0;
}
