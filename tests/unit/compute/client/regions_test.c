/* SPDX-License-Identifier: Apache-2.0 */
/* regions_test.c -- nam__regions_refresh: keys of regions that change while a client works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/remote/epoch.h"
#include "tests/lib/fake_server.h"

#define REGIONS 8u
#define PER_PAGE 3u
#define SERVERS 2u
#define CHANGED 5u		/* in the second page */
#define ROUNDS 200u

/* The hook of a server does one of these to the announcement. */
enum change {
	CHANGE_NOTHING,
	CHANGE_KEY,
	CHANGE_BYTES,
	CHANGE_REMOTE,
	CHANGE_KIND,
	CHANGE_ID,		/* twice the same */
	CHANGE_UNKNOWN_ID,
	CHANGE_TOTAL,
	CHANGE_COUNT,
	CHANGE_LENGTH,
	CHANGE_STATUS,
	CHANGES_COUNT,
};

static struct {
	atomic_int change;
	atomic_uint key;
	struct fake_server *servers[SERVERS];
	struct nam_client *client;
} fixture;

/* Only the second server lies. */
static void
change(struct fake_server *server, const struct nam_rpc_header *request, struct fake_reply *reply)
{
	struct nam_rpc_regions_reply *regions = (void *)reply->body;
	const struct nam_rpc_regions_request *asked = (const void *)(request + 1);

	(void)server;
	if (request->type != NAM_RPC_REGIONS || asked->first > CHANGED ||
		asked->first + regions->count <= CHANGED)
		return;
	switch (atomic_load(&fixture.change)) {
	case CHANGE_NOTHING:
		break;
	case CHANGE_KEY:
		regions->regions[CHANGED - asked->first].rkey = atomic_load(&fixture.key);
		break;
	case CHANGE_BYTES:
		regions->regions[CHANGED - asked->first].bytes -= 64;
		break;
	case CHANGE_REMOTE:
		regions->regions[CHANGED - asked->first].remote += 64;
		break;
	case CHANGE_KIND:
		regions->regions[CHANGED - asked->first].kind = NAM_MEMORY_KINDS;
		break;
	case CHANGE_ID:
		regions->regions[CHANGED - asked->first] =
			regions->regions[CHANGED - asked->first - 1];
		break;
	case CHANGE_UNKNOWN_ID:
		regions->regions[CHANGED - asked->first].id = NAM_REGIONS_PER_SERVER + REGIONS;
		break;
	case CHANGE_TOTAL:
		regions->total--;
		break;
	case CHANGE_COUNT:
		regions->count = 0;
		break;
	case CHANGE_LENGTH:
		reply->header.body_bytes -= 8;
		break;
	default:
		reply->header.status = -NAM_E_FABRIC_PROTOCOL;
	}
}

static const struct nam_region *
region(uint32_t server, uint32_t number)
{
	return nam_region_table_find(&fixture.client->regions,
		nam_gaddr_make((uint16_t)(server * NAM_REGIONS_PER_SERVER + number), 0, 0));
}

static int
setup(void **state)
{
	struct nam_client_options options;
	char cluster[2 * FAKE_ADDRESS_BYTES];
	struct nam_diag diag;

	(void)state;
	atomic_store(&fixture.change, CHANGE_NOTHING);
	for (uint32_t i = 0; i < SERVERS; i++) {
		struct fake_server_options fake = {
			.id = i,
			.regions_count = REGIONS,
			.regions_per_page = PER_PAGE,
			.hook = i ? change : NULL,
		};

		fixture.servers[i] = fake_server_start(&fake);
	}
	(void)snprintf(cluster, sizeof(cluster), "%s,%s", fake_server_address(fixture.servers[0]),
		fake_server_address(fixture.servers[1]));
	nam_client_options_init(&options);
	options.cluster = cluster;
	assert_int_equal(nam_client_connect(&options, &fixture.client, &diag), 0);
	/* This thread takes the epoch thread's place. */
	nam__epoch_thread_stop(fixture.client);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	nam_client_close(fixture.client);
	for (uint32_t i = 0; i < SERVERS; i++)
		if (fixture.servers[i])
			fake_server_stop(fixture.servers[i]);
	return 0;
}

static void
regions_refresh__a_key_changed__IS_TAKEN(void **state)
{
	const struct nam_region *changed = region(1, CHANGED);
	const struct nam_region before = *changed;
	uint32_t asked = fake_server_requests(fixture.servers[1], NAM_RPC_REGIONS);

	(void)state;
	atomic_store(&fixture.key, nam_region_rkey(changed) + 77);
	atomic_store(&fixture.change, CHANGE_KEY);
	assert_int_equal(nam__regions_refresh(fixture.client), 0);
	assert_int_equal(fake_server_requests(fixture.servers[1], NAM_RPC_REGIONS) - asked,
		(REGIONS + PER_PAGE - 1) / PER_PAGE);
	assert_ptr_equal(region(1, CHANGED), changed);
	assert_int_equal(nam_region_rkey(changed), nam_region_rkey(&before) + 77);
	assert_int_equal(changed->bytes, before.bytes);
	assert_int_equal(changed->remote, before.remote);
	assert_int_equal(changed->server, before.server);
	for (uint32_t i = 0; i < REGIONS; i++) {
		assert_int_equal(nam_region_rkey(region(0, i)), nam_region_rkey(region(0, 0)));
		if (i != CHANGED)
			assert_int_equal(nam_region_rkey(region(1, i)), nam_region_rkey(&before));
	}
}

/* A mapping of the region, as of a server of this host: see colocated.c. */
static void
regions_refresh__a_key_of_near_memory_changed__IS_TAKEN_THERE_TOO(void **state)
{
	struct nam__server *server = &fixture.client->servers[1];
	struct nam_colocated *colocated = calloc(1,
		sizeof(*colocated) + 2 * sizeof(colocated->regions[0]));

	(void)state;
	assert_non_null(colocated);
	for (uint32_t i = 0; i < 2; i++) {
		const struct nam_region *from = region(1, CHANGED - i);
		struct nam_colocated_region *to = &colocated->regions[colocated->count++];

		to->remote = from->remote;
		to->bytes = from->bytes;
		to->rkey = nam_region_rkey(from);
		to->base = mmap(NULL, to->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(to->base != MAP_FAILED);
	}
	free(server->colocated);	/* without regions */
	server->colocated = colocated;
	atomic_store(&fixture.key, 4711);
	atomic_store(&fixture.change, CHANGE_KEY);
	assert_int_equal(nam__regions_refresh(fixture.client), 0);
	assert_int_equal(colocated->regions[0].rkey, 4711);
	assert_int_equal(colocated->regions[1].rkey, nam_region_rkey(region(1, CHANGED - 1)));
}

static void
regions_refresh__malformed_announcement__PROTOCOL_AND_THE_TABLE_IS_AS_BEFORE(void **state)
{
	(void)state;
	for (int what = CHANGE_BYTES; what < CHANGES_COUNT; what++) {
		const struct nam_region before = *region(1, CHANGED);

		atomic_store(&fixture.change, what);
		assert_int_equal(nam__regions_refresh(fixture.client), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(region(1, CHANGED)->bytes, before.bytes);
		assert_int_equal(region(1, CHANGED)->remote, before.remote);
		assert_int_equal(nam_region_rkey(region(1, CHANGED)), nam_region_rkey(&before));
		assert_null(region(1, REGIONS));
	}
	atomic_store(&fixture.change, CHANGE_NOTHING);
	assert_int_equal(nam__regions_refresh(fixture.client), 0);
}

static void
regions_refresh__a_server_is_gone__OTHERS_ARE_ASKED(void **state)
{
	(void)state;
	fake_server_stop(fixture.servers[0]);
	fixture.servers[0] = NULL;
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&fixture.key, 1000 + i);
		atomic_store(&fixture.change, CHANGE_KEY);
		assert_int_equal(nam__regions_refresh(fixture.client), 0);
		assert_int_equal(nam_region_rkey(region(1, CHANGED)), 1000 + i);
	}
}

struct reader {
	atomic_bool stop, looks;
	uint64_t wrong;
};

static void
reader_main(void *arg)
{
	struct reader *reader = arg;
	uint32_t last = 0;

	while (!atomic_load(&reader->stop)) {
		const struct nam_region *at = region(1, CHANGED);
		uint32_t key = nam_region_rkey(at);

		atomic_store(&reader->looks, true);
		reader->wrong += key < last || at->bytes != region(1, 0)->bytes;
		last = key;
	}
}

static void
regions_refresh__while_a_thread_reads_the_table__IT_SEES_KEYS_IN_THEIR_ORDER(void **state)
{
	struct reader reader = { .wrong = 0 };
	struct nam_thread *thread;

	(void)state;
	assert_int_equal(nam_thread_start("reader", reader_main, &reader, &thread), 0);
	/* A busy machine may let it wait for longer than all the rounds take. */
	while (!atomic_load(&reader.looks))
		nam_yield();
	atomic_store(&fixture.change, CHANGE_KEY);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		atomic_store(&fixture.key, nam_region_rkey(region(1, 0)) + i);
		assert_int_equal(nam__regions_refresh(fixture.client), 0);
	}
	atomic_store(&reader.stop, true);
	nam_thread_join(thread);
	assert_int_equal(reader.wrong, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(regions_refresh__a_key_changed__IS_TAKEN),
		TEST(regions_refresh__a_key_of_near_memory_changed__IS_TAKEN_THERE_TOO),
		TEST(regions_refresh__malformed_announcement__PROTOCOL_AND_THE_TABLE_IS_AS_BEFORE),
		TEST(regions_refresh__a_server_is_gone__OTHERS_ARE_ASKED),
		TEST(regions_refresh__while_a_thread_reads_the_table__IT_SEES_KEYS_IN_THEIR_ORDER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
