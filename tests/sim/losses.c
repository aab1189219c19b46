/* SPDX-License-Identifier: Apache-2.0 */
/*
 * losses.c -- the holders of blocks outside of the trees, and how much may be lost with each.
 *
 * Blocks in a block cache or limbo of a dead process are out of the servers' books and in no tree.
 * They are lost, neither more nor less.  They can be counted, because a dead process's memory stays
 * as it was.  Beside that a block may be on its way, in an RPC that has had no answer.  Or an
 * operation has it: it has taken it and not yet linked it, or unlinked it and not yet retired it.
 * Of those it is not known whether they are lost.
 */
#include <string.h>

#include "compute/remote/block_cache.h"
#include "compute/remote/epoch.h"
#include "index/index_internal.h"
#include "memserver/memserver_internal.h"
#include "stage.h"

/* Of one operation: a merge's right node and head node, and the block of a redo record. */
#define HAND_BLOCKS 3u

struct holding {
	uint64_t kept;			/* bytes in a block cache or in limbo, or given up */
	uint64_t limbo;			/* of these, in limbo */
	uint64_t unsure;		/* bytes of RPCs without an answer */
	uint64_t late;			/* separators that were left to others */
	uint64_t splits;
};

static struct nam_op_counters
counted(const struct nam_worker *worker)
{
	struct nam_op_counters sum = { 0 };

	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++)
		nam_op_counters_add(&sum, &worker->counters[kind]);
	return sum;
}

static struct holding
holding_of(const struct sim_actor *actor)
{
	struct holding holding = { 0 };
	const struct nam_worker *worker;

	if (!actor->client)
		return holding;
	holding.unsure = atomic_load(&actor->client->bytes_unsure);
	holding.kept = sim_memory_given_up(actor->client);
	SLIST_FOREACH(worker, &actor->client->workers, link) {
		struct nam_op_counters sum = counted(worker);
		uint64_t cache, unsure;

		nam__block_cache_bytes(worker, &cache, &unsure);
		holding.limbo += nam__limbo_bytes(worker);
		holding.kept += cache + nam__limbo_bytes(worker);
		holding.unsure += unsure;
		holding.late += sum.late_separators;
		holding.splits += sum.splits;
	}
	return holding;
}

void
sim_losses_worker(struct sim_actor *actor, struct nam_worker *worker)
{
	struct nam_op_counters sum = counted(worker);

	actor->stage->late += sum.late_separators;
	if (!actor->makes && !actor->visits)
		actor->stage->splits += sum.splits;
	memset(worker->counters, 0, sizeof(worker->counters));
}

void
sim_losses_client(struct sim_actor *actor)
{
	actor->stage->given_up += sim_memory_given_up(actor->client);
	actor->stage->unsure += atomic_load(&actor->client->bytes_unsure);
}

/* Whether it may have left something half done. */
static bool
failed(const struct sim_actor *actor)
{
	return actor->troubled || (actor->process && !nam_sim_process_alive(actor->process));
}

void
sim_losses_temporary(struct sim_stage *stage)
{
	stage->temporary.lost_most += sim_temporary_bytes_most(stage);
}

struct sim_losses
sim_losses(const struct sim_stage *stage)
{
	struct sim_losses losses = { .most = stage->unsure + stage->temporary.lost_most };
	bool one_sided = sim_one_sided(stage->scenario);
	uint32_t stride = sim_memory_stride(stage->actors[SIM_DIRECTOR].index);

	for (uint32_t i = 1; i < stage->actors_count; i++) {
		const struct sim_actor *actor = &stage->actors[i];
		struct holding holding;

		if (!failed(actor))
			continue;
		/* Memory servers do that themselves. */
		if (one_sided)
			losses.most += (uint64_t)actor->sessions * HAND_BLOCKS * stride;
		losses.most += actor->staging_bytes;
		if (actor->makes)
			losses.most += sim_temporary_bytes_most(stage);
		if (nam_sim_process_alive(actor->process))
			continue;
		holding = holding_of(actor);
		losses.others += holding.limbo + (uint64_t)actor->sessions * HAND_BLOCKS * stride;
		losses.least += holding.kept;
		losses.most += holding.kept + holding.unsure;
	}
	return losses;
}

bool
sim_losses_nameless(const struct sim_stage *stage)
{
	for (uint32_t i = 1; i < stage->actors_count; i++)
		if (stage->actors[i].makes && failed(&stage->actors[i]))
			return true;
	return false;
}

uint64_t
sim_losses_late(const struct sim_stage *stage)
{
	uint64_t most = stage->late;

	for (uint32_t i = 0; i < stage->actors_count; i++) {
		const struct sim_actor *actor = &stage->actors[i];

		if (i && failed(actor))
			most += actor->sessions;
		if (!i || !nam_sim_process_alive(actor->process))
			most += holding_of(actor).late;
	}
	return most;
}

/* Bytes of all servers; and how many of them clients may yet get there. */
static uint64_t
server_bytes(const struct sim_stage *stage, uint64_t *ret_room)
{
	uint64_t bytes = 0, room = 0;

	for (uint32_t i = 0; i < stage->cluster.count; i++) {
		const struct nam_server *server = stage->cluster.servers[i].server;

		if (!sim_server_holds(&stage->cluster.servers[i]))
			continue;
		for (uint32_t j = 0; server && j < server->allocator.regions_count; j++) {
			const struct nam__alloc_region *region = &server->allocator.regions[j];

			bytes += region->bytes;
			room += region->bytes - region->carved_bytes;
		}
		for (uint32_t j = 0; server && j < NAM_MEMORY_KINDS; j++)
			room += server->allocator.memory[j].free_bytes +
				server->allocator.memory[j].waiting_bytes;
	}
	*ret_room = room;
	return bytes;
}

/* The bounds of both trees.  Each split makes a node, and there are fewer head nodes. */
static uint64_t
trees_most(const struct sim_stage *stage, uint64_t splits)
{
	const struct nam__geometry *g = &stage->actors[SIM_DIRECTOR].index->g;
	uint64_t loaded = stage->loaded / (g->leaf_capacity / 2) + 1;

	return 3 * (loaded + splits) * g->stride + NAM_SUPERBLOCK_STRIDE +
		sim_temporary_bytes_most(stage);
}

bool
sim_losses_explain_full(const struct sim_stage *stage)
{
	uint64_t room, used = server_bytes(stage, &room), splits = stage->splits;
	uint64_t outside = stage->given_up + stage->kv.bytes, most;
	struct sim_losses losses = sim_losses(stage);

	for (uint32_t i = 0; i < stage->actors_count; i++) {
		struct holding holding = holding_of(&stage->actors[i]);

		outside += holding.kept + stage->actors[i].staging_bytes;
		if (!stage->actors[i].makes && !stage->actors[i].visits)
			splits += holding.splits;
	}
	outside += (uint64_t)stage->ballast.count * stage->actors[SIM_DIRECTOR].index->g.stride;
	for (uint32_t i = 0; i < stage->cluster.count; i++)
		if (sim_server_holds(&stage->cluster.servers[i]))
			outside += (uint64_t)stage->ballast.private[i].count *
				stage->actors[SIM_DIRECTOR].index->g.node_bytes;
	used -= room;
	most = trees_most(stage, splits) + losses.most - losses.least + NAM_META_BYTES;
	nam_sim_note("memory is full: %llu bytes used, %llu cached or in limbo, trees %llu at most",
		(unsigned long long)used, (unsigned long long)outside, (unsigned long long)most);
	return used <= outside + most;
}
