/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c -- all blocks of a store: what a drop gives back, and what a sweep marks. */
#include <errno.h>

#include "serial.h"
#include "walk.h"

struct walk {
	struct nam_worker *worker;
	const struct nam_txn_store *store;
	nam__serial_block_fn *fn;
	void *arg;
	struct nam_serial_bucket *behind;	/* of each depth */
};

#define BEHIND_BYTES (NAM__SERIAL_DEPTH_MAX * NAM__SERIAL_NEXT_BYTES)

NAM_FIBER_FN static int
visit(const struct walk *walk, enum nam__serial_block kind, uint64_t at, uint32_t stride)
{
	return walk->fn(walk->arg, kind, nam_gaddr_untagged(NAM_GADDR(at)), stride); /* SUSPENDS */
}

NAM_FIBER_FN static int
slots_walk(const struct walk *walk, const struct nam_serial_bucket *bucket)
{
	int rc = 0;

	for (uint32_t i = 0; i < NAM__SERIAL_SLOTS && bucket->slots[i] && !rc; i++)
		rc = visit(walk, NAM__SERIAL_BLOCK_RECORD, bucket->slots[i],
			walk->store->stride); /* SUSPENDS */
	return rc;
}

/* A bucket's records.  *ret_next: the buckets behind it, or 0. */
NAM_FIBER_FN static int
bucket_walk(const struct walk *walk, const struct nam_serial_bucket *bucket, uint64_t *ret_next)
{
	*ret_next = bucket->next;
	if (bucket->store != walk->store->store)
		return nam__serial_dropped(walk->worker, walk->store);
	return slots_walk(walk, bucket); /* SUSPENDS */
}

/* The records behind a full bucket, and then the buckets; all that is deeper comes first. */
NAM_FIBER_FN static int
behind_walk(const struct walk *walk, uint64_t next)
{
	uint64_t at[NAM__SERIAL_DEPTH_MAX];
	uint32_t depth = 0, which[NAM__SERIAL_DEPTH_MAX];
	int rc = 0;

	while (!rc) {
		struct nam_serial_bucket *buckets = &walk->behind[depth * NAM__SERIAL_NEXT];

		if (next) {
			at[depth] = next;
			which[depth] = 0;
			rc = nam_read_await(walk->worker, NAM_GADDR(next), buckets,
				NAM__SERIAL_NEXT_BYTES); /* SUSPENDS */
		}
		next = 0;
		if (!rc && which[depth] < NAM__SERIAL_NEXT) {
			rc = bucket_walk(walk, &buckets[which[depth]++], &next); /* SUSPENDS */
			if (!rc && next && ++depth == NAM__SERIAL_DEPTH_MAX)
				rc = -NAM_E_REMOTE_CORRUPT;
			continue;
		}
		if (!rc)
			rc = visit(walk, NAM__SERIAL_BLOCK_BUCKETS, at[depth],
				NAM__SERIAL_NEXT_BYTES); /* SUSPENDS */
		if (!depth--)
			break;
	}
	return rc;
}

NAM_FIBER_FN static int
chunks_walk(const struct walk *walk)
{
	const struct nam_serial_superblock *shape = &walk->store->shape;
	const uint32_t bytes = shape->chunk_buckets * (uint32_t)sizeof(struct nam_serial_bucket);
	struct nam_serial_bucket *chunk = nam_buffer_take(walk->worker, bytes);
	uint64_t next;
	int rc = chunk ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < shape->chunks_count && !rc; i++) {
		rc = nam_read_await(walk->worker, NAM_GADDR(shape->chunks[i]), chunk,
			bytes); /* SUSPENDS */
		for (uint32_t k = 0; k < shape->chunk_buckets && !rc; k++) {
			rc = bucket_walk(walk, &chunk[k], &next); /* SUSPENDS */
			if (!rc && next)
				rc = behind_walk(walk, next); /* SUSPENDS */
		}
		if (!rc)
			rc = visit(walk, NAM__SERIAL_BLOCK_CHUNK, shape->chunks[i],
				bytes); /* SUSPENDS */
	}
	if (chunk)
		nam_buffer_give(walk->worker, chunk, bytes);
	return rc;
}

NAM_FIBER_FN static int
logs_walk(const struct walk *walk)
{
	const uint64_t logs = walk->store->shape.logs;
	uint64_t *heads = nam_buffer_take(walk->worker, NAM__SERIAL_LOGS_BYTES);
	struct nam_serial_log *log = (void *)walk->behind;
	int rc = heads ? nam_read_await(walk->worker, NAM_GADDR(logs), heads,
		NAM__SERIAL_LOGS_BYTES) : -ENOMEM; /* SUSPENDS */

	for (uint32_t i = 0; i < NAM_CLIENTS_MAX && !rc; i++) {
		for (uint64_t at = heads[i]; at && !rc;) {
			uint64_t next;

			rc = nam_read_await(walk->worker, NAM_GADDR(at), log,
				sizeof(*log)); /* SUSPENDS */
			next = log->next;
			if (!rc)
				rc = visit(walk, NAM__SERIAL_BLOCK_LOG, at,
					log->capacity); /* SUSPENDS */
			at = next;
		}
	}
	if (heads)
		nam_buffer_give(walk->worker, heads, NAM__SERIAL_LOGS_BYTES);
	return rc ? rc : visit(walk, NAM__SERIAL_BLOCK_LOGS, logs,
		NAM__SERIAL_LOGS_BYTES); /* SUSPENDS */
}

int
nam__serial_walk(struct nam_worker *worker, const struct nam_txn_store *store,
	nam__serial_block_fn *fn, void *arg)
{
	struct walk walk = { worker, store, fn, arg, nam_buffer_take(worker, BEHIND_BYTES) };
	int rc = walk.behind ? chunks_walk(&walk) : -ENOMEM; /* SUSPENDS */

	if (!rc)
		rc = logs_walk(&walk); /* SUSPENDS */
	if (walk.behind)
		nam_buffer_give(worker, walk.behind, BEHIND_BYTES);
	return rc;
}
