/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/gaddr.h"

static void
gaddr_make__parts__COME_BACK(void **state)
{
	struct nam_gaddr at = nam_gaddr_make(0xabcd, 0x12345680, 0x9876);

	(void)state;
	assert_int_equal(nam_gaddr_region(at), 0xabcd);
	assert_int_equal(nam_gaddr_offset(at), 0x12345680);
	assert_int_equal(nam_gaddr_tag(at), 0x9876);
}

static void
gaddr_make__largest_parts__COME_BACK(void **state)
{
	uint64_t last = ((1ull << 32) - 1) * NAM_GADDR_UNIT_BYTES;
	struct nam_gaddr at = nam_gaddr_make(UINT16_MAX, last, UINT16_MAX);

	(void)state;
	assert_true(at.raw == UINT64_MAX);
	assert_int_equal(nam_gaddr_region(at), UINT16_MAX);
	assert_true(nam_gaddr_offset(at) == last);
	assert_int_equal(nam_gaddr_tag(at), UINT16_MAX);
}

static void
gaddr_is_null__zero_word__ONLY(void **state)
{
	(void)state;
	assert_true(nam_gaddr_is_null(NAM_GADDR_NULL));
	assert_true(nam_gaddr_is_null(nam_gaddr_make(0, 0, 0)));
	assert_false(nam_gaddr_is_null(nam_gaddr_make(0, 64, 0)));
	assert_false(nam_gaddr_is_null(nam_gaddr_make(1, 0, 0)));
	/* A tag alone makes it something else than null: the word is what is compared. */
	assert_false(nam_gaddr_is_null(nam_gaddr_make(0, 0, 1)));
}

static void
gaddr_tagged__other_tag__REPLACES_THE_OLD(void **state)
{
	struct nam_gaddr at = nam_gaddr_make(7, 640, 0xffff);
	struct nam_gaddr tagged = nam_gaddr_tagged(at, 1);

	(void)state;
	assert_int_equal(nam_gaddr_tag(tagged), 1);
	assert_int_equal(nam_gaddr_region(tagged), 7);
	assert_int_equal(nam_gaddr_offset(tagged), 640);
	assert_false(nam_gaddr_same(at, tagged));
	assert_true(nam_gaddr_same(nam_gaddr_untagged(at), nam_gaddr_untagged(tagged)));
	assert_int_equal(nam_gaddr_tag(nam_gaddr_untagged(at)), 0);
}

static void
gaddr_servers__times_regions__ALL_IDS(void **state)
{
	(void)state;
	assert_int_equal(NAM_SERVERS_MAX * NAM_REGIONS_PER_SERVER, NAM_REGIONS_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gaddr_make__parts__COME_BACK),
		cmocka_unit_test(gaddr_make__largest_parts__COME_BACK),
		cmocka_unit_test(gaddr_is_null__zero_word__ONLY),
		cmocka_unit_test(gaddr_tagged__other_tag__REPLACES_THE_OLD),
		cmocka_unit_test(gaddr_servers__times_regions__ALL_IDS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
