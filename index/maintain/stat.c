/* SPDX-License-Identifier: Apache-2.0 */
/* stat.c -- what an index consists of. */
#include "index/fine/fine.h"
#include "maintain.h"

static void
count_node(const struct nam_index *index, const struct nam__walk *walk, struct nam_index_stat *stat)
{
	switch (nam__node_type(walk->image)) {
	case NAM__NODE_LEAF:
		stat->leaves++;
		stat->entries += nam__node_count(walk->image);
		break;
	case NAM__NODE_HEAD:
		stat->head_nodes++;
		break;
	default:
		stat->inner_nodes++;
	}
	stat->remote_bytes += index->g.stride;
	stat->servers_nodes[nam_gaddr_region(walk->at) / NAM_REGIONS_PER_SERVER]++;
}

struct slice {
	struct nam__key low;		/* of the node that the last one ended with */
	uint32_t count;			/* of nodes, so far */
};

/* I21: a slice ends with a node that no earlier one has come to, so the walk gets on. */
NAM_FIBER_FN static int
rest(struct nam__walk *walk, const struct nam__seen *seen, struct slice *slice)
{
	const struct nam__geometry *g = &walk->index->g;
	const uint64_t *low = nam__node_low(walk->image);
	int rc;

	if (++slice->count < seen->slice || walk->ended ||
		nam__node_type(walk->image) == NAM__NODE_HEAD ||
		nam__key_compare(low, slice->low.w, g->full_words) <= 0)
		return 0;
	memcpy(slice->low.w, low, 8 * g->full_words);
	slice->count = 0;
	nam__walk_leave(walk);
	nam__op_end(walk->worker);
	nam_race_point("sweep.rest");
	rc = seen->rest(seen->arg); /* SUSPENDS */
	nam__op_resume(walk->worker, NAM_OP_VERIFY);
	return rc;
}

NAM_FIBER_FN int
nam__count_level(struct nam_worker *worker, struct nam_index *index, unsigned level,
	unsigned root_level, struct nam_index_stat *stat, const struct nam__seen *seen)
{
	struct slice slice = { .count = 0 };
	struct nam__walk walk;
	int rc, fn_rc = 0;

	rc = nam__walk_open(&walk, worker, index, level, root_level);
	if (rc)
		return rc;
	walk.repeats = seen->fn;
	while (!fn_rc && !(rc = nam__walk_next(&walk)) && walk.image) { /* SUSPENDS */
		count_node(index, &walk, stat);
		if (seen->fn)
			fn_rc = seen->fn(seen->arg, walk.at); /* SUSPENDS */
		if (seen->fn && !fn_rc)
			fn_rc = rest(&walk, seen, &slice); /* SUSPENDS */
	}
	nam__walk_close(&walk);
	return fn_rc ? fn_rc : rc;
}

int
nam__fine_stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *stat,
	const struct nam__seen *seen)
{
	unsigned root_level = 0;
	struct nam_gaddr root;
	int rc = nam__root_find(worker, index, &root, &root_level); /* SUSPENDS */

	for (unsigned level = 0; !rc && level <= root_level; level++)
		rc = nam__count_level(worker, index, level, root_level, stat,
			seen); /* SUSPENDS */
	stat->height = root_level + 1;
	return rc;
}
