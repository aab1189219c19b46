/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c -- the payload of one key. */
#include <errno.h>

#include "compute/backup/again.h"
#include "batched_lookup.h"
#include "fine.h"
#include "leaf_lookup.h"

/* The leaf that covers a full key: one READ, if it is as the cache says. */
NAM_FIBER_FN static int
read_leaf(struct nam_worker *worker, struct nam_index *index, const uint64_t *key, uint64_t *image)
{
	struct nam_gaddr at = nam__cached_leaf(worker, index, key); /* SUSPENDS */
	int rc;

	if (!nam_gaddr_is_null(at)) {
		rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
		if (rc)
			return rc;
		if (!nam__node_validate(index, image, at, 0, NAM__NODE_LEAF) &&
			nam__node_covers(image, key, index->g.full_words)) {
			worker->current->counters->cache_hits++;
			return 0;
		}
	}
	return nam__read_covering(worker, index, key, 0, image, &at); /* SUSPENDS */
}

/* The smallest pair with the key in an image, beginning at `from`: its entry, or NULL. */
static const uint64_t *
smallest_pair(const struct nam__geometry *g, uint64_t *image, const uint64_t *from)
{
	unsigned count = nam__node_count(image), sorted = nam__node_sorted(image);
	unsigned number = nam__leaf_lower_bound(g, image, from);
	const uint64_t *best = number < sorted ? nam__leaf_entry(g, image, number) : NULL;

	for (number = sorted; number < count; number++) {
		const uint64_t *entry = nam__leaf_entry(g, image, number);

		if (nam__key_compare(entry, from, g->full_words) >= 0 &&
			(!best || nam__key_compare(entry, best, g->full_words) < 0))
			best = entry;
	}
	if (best && nam__key_compare(best, from, g->key_words))
		return NULL;
	return best;
}

/* Non-unique: the key's pairs may begin in a leaf right of the one that covers (key, 0). */
NAM_FIBER_FN static int
lookup_pairs(struct nam_worker *worker, struct nam_index *index, struct nam__key *from,
	uint64_t *ret_payload)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = nam__scratch(worker, g->node_bytes);
	const uint64_t *entry, *high;
	int rc;

	if (!image)
		return -ENOMEM;
	for (unsigned hops = 0; hops < NAM__HOPS_MAX; hops++) {
		rc = read_leaf(worker, index, from->w, image); /* SUSPENDS */
		if (rc)
			return rc;
		entry = smallest_pair(g, image, from->w);
		if (entry) {
			*ret_payload = entry[g->key_words];
			return 0;
		}
		high = nam__node_high(g, image);
		if (nam__node_last(image) || nam__key_compare(high, from->w, g->key_words) > 0)
			return -NAM_E_NOTFOUND;
		memcpy(from->w, high, 8 * g->full_words);
	}
	return -NAM_E_RESTART_HOPS;
}

NAM_FIBER_FN static int
lookup_unique(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	uint64_t *ret_payload)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = nam__scratch(worker, g->node_bytes);
	int rc, number;

	if (!image)
		return -ENOMEM;
	rc = read_leaf(worker, index, key, image); /* SUSPENDS */
	if (rc)
		return rc;
	number = nam__leaf_find(g, image, key);
	if (number < 0)
		return -NAM_E_NOTFOUND;
	*ret_payload = nam__leaf_entry(g, image, (unsigned)number)[g->key_words];
	return 0;
}

/* If index->fast_lookups.  Declines if the cache does not know the leaf, or knows it wrongly. */
NAM_FIBER_FN static inline __attribute__((always_inline)) enum nam__fast_path
lookup_fast(struct nam_worker *worker, struct nam_index *index, uint64_t key, uint64_t *ret_payload,
	int *ret_rc)
{
	uint64_t *image = worker->current->scratch;
	enum nam__leaf_answer answer;
	uint32_t moves = worker->moves;
	struct nam_gaddr at;

	if (!index->fast_lookups || worker->current->scratch_bytes < index->g.node_bytes || !image)
		return NAM__FAST_DECLINED;
	*ret_rc = nam__find_batched(worker, index, key, image, NULL, &at); /* SUSPENDS */
	if (__builtin_expect(*ret_rc, 0))
		return nam__read_in_vain(worker, at, moves) ? NAM__FAST_DECLINED : NAM__FAST_TAKEN;
	if (nam_gaddr_is_null(at))
		return NAM__FAST_DECLINED;
	answer = nam__leaf_lookup(index, image, at, key, ret_payload);
	if (answer == NAM__LEAF_UNUSABLE)
		return NAM__FAST_DECLINED;
	worker->current->counters->cache_hits++;
	*ret_rc = (int)answer;
	return NAM__FAST_TAKEN;
}

int
nam__fine_lookup(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t *ret_payload)
{
	struct nam__key full;
	int rc;

	nam__op_begin(worker, NAM_OP_LOOKUP);
	if (__builtin_expect(lookup_fast(worker, index, nam_key_to_u64(key), ret_payload, &rc) !=
		NAM__FAST_TAKEN, 0)) { /* SUSPENDS */
		nam__key_encode(&index->g, key, 0, &full);
		if (index->g.unique)
			rc = lookup_unique(worker, index, full.w, ret_payload); /* SUSPENDS */
		else
			rc = lookup_pairs(worker, index, &full, ret_payload); /* SUSPENDS */
	}
	nam__op_end(worker);
	return rc;
}
