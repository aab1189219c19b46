/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c -- services that read and change key-value stores (stores.h). */
#include "kv/server/place.h"
#include "memserver/stores.h"

#define SOUGHT_AT_ONCE 32u		/* keys; a core has fewer cache lines under way */

int
nam__service_kv_create(struct nam__exchange *exchange)
{
	struct nam_server *server = exchange->server;
	struct nam__store *store;
	int rc = nam__store_new(server, exchange->body, &store);

	if (rc)
		return rc;
	store->object.owner = exchange->connection->client_id;
	return nam__objects_enter(&server->stores, &store->object);
}

/* M10: the store's memory waits for handlers that are at work on it. */
int
nam__service_kv_drop(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_request *request = exchange->body;
	struct nam_server *server = exchange->server;

	return nam__objects_drop(&server->stores, server, request->store);
}

int
nam__service_kv_describe(struct nam__exchange *exchange)
{
	struct nam_rpc_kv_describe_reply *reply = exchange->reply;
	struct nam__store *store = exchange->store;

	*reply = (struct nam_rpc_kv_describe_reply){
		.memory_bytes = store->shape.memory_bytes,
		.mode = store->shape.mode,
		.engine = store->shape.engine,
		.onesided = store->shape.onesided,
		.partitions = store->shape.partitions,
		.servers = store->shape.servers,
		.number = store->shape.number,
	};
	for (uint32_t i = 0; i < store->shape.partitions; i++)
		nam__kv_partition_count(&store->partitions[i], &reply->counts);
	exchange->reply_bytes = sizeof(*reply);
	return 0;
}

int
nam__service_kv_layout(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_layout_request *request = exchange->body;
	struct nam_rpc_kv_layout_reply *reply = exchange->reply;
	const struct nam__store *store = exchange->store;
	const uint32_t most = (NAM_RPC_BODY_MAX - (uint32_t)sizeof(*reply)) / sizeof(uint64_t);
	struct nam__kv_partition *partition;
	struct nam__cuckoo_shape shape;
	uint64_t first;
	uint32_t end, count;

	if (!store->shape.onesided || request->partition >= store->shape.partitions)
		return -NAM_E_FABRIC_PROTOCOL;
	partition = &store->partitions[request->partition];
	reply->chunks = nam__kv_partition_shape(partition, &shape);
	/* Since its first reply the tables may have shrunk. */
	end = request->first < reply->chunks ? reply->chunks : partition->chunks_count;
	if (request->first >= end)
		return -NAM_E_FABRIC_PROTOCOL;
	reply->level = shape.level;
	reply->split = shape.split;
	first = (uint64_t)(partition->chunks - store->chunks) + request->first;
	count = MIN(end - request->first, most);
	memcpy(reply->addresses, store->blocks + first, count * sizeof(uint64_t));
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + count * sizeof(uint64_t));
	return 0;
}

/* The partition that a key is in; NULL if another memory server keeps it. */
static struct nam__kv_partition *
partition_of(struct nam__store *store, const void *key, uint32_t key_bytes, uint32_t *ret_hash)
{
	struct nam__kv_place place = nam__kv_place(store->object.id, key, key_bytes,
		store->shape.servers, store->shape.partitions);

	if (place.server != store->shape.number)
		return NULL;
	*ret_hash = place.hash;
	return &store->partitions[place.partition];
}

static int
get(struct nam__exchange *exchange, struct nam__kv_partition *partition, uint32_t hash)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;
	struct nam__kv_sought sought = { partition, request->bytes, request->key_bytes, hash,
		{ NULL, NULL } };
	uint64_t hits = 0;
	int rc;

	nam__kv_partitions_seek(&sought, 1);
	rc = nam__kv_partition_get_sought(&sought, exchange->reply, NAM_RPC_KV_MESSAGE_BYTES_MAX,
		&exchange->reply_bytes, &hits);
	nam__kv_partition_hits(partition, hits);
	return rc;
}

int
nam__service_kv_key(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_key_request *request = exchange->body;
	const uint8_t *key = request->bytes;
	uint32_t key_bytes = request->key_bytes, hash;
	bool is_put = exchange->type == NAM_RPC_KV_PUT;
	struct nam__kv_partition *partition;

	if (!key_bytes || key_bytes > NAM_RPC_KV_KEY_BYTES_MAX || request->reserved ||
		request->value_bytes > (is_put ? NAM_RPC_KV_MESSAGE_BYTES_MAX : 0) ||
		exchange->body_bytes != sizeof(*request) + key_bytes + request->value_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	partition = partition_of(exchange->store, key, key_bytes, &hash);
	if (!partition)
		return -NAM_E_PARTITION;
	if (exchange->type == NAM_RPC_KV_GET)
		return get(exchange, partition, hash);
	/* The lines of a cuckoo store come while the lock is taken. */
	nam__kv_partition_prefetch(partition, hash);
	if (is_put)
		return nam__kv_partition_put(partition, hash, key, key_bytes, key + key_bytes,
			request->value_bytes);
	return nam__kv_partition_delete(partition, hash, key, key_bytes);
}

/* The staging blocks of a request in our memory: all of them, or none. */
static bool
staging_find(const struct nam__exchange *exchange, uint8_t *ret_blocks[NAM_RPC_KV_STAGING_MAX])
{
	const struct nam_rpc_kv_large_request *request = exchange->body;

	for (uint32_t i = 0; i < request->count; i++) {
		struct nam_gaddr at = NAM_GADDR(request->blocks[i]);

		ret_blocks[i] = exchange->type == NAM_RPC_KV_GET_LARGE ?
			nam__memory_public_change(exchange, at, NAM_RPC_KV_STAGING_BYTES) :
			nam__memory_public_at(exchange->server, at, NAM_RPC_KV_STAGING_BYTES);
		if (!ret_blocks[i])
			return false;
	}
	return true;
}

static bool
large_ok(const struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_large_request *request = exchange->body;
	bool good = request->key_bytes && request->key_bytes <= NAM_RPC_KV_KEY_BYTES_MAX &&
		request->value_bytes <= NAM_RPC_KV_VALUE_BYTES_MAX &&
		request->count <= NAM_RPC_KV_STAGING_MAX && exchange->body_bytes ==
		sizeof(*request) + request->count * sizeof(uint64_t) + request->key_bytes;

	if (exchange->type == NAM_RPC_KV_GET_LARGE)
		return good && !request->value_bytes && !request->checksum;
	return good && request->count == nam_rpc_kv_staging_count(request->value_bytes);
}

/*
 * K10: a client may write to the blocks meanwhile, or use them for another value.  So they are read
 * once, and the copy is checked and stored.
 */
static int
put_large(struct nam__exchange *exchange, struct nam__kv_partition *partition, uint32_t hash,
	const uint8_t *key, uint8_t *const *blocks)
{
	const struct nam_rpc_kv_large_request *request = exchange->body;
	uint8_t *value = exchange->connection->handler->value;
	uint32_t bytes = request->value_bytes;

	nam_race_point("kv.put_large");
	for (uint32_t at = 0, n; at < bytes; at += n) {
		n = MIN(bytes - at, NAM_RPC_KV_STAGING_BYTES);
		memcpy(value + at, *blocks++, n);
	}
	if (NAM_GUARD(KV_STAGED) && nam_hash64(value, bytes) != request->checksum)
		return -NAM_E_REMOTE_CORRUPT;
	return nam__kv_partition_put(partition, hash, key, request->key_bytes, value, bytes);
}

/* K10: the checksum is of the copy, whatever another client writes to the blocks. */
static int
get_large(struct nam__exchange *exchange, struct nam__kv_partition *partition, uint32_t hash,
	const uint8_t *key, uint8_t *const *blocks)
{
	const struct nam_rpc_kv_large_request *request = exchange->body;
	struct nam_rpc_kv_large_reply *reply = exchange->reply;
	uint8_t *value = exchange->connection->handler->value;
	uint32_t room = MIN(request->count * NAM_RPC_KV_STAGING_BYTES,
		NAM_RPC_KV_VALUE_BYTES_MAX), bytes;
	int rc;

	nam_race_point("kv.get_large");
	rc = nam__kv_partition_get(partition, hash, key, request->key_bytes, value, room, &bytes);
	if (rc && rc != -NAM_E_LIMIT)
		return rc;
	*reply = (struct nam_rpc_kv_large_reply){ .value_bytes = bytes };
	exchange->reply_bytes = sizeof(*reply);
	if (rc)
		return 0;
	reply->checksum = nam_hash64(value, bytes);
	for (uint32_t at = 0, n; at < bytes; at += n) {
		n = MIN(bytes - at, NAM_RPC_KV_STAGING_BYTES);
		memcpy(*blocks++, value + at, n);
	}
	return 0;
}

int
nam__service_kv_large(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_large_request *request = exchange->body;
	const uint8_t *key = (const uint8_t *)(request->blocks + request->count);
	uint8_t *blocks[NAM_RPC_KV_STAGING_MAX];
	struct nam__kv_partition *partition;
	uint32_t hash;

	if (!large_ok(exchange) || !staging_find(exchange, blocks))
		return -NAM_E_FABRIC_PROTOCOL;
	partition = partition_of(exchange->store, key, request->key_bytes, &hash);
	if (!partition)
		return -NAM_E_PARTITION;
	return exchange->type == NAM_RPC_KV_PUT_LARGE ?
		put_large(exchange, partition, hash, key, blocks) :
		get_large(exchange, partition, hash, key, blocks);
}

/* The next keys, and their cache lines under way at once.  The keys pass from *bytes. */
static int
seek(struct nam__store *store, const uint8_t **bytes, uint32_t *left, uint32_t count,
	struct nam__kv_sought ret_sought[SOUGHT_AT_ONCE])
{
	const uint8_t *key = *bytes;

	for (uint32_t i = 0; i < count; i++, key += 1u + key[0]) {
		struct nam__kv_sought *sought = &ret_sought[i];

		if (!*left || !key[0] || *left - 1 < key[0])
			return -NAM_E_FABRIC_PROTOCOL;
		*left -= 1u + key[0];
		sought->key = key + 1;
		sought->key_bytes = key[0];
		sought->partition = partition_of(store, key + 1, key[0], &sought->hash);
		if (!sought->partition)
			return -NAM_E_PARTITION;
	}
	nam__kv_partitions_seek(ret_sought, count);
	*bytes = key;
	return 0;
}

/* The length of the result at `to`; 0: `room` is too small, and the client asks for it alone. */
static uint32_t
get_one(const struct nam__kv_sought *sought, uint8_t *to, uint32_t room, uint64_t *hits)
{
	struct nam_rpc_kv_many_result result = { 0, 0 };

	if (room < sizeof(result))
		return 0;
	room = MIN(room - (uint32_t)sizeof(result), NAM_RPC_KV_MESSAGE_BYTES_MAX);
	result.status = nam__kv_partition_get_sought(sought, to + sizeof(result), room,
		&result.value_bytes, hits);
	if (result.status == -NAM_E_LIMIT && result.value_bytes <= NAM_RPC_KV_MESSAGE_BYTES_MAX)
		return 0;
	if (result.status)
		result.value_bytes = 0;
	memcpy(to, &result, sizeof(result));
	return (uint32_t)sizeof(result) + result.value_bytes;
}

int
nam__service_kv_get_many(struct nam__exchange *exchange)
{
	const struct nam_rpc_kv_many_request *request = exchange->body;
	uint32_t left = exchange->body_bytes - (uint32_t)sizeof(*request), at = 0, count, bytes;
	struct nam_rpc_kv_many_reply *reply = exchange->reply;
	struct nam__kv_sought sought[SOUGHT_AT_ONCE];
	const uint8_t *key = request->bytes;
	uint64_t hits = 0;

	if (!request->count || request->reserved)
		return -NAM_E_FABRIC_PROTOCOL;
	for (count = 0; count < request->count; count++) {
		if (count % SOUGHT_AT_ONCE == 0) {
			uint32_t more = MIN(request->count - count, SOUGHT_AT_ONCE);
			int rc = seek(exchange->store, &key, &left, more, sought);

			if (!rc && left && count + more == request->count)
				rc = -NAM_E_FABRIC_PROTOCOL;
			if (rc)
				return rc;
		}
		bytes = get_one(&sought[count % SOUGHT_AT_ONCE], reply->bytes + at,
			NAM_RPC_BODY_MAX - (uint32_t)sizeof(*reply) - at, &hits);
		if (!bytes)
			break;
		at += bytes;
	}
	nam__kv_partition_hits(sought->partition, hits);
	*reply = (struct nam_rpc_kv_many_reply){ .count = count };
	exchange->reply_bytes = (uint32_t)sizeof(*reply) + at;
	return 0;
}
