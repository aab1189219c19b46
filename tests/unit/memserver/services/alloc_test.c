/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/memserver/server_fixture.h"

#include <errno.h>

#define FULL_BLOCKS 1100u		/* more than 1 MiB holds of 1,088 bytes each */

static int
ask(struct fixture *f, uint32_t stride, uint32_t count)
{
	const struct nam_rpc_alloc_request request = { .stride = stride, .count = count };

	return call(f, NAM_RPC_ALLOC, &request, sizeof(request));
}

static int
give(struct fixture *f, uint32_t stride, const uint64_t *blocks, uint32_t count)
{
	struct nam_rpc_free_request *request = malloc(sizeof(*request) + count * sizeof(*blocks));
	int rc;

	request->stride = stride;
	request->count = count;
	memcpy(request->blocks, blocks, count * sizeof(*blocks));
	rc = call(f, NAM_RPC_FREE, request, (uint32_t)(sizeof(*request) + count * sizeof(*blocks)));
	free(request);
	return rc;
}

/* The blocks of the last reply, one by one. */
static uint32_t
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

static void
check_block(uint64_t raw, uint32_t stride)
{
	struct nam_gaddr at = { raw };

	assert_int_equal(nam_gaddr_tag(at), 0);
	assert_in_range(nam_gaddr_region(at), 0, 1);
	assert_true(nam_gaddr_offset(at) + stride <= 512 << 10);
	if (nam_gaddr_region(at) == 0)
		assert_true(nam_gaddr_offset(at) >= NAM_META_BYTES);
	else
		assert_true(nam_gaddr_offset(at) >= 64);
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
alloc__until_full__HANDS_OUT_EVERY_BLOCK_ONCE(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(FULL_BLOCKS + 70000, sizeof(*blocks));
	uint32_t n = 0;
	int rc;

	while ((rc = ask(f, 1088, 7 + n % 50)) == 0) {
		uint32_t more = collect(f, 1088, blocks + n);

		assert_in_range(more, 1, 7 + n % 50);
		n += more;
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	assert_in_range(n, 920, 963);
	qsort(blocks, n, sizeof(*blocks), by_value);
	for (uint32_t i = 0; i < n; i++) {
		check_block(blocks[i], 1088);
		if (i && blocks[i] >> 32 == blocks[i - 1] >> 32)
			assert_true(blocks[i] - blocks[i - 1] >= 1088 / 64);
	}
	/* Smaller ones still fit into what is left. */
	assert_int_equal(ask(f, 64, 65536), 0);
	n = collect(f, 64, blocks);
	assert_in_range(n, 1, 16);
	free(blocks);
}

static void
free__then_alloc__RECYCLES_FOR_THE_SAME_STRIDE_ONLY(void **state)
{
	struct fixture *f = *state;
	uint64_t first[100], again[100];
	const struct nam_rpc_alloc_reply *reply = reply_body(f);

	assert_int_equal(ask(f, 1088, 100), 0);
	assert_int_equal(collect(f, 1088, first), 100);
	assert_int_equal(give(f, 1088, first + 10, 50), 0);
	assert_int_equal(ask(f, 2048, 1), 0);
	assert_int_equal(reply->count, 0);
	assert_int_equal(ask(f, 1088, 20), 0);
	assert_int_equal(reply->count, 20);
	assert_int_equal(reply->run_count, 0);
	assert_int_equal(collect(f, 1088, again), 20);
	assert_int_equal(ask(f, 1088, 40), 0);
	assert_int_equal(reply->count, 30);
	assert_int_equal(reply->run_count, 10);
	assert_int_equal(collect(f, 1088, again + 20), 40);
	qsort(again, 50, sizeof(again[0]), by_value);
	assert_memory_equal(again, first + 10, 50 * sizeof(first[0]));
}

static void
alloc__many_recycled__COME_IN_REPLIES_THAT_FIT(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(2000, sizeof(*blocks));
	const struct nam_rpc_alloc_reply *reply = reply_body(f);
	uint32_t n = 0;

	assert_int_equal(ask(f, 64, 2000), 0);
	assert_int_equal(collect(f, 64, blocks), 2000);
	for (uint32_t i = 0; i < 2000; i += 400)
		assert_int_equal(give(f, 64, blocks + i, 400), 0);
	/* However many are asked for, nothing is carved while one of these is left. */
	while (n < 2000) {
		assert_int_equal(ask(f, 64, 1024), 0);
		assert_in_range(reply->count, 1, NAM_RPC_ALLOC_SCATTERED_MAX);
		n += reply->count;
		if (n < 2000)
			assert_int_equal(reply->run_count, 0);
	}
	assert_int_equal(n, 2000);
	free(blocks);
}

static void
alloc__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	const uint8_t zeroes[32] = { 0 };

	assert_int_equal(ask(f, 0, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, 63, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, 1000, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, 64, 0), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, 64, NAM__ALLOC_COUNT_MAX + 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, UINT32_MAX - 63, 1), -NAM_E_REMOTE_FULL);
	for (uint32_t bytes = 0; bytes < 32; bytes++)
		assert_int_equal(call(f, NAM_RPC_ALLOC, zeroes, bytes), -NAM_E_FABRIC_PROTOCOL);
}

static void
free__whatever_is_not_a_block_in_use__REJECTS_THE_WHOLE_REQUEST(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[64], other[8], bad[8];
	struct nam_memory_figures *figures =
		&((struct nam_rpc_status_reply *)reply_body(f))->figures.memory[NAM_MEMORY_PUBLIC];

	assert_int_equal(ask(f, 1088, 64), 0);
	assert_int_equal(collect(f, 1088, blocks), 64);
	assert_int_equal(ask(f, 128, 8), 0);
	assert_int_equal(collect(f, 128, other), 8);
	bad[0] = 0;
	bad[1] = blocks[0] + 1;				/* not on a boundary */
	bad[2] = blocks[63] + 1088 / 64 * 200;		/* never carved */
	bad[3] = other[0];				/* of another stride */
	bad[4] = blocks[0] + (2ull << 32);		/* a region that is not ours */
	bad[5] = blocks[0] | 1ull << 48;		/* tagged */
	bad[6] = nam_gaddr_make(0, NAM_META_EPOCH_OFFSET, 0).raw;
	bad[7] = blocks[3];				/* twice in one request */
	for (int i = 0; i < 8; i++) {
		uint64_t request[6] = { blocks[1], blocks[2], blocks[3], blocks[4], bad[i],
			blocks[5] };

		assert_int_equal(give(f, 1088, request, 6), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(call(f, NAM_RPC_STATUS, NULL, 0), 0);
	assert_int_equal(figures->free_bytes, 0);
	assert_int_equal(figures->carved_bytes, 64 * 1088 + 8 * 128);
	assert_int_equal(give(f, 1088, blocks, 64), 0);
	assert_int_equal(call(f, NAM_RPC_STATUS, NULL, 0), 0);
	assert_int_equal(figures->free_bytes, 64 * 1088);
	/* Twice in two requests. */
	assert_int_equal(give(f, 1088, blocks + 7, 1), -NAM_E_FABRIC_PROTOCOL);
	/* A stride that was never requested. */
	assert_int_equal(give(f, 4096, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
}

static void
free__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[4], body[8];
	struct nam_rpc_free_request *request = (struct nam_rpc_free_request *)(void *)body;

	assert_int_equal(ask(f, 64, 4), 0);
	assert_int_equal(collect(f, 64, blocks), 4);
	request->stride = 64;
	memcpy(request->blocks, blocks, sizeof(blocks));
	for (uint32_t count = 0; count < 10; count++) {
		request->count = count;
		for (uint32_t bytes = 0; bytes <= 40; bytes++) {
			if (bytes == 8 + 8 * count)
				continue;
			assert_int_equal(call(f, NAM_RPC_FREE, body, bytes),
				-NAM_E_FABRIC_PROTOCOL);
		}
	}
	request->count = 0x20000001;	/* times 8 wraps to 8 */
	assert_int_equal(call(f, NAM_RPC_FREE, body, 16), -NAM_E_FABRIC_PROTOCOL);
	request->count = 0;
	assert_int_equal(call(f, NAM_RPC_FREE, body, 8), -NAM_E_FABRIC_PROTOCOL);
	request->count = 4;
	assert_int_equal(call(f, NAM_RPC_FREE, body, 40), 0);
}

/* Against a plain model: which blocks are out. */
static void
alloc_and_free__at_random__AGREE_WITH_A_MODEL(void **state)
{
	static const uint32_t strides[] = { 64, 128, 1088 };
	struct fixture *f = *state;
	struct nam_rng rng = nam_rng_seed(3);
	uint64_t *out[3];
	uint32_t counts[3] = { 0, 0, 0 };
	struct nam_memory_figures *figures =
		&((struct nam_rpc_status_reply *)reply_body(f))->figures.memory[NAM_MEMORY_PUBLIC];
	uint64_t in_use = 0;

	for (int k = 0; k < 3; k++)
		out[k] = calloc(40000, sizeof(uint64_t));
	for (int round = 0; round < 3000; round++) {
		uint32_t k = (uint32_t)nam_rng_below(&rng, 3);
		uint32_t n = 1 + (uint32_t)nam_rng_below(&rng, 60);

		if (nam_rng_below(&rng, 2) || counts[k] < n) {
			int rc = ask(f, strides[k], n);

			if (rc) {
				assert_int_equal(rc, -NAM_E_REMOTE_FULL);
				continue;
			}
			counts[k] += collect(f, strides[k], out[k] + counts[k]);
			continue;
		}
		for (uint32_t i = 0; i < n; i++) {
			uint64_t at = nam_rng_below(&rng, counts[k] - i);
			uint64_t *last = &out[k][counts[k] - 1 - i], block = out[k][at];

			out[k][at] = *last;
			*last = block;
		}
		counts[k] -= n;
		assert_int_equal(give(f, strides[k], out[k] + counts[k], n), 0);
	}
	for (int k = 0; k < 3; k++) {
		in_use += (uint64_t)counts[k] * strides[k];
		qsort(out[k], counts[k], sizeof(uint64_t), by_value);
		for (uint32_t i = 1; i < counts[k]; i++)
			assert_true(out[k][i] != out[k][i - 1]);
	}
	assert_int_equal(call(f, NAM_RPC_STATUS, NULL, 0), 0);
	assert_int_equal(figures->carved_bytes - figures->free_bytes, in_use);
	for (int k = 0; k < 3; k++)
		free(out[k]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alloc__until_full__HANDS_OUT_EVERY_BLOCK_ONCE),
		TEST(free__then_alloc__RECYCLES_FOR_THE_SAME_STRIDE_ONLY),
		TEST(alloc__many_recycled__COME_IN_REPLIES_THAT_FIT),
		TEST(alloc__malformed__IS_PROTOCOL),
		TEST(free__whatever_is_not_a_block_in_use__REJECTS_THE_WHOLE_REQUEST),
		TEST(free__malformed__IS_PROTOCOL),
		TEST(alloc_and_free__at_random__AGREE_WITH_A_MODEL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
