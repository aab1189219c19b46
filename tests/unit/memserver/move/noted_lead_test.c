/* SPDX-License-Identifier: Apache-2.0 */
/* noted_lead_test.c -- the lead keeps pages that clients have changed, for the mover. */
#include <errno.h>

#include "step_fixture.h"
#include "tests/unit/memserver/services/view_fixture.h"

#define WORDS 4096u			/* of a region of 1 GiB */

static struct nam__connection mover, client;

/* Member 1 is claimed: a region of 1 GiB. */
static int
setup(void **state)
{
	const struct nam_rpc_move_claim body = { (uint64_t)WORDS * 64 * NAM_MOVE_NOTE_BYTES, 1, 1 };
	struct fixture *f;

	(void)fixture_setup(state);
	f = *state;
	memset(&mover, 0, sizeof(mover));
	memset(&client, 0, sizeof(client));
	form(f, 3);
	client.proven.role = NAM_ROLE_WRITE;
	assert_int_equal(enrol(f, &client, 1), 0);
	return move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, &body, sizeof(body));
}

static int
teardown(void **state)
{
	leave(*state, &client);
	leave(*state, &mover);
	return fixture_teardown(state);
}

/* NOTED of so many words from `word` on, with those pages each. */
static int
note_some(struct fixture *f, uint32_t id, uint32_t word, uint64_t pages, uint32_t count)
{
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_move_notes *notes = (void *)body;

	notes->id = id;
	for (uint32_t i = 0; i < count; i++)
		notes->noted[i] = (struct nam_move_noted){ pages, word + i, 0 };
	return move_step(f, &client, NAM_RPC_MOVE_NOTED, 0, body,
		(uint32_t)(sizeof(*notes) + count * sizeof(notes->noted[0])));
}

static int
note(struct fixture *f, uint32_t id, uint32_t word, uint64_t pages)
{
	return note_some(f, id, word, pages, 1);
}

/* ---- CLAIM ----------------------------------------------------------------------------------- */

static void
claim__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_claim bad[] = {
		{ 0, 1, 1 }, { (1ull << 38) + 1, 1, 1 }, { 1 << 20, 1, 0 },
		{ 1 << 20, 1, NAM_REGIONS_PER_SERVER + 1 },
	};
	const struct nam_rpc_move_claim good[2] = { { 1 << 20, 1, 1 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, &bad[i],
			sizeof(bad[i])), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 8, good, sizeof(good[0])),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, good, sizeof(good[0]) - 8),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, good, sizeof(good[0]) + 8),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, good, sizeof(good[0])), 0);
}

static void
claim__about_no_member__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(claim(f, &mover, NAM_SERVERS_MAX), -NAM_E_CLUSTER);
	assert_int_equal(claim(f, &mover, NAM_SERVERS_MAX - 1), 0);
}

static void
claim__another_connection_has_claimed__IS_AGAIN_until_that_ends(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 }, stranger = { 0 };

	assert_int_equal(claim(f, &other, 1), -EAGAIN);
	assert_int_equal(claim(f, &other, 2), -EAGAIN);
	leave(f, &stranger);
	assert_int_equal(claim(f, &other, 1), -EAGAIN);
	assert_int_equal(take(f, &mover, 0), 0);
	leave(f, &mover);
	assert_int_equal(claim(f, &other, 1), 0);
	assert_int_equal(take(f, &mover, 0), -NAM_E_CLUSTER);
	leave(f, &other);
}

static void
claim__anew__FORGETS_WHAT_WAS_NOTED_FOR_ANOTHER_MOVER(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(note(f, 1, 1, 7), 0);
	f->server->noted.lost = true;
	/* The same one has to know. */
	assert_int_equal(claim(f, &mover, 1), 0);
	assert_true(f->server->noted.lost);
	leave(f, &mover);
	assert_int_equal(claim(f, &mover, 1), 0);
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(taken(f)->lost, 0);
	assert_int_equal(note(f, 1, 1, 7), 0);
	assert_int_equal(claim(f, &mover, 1), 0);
	assert_taken(f, &mover, 1, 7);
	assert_int_equal(note(f, 1, 1, 7), 0);
	assert_int_equal(claim(f, &mover, 2), 0);
	assert_taken(f, &mover, 0, 0);
}

static void
claim__the_member_moves_no_more__ENDS(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member other = member(f, 2), one = member(f, 1);

	one.boot = 77;
	other.boot = 78;
	/* A client with a writer's key that has ended does not delay this. */
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_NOTE, 1), 0);
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_RENEW, &other), 0);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(take(f, &mover, 0), -NAM_E_CLUSTER);
	assert_int_equal(claim(f, &mover, 1), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_NOTE, 1), 0);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(ack(f, &client, 6), 0);
	assert_int_equal(moved(f, 6, 1), 0);
	assert_int_equal(take(f, &mover, 0), -NAM_E_CLUSTER);
	assert_int_equal(claim(f, &mover, 1), 0);
	assert_int_equal(change(f, 7, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(take(f, &mover, 0), -NAM_E_CLUSTER);
}

/* ---- NOTED ----------------------------------------------------------------------------------- */

static void
note__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	uint64_t words[5] = { 0 };
	struct nam_rpc_move_notes *body = (void *)words;
#define NOTED(at, bytes) move_step(f, &client, NAM_RPC_MOVE_NOTED, at, body, bytes)

	body->id = 1;
	body->noted[0].pages = 1;
	assert_int_equal(NOTED(0, 0), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(NOTED(0, 4), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(NOTED(0, 16), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(NOTED(0, 28), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(NOTED(8, 24), -NAM_E_FABRIC_PROTOCOL);
	body->lost = 2;
	assert_int_equal(NOTED(0, 24), -NAM_E_FABRIC_PROTOCOL);
	body->lost = 0;
	body->leaves = 2;
	assert_int_equal(NOTED(0, 24), -NAM_E_FABRIC_PROTOCOL);
	body->leaves = 0;
	body->noted[0].word = WORDS;
	assert_int_equal(NOTED(0, 24), -NAM_E_FABRIC_PROTOCOL);
	body->noted[0].word = 0;
	body->noted[0].reserved = 1;
	assert_int_equal(NOTED(0, 24), -NAM_E_FABRIC_PROTOCOL);
	body->noted[0].reserved = 0;
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(NOTED(0, 24), 0);
	assert_int_equal(NOTED(0, 8), 0);
	assert_taken(f, &mover, 0, 1);
#undef NOTED
}

static void
note__over_a_connection_that_is_no_session__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_notes body = { 1, 0, 0 };
	struct nam__connection worker = { .client_id = client.client_id,
		.incarnation = client.incarnation };

	assert_int_equal(move_step(f, &worker, NAM_RPC_MOVE_NOTED, 0, &body, sizeof(body)),
		-NAM_E_CLUSTER);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_NOTED, 0, &body, sizeof(body)),
		-NAM_E_CLUSTER);
	assert_int_equal(move_step(f, &client, NAM_RPC_MOVE_NOTED, 0, &body, sizeof(body)), 0);
}

static void
note__nothing_or_another_member_is_claimed__KEEPS_NOTHING(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(note(f, 2, 0, 1), 0);
	assert_taken(f, &mover, 0, 0);
	leave(f, &mover);
	assert_int_equal(note(f, 1, 0, 1), 0);
	assert_int_equal(f->server->noted.words[0], 0);
}

static void
note__lost__IS_TOLD_ONCE(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_notes body = { 1, 1, 0 };

	assert_int_equal(move_step(f, &client, NAM_RPC_MOVE_NOTED, 0, &body, sizeof(body)), 0);
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(taken(f)->lost, 1);
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(taken(f)->lost, 0);
}

static void
steps__of_a_writer__ARE_DENIED_but_for_notes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(claim(f, &client, 1), -NAM_E_FABRIC_DENIED);
	assert_int_equal(take(f, &client, 0), -NAM_E_FABRIC_DENIED);
	assert_int_equal(note(f, 1, 0, 1), 0);
}

/* ---- TAKE ------------------------------------------------------------------------------------ */

static void
take__by_another_connection_or_malformed__IS_REFUSED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 };

	assert_int_equal(note(f, 1, 5, 3), 0);
	assert_int_equal(take(f, &other, 0), -NAM_E_CLUSTER);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_TAKE, 0, "12345678", 8),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_TAKE, 4, NULL, 0),
		-NAM_E_FABRIC_PROTOCOL);
	assert_taken(f, &mover, 5, 3);
}

static void
take__some__CLEARS_THEM(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(note(f, 1, 5, 3), 0);
	assert_int_equal(note(f, 1, 5, 6), 0);
	assert_int_equal(take(f, &mover, 6), 0);
	assert_int_equal(taken_count(f), 0);
	assert_taken(f, &mover, 5, 7);
	assert_int_equal(taken(f)->id, 0);
	assert_int_equal(taken(f)->leaves, 0);
	assert_taken(f, &mover, 0, 0);
}

static void
take__more_than_fit__COME_IN_SEVERAL(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_reply *reply = reply_body(f);
	uint32_t seen = 0;

	assert_int_equal(note_some(f, 1, 10, ~0ull, NAM_MOVE_NOTED_MAX), 0);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(taken_count(f), NAM_MOVE_NOTED_MAX);
	assert_int_equal(reply->bytes, 0);
	for (uint32_t word = 0; word < WORDS; word += NAM_MOVE_NOTED_MAX)
		assert_int_equal(note_some(f, 1, word, 1, WORDS - word < NAM_MOVE_NOTED_MAX ?
			WORDS - word : NAM_MOVE_NOTED_MAX), 0);
	for (uint64_t next = 0; seen < WORDS; next = reply->bytes / 8) {
		assert_int_equal(next, seen);
		assert_int_equal(take(f, &mover, next), 0);
		assert_true(taken_count(f) && taken_count(f) <= WORDS - seen);
		for (uint32_t i = 0; i < taken_count(f); i++, seen++)
			assert_true(taken(f)->noted[i].word == seen &&
				taken(f)->noted[i].pages == 1);
	}
	assert_int_equal(reply->bytes, 0);
	assert_taken(f, &mover, 0, 0);
}

/* ---- clients that end ------------------------------------------------------------------------ */

/* Of that role, and with or without the word that it leaves.  Whether its notes are lost. */
static bool
loses_notes(struct fixture *f, enum nam_role role, bool leaves)
{
	const struct nam_rpc_move_notes body = { 1, 0, leaves };
	struct nam__connection session = { .proven.role = role };
	uint16_t id, incarnation;

	assert_int_equal(enrol(f, &session, 1), 0);
	id = session.client_id;
	incarnation = session.incarnation;
	if (role != NAM_ROLE_READ)
		assert_int_equal(move_step(f, &session, NAM_RPC_MOVE_NOTED, 0, &body,
			sizeof(body)), 0);
	leave(f, &session);
	/* Requests of it may be under way. */
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(taken(f)->lost, 0);
	fence_publish(f, id, incarnation, 1);
	assert_int_equal(take(f, &mover, 0), 0);
	return taken(f)->lost;
}

static void
dead__a_client_that_may_have_changed_pages__LOSES_NOTES(void **state)
{
	struct fixture *f = *state;

	assert_true(loses_notes(f, NAM_ROLE_WRITE, false));
	assert_false(loses_notes(f, NAM_ROLE_WRITE, true));
	assert_true(loses_notes(f, NAM_ROLE_ADMIN, false));
	assert_false(loses_notes(f, NAM_ROLE_READ, false));
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(claim__malformed__IS_PROTOCOL),
		TEST(claim__about_no_member__IS_CLUSTER),
		TEST(claim__another_connection_has_claimed__IS_AGAIN_until_that_ends),
		TEST(claim__anew__FORGETS_WHAT_WAS_NOTED_FOR_ANOTHER_MOVER),
		TEST(claim__the_member_moves_no_more__ENDS),
		TEST(note__malformed__IS_PROTOCOL),
		TEST(note__over_a_connection_that_is_no_session__IS_CLUSTER),
		TEST(note__nothing_or_another_member_is_claimed__KEEPS_NOTHING),
		TEST(note__lost__IS_TOLD_ONCE),
		TEST(steps__of_a_writer__ARE_DENIED_but_for_notes),
		TEST(take__by_another_connection_or_malformed__IS_REFUSED),
		TEST(take__some__CLEARS_THEM),
		TEST(take__more_than_fit__COME_IN_SEVERAL),
		TEST(dead__a_client_that_may_have_changed_pages__LOSES_NOTES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
