/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c -- nam-bench rpc: requests to memory servers, whatever carries them. */
#include <stdio.h>
#include <string.h>

#include "common/rpc/rpc.h"
#include "bench/bench.h"
#include "requests.h"

struct room {
	uint32_t bytes;			/* of the reply */
	uint32_t seed;
	uint8_t request[NAM_RPC_BODY_MAX], reply[NAM_RPC_BODY_MAX];
};

static void
prepare(struct requests_part *part, void *arg)
{
	struct room *room = arg;
	struct nam_rpc_echo_request echo = { part->bench->options.reply_bytes,
		(uint32_t)part->number };

	room->seed = echo.seed;
	room->bytes = sizeof(room->reply);
	memcpy(room->request, &echo, sizeof(echo));
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	struct room *room = arg;

	(void)count;
	return nam_rpc_call(part->member->worker,
		room->seed % nam_client_servers(session.client), NAM_RPC_ECHO, room->request,
		part->bench->options.bytes, room->reply, &room->bytes); /* SUSPENDS */
}

static void
check(struct requests_part *part, void *arg)
{
	const struct room *room = arg;
	uint32_t expected = part->bench->options.reply_bytes;

	for (uint32_t i = 0; i < room->bytes && room->bytes == expected; i++)
		if (room->reply[i] != (uint8_t)(room->seed + i))
			expected = UINT32_MAX;
	if (room->bytes != expected)
		findings_wrong("a reply of %u bytes is not the one to request %u", room->bytes,
			room->seed);
}

static void
print(const struct requests *bench)
{
	printf("  bodies      of %u bytes, and %u back\n", bench->options.bytes,
		bench->options.reply_bytes);
}

static void
json(const struct requests *bench, cJSON *object)
{
	report_number(object, "bytes", bench->options.bytes);
	report_number(object, "reply_bytes", bench->options.reply_bytes);
}

const struct requests_kind requests_rpc = {
	.name = "rpc",
	.room_bytes = sizeof(struct room),
	.prepare = prepare,
	.ask = ask,
	.check = check,
	.print = print,
	.json = json,
};
