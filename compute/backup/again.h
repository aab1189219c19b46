/* SPDX-License-Identifier: Apache-2.0 */
/* again.h -- requests to a process that has ended; its backup gets its place (C32). */
#ifndef NAM_COMPUTE_BACKUP_AGAIN_H
#define NAM_COMPUTE_BACKUP_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/gaddr.h"

struct nam_worker;

/*
 * worker.c: C32: the process has ended to which requests were posted, as worker->moves was that,
 * and its backup gets its place.  So they do not count, and are to be posted once more.  Waits for
 * the end of the connection; the worker's other tasks stand still meanwhile.
 */
bool nam__posted_in_vain(struct nam_worker *worker, uint32_t slot, uint32_t moves);
/* The same for a failure of requests to any memory servers. */
bool nam__any_in_vain(struct nam_worker *worker, int rc, uint32_t moves);
/* remote.c: the same for a READ from that address. */
bool nam__read_in_vain(struct nam_worker *worker, struct nam_gaddr at, uint32_t moves);

#endif /* NAM_COMPUTE_BACKUP_AGAIN_H */
