/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/requests/inserted.h"

static void
add__more_than_three_blocks_hold__EACH_IS_WHERE_IT_WAS_PUT(void **state)
{
	static struct inserted inserted;
	uint64_t count = 8 * INSERTED_FIRST + 1;

	(void)state;
	assert_int_equal(inserted_count(&inserted), 0);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(inserted_add(&inserted, 3 * i), 0);
		assert_int_equal(inserted_count(&inserted), i + 1);
	}
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(*inserted_at(&inserted, i), 3 * i);
	assert_non_null(inserted.blocks[3]);
	assert_null(inserted.blocks[4]);
	inserted_free(&inserted);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__more_than_three_blocks_hold__EACH_IS_WHERE_IT_WAS_PUT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
