/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The scalar code of the same release, to compare the dispatched vector code with. */
#define XXH_INLINE_ALL
#define XXH_VECTOR 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "common/env.h"
#include "common/hash/hash.h"

static void
hash64__published_vectors__EQUAL(void **state)
{
	(void)state;
	assert_true(nam_hash64("", 0) == 0x2d06800538d394c2ull);
	assert_true(nam_hash64("a", 1) == 0xe6c632b61e964e1full);
	assert_true(nam_hash64("abc", 3) == 0x78af5f94892f3950ull);
}

/* Nodes are hashed by one host and verified by another: which vector unit it has must not show. */
static void
hash64__every_length_to_2048__SAME_AS_SCALAR_CODE(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);
	uint8_t data[2048 + 7];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)nam_rng_next(&rng);
	for (size_t bytes = 0; bytes <= 2048; bytes++) {
		size_t shift = bytes % 8;

		assert_true(nam_hash64(data + shift, bytes) == XXH3_64bits(data + shift, bytes));
	}
}

static void
hash64_variant__every_length_to_2048__SAME(void **state)
{
	static const char *const vectors[] = { "baseline", "avx2", "avx512" };
	uint8_t data[2048 + 7];
	unsigned compared = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)nam_mix64(i);
	for (int v = 0; v < 3; v++) {
		nam_hash64_fn variant = nam__hash64_variant(vectors[v]);

		for (size_t bytes = 0; variant && bytes <= 2048; bytes++) {
			const uint8_t *at = data + bytes % 8;

			assert_true(variant(at, bytes) == XXH3_64bits(at, bytes));
		}
		compared += variant != NULL;
	}
	assert_in_range(compared, 1, 3);
	assert_null(nam__hash64_variant("mmx"));
}

static void
hash64__one_bit__OTHER_HASH(void **state)
{
	uint8_t data[1024] = { 0 };
	uint64_t whole = nam_hash64(data, sizeof(data));

	(void)state;
	for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(nam_hash64(data, sizeof(data)) != whole);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void
mix64__words__BIJECTIVE_AND_SPREAD(void **state)
{
	unsigned buckets[16] = { 0 };

	(void)state;
	assert_true(nam_mix64(0) == 0);
	for (uint64_t i = 0; i < 16000; i++)
		buckets[nam_mix64(i * 64) % 16]++;
	for (int i = 0; i < 16; i++)
		assert_in_range(buckets[i], 850, 1150);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash64__published_vectors__EQUAL),
		cmocka_unit_test(hash64__every_length_to_2048__SAME_AS_SCALAR_CODE),
		cmocka_unit_test(hash64_variant__every_length_to_2048__SAME),
		cmocka_unit_test(hash64__one_bit__OTHER_HASH),
		cmocka_unit_test(mix64__words__BIJECTIVE_AND_SPREAD),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
