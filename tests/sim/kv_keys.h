/* SPDX-License-Identifier: Apache-2.0 */
/* kv_keys.h -- keys that crowd a few buckets of the engine cuckoo, so that they kick each other. */
#ifndef NAM_TESTS_SIM_KV_KEYS_H
#define NAM_TESTS_SIM_KV_KEYS_H

#include "kv/kv_internal.h"
#include "kv/server/bucket.h"
#include "kv/server/place.h"

/*
 * The first suitable number from `number` on, in steps of `step`.  Both buckets of its key of 8
 * bytes are among the first `near` of the tables of an empty partition.
 */
static inline uint64_t
sim_kv_crowded(const struct nam_kv *kv, const struct nam__cuckoo_shape *shape, uint32_t near,
	uint64_t number, uint64_t step)
{
	for (uint32_t buckets[2];; number += step) {
		struct nam__kv_place place = nam__kv_place(kv->store, &number, sizeof(number),
			kv->servers, kv->options.partitions);

		nam__cuckoo_buckets_of(shape, place.hash, buckets);
		if (buckets[0] < nam__cuckoo_bucket_number(0, near) &&
			buckets[1] < nam__cuckoo_bucket_number(0, near))
			return number;
	}
}

#endif /* NAM_TESTS_SIM_KV_KEYS_H */
