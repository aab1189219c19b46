/* SPDX-License-Identifier: Apache-2.0 */
/*
 * design.c -- the design of a run's indexes, and the trees that memory servers keep for them.
 *
 * A memory server's blocks are in a node of one of its trees, in such a tree's free list, or in its
 * limbo.  All of that is this process's, so it is looked at, not asked for.
 */
#include <stdlib.h>

#include "index/index_internal.h"
#include "memserver/trees.h"
#include "stage.h"

/* A handler that waits looks up once a second of its clock. */
#define IDLE_NS 1300000000ull

bool
sim_in_parts(const struct sim_scenario *scenario)
{
	return scenario->design != NAM_DESIGN_FINE;
}

bool
sim_one_sided(const struct sim_scenario *scenario)
{
	return scenario->design != NAM_DESIGN_COARSE;
}

void
sim_design_set(const struct sim_scenario *scenario, uint64_t keys, sim_key_fn key,
	uint8_t bounds[SIM_BOUNDS_BYTES], struct nam_index_options *options)
{
	uint64_t share = keys / scenario->servers ? keys / scenario->servers : 1;

	options->design = scenario->design;
	if (!sim_in_parts(scenario))
		return;
	if (scenario->design == NAM_DESIGN_COARSE)
		options->head_interval = 0;
	options->partitioning = scenario->partitioning;
	if (scenario->partitioning != NAM_PARTITION_RANGE)
		return;
	/* There are as many bounds as memory servers, which come meanwhile. */
	if (scenario->add) {
		options->partitioning = NAM_PARTITION_HASH;
		return;
	}
	for (uint32_t i = 0; i + 1 < scenario->servers; i++)
		key(scenario, (i + 1) * share, bounds + (size_t)i * options->key_bytes);
	options->bounds = bounds;
	options->bounds_count = scenario->servers - 1;
}

/* ---- counting ----------------------------------------------------------------------------- */

static uint64_t
local_nodes(struct nam__tree_server_tree *local)
{
	static const struct nam__key lowest;
	uint64_t *scratch = malloc(NAM__TREE_SCRATCH_BYTES), nodes = 0;
	struct nam__tree_server_walk walk = { .more = true };

	if (!scratch)
		abort();
	for (unsigned level = 0; walk.more; level++) {
		nam__tree_server_walk(local, scratch, level, false, lowest.w, UINT32_MAX, &walk);
		nodes += walk.nodes;
		walk.more = level + 1 < walk.height;
	}
	free(scratch);
	return nodes;
}

static void
count_kept(const struct nam__tree *tree, struct sim_trees *trees)
{
	const struct nam__tree_limbo *entry;

	trees->kept_bytes += (uint64_t)tree->cache_count * tree->stride;
	STAILQ_FOREACH(entry, &tree->limbo, link)
		trees->kept_bytes += tree->stride;
	/* A load that is over has left nothing. */
	if (tree->filling)
		trees->nameless_bytes += tree->stride * local_nodes(tree->filling);
}

static void
count_server(const struct nam_server *server, uint64_t id, struct sim_trees *trees)
{
	const struct nam__object *object;

	for (uint32_t i = 0; i < server->trees.slots_count; i++) {
		struct nam__tree *tree = (struct nam__tree *)nam__objects_at(&server->trees, i);

		if (!tree)
			continue;
		count_kept(tree, trees);
		if (tree->object.id == id) {
			trees->index_nodes += local_nodes(tree->local);
		} else {
			trees->nameless_bytes += tree->stride * local_nodes(tree->local);
			trees->nameless++;
		}
	}
	STAILQ_FOREACH(object, &server->trees.dropped, link) {
		const struct nam__tree *tree = (const struct nam__tree *)object;

		count_kept(tree, trees);
		trees->kept_bytes += tree->stride * local_nodes(tree->local);
		trees->dropped++;
	}
}

static void
count(const struct sim_stage *stage, struct sim_trees *trees)
{
	uint64_t id = stage->actors[SIM_DIRECTOR].index->tree;

	*trees = (struct sim_trees){ 0 };
	for (uint32_t i = 0; i < stage->cluster.count; i++)
		if (sim_server_holds(&stage->cluster.servers[i]))
			count_server(stage->cluster.servers[i].server, id, trees);
}

void
sim_trees_count(const struct sim_stage *stage, struct sim_trees *ret_trees)
{
	count(stage, ret_trees);
	if (!ret_trees->dropped)
		return;
	nam_sleep_ns(IDLE_NS);
	count(stage, ret_trees);
}
