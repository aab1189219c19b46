/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records_rpc.h -- requests about records whose heads memory servers move themselves.
 *
 * A record is named by the address of its head, a version by that of its block (common/layout.h).
 * Both lie on the memory server that is asked.  Blocks belong to clients, which allocate them, and
 * retire those that a memory server lists as unreachable.
 *
 * A version travels in a message where it fits, or is WRITTEN and READ beside it.
 */
#ifndef NAM_COMMON_RPC_RECORDS_RPC_H
#define NAM_COMMON_RPC_RECORDS_RPC_H

#include "rpc.h"

#define NAM_RPC_RECORDS_MAX 32u		/* in one message */

/*
 * For so long a version can be found by its timestamp after it was replaced, or came too late.  A
 * reader that looks for the latest of several timestamps must have heard of them all within that
 * time.  Otherwise it may miss one that has gone and find an older one.
 */
#define NAM_RECORDS_KEEP_NS 100000000ull

enum nam_rpc_records_flag {
	NAM_RECORDS_STAMPS_ONLY = 1,	/* GET: no versions, only which they would be */
	NAM_RECORDS_ABORT = 2,		/* COMMIT: forget prepared versions */
	NAM_RECORDS_CLOSE = 4,		/* COMMIT: the store is dropped: list all versions */
};

/* All begin with this. */
struct nam_rpc_records_request {
	uint64_t store;			/* as in every version */
	uint64_t timestamp;		/* PREPARE, COMMIT: the transaction's */
	uint32_t count;			/* of records, 1 .. NAM_RPC_RECORDS_MAX */
	uint32_t stamps;		/* GET: so many timestamps follow the records */
	uint32_t flags;
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_rpc_records_request) == 32, "wire layout");

#define NAM_RECORDS_LATEST 0ull
#define NAM_RECORDS_OF_STAMPS UINT64_MAX

struct nam_rpc_records_wanted {		/* GET */
	uint64_t head;
	/*
	 * LATEST; or a version's; or OF_STAMPS: the latest one whose timestamp is among those that
	 * follow.  Where that is not known, or not any more, the latest.
	 */
	uint64_t timestamp;
};

/*
 * The reply to GET, and to READ under locks (locking_rpc.h): for each record this, and behind it
 * its version if there is room.
 */
struct nam_rpc_records_got {
	uint64_t at;			/* address, its tag the length; 0: there is none */
	uint64_t timestamp;
	uint32_t image_bytes;		/* 0: READ it */
	/*
	 * GET: 1 if it is the latest, 0 if it is prepared or has been replaced.  READ: the
	 * generation of the shared lock, for RELEASE.
	 */
	uint32_t mark;
};

/* PREPARE: for each record this, and behind it its version unless that has been WRITTEN. */
struct nam_rpc_records_prepared {
	uint64_t head;
	uint64_t at;
	uint32_t image_bytes;		/* 0, or as `at` says */
	uint32_t reserved;
};

/* The reply to PREPARE: a word for each record, the timestamp of its latest version or 0. */

/*
 * COMMIT.  With CLOSE the head leads nowhere from then on, unless there are more versions than fit:
 * the client asks again until none is listed.
 *
 * When a late message comes, a block may hold another version of its record.  A version with
 * another timestamp is not touched.
 */
struct nam_rpc_records_commit {
	uint64_t head;
	uint64_t at;			/* 0: only list versions to be retired */
	uint64_t timestamp;
};

struct nam_rpc_records_version {	/* END, see locking_rpc.h */
	uint64_t head;
	uint64_t at;
};

/* The reply to COMMIT, and then so many addresses of versions to be retired. */
struct nam_rpc_records_committed {
	uint32_t count;
	uint32_t reserved;
	uint64_t retired[];
};

#define NAM_RPC_RECORDS_RETIRED_MAX 480u
_Static_assert(sizeof(struct nam_rpc_records_committed) + 8u * NAM_RPC_RECORDS_RETIRED_MAX <=
	NAM_RPC_BODY_MAX, "it fits");

#endif /* NAM_COMMON_RPC_RECORDS_RPC_H */
