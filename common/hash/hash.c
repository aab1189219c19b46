/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include <stdatomic.h>
#include <string.h>

#include "inline.h"

static uint64_t choose(const void *data, size_t bytes);

/* Relaxed: a thread that does not see the choice yet makes the same one. */
static _Atomic(nam_hash64_fn) chosen = choose;

/* For any processor of the kind that we are built for. */
static uint64_t
hash_baseline(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

nam_hash64_fn
nam__hash64_variant(const char *vector)
{
#if defined(__x86_64__)
	/* The operating system has to save the registers, too; that is looked at. */
	if (!strcmp(vector, "avx512"))
		return __builtin_cpu_supports("avx512f") ? nam__hash64_avx512 : NULL;
	if (!strcmp(vector, "avx2"))
		return __builtin_cpu_supports("avx2") ? nam__hash64_avx2 : NULL;
#endif
	return !strcmp(vector, "baseline") ? hash_baseline : NULL;
}

static uint64_t
choose(const void *data, size_t bytes)
{
	nam_hash64_fn best = nam__hash64_variant("avx512");

	if (!best)
		best = nam__hash64_variant("avx2");
	if (!best)
		best = hash_baseline;
	atomic_store_explicit(&chosen, best, memory_order_relaxed);
	return best(data, bytes);
}

uint64_t
nam_hash64(const void *data, size_t bytes)
{
	return atomic_load_explicit(&chosen, memory_order_relaxed)(data, bytes);
}
