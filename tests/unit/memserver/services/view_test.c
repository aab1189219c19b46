/* SPDX-License-Identifier: Apache-2.0 */
/* view_test.c -- the view as a whole: read, formed and copied, and malformed requests. */
#include "common/auth/proof.h"
#include "view_fixture.h"

#define PAGE NAM_RPC_VIEW_MEMBERS	/* of a page that is full */

/* ---- GET, FORM ------------------------------------------------------------------------------- */

static void
get__no_view_yet__NUMBER_0(void **state)
{
	struct fixture *f = *state;

	get(f, 0);
	assert_memory_equal(view_of(f), &(struct nam_rpc_view_reply){ .count = 0 },
		sizeof(struct nam_rpc_view_reply));
	get(f, UINT32_MAX);
	assert_int_equal(view_of(f)->count, 0);
}

static void
form__one_page__VIEW_1_AND_ITS_WORD(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(view_word(f), 0);
	form(f, 3);
	assert_int_equal(view_word(f), 1);
	get(f, 1);
	assert_int_equal(view_of(f)->view.number, 1);
	assert_int_equal(view_of(f)->view.lead, 0);
	assert_int_equal(view_of(f)->view.lead_boot, f->server->boot);
	assert_int_equal(view_of(f)->view.count, 3);
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(view_of(f)->count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct nam_view_member *one = &view_of(f)->members[i];

		assert_int_equal(one->id, i + 1);
		assert_int_equal(one->boot, 1001 + i);
		assert_int_equal(one->state, NAM_VIEW_UP);
		assert_true(one->memory == one->boot);
		assert_int_equal(one->since, 1);
		assert_int_equal(one->renewed, 1);
		assert_string_equal(one->address, member(f, i + 1).address);
	}
}

static void
form__many_pages__NOTHING_before_the_last(void **state)
{
	struct fixture *f = *state;
	struct draft draft;
	uint32_t id = 0;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 1, 0, PAGE);
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(view_of(f)->view.number, 0);
	assert_int_equal(number(f), 0);
	/* From the start again. */
	form(f, NAM_SERVERS_MAX);
	while (id < NAM_SERVERS_MAX) {
		get(f, id);
		assert_int_not_equal(view_of(f)->count, 0);
		for (uint32_t i = 0; i < view_of(f)->count; i++)
			assert_int_equal(view_of(f)->members[i].id, id++);
	}
	get(f, id);
	assert_int_equal(view_of(f)->count, 0);
	assert_int_equal(view_of(f)->view.count, NAM_SERVERS_MAX);
}

static void
form__by_two_connections_at_once__ONE_VIEW_WHOLE(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 };
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 8, 0, PAGE);
	assert_int_equal(ask_over(f, &other, &draft), 0);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 7, 0, PAGE);
	assert_int_equal(ask(f, &draft), 0);
	/* Each goes on with its own. */
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 7, PAGE, 7);
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(view_of(f)->view.number, 1);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 8, PAGE, 8);
	assert_int_equal(ask_over(f, &other, &draft), -NAM_E_VIEW);
	assert_null(other.view_stage);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 3, 0, 3);
	assert_int_equal(ask_over(f, &other, &draft), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 1);
	assert_int_equal(view_of(f)->view.count, PAGE + 7);
}

static void
form__connection_closes_halfway__ITS_PAGES_ARE_GONE_and_others_form(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 };
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 7, 0, PAGE);
	assert_int_equal(ask_over(f, &other, &draft), 0);
	assert_non_null(other.view_stage);
	leave(f, &other);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 7, PAGE, 7);
	assert_int_equal(ask_over(f, &other, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 0);
	form(f, 2);
}

static void
form__pages_that_do_not_follow__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct draft draft;
	struct {
		uint32_t total, first, count;
	} bad[] = { { 60, PAGE + 1, PAGE }, { 60, PAGE - 1, PAGE }, { 59, PAGE, PAGE },
		{ 60, PAGE, PAGE + 13 }, { 60, PAGE, 0 }, { 60, UINT32_MAX, PAGE } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		page_fill(f, &draft, NAM_RPC_VIEW_FORM, 60, 0, PAGE);
		assert_int_equal(ask(f, &draft), 0);
		page_fill(f, &draft, NAM_RPC_VIEW_FORM, bad[i].total, bad[i].first, bad[i].count);
		request_of(&draft)->count = bad[i].count > PAGE ? PAGE : bad[i].count;
		if (bad[i].count > PAGE)
			request_of(&draft)->view.count = 2 * PAGE - 1;	/* less than there are */
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		nam__view_connection_closed(&f->server->membership, &f->connection);
	}
	/* More than the total says, in the first page and in the second. */
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 3);
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 1, 0, PAGE);
	assert_int_equal(ask(f, &draft), 0);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, PAGE + 1, PAGE, 2);
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_null(f->connection.view_stage);
	assert_int_equal(number(f), 0);
}

static void
form__lead_is_another__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 2);
	request_of(&draft)->members[0].boot ^= 1;
	request_of(&draft)->members[0].boot |= 2;
	assert_int_equal(ask(f, &draft), -NAM_E_CLUSTER);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 2);
	request_of(&draft)->members[0] = member(f, 1);
	request_of(&draft)->members[1] = member(f, 2);
	assert_int_equal(ask(f, &draft), -NAM_E_CLUSTER);
	assert_int_equal(number(f), 0);
	assert_int_equal(view_word(f), 0);
}

static void
form__malformed_members__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	for (unsigned i = 0; i < 7; i++) {
		struct nam_view_member *one = &request_of(&draft)->members[1];

		page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 2);
		switch (i) {
		case 0:
			one->id = NAM_SERVERS_MAX;
			break;
		case 1:
			one->id = 0;	/* twice */
			break;
		case 2:
			one->wanted = 1;
			break;
		case 3:
			one->boot = 0;
			break;
		case 4:
			one->address[0] = '\0';
			break;
		case 5:
			memset(one->address, 'x', sizeof(one->address));
			break;
		default:
			memcpy(one->address, one[-1].address, sizeof(one->address));
		}
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		assert_null(f->connection.view_stage);
	}
	assert_int_equal(number(f), 0);
}

/* ---- every request --------------------------------------------------------------------------- */

static void
any_step__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	form(f, 2);
	for (uint16_t step = 0; step < 9; step++) {
		struct nam_rpc_view_request *request = request_of(&draft);
		bool changes = step == NAM_RPC_VIEW_CHANGE;

		for (unsigned i = 0; i < 7; i++) {
			if (step == NAM_RPC_VIEW_COPY)
				continue;	/* not at the lead */
			page_fill(f, &draft, step, step == NAM_RPC_VIEW_FORM, 0,
				step == NAM_RPC_VIEW_FORM || changes);
			if (changes)
				request->change = NAM_RPC_VIEW_RENEW;
			if (i == 0)
				request->change = changes ? 0 : 1;
			else if (i == 1)
				request->reserved = 1;
			else if (i == 2)
				request->count = request->count ? 0 : 1;
			else if (i == 3)
				request->view.term = 1;
			else if (i == 4)
				request->view.lead = 1;
			else if (i == 5)
				request->view.lead_boot = 1;
			else
				request->view.count = step == NAM_RPC_VIEW_FORM ? 257 : 1;
			assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		}
	}
	memset(&draft, 0, sizeof(draft));
	request_of(&draft)->step = NAM_RPC_VIEW_GET;
	for (uint32_t bytes = 0; bytes < 300; bytes++)
		if (bytes != sizeof(struct nam_rpc_view_request))
			assert_int_equal(call(f, NAM_RPC_VIEW, draft.body, bytes),
				-NAM_E_FABRIC_PROTOCOL);
	request_of(&draft)->view.number = 1;
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	request_of(&draft)->step = NAM_RPC_VIEW_ACK;
	request_of(&draft)->first = 1;
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 1);
}

static void
any_step__at_another_server__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 4);
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 1, 0, 1);
	assert_int_equal(ask(f, &draft), -NAM_E_CLUSTER);
	assert_int_equal(change(f, 0, NAM_RPC_VIEW_ADD, &one), -NAM_E_CLUSTER);
	assert_int_equal(ack(f, &f->connection, 0), -NAM_E_CLUSTER);
	assert_int_equal(number(f), 0);
}

/* ---- COPY ------------------------------------------------------------------------------------ */

static void
copy__a_later_one_or_of_another_lead__REPLACES_IT(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	copy_fill(f, &draft, 5, 50, 4, 0, 4);
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_view_reply));
	assert_int_equal(view_of(f)->view.number, 5);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 5);
	assert_int_equal(view_of(f)->view.lead_boot, 50);
	assert_int_equal(view_of(f)->acknowledged, 5);
	assert_int_equal(view_of(f)->count, 4);
	copy_fill(f, &draft, 4, 50, 3, 0, 3);
	assert_int_equal(ask(f, &draft), -NAM_E_VIEW);
	copy_fill(f, &draft, 5, 50, 3, 0, 3);
	assert_int_equal(ask(f, &draft), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.count, 4);
	copy_fill(f, &draft, 6, 50, 2, 0, 2);
	assert_int_equal(ask(f, &draft), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 6);
	assert_int_equal(view_of(f)->view.count, 2);
	copy_fill(f, &draft, 1, 51, 1, 0, 1);
	assert_int_equal(ask(f, &draft), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 1);
	assert_int_equal(view_of(f)->view.lead_boot, 51);
	/* The lead of that boot has ended, whatever it vouched for. */
	copy_fill(f, &draft, 9, 50, 2, 0, 2);
	assert_int_equal(ask(f, &draft), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->view.lead_boot, 51);
}

static void
copy__other_bytes_behind_it_than_a_voucher__IS_PROTOCOL(void **state)
{
	const uint32_t body = (uint32_t)sizeof(struct nam_rpc_view_request) +
		2 * (uint32_t)sizeof(struct nam_view_member);
	struct fixture *f = *state;
	struct draft draft;

	copy_fill(f, &draft, 5, 50, 2, 0, 2);
	for (uint32_t bytes = 1; bytes < 40; bytes++)
		assert_int_equal(call(f, NAM_RPC_VIEW, draft.body, body + bytes),
			bytes == NAM_VOUCHER_BYTES ? 0 : -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 5);
}

static void
copy__many_pages__WHOLE_OR_NOT_AT_ALL(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 };
	struct draft draft;

	copy_fill(f, &draft, 5, 50, PAGE + 7, 0, PAGE);
	assert_int_equal(ask(f, &draft), 0);
	copy_fill(f, &draft, 6, 50, PAGE + 7, 0, PAGE);
	assert_int_equal(ask_over(f, &other, &draft), 0);
	assert_int_equal(number(f), 0);
	copy_fill(f, &draft, 6, 50, PAGE + 7, PAGE, 7);
	/* A page of another view. */
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask_over(f, &other, &draft), 0);
	get(f, PAGE);
	assert_int_equal(view_of(f)->view.number, 6);
	assert_int_equal(view_of(f)->count, 7);
	copy_fill(f, &draft, 7, 50, PAGE + 7, 0, PAGE);
	assert_int_equal(ask_over(f, &other, &draft), 0);
	leave(f, &other);
	assert_int_equal(number(f), 6);
}

static void
copy__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	for (unsigned i = 0; i < 12; i++) {
		struct nam_rpc_view_request *request = request_of(&draft);
		struct nam_view_member *one = &request->members[1];

		copy_fill(f, &draft, 5, 50, 2, 0, 2);
		switch (i) {
		case 0:
			request->view.number = 0;
			break;
		case 1:
			request->view.lead = 2;
			break;
		case 2:
			request->view.lead_boot = 51;
			break;
		case 3:
			request->members[0].state = NAM_VIEW_JOINING;
			request->members[0].since = request->members[0].renewed = 0;
			break;
		case 4:
			one->state = 0;
			break;
		case 5:
			one->state = NAM_VIEW_COPYING + 1;
			break;
		case 6:
			one->state = NAM_VIEW_JOINING;
			break;
		case 7:
			one->since = 0;
			break;
		case 8:
			one->since = 2;
			break;
		case 9:
			one->memory = 0;
			break;
		case 10:	/* no memory of a member that joins has moved */
			one->state = NAM_VIEW_JOINING;
			one->since = one->renewed = 0;
			one->memory++;
			break;
		default:
			one->renewed = 6;
		}
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(number(f), 0);
	copy_fill(f, &draft, 5, 50, 2, 0, 2);
	request_of(&draft)->members[1].state = NAM_VIEW_JOINING;
	request_of(&draft)->members[1].since = request_of(&draft)->members[1].renewed = 0;
	assert_int_equal(ask(f, &draft), 0);
	copy_fill(f, &draft, 6, 50, 2, 0, 2);
	request_of(&draft)->members[1].state = NAM_VIEW_MOVING;
	request_of(&draft)->members[1].memory++;
	assert_int_equal(ask(f, &draft), 0);
}

static void
copy__at_the_lead__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	form(f, 2);
	copy_fill(f, &draft, 9, f->server->boot, 1, 0, 1);
	assert_int_equal(ask(f, &draft), -NAM_E_CLUSTER);
	assert_int_equal(number(f), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(get__no_view_yet__NUMBER_0),
		TEST(form__one_page__VIEW_1_AND_ITS_WORD),
		TEST(form__many_pages__NOTHING_before_the_last),
		TEST(form__by_two_connections_at_once__ONE_VIEW_WHOLE),
		TEST(form__connection_closes_halfway__ITS_PAGES_ARE_GONE_and_others_form),
		TEST(form__pages_that_do_not_follow__IS_PROTOCOL),
		TEST(form__lead_is_another__IS_CLUSTER),
		TEST(form__malformed_members__IS_PROTOCOL),
		TEST(any_step__malformed__IS_PROTOCOL),
		TEST_3(any_step__at_another_server__IS_CLUSTER),
		TEST_3(copy__a_later_one_or_of_another_lead__REPLACES_IT),
		TEST_3(copy__other_bytes_behind_it_than_a_voucher__IS_PROTOCOL),
		TEST_3(copy__many_pages__WHOLE_OR_NOT_AT_ALL),
		TEST_3(copy__malformed__IS_PROTOCOL),
		TEST(copy__at_the_lead__IS_CLUSTER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
