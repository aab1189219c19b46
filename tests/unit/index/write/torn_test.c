/* SPDX-License-Identifier: Apache-2.0 */
/* torn_test.c -- a leaf that is written in part is completed by its redo record, or not (I20). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "index/node/redo.h"
#include "index/write/torn.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define WORDS_MAX 128u			/* of 1024 bytes */

TEST_CLUSTER(1, test_memory(64 * MIB), 0, 200)

/* A leaf whose last change has arrived but for one word, under a lock that stays. */
struct fixture {
	struct nam_index *index;
	struct nam__held held;
	uint32_t bytes, torn_word;
	uint64_t after[WORDS_MAX];	/* the whole image */
	uint64_t *image;
};

static void
poke(const struct fixture *fixture, uint32_t word, uint64_t value)
{
	uint64_t *local = nam_buffer_take(me.worker, 8);
	struct nam_batch batch;

	*local = value;
	nam_batch_init(&batch, me.worker);
	nam_batch_write(&batch, fixture->held.at, 8 * word, local, 8);
	assert_int_equal(nam_batch_await(&batch), 0);
	nam_buffer_give(me.worker, local, 8);
}

static void
image_read(struct fixture *fixture)
{
	assert_int_equal(nam_read_await(me.worker, nam_gaddr_untagged(fixture->held.at),
				 fixture->image, fixture->bytes), 0);
}

static void
begin(struct fixture *fixture)
{
	struct nam__held *held = &fixture->held;
	struct nam__dirty dirty;
	struct nam__key key;
	struct nam_gaddr at;
	uint64_t *entry, before;

	fixture->index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	fixture->bytes = fixture->index->g.node_bytes;
	assert_true(fixture->bytes <= sizeof(fixture->after));
	fixture->image = nam_buffer_take(me.worker, fixture->bytes);
	held->image = nam_buffer_take(me.worker, fixture->bytes);
	tree_fill(me.worker, fixture->index, 0, 10, 1);
	nam__key_encode(&fixture->index->g, tree_key(fixture->index, 5), 0, &key);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__read_covering(me.worker, fixture->index, key.w, 0, held->image, &at),
		0);
	assert_int_equal(nam__lock_node(me.worker, fixture->index, at, 0, held), 0);
	entry = nam__leaf_entry(&fixture->index->g, held->image, 1);
	before = entry[1];
	entry[1] = ~before;
	fixture->torn_word = (uint32_t)(entry + 1 - held->image);
	dirty = (struct nam__dirty){ fixture->torn_word, fixture->torn_word + 1 };
	assert_int_equal(nam__write_keep(me.worker, fixture->index, held, dirty,
				 NAM__HEADER_COUNTS), 0);
	image_read(fixture);
	memcpy(fixture->after, fixture->image, fixture->bytes);
	poke(fixture, fixture->torn_word, before);
	image_read(fixture);
}

static void
end(struct fixture *fixture)
{
	assert_int_equal(nam__unlock(me.worker, &fixture->held), 0);
	nam__op_end(me.worker);
	nam_buffer_give(me.worker, fixture->held.image, fixture->bytes);
	nam_buffer_give(me.worker, fixture->image, fixture->bytes);
	nam_index_close(fixture->index);
}

static int
complete(struct fixture *fixture, uint64_t dead)
{
	return nam__torn_complete(me.worker, fixture->index, fixture->held.at, dead,
		fixture->held.lock.word, fixture->image); /* SUSPENDS */
}

static void
torn_complete__record_of_the_change__WHOLE(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	assert_int_equal(complete(&fixture, fixture.held.lock.word), 0);
	assert_memory_equal(fixture.image, fixture.after, fixture.bytes);
	image_read(&fixture);
	assert_memory_equal(fixture.image, fixture.after, fixture.bytes);
	end(&fixture);
}

/* I20: nothing is written. */
static void
expect_untouched(struct fixture *fixture)
{
	image_read(fixture);
	assert_int_equal(fixture->image[fixture->torn_word], ~fixture->after[fixture->torn_word]);
	fixture->image[fixture->torn_word] = fixture->after[fixture->torn_word];
	assert_memory_equal(fixture->image, fixture->after, fixture->bytes);
	poke(fixture, fixture->torn_word, fixture->after[fixture->torn_word]);
}

static void
torn_complete__no_record__LOCK_ORPHANED_AND_NOTHING_WRITTEN(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	poke(&fixture, fixture.index->g.node_words + NAM__REDO_NOTE, 0);
	assert_int_equal(complete(&fixture, fixture.held.lock.word), -NAM_E_LOCK_ORPHANED);
	expect_untouched(&fixture);
	end(&fixture);
}

static void
torn_complete__another_lock_word__RESTART_LOCKED_AND_NOTHING_WRITTEN(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	assert_int_equal(complete(&fixture, nam_lock_word(99, 9, 9)), -NAM_E_RESTART_LOCKED);
	expect_untouched(&fixture);
	end(&fixture);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(torn_complete__record_of_the_change__WHOLE),
		cmocka_unit_test(torn_complete__no_record__LOCK_ORPHANED_AND_NOTHING_WRITTEN),
		cmocka_unit_test(
			torn_complete__another_lock_word__RESTART_LOCKED_AND_NOTHING_WRITTEN),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
