/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep_rpc.h -- requests of a sweep, which frees blocks that dead clients allocated and that no
 * name reaches.
 *
 * Each memory server knows which client allocated a block, and has one bit for each: suspect.  A
 * sweep has a number that no other one has.  BEGIN of another ends it: it gets -EAGAIN.
 *
 * BEGIN, SPARE, CLOSE and END look at a slice of the blocks.  The word of the reply is the place
 * where the next slice begins, or 0.  The next request has it as its last word, the first one none.
 */
#ifndef NAM_COMMON_RPC_SWEEP_RPC_H
#define NAM_COMMON_RPC_SWEEP_RPC_H

#include "common/layout.h"
#include "rpc.h"

/* For each memory server, unless the lead is named. */
enum nam_rpc_sweep_step {
	NAM_RPC_SWEEP_LIVING = 1,	/* the lead: which clients are not dead */
	NAM_RPC_SWEEP_BEGIN,		/* all allocated blocks, trees and stores are suspect */
	NAM_RPC_SWEEP_SPARE,		/* blocks of clients that live are not */
	NAM_RPC_SWEEP_MARK,		/* nor are these, which names lead to */
	/*
	 * Nor are these heads of records, and all versions that they lead to.  With a label,
	 * versions that only a dead client would retire leave them.
	 */
	NAM_RPC_SWEEP_RECORDS,
	NAM_RPC_SWEEP_OBJECTS,		/* nor are these trees and key-value stores, by number */
	NAM_RPC_SWEEP_HELD,		/* nor are these blocks */
	NAM_RPC_SWEEP_OWN,		/* nor are these: they belong to the client that asks */
	NAM_RPC_SWEEP_KEEP,		/* nor are these, in any sweep: they belong to no client */
	NAM_RPC_SWEEP_REPORT,		/* the lead: clients say HELD of limbos; one that did not */
	NAM_RPC_SWEEP_ACK,		/* the lead, over a session connection: the client has */
	NAM_RPC_SWEEP_ASK,		/* which of these are suspect */
	/*
	 * Suspect heads of records lose their tags: no client takes them for heads of its store.
	 * Suspect superblocks say that their index is dropped.  How many did not before.
	 */
	NAM_RPC_SWEEP_CLOSE,
	/*
	 * Suspect blocks wait for readers, as after FREE with that label; suspect trees and stores
	 * are dropped.  Without a label nothing happens.
	 */
	NAM_RPC_SWEEP_END,
};

#define NAM_SWEEP_LIVING_WORDS (NAM_CLIENTS_MAX / 64u)

struct nam_rpc_sweep_request {
	uint32_t step;			/* enum nam_rpc_sweep_step */
	uint32_t count;			/* words that follow */
	uint64_t number;		/* of the sweep, not 0; LIVING, HELD, OWN, KEEP: 0 */
	uint64_t label;			/* END: epoch word, or 0; RECORDS: 1 or 0; else 0 */
	/* gaddrs, also places; OBJECTS: numbers; SPARE: bit id % 64 of word id / 64 */
	uint64_t words[];
};
_Static_assert(sizeof(struct nam_rpc_sweep_request) == 24, "wire layout");

#define NAM_RPC_SWEEP_BLOCKS ((NAM_RPC_BODY_MAX - 24) / 8u)

struct nam_rpc_sweep_reply {
	uint64_t blocks, bytes;		/* BEGIN, SPARE, END: that are suspect, or were; CLOSE */
	uint64_t used_blocks, used_bytes;	/* END: of clients, these too */
	uint64_t named_blocks, named_bytes;	/* END: of those, that names lead to */
	uint64_t objects;		/* END: that are suspect, or were; in the first slice */
	uint64_t objects_bytes;		/* END: of those; of all; of those that names lead to */
	uint64_t objects_used_bytes, objects_named_bytes;
	uint16_t client, incarnation;	/* REPORT: one that has not; or 0 */
	uint32_t count;			/* words that follow */
	/* LIVING: as for SPARE; ASK: bits, in the order asked; of steps in slices: a place */
	uint64_t words[];
};
_Static_assert(sizeof(struct nam_rpc_sweep_reply) == 88, "wire layout");

#endif /* NAM_COMMON_RPC_SWEEP_RPC_H */
