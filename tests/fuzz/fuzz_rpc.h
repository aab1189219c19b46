/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_rpc.h -- for sources that are included behind it.  Answers to their requests come from the
 * input, and buffers are exactly as long as was asked for.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_RPC_H
#define NAM_TESTS_FUZZ_FUZZ_RPC_H

#include "common/rpc/rpc.h"
#include "compute/backup/backed.h"
#include "compute/rpc/call.h"
#include "compute/worker/worker.h"
#include "fuzz_input.h"

static struct fuzz_input answers, again;
static bool repeating;		/* a server that says the same, `again`, for ever */

static inline void *
fuzz_buffer_take(struct nam_worker *worker, uint32_t bytes)
{
	(void)worker;
	return fuzz_memory(bytes);
}

static inline void
fuzz_buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes)
{
	(void)worker;
	(void)bytes;
	free(buffer);
}

/* Status 0 and a body that fits; after the input's end failures, or all of it again. */
static inline int
fuzz_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes)
{
	uint32_t bytes;

	if (!answers.left && repeating)
		answers = again;
	bytes = fuzz_u16(&answers) % (NAM_RPC_BODY_MAX + 1);
	(void)worker;
	(void)slot;
	(void)type;
	(void)body;
	(void)body_bytes;
	if (!answers.left)
		return -NAM_E_FABRIC_TIMEOUT;
	/* As rpc/call.c does: a body that is too long is refused, and a shorter one says so. */
	if (bytes > (ret_bytes ? *ret_bytes : 0))
		return -NAM_E_FABRIC_PROTOCOL;
	if (bytes && ret_body)
		fuzz_take(&answers, ret_body, bytes);
	if (ret_bytes)
		*ret_bytes = bytes;
	return 0;
}

#define nam_rpc_call fuzz_rpc_call
static inline int
fuzz_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes, bool *ret_again)
{
	if (ret_again)
		*ret_again = false;
	return fuzz_rpc_call(worker, slot, type, body, body_bytes, ret_body, ret_bytes);
}

#define nam__backed_call fuzz_call
#define nam__lead_call(worker, ...) fuzz_call(worker, 0, __VA_ARGS__)
#define nam_buffer_take fuzz_buffer_take
#define nam_buffer_give fuzz_buffer_give

#endif /* NAM_TESTS_FUZZ_FUZZ_RPC_H */
