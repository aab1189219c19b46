/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/maintain/maintain.h"
#include "index/validate.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define LOCK_MS 200u
/* The slack of "bounded by lock_timeout_ms" on shared processors. */
#define SLACK_NS test_bound_ns(2000000000)

TEST_CLUSTER(2, test_memory(64 * MIB), 0, LOCK_MS)

/* ---- a tree, and one of its leaves -------------------------------------------------------- */

struct fixture {
	struct nam_index *index;
	uint64_t *image;
	struct nam__key key;
	struct nam_gaddr leaf;		/* the one that covers `key`; `image` is its image */
};

static struct nam_gaddr
leaf_of(struct fixture *fixture, uint64_t number)
{
	struct nam_gaddr at;

	nam__key_encode(&fixture->index->g, tree_key(fixture->index, number), 0, &fixture->key);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__read_covering(me.worker, fixture->index, fixture->key.w, 0,
				 fixture->image, &at), 0);
	nam__op_end(me.worker);
	return at;
}

static void
fixture_open(struct fixture *fixture, uint64_t keys)
{
	fixture->index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	fixture->image = nam_buffer_take(me.worker, fixture->index->g.node_bytes);
	tree_fill(me.worker, fixture->index, 0, keys, 1);
	fixture->leaf = leaf_of(fixture, keys / 2);
}

static void
fixture_close(struct fixture *fixture)
{
	nam_buffer_give(me.worker, fixture->image, fixture->index->g.node_bytes);
	nam_index_close(fixture->index);
}

/* nam__node_read() of the leaf, as an operation would call it. */
static int
read_leaf(struct fixture *fixture, struct nam_gaddr at, int level)
{
	int rc;

	nam__op_begin(me.worker, NAM_OP_OTHER);
	rc = nam__node_read(me.worker, fixture->index, at, level, fixture->image); /* SUSPENDS */
	nam__op_end(me.worker);
	return rc;
}

/* Overwrite one word of the leaf without its lock, unknown to clients. */
static void
leaf_poke(struct fixture *fixture, uint32_t word, uint64_t value)
{
	uint64_t *local = nam_buffer_take(me.worker, 8);
	struct nam_batch batch;

	*local = value;
	nam_batch_init(&batch, me.worker);
	nam_batch_write(&batch, fixture->leaf, 8 * word, local, 8);
	assert_int_equal(nam_batch_await(&batch), 0);
	nam_buffer_give(me.worker, local, 8);
}

static uint64_t
leaf_peek(struct fixture *fixture, uint32_t word)
{
	uint64_t *image = nam_buffer_take(me.worker, fixture->index->g.node_bytes), value;

	assert_int_equal(nam_read_await(me.worker, fixture->leaf, image,
				 fixture->index->g.node_bytes), 0);
	value = image[word];
	nam_buffer_give(me.worker, image, fixture->index->g.node_bytes);
	return value;
}

static uint32_t
rear_of(const struct fixture *fixture)
{
	return fixture->index->g.node_words - 1;
}

/* ---- reading ------------------------------------------------------------------------------ */

static void
node_read__whole_image__ACCEPTED(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	assert_int_equal(read_leaf(&fixture, fixture.leaf, 0), 0);
	assert_int_equal(read_leaf(&fixture, fixture.leaf, -1), 0);
	assert_int_equal(nam__node_type(fixture.image), NAM__NODE_LEAF);
	assert_int_equal(fixture.image[NAM__WORD_HASH],
		nam__node_hash(&fixture.index->g, fixture.image, fixture.leaf));
	fixture_close(&fixture);
}

static void
node_read__other_generation_or_level__RESTART_DEAD(void **state)
{
	struct fixture fixture;
	struct nam_gaddr stale;

	(void)state;
	fixture_open(&fixture, 100);
	stale = nam_gaddr_tagged(fixture.leaf, (uint16_t)(nam_gaddr_tag(fixture.leaf) - 1));
	assert_int_equal(read_leaf(&fixture, stale, 0), -NAM_E_RESTART_DEAD);
	assert_int_equal(read_leaf(&fixture, fixture.leaf, 1), -NAM_E_RESTART_DEAD);
	fixture_close(&fixture);
}

static void
node_read__address_outside_of_memory__NOREGION_OR_ACCESS(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 10);
	assert_int_equal(read_leaf(&fixture, nam_gaddr_make(77, 64, 1), 0), -NAM_E_NOREGION);
	fixture_close(&fixture);
}

static void
node_read__impossible_counts_in_a_whole_image__REMOTE_CORRUPT(void **state)
{
	uint64_t shape, hash;
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	shape = fixture.image[NAM__WORD_SHAPE];
	hash = fixture.image[NAM__WORD_HASH];
	/* Front and rear agree, and so does the hash: the image passes for whole. */
	fixture.image[NAM__WORD_SHAPE] |= 0xffffull << 48;
	leaf_poke(&fixture, NAM__WORD_SHAPE, fixture.image[NAM__WORD_SHAPE]);
	leaf_poke(&fixture, NAM__WORD_HASH,
		nam__node_hash(&fixture.index->g, fixture.image, fixture.leaf));
	assert_int_equal(read_leaf(&fixture, fixture.leaf, 0), -NAM_E_REMOTE_CORRUPT);
	leaf_poke(&fixture, NAM__WORD_SHAPE, shape);
	leaf_poke(&fixture, NAM__WORD_HASH, hash);
	fixture_close(&fixture);
}

static int
validate(const struct fixture *fixture)
{
	return nam__node_validate(fixture->index, fixture->image, fixture->leaf, 0, NAM__NODE_LEAF);
}

static void
node_validate__any_word_changed__TORN_WHERE_THE_HASH_DECIDES(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	fixture.index->ordered_loads = false;
	assert_int_equal(validate(&fixture), 0);
	for (uint32_t word = 1; word < fixture.index->g.node_words; word++) {
		/* Of the shape, the counts: the generation is the next test's. */
		unsigned bit = word == NAM__WORD_SHAPE ? 35 : word % 64;

		fixture.image[word] ^= 1ull << bit;
		assert_int_equal(validate(&fixture), -NAM_E_RESTART_TORN);
		fixture.image[word] ^= 1ull << bit;
	}
	fixture_close(&fixture);
}

/* As a block looks that serves another index by now, whose seed is another. */
static void
node_validate__other_generation_and_no_hash_of_ours__RESTART_DEAD(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	fixture.index->ordered_loads = false;
	fixture.image[NAM__WORD_HASH] ^= 1;
	for (unsigned bit = 0; bit < 16; bit++) {
		fixture.image[NAM__WORD_SHAPE] ^= 1ull << bit;
		assert_int_equal(validate(&fixture), -NAM_E_RESTART_DEAD);
		fixture.image[NAM__WORD_SHAPE] ^= 1ull << bit;
	}
	fixture_close(&fixture);
}

/* A writer that is half-way through: rear word new, front word old.  It finishes after a while. */
struct slow_writer {
	struct fixture *fixture;
	uint64_t rear;
	unsigned pauses;
	bool done;
};

static void
finish_slowly(void *arg)
{
	struct slow_writer *writer = arg;

	for (unsigned i = 0; i < writer->pauses; i++)
		nam__pause_await(me.worker, 1000000); /* SUSPENDS */
	leaf_poke(writer->fixture, rear_of(writer->fixture), writer->rear); /* SUSPENDS */
	writer->done = true;
}

struct reader {
	struct fixture *fixture;
	const struct slow_writer *writer;
	bool too_early;
	int rc;
};

static void
read_for(void *arg)
{
	struct reader *reader = arg;

	reader->rc = read_leaf(reader->fixture, reader->fixture->leaf, 0); /* SUSPENDS */
	reader->too_early = !reader->writer->done;
}

static void
node_read__torn_for_a_moment__WAITS_FOR_THE_WHOLE_IMAGE(void **state)
{
	struct fixture fixture;
	struct slow_writer writer = { &fixture, 0, 10, false };
	struct reader reader = { &fixture, &writer, false, -1 };
	uint64_t restarts;

	(void)state;
	fixture_open(&fixture, 100);
	restarts = nam_worker_counters(me.worker, NAM_OP_OTHER)->restarts[NAM_RESTART_TORN];
	writer.rear = fixture.image[rear_of(&fixture)];
	leaf_poke(&fixture, rear_of(&fixture), writer.rear + (1ull << 16));
	assert_int_equal(nam_worker_spawn(me.worker, read_for, &reader), 0);
	assert_int_equal(nam_worker_spawn(me.worker, finish_slowly, &writer), 0);
	nam_worker_run(me.worker);
	assert_int_equal(reader.rc, 0);
	assert_false(reader.too_early);
	assert_true(nam_worker_counters(me.worker, NAM_OP_OTHER)->restarts[NAM_RESTART_TORN] >
		    restarts);
	fixture_close(&fixture);
}

static void
node_read__torn_for_ever__RESTART_TORN_IN_BOUNDED_TIME(void **state)
{
	struct nam__held held;
	struct fixture fixture;
	uint64_t rear, start_ns, payload;

	(void)state;
	fixture_open(&fixture, 100);
	rear = fixture.image[rear_of(&fixture)];
	leaf_poke(&fixture, rear_of(&fixture), rear + (1ull << 16));
	start_ns = nam_now_ns();
	assert_int_equal(read_leaf(&fixture, fixture.leaf, 0), -NAM_E_RESTART_TORN);
	assert_true(nam_now_ns() - start_ns < LOCK_MS * 1000000ull + SLACK_NS);
	start_ns = nam_now_ns();
	assert_int_equal(nam_index_lookup(me.worker, fixture.index, tree_key(fixture.index, 50),
				 &payload), -NAM_E_RESTART_TORN);
	assert_true(nam_now_ns() - start_ns < LOCK_MS * 1000000ull + SLACK_NS);
	/* Under the lock no writer is active: then it is damage, and reported. */
	held.image = fixture.image;
	assert_int_equal(nam__lock_node(me.worker, fixture.index, fixture.leaf, 0, &held),
		-NAM_E_REMOTE_CORRUPT);
	assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), NAM_LOCK_FREE);
	assert_non_null(strstr(nam_worker_diag(me.worker), "does not verify"));
	leaf_poke(&fixture, rear_of(&fixture), rear);
	tree_check(me.worker, fixture.index, 100);
	fixture_close(&fixture);
}

/* Take the leaf's lock in the name of a client that then dies. */
static void
lock_and_die(struct fixture *fixture, uint16_t *ret_client_id)
{
	struct member dead = member_join(cluster, "dead-man", LOCK_MS);
	struct nam__held held = { .image = nam_buffer_take(dead.worker, 256) };

	*ret_client_id = nam_client_id(dead.client);
	nam__op_begin(dead.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(dead.worker, fixture->index, fixture->leaf, 0, &held), 0);
	nam__op_end(dead.worker);
	member_leave(&dead);
}

static void
node_read__torn_by_a_client_that_died__LOCK_ORPHANED_NAMES_IT(void **state)
{
	struct fixture fixture;
	uint64_t rear, start_ns, payload = 77;
	uint16_t client_id;
	char text[64];

	(void)state;
	fixture_open(&fixture, 100);
	rear = fixture.image[rear_of(&fixture)];
	lock_and_die(&fixture, &client_id);
	leaf_poke(&fixture, rear_of(&fixture), rear + (1ull << 16));
	leaf_poke(&fixture, NAM__WORD_HASH, ~fixture.image[NAM__WORD_HASH]);
	start_ns = nam_now_ns();
	assert_int_equal(nam_index_lookup(me.worker, fixture.index, tree_key(fixture.index, 50),
				 &payload), -NAM_E_LOCK_ORPHANED);
	assert_true(nam_now_ns() - start_ns < LOCK_MS * 1000000ull + SLACK_NS);
	assert_int_equal(payload, 77);
	(void)snprintf(text, sizeof(text), "client %u", client_id);
	assert_non_null(strstr(nam_worker_diag(me.worker), text));
	assert_non_null(strstr(nam_worker_diag(me.worker), "dead-man"));
	fixture_close(&fixture);
}

/* ---- locking and writing ------------------------------------------------------------------ */

static void
lock_covering__any_key__HOLDS_THE_NODE_THAT_COVERS_IT(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 200);
	for (uint64_t n = 0; n < 200; n += 7) {
		struct nam__held held = { .image = fixture.image };

		fixture.leaf = leaf_of(&fixture, n);
		nam__op_begin(me.worker, NAM_OP_OTHER);
		assert_int_equal(nam__lock_covering(me.worker, fixture.index, fixture.key.w, 0,
					 &held), 0);
		assert_true(nam_gaddr_same(held.at, fixture.leaf));
		assert_false(nam__node_below(held.image, &fixture.index->g, fixture.key.w));
		assert_false(nam__node_beyond(held.image, &fixture.index->g, fixture.key.w));
		assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), held.lock.word);
		assert_int_equal(nam_lock_owner(held.lock.word), nam_client_id(me.client));
		assert_int_equal(nam__unlock(me.worker, &held), 0);
		assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), NAM_LOCK_FREE);
		nam__op_end(me.worker);
	}
	fixture_close(&fixture);
}

static void
lock_covering__no_such_level__RESTART_PARENT(void **state)
{
	struct nam__held held;
	struct fixture fixture;
	struct nam_gaddr at;

	(void)state;
	fixture_open(&fixture, 100);
	held.image = fixture.image;
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_covering(me.worker, fixture.index, fixture.key.w, 9, &held),
		-NAM_E_RESTART_PARENT);
	assert_int_equal(nam__read_covering(me.worker, fixture.index, fixture.key.w, 9,
				 fixture.image, &at), -NAM_E_RESTART_PARENT);
	nam__op_end(me.worker);
	fixture_close(&fixture);
}

static void
lock_node__stale_pointer__RESTART_DEAD_AND_NOTHING_HELD(void **state)
{
	struct nam__held held;
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	held.image = fixture.image;
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(me.worker, fixture.index,
				 nam_gaddr_tagged(fixture.leaf, 4711), 0, &held),
		-NAM_E_RESTART_DEAD);
	nam__op_end(me.worker);
	assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), NAM_LOCK_FREE);
	fixture_close(&fixture);
}

static void
write_unlock__one_entry__NEXT_VERSION_WHOLE_AND_FREE(void **state)
{
	struct nam__held held;
	struct fixture fixture;
	struct nam__dirty dirty;
	uint64_t version, *entry;

	(void)state;
	fixture_open(&fixture, 100);
	held.image = fixture.image;
	version = nam__node_version(fixture.image);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(me.worker, fixture.index, fixture.leaf, 0, &held), 0);
	entry = nam__leaf_entry(&fixture.index->g, held.image, 1);
	entry[1] = 0xabcdef;
	dirty.first = (uint32_t)(entry + 1 - held.image);
	dirty.end = dirty.first + 1;
	/* The first image is written and the lock kept, the second is written and the lock not. */
	assert_int_equal(nam__write_keep(me.worker, fixture.index, &held, dirty,
				 NAM__HEADER_COUNTS), 0);
	assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), held.lock.word);
	entry[1] = 0xfedcba;
	assert_int_equal(nam__write_unlock(me.worker, fixture.index, &held, dirty,
				 NAM__HEADER_COUNTS), 0);
	nam__op_end(me.worker);
	assert_int_equal(read_leaf(&fixture, fixture.leaf, 0), 0);
	assert_int_equal(nam__node_version(fixture.image), version + 2);
	assert_int_equal(fixture.image[NAM__WORD_LOCK], NAM_LOCK_FREE);
	assert_int_equal(fixture.image[NAM__WORD_HASH],
		nam__node_hash(&fixture.index->g, fixture.image, fixture.leaf));
	assert_int_equal(nam__leaf_entry(&fixture.index->g, fixture.image, 1)[1], 0xfedcba);
	fixture_close(&fixture);
}

static void
unlock__lock_stolen_meanwhile__FENCED(void **state)
{
	struct nam__held held;
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	held.image = fixture.image;
	nam__op_begin(me.worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_node(me.worker, fixture.index, fixture.leaf, 0, &held), 0);
	leaf_poke(&fixture, NAM__WORD_LOCK, nam_lock_word(99, 9, 9));
	assert_int_equal(nam__unlock(me.worker, &held), -NAM_E_FENCED);
	nam__op_end(me.worker);
	/* And the thief still has its lock. */
	assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), nam_lock_word(99, 9, 9));
	leaf_poke(&fixture, NAM__WORD_LOCK, NAM_LOCK_FREE);
	fixture_close(&fixture);
}

/* ---- a fabric that never shows the lock --------------------------------------------------- */

/*
 * Replaces the worker's poll: each completion finds the image as it was before the CAS.  The
 * tenth one lets a thief in, if there is one.
 */
static struct {
	int (*cq_poll)(struct nam_cq *, struct nam_wc *, unsigned);
	uint64_t *image;
	unsigned completions;
	struct nam_worker *thief;
	struct nam_gaddr at;
	uint64_t *stolen;
} blind;

static int
blind_poll(struct nam_cq *cq, struct nam_wc *wcs, unsigned max)
{
	int count = blind.cq_poll(cq, wcs, max);

	if (count <= 0)
		return count;
	blind.image[NAM__WORD_LOCK] = NAM_LOCK_FREE;
	if (++blind.completions == 10 && blind.thief &&
		nam_write_await(blind.thief, blind.at, blind.stolen, 8))
		abort();
	return count;
}

/* One look at the leaf by a worker that polls so, by the queue or beside it. */
static int
lock_blindly(struct fixture *fixture, bool unqueued, struct nam_worker *thief)
{
	struct nam__held held = { .image = fixture->image, .lock.word =
		nam_lock_word(me.client->id, me.client->incarnation, 1u << 30) };
	int rc;

	blind.cq_poll = me.worker->cq_poll;
	blind.image = fixture->image;
	blind.completions = 0;
	blind.thief = thief;
	blind.at = nam_gaddr_untagged(fixture->leaf);
	nam__op_begin(me.worker, NAM_OP_OTHER);
	me.worker->cq_poll = blind_poll;
	if (unqueued)
		rc = nam__unqueued_lock(me.worker, fixture->index, fixture->leaf, 0, 0,
			&held); /* SUSPENDS */
	else
		rc = nam__lock_node(me.worker, fixture->index, fixture->leaf, 0,
			&held); /* SUSPENDS */
	me.worker->cq_poll = blind.cq_poll;
	nam__op_end(me.worker);
	return rc;
}

static void
lock__no_image_ever_shows_it__FABRIC_PROTOCOL_AND_NOTHING_HELD(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	for (unsigned unqueued = 0; unqueued < 2; unqueued++) {
		struct nam_op_counters before = *nam_worker_counters(me.worker, NAM_OP_OTHER), now;

		assert_int_equal(lock_blindly(&fixture, unqueued, NULL), -NAM_E_FABRIC_PROTOCOL);
		assert_non_null(strstr(nam_worker_diag(me.worker), "did not show it"));
		now = *nam_worker_counters(me.worker, NAM_OP_OTHER);
		assert_int_equal(now.restarts[NAM_RESTART_ORDER] -
				 before.restarts[NAM_RESTART_ORDER], NAM__LOCK_READS_MAX);
		assert_int_equal(now.round_trips - before.round_trips, NAM__LOCK_READS_MAX + 1);
		assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), NAM_LOCK_FREE);
	}
	tree_fill(me.worker, fixture.index, 100, 200, 1);
	tree_check(me.worker, fixture.index, 200);
	fixture_close(&fixture);
}

static void
lock__stolen_before_an_image_shows_it__FENCED(void **state)
{
	struct member thief = member_join(cluster, "thief", 0);
	struct fixture fixture;

	(void)state;
	fixture_open(&fixture, 100);
	blind.stolen = nam_buffer_take(thief.worker, 8);
	*blind.stolen = nam_lock_word(99, 9, 9);
	for (unsigned unqueued = 0; unqueued < 2; unqueued++) {
		assert_int_equal(lock_blindly(&fixture, unqueued, thief.worker), -NAM_E_FENCED);
		assert_non_null(strstr(nam_worker_diag(me.worker), "overwritten"));
		/* And the thief still has its lock. */
		assert_int_equal(leaf_peek(&fixture, NAM__WORD_LOCK), nam_lock_word(99, 9, 9));
		leaf_poke(&fixture, NAM__WORD_LOCK, NAM_LOCK_FREE);
	}
	nam_buffer_give(thief.worker, blind.stolen, 8);
	member_leave(&thief);
	fixture_close(&fixture);
}

/* ---- pointers that have grown old --------------------------------------------------------- */

#define KEYS test_scaled_least(3000, 900)	/* enough for a tree of height 3 or 4 */

/*
 * A handle opened on a young tree: what it takes for the root was a leaf.  It must not go on
 * walking along the leaves for ever.
 */
static void
lookup__handle_older_than_the_tree__LEARNS_THE_ROOT(void **state)
{
	static const uint64_t caches[] = { 0, 1 * MIB };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct nam_index *writer =
			tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
		struct nam_index *reader = tree_open(me.worker, writer->name, caches[i]);
		struct nam_op_counters before;
		uint64_t payload;

		assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, 0), &payload),
			-NAM_E_NOTFOUND);
		tree_fill(me.worker, writer, 0, KEYS, 1);
		assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, KEYS - 1),
					 &payload), 0);
		before = *nam_worker_counters(me.worker, NAM_OP_LOOKUP);
		for (uint64_t n = 0; n < KEYS; n += KEYS / 30)
			assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, n),
						 &payload), 0);
		/* Even without a cache a handful of nodes each. */
		assert_true(nam_worker_counters(me.worker, NAM_OP_LOOKUP)->round_trips -
				    before.round_trips < 30 * 8);
		nam_index_close(reader);
		nam_index_close(writer);
	}
}

/* Another handle splits everything: each stale pointer costs something once, and then no more. */
static void
lookup__cache_made_stale_by_splits__IS_REPAIRED(void **state)
{
	struct nam_index *writer = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	struct nam_index *reader = tree_open(me.worker, writer->name, 1 * MIB);
	struct nam_op_counters before;
	uint64_t payload;

	(void)state;
	tree_fill(me.worker, writer, 0, KEYS, 10);
	for (unsigned round = 0; round < 3; round++) {
		if (round == 1)
			for (uint64_t n = 0; n < KEYS; n += 10)
				tree_fill(me.worker, writer, n + 1, n + 10, 1);
		before = *nam_worker_counters(me.worker, NAM_OP_LOOKUP);
		for (uint64_t n = 0; n < KEYS; n += 10) {
			assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, n),
						 &payload), 0);
			assert_int_equal(payload, n * 10 + 1);
		}
	}
	/* The last round met no surprises: one round trip each. */
	assert_int_equal(nam_worker_counters(me.worker, NAM_OP_LOOKUP)->round_trips -
				 before.round_trips, KEYS / 10);
	nam_index_close(reader);
	nam_index_close(writer);
}

/* Memory of dead nodes serves another index, under pointers that a reader has cached. */
static void
merge_under_a_cache(bool ordered_loads)
{
	struct nam_index *writer = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	struct nam_index *reader = tree_open(me.worker, writer->name, 1 * MIB);
	struct nam_index *other;
	struct nam_collect_stat stat = { 0 };
	uint64_t payload, merges = 0, retired = 0, reusable = 0;

	writer->ordered_loads &= ordered_loads;
	reader->ordered_loads &= ordered_loads;
	tree_fill(me.worker, writer, 0, KEYS, 1);
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, n),
					 &payload), 0);
	for (uint64_t n = 0; n < KEYS; n++)
		if (n % 20)
			assert_int_equal(
				nam_index_delete(me.worker, writer, tree_key(writer, n)), 0);
	/* Six passes; then until the clocks have passed by what was retired. */
	for (unsigned pass = 0; pass < 6 || (pass < 1000 && reusable < retired); pass++) {
		assert_int_equal(nam_index_collect(me.worker, writer, &stat), 0);
		merges += stat.merges;
		retired += stat.nodes_retired;
		reusable += stat.nodes_reusable;
		nam_sleep_ns(1000000);
	}
	assert_true(merges > KEYS / 30);
	assert_int_equal(reusable, retired);
	other = tree_new(me.worker, &(struct tree_options){ 0 }, 1 * MIB);
	tree_fill(me.worker, other, 0, KEYS, 1);
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(nam_index_lookup(me.worker, reader, tree_key(reader, n), &payload),
			n % 20 ? -NAM_E_NOTFOUND : 0);
	tree_check(me.worker, reader, KEYS / 20);
	nam_index_close(other);
	nam_index_close(reader);
	nam_index_close(writer);
}

static void
lookup__cache_made_stale_by_merges__IS_REPAIRED(void **state)
{
	(void)state;
	merge_under_a_cache(true);
	/* Where hashes decide: another index's nodes do not verify, but they are not torn. */
	merge_under_a_cache(false);
}

static void
any_operation__index_was_dropped__DROPPED(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	struct nam_index *other = tree_new(me.worker, &(struct tree_options){ 0 }, 0);
	struct nam_collect_stat stat;
	uint64_t payload, filled = 0;
	int rc = 0;

	(void)state;
	tree_fill(me.worker, index, 0, 500, 1);
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	/* "Soon after": once its nodes are in use elsewhere at the latest. */
	for (unsigned i = 0; i < 100 && rc != -NAM_E_DROPPED; i++) {
		tree_fill(me.worker, other, filled, filled + 100, 1);
		filled += 100;
		assert_int_equal(nam_index_collect(me.worker, other, &stat), 0);
		rc = nam_index_lookup(me.worker, index, tree_key(index, 5), &payload);
		assert_true(rc == 0 || rc == -NAM_E_DROPPED);
		nam_sleep_ns(10000000);
	}
	assert_int_equal(rc, -NAM_E_DROPPED);
	assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, 5), 5),
		-NAM_E_DROPPED);
	tree_check(me.worker, other, filled);
	nam_index_close(index);
	nam_index_close(other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_read__whole_image__ACCEPTED),
		cmocka_unit_test(node_read__other_generation_or_level__RESTART_DEAD),
		cmocka_unit_test(node_read__address_outside_of_memory__NOREGION_OR_ACCESS),
		cmocka_unit_test(node_read__impossible_counts_in_a_whole_image__REMOTE_CORRUPT),
		cmocka_unit_test(node_validate__any_word_changed__TORN_WHERE_THE_HASH_DECIDES),
		cmocka_unit_test(node_validate__other_generation_and_no_hash_of_ours__RESTART_DEAD),
		cmocka_unit_test(node_read__torn_for_a_moment__WAITS_FOR_THE_WHOLE_IMAGE),
		cmocka_unit_test(node_read__torn_for_ever__RESTART_TORN_IN_BOUNDED_TIME),
		cmocka_unit_test(node_read__torn_by_a_client_that_died__LOCK_ORPHANED_NAMES_IT),
		cmocka_unit_test(lock_covering__any_key__HOLDS_THE_NODE_THAT_COVERS_IT),
		cmocka_unit_test(lock_covering__no_such_level__RESTART_PARENT),
		cmocka_unit_test(lock_node__stale_pointer__RESTART_DEAD_AND_NOTHING_HELD),
		cmocka_unit_test(write_unlock__one_entry__NEXT_VERSION_WHOLE_AND_FREE),
		cmocka_unit_test(unlock__lock_stolen_meanwhile__FENCED),
		cmocka_unit_test(lock__no_image_ever_shows_it__FABRIC_PROTOCOL_AND_NOTHING_HELD),
		cmocka_unit_test(lock__stolen_before_an_image_shows_it__FENCED),
		cmocka_unit_test(lookup__handle_older_than_the_tree__LEARNS_THE_ROOT),
		cmocka_unit_test(lookup__cache_made_stale_by_splits__IS_REPAIRED),
		cmocka_unit_test(lookup__cache_made_stale_by_merges__IS_REPAIRED),
		cmocka_unit_test(any_operation__index_was_dropped__DROPPED),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
