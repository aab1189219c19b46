/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpcc_test.c -- TPC-C's transactions, while clients and a memory server die.  Afterwards the
 * database is consistent.
 *
 * Only condition 11 is left out: a dead client has not said which deliveries it committed.
 */
#include <errno.h>

#include "bench/load/check.h"
#include "bench/tpcc/tpcc.h"
#include "compute/worker/worker.h"
#include "commit.h"
#include "random_clients.h"
#include "random_runs.h"

#define STORE "tpcc"
#define CLIENTS_MAX 3u
#define FIBERS 2u
#define ROUNDS 24u			/* of each fiber */
#define WAREHOUSES 1u
#define ITEMS 30u
#define CUSTOMERS 8u
#define UNITS (WAREHOUSES * TPCC_DISTRICTS)
#define MEMORY_BYTES (8u << 20)
#define CACHE_BYTES (1u << 16)
#define TRIES_MAX 400u			/* until a dead client's transactions are decided */
#define TICK_NS RANDOM_TICK_NS
#define FIXED_SEEDS 6u
#define RANDOM_SEEDS 1u

struct player {
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_txn_store *store;
	struct tpcc tpcc;		/* its own, but for arrays that do not change */
	uint32_t number;
	bool idle;			/* its terminals have ended; it stays until run.leave */
	struct terminal {
		struct player *player;
		struct tpcc_room room;
		struct nam_rng rng;
		uint32_t payments;
		enum { ABSENT, UNSURE, SURE } paid[ROUNDS];
	} terminals[FIBERS];
};

static struct run {
	struct sim_cluster cluster;
	struct player players[CLIENTS_MAX + 1];
	uint32_t servers, clients, phases;
	bool fails_over, leave;
	struct random_failover failover;
	uint64_t commits[TPCC_KINDS], unknown, conflicts;
} run;

static struct tpcc_item items[ITEMS];
static atomic_int_fast64_t paid_there[UNITS], paid_by[UNITS * CUSTOMERS];
static atomic_uint oldest[CLIENTS_MAX + 1][UNITS];

/* ---- clients --------------------------------------------------------------------------------- */

static uint32_t
number_of(const struct terminal *terminal)
{
	return 1 + terminal->player->number * FIBERS +
		(uint32_t)(terminal - terminal->player->terminals);
}

/* A transaction that ended with an error may have been committed. */
static void
ended(struct terminal *self, int rc, unsigned kind, bool is_payment)
{
	uint32_t number = self->payments - is_payment;

	if (self->room.rows.missing)
		random_failed("a transaction of kind %u has not found a row", kind);
	if (is_payment && (!rc || rc == -NAM_E_CONFLICT))
		self->paid[number] = rc ? ABSENT : SURE;
	run.conflicts += rc == -NAM_E_CONFLICT;
	run.unknown += rc && rc != -NAM_E_CONFLICT;
	run.commits[kind] += !rc;
	if (rc && rc != -NAM_E_CONFLICT && rc != -NAM_E_LOCK_TIMEOUT && !random_explained(rc))
		random_failed("a transaction of kind %u: %s, %s", kind, nam_err_name(rc),
			nam_worker_diag(self->player->worker));
}

static void
terminal_main(void *arg)
{
	struct terminal *self = arg;
	struct tpcc_room *room = &self->room;

	for (uint32_t i = 0; i < ROUNDS && !random_failure() && !nam_sim_zombie(); i++) {
		unsigned kind = (unsigned)nam_rng_below(&self->rng, TPCC_KINDS);
		int rc;

		room->w = 1;
		room->rows.kind = kind;
		tpcc_draw(room, &self->rng);
		if (kind == TPCC_PAYMENTS) {
			room->history_key = tpcc_history_key(number_of(self), self->payments);
			self->paid[self->payments++] = UNSURE;
		}
		rc = tpcc_run(room);
		if (!nam_sim_zombie())
			ended(self, rc, kind, kind == TPCC_PAYMENTS);
		if (run.fails_over)
			nam__pause_await(self->player->worker, nam_sim_random() % (TICK_NS / 4));
	}
}

static bool
come(struct player *player)
{
	int rc;

	player->worker = sim_come(&run.cluster, "player", &player->client);
	if (!player->worker)
		return false;
	rc = nam_txn_store_open(player->worker, STORE, CACHE_BYTES, &player->store);
	if (rc && !nam_sim_zombie() && !random_explained(rc))
		random_failed("open: %s", nam_worker_diag(player->worker));
	player->tpcc = (struct tpcc){ .scale = { WAREHOUSES, ITEMS, CUSTOMERS, true },
		.items = items, .paid_there = paid_there, .paid_by = paid_by,
		.oldest = oldest[player->number] };
	for (uint32_t i = 0; i < FIBERS; i++) {
		struct terminal *terminal = &player->terminals[i];

		terminal->player = player;
		terminal->rng = nam_rng_seed(nam_sim_random());
		terminal->room.tpcc = &player->tpcc;
		terminal->room.rows.worker = player->worker;
		terminal->room.rows.store = player->store;
	}
	return !rc;
}

static void
leave(struct player *player)
{
	nam_txn_store_close(player->store);
	player->store = NULL;
	sim_leave(&player->client, &player->worker);
}

static void
player_main(void *arg)
{
	struct player *player = arg;

	if (come(player)) {
		for (uint32_t i = 0; i < FIBERS; i++)
			if (nam_worker_spawn(player->worker, terminal_main, &player->terminals[i]))
				sim_die("no fiber");
		nam_worker_run(player->worker);
		player->idle = true;
		while (!run.leave && !nam_sim_zombie())
			nam_sleep_ns(RANDOM_POLL_NS);
	}
	leave(player);
}

/* ---- the director ---------------------------------------------------------------------------- */

static void
make(struct nam_worker *worker)
{
	const struct tpcc tpcc = { .scale = { WAREHOUSES, ITEMS, CUSTOMERS, true } };
	struct nam_txn_store_options options;
	int rc;

	nam_txn_store_options_init(&options);
	options.key_bytes_max = ROWS_KEY_BYTES;
	options.phases = run.phases;
	tpcc_store_options(&tpcc, &options);
	rc = nam_txn_store_create(worker, STORE, &options);
	if (rc)
		sim_die("create: %s", nam_worker_diag(worker));
}

struct work {
	const char *what;
	int (*fn)(struct tpcc_room *room, uint32_t unit);
	const struct terminal *payer;	/* of a payment */
};

/* A dead client's transaction is decided if one of its rows is read late enough. */
static void
perform_until_decided(struct player *guest, const struct work *work, uint32_t unit)
{
	struct tpcc_room *room = &guest->terminals[0].room;
	int rc = -NAM_E_CONFLICT;

	for (unsigned i = 0; i < TRIES_MAX && rc == -NAM_E_CONFLICT; i++) {
		room->rows.count = 0;
		rc = work->payer ? tpcc_check_paid(room, number_of(work->payer), unit, 1,
			work->payer->paid[unit] == SURE) : work->fn(room, unit);
		if (rc == -NAM_E_CONFLICT)
			nam_sleep_ns(TICK_NS);
	}
	if (rc)
		random_failed("%s: %s, %s", work->what, nam_err_name(rc),
			nam_worker_diag(guest->worker));
}

static void
all_units(struct player *guest, const char *what,
	int (*fn)(struct tpcc_room *room, uint32_t unit))
{
	const struct work work = { what, fn, NULL };

	for (uint32_t i = 0; i < UNITS; i++)
		perform_until_decided(guest, &work, i);
}

static int
warm(struct tpcc_room *room, uint32_t unit)
{
	return tpcc_warm(room, unit, true);
}

static void
load(struct player *guest)
{
	all_units(guest, "load", tpcc_load);
	all_units(guest, "read", warm);
}

static void
payments_check(struct player *guest, const struct terminal *terminal)
{
	const struct work work = { "a payment", NULL, terminal };

	for (uint32_t i = 0; i < terminal->payments; i++)
		if (terminal->paid[i])
			perform_until_decided(guest, &work, i);
}

static void
look(struct player *guest)
{
	uint64_t before = findings_total();

	all_units(guest, "read", warm);
	all_units(guest, "loaded payments", tpcc_check_loaded);
	for (uint32_t i = 0; i < run.clients; i++)
		for (uint32_t k = 0; k < FIBERS && run.players[i].terminals[k].player; k++)
			payments_check(guest, &run.players[i].terminals[k]);
	all_units(guest, "check", tpcc_check_district);
	if (findings_total() > before)
		random_failed("TPC-C is not consistent: conditions %#x", guest->tpcc.violated);
}

static void
visit(void (*fn)(struct player *guest))
{
	struct player *guest = &run.players[CLIENTS_MAX];

	memset(guest, 0, sizeof(*guest));
	guest->number = CLIENTS_MAX;
	if (!come(guest))
		sim_die("the guest cannot come");
	fn(guest);
	leave(guest);
}

static void
players_await(bool idle)
{
	for (uint32_t i = 0; i < run.clients; i++)
		while (!nam_sim_process_ended(run.players[i].process) &&
			!(idle && run.players[i].idle))
			nam_sleep_ns(RANDOM_POLL_NS);
}

static void
director_main(void *arg)
{
	struct nam_client *client;
	struct nam_worker *worker;

	(void)arg;
	sim_cluster_await(&run.cluster);
	worker = sim_come(&run.cluster, "director", &client);
	if (!worker)
		sim_die("the director cannot come");
	make(worker);
	visit(load);
	for (uint32_t i = 0; i < run.clients; i++) {
		run.players[i].number = i;
		if (nam_sim_process_start("player", player_main, &run.players[i],
			    &run.players[i].process))
			sim_die("a client cannot be started");
	}
	if (run.fails_over)
		random_failover_begin(&run.failover);
	players_await(true);
	random_failover_await(&run.failover);
	run.leave = true;
	players_await(false);
	visit(look);
	if (nam_txn_store_drop(worker, STORE))
		random_failed("drop: %s", nam_worker_diag(worker));
	sim_leave(&client, &worker);
	sim_cluster_stop(&run.cluster);
}

/* ---- one run --------------------------------------------------------------------------------- */

static void
plan(enum nam_sim_profile profile, uint64_t seed, struct nam_sim_options *options)
{
	static const uint32_t presets[] = { NAM_TXN_DRTM_H, NAM_TXN_FARM, NAM_TXN_FASST };
	struct nam_rng rng = nam_rng_seed(seed);
	struct nam_sim_faults *faults = &options->faults;

	nam_sim_options_init(options);
	options->seed = seed;
	options->profile = profile;
	faults->late = (uint32_t)nam_rng_below(&rng, 100000);
	faults->late_ns = 100000;
	faults->race = (uint32_t)nam_rng_below(&rng, 300000);
	if (nam_rng_below(&rng, 4))
		faults->kill = random_between(&rng, 50, 500);
	if (!nam_rng_below(&rng, 2))
		faults->zombie = 300000;
	run.servers = random_between(&rng, 1, 3);
	run.clients = random_between(&rng, 2, CLIENTS_MAX);
	run.fails_over = run.servers > 1 && nam_rng_below(&rng, 2);
	run.failover = (struct random_failover){ .cluster = &run.cluster, .servers = run.servers,
		.death_ns = 2 * TICK_NS };
	/* A member with a backup has no copy of what its CPU changes. */
	run.phases = run.fails_over ? 0 : presets[nam_rng_below(&rng, 3)];
}

static const char *
perform(enum nam_sim_profile profile, uint64_t seed, FILE *trace)
{
	struct nam_sim_options options;
	struct nam_sim_counts counts;

	memset(&run, 0, sizeof(run));
	memset(paid_there, 0, sizeof(paid_there));
	memset(paid_by, 0, sizeof(paid_by));
	memset(oldest, 0, sizeof(oldest));
	plan(profile, seed, &options);
	options.trace = trace;
	sim_cluster_begin(&options, &run.cluster, run.servers, 1 + seed % 2, MEMORY_BYTES);
	random_runs_points(seed);
	random_run(director_main);
	counts = nam_sim_counted();
	printf("%s %llu: %llu new orders, %llu payments, %llu statuses, %llu deliveries, %llu "
		"levels, %llu unknown, %llu deaths, %llu ms\n", nam_sim_profile_name(profile),
		(unsigned long long)seed, (unsigned long long)run.commits[TPCC_NEW_ORDERS],
		(unsigned long long)run.commits[TPCC_PAYMENTS],
		(unsigned long long)run.commits[TPCC_STATUSES],
		(unsigned long long)run.commits[TPCC_DELIVERIES],
		(unsigned long long)run.commits[TPCC_LEVELS], (unsigned long long)run.unknown,
		(unsigned long long)counts.kills, (unsigned long long)nam_sim_now_ns() / 1000000);
	nam_sim_end();
	return random_failure();
}

int
main(int argc, char **argv)
{
	static const struct random_runs runs = { "sim_tpcc_test", NAM_SIM_COMMIT, FIXED_SEEDS,
		RANDOM_SEEDS, perform };

	return random_runs_main(&runs, argc, argv);
}
