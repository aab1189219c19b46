/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_blocks.c -- free blocks in scenes, taken to show that none has two users. */
#include "compute/remote/epoch.h"
#include "compute/remote/reclaim.h"
#include "litmus.h"

#define TAKEN_MAX 2000u

static struct {
	struct nam_gaddr at[TAKEN_MAX];
	uint32_t count, stride;
} taken;

void
litmus_fill(struct actor *self, struct nam_gaddr at, uint32_t stride, uint64_t number)
{
	uint64_t *words = nam_buffer_take(self->worker, stride);

	for (unsigned i = 0; i < stride / 8; i++)
		words[i] = number + i;
	if (nam_write_await(self->worker, nam_gaddr_untagged(at), words, stride))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, words, stride);
}

void
litmus_take(struct actor *self, uint32_t stride, uint32_t most)
{
	unsigned tries = 0;

	self->worker->public_full = true;
	(void)nam__memory_reclaim(self->worker, &tries);
	taken.stride = stride;
	taken.count = 0;
	while (taken.count < most && taken.count < TAKEN_MAX &&
		!nam_alloc(self->worker, stride, &taken.at[taken.count])) {
		litmus_fill(self, taken.at[taken.count], stride, taken.count + 1);
		taken.count++;
	}
}

void
litmus_expect_taken(struct actor *self)
{
	for (uint32_t i = 0; i < taken.count; i++)
		if (litmus_read_word(self, taken.at[i]) != i + 1)
			litmus_fail("a block has two users");
	while (taken.count)
		nam_free_unseen(self->worker, nam_gaddr_untagged(taken.at[--taken.count]),
			taken.stride);
}

void
litmus_limbo_empty(struct actor *self)
{
	uint64_t reusable = 0;

	for (unsigned i = 0; i < 8 && !reusable; i++) {
		if (nam__limbo_advance(self->worker, &reusable))
			litmus_fail("the limbo: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
}
