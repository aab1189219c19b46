/* SPDX-License-Identifier: Apache-2.0 */
/* kv_store_test.c -- the sizes of kv_store.c against partitions of that size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/hash/hash.h"
#include "bench/requests/kv_store.h"
#include "kv/server/partition.h"

#define CHUNKS_MAX 4096u

/* The load factor of the store that is made for it, if keys fell into partitions evenly. */
static double
load_factor_of(const struct requests_options *o, uint32_t servers, uint32_t cells)
{
	static uint8_t *chunks[CHUNKS_MAX];
	static struct nam__kv_partition partition;
	struct nam_kv_options store = { .mode = NAM_KV_STORE };
	struct nam_rpc_kv_counts counts = { 0 };
	uint64_t partitions, places;
	uint32_t count, pairs = 0;

	kv_store_size(o, servers, &store);
	partitions = (uint64_t)servers * store.partitions;
	assert_int_equal(store.memory_bytes % (partitions * NAM__KV_CHUNK_BYTES), 0);
	count = (uint32_t)(store.memory_bytes / partitions / NAM__KV_CHUNK_BYTES);
	assert_in_range(count, NAM__KV_CHUNKS_MIN, CHUNKS_MAX);
	for (uint32_t i = 0; i < count; i++)
		chunks[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES);
	nam__kv_partition_init(&partition, 1, NAM__HTM_NONE, store.engine, chunks, count, false);
	/* Tables of cuckoo begin small. */
	while (o->engine == NAM_KV_CUCKOO && !nam__kv_partition_put(&partition,
			(uint32_t)nam_mix64(pairs), &pairs, sizeof(pairs), NULL, 0))
		pairs++;
	assert_true(pairs * partitions <= kv_store_growth(o, servers, &store));
	nam__kv_partition_count(&partition, &counts);
	for (uint32_t i = 0; i < count; i++)
		free(chunks[i]);
	places = o->engine == NAM_KV_CUCKOO ? counts.slots
					    : counts.room_bytes / NAM__KV_CELL_BYTES;
	return (double)(o->keys * cells) / (double)(places * partitions);
}

static void
size__load_factors_and_keys__PARTITIONS_HAVE_AS_MANY_PLACES(void **state)
{
	static const uint64_t keys[] = { 80000, 300000 };

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		for (uint32_t servers = 1; servers <= 4; servers += 3)
			for (double factor = 0.5; factor < 1; factor += 0.05) {
				struct requests_options o = { .keys = keys[i], .value_bytes = 32,
					.engine = NAM_KV_CUCKOO, .load_factor = factor };

				assert_true(fabs(load_factor_of(&o, servers, 1) - factor) < 0.03);
				o.engine = NAM_KV_CHAINED;
				assert_true(fabs(load_factor_of(&o, servers, 1) - factor) < 0.03);
				o.value_bytes = 300;
				assert_true(fabs(load_factor_of(&o, servers, 7) - factor) < 0.03);
			}
}

static void
size__partitions_are_given__THOSE(void **state)
{
	struct requests_options o = { .keys = 3030, .value_bytes = 8, .engine = NAM_KV_CUCKOO,
		.partitions = 1, .load_factor = 0.85 };
	struct nam_kv_options store = { .partitions = 0 };

	(void)state;
	kv_store_size(&o, 1, &store);
	assert_int_equal(store.partitions, 1);
	assert_true(fabs(load_factor_of(&o, 1, 1) - 0.85) < 0.01);
}

static void
size__without_a_load_factor__ROOM_FOR_ALL_TWICE_AND_FOR_INSERTS(void **state)
{
	struct requests_options o = { .keys = 100000, .value_bytes = 32, .engine = NAM_KV_CHAINED };
	struct nam_kv_options without = { .partitions = 1 }, with = without;

	(void)state;
	kv_store_size(&o, 1, &without);
	assert_int_equal(without.partitions, 0);
	assert_true(without.memory_bytes > 2 * 64 * o.keys);
	o.run.ops = 200000;
	o.insert_percent = 50;
	kv_store_size(&o, 1, &with);
	assert_true(with.memory_bytes > without.memory_bytes + 2 * 64 * 100000ull);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size__load_factors_and_keys__PARTITIONS_HAVE_AS_MANY_PLACES),
		cmocka_unit_test(size__partitions_are_given__THOSE),
		cmocka_unit_test(size__without_a_load_factor__ROOM_FOR_ALL_TWICE_AND_FOR_INSERTS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
