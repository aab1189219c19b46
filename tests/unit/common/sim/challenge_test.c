/* SPDX-License-Identifier: Apache-2.0 */
/* challenge_test.c -- simulated handshakes in which the server challenges the client. */
#include <errno.h>

#include "common/fabric/provider.h"
#include "sim_fixture.h"

/* A server that challenges every client and decides by its answer, and a client. */
struct meeting {
	void (*body)(struct meeting *meeting);
	struct nam_sim_process *server;
	bool ready, done;
	bool twice;			/* challenges a client that answers, too */
	bool closes;			/* ... its listener, once it has challenged */
	bool dies;			/* ... once it has challenged */
	unsigned requests, answers;	/* heard */
	/* the client's */
	struct end end;
	struct nam_hello reply;
	struct nam_diag diag;
	int rc;				/* the callback's */
	uint32_t bytes;			/* of the answer */
	unsigned asked;			/* calls of the callback */
	nam_welcome_fn *welcome;
	uint64_t wait_ns;		/* in there */
	unsigned depth, refused;	/* one attempt inside of another */
};

static void
respond(struct meeting *meeting, struct nam_listener *listener, const struct nam_cm_event *event,
	const struct nam_qp_options *options)
{
	struct nam_hello words = { .bytes = NAM_REPLY_BYTES_MAX };
	struct nam_qp *qp;

	memset(words.data, event->kind == NAM_CM_REQUEST ? 'c' : 'r', words.bytes);
	assert_int_equal(event->hello.bytes, 2);
	assert_memory_equal(event->hello.data, "hi", 2);
	if (event->kind == NAM_CM_REQUEST) {
		meeting->requests++;
		ops()->challenge(listener, event->request, &words);
		return;
	}
	assert_int_equal(event->kind, NAM_CM_ANSWER);
	meeting->answers++;
	assert_int_equal(event->challenge.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(event->challenge.data[NAM_REPLY_BYTES_MAX - 1], 'c');
	assert_int_equal(event->answer.bytes, NAM_HELLO_BYTES_MAX);
	if (meeting->twice)
		ops()->challenge(listener, event->request, &words);
	else if (event->answer.data[NAM_HELLO_BYTES_MAX - 1] == 'a')
		assert_int_equal(ops()->accept(listener, event->request, options, &words, &qp), 0);
	else
		ops()->reject(listener, event->request, &words);
}

static void
meeting_server(void *arg)
{
	struct meeting *meeting = arg;
	struct nam_qp_options options = { 0 };
	struct nam_listener *listener;
	struct nam_domain *domain;
	struct nam_cm_event event;
	struct nam_diag diag;
	struct nam_wc wc;

	assert_int_equal(ops()->domain_open(NULL, &domain, &diag), 0);
	assert_int_equal(ops()->cq_create(domain, 64, &options.cq), 0);
	assert_int_equal(ops()->listen(domain, "sim:server", &listener, &diag), 0);
	meeting->ready = true;
	while (!meeting->done) {
		if (listener && ops()->listener_poll(listener, 20000, &event) == NAM_LISTENER_EVENT)
			respond(meeting, listener, &event, &options);
		if (meeting->requests && meeting->dies)
			nam_sim_process_kill(meeting->server);
		if (meeting->requests && meeting->closes) {
			ops()->listener_close(listener);
			listener = NULL;
		}
		while (ops()->cq_poll(options.cq, &wc, 1) == 1)
			if (wc.op == NAM_WC_CLOSED)
				ops()->qp_destroy(wc.qp);
		nam_sleep_ns(1000);
	}
	ops()->listener_close(listener);
	ops()->cq_destroy(options.cq);
	ops()->domain_close(domain);
}

static int
answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret, struct nam_diag *diag)
{
	struct meeting *meeting = arg;

	meeting->asked++;
	assert_int_equal(challenge->bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(challenge->data[NAM_REPLY_BYTES_MAX - 1], 'c');
	if (meeting->wait_ns)
		nam_sleep_ns(meeting->wait_ns);
	ret->bytes = meeting->bytes;
	memset(ret->data, 'a', sizeof(ret->data));
	return meeting->rc ? nam_diag_set(diag, meeting->rc, "no") : 0;
}

static int
attempt(struct meeting *meeting, nam_answer_fn *fn)
{
	const struct nam_qp_options options = {
		.cq = meeting->end.cq,
		.rq = meeting->end.rq,
		.answer = fn,
		.welcome = meeting->welcome,
		.answer_arg = meeting,
	};
	const struct nam_hello hello = { .bytes = 2, .data = "hi" };

	meeting->end.qp = NULL;
	return ops()->connect(meeting->end.domain, "sim:server", &hello, &options, &meeting->reply,
		&meeting->end.qp, &meeting->diag);
}

static void
meeting_client(void *arg)
{
	struct meeting *meeting = arg;
	struct nam_diag diag;
	struct end *end = &meeting->end;

	assert_int_equal(ops()->domain_open(NULL, &end->domain, &diag), 0);
	end->domain->timeout_ns = 20000000000ull;
	assert_int_equal(ops()->mr_register(end->domain, end->local, LOCAL_BYTES, NAM_MR_LOCAL,
				 &end->mr, &diag), 0);
	assert_int_equal(ops()->cq_create(end->domain, 64, &end->cq), 0);
	assert_int_equal(ops()->rq_create(end->domain, end->cq, 4, &end->rq), 0);
	while (!meeting->ready)
		nam_sleep_ns(1000);
	meeting->body(meeting);
	end_close(end);
	/* The server notices that the queue pair is gone. */
	nam_sleep_ns(1000000000);
	meeting->done = true;
}

static void
meet(struct meeting *meeting, void (*body)(struct meeting *meeting))
{
	struct nam_sim_process *client;
	struct nam_sim_options options;

	meeting->body = body;
	meeting->bytes = NAM_HELLO_BYTES_MAX;
	nam_sim_options_init(&options);
	options.profile = NAM_SIM_VERBS;
	options.limit_ns = 60000000000ull;
	options.seed = 1;
	assert_int_equal(nam_sim_begin(&options), 0);
	assert_int_equal(nam_sim_process_start("server", meeting_server, meeting,
				 &meeting->server), 0);
	assert_int_equal(nam_sim_process_start("client", meeting_client, meeting, &client), 0);
	assert_int_equal(nam_sim_run(), 0);
	nam_sim_end();
	assert_true(meeting->done);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void
good_body(struct meeting *meeting)
{
	assert_int_equal(attempt(meeting, answer), 0);
	assert_int_equal(meeting->reply.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(meeting->reply.data[NAM_REPLY_BYTES_MAX - 1], 'r');
}

static void
challenge__good_answer__CONNECTS(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, good_body);
	assert_int_equal(meeting.requests, 1);
	assert_int_equal(meeting.answers, 1);
	assert_int_equal(meeting.asked, 1);
}

/* Its queue pair is there, and takes nothing yet. */
static int
posting_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret,
	struct nam_diag *diag)
{
	struct meeting *meeting = arg;
	const struct nam_wr wr = { .op = NAM_WR_SEND, .local = meeting->end.local,
		.lkey = meeting->end.mr.lkey, .bytes = 8 };
	struct nam_qp *qp = nam_sim_qp_asking(meeting->end.domain);

	assert_non_null(qp);
	assert_int_equal(ops()->qp_post(qp, &wr, 1), -EINVAL);
	return answer(arg, challenge, ret, diag);
}

static void
posting_body(struct meeting *meeting)
{
	const struct nam_wr wr = { .op = NAM_WR_SEND, .local = meeting->end.local,
		.lkey = meeting->end.mr.lkey, .bytes = 8 };

	assert_null(nam_sim_qp_asking(meeting->end.domain));
	assert_int_equal(attempt(meeting, posting_answer), 0);
	assert_null(nam_sim_qp_asking(meeting->end.domain));
	assert_int_equal(ops()->qp_post(meeting->end.qp, &wr, 1), 0);
}

static void
post__before_the_side_has_connected__EINVAL(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, posting_body);
	assert_int_equal(meeting.asked, 1);
}

static int
wrong_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret,
	struct nam_diag *diag)
{
	int rc = answer(arg, challenge, ret, diag);

	memset(ret->data, 'b', sizeof(ret->data));
	return rc;
}

static void
wrong_body(struct meeting *meeting)
{
	assert_int_equal(attempt(meeting, wrong_answer), -ECONNREFUSED);
	assert_int_equal(meeting->reply.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(meeting->reply.data[NAM_REPLY_BYTES_MAX - 1], 'r');
}

static void
challenge__wrong_answer__IS_REFUSED_WITH_A_REPLY(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, wrong_body);
	assert_int_equal(meeting.answers, 1);
}

static void
mute_body(struct meeting *meeting)
{
	assert_int_equal(attempt(meeting, NULL), -NAM_E_FABRIC_DENIED);
	assert_string_equal(meeting->diag.text, "key: the memory server at sim:server wants one, "
		"and this client has none");
	assert_int_equal(meeting->reply.bytes, 0);
}

static void
challenge__client_without_a_callback__DENIED(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, mute_body);
	assert_int_equal(meeting.requests, 1);
	assert_int_equal(meeting.answers, 0);
}

static void
failing_body(struct meeting *meeting)
{
	meeting->rc = -ENOKEY;
	assert_int_equal(attempt(meeting, answer), -ENOKEY);
	assert_string_equal(meeting->diag.text, "no");
	meeting->rc = 0;
	meeting->bytes = NAM_HELLO_BYTES_MAX + 1;
	assert_int_equal(attempt(meeting, answer), -EINVAL);
}

static void
challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, failing_body);
	assert_int_equal(meeting.asked, 2);
	assert_int_equal(meeting.answers, 0);
}

/* It takes the first of two. */
static int
validate_welcome(void *arg, struct nam_hello *reply, struct nam_diag *diag)
{
	const struct meeting *meeting = arg;

	assert_int_equal(reply->bytes, NAM_REPLY_BYTES_MAX);
	reply->bytes = 7;
	return meeting->asked == 2 ? nam_diag_set(diag, -EKEYREJECTED, "no") : 0;
}

static void
validated_body(struct meeting *meeting)
{
	meeting->welcome = validate_welcome;
	assert_int_equal(attempt(meeting, answer), 0);
	assert_int_equal(meeting->reply.bytes, 7);
	ops()->qp_destroy(meeting->end.qp);
	assert_int_equal(attempt(meeting, answer), -EKEYREJECTED);
	assert_string_equal(meeting->diag.text, "no");
	assert_null(meeting->end.qp);
}

static void
welcome__callback__TAKES_IT_OR_ENDS_THE_ATTEMPT(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, validated_body);
	assert_int_equal(meeting.answers, 2);
}

/* The listener has dropped the answer, so there is no reply. */
static void
dropped_body(struct meeting *meeting)
{
	assert_int_equal(attempt(meeting, answer), -NAM_E_FABRIC_CONNECT);
	assert_int_equal(meeting->reply.bytes, 0);
}

static void
challenge__of_an_answer__REFUSES_IT(void **state)
{
	struct meeting meeting = { .twice = true };

	(void)state;
	meet(&meeting, dropped_body);
	assert_int_equal(meeting.answers, 1);
	assert_int_equal(meeting.asked, 1);
}

static void
challenge__listener_closed_before_the_answer__ENDS(void **state)
{
	struct meeting meeting = { .closes = true, .wait_ns = 1000000 };

	(void)state;
	meet(&meeting, dropped_body);
	assert_int_equal(meeting.answers, 0);
}

static void
challenge__server_dies_before_the_answer__ENDS(void **state)
{
	struct meeting meeting = { .dies = true, .wait_ns = 1000000 };

	(void)state;
	meet(&meeting, dropped_body);
	assert_int_equal(meeting.answers, 0);
}

static void
challenge__answer_after_its_time__IS_DROPPED(void **state)
{
	struct meeting meeting = { .wait_ns = NAM__HANDSHAKE_NS - 1000000 };

	(void)state;
	meet(&meeting, good_body);
	assert_int_equal(meeting.answers, 1);
	meeting = (struct meeting){ .wait_ns = NAM__HANDSHAKE_NS };
	meet(&meeting, dropped_body);
	assert_int_equal(meeting.answers, 0);
}

/* The first challenge is answered last. */
static int
nested_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret,
	struct nam_diag *diag)
{
	struct meeting *meeting = arg;

	if (--meeting->depth) {
		int rc = attempt(meeting, nested_answer);

		/* With a reply: it was heard. */
		assert_int_equal(rc, -ECONNREFUSED);
		meeting->refused++;
	}
	return wrong_answer(arg, challenge, ret, diag);
}

static void
many_body(struct meeting *meeting)
{
	meeting->depth = NAM__PENDING_MAX;
	assert_int_equal(attempt(meeting, nested_answer), -ECONNREFUSED);
	assert_int_equal(meeting->refused, NAM__PENDING_MAX - 1);
	assert_int_equal(meeting->answers, NAM__PENDING_MAX);
	meeting->depth = NAM__PENDING_MAX + 1;
	assert_int_equal(attempt(meeting, nested_answer), -NAM_E_FABRIC_CONNECT);
	assert_int_equal(meeting->refused, 2 * NAM__PENDING_MAX - 1);
	assert_int_equal(meeting->answers, 2 * NAM__PENDING_MAX);
}

static void
challenge__too_many_wait__THE_OLDEST_IS_DROPPED(void **state)
{
	struct meeting meeting = { 0 };

	(void)state;
	meet(&meeting, many_body);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenge__good_answer__CONNECTS),
		cmocka_unit_test(post__before_the_side_has_connected__EINVAL),
		cmocka_unit_test(challenge__wrong_answer__IS_REFUSED_WITH_A_REPLY),
		cmocka_unit_test(challenge__client_without_a_callback__DENIED),
		cmocka_unit_test(challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE),
		cmocka_unit_test(welcome__callback__TAKES_IT_OR_ENDS_THE_ATTEMPT),
		cmocka_unit_test(challenge__of_an_answer__REFUSES_IT),
		cmocka_unit_test(challenge__listener_closed_before_the_answer__ENDS),
		cmocka_unit_test(challenge__server_dies_before_the_answer__ENDS),
		cmocka_unit_test(challenge__answer_after_its_time__IS_DROPPED),
		cmocka_unit_test(challenge__too_many_wait__THE_OLDEST_IS_DROPPED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
