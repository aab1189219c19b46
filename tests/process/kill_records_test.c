/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_records_test.c -- clients of a record store that are killed at random moments, again and
 * again, while others go on.
 *
 * All answers are read atomic, where a transaction under way at a death happened as a
 * whole or not at all.  No other client fails or waits for it, and a sweep frees all that the dead
 * have left.
 * NAM_TEST_RECORDS says which store: onesided (the default), star, message, small, hybrid, 2pl.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rpc/records_rpc.h"
#include "kill_records.h"
#include "tests/sim/read_atomic.h"
#include "txn/sweep.h"

#define VICTIMS 6u				/* and so eight clients at work */
#define SURVIVORS 2u
#define FIRST_VICTIM (1 + SURVIVORS)		/* party 0 is the coordinator */
#define DEATHS test_scaled_least(24, 8)
#define DEATHS_MAX (PARTIES_MAX - FIRST_VICTIM - VICTIMS)	/* of a cluster */
#define AGE_NS 6000000u			/* at death, since it began to work, at the most */
#define BOUND_NS test_bound_ns(5000000000ull)

static struct {
	struct cluster cluster;
	struct board *board;
	int fd;
	struct nam_rng rng;
	uint32_t parties;
	struct child victims[VICTIMS];
	uint32_t victim_party[VICTIMS];
	struct child survivors[SURVIVORS];
} game;

/* ---- processes ---------------------------------------------------------------------------- */

static void
party_start(struct child *child, uint32_t number, const char *role)
{
	char fd[12], party[12];
	const char *const args[] = { game.cluster.list, fd, party, role, NULL };

	(void)snprintf(fd, sizeof(fd), "%d", game.fd);
	(void)snprintf(party, sizeof(party), "%u", number);
	child_start_self(child, "party", args);
}

static void
party_await(uint32_t number, uint32_t deeds)
{
	uint64_t deadline = nam_now_ns() + BOUND_NS;

	while (atomic_load(&game.board->parties[number].count) < deeds) {
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(200000);
	}
}

static void
victim_start(unsigned which)
{
	game.victim_party[which] = game.parties++;
	party_start(&game.victims[which], game.victim_party[which], "victim");
}

/* As it works, or else as it comes. */
static void
victim_kill(unsigned which)
{
	if (nam_rng_below(&game.rng, 4))
		party_await(game.victim_party[which], 2 * FIBERS);
	nam_sleep_ns(nam_rng_below(&game.rng, AGE_NS));
	child_signal(&game.victims[which], SIGKILL);
	assert_int_equal(child_wait(&game.victims[which], 10000), 128 + SIGKILL);
}

/* ---- a guest that leaves, so that it keeps nothing ---------------------------------------- */

static void
all_keys(uint8_t keys[RECORDS])
{
	for (uint8_t i = 0; i < RECORDS; i++)
		keys[i] = i;
}

static void
store_make(struct session *guest)
{
	struct nam_records_options options;
	uint8_t keys[RECORDS];
	int star;

	store_chosen(&options, &star);
	all_keys(keys);
	assert_int_equal(nam_records_create(guest->worker, STORE, &options), 0);
	guest->records = store_open(guest->worker, 0);
	session_write(guest, keys, RECORDS);
}

/* Each alone, for then no other says that there is something newer; and all together. */
static void
store_read(struct session *guest, const uint8_t keys[RECORDS])
{
	for (uint32_t i = 0; i < RECORDS; i++)
		session_read(guest, &keys[i], 1);
	session_read(guest, keys, RECORDS);
}

/* Transactions of the dead are ended where possible; no replaced version stays. */
static void
store_tidy(struct session *guest, bool first_time)
{
	enum nam_ramp algorithm = nam_records_properties(guest->records)->algorithm;
	struct nam_records_collected first, again;
	struct nam_records_stat stat;
	unsigned rounds = 0;

	/* A commit for one dead client may release another one's transaction. */
	do {
		assert_int_equal(nam_records_collect(guest->worker, guest->records, &first), 0);
		print_message("%llu versions, %llu transactions committed, %llu aborted\n",
			(unsigned long long)first.versions,
			(unsigned long long)first.committed,
			(unsigned long long)first.aborted);
		assert_true(rounds++ < PARTIES_MAX);
	} while (first.committed + first.aborted);
	nam_sleep_ns(2 * NAM_RECORDS_KEEP_NS);
	assert_int_equal(nam_records_collect(guest->worker, guest->records, &again), 0);
	assert_int_equal(nam_records_stat(guest->worker, guest->records, &stat), 0);
	print_message("collected %llu more; %llu versions undecided, %llu left\n",
		(unsigned long long)again.versions, (unsigned long long)again.undecided,
		(unsigned long long)stat.others);
	assert_int_equal(again.committed + again.aborted, 0);
	/* Locks of dead clients keep the record of their use. */
	if (algorithm != NAM_RAMP_LOCKING)
		assert_int_equal(stat.others, again.undecided);
	if (first_time || algorithm == NAM_RAMP_LOCKING)
		return;
	/* All records have been written since, so there is nothing that could not be decided. */
	assert_int_equal(stat.others, 0);
}

/* As the dead have left it; then all can be written; and then the store goes. */
static void
store_end(struct session *guest)
{
	uint8_t keys[RECORDS];

	all_keys(keys);
	guest->records = store_open(guest->worker, 64 << 10);
	store_read(guest, keys);
	store_tidy(guest, true);
	store_read(guest, keys);
	session_write(guest, keys, RECORDS);
	store_tidy(guest, false);
	store_read(guest, keys);
	nam_records_close(guest->records);
	guest->records = NULL;
	assert_int_equal(nam_records_drop(guest->worker, STORE), 0);
}

/* Of a store that is no more, by clients the last of which may not count as dead at once. */
static void
memory_sweep(struct session *guest)
{
	uint64_t deadline = nam_now_ns() + BOUND_NS, bytes = 0;
	struct nam_sweep_stat stat;

	do {
		assert_true(nam_now_ns() < deadline);
		assert_int_equal(nam_sweep(guest->worker, false, &stat), 0);
		assert_int_equal(stat.named.blocks, 0);
		bytes += stat.freed.bytes;
	} while (stat.used.blocks);
	print_message("%u have died and left %llu bytes\n", game.parties - FIRST_VICTIM,
		(unsigned long long)bytes);
}

static void
with_guest(void (*fn)(struct session *guest))
{
	static struct session guest;
	struct nam_client *client = test_connect(game.cluster.list, "guest", 0);

	guest = (struct session){ .worker = test_worker(client), .board = game.board };
	fn(&guest);
	nam_records_close(guest.records);
	nam_worker_close(guest.worker);
	assert_int_equal(nam_client_blocks_lost(client), 0);
	nam_client_close(client);
}

/* ---- what they did ------------------------------------------------------------------------ */

struct summary {
	uint64_t reads, writes, accesses;
	uint64_t under_way;		/* writes, at a death */
	uint64_t seen;			/* of these, seen by a reader */
	uint64_t slowest_ns;
};

/* Only a reader of its values knows the timestamp of a dead client's transaction. */
static void
stamps_learn(const struct deed *reader, struct summary *summary)
{
	for (uint32_t i = 0; i < reader->count; i++) {
		uint32_t item;
		struct deed *deed = deed_of(game.board, reader->values[i], &item);

		if (!deed || !deed->write || deed->keys[item] != reader->keys[i])
			continue;	/* for the checker */
		summary->seen += !deed->timestamp;
		if (!deed->timestamp)
			deed->timestamp = reader->stamps[i];
		assert_int_equal(deed->timestamp, reader->stamps[i]);
	}
}

static void
deed_enter(struct sim_txns *txns, uint32_t party, const struct deed *deed, struct summary *summary)
{
	uint32_t txn = sim_txns_begin(txns, 1 + party * FIBERS + deed->fiber, deed->begin_ns);

	for (uint32_t i = 0; i < deed->count; i++) {
		if (deed->write)
			sim_txns_write(txns, txn, deed->keys[i], deed->values[i]);
		else if (deed->done)
			sim_txns_read(txns, txn, deed->keys[i], deed->values[i]);
	}
	sim_txns_end(txns, txn, deed->done ? SIM_TXN_COMMITTED : SIM_TXN_UNKNOWN, deed->timestamp,
		deed->done ? deed->end_ns : 0);
	summary->accesses += deed->count;
	summary->reads += deed->done && !deed->write;
	summary->writes += deed->done && deed->write;
	summary->under_way += !deed->done && deed->write;
	if (deed->done && deed->end_ns - deed->begin_ns > summary->slowest_ns)
		summary->slowest_ns = deed->end_ns - deed->begin_ns;
}

static void
check_history(void)
{
	struct sim_findings findings = sim_findings_to(stdout);
	struct sim_read_atomic_options options;
	struct summary summary = { 0 };
	struct sim_txns txns;

	sim_txns_init(&txns);
	sim_read_atomic_options_init(&options);
	for (uint32_t i = 0; i < game.parties; i++)
		for (uint32_t k = 0; k < game.board->parties[i].count; k++) {
			const struct deed *deed = &game.board->parties[i].each[k];

			if (!deed->write && deed->done)
				stamps_learn(deed, &summary);
		}
	for (uint32_t i = 0; i < game.parties; i++)
		for (uint32_t k = 0; k < game.board->parties[i].count; k++)
			deed_enter(&txns, i, &game.board->parties[i].each[k], &summary);
	sim_check_read_atomic(&txns, &options, &findings, NULL);
	sim_txns_free(&txns);
	print_message("%llu transactions read and %llu wrote, %llu records; the slowest took %llu "
		"us; %llu that wrote were under way at a death, and %llu of these were seen\n",
		(unsigned long long)summary.reads, (unsigned long long)summary.writes,
		(unsigned long long)summary.accesses,
		(unsigned long long)summary.slowest_ns / 1000,
		(unsigned long long)summary.under_way, (unsigned long long)summary.seen);
	assert_int_equal(findings.violations, 0);
	assert_true(summary.slowest_ns < BOUND_NS);
	assert_true(summary.under_way > 0);
}

/* ---- the game ----------------------------------------------------------------------------- */

static void
game_begin(void)
{
	cluster_start(&game.cluster, SERVERS, 64, "4M");
	game.fd = test_shared_create(sizeof(struct board));
	game.board = test_shared_map(game.fd, sizeof(struct board));
	game.parties = FIRST_VICTIM;
}

static void
game_end(void)
{
	munmap(game.board, sizeof(*game.board));
	close(game.fd);
	cluster_stop(&game.cluster);
}

/* No other client was in their way. */
static void
survivors_end(void)
{
	for (unsigned i = 0; i < SURVIVORS; i++) {
		uint32_t count = atomic_load(&game.board->parties[1 + i].count);

		party_await(1 + i, count + 4 * FIBERS < DEEDS_MAX ? count + 4 * FIBERS : DEEDS_MAX);
	}
	atomic_store(&game.board->stopping, true);
	for (unsigned i = 0; i < SURVIVORS; i++)
		assert_int_equal(child_wait(&game.survivors[i], 20000), 0);
}

static void
kill_again_and_again(uint32_t deaths)
{
	for (unsigned i = 0; i < SURVIVORS; i++)
		party_start(&game.survivors[i], 1 + i, "survivor");
	for (unsigned i = 0; i < SURVIVORS; i++)
		party_await(1 + i, 1);
	for (unsigned i = 0; i < VICTIMS; i++)
		victim_start(i);
	for (uint32_t i = 0; i < deaths; i++) {
		unsigned which = (unsigned)nam_rng_below(&game.rng, VICTIMS);

		victim_kill(which);
		victim_start(which);
	}
	for (unsigned i = 0; i < VICTIMS; i++)
		victim_kill(i);
	survivors_end();
}

/* One cluster, one store. */
static void
play(uint32_t deaths)
{
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t before;

	game_begin();
	client = test_connect(game.cluster.list, "coordinator", 0);
	worker = test_worker(client);
	before = test_bytes_used(worker, &game.cluster, NULL);
	with_guest(store_make);
	kill_again_and_again(deaths);
	with_guest(store_end);
	with_guest(memory_sweep);
	assert_int_equal(test_bytes_used(worker, &game.cluster, NULL), before);
	nam_worker_close(worker);
	nam_client_close(client);
	check_history();
	game_end();
}

static void
clients__killed_again_and_again__READ_ATOMIC(void **state)
{
	uint64_t left = DEATHS;

	(void)state;
	game.rng = nam_rng_seed(nam_entropy());
	print_message("seed %llu\n", (unsigned long long)game.rng.state);
	while (left) {
		uint32_t deaths = left < DEATHS_MAX ? (uint32_t)left : DEATHS_MAX;

		play(deaths);
		left -= deaths;
	}
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients__killed_again_and_again__READ_ATOMIC),
	};

	if (argc == 6 && !strcmp(argv[1], "party"))
		return party_main(argv + 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
