/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_fuzz.c -- blocks that a memory server gives, as the client's block cache takes them.
 *
 * input	stride, then answers to ALLOC: length and bytes
 */
#include "fuzz_input.h"

#define nam_rpc_call fuzz_rpc_call
#define nam_buffer_take fuzz_buffer_take
#define nam_buffer_give fuzz_buffer_give
#include "compute/remote/alloc.c"
#undef nam_rpc_call
#undef nam_buffer_take
#undef nam_buffer_give

#define REGION_BYTES (1u << 20)

static struct fuzz_input answers;

void *
fuzz_buffer_take(struct nam_worker *worker, uint32_t bytes)
{
	(void)worker;
	return fuzz_memory(bytes);
}

void
fuzz_buffer_give(struct nam_worker *worker, void *buffer, uint32_t bytes)
{
	(void)worker;
	(void)bytes;
	free(buffer);
}

int
fuzz_rpc_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes)
{
	struct nam_rpc_alloc_reply head;
	uint32_t bytes = fuzz_u16(&answers) % (NAM_RPC_BODY_MAX + 1);

	(void)worker;
	(void)slot;
	(void)body;
	(void)body_bytes;
	if (type == NAM_RPC_FREE)
		return 0;
	if (!answers.left)
		return -NAM_E_REMOTE_FULL;
	if (!ret_bytes || bytes > *ret_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	if (bytes && ret_body)
		fuzz_take(&answers, ret_body, bytes);
	/* Now and then a length that fits the counts. */
	if (bytes >= sizeof(head) && (bytes & 1)) {
		memcpy(&head, ret_body, sizeof(head));
		head.count %= 8;
		head.run_count %= 64;
		bytes = (uint32_t)(sizeof(head) + head.count * sizeof(uint64_t));
		memcpy(ret_body, &head, sizeof(head));
	}
	*ret_bytes = bytes;
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct nam_region region = { .bytes = REGION_BYTES, .server = 0 };
	struct fuzz_input input = { data, bytes };
	struct nam_client *client = aligned_alloc(_Alignof(struct nam_client), sizeof(*client));
	struct nam_worker *worker = aligned_alloc(_Alignof(struct nam_worker), sizeof(*worker));
	uint32_t stride = 64u * (1 + fuzz_u8(&input) % 20);
	struct nam_qp connected = { .ops = NULL }, *qp = &connected;
	struct nam__answering answering = { .worker = worker };
	struct nam_region_block *block;

	if (!client || !worker)
		abort();
	memset(client, 0, sizeof(*client));
	memset(worker, 0, sizeof(*worker));
	client->servers_count = 1;
	client->servers = fuzz_memory(sizeof(*client->servers));
	worker->client = client;
	worker->qps = &qp;
	worker->answering = &answering;
	worker->current = &worker->thread_task;
	worker->thread_task.counters = &worker->counters[0];
	block = calloc(1, sizeof(*block));
	if (!block || nam_region_block_add(block, 0, &region))
		abort();
	nam_region_table_publish(&client->regions, 0, block);
	answers = input;
	for (unsigned i = 0; i < 2000; i++) {
		struct nam_gaddr at;

		if (nam_alloc_on(worker, 0, stride, &at))
			break;
		/* The client hands out only memory of that server, for any reply. */
		if (nam_gaddr_region(at) || nam_gaddr_offset(at) + stride > REGION_BYTES ||
			!nam_gaddr_untagged(at).raw)
			abort();
	}
	nam__block_cache_return(worker, 0);
	nam__block_cache_free(worker);
	nam_region_table_free(&client->regions);
	free(client->servers);
	free(client);
	free(worker);
	return 0;
}
