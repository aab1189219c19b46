/* SPDX-License-Identifier: Apache-2.0 */
/* view_term_test.c -- which steward leads, and what a memory server refuses to the others. */
#include "view_fixture.h"

#define LEASE_MS 60000u

static int
lead(struct fixture *f, enum nam_rpc_view_steward what, uint64_t term, uint32_t lease_ms)
{
	struct draft draft = { { 0 } };

	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_STEWARD, .change = (uint16_t)what, .first = lease_ms,
		.view.term = term,
	};
	return ask(f, &draft);
}

static uint64_t
acquire(struct fixture *f, uint32_t lease_ms)
{
	assert_int_equal(lead(f, NAM_RPC_STEWARD_ACQUIRE, 0, lease_ms), 0);
	return view_of(f)->view.term;
}

static int
change_by(struct fixture *f, uint64_t term, uint64_t now, enum nam_rpc_view_change what,
	uint32_t id)
{
	struct draft draft = { { 0 } };

	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_CHANGE, .change = (uint16_t)what, .count = 1,
		.view = { .number = now, .term = term },
	};
	request_of(&draft)->members[0] = member(f, id);
	return ask(f, &draft);
}

static void
acquire__held__IS_TERM_until_it_is_released(void **state)
{
	struct fixture *f = *state;
	uint64_t first = acquire(f, LEASE_MS);

	assert_int_equal(first, 1);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_ACQUIRE, 0, LEASE_MS), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RENEW, first, LEASE_MS), 0);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RENEW, first + 1, LEASE_MS), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RELEASE, first, 0), 0);
	assert_int_equal(acquire(f, LEASE_MS), 2);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RENEW, first, LEASE_MS), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RELEASE, first, 0), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_ACQUIRE, 0, LEASE_MS), -NAM_E_TERM);
}

static void
acquire__the_lease_has_ended__IS_THE_NEXT_TERM(void **state)
{
	struct fixture *f = *state;
	uint64_t first = acquire(f, NAM_RPC_STEWARD_LEASE_MIN_MS);
	int rc = -NAM_E_TERM;

	for (unsigned i = 0; rc && i < 10000; i++) {
		rc = lead(f, NAM_RPC_STEWARD_ACQUIRE, 0, LEASE_MS);
		nam_sleep_ns(1000000);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(view_of(f)->view.term, first + 1);
	get(f, 0);
	assert_int_equal(view_of(f)->view.term, first + 1);
}

static void
change__by_a_steward_that_led_before__IS_TERM_and_changes_nothing(void **state)
{
	struct fixture *f = *state;

	form(f, 2);
	(void)acquire(f, LEASE_MS);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RELEASE, 1, 0), 0);
	(void)acquire(f, LEASE_MS);
	assert_int_equal(change_by(f, 1, 1, NAM_RPC_VIEW_ADD, 5), -NAM_E_TERM);
	assert_int_equal(change_by(f, 1, 1, NAM_RPC_VIEW_RENEW, 1), -NAM_E_TERM);
	assert_int_equal(change_by(f, 3, 1, NAM_RPC_VIEW_ADD, 5), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 1);
	assert_int_equal(change_by(f, 2, 1, NAM_RPC_VIEW_ADD, 5), 0);
	/* The terms of the embedded store leave additions to others, too. */
	assert_int_equal(change_by(f, 0, 2, NAM_RPC_VIEW_UP, 5), 0);
	assert_int_equal(number(f), 3);
}

static void
present__a_term_of_another_store__DECIDES_ALL_BUT_FACTS(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member restarted = member(f, 1);

	assert_int_equal(lead(f, NAM_RPC_STEWARD_PRESENT, 70, 0), 0);
	form(f, 2);
	get(f, 0);
	assert_int_equal(view_of(f)->view.term, 70);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_PRESENT, 69, 0), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_PRESENT, 70, 0), 0);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_ACQUIRE, 0, LEASE_MS), -NAM_E_VIEW_STORE);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RENEW, 70, LEASE_MS), -NAM_E_TERM);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_RELEASE, 70, 0), -NAM_E_TERM);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), -NAM_E_VIEW_STORE);
	assert_int_equal(change_by(f, 70, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW_STORE);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 5), -NAM_E_VIEW_STORE);
	restarted.boot++;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &restarted), 0);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_PRESENT, 71, 0), 0);
	assert_int_equal(change_by(f, 70, 3, NAM_RPC_VIEW_UP, 5), -NAM_E_TERM);
	assert_int_equal(change_by(f, 71, 3, NAM_RPC_VIEW_UP, 5), 0);
	assert_int_equal(number(f), 4);
}

static void
copy__of_a_lower_term__IS_TERM(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	copy_fill(f, &draft, 5, 50, 2, 0, 2);
	request_of(&draft)->view.term = 7;
	assert_int_equal(ask(f, &draft), 0);
	copy_fill(f, &draft, 6, 50, 3, 0, 3);
	request_of(&draft)->view.term = 6;
	assert_int_equal(ask(f, &draft), -NAM_E_TERM);
	copy_fill(f, &draft, 5, 50, 2, 0, 2);
	request_of(&draft)->view.term = 8;
	assert_int_equal(ask(f, &draft), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.term, 8);
	/* Another life of the lead begins anew. */
	copy_fill(f, &draft, 1, 51, 2, 0, 2);
	assert_int_equal(ask(f, &draft), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.term, 0);
}

static void
steward__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	const struct {
		unsigned what;
		uint64_t term;
		uint32_t lease_ms;
	} bad[] = {
		{ 0, 0, LEASE_MS },
		{ NAM_RPC_STEWARD_PRESENT + 1, 1, 0 },
		{ NAM_RPC_STEWARD_ACQUIRE, 1, LEASE_MS },
		{ NAM_RPC_STEWARD_ACQUIRE, 0, NAM_RPC_STEWARD_LEASE_MIN_MS - 1 },
		{ NAM_RPC_STEWARD_ACQUIRE, 0, NAM_RPC_STEWARD_LEASE_MAX_MS + 1 },
		{ NAM_RPC_STEWARD_RENEW, 0, LEASE_MS },
		{ NAM_RPC_STEWARD_RENEW, 1, 0 },
		{ NAM_RPC_STEWARD_RELEASE, 0, 0 },
		{ NAM_RPC_STEWARD_RELEASE, 1, 1 },
		{ NAM_RPC_STEWARD_PRESENT, 0, 0 },
		{ NAM_RPC_STEWARD_PRESENT, 1, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(lead(f, bad[i].what, bad[i].term, bad[i].lease_ms),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(acquire(f, LEASE_MS), 1);
	assert_int_equal(lead(f, NAM_RPC_STEWARD_PRESENT, UINT64_MAX, 0), 0);
	get(f, 0);
	assert_true(view_of(f)->view.term == UINT64_MAX);
}

static void
steward__at_another_server__IS_CLUSTER(void **state)
{
	assert_int_equal(lead(*state, NAM_RPC_STEWARD_ACQUIRE, 0, LEASE_MS), -NAM_E_CLUSTER);
	assert_int_equal(lead(*state, NAM_RPC_STEWARD_PRESENT, 1, 0), -NAM_E_CLUSTER);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(acquire__held__IS_TERM_until_it_is_released),
		TEST(acquire__the_lease_has_ended__IS_THE_NEXT_TERM),
		TEST(change__by_a_steward_that_led_before__IS_TERM_and_changes_nothing),
		TEST(present__a_term_of_another_store__DECIDES_ALL_BUT_FACTS),
		TEST_3(copy__of_a_lower_term__IS_TERM),
		TEST(steward__malformed__IS_PROTOCOL),
		TEST_3(steward__at_another_server__IS_CLUSTER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
