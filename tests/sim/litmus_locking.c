/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_locking.c -- scenes about record stores under two-phase locking.  Requests come late,
 * writers are late or die between prepare and commit, and clients terminate their locks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "compute/worker/worker.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define TOGETHER 2u			/* X and Y */
#define LATE_NS 200000u
#define LEASE_OVER_NS (2 * NAM_LOCKING_LEASE_NS)
#define FORGOTTEN_NS (NAM_RECORDS_KEEP_NS + NAM_RECORDS_KEEP_NS / 4)
#define TRIES 20u

static struct nam_records *
locking_make(struct actor *self)
{
	static const struct nam_records_options options = { NAM_RAMP_LOCKING, NAM_RECORDS_SERVED };

	return litmus_store_make(self, &options);
}

/* ---- held where another client has asked ----------------------------------------------------- */

/* The request to the first memory server comes that much later than that to the second. */
static void
delay_first(struct actor *self, uint64_t late_ns)
{
	(void)self;
	if (!litmus.flags[FOUR] || litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	nam_sim_delay_next(NAM_WR_SEND, 0, late_ns);
}

static void
delay_a_little(struct actor *self)
{
	delay_first(self, LATE_NS);
}

static void
delay_beyond_lease(struct actor *self)
{
	delay_first(self, LEASE_OVER_NS);
}

static void
die(void *arg)
{
	struct actor *self = arg;

	nam_sim_process_kill(self->process);
	litmus.flags[TWO] = true;
}

/* One of two commits never sets out. */
static void
commit_half_and_die(struct actor *self)
{
	if (!litmus.flags[FOUR] || litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	nam_sim_delay_next(NAM_WR_SEND, 0, FORGOTTEN_NS);
	nam_sim_call_after(LATE_NS, die, self);
}

/* ---- A writes X and Y twice ------------------------------------------------------------------ */

static void
write_both(struct actor *self)
{
	struct nam_records *records = locking_make(self);

	litmus_put(self, records, X, TOGETHER, 1);
	litmus.flags[THREE] = true;
	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	litmus.flags[INSERTED] = true;
	nam_records_close(records);
}

static struct nam_records *
see_first(struct actor *self)
{
	struct nam_records *records;

	litmus_await(THREE);
	records = litmus_store_open(self, STORE_BYTES);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	return records;
}

/* Until they are written: both or none. */
static void
read_both(struct actor *self)
{
	struct nam_records *records = see_first(self);

	for (unsigned i = 0; i < TRIES && !litmus.failed; i++) {
		(void)litmus_get(self, records, X, TOGETHER);
		nam_sleep_ns(LITMUS_POLL_NS / 2);
	}
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* The lease is over, so the prepared version is terminated; then its writer returns. */
static void
terminate_both(struct actor *self)
{
	struct nam_records *records = see_first(self);

	nam_sleep_ns(LEASE_OVER_NS);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* The lease of one is over, before the other was asked for. */
static void
terminate_half(struct actor *self)
{
	struct nam_records *records = see_first(self);

	nam_sleep_ns(NAM_LOCKING_LEASE_NS + NAM_LOCKING_LEASE_NS / 4);
	litmus_expect_records(self, records, Y, 1, 1);
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* ---- a reader that loses a lock before it has the other -------------------------------------- */

static void
read_slowly(struct actor *self)
{
	struct nam_records *records;

	litmus_await(THREE);
	records = litmus_store_open(self, STORE_BYTES);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[FOUR] = true;
	litmus_expect_records(self, records, X, TOGETHER, 2);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

static void
write_meanwhile(struct actor *self)
{
	struct nam_records *records = locking_make(self);

	litmus_put(self, records, X, TOGETHER, 1);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	litmus_put(self, records, X, TOGETHER, 2);
	litmus_await(TWO);
	nam_records_close(records);
}

/* ---- a record that comes as others are read -------------------------------------------------- */

static void
write_new(struct actor *self)
{
	struct nam_records *records = locking_make(self);

	litmus_put(self, records, Y, 1, 1);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	litmus_put(self, records, Y, TOGETHER, 2);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

static void
read_new(struct actor *self)
{
	struct nam_records *records;
	uint64_t numbers[TOGETHER] = { 0 };
	int rc;

	litmus_await(THREE);
	records = litmus_store_open(self, STORE_BYTES);
	litmus.flags[FOUR] = true;
	rc = litmus_try_get(self, records, Y, TOGETHER, numbers);
	if (rc && rc != -NAM_E_NOTFOUND)
		litmus_fail("get_all: %s, %s", nam_err_name(rc), nam_worker_diag(self->worker));
	if (numbers[0] == 2 && numbers[1] != 2)
		litmus_fail("half of a transaction: its other record is nowhere");
	nam_records_close(records);
}

/* ---- an overwritten version tells the outcome of the rest ------------------------------------ */

static void
overwrite_half(struct actor *self)
{
	struct nam_records *records = see_first(self);
	uint64_t is;

	litmus_await(TWO);
	is = litmus_get(self, records, Y, 1);
	for (uint64_t i = 3; i < 6; i++) {
		litmus_put(self, records, Y, 1, i);
		nam_sleep_ns(FORGOTTEN_NS);
	}
	litmus_expect_records(self, records, X, 1, is);
	litmus_put(self, records, X, TOGETHER, 6);
	litmus_expect_records(self, records, X, TOGETHER, 6);
	nam_records_close(records);
}

/* ---- a client is less patient than leases last ----------------------------------------------- */

#define HASTY_MS 1u			/* 8 times that */

static void
expect_timeout(struct actor *self, const char *what, int rc, const char *text)
{
	if (rc != -NAM_E_LOCK_TIMEOUT || !strstr(nam_worker_diag(self->worker), text))
		litmus_fail("%s: %s, '%s' without '%s'", what, nam_err_name(rc),
			nam_worker_diag(self->worker), text);
}

static struct nam_records *
be_hasty(struct actor *self)
{
	struct nam_records *records = see_first(self);

	self->client->options.lock_timeout_ms = HASTY_MS;
	return records;
}

static int
try_put(struct actor *self, struct nam_records *records)
{
	uint64_t number = 3;
	const struct nam_record_put one = { "another", 7, sizeof(number), &number };
	struct nam_record_put both[2] = { one, { litmus_record_key(X), 0, 8, &number } };

	both[1].key_bytes = (uint32_t)strlen(both[1].key);
	return nam_records_put_all(self->worker, records, both, 2, NULL);
}

/* A writer stands still. */
static void
hurry_after_writer(struct actor *self)
{
	struct nam_records *records = be_hasty(self);
	uint64_t numbers[TOGETHER];
	char owner[32];

	(void)snprintf(owner, sizeof(owner), "locked by client %u",
		nam_client_id(litmus.actors[A].client));
	expect_timeout(self, "get_all", litmus_try_get(self, records, X, TOGETHER, numbers), owner);
	expect_timeout(self, "put_all", try_put(self, records), owner);
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* A reader that does: others may read, and writes wait until its lease is over. */
static void
hurry_after_reader(struct actor *self)
{
	struct nam_records *records = be_hasty(self);
	uint64_t began_ns = nam_now_ns();

	litmus_expect_records(self, records, X, TOGETHER, 1);
	expect_timeout(self, "put_all", try_put(self, records), "read by others");
	self->client->options.lock_timeout_ms = 1000;
	litmus_put(self, records, X, TOGETHER, 2);
	if (nam_now_ns() - began_ns > 2 * NAM_LOCKING_LEASE_NS)
		litmus_fail("a lock of a reader that stands still for longer than its lease");
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

static void
read_once_more(struct actor *self)
{
	struct nam_records *records = locking_make(self);

	litmus_put(self, records, X, TOGETHER, 1);
	litmus.flags[THREE] = true;
	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_locking_cases[] = {
	{ { "locking_half", 0, { NULL, write_both, read_both },
		{ { "records.prepared", A, delay_a_little } } },
		"locking: a reader while one of two records has been committed", 2, 0 },
	{ { "locking_terminated", 0, { NULL, write_both, terminate_both },
		{ { "records.prepared", A, litmus_hold_once } } },
		"locking: a writer stands still between prepare and commit", 2, 0 },
	{ { "locking_fenced", 0, { NULL, write_both, terminate_half },
		{ { "locking.begin", A, delay_beyond_lease } } },
		"locking: one of two prepares comes when the other was terminated", 2, 0 },
	{ { "locking_lost", 0, { NULL, write_meanwhile, read_slowly },
		{ { "locking.begin", B, delay_beyond_lease } } },
		"locking: a reader's lock is taken away before it has the other", 2, 0 },
	{ { "locking_absent", 0, { NULL, write_new, read_new },
		{ { "locking.begin", B, litmus_hold_once } } },
		"locking: a record that was not there comes before the others are read", 2, 0 },
	{ { "locking_dead", 0, { NULL, write_both, overwrite_half },
		{ { "records.prepared", A, commit_half_and_die } } },
		"locking: a writer dies between two commits, and its versions are overwritten", 2,
		0 },
	{ { "locking_writer", 0, { NULL, write_both, hurry_after_writer },
		{ { "records.prepared", A, litmus_hold_once } } },
		"locking: an impatient client learns the owner of the lock", 2, 0 },
	{ { "locking_reader", 0, { NULL, read_once_more, hurry_after_reader },
		{ { "locking.read", A, litmus_hold_once } } },
		"locking: a reader stands still, and its locks are taken away in time", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
