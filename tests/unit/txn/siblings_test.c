/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/siblings.h"

#define COUNT_MAX 40u

static const uint64_t ids[NAM__NAMED_IDS] = { 1ull << 63, 77, 5ull << 40, UINT64_MAX };

/* Of the exact size, so that a sanitizer sees who looks beyond; none has an id of ours. */
static struct nam_version_sibling *
siblings_new(uint32_t count)
{
	struct nam_version_sibling *siblings = malloc(count * sizeof(*siblings) + !count);

	assert_non_null(siblings);
	for (uint32_t i = 0; i < count; i++)
		siblings[i] = (struct nam_version_sibling){
			.key_id = ids[i % NAM__NAMED_IDS] ^ 1ull << i,
			/* What is no id may well be the same as one. */
			.head = ids[i % NAM__NAMED_IDS],
			.at = ids[(i + 1) % NAM__NAMED_IDS],
		};
	return siblings;
}

static void
named__any_count_place_and_id__FOUND_IF_IT_IS_THERE(void **state)
{
	nam__named_fn kinds[NAM__NAMED_KINDS_MAX];
	unsigned kinds_count = nam__named_kinds(kinds);

	(void)state;
	assert_ptr_equal(nam__named_choose(), kinds[kinds_count - 1]);
	for (uint32_t count = 0; count <= COUNT_MAX; count++) {
		struct nam_version_sibling *siblings = siblings_new(count);

		for (unsigned kind = 0; kind < kinds_count; kind++) {
			assert_false(kinds[kind](siblings, count, ids));
			for (uint32_t at = 0; at < count; at++) {
				uint64_t is = siblings[at].key_id;

				for (unsigned id = 0; id < NAM__NAMED_IDS; id++) {
					siblings[at].key_id = ids[id];
					assert_true(kinds[kind](siblings, count, ids));
				}
				siblings[at].key_id = is;
			}
		}
		free(siblings);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named__any_count_place_and_id__FOUND_IF_IT_IS_THERE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
