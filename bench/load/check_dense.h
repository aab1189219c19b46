/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_dense.h -- the check of entries that are just the loaded pairs that are due, by vectors.  A
 * scan delivers an entry in a nanosecond or two, and the check must cost much less.
 */
#ifndef NAM_BENCH_LOAD_CHECK_DENSE_H
#define NAM_BENCH_LOAD_CHECK_DENSE_H

#include <stdint.h>

#define DENSE_CHECKS_MAX 3u

/*
 * Are these pairs with keys of 8 bytes, 2^stride_shift apart from `key` on, and with their
 * payloads, as far as `mask` goes?  Any bit of the result says no.
 */
struct dense_check {
	uint64_t (*pairs)(const uint8_t *entry_keys, const uint64_t *payloads, uint32_t count,
		uint64_t key, unsigned stride_shift, uint64_t mask);
	/* Checks entries in place, keys and payloads in turn: nam_cursor_next_entries(). */
	uint64_t (*entries)(const uint64_t *entries, uint32_t count, uint64_t key,
		unsigned stride_shift, uint64_t mask);
};

/* The checks that this processor can run, the fastest last.  Returns how many. */
unsigned dense_checks(struct dense_check ret_checks[DENSE_CHECKS_MAX]);

#endif /* NAM_BENCH_LOAD_CHECK_DENSE_H */
