/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_rate_test.c -- simulated memory servers answer as many requests as their processors can.
 * Production servers and clients on a network, each handler thread busy for a profile's time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/cluster.h"
#include "compute/rpc/call.h"

#define CLIENTS 16u
#define RPC_NS 10000u
#define BEGIN_NS 50000000u	/* all clients have joined */
#define MEASURED_NS 10000000u
#define PING_BYTES 128u

static struct {
	struct sim_cluster cluster;
	uint64_t answered;
	unsigned running;
} world;

static void
client_main(void *arg)
{
	uint8_t ping[PING_BYTES] = { 0 };
	struct nam_client *client;
	struct nam_worker *worker;

	(void)arg;
	sim_cluster_await(&world.cluster);
	client = sim_client(&world.cluster, "rpc-rate");
	worker = sim_worker(client);
	if (nam_sim_now_ns() >= BEGIN_NS)
		abort();
	nam_sleep_ns(BEGIN_NS - nam_sim_now_ns());
	while (nam_sim_now_ns() < BEGIN_NS + MEASURED_NS) {
		uint32_t bytes = sizeof(ping);

		if (nam_rpc_call(worker, 0, NAM_RPC_PING, ping, sizeof(ping), ping, &bytes))
			abort();
		world.answered++;
	}
	nam_worker_close(worker);
	nam_client_close(client);
	if (--world.running == 0)
		sim_cluster_stop(&world.cluster);
}

/*
 * Requests answered per millisecond of virtual time.
 * @lenders	clients on the memory server's machine that do its work; 0: it has processors
 */
static double
rate_lent(uint32_t handlers, double rpc_ns, unsigned lenders)
{
	struct nam_sim_process *server, *client;
	struct nam_sim_network network;
	struct nam_sim_options options;
	struct nam_diag diag = { "" };

	memset(&world, 0, sizeof(world));
	world.running = CLIENTS;
	if (nam_sim_network_read("connect-ib", &network, &diag))
		fail_msg("%s", diag.text);
	network.rpc_ns = rpc_ns;
	nam_sim_options_init(&options);
	options.network = &network;
	sim_cluster_begin(&options, &world.cluster, 1, handlers, 16u << 20);
	server = world.cluster.servers[0].process;
	if (lenders) {
		nam_sim_process_place(server, 0);
		nam_sim_process_borrow(server);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		assert_int_equal(nam_sim_process_start("client", client_main, NULL, &client), 0);
		if (lenders)
			nam_sim_process_place(client, i < lenders ? 0 : i);
	}
	assert_int_equal(nam_sim_run(), 0);
	nam_sim_end();
	return (double)world.answered * 1e6 / MEASURED_NS;
}

static double
rate(uint32_t handlers, double rpc_ns)
{
	return rate_lent(handlers, rpc_ns, 0);
}

static void
one_handler__ANSWERS_ONE_AT_A_TIME(void **state)
{
	double one = rate(1, RPC_NS);

	(void)state;
	print_message("one handler of 10 us: %.1f requests a millisecond\n", one);
	assert_true(one > 90 && one < 110);
}

static void
more_handlers__ANSWER_MORE(void **state)
{
	double one = rate(1, RPC_NS), four = rate(4, RPC_NS);

	(void)state;
	print_message("four handlers: %.1f requests a millisecond, one: %.1f\n", four, one);
	assert_true(four > 3.8 * one && four < 4.2 * one);
}

static void
faster_handlers__LEAVE_THE_NETWORK_TO_WAIT_FOR(void **state)
{
	double fast = rate(8, 1);

	(void)state;
	print_message("eight quick handlers: %.1f requests a millisecond\n", fast);
	/* 16 clients, two messages of 1.6 us there and back. */
	assert_true(fast > 3000 && fast < 16e3 / 1.6);
}

/* Four handlers, but only so many threads of clients on their machine. */
static void
borrowed_processors__ANSWER_AS_MANY_AS_THEIR_THREADS_CAN(void **state)
{
	double one = rate_lent(4, RPC_NS, 1), two = rate_lent(4, RPC_NS, 2);

	(void)state;
	print_message("borrowed: one thread %.1f requests a millisecond, two %.1f\n", one, two);
	assert_true(one > 80 && one < 110);
	assert_true(two > 160 && two < 220);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_handler__ANSWERS_ONE_AT_A_TIME),
		cmocka_unit_test(more_handlers__ANSWER_MORE),
		cmocka_unit_test(faster_handlers__LEAVE_THE_NETWORK_TO_WAIT_FOR),
		cmocka_unit_test(borrowed_processors__ANSWER_AS_MANY_AS_THEIR_THREADS_CAN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
