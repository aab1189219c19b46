/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/load/keys.h"

static struct keys
make(uint64_t pairs, unsigned dup_shift, bool victims)
{
	struct keys keys;

	assert_int_equal(keys_init(&keys, pairs, dup_shift, 8, 77, victims, 5), 0);
	return keys;
}

static void
init__too_many_keys_for_gaps__EINVAL(void **state)
{
	struct keys keys;

	(void)state;
	assert_int_equal(keys_init(&keys, 1ull << 43, 0, 8, 1, false, 1), -EINVAL);
	assert_int_equal(keys_init(&keys, 0, 0, 8, 1, false, 1), -EINVAL);
	assert_int_equal(keys_init(&keys, 10, 0, 8, 4096, false, 1), -EINVAL);
	assert_int_equal(keys_init(&keys, 1ull << 42, 0, 8, 1, false, 1), 0);
}

static void
loaded__numbers_in_order__KEYS_AND_PAIRS_ASCEND(void **state)
{
	(void)state;
	for (unsigned dup_shift = 0; dup_shift < 4; dup_shift++) {
		struct keys keys = make(1000, dup_shift, false);

		for (uint64_t i = 1; i < 1000; i++) {
			uint64_t a = keys_loaded(&keys, i - 1), b = keys_loaded(&keys, i);

			assert_true(a < b || (a == b && dup_shift &&
						     keys_loaded_payload(&keys, i - 1) <
							     keys_loaded_payload(&keys, i)));
			assert_false(keys_is_inserted(&keys, b));
		}
	}
}

static void
loaded__last_key_of_a_power_of_two__NO_OVERFLOW(void **state)
{
	struct keys keys = make(1ull << 20, 0, false);

	(void)state;
	assert_true(keys_loaded(&keys, (1ull << 20) - 1) > keys_loaded(&keys, (1ull << 20) - 2));
}

static void
inserted__many_rounds__NEW_KEYS_THAT_KNOW_THEIR_NUMBER(void **state)
{
	enum { BASES = 64, PAIRS = BASES * 20 };
	static uint64_t seen[PAIRS], payloads[PAIRS];

	(void)state;
	for (unsigned dup_shift = 0; dup_shift < 3; dup_shift++) {
		struct keys keys = make((uint64_t)BASES << dup_shift, dup_shift, false);

		for (uint64_t n = 0; n < PAIRS; n++) {
			seen[n] = keys_inserted(&keys, n, &payloads[n]);
			assert_true(keys_is_inserted(&keys, seen[n]));
			assert_int_equal(keys_inserted_writer(seen[n]), 77);
			assert_int_equal(keys_inserted_number(&keys, seen[n],
						 payloads[n] >> KEYS_HASH_BITS),
				n);
			for (uint64_t other = 0; other < n; other++)
				assert_true(seen[other] != seen[n] ||
					    payloads[other] != payloads[n]);
		}
	}
}

static void
inserted__other_writer__OTHER_KEYS(void **state)
{
	struct keys a = make(100, 0, false), b = a;
	uint64_t payload;

	(void)state;
	b.writer = 78;
	assert_true(keys_inserted(&a, 5, &payload) != keys_inserted(&b, 5, &payload));
}

static void
victims__numbers__EACH_ONCE_AND_BACK(void **state)
{
	struct keys keys = make(1003, 0, true);
	uint8_t seen[1003] = { 0 };

	(void)state;
	assert_int_equal(keys.victims_count, 250);
	for (uint64_t n = 0; n < keys.victims_count; n++) {
		uint64_t pair = keys_victim(&keys, n);

		assert_true(pair < 1003);
		assert_true(keys_is_victim(&keys, pair));
		assert_false(seen[pair]);
		seen[pair] = 1;
		assert_int_equal(keys_victim_number(&keys, pair), n);
	}
	for (uint64_t pair = 0; pair < 1003; pair++) {
		assert_int_equal(keys_is_victim(&keys, pair), seen[pair]);
		assert_false(keys_is_victim(&keys, keys_lasting(&keys, pair)));
		assert_int_equal(keys_victims_below(&keys, pair + 1) -
					 keys_victims_below(&keys, pair),
			seen[pair]);
	}
}

static void
bytes__long_keys__ORDER_AND_INTEGER_SURVIVE(void **state)
{
	struct keys keys;
	uint8_t low[64], high[64];

	(void)state;
	for (uint32_t key_bytes = 8; key_bytes <= 64; key_bytes++) {
		assert_int_equal(keys_init(&keys, 100, 0, key_bytes, 1, false, 1), 0);
		keys_prepare(&keys, low);
		keys_prepare(&keys, high);
		keys_write(&keys, 0x00ffull, low);
		keys_write(&keys, 0x0100ull, high);
		assert_true(memcmp(low, high, key_bytes) < 0);
		assert_int_equal(keys_read(&keys, high), 0x0100);
		assert_true(keys_prefix_right(&keys, low));
		if (key_bytes > 8) {
			low[0] ^= 1;
			assert_false(keys_prefix_right(&keys, low));
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__too_many_keys_for_gaps__EINVAL),
		cmocka_unit_test(loaded__numbers_in_order__KEYS_AND_PAIRS_ASCEND),
		cmocka_unit_test(loaded__last_key_of_a_power_of_two__NO_OVERFLOW),
		cmocka_unit_test(inserted__many_rounds__NEW_KEYS_THAT_KNOW_THEIR_NUMBER),
		cmocka_unit_test(inserted__other_writer__OTHER_KEYS),
		cmocka_unit_test(victims__numbers__EACH_ONCE_AND_BACK),
		cmocka_unit_test(bytes__long_keys__ORDER_AND_INTEGER_SURVIVE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
