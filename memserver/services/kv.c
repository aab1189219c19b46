/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c -- services that read and change key-value stores (stores.h). */
#include <string.h>

#include "common/race.h"
#include "kv/server/place.h"
#include "memserver/stores.h"
#include "memserver/trees.h"

int
nam__service_kv_create(struct nam__exchange *exchange)
{
	struct nam_server *server = exchange->server;
	struct nam__store *store;
	int rc;

	if (exchange->body_bytes != sizeof(struct nam_rpc_kv_create_request))
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__store_new(server, exchange->body, &store);
	if (rc)
		return rc;
	rc = nam__stores_enter(&server->stores, store);
	if (rc)
		nam__store_free(store);
	return rc;
}

int
nam__service_kv_drop(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_request *request = exchange->body;

	if (exchange->body_bytes != sizeof(*request))
		return -NAM_E_FABRIC_PROTOCOL;
	return nam__stores_drop(exchange->server, request->store);
}

/* Run `fn` on the store that a request begins with. */
static int
with_store(struct nam__exchange *exchange, size_t least_bytes,
	int (*fn)(struct nam__exchange *exchange, struct nam__store *store))
{
	struct nam__handler *handler = exchange->connection->handler;
	const uint64_t *id = exchange->body;
	struct nam__store *store;
	int rc = -NAM_E_DROPPED;

	if (exchange->body_bytes < least_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	nam__trees_work_begin(handler);
	store = nam__stores_find(&exchange->server->stores, *id);
	nam_race_point("kv.found");
	if (store)
		rc = fn(exchange, store);
	nam__trees_work_end(handler);
	return rc;
}

static int
describe(struct nam__exchange *exchange, struct nam__store *store)
{
	struct nam_rpc_kv_describe_reply *reply = exchange->reply;
	struct nam__kv_counts counts = { 0 };

	if (exchange->body_bytes != sizeof(struct nam_rpc_kv_request))
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < store->partitions_count; i++)
		nam__kv_partition_count(&store->partitions[i], &counts);
	*reply = (struct nam_rpc_kv_describe_reply){
		.memory_bytes = store->memory_bytes,
		.mode = store->mode,
		.partitions = store->partitions_count,
		.servers = store->servers,
		.number = store->number,
		.keys = counts.keys,
		.bytes = counts.bytes,
		.used_bytes = counts.used_bytes,
		.room_bytes = counts.room_bytes,
		.hits = counts.hits,
		.misses = counts.misses,
		.puts = counts.puts,
		.deletes = counts.deletes,
		.evictions = counts.evictions,
		.refusals = counts.refusals,
	};
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_kv_describe(struct nam__exchange *exchange)
{
	return with_store(exchange, sizeof(struct nam_rpc_kv_request), describe);
}

/* ---- one key ------------------------------------------------------------------------------- */

/* The partition that a key is in; NULL if another memory server keeps it. */
static struct nam__kv_partition *
partition_of(struct nam__store *store, const void *key, uint32_t key_bytes, uint32_t *ret_hash)
{
	struct nam__kv_place place = nam__kv_place(store->id, key, key_bytes, store->servers,
		store->partitions_count);

	if (place.server != store->number)
		return NULL;
	*ret_hash = place.hash;
	return &store->partitions[place.partition];
}

static int
key_check(const struct nam__exchange *exchange, struct nam__store *store, bool has_value,
	struct nam__kv_partition **ret_partition, uint32_t *ret_hash)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;

	if (!request->key_bytes || request->key_bytes > NAM_RPC_KV_KEY_BYTES_MAX ||
		request->value_bytes > (has_value ? NAM_RPC_KV_VALUE_BYTES_MAX : 0) ||
		request->reserved || exchange->body_bytes !=
			sizeof(*request) + request->key_bytes + request->value_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_partition = partition_of(store, request->bytes, request->key_bytes, ret_hash);
	return *ret_partition ? 0 : -NAM_E_PARTITION;
}

static int
get(struct nam__exchange *exchange, struct nam__store *store)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;
	struct nam__kv_partition *partition;
	uint32_t hash;
	int rc = key_check(exchange, store, false, &partition, &hash);

	if (rc)
		return rc;
	return nam__kv_partition_get(partition, hash, request->bytes, request->key_bytes,
		exchange->reply, NAM_RPC_BODY_MAX, &exchange->reply_bytes);
}

int
nam__service_kv_get(struct nam__exchange *exchange)
{
	return with_store(exchange, sizeof(struct nam_rpc_kv_key_request), get);
}

static int
put(struct nam__exchange *exchange, struct nam__store *store)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;
	struct nam__kv_partition *partition;
	uint32_t hash;
	int rc = key_check(exchange, store, true, &partition, &hash);

	if (rc)
		return rc;
	return nam__kv_partition_put(partition, hash, request->bytes, request->key_bytes,
		request->bytes + request->key_bytes, request->value_bytes);
}

int
nam__service_kv_put(struct nam__exchange *exchange)
{
	return with_store(exchange, sizeof(struct nam_rpc_kv_key_request), put);
}

static int
delete_one(struct nam__exchange *exchange, struct nam__store *store)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;
	struct nam__kv_partition *partition;
	uint32_t hash;
	int rc = key_check(exchange, store, false, &partition, &hash);

	if (rc)
		return rc;
	return nam__kv_partition_delete(partition, hash, request->bytes, request->key_bytes);
}

int
nam__service_kv_delete(struct nam__exchange *exchange)
{
	return with_store(exchange, sizeof(struct nam_rpc_kv_key_request), delete_one);
}

/* ---- many ---------------------------------------------------------------------------------- */

/* Whether the bytes are so many keys and nothing else. */
static bool
keys_valid(const uint8_t *bytes, uint32_t left, uint32_t count)
{
	while (count--) {
		if (!left || !bytes[0] || left - 1 < bytes[0])
			return false;
		left -= 1u + bytes[0];
		bytes += 1u + bytes[0];
	}
	return left == 0;
}

/* One key's result at `to`, where `room` bytes are.  Returns its length; 0: no room. */
static uint32_t
get_one(struct nam__store *store, const uint8_t *key, uint8_t *to, uint32_t room)
{
	struct nam_rpc_kv_many_result result = { 0, 0 };
	struct nam__kv_partition *partition;
	uint32_t hash;

	if (room < sizeof(result))
		return 0;
	partition = partition_of(store, key + 1, key[0], &hash);
	result.status = partition ? nam__kv_partition_get(partition, hash, key + 1, key[0],
		to + sizeof(result), room - (uint32_t)sizeof(result), &result.value_bytes) :
		-NAM_E_PARTITION;
	if (result.status == -NAM_E_LIMIT)
		return 0;
	memcpy(to, &result, sizeof(result));
	return (uint32_t)sizeof(result) + result.value_bytes;
}

static int
get_many(struct nam__exchange *exchange, struct nam__store *store)
{
	const struct nam_rpc_kv_many_request *request = exchange->body;
	struct nam_rpc_kv_many_reply *reply = exchange->reply;
	const uint8_t *key = request->bytes;
	uint32_t at = 0, count;

	if (!request->count || request->reserved || !keys_valid(request->bytes,
			exchange->body_bytes - (uint32_t)sizeof(*request), request->count))
		return -NAM_E_FABRIC_PROTOCOL;
	for (count = 0; count < request->count; count++) {
		uint32_t bytes = get_one(store, key, reply->bytes + at,
			NAM_RPC_BODY_MAX - (uint32_t)sizeof(*reply) - at);

		if (!bytes)
			break;
		at += bytes;
		key += 1u + key[0];
	}
	reply->count = count;
	reply->reserved = 0;
	exchange->reply_bytes = (uint32_t)sizeof(*reply) + at;
	return 0;
}

int
nam__service_kv_get_many(struct nam__exchange *exchange)
{
	return with_store(exchange, sizeof(struct nam_rpc_kv_many_request), get_many);
}
