/* SPDX-License-Identifier: Apache-2.0 */
/* cost_mail_test.c -- what a request costs by each RPC transport, exactly, in every profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "cost.h"

#define RPC_HEADER_BYTES 24u
#define FETCH_BYTES 128u
#define WARM_CALLS 20u

static const struct nam_op_counters *
counted(const struct nam_worker *worker)
{
	return nam_worker_counters(worker, NAM_OP_OTHER);
}

static void
ping(struct cost_stage *stage, struct nam_worker *worker, uint32_t bytes)
{
	uint8_t out[NAM_RPC_BODY_MAX], in[NAM_RPC_BODY_MAX];
	uint32_t got = sizeof(in);

	memset(out, 7, bytes);
	cost_expect(stage, "a ping", nam_rpc_call(worker, 0, NAM_RPC_PING, out, bytes, in, &got),
		0);
}

/* One call after the other, so the memory server is awake; its reply is there at the first look. */
static void
cost_of(struct cost_stage *stage, enum nam_transport transport, uint32_t bytes,
	const struct cost *expected)
{
	struct nam_op_counters before, after;
	struct nam_client *client;
	struct nam_worker *worker;

	stage->cluster.transport = transport;
	stage->cluster.fetch_bytes = FETCH_BYTES;
	worker = sim_come(&stage->cluster, "mail", &client);
	if (!worker) {
		cost_fail(stage, "no worker");
		return;
	}
	client->options.fetch_always = 1;
	for (unsigned i = 0; i < WARM_CALLS; i++)
		ping(stage, worker, bytes);
	/* Of many calls, for a message may be late: most cost what is said. */
	for (unsigned i = 0; i < 50; i++) {
		before = *counted(worker);
		ping(stage, worker, bytes);
		after = *counted(worker);
		if (after.round_trips - before.round_trips == expected->round_trips &&
			after.work_requests - before.work_requests == expected->requests)
			break;
	}
	if (after.round_trips - before.round_trips != expected->round_trips ||
		after.doorbells - before.doorbells != expected->requests ||
		after.work_requests - before.work_requests != expected->requests ||
		after.bytes_in - before.bytes_in != expected->bytes_in ||
		after.bytes_out - before.bytes_out != expected->bytes_out)
		cost_fail(stage, "%s, %u bytes: %llu round trips, %llu requests, %llu bytes in, "
			"%llu out", nam_transport_name(transport), bytes,
			(unsigned long long)(after.round_trips - before.round_trips),
			(unsigned long long)(after.work_requests - before.work_requests),
			(unsigned long long)(after.bytes_in - before.bytes_in),
			(unsigned long long)(after.bytes_out - before.bytes_out));
	sim_leave(&client, &worker);
}

static void
batch(struct cost_stage *stage, struct nam_worker *worker, unsigned count)
{
	struct nam_call calls[NAM_CALLS_MAX];

	for (unsigned i = 0; i < count; i++)
		calls[i] = (struct nam_call){ .slot = i % 2, .type = NAM_RPC_PING };
	cost_expect(stage, "several", nam_rpc_call_many(worker, calls, count), 0);
}

/* Of many tries the best: a message may be late, or a memory server asleep. */
static void
cost_of_batch(struct cost_stage *stage, enum nam_transport transport, const struct cost *expected)
{
	struct nam_op_counters before, least = { .work_requests = UINT64_MAX };
	struct nam_client *client;
	struct nam_worker *worker;

	stage->cluster.transport = transport;
	worker = sim_come(&stage->cluster, "batch", &client);
	if (!worker) {
		cost_fail(stage, "no worker");
		return;
	}
	client->options.fetch_always = 1;
	for (unsigned i = 0; i < 50; i++) {
		before = *counted(worker);
		batch(stage, worker, 8);
		if (counted(worker)->work_requests - before.work_requests >= least.work_requests)
			continue;
		least.work_requests = counted(worker)->work_requests - before.work_requests;
		least.doorbells = counted(worker)->doorbells - before.doorbells;
		least.round_trips = counted(worker)->round_trips - before.round_trips;
	}
	if (least.work_requests != expected->requests || least.doorbells != expected->doorbells ||
		least.round_trips != expected->round_trips)
		cost_fail(stage, "8 by %s: %llu requests, %llu doorbells, %llu round trips",
			nam_transport_name(transport), (unsigned long long)least.work_requests,
			(unsigned long long)least.doorbells,
			(unsigned long long)least.round_trips);
	/* These are one-way: nothing comes back. */
	(void)!nam_rpc_flush(worker, 0);
	before = *counted(worker);
	for (unsigned i = 0; i < 8; i++)
		cost_expect(stage, "told", nam_rpc_send_one_way(worker, 0, NAM_RPC_PING, NULL, 0),
		0);
	if (counted(worker)->doorbells - before.doorbells != 8 ||
		counted(worker)->round_trips != before.round_trips ||
		counted(worker)->bytes_out - before.bytes_out != 8 * RPC_HEADER_BYTES)
		cost_fail(stage, "8 one-way requests are not a SEND each");
	before = *counted(worker);
	cost_expect(stage, "flushed", nam_rpc_flush(worker, 0), 0);
	cost_expect(stage, "flushed", nam_rpc_flush(worker, 0), 0);
	if (counted(worker)->round_trips - before.round_trips != 1 ||
		counted(worker)->bytes_in - before.bytes_in != RPC_HEADER_BYTES)
		cost_fail(stage, "a flush is not a round trip");
	sim_leave(&client, &worker);
}

static void
act_batches(struct cost_stage *stage)
{
	const struct cost once = { .round_trips = 1, .doorbells = 2, .requests = 8 };
	/* And a READ for each. */
	const struct cost fetch = { .round_trips = 9, .doorbells = 10, .requests = 16 };

	cost_of_batch(stage, NAM_TRANSPORT_SRQ, &once);
	cost_of_batch(stage, NAM_TRANSPORT_MAILBOX, &once);
	cost_of_batch(stage, NAM_TRANSPORT_FETCH, &fetch);
	if (nam_sim_profile_caps(stage->profile) & NAM_CAP_UD)
		cost_of_batch(stage, NAM_TRANSPORT_DATAGRAM, &once);
}

static void
nam_rpc_call_many__to_two_servers__A_DOORBELL_EACH(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_batches);
	stage.servers = 2;
	cost_play(&stage);
}

static void
act(struct cost_stage *stage)
{
	const uint32_t small = RPC_HEADER_BYTES + 32, large = RPC_HEADER_BYTES + 1000;
	const struct cost srq = { .round_trips = 1, .requests = 1, .bytes_in = small,
		.bytes_out = small };
	const struct cost mailbox = { .round_trips = 1, .requests = 1,
		.bytes_in = nam_frame_bytes(small), .bytes_out = nam_frame_bytes(small) };
	/* The WRITE, and the READ that takes status and body. */
	const struct cost fetch = { .round_trips = 2, .requests = 2, .bytes_in = FETCH_BYTES,
		.bytes_out = nam_frame_bytes(small) };
	const struct cost datagram_large = { .round_trips = 1, .requests = 1, .bytes_in = large,
		.bytes_out = large };
	/* And the READ of the rest. */
	const struct cost fetch_large = { .round_trips = 3, .requests = 3,
		.bytes_in = nam_frame_bytes(large), .bytes_out = nam_frame_bytes(large) };

	cost_of(stage, NAM_TRANSPORT_SRQ, 32, &srq);
	cost_of(stage, NAM_TRANSPORT_MAILBOX, 32, &mailbox);
	cost_of(stage, NAM_TRANSPORT_FETCH, 32, &fetch);
	if (nam_sim_profile_caps(stage->profile) & NAM_CAP_UD) {
		cost_of(stage, NAM_TRANSPORT_DATAGRAM, 32, &mailbox);
		/* Request and reply are longer than a datagram, and go by SEND. */
		cost_of(stage, NAM_TRANSPORT_DATAGRAM, 1000, &datagram_large);
	}
	cost_of(stage, NAM_TRANSPORT_FETCH, 1000, &fetch_large);
}

static void
nam_rpc_call__by_each_transport__COST_EXACT(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act);
	cost_play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_rpc_call__by_each_transport__COST_EXACT),
		cmocka_unit_test(nam_rpc_call_many__to_two_servers__A_DOORBELL_EACH),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
