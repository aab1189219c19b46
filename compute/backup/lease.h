/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h -- results of a member with a backup count only while this client is surely not fenced
 * (C34).
 *
 * The epoch thread renews the lease as it reads the view word.  Workers compare its end with the
 * clock once they have the completion, so a thread that stands still leaves no lease behind.
 */
#ifndef NAM_COMPUTE_BACKUP_LEASE_H
#define NAM_COMPUTE_BACKUP_LEASE_H

#include "compute/worker/worker.h"

/* From before the READ of the view word on. */
#define NAM__LEASE_NS 100000000ull
/*
 * By the clock of another host.  Clocks of hosts differ by 500 ppm of slewing and 200 ppm of
 * oscillators each, so by 0.14 ms in a lease.  The margin is 90 times as long.
 */
#define NAM__LEASE_MARGIN_NS (NAM__LEASE_NS / 8)
/* So long after a client is dead, it has no lease. */
#define NAM__LEASE_OVER_NS (NAM__LEASE_NS + NAM__LEASE_MARGIN_NS)

/*
 * In place of cq_poll.  Without a lease, completions wait for the next one, and the worker's other
 * tasks with them.  If none comes, those of members with a backup become failures, with
 * -NAM_E_FABRIC_FENCED.  Cost: the clock is read once for each call that finds completions.
 */
int nam__poll_leased(struct nam_cq *cq, struct nam_wc *wcs, unsigned max);

/* The same for READs without the network: 0, or -NAM_E_FABRIC_FENCED. */
int nam__lease_await(struct nam_worker *worker, uint32_t slot);

/* The epoch thread: this client was not fenced at that time. */
void nam__lease_renew(struct nam_client *client, uint64_t ns);

#endif /* NAM_COMPUTE_BACKUP_LEASE_H */
