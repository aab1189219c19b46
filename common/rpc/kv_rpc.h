/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_rpc.h -- requests to key-value stores: a part of each lies on each memory server.
 *
 * A store is named by a number that its creator drew at random; the catalog leads from a name to
 * it.  Keys and values are any bytes; which memory server keeps a key, kv/server/place.h says.
 *
 * A request for a missing store gets -NAM_E_DROPPED; one with a key that another
 * memory server keeps, -NAM_E_PARTITION.
 */
#ifndef NAM_COMMON_RPC_KV_RPC_H
#define NAM_COMMON_RPC_KV_RPC_H

#include "common/gaddr.h"
#include "rpc.h"

#define NAM_RPC_KV_KEY_BYTES_MAX 255u	/* a length is one byte, in messages and in memory */
#define NAM_RPC_KV_VALUE_BYTES_MAX (1u << 20)
#define NAM_RPC_KV_MESSAGE_BYTES_MAX 3800u	/* of a value that any key leaves room for */
/* The stride of a staging block.  No other object has it (common/layout.h). */
#define NAM_RPC_KV_STAGING_BYTES 33792u
#define NAM_RPC_KV_STAGING_MAX 32u		/* blocks of a value */
#define NAM_RPC_KV_KICKED 8u
#define NAM_RPC_KV_PARTITIONS_MAX 1024u		/* of one memory server */

struct nam_rpc_kv_create_request {
	uint64_t store;			/* 1 .. 2^48 - 1 */
	uint64_t memory_bytes;		/* on this memory server */
	uint8_t mode;			/* enum nam_kv_mode */
	uint8_t engine;			/* enum nam_kv_engine */
	uint8_t onesided;		/* 1: buckets are in read-only memory */
	uint8_t reserved;
	uint32_t partitions;		/* on each memory server */
	uint32_t servers;		/* memory servers of the store, */
	uint32_t number;		/* of which this is number 0 .. servers - 1 */
};

struct nam_rpc_kv_request {	/* DESCRIBE, DROP */
	uint64_t store;
};

/* Words that are summed over partitions and memory servers. */
struct nam_rpc_kv_counts {
	uint64_t keys;
	uint64_t bytes;			/* of keys and values */
	uint64_t used_bytes;		/* of the memory that is for them, */
	uint64_t room_bytes;		/* which is this much */
	uint64_t hits, misses;
	uint64_t puts, deletes;		/* that were done */
	uint64_t evictions;
	uint64_t refusals;		/* for want of room */
	/* Engine cuckoo: */
	uint64_t slots;			/* of the tables */
	uint64_t stashed;		/* pairs in the stash */
	uint64_t loops;			/* inserts refused because they would loop */
	/* Hardware transactions; and critical sections that took the lock in the end. */
	uint64_t htm_commits, htm_aborts, htm_fallbacks;
	uint64_t kicked[NAM_RPC_KV_KICKED];	/* new pairs after 0, 1, 2-3, 4-7 ... kick-outs */
};

static inline void
nam_rpc_kv_counts_add(struct nam_rpc_kv_counts *sum, const struct nam_rpc_kv_counts *counts)
{
	for (unsigned i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)counts)[i];
}

#define NAM_RPC_KV_TALLIES 5u

/* A partition beside its chunks, for another memory server (move_rpc.h). */
struct nam_rpc_kv_image {
	struct nam_rpc_kv_counts counts;	/* that its engine keeps; else 0 */
	uint64_t tallies[NAM_RPC_KV_TALLIES];	/* hits, misses, puts, deletes, refusals */
	uint32_t cells, carved, free_first, free_count;
	uint32_t hand;
	/* Engine cuckoo; else 0: */
	uint32_t level, split;		/* struct nam__cuckoo_shape */
	uint32_t merged;
	uint32_t stash_count, stash_hand, cell_hand, slot_hand;
	uint32_t generation, any_closed;
};
_Static_assert(sizeof(struct nam_rpc_kv_image) % 8 == 0, "a part of books");

struct nam_rpc_kv_describe_reply {
	uint64_t memory_bytes;		/* on this memory server */
	uint8_t mode, engine, onesided, reserved;
	uint32_t partitions;
	uint32_t servers;
	uint32_t number;
	struct nam_rpc_kv_counts counts;
};

/* LAYOUT: the buckets of a partition of a store with one-sided GETs (kv/server/bucket.h). */
struct nam_rpc_kv_layout_request {
	uint64_t store;
	uint32_t partition;
	uint32_t first;			/* of the chunks that the reply is to name */
};

struct nam_rpc_kv_layout_reply {
	uint32_t level, split;		/* struct nam__cuckoo_shape */
	uint32_t chunks;		/* of the tables; of these the addresses that fit */
	uint32_t reserved;
	uint64_t addresses[];
};

/*
 * GET, PUT, DELETE: the key, for PUT the value behind it.  The reply to GET is the value; or
 * -NAM_E_LIMIT if that is longer than NAM_RPC_KV_MESSAGE_BYTES_MAX.
 */
struct nam_rpc_kv_key_request {
	uint64_t store;
	uint16_t key_bytes;		/* 1 .. NAM_RPC_KV_KEY_BYTES_MAX */
	uint16_t value_bytes;		/* PUT; else 0 */
	uint32_t reserved;
	uint8_t bytes[];
};
_Static_assert(sizeof(struct nam_rpc_kv_key_request) == 16, "wire layout");
_Static_assert(sizeof(struct nam_rpc_kv_key_request) + NAM_RPC_KV_KEY_BYTES_MAX +
	NAM_RPC_KV_MESSAGE_BYTES_MAX <= NAM_RPC_BODY_MAX, "any such pair fits into a message");

/*
 * GET_LARGE, PUT_LARGE: the value lies in staging blocks, public memory of this memory server that
 * the client has allocated.  Each but the last one holds as much as it takes.
 */
struct nam_rpc_kv_large_request {
	uint64_t store;
	uint64_t checksum;		/* PUT: nam_hash64() of the value; else 0 */
	uint32_t value_bytes;		/* PUT; else 0 */
	uint16_t key_bytes;		/* 1 .. NAM_RPC_KV_KEY_BYTES_MAX */
	uint16_t count;			/* PUT: as many blocks as the value takes; GET: or fewer */
	uint64_t blocks[];		/* and the key behind them */
};
_Static_assert(sizeof(struct nam_rpc_kv_large_request) == 24, "wire layout");
_Static_assert(NAM_RPC_KV_STAGING_BYTES % NAM_GADDR_UNIT_BYTES == 0 &&
	NAM_RPC_KV_STAGING_BYTES * NAM_RPC_KV_STAGING_MAX >= NAM_RPC_KV_VALUE_BYTES_MAX,
	"any value fits");

/* To GET_LARGE.  A value that does not fit into the blocks was not copied there. */
struct nam_rpc_kv_large_reply {
	uint64_t checksum;		/* of the value, if it was copied; else 0 */
	uint32_t value_bytes;
	uint32_t reserved;
};

/* Staging blocks for a value of so many bytes. */
static inline uint32_t
nam_rpc_kv_staging_count(uint32_t value_bytes)
{
	return (value_bytes + NAM_RPC_KV_STAGING_BYTES - 1) / NAM_RPC_KV_STAGING_BYTES;
}

/* GET_MANY: so many keys, each behind a byte that says its length. */
struct nam_rpc_kv_many_request {
	uint64_t store;
	uint32_t count;			/* 1 .. */
	uint32_t reserved;
	uint8_t bytes[];
};

/*
 * The results follow each other without gaps: this, and the value behind it if the status is 0.
 * -NAM_E_LIMIT: the value is longer than NAM_RPC_KV_MESSAGE_BYTES_MAX.
 */
struct nam_rpc_kv_many_result {
	int32_t status;
	uint32_t value_bytes;
};

/* The values of the first `count` keys: as many as fit, at least one. */
struct nam_rpc_kv_many_reply {
	uint32_t count;
	uint32_t reserved;
	uint8_t bytes[];
};
_Static_assert(sizeof(struct nam_rpc_kv_many_reply) + sizeof(struct nam_rpc_kv_many_result) +
	NAM_RPC_KV_MESSAGE_BYTES_MAX <= NAM_RPC_BODY_MAX, "any such value fits into a message");

#endif /* NAM_COMMON_RPC_KV_RPC_H */
