/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_dropped.c -- scenes in which a record store is dropped beside a writer. */
#include "txn/records.h"
#include "txn/records/txn_internal.h"
#include "txn/sweep.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define BLOCKS 64u			/* that each client allocates in the end */

static uint64_t blocks[2][BLOCKS];
static uint32_t version_stride;

/* All that was given back can be allocated, once. */
static void
blocks_take(struct actor *self, unsigned which, uint32_t stride)
{
	struct nam_gaddr at;

	litmus_limbo_empty(self);
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (nam_alloc_on(self->worker, 0, stride, &at))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
		blocks[which][i] = nam_gaddr_untagged(at).raw;
	}
}

static void
blocks_compare(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned k = 0; k < BLOCKS; k++)
			if (blocks[0][i] == blocks[1][k])
				litmus_fail("a block belongs to two clients");
}

static void
hold_for_drop(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
write_beside_drop(struct actor *self, const struct nam_records_options *options)
{
	struct nam_records *records = litmus_store_make(self, options);
	uint64_t timestamp, number = 0, at;
	int rc;

	litmus_put(self, records, X, 1, 1);
	at = litmus_record_at(records, X);
	litmus.flags[ONE] = true;
	rc = litmus_try_put(self, records, X, 1, 2, &timestamp);
	litmus.flags[ONE] = false;
	if (rc != -NAM_E_DROPPED)
		litmus_fail("put: %s", nam_err_name(rc));
	rc = litmus_try_get(self, records, X, 1, &number);
	if (rc != -NAM_E_DROPPED)
		litmus_fail("get: %s, %llu", nam_err_name(rc), (unsigned long long)number);
	nam_records_close(records);
	litmus.flags[FOUR] = true;
	blocks_take(self, 0, nam__version_stride(nam__version_at_bytes(NAM_GADDR(at))));
	litmus_await(FIVE);
	blocks_compare();
}

static void
write_beside_drop_onesided(struct actor *self)
{
	write_beside_drop(self, NULL);
}

static void
write_beside_drop_served(struct actor *self)
{
	const struct nam_records_options options = { .algorithm = NAM_RAMP_FAST,
		.commit = NAM_RECORDS_SERVED };

	write_beside_drop(self, &options);
}

/* X and Y lie on one memory server, whose handler is held between them. */
static void
write_both_locked(struct actor *self)
{
	const struct nam_records_options options = { .algorithm = NAM_RAMP_LOCKING,
		.commit = NAM_RECORDS_SERVED };
	struct nam_records *records = litmus_store_make(self, &options);
	uint64_t timestamp;
	int rc;

	litmus_put(self, records, X, 2, 1);
	version_stride = nam__version_stride(nam__version_at_bytes(NAM_GADDR(
		litmus_record_at(records, X))));
	litmus.flags[ONE] = true;
	rc = litmus_try_put(self, records, X, 2, 2, &timestamp);
	litmus.flags[ONE] = false;
	if (rc != -NAM_E_DROPPED)
		litmus_fail("put: %s", nam_err_name(rc));
	nam_records_close(records);
	litmus.flags[FOUR] = true;
	blocks_take(self, 0, version_stride);
	litmus_await(FIVE);
	blocks_compare();
}

static void
drop_beside_handler(struct actor *self)
{
	litmus_await(TWO);
	if (nam_records_drop(self->worker, LITMUS_STORE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	blocks_take(self, 1, version_stride);
	litmus.flags[FIVE] = true;
}

static void
drop_beside_writer(struct actor *self)
{
	struct nam_records *records;
	uint64_t number, at;

	litmus_await(TWO);
	records = litmus_store_open(self, STORE_BYTES);
	if (litmus_try_get(self, records, X, 1, &number))
		litmus_fail("get: %s", nam_worker_diag(self->worker));
	at = litmus_record_at(records, X);
	nam_records_close(records);
	if (nam_records_drop(self->worker, LITMUS_STORE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	blocks_take(self, 1, nam__version_stride(nam__version_at_bytes(NAM_GADDR(at))));
	litmus.flags[FIVE] = true;
}

/* ---- a dropper that dies, and a sweep -------------------------------------------------------- */

static void
drop_and_die(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);
	struct nam_gaddr at;

	litmus_put(self, records, X, 1, 1);
	version_stride = nam__version_stride(nam__version_at_bytes(NAM_GADDR(
		litmus_record_at(records, X))));
	nam_records_close(records);
	/* So its run is no other stride's. */
	for (unsigned i = 0; i < 2; i++)
		if (nam_alloc(self->worker, version_stride, &at) || nam_keep(self->worker, at))
			litmus_fail("keep: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	(void)!nam_records_drop(self->worker, LITMUS_STORE);
}

static void
sweep_unnamed(struct actor *self)
{
	struct nam_sweep_stat stat = { .entries = 0 };

	litmus_await(ONE);
	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	if (nam_sweep(self->worker, false, &stat))
		litmus_fail("sweep: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	if (!litmus.flags[INSERTED])
		return;
	/* Its writer has ended, and the version may be used again. */
	litmus_await(TWO);
	litmus_take(self, version_stride, BLOCKS);
	litmus.flags[ONE] = false;
	litmus.flags[FIVE] = true;
	litmus_await(ONE);
	litmus_expect_taken(self);
}

/* C has a handle of the store. */
static struct nam_records *
open_early(struct actor *self)
{
	struct nam_records *records;
	uint64_t number;

	litmus_await(TWO);
	records = litmus_store_open(self, STORE_BYTES);
	if (litmus_try_get(self, records, X, 1, &number))
		litmus_fail("get: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = false;
	litmus.flags[THREE] = true;
	return records;
}

static void
write_stale(struct actor *self)
{
	struct nam_records *records = open_early(self);
	uint64_t timestamp;
	int rc;

	litmus_await(FOUR);
	rc = litmus_try_put(self, records, X, 1, 2, &timestamp);
	if (rc != -NAM_E_DROPPED)
		litmus_fail("put: %s", nam_err_name(rc));
	nam_records_close(records);
}

/* It has READ the head when the sweep comes to it. */
static void
write_stale_late(struct actor *self)
{
	struct nam_records *records = open_early(self);
	struct nam_gaddr at;
	uint64_t timestamp;

	litmus_await(INSERTED);
	(void)!litmus_try_put(self, records, X, 1, 2, &timestamp);
	nam_records_close(records);
	litmus.flags[TWO] = true;
	litmus_await(FIVE);
	litmus_limbo_empty(self);
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (nam_alloc(self->worker, version_stride, &at))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
		litmus_fill(self, at, version_stride, UINT64_MAX);
	}
	litmus.flags[ONE] = true;
}

static void
let_write(struct actor *self)
{
	(void)self;
	if (litmus.flags[INSERTED])
		return;
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
}

static void
hold_for_sweep(struct actor *self)
{
	(void)self;
	if (!litmus.flags[INSERTED] || litmus.flags[SEEN])
		return;
	litmus.flags[SEEN] = true;
	litmus_await_for(FOUR, LITMUS_SHORT_NS);
}

const struct litmus_case litmus_dropped_cases[] = {
	{ { "dropped_commit", 0, { NULL, write_beside_drop_onesided, drop_beside_writer },
		{ { "records.commit", A, hold_for_drop } } },
		"a store is dropped before a writer commits", 2, 0 },
	{ { "dropped_prepared", 0, { NULL, write_beside_drop_served, drop_beside_writer },
		{ { "records.prepared", A, hold_for_drop } } },
		"the same, if memory servers commit", 2, 0 },
	{ { "dropped_locked", 0, { NULL, write_both_locked, drop_beside_handler },
		{ { "locking.prepare_one", SERVER, hold_for_drop } } },
		"the same under locks, and the memory server has prepared half", 1,
		LITMUS_HYBRID_HASH },
	{ { "sweep_stale", 0, { NULL, drop_and_die, sweep_unnamed, write_stale },
		{ { "records.unnamed", A, litmus_die_here } } },
		"a client dies when it has taken the names of a store away, and another one that "
		"knows a head writes after a sweep", 2, 0 },
	{ { "sweep_stale_late", 0, { NULL, drop_and_die, sweep_unnamed, write_stale_late },
		{ { "records.unnamed", A, litmus_die_here }, { "sweep.reported", B, let_write },
			{ "records.commit", C, hold_for_sweep } } },
		"the same, and it has READ the head before", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
