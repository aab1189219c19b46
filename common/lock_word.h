/* SPDX-License-Identifier: Apache-2.0 */
/* lock_word.h -- the word in remote memory that says which client has an object. */
#ifndef NAM_COMMON_LOCK_WORD_H
#define NAM_COMMON_LOCK_WORD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A lock word: 0 is free, otherwise its holder.
 *
 *	merges:1 | owner (client id):15 | incarnation:16 | reserved:1 | sequence:31
 *
 * `merges`: the holder changes more than this object under it: it merges nodes.
 * `reserved`: free; it is the turn of the client that the word names, then of any other (C18).
 *
 * CAS only, never inside a WRITE, by one fabric, for ever; the memory server's CPU leaves it alone.
 */
#define NAM_LOCK_FREE 0ull
#define NAM_LOCK_MERGES (1ull << 63)
#define NAM_LOCK_RESERVED (1ull << 31)

static inline uint64_t
nam_lock_word(uint16_t owner, uint16_t incarnation, uint32_t sequence)
{
	return (uint64_t)owner << 48 | (uint64_t)incarnation << 32 | sequence;
}

static inline bool
nam_lock_held(uint64_t word)
{
	return word != NAM_LOCK_FREE && !(word & NAM_LOCK_RESERVED);
}

static inline uint16_t
nam_lock_owner(uint64_t word)
{
	return (uint16_t)(word >> 48 & 0x7fff);
}

static inline uint16_t
nam_lock_incarnation(uint64_t word)
{
	return (uint16_t)(word >> 32);
}

#endif /* NAM_COMMON_LOCK_WORD_H */
