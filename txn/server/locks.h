/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.h -- locks of records that a memory server keeps in their heads.
 *
 * A record has one writer, or readers (L1).  No request waits: a lock is granted or refused.  After
 * its lease a lock may be taken away.  A writer takes away readers' locks.  A writer's lock is
 * sealed first, and goes with its prepared version when the outcome of its transaction is known.
 *
 * All functions run between nam__server_record_lock() and _unlock().
 */
#ifndef NAM_TXN_SERVER_LOCKS_H
#define NAM_TXN_SERVER_LOCKS_H

#include "common/rpc/locking_rpc.h"
#include "finished.h"
#include "records.h"

/* A transaction that asks for a lock. */
struct nam__server_requester {
	uint64_t timestamp;		/* if it writes */
	uint32_t birth_us;
	uint64_t now_ns;
};

/* 0: granted; or an enum nam_locking_refusal, and the timestamp that stands in the way. */
uint32_t nam__server_lock_shared(struct nam__server_head *head,
	const struct nam__server_requester *requester, uint64_t *ret_timestamp);
uint32_t nam__server_lock_exclusive(const struct nam__server_records *records,
	struct nam__server_head *head, const struct nam__server_requester *requester,
	uint64_t *ret_timestamp);

/* A reader releases; whether it still had the lock (L2). */
bool nam__server_unlock_shared(struct nam__server_head *head, uint32_t generation);

/* Whether the writer, or a client that terminates its lock, may commit that transaction (L3). */
bool nam__server_lock_is(const struct nam__server_head *head, uint64_t timestamp, bool terminate);
void nam__server_unlock_exclusive(struct nam__server_head *head);

/*
 * From now on the writer of that transaction can neither commit nor prepare it here (L3).  Returns
 * its state; *ret_at: the address of its prepared version.
 */
enum nam_locking_state nam__server_lock_seal(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t timestamp, uint64_t *ret_at);

#endif /* NAM_TXN_SERVER_LOCKS_H */
