/* SPDX-License-Identifier: Apache-2.0 */
/* fence_test.c -- the end of a client, as its memory servers go through it. */
#include "view_fixture.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rpc/fence_rpc.h"
#include "memserver/admission/admit.h"

static const struct nam_rpc_fence_reply *
fenced(struct fixture *f)
{
	return reply_body(f);
}

static int
step_of(struct fixture *f, enum nam_rpc_fence_step step, uint16_t id, uint16_t incarnation,
	uint64_t view)
{
	const struct nam_rpc_fence_request request = { .step = (uint16_t)step, .client_id = id,
		.incarnation = incarnation, .view = view };

	return call(f, NAM_RPC_FENCE, &request, sizeof(request));
}

static int
close_step(struct fixture *f, uint16_t id, uint16_t incarnation)
{
	return step_of(f, NAM_RPC_FENCE_CLOSE, id, incarnation, 0);
}

static int
publish(struct fixture *f, uint16_t id, uint16_t incarnation, uint64_t view)
{
	return step_of(f, NAM_RPC_FENCE_PUBLISH, id, incarnation, view);
}

static uint32_t
state_of(struct fixture *f, uint16_t id, uint16_t incarnation)
{
	const struct nam_rpc_client_state_request request = { id, incarnation, 0 };
	const struct nam_rpc_client_state_reply *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, &request, sizeof(request)), 0);
	return reply->state;
}

static int
attach(struct fixture *f, struct nam__connection *connection, uint16_t id, uint16_t incarnation)
{
	*connection = (struct nam__connection){ .handler = &f->server->handlers[0],
		.client_id = id, .incarnation = incarnation };
	return nam__membership_attach(&f->server->membership, connection);
}

/* ---- the lead ------------------------------------------------------------------------------ */

static void
session_closes__other_members__IS_FENCING_UNTIL_PUBLISHED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, late;
	uint64_t *slot = f->server->membership.epoch_slots + 1;

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	*slot = 5;
	leave(f, &session);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_FENCING);
	assert_int_equal(*slot, 5);
	assert_int_equal(view_word(f), 1ull << NAM_VIEW_WORD_FENCING | 1);
	assert_int_equal(attach(f, &late, 1, 1), -NAM_E_FENCED);
	assert_int_equal(step_of(f, NAM_RPC_FENCE_NEXT, 0, 0, 0), 0);
	assert_int_equal(fenced(f)->client_id, 1);
	assert_int_equal(fenced(f)->incarnation, 1);
	assert_int_equal(close_step(f, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_FENCING);
	assert_int_equal(publish(f, 1, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_DEAD);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_DEAD);
	assert_int_equal(*slot, 0);
	assert_int_equal(view_word(f), 1);
	assert_int_equal(step_of(f, NAM_RPC_FENCE_NEXT, 0, 0, 0), 0);
	assert_int_equal(fenced(f)->client_id, 0);
	/* Again, as by another client that fences it. */
	assert_int_equal(close_step(f, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_DEAD);
	assert_int_equal(publish(f, 1, 1, 1), 0);
	assert_int_equal(attach(f, &late, 1, 1), -NAM_E_FENCED);
}

static void
publish__another_view__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	leave(f, &session);
	assert_int_equal(close_step(f, 1, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(publish(f, 1, 1, 1), -NAM_E_VIEW);
	assert_int_equal(publish(f, 1, 1, 3), -NAM_E_VIEW);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_FENCING);
	assert_int_equal(view_word(f), 1ull << NAM_VIEW_WORD_FENCING | 2);
	assert_int_equal(publish(f, 1, 1, 2), 0);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_DEAD);
}

static void
publish__a_queue_pair_is_left__IS_AGAIN(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, worker;

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(attach(f, &worker, 1, 1), 0);
	leave(f, &session);
	assert_int_equal(publish(f, 1, 1, 1), -EAGAIN);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_FENCING);
	leave(f, &worker);
	assert_int_equal(publish(f, 1, 1, 1), 0);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_DEAD);
}

static void
publish__not_fencing__CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(publish(f, 1, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_ALIVE);
	assert_int_equal(publish(f, 1, 2, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_UNKNOWN);
	assert_int_equal(publish(f, 9, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_UNKNOWN);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_ALIVE);
	leave(f, &session);
}

/* Over shm the mappings of a client that is alive cannot be revoked. */
static void
close__alive_with_mappings__IS_CAPABILITY(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, worker;

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(close_step(f, 1, 1), -NAM_E_FABRIC_CAPABILITY);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_ALIVE);
	assert_int_equal(attach(f, &worker, 1, 1), 0);
	leave(f, &worker);
	/* Where they can, it is not alive any more. */
	f->server->domain->limits.caps &= ~(uint32_t)NAM_CAP_LASTING;
	assert_int_equal(close_step(f, 1, 1), 0);
	assert_int_equal(fenced(f)->state, NAM_CLIENT_FENCING);
	assert_int_equal(attach(f, &worker, 1, 1), -NAM_E_FENCED);
	assert_int_equal(publish(f, 1, 1, 1), -EAGAIN);
	leave(f, &session);
	assert_int_equal(publish(f, 1, 1, 1), 0);
	assert_int_equal(state_of(f, 1, 1), NAM_CLIENT_DEAD);
}

static void
next__several__GOES_ROUND(void **state)
{
	struct fixture *f = *state;
	struct nam__connection sessions[4] = { 0 };
	static const uint16_t after[] = { 0, 1, 2, 3, 4095 }, found[] = { 1, 3, 3, 4, 1 };

	form(f, 2);
	for (int i = 0; i < 4; i++)
		assert_int_equal(enrol(f, &sessions[i], 1), 0);
	leave(f, &sessions[0]);
	leave(f, &sessions[2]);
	leave(f, &sessions[3]);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(step_of(f, NAM_RPC_FENCE_NEXT, after[i], 0, 0), 0);
		assert_int_equal(fenced(f)->client_id, found[i]);
	}
	leave(f, &sessions[1]);
}

/* Others may know clients of another life of the lead, which this one does not. */
static void
form__newest_of_others__IDS_BEGIN_ABOVE_IT(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 };
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 2);
	request_of(&draft)->newest = 7;
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(session.client_id, 1);
	assert_int_equal(session.incarnation, 8);
	leave(f, &session);
	assert_int_equal(publish(f, 1, 8, 1), 0);
	assert_int_equal(state_of(f, 1, 8), NAM_CLIENT_DEAD);
	for (uint16_t incarnation = 1; incarnation <= 7; incarnation++) {
		assert_int_equal(state_of(f, 1, incarnation), NAM_CLIENT_UNKNOWN);
		assert_int_equal(state_of(f, 2, incarnation), NAM_CLIENT_UNKNOWN);
	}
	f->server->membership.last_id = 0;
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(session.incarnation, 9);
	assert_int_equal(state_of(f, 1, 8), NAM_CLIENT_DEAD);
	assert_int_equal(state_of(f, 1, 7), NAM_CLIENT_UNKNOWN);
	leave(f, &session);
	/* Of other steps it is malformed. */
	page_fill(f, &draft, NAM_RPC_VIEW_GET, 0, 0, 0);
	request_of(&draft)->newest = 7;
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
}

static void
regions__clients_have_come__SAY_THE_NEWEST(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_regions_request request = { 0 };
	const struct nam_rpc_regions_reply *reply = reply_body(f);
	struct nam__connection connection;

	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->newest, 0);
	assert_int_equal(attach(f, &connection, 7, 4), 0);
	leave(f, &connection);
	assert_int_equal(close_step(f, 9, 6), 0);
	assert_int_equal(close_step(f, 7, 5), 0);
	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->newest, 6);
}

/* ---- any memory server --------------------------------------------------------------------- */

static void
close__elsewhere__REFUSES_THAT_INCARNATION_AND_EARLIER_ONES(void **state)
{
	struct fixture *f = *state;
	struct nam__connection connection;

	assert_int_equal(attach(f, &connection, 7, 4), 0);
	leave(f, &connection);
	assert_int_equal(close_step(f, 7, 5), 0);
	for (uint16_t incarnation = 3; incarnation <= 5; incarnation++)
		assert_int_equal(attach(f, &connection, 7, incarnation), -NAM_E_FENCED);
	assert_int_equal(attach(f, &connection, 8, 5), 0);
	leave(f, &connection);
	/* A late repetition does not touch the next one. */
	assert_int_equal(attach(f, &connection, 7, 6), 0);
	assert_int_equal(close_step(f, 7, 5), 0);
	leave(f, &connection);
	assert_int_equal(attach(f, &connection, 7, 6), 0);
	assert_int_equal(attach(f, &(struct nam__connection){ 0 }, 7, 5), -NAM_E_FENCED);
	leave(f, &connection);
}

static void
close__incarnation_wraps__COMPARES_DISTANCES(void **state)
{
	struct fixture *f = *state;
	struct nam__connection connection;

	assert_int_equal(close_step(f, 7, UINT16_MAX), 0);
	assert_int_equal(attach(f, &connection, 7, UINT16_MAX), -NAM_E_FENCED);
	assert_int_equal(attach(f, &connection, 7, 1), 0);
	leave(f, &connection);
	assert_int_equal(attach(f, &connection, 7, UINT16_MAX), -NAM_E_FENCED);
}

static void
close__lower_term__IS_TERM(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_fence_request request = { .step = NAM_RPC_FENCE_CLOSE, .client_id = 7,
		.incarnation = 1, .term = 2 };
	struct nam__connection connection;

	f->server->membership.view.head.term = 3;
	assert_int_equal(call(f, NAM_RPC_FENCE, &request, sizeof(request)), -NAM_E_TERM);
	assert_int_equal(attach(f, &connection, 7, 1), 0);
	leave(f, &connection);
	request.term = 3;
	assert_int_equal(call(f, NAM_RPC_FENCE, &request, sizeof(request)), 0);
	assert_int_equal(attach(f, &connection, 7, 1), -NAM_E_FENCED);
	/* A client that fences another one has no term. */
	request.term = 0;
	request.client_id = 8;
	assert_int_equal(call(f, NAM_RPC_FENCE, &request, sizeof(request)), 0);
}

static void
regions__name_a_client__THE_CONNECTION_IS_ITS(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_regions_request request = { 0, 7, 2 };
	struct nam__connection connection = { 0 }, other = { 0 };

	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(f->server->membership.present[7], 1);
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(f->server->membership.present[7], 1);
	request.incarnation = 3;
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	request.incarnation = 2;
	request.client_id = 8;
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	leave(f, &connection);
	assert_int_equal(f->server->membership.present[7], 0);
	assert_int_equal(close_step(f, 7, 2), 0);
	request.client_id = 7;
	assert_int_equal(call_over(f, &other, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FENCED);
	assert_int_equal(other.client_id, 0);
	leave(f, &other);
}

/* M18: otherwise the holder of any key could make all clients of an id old. */
static void
regions__name_a_client_with_keys__NEEDS_ITS_VOUCHER(void **state)
{
	struct fixture *f = *state;
	struct {
		struct nam_rpc_regions_request is;
		uint8_t voucher[NAM_VOUCHER_BYTES];
	} request = { { 0, 7, 2 }, { 0 } };
	struct nam__connection connection = { .proven = { 4711, NAM_ROLE_WRITE } };
	struct nam__auth_name name = { 4712, 7, 2 };
	struct nam__auth_keys *keys = calloc(1, sizeof(*keys) + sizeof(keys->keys[0]));

	assert_non_null(keys);
	keys->count = 1;
	assert_int_equal(nam__auth_key_make("ops", NAM_ROLE_ADMIN, &keys->keys[0], NULL), 0);
	f->server->keys = keys;
	f->server->options.keys = "there";
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request.is,
		sizeof(request.is)), -NAM_E_FABRIC_DENIED);
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FABRIC_DENIED);
	/* Of another key's holder. */
	assert_int_equal(nam__auth_vouch_name(f->server, &name, request.voucher),
		NAM_VOUCHER_BYTES);
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FABRIC_DENIED);
	assert_int_equal(connection.client_id, 0);
	assert_int_equal(f->server->membership.newest_of_all, 0);
	name.print = 4711;
	assert_int_equal(nam__auth_vouch_name(f->server, &name, request.voucher),
		NAM_VOUCHER_BYTES);
	assert_int_equal(call_over(f, &connection, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(connection.client_id, 7);
	leave(f, &connection);
	f->server->options.keys = NULL;
	f->server->keys = NULL;
	free(keys);
}

static void
fence__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_fence_request bad[] = {
		{ .client_id = 1, .incarnation = 1 },
		{ .step = NAM_RPC_FENCE_PUBLISH + 1, .client_id = 1, .incarnation = 1 },
		{ .step = NAM_RPC_FENCE_NEXT, .incarnation = 1 },
		{ .step = NAM_RPC_FENCE_NEXT, .client_id = NAM_CLIENTS_MAX },
		{ .step = NAM_RPC_FENCE_NEXT, .term = 1 },
		{ .step = NAM_RPC_FENCE_NEXT, .view = 1 },
		{ .step = NAM_RPC_FENCE_NEXT, .reserved = 1 },
		{ .step = NAM_RPC_FENCE_CLOSE, .incarnation = 1 },
		{ .step = NAM_RPC_FENCE_CLOSE, .client_id = 1 },
		{ .step = NAM_RPC_FENCE_CLOSE, .client_id = 1, .incarnation = 1, .view = 1 },
		{ .step = NAM_RPC_FENCE_PUBLISH, .client_id = 1, .view = 1 },
		{ .step = NAM_RPC_FENCE_PUBLISH, .client_id = NAM_CLIENTS_MAX, .incarnation = 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(call(f, NAM_RPC_FENCE, &bad[i], sizeof(bad[i])),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call(f, NAM_RPC_FENCE, &bad[0], sizeof(bad[0]) - 1),
		-NAM_E_FABRIC_PROTOCOL);
}

static void
fence__steps_of_the_lead_elsewhere__ARE_CLUSTER(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(step_of(f, NAM_RPC_FENCE_NEXT, 0, 0, 0), -NAM_E_CLUSTER);
	assert_int_equal(publish(f, 1, 1, 1), -NAM_E_CLUSTER);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(session_closes__other_members__IS_FENCING_UNTIL_PUBLISHED),
		TEST(publish__another_view__IS_VIEW),
		TEST(publish__a_queue_pair_is_left__IS_AGAIN),
		TEST(publish__not_fencing__CHANGES_NOTHING),
		TEST(close__alive_with_mappings__IS_CAPABILITY),
		TEST(next__several__GOES_ROUND),
		TEST(form__newest_of_others__IDS_BEGIN_ABOVE_IT),
		TEST_3(regions__clients_have_come__SAY_THE_NEWEST),
		TEST_3(close__elsewhere__REFUSES_THAT_INCARNATION_AND_EARLIER_ONES),
		TEST_3(close__incarnation_wraps__COMPARES_DISTANCES),
		TEST_3(close__lower_term__IS_TERM),
		TEST_3(regions__name_a_client__THE_CONNECTION_IS_ITS),
		TEST_3(regions__name_a_client_with_keys__NEEDS_ITS_VOUCHER),
		TEST(fence__malformed__IS_PROTOCOL),
		TEST_3(fence__steps_of_the_lead_elsewhere__ARE_CLUSTER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
