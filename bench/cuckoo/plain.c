/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

#include <stddef.h>

#include "kv/server/cuckoo.h"

static uint32_t *
bucket_of(const struct plain *plain, uint32_t hash, uint32_t table)
{
	uint32_t index = (uint32_t)((uint64_t)nam__cuckoo_table_hash(hash, table) *
				    plain->buckets >> 32);

	return plain->slots + (size_t)(table * plain->buckets + index) * plain->bucket_slots;
}

static bool
put_into(const struct plain *plain, uint32_t *bucket, uint32_t hash)
{
	for (uint32_t i = 0; i < plain->bucket_slots; i++)
		if (!bucket[i]) {
			bucket[i] = hash;
			return true;
		}
	return false;
}

bool
plain_insert(struct plain *plain, uint32_t hash, uint32_t *ret_kicks)
{
	uint32_t table = (uint32_t)nam_rng_below(&plain->rng, 2);

	*ret_kicks = 0;
	if (put_into(plain, bucket_of(plain, hash, 0), hash) ||
		put_into(plain, bucket_of(plain, hash, 1), hash))
		return true;
	while (*ret_kicks < plain->kicks_max) {
		uint32_t *victim = bucket_of(plain, hash, table) +
			nam_rng_below(&plain->rng, plain->bucket_slots);
		uint32_t homeless = *victim;

		*victim = hash;
		hash = homeless;
		++*ret_kicks;
		table = 1 - table;
		if (put_into(plain, bucket_of(plain, hash, table), hash))
			return true;
	}
	return false;
}
