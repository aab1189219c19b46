/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/remote/batch.h"
#include "tests/lib/cluster.h"

#define MIB (1ull << 20)
#define BLOCK 4096u

struct fixture {
	struct local_cluster *cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_gaddr blocks[2];	/* one on each server */
	uint64_t *local;		/* BLOCK bytes, registered */
	uint64_t *other;
};

static struct fixture fixture;

static int
setup(void **state)
{
	(void)state;
	fixture.cluster = local_cluster_start(2, 4 * MIB, 2 * MIB);
	fixture.client = test_connect(local_cluster_list(fixture.cluster), "remote-test", 0);
	fixture.worker = test_worker(fixture.client);
	for (unsigned slot = 0; slot < 2; slot++) {
		if (nam_alloc_on(fixture.worker, slot, BLOCK, &fixture.blocks[slot]))
			return -1;
		fixture.blocks[slot] = nam_gaddr_untagged(fixture.blocks[slot]);
	}
	fixture.local = nam_buffer_take(fixture.worker, BLOCK);
	fixture.other = nam_buffer_take(fixture.worker, BLOCK);
	return fixture.local && fixture.other ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	nam_worker_close(fixture.worker);
	nam_client_close(fixture.client);
	local_cluster_stop(fixture.cluster);
	return 0;
}

static void
fill(uint64_t *words, uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);

	for (unsigned i = 0; i < BLOCK / 8; i++)
		words[i] = nam_rng_next(&rng);
}

static struct nam_op_counters
spent(const struct nam_op_counters *before)
{
	const struct nam_op_counters *now = nam_worker_counters(fixture.worker, NAM_OP_OTHER);

	return (struct nam_op_counters){
		.round_trips = now->round_trips - before->round_trips,
		.doorbells = now->doorbells - before->doorbells,
		.work_requests = now->work_requests - before->work_requests,
		.bytes_in = now->bytes_in - before->bytes_in,
		.bytes_out = now->bytes_out - before->bytes_out,
	};
}

static struct nam_op_counters
counters(void)
{
	return *nam_worker_counters(fixture.worker, NAM_OP_OTHER);
}

/* ---- batches of one ----------------------------------------------------------------------- */

static void
read__what_was_written__SAME_BYTES_OF_ANY_SIZE(void **state)
{
	static const uint32_t sizes[] = { 1, 7, 8, 9, 63, 64, 65, 100, 127, 128, 129, 1000, 1024,
		4095, 4096 };

	(void)state;
	for (unsigned slot = 0; slot < 2; slot++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			fill(fixture.local, i + 1);
			memset(fixture.other, 0, BLOCK);
			assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[slot],
						 fixture.local, sizes[i]), 0);
			assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[slot],
						 fixture.other, sizes[i]), 0);
			assert_memory_equal(fixture.local, fixture.other, sizes[i]);
			/* And not a byte more. */
			for (uint32_t k = sizes[i]; k < BLOCK; k++)
				assert_int_equal(((uint8_t *)fixture.other)[k], 0);
		}
	}
}

static void
cas__expected_or_not__SWAPS_OR_LEAVES_AND_TELLS_THE_OLD(void **state)
{
	uint64_t old = 0;

	(void)state;
	for (unsigned slot = 0; slot < 2; slot++) {
		fixture.local[0] = 5;
		assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[slot],
					 fixture.local, 8), 0);
		assert_int_equal(
			nam_cas_await(fixture.worker, fixture.blocks[slot], 4, 9, &old), 0);
		assert_int_equal(old, 5);
		assert_int_equal(
			nam_cas_await(fixture.worker, fixture.blocks[slot], 5, 9, &old), 0);
		assert_int_equal(old, 5);
		assert_int_equal(
			nam_cas_await(fixture.worker, fixture.blocks[slot], 5, 1, &old), 0);
		assert_int_equal(old, 9);
	}
}

static void
fetch_add__any_operand__ADDS_MODULO_64_BITS(void **state)
{
	static const uint64_t operands[] = { 1, 0, UINT64_MAX, 1ull << 63, 12345 };
	uint64_t expect = 7, old = 0;

	(void)state;
	fixture.local[0] = expect;
	assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[1], fixture.local, 8), 0);
	for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++) {
		assert_int_equal(nam_fetch_add_await(fixture.worker, fixture.blocks[1], operands[i],
					 &old), 0);
		assert_int_equal(old, expect);
		expect += operands[i];
	}
}

static void
one_request__of_each_kind__COUNTS_EXACTLY(void **state)
{
	struct nam_op_counters before, cost;
	uint64_t old;

	(void)state;
	before = counters();
	assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[0], fixture.local, 1000), 0);
	cost = spent(&before);
	assert_int_equal(cost.round_trips, 1);
	assert_int_equal(cost.doorbells, 1);
	assert_int_equal(cost.work_requests, 1);
	assert_int_equal(cost.bytes_in, 1000);
	assert_int_equal(cost.bytes_out, 0);
	before = counters();
	assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[0], fixture.local, 100), 0);
	cost = spent(&before);
	assert_int_equal(cost.bytes_in, 0);
	assert_int_equal(cost.bytes_out, 100);
	before = counters();
	assert_int_equal(nam_cas_await(fixture.worker, fixture.blocks[0], 0, 0, &old), 0);
	cost = spent(&before);
	assert_int_equal(cost.bytes_in, 8);
	assert_int_equal(cost.bytes_out, 16);
}

/* ---- batches ------------------------------------------------------------------------------ */

static void
batch__over_two_servers__ONE_ROUND_TRIP_AND_A_DOORBELL_EACH(void **state)
{
	struct nam_op_counters before, cost;
	struct nam_batch batch;

	(void)state;
	fill(fixture.local, 42);
	nam_batch_init(&batch, fixture.worker);
	for (unsigned i = 0; i < 16; i++)
		nam_batch_write(&batch, fixture.blocks[i % 2], 64 * i, fixture.local + 8 * i, 64);
	before = counters();
	assert_int_equal(nam_batch_await(&batch), 0);
	cost = spent(&before);
	assert_int_equal(cost.round_trips, 1);
	assert_int_equal(cost.doorbells, 2);
	assert_int_equal(cost.work_requests, 16);
	assert_int_equal(batch.count, 0);
	for (unsigned slot = 0; slot < 2; slot++) {
		assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[slot], fixture.other,
					 64 * 16), 0);
		for (unsigned i = slot; i < 16; i += 2)
			assert_memory_equal(fixture.other + 8 * i, fixture.local + 8 * i, 64);
	}
}

/* The order that the library relies on: WRITEs, then an atomic, of one queue pair. */
static void
batch__writes_then_atomics_then_read__SEEN_IN_THAT_ORDER(void **state)
{
	struct nam_batch batch;
	uint64_t *olds = fixture.local + 256;

	(void)state;
	for (uint64_t round = 1; round < 200; round++) {
		fixture.local[0] = round;
		fixture.local[1] = round * 3;
		nam_batch_init(&batch, fixture.worker);
		nam_batch_write(&batch, fixture.blocks[0], 0, &fixture.local[0], 8);
		nam_batch_write(&batch, fixture.blocks[0], 8, &fixture.local[1], 8);
		nam_batch_cas(&batch, fixture.blocks[0], 0, round, round + 1000, &olds[0]);
		nam_batch_fetch_add(&batch, fixture.blocks[0], 8, 7, &olds[1]);
		nam_batch_read(&batch, fixture.blocks[0], fixture.other, 16);
		assert_int_equal(nam_batch_await(&batch), 0);
		assert_int_equal(olds[0], round);
		assert_int_equal(olds[1], round * 3);
		if (fixture.client->caps & NAM_CAP_ORDER_ATOMIC_READ) {
			assert_int_equal(fixture.other[0], round + 1000);
			assert_int_equal(fixture.other[1], round * 3 + 7);
		}
	}
}

/* So many READs are under way that there is room for none of these. */
static void
reads__no_room__WAIT_FOR_IT(void **state)
{
	struct nam__read reads[NAM_BATCH_MAX];
	unsigned posted = 0, back = 0;
	uint64_t mark = 0;
	void *contexts[32];
	int rc;

	(void)state;
	fill(fixture.local, 47);
	assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[0], fixture.local, BLOCK),
		0);
	memset(fixture.other, 0, BLOCK);
	for (unsigned i = 0; i < NAM_BATCH_MAX; i++)
		reads[i] = (struct nam__read){
			nam_gaddr_make(nam_gaddr_region(fixture.blocks[0]),
				nam_gaddr_offset(fixture.blocks[0]) + 64 * i, 0),
			fixture.other + 8 * i, 64 };
	/* With room for the first three. */
	while (!nam_async_read(fixture.worker, fixture.blocks[0], fixture.local, 8, &mark))
		posted++;
	assert_true(posted > 3);
	while (back < 3) {
		rc = nam_async_poll(fixture.worker, contexts, 1);
		assert_true(rc >= 0);
		back += (unsigned)rc;
	}
	assert_int_equal(nam__reads_await(fixture.worker, reads, NAM_BATCH_MAX), 0);
	fill(fixture.local, 47);
	assert_memory_equal(fixture.other, fixture.local, 64 * NAM_BATCH_MAX);
	while (back < posted) {
		rc = nam_async_poll(fixture.worker, contexts, 32);
		assert_true(rc >= 0);
		back += (unsigned)rc;
	}
}

/* From blocks in an order that is neither the servers' nor alternating. */
static void
reads__over_two_servers__ONE_ROUND_TRIP_AND_A_DOORBELL_EACH(void **state)
{
	static const uint8_t servers[NAM_BATCH_MAX] = { 1, 0, 0, 1, 1, 1, 0, [17] = 1, [39] = 1 };
	struct nam__read reads[NAM_BATCH_MAX];
	struct nam_op_counters before, cost;

	(void)state;
	for (unsigned slot = 0; slot < 2; slot++) {
		fill(fixture.local, 43 + slot);
		assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[slot],
					 fixture.local, BLOCK), 0);
	}
	for (unsigned count = 1; count <= NAM_BATCH_MAX; count++) {
		unsigned on_second = 0;

		memset(fixture.other, 0, BLOCK);
		for (unsigned i = 0; i < count; i++) {
			reads[i] = (struct nam__read){
				nam_gaddr_make(nam_gaddr_region(fixture.blocks[servers[i]]),
					nam_gaddr_offset(fixture.blocks[servers[i]]) + 64 * i, 0),
				fixture.other + 8 * i, 64 };
			on_second += servers[i];
		}
		before = counters();
		assert_int_equal(nam__reads_await(fixture.worker, reads, count), 0);
		cost = spent(&before);
		assert_int_equal(cost.round_trips, 1);
		/* Where requests are carried out in post order, each has a doorbell. */
		assert_int_equal(cost.doorbells, fixture.worker->in_post_order ? count :
			1u + (on_second && on_second < count));
		assert_int_equal(cost.work_requests, count);
		assert_int_equal(cost.bytes_in, 64 * count);
		for (unsigned i = 0; i < count; i++) {
			fill(fixture.local, 43u + servers[i]);
			assert_memory_equal(fixture.other + 8 * i, fixture.local + 8 * i, 64);
		}
		/* And not one more. */
		assert_int_equal(count < BLOCK / 64 ? fixture.other[8 * count] : 0, 0);
	}
}

static void
reads__unknown_region__NOREGION_AND_NOTHING_READ(void **state)
{
	struct nam__read reads[2] = {
		{ fixture.blocks[0], fixture.other, 8 },
		{ nam_gaddr_make(5000, 64, 0), fixture.other + 1, 8 },
	};
	struct nam_op_counters before, cost;

	(void)state;
	fixture.local[0] = 5;
	assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[0], fixture.local, 8), 0);
	fixture.other[0] = 6;
	before = counters();
	assert_int_equal(nam__reads_await(fixture.worker, reads, 2), -NAM_E_NOREGION);
	cost = spent(&before);
	assert_int_equal(cost.work_requests, 0);
	assert_int_equal(cost.bytes_in, 0);
	assert_int_equal(nam__reads_await(fixture.worker, reads, 1), 0);
	assert_int_equal(fixture.other[0], 5);
}

static void
batch__nothing_in_it__NO_ROUND_TRIP(void **state)
{
	struct nam_op_counters before = counters(), cost;
	struct nam_batch batch;

	(void)state;
	nam_batch_init(&batch, fixture.worker);
	assert_int_equal(nam_batch_await(&batch), 0);
	cost = spent(&before);
	assert_int_equal(cost.round_trips, 0);
	assert_int_equal(cost.doorbells, 0);
}

static void
batch__more_than_it_holds__LIMIT_AND_NOTHING_DONE(void **state)
{
	struct nam_batch batch;

	(void)state;
	memset(fixture.local, 0, BLOCK);
	assert_int_equal(
		nam_write_await(fixture.worker, fixture.blocks[0], fixture.local, BLOCK), 0);
	memset(fixture.local, 0xff, BLOCK);
	nam_batch_init(&batch, fixture.worker);
	for (unsigned i = 0; i <= NAM_BATCH_MAX; i++)
		nam_batch_write(&batch, fixture.blocks[0], 8 * i, fixture.local, 8);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_LIMIT);
	assert_int_equal(
		nam_read_await(fixture.worker, fixture.blocks[0], fixture.other, BLOCK), 0);
	for (unsigned i = 0; i < BLOCK / 8; i++)
		assert_int_equal(fixture.other[i], 0);
	/* The batch is empty again, and of use. */
	nam_batch_write(&batch, fixture.blocks[0], 0, fixture.local, 8);
	assert_int_equal(nam_batch_await(&batch), 0);
}

/* More than twice what a batch holds; and the same with something wrong at the end. */
static void
batch__posted_before_it_is_awaited__ONE_ROUND_TRIP_and_all_awaited(void **state)
{
	struct nam_op_counters before, cost;
	struct nam_batch batch;

	(void)state;
	for (unsigned wrong = 0; wrong < 2; wrong++) {
		for (unsigned i = 0; i < BLOCK / 8; i++)
			fixture.local[i] = wrong + i;
		before = counters();
		nam_batch_init(&batch, fixture.worker);
		for (unsigned i = 0; i < 2 * NAM_BATCH_MAX + 1; i++) {
			if (batch.count == NAM_BATCH_MAX)
				nam__batch_post(&batch);
			nam_batch_write(&batch, fixture.blocks[i % 2], 8 * i,
				&fixture.local[i], 8);
		}
		if (wrong)
			nam_batch_write(&batch, nam_gaddr_make(5000, 64, 0), 0, fixture.local, 8);
		assert_int_equal(nam_batch_await(&batch), wrong ? -NAM_E_NOREGION : 0);
		cost = spent(&before);
		assert_int_equal(cost.round_trips, 1);
		/* An error leaves the last part unsent. */
		assert_int_equal(cost.work_requests, 2 * NAM_BATCH_MAX + !wrong);
		for (unsigned i = 0; i < 2 * NAM_BATCH_MAX; i++) {
			assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[i % 2],
				fixture.other, BLOCK), 0);
			assert_int_equal(fixture.other[i], wrong + i);
		}
	}
	/* Nothing, posted, is nothing. */
	nam_batch_init(&batch, fixture.worker);
	nam__batch_post(&batch);
	assert_int_equal(nam_batch_await(&batch), 0);
}

static void
batch__unknown_region__NOREGION_AND_NOTHING_DONE(void **state)
{
	struct nam_gaddr nowhere = nam_gaddr_make(5000, 64, 0);
	struct nam_batch batch;
	uint64_t old = 77;

	(void)state;
	memset(fixture.local, 0, BLOCK);
	assert_int_equal(nam_write_await(fixture.worker, fixture.blocks[0], fixture.local, 8), 0);
	fixture.local[0] = 1;
	nam_batch_init(&batch, fixture.worker);
	nam_batch_write(&batch, fixture.blocks[0], 0, fixture.local, 8);
	nam_batch_read(&batch, nowhere, fixture.other, 8);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_NOREGION);
	assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[0], fixture.other, 8), 0);
	assert_int_equal(fixture.other[0], 0);
	assert_int_equal(
		nam_read_await(fixture.worker, nowhere, fixture.other, 8), -NAM_E_NOREGION);
	assert_int_equal(nam_cas_await(fixture.worker, nowhere, 0, 1, &old), -NAM_E_NOREGION);
	assert_int_equal(old, 77);
}

static void
read__beyond_the_region__NOREGION_and_the_connection_stays(void **state)
{
	struct nam_gaddr beyond = nam_gaddr_make(nam_gaddr_region(fixture.blocks[1]), 64 * MIB, 0);
	struct nam_worker *worker = test_worker(fixture.client);
	void *local = nam_buffer_take(worker, 4096);

	(void)state;
	assert_int_equal(nam_read_await(worker, fixture.blocks[1], local, 64), 0);
	assert_int_equal(nam_read_await(worker, beyond, local, 64), -NAM_E_NOREGION);
	assert_int_equal(nam_write_await(worker, beyond, local, 8), -NAM_E_NOREGION);
	assert_int_equal(nam_read_await(worker, fixture.blocks[1], local, 64), 0);
	assert_int_equal(nam_read_await(worker, fixture.blocks[0], local, 64), 0);
	nam_buffer_give(worker, local, 4096);
	nam_worker_close(worker);
}

/* ---- the rolling window ------------------------------------------------------------------- */

static void
async__more_than_the_depth__FULL_THEN_EACH_CONTEXT_ONCE(void **state)
{
	enum { REQUESTS = 20000 };
	uint64_t *slots = calloc(REQUESTS, sizeof(*slots));
	unsigned posted = 0, back = 0, full = 0;
	void *contexts[32];

	(void)state;
	assert_non_null(slots);
	while (back < REQUESTS) {
		int rc = posted < REQUESTS
				 ? nam_async_read(fixture.worker, fixture.blocks[posted % 2],
					   fixture.local, 64, &slots[posted])
				 : -NAM_E_FABRIC_FULL;

		if (!rc) {
			posted++;
			continue;
		}
		assert_int_equal(rc, -NAM_E_FABRIC_FULL);
		full += posted < REQUESTS;
		rc = nam_async_poll(fixture.worker, contexts, 32);
		assert_true(rc >= 0 && rc <= 32);
		for (int i = 0; i < rc; i++)
			++*(uint64_t *)contexts[i];
		back += (unsigned)rc;
	}
	assert_true(full > 0);
	for (unsigned i = 0; i < REQUESTS; i++)
		assert_int_equal(slots[i], 1);
	assert_int_equal(nam_async_poll(fixture.worker, contexts, 32), 0);
	free(slots);
}

static void
async__all_kinds__TAKE_EFFECT_IN_ORDER(void **state)
{
	uint64_t *olds = fixture.local + 100, mark = 0;
	void *contexts[8];
	int back = 0;

	(void)state;
	fixture.local[0] = 50;
	assert_int_equal(
		nam_async_write(fixture.worker, fixture.blocks[0], fixture.local, 8, &mark), 0);
	assert_int_equal(nam_async_fetch_add(fixture.worker, fixture.blocks[0], 4, &olds[0], &mark),
		0);
	assert_int_equal(nam_async_cas(fixture.worker, fixture.blocks[0], 54, 60, &olds[1], &mark),
		0);
	while (back < 3) {
		int rc = nam_async_poll(fixture.worker, contexts, 8);

		assert_true(rc >= 0);
		back += rc;
	}
	assert_int_equal(olds[0], 50);
	assert_int_equal(olds[1], 54);
	assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[0], fixture.other, 8), 0);
	assert_int_equal(fixture.other[0], 60);
	assert_int_equal(nam_async_read(fixture.worker, nam_gaddr_make(5000, 64, 0), fixture.local,
				 8, &mark),
		-NAM_E_NOREGION);
}

/* ---- buffers ------------------------------------------------------------------------------ */

static void
buffer_take__any_size__ALIGNED_AND_APART(void **state)
{
	void *buffers[64];
	uint32_t sizes[64];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		sizes[i] = 1 + (i * 7919) % 70000;
		buffers[i] = nam_buffer_take(fixture.worker, sizes[i]);
		assert_non_null(buffers[i]);
		assert_int_equal((uintptr_t)buffers[i] % 64, 0);
		memset(buffers[i], (int)i, sizes[i]);
	}
	for (unsigned i = 0; i < 64; i++) {
		for (uint32_t k = 0; k < sizes[i]; k++)
			assert_int_equal(((uint8_t *)buffers[i])[k], i);
		nam_buffer_give(fixture.worker, buffers[i], sizes[i]);
	}
	assert_non_null(nam_buffer_take(fixture.worker, 2u << 20));
	assert_null(nam_buffer_take(fixture.worker, (2u << 20) + 1));
}

static void
buffer_take__cannot_be__DIAG_SAYS_WHY(void **state)
{
	struct rlimit before, none;
	void *buffer;

	(void)state;
	assert_null(nam_buffer_take(fixture.worker, UINT32_MAX));
	assert_string_equal(nam_worker_diag(fixture.worker),
		"a buffer is 2 MiB at most, not 4294967295 bytes");

	assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
	none = (struct rlimit){ .rlim_cur = 4096, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	buffer = nam_buffer_take(fixture.worker, 2u << 20);
	assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
	assert_null(buffer);
	assert_string_equal(nam_worker_diag(fixture.worker),
		"this process has no memory for 2097152 bytes of buffers");
	assert_non_null(nam_buffer_take(fixture.worker, 2u << 20));
}

static void
buffer_take__given_back__SERVES_AGAIN_WITHOUT_MORE_MEMORY(void **state)
{
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		nam_buffer_give(fixture.worker, nam_buffer_take(fixture.worker, 3000), 3000);
	bytes = nam_worker_bytes(fixture.worker);
	for (unsigned i = 0; i < 10000; i++)
		nam_buffer_give(fixture.worker, nam_buffer_take(fixture.worker, 3000), 3000);
	assert_int_equal(nam_worker_bytes(fixture.worker), bytes);
}

/* ---- a server ends ------------------------------------------------------------------------ */

static void
requests__one_server_ends__FAIL_THERE_AND_GO_ON_ELSEWHERE(void **state)
{
	uint64_t deadline = nam_now_ns() + 5000000000ull;
	struct nam_batch batch;
	int rc = 0;

	(void)state;
	local_cluster_stop_server(fixture.cluster, 1);
	while (!rc && nam_now_ns() < deadline) {
		rc = nam_read_await(fixture.worker, fixture.blocks[1], fixture.local, 64);
		nam_yield();
	}
	assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[0], fixture.local, 64), 0);
	nam_batch_init(&batch, fixture.worker);
	nam_batch_read(&batch, fixture.blocks[0], fixture.local, 64);
	nam_batch_read(&batch, fixture.blocks[1], fixture.other, 64);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(nam_read_await(fixture.worker, fixture.blocks[0], fixture.local, 64), 0);
	assert_int_equal(nam_async_read(fixture.worker, fixture.blocks[1], fixture.local, 64, NULL),
		-NAM_E_FABRIC_PEER_DEAD);
}

/* Whichever of them fail, when that is told all are over, and buffers can be used for others. */
static void
reads__some_of_a_server_that_ended__FAIL_and_none_is_left(void **state)
{
	(void)state;
	for (unsigned dead = 0; dead < NAM_BATCH_MAX; dead++) {
		struct nam_op_counters before = counters(), cost;
		struct nam__read reads[NAM_BATCH_MAX];

		for (unsigned i = 0; i < NAM_BATCH_MAX; i++)
			reads[i] = (struct nam__read){ fixture.blocks[i >= dead],
				fixture.other + 8 * i, 64 };
		assert_int_equal(nam__reads_await(fixture.worker, reads, NAM_BATCH_MAX),
			-NAM_E_FABRIC_PEER_DEAD);
		cost = spent(&before);
		/* One more is what was waited for. */
		assert_int_equal(cost.work_requests,
			dead + (dead && fixture.worker->in_post_order));
		memset(fixture.other, 0x5a, BLOCK);
		memset(fixture.local, 0x5a, BLOCK);
		for (unsigned i = 0; i < NAM_BATCH_MAX; i++)
			nam__poll(fixture.worker);
		assert_memory_equal(fixture.other, fixture.local, BLOCK);
		assert_int_equal(fixture.worker->current->pending, 0);
		assert_int_equal(fixture.worker->current->rc, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__what_was_written__SAME_BYTES_OF_ANY_SIZE),
		cmocka_unit_test(cas__expected_or_not__SWAPS_OR_LEAVES_AND_TELLS_THE_OLD),
		cmocka_unit_test(fetch_add__any_operand__ADDS_MODULO_64_BITS),
		cmocka_unit_test(one_request__of_each_kind__COUNTS_EXACTLY),
		cmocka_unit_test(batch__over_two_servers__ONE_ROUND_TRIP_AND_A_DOORBELL_EACH),
		cmocka_unit_test(batch__writes_then_atomics_then_read__SEEN_IN_THAT_ORDER),
		cmocka_unit_test(reads__over_two_servers__ONE_ROUND_TRIP_AND_A_DOORBELL_EACH),
		cmocka_unit_test(reads__no_room__WAIT_FOR_IT),
		cmocka_unit_test(reads__unknown_region__NOREGION_AND_NOTHING_READ),
		cmocka_unit_test(batch__nothing_in_it__NO_ROUND_TRIP),
		cmocka_unit_test(batch__more_than_it_holds__LIMIT_AND_NOTHING_DONE),
		cmocka_unit_test(
			batch__posted_before_it_is_awaited__ONE_ROUND_TRIP_and_all_awaited),
		cmocka_unit_test(batch__unknown_region__NOREGION_AND_NOTHING_DONE),
		cmocka_unit_test(read__beyond_the_region__NOREGION_and_the_connection_stays),
		cmocka_unit_test(async__more_than_the_depth__FULL_THEN_EACH_CONTEXT_ONCE),
		cmocka_unit_test(async__all_kinds__TAKE_EFFECT_IN_ORDER),
		cmocka_unit_test(buffer_take__any_size__ALIGNED_AND_APART),
		cmocka_unit_test(buffer_take__cannot_be__DIAG_SAYS_WHY),
		cmocka_unit_test(buffer_take__given_back__SERVES_AGAIN_WITHOUT_MORE_MEMORY),
		cmocka_unit_test(requests__one_server_ends__FAIL_THERE_AND_GO_ON_ELSEWHERE),
		cmocka_unit_test(reads__some_of_a_server_that_ended__FAIL_and_none_is_left),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
