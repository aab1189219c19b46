/* SPDX-License-Identifier: Apache-2.0 */
/* smallbank_test.c -- SmallBank's transactions: their accounts, and the money that they move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/txn/txn.h"

#define ACCOUNTS 100u
#define HOT 4u				/* accounts */
#define DRAWS 20000u
#define WORDS_MAX 3u

static unsigned
kind_of(const char *name)
{
	unsigned kind = 0;

	while (strcmp(txn_smallbank.kinds[kind], name))
		kind++;
	return kind;
}

/* The words of the records afterwards; expects that no other was marked as changed. */
static void
expect(const char *name, int64_t first, int64_t second, int64_t third, int64_t expect_first,
	int64_t expect_second, int64_t expect_third)
{
	const int64_t before[] = { first, second, third };
	const int64_t after[] = { expect_first, expect_second, expect_third };
	struct txn_room room = { .kind = kind_of(name) };

	for (unsigned i = 0; i < WORDS_MAX; i++)
		room.records[i].word = before[i];
	txn_smallbank.apply(&room);
	for (unsigned i = 0; i < WORDS_MAX; i++) {
		assert_int_equal(room.records[i].word, after[i]);
		assert_int_equal(room.records[i].writes, before[i] != after[i]);
	}
}

static void
apply__each_kind__MOVES_ITS_MONEY(void **state)
{
	(void)state;
	expect("amalgamate", 10, 20, 30, 0, 0, 60);
	expect("balance", 10, 20, 30, 10, 20, 30);
	expect("deposit_checking", 10, 20, 30, 140, 20, 30);
	expect("send_payment", 600, 20, 30, 100, 520, 30);
	expect("transact_savings", 10, 20, 30, 2030, 20, 30);
	expect("write_check", 300, 200, 30, -200, 200, 30);
}

static void
apply__too_little_money__NO_PAYMENT_AND_A_FEE(void **state)
{
	(void)state;
	expect("send_payment", 499, 20, 30, 499, 20, 30);
	expect("write_check", 299, 200, 30, -301, 200, 30);
}

static void
draw__any_transaction__DISTINCT_RECORDS_OF_WHICH_FEW_ARE_HOT(void **state)
{
	struct requests bench = { .options = { .keys = ACCOUNTS } };
	struct requests_part part = { .bench = &bench, .rng = nam_rng_seed(1) };
	struct txn_room room = { .part = &part };
	unsigned hot = 0;

	(void)state;
	for (unsigned i = 0; i < DRAWS; i++) {
		txn_smallbank.draw(&part, &room);
		assert_in_range(room.count, 1, WORDS_MAX);
		for (uint32_t k = 0; k < room.count; k++) {
			assert_true(room.records[k].number < 2 * ACCOUNTS);
			for (uint32_t other = 0; other < k; other++)
				assert_int_not_equal(room.records[k].number,
					room.records[other].number);
		}
		hot += room.records[0].number / 2 < HOT;
	}
	assert_in_range(hot, DRAWS * 88 / 100, DRAWS * 92 / 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(apply__each_kind__MOVES_ITS_MONEY),
		cmocka_unit_test(apply__too_little_money__NO_PAYMENT_AND_A_FEE),
		cmocka_unit_test(draw__any_transaction__DISTINCT_RECORDS_OF_WHICH_FEW_ARE_HOT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
