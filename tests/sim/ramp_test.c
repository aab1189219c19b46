/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ramp_test.c -- random transactions on a few records, by clients whose clocks differ and some of
 * which die; what they were told is read atomic, and afterwards all blocks are accounted for.
 *
 * A session is a fiber.  Values are numbers, each of one transaction and record; a deletion has one
 * as well, which its timestamp tells.
 */
#include "../../common/rpc/records_rpc.h"
#include "../../compute/compute_internal.h"
#include "../../txn/records.h"
#include "commit.h"
#include "random_runs.h"
#include "read_atomic.h"
#include "serializable.h"

#define STORE "ramp"
#define CLIENTS_MAX 4u
#define FIBERS_MAX 6u
#define KEYS_MAX 8u
#define TOGETHER_MAX 6u
#define SECOND_SESSIONS 1000u		/* beside those of fibers */
#define WORDS_MAX 80u
#define ROUNDS 24u
#define MEMORY_BYTES (8u << 20)
#define POLL_NS 50000u
#define TICK_NS 15000000u		/* keepers look at their clocks every 10 ms */
#define FIXED_SEEDS 8u
#define RANDOM_SEEDS 4u

/* One fiber. */
struct session {
	struct player *player;
	uint32_t number;
	uint64_t words[TOGETHER_MAX][WORDS_MAX];
	char keys[TOGETHER_MAX][16];
};

/* One client. */
struct player {
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_records *records;
	uint32_t number;
	uint64_t pause_ns;		/* meanwhile what it remembers grows old */
	struct session sessions[FIBERS_MAX];
};

/* Somebody found a record deleted, or deletes it: which value that was is known in the end. */
struct deletion {
	uint32_t txn, key;
	uint64_t timestamp, value;
};

struct deletions {
	struct deletion *each;
	size_t count, room;
};

static struct {
	enum nam_sim_profile profile;
	uint64_t seed;
	/* Chosen by the seed. */
	uint32_t servers, handlers, clients, fibers, keys, slowness;
	uint64_t cache_bytes, ahead_us;
	bool alike;			/* all values have one length: blocks go round */
	struct nam_records_options options;
	enum nam_carrier carrier;
	/* The stage. */
	struct sim_cluster cluster;
	struct nam_sim_process *director;
	struct player players[CLIENTS_MAX + 1];		/* the last one is the director */
	bool ready;
	struct sim_txns txns;
	struct deletions written, found;
	uint64_t values;
	uint64_t newest[KEYS_MAX];	/* the highest timestamp that anybody has read */
	uint64_t reads, writes, unknown, refused, restarts;
	uint64_t collected, completed, aborted, undecided;
	bool failed;
	char why[400];
} run;

static void failed(const char *format, ...) NAM_PRINTF(1, 2);

static void
failed(const char *format, ...)
{
	va_list args;

	if (run.failed || nam_sim_ghost())
		return;
	run.failed = true;
	va_start(args, format);
	(void)vsnprintf(run.why, sizeof(run.why), format, args);
	va_end(args);
}

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

/* 0, which nobody writes, if nobody deleted it. */
static uint64_t
deletion_value(uint32_t key, uint64_t timestamp)
{
	for (size_t i = 0; i < run.written.count; i++) {
		const struct deletion *written = &run.written.each[i];

		if (written->key == key && run.txns.txns[written->txn].timestamp == timestamp)
			return written->value;
	}
	return 0;
}

static uint64_t
now(void)
{
	return nam_sim_now_ns() + 1;
}

static uint32_t
words_of(uint32_t key, uint64_t value)
{
	static const uint32_t words[] = { 1, 7, 20, 60 };

	return run.alike ? 1 : words[key % 4] + (uint32_t)(value % 3) * 8;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static uint32_t
pick(uint32_t picked[TOGETHER_MAX])
{
	uint32_t all[KEYS_MAX], most = run.keys < TOGETHER_MAX ? run.keys : TOGETHER_MAX;
	uint32_t count = 1 + (uint32_t)(nam_sim_random() % most);

	for (uint32_t i = 0; i < run.keys; i++)
		all[i] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + (uint32_t)(nam_sim_random() % (run.keys - i));

		picked[i] = all[other];
		all[other] = all[i];
	}
	return count;
}

static void
name_key(struct session *self, uint32_t i, uint32_t key)
{
	(void)snprintf(self->keys[i], sizeof(self->keys[i]), "key%u", key);
}

/* What another's death, or the end of a connection, explains. */
static bool
explained(int rc)
{
	struct nam_sim_counts counts = nam_sim_counted();

	return counts.kills || counts.broken || nam_err_is(rc, NAM_E_FABRIC_TIMEOUT);
}

/*
 * Who does not know yet where a record is looks for it in the index of the keys, and finds what the
 * dead have locked there, what is locked by who stands still, or where all is slow.
 */
static bool
locked(int rc)
{
	if (nam_err_is(rc, NAM_E_LOCK_ORPHANED))
		return explained(rc);
	return (nam_err_is(rc, NAM_E_LOCK_TIMEOUT) || rc == -NAM_E_RESTART_TORN) &&
	       (explained(rc) || run.slowness > 1 || nam_sim_counted().stalls);
}

/* What a transaction has read of some records, which its session has in their places from first. */
static void
read_ended(struct session *self, uint32_t txn, const uint32_t *picked, uint32_t first,
	const struct nam_records_reading *reading)
{
	const struct player *player = self->player;

	nam_sim_note("%u: get_all of %u: %s", self->number, reading->count,
		nam_err_name(reading->rc));
	if (reading->rc) {
		if (reading->rc == -NAM_E_RESTART_DEAD)
			run.restarts++;
		else if (locked(reading->rc))
			run.refused++;
		else if (!nam_err_is(reading->rc, NAM_E_FABRIC) || !explained(reading->rc))
			failed("get_all: %s, %s", nam_err_name(reading->rc),
				nam_worker_diag(player->worker));
		sim_txns_end(&run.txns, txn, SIM_TXN_ABORTED, 0, now());
		return;
	}
	run.reads++;
	for (uint32_t i = 0; i < reading->count; i++) {
		const struct nam_record_get *get = &reading->gets[i];
		const uint64_t *words = self->words[first + i];
		uint32_t key = picked[first + i];
		uint64_t value = get->rc ? 0 : words[0];

		if (get->timestamp > run.newest[key])
			run.newest[key] = get->timestamp;
		if (get->rc == -NAM_E_NOTFOUND && get->timestamp) {
			deletion_add(&run.found, txn, key, get->timestamp, 0);
			continue;
		}
		sim_txns_read(&run.txns, txn, key, value);
		if (get->rc == -NAM_E_NOTFOUND)
			continue;
		if (get->rc || get->value_bytes != 8 * words_of(key, value))
			failed("key %u: %s, %u bytes of %llu", key, nam_err_name(get->rc),
				get->value_bytes, (unsigned long long)value);
		for (uint32_t k = 1; k < get->value_bytes / 8; k++)
			if (words[k] != value)
				failed("key %u: a value that nobody has put: word %u is %llu, the "
					"first %llu", key, k, (unsigned long long)words[k],
					(unsigned long long)value);
	}
	sim_txns_end(&run.txns, txn, SIM_TXN_COMMITTED, 0, now());
}

/* Some by two transactions at once, the second of which counts as a session of its own. */
static void
read_some(struct session *self, const uint32_t *picked, uint32_t count)
{
	struct player *player = self->player;
	struct nam_record_get gets[TOGETHER_MAX];
	struct nam_records_reading readings[2];
	bool two = count > 1 && nam_sim_random() % 4 == 0;
	uint32_t first = two ? 1 + (uint32_t)(nam_sim_random() % (count - 1)) : count, txns[2];
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		name_key(self, i, picked[i]);
		gets[i] = (struct nam_record_get){ .key = self->keys[i], .value = self->words[i],
			.key_bytes = (uint32_t)strlen(self->keys[i]),
			.size = sizeof(self->words[i]) };
	}
	readings[0] = (struct nam_records_reading){ .gets = gets, .count = first };
	readings[1] = (struct nam_records_reading){ .gets = &gets[first], .count = count - first };
	txns[0] = sim_txns_begin(&run.txns, self->number, now());
	txns[1] = two ? sim_txns_begin(&run.txns, SECOND_SESSIONS + self->number, now()) : 0;
	if (two)
		rc = nam_records_get_many(player->worker, player->records, readings, 2);
	else
		rc = readings[0].rc = nam_records_get_all(player->worker, player->records, gets,
			count);
	if (nam_sim_ghost())
		return;
	if (rc != (two && !readings[0].rc ? readings[1].rc : readings[0].rc))
		failed("get_many: %s, where its transactions are %s and %s", nam_err_name(rc),
			nam_err_name(readings[0].rc), nam_err_name(readings[1].rc));
	read_ended(self, txns[0], picked, 0, &readings[0]);
	if (two)
		read_ended(self, txns[1], picked, first, &readings[1]);
}

static enum sim_txn_outcome
outcome(const struct player *player, int rc)
{
	if (!rc)
		return SIM_TXN_COMMITTED;
	if (rc == -NAM_E_REMOTE_FULL || locked(rc)) {
		run.refused++;
		return SIM_TXN_ABORTED;
	}
	run.unknown++;
	if (!explained(rc) || !(nam_err_is(rc, NAM_E_FABRIC) || nam_err_is(rc, NAM_E_FENCED)))
		failed("put_all: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
	return SIM_TXN_UNKNOWN;
}

/* @deletes	of eight records so many are deleted */
static void
write_some(struct session *self, const uint32_t *picked, uint32_t count, uint32_t deletes)
{
	struct player *player = self->player;
	struct nam_record_put puts[TOGETHER_MAX];
	uint32_t txn = sim_txns_begin(&run.txns, self->number, now());
	uint64_t timestamp = 0;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = ++run.values;
		uint32_t words = words_of(picked[i], value);
		bool delete = nam_sim_random() % 8 < deletes;

		name_key(self, i, picked[i]);
		for (uint32_t k = 0; k < words; k++)
			self->words[i][k] = value;
		puts[i] = (struct nam_record_put){ self->keys[i],
			(uint32_t)strlen(self->keys[i]), delete ? 0 : 8 * words,
			delete ? NULL : self->words[i] };
		sim_txns_write(&run.txns, txn, picked[i], value);
		if (delete)
			deletion_add(&run.written, txn, picked[i], 0, value);
	}
	rc = nam_records_put_all(player->worker, player->records, puts, count, &timestamp);
	/* Who died tells, at the end of all, what his last one would have been. */
	if (nam_sim_ghost()) {
		sim_txns_end(&run.txns, txn, SIM_TXN_UNKNOWN, timestamp, 0);
		return;
	}
	nam_sim_note("%u: put_all of %u: %s, %llu", self->number, count, nam_err_name(rc),
		(unsigned long long)timestamp);
	run.writes++;
	sim_txns_end(&run.txns, txn, outcome(player, rc), timestamp, now());
}

/* ---- clients --------------------------------------------------------------------------------- */

/* What the client has replaced comes back soon. */
static void
reuse(const struct player *player)
{
	uint64_t reusable;
	int rc = nam__limbo_advance(player->worker, &reusable);

	if (rc && !explained(rc))
		failed("limbo: %s", nam_err_name(rc));
}

/* Beside the others, some of which may be dead. */
static void
collect(struct player *player)
{
	struct nam_records_collected done;
	int rc = nam_records_collect(player->worker, player->records, &done);

	if (nam_sim_ghost())
		return;
	nam_sim_note("%u: collect: %s, %llu versions, %llu committed, %llu aborted",
		player->number, nam_err_name(rc), (unsigned long long)done.versions,
		(unsigned long long)done.committed, (unsigned long long)done.aborted);
	run.collected += done.versions;
	run.completed += done.committed;
	run.aborted += done.aborted;
	run.undecided += done.undecided;
	if (rc && !locked(rc) && !explained(rc))
		failed("collect: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
}

static void
session_main(void *arg)
{
	struct session *self = arg;
	uint32_t picked[TOGETHER_MAX];

	for (uint32_t i = 0; i < ROUNDS && !run.failed && !nam_sim_ghost(); i++) {
		uint32_t count = pick(picked);

		if (nam_sim_random() % 4 == 0)
			nam__pause_await(self->player->worker,
				nam_sim_random() % (self->player->pause_ns + 1));
		switch (nam_sim_random() % 8) {
		case 0:
			if (nam_sim_random() % 4)
				reuse(self->player);
			else
				collect(self->player);
			break;
		case 1:
		case 2:
		case 3:
			write_some(self, picked, count, 1);
			break;
		default:
			read_some(self, picked, count);
		}
	}
}

static bool
come(struct player *player, uint64_t cache_bytes)
{
	int rc;

	player->client = sim_client(&run.cluster, "player");
	player->worker = player->client ? sim_worker(player->client) : NULL;
	if (!player->worker)
		return false;
	rc = nam_records_open(player->worker, STORE, cache_bytes, &player->records);
	if (rc && !nam_sim_ghost() && !explained(rc))
		failed("open: %s", nam_worker_diag(player->worker));
	return !rc;
}

static void
leave(struct player *player)
{
	nam_records_close(player->records);
	player->records = NULL;
	if (player->worker)
		nam_worker_close(player->worker);
	player->worker = NULL;
	if (player->client)
		nam_client_close(player->client);
	player->client = NULL;
}

static void
player_main(void *arg)
{
	static const uint64_t pauses[] = { 0, TICK_NS / 10, TICK_NS, 5 * TICK_NS };
	struct player *player = arg;
	uint32_t fibers = run.fibers;

	if (come(player, run.cache_bytes)) {
		atomic_fetch_add(&player->client->transaction_us,
			nam_sim_random() % (run.ahead_us + 1));
		player->pause_ns = pauses[nam_sim_random() % 4];
		if (run.options.commit == NAM_RECORDS_SERVED && nam_sim_random() % 2 &&
			nam_records_star(player->worker, player->records, 0))
			failed("star: %s", nam_worker_diag(player->worker));
		for (uint32_t i = 0; i < fibers; i++) {
			player->sessions[i].player = player;
			player->sessions[i].number = 1 + player->number * FIBERS_MAX + i;
			if (nam_worker_spawn(player->worker, session_main, &player->sessions[i]))
				sim_die("no fiber");
		}
		nam_worker_run(player->worker);
	}
	leave(player);
}

/* ---- the director ---------------------------------------------------------------------------- */

/* By a client that leaves, so that it keeps nothing in stock. */
static void
with_guest(void (*fn)(struct player *guest))
{
	struct player *guest = &run.players[CLIENTS_MAX];

	memset(guest, 0, sizeof(*guest));
	guest->number = CLIENTS_MAX;
	guest->client = sim_client(&run.cluster, "guest");
	guest->worker = guest->client ? sim_worker(guest->client) : NULL;
	if (!guest->worker)
		sim_die("the guest cannot come");
	guest->sessions[0].player = guest;
	fn(guest);
	leave(guest);
}

static void
store_open(struct player *guest)
{
	if (nam_records_open(guest->worker, STORE, 0, &guest->records))
		sim_die("open: %s", nam_worker_diag(guest->worker));
}

/* Half of the records are there at the beginning. */
static void
make(struct player *guest)
{
	uint32_t keys[KEYS_MAX];
	uint32_t count = run.keys / 2;

	if (nam_records_create(guest->worker, STORE, &run.options))
		sim_die("create: %s", nam_worker_diag(guest->worker));
	store_open(guest);
	for (uint32_t i = 0; i < count; i++)
		keys[i] = i;
	write_some(&guest->sessions[0], keys, count, 0);
}

/* All together, each alone, together again: what was seen once is not older. */
static void
look(struct player *guest)
{
	uint32_t keys[KEYS_MAX];
	uint64_t newest[KEYS_MAX];
	struct session *session = &guest->sessions[0];

	store_open(guest);
	memcpy(newest, run.newest, sizeof(newest));
	for (uint32_t i = 0; i < run.keys; i++)
		keys[i] = i;
	for (uint32_t first = 0; first < run.keys; first += TOGETHER_MAX)
		read_some(session, &keys[first], run.keys - first < TOGETHER_MAX ?
			run.keys - first : TOGETHER_MAX);
	for (uint32_t i = 0; i < run.keys; i++) {
		struct nam_record_get get = { .key = session->keys[0], .size = 0 };
		int rc;

		name_key(session, 0, i);
		get.key_bytes = (uint32_t)strlen(session->keys[0]);
		rc = nam_records_get_all(guest->worker, guest->records, &get, 1);
		if (rc && !locked(rc))
			failed("key %u: %s", i, nam_worker_diag(guest->worker));
		else if (!rc && get.timestamp < newest[i])
			failed("key %u is of %llu, and somebody read %llu", i,
				(unsigned long long)get.timestamp, (unsigned long long)newest[i]);
		read_some(session, &keys[i], 1);
	}
}

/* Nothing stays but the latest versions, once all others have gone. */
static void
tidy(struct player *guest)
{
	struct nam_records_stat stat;
	uint64_t undecided, completed;
	int rc;

	store_open(guest);
	/* What is committed for one of the dead may be what another's has waited for. */
	do {
		completed = run.completed;
		collect(guest);
	} while (run.completed > completed);
	nam_sleep_ns(2 * NAM_RECORDS_KEEP_NS);
	undecided = run.undecided;
	collect(guest);
	rc = nam_records_stat(guest->worker, guest->records, &stat);
	/* What locks have been forgotten for is evidence, and stays. */
	if (rc || run.undecided > undecided || run.options.algorithm == NAM_RAMP_LOCKING) {
		if (rc && !explained(rc))
			failed("stat: %s", nam_worker_diag(guest->worker));
		return;
	}
	if (stat.others)
		failed("%llu versions stay that are not the latest",
			(unsigned long long)stat.others);
}

/* Whoever has lived on can write all of them. */
static void
write_again(struct player *guest)
{
	uint32_t keys[KEYS_MAX];

	store_open(guest);
	for (uint32_t i = 0; i < run.keys / 2; i++)
		keys[i] = i;
	write_some(&guest->sessions[0], keys, run.keys / 2, 0);
	read_some(&guest->sessions[0], keys, run.keys / 2);
}

static void
drop(struct player *guest)
{
	int rc = nam_records_drop(guest->worker, STORE);

	/* Locks of the dead in the index of the keys. */
	if (rc && !explained(rc))
		failed("drop: %s", nam_worker_diag(guest->worker));
}

static void
director_main(void *arg)
{
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t before, after;

	(void)arg;
	sim_cluster_await(&run.cluster);
	client = sim_client(&run.cluster, "director");
	worker = client ? sim_worker(client) : NULL;
	if (!worker)
		sim_die("the director cannot come");
	before = sim_cluster_used(&run.cluster, worker);
	with_guest(make);
	for (uint32_t i = 0; i < run.clients; i++) {
		run.players[i].number = i;
		if (nam_sim_process_start("player", player_main, &run.players[i],
			    &run.players[i].process))
			sim_die("a client cannot be started");
	}
	for (uint32_t i = 0; i < run.clients; i++)
		while (!nam_sim_process_ended(run.players[i].process))
			nam_sleep_ns(POLL_NS);
	with_guest(look);
	with_guest(tidy);
	with_guest(look);
	with_guest(write_again);
	with_guest(tidy);
	with_guest(look);
	with_guest(drop);
	after = sim_cluster_used(&run.cluster, worker);
	if (after < before || (after > before && !explained(0)))
		failed("%llu bytes are used, %llu before", (unsigned long long)after,
			(unsigned long long)before);
	nam_worker_close(worker);
	nam_client_close(client);
	sim_cluster_stop(&run.cluster);
}

/* ---- one run --------------------------------------------------------------------------------- */

static uint32_t
between(struct nam_rng *rng, uint32_t least, uint32_t most)
{
	return least + (uint32_t)nam_rng_below(rng, most - least + 1);
}

static void
choose(struct nam_sim_options *options)
{
	static const enum nam_carrier carriers[] = { NAM_CARRIER_SRQ, NAM_CARRIER_MAILBOX,
		NAM_CARRIER_FETCH };
	static const enum nam_ramp algorithms[] = { NAM_RAMP_FAST, NAM_RAMP_SMALL, NAM_RAMP_HYBRID,
		NAM_RAMP_LOCKING, NAM_RAMP_LOCKING };
	static const uint64_t caches[] = { 0, 1024, 1 << 20 }, aheads[] = { 0, 100, 10000000 };
	struct nam_rng rng = nam_rng_seed(run.seed);

	nam_sim_options_init(options);
	options->seed = run.seed;
	options->profile = run.profile;
	options->step_bytes = nam_rng_below(&rng, 2) ? 8 : 64;
	options->slowness = run.slowness = 1u << between(&rng, 0, 7);
	options->faults.late = (uint32_t)nam_rng_below(&rng, 100000);
	options->faults.late_ns = 100000ull * options->slowness;
	options->faults.race = (uint32_t)nam_rng_below(&rng, 300000);
	options->faults.read_twice = (uint32_t)nam_rng_below(&rng, 100000);
	if (nam_rng_below(&rng, 2))
		options->faults.kill = between(&rng, 20, 300);
	if (!nam_rng_below(&rng, 4))
		options->faults.break_qp = between(&rng, 20, 100);
	if (!nam_rng_below(&rng, 4))
		options->faults.full = 300000;
	if (!nam_rng_below(&rng, 4)) {
		options->faults.stall = between(&rng, 20, 100);
		options->faults.stall_ns = 10 * TICK_NS;
	}
	if (!nam_rng_below(&rng, 2))
		options->faults.zombie = 300000;
	run.servers = between(&rng, 1, 3);
	run.handlers = between(&rng, 1, 3);
	run.clients = between(&rng, 3, CLIENTS_MAX);
	run.fibers = between(&rng, 4, FIBERS_MAX);
	run.keys = between(&rng, 4, KEYS_MAX);
	run.cache_bytes = caches[nam_rng_below(&rng, 3)];
	run.ahead_us = aheads[nam_rng_below(&rng, 3)];
	run.alike = nam_rng_below(&rng, 2);
	nam_records_options_init(&run.options);
	if (nam_rng_below(&rng, 2)) {
		run.options.commit = NAM_RECORDS_SERVED;
		run.options.algorithm = algorithms[nam_rng_below(&rng, 5)];
		run.carrier = carriers[nam_rng_below(&rng, 3)];
	}
}

static void
check(void)
{
	struct sim_read_atomic_options options;
	struct sim_findings findings = sim_findings_to(stdout);

	for (size_t i = 0; i < run.found.count; i++) {
		const struct deletion *found = &run.found.each[i];
		uint64_t value = deletion_value(found->key, found->timestamp);

		if (!value)
			failed("key %u was deleted at %llu, by nobody", found->key,
				(unsigned long long)found->timestamp);
		sim_txns_read(&run.txns, found->txn, found->key, value);
	}
	sim_read_atomic_options_init(&options);
	findings.told_max = 3;
	sim_check_read_atomic(&run.txns, &options, &findings, NULL);
	if (run.options.algorithm == NAM_RAMP_LOCKING && sim_check_serializable(&run.txns))
		failed("not serializable: a circle of %zu transactions",
			sim_check_serializable(&run.txns));
	if (findings.violations)
		failed("%llu violations of read atomicity",
			(unsigned long long)findings.violations);
}

static const char *
perform(enum nam_sim_profile profile, uint64_t seed, FILE *trace)
{
	struct nam_sim_options options;
	int rc;

	memset(&run, 0, sizeof(run));
	run.profile = profile;
	run.seed = seed;
	choose(&options);
	options.trace = trace;
	sim_txns_init(&run.txns);
	if (nam_sim_begin(&options))
		sim_die("the simulation cannot begin");
	sim_cluster_start(&run.cluster, run.servers, run.handlers, MEMORY_BYTES);
	run.cluster.carrier = run.carrier;
	if (nam_sim_process_start("director", director_main, NULL, &run.director))
		sim_die("the director cannot be started");
	nam_sim_process_spare(run.director);
	rc = nam_sim_run();
	if (rc)
		failed("the run: %s", nam_err_name(rc));
	printf("%s %llu: algorithm %u, commit %u, %llu reads, %llu writes, %llu unknown, "
		"%llu refused, %llu restarts, %llu deaths, collected %llu, %llu committed, %llu "
		"aborted, %llu undecided, %llu ms\n",
		nam_sim_profile_name(profile), (unsigned long long)seed, run.options.algorithm,
		run.options.commit, (unsigned long long)run.reads, (unsigned long long)run.writes,
		(unsigned long long)run.unknown, (unsigned long long)run.refused,
		(unsigned long long)run.restarts, (unsigned long long)nam_sim_counted().kills,
		(unsigned long long)run.collected, (unsigned long long)run.completed,
		(unsigned long long)run.aborted, (unsigned long long)run.undecided,
		(unsigned long long)nam_sim_now_ns() / 1000000);
	nam_sim_end();
	check();
	sim_txns_free(&run.txns);
	free(run.written.each);
	free(run.found.each);
	run.written = run.found = (struct deletions){ 0 };
	return run.failed ? run.why : NULL;
}

int
main(int argc, char **argv)
{
	static const struct random_runs runs = { "sim_ramp_test", NAM_SIM_COMMIT, FIXED_SEEDS,
		RANDOM_SEEDS, perform };

	return random_runs_main(&runs, argc, argv);
}
