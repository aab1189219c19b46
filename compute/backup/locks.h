/* SPDX-License-Identifier: Apache-2.0 */
/* locks.h -- lock words at a backup: it has none, until it gets the place of its member. */
#ifndef NAM_COMPUTE_BACKUP_LOCKS_H
#define NAM_COMPUTE_BACKUP_LOCKS_H

#include "compute/worker/worker.h"

/*
 * C32: the words that this client has at a member, at its backup, which gets its place.  Nothing of
 * this client is under way to either.  The epoch thread.  Cost: 1 round trip for each.
 */
NAM_FIBER_FN int nam__locks_take_again(struct nam_client *client, uint32_t slot) NAM_MUST_CHECK;
/* C31: words that it has, or has gone for, at the backup that the member gets: it has none. */
NAM_FIBER_FN int nam__locks_leave(struct nam_client *client, uint32_t slot) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_LOCKS_H */
