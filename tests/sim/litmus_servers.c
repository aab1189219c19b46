/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_servers.c -- scenes in trees that memory servers search and change themselves.
 *
 * There the steps of a change are the memory server's.  SERVER is held, in the handler that works
 * for the first to come to the point.
 */
#include "compute/remote/epoch.h"
#include "index/coarse/coarse.h"
#include "litmus.h"

#define LATE_NS 100000u
#define RPC_LATE_NS 8000000000ull	/* longer than any client waits for an answer */
#define TAKEN 64u			/* blocks, more than are free */
#define OTHERS 1000u			/* numbers of pairs that a second load brings */

/* ---- holding --------------------------------------------------------------------------------- */

/* Stops the first actor until TWO, or until others evidently wait for it. */
static void
hold_first_briefly(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, LITMUS_SHORT_NS);
}

/* ---- on the way to a leaf that is merged away ------------------------------------------------ */

static void
insert_slowly(struct actor *self)
{
	litmus_insert(self, 225);
}

/* The third leaf goes into the second. */
static void
merge_third(struct actor *self)
{
	litmus_await(ONE);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	(void)litmus_collect(self);
}

static void
merge_meanwhile(struct actor *self)
{
	merge_third(self);
	litmus.flags[TWO] = true;
}

static void
insert_range(struct actor *self, uint64_t first, uint64_t last)
{
	for (uint64_t number = first; number <= last; number += 10)
		litmus_insert(self, number);
}

/*
 * And its block becomes a leaf of larger keys.  A division takes the fourth of the blocks that were
 * given back last: so three more are.
 */
static void
merge_and_reuse(struct actor *self)
{
	merge_third(self);
	litmus_delete_range(self, 340, 430);
	(void)litmus_collect(self);
	litmus_delete_range(self, 10, 100);
	(void)litmus_collect(self);
	insert_range(self, 410, 520);
	litmus_delete_range(self, 410, 520);
	(void)litmus_collect(self);
	insert_range(self, 410, 520);
	litmus.flags[TWO] = true;
}

static void
end_after_reuse(struct actor *self)
{
	litmus_expect(self, 0, 0);
	litmus_expect_range(self, 110, 120, 0);
	litmus_expect(self, 220, 0);
	litmus_expect(self, 225, 0);
	litmus_expect_range(self, 410, 520, 0);
	litmus_verify(self);
}

static void
end_after_merge(struct actor *self)
{
	litmus_expect_range(self, 0, 120, 0);
	litmus_expect(self, 220, 0);
	litmus_expect(self, 225, 0);
	litmus_expect_range(self, 330, 430, 0);
	litmus_verify(self);
}

/* ---- a client asks the wrong memory server --------------------------------------------------- */

static void
misroute(struct actor *self)
{
	uint16_t *slots = self->index->parts->slots, first = slots[0];

	slots[0] = slots[1];
	slots[1] = first;
	for (uint64_t number = 5; number < 100; number += 10) {
		int rc = litmus_try_insert(self, number);

		if (rc != -NAM_E_PARTITION)
			litmus_fail("insert(%llu) where it does not belong: %s",
				(unsigned long long)number, nam_err_name(rc));
	}
	litmus_expect(self, 10, -NAM_E_PARTITION);
}

static void
end_unchanged(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect_range(self, 5, 95, -NAM_E_NOTFOUND);
	litmus_verify(self);
}

/* ---- loads ----------------------------------------------------------------------------------- */

struct source {
	uint64_t first, count;
};

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	struct source *source = arg;

	if (!source->count)
		return NAM_INDEX_END;
	source->count--;
	nam_key_from_u64(source->first, key);
	*payload = source->first + 1;
	source->first += 10;
	return NAM_INDEX_PAIR;
}

static int
load(struct actor *self, uint64_t first)
{
	struct source source = { first, LITMUS_LOADED };
	int rc = nam_index_bulk_load(self->worker, self->index, source_next, &source, 100, NULL);

	nam_sim_note("bulk load: %s", nam_err_name(rc));
	return rc;
}

static void
load_whole(struct actor *self)
{
	int rc = load(self, 0);

	if (rc)
		litmus_fail("bulk load: %s", nam_err_name(rc));
}

static void
insert_beside_load(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 301);
	litmus.flags[TWO] = true;
}

static void
end_loaded(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect(self, 301, 0);
	litmus_verify(self);
}

static void
insert_before_load(struct actor *self)
{
	litmus_insert(self, 301);
}

/* All of it, or nothing. */
static void
load_after_insert(struct actor *self)
{
	int rc;

	litmus_await(ONE);
	rc = load(self, 0);
	if (rc != -NAM_E_NOTEMPTY)
		litmus_fail("bulk load: %s", nam_err_name(rc));
	litmus.flags[TWO] = true;
}

static void
let_insert_go(struct actor *self)
{
	(void)self;
	litmus.flags[TWO] = true;
	nam_sleep_ns(LATE_NS);
}

static void
end_not_loaded(struct actor *self)
{
	litmus_expect_range(self, 0, 430, -NAM_E_NOTFOUND);
	litmus_expect(self, 301, 0);
	litmus_verify(self);
}

static void
load_again(struct actor *self)
{
	int rc = load(self, OTHERS);

	if (rc != -NAM_E_NOTEMPTY)
		litmus_fail("bulk load into a part with keys: %s", nam_err_name(rc));
}

static void
end_as_before(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect_range(self, OTHERS, OTHERS + 430, -NAM_E_NOTFOUND);
	litmus_verify(self);
}

/* ---- hybrid: the name of a leaf that is dead ------------------------------------------------- */

static void
die_before_name(struct actor *self)
{
	nam_sim_process_kill(self->process);
	litmus.flags[ONE] = true;
}

static void
look_after_merge(struct actor *self)
{
	litmus_await(ONE);
	nam_sleep_ns(LATE_NS);
	litmus_expect(self, 220, 0);
	litmus_expect_range(self, 230, 320, -NAM_E_NOTFOUND);
	litmus_expect_range(self, 330, 430, 0);
}

static void
merge_and_die(struct actor *self)
{
	struct nam_collect_stat stat;
	int rc;

	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	rc = nam_index_collect(self->worker, self->index, &stat);
	if (!rc)
		litmus_fail("a collector outlives its end");
}

/* ---- hybrid: a name that is not taken away in time ------------------------------------------- */

static void
be_late(struct actor *self)
{
	(void)self;
	nam_sim_delay_next(NAM_WR_SEND, 0, RPC_LATE_NS);
}

static void
merge_without_answer(struct actor *self)
{
	struct nam_collect_stat stat;
	int rc;

	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	rc = nam_index_collect(self->worker, self->index, &stat);
	if (rc != -NAM_E_FABRIC_TIMEOUT)
		litmus_fail("collect: %s", nam_err_name(rc));
	if (nam__limbo_bytes(self->worker) != self->index->g.stride)
		litmus_fail("the leaf is not retired");
	litmus.flags[ONE] = true;
}

/* Into the merged node. */
static void
insert_after_merge(struct actor *self)
{
	litmus_await_for(ONE, 2 * RPC_LATE_NS);
	litmus_insert(self, 115);
	litmus_insert(self, 225);
}

/* ---- hybrid: a name that stays --------------------------------------------------------------- */

/* The third leaf goes into the second, and its name stays, as if the request had failed. */
static struct nam_gaddr
merge_and_keep_name(struct actor *self)
{
	struct actor part = *self;
	struct nam_gaddr third;
	struct nam__key low;
	uint8_t key[8];

	part.index = self->index->leaves[0];
	third = litmus_leaf_of(&part, 220, NULL);
	nam_key_from_u64(220, key);
	nam__key_encode(&part.index->g, key, 0, &low);
	litmus_delete_range(self, 130, 210);
	litmus_delete_range(self, 230, 320);
	(void)litmus_collect(self);
	if (nam__tree_point(self->worker, part.index, part.index->names_slot,
		NAM_RPC_TREE_INSERT, low.w, part.index->g.full_words, third.raw, NULL))
		litmus_fail("naming: %s", nam_worker_diag(self->worker));
	return third;
}

static void
keep_name(struct actor *self)
{
	(void)merge_and_keep_name(self);
	litmus.flags[ONE] = true;
}

static void
collect_kept_name(struct actor *self)
{
	litmus_await(ONE);
	(void)litmus_collect(self);
	litmus_verify(self);
	litmus_insert(self, 225);
}

static void
keep_name_and_reuse(struct actor *self)
{
	struct nam_gaddr third = nam_gaddr_untagged(merge_and_keep_name(self));
	uint64_t word;

	litmus_limbo_empty(self);
	litmus_take(self, self->index->g.stride, TAKEN);
	word = litmus_read_word(self, third);
	if (!word || word > TAKEN)
		litmus_fail("the block of the leaf is not free");
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_expect_taken(self);
}

static void
change_by_kept_name(struct actor *self)
{
	litmus_await(ONE);
	litmus_insert(self, 225);
	look_after_merge(self);
	litmus.flags[TWO] = true;
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_server_cases[] = {
	{ { "merged_at_server", LITMUS_LOADED, { end_after_merge, insert_slowly, merge_meanwhile },
			{ { "server.stepped", SERVER, litmus_hold_first } } },
		"a memory server is on the way to a leaf of its own that is merged away", 1,
		LITMUS_COARSE_HASH },
	{ { "reused_at_server", LITMUS_LOADED, { end_after_reuse, insert_slowly, merge_and_reuse },
			{ { "server.stepped", SERVER, litmus_hold_first } } },
		"the same, and then its block is to be another leaf", 1, LITMUS_COARSE_HASH },
	{ { "misrouted", LITMUS_LOADED, { end_unchanged, misroute }, { { 0 } } },
		"a client asks memory servers for keys that others keep", 2, LITMUS_COARSE_HASH },
	{ { "load_beside_insert", 0, { end_loaded, load_whole, insert_beside_load },
			{ { "coarse_load.sent", A, hold_first_briefly } } },
		"an insert into a part that is being loaded", 2, LITMUS_COARSE_RANGE },
	{ { "load_after_insert", 0, { end_not_loaded, load_after_insert, insert_before_load },
			{ { "tree.admitted", SERVER, hold_first_briefly },
				{ "coarse_load.sent", A, let_insert_go } } },
		"an insert is under way when its part is to be loaded", 2, LITMUS_COARSE_RANGE },
	{ { "load_again", LITMUS_LOADED, { end_as_before, load_again }, { { 0 } } },
		"a bulk load into a part that is not empty", 2, LITMUS_COARSE_ROUND_ROBIN },
	{ { "named_after_death", LITMUS_LOADED, { NULL, look_after_merge, merge_and_die },
			{ { "merge.buried", B, die_before_name } } },
		"hybrid: a collector dies when a leaf is dead and its name still there", 1,
		LITMUS_HYBRID_HASH },
	{ { "late_unname", LITMUS_LOADED,
			{ end_after_merge, insert_after_merge, merge_without_answer },
			{ { "merge.buried", B, be_late } } },
		"hybrid: a memory server takes too long to forget a leaf that is dead", 1,
		LITMUS_HYBRID_HASH },
	{ { "name_kept", LITMUS_LOADED, { end_after_merge, keep_name, collect_kept_name },
			{ { 0 } } },
		"hybrid: a dead leaf's name stays, and a collector comes", 1,
		LITMUS_HYBRID_HASH },
	{ { "name_reused", LITMUS_LOADED,
			{ end_after_merge, keep_name_and_reuse, change_by_kept_name }, { { 0 } } },
		"hybrid: the same, its block is used again, and a writer comes", 1,
		LITMUS_HYBRID_HASH },
	{ { 0 }, NULL, 0, 0 },
};
