/* SPDX-License-Identifier: Apache-2.0 */
/* alloc_fixture.h -- requests for blocks, as clients make them. */
#ifndef NAM_TESTS_UNIT_MEMSERVER_SERVICES_ALLOC_FIXTURE_H
#define NAM_TESTS_UNIT_MEMSERVER_SERVICES_ALLOC_FIXTURE_H

#include "tests/unit/memserver/server_fixture.h"

#define FULL_BLOCKS 1100u		/* more than 1 MiB holds of 1,088 bytes each */
/* So many at least: what is left beside the meta page, but for a run's rest in each region. */
#define BLOCKS_MIN (((1u << 20) - NAM_META_BYTES - (32u << 10)) / 1088)
#define BLOCKS_MAX (((1u << 20) - NAM_META_BYTES) / 1088)

static inline int
ask(struct fixture *f, uint32_t stride, uint32_t count)
{
	const struct nam_rpc_alloc_request request = {
		.stride = stride,
		.count = (uint16_t)count,
	};

	return call(f, NAM_RPC_ALLOC, &request, sizeof(request));
}

static inline int
give_later(struct fixture *f, uint64_t label, uint32_t stride, const uint64_t *blocks,
	uint32_t count)
{
	uint32_t bytes = (uint32_t)(sizeof(struct nam_rpc_free_request) +
		count * sizeof(*blocks));
	struct nam_rpc_free_request *request = malloc(bytes);
	int rc;

	request->label = label;
	request->stride = stride;
	request->count = count;
	memcpy(request->blocks, blocks, count * sizeof(*blocks));
	rc = call(f, NAM_RPC_FREE, request, bytes);
	free(request);
	return rc;
}

static inline int
give(struct fixture *f, uint32_t stride, const uint64_t *blocks, uint32_t count)
{
	return give_later(f, 0, stride, blocks, count);
}

/* The blocks of the last reply, one by one. */
static inline uint32_t
collect(struct fixture *f, uint32_t stride, uint64_t *blocks)
{
	const struct nam_rpc_alloc_reply *reply = reply_body(f);
	uint32_t n = 0;

	assert_int_equal(f->reply_bytes, sizeof(*reply) + reply->count * sizeof(uint64_t));
	for (uint32_t i = 0; i < reply->count; i++)
		blocks[n++] = reply->blocks[i];
	for (uint32_t i = 0; i < reply->run_count; i++)
		blocks[n++] = reply->run_at + (uint64_t)i * stride / NAM_GADDR_UNIT_BYTES;
	return n;
}

/* In place of a step: HOLD for private memory, and for so many read-only blocks. */
#define HOLD_PRIVATE 77u
#define HOLD_READ_ONLY 78u

static uint32_t wanted_count = 1;
#define WANTED_STRIDE 4096u

/* Which HOLD brings. */
static uint64_t oldest_slot = 1;

static inline uint64_t
reclaim(struct fixture *f, uint32_t step, uint64_t batch, uint64_t *ret_batch)
{
	const struct nam_rpc_reclaim_request request = {
		.step = step >= HOLD_PRIVATE ? NAM_RPC_RECLAIM_HOLD : step,
		.want = step == HOLD_PRIVATE   ? NAM_MEMORY_PRIVATE :
			step == HOLD_READ_ONLY ? NAM_MEMORY_READ_ONLY :
						 NAM_MEMORY_PUBLIC,
		.stride = step == HOLD_READ_ONLY ? WANTED_STRIDE : 0,
		.count = step == HOLD_READ_ONLY ? wanted_count : 0,
		.batch = batch,
		.oldest = step != NAM_RPC_RECLAIM_RETURN ? oldest_slot : 0,
	};
	const struct nam_rpc_reclaim_reply *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)), 0);
	assert_int_equal(f->reply_bytes, sizeof(*reply));
	if (ret_batch)
		*ret_batch = reply->batch;
	return reply->bytes;
}

/* HOLD and RETURN: the bytes that came back. */
static inline uint64_t
reclaim_all(struct fixture *f)
{
	uint64_t batch, held = reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch);

	if (held)
		assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), held);
	return held;
}

/* All blocks of a stride that there are, into `blocks`. */
static inline uint32_t
fill(struct fixture *f, uint32_t stride, uint64_t *blocks)
{
	uint32_t n = 0;

	while (ask(f, stride, 1000) == 0)
		n += collect(f, stride, blocks + n);
	return n;
}

static inline void
give_all(struct fixture *f, uint32_t stride, const uint64_t *blocks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 400)
		assert_int_equal(give(f, stride, blocks + i, count - i < 400 ? count - i : 400), 0);
}

#endif /* NAM_TESTS_UNIT_MEMSERVER_SERVICES_ALLOC_FIXTURE_H */
