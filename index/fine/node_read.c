/* SPDX-License-Identifier: Apache-2.0 */
/* node_read.c -- a node is read until its image validates. */
#include <errno.h>

#include "index/node/validate.h"

#define TORN_PAUSE_NS 200u
#define TORN_PAUSE_MAX_NS 50000u

/* Images keep failing to verify: look again with growing pauses, and then at the lock's holder. */
NAM_FIBER_FN static int
read_torn(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, int level,
	uint64_t *image)
{
	uint64_t deadline = nam_now_ns() + worker->client->options.lock_timeout_ms * 1000000ull;
	uint64_t pause_ns = TORN_PAUSE_NS;
	struct nam__lock_holder holder;
	int rc;

	do {
		nam__count_restart(worker, NAM_RESTART_TORN);
		nam__pause_await(worker, pause_ns / 2 +
			nam_rng_below(&worker->rng, pause_ns)); /* SUSPENDS */
		if (pause_ns < TORN_PAUSE_MAX_NS)
			pause_ns *= 2;
		rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
		if (rc)
			return rc;
		rc = nam__node_validate(index, image, at, level, NAM__ANY_TYPE);
		if (rc != -NAM_E_RESTART_TORN)
			return rc;
	} while (nam_now_ns() < deadline);

	if (image[NAM__WORD_LOCK] == NAM_LOCK_FREE ||
		nam__lock_holder_ask(worker, image[NAM__WORD_LOCK], &holder) != 1) /* SUSPENDS */
		return -NAM_E_RESTART_TORN;
	/* It may have finished, and let go, before it ended. */
	rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
	if (rc)
		return rc;
	rc = nam__node_validate(index, image, at, level, NAM__ANY_TYPE);
	return rc == -NAM_E_RESTART_TORN && image[NAM__WORD_LOCK] == holder.word ?
		       nam__lock_blame(worker, at, &holder) : rc;
}

int
nam__node_read(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, int level,
	uint64_t *image)
{
	int rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__node_validate(index, image, at, level, NAM__ANY_TYPE);
	if (__builtin_expect(rc == -NAM_E_RESTART_TORN, 0))
		rc = read_torn(worker, index, at, level, image); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_DEAD)
		nam__count_restart(worker, NAM_RESTART_DEAD);
	return rc;
}

int
nam__child_alive(struct nam_worker *worker, struct nam_gaddr child, bool *ret_alive)
{
	uint64_t *words = nam_buffer_take(worker, 64);
	int rc;

	if (!words)
		return -ENOMEM;
	rc = nam_read_await(worker, child, words, 64); /* SUSPENDS */
	if (!rc)
		*ret_alive = !nam__node_dead(words) &&
			     (uint16_t)nam__node_generation(words) == nam_gaddr_tag(child);
	nam_buffer_give(worker, words, 64);
	return rc;
}

int
nam__superblock_read(struct nam_worker *worker, const struct nam_index *index,
	struct nam_superblock *ret_superblock)
{
	struct nam_superblock *superblock = nam_buffer_take(worker, sizeof(*superblock));
	int rc;

	if (!superblock)
		return -ENOMEM;
	rc = nam_read_await(worker, index->superblock, superblock,
		sizeof(*superblock)); /* SUSPENDS */
	if (!rc)
		*ret_superblock = *superblock;
	nam_buffer_give(worker, superblock, sizeof(*superblock));
	return rc;
}

bool
nam__patience_over(const struct nam_worker *worker, uint64_t *since_ns)
{
	uint64_t now = nam_now_ns();

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns > worker->client->options.lock_timeout_ms * 1000000ull;
}
