/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_tree_test.c -- what making, finding and loading an index costs, exactly as index.h says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "cost.h"

#define SUPERBLOCK_BYTES 2176u
#define RPC_HEADER_BYTES 24u
#define NAME_ENTRY_BYTES 72u		/* a name of the catalog with its superblock */
/* Children of a node of 1 KiB, and entries of a leaf, as they are loaded. */
#define FILL 55u
#define LOADED 60000u

static void
play(struct cost_stage *stage)
{
	cost_play(stage);
}

static void
create(struct cost_stage *stage, const char *name)
{
	cost_expect(stage, name, nam_index_create(stage->worker, name, &stage->options), 0);
}

/* ---- create, open, list ------------------------------------------------------------------- */

static void
act_create(struct cost_stage *stage)
{
	struct cost expected = { .round_trips = 2, .requests = 3,
		.bytes_in = RPC_HEADER_BYTES,
		.bytes_out = RPC_HEADER_BYTES + NAME_ENTRY_BYTES + SUPERBLOCK_BYTES + 64 +
			     stage->options.node_bytes - 8 };
	struct nam_worker *first;
	struct nam_gaddr at;

	cost_begin(stage);
	create(stage, "second");
	cost_end(stage, NAM_OP_OTHER, "create", &expected);

	expected = (struct cost){ .round_trips = 3 };
	cost_expect(stage, "a block", nam_alloc(stage->worker, stage->index->g.stride, &at), 0);
	nam_free_unseen(stage->worker, at, stage->index->g.stride);
	cost_begin(stage);
	create(stage, "third");
	cost_end(stage, NAM_OP_OTHER, "create in a block that was used before", &expected);

	/* Blocks for the superblock and for the root. */
	expected = (struct cost){ .round_trips = 4 };
	first = cost_worker_new(stage);
	cost_begin(stage);
	create(stage, "fourth");
	cost_end(stage, NAM_OP_OTHER, "create with an empty block cache", &expected);
	cost_worker_back(stage, first);
}

static void
create__blocks_in_cache__TWO(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_create);
	play(&stage);
}

static void
act_open(struct cost_stage *stage)
{
	const struct cost expected = { .round_trips = 2, .requests = 2,
		.bytes_in = SUPERBLOCK_BYTES + RPC_HEADER_BYTES + NAME_ENTRY_BYTES,
		.bytes_out = RPC_HEADER_BYTES + NAME_ENTRY_BYTES };
	struct nam_index *index = NULL;

	cost_begin(stage);
	cost_expect(stage, "open", nam_index_open(stage->worker, COST_INDEX, 1u << 20, &index), 0);
	cost_end(stage, NAM_OP_OTHER, "open", &expected);
	nam_index_close(index);
}

static void
open__by_name__TWO(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_open);
	stage.pairs = 10000;
	play(&stage);
}

static int
count_name(void *arg, const char *name)
{
	(void)name;
	++*(unsigned *)arg;
	return 0;
}

static void
act_list(struct cost_stage *stage)
{
	struct cost expected = { .round_trips = 2 };
	unsigned names = 0;
	char name[16];

	cost_begin(stage);
	cost_expect(stage, "list", nam_index_list(stage->worker, count_name, &names), 0);
	cost_end(stage, NAM_OP_OTHER, "list of one name", &expected);
	for (unsigned i = 1; i < 57; i++) {
		(void)snprintf(name, sizeof(name), "name%u", i);
		create(stage, name);
	}
	expected.round_trips = 3;
	names = 0;
	cost_begin(stage);
	cost_expect(stage, "list", nam_index_list(stage->worker, count_name, &names), 0);
	cost_end(stage, NAM_OP_OTHER, "list of 57 names", &expected);
	if (names != 57)
		cost_fail(stage, "%u names", names);
}

static void
list__more_than_a_page__ONE_FOR_EACH_AND_ONE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_list);
	play(&stage);
}

/* ---- bulk load ---------------------------------------------------------------------------- */

/* RPCs of a worker with an empty block cache for so many blocks of one server: 16, 32, ... */
static uint64_t
rpcs_for(uint64_t blocks, uint32_t stride)
{
	uint64_t most = (1u << 20) / stride + 1, count = 0;

	for (uint64_t asked = 16; blocks; count++) {
		uint64_t got = asked < most ? asked : most;

		blocks -= blocks < got ? blocks : got;
		if (asked < 1024)
			asked *= 2;
	}
	return count;
}

static void
act_load(struct cost_stage *stage)
{
	const uint64_t leaves = (LOADED + FILL - 1) / FILL, parents = (leaves + FILL - 1) / FILL;
	const uint64_t nodes = leaves + (leaves - 1) / 32 + parents + 1;
	const uint64_t rpcs = rpcs_for(nodes, stage->index->g.stride);
	struct cost expected = { .round_trips = 8 + (nodes + 31) / 32 + rpcs, .locks = 1,
		.kept = 1 };
	struct nam_worker *first = cost_worker_new(stage);
	struct nam_index_stat stat;

	/*
	 * The root: CAS and READ, three WRITEs, CAS.  The superblock: READ twice, CAS; CAS of the
	 * collector's word twice.
	 */
	expected.requests = nodes + rpcs + 2 + 3 + 1 + 3 + 2;
	stage->pairs = LOADED;
	stage->supplied = 0;
	cost_begin(stage);
	cost_expect(stage, "load", nam_index_bulk_load(stage->worker, stage->index, cost_source,
		stage, 0, NULL), 0);
	cost_end(stage, NAM_OP_BULK_LOAD, "load", &expected);
	stat = cost_stat(stage);
	if (stat.leaves != leaves || stat.inner_nodes != parents + 1 ||
		stat.head_nodes != (leaves - 1) / 32)
		cost_fail(stage, "not the tree that was expected");
	stage->pairs = 0;
	cost_worker_back(stage, first);
}

static void
bulk_load__fresh_blocks__ONE_FOR_32_NODES_AND_EIGHT(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_load);
	play(&stage);
}

/* As if the block had been a node. */
static void
write_generation(struct cost_stage *stage, struct nam_gaddr at)
{
	uint64_t *shape = nam_buffer_take(stage->worker, 8);
	struct nam_batch batch;

	*shape = 1;
	nam_batch_init(&batch, stage->worker);
	nam_batch_write(&batch, at, 8 * NAM__WORD_SHAPE, shape, 8);
	cost_expect(stage, "a generation", nam_batch_await(&batch), 0);
	nam_buffer_give(stage->worker, shape, 8);
}

static void
act_load_again(struct cost_stage *stage)
{
	const uint32_t stride = stage->index->g.stride;
	const uint64_t nodes = 100 + 3 + 2 + 1;
	uint64_t batch = stage->client->caps & NAM_CAP_ORDERED_LOADS ? 13 : 32;
	struct cost expected = { .locks = 1, .kept = 1 };
	struct nam_gaddr at[112];

	for (unsigned i = 0; i < 112; i++) {
		cost_expect(stage, "a block", nam_alloc(stage->worker, stride, &at[i]), 0);
		write_generation(stage, at[i]);
	}
	for (unsigned i = 0; i < 112; i++)
		nam_free_unseen(stage->worker, at[i], stride);
	stage->pairs = 100 * FILL;
	stage->supplied = 0;
	expected.round_trips = 8 + nodes + (nodes + batch - 1) / batch;
	cost_begin(stage);
	cost_expect(stage, "load", nam_index_bulk_load(stage->worker, stage->index, cost_source,
		stage, 0, NULL), 0);
	cost_end(stage, NAM_OP_BULK_LOAD, "load into blocks that were used before", &expected);
	stage->pairs = 0;
}

static void
bulk_load__blocks_used_before__ONE_MORE_EACH(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_load_again);
	play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__blocks_in_cache__TWO),
		cmocka_unit_test(open__by_name__TWO),
		cmocka_unit_test(list__more_than_a_page__ONE_FOR_EACH_AND_ONE),
		cmocka_unit_test(bulk_load__fresh_blocks__ONE_FOR_32_NODES_AND_EIGHT),
		cmocka_unit_test(bulk_load__blocks_used_before__ONE_MORE_EACH),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
