/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c -- all records of a store, in batches, and the versions of their heads. */
#include <errno.h>
#include <string.h>

#include "compute/worker/pace.h"
#include "walk.h"

#define CHAIN_MAX 4096u

bool
nam__version_is_of(const struct nam_records *records, const struct nam_version *version,
	struct nam_gaddr head)
{
	return version->store == records->store && version->head == head.raw;
}

/* ---- versions that are not the latest -------------------------------------------------------- */

void
nam__chain_begin(struct nam__chain *chain, const struct nam__walked *seen)
{
	*chain = (struct nam__chain){ .head = seen->at, .next = seen->head.chain };
}

enum nam__step
nam__chain_next(struct nam_worker *worker, const struct nam_records *records,
	struct nam__chain *chain, int *ret_rc)
{
	const struct nam_gaddr at = { chain->next };
	struct nam_version *version;
	int rc;

	/* In a one-sided store the word is always 0. */
	if (!at.raw || chain->hops++ == CHAIN_MAX)
		return NAM__STEP_DONE;
	rc = nam__version_at_check(worker, records, at);
	if (rc)
		return nam__step_failed(rc, ret_rc);
	if (nam__version_gone(worker->client, at))
		return NAM__STEP_DONE;
	version = nam_buffer_take(worker, sizeof(*version));
	if (!version)
		return nam__step_failed(-ENOMEM, ret_rc);
	rc = nam_read_await(worker, at, version, sizeof(*version)); /* SUSPENDS */
	chain->at = at;
	chain->version = *version;
	chain->next = version->previous;
	nam_buffer_give(worker, version, sizeof(*version));
	if (rc)
		return nam__step_failed(rc, ret_rc);
	return nam__version_is_of(records, &chain->version, chain->head) ? NAM__STEP_MORE :
		NAM__STEP_DONE;
}

/* ---- records --------------------------------------------------------------------------------- */

int
nam__walked_read(struct nam_worker *worker, struct nam__walked *seen, uint32_t count)
{
	struct nam_batch batch;
	int rc;

	nam_batch_init(&batch, worker);
	for (uint32_t i = 0; i < count; i++)
		nam_batch_read(&batch, seen[i].at, &seen[i].head, sizeof(seen[i].head));
	rc = nam_batch_await(&batch); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++) {
		memset(&seen[i].latest, 0, sizeof(seen[i].latest));
		if (nam__version_can_be_at(worker->client, NAM_GADDR(seen[i].head.latest)))
			nam_batch_read(&batch, NAM_GADDR(seen[i].head.latest), &seen[i].latest,
				sizeof(seen[i].latest));
	}
	return rc ? rc : nam_batch_await(&batch); /* SUSPENDS */
}

int
nam__entries_walk(struct nam_worker *worker, struct nam_index *index, uint8_t *keys, bool paced,
	nam__entries_fn fn, void *arg)
{
	static const struct nam_range all;
	uint64_t heads[NAM__ENTRIES_MAX];
	struct nam_cursor *cursor;
	uint32_t count = 0;
	int rc = nam_cursor_open(worker, index, &all, &cursor);

	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, keys, heads, NAM__ENTRIES_MAX, &count); /* SUSPENDS */
		if (!rc && count)
			rc = fn(arg, keys, heads, count); /* SUSPENDS */
		if (!rc && paced)
			rc = nam__worker_pace(worker, count); /* SUSPENDS */
	} while (!rc && count);
	nam_cursor_close(cursor); /* SUSPENDS */
	return rc;
}

int
nam__records_walk(struct nam_worker *worker, struct nam_records *records, bool paced,
	nam__some_fn fn, void *arg)
{
	static const struct nam_range all;
	const uint32_t bytes = NAM__WALK_MAX * (uint32_t)sizeof(struct nam__walked);
	struct nam__walked *seen = nam_buffer_take(worker, bytes);
	uint64_t heads[NAM__WALK_MAX];
	struct nam_cursor *cursor;
	uint32_t count = 0;
	uint64_t epoch;
	int rc = seen ? nam_cursor_open(worker, records->keys, &all, &cursor) : -ENOMEM;

	if (rc)
		goto give;
	do {
		/* Heads come by one operation and serve in another. */
		epoch = nam__epoch_pin(worker);
		rc = nam_cursor_next(cursor, NULL, heads, NAM__WALK_MAX, &count); /* SUSPENDS */
		for (uint32_t i = 0; i < count; i++)
			seen[i].at.raw = heads[i];
		nam__op_begin(worker, NAM_OP_OTHER);
		if (!rc && count)
			rc = nam__walked_read(worker, seen, count); /* SUSPENDS */
		if (!rc && count)
			rc = fn(worker, records, seen, count, arg); /* SUSPENDS */
		nam__op_end(worker);
		nam__epoch_unpin(worker, epoch);
		if (!rc && paced)
			rc = nam__worker_pace(worker, count); /* SUSPENDS */
	} while (!rc && count);
	nam_cursor_close(cursor); /* SUSPENDS */
give:
	nam_buffer_give(worker, seen, bytes);
	return rc;
}
