/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hybrid_test.c -- a hybrid index's own features: its costs, and names of leaves that are late,
 * stale or forgotten.  The common promises of designs are in point_ops_test.c and others.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "index/hybrid/hybrid.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 2u
#define KEYS 3000u
#define HOARD_KEPT 64u

TEST_CLUSTER_OF_TWO(SERVERS, 32 * MIB, 1 * MIB, 200)

static struct nam_index *
make(const char *name, uint64_t cache_bytes)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.design = NAM_DESIGN_HYBRID;
	options.partitioning = NAM_PARTITION_HASH;
	options.node_bytes = 256;
	assert_int_equal(nam_index_create(me.worker, name, &options), 0);
	return tree_open(me.worker, name, cache_bytes);
}

static void
unmake(struct nam_index *index)
{
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	nam_index_close(index);
}

static int
lookup(struct member *member, struct nam_index *index, uint64_t number, uint64_t *ret_payload)
{
	return nam_index_lookup(member->worker, index, tree_key(index, number), ret_payload);
}

static void
assert_all_there(struct member *member, struct nam_index *index, uint64_t step)
{
	uint64_t payload;

	for (uint64_t n = 0; n < KEYS; n++) {
		assert_int_equal(lookup(member, index, n, &payload),
			n % step ? -NAM_E_NOTFOUND : 0);
		if (n % step == 0)
			assert_int_equal(payload, n * 10 + 1);
	}
}

static void
delete_but_every(struct member *member, struct nam_index *index, uint64_t step)
{
	for (uint64_t n = 0; n < KEYS; n++)
		if (n % step)
			assert_int_equal(nam_index_delete(member->worker, index,
				tree_key(index, n)), 0);
}

/* ---- costs -------------------------------------------------------------------------------- */

static void
lookup__warm_cache__ONE_READ_AND_NO_RPC(void **state)
{
	struct nam_index *index = make("warm", MIB);
	const struct nam_op_counters *counters = nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	struct nam_op_counters before;
	uint64_t payload;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	assert_all_there(&me, index, 1);
	before = *counters;
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(lookup(&me, index, n, &payload), 0);
	assert_int_equal(counters->round_trips - before.round_trips, KEYS);
	assert_int_equal(counters->bytes_in - before.bytes_in, KEYS * 256);
	assert_int_equal(counters->bytes_out - before.bytes_out, 0);
	assert_int_equal(counters->cache_hits - before.cache_hits, KEYS);
	assert_int_equal(counters->cache_misses - before.cache_misses, 0);
	assert_int_equal(counters->cache_stale - before.cache_stale, 0);
	unmake(index);
}

static void
lookup__no_cache__ONE_RPC_AND_ONE_READ(void **state)
{
	struct nam_index *index = make("cold", 0);
	const struct nam_op_counters *counters = nam_worker_counters(me.worker, NAM_OP_LOOKUP);
	struct nam_op_counters before;
	uint64_t payload;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	before = *counters;
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(lookup(&me, index, n, &payload), 0);
	assert_int_equal(counters->round_trips - before.round_trips, 2 * KEYS);
	/* A header, 96 bytes and a name. */
	assert_int_equal(counters->bytes_in - before.bytes_in, KEYS * (256 + 24 + 96 + 16));
	assert_int_equal(counters->cache_hits, before.cache_hits);
	assert_int_equal(counters->cache_misses, before.cache_misses);
	unmake(index);
}

/* ---- names -------------------------------------------------------------------------------- */

/* Leaves lie on all memory servers, independent of their part. */
static void
leaves__of_one_part__ON_ALL_SERVERS(void **state)
{
	struct nam_index *index = make("spread", 0);
	uint64_t counts[SERVERS] = { 0 };
	struct nam__key from = { { 0 } };
	uint64_t image[256 / 8];
	struct nam_gaddr at;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	do {
		assert_int_equal(nam__inner_rpc_read(me.worker, index->leaves[0], from.w, false,
			image, &at), 0);
		for (unsigned i = 0; i < nam__node_count(image); i++)
			counts[nam_gaddr_region(nam__inner_child(&index->g, image, i)) /
				NAM_REGIONS_PER_SERVER]++;
		memcpy(from.w, nam__node_high(&index->g, image), 8);
	} while (!nam__node_last(image));
	assert_true(counts[0] > 20 && counts[1] > 20);
	assert_true(counts[0] < 2 * counts[1] && counts[1] < 2 * counts[0]);
	unmake(index);
}

static void
collect__beside_a_warm_cache__STALE_ADDRESSES_DO_NO_HARM(void **state)
{
	struct nam_index *index = make("stale", 0), *warm;
	struct nam_collect_stat stat;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	warm = tree_open(other.worker, "stale", MIB);
	assert_all_there(&other, warm, 1);
	/* It has asked for a node of names once, and few have more than one node's. */
	assert_in_range(nam_worker_counters(other.worker, NAM_OP_LOOKUP)->cache_misses, SERVERS,
		KEYS / 20);
	delete_but_every(&me, index, 20);
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	assert_true(stat.merges > 50);
	tree_check(me.worker, index, KEYS / 20);
	/* Its cache leads to leaves that are dead. */
	assert_all_there(&other, warm, 20);
	assert_true(nam_worker_counters(other.worker, NAM_OP_LOOKUP)->restarts[NAM_RESTART_DEAD]);
	assert_true(nam_worker_counters(other.worker, NAM_OP_LOOKUP)->cache_stale);
	tree_fill(other.worker, warm, 1, KEYS, 20);
	tree_check(me.worker, index, KEYS / 10);
	nam_index_close(warm);
	unmake(index);
}

/* As a collector leaves it that dies between a merge's last two steps. */
static void
lookup__name_of_a_dead_leaf__TAKES_IT_AWAY_AND_FINDS(void **state)
{
	struct nam_index *index = make("names", 0), *leaves;
	struct nam_collect_stat stat;
	struct nam__key key = { { 0 } };
	uint64_t image[256 / 8], payload;
	struct nam_gaddr at, leaf;
	unsigned before;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	nam__key_encode(&index->g, tree_key(index, KEYS / 2), 0, &key);
	leaves = index->leaves[nam__part_of(index, key.w)];
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	before = nam__inner_search(&index->g, image, key.w);
	leaf = nam__inner_child(&index->g, image, before);
	memcpy(key.w, nam__inner_entry(&index->g, image, before), 8);

	delete_but_every(&me, index, 100);
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	assert_int_equal(nam__tree_point(me.worker, leaves, leaves->names_slot,
		NAM_RPC_TREE_UPSERT, key.w, 1, leaf.raw, NULL), 0);
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	assert_true(nam_gaddr_same(nam__inner_child(&index->g, image,
		nam__inner_search(&index->g, image, key.w)), leaf));

	assert_int_equal(lookup(&me, index, nam_key_to_u64((uint8_t *)&(uint64_t){
		__builtin_bswap64(key.w[0]) }), &payload), key.w[0] % 100 ? -NAM_E_NOTFOUND : 0);
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	assert_false(nam_gaddr_same(nam__inner_child(&index->g, image,
		nam__inner_search(&index->g, image, key.w)), leaf));
	assert_all_there(&me, index, 100);
	tree_check(me.worker, index, KEYS / 100);
	unmake(index);
}

/* A client that splits a leaf may die before it reports the new one. */
static void
leaf__that_nobody_has_reported__IS_FOUND_AND_NAMED_BY_THE_COLLECTOR(void **state)
{
	struct nam_index *index = make("late", 0), *leaves = index->leaves[0];
	struct nam_collect_stat stat;
	uint64_t image[256 / 8], violations = 0;
	struct nam__key key = { { 0 } };
	struct nam_gaddr at;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	for (unsigned i = 1; i < nam__node_count(image); i++) {
		memcpy(key.w, nam__inner_entry(&index->g, image, i), 8);
		assert_int_equal(nam__inner_rpc_remove(me.worker, leaves, key.w,
			nam__inner_child(&index->g, image, i)), 0);
	}
	assert_int_equal(nam_index_verify(me.worker, index, NULL, NULL, &violations), 0);
	assert_int_equal(violations, nam__node_count(image) - 1);
	assert_all_there(&me, index, 1);
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	tree_check(me.worker, index, KEYS);
	unmake(index);
}

/* A report that comes when the leaf has been merged away must not stay. */
static void
report__of_a_leaf_that_has_died__IS_TAKEN_BACK(void **state)
{
	struct nam_index *index = make("dead", 0), *leaves = index->leaves[0];
	struct nam_collect_stat stat;
	uint64_t image[256 / 8], *entry;
	struct nam__key key = { { 0 } };
	struct nam_gaddr at, leaf;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	entry = nam__inner_entry(&index->g, image, 2);
	memcpy(key.w, entry, 8);
	leaf.raw = entry[1];
	delete_but_every(&me, index, 1000);
	assert_int_equal(nam_index_collect(me.worker, index, &stat), 0);
	assert_int_equal(nam__inner_rpc_add(me.worker, leaves, key.w, leaf), 0);
	assert_int_equal(nam__inner_rpc_read(me.worker, leaves, key.w, false, image, &at), 0);
	assert_false(nam_gaddr_same(nam__inner_child(&index->g, image,
		nam__inner_search(&index->g, image, key.w)), leaf));
	tree_check(me.worker, index, KEYS / 1000);
	unmake(index);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
create_and_drop__again_and_again__MEMORY_COMES_BACK(void **state)
{
	uint64_t used = 0;

	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		struct member passing = member_join(cluster, "passing", 200);
		struct nam_index_options options;
		struct nam_index *index;

		nam_index_options_init(&options);
		options.design = NAM_DESIGN_HYBRID;
		options.node_bytes = 256;
		assert_int_equal(nam_index_create(passing.worker, "again", &options), 0);
		index = tree_open(passing.worker, "again", 0);
		tree_fill(passing.worker, index, 0, KEYS, 1);
		nam_index_close(index);
		assert_int_equal(nam_index_drop(passing.worker, "again"), 0);
		member_leave(&passing);
		if (round == 3)
			used = member_sees_used(&me);
		if (round > 3)
			assert_true(member_sees_used(&me) <= used + MIB / 8);
	}
}

static struct nam_index *
fill_private_memory(struct member *member, uint32_t slot)
{
	static const uint8_t bound[8] = { 0x80 };
	uint8_t key[8] = { slot ? 0x80 : 0 };
	struct nam_index_options options;
	struct nam_index *index;
	int rc = 0;

	nam_index_options_init(&options);
	options.design = NAM_DESIGN_COARSE;
	options.partitioning = NAM_PARTITION_RANGE;
	options.bounds = bound;
	options.bounds_count = 1;
	options.node_bytes = 256;
	assert_int_equal(nam_index_create(member->worker, "hog", &options), 0);
	index = tree_open(member->worker, "hog", 0);
	for (uint32_t n = 0; !rc; n++) {
		uint32_t big_endian = htobe32(n);

		memcpy(key + 4, &big_endian, sizeof(big_endian));
		rc = nam_index_insert(member->worker, index, key, n);
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	return index;
}

/*
 * The memory server that names a part's leaves is full and the other one is not.  Leaves that
 * cannot be named must not pile up, for each reader of a key there walks through them.
 */
static void
insert__no_room_for_names__REFUSED_AND_WHAT_IS_THERE_IS_NEAR(void **state)
{
	struct nam_index *index = make("narrow", 0);
	struct member hoarder = member_join(cluster, "hoarder", 200);
	uint32_t slot = index->leaves[0]->names_slot, most = 0;
	const uint64_t keys = test_scaled_least(20000, 6000);
	uint64_t refused = 0, violations = 0, payload;
	static struct nam_gaddr hoard[SERVERS * 32 * MIB / 256];
	static bool there[20000];
	uint32_t hoarded = 0;
	int rc;

	(void)state;
	/* No region is left that could become private, and the private ones are full. */
	for (uint32_t i = 0; i < SERVERS; i++)
		while (!nam_alloc_on(hoarder.worker, i, index->g.stride, &hoard[hoarded]))
			hoarded++;
	nam_index_close(fill_private_memory(&hoarder, slot));
	/* A used block here and there: no run comes back, so no region can become private. */
	while (hoarded > 0)
		if (--hoarded % HOARD_KEPT)
			nam_free_unseen(hoarder.worker, hoard[hoarded], index->g.stride);
	member_leave(&hoarder);
	for (uint64_t n = 0; n < keys; n++) {
		rc = nam_index_insert(me.worker, index, tree_key(index, n), n);
		there[n] = rc == 0;
		if (rc && !refused++)
			assert_non_null(strstr(nam_worker_diag(me.worker), "--memory"));
		if (rc)
			assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	}
	assert_in_range(refused, 1, keys / 2 + keys / 10);
	assert_int_equal(nam_index_verify(me.worker, index, NULL, NULL, &violations), 0);
	assert_in_range(violations, 0, 4);
	for (uint64_t n = 0; n < keys; n++) {
		struct nam_op_counters before = other.worker->current->counters[0];
		uint64_t hops;

		assert_int_equal(lookup(&other, index, n, &payload),
			there[n] ? 0 : -NAM_E_NOTFOUND);
		hops = other.worker->current->counters->restarts[NAM_RESTART_SIBLING] -
			before.restarts[NAM_RESTART_SIBLING];
		most = hops > most ? (uint32_t)hops : most;
	}
	assert_in_range(most, 0, 4);
	/* With room again all is as it should be. */
	assert_int_equal(nam_index_drop(me.worker, "hog"), 0);
	for (uint64_t n = 0; n < keys; n++)
		if (!there[n])
			assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, n), n),
				0);
	tree_check(me.worker, index, keys);
	unmake(index);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__warm_cache__ONE_READ_AND_NO_RPC),
		cmocka_unit_test(lookup__no_cache__ONE_RPC_AND_ONE_READ),
		cmocka_unit_test(leaves__of_one_part__ON_ALL_SERVERS),
		cmocka_unit_test(collect__beside_a_warm_cache__STALE_ADDRESSES_DO_NO_HARM),
		cmocka_unit_test(lookup__name_of_a_dead_leaf__TAKES_IT_AWAY_AND_FINDS),
		cmocka_unit_test(
			leaf__that_nobody_has_reported__IS_FOUND_AND_NAMED_BY_THE_COLLECTOR),
		cmocka_unit_test(report__of_a_leaf_that_has_died__IS_TAKEN_BACK),
		cmocka_unit_test(create_and_drop__again_and_again__MEMORY_COMES_BACK),
		/* Last: what it cuts memory into stays so. */
		cmocka_unit_test(insert__no_room_for_names__REFUSED_AND_WHAT_IS_THERE_IS_NEAR),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
