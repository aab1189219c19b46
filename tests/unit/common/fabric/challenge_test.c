/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge_test.c -- a listener that challenges its clients: what every provider must do, over the
 * one that NAM_TEST_FABRIC names.
 */
#include <errno.h>

#include "challenge_fixture.h"

/* The server reaches what the client said in its hello, long before it was accepted. */
static void
write_into_share(struct fixture *f, struct nam_qp *qp, const struct nam_mr *share)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wr wr = {
		.op = NAM_WR_WRITE,
		.flags = NAM_WR_SIGNALED,
		.bytes = 64,
		.remote = share->remote,
		.rkey = share->rkey,
		.lkey = f->server.local_mr.lkey,
		.local = f->server.local,
	};
	struct nam_wc wc;

	memset(f->server.local, 0x5a, 64);
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
	while (!f->ops->cq_poll(f->server.cq, &wc, 1)) {
		(void)f->ops->cq_wait(f->client.cq, 0);
		assert_true(nam_now_ns() < until);
	}
	assert_int_equal(wc.op, NAM_WR_WRITE);
	assert_int_equal(wc.status, 0);
	assert_memory_equal(share->base, f->server.local, 64);
}

static void
challenge__answered_and_accepted__CARRIES_EVERY_BYTE(void **state)
{
	static const uint32_t sizes[][4] = {
		/* hello, challenge, answer, reply */
		{ NAM_HELLO_BYTES_MAX, NAM_REPLY_BYTES_MAX, NAM_HELLO_BYTES_MAX,
			NAM_REPLY_BYTES_MAX },
		{ 1, NAM_HELLO_BYTES_MAX + 1, 2, NAM_HELLO_BYTES_MAX + 1 },
		{ 0, 0, 0, 0 },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < 3; i++) {
		struct nam_hello challenge = pattern(sizes[i][1], 40), reply = pattern(sizes[i][3],
			120);
		struct caller caller = {
			.hello = pattern(sizes[i][0], 1), .answer = pattern(sizes[i][2], 80) };
		struct nam_cm_event request, answer;
		struct nam_mr share;

		assert_int_equal(f->ops->share_alloc(f->client.domain, 4096, &share, &f->diag), 0);
		caller.share = &share;
		caller_start(f, &f->client, &caller);
		request = await_event(f, NAM_CM_REQUEST, &caller.hello);
		assert_true(request.peer[0] != '\0');
		f->ops->challenge(f->listener, request.request, &challenge);
		answer = await_event(f, NAM_CM_ANSWER, &caller.hello);
		assert_said(&answer.challenge, &challenge);
		assert_said(&answer.answer, &caller.answer);
		assert_string_equal(answer.peer, request.peer);
		accept_caller(f, &caller, answer.request, &challenge, &reply);
		assert_int_equal(caller_end(&caller), 0);
		assert_in_range(atomic_load(&caller.challenges), 1, 1 + ANEW_MAX);
		assert_said(&caller.challenge, &challenge);
		assert_said(&caller.reply, &reply);
		assert_int_equal(run(f, caller.qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
		write_into_share(f, f->accepted_qps[i], &share);
		f->ops->qp_destroy(caller.qp);
		f->ops->qp_destroy(f->accepted_qps[i]);
		f->accepted_qps[i] = NULL;
		f->ops->mr_release(f->client.domain, &share);
	}
}

static void
challenge__answered_and_rejected__HANDS_OVER_THE_REASON(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(64, 3), reply = pattern(NAM_REPLY_BYTES_MAX, 9);
	struct caller caller = { .hello = pattern(20, 30), .answer = pattern(32, 60) };
	struct nam_cm_event event;

	challenge_caller(f, &caller, &challenge);
	event = await_event(f, NAM_CM_ANSWER, &caller.hello);
	f->ops->reject(f->listener, event.request, &reply);
	assert_int_equal(caller_end(&caller), -ECONNREFUSED);
	assert_said(&caller.reply, &reply);
	another_is_served(f);
}

/* As before, with replies as long as those to answers. */
static void
request__without_a_challenge__IS_ACCEPTED_OR_REJECTED(void **state)
{
	struct fixture *f = *state;
	struct nam_hello reply = pattern(NAM_REPLY_BYTES_MAX, 9);

	for (unsigned accepts = 0; accepts < 2; accepts++) {
		struct caller caller = { .hello = pattern(20, 30) };
		struct nam_cm_event event;

		caller_start(f, &f->client, &caller);
		event = await_event(f, NAM_CM_REQUEST, &caller.hello);
		if (accepts)
			accept_caller(f, &caller, event.request, NULL, &reply);
		else
			f->ops->reject(f->listener, event.request, &reply);
		assert_int_equal(caller_end(&caller), accepts ? 0 : -ECONNREFUSED);
		assert_int_equal(atomic_load(&caller.challenges), 0);
		assert_said(&caller.reply, &reply);
		f->ops->qp_destroy(caller.qp);
	}
}

static void
challenge__client_has_no_callback__IS_DENIED_WITH_THE_REMEDY(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3);
	struct caller caller = { .hello = pattern(2, 'h'), .mute = true };

	challenge_caller(f, &caller, &challenge);
	assert_int_equal(caller_end(&caller), -NAM_E_FABRIC_DENIED);
	assert_non_null(strstr(caller.diag.text, f->address));
	assert_non_null(strstr(caller.diag.text, "wants one, and this client has none"));
	assert_int_equal(strncmp(caller.diag.text, "key: ", 5), 0);
	assert_int_equal(caller.reply.bytes, 0);
	another_is_served(f);
}

static void
challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3);
	struct caller caller = { .hello = pattern(2, 'h'), .answer_rc = -EKEYREJECTED };

	challenge_caller(f, &caller, &challenge);
	assert_int_equal(caller_end(&caller), -EKEYREJECTED);
	assert_int_equal(atomic_load(&caller.challenges), 1);
	assert_string_equal(caller.diag.text, "the callback says why");
	another_is_served(f);
}

static void
challenge__answer_is_too_long__IS_NOT_SENT(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3);
	struct caller caller = {
		.hello = pattern(2, 'h'), .answer = pattern(NAM_HELLO_BYTES_MAX + 1, 5) };

	challenge_caller(f, &caller, &challenge);
	assert_int_equal(caller_end(&caller), -EINVAL);
	another_is_served(f);
}

static void
welcome__callback_shortens_it__CONNECTS_WITH_THE_REST(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3), reply = pattern(NAM_REPLY_BYTES_MAX, 9);
	struct caller caller = {
		.hello = pattern(2, 'h'), .answer = pattern(32, 5), .validates = true };
	struct nam_cm_event event;

	challenge_caller(f, &caller, &challenge);
	event = await_event(f, NAM_CM_ANSWER, &caller.hello);
	accept_caller(f, &caller, event.request, &challenge, &reply);
	assert_int_equal(caller_end(&caller), 0);
	assert_int_equal(caller.welcomes, 1);
	assert_said(&caller.welcome, &reply);
	reply.bytes /= 2;
	assert_said(&caller.reply, &reply);
	assert_int_equal(run(f, caller.qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
	f->ops->qp_destroy(caller.qp);
}

/* The server hears that the client has left. */
static void
await_closed(struct fixture *f)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_cm_event event;
	struct nam_wc wc;

	do {
		assert_true(nam_now_ns() < until);
		assert_int_equal(f->ops->listener_poll(f->listener, 1000000, &event),
			NAM_LISTENER_QUIET);
	} while (!f->ops->cq_poll(f->server.cq, &wc, 1));
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f->accepted_qps[0]);
	f->ops->qp_destroy(wc.qp);
	f->accepted_qps[0] = NULL;
}

/* A client that is challenged, and one that is not. */
static void
welcome__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3), reply = pattern(9, 9);

	for (unsigned challenged = 0; challenged < 2; challenged++) {
		struct caller caller = { .hello = pattern(2, 'h'), .answer = pattern(32, 5),
			.validates = true, .welcome_rc = -EKEYREJECTED };
		struct nam_cm_event event;

		if (challenged)
			challenge_caller(f, &caller, &challenge);
		else
			caller_start(f, &f->client, &caller);
		event = await_event(f, challenged ? NAM_CM_ANSWER : NAM_CM_REQUEST, &caller.hello);
		accept_caller(f, &caller, event.request, challenged ? &challenge : NULL,
			&reply);
		assert_int_equal(caller_end(&caller), -EKEYREJECTED);
		assert_int_equal(caller.welcomes, 1);
		assert_string_equal(caller.diag.text, "it says why");
		assert_null(caller.qp);
		await_closed(f);
		atomic_store(&f->accepted, 0);
	}
	another_is_served(f);
}

static void
welcome__of_a_rejection__IS_NOT_VALIDATED(void **state)
{
	struct fixture *f = *state;
	struct nam_hello reply = pattern(9, 9);
	struct caller caller = { .hello = pattern(2, 'h'), .validates = true };
	struct nam_cm_event event;

	caller_start(f, &f->client, &caller);
	event = await_event(f, NAM_CM_REQUEST, &caller.hello);
	f->ops->reject(f->listener, event.request, &reply);
	assert_int_equal(caller_end(&caller), -ECONNREFUSED);
	assert_int_equal(caller.welcomes, 0);
	assert_said(&caller.reply, &reply);
}

/* It leaves between the challenge and its answer; meanwhile another client comes and goes. */
static void
challenge__client_goes_away__IS_FORGOTTEN(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3);
	struct caller caller = { .hello = pattern(2, 'h'), .answer_rc = -EINTR, .hold = true };
	struct side other;

	side_open(f, &other, 0);
	caller_start(f, &other, &caller);
	f->ops->challenge(f->listener,
		await_event(f, NAM_CM_REQUEST, &caller.hello).request, &challenge);
	another_is_served(f);
	atomic_store(&caller.hold, false);
	assert_int_equal(caller_end(&caller), -EINTR);
	another_is_served(f);
	side_close(f, &other);
}

static void
challenge__of_two_clients__KEEPS_THEM_APART(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenges[2] = { pattern(32, 3), pattern(31, 4) }, reply = pattern(1, 5);
	struct caller callers[2] = {
		{ .hello = pattern(9, 10), .answer = pattern(30, 20), .hold = true },
		{ .hello = pattern(8, 11), .answer = pattern(29, 21) },
	};
	struct side sides[2];

	for (unsigned i = 0; i < 2; i++) {
		side_open(f, &sides[i], 0);
		caller_start(f, &sides[i], &callers[i]);
		f->ops->challenge(f->listener,
			await_event(f, NAM_CM_REQUEST, &callers[i].hello).request, &challenges[i]);
	}
	/* The second one answers first. */
	for (unsigned i = 2; i-- > 0;) {
		struct nam_cm_event event = await_event(f, NAM_CM_ANSWER, &callers[i].hello);

		assert_said(&event.challenge, &challenges[i]);
		assert_said(&event.answer, &callers[i].answer);
		accept_caller(f, &callers[i], event.request, &challenges[i], &reply);
		assert_int_equal(caller_end(&callers[i]), 0);
		assert_said(&callers[i].challenge, &challenges[i]);
		atomic_store(&callers[0].hold, false);
	}
	for (unsigned i = 0; i < 2; i++) {
		f->ops->qp_destroy(callers[i].qp);
		side_close(f, &sides[i]);
	}
}

static void
listener_close__a_challenge_is_open__ENDS_THE_ATTEMPT(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 3);
	struct caller caller = {
		.hello = pattern(2, 'h'), .answer = pattern(32, 5), .hold = true };

	challenge_caller(f, &caller, &challenge);
	while (!atomic_load(&caller.challenges))
		nam_yield();
	f->ops->listener_close(f->listener);
	f->listener = NULL;
	atomic_store(&caller.hold, false);
	(void)caller_end(&caller);
	/* Over verbs the answer comes by a connection of its own, and finds no listener. */
	assert_true(caller.rc == -ECONNREFUSED || caller.rc == -NAM_E_FABRIC_CONNECT ||
		caller.rc == -NAM_E_FABRIC_TIMEOUT);
	assert_non_null(strstr(caller.diag.text, f->address));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, challenge_setup, challenge_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(challenge__answered_and_accepted__CARRIES_EVERY_BYTE),
		TEST(challenge__answered_and_rejected__HANDS_OVER_THE_REASON),
		TEST(request__without_a_challenge__IS_ACCEPTED_OR_REJECTED),
		TEST(challenge__client_has_no_callback__IS_DENIED_WITH_THE_REMEDY),
		TEST(challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE),
		TEST(challenge__answer_is_too_long__IS_NOT_SENT),
		TEST(welcome__callback_shortens_it__CONNECTS_WITH_THE_REST),
		TEST(welcome__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE),
		TEST(welcome__of_a_rejection__IS_NOT_VALIDATED),
		TEST(challenge__client_goes_away__IS_FORGOTTEN),
		TEST(challenge__of_two_clients__KEEPS_THEM_APART),
		TEST(listener_close__a_challenge_is_open__ENDS_THE_ATTEMPT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
