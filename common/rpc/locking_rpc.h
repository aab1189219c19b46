/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locking_rpc.h -- requests about records that are locked before they are read or written: strict
 * two-phase locking with two-phase commit (txn/README.md).
 *
 * Locks are words of a record's head, which the memory server's CPU alone writes.  A request that
 * locks is granted as a whole or not at all, and never waits.  A refused client asks again later.
 */
#ifndef NAM_COMMON_RPC_LOCKING_RPC_H
#define NAM_COMMON_RPC_LOCKING_RPC_H

#include "records_rpc.h"

/*
 * For so long a lock is its owner's from the grant on.  Later it still is, until another
 * transaction wants it.  The length does not affect safety: a client that has lost a lock learns it
 * when it uses it.
 */
#define NAM_LOCKING_LEASE_NS 25000000ull
/* For so long no younger transaction is granted a lock that an older one was refused. */
#define NAM_LOCKING_TURN_NS 2000000ull

enum nam_locking_flag {
	NAM_LOCKING_ABORT = 1,		/* END: forget prepared versions; else commit them */
	NAM_LOCKING_TERMINATE = 2,	/* END: for its writer, whose lock was sealed */
	NAM_LOCKING_SIBLINGS = 4,	/* SEAL of one record: and its siblings */
};

/* All begin with this. */
struct nam_rpc_locking_request {
	struct nam_rpc_records_request request;	/* its timestamp: of the transaction that writes */
	/*
	 * Each of the sending client's transactions that has an earlier timestamp, in microseconds,
	 * is over: committed everywhere, or nowhere and never.
	 */
	uint64_t finished_us;
	uint32_t birth_us;		/* of the first try: the older goes first */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_rpc_locking_request) == 48, "wire layout");

enum nam_locking_refusal {
	NAM_LOCKING_GRANTED = 0,
	NAM_LOCKING_BUSY = 1,		/* timestamp: of the writer; 0: readers, or not our turn */
	NAM_LOCKING_EXPIRED = 2,	/* a writer's lease is over: SEAL, END with TERMINATE */
	NAM_LOCKING_EARLY = 3,		/* PREPARE: it must have a later timestamp than this */
};

/* Replies to READ and PREPARE begin with this; where it is refused nothing follows. */
struct nam_rpc_locking_reply {
	uint32_t refusal;		/* enum nam_locking_refusal */
	uint32_t reserved;
	uint64_t head;			/* of which record */
	uint64_t timestamp;
};

/* READ: the heads.  The reply: struct nam_rpc_records_got for each of the latest versions. */

/* RELEASE: of locks that READ granted.  The reply: a word, how many had been taken away before. */
struct nam_rpc_locking_release {
	uint64_t head;
	uint64_t generation;
};

/* PREPARE: as RECORDS_PREPARE. */

/*
 * END: struct nam_rpc_records_version each; `at` 0: only list versions to be retired.  COMMIT moves
 * the head, if the lock is still the transaction's, and releases it.  The reply is this.
 */
struct nam_rpc_locking_ended {
	uint32_t count;			/* of addresses that follow */
	uint32_t refused;		/* bit i: of record i the lock had been taken away */
	uint64_t retired[];
};

enum nam_locking_state {
	NAM_LOCKING_UNKNOWN = 0,	/* never was prepared, or is no more; and never will be */
	NAM_LOCKING_SEALED = 1,		/* prepared, and its writer cannot commit it any more */
	NAM_LOCKING_COMMITTED = 2,
};

/* SEAL: the heads.  The reply: for each this; with SIBLINGS so many bytes of these behind it. */
struct nam_rpc_locking_sealed {
	uint32_t state;			/* enum nam_locking_state */
	uint32_t metadata_bytes;
	uint64_t at;			/* of the version that is prepared; else 0 */
};

#endif /* NAM_COMMON_RPC_LOCKING_RPC_H */
