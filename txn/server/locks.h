/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.h -- locks of records that a memory server keeps in their heads.
 *
 * One writer, or readers.  Nobody waits: a lock is granted or refused.  Each has a lease, and when
 * that is over it can be taken away: readers' by whoever writes; a writer's only together with what
 * it has prepared, once it is known what became of its transaction.  Until then it is sealed.
 *
 * All functions run between nam__server_record_lock() and _unlock().
 */
#ifndef NAM_TXN_SERVER_LOCKS_H
#define NAM_TXN_SERVER_LOCKS_H

#include "common/rpc/locking_rpc.h"
#include "finished.h"
#include "records.h"

/* A transaction that asks for a lock. */
struct nam__server_asker {
	uint64_t timestamp;		/* if it writes */
	uint32_t birth_us;
	uint64_t now_ns;
};

/* 0, and then it has the lock; or why not: enum nam_locking_refusal, and of whom. */
uint32_t nam__server_lock_shared(struct nam__server_head *head,
	const struct nam__server_asker *asker, uint64_t *ret_timestamp);
uint32_t nam__server_lock_exclusive(const struct nam__server_records *records,
	struct nam__server_head *head, const struct nam__server_asker *asker,
	uint64_t *ret_timestamp);

/* A reader lets go; whether it still had the lock. */
bool nam__server_unlock_shared(struct nam__server_head *head, uint32_t generation);

/* Whether who asks to commit that transaction, its writer or who settles it, may. */
bool nam__server_lock_is(const struct nam__server_head *head, uint64_t timestamp, bool terminate);
void nam__server_unlock_exclusive(struct nam__server_head *head);

/*
 * The writer of that transaction cannot commit it here any more, nor prepare it; and what has
 * become of it.  *ret_at: where it is prepared.
 */
enum nam_locking_state nam__server_lock_seal(const struct nam__server_records *records,
	struct nam__server_head *head, uint64_t timestamp, uint64_t *ret_at);

#endif /* NAM_TXN_SERVER_LOCKS_H */
