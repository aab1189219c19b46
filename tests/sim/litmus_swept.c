/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_swept.c -- scenes about sweeps beside record stores and tables.  They concern heads,
 * versions and entries of a dead client that records lead to, that a living one takes out, or that
 * it commits.
 *
 * After a sweep many blocks of a version's size are used, free ones first, and filled with a number
 * each.  A version that was freed does not verify, and a block with two users shows another number.
 */
#include <string.h>

#include "common/guard.h"
#include "index/index.h"
#include "kv/kv.h"
#include "txn/records/txn_internal.h"
#include "txn/sweep.h"
#include "txn/table.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define TOGETHER 2u			/* X and Y */
#define LATE_NS 200000u
#define AHEAD_US (1ull << 50)		/* of any clock */
#define KEEP_NS (NAM_RECORDS_KEEP_NS + 10000000u)
#define TAKEN 256u
#define KEPT_STRIDE 192u
#define KEPT_NUMBER 77u
#define TABLE "litmus-swept"
#define TREE "litmus-tree"
#define PAIRS "litmus-pairs"
#define EPOCHS 8u			/* until what was retired is used again */
#define EPOCH_NS 12000000u
#define LEFT 1u
#define RIGHT 9u

static uint32_t stride;			/* of the blocks that are taken */
static struct nam_gaddr kept;

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The stride of the versions of this store's records. */
static uint32_t
stride_of(struct nam_records *records)
{
	struct nam__address address = { .at = NAM_GADDR_NULL };
	struct nam__record_id id = nam__record_id(litmus_record_key(X),
		(uint32_t)strlen(litmus_record_key(X)));

	if (!nam__addresses_find(records->addresses, &id, &address))
		sim_die("no address of X");
	return nam__version_stride(nam__version_at_bytes(address.at));
}

/* Blocks that this client has retired are used again. */
static void
use_retired(struct actor *self)
{
	struct nam_gaddr block;

	litmus_limbo_empty(self);
	for (unsigned i = 0; i < TAKEN / 4; i++) {
		if (nam_alloc(self->worker, stride, &block))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
		litmus_fill(self, block, stride, UINT64_MAX);
	}
}

/* ---- how scenes begin ------------------------------------------------------------------------ */

static struct nam_records *
make(struct actor *self, enum nam_records_commit commit)
{
	struct nam_records_options options;
	struct nam_records *records;

	nam_records_options_init(&options);
	options.commit = commit;
	records = litmus_store_make(self, &options);
	litmus_put(self, records, X, TOGETHER, 1);
	stride = stride_of(records);
	return records;
}

static void
make_and_die_by(struct actor *self, enum nam_records_commit commit)
{
	struct nam_records *records = make(self, commit);

	if (nam_alloc(self->worker, KEPT_STRIDE, &kept) || nam_keep(self->worker, kept))
		litmus_fail("keep: %s", nam_worker_diag(self->worker));
	litmus_write_word(self, kept, KEPT_NUMBER);
	litmus_die_here(self);
	nam_records_close(records);
}

static void
make_and_die(struct actor *self)
{
	make_and_die_by(self, NAM_RECORDS_ONESIDED);
}

static void
make_served_and_die(struct actor *self)
{
	make_and_die_by(self, NAM_RECORDS_SERVED);
}

static void
await_death(struct actor *self)
{
	litmus_await(ONE);
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
}

static uint64_t
try_sweep(struct actor *self)
{
	struct nam_sweep_stat stat = { .entries = 0 };
	int rc = nam_sweep(self->worker, false, &stat);

	if (rc)
		litmus_fail("sweep: %s: %s", nam_err_name(rc), nam_worker_diag(self->worker));
	return stat.freed.blocks;
}

static void
sweep(struct actor *self)
{
	if (!try_sweep(self))
		litmus_fail("the dead client's block cache is not freed");
}

static void
sweep_and_take(struct actor *self)
{
	sweep(self);
	litmus_take(self, stride, TAKEN);
	litmus.flags[THREE] = true;
}

/* ---- versions that records lead to; and a block that was to be kept -------------------------- */

static void
sweep_and_end(struct actor *self)
{
	await_death(self);
	sweep_and_take(self);
	litmus_await(FOUR);
	litmus_expect_taken(self);
}

static void
find_all(struct actor *self)
{
	struct nam_records *records;

	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	records = litmus_store_open(self, STORE_BYTES);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus_put(self, records, X, 1, 2);
	litmus_expect_records(self, records, Y, 1, 1);
	nam_records_close(records);
	if (litmus_read_word(self, kept) != KEPT_NUMBER)
		litmus_fail("a block that was to be kept was freed");
	litmus.flags[FOUR] = true;
}

/* ---- a version that a memory server keeps for readers ---------------------------------------- */

static void
replace_served(struct actor *self)
{
	struct nam_records *records;

	await_death(self);
	records = litmus_store_open(self, STORE_BYTES);
	litmus_put(self, records, X, 1, 2);
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	nam_sleep_ns(KEEP_NS);
	/* The memory server lists the first version. */
	litmus_put(self, records, X, 1, 3);
	use_retired(self);
	nam_records_close(records);
	litmus.flags[FOUR] = true;
}

static void
sweep_replaced(struct actor *self)
{
	await_death(self);
	litmus_await(TWO);
	sweep_and_take(self);
	litmus_await_for(FOUR, 8 * LITMUS_TIMEOUT_NS);
	litmus_expect_taken(self);
}

/* ---- the proof that a dead client's transaction is committed --------------------------------- */

static void
write_locked(struct actor *self)
{
	static const struct nam_records_options options = { NAM_RAMP_LOCKING, NAM_RECORDS_SERVED };
	struct nam_records *records = litmus_store_make(self, &options);

	litmus_put(self, records, X, TOGETHER, 1);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* X, on the first memory server, stays locked; Y is committed. */
static void
die_between_ends(struct actor *self)
{
	if (!litmus.flags[FOUR] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_delay_next(NAM_WR_SEND, 0, 2 * KEEP_NS);
	nam_sim_call_after(LATE_NS, litmus_die, self);
}

/* Y's version stays in the chain as the proof; X would be aborted without it. */
static void
replace_and_expire(struct actor *self)
{
	struct nam_records *records;

	await_death(self);
	records = litmus_store_open(self, 0);
	litmus_put(self, records, Y, 1, 3);
	nam_sleep_ns(KEEP_NS);
	litmus_put(self, records, Y, 1, 4);
	sweep(self);
	litmus_expect_records(self, records, X, 1, 2);
	nam_records_close(records);
}

static void
end_without_proof(struct actor *self)
{
	struct nam_records *records = litmus_store_open(self, 0);
	struct nam_records_stat stat = { 0 };

	if (nam_records_collect(self->worker, records, NULL) ||
		nam_records_stat(self->worker, records, &stat) || stat.others > 1)
		litmus_fail("%llu versions are left", (unsigned long long)stat.others);
	nam_records_close(records);
}

/* ---- half of a transaction, which a reader completes ----------------------------------------- */

static void
write_half(struct actor *self)
{
	struct nam_records *records = make(self, NAM_RECORDS_ONESIDED);

	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* Y, on another memory server, is moved, and X is not. */
static void
die_halfway(struct actor *self)
{
	if (!litmus.flags[FOUR] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_delay_next(NAM_WR_CAS, 0, LATE_NS);
	nam_sim_call_after(LATE_NS / 2, litmus_die, self);
}

static void
sweep_half(struct actor *self)
{
	litmus_await(INSERTED);
	litmus.flags[SEEN] = true;
	await_death(self);
	sweep_and_take(self);
}

/* The lead has seen its session end; other memory servers may not have seen anything. */
static void
sweep_half_soon(struct actor *self)
{
	litmus_await(INSERTED);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	litmus_await_state(self, A, NAM_CLIENT_FENCING);
	(void)try_sweep(self);
	litmus_take(self, stride, TAKEN);
	litmus.flags[THREE] = true;
}

static void
read_half(struct actor *self)
{
	struct nam_records *records;

	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	records = litmus_store_open(self, 0);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	litmus_expect_records(self, records, X, 1, 2);
	nam_records_close(records);
}

/* ---- the same, and the reader has met it before the sweep ------------------------------------ */

static void
complete_slowly(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE] || litmus.flags[FIVE])
		return;
	litmus.flags[FIVE] = true;
	litmus_await_for(THREE, LITMUS_TIMEOUT_NS);
}

static void
read_slowly(struct actor *self)
{
	struct nam_records *records;

	litmus_await(INSERTED);
	records = litmus_store_open(self, 0);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[SEEN] = true;
	await_death(self);
	(void)litmus_get(self, records, X, TOGETHER);
	nam_records_close(records);
}

/* All is marked. */
static void
let_complete(struct actor *self)
{
	(void)self;
	litmus.flags[THREE] = true;
}

/* Y shows nothing of the transaction any more. */
static void
replace_and_sweep(struct actor *self)
{
	struct nam_records *records;

	litmus_await(INSERTED);
	await_death(self);
	litmus_await(FIVE);
	records = litmus_store_open(self, 0);
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, Y, 1, 3);
	nam_records_close(records);
	sweep(self);
	litmus_take(self, stride, TAKEN);
}

static void
end_completed(struct actor *self)
{
	struct nam_records *records = litmus_store_open(self, 0);

	litmus_expect_records(self, records, X, 1, 2);
	litmus_expect_records(self, records, Y, 1, 3);
	nam_records_close(records);
}

/* ---- a store that is being dropped ----------------------------------------------------------- */

static void
hold_drop(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, LITMUS_TIMEOUT_NS);
}

static void
drop_slowly(struct actor *self)
{
	await_death(self);
	stride = NAM_RECORD_HEAD_BYTES;
	if (nam_records_drop(self->worker, LITMUS_STORE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	use_retired(self);
	litmus.flags[FOUR] = true;
}

/* ---- entries of a row that was never committed ----------------------------------------------- */

static int
put_row(struct actor *self, struct nam_table *table, const char *key, uint8_t side)
{
	const struct nam_bytes column = { &side, 1 };
	const struct nam_table_write write = { table, { key, 2 }, &column };

	return nam_table_write(self->worker, &write, 1, NULL);
}

static struct nam_table *
table_open(struct actor *self)
{
	struct nam_table *table = NULL;

	if (nam_table_open(self->worker, TABLE, 0, &table) && !nam_sim_zombie())
		sim_die("the table: %s", nam_worker_diag(self->worker));
	return table;
}

static void
table_make(struct actor *self)
{
	static const struct nam_table_schema schema = { .columns = { "side" },
		.columns_count = 1, .indexes = { { 0, 1 } }, .indexes_count = 1 };

	if (nam_table_create(self->worker, TABLE, &schema) && !nam_sim_zombie())
		sim_die("the table: %s", nam_worker_diag(self->worker));
}

static void
write_row(struct actor *self)
{
	struct nam_table *table;

	table_make(self);
	table = table_open(self);
	if (put_row(self, table, "k0", LEFT) || put_row(self, table, "k1", RIGHT))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	(void)put_row(self, table, "k0", RIGHT);
	nam_table_close(self->worker, table);
}

static void
die_prepared(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

static void
expect_side(struct actor *self, struct nam_table *table, uint8_t side)
{
	const struct nam_table_range range = { .low = { &side, 1 }, .high = { &side, 1 } };
	struct nam_table_rows *rows = nam_table_rows_new();
	int rc = rows ? nam_table_scan(self->worker, table, &range, rows) : -1;

	if (rc || nam_table_rows_count(rows) != 1)
		litmus_fail("scan: %s, %u rows are on side %u", nam_err_name(rc),
			rows ? nam_table_rows_count(rows) : 0, side);
	nam_table_rows_free(rows);
}

static void
sweep_row(struct actor *self)
{
	struct nam_table_stat stat = { 0 };
	struct nam_table *table;
	uint64_t violations = 0;

	await_death(self);
	sweep(self);
	table = table_open(self);
	if (nam_table_verify(self->worker, table, NULL, NULL, &stat, &violations))
		litmus_fail("verify: %s", nam_worker_diag(self->worker));
	if (violations || stat.stale)
		litmus_fail("%llu violations, %llu entries lead to nothing",
			(unsigned long long)violations, (unsigned long long)stat.stale);
	expect_side(self, table, LEFT);
	expect_side(self, table, RIGHT);
	nam_table_close(self->worker, table);
}

/* ---- tables without a name ------------------------------------------------------------------- */

static void
drop_table(struct actor *self)
{
	struct nam_table *table;

	table_make(self);
	table = table_open(self);
	if (put_row(self, table, "k0", LEFT))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	nam_table_close(self->worker, table);
	(void)!nam_table_drop(self->worker, TABLE);
}

/* Its parts have no name yet, or none any more. */
static void
make_again(struct actor *self)
{
	struct nam_table *table;

	await_death(self);
	sweep(self);
	table_make(self);
	table = table_open(self);
	if (put_row(self, table, "k1", RIGHT))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	expect_side(self, table, RIGHT);
	nam_table_close(self->worker, table);
}

/* A drop that has read the superblock, and finds another table of that name. */
static void
drop_too_late(struct actor *self)
{
	int rc;

	table_make(self);
	litmus.flags[ONE] = true;
	rc = nam_table_drop(self->worker, TABLE);
	if (rc != -NAM_E_NOINDEX)
		litmus_fail("drop: %s", nam_err_name(rc));
	litmus.flags[FOUR] = true;
}

static void
hold_found(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, LITMUS_TIMEOUT_NS);
}

static void
make_in_place(struct actor *self)
{
	struct nam_table *table;
	uint64_t reusable;

	litmus_await(TWO);
	if (nam_table_drop(self->worker, TABLE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	for (unsigned i = 0; i < EPOCHS; i++) {
		if (nam__limbo_advance(self->worker, &reusable))
			sim_die("the limbo: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(EPOCH_NS);
	}
	table_make(self);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	table = table_open(self);
	if (put_row(self, table, "k1", RIGHT))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	expect_side(self, table, RIGHT);
	nam_table_close(self->worker, table);
}

/* ---- trees and stores on memory servers, with a name and without ----------------------------- */

static int
tree_make(struct actor *self, const char *name)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.design = NAM_DESIGN_COARSE;
	return nam_index_create(self->worker, name, &options);
}

static void
make_objects(struct actor *self)
{
	struct nam_kv_options options;
	struct nam_index *index;
	uint64_t key = 1;
	struct nam_kv *kv;

	nam_kv_options_init(&options);
	options.memory_bytes = 1u << 20;
	if (tree_make(self, TREE) || nam_index_open(self->worker, TREE, 0, &index) ||
		nam_index_insert(self->worker, index, &key, 2))
		sim_die("the index: %s", nam_worker_diag(self->worker));
	if (nam_kv_create(self->worker, PAIRS, &options) ||
		nam_kv_open(self->worker, PAIRS, &kv) ||
		nam_kv_put(self->worker, kv, "k", 1, "v", 1))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	(void)tree_make(self, "unnamed");
	nam_index_close(index);
	nam_kv_close(kv);
}

/* Its parts are there, on both memory servers. */
static void
die_unnamed(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

/* It dies on the way. */
static void
make_and_drop_store(struct actor *self)
{
	struct nam_kv_options options;

	nam_kv_options_init(&options);
	options.memory_bytes = 1u << 20;
	litmus_await(ONE);
	if (!nam_kv_create(self->worker, "unnamed", &options))
		(void)!nam_kv_drop(self->worker, "unnamed");
}

static void
store_die_unnamed(struct actor *self)
{
	litmus.flags[TWO] = true;
	nam_sim_process_kill(self->process);
}

static void
expect_parts(struct actor *self, bool dry, uint64_t expected)
{
	struct nam_sweep_stat stat = { .entries = 0 };

	if (nam_sweep(self->worker, dry, &stat))
		litmus_fail("sweep: %s", nam_worker_diag(self->worker));
	if (stat.parts != expected)
		litmus_fail("%llu parts have no name, and not %llu", (unsigned long long)stat.parts,
			(unsigned long long)expected);
}

static void
sweep_objects(struct actor *self)
{
	uint64_t key = 1, payload = 0;
	struct nam_index *index = NULL;
	struct nam_kv *kv = NULL;
	uint32_t bytes = 0;
	char value = 0;

	await_death(self);
	litmus_await(TWO);
	litmus_await_state(self, C, NAM_CLIENT_DEAD);
	expect_parts(self, true, 4);
	expect_parts(self, false, 4);
	expect_parts(self, false, 0);
	if (nam_index_open(self->worker, TREE, 0, &index) ||
		nam_index_lookup(self->worker, index, &key, &payload) || payload != 2)
		litmus_fail("the index: %s", nam_worker_diag(self->worker));
	if (nam_kv_open(self->worker, PAIRS, &kv) ||
		nam_kv_get(self->worker, kv, "k", 1, &value, 1, &bytes) || value != 'v')
		litmus_fail("the store: %s", nam_worker_diag(self->worker));
	nam_index_close(index);
	nam_kv_close(kv);
}

const struct litmus_case litmus_swept_cases[] = {
	{ { "sweep_records", 0, { NULL, make_and_die, sweep_and_end, find_all }, { { 0 } } },
		"a client dies, and others read and write the records that it has put", 2, 0 },
	{ { "sweep_chain", 0, { NULL, make_served_and_die, sweep_replaced, replace_served },
		{ { 0 } } },
		"the same, served, and one was replaced and is kept for readers", 2, 0 },
	{ { "sweep_proof", 0, { end_without_proof, write_locked, replace_and_expire },
		{ { "records.prepared", A, die_between_ends } } },
		"a client dies between two commits under locks, and its version is replaced", 2,
		0 },
	{ { "sweep_half", 0, { NULL, write_half, sweep_half, read_half },
		{ { "records.commit", A, die_halfway } } },
		"a client dies with half of a transaction, and a reader comes after the sweep", 2,
		0 },
	{ { "sweep_fencing", 0, { NULL, write_half, sweep_half_soon, read_half },
		{ { "records.commit", A, die_halfway } } },
		"the same, and the sweep is made at once", 2, 0 },
	{ { "sweep_reader", 0, { end_completed, write_half, replace_and_sweep, read_slowly },
		{ { "records.commit", A, die_halfway }, { "records.commit", C, complete_slowly },
			{ "sweep.marked", B, let_complete } } },
		"the same, and the reader has met it before; then the other half is replaced", 2,
		0 },
	{ { "sweep_dropped", 0, { NULL, make_and_die, sweep_replaced, drop_slowly },
		{ { "records.unnamed", C, hold_drop } } },
		"a store with a dead client's records is dropped, and has no name any more", 2, 0 },
	{ { "sweep_entries", 0, { NULL, write_row, sweep_row },
		{ { "records.prepared", A, die_prepared } } },
		"a client dies between the entry of a row and its commit", 2, 0 },
	{ { "table_unmade", 0, { NULL, table_make, make_again },
		{ { "records.written", A, litmus_die_here } } },
		"a client dies before a table has its names, and another one makes it", 2, 0 },
	{ { "table_undropped", 0, { NULL, drop_table, make_again },
		{ { "table.unnamed", A, litmus_die_here } } },
		"a client dies when it has dropped a table's names, and another one makes it", 2,
		0 },
	{ { "table_remade", 0, { NULL, drop_too_late, make_in_place },
		{ { "table.found", A, hold_found } } },
		"a table is dropped and made again while another client drops it", 1, 0 },
	{ { "sweep_objects", 0, { NULL, make_objects, sweep_objects, make_and_drop_store },
		{ { "create.written", A, die_unnamed }, { "kv.created", C, store_die_unnamed } } },
		"a client dies before a tree has a name, and one before a key-value store has", 2,
		0 },
	{ { "sweep_undropped", 0, { NULL, make_objects, sweep_objects, make_and_drop_store },
		{ { "create.written", A, die_unnamed }, { "kv.unnamed", C, store_die_unnamed } } },
		"the same, and one when it has taken the name of a key-value store away", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
