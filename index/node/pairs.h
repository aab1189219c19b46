/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h -- leaf entries of one-word keys, taken apart into keys and payloads.
 */
#ifndef NAM_INDEX_NODE_PAIRS_H
#define NAM_INDEX_NODE_PAIRS_H

#include <stdint.h>

/* Entry i is words 2i (key) and 2i + 1 (payload); keys come out as big-endian bytes. */
typedef void (*nam__pairs_copy_fn)(const uint64_t *entries, uint32_t count, uint8_t *ret_keys,
	uint64_t *ret_payloads);

#define NAM__PAIRS_COPIES_MAX 3u

/* The copies that this processor can run, the fastest last.  Returns how many. */
unsigned nam__pairs_copies(nam__pairs_copy_fn ret_copies[NAM__PAIRS_COPIES_MAX]);

/* The fastest for this processor. */
nam__pairs_copy_fn nam__pairs_copy_choose(void);

#endif /* NAM_INDEX_NODE_PAIRS_H */
