/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fixture.h"
#include "memserver/trees.h"

#include <errno.h>

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
	assert_in_range(n, BLOCKS_MIN, BLOCKS_MAX);
	qsort(blocks, n, sizeof(*blocks), by_value);
	for (uint32_t i = 0; i < n; i++) {
		check_block(blocks[i], 1088);
		if (i && blocks[i] >> 32 == blocks[i - 1] >> 32)
			assert_true(blocks[i] - blocks[i - 1] >= 1088 / 64);
	}
	/* Smaller ones still fit into what is left. */
	assert_in_range(fill(f, 64, blocks), 1, 16);
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
alloc__memory_is_full__RESERVE_IS_LEFT_for_those_that_ask_for_it(void **state)
{
	const struct nam_rpc_alloc_request reserve = { .stride = 64, .count = 1, .reserve = 1 };
	struct fixture *f = *state;
	uint64_t *blocks = calloc((1u << 20) / 64, sizeof(*blocks)), block;
	uint32_t n = fill(f, 64, blocks), reserved = 0;

	assert_int_equal(ask(f, 64, 1), -NAM_E_REMOTE_FULL);
	while (call(f, NAM_RPC_ALLOC, &reserve, sizeof(reserve)) == 0) {
		assert_int_equal(collect(f, 64, &block), 1);
		reserved++;
	}
	assert_int_equal(reserved, (1u << 20) / 256 / 64);
	assert_in_range(n + reserved, ((1u << 20) - NAM_META_BYTES) / 64 - 64,
		((1u << 20) - NAM_META_BYTES) / 64);
	/* One that has come back is for all. */
	assert_int_equal(give(f, 64, &block, 1), 0);
	assert_int_equal(ask(f, 64, 1), 0);
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
		assert_int_equal(give_later(f, 1, 1088, request, 6), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(call_status(f), 0);
	assert_int_equal(figures->free_bytes, 0);
	assert_int_equal(figures->waiting_bytes, 0);
	assert_int_equal(figures->carved_bytes, 64 * 1088 + 8 * 128);
	assert_int_equal(give(f, 1088, blocks, 64), 0);
	assert_int_equal(call_status(f), 0);
	assert_int_equal(figures->free_bytes, 64 * 1088);
	/* Twice in two requests. */
	assert_int_equal(give(f, 1088, blocks + 7, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(give_later(f, 1, 1088, blocks + 7, 1), -NAM_E_FABRIC_PROTOCOL);
	/* A stride that was never requested. */
	assert_int_equal(give(f, 4096, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(give_later(f, 1, 4096, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
}

static void
free__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[4], body[8] = { 0 };
	struct nam_rpc_free_request *request = (struct nam_rpc_free_request *)(void *)body;

	assert_int_equal(ask(f, 64, 4), 0);
	assert_int_equal(collect(f, 64, blocks), 4);
	request->stride = 64;
	memcpy(request->blocks, blocks, sizeof(blocks));
	for (uint32_t count = 0; count < 10; count++) {
		request->count = count;
		for (uint32_t bytes = 0; bytes <= 48; bytes++) {
			if (bytes == 16 + 8 * count && count)
				continue;
			assert_int_equal(call(f, NAM_RPC_FREE, body, bytes),
				-NAM_E_FABRIC_PROTOCOL);
		}
	}
	request->count = 0x20000001;	/* times 8 wraps to 8 */
	assert_int_equal(call(f, NAM_RPC_FREE, body, 24), -NAM_E_FABRIC_PROTOCOL);
	request->count = 0;
	assert_int_equal(call(f, NAM_RPC_FREE, body, 16), -NAM_E_FABRIC_PROTOCOL);
	request->count = 4;
	assert_int_equal(call(f, NAM_RPC_FREE, body, 48), 0);
}

static void
reclaim__fill_and_free_ten_times__NO_GROWTH(void **state)
{
	struct fixture *f = *state;
	static const uint32_t strides[] = { 1088, 320 };
	uint64_t *blocks = calloc(20000, sizeof(*blocks));
	uint32_t first[2] = { 0, 0 };
	struct nam_memory_figures *figures =
		&((struct nam_rpc_status_reply *)reply_body(f))->figures.memory[NAM_MEMORY_PUBLIC];

	for (unsigned round = 0; round < 10; round++) {
		unsigned k = round % 2;
		uint32_t n = fill(f, strides[k], blocks);

		if (!first[k])
			first[k] = n;
		assert_int_equal(n, first[k]);
		give_all(f, strides[k], blocks, n);
		/* Without RECLAIM the other stride finds nothing. */
		assert_int_equal(ask(f, 4096, 1), -NAM_E_REMOTE_FULL);
		assert_int_equal(reclaim_all(f), (uint64_t)n * strides[k]);
		assert_int_equal(call_status(f), 0);
		assert_int_equal(figures->carved_bytes, 0);
		assert_int_equal(figures->free_bytes, 0);
	}
	assert_in_range(first[0], BLOCKS_MIN, BLOCKS_MAX);
	free(blocks);
}

static void
reclaim__runs_with_a_used_block__STAY(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), batch;
	uint32_t n = fill(f, 1088, blocks);

	give_all(f, 1088, blocks + 1, n - 1);
	/* The run of the first region has one. */
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 1, (n - 1) * 1088u);
	assert_int_equal(nam_gaddr_region((struct nam_gaddr){ blocks[0] }), 0);
	/* Free blocks of a held run are free: they cannot be given back. */
	assert_int_equal(give(f, 1088, blocks + n - 1, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, 4096, 1), -NAM_E_REMOTE_FULL);
	assert_int_equal(give(f, 1088, blocks, 1), 0);
	free(blocks);
}

static void
reclaim__held__SERVES_ITS_STRIDE_ONLY_UNTIL_RETURN(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), batch, later;
	uint32_t n = fill(f, 1088, blocks);

	give_all(f, 1088, blocks, n);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), n * 1088ull);
	assert_int_equal(ask(f, 2048, 1), -NAM_E_REMOTE_FULL);
	/* The client that held them may have died: its stride can have them. */
	assert_int_equal(ask(f, 1088, 1), 0);
	assert_int_equal(collect(f, 1088, blocks), 1);
	/* Held blocks are returned, but not those that are used again. */
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 1, (n - 1) * 1088ull);
	assert_int_equal(give(f, 1088, blocks, 1), 0);
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &later), 1, n * 1088ull);
	assert_in_range(later, batch + 1, UINT64_MAX);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), 0);
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_RETURN, later, NULL), 1, n * 1088ull);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 0);
	assert_int_equal(batch, 0);
	free(blocks);
}

/* HOLD where the oldest slot is that.  The bytes that became free. */
static uint64_t
hold_at(struct fixture *f, uint64_t oldest, uint64_t *ret_waiting)
{
	const struct nam_rpc_reclaim_request request = { .step = NAM_RPC_RECLAIM_HOLD,
		.oldest = oldest };
	const struct nam_rpc_reclaim_reply *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)), 0);
	*ret_waiting = reply->waiting_bytes;
	return reply->freed_bytes;
}

/* A block that waits is used for all but HOLD. */
static void
free_later__until_the_oldest_slot_is_ahead__IS_NOT_FREE(void **state)
{
	struct fixture *f = *state;
	uint64_t *blocks = calloc(20000, sizeof(*blocks)), batch, waiting;
	const struct nam_memory_figures *figures =
		&((struct nam_rpc_status_reply *)reply_body(f))->figures.memory[NAM_MEMORY_PUBLIC];
	uint32_t n = fill(f, 1088, blocks);

	assert_int_equal(give_later(f, 7, 1088, blocks, 1), 0);
	give_all(f, 1088, blocks + 1, n - 1);
	assert_int_equal(call_status(f), 0);
	assert_int_equal(figures->waiting_bytes, 1088);
	assert_int_equal(figures->free_bytes, (n - 1) * 1088ull);
	assert_int_equal(give(f, 1088, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(give_later(f, 9, 1088, blocks, 1), -NAM_E_FABRIC_PROTOCOL);
	/* Its run is not held. */
	assert_in_range(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), 1, (n - 1) * 1088ull);
	assert_int_equal(hold_at(f, 7, &waiting), 0);
	assert_int_equal(waiting, 1088);
	assert_int_equal(hold_at(f, 8, &waiting), 1088);
	assert_int_equal(waiting, 0);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch), n * 1088ull);
	assert_int_equal(reclaim(f, NAM_RPC_RECLAIM_RETURN, batch, NULL), n * 1088ull);
	assert_int_equal(ask(f, 4096, 1), 0);
	free(blocks);
}

/* The newest label counts for all blocks of a run, and others' do not. */
static void
free_later__several_labels__A_RUN_WAITS_FOR_THE_NEWEST(void **state)
{
	struct fixture *f = *state;
	uint64_t blocks[100], other[1], waiting;

	assert_int_equal(ask(f, 1088, 100), 0);
	assert_int_equal(collect(f, 1088, blocks), 100);
	assert_int_equal(ask(f, 64, 1), 0);
	assert_int_equal(collect(f, 64, other), 1);
	assert_int_equal(give_later(f, 20, 1088, blocks, 50), 0);
	assert_int_equal(give_later(f, 10, 1088, blocks + 50, 50), 0);
	assert_int_equal(give_later(f, 10, 64, other, 1), 0);
	assert_int_equal(hold_at(f, 11, &waiting), 64);
	assert_int_equal(waiting, 100 * 1088);
	assert_int_equal(hold_at(f, 21, &waiting), 100 * 1088);
	/* A newer label of earlier blocks is forgotten. */
	assert_int_equal(ask(f, 1088, 1), 0);
	assert_int_equal(collect(f, 1088, blocks), 1);
	assert_int_equal(give_later(f, 15, 1088, blocks, 1), 0);
	assert_int_equal(hold_at(f, 16, &waiting), 1088);
}

static void
reclaim__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_reclaim_request request = { .step = NAM_RPC_RECLAIM_HOLD };

	/* No time that a client may be in. */
	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	request.oldest = 1;

	for (uint32_t bytes = 0; bytes < sizeof(request); bytes++)
		assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, bytes), -NAM_E_FABRIC_PROTOCOL);
	request.batch = 1;
	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	request = (struct nam_rpc_reclaim_request){ .step = NAM_RPC_RECLAIM_RETURN, .batch = 1,
		.oldest = 1 };
	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	request = (struct nam_rpc_reclaim_request){ .step = NAM_RPC_RECLAIM_RETURN };
	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	for (uint32_t step = 0; step < 9; step += 3) {
		request = (struct nam_rpc_reclaim_request){ .step = step, .batch = 1,
			.oldest = step % 2 };
		assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
			-NAM_E_FABRIC_PROTOCOL);
	}
	request = (struct nam_rpc_reclaim_request){ .step = NAM_RPC_RECLAIM_HOLD,
		.want = NAM_MEMORY_KINDS, .oldest = 1 };
	assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	/* A count and its stride belong to read-only memory, and to HOLD. */
	for (uint32_t bad = 0; bad < 5; bad++) {
		request = (struct nam_rpc_reclaim_request){
			.step = bad == 4 ? NAM_RPC_RECLAIM_RETURN : NAM_RPC_RECLAIM_HOLD,
			.want = bad == 1 ? NAM_MEMORY_PRIVATE : NAM_MEMORY_READ_ONLY,
			.batch = bad == 4,
			.oldest = bad != 4,
			.stride = bad == 2 ? 0 : bad == 3 ? 63 : 64,
			.count = bad != 0,
		};
		assert_int_equal(call(f, NAM_RPC_RECLAIM, &request, sizeof(request)),
			-NAM_E_FABRIC_PROTOCOL);
	}
}

#define UNITS ((1u << 20) / 64)

/* Against a plain model: which 64 bytes of which region are out, and of which stride. */
struct model {
	struct fixture *f;
	uint32_t stride_of[UNITS];	/* now, or last; 0: never */
	bool out[UNITS];
	uint64_t *blocks[3];
	uint32_t counts[3];
};

static void
model_take(struct model *model, uint32_t k, uint32_t stride)
{
	const struct nam_rpc_alloc_reply *reply = reply_body(model->f);
	uint32_t recycled = reply->count;
	uint32_t n = collect(model->f, stride, model->blocks[k] + model->counts[k]);

	for (uint32_t i = 0; i < n; i++) {
		struct nam_gaddr at = { model->blocks[k][model->counts[k]++] };
		uint64_t unit = (nam_gaddr_region(at) * (512ull << 10) + nam_gaddr_offset(at)) / 64;
		uint8_t *bytes = nam__block_at(model->f->server, at.raw);

		for (uint32_t u = 0; u < stride / 64; u++) {
			assert_false(model->out[unit + u]);
			model->out[unit + u] = true;
			/* M1: of another stride only if all of it was returned in between. */
			if (recycled > i)
				assert_int_equal(model->stride_of[unit + u], stride);
			model->stride_of[unit + u] = stride;
		}
		/* M3. */
		for (uint32_t b = 0; b < stride && i >= recycled; b += 8)
			assert_int_equal(*(uint64_t *)(void *)(bytes + b), 0);
		memset(bytes, 0xcd, stride);
	}
}

static void
model_give(struct model *model, struct nam_rng *rng, uint32_t k, uint32_t stride, uint32_t n)
{
	uint64_t *blocks = model->blocks[k];

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = nam_rng_below(rng, model->counts[k] - i);
		uint64_t *last = &blocks[model->counts[k] - 1 - i];
		struct nam_gaddr block = { blocks[at] };
		uint64_t unit = (nam_gaddr_region(block) * (512ull << 10) +
			nam_gaddr_offset(block)) / 64;

		blocks[at] = *last;
		*last = block.raw;
		for (uint32_t u = 0; u < stride / 64; u++)
			model->out[unit + u] = false;
	}
	model->counts[k] -= n;
	assert_int_equal(nam_rng_below(rng, 3) ?
		give(model->f, stride, blocks + model->counts[k], n) :
		give_later(model->f, oldest_slot + nam_rng_below(rng, 2), stride,
			blocks + model->counts[k], n), 0);
}

static void
alloc_and_free__at_random__AGREE_WITH_A_MODEL(void **state)
{
	static const uint32_t strides[] = { 64, 128, 1088 };
	struct model *model = calloc(1, sizeof(*model));
	struct nam_rng rng = nam_rng_seed(3);
	struct nam_memory_figures *figures;
	uint64_t in_use = 0, returned = 0, batch = 0;

	model->f = *state;
	figures = &((struct nam_rpc_status_reply *)
		reply_body(model->f))->figures.memory[NAM_MEMORY_PUBLIC];
	for (int k = 0; k < 3; k++)
		model->blocks[k] = calloc(40000, sizeof(uint64_t));
	for (int round = 0; round < 6000; round++) {
		uint32_t k = (uint32_t)nam_rng_below(&rng, 3);
		uint32_t n = 1 + (uint32_t)nam_rng_below(&rng, 60);

		/* In waves, so that there are runs without used blocks. */
		if (nam_rng_below(&rng, 4) < (round / 500 % 2 ? 1u : 3u) || model->counts[k] < n) {
			int rc = ask(model->f, strides[k], n);

			if (!rc)
				model_take(model, k, strides[k]);
			else
				assert_int_equal(rc, -NAM_E_REMOTE_FULL);
		} else {
			model_give(model, &rng, k, strides[k], n);
		}
		oldest_slot += round % 50 == 49;
		if (round % 50 == 49)
			(void)reclaim(model->f, NAM_RPC_RECLAIM_HOLD, 0, &batch);
		if (round % 50 == 9 && batch)
			returned += reclaim(model->f, NAM_RPC_RECLAIM_RETURN, batch, NULL);
	}
	for (int k = 0; k < 3; k++)
		in_use += (uint64_t)model->counts[k] * strides[k];
	assert_int_equal(call_status(model->f), 0);
	assert_int_equal(figures->carved_bytes - figures->free_bytes - figures->waiting_bytes,
		in_use);
	assert_true(returned > 0);
	for (int k = 0; k < 3; k++)
		free(model->blocks[k]);
	free(model);
	oldest_slot = 1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alloc__until_full__HANDS_OUT_EVERY_BLOCK_ONCE),
		TEST(free__then_alloc__RECYCLES_FOR_THE_SAME_STRIDE_ONLY),
		TEST(alloc__many_recycled__COME_IN_REPLIES_THAT_FIT),
		TEST(alloc__memory_is_full__RESERVE_IS_LEFT_for_those_that_ask_for_it),
		TEST(alloc__malformed__IS_PROTOCOL),
		TEST(free__whatever_is_not_a_block_in_use__REJECTS_THE_WHOLE_REQUEST),
		TEST(free__malformed__IS_PROTOCOL),
		TEST(reclaim__fill_and_free_ten_times__NO_GROWTH),
		TEST(reclaim__runs_with_a_used_block__STAY),
		TEST(reclaim__held__SERVES_ITS_STRIDE_ONLY_UNTIL_RETURN),
		TEST(free_later__until_the_oldest_slot_is_ahead__IS_NOT_FREE),
		TEST(free_later__several_labels__A_RUN_WAITS_FOR_THE_NEWEST),
		TEST(reclaim__malformed__IS_PROTOCOL),
		TEST(alloc_and_free__at_random__AGREE_WITH_A_MODEL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
