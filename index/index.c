/* SPDX-License-Identifier: Apache-2.0 */
/* index.c -- the operations of index.h on an open index: check the arguments, ask the design. */
#include <errno.h>

#include "compute/remote/reclaim.h"
#include "index/coarse/coarse.h"
#include "index/design.h"
#include "index/maintain/maintain.h"

#define FILL_DEFAULT 92u
#define FILL_MIN 50u
#define FILL_MAX 100u

/* ---- one key, or many ----------------------------------------------------------------------- */

int
nam_index_lookup(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t *ret_payload)
{
	return index->ops->lookup(worker, index, key, ret_payload); /* SUSPENDS */
}

int
nam_index_lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	return index->ops->lookup_many(worker, index, keys, count, ret_payloads,
		ret_rcs); /* SUSPENDS */
}

int
nam__refuse_non_unique(struct nam_worker *worker, const struct nam_index *index, const char *what)
{
	return nam_diag_set(&worker->diag, -EINVAL,
		"index '%s' is not unique: %s needs to know the payload, too", index->name, what);
}

/* If memory is full, and runs of dropped objects come back, once more. */
NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	unsigned tries = 0;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	do
		rc = index->ops->change(worker, index, kind, key, payload); /* SUSPENDS */
	while (nam__memory_retry(worker, rc, &tries)); /* SUSPENDS */
	return rc;
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
		return nam__refuse_non_unique(worker, index, "an update");
	return change(worker, index, NAM_OP_UPDATE, key, payload); /* SUSPENDS */
}

int
nam_index_delete(struct nam_worker *worker, struct nam_index *index, const void *key)
{
	if (!index->g.unique)
		return nam__refuse_non_unique(worker, index, "a delete");
	return change(worker, index, NAM_OP_DELETE, key, 0); /* SUSPENDS */
}

int
nam_index_delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key,
	uint64_t payload)
{
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	if (!index->g.unique)
		return change(worker, index, NAM_OP_DELETE, key,
			payload); /* SUSPENDS */
	return index->ops->delete_pair(worker, index, key, payload); /* SUSPENDS */
}

/* ---- cursors -------------------------------------------------------------------------------- */

int
nam_cursor_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	int rc;

	if (range->low && range->high &&
		memcmp(range->low, range->high, index->g.key_bytes) > 0)
		return nam_diag_set(&worker->diag, -EINVAL,
			"the range's low key is above its high key");
	rc = index->ops->cursor_open(worker, index, range, ret_cursor);
	if (!rc)
		worker->counters[NAM_OP_SCAN].ops++;
	return rc;
}

/* Counted when the cursor was opened. */
static inline void
resume(struct nam_worker *worker)
{
	nam__op_begin(worker, NAM_OP_SCAN);
	worker->counters[NAM_OP_SCAN].ops--;
}

int
nam_cursor_next(struct nam_cursor *cursor, void *keys, uint64_t *payloads, uint32_t capacity,
	uint32_t *ret_count)
{
	struct nam_worker *worker = cursor->worker;
	int rc;

	resume(worker);
	rc = cursor->index->ops->cursor_next(cursor, keys, payloads, capacity,
		ret_count); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

int
nam_cursor_next_entries(struct nam_cursor *cursor, struct nam_entries *ret_entries)
{
	struct nam_worker *worker = cursor->worker;
	int rc;

	ret_entries->key_bytes = cursor->index->g.key_bytes;
	resume(worker);
	rc = cursor->index->ops->cursor_next_entries(cursor, ret_entries); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

void
nam_cursor_close(struct nam_cursor *cursor)
{
	if (cursor)
		cursor->index->ops->cursor_close(cursor); /* SUSPENDS */
}

/* ---- the whole ------------------------------------------------------------------------------ */

int
nam_index_bulk_load(struct nam_worker *worker, struct nam_index *index, nam_index_source_fn source,
	void *arg, uint32_t fill_percent, uint64_t *ret_count)
{
	uint64_t count = 0;
	unsigned tries = 0;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	if (!fill_percent)
		fill_percent = FILL_DEFAULT;
	if (fill_percent < FILL_MIN || fill_percent > FILL_MAX)
		return nam_diag_set(&worker->diag, -EINVAL,
			"fill percentage %u: it must be between %u and %u, or 0 for %u",
			fill_percent, FILL_MIN, FILL_MAX, FILL_DEFAULT);
	nam__op_begin(worker, NAM_OP_BULK_LOAD);
	rc = index->ops->bulk_load(worker, index, source, arg, fill_percent, &count); /* SUSPENDS */
	nam__op_end(worker);
	/* The pairs cannot be had again here, but the caller may have them. */
	if (nam__memory_retry(worker, rc, &tries)) /* SUSPENDS */
		rc = nam_diag_set(&worker->diag, rc, "index '%s': the memory servers had no room "
			"for all of it. If objects were dropped before, their memory has come "
			"back, and the same load may fit now", index->name);
	if (!rc && ret_count)
		*ret_count = count;
	return rc;
}

static void
cache_stat(const struct nam_index *index, struct nam_index_stat *stat)
{
	if (index->cache)
		nam__cache_stat(index->cache, stat);
	for (uint32_t i = 0; index->leaves && i < index->parts->count; i++)
		cache_stat(index->leaves[i], stat);
}

int
nam_index_stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *ret_stat)
{
	const struct nam__seen seen = { .fn = NULL };
	struct nam_index_stat stat = { 0 };
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = index->ops->stat(worker, index, &stat, &seen); /* SUSPENDS */
	nam__op_end(worker);
	if (rc)
		return rc;
	if (stat.leaves)
		stat.leaf_fill = (double)stat.entries /
				 ((double)stat.leaves * index->g.leaf_capacity);
	cache_stat(index, &stat);
	*ret_stat = stat;
	return 0;
}

/* A dead collector's merge first: it names nodes that nothing else may lead to. */
int
nam__index_nodes(struct nam_worker *worker, struct nam_index *index, const struct nam__seen *seen)
{
	struct nam_index_stat stat = { 0 };
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = nam__merge_complete(worker, index); /* SUSPENDS */
	if (!rc || rc == -NAM_E_LOCK_TIMEOUT)
		rc = index->ops->stat(worker, index, &stat, seen); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

int
nam_index_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *ret_violations)
{
	uint64_t violations = 0;
	int rc;

	nam__op_begin(worker, NAM_OP_VERIFY);
	rc = index->ops->verify(worker, index, violation, arg, &violations); /* SUSPENDS */
	nam__op_end(worker);
	if (!rc)
		*ret_violations = violations;
	return rc;
}

int
nam_index_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *ret_stat)
{
	struct nam_collect_stat stat = { 0 };
	int rc = nam__change_check(worker);

	if (!rc)
		rc = index->ops->collect(worker, index, &stat); /* SUSPENDS */

	if (!rc || rc == -NAM_E_LOCK_ORPHANED || rc == -ECANCELED)
		*ret_stat = stat;
	return rc;
}

void
nam_index_cache_stat(const struct nam_index *index, struct nam_index_stat *ret_stat)
{
	ret_stat->cache_bytes = 0;
	ret_stat->cache_nodes = 0;
	ret_stat->cache_budget_bytes = 0;
	ret_stat->cache_evictions = 0;
	cache_stat(index, ret_stat);
}
