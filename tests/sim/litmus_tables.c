/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_tables.c -- scenes about tables: results of scans while rows change places in an index.
 *
 * There is a pair of rows, one on the left and one on the right; a change of places is one
 * transaction.  So each half of the index has one row of the pair, at any moment.
 */
#include <stdio.h>
#include <string.h>

#include "txn/table/rows_internal.h"
#include "litmus.h"

#define TABLE "litmus-table"
#define CACHE_BYTES (1u << 20)
#define LATE_NS 200000u
#define SLOW_TIMES 100u
#define SETTLE_NS 3000000000ull
#define AHEAD_US (1ull << 50)		/* of any clock */
#define LEFT 1u
#define RIGHT 9u

/* The second lies on another memory server. */
static char keys[2][8];

/* ---- operations ------------------------------------------------------------------------------ */

static uint32_t
key_of(const struct nam_table *table, const char *key, uint8_t *ret_record_key)
{
	const struct nam_bytes bytes = { key, (uint32_t)strlen(key) };

	return nam__row_key(table, &bytes, ret_record_key);
}

static void
keys_choose(const struct nam_table *table)
{
	const struct nam_client *client = table->store->records->client;
	uint32_t is;
	uint8_t record_key[NAM_RECORD_KEY_BYTES_MAX];
	unsigned number = 0;

	for (unsigned i = 0; i < 2; i++)
		do {
			(void)snprintf(keys[i], sizeof(keys[i]), "k%u", number++);
			is = nam_alloc_slot(client, (uint32_t)(nam__record_id(record_key,
				key_of(table, keys[i], record_key)).word[0] >> 32));
		} while (is != (i ? client->servers_count - 1 : 0));
}

static struct nam_table *
table_open(struct actor *self)
{
	struct nam_table *table = NULL;

	if (nam_table_open(self->worker, TABLE, CACHE_BYTES, &table) && !nam_sim_zombie())
		sim_die("the table: %s", nam_worker_diag(self->worker));
	return table;
}

/* The rows from `from` down to `to` by one transaction, each to its side. */
static int
put(struct actor *self, struct nam_table *table, unsigned from, unsigned to, const uint8_t *sides)
{
	struct nam_table_write writes[2];
	struct nam_bytes columns[2];
	uint32_t count = 0;
	int rc;

	for (unsigned i = from + 1; i-- > to; count++) {
		columns[count] = (struct nam_bytes){ &sides[i], 1 };
		writes[count] = (struct nam_table_write){ table,
			{ keys[i], (uint32_t)strlen(keys[i]) }, &columns[count] };
	}
	rc = nam_table_write(self->worker, writes, count, NULL);
	if (!nam_sim_zombie())
		nam_sim_note("write of %u: %s", count, nam_err_name(rc));
	return rc;
}

static void
expect_one(struct actor *self, struct nam_table *table, uint8_t side)
{
	const struct nam_table_range range = { .low = { &side, 1 }, .high = { &side, 1 } };
	struct nam_table_rows *rows = nam_table_rows_new();
	int rc = rows ? nam_table_scan(self->worker, table, &range, rows) : -1;

	if (nam_sim_zombie())
		return;
	if (rc)
		litmus_fail("scan: %s, %s", nam_err_name(rc), nam_worker_diag(self->worker));
	else if (nam_table_rows_count(rows) != 1)
		litmus_fail("%u rows are on side %u", nam_table_rows_count(rows), side);
	nam_table_rows_free(rows);
}

/* ---- a writer with a claim is outrun by one that dies ---------------------------------------- */

static struct {
	struct nam_gaddr at;		/* of the version that is to be replaced */
	uint64_t timestamp;
	bool slow;
} replaced;

static void
replaced_learn(const struct nam_table *table)
{
	uint8_t record_key[NAM_RECORD_KEY_BYTES_MAX];
	uint32_t bytes = key_of(table, keys[0], record_key);
	struct nam__record_id id = nam__record_id(record_key, bytes);
	struct nam__address address = { .at = NAM_GADDR_NULL };

	if (!nam__addresses_find(table->store->records->addresses, &id, &address))
		sim_die("no cached address leads to the row");
	replaced.at = address.at;
	replaced.timestamp = address.timestamp;
	replaced.slow = false;
}

static void
die(void *arg)
{
	struct actor *self = arg;

	nam_sim_process_kill(self->process);
	litmus.flags[FIVE] = true;
}

/* Once the other has claimed the first row's version: that row quickly, the second not at all. */
static void
outrun_and_die(struct actor *self)
{
	uint64_t *current;

	if (!litmus.flags[ONE] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	current = nam_buffer_take(self->worker, sizeof(*current));
	if (!current)
		sim_die("no memory");
	do
		if (nam_read_await(self->worker, replaced.at, current, sizeof(*current)))
			litmus_fail("read: %s", nam_worker_diag(self->worker));
	while (*current == replaced.timestamp && !litmus.failed);
	nam_buffer_give(self->worker, current, sizeof(*current));
	nam_sim_delay_next(NAM_WR_CAS, 0, LATE_NS);
	nam_sim_call_after(LATE_NS / 2, die, self);
}

/* Prepared before the other begins; then so slowly that the other comes between claim and head. */
static void
be_outrun(struct actor *self)
{
	if (!litmus.flags[FOUR])
		return;
	if (!litmus.flags[ONE]) {
		litmus.flags[ONE] = true;
		litmus_await(TWO);
		nam_sim_process_slow(self->process, SLOW_TIMES);
		replaced.slow = true;
	} else if (replaced.slow) {
		nam_sim_process_slow(self->process, 1);
		replaced.slow = false;
	}
}

static void
change_places(struct actor *self)
{
	static const struct nam_table_schema schema = { .columns = { "side" },
		.columns_count = 1, .indexes = { { 0, 1 } }, .indexes_count = 1 };
	static const uint8_t before[] = { LEFT, RIGHT }, after[] = { RIGHT, LEFT };
	struct nam_table *table;

	if (nam_table_create(self->worker, TABLE, &schema))
		sim_die("the table: %s", nam_worker_diag(self->worker));
	table = table_open(self);
	keys_choose(table);
	/* Each by itself, or a remaining entry of one would lead to the other. */
	if (put(self, table, 0, 0, before) || put(self, table, 1, 1, before))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	replaced_learn(table);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	/* Later than the versions of the other, by any clock. */
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	(void)put(self, table, 1, 0, after);
	nam_table_close(self->worker, table);
}

/* The first row stays where it was; its replaced version is swept as soon as may be. */
static void
write_first(struct actor *self)
{
	static const uint8_t stays[] = { LEFT };
	struct nam_table *table;

	litmus_await(THREE);
	table = table_open(self);
	litmus.flags[FOUR] = true;
	if (put(self, table, 0, 0, stays) && !nam_sim_zombie())
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	litmus_await(FIVE);
	if (nam_table_vacuum(self->worker, table))
		litmus_fail("vacuum: %s", nam_worker_diag(self->worker));
	litmus.flags[INSERTED] = true;
	nam_table_close(self->worker, table);
}

static void
scan_halves(struct actor *self)
{
	struct nam_table *table;

	litmus_await_for(INSERTED, SETTLE_NS);
	table = table_open(self);
	expect_one(self, table, LEFT);
	expect_one(self, table, RIGHT);
	nam_table_close(self->worker, table);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_table_cases[] = {
	{ { "table_outrun", 0, { NULL, change_places, write_first, scan_halves },
		{ { "records.commit", A, outrun_and_die }, { "records.commit", B, be_outrun } } },
		"tables: a writer with a claim is outrun by one that dies half-way", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
