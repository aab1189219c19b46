/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stray_writes_test.c -- a client with a bug writes anywhere, while another works with every kind
 * of object.  Memory servers go on: an operation ends with an answer or a named error, and
 * structures in private and in read-only memory give right answers.
 *
 * NAM_TEST_SECONDS in the environment: again and again for so long, each time with other writes,
 * from NAM_TEST_SEED on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/layout.h"
#include "compute/client/client_internal.h"
#include "compute/remote.h"
#include "kv/kv.h"
#include "tests/lib/kv_fixture.h"
#include "txn/records.h"

#define MIB (1ull << 20)
#define SERVERS 2u
#define KEYS 500u
#define OPERATIONS 600u
#define WRITES_BETWEEN 4u
#define STRAY_BYTES_MAX 128u
#define PUBLIC_INDEXES 2u	/* fine-grained and hybrid: their leaves are public */
#define STORES 4u
#define LONG_BYTES 40000u

TEST_CLUSTER_OF_TWO(SERVERS, 32 * MIB, 4 * MIB, 20)

static struct nam_index *coarse, *indexes[PUBLIC_INDEXES];
static struct nam_records *stores[STORES];
static struct nam_kv *pairs, *read_pairs;	/* the latter: clients READ its buckets */
static uint64_t seed;
static uint64_t read_only_writes;	/* that were refused */

/* A cluster whose epoch is 0 refuses new clients. */
static struct member
join(const char *name)
{
	const struct nam_gaddr at = nam_gaddr_make(0, NAM_META_EPOCH_OFFSET, 0);
	uint64_t epoch;

	assert_int_equal(nam_read_await(me.worker, at, &epoch, sizeof(epoch)), 0);
	if (!epoch)
		assert_int_equal(nam_fetch_add_await(me.worker, at, 1, &epoch), 0);
	return member_join(cluster, name, 20);
}

static bool
is_read_only(const struct nam_region *region)
{
	return region &&
	       atomic_load_explicit(&region->kind, memory_order_relaxed) == NAM_MEMORY_READ_ONLY;
}

/*
 * 8 to 128 random bytes, most of them where blocks are: in front of a public region.  One of 16
 * goes in front of any region, read-only ones too.
 */
static void
stray_write(struct nam_rng *rng)
{
	uint32_t regions = nam_rng_below(rng, 16) ? 3 : 8;
	uint32_t id = (uint32_t)nam_rng_below(rng, SERVERS) * NAM_REGIONS_PER_SERVER +
		(uint32_t)nam_rng_below(rng, regions);
	const struct nam_region *region = nam_region_table_find(&other.client->regions,
		nam_gaddr_make((uint16_t)id, 0, 0));
	uint64_t noise[STRAY_BYTES_MAX / sizeof(uint64_t)], at;
	uint32_t bytes = 8u + (uint32_t)nam_rng_below(rng, STRAY_BYTES_MAX - 7);
	int rc;

	for (unsigned i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
		noise[i] = nam_rng_below(rng, 4) ? nam_rng_next(rng) : nam_rng_below(rng, 16);
	if (!region)
		return;
	at = nam_rng_below(rng, nam_rng_below(rng, 2) ? 512u << 10 : region->bytes - bytes);
	at -= nam_rng_below(rng, 2) ? at % 8 : 0;
	rc = nam_write_await(other.worker, nam_gaddr_make((uint16_t)id, at, 0), noise, bytes);
	if (is_read_only(region))
		read_only_writes += rc == -NAM_E_FABRIC_ACCESS;
	assert_true(!rc || nam_err_is(rc, NAM_E_FABRIC));
	if (!rc) {
		assert_false(is_read_only(region));
		return;
	}
	/* The region is private or read-only; where that is refused the connection is lost. */
	member_leave(&other);
	other = join("other");
}

/* An answer, or an error with a name.  A memory server that is gone is neither. */
static void
check_outcome(const char *what, int rc)
{
	if (!rc)
		return;
	if (rc > -NAM_E_RESTART || nam_err_is(rc, NAM_E_FABRIC))
		fail_msg("%s: %s: %s", what, nam_err_name(rc), nam_worker_diag(me.worker));
}

static void
use_private(struct nam_rng *rng)
{
	uint32_t n = (uint32_t)nam_rng_below(rng, KEYS), bytes;
	struct nam_kv *kv = nam_rng_below(rng, 2) ? pairs : read_pairs;
	uint64_t payload, value;

	assert_int_equal(nam_index_lookup(me.worker, coarse, tree_key(coarse, n), &payload), 0);
	assert_int_equal(payload, n * 10 + 1);
	assert_int_equal(nam_index_update(me.worker, coarse, tree_key(coarse, n), payload), 0);
	assert_int_equal(nam_kv_get(me.worker, kv, &n, sizeof(n), &value, sizeof(value), &bytes),
		0);
	assert_int_equal(value, n);
	assert_int_equal(nam_kv_put(me.worker, kv, &n, sizeof(n), &value, sizeof(value)), 0);
}

/* Also values that are longer than a message and pass through blocks of clients. */
static void
use_pairs(struct nam_kv *kv, struct nam_rng *rng)
{
	static uint8_t value[LONG_BYTES];
	uint32_t n = KEYS + (uint32_t)nam_rng_below(rng, KEYS);
	uint32_t bytes = (uint32_t)nam_rng_below(rng, nam_rng_below(rng, 8) ? 60 : LONG_BYTES);

	switch (nam_rng_below(rng, 3)) {
	case 0:
		check_outcome("kv put", nam_kv_put(me.worker, kv, &n, sizeof(n), value, bytes));
		break;
	case 1:
		check_outcome("kv get", nam_kv_get(me.worker, kv, &n, sizeof(n), value,
		sizeof(value),
			&bytes));
		break;
	default:
		check_outcome("kv delete", nam_kv_delete(me.worker, kv, &n, sizeof(n)));
	}
}

static void
use_index(struct nam_index *index, struct nam_rng *rng)
{
	const void *key = tree_key(index, nam_rng_below(rng, 2 * KEYS));
	uint64_t payload;

	switch (nam_rng_below(rng, 4)) {
	case 0:
		check_outcome("lookup", nam_index_lookup(me.worker, index, key, &payload));
		break;
	case 1:
		check_outcome("insert", nam_index_insert(me.worker, index, key, 1));
		break;
	case 2:
		check_outcome("update", nam_index_update(me.worker, index, key, 2));
		break;
	default:
		check_outcome("delete", nam_index_delete(me.worker, index, key));
	}
}

static void
use_records(struct nam_records *records, struct nam_rng *rng)
{
	static char value[1024], names[3][16];
	struct nam_record_get gets[3];
	struct nam_record_put puts[3];
	static uint8_t rooms[3][sizeof(value)];
	uint32_t first = (uint32_t)nam_rng_below(rng, KEYS);

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t key_bytes = (uint32_t)snprintf(names[i], sizeof(names[i]), "%u",
			(first + i) % 100);

		gets[i] = (struct nam_record_get){ .key = names[i], .key_bytes = key_bytes,
			.value = rooms[i], .size = sizeof(rooms[i]) };
		puts[i] = (struct nam_record_put){ .key = names[i], .key_bytes = key_bytes,
			.value = nam_rng_below(rng, 8) ? value : NULL,
			.value_bytes = (uint32_t)nam_rng_below(rng, sizeof(value)) };
	}
	if (nam_rng_below(rng, 2))
		check_outcome("put_all", nam_records_put_all(me.worker, records, puts, 3, NULL));
	else
		check_outcome("get_all", nam_records_get_all(me.worker, records, gets, 3));
}

static struct nam_index *
filled_index(const char *name, enum nam_index_design design)
{
	struct nam_index_options options;
	struct nam_index *index;

	nam_index_options_init(&options);
	options.design = design;
	options.node_bytes = 256;
	assert_int_equal(nam_index_create(me.worker, name, &options), 0);
	index = tree_open(me.worker, name, MIB);
	tree_fill(me.worker, index, 0, KEYS, 1);
	return index;
}

static void
fill(void)
{
	static const struct nam_records_options kinds[STORES] = {
		{ NAM_RAMP_FAST, NAM_RECORDS_ONESIDED },
		{ NAM_RAMP_FAST, NAM_RECORDS_SERVED },
		{ NAM_RAMP_SMALL, NAM_RECORDS_SERVED },
		{ NAM_RAMP_LOCKING, NAM_RECORDS_SERVED },
	};
	struct nam_kv_options options;
	char name[16];

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.memory_bytes = 2 * MIB;
	options.partitions = 2;
	pairs = store_new(&me, "pairs", &options);
	options.engine = NAM_KV_CUCKOO;
	options.onesided = true;
	read_pairs = store_new(&me, "read", &options);
	for (uint32_t n = 0; n < KEYS; n++) {
		uint64_t value = n;

		assert_int_equal(nam_kv_put(me.worker, pairs, &n, sizeof(n), &value,
			sizeof(value)), 0);
		assert_int_equal(nam_kv_put(me.worker, read_pairs, &n, sizeof(n), &value,
			sizeof(value)), 0);
	}
	coarse = filled_index("coarse", NAM_DESIGN_COARSE);
	indexes[0] = filled_index("fine", NAM_DESIGN_FINE);
	indexes[1] = filled_index("hybrid", NAM_DESIGN_HYBRID);
	for (uint32_t i = 0; i < STORES; i++) {
		(void)snprintf(name, sizeof(name), "records%u", i);
		assert_int_equal(nam_records_create(me.worker, name, &kinds[i]), 0);
		assert_int_equal(nam_records_open(me.worker, name, MIB, &stores[i]), 0);
	}
}

static int
count_name(void *arg, const char *name)
{
	(void)name;
	(*(uint32_t *)arg)++;
	return 0;
}

static void
stray_writes__of_another_client__ANSWERS_OR_NAMED_ERRORS(void **state)
{
	uint64_t operations = test_scaled(OPERATIONS);
	struct nam_kv *again;
	struct member fresh;
	uint32_t names = 0;
	struct nam_rng rng = nam_rng_seed(seed);

	(void)state;
	fill();
	for (uint64_t at = 0; at < operations; at++) {
		for (unsigned i = 0; i < WRITES_BETWEEN; i++)
			stray_write(&rng);
		use_private(&rng);
		use_index(indexes[at % PUBLIC_INDEXES], &rng);
		use_records(stores[at % STORES], &rng);
		use_pairs(at % 2 ? pairs : read_pairs, &rng);
	}
	tree_check(me.worker, coarse, KEYS);
	nam_index_close(coarse);
	/* The catalog and membership are not in public memory. */
	fresh = join("fresh");
	assert_int_equal(nam_index_list(fresh.worker, count_name, &names), 0);
	assert_int_equal(names, 1 + PUBLIC_INDEXES + STORES);
	assert_int_equal(nam_kv_open(fresh.worker, "pairs", &again), 0);
	nam_kv_close(again);
	member_leave(&fresh);
	for (uint32_t i = 0; i < PUBLIC_INDEXES; i++)
		nam_index_close(indexes[i]);
	for (uint32_t i = 0; i < STORES; i++)
		nam_records_close(stores[i]);
	nam_kv_close(pairs);
	nam_kv_close(read_pairs);
	assert_true(read_only_writes > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stray_writes__of_another_client__ANSWERS_OR_NAMED_ERRORS),
	};

	const char *seconds = getenv("NAM_TEST_SECONDS"), *first = getenv("NAM_TEST_SEED");
	uint64_t until = nam_now_ns() + (seconds ? strtoull(seconds, NULL, 10) : 0) * 1000000000ull;
	int failed;

	seed = first ? strtoull(first, NULL, 10) : 1;
	do {
		failed = cmocka_run_group_tests(tests, start, stop);
		seed++;
	} while (!failed && nam_now_ns() < until);
	return failed;
}
