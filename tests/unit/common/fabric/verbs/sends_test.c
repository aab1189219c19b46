/* SPDX-License-Identifier: Apache-2.0 */
/* sends_test.c -- the accounts of a send queue, without a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include "common/fabric/verbs/sends.h"

static struct verbs_sends sends;
static int contexts[64];

static int
setup(void **state)
{
	(void)state;
	return nam__sends_init(&sends, 10);
}

static int
teardown(void **state)
{
	(void)state;
	nam__sends_free(&sends);
	return 0;
}

/* Post request number i; its context is contexts[i]. */
static uint32_t
post(unsigned i, uint8_t flags)
{
	const struct nam_wr wr = { .op = NAM_WR_READ, .flags = flags, .bytes = i,
		.context = &contexts[i] };

	return nam__sends_add(&sends, &wr);
}

static void
assert_failed(unsigned i)
{
	const struct verbs_sent *sent = nam__sends_next_failed(&sends);

	assert_non_null(sent);
	assert_ptr_equal(sent->context, &contexts[i]);
	assert_int_equal(sent->bytes, i);
}

static void
succeeded__signalled_after_unsignalled__ACCOUNTS_FOR_ALL_AND_REPORTS_ONE(void **state)
{
	const struct verbs_sent *sent;
	uint32_t last;

	(void)state;
	(void)post(0, 0);
	(void)post(1, 0);
	last = post(2, NAM_WR_SIGNALED);
	assert_int_equal(nam__sends_count(&sends), 3);
	sent = nam__sends_succeeded(&sends, last);
	assert_ptr_equal(sent->context, &contexts[2]);
	assert_int_equal(nam__sends_count(&sends), 0);
	assert_null(nam__sends_next_failed(&sends));
}

static void
succeeded__not_wanted_by_its_poster__MAKES_ROOM_SILENTLY(void **state)
{
	(void)state;
	assert_null(nam__sends_succeeded(&sends, post(0, 0)));
	assert_int_equal(nam__sends_count(&sends), 0);
}

static void
succeeded__twice_or_late__IS_IGNORED(void **state)
{
	uint32_t first = post(0, NAM_WR_SIGNALED), second = post(1, NAM_WR_SIGNALED);

	(void)state;
	assert_non_null(nam__sends_succeeded(&sends, second));
	assert_null(nam__sends_succeeded(&sends, first));
	assert_null(nam__sends_succeeded(&sends, second));
	assert_null(nam__sends_succeeded(&sends, second + 5));
	assert_int_equal(nam__sends_count(&sends), 0);
}

static void
positions__wrap_around__ARE_COUNTED_ON(void **state)
{
	(void)state;
	sends.head = sends.given = sends.tail = UINT32_MAX - 2;
	for (unsigned i = 0; i < 6; i++)
		(void)post(i, NAM_WR_SIGNALED);
	assert_int_equal(nam__sends_count(&sends), 6);
	assert_ptr_equal(nam__sends_succeeded(&sends, 1)->context, &contexts[4]);
	assert_int_equal(nam__sends_count(&sends), 1);
	nam__sends_failed(&sends, 2, -NAM_E_FABRIC_ACCESS);
	assert_failed(5);
	assert_int_equal(nam__sends_count(&sends), 0);
}

static void
failed__in_the_middle__THE_REST_FOLLOWS_WITH_THE_FIRST_REASON(void **state)
{
	uint32_t at[5];

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		at[i] = post(i, i == 4 ? NAM_WR_SIGNALED : 0);
	nam__sends_failed(&sends, at[2], -NAM_E_FABRIC_ACCESS);
	/* 0 and 1 were carried out, unsignalled; 3 and 4 the device still has. */
	assert_failed(2);
	assert_null(nam__sends_next_failed(&sends));
	assert_int_equal(nam__sends_count(&sends), 2);
	/* New requests wait for those. */
	(void)post(5, 0);
	assert_null(nam__sends_next_failed(&sends));
	nam__sends_failed(&sends, at[3], -NAM_E_FABRIC_PEER_DEAD);
	assert_failed(3);
	assert_null(nam__sends_next_failed(&sends));
	nam__sends_failed(&sends, at[4], -NAM_E_FABRIC_PEER_DEAD);
	assert_failed(4);
	assert_failed(5);
	assert_null(nam__sends_next_failed(&sends));
	assert_int_equal(sends.error, -NAM_E_FABRIC_ACCESS);
	/* And from here on everything fails by itself. */
	(void)post(6, 0);
	assert_failed(6);
	assert_int_equal(nam__sends_count(&sends), 0);
}

static void
failed__flush_that_skips_unsignalled__REPORTS_THEM_TOO(void **state)
{
	uint32_t at[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		at[i] = post(i, 0);
	nam__sends_failed(&sends, at[0], -NAM_E_FABRIC_ACCESS);
	nam__sends_failed(&sends, at[3], -NAM_E_FABRIC_PEER_DEAD);
	for (unsigned i = 0; i < 4; i++)
		assert_failed(i);
	assert_int_equal(nam__sends_count(&sends), 0);
}

static void
break__with_requests_at_the_device__WAITS_FOR_IT_OR_GIVES_UP(void **state)
{
	(void)state;
	(void)post(0, NAM_WR_SIGNALED);
	(void)post(1, NAM_WR_SIGNALED);
	nam__sends_break(&sends, -NAM_E_FABRIC_PEER_DEAD);
	(void)post(2, 0);
	assert_null(nam__sends_next_failed(&sends));
	nam__sends_failed(&sends, 0, -NAM_E_FABRIC);
	assert_failed(0);
	assert_null(nam__sends_next_failed(&sends));
	nam__sends_give_up(&sends);
	assert_failed(1);
	assert_failed(2);
	assert_null(nam__sends_next_failed(&sends));
	/* The device's late completions are ignored. */
	nam__sends_failed(&sends, 1, -NAM_E_FABRIC);
	assert_null(nam__sends_next_failed(&sends));
	assert_int_equal(sends.error, -NAM_E_FABRIC_PEER_DEAD);
}

static void
refuse__after_others__FAILS_WHEN_THEY_ARE_DONE(void **state)
{
	uint32_t first = post(0, NAM_WR_SIGNALED);

	(void)state;
	(void)post(1, 0);
	nam__sends_refuse(&sends, -NAM_E_FABRIC_CAPABILITY);
	assert_false(nam__sends_open(&sends));
	(void)post(2, 0);
	assert_null(nam__sends_next_failed(&sends));
	assert_ptr_equal(nam__sends_succeeded(&sends, first)->context, &contexts[0]);
	assert_failed(1);
	assert_failed(2);
	assert_int_equal(sends.error, -NAM_E_FABRIC_CAPABILITY);
}

static void
refuse__and_an_earlier_one_fails__THE_EARLIER_REASON_COUNTS(void **state)
{
	uint32_t first = post(0, NAM_WR_SIGNALED);

	(void)state;
	(void)post(1, 0);
	nam__sends_refuse(&sends, -NAM_E_FABRIC_CAPABILITY);
	nam__sends_failed(&sends, first, -NAM_E_FABRIC_ACCESS);
	assert_failed(0);
	assert_failed(1);
	assert_int_equal(sends.error, -NAM_E_FABRIC_ACCESS);
}

static void
take_back__part_of_a_chain__FAILS_THAT_PART(void **state)
{
	uint32_t at[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		at[i] = post(i, NAM_WR_SIGNALED);
	nam__sends_take_back(&sends, at[1], -NAM_E_FABRIC);
	assert_null(nam__sends_next_failed(&sends));
	assert_non_null(nam__sends_succeeded(&sends, at[0]));
	assert_failed(1);
	assert_failed(2);
	assert_null(nam__sends_next_failed(&sends));
}

/* ---- what may go ---------------------------------------------------------------------------- */

static unsigned
may_go(bool plain, const char *ops)
{
	struct nam_wr wrs[8] = { 0 };
	unsigned count = 0;

	for (; ops[count]; count++) {
		wrs[count].op = ops[count] == 'w' ? NAM_WR_WRITE : ops[count] == 's' ? NAM_WR_SEND :
			ops[count] == 'c' ? NAM_WR_CAS : ops[count] == 'a' ? NAM_WR_FETCH_ADD :
			NAM_WR_READ;
		wrs[count].flags = ops[count] == 'f' ? NAM_WR_FENCE : 0;
	}
	return nam__sends_may_go(&sends, wrs, count, plain);
}

static void
may_go__atomics_behind_writes__MUST_WAIT_FOR_THEM(void **state)
{
	const struct nam_wr write = { .op = NAM_WR_WRITE }, read = { .op = NAM_WR_READ };
	uint32_t written;

	(void)state;
	assert_int_equal(may_go(false, "carcw"), 5);
	assert_int_equal(may_go(false, "wwrcw"), 3);
	assert_int_equal(may_go(false, "sa"), 1);
	assert_int_equal(may_go(true, "rwc"), 2);
	written = nam__sends_add(&sends, &write);
	(void)nam__sends_add(&sends, &read);
	assert_int_equal(may_go(false, "rc"), 1);
	assert_int_equal(may_go(false, "a"), 0);
	(void)nam__sends_succeeded(&sends, written);
	assert_int_equal(may_go(false, "rc"), 2);
	/* Of a queue pair that is broken, all go: to fail in their turn. */
	(void)nam__sends_add(&sends, &write);
	nam__sends_break(&sends, -NAM_E_FABRIC);
	assert_int_equal(may_go(true, "cfc"), 3);
}

static void
may_go__fenced__MUST_WAIT_FOR_ALL(void **state)
{
	uint32_t last;

	(void)state;
	assert_int_equal(may_go(false, "fr"), 2);
	assert_int_equal(may_go(false, "rf"), 1);
	last = post(0, 0);
	assert_int_equal(may_go(false, "f"), 0);
	(void)nam__sends_succeeded(&sends, last);
	assert_int_equal(may_go(false, "f"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(succeeded__signalled_after_unsignalled__ACCOUNTS_FOR_ALL_AND_REPORTS_ONE),
		TEST(succeeded__not_wanted_by_its_poster__MAKES_ROOM_SILENTLY),
		TEST(succeeded__twice_or_late__IS_IGNORED),
		TEST(positions__wrap_around__ARE_COUNTED_ON),
		TEST(failed__in_the_middle__THE_REST_FOLLOWS_WITH_THE_FIRST_REASON),
		TEST(failed__flush_that_skips_unsignalled__REPORTS_THEM_TOO),
		TEST(break__with_requests_at_the_device__WAITS_FOR_IT_OR_GIVES_UP),
		TEST(refuse__after_others__FAILS_WHEN_THEY_ARE_DONE),
		TEST(refuse__and_an_earlier_one_fails__THE_EARLIER_REASON_COUNTS),
		TEST(take_back__part_of_a_chain__FAILS_THAT_PART),
		TEST(may_go__atomics_behind_writes__MUST_WAIT_FOR_THEM),
		TEST(may_go__fenced__MUST_WAIT_FOR_ALL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int
main(void)
{
	puts("skip: built without verbs");
	return 77;
}

#endif
