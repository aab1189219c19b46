/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c -- along one level of the tree, from left to right, many nodes per doorbell.  The siblings
 * decide which nodes there are (I1); a parent's children are worth reading ahead.
 */
#include <errno.h>

#include "index/design.h"
#include "index/validate.h"
#include "maintain.h"

/* The way is looked for anew so often, however long that takes. */
#define FINDS_MIN 2u

int
nam__window_init(struct nam__window *window, struct nam_worker *worker,
	struct nam_index *index)
{
	window->worker = worker;
	window->index = index;
	window->count = 0;
	window->images = nam_buffer_take(worker, NAM__WINDOW_NODES * index->g.node_bytes);
	return window->images ? 0 : -ENOMEM;
}

void
nam__window_done(struct nam__window *window)
{
	nam_buffer_give(window->worker, window->images,
		NAM__WINDOW_NODES * window->index->g.node_bytes);
	window->images = NULL;
}

static uint64_t *
window_image(struct nam__window *window, unsigned number)
{
	return window->images + (size_t)number * window->index->g.node_words;
}

bool
nam__node_readable(const struct nam_worker *worker, const struct nam_index *index,
	struct nam_gaddr at)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);
	uint64_t offset = nam_gaddr_offset(at);

	/* I17: an old leaf entry may lead to memory that the server has taken for itself. */
	return region && nam_region_table_public(&worker->client->regions, at) &&
	       !nam_gaddr_is_null(nam_gaddr_untagged(at)) && offset <= region->bytes &&
	       region->bytes - offset >= index->g.node_bytes;
}

int
nam__window_read(struct nam__window *window, struct nam_gaddr at, const uint64_t *parent,
	unsigned entry, uint64_t **ret_image)
{
	const struct nam__geometry *g = &window->index->g;
	struct nam_batch batch;
	unsigned count = 1;
	int rc;

	for (unsigned i = 0; i < window->count; i++) {
		if (nam_gaddr_same(window->at[i], at)) {
			*ret_image = window_image(window, i);
			return 0;
		}
	}
	if (!nam__node_readable(window->worker, window->index, at))
		return -NAM_E_NOREGION;
	window->at[0] = at;
	if (parent && nam_gaddr_same(nam__inner_child(g, parent, entry), at)) {
		for (entry++; entry < nam__node_count(parent) && count < NAM__WINDOW_NODES;
			entry++) {
			struct nam_gaddr child = nam__inner_child(g, parent, entry);

			if (nam__node_readable(window->worker, window->index, child))
				window->at[count++] = child;
		}
	}
	nam_batch_init(&batch, window->worker);
	for (unsigned i = 0; i < count; i++)
		nam_batch_read(&batch, window->at[i], window_image(window, i), g->node_bytes);
	window->count = 0;
	rc = nam_batch_await(&batch); /* SUSPENDS */
	if (rc)
		return rc;
	window->count = count;
	*ret_image = window->images;
	return 0;
}

int
nam__window_node(struct nam__window *window, struct nam_gaddr at, int level,
	const uint64_t *parent, unsigned entry, uint64_t **ret_image)
{
	int rc = nam__window_read(window, at, parent, entry, ret_image); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__node_validate(window->index, *ret_image, at, level, NAM__ANY_TYPE);
	if (rc == -NAM_E_RESTART_TORN)
		rc = nam__node_read(window->worker, window->index, at, level,
			*ret_image); /* SUSPENDS */
	return rc;
}

int
nam__walk_open(struct nam__walk *walk, struct nam_worker *worker, struct nam_index *index,
	unsigned level, unsigned root_level)
{
	int rc;

	memset(walk, 0, sizeof(*walk));
	walk->worker = worker;
	walk->index = index;
	walk->level = level;
	walk->parents_exist = level < root_level;
	walk->parent = nam_buffer_take(worker, index->g.node_bytes);
	if (!walk->parent)
		return -ENOMEM;
	rc = nam__window_init(&walk->window, worker, index);
	if (rc)
		nam_buffer_give(worker, walk->parent, index->g.node_bytes);
	return rc;
}

void
nam__walk_close(struct nam__walk *walk)
{
	nam__window_done(&walk->window);
	nam_buffer_give(walk->worker, walk->parent, walk->index->g.node_bytes);
}

void
nam__walk_leave(struct nam__walk *walk)
{
	const struct nam__geometry *g = &walk->index->g;

	/* I21: a search for its end would pass by the head nodes that lie between. */
	if (NAM_GUARD(SWEEP_SLICE))
		memcpy(walk->from.w, nam__node_low(walk->image), 8 * g->full_words);
	walk->next = NAM_GADDR_NULL;
}

/* A parent whose children are worth reading ahead from walk->from on, or NULL. */
NAM_FIBER_FN static const uint64_t *
walk_parent(struct nam__walk *walk, unsigned *ret_entry)
{
	const struct nam__geometry *g = &walk->index->g;
	struct nam_gaddr at;

	if (!walk->parents_exist)
		return NULL;
	if (!walk->parent_valid || nam__node_below(walk->parent, g, walk->from.w) ||
		nam__node_beyond(walk->parent, g, walk->from.w)) {
		int rc = walk->index->inner->read_covering(walk->worker, walk->index, walk->from.w,
			walk->level + 1, walk->parent, &at); /* SUSPENDS */

		walk->parent_valid = !rc;
		/* Without parents a READ per node does it.  Another look would take long, too. */
		if (rc && rc != -NAM_E_RESTART_PARENT)
			walk->parents_exist = false;
		if (rc)
			return NULL;
	}
	*ret_entry = nam__inner_search(g, walk->parent, walk->from.w);
	return walk->parent;
}

/* The node at walk->next, validated. */
NAM_FIBER_FN static int
walk_fetch(struct nam__walk *walk)
{
	const uint64_t *parent = NULL;
	unsigned entry = 0;
	bool ahead = false;

	for (unsigned i = 0; i < walk->window.count; i++)
		ahead |= nam_gaddr_same(walk->window.at[i], walk->next);
	if (!ahead)
		parent = walk_parent(walk, &entry); /* SUSPENDS */
	return nam__window_node(&walk->window, walk->next, (int)walk->level, parent, entry,
		&walk->image); /* SUSPENDS */
}

/* The pointer led to a dead node, or there is none yet: find the node that covers walk->from. */
NAM_FIBER_FN static int
walk_find(struct nam__walk *walk)
{
	int rc;

	walk->restarts++;
	walk->window.count = 0;
	walk->parent_valid = false;
	walk->again = true;
	rc = nam__read_covering(walk->worker, walk->index, walk->from.w, walk->level,
		walk->window.images, &walk->next); /* SUSPENDS */
	if (rc)
		return rc;
	walk->window.at[0] = walk->next;
	walk->window.count = 1;
	return 0;
}

/*
 * Step over the node just fetched.  False: it, or a head node that may be it, was delivered before.
 * Such steps are counted, as siblings may lead in a circle.
 */
static bool
walk_step(struct nam__walk *walk)
{
	const struct nam__geometry *g = &walk->index->g;
	bool head = nam__node_type(walk->image) == NAM__NODE_HEAD;
	const uint64_t *low = nam__node_low(walk->image);
	bool known = nam__key_compare(low, walk->from.w, g->full_words) < 0 ||
		     (head && (walk->again || walk->was_head));

	walk->at = walk->next;
	walk->next = nam__node_sibling(walk->image);
	if (!head) {
		if (nam__node_last(walk->image))
			walk->ended = true;
		else if (!nam__node_beyond(walk->image, g, walk->from.w))
			memcpy(walk->from.w, nam__node_high(g, walk->image), 8 * g->full_words);
	}
	if (known) {
		walk->restarts++;
		return walk->repeats;
	}
	walk->was_head = head;
	walk->again = false;
	walk->restarts = 0;
	walk->stuck_since_ns = 0;
	return true;
}

int
nam__walk_next(struct nam__walk *walk)
{
	while (!walk->ended) {
		int rc = 0;

		if (walk->restarts > NAM__RESTARTS_MAX)
			return -NAM_E_RESTART_HOPS;
		if (nam_gaddr_is_null(walk->next))
			rc = walk_find(walk); /* SUSPENDS */
		if (!rc)
			rc = walk_fetch(walk); /* SUSPENDS */
		if (rc == -NAM_E_RESTART_DEAD || rc == -NAM_E_RESTART_FENCE) {
			walk->next = NAM_GADDR_NULL;
			/* A process that was stopped has seen little in all that time. */
			if (nam__timeout_over(walk->worker, &walk->stuck_since_ns) &&
				walk->restarts > FINDS_MIN)
				return rc;
			continue;
		}
		if (rc || walk_step(walk))
			return rc;
	}
	walk->image = NULL;
	return 0;
}
