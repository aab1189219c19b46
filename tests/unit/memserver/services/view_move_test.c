/* SPDX-License-Identifier: Apache-2.0 */
/* view_move_test.c -- the memory of a member moves to a successor, or does not. */
#include "view_fixture.h"

/* ---- MOVE, MOVED ----------------------------------------------------------------------------- */

static void
move__moved__HAS_ANOTHER_BOOT_AND_ADDRESS_and_the_same_memory(void **state)
{
	struct fixture *f = *state;
	const struct nam_view_member *one;

	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(view_of(f)->view.number, 2);
	assert_int_equal(view_word(f), 2);
	one = at(f, 1);
	assert_int_equal(one->state, NAM_VIEW_MOVING);
	assert_int_equal(one->boot, 1001);
	assert_int_equal(one->memory, 1001);
	assert_string_equal(one->address, member(f, 1).address);
	assert_int_equal(moved(f, 2, 1), 0);
	assert_int_equal(view_word(f), 3);
	one = at(f, 1);
	assert_int_equal(one->state, NAM_VIEW_UP);
	assert_int_equal(one->boot, SUCCESSOR);
	assert_int_equal(one->memory, 1001);
	assert_int_equal(one->since, 1);
	assert_int_equal(one->renewed, 1);
	assert_string_equal(one->address, "shm:/run/nam/successor");
}

static void
move__twice__MEMORY_STAYS_THAT_OF_THE_FIRST(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one, back = member(f, 1);

	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(moved(f, 2, 1), 0);
	/* The boot in force is asked for. */
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), -NAM_E_VIEW);
	one = successor(f, 1);
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_MOVE, &one), 0);
	back.boot = SUCCESSOR + 1;
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_MOVED, &back), 0);
	assert_int_equal(at(f, 1)->boot, SUCCESSOR + 1);
	assert_int_equal(at(f, 1)->memory, 1001);
	assert_string_equal(at(f, 1)->address, back.address);
}

static void
move__of_none_or_not_up__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	assert_int_equal(change_id(f, 0, NAM_RPC_VIEW_MOVE, 1), -NAM_E_VIEW);
	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 7), -NAM_E_VIEW);
	one.boot++;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_MOVE, &one), -NAM_E_VIEW);
	assert_int_equal(moved(f, 1, 1), -NAM_E_VIEW);
	/* One joins or moves at a time. */
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_MOVE, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_MOVE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 2), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ADD, 6), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_UP, 1), -NAM_E_VIEW);
	assert_int_equal(number(f), 4);
}

static void
moved__to_itself_or_another_member__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = successor(f, 1);

	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	one.boot = 1001;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_MOVED, &one), -NAM_E_VIEW);
	one.boot = 0;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_MOVED, &one), -NAM_E_FABRIC_PROTOCOL);
	one = successor(f, 1);
	memcpy(one.address, member(f, 2).address, sizeof(one.address));
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_MOVED, &one), -NAM_E_VIEW);
	assert_int_equal(moved(f, 2, 2), -NAM_E_VIEW);
	assert_int_equal(moved(f, 1, 1), -NAM_E_VIEW);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	assert_int_equal(moved(f, 2, 1), 0);
}

static void
abort__of_a_member_that_moves__STAYS_WHERE_IT_IS(void **state)
{
	struct fixture *f = *state;
	const struct nam_view_member *one;

	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 2), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	one = at(f, 1);
	assert_int_equal(view_of(f)->view.count, 3);
	assert_int_equal(one->id, 1);
	assert_int_equal(one->state, NAM_VIEW_UP);
	assert_int_equal(one->boot, 1001);
	assert_int_equal(one->since, 1);
	assert_int_equal(one->renewed, 1);
	assert_string_equal(one->address, member(f, 1).address);
	assert_int_equal(moved(f, 3, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), 0);
}

static void
renew__of_a_member_that_moves__ENDS_THE_MOVE(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1), other = member(f, 2);

	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	/* Of another one: it goes on. */
	other.boot = 78;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &other), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	one.boot = 77;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->boot, 77);
	assert_int_equal(at(f, 1)->memory, 77);
	assert_int_equal(at(f, 1)->renewed, 4);
	assert_int_equal(moved(f, 4, 1), -NAM_E_VIEW);
}

static void
renew__to_memory_that_has_moved_away__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	form(f, 2);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(moved(f, 2, 1), 0);
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), -NAM_E_VIEW);
	one.boot = SUCCESSOR;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), -NAM_E_VIEW);
	one.boot = 77;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(at(f, 1)->memory, 77);
}

/* ---- NOTE ------------------------------------------------------------------------------------ */

static int
note(struct fixture *f, uint64_t now, uint32_t id)
{
	return change_id(f, now, NAM_RPC_VIEW_NOTE, id);
}

static void
note__passes_then_move__IS_COPYING_MOVING_UP(void **state)
{
	struct fixture *f = *state;

	form(f, 3);
	for (uint64_t now = 1; now < 4; now++) {
		assert_int_equal(note(f, now, 1), 0);
		assert_int_equal(view_of(f)->view.number, now + 1);
		assert_int_equal(view_word(f), now + 1);
		assert_int_equal(at(f, 1)->state, NAM_VIEW_COPYING);
		assert_int_equal(at(f, 1)->boot, 1001);
		assert_int_equal(at(f, 1)->renewed, 1);
		assert_string_equal(at(f, 1)->address, member(f, 1).address);
	}
	/* Clients write there still. */
	assert_int_equal(moved(f, 4, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	/* Clients go on, and another MOVE follows.  Another mover's NOTE does not count. */
	f->server->membership.view.mover = NULL;
	assert_int_equal(note(f, 5, 1), -NAM_E_VIEW);
	f->server->membership.view.mover = &f->connection;
	assert_int_equal(note(f, 5, 1), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_COPYING);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(moved(f, 7, 1), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->boot, SUCCESSOR);
	assert_int_equal(note(f, 8, 1), -NAM_E_VIEW);
	assert_int_equal(note(f, 8, 2), 0);
}

static void
note__of_none_or_not_up__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	assert_int_equal(note(f, 0, 1), -NAM_E_VIEW);
	form(f, 3);
	assert_int_equal(note(f, 1, 7), -NAM_E_VIEW);
	assert_int_equal(note(f, 2, 1), -NAM_E_VIEW);
	one.boot++;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_NOTE, &one), -NAM_E_VIEW);
	/* One joins, is copied or moves at a time. */
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(note(f, 2, 5), -NAM_E_VIEW);
	assert_int_equal(note(f, 2, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 5), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 2), 0);
	assert_int_equal(note(f, 4, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ABORT, 2), 0);
	assert_int_equal(note(f, 5, 2), 0);
	assert_int_equal(note(f, 6, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_MOVE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_ADD, 6), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_UP, 2), -NAM_E_VIEW);
	/* Of that member, too. */
	one = member(f, 2);
	one.boot++;
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_NOTE, &one), -NAM_E_VIEW);
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_MOVE, &one), -NAM_E_VIEW);
	assert_int_equal(number(f), 6);
}

static void
note__abort_or_renew__IS_UP(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	form(f, 3);
	assert_int_equal(note(f, 1, 1), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 2), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(view_of(f)->view.count, 3);
	assert_int_equal(at(f, 1)->renewed, 1);
	assert_int_equal(note(f, 3, 1), 0);
	one.boot = 77;
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->renewed, 5);
}

static void
note__a_client_is_fencing__HOLDS_BACK_ACKNOWLEDGED_until_it_is_dead(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };
	uint16_t id, incarnation;

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	assert_int_equal(note(f, 1, 1), 0);
	assert_int_equal(ack(f, &a, 2), 0);
	id = b.client_id;
	incarnation = b.incarnation;
	leave(f, &b);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(view_of(f)->delaying, id);
	/* The next pass does not wait for the one before. */
	assert_int_equal(note(f, 2, 1), 0);
	assert_int_equal(ack(f, &a, 3), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	fence_publish(f, id, incarnation, 3);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 3);
	assert_int_equal(view_of(f)->delaying, 0);
	leave(f, &a);
	/* It has acknowledged this pass. */
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 3);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void
moved__a_living_client_has_not_acknowledged__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(ack(f, &a, 2), 0);
	assert_int_equal(moved(f, 2, 1), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 1);
	assert_int_equal(view_of(f)->delaying, b.client_id);
	/* An abort waits for no client. */
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(ack(f, &b, 3), 0);
	assert_int_equal(ack(f, &a, 4), 0);
	/* It has acknowledged the end of the move before. */
	assert_int_equal(moved(f, 4, 1), -NAM_E_VIEW);
	assert_int_equal(ack(f, &b, 4), 0);
	assert_int_equal(moved(f, 4, 1), 0);
	leave(f, &a);
	leave(f, &b);
}

static void
moved__a_client_that_stopped_is_fencing__is_done(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(ack(f, &a, 2), 0);
	leave(f, &a);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 2);
	assert_int_equal(view_of(f)->delaying, 0);
	assert_int_equal(moved(f, 2, 1), 0);
}

static void
moved__a_client_that_has_not_stopped_is_fencing__IS_VIEW_until_it_is_dead(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };
	uint16_t id, incarnation;

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	/* The MOVE before is not this one. */
	assert_int_equal(ack(f, &b, 2), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(ack(f, &a, 4), 0);
	id = b.client_id;
	incarnation = b.incarnation;
	leave(f, &b);
	assert_int_equal(moved(f, 4, 1), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 2);
	assert_int_equal(view_of(f)->delaying, id);
	assert_int_equal(view_of(f)->delaying_incarnation, incarnation);
	fence_publish(f, id, incarnation, 4);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 4);
	assert_int_equal(view_of(f)->delaying, 0);
	assert_int_equal(moved(f, 4, 1), 0);
	leave(f, &a);
}

static void
ack__a_member_that_moves_is_lost__NAMES_THE_CLIENT(void **state)
{
	struct fixture *f = *state;
	struct nam__connection client = { 0 };
	struct draft draft = { { 0 } };

	form(f, 2);
	assert_int_equal(enrol(f, &client, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	request_of(&draft)->step = NAM_RPC_VIEW_ACK;
	request_of(&draft)->first = 1 + 1;
	request_of(&draft)->view.lead_boot = 1001;
	assert_int_equal(ask_over(f, &client, &draft), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->cut, client.client_id);
	assert_int_equal(view_of(f)->cut_from, 1);
	leave(f, &client);
}

/* ---- the mover ------------------------------------------------------------------------------- */

static char logged[4096];

static void
log_collect(enum nam_log_level level, const char *event, const char *fields)
{
	size_t used = strlen(logged);

	if (level == NAM_LOG_INFO && !strcmp(event, "view"))
		(void)snprintf(logged + used, sizeof(logged) - used, "%s\n", fields);
}

/* NOTE or MOVE of member 1 over that connection. */
static int
leaving_over(struct fixture *f, struct nam__connection *connection, uint64_t now, uint64_t term,
	enum nam_rpc_view_change what)
{
	struct draft draft = { { 0 } };

	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_CHANGE, .change = (uint16_t)what, .count = 1,
		.view = { .number = now, .term = term },
	};
	request_of(&draft)->members[0] = member(f, 1);
	return ask_over(f, connection, &draft);
}

static int
move_over(struct fixture *f, struct nam__connection *connection, uint64_t now, uint64_t term)
{
	return leaving_over(f, connection, now, term, NAM_RPC_VIEW_MOVE);
}

static void
mover__ends__ITS_MOVE_IS_ABORTED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection mover = { 0 }, other = { 0 };

	logged[0] = '\0';
	form(f, 2);
	f->server->options.log = log_collect;
	assert_int_equal(move_over(f, &mover, 1, 0), 0);
	assert_int_equal(move_over(f, &other, 2, 0), -NAM_E_VIEW);
	leave(f, &other);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	leave(f, &mover);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(view_of(f)->view.number, 3);
	assert_int_equal(at(f, 1)->boot, 1001);
	assert_int_equal(view_word(f), 3);
	assert_int_equal(moved(f, 3, 1), -NAM_E_VIEW);
	assert_int_equal(move_over(f, &mover, 3, 0), 0);
	assert_int_equal(moved(f, 4, 1), 0);
	/* It is done. */
	leave(f, &mover);
	assert_int_equal(number(f), 5);
	assert_string_equal(logged,
		"number=2 change=move id=1 address=\"shm:/run/nam/1\"\n"
		"number=3 change=abort id=1 address=\"shm:/run/nam/1\" reason=mover_ended\n"
		"number=4 change=move id=1 address=\"shm:/run/nam/1\"\n"
		"number=5 change=moved id=1 address=\"shm:/run/nam/successor\"\n");
}

static void
mover__of_an_earlier_move_ends__THE_NEXT_ONE_GOES_ON(void **state)
{
	struct fixture *f = *state;
	struct nam__connection first = { 0 }, second = { 0 };

	form(f, 2);
	assert_int_equal(move_over(f, &first, 1, 0), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(move_over(f, &second, 3, 0), 0);
	leave(f, &first);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	leave(f, &second);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
}

static void
mover__ends_in_a_pass__IS_ABORTED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection first = { 0 }, second = { 0 };

	form(f, 2);
	assert_int_equal(leaving_over(f, &first, 1, 0, NAM_RPC_VIEW_NOTE), 0);
	leave(f, &second);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_COPYING);
	leave(f, &first);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(number(f), 3);
	assert_int_equal(view_word(f), 3);
	/* The last one to say NOTE or MOVE is the mover. */
	assert_int_equal(leaving_over(f, &first, 3, 0, NAM_RPC_VIEW_NOTE), 0);
	assert_int_equal(leaving_over(f, &second, 4, 0, NAM_RPC_VIEW_NOTE), 0);
	leave(f, &first);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_COPYING);
	assert_int_equal(move_over(f, &second, 5, 0), 0);
	leave(f, &second);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
}

/* The steward that leads next does that. */
static void
mover__ends_and_another_store_decides__STAYS_MOVING(void **state)
{
	struct fixture *f = *state;
	struct nam__connection mover = { 0 };
	struct draft draft = { { 0 } };

	form(f, 2);
	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_STEWARD, .change = NAM_RPC_STEWARD_PRESENT, .view.term = 70,
	};
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(move_over(f, &mover, 1, 0), -NAM_E_VIEW_STORE);
	assert_int_equal(move_over(f, &mover, 1, 70), 0);
	assert_int_equal(moved(f, 2, 1), -NAM_E_VIEW_STORE);
	leave(f, &mover);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	assert_int_equal(view_of(f)->view.number, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(move__moved__HAS_ANOTHER_BOOT_AND_ADDRESS_and_the_same_memory),
		TEST(move__twice__MEMORY_STAYS_THAT_OF_THE_FIRST),
		TEST(move__of_none_or_not_up__IS_VIEW),
		TEST(moved__to_itself_or_another_member__IS_VIEW),
		TEST(abort__of_a_member_that_moves__STAYS_WHERE_IT_IS),
		TEST(renew__of_a_member_that_moves__ENDS_THE_MOVE),
		TEST(renew__to_memory_that_has_moved_away__IS_VIEW),
		TEST(note__passes_then_move__IS_COPYING_MOVING_UP),
		TEST(note__of_none_or_not_up__IS_VIEW),
		TEST(note__abort_or_renew__IS_UP),
		TEST(note__a_client_is_fencing__HOLDS_BACK_ACKNOWLEDGED_until_it_is_dead),
		TEST(moved__a_living_client_has_not_acknowledged__IS_VIEW),
		TEST(moved__a_client_that_stopped_is_fencing__is_done),
		TEST(moved__a_client_that_has_not_stopped_is_fencing__IS_VIEW_until_it_is_dead),
		TEST(ack__a_member_that_moves_is_lost__NAMES_THE_CLIENT),
		TEST(mover__ends__ITS_MOVE_IS_ABORTED),
		TEST(mover__of_an_earlier_move_ends__THE_NEXT_ONE_GOES_ON),
		TEST(mover__ends_in_a_pass__IS_ABORTED),
		TEST(mover__ends_and_another_store_decides__STAYS_MOVING),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
