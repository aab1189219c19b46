/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_dropped.c -- scenes in which a record store is dropped beside a writer. */
#include "txn/records.h"
#include "txn/records/txn_internal.h"
#include "litmus_records.h"

#define STORE_BYTES (1u << 20)
#define BLOCKS 64u			/* that each client allocates in the end */

static uint64_t blocks[2][BLOCKS];

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
hold_for_drop(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE])
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
	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned k = 0; k < BLOCKS; k++)
			if (blocks[0][i] == blocks[1][k])
				litmus_fail("a block belongs to two clients");
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

const struct litmus_case litmus_dropped_cases[] = {
	{ { "dropped_commit", 0, { NULL, write_beside_drop_onesided, drop_beside_writer },
		{ { "records.commit", A, hold_for_drop } } },
		"a store is dropped before a writer commits", 2, 0 },
	{ { "dropped_prepared", 0, { NULL, write_beside_drop_served, drop_beside_writer },
		{ { "records.prepared", A, hold_for_drop } } },
		"the same, if memory servers commit", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
