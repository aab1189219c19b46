/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_collect.c -- scenes about served record stores, and the leftovers of writers in them.
 * They are collected while the writer is at work, and after its death, by one or by two at once.
 */
#include "txn/records/txn_internal.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define TOGETHER 2u			/* X and Y */
#define ROUNDS 40u
#define LATE_NS 2000000u
#define AHEAD_US (1ull << 50)		/* of any clock */
#define SLOW_TIMES 100u
#define KEEP_NS (NAM_RECORDS_KEEP_NS + 10000000u)

/* ---- how scenes begin and end ---------------------------------------------------------------- */

/* X and Y become 1; then the others may arrive. */
static struct nam_records *
begin(struct actor *self, enum nam_ramp algorithm)
{
	struct nam_records_options options;
	struct nam_records *records;

	nam_records_options_init(&options);
	options.commit = NAM_RECORDS_SERVED;
	options.algorithm = algorithm;
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

	if (nam_sim_zombie())
		return done;
	nam_sim_note("collect: %s, %llu versions, %llu committed, %llu aborted", nam_err_name(rc),
		(unsigned long long)done.versions, (unsigned long long)done.committed,
		(unsigned long long)done.aborted);
	if (rc)
		litmus_fail("collect: %s, %s", nam_err_name(rc), nam_worker_diag(self->worker));
	return done;
}

/* Where nothing is to be waited for. */
static struct nam_records_collected
collect_at_once(struct actor *self, struct nam_records *records)
{
	uint64_t since_ns = nam_sim_now_ns();
	struct nam_records_collected done = collect(self, records);

	if (nam_sim_now_ns() - since_ns >= NAM_RECORDS_KEEP_NS)
		litmus_fail("collecting has waited, and there was nothing to wait for");
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

/* ---- a writer at work ------------------------------------------------------------------- */

/* The writer's prepared version is older than X, so it withdraws and begins anew. */
static void
write_behind(struct actor *self)
{
	struct nam_records *records = begin(self, NAM_RAMP_FAST);

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

	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 2);
	litmus.flags[SEEN] = true;
	while (!litmus.flags[INSERTED] && !litmus.failed)
		(void)collect(self, records);
	expect_tidy(self, records, 3);
	nam_records_close(records);
}

/* ---- a writer dies when all is prepared ------------------------------------------------------ */

static void
write_both_by(struct actor *self, enum nam_ramp algorithm)
{
	struct nam_records *records = begin(self, algorithm);

	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

static void
write_both(struct actor *self)
{
	write_both_by(self, NAM_RAMP_FAST);
}

/* X leads, and says that Y is of it. */
static void
write_both_small(struct actor *self)
{
	write_both_by(self, NAM_RAMP_SMALL);
}

static void
write_both_hybrid(struct actor *self)
{
	write_both_by(self, NAM_RAMP_HYBRID);
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
	nam_sim_call_after(0, die, self);
	/* No further. */
	nam_sleep_ns(LITMUS_TIMEOUT_NS);
}

static void
collect_after_death(struct actor *self)
{
	struct nam_records *records = arrive(self);
	struct nam_records_collected done;

	litmus.flags[SEEN] = true;
	litmus_await(FIVE);
	/* The writer counts as alive until memory servers know of its death. */
	nam_sleep_ns(LITMUS_TICKS_NS);
	if (others(self, records) != TOGETHER)
		litmus_fail("%llu versions are prepared",
			(unsigned long long)others(self, records));
	litmus_expect_records(self, records, X, TOGETHER, 1);
	done = collect_at_once(self, records);
	if (done.committed != 1 || done.aborted || done.undecided)
		litmus_fail("%llu committed, %llu aborted, %llu undecided",
			(unsigned long long)done.committed, (unsigned long long)done.aborted,
			(unsigned long long)done.undecided);
	expect_tidy(self, records, 2);
	nam_records_close(records);
}

/* ---- a writer dies when half is prepared ----------------------------------------------------- */

/* A live writer would have prepared X. */
static void
prepare_half_by(struct actor *self, enum nam_ramp algorithm)
{
	struct nam_records *records = begin(self, algorithm);

	litmus_await(SEEN);
	nam_sim_delay_next(NAM_WR_SEND, 0, 100 * LATE_NS);
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

static void
prepare_half(struct actor *self)
{
	prepare_half_by(self, NAM_RAMP_FAST);
}

/* Without X the transaction of Y is unknown, until a newer version replaces Y. */
static void
prepare_half_small(struct actor *self)
{
	prepare_half_by(self, NAM_RAMP_SMALL);
}

/* By this client, or another one that decides. */
static void
collect_all(struct actor *self, struct nam_records *records)
{
	for (unsigned i = 0; i < ROUNDS && others(self, records) && !litmus.failed; i++) {
		(void)collect(self, records);
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
	if (others(self, records))
		litmus_fail("%llu versions are left", (unsigned long long)others(self, records));
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
	/* Requests under way may have continued: then all of the transaction is there. */
	prepared = others(self, records);
	litmus.flags[FIVE] = true;
	collect_all(self, records);
	litmus_expect_records(self, records, X, TOGETHER, prepared == 1 ? 1 : 2);
	litmus_put(self, records, X, TOGETHER, 4);
	litmus.flags[INSERTED] = true;
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

/* ---- one of three is never prepared ---------------------------------------------------------- */

/* A live writer would have prepared Y. */
static void
prepare_but_one_by(struct actor *self, enum nam_ramp algorithm, uint32_t count)
{
	struct nam_records *records = begin(self, algorithm);

	litmus_await(SEEN);
	nam_sim_delay_after(NAM_WR_SEND, 1, 100 * LATE_NS);
	litmus_put(self, records, X, count, 2);
	nam_records_close(records);
}

static void
prepare_but_one(struct actor *self)
{
	prepare_but_one_by(self, NAM_RAMP_FAST, LITMUS_RECORDS);
}

static void
prepare_but_one_small(struct actor *self)
{
	prepare_but_one_by(self, NAM_RAMP_SMALL, LITMUS_RECORDS);
}

/* Until a version has been prepared, and the writer is dead. */
static void
await_death(struct actor *self, struct nam_records *records)
{
	while (!others(self, records) && !litmus.failed)
		nam_sleep_ns(LITMUS_POLL_NS);
	nam_sim_process_kill(litmus.actors[A].process);
	nam_sleep_ns(LITMUS_TICKS_NS);
	/* A write now is newer, for any clocks. */
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
}

static void
collect_but_one(struct actor *self)
{
	struct nam_records *records = arrive(self);
	struct nam_records_collected done;

	litmus.flags[SEEN] = true;
	await_death(self, records);
	if (others(self, records) == LITMUS_RECORDS - 1) {
		done = collect_at_once(self, records);
		if (done.committed || done.aborted != 1 || done.undecided || others(self, records))
			litmus_fail("%llu committed, %llu aborted, %llu undecided",
				(unsigned long long)done.committed,
				(unsigned long long)done.aborted,
				(unsigned long long)done.undecided);
		litmus_expect_records(self, records, X, 1, 1);
	}
	litmus_put(self, records, Z, 1, 3);
	litmus_put(self, records, Y, 1, 4);
	if (collect(self, records).undecided)
		litmus_fail("a version that was outrun is undecided");
	litmus_expect_records(self, records, Z, 1, 3);
	nam_records_close(records);
}

/* ---- the leader is not prepared, and is written ---------------------------------------------- */

static void
prepare_without_leader(struct actor *self)
{
	struct nam_records *records = begin(self, NAM_RAMP_SMALL);

	litmus_await(SEEN);
	nam_sim_delay_next(NAM_WR_SEND, 0, 100 * LATE_NS);
	litmus_put(self, records, X, LITMUS_RECORDS, 2);
	nam_records_close(records);
}

/* X leads, and Z is not prepared either: nothing says so, so that Y stays as it is. */
static void
collect_unknown(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus.flags[SEEN] = true;
	await_death(self, records);
	if (others(self, records) == 1) {
		litmus_put(self, records, X, 1, 3);
		if (collect(self, records).undecided != 1)
			litmus_fail("what nothing tells was decided");
		litmus_expect_records(self, records, Y, 1, 1);
	}
	litmus_put(self, records, Y, 1, 4);
	collect_all(self, records);
	litmus_expect_records(self, records, Y, 1, 4);
	nam_records_close(records);
}

/* ---- two collectors, between which a record is written --------------------------------------- */

/* X, Y and Z lie on a memory server each, and X is not prepared. */
static void
prepare_on_two(struct actor *self)
{
	struct nam_records *records = begin(self, NAM_RAMP_FAST);

	litmus_put(self, records, X, LITMUS_RECORDS, 1);
	litmus_await(SEEN);
	nam_sim_delay_next(NAM_WR_SEND, 0, 100 * LATE_NS);
	litmus_put(self, records, X, LITMUS_RECORDS, 2);
	nam_records_close(records);
}

/* It drops versions, the first one late. */
static void
decide_slowly(struct actor *self)
{
	(void)self;
	litmus.flags[FOUR] = true;
	litmus_await_for(INSERTED, LITMUS_SHORT_NS);
	nam_sim_delay_next(NAM_WR_SEND, 0, LATE_NS);
}

/* To this one nothing is lacking. */
static void
decide_after(struct actor *self)
{
	(void)self;
	litmus.flags[INSERTED] = true;
	nam_sleep_ns(LATE_NS / 4);
}

static void
collect_first(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus.flags[SEEN] = true;
	await_death(self, records);
	litmus.flags[FIVE] = true;
	(void)collect(self, records);
	nam_records_close(records);
}

static void
collect_second(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus_await(FIVE);
	litmus_await_for(FOUR, LITMUS_SHORT_NS);
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 3);
	(void)collect(self, records);
	nam_records_close(records);
}

static void
expect_both_or_none(struct actor *self)
{
	struct nam_records *records = litmus_store_open(self, 0);
	uint64_t y = 0, z = 0;

	(void)litmus_try_get(self, records, Y, 1, &y);
	(void)litmus_try_get(self, records, Z, 1, &z);
	if (y != z)
		litmus_fail("half of the dead one's transaction: Y %llu, Z %llu",
			(unsigned long long)y, (unsigned long long)z);
	collect_all(self, records);
	nam_records_close(records);
}

/* ---- half is prepared, and a reader has older versions of the rest --------------------------- */

static void
prepare_leader_small(struct actor *self)
{
	prepare_but_one_by(self, NAM_RAMP_SMALL, TOGETHER);
}

static void
prepare_leader_hybrid(struct actor *self)
{
	prepare_but_one_by(self, NAM_RAMP_HYBRID, TOGETHER);
}

/* Y is written, so X can be committed; but not as long as the reader is at it. */
static void
collect_under_eyes(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus_await(FOUR);
	litmus.flags[SEEN] = true;
	await_death(self, records);
	litmus.flags[FIVE] = true;
	nam_sleep_ns(LATE_NS / 2);
	litmus_put(self, records, Y, 1, 3);
	if (collect(self, records).undecided)
		litmus_fail("a version that was outrun is undecided");
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, 1, 2);
	litmus_expect_records(self, records, Y, 1, 3);
	nam_records_close(records);
}

/* The collector asks for X so long after Y's reply that it is almost too late. */
static void
read_early_and_late(struct actor *self)
{
	struct nam_records *records = arrive(self);
	uint64_t numbers[TOGETHER] = { 0 };

	(void)litmus_try_get(self, records, X, TOGETHER, numbers);
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
	nam_sim_delay_next(NAM_WR_SEND, 0, NAM_RECORDS_KEEP_NS / 3 * 2);
	(void)litmus_try_get(self, records, X, TOGETHER, numbers);
	/* Not Y's from before, beside X's from the dead one, which would have written both. */
	if (numbers[X] == 2 && numbers[Y] == 1)
		litmus_fail("half of the dead one's transaction: X 2, Y 1");
	litmus.flags[INSERTED] = true;
	nam_records_close(records);
}

/* ---- a slow reader, and no writer ------------------------------------------------------------ */

/* Its versions are still the latest, so the reader does not begin anew. */
static void
read_slowly(struct actor *self, enum nam_ramp algorithm, uint64_t rounds)
{
	struct nam_records *records = begin(self, algorithm);
	const struct nam_op_counters *counters = nam_worker_counters(self->worker, NAM_OP_GET_ALL);
	uint64_t taken;

	litmus_expect_records(self, records, X, TOGETHER, 1);
	taken = counters->round_trips;
	nam_sim_delay_next(NAM_WR_SEND, 0, NAM_RECORDS_KEEP_NS);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	taken = counters->round_trips - taken;
	if (taken != rounds)
		litmus_fail("a slow reader takes %llu round trips, not %llu",
			(unsigned long long)taken, (unsigned long long)rounds);
	nam_records_close(records);
}

static void
read_slowly_small(struct actor *self)
{
	read_slowly(self, NAM_RAMP_SMALL, 2);
}

static void
read_slowly_hybrid(struct actor *self)
{
	read_slowly(self, NAM_RAMP_HYBRID, 1);
}

/* ---- a collector dies half-way --------------------------------------------------------------- */

static void
collect_and_die(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus.flags[SEEN] = true;
	litmus_await(FIVE);
	nam_sleep_ns(LITMUS_TICKS_NS);
	(void)collect(self, records);
	if (!nam_sim_zombie())
		litmus_fail("a client that should have died lives");
	nam_records_close(records);
}

/* X, which leads, is written, and its version of the transaction is forgotten if it can be. */
static void
collect_the_rest(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus_await(ONE);
	nam_sleep_ns(LITMUS_TICKS_NS);
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 3);
	nam_sleep_ns(KEEP_NS);
	if (collect(self, records).undecided)
		litmus_fail("a half committed transaction is undecided");
	nam_sleep_ns(KEEP_NS);
	(void)collect(self, records);
	if (others(self, records))
		litmus_fail("%llu versions are left", (unsigned long long)others(self, records));
	litmus_expect_records(self, records, X, 1, 3);
	litmus_expect_records(self, records, Y, 1, 2);
	nam_records_close(records);
}

/* ---- the leader is committed, and replaced --------------------------------------------------- */

/* A live writer would have sent Y's COMMIT. */
static void
commit_but_one_small(struct actor *self)
{
	struct nam_records *records = begin(self, NAM_RAMP_SMALL);

	litmus_await(SEEN);
	nam_sim_delay_after(NAM_WR_SEND, 3, 100 * LATE_NS);
	litmus_put(self, records, X, LITMUS_RECORDS, 2);
	nam_records_close(records);
}

/* Z's version has gone, and X's is about to go, and is not waited for. */
static void
collect_at_last(struct actor *self)
{
	struct nam_records *records = arrive(self);
	uint64_t number = 0;

	litmus.flags[SEEN] = true;
	while (number != 2 && !litmus.failed)
		number = litmus_get(self, records, X, 1);
	await_death(self, records);
	litmus_put(self, records, Z, 1, 3);
	nam_sleep_ns(KEEP_NS);
	litmus_put(self, records, X, 1, 3);
	if (collect_at_once(self, records).undecided)
		litmus_fail("a half committed transaction is undecided");
	litmus_expect_records(self, records, Y, 1, 2);
	nam_records_close(records);
}

/* ---- a collector is late --------------------------------------------------------------------- */

static void
collect_late(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus.flags[SEEN] = true;
	litmus_await(FIVE);
	nam_sleep_ns(LITMUS_TICKS_NS);
	litmus.flags[ONE] = true;
	nam_sim_delay_after(NAM_WR_SEND, 1, NAM_RECORDS_KEEP_NS / 2 * 3);
	if (collect(self, records).undecided)
		litmus_fail("a committed transaction is undecided");
	litmus_expect_records(self, records, X, 1, 3);
	litmus_expect_records(self, records, Y, 1, 2);
	nam_records_close(records);
}

/* All that the other has seen is committed meanwhile, and the leader has gone. */
static void
collect_early(struct actor *self)
{
	struct nam_records *records = arrive(self);

	litmus_await(ONE);
	nam_sleep_ns(2 * LATE_NS);
	(void)collect(self, records);
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 3);
	nam_records_close(records);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_collect_cases[] = {
	{ { "collect_alive", 0, { NULL, write_behind, collect_meanwhile }, { { 0 } } },
		"collecting: a writer withdraws its prepared versions", 2, 0 },
	{ { "collect_dead", 0, { NULL, write_both, collect_after_death },
		{ { "records.prepared", A, die_prepared } } },
		"collecting: all of a transaction is prepared, and its writer is dead", 2, 0 },
	{ { "collect_half", 0, { NULL, prepare_half, collect_half, collect_as_well },
		{ { 0 } } },
		"collecting: half of a transaction is prepared, and its writer is dead", 2, 0 },
	{ { "collect_dead_small", 0, { NULL, write_both_small, collect_after_death },
		{ { "records.prepared", A, die_prepared } } },
		"collecting: as collect_dead, by the leader", 2, 0 },
	{ { "collect_dead_hybrid", 0, { NULL, write_both_hybrid, collect_after_death },
		{ { "records.prepared", A, die_prepared } } },
		"collecting: as collect_dead, by the leader", 2, 0 },
	{ { "collect_half_small", 0, { NULL, prepare_half_small, collect_half, collect_as_well },
		{ { 0 } } },
		"collecting: the leader is not prepared", 2, 0 },
	{ { "collect_third", 0, { NULL, prepare_but_one, collect_but_one }, { { 0 } } },
		"collecting: one of three is not prepared", 2, 0 },
	{ { "collect_third_small", 0, { NULL, prepare_but_one_small, collect_but_one },
		{ { 0 } } },
		"collecting: the same, by the leader", 2, 0 },
	{ { "collect_gone_small", 0, { NULL, prepare_without_leader, collect_unknown }, { { 0 } } },
		"collecting: the leader of three is not prepared, and is written", 2, 0 },
	{ { "collect_two", 0,
		{ expect_both_or_none, prepare_on_two, collect_first, collect_second },
		{ { "records.collect_decided", B, decide_slowly },
			{ "records.collect_decided", C, decide_after } } },
		"collecting: two collectors at once, and the unprepared record is written between",
		3, 0 },
	{ { "collect_seen_small", 0,
		{ NULL, prepare_leader_small, collect_under_eyes, read_early_and_late },
		{ { 0 } } },
		"collecting: a reader has an older version of an unprepared record", 2, 0 },
	{ { "collect_seen_hybrid", 0,
		{ NULL, prepare_leader_hybrid, collect_under_eyes, read_early_and_late },
		{ { 0 } } },
		"collecting: the same of RAMP-Hybrid", 2, 0 },
	{ { "collect_slow_small", 0, { NULL, read_slowly_small }, { { 0 } } },
		"a reader that is slower than replaced versions go, and no writer", 2, 0 },
	{ { "collect_slow_hybrid", 0, { NULL, read_slowly_hybrid }, { { 0 } } },
		"the same of RAMP-Hybrid", 2, 0 },
	{ { "collect_dies_small", 0,
		{ NULL, write_both_small, collect_and_die, collect_the_rest },
		{ { "records.prepared", A, die_prepared },
			{ "records.collect_between", B, litmus_die_here } } },
		"collecting: a collector dies when some are committed, and not the leader", 2, 0 },
	{ { "collect_kept_small", 0, { NULL, commit_but_one_small, collect_at_last },
		{ { 0 } } },
		"collecting: of a transaction half committed others are written, the leader last",
		2, 0 },
	{ { "collect_late_small", 0, { NULL, write_both_small, collect_late, collect_early },
		{ { "records.prepared", A, die_prepared } } },
		"collecting: another collector ends a transaction meanwhile", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
