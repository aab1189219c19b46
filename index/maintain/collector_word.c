/* SPDX-License-Identifier: Apache-2.0 */
/* collector_word.c -- the collector's word of an index, which one client at a time has. */
#include <errno.h>
#include <stddef.h>

#include "compute/remote/lock_slot.h"
#include "index/maintain/maintain.h"
#include "index/maintain/merge.h"

#define PAUSE_NS 200000u

int
nam__superblock_cas(struct nam_worker *worker, struct nam_index *index, size_t offset,
	uint64_t compare, uint64_t swap, uint64_t *ret_seen)
{
	uint64_t *cas_old = nam_buffer_take(worker, 8);
	struct nam_batch batch;
	int rc;

	if (!cas_old)
		return -ENOMEM;
	nam_batch_init(&batch, worker);
	nam_batch_cas(&batch, index->superblock, (uint32_t)offset, compare, swap, cas_old);
	rc = nam_batch_await(&batch); /* SUSPENDS */
	if (!rc)
		*ret_seen = *cas_old;
	nam_buffer_give(worker, cas_old, 8);
	return rc;
}

NAM_FIBER_FN static int
collector_cas(struct nam_worker *worker, struct nam_index *index, uint64_t compare, uint64_t swap,
	uint64_t *ret_seen)
{
	return nam__superblock_cas(worker, index, offsetof(struct nam_superblock, collector),
		compare, swap, ret_seen); /* SUSPENDS */
}

/*
 * A dead collector is succeeded by overwriting its word, which *ret_dead gets; else it gets
 * NAM_LOCK_FREE.
 */
NAM_FIBER_FN static int
collector_try(struct nam_worker *worker, struct nam_index *index, uint64_t word,
	uint64_t *ret_dead)
{
	struct nam__lock_holder holder;
	uint64_t held, seen;
	int rc;

	*ret_dead = NAM_LOCK_FREE;
	rc = collector_cas(worker, index, 0, word, &held); /* SUSPENDS */
	/* I15: without the word there is no pass. */
	if (rc || !held || !NAM_GUARD(COLLECTOR_WORD))
		return rc;
	rc = nam__lock_holder_ask(worker, held, &holder); /* SUSPENDS */
	if (rc < 0)
		return rc;
	nam_race_point("collector.owner_asked");
	/* I15: the word of a living collector stays. */
	if (NAM_GUARD(OWNER_ALIVE) && rc == 0)
		return nam__lock_blame(worker, index->superblock, &holder);
	rc = collector_cas(worker, index, held, word, &seen); /* SUSPENDS */
	if (!rc && seen == NAM_LOCK_FREE) {
		/* It had left before it ended. */
		held = NAM_LOCK_FREE;
		rc = collector_cas(worker, index, held, word, &seen); /* SUSPENDS */
	}
	if (!rc && seen == held)
		*ret_dead = held;
	if (rc || seen == held)
		return rc;
	/* Another client has come first: ask which. */
	rc = nam__lock_holder_ask(worker, seen, &holder); /* SUSPENDS */
	return rc < 0 ? rc : nam__lock_blame(worker, index->superblock, &holder);
}

/*
 * I17: the block may be another index's superblock by now, or none.  If it is this one's and the
 * index is not dropped, it stays so during this operation, and a CAS can go there.
 */
NAM_FIBER_FN static int
superblock_is_ours(struct nam_worker *worker, struct nam_index *index)
{
	struct nam_superblock superblock;
	int rc = nam__superblock_read(worker, index, &superblock); /* SUSPENDS */

	if (rc || !NAM_GUARD(SUPERBLOCK_SEEN) ||
		(!superblock.state && superblock.seed == index->g.seed))
		return rc;
	atomic_store_explicit(&index->dropped, true, memory_order_relaxed);
	return -NAM_E_DROPPED;
}

int
nam__collector_enter(struct nam_worker *worker, struct nam_index *index, uint64_t patience_ns,
	uint64_t *ret_word)
{
	uint64_t word = nam__lock_word_new(worker), start_ns = nam_now_ns(), dead, seen;
	int rc = superblock_is_ours(worker, index), cas_rc; /* SUSPENDS */

	if (rc)
		return rc;
	while ((rc = collector_try(worker, index, word, &dead)) == /* SUSPENDS */
			-NAM_E_LOCK_TIMEOUT && nam_now_ns() - start_ns < patience_ns)
		nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
	*ret_word = word;
	if (rc || dead == NAM_LOCK_FREE)
		return rc;
	nam_race_point("collector.succeeded");
	rc = nam__merge_resume(worker, index); /* SUSPENDS */
	if (!rc)
		return 0;
	/* The next client is to try that, too. */
	cas_rc = collector_cas(worker, index, word, dead, &seen); /* SUSPENDS */
	return rc ? rc : cas_rc;
}

int
nam__collector_leave(struct nam_worker *worker, struct nam_index *index, uint64_t word)
{
	uint64_t seen;
	int rc = collector_cas(worker, index, word, 0, &seen); /* SUSPENDS */

	if (rc)
		return rc;
	return seen == word ? 0 : -NAM_E_FENCED;
}
