/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- remote memory, block by block: what was handed out must be somewhere.
 */
#ifndef NAM_TESTS_SIM_MEMORY_H
#define NAM_TESTS_SIM_MEMORY_H

#include "cluster.h"

struct sim_memory {
	uint64_t out_bytes;		/* carved by the servers, and not given back */
	uint64_t reached_bytes;		/* the index: its nodes, head nodes and superblock */
	uint64_t served_nodes;		/* those of its nodes that memory servers search */
	uint32_t stride;		/* of a node */
};

/* Bytes of a block that is a node of the index. */
uint32_t sim_memory_stride(const struct nam_index *index);

/*
 * Count the blocks.  No other client may be at work.  All workers but this one, which has not
 * allocated anything, must be closed.  Then block caches and limbo hold only blocks that closed
 * workers have given up, and those of trees that memory servers search (design.c).  There must be
 * one index.
 */
int sim_memory_count(struct nam_worker *worker, struct nam_index *index,
	struct sim_memory *ret_memory) NAM_MUST_CHECK;

/*
 * Blocks lost, beside the @given_up bytes of sim_memory_given_up(); negative: so many blocks are
 * both free and part of the index.
 */
int64_t sim_memory_lost(const struct sim_memory *memory, uint64_t given_up);

/* Bytes of blocks that a client's workers gave up in their limbo when they were closed. */
uint64_t sim_memory_given_up(struct nam_client *client);

/* Lose some blocks of the size of the index's nodes: so that tests see it noticed. */
void sim_memory_lose(struct nam_worker *worker, const struct nam_index *index, uint32_t count);

struct sim_ballast {
	struct nam_gaddr *blocks;
	uint32_t count;
	struct {
		uint64_t *blocks;
		uint32_t count;
	} private[SIM_SERVERS_MAX];	/* blocks of index->g.node_bytes */
};

/*
 * Take all memory of all servers, in blocks of the size of the index's nodes, but for about @spare
 * of them.  The second gives it back, to the block cache of this worker.  Where memory servers
 * search a tree, take also their private memory, but for @spare blocks of each.
 */
void sim_memory_take(struct sim_cluster *cluster, struct nam_worker *worker,
	const struct nam_index *index, uint32_t spare, struct sim_ballast *ret_ballast);
void sim_memory_give(struct sim_cluster *cluster, struct nam_worker *worker,
	const struct nam_index *index, struct sim_ballast *ballast);

#endif /* NAM_TESTS_SIM_MEMORY_H */
