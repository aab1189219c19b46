/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers_test.c -- what a client makes of what it is answered, and of a peer that ends in the
 * middle of it.  The memory server is a socket that this test writes to.
 */
#include "tcp_fixture.h"

struct raw_server {
	struct fixture f;		/* its client's side, and nothing else */
	struct nam_mr share;
	int listens, fd;		/* fd: where the client's requests arrive */
};

static void
welcome_main(void *arg)
{
	struct raw_server *s = arg;
	const struct tcp_welcome welcome = {
		.magic = TCP_MAGIC_WELCOME, .version = TCP_VERSION, .accepted = 1 };
	struct tcp_hello hello;

	s->fd = accept4(s->listens, NULL, NULL, SOCK_CLOEXEC);
	(void)!recv(s->fd, &hello, sizeof(hello), MSG_WAITALL);
	(void)!send(s->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL);
}

static int
setup(void **state)
{
	struct raw_server *s = calloc(1, sizeof(*s));
	struct sockaddr_in at = raw_at(0);
	socklen_t length = sizeof(at);
	struct nam_qp_options options = { .share = &s->share };
	struct timeval limit = { .tv_sec = 20 };
	struct nam_hello reply;
	struct nam_thread *thread;

	s->f.ops = nam_fabric_find("tcp:", NULL);
	s->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listens, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->listens, 4), 0);
	assert_int_equal(getsockname(s->listens, (struct sockaddr *)&at, &length), 0);
	(void)snprintf(s->f.address, sizeof(s->f.address), "tcp:127.0.0.1:%u", ntohs(at.sin_port));
	side_open(&s->f, &s->f.client, 0);
	assert_int_equal(s->f.ops->share_alloc(s->f.client.domain, 4096, &s->share, NULL), 0);
	options.cq = s->f.client.cq;
	options.rq = s->f.client.rq;
	assert_int_equal(nam_thread_start("welcome", welcome_main, s, &thread), 0);
	assert_int_equal(s->f.ops->connect(s->f.client.domain, s->f.address, NULL, &options, &reply,
		&s->f.qp, &s->f.diag), 0);
	nam_thread_join(thread);
	assert_int_equal(setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	struct raw_server *s = *state;

	s->f.ops->qp_destroy(s->f.qp);
	s->f.ops->mr_release(s->f.client.domain, &s->share);
	side_close(&s->f, &s->f.client);
	if (s->fd >= 0)
		close(s->fd);
	close(s->listens);
	free(s);
	return 0;
}

/* READs of `bytes` each to consecutive places, all signalled, and their frames as they arrive. */
static void
post_reads(struct raw_server *s, unsigned count, uint32_t bytes)
{
	uint8_t frame[24];
	struct nam_wc wc;

	for (unsigned i = 0; i < count; i++) {
		struct nam_wr wr = wr_of(&s->f, NAM_WR_READ, 0, (uint64_t)i * bytes, bytes);

		wr.flags = NAM_WR_SIGNALED;
		wr.context = s->f.client.local + (uint64_t)i * bytes;
		assert_int_equal(s->f.ops->qp_post(s->f.qp, &wr, 1), 0);
	}
	assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
	for (unsigned i = 0; i < count; i++) {
		assert_true(raw_receive(s->fd, frame, sizeof(frame)));
		assert_int_equal(frame[0], NAM_WR_READ);
	}
}

static void
answer(const struct raw_server *s, uint16_t sequence, uint8_t fill, uint32_t bytes, uint32_t sent)
{
	uint8_t data[8 + 4096];
	const struct tcp_frame frame = {
		.kind = TCP_ANSWER, .sequence = sequence, .bytes = bytes };

	memset(data, fill, sizeof(data));
	memcpy(data, &frame, sizeof(frame));
	raw_send(s->fd, data, sizeof(frame) + sent);
}

/* CLOSED, and nothing else. */
static void
expect_closed(struct raw_server *s)
{
	struct nam_wc wc;

	take(&s->f, s->f.client.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, s->f.qp);
	assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
}

/* ---- the end in the middle ---------------------------------------------------------------- */

/* 3 answers of 8, and half of a fourth: these 3 are done, and nothing else is said to be. */
static void
peer__ends_in_the_middle_of_a_batch__FAILS_WHAT_HAS_NO_ANSWER(void **state)
{
	struct raw_server *s = *state;
	struct nam_wc wcs[8];

	post_reads(s, 8, 1024);
	for (unsigned i = 0; i < 3; i++)
		answer(s, (uint16_t)i, (uint8_t)(0x10 + i), 1024, 1024);
	answer(s, 3, 0x13, 1024, 512);
	close(s->fd);
	s->fd = -1;
	take(&s->f, s->f.client.cq, wcs, 8);
	for (unsigned i = 0; i < 8; i++) {
		assert_ptr_equal(wcs[i].context, s->f.client.local + 1024 * i);
		assert_int_equal(wcs[i].status, i < 3 ? 0 : -NAM_E_FABRIC_PEER_DEAD);
		if (i < 3) {
			assert_int_equal(s->f.client.local[1024 * i], 0x10 + i);
			assert_int_equal(s->f.client.local[1024 * i + 1023], 0x10 + i);
		}
	}
	expect_closed(s);
}

/* The same while most of what was posted has not left yet, and much of it never could. */
static void
peer__takes_nothing_and_ends__FAILS_ALL(void **state)
{
	struct raw_server *s = *state;
	struct nam_wr wrs[DEPTH];
	struct nam_wc wcs[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++) {
		wrs[i] = wr_of(&s->f, NAM_WR_WRITE, 0, 0, LOCAL_BYTES);
		wrs[i].context = &wrs[i];
	}
	assert_int_equal(s->f.ops->qp_post(s->f.qp, wrs, DEPTH), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, wcs, DEPTH), 0);
	close(s->fd);
	s->fd = -1;
	take(&s->f, s->f.client.cq, wcs, DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_ptr_equal(wcs[i].context, &wrs[i]);
		assert_int_equal(wcs[i].status, -NAM_E_FABRIC_PEER_DEAD);
	}
	expect_closed(s);
}

/* Its kernel acknowledges everything, but the process does not answer. */
static void
peer__that_never_answers__IS_GIVEN_UP_IN_BOUNDED_TIME(void **state)
{
	struct raw_server *s = *state;
	struct nam_wr wr = wr_of(&s->f, NAM_WR_SEND, 0, 0, 8);
	uint64_t begin = nam_now_ns();
	struct nam_wc wcs[3];

	s->f.client.domain->timeout_ns = 1500000000;
	post_reads(s, 2, 64);
	wr.flags = NAM_WR_SIGNALED;
	assert_int_equal(s->f.ops->qp_post(s->f.qp, &wr, 1), 0);
	/* A moving connection is not silent. */
	while (nam_now_ns() - begin < 1000000000)
		(void)s->f.ops->cq_wait(s->f.client.cq, 10000000);
	answer(s, 0, 1, 64, 64);
	take(&s->f, s->f.client.cq, wcs, 1);
	assert_int_equal(wcs[0].status, 0);
	begin = nam_now_ns();
	take(&s->f, s->f.client.cq, wcs + 1, 2);
	assert_in_range(nam_now_ns() - begin, 1000000000, 5000000000);
	assert_int_equal(wcs[1].status, -NAM_E_FABRIC_TIMEOUT);
	assert_int_equal(wcs[2].status, -NAM_E_FABRIC_TIMEOUT);
	expect_closed(s);
}

/* A SEND waits for a receive buffer as long as it takes. */
static void
peer__that_takes_no_messages__IS_WAITED_FOR(void **state)
{
	struct raw_server *s = *state;
	struct nam_wr wr = wr_of(&s->f, NAM_WR_SEND, 0, 0, 8);
	uint64_t begin = nam_now_ns();
	struct nam_wc wc;

	s->f.client.domain->timeout_ns = 500000000;
	wr.flags = NAM_WR_SIGNALED;
	assert_int_equal(s->f.ops->qp_post(s->f.qp, &wr, 1), 0);
	while (nam_now_ns() - begin < 2500000000) {
		assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
		(void)s->f.ops->cq_wait(s->f.client.cq, 10000000);
	}
	answer(s, 0, 0, 0, 0);
	take(&s->f, s->f.client.cq, &wc, 1);
	assert_int_equal(wc.status, 0);
}

/* It was this process that stood still: the answer has been there for long. */
static void
answer__while_nobody_looked__COUNTS(void **state)
{
	struct raw_server *s = *state;
	struct tcp_cq *cq = (struct tcp_cq *)s->f.client.cq;
	struct nam_wc wc;

	s->f.client.domain->timeout_ns = TCP_LOOK_NS;
	post_reads(s, 1, 64);
	nam_sleep_ns(TCP_LOOK_NS);
	nam__tcp_give_up(cq);
	answer(s, 0, 1, 64, 64);
	nam_sleep_ns(2 * TCP_LOOK_NS);
	nam__tcp_give_up(cq);
	take(&s->f, s->f.client.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WR_READ);
	assert_int_equal(wc.status, 0);
}

/* ---- as much as may be asked --------------------------------------------------------------- */

#define PIECE_BYTES 2040u	/* of a WRITE, beside its head */

/* A blocked READ keeps the requests behind it: no more than a window. */
static void
requests__behind_one_without_an_answer__STAY_WITHIN_THE_WINDOW(void **state)
{
	struct raw_server *s = *state;
	struct nam_wr read = wr_of(&s->f, NAM_WR_READ, 0, 0, 64);
	struct nam_wr wr = wr_of(&s->f, NAM_WR_WRITE, 0, 0, PIECE_BYTES);
	size_t all = 24 + 50 * (24 + PIECE_BYTES), got = 0;
	uint8_t *arrived = malloc(all);
	struct nam_wc wc;

	assert_int_equal(s->f.ops->qp_post(s->f.qp, &read, 1), 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(s->f.ops->qp_post(s->f.qp, &wr, 1), 0);
	for (unsigned round = 0; got < all; round++) {
		ssize_t n;

		assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
		n = recv(s->fd, arrived + got, all - got, MSG_DONTWAIT);
		got += n > 0 ? (size_t)n : 0;
		if (round < 200)
			assert_true(got <= TCP_WINDOW_BYTES);
		if (round == 200) {
			assert_true(got > TCP_WINDOW_BYTES / 2);
			answer(s, 0, 1, 64, 64);
		}
		assert_true(round < 1000000);
	}
	free(arrived);
}

/* As much as the socket takes and more, before the first poll for that connection. */
static void
requests__posted_before_the_first_poll__ALL_LEAVE(void **state)
{
	struct raw_server *s = *state;
	struct nam_wr wr = wr_of(&s->f, NAM_WR_WRITE, 0, 0, LOCAL_BYTES);
	size_t left = 20 * (24 + (size_t)LOCAL_BYTES);
	uint8_t *arrived = malloc(LOCAL_BYTES);
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wc wc;

	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(s->f.ops->qp_post(s->f.qp, &wr, 1), 0);
	assert_true(((struct tcp_qp *)s->f.qp)->blocked);
	while (left) {
		ssize_t n = recv(s->fd, arrived, LOCAL_BYTES, MSG_DONTWAIT);

		left -= n > 0 ? (size_t)n : 0;
		assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
		assert_true(nam_now_ns() < until);
	}
	free(arrived);
}

/* ---- answers that make no sense ----------------------------------------------------------- */

static void
answers__malformed__FAIL_EVERYTHING_AND_CLOSE(void **state)
{
	static const struct tcp_frame bad[] = {
		{ TCP_ANSWER, TCP_OK, 1, 64 },		/* not its turn */
		{ TCP_ANSWER, TCP_OK, 0, 63 },
		{ TCP_ANSWER, TCP_OK, 0, 0 },
		{ TCP_ANSWER, TCP_OK, 0, UINT32_MAX },
		{ TCP_ANSWER, TCP_ACCESS, 0, 64 },
		{ TCP_ANSWER, 200, 0, 0 },
		{ TCP_ANSWER + 1, TCP_OK, 0, 64 },
		{ 0, TCP_OK, 0, 64 },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct raw_server *s;
		struct nam_wc wcs[4];
		uint8_t data[8 + 64] = { 0 };

		if (i) {
			(void)teardown(state);
			(void)setup(state);
		}
		s = *state;
		post_reads(s, 4, 64);
		memcpy(data, &bad[i], sizeof(bad[i]));
		raw_send(s->fd, data, sizeof(data));
		take(&s->f, s->f.client.cq, wcs, 4);
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(wcs[j].status, -NAM_E_FABRIC_PROTOCOL);
		expect_closed(s);
	}
}

static void
answers__to_nothing__CLOSE(void **state)
{
	struct raw_server *s = *state;

	answer(s, 0, 0, 0, 0);
	expect_closed(s);
}

/* ---- answers in pieces -------------------------------------------------------------------- */

static void
answers__byte_by_byte__COMPLETE_IN_ORDER(void **state)
{
	struct raw_server *s = *state;
	uint8_t data[3][8 + 40];
	struct nam_wc wcs[3];

	post_reads(s, 3, 40);
	for (unsigned i = 0; i < 3; i++) {
		const struct tcp_frame frame = {
			.kind = TCP_ANSWER, .sequence = (uint16_t)i, .bytes = 40 };

		memset(data[i], (int)(0x30 + i), sizeof(data[i]));
		memcpy(data[i], &frame, sizeof(frame));
	}
	for (unsigned i = 0; i < sizeof(data); i++) {
		raw_send(s->fd, (uint8_t *)data + i, 1);
		if ((i + 1) % sizeof(data[0]))
			assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, wcs, 3), 0);
		else
			take(&s->f, s->f.client.cq, &wcs[i / sizeof(data[0])], 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(wcs[i].status, 0);
		assert_ptr_equal(wcs[i].context, s->f.client.local + 40 * i);
		assert_memory_equal(wcs[i].context, data[i] + 8, 40);
	}
}

static void
answers__of_a_refusal__FAIL_IT_AND_ALL_BEHIND(void **state)
{
	struct raw_server *s = *state;
	const struct tcp_frame refusal = {
		.kind = TCP_ANSWER, .status = TCP_ACCESS, .sequence = 1 };
	struct nam_wc wcs[4];
	uint8_t byte;

	post_reads(s, 4, 64);
	answer(s, 0, 1, 64, 64);
	raw_send(s->fd, &refusal, sizeof(refusal));
	take(&s->f, s->f.client.cq, wcs, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(wcs[i].status, i ? -NAM_E_FABRIC_ACCESS : 0);
	/* The peer is told; the requester may query the reason on its own queue pair. */
	assert_true(recv(s->fd, &byte, 1, 0) <= 0);
	assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, wcs, 4), 0);
}

/* ---- what a memory server asks of a client ------------------------------------------------ */

static void
requests__of_the_share__REACH_IT_AND_NOTHING_ELSE(void **state)
{
	struct raw_server *s = *state;
	struct tcp_request_frame write = {
		.frame = { .kind = NAM_WR_WRITE, .bytes = 8 },
		.rkey = TCP_SHARE_KEY,
		.remote = 4088,
	};
	struct tcp_frame answered;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wc wc;

	for (unsigned i = 0; i < 2; i++) {
		raw_send(s->fd, &write, 24);
		raw_send(s->fd, "letters", 8);
		while (!readable(s->fd, 1)) {
			assert_int_equal(s->f.ops->cq_poll(s->f.client.cq, &wc, 1), 0);
			assert_true(nam_now_ns() < until);
		}
		assert_true(raw_receive(s->fd, &answered, sizeof(answered)));
		assert_int_equal(answered.status, i ? TCP_ACCESS : TCP_OK);
		assert_memory_equal((uint8_t *)s->share.base + 4088, "letters", 8);
		write.frame.sequence = 1;
		write.remote = 4089;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(peer__ends_in_the_middle_of_a_batch__FAILS_WHAT_HAS_NO_ANSWER),
		TEST(peer__takes_nothing_and_ends__FAILS_ALL),
		TEST(peer__that_never_answers__IS_GIVEN_UP_IN_BOUNDED_TIME),
		TEST(peer__that_takes_no_messages__IS_WAITED_FOR),
		TEST(answer__while_nobody_looked__COUNTS),
		TEST(requests__posted_before_the_first_poll__ALL_LEAVE),
		TEST(requests__behind_one_without_an_answer__STAY_WITHIN_THE_WINDOW),
		TEST(answers__malformed__FAIL_EVERYTHING_AND_CLOSE),
		TEST(answers__to_nothing__CLOSE),
		TEST(answers__byte_by_byte__COMPLETE_IN_ORDER),
		TEST(answers__of_a_refusal__FAIL_IT_AND_ALL_BEHIND),
		TEST(requests__of_the_share__REACH_IT_AND_NOTHING_ELSE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
