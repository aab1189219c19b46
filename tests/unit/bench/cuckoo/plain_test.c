/* SPDX-License-Identifier: Apache-2.0 */
/* plain_test.c -- a conventional cuckoo table: where pairs are, how many were kicked out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/cuckoo/plain.h"
#include "kv/server/cuckoo.h"

#define BUCKETS 256u
#define SLOTS_MAX (2 * BUCKETS * 4)

static uint32_t slots[SLOTS_MAX], before[SLOTS_MAX], pairs[SLOTS_MAX + 1], count;
static struct plain plain;

static void
begin(uint32_t bucket_slots, uint32_t kicks_max)
{
	memset(slots, 0, sizeof(slots));
	plain = (struct plain){ slots, BUCKETS, bucket_slots, kicks_max, nam_rng_seed(3) };
	count = 0;
}

static bool
has(uint32_t hash)
{
	for (uint32_t table = 0; table < 2; table++) {
		uint32_t index = (uint32_t)((uint64_t)nam__cuckoo_table_hash(hash, table) *
					    BUCKETS >> 32);

		for (uint32_t i = 0; i < plain.bucket_slots; i++)
			if (slots[(table * BUCKETS + index) * plain.bucket_slots + i] == hash)
				return true;
	}
	return false;
}

/* Adds pairs up to this many, or to the first that gives up; checks all.  Returns the kick-outs. */
static uint32_t
fill(uint32_t most)
{
	struct nam_rng rng = nam_rng_seed(11);
	uint32_t sum = 0, missing = 0;
	bool placed = true;

	while (count < most && placed) {
		uint32_t hash = (uint32_t)nam_rng_next(&rng) | 1, kicks, changed = 0;

		memcpy(before, slots, sizeof(slots));
		placed = plain_insert(&plain, hash, &kicks);
		pairs[count++] = hash;
		if (!placed) {
			assert_int_equal(kicks, plain.kicks_max);
			break;
		}
		for (uint32_t i = 0; i < SLOTS_MAX; i++)
			changed += slots[i] != before[i];
		/* A walk may come to a slot twice. */
		assert_in_range(changed, 1, kicks + 1);
		sum += kicks;
	}
	for (uint32_t i = 0; i < count; i++)
		missing += !has(pairs[i]);
	assert_int_equal(missing, !placed);
	return sum;
}

static void
insert__below_the_threshold__EACH_PAIR_IS_IN_A_BUCKET_OF_ITS_OWN(void **state)
{
	(void)state;
	begin(4, 500);
	assert_true(fill(SLOTS_MAX * 9 / 10) > 100);
	assert_int_equal(count, SLOTS_MAX * 9 / 10);
	begin(1, 500);
	assert_true(fill(BUCKETS * 2 * 4 / 10) > 0);
	assert_int_equal(count, BUCKETS * 2 * 4 / 10);
}

static void
insert__more_than_a_table_takes__GIVES_UP_AFTER_SO_MANY_KICK_OUTS(void **state)
{
	uint32_t hash = 12345, kicks, held = 0;

	(void)state;
	begin(4, 77);
	(void)fill(SLOTS_MAX + 1);
	assert_in_range(count, SLOTS_MAX * 9 / 10, SLOTS_MAX);
	/* Nine pairs of two buckets. */
	begin(4, 20);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(plain_insert(&plain, hash, &kicks));
		assert_int_equal(kicks, 0);
	}
	assert_false(plain_insert(&plain, hash, &kicks));
	assert_int_equal(kicks, 20);
	for (uint32_t i = 0; i < SLOTS_MAX; i++)
		held += slots[i] == hash;
	assert_int_equal(held, 8);
}

/* Tables of one slot a bucket, as the paper has them: each kick-out follows from the one before. */
#define WALK_BUCKETS 64u
#define WALK_SLOTS (2 * WALK_BUCKETS)
#define WALK_MAX (4 * WALK_SLOTS)

static void
insert__no_slot_for_it_below_full_load__COMES_BACK_TO_A_STATE_AND_SO_LOOPS(void **state)
{
	static uint32_t table[WALK_SLOTS], after[WALK_MAX][WALK_SLOTS];
	struct nam_rng rng = nam_rng_seed(11);
	struct plain from;
	uint32_t hash, kicks, length = 0;

	(void)state;
	begin(1, WALK_MAX);
	plain.buckets = WALK_BUCKETS;
	do {
		hash = (uint32_t)nam_rng_next(&rng) | 1;
		from = plain;
		memcpy(table, slots, sizeof(table));
		count++;
	} while (plain_insert(&plain, hash, &kicks));
	assert_in_range(count, WALK_SLOTS / 4, WALK_SLOTS * 3 / 4);
	/* The same insert again, up to each kick-out. */
	for (uint32_t i = 0; i < WALK_MAX; i++) {
		struct plain walk = from;

		walk.slots = after[i];
		walk.kicks_max = i;
		memcpy(after[i], table, sizeof(table));
		assert_false(plain_insert(&walk, hash, &kicks));
		assert_int_equal(kicks, i);
	}
	/* The same pairs in the same slots.  So the same one has none, for the same table. */
	for (uint32_t i = 0; i < WALK_MAX && !length; i++)
		for (uint32_t k = i + 2; k < WALK_MAX && !length; k += 2)
			if (!memcmp(after[i], after[k], sizeof(table)))
				length = k - i;
	assert_true(length > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(insert__below_the_threshold__EACH_PAIR_IS_IN_A_BUCKET_OF_ITS_OWN),
		cmocka_unit_test(insert__more_than_a_table_takes__GIVES_UP_AFTER_SO_MANY_KICK_OUTS),
		cmocka_unit_test(
			insert__no_slot_for_it_below_full_load__COMES_BACK_TO_A_STATE_AND_SO_LOOPS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
