/* SPDX-License-Identifier: Apache-2.0 */
/* replies_test.c -- replies about a store that a memory server should not give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/kv_rpc.h"
#include "compute/worker/worker.h"
#include "kv/kv.h"
#include "kv/server/partition.h"
#include "tests/lib/fake_server.h"

#define STORE 4711u
#define KEY "key", 3

static struct fake_server *server;
static struct nam_client *client;
static struct nam_worker *worker;

/* As nam_rpc_kv_layout_reply, with the address of one chunk: none is of a partition. */
static const struct layout {
	uint32_t level, split, chunks, reserved;
	uint64_t address;
} layouts[] = {
	{ .level = 3, .chunks = 1 },
	{ .level = 31, .chunks = NAM__KV_CHUNKS_MAX },
	{ .level = 4, .split = 64, .chunks = 2 },
	{ .level = 5, .chunks = 1 },	/* a chunk has 128 buckets, 2 of the stash */
	{ .level = 4, .chunks = 0 },
	{ .level = 4, .chunks = NAM__KV_CHUNKS_MAX + 1 },
	{ .level = 4, .chunks = UINT32_MAX },
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* Set between calls, read in the server's thread. */
static atomic_uint layout;
static atomic_bool onesided;

static void
reply_fill(struct fake_reply *reply, int32_t rc, const void *body, uint32_t bytes)
{
	nam_rpc_header_fill(&reply->header, reply->header.type, reply->header.id, rc, bytes);
	if (bytes)
		memcpy(reply->body, body, bytes);
}

static void
hook(struct fake_server *self, const struct nam_rpc_header *request, struct fake_reply *reply)
{
	const struct nam_rpc_catalog_entry entry = {
		.superblock = nam_catalog_entry(NAM_CATALOG_KV, STORE),
	};
	const struct nam_rpc_kv_describe_reply part = {
		.mode = NAM_KV_STORE,
		.engine = NAM_KV_CUCKOO,
		.onesided = atomic_load(&onesided),
		.partitions = 1,
		.servers = 1,
	};
	/* One result: its status and length. */
	const uint32_t many[] = { 1, 0, (uint32_t)-NAM_E_REMOTE_CORRUPT, 0 };
	const struct nam_rpc_kv_layout_request *asked = (const void *)(request + 1);

	(void)self;
	switch (request->type) {
	case NAM_RPC_CATALOG_GET:
		reply_fill(reply, 0, &entry, sizeof(entry));
		break;
	case NAM_RPC_KV_DESCRIBE:
		reply_fill(reply, 0, &part, sizeof(part));
		break;
	case NAM_RPC_KV_LAYOUT:
		/* The reader should not ask for more addresses. */
		reply_fill(reply, asked->first ? -NAM_E_DROPPED : 0,
			&layouts[atomic_load(&layout)], asked->first ? 0 : sizeof(layouts[0]));
		break;
	case NAM_RPC_KV_GET:
	case NAM_RPC_KV_PUT:
		reply_fill(reply, -NAM_E_REMOTE_CORRUPT, NULL, 0);
		break;
	case NAM_RPC_KV_GET_MANY:
		reply_fill(reply, 0, &many, sizeof(many));
		break;
	default:
		break;
	}
}

static int
set_up(void **state)
{
	const struct fake_server_options options = { .hook = hook };
	struct nam_client_options client_options;
	struct nam_diag diag = { "" };

	(void)state;
	server = fake_server_start(&options);
	nam_client_options_init(&client_options);
	client_options.cluster = fake_server_address(server);
	client_options.timeout_ms = 60000;
	if (nam_client_connect(&client_options, &client, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(nam_worker_open(client, &worker, &diag), 0);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	nam_worker_close(worker);
	nam_client_close(client);
	fake_server_stop(server);
	return 0;
}

static void
get__layout_of_no_partition__PROTOCOL(void **state)
{
	struct nam_kv *kv;
	uint32_t bytes;

	(void)state;
	atomic_store(&onesided, true);
	assert_int_equal(nam_kv_open(worker, "pairs", &kv), 0);
	for (unsigned i = 0; i < LAYOUTS; i++) {
		atomic_store(&layout, i);
		assert_int_equal(nam_kv_get(worker, kv, KEY, NULL, 0, &bytes),
			-NAM_E_FABRIC_PROTOCOL);
	}
	nam_kv_close(kv);
}

static void
says_where_and_what_to_do(void)
{
	const char *diag = nam_worker_diag(worker);

	assert_non_null(strstr(diag, "store 'pairs'"));
	assert_non_null(strstr(diag, "partition 0"));
	assert_non_null(strstr(diag, fake_server_address(server)));
	assert_non_null(strstr(diag, "drop the store"));
	worker->diag.text[0] = '\0';
}

static void
pair__damaged__CORRUPT_NAMES_STORE_AND_PARTITION_AND_SAYS_WHAT_TO_DO(void **state)
{
	struct nam_kv_item item = { .key = "key", .key_bytes = 3 };
	struct nam_kv *kv;
	uint8_t value[8];
	uint32_t bytes;

	(void)state;
	atomic_store(&onesided, false);
	assert_int_equal(nam_kv_open(worker, "pairs", &kv), 0);
	assert_int_equal(nam_kv_get(worker, kv, KEY, value, sizeof(value), &bytes),
		-NAM_E_REMOTE_CORRUPT);
	says_where_and_what_to_do();
	assert_int_equal(nam_kv_put(worker, kv, KEY, "value", 5), -NAM_E_REMOTE_CORRUPT);
	says_where_and_what_to_do();
	assert_int_equal(nam_kv_get_many(worker, kv, &item, 1), 0);
	assert_int_equal(item.rc, -NAM_E_REMOTE_CORRUPT);
	says_where_and_what_to_do();
	nam_kv_close(kv);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__layout_of_no_partition__PROTOCOL),
		cmocka_unit_test(
			pair__damaged__CORRUPT_NAMES_STORE_AND_PARTITION_AND_SAYS_WHAT_TO_DO),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
