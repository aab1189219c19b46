/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_test.c -- what every provider must do, over the one that NAM_TEST_FABRIC names.
 *
 * Nothing here polls once and expects an effect: requests may be carried out by a device, and take
 * their time.
 */
#include "fabric_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define MIB (1u << 20)

/* ---- effects ------------------------------------------------------------------------------ */

static void
read__after_write__RETURNS_THE_SAME_BYTES_AND_TOUCHES_NO_OTHERS(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 7, 8, 9, 63, 64, 65, 127, 255, 256, 257, 1023, 1024,
		1025, 4096, 5000, 65536, MIB, MIB + 1 };
	struct fixture *f = *state;
	struct nam_rng rng = nam_rng_seed(7);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t at = 4096 + i % 9;
		uint32_t bytes = sizes[i];
		uint8_t *in = f->client.local + 2 * MIB + 3;

		memset(f->mr.base, 0xee, 2 * MIB);
		memset(in - 1, 0xdd, bytes + 2);
		for (uint32_t j = 0; j < bytes; j++)
			f->client.local[j] = (uint8_t)nam_rng_next(&rng);
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_WRITE, at, 0, bytes)), 0);
		assert_memory_equal(remote(f, at), f->client.local, bytes);
		assert_int_equal(*remote(f, at - 1), 0xee);
		assert_int_equal(*remote(f, at + bytes), 0xee);
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, at, 2 * MIB + 3, bytes)), 0);
		assert_memory_equal(in, f->client.local, bytes);
		assert_int_equal(in[-1], 0xdd);
		assert_int_equal(in[bytes], 0xdd);
	}
}

static void
post__one_doorbell__TAKES_EFFECT_IN_POST_ORDER(void **state)
{
	struct fixture *f = *state;
	const uint32_t needed = NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ;

	if ((f->client.domain->limits.caps & needed) != needed)
		skip();
	for (unsigned round = 0; round < 100; round++) {
		struct nam_wr wrs[5] = {
			wr_of(f, NAM_WR_WRITE, 256, 0, 8),
			wr_of(f, NAM_WR_CAS, 256, 64, 8),
			wr_of(f, NAM_WR_READ, 256, 128, 8),
			wr_of(f, NAM_WR_FETCH_ADD, 256, 192, 8),
			wr_of(f, NAM_WR_READ, 256, 256, 8),
		};
		struct nam_wc wcs[5];

		*local_word(f, 0) = 11 + 100 * round;
		wrs[1].compare = 11 + 100 * round;
		wrs[1].swap = 20 + 100 * round;
		wrs[3].compare = 1;
		for (int i = 0; i < 5; i++) {
			wrs[i].flags = NAM_WR_SIGNALED;
			wrs[i].context = &wrs[i];
		}
		assert_int_equal(f->ops->qp_post(f->qp, wrs, 5), 0);
		take(f, f->client.cq, wcs, 5);
		for (int i = 0; i < 5; i++) {
			assert_ptr_equal(wcs[i].context, &wrs[i]);
			assert_int_equal(wcs[i].status, 0);
			assert_int_equal(wcs[i].op, wrs[i].op);
		}
		assert_int_equal(*local_word(f, 64), 11 + 100 * round);
		/* If its answer was lost, it was carried out again, after what is behind it. */
		assert_in_range(*local_word(f, 128), 20 + 100 * round, 21 + 100 * round);
		assert_int_equal(*local_word(f, 192), 20 + 100 * round);
		assert_int_equal(*local_word(f, 256), 21 + 100 * round);
	}
}

/* ---- accounts ----------------------------------------------------------------------------- */

static void
post__more_than_the_depth__IS_REFUSED_WHOLE(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[DEPTH + 1];
	struct nam_wc wcs[DEPTH];

	for (unsigned i = 0; i <= DEPTH; i++) {
		wrs[i] = wr_of(f, NAM_WR_FETCH_ADD, 0, 8 * i, 8);
		wrs[i].flags = NAM_WR_SIGNALED;
		wrs[i].compare = 1;
	}
	assert_int_equal(f->ops->qp_post(f->qp, wrs, DEPTH + 1), -NAM_E_FABRIC_FULL);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, DEPTH), 0);
	assert_int_equal(remote_word(f, 0), 0);
	for (unsigned round = 1; round <= 3; round++) {
		assert_int_equal(f->ops->qp_post(f->qp, wrs, DEPTH - 4), 0);
		assert_int_equal(f->ops->qp_post(f->qp, wrs, 5), -NAM_E_FABRIC_FULL);
		assert_int_equal(f->ops->qp_post(f->qp, wrs, 4), 0);
		take(f, f->client.cq, wcs, DEPTH);
		assert_int_equal(remote_word(f, 0), round * DEPTH);
	}
}

/* They are not reported, and yet they leave room. */
static void
post__only_unsignaled__MAKES_ROOM_AND_REPORTS_NOTHING(void **state)
{
	struct fixture *f = *state;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wr wr = wr_of(f, NAM_WR_FETCH_ADD, 0, 0, 8);
	struct nam_wc wc;
	unsigned posted = 0;

	wr.compare = 1;
	while (posted < 5 * DEPTH) {
		int rc = f->ops->qp_post(f->qp, &wr, 1);

		assert_true(rc == 0 || rc == -NAM_E_FABRIC_FULL);
		posted += rc == 0;
		assert_int_equal(f->ops->cq_poll(f->client.cq, &wc, 1), 0);
		if (rc) {
			let_work(f);
			(void)f->ops->cq_wait(f->client.cq, 1000000);
		}
		assert_true(nam_now_ns() < until);
	}
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 8, 8)), 0);
	assert_int_equal(*local_word(f, 8), 5 * DEPTH);
}

static void
post__inline__LEAVES_THE_BUFFER_TO_THE_CALLER(void **state)
{
	struct fixture *f = *state;
	uint32_t bytes = f->client.domain->limits.inline_bytes;
	struct nam_wr wr = wr_of(f, NAM_WR_WRITE, 64, 0, bytes);
	uint8_t *buffer = malloc(bytes + 1);	/* registered nowhere */

	assert_true(bytes >= 64);
	for (unsigned round = 1; round < 50; round++) {
		memset(buffer, (int)round, bytes);
		wr.local = buffer;
		wr.lkey = 0;
		wr.flags = NAM_WR_INLINE;
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
		memset(buffer, 0xff, bytes);
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 64, 0, bytes)), 0);
		memset(buffer, (int)round, bytes);
		assert_memory_equal(f->client.local, buffer, bytes);
	}
	wr.bytes = bytes + 1;
	assert_int_equal(run(f, f->qp, wr), -NAM_E_FABRIC_CAPABILITY);
	free(buffer);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void
post__outside_of_registered_memory__COMPLETES_WITH_ACCESS_AND_BREAKS_THE_QP(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct nam_wr bad[] = {
			wr_of(f, NAM_WR_READ, REGION_BYTES, 0, 8),
			wr_of(f, NAM_WR_READ, REGION_BYTES - 63, 0, 64),
			wr_of(f, NAM_WR_WRITE, REGION_BYTES - 63, 0, 1024),
			wr_of(f, NAM_WR_CAS, REGION_BYTES, 0, 8),
			wr_of(f, NAM_WR_CAS, 4, 0, 8),
			wr_of(f, NAM_WR_READ, 0, 0, 8),
		};
		struct nam_qp *qp = fixture_connect(f, &f->client);

		bad[5].rkey ^= 0x5a5a;
		assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
		assert_int_equal(run(f, qp, bad[i]), -NAM_E_FABRIC_ACCESS);
		/* Later requests are flushed with the same reason. */
		assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, 0, 0, 64)),
			-NAM_E_FABRIC_ACCESS);
		f->ops->qp_destroy(qp);
		/* The test's fixture has few places; the server forgets this one. */
		f->ops->qp_destroy(fixture_accepted(f, 1));
		f->accepted_qps[1] = NULL;
		atomic_store(&f->accepted, 1);
	}
	/* Others are not affected. */
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, REGION_BYTES - 64, 0, 64)), 0);
}

/* 2 good ones, a bad one, 4 that follow; none but the second asked for a completion. */
static void
post__a_failure_in_a_chain__REPORTS_IT_AND_ALL_BEHIND_IT(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[7];
	struct nam_wc wcs[6];

	for (unsigned i = 0; i < 7; i++) {
		wrs[i] = wr_of(f, NAM_WR_FETCH_ADD, 0, 8 * i, 8);
		wrs[i].compare = 1;
		wrs[i].context = &wrs[i];
	}
	wrs[1].flags = NAM_WR_SIGNALED;
	wrs[2].rkey ^= 0x5a5a;
	assert_int_equal(f->ops->qp_post(f->qp, wrs, 7), 0);
	take(f, f->client.cq, wcs, 6);
	assert_ptr_equal(wcs[0].context, &wrs[1]);
	assert_int_equal(wcs[0].status, 0);
	for (unsigned i = 1; i < 6; i++) {
		assert_ptr_equal(wcs[i].context, &wrs[i + 1]);
		assert_int_equal(wcs[i].status, -NAM_E_FABRIC_ACCESS);
		assert_int_equal(wcs[i].op, NAM_WR_FETCH_ADD);
	}
	assert_int_equal(remote_word(f, 0), 2);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 6), 0);
}

static void
post__unknown_operation__COMPLETES_WITH_CAPABILITY(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[2] = { wr_of(f, NAM_WR_FETCH_ADD, 0, 0, 8), wr_of(f, 77, 0, 0, 8) };
	struct nam_wc wcs[2];

	wrs[0].flags = NAM_WR_SIGNALED;
	wrs[0].compare = 1;
	assert_int_equal(f->ops->qp_post(f->qp, wrs, 2), 0);
	take(f, f->client.cq, wcs, 2);
	assert_int_equal(wcs[0].status, 0);
	assert_int_equal(wcs[1].status, -NAM_E_FABRIC_CAPABILITY);
	assert_int_equal(wcs[1].op, 77);
	assert_int_equal(remote_word(f, 0), 1);
}

/* ---- messages ----------------------------------------------------------------------------- */

static void
post_receives(struct fixture *f, struct side *side, unsigned count, uint32_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		struct nam_recv recv = {
			.buffer = side->local + MIB + (uint64_t)i * bytes,
			.bytes = bytes,
			.lkey = side->local_mr.lkey,
			.context = side->local + MIB + (uint64_t)i * bytes,
		};

		assert_int_equal(f->ops->rq_post(side->rq, &recv, 1), 0);
	}
}

/* The bytes of message number i. */
static void
message_fill(uint8_t *message, unsigned i, uint32_t bytes)
{
	memset(message, (int)i, bytes);
	memcpy(message, &i, sizeof(i));
}

static void
send__many_sizes__ARRIVE_WHOLE_AND_IN_ORDER(void **state)
{
	static const uint32_t sizes[] = { 4, 64, 200, 256, 257, 1000, 4096 };
	struct fixture *f = *state;
	uint8_t expected[4096];

	post_receives(f, &f->server, 16, 4096);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct nam_wc wc;

		message_fill(f->client.local, i, sizes[i]);
		message_fill(expected, i, sizes[i]);
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_SEND, 0, 0, sizes[i])), 0);
		take(f, f->server.cq, &wc, 1);
		assert_int_equal(wc.op, NAM_WC_RECV);
		assert_int_equal(wc.bytes, sizes[i]);
		assert_ptr_equal(wc.qp, fixture_accepted(f, 0));
		assert_memory_equal(wc.context, expected, sizes[i]);
	}
}

static void
send__as_long_as_the_limit_allows__ARRIVES(void **state)
{
	struct fixture *f = *state;
	uint32_t bytes = f->client.domain->limits.message_bytes;
	struct nam_wc wc;

	if (bytes > MIB)
		bytes = MIB;
	post_receives(f, &f->server, 1, bytes);
	for (uint32_t i = 0; i < bytes; i++)
		f->client.local[i] = (uint8_t)(i * 7);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_SEND, 0, 0, bytes)), 0);
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.bytes, bytes);
	assert_memory_equal(wc.context, f->client.local, bytes);
}

/* More messages than receive buffers: senders wait, nothing is lost or out of order. */
static void
send__to_an_empty_receive_queue__WAITS(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[40];
	struct nam_wc wcs[40];
	unsigned sent = 0, received = 0;
	uint64_t until;

	for (unsigned i = 0; i < 40; i++) {
		message_fill(f->client.local + 512 * i, i, 512);
		wrs[i] = wr_of(f, NAM_WR_SEND, 0, 512 * i, 512);
		wrs[i].flags = NAM_WR_SIGNALED;
	}
	assert_int_equal(f->ops->qp_post(f->qp, wrs, 40), 0);
	until = nam_now_ns() + 300000000;
	while (nam_now_ns() < until) {
		let_work(f);
		sent += (unsigned)f->ops->cq_poll(f->client.cq, wcs, 40);
	}
	post_receives(f, &f->server, 4, 512);
	until = nam_now_ns() + TIMEOUT_NS;
	while (received < 40 || sent < 40) {
		int n = f->ops->cq_poll(f->client.cq, wcs, 40);

		assert_true(nam_now_ns() < until);
		for (int i = 0; i < n; i++)
			assert_int_equal(wcs[i].status, 0);
		sent += (unsigned)n;
		n = f->ops->cq_poll(f->server.cq, wcs, 1);
		if (n) {
			struct nam_recv again = { wcs[0].context, 512, f->server.local_mr.lkey,
				wcs[0].context };
			unsigned number;

			memcpy(&number, wcs[0].context, sizeof(number));
			assert_int_equal(number, received);
			received++;
			assert_int_equal(f->ops->rq_post(f->server.rq, &again, 1), 0);
		} else {
			(void)f->ops->cq_wait(f->server.cq, 1000000);
		}
	}
}

/* The receiver ends that queue pair; whether its sender hears why, or only that, differs. */
static void
send__longer_than_the_receive_buffer__CLOSES_THAT_QP_ONLY(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *other = fixture_connect(f, &f->client);
	bool closed = false, received = false;
	struct nam_wc wc;

	(void)fixture_accepted(f, 1);
	post_receives(f, &f->server, 4, 256);
	(void)run(f, f->qp, wr_of(f, NAM_WR_SEND, 0, 0, 512));
	assert_int_equal(run(f, other, wr_of(f, NAM_WR_SEND, 0, 0, 100)), 0);
	while (!closed || !received) {
		take(f, f->server.cq, &wc, 1);
		if (wc.op == NAM_WC_CLOSED) {
			assert_ptr_equal(wc.qp, fixture_accepted(f, 0));
			closed = true;
		} else {
			assert_int_equal(wc.op, NAM_WC_RECV);
			assert_ptr_equal(wc.qp, fixture_accepted(f, 1));
			assert_int_equal(wc.bytes, 100);
			received = true;
		}
	}
	f->ops->qp_destroy(other);
}

/* ---- connections -------------------------------------------------------------------------- */

static void
connect__refused__HANDS_OVER_THE_REASON(void **state)
{
	const struct nam_hello hello = { .bytes = 2, .data = "no" };
	struct fixture *f = *state;
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	struct nam_hello reply;
	struct nam_qp *qp;

	assert_int_equal(f->ops->connect(f->client.domain, f->address, &hello, &options, &reply,
		&qp, &f->diag), -ECONNREFUSED);
	assert_int_equal(reply.bytes, 3);
	assert_memory_equal(reply.data, "why", 3);
}

static void
connect__nobody_there__FAILS_IN_TIME_WITH_A_MESSAGE(void **state)
{
	const struct nam_hello hello = { .bytes = 2, .data = "hi" };
	struct fixture *f = *state;
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	uint64_t begin = nam_now_ns();
	struct nam_hello reply;
	struct nam_qp *qp;
	char address[160];

	(void)snprintf(address, sizeof(address), "%s1", f->address);
	/* One digit less at the front of a port is a port, too. */
	if (!f->directory[0])
		(void)snprintf(address, sizeof(address), "%.*s:9%s",
			(int)(strrchr(f->address, ':') - f->address), f->address,
			strrchr(f->address, ':') + 2);
	f->diag.text[0] = '\0';
	assert_true(f->ops->connect(f->client.domain, address, &hello, &options, &reply, &qp,
		&f->diag) < 0);
	assert_true(nam_now_ns() - begin < 5500000000ull);
	assert_non_null(strstr(f->diag.text, f->directory[0] ? "socket1" : address));
}

static void
listen__address_in_use__SAYS_SO(void **state)
{
	struct fixture *f = *state;
	struct nam_listener *listener;

	f->diag.text[0] = '\0';
	assert_int_equal(f->ops->listen(f->server.domain, f->address, &listener, &f->diag),
		-NAM_E_FABRIC_ADDRESS_IN_USE);
	assert_true(f->diag.text[0]);
}

static bool
has_accepted(struct fixture *f)
{
	for (unsigned n = 1; n < atomic_load(&f->accepted); n++)
		if (f->accepted_qps[n])
			return true;
	return false;
}

/*
 * Those that were accepted since close.  There may be several: a client that has waited too long
 * for an answer asks anew, and gives up what the server has accepted before.
 */
static void
take_closed(struct fixture *f)
{
	while (!has_accepted(f))
		nam_yield();
	do {
		unsigned n = 1;
		struct nam_wc wc;

		take(f, f->server.cq, &wc, 1);
		assert_int_equal(wc.op, NAM_WC_CLOSED);
		while (n < atomic_load(&f->accepted) && f->accepted_qps[n] != wc.qp)
			n++;
		assert_true(n < atomic_load(&f->accepted));
		f->ops->qp_destroy(wc.qp);
		f->accepted_qps[n] = NULL;
	} while (has_accepted(f));
	atomic_store(&f->accepted, 1);
}

static void
connect__again_and_again__WORKS(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 20; i++) {
		struct nam_qp *qp = fixture_connect(f, &f->client);

		assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
		f->ops->qp_destroy(qp);
		take_closed(f);
	}
}

static void
waker_main(void *arg)
{
	struct fixture *f = arg;

	nam_sleep_ns(100000000);
	f->ops->cq_wake(f->client.cq);
}

static void
cq_wait__woken_by_another_thread__RETURNS(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = nam_now_ns();
	struct nam_thread *waker;
	struct nam_wc wc;

	assert_int_equal(nam_thread_start("waker", waker_main, f, &waker), 0);
	while (nam_now_ns() - begin < 90000000)
		(void)f->ops->cq_wait(f->client.cq, 20000000000ull);
	assert_true(nam_now_ns() - begin < 10000000000ull);
	nam_thread_join(waker);
	/* Spurious returns are allowed, but not for ever if one polls. */
	for (unsigned i = 0; f->ops->cq_wait(f->client.cq, 30000000) != -ETIMEDOUT; i++) {
		assert_true(i < 10);
		assert_int_equal(f->ops->cq_poll(f->client.cq, &wc, 1), 0);
	}
}

/* ---- peers that go away ------------------------------------------------------------------- */

static void
closed__after_the_client_left__COMES_LAST(void **state)
{
	struct fixture *f = *state;
	struct nam_wc wcs[4];

	post_receives(f, &f->server, 8, 64);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_SEND, 0, 0, 8)), 0);
	take(f, f->server.cq, wcs, 2);
	assert_int_equal(wcs[0].op, NAM_WC_RECV);
	assert_int_equal(wcs[1].op, NAM_WC_RECV);
	f->ops->qp_destroy(f->qp);
	f->qp = NULL;
	/* The third one may be lost with its sender. */
	do {
		take(f, f->server.cq, wcs, 1);
	} while (wcs[0].op == NAM_WC_RECV);
	assert_int_equal(wcs[0].op, NAM_WC_CLOSED);
	assert_ptr_equal(wcs[0].qp, fixture_accepted(f, 0));
	f->ops->qp_destroy(wcs[0].qp);
	f->accepted_qps[0] = NULL;
	assert_int_equal(f->ops->cq_poll(f->server.cq, wcs, 4), 0);
}

static void
closed__after_the_server_left__ENDS_WHAT_IS_POSTED(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = wr_of(f, NAM_WR_READ, 0, 0, 8);
	struct nam_wc wc;

	f->ops->qp_destroy(fixture_accepted(f, 0));
	f->accepted_qps[0] = NULL;
	take(f, f->client.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f->qp);
	/* Not destroyed yet: what is posted fails. */
	wr.context = &wr;
	assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
	take(f, f->client.cq, &wc, 1);
	assert_ptr_equal(wc.context, &wr);
	assert_int_equal(wc.status, -NAM_E_FABRIC_PEER_DEAD);
}

/* A caller that takes few completions at a time always finds as many. */
static void
closed__while_requests_keep_completing__IS_REPORTED(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *second = fixture_connect(f, &f->client);
	struct nam_wr wr = wr_of(f, NAM_WR_READ, 0, 0, 8);
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wc wcs[16] = { 0 };
	bool closed = false;
	const unsigned posted = 16;

	f->ops->qp_destroy(fixture_accepted(f, 1));
	f->accepted_qps[1] = NULL;
	wr.flags = NAM_WR_SIGNALED;
	for (unsigned i = 0; i < posted; i++)
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
	while (!closed && nam_now_ns() < until) {
		int got = f->ops->cq_poll(f->client.cq, wcs, 2);

		for (int i = 0; i < got; i++) {
			closed |= wcs[i].op == NAM_WC_CLOSED && wcs[i].qp == second;
			if (wcs[i].op == NAM_WR_READ)
				assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
		}
		let_work(f);
	}
	assert_true(closed);
	f->ops->qp_destroy(second);
	take(f, f->client.cq, wcs, posted);
}

/* Another process that serves one client at `address`, until it is killed. */
static pid_t
server_start(const char *address)
{
	int ready[2];
	char fd[16], byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	(void)snprintf(fd, sizeof(fd), "%d", ready[1]);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/proc/self/exe", "fabric_test", "--serve", address, fd, (char *)NULL);
		_exit(127);
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	return pid;
}

static int
serve(const char *address, int ready)
{
	struct fixture f = { .accepted = 0 };
	struct nam_wc wc;

	(void)snprintf(f.address, sizeof(f.address), "%s", address);
	f.ops = nam_fabric_find(address, NULL);
	fixture_listen(&f);
	if (write(ready, "+", 1) != 1)
		return 1;
	for (;;) {
		if (!f.ops->cq_poll(f.server.cq, &wc, 1))
			(void)f.ops->cq_wait(f.server.cq, 1000000000);
	}
}

static void
kill__the_server__ENDS_WAITING_REQUESTS_WITHIN_2_S(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t begin, seconds_2 = 2000000000ull;
	struct nam_wc wcs[2];
	struct nam_wr wr;
	pid_t pid;

	(void)state;
	fixture_address(f);
	for (unsigned round = 0; round < 2; round++) {
		pid = server_start(f->address);
		side_open(f, &f->client, 0);
		f->qp = fixture_connect(f, &f->client);
		/* A SEND that is never received. */
		wr = wr_of(f, NAM_WR_SEND, 0, 0, 8);
		wr.flags = NAM_WR_SIGNALED;
		wr.context = &wr;
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
		if (strcmp(f->ops->name, "shm")) {
			nam_sleep_ns(200000000);
			assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 2), 0);
		}
		begin = nam_now_ns();
		assert_int_equal(kill(pid, SIGKILL), 0);
		do {
			take(f, f->client.cq, wcs, 1);
			assert_true(nam_now_ns() - begin < seconds_2);
			if (wcs[0].op == NAM_WR_SEND && strcmp(f->ops->name, "shm"))
				assert_int_equal(wcs[0].status, -NAM_E_FABRIC_PEER_DEAD);
		} while (wcs[0].op != NAM_WC_CLOSED);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		f->ops->qp_destroy(f->qp);
		side_close(f, &f->client);
		/* Once more: another server at that address, and a client of it. */
	}
	if (f->directory[0]) {
		(void)unlink(f->address + 4);
		(void)strcat(f->address, ".lock");
		(void)unlink(f->address + 4);
		assert_int_equal(rmdir(f->directory), 0);
	}
	free(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(read__after_write__RETURNS_THE_SAME_BYTES_AND_TOUCHES_NO_OTHERS),
		TEST(post__one_doorbell__TAKES_EFFECT_IN_POST_ORDER),
		TEST(post__more_than_the_depth__IS_REFUSED_WHOLE),
		TEST(post__only_unsignaled__MAKES_ROOM_AND_REPORTS_NOTHING),
		TEST(post__inline__LEAVES_THE_BUFFER_TO_THE_CALLER),
		TEST(post__outside_of_registered_memory__COMPLETES_WITH_ACCESS_AND_BREAKS_THE_QP),
		TEST(post__a_failure_in_a_chain__REPORTS_IT_AND_ALL_BEHIND_IT),
		TEST(post__unknown_operation__COMPLETES_WITH_CAPABILITY),
		TEST(send__many_sizes__ARRIVE_WHOLE_AND_IN_ORDER),
		TEST(send__as_long_as_the_limit_allows__ARRIVES),
		TEST(send__to_an_empty_receive_queue__WAITS),
		TEST(send__longer_than_the_receive_buffer__CLOSES_THAT_QP_ONLY),
		TEST(connect__refused__HANDS_OVER_THE_REASON),
		TEST(connect__nobody_there__FAILS_IN_TIME_WITH_A_MESSAGE),
		TEST(listen__address_in_use__SAYS_SO),
		TEST(connect__again_and_again__WORKS),
		TEST(cq_wait__woken_by_another_thread__RETURNS),
		TEST(closed__after_the_client_left__COMES_LAST),
		TEST(closed__after_the_server_left__ENDS_WHAT_IS_POSTED),
		TEST(closed__while_requests_keep_completing__IS_REPORTED),
		cmocka_unit_test(kill__the_server__ENDS_WAITING_REQUESTS_WITHIN_2_S),
	};

	if (argc == 4 && !strcmp(argv[1], "--serve"))
		return serve(argv[2], atoi(argv[3]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
