/* SPDX-License-Identifier: Apache-2.0 */
/* locks_test.c -- locks in the heads of records, on plain memory and at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "txn/server/locks.h"

#define BYTES 4096u
#define NOW_NS (10 * NAM_RECORDS_KEEP_NS)
#define LEASE_NS NAM_LOCKING_LEASE_NS

struct memory {
	_Alignas(64) uint8_t bytes[BYTES];
	uint32_t locks[NAM__RECORDS_LOCKS];
	struct nam__finished clients[NAM_CLIENTS_MAX];
	struct nam__server_records records;
	struct nam__server_head *head;
	uint64_t of;			/* what the last refusal said */
};

static void *
find(void *arg, uint64_t at, uint32_t bytes)
{
	struct memory *memory = arg;
	uint64_t offset = nam_gaddr_offset(NAM_GADDR(at));

	return bytes <= BYTES && offset <= BYTES - bytes ? memory->bytes + offset : NULL;
}

static int
setup(void **state)
{
	static struct memory memory;

	memset(&memory, 0, sizeof(memory));
	memory.records = (struct nam__server_records){ .find = find, .arg = &memory,
		.locks = memory.locks, .finished = memory.clients };
	memory.head = find(&memory, 0, 64);
	*state = &memory;
	return 0;
}

static uint32_t
read_at(struct memory *memory, uint32_t birth_us, uint64_t now_ns)
{
	const struct nam__server_requester requester = { 0, birth_us, now_ns };

	return nam__server_lock_shared(memory->head, &requester, &memory->of);
}

static uint32_t
write_at(struct memory *memory, uint64_t timestamp, uint32_t birth_us, uint64_t now_ns)
{
	const struct nam__server_requester requester = { timestamp, birth_us, now_ns };

	return nam__server_lock_exclusive(&memory->records, memory->head, &requester, &memory->of);
}

/* A version of 64 bytes in block `number`, and `about` of them say of siblings. */
static uint64_t
prepare(struct memory *memory, uint32_t number, uint64_t timestamp, uint16_t about)
{
	uint64_t at = nam__version_at(nam_gaddr_make(0, number * 64, 0), 64).raw;
	struct nam_version *version = find(memory, at, 64);

	*version = (struct nam_version){ .current = timestamp, .timestamp = timestamp,
		.metadata_bytes = about };
	assert_int_equal(nam__server_record_prepare(&memory->records, memory->head, at), 0);
	return at;
}

static uint32_t
commit(struct memory *memory, uint64_t at, uint64_t now_ns)
{
	uint64_t retired[8];

	return nam__server_record_commit(&memory->records, memory->head, at, now_ns, retired, 8);
}

static void
lock_shared__by_several__ALL_GRANTED_AND_NO_WRITER(void **state)
{
	struct memory *memory = *state;

	assert_int_equal(read_at(memory, 1, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(read_at(memory, 2, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(write_at(memory, 4096, 3, NOW_NS), NAM_LOCKING_BUSY);
	assert_true(nam__server_unlock_shared(memory->head, 0));
	assert_int_equal(write_at(memory, 4096, 3, NOW_NS), NAM_LOCKING_BUSY);
	assert_true(nam__server_unlock_shared(memory->head, 0));
	assert_int_equal(write_at(memory, 4096, 3, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(read_at(memory, 4, NOW_NS), NAM_LOCKING_BUSY);
	assert_int_equal(memory->of, 4096);
	assert_int_equal(write_at(memory, 8192, 5, NOW_NS), NAM_LOCKING_BUSY);
	nam__server_unlock_exclusive(memory->head);
	assert_int_equal(write_at(memory, 8192, 4, NOW_NS), NAM_LOCKING_GRANTED);
}

/* A refused older transaction precedes a younger one, for a while. */
static void
lock__somebody_older_was_refused__HIS_TURN(void **state)
{
	struct memory *memory = *state;
	const uint64_t over_ns = NOW_NS + NAM_LOCKING_TURN_NS + 10000;

	assert_int_equal(read_at(memory, 1, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(write_at(memory, 4096, 5, NOW_NS), NAM_LOCKING_BUSY);
	assert_int_equal(read_at(memory, 6, NOW_NS), NAM_LOCKING_BUSY);
	assert_int_equal(read_at(memory, 4, NOW_NS), NAM_LOCKING_GRANTED);
	assert_true(nam__server_unlock_shared(memory->head, 0));
	assert_true(nam__server_unlock_shared(memory->head, 0));
	assert_int_equal(write_at(memory, 8192, 6, NOW_NS), NAM_LOCKING_BUSY);
	assert_int_equal(write_at(memory, 4096, 5, NOW_NS), NAM_LOCKING_GRANTED);
	nam__server_unlock_exclusive(memory->head);
	/* It was granted: no turn is reserved. */
	assert_int_equal(write_at(memory, 8192, 6, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(write_at(memory, 12288, 2, NOW_NS), NAM_LOCKING_BUSY);
	nam__server_unlock_exclusive(memory->head);
	assert_int_equal(read_at(memory, 7, NOW_NS), NAM_LOCKING_BUSY);
	/* The writer did not come again. */
	assert_int_equal(read_at(memory, 7, over_ns), NAM_LOCKING_GRANTED);
}

static void
unlock_shared__taken_away__LOST(void **state)
{
	struct memory *memory = *state;

	assert_int_equal(read_at(memory, 1, NOW_NS), NAM_LOCKING_GRANTED);
	assert_int_equal(write_at(memory, 4096, 2, NOW_NS + LEASE_NS - 1), NAM_LOCKING_BUSY);
	assert_int_equal(write_at(memory, 4096, 2, NOW_NS + LEASE_NS), NAM_LOCKING_GRANTED);
	nam__server_unlock_exclusive(memory->head);
	assert_int_equal(read_at(memory, 3, NOW_NS + LEASE_NS), NAM_LOCKING_GRANTED);
	assert_false(nam__server_unlock_shared(memory->head, 0));
	assert_true(nam__server_unlock_shared(memory->head, 1));
	assert_false(nam__server_unlock_shared(memory->head, 1));
}

static void
lock_exclusive__lease_is_over__EXPIRED_and_to_be_terminated(void **state)
{
	struct memory *memory = *state;
	uint64_t at, where;

	assert_int_equal(write_at(memory, 4096, 1, NOW_NS), NAM_LOCKING_GRANTED);
	at = prepare(memory, 1, 4096, 0);
	assert_int_equal(read_at(memory, 2, NOW_NS + LEASE_NS), NAM_LOCKING_EXPIRED);
	assert_int_equal(memory->of, 4096);
	/* Late, but it has not been taken away. */
	assert_true(nam__server_lock_is(memory->head, 4096, false));
	assert_false(nam__server_lock_is(memory->head, 4096, true));
	assert_int_equal(nam__server_lock_seal(&memory->records, memory->head, 4096, &where),
		NAM_LOCKING_SEALED);
	assert_int_equal(where, at);
	assert_false(nam__server_lock_is(memory->head, 4096, false));
	assert_true(nam__server_lock_is(memory->head, 4096, true));
	assert_false(nam__server_lock_is(memory->head, 8192, true));
	/* Any client may terminate a sealed one at once. */
	assert_int_equal(write_at(memory, 8192, 3, NOW_NS), NAM_LOCKING_EXPIRED);
	assert_int_equal(commit(memory, at, NOW_NS), 0);
	nam__server_unlock_exclusive(memory->head);
	assert_int_equal(nam__server_lock_seal(&memory->records, memory->head, 4096, &where),
		NAM_LOCKING_COMMITTED);
	assert_int_equal(where, 0);
}

static void
lock_exclusive__not_later_than_what_is_there__EARLY(void **state)
{
	struct memory *memory = *state;
	uint64_t at, where;

	assert_int_equal(write_at(memory, 8192, 1, NOW_NS), NAM_LOCKING_GRANTED);
	at = prepare(memory, 1, 8192, 0);
	assert_int_equal(commit(memory, at, NOW_NS), 0);
	nam__server_unlock_exclusive(memory->head);
	assert_int_equal(write_at(memory, 8192, 2, NOW_NS), NAM_LOCKING_EARLY);
	assert_int_equal(memory->of, 8192);
	/* It is not later than a version that was asked for and was not there, either. */
	assert_int_equal(nam__server_lock_seal(&memory->records, memory->head, 16384, &where),
		NAM_LOCKING_UNKNOWN);
	assert_int_equal(write_at(memory, 16384, 2, NOW_NS), NAM_LOCKING_EARLY);
	assert_int_equal(memory->of, 16384);
	assert_int_equal(write_at(memory, 16385, 2, NOW_NS), NAM_LOCKING_GRANTED);
}

/* By client 1, at 1, 2 and 3 microseconds. */
static void
commit__replaced_long_ago__STAYS_UNTIL_ITS_TRANSACTION_IS_OVER(void **state)
{
	struct memory *memory = *state;
	const uint64_t first = 4096 + 1, second = 2 * 4096 + 1, third = 3 * 4096 + 1;
	uint64_t where, later_ns = NOW_NS + 2 * NAM_RECORDS_KEEP_NS;

	(void)commit(memory, prepare(memory, 1, first, 24), NOW_NS);
	(void)commit(memory, prepare(memory, 2, second, 24), NOW_NS);
	assert_int_equal(commit(memory, 0, later_ns), 0);
	assert_int_equal(nam__server_lock_seal(&memory->records, memory->head, first, &where),
		NAM_LOCKING_COMMITTED);
	nam__finished_add(&memory->clients[1], 1, 1);
	assert_int_equal(commit(memory, 0, later_ns), 0);
	nam__finished_add(&memory->clients[1], 1, 2);
	assert_int_equal(commit(memory, 0, later_ns), 1);
	/* One without other records is evidence for none. */
	(void)commit(memory, prepare(memory, 3, third, 0), later_ns);
	nam__finished_add(&memory->clients[1], 1, 3);
	assert_int_equal(commit(memory, 0, later_ns + 2 * NAM_RECORDS_KEEP_NS), 1);
}

static void
finished__another_has_the_id__GAP_IS_NEVER_OVER(void **state)
{
	struct memory *memory = *state;
	struct nam__finished *of = &memory->clients[5];
	const struct nam__finished *all = memory->clients;
#define IS_OVER(us) nam__finished_has(all, (us) * NAM_CLIENTS_MAX + 5)

	assert_false(IS_OVER(1ull));
	nam__finished_add(of, 1, 100);
	nam__finished_add(of, 1, 90);
	assert_true(IS_OVER(99ull));
	assert_false(IS_OVER(100ull));
	nam__finished_add(of, 2, 200);
	assert_true(IS_OVER(99ull));
	assert_false(IS_OVER(100ull));
	assert_false(IS_OVER(199ull));
	assert_false(IS_OVER(200ull));
	nam__finished_add(of, 2, 300);
	assert_true(IS_OVER(200ull));
	/* A late message of the one before makes the gap larger, and no smaller. */
	nam__finished_add(of, 1, 150);
	assert_false(IS_OVER(150ull));
	assert_false(IS_OVER(299ull));
	assert_true(IS_OVER(99ull));
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lock_shared__by_several__ALL_GRANTED_AND_NO_WRITER),
		TEST(lock__somebody_older_was_refused__HIS_TURN),
		TEST(unlock_shared__taken_away__LOST),
		TEST(lock_exclusive__lease_is_over__EXPIRED_and_to_be_terminated),
		TEST(lock_exclusive__not_later_than_what_is_there__EARLY),
		TEST(commit__replaced_long_ago__STAYS_UNTIL_ITS_TRANSACTION_IS_OVER),
		TEST(finished__another_has_the_id__GAP_IS_NEVER_OVER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
