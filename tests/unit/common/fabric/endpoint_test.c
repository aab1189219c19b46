/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_test.c -- what every provider with endpoints must do, over the one that NAM_TEST_FABRIC
 * names; and that the others say that they have none.
 *
 * Datagrams may be lost, so each is sent again until it has arrived.
 */
#include "fabric_fixture.h"

#define AGAIN_NS 50000000u		/* how long to look for what may have been lost */
#define FLOOD 2000u			/* datagrams: more than any queue has room for */
#define MOST NAM_DATAGRAM_BYTES_MAX
#define UNTOUCHED 0x5e
#define SLEEPS 10u
#define STRAY 0x80u			/* the round of those that need not arrive */

/* An endpoint, and the completion queue that it has for itself. */
struct party {
	struct fixture *f;
	struct nam_cq *cq;
	struct nam_endpoint *endpoint;
	struct nam_endpoint_name name;
	struct party *also;		/* another one of this cq, or NULL */
	bool notified;			/* of datagrams */
	bool answered;			/* a request of the queue pair beside it */
};

struct pair {
	struct side other;		/* its client's domain */
	struct nam_qp *other_qp;
	struct party a, b;		/* of the fixture's client, and of the other one */
	uint32_t to_b, to_a;		/* handles */
};

static int
party_open(struct fixture *f, struct side *side, struct party *party)
{
	*party = (struct party){ .f = f, .cq = side->cq };
	return f->ops->endpoint_open(side->domain, side->cq, party, &party->name,
		&party->endpoint);
}

static void
party_close(struct party *party)
{
	party->f->ops->endpoint_close(party->endpoint);
}

static uint32_t
handle_of(const struct party *from, const struct party *to)
{
	uint32_t handle;

	assert_int_equal(from->f->ops->endpoint_place(from->endpoint, to->name.place, &handle), 0);
	return handle;
}

/* False: the provider has no endpoints. */
static bool
pair_open(struct fixture *f, struct pair *pair)
{
	int rc = party_open(f, &f->client, &pair->a);

	if (rc == -NAM_E_FABRIC_CAPABILITY)
		return false;
	assert_int_equal(rc, 0);
	side_open(f, &pair->other, 0);
	pair->other_qp = fixture_connect(f, &pair->other);
	(void)fixture_accepted(f, 1);
	assert_int_equal(party_open(f, &pair->other, &pair->b), 0);
	pair->to_b = handle_of(&pair->a, &pair->b);
	pair->to_a = handle_of(&pair->b, &pair->a);
	return true;
}

static void
pair_close(struct fixture *f, struct pair *pair)
{
	party_close(&pair->a);
	party_close(&pair->b);
	f->ops->qp_destroy(pair->other_qp);
	side_close(f, &pair->other);
}

/* ---- datagrams ------------------------------------------------------------------------------ */

/* Their first byte is a number that their receiver knows them by. */
static void
fill(uint8_t *datagram, uint8_t round, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		datagram[i] = (uint8_t)(round + i);
}

static void
send_bytes(struct party *from, uint32_t handle, uint32_t number, uint8_t round, uint32_t bytes)
{
	uint8_t datagram[MOST + 64];

	fill(datagram, round, bytes);
	from->f->ops->endpoint_send(from->endpoint, handle, number, datagram, bytes);
	memset(datagram, UNTOUCHED, sizeof(datagram));	/* it was copied */
}

/* Its cq's completions: news of datagrams, and of one request. */
static void
poll(struct party *party)
{
	struct nam_wc wcs[4];
	int got;

	while ((got = party->f->ops->cq_poll(party->cq, wcs, 4)) > 0) {
		for (int i = 0; i < got; i++) {
			assert_int_equal(wcs[i].status, 0);
			if (wcs[i].op == NAM_WR_READ)
				party->answered = true;
			else
				assert_int_equal(wcs[i].op, NAM_WC_DATAGRAM);
			if (wcs[i].context == party)
				party->notified |= wcs[i].op == NAM_WC_DATAGRAM;
			else if (party->also && wcs[i].context == party->also)
				party->also->notified = true;
			else
				fail_msg("a completion of no endpoint");
		}
	}
	assert_int_equal(got, 0);
}

/* The next one, whose bytes are as they were sent; 0: there is none. */
static uint32_t
receive(struct party *party, uint8_t *ret_round)
{
	uint8_t datagram[MOST + 8];
	uint32_t bytes;

	memset(datagram, UNTOUCHED, sizeof(datagram));
	bytes = party->f->ops->endpoint_receive(party->endpoint, datagram);
	assert_true(bytes <= MOST);
	for (uint32_t i = bytes; i < sizeof(datagram); i++)
		assert_int_equal(datagram[i], UNTOUCHED);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(datagram[i], (uint8_t)(datagram[0] + i));
	if (bytes)
		*ret_round = datagram[0];
	return bytes;
}

/* Whether the cq tells of datagrams, now or after a while. */
static bool
is_notified(struct party *party)
{
	uint64_t again = nam_now_ns() + AGAIN_NS;

	do {
		poll(party);
		if (party->notified)
			break;
		(void)party->f->ops->cq_wait(party->cq, 1000000);
	} while (nam_now_ns() < again);
	return party->notified;
}

/*
 * Send one datagram until it has arrived.  It is looked for when the receiver's cq has told of it.
 * Those of other rounds are late.
 */
static void
exchange(struct party *from, uint32_t handle, struct party *to, uint8_t round, uint32_t bytes)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	bool seen = false;

	while (!seen) {
		uint8_t got_round = 0;
		uint32_t got;

		assert_true(nam_now_ns() < until);
		send_bytes(from, handle, to->name.number, round, bytes);
		poll(from);
		if (!is_notified(to))
			continue;
		to->notified = false;
		while ((got = receive(to, &got_round))) {
			assert_true(got_round != round || got == bytes);
			seen |= got_round == round;
		}
	}
}

/* Take all that has come.  Returns how many of them are strays. */
static unsigned
drain(struct party *party)
{
	unsigned count = 0;
	uint8_t round;

	while (is_notified(party)) {
		party->notified = false;
		while (receive(party, &round))
			count += round == STRAY;
	}
	return count;
}

/* The connection beside the endpoint of the fixture's client works. */
static void
assert_connected(struct party *party)
{
	struct fixture *f = party->f;
	struct nam_wr wr = wr_of(f, NAM_WR_READ, 0, 0, 64);
	uint64_t until = nam_now_ns() + TIMEOUT_NS;

	wr.flags = NAM_WR_SIGNALED;
	wr.context = party;
	assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
	for (party->answered = false; !party->answered; poll(party)) {
		assert_true(nam_now_ns() < until);
		let_work(f);
		(void)f->ops->cq_wait(party->cq, 1000000);
	}
}

/* ---- names ---------------------------------------------------------------------------------- */

static void
endpoint_open__each_provider__HAS_ENDPOINTS_OR_SAYS_SO(void **state)
{
	struct fixture *f = *state;
	struct nam_endpoint_name name, untouched;
	struct nam_endpoint *endpoint = NULL;
	int rc;

	memset(&name, UNTOUCHED, sizeof(name));
	untouched = name;
	rc = f->ops->endpoint_open(f->client.domain, f->client.cq, f, &name, &endpoint);
	if (rc) {
		assert_int_equal(rc, -NAM_E_FABRIC_CAPABILITY);
		assert_null(endpoint);
		assert_memory_equal(&name, &untouched, sizeof(name));
		return;
	}
	assert_ptr_equal(endpoint->ops, f->ops);
	f->ops->endpoint_close(endpoint);
	f->ops->endpoint_close(NULL);
}

static void
endpoint_open__two_of_a_domain__ONE_PLACE_AND_TWO_NUMBERS(void **state)
{
	struct fixture *f = *state;
	struct pair pair;
	struct party more;
	uint32_t handle;

	if (!pair_open(f, &pair))
		skip();
	assert_int_equal(party_open(f, &f->client, &more), 0);
	assert_memory_equal(more.name.place, pair.a.name.place, NAM_PLACE_BYTES);
	assert_true(more.name.number != pair.a.name.number);
	assert_true(memcmp(&pair.a.name, &pair.b.name, sizeof(pair.a.name)) != 0);
	/* One handle leads to both. */
	handle = handle_of(&pair.b, &more);
	assert_int_equal(handle, pair.to_a);
	pair.a.also = &more;
	exchange(&pair.b, handle, &pair.a, 1, 24);
	more.also = &pair.a;
	exchange(&pair.b, handle, &more, 2, 24);
	party_close(&more);
	pair_close(f, &pair);
}

static void
endpoint_place__again__SAME_HANDLE(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(handle_of(&pair.a, &pair.b), pair.to_b);
		assert_int_equal(handle_of(&pair.b, &pair.a), pair.to_a);
	}
	exchange(&pair.a, handle_of(&pair.a, &pair.a), &pair.a, 1, 8);
	assert_int_equal(handle_of(&pair.a, &pair.b), pair.to_b);
	pair_close(f, &pair);
}

/* Bytes that no endpoint has published: refused, or datagrams there are lost. */
static void
endpoint_place__of_no_endpoint__COSTS_NOTHING_ELSE(void **state)
{
	static const uint8_t bytes[] = { 0, 0xff, 0xa5 };
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		uint8_t place[NAM_PLACE_BYTES];
		uint32_t handle;

		memset(place, bytes[i], sizeof(place));
		for (unsigned tries = 0; tries < 2; tries++)
			if (!f->ops->endpoint_place(pair.a.endpoint, place, &handle))
				send_bytes(&pair.a, handle, 0xfffffff0u, 1, 24);
		exchange(&pair.a, pair.to_b, &pair.b, (uint8_t)(2 + i), 24);
	}
	pair_close(f, &pair);
}

/* ---- what arrives ---------------------------------------------------------------------------- */

static void
send__any_size__ARRIVES_SOMETIME(void **state)
{
	static const uint32_t sizes[] = { 1, 7, 8, 24, 63, 64, 65, 250, 256, 257, MOST - 1, MOST };
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		exchange(&pair.a, pair.to_b, &pair.b, (uint8_t)(i + 1), sizes[i]);
		exchange(&pair.b, pair.to_a, &pair.a, (uint8_t)(i + 1), sizes[i]);
	}
	pair_close(f, &pair);
}

static void
send__to_itself__ARRIVES_SOMETIME(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (uint8_t round = 1; round < 100; round++)
		exchange(&pair.a, handle_of(&pair.a, &pair.a), &pair.a, round, round);
	pair_close(f, &pair);
}

/* A memory server needs no endpoint; but on two hosts it has another device. */
static void
send__between_hosts__ARRIVES_SOMETIME(void **state)
{
	struct fixture *f = *state;
	struct pair pair;
	struct party server;
	int rc;

	if (!pair_open(f, &pair))
		skip();
	rc = party_open(f, &f->server, &server);
	assert_true(!rc || rc == -NAM_E_FABRIC_CAPABILITY);
	for (uint8_t round = 1; !rc && round < 20; round++) {
		exchange(&pair.a, handle_of(&pair.a, &server), &server, round, MOST);
		exchange(&server, handle_of(&server, &pair.a), &pair.a, round, MOST);
	}
	if (!rc)
		party_close(&server);
	pair_close(f, &pair);
}

static void
send__no_bytes_or_too_many__IS_NOT_SENT_AND_THE_NEXT_ARRIVES(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (unsigned i = 0; i < 100; i++) {
		send_bytes(&pair.a, pair.to_b, pair.b.name.number, STRAY, MOST + 1);
		send_bytes(&pair.a, pair.to_b, pair.b.name.number, STRAY, MOST + 64);
		send_bytes(&pair.a, pair.to_b, pair.b.name.number, 1, 0);
		poll(&pair.a);
	}
	assert_int_equal(drain(&pair.b), 0);
	exchange(&pair.a, pair.to_b, &pair.b, 2, MOST);
	pair_close(f, &pair);
}

static void
send__sender_does_not_poll__IS_LOST_WITHOUT_ROOM_THAT_COMES_BACK(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (uint8_t round = 1; round < 3; round++) {
		for (unsigned i = 0; i < FLOOD; i++)
			send_bytes(&pair.a, pair.to_b, pair.b.name.number, STRAY, 24);
		assert_true(drain(&pair.b) > 0);
		exchange(&pair.a, pair.to_b, &pair.b, round, 24);
	}
	pair_close(f, &pair);
}

static void
send__receiver_does_not_take_them__ARE_DROPPED_AND_THE_NEXT_ARRIVES(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (uint8_t round = 1; round < 3; round++) {
		for (unsigned i = 0; i < FLOOD; i++) {
			send_bytes(&pair.a, pair.to_b, pair.b.name.number, STRAY, MOST);
			poll(&pair.a);
			if (i % 64 == 0)
				nam_yield();
		}
		assert_true(drain(&pair.b) > 0);
		exchange(&pair.a, pair.to_b, &pair.b, round, MOST);
		exchange(&pair.b, pair.to_a, &pair.a, round, MOST);
	}
	pair_close(f, &pair);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void
send__to_a_closed_endpoint__IS_LOST_AND_OTHERS_ARRIVE(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (uint8_t round = 1; round < 10; round++) {
		struct party gone;

		assert_int_equal(party_open(f, &pair.other, &gone), 0);
		gone.also = &pair.b;
		exchange(&pair.a, pair.to_b, &gone, round, 24);
		party_close(&gone);
		for (unsigned i = 0; i < 100; i++) {
			send_bytes(&pair.a, pair.to_b, gone.name.number, STRAY, 24);
			poll(&pair.a);
		}
		exchange(&pair.a, pair.to_b, &pair.b, round, 24);
	}
	assert_int_equal(drain(&pair.b), 0);
	pair_close(f, &pair);
}

static void
endpoint_close__sends_and_datagrams_left__LEAVES_THE_CQ_TO_OTHERS(void **state)
{
	struct fixture *f = *state;
	struct pair pair;

	if (!pair_open(f, &pair))
		skip();
	for (uint8_t round = 1; round < 20; round++) {
		struct party more;
		uint32_t to_b;

		assert_int_equal(party_open(f, &f->client, &more), 0);
		more.also = &pair.a;
		to_b = handle_of(&more, &pair.b);
		for (unsigned i = 0; i < 40; i++) {
			send_bytes(&more, to_b, pair.b.name.number, STRAY, 24);
			send_bytes(&pair.b, pair.to_a, more.name.number, STRAY, 24);
			poll(&pair.b);
		}
		party_close(&more);
		exchange(&pair.b, pair.to_a, &pair.a, round, 24);
		(void)drain(&pair.b);
		assert_connected(&pair.a);
	}
	pair_close(f, &pair);
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct waker {
	struct pair *pair;
	atomic_bool stop;
};

static void
waker_main(void *arg)
{
	struct waker *waker = arg;
	struct party *a = &waker->pair->a;

	while (!atomic_load(&waker->stop)) {
		struct nam_wc wc;

		nam_sleep_ns(20000000);		/* the other thread sleeps by now, most often */
		send_bytes(a, waker->pair->to_b, waker->pair->b.name.number, 1, 24);
		(void)a->f->ops->cq_poll(a->cq, &wc, 1);
	}
}

/* Each wait would last for all of the test's time-out. */
static void
cq_wait__a_datagram_comes__ENDS(void **state)
{
	struct fixture *f = *state;
	uint64_t until;
	struct nam_thread *thread;
	struct pair pair;
	struct waker waker = { .pair = &pair };

	if (!pair_open(f, &pair))
		skip();
	assert_int_equal(nam_thread_start("waker", waker_main, &waker, &thread), 0);
	for (unsigned i = 0; i < SLEEPS; i++) {
		uint8_t round;

		until = nam_now_ns() + TIMEOUT_NS;
		while (!pair.b.notified) {
			assert_int_equal(f->ops->cq_wait(pair.b.cq, TIMEOUT_NS), 0);
			assert_true(nam_now_ns() < until);
			poll(&pair.b);
		}
		pair.b.notified = false;
		while (receive(&pair.b, &round))
			continue;
	}
	atomic_store(&waker.stop, true);
	nam_thread_join(thread);
	pair_close(f, &pair);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(endpoint_open__each_provider__HAS_ENDPOINTS_OR_SAYS_SO),
		TEST(endpoint_open__two_of_a_domain__ONE_PLACE_AND_TWO_NUMBERS),
		TEST(endpoint_place__again__SAME_HANDLE),
		TEST(endpoint_place__of_no_endpoint__COSTS_NOTHING_ELSE),
		TEST(send__any_size__ARRIVES_SOMETIME),
		TEST(send__to_itself__ARRIVES_SOMETIME),
		TEST(send__between_hosts__ARRIVES_SOMETIME),
		TEST(send__no_bytes_or_too_many__IS_NOT_SENT_AND_THE_NEXT_ARRIVES),
		TEST(send__sender_does_not_poll__IS_LOST_WITHOUT_ROOM_THAT_COMES_BACK),
		TEST(send__receiver_does_not_take_them__ARE_DROPPED_AND_THE_NEXT_ARRIVES),
		TEST(send__to_a_closed_endpoint__IS_LOST_AND_OTHERS_ARRIVE),
		TEST(endpoint_close__sends_and_datagrams_left__LEAVES_THE_CQ_TO_OTHERS),
		TEST(cq_wait__a_datagram_comes__ENDS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
