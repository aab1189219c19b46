/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge_fixture.h -- a listener that the test polls by itself, and clients with a thread each,
 * which connect and answer a challenge.
 */
#ifndef NAM_TESTS_UNIT_COMMON_FABRIC_CHALLENGE_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_FABRIC_CHALLENGE_FIXTURE_H

#include <errno.h>

#include "fabric_fixture.h"

#define ANEW_MAX 8u			/* times that one client may ask anew */

struct caller {
	struct fixture *f;
	const struct side *side;
	const struct nam_mr *share;
	struct nam_hello hello, answer;	/* what it says */
	int answer_rc;			/* its callback fails with this */
	bool mute;			/* it has no callback */
	bool validates;			/* it has one for the welcome, which it halves */
	int welcome_rc;			/* ... and which fails with this */
	unsigned welcomes;		/* how many times that ran */
	struct nam_hello welcome;	/* what it heard */
	atomic_bool hold;		/* the callback waits */
	atomic_uint challenges;		/* how many times it ran */
	struct nam_hello challenge, reply;	/* what it hears */
	int rc;
	struct nam_qp *qp;
	struct nam_diag diag;
	struct nam_thread *thread;
};

static inline struct nam_hello
pattern(uint32_t bytes, uint8_t first)
{
	struct nam_hello hello = { .bytes = bytes };

	for (uint32_t i = 0; i < bytes; i++)
		hello.data[i] = (uint8_t)(first + i);
	return hello;
}

static inline void
assert_said(const struct nam_hello *heard, const struct nam_hello *said)
{
	assert_int_equal(heard->bytes, said->bytes);
	assert_memory_equal(heard->data, said->data, said->bytes);
}

static inline int
caller_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag)
{
	struct caller *caller = arg;

	caller->challenge = *challenge;
	atomic_fetch_add(&caller->challenges, 1);
	while (atomic_load(&caller->hold))
		nam_yield();
	if (caller->answer_rc)
		return nam_diag_set(diag, caller->answer_rc, "the callback says why");
	*answer = caller->answer;
	return 0;
}

static inline int
caller_welcome(void *arg, struct nam_hello *reply, struct nam_diag *diag)
{
	struct caller *caller = arg;

	caller->welcome = *reply;
	caller->welcomes++;
	reply->bytes /= 2;
	return caller->welcome_rc ? nam_diag_set(diag, caller->welcome_rc, "it says why") : 0;
}

static inline void
caller_main(void *arg)
{
	struct caller *caller = arg;
	struct fixture *f = caller->f;
	struct nam_qp_options options = {
		.cq = caller->side->cq,
		.rq = caller->side->rq,
		.share = caller->share,
		.answer = caller->mute ? NULL : caller_answer,
		.welcome = caller->validates ? caller_welcome : NULL,
		.answer_arg = caller,
	};

	caller->rc = f->ops->connect(caller->side->domain, f->address, &caller->hello, &options,
		&caller->reply, &caller->qp, &caller->diag);
}

static inline void
caller_start(struct fixture *f, const struct side *side, struct caller *caller)
{
	caller->f = f;
	caller->side = side;
	assert_int_equal(nam_thread_start("caller", caller_main, caller, &caller->thread), 0);
}

/* The result of connecting. */
static inline int
caller_end(struct caller *caller)
{
	nam_thread_join(caller->thread);
	return caller->rc;
}

/* The listener's next event, which must come. */
static inline struct nam_cm_event
await_event(struct fixture *f, enum nam_cm_kind kind, const struct nam_hello *hello)
{
	struct nam_cm_event event;

	assert_int_equal(f->ops->listener_poll(f->listener, TIMEOUT_NS, &event),
		NAM_LISTENER_EVENT);
	assert_int_equal(event.kind, kind);
	assert_said(&event.hello, hello);
	assert_non_null(event.request);
	return event;
}

/*
 * A client that is slow may have asked anew meanwhile, so that what it asked before is over: it is
 * challenged once more.
 *
 * @challenge	NULL: it is not challenged
 */
static inline void
accept_caller(struct fixture *f, const struct caller *caller, struct nam_cm_request *request,
	const struct nam_hello *challenge, const struct nam_hello *reply)
{
	struct nam_qp_options options = { .cq = f->server.cq, .rq = f->server.rq };
	unsigned n = atomic_load(&f->accepted);
	int rc;

	assert_true(n < QPS_MAX);
	for (unsigned again = 0;; again++) {
		rc = f->ops->accept(f->listener, request, &options, reply, &f->accepted_qps[n]);
		if (rc != -EINVAL || again == ANEW_MAX)
			break;
		request = await_event(f, NAM_CM_REQUEST, &caller->hello).request;
		if (!challenge)
			continue;
		f->ops->challenge(f->listener, request, challenge);
		request = await_event(f, NAM_CM_ANSWER, &caller->hello).request;
	}
	assert_int_equal(rc, 0);
	atomic_store(&f->accepted, n + 1);
}

/* A client comes and is challenged. */
static inline void
challenge_caller(struct fixture *f, struct caller *caller, const struct nam_hello *challenge)
{
	struct nam_cm_event event;

	caller_start(f, &f->client, caller);
	event = await_event(f, NAM_CM_REQUEST, &caller->hello);
	f->ops->challenge(f->listener, event.request, challenge);
}

/* The listener's next event is of another client, which is challenged and accepted. */
static inline void
another_is_served(struct fixture *f)
{
	const struct nam_hello challenge = pattern(32, 77), reply = pattern(8, 88);
	struct caller caller = { .hello = pattern(7, 'n'), .answer = pattern(16, 99) };
	struct nam_cm_event event;

	challenge_caller(f, &caller, &challenge);
	event = await_event(f, NAM_CM_ANSWER, &caller.hello);
	assert_said(&event.answer, &caller.answer);
	accept_caller(f, &caller, event.request, &challenge, &reply);
	assert_int_equal(caller_end(&caller), 0);
	assert_said(&caller.reply, &reply);
	f->ops->qp_destroy(caller.qp);
}

/* Clients that the listener has dropped, by its reasons. */
struct drops {
	unsigned silent, left, invalid;
	char peer[96];			/* the last one */
};

static inline void
count_drop(void *owner, const char *peer, int why)
{
	struct drops *drops = owner;

	(void)snprintf(drops->peer, sizeof(drops->peer), "%s", peer);
	if (why == -NAM_E_FABRIC_TIMEOUT)
		drops->silent++;
	else if (why == -NAM_E_FABRIC_PEER_DEAD)
		drops->left++;
	else if (why == -NAM_E_FABRIC_PROTOCOL)
		drops->invalid++;
	else
		fail_msg("%s was dropped: %s", peer, nam_err_text(why));
}

static inline void
drops_count(struct fixture *f, struct drops *drops)
{
	*drops = (struct drops){ .silent = 0 };
	f->listener->dropped = count_drop;
	f->listener->owner = drops;
}

static inline void
assert_drops(const struct drops *drops, unsigned silent, unsigned left, unsigned invalid)
{
	assert_int_equal(drops->silent, silent);
	assert_int_equal(drops->left, left);
	assert_int_equal(drops->invalid, invalid);
}

static inline int
challenge_setup(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	assert_non_null(f);
	fixture_address(f);
	fixture_server_open(f);
	side_open(f, &f->client, 0);
	*state = f;
	return 0;
}

static inline int
challenge_teardown(void **state)
{
	struct fixture *f = *state;

	side_close(f, &f->client);
	fixture_server_close(f);
	if (f->directory[0])
		assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

#endif /* NAM_TESTS_UNIT_COMMON_FABRIC_CHALLENGE_FIXTURE_H */
