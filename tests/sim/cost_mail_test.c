/* SPDX-License-Identifier: Apache-2.0 */
/* cost_mail_test.c -- what a request costs by each carrier, exactly, in every profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../../common/rpc/frame.h"
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
cost_of(struct cost_stage *stage, enum nam_carrier carrier, uint32_t bytes,
	const struct cost *expected)
{
	struct nam_op_counters before, after;
	struct nam_client *client;
	struct nam_worker *worker;

	stage->cluster.carrier = carrier;
	stage->cluster.fetch_bytes = FETCH_BYTES;
	client = sim_client(&stage->cluster, "mail");
	worker = client ? sim_worker(client) : NULL;
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
			"%llu out", nam_carrier_name(carrier), bytes,
			(unsigned long long)(after.round_trips - before.round_trips),
			(unsigned long long)(after.work_requests - before.work_requests),
			(unsigned long long)(after.bytes_in - before.bytes_in),
			(unsigned long long)(after.bytes_out - before.bytes_out));
	nam_worker_close(worker);
	nam_client_close(client);
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
	/* And the READ of the rest. */
	const struct cost fetch_large = { .round_trips = 3, .requests = 3,
		.bytes_in = nam_frame_bytes(large), .bytes_out = nam_frame_bytes(large) };

	cost_of(stage, NAM_CARRIER_SRQ, 32, &srq);
	cost_of(stage, NAM_CARRIER_MAILBOX, 32, &mailbox);
	cost_of(stage, NAM_CARRIER_FETCH, 32, &fetch);
	cost_of(stage, NAM_CARRIER_FETCH, 1000, &fetch_large);
}

static void
nam_rpc_call__by_each_carrier__COST_EXACT(void **state)
{
	struct cost_stage stage;
	const char *why;

	(void)state;
	cost_stage_init(&stage, act);
	why = cost_play(&stage);
	if (why)
		fail_msg("%s", why);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_rpc_call__by_each_carrier__COST_EXACT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
