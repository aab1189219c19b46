/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inner_rpc.c -- finding, reporting and forgetting leaves of a hybrid index.
 *
 * Names are hints (H1).  Names and leaves change one after the other (H2):
 *
 *	a split		the new leaf, the link from its left neighbour, the name.  Without the name,
 *			a reader comes to the left neighbour and moves right.
 *	a merge		the left leaf with all entries, the mark in the right one, the name's end.
 *			A client that finds the leaf of a name dead removes the name (H3).
 */
#include <errno.h>

#include "hybrid.h"
#include "index/design.h"
#include "index/validate.h"

#define NAMES_TRIED_MAX 4u
/* The hash that a READ brings may be one version older than the rest. */
#define LEAF_READS_MAX 3u

static int
dropped_report(struct nam_worker *worker, struct nam_index *index, int rc)
{
	return rc == -NAM_E_DROPPED ? nam__index_dropped(worker, index) : rc;
}

/* Every byte comes from elsewhere: names ascend, from the key or below it to `next`. */
static bool
reply_valid(const struct nam__geometry *g, const uint64_t *key,
	const struct nam_rpc_tree_floor_reply *reply, uint32_t bytes)
{
	const uint64_t *names = reply->pairs;

	if (bytes < sizeof(*reply) || !reply->count || reply->count > g->inner_capacity ||
		bytes != sizeof(*reply) + 8ull * g->inner_words * reply->count ||
		nam__key_compare(names, key, g->full_words) > 0)
		return false;
	for (uint32_t i = 1; i < reply->count; i++)
		if (nam__key_compare(names + (size_t)(i - 1) * g->inner_words,
			    names + (size_t)i * g->inner_words, g->full_words) >= 0)
			return false;
	return reply->last || nam__key_compare(names + (size_t)(reply->count - 1) * g->inner_words,
				      reply->next, g->full_words) < 0;
}

int
nam__inner_rpc_read(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	bool alone, uint64_t *image, struct nam_gaddr *ret_at)
{
	const struct nam__geometry *g = &index->g;
	struct nam_rpc_tree_floor_request request = { .tree = index->tree, .alone = alone };
	struct nam_rpc_tree_floor_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint32_t bytes = NAM_RPC_BODY_MAX;
	int rc;

	if (!reply)
		return -ENOMEM;
	memcpy(request.key, key, 8 * g->full_words);
	rc = nam_rpc_call(worker, index->names_slot, NAM_RPC_TREE_FLOOR, &request,
		sizeof(request), reply, &bytes); /* SUSPENDS */
	if (!rc && !reply_valid(g, key, reply, bytes))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc) {
		nam__node_init(g, image, NAM__NODE_INNER, 1, 1, reply->pairs,
			reply->last ? NULL : reply->next);
		memcpy(image + g->entries_at, reply->pairs, 8ul * g->inner_words * reply->count);
		nam__node_set_counts(image, reply->count, reply->count);
		image[NAM__WORD_FRONT] |= reply->version << 16;
		ret_at->raw = reply->node;
	}
	nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return dropped_report(worker, index, rc);
}

NAM_FIBER_FN static int
change_name(struct nam_worker *worker, struct nam_index *index, enum nam_rpc_tree_point kind,
	const uint64_t *key, struct nam_gaddr leaf)
{
	return dropped_report(worker, index, nam__tree_point(worker, index, index->names_slot,
		kind, key, index->g.full_words, leaf.raw, NULL)); /* SUSPENDS */
}

/*
 * A name is there already: this leaf's, by another client, or that of one that began here before
 * and has died.  The latter goes; then *ret_free is true.
 */
NAM_FIBER_FN static int
forget_dead(struct nam_worker *worker, struct nam_index *index, const uint64_t *key, bool *ret_free)
{
	struct nam_gaddr there;
	bool alive = false;
	int rc = nam__tree_point(worker, index, index->names_slot, NAM_RPC_TREE_LOOKUP, key,
		index->g.full_words, 0, &there.raw); /* SUSPENDS */

	*ret_free = rc == -NAM_E_NOTFOUND;
	if (rc)
		return *ret_free ? 0 : dropped_report(worker, index, rc);
	rc = nam__child_alive(worker, there, &alive); /* SUSPENDS */
	if (rc || alive)
		return rc;
	rc = nam__inner_rpc_remove(worker, index, key, there); /* SUSPENDS */
	*ret_free = !rc;
	return rc;
}

int
nam__inner_rpc_add(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr leaf)
{
	bool alive = false, name_free;
	int rc;

	for (unsigned tries = 0; tries < NAMES_TRIED_MAX; tries++) {
		rc = change_name(worker, index, NAM_RPC_TREE_INSERT, key, leaf); /* SUSPENDS */
		if (rc != -NAM_E_EXISTS)
			break;
		rc = forget_dead(worker, index, key, &name_free); /* SUSPENDS */
		if (rc || !name_free)
			return rc;
		rc = -NAM_E_EXISTS;
	}
	nam_race_point("inner_rpc.named");
	if (rc == -NAM_E_REMOTE_FULL)
		atomic_store_explicit(&index->unnamed, true, memory_order_relaxed);
	else if (!rc && atomic_load_explicit(&index->unnamed, memory_order_relaxed))
		atomic_store_explicit(&index->unnamed, false, memory_order_relaxed);
	if (rc == -NAM_E_EXISTS)
		return 0;	/* others name and bury leaves here all the time: late is legal */
	if (rc || !NAM_GUARD(CHILD_ALIVE))
		return rc;
	/*
	 * H2: a collector may have named it before us, and merged it away.  It marks a leaf before
	 * it takes its name away: so if we see no mark, that is still to come.
	 */
	rc = nam__child_alive(worker, leaf, &alive); /* SUSPENDS */
	if (rc || alive)
		return rc;
	return nam__inner_rpc_remove(worker, index, key, leaf); /* SUSPENDS */
}

/* The next leaf to the right, past head nodes, and its image; *ret_at is null: there is none. */
NAM_FIBER_FN static int
right_neighbour(struct nam_worker *worker, struct nam_index *index, const struct nam__held *held,
	uint64_t *image, struct nam_gaddr *ret_at)
{
	struct nam_gaddr at = nam__node_sibling(held->image);

	*ret_at = NAM_GADDR_NULL;
	for (unsigned hops = 0; hops < NAM__HOPS_MANY && !nam__node_last(held->image); hops++) {
		int rc = nam__node_read(worker, index, at, 0, image); /* SUSPENDS */

		if (rc)
			return rc;
		if (nam__node_type(image) != NAM__NODE_HEAD) {
			*ret_at = at;
			break;
		}
		at = nam__node_sibling(image);
	}
	return 0;
}

/*
 * Whether a leaf may divide although there was no room for names.
 *
 * A split whose report is refused is legal.  But repeated next to each other, such splits would
 * leave rows of leaves without names, through which every reader walks (H5).  So a leaf may divide
 * only if it and its right neighbour are named.  Both are reported, which helps if there is room by
 * now.
 *
 * @held	the leaf
 * @image	scratch
 *
 * Returns 0, or -NAM_E_REMOTE_FULL: no.  Other failures to find out mean yes.
 * Cost: up to 4 RPCs and 6 READs, while the leaf is locked; only when memory is full.
 */
NAM_FIBER_FN static int
names_room(struct nam_worker *worker, struct nam_index *index, const struct nam__held *held,
	uint64_t *image)
{
	const struct nam_client *client = worker->client;
	struct nam_gaddr right;
	int rc = nam__inner_rpc_add(worker, index, nam__node_low(held->image),
		held->at); /* SUSPENDS */

	if (!rc && !right_neighbour(worker, index, held, image, &right) && /* SUSPENDS */
		!nam_gaddr_is_null(right))
		rc = nam__inner_rpc_add(worker, index, nam__node_low(image), right); /* SUSPENDS */
	if (rc != -NAM_E_REMOTE_FULL)
		return 0;
	return nam_diag_set(&worker->diag, rc,
		"the memory server at %s keeps the names of these leaves and has no room for more, "
		"whatever room others have. Start nam-memserver with more --memory, or delete "
		"pairs, collect, and try again", client->servers[index->names_slot].address);
}

int
nam__inner_rpc_remove(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr leaf)
{
	int rc;

	if (!nam__key_compare(key, nam__key_lowest.w, index->g.full_words))
		return 0;	/* only while the index is being dropped */
	rc = change_name(worker, index, NAM_RPC_TREE_DELETE_PAIR, key, leaf); /* SUSPENDS */
	return rc == -NAM_E_NOTFOUND ? 0 : rc;
}

/* ---- the table ----------------------------------------------------------------------------- */

/*
 * READ the leaf of an old name: only its hash tells.  -NAM_E_RESTART_DEAD also if these bytes are
 * not the leaf.
 */
NAM_FIBER_FN static int
old_leaf_read(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr leaf, uint64_t *image)
{
	const struct nam__geometry *g = &index->g;
	bool first = !nam__key_compare(key, nam__key_lowest.w, g->full_words);
	bool is_public = nam_region_table_public(&index->client->regions, leaf);

	for (unsigned reads = 0; is_public && reads < LEAF_READS_MAX; reads++) {
		int rc = nam__node_read(worker, index, leaf, 0, image); /* SUSPENDS */

		/* I17: if the hash fits, it is a leaf of this index, and the pin keeps it. */
		if (!rc && nam__node_is_whole(index, image, leaf))
			return 0;
		if (!rc)
			continue;
		/* A part's first leaf does not die (H3): its defect is to be told. */
		if (first || (rc != -NAM_E_RESTART_TORN && rc != -NAM_E_LOCK_ORPHANED &&
				     rc != -NAM_E_REMOTE_CORRUPT))
			return rc;
		break;
	}
	nam__count_restart(worker, NAM_RESTART_DEAD);
	return -NAM_E_RESTART_DEAD;
}

/* A memory server says with which leaf to begin.  I17: old names are not cached. */
NAM_FIBER_FN static int
start(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *descent)
{
	const struct nam__geometry *g = &index->g;
	struct nam_gaddr at;
	unsigned number;
	int rc;

	descent->old_name = nam__names_old(index);
	rc = nam__inner_rpc_read(worker, index, descent->passes ? descent->below.w : key,
		!index->cache || descent->old_name || descent->passes, descent->image,
		&at); /* SUSPENDS */
	if (rc)
		return rc;
	if (index->cache && !descent->old_name && !descent->passes)
		nam__cache_put(index->cache, descent->image, at, true);
	number = nam__inner_search(g, descent->image, key);
	memcpy(descent->name.w, nam__inner_entry(g, descent->image, number), 8 * g->full_words);
	descent->at = nam__inner_child(g, descent->image, number);
	descent->level = 0;
	return 0;
}

NAM_FIBER_FN static int
start_read(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam__descent *descent)
{
	(void)key;
	if (descent->old_name)
		return old_leaf_read(worker, index, descent->name.w, descent->at,
			descent->image); /* SUSPENDS */
	return nam__node_read(worker, index, descent->at, 0, descent->image); /* SUSPENDS */
}

/* H3: the memory server would answer with this entry again. */
NAM_FIBER_FN static int
start_forget(struct nam_worker *worker, struct nam_index *index, struct nam__descent *descent)
{
	if (!worker->reads_only)
		return NAM_GUARD(STALE_NAME) ? nam__inner_rpc_remove(worker, index,
			descent->name.w, descent->at) : 0; /* SUSPENDS */
	/*
	 * A client that may only read leaves the name of a dead leaf there.  It moves right from
	 * the leaf of the name before it (H2).  A part's first leaf does not die.
	 */
	descent->below = descent->name;
	descent->passes = nam__key_down(&index->g, descent->below.w);
	return 0;
}

NAM_FIBER_FN static int
read_covering(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	unsigned level, uint64_t *image, struct nam_gaddr *ret_at)
{
	return level > 1 ? -NAM_E_RESTART_PARENT :
		nam__inner_rpc_read(worker, index, key, false, image, ret_at); /* SUSPENDS */
}

NAM_FIBER_FN static int
split_unlock(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	const uint64_t *key, uint64_t value)
{
	uint64_t *image;
	int rc;

	/* H5: a leaf that may not divide is unlocked as it was. */
	if (__builtin_expect(atomic_load_explicit(&index->unnamed, memory_order_relaxed), 0)) {
		image = nam_buffer_take(worker, index->g.node_bytes);
		rc = image ? names_room(worker, index, held, image) : -ENOMEM; /* SUSPENDS */
		nam_buffer_give(worker, image, index->g.node_bytes);
		if (rc) {
			(void)!nam__unlock(worker, held); /* SUSPENDS */
			return rc;
		}
	}
	return nam__split_unlock(worker, index, held, key, value); /* SUSPENDS */
}

NAM_FIBER_FN static int
separator_add(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
	struct nam_gaddr child, unsigned level)
{
	(void)level;
	return nam__inner_rpc_add(worker, index, key, child); /* SUSPENDS */
}

const struct nam__inner_ops nam__inner_rpc = {
	.start = start,
	.start_read = start_read,
	.start_forget = start_forget,
	.read_covering = read_covering,
	.split_unlock = split_unlock,
	.separator_add = separator_add,
	.leaf_forget = nam__inner_rpc_remove,
};
