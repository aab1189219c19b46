/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_collect.c -- scenes about record stores that memory servers serve, and what writers leave
 * in them: collected while the writer is at work, and after he died, by one or by two at once.
 */
#include "../../txn/txn_internal.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define TOGETHER 2u			/* X and Y */
#define LATE_NS 2000000u
#define AHEAD_US (1ull << 50)		/* of any clock */
#define SLOW_TIMES 100u
#define KEEP_NS (NAM_RECORDS_KEEP_NS + 10000000u)

/* ---- how scenes begin and end ---------------------------------------------------------------- */

/* X and Y become 1; then the others may arrive. */
static struct nam_records *
begin(struct actor *self)
{
	struct nam_records_options options;
	struct nam_records *records;

	nam_records_options_init(&options);
	options.commit = NAM_RECORDS_SERVED;
	records = litmus_store_make(self, &options);
	litmus_put(self, records, X, TOGETHER, 1);
	litmus.flags[THREE] = true;
	return records;
}

static struct nam_records *
arrive(struct actor *self)
{
	litmus_await(THREE);
	return litmus_store_open(self, STORE_BYTES);
}

static struct nam_records_collected
collect(struct actor *self, struct nam_records *records)
{
	struct nam_records_collected done = { 0 };
	int rc = nam_records_collect(self->worker, records, &done);

	if (nam_sim_ghost())
		return done;
	nam_sim_note("collect: %s, %llu versions, %llu committed, %llu aborted", nam_err_name(rc),
		(unsigned long long)done.versions, (unsigned long long)done.committed,
		(unsigned long long)done.aborted);
	if (rc)
		litmus_fail("collect: %s, %s", nam_err_name(rc), nam_worker_diag(self->worker));
	return done;
}

static uint64_t
others(struct actor *self, struct nam_records *records)
{
	struct nam_records_stat stat = { 0 };

	if (nam_records_stat(self->worker, records, &stat))
		litmus_fail("stat: %s", nam_worker_diag(self->worker));
	return stat.others;
}

/* Both have the same, together and each alone; and nothing is left of anything else. */
static void
expect_tidy(struct actor *self, struct nam_records *records, uint64_t number)
{
	litmus_expect_records(self, records, X, 1, number);
	litmus_expect_records(self, records, Y, 1, number);
	litmus_expect_records(self, records, X, TOGETHER, number);
	nam_sleep_ns(KEEP_NS);
	(void)collect(self, records);
	if (others(self, records))
		litmus_fail("%llu versions are left", (unsigned long long)others(self, records));
	litmus_expect_records(self, records, X, TOGETHER, number);
}

/* ---- a writer who is at work ----------------------------------------------------------------- */

/* What he has prepared is older than X, so that he takes it back and begins anew. */
static void
write_behind(struct actor *self)
{
	struct nam_records *records = begin(self);

	litmus_await(SEEN);
	nam_sim_process_slow(self->process, SLOW_TIMES);
	litmus_put(self, records, X, TOGETHER, 3);
	nam_sim_process_slow(self->process, 1);
	litmus.flags[INSERTED] = true;
	nam_records_close(records);
}

static void
collect_meanwhile(struct actor *self)
{
	struct nam_records *records = arrive(self);

	atomic_store(&self->client->transaction_us, AHEAD_US);
	litmus_put(self, records, X, 1, 2);
	litmus.flags[SEEN] = true;
	while (!litmus.flags[INSERTED] && !litmus.failed)
		(void)collect(self, records);
	expect_tidy(self, records, 3);
	nam_records_close(records);
}

/* ---- a writer who dies when all is prepared -------------------------------------------------- */

static void
write_both(struct actor *self)
{
	struct nam_records *records = begin(self);

	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

static void
die(void *arg)
{
	struct actor *self = arg;

	nam_sim_process_kill(self->process);
	litmus.flags[FIVE] = true;
}

static void
die_prepared(struct actor *self)
{
	if (!litmus.flags[FOUR])
		return;
	if (nam_sim_call_after(0, die, self))
		sim_die("no memory");
	/* No further. */
	nam_sleep_ns(LITMUS_PATIENCE_NS);
}

static void
collect_after_death(struct actor *self)
{
	struct nam_records *records = arrive(self);
	struct nam_records_collected done;

	litmus.flags[SEEN] = true;
	litmus_await(FIVE);
	/* Until memory servers have heard of it he counts as alive. */
	nam_sleep_ns(LITMUS_TICKS_NS);
	if (others(self, records) != TOGETHER)
		litmus_fail("%llu versions are prepared",
			(unsigned long long)others(self, records));
	litmus_expect_records(self, records, X, TOGETHER, 1);
	done = collect(self, records);
	if (done.committed != 1 || done.aborted || done.undecided)
		litmus_fail("%llu committed, %llu aborted, %llu undecided",
			(unsigned long long)done.committed, (unsigned long long)done.aborted,
			(unsigned long long)done.undecided);
	expect_tidy(self, records, 2);
	nam_records_close(records);
}

/* ---- a writer who dies when half is prepared ------------------------------------------------- */

/* X would have been prepared, had he lived. */
static void
prepare_half(struct actor *self)
{
	struct nam_records *records = begin(self);

	litmus_await(SEEN);
	nam_sim_delay_next(NAM_WR_SEND, 0, 100 * LATE_NS);
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

static void
collect_half(struct actor *self)
{
	struct nam_records *records = arrive(self);
	uint64_t prepared;

	litmus.flags[SEEN] = true;
	while (!others(self, records) && !litmus.failed)
		nam_sleep_ns(LITMUS_POLL_NS);
	nam_sim_process_kill(litmus.actors[A].process);
	nam_sleep_ns(LITMUS_TICKS_NS);
	litmus.flags[FIVE] = true;
	/* What was on its way may have gone on its way: then all of it is there. */
	prepared = others(self, records);
	if (collect(self, records).undecided != (prepared == 1))
		litmus_fail("%llu are prepared", (unsigned long long)prepared);
	litmus_expect_records(self, records, X, TOGETHER, prepared == 1 ? 1 : 2);
	/* X is newer then, whatever clocks say, and nothing is open any more. */
	atomic_store(&self->client->transaction_us, AHEAD_US);
	litmus_put(self, records, X, 1, 3);
	(void)collect(self, records);
	litmus.flags[INSERTED] = true;
	litmus_put(self, records, X, TOGETHER, 4);
	expect_tidy(self, records, 4);
	nam_records_close(records);
}

static void
collect_as_well(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus_await(FIVE);
	while (!litmus.flags[INSERTED] && !litmus.failed) {
		(void)collect(self, records);
		(void)others(self, records);
	}
	nam_records_close(records);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_collect_cases[] = {
	{ { "collect_alive", 0, { NULL, write_behind, collect_meanwhile }, { { 0 } } },
		"collecting: a writer takes back what he has prepared", 2, 0 },
	{ { "collect_dead", 0, { NULL, write_both, collect_after_death },
		{ { "records.prepared", A, die_prepared } } },
		"collecting: all of a transaction is prepared, and its writer is dead", 2, 0 },
	{ { "collect_half", 0, { NULL, prepare_half, collect_half, collect_as_well },
		{ { 0 } } },
		"collecting: half of a transaction is prepared, and its writer is dead", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
