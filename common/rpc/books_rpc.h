/* SPDX-License-Identifier: Apache-2.0 */
/*
 * books_rpc.h -- the books of a memory server, as they pass to its successor (move_rpc.h).  There
 * is a head, parts in the order of its counts, and nam_hash64() of all before it.
 */
#ifndef NAM_COMMON_RPC_BOOKS_RPC_H
#define NAM_COMMON_RPC_BOOKS_RPC_H

#include "kv_rpc.h"
#include "tree_rpc.h"
#include "view_rpc.h"

struct nam_move_head {
	uint64_t bytes;			/* of all, with the hash */
	uint64_t now_ns;		/* the clock that times in records are of */
	uint64_t batch;			/* of the last HOLD */
	uint32_t server;		/* its id */
	uint16_t newest;		/* incarnation of a client */
	uint16_t before;		/* of the lead: the newest of its earlier lives */
	uint32_t regions;
	uint32_t runs;
	uint32_t words;
	uint32_t clients;
	uint32_t members;		/* of its copy of the view */
	uint32_t trees;
	uint32_t stores;
	uint32_t partitions;		/* of all stores */
	struct nam_view_head view;	/* number 0: it has no copy */
};
_Static_assert(sizeof(struct nam_move_head) == 128, "wire layout");

struct nam_move_region {
	uint64_t bytes;
	uint64_t turning;		/* the batch after which it is as announced; 0: it is */
	uint32_t runs;			/* of those below; 0: it is private, without blocks */
	uint16_t kind, announced;	/* enum nam_memory_kind */
	uint32_t had_blocks;
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_move_region) == 32, "wire layout");

/* By region and offset, without gaps.  A run without a stride is vacant, and is not copied. */
struct nam_move_run {
	uint64_t offset;
	uint64_t bytes;
	uint64_t batch;			/* with which it is held; 0: it is not */
	uint64_t label;			/* of the last block that came to wait */
	uint32_t region;		/* of this memory server, from 0 on */
	uint32_t stride;
	uint32_t count;			/* blocks */
	uint32_t words;			/* (count + 63) / 64; 0: all are used, owners unknown */
	uint32_t dirty;			/* vacant: it is not zero */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_move_run) == 56, "wire layout");

/* 64 blocks of a run. */
struct nam_move_word {
	uint64_t free, waiting, swept;	/* bits */
	uint16_t owners[64];		/* ids of clients; 0: not known */
};
_Static_assert(sizeof(struct nam_move_word) == 152, "wire layout");

/* By id. */
struct nam_move_client {
	uint16_t id;
	uint16_t incarnation;		/* the newest; 0: none has come */
	uint16_t fenced;		/* 2: it is DEAD, says the lead */
	uint16_t reserved;
	uint32_t finished_incarnation;	/* that said which transactions are over */
	uint32_t reserved_more;
	uint64_t before_us, gap_from_us, gap_to_us;
};
_Static_assert(sizeof(struct nam_move_client) == 40, "wire layout");

struct nam_move_tree {
	struct nam_rpc_tree_create_request create;
	uint16_t owner;			/* the id of the client that made it */
	uint16_t moves;			/* how often it has been made anew */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_move_tree) == 184, "wire layout");

struct nam_move_store {
	struct nam_rpc_kv_create_request create;
	uint16_t owner;			/* the id of the client that made it */
	uint16_t reserved;
	uint32_t chunks;		/* of NAM_MOVE_CHUNK_BYTES */
};
_Static_assert(sizeof(struct nam_move_store) == 40, "wire layout");

#define NAM_MOVE_CHUNK_BYTES 32768u

/* Where the parts of books are. */
struct nam__books_parts {
	struct nam_move_region *regions;
	struct nam_move_run *runs;
	struct nam_move_word *words;
	struct nam_move_client *clients;
	struct nam_view_member *members;
	struct nam_move_tree *trees;
	struct nam_move_store *stores;
	struct nam_rpc_kv_image *partitions;	/* in the order of the stores */
	uint64_t *hash;
};

static inline struct nam__books_parts
nam__books_parts(const uint64_t *books)
{
	const struct nam_move_head *head = (const void *)books;
	struct nam__books_parts parts;

	parts.regions = (void *)(head + 1);
	parts.runs = (void *)(parts.regions + head->regions);
	parts.words = (void *)(parts.runs + head->runs);
	parts.clients = (void *)(parts.words + head->words);
	parts.members = (void *)(parts.clients + head->clients);
	parts.trees = (void *)(parts.members + head->members);
	parts.stores = (void *)(parts.trees + head->trees);
	parts.partitions = (void *)(parts.stores + head->stores);
	parts.hash = (void *)(parts.partitions + head->partitions);
	return parts;
}

static inline uint64_t
nam__books_bytes(const struct nam_move_head *head)
{
	return sizeof(*head) + head->regions * sizeof(struct nam_move_region) +
		head->runs * sizeof(struct nam_move_run) +
		head->words * sizeof(struct nam_move_word) +
		head->clients * sizeof(struct nam_move_client) +
		head->members * sizeof(struct nam_view_member) +
		head->trees * sizeof(struct nam_move_tree) +
		head->stores * sizeof(struct nam_move_store) +
		head->partitions * sizeof(struct nam_rpc_kv_image) + sizeof(uint64_t);
}

#endif /* NAM_COMMON_RPC_BOOKS_RPC_H */
