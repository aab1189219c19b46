/* SPDX-License-Identifier: Apache-2.0 */
/* kv_test.c -- requests to key-value stores: good ones, and every way to be malformed. */
#include "tests/unit/memserver/server_fixture.h"

#include "common/hash/hash.h"
#include "common/rpc/kv_rpc.h"
#include "kv/kv.h"
#include "kv/server/place.h"
#include "memserver/stores.h"

#define STORE 4711u

static struct nam_rpc_kv_create_request
creation(void)
{
	return (struct nam_rpc_kv_create_request){
		.store = STORE,
		.memory_bytes = 3 * NAM_KV_PARTITION_BYTES_MIN,
		.mode = NAM_KV_STORE,
		.engine = NAM_KV_CHAINED,
		.partitions = 3,
		.servers = 1,
	};
}

static void
create(struct fixture *f)
{
	struct nam_rpc_kv_create_request request = creation();

	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)), 0);
}

static int
drop(struct fixture *f)
{
	struct nam_rpc_kv_request request = { STORE };

	return call(f, NAM_RPC_KV_DROP, &request, sizeof(request));
}

/* A request for a key, with so many bytes behind its head. */
static int
ask(struct fixture *f, uint16_t type, uint16_t key_bytes, uint16_t value_bytes, uint32_t behind)
{
	struct nam_rpc_kv_key_request *request;
	uint8_t body[NAM_RPC_BODY_MAX] __attribute__((aligned(8))) = { 0 };

	request = (void *)body;
	request->store = STORE;
	request->key_bytes = key_bytes;
	request->value_bytes = value_bytes;
	memset(request->bytes, 'k', behind);
	return call(f, type, body, (uint32_t)sizeof(*request) + behind);
}

static void
create__malformed__PROTOCOL_AND_NOTHING_TAKEN(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_kv_create_request request = creation();

	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request) - 1),
		-NAM_E_FABRIC_PROTOCOL);
#define BAD(field, value)                                                                           \
	request = creation();                                                                       \
	request.field = (value);                                                                    \
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)),                     \
		-NAM_E_FABRIC_PROTOCOL)
	BAD(store, 0);
	BAD(store, 1ull << 48);
	BAD(engine, 0);
	BAD(engine, 3);
	BAD(mode, 0);
	BAD(mode, 3);
	BAD(partitions, 0);
	BAD(partitions, NAM_KV_PARTITIONS_MAX + 1);
	BAD(partitions, 5);
	BAD(servers, 0);
	BAD(servers, 257);
	BAD(number, 1);
#undef BAD
	request = creation();
	request.memory_bytes = UINT64_MAX;
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)),
		-NAM_E_REMOTE_FULL);
	request.memory_bytes = 1 << 20;
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)),
		-NAM_E_REMOTE_FULL);
	for (uint32_t i = 0; i < NAM_MEMORY_KINDS; i++)
		assert_int_equal(f->server->allocator.memory[i].carved_bytes,
			f->server->allocator.memory[i].free_bytes);
	create(f);
	request = creation();
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)),
		-NAM_E_INDEX_EXISTS);
	assert_int_equal(drop(f), 0);
	assert_int_equal(drop(f), -NAM_E_DROPPED);
}

static void
create__as_many_as_there_can_be__LIMIT_AND_EACH_IS_FOUND(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_kv_create_request request = creation();
	struct nam_rpc_kv_request one = { 0 };
	uint32_t made = 0;

	/* A pair without memory does not count. */
	request.memory_bytes = NAM_KV_PARTITION_BYTES_MIN;
	request.partitions = 1;
	for (uint64_t id = 1; id <= 20; id++) {
		request.store = id;
		made += !call(f, NAM_RPC_KV_CREATE, &request, sizeof(request));
	}
	assert_true(made > 5 && made < 16);
	for (one.store = 1; one.store <= made; one.store++) {
		assert_int_equal(call(f, NAM_RPC_KV_DESCRIBE, &one, sizeof(one)), 0);
		assert_int_equal(call(f, NAM_RPC_KV_DROP, &one, sizeof(one)), 0);
		assert_int_equal(call(f, NAM_RPC_KV_DESCRIBE, &one, sizeof(one)), -NAM_E_DROPPED);
	}
	for (unsigned i = 0; i < 1000; i++) {
		request.store = 100 + i;
		nam__objects_idle(&f->server->stores, f->server);
		assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)), 0);
		one.store = request.store;
		assert_int_equal(call(f, NAM_RPC_KV_DROP, &one, sizeof(one)), 0);
	}
}

static void
key__malformed__PROTOCOL(void **state)
{
	static const uint16_t types[] = { NAM_RPC_KV_GET, NAM_RPC_KV_PUT, NAM_RPC_KV_DELETE };
	struct fixture *f = *state;

	create(f);
	for (unsigned i = 0; i < 3; i++) {
		uint16_t type = types[i];
		uint16_t value = type == NAM_RPC_KV_PUT ? 9 : 0;

		assert_int_equal(ask(f, type, 0, value, value), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(ask(f, type, 256, value, 256 + value), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(ask(f, type, 10, value, 9 + value), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(ask(f, type, 10, value, 11 + value), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(ask(f, type, 10, UINT16_MAX, 10), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(ask(f, type, UINT16_MAX, value, 10), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(call(f, type, "1234567", 8), -NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 10, 1, 11), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 10, 3801, 3811), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 255, 3800, 4055), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 255, 0, 255), 0);
	assert_int_equal(f->reply_bytes, 3800);
	assert_int_equal(ask(f, NAM_RPC_KV_DELETE, 255, 0, 255), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 255, 0, 255), -NAM_E_NOTFOUND);
	assert_int_equal(drop(f), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 255, 0, 255), -NAM_E_DROPPED);
}

static void
key__of_another_memory_server__PARTITION(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_kv_create_request request = creation();
	uint8_t key[3] = { 'k', 'k', 'k' };
	union {
		struct nam_rpc_kv_many_request head;
		uint8_t bytes[sizeof(struct nam_rpc_kv_many_request) + 8];
	} many = { .head = { STORE, 1, 0 } };

	many.head.bytes[0] = sizeof(key);
	memcpy(many.head.bytes + 1, key, sizeof(key));
	request.servers = 2;
	request.number = !nam__kv_place(STORE, key, 3, 2, request.partitions).server;
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 3, 1, 4), -NAM_E_PARTITION);
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 3, 0, 3), -NAM_E_PARTITION);
	assert_int_equal(ask(f, NAM_RPC_KV_DELETE, 3, 0, 3), -NAM_E_PARTITION);
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, sizeof(many.head) + 4),
		-NAM_E_PARTITION);
	assert_int_equal(drop(f), 0);
}

static void
many__malformed__PROTOCOL_and_what_does_not_fit_IS_LEFT(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_kv_many_reply *reply = reply_body(f);
	union {
		struct nam_rpc_kv_many_request head;
		uint8_t bytes[sizeof(struct nam_rpc_kv_many_request) + 16];
	} many = { .head = { STORE, 3, 0 } };
	static const uint8_t keys[] = { 2, 'k', 'k', 1, 'k', 3, 'k', 'k', 'k' };
	const uint32_t all = sizeof(many.head) + sizeof(keys);

	memset(many.head.bytes, 0, 16);
	memcpy(many.head.bytes, keys, sizeof(keys));
	create(f);
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, all), 0);
	assert_int_equal(reply->count, 3);
	assert_int_equal(f->reply_bytes, 8 + 3 * 8);
	for (uint32_t bytes = 8; bytes < sizeof(many); bytes++)
		if (bytes != all)
			assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, bytes),
				-NAM_E_FABRIC_PROTOCOL);
	for (uint32_t count = 0; count < 10; count++) {
		many.head.count = count;
		assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, all),
			count == 3 ? 0 : -NAM_E_FABRIC_PROTOCOL);
	}
	many.head.count = UINT32_MAX;
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, all), -NAM_E_FABRIC_PROTOCOL);
	many.head.count = 3;
	many.head.bytes[0] = 0;
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, all), -NAM_E_FABRIC_PROTOCOL);
	many.head.bytes[0] = 2;
	/* Two such values are more than a message. */
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 1, 3000, 3001), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 3, 3000, 3003), 0);
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, all), 0);
	assert_int_equal(reply->count, 2);
	assert_int_equal(f->reply_bytes, 8 + 2 * 8 + 3000);
	assert_int_equal(drop(f), 0);
}

/* ---- values longer than a message ---------------------------------------------------------- */

#define LARGE 40000u			/* two staging blocks */

/* Requests for the key "kk", with blocks of our public region. */
union large {
	struct nam_rpc_kv_large_request head;
	uint8_t bytes[sizeof(struct nam_rpc_kv_large_request) + 34 * 8 + 300];
};

static struct nam_gaddr
block(uint32_t number)
{
	return nam_gaddr_make(0, NAM_META_BYTES + number * NAM_RPC_KV_STAGING_BYTES, 0);
}

static uint8_t *
block_bytes(struct fixture *f, uint32_t number)
{
	return (uint8_t *)f->server->memory.mrs[0].base + nam_gaddr_offset(block(number));
}

static union large
large(uint32_t count, uint32_t value_bytes)
{
	union large request = { .head = { .store = STORE, .key_bytes = 2,
		.count = (uint16_t)count, .value_bytes = value_bytes } };

	for (uint32_t i = 0; i < count; i++)
		request.head.blocks[i] = block(i).raw;
	memset(&request.head.blocks[count], 'k', 2);
	return request;
}

static int
large_query(struct fixture *f, uint16_t type, const union large *request)
{
	return call(f, type, request, (uint32_t)sizeof(request->head) +
		request->head.count * 8u + request->head.key_bytes);
}

static void
create_large(struct fixture *f)
{
	struct nam_rpc_kv_create_request request = creation();

	request.partitions = 1;
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)), 0);
}

/* The blocks have LARGE bytes of a pattern; the hash of it. */
static uint64_t
pattern_stage(struct fixture *f, uint8_t seed)
{
	static uint8_t value[LARGE];

	for (uint32_t i = 0; i < LARGE; i++)
		value[i] = (uint8_t)(seed + i * 7);
	memcpy(block_bytes(f, 0), value, NAM_RPC_KV_STAGING_BYTES);
	memcpy(block_bytes(f, 1), value + NAM_RPC_KV_STAGING_BYTES,
		LARGE - NAM_RPC_KV_STAGING_BYTES);
	return nam_hash64(value, LARGE);
}

static void
large__put_and_got__THE_SAME_BYTES(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_kv_large_reply *reply = reply_body(f);
	union large request = large(2, LARGE);
	uint64_t checksum = pattern_stage(f, 1);

	create_large(f);
	request.head.checksum = checksum;
	assert_int_equal(large_query(f, NAM_RPC_KV_PUT_LARGE, &request), 0);
	/* A message has no room for it, alone or with others. */
	assert_int_equal(ask(f, NAM_RPC_KV_GET, 2, 0, 2), -NAM_E_LIMIT);
	for (uint32_t count = 0; count < 3; count++) {
		memset(block_bytes(f, 0), 0, 2 * NAM_RPC_KV_STAGING_BYTES);
		request = large(count, 0);
		assert_int_equal(large_query(f, NAM_RPC_KV_GET_LARGE, &request), 0);
		assert_int_equal(f->reply_bytes, sizeof(*reply));
		assert_int_equal(reply->value_bytes, LARGE);
		assert_int_equal(reply->checksum, count < 2 ? 0 : checksum);
		/* All of it or none, and nothing behind its end. */
		assert_int_equal(block_bytes(f, 0)[0], count < 2 ? 0 : 1);
		assert_int_equal(block_bytes(f, 1)[LARGE - NAM_RPC_KV_STAGING_BYTES], 0);
	}
	assert_int_equal(ask(f, NAM_RPC_KV_DELETE, 2, 0, 2), 0);
	assert_int_equal(large_query(f, NAM_RPC_KV_GET_LARGE, &request), -NAM_E_NOTFOUND);
	assert_int_equal(drop(f), 0);
	assert_int_equal(large_query(f, NAM_RPC_KV_GET_LARGE, &request), -NAM_E_DROPPED);
}

static void
large__other_bytes_than_were_staged__CORRUPT_AND_NOTHING_STORED(void **state)
{
	struct fixture *f = *state;
	union large request = large(2, LARGE), again = large(2, 0);

	create_large(f);
	request.head.checksum = pattern_stage(f, 1);
	block_bytes(f, 1)[LARGE - NAM_RPC_KV_STAGING_BYTES - 1] ^= 1;
	assert_int_equal(large_query(f, NAM_RPC_KV_PUT_LARGE, &request), -NAM_E_REMOTE_CORRUPT);
	assert_int_equal(large_query(f, NAM_RPC_KV_GET_LARGE, &again), -NAM_E_NOTFOUND);
	assert_int_equal(drop(f), 0);
}

static void
large__malformed_or_of_other_memory__PROTOCOL(void **state)
{
	static const uint16_t types[] = { NAM_RPC_KV_GET_LARGE, NAM_RPC_KV_PUT_LARGE };
	struct fixture *f = *state;
	const uint64_t region_bytes = f->server->memory.mrs[0].bytes;

	create_large(f);
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t value = i ? LARGE : 0;
		const uint64_t elsewhere[] = { 0, nam_gaddr_make(0, NAM_META_BYTES - 64, 0).raw,
			nam_gaddr_make(0, region_bytes - NAM_RPC_KV_STAGING_BYTES + 64, 0).raw,
			nam_gaddr_make(0, region_bytes, 0).raw,
			nam_gaddr_make(200, 1 << 16, 0).raw, nam_gaddr_make(300, 1 << 16, 0).raw,
			/* The region of the store itself, which is private. */
			nam_gaddr_make(1, 1 << 16, 0).raw };
		union large request;

		for (unsigned j = 0; j < sizeof(elsewhere) / sizeof(elsewhere[0]); j++) {
			request = large(2, value);
			request.head.checksum = i ? pattern_stage(f, 3) : 0;
			request.head.blocks[1] = elsewhere[j];
			assert_int_equal(large_query(f, types[i], &request),
				-NAM_E_FABRIC_PROTOCOL);
		}
#define BAD(change)                                                                                 \
	request = large(2, value);                                                                  \
	change;                                                                                     \
	assert_int_equal(large_query(f, types[i], &request), -NAM_E_FABRIC_PROTOCOL)
		BAD(request.head.key_bytes = 0);
		BAD(request.head.key_bytes = 256);
		BAD(request.head.count = NAM_RPC_KV_STAGING_MAX + 1);
		BAD(request.head.value_bytes = i ? 2 * NAM_RPC_KV_STAGING_BYTES + 1 : 1);
		BAD(request.head.value_bytes = i ? NAM_RPC_KV_STAGING_BYTES : 1);
		BAD(request.head.value_bytes = UINT32_MAX);
		if (!i) {
			BAD(request.head.checksum = 1);
		}
#undef BAD
		request = large(2, value);
		for (uint32_t bytes = 8; bytes < sizeof(request); bytes++)
			if (bytes != sizeof(request.head) + 2 * 8 + 2)
				assert_int_equal(call(f, types[i], &request, bytes),
					-NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(drop(f), 0);
}

static void
many__a_value_longer_than_a_message__SAID_OF_IT_ALONE(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_kv_many_reply *reply = reply_body(f);
	struct nam_rpc_kv_many_result results[2];
	union large request = large(2, LARGE);
	static const uint8_t keys[5] = { 2, 'k', 'k', 1, 'k' };
	union {
		struct nam_rpc_kv_many_request head;
		uint8_t bytes[sizeof(struct nam_rpc_kv_many_request) + sizeof(keys)];
	} many = { .head = { STORE, 2, 0 } };

	memcpy(many.head.bytes, keys, sizeof(keys));
	create_large(f);
	request.head.checksum = pattern_stage(f, 9);
	assert_int_equal(large_query(f, NAM_RPC_KV_PUT_LARGE, &request), 0);
	assert_int_equal(ask(f, NAM_RPC_KV_PUT, 1, 3, 4), 0);
	assert_int_equal(call(f, NAM_RPC_KV_GET_MANY, &many, sizeof(many.bytes)), 0);
	assert_int_equal(reply->count, 2);
	assert_int_equal(f->reply_bytes, 8 + 2 * 8 + 3);
	memcpy(results, reply->bytes, sizeof(results));
	assert_int_equal(results[0].status, -NAM_E_LIMIT);
	assert_int_equal(results[0].value_bytes, 0);
	assert_int_equal(results[1].status, 0);
	assert_int_equal(results[1].value_bytes, 3);
	assert_int_equal(drop(f), 0);
}

/* The last replies of a layout come after the tables have shrunk. */
static void
layout__from_a_chunk_on__ADDRESSES_OF_TABLES_OR_OF_ALL_BEHIND_THEM(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_kv_layout_reply *reply = reply_body(f);
	struct nam_rpc_kv_create_request request = creation();
	struct nam_rpc_kv_layout_request asked = { .store = STORE };
	struct nam__store *store;
	uint64_t first;

	request.engine = NAM_KV_CUCKOO;
	request.partitions = 1;
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &request, sizeof(request)), 0);
	store = (struct nam__store *)nam__objects_find(&f->server->stores, STORE);
	store->shape.onesided = true;
	assert_int_equal(call(f, NAM_RPC_KV_LAYOUT, &asked, sizeof(asked)), 0);
	assert_int_equal(reply->chunks, 1);
	assert_int_equal(f->reply_bytes, sizeof(*reply) + sizeof(uint64_t));
	first = reply->addresses[0];
	asked.first = 1;
	assert_int_equal(call(f, NAM_RPC_KV_LAYOUT, &asked, sizeof(asked)), 0);
	assert_int_equal(reply->chunks, 1);
	assert_int_equal(f->reply_bytes, sizeof(*reply) + 5 * sizeof(uint64_t));
	assert_true(reply->addresses[0] && reply->addresses[0] != first);
	asked.first = 6;
	assert_int_equal(call(f, NAM_RPC_KV_LAYOUT, &asked, sizeof(asked)),
		-NAM_E_FABRIC_PROTOCOL);
	asked.partition = 1;
	asked.first = 0;
	assert_int_equal(call(f, NAM_RPC_KV_LAYOUT, &asked, sizeof(asked)),
		-NAM_E_FABRIC_PROTOCOL);
	store->shape.onesided = false;
	assert_int_equal(drop(f), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(create__malformed__PROTOCOL_AND_NOTHING_TAKEN,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			create__as_many_as_there_can_be__LIMIT_AND_EACH_IS_FOUND, fixture_setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(key__malformed__PROTOCOL, fixture_setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(key__of_another_memory_server__PARTITION,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			many__malformed__PROTOCOL_and_what_does_not_fit_IS_LEFT, fixture_setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(large__put_and_got__THE_SAME_BYTES, fixture_setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(
			large__other_bytes_than_were_staged__CORRUPT_AND_NOTHING_STORED,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(large__malformed_or_of_other_memory__PROTOCOL,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			many__a_value_longer_than_a_message__SAID_OF_IT_ALONE, fixture_setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(
			layout__from_a_chunk_on__ADDRESSES_OF_TABLES_OR_OF_ALL_BEHIND_THEM,
			fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
