/* SPDX-License-Identifier: Apache-2.0 */
#include "move_internal.h"

#include <errno.h>
#include <string.h>

#include "common/env.h"
#include "compute/view/changer.h"

int
nam__move_call(struct nam_client *client, enum nam_rpc_move_step step, uint64_t at,
	const void *page, uint32_t page_bytes, uint64_t deadline_ns,
	struct nam_rpc_move_reply *reply, uint32_t *ret_bytes)
{
	struct nam_worker *worker = client->epoch_worker;
	struct nam_rpc_move_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam_rpc_move_reply none;
	uint32_t bytes, room = reply ? *ret_bytes : sizeof(none);
	int rc;

	if (!request)
		return -ENOMEM;
	*request = (struct nam_rpc_move_request){ .step = step, .boot = client->servers[0].boot,
		.at = at };
	if (page_bytes)
		memcpy(request->page, page, page_bytes);
	for (;;) {
		bytes = room;
		rc = nam_rpc_call(worker, 0, NAM_RPC_MOVE, request,
			(uint32_t)sizeof(*request) + page_bytes, reply ?: &none,
			&bytes); /* SUSPENDS */
		if (rc != -EAGAIN || nam_now_ns() >= deadline_ns)
			break;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	}
	if (reply)
		*ret_bytes = bytes;
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
	return rc;
}
