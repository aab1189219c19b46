/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c -- merge two neighbours L and R, which one parent P names next to each other.
 *
 *	step 1	lock P, L, R and a head node H between them, if there is one.
 *	step 2	WRITE the intent, which names them all.
 *	step 3	WRITE L with the entries, high fence and sibling of R.  Keep the lock.
 *	step 4	WRITE P without R's separator.  Keep the lock.
 *	step 5	WRITE H and R dead, with R's sibling leading to L; unlock them.
 *	step 6	unlock L and P, and clear the intent.
 *	step 7	retire H and R.
 *
 * R dies under P's lock and its own, once P does not name it (I13), by the collector (I15).  If a
 * lock is taken, the merge is given up.  index/README.md says what others may see after each step.
 *
 * The next collector resumes the merge of a dead one from its intent (I20).  If L is written, it
 * goes on from step 4, as readers may have seen L; else it unlocks all.  Each step can be repeated.
 */
#include <errno.h>
#include <stddef.h>

#include "compute/remote/batch.h"
#include "compute/remote/lock.h"
#include "compute/remote/lock_slot.h"
#include "index/design.h"
#include "index/node/divide.h"
#include "index/write/torn.h"
#include "maintain.h"
#include "merge.h"

/* Neighbours are merged if together they fill no more than this. */
#define MERGE_PERCENT 60u
#define NODES 4u

/* An empty node is merged into any neighbour: it costs its readers a round trip for nothing. */
bool
nam__mergeable(const struct nam__geometry *g, unsigned level, unsigned left, unsigned right)
{
	unsigned capacity = level ? g->inner_capacity : g->leaf_capacity;

	return (left + right) * 100 <= capacity * MERGE_PERCENT || left == 0 || right == 0;
}

/* ---- buffers ------------------------------------------------------------------------------- */

static uint32_t
buffer_bytes(const struct nam_index *index)
{
	return NODES * index->g.node_bytes + (uint32_t)sizeof(struct nam__merge_intent);
}

int
nam__merge_init(struct nam__merge *merge, struct nam_worker *worker, struct nam_index *index)
{
	uint32_t node_words = index->g.node_words;
	uint64_t *images = nam_buffer_take(worker, buffer_bytes(index));

	if (!images)
		return -ENOMEM;
	*merge = (struct nam__merge){
		.worker = worker,
		.index = index,
		.parent.image = images,
		.left.image = images + node_words,
		.right.image = images + 2 * (size_t)node_words,
		.head.image = images + 3 * (size_t)node_words,
		.intent = (struct nam__merge_intent *)(images + NODES * (size_t)node_words),
	};
	return 0;
}

void
nam__merge_done(struct nam__merge *merge)
{
	nam_buffer_give(merge->worker, merge->parent.image, buffer_bytes(merge->index));
}

/* ---- the intent ---------------------------------------------------------------------------- */

static uint64_t
intent_hash(const struct nam_index *index, const struct nam__merge_intent *intent)
{
	return nam_hash64(intent, offsetof(struct nam__merge_intent, hash)) ^ index->g.seed;
}

/* Step 2.  I20: before L is written. */
NAM_FIBER_FN static int
intent_write(struct nam__merge *merge)
{
	struct nam__merge_intent *intent = merge->intent;
	struct nam_batch batch;

	*intent = (struct nam__merge_intent){
		.word = intent->word,
		.parent = merge->parent.at.raw,
		.left = merge->left.at.raw,
		.right = merge->right.at.raw,
		.head = merge->head.at.raw,
		.level = merge->level,
		.part = merge->index->part,
	};
	intent->hash = intent_hash(merge->index, intent);
	nam_batch_init(&batch, merge->worker);
	nam_batch_write(&batch, merge->index->superblock, NAM_SUPERBLOCK_INTENT, intent,
		sizeof(*intent));
	return nam_batch_await(&batch); /* SUSPENDS */
}

int
nam__merge_intent_read(struct nam_worker *worker, struct nam_index *index,
	struct nam__merge_intent *ret_intent)
{
	struct nam_gaddr at = nam_gaddr_make(nam_gaddr_region(index->superblock),
		nam_gaddr_offset(index->superblock) + NAM_SUPERBLOCK_INTENT, 0);
	struct nam__merge_intent *intent = nam_buffer_take(worker, sizeof(*intent));
	int rc = intent ? nam_read_await(worker, at, intent, sizeof(*intent)) : /* SUSPENDS */
			  -ENOMEM;

	if (!rc)
		*ret_intent = *intent;
	nam_buffer_give(worker, intent, sizeof(*intent));
	/* I20: without a whole intent nothing was written under its locks. */
	if (!rc && ret_intent->hash != intent_hash(index, ret_intent) && NAM_GUARD(INTENT_WHOLE))
		ret_intent->word = NAM_LOCK_FREE;
	return rc;
}

/* ---- locks --------------------------------------------------------------------------------- */

/* A node that is part of the merge and not unlocked yet. */
static bool
is_held(const struct nam__held *held)
{
	return held->lock.word != NAM_LOCK_FREE;
}

/* I20: all locks of a merge have the word of its intent.  Returns as nam__unqueued_lock(). */
NAM_FIBER_FN static int
lock(struct nam__merge *merge, struct nam__held *held, struct nam_gaddr at, unsigned level)
{
	int rc;

	held->lock.word = merge->intent->word;
	rc = nam__unqueued_lock(merge->worker, merge->index, at, (int)level, 0,
		held); /* SUSPENDS */
	if (rc)
		held->lock.word = NAM_LOCK_FREE;
	return rc;
}

/* I20: the locks of half a merge stay if this client and a member with a backup end together. */
NAM_FIBER_FN static int
locks_back(const struct nam__merge *merge)
{
	const struct nam__held *nodes[NODES] = { &merge->parent, &merge->left, &merge->right,
		&merge->head };
	int rc = 0;

	for (unsigned i = 0; i < NODES && !rc; i++)
		if (is_held(nodes[i]))
			rc = nam__backed_lock(merge->worker, nodes[i]->at, NAM_LOCK_FREE,
				nodes[i]->lock.word); /* SUSPENDS */
	return rc;
}

/* Number of the entry that names R right after L, or 0. */
static unsigned
find_pair(const struct nam__geometry *g, const uint64_t *parent, struct nam_gaddr left,
	struct nam_gaddr right)
{
	unsigned count = nam__node_count(parent);

	for (unsigned entry = 1; entry < count; entry++)
		if (nam_gaddr_same(nam__inner_child(g, parent, entry), right))
			return nam_gaddr_same(nam__inner_child(g, parent, entry - 1), left) ?
				       entry : 0;
	return 0;
}

/* Step 1.  0: all is held and fits; -NAM_E_RESTART: it does not; or another failure. */
NAM_FIBER_FN static int
lock_all(struct nam__merge *merge, struct nam_gaddr parent_at, struct nam_gaddr left_at,
	struct nam_gaddr right_at)
{
	const struct nam__geometry *g = &merge->index->g;
	struct nam_gaddr next;
	int rc = 0;

	merge->intent->word = NAM_LOCK_MERGES | nam__lock_word_new(merge->worker);
	merge->parent.at = merge->head.at = NAM_GADDR_NULL;
	if (!nam_gaddr_is_null(parent_at)) {
		rc = lock(merge, &merge->parent, parent_at, merge->level + 1); /* SUSPENDS */
		if (rc)
			return rc;
		nam_race_point("merge.parent_locked");
		if (!find_pair(g, merge->parent.image, left_at, right_at))
			return -NAM_E_RESTART;
	}
	rc = lock(merge, &merge->left, left_at, merge->level); /* SUSPENDS */
	if (!rc)
		rc = lock(merge, &merge->right, right_at, merge->level); /* SUSPENDS */
	if (rc)
		return rc;
	/* I4: more entries than fit would lie beyond the node. */
	if (nam__node_type(merge->right.image) != nam__node_type(merge->left.image) ||
		(NAM_GUARD(MERGE_ROOM) && !nam__mergeable(g, merge->level,
			nam__node_count(merge->left.image), nam__node_count(merge->right.image))))
		return -NAM_E_RESTART;
	next = nam__node_sibling(merge->left.image);
	/* I1: a node between L and R would be lost to the chain. */
	if (nam_gaddr_same(next, right_at) || !NAM_GUARD(MERGE_SIBLING))
		return 0;
	/* A head node, or else L was divided since, and its parent does not know yet. */
	if (merge->level || nam_gaddr_is_null(next))
		return -NAM_E_RESTART;
	rc = lock(merge, &merge->head, next, 0); /* SUSPENDS */
	if (rc)
		return rc;
	return nam__node_type(merge->head.image) == NAM__NODE_HEAD &&
		nam_gaddr_same(nam__node_sibling(merge->head.image), right_at) ?
		0 : -NAM_E_RESTART;
}

/* ---- writes -------------------------------------------------------------------------------- */

/* Step 3.  I1: L has R's range before R dies.  Both stay locked, so no entry changes. */
NAM_FIBER_FN static int
left_write(struct nam__merge *merge)
{
	const struct nam__geometry *g = &merge->index->g;
	int rc;

	nam__node_join(g, merge->left.image, merge->right.image);
	rc = nam__write_keep(merge->worker, merge->index, &merge->left,
		(struct nam__dirty){ g->entries_at, g->node_words - 1 },
		NAM__HEADER_FENCES); /* SUSPENDS */
	nam_race_point("merge.left_written");
	return rc;
}

/* Step 4.  I13: P does not name R any more when R dies. */
NAM_FIBER_FN static int
parent_write(struct nam__merge *merge)
{
	const struct nam__geometry *g = &merge->index->g;
	struct nam__dirty dirty;
	unsigned entry = 0;
	int rc;

	if (is_held(&merge->parent))
		entry = find_pair(g, merge->parent.image, merge->left.at, merge->right.at);
	if (!entry)
		return 0;
	nam__inner_remove(g, merge->parent.image, entry, &dirty);
	rc = nam__write_keep(merge->worker, merge->index, &merge->parent, dirty,
		NAM__HEADER_COUNTS); /* SUSPENDS */
	nam_race_point("merge.parent_written");
	return rc;
}

/* Step 5, I13: no pointer but old copies leads to this node any more. */
NAM_FIBER_FN static int
bury(struct nam__merge *merge, struct nam__held *held, struct nam_gaddr forward)
{
	int rc;

	if (!is_held(held))
		return 0;
	rc = nam__dead_unlock(merge->worker, merge->index, held, forward); /* SUSPENDS */
	held->lock.word = NAM_LOCK_FREE;
	return rc;
}

/* Hybrid: step 4 comes here, for a memory server keeps the names (H4). */
NAM_FIBER_FN static int
unname(struct nam__merge *merge)
{
	struct nam__key name;

	memcpy(name.w, nam__node_low(merge->right.image), 8 * merge->index->g.full_words);
	return merge->index->inner->leaf_forget(merge->worker, merge->index, name.w,
		merge->right.at); /* SUSPENDS */
}

/*
 * Step 6, or the end of a merge that does not take place: unlock all that is held, and clear the
 * intent (I20).  In any order, as no node is half-merged.
 */
NAM_FIBER_FN static int
end(struct nam__merge *merge)
{
	struct nam__held *nodes[NODES] = { &merge->left, &merge->parent, &merge->right,
		&merge->head };
	struct nam__merge_intent *intent = merge->intent;
	uint64_t word = intent->word, *seen = &intent->parent;	/* not needed any more */
	bool fenced = false;
	struct nam_batch batch;
	int rc;

	for (unsigned i = 0; i < NODES; i++) {
		rc = is_held(nodes[i]) ? nam__backed_lock(merge->worker, nodes[i]->at, word,
			NAM_LOCK_FREE) : 0; /* SUSPENDS */
		merge->stuck |= rc != 0;
		if (rc)
			return rc;
	}
	intent->word = NAM_LOCK_FREE;
	nam_batch_init(&batch, merge->worker);
	nam_batch_write(&batch, merge->index->superblock, NAM_SUPERBLOCK_INTENT, &intent->word, 8);
	for (unsigned i = 0; i < NODES; i++) {
		seen[i] = word;
		if (is_held(nodes[i]))
			nam__batch_lock_cas(&batch, nam_gaddr_untagged(nodes[i]->at), word,
				NAM_LOCK_FREE, &seen[i]);
		nodes[i]->lock.word = NAM_LOCK_FREE;
	}
	rc = nam_batch_await(&batch); /* SUSPENDS */
	merge->stuck = rc != 0;
	for (unsigned i = 0; i < NODES; i++) {
		nam__unqueued_word_forget(merge->worker, nodes[i]->at, word);
		fenced |= seen[i] != word;
	}
	/* If one memory server failed: without the intent, no other client completes the merge. */
	merge->over = rc ? !nam__merge_intent_read(merge->worker, merge->index,
				   intent) && /* SUSPENDS */
		intent->word == NAM_LOCK_FREE : !fenced;
	nam_race_point("merge.ended");
	return !rc && fenced ? -NAM_E_FENCED : rc;
}

/* The caches of this client forget the nodes now, not at their next READ. */
static void
remember(const struct nam__merge *merge)
{
	struct nam__cache *cache = merge->index->cache;

	if (!cache)
		return;
	if (merge->level) {
		nam__cache_drop(cache, nam__node_low(merge->right.image), merge->level);
		nam__cache_put(cache, merge->left.image, merge->left.at, false);
	}
	if (nam_gaddr_is_null(merge->parent.at))
		nam__cache_drop(cache, nam__node_low(merge->right.image), 1);
	else
		nam__cache_put(cache, merge->parent.image, merge->parent.at, false);
}

/* Step 7.  Returns how many nodes there were. */
static unsigned
retire(const struct nam__merge *merge)
{
	const struct nam__held *nodes[] = { &merge->head, &merge->right };
	unsigned count = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (nam_gaddr_is_null(nodes[i]->at) || !nam__node_dead(nodes[i]->image))
			continue;
		nam_retire(merge->worker, nodes[i]->at, merge->index->g.stride);
		count++;
	}
	return count;
}

/* Steps 4 to 6, with L written. */
NAM_FIBER_FN static int
go_forward(struct nam__merge *merge)
{
	int rc = parent_write(merge); /* SUSPENDS */

	if (!rc)
		rc = bury(merge, &merge->head, merge->right.at); /* SUSPENDS */
	nam_race_point("merge.head_buried");
	if (!rc)
		rc = bury(merge, &merge->right, merge->left.at); /* SUSPENDS */
	nam_race_point("merge.buried");
	if (rc)
		return rc;
	/* H3: the first client that meets a name that is still there removes it. */
	merge->name_rc = unname(merge); /* SUSPENDS */
	return end(merge); /* SUSPENDS */
}

/* ---- a merge ------------------------------------------------------------------------------- */

/*
 * All is held.  As nam__merge_pair().  If a write fails, the nodes of half a merge stay locked, as
 * if this client had died.
 */
NAM_FIBER_FN static int
merge_held(struct nam__merge *merge, struct nam_collect_stat *stat)
{
	int rc = 0;

	merge->stuck = true;
	merge->over = false;
	rc = locks_back(merge); /* SUSPENDS */
	/* I20: else the next client finds half a merge, and does not know of it. */
	if (!rc && NAM_GUARD(INTENT_FIRST))
		rc = intent_write(merge); /* SUSPENDS */
	nam_race_point("merge.intended");
	if (!rc)
		rc = left_write(merge); /* SUSPENDS */
	if (!rc)
		rc = go_forward(merge); /* SUSPENDS */
	if (merge->over)
		stat->nodes_retired += retire(merge);
	if (rc)
		return rc;
	remember(merge);
	stat->merges++;
	return merge->name_rc;
}

int
nam__merge_pair(struct nam__merge *merge, unsigned level, struct nam_gaddr parent_at,
	struct nam_gaddr left_at, struct nam_gaddr right_at, struct nam_collect_stat *stat,
	unsigned *ret_count)
{
	int rc, end_rc;

	merge->level = level;
	/* I13: P stays locked until R is dead. */
	rc = lock_all(merge, parent_at, left_at, right_at); /* SUSPENDS */
	nam_race_point("merge.locked");
	if (!rc) {
		rc = merge_held(merge, stat); /* SUSPENDS */
		*ret_count = nam__node_count(merge->left.image);
		return rc;
	}
	if (!is_held(&merge->parent) && !is_held(&merge->left))
		return rc;
	end_rc = end(merge); /* SUSPENDS */
	return end_rc ? end_rc : rc;
}

/* ---- the merge of a dead collector --------------------------------------------------------- */

/*
 * The node as it is, completed if it is half-written.  If no record completes it, it stays locked,
 * and counts as done with.  If it is L, nothing else was written.
 */
NAM_FIBER_FN static int
look(struct nam__merge *merge, struct nam__held *held, uint64_t at)
{
	uint64_t word = merge->intent->word;
	int rc;

	held->at.raw = at;
	held->lock = (struct nam__lock){ .at = nam_gaddr_untagged(held->at) };
	if (!at)
		return 0;
	rc = nam_read_await(merge->worker, held->at, held->image,
		merge->index->g.node_bytes); /* SUSPENDS */
	if (rc)
		return rc;
	/* I20: a node that is not locked by this word is done with. */
	if (held->image[NAM__WORD_LOCK] != word && NAM_GUARD(INTENT_DONE))
		return 0;
	held->lock.word = word;
	if (nam__node_is_whole(merge->index, held->image, held->at))
		return 0;
	rc = nam__torn_complete(merge->worker, merge->index, held->at, word, word,
		held->image); /* SUSPENDS */
	if (rc != -NAM_E_LOCK_ORPHANED)
		return rc;
	held->lock.word = NAM_LOCK_FREE;
	return 0;
}

/* Whether the dead collector, or one that resumed its merge, has written L. */
static bool
is_left_written(const struct nam__merge *merge)
{
	struct nam_gaddr next = nam_gaddr_is_null(merge->head.at) ? merge->right.at :
		merge->head.at;

	return is_held(&merge->left) &&
		!nam_gaddr_same(nam__node_sibling(merge->left.image), next);
}

NAM_FIBER_FN static int
resume(struct nam__merge *merge)
{
	const struct nam__merge_intent *intent = merge->intent;
	int rc;

	merge->level = (unsigned)intent->level;
	rc = look(merge, &merge->parent, intent->parent); /* SUSPENDS */
	if (!rc)
		rc = look(merge, &merge->left, intent->left); /* SUSPENDS */
	if (!rc)
		rc = look(merge, &merge->right, intent->right); /* SUSPENDS */
	if (!rc)
		rc = look(merge, &merge->head, intent->head); /* SUSPENDS */
	if (rc)
		return rc;
	rc = is_left_written(merge) ? go_forward(merge) : end(merge); /* SUSPENDS */
	if (merge->over)
		retire(merge);
	return rc ? rc : merge->name_rc;
}

int
nam__merge_resume(struct nam_worker *worker, struct nam_index *index)
{
	const struct nam_index *whole;
	struct nam__merge merge;
	int rc = nam__merge_init(&merge, worker, index);

	if (rc)
		return rc;
	rc = nam__merge_intent_read(worker, index, merge.intent); /* SUSPENDS */
	if (!rc && merge.intent->word != NAM_LOCK_FREE) {
		whole = index->whole ? index->whole : index;
		if (whole->leaves)
			merge.index = whole->leaves[merge.intent->part];
		rc = resume(&merge); /* SUSPENDS */
	}
	nam__merge_done(&merge);
	return rc;
}
