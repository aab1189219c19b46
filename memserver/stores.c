/* SPDX-License-Identifier: Apache-2.0 */
/* stores.c -- key-value stores, and their memory. */
#include "stores.h"

#include "kv/options.h"
#include "trees.h"

/* M13: clients READ buckets of stores with one-sided GETs, and write none. */
static enum nam_memory_kind
kind_of(const struct nam__store *store)
{
	return store->shape.onesided ? NAM_MEMORY_READ_ONLY : NAM_MEMORY_PRIVATE;
}

void
nam__store_free(struct nam__object *object)
{
	struct nam__store *store = (struct nam__store *)object;

	for (uint32_t i = 0; store->shape.onesided && store->partitions &&
		i < store->shape.partitions; i++)
		nam__kv_partition_wipe(&store->partitions[i]);
	nam__allocator_give(&store->server->allocator, NAM__KV_CHUNK_BYTES, kind_of(store),
		store->blocks, store->chunks_count);
	free(store->blocks);
	free(store->chunks);
	free(store->partitions);
	free(store);
}

static int
chunks_take(struct nam__store *store, uint32_t count)
{
	store->blocks = calloc(count, sizeof(store->blocks[0]));
	store->chunks = calloc(count, sizeof(store->chunks[0]));
	if (!store->blocks || !store->chunks)
		return -ENOMEM;
	while (store->chunks_count < count) {
		uint32_t taken = nam__allocator_take(&store->server->allocator,
			NAM__KV_CHUNK_BYTES, kind_of(store),
			store->blocks + store->chunks_count, count - store->chunks_count);

		if (!taken)
			return -NAM_E_REMOTE_FULL;
		store->chunks_count += taken;
		store->object.bytes = (uint64_t)store->chunks_count * NAM__KV_CHUNK_BYTES;
	}
	for (uint32_t i = 0; i < count; i++)
		store->chunks[i] = nam__block_at(store->server, store->blocks[i]);
	return 0;
}

/* The first partitions get the remainder. */
static int
partitions_make(struct nam__store *store)
{
	uint32_t count = store->shape.partitions, at = 0;

	store->partitions = aligned_alloc(_Alignof(struct nam__kv_partition),
		count * sizeof(store->partitions[0]));
	if (!store->partitions)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t chunks = store->chunks_count / count + (i < store->chunks_count % count);

		nam__kv_partition_init(&store->partitions[i], store->object.id,
			store->server->htm, store->shape.engine, store->chunks + at, chunks,
			store->shape.mode == NAM_KV_CACHE);
		at += chunks;
	}
	return 0;
}

int
nam__store_new(struct nam_server *server, const struct nam_rpc_kv_create_request *request,
	struct nam__store **ret)
{
	struct nam__store *store;
	int rc;

	if (!request->store || request->store >> 48 || !request->partitions ||
		(request->mode != NAM_KV_CACHE && request->mode != NAM_KV_STORE) ||
		!nam__kv_engine_known(request->engine) || request->reserved ||
		request->onesided > (request->engine == NAM_KV_CUCKOO) ||
		request->partitions > NAM_RPC_KV_PARTITIONS_MAX || !request->servers ||
		request->servers > NAM_SERVERS_MAX || request->number >= request->servers ||
		request->memory_bytes / NAM__KV_CHUNK_BYTES / NAM__KV_CHUNKS_MIN <
			request->partitions)
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->memory_bytes > server->memory.bytes)
		return -NAM_E_REMOTE_FULL;
	if (request->memory_bytes > NAM_KV_PARTITION_BYTES_MAX * request->partitions)
		return -NAM_E_FABRIC_PROTOCOL;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->object.id = request->store;
	store->server = server;
	store->shape = *request;
	rc = chunks_take(store, (uint32_t)(request->memory_bytes / NAM__KV_CHUNK_BYTES));
	if (!rc)
		rc = partitions_make(store);
	if (rc) {
		nam__store_free(&store->object);
		return rc;
	}
	*ret = store;
	return 0;
}
