/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h -- a conventional cuckoo table of hashes: two tables of buckets (Pagh and Rodler, ESA
 * 2001).  It kicks pairs out at random.  Buckets are those of kv/server/cuckoo.h.
 */
#ifndef NAM_BENCH_CUCKOO_PLAIN_H
#define NAM_BENCH_CUCKOO_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"

struct plain {
	uint32_t *slots;		/* of both tables; 0: free */
	uint32_t buckets;		/* of each table */
	uint32_t bucket_slots;
	uint32_t kicks_max;		/* of an insert */
	struct nam_rng rng;
};

/*
 * Add a pair; `hash` is not 0.  *ret_kicks: pairs that were kicked out.  False: kicks_max were, and
 * one pair has no slot and is forgotten.
 */
bool plain_insert(struct plain *plain, uint32_t hash, uint32_t *ret_kicks);

#endif /* NAM_BENCH_CUCKOO_PLAIN_H */
