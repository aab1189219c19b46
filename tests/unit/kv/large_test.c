/* SPDX-License-Identifier: Apache-2.0 */
/*
 * large_test.c -- values longer than a message, with each engine, over three memory servers.  Once
 * more for each RPC transport.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/layout.h"
#include "common/rpc/kv_rpc.h"
#include "compute/remote.h"
#include "compute/remote/block_cache.h"
#include "kv/kv.h"
#include "tests/lib/kv_fixture.h"
#include "txn/records/version.h"

#define MIB (1ull << 20)
#define SERVERS 3u

TEST_CLUSTER_OF_TWO(SERVERS, 32 * MIB, 4 * MIB, 200)

static const struct {
	const char *name;
	enum nam_kv_engine engine;
	bool onesided;
} kinds[] = {
	{ "chained", NAM_KV_CHAINED, false },
	{ "cuckoo", NAM_KV_CUCKOO, false },
	{ "onesided", NAM_KV_CUCKOO, true },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The kind of the tests that run. */
static unsigned kind;

static struct nam_kv *
make(const char *name, enum nam_kv_mode mode, uint64_t bytes, uint32_t partitions)
{
	struct nam_kv_options options;

	nam_kv_options_init(&options);
	options.engine = kinds[kind].engine;
	options.onesided = kinds[kind].onesided;
	options.mode = mode;
	options.memory_bytes = bytes;
	options.partitions = partitions;
	return store_new(&me, name, &options);
}

static uint8_t large[NAM_KV_VALUE_BYTES_MAX], large_got[NAM_KV_VALUE_BYTES_MAX];
#define LARGE_FIBERS 12u

static uint32_t large_wrong;		/* fibers */

static void
large_fill(uint64_t number, uint32_t bytes)
{
	struct nam_rng rng = nam_rng_seed(number << 32 | bytes);

	for (uint32_t i = 0; i < bytes; i++)
		large[i] = (uint8_t)nam_rng_next(&rng);
}

static int
large_put(struct nam_kv *kv, uint64_t number, uint32_t bytes)
{
	large_fill(number, bytes);
	return nam_kv_put(me.worker, kv, &number, sizeof(number), large, bytes);
}

static void
large_expect(struct nam_kv *kv, uint64_t number, uint32_t bytes)
{
	uint32_t got = 0;

	memset(large_got, 0, bytes);
	assert_int_equal(nam_kv_get(me.worker, kv, &number, sizeof(number), large_got,
		sizeof(large_got), &got), 0);
	assert_int_equal(got, bytes);
	large_fill(number, bytes);
	assert_memory_equal(large_got, large, bytes);
}

static const uint32_t large_lengths[] = { NAM_KV_MESSAGE_BYTES_MAX + 1, 4072, 4096, 10000,
	NAM_RPC_KV_STAGING_BYTES - 1, NAM_RPC_KV_STAGING_BYTES, NAM_RPC_KV_STAGING_BYTES + 1,
	200000, NAM_KV_VALUE_BYTES_MAX - 1, NAM_KV_VALUE_BYTES_MAX };
#define LARGE_OF_ONE_BLOCK 6u
#define LARGE_LENGTHS (sizeof(large_lengths) / sizeof(large_lengths[0]))

static void
pair__longer_than_a_message__IS_WHAT_WAS_PUT(void **state)
{
	struct nam_kv *kv = make("large", NAM_KV_STORE, 36 * MIB, 1);
	struct nam_kv_stat stat;
	uint32_t bytes = 99;

	(void)state;
	for (uint64_t i = 0; i < LARGE_LENGTHS; i++) {
		assert_int_equal(large_put(kv, i, large_lengths[i]), 0);
		large_expect(kv, i, large_lengths[i]);
		/* Another value, and of another length. */
		assert_int_equal(large_put(kv, i, 7), 0);
		large_expect(kv, i, 7);
		assert_int_equal(large_put(kv, i, large_lengths[i]), 0);
	}
	for (uint64_t i = 0; i < LARGE_LENGTHS; i++) {
		uint32_t length = large_lengths[i];

		large_expect(kv, i, length);
		/* Just enough room is enough, and less says how much it would be. */
		assert_int_equal(nam_kv_get(me.worker, kv, &i, 8, large_got, length, &bytes),
			0);
		bytes = 99;
		assert_int_equal(nam_kv_get(me.worker, kv, &i, 8, large_got, length - 1, &bytes),
			-NAM_E_LIMIT);
		member_says(&me, "and room for ");
		assert_int_equal(nam_kv_get(me.worker, kv, &i, 8, NULL, 0, &bytes), -NAM_E_LIMIT);
		assert_int_equal(bytes, 99);
	}
	assert_int_equal(nam_kv_stat(me.worker, kv, &stat), 0);
	assert_int_equal(stat.keys, LARGE_LENGTHS);
	assert_int_equal(stat.puts, 3 * LARGE_LENGTHS);
	/* Of some that have no room, the memory server says only how long they are: no hits. */
	assert_int_equal(stat.hits, 2 * LARGE_OF_ONE_BLOCK + LARGE_LENGTHS *
		/* READs of short ones are no hits. */
		(nam_kv_properties(kv)->onesided ? 3 : 4));
	for (uint64_t i = 0; i < LARGE_LENGTHS; i++)
		assert_int_equal(nam_kv_delete(me.worker, kv, &i, 8), 0);
	store_end(&me, "large", kv);
}

static void
put__a_pair_larger_than_its_partition__REMOTE_FULL_IN_BOTH_MODES(void **state)
{
	static const enum nam_kv_mode modes[] = { NAM_KV_STORE, NAM_KV_CACHE };

	(void)state;
	for (unsigned m = 0; m < 2; m++) {
		struct nam_kv *kv = make("tight", modes[m], 12 * MIB, 4);
		struct nam_kv_stat stat;

		assert_int_equal(large_put(kv, 1, 20), 0);
		assert_int_equal(large_put(kv, 1, 950000), -NAM_E_REMOTE_FULL);
		member_says(&me, "no room for a pair of 950008 bytes where its key belongs");
		large_expect(kv, 1, 20);
		assert_int_equal(large_put(kv, 1, 500000), 0);
		large_expect(kv, 1, 500000);
		assert_int_equal(nam_kv_stat(me.worker, kv, &stat), 0);
		assert_int_equal(stat.refusals, 1);
		store_end(&me, "tight", kv);
	}
}

static void
get_many__long_and_short_values__ALL_ARE_THERE(void **state)
{
	struct nam_kv *kv = make("mixed", NAM_KV_STORE, 24 * MIB, 1);
	struct nam_kv_item items[40];
	uint64_t keys[40], ops;
	uint8_t *values = malloc(40 * 100000ul);

	(void)state;
	assert_non_null(values);
	for (uint64_t i = 0; i < 40; i++) {
		keys[i] = i;
		if (i % 5)
			assert_int_equal(large_put(kv, i, i % 3 ? (uint32_t)i * 90 :
				(uint32_t)i * 2000), 0);
		items[i] = (struct nam_kv_item){ .key = &keys[i], .key_bytes = 8, .size = 100000,
			.value = values + i * 100000 };
	}
	items[3].size = 5999;
	ops = nam_worker_counters(me.worker, NAM_OP_LOOKUP)->ops;
	assert_int_equal(nam_kv_get_many(me.worker, kv, items, 40), 0);
	assert_int_equal(nam_worker_counters(me.worker, NAM_OP_LOOKUP)->ops - ops, 40);
	for (uint64_t i = 0; i < 40; i++) {
		uint32_t length = i % 3 ? (uint32_t)i * 90 : (uint32_t)i * 2000;

		if (i % 5 == 0 || i == 3) {
			assert_int_equal(items[i].rc, i == 3 ? -NAM_E_LIMIT : -NAM_E_NOTFOUND);
			continue;
		}
		assert_int_equal(items[i].rc, 0);
		assert_int_equal(items[i].value_bytes, length);
		large_fill(i, length);
		assert_memory_equal(items[i].value, large, length);
	}
	free(values);
	store_end(&me, "mixed", kv);
}

static void
large_fiber_main(void *arg)
{
	struct nam_kv *kv = arg;
	static uint64_t numbers;
	const uint64_t number = 1 + numbers++ % LARGE_FIBERS;
	uint8_t *value = malloc(90000), *got = malloc(90000);
	bool same = value && got;

	for (uint32_t i = 0; i < 20 && same; i++) {
		uint32_t length = 3000 + (uint32_t)number * 1000 + i * 3000, bytes = 0;

		memset(value, (int)(number * 20 + i), length);
		same = !nam_kv_put(me.worker, kv, &number, 8, value, length) &&
			!nam_kv_get(me.worker, kv, &number, 8, got, 90000, &bytes) &&
			bytes == length && !memcmp(got, value, length);
	}
	large_wrong += !same;
	free(value);
	free(got);
}

static void
fibers__values_longer_than_a_message__DO_NOT_MIX(void **state)
{
	struct nam_kv *kv = make("large", NAM_KV_STORE, 18 * MIB, 2);

	(void)state;
	for (uint32_t i = 0; i < LARGE_FIBERS; i++)
		assert_int_equal(nam_worker_spawn(me.worker, large_fiber_main, kv), 0);
	nam_worker_run(me.worker);
	assert_int_equal(large_wrong, 0);
	store_end(&me, "large", kv);
}

/* Memory that values pass through is the worker's until it closes. */
static void
worker__closes__STAGING_BLOCKS_COME_BACK(void **state)
{
	struct nam_kv *kv = make("large", NAM_KV_STORE, 18 * MIB, 1);
	uint64_t before = member_sees_used(&me), key = 1;
	struct member guest = member_join(cluster, "guest", 200);
	struct nam_kv *theirs;

	(void)state;
	assert_int_equal(nam_kv_open(guest.worker, "large", &theirs), 0);
	assert_int_equal(nam_kv_put(guest.worker, theirs, &key, 8, large, MIB), 0);
	assert_true(member_sees_used(&me) >= before + MIB);
	nam_kv_close(theirs);
	member_leave(&guest);
	assert_int_equal(member_sees_used(&me), before);
	store_end(&me, "large", kv);
}

#define BLOCKS_MAX 4000u

static void
large__no_public_memory_is_left__REMOTE_FULL_UNTIL_THERE_IS(void **state)
{
	struct nam_kv *kv = make("large", NAM_KV_STORE, 6 * MIB, 1), *theirs;
	struct member guest = member_join(cluster, "guest", 200);
	static struct nam_gaddr taken[BLOCKS_MAX];
	uint32_t count = 0, bytes;
	uint64_t key = 1;
	int rc = 0;

	(void)state;
	assert_int_equal(large_put(kv, key, 5000), 0);
	assert_int_equal(nam_kv_open(guest.worker, "large", &theirs), 0);
	/* A put finds unused private memory, until there is none. */
	for (unsigned tries = 0; tries < 20 && !rc; tries++) {
		while (count < BLOCKS_MAX && nam_alloc(other.worker, NAM_RPC_KV_STAGING_BYTES,
			&taken[count]) == 0)
			count++;
		rc = nam_kv_put(guest.worker, theirs, &key, 8, large, 5000);
		nam__block_cache_return(guest.worker, 0);
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	member_says(&guest, "no room for a block of 33792 bytes");
	assert_int_equal(nam_kv_get(guest.worker, theirs, &key, 8, large_got, 6000, &bytes),
		-NAM_E_REMOTE_FULL);
	/* A short value needs none. */
	key = 2;
	assert_int_equal(nam_kv_put(guest.worker, theirs, &key, 8, large, 100), 0);
	while (count)
		nam_free_unseen(other.worker, nam_gaddr_untagged(taken[--count]),
			NAM_RPC_KV_STAGING_BYTES);
	nam__block_cache_return(other.worker, 0);
	assert_int_equal(nam_kv_put(guest.worker, theirs, &key, 8, large, 6000), 0);
	nam_kv_close(theirs);
	member_leave(&guest);
	large_expect(kv, 1, 5000);
	store_end(&me, "large", kv);
}

/* Nothing else has their stride: other objects find locks or versions in blocks used before. */
static void
staging__its_stride__IS_OF_NO_OTHER_OBJECT(void **state)
{
	(void)state;
	assert_false(nam_stride_is_of_nodes(NAM_RPC_KV_STAGING_BYTES));
	for (uint32_t bytes = 64; bytes < 2 * NAM_RPC_KV_STAGING_BYTES; bytes += 8)
		assert_int_not_equal(nam__version_stride(bytes), NAM_RPC_KV_STAGING_BYTES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair__longer_than_a_message__IS_WHAT_WAS_PUT),
		cmocka_unit_test(put__a_pair_larger_than_its_partition__REMOTE_FULL_IN_BOTH_MODES),
		cmocka_unit_test(get_many__long_and_short_values__ALL_ARE_THERE),
		cmocka_unit_test(fibers__values_longer_than_a_message__DO_NOT_MIX),
		cmocka_unit_test(worker__closes__STAGING_BLOCKS_COME_BACK),
		cmocka_unit_test(large__no_public_memory_is_left__REMOTE_FULL_UNTIL_THERE_IS),
		cmocka_unit_test(staging__its_stride__IS_OF_NO_OTHER_OBJECT),
	};
	int failed = 0;

	for (kind = 0; kind < KINDS; kind++)
		failed += cmocka_run_group_tests_name(kinds[kind].name, tests, start, stop);
	return failed;
}
