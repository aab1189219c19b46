/* SPDX-License-Identifier: Apache-2.0 */
/* combine_test.c -- changes of one object that wait in one process are carried out together. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/remote/lock_slot.h"
#include "tests/lib/cluster.h"
#include "tests/unit/compute/remote/objects.h"

#define MIB (1ull << 20)
#define FIBERS 8u

static struct local_cluster *cluster;
static struct nam_client *client;
static struct nam_worker *worker;

/* A task that adds 1 to words 1 and 2 of an object, so many times, and keeps what it found. */
struct adder {
	struct nam__lock_request request;
	struct nam_worker *worker;
	struct nam_gaddr at;
	unsigned rounds, combined;
	bool refuses;			/* as a holder it carries out no other request */
	int rc;
	uint64_t found;
	uint64_t *image;		/* of the lock that it holds */
};

static bool
add_one(void *arg, struct nam__lock_request *request)
{
	const struct adder *holder = arg;
	struct adder *other = (struct adder *)(void *)request;

	if (holder->refuses)
		return false;
	other->found = holder->image[1]++;
	holder->image[2]++;
	request->rc = 0;
	return true;
}

static void
add(void *arg)
{
	struct adder *self = arg;

	self->image = nam_buffer_take(self->worker, OBJECT_BYTES);
	for (unsigned i = 0; i < self->rounds && !self->rc; i++) {
		struct nam__doorbell doorbell;
		struct nam__lock lock;
		int rc = nam__lock_change_await(self->worker, self->at, self->image, OBJECT_BYTES,
			&self->request, NULL, &lock); /* SUSPENDS */

		if (rc == NAM__LOCK_COMBINED) {
			self->combined++;
			self->rc = self->request.rc;
			continue;
		}
		self->rc = rc;
		if (rc)
			break;
		if (self->image[1] != self->image[2])
			self->rc = -EILSEQ;
		self->found = self->image[1]++;
		self->image[2]++;
		nam__lock_combine(self->worker, &lock, self->at, add_one, self);
		nam__doorbell_init(&doorbell, self->worker, self->at);
		nam__doorbell_write(&doorbell, 8, self->image + 1, 16);
		rc = nam__unlock_await(&doorbell, &lock); /* SUSPENDS */
		if (rc)
			self->rc = rc;
	}
	nam_buffer_give(self->worker, self->image, OBJECT_BYTES);
}

static void
expect_object(struct nam_gaddr at, uint64_t lock, uint64_t sum)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);

	assert_int_equal(nam_read_await(worker, at, image, OBJECT_BYTES), 0);
	assert_int_equal(image[0], lock);
	assert_int_equal(image[1], sum);
	assert_int_equal(image[2], sum);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

static void
spawn(struct adder *adders, unsigned count, struct nam_gaddr at, unsigned rounds)
{
	for (unsigned i = 0; i < count; i++) {
		adders[i] = (struct adder){ .worker = worker, .at = at, .rounds = rounds };
		assert_int_equal(nam_worker_spawn(worker, add, &adders[i]), 0);
	}
}

static uint64_t
round_trips(void)
{
	return nam_worker_counters(worker, NAM_OP_OTHER)->round_trips;
}

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(2, 16 * MIB, 8 * MIB);
	client = test_connect(local_cluster_list(cluster), "combine-test", 300);
	worker = test_worker(client);
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

static void
combine__fibers_that_wait__ONE_LOCK_FOR_ALL_AND_AN_ORDER(void **state)
{
	struct nam_gaddr at = object_make(worker);
	struct adder adders[FIBERS];
	uint64_t before = round_trips();
	unsigned combined = 0;
	uint32_t found = 0;

	(void)state;
	spawn(adders, FIBERS, at, 1);
	nam_worker_run(worker);
	assert_int_equal(round_trips() - before, 2);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_int_equal(adders[i].rc, 0);
		combined += adders[i].combined;
		found |= 1u << adders[i].found;
	}
	assert_int_equal(combined, FIBERS - 1);
	assert_int_equal(found, (1u << FIBERS) - 1);
	expect_object(at, NAM_LOCK_FREE, FIBERS);
}

/* A waiter takes its request back before it uses the lock that was handed over to it. */
static void
combine__holder_refuses__WAITERS_GET_THE_LOCK(void **state)
{
	struct nam_gaddr at = object_make(worker);
	struct adder adders[FIBERS];

	(void)state;
	spawn(adders, FIBERS, at, 3);
	for (unsigned i = 0; i < FIBERS; i++)
		adders[i].refuses = true;
	nam_worker_run(worker);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_int_equal(adders[i].rc, 0);
		assert_int_equal(adders[i].combined, 0);
	}
	expect_object(at, NAM_LOCK_FREE, 3ull * FIBERS);
}

static void
combine__another_tag__IS_LEFT_ALONE(void **state)
{
	struct nam_gaddr at = object_make(worker);
	struct adder adders[FIBERS];

	(void)state;
	spawn(adders, FIBERS, at, 1);
	for (unsigned i = 0; i < FIBERS; i++)
		adders[i].at = nam_gaddr_tagged(at, (uint16_t)(i + 1));
	nam_worker_run(worker);
	for (unsigned i = 0; i < FIBERS; i++) {
		assert_int_equal(adders[i].rc, 0);
		assert_int_equal(adders[i].combined, 0);
	}
	expect_object(at, NAM_LOCK_FREE, FIBERS);
}

/* Another client has overwritten the word, so what was written under it may be lost. */
static void
steal(void *arg)
{
	struct nam_gaddr *at = arg;
	uint64_t *word = nam_buffer_take(worker, 8);

	*word = nam_lock_word(4000, 1, 1);
	(void)!nam_write_await(worker, *at, word, 8); /* SUSPENDS */
	nam_buffer_give(worker, word, 8);
}

static void
combine__release_fails__SO_DO_ALL(void **state)
{
	struct nam_gaddr at = object_make(worker);
	struct adder adders[FIBERS];
	unsigned fenced = 0;

	(void)state;
	spawn(adders, FIBERS, at, 1);
	/* Its WRITE comes between the first fiber's CAS and its release. */
	assert_int_equal(nam_worker_spawn(worker, steal, &at), 0);
	nam_worker_run(worker);
	for (unsigned i = 0; i < FIBERS; i++)
		fenced += adders[i].rc == -NAM_E_FENCED;
	assert_int_equal(fenced, FIBERS);
}

#define THREADS 4u

struct pool {
	struct nam_client *client;
	struct nam_gaddr at;
	unsigned rounds, combined;
	int rc;
};

static void
pool_main(void *arg)
{
	struct pool *pool = arg;
	struct nam_worker *own = test_worker(pool->client);
	struct adder adders[FIBERS];

	for (unsigned i = 0; i < FIBERS; i++) {
		adders[i] = (struct adder){ .worker = own, .at = pool->at, .rounds = pool->rounds,
			.refuses = i == 0 };
		if (nam_worker_spawn(own, add, &adders[i]))
			test_die("cannot start a fiber");
	}
	nam_worker_run(own); /* SUSPENDS */
	for (unsigned i = 0; i < FIBERS; i++) {
		pool->combined += adders[i].combined;
		if (adders[i].rc)
			pool->rc = adders[i].rc;
	}
	nam_worker_close(own);
}

static void
combine__threads_and_clients__NO_CHANGE_IS_LOST_OR_DOUBLED(void **state)
{
	struct nam_client *clients[2] = {
		test_connect(local_cluster_list(cluster), "one", 60000),
		test_connect(local_cluster_list(cluster), "two", 60000),
	};
	unsigned rounds = (unsigned)test_scaled(1000), combined = 0;
	struct nam_gaddr at = object_make(worker);
	struct nam_thread *threads[THREADS];
	struct pool pools[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		pools[i] = (struct pool){ .client = clients[i / 2], .at = at, .rounds = rounds };
		assert_int_equal(nam_thread_start("pool", pool_main, &pools[i], &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		nam_thread_join(threads[i]);
		assert_int_equal(pools[i].rc, 0);
		combined += pools[i].combined;
	}
	assert_in_range(combined, 1, THREADS * FIBERS * rounds);
	expect_object(at, NAM_LOCK_FREE, (uint64_t)THREADS * FIBERS * rounds);
	nam_client_close(clients[0]);
	nam_client_close(clients[1]);
}

/* ---- tasks that wait without a change ----------------------------------------------------- */

static uint64_t polls;

static int
count_poll(struct nam_cq *cq, struct nam_wc *wcs, unsigned max)
{
	polls++;
	return cq->ops->cq_poll(cq, wcs, max);
}

struct turn {
	struct nam_gaddr at;
	uint64_t hold_ns;
	unsigned ended;			/* from 1 */
	int rc;
};

static unsigned turns_ended;

static void
take_turn(void *arg)
{
	struct turn *turn = arg;
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam__doorbell doorbell;
	struct nam__lock lock;

	turn->rc = nam__lock_read_await(worker, turn->at, image, OBJECT_BYTES, NULL,
		&lock); /* SUSPENDS */
	if (!turn->rc) {
		nam__pause_await(worker, turn->hold_ns); /* SUSPENDS */
		nam__doorbell_init(&doorbell, worker, turn->at);
		turn->rc = nam__unlock_await(&doorbell, &lock); /* SUSPENDS */
	}
	turn->ended = ++turns_ended;
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

/* They are woken when the lock is free, so they need not look for it all the time. */
static void
lock__fibers_wait_for_one_of_this_worker__IN_TURN_AND_AT_REST(void **state)
{
	struct turn turns[4];
	struct nam_gaddr at = object_make(worker);
	uint64_t began;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		turns[i] = (struct turn){ at, i ? 0 : 50000000, 0, 0 };
		assert_int_equal(nam_worker_spawn(worker, take_turn, &turns[i]), 0);
	}
	worker->cq_poll = count_poll;
	began = nam_now_ns();
	nam_worker_run(worker);
	/* Each of three looks every 16 us, with up to four polls. */
	assert_true(polls < 1000 + 12 * (nam_now_ns() - began) / 16000);
	worker->cq_poll = worker->cq->ops->cq_poll;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(turns[i].rc, 0);
		assert_int_equal(turns[i].ended, i + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(combine__fibers_that_wait__ONE_LOCK_FOR_ALL_AND_AN_ORDER),
		cmocka_unit_test(combine__holder_refuses__WAITERS_GET_THE_LOCK),
		cmocka_unit_test(combine__another_tag__IS_LEFT_ALONE),
		cmocka_unit_test(combine__release_fails__SO_DO_ALL),
		cmocka_unit_test(combine__threads_and_clients__NO_CHANGE_IS_LOST_OR_DOUBLED),
		cmocka_unit_test(lock__fibers_wait_for_one_of_this_worker__IN_TURN_AND_AT_REST),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
