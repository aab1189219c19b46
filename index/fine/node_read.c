/* SPDX-License-Identifier: Apache-2.0 */
/* node_read.c -- a node is read until its image validates. */
#include <errno.h>

#include "compute/remote/lock_slot.h"
#include "index/write/torn.h"
#include "index/validate.h"

#define TORN_PAUSE_NS 200u
#define TORN_PAUSE_MAX_NS 50000u
#define TRIES_MIN 16u			/* however long they take */

/*
 * The lock of a torn image has stayed the same for a while.  If its holder is dead, complete the
 * node (I20).  0: READ it again; else why not.
 */
NAM_FIBER_FN static int
recover(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, uint64_t *image)
{
	uint64_t dead = image[NAM__WORD_LOCK], word = nam__lock_word_new(worker), seen = word;
	struct nam__lock_holder holder;
	int rc = nam__lock_holder_query(worker, dead, &holder); /* SUSPENDS */

	if (rc || !holder.dead)
		return rc;
	rc = worker->reads_only ? -NAM_E_LOCK_ORPHANED :
		index->recovery.take(worker, index, at, dead, word, image); /* SUSPENDS */
	if (!rc)
		nam__unqueued_word_note(worker, at, word, true);
	if (!rc)
		rc = nam__lock_word_cas(worker, nam_gaddr_untagged(at), word, NAM_LOCK_FREE,
			&seen); /* SUSPENDS */
	nam__unqueued_word_forget(worker, at, word);
	if (seen != word)
		rc = -NAM_E_FENCED;
	if (rc == -NAM_E_LOCK_ORPHANED)
		rc = nam__lock_blame(worker, at, &holder);
	/* The last one: another client repairs it. */
	return rc == -NAM_E_RESTART_LOCKED || rc == -NAM_E_LOCK_TIMEOUT ? 0 : rc;
}

/* Images keep failing to verify: look again with growing pauses, and then at the lock's holder. */
NAM_FIBER_FN static int
read_torn(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, int level,
	uint64_t *image)
{
	uint64_t deadline = nam_now_ns() + worker->client->options.lock_timeout_ms * 1000000ull;
	uint64_t pause_ns = TORN_PAUSE_NS, since_ns = nam_now_ns();
	uint64_t word = image[NAM__WORD_LOCK];
	unsigned tries = 0;
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
		if (image[NAM__WORD_LOCK] != word) {
			word = image[NAM__WORD_LOCK];
			since_ns = nam_now_ns();
		} else if (nam_lock_held(word) && nam_now_ns() - since_ns > NAM__SUSPECT_NS) {
			rc = recover(worker, index, at, image); /* SUSPENDS */
			if (rc)
				return rc;
			since_ns = nam_now_ns();
		} else if (nam_now_ns() - since_ns > NAM__SUSPECT_NS) {
			rc = nam__torn_free_complete(worker, index, at, image); /* SUSPENDS */
			if (rc)
				return rc;
			since_ns = nam_now_ns();
		}
	} while (++tries < TRIES_MIN || nam_now_ns() < deadline);
	rc = !nam_lock_held(word) ? -NAM_E_RESTART_TORN :
		recover(worker, index, at, image); /* SUSPENDS */
	if (!rc)
		rc = nam_read_await(worker, at, image, index->g.node_bytes); /* SUSPENDS */
	return rc ? rc : nam__node_validate(index, image, at, level, NAM__ANY_TYPE);
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

int
nam__index_dropped(struct nam_worker *worker, struct nam_index *index)
{
	atomic_store_explicit(&index->dropped, true, memory_order_relaxed);
	return nam_diag_set(&worker->diag, -NAM_E_DROPPED, "index '%s' was dropped: close the "
		"handle; if there is a new one of that name, open that", index->name);
}

bool
nam__timeout_over(const struct nam_worker *worker, uint64_t *since_ns)
{
	uint64_t now = nam_now_ns();

	if (!*since_ns)
		*since_ns = now;
	return now - *since_ns > worker->client->options.lock_timeout_ms * 1000000ull;
}
