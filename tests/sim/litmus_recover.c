/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_recover.c -- scenes about the locks of dead clients, which others take over.
 */
#include <string.h>

#include "compute/remote/spare.h"
#include "index/maintain/maintain.h"
#include "index/maintain/merge.h"
#include "index/write/torn.h"
#include "litmus_records.h"

#define KEY 115u
/* About when WRITEs that are posted now are carried out. */
#define WRITES_NS 300u
#define WRITES_SPREAD_NS 900u
/* A merge takes about so long. */
#define MERGE_NS 40000u
#define STOPPED_NS 600000000u		/* several times lock_timeout_ms */

static void
insert_and_die(struct actor *self)
{
	(void)litmus_try_insert(self, KEY);
}

static void
insert_after(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY + 1);
	litmus_insert(self, KEY);
}

static void
end_whole(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, KEY, 0);
	litmus_expect(self, KEY + 1, 0);
	litmus_verify(self);
}

/* ---- a node half-written --------------------------------------------------------------------- */

/* A WRITE of the change is held up, after so many; and meanwhile the client dies. */
static void
die_within(struct actor *self, uint32_t writes, uint64_t after_ns)
{
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_delay_after(NAM_WR_WRITE, writes, 2 * LITMUS_TICKS_NS);
	nam_sim_call_after(after_ns, litmus_die, self);
}

/* The record, the rear word and the entries are there. */
static void
die_half_written(struct actor *self)
{
	die_within(self, 2, LITMUS_TICKS_NS);
}

/* The same, and the block of the record. */
static void
die_half_deleted(struct actor *self)
{
	die_within(self, 3, LITMUS_TICKS_NS);
}

/* Of the rear word and the record nothing, or a part; and other WRITEs, if they do not wait. */
static void
die_before_record(struct actor *self)
{
	die_within(self, 0, WRITES_NS + nam_sim_random() % WRITES_SPREAD_NS);
}

static void
look_and_insert(struct actor *self)
{
	int rc;

	litmus_await(ONE);
	litmus_expect_range(self, 110, 210, 0);
	rc = litmus_try_lookup(self, KEY);
	if (rc && rc != -NAM_E_NOTFOUND)
		litmus_fail("lookup: %s", nam_err_name(rc));
	litmus_insert(self, KEY + 1);
	if (litmus_try_lookup(self, KEY) != rc)
		litmus_fail("a change that was half done has come or gone");
}

static void
insert_beside(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY + 2);
}

static void
end_completed(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, KEY + 1, 0);
	litmus_verify(self);
}

/* All entries behind it move, which is more than a record has room for. */
static void
delete_and_die(struct actor *self)
{
	uint8_t key[8];

	nam_key_from_u64(110, key);
	(void)!nam_index_delete(self->worker, self->index, key);
}

/* All memory of the leaf's server that there is for nodes; the block is of the reserve. */
static void
fill(struct actor *self, int (*take)(struct nam_worker *, uint32_t, uint32_t, struct nam_gaddr *))
{
	struct nam_gaddr at, leaf = litmus_leaf_of(self, 110, NULL);
	uint32_t slot = nam_region_table_find(&self->client->regions, leaf)->server;
	int rc;

	do
		rc = take(self->worker, slot, self->index->g.stride, &at);
	while (!rc);
	if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
		sim_die("the memory server cannot be filled");
}

static void
fill_delete_and_die(struct actor *self)
{
	fill(self, nam_alloc_on);
	litmus.flags[THREE] = true;
	delete_and_die(self);
}

/* With the reserve, so that two changes have no record. */
static void
delete_delete_and_die(struct actor *self)
{
	uint8_t key[8];

	litmus_delete_range(self, 110, 110);
	fill(self, nam__spare_take);
	litmus_delete_range(self, 120, 120);
	litmus.flags[THREE] = true;
	nam_key_from_u64(130, key);
	(void)!nam_index_delete(self->worker, self->index, key);
}

/* Of the last change the rear word and the entries are there. */
static void
die_without_record(struct actor *self)
{
	if (litmus.flags[THREE])
		die_within(self, 2, LITMUS_TICKS_NS);
}

/* The node may stay torn for lack of a record. */
static void
look_at_deleted(struct actor *self)
{
	int rc;

	litmus_await(ONE);
	rc = litmus_try_insert(self, KEY + 1);
	if (rc && rc != -NAM_E_LOCK_ORPHANED)
		litmus_fail("insert: %s", nam_err_name(rc));
	if (!litmus_try_lookup(self, 120))
		litmus_fail("a change that was acknowledged is undone");
}

/* The record of the last change is late, and that of the one before leads to the image before. */
static void
write_half_and_die(struct actor *self)
{
	const struct nam__geometry *g = &self->index->g;
	struct nam__held held = { .image = nam_buffer_take(self->worker, g->node_bytes) };
	struct nam_batch batch;
	struct nam__key full;
	uint64_t *words[3] = { NULL, held.image + NAM__WORD_SHAPE, held.image + g->node_words - 1 };
	uint64_t old;
	uint8_t key[8];

	nam_key_from_u64(110, key);
	nam__key_encode(g, key, 0, &full);
	if (nam_index_lookup(self->worker, self->index, key, &old) ||
		nam_index_update(self->worker, self->index, key, 1) ||
		nam_index_update(self->worker, self->index, key, old))
		sim_die("no update");
	nam__op_begin(self->worker, NAM_OP_OTHER);
	if (nam__lock_covering(self->worker, self->index, full.w, 0, &held))
		sim_die("no lock");
	words[0] = held.image + g->entries_at + 1 + g->leaf_words *
		nam__leaf_lower_bound(g, held.image, full.w);
	if (*words[0] != old)
		sim_die("another payload");
	*words[0] = 2;
	*words[1] ^= 1ull << 63;
	*words[2] += 1ull << 16;
	nam_batch_init(&batch, self->worker);
	for (unsigned i = 0; i < 3; i++)
		nam_batch_write(&batch, held.at, 8 * (uint32_t)(words[i] - held.image), words[i],
			8);
	if (nam_batch_await(&batch))
		sim_die("no WRITE");
	litmus_die_here(self);
}

/* A READ of all words but rear, and one of rear when B has completed the node. */
static void
read_slowly(struct actor *self)
{
	struct nam_gaddr leaf = litmus_leaf_of(self, 110, NULL);
	const uint32_t bytes = self->index->g.node_bytes, last = bytes / 8 - 1;
	uint64_t *image = nam_buffer_take(self->worker, bytes);
	uint64_t *later = nam_buffer_take(self->worker, bytes);

	litmus_await(ONE);
	if (nam_read_await(self->worker, nam_gaddr_untagged(leaf), image, bytes))
		sim_die("no READ");
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	if (nam_read_await(self->worker, nam_gaddr_untagged(leaf), later, bytes))
		sim_die("no READ");
	litmus.flags[FIVE] = true;
	image[last] = later[last];
	if (nam__node_ends_agree(&self->index->g, image) &&
		!nam__node_is_whole(self->index, image, leaf))
		litmus_fail("front and rear agree, and the image is of two changes");
}

static void
insert_by_then(struct actor *self)
{
	litmus_await(TWO);
	litmus_insert(self, KEY + 1);
}

static void
hold_completed(struct actor *self)
{
	(void)self;
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
}

/* As die_half_deleted(), of the last change. */
static void
die_with_reserve(struct actor *self)
{
	if (litmus.flags[THREE])
		die_within(self, 3, LITMUS_TICKS_NS);
}

static void
look_at_rest(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect_range(self, 120, 210, 0);
	litmus_insert(self, KEY + 1);
}

static void
end_deleted(struct actor *self)
{
	litmus_expect_range(self, 0, 100, 0);
	litmus_expect_range(self, 120, 430, 0);
	litmus_expect(self, KEY + 1, 0);
	litmus_verify(self);
}

/* The one that takes over dies as well, before it has written anything; then a third one comes. */
static void
die_repairing(struct actor *self)
{
	litmus.flags[FOUR] = true;
	litmus_die_here(self);
}

static void
repair_and_die(struct actor *self)
{
	litmus_await(ONE);
	(void)litmus_try_insert(self, KEY + 2);
	litmus.flags[FOUR] = true;	/* it may have found the node whole */
}

static void
insert_third(struct actor *self)
{
	litmus_await(FOUR);
	litmus_insert(self, KEY + 1);
}

/* A record that some client has damaged leads to no image. */
static void
damage_and_insert(struct actor *self)
{
	struct nam_gaddr leaf = litmus_leaf_of(self, KEY, NULL);
	uint64_t *word = nam_buffer_take(self->worker, 8);
	int rc;

	litmus_await(ONE);
	leaf = nam_gaddr_make(nam_gaddr_region(leaf),
		nam_gaddr_offset(leaf) + self->index->g.node_bytes + 8, 0);
	if (!word || nam_read_await(self->worker, leaf, word, 8))
		sim_die("the record cannot be read");
	*word ^= 1;
	if (nam_write_await(self->worker, leaf, word, 8))
		sim_die("the record cannot be written");
	nam_buffer_give(self->worker, word, 8);
	rc = litmus_try_insert(self, KEY + 1);
	if (rc && rc != -NAM_E_LOCK_ORPHANED)
		litmus_fail("insert: %s", nam_err_name(rc));
}

/* ---- two that take over ---------------------------------------------------------------------- */

/* B has the image, and comes back when C has changed the node. */
static void
hold_validator(struct actor *self)
{
	(void)self;
	if (litmus.flags[FOUR])
		return;
	litmus.flags[FOUR] = true;
	litmus_await(THREE);
}

static void
insert_second(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY);
}

static void
insert_first(struct actor *self)
{
	litmus_await(FOUR);
	litmus_insert(self, KEY + 1);
	litmus_insert(self, KEY + 3);
	litmus.flags[THREE] = true;
}

/* ---- a merge half done ----------------------------------------------------------------------- */

/* The third leaf goes into the second. */
static void
merge_and_die(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };

	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 290);
	(void)!nam_index_collect(self->worker, self->index, &stat);
	litmus.flags[ONE] = true;	/* it may have ended its pass */
}

/* A WRITE or an ATOMIC of the merge is under way, or none. */
static void
die_within_merge(struct actor *self)
{
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_call_after(nam_sim_random() % MERGE_NS, litmus_die, self);
}

/* The pointers that B has lead to both leaves of the merge. */
static void
change_merged(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_await(ONE);
	litmus_insert(self, 225);
	litmus_insert(self, 115);
	litmus_expect(self, 220, 0);
}

static void
change_beside(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 226);
}

static void
collect_after(struct actor *self)
{
	litmus_await(ONE);
	(void)litmus_collect(self);
}

static void
end_merged(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_expect(self, 220, 0);
	litmus_expect(self, 225, 0);
	litmus_expect(self, 115, 0);
	litmus_expect_range(self, 300, 430, 0);
	(void)litmus_collect(self);
	/* A lock stays until a client wants it.  That of the parent: the last leaf is divided. */
	litmus_insert(self, 331);
	litmus_insert(self, 332);
	litmus_verify(self);
}

/* B dies as it completes the merge, at any moment. */
static void
die_resuming(struct actor *self)
{
	nam_sim_call_after(nam_sim_random() % MERGE_NS, litmus_die, self);
}

static void
resume_and_die(struct actor *self)
{
	litmus_await(ONE);
	(void)litmus_try_insert(self, 227);
	litmus.flags[FOUR] = true;
	nam_sleep_ns(LITMUS_TIMEOUT_NS);
}

static void
change_third(struct actor *self)
{
	litmus_await(ONE);
	litmus_await_for(FOUR, LITMUS_TICKS_NS * 4);
	litmus_insert(self, 225);
	litmus_insert(self, 115);
}

static void
resumer_wait(uint64_t wait_ns)
{
	if (litmus.flags[FIVE])
		return;
	litmus.flags[FIVE] = true;
	litmus_await_for(THREE, wait_ns);
}

/* Between two that complete one merge, if they may: C changes what B is still at. */
static void
hold_resumer(struct actor *self)
{
	(void)self;
	resumer_wait(LITMUS_SHORT_NS);
}

static void
insert_second_half(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 228);
}

static void
change_while_held(struct actor *self)
{
	litmus_await(ONE);
	litmus_await_for(FIVE, LITMUS_SHORT_NS);
	litmus_insert(self, 225);
	litmus_insert(self, 115);
	litmus.flags[THREE] = true;
}

/* B is stopped as it completes the merge. */
static void
stop_resumer(struct actor *self)
{
	(void)self;
	resumer_wait(8 * LITMUS_TIMEOUT_NS);
}

static void
insert_while_stopped(struct actor *self)
{
	uint64_t since_ns, took_ns;
	int rc;

	litmus_await(ONE);
	litmus_await_for(FIVE, LITMUS_TIMEOUT_NS);
	since_ns = nam_sim_now_ns();
	rc = litmus_try_insert(self, 225);
	took_ns = nam_sim_now_ns() - since_ns;
	if (rc != -NAM_E_LOCK_TIMEOUT || took_ns > STOPPED_NS ||
		!strstr(nam_worker_diag(self->worker), "which is alive"))
		litmus_fail("insert: %s after %llu ns: %s", nam_err_name(rc),
			(unsigned long long)took_ns, nam_worker_diag(self->worker));
	litmus.flags[THREE] = true;
}

/* The intent is not cleared, but the locks are released. */
static void
die_ending(struct actor *self)
{
	die_within(self, 0, LITMUS_TICKS_NS);
}

/* ---- a part of an intent --------------------------------------------------------------------- */

static uint64_t merged_away;		/* a node that B has retired */

static void
divide(struct actor *self, uint64_t first)
{
	litmus_collect_until_reusable(self);
	for (uint64_t number = first; number < first + 90; number++)
		if (number % 10)
			litmus_insert(self, number);
}

static void
merge_and_divide(struct actor *self)
{
	merged_away = litmus_leaf_of(self, 220, NULL).raw;
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 290);
	if (!litmus_collect(self))
		nam_sleep_ns(LITMUS_TICKS_NS);
	litmus.flags[FOUR] = true;
	litmus_await(THREE);
	divide(self, 331);
}

/* Of its intent, one word; other words are those of the one before. */
static void
intend_and_die(struct actor *self)
{
	struct nam__held held = { .lock.word = NAM_LOCK_MERGES |
		nam_lock_word(self->id, self->incarnation, 1u << 30) };
	struct nam__merge_intent *intent = nam_buffer_take(self->worker, sizeof(*intent));
	struct nam_gaddr at = self->index->superblock;
	uint64_t word;

	litmus_await(FOUR);
	held.image = nam_buffer_take(self->worker, self->index->g.node_bytes);
	nam__op_begin(self->worker, NAM_OP_COLLECT);
	if (!intent || !held.image || nam__collector_enter(self->worker, self->index, 0, &word) ||
		nam__unqueued_lock(self->worker, self->index,
		litmus_leaf_of(self, 0, NULL), 0, 0, &held))
		sim_die("the first leaf cannot be locked");
	*intent = (struct nam__merge_intent){ .word = held.lock.word, .left = held.at.raw,
		.right = merged_away };
	at = nam_gaddr_make(nam_gaddr_region(at), nam_gaddr_offset(at) + NAM_SUPERBLOCK_INTENT, 0);
	if (nam_write_await(self->worker, at, intent, sizeof(*intent)))
		sim_die("the intent cannot be written");
	litmus_die_here(self);
}

static void
recover_and_divide(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 1);
	litmus.flags[THREE] = true;
	divide(self, 2);
}

static void
end_divided(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_expect_range(self, 300, 430, 0);
	litmus_verify(self);
}

/* ---- a bulk load half done ------------------------------------------------------------------- */

static int
next_number(void *arg, void *key, uint64_t *payload)
{
	uint64_t *number = arg;

	if (*number > 430)
		return NAM_INDEX_END;
	nam_key_from_u64(*number, key);
	*payload = *number + 1;
	*number += 10;
	return NAM_INDEX_PAIR;
}

static void
load_and_die(struct actor *self)
{
	uint64_t number = 0;

	(void)!nam_index_bulk_load(self->worker, self->index, next_number, &number, 0, NULL);
}

static void
look_at_load(struct actor *self)
{
	litmus_await(ONE);
	litmus_expect_range(self, 0, 430, 0);
	litmus_insert(self, KEY);
}

static void
end_loaded(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, KEY, 0);
	(void)litmus_collect(self);	/* the loader's word */
	litmus_verify(self);
}

/* Before that all is as if there had been no load. */
static void
insert_into_empty(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, KEY);
}

static void
end_not_loaded(struct actor *self)
{
	litmus_expect_range(self, 0, 430, -NAM_E_NOTFOUND);
	litmus_expect(self, KEY, 0);
	(void)litmus_collect(self);	/* the loader's word */
	litmus_verify(self);
}

/* ---- the index of a record store's keys ------------------------------------------------------ */

#define STORE_BYTES (1u << 20)

/* All keys are in one leaf. */
static void
put_key_and_die(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);

	litmus_put(self, records, X, 1, 1);
	litmus.flags[FOUR] = true;
	(void)litmus_put(self, records, Y, 1, 1);
	nam_records_close(records);
}

static void
die_locking_keys(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

static void
die_writing_keys(struct actor *self)
{
	if (litmus.flags[FOUR])
		die_half_written(self);
}

static void
put_key(struct actor *self, enum record record)
{
	struct nam_records *records;

	litmus_await(FOUR);
	records = litmus_store_open(self, STORE_BYTES);
	litmus_await(ONE);
	litmus_put(self, records, record, 1, 2);
	litmus_expect_records(self, records, record, 1, 2);
	nam_records_close(records);
}

static void
put_same_key(struct actor *self)
{
	put_key(self, Y);
}

static void
put_other_key(struct actor *self)
{
	put_key(self, Z);
}

static void
end_keys(struct actor *self)
{
	struct nam_records *records = litmus_store_open(self, 0);
	struct nam_index *index = NULL;
	uint64_t violations = 0;

	litmus_expect_records(self, records, X, 1, 1);
	litmus_expect_records(self, records, Y, 2, 2);
	nam_records_close(records);
	if (nam_index_open(self->worker, LITMUS_STORE ".keys", 0, &index) ||
		nam_index_verify(self->worker, index, NULL, NULL, &violations) || violations)
		litmus_fail("the index of keys: %s, %llu violations", nam_worker_diag(self->worker),
			(unsigned long long)violations);
	nam_index_close(index);
}

const struct litmus_case litmus_recover_cases[] = {
	{ { "recover_taken", LITMUS_LOADED, { end_whole, insert_and_die, insert_after },
		{ { "lock.taken", A, litmus_die_here } } },
		"a client dies with a lock, before its first WRITE", 2, 0 },
	{ { "recover_torn", LITMUS_LOADED,
		{ end_completed, insert_and_die, look_and_insert, insert_beside },
		{ { "lock.taken", A, die_half_written } } },
		"a client dies half-way through the WRITEs of a node", 2, 0 },
	{ { "recover_no_record", LITMUS_LOADED,
		{ end_completed, insert_and_die, look_and_insert, insert_beside },
		{ { "lock.taken", A, die_before_record } } },
		"the same, before the record of the change is there", 2, 0 },
	{ { "recover_delete", LITMUS_LOADED, { end_deleted, delete_and_die, look_at_rest },
		{ { "lock.taken", A, die_half_deleted } } },
		"the same, with a change that needs a block for its record", 2, 0 },
	{ { "recover_reserve", LITMUS_LOADED, { end_deleted, fill_delete_and_die, look_at_rest },
		{ { "lock.taken", A, die_with_reserve } } },
		"the same, and the memory server has a block only in its reserve", 2, 0 },
	{ { "recover_none", LITMUS_LOADED, { NULL, delete_delete_and_die, look_at_deleted },
		{ { "lock.taken", A, die_without_record } } },
		"the same, with no room for a block, in the second change in a row", 2, 0 },
	{ { "recover_version", LITMUS_LOADED,
		{ end_completed, write_half_and_die, insert_by_then, read_slowly },
		{ { "recover.completed", B, hold_completed } } },
		"a node is half-written before its record, and a reader reads meanwhile", 2, 0 },
	{ { "recover_twice", LITMUS_LOADED,
		{ end_completed, insert_and_die, repair_and_die, insert_third },
		{ { "lock.taken", A, die_half_written },
			{ "recover.torn_taken", B, die_repairing } } },
		"the client that completes such a node dies as well", 2, 0 },
	{ { "recover_damaged", LITMUS_LOADED, { NULL, insert_and_die, damage_and_insert },
		{ { "lock.taken", A, die_half_written } } },
		"the same, and the record was damaged", 2, 0 },
	{ { "recover_two", LITMUS_LOADED,
		{ end_whole, insert_and_die, insert_second, insert_first },
		{ { "lock.taken", A, litmus_die_here }, { "recover.validated", B,
		hold_validator } } },
		"two clients take over the same lock", 2, 0 },
	{ { "recover_torn_two", LITMUS_LOADED,
		{ end_completed, insert_and_die, insert_beside, insert_first },
		{ { "lock.taken", A, die_half_written }, { "recover.torn_read", B,
		hold_validator } } },
		"the same of a torn node, and one of them changes it twice", 2, 0 },
	{ { "recover_merge", LITMUS_LOADED, { end_merged, merge_and_die, change_merged },
		{ { "merge.left_written", A, litmus_die_here } } },
		"a collector dies half-way through a merge", 2, 0 },
	{ { "recover_merge_any", LITMUS_LOADED,
		{ end_merged, merge_and_die, change_merged, change_beside },
		{ { "merge.locked", A, die_within_merge } } },
		"the same, at any moment, and two clients meet its locks", 2, 0 },
	{ { "recover_merge_twice", LITMUS_LOADED,
		{ end_merged, merge_and_die, resume_and_die, change_third },
		{ { "merge.left_written", A, litmus_die_here },
			{ "collector.succeeded", B, die_resuming } } },
		"the client that completes the merge dies as well", 2, 0 },
	{ { "recover_merge_two", LITMUS_LOADED,
		{ end_merged, merge_and_die, insert_second_half, change_while_held },
		{ { "merge.left_written", A, litmus_die_here },
			{ "merge.parent_written", B, hold_resumer } } },
		"two clients complete the same merge", 2, 0 },
	{ { "recover_merge_stopped", LITMUS_LOADED,
		{ NULL, merge_and_die, insert_second_half, insert_while_stopped },
		{ { "merge.left_written", A, litmus_die_here },
			{ "merge.parent_written", B, stop_resumer } } },
		"a client that completes a merge is stopped, and another one waits for it", 2, 0 },
	{ { "recover_merge_ended", LITMUS_LOADED,
		{ end_merged, merge_and_die, change_merged, collect_after },
		{ { "merge.buried", A, die_ending } } },
		"a collector dies with its locks released and its intent there", 2, 0 },
	{ { "recover_hybrid", LITMUS_LOADED, { end_merged, merge_and_die, change_merged },
		{ { "merge.left_written", A, litmus_die_here } } },
		"hybrid: a collector dies half-way through a merge", 1, LITMUS_HYBRID_HASH },
	{ { "recover_hybrid_any", LITMUS_LOADED,
		{ end_merged, merge_and_die, change_merged, change_beside },
		{ { "merge.locked", A, die_within_merge } } },
		"the same, at any moment, and two clients meet its locks", 1,
		LITMUS_HYBRID_HASH },
	{ { "recover_intent", LITMUS_LOADED,
		{ end_divided, intend_and_die, merge_and_divide, recover_and_divide }, { { 0 } } },
		"a client meets a part of an intent", 1, 0 },
	{ { "recover_load", 0, { end_loaded, load_and_die, look_at_load },
		{ { "load.old_root_dead", A, litmus_die_here } } },
		"a loader dies before the superblock names its root", 2, 0 },
	{ { "recover_load_built", 0, { end_not_loaded, load_and_die, insert_into_empty },
		{ { "load.built", A, litmus_die_here } } },
		"a loader dies before its pairs can be seen", 2, 0 },
	{ { "recover_keys", 0, { end_keys, put_key_and_die, put_same_key, put_other_key },
		{ { "lock.taken", A, die_locking_keys } } },
		"a writer dies with the lock of a leaf that new keys of its record store need", 2,
		0 },
	{ { "recover_keys_torn", 0, { end_keys, put_key_and_die, put_same_key, put_other_key },
		{ { "lock.taken", A, die_writing_keys } } },
		"the same, half-way through the WRITEs of that leaf", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
