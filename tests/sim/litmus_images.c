/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_images.c -- scenes about READs that deliver images of several moments in one.
 */
#include "index/validate.h"
#include "litmus.h"

#define HALF 12u			/* a READ stops before this one of its 32 steps */
#define PAUSE_NS (7ull * LITMUS_POLL_NS)
#define ROUNDS 5u
#define SLOW_TIMES 100u

/* ---- entries move while half of the leaf has been read --------------------------------------- */

/*
 * The first entries go, so that all others move; and come back behind them, until there are enough
 * of those that all are sorted again.
 */
static void
move_entries(struct actor *self)
{
	uint64_t number = 110;

	litmus_await(ONE);
	while (!litmus.flags[TWO]) {
		litmus_delete_range(self, number, number);
		nam_sleep_ns(LITMUS_POLL_NS);
		litmus_insert(self, number);
		nam_sleep_ns(LITMUS_POLL_NS);
		number = number < 150 ? number + 10 : 110;
	}
}

static void
expect_by_halves(struct actor *self, uint64_t number, int expected)
{
	nam_sim_delay_next(NAM_WR_READ, HALF, PAUSE_NS);
	litmus_expect(self, number, expected);
}

static void
read_by_halves(struct actor *self)
{
	litmus_expect_range(self, 110, 210, 0);
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < 2 * ROUNDS; i++)
		for (uint64_t number = 160; number <= 210; number += 10)
			expect_by_halves(self, number, 0);
	litmus.flags[TWO] = true;
}

static void
end_whole(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus_verify(self);
}

/* ---- torn, though the ends agree ------------------------------------------------------------- */

/* One READ of the leaf, as it comes.  Whether it was torn between ends that agree. */
static bool
read_once(struct actor *self, struct nam_gaddr at, uint64_t *image)
{
	const struct nam__geometry *g = &self->index->g;
	bool torn_inside;
	int rc;

	nam_sim_delay_next(NAM_WR_READ, HALF, PAUSE_NS);
	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam_read_await(self->worker, at, image, g->node_bytes);
	nam__op_end(self->worker);
	if (rc)
		litmus_fail("reading a leaf: %s", nam_err_name(rc));
	torn_inside = !rc && nam__node_ends_agree(g, image) &&
		image[NAM__WORD_HASH] != nam__node_hash(g, image, at);
	if (torn_inside && !nam__node_validate(self->index, image, at, 0, NAM__NODE_LEAF))
		litmus_fail("a torn image was believed: its ends agree");
	return torn_inside;
}

static void
read_between_ends(struct actor *self)
{
	uint64_t *image = nam_buffer_take(self->worker, self->index->g.node_bytes);
	struct nam_gaddr at;
	unsigned seen = 0;

	if (!image)
		sim_die("no memory");
	at = litmus_leaf_of(self, 150, NULL);
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < 10 * ROUNDS; i++)
		seen += read_once(self, at, image);
	litmus.flags[TWO] = true;
	nam_buffer_give(self->worker, image, self->index->g.node_bytes);
	/* Where loads are ordered, ends that agree mean that all between them belongs to them. */
	if (self->index->ordered_loads && seen)
		litmus_fail("%u images were torn, and their ends agree", seen);
	if (!self->index->ordered_loads && !seen)
		litmus_fail("no image was torn between ends that agree");
}

/* ---- an absent key beside its neighbours ----------------------------------------------------- */

/*
 * Of the first leaf, 0 .. 100, the 0 is taken away: behind its last entry there are zeros now,
 * which are the bytes of an entry with key 0.
 */
static void
move_neighbours(struct actor *self)
{
	litmus_await(SEEN);
	litmus_delete_range(self, 0, 0);
	litmus.flags[ONE] = true;
	while (!litmus.flags[TWO]) {
		litmus_insert(self, 5);
		litmus_delete_range(self, 10, 10);
		nam_sleep_ns(LITMUS_POLL_NS);
		litmus_insert(self, 10);
		litmus_delete_range(self, 5, 5);
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	for (uint64_t number = 1; number <= 3; number++)
		litmus_insert(self, number);
}

/* The first leaf has been divided; its right half is not named yet. */
static void
hold_unnamed(struct actor *self)
{
	(void)self;
	litmus.flags[THREE] = true;
	litmus_await_for(FOUR, LITMUS_SHORT_NS * 8);
}

static void
look_beside(struct actor *self)
{
	litmus_expect_range(self, 0, 430, 0);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (uint64_t number = 20; number <= 100; number += 10) {
			expect_by_halves(self, 0, -NAM_E_NOTFOUND);
			expect_by_halves(self, number, 0);
			expect_by_halves(self, number + 5, -NAM_E_NOTFOUND);
		}
	}
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	litmus_expect(self, 0, -NAM_E_NOTFOUND);
	litmus_expect_range(self, 10, 100, 0);
	litmus_expect_range(self, 5, 105, -NAM_E_NOTFOUND);
	litmus.flags[FOUR] = true;
}

static void
end_absent(struct actor *self)
{
	litmus_expect(self, 0, -NAM_E_NOTFOUND);
	litmus_expect_range(self, 10, 430, 0);
	litmus_expect_range(self, 5, 435, -NAM_E_NOTFOUND);
	litmus_verify(self);
}

/* ---- a READ that passes the CAS before it in parts ------------------------------------------- */

/* So slow are its messages that others change the leaf between any two steps of a READ. */
static void
change_slowly(struct actor *self)
{
	litmus_expect_range(self, 110, 210, 0);
	litmus.flags[TWO] = true;
	nam_sim_process_slow(self->process, SLOW_TIMES);
	for (unsigned i = 0; i < 8 * ROUNDS && !litmus.failed; i++) {
		litmus_insert(self, 111);
		litmus_delete_range(self, 111, 111);
	}
	nam_sim_process_slow(self->process, 1);
	litmus.flags[ONE] = true;
}

static void
change_meanwhile(struct actor *self)
{
	litmus_await(TWO);
	while (!litmus.flags[ONE] && !litmus.failed) {
		litmus_delete_range(self, 200, 200);
		nam_sleep_ns(LITMUS_POLL_NS);
		litmus_insert(self, 200);
		nam_sleep_ns(LITMUS_POLL_NS);
	}
}

/* ---- a READ by the processor, behind an atomic of the card ----------------------------------- */

#define ADDS 40u
#define STRIDE 64u

/* The client is on the machine of the memory server, and does not wait for what it adds. */
static void
add_and_read(struct actor *self)
{
	struct nam_worker *worker = self->worker;
	bool ordered = worker->client->caps & NAM_CAP_ORDER_ATOMIC_READ;
	const struct nam_op_counters *counters = nam_worker_counters(worker, NAM_OP_OTHER);
	uint64_t *words = nam_buffer_take(worker, STRIDE), before = counters->colocated_reads;
	struct nam_gaddr at;
	void *done[2];

	nam_sim_process_place(self->process, 0);
	nam_sim_process_place(litmus.actors[SERVER].process, 0);
	if (!words || nam_alloc(worker, STRIDE, &at)) {
		litmus_fail("no memory");
		return;
	}
	at = nam_gaddr_untagged(at);
	memset(words, 0, STRIDE);
	if (nam_write_await(worker, at, words, STRIDE))
		litmus_fail("the WRITE failed");
	for (uint64_t i = 1; i <= ADDS && !litmus.failed; i++) {
		if (nam_async_fetch_add(worker, at, 1, &words[0], &words[0]) ||
			nam_async_read(worker, at, &words[1], 8, &words[1]))
			litmus_fail("a request was refused");
		for (int count = 0, n; count < 2; count += n)
			if ((n = nam_async_poll(worker, done, 2)) < 0) {
				litmus_fail("a request failed: %s", nam_err_name(n));
				return;
			}
		if (ordered && words[1] != i)
			litmus_fail("a READ behind %llu atomics saw %llu of them",
				(unsigned long long)i, (unsigned long long)words[1]);
		/* Alone, it needs no card. */
		if (nam_read_await(worker, at, &words[1], 8) || words[1] != i)
			litmus_fail("a READ by itself saw %llu of %llu atomics",
				(unsigned long long)words[1], (unsigned long long)i);
	}
	if (counters->colocated_reads < before + ADDS)
		litmus_fail("%llu local READs",
			(unsigned long long)counters->colocated_reads - before);
	nam_buffer_give(worker, words, STRIDE);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_image_cases[] = {
	{ { "torn_node", LITMUS_LOADED, { end_whole, move_entries, read_by_halves },
			{ { 0 } } },
		"entries move while half of the leaf has been read", 1, 0 },
	{ { "torn_inside", LITMUS_LOADED, { end_whole, move_entries, read_between_ends },
			{ { 0 } } },
		"the same, seen where the ends of the image agree: the hash alone can tell", 1, 0 },
	{ { "absent_neighbour", LITMUS_LOADED, { end_absent, move_neighbours, look_beside },
			{ { "split.left_written", A, hold_unnamed } } },
		"an absent key, while its neighbours move, and then their leaf is divided", 1, 0 },
	{ { "read_in_parts", LITMUS_LOADED, { end_whole, change_slowly, change_meanwhile },
			{ { 0 } } },
		"of the READ behind a CAS some is carried out before it", 1, 0 },
	{ { "near_memory", 0, { NULL, add_and_read }, { { 0 } } },
		"a client on the memory server's machine READs behind its own atomics", 1, 0 },
	{ { 0 }, NULL, 0, 0 },
};
