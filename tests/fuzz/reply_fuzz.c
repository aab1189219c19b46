/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply_fuzz.c -- messages that arrive at a client: late ones, wrong ones, unrequested ones.
 *
 * input	messages: flags, length, bytes
 */
#include "fuzz_input.h"

#include "compute/rpc/call.c"

#define CALLS 4u
#define ROOM 64u

enum flag {
	FLAG_MAGIC = 1,
	FLAG_LENGTH = 2,
	FLAG_ID = 4,
	FLAG_QP = 8,
};

struct fixture {
	struct nam_worker worker;
	struct nam__task tasks[CALLS];
	struct nam__call calls[CALLS];
	struct nam_op_counters counters;
	struct nam_qp qps[2];
	struct nam__one_way sent, *one_way[2];	/* of one connection */
	struct nam__answering answering[2];
	struct nam__client_mailbox *mailboxes[2];	/* none: replies come by SEND */
};

static void
hear(struct fixture *fixture, struct fuzz_input *input, unsigned flags, uint32_t bytes)
{
	uint8_t *message = fuzz_memory(bytes);
	struct nam_wc wc = {
		.op = NAM_WC_RECV,
		.bytes = bytes,
		.qp = flags & FLAG_QP ? &fixture->qps[flags >> 4 & 1] : NULL,
	};
	struct nam_rpc_header header;

	fuzz_take(input, message, bytes);
	if (bytes >= sizeof(header)) {
		memcpy(&header, message, sizeof(header));
		if (flags & FLAG_MAGIC)
			header.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION;
		if (flags & FLAG_LENGTH)
			header.body_bytes = bytes - (uint32_t)sizeof(header);
		if (flags & FLAG_ID) {
			header.id = 1 + header.id % CALLS;
			header.type = NAM_RPC_PING;
		}
		memcpy(message, &header, sizeof(header));
	}
	reply_take(&fixture->worker, &wc, message);
	free(message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct fixture *fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));
	uint8_t *rooms[CALLS];

	if (!fixture)
		abort();
	memset(fixture, 0, sizeof(*fixture));
	STAILQ_INIT(&fixture->worker.ready);
	fixture->worker.mailboxes = fixture->mailboxes;
	fixture->worker.one_way = fixture->one_way;
	fixture->worker.answering = fixture->answering;
	fixture->one_way[0] = &fixture->sent;
	fixture->sent.sent = 300;
	fixture->sent.acknowledged = 300 - NAM_ONE_WAY_MAX;
	for (unsigned i = 0; i < NAM_ONE_WAY_MAX; i++)
		fixture->sent.each[i].id = i % CALLS;
	for (unsigned i = 0; i < CALLS; i++) {
		/* Replies may not write beyond the room that the caller has. */
		rooms[i] = fuzz_memory(i * ROOM);
		fixture->tasks[i].pending = 1;
		fixture->calls[i] = (struct nam__call){
			.id = i + 1,
			.task = &fixture->tasks[i],
			.counters = &fixture->counters,
			.body = rooms[i],
			.body_size = i * ROOM,
			.slot = i & 1,
			.type = NAM_RPC_PING,
		};
		SLIST_INSERT_HEAD(&fixture->worker.calls, &fixture->calls[i], link);
	}
	for (unsigned i = 0; i < 2; i++) {
		fixture->answering[i].slot = i;
		fixture->qps[i].user = &fixture->answering[i];
	}
	for (unsigned messages = 0; input.left && messages < 100; messages++) {
		unsigned flags = fuzz_u8(&input);
		uint32_t length = fuzz_u16(&input) % (NAM_RPC_BYTES_MAX + 1);

		hear(fixture, &input, flags, length);
	}
	for (unsigned i = 0; i < CALLS; i++) {
		if (fixture->calls[i].body_bytes > fixture->calls[i].body_size ||
			fixture->calls[i].rc > 0)
			abort();
		free(rooms[i]);
	}
	free(fixture);
	return 0;
}
