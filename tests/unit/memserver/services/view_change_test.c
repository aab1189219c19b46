/* SPDX-License-Identifier: Apache-2.0 */
/* view_change_test.c -- changes of the view, and clients that have not acknowledged it. */
#include "common/rpc/fence_rpc.h"
#include "view_fixture.h"

/* ---- CHANGE ---------------------------------------------------------------------------------- */

static void
change__add_up__ONE_AFTER_THE_OTHER(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(change_id(f, 0, NAM_RPC_VIEW_ADD, 5), -NAM_E_VIEW);
	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 9), 0);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_view_reply));
	assert_int_equal(view_of(f)->view.number, 2);
	assert_int_equal(view_of(f)->view.count, 3);
	assert_int_equal(view_word(f), 2);
	get(f, 2);
	assert_int_equal(view_of(f)->members[0].id, 9);
	assert_int_equal(view_of(f)->members[0].state, NAM_VIEW_JOINING);
	assert_int_equal(view_of(f)->members[0].since, 0);
	/* One at a time. */
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ADD, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 9), 0);
	get(f, 2);
	assert_int_equal(view_of(f)->view.number, 3);
	assert_int_equal(view_of(f)->members[0].state, NAM_VIEW_UP);
	assert_int_equal(view_of(f)->members[0].since, 3);
	assert_int_equal(view_of(f)->members[0].renewed, 3);
	/* In the order of their ids. */
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, 5), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->members[1].id, 1);
	assert_int_equal(view_of(f)->members[2].id, 5);
	assert_int_equal(view_of(f)->members[3].id, 9);
	assert_int_equal(view_word(f), 4);
}

static void
change__another_number__IS_VIEW(void **state)
{
	struct fixture *f = *state;

	form(f, 2);
	for (uint64_t now = 0; now < 5; now++)
		if (now != 1)
			assert_int_equal(change_id(f, now, NAM_RPC_VIEW_ADD, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ABORT, 5), -NAM_E_VIEW);
	assert_int_equal(number(f), 2);
	assert_int_equal(view_word(f), 2);
}

static void
change__of_members_in_another_state__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 5);

	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_UP, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ABORT, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_RENEW, 1), -NAM_E_VIEW);
	for (int what = NAM_RPC_VIEW_UP; what <= NAM_RPC_VIEW_MOVED; what++)
		assert_int_equal(change(f, 1, what, &one), -NAM_E_VIEW);
	/* Another member's address. */
	memcpy(one.address, member(f, 1).address, sizeof(one.address));
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_VIEW);
	/* Restarted since it was added. */
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	one = member(f, 5);
	one.boot++;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_UP, &one), -NAM_E_VIEW);
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &one), -NAM_E_VIEW);
	assert_int_equal(number(f), 2);
}

static void
change__malformed_member__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one;

	form(f, 2);
	one = member(f, 5);
	one.id = NAM_SERVERS_MAX;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_PROTOCOL);
	one = member(f, 5);
	one.wanted = 1;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_PROTOCOL);
	one = member(f, 5);
	one.boot = 0;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_PROTOCOL);
	one = member(f, 5);
	memset(one.address, 'x', sizeof(one.address));
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_PROTOCOL);
	one.address[0] = '\0';
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_CHANGES + 1, 5), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 1);
}

static void
change__abort__IT_IS_NO_MEMBER_and_may_come_again(void **state)
{
	struct fixture *f = *state;

	form(f, 4);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ABORT, 3), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 7), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 7), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 3);
	assert_int_equal(view_of(f)->view.count, 4);
	assert_int_equal(view_of(f)->members[3].id, 3);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, 7), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_UP, 7), 0);
}

static void
change__remove__IT_IS_NO_MEMBER_and_its_id_never_comes_again(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member other = member(f, 3);

	form(f, 4);
	other.boot++;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_REMOVE, &other), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_REMOVE, 0), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_REMOVE, 7), -NAM_E_VIEW);
	/* One that joins is given up, and others wait for that. */
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 7), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_REMOVE, 7), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_REMOVE, 3), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 7), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_REMOVE, 3), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_REMOVE, 3), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->view.count, 3);
	assert_true(nam_view_was_removed(&view_of(f)->view, 3));
	assert_false(nam_view_was_removed(&view_of(f)->view, 2));
	assert_int_equal(view_word(f), 4);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ADD, 3), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ADD, 7), 0);
}

static void
change__renew__ANOTHER_LIFE_of_any_but_the_lead(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1), lead = member(f, 0);

	form(f, 2);
	one.boot = 77;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_RENEW, &one), 0);
	get(f, 1);
	assert_int_equal(view_of(f)->view.number, 2);
	assert_int_equal(view_of(f)->members[0].boot, 77);
	assert_int_equal(view_of(f)->members[0].memory, 77);
	assert_int_equal(view_of(f)->members[0].since, 1);
	assert_int_equal(view_of(f)->members[0].renewed, 2);
	assert_int_equal(view_word(f), 2);
	lead.boot = 78;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &lead), -NAM_E_VIEW);
}

static void
change__256_members__THERE_IS_NO_ROOM_FOR_MORE(void **state)
{
	struct fixture *f = *state;

	form(f, NAM_SERVERS_MAX - 1);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, NAM_SERVERS_MAX - 1), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, NAM_SERVERS_MAX - 1), 0);
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++)
		assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, id), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->view.count, NAM_SERVERS_MAX);
}

static char logged[4096];

static void
log_collect(enum nam_log_level level, const char *event, const char *fields)
{
	size_t used = strlen(logged);

	assert_int_equal(level, NAM_LOG_INFO);
	(void)snprintf(logged + used, sizeof(logged) - used, "%s %s\n", event, fields);
}

static void
change__each_that_succeeds__IS_LOGGED(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	logged[0] = '\0';
	f->server->options.log = log_collect;
	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, 6), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ABORT, 6), 0);
	one.boot = 77;
	(void)snprintf(one.address, sizeof(one.address), "not looked at");
	assert_int_equal(change(f, 5, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_string_equal(logged,
		"view number=1 change=form id=0 address=\"shm:/run/nam/0\"\n"
		"view number=2 change=add id=5 address=\"shm:/run/nam/5\"\n"
		"view number=3 change=up id=5 address=\"shm:/run/nam/5\"\n"
		"view number=4 change=add id=6 address=\"shm:/run/nam/6\"\n"
		"view number=5 change=abort id=6 address=\"shm:/run/nam/6\"\n"
		"view number=6 change=renew id=1 address=\"shm:/run/nam/1\"\n");
}

/* ---- clients --------------------------------------------------------------------------------- */

static void
up__a_living_client_has_not_acknowledged__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };
	struct nam_view_member one = member(f, 1);

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW);
	assert_int_equal(ack(f, &a, 2), 0);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_view_reply));
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(view_of(f)->delaying, b.client_id);
	assert_int_equal(view_of(f)->delaying_incarnation, b.incarnation);
	/* It goes back to no earlier one. */
	assert_int_equal(ack(f, &a, 1), 0);
	assert_int_equal(ack(f, &b, 2), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 2);
	assert_int_equal(view_of(f)->delaying, 0);
	assert_int_equal(view_of(f)->delaying_incarnation, 0);
	/* They know the number of the ADD; later ones do not matter. */
	one.boot = 77;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_UP, 5), 0);
	leave(f, &a);
	leave(f, &b);
}

static void
up__a_dead_client_has_not_acknowledged__COMES_UP(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, worker = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	worker.client_id = session.client_id;
	worker.incarnation = session.incarnation;
	assert_int_equal(nam__membership_attach(&f->server->membership, &worker), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), -NAM_E_VIEW);
	leave(f, &session);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	leave(f, &worker);
}

/* Five seconds pass. */
static const struct nam_rpc_view_reply *
get_later(struct fixture *f, const struct nam__connection *client)
{
	f->server->membership.members[client->client_id].heard_ns -= 5000000000u;
	get(f, 0);
	return view_of(f);
}

static void
get__a_client_holds_back_the_epoch__NAMES_IT_until_it_is_heard(void **state)
{
	struct fixture *f = *state;
	struct nam__membership *membership = &f->server->membership;
	uint64_t *word = membership->epoch_slots +
		((int64_t)NAM_META_EPOCH_OFFSET - (int64_t)NAM_META_SLOTS_OFFSET) / 8;
	struct nam__connection client = { 0 };
	uint64_t *slot;

	form(f, 1);
	assert_int_equal(enrol(f, &client, 1), 0);
	slot = &membership->epoch_slots[client.client_id];
	*word = 7;
	/* In one that was not seen before; in the newest one. */
	*slot = 6;
	assert_int_equal(get_later(f, &client)->silent, 0);
	*slot = 7;
	assert_int_equal(get_later(f, &client)->silent, 0);
	assert_int_equal(get_later(f, &client)->silent, 0);
	*word = 8;
	assert_int_equal(get_later(f, &client)->silent, client.client_id);
	assert_int_equal(view_of(f)->silent_incarnation, client.incarnation);
	assert_in_range(view_of(f)->silent_ms, 5000, 100000);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(get_later(f, &client)->silent, client.client_id);
	assert_in_range(view_of(f)->silent_ms, 20000, 100000);
	assert_int_equal(ack(f, &client, 0), 0);
	assert_int_equal(get_later(f, &client)->silent, client.client_id);
	assert_in_range(view_of(f)->silent_ms, 5000, 19999);
	assert_int_equal(view_of(f)->acknowledged, 1);
	leave(f, &client);
	get(f, 0);
	assert_int_equal(view_of(f)->silent, 0);
	assert_int_equal(view_of(f)->silent_ms, 0);
}

static void
get__a_client_is_in_no_epoch__NAMES_IT_until_it_has_a_slot(void **state)
{
	struct fixture *f = *state;
	uint64_t *slots = f->server->membership.epoch_slots;
	struct nam__connection client = { 0 }, next = { 0 };
	uint16_t id;

	form(f, 1);
	assert_int_equal(enrol(f, &client, 1), 0);
	id = client.client_id;
	get(f, 0);
	assert_in_range(view_of(f)->silent_ms, 0, 4999);
	/* It has registered, and has not begun. */
	assert_int_equal(get_later(f, &client)->silent, client.client_id);
	assert_int_equal(view_of(f)->silent_incarnation, client.incarnation);
	assert_in_range(view_of(f)->silent_ms, 5000, 100000);
	slots[client.client_id] = 7;
	assert_int_equal(get_later(f, &client)->silent, 0);
	/* It has ended, and stays: from then on. */
	slots[client.client_id] = 0;
	assert_int_equal(get_later(f, &client)->silent, 0);
	assert_int_equal(get_later(f, &client)->silent, client.client_id);
	assert_in_range(view_of(f)->silent_ms, 5000, 9999);
	leave(f, &client);
	get(f, 0);
	assert_int_equal(view_of(f)->silent, 0);
	/* The next one with that id has no slot yet that was seen. */
	f->server->membership.members[id].epoch_seen = 9;
	f->server->membership.last_id = id - 1u;
	assert_int_equal(enrol(f, &next, 1), 0);
	assert_int_equal(next.client_id, id);
	assert_int_equal(get_later(f, &next)->silent, id);
	leave(f, &next);
}

static int
lost(struct fixture *f, struct nam__connection *client, uint32_t id, uint64_t boot)
{
	struct draft draft = { { 0 } };

	request_of(&draft)->step = NAM_RPC_VIEW_ACK;
	request_of(&draft)->first = 1 + id;
	request_of(&draft)->view.lead_boot = boot;
	return ask_over(f, client, &draft);
}

/* The client that is named, and from which member it is cut off; 0: none. */
static uint32_t
cut_off(struct fixture *f, uint32_t *ret_from)
{
	get(f, 0);
	*ret_from = view_of(f)->cut_from;
	return view_of(f)->cut;
}

static void
ack__a_member_is_lost__NAMES_THE_CLIENT_while_it_is_up(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };
	struct nam_view_member one = member(f, 1);
	uint32_t from;

	form(f, 3);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	/* An earlier life; no member. */
	assert_int_equal(lost(f, &a, 1, one.boot - 500), 0);
	assert_int_equal(lost(f, &a, 7, one.boot), 0);
	assert_int_equal(cut_off(f, &from), 0);
	assert_int_equal(lost(f, &a, 1, one.boot), 0);
	assert_int_equal(lost(f, &b, 1, one.boot), 0);
	assert_int_equal(cut_off(f, &from), a.client_id);
	assert_int_equal(from, 1);
	assert_int_equal(view_of(f)->cut_incarnation, a.incarnation);
	/* It is restarted, and none of their locks is there. */
	one.boot = 77;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(cut_off(f, &from), 0);
	assert_int_equal(lost(f, &a, 1, member(f, 1).boot), 0);
	assert_int_equal(cut_off(f, &from), 0);
	/* A loss that is over hides no other one. */
	assert_int_equal(lost(f, &a, 2, member(f, 2).boot), 0);
	assert_int_equal(cut_off(f, &from), a.client_id);
	assert_int_equal(from, 2);
	leave(f, &a);
	assert_int_equal(cut_off(f, &from), 0);
	leave(f, &b);
}

static void
ack__a_malformed_loss__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam__connection client = { 0 };
	struct draft draft = { { 0 } };

	form(f, 2);
	assert_int_equal(enrol(f, &client, 1), 0);
	assert_int_equal(lost(f, &client, 1, 0), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(lost(f, &client, NAM_SERVERS_MAX, 5), -NAM_E_FABRIC_PROTOCOL);
	request_of(&draft)->step = NAM_RPC_VIEW_ACK;
	request_of(&draft)->view.lead_boot = 5;
	assert_int_equal(ask_over(f, &client, &draft), -NAM_E_FABRIC_PROTOCOL);
	leave(f, &client);
}

static void
register__with_another_view__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection early = { 0 }, late = { 0 };

	assert_int_equal(enrol(f, &late, 1), -NAM_E_VIEW);
	assert_int_equal(enrol(f, &early, 0), 0);
	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	for (uint64_t now = 0; now < 5; now++)
		if (now != 2)
			assert_int_equal(enrol(f, &late, now), -NAM_E_VIEW);
	assert_int_equal(late.client_id, 0);
	assert_int_equal(f->server->membership.alive_count, 1);
	assert_int_equal(enrol(f, &late, 2), 0);
	/* It has said that it knows it; a client from before there was a view has not. */
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 0);
	assert_int_equal(view_of(f)->delaying, early.client_id);
	leave(f, &early);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	leave(f, &late);
}

static void
register__the_id_of_a_dead_client__HAS_ACKNOWLEDGED_ITS_OWN_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	leave(f, &session);
	/* Its id is not given out again before it is dead. */
	f->server->membership.last_id = 0;
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(session.client_id, 2);
	leave(f, &session);
	for (uint16_t id = 1; id <= 2; id++) {
		const struct nam_rpc_fence_request over = { .step = NAM_RPC_FENCE_PUBLISH,
			.client_id = id, .incarnation = 1, .view = 1 };

		assert_int_equal(call(f, NAM_RPC_FENCE, &over, sizeof(over)), 0);
	}
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	f->server->membership.last_id = 0;
	assert_int_equal(enrol(f, &session, 2), 0);
	assert_int_equal(session.client_id, 1);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	leave(f, &session);
}

static void
ack__not_over_a_session_connection__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, worker = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &session, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	worker.client_id = session.client_id;
	worker.incarnation = session.incarnation;
	assert_int_equal(nam__membership_attach(&f->server->membership, &worker), 0);
	assert_int_equal(ack(f, &worker, 2), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ack(f, &f->connection, 2), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ack(f, &session, 3), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	leave(f, &worker);
	leave(f, &session);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(change__add_up__ONE_AFTER_THE_OTHER),
		TEST(change__another_number__IS_VIEW),
		TEST(change__of_members_in_another_state__IS_VIEW),
		TEST(change__malformed_member__IS_PROTOCOL),
		TEST(change__abort__IT_IS_NO_MEMBER_and_may_come_again),
		TEST(change__remove__IT_IS_NO_MEMBER_and_its_id_never_comes_again),
		TEST(change__renew__ANOTHER_LIFE_of_any_but_the_lead),
		TEST(change__each_that_succeeds__IS_LOGGED),
		TEST(change__256_members__THERE_IS_NO_ROOM_FOR_MORE),
		TEST(up__a_living_client_has_not_acknowledged__IS_VIEW),
		TEST(up__a_dead_client_has_not_acknowledged__COMES_UP),
		TEST(get__a_client_holds_back_the_epoch__NAMES_IT_until_it_is_heard),
		TEST(get__a_client_is_in_no_epoch__NAMES_IT_until_it_has_a_slot),
		TEST(ack__a_member_is_lost__NAMES_THE_CLIENT_while_it_is_up),
		TEST(ack__a_malformed_loss__IS_PROTOCOL),
		TEST(register__with_another_view__IS_VIEW),
		TEST(register__the_id_of_a_dead_client__HAS_ACKNOWLEDGED_ITS_OWN_VIEW),
		TEST(ack__not_over_a_session_connection__IS_PROTOCOL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
