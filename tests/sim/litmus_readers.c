/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_readers.c -- scenes of a client with a reader's key, actor C.  It finds its way around
 * what writers left half done, and leaves that as it is.
 */
#include <string.h>

#include "common/rpc/alloc_rpc.h"
#include "common/rpc/fence_rpc.h"
#include "compute/rpc/call.h"
#include "compute/worker/worker.h"
#include "kv/kv.h"
#include "litmus_records.h"
#include "memserver/memserver_internal.h"

#define LATE_NS 20000u
#define STORE_BYTES (64u << 10)
#define KEYS_AT_ONCE 16u

/* ---- memory that the reader could change ----------------------------------------------------- */

static void
expect_same(uint64_t before)
{
	if (litmus_memory_sum() != before)
		litmus_fail("a reader has changed memory");
}

/* All numbers that are multiples of ten, in one scan. */
static void
scan(struct actor *self, uint64_t first, uint64_t last)
{
	uint8_t low[8], keys[KEYS_AT_ONCE * 8];
	uint64_t payloads[KEYS_AT_ONCE], next = first;
	const struct nam_range range = { .low = low };
	struct nam_cursor *cursor = NULL;
	uint32_t count = 1;
	int rc;

	nam_key_from_u64(first, low);
	rc = nam_cursor_open(self->worker, self->index, &range, &cursor);
	while (!rc && count && next <= last) {
		rc = nam_cursor_next(cursor, keys, payloads, KEYS_AT_ONCE, &count);
		for (uint32_t i = 0; !rc && i < count; i++)
			if (payloads[i] - 1 == next)
				next += 10;
	}
	nam_cursor_close(cursor);
	if (rc || next <= last)
		litmus_fail("a scan by a reader: %s, and no key %llu", nam_err_name(rc),
			(unsigned long long)next);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void
expect_denied(int rc, const char *what)
{
	if (rc != -NAM_E_FABRIC_DENIED)
		litmus_fail("%s by a reader: %s", what, nam_err_name(rc));
}

/* The library refuses, and posts nothing. */
static void
change(struct actor *self)
{
	struct nam_collect_stat stat;
	struct nam_index_options options;
	struct nam_gaddr at;
	uint8_t key[8];

	nam_index_options_init(&options);
	nam_key_from_u64(110, key);
	expect_denied(litmus_try_insert(self, 115), "an insert");
	expect_denied(nam_index_update(self->worker, self->index, key, 7), "an update");
	expect_denied(nam_index_delete(self->worker, self->index, key), "a delete");
	expect_denied(nam_index_collect(self->worker, self->index, &stat), "a collection");
	expect_denied(nam_index_create(self->worker, "another", &options), "an index");
	expect_denied(nam_index_drop(self->worker, LITMUS_INDEX), "a drop");
	expect_denied(nam_alloc(self->worker, 256, &at), "an allocation");
	if (!strstr(nam_worker_diag(self->worker), "for reading"))
		litmus_fail("a reader is told: %s", nam_worker_diag(self->worker));
}

/* The memory server does the same, if the client does not. */
static void
ask_by_hand(struct actor *self)
{
	const struct nam_rpc_alloc_request alloc = { .stride = 256, .count = 1 };
	const struct nam_rpc_fence_request fence = {
		.step = NAM_RPC_FENCE_CLOSE,
		.client_id = litmus.actors[DIRECTOR].id,
		.incarnation = litmus.actors[DIRECTOR].incarnation,
	};
	uint64_t reply[NAM_RPC_BODY_MAX / 8];
	uint32_t bytes = sizeof(reply);

	expect_denied(nam_rpc_call(self->worker, 0, NAM_RPC_ALLOC, &alloc, sizeof(alloc), reply,
		&bytes), "ALLOC");
	bytes = sizeof(reply);
	expect_denied(nam_rpc_call(self->worker, 0, NAM_RPC_FENCE, &fence, sizeof(fence), reply,
		&bytes), "FENCE");
}

/* And so does the fabric. */
static void
write_by_hand(struct actor *self)
{
	struct nam_gaddr leaf = litmus_leaf_of(self, 110, NULL);
	uint64_t *word = nam_buffer_take(self->worker, 8), before;
	int rc;

	if (!word)
		sim_die("no memory");
	*word = 4711;
	before = litmus_memory_sum();
	self->worker->reads_only = false;
	rc = nam_write_await(self->worker, leaf, word, 8);
	if (rc != -NAM_E_FABRIC_ACCESS)
		litmus_fail("a WRITE by a reader: %s", nam_err_name(rc));
	self->worker->reads_only = true;
	nam_buffer_give(self->worker, word, 8);
	expect_same(before);
}

static void
exceed(struct actor *self)
{
	uint64_t before = litmus_memory_sum();

	litmus_expect_range(self, 0, 430, 0);
	scan(self, 0, 430);
	change(self);
	ask_by_hand(self);
	litmus_expect_range(self, 0, 430, 0);
	expect_same(before);
	write_by_hand(self);
}

/* ---- a reader that others wait for ----------------------------------------------------------- */

/* Its slot is written for it, moves on, and is 0 at its end. */
static uint64_t
slot_of(const struct actor *actor)
{
	return litmus.cluster.servers[0].server->membership.epoch_slots[actor->id];
}

static void
advance(struct actor *self)
{
	uint64_t *slot = litmus.cluster.servers[0].server->membership.epoch_slots;
	uint64_t epoch = slot_of(self);

	if (!epoch)
		litmus_fail("a reader has no epoch");
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < 40 && slot[self->id] == epoch; i++)
		nam_sleep_ns(LITMUS_TICKS_NS);
	if (slot[self->id] == epoch)
		litmus_fail("a reader's epoch stands still");
	litmus.flags[TWO] = true;
}

/* Unlinked leaves: whatever is to be reused waits for the reader. */
static void
merge_until_reusable(struct actor *self)
{
	litmus_await(ONE);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	litmus_collect_until_reusable(self);
	litmus_await(TWO);
}

static void
end_without_reader(struct actor *self)
{
	(void)self;
	if (slot_of(&litmus.actors[C]))
		litmus_fail("a reader that has left holds memory back");
}

/* ---- writers that die half-way --------------------------------------------------------------- */

static void
die(struct actor *self)
{
	nam_sim_process_kill(self->process);
	litmus.flags[self->who == A ? ONE : TWO] = true;
}

static void
divide(struct actor *self)
{
	litmus_await(THREE);
	litmus_insert(self, 111);
	litmus_insert(self, 112);
}

/* The right half, which no parent names. */
static void
divide_again(struct actor *self)
{
	litmus_await(ONE);
	for (uint64_t number = 161; number < 170; number++)
		litmus_insert(self, number);
}

/* Two leaves beyond what its cache says: a writer would name the last one. */
static void
look_after_two_deaths(struct actor *self)
{
	uint64_t before;

	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[THREE] = true;
	litmus_await(TWO);
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	before = litmus_memory_sum();
	litmus_expect_range(self, 0, 430, 0);
	scan(self, 0, 430);
	litmus_expect_range(self, 0, 430, 0);
	expect_same(before);
}

static void
merge(struct actor *self)
{
	struct nam_collect_stat stat;

	litmus_await(THREE);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	if (!nam_index_collect(self->worker, self->index, &stat))
		litmus_fail("a collector outlives its end");
}

/* Past the name of a leaf that is dead, with what its cache has, and without. */
static void
look_past_name(struct actor *self)
{
	struct nam_index *warm = self->index;
	uint64_t before;

	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	before = litmus_memory_sum();
	for (unsigned i = 0; i < 3; i++) {
		if (i && nam_index_open(self->worker, LITMUS_INDEX, i == 1 ? 1u << 20 : 0,
				&self->index))
			sim_die("%s", nam_worker_diag(self->worker));
		litmus_expect(self, 220, 0);
		litmus_expect_range(self, 230, 320, -NAM_E_NOTFOUND);
		litmus_expect_range(self, 330, 430, 0);
		scan(self, 330, 430);
		if (i)
			nam_index_close(self->index);
		self->index = warm;
	}
	expect_same(before);
}

/* ---- records --------------------------------------------------------------------------------- */

static void
kill_later(void *arg)
{
	die(arg);
}

/* One of two heads has been moved, and the other one perhaps. */
static void
commit_halfway_and_die(struct actor *self)
{
	if (!litmus.flags[FOUR] || litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_delay_next(NAM_WR_CAS, 0, LATE_NS);
	nam_sim_call_after(nam_sim_random() % LATE_NS, kill_later, self);
}

static void
put_both(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);

	litmus_put(self, records, X, 2, 1);
	litmus.flags[THREE] = true;
	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, 2, 2);
	nam_records_close(records);
}

/* Both are of one transaction, whichever it is; and the reader commits nothing for others. */
static void
get_both(struct actor *self)
{
	struct nam_records *records, *cold;
	uint64_t before, numbers[2] = { 0 };

	litmus_await(THREE);
	records = litmus_store_open(self, STORE_BYTES);
	cold = litmus_store_open(self, 0);
	litmus_expect_records(self, records, X, 2, 1);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	before = litmus_memory_sum();
	for (unsigned i = 0; i < 4; i++) {
		int rc = litmus_try_get(self, i % 2 ? cold : records, X, 2, numbers);

		if (rc || numbers[0] != numbers[1])
			litmus_fail("get_all: %s, %llu and %llu", nam_err_name(rc),
				(unsigned long long)numbers[0], (unsigned long long)numbers[1]);
	}
	expect_same(before);
	nam_records_close(cold);
	nam_records_close(records);
}

/* ---- key-value stores, and records that memory servers serve --------------------------------- */

#define PAIRS "litmus-pairs"

static void
fill_stores(struct actor *self)
{
	static const uint8_t value[NAM_KV_MESSAGE_BYTES_MAX + 1] = { 7 };
	struct nam_records_options served;
	struct nam_records *records;
	struct nam_kv_options options;
	struct nam_kv *kv = NULL;
	int rc;

	nam_records_options_init(&served);
	served.commit = NAM_RECORDS_SERVED;
	records = litmus_store_make(self, &served);
	litmus_put(self, records, X, 2, 1);
	nam_records_close(records);
	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.memory_bytes = 1u << 20;
	options.partitions = 1;
	rc = nam_kv_create(self->worker, PAIRS, &options);
	if (!rc)
		rc = nam_kv_open(self->worker, PAIRS, &kv);
	if (!rc)
		rc = nam_kv_put(self->worker, kv, "short", 5, value, 8);
	if (!rc)
		rc = nam_kv_put(self->worker, kv, "long", 4, value, sizeof(value));
	if (rc)
		litmus_fail("pairs: %s", nam_worker_diag(self->worker));
	nam_kv_close(kv);
	litmus.flags[THREE] = true;
	litmus_await(TWO);
}

static void
read_stores(struct actor *self)
{
	uint8_t value[NAM_KV_MESSAGE_BYTES_MAX + 1];
	struct nam_kv_item items[2] = { { .key = "short", .key_bytes = 5, .value = value,
		.size = 8 }, { .key = "none", .key_bytes = 4, .value = value + 8, .size = 8 } };
	struct nam_records *records;
	struct nam_kv *kv = NULL;
	uint64_t before;
	uint32_t bytes = 0;
	int rc;

	litmus_await(THREE);
	before = litmus_memory_sum();
	records = litmus_store_open(self, STORE_BYTES);
	litmus_expect_records(self, records, X, 2, 1);
	nam_records_close(records);
	rc = nam_kv_open(self->worker, PAIRS, &kv);
	if (!rc)
		rc = nam_kv_get(self->worker, kv, "short", 5, value, sizeof(value), &bytes);
	if (!rc)
		rc = nam_kv_get_many(self->worker, kv, items, 2);
	if (rc || bytes != 8 || value[0] != 7 || items[0].rc || items[1].rc != -NAM_E_NOTFOUND)
		litmus_fail("a pair, for a reader: %s", nam_err_name(rc));
	expect_denied(nam_kv_get(self->worker, kv, "long", 4, value, sizeof(value), &bytes),
		"a long value");
	expect_denied(nam_kv_put(self->worker, kv, "short", 5, value, 8), "a pair");
	expect_denied(nam_kv_delete(self->worker, kv, "short", 5), "a pair's end");
	expect_denied(nam_kv_drop(self->worker, PAIRS), "a store's end");
	nam_kv_close(kv);
	expect_same(before);
	litmus.flags[TWO] = true;
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_readers_cases[] = {
	{ { "reader_exceeds", LITMUS_LOADED, { NULL, NULL, NULL, exceed }, { { 0 } } },
		"a reader changes what it can: by the library, by requests, by a WRITE", 2,
		LITMUS_FINE_KEYS },
	{ { "reader_epoch", LITMUS_LOADED,
			{ end_without_reader, merge_until_reusable, NULL, advance }, { { 0 } } },
		"a reader's epoch moves on while leaves are merged", 2, LITMUS_FINE_KEYS },
	{ { "reader_split", LITMUS_LOADED, { NULL, divide, divide_again, look_after_two_deaths },
			{ { "split.left_written", A, die }, { "split.left_written", B, die } } },
		"two splitters die before the separators, beside a reader", 2, LITMUS_FINE_KEYS },
	{ { "reader_names", LITMUS_LOADED, { NULL, merge, NULL, look_past_name },
			{ { "merge.buried", A, die } } },
		"hybrid: a collector dies before it takes a dead leaf's name, beside a reader", 1,
		LITMUS_HYBRID_KEYS },
	{ { "reader_records", 0, { NULL, put_both, NULL, get_both },
			{ { "records.commit", A, commit_halfway_and_die } } },
		"records: a writer dies between the first head and the last, beside a reader", 2,
		LITMUS_FINE_KEYS },
	{ { "reader_stores", 0, { NULL, fill_stores, NULL, read_stores }, { { 0 } } },
		"a reader of pairs, long ones too, and of records that memory servers serve", 2,
		LITMUS_FINE_KEYS },
	{ { 0 }, NULL, 0, 0 },
};
