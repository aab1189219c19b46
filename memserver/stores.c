/* SPDX-License-Identifier: Apache-2.0 */
/* stores.c -- the table of key-value stores, and their memory. */
#include "stores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/race.h"
#include "kv/options.h"
#include "trees.h"

/* ---- one store ----------------------------------------------------------------------------- */

static void
chunks_give(struct nam__store *store)
{
	nam__allocator_give(&store->server->allocator, NAM__KV_CHUNK_BYTES, store->blocks,
		store->chunks_count);
	store->chunks_count = 0;
}

void
nam__store_free(struct nam__store *store)
{
	if (!store)
		return;
	chunks_give(store);
	free(store->blocks);
	free(store->chunks);
	free(store->partitions);
	free(store);
}

static int
chunks_take(struct nam__store *store, uint32_t count)
{
	struct nam__allocator *allocator = &store->server->allocator;

	store->blocks = calloc(count, sizeof(store->blocks[0]));
	store->chunks = calloc(count, sizeof(store->chunks[0]));
	if (!store->blocks || !store->chunks)
		return -ENOMEM;
	while (store->chunks_count < count) {
		uint32_t taken = nam__allocator_take(allocator, NAM__KV_CHUNK_BYTES,
			store->blocks + store->chunks_count, count - store->chunks_count);

		if (!taken)
			return -NAM_E_REMOTE_FULL;
		store->chunks_count += taken;
	}
	for (uint32_t i = 0; i < count; i++)
		store->chunks[i] = nam__block_at(store->server, store->blocks[i]);
	return 0;
}

/* The first partitions get what does not divide. */
static int
partitions_make(struct nam__store *store)
{
	uint32_t count = store->partitions_count, at = 0;

	store->partitions = aligned_alloc(_Alignof(struct nam__kv_partition),
		count * sizeof(store->partitions[0]));
	if (!store->partitions)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t chunks = store->chunks_count / count + (i < store->chunks_count % count);

		nam__kv_partition_init(&store->partitions[i], store->chunks + at, chunks,
			store->mode == NAM_KV_CACHE);
		at += chunks;
	}
	return 0;
}

static bool
request_valid(const struct nam_rpc_kv_create_request *request)
{
	return request->store && request->store >> 48 == 0 &&
	       (request->mode == NAM_KV_CACHE || request->mode == NAM_KV_STORE) &&
	       request->partitions && request->partitions <= NAM_RPC_KV_PARTITIONS_MAX &&
	       request->servers && request->servers <= NAM_SERVERS_MAX &&
	       request->number < request->servers &&
	       request->memory_bytes / NAM__KV_CHUNK_BYTES / NAM__KV_CHUNKS_MIN >=
		       request->partitions;
}

int
nam__store_new(struct nam_server *server, const struct nam_rpc_kv_create_request *request,
	struct nam__store **ret)
{
	struct nam__store *store;
	int rc;

	if (!request_valid(request))
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->memory_bytes > server->memory.bytes)
		return -NAM_E_REMOTE_FULL;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->id = request->store;
	store->server = server;
	store->memory_bytes = request->memory_bytes;
	store->mode = request->mode;
	store->servers = request->servers;
	store->number = request->number;
	store->partitions_count = request->partitions;
	rc = chunks_take(store, (uint32_t)(request->memory_bytes / NAM__KV_CHUNK_BYTES));
	if (!rc)
		rc = partitions_make(store);
	if (rc) {
		nam__store_free(store);
		return rc;
	}
	*ret = store;
	return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

struct nam__store *
nam__stores_find(struct nam__stores *stores, uint64_t id)
{
	uint32_t used = atomic_load_explicit(&stores->slots_used, memory_order_acquire);

	for (uint32_t i = 0; i < used; i++) {
		struct nam__store *store = atomic_load_explicit(&stores->slots[i],
			memory_order_acquire);

		if (store && store->id == id)
			return store;
	}
	return NULL;
}

/* Under the mutex. */
static int
enter(struct nam__stores *stores, struct nam__store *store)
{
	uint32_t at = 0;

	if (nam__stores_find(stores, store->id))
		return -NAM_E_INDEX_EXISTS;
	while (at < NAM__STORES_MAX && atomic_load_explicit(&stores->slots[at],
					       memory_order_relaxed))
		at++;
	if (at == NAM__STORES_MAX)
		return -NAM_E_LIMIT;
	atomic_store_explicit(&stores->slots[at], store, memory_order_release);
	if (at >= atomic_load_explicit(&stores->slots_used, memory_order_relaxed))
		atomic_store_explicit(&stores->slots_used, at + 1, memory_order_release);
	return 0;
}

int
nam__stores_enter(struct nam__stores *stores, struct nam__store *store)
{
	int rc;

	pthread_mutex_lock(&stores->mutex);
	rc = enter(stores, store);
	pthread_mutex_unlock(&stores->mutex);
	return rc;
}

/* Under the mutex. */
static struct nam__store *
take_out(struct nam__stores *stores, uint64_t id)
{
	for (uint32_t i = 0; i < NAM__STORES_MAX; i++) {
		struct nam__store *store = atomic_load_explicit(&stores->slots[i],
			memory_order_relaxed);

		if (store && store->id == id) {
			atomic_store_explicit(&stores->slots[i], NULL, memory_order_release);
			return store;
		}
	}
	return NULL;
}

int
nam__stores_drop(struct nam_server *server, uint64_t id)
{
	struct nam__stores *stores = &server->stores;
	struct nam__store *store, **link = &stores->dropped;

	pthread_mutex_lock(&stores->mutex);
	store = take_out(stores, id);
	if (store) {
		if (!NAM_GUARD(KV_WAIT))
			chunks_give(store);
		store->clock = nam__trees_tick(server);
		while (*link)
			link = &(*link)->next;
		*link = store;
		atomic_fetch_add_explicit(&stores->dropped_count, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&stores->mutex);
	return store ? 0 : -NAM_E_DROPPED;
}

/* A dropped store that no handler can be looking at any more.  Under the mutex. */
static struct nam__store *
dropped_next(struct nam_server *server)
{
	struct nam__stores *stores = &server->stores;
	struct nam__store *first = stores->dropped;

	if (!first || first->clock >= nam__trees_work_oldest(server))
		return NULL;
	stores->dropped = first->next;
	atomic_fetch_sub_explicit(&stores->dropped_count, 1, memory_order_relaxed);
	return first;
}

void
nam__stores_idle(struct nam_server *server)
{
	struct nam__stores *stores = &server->stores;
	struct nam__store *store;

	if (__builtin_expect(!atomic_load_explicit(&stores->dropped_count,
			memory_order_relaxed), 1))
		return;
	do {
		pthread_mutex_lock(&stores->mutex);
		store = dropped_next(server);
		pthread_mutex_unlock(&stores->mutex);
		nam__store_free(store);
	} while (store);
}

int
nam__stores_init(struct nam__stores *stores)
{
	memset(stores, 0, sizeof(*stores));
	return -pthread_mutex_init(&stores->mutex, NULL);
}

void
nam__stores_free(struct nam__stores *stores)
{
	for (uint32_t i = 0; i < NAM__STORES_MAX; i++)
		nam__store_free(atomic_load_explicit(&stores->slots[i], memory_order_relaxed));
	while (stores->dropped) {
		struct nam__store *first = stores->dropped;

		stores->dropped = first->next;
		nam__store_free(first);
	}
	memset(stores->slots, 0, sizeof(stores->slots));
	(void)pthread_mutex_destroy(&stores->mutex);
}
