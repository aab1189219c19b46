/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables_test.c -- random transactions on pairs of rows, by clients some of which die, and scans of
 * an index meanwhile: read atomic, rows and entries together.
 *
 * Of a pair, which is always written together, one row is in each half of the index.  So a scan of
 * half of it finds one row of each pair, neither none nor both.  Values are numbers, each of one
 * transaction and row.
 */
#include <errno.h>

#include "compute/worker/worker.h"
#include "txn/sweep.h"
#include "txn/table.h"
#include "commit.h"
#include "random_clients.h"
#include "random_runs.h"
#include "read_atomic.h"

#define TABLE "pairs"
#define CLIENTS_MAX 4u
#define FIBERS_MAX 4u
#define PAIRS_MAX 16u
#define ROWS_MAX (2 * PAIRS_MAX)
#define ROUNDS 16u
#define MEMORY_BYTES (16u << 20)
#define TICK_NS RANDOM_TICK_NS
#define SIDES 100u			/* values of the column; half of them are in each half */
#define FIXED_SEEDS 6u
#define RANDOM_SEEDS 3u

/* One fiber. */
struct session {
	struct player *player;
	struct nam_table_rows *rows;
	uint32_t number;
};

/* One client. */
struct player {
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_table *table;
	uint32_t number;
	struct session sessions[FIBERS_MAX];
};

static struct {
	enum nam_sim_profile profile;
	uint64_t seed;
	/* Chosen by the seed. */
	uint32_t servers, clients, fibers, pairs, slowness;
	uint64_t cache_bytes;
	bool sweeps;			/* clients sweep, too */
	/* The stage. */
	struct sim_cluster cluster;
	struct player players[CLIENTS_MAX + 1];		/* the last one is the director */
	struct sim_txns txns;
	uint64_t values;
	uint64_t scans, reads, writes, unknown, refused;
} run;

/*
 * Errors explained by a slow wire, or the locks of clients that are slow or stalled.  If a client
 * had no memory for a redo record, and died, a node may stay torn.
 */
static bool
explained(int rc)
{
	struct nam_sim_counts counts = nam_sim_counted();

	if (nam_err_is(rc, NAM_E_LOCK_ORPHANED))
		return counts.kills && counts.full;
	if (nam_err_is(rc, NAM_E_LOCK_TIMEOUT) || rc == -NAM_E_RESTART_TORN)
		return counts.stalls || run.slowness > 1;
	return rc == -NAM_E_REMOTE_FULL || nam_err_is(rc, NAM_E_FABRIC_TIMEOUT);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct row {
	char key[8];
	uint8_t side;
	uint64_t value;
	struct nam_bytes columns[2];
};

static struct nam_bytes
row_key(struct row *row, uint32_t number)
{
	int bytes = snprintf(row->key, sizeof(row->key), "k%u", number);

	return (struct nam_bytes){ row->key, (uint32_t)bytes };
}

static void
write_pairs(struct session *self, uint32_t first, uint32_t count)
{
	struct nam_table_write writes[2 * PAIRS_MAX];
	struct row rows[2 * PAIRS_MAX];
	uint32_t txn = sim_txns_begin(&run.txns, self->number, random_now());
	uint64_t timestamp = 0;
	int rc;

	for (uint32_t i = 0; i < 2 * count; i++) {
		uint32_t number = (2 * first + i) % (2 * run.pairs);
		struct row *row = &rows[i];

		row->side = i % 2 ? (uint8_t)(SIDES - 1 - rows[i - 1].side) :
			(uint8_t)(nam_sim_random() % SIDES);
		row->value = ++run.values;
		row->columns[0] = (struct nam_bytes){ &row->side, 1 };
		row->columns[1] = (struct nam_bytes){ &row->value, 8 };
		writes[i] = (struct nam_table_write){ self->player->table, row_key(row, number),
			row->columns };
		sim_txns_write(&run.txns, txn, number, row->value);
	}
	rc = nam_table_write(self->player->worker, writes, 2 * count, &timestamp);
	if (nam_sim_zombie()) {
		sim_txns_end(&run.txns, txn, SIM_TXN_UNKNOWN, timestamp, 0);
		return;
	}
	nam_sim_note("%u: write of %u pairs from %u: %s, %llu", self->number, count, first,
		nam_err_name(rc), (unsigned long long)timestamp);
	run.writes++;
	if (rc && !explained(rc))
		random_failed("write: %s, %s", nam_err_name(rc),
			nam_worker_diag(self->player->worker));
	run.refused += rc && !nam_err_is(rc, NAM_E_FABRIC);
	run.unknown += nam_err_is(rc, NAM_E_FABRIC);
	sim_txns_end(&run.txns, txn, !rc ? SIM_TXN_COMMITTED : nam_err_is(rc, NAM_E_FABRIC) ||
		nam_err_is(rc, NAM_E_FENCED) ? SIM_TXN_UNKNOWN : SIM_TXN_ABORTED, timestamp,
		random_now());
}

/* A reader's view of a pair. */
struct seen {
	uint64_t values[ROWS_MAX];
	uint8_t sides[ROWS_MAX];
};

static void
row_seen(struct seen *seen, uint32_t number, const struct nam_bytes *columns)
{
	if (number >= 2 * run.pairs || columns[0].bytes != 1 || columns[1].bytes != 8) {
		random_failed("a row that no writer has put: %u", number);
		return;
	}
	if (seen->values[number])
		random_failed("row %u is there twice", number);
	seen->sides[number] = *(const uint8_t *)columns[0].data;
	memcpy(&seen->values[number], columns[1].data, 8);
}

static bool
read_failed(struct session *self, const char *what, uint32_t txn, int rc)
{
	if (!rc)
		return false;
	if (!explained(rc) && rc != -NAM_E_RESTART_DEAD)
		random_failed("%s: %s, %s", what, nam_err_name(rc),
			nam_worker_diag(self->player->worker));
	run.refused++;
	sim_txns_end(&run.txns, txn, SIM_TXN_ABORTED, 0, random_now());
	return true;
}

/* One of each pair in half of the index, both in all of it. */
static void
pairs_check(const struct seen *seen, const struct nam_table_range *range, unsigned half)
{
	for (uint32_t i = 0; i < run.pairs; i++) {
		unsigned there = !!seen->values[2 * i] + !!seen->values[2 * i + 1];

		if (there != (half ? 1 : 2))
			random_failed("half %u: %u rows of pair %u", half, there, i);
	}
	for (uint32_t i = 0; i < 2 * run.pairs; i++)
		if (seen->values[i] && range->low.data &&
			(seen->sides[i] < *(const uint8_t *)range->low.data ||
			seen->sides[i] > *(const uint8_t *)range->high.data))
			random_failed("row %u is at %u", i, seen->sides[i]);
}

/* @half	0: all of it; 1, 2: a half */
static void
scan(struct session *self, unsigned half)
{
	const uint8_t low = half == 2 ? SIDES / 2 : 0, high = half == 1 ? SIDES / 2 - 1 : SIDES - 1;
	uint32_t txn = sim_txns_begin(&run.txns, self->number, random_now());
	struct row row;
	struct nam_table_get get = { .table = self->player->table };
	struct nam_table_range range = { .column = 0 };
	uint32_t beside = (uint32_t)(nam_sim_random() % (2 * run.pairs));
	struct seen seen = { .values = { 0 } };
	uint64_t value;
	int rc;

	if (half) {
		range.low = (struct nam_bytes){ &low, 1 };
		range.high = (struct nam_bytes){ &high, 1 };
		get.key = row_key(&row, beside);
		range.gets = &get;
		range.gets_count = 1;
	}
	rc = nam_table_scan(self->player->worker, self->player->table, &range, self->rows);
	if (nam_sim_zombie())
		return;
	nam_sim_note("%u: scan of half %u: %s", self->number, half, nam_err_name(rc));
	if (read_failed(self, "scan", txn, rc))
		return;
	run.scans++;
	for (uint32_t i = 0; i < nam_table_rows_count(self->rows); i++) {
		const struct nam_table_row *found = nam_table_rows_at(self->rows, i);

		row_seen(&seen, (uint32_t)strtoul((const char *)found->key.data + 1, NULL, 10),
			found->columns);
	}
	pairs_check(&seen, &range, half);
	for (uint32_t i = 0; i < 2 * run.pairs; i++)
		if (seen.values[i])
			sim_txns_read(&run.txns, txn, i, seen.values[i]);
	if (half && !get.columns) {
		random_failed("row %u is not there", beside);
	} else if (half) {
		memcpy(&value, get.columns[1].data, 8);
		if (!seen.values[beside])
			sim_txns_read(&run.txns, txn, beside, value);
		else if (seen.values[beside] != value)
			random_failed("row %u: two versions in one scan", beside);
	}
	sim_txns_end(&run.txns, txn, SIM_TXN_COMMITTED, 0, random_now());
}

static void
read_pair(struct session *self, uint32_t pair)
{
	uint32_t txn = sim_txns_begin(&run.txns, self->number, random_now());
	struct nam_table_get gets[2];
	struct row rows[2];
	struct seen seen = { .values = { 0 } };
	int rc;

	for (uint32_t i = 0; i < 2; i++)
		gets[i] = (struct nam_table_get){ .table = self->player->table,
			.key = row_key(&rows[i], 2 * pair + i) };
	rc = nam_table_read(self->player->worker, gets, 2, self->rows);
	if (nam_sim_zombie() || read_failed(self, "read", txn, rc))
		return;
	run.reads++;
	for (uint32_t i = 0; i < 2; i++) {
		if (!gets[i].columns) {
			random_failed("row %u is not there", 2 * pair + i);
			continue;
		}
		row_seen(&seen, 2 * pair + i, gets[i].columns);
		sim_txns_read(&run.txns, txn, 2 * pair + i, seen.values[2 * pair + i]);
	}
	if (seen.sides[2 * pair] + seen.sides[2 * pair + 1] != SIDES - 1)
		random_failed("pair %u is at %u and %u", pair, seen.sides[2 * pair],
			seen.sides[2 * pair + 1]);
	sim_txns_end(&run.txns, txn, SIM_TXN_COMMITTED, 0, random_now());
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Versions that the client has replaced go soon. */
static void
sweep(struct player *player)
{
	int rc = nam_table_vacuum(player->worker, player->table);

	if (rc && !explained(rc))
		random_failed("vacuum: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
}

/* And what the dead have left. */
static int
sweep_dead(struct nam_worker *worker)
{
	struct nam_sweep_stat stat = { .entries = 0 };
	int rc = nam_sweep(worker, false, &stat);

	if (nam_sim_zombie())
		return rc;
	nam_sim_note("sweep: %s, %llu blocks, %llu entries", nam_err_name(rc),
		(unsigned long long)stat.freed.blocks, (unsigned long long)stat.entries);
	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT && !explained(rc))
		random_failed("sweep: %s, %s", nam_err_name(rc), nam_worker_diag(worker));
	return rc;
}

static void
session_main(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < ROUNDS && !random_failure() && !nam_sim_zombie(); i++) {
		uint32_t pair = (uint32_t)(nam_sim_random() % run.pairs);

		if (nam_sim_random() % 4 == 0)
			nam__pause_await(self->player->worker, nam_sim_random() % TICK_NS);
		switch (nam_sim_random() % 8) {
		case 0:
			if (run.sweeps && nam_sim_random() % 2)
				(void)sweep_dead(self->player->worker);
			else
				sweep(self->player);
			break;
		case 1:
		case 2:
		case 3:
			write_pairs(self, pair, 1 + (uint32_t)(nam_sim_random() %
				(run.pairs < 3 ? run.pairs : 3)));
			break;
		case 4:
			read_pair(self, pair);
			break;
		default:
			scan(self, (unsigned)(nam_sim_random() % 3));
		}
	}
}

static bool
come(struct player *player, const char *name, uint64_t cache_bytes)
{
	int rc;

	player->worker = sim_come(&run.cluster, name, &player->client);
	if (!player->worker)
		return false;
	rc = nam_table_open(player->worker, TABLE, cache_bytes, &player->table);
	if (rc && !nam_sim_zombie() && !explained(rc))
		random_failed("open: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
	return !rc;
}

static void
leave(struct player *player)
{
	nam_table_close(player->worker, player->table);
	player->table = NULL;
	sim_leave(&player->client, &player->worker);
}

static void
session_begin(struct player *player, uint32_t i)
{
	struct session *session = &player->sessions[i];

	session->player = player;
	session->number = 1 + player->number * FIBERS_MAX + i;
	session->rows = nam_table_rows_new();
	if (!session->rows)
		sim_die("no memory");
}

static void
player_main(void *arg)
{
	struct player *player = arg;

	if (come(player, "player", run.cache_bytes)) {
		for (uint32_t i = 0; i < run.fibers; i++) {
			session_begin(player, i);
			if (nam_worker_spawn(player->worker, session_main, &player->sessions[i]))
				sim_die("no fiber");
		}
		nam_worker_run(player->worker);
	}
	leave(player);
}

/* ---- the director ---------------------------------------------------------------------------- */

static void
violation(void *arg, const char *text)
{
	(void)arg;
	random_failed("%s", text);
}

static void
verify(struct player *guest)
{
	struct nam_table_stat stat;
	uint64_t violations;
	int rc = nam_table_verify(guest->worker, guest->table, violation, NULL, &stat, &violations);

	if (rc && !explained(rc))
		random_failed("verify: %s, %s", nam_err_name(rc), nam_worker_diag(guest->worker));
	if (!rc && stat.rows != 2 * run.pairs)
		random_failed("%llu rows of %u", (unsigned long long)stat.rows, 2 * run.pairs);
	if (!rc && stat.stale && !nam_sim_counted().kills && !nam_sim_counted().broken &&
		!run.refused && !run.unknown)
		random_failed("%llu entries lead to what was replaced",
			(unsigned long long)stat.stale);
}

/* By a client that leaves, so that it keeps nothing in a block cache. */
static void
with_guest(void (*fn)(struct player *guest))
{
	struct player *guest = &run.players[CLIENTS_MAX];

	memset(guest, 0, sizeof(*guest));
	guest->number = CLIENTS_MAX;
	if (!come(guest, "guest", 0))
		sim_die("the guest cannot come");
	session_begin(guest, 0);
	fn(guest);
	nam_table_rows_free(guest->sessions[0].rows);
	leave(guest);
}

static void
make(struct player *guest)
{
	write_pairs(&guest->sessions[0], 0, run.pairs);
}

static void
look(struct player *guest)
{
	for (unsigned half = 0; half < 3; half++)
		scan(&guest->sessions[0], half);
	for (uint32_t i = 0; i < run.pairs; i++)
		read_pair(&guest->sessions[0], i);
	verify(guest);
}

static void
director_main(void *arg)
{
	static const struct nam_table_schema schema = { .columns = { "side", "value" },
		.columns_count = 2, .indexes_count = 1,
		.indexes = { { 0, NAM_TABLE_INDEX_BYTES_MAX } } };	/* few to a leaf */
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t before, after;
	bool swept;
	int rc;

	(void)arg;
	sim_cluster_await(&run.cluster);
	worker = sim_come(&run.cluster, "director", &client);
	if (!worker)
		sim_die("the director cannot come");
	before = sim_cluster_used(&run.cluster, worker);
	if (nam_table_create(worker, TABLE, &schema))
		sim_die("create: %s", nam_worker_diag(worker));
	with_guest(make);
	for (uint32_t i = 0; i < run.clients; i++) {
		run.players[i].number = i;
		if (nam_sim_process_start("player", player_main, &run.players[i],
			    &run.players[i].process))
			sim_die("a client cannot be started");
	}
	for (uint32_t i = 0; i < run.clients; i++)
		random_await(run.players[i].process);
	with_guest(look);
	with_guest(make);
	with_guest(look);
	rc = nam_table_drop(worker, TABLE);
	if (rc && !explained(rc))
		random_failed("drop: %s, %s", nam_err_name(rc), nam_worker_diag(worker));
	sim_leave(&client, &worker);
	worker = sim_come(&run.cluster, "director", &client);
	if (!worker)
		sim_die("the director cannot come again");
	nam_sleep_ns(RANDOM_SETTLE_NS);
	swept = !rc && !sweep_dead(worker);
	after = sim_cluster_used(&run.cluster, worker);
	/* C26: nothing is left, to the byte. */
	if (after < before || (after > before && swept))
		random_failed("%llu bytes are used, %llu before", (unsigned long long)after,
			(unsigned long long)before);
	sim_leave(&client, &worker);
	sim_cluster_stop(&run.cluster);
}

/* ---- one run --------------------------------------------------------------------------------- */

static void
choose(struct nam_sim_options *options)
{
	static const uint64_t caches[] = { 0, 1 << 20 };
	struct nam_rng rng = nam_rng_seed(run.seed);

	nam_sim_options_init(options);
	options->seed = run.seed;
	options->profile = run.profile;
	options->step_bytes = nam_rng_below(&rng, 2) ? 8 : 64;
	options->slowness = run.slowness = 1u << random_between(&rng, 0, 5);
	options->faults.late = (uint32_t)nam_rng_below(&rng, 100000);
	options->faults.late_ns = 100000ull * options->slowness;
	options->faults.race = (uint32_t)nam_rng_below(&rng, 300000);
	options->faults.read_twice = (uint32_t)nam_rng_below(&rng, 100000);
	if (nam_rng_below(&rng, 2))
		options->faults.kill = random_between(&rng, 20, 300);
	if (!nam_rng_below(&rng, 4))
		options->faults.full = 100000;
	if (!nam_rng_below(&rng, 4)) {
		options->faults.stall = random_between(&rng, 20, 100);
		options->faults.stall_ns = 10 * TICK_NS;
	}
	if (!nam_rng_below(&rng, 2))
		options->faults.zombie = 300000;
	run.servers = random_between(&rng, 1, 3);
	run.clients = random_between(&rng, 2, CLIENTS_MAX);
	run.fibers = random_between(&rng, 2, FIBERS_MAX);
	run.pairs = random_between(&rng, 2, PAIRS_MAX);
	run.cache_bytes = caches[nam_rng_below(&rng, 2)];
	run.sweeps = nam_rng_below(&rng, 4) == 0;
}

static void
check(void)
{
	struct sim_read_atomic_options options;
	struct sim_findings findings = sim_findings_to(stdout);

	sim_read_atomic_options_init(&options);
	findings.printed_max = 3;
	sim_check_read_atomic(&run.txns, &options, &findings, NULL);
	if (findings.violations)
		random_failed("%llu violations of read atomicity",
			(unsigned long long)findings.violations);
}

static const char *
perform(enum nam_sim_profile profile, uint64_t seed, FILE *trace)
{
	struct nam_sim_options options;

	memset(&run, 0, sizeof(run));
	run.profile = profile;
	run.seed = seed;
	choose(&options);
	options.trace = trace;
	sim_txns_init(&run.txns);
	sim_cluster_begin(&options, &run.cluster, run.servers, 1, MEMORY_BYTES);
	random_runs_points(seed);
	random_run(director_main);
	printf("%s %llu: %llu scans, %llu reads, %llu writes, %llu unknown, %llu refused, "
		"%llu deaths, %llu ms\n",
		nam_sim_profile_name(profile), (unsigned long long)seed,
		(unsigned long long)run.scans, (unsigned long long)run.reads,
		(unsigned long long)run.writes, (unsigned long long)run.unknown,
		(unsigned long long)run.refused, (unsigned long long)nam_sim_counted().kills,
		(unsigned long long)nam_sim_now_ns() / 1000000);
	nam_sim_end();
	check();
	sim_txns_free(&run.txns);
	for (uint32_t i = 0; i < CLIENTS_MAX; i++)
		for (uint32_t k = 0; k < FIBERS_MAX; k++)
			nam_table_rows_free(run.players[i].sessions[k].rows);
	return random_failure();
}

int
main(int argc, char **argv)
{
	static const struct random_runs runs = { "sim_tables_test", NAM_SIM_COMMIT, FIXED_SEEDS,
		RANDOM_SEEDS, perform };

	return random_runs_main(&runs, argc, argv);
}
