/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial_test.c -- random serializable transactions on a few records, by clients some of which die.
 * One order explains them all, and afterwards all blocks are accounted for.
 *
 * Scans take the first byte of a value, or of its second word, as a number from a range.
 *
 * A session is a fiber.  Each write has a value of its own, also one that deletes.  Sequences order
 * the versions of a record.
 */
#include <errno.h>

#include "common/error.h"
#include "compute/worker/worker.h"
#include "txn/serial/serial.h"
#include "txn/sweep.h"
#include "commit.h"
#include "random_clients.h"
#include "random_runs.h"
#include "serial_ballast.h"
#include "serial_phases.h"
#include "serializable.h"

#define STORE "serial"
#define CLIENTS_MAX 4u
#define FIBERS_MAX 5u
#define KEYS_MAX 8u
#define WORDS_MAX 30u
#define ROUNDS 24u
#define ROUNDS_LONG 80u			/* beside a failover */
#define MEMORY_BYTES (8u << 20)
#define TICK_NS RANDOM_TICK_NS
#define FIXED_SEEDS 24u
#define RANDOM_SEEDS 4u

struct player {
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_txn_store *store;
	uint32_t number;
	bool idle;			/* its sessions have ended; it stays until run.leave */
	struct session {
		struct player *player;
		uint32_t number;
	} sessions[FIBERS_MAX];
};

/* A read of a record that had no value, by its sequence; or a write that takes it away. */
struct deletion {
	uint32_t txn, key;
	uint64_t sequence, value;
};

#define DELETIONS_MAX 20000u
#define ABSENCES_MAX 60000u
#define INDEXES 2u

static struct run {
	struct sim_cluster cluster;
	struct player players[CLIENTS_MAX + 1];
	uint32_t servers, clients, fibers, keys;
	uint64_t cache_bytes;
	uint32_t phases;		/* of the store: enum nam_txn_phase */
	bool mixes;			/* clients choose others */
	bool sweeps, ballast, slow;
	bool fails_over;
	struct random_failover failover;
	struct sim_txns txns;
	struct deletion found[DELETIONS_MAX], written[DELETIONS_MAX];
	uint32_t found_count, written_count;
	struct sim_absence absences[ABSENCES_MAX];
	uint32_t absences_count;
	uint64_t values;
	uint64_t scans, rows;
	uint64_t commits, conflicts, unknown, refused;
	bool leave;
} run;

/* ---- one transaction ------------------------------------------------------------------------- */

static void
deletion_add(struct deletion *list, uint32_t *count, struct deletion one)
{
	if (*count == DELETIONS_MAX)
		sim_die("too many deletions");
	list[(*count)++] = one;
}

static uint32_t
words_of(uint32_t key, uint64_t value)
{
	return 1 + (key * 7 + (uint32_t)value) % WORDS_MAX;
}

static uint32_t
key_name(uint32_t key, char ret_name[24])
{
	return (uint32_t)snprintf(ret_name, 24, "key%u%.*s", key, (int)(key % 4), "long");
}

static void
read_enter(uint32_t txn, uint32_t key, const struct nam_txn_get *get)
{
	const uint64_t *words = get->value;

	if (get->rc == -NAM_E_NOTFOUND && get->sequence)
		deletion_add(run.found, &run.found_count,
			(struct deletion){ txn, key, get->sequence, 0 });
	else
		sim_txns_read(&run.txns, txn, key, get->rc ? 0 : words[0]);
	if (get->rc == -NAM_E_NOTFOUND)
		return;
	if (get->rc || get->value_bytes != 8 * words_of(key, words[0]))
		random_failed("key %u: %s, %u bytes of %llu", key, nam_err_name(get->rc),
			get->value_bytes, (unsigned long long)words[0]);
	for (uint32_t i = 1; i < get->value_bytes / 8; i++)
		if (words[i] != words[0])
			random_failed("key %u: a torn value: word %u is %llu, the first %llu", key,
				i, (unsigned long long)words[i], (unsigned long long)words[0]);
}

/* Read some of the picked records together; what was seen counts if the transaction commits. */
static int
some_read(struct nam_txn *txn, const uint32_t *picked, uint32_t count, struct nam_txn_get *gets,
	uint64_t words[][WORDS_MAX], char names[][24])
{
	for (uint32_t i = 0; i < count; i++)
		gets[i] = (struct nam_txn_get){ .update = nam_sim_random() % 2, .key = names[i],
			.key_bytes = key_name(picked[i], names[i]), .value = words[i],
			.size = sizeof(words[i]) };
	return nam_txn_read_all(txn, gets, count);
}

/* A write, an insert or a deletion of a record.  @ret_value	0: it changed nothing */
static int
one_write(struct nam_txn *txn, uint32_t key, uint64_t *ret_value, bool *ret_deletes)
{
	uint64_t words[WORDS_MAX], value = ++run.values, how = nam_sim_random() % 8;
	uint32_t count = words_of(key, value), bytes;
	char name[24];
	int rc;

	bytes = key_name(key, name);
	for (uint32_t i = 0; i < count; i++)
		words[i] = value;
	*ret_deletes = how == 0;
	if (how == 0)
		rc = nam_txn_delete(txn, name, bytes);
	else if (how == 1)
		rc = nam_txn_insert(txn, name, bytes, words, 8 * count);
	else
		rc = nam_txn_write(txn, name, bytes, words, 8 * count);
	*ret_value = rc ? 0 : value;
	return rc == -NAM_E_EXISTS || rc == -NAM_E_NOTFOUND ? 0 : rc;
}

static enum sim_txn_outcome
outcome_of(const struct player *player, const char *what, int rc)
{
	if (!rc) {
		run.commits++;
		return SIM_TXN_COMMITTED;
	}
	if (rc == -NAM_E_CONFLICT || rc == -NAM_E_REMOTE_FULL || sim_ballast_locked(rc, run.slow)) {
		run.conflicts += rc == -NAM_E_CONFLICT;
		run.refused += rc == -NAM_E_REMOTE_FULL;
		return SIM_TXN_ABORTED;
	}
	run.unknown++;
	if (!random_explained(rc))
		random_failed("%s: %s, %s", what, nam_err_name(rc),
			nam_worker_diag(player->worker));
	return SIM_TXN_UNKNOWN;
}

struct writes {
	uint64_t values[KEYS_MAX];
	bool deletes[KEYS_MAX];
};

static int
writes_make(struct nam_txn *txn, const uint32_t *picked, uint32_t from, uint32_t count,
	struct writes *ret)
{
	int rc = 0;

	for (uint32_t i = from; i < count && !rc; i++)
		rc = one_write(txn, picked[i], &ret->values[i], &ret->deletes[i]);
	return rc;
}

static void
writes_enter(uint32_t txn, const uint32_t *picked, uint32_t count, const struct writes *writes)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!writes->values[i])
			continue;
		sim_txns_write(&run.txns, txn, picked[i], writes->values[i]);
		if (writes->deletes[i])
			deletion_add(run.written, &run.written_count,
				(struct deletion){ txn, picked[i], 0, writes->values[i] });
	}
}

/* ---- scans ----------------------------------------------------------------------------------- */

static bool
was_deleted(uint64_t value)
{
	for (uint32_t i = 0; i < run.written_count; i++)
		if (run.written[i].value == value)
			return true;
	return false;
}

/* The index key of a value is its bytes, the lowest first. */
static bool
matches(const struct sim_absence *absence, uint64_t value)
{
	return value && (value & 0xff) >= absence->low && (value & 0xff) < absence->high &&
	       words_of((uint32_t)absence->key, value) > absence->index && !was_deleted(value);
}

static void
absence_add(const struct sim_absence *range, uint32_t key)
{
	if (run.absences_count == ABSENCES_MAX)
		sim_die("too many absences");
	run.absences[run.absences_count] = *range;
	run.absences[run.absences_count++].key = key;
}

/* Returns its key; or KEYS_MAX: ballast. */
static uint32_t
row_enter(const struct sim_absence *range, const struct nam_txn_row *row, const uint64_t *own)
{
	uint64_t words[WORDS_MAX];
	const struct nam_txn_get get = { .value = words, .value_bytes = row->value_bytes };
	struct sim_absence as = *range;
	uint32_t key = ((const char *)row->key)[3] - '0';

	if (*(const char *)row->key != 'k')
		return KEYS_MAX;
	memcpy(words, row->value, row->value_bytes);
	as.key = key;
	if (!matches(&as, words[0]))
		random_failed("a scan of index %u from %u to %u returned %llx of key %u",
			range->index, range->low, range->high, (unsigned long long)words[0], key);
	if (!own || !own[key])
		read_enter(range->txn, key, &get);
	else if (own[key] != words[0])
		random_failed("a scan missed a write of the transaction");
	run.rows++;
	return key;
}

/* @own	by key, values that the transaction has written; or NULL */
static int
range_scan(struct nam_txn *txn, const struct sim_absence *range, const uint64_t *own,
	uint32_t *ret_count)
{
	uint8_t low[8] = { (uint8_t)range->low }, high[8] = { (uint8_t)range->high };
	const struct nam_range of = { .low = low, .high = range->high > 0xff ? NULL : high };
	static __thread struct nam_txn_row rows[NAM_TXN_RECORDS_MAX];
	bool seen[KEYS_MAX + 1] = { false };
	int rc = nam_txn_scan(txn, range->index, &of, rows, NAM_TXN_RECORDS_MAX, ret_count);

	if (rc)
		return rc;
	run.scans++;
	for (uint32_t i = 0; i < *ret_count; i++)
		seen[row_enter(range, &rows[i], own)] = true;
	for (uint32_t key = 0; key < run.keys; key++)
		if (!seen[key] && (!own || !own[key]))
			absence_add(range, key);
	return 0;
}

static int
random_scan(struct nam_txn *txn, uint32_t number, const uint64_t *own)
{
	struct sim_absence range = { .txn = number,
		.index = (uint32_t)(nam_sim_random() % INDEXES),
		.low = (uint32_t)(nam_sim_random() % 256) };
	uint32_t count;

	range.high = range.low + 1 + (uint32_t)(nam_sim_random() % 100);
	return range_scan(txn, &range, own, &count);
}

static void
ballast_main(void *arg)
{
	struct player *player = arg;

	run.unknown += sim_ballast_run(player->worker, player->store, player->store->indexes[0]);
}

/* The first `reads` of the picked records are read, and those from `writes` on are written. */
static int
transact(struct session *self, const uint32_t *picked, uint32_t count, uint32_t reads,
	uint32_t writes)
{
	struct player *player = self->player;
	struct nam_txn_get gets[KEYS_MAX];
	uint64_t words[KEYS_MAX][WORDS_MAX], sequence = 0;
	char names[KEYS_MAX][24];
	struct writes made = { .values = { 0 } };
	uint64_t own[KEYS_MAX] = { 0 };
	const uint64_t scans = nam_sim_random() % 4;
	struct nam_txn *txn;
	bool committing = false;
	uint32_t number;
	int rc = nam_txn_begin(player->worker, player->store, &txn);

	if (rc)
		return (void)outcome_of(player, "a begin", rc), rc;
	number = sim_txns_begin(&run.txns, self->number, random_now());
	if (scans == 0)
		rc = random_scan(txn, number, NULL);
	if (!rc && reads)
		rc = some_read(txn, picked, reads, gets, words, names);
	if (!rc && scans == 1)
		rc = random_scan(txn, number, NULL);
	if (!rc)
		rc = writes_make(txn, picked, writes, count, &made);
	for (uint32_t i = writes; i < count; i++)
		own[picked[i]] = made.values[i];
	for (uint32_t i = 0; i < reads && !rc; i++)
		read_enter(number, picked[i], &gets[i]);
	if (rc) {
		nam_txn_abort(txn);
	} else {
		writes_enter(number, picked, count, &made);
		if (scans == 2)
			rc = random_scan(txn, number, own);
		committing = !rc;
		if (committing)
			rc = nam_txn_commit(txn, &sequence);
		else
			nam_txn_abort(txn);
	}
	if (nam_sim_zombie()) {
		sim_txns_end(&run.txns, number, SIM_TXN_UNKNOWN, sequence, 0);
		return rc;
	}
	nam_sim_note("%u: %u read, %u written: %s, %llu", self->number, reads, count - writes,
		nam_err_name(rc), (unsigned long long)sequence);
	sim_txns_end(&run.txns, number, committing || rc == -NAM_E_CONFLICT ?
		outcome_of(player, "a transaction", rc) :
		(outcome_of(player, "a read", rc), SIM_TXN_ABORTED), sequence, random_now());
	return rc;
}

/* ---- clients --------------------------------------------------------------------------------- */

static uint32_t
pick(uint32_t picked[KEYS_MAX])
{
	uint32_t count = 1 + (uint32_t)(nam_sim_random() % run.keys);

	for (uint32_t i = 0; i < run.keys; i++)
		picked[i] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + (uint32_t)(nam_sim_random() % (run.keys - i)), was = picked[i];

		picked[i] = picked[other];
		picked[other] = was;
	}
	return count > 4 ? 4 : count;
}

static void
sweep(struct player *player)
{
	struct nam_sweep_stat stat;
	int rc = nam_sweep(player->worker, false, &stat);

	/* A sweep that a failover meets ends, and its caller sweeps again. */
	for (uint32_t i = 0; run.fails_over && i < 100 && rc == -NAM_E_FABRIC_PEER_DEAD; i++) {
		nam_sleep_ns(TICK_NS);
		rc = nam_sweep(player->worker, false, &stat);
	}
	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT &&
		!sim_ballast_locked(rc, run.slow) && !random_explained(rc))
		random_failed("sweep: %s, %s", nam_err_name(rc), nam_worker_diag(player->worker));
}

static void
session_main(void *arg)
{
	struct session *self = arg;
	uint32_t picked[KEYS_MAX];

	for (uint32_t i = 0; i < (run.fails_over ? ROUNDS_LONG : ROUNDS) && !random_failure() &&
			!nam_sim_zombie(); i++) {
		uint32_t count = pick(picked), writes = (uint32_t)(nam_sim_random() % (count + 1));
		uint32_t reads = nam_sim_random() % 4 ? count : writes;

		if (run.sweeps && nam_sim_random() % 32 == 0)
			sweep(self->player);
		if (transact(self, picked, count, nam_sim_random() % 8 ? reads : 0,
			    nam_sim_random() % 3 ? writes : count))
			nam__pause_await(self->player->worker, nam_sim_random() % RANDOM_POLL_NS);
		if (run.fails_over)
			nam__pause_await(self->player->worker, nam_sim_random() % (TICK_NS / 8));
	}
}

/* Words are changed by NICs alone, or by CPUs alone, where these are not atomic together. */
static bool
phases_choose(struct player *player)
{
	const uint32_t words = NAM_TXN_LOCK_RPC | NAM_TXN_COMMIT_RPC;
	uint32_t phases = serial_phases_early((uint32_t)nam_sim_random() &
		(NAM_TXN_RPC | NAM_TXN_PASSIVE | NAM_TXN_LOCK_EARLY));
	bool atomic = player->client->caps & NAM_CAP_ATOMIC_VS_CPU;
	int rc;

	if (!run.mixes)
		return true;
	rc = nam_txn_store_phases_set(player->worker, player->store, phases);
	if (!rc != (atomic || (phases & words) == (run.phases & words)))
		random_failed("phases %#x of a store of %#x: %s", phases, run.phases,
			nam_err_name(rc));
	return true;
}

static bool
come(struct player *player, uint64_t cache_bytes)
{
	int rc;

	player->worker = sim_come(&run.cluster, "player", &player->client);
	if (!player->worker)
		return false;
	rc = nam_txn_store_open(player->worker, STORE, cache_bytes, &player->store);
	if (rc && !nam_sim_zombie() && !random_explained(rc))
		random_failed("open: %s", nam_worker_diag(player->worker));
	return !rc && phases_choose(player);
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

	if (come(player, run.cache_bytes)) {
		for (uint32_t i = 0; i < run.fibers; i++) {
			player->sessions[i].player = player;
			player->sessions[i].number = 1 + player->number * FIBERS_MAX + i;
			if (nam_worker_spawn(player->worker, session_main, &player->sessions[i]))
				sim_die("no fiber");
		}
		if (run.ballast && nam_worker_spawn(player->worker, ballast_main, player))
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
visit(void (*fn)(struct player *guest))
{
	struct player *guest = &run.players[CLIENTS_MAX];

	memset(guest, 0, sizeof(*guest));
	guest->worker = sim_come(&run.cluster, "guest", &guest->client);
	if (!guest->worker)
		sim_die("the guest cannot come");
	guest->sessions[0].player = guest;
	fn(guest);
	leave(guest);
}

static void
make(struct player *guest)
{
	const struct nam_txn_store_options options = { .key_bytes_max = 16,
		.value_bytes_max = 8 * WORDS_MAX, .records = run.keys % 2 ? 1 : 64,
		.phases = run.phases,
		.indexes = { { 0, 8, 0 }, { 8, 8, 0 } } };
	int rc = nam_txn_store_create(guest->worker, STORE, &options);

	if (rc)
		sim_die("create: %s", nam_worker_diag(guest->worker));
}

/* All together, after whatever dead clients have left is decided. */
static void
look(struct player *guest)
{
	uint32_t keys[KEYS_MAX];
	int rc = nam_txn_store_open(guest->worker, STORE, 0, &guest->store);

	for (uint32_t i = 0; i < run.keys; i++)
		keys[i] = i;
	if (rc)
		sim_die("open: %s", nam_worker_diag(guest->worker));
	for (unsigned tries = 0; tries < 100; tries++) {
		rc = transact(&guest->sessions[0], keys, run.keys, run.keys, run.keys);
		if (rc != -NAM_E_CONFLICT)
			break;
		nam_sleep_ns(TICK_NS);
	}
	if (rc)
		random_failed("in the end: %s, %s", nam_err_name(rc),
			nam_worker_diag(guest->worker));
}

/* Both indexes have all records, and nothing else once scans have removed stray entries. */
static void
scan_all(struct player *guest)
{
	int rc = nam_txn_store_open(guest->worker, STORE, 0, &guest->store);

	for (uint32_t index = 0, tries = 0; index < INDEXES && !rc && tries < 400; tries++) {
		struct sim_absence all = { .index = index, .high = 256 };
		struct nam_index_stat stat = { .entries = 0 };
		uint32_t count = 0;
		struct nam_txn *txn;

		all.txn = sim_txns_begin(&run.txns, guest->sessions[0].number, random_now());
		rc = nam_txn_begin(guest->worker, guest->store, &txn);
		if (!rc && (rc = range_scan(txn, &all, NULL, &count)))
			nam_txn_abort(txn);
		else if (!rc)
			rc = nam_txn_commit(txn, NULL);
		sim_txns_end(&run.txns, all.txn, rc ? SIM_TXN_ABORTED : SIM_TXN_COMMITTED, 0,
			random_now());
		if (!rc)
			rc = nam_index_stat(guest->worker, guest->store->indexes[index], &stat);
		index += !rc && stat.entries == count;
		if (rc == -NAM_E_CONFLICT)
			nam_sleep_ns(TICK_NS);
		rc = rc == -NAM_E_CONFLICT ? 0 : rc;
		if (tries == 399)
			random_failed("index %u has %llu entries of %u records", index,
				(unsigned long long)stat.entries, count);
	}
	if (rc)
		random_failed("scans in the end: %s, %s", nam_err_name(rc),
			nam_worker_diag(guest->worker));
}

/* Each record can be written. */
static void
write_again(struct player *guest)
{
	int rc = nam_txn_store_open(guest->worker, STORE, 1 << 16, &guest->store);

	/* The first try may find at a backup what a dead client has left there. */
	for (uint32_t i = 0, tries = 0; i < run.keys && !rc; i++) {
		while ((rc = transact(&guest->sessions[0], &i, 1, 0, 0)) == -NAM_E_CONFLICT &&
			tries++ < 100)
			nam_sleep_ns(TICK_NS);
	}
	if (rc)
		random_failed("a write in the end: %s, %s", nam_err_name(rc),
			nam_worker_diag(guest->worker));
}

static void
drop(struct player *guest)
{
	int rc = nam_txn_store_drop(guest->worker, STORE);

	if (rc)
		random_failed("drop: %s", nam_worker_diag(guest->worker));
}

static void
sweep_all(struct player *guest)
{
	nam_sleep_ns(RANDOM_SETTLE_NS);
	sweep(guest);
}

static void
players_await(bool idle)
{
	for (uint32_t i = 0; i < run.clients; i++)
		while (!nam_sim_process_ended(run.players[i].process) &&
			!(idle && run.players[i].idle))
			nam_sleep_ns(RANDOM_POLL_NS);
}

/*
 * A lock of a client that lives ends with its transaction, also if that failed.  It may stay after
 * the failure of a request, or if a backup ends (txn/README.md).
 */
static void
look_beside_players(void)
{
	const struct random_failover *failover = &run.failover;

	if (run.unknown || nam_sim_counted().broken ||
		(failover->backup_dies && !failover->backup_stays))
		return;
	visit(look);
	visit(write_again);
}

static void
director_main(void *arg)
{
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_sim_counts counts;
	uint64_t before, after;

	(void)arg;
	sim_cluster_await(&run.cluster);
	worker = sim_come(&run.cluster, "director", &client);
	if (!worker)
		sim_die("the director cannot come");
	before = sim_cluster_used(&run.cluster, worker);
	visit(make);
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
	look_beside_players();
	run.leave = true;
	players_await(false);
	visit(look);
	visit(write_again);
	visit(scan_all);
	counts = nam_sim_counted();
	if (counts.kills || counts.broken)
		visit(sweep_all);
	visit(look);
	visit(drop);
	if (counts.kills || counts.broken || run.sweeps)
		visit(sweep_all);
	after = sim_cluster_used(&run.cluster, worker);
	if (after != before && !random_failure() && !run.failover.backed)
		random_failed("%llu bytes are used, %llu before", (unsigned long long)after,
			(unsigned long long)before);
	sim_leave(&client, &worker);
	sim_cluster_stop(&run.cluster);
}

/* ---- one run --------------------------------------------------------------------------------- */

static void
plan(enum nam_sim_profile profile, uint64_t seed, struct nam_sim_options *options)
{
	static const uint64_t caches[] = { 4096, 1 << 16, 0 };
	struct nam_rng rng = nam_rng_seed(seed);
	struct nam_sim_faults *faults = &options->faults;

	nam_sim_options_init(options);
	options->seed = seed;
	options->profile = profile;
	options->step_bytes = nam_rng_below(&rng, 2) ? 8 : 64;
	options->slowness = 1u << random_between(&rng, 0, 7);
	run.slow = options->slowness > 1;
	faults->late = (uint32_t)nam_rng_below(&rng, 100000);
	faults->late_ns = 100000ull * options->slowness;
	faults->race = (uint32_t)nam_rng_below(&rng, 300000);
	faults->read_twice = (uint32_t)nam_rng_below(&rng, 100000);
	if (nam_rng_below(&rng, 2))
		faults->kill = random_between(&rng, 50, 500);
	if (!nam_rng_below(&rng, 4))
		faults->break_qp = random_between(&rng, 20, 100);
	faults->full = nam_rng_below(&rng, 4) ? 0 : 100000;
	faults->zombie = nam_rng_below(&rng, 2) ? 0 : 300000;
	run.servers = random_between(&rng, 1, 3);
	run.clients = random_between(&rng, 2, CLIENTS_MAX);
	run.fibers = random_between(&rng, 2, FIBERS_MAX);
	run.keys = random_between(&rng, 2, KEYS_MAX);
	run.failover = (struct random_failover){ .cluster = &run.cluster, .servers = run.servers,
		.death_ns = 2 * TICK_NS };
	run.cache_bytes = caches[nam_rng_below(&rng, 3)];
	run.sweeps = nam_rng_below(&rng, 4) == 0;
	run.ballast = nam_rng_below(&rng, 2);
	run.fails_over = run.servers > 1 && nam_rng_below(&rng, 2);
	run.failover.backup_dies = nam_rng_below(&rng, 3) == 0;
	run.failover.backup_stays = nam_rng_below(&rng, 3) == 0;
	run.phases = serial_phases_draw(&rng,
		nam_sim_profile_caps(profile) & NAM_CAP_ATOMIC_VS_CPU);
	run.mixes = nam_rng_below(&rng, 2);
	if (!nam_rng_below(&rng, 4))
		run.phases |= nam_rng_below(&rng, 2) ? NAM_TXN_ONE_AT_A_TIME :
			NAM_TXN_ONE_DOORBELL_EACH;
	/*
	 * A member with a backup has no copy of what its CPU changes.  A client that is cut off
	 * delays a failover until a steward fences it.
	 */
	if (run.fails_over) {
		run.phases = run.mixes = 0;
		faults->break_qp = 0;
	}
	run.phases |= nam_rng_below(&rng, 2) ? NAM_TXN_PASSIVE : 0;
	run.phases |= nam_rng_below(&rng, 2) ? NAM_TXN_LOCK_EARLY : 0;
	run.phases = serial_phases_early(run.phases);
}

/*
 * The write of a record by the transaction of that sequence.  If a client died before its log was
 * whole, another transaction may have the sequence.
 */
static const struct sim_access *
write_of(uint32_t key, uint64_t sequence)
{
	const struct sim_access *unknown = NULL;

	for (size_t i = 0; i < run.txns.accesses_count; i++) {
		const struct sim_access *access = &run.txns.accesses[i];

		if (access->write && access->key == key &&
			run.txns.txns[access->txn].timestamp == sequence) {
			if (run.txns.txns[access->txn].outcome == SIM_TXN_COMMITTED)
				return access;
			if (run.txns.txns[access->txn].outcome == SIM_TXN_UNKNOWN)
				unknown = access;
		}
	}
	return unknown;
}

static void
check(void)
{
	const struct sim_absences absences = { run.absences, run.absences_count, matches };
	size_t circle;

	for (uint32_t i = 0; i < run.found_count; i++) {
		const struct deletion *found = &run.found[i];
		const struct sim_access *write = write_of(found->key, found->sequence);

		if (!write)
			random_failed("key %u was deleted at %llu, by no client", found->key,
				(unsigned long long)found->sequence);
		else
			sim_txns_read(&run.txns, found->txn, found->key, write->value);
	}
	if ((circle = sim_check_serializable(&run.txns, &absences)))
		random_failed("not serializable: a circle of %zu transactions", circle);
}

static const char *
perform(enum nam_sim_profile profile, uint64_t seed, FILE *trace)
{
	struct nam_sim_options options;
	struct nam_sim_counts counts;

	memset(&run, 0, sizeof(run));
	plan(profile, seed, &options);
	options.trace = trace;
	sim_txns_init(&run.txns);
	sim_cluster_begin(&options, &run.cluster, run.servers, 1 + seed % 2, MEMORY_BYTES);
	random_runs_points(seed);
	random_run(director_main);
	counts = nam_sim_counted();
	printf("%s %llu: %llu commits, %llu scans, %llu rows, %llu conflicts, %llu unknown, "
		"%llu refused, %llu deaths, %llu ms\n", nam_sim_profile_name(profile),
		(unsigned long long)seed,
		(unsigned long long)run.commits, (unsigned long long)run.scans,
		(unsigned long long)run.rows, (unsigned long long)run.conflicts,
		(unsigned long long)run.unknown, (unsigned long long)run.refused,
		(unsigned long long)counts.kills, (unsigned long long)nam_sim_now_ns() / 1000000);
	nam_sim_end();
	check();
	sim_txns_free(&run.txns);
	return random_failure();
}

int
main(int argc, char **argv)
{
	static const struct random_runs runs = { "sim_serial_test", NAM_SIM_COMMIT, FIXED_SEEDS,
		RANDOM_SEEDS, perform };

	return random_runs_main(&runs, argc, argv);
}
