/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.c -- how nodes are found, locked, written and released: one-sided. */
#include <errno.h>

#include "compute/backup/backups.h"
#include "index/design.h"
#include "index/write/image_write.h"
#include "index/write/torn.h"
#include "index/validate.h"

/* A walk is tried again so often, however long that takes. */
#define TRIES_MIN 16u
/* If so many tries find the root dead, the last one asks why. */
#define TRIES_ROOT_DEAD 16u

/* ---- the root ----------------------------------------------------------------------------- */

int
nam__root_refresh(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_root)
{
	struct nam_superblock superblock;
	int rc = nam__superblock_read(worker, index, &superblock); /* SUSPENDS */

	/* A drop takes the root away last; and the block may serve another index by now. */
	if (!rc && (superblock.state || !superblock.root || superblock.seed != index->g.seed ||
			atomic_load_explicit(&index->dropped, memory_order_relaxed)))
		rc = nam__index_dropped(worker, index);
	if (!rc) {
		ret_root->raw = superblock.root;
		atomic_store_explicit(&index->root, superblock.root, memory_order_relaxed);
	}
	return rc;
}

int
nam__root_get(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_root)
{
	ret_root->raw = atomic_load_explicit(&index->root, memory_order_relaxed);
	return nam_gaddr_is_null(*ret_root) ?
		nam__root_refresh(worker, index, ret_root) : 0; /* SUSPENDS */
}

int
nam__root_follow(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr root,
	const uint64_t *image)
{
	uint64_t word = image[NAM__WORD_LOCK], seen;
	struct nam__lock_holder holder = { .dead = true };
	int rc = 0;

	/* I20: the last node of a level has no sibling, but that root leads to the new one. */
	if (worker->reads_only || !nam__node_dead(image) || !nam__node_last(image) ||
		nam_gaddr_is_null(nam__node_sibling(image)) || !NAM_GUARD(ROOT_FOLLOWED))
		return 0;
	if (nam_lock_held(word))
		rc = nam__lock_holder_query(worker, word, &holder); /* SUSPENDS */
	return rc || !holder.dead ? rc : nam_cas_await(worker, index->superblock, root.raw,
		nam__node_sibling(image).raw, &seen); /* SUSPENDS */
}

int
nam__root_read(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_root,
	uint64_t *image)
{
	int rc = -NAM_E_RESTART_DEAD;

	for (unsigned tries = 0; rc == -NAM_E_RESTART_DEAD && tries < NAM__RESTARTS_MAX; tries++) {
		struct nam_gaddr root;

		rc = nam__root_refresh(worker, index, &root); /* SUSPENDS */
		if (rc)
			break;
		rc = nam__node_read(worker, index, root, NAM__ANY_LEVEL, image); /* SUSPENDS */
		if (!rc)
			*ret_root = root;
		if (rc == -NAM_E_RESTART_DEAD && tries % TRIES_ROOT_DEAD == TRIES_ROOT_DEAD - 1) {
			rc = nam__root_follow(worker, index, root, image); /* SUSPENDS */
			rc = rc ? rc : -NAM_E_RESTART_DEAD;
		}
	}
	return rc;
}

int
nam__root_find(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr *ret_root,
	unsigned *ret_level)
{
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	int rc;

	if (!image)
		return -ENOMEM;
	rc = nam__root_read(worker, index, ret_root, image); /* SUSPENDS */
	if (!rc)
		*ret_level = nam__node_level(image);
	nam_buffer_give(worker, image, index->g.node_bytes);
	return rc;
}

/* ---- walking ------------------------------------------------------------------------------ */

/*
 * Move right until the image covers the key: the range of a node that was divided stays reachable
 * from it by siblings (I1).  Head nodes on the way have an empty range (I10).
 */
NAM_FIBER_FN static int
move_right(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *walk)
{
	const struct nam__geometry *g = &index->g;
	int rc;

	while (nam__node_type(walk->image) == NAM__NODE_HEAD ||
		(NAM_GUARD(FENCE_HIGH) && nam__node_beyond(walk->image, g, key))) {
		struct nam_gaddr next = nam__node_sibling(walk->image);

		if (nam_gaddr_is_null(next))
			return -NAM_E_REMOTE_CORRUPT;
		if (++walk->hops > NAM__HOPS_MAX)
			return -NAM_E_RESTART_HOPS;
		if (walk->hops == NAM__HOPS_MANY && walk->level == 0)
			atomic_store_explicit(&index->unnamed, true, memory_order_relaxed);
		nam__count_restart(worker, NAM_RESTART_SIBLING);
		rc = nam__node_read(worker, index, next, walk->level, walk->image); /* SUSPENDS */
		if (rc)
			return rc;
		walk->at = next;
	}
	if (NAM_GUARD(FENCE_LOW) && nam__node_below(walk->image, g, key))
		return -NAM_E_RESTART_FENCE;
	return 0;
}

/* The pointer to start from, for a target level: the deepest cached ancestor, else start()'s. */
NAM_FIBER_FN static int
walk_begin(struct nam_worker *worker, struct nam_index *index, const uint64_t *key, unsigned level,
	struct nam__descent *walk)
{
	struct nam__cache_hop hop;
	int rc;

	walk->hops = 0;
	walk->from_start = walk->old_name = false;
	if (index->cache && nam__cache_find(index->cache, key, level, &hop)) {
		walk->at = hop.child;
		walk->level = (int)hop.level;
		walk->from_cache = true;
		return 0;
	}
	rc = index->inner->start(worker, index, key, walk); /* SUSPENDS */
	if (rc)
		return rc;
	walk->from_cache = false;
	walk->from_start = true;
	return 0;
}

/* A pointer led nowhere: forget what said so, for the next attempt. */
NAM_FIBER_FN static int
forget_pointer(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *walk)
{
	if (walk->level >= 0 && index->cache)
		nam__cache_drop(index->cache, key, (unsigned)walk->level + 1);
	return walk->from_start && !walk->hops ?
		index->inner->start_forget(worker, index, walk) : 0; /* SUSPENDS */
}

/*
 * Cache a leaf that this operation has found in use, and no other leaf.  The leaf's fences say more
 * than its entry does, and its version which image is newer.
 */
static void
cache_leaf(struct nam_worker *worker, struct nam_index *index, const struct nam__descent *found)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *above = nam_buffer_take(worker, g->node_bytes), *entry;
	const uint64_t *leaf = found->image;

	if (!above)
		return;
	nam__node_init(g, above, NAM__NODE_INNER, 1, 1, nam__node_low(leaf),
		nam__node_last(leaf) ? NULL : nam__node_high(g, leaf));
	entry = nam__inner_entry(g, above, 0);
	memcpy(entry, nam__node_low(leaf), 8 * g->full_words);
	entry[g->full_words] = found->at.raw;
	nam__node_set_counts(above, 1, 1);
	above[NAM__WORD_FRONT] |= nam__node_version(leaf) << 16;
	nam__cache_put(index->cache, above, found->at, false);
	nam_buffer_give(worker, above, g->node_bytes);
}

/*
 * Moved right from a pointer in the cache: bring the cached parent up to date.  If the parent does
 * not name the node yet (its splitter is slow, or died), name it (I7).
 */
NAM_FIBER_FN static void
refresh_parent(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	const struct nam__descent *found)
{
	unsigned level = (unsigned)found->level + 1;
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	struct nam_gaddr at, named;
	struct nam__key low;
	int rc;

	if (!image)
		return;
	nam__cache_drop(index->cache, key, level);
	rc = index->inner->read_covering(worker, index, key, level, image, &at); /* SUSPENDS */
	if (rc)
		goto give_image;
	nam__cache_put(index->cache, image, at, index->names);
	if (nam__names_old(index))
		cache_leaf(worker, index, found);
	named = nam__inner_child(&index->g, image, nam__inner_search(&index->g, image, key));
	if (!nam_gaddr_same(named, found->at) && found->hops > 1 && !worker->reads_only) {
		memcpy(low.w, nam__node_low(found->image), 8 * index->g.full_words);
		rc = index->inner->separator_add(worker, index, low.w, found->at,
			level); /* SUSPENDS */
	}
give_image:
	/* Only an improvement: the next walk meets the same and tries again. */
	nam_buffer_give(worker, image, index->g.node_bytes);
}

/* As refresh_parent(), for a leaf to which an old name led: the name is of another leaf. */
NAM_FIBER_FN static void
keep_leaf(struct nam_worker *worker, struct nam_index *index, const struct nam__descent *found)
{
	struct nam__key low;

	cache_leaf(worker, index, found);
	if (found->hops <= 1 || worker->reads_only)
		return;
	memcpy(low.w, nam__node_low(found->image), 8 * index->g.full_words);
	/* Only an improvement: the next walk tries again. */
	(void)!index->inner->separator_add(worker, index, low.w, found->at, 1); /* SUSPENDS */
}

/* Counts what the cache was worth for a leaf, once for each pointer.  read_leaf() counts itself. */
static void
count_end(struct nam_worker *worker, unsigned level, const struct nam__descent *walk, bool found)
{
	struct nam_op_counters *counters = worker->current->counters;

	if (level || walk->level || !walk->from_cache)
		return;
	if (found && !walk->hops)
		counters->cache_hits++;
	else
		counters->cache_stale++;
}

/*
 * Descend, level by level, to the node at `level` that covers the key.  Each image is whole and
 * what its pointer promised (I2, I3).  The separator next below the key leads to the child that
 * covers it, or to a node left of that one (I5, I6).  From there the walk moves right.
 */
NAM_FIBER_FN static int
descend(struct nam_worker *worker, struct nam_index *index, const uint64_t *key, unsigned level,
	struct nam__descent *walk)
{
	const struct nam__geometry *g = &index->g;
	int rc;

	for (;;) {
		if (walk->from_start)
			rc = index->inner->start_read(worker, index, key, walk); /* SUSPENDS */
		else
			rc = nam__node_read(worker, index, walk->at, walk->level,
				walk->image); /* SUSPENDS */
		if (rc)
			return rc;
		if (walk->level < (int)level) {
			/* A root that has since got a parent, or a tree too low. */
			rc = nam__root_refresh(worker, index, &walk->at); /* SUSPENDS */
			return rc ? rc : -NAM_E_RESTART_PARENT;
		}
		rc = move_right(worker, index, key, walk); /* SUSPENDS */
		if (rc || walk->level == (int)level)
			return rc;
		if (index->cache)
			nam__cache_put(index->cache, walk->image, walk->at, false);
		walk->at = nam__inner_child(g, walk->image, nam__inner_search(g, walk->image, key));
		walk->level--;
		walk->hops = 0;
		walk->from_cache = walk->from_start = false;
	}
}

/*
 * Restart: the walk met a node that is dead or another one (I3), or a key below the low fence.
 * Forget the pointer that led there, so that each attempt begins with a newer one.  Returns 0 when
 * the walk may begin again; `why`, when it has made no progress for too long; or another code.
 */
NAM_FIBER_FN static int
restart(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *walk, unsigned tries, uint64_t *since_ns, int why)
{
	struct nam_gaddr root;
	int rc;

	if (why == -NAM_E_RESTART_FENCE)
		nam__count_restart(worker, NAM_RESTART_FENCE);
	if (atomic_load_explicit(&index->dropped, memory_order_relaxed))
		return nam__index_dropped(worker, index);
	rc = forget_pointer(worker, index, key, walk); /* SUSPENDS */
	if (rc)
		return rc;
	/* A process that was stopped has seen little in all that time: hence the tries. */
	if (nam__timeout_over(worker, since_ns) && tries > TRIES_MIN)
		return why;
	if (tries <= 2)
		return 0;
	if (walk->level < 0 && why == -NAM_E_RESTART_DEAD &&
		tries % TRIES_ROOT_DEAD == TRIES_ROOT_DEAD - 1) {
		rc = nam__root_follow(worker, index, walk->at, walk->image); /* SUSPENDS */
		if (rc)
			return rc;
	}
	/* Ever longer, so that a writer that is half-way through a change can finish it. */
	nam__pause_await(worker, tries * 100ull); /* SUSPENDS */
	/* An index that is being dropped is dead from its leaves up. */
	return nam__root_refresh(worker, index, &root); /* SUSPENDS */
}

int
nam__read_covering(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	unsigned level, uint64_t *image, struct nam_gaddr *ret_at)
{
	struct nam__descent walk = { .image = image };
	uint64_t since_ns = 0;
	int rc = -NAM_E_RESTART, restart_rc;

	for (unsigned tries = 0; tries < NAM__RESTARTS_MAX; tries++) {
		rc = walk_begin(worker, index, key, level, &walk); /* SUSPENDS */
		if (!tries && index->cache && !level && !(walk.from_cache && !walk.level))
			worker->current->counters->cache_misses++;
		if (!rc)
			rc = descend(worker, index, key, level, &walk); /* SUSPENDS */
		if (rc && (!nam_err_is(rc, NAM_E_RESTART) || rc == -NAM_E_RESTART_TORN ||
				  rc == -NAM_E_RESTART_PARENT))
			return rc;
		count_end(worker, level, &walk, !rc);
		if (!rc) {
			*ret_at = walk.at;
			if (walk.hops && walk.from_cache)
				refresh_parent(worker, index, key, &walk); /* SUSPENDS */
			if (walk.old_name && index->cache)
				keep_leaf(worker, index, &walk); /* SUSPENDS */
			return 0;
		}
		restart_rc = restart(worker, index, key, &walk, tries, &since_ns,
			rc); /* SUSPENDS */
		if (restart_rc)
			return restart_rc;
	}
	return rc;
}

/* ---- locking ------------------------------------------------------------------------------ */

/* I9: given back without a change. */
int
nam__unlock(struct nam_worker *worker, struct nam__held *held)
{
	struct nam__doorbell doorbell;

	nam__doorbell_init(&doorbell, worker, held->at);
	return nam__unlock_await(&doorbell, &held->lock); /* SUSPENDS */
}

/* Held, but the image is not what the pointer promised: let go, and say why. */
NAM_FIBER_FN static int
lock_refuse(struct nam_worker *worker, struct nam_index *index, struct nam__held *held, int why)
{
	bool completed = false;
	int rc = 0;

	if (why == -NAM_E_RESTART_DEAD)
		nam__count_restart(worker, NAM_RESTART_DEAD);
	if (why == -NAM_E_RESTART_FENCE)
		nam__count_restart(worker, NAM_RESTART_FENCE);
	/* I20: the client that wrote it has ended together with the memory server. */
	if (why == -NAM_E_RESTART_TORN && nam__may_be_promoted(worker->client, held->at)) {
		rc = nam__torn_complete(worker, index, held->at, held->lock.word,
			held->lock.word, held->image); /* SUSPENDS */
		completed = rc != -NAM_E_LOCK_ORPHANED;
	}
	if (rc && completed)
		why = rc;
	else if (why == -NAM_E_RESTART_TORN && !completed)
		/* No writer is active: we hold the lock. */
		why = nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT,
			"the node at region %u offset %llu does not verify under its own lock",
			nam_gaddr_region(held->at), (unsigned long long)nam_gaddr_offset(held->at));
	rc = nam__unlock(worker, held); /* SUSPENDS */
	return rc ? rc : why;
}

int
nam__lock_node(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at, int level,
	struct nam__held *held)
{
	int rc;

	held->at = at;
	rc = nam__lock_read_await(worker, at, held->image, index->g.node_bytes,
		&index->recovery, &held->lock); /* SUSPENDS */
	if (rc)
		return rc;
	/* I3: the block may be another node by now, or none. */
	rc = nam__node_validate(index, held->image, at, level, NAM__ANY_TYPE);
	return rc ? lock_refuse(worker, index, held, rc) : 0; /* SUSPENDS */
}

int
nam__held_covers(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	unsigned level, struct nam__held *held)
{
	int rc = nam__node_validate(index, held->image, held->at, (int)level,
		level ? NAM__NODE_INNER : NAM__NODE_LEAF);

	if (!rc && !nam__node_covers(held->image, key, index->g.full_words))
		rc = -NAM_E_RESTART_FENCE;
	return rc ? lock_refuse(worker, index, held, rc) : 0; /* SUSPENDS */
}

/* Where a lock attempt should begin: the cached pointer, or the node that a walk finds. */
NAM_FIBER_FN static int
locate(struct nam_worker *worker, struct nam_index *index, const uint64_t *key, unsigned level,
	uint64_t *image, struct nam_gaddr *ret_at, bool *ret_cached)
{
	struct nam__cache_hop hop;

	*ret_cached = true;
	if (level == 0) {
		*ret_at = nam__cached_leaf(worker, index, key); /* SUSPENDS */
		if (!nam_gaddr_is_null(*ret_at))
			return 0;
	} else if (index->cache && nam__cache_find(index->cache, key, level, &hop) &&
		hop.level == level) {
		*ret_at = hop.child;
		return 0;
	}
	*ret_cached = false;
	return nam__read_covering(worker, index, key, level, image, ret_at); /* SUSPENDS */
}

NAM_FIBER_FN static int
lock_covering(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	unsigned level, unsigned tries, struct nam__lock_request *request, struct nam__held *held)
{
	bool cached = false;
	int rc = -NAM_E_RESTART;

	for (; tries < NAM__RESTARTS_MAX; tries++) {
		/* After a miss, walk: that repairs the pointer and finds the node. */
		if (tries == 0)
			rc = locate(worker, index, key, level, held->image,
				&held->at, &cached); /* SUSPENDS */
		else
			rc = nam__read_covering(worker, index, key, level, held->image,
				&held->at); /* SUSPENDS */
		if (rc)
			return rc;
		/* I12: only the holder changes the node.  I3: it may be another one by now. */
		rc = nam__lock_change_await(worker, held->at, held->image, index->g.node_bytes,
			request, &index->recovery, &held->lock); /* SUSPENDS */
		/* Combined: the leaf was where the cache said. */
		worker->current->counters->cache_hits += rc == NAM__LOCK_COMBINED && !tries &&
							 cached;
		if (rc)
			return rc;
		rc = nam__held_covers(worker, index, key, level, held); /* SUSPENDS */
		/* If it does not, the walk will tell. */
		worker->current->counters->cache_hits += !rc && !tries && !level && cached;
		if (!rc || !nam_err_is(rc, NAM_E_RESTART))
			return rc;
		if (tries > 2)
			nam__pause_await(worker, tries * 100ull); /* SUSPENDS */
	}
	return rc;
}

int
nam__lock_covering(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	unsigned level, struct nam__held *held)
{
	return lock_covering(worker, index, key, level, 0, NULL, held); /* SUSPENDS */
}

int
nam__lock_to_change(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	bool walk, struct nam__lock_request *request, struct nam__held *held)
{
	return lock_covering(worker, index, key, 0, walk, request, held); /* SUSPENDS */
}

/* ---- writing ------------------------------------------------------------------------------ */

int
nam__write_unlock(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	struct nam__dirty dirty, enum nam__header_part part)
{
	return nam__write_unlock_quickly(worker, index, held, dirty, part); /* SUSPENDS */
}

int
nam__write_keep(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	struct nam__dirty dirty, enum nam__header_part part)
{
	struct nam__doorbell doorbell;
	struct nam__redo redo;
	int rc;

	nam__node_seal(&index->g, held->image, held->at);
	nam__doorbell_init(&doorbell, worker, held->at);
	/* I20: the record comes before the image. */
	rc = nam__redo_post(&doorbell, index, held, dirty, part, &redo); /* SUSPENDS */
	if (!rc) {
		nam__image_post(&doorbell, index, held, dirty, part);
		rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
	}
	nam__redo_end(worker, index, &redo, rc);
	return rc;
}

void
nam__batch_new_node(struct nam_batch *batch, const struct nam_index *index, struct nam_gaddr at,
	uint64_t *image)
{
	uint32_t generation = nam__node_generation(image), rear = index->g.node_words - 1;

	/* I2: versions of one life of a block are not those of another. */
	image[NAM__WORD_FRONT] += (uint64_t)(generation - 1) << 32;
	nam__node_seal(&index->g, image, at);
	if (generation == 1 || !index->ordered_loads) {
		nam_batch_write(batch, at, 8 * NAM__WORD_HASH, image + NAM__WORD_HASH,
			index->g.node_bytes - 8 * NAM__WORD_HASH);
		return;
	}
	/*
	 * I2: to a reader with an old pointer, half of either node is torn: as nam__image_post().
	 */
	nam_batch_write(batch, at, 8 * rear, image + rear, 8);
	nam_batch_write(batch, at, 8 * NAM__WORD_SHAPE, image + NAM__WORD_SHAPE,
		8 * (rear - NAM__WORD_SHAPE));
	nam_batch_write(batch, at, 8 * NAM__WORD_HASH, image + NAM__WORD_HASH, 16);
}

int
nam__new_node_await(struct nam_worker *worker, struct nam_index *index, struct nam_gaddr at,
	uint64_t *image)
{
	struct nam_batch batch;

	nam_batch_init(&batch, worker);
	nam__batch_new_node(&batch, index, at, image);
	return nam_batch_await(&batch); /* SUSPENDS */
}
