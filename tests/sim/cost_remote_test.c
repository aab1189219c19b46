/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_remote_test.c -- what requests to remote memory, blocks and RPCs cost, exactly as remote.h
 * and client.h say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cost.h"

#define STRIDE 320u
#define BYTES 256u
#define RPC_HEADER_BYTES 24u

static void
play(void (*act)(struct cost_stage *stage))
{
	struct cost_stage stage;

	cost_stage_init(&stage, act);
	stage.servers = 2;
	cost_play(&stage);
}

/* A block on the memory server in a slot. */
static struct nam_gaddr
block_on(struct cost_stage *stage, uint32_t slot)
{
	struct nam_gaddr at = NAM_GADDR_NULL;

	cost_expect(stage, "a block", nam_alloc_on(stage->worker, slot, STRIDE, &at), 0);
	return nam_gaddr_untagged(at);
}

/* ---- batches ------------------------------------------------------------------------------ */

/* One request of each kind to each of `servers` servers. */
static void
batch_of(struct cost_stage *stage, const char *what, uint32_t servers)
{
	struct cost expected = { .round_trips = 1, .doorbells = servers, .requests = 4ul * servers,
		.bytes_in = servers * (BYTES + 2 * COST_ATOMIC_IN),
		.bytes_out = servers * (BYTES + 2 * COST_ATOMIC_OUT) };
	uint8_t *local = nam_buffer_take(stage->worker, 4 * BYTES);
	struct nam_gaddr at[2] = { block_on(stage, 0), block_on(stage, 1) };
	struct nam_batch batch;

	memset(local, 0, 4ul * BYTES);
	cost_begin(stage);
	nam_batch_init(&batch, stage->worker);
	for (uint32_t i = 0; i < servers; i++) {
		nam_batch_read(&batch, at[i], local + i * BYTES, BYTES);
		nam_batch_write(&batch, at[i], BYTES, local + 2 * BYTES, BYTES);
		nam_batch_cas(&batch, at[i], 8, 0, 1, (uint64_t *)(void *)(local + 3 * BYTES));
		nam_batch_fetch_add(&batch, at[i], 16, 1,
			(uint64_t *)(void *)(local + 3 * BYTES + 8));
	}
	cost_expect(stage, what, nam_batch_await(&batch), 0);
	cost_end(stage, NAM_OP_OTHER, what, &expected);
	nam_buffer_give(stage->worker, local, 4 * BYTES);
}

static void
act_batches(struct cost_stage *stage)
{
	const struct cost nothing = { .round_trips = 0 };
	struct nam_batch batch;

	batch_of(stage, "a batch to one server", 1);
	batch_of(stage, "a batch to two servers", 2);
	nam_batch_init(&batch, stage->worker);
	cost_begin(stage);
	cost_expect(stage, "an empty batch", nam_batch_await(&batch), 0);
	cost_end(stage, NAM_OP_OTHER, "an empty batch", &nothing);
}

static void
batch__requests__ONE_ROUND_TRIP_A_DOORBELL_FOR_EACH_SERVER(void **state)
{
	(void)state;
	play(act_batches);
}

static void
act_single(struct cost_stage *stage)
{
	struct cost expected = { .round_trips = 1, .requests = 1 };
	uint8_t *local = nam_buffer_take(stage->worker, BYTES);
	struct nam_gaddr at = block_on(stage, 1);
	uint64_t old;

	memset(local, 0, BYTES);
	expected.bytes_out = BYTES;
	cost_begin(stage);
	cost_expect(stage, "a WRITE", nam_write_await(stage->worker, at, local, BYTES), 0);
	cost_end(stage, NAM_OP_OTHER, "a WRITE", &expected);
	expected.bytes_in = BYTES;
	expected.bytes_out = 0;
	cost_begin(stage);
	cost_expect(stage, "a READ", nam_read_await(stage->worker, at, local, BYTES), 0);
	cost_end(stage, NAM_OP_OTHER, "a READ", &expected);
	expected.bytes_in = COST_ATOMIC_IN;
	expected.bytes_out = COST_ATOMIC_OUT;
	cost_begin(stage);
	cost_expect(stage, "a CAS", nam_cas_await(stage->worker, at, 0, 1, &old), 0);
	cost_end(stage, NAM_OP_OTHER, "a CAS", &expected);
	cost_begin(stage);
	cost_expect(stage, "a FETCH_ADD", nam_fetch_add_await(stage->worker, at, 1, &old), 0);
	cost_end(stage, NAM_OP_OTHER, "a FETCH_ADD", &expected);
	nam_buffer_give(stage->worker, local, BYTES);
}

static void
await__one_request__ONE_ROUND_TRIP(void **state)
{
	(void)state;
	play(act_single);
}

/* One request of each kind, all under way at the same time. */
static void
act_window(struct cost_stage *stage)
{
	const struct cost expected = { .round_trips = 4, .requests = 4,
		.bytes_in = BYTES + 2 * COST_ATOMIC_IN, .bytes_out = BYTES + 2 * COST_ATOMIC_OUT };
	uint8_t *local = nam_buffer_take(stage->worker, 4 * BYTES);
	uint64_t *old = (uint64_t *)(void *)(local + 3 * BYTES), contexts[4], ops;
	struct nam_gaddr at = block_on(stage, 0), other = block_on(stage, 1);
	void *done[4];
	int count = 0, rc;

	memset(local, 0, 4ul * BYTES);
	ops = stage->worker->counters[NAM_OP_OTHER].ops;
	cost_begin(stage);
	cost_expect(stage, "a READ", nam_async_read(stage->worker, at, local, BYTES,
		&contexts[0]), 0);
	cost_expect(stage, "a WRITE", nam_async_write(stage->worker, other, local + BYTES, BYTES,
		&contexts[1]), 0);
	cost_expect(stage, "a CAS", nam_async_cas(stage->worker, at, 0, 1, old, &contexts[2]), 0);
	cost_expect(stage, "a FETCH_ADD", nam_async_fetch_add(stage->worker, other, 1, old + 1,
		&contexts[3]), 0);
	while (count < 4) {
		rc = nam_async_poll(stage->worker, done, 4);
		if (rc < 0) {
			cost_expect(stage, "a poll", rc, 0);
			break;
		}
		count += rc;
	}
	cost_end(stage, NAM_OP_OTHER, "a rolling window", &expected);
	if (stage->worker->counters[NAM_OP_OTHER].ops - ops != 4)
		cost_fail(stage, "not 4 operations");
	nam_buffer_give(stage->worker, local, 4 * BYTES);
}

static void
async__four_requests__FOUR_OPERATIONS_OF_ONE_ROUND_TRIP(void **state)
{
	(void)state;
	play(act_window);
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* Blocks of one server: RPCs ask for 16, 32, ... and no more than `most`. */
static void
blocks(struct cost_stage *stage, uint32_t stride, uint32_t most)
{
	const struct cost rpc = { .round_trips = 1, .requests = 1 };
	const struct cost nothing = { .round_trips = 0 };
	uint64_t due = 0, asked = 16;
	struct nam_gaddr at;

	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t before = stage->worker->counters[NAM_OP_OTHER].round_trips;
		bool asks = i == due;

		cost_begin(stage);
		cost_expect(stage, "a block", nam_alloc_on(stage->worker, 1, stride, &at), 0);
		cost_end(stage, NAM_OP_OTHER, "a block", asks ? &rpc : &nothing);
		if (stage->worker->counters[NAM_OP_OTHER].round_trips - before != asks) {
			cost_fail(stage, "block %llu of %u bytes", (unsigned long long)i, stride);
			return;
		}
		if (!asks)
			continue;
		due += asked < most ? asked : most;
		if (asked < 1024)
			asked *= 2;
	}
}

static void
act_blocks(struct cost_stage *stage)
{
	/* As many as begin within 1 MiB. */
	blocks(stage, 4160, (1u << 20) / 4160 + 1);
	blocks(stage, 64, 1024);
}

static void
alloc__one_after_the_other__RPC_FOR_TWICE_AS_MANY(void **state)
{
	(void)state;
	play(act_blocks);
}

static void
act_blocks_in_turn(struct cost_stage *stage)
{
	const struct cost two = { .round_trips = 2, .requests = 2 };
	const struct cost nothing = { .round_trips = 0 };
	struct nam_gaddr at[33];

	cost_begin(stage);
	for (unsigned i = 0; i < 32; i++)
		cost_expect(stage, "a block", nam_alloc(stage->worker, STRIDE, &at[i]), 0);
	cost_end(stage, NAM_OP_OTHER, "32 blocks in turn", &two);
	cost_begin(stage);
	for (unsigned i = 0; i < 32; i++)
		nam_free_unseen(stage->worker, nam_gaddr_untagged(at[i]), STRIDE);
	for (unsigned i = 0; i < 32; i++)
		cost_expect(stage, "a block", nam_alloc(stage->worker, STRIDE, &at[i]), 0);
	for (unsigned i = 0; i < 32; i++)
		nam_retire(stage->worker, nam_gaddr_untagged(at[i]), STRIDE);
	cost_end(stage, NAM_OP_OTHER, "giving back", &nothing);
	cost_begin(stage);
	for (unsigned i = 0; i < 32; i++)
		cost_expect(stage, "a block", nam_alloc(stage->worker, STRIDE, &at[i]), 0);
	cost_end(stage, NAM_OP_OTHER, "32 blocks more", &two);
}

static void
alloc__servers_in_turn__RPC_FOR_EACH(void **state)
{
	(void)state;
	play(act_blocks_in_turn);
}

/* ---- RPCs --------------------------------------------------------------------------------- */

static void
act_rpcs(struct cost_stage *stage)
{
	struct cost expected = { .round_trips = 1, .requests = 1 };
	struct nam_rpc_catalog_entry request = { .name = COST_INDEX };
	struct nam_rpc_catalog_entry entry;
	struct nam_server_status status;
	uint32_t bytes = sizeof(entry);

	cost_begin(stage);
	cost_expect(stage, "status", nam_server_status_get(stage->worker, 1, &status), 0);
	cost_end(stage, NAM_OP_OTHER, "status", &expected);
	expected.bytes_out = RPC_HEADER_BYTES + sizeof(request);
	expected.bytes_in = RPC_HEADER_BYTES + sizeof(entry);
	cost_begin(stage);
	cost_expect(stage, "an RPC", nam_rpc_call(stage->worker, 0, NAM_RPC_CATALOG_GET, &request,
		sizeof(request), &entry, &bytes), 0);
	cost_end(stage, NAM_OP_OTHER, "an RPC", &expected);
}

static void
rpc__one_call__ONE_ROUND_TRIP(void **state)
{
	(void)state;
	play(act_rpcs);
}

/* ---- joining ------------------------------------------------------------------------------ */

static void
act_joins(struct cost_stage *stage)
{
	struct nam_client *client = sim_client(&stage->cluster, "another");
	struct nam_op_counters spent = { 0 };

	if (!client) {
		cost_fail(stage, "the other client cannot come");
		return;
	}
	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++)
		nam_op_counters_add(&spent, &client->epoch_worker->counters[kind]);
	/* The regions of two servers at once, twice; the view, an id, the clock, a slot. */
	if (spent.round_trips != 2 + 4 || spent.work_requests != 4 + 4)
		cost_fail(stage, "joining took %llu round trips",
			(unsigned long long)spent.round_trips);
	nam_client_close(client);
}

static void
connect__two_servers__TWO_RPCS_EACH_AT_ONCE_AND_FOUR(void **state)
{
	(void)state;
	play(act_joins);
}

/* ---- what only one host knows ------------------------------------------------------------- */

static void
act_local(struct cost_stage *stage)
{
	const struct cost nothing = { .round_trips = 0 };
	struct nam_range range = { .limit = 10 };
	struct nam_index_stat stat;
	struct nam_cursor *cursor;

	cost_begin(stage);
	cost_expect(stage, "a cursor", nam_cursor_open(stage->worker, stage->index, &range,
		&cursor), 0);
	nam_cursor_close(cursor);
	nam_index_cache_stat(stage->index, &stat);
	(void)nam_index_properties(stage->index);
	cost_end(stage, NAM_OP_SCAN, "a cursor that is not used", &nothing);
}

static void
cursor__never_asked__NOTHING(void **state)
{
	(void)state;
	play(act_local);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batch__requests__ONE_ROUND_TRIP_A_DOORBELL_FOR_EACH_SERVER),
		cmocka_unit_test(await__one_request__ONE_ROUND_TRIP),
		cmocka_unit_test(async__four_requests__FOUR_OPERATIONS_OF_ONE_ROUND_TRIP),
		cmocka_unit_test(alloc__one_after_the_other__RPC_FOR_TWICE_AS_MANY),
		cmocka_unit_test(alloc__servers_in_turn__RPC_FOR_EACH),
		cmocka_unit_test(rpc__one_call__ONE_ROUND_TRIP),
		cmocka_unit_test(connect__two_servers__TWO_RPCS_EACH_AT_ONCE_AND_FOUR),
		cmocka_unit_test(cursor__never_asked__NOTHING),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
