/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch_test.c -- replies are fetched from a memory server that is quick, and written by one that
 * is slow.  A production server and client on a network, while the server's processor changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/rpc/mailbox.h"
#include "compute/worker/worker.h"
#include "tests/sim/cluster.h"

#define QUICK_RPC_NS 500u
#define SLOW_RPC_NS 60000u
#define CALLS 20u
/* A few in a row, before and after the first that is like them. */
#define CALLS_TO_NOTICE 12u

static struct {
	struct nam_sim_network network;
	struct sim_cluster cluster;
	struct nam_worker *worker;
	bool always;
	bool done;
} world;

/* Round trips of so many requests. */
static uint64_t
ping(unsigned count)
{
	const struct nam_op_counters *counters = nam_worker_counters(world.worker, NAM_OP_OTHER);
	uint64_t before = counters->round_trips;

	for (unsigned i = 0; i < count; i++)
		if (nam_rpc_call(world.worker, 0, NAM_RPC_PING, NULL, 0, NULL, NULL))
			abort();
	return counters->round_trips - before;
}

/* Whether the memory server is to write its replies. */
static bool
written(void)
{
	return world.worker->mailboxes[0]->reply;
}

static void
change_speed(void)
{
	world.network.rpc_ns = QUICK_RPC_NS;
	(void)ping(1);
	assert_int_equal(ping(CALLS), 2 * CALLS);
	assert_false(written());
	world.network.rpc_ns = SLOW_RPC_NS;
	for (unsigned i = 0; i < CALLS_TO_NOTICE && !written(); i++)
		assert_true(ping(1) > 2);
	if (world.always) {
		assert_false(written());
		return;
	}
	assert_true(written());
	assert_int_equal(ping(CALLS), CALLS);
	assert_true(written());
	world.network.rpc_ns = QUICK_RPC_NS;
	for (unsigned i = 0; i < CALLS_TO_NOTICE && written(); i++)
		(void)ping(1);
	assert_false(written());
	assert_int_equal(ping(CALLS), 2 * CALLS);
}

static void
client_main(void *arg)
{
	struct nam_client_options options;
	struct nam_client *client;

	(void)arg;
	sim_cluster_await(&world.cluster);
	nam_client_options_init(&options);
	options.cluster = world.cluster.list;
	options.transport = NAM_TRANSPORT_FETCH;
	options.fetch_always = world.always;
	if (nam_client_connect(&options, &client, NULL) ||
		nam_worker_open(client, &world.worker, NULL))
		abort();
	change_speed();
	world.done = true;
	nam_worker_close(world.worker);
	nam_client_close(client);
	sim_cluster_stop(&world.cluster);
}

static void
run(bool always)
{
	struct nam_sim_options options;
	struct nam_diag diag = { "" };

	memset(&world, 0, sizeof(world));
	world.always = always;
	if (nam_sim_network_read("connect-ib", &world.network, &diag))
		fail_msg("%s", diag.text);
	nam_sim_options_init(&options);
	options.network = &world.network;
	sim_cluster_begin(&options, &world.cluster, 1, 1, 16u << 20);
	assert_int_equal(nam_sim_process_start("client", client_main, NULL, NULL), 0);
	assert_int_equal(nam_sim_run(), 0);
	nam_sim_end();
	assert_true(world.done);
}

static void
fetch__slow_and_quick_again__REPLIES_WRITTEN_MEANWHILE(void **state)
{
	(void)state;
	run(false);
}

static void
fetch_always__slow__FETCHES_ALL_THE_SAME(void **state)
{
	(void)state;
	run(true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fetch__slow_and_quick_again__REPLIES_WRITTEN_MEANWHILE),
		cmocka_unit_test(fetch_always__slow__FETCHES_ALL_THE_SAME),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
