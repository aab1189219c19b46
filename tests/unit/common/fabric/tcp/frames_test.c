/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames_test.c -- a memory server's handling of frames, from any sender.
 *
 * The other end is a socket that this test writes to; tcp_answers_test is the client's side.
 */
#include "tcp_fixture.h"

/* ---- frames that make no sense ------------------------------------------------------------ */

/* The fixture's nth connection has ended, and is forgotten. */
static void
expect_closed(struct fixture *f, unsigned n)
{
	struct nam_wc wc;

	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f->accepted_qps[n]);
	f->ops->qp_destroy(f->accepted_qps[n]);
	f->accepted_qps[n] = NULL;
	atomic_store(&f->accepted, n);
}

static void
expect_hang_up(struct fixture *f, int fd)
{
	uint8_t byte;

	work_until_readable(f, fd);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

static void
requests__malformed__END_THEIR_CONNECTION_AND_NO_OTHER(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame bad[] = {
		raw_request(f, 0, 0, 0, 8),
		raw_request(f, NAM_WR_SEND + 1, 0, 0, 8),
		raw_request(f, 77, 0, 0, 8),
		raw_request(f, TCP_ANSWER, 0, 0, 0),	/* nothing was asked */
		raw_request(f, NAM_WR_READ, 1, 0, 8),
		raw_request(f, NAM_WR_READ, 0, 0, 8),
		raw_request(f, NAM_WR_READ, 0, 0, 8),
		raw_request(f, NAM_WR_CAS, 0, 0, 16),
		raw_request(f, NAM_WR_FETCH_ADD, 0, 0, 4),
		raw_request(f, NAM_WR_SEND, 0, 0, TCP_MESSAGE_BYTES + 1),
	};

	bad[5].frame.status = 1;
	bad[6].reserved = 1;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = raw_client(f, 1);

		raw_send(fd, &bad[i], sizeof(bad[i]));
		expect_hang_up(f, fd);
		expect_closed(f, 1);
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
	}
}

/* ---- requests that are refused ------------------------------------------------------------ */

static void
requests__outside_of_what_may_be_reached__ARE_REFUSED_WITH_ALL_BEHIND(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame bad[] = {
		raw_request(f, NAM_WR_READ, 0, REGION_BYTES, 1),
		raw_request(f, NAM_WR_READ, 0, REGION_BYTES - 7, 8),
		raw_request(f, NAM_WR_READ, 0, UINT64_MAX - 3, 8),
		raw_request(f, NAM_WR_READ, 0, 0, UINT32_MAX),
		raw_request(f, NAM_WR_WRITE, 0, REGION_BYTES - 7, 8),
		raw_request(f, NAM_WR_CAS, 0, 4, 8),
		raw_request(f, NAM_WR_FETCH_ADD, 0, REGION_BYTES, 8),
		raw_request(f, NAM_WR_READ, 0, 0, 8),
		raw_request(f, NAM_WR_READ, 0, 0, 8),
		raw_request(f, NAM_WR_READ, 0, 0, 8),
	};

	bad[7].rkey ^= 1u << 16;		/* of the region there before */
	bad[8].rkey ^= 1;			/* a slot that is free */
	bad[9].rkey = TCP_SHARE_KEY;		/* of a connection without one */
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tcp_request_frame add = raw_request(f, NAM_WR_FETCH_ADD, 1, 0, 8);
		uint32_t head = nam__tcp_head_bytes(bad[i].frame.kind);
		struct tcp_frame answer;
		int fd = raw_client(f, 1);

		raw_send(fd, &bad[i], head + (bad[i].frame.kind == NAM_WR_WRITE ? 8 : 0));
		add.compare = 1;
		raw_send(fd, &add, 32);
		work_and_receive(f, fd, &answer, sizeof(answer));
		assert_int_equal(answer.kind, TCP_ANSWER);
		assert_int_equal(answer.status, TCP_ACCESS);
		assert_int_equal(answer.sequence, 0);
		assert_int_equal(answer.bytes, 0);
		for (unsigned j = 0; j < 10; j++)
			let_work(f);
		assert_false(readable(fd, 0));
		assert_int_equal(remote_word(f, 0), 0);
		close(fd);
		expect_closed(f, 1);
	}
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, REGION_BYTES - 8, 0, 8)), 0);
}

static void
requests__of_no_bytes__ARE_ANSWERED(void **state)
{
	struct fixture *f = *state;
	struct nam_recv recv = { f->server.local, 64, 0, f->server.local };
	struct tcp_request_frame requests[3] = {
		raw_request(f, NAM_WR_READ, 0, REGION_BYTES, 0),
		raw_request(f, NAM_WR_WRITE, 1, REGION_BYTES, 0),
		raw_request(f, NAM_WR_SEND, 2, 0, 0),
	};
	struct tcp_frame answers[3];
	struct nam_wc wc;
	int fd = raw_client(f, 1);

	assert_int_equal(f->ops->rq_post(f->server.rq, &recv, 1), 0);
	raw_send(fd, &requests[0], 24);
	raw_send(fd, &requests[1], 24);
	raw_send(fd, &requests[2], 8);
	work_and_receive(f, fd, answers, sizeof(answers));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(answers[i].status, TCP_OK);
		assert_int_equal(answers[i].sequence, i);
		assert_int_equal(answers[i].bytes, 0);
	}
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_RECV);
	assert_int_equal(wc.bytes, 0);
	close(fd);
	expect_closed(f, 1);
}

/* ---- frames in pieces --------------------------------------------------------------------- */

static void
requests__byte_by_byte__ARE_CARRIED_OUT_WHEN_COMPLETE(void **state)
{
	struct fixture *f = *state;
	struct nam_recv recv = { f->server.local, 64, 0, f->server.local };
	struct tcp_request_frame requests[3] = {
		raw_request(f, NAM_WR_WRITE, 0, 64, 16),
		raw_request(f, NAM_WR_SEND, 1, 0, 16),
		raw_request(f, NAM_WR_READ, 2, 64, 16),
	};
	uint8_t bytes[24 + 16 + 8 + 16 + 24], answers[8 + 8 + 8 + 16];
	static const uint8_t body[16] = "fifteen letters";
	struct nam_wc wc;
	int fd = raw_client(f, 1);

	memcpy(bytes, &requests[0], 24);
	memcpy(bytes + 24, body, 16);
	memcpy(bytes + 40, &requests[1], 8);
	memcpy(bytes + 48, body, 16);
	memcpy(bytes + 64, &requests[2], 24);
	assert_int_equal(f->ops->rq_post(f->server.rq, &recv, 1), 0);
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		/* Nothing of a short WRITE is seen before all of it is there. */
		if (i < 40)
			assert_int_equal(remote_word(f, 64), 0);
		raw_send(fd, bytes + i, 1);
		let_work(f);
		let_work(f);
	}
	work_and_receive(f, fd, answers, sizeof(answers));
	assert_memory_equal(answers + 24, body, 16);
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_RECV);
	assert_memory_equal(f->server.local, body, 16);
	/* Half a request, and the rest never comes. */
	requests[0].frame.sequence = 3;
	requests[0].remote += 64;
	memcpy(bytes, &requests[0], 24);
	raw_send(fd, bytes, 32);
	let_work(f);
	close(fd);
	expect_closed(f, 1);
	assert_int_equal(remote_word(f, 128), 0);
}

/* ---- connections that cannot go on -------------------------------------------------------- */

#define SLOW_READS 400u
#define SLOW_BYTES (64u << 10)
#define SLOW_NS (2ull * TCP_SILENCE_MS * 1000000u)

/*
 * More than all buffers in between hold, and for longer than a peer may be silent.  Its kernel is
 * not, and it takes them after all.
 */
static void
reader__that_takes_nothing__HOLDS_UP_NOBODY_ELSE(void **state)
{
	struct fixture *f = *state;
	uint8_t *got = malloc(SLOW_BYTES);
	uint64_t until = nam_now_ns() + SLOW_NS;
	int fd = raw_client(f, 1);

	for (uint64_t i = 0; i < REGION_BYTES; i += 8)
		*(uint64_t *)(void *)remote(f, i) = i * 0x9e3779b97f4a7c15ull;
	for (unsigned i = 0; i < SLOW_READS; i++) {
		struct tcp_request_frame request = raw_request(f, NAM_WR_READ, (uint16_t)i,
			(uint64_t)i % 63 * SLOW_BYTES, SLOW_BYTES);

		raw_send(fd, &request, 24);
	}
	for (unsigned i = 0; i < 200 || nam_now_ns() < until; i++) {
		uint64_t begin = nam_now_ns();

		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 64, 0, 1024)), 0);
		assert_memory_equal(f->client.local, remote(f, 64), 1024);
		assert_true(nam_now_ns() - begin < 1000000000ull);
	}
	for (unsigned i = 0; i < SLOW_READS; i++) {
		struct tcp_frame answer;

		work_and_receive(f, fd, &answer, sizeof(answer));
		assert_int_equal(answer.status, TCP_OK);
		assert_int_equal(answer.sequence, i);
		assert_int_equal(answer.bytes, SLOW_BYTES);
		work_and_receive(f, fd, got, SLOW_BYTES);
		assert_memory_equal(got, remote(f, (uint64_t)i % 63 * SLOW_BYTES), SLOW_BYTES);
	}
	close(fd);
	expect_closed(f, 1);
	free(got);
}

/* Half a request is behind answers that have all been taken: there is nothing to go on with. */
static void
request__half_of_it_behind_a_slow_reader__LETS_THE_SERVER_SLEEP(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame request;
	uint8_t *got = malloc(SLOW_BYTES);
	int fd = raw_client(f, 1);

	for (unsigned i = 0; i < SLOW_READS; i++) {
		request = raw_request(f, NAM_WR_READ, (uint16_t)i, 0, SLOW_BYTES);
		raw_send(fd, &request, 24);
	}
	request.frame.sequence++;
	raw_send(fd, &request, 10);
	for (unsigned i = 0; i < 50; i++)
		let_work(f);
	for (unsigned i = 0; i < SLOW_READS; i++) {
		struct tcp_frame answer;

		work_and_receive(f, fd, &answer, sizeof(answer));
		work_and_receive(f, fd, got, SLOW_BYTES);
	}
	/* The rest of the client's acknowledgements. */
	for (unsigned i = 0; i < 50; i++)
		let_work(f);
	assert_int_equal(f->ops->cq_wait(f->server.cq, 1000000), -ETIMEDOUT);
	raw_send(fd, (uint8_t *)&request + 10, 14);
	work_and_receive(f, fd, got, sizeof(struct tcp_frame));
	close(fd);
	expect_closed(f, 1);
	free(got);
}

/* ---- answers to what a server asks -------------------------------------------------------- */

#define REPLIES 256u
#define REPLY_BYTES 4096u

/*
 * More replies than may be under way, behind a WRITE: each has its buffer again at once, and
 * arrives.
 */
static void
replies__nobody_answers__HOLD_NO_BUFFERS(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = server_wr(f, NAM_WR_SEND, REPLY_BYTES);
	struct nam_wr write = server_wr(f, NAM_WR_WRITE, 8);
	int fd = raw_client(f, 1);
	struct {
		struct tcp_frame frame;
		uint8_t body[REPLY_BYTES];
	} *got = malloc(sizeof(*got));
	struct nam_wc wc;

	assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &write, 1), 0);
	for (unsigned i = 0; i < REPLIES; i++) {
		memset(f->server.local, (int)i, REPLY_BYTES);
		assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
		assert_int_equal(f->ops->cq_poll(f->server.cq, &wc, 1), 1);
		assert_int_equal(wc.op, NAM_WR_SEND);
		assert_int_equal(wc.status, 0);
	}
	memset(f->server.local, 0xff, REPLY_BYTES);
	work_and_receive(f, fd, got, 24 + 8);
	for (unsigned i = 0; i < REPLIES; i++) {
		struct tcp_frame answer = { .kind = TCP_ANSWER, .sequence = (uint16_t)i };

		work_and_receive(f, fd, got, sizeof(*got));
		assert_int_equal(got->frame.kind, NAM_WR_SEND);
		assert_int_equal(got->frame.sequence, i + 1);
		for (unsigned j = 0; j < REPLY_BYTES; j++)
			assert_int_equal(got->body[j], (uint8_t)i);
		raw_send(fd, &answer, sizeof(answer));
	}
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WR_WRITE);
	free(got);
	close(fd);
	expect_closed(f, 1);
}

/* Its body would be sent from a buffer that is reused by then. */
static void
answer__to_what_has_not_left__IS_MALFORMED(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = server_wr(f, NAM_WR_WRITE, LOCAL_BYTES);
	struct tcp_frame answer = { .kind = TCP_ANSWER };
	int fd = raw_client(f, 1), small = 4096;
	struct nam_wc wcs[2];

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	for (unsigned i = 0; i < 50; i++)
		let_work(f);
	answer.sequence = 0;
	raw_send(fd, &answer, sizeof(answer));
	answer.sequence = 1;
	raw_send(fd, &answer, sizeof(answer));
	take(f, f->server.cq, wcs, 2);
	/* The first may have left already; of the second that cannot be. */
	assert_int_equal(wcs[1].op, NAM_WR_WRITE);
	assert_int_equal(wcs[1].status, -NAM_E_FABRIC_PROTOCOL);
	close(fd);
	expect_closed(f, 1);
}

/* ---- messages that are not taken ----------------------------------------------------------- */

/* The answer that frees a buffer lies behind the message that waits for it. */
static void
send__to_an_empty_receive_queue__LEAVES_ANSWERS_A_WAY(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame message = raw_request(f, NAM_WR_SEND, 0, 0, 8);
	struct tcp_request_frame add = raw_request(f, NAM_WR_FETCH_ADD, 1, 0, 8);
	struct tcp_frame answer = { .kind = TCP_ANSWER };
	struct nam_recv recv = { f->server.local + 4096, 64, 0, NULL };
	struct {
		struct tcp_frame frame;
		uint8_t body[16];
	} got;
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = 8,
		.local = f->server.local,
		.context = &wr,
	};
	struct nam_wc wc;
	int fd = raw_client(f, 1);

	raw_send(fd, &message, 8);
	raw_send(fd, "message", 8);
	add.compare = 1;
	raw_send(fd, &add, 32);
	memcpy(f->server.local, "a reply", 8);
	for (unsigned i = 0; i < 10; i++)
		let_work(f);
	assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	work_and_receive(f, fd, &got, 8 + 8);
	assert_int_equal(got.frame.kind, NAM_WR_SEND);
	assert_memory_equal(got.body, "a reply", 8);
	raw_send(fd, &answer, sizeof(answer));
	take(f, f->server.cq, &wc, 1);
	assert_ptr_equal(wc.context, &wr);
	assert_int_equal(wc.status, 0);
	/* Requests behind a SEND wait for it. */
	assert_int_equal(remote_word(f, 0), 0);
	assert_int_equal(f->ops->rq_post(f->server.rq, &recv, 1), 0);
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_RECV);
	assert_memory_equal(f->server.local + 4096, "message", 8);
	work_and_receive(f, fd, &got, 8 + 16);
	assert_int_equal(remote_word(f, 0), 1);
	close(fd);
	expect_closed(f, 1);
}

/* Behind a message that waits: as much as may be, and then a byte more. */
static void
send__beyond_the_window__ENDS_THE_CONNECTION(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[4096 + 8];
	unsigned count = TCP_WINDOW_BYTES / sizeof(bytes);
	int fd = raw_client(f, 1);

	for (unsigned i = 0; i <= count; i++) {
		struct tcp_request_frame request = raw_request(f, NAM_WR_SEND, (uint16_t)i, 0,
			4096);

		memset(bytes, (int)i, sizeof(bytes));
		memcpy(bytes, &request, 8);
		for (unsigned j = 0; j < 20; j++)
			let_work(f);
		assert_false(readable(fd, 0));
		raw_send(fd, bytes, sizeof(bytes));
	}
	expect_hang_up(f, fd);
	expect_closed(f, 1);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests__malformed__END_THEIR_CONNECTION_AND_NO_OTHER),
		TEST(requests__outside_of_what_may_be_reached__ARE_REFUSED_WITH_ALL_BEHIND),
		TEST(requests__of_no_bytes__ARE_ANSWERED),
		TEST(requests__byte_by_byte__ARE_CARRIED_OUT_WHEN_COMPLETE),
		TEST(reader__that_takes_nothing__HOLDS_UP_NOBODY_ELSE),
		TEST(request__half_of_it_behind_a_slow_reader__LETS_THE_SERVER_SLEEP),
		TEST(replies__nobody_answers__HOLD_NO_BUFFERS),
		TEST(answer__to_what_has_not_left__IS_MALFORMED),
		TEST(send__to_an_empty_receive_queue__LEAVES_ANSWERS_A_WAY),
		TEST(send__beyond_the_window__ENDS_THE_CONNECTION),
	};

	(void)setenv("NAM_TEST_FABRIC", "tcp:127.0.0.1:0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
