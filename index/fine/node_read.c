/* SPDX-License-Identifier: Apache-2.0 */
/* node_read.c -- a node is read until its image validates. */
#include "index/index_internal.h"

#define TORN_PAUSE_NS 200u
#define TORN_PAUSE_MAX_NS 50000u

int
nam__node_validate(const struct nam_index *index, const uint64_t *image, struct nam_gaddr at,
	int level)
{
	const struct nam__geometry *g = &index->g;

	/*
	 * First of all, and of torn images, too: a block that serves another index by now never
	 * verifies here, however often it is read, and its generation changes with each life alone.
	 */
	if (NAM_GUARD(GENERATION) && (uint16_t)nam__node_generation(image) != nam_gaddr_tag(at))
		return -NAM_E_RESTART_DEAD;
	/* D2: the hash decides, or, where loads are ordered, two words. */
	if (index->ordered_loads) {
		/* Words of one READ were loaded front first and rear last: see fabric.h. */
		if (NAM_GUARD(NODE_ENDS) && !nam__node_ends_agree(g, image))
			return -NAM_E_RESTART_TORN;
	} else if (NAM_GUARD(NODE_HASH) &&
		image[NAM__WORD_HASH] != nam__node_hash(g, image, at)) {
		return -NAM_E_RESTART_TORN;
	}
	if ((NAM_GUARD(DEAD_NODE) && nam__node_dead(image)) ||
		(NAM_GUARD(NODE_TYPE) && level >= 0 && nam__node_level(image) != (unsigned)level))
		return -NAM_E_RESTART_DEAD;
	if (!nam__node_plausible(g, image))
		return -NAM_E_REMOTE_CORRUPT;
	return 0;
}

/* Images keep failing to verify: look again with growing pauses, and then at who holds the lock. */
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
		rc = nam__node_validate(index, image, at, level);
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
	rc = nam__node_validate(index, image, at, level);
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
	rc = nam__node_validate(index, image, at, level);
	if (__builtin_expect(rc == -NAM_E_RESTART_TORN, 0))
		rc = read_torn(worker, index, at, level, image); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_DEAD)
		nam__count_restart(worker, NAM_RESTART_DEAD);
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
