/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_eight_test.c -- one of eight clients is killed every 200 ms, and another one takes its
 * place.  All work on a fine-grained index, a hybrid one, a table, and a record store of each kind.
 *
 * No client fails, finds a wrong version, or waits for a dead one for long.  Afterwards the
 * verifier finds nothing but what a dead client may leave, and a sweep balances the books.
 *
 * No operation takes a second, and the 99th percentile of waits for locks of dead clients is short,
 * and shorter beside a steward.  The times that this machine stands still, or takes to end a
 * process, are measured, and allowed on top.
 */
#include <errno.h>
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

#include "kill_eight.h"
#include "txn/sweep.h"

#define SERVERS 2u
#define DEATHS test_scaled_least(15, 5)
#define DOORBELL_DEATHS test_scaled_least(20, 5)
#define PERIOD_NS 200000000u		/* between two deaths, on average */
#define SWEEP_PERIOD_NS 2000000000u
#define SLEEP_NS 10000000u
#define OPERATION_NS 1000000000ull	/* at the most; and p99 of waits: */
#define WAIT_NS 300000000ull
#define WAIT_STEWARD_NS 50000000ull
#define WAITS_ENOUGH 100u		/* for a 99th percentile */
/* Under a sanitizer all processes take several times as long, and wait for one another. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BUILD_SLOWNESS 6u
#else
#define BUILD_SLOWNESS 1u
#endif
#define TIMEOUT_MS (unsigned)(test_bound_ns(20000000000ull) / 1000000)

struct rules {
	void (*kill)(const struct rules *rules);
	uint64_t deaths;
	unsigned places;
	bool sweeper, steward;
};

static struct {
	struct cluster cluster;
	struct board *board;
	int fd;
	struct nam_rng rng;
	struct child clients[PLACES], steward;
	uint64_t sweeps, swept_bytes;
	uint64_t used_bytes, blocks_bytes;
	uint64_t slowest_end_ns;	/* of a client that is to die */
	uint64_t stall_ns;		/* of this machine: a sleeper came back so late */
} game;

/* ---- clients ------------------------------------------------------------------------------ */

static void
client_start(unsigned place)
{
	char fd[12], number[12];
	const char *const args[] = { game.cluster.list, fd, number, NULL };

	(void)snprintf(fd, sizeof(fd), "%d", game.fd);
	(void)snprintf(number, sizeof(number), "%u", place);
	child_start_self(&game.clients[place], "party", args);
}

/* It ends by this signal, so it has met nothing wrong; and another one comes. */
static void
client_replace(unsigned place)
{
	uint64_t took_ns = nam_now_ns();

	assert_int_equal(child_wait(&game.clients[place], TIMEOUT_MS), 128 + SIGKILL);
	took_ns = nam_now_ns() - took_ns;
	if (took_ns > game.slowest_end_ns)
		game.slowest_end_ns = took_ns;
	atomic_store(&game.board->places[place].hurries, false);
	atomic_store(&game.board->places[place].dies, false);
	client_start(place);
}

static void
place_await(unsigned place)
{
	struct place *at = &game.board->places[place];
	uint64_t ops = atomic_load(&at->ops), deadline = nam_now_ns() + TIMEOUT_MS * 1000000ull;

	while (atomic_load(&at->ops) < ops + 10) {
		assert_true(nam_now_ns() < deadline);
		assert_int_equal(child_wait(&game.clients[place], 1), -1);
	}
}

static void
kill_again_and_again(const struct rules *rules)
{
	uint64_t next_ns = nam_now_ns();

	for (uint64_t i = 0; i < rules->deaths; i++) {
		unsigned place = (unsigned)nam_rng_below(&game.rng, rules->places);
		uint64_t now;

		atomic_store(&game.board->places[place].hurries, true);
		next_ns += PERIOD_NS / 2 + nam_rng_below(&game.rng, PERIOD_NS);
		now = nam_now_ns();
		if (now < next_ns)
			nam_sleep_ns(next_ns - now);
		child_signal(&game.clients[place], SIGKILL);
		client_replace(place);
	}
}

static void
die_within_doorbells(const struct rules *rules)
{
	for (uint64_t i = 0; i < rules->deaths; i++) {
		unsigned place = (unsigned)nam_rng_below(&game.rng, rules->places);

		atomic_store(&game.board->places[place].hurries, true);
		atomic_store(&game.board->places[place].dies, true);
		client_replace(place);
	}
}

static void
clients_end(unsigned places)
{
	for (unsigned i = 0; i < places; i++)
		place_await(i);
	atomic_store(&game.board->stopping, true);
	for (unsigned i = 0; i < places; i++)
		assert_int_equal(child_wait(&game.clients[i], TIMEOUT_MS), 0);
}

/* ---- a watch, and a sweeper beside them, for each dead client leaves memory ---------------- */

static void
watch_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&game.board->stopping)) {
		uint64_t stall_ns = nam_now_ns() + SLEEP_NS;

		nam_sleep_ns(SLEEP_NS);
		stall_ns = nam_now_ns() - stall_ns;
		if (stall_ns > game.stall_ns)
			game.stall_ns = stall_ns;
	}
}

/* If the steward sweeps, it tries again.  @arg	the rules */
static void
sweeper_main(void *arg)
{
	struct nam_client *client = party_connect(game.cluster.list, "sweeper");
	struct nam_worker *worker = test_worker(client);
	const struct rules *rules = arg;
	uint64_t next_ns = nam_now_ns();

	while (!atomic_load(&game.board->stopping)) {
		struct nam_sweep_stat stat;
		int rc;

		nam_sleep_ns(SLEEP_NS);
		if (nam_now_ns() < next_ns)
			continue;
		rc = nam_sweep(worker, false, &stat);
		if (rc && (!rules->steward || (rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT)))
			test_die("sweep: %s", nam_worker_diag(worker));
		if (rc)
			continue;
		next_ns = nam_now_ns() + SWEEP_PERIOD_NS;
		game.sweeps++;
		game.swept_bytes += stat.freed.bytes;
	}
	nam_worker_close(worker);
	nam_client_close(client);
}

/* ---- a steward ---------------------------------------------------------------------------- */

static void
steward_start(void)
{
	const char *const argv[] = { test_program("nam-steward"), "--cluster", game.cluster.list,
		"--collect-s", "5", NULL };

	child_start(&game.steward, argv);
}

static void
steward_end(void)
{
	child_signal(&game.steward, SIGTERM);
	assert_int_equal(child_wait(&game.steward, TIMEOUT_MS), 0);
}

/* ---- afterwards --------------------------------------------------------------------------- */

/* A client that leaves, so that it keeps nothing. */
static void
with_guest(void (*fn)(struct nam_worker *worker))
{
	struct nam_client *client = party_connect(game.cluster.list, "guest");
	struct nam_worker *worker = test_worker(client);

	fn(worker);
	nam_worker_close(worker);
	assert_int_equal(nam_client_blocks_lost(client), 0);
	nam_client_close(client);
}

/* A dead client may leave a node without a separator, and a lock. */
static void
note_violation(void *arg, unsigned invariant, const char *text)
{
	unsigned *counts = arg;

	if (invariant == 7 || invariant == 9) {
		counts[invariant == 9]++;
		return;
	}
	print_error("I%u: %s\n", invariant, text);
	counts[2]++;
}

static void
note_row_violation(void *arg, const char *text)
{
	(void)arg;
	print_error("%s\n", text);
}

static void
objects_verify(struct objects *objects)
{
	struct nam_table_stat stat;
	uint64_t violations;

	for (unsigned i = 0; i < OBJECTS; i++) {
		struct nam_index *index = object_index(objects, i);
		unsigned counts[3] = { 0 };

		if (!index)
			continue;
		assert_int_equal(nam_index_verify(objects->worker, index, note_violation, counts,
			&violations), 0);
		print_message("%s: %u separators are missing, %u locks are left\n",
			object_names[i], counts[0], counts[1]);
		assert_int_equal(counts[2], 0);
	}
	assert_int_equal(nam_table_verify(objects->worker, objects->table, note_row_violation, NULL,
		&stat, &violations), 0);
	assert_int_equal(violations, 0);
}

/* As the clients left them; then every entry can be read, scanned and written. */
static void
objects_check(struct nam_worker *worker)
{
	static struct session session;
	struct objects objects;

	objects_open(&objects, worker, 0);
	objects_verify(&objects);
	session = (struct session){ .objects = &objects, .board = game.board,
		.rows = nam_table_rows_new(), .place = PLACES, .rng = game.rng };
	for (session.object = 0; session.object < OBJECTS; session.object++)
		for (unsigned round = 0; round < 2; round++) {
			for (uint32_t i = 0; i < ENTRIES; i++)
				session_read(&session, i);
			for (unsigned i = 0; i < 8; i++)
				session_scan(&session);
			/* Of record stores the second round reads what the first one wrote. */
			if (round && session.object > TABLE)
				break;
			for (uint32_t i = 0; i < ENTRIES; i++)
				session_write(&session, i);
		}
	objects_verify(&objects);
	nam_table_rows_free(session.rows);
	objects_close(&objects);
}

static struct nam_sweep_stat swept;

static void
sweep(struct nam_worker *worker)
{
	assert_int_equal(nam_sweep(worker, false, &swept), 0);
}

/*
 * A sweep has nothing to free or, of replaced versions, to retire.  The last of the dead may not
 * count as dead at once.
 */
static void
books_balance(void)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_MS * 1000000ull, blocks = 0;

	do {
		assert_true(nam_now_ns() < deadline);
		with_guest(sweep);
		blocks += swept.freed.blocks;
	} while (swept.freed.blocks || swept.used.bytes != swept.named.bytes);
	assert_int_equal(swept.used.blocks, swept.named.blocks);
	print_message("%llu blocks were swept, and %llu are used and named\n",
		(unsigned long long)blocks, (unsigned long long)swept.used.blocks);
}

static void
objects_drop(struct nam_worker *worker)
{
	for (unsigned i = 0; i < TABLE; i++)
		assert_int_equal(nam_index_drop(worker, object_names[i]), 0);
	assert_int_equal(nam_table_drop(worker, object_names[TABLE]), 0);
	for (unsigned i = ONESIDED; i < OBJECTS; i++)
		assert_int_equal(nam_records_drop(worker, object_names[i]), 0);
}

/* ---- figures ------------------------------------------------------------------------------ */

static int
compare_us(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t waits_us[OBJECTS * PLACES * WAITS_MAX];

/* Adds those of an object. */
static size_t
waits_add(size_t count, unsigned object)
{
	for (unsigned i = 0; i < PLACES; i++) {
		const struct waits *waits = &game.board->places[i].waits[object];

		memcpy(waits_us + count, waits->us, 4 * waits->count);
		count += waits->count;
	}
	return count;
}

/* Returns the 99th percentile. */
static uint32_t
waits_figure(const char *name, size_t count)
{
	print_message("%s: %zu waits for a lock of a dead client", name, count);
	qsort(waits_us, count, sizeof(*waits_us), compare_us);
	if (count)
		print_message(": median %u us, p99 %u us, longest %u us", waits_us[count / 2],
			waits_us[count * 99 / 100], waits_us[count - 1]);
	print_message("\n");
	return count ? waits_us[count * 99 / 100] : 0;
}

/* Besides what this machine did. */
static uint64_t
bound_ns(uint64_t ns)
{
	return test_bound_ns(BUILD_SLOWNESS * ns) + game.stall_ns + game.slowest_end_ns;
}

static void
figures(const struct rules *rules)
{
	uint64_t ops = 0, slowest_ns = 0, p99_ns;
	size_t count = 0;

	for (unsigned i = 0; i < PLACES; i++) {
		const struct place *place = &game.board->places[i];

		ops += place->ops;
		if (place->slowest_ns > slowest_ns)
			slowest_ns = place->slowest_ns;
	}
	print_message("%llu deaths, which took up to %llu us; %llu operations, the longest took "
		"%llu us; %llu sweeps freed %llu bytes meanwhile\n",
		(unsigned long long)rules->deaths, (unsigned long long)game.slowest_end_ns / 1000,
		(unsigned long long)ops, (unsigned long long)slowest_ns / 1000,
		(unsigned long long)game.sweeps, (unsigned long long)game.swept_bytes);
	print_message("this machine stood still for up to %llu us\n",
		(unsigned long long)game.stall_ns / 1000);
	for (unsigned i = 0; i < OBJECTS; i++)
		(void)waits_figure(object_names[i], waits_add(0, i));
	for (unsigned i = 0; i < OBJECTS; i++)
		count = waits_add(count, i);
	p99_ns = waits_figure("all", count) * 1000ull;
	assert_true(slowest_ns < bound_ns(OPERATION_NS));
	if (count >= WAITS_ENOUGH)
		assert_true(p99_ns < bound_ns(rules->steward ? WAIT_STEWARD_NS : WAIT_NS));
	assert_true(game.sweeps || !rules->sweeper);
}

/* ---- the game ----------------------------------------------------------------------------- */

static void
bytes_used(struct nam_worker *worker)
{
	game.used_bytes = test_bytes_used(worker, &game.cluster, &game.blocks_bytes);
}

static void
clients_work(const struct rules *rules)
{
	struct nam_thread *watch, *sweeper = NULL;

	assert_int_equal(nam_thread_start("watch", watch_main, NULL, &watch), 0);
	for (unsigned i = 0; i < rules->places; i++) {
		client_start(i);
		place_await(i);
	}
	if (rules->sweeper)
		assert_int_equal(nam_thread_start("sweeper", sweeper_main, (void *)rules,
			&sweeper), 0);
	rules->kill(rules);
	clients_end(rules->places);
	if (sweeper)
		nam_thread_join(sweeper);
	nam_thread_join(watch);
}

static void
play(const struct rules *rules)
{
	uint64_t before;

	game.rng = nam_rng_seed(nam_entropy());
	game.sweeps = game.swept_bytes = game.slowest_end_ns = game.stall_ns = 0;
	print_message("seed %llu\n", (unsigned long long)game.rng.state);
	cluster_start(&game.cluster, SERVERS, 64, "4M");
	game.fd = test_shared_create(sizeof(struct board));
	game.board = test_shared_map(game.fd, sizeof(struct board));
	with_guest(bytes_used);
	before = game.used_bytes;
	with_guest(objects_create);
	if (rules->steward)
		steward_start();
	clients_work(rules);
	if (rules->steward)
		steward_end();

	with_guest(objects_check);
	books_balance();
	with_guest(bytes_used);
	assert_int_equal(game.blocks_bytes, swept.named.bytes);
	with_guest(objects_drop);
	books_balance();
	with_guest(bytes_used);
	assert_int_equal(game.used_bytes, before);
	figures(rules);
	munmap(game.board, sizeof(*game.board));
	close(game.fd);
	cluster_stop(&game.cluster);
}

static void
one_of_eight_clients__killed_every_200_ms__OTHERS_GO_ON(void **state)
{
	(void)state;
	play(&(struct rules){ kill_again_and_again, DEATHS, PLACES, true, false });
}

static void
one_of_eight_clients__killed_every_200_ms_beside_a_steward__OTHERS_GO_ON(void **state)
{
	(void)state;
	play(&(struct rules){ kill_again_and_again, DEATHS, PLACES, true, true });
}

/* Few clients, for an emulated machine; they leave little memory. */
static void
clients__that_die_within_a_doorbell__LEAVE_NOTHING_WRONG(void **state)
{
	(void)state;
	play(&(struct rules){ die_within_doorbells, DOORBELL_DEATHS, 3, false, false });
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_eight_clients__killed_every_200_ms__OTHERS_GO_ON),
		cmocka_unit_test(
			one_of_eight_clients__killed_every_200_ms_beside_a_steward__OTHERS_GO_ON),
		cmocka_unit_test(clients__that_die_within_a_doorbell__LEAVE_NOTHING_WRONG),
	};

	if (argc == 5 && !strcmp(argv[1], "party"))
		return party_main(argv + 2);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);	/* "*steward*" */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
