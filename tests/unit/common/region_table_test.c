/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "common/region_table.h"

static struct nam_region_table table;

/* Of the block of its server, which is published with its first region. */
static int
add(uint16_t id, const struct nam_region *region)
{
	struct nam_region_block *block = table.blocks[id / NAM_REGIONS_PER_SERVER];

	if (!block) {
		block = calloc(1, sizeof(*block));
		assert_non_null(block);
		nam_region_table_publish(&table, id / NAM_REGIONS_PER_SERVER, block);
	}
	return nam_region_block_add(block, id, region);
}

static int
setup(void **state)
{
	(void)state;
	nam_region_table_init(&table);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	nam_region_table_free(&table);
	return 0;
}

static void
find__unknown_region__IS_NULL(void **state)
{
	const struct nam_region region = { .bytes = 4096 };

	(void)state;
	assert_null(nam_region_table_find(&table, nam_gaddr_make(5, 64, 0)));
	assert_int_equal(add(4, &region), 0);
	/* The same server's block exists now, the region still does not. */
	assert_null(nam_region_table_find(&table, nam_gaddr_make(5, 64, 0)));
	assert_null(nam_region_table_find(&table, nam_gaddr_make(65535, 64, 0)));
}

static void
find__known_region__IGNORES_OFFSET_AND_TAG(void **state)
{
	struct nam_region region = { .bytes = 4096, .remote = 9, .rkey = 8, .server = 7 };

	(void)state;
	for (uint32_t id = 0; id < NAM_REGIONS_MAX; id += 257) {
		region.rkey = id;
		assert_int_equal(add((uint16_t)id, &region), 0);
	}
	for (uint32_t id = 0; id < NAM_REGIONS_MAX; id += 257) {
		const struct nam_region *found = nam_region_table_find(&table,
			nam_gaddr_make((uint16_t)id, 1 << 20, 0xffff));

		assert_non_null(found);
		assert_int_equal(found->rkey, id);
		assert_int_equal(found->remote, 9);
		assert_int_equal(found->server, 7);
	}
}

static void
add__taken_id__IS_EEXIST(void **state)
{
	const struct nam_region region = { .bytes = 4096 };
	const struct nam_region other = { .bytes = 8192, .remote = 7 };

	(void)state;
	assert_int_equal(add(3, &region), 0);
	assert_int_equal(add(3, &other), -EEXIST);
	assert_int_equal(nam_region_table_find(&table, nam_gaddr_make(3, 0, 0))->bytes, 4096);
	assert_int_equal(nam_region_table_find(&table, nam_gaddr_make(3, 0, 0))->remote, 0);
}

static void
add__impossible_size__IS_EINVAL(void **state)
{
	struct nam_region region = { .bytes = 0 };

	(void)state;
	assert_int_equal(add(3, &region), -EINVAL);
	region.bytes = (256ull << 30) + 1;
	assert_int_equal(add(3, &region), -EINVAL);
	region.bytes = 256ull << 30;
	assert_int_equal(add(3, &region), 0);
}

static void
renew__known_region__ONLY_ITS_KEY_CHANGES(void **state)
{
	const struct nam_region region = { .bytes = 4096, .remote = 9, .rkey = 8, .server = 7 };
	const struct nam_region *found;

	(void)state;
	assert_int_equal(add(3, &region), 0);
	assert_int_equal(add(4, &region), 0);
	found = nam_region_table_find(&table, nam_gaddr_make(3, 64, 0));
	assert_int_equal(nam_region_table_renew(&table, 3, 88, true), 0);
	assert_ptr_equal(nam_region_table_find(&table, nam_gaddr_make(3, 64, 0)), found);
	assert_int_equal(nam_region_rkey(found), 88);
	assert_int_equal(found->bytes, 4096);
	assert_int_equal(found->remote, 9);
	assert_int_equal(found->server, 7);
	assert_int_equal(nam_region_rkey(nam_region_table_find(&table, nam_gaddr_make(4, 0, 0))),
		8);
}

static void
renew__unknown_region__IS_ENOENT(void **state)
{
	const struct nam_region region = { .bytes = 4096 };

	(void)state;
	assert_int_equal(nam_region_table_renew(&table, 3, 88, false), -ENOENT);
	assert_int_equal(add(4, &region), 0);
	assert_int_equal(nam_region_table_renew(&table, 3, 88, false), -ENOENT);
	assert_null(nam_region_table_find(&table, nam_gaddr_make(3, 0, 0)));
}

static void
publish__again__REPLACES_ALL_AT_ONCE(void **state)
{
	const struct nam_region region = { .bytes = 4096, .server = 1 }, later = { .bytes = 8192,
		.server = 2 };
	struct nam_region_block *block = calloc(1, sizeof(*block));
	const struct nam_region *found;

	(void)state;
	assert_non_null(block);
	assert_int_equal(add(3, &region), 0);
	assert_int_equal(add(4, &region), 0);
	found = nam_region_table_find(&table, nam_gaddr_make(3, 0, 0));
	assert_int_equal(nam_region_block_add(block, 3, &later), 0);
	assert_ptr_equal(nam_region_table_find(&table, nam_gaddr_make(3, 0, 0)), found);
	nam_region_table_publish(&table, 0, block);
	assert_int_equal(nam_region_table_find(&table, nam_gaddr_make(3, 0, 0))->server, 2);
	assert_null(nam_region_table_find(&table, nam_gaddr_make(4, 0, 0)));
	/* A reader may have the replaced one. */
	assert_int_equal(found->server, 1);
	assert_int_equal(found->bytes, 4096);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(find__unknown_region__IS_NULL),
		TEST(find__known_region__IGNORES_OFFSET_AND_TAG),
		TEST(add__taken_id__IS_EEXIST),
		TEST(add__impossible_size__IS_EINVAL),
		TEST(publish__again__REPLACES_ALL_AT_ONCE),
		TEST(renew__known_region__ONLY_ITS_KEY_CHANGES),
		TEST(renew__unknown_region__IS_ENOENT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
