/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp_test.c -- random transactions on a few records, by clients whose clocks differ and some of
 * which die.  Their results are read atomic, and afterwards all blocks are accounted for.
 *
 * A session is a fiber.  Values are numbers, each of one transaction and record; a deletion has one
 * as well, which its timestamp tells.
 *
 * Seeds count through the kinds of stores and readers (ramp_plan.h) and, of each, through the
 * possible events of a run.  All else is drawn.  The fixed seeds cover almost all kinds, and more
 * seeds of the others follow, where all profiles run all fixed seeds (random_runs.h).
 */
#include <errno.h>

#include "common/rpc/records_rpc.h"
#include "compute/remote/epoch.h"
#include "txn/records/txn_internal.h"
#include "txn/sweep.h"
#include "commit.h"
#include "ramp_run.h"
#include "random_runs.h"
#include "read_atomic.h"
#include "serializable.h"

#define SECOND_SESSIONS 1000u		/* beside those of fibers */
#define ROUNDS RAMP_ROUNDS
#define MEMORY_BYTES (8u << 20)
#define TICK_NS RANDOM_TICK_NS
#define FIXED_SEEDS 64u		/* at most 32 kinds, and two turns */
#define RANDOM_SEEDS 4u

struct ramp_run ramp_run;
static const char *plain;		/* a file, or NULL */

/* ---- what is entered ------------------------------------------------------------------------- */

static void
deletion_add(struct deletions *list, uint32_t txn, uint32_t key, uint64_t timestamp, uint64_t value)
{
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->each = realloc(list->each, list->room * sizeof(list->each[0]));
		if (!list->each)
			sim_die("no memory");
	}
	list->each[list->count++] = (struct deletion){ txn, key, timestamp, value };
}

/* 0, which is never written, if it was not deleted. */
static uint64_t
deletion_value(uint32_t key, uint64_t timestamp)
{
	for (size_t i = 0; i < ramp_run.written.count; i++) {
		const struct deletion *written = &ramp_run.written.each[i];

		if (written->key == key && ramp_run.txns.txns[written->txn].timestamp == timestamp)
			return written->value;
	}
	return 0;
}

static uint32_t
words_of(uint32_t key, uint64_t value)
{
	static const uint32_t words[] = { 1, 7, 20, 60 }, large[] = { 1, 490, 20, 640 };

	if (ramp_run.plan.alike)
		return ramp_run.plan.large ? large[3] : 1;
	return (ramp_run.plan.large ? large : words)[key % 4] + (uint32_t)(value % 3) * 8;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static uint32_t
pick(uint32_t picked[TOGETHER_MAX])
{
	uint32_t keys = ramp_run.plan.keys, most = keys < TOGETHER_MAX ? keys : TOGETHER_MAX;
	uint32_t all[KEYS_MAX];
	uint32_t count = 1 + (uint32_t)(nam_sim_random() % most);

	for (uint32_t i = 0; i < ramp_run.plan.keys; i++)
		all[i] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + (uint32_t)(nam_sim_random() % (ramp_run.plan.keys - i));

		picked[i] = all[other];
		all[other] = all[i];
	}
	return count;
}

void
ramp_name_key(struct session *self, uint32_t i, uint32_t key)
{
	(void)snprintf(self->keys[i], sizeof(self->keys[i]), "key%u", key);
}

/* Clients that die or lose connections leave blocks, and transactions half done. */
static bool
disturbed(void)
{
	struct nam_sim_counts counts = nam_sim_counted();

	return counts.kills || counts.broken;
}

/*
 * A client without a record's address searches the index of keys.  Locks of dead clients are taken
 * over.  If a client had no memory for a redo record, it may leave a node that stays torn.
 */
bool
ramp_locked(int rc)
{
	struct nam_sim_counts counts = nam_sim_counted();

	if (nam_err_is(rc, NAM_E_LOCK_ORPHANED))
		return disturbed() && counts.full;
	return (nam_err_is(rc, NAM_E_LOCK_TIMEOUT) || rc == -NAM_E_RESTART_TORN) &&
	       (counts.broken || counts.stalls || ramp_run.plan.slowness > 1);
}

/* A transaction's reads of some records, which its session keeps from `first` on. */
static void
read_ended(struct session *self, uint32_t txn, const uint32_t *picked, uint32_t first,
	const struct nam_records_reading *reading)
{
	const struct player *player = self->player;

	nam_sim_note("%u: get_all of %u: %s", self->number, reading->count,
		nam_err_name(reading->rc));
	if (reading->rc) {
		if (reading->rc == -NAM_E_RESTART_DEAD)
			ramp_run.restarts++;
		else if (ramp_locked(reading->rc))
			ramp_run.refused++;
		else if (!nam_err_is(reading->rc, NAM_E_FABRIC) || !random_explained(reading->rc))
			random_failed("get_all: %s, %s", nam_err_name(reading->rc),
				nam_worker_diag(player->worker));
		sim_txns_end(&ramp_run.txns, txn, SIM_TXN_ABORTED, 0, random_now());
		return;
	}
	ramp_run.reads++;
	ramp_run.deeds.reads++;
	for (uint32_t i = 0; i < reading->count; i++) {
		const struct nam_record_get *get = &reading->gets[i];
		const uint64_t *words = self->words[first + i];
		uint32_t key = picked[first + i];
		uint64_t value = get->rc ? 0 : words[0];

		if (get->timestamp > ramp_run.newest[key])
			ramp_run.newest[key] = get->timestamp;
		if (get->rc == -NAM_E_NOTFOUND && get->timestamp) {
			deletion_add(&ramp_run.found, txn, key, get->timestamp, 0);
			continue;
		}
		sim_txns_read(&ramp_run.txns, txn, key, value);
		if (get->rc == -NAM_E_NOTFOUND)
			continue;
		if (get->rc || get->value_bytes != 8 * words_of(key, value))
			random_failed("key %u: %s, %u bytes of %llu", key, nam_err_name(get->rc),
				get->value_bytes, (unsigned long long)value);
		for (uint32_t k = 1; k < get->value_bytes / 8; k++)
			if (words[k] != value)
				random_failed("key %u: a value that no writer has put: word %u is "
					"%llu, the first %llu", key, k,
					(unsigned long long)words[k],
					(unsigned long long)value);
	}
	sim_txns_end(&ramp_run.txns, txn, SIM_TXN_COMMITTED, 0, random_now());
}

/* Some by two transactions at once, the second of which counts as a session of its own. */
void
ramp_read(struct session *self, const uint32_t *picked, uint32_t count)
{
	struct player *player = self->player;
	struct nam_record_get gets[TOGETHER_MAX];
	struct nam_records_reading readings[2];
	bool two = count > 1 && nam_sim_random() % 4 == 0;
	uint32_t first = two ? 1 + (uint32_t)(nam_sim_random() % (count - 1)) : count, txns[2];
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		ramp_name_key(self, i, picked[i]);
		gets[i] = (struct nam_record_get){ .key = self->keys[i], .value = self->words[i],
			.key_bytes = (uint32_t)strlen(self->keys[i]),
			.size = sizeof(self->words[i]) };
	}
	readings[0] = (struct nam_records_reading){ .gets = gets, .count = first };
	readings[1] = (struct nam_records_reading){ .gets = &gets[first], .count = count - first };
	txns[0] = sim_txns_begin(&ramp_run.txns, self->number, random_now());
	txns[1] = two ? sim_txns_begin(&ramp_run.txns, SECOND_SESSIONS + self->number,
		random_now()) : 0;
	if (two)
		rc = nam_records_get_many(player->worker, player->records, readings, 2);
	else
		rc = readings[0].rc = nam_records_get_all(player->worker, player->records, gets,
			count);
	if (nam_sim_zombie())
		return;
	if (rc != (two && !readings[0].rc ? readings[1].rc : readings[0].rc))
		random_failed("get_many: %s, where its transactions are %s and %s",
			nam_err_name(rc), nam_err_name(readings[0].rc),
			nam_err_name(readings[1].rc));
	read_ended(self, txns[0], picked, 0, &readings[0]);
	if (two)
		read_ended(self, txns[1], picked, first, &readings[1]);
}

static enum sim_txn_outcome
outcome(const struct player *player, int rc)
{
	if (!rc) {
		ramp_run.deeds.writes++;
		return SIM_TXN_COMMITTED;
	}
	if (rc == -NAM_E_REMOTE_FULL || ramp_locked(rc)) {
		ramp_run.refused++;
		return SIM_TXN_ABORTED;
	}
	ramp_run.unknown++;
	if (!random_explained(rc))
		random_failed("put_all: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
	return SIM_TXN_UNKNOWN;
}

/* @deletes	of eight records so many are deleted */
void
ramp_write(struct session *self, const uint32_t *picked, uint32_t count, uint32_t deletes)
{
	struct player *player = self->player;
	struct nam_record_put puts[TOGETHER_MAX];
	uint32_t txn = sim_txns_begin(&ramp_run.txns, self->number, random_now());
	uint64_t timestamp = 0;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = ++ramp_run.values;
		uint32_t words = words_of(picked[i], value);
		bool delete = nam_sim_random() % 8 < deletes;

		ramp_name_key(self, i, picked[i]);
		for (uint32_t k = 0; k < words; k++)
			self->words[i][k] = value;
		puts[i] = (struct nam_record_put){ self->keys[i],
			(uint32_t)strlen(self->keys[i]), delete ? 0 : 8 * words,
			delete ? NULL : self->words[i] };
		sim_txns_write(&ramp_run.txns, txn, picked[i], value);
		if (delete)
			deletion_add(&ramp_run.written, txn, picked[i], 0, value);
	}
	rc = nam_records_put_all(player->worker, player->records, puts, count, &timestamp);
	/* A dead client reports its last transaction at the end. */
	if (nam_sim_zombie()) {
		sim_txns_end(&ramp_run.txns, txn, SIM_TXN_UNKNOWN, timestamp, 0);
		return;
	}
	nam_sim_note("%u: put_all of %u: %s, %llu", self->number, count, nam_err_name(rc),
		(unsigned long long)timestamp);
	ramp_run.writes++;
	sim_txns_end(&ramp_run.txns, txn, outcome(player, rc), timestamp, random_now());
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Versions that the client has replaced return soon. */
static void
reuse(const struct player *player)
{
	uint64_t reusable;
	int rc = nam__limbo_advance(player->worker, &reusable);

	if (rc && !random_explained(rc))
		random_failed("limbo: %s", nam_err_name(rc));
}

/* Beside the others, some of which may be dead. */
void
ramp_collect(struct player *player)
{
	struct nam_records_collected done;
	int rc = nam_records_collect(player->worker, player->records, &done);

	if (nam_sim_zombie())
		return;
	nam_sim_note("%u: collect: %s, %llu versions, %llu committed, %llu aborted",
		player->number, nam_err_name(rc), (unsigned long long)done.versions,
		(unsigned long long)done.committed, (unsigned long long)done.aborted);
	ramp_run.collected += done.versions;
	ramp_run.completed += done.committed;
	ramp_run.aborted += done.aborted;
	ramp_run.undecided += done.undecided;
	if (rc && !ramp_locked(rc) && !random_explained(rc))
		random_failed("collect: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
}

/* Other clients work, die and sweep meanwhile. */
int
ramp_sweep(struct player *player)
{
	struct nam_sweep_stat stat = { .entries = 0 };
	int rc;

	nam_worker_pace(player->worker, nam_sim_random() % 2 ? 300 : 0);
	rc = nam_sweep(player->worker, false, &stat);
	nam_worker_pace(player->worker, 0);

	if (nam_sim_zombie())
		return rc;
	nam_sim_note("%u: sweep: %s, %llu blocks", player->number, nam_err_name(rc),
		(unsigned long long)stat.freed.blocks);
	ramp_run.swept += rc ? 0 : stat.freed.blocks;
	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT && !ramp_locked(rc) &&
		!random_explained(rc))
		random_failed("sweep: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
	return rc;
}

static void
die(void *arg)
{
	nam_sim_process_kill(arg);
}

static bool
doomed(const struct session *self)
{
	return ramp_run.plan.murder && self->player->number == ramp_run.plan.victim &&
		self == &self->player->sessions[ramp_run.plan.victim_fiber];
}

static void
session_main(void *arg)
{
	struct session *self = arg;
	uint32_t picked[TOGETHER_MAX];

	for (uint32_t i = 0; i < ROUNDS && !random_failure() && !nam_sim_zombie(); i++) {
		uint32_t count = pick(picked);

		if (doomed(self) && i == ramp_run.plan.victim_round)
			nam_sim_call_after(ramp_run.plan.victim_ns, die, self->player->process);
		if (nam_sim_random() % 4 == 0)
			nam__pause_await(self->player->worker,
				nam_sim_random() % (self->player->pause_ns + 1));
		switch (nam_sim_random() % 8) {
		case 0:
			if (nam_sim_random() % 4)
				reuse(self->player);
			else if (ramp_run.plan.sweeps && nam_sim_random() % 2)
				(void)ramp_sweep(self->player);
			else
				ramp_collect(self->player);
			break;
		case 1:
		case 2:
		case 3:
			ramp_write(self, picked, count, 1);
			break;
		default:
			ramp_read(self, picked, count);
		}
	}
}

static bool
come(struct player *player, uint64_t cache_bytes)
{
	int rc;

	player->worker = sim_come(&ramp_run.cluster, "player", &player->client);
	if (!player->worker)
		return false;
	rc = nam_records_open(player->worker, STORE, cache_bytes, &player->records);
	if (rc && !nam_sim_zombie() && !random_explained(rc))
		random_failed("open: %s", nam_worker_diag(player->worker));
	return !rc;
}

/* This client's role and events. */
static void
look_back(const struct player *player)
{
	const struct nam_op_counters *counters = nam_worker_counters(player->worker,
		NAM_OP_GET_ALL);
	const struct nam_records_options *options = nam_records_properties(player->records);

	ramp_run.seen.commit = options->commit;
	ramp_run.seen.algorithm = options->algorithm;
	ramp_run.seen.readers |= player->records->star ? RAMP_BY_ADDRESS : RAMP_BY_REQUEST;
	ramp_run.seen.transport = player->client->options.transport;
	if (player->records->star)
		ramp_run.deeds.stale += counters->restarts[NAM_RESTART_SUPERSEDED];
}

void
ramp_leave(struct player *player)
{
	nam_records_close(player->records);
	player->records = NULL;
	sim_leave(&player->client, &player->worker);
}

static void
player_main(void *arg)
{
	static const uint64_t pauses[] = { 0, TICK_NS / 10, TICK_NS, 5 * TICK_NS };
	struct player *player = arg;
	uint32_t fibers = ramp_run.plan.fibers;
	bool star = ramp_run.plan.kind.readers == RAMP_BY_ADDRESS ||
		(ramp_run.plan.kind.readers & RAMP_BY_ADDRESS && player->number % 2 == 0);

	if (come(player, ramp_run.plan.cache_bytes)) {
		atomic_fetch_add(&nam__txn_client(player->client)->last_us,
			nam_sim_random() % (ramp_run.plan.ahead_us + 1));
		player->pause_ns = pauses[nam_sim_random() % 4];
		if (nam_records_star(player->worker, player->records, star))
			random_failed("star: %s", nam_worker_diag(player->worker));
		for (uint32_t i = 0; i < fibers; i++) {
			player->sessions[i].player = player;
			player->sessions[i].number = 1 + player->number * FIBERS_MAX + i;
			if (nam_worker_spawn(player->worker, session_main, &player->sessions[i]))
				sim_die("no fiber");
		}
		nam_worker_run(player->worker);
		look_back(player);
	}
	ramp_leave(player);
}

/* ---- the director ---------------------------------------------------------------------------- */

static void
director_main(void *arg)
{
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t before, after;

	(void)arg;
	sim_cluster_await(&ramp_run.cluster);
	worker = sim_come(&ramp_run.cluster, "director", &client);
	if (!worker)
		sim_die("the director cannot come");
	before = sim_cluster_used(&ramp_run.cluster, worker);
	ramp_visit(ramp_make);
	for (uint32_t i = 0; i < ramp_run.plan.clients; i++) {
		ramp_run.players[i].number = i;
		if (nam_sim_process_start("player", player_main, &ramp_run.players[i],
			    &ramp_run.players[i].process))
			sim_die("a client cannot be started");
	}
	ramp_run.failover = (struct random_failover){ .cluster = &ramp_run.cluster,
		.servers = ramp_run.plan.servers, .death_ns = 4 * TICK_NS,
		.backup_dies = ramp_run.plan.backup_dies };
	if (ramp_run.plan.failover)
		random_failover_begin(&ramp_run.failover);
	for (uint32_t i = 0; i < ramp_run.plan.clients; i++)
		random_await(ramp_run.players[i].process);
	random_failover_await(&ramp_run.failover);
	ramp_visit(ramp_look);
	ramp_visit(ramp_tidy);
	ramp_visit(ramp_look);
	ramp_visit(ramp_write_again);
	ramp_visit(ramp_tidy);
	ramp_visit(ramp_look);
	if (disturbed()) {
		ramp_visit(ramp_sweep_store);
		ramp_visit(ramp_look);
	}
	ramp_visit(ramp_drop);
	/* A sweep that failed may have taken versions out of their chains. */
	if (disturbed() || ramp_run.plan.sweeps)
		ramp_visit(ramp_sweep_all);
	after = sim_cluster_used(&ramp_run.cluster, worker);
	/* C26: nothing of the dead is left, to the byte. */
	if (!ramp_run.failover.backed && (after < before || (after > before && ramp_run.dropped)))
		random_failed("%llu bytes are used, %llu before", (unsigned long long)after,
			(unsigned long long)before);
	sim_leave(&client, &worker);
	sim_cluster_stop(&ramp_run.cluster);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Without an algorithm halves are seen, and all else is as it is with one. */
static void
check_read_atomic(void)
{
	struct sim_read_atomic_options options;
	struct sim_findings findings = sim_findings_to(stdout);
	uint64_t counts[SIM_RA_KINDS];
	bool halves = ramp_run.plan.kind.algorithm == NAM_RAMP_NONE;

	sim_read_atomic_options_init(&options);
	findings.printed_max = 3;
	if (halves)
		findings.file = NULL;
	sim_check_read_atomic(&ramp_run.txns, &options, &findings, counts);
	for (unsigned kind = 0; kind < SIM_RA_KINDS; kind++)
		if (counts[kind] && !(halves && kind == SIM_RA_FRACTURED))
			random_failed("%llu violations of read atomicity: %s",
				(unsigned long long)counts[kind], sim_read_atomic_name(kind));
}

static void
check(void)
{
	for (size_t i = 0; i < ramp_run.found.count; i++) {
		const struct deletion *found = &ramp_run.found.each[i];
		uint64_t value = deletion_value(found->key, found->timestamp);

		if (!value)
			random_failed("key %u was deleted at %llu, by no client", found->key,
				(unsigned long long)found->timestamp);
		sim_txns_read(&ramp_run.txns, found->txn, found->key, value);
	}
	check_read_atomic();
	if (ramp_run.plan.kind.algorithm == NAM_RAMP_LOCKING &&
		sim_check_serializable(&ramp_run.txns, NULL))
		random_failed("not serializable: a circle of %zu transactions",
			sim_check_serializable(&ramp_run.txns, NULL));
}

static void
print(void)
{
	char kind[RAMP_KIND_TEXT_BYTES];

	printf("%s %llu: %s%s, %llu reads, %llu writes, %llu unknown, %llu refused, %llu "
		"restarts, %llu stale, %llu deaths, collected %llu, %llu committed, %llu aborted, "
		"%llu undecided, swept %llu%s, %llu ms\n",
		nam_sim_profile_name(ramp_run.profile), (unsigned long long)ramp_run.seed,
		ramp_kind_text(&ramp_run.plan.kind, kind),
		ramp_run.plan.large ? ", large values" : "",
		(unsigned long long)ramp_run.reads, (unsigned long long)ramp_run.writes,
		(unsigned long long)ramp_run.unknown, (unsigned long long)ramp_run.refused,
		(unsigned long long)ramp_run.restarts, (unsigned long long)ramp_run.deeds.stale,
		(unsigned long long)ramp_run.deeds.deaths, (unsigned long long)ramp_run.collected,
		(unsigned long long)ramp_run.completed, (unsigned long long)ramp_run.aborted,
		(unsigned long long)ramp_run.undecided, (unsigned long long)ramp_run.swept,
		!ramp_run.failover.failed_over ? "" : ramp_run.plan.backup_dies ? ", backup died" :
			", failed over",
		(unsigned long long)nam_sim_now_ns() / 1000000);
}

static void
write_history(void)
{
	FILE *file = fopen(plain, "w");

	if (!file)
		sim_die("%s cannot be written", plain);
	sim_txns_write_plain(&ramp_run.txns, file);
	if (fclose(file))
		sim_die("%s cannot be written", plain);
}

static const char *
perform(enum nam_sim_profile profile, uint64_t seed, FILE *trace)
{
	struct nam_sim_options options;

	memset(&ramp_run, 0, sizeof(ramp_run));
	ramp_run.profile = profile;
	ramp_run.seed = seed;
	ramp_plan(profile, seed, &ramp_run.plan, &options);
	options.trace = trace;
	sim_txns_init(&ramp_run.txns);
	sim_cluster_begin(&options, &ramp_run.cluster, ramp_run.plan.servers,
		ramp_run.plan.handlers, MEMORY_BYTES);
	random_runs_points(seed);
	ramp_run.cluster.transport = ramp_run.plan.kind.transport;
	random_run(director_main);
	ramp_run.deeds.deaths = nam_sim_counted().kills;
	print();
	if (!ramp_cover(profile, &ramp_run.seen, &ramp_run.deeds))
		random_failed("clients that found a store of another kind");
	nam_sim_end();
	check();
	if (plain)
		write_history();
	sim_txns_free(&ramp_run.txns);
	free(ramp_run.written.each);
	free(ramp_run.found.each);
	ramp_run.written = ramp_run.found = (struct deletions){ 0 };
	return random_failure();
}

/* Where the history of one run goes; what is left of the arguments is as in other tests. */
static int
take_plain(int argc, char **argv)
{
	static const char usage[] =
		"usage: sim_ramp_test    all kinds of stores and readers, and some random seeds\n"
		"       sim_ramp_test PROFILE SEED [GUARD...] [--trace] [--kill-at NAME,...] "
		"[--plain FILE]    one run, guards turned off, clients killed at race points";
	int left = 1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--plain"))
			argv[left++] = argv[i];
		else if (i + 1 < argc)
			plain = argv[++i];
		else
			sim_die("%s", usage);
	}
	if (left == 2 || (plain && left == 1))
		sim_die("%s", usage);
	return left;
}

int
main(int argc, char **argv)
{
	static const struct random_runs runs = { "sim_ramp_test", NAM_SIM_COMMIT, FIXED_SEEDS,
		RANDOM_SEEDS, perform };
	int rc;

	argc = take_plain(argc, argv);
	rc = random_runs_main(&runs, argc, argv);
	if (argc == 1 && RANDOM_RUNS_SHARES == 1)
		rc |= ramp_cover_more(FIXED_SEEDS, perform) || ramp_uncovered(stdout);
	return rc;
}
