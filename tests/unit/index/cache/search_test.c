/* SPDX-License-Identifier: Apache-2.0 */
/* Searching in pairs, compared with counting them one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "index/node/search.h"

#define PAIRS_MAX 300u		/* beyond four times what is unrolled */
#define STEP 4ull

/* Keys are STEP, 2 * STEP ...; payloads mislead a search that takes them for keys. */
static void
pairs_make(uint64_t *pairs)
{
	for (uint64_t i = 0; i < PAIRS_MAX; i++) {
		pairs[2 * i] = (i + 1) * STEP;
		pairs[2 * i + 1] = i % 2 ? 0 : UINT64_MAX;
	}
}

static void
pairs_floor__any_count_and_key__LAST_AT_OR_BELOW_OR_THE_FIRST(void **state)
{
	uint64_t pairs[2 * PAIRS_MAX];

	(void)state;
	pairs_make(pairs);
	for (unsigned n = 1; n <= PAIRS_MAX; n++) {
		for (uint64_t key = 0; key <= (n + 2) * STEP; key++) {
			unsigned due = 0;

			while (due + 1 < n && pairs[2 * (due + 1)] <= key)
				due++;
			assert_ptr_equal(nam__pairs_floor(pairs, n, key), pairs + 2 * due);
		}
		assert_ptr_equal(nam__pairs_floor(pairs, n, UINT64_MAX), pairs + 2 * (n - 1));
	}
}

static void
pairs_floor__no_pairs__LOOKS_AT_NONE(void **state)
{
	uint64_t pairs[1] = { 0 };

	(void)state;
	assert_ptr_equal(nam__pairs_floor(pairs, 0, 5), pairs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			pairs_floor__any_count_and_key__LAST_AT_OR_BELOW_OR_THE_FIRST),
		cmocka_unit_test(pairs_floor__no_pairs__LOOKS_AT_NONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
