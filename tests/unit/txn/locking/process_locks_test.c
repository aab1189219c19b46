/* SPDX-License-Identifier: Apache-2.0 */
/* process_locks_test.c -- transactions of one process wait for each other's records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/index_fixture.h"
#include "txn/records/protocols.h"

#define MIB (1ull << 20)
#define PARTIES 3u
#define YIELDS 200u			/* enough for others to get on, if they may */

TEST_CLUSTER(1, test_memory(16 * MIB), 0, 200)

/* A transaction of a fiber of its own. */
struct party {
	struct nam__txn *txn;
	bool writes, has, goes;
};

static struct nam_records records;
static struct party parties[PARTIES];

static void
party_main(void *arg)
{
	struct party *party = arg;
	struct nam__process_locks_held held;

	nam__process_locks_take(party->txn, party->writes, &held); /* SUSPENDS */
	party->has = true;
	while (!party->goes)
		nam_worker_yield(me.worker); /* SUSPENDS */
	party->has = false;
	nam__process_locks_give(party->txn, party->writes, &held);
}

/* The next party: it wants some records. */
static void
party_come(struct party *party, bool writes, const uint64_t *ids, uint32_t count)
{
	party->txn = calloc(1, sizeof(*party->txn));
	assert_non_null(party->txn);
	party->txn->worker = me.worker;
	party->txn->records = &records;
	party->txn->count = count;
	for (uint32_t i = 0; i < count; i++)
		party->txn->items[i].id.word[0] = ids[i];
	party->writes = writes;
	assert_int_equal(nam_worker_spawn(me.worker, party_main, party), 0);
}

static void
turns(void)
{
	for (unsigned i = 0; i < YIELDS; i++)
		nam_worker_yield(me.worker); /* SUSPENDS */
}

static void
expect(bool first, bool second, bool third)
{
	turns();
	assert_int_equal(parties[0].has, first);
	assert_int_equal(parties[1].has, second);
	assert_int_equal(parties[2].has, third);
}

static int
begin(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PARTIES; i++)
		parties[i] = (struct party){ .txn = NULL };
	return nam__process_locks_new(&records.process_locks);
}

/* All go, and each had what it wanted. */
static int
end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PARTIES; i++)
		parties[i].goes = true;
	nam_worker_run(me.worker);
	for (unsigned i = 0; i < PARTIES; i++)
		free(parties[i].txn);
	free(records.process_locks);
	return 0;
}

static void
take__one_record__WRITERS_WAIT_IN_ORDER(void **state)
{
	static const uint64_t one[] = { 7 };

	(void)state;
	for (unsigned i = 0; i < PARTIES; i++)
		party_come(&parties[i], true, one, 1);
	expect(true, false, false);
	parties[0].goes = true;
	expect(false, true, false);
	parties[1].goes = true;
	expect(false, false, true);
}

static void
take__one_record__READERS_SHARE_AND_A_WRITER_WAITS(void **state)
{
	static const uint64_t one[] = { 7 };

	(void)state;
	party_come(&parties[0], false, one, 1);
	party_come(&parties[1], false, one, 1);
	party_come(&parties[2], true, one, 1);
	expect(true, true, false);
	parties[0].goes = true;
	expect(false, true, false);
	parties[1].goes = true;
	expect(false, false, true);
}

/* In either order, and one of them twice. */
static void
take__several_records__NO_DEADLOCK_AND_OTHERS_GO_ON(void **state)
{
	static const uint64_t up[] = { 7, 9 }, down[] = { 9, 7, 9 }, other[] = { 8 };

	(void)state;
	party_come(&parties[0], true, up, 2);
	party_come(&parties[1], true, down, 3);
	party_come(&parties[2], true, other, 1);
	expect(true, false, true);
	parties[0].goes = true;
	expect(false, true, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(take__one_record__WRITERS_WAIT_IN_ORDER, begin,
			end),
		cmocka_unit_test_setup_teardown(take__one_record__READERS_SHARE_AND_A_WRITER_WAITS,
			begin, end),
		cmocka_unit_test_setup_teardown(take__several_records__NO_DEADLOCK_AND_OTHERS_GO_ON,
			begin, end),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
