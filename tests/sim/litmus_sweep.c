/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_sweep.c -- scenes about sweeps: blocks that a dead client allocated, and that a living one
 * takes out of the tree, keeps, or uses again meanwhile.
 *
 * A client fills leaves to the right of all others and dies, so their blocks are its own.  Another
 * one thins them out and merges them.  After a sweep all free blocks are used, with a number in
 * each.  A block that was freed and is used elsewhere shows another number, or damages the tree.
 */
#include "common/rpc/alloc_rpc.h"
#include "compute/remote/epoch.h"
#include "compute/worker/worker.h"
#include "index/index_internal.h"
#include "index/maintain.h"
#include "txn/sweep.h"
#include "litmus.h"

#define KEY 115u
#define FIRST 500u
#define LAST 1300u
#define KEPT 3u			/* keys in the end, all in the last leaf */
#define ALL 2000u		/* free blocks, and some fresh ones */
#define PACE 300u		/* three nodes to an operation */
#define HEADS "litmus-heads"
#define HEADS_PAIRS 300u
#define RESTS_BEFORE 2u

static unsigned rests;		/* between operations of a mark */

static uint32_t
stride(const struct actor *self)
{
	return self->index->g.stride;
}

static void
fill_and_die(struct actor *self)
{
	for (uint64_t n = FIRST; n <= LAST; n += 10)
		litmus_insert(self, n);
	nam_sim_process_kill(self->process);
	litmus.flags[ONE] = true;
}

static void
await_death(struct actor *self, enum who who)
{
	litmus_await(ONE);
	litmus_await_state(self, who, NAM_CLIENT_DEAD);
}

static uint64_t
sweep(struct actor *self)
{
	struct nam_sweep_stat stat = { 0 };
	int rc = nam_sweep(self->worker, false, &stat);

	if (rc)
		litmus_fail("sweep: %s: %s", nam_err_name(rc), nam_worker_diag(self->worker));
	return stat.freed.blocks;
}

static void
thin_out(struct actor *self)
{
	litmus_delete_range(self, FIRST, LAST - 10 * KEPT);
}

static void
end_filled(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect_range(self, FIRST, LAST, 0);
	litmus_verify(self);
}

static void
end_thinned(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_expect_range(self, LAST - 10 * (KEPT - 1), LAST, 0);
	litmus_verify(self);
}

/* ---- nodes that names lead to, and a living client's block cache ----------------------------- */

static void
sweep_and_use(struct actor *self)
{
	await_death(self, A);
	litmus_await(TWO);
	if (!sweep(self))
		litmus_fail("the dead client's block cache is not freed");
	litmus_take(self, stride(self), ALL);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	litmus_expect_taken(self);
}

static void
keep_block(struct actor *self)
{
	struct nam_gaddr block;

	if (nam_alloc(self->worker, stride(self), &block))
		litmus_fail("alloc: %s", nam_worker_diag(self->worker));
	litmus_write_word(self, block, UINT64_MAX);
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	if (litmus_read_word(self, block) != UINT64_MAX)
		litmus_fail("a block that a living client has cached was freed");
	nam_free_unseen(self->worker, nam_gaddr_untagged(block), stride(self));
	litmus.flags[FOUR] = true;
}

/* ---- blocks of the dead client that a living one has ----------------------------------------- */

/* Blocks of merged leaves, and then of its block cache: used again, before the sweep. */
static void
use_again(struct actor *self)
{
	struct nam_gaddr blocks[64];

	await_death(self, A);
	thin_out(self);
	(void)litmus_collect(self);
	litmus_limbo_empty(self);
	for (unsigned i = 0; i < 64; i++) {
		if (nam_alloc(self->worker, stride(self), &blocks[i]))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
		litmus_write_word(self, blocks[i], UINT64_MAX - i);
	}
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	for (unsigned i = 0; i < 64; i++) {
		if (litmus_read_word(self, blocks[i]) != UINT64_MAX - i)
			litmus_fail("a block that a living client uses again was freed");
		nam_free_unseen(self->worker, nam_gaddr_untagged(blocks[i]), stride(self));
	}
	litmus.flags[FOUR] = true;
}

/* They stay in its limbo while the sweep is made; then it uses them, too. */
static void
take_from_limbo(struct actor *self)
{
	struct nam_gaddr block;

	litmus_limbo_empty(self);
	for (unsigned i = 0; i < 64 && !nam_alloc(self->worker, stride(self), &block); i++)
		litmus_write_word(self, block, UINT64_MAX);
	litmus.flags[FOUR] = true;
}

static void
keep_in_limbo(struct actor *self)
{
	await_death(self, A);
	thin_out(self);
	nam__labels_hold(self->worker);
	(void)litmus_collect(self);
	litmus.flags[TWO] = true;
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	nam__labels_release(self->worker);
	take_from_limbo(self);
}

/* The dead are known. */
static void
let_merge(struct actor *self)
{
	(void)self;
	if (litmus.flags[FIVE])
		return;
	litmus.flags[FIVE] = true;
	litmus_await_for(SEEN, LITMUS_TIMEOUT_NS);
}

/* Its merge is held up before it retires the leaf that it has taken out. */
static void
hold_merge(struct actor *self)
{
	(void)self;
	if (litmus.flags[SEEN])
		return;
	litmus.flags[SEEN] = true;
	litmus_await_for(THREE, LITMUS_SHORT_NS);
}

static void
merge_slowly(struct actor *self)
{
	await_death(self, A);
	thin_out(self);
	litmus.flags[TWO] = true;
	litmus_await(FIVE);
	nam__labels_hold(self->worker);
	(void)litmus_collect(self);
	nam__labels_release(self->worker);
	litmus_await_for(THREE, 8 * LITMUS_TIMEOUT_NS);
	take_from_limbo(self);
}

/* ---- a sweep whose client dies --------------------------------------------------------------- */

static void
sweep_and_die(struct actor *self)
{
	struct nam_sweep_stat stat;

	await_death(self, A);
	(void)!nam_sweep(self->worker, false, &stat);
}

/* All is marked, and no memory server has been told that this is the end. */
static void
die_marked(struct actor *self)
{
	litmus.flags[TWO] = true;
	nam_sim_process_kill(self->process);
}

static void
sweep_after(struct actor *self)
{
	await_death(self, A);
	litmus_await(TWO);
	litmus_await_state(self, B, NAM_CLIENT_DEAD);
	if (!sweep(self))
		litmus_fail("a sweep after half of another one frees nothing");
	litmus_take(self, stride(self), ALL);
	litmus_expect_taken(self);
}

/* ---- a merge whose collector is killed ------------------------------------------------------- */

static void
thin_and_die(struct actor *self)
{
	struct nam_collect_stat stat;

	await_death(self, A);
	thin_out(self);
	litmus.flags[TWO] = true;
	litmus_await(FIVE);
	(void)!nam_index_collect(self->worker, self->index, &stat);
}

/* The parent does not lead to the leaf any more, and the leaf is not retired, nor will it be. */
static void
stay_in_merge(struct actor *self)
{
	(void)self;
	litmus.flags[SEEN] = true;
	litmus_await_for(FOUR, 8 * LITMUS_TIMEOUT_NS);
	nam_sleep_ns(LITMUS_TIMEOUT_NS);
}

/* All that names lead to is marked. */
static void
kill_collector(struct actor *self)
{
	(void)self;
	if (litmus.flags[FOUR])
		return;
	litmus.flags[FOUR] = true;
	nam_sim_process_kill(litmus.actors[C].process);
}

/* The next collector ends the merge, so the leaf is in a limbo, and cannot be free as well. */
static void
sweep_and_resume(struct actor *self)
{
	struct nam_gaddr blocks[64];
	unsigned count = 0;

	litmus_await(TWO);
	(void)sweep(self);
	nam__labels_hold(self->worker);
	(void)litmus_collect(self);
	litmus_take(self, stride(self), ALL);
	nam__labels_release(self->worker);
	litmus_limbo_empty(self);
	while (count < 64 && !nam_alloc(self->worker, stride(self), &blocks[count]))
		litmus_write_word(self, blocks[count++], UINT64_MAX);
	litmus_expect_taken(self);
}

/* ---- a swept node that is not dead ----------------------------------------------------------- */

/* As the next owner of a node that a sweep has freed, and that a stale writer has locked. */
static void
own_swept(struct actor *self)
{
	struct nam_gaddr leaf = nam_gaddr_untagged(litmus_leaf_of(self, KEY, NULL)), at;
	uint64_t body[(sizeof(struct nam_rpc_free_request) + 8) / 8] = { 0 };
	struct nam_rpc_free_request *request = (void *)body;
	const uint32_t bytes = self->index->g.node_bytes;
	uint64_t *image = nam_buffer_take(self->worker, bytes);
	struct nam_batch batch;
	uint32_t generation;
	bool owned = false;

	litmus_await(ONE);
	request->stride = stride(self);
	request->count = 1;
	request->blocks[0] = nam_gaddr_tagged(leaf, NAM_BLOCK_SWEPT).raw;
	if (!image || nam_rpc_call(self->worker, nam__server_slot(self->client, leaf),
			NAM_RPC_FREE, request, sizeof(body), NULL, NULL))
		sim_die("the block cannot be freed");
	nam__op_begin(self->worker, NAM_OP_OTHER);
	for (unsigned i = 0; i < ALL && !owned; i++) {
		if (nam__node_alloc(self->worker, self->index, false, &at, &generation))
			sim_die("no block");
		owned = nam_gaddr_same(nam_gaddr_untagged(at), leaf);
	}
	nam__op_end(self->worker);
	/* A node is written from its second word on. */
	memset(image, 0x5a, bytes);
	nam_batch_init(&batch, self->worker);
	if (owned)
		nam_batch_write(&batch, leaf, 8, image, bytes - 8);
	if (nam_batch_await(&batch))
		sim_die("no WRITE");
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	if (nam_read_await(self->worker, leaf, image, bytes))
		sim_die("no READ");
	for (uint32_t i = 1; i < bytes / 8 && owned; i++)
		if (image[i] != 0x5a5a5a5a5a5a5a5a)
			litmus_fail("a stale writer has written into a new node");
}

static void
insert_stale(struct actor *self)
{
	(void)litmus_try_insert(self, KEY);
	litmus.flags[INSERTED] = true;
}

/* ---- a mark in several operations ------------------------------------------------------------ */

static int
next_pair(void *arg, void *key, uint64_t *payload)
{
	uint64_t *number = arg;

	if (*number == HEADS_PAIRS)
		return NAM_INDEX_END;
	*payload = ++*number;
	nam_key_from_u64(*payload, key);
	return NAM_INDEX_PAIR;
}

static struct nam_index *
heads_open(struct actor *self)
{
	struct nam_index *index = NULL;

	if (nam_index_open(self->worker, HEADS, 0, &index) && !nam_sim_zombie())
		sim_die("the index: %s", nam_worker_diag(self->worker));
	return index;
}

static void
load_heads(struct actor *self)
{
	struct nam_index_options options;
	struct nam_index *index;
	uint64_t number = 0;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 3;
	if (nam_index_create(self->worker, HEADS, &options))
		sim_die("the index: %s", nam_worker_diag(self->worker));
	index = heads_open(self);
	if (nam_index_bulk_load(self->worker, index, next_pair, &number, 0, NULL))
		sim_die("the load: %s", nam_worker_diag(self->worker));
	nam_index_close(index);
}

static void
load_heads_and_die(struct actor *self)
{
	load_heads(self);
	litmus_die_here(self);
}

static void
sweep_heads(struct actor *self)
{
	struct nam_index_stat stat = { 0 };
	struct nam_index *index;
	uint64_t violations = 0;
	int rc;

	await_death(self, A);
	nam_worker_pace(self->worker, PACE);
	(void)sweep(self);
	litmus_take(self, stride(self), ALL);
	index = heads_open(self);
	rc = nam_index_verify(self->worker, index, NULL, NULL, &violations);
	if (!rc)
		rc = nam_index_stat(self->worker, index, &stat);
	if (rc || violations || !stat.head_nodes || stat.entries != HEADS_PAIRS)
		litmus_fail("the index with head nodes: %s, %llu violations", nam_err_name(rc),
			(unsigned long long)violations);
	nam_index_close(index);
	litmus_expect_taken(self);
}

/* Between two operations of the mark the other client merges, and uses again what was there. */
static void
let_use_again(struct actor *self)
{
	(void)self;
	if (++rests != RESTS_BEFORE)
		return;
	litmus.flags[FIVE] = true;
	litmus_await_for(SEEN, LITMUS_TIMEOUT_NS);
}

static void
sweep_slowly(struct actor *self)
{
	rests = 0;
	nam_worker_pace(self->worker, PACE);
	sweep_and_use(self);
}

/* Meanwhile the sweep holds back no memory. */
static void
expect_reusable(struct actor *self)
{
	uint64_t reusable = 0;

	for (unsigned i = 0; i < 16 && !reusable; i++) {
		if (nam__limbo_advance(self->worker, &reusable))
			litmus_fail("the limbo: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
	if (!reusable)
		litmus_fail("a sweep that pauses holds back memory");
}

static void
merge_at_rest(struct actor *self)
{
	await_death(self, A);
	litmus.flags[TWO] = true;
	litmus_await_for(FIVE, 8 * LITMUS_TIMEOUT_NS);
	thin_out(self);
	(void)litmus_collect(self);
	expect_reusable(self);
	take_from_limbo(self);
	litmus_insert(self, FIRST);
	litmus.flags[SEEN] = true;
}

/* ---- an index whose dropper has died --------------------------------------------------------- */

static void
drop_and_die(struct actor *self)
{
	load_heads(self);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	(void)!nam_index_drop(self->worker, HEADS);
}

static void
sweep_dropped(struct actor *self)
{
	await_death(self, A);
	(void)sweep(self);
	litmus.flags[FOUR] = true;
}

static void
collect_dropped(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };
	struct nam_index *index;
	uint8_t key[8];
	int rc;

	litmus_await(TWO);
	index = heads_open(self);
	nam_key_from_u64(HEADS_PAIRS + 1, key);
	rc = nam_index_insert(self->worker, index, key, 1);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	if (!rc)
		rc = nam_index_collect(self->worker, index, &stat);
	if (rc != -NAM_E_DROPPED)
		litmus_fail("collect: %s", nam_err_name(rc));
	nam_index_close(index);
}

const struct litmus_case litmus_sweep_cases[] = {
	{ { "sweep_block_cache", LITMUS_LOADED,
		{ end_filled, fill_and_die, sweep_and_use, keep_block }, { { 0 } } },
		"a client dies, and its block cache is freed; a living one keeps its own", 2,
		0 },
	{ { "sweep_again", LITMUS_LOADED,
		{ end_thinned, fill_and_die, sweep_and_use, use_again }, { { 0 } } },
		"a client dies, and another one uses its blocks again before a sweep", 2, 0 },
	{ { "sweep_limbo", LITMUS_LOADED,
		{ end_thinned, fill_and_die, sweep_and_use, keep_in_limbo }, { { 0 } } },
		"the same, and they are in a limbo while the sweep is made", 2, 0 },
	{ { "sweep_merge", LITMUS_LOADED,
		{ end_thinned, fill_and_die, sweep_and_use, merge_slowly },
		{ { "merge.ended", C, hold_merge }, { "sweep.living", B, let_merge } } },
		"the same, and one is taken out and not in the limbo yet", 2, 0 },
	{ { "sweep_killed", LITMUS_LOADED,
		{ end_thinned, fill_and_die, sweep_and_resume, thin_and_die },
		{ { "merge.buried", C, stay_in_merge }, { "sweep.living", B, let_merge },
			{ "sweep.marked", B, kill_collector } } },
		"a collector is killed in a merge while a sweep is made, and the next one ends it",
		2, 0 },
	{ { "sweep_dies", LITMUS_LOADED,
		{ end_filled, fill_and_die, sweep_and_die, sweep_after },
		{ { "sweep.marked", B, die_marked } } },
		"a client dies in a sweep when all is marked, and the next one sweeps again", 2,
		0 },
	{ { "sweep_alive", LITMUS_LOADED, { NULL, insert_stale, own_swept },
		{ { "lock.taken", A, litmus_hold_first } } },
		"a sweep frees a node that is not dead, and a writer has locked it", 1, 0 },
	{ { "sweep_heads", 0, { NULL, load_heads_and_die, sweep_heads }, { { 0 } } },
		"a client loads an index with head nodes and dies, and a sweep marks it in slices",
		2, 0 },
	{ { "sweep_unnamed", 0, { NULL, drop_and_die, sweep_dropped, collect_dropped },
		{ { "drop.unnamed", A, litmus_die_here } } },
		"a client dies when it has taken the name of an index away, and another one that "
		"has it open collects after a sweep", 2, 0 },
	{ { "sweep_rest", LITMUS_LOADED,
		{ end_thinned, fill_and_die, sweep_slowly, merge_at_rest },
		{ { "sweep.rest", B, let_use_again } } },
		"between two slices another one merges a dead client's nodes, and uses them again",
		2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
