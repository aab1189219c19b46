/* SPDX-License-Identifier: Apache-2.0 */
/* An index part of which is gone: whatever is asked of it ends soon, and with an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define KEYS test_scaled_least(4000, 400)
#define LOCK_MS 100u
/* A few times LOCK_MS, on processors that others use, too. */
#define BOUND_NS test_bound_ns(2000000000)

TEST_CLUSTER(2, 8 * MIB, 1 * MIB, LOCK_MS)

/* As a memory server leaves it that has started anew. */
static void
wipe(const struct nam_index *index, struct nam_gaddr at)
{
	uint64_t *zeros = nam_buffer_take(me.worker, index->g.node_bytes);
	struct nam_batch batch;

	memset(zeros, 0, index->g.node_bytes);
	nam_batch_init(&batch, me.worker);
	nam_batch_write(&batch, at, 0, zeros, index->g.node_bytes);
	assert_int_equal(nam_batch_await(&batch), 0);
	nam_buffer_give(me.worker, zeros, index->g.node_bytes);
}

static struct nam_gaddr
node_of(struct nam_index *index, uint64_t number, unsigned level)
{
	uint64_t *image = nam_buffer_take(me.worker, index->g.node_bytes);
	struct nam__key key;
	struct nam_gaddr at;

	nam__key_encode(&index->g, tree_key(index, number), 0, &key);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__read_covering(me.worker, index, key.w, level, image, &at), 0);
	nam__op_end(me.worker);
	nam_buffer_give(me.worker, image, index->g.node_bytes);
	return at;
}

/* A tree without its node of that level in the middle. */
static struct nam_index *
damaged_tree(unsigned level)
{
	struct nam_index *index;

	index = tree_new(me.worker, &(struct tree_options){ .node_bytes = 256 }, 0);
	tree_fill(me.worker, index, 0, KEYS, 1);
	wipe(index, node_of(index, KEYS / 2, level));
	return index;
}

static void
assert_soon(uint64_t start_ns)
{
	assert_in_range(nam_now_ns() - start_ns, 0, BOUND_NS);
}

static void
stat__node_gone__RESTART_SOON(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 2; level++) {
		struct nam_index *index = damaged_tree(level);
		uint64_t start_ns = nam_now_ns();
		struct nam_index_stat stat;

		assert_true(nam_err_is(nam_index_stat(me.worker, index, &stat), NAM_E_RESTART));
		assert_soon(start_ns);
		nam_index_close(index);
	}
}

static void
point_operations__node_gone__RESTART_SOON(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 2; level++) {
		struct nam_index *index = damaged_tree(level);
		const void *key = tree_key(index, KEYS / 2);
		uint64_t start_ns = nam_now_ns(), payload;

		assert_true(nam_err_is(nam_index_lookup(me.worker, index, key, &payload),
			NAM_E_RESTART));
		assert_soon(start_ns);
		start_ns = nam_now_ns();
		assert_true(nam_err_is(nam_index_upsert(me.worker, index, key, 1), NAM_E_RESTART));
		assert_soon(start_ns);
		start_ns = nam_now_ns();
		assert_true(nam_err_is(nam_index_delete(me.worker, index, key), NAM_E_RESTART));
		assert_soon(start_ns);
		nam_index_close(index);
	}
}

/* The other bound: so many tries, where no time-out ends before. */
static void
lookup__node_gone_and_much_timeout__RESTART_AFTER_ALL_TRIES(void **state)
{
	struct member patient = member_join(cluster, "patient", 600000);
	struct nam_index *index = damaged_tree(0), *its;
	uint64_t payload;

	(void)state;
	its = tree_open(patient.worker, index->name, 0);
	assert_int_equal(nam_index_lookup(patient.worker, its, tree_key(its, KEYS / 2), &payload),
		-NAM_E_RESTART_DEAD);
	nam_index_close(its);
	nam_index_close(index);
	member_leave(&patient);
}

static void
collect__node_gone__ENDS_SOON(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 2; level++) {
		struct nam_index *index = damaged_tree(level);
		uint64_t start_ns = nam_now_ns();
		struct nam_collect_stat stat;

		int rc = nam_index_collect(me.worker, index, &stat);

		(void)rc;	/* it may have found nothing to do elsewhere */
		assert_soon(start_ns);
		nam_index_close(index);
	}
}

static void
drop__node_gone__NAME_GONE_SOON(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 2; level++) {
		struct nam_index *index = damaged_tree(level), *again;
		uint64_t start_ns = nam_now_ns();

		assert_int_equal(nam_index_drop(me.worker, index->name), -NAM_E_LOST);
		member_says(&me, "cannot be read");
		assert_soon(start_ns);
		assert_int_equal(nam_index_open(me.worker, index->name, 0, &again),
			-NAM_E_NOINDEX);
		nam_index_close(index);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat__node_gone__RESTART_SOON),
		cmocka_unit_test(point_operations__node_gone__RESTART_SOON),
		cmocka_unit_test(lookup__node_gone_and_much_timeout__RESTART_AFTER_ALL_TRIES),
		cmocka_unit_test(collect__node_gone__ENDS_SOON),
		cmocka_unit_test(drop__node_gone__NAME_GONE_SOON),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
