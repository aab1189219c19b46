/* SPDX-License-Identifier: Apache-2.0 */
/* partition_test.c -- cells, buckets and CLOCK, against a plain table of what must be there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/hash/hash.h"
#include "common/rpc/kv_rpc.h"
#include "kv/options.h"
#include "kv/server/partition.h"

#define CHUNKS_MAX 60u

/* Each test runs with each engine, and with stand-ins of hardware transactions. */
static enum nam_kv_engine engine;
static enum nam__htm htm;

struct fixture {
	struct nam__kv_partition p;
	uint8_t *chunks[CHUNKS_MAX];
};

static struct fixture f;

static void
begin(uint32_t chunks, bool evicts)
{
	for (uint32_t i = 0; i < chunks; i++) {
		f.chunks[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES);
		assert_non_null(f.chunks[i]);
		memset(f.chunks[i], 0x5a, NAM__KV_CHUNK_BYTES);
	}
	nam__kv_partition_init(&f.p, 4711, htm, engine, f.chunks, chunks, evicts);
}

static void
end(void)
{
	struct nam_diag diag;

	if (!nam__kv_partition_sound(&f.p, &diag))
		fail_msg("%s", diag.text);
	for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
		free(f.chunks[i]);
		f.chunks[i] = NULL;
	}
}

static struct nam_rpc_kv_counts
counts(void)
{
	struct nam_rpc_kv_counts sum = { 0 };

	nam__kv_partition_count(&f.p, &sum);
	return sum;
}

/* Keys of all lengths, told apart by their first two bytes. */
static uint32_t
key_of(uint32_t number, uint8_t *key)
{
	uint32_t bytes = 2 + number * 37 % (NAM_RPC_KV_KEY_BYTES_MAX - 1);

	memset(key, (int)number, bytes);
	key[0] = (uint8_t)number;
	key[1] = (uint8_t)(number >> 8);
	return bytes;
}

/* Few hashes, so that chains are long; or many. */
static uint32_t hashes = 50;

static uint32_t
hash_of(uint32_t number)
{
	return (uint32_t)nam_mix64(number % hashes);
}

static void
value_fill(uint32_t number, uint32_t version, uint32_t bytes, uint8_t *value)
{
	for (uint32_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)(number * 7 + version * 13 + i);
}

static int
put(uint32_t number, uint32_t version, uint32_t bytes)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];
	uint8_t key[256];
	uint32_t key_bytes = key_of(number, key);

	value_fill(number, version, bytes, value);
	return nam__kv_partition_put(&f.p, hash_of(number), key, key_bytes, value, bytes);
}

static int
get(uint32_t number, uint8_t *value, uint32_t *ret_bytes)
{
	uint8_t key[256];
	uint32_t key_bytes = key_of(number, key);

	return nam__kv_partition_get(&f.p, hash_of(number), key, key_bytes, value,
		NAM_RPC_KV_VALUE_BYTES_MAX, ret_bytes);
}

static int
take_out(uint32_t number)
{
	uint8_t key[256];
	uint32_t key_bytes = key_of(number, key);

	return nam__kv_partition_delete(&f.p, hash_of(number), key, key_bytes);
}

static void
expect(uint32_t number, uint32_t version, uint32_t bytes)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX], expected[NAM_RPC_KV_VALUE_BYTES_MAX];
	uint32_t got = 0;

	assert_int_equal(get(number, value, &got), 0);
	assert_int_equal(got, bytes);
	value_fill(number, version, bytes, expected);
	assert_memory_equal(value, expected, bytes);
}

static void
pair__of_any_lengths__IS_THERE_UNTIL_DELETED(void **state)
{
	uint8_t value[NAM_RPC_KV_MESSAGE_BYTES_MAX];
	uint32_t bytes;

	(void)state;
	begin(2, false);
	/* Lengths about the ends of cells, and the extremes. */
	for (uint32_t length = 0; length <= NAM_RPC_KV_MESSAGE_BYTES_MAX;
		length += length < 300 ? 1 : 500) {
		assert_int_equal(put(length, 1, length), 0);
		expect(length, 1, length);
		assert_int_equal(take_out(length), 0);
		assert_int_equal(take_out(length), -NAM_E_NOTFOUND);
		assert_int_equal(get(length, value, &bytes), -NAM_E_NOTFOUND);
	}
	assert_int_equal(put(252, 1, NAM_RPC_KV_MESSAGE_BYTES_MAX), 0);
	expect(252, 1, NAM_RPC_KV_MESSAGE_BYTES_MAX);
	assert_int_equal(take_out(252), 0);
	assert_int_equal(counts().used_bytes, 0);
	end();
}

static void
get__less_room_than_the_value__LIMIT_AND_ITS_LENGTH(void **state)
{
	uint8_t key[256], value[8];
	uint32_t key_bytes = key_of(1, key), bytes = 77;

	(void)state;
	begin(2, false);
	assert_int_equal(put(1, 1, 9), 0);
	assert_int_equal(nam__kv_partition_get(&f.p, hash_of(1), key, key_bytes, value, 8, &bytes),
		-NAM_E_LIMIT);
	assert_int_equal(bytes, 9);
	assert_int_equal(counts().hits + counts().misses, 0);
	end();
}

/* A key of 16 bytes and a value of 32 are one cell, so many fit and not one more. */
static uint32_t
fill_small(void)
{
	uint32_t n = 0;
	uint8_t key[16] = { 0 }, value[32] = { 0 };
	int rc = 0;

	for (;; n++) {
		memcpy(key, &n, sizeof(n));
		memcpy(value, &n, sizeof(n));
		rc = nam__kv_partition_put(&f.p, (uint32_t)nam_mix64(n), key, sizeof(key), value,
			sizeof(value));
		if (rc)
			break;
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	return n;
}

static void
put__no_room_in_a_store__FULL_AND_NOTHING_LOST(void **state)
{
	uint8_t key[16] = { 0 }, value[256] = { 0 };
	uint32_t n, number, bytes;

	(void)state;
	begin(4, false);
	n = fill_small();
	if (engine == NAM_KV_CHAINED)
		assert_int_equal(n, 3 * NAM__KV_CHUNK_BYTES / NAM__KV_CELL_BYTES);
	assert_int_equal(counts().refusals, 1);
	/* A value may be replaced by one of at most its size. */
	assert_int_equal(nam__kv_partition_put(&f.p, (uint32_t)nam_mix64(0), key, 16, value, 32),
		0);
	if (engine == NAM_KV_CHAINED)
		assert_int_equal(nam__kv_partition_put(&f.p, (uint32_t)nam_mix64(0), key, 16,
			value, 33), -NAM_E_REMOTE_FULL);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(key, &i, sizeof(i));
		assert_int_equal(nam__kv_partition_get(&f.p, (uint32_t)nam_mix64(i), key, 16,
			value, sizeof(value), &bytes), 0);
		memcpy(&number, value, sizeof(number));
		assert_int_equal(number, i);
		assert_int_equal(bytes, 32);
	}
	/* Room that was given back is room, in whatever pieces; of cuckoo, if it is a chunk. */
	for (uint32_t i = 0; i < n; i += engine == NAM_KV_CHAINED ? 17 : 3) {
		memcpy(key, &i, sizeof(i));
		assert_int_equal(nam__kv_partition_delete(&f.p, (uint32_t)nam_mix64(i), key, 16),
			0);
	}
	assert_int_equal(put(40000, 1, 3800), 0);
	expect(40000, 1, 3800);
	assert_int_equal(counts().evictions, 0);
	end();
}

static void
put__no_room_in_a_cache__WHAT_IS_READ_STAYS(void **state)
{
	uint8_t key[16] = { 0 }, value[32] = { 0 };
	const uint32_t cells = NAM__KV_CHUNK_BYTES / NAM__KV_CELL_BYTES;
	uint32_t bytes, reads = 0, lost = 0;

	(void)state;
	begin(2, true);
	for (uint32_t i = 0; i < 20 * cells; i++) {
		memcpy(key, &i, sizeof(i));
		assert_int_equal(nam__kv_partition_put(&f.p, (uint32_t)nam_mix64(i), key, 16,
			value, 32), 0);
		/* A fifth of what there is room for is read all the time. */
		for (uint32_t hot = 0; hot < cells / 5 && i % 50 == 49; hot++) {
			memcpy(key, &hot, sizeof(hot));
			if (hot > i)
				continue;
			reads++;
			if (!nam__kv_partition_get(&f.p, (uint32_t)nam_mix64(hot), key, 16, value,
					32, &bytes))
				continue;
			lost++;
			assert_int_equal(nam__kv_partition_put(&f.p, (uint32_t)nam_mix64(hot), key,
				16, value, 32), 0);
		}
	}
	/* CLOCK looks at all pairs of a chained partition, and at eight of cuckoo. */
	assert_true(reads > 100 * cells / 5);
	assert_true(lost <= (engine == NAM_KV_CHAINED ? 0 : reads / 100));
	assert_int_equal(counts().keys + counts().evictions, 20 * cells + lost);
	if (engine == NAM_KV_CHAINED)
		assert_int_equal(counts().keys, cells);
	assert_int_equal(counts().refusals, 0);
	end();
}

static void
put__everything_was_read__SOMETHING_GOES_IN_BOUNDED_TIME(void **state)
{
	uint8_t value[NAM_RPC_KV_MESSAGE_BYTES_MAX];
	uint32_t bytes, n = 0;

	(void)state;
	begin(40, true);
	for (n = 0; !counts().evictions; n++) {
		assert_int_equal(put(n, 1, 500), 0);
		assert_int_equal(get(n, value, &bytes), 0);
	}
	/* A new one finds room for itself only; those that just came are there. */
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t evictions = counts().evictions;

		assert_int_equal(put(n + i, 1, 500), 0);
		assert_int_equal(get(n + i, value, &bytes), 0);
		assert_true(counts().evictions - evictions < 15);
	}
	end();
}

/* Lengths about the ends of cells, chunks and staging blocks, and the longest one. */
static void
pair__longer_than_a_message__IS_THERE_UNTIL_DELETED(void **state)
{
	static const uint32_t lengths[] = { NAM_RPC_KV_MESSAGE_BYTES_MAX + 1, 5000, 32768, 33791,
		33792, 33793, 65536, 1000000, NAM_RPC_KV_VALUE_BYTES_MAX - 1,
		NAM_RPC_KV_VALUE_BYTES_MAX };

	(void)state;
	begin(CHUNKS_MAX, false);
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_int_equal(put(i, 1, 40), 0);
		assert_int_equal(put(i, 2, lengths[i]), 0);
		expect(i, 2, lengths[i]);
		assert_int_equal(put(i, 3, lengths[i]), 0);
		expect(i, 3, lengths[i]);
		if (i % 2)
			assert_int_equal(put(i, 4, 40), 0);
		assert_int_equal(take_out(i), 0);
	}
	assert_int_equal(counts().used_bytes, 0);
	end();
}

static void
put__a_pair_that_never_fits__FULL_AND_NOTHING_EVICTED(void **state)
{
	struct nam_rpc_kv_counts before;

	(void)state;
	hashes = UINT32_MAX;
	for (int evicts = 0; evicts < 2; evicts++) {
		begin(36, evicts);
		for (uint32_t i = 0; i < 200; i++)
			assert_int_equal(put(i, 1, 100), 0);
		before = counts();
		assert_int_equal(put(3, 2, NAM_RPC_KV_VALUE_BYTES_MAX), -NAM_E_REMOTE_FULL);
		assert_int_equal(put(200, 2, 1020000), -NAM_E_REMOTE_FULL);
		assert_int_equal(counts().refusals, 2);
		assert_int_equal(counts().evictions, 0);
		assert_int_equal(counts().used_bytes, before.used_bytes);
		for (uint32_t i = 0; i < 200; i++)
			expect(i, 1, 100);
		/* It has not taken the memory into which the tables of cuckoo grow. */
		for (uint32_t i = 200; i < 3000; i++)
			assert_int_equal(put(i, 1, 0), 0);
		end();
	}
	hashes = 50;
}

static void
put__most_of_a_full_cache__EVICTS_AND_ENDS(void **state)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];
	uint32_t bytes, n, there = 0;

	(void)state;
	hashes = UINT32_MAX;
	begin(CHUNKS_MAX, true);
	for (n = 0; !counts().evictions; n++) {
		assert_int_equal(put(n, 1, 300), 0);
		assert_int_equal(get(n, value, &bytes), 0);
	}
	assert_int_equal(put(n, 2, NAM_RPC_KV_VALUE_BYTES_MAX), 0);
	expect(n, 2, NAM_RPC_KV_VALUE_BYTES_MAX);
	for (uint32_t i = 0; i < n; i++)
		there += !get(i, value, &bytes);
	assert_int_equal(counts().keys, there + 1);
	assert_true(there > 0);
	/* Another one takes its place. */
	assert_int_equal(put(n + 1, 3, NAM_RPC_KV_VALUE_BYTES_MAX), 0);
	expect(n + 1, 3, NAM_RPC_KV_VALUE_BYTES_MAX);
	assert_int_equal(get(n, value, &bytes), -NAM_E_NOTFOUND);
	end();
	hashes = 50;
}

#define MODEL_KEYS 300u

/* Random operations; the model forgets what a cache may have forgotten. */
static void
compare(bool evicts, uint64_t seed)
{
	static struct {
		uint32_t version, bytes;
		bool there;
	} model[MODEL_KEYS];
	struct nam_rng rng = nam_rng_seed(seed);
	uint64_t lost = 0;

	memset(model, 0, sizeof(model));
	begin(3, evicts);
	for (uint32_t i = 0; i < 60000; i++) {
		uint32_t number = (uint32_t)nam_rng_below(&rng, MODEL_KEYS), got;
		uint32_t bytes = (uint32_t)nam_rng_below(&rng, nam_rng_below(&rng, 4) ? 100 : 3801);
		uint8_t value[NAM_RPC_KV_MESSAGE_BYTES_MAX];
		int rc;

		switch (nam_rng_below(&rng, 4)) {
		case 0:
			rc = put(number, i, bytes);
			if (rc) {
				assert_int_equal(rc, -NAM_E_REMOTE_FULL);
				assert_false(evicts);
				break;
			}
			model[number].version = i;
			model[number].bytes = bytes;
			model[number].there = true;
			break;
		case 1:
			rc = take_out(number);
			if (evicts && rc)
				model[number].there = false;
			assert_int_equal(rc, model[number].there ? 0 : -NAM_E_NOTFOUND);
			model[number].there = false;
			break;
		default:
			rc = get(number, value, &got);
			if (evicts && rc && model[number].there) {
				model[number].there = false;
				lost++;
			}
			assert_int_equal(rc, model[number].there ? 0 : -NAM_E_NOTFOUND);
			if (!rc)
				expect(number, model[number].version, model[number].bytes);
		}
		if (i % 5000 == 0) {
			struct nam_diag diag;

			if (!nam__kv_partition_sound(&f.p, &diag))
				fail_msg("%s", diag.text);
		}
	}
	assert_true(evicts ? lost > 100 && counts().evictions >= lost : counts().refusals > 100);
	end();
}

static void
random_operations__in_both_modes__AS_A_TABLE_HAS_THEM(void **state)
{
	(void)state;
	compare(false, 1);
	compare(true, 2);
}

/* A transaction has read the lock: a change in its cache line aborts it. */
static void
operations__in_transactions__CHANGE_NOTHING_BESIDE_THE_LOCK(void **state)
{
	uint8_t before[64], value[8] = { 0 };
	enum nam__htm was = htm;
	uint32_t bytes;

	(void)state;
	htm = NAM__HTM_STAND_IN;
	begin(3, false);
	htm = was;
	memcpy(before, &f.p.lock, sizeof(before));
	for (uint32_t i = 0; i < 100; i++) {
		uint32_t hash = (uint32_t)nam_mix64(i);

		assert_int_equal(nam__kv_partition_put(&f.p, hash, &i, sizeof(i), value,
			sizeof(value)), 0);
		assert_int_equal(nam__kv_partition_get(&f.p, hash, &i, sizeof(i), value,
			sizeof(value), &bytes), 0);
	}
	assert_int_equal(counts().hits + counts().puts, 200);
	assert_true(counts().htm_commits > 0);
	assert_memory_equal(before, &f.p.lock, sizeof(before));
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair__of_any_lengths__IS_THERE_UNTIL_DELETED),
		cmocka_unit_test(get__less_room_than_the_value__LIMIT_AND_ITS_LENGTH),
		cmocka_unit_test(pair__longer_than_a_message__IS_THERE_UNTIL_DELETED),
		cmocka_unit_test(put__a_pair_that_never_fits__FULL_AND_NOTHING_EVICTED),
		cmocka_unit_test(put__most_of_a_full_cache__EVICTS_AND_ENDS),
		cmocka_unit_test(put__no_room_in_a_store__FULL_AND_NOTHING_LOST),
		cmocka_unit_test(put__no_room_in_a_cache__WHAT_IS_READ_STAYS),
		cmocka_unit_test(put__everything_was_read__SOMETHING_GOES_IN_BOUNDED_TIME),
		cmocka_unit_test(random_operations__in_both_modes__AS_A_TABLE_HAS_THEM),
		cmocka_unit_test(operations__in_transactions__CHANGE_NOTHING_BESIDE_THE_LOCK),
	};
	int failed = 0;

	for (engine = NAM_KV_CHAINED; nam__kv_engine_known(engine); engine++)
		failed += cmocka_run_group_tests_name(engine == NAM_KV_CHAINED ? "chained" :
			"cuckoo", tests, NULL, NULL);
	htm = NAM__HTM_STAND_IN;
	engine = NAM_KV_CUCKOO;
	failed += cmocka_run_group_tests_name("cuckoo, stand-in", tests, NULL, NULL);
	return failed;
}
