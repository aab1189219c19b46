/* SPDX-License-Identifier: Apache-2.0 */
/* A dropped index, for clients that have it open with warm caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "index/index_internal.h"
#include "tests/lib/design.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define KEYS test_scaled_least(4000, 800)

TEST_CLUSTER_OF_TWO(2, 2 * MIB, 1 * MIB, 200)

static struct nam_index *
open_warm(const char *name)
{
	struct nam_index *index = tree_open(other.worker, name, 1 * MIB);
	uint64_t payload;

	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(nam_index_lookup(other.worker, index, tree_key(index, n),
					 &payload), 0);
	return index;
}

/* Blocks come from a worker's block cache, and go back there. */
static void
create__name_is_taken__LEAVES_NOTHING_BEHIND(void **state)
{
	struct nam_index_options options;
	const char *name;
	uint64_t before;

	(void)state;
	nam_index_options_init(&options);
	options.node_bytes = 1024;
	tree_design_set(me.client->servers_count, &options);
	name = tree_create(me.worker, &(struct tree_options){ .node_bytes = 1024 });
	assert_int_equal(nam_index_create(me.worker, name, &options), -NAM_E_INDEX_EXISTS);
	before = member_sees_used(&me);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(nam_index_create(me.worker, name, &options),
			-NAM_E_INDEX_EXISTS);
	assert_int_equal(member_sees_used(&me), before);
	assert_int_equal(nam_index_drop(me.worker, name), 0);
}

/* Every kind of point operation; the cache says where each key's leaf was. */
static void
assert_gone(struct nam_index *index, uint64_t n)
{
	const void *key = tree_key(index, n);
	uint64_t payload;

	assert_int_equal(nam_index_upsert(other.worker, index, key, 1), -NAM_E_DROPPED);
	assert_int_equal(nam_index_insert(other.worker, index, key, 1), -NAM_E_DROPPED);
	assert_int_equal(nam_index_update(other.worker, index, key, 1), -NAM_E_DROPPED);
	assert_int_equal(nam_index_delete(other.worker, index, key), -NAM_E_DROPPED);
	assert_int_equal(nam_index_lookup(other.worker, index, key, &payload), -NAM_E_DROPPED);
}

static void
drop__another_client_has_a_warm_cache__ITS_OPERATIONS_SAY_DROPPED(void **state)
{
	struct nam_index *index, *warm;

	(void)state;
	index = tree_new(me.worker, &(struct tree_options){ .node_bytes = 256 }, 0);
	tree_fill(me.worker, index, 0, KEYS, 1);
	warm = open_warm(index->name);
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	for (uint64_t n = 0; n < KEYS; n += KEYS / 7)
		assert_gone(warm, n);
	nam_index_close(warm);
	nam_index_close(index);
}

/* Blocks of the dropped index serve the next one, while the other client goes on with the first. */
static void
drop__memory_serves_another_index__STALE_WRITERS_DO_NOT_REACH_IT(void **state)
{
	(void)state;
	for (unsigned round = 0; round < test_scaled_least(6, 2); round++) {
		struct tree_options options = { .node_bytes = 256 };
		struct nam_index *index = tree_new(me.worker, &options, 0), *warm, *next;

		tree_fill(me.worker, index, 0, KEYS, 1);
		warm = open_warm(index->name);
		assert_int_equal(nam_index_drop(me.worker, index->name), 0);
		nam_index_close(index);

		next = tree_new(me.worker, &options, 0);
		for (uint64_t n = 0; n < KEYS; n++) {
			assert_int_equal(nam_index_insert(me.worker, next, tree_key(next, n),
						 n), 0);
			assert_int_not_equal(nam_index_upsert(other.worker, warm,
						     tree_key(warm, n), round), 0);
		}
		tree_check(me.worker, next, KEYS);
		assert_int_equal(nam_index_drop(me.worker, next->name), 0);
		nam_index_close(next);
		nam_index_close(warm);
	}
}

/* A locked node is not given back, and counted. */
static void
drop__a_node_is_locked__ITS_BLOCK_IS_LOST(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	struct nam_index *locker = tree_open(other.worker, index->name, 0);
	struct nam__held held = { .image = nam_buffer_take(other.worker, index->g.node_bytes) };
	struct nam__key key;

	(void)state;
	tree_fill(me.worker, index, 0, KEYS, 1);
	nam__key_encode(&index->g, tree_key(index, KEYS / 2), 0, &key);
	nam__op_begin(other.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_covering(other.worker, locker, key.w, 0, &held), 0);
	nam__op_end(other.worker);
	assert_int_equal(nam_client_blocks_lost(me.client), 0);
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	assert_int_equal(nam_client_blocks_lost(me.client), 1);
	assert_int_equal(nam__unlock(other.worker, &held), 0);
	nam_buffer_give(other.worker, held.image, index->g.node_bytes);
	nam_index_close(locker);
	nam_index_close(index);
}

/* Others of the worker's fibers may succeed before the message is read, so it stays. */
static void
worker_diag__after_success_and_plain_codes__STAYS(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0), *none;
	struct nam_worker *fresh;
	uint64_t payload;

	(void)state;
	assert_int_equal(nam_worker_open(me.client, &fresh, NULL), 0);
	tree_fill(fresh, index, 0, 10, 1);
	assert_int_equal(nam_index_lookup(fresh, index, tree_key(index, 99), &payload),
		-NAM_E_NOTFOUND);
	assert_string_equal(nam_worker_diag(fresh), "");
	assert_int_equal(nam_index_open(fresh, "nowhere", 0, &none), -NAM_E_NOINDEX);
	assert_non_null(strstr(nam_worker_diag(fresh), "'nowhere'"));
	assert_int_equal(nam_index_lookup(fresh, index, tree_key(index, 5), &payload), 0);
	assert_int_equal(nam_index_lookup(fresh, index, tree_key(index, 99), &payload),
		-NAM_E_NOTFOUND);
	assert_non_null(strstr(nam_worker_diag(fresh), "'nowhere'"));
	assert_int_equal(nam_index_open(fresh, "elsewhere", 0, &none), -NAM_E_NOINDEX);
	assert_non_null(strstr(nam_worker_diag(fresh), "'elsewhere'"));
	nam_worker_close(fresh);
	nam_index_close(index);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__name_is_taken__LEAVES_NOTHING_BEHIND),
		cmocka_unit_test(drop__another_client_has_a_warm_cache__ITS_OPERATIONS_SAY_DROPPED),
		cmocka_unit_test(drop__memory_serves_another_index__STALE_WRITERS_DO_NOT_REACH_IT),
		cmocka_unit_test(worker_diag__after_success_and_plain_codes__STAYS),
	};
	/* Promises of the fine-grained design alone. */
	const struct CMUnitTest fine[] = {
		cmocka_unit_test(drop__a_node_is_locked__ITS_BLOCK_IS_LOST),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	if (tree_is_fine())
		failed += cmocka_run_group_tests(fine, start, stop);
	return failed;
}
