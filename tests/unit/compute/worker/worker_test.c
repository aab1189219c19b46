/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions stay on the thread's own stack: cmocka leaves a failed test with longjmp, which must
 * not cross from one stack to another.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/worker/pace.h"
#include "tests/lib/cluster.h"

#define MIB (1ull << 20)

static struct local_cluster *cluster;
static struct nam_client *client;
static struct nam_worker *worker;
static struct nam_gaddr block;

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(1, 4 * MIB, 2 * MIB);
	client = test_connect(local_cluster_list(cluster), "worker-test", 0);
	worker = test_worker(client);
	if (nam_alloc(worker, 64, &block))
		return -1;
	block = nam_gaddr_untagged(block);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	nam_worker_close(worker);
	nam_client_close(client);
	local_cluster_stop(cluster);
	return 0;
}

/* ---- fibers ------------------------------------------------------------------------------- */

struct party {
	struct nam_worker *worker;
	unsigned number, steps, done;
	unsigned *trace;		/* the party of each step */
	unsigned *traced;
	int rc;
};

static void
yield_often(void *arg)
{
	struct party *party = arg;

	for (unsigned i = 0; i < party->steps; i++) {
		if (party->trace)
			party->trace[(*party->traced)++] = party->number;
		nam_worker_yield(party->worker); /* SUSPENDS */
		party->done++;
	}
}

static void
run__nothing_spawned__RETURNS(void **state)
{
	(void)state;
	nam_worker_run(worker);
	nam_worker_yield(worker);
	nam_worker_run(worker);
}

static void
yield__several_fibers__TAKE_TURNS(void **state)
{
	unsigned trace[60], traced = 0;
	struct party parties[6];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		parties[i] = (struct party){ worker, i, 10, 0, trace, &traced, 0 };
		assert_int_equal(nam_worker_spawn(worker, yield_often, &parties[i]), 0);
	}
	assert_int_equal(traced, 0);	/* nothing runs before run() */
	nam_worker_run(worker);
	assert_int_equal(traced, 60);
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal(trace[i], i % 6);
}

static void
read_often(void *arg)
{
	struct party *party = arg;
	uint64_t *local = nam_buffer_take(party->worker, 64);

	for (unsigned i = 0; i < party->steps && !party->rc; i++) {
		party->rc = nam_read_await(party->worker, block, local, 64); /* SUSPENDS */
		party->done++;
	}
	nam_buffer_give(party->worker, local, 64);
}

static void
run__more_fibers_one_after_another__STACKS_ARE_REUSED(void **state)
{
	struct party parties[32];
	size_t bytes = 0;

	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 32; i++) {
			parties[i] = (struct party){ worker, i, 5, 0, NULL, NULL, 0 };
			assert_int_equal(nam_worker_spawn(worker, read_often, &parties[i]), 0);
		}
		nam_worker_run(worker);
		for (unsigned i = 0; i < 32; i++) {
			assert_int_equal(parties[i].done, 5);
			assert_int_equal(parties[i].rc, 0);
		}
		if (round == 0)
			bytes = nam_worker_bytes(worker);
	}
	assert_int_equal(nam_worker_bytes(worker), bytes);
}

static void
spawn__more_than_fibers_max__LIMIT_UNTIL_ONE_ENDS(void **state)
{
	struct party parties[65];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		parties[i] = (struct party){ worker, i, 1, 0, NULL, NULL, 0 };
		assert_int_equal(nam_worker_spawn(worker, yield_often, &parties[i]), 0);
	}
	assert_int_equal(nam_worker_spawn(worker, yield_often, &parties[64]), -NAM_E_LIMIT);
	nam_worker_run(worker);
	parties[64] = (struct party){ worker, 64, 1, 0, NULL, NULL, 0 };
	assert_int_equal(nam_worker_spawn(worker, yield_often, &parties[64]), 0);
	nam_worker_run(worker);
	assert_int_equal(parties[64].done, 1);
}

/* A fiber that spawns two, each of which spawns two, and so on. */
struct tree {
	unsigned depth;
	unsigned *count;
	int *rc;
};

static struct tree trees[64];

static void
multiply(void *arg)
{
	struct tree *tree = arg;

	++*tree->count;
	for (unsigned i = 0; i < 2 && tree->depth; i++) {
		struct tree *child = &trees[2 * (tree - trees) + 1 + i];

		*child = (struct tree){ tree->depth - 1, tree->count, tree->rc };
		*tree->rc |= nam_worker_spawn(worker, multiply, child);
		nam_worker_yield(worker); /* SUSPENDS */
	}
}

static void
spawn__from_fibers__ALL_RUN_BEFORE_RUN_RETURNS(void **state)
{
	unsigned count = 0;
	int rc = 0;

	(void)state;
	trees[0] = (struct tree){ 5, &count, &rc };
	assert_int_equal(nam_worker_spawn(worker, multiply, &trees[0]), 0);
	nam_worker_run(worker);
	assert_int_equal(rc, 0);
	assert_int_equal(count, 63);
}

/* While one fiber waits for the fabric the others go on: their reads travel together. */
static void
fibers__that_wait__OVERLAP(void **state)
{
	struct party parties[16];
	struct nam_op_counters before = *nam_worker_counters(worker, NAM_OP_OTHER);

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		parties[i] = (struct party){ worker, i, 100, 0, NULL, NULL, 0 };
		assert_int_equal(nam_worker_spawn(worker, read_often, &parties[i]), 0);
	}
	nam_worker_run(worker);
	assert_int_equal(nam_worker_counters(worker, NAM_OP_OTHER)->round_trips -
				 before.round_trips, 1600);
}

struct deep {
	struct nam_worker *worker;
	uint64_t sum;
	unsigned depth;
	int rc;
};

static uint64_t
descend(struct deep *deep, unsigned depth, uint64_t *local)
{
	volatile uint64_t here[16];

	for (unsigned i = 0; i < 16; i++)
		here[i] = depth * 16 + i;
	deep->rc |= nam_read_await(deep->worker, block, local, 64); /* SUSPENDS */
	return here[depth % 16] + (depth ? descend(deep, depth - 1, local) : 0); /* SUSPENDS */
}

static void
go_deep(void *arg)
{
	struct deep *deep = arg;
	uint64_t *local = nam_buffer_take(deep->worker, 64);

	deep->sum = descend(deep, deep->depth, local); /* SUSPENDS */
	nam_buffer_give(deep->worker, local, 64);
}

static void
fibers__deep_in_calls__KEEP_THEIR_STACKS(void **state)
{
	struct deep deeps[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		deeps[i] = (struct deep){ .worker = worker, .depth = 20 + i };
		assert_int_equal(nam_worker_spawn(worker, go_deep, &deeps[i]), 0);
	}
	nam_worker_run(worker);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t expect = 0;

		for (unsigned depth = 0; depth <= 20 + i; depth++)
			expect += depth * 16 + depth % 16;
		assert_int_equal(deeps[i].rc, 0);
		assert_int_equal(deeps[i].sum, expect);
	}
}

/* ---- pauses ------------------------------------------------------------------------------- */

static void
pause__from_a_plain_thread__TAKES_ABOUT_SO_LONG(void **state)
{
	uint64_t start_ns = nam_now_ns(), took_ns;

	(void)state;
	nam__pause_await(worker, 20000000);
	took_ns = nam_now_ns() - start_ns;
	assert_true(took_ns >= 20000000);
	assert_true(took_ns < 2000000000);
}

static bool
stop_soon(void *arg)
{
	return nam_now_ns() >= *(const uint64_t *)arg;
}

static void
pace__of_a_pass__PAUSES_BY_BLOCKS_AND_ENDS(void **state)
{
	uint64_t start_ns = nam_now_ns(), end_ns = start_ns + 100000000;

	(void)state;
	assert_int_equal(nam__worker_pace(worker, 1000000), 0);
	nam_worker_pace(worker, 1000);
	assert_int_equal(nam__worker_pace(worker, 10), 0);
	assert_int_equal(nam__worker_pace(worker, 10), 0);
	assert_true(nam_now_ns() - start_ns >= 20000000);
	nam_worker_stop_when(worker, stop_soon, &end_ns);
	assert_int_equal(nam__worker_pace(worker, 1000000), -ECANCELED);
	assert_true(nam_now_ns() - start_ns < 10000000000);
	nam_worker_stop_when(worker, NULL, NULL);
	nam_worker_pace(worker, 0);
}

struct sleeper {
	bool woke;
	unsigned *ticks;
	unsigned ticks_then;
};

static void
sleep_long(void *arg)
{
	struct sleeper *sleeper = arg;

	nam__pause_await(worker, 30000000); /* SUSPENDS */
	sleeper->ticks_then = *sleeper->ticks;
	sleeper->woke = true;
}

struct ticker {
	const struct sleeper *sleeper;
	unsigned ticks;
};

static void
tick(void *arg)
{
	struct ticker *ticker = arg;

	while (!ticker->sleeper->woke) {
		ticker->ticks++;
		nam__pause_await(worker, 1000000); /* SUSPENDS */
	}
}

static void
pause__of_one_fiber__LETS_OTHERS_RUN(void **state)
{
	struct ticker ticker = { .ticks = 0 };
	struct sleeper sleeper = { .ticks = &ticker.ticks };

	(void)state;
	ticker.sleeper = &sleeper;
	assert_int_equal(nam_worker_spawn(worker, sleep_long, &sleeper), 0);
	assert_int_equal(nam_worker_spawn(worker, tick, &ticker), 0);
	nam_worker_run(worker);
	assert_true(sleeper.woke);
	assert_true(sleeper.ticks_then >= 2);
}

struct pausers {
	unsigned next, ended;
	uint64_t until_ns[8];		/* in the order in which they went on */
};

static void
pause_once(void *arg)
{
	static const uint64_t ms[8] = { 5, 1, 4, 2, 2, 8, 3, 0 };
	struct pausers *pausers = arg;
	const struct nam__task *self = worker->current;

	nam__pause_await(worker, ms[pausers->next++] * 1000000); /* SUSPENDS */
	assert_true(nam_now_ns() >= self->paused_until_ns);
	pausers->until_ns[pausers->ended++] = self->paused_until_ns;
}

static void
pause__of_several__END_IN_THE_ORDER_OF_THEIR_TIMES(void **state)
{
	struct pausers pausers = { 0 };

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(nam_worker_spawn(worker, pause_once, &pausers), 0);
	nam_worker_run(worker);
	assert_int_equal(pausers.ended, 8);
	for (unsigned i = 1; i < 8; i++)
		assert_true(pausers.until_ns[i - 1] <= pausers.until_ns[i]);
}

/* A worker whose sleeps are counted. */
static struct {
	struct nam_fabric_ops ops;
	const struct nam_fabric_ops *real;
	unsigned count;
} sleeps;

static int
count_and_wait(struct nam_cq *cq, uint64_t timeout_ns)
{
	sleeps.count++;
	return sleeps.real->cq_wait(cq, timeout_ns);
}

static void
run_counting_sleeps(void)
{
	sleeps.real = worker->cq->ops;
	sleeps.ops = *sleeps.real;
	sleeps.ops.cq_wait = count_and_wait;
	sleeps.count = 0;
	worker->cq->ops = &sleeps.ops;
	nam_worker_run(worker);
	worker->cq->ops = sleeps.real;
}

static void
pause_often(void *arg)
{
	const uint64_t *ns = arg;

	for (unsigned i = 0; i < 20; i++)
		nam__pause_await(worker, *ns); /* SUSPENDS */
}

static void
pauses__short_ones_of_all_fibers__NO_SLEEP(void **state)
{
	uint64_t ns[3] = { 500, 20000, 90000 };

	(void)state;
	if (worker->peers)
		skip();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nam_worker_spawn(worker, pause_often, &ns[i]), 0);
	run_counting_sleeps();
	assert_int_equal(sleeps.count, 0);
}

static void
pauses__short_ones_and_a_long_one__SLEEP(void **state)
{
	uint64_t ns[2] = { 90000, 1000000 };

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam_worker_spawn(worker, pause_often, &ns[i]), 0);
	run_counting_sleeps();
	assert_true(sleeps.count > 0);
}

static struct nam__task *waits;	/* for something that comes from outside of its worker */

static void
wait_for_others(void *arg)
{
	(void)arg;
	waits = worker->current;
	nam__suspend(worker); /* SUSPENDS */
}

static void
pause_then_wake(void *arg)
{
	pause_often(arg); /* SUSPENDS */
	nam__task_ready(worker, waits);
}

static void
pauses__short_ones_and_one_fiber_waits_for_an_answer__SLEEP(void **state)
{
	uint64_t ns = 90000;

	(void)state;
	assert_int_equal(nam_worker_spawn(worker, wait_for_others, NULL), 0);
	assert_int_equal(nam_worker_spawn(worker, pause_then_wake, &ns), 0);
	run_counting_sleeps();
	assert_true(sleeps.count > 0);
}

/* ---- several workers ---------------------------------------------------------------------- */

struct thread_pool {
	uint64_t failures;
	unsigned number;
};

static void
thread_pool_main(void *arg)
{
	struct thread_pool *pool = arg;

	for (unsigned round = 0; round < 5; round++) {
		struct nam_worker *own = test_worker(client);
		struct party parties[8];

		for (unsigned i = 0; i < 8; i++) {
			parties[i] = (struct party){ own, i, 50, 0, NULL, NULL, 0 };
			if (nam_worker_spawn(own, i % 2 ? read_often : yield_often, &parties[i]))
				pool->failures++;
		}
		nam_worker_run(own); /* SUSPENDS */
		for (unsigned i = 0; i < 8; i++)
			pool->failures += parties[i].rc || parties[i].done != 50;
		nam_worker_close(own);
	}
}

static void
workers__in_several_threads__DO_NOT_DISTURB_EACH_OTHER(void **state)
{
	struct nam_thread *threads[4];
	struct thread_pool pools[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		pools[i] = (struct thread_pool){ 0, i };
		assert_int_equal(nam_thread_start("pool", thread_pool_main, &pools[i], &threads[i]),
			0);
	}
	for (unsigned i = 0; i < 4; i++) {
		nam_thread_join(threads[i]);
		assert_int_equal(pools[i].failures, 0);
	}
}

static void
worker_open__many_at_once__EACH_HAS_ITS_OWN_QUEUES(void **state)
{
	struct nam_worker *workers[20];
	struct nam_server_status status;
	void *local;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		workers[i] = test_worker(client);
	/* These, ours, and the epoch thread's. */
	assert_int_equal(nam_server_status_get(worker, 0, &status), 0);
	assert_true(status.connections >= 22);
	for (unsigned i = 0; i < 20; i++) {
		local = nam_buffer_take(workers[i], 64);
		assert_int_equal(nam_read_await(workers[i], block, local, 64), 0);
		assert_string_equal(nam_worker_diag(workers[i]), "");
		nam_worker_close(workers[i]);
	}
}

static void
worker_bytes__64_fibers_that_read__WITHIN_FOUR_MIB(void **state)
{
	struct nam_worker *own = test_worker(client);
	struct party parties[64];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		parties[i] = (struct party){ own, i, 20, 0, NULL, NULL, 0 };
		assert_int_equal(nam_worker_spawn(own, read_often, &parties[i]), 0);
	}
	nam_worker_run(own);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(parties[i].done, 20);
#if !defined(NAM_FIBER_ASAN) && !defined(NAM_FIBER_TSAN)
	assert_true(nam_worker_bytes(own) <= 4 * MIB);
#endif
	nam_worker_close(own);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__nothing_spawned__RETURNS),
		cmocka_unit_test(yield__several_fibers__TAKE_TURNS),
		cmocka_unit_test(run__more_fibers_one_after_another__STACKS_ARE_REUSED),
		cmocka_unit_test(spawn__more_than_fibers_max__LIMIT_UNTIL_ONE_ENDS),
		cmocka_unit_test(spawn__from_fibers__ALL_RUN_BEFORE_RUN_RETURNS),
		cmocka_unit_test(fibers__that_wait__OVERLAP),
		cmocka_unit_test(fibers__deep_in_calls__KEEP_THEIR_STACKS),
		cmocka_unit_test(pause__from_a_plain_thread__TAKES_ABOUT_SO_LONG),
		cmocka_unit_test(pace__of_a_pass__PAUSES_BY_BLOCKS_AND_ENDS),
		cmocka_unit_test(pause__of_one_fiber__LETS_OTHERS_RUN),
		cmocka_unit_test(pause__of_several__END_IN_THE_ORDER_OF_THEIR_TIMES),
		cmocka_unit_test(pauses__short_ones_of_all_fibers__NO_SLEEP),
		cmocka_unit_test(pauses__short_ones_and_a_long_one__SLEEP),
		cmocka_unit_test(pauses__short_ones_and_one_fiber_waits_for_an_answer__SLEEP),
		cmocka_unit_test(workers__in_several_threads__DO_NOT_DISTURB_EACH_OTHER),
		cmocka_unit_test(worker_open__many_at_once__EACH_HAS_ITS_OWN_QUEUES),
		cmocka_unit_test(worker_bytes__64_fibers_that_read__WITHIN_FOUR_MIB),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
