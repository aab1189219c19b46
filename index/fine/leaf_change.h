/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaf_change.h -- what an insert, upsert, update or delete comes to on a private image of a leaf.
 */
#ifndef NAM_INDEX_FINE_LEAF_CHANGE_H
#define NAM_INDEX_FINE_LEAF_CHANGE_H

#include "common/counters.h"
#include "index/node/node.h"

/*
 * The words of a node's header that a change has touched beside hash and front; each includes the
 * last.
 */
enum nam__header_part {
	NAM__HEADER_FRONT,
	NAM__HEADER_COUNTS,
	NAM__HEADER_FENCES,		/* and the sibling */
};

/* The result of a change, on the private image of the leaf. */
struct nam__leaf_outcome {
	int refused;			/* not 0: nothing changes; 1: it is so already */
	bool split;			/* there is no room */
	struct nam__dirty dirty;
	enum nam__header_part part;
};

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

static inline void
nam__leaf_change(const struct nam__geometry *g, uint64_t *image, enum nam_op_kind kind,
	const uint64_t *key, uint64_t payload, struct nam__leaf_outcome *outcome)
{
	int number = nam__leaf_find(g, image, key);

	outcome->refused = 0;
	outcome->split = false;
	outcome->part = NAM__HEADER_COUNTS;
	if (number < 0) {
		if (kind != NAM_OP_INSERT && kind != NAM_OP_UPSERT)
			outcome->refused = -NAM_E_NOTFOUND;
		else if (nam__node_count(image) == g->leaf_capacity)
			outcome->split = true;
		else
			nam__leaf_add(g, image, key, payload, &outcome->dirty);
	} else if (kind == NAM_OP_INSERT) {
		outcome->refused = -NAM_E_EXISTS;
	} else if (kind == NAM_OP_DELETE) {
		nam__leaf_remove(g, image, (unsigned)number, &outcome->dirty);
	} else if (!g->unique) {
		outcome->refused = 1;	/* an upsert of a pair that is there */
	} else {
		nam__leaf_put(g, image, (unsigned)number, payload, outcome);
	}
}

#endif /* NAM_INDEX_FINE_LEAF_CHANGE_H */
