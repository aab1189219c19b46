/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers that keep failing, or keep the processor, and what becomes of the others. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/worker/worker.h"
#include "compute/worker/doorbell.h"
#include "compute/remote/lock.h"
#include "tests/lib/cluster.h"

#define MIB (1ull << 20)
#define OBJECT_BYTES 256u
#define TIMEOUT_MS 300u
#define FAILURES 200u

static struct local_cluster *cluster;
static struct nam_client *client;
static struct nam_worker *worker;
static struct nam_gaddr at;	/* on server 1 */

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(2, 16 * MIB, 8 * MIB);
	client = test_connect(local_cluster_list(cluster), "fairness", TIMEOUT_MS);
	worker = test_worker(client);
	assert_int_equal(nam_alloc_on(worker, 1, OBJECT_BYTES, &at), 0);
	at = nam_gaddr_untagged(at);
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

/* ---- fibers that keep the processor -------------------------------------------------------- */

struct epoch_thread {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam__lock lock;
	int rc;
};

static void
want_lock(void *arg)
{
	uint64_t *image = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam__doorbell doorbell;
	struct nam__lock lock;
	int *ret_rc = arg;

	*ret_rc = nam__lock_read_await(worker, at, image, OBJECT_BYTES, NULL, &lock); /* SUSPENDS */
	nam_buffer_give(worker, image, OBJECT_BYTES);
	if (*ret_rc)
		return;
	nam__doorbell_init(&doorbell, worker, at);
	*ret_rc = nam__unlock_await(&doorbell, &lock); /* SUSPENDS */
}

/* For the one that waits for a lock it is as if the process had been stopped. */
static void
keep_processor(void *arg)
{
	(void)arg;
	nam_worker_yield(worker); /* SUSPENDS */
	nam_sleep_ns(2 * TIMEOUT_MS * 1000000ull);
}

static void *
unlock_later(void *arg)
{
	struct epoch_thread *epoch_thread = arg;
	struct nam__doorbell doorbell;

	nam_sleep_ns((2 * TIMEOUT_MS + 60) * 1000000ull);
	nam__doorbell_init(&doorbell, epoch_thread->worker, at);
	epoch_thread->rc = nam__unlock_await(&doorbell, &epoch_thread->lock);
	return NULL;
}

static void
lock__waiter_was_kept_from_running__ITS_ABSENCE_DOES_NOT_COUNT(void **state)
{
	struct epoch_thread epoch_thread = {
		.client = test_connect(local_cluster_list(cluster), "epoch_thread", TIMEOUT_MS),
	};
	uint64_t *image;
	pthread_t thread;
	int rc = -1;

	(void)state;
	epoch_thread.worker = test_worker(epoch_thread.client);
	image = nam_buffer_take(epoch_thread.worker, OBJECT_BYTES);
	assert_int_equal(nam_write_await(epoch_thread.worker, at, image, 8), 0);
	assert_int_equal(nam__lock_read_await(epoch_thread.worker, at, image, OBJECT_BYTES, NULL,
				 &epoch_thread.lock), 0);
	assert_int_equal(nam_worker_spawn(worker, want_lock, &rc), 0);
	assert_int_equal(nam_worker_spawn(worker, keep_processor, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, unlock_later, &epoch_thread), 0);
	nam_worker_run(worker);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	assert_int_equal(epoch_thread.rc, 0);
	nam_buffer_give(epoch_thread.worker, image, OBJECT_BYTES);
	nam_worker_close(epoch_thread.worker);
	nam_client_close(epoch_thread.client);
}

/* ---- fibers that keep failing --------------------------------------------------------------- */

struct siblings {
	unsigned failures, turns;
	bool writes;
};

static void
fail_often(void *arg)
{
	uint64_t *local = nam_buffer_take(worker, 8);
	struct siblings *siblings = arg;

	while (siblings->failures < FAILURES) {
		int rc = siblings->writes ? nam_write_await(worker, at, local, 8) :
					    nam_read_await(worker, at, local, 8); /* SUSPENDS */

		siblings->failures += rc == -NAM_E_FABRIC_PEER_DEAD;
	}
	nam_buffer_give(worker, local, 8);
}

static void
take_turns(void *arg)
{
	struct siblings *siblings = arg;

	while (siblings->failures < FAILURES) {
		siblings->turns++;
		nam_worker_yield(worker); /* SUSPENDS */
	}
}

static void
await__server_is_gone__SIBLINGS_HAVE_THEIR_TURNS(void **state)
{
	(void)state;
	local_cluster_stop_server(cluster, 1);
	for (unsigned writes = 0; writes < 2; writes++) {
		struct siblings siblings = { .writes = writes };

		assert_int_equal(nam_worker_spawn(worker, fail_often, &siblings), 0);
		assert_int_equal(nam_worker_spawn(worker, take_turns, &siblings), 0);
		nam_worker_run(worker);
		assert_true(siblings.turns >= FAILURES / 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lock__waiter_was_kept_from_running__ITS_ABSENCE_DOES_NOT_COUNT),
		cmocka_unit_test(await__server_is_gone__SIBLINGS_HAVE_THEIR_TURNS),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
