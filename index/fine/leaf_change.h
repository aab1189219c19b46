/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaf_change.h -- what an insert, upsert, update or delete comes to on a private image of a leaf.
 */
#ifndef NAM_INDEX_FINE_LEAF_CHANGE_H
#define NAM_INDEX_FINE_LEAF_CHANGE_H

#include "common/counters.h"
#include "index/node/node.h"

/* The effect of a change on a leaf; but for the first, its image is as it was. */
enum nam__leaf_effect {
	NAM__LEAF_WRITE,	/* the image has changed */
	NAM__LEAF_SPLIT,	/* there is no room for the entry */
	NAM__LEAF_SAME,		/* the pair of an upsert is there already */
	NAM__LEAF_MISSING,	/* the entry of an update or delete is not there */
	NAM__LEAF_PRESENT,	/* the entry of an insert is there already */
};

/* The result of a change, on the private image of the leaf. */
struct nam__leaf_outcome {
	enum nam__leaf_effect effect;
	struct nam__dirty dirty;
	enum nam__header_part part;
};

/* The code that a change without a write returns. */
static inline int
nam__leaf_effect_rc(enum nam__leaf_effect effect)
{
	if (effect == NAM__LEAF_MISSING)
		return -NAM_E_NOTFOUND;
	return effect == NAM__LEAF_PRESENT ? -NAM_E_EXISTS : 0;
}

static inline void
nam__leaf_put(const struct nam__geometry *g, uint64_t *image, unsigned number, uint64_t payload,
	struct nam__leaf_outcome *outcome)
{
	uint64_t *entry = nam__leaf_entry(g, image, number);

	entry[g->key_words] = payload;
	outcome->dirty.first = (uint32_t)(entry + g->key_words - image);
	outcome->dirty.end = outcome->dirty.first + 1;
	outcome->part = NAM__HEADER_FRONT;
}

/* @exact: a delete, of a key with this payload only */
static inline void
nam__leaf_change(const struct nam__geometry *g, uint64_t *image, enum nam_op_kind kind, bool exact,
	const uint64_t *key, uint64_t payload, struct nam__leaf_outcome *outcome)
{
	int number = nam__leaf_find(g, image, key);

	if (exact && number >= 0 &&
		nam__leaf_entry(g, image, (unsigned)number)[g->key_words] != payload)
		number = -1;
	outcome->effect = NAM__LEAF_WRITE;
	outcome->part = NAM__HEADER_COUNTS;
	if (number < 0) {
		if (kind != NAM_OP_INSERT && kind != NAM_OP_UPSERT)
			outcome->effect = NAM__LEAF_MISSING;
		else if (nam__node_count(image) == g->leaf_capacity)
			outcome->effect = NAM__LEAF_SPLIT;
		else
			nam__leaf_add(g, image, key, payload, &outcome->dirty);
	} else if (kind == NAM_OP_INSERT) {
		outcome->effect = NAM__LEAF_PRESENT;
	} else if (kind == NAM_OP_DELETE) {
		nam__leaf_remove(g, image, (unsigned)number, &outcome->dirty);
	} else if (!g->unique) {
		outcome->effect = NAM__LEAF_SAME;
	} else {
		nam__leaf_put(g, image, (unsigned)number, payload, outcome);
	}
}

#endif /* NAM_INDEX_FINE_LEAF_CHANGE_H */
