/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_requests_test.c -- clients that die with requests under way, by the RPC transport of
 * NAM_TRANSPORT.  The requests are in a memory server's mailbox, with a handler, or with the reply
 * half written.
 *
 * The memory servers keep nothing of theirs, what they acknowledged is done, and others go on.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/rpc/rpc.h"
#include "tests/lib/cluster.h"
#include "nam.h"

#define INDEX "asked"
#define SERVERS 2u
#define FIBERS 24u		/* more than a mailbox has places, on each memory server */
#define INSERTS 3u		/* one fiber in so many inserts, the others PING */
#define ROUNDS test_scaled_least(30, 6)
#define ROUND_NUMBERS 1000000u
/* Within which all that a dead client had is given back, and a neighbour is answered. */
#define BOUND_NS test_bound_ns(5000000000ull)

static uint64_t
payload_of(uint64_t number)
{
	return number * 1000003 + 7;
}

/* A message of any length, and the same back. */
static int
ping(struct nam_worker *worker, struct nam_rng *rng)
{
	uint32_t bytes = (uint32_t)nam_rng_below(rng, NAM_RPC_BODY_MAX), back = NAM_RPC_BODY_MAX;
	uint8_t sent[NAM_RPC_BODY_MAX], echo[NAM_RPC_BODY_MAX];
	int rc;

	memset(sent, (int)nam_rng_below(rng, 256), sizeof(sent));
	rc = nam_rpc_call(worker, (uint32_t)nam_rng_below(rng, SERVERS), NAM_RPC_PING, sent, bytes,
		echo, &back); /* SUSPENDS */
	if (!rc && (back != bytes || memcmp(sent, echo, bytes) != 0))
		test_die("a PING was not echoed");
	return rc;
}

/* ---- a victim: asks for ever -------------------------------------------------------------- */

struct requester {
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t number;
};

static void
ping_for_ever(void *arg)
{
	struct requester *self = arg;
	struct nam_rng rng = nam_rng_seed(self->number);

	for (;;)
		if (ping(self->worker, &rng)) /* SUSPENDS */
			test_die("requester: %s", nam_worker_diag(self->worker));
}

/* And says what was acknowledged. */
static void
insert_for_ever(void *arg)
{
	struct requester *self = arg;

	for (;; self->number += FIBERS) {
		uint8_t key[8];

		nam_key_from_u64(self->number, key);
		if (nam_index_insert(self->worker, self->index, key,
			    payload_of(self->number))) /* SUSPENDS */
			test_die("requester: %s", nam_worker_diag(self->worker));
		if (write(STDOUT_FILENO, &self->number, sizeof(self->number)) !=
			sizeof(self->number))
			exit(0);
	}
}

/* Arguments: cluster, first number. */
static int
asker_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "requester", 0);
	struct nam_worker *worker = test_worker(client);
	struct requester requesters[FIBERS];
	struct nam_index *index;

	if (nam_index_open(worker, INDEX, 0, &index))
		test_die("requester: %s", nam_worker_diag(worker));
	for (unsigned i = 0; i < FIBERS; i++) {
		requesters[i] = (struct requester){ worker, index, strtoull(argv[1], NULL,
			10) + i };
		if (nam_worker_spawn(worker, i % INSERTS ? ping_for_ever : insert_for_ever,
			    &requesters[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	return 1;
}

/* ---- a neighbour of the victims ----------------------------------------------------------- */

struct neighbour {
	struct nam_client *client;
	struct nam_thread *thread;
	atomic_bool stopping;
	_Atomic uint64_t answers;
	atomic_int rc;
};

static void
neighbour_main(void *arg)
{
	struct neighbour *self = arg;
	struct nam_worker *worker = test_worker(self->client);
	struct nam_rng rng = nam_rng_seed(1);

	while (!atomic_load(&self->rc) && !atomic_load(&self->stopping)) {
		atomic_store(&self->rc, ping(worker, &rng)); /* SUSPENDS */
		atomic_fetch_add(&self->answers, 1);
	}
	nam_worker_close(worker);
}

/* ---- the coordinator ---------------------------------------------------------------------- */

/* A memory server's state of its clients. */
struct held {
	uint32_t clients, connections, mailboxes;
};

static struct fixture {
	struct cluster cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	struct neighbour neighbour;
	struct held held[SERVERS];	/* while no other client is there */
	uint64_t rounds;
} fixture;

static bool
by_mailbox(void)
{
	const char *transport = getenv("NAM_TRANSPORT");

	return transport && *transport && strcmp(transport, "srq") != 0;
}

/* Shares that a memory server has in its memory: its own, and those of clients.  Elsewhere 0. */
static uint32_t
mailboxes_of(unsigned server)
{
	char path[32], line[512];
	uint32_t count = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps",
		(int)fixture.cluster.servers[server].pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "/memfd:nam-share") != NULL;
	(void)fclose(file);
	return count;
}

static struct held
held_by(unsigned server)
{
	struct nam_server_status status;

	assert_int_equal(nam_server_status_get(fixture.worker, server, &status), 0);
	return (struct held){ status.clients, status.connections, mailboxes_of(server) };
}

static int
start(void **state)
{
	struct nam_index_options options;
	struct neighbour *neighbour = &fixture.neighbour;

	(void)state;
	cluster_start(&fixture.cluster, SERVERS, 64, "4M");
	fixture.client = test_connect(fixture.cluster.list, "coordinator", 0);
	fixture.worker = test_worker(fixture.client);
	nam_index_options_init(&options);
	options.design = NAM_DESIGN_COARSE;
	assert_int_equal(nam_index_create(fixture.worker, INDEX, &options), 0);
	assert_int_equal(nam_index_open(fixture.worker, INDEX, 0, &fixture.index), 0);
	neighbour->client = fixture.client;
	assert_int_equal(nam_thread_start("neighbour", neighbour_main, neighbour,
				 &neighbour->thread), 0);
	while (!atomic_load(&neighbour->answers))
		nam_sleep_ns(1000000);
	for (unsigned i = 0; i < SERVERS; i++)
		fixture.held[i] = held_by(i);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	atomic_store(&fixture.neighbour.stopping, true);
	nam_thread_join(fixture.neighbour.thread);
	nam_index_close(fixture.index);
	nam_worker_close(fixture.worker);
	nam_client_close(fixture.client);
	cluster_stop(&fixture.cluster);
	return atomic_load(&fixture.neighbour.rc) ? -1 : 0;
}

static void
expect_number(uint64_t number)
{
	uint64_t payload = 0;
	uint8_t key[8];

	nam_key_from_u64(number, key);
	assert_int_equal(nam_index_lookup(fixture.worker, fixture.index, key, &payload), 0);
	assert_int_equal(payload, payload_of(number));
}

/* A process that asks, and has been answered once. */
static void
start_requester(struct child *requester)
{
	char first[24];
	const char *const args[] = { fixture.cluster.list, first, NULL };
	uint64_t number;

	(void)snprintf(first, sizeof(first), "%llu",
		(unsigned long long)++fixture.rounds * ROUND_NUMBERS);
	child_start_self(requester, "requester", args);
	assert_int_equal(read(requester->out, &number, sizeof(number)), sizeof(number));
	expect_number(number);
	if (strncmp(fixture.cluster.list, "shm:", 4))
		return;
	/* That it is the RPC transport which is meant. */
	for (unsigned i = 0; i < SERVERS; i++)
		assert_int_equal(mailboxes_of(i) > fixture.held[i].mailboxes, by_mailbox());
}

/* Checks operations acknowledged to the dead; returns their number. */
static unsigned
check_acknowledged(struct child *dead)
{
	unsigned count = 0;
	uint64_t number;
	ssize_t got;

	while ((got = read(dead->out, &number, sizeof(number))) == sizeof(number)) {
		expect_number(number);
		count++;
	}
	assert_int_equal(got, 0);
	assert_int_equal(child_wait(dead, 10000), 128 + SIGKILL);
	return count;
}

static void
expect_neighbour_answered(void)
{
	uint64_t deadline = nam_now_ns() + BOUND_NS;
	uint64_t answers = atomic_load(&fixture.neighbour.answers);

	while (atomic_load(&fixture.neighbour.answers) < answers + 10 && nam_now_ns() < deadline)
		nam_sleep_ns(100000);
	assert_true(atomic_load(&fixture.neighbour.answers) >= answers + 10);
	assert_int_equal(atomic_load(&fixture.neighbour.rc), 0);
}

static void
expect_nothing_left(void)
{
	uint64_t deadline = nam_now_ns() + BOUND_NS;

	for (unsigned i = 0; i < SERVERS; i++) {
		struct held held = held_by(i);

		while (memcmp(&held, &fixture.held[i], sizeof(held)) != 0 &&
			nam_now_ns() < deadline) {
			nam_sleep_ns(1000000);
			held = held_by(i);
		}
		assert_int_equal(held.clients, fixture.held[i].clients);
		assert_int_equal(held.connections, fixture.held[i].connections);
		assert_int_equal(held.mailboxes, fixture.held[i].mailboxes);
	}
}

static void
expect_index_sound(void)
{
	uint64_t violations;

	assert_int_equal(nam_index_verify(fixture.worker, fixture.index, NULL, NULL, &violations),
		0);
	assert_int_equal(violations, 0);
}

/* Anywhere between a request and its reply. */
static void
clients__killed_as_they_ask__NOTHING_OF_THEM_IS_LEFT(void **state)
{
	struct nam_rng rng = nam_rng_seed(nam_entropy());
	unsigned acknowledged = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)rng.state);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct child requester;

		start_requester(&requester);
		nam_sleep_ns(nam_rng_below(&rng, 10000000));
		child_signal(&requester, SIGKILL);
		expect_neighbour_answered();
		acknowledged += check_acknowledged(&requester);
		expect_nothing_left();
	}
	print_message("%u inserts acknowledged, beside the first of each\n", acknowledged);
	expect_index_sound();
}

/* All of its requests lie in the mailbox as it dies, and are found there afterwards. */
static void
client__killed_before_its_requests_are_looked_at__NOTHING_OF_IT_IS_LEFT(void **state)
{
	const struct child *server = &fixture.cluster.servers[1];

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct child requester;

		start_requester(&requester);
		child_stop(server);
		/* Until all of its fibers wait. */
		nam_sleep_ns(3000000);
		child_signal(&requester, SIGKILL);
		/* Its end is there, too, as the memory server goes on. */
		if (round % 2)
			nam_sleep_ns(2000000);
		child_signal(server, SIGCONT);
		expect_neighbour_answered();
		(void)check_acknowledged(&requester);
		expect_nothing_left();
	}
	expect_index_sound();
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients__killed_as_they_ask__NOTHING_OF_THEM_IS_LEFT),
		cmocka_unit_test(
			client__killed_before_its_requests_are_looked_at__NOTHING_OF_IT_IS_LEFT),
	};

	if (argc > 3 && !strcmp(argv[1], "requester"))
		return asker_main(argv + 2);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);	/* "clients__killed*" */
	return cmocka_run_group_tests(tests, start, stop);
}
