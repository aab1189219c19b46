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
#include "index/node/validate.h"

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
	rc = nam_rpc_call(worker, index->inner_rpc_slot, NAM_RPC_TREE_FLOOR, &request,
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

int
nam__inner_rpc_leaf(struct nam_worker *worker, struct nam_index *index, const uint64_t *key,
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

/* The leaf's fences say more than its entry does, and its version which image is newer. */
void
nam__inner_rpc_keep(struct nam_worker *worker, struct nam_index *index, const uint64_t *image,
	struct nam_gaddr leaf)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *above = nam_buffer_take(worker, g->node_bytes), *entry;

	if (!above)
		return;
	nam__node_init(g, above, NAM__NODE_INNER, 1, 1, nam__node_low(image),
		nam__node_last(image) ? NULL : nam__node_high(g, image));
	entry = nam__inner_entry(g, above, 0);
	memcpy(entry, nam__node_low(image), 8 * g->full_words);
	entry[g->full_words] = leaf.raw;
	nam__node_set_counts(above, 1, 1);
	above[NAM__WORD_FRONT] |= nam__node_version(image) << 16;
	nam__cache_put(index->cache, above, leaf, false);
	nam_buffer_give(worker, above, g->node_bytes);
}

NAM_FIBER_FN static int
change_name(struct nam_worker *worker, struct nam_index *index, enum nam_rpc_tree_point kind,
	const uint64_t *key, struct nam_gaddr leaf)
{
	return dropped_report(worker, index, nam__tree_point(worker, index, index->inner_rpc_slot,
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
	int rc = nam__tree_point(worker, index, index->inner_rpc_slot, NAM_RPC_TREE_LOOKUP, key,
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
		atomic_store_explicit(&index->inner_rpc_full, true, memory_order_relaxed);
	else if (!rc && atomic_load_explicit(&index->inner_rpc_full, memory_order_relaxed))
		atomic_store_explicit(&index->inner_rpc_full, false, memory_order_relaxed);
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

/* Leaves without names must not pile up (H5). */
int
nam__inner_rpc_room(struct nam_worker *worker, struct nam_index *index,
	const struct nam__held *held, uint64_t *image)
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
		"whatever room others have. Start it with more --memory, or delete pairs, collect, "
		"and try again", client->servers[index->inner_rpc_slot].address);
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
