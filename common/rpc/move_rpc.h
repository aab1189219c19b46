/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move_rpc.h -- requests with which the memory of a memory server passes to its successor.  That is
 * another memory server of the same id and regions.  It was started with --successor, or within the
 * process of a memory server that has room (--spare).
 *
 *	CLAIM	the lead, about a member; then the old memory server, about itself: it keeps what
 *		is noted.  The old one notes all pages of its runs at first, and from then on those
 *		that it changes itself.  It ends with the connection, or when the member is neither
 *		COPYING nor MOVING any more.  CLAIM once more notes all pages once more
 *	NOTED	the lead: pages that a client has changed.  Without a CLAIM it keeps none
 *	TAKE	both: what is noted, which is not noted from then on
 *	HOST	a memory server: it starts a successor of that id and size in its process.  Ask
 *		again until it is ready.  Its address is nam__cluster_address_beside() the host's
 *	UNHOST	likewise: the one with that boot ends, whatever memory it has.  The view must not
 *		name it
 *	EXPORT	the old memory server: a page of its books.  The first page takes a copy of them,
 *		which the connection keeps; the books themselves do not change.  Until the
 *		connection ends, FENCE answers -EAGAIN
 *	IMPORT	the successor: the same pages, in order, over one connection.  The first one begins
 *		anew; the last one checks all and takes it, or changes nothing.  If the books have
 *		no trees and no stores, the successor is an ordinary memory server then
 *	PEEK	the old memory server, while its books are out: a piece of the chunks of a store
 *	POKE	the successor, if the books have that store: the same piece
 *	OPEN	the successor, if the books have trees or stores and the mover has filled them: it
 *		is an ordinary memory server
 *	RETIRE	the old memory server: it takes no connections and serves nothing any more
 *	LEAVE	a member whose backup is about to get its place: until the connection ends, it gets
 *		no trees and no key-value stores
 *	RUNS	a backup, which is another memory server of the same id and regions.  Clients keep
 *		its public memory equal.  These blocks, which the primary has given to the client,
 *		are used blocks there, too.  The client asks before it uses them; asking again
 *		changes nothing.  If they lie across blocks of other runs, the primary has made
 *		these vacant by RECLAIM, and they are no blocks of the backup any more
 *
 * The mover asks over connections that have no client id and are for asking (NAM_HELLO_PROBE); a
 * successor takes no others.  It READs pages that were noted, and WRITEs them to the same place of
 * the successor, while clients are at work.  It does so in passes, each of which begins with a NOTE
 * of the view (view_rpc.h) and with TAKE.  Before EXPORT, all clients must have ended what they
 * posted, and those that have not said so must be DEAD.  Then the last pass follows.
 *
 * Trees lie in private memory.  IMPORT makes them anew, empty.  For each of them the mover asks the
 * old memory server for its pairs, by TREE_SCAN, and sends these to the successor, by TREE_LOAD
 * (tree_rpc.h).  The first scan begins with a key of zeroes, the next one behind the last pair; the
 * highest key is UINT64_MAX in each word.
 *
 * Key-value stores lie in private memory, too.  IMPORT makes them anew, at other addresses, and the
 * books have what their partitions keep beside the chunks.
 *
 * -EDQUOT: HOST: more than is left of --spare.  -EEXIST: HOST: it has that id itself, or hosts a
 *	successor of it with other regions.
 * -EAGAIN: CLAIM: another connection has claimed.  EXPORT: memory changes its kind, or an object
 *	is being dropped.  OPEN: a tree is being loaded.  Last IMPORT, OPEN, RETIRE: other
 *	connections are not destroyed yet.  UNHOST: it has connections, or had some a moment ago,
 *	or is about to end.  Ask again.
 * -NAM_E_VIEW: RETIRE: the lead has no backup that counts.
 * -NAM_E_UNMOVABLE: LEAVE, and RETIRE of the lead: it has trees or key-value stores.
 * -NAM_E_RESTART_LOCKED: EXPORT: a tree is being loaded, by a client that has stopped.  Ask again
 *	after another MOVE.
 * -NAM_E_CLUSTER: a memory server of another boot; the lead; CLAIM: not about that member; TAKE:
 *	its connection has claimed nothing, or no more; IMPORT, OPEN: it is no successor any more,
 *	or has books, or has none; RUNS: it is a successor without books.
 * -NAM_E_REGIONS: IMPORT: the books are of another id, or of other regions.  RUNS: some of the
 *	blocks are in memory that is not public there; nothing has changed.
 * -NAM_E_UNMOVABLE: EXPORT: there is a key-value store for one-sided GETs, or was one.
 * -NAM_E_DROPPED: PEEK, POKE: it has no such store.
 * -NAM_E_FABRIC_PROTOCOL: IMPORT: a page is damaged, or out of order; begin anew.  RUNS: not all
 *	are blocks in its regions; nothing has changed.
 * -NAM_E_LIMIT: RUNS: more runs, or strides, than a memory server may have; as -ENOMEM.
 * -ENOMEM: EXPORT: as it was.  Last IMPORT, and -NAM_E_REMOTE_FULL: start another successor.
 *	RUNS: whole blocks from the front are used there, or none; ask again.
 */
#ifndef NAM_COMMON_RPC_MOVE_RPC_H
#define NAM_COMMON_RPC_MOVE_RPC_H

#include "alloc_rpc.h"

enum nam_rpc_move_step {
	NAM_RPC_MOVE_EXPORT = 1,
	NAM_RPC_MOVE_IMPORT,
	NAM_RPC_MOVE_OPEN,
	NAM_RPC_MOVE_RETIRE,
	NAM_RPC_MOVE_PEEK,
	NAM_RPC_MOVE_POKE,
	NAM_RPC_MOVE_HOST,		/* this one and those behind it: of the lead, too */
	NAM_RPC_MOVE_UNHOST,
	NAM_RPC_MOVE_CLAIM,
	NAM_RPC_MOVE_NOTED,		/* not only for admins */
	NAM_RPC_MOVE_TAKE,
	NAM_RPC_MOVE_RUNS,		/* not only for admins; not of the lead */
	NAM_RPC_MOVE_LEAVE,
};

struct nam_rpc_move_request {
	uint32_t step;			/* enum nam_rpc_move_step */
	uint32_t reserved;
	uint64_t boot;			/* of the memory server that is asked */
	/*
	 * The page's first byte, of 8; PEEK, POKE: the piece's, in the chunks; TAKE: 8 times the
	 * first word; others: 0
	 */
	uint64_t at;
	uint8_t page[];			/* IMPORT: a multiple of 8; others: as below, or nothing */
};
_Static_assert(sizeof(struct nam_rpc_move_request) == 24, "wire layout");

struct nam_rpc_move_reply {
	/* EXPORT: of the books; TAKE: 8 times the next word, or 0: that was all; others: 0 */
	uint64_t bytes;
	uint8_t page[];			/* EXPORT; PEEK: the piece; HOST, TAKE: as below */
};
_Static_assert(sizeof(struct nam_rpc_move_reply) == 8, "wire layout");

/* PEEK, POKE: within one chunk of the store, which are numbered as its partitions have them. */
struct nam_rpc_move_piece {
	uint64_t store;
	uint32_t bytes;			/* 1 .. NAM_MOVE_PIECE_BYTES */
	uint32_t reserved;
	uint8_t data[];			/* POKE */
};
_Static_assert(sizeof(struct nam_rpc_move_piece) == 16, "wire layout");

#define NAM_MOVE_PIECE_BYTES (NAM_RPC_BODY_MAX - 24 - 16)

#define NAM_MOVE_HOSTED_MAX 64u		/* numbers of addresses within a process */

struct nam_rpc_move_host {
	uint64_t memory_bytes, region_bytes;	/* HOST */
	uint64_t hosted;		/* UNHOST: its boot */
	uint32_t id;
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_rpc_move_host) == 32, "wire layout");

struct nam_rpc_move_hosted {
	uint64_t boot;			/* 0: it is not there yet */
	uint64_t ready_bytes, total_bytes;
	uint32_t number;		/* of its address */
	uint16_t ready;			/* 1: it answers there */
	uint16_t phase;			/* enum nam_server_phase, then */
};
_Static_assert(sizeof(struct nam_rpc_move_hosted) == 32, "wire layout");

#define NAM_RPC_MOVE_PAGE_BYTES (NAM_RPC_BODY_MAX - 24)

struct nam_rpc_move_claim {
	uint64_t region_bytes;
	uint32_t id;			/* of the member that is copied */
	uint32_t regions;
};
_Static_assert(sizeof(struct nam_rpc_move_claim) == 16, "wire layout");

#define NAM_MOVE_NOTE_BYTES 4096u	/* of a page that is noted */

/* Words of bits, one for each page of a region; regions follow one another. */
static inline uint32_t
nam_move_note_words(uint64_t region_bytes)
{
	return (uint32_t)((region_bytes + 64ull * NAM_MOVE_NOTE_BYTES - 1) /
		(64ull * NAM_MOVE_NOTE_BYTES));
}

struct nam_move_noted {
	uint64_t pages;			/* bits */
	uint32_t word;			/* its number */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_move_noted) == 16, "wire layout");

/* NOTED, and replies to TAKE. */
struct nam_rpc_move_notes {
	uint32_t id;			/* of the member; TAKE: 0 */
	uint16_t lost;			/* 1: others have changed that are noted nowhere */
	uint16_t leaves;		/* NOTED: 1: the client changes nothing any more */
	struct nam_move_noted noted[];	/* words that are not 0 */
};
_Static_assert(sizeof(struct nam_rpc_move_notes) == 8, "wire layout");

#define NAM_MOVE_NOTED_MAX ((NAM_RPC_BODY_MAX - 24 - 8) / (uint32_t)sizeof(struct nam_move_noted))

/* RUNS: as ALLOC has replied (alloc_rpc.h).  The length of the request says how many follow. */
struct nam_rpc_move_runs {
	uint32_t stride;
	uint32_t run_count;		/* fresh blocks, `stride` apart; or 0 */
	uint64_t run_at;		/* gaddr of the first one; or 0 */
	uint64_t blocks[];		/* gaddrs, perhaps tagged NAM_BLOCK_SWEPT */
};
_Static_assert(sizeof(struct nam_rpc_move_runs) == 16, "wire layout");

#define NAM_MOVE_RUNS_MAX ((NAM_RPC_BODY_MAX - 24 - 16) / (uint32_t)sizeof(uint64_t))
_Static_assert(NAM_RPC_ALLOC_SCATTERED_MAX <= NAM_MOVE_RUNS_MAX, "a reply to ALLOC fits");

#endif /* NAM_COMMON_RPC_MOVE_RPC_H */
