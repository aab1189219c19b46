/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "index/node/node.h"

#define SEED 1u

struct shape {
	uint32_t key_bytes, node_bytes;
	bool unique;
};

static void
geometry_init__parameters_out_of_range__EINVAL(void **state)
{
	static const struct shape bad[] = {
		{ 0, 1024, true },
		{ 7, 1024, true },
		{ 65, 1024, true },
		{ 8, 128, true },
		{ 8, 1000, true },
		{ 8, 32768, true },
		{ 8, 0, true },
		{ 64, 256, true },
		{ 32, 256, false },
		{ UINT32_MAX, 1024, true },
		{ 8, UINT32_MAX, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nam_index_options options = {
			.key_bytes = bad[i].key_bytes,
			.node_bytes = bad[i].node_bytes,
			.unique = bad[i].unique,
		};
		struct nam__geometry g;

		assert_int_equal(nam__geometry_init(&g, &options, SEED), -EINVAL);
	}
}

/* A head node names as many leaves as it can: the default interval does for any node. */
static void
geometry_init__more_leaves_than_a_head_node_can_name__ACCEPTED(void **state)
{
	struct nam_index_options options;
	struct nam__geometry g;

	(void)state;
	nam_index_options_init(&options);
	options.node_bytes = NAM_NODE_BYTES_MIN;
	assert_int_equal(nam__geometry_init(&g, &options, SEED), 0);
	assert_true(g.head_capacity < options.head_interval);
}

static void
geometry_init__every_shape__ENTRIES_FIT_BETWEEN_FENCES_AND_REAR_WORD(void **state)
{
	(void)state;
	for (uint32_t key_bytes = NAM_KEY_BYTES_MIN; key_bytes <= NAM_KEY_BYTES_MAX; key_bytes++) {
		for (uint32_t bytes = NAM_NODE_BYTES_MIN; bytes <= NAM_NODE_BYTES_MAX; bytes *= 2) {
			struct nam_index_options options = {
				.key_bytes = key_bytes,
				.node_bytes = bytes,
				.unique = bytes & 0x555,
			};
			struct nam__geometry g;

			if (nam__geometry_init(&g, &options, SEED))
				continue;
			assert_true(g.leaf_capacity >= 4 && g.inner_capacity >= 4);
			assert_true(g.entries_at >= NAM__WORD_LOW + 2 * g.full_words);
			assert_true(g.entries_at + g.leaf_capacity * g.leaf_words < g.node_words);
			assert_true(g.entries_at + g.inner_capacity * g.inner_words < g.node_words);
			assert_true(g.entries_at + g.head_capacity < g.node_words);
			assert_int_equal(g.stride % 64, 0);
			assert_true(g.stride > g.node_bytes);
			assert_true(g.full_words <= NAM__KEY_WORDS_MAX);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(geometry_init__parameters_out_of_range__EINVAL),
		cmocka_unit_test(
			geometry_init__more_leaves_than_a_head_node_can_name__ACCEPTED),
		cmocka_unit_test(
			geometry_init__every_shape__ENTRIES_FIT_BETWEEN_FENCES_AND_REAR_WORD),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
