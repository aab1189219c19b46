/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions stay on the thread's own stack: cmocka leaves a failed test with longjmp, which must
 * not cross from one stack to another.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/hash/hash.h"
#include "compute/worker/worker.h"
#include "compute/worker/doorbell.h"
#include "compute/remote/lock.h"
#include "tests/lib/cluster.h"
#include "tests/unit/compute/remote/objects.h"

#define MIB (1ull << 20)
#define TIMEOUT_MS 300u
/* Beyond a timeout: what the project promises. */
#define SLACK_NS test_bound_ns(1000000000)

static struct local_cluster *cluster;
static struct nam_client *client;
static struct nam_worker *worker;

/* ---- a clock that can be interrupted ------------------------------------------------------ */

/* Runs in the thread that set it, when that next asks for the time. */
static _Thread_local void (*on_now)(void);

static uint64_t
env_now_ns(void)
{
	struct timespec now;

	if (on_now)
		on_now();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void
env_sleep_ns(uint64_t ns)
{
	struct timespec pause = { (time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull) };

	nanosleep(&pause, NULL);
}

static void
env_yield(void)
{
	sched_yield();
}

static uint64_t
env_entropy(void)
{
	uint64_t word = 0;

	if (getrandom(&word, sizeof(word), 0) != sizeof(word))
		test_die("getrandom");
	return word;
}

struct nam_thread {
	pthread_t id;
	nam_thread_fn fn;
	void *arg;
};

static void *
thread_main(void *arg)
{
	struct nam_thread *thread = arg;

	thread->fn(thread->arg);
	return NULL;
}

static int
env_thread_start(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret_thread)
{
	struct nam_thread *thread = malloc(sizeof(*thread));
	int rc;

	(void)name;
	if (!thread)
		return -ENOMEM;
	thread->fn = fn;
	thread->arg = arg;
	rc = pthread_create(&thread->id, NULL, thread_main, thread);
	if (!rc)
		*ret_thread = thread;
	else
		free(thread);
	return -rc;
}

static void
env_thread_join(struct nam_thread *thread)
{
	(void)pthread_join(thread->id, NULL);
	free(thread);
}

static const struct nam_env env = {
	.now_ns = env_now_ns,
	.wall_ns = env_now_ns,
	.sleep_ns = env_sleep_ns,
	.yield = env_yield,
	.entropy = env_entropy,
	.thread_start = env_thread_start,
	.thread_join = env_thread_join,
};

/* ---- objects: a lock word and some more -------------------------------------------------- */

static uint64_t
object_word(struct nam_gaddr at, unsigned number)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), word;

	assert_int_equal(nam_read_await(worker, at, image, OBJECT_BYTES), 0);
	word = image[number];
	nam_buffer_give(worker, image, OBJECT_BYTES);
	return word;
}

/* Two objects that share a slot of the process's queue, or do not. */
static void
object_pair(bool same_slot, struct nam_gaddr pair[2])
{
	pair[0] = object_make(worker);
	do
		pair[1] = object_make(worker);
	while ((nam_mix64(pair[0].raw) % 1024 == nam_mix64(pair[1].raw) % 1024) != same_slot);
}

static int
unlock(struct nam_worker *by, struct nam__lock *lock)
{
	struct nam__doorbell doorbell;

	nam__doorbell_init(&doorbell, by, lock->at);
	return nam__unlock_await(&doorbell, lock); /* SUSPENDS */
}

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(2, 16 * MIB, 8 * MIB);
	client = test_connect(local_cluster_list(cluster), "lock-test", TIMEOUT_MS);
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

/* ---- one holder --------------------------------------------------------------------------- */

static void
lock_read__free_word__LOCKED_AND_READ_IN_ONE_ROUND_TRIP(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam_op_counters before, now;
	struct nam_gaddr at = object_make(worker);
	struct nam__lock lock;

	(void)state;
	before = *nam_worker_counters(worker, NAM_OP_OTHER);
	assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock), 0);
	now = *nam_worker_counters(worker, NAM_OP_OTHER);
	assert_int_equal(now.round_trips - before.round_trips, 1);
	assert_int_equal(now.doorbells - before.doorbells, 1);
	assert_int_equal(now.work_requests - before.work_requests, 2);
	assert_int_equal(image[0], lock.word);
	assert_int_equal(object_word(at, 0), lock.word);
	assert_int_equal(nam_lock_owner(lock.word), nam_client_id(client));
	assert_int_equal(nam_lock_incarnation(lock.word), client->incarnation);
	before = *nam_worker_counters(worker, NAM_OP_OTHER);
	assert_int_equal(unlock(worker, &lock), 0);
	now = *nam_worker_counters(worker, NAM_OP_OTHER);
	assert_int_equal(now.round_trips - before.round_trips, 1);
	assert_int_equal(object_word(at, 0), NAM_LOCK_FREE);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

static void
lock_read__again_and_again__NEVER_THE_SAME_WORD(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), before = 0;
	struct nam_gaddr at = object_make(worker);

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct nam__lock lock;

		assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL,
					 &lock), 0);
		assert_int_not_equal(lock.word, before);
		before = lock.word;
		assert_int_equal(unlock(worker, &lock), 0);
	}
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Each draws its numbers many at a time: more than two such draws of both. */
static void
lock_read__two_workers_by_turns__NEVER_THE_SAME_WORD(void **state)
{
	enum { LOCKS = 1500 };
	struct nam_worker *workers[2] = { worker, test_worker(client) };
	uint64_t *images[2], *words = malloc(LOCKS * sizeof(*words));
	struct nam_gaddr at = object_make(worker);

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		images[i] = nam_buffer_take(workers[i], OBJECT_BYTES);
	for (unsigned i = 0; i < LOCKS; i++) {
		struct nam__lock lock;

		assert_int_equal(nam__lock_read_await(workers[i % 2], at, images[i % 2],
					 OBJECT_BYTES, NULL, &lock), 0);
		words[i] = lock.word;
		assert_int_equal(unlock(workers[i % 2], &lock), 0);
	}
	qsort(words, LOCKS, sizeof(*words), by_value);
	for (unsigned i = 1; i < LOCKS; i++)
		assert_int_not_equal(words[i - 1], words[i]);
	free(words);
	nam_buffer_give(worker, images[0], OBJECT_BYTES);
	nam_worker_close(workers[1]);
}

static void
unlock__with_writes__THEY_ARE_THERE_WHEN_THE_WORD_IS_FREE(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam_gaddr at = object_make(worker);
	struct nam__doorbell doorbell;
	struct nam__lock lock;

	(void)state;
	for (uint64_t i = 1; i < 50; i++) {
		assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL,
					 &lock), 0);
		assert_int_equal(image[1], i - 1);
		image[1] = i;
		image[31] = i * 3;
		nam__doorbell_init(&doorbell, worker, at);
		nam__doorbell_write(&doorbell, 8 * 31, image + 31, 8);
		nam__doorbell_write(&doorbell, 8, image + 1, 8);
		assert_int_equal(nam__unlock_await(&doorbell, &lock), 0);
		assert_int_equal(object_word(at, 0), NAM_LOCK_FREE);
		assert_int_equal(object_word(at, 1), i);
		assert_int_equal(object_word(at, 31), i * 3);
	}
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

static void
unlock__word_is_not_ours_any_more__FENCED_AND_LEFT_ALONE(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), old;
	struct nam_gaddr at = object_make(worker);
	struct nam__lock lock;

	(void)state;
	assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock), 0);
	assert_int_equal(nam_cas_await(worker, at, lock.word, 4711, &old), 0);
	assert_int_equal(unlock(worker, &lock), -NAM_E_FENCED);
	assert_int_equal(object_word(at, 0), 4711);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

/* ---- mutual exclusion --------------------------------------------------------------------- */

/*
 * Increments of a counter that lies beside the lock word: read with the lock, written with its
 * release.  One that is lost means that two were inside at once.
 */
struct incrementer {
	struct nam_worker *worker;
	struct nam_gaddr at[2];
	unsigned rounds;
	int rc;
};

static void
increment(void *arg)
{
	struct incrementer *self = arg;
	uint64_t *image = nam_buffer_take(self->worker, OBJECT_BYTES);

	for (unsigned i = 0; i < self->rounds && !self->rc; i++) {
		struct nam_gaddr at = self->at[i % 2];
		struct nam__doorbell doorbell;
		struct nam__lock lock;

		self->rc = nam__lock_read_await(self->worker, at, image, OBJECT_BYTES, NULL,
			&lock); /* SUSPENDS */
		if (self->rc)
			break;
		if (image[1] != image[2])
			self->rc = -EILSEQ;
		/* Half of it while others may look, half of it with the release. */
		image[1]++;
		image[2]++;
		nam__doorbell_init(&doorbell, self->worker, at);
		nam__doorbell_write(&doorbell, 8, image + 1, 8);
		if (!self->rc)
			self->rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
		nam__doorbell_write(&doorbell, 16, image + 2, 8);
		if (!self->rc)
			self->rc = nam__unlock_await(&doorbell, &lock); /* SUSPENDS */
	}
	nam_buffer_give(self->worker, image, OBJECT_BYTES);
}

#define POOL_FIBERS 6u

struct thread_pool {
	struct nam_client *client;
	struct nam_gaddr at[2];
	unsigned rounds;
	int rc;
};

static void
thread_pool_main(void *arg)
{
	struct thread_pool *pool = arg;
	struct nam_worker *own = test_worker(pool->client);
	struct incrementer incrementers[POOL_FIBERS];

	for (unsigned i = 0; i < POOL_FIBERS; i++) {
		incrementers[i] = (struct incrementer){ own, { pool->at[0], pool->at[1] },
			pool->rounds, 0 };
		if (nam_worker_spawn(own, increment, &incrementers[i]))
			test_die("cannot start a fiber");
	}
	nam_worker_run(own); /* SUSPENDS */
	for (unsigned i = 0; i < POOL_FIBERS; i++)
		if (incrementers[i].rc)
			pool->rc = incrementers[i].rc;
	nam_worker_close(own);
}

static void
exclude(bool same_object, bool same_slot)
{
	struct nam_client *clients[2] = {
		test_connect(local_cluster_list(cluster), "one", 60000),
		test_connect(local_cluster_list(cluster), "two", 60000),
	};
	unsigned rounds = (unsigned)test_scaled(500) * 2;
	struct nam_thread *threads[4];
	struct nam_gaddr pair[2];
	struct thread_pool pools[4];
	uint64_t expect = (uint64_t)rounds * 4 * POOL_FIBERS;

	object_pair(same_slot, pair);
	if (same_object)
		pair[1] = pair[0];
	for (unsigned i = 0; i < 4; i++) {
		pools[i] = (struct thread_pool){ clients[i / 2], { pair[0], pair[1] }, rounds, 0 };
		assert_int_equal(nam_thread_start("pool", thread_pool_main, &pools[i], &threads[i]),
			0);
	}
	for (unsigned i = 0; i < 4; i++) {
		nam_thread_join(threads[i]);
		assert_int_equal(pools[i].rc, 0);
	}
	if (!same_object) {
		assert_int_equal(object_word(pair[1], 1), expect / 2);
		assert_int_equal(object_word(pair[1], 2), expect / 2);
		assert_int_equal(object_word(pair[1], 0), NAM_LOCK_FREE);
		expect /= 2;
	}
	assert_int_equal(object_word(pair[0], 1), expect);
	assert_int_equal(object_word(pair[0], 2), expect);
	/* Handed-over locks have been released. */
	assert_int_equal(object_word(pair[0], 0), NAM_LOCK_FREE);
	nam_client_close(clients[0]);
	nam_client_close(clients[1]);
}

static void
lock__fibers_threads_and_clients_want_one_word__ONE_AT_A_TIME(void **state)
{
	(void)state;
	exclude(true, false);
}

static void
lock__two_words_that_share_a_slot__ONE_AT_A_TIME_AND_NONE_FORGOTTEN(void **state)
{
	(void)state;
	exclude(false, true);
}

static void
lock__two_words_apart__ONE_AT_A_TIME(void **state)
{
	(void)state;
	exclude(false, false);
}

static void
lock__fibers_of_one_worker__HAND_IT_OVER(void **state)
{
	struct incrementer incrementers[16];
	struct nam_op_counters before = *nam_worker_counters(worker, NAM_OP_OTHER), now;
	struct nam_gaddr at = object_make(worker);
	uint64_t requests;

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		incrementers[i] = (struct incrementer){ worker, { at, at }, 50, 0 };
		assert_int_equal(nam_worker_spawn(worker, increment, &incrementers[i]), 0);
	}
	nam_worker_run(worker);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(incrementers[i].rc, 0);
	now = *nam_worker_counters(worker, NAM_OP_OTHER);
	requests = now.work_requests - before.work_requests;
	/* Each round: READ and two WRITEs; two CASes only once in a while. */
	assert_true(requests >= 800 * 3);
	assert_true(requests < 800 * 3 + 800);
	/* No fiber of this process competed for the word. */
	assert_int_equal(now.restarts[NAM_RESTART_LOCKED], before.restarts[NAM_RESTART_LOCKED]);
	assert_int_equal(object_word(at, 1), 800);
	assert_int_equal(object_word(at, 0), NAM_LOCK_FREE);
}

/* ---- holders that do not let go ----------------------------------------------------------- */

struct holder {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam__lock lock;
};

static void
hold(struct holder *holder, const char *name, struct nam_gaddr at)
{
	uint64_t *image;

	holder->client = test_connect(local_cluster_list(cluster), name, 0);
	holder->worker = test_worker(holder->client);
	image = nam_buffer_take(holder->worker, OBJECT_BYTES);
	assert_int_equal(nam__lock_read_await(holder->worker, at, image, OBJECT_BYTES, NULL,
				 &holder->lock), 0);
	nam_buffer_give(holder->worker, image, OBJECT_BYTES);
}

/* For the memory servers the client is dead from here on. */
static void
leave(struct holder *holder)
{
	nam_worker_close(holder->worker);
	nam_client_close(holder->client);
}

static void
expect_diag(const struct nam_worker *of, const char *name, unsigned id)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "client %u", id);
	assert_non_null(strstr(nam_worker_diag(of), text));
	assert_non_null(strstr(nam_worker_diag(of), name));
	(void)snprintf(text, sizeof(text), "pid %d", (int)getpid());
	assert_non_null(strstr(nam_worker_diag(of), text));
}

static void
lock__holder_lives__TIMEOUT_NAMES_IT(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), start_ns, took_ns;
	struct nam_gaddr at = object_make(worker);
	struct holder holder;
	struct nam__lock lock;

	(void)state;
	hold(&holder, "slow-holder", at);
	start_ns = nam_now_ns();
	assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock),
		-NAM_E_LOCK_TIMEOUT);
	took_ns = nam_now_ns() - start_ns;
	assert_true(took_ns >= TIMEOUT_MS * 1000000ull);
	assert_true(took_ns < TIMEOUT_MS * 1000000ull + SLACK_NS);
	expect_diag(worker, "slow-holder", nam_client_id(holder.client));
	assert_int_equal(object_word(at, 0), holder.lock.word);
	/* Nothing is left behind: when it is free, it can be had. */
	assert_int_equal(unlock(holder.worker, &holder.lock), 0);
	assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock), 0);
	assert_int_equal(unlock(worker, &lock), 0);
	leave(&holder);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

/* Others take the lock again and again, and never is it free when we look. */
struct relay {
	struct holder *holder;
	unsigned turns;
};

static void *
relay_main(void *arg)
{
	const struct relay *relay = arg;
	struct nam_worker *by = relay->holder->worker;
	uint64_t *word = nam_buffer_take(by, 8);

	for (unsigned i = 0; i < relay->turns; i++) {
		nam_sleep_ns(20000000);
		*word = nam_lock_word(by->client->id, by->client->incarnation, 1000000 + i);
		assert_int_equal(nam_write_await(by, relay->holder->lock.at, word, 8), 0);
	}
	*word = NAM_LOCK_FREE;
	assert_int_equal(nam_write_await(by, relay->holder->lock.at, word, 8), 0);
	nam_buffer_give(by, word, 8);
	return NULL;
}

/* The lock word while its owner changes so often; *ret_took_ns says after how long. */
static int
lock_in_relay(unsigned turns, uint64_t *ret_took_ns)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), start_ns;
	struct nam_gaddr at = object_make(worker);
	struct holder holder;
	struct relay relay = { &holder, turns };
	struct nam__lock lock;
	pthread_t thread;
	int rc;

	hold(&holder, "relay", at);
	assert_int_equal(pthread_create(&thread, NULL, relay_main, &relay), 0);
	start_ns = nam_now_ns();
	rc = nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock);
	*ret_took_ns = nam_now_ns() - start_ns;
	pthread_join(thread, NULL);
	if (!rc)
		assert_int_equal(unlock(worker, &lock), 0);
	assert_int_equal(unlock(holder.worker, &holder.lock), -NAM_E_FENCED);
	leave(&holder);
	nam_buffer_give(worker, image, OBJECT_BYTES);
	return rc;
}

static void
lock__changes_hands_for_long__LOCKED_IN_THE_END(void **state)
{
	uint64_t took_ns;

	(void)state;
	assert_int_equal(lock_in_relay(3 * TIMEOUT_MS / 20, &took_ns), 0);
	assert_true(took_ns > 2 * TIMEOUT_MS * 1000000ull);
}

static void
lock__changes_hands_for_ever__TIMEOUT_AFTER_EIGHT(void **state)
{
	uint64_t took_ns;

	(void)state;
	assert_int_equal(lock_in_relay(12 * TIMEOUT_MS / 20, &took_ns), -NAM_E_LOCK_TIMEOUT);
	assert_true(took_ns >= 8 * TIMEOUT_MS * 1000000ull);
	assert_true(took_ns < 8 * TIMEOUT_MS * 1000000ull + SLACK_NS);
}

static void
lock__holder_died__ORPHANED_NAMES_IT(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), start_ns;
	struct nam_gaddr at = object_make(worker);
	struct holder holder;
	struct nam__lock lock;
	unsigned id;

	(void)state;
	hold(&holder, "dead-holder", at);
	id = nam_client_id(holder.client);
	leave(&holder);
	for (unsigned i = 0; i < 3; i++) {
		start_ns = nam_now_ns();
		assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock),
			-NAM_E_LOCK_ORPHANED);
		assert_true(nam_now_ns() - start_ns < TIMEOUT_MS * 1000000ull + SLACK_NS);
		expect_diag(worker, "dead-holder", id);
	}
	assert_int_equal(object_word(at, 0), holder.lock.word);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

/* No client has incarnation 0, whichever has the id. */
static void
lock__overwritten_with_incarnation_0__ORPHANED(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES), old;
	struct nam_gaddr at = object_make(worker);
	uint64_t word = nam_lock_word(nam_client_id(client), 0, 7);
	struct nam__lock lock;

	(void)state;
	assert_int_equal(nam_cas_await(worker, at, NAM_LOCK_FREE, word, &old), 0);
	assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock),
		-NAM_E_LOCK_ORPHANED);
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

struct hopeful {
	struct nam_worker *worker;
	struct nam_gaddr at;
	uint64_t took_ns;
	int rc;
};

static void
hope(void *arg)
{
	struct hopeful *self = arg;
	uint64_t *image = nam_buffer_take(self->worker, OBJECT_BYTES), start_ns = nam_now_ns();
	struct nam__lock lock;

	self->rc = nam__lock_read_await(self->worker, self->at, image, OBJECT_BYTES, NULL,
		&lock); /* SUSPENDS */
	self->took_ns = nam_now_ns() - start_ns;
	nam_buffer_give(self->worker, image, OBJECT_BYTES);
}

/* All of them queue for one slot: still none may wait longer than one would. */
static void
lock__many_fibers_want_an_orphan__ALL_FAIL_IN_BOUNDED_TIME(void **state)
{
	struct hopeful hopefuls[64];
	struct nam_gaddr at = object_make(worker);
	struct holder holder;

	(void)state;
	hold(&holder, "dead-holder", at);
	leave(&holder);
	for (unsigned i = 0; i < 64; i++) {
		hopefuls[i] = (struct hopeful){ worker, at, 0, 0 };
		assert_int_equal(nam_worker_spawn(worker, hope, &hopefuls[i]), 0);
	}
	nam_worker_run(worker);
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(hopefuls[i].rc, -NAM_E_LOCK_ORPHANED);
		assert_true(hopefuls[i].took_ns < TIMEOUT_MS * 1000000ull + SLACK_NS);
	}
}

static void
lock__many_fibers_want_what_a_client_keeps__ALL_FAIL_IN_BOUNDED_TIME(void **state)
{
	struct hopeful hopefuls[16];
	struct nam_gaddr at = object_make(worker);
	struct holder holder;

	(void)state;
	hold(&holder, "slow-holder", at);
	for (unsigned i = 0; i < 16; i++) {
		hopefuls[i] = (struct hopeful){ worker, at, 0, 0 };
		assert_int_equal(nam_worker_spawn(worker, hope, &hopefuls[i]), 0);
	}
	nam_worker_run(worker);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(hopefuls[i].rc, -NAM_E_LOCK_TIMEOUT);
		assert_true(hopefuls[i].took_ns < TIMEOUT_MS * 1000000ull + SLACK_NS);
	}
	assert_int_equal(unlock(holder.worker, &holder.lock), 0);
	leave(&holder);
}

/*
 * The holder lets go and leaves in good order.  We are kept from running between seeing its word
 * and hearing that it is gone: that is no orphan.
 */
static struct holder *leaving;
static uint64_t leaving_at_ns;

static void
leave_now(void)
{
	struct nam_rpc_client_state_reply reply = { .state = NAM_CLIENT_ALIVE };
	struct nam_rpc_client_state_request request;
	struct holder *holder = leaving;
	struct nam_worker *witness;

	on_now = NULL;
	if (nam_now_ns() < leaving_at_ns) {
		on_now = leave_now;
		return;
	}
	request = (struct nam_rpc_client_state_request){
		.client_id = nam_client_id(holder->client),
		.incarnation = holder->client->incarnation,
	};
	if (unlock(holder->worker, &holder->lock))
		test_die("cannot unlock");
	leave(holder);
	witness = test_worker(client);
	while (reply.state == NAM_CLIENT_ALIVE) {
		uint32_t bytes = sizeof(reply);

		if (nam_rpc_call(witness, client->catalog_slot, NAM_RPC_CLIENT_STATE, &request,
			    sizeof(request), &reply, &bytes))
			test_die("cannot ask");
	}
	nam_worker_close(witness);
}

static void
lock__holder_lets_go_and_leaves__NEVER_AN_ORPHAN(void **state)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam_gaddr at = object_make(worker);

	(void)state;
	for (unsigned i = 0; i < test_scaled_least(25, 5); i++) {
		struct holder holder;
		struct nam__lock lock;

		hold(&holder, "leaving", at);
		leaving = &holder;
		leaving_at_ns = nam_now_ns() + 21000000;
		on_now = leave_now;
		assert_int_equal(nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL,
					 &lock), 0);
		on_now = NULL;
		assert_int_equal(unlock(worker, &lock), 0);
	}
	nam_buffer_give(worker, image, OBJECT_BYTES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock_read__free_word__LOCKED_AND_READ_IN_ONE_ROUND_TRIP),
		cmocka_unit_test(lock_read__again_and_again__NEVER_THE_SAME_WORD),
		cmocka_unit_test(lock_read__two_workers_by_turns__NEVER_THE_SAME_WORD),
		cmocka_unit_test(unlock__with_writes__THEY_ARE_THERE_WHEN_THE_WORD_IS_FREE),
		cmocka_unit_test(unlock__word_is_not_ours_any_more__FENCED_AND_LEFT_ALONE),
		cmocka_unit_test(lock__fibers_threads_and_clients_want_one_word__ONE_AT_A_TIME),
		cmocka_unit_test(
			lock__two_words_that_share_a_slot__ONE_AT_A_TIME_AND_NONE_FORGOTTEN),
		cmocka_unit_test(lock__two_words_apart__ONE_AT_A_TIME),
		cmocka_unit_test(lock__fibers_of_one_worker__HAND_IT_OVER),
		cmocka_unit_test(lock__holder_lives__TIMEOUT_NAMES_IT),
		cmocka_unit_test(lock__changes_hands_for_long__LOCKED_IN_THE_END),
		cmocka_unit_test(lock__changes_hands_for_ever__TIMEOUT_AFTER_EIGHT),
		cmocka_unit_test(lock__holder_died__ORPHANED_NAMES_IT),
		cmocka_unit_test(lock__overwritten_with_incarnation_0__ORPHANED),
		cmocka_unit_test(lock__many_fibers_want_an_orphan__ALL_FAIL_IN_BOUNDED_TIME),
		cmocka_unit_test(
			lock__many_fibers_want_what_a_client_keeps__ALL_FAIL_IN_BOUNDED_TIME),
		cmocka_unit_test(lock__holder_lets_go_and_leaves__NEVER_AN_ORPHAN),
	};

	nam_env_install(&env);
	return cmocka_run_group_tests(tests, setup, teardown);
}
