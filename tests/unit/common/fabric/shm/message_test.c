/* SPDX-License-Identifier: Apache-2.0 */
/* message_test.c -- the shm fabric's SEND and RECV: both ways, full rings, hostile peers. */
#include "shm_fixture.h"

#include <errno.h>

#include "common/fabric/shm/shm_internal.h"

#define MESSAGES 10000u
#define BUFFERS 16u

/* Buffers that one side receives into; each is posted again once it was looked at. */
struct inbox {
	uint8_t bytes[BUFFERS][SHM_MESSAGE_BYTES];
};

static void
post_buffer(struct fixture *f, struct side *side, void *buffer)
{
	struct nam_recv recv = { .buffer = buffer, .bytes = SHM_MESSAGE_BYTES, .context = buffer };

	assert_int_equal(f->ops->rq_post(side->rq, &recv, 1), 0);
}

static void
inbox_post(struct fixture *f, struct side *side, struct inbox *inbox)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		post_buffer(f, side, inbox->bytes[i]);
}

static void
send_now(struct fixture *f, struct nam_qp *qp, const void *data, uint32_t bytes)
{
	struct nam_wr wr = wr_send(data, bytes);

	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
}

static uint32_t
length_of(uint32_t number)
{
	return 4 + number * 37 % (SHM_MESSAGE_BYTES - 3);
}

static void
fill(uint8_t *buffer, uint32_t number)
{
	memset(buffer, (int)(number * 11), length_of(number));
	memcpy(buffer, &number, 4);
}

static void
check(const struct nam_wc *wc, uint32_t number)
{
	static uint8_t expected[SHM_MESSAGE_BYTES];

	fill(expected, number);
	assert_int_equal(wc->op, NAM_WC_RECV);
	assert_int_equal(wc->status, 0);
	assert_int_equal(wc->bytes, length_of(number));
	assert_memory_equal(wc->context, expected, wc->bytes);
}

static void
send__10000_each_way__ARRIVE_WHOLE_AND_IN_ORDER(void **state)
{
	struct fixture *f = *state;
	struct inbox *inboxes = calloc(2, sizeof(*inboxes));
	struct side *sides[2] = { &f->client, &f->server };
	struct nam_qp *qps[2] = { f->qps[0], fixture_accepted(f, 0) };
	uint32_t sent[2] = { 0, 0 }, got[2] = { 0, 0 };
	uint8_t buffer[SHM_MESSAGE_BYTES];
	struct nam_wc wcs[4];

	inbox_post(f, sides[0], &inboxes[0]);
	inbox_post(f, sides[1], &inboxes[1]);
	while (got[0] < MESSAGES || got[1] < MESSAGES) {
		for (int s = 0; s < 2; s++) {
			int n;

			if (sent[s] < MESSAGES && sent[s] < got[1 - s] + SHM_SLOTS) {
				fill(buffer, sent[s]++);
				send_now(f, qps[s], buffer, length_of(sent[s] - 1));
			}
			/* The buffer is ours again once the request was executed. */
			n = f->ops->cq_poll(sides[s]->cq, wcs, 4);
			for (int i = 0; i < n; i++) {
				check(&wcs[i], got[s]++);
				assert_ptr_equal(wcs[i].qp, qps[s]);
				post_buffer(f, sides[s], wcs[i].context);
			}
		}
	}
	assert_int_equal(f->ops->cq_poll(sides[0]->cq, wcs, 4), 0);
	assert_int_equal(f->ops->cq_poll(sides[1]->cq, wcs, 4), 0);
	free(inboxes);
}

static void
send__to_a_full_ring__WAITS_AND_LOSES_NOTHING(void **state)
{
	struct fixture *f = *state;
	static uint8_t buffers[40][SHM_MESSAGE_BYTES];
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	struct nam_wc wcs[64];
	unsigned completed = 0, arrived = 0;
	uint64_t old = 0;
	struct nam_wr wr;

	for (uint32_t i = 0; i < 40; i++) {
		fill(buffers[i], i);
		wr = wr_send(buffers[i], length_of(i));
		wr.flags = NAM_WR_SIGNALED;
		wr.context = buffers[i];
		assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	}
	/* Behind them, and therefore after them: one that could be done at once. */
	wr = wr_fetch_add(0, &old, 1);
	wr.flags = NAM_WR_SIGNALED;
	assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	completed = (unsigned)f->ops->cq_poll(f->client.cq, wcs, 64);
	assert_int_equal(completed, SHM_SLOTS);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 64), 0);
	/* Nothing is posted at the receiver, so it has nothing to do either. */
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 64), 0);
	assert_int_equal(f->ops->cq_wait(f->server.cq, 1000000), -ETIMEDOUT);
	assert_int_equal(f->ops->cq_wait(f->client.cq, 1000000), -ETIMEDOUT);
	assert_int_equal(*(uint64_t *)f->mr.base, 0);
	/* They count against the depth of 64. */
	wr = wr_fetch_add(0, &old, 1);
	for (int i = 0; i < 64 - 25; i++)
		assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), -NAM_E_FABRIC_FULL);
	inbox_post(f, &f->server, inbox);
	while (completed < 41 || arrived < 40) {
		int n = f->ops->cq_poll(f->server.cq, wcs, 3);

		for (int i = 0; i < n; i++) {
			check(&wcs[i], arrived++);
			post_buffer(f, &f->server, wcs[i].context);
		}
		n = f->ops->cq_poll(f->client.cq, wcs, 2);
		for (int i = 0; i < n; i++, completed++) {
			assert_int_equal(wcs[i].status, 0);
			if (completed < 40)
				assert_ptr_equal(wcs[i].context, buffers[completed]);
		}
	}
	while (f->ops->cq_poll(f->client.cq, wcs, 64) > 0)
		;
	assert_int_equal(*(uint64_t *)f->mr.base, 40);
	free(inbox);
}

/* As a stopped memory server: what waits for room ends, and requests behind that go on. */
static void
send__ring_stays_full__TIMEOUT_AND_LATER_REQUESTS_GO_ON(void **state)
{
	struct fixture *f = *state;
	static uint8_t buffers[SHM_SLOTS + 2][SHM_MESSAGE_BYTES];
	struct nam_wc wcs[64];
	uint64_t old = 0, start_ns = nam_now_ns();
	struct nam_wr wr;
	int n = 0;

	f->client.domain->timeout_ns = 20000000;
	for (uint32_t i = 0; i < SHM_SLOTS + 2; i++) {
		wr = wr_send(buffers[i], length_of(i));
		wr.flags = NAM_WR_SIGNALED;
		assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	}
	wr = wr_fetch_add(0, &old, 1);
	wr.flags = NAM_WR_SIGNALED;
	assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	while (n < (int)SHM_SLOTS + 3) {
		(void)f->ops->cq_wait(f->client.cq, 5000000);
		n += f->ops->cq_poll(f->client.cq, wcs + n, 64 - (unsigned)n);
	}
	assert_true(nam_now_ns() - start_ns >= 20000000);
	for (int i = 0; i < n; i++)
		assert_int_equal(wcs[i].status,
			i < (int)SHM_SLOTS || i == n - 1 ? 0 : -NAM_E_FABRIC_TIMEOUT);
	assert_int_equal(*(uint64_t *)f->mr.base, 1);
}

static void
send__inline_behind_a_full_ring__KEEPS_ITS_PAYLOAD(void **state)
{
	struct fixture *f = *state;
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	struct nam_wc wcs[32];
	unsigned arrived = 0;

	for (uint32_t i = 0; i < 3 * SHM_SLOTS; i++) {
		struct nam_wr wr = wr_send(&i, 4);

		wr.flags = NAM_WR_INLINE;
		assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	}
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 32), 0);
	inbox_post(f, &f->server, inbox);
	while (arrived < 3 * SHM_SLOTS) {
		int n = f->ops->cq_poll(f->server.cq, wcs, 5);

		for (int i = 0; i < n; i++, arrived++) {
			assert_memory_equal(wcs[i].context, &arrived, 4);
			post_buffer(f, &f->server, wcs[i].context);
		}
		assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 32), 0);
	}
	free(inbox);
}

static void
send_inline(struct fixture *f, struct nam_qp *qp, uint32_t number)
{
	struct nam_wr wr = wr_send(&number, 4);

	wr.flags = NAM_WR_INLINE;
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
}

static void
qp_destroy__inline_of_another_is_blocked_too__THAT_KEEPS_ITS_PAYLOAD(void **state)
{
	struct fixture *f = *state;
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	const struct nam_qp *heard;
	uint32_t arrived = 0;
	struct nam_wc wcs[4];

	f->qps[1] = fixture_connect(f, &f->client);
	heard = fixture_accepted(f, 1);
	for (uint32_t i = 0; i < SHM_SLOTS + 1; i++) {
		send_inline(f, f->qps[0], i);
		send_inline(f, f->qps[1], i);
	}
	for (uint32_t i = 0; i < SHM_SLOTS + 1; i++)
		assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 4), 0);
	f->ops->qp_destroy(f->qps[0]);
	f->qps[0] = NULL;
	send_inline(f, f->qps[1], SHM_SLOTS + 1);
	inbox_post(f, &f->server, inbox);
	while (arrived < SHM_SLOTS + 2) {
		int n = f->ops->cq_poll(f->server.cq, wcs, 4);

		for (int i = 0; i < n; i++) {
			if (wcs[i].op != NAM_WC_RECV)
				continue;
			if (wcs[i].qp == heard)
				assert_memory_equal(wcs[i].context, &arrived, 4);
			arrived += wcs[i].qp == heard;
			post_buffer(f, &f->server, wcs[i].context);
		}
		assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 4), 0);
	}
	free(inbox);
}

static void
recv__no_buffer_posted__WAITS_IN_THE_RING(void **state)
{
	struct fixture *f = *state;
	uint8_t buffers[2][SHM_MESSAGE_BYTES];
	struct nam_wc wcs[8];
	uint32_t i;

	for (i = 0; i < 3; i++) {
		send_now(f, f->qps[0], &i, 4);
		assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 8), 0);
	}
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 8), 0);
	post_buffer(f, &f->server, buffers[0]);
	post_buffer(f, &f->server, buffers[1]);
	/* Posting alone must be enough to end a wait. */
	assert_int_equal(f->ops->cq_wait(f->server.cq, TIMEOUT_NS), 0);
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 8), 2);
	assert_ptr_equal(wcs[0].context, buffers[0]);
	assert_ptr_equal(wcs[1].context, buffers[1]);
	post_buffer(f, &f->server, buffers[0]);
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 8), 1);
	i = 2;
	assert_memory_equal(buffers[0], &i, 4);
}

static void
rq_post__beyond_its_depth__IS_REFUSED_WHOLE(void **state)
{
	struct fixture *f = *state;
	static uint8_t buffer[SHM_MESSAGE_BYTES];
	struct nam_recv recvs[65];

	for (int i = 0; i < 65; i++)
		recvs[i] = (struct nam_recv){ buffer, sizeof(buffer), 0, buffer };
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, 65), -NAM_E_FABRIC_FULL);
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, 60), 0);
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, 5), -NAM_E_FABRIC_FULL);
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, 4), 0);
}

static void
send__too_long__COMPLETES_WITH_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	static uint8_t data[SHM_MESSAGE_BYTES + 1];

	assert_int_equal(run(f, f->qps[0], wr_send(data, sizeof(data))), -NAM_E_FABRIC_PROTOCOL);
}

/*
 * A client that takes no replies must not use up the server's buffers.  The server stops listening
 * to it while its own SENDs wait, and listens again afterwards.
 */
static void
recv__while_replies_wait__HOLDS_THE_CLIENT_BACK(void **state)
{
	struct fixture *f = *state;
	struct inbox *inbox = calloc(2, sizeof(*inbox));
	struct nam_qp *accepted = fixture_accepted(f, 0);
	struct nam_wc wcs[8];
	uint32_t sent = 0, answered = 0, got = 0, next = 0;

	inbox_post(f, &f->server, &inbox[0]);
	for (int round = 0; round < 200; round++) {
		int n;

		if (sent < 60) {
			struct nam_wr wr = wr_send(&sent, 4);

			wr.flags = NAM_WR_INLINE;
			if (f->ops->qp_post(f->qps[0], &wr, 1) == 0)
				sent++;
		}
		assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 8), 0);
		n = f->ops->cq_poll(f->server.cq, wcs, 8);
		for (int i = 0; i < n; i++) {
			struct nam_wr wr = wr_send(wcs[i].context, 4);

			wr.flags = NAM_WR_INLINE;
			assert_int_equal(f->ops->qp_post(accepted, &wr, 1), 0);
			post_buffer(f, &f->server, wcs[i].context);
			answered++;
		}
	}
	assert_int_equal(sent, 60);
	assert_in_range(answered, SHM_SLOTS + 1, SHM_SLOTS + 8);
	inbox_post(f, &f->client, &inbox[1]);
	while (got < 60) {
		int n = f->ops->cq_poll(f->client.cq, wcs, 8);

		for (int i = 0; i < n; i++, next++, got++) {
			assert_int_equal(wcs[i].op, NAM_WC_RECV);
			assert_memory_equal(wcs[i].context, &next, 4);
			post_buffer(f, &f->client, wcs[i].context);
		}
		n = f->ops->cq_poll(f->server.cq, wcs, 8);
		for (int i = 0; i < n; i++) {
			struct nam_wr wr = wr_send(wcs[i].context, 4);

			wr.flags = NAM_WR_INLINE;
			assert_int_equal(f->ops->qp_post(accepted, &wr, 1), 0);
			post_buffer(f, &f->server, wcs[i].context);
		}
	}
	free(inbox);
}

/* ---- two threads -------------------------------------------------------------------------- */

static void
echo_main(void *arg)
{
	struct fixture *f = arg;
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	struct nam_wc wcs[8];

	inbox_post(f, &f->server, inbox);
	while (!atomic_load(&f->stop)) {
		int n = f->ops->cq_poll(f->server.cq, wcs, 8);

		for (int i = 0; i < n; i++) {
			struct nam_wr wr = wr_send(wcs[i].context, wcs[i].bytes);

			if (wcs[i].op == NAM_WR_SEND) {
				post_buffer(f, &f->server, wcs[i].context);
				continue;
			}
			wr.flags = NAM_WR_SIGNALED;
			wr.context = wcs[i].context;
			assert_int_equal(f->ops->qp_post(wcs[i].qp, &wr, 1), 0);
		}
		if (n == 0)
			(void)f->ops->cq_wait(f->server.cq, UINT64_MAX);
	}
	free(inbox);
}

/* Both sides sleep again and again without a time-out to save them from a lost wake-up. */
static void
wait__between_threads__MISSES_NO_WAKE_UP(void **state)
{
	struct fixture *f = *state;
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	struct nam_thread *echo;
	struct nam_wc wc;

	inbox_post(f, &f->client, inbox);
	assert_int_equal(nam_thread_start("echo", echo_main, f, &echo), 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		send_now(f, f->qps[0], &i, 4);
		while (f->ops->cq_poll(f->client.cq, &wc, 1) == 0)
			(void)f->ops->cq_wait(f->client.cq, UINT64_MAX);
		assert_int_equal(wc.op, NAM_WC_RECV);
		assert_memory_equal(wc.context, &i, 4);
		post_buffer(f, &f->client, wc.context);
	}
	atomic_store(&f->stop, true);
	f->ops->cq_wake(f->server.cq);
	nam_thread_join(echo);
	free(inbox);
}

static void
wake__before_the_wait__IS_NOT_LOST(void **state)
{
	struct fixture *f = *state;

	f->ops->cq_wake(f->client.cq);
	assert_int_equal(f->ops->cq_wait(f->client.cq, UINT64_MAX), 0);
	assert_int_equal(f->ops->cq_wait(f->client.cq, 1000), -ETIMEDOUT);
}

/* ---- peers that write nonsense ------------------------------------------------------------ */

/* The server's reaction: the queue pair closes, and nothing else happens. */
static void
expect_closed(struct fixture *f)
{
	struct nam_wc wc;

	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f->accepted_qps[0]);
}

static void
ring__tail_beyond_the_ring__CLOSES_THE_QP(void **state)
{
	struct fixture *f = *state;
	struct shm_qp *client = (struct shm_qp *)f->qps[0];
	static uint8_t buffer[SHM_MESSAGE_BYTES];

	post_buffer(f, &f->server, buffer);
	atomic_store(&client->out->tail, SHM_SLOTS + 1);
	nam__shm_bell_post(client->peer_bell, client->peer_index);
	expect_closed(f);
}

static void
ring__tail_that_goes_back__CLOSES_THE_QP(void **state)
{
	struct fixture *f = *state;
	struct shm_qp *client = (struct shm_qp *)f->qps[0];
	static uint8_t buffer[SHM_MESSAGE_BYTES];

	post_buffer(f, &f->server, buffer);
	atomic_store(&client->out->tail, UINT32_MAX);
	nam__shm_bell_post(client->peer_bell, client->peer_index);
	expect_closed(f);
}

static void
ring__message_longer_than_a_slot__CLOSES_THE_QP(void **state)
{
	struct fixture *f = *state;
	struct shm_qp *client = (struct shm_qp *)f->qps[0];
	static uint8_t buffer[SHM_MESSAGE_BYTES];

	post_buffer(f, &f->server, buffer);
	atomic_store(&client->out->slots[0].bytes, SHM_MESSAGE_BYTES + 1);
	atomic_store(&client->out->tail, 1);
	nam__shm_bell_post(client->peer_bell, client->peer_index);
	expect_closed(f);
}

static void
ring__head_beyond_what_was_sent__FAILS_THE_SENDER_ONLY(void **state)
{
	struct fixture *f = *state;
	struct shm_qp *client = (struct shm_qp *)f->qps[0];
	struct nam_qp *accepted = fixture_accepted(f, 0);
	struct nam_wc wcs[32];
	uint32_t word = 0;

	atomic_store(&client->in->head, 1000);
	for (unsigned i = 0; i <= SHM_SLOTS; i++)
		send_now(f, accepted, &word, 4);
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 32), 1);
	assert_int_equal(wcs[0].op, NAM_WR_SEND);
	assert_int_equal(wcs[0].status, -NAM_E_FABRIC_PROTOCOL);
}

static void
bell__every_bit_set__IS_HARMLESS(void **state)
{
	struct fixture *f = *state;
	struct shm_qp *client = (struct shm_qp *)f->qps[0];
	struct nam_wc wcs[8];
	static uint8_t buffer[SHM_MESSAGE_BYTES];
	uint32_t word = 42;

	post_buffer(f, &f->server, buffer);
	for (unsigned i = 0; i < SHM_BELL_WORDS; i++)
		atomic_store(&client->peer_bell->bits[i], UINT64_MAX);
	atomic_store(&client->peer_bell->summary, UINT64_MAX);
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 8), 0);
	send_now(f, f->qps[0], &word, 4);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 8), 0);
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 8), 1);
	assert_memory_equal(buffer, &word, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(send__10000_each_way__ARRIVE_WHOLE_AND_IN_ORDER),
		TEST(send__to_a_full_ring__WAITS_AND_LOSES_NOTHING),
		TEST(send__ring_stays_full__TIMEOUT_AND_LATER_REQUESTS_GO_ON),
		TEST(send__inline_behind_a_full_ring__KEEPS_ITS_PAYLOAD),
		TEST(qp_destroy__inline_of_another_is_blocked_too__THAT_KEEPS_ITS_PAYLOAD),
		TEST(recv__no_buffer_posted__WAITS_IN_THE_RING),
		TEST(rq_post__beyond_its_depth__IS_REFUSED_WHOLE),
		TEST(send__too_long__COMPLETES_WITH_PROTOCOL),
		TEST(recv__while_replies_wait__HOLDS_THE_CLIENT_BACK),
		TEST(wait__between_threads__MISSES_NO_WAKE_UP),
		TEST(wake__before_the_wait__IS_NOT_LOST),
		TEST(ring__tail_beyond_the_ring__CLOSES_THE_QP),
		TEST(ring__tail_that_goes_back__CLOSES_THE_QP),
		TEST(ring__message_longer_than_a_slot__CLOSES_THE_QP),
		TEST(ring__head_beyond_what_was_sent__FAILS_THE_SENDER_ONLY),
		TEST(bell__every_bit_set__IS_HARMLESS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
