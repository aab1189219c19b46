/* SPDX-License-Identifier: Apache-2.0 */
/* backed.h -- what a member with a backup needs beside its WRITEs (C31). */
#ifndef NAM_COMPUTE_BACKUP_BACKED_H
#define NAM_COMPUTE_BACKUP_BACKED_H

#include "common/rpc/alloc_rpc.h"
#include "compute/worker/worker.h"

/* A CAS at the backup alone, of any word.  0, or a FABRIC code.  Cost: 1 round trip. */
NAM_FIBER_FN int nam__backup_cas(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at,
	uint32_t offset, uint64_t compare, uint64_t swap, uint64_t *ret_old) NAM_MUST_CHECK;

/*
 * The backup of a member, if it has one, is told of blocks that the member has given, before they
 * are used.  0, or as RUNS fails.  Cost: 1 RPC.
 */
NAM_FIBER_FN int nam__backed_runs(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	const struct nam_rpc_alloc_reply *given) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_BACKED_H */
