/* SPDX-License-Identifier: Apache-2.0 */
/* cuckoo_fixture.h -- a partition with the engine cuckoo, and pairs that tell their hashes. */
#ifndef NAM_TESTS_UNIT_KV_SERVER_CUCKOO_FIXTURE_H
#define NAM_TESTS_UNIT_KV_SERVER_CUCKOO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "kv/options.h"
#include "kv/server/cuckoo.h"

#define CHUNKS_MAX 64u
#define BUCKETS_MAX (CHUNKS_MAX * NAM__CUCKOO_BUCKETS_PER_CHUNK)

static struct nam__kv_partition p;
static uint8_t *chunks[CHUNKS_MAX];

static inline void
begin_engine(enum nam_kv_engine engine, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		chunks[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES);
		assert_non_null(chunks[i]);
		memset(chunks[i], 0x5a, NAM__KV_CHUNK_BYTES);
	}
	nam__kv_partition_init(&p, 4711, NAM__HTM_NONE, engine, chunks, count, false);
}

static inline void
begin(uint32_t count)
{
	begin_engine(NAM_KV_CUCKOO, count);
}

static inline void
expect_sound(void)
{
	struct nam_diag diag;

	if (!nam__kv_partition_sound(&p, &diag))
		fail_msg("%s", diag.text);
}

static inline void
end(void)
{
	expect_sound();
	for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
}

static inline struct nam_rpc_kv_counts
counts(void)
{
	struct nam_rpc_kv_counts sum = { 0 };

	nam__kv_partition_count(&p, &sum);
	return sum;
}

/* The key is the hash and a number; the value tells both. */
static inline int
put(uint32_t hash, uint32_t number)
{
	uint32_t key[4] = { hash, number, 0, 0 };
	uint32_t value[8] = { hash, number, hash ^ number };

	return nam__kv_partition_put(&p, hash, key, sizeof(key), value, sizeof(value));
}

static inline int
take_out(uint32_t hash, uint32_t number)
{
	uint32_t key[4] = { hash, number, 0, 0 };

	return nam__kv_partition_delete(&p, hash, key, sizeof(key));
}

static inline int
get(uint32_t hash, uint32_t number)
{
	uint32_t key[4] = { hash, number, 0, 0 }, value[8], bytes;
	int rc = nam__kv_partition_get(&p, hash, key, sizeof(key), value, sizeof(value), &bytes);

	if (!rc) {
		assert_int_equal(bytes, sizeof(value));
		assert_int_equal(value[0], hash);
		assert_int_equal(value[1], number);
	}
	return rc;
}

/* As a memory server does; *ret_hits: 1 if that took no lock. */
static inline int
get_sought(uint32_t hash, const void *key, uint32_t key_bytes, void *value, uint32_t room,
	uint32_t *ret_bytes, uint64_t *ret_hits)
{
	struct nam__kv_sought sought = { &p, key, key_bytes, hash, { NULL, NULL } };

	*ret_hits = 0;
	nam__kv_partitions_seek(&sought, 1);
	return nam__kv_partition_get_sought(&sought, value, room, ret_bytes, ret_hits);
}

static inline uint32_t
fill(void)
{
	uint32_t n = 0;

	while (!put((uint32_t)nam_mix64(n), n))
		n++;
	return n;
}

/* Empty tables that have grown as far as they can. */
static inline void
begin_grown(uint32_t count)
{
	begin(count);
	for (uint32_t n = fill(); n-- > 0;)
		assert_int_equal(take_out((uint32_t)nam_mix64(n), n), 0);
	assert_int_equal(counts().keys, 0);
	memset(&p.counts, 0, sizeof(p.counts));
}

/* A hash whose buckets are these two of the first `among` of each table. */
static inline uint32_t
hash_among(struct nam_rng *rng, uint32_t among)
{
	for (;;) {
		uint32_t hash = (uint32_t)nam_rng_next(rng), buckets[2];

		nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, buckets);
		if (buckets[0] < nam__cuckoo_bucket_number(0, among) &&
			buckets[1] < nam__cuckoo_bucket_number(0, among))
			return hash;
	}
}

static inline uint32_t
hash_of_buckets(uint32_t first, uint32_t second)
{
	struct nam_rng rng = nam_rng_seed(first * 1000 + second);

	for (;;) {
		uint32_t hash = (uint32_t)nam_rng_next(&rng), buckets[2];

		nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, buckets);
		if (buckets[0] == nam__cuckoo_bucket_number(0, first) &&
			buckets[1] == nam__cuckoo_bucket_number(1, second))
			return hash;
	}
}

#endif /* NAM_TESTS_UNIT_KV_SERVER_CUCKOO_FIXTURE_H */
