/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep_rpc.h -- requests of a sweep, which frees blocks that dead clients allocated and that no
 * name reaches.
 *
 * Each memory server knows which client allocated a block, and has one bit for each: suspect.
 *
 *	LIVING	the lead: which clients are not dead
 *	BEGIN	all: the blocks that are allocated are suspect, and all trees and key-value stores
 *	SPARE	all: those of clients that live are not
 *	MARK	all: nor are these, which names lead to
 *	RECORDS	all: nor are these, the heads of records, and all versions that they lead to.  With
 *		a label, versions that only a dead client would retire leave them
 *	OBJECTS	all: nor are these trees and key-value stores, by their numbers
 *	HELD	all: nor are these blocks
 *	OWN	all: nor are these; and they belong to the client that asks
 *	KEEP	all: nor are these, in any sweep: they belong to no client
 *	REPORT	the lead: clients say HELD of the blocks in their limbos; which one has not
 *	ACK	the lead, over a session connection: the client has
 *	ASK	all: which of these are suspect
 *	CLOSE	all: the heads of records that are suspect lose their tags, so that no client takes
 *		them for heads of its store.  Superblocks that are suspect say that their index is
 *		dropped.  Says how many did not before
 *	END	all: blocks that are suspect now wait for readers, as after FREE with that label;
 *		trees and stores are dropped.  Without a label nothing happens
 *
 * A sweep has a number that no other one has.  BEGIN of another ends it.
 *
 * BEGIN, SPARE, CLOSE and END look at a slice of the blocks.  The word of the reply is the place
 * where the next slice begins, or 0.  The next request has it as its last word, the first one none.
 *
 * -EAGAIN: another sweep has begun.
 */
#ifndef NAM_COMMON_RPC_SWEEP_RPC_H
#define NAM_COMMON_RPC_SWEEP_RPC_H

#include "common/layout.h"
#include "rpc.h"

enum nam_rpc_sweep_step {
	NAM_RPC_SWEEP_LIVING = 1,
	NAM_RPC_SWEEP_BEGIN,
	NAM_RPC_SWEEP_SPARE,
	NAM_RPC_SWEEP_MARK,
	NAM_RPC_SWEEP_RECORDS,
	NAM_RPC_SWEEP_OBJECTS,
	NAM_RPC_SWEEP_HELD,
	NAM_RPC_SWEEP_OWN,
	NAM_RPC_SWEEP_KEEP,
	NAM_RPC_SWEEP_REPORT,
	NAM_RPC_SWEEP_ACK,
	NAM_RPC_SWEEP_ASK,
	NAM_RPC_SWEEP_CLOSE,
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
