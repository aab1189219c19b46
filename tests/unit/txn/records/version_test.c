/* SPDX-License-Identifier: Apache-2.0 */
/* version_test.c -- versions as blocks of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/records/version.h"

static void
stride__any_length__FITS_few_sizes_and_none_that_nodes_have(void **state)
{
	uint32_t last = 0, sizes = 0;

	(void)state;
	for (uint32_t bytes = 64; bytes <= NAM__VERSION_BYTES_MAX; bytes += 64) {
		uint32_t stride = nam__version_stride(bytes);

		assert_true(stride >= bytes && stride >= last && stride % 64 == 0);
		assert_true(stride - bytes <= 64 || stride - bytes <= bytes / 8);
		for (uint32_t node_bytes = 128; node_bytes <= 65536; node_bytes *= 2)
			assert_int_not_equal(stride, node_bytes + NAM_NODE_STAGGER_BYTES);
		sizes += stride != last;
		last = stride;
	}
	assert_in_range(sizes, 80, 110);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stride__any_length__FITS_few_sizes_and_none_that_nodes_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
