/* SPDX-License-Identifier: Apache-2.0 */
/* records_test.c -- heads that a memory server moves, on plain memory and at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/records_rpc.h"
#include "txn/server/records.h"

#define BLOCKS 64u
#define HEAD 64u			/* addresses are offsets here */
#define STORE 7u

struct memory {
	_Alignas(64) uint8_t bytes[BLOCKS * 64];
	uint32_t locks[NAM__RECORDS_LOCKS];
	struct nam__server_records records;
	struct nam__server_head *head;
	uint64_t now_ns;
};

static void *
find(void *arg, uint64_t at, uint32_t bytes)
{
	struct memory *memory = arg;
	uint64_t offset = nam_gaddr_offset(NAM_GADDR(at));

	return bytes <= sizeof(memory->bytes) && offset <= sizeof(memory->bytes) - bytes ?
		memory->bytes + offset : NULL;
}

static int
setup(void **state)
{
	static struct memory memory;

	memset(&memory, 0, sizeof(memory));
	memory.records = (struct nam__server_records){ .find = find, .arg = &memory,
		.store = STORE, .locks = memory.locks };
	memory.head = find(&memory, nam_gaddr_make(0, HEAD, 0).raw, 64);
	memory.head->tag = nam__record_tag(STORE);
	memory.now_ns = 10 * NAM_RECORDS_KEEP_NS;
	*state = &memory;
	return 0;
}

/* A version of 64 bytes in block `number`, with that timestamp: its address. */
static uint64_t
version_in(struct memory *memory, uint32_t number, uint64_t timestamp)
{
	uint64_t at = nam__version_at(nam_gaddr_make(0, number * 64, 0), 64).raw;
	struct nam_version *version = find(memory, at, 64);

	*version = (struct nam_version){ .current = timestamp, .timestamp = timestamp,
		.store = STORE, .head = nam_gaddr_make(0, HEAD, 0).raw };
	return at;
}

static uint64_t
prepare(struct memory *memory, uint32_t number, uint64_t timestamp)
{
	uint64_t at = version_in(memory, number, timestamp);

	assert_int_equal(nam__server_record_prepare(&memory->records, memory->head, at), 0);
	return at;
}

static uint32_t
commit(struct memory *memory, uint64_t at, uint64_t *retired)
{
	return nam__server_record_commit(&memory->records, memory->head, at, memory->now_ns,
		retired,
		BLOCKS);
}

static uint64_t
found(const struct memory *memory, uint64_t timestamp)
{
	return nam__server_record_find(&memory->records, memory->head, timestamp, memory->now_ns);
}

static int
lock(const struct memory *memory, uint64_t at)
{
	struct nam__server_head *head = NULL;
	int rc = nam__server_record_lock(&memory->records, at, &head);

	if (rc)
		return rc;
	assert_ptr_equal(head, memory->head);
	nam__server_record_unlock(&memory->records, at);
	return 0;
}

static void
lock__WHAT_IS_NO_HEAD_OF_THE_STORE_SAYS_SO(void **state)
{
	struct memory *memory = *state;
	uint64_t at = nam_gaddr_make(0, HEAD, 0).raw;

	assert_int_equal(lock(memory, nam_gaddr_make(0, BLOCKS * 64, 0).raw),
		-NAM_E_REMOTE_CORRUPT);
	assert_int_equal(lock(memory, at), 0);
	memory->records.store = STORE + 1;
	assert_int_equal(lock(memory, at), -NAM_E_DROPPED);
	assert_int_equal(lock(memory, at), -NAM_E_DROPPED);
	memory->records.store = 0;
	assert_int_equal(lock(memory, at), 0);
}

static uint32_t
close_head(const struct memory *memory, uint64_t *retired, uint32_t room)
{
	return nam__server_record_close(&memory->records, memory->head,
		nam_gaddr_make(0, HEAD, 0).raw, retired, room);
}

static void
close__ALL_VERSIONS_ONCE_and_the_head_is_of_no_store(void **state)
{
	struct memory *memory = *state;
	uint64_t first = prepare(memory, 2, 100), second = prepare(memory, 3, 200);
	uint64_t third = prepare(memory, 4, 300), retired[BLOCKS];

	assert_int_equal(commit(memory, first, retired), 0);
	assert_int_equal(commit(memory, second, retired), 0);
	/* Little room: there are more. */
	assert_int_equal(close_head(memory, retired, 2), 2);
	assert_int_equal(retired[0] + retired[1], first + third);
	/* Only for the rest of them. */
	assert_int_equal(lock(memory, nam_gaddr_make(0, HEAD, 0).raw), -NAM_E_DROPPED);
	memory->records.closes = true;
	assert_int_equal(lock(memory, nam_gaddr_make(0, HEAD, 0).raw), 0);
	assert_int_equal(close_head(memory, retired, 2), 1);
	assert_int_equal(retired[0], second);
	assert_int_equal(memory->head->latest, NAM_RECORD_DROPPED);
	assert_int_equal(lock(memory, nam_gaddr_make(0, HEAD, 0).raw), -NAM_E_DROPPED);
	memory->records.closes = false;
	assert_int_equal(close_head(memory, retired, 2), 0);
}

static void
close__links_that_were_overwritten__NOTHING_TWICE_and_nothing_of_others(void **state)
{
	struct memory *memory = *state;
	uint64_t first = prepare(memory, 2, 100), second = prepare(memory, 3, 200);
	struct nam_version *version = find(memory, first, 64);
	uint64_t retired[BLOCKS];

	version->previous = second;
	assert_int_equal(close_head(memory, retired, BLOCKS), 2);
	memory->head->tag = nam__record_tag(STORE);
	memory->head->latest = version_in(memory, 4, 300);
	((struct nam_version *)find(memory, memory->head->latest, 64))->store = STORE + 1;
	memory->head->chain = nam__version_at(nam_gaddr_make(0, BLOCKS * 64, 0), 64).raw;
	assert_int_equal(close_head(memory, retired, BLOCKS), 0);
	assert_int_equal(memory->head->latest, NAM_RECORD_DROPPED);
}

static void
commit__THE_LATEST_and_what_it_replaces_is_kept_FOR_A_WHILE(void **state)
{
	struct memory *memory = *state;
	uint64_t first = prepare(memory, 2, 100), second, third, retired[BLOCKS];

	assert_int_equal(memory->head->latest, 0);
	assert_int_equal(found(memory, 100), first);
	assert_int_equal(commit(memory, first, retired), 0);
	assert_int_equal(memory->head->latest, first);
	second = prepare(memory, 3, 200);
	assert_int_equal(commit(memory, second, retired), 0);
	assert_int_equal(memory->head->latest, second);
	assert_int_equal(found(memory, 100), first);
	assert_int_equal(found(memory, 200), second);
	assert_int_equal(found(memory, 150), 0);
	/* It does not look like the latest any more. */
	assert_int_not_equal(((struct nam_version *)find(memory, first, 64))->current, 100);
	memory->now_ns += NAM_RECORDS_KEEP_NS - NAM_CLIENTS_MAX;
	assert_int_equal(found(memory, 100), first);
	memory->now_ns += 2 * NAM_CLIENTS_MAX;
	assert_int_equal(found(memory, 100), 0);
	third = prepare(memory, 4, 300);
	assert_int_equal(commit(memory, third, retired), 1);
	assert_int_equal(retired[0], first);
	assert_int_equal(found(memory, 200), second);
	/* A repeated commit, or one for another, changes nothing. */
	assert_int_equal(commit(memory, third, retired), 0);
	assert_int_equal(commit(memory, second, retired), 0);
	assert_int_equal(memory->head->latest, third);
}

static void
commit__of_what_comes_late__NEVER_THE_LATEST_BUT_FOUND(void **state)
{
	struct memory *memory = *state;
	uint64_t late = prepare(memory, 2, 100), next = prepare(memory, 3, 200), retired[BLOCKS];

	assert_int_equal(commit(memory, next, retired), 0);
	assert_int_equal(commit(memory, late, retired), 0);
	assert_int_equal(memory->head->latest, next);
	assert_int_equal(found(memory, 100), late);
	memory->now_ns += 2 * NAM_RECORDS_KEEP_NS;
	assert_int_equal(found(memory, 100), 0);
	assert_int_equal(commit(memory, 0, retired), 1);
	assert_int_equal(retired[0], late);
	assert_int_equal(memory->head->chain, 0);
}

static void
commit__little_room__THE_REST_IS_TOLD_NEXT_TIME(void **state)
{
	struct memory *memory = *state;
	uint64_t retired[BLOCKS];

	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(commit(memory, prepare(memory, 2 + i, 100 + i), retired), 0);
	memory->now_ns += 2 * NAM_RECORDS_KEEP_NS;
	assert_int_equal(nam__server_record_commit(&memory->records, memory->head, 0,
		memory->now_ns, retired, 3), 3);
	assert_int_equal(nam__server_record_commit(&memory->records, memory->head, 0,
		memory->now_ns, retired + 3, 3), 1);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_true(retired[i] != retired[k]);
}

static void
commit__no_room_to_tell_what_was_replaced__THE_LATEST_ALL_THE_SAME(void **state)
{
	struct memory *memory = *state;
	uint64_t first = prepare(memory, 2, 100), second, retired[BLOCKS];

	assert_int_equal(commit(memory, first, retired), 0);
	second = prepare(memory, 3, 200);
	assert_int_equal(nam__server_record_commit(&memory->records, memory->head, second,
		memory->now_ns, retired, 0), 0);
	assert_int_equal(memory->head->latest, second);
	memory->now_ns += 2 * NAM_RECORDS_KEEP_NS;
	assert_int_equal(commit(memory, 0, retired), 1);
	assert_int_equal(retired[0], first);
}

static void
abort__FORGETS_WHAT_IS_PREPARED_and_nothing_else(void **state)
{
	struct memory *memory = *state;
	uint64_t first = prepare(memory, 2, 100), second = prepare(memory, 3, 200);
	uint64_t retired[BLOCKS];

	assert_true(nam__server_record_abort(&memory->records, memory->head, second));
	assert_int_equal(found(memory, 200), 0);
	assert_false(nam__server_record_abort(&memory->records, memory->head, second));
	assert_int_equal(commit(memory, first, retired), 0);
	assert_false(nam__server_record_abort(&memory->records, memory->head, first));
	assert_int_equal(memory->head->latest, first);
	second = prepare(memory, 3, 201);
	assert_int_equal(commit(memory, second, retired), 0);
	assert_false(nam__server_record_abort(&memory->records, memory->head, first));
	assert_int_equal(found(memory, 100), first);
}

static void
memory__that_is_not_as_it_should_be__NOTHING_HANGS(void **state)
{
	struct memory *memory = *state;
	uint64_t a = prepare(memory, 2, 100), b = prepare(memory, 3, 200), retired[BLOCKS];
	struct nam_version *version = find(memory, a, 64);

	/* In a circle. */
	version->previous = b;
	assert_int_equal(found(memory, 300), 0);
	(void)commit(memory, nam__version_at(nam_gaddr_make(0, 5 * 64, 0), 64).raw, retired);
	/* Out of bounds, and too short. */
	version->previous = nam__version_at(nam_gaddr_make(0, BLOCKS * 64, 0), 64).raw;
	assert_int_equal(found(memory, 300), 0);
	version->previous = nam_gaddr_make(0, 4 * 64, 0).raw;
	assert_int_equal(found(memory, 300), 0);
	assert_int_equal(nam__server_record_prepare(&memory->records, memory->head,
		nam_gaddr_make(0, 5 * 64, 0).raw), -NAM_E_FABRIC_PROTOCOL);
	memory->head->latest = nam__version_at(nam_gaddr_make(0, BLOCKS * 64, 0), 64).raw;
	assert_int_equal(nam__server_version_timestamp(&memory->records, memory->head->latest), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lock__WHAT_IS_NO_HEAD_OF_THE_STORE_SAYS_SO),
		TEST(close__ALL_VERSIONS_ONCE_and_the_head_is_of_no_store),
		TEST(close__links_that_were_overwritten__NOTHING_TWICE_and_nothing_of_others),
		TEST(commit__THE_LATEST_and_what_it_replaces_is_kept_FOR_A_WHILE),
		TEST(commit__of_what_comes_late__NEVER_THE_LATEST_BUT_FOUND),
		TEST(commit__little_room__THE_REST_IS_TOLD_NEXT_TIME),
		TEST(commit__no_room_to_tell_what_was_replaced__THE_LATEST_ALL_THE_SAME),
		TEST(abort__FORGETS_WHAT_IS_PREPARED_and_nothing_else),
		TEST(memory__that_is_not_as_it_should_be__NOTHING_HANGS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
