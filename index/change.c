/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c -- insert, upsert, update, delete: changes of one entry.
 */
#include <errno.h>

#include "index_internal.h"

#define SCRATCH_LEAF 0u

/* The leaf is held; release it with or without the change. */

NAM_FIBER_FN static int
leaf_refuse(struct nam_worker *worker, struct nam__held *held, int why)
{
	int rc = nam__unlock(worker, held); /* SUSPENDS */

	return rc ? rc : why;
}

NAM_FIBER_FN static int
leaf_insert(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	const uint64_t *key, uint64_t payload)
{
	const struct nam__geometry *g = &index->g;
	struct nam__dirty dirty;

	if (nam__node_count(held->image) == g->leaf_capacity)
		return nam__split_unlock(worker, index, held, key, payload); /* SUSPENDS */
	nam__leaf_add(g, held->image, key, payload, &dirty);
	return nam__write_unlock(worker, index, held, dirty, false); /* SUSPENDS */
}

NAM_FIBER_FN static int
leaf_replace(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	unsigned number, uint64_t payload)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *entry = nam__leaf_entry(g, held->image, number);
	struct nam__dirty dirty;

	entry[g->key_words] = payload;
	dirty.first = (uint32_t)(entry + g->key_words - held->image);
	dirty.end = dirty.first + 1;
	return nam__write_unlock(worker, index, held, dirty, false); /* SUSPENDS */
}

NAM_FIBER_FN static int
leaf_delete(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	unsigned number)
{
	struct nam__dirty dirty;

	nam__leaf_remove(&index->g, held->image, number, &dirty);
	return nam__write_unlock(worker, index, held, dirty, false); /* SUSPENDS */
}

NAM_FIBER_FN static int
leaf_change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind,
	const uint64_t *key, uint64_t payload)
{
	struct nam__held held = {
		.image = nam__scratch(worker, SCRATCH_LEAF, index->g.node_bytes),
	};
	int rc, number;

	if (!held.image)
		return -ENOMEM;
	rc = nam__lock_covering(worker, index, key, 0, &held); /* SUSPENDS */
	if (rc)
		return rc;
	number = nam__leaf_find(&index->g, held.image, key);
	switch (kind) {
	case NAM_OP_INSERT:
	case NAM_OP_UPSERT:
		if (number < 0)
			return leaf_insert(worker, index, &held, key, payload); /* SUSPENDS */
		if (kind == NAM_OP_INSERT)
			return leaf_refuse(worker, &held, -NAM_E_EXISTS); /* SUSPENDS */
		if (!index->g.unique)
			return leaf_refuse(worker, &held, 0); /* SUSPENDS */
		break;
	case NAM_OP_UPDATE:
	case NAM_OP_DELETE:
	default:
		if (number < 0)
			return leaf_refuse(worker, &held, -NAM_E_NOTFOUND); /* SUSPENDS */
		if (kind == NAM_OP_DELETE)
			return leaf_delete(worker, index, &held, (unsigned)number); /* SUSPENDS */
		break;
	}
	return leaf_replace(worker, index, &held, (unsigned)number, payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	struct nam__key full;
	int rc;

	nam__key_encode(&index->g, key, payload, &full);
	nam__op_begin(worker, kind);
	rc = leaf_change(worker, index, kind, full.w, payload); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

static int
refuse_non_unique(struct nam_worker *worker, const struct nam_index *index, const char *what)
{
	return nam_diag_set(&worker->diag, -EINVAL,
		"index '%s' is not unique: %s needs to know the payload, too", index->name, what);
}

int
nam_index_insert(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	return change(worker, index, NAM_OP_INSERT, key, payload); /* SUSPENDS */
}

int
nam_index_upsert(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	return change(worker, index, NAM_OP_UPSERT, key, payload); /* SUSPENDS */
}

int
nam_index_update(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	if (!index->g.unique)
		return refuse_non_unique(worker, index, "an update");
	return change(worker, index, NAM_OP_UPDATE, key, payload); /* SUSPENDS */
}

int
nam_index_delete(struct nam_worker *worker, struct nam_index *index, const void *key)
{
	if (!index->g.unique)
		return refuse_non_unique(worker, index, "a delete");
	return change(worker, index, NAM_OP_DELETE, key, 0); /* SUSPENDS */
}

/* Unique: the key must carry this payload, which only the leaf can tell. */
NAM_FIBER_FN static int
delete_pair_unique(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	uint64_t payload)
{
	const struct nam__geometry *g = &index->g;
	struct nam__held held = { .image = nam__scratch(worker, SCRATCH_LEAF, g->node_bytes) };
	int rc, number;

	if (!held.image)
		return -ENOMEM;
	rc = nam__lock_covering(worker, index, key, 0, &held); /* SUSPENDS */
	if (rc)
		return rc;
	number = nam__leaf_find(g, held.image, key);
	if (number < 0 ||
		nam__leaf_entry(g, held.image, (unsigned)number)[g->key_words] != payload)
		return leaf_refuse(worker, &held, -NAM_E_NOTFOUND); /* SUSPENDS */
	return leaf_delete(worker, index, &held, (unsigned)number); /* SUSPENDS */
}

int
nam_index_delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	struct nam__key full;
	int rc;

	if (!index->g.unique)
		return change(worker, index, NAM_OP_DELETE, key, payload); /* SUSPENDS */
	nam__key_encode(&index->g, key, payload, &full);
	nam__op_begin(worker, NAM_OP_DELETE);
	rc = delete_pair_unique(worker, index, full.w, payload); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}
