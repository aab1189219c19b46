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
	struct nam_serial_bucket *overflow;
};

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

/* A bucket's records, and those of the buckets behind it. */
NAM_FIBER_FN static int
bucket_walk(const struct walk *walk, const struct nam_serial_bucket *bucket)
{
	uint64_t next = bucket->next;
	int rc = bucket->store == walk->store->store ? slots_walk(walk, bucket) :
		nam__serial_dropped(walk->worker, walk->store); /* SUSPENDS */

	while (!rc && next) {
		uint64_t at = next;

		rc = nam_read_await(walk->worker, NAM_GADDR(at), walk->overflow,
			sizeof(*walk->overflow)); /* SUSPENDS */
		if (!rc && walk->overflow->store != walk->store->store)
			rc = nam__serial_dropped(walk->worker, walk->store);
		if (!rc)
			rc = slots_walk(walk, walk->overflow); /* SUSPENDS */
		next = walk->overflow->next;
		if (!rc)
			rc = visit(walk, NAM__SERIAL_BLOCK_BUCKET, at,
				sizeof(*walk->overflow)); /* SUSPENDS */
	}
	return rc;
}

NAM_FIBER_FN static int
chunks_walk(const struct walk *walk)
{
	const struct nam_serial_superblock *shape = &walk->store->shape;
	const uint32_t bytes = shape->chunk_buckets * (uint32_t)sizeof(struct nam_serial_bucket);
	struct nam_serial_bucket *chunk = nam_buffer_take(walk->worker, bytes);
	int rc = chunk ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < shape->chunks_count && !rc; i++) {
		rc = nam_read_await(walk->worker, NAM_GADDR(shape->chunks[i]), chunk,
			bytes); /* SUSPENDS */
		for (uint32_t k = 0; k < shape->chunk_buckets && !rc; k++)
			rc = bucket_walk(walk, &chunk[k]); /* SUSPENDS */
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
	struct nam_serial_log *log = (void *)walk->overflow;
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
	struct walk walk = { worker, store, fn, arg,
		nam_buffer_take(worker, sizeof(struct nam_serial_bucket)) };
	int rc = walk.overflow ? chunks_walk(&walk) : -ENOMEM; /* SUSPENDS */

	if (!rc)
		rc = logs_walk(&walk); /* SUSPENDS */
	if (walk.overflow)
		nam_buffer_give(worker, walk.overflow, sizeof(struct nam_serial_bucket));
	return rc;
}
