/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits_test.c -- messages that are longer than a buffer, or more than there is room for.  A
 * memory server and a client that is only a socket, and takes its time.
 */
#include "tcp_fixture.h"

static struct tcp_qp *
qp_of(const struct fixture *f)
{
	return (struct tcp_qp *)f->accepted_qps[1];
}

static void
fill_region(struct fixture *f)
{
	for (uint64_t i = 0; i < REGION_BYTES; i += 8)
		*(uint64_t *)(void *)remote(f, i) = (i + 8) * 0x9e3779b97f4a7c15ull;
}

/* As much as the socket takes, and then what the memory server makes room for. */
static bool
work_and_send(struct fixture *f, int fd, const void *data, size_t bytes)
{
	size_t sent = 0;

	while (sent < bytes) {
		ssize_t n = send(fd, (const uint8_t *)data + sent, bytes - sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			return false;
		sent += n > 0 ? (size_t)n : 0;
		let_work(f);
	}
	return true;
}

/* ---- long transfers ------------------------------------------------------------------------ */

/* Answers and requests share the stream: a reply comes behind what is being read. */
static void
reply__in_the_middle_of_a_long_read__COMES_BEHIND_IT(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame request = raw_request(f, NAM_WR_READ, 0, 0, REGION_BYTES);
	struct nam_wr wr = server_wr(f, NAM_WR_SEND, 64);
	uint8_t *got = malloc(REGION_BYTES), body[64];
	struct tcp_frame frame;
	int fd = raw_client(f, 1);

	fill_region(f);
	memset(f->server.local, 0xee, 64);
	raw_send(fd, &request, 24);
	work_until_readable(f, fd);
	assert_true(qp_of(f)->reading.left > 0);
	assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	work_and_receive(f, fd, &frame, sizeof(frame));
	assert_int_equal(frame.kind, TCP_ANSWER);
	work_and_receive(f, fd, got, REGION_BYTES);
	assert_memory_equal(got, remote(f, 0), REGION_BYTES);
	work_and_receive(f, fd, &frame, sizeof(frame));
	assert_int_equal(frame.kind, NAM_WR_SEND);
	work_and_receive(f, fd, body, sizeof(body));
	assert_memory_equal(body, f->server.local, sizeof(body));
	free(got);
	close(fd);
}

/* A piece ends between words, also behind an answer of three bytes. */
static void
read__in_pieces__CUTS_NO_WORD(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame odd = raw_request(f, NAM_WR_READ, 0, 0, 3);
	struct tcp_request_frame request = raw_request(f, NAM_WR_READ, 1, 8, REGION_BYTES - 8);
	uint8_t *got = malloc(REGION_BYTES + 64);
	int fd = raw_client(f, 1);

	fill_region(f);
	raw_send(fd, &odd, 24);
	raw_send(fd, &request, 24);
	work_until_readable(f, fd);
	while (!qp_of(f)->blocked) {
		let_work(f);
		assert_int_equal((uintptr_t)qp_of(f)->reading.at & 7, 0);
	}
	work_and_receive(f, fd, got, 8 + 3 + 8 + REGION_BYTES - 8);
	assert_memory_equal(got + 8 + 3 + 8, remote(f, 8), REGION_BYTES - 8);
	free(got);
	close(fd);
}

/* The bytes that have arrived of a long WRITE do the same. */
static void
write__in_pieces__CUTS_NO_WORD(void **state)
{
	struct fixture *f = *state;
	uint32_t bytes = 3 * TCP_WHOLE_BYTES, first = 2 * TCP_WHOLE_BYTES + 5;
	struct tcp_request_frame request = raw_request(f, NAM_WR_WRITE, 0, 0, bytes);
	uint8_t *body = malloc(bytes);
	struct tcp_frame answer;
	int fd = raw_client(f, 1);

	memset(body, 0x77, bytes);
	raw_send(fd, &request, 24);
	assert_true(work_and_send(f, fd, body, first));
	while (qp_of(f)->writing.left > bytes - (first & ~7u) || !qp_of(f)->writing.left)
		let_work(f);
	for (unsigned i = 0; i < 20; i++)
		let_work(f);
	assert_int_equal(remote_word(f, (first & ~7u) - 8), 0x7777777777777777ull);
	assert_int_equal(remote_word(f, first & ~7u), 0);
	assert_true(work_and_send(f, fd, body + first, bytes - first));
	work_and_receive(f, fd, &answer, sizeof(answer));
	assert_memory_equal(remote(f, 0), body, bytes);
	free(body);
	close(fd);
}

/* ---- more than there is room for ----------------------------------------------------------- */

/* A peer may not exceed the request limit: this one does, and takes no answer. */
static void
atomics__whose_old_words_nobody_takes__END_THE_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct tcp_request_frame requests[64];
	int fd = raw_client(f, 1), small = 4096;
	uint16_t sequence = 0;
	bool open = true;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (unsigned i = 0; i < 20000 && open; i++) {
		for (unsigned j = 0; j < 64; j++)
			requests[j] = raw_request(f, NAM_WR_CAS, sequence++, 0, 8);
		open = work_and_send(f, fd, requests, sizeof(requests)) && !qp_of(f)->error;
		assert_true(qp_of(f)->out.end <= TCP_OUT_BYTES);
	}
	assert_false(open);
	assert_int_equal(qp_of(f)->error, -NAM_E_FABRIC_PROTOCOL);
	close(fd);
}

#define WRITE_BYTES 2048u

/* A memory server's own requests take no room of answers. */
static void
requests__of_a_server__LEAVE_ROOM_FOR_ANSWERS(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = server_wr(f, NAM_WR_WRITE, WRITE_BYTES);
	int fd = raw_client(f, 1), small = 4096;
	struct tcp_request_frame request;
	uint16_t sequence = 0;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	/* The client takes nothing, and asks until an answer more would find no room. */
	while (nam__tcp_out_room(qp_of(f)) > TCP_OUT_RESERVE + 2 * WRITE_BYTES) {
		request = raw_request(f, NAM_WR_READ, sequence++, 8, WRITE_BYTES);
		raw_send(fd, &request, 24);
		let_work(f);
		assert_int_equal(qp_of(f)->error, 0);
	}
	assert_true(qp_of(f)->blocked && !qp_of(f)->stalled);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	for (unsigned i = 0; i < TCP_QP_DEPTH - 32; i++) {
		request = raw_request(f, NAM_WR_FETCH_ADD, sequence++, 0, 8);
		request.compare = 1;
		raw_send(fd, &request, 32);
		let_work(f);
	}
	while (remote_word(f, 0) < TCP_QP_DEPTH - 32 && !qp_of(f)->error)
		let_work(f);
	assert_int_equal(qp_of(f)->error, 0);
	close(fd);
}

static void
receive_more(struct fixture *f, unsigned from)
{
	struct nam_recv recvs[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++) {
		uint8_t *buffer = f->server.local + 8 * (from + i);

		recvs[i] = (struct nam_recv){ buffer, 8, 0, buffer };
	}
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, DEPTH), 0);
}

static void
send_messages(struct fixture *f, int fd, unsigned from)
{
	for (unsigned i = from; i < from + DEPTH; i++) {
		struct {
			struct tcp_frame frame;
			uint64_t number;
		} message = { raw_request(f, NAM_WR_SEND, (uint16_t)i, 0, 8).frame, i };

		raw_send(fd, &message, sizeof(message));
	}
	for (unsigned i = 0; i < 20; i++)
		let_work(f);
}

/* All completions allowed, none polled yet, and there are buffers again. */
static void
messages__more_than_completions_have_room__WAIT(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = server_wr(f, NAM_WR_WRITE, 8);
	int fd = raw_client(f, 1);
	struct nam_wc wc;

	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(f->ops->qp_post(f->accepted_qps[1], &wr, 1), 0);
	for (uint16_t i = 0; i < DEPTH; i++) {
		struct tcp_frame answer = { .kind = TCP_ANSWER, .sequence = i };
		uint8_t request[24 + 8];

		work_and_receive(f, fd, request, sizeof(request));
		raw_send(fd, &answer, sizeof(answer));
	}
	receive_more(f, 0);
	send_messages(f, fd, 0);
	receive_more(f, DEPTH);
	send_messages(f, fd, DEPTH);
	for (unsigned i = 0; i < DEPTH; i++) {
		take(f, f->server.cq, &wc, 1);
		assert_int_equal(wc.op, NAM_WR_WRITE);
	}
	for (unsigned i = 0; i < 2 * DEPTH; i++) {
		take(f, f->server.cq, &wc, 1);
		assert_int_equal(wc.op, NAM_WC_RECV);
		assert_int_equal(*(uint64_t *)wc.context, i);
	}
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reply__in_the_middle_of_a_long_read__COMES_BEHIND_IT),
		TEST(read__in_pieces__CUTS_NO_WORD),
		TEST(write__in_pieces__CUTS_NO_WORD),
		TEST(atomics__whose_old_words_nobody_takes__END_THE_CONNECTION),
		TEST(requests__of_a_server__LEAVE_ROOM_FOR_ANSWERS),
		TEST(messages__more_than_completions_have_room__WAIT),
	};

	(void)setenv("NAM_TEST_FABRIC", "tcp:127.0.0.1:0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
