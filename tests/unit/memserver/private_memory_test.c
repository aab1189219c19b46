/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_memory_test.c -- structures that memory servers execute lie where no client can write.  A
 * client overwrites all memory that it can, and they stay as they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/layout.h"
#include "compute/client/client_internal.h"
#include "compute/remote.h"
#include "kv/kv.h"
#include "tests/lib/kv_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 2u
#define KEYS 2000u
#define VALUE_BYTES 200u

TEST_CLUSTER_OF_TWO(SERVERS, 8 * MIB, 1 * MIB, 200)

/* Random bytes over all regions that the other client knows, but for epochs. */
static void
overwrite_everything(void)
{
	const struct nam_region_table *table = &other.client->regions;
	static uint64_t noise[512];
	uint64_t state = 88172645463325252u;

	for (uint32_t id = 0; id < SERVERS * NAM_REGIONS_PER_SERVER; id++) {
		const struct nam_region *region = nam_region_table_find(table,
			nam_gaddr_make((uint16_t)id, 0, 0));

		for (uint64_t at = id ? 0 : NAM_META_BYTES; region && at < region->bytes;
			at += sizeof(noise)) {
			uint64_t left = region->bytes - at;
			int rc;

			for (unsigned i = 0; i < sizeof(noise) / sizeof(noise[0]); i++) {
				state ^= state << 13;
				state ^= state >> 7;
				state ^= state << 17;
				noise[i] = state;
			}
			rc = nam_write_await(other.worker, nam_gaddr_make((uint16_t)id, at, 0),
				noise, (uint32_t)(left < sizeof(noise) ? left : sizeof(noise)));
			if (!rc)
				continue;
			/* Private or read-only: if that is refused, the connection is lost. */
			assert_true(nam_err_is(rc, NAM_E_FABRIC));
			member_leave(&other);
			other = member_join(cluster, "other", 200);
			table = &other.client->regions;
			break;
		}
	}
}

/* @onesided	clients READ its buckets */
static struct nam_kv *
filled_store(const char *name, bool onesided)
{
	struct nam_kv_options options;
	uint8_t value[VALUE_BYTES];
	struct nam_kv *kv;

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.memory_bytes = 2 * MIB;
	options.partitions = 2;
	options.onesided = onesided;
	options.engine = onesided ? NAM_KV_CUCKOO : NAM_KV_CHAINED;
	kv = store_new(&me, name, &options);
	for (uint32_t n = 0; n < KEYS; n++) {
		memset(value, (int)n, sizeof(value));
		assert_int_equal(nam_kv_put(me.worker, kv, &n, sizeof(n), value, sizeof(value)),
			0);
	}
	return kv;
}

static void
overwritten__by_a_client__TREES_AND_STORES_ARE_AS_BEFORE(void **state)
{
	struct nam_index_options options;
	struct nam_index *index;
	uint8_t value[VALUE_BYTES];
	struct nam_kv *stores[2];
	uint64_t payload;
	uint32_t bytes;

	(void)state;
	nam_index_options_init(&options);
	options.design = NAM_DESIGN_COARSE;
	options.node_bytes = 256;
	assert_int_equal(nam_index_create(me.worker, "keys", &options), 0);
	index = tree_open(me.worker, "keys", 0);
	tree_fill(me.worker, index, 0, KEYS, 1);
	stores[0] = filled_store("pairs", false);
	stores[1] = filled_store("read", true);

	overwrite_everything();
	for (uint32_t n = 0; n < KEYS; n++) {
		assert_int_equal(nam_index_lookup(me.worker, index, tree_key(index, n), &payload),
			0);
		assert_int_equal(payload, n * 10 + 1);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(nam_kv_get(me.worker, stores[i], &n, sizeof(n), value,
				sizeof(value), &bytes), 0);
			assert_int_equal(bytes, VALUE_BYTES);
			assert_int_equal(value[n % VALUE_BYTES], n & 0xff);
		}
	}
	tree_fill(me.worker, index, KEYS, 2 * KEYS, 1);
	tree_check(me.worker, index, 2 * KEYS);
	nam_index_close(index);
	for (unsigned i = 0; i < 2; i++)
		nam_kv_close(stores[i]);
	assert_int_equal(nam_kv_drop(me.worker, "pairs"), 0);
	assert_int_equal(nam_kv_drop(me.worker, "read"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overwritten__by_a_client__TREES_AND_STORES_ARE_AS_BEFORE),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
