/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/ramp/siblings.h"
#include "txn/records/version.h"

#define COUNT_MAX 40u

static const uint64_t ids[NAM__NAMED_IDS] = { 1ull << 63, 77, 5ull << 40, UINT64_MAX };

/* Of the exact size, so that a sanitizer sees a read beyond it; it names none of ours. */
static struct nam_version *
version_new(uint32_t count)
{
	struct nam_version *version = calloc(1, sizeof(*version) +
		count * sizeof(struct nam_version_sibling));
	struct nam_version_sibling *siblings = nam__version_metadata(version);

	assert_non_null(version);
	version->metadata_bytes = (uint16_t)(count * sizeof(*siblings));
	for (uint32_t i = 0; i < count; i++)
		siblings[i] = (struct nam_version_sibling){
			.key_id = ids[i % NAM__NAMED_IDS] ^ 1ull << i,
			/* A value that is no id may equal one. */
			.head = ids[i % NAM__NAMED_IDS],
			.at = ids[(i + 1) % NAM__NAMED_IDS],
		};
	return version;
}

/* Once each of the ids stands in its place of this version. */
static void
name_each(nam__named_fn named, const struct nam_version *const *versions,
	struct nam_version *version, uint32_t at)
{
	struct nam_version_sibling *sibling =
		(struct nam_version_sibling *)nam__version_metadata(version) + at;
	uint64_t is = sibling->key_id;

	for (unsigned id = 0; id < NAM__NAMED_IDS; id++) {
		sibling->key_id = ids[id];
		assert_true(named(versions, 3, ids));
	}
	sibling->key_id = is;
	assert_false(named(versions, 3, ids));
}

static void
named__any_count_place_and_id__FOUND_IF_IT_IS_THERE(void **state)
{
	nam__named_fn kinds[NAM__NAMED_KINDS_MAX];
	unsigned kinds_count = nam__named_kinds(kinds);

	(void)state;
	assert_ptr_equal(nam__named_choose(), kinds[kinds_count - 1]);
	for (uint32_t count = 0; count <= COUNT_MAX; count++) {
		struct nam_version *versions[3] = { version_new(COUNT_MAX - count),
			version_new(count), version_new(count / 2) };

		for (unsigned kind = 0; kind < kinds_count; kind++) {
			const struct nam_version *const *all = (const void *)versions;

			assert_false(kinds[kind](all, 3, ids));
			for (uint32_t at = 0; at < count; at++)
				name_each(kinds[kind], all, versions[1], at);
			for (uint32_t at = 0; at < count / 2; at++)
				name_each(kinds[kind], all, versions[2], at);
		}
		for (unsigned i = 0; i < 3; i++)
			free(versions[i]);
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
