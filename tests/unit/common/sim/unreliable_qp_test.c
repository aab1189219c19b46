/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp_test.c -- what the simulator's unreliable queue pairs may do to what goes over
 * them, and what they must not.  fabric/unreliable_qp_test.c has it of other providers.
 */
#include "sim_fixture.h"

#define SEEDS 20u
#define FRAMES 8u
#define FRAME_BYTES 512u
#define ROUNDS 12u
#define SENDS 40u
#define UNTOUCHED 0x5e
#define SETTLE_NS 1000000u

/* Both ends.  The server's is driven from here, too. */
struct unreliable_qps {
	struct end *end;
	struct nam_cq *server_cq;
	struct nam_qp *client, *server;
	uint64_t client_name, server_name;
	struct nam_mr share, sent;
	uint8_t outbox[2048];
};

static int
unreliable_qp_new(struct nam_domain *domain, struct nam_cq *cq, struct nam_rq *rq,
	const struct nam_mr *share, uint64_t *ret_name, struct nam_qp **ret)
{
	const struct nam_qp_options options = { .cq = cq, .rq = rq, .share = share, .user = ret };

	return ops()->unreliable_qp_create(domain, &options, ret_name, ret);
}

static struct unreliable_qps *
unreliable_qps_open(struct world *world)
{
	struct nam_domain *server = world->server_domain;
	struct unreliable_qps *unreliable_qps = calloc(1, sizeof(*unreliable_qps));
	struct end *end = &world->ends[0];
	struct nam_diag diag;

	assert_non_null(unreliable_qps);
	end_open(world, end);
	assert_int_equal(end_connect(end, NULL), 0);
	unreliable_qps->end = end;
	assert_int_equal(ops()->cq_create(server, 64, &unreliable_qps->server_cq), 0);
	assert_int_equal(ops()->share_alloc(server, FRAMES * FRAME_BYTES, &unreliable_qps->share,
		&diag),
		0);
	assert_int_equal(ops()->mr_register(server, unreliable_qps->outbox,
		sizeof(unreliable_qps->outbox),
				 NAM_MR_LOCAL, &unreliable_qps->sent, &diag), 0);
	assert_int_equal(unreliable_qp_new(end->domain, end->cq, end->rq, NULL,
		&unreliable_qps->client_name,
				 &unreliable_qps->client), 0);
	assert_int_equal(unreliable_qp_new(server, unreliable_qps->server_cq, NULL,
		&unreliable_qps->share,
				 &unreliable_qps->server_name, &unreliable_qps->server), 0);
	assert_ptr_equal(unreliable_qps->client->user, &unreliable_qps->client);
	return unreliable_qps;
}

/* As the two sides do, each by itself. */
static void
unreliable_qps_join(struct unreliable_qps *unreliable_qps)
{
	struct world *world = unreliable_qps->end->world;

	assert_int_equal(ops()->unreliable_qp_join(unreliable_qps->server, world->server_qp,
		unreliable_qps->client_name), 0);
	assert_int_equal(ops()->unreliable_qp_join(unreliable_qps->client, unreliable_qps->end->qp,
		unreliable_qps->server_name), 0);
}

static void
unreliable_qps_close(struct unreliable_qps *unreliable_qps)
{
	struct nam_domain *server = unreliable_qps->end->world->server_domain;

	ops()->qp_destroy(unreliable_qps->client);
	ops()->qp_destroy(unreliable_qps->server);
	ops()->cq_destroy(unreliable_qps->server_cq);
	ops()->mr_release(server, &unreliable_qps->share);
	ops()->mr_release(server, &unreliable_qps->sent);
	end_close(unreliable_qps->end);
	free(unreliable_qps);
}

static struct nam_wc
next_of(struct nam_cq *cq)
{
	struct nam_wc wc;

	while (ops()->cq_poll(cq, &wc, 1) != 1)
		(void)ops()->cq_wait(cq, 1000000);
	return wc;
}

static int
write_frame(struct unreliable_qps *unreliable_qps, uint32_t frame, uint32_t bytes)
{
	struct nam_wr wr = request(unreliable_qps->end, NAM_WR_WRITE, 0, frame * FRAME_BYTES,
		bytes);

	wr.remote = unreliable_qps->share.remote + frame * FRAME_BYTES;
	wr.rkey = unreliable_qps->share.rkey;
	assert_int_equal(ops()->qp_post(unreliable_qps->client, &wr, 1), 0);
	return next_of(unreliable_qps->end->cq).status;
}

static int
send(struct unreliable_qps *unreliable_qps, uint32_t bytes)
{
	const struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.lkey = unreliable_qps->sent.lkey,
		.local = unreliable_qps->outbox,
	};

	assert_int_equal(ops()->qp_post(unreliable_qps->server, &wr, 1), 0);
	return next_of(unreliable_qps->server_cq).status;
}

static void
fill(uint8_t *to, uint64_t round, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes / 8; i++)
		memcpy(to + (size_t)8 * i, &(uint64_t){ round << 32 | i }, 8);
}

/* Run @body over a wire that loses and doubles; what became of messages. */
static struct nam_sim_counts
run_lossy(void (*body)(struct world *world), uint32_t lose, uint32_t twice)
{
	struct nam_sim_counts sum = { 0 };
	struct world *world = malloc(sizeof(*world));

	assert_non_null(world);
	for (unsigned profile = NAM_SIM_VERBS; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			world_init(world, (enum nam_sim_profile)profile, body);
			world->options.faults.lose = lose;
			world->options.faults.twice = twice;
			world->options.faults.late_ns = 20000;
			world->arg = &sum;
			world_run(world, seed);
			assert_int_equal(world->rc, 0);
		}
	}
	free(world);
	return sum;
}

/* ---- names --------------------------------------------------------------------------------- */

static void
strict_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_qp *unreliable_qp = NULL;
	uint64_t name = 7;

	end_open(world, end);
	assert_int_equal(end_connect(end, NULL), 0);
	assert_int_equal(end->domain->limits.datagram_bytes, 0);
	assert_int_equal(unreliable_qp_new(end->domain, end->cq, end->rq, NULL, &name,
		&unreliable_qp),
		-NAM_E_FABRIC_CAPABILITY);
	assert_null(unreliable_qp);
	assert_int_equal(name, 7);
	end_close(end);
}

static void
unreliable_qp_create__profile_without_unreliable_qps__CAPABILITY(void **state)
{
	(void)state;
	assert_int_equal(hits(NAM_SIM_STRICT, strict_body, 1), 0);
}

static void
names_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	uint64_t names[FRAMES];
	struct nam_qp *more[FRAMES];

	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(unreliable_qp_new(unreliable_qps->end->domain,
			unreliable_qps->end->cq, unreliable_qps->end->rq,
					 NULL, &names[i], &more[i]), 0);
		assert_true(names[i] != unreliable_qps->client_name &&
			names[i] != unreliable_qps->server_name);
		for (unsigned j = 0; j < i; j++)
			assert_true(names[i] != names[j]);
	}
	for (unsigned i = 0; i < FRAMES; i++)
		ops()->qp_destroy(more[i]);
	unreliable_qps_close(unreliable_qps);
}

static void
unreliable_qp_create__several__NAMES_DIFFER(void **state)
{
	(void)state;
	(void)run_lossy(names_body, 0, 0);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Each word is of a round that was written, in its place. */
static unsigned
words_of_round(const struct unreliable_qps *unreliable_qps, uint64_t round)
{
	unsigned count = 0;

	for (uint32_t at = 0; at < FRAMES * FRAME_BYTES; at += 8) {
		uint64_t seen = word(unreliable_qps->share.base, at);

		if (seen) {
			assert_true(seen >> 32 <= round);
			assert_int_equal((uint32_t)seen, at % FRAME_BYTES / 8);
		}
		count += seen && seen >> 32 == round;
	}
	return count;
}

static void
write_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	struct nam_sim_counts *sum = world->arg;
	unsigned arrived = 0;

	unreliable_qps_join(unreliable_qps);
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		for (uint32_t frame = 0; frame < FRAMES; frame++) {
			fill(unreliable_qps->end->local + (size_t)frame * FRAME_BYTES, round,
				FRAME_BYTES);
			assert_int_equal(write_frame(unreliable_qps, frame, FRAME_BYTES), 0);
			/* From now on it is ours: nothing of this may arrive. */
			memset(unreliable_qps->end->local + (size_t)frame * FRAME_BYTES, 0xff,
				FRAME_BYTES);
		}
		nam_sleep_ns(SETTLE_NS);
		arrived += words_of_round(unreliable_qps, round);
	}
	sum->steps += arrived;
	sum->lost += nam_sim_counted().lost;
	sum->twice += nam_sim_counted().twice;
	unreliable_qps_close(unreliable_qps);
}

static void
write__lossy_unreliable_qp__WORDS_ARRIVE_OR_DO_NOT(void **state)
{
	const unsigned all = (NAM_SIM_PROFILES_COUNT - NAM_SIM_VERBS) * SEEDS * ROUNDS * FRAMES *
		FRAME_BYTES / 8;
	struct nam_sim_counts sum;

	(void)state;
	sum = run_lossy(write_body, 0, 0);
	assert_int_equal(sum.lost + sum.twice, 0);
	assert_int_equal(sum.steps, all);
	sum = run_lossy(write_body, 400000, 300000);
	assert_true(sum.lost > 0);
	assert_true(sum.twice > 0);
	assert_in_range(sum.steps, all / 4, all - 1);
}

static void
receive_post(struct unreliable_qps *unreliable_qps, uint8_t *buffer)
{
	const struct nam_recv recv = {
		.buffer = buffer,
		.bytes = NAM_DATAGRAM_HEADROOM + 256,
		.lkey = unreliable_qps->end->mr.lkey,
		.context = buffer,
	};

	memset(buffer, UNTOUCHED, FRAME_BYTES);
	assert_int_equal(ops()->rq_post(unreliable_qps->end->rq, &recv, 1), 0);
}

/* Each at most twice, whole, behind the headroom. */
static void
receive_all(struct unreliable_qps *unreliable_qps, uint8_t seen[SENDS + 1])
{
	struct nam_wc wc;

	while (ops()->cq_poll(unreliable_qps->end->cq, &wc, 1) == 1) {
		uint8_t *buffer = wc.context;
		uint64_t first = word(buffer, NAM_DATAGRAM_HEADROOM);

		assert_int_equal(wc.op, NAM_WC_RECV);
		assert_int_equal(wc.status, 0);
		assert_ptr_equal(wc.qp, unreliable_qps->client);
		assert_in_range(first >> 32, 1, SENDS);
		assert_int_equal(wc.bytes, 8 * (1 + (first >> 32) % 32));
		for (uint32_t i = 0; i < wc.bytes / 8; i++)
			assert_int_equal(word(buffer, NAM_DATAGRAM_HEADROOM + 8 * i),
				(first >> 32) << 32 | i);
		assert_int_equal(buffer[NAM_DATAGRAM_HEADROOM + wc.bytes], UNTOUCHED);
		assert_true(++seen[first >> 32] <= 2);
		receive_post(unreliable_qps, buffer);
	}
}

static void
send_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	struct nam_sim_counts *sum = world->arg;
	uint8_t seen[SENDS + 1] = { 0 };

	for (unsigned i = 0; i < 4; i++)
		receive_post(unreliable_qps, unreliable_qps->end->local + (size_t)i * FRAME_BYTES);
	unreliable_qps_join(unreliable_qps);
	for (uint64_t i = 1; i <= SENDS; i++) {
		fill(unreliable_qps->outbox, i, 256);
		assert_int_equal(send(unreliable_qps, 8 * (1 + (uint32_t)i % 32)), 0);
		memset(unreliable_qps->outbox, 0xff, 256);
		receive_all(unreliable_qps, seen);
	}
	nam_sleep_ns(SETTLE_NS);
	receive_all(unreliable_qps, seen);
	for (unsigned i = 1; i <= SENDS; i++)
		sum->steps += seen[i] > 0;
	sum->lost += nam_sim_counted().lost;
	sum->twice += nam_sim_counted().twice;
	unreliable_qps_close(unreliable_qps);
}

static void
send__lossy_unreliable_qp__ARRIVES_WHOLE_ONCE_TWICE_OR_NEVER(void **state)
{
	const unsigned all = (NAM_SIM_PROFILES_COUNT - NAM_SIM_VERBS) * SEEDS * SENDS;
	struct nam_sim_counts sum;

	(void)state;
	sum = run_lossy(send_body, 0, 0);
	assert_int_equal(sum.lost + sum.twice, 0);
	assert_true(sum.steps > all / 2);
	sum = run_lossy(send_body, 400000, 300000);
	assert_true(sum.lost > 0);
	assert_true(sum.twice > 0);
	assert_in_range(sum.steps, all / 4, all - 1);
}

static void
no_buffer_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	uint8_t seen[SENDS + 1] = { 0 };

	unreliable_qps_join(unreliable_qps);
	fill(unreliable_qps->outbox, 1, 256);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(send(unreliable_qps, 16), 0);
	nam_sleep_ns(SETTLE_NS);
	receive_post(unreliable_qps, unreliable_qps->end->local);
	nam_sleep_ns(SETTLE_NS);
	receive_all(unreliable_qps, seen);
	assert_int_equal(seen[1], 0);
	fill(unreliable_qps->outbox, 2, 256);
	assert_int_equal(send(unreliable_qps, 24), 0);
	nam_sleep_ns(SETTLE_NS);
	receive_all(unreliable_qps, seen);
	assert_int_equal(seen[1], 0);
	assert_int_equal(seen[2], 1);
	unreliable_qps_close(unreliable_qps);
}

static void
send__nobody_has_a_buffer__IS_LOST_AND_THE_NEXT_ARRIVES(void **state)
{
	(void)state;
	(void)run_lossy(no_buffer_body, 0, 0);
}

static void
too_long_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	uint32_t bytes = unreliable_qps->end->domain->limits.datagram_bytes + 8;

	unreliable_qps_join(unreliable_qps);
	assert_int_equal(write_frame(unreliable_qps, 0, bytes), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(send(unreliable_qps, bytes), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(words_of_round(unreliable_qps, 1), 0);
	unreliable_qps_close(unreliable_qps);
}

static void
post__longer_than_a_datagram__COMPLETES_WITH_PROTOCOL(void **state)
{
	(void)state;
	(void)run_lossy(too_long_body, 0, 0);
}

/* ---- beginnings and ends -------------------------------------------------------------------- */

/* The connection beside the unreliable queue pair has not been told of anything. */
static void
assert_connected(struct unreliable_qps *unreliable_qps)
{
	const struct nam_wr wr = request(unreliable_qps->end, NAM_WR_READ, 0, 0, 8);

	carry_out(unreliable_qps->end, &wr, 1);
	assert_int_equal(unreliable_qps->end->world->closed, 0);
}

static void
before_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);

	fill(unreliable_qps->end->local, 1, FRAME_BYTES);
	assert_int_equal(write_frame(unreliable_qps, 0, FRAME_BYTES), 0);
	unreliable_qps_join(unreliable_qps);
	nam_sleep_ns(SETTLE_NS);
	assert_int_equal(words_of_round(unreliable_qps, 1), 0);
	assert_connected(unreliable_qps);
	unreliable_qps_close(unreliable_qps);
}

static void
post__before_it_is_joined__IS_LOST(void **state)
{
	(void)state;
	(void)run_lossy(before_body, 0, 0);
}

static void
gone_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	struct nam_wc wc;

	unreliable_qps_join(unreliable_qps);
	ops()->qp_destroy(unreliable_qps->server);
	unreliable_qps->server = NULL;
	fill(unreliable_qps->end->local, 1, FRAME_BYTES);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(write_frame(unreliable_qps, i, FRAME_BYTES), 0);
	nam_sleep_ns(SETTLE_NS);
	assert_int_equal(ops()->cq_poll(unreliable_qps->end->cq, &wc, 1), 0);
	assert_int_equal(words_of_round(unreliable_qps, 1), 0);
	assert_connected(unreliable_qps);
	unreliable_qps_close(unreliable_qps);
}

static void
post__the_other_end_is_gone__COMPLETES_AND_NOBODY_IS_TOLD(void **state)
{
	(void)state;
	(void)run_lossy(gone_body, 0, 0);
}

static void
destroy_body(struct world *world)
{
	struct unreliable_qps *unreliable_qps = unreliable_qps_open(world);
	struct nam_wr wr;
	struct nam_wc wc;

	unreliable_qps_join(unreliable_qps);
	fill(unreliable_qps->end->local, 1, FRAME_BYTES);
	for (unsigned i = 0; i < 8; i++) {
		wr = request(unreliable_qps->end, NAM_WR_WRITE, 0, 0, FRAME_BYTES);
		wr.remote = unreliable_qps->share.remote + i * FRAME_BYTES;
		wr.rkey = unreliable_qps->share.rkey;
		assert_int_equal(ops()->qp_post(unreliable_qps->client, &wr, 1), 0);
	}
	nam_sleep_ns(nam_sim_random() % 4000);
	ops()->qp_destroy(unreliable_qps->client);
	unreliable_qps->client = NULL;
	memset(unreliable_qps->end->local, 0xff, FRAME_BYTES);
	nam_sleep_ns(SETTLE_NS);
	assert_int_equal(ops()->cq_poll(unreliable_qps->end->cq, &wc, 1), 0);
	/* Sent bytes are whole words of the contents at that time. */
	(void)words_of_round(unreliable_qps, 1);
	assert_connected(unreliable_qps);
	unreliable_qps_close(unreliable_qps);
}

static void
qp_destroy__requests_under_way__NEVER_COMPLETE(void **state)
{
	(void)state;
	(void)run_lossy(destroy_body, 0, 0);
	(void)run_lossy(destroy_body, 300000, 300000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unreliable_qp_create__profile_without_unreliable_qps__CAPABILITY),
		cmocka_unit_test(unreliable_qp_create__several__NAMES_DIFFER),
		cmocka_unit_test(write__lossy_unreliable_qp__WORDS_ARRIVE_OR_DO_NOT),
		cmocka_unit_test(send__lossy_unreliable_qp__ARRIVES_WHOLE_ONCE_TWICE_OR_NEVER),
		cmocka_unit_test(send__nobody_has_a_buffer__IS_LOST_AND_THE_NEXT_ARRIVES),
		cmocka_unit_test(post__longer_than_a_datagram__COMPLETES_WITH_PROTOCOL),
		cmocka_unit_test(post__before_it_is_joined__IS_LOST),
		cmocka_unit_test(post__the_other_end_is_gone__COMPLETES_AND_NOBODY_IS_TOLD),
		cmocka_unit_test(qp_destroy__requests_under_way__NEVER_COMPLETE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
