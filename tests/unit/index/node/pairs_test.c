/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "index/node/pairs.h"

#define COUNT_MAX 70u
#define SKEWS 8u		/* words that a vector of 64 bytes can begin at */
#define UNTOUCHED 0x5a

static uint64_t entries[2 * COUNT_MAX + SKEWS];
static _Alignas(64) uint64_t keys[COUNT_MAX + 2 * SKEWS];
static _Alignas(64) uint64_t payloads[COUNT_MAX + 2 * SKEWS];

static void
copy_and_check(nam__pairs_copy_fn copy, uint32_t count, unsigned keys_skew, unsigned payloads_skew)
{
	const uint64_t *from = entries + payloads_skew;
	uint64_t untouched;

	memset(&untouched, UNTOUCHED, sizeof(untouched));
	memset(keys, UNTOUCHED, sizeof(keys));
	memset(payloads, UNTOUCHED, sizeof(payloads));
	copy(from, count, (uint8_t *)(keys + keys_skew), payloads + payloads_skew);
	for (uint32_t i = 0; i < sizeof(keys) / 8; i++) {
		uint32_t key = i - keys_skew, payload = i - payloads_skew;

		assert_int_equal(keys[i],
			key < count ? __builtin_bswap64(from[2 * key]) : untouched);
		assert_int_equal(payloads[i],
			payload < count ? from[2 * payload + 1] : untouched);
	}
}

/* Nothing beyond the last entry is written, wherever the arrays begin. */
static void
copy__any_count_and_alignment__EXACTLY_THE_PAIRS(void **state)
{
	nam__pairs_copy_fn copies[NAM__PAIRS_COPIES_MAX];
	unsigned kinds = nam__pairs_copies(copies);

	(void)state;
	assert_ptr_equal(nam__pairs_copy_choose(), copies[kinds - 1]);
	for (uint32_t i = 0; i < sizeof(entries) / 8; i++)
		entries[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
	for (unsigned kind = 0; kind < kinds; kind++)
		for (uint32_t count = 0; count <= COUNT_MAX; count++)
			for (unsigned skew = 0; skew < SKEWS; skew++) {
				copy_and_check(copies[kind], count, skew, skew);
				copy_and_check(copies[kind], count, SKEWS - 1 - skew, skew);
			}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__any_count_and_alignment__EXACTLY_THE_PAIRS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
