/* SPDX-License-Identifier: Apache-2.0 */
/* move_ask.h -- one step of a move (common/rpc/move_rpc.h), asked of one memory server. */
#ifndef NAM_COMPUTE_VIEW_MOVE_MOVE_ASK_H
#define NAM_COMPUTE_VIEW_MOVE_MOVE_ASK_H

#include "common/rpc/move_rpc.h"
#include "compute/worker/worker.h"

/*
 * @client		asks a memory server, which has slot 0
 * @page, page_bytes	of the request; up to NAM_RPC_MOVE_PAGE_BYTES
 * @deadline_ns		-EAGAIN before that: it is asked once more; 0: it is not
 * @ret_bytes		in: room in *reply; out: the reply's
 *
 * 0, -ENOMEM, or as the step fails.
 */
NAM_FIBER_FN int nam__move_ask(struct nam_client *client, enum nam_rpc_move_step step, uint64_t at,
	const void *page, uint32_t page_bytes, uint64_t deadline_ns,
	struct nam_rpc_move_reply *reply, uint32_t *ret_bytes) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_MOVE_ASK_H */
