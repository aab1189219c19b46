/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp_test.c -- what every provider with unreliable queue pairs must do, over the one
 * that NAM_TEST_FABRIC names; and that the others say that they have none.
 *
 * Messages over an unreliable queue pair may be lost, so each is sent again until it has
 * arrived.
 */
#include "fabric_fixture.h"

#define SHARE_BYTES 65536u
#define AGAIN_NS 50000000u		/* how long to look for what may have been lost */
#define UNRELIABLE_QPS 6u
#define UNTOUCHED 0x5e

struct unreliable_qps {
	struct fixture *f;
	struct nam_qp *client, *server;
	uint64_t client_name, server_name;
	struct nam_mr share;
	uint32_t longest;
};

static bool
has_unreliable_qps(const struct fixture *f)
{
	return f->client.domain->limits.caps & NAM_CAP_UD;
}

static int
unreliable_qp_new(struct fixture *f, struct side *side, const struct nam_mr *share,
	uint64_t *ret_name,
	struct nam_qp **ret)
{
	const struct nam_qp_options options = {
		.cq = side->cq,
		.rq = share ? NULL : side->rq,
		.share = share,
		.user = ret,
	};

	return f->ops->unreliable_qp_create(side->domain, &options, ret_name, ret);
}

/* Both ends, not joined. */
static void
unreliable_qps_open(struct fixture *f, struct unreliable_qps *unreliable_qps)
{
	*unreliable_qps = (struct unreliable_qps){
		.f = f, .longest = f->client.domain->limits.datagram_bytes,
	};
	assert_int_equal(f->ops->share_alloc(f->server.domain, SHARE_BYTES, &unreliable_qps->share,
		&f->diag), 0);
	assert_int_equal(unreliable_qp_new(f, &f->client, NULL, &unreliable_qps->client_name,
		&unreliable_qps->client), 0);
	assert_int_equal(unreliable_qp_new(f, &f->server, &unreliable_qps->share,
		&unreliable_qps->server_name,
		&unreliable_qps->server), 0);
	assert_ptr_equal(unreliable_qps->client->user, &unreliable_qps->client);
}

static void
unreliable_qps_join(struct unreliable_qps *unreliable_qps)
{
	const struct nam_fabric_ops *ops = unreliable_qps->f->ops;

	assert_int_equal(ops->unreliable_qp_join(unreliable_qps->server,
		fixture_accepted(unreliable_qps->f, 0),
		unreliable_qps->client_name), 0);
	assert_int_equal(ops->unreliable_qp_join(unreliable_qps->client, unreliable_qps->f->qp,
		unreliable_qps->server_name), 0);
}

static void
unreliable_qps_close(struct unreliable_qps *unreliable_qps)
{
	unreliable_qps->f->ops->qp_destroy(unreliable_qps->client);
	unreliable_qps->f->ops->qp_destroy(unreliable_qps->server);
	unreliable_qps->f->ops->mr_release(unreliable_qps->f->server.domain,
		&unreliable_qps->share);
}

/* The connection beside them has not been told of anything. */
static void
assert_connected(struct fixture *f)
{
	*local_word(f, LOCAL_BYTES - 8) = 0;
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, LOCAL_BYTES - 8, 8)), 0);
}

/* From the client's memory into the share. */
static struct nam_wr
write_of(const struct unreliable_qps *unreliable_qps, uint64_t at, uint32_t bytes)
{
	struct nam_wr wr = wr_of(unreliable_qps->f, NAM_WR_WRITE, 0, 0, bytes);

	wr.remote = unreliable_qps->share.remote + at;
	wr.rkey = unreliable_qps->share.rkey;
	return wr;
}

/* From the server's memory. */
static struct nam_wr
send_of(const struct unreliable_qps *unreliable_qps, uint32_t bytes)
{
	return (struct nam_wr){
		.op = NAM_WR_SEND,
		.bytes = bytes,
		.lkey = unreliable_qps->f->server.local_mr.lkey,
		.local = unreliable_qps->f->server.local,
	};
}

/* One request over an end of the unreliable queue pair, and its status. */
static int
unreliable_qp_run(struct fixture *f, struct side *side, struct nam_qp *unreliable_qp,
	struct nam_wr wr)
{
	struct nam_wc wc;

	wr.flags |= NAM_WR_SIGNALED;
	wr.context = &wc;
	assert_int_equal(f->ops->qp_post(unreliable_qp, &wr, 1), 0);
	take(f, side->cq, &wc, 1);
	assert_ptr_equal(wc.context, &wc);
	assert_ptr_equal(wc.qp, unreliable_qp);
	assert_int_equal(wc.op, wr.op);
	return wc.status;
}

static void
receive_post(struct fixture *f, uint8_t *buffer, uint32_t bytes)
{
	const struct nam_recv recv = {
		.buffer = buffer,
		.bytes = bytes,
		.lkey = f->client.local_mr.lkey,
		.context = buffer,
	};

	assert_int_equal(f->ops->rq_post(f->client.rq, &recv, 1), 0);
}

/* ---- names --------------------------------------------------------------------------------- */

static void
unreliable_qp_create__each_provider__HAS_UNRELIABLE_QPS_OR_SAYS_SO(void **state)
{
	struct fixture *f = *state;
	uint64_t name = 7;
	struct nam_qp *unreliable_qp = f->qp;

	if (!has_unreliable_qps(f)) {
		assert_int_equal(f->client.domain->limits.datagram_bytes, 0);
		assert_int_equal(unreliable_qp_new(f, &f->client, NULL, &name, &unreliable_qp),
			-NAM_E_FABRIC_CAPABILITY);
		assert_ptr_equal(unreliable_qp, f->qp);
		assert_int_equal(name, 7);
		return;
	}
	/* A small request, with its frame. */
	assert_true(f->client.domain->limits.datagram_bytes >= 128);
	assert_int_equal(unreliable_qp_new(f, &f->client, NULL, &name, &unreliable_qp), 0);
	f->ops->qp_destroy(unreliable_qp);
}

static void
unreliable_qp_create__several__NAMES_DIFFER(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *unreliable_qps[2 * UNRELIABLE_QPS];
	uint64_t names[2 * UNRELIABLE_QPS];
	struct nam_mr share;

	if (!has_unreliable_qps(f))
		skip();
	assert_int_equal(f->ops->share_alloc(f->server.domain, 4096, &share, &f->diag), 0);
	for (unsigned i = 0; i < 2 * UNRELIABLE_QPS; i++)
		assert_int_equal(unreliable_qp_new(f, i % 2 ? &f->server : &f->client,
			i % 2 ? &share : NULL, &names[i], &unreliable_qps[i]), 0);
	for (unsigned i = 0; i < 2 * UNRELIABLE_QPS; i++)
		for (unsigned j = 0; j < i; j++)
			assert_true(names[i] != names[j]);
	for (unsigned i = 0; i < 2 * UNRELIABLE_QPS; i++)
		f->ops->qp_destroy(unreliable_qps[i]);
	f->ops->mr_release(f->server.domain, &share);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void
fill(uint8_t *to, uint64_t round, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes / 8; i++)
		((uint64_t *)(void *)to)[i] = round << 32 | i;
}

/* Words of this round; every other is an older one's, in its place. */
static uint32_t
words_new(const struct unreliable_qps *unreliable_qps, uint64_t at, uint64_t round, uint32_t bytes)
{
	const uint64_t *words = (const void *)((const uint8_t *)unreliable_qps->share.base + at);
	uint32_t count = 0;

	for (uint32_t i = 0; i < bytes / 8; i++) {
		uint64_t word = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);

		assert_true(word >> 32 <= round);
		assert_true(!(word >> 32) || (uint32_t)word == i);
		count += word >> 32 == round;
	}
	return count;
}

/* Whether all of it is there, now or after a while. */
static bool
arrives(const struct unreliable_qps *unreliable_qps, uint64_t at, uint64_t round, uint32_t bytes)
{
	uint64_t again = nam_now_ns() + AGAIN_NS;

	while (words_new(unreliable_qps, at, round, bytes) < bytes / 8 && nam_now_ns() < again)
		nam_yield();
	return words_new(unreliable_qps, at, round, bytes) == bytes / 8;
}

static void
write__any_size__ARRIVES_SOMETIME_AND_TOUCHES_NOTHING_ELSE(void **state)
{
	struct fixture *f = *state;
	uint64_t until = nam_now_ns() + TIMEOUT_NS, round = 0;
	const uint64_t at = 4096;
	struct unreliable_qps unreliable_qps;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	unreliable_qps_join(&unreliable_qps);
	memset(unreliable_qps.share.base, UNTOUCHED, at);
	memset((uint8_t *)unreliable_qps.share.base + at + unreliable_qps.longest, UNTOUCHED, at);
	for (uint32_t bytes = 8; bytes <= unreliable_qps.longest; bytes += bytes < 64 ? 8 : 96) {
		uint32_t most = bytes + 96 > unreliable_qps.longest ? unreliable_qps.longest / 8 * 8
			: bytes;

		fill(f->client.local, ++round, most);
		do {
			assert_int_equal(unreliable_qp_run(f, &f->client, unreliable_qps.client,
				write_of(&unreliable_qps, at, most)), 0);
			assert_true(nam_now_ns() < until);
		} while (!arrives(&unreliable_qps, at, round, most));
	}
	for (uint32_t i = 0; i < at; i++) {
		assert_int_equal(((uint8_t *)unreliable_qps.share.base)[i], UNTOUCHED);
		assert_int_equal(((uint8_t *)unreliable_qps.share.base)[at +
			unreliable_qps.longest + i],
			UNTOUCHED);
	}
	assert_connected(f);
	unreliable_qps_close(&unreliable_qps);
}

static void
write__inline__LEAVES_THE_BUFFER_TO_THE_CALLER(void **state)
{
	struct fixture *f = *state;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct unreliable_qps unreliable_qps;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	unreliable_qps_join(&unreliable_qps);
	do {
		struct nam_wr wr = write_of(&unreliable_qps, 0, 64);
		struct nam_wc wc;

		wr.flags = NAM_WR_INLINE | NAM_WR_SIGNALED;
		fill(f->client.local, 1, 64);
		assert_int_equal(f->ops->qp_post(unreliable_qps.client, &wr, 1), 0);
		memset(f->client.local, 0xff, 64);
		take(f, f->client.cq, &wc, 1);
		assert_int_equal(wc.status, 0);
		assert_true(nam_now_ns() < until);
	} while (!arrives(&unreliable_qps, 0, 1, 64));
	unreliable_qps_close(&unreliable_qps);
}

/* The number that has arrived; 0 if none has for a while. */
static int
receive(struct fixture *f, struct nam_wc *wc)
{
	uint64_t again = nam_now_ns() + AGAIN_NS;
	int got;

	while (!(got = f->ops->cq_poll(f->client.cq, wc, 1)) && nam_now_ns() < again)
		nam_yield();
	assert_true(got >= 0);
	return got;
}

/*
 * A message carries its number in every word; one that is late belongs to an earlier round.  The
 * buffer that it took is posted again.
 */
static void
exchange(struct unreliable_qps *unreliable_qps, uint64_t round, uint32_t bytes)
{
	struct fixture *f = unreliable_qps->f;
	uint64_t until = nam_now_ns() + TIMEOUT_NS, seen = 0;
	struct nam_wc wc;

	fill(f->server.local, round, bytes);
	while (seen != round) {
		assert_int_equal(unreliable_qp_run(f, &f->server, unreliable_qps->server,
			send_of(unreliable_qps, bytes)), 0);
		assert_true(nam_now_ns() < until);
		while (seen != round && receive(f, &wc)) {
			const uint8_t *buffer = wc.context;
			const uint64_t *words = (const void *)(buffer + NAM_DATAGRAM_HEADROOM);

			assert_int_equal(wc.op, NAM_WC_RECV);
			assert_int_equal(wc.status, 0);
			assert_ptr_equal(wc.qp, unreliable_qps->client);
			seen = words[0] >> 32;
			assert_true(seen <= round && (seen < round || wc.bytes == bytes));
			for (uint32_t i = 0; i < wc.bytes / 8; i++)
				assert_int_equal(words[i], seen << 32 | i);
			assert_int_equal(buffer[NAM_DATAGRAM_HEADROOM + unreliable_qps->longest],
				UNTOUCHED);
			receive_post(f, wc.context,
				NAM_DATAGRAM_HEADROOM + unreliable_qps->longest);
		}
	}
}

static void
send__any_size__ARRIVES_SOMETIME_BEHIND_THE_HEADROOM(void **state)
{
	struct fixture *f = *state;
	struct unreliable_qps unreliable_qps;
	uint64_t round = 0;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	memset(f->client.local, UNTOUCHED, (size_t)4 * 8192);
	for (unsigned i = 0; i < 4; i++)
		receive_post(f, f->client.local + (size_t)8192 * i,
			NAM_DATAGRAM_HEADROOM + unreliable_qps.longest);
	unreliable_qps_join(&unreliable_qps);
	for (uint32_t bytes = 8; bytes < unreliable_qps.longest; bytes += bytes < 64 ? 8 : 128)
		exchange(&unreliable_qps, ++round, bytes);
	exchange(&unreliable_qps, ++round, unreliable_qps.longest / 8 * 8);
	assert_connected(f);
	unreliable_qps_close(&unreliable_qps);
}

static void
send__nobody_has_a_buffer__IS_LOST_AND_THE_NEXT_ARRIVES(void **state)
{
	struct fixture *f = *state;
	struct unreliable_qps unreliable_qps;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	unreliable_qps_join(&unreliable_qps);
	fill(f->server.local, 1, 64);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(unreliable_qp_run(f, &f->server, unreliable_qps.server,
		send_of(&unreliable_qps, 64)), 0);
	assert_connected(f);
	memset(f->client.local, UNTOUCHED, 8192);
	receive_post(f, f->client.local, NAM_DATAGRAM_HEADROOM + unreliable_qps.longest);
	exchange(&unreliable_qps, 2, 64);
	unreliable_qps_close(&unreliable_qps);
}

static void
post__longer_than_a_datagram__COMPLETES_WITH_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct unreliable_qps unreliable_qps;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	unreliable_qps_join(&unreliable_qps);
	assert_int_equal(unreliable_qp_run(f, &f->client, unreliable_qps.client,
		write_of(&unreliable_qps, 0, unreliable_qps.longest + 8)), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(unreliable_qp_run(f, &f->server, unreliable_qps.server,
		send_of(&unreliable_qps, unreliable_qps.longest + 8)), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(words_new(&unreliable_qps, 0, 1, SHARE_BYTES), 0);
	assert_connected(f);
	unreliable_qps_close(&unreliable_qps);
}

/* ---- beginnings and ends -------------------------------------------------------------------- */

static void
post__before_it_is_joined__IS_LOST_OR_REFUSED(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr;
	struct nam_wc wc;
	struct unreliable_qps unreliable_qps;
	int rc;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	fill(f->client.local, 1, 64);
	wr = write_of(&unreliable_qps, 0, 64);
	wr.flags = NAM_WR_SIGNALED;
	rc = f->ops->qp_post(unreliable_qps.client, &wr, 1);
	assert_true(rc == 0 || rc == -NAM_E_FABRIC_FULL);
	if (!rc) {
		take(f, f->client.cq, &wc, 1);
		assert_int_equal(wc.status, 0);
	}
	unreliable_qps_join(&unreliable_qps);
	assert_connected(f);
	assert_int_equal(words_new(&unreliable_qps, 0, 1, 64), 0);
	unreliable_qps_close(&unreliable_qps);
}

static void
post__the_other_end_is_gone__COMPLETES_AND_NOBODY_IS_TOLD(void **state)
{
	struct fixture *f = *state;
	struct unreliable_qps unreliable_qps;
	struct nam_wc wc;

	if (!has_unreliable_qps(f))
		skip();
	unreliable_qps_open(f, &unreliable_qps);
	unreliable_qps_join(&unreliable_qps);
	f->ops->qp_destroy(unreliable_qps.server);
	unreliable_qps.server = NULL;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(unreliable_qp_run(f, &f->client, unreliable_qps.client,
		write_of(&unreliable_qps, 0, 64)),
			0);
	assert_int_equal(receive(f, &wc), 0);
	assert_connected(f);
	unreliable_qps_close(&unreliable_qps);
}

static void
qp_destroy__requests_under_way__NEVER_COMPLETE_AND_LEAVE_ROOM(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[8];
	struct nam_wc wc;

	if (!has_unreliable_qps(f))
		skip();
	for (unsigned round = 0; round < 2 * DEPTH / 8; round++) {
		struct unreliable_qps unreliable_qps;

		unreliable_qps_open(f, &unreliable_qps);
		unreliable_qps_join(&unreliable_qps);
		for (unsigned i = 0; i < 8; i++) {
			wrs[i] = write_of(&unreliable_qps, 64 * i, 64);
			wrs[i].flags = NAM_WR_SIGNALED;
		}
		assert_int_equal(f->ops->qp_post(unreliable_qps.client, wrs, 8), 0);
		unreliable_qps_close(&unreliable_qps);
	}
	assert_int_equal(receive(f, &wc), 0);
	/* As many as the completion queue takes. */
	for (unsigned i = 0; i < DEPTH; i++) {
		struct nam_wr wr = wr_of(f, NAM_WR_FETCH_ADD, 0, 8 * i, 8);

		wr.flags = NAM_WR_SIGNALED;
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
	}
	for (unsigned i = 0; i < DEPTH; i++) {
		take(f, f->client.cq, &wc, 1);
		assert_int_equal(wc.status, 0);
		assert_ptr_equal(wc.qp, f->qp);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unreliable_qp_create__each_provider__HAS_UNRELIABLE_QPS_OR_SAYS_SO),
		TEST(unreliable_qp_create__several__NAMES_DIFFER),
		TEST(write__any_size__ARRIVES_SOMETIME_AND_TOUCHES_NOTHING_ELSE),
		TEST(write__inline__LEAVES_THE_BUFFER_TO_THE_CALLER),
		TEST(send__any_size__ARRIVES_SOMETIME_BEHIND_THE_HEADROOM),
		TEST(send__nobody_has_a_buffer__IS_LOST_AND_THE_NEXT_ARRIVES),
		TEST(post__longer_than_a_datagram__COMPLETES_WITH_PROTOCOL),
		TEST(post__before_it_is_joined__IS_LOST_OR_REFUSED),
		TEST(post__the_other_end_is_gone__COMPLETES_AND_NOBODY_IS_TOLD),
		TEST(qp_destroy__requests_under_way__NEVER_COMPLETE_AND_LEAVE_ROOM),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
