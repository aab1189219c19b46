/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_serial.c -- scenes about serializable transactions: the anomalies that weaker isolation
 * allows, torn records, and coordinators that die or are slow.
 *
 * A value is one number, again and again.  X and Y are 1 at first, on different memory servers.
 */
#include <stdio.h>
#include <string.h>

#include "common/rpc/rpc.h"
#include "txn/serial/serial.h"
#include "litmus_txn.h"

#define STORE "litmus-serial"
#define WORDS 60u
#define HALF 40u			/* a READ stops before this one of its 66 steps */
#define LATE_NS 300000u
#define LONG_NS 40000000u		/* so long that the owner of a lock is asked for */

enum record { X, Y };
#define RECORDS 2u

/* ---- operations ------------------------------------------------------------------------------ */

static const char *const keys[RECORDS] = { "x", "y" };

/* *ret_number is untouched on failure. */
static int
get(struct nam_txn *txn, enum record record, uint64_t *ret_number)
{
	uint64_t words[WORDS] = { 0 };
	uint32_t bytes = 0;
	int rc = nam_txn_read(txn, keys[record], 1, words, sizeof(words), &bytes);

	for (unsigned i = 1; i < WORDS && !rc; i++)
		if (words[i] != words[0] || bytes != sizeof(words))
			litmus_fail("a value that no transaction wrote: word %u is %llu, the first "
				"%llu", i, (unsigned long long)words[i],
				(unsigned long long)words[0]);
	if (!rc)
		*ret_number = words[0];
	return rc;
}

static void
put(struct nam_txn *txn, enum record record, uint64_t number)
{
	uint64_t words[WORDS];

	for (unsigned i = 0; i < WORDS; i++)
		words[i] = number;
	if (nam_txn_write(txn, keys[record], 1, words, sizeof(words)))
		litmus_fail("a write fails");
}

/* By a transaction of its own. */
static int
get_alone(struct actor *self, struct nam_txn_store *store, enum record record,
	uint64_t *ret_number)
{
	struct nam_txn *txn = begin(self, store);
	int rc = get(txn, record, ret_number);

	if (!rc)
		return nam_txn_commit(txn, NULL);
	nam_txn_abort(txn);
	return rc;
}

static int
put_both(struct actor *self, struct nam_txn_store *store, uint64_t number)
{
	struct nam_txn *txn = begin(self, store);

	put(txn, Y, number);
	put(txn, X, number);
	return nam_txn_commit(txn, NULL);
}

/* The value in the end, whatever a dead client has left. */
static void
expect_value(struct actor *self, struct nam_txn_store *store, enum record record,
	uint64_t expected)
{
	uint64_t number = 0, end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;
	int rc;

	do {
		rc = get_alone(self, store, record, &number);
		if (rc == -NAM_E_CONFLICT)
			nam_sleep_ns(LITMUS_POLL_NS);
	} while (rc == -NAM_E_CONFLICT && nam_now_ns() < end_ns);
	expect_rc("a read in the end", rc, 0);
	if (number != expected)
		litmus_fail("%s is %llu, not %llu", keys[record], (unsigned long long)number,
			(unsigned long long)expected);
}

/* The first actor makes the store; others come when it is there. */
static struct nam_txn_store *
make_for(struct actor *self, uint32_t phases)
{
	const struct nam_txn_store_options options = { .key_bytes_max = 8,
		.value_bytes_max = 8 * WORDS, .records = 64, .phases = phases };
	struct nam_txn_store *store;

	if (nam_txn_store_create(self->worker, STORE, &options))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	store = litmus_txn_open(self, STORE);
	expect_rc("the first values", put_both(self, store, 1), 0);
	litmus.flags[SEEN] = true;
	return store;
}

static struct nam_txn_store *
make(struct actor *self)
{
	return make_for(self, 0);
}

static struct nam_txn_store *
arrive(struct actor *self)
{
	litmus_await(SEEN);
	return litmus_txn_open(self, STORE);
}

/* ---- write skew ------------------------------------------------------------------------------ */

/* Reads both, and writes one; the other actor writes the other one. */
static int
skew(struct actor *self, struct nam_txn_store *store, enum record record, enum flag mine,
	enum flag others)
{
	struct nam_txn *txn = begin(self, store);
	uint64_t number;

	expect_rc("a read", get(txn, X, &number), 0);
	expect_rc("a read", get(txn, Y, &number), 0);
	litmus.flags[mine] = true;
	litmus_await(others);
	put(txn, record, 2);
	return nam_txn_commit(txn, NULL);
}

static int skew_rc;

static void
write_first(struct actor *self, struct nam_txn_store *store)
{
	skew_rc = skew(self, store, X, ONE, TWO);
	litmus.flags[THREE] = true;
	nam_txn_store_close(store);
}

/* One of the two is in the way of the other. */
static void
write_second(struct actor *self, enum record record)
{
	struct nam_txn_store *store = arrive(self);
	int rc = skew(self, store, record, TWO, ONE);

	litmus_await(THREE);
	if (!rc && !skew_rc)
		litmus_fail("both transactions committed, on reads of what the other one wrote");
	if ((rc && rc != -NAM_E_CONFLICT) || (skew_rc && skew_rc != -NAM_E_CONFLICT))
		litmus_fail("%s and %s", nam_err_name(skew_rc), nam_err_name(rc));
	nam_txn_store_close(store);
}

static void
skew_first(struct actor *self)
{
	write_first(self, make(self));
}

static void
skew_second(struct actor *self)
{
	write_second(self, Y);
}

/* ---- two handlers of a memory server --------------------------------------------------------- */

static void
lock_first(struct actor *self)
{
	write_first(self, make_for(self, NAM_TXN_FARM));
}

static void
lock_second(struct actor *self)
{
	write_second(self, X);
}

/* Both handlers have seen the word before one of them changes it. */
static void
meet_in_cas(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE] || !litmus.flags[TWO])
		return;
	if (litmus.flags[FIVE]) {
		litmus.flags[FOUR] = true;
		return;
	}
	litmus.flags[FIVE] = true;
	litmus_await_for(FOUR, LITMUS_SHORT_NS);
}

/* ---- lost update ----------------------------------------------------------------------------- */

static void
update_late(struct actor *self)
{
	struct nam_txn_store *store = make(self);
	struct nam_txn *txn = begin(self, store);
	uint64_t number = 0;

	expect_rc("a read", get(txn, X, &number), 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	put(txn, X, number + 1);
	expect_rc("a commit on an old value", nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	expect_value(self, store, X, 5);
	nam_txn_store_close(store);
}

static void
update_meanwhile(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus_await(ONE);
	expect_rc("a commit", put_both(self, store, 5), 0);
	litmus.flags[TWO] = true;
	nam_txn_store_close(store);
}

/* ---- read skew ------------------------------------------------------------------------------- */

static void
read_apart(struct actor *self)
{
	struct nam_txn_store *store = make(self);
	struct nam_txn *txn = begin(self, store);
	uint64_t x = 0, y = 0;
	int rc;

	expect_rc("a read", get(txn, X, &x), 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	expect_rc("a read", get(txn, Y, &y), 0);
	rc = nam_txn_commit(txn, NULL);
	if (!rc && x != y)
		litmus_fail("a transaction read %llu and %llu", (unsigned long long)x,
			(unsigned long long)y);
	expect_rc("a commit of reads apart", rc, -NAM_E_CONFLICT);
	nam_txn_store_close(store);
}

/* ---- dirty read ------------------------------------------------------------------------------ */

/* The WRITE of Y, which is the first one, is late. */
static void
write_apart(struct actor *self)
{
	(void)self;
	if (litmus.flags[FOUR])
		nam_sim_delay_next(NAM_WR_WRITE, 0, LATE_NS);
}

static void
write_slowly(struct actor *self)
{
	struct nam_txn_store *store = make(self);

	litmus_await(ONE);
	litmus.flags[FOUR] = true;
	expect_rc("a commit", put_both(self, store, 2), 0);
	litmus.flags[TWO] = true;
	nam_txn_store_close(store);
}

/* Whether the first transaction that reads X sees the writer. */
static bool
await_two(struct actor *self, struct nam_txn_store *store)
{
	uint64_t number = 1;

	while (number != 2 && !litmus.failed && !nam_sim_zombie()) {
		int rc = get_alone(self, store, X, &number);

		if (rc && rc != -NAM_E_CONFLICT)
			litmus_fail("a read: %s", nam_err_name(rc));
	}
	return number == 2;
}

static void
read_one_by_one(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	uint64_t number = 0;

	litmus.flags[ONE] = true;
	if (await_two(self, store) && !get_alone(self, store, Y, &number) && number != 2)
		litmus_fail("after X was 2, Y is %llu", (unsigned long long)number);
	expect_value(self, store, Y, 2);
	nam_txn_store_close(store);
}

/* ---- a torn record --------------------------------------------------------------------------- */

static void
write_under_eyes(struct actor *self)
{
	struct nam_txn_store *store = make(self);

	litmus_await(ONE);
	expect_rc("a commit", put_both(self, store, 2), 0);
	nam_txn_store_close(store);
}

static void
read_halfway(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	uint64_t number;

	expect_rc("a read", get_alone(self, store, X, &number), 0);
	for (unsigned i = 0; i < 10 && !litmus.failed; i++) {
		int rc;

		nam_sim_delay_next(NAM_WR_READ, HALF, LATE_NS / 2);
		litmus.flags[ONE] = true;
		rc = get_alone(self, store, X, &number);
		if (rc && rc != -NAM_E_CONFLICT)
			litmus_fail("a read: %s", nam_err_name(rc));
	}
	expect_value(self, store, X, 2);
	nam_txn_store_close(store);
}

/* ---- coordinators ---------------------------------------------------------------------------- */

/* X is written and released; Y is not, and the coordinator is killed. */
static void
kill_halfway(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus.flags[ONE] = true;
	if (await_two(self, store)) {
		nam_sim_process_kill(litmus.actors[A].process);
		expect_value(self, store, Y, 2);
		expect_value(self, store, X, 2);
		expect_rc("a commit afterwards", put_both(self, store, 3), 0);
	}
	nam_txn_store_close(store);
}

static void
write_y_late(struct actor *self)
{
	(void)self;
	if (litmus.flags[FOUR])
		nam_sim_delay_next(NAM_WR_WRITE, 0, LITMUS_SHORT_NS);
}

/* With the locks, before the log. */
static void
die_unlogged(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

static void
read_after_death(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus.flags[ONE] = true;
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	expect_value(self, store, X, 1);
	expect_value(self, store, Y, 1);
	expect_rc("a commit afterwards", put_both(self, store, 3), 0);
	nam_txn_store_close(store);
}

static void
stand_still(struct actor *self)
{
	(void)self;
	if (!litmus.flags[FOUR] || litmus.flags[INSERTED])
		return;
	litmus.flags[INSERTED] = true;
	nam_sleep_ns(LONG_NS);
	litmus.flags[THREE] = true;
}

/* Its client lives, so no other client decides. */
static void
meet_slow(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus.flags[ONE] = true;
	litmus_await(INSERTED);
	while (!litmus.flags[TWO] && !litmus.failed) {
		int rc = put_both(self, store, 7);

		if (!rc && !litmus.flags[THREE])
			litmus_fail("a record was written that a living client has locked");
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	nam_txn_store_close(store);
}

/* ---- commits that are not awaited ------------------------------------------------------------ */

static int put_alone(struct actor *self, struct nam_txn_store *store, enum record record,
	uint64_t number);

/* X is committed, and its WRITE is late.  Requests for Y do not wait behind that. */
static struct nam_txn_store *
commit_passively(struct actor *self)
{
	struct nam_txn_store *store = make(self);

	if (nam_txn_store_phases_set(self->worker, store, NAM_TXN_PASSIVE))
		litmus_fail("%s", nam_worker_diag(self->worker));
	expect_value(self, store, Y, 1);
	litmus_await(ONE);
	litmus.flags[FOUR] = true;
	expect_rc("a commit", put_alone(self, store, X, 2), 0);
	litmus.flags[FOUR] = false;
	litmus.flags[TWO] = true;
	return store;
}

static void
commit_two_and_die(struct actor *self)
{
	struct nam_txn_store *store = commit_passively(self);

	litmus_await(THREE);
	expect_rc("another commit", put_alone(self, store, Y, 3), 0);
	litmus_die_here(self);
	nam_txn_store_close(store);
}

static void
read_what_is_late(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	uint64_t number = 2;
	int rc;

	litmus.flags[ONE] = true;
	litmus_await(TWO);
	rc = get_alone(self, store, X, &number);
	if ((rc && rc != -NAM_E_CONFLICT) || number != 2)
		litmus_fail("a read after a commit: %s, %llu", nam_err_name(rc),
			(unsigned long long)number);
	litmus.flags[THREE] = true;
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	expect_value(self, store, X, 2);
	expect_value(self, store, Y, 3);
	nam_txn_store_close(store);
}

static void
flush_dropped(struct actor *self)
{
	struct nam_txn_store *store = commit_passively(self);
	struct nam_txn *txn;

	litmus_await(THREE);
	expect_rc("a flush", nam_txn_flush(self->worker, store), -NAM_E_DROPPED);
	expect_rc("a second flush", nam_txn_flush(self->worker, store), 0);
	nam_txn_store_close(store);

	litmus.flags[ONE] = litmus.flags[THREE] = false;
	store = commit_passively(self);
	litmus_await(THREE);
	nam__left_await(self->worker);
	expect_rc("a begin", nam_txn_begin(self->worker, store, &txn), -NAM_E_DROPPED);
	nam_txn_store_close(store);
}

static void
drop_before_write(struct actor *self)
{
	for (unsigned i = 0; i < 2; i++) {
		struct nam_txn_store *store = arrive(self);

		nam_txn_store_close(store);
		litmus.flags[ONE] = true;
		litmus_await(TWO);
		litmus.flags[TWO] = litmus.flags[SEEN] = false;
		if (nam_txn_store_drop(self->worker, STORE))
			litmus_fail("drop: %s", nam_worker_diag(self->worker));
		litmus.flags[THREE] = true;
	}
}

/* ---- early locks ----------------------------------------------------------------------------- */

static void
read_to_write(struct nam_txn *txn)
{
	struct nam_txn_get gets[RECORDS];

	for (unsigned i = 0; i < RECORDS; i++)
		gets[i] = (struct nam_txn_get){ .key = keys[i], .key_bytes = 1, .update = true };
	expect_rc("reads", nam_txn_read_all(txn, gets, RECORDS), 0);
}

/* Y is locked as it is read, and not written, so it is not in the log. */
static void
lock_two_and_die(struct actor *self)
{
	struct nam_txn_store *store = make_for(self, NAM_TXN_FASST);
	struct nam_txn *txn = begin(self, store);

	litmus_await(ONE);
	read_to_write(txn);
	put(txn, X, 2);
	litmus.flags[FOUR] = true;
	(void)!nam_txn_commit(txn, NULL);
	nam_txn_store_close(store);
}

static void
write_after_death(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus.flags[ONE] = true;
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	expect_value(self, store, Y, 1);
	expect_value(self, store, X, 2);
	expect_rc("a commit afterwards", put_both(self, store, 3), 0);
	nam_txn_store_close(store);
}

/* ---- backups --------------------------------------------------------------------------------- */

#define BACKED 1u			/* the id of the member */

/* The record that is at the member. */
static enum record backed, unbacked;
static uint32_t decided;		/* doorbells of the commit of A */

static void
back_up(struct actor *self)
{
	(void)self;
	litmus_await(SEEN);
	(void)litmus_back(BACKED);
	litmus.flags[ONE] = true;
}

/* Reads both.  *ret_txn has them. */
static void
read_both(struct actor *self, struct nam_txn_store *store, struct nam_txn **ret_txn)
{
	uint64_t number;

	*ret_txn = begin(self, store);
	expect_rc("a read", get(*ret_txn, X, &number), 0);
	expect_rc("a read", get(*ret_txn, Y, &number), 0);
	backed = nam_gaddr_region((*ret_txn)->items[X].at) / NAM_REGIONS_PER_SERVER == BACKED ?
		X : Y;
	unbacked = backed == X ? Y : X;
}

static int
put_alone(struct actor *self, struct nam_txn_store *store, enum record record, uint64_t number)
{
	struct nam_txn *txn = begin(self, store);

	put(txn, record, number);
	return nam_txn_commit(txn, NULL);
}

/* Locks the record, and takes the lock back, since the other one has changed. */
static void
lock_in_vain(struct actor *self)
{
	struct nam_txn_store *store = make(self);
	struct nam_txn *txn;

	litmus_await(ONE);
	litmus.flags[ONE] = false;
	read_both(self, store, &txn);
	decided = 0;
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	put(txn, backed, 2);
	expect_rc("a commit on an old value", nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	litmus.flags[FIVE] = true;
	litmus_await(ONE);
	nam_txn_store_close(store);
}

/* It has read the record before.  Afterwards no lock may stay, though both clients live. */
static void
lock_meanwhile(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	uint64_t number, end_ns;
	struct nam_txn *txn;
	int rc;

	litmus_await(TWO);
	expect_rc("a commit", put_alone(self, store, unbacked, 5), 0);
	txn = begin(self, store);
	expect_rc("a read", get(txn, backed, &number), 0);
	litmus.flags[THREE] = true;
	litmus_await(INSERTED);
	put(txn, backed, 3);
	expect_rc("a commit beside a lock", nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
	end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS / 2;
	while ((rc = put_alone(self, store, backed, 4)) == -NAM_E_CONFLICT &&
		nam_now_ns() < end_ns)
		nam_sleep_ns(LITMUS_POLL_NS);
	expect_rc("a commit afterwards", rc, 0);
	litmus.flags[ONE] = true;
	nam_txn_store_close(store);
}

/* The second time, the backup has taken the lock back, and the member has not. */
static void
hold_second(struct actor *self)
{
	(void)self;
	if (!litmus.flags[THREE] || ++decided != 2)
		return;
	litmus.flags[INSERTED] = true;
	litmus_await(FOUR);
}

/* Memory servers took the locks, and do not take them back: one of them has a backup since. */
static void
lock_before_backup(struct actor *self)
{
	struct nam_txn_store *store = make_for(self, NAM_TXN_FASST);
	struct nam_txn *txn = begin(self, store);

	read_to_write(txn);
	litmus.flags[TWO] = true;
	/* It has pinned an epoch, so its queue pairs are put aside as it polls (C28). */
	for (unsigned i = 0; !self->client->backed && i < LITMUS_TIMEOUT_NS / LITMUS_POLL_NS; i++)
		nam__pause_await(self->worker, LITMUS_POLL_NS);
	put(txn, X, 2);
	expect_rc("a commit by RPC", nam_txn_commit(txn, NULL), -NAM_E_FABRIC_CAPABILITY);
	nam__left_await(self->worker);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	nam_txn_store_close(store);
}

static void
back_up_locked(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus_await(TWO);
	expect_rc("phases", nam_txn_store_phases_set(self->worker, store, NAM_TXN_FARM), 0);
	(void)litmus_back(BACKED);
	litmus.flags[ONE] = true;
	litmus_await(THREE);
	expect_value(self, store, X, 1);
	expect_value(self, store, Y, 1);
	litmus.flags[FOUR] = true;
	nam_txn_store_close(store);
	expect_rc("a drop", nam_txn_store_drop(self->worker, STORE), 0);
}

/* With the lock, until the other client has found it at the backup. */
static void
hold_locked(struct actor *self)
{
	(void)self;
	if (!litmus.flags[THREE] || litmus.flags[INSERTED])
		return;
	litmus.flags[INSERTED] = true;
	litmus_await(FOUR);
}

/* It has found the lock at the backup.  The member gets it when the lock is taken back. */
static void
hold_carried(struct actor *self)
{
	(void)self;
	if (!litmus.flags[INSERTED] || litmus.flags[FOUR])
		return;
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_serial_cases[] = {
	{ { "serial_skew", 0, { NULL, skew_first, skew_second }, { { 0 } } },
		"serializable: write skew: each of two writes what the other one has read", 2, 0 },
	{ { "serial_served", 0, { NULL, lock_first, lock_second },
		{ { "serial.served_cas", SERVER, meet_in_cas } } },
		"serializable: two handlers of a memory server lock one record", 1,
		LITMUS_COARSE_HASH },
	{ { "serial_lost", 0, { NULL, update_late, update_meanwhile }, { { 0 } } },
		"serializable: lost update: a value changes between a read and its write", 2, 0 },
	{ { "serial_reads", 0, { NULL, read_apart, update_meanwhile }, { { 0 } } },
		"serializable: read skew: both values are written between two reads", 2, 0 },
	{ { "serial_dirty", 0, { NULL, write_slowly, read_one_by_one },
		{ { "serial.logged", A, write_apart } } },
		"serializable: dirty read: a reader while one of two records is written", 2, 0 },
	{ { "serial_torn", 0, { NULL, write_under_eyes, read_halfway }, { { 0 } } },
		"serializable: a record is written while it is READ", 2, 0 },
	{ { "serial_dies_halfway", 0, { NULL, write_slowly, kill_halfway },
		{ { "serial.logged", A, write_y_late } } },
		"serializable: a coordinator dies between its two records", 2, 0 },
	{ { "serial_dies_unlogged", 0, { NULL, write_slowly, read_after_death },
		{ { "serial.validated", A, die_unlogged } } },
		"serializable: a coordinator dies with its locks, before its log", 2, 0 },
	{ { "serial_slow", 0, { NULL, write_slowly, meet_slow },
		{ { "serial.validated", A, stand_still } } },
		"serializable: a coordinator is slow with its locks", 2, 0 },
	{ { "serial_passive", 0, { NULL, commit_two_and_die, read_what_is_late },
		{ { "serial.logged", A, write_y_late } } },
		"serializable: a coordinator dies after two commits that it did not await", 2, 0 },
	{ { "serial_passive_dropped", 0, { NULL, flush_dropped, drop_before_write },
		{ { "serial.logged", A, write_y_late } } },
		"serializable: a store is dropped after a commit that is not awaited", 2, 0 },
	{ { "serial_early_dies", 0, { NULL, lock_two_and_die, write_after_death },
		{ { "serial.logged", A, die_unlogged } } },
		"serializable: a coordinator dies with a log, and with an early lock beside it",
		2, 0 },
	{ { "serial_backup_lock", 0, { NULL, lock_in_vain, lock_meanwhile, back_up },
		{ { "backup.words_decided", A, hold_second } } },
		"serializable: a lock is taken at the backup, and not at the member", 2, 0 },
	{ { "serial_backup_carried", 0, { NULL, lock_in_vain, lock_meanwhile, back_up },
		{ { "serial.locked", A, hold_locked },
			{ "backup.words_decided", B, hold_carried } } },
		"serializable: a member gets a lock that has ended at its backup", 2, 0 },
	{ { "serial_backup_early", 0, { NULL, lock_before_backup, back_up_locked }, { { 0 } } },
		"serializable: a member gets a backup, and has early locks by RPC", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
