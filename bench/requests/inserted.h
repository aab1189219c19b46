/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inserted.h -- the new keys of a thread that a store has acknowledged, in that order.  Blocks
 * double and stay where they are, so a reader in another thread needs no lock.
 */
#ifndef NAM_BENCH_REQUESTS_INSERTED_H
#define NAM_BENCH_REQUESTS_INSERTED_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define INSERTED_BLOCKS 32u
#define INSERTED_FIRST 1024u		/* entries of the first block */

struct inserted {
	atomic_uint_fast64_t count;
	uint64_t *blocks[INSERTED_BLOCKS];
};

static inline uint64_t *
inserted_at(const struct inserted *inserted, uint64_t at)
{
	uint64_t from = at / INSERTED_FIRST + 1;
	unsigned block = 63 - (unsigned)__builtin_clzll(from);

	return inserted->blocks[block] + at - ((1ull << block) - 1) * INSERTED_FIRST;
}

/* Only the thread of the keys calls this.  Returns 0 or -ENOMEM. */
static inline int
inserted_add(struct inserted *inserted, uint64_t number)
{
	uint64_t at = atomic_load_explicit(&inserted->count, memory_order_relaxed);
	uint64_t from = at / INSERTED_FIRST + 1;
	unsigned block = 63 - (unsigned)__builtin_clzll(from);

	if (block >= INSERTED_BLOCKS)
		return -ENOMEM;
	if (!inserted->blocks[block])
		inserted->blocks[block] = malloc(sizeof(uint64_t) * INSERTED_FIRST << block);
	if (!inserted->blocks[block])
		return -ENOMEM;
	*inserted_at(inserted, at) = number;
	/* Release: pairs with inserted_count(). */
	atomic_store_explicit(&inserted->count, at + 1, memory_order_release);
	return 0;
}

static inline uint64_t
inserted_count(const struct inserted *inserted)
{
	/* Acquire: pairs with inserted_add(), so a number that is counted can be read. */
	return atomic_load_explicit(&inserted->count, memory_order_acquire);
}

static inline void
inserted_free(struct inserted *inserted)
{
	for (unsigned i = 0; i < INSERTED_BLOCKS; i++)
		free(inserted->blocks[i]);
}

#endif /* NAM_BENCH_REQUESTS_INSERTED_H */
