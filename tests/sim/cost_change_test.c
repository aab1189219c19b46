/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_change_test.c -- what insert, upsert, update and delete cost, splits above all, exactly as
 * index.h says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/backup/backups.h"
#include "cost.h"

#define CAPACITY 12u		/* entries of a node of 256 bytes, leaf or not */
/* Rear word, shape, hash and front; CAS to lock and to unlock. */
#define IMAGE_OUT (32u + 2 * COST_ATOMIC_OUT)
#define REFUSED_OUT (2 * COST_ATOMIC_OUT)

static void
play(struct cost_stage *stage)
{
	cost_play(stage);
}

static uint64_t
image_in(const struct cost_stage *stage)
{
	return stage->options.node_bytes + 2 * COST_ATOMIC_IN;
}

/* A change of one entry: lock and read, write and release. */
static struct cost
changed(const struct cost_stage *stage, uint32_t entry_bytes)
{
	return (struct cost){ .round_trips = 2, .locks = 1, .releases = 1,
		.requests = entry_bytes <= 32 ? 7 : 8, .bytes_in = image_in(stage),
		.bytes_out = IMAGE_OUT + entry_bytes + cost_redo_out(entry_bytes) };
}

/* A payload: as many entries as before, so the counts are not written. */
static struct cost
replaced(const struct cost_stage *stage)
{
	return (struct cost){ .round_trips = 2, .locks = 1, .releases = 1, .requests = 6,
		.bytes_in = image_in(stage), .bytes_out = IMAGE_OUT + cost_redo_out(8) };
}

/* A look under the lock, and nothing to do. */
static struct cost
refused(const struct cost_stage *stage)
{
	return (struct cost){ .round_trips = 2, .locks = 1, .requests = 3,
		.bytes_in = image_in(stage), .bytes_out = REFUSED_OUT };
}

/* ---- one entry ---------------------------------------------------------------------------- */

static void
change(struct cost_stage *stage, enum nam_op_kind kind, const char *what, uint64_t number,
	uint64_t payload, int expected_rc, struct cost expected)
{
	uint8_t key[NAM_KEY_BYTES_MAX] = { 0 };
	int rc;

	nam_key_from_u64(number, key);
	cost_begin(stage);
	switch (kind) {
	case NAM_OP_INSERT:
		rc = nam_index_insert(stage->worker, stage->index, key, payload);
		break;
	case NAM_OP_UPSERT:
		rc = nam_index_upsert(stage->worker, stage->index, key, payload);
		break;
	case NAM_OP_UPDATE:
		rc = nam_index_update(stage->worker, stage->index, key, payload);
		break;
	default:
		/* Payload 0: whatever it is. */
		rc = payload ? nam_index_delete_pair(stage->worker, stage->index, key, payload)
			     : nam_index_delete(stage->worker, stage->index, key);
	}
	cost_end(stage, kind, what, &expected);
	cost_expect(stage, what, rc, expected_rc);
}

static void
act_changes(struct cost_stage *stage)
{
	uint32_t entry = stage->options.key_bytes + 8;

	cost_warm(stage);
	change(stage, NAM_OP_INSERT, "insert", 15, 1, 0, changed(stage, entry));
	change(stage, NAM_OP_INSERT, "insert of what is there", 15, 1, -NAM_E_EXISTS,
		refused(stage));
	change(stage, NAM_OP_UPSERT, "upsert of what is new", 25, 1, 0, changed(stage, entry));
	change(stage, NAM_OP_UPSERT, "upsert of what is there", 25, 2, 0, replaced(stage));
	change(stage, NAM_OP_UPDATE, "update", 20, 3, 0, replaced(stage));
	change(stage, NAM_OP_UPDATE, "update of nothing", 21, 3, -NAM_E_NOTFOUND, refused(stage));
	/* The last entry of the leaf, the one before it; then the first, with 22 behind it. */
	change(stage, NAM_OP_DELETE, "delete of the last", 25, 0, 0, changed(stage, entry));
	change(stage, NAM_OP_DELETE, "delete of the last pair", 15, 1, 0, changed(stage, entry));
	change(stage, NAM_OP_DELETE, "delete of the first", 0, 0, 0,
		changed(stage, 23 * entry));
	change(stage, NAM_OP_DELETE, "delete of nothing", 0, 0, -NAM_E_NOTFOUND, refused(stage));
	change(stage, NAM_OP_DELETE, "delete of another pair", 20, 9, -NAM_E_NOTFOUND,
		refused(stage));
}

static void
changes__warm_cache__TWO_ROUND_TRIPS(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_changes);
	stage.options.head_interval = 0;
	/* Leaves of 23. */
	stage.options.node_bytes = 512;
	stage.pairs = 100;
	stage.fill_percent = 85;
	play(&stage);
}

static void
changes__longer_keys__BYTES_OF_THE_ENTRY(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_changes);
	stage.options.key_bytes = 16;
	stage.options.node_bytes = 1024;
	stage.pairs = 100;
	stage.fill_percent = 60;
	play(&stage);
}

static void
act_pairs(struct cost_stage *stage)
{
	cost_warm(stage);
	change(stage, NAM_OP_INSERT, "insert of a pair", 20, 1, 0, changed(stage, 16));
	change(stage, NAM_OP_INSERT, "insert of a pair that is there", 20, 1, -NAM_E_EXISTS,
		refused(stage));
	change(stage, NAM_OP_UPSERT, "upsert of a pair", 20, 2, 0, changed(stage, 16));
	change(stage, NAM_OP_UPSERT, "upsert of a pair that is there", 20, 2, 0, refused(stage));
	change(stage, NAM_OP_DELETE, "delete of the last pair", 20, 2, 0, changed(stage, 16));
	change(stage, NAM_OP_DELETE, "delete of a pair that is not there", 20, 2, -NAM_E_NOTFOUND,
		refused(stage));
}

static void
changes__not_unique__TWO_ROUND_TRIPS(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_pairs);
	stage.options.unique = false;
	stage.pairs = 100;
	stage.pairs_of_a_key = 5;
	play(&stage);
}

static void
act_uncached(struct cost_stage *stage)
{
	struct nam_index_stat stat = cost_stat(stage);
	struct cost expected = changed(stage, 16);

	expected.round_trips += stat.height;
	expected.requests += stat.height;
	expected.bytes_in += (uint64_t)stat.height * stage->options.node_bytes;
	if (stat.height != 3)
		cost_fail(stage, "the tree has %u levels", stat.height);
	change(stage, NAM_OP_INSERT, "insert without a cache", 15, 1, 0, expected);
}

static void
changes__no_cache__HEIGHT_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_uncached);
	stage.options.node_bytes = 256;
	stage.cache_bytes = 0;
	stage.pairs = 400;
	play(&stage);
}

static void
act_one_leaf(struct cost_stage *stage)
{
	struct cost one_more[] = { changed(stage, 16), replaced(stage), refused(stage) };

	for (unsigned i = 0; i < 3; i++) {
		one_more[i].round_trips++;
		one_more[i].requests++;
		one_more[i].bytes_in += stage->options.node_bytes;
	}
	change(stage, NAM_OP_INSERT, "insert", 15, 1, 0, one_more[0]);
	change(stage, NAM_OP_UPDATE, "update", 15, 2, 0, one_more[1]);
	change(stage, NAM_OP_INSERT, "insert of what is there", 15, 3, -NAM_E_EXISTS,
		one_more[2]);
	change(stage, NAM_OP_DELETE, "delete", 15, 0, 0, one_more[0]);
}

static void
changes__the_leaf_is_the_root__ONE_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_one_leaf);
	play(&stage);
}

/* ---- splits ------------------------------------------------------------------------------- */

/* An insert into leaf number `leaf` of a tree of full leaves, which is divided. */
static void
split(struct cost_stage *stage, const char *what, uint64_t leaf, uint64_t splits,
	struct cost expected)
{
	uint64_t before = stage->worker->counters[NAM_OP_INSERT].splits;

	change(stage, NAM_OP_INSERT, what, leaf * CAPACITY * 10 + 1, 1, 0, expected);
	if (stage->worker->counters[NAM_OP_INSERT].splits - before != splits)
		cost_fail(stage, "%s: not %llu splits", what, (unsigned long long)splits);
}

/* So many nodes are divided, one above the other, and then a parent has room. */
static struct cost
splits_cost(uint64_t splits, bool root_written)
{
	return (struct cost){ .round_trips = 4 * splits + 2 + root_written, .locks = splits + 1,
		.releases = splits + 1 };
}

/* The same up to the root, and a new root. */
static struct cost
growth_cost(uint64_t splits)
{
	return (struct cost){ .round_trips = 4 * splits + 2 + 8, .locks = splits + 1,
		.releases = splits };
}

static void
tree_of_full_nodes(struct cost_stage *stage, void (*act)(struct cost_stage *stage),
	uint64_t leaves)
{
	cost_stage_init(stage, act);
	stage->options.node_bytes = 256;
	stage->options.head_interval = 0;
	stage->pairs = leaves * CAPACITY;
	stage->fill_percent = 100;
}

static void
act_split_two_levels(struct cost_stage *stage)
{
	cost_warm(stage);
	cost_cache(stage);
	split(stage, "split below the root", 0, 1, splits_cost(1, true));
}

static void
insert__splits_a_leaf_below_the_root__SEVEN(void **state)
{
	struct cost_stage stage;

	(void)state;
	tree_of_full_nodes(&stage, act_split_two_levels, 3);
	play(&stage);
}

static void
act_split_three_levels(struct cost_stage *stage)
{
	cost_warm(stage);
	cost_cache(stage);
	/* The second node of level 1 has one child, the first is full, the root has two. */
	split(stage, "split below a parent with room", CAPACITY, 1, splits_cost(1, false));
	split(stage, "split below a full parent", 0, 2, splits_cost(2, true));
}

static void
insert__splits_a_leaf_below_another_node__SIX(void **state)
{
	struct cost_stage stage;

	(void)state;
	tree_of_full_nodes(&stage, act_split_three_levels, CAPACITY + 1);
	play(&stage);
}

static void
act_split_four_levels(struct cost_stage *stage)
{
	cost_warm(stage);
	cost_cache(stage);
	split(stage, "split on the right", CAPACITY * CAPACITY, 1, splits_cost(1, false));
	split(stage, "split below two full nodes", 0, 3, splits_cost(3, true));
	split(stage, "split below a full node", CAPACITY, 2, splits_cost(2, false));
}

static void
insert__splits_full_parents__FOUR_MORE_EACH(void **state)
{
	struct cost_stage stage;

	(void)state;
	tree_of_full_nodes(&stage, act_split_four_levels, CAPACITY * CAPACITY + 1);
	play(&stage);
}

static void
act_growth(struct cost_stage *stage)
{
	uint64_t splits = cost_stat(stage).height;

	cost_warm(stage);
	cost_cache(stage);
	split(stage, "growth", 0, splits, growth_cost(splits));
	if (cost_stat(stage).height != splits + 1)
		cost_fail(stage, "the tree has not grown");
}

static void
insert__the_tree_grows__EIGHT_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	tree_of_full_nodes(&stage, act_growth, 1);
	play(&stage);
	tree_of_full_nodes(&stage, act_growth, CAPACITY);
	play(&stage);
	tree_of_full_nodes(&stage, act_growth, CAPACITY * CAPACITY);
	play(&stage);
}

static void
act_split_blocks(struct cost_stage *stage)
{
	uint32_t stride = stage->index->g.stride;
	struct cost expected = splits_cost(1, false);
	struct nam_worker *first;
	struct nam_gaddr at;

	cost_warm(stage);
	cost_cache(stage);
	cost_expect(stage, "a block", nam_alloc(stage->worker, stride, &at), 0);
	nam_free_unseen(stage->worker, at, stride);
	expected.round_trips++;
	split(stage, "split with a block that was used before", CAPACITY, 1, expected);
	first = cost_worker_new(stage);
	split(stage, "split with an empty block cache", CAPACITY + 1, 1, expected);
	cost_worker_back(stage, first);
}

static void
insert__blocks_are_asked_for_or_used_before__ONE_MORE(void **state)
{
	struct cost_stage stage;

	(void)state;
	tree_of_full_nodes(&stage, act_split_blocks, CAPACITY + 2);
	play(&stage);
}

/* ---- a member with backups ------------------------------------------------------------------- */

#define BACKED 1u

static void
back(struct cost_stage *stage, uint32_t place)
{
	struct sim_server *backup = sim_cluster_successor(&stage->cluster, BACKED);
	struct nam_client_options options;
	struct nam_server_moved moved;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	if (nam_server_back(&options, backup->address, NULL, NULL, &moved, &diag))
		sim_die("a backup: %s", diag.text);
	while (!nam__backup_boot(stage->client, stage->client->slot_of_id[BACKED], place))
		nam_sleep_ns(1000000);
}

static uint64_t
trips_of(struct cost_stage *stage, int rc)
{
	cost_expect(stage, "an operation", rc, 0);
	return cost_spent(stage).round_trips;
}

/* One leaf after another, on both memory servers. */
static void
changes_backed(struct cost_stage *stage)
{
	const uint32_t caps = NAM_CAP_ORDER_ATOMIC_READ | NAM_CAP_ORDER_WRITE_ATOMIC |
		NAM_CAP_ORDER_WRITES;
	bool ordered = (nam_sim_profile_caps(stage->profile) & caps) == caps;
	uint64_t trips, backed = 0, leaves = 0;
	uint8_t key[NAM_KEY_BYTES_MAX] = { 0 };
	uint64_t payload;

	for (uint64_t number = 5; number < 1000; number += 200, leaves++) {
		nam_key_from_u64(number, key);
		cost_begin(stage);
		trips = trips_of(stage, nam_index_insert(stage->worker, stage->index, key, 7));
		backed += trips == 3;
		if (ordered && trips != 2 && trips != 3)
			cost_fail(stage, "an insert: %llu round trips",
				(unsigned long long)trips);
		cost_begin(stage);
		if (trips_of(stage, nam_index_update(stage->worker, stage->index, key, 8)) != trips)
			cost_fail(stage, "an update differs from an insert");
		cost_begin(stage);
		if (trips_of(stage, nam_index_lookup(stage->worker, stage->index, key,
				&payload)) != 1 || payload != 8)
			cost_fail(stage, "a lookup");
		cost_begin(stage);
		if (trips_of(stage, nam_index_delete(stage->worker, stage->index, key)) != trips)
			cost_fail(stage, "a delete differs from an insert");
	}
	if (ordered && (!backed || backed == leaves))
		cost_fail(stage, "%llu of %llu leaves at the member", (unsigned long long)backed,
			(unsigned long long)leaves);
}

static void
act_backed(struct cost_stage *stage)
{
	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++) {
		back(stage, place);
		cost_warm(stage);
		changes_backed(stage);
	}
}

static void
changes__at_a_member_with_backups__THREE_ROUND_TRIPS_and_lookups_one(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act_backed);
	stage.options.head_interval = 0;
	stage.options.node_bytes = 512;
	stage.servers = 2;
	stage.pairs = 100;
	stage.fill_percent = 85;
	play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes__warm_cache__TWO_ROUND_TRIPS),
		cmocka_unit_test(changes__longer_keys__BYTES_OF_THE_ENTRY),
		cmocka_unit_test(changes__not_unique__TWO_ROUND_TRIPS),
		cmocka_unit_test(changes__no_cache__HEIGHT_MORE),
		cmocka_unit_test(changes__the_leaf_is_the_root__ONE_MORE),
		cmocka_unit_test(insert__splits_a_leaf_below_the_root__SEVEN),
		cmocka_unit_test(insert__splits_a_leaf_below_another_node__SIX),
		cmocka_unit_test(insert__splits_full_parents__FOUR_MORE_EACH),
		cmocka_unit_test(insert__the_tree_grows__EIGHT_MORE),
		cmocka_unit_test(insert__blocks_are_asked_for_or_used_before__ONE_MORE),
		cmocka_unit_test(
			changes__at_a_member_with_backups__THREE_ROUND_TRIPS_and_lookups_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
