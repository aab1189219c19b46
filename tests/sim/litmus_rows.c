/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_rows.c -- scenes about serializable tables: people, who have a town, and towns, which have
 * the number of their people.  One transaction keeps both right.
 */
#include <stdio.h>
#include <string.h>

#include "common/rpc/rpc.h"
#include "txn/table.h"
#include "litmus_txn.h"

#define PEOPLE "litmus-people"
#define TOWNS "litmus-towns"
#define SHARED "litmus-shared"
#define MOVES_MAX 10000u
#define HALF 4u				/* a READ of a row stops before this step */
#define LATE_NS 50000u

static const struct nam_bytes aa = { "Aa", 2 }, bb = { "Bb", 2 };

/* Each actor has its own. */
static struct tables {
	struct nam_table *people, *towns;
	struct nam_txn_store *store;
	struct nam_table_rows *rows;
} tables_of[LITMUS_ACTORS];

/* ---- tables ---------------------------------------------------------------------------------- */

static struct tables *
tables_open(struct actor *self)
{
	struct tables *tables = &tables_of[self->who];

	*tables = (struct tables){ .rows = nam_table_rows_new() };
	if (!tables->rows ||
		nam_table_open(self->worker, PEOPLE, STORE_BYTES, &tables->people) ||
		nam_table_open(self->worker, TOWNS, STORE_BYTES, &tables->towns) ||
		nam_table_store(self->worker, tables->people, &tables->store))
		sim_die("the tables: %s", nam_worker_diag(self->worker));
	return tables;
}

static void
tables_close(struct actor *self, struct tables *tables)
{
	nam_table_close(self->worker, tables->people);
	nam_table_close(self->worker, tables->towns);
	nam_table_rows_free(tables->rows);
}

/* The person moves there, or comes. */
static int
move(struct actor *self, struct tables *tables, const struct nam_bytes *town)
{
	return nam_table_put(self->worker, tables->people, (struct nam_bytes){ "x", 1 }, town);
}

/* The first actor makes the tables; others come when they are there. */
static struct tables *
make(struct actor *self)
{
	static const struct nam_table_schema people = { .columns = { "town" }, .columns_count = 1,
		.indexes = { { 0, 8 } }, .indexes_count = 1, .store = SHARED,
		.options = { .isolation = NAM_ISOLATION_SERIALIZABLE, .row_bytes_max = 16,
			.rows = 64 } };
	static const struct nam_table_schema towns = { .columns = { "people" }, .columns_count = 1,
		.store = SHARED, .options = { .isolation = NAM_ISOLATION_SERIALIZABLE } };

	if (nam_table_create(self->worker, PEOPLE, &people) ||
		nam_table_create(self->worker, TOWNS, &towns))
		sim_die("the tables: %s", nam_worker_diag(self->worker));
	return tables_open(self);
}

static struct tables *
arrive(struct actor *self)
{
	litmus_await(SEEN);
	return tables_open(self);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int
people_count(struct nam_txn *txn, struct tables *tables, const struct nam_bytes *town,
	uint32_t *ret_count)
{
	const struct nam_table_range range = { .column = 0, .low = *town, .high = *town };
	int rc = nam_txn_rows_scan(txn, tables->people, &range, tables->rows);

	if (!rc)
		*ret_count = nam_table_rows_count(tables->rows);
	return rc;
}

/* The town gets the number of its people. */
static int
town_update(struct nam_txn *txn, struct tables *tables, const struct nam_bytes *town,
	uint32_t count)
{
	const struct nam_bytes column = { &count, sizeof(count) };
	const struct nam_table_write one = { tables->towns, *town, &column };

	return nam_txn_rows_write(txn, &one, 1);
}

/* Moves the person to Bb, and counts. */
static int
move_and_count(struct nam_txn *txn, void *arg)
{
	struct tables *tables = arg;
	const struct nam_table_write one = { tables->people, { "x", 1 }, &bb };
	uint32_t in_aa = 0, in_bb = 0;
	int rc = nam_txn_rows_write(txn, &one, 1);

	if (!rc)
		rc = people_count(txn, tables, &aa, &in_aa);
	if (!rc)
		rc = people_count(txn, tables, &bb, &in_bb);
	if (!rc)
		rc = town_update(txn, tables, &aa, in_aa);
	return rc ? rc : town_update(txn, tables, &bb, in_bb);
}

struct seen {
	struct tables *tables;
	uint32_t in_aa, in_bb;		/* people */
	uint32_t of_aa, of_bb;		/* numbers of the towns */
};

static int
town_read(struct nam_txn *txn, struct tables *tables, const struct nam_bytes *town,
	uint32_t *ret_number)
{
	struct nam_table_get get = { .table = tables->towns, .key = *town };
	int rc = nam_txn_rows_read(txn, &get, 1, tables->rows);

	*ret_number = 0;
	if (!rc && get.columns && get.columns[0].bytes == sizeof(*ret_number))
		memcpy(ret_number, get.columns[0].data, sizeof(*ret_number));
	return rc;
}

static int
look(struct nam_txn *txn, void *arg)
{
	struct seen *seen = arg;
	int rc = people_count(txn, seen->tables, &aa, &seen->in_aa);

	if (!rc)
		rc = people_count(txn, seen->tables, &bb, &seen->in_bb);
	if (!rc)
		rc = town_read(txn, seen->tables, &aa, &seen->of_aa);
	return rc ? rc : town_read(txn, seen->tables, &bb, &seen->of_bb);
}

/* In the end, whatever a dead client has left: the numbers are right, and so many are in Bb. */
static void
expect_numbers(struct actor *self, struct tables *tables, uint32_t in_bb)
{
	uint64_t end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;
	struct seen seen = { .tables = tables };
	int rc;

	do {
		rc = nam_txn_run(self->worker, tables->store, look, &seen, NULL, NULL);
	} while (rc == -NAM_E_CONFLICT && nam_now_ns() < end_ns);
	expect_rc("scans in the end", rc, 0);
	if (seen.in_bb != in_bb || seen.of_bb != in_bb || seen.of_aa != seen.in_aa)
		litmus_fail("%u people are in Aa and %u in Bb; the towns say %u and %u",
			seen.in_aa, seen.in_bb, seen.of_aa, seen.of_bb);
}

/* ---- phantoms -------------------------------------------------------------------------------- */

static void
count_slowly(struct actor *self)
{
	struct tables *tables = make(self);
	uint32_t count = 0;
	struct nam_txn *txn;

	litmus.flags[SEEN] = true;
	txn = begin(self, tables->store);
	expect_rc("a scan", people_count(txn, tables, &bb, &count), 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	expect_rc("a write", town_update(txn, tables, &bb, count), 0);
	expect_rc("a commit after a phantom", nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	expect_rc("a count", nam_txn_run(self->worker, tables->store, move_and_count, tables, NULL,
		NULL), 0);
	expect_numbers(self, tables, 1);
	tables_close(self, tables);
}

static void
come_meanwhile(struct actor *self)
{
	struct tables *tables = arrive(self);

	litmus_await(ONE);
	expect_rc("a row", move(self, tables, &bb), 0);
	litmus.flags[TWO] = true;
	tables_close(self, tables);
}

/* ---- coordinators ---------------------------------------------------------------------------- */

static void
move_and_die(struct actor *self)
{
	struct tables *tables = make(self);

	expect_rc("a row", move(self, tables, &aa), 0);
	expect_rc("a count", nam_txn_run(self->worker, tables->store, look,
		&(struct seen){ .tables = tables }, NULL, NULL), 0);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	litmus.flags[FOUR] = true;
	(void)!nam_txn_run(self->worker, tables->store, move_and_count, tables, NULL, NULL);
	tables_close(self, tables);
}

static void
die_here(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

static struct tables *
await_death(struct actor *self)
{
	struct tables *tables = arrive(self);

	litmus.flags[ONE] = true;
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	return tables;
}

/* No row of it is there. */
static void
look_undone(struct actor *self)
{
	struct tables *tables = await_death(self);
	struct seen seen = { .tables = tables };
	uint64_t end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;
	int rc;

	do {
		rc = nam_txn_run(self->worker, tables->store, look, &seen, NULL, NULL);
	} while (rc == -NAM_E_CONFLICT && nam_now_ns() < end_ns);
	expect_rc("scans", rc, 0);
	if (seen.in_aa != 1 || seen.in_bb || seen.of_aa || seen.of_bb)
		litmus_fail("part of a transaction that was not committed: %u %u %u %u",
			seen.in_aa, seen.in_bb, seen.of_aa, seen.of_bb);
	expect_rc("a count", nam_txn_run(self->worker, tables->store, move_and_count, tables, NULL,
		NULL), 0);
	expect_numbers(self, tables, 1);
	tables_close(self, tables);
}

static void
look_done(struct actor *self)
{
	struct tables *tables = await_death(self);

	expect_numbers(self, tables, 1);
	tables_close(self, tables);
}

/* ---- verification ---------------------------------------------------------------------------- */

static void
move_all_the_time(struct actor *self)
{
	struct tables *tables = make(self);

	expect_rc("the first row", move(self, tables, &aa), 0);
	litmus.flags[SEEN] = true;
	for (unsigned i = 0; !litmus.flags[ONE] && i < MOVES_MAX; i++)
		expect_rc("a row", move(self, tables, i % 2 ? &aa : &bb), 0);
	tables_close(self, tables);
}

static void
verify_meanwhile(struct actor *self)
{
	struct tables *tables = arrive(self);
	struct nam_table_stat stat;
	uint64_t count;

	/* Entries come and go meanwhile. */
	for (unsigned i = 0; i < 20; i++)
		if (nam_table_verify(self->worker, tables->people, NULL, NULL, &stat, &count) &&
			!nam_sim_zombie())
			litmus_fail("a verification: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	tables_close(self, tables);
}

static void
read_in_two(struct actor *self)
{
	(void)self;
	nam_sim_delay_next(NAM_WR_READ, HALF, LATE_NS);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_rows_cases[] = {
	{ { "rows_phantom", 0, { NULL, count_slowly, come_meanwhile }, { { 0 } } },
		"rows: one comes into the range of a scan before the commit of another table's row",
		2, 0 },
	{ { "rows_dies_entered", 0, { NULL, move_and_die, look_undone },
		{ { "serial.entered", A, die_here } } },
		"rows: a coordinator dies with entries of one table, before its log", 2, 0 },
	{ { "rows_dies_logged", 0, { NULL, move_and_die, look_done },
		{ { "serial.logged", A, die_here } } },
		"rows: a coordinator dies after its log, before it writes rows of two tables", 2,
		0 },
	{ { "rows_verified", 0, { NULL, move_all_the_time, verify_meanwhile },
		{ { "table.verify", B, read_in_two } } },
		"rows: a table is verified while a row is written all the time", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
