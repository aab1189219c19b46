/* SPDX-License-Identifier: Apache-2.0 */
#include "keys.h"

#include <errno.h>
#include <string.h>

/* Below the base: rounds, 12 bits of writer, and the bit that marks inserted keys. */
#define STRIDE_SHIFT_MIN 22u

int
keys_init(struct keys *keys, uint64_t pairs, unsigned dup_shift, uint32_t key_bytes,
	uint16_t writer, bool victims, uint64_t seed)
{
	uint64_t bases = ((pairs - 1) >> dup_shift) + 1;
	unsigned bits = bases <= 1 ? 1 : 64 - (unsigned)__builtin_clzll(bases - 1);

	if (!pairs || bits > 64 - STRIDE_SHIFT_MIN || dup_shift > KEYS_DUP_SHIFT_MAX ||
		writer >= 4096)
		return -EINVAL;
	*keys = (struct keys){
		.pairs = pairs,
		.bases = bases,
		.victims_count = victims ? pairs / KEYS_VICTIMS_EVERY : 0,
		.dup_shift = dup_shift,
		.stride_shift = 64 - bits,
		.key_bytes = key_bytes,
		.writer = writer,
	};
	memset(keys->prefix, '0', sizeof(keys->prefix));
	memcpy(keys->prefix, "user", 4);
	permutation_init(&keys->gaps, bases, seed);
	permutation_init(&keys->order, keys->victims_count ? keys->victims_count : 1, seed + 1);
	return 0;
}
