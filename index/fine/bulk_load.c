/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk_load.c -- fill an empty index from sorted input.
 *
 *	step 1	take the collector's word, and lock the root, which is an empty leaf.
 *	step 2	build all levels at once, from left to right.  Nodes are WRITTEN as they fill up,
 *		many with one doorbell; no reader can see them.
 *	step 3	mark the old leaf dead, keeping its lock.  A client that meets it looks for the root
 *		anew, and again, until there is one.
 *	step 4	CAS the superblock's root pointer from the old leaf to the new root.  From here on
 *		the pairs are there, all of them, for all readers.
 *	step 5	unlock the old leaf and retire it; give the collector's word back.
 *
 * If step 4 came first, a client that opened the index before could still see it empty (I22).
 * loader.c has step 2.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/lock_slot.h"
#include "fine.h"
#include "index/maintain/maintain.h"
#include "loader.h"

NAM_FIBER_FN static int
pair_add(void *arg, const struct nam__key *full, uint64_t payload)
{
	return nam__loader_add(arg, full->w, payload, nam__key_lowest.w); /* SUSPENDS */
}

/* Step 1.  I22: under this lock the index stays empty. */
NAM_FIBER_FN static int
root_lock(struct nam_worker *worker, struct nam_index *index, struct nam__held *root)
{
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	struct nam_gaddr at;
	int rc, unlock_rc;

	rc = nam__root_refresh(worker, index, &at); /* SUSPENDS */
	if (rc)
		return rc;
	/* Beside the queue: this lock is held for as long as the load takes. */
	root->lock.word = nam__lock_word_new(worker);
	rc = nam__unqueued_lock(worker, index, at, 0, timeout_ns, root); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_DEAD)
		return -NAM_E_NOTEMPTY;		/* an inner node, or a load just now */
	if (rc == -NAM_E_RESTART_LOCKED)
		return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT,
			"the root of the index is being written by others");
	if (rc)
		return rc;
	if (nam__node_type(root->image) == NAM__NODE_LEAF && nam__node_last(root->image) &&
		!nam__node_count(root->image) &&
		!nam__key_compare(nam__node_low(root->image), nam__key_lowest.w,
			index->g.full_words))
		return 0;
	/* I9: a lock that is of no use is given back. */
	unlock_rc = nam__unqueued_unlock(worker, root); /* SUSPENDS */
	return unlock_rc ? unlock_rc : -NAM_E_NOTEMPTY;
}

/* Write the old root as dead, or alive and empty again.  The lock stays held (I22). */
NAM_FIBER_FN static int
root_mark(struct nam__loader *loader, struct nam__held *root, bool dead, struct nam_gaddr forward)
{
	nam__node_set_type(root->image,
		NAM__NODE_LEAF | NAM__NODE_LAST | (dead ? NAM__NODE_DEAD : 0));
	root->image[NAM__WORD_SIBLING] = forward.raw;
	return nam__write_keep(loader->worker, loader->index, root, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_SIBLING); /* SUSPENDS */
}

/* Steps 3 to 5.  *ret_published: the new nodes may be seen, and are not to be given back. */
NAM_FIBER_FN static int
root_switch(struct nam__loader *loader, struct nam__held *root, struct nam_gaddr new_root,
	bool *ret_published)
{
	struct nam_worker *worker = loader->worker;
	struct nam_index *index = loader->index;
	uint64_t seen = 0;
	int rc, unlock_rc;

	*ret_published = true;
	/* I22: no client finds the old root empty any more.  I20: it leads to the new one. */
	rc = root_mark(loader, root, true, new_root); /* SUSPENDS */
	nam_race_point("load.old_root_dead");
	if (!rc)
		rc = nam_cas_await(worker, index->superblock, root->at.raw, new_root.raw,
			&seen); /* SUSPENDS */
	if (!rc && seen != root->at.raw) {
		/* The tree cannot have grown under our lock: the index is gone. */
		*ret_published = false;
		rc = root_mark(loader, root, false, NAM_GADDR_NULL); /* SUSPENDS */
		if (!rc)
			rc = -NAM_E_DROPPED;
	}
	nam_race_point("load.root_switched");
	if (!rc)
		atomic_store_explicit(&index->root, new_root.raw, memory_order_relaxed);
	unlock_rc = nam__unqueued_unlock(worker, root); /* SUSPENDS */
	rc = rc ?: unlock_rc;
	/* I3: the superblock does not lead to it any more. */
	if (!rc)
		nam_retire(worker, root->at, loader->g->stride);
	return rc;
}

/* The root is held, and is not afterwards. */
NAM_FIBER_FN static int
load(struct nam__loader *loader, struct nam__held *root, nam_index_source_fn source, void *arg,
	uint64_t *ret_count)
{
	struct nam_gaddr new_root;
	bool published = false;
	int rc, unlock_rc;

	/* Step 2.  I22: no pointer leads to the new nodes yet. */
	rc = nam__load_sorted(loader->worker, loader->g, source, arg, pair_add, loader,
		ret_count); /* SUSPENDS */
	if (rc || !*ret_count)
		goto unlock_root;
	rc = nam__loader_close(loader, &new_root); /* SUSPENDS */
	if (rc)
		goto unlock_root;
	nam_race_point("load.built");
	rc = root_switch(loader, root, new_root, &published); /* SUSPENDS */
	goto done;

unlock_root:
	unlock_rc = nam__unqueued_unlock(loader->worker, root); /* SUSPENDS */
	rc = rc ?: unlock_rc;
done:
	nam__loader_done(loader, published);
	return rc;
}

/* I15: no other client may retire the old root: no collector, and no drop of the index. */
NAM_FIBER_FN static int
load_alone(struct nam__loader *loader, struct nam__held *root, nam_index_source_fn source,
	void *arg, uint64_t *ret_count)
{
	struct nam_worker *worker = loader->worker;
	struct nam_index *index = loader->index;
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull, word;
	int rc, leave_rc;

	rc = nam__collector_enter(worker, index, timeout_ns, &word); /* SUSPENDS */
	if (rc)
		return rc;
	rc = root_lock(worker, index, root); /* SUSPENDS */
	nam_race_point("load.root_locked");
	if (!rc)
		rc = load(loader, root, source, arg, ret_count); /* SUSPENDS */
	leave_rc = nam__collector_leave(worker, index, word); /* SUSPENDS */
	return rc ? rc : leave_rc;
}

int
nam__fine_bulk_load(struct nam_worker *worker, struct nam_index *index, nam_index_source_fn source,
	void *arg, uint32_t fill_percent, uint64_t *ret_count)
{
	const struct nam__geometry *g = &index->g;
	struct nam__held root;
	struct nam__loader *loader;
	int rc;

	/* A batch is large, and fibers' stacks are small. */
	loader = malloc(sizeof(*loader));
	root.image = nam_buffer_take(worker, g->node_bytes);
	if (!loader || !root.image) {
		rc = -ENOMEM;
		goto give_image;
	}
	nam__loader_init(loader, worker, index, fill_percent);
	rc = load_alone(loader, &root, source, arg, ret_count); /* SUSPENDS */
give_image:
	nam_buffer_give(worker, root.image, g->node_bytes);
	free(loader);
	return rc;
}
