/* SPDX-License-Identifier: Apache-2.0 */
/* backed.h -- what a member with a backup needs beside its WRITEs (C31). */
#ifndef NAM_COMPUTE_BACKUP_BACKED_H
#define NAM_COMPUTE_BACKUP_BACKED_H

#include "common/rpc/alloc_rpc.h"
#include "compute/worker/worker.h"

/* A CAS at one backup alone, of any word.  0, or a FABRIC code.  Cost: 1 round trip. */
NAM_FIBER_FN int nam__backup_cas(struct nam_worker *worker, uint32_t slot, uint32_t place,
	struct nam_gaddr at, uint32_t offset, uint64_t compare, uint64_t swap,
	uint64_t *ret_old) NAM_MUST_CHECK;

/*
 * The backups of a member are told of blocks that the member has given, before they are used.
 * 0, or as RUNS fails.  Cost: 1 RPC for each.
 */
NAM_FIBER_FN int nam__backed_runs(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	const struct nam_rpc_alloc_reply *given) NAM_MUST_CHECK;

/*
 * nam_rpc_call() of a request that may be carried out twice.  If the member ends, its backup gets
 * it.
 *
 * @ret_again	it may have been carried out twice; may be NULL
 */
NAM_FIBER_FN int nam__backed_call(struct nam_worker *worker, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes,
	bool *ret_again) NAM_MUST_CHECK;
/* As nam__backed_call(), to the lead. */
NAM_FIBER_FN int nam__lead_call(struct nam_worker *worker, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes, bool *ret_again) NAM_MUST_CHECK;

/*
 * CATALOG_PUT or CATALOG_DROP at the backup of the lead, if it has one.  0 also if it has those
 * names, or not, already; or as the request fails.  Cost: 1 RPC.
 */
NAM_FIBER_FN int nam__backed_names(struct nam_worker *worker, uint16_t type,
	const struct nam_rpc_catalog_entry *names, uint32_t count) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_BACKUP_BACKED_H */
