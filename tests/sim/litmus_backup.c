/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_backup.c -- scenes in which a member has a backup, and its process ends (C31, C32).
 *
 * The backup gets the place of the process, so it must have all that a client was told.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/remote.h"
#include "compute/remote/lock.h"
#include "compute/worker/doorbell.h"
#include "litmus_records.h"
#include "memserver/memserver_internal.h"
#include "txn/records/txn_internal.h"

#define BACKED 1u			/* the id of the member */
#define TIMEOUT_MS 2000u
#define AHEAD_US (1ull << 50)		/* of any clock */
#define MERGE_NS 60000u			/* about as long as a merge takes from its locks on */

static struct sim_server *backup;	/* of the scene */
static struct nam_gaddr words_at[2];

static struct nam_client_options
options_of_steward(void)
{
	struct nam_client_options options;

	nam_client_options_init(&options);
	options.cluster = litmus.cluster.list;
	options.timeout_ms = TIMEOUT_MS;
	return options;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct sim_server *
litmus_back(uint32_t id)
{
	struct nam_client_options options = options_of_steward();
	struct sim_server *to = sim_cluster_successor(&litmus.cluster, id);
	struct nam_server_moved result;
	struct nam_diag diag = { "" };

	if (nam_server_back(&options, to->address, NULL, NULL, &result, &diag))
		litmus_fail("a backup: %s", diag.text);
	to->had_memory = true;
	return to;
}

void
litmus_fail_over(uint32_t id)
{
	struct nam_client_options options = options_of_steward();
	struct nam_diag diag = { "" };

	litmus.cluster.servers[id].succeeded = true;
	nam_sim_process_kill(litmus.cluster.servers[id].process);
	if (nam_server_promote(&options, id, &diag))
		litmus_fail("a promotion: %s", diag.text);
}

static void
back_only(struct actor *self)
{
	(void)self;
	litmus_await(ONE);
	backup = litmus_back(BACKED);
	litmus.flags[SEEN] = true;
}

static void
back_kill_promote(struct actor *self)
{
	back_only(self);
	litmus_await(TWO);
	litmus_fail_over(BACKED);
	litmus.flags[FOUR] = true;
}

static void
cas_in_batch(struct actor *self, struct nam_gaddr at)
{
	uint64_t *seen = nam_buffer_take(self->worker, 16);
	struct nam_batch batch;

	nam_batch_init(&batch, self->worker);
	nam__batch_word_cas(&batch, at, 0, 1, 2, seen);
	if (nam_batch_await(&batch) || nam__word_now(seen, 1, 2) != 2)
		litmus_fail("the word was %llu", (unsigned long long)seen[0]);
	nam_buffer_give(self->worker, seen, 16);
}

/* Words that mean something, at the member. */
static void
change_words(struct actor *self)
{
	uint16_t slot = self->client->slot_of_id[BACKED];
	uint64_t seen = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (nam_alloc_on(self->worker, slot, 64, &words_at[i]))
			sim_die("no block");
		litmus_write_word(self, words_at[i], 1);
	}
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	if (nam_cas_await(self->worker, words_at[0], 1, 2, &seen) || seen != 1)
		litmus_fail("the word was %llu", (unsigned long long)seen);
	cas_in_batch(self, words_at[1]);
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	for (unsigned i = 0; i < 2; i++)
		if (litmus_read_word(self, words_at[i]) != 2)
			litmus_fail("a word is older at a promoted backup");
}

/* A lock word is reserved as the backup is filled, and held as the member ends (C18, C32). */
static void
hold_reserved(struct actor *self)
{
	uint64_t *image = nam_buffer_take(self->worker, 64);
	struct nam__doorbell doorbell;
	struct nam__lock lock;
	struct nam_gaddr at;

	if (nam_alloc_on(self->worker, self->client->slot_of_id[BACKED], 64, &at))
		sim_die("no block");
	litmus_write_word(self, at, nam_lock_word(self->client->id, self->client->incarnation,
		NAM_LOCK_RESERVED));
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	if (nam__lock_read_await(self->worker, at, image, 64, NULL, &lock))
		litmus_fail("a reserved word is not taken");
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	if (litmus_read_word(self, at) != lock.word)
		litmus_fail("a promoted backup does not know the holder");
	nam__doorbell_init(&doorbell, self->worker, at);
	if (nam__unlock_await(&doorbell, &lock))
		litmus_fail("the lock is another client's");
	nam_buffer_give(self->worker, image, 64);
}

void
litmus_insert_on(struct actor *self)
{
	uint64_t number = LITMUS_KEYS_FROM * (1 + self->who);

	for (unsigned i = 0; i < LITMUS_KEYS && !litmus.failed; i++) {
		litmus_insert(self, number + i);
		litmus_expect(self, number + i, 0);
		if (i == LITMUS_KEYS / 4)
			litmus.flags[ONE] = true;
		if (i == 3 * LITMUS_KEYS / 4)
			litmus.flags[TWO] = true;
		for (unsigned j = 0; i == LITMUS_KEYS / 2 && j < 500 && !litmus.flags[SEEN]; j++)
			litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	}
}

/* ---- records --------------------------------------------------------------------------------- */

/* The record that is at the member. */
static enum record backed_record;

/* Decided at the backup, which ends before the member has it. */
static void
hold_decided(struct actor *self)
{
	(void)self;
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
}

static void
back_kill_unback(struct actor *self)
{
	struct nam_client_options options = options_of_steward();
	struct nam_diag diag = { "" };

	back_only(self);
	litmus_await(TWO);
	nam_sim_process_kill(backup->process);
	if (nam_server_unback(&options, BACKED, &diag))
		litmus_fail("a backup is taken away: %s", diag.text);
	litmus.flags[THREE] = true;
}

/* Its clock is ahead, so its version is the newer one. */
static void
put_decided(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);

	(void)litmus_put(self, records, X, 2, 1);
	backed_record = nam_gaddr_region(NAM_GADDR(litmus_record_at(records, X))) /
		NAM_REGIONS_PER_SERVER == BACKED ? X : Y;
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	(void)litmus_put(self, records, backed_record, 1, 2);
	nam_records_close(records);
	litmus.flags[FIVE] = true;
}

static void
put_meanwhile(struct actor *self)
{
	struct nam_records *records;

	litmus_await(THREE);
	records = litmus_store_open(self, 0);
	if (!records)
		return;
	(void)litmus_put(self, records, backed_record, 1, 3);
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
	litmus_expect_records(self, records, backed_record, 1, 2);
	nam_records_close(records);
}

/* ---- half a merge ---------------------------------------------------------------------------- */

/* Of the leaves of 110 and of 220; it dies in it. */
static void
merge_backed(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };

	litmus_await(SEEN);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 290);
	(void)!nam_index_collect(self->worker, self->index, &stat);
	litmus.flags[ONE] = true;	/* it may have ended its pass */
}

static void
die_within_merge(struct actor *self)
{
	if (litmus.flags[TWO])
		return;
	litmus.flags[TWO] = true;
	nam_sim_call_after(nam_sim_random() % MERGE_NS, litmus_die, self);
}

/* The member ends in the same instant. */
static void
back_kill_with_collector(struct actor *self)
{
	(void)self;
	backup = litmus_back(BACKED);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	litmus_fail_over(BACKED);
	litmus.flags[FOUR] = true;
}

/* First in the right leaf, and then in the left one. */
static void
change_both(struct actor *self)
{
	litmus_await(FOUR);
	litmus_insert(self, 225);
	litmus_delete_range(self, 300, 300);
	litmus_insert(self, 115);
	litmus_expect(self, 225, 0);
	litmus_expect(self, 300, -NAM_E_NOTFOUND);
}

static void
end_changed(struct actor *self)
{
	litmus_expect(self, 115, 0);
	litmus_expect(self, 120, 0);
	litmus_expect(self, 220, 0);
	litmus_expect(self, 225, 0);
	litmus_expect(self, 300, -NAM_E_NOTFOUND);
	litmus_expect(self, 310, 0);
	(void)litmus_collect(self);
	/* A lock stays until a client wants it.  That of the parent: the last leaf is divided. */
	litmus_insert(self, 331);
	litmus_insert(self, 332);
	litmus_verify(self);
}

/* ---- the lock of a dead client --------------------------------------------------------------- */

/* A key of a leaf at the member. */
static uint64_t
key_at_member(struct actor *self)
{
	uint64_t number = 0;

	while (number < 10 * (LITMUS_LOADED - 1) && litmus_server_of(self,
			litmus_leaf_of(self, number, NULL)) != self->client->slot_of_id[BACKED])
		number += 10;
	return number;
}

/* With the lock, which the backup is filled with. */
static void
die_with_lock(struct actor *self)
{
	litmus_insert(self, key_at_member(self) + 1);
}

static void
take_over(struct actor *self)
{
	litmus_await(SEEN);
	litmus_insert(self, key_at_member(self) + 2);
	litmus.flags[FIVE] = true;
}

/* It has the lock while the backup gets the place, and while another client goes for it. */
static void
hold_taken(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	nam_sleep_ns(LITMUS_TICKS_NS);
}

static void
end_taken(struct actor *self)
{
	litmus_await(FOUR);
	litmus_insert(self, key_at_member(self) + 3);
	litmus_await(FIVE);
	litmus_expect(self, key_at_member(self) + 2, 0);
	litmus_verify(self);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void
expect_inserted(struct actor *self, enum who who)
{
	for (unsigned i = 0; i < LITMUS_KEYS; i++)
		litmus_expect(self, LITMUS_KEYS_FROM * (1 + who) + i, 0);
}

/* Of each region, but for what is at its beginning. */
static void
expect_equal(void)
{
	const struct nam__memory *one = &litmus.cluster.servers[BACKED].server->memory;
	const struct nam__memory *other = &backup->server->memory;

	for (uint32_t i = 0; i < one->count; i++) {
		const uint64_t *a = (const void *)one->bases[i];
		const uint64_t *b = (const void *)other->bases[i];

		for (uint64_t at = 8; at < one->region_bytes / 8; at++)
			if (a[at] != b[at]) {
				litmus_fail("the backup differs in word %llu of region %u",
					(unsigned long long)at, i);
				return;
			}
	}
}

static void
end_backed(struct actor *self)
{
	expect_inserted(self, A);
	expect_inserted(self, B);
	expect_equal();
	litmus_verify(self);
}

static void
end_word(struct actor *self)
{
	struct nam__cluster_view *view;

	litmus_await(FOUR);
	litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	view = litmus_view_of(self);
	if (strcmp(view->members[BACKED].address, backup->address) != 0)
		litmus_fail("memory server %u is at %s", BACKED, view->members[BACKED].address);
	free(view);
	litmus_verify(self);
}

static void
end_promoted(struct actor *self)
{
	end_word(self);
	expect_inserted(self, A);
	expect_inserted(self, B);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_backup_cases[] = {
	{ { "backup_writers", LITMUS_LOADED,
		{ end_backed, litmus_insert_on, litmus_insert_on, back_only }, { { 0 } } },
		"a member gets a backup while two clients insert and look up", 2, 0 },
	{ { "backup_promoted", LITMUS_LOADED,
		{ end_promoted, litmus_insert_on, litmus_insert_on, back_kill_promote },
		{ { 0 } } },
		"its process is killed then, and the backup gets its place", 2, 0 },
	{ { "backup_word", LITMUS_LOADED, { end_word, change_words, NULL, back_kill_promote },
		{ { 0 } } },
		"the same, of words that a client has changed by CAS", 2, 0 },
	{ { "backup_reserved", LITMUS_LOADED, { end_word, hold_reserved, NULL, back_kill_promote },
		{ { 0 } } },
		"the same, of a lock word that was reserved as the backup was filled", 2, 0 },
	{ { "backup_merge", LITMUS_LOADED,
		{ end_changed, merge_backed, change_both, back_kill_with_collector },
		{ { "merge.left_written", A, litmus_die_here } } },
		"a collector dies half-way through a merge, and a member with it", 2, 0 },
	{ { "backup_merge_any", LITMUS_LOADED,
		{ end_changed, merge_backed, change_both, back_kill_with_collector },
		{ { "merge.locked", A, die_within_merge } } },
		"the same, at any moment", 2, 0 },
	{ { "backup_taken", LITMUS_LOADED,
		{ end_taken, die_with_lock, take_over, back_kill_promote },
		{ { "lock.taken", A, litmus_die_here }, { "recover.taken", B, hold_taken } } },
		"a client takes the lock of a dead one over, and the member ends", 2, 0 },
	{ { "backup_outcome", 0, { NULL, put_decided, put_meanwhile, back_kill_unback },
		{ { "backup.words_decided", A, hold_decided } } },
		"a backup ends as it has decided about a put, and another one is faster", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
