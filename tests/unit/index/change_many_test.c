/* SPDX-License-Identifier: Apache-2.0 */
/* change_many_test.c -- many changes in one call do what each would do alone, one after another. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define NUMBERS 300u			/* keys that there are */
#define PAYLOADS 4u			/* of a key that is not unique: 1 .. */
#define CHANGES_MOST 3000u
#define FIBERS 6u

TEST_CLUSTER(2, test_memory(64 * MIB), 0, 1000)

/* Unique: the payload of each key, 0: none.  Else: whether each pair is there. */
struct model {
	bool unique;
	uint64_t payload[NUMBERS];
	bool pair[NUMBERS][PAYLOADS + 1];
	uint64_t entries;
};

/* A call, and what its changes are to return. */
struct call {
	struct nam_index_change changes[CHANGES_MOST];
	uint8_t keys[CHANGES_MOST][NAM_KEY_BYTES_MAX];
	int expected[CHANGES_MOST];
	uint32_t count;
};

static int
model_pair(struct model *model, const struct nam_index_change *change, uint64_t number)
{
	bool *there = &model->pair[number][change->payload];
	int rc = 0;

	switch (change->kind) {
	case NAM_CHANGE_INSERT:
		rc = *there ? -NAM_E_EXISTS : 0;
		*there = true;
		break;
	case NAM_CHANGE_UPSERT:
		*there = true;
		break;
	case NAM_CHANGE_DELETE_PAIR:
		rc = *there ? 0 : -NAM_E_NOTFOUND;
		*there = false;
		break;
	default:
		return -EINVAL;
	}
	return rc;
}

static int
model_key(struct model *model, const struct nam_index_change *change, uint64_t number)
{
	uint64_t *payload = &model->payload[number];

	switch (change->kind) {
	case NAM_CHANGE_INSERT:
		if (*payload)
			return -NAM_E_EXISTS;
		break;
	case NAM_CHANGE_UPSERT:
		break;
	case NAM_CHANGE_UPDATE:
		if (!*payload)
			return -NAM_E_NOTFOUND;
		break;
	case NAM_CHANGE_DELETE_PAIR:
		if (*payload != change->payload)
			return -NAM_E_NOTFOUND;
		/* fall through */
	default:
		if (!*payload)
			return -NAM_E_NOTFOUND;
		*payload = 0;
		return 0;
	}
	*payload = change->payload;
	return 0;
}

static void
model_count(struct model *model)
{
	model->entries = 0;
	for (unsigned n = 0; n < NUMBERS; n++) {
		model->entries += model->payload[n] != 0;
		for (unsigned p = 1; p <= PAYLOADS; p++)
			model->entries += model->pair[n][p];
	}
}

static void
add(struct call *call, const struct nam_index *index, struct model *model,
	enum nam_change_kind kind, uint64_t number, uint64_t payload)
{
	struct nam_index_change *change = &call->changes[call->count];
	uint8_t *key = call->keys[call->count];

	tree_key_fill(key, nam_index_properties(index)->key_bytes, number);
	*change = (struct nam_index_change){ .key = key, .payload = payload, .kind = kind,
		.rc = 12345 };
	call->expected[call->count++] = model->unique ? model_key(model, change, number)
		: model_pair(model, change, number);
}

static void
carry_out(struct nam_index *index, struct call *call)
{
	int first = 0, rc = nam_index_change_many(me.worker, index, call->changes, call->count);

	for (uint32_t i = 0; i < call->count; i++) {
		assert_int_equal(call->changes[i].rc, call->expected[i]);
		if (!first)
			first = call->expected[i];
	}
	assert_int_equal(rc, first);
}

static void
expect_contents(struct nam_index *index, struct model *model)
{
	for (uint64_t n = 0; n < NUMBERS; n++) {
		uint64_t payload = 0, expected = model->payload[n];

		for (uint64_t p = 1; p <= PAYLOADS && !expected; p++)
			expected = model->pair[n][p] ? p : 0;
		assert_int_equal(nam_index_lookup(me.worker, index, tree_key(index, n), &payload),
			expected ? 0 : -NAM_E_NOTFOUND);
		assert_int_equal(payload, expected);
	}
	model_count(model);
	tree_check(me.worker, index, model->entries);
}

/* Any changes of any keys, of the first `numbers`: several of one key, too. */
static void
mix(struct call *call, const struct nam_index *index, struct model *model, uint32_t count,
	uint32_t numbers, struct nam_rng *rng)
{
	call->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		enum nam_change_kind kind = (enum nam_change_kind)(1 + nam_rng_below(rng, 5));
		uint64_t number = nam_rng_below(rng, numbers);
		uint64_t payload = 1 + nam_rng_below(rng, PAYLOADS);

		/* More keys come than go. */
		if (kind == NAM_CHANGE_DELETE && nam_rng_below(rng, 2))
			kind = NAM_CHANGE_INSERT;
		add(call, index, model, kind, number, payload);
	}
}

static void
play(const struct tree_options *options, uint64_t cache_bytes, uint64_t seed)
{
	struct nam_index *index = tree_new(me.worker, options, cache_bytes);
	struct model *model = calloc(1, sizeof(*model));
	struct call *call = calloc(1, sizeof(*call));
	struct nam_rng rng = nam_rng_seed(seed);

	assert_true(model && call);
	model->unique = !options->pairs;
	for (unsigned round = 0; round < test_scaled_least(60, 20); round++) {
		mix(call, index, model, (uint32_t)nam_rng_below(&rng, 150), NUMBERS, &rng);
		carry_out(index, call);
	}
	mix(call, index, model, 400, 3, &rng);
	carry_out(index, call);
	mix(call, index, model, CHANGES_MOST, NUMBERS, &rng);
	carry_out(index, call);
	expect_contents(index, model);
	nam_index_close(index);
	free(call);
	free(model);
}

/* ---- as one after the other ----------------------------------------------------------------- */

static void
change_many__any_mix__AS_ONE_AFTER_THE_OTHER(void **state)
{
	(void)state;
	play(&(struct tree_options){ .head_interval = tree_is_fine() ? 4 : 0 }, MIB, 1);
	play(&(struct tree_options){ .node_bytes = 1024 }, MIB, 2);
	play(&(struct tree_options){ 0 }, 0, 3);
}

static void
change_many__longer_keys__AS_ONE_AFTER_THE_OTHER(void **state)
{
	(void)state;
	play(&(struct tree_options){ .key_bytes = 12 }, MIB, 4);
	play(&(struct tree_options){ .key_bytes = 64, .node_bytes = 1024 }, MIB, 5);
}

/* Where updates and deletes without a payload are refused. */
static void
change_many__not_unique__PAIRS_and_EINVAL(void **state)
{
	(void)state;
	play(&(struct tree_options){ .pairs = true }, MIB, 6);
	play(&(struct tree_options){ .pairs = true, .key_bytes = 16, .node_bytes = 512 }, 0, 7);
}

static void
change_many__nothing__0(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, MIB);

	(void)state;
	assert_int_equal(nam_index_change_many(me.worker, index, NULL, 0), 0);
	nam_index_close(index);
}

static void
change_many__no_such_kind__EINVAL_SAYS_WHY_AND_THE_OTHERS_ARE_DONE(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, MIB);
	struct nam_index_change changes[] = {
		{ tree_key(index, 1), 11, NAM_CHANGE_INSERT, 1 },
		{ tree_key(index, 2), 21, (enum nam_change_kind)0, 1 },
		{ tree_key(index, 3), 31, (enum nam_change_kind)6, 1 },
		{ tree_key(index, 4), 41, NAM_CHANGE_INSERT, 1 },
	};

	(void)state;
	assert_int_equal(nam_index_change_many(me.worker, index, changes, 4), -EINVAL);
	member_says(&me, "no change of kind 6");
	assert_int_equal(changes[0].rc, 0);
	assert_int_equal(changes[1].rc, -EINVAL);
	assert_int_equal(changes[2].rc, -EINVAL);
	assert_int_equal(changes[3].rc, 0);
	tree_check(me.worker, index, 2);
	nam_index_close(index);
}

static void
change_many__dropped__DROPPED_FOR_EACH(void **state)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ 0 }, MIB);
	struct nam_index_change changes[3];

	(void)state;
	tree_fill(me.worker, index, 0, 100, 1);
	assert_int_equal(nam_index_drop(me.worker, index->name), 0);
	for (unsigned i = 0; i < 3; i++)
		changes[i] = (struct nam_index_change){ tree_key(index, 5 + i % 2 * 40), 1,
			NAM_CHANGE_UPSERT, 1 };
	assert_int_equal(nam_index_change_many(me.worker, index, changes, 3), -NAM_E_DROPPED);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(changes[i].rc, -NAM_E_DROPPED);
	nam_index_close(index);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void
change_many__memory_full__REMOTE_FULL_WHERE_THERE_IS_NO_ROOM(void **state)
{
	struct local_cluster *small = local_cluster_start(2, 512u << 10, 256u << 10);
	struct member full = member_join(small, "full", 1000);
	struct nam_index *index = tree_new(full.worker, &(struct tree_options){ 0 }, MIB);
	enum { COUNT = 100 };
	struct nam_index_change changes[2 * COUNT];
	uint64_t done = 0, refused = 0, payload;
	uint8_t keys[COUNT][8];

	(void)state;
	/* Each key twice: the second finds what the first has left. */
	for (uint64_t n = 0; n < 1000000 && refused < 50; n += COUNT) {
		for (unsigned i = 0; i < COUNT; i++) {
			nam_key_from_u64((n + i) * 7919 % 1000003, keys[i]);
			changes[i] = (struct nam_index_change){ keys[i], n, NAM_CHANGE_INSERT, 1 };
			changes[COUNT + i] = (struct nam_index_change){ keys[i], n + 1,
				NAM_CHANGE_UPDATE, 1 };
		}
		(void)!nam_index_change_many(full.worker, index, changes, 2 * COUNT);
		for (unsigned i = 0; i < COUNT; i++) {
			int rc = nam_index_lookup(full.worker, index, keys[i], &payload);

			assert_true(changes[i].rc == 0 || changes[i].rc == -NAM_E_REMOTE_FULL);
			assert_int_equal(changes[COUNT + i].rc,
				changes[i].rc ? -NAM_E_NOTFOUND : 0);
			assert_int_equal(rc, changes[COUNT + i].rc);
			if (!rc)
				assert_int_equal(payload, n + 1);
			refused += changes[i].rc != 0;
			done += changes[i].rc == 0;
		}
	}
	assert_true(refused >= 50);
	assert_true(done > 1000);
	tree_check(full.worker, index, done);
	nam_index_close(index);
	member_leave(&full);
	local_cluster_stop(small);
}

/* ---- a memory server that ends */

static void
change_many__a_server_is_gone__FABRIC_FOR_ITS_KEYS_ONLY(void **state)
{
	enum { COUNT = 400 };
	/* So many regions that leaves lie on both, although one may have a private region more. */
	struct local_cluster *two = local_cluster_start(2, 64 * MIB, 4 * MIB);
	struct member member = member_join(two, "left", 1000);
	struct nam_index *index = tree_new(member.worker, &(struct tree_options){ 0 }, MIB);
	static struct nam_index_change changes[COUNT];
	static uint8_t keys[COUNT][8];
	uint64_t payload, deadline = nam_now_ns() + 60000000000u;
	unsigned failed = 0;
	int rc;

	(void)state;
	tree_fill(member.worker, index, 0, COUNT, 1);
	for (uint64_t n = 0; n < COUNT; n++) {
		tree_key_fill(keys[n], 8, n);
		changes[n] = (struct nam_index_change){ keys[n], n, NAM_CHANGE_UPDATE, 1 };
		assert_int_equal(nam_index_lookup(member.worker, index, keys[n], &payload), 0);
	}
	local_cluster_stop_server(two, 1);
	/* Until the client knows. */
	while (!(rc = nam_index_change_many(member.worker, index, changes, COUNT)))
		assert_true(nam_now_ns() < deadline);
	assert_true(nam_err_is(rc, NAM_E_FABRIC));
	for (uint64_t n = 0; n < COUNT; n++) {
		rc = nam_index_update(member.worker, index, keys[n], n);
		assert_true(rc == 0 || nam_err_is(rc, NAM_E_FABRIC));
		assert_int_equal(changes[n].rc == 0, rc == 0);
		assert_true(!changes[n].rc || nam_err_is(changes[n].rc, NAM_E_FABRIC));
		failed += rc != 0;
	}
	assert_in_range(failed, 1, COUNT - 1);
	nam_index_close(index);
	member_leave(&member);
	local_cluster_stop(two);
}

/* ---- side by side ---------------------------------------------------------------------------- */

#define MOVED 40u			/* keys of each fiber */

/* A fiber that moves its own keys from payload to payload, in leaves that it shares with others. */
struct mover {
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned number, rounds;
	unsigned wrong;
};

static void
move(void *arg)
{
	struct mover *self = arg;
	struct nam_index_change changes[2 * MOVED];
	uint8_t keys[MOVED][8];

	for (unsigned round = 0; round < self->rounds; round++) {
		for (unsigned i = 0; i < MOVED; i++) {
			tree_key_fill(keys[i], 8, i * FIBERS + self->number);
			changes[i] = (struct nam_index_change){ keys[i], round,
				NAM_CHANGE_DELETE_PAIR, 1 };
			changes[MOVED + i] = (struct nam_index_change){ keys[i], round + 1,
				NAM_CHANGE_INSERT, 1 };
		}
		if (round % 4 == 3)
			for (unsigned i = 0; i < MOVED; i++)
				self->wrong += nam_index_update(self->worker, self->index, keys[i],
					round) != 0; /* SUSPENDS */
		self->wrong += nam_index_change_many(self->worker, self->index, changes,
			2 * MOVED) != 0; /* SUSPENDS */
	}
}

/* Some of the fibers. */
struct pool {
	struct mover movers[FIBERS];
	unsigned count;
};

static void
pool_run(void *arg)
{
	struct pool *pool = arg;

	for (unsigned i = 0; i < pool->count; i++)
		if (nam_worker_spawn(pool->movers[i].worker, move, &pool->movers[i]))
			test_die("cannot start a fiber");
	nam_worker_run(pool->movers[0].worker); /* SUSPENDS */
}

static void
pool_main(void *arg)
{
	struct pool *pool = arg;
	struct nam_worker *own = test_worker(me.client);

	for (unsigned i = 0; i < pool->count; i++)
		pool->movers[i].worker = own;
	pool_run(pool); /* SUSPENDS */
	nam_worker_close(own);
}

static void
run_pools(unsigned threads, unsigned rounds)
{
	struct nam_index *index = tree_new(me.worker, &(struct tree_options){ .node_bytes = 512 },
		MIB);
	struct nam_thread *running[FIBERS];
	struct pool pools[FIBERS];
	uint64_t payload;

	for (uint64_t n = 0; n < (uint64_t)MOVED * FIBERS; n++)
		assert_int_equal(nam_index_insert(me.worker, index, tree_key(index, n), 0), 0);
	for (unsigned t = 0; t < threads; t++) {
		pools[t].count = FIBERS / threads;
		for (unsigned i = 0; i < pools[t].count; i++)
			pools[t].movers[i] = (struct mover){ me.worker, index, i * threads + t,
				rounds, 0 };
	}
	if (threads == 1)
		pool_run(&pools[0]);
	for (unsigned t = 0; threads > 1 && t < threads; t++)
		assert_int_equal(nam_thread_start("pool", pool_main, &pools[t], &running[t]), 0);
	for (unsigned t = 0; threads > 1 && t < threads; t++)
		nam_thread_join(running[t]);
	for (unsigned t = 0; t < threads; t++)
		for (unsigned i = 0; i < pools[t].count; i++)
			assert_int_equal(pools[t].movers[i].wrong, 0);
	for (uint64_t n = 0; n < (uint64_t)MOVED * FIBERS; n++) {
		assert_int_equal(nam_index_lookup(me.worker, index, tree_key(index, n),
			&payload), 0);
		assert_int_equal(payload, rounds);
	}
	tree_check(me.worker, index, (uint64_t)MOVED * FIBERS);
	nam_index_close(index);
}

static void
change_many__fibers_and_the_same_leaves__NO_CHANGE_IS_LOST_OR_DOUBLED(void **state)
{
	(void)state;
	run_pools(1, (unsigned)test_scaled_least(200, 20));
}

static void
change_many__threads_and_the_same_leaves__NO_CHANGE_IS_LOST_OR_DOUBLED(void **state)
{
	(void)state;
	run_pools(2, (unsigned)test_scaled_least(200, 20));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(change_many__any_mix__AS_ONE_AFTER_THE_OTHER),
		cmocka_unit_test(change_many__longer_keys__AS_ONE_AFTER_THE_OTHER),
		cmocka_unit_test(change_many__not_unique__PAIRS_and_EINVAL),
		cmocka_unit_test(change_many__nothing__0),
		cmocka_unit_test(
			change_many__no_such_kind__EINVAL_SAYS_WHY_AND_THE_OTHERS_ARE_DONE),
		cmocka_unit_test(change_many__dropped__DROPPED_FOR_EACH),
		cmocka_unit_test(change_many__memory_full__REMOTE_FULL_WHERE_THERE_IS_NO_ROOM),
		cmocka_unit_test(change_many__a_server_is_gone__FABRIC_FOR_ITS_KEYS_ONLY),
		cmocka_unit_test(
			change_many__fibers_and_the_same_leaves__NO_CHANGE_IS_LOST_OR_DOUBLED),
		cmocka_unit_test(
			change_many__threads_and_the_same_leaves__NO_CHANGE_IS_LOST_OR_DOUBLED),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
