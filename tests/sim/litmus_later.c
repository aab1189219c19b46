/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_later.c -- a scene in which blocks are given back while a client may still read them. */
#include "compute/remote/epoch.h"
#include "compute/remote/reclaim.h"
#include "litmus.h"

#define STRIDE 4096u
#define HASTY_MS 50u			/* so long a worker that closes waits */
#define TAKEN_MAX 4096u

static struct nam_gaddr shown;

/* Since it was shown its run may have come back, and blocks may begin elsewhere. */
static bool
covers(struct nam_gaddr block)
{
	return nam_gaddr_region(block) == nam_gaddr_region(shown) &&
	       nam_gaddr_offset(shown) - nam_gaddr_offset(block) < STRIDE;
}

/* All memory is used, unless one of the blocks is the one that was shown.  False: none is. */
static bool
use_all(struct actor *self)
{
	static struct nam_gaddr taken[TAKEN_MAX];
	unsigned count = 0;
	bool met = false;

	while (!met && count < TAKEN_MAX &&
		!nam_alloc_on(self->worker, 0, STRIDE, &taken[count])) {
		litmus_write_word(self, taken[count], 2);
		met = covers(taken[count++]);
	}
	if (count == TAKEN_MAX)
		litmus_fail("there is more memory than blocks can be noted");
	while (count)
		nam_free_unseen(self->worker, nam_gaddr_untagged(taken[--count]), STRIDE);
	return met;
}

/* The block is retired under the eyes of a reader, and given back as by a worker that closes. */
static void
retire_and_close(struct actor *self)
{
	uint32_t timeout_ms = self->client->options.timeout_ms;
	unsigned tries = 0;

	if (nam_alloc_on(self->worker, 0, STRIDE, &shown))
		litmus_fail("alloc: %s", nam_worker_diag(self->worker));
	shown = nam_gaddr_untagged(shown);
	litmus_write_word(self, shown, 1);
	litmus.flags[FOUR] = true;
	litmus_await(ONE);
	nam_retire(self->worker, shown, STRIDE);
	self->client->options.timeout_ms = HASTY_MS;
	nam__limbo_free(self->worker);
	self->worker->public_full = true;
	(void)nam__memory_reclaim(self->worker, &tries);
	self->client->options.timeout_ms = timeout_ms;
	(void)use_all(self);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	tries = 0;
	self->worker->public_full = true;
	if (!nam__memory_reclaim(self->worker, &tries) || !use_all(self))
		litmus_fail("a block that was given back for later did not come back");
}

static void
look_all_along(struct actor *self)
{
	uint64_t *word = nam_buffer_take(self->worker, 8);

	litmus_await(FOUR);
	nam__op_begin(self->worker, NAM_OP_SCAN);
	litmus.flags[ONE] = true;
	litmus_await_for(TWO, 4 * LITMUS_TIMEOUT_NS);
	if (nam_read_await(self->worker, shown, word, 8))
		litmus_fail("read: %s", nam_worker_diag(self->worker));
	nam__op_end(self->worker);
	if (*word != 1)
		litmus_fail("a reader meets %llu in a block that it may still read",
			(unsigned long long)*word);
	litmus.flags[THREE] = true;
	nam_buffer_give(self->worker, word, 8);
}

const struct litmus_case litmus_later_cases[] = {
	{ { "free_later", 0, { NULL, retire_and_close, look_all_along }, { { 0 } } },
		"a worker closes that has retired a block, while a client reads it", 1, 0 },
	{ { 0 }, NULL, 0, 0 },
};
