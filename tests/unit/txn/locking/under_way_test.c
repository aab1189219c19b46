/* SPDX-License-Identifier: Apache-2.0 */
/* under_way_test.c -- which transactions of a client are under way, and since when (L3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "txn/records/client_state.h"
#include "txn/records/protocols.h"

static int
begin(void **state)
{
	*state = calloc(1, sizeof(struct nam_client));
	return *state ? 0 : -1;
}

static int
end(void **state)
{
	free(*state);
	return 0;
}

static void
since__none_under_way__AFTER_THE_LAST_TIMESTAMP(void **state)
{
	struct nam_client *client = *state;

	atomic_store(&nam__txn_client(client)->last_us, 100);
	assert_int_equal(nam__under_way_since_us(client), 101);
}

static void
since__some_under_way__THE_EARLIEST_THAT_HAS_NOT_ENDED(void **state)
{
	struct nam_client *client = *state;
	atomic_uint_fast64_t *first, *second;

	atomic_store(&nam__txn_client(client)->last_us, 100);
	first = nam__under_way_enter(client);
	atomic_store(&nam__txn_client(client)->last_us, 200);
	second = nam__under_way_enter(client);
	atomic_store(&nam__txn_client(client)->last_us, 300);
	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(nam__under_way_since_us(client), 101);
	atomic_store(first, 0);
	assert_int_equal(nam__under_way_since_us(client), 201);
	atomic_store(second, 0);
	assert_int_equal(nam__under_way_since_us(client), 301);
}

static void
enter__as_many_as_there_is_room_for__THE_NEXT_ONE_GETS_NONE(void **state)
{
	struct nam_client *client = *state;
	atomic_uint_fast64_t *last = NULL;

	for (unsigned i = 0; i < NAM__UNDER_WAY_MAX; i++) {
		last = nam__under_way_enter(client);
		assert_non_null(last);
	}
	assert_null(nam__under_way_enter(client));
	atomic_store(last, 0);
	assert_ptr_equal(nam__under_way_enter(client), last);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(since__none_under_way__AFTER_THE_LAST_TIMESTAMP,
			begin, end),
		cmocka_unit_test_setup_teardown(
			since__some_under_way__THE_EARLIEST_THAT_HAS_NOT_ENDED, begin, end),
		cmocka_unit_test_setup_teardown(
			enter__as_many_as_there_is_room_for__THE_NEXT_ONE_GETS_NONE, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
