/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_test.c -- key-value stores over three memory servers: names, pairs, many pairs, figures, and
 * what each error of kv.h looks like.  Once more for each RPC transport.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/race.h"
#include "common/rpc/kv_rpc.h"
#include "compute/client/client_internal.h"
#include "compute/remote.h"
#include "kv/kv.h"
#include "tests/lib/kv_fixture.h"

#define MIB (1ull << 20)
#define SERVERS 3u

TEST_CLUSTER_OF_TWO(SERVERS, 32 * MIB, 4 * MIB, 200)

/* The engine that the environment names. */
static void
options_init(struct nam_kv_options *options)
{
	const char *engine = getenv("NAM_TEST_ENGINE");

	nam_kv_options_init(options);
	if (engine)
		options->engine = NAM_KV_CUCKOO;
	options->onesided = engine && !strcmp(engine, "onesided");
}

static struct nam_kv *
make(const char *name, enum nam_kv_mode mode, uint64_t bytes, uint32_t partitions)
{
	struct nam_kv_options options;

	options_init(&options);
	options.mode = mode;
	options.memory_bytes = bytes;
	options.partitions = partitions;
	return store_new(&me, name, &options);
}

/* ---- names --------------------------------------------------------------------------------- */

static void
create__options_that_are_none__EINVAL_SAYS_WHY(void **state)
{
	struct nam_kv_options options;
	char name[100];

	(void)state;
	options_init(&options);
	assert_int_equal(nam_kv_create(me.worker, "", &options), -EINVAL);
	member_says(&me, "1 to 63 bytes");
	memset(name, 'x', 64);
	name[64] = '\0';
	assert_int_equal(nam_kv_create(me.worker, name, &options), -EINVAL);
	assert_int_equal(nam_kv_create(me.worker, "a b", &options), -EINVAL);
	member_says(&me, "byte 2");
	options.mode = (enum nam_kv_mode)7;
	assert_int_equal(nam_kv_create(me.worker, "x", &options), -EINVAL);
	member_says(&me, "mode 7");
	options.mode = NAM_KV_STORE;
	options.partitions = NAM_KV_PARTITIONS_MAX + 1;
	assert_int_equal(nam_kv_create(me.worker, "x", &options), -EINVAL);
	member_says(&me, "partitions");
	options.partitions = 2;
	options.memory_bytes = SERVERS * (2 * NAM_KV_PARTITION_BYTES_MAX + 1);
	assert_int_equal(nam_kv_create(me.worker, "x", &options), -EINVAL);
	member_says(&me, "each has 68719476736 at most");
	options.memory_bytes -= SERVERS;
	assert_int_equal(nam_kv_create(me.worker, "x", &options), -NAM_E_REMOTE_FULL);
	options.partitions = 4;
	options.memory_bytes = 4 * SERVERS * NAM_KV_PARTITION_BYTES_MIN - 1;
	assert_int_equal(nam_kv_create(me.worker, "x", &options), -EINVAL);
	member_says(&me, "need 786432 at least");
	options.memory_bytes++;
	assert_int_equal(nam_kv_create(me.worker, "x", &options), 0);
	assert_int_equal(nam_kv_drop(me.worker, "x"), 0);
}

static void
create__more_than_there_is__REMOTE_FULL_AND_ALL_IS_GIVEN_BACK(void **state)
{
	struct nam_kv_options options;
	struct nam_kv *kv;
	uint64_t before = member_sees_used(&me);

	(void)state;
	options_init(&options);
	options.memory_bytes = 82 * MIB;
	options.partitions = 1;
	/* The first region of server 0 is public, and each one has room for less than its size. */
	assert_int_equal(nam_kv_create(me.worker, "huge", &options), 0);
	assert_int_equal(nam_kv_drop(me.worker, "huge"), 0);
	options.memory_bytes = 97 * MIB;
	assert_int_equal(nam_kv_create(me.worker, "huge", &options), -NAM_E_REMOTE_FULL);
	member_says(&me, "store 'huge'");
	assert_int_equal(nam_kv_open(me.worker, "huge", &kv), -NAM_E_NOINDEX);
	member_says(&me, "no store 'huge'");
	assert_int_equal(member_sees_used(&me), before);
}

static int
note_name(void *arg, const char *name)
{
	strcat(strcat(arg, name), " ");
	return 0;
}

static int
stop_at_once(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return -ECANCELED;
}

static void
names__of_stores_and_indexes__ARE_ONE_SPACE_AND_TOLD_APART(void **state)
{
	struct nam_kv *kv = make("b", NAM_KV_CACHE, MIB, 0);
	struct nam_kv *again;
	struct nam_index_options options;
	struct nam_kv_options kv_options;
	struct nam_index *index;
	struct nam_server_status status;
	char names[200] = "";

	(void)state;
	nam_index_options_init(&options);
	options_init(&kv_options);
	assert_int_equal(nam_index_create(me.worker, "a", &options), 0);
	assert_int_equal(nam_index_create(me.worker, "b", &options), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_kv_create(me.worker, "a", &kv_options), -NAM_E_INDEX_EXISTS);
	member_says(&me, "the name 'a' is taken already: open what has it, drop that");
	assert_int_equal(nam_kv_open(me.worker, "a", &again), -NAM_E_KIND);
	member_says(&me, "'a' is an index");
	assert_int_equal(nam_kv_drop(me.worker, "a"), -NAM_E_KIND);
	assert_int_equal(nam_index_open(me.worker, "b", 0, &index), -NAM_E_KIND);
	member_says(&me, "'b' is a key-value store");
	assert_int_equal(nam_index_drop(me.worker, "b"), -NAM_E_KIND);
	assert_int_equal(nam_kv_open(me.worker, "c", &again), -NAM_E_NOINDEX);
	assert_int_equal(nam_kv_drop(me.worker, "c"), -NAM_E_NOINDEX);
	assert_int_equal(nam_kv_list(me.worker, note_name, names), 0);
	assert_string_equal(names, "b ");
	assert_int_equal(nam_kv_list(me.worker, stop_at_once, NULL), -ECANCELED);
	names[0] = '\0';
	assert_int_equal(nam_index_list(me.worker, note_name, names), 0);
	assert_string_equal(names, "a ");
	assert_int_equal(nam_server_status_get(me.worker, 0, &status), 0);
	assert_int_equal(status.indexes, 1);
	assert_int_equal(status.stores, 1);
	assert_int_equal(nam_index_drop(me.worker, "a"), 0);
	store_end(&me, "b", kv);
}

static void
store__its_creator_has_left__IS_THERE(void **state)
{
	struct member creator = member_join(cluster, "creator", 200);
	struct nam_kv_options options;
	struct nam_kv *kv;
	char value[10];
	uint32_t bytes;

	(void)state;
	options_init(&options);
	options.mode = NAM_KV_STORE;
	options.memory_bytes = 3 * MIB;
	options.partitions = 5;
	assert_int_equal(nam_kv_create(creator.worker, "left", &options), 0);
	assert_int_equal(nam_kv_open(creator.worker, "left", &kv), 0);
	assert_int_equal(nam_kv_put(creator.worker, kv, "key", 3, "value", 5), 0);
	nam_kv_close(kv);
	member_leave(&creator);
	assert_int_equal(nam_kv_open(me.worker, "left", &kv), 0);
	assert_int_equal(nam_kv_properties(kv)->mode, NAM_KV_STORE);
	assert_int_equal(nam_kv_properties(kv)->partitions, 5);
	assert_int_equal(nam_kv_properties(kv)->memory_bytes, 3 * MIB);
	assert_int_equal(nam_kv_get(me.worker, kv, "key", 3, value, 10, &bytes), 0);
	assert_int_equal(bytes, 5);
	assert_memory_equal(value, "value", 5);
	store_end(&me, "left", kv);
}

static void
drop__others_have_it_open__DROPPED_AND_MEMORY_COMES_BACK(void **state)
{
	uint64_t before = member_sees_used(&me);
	struct nam_kv *kv = make("gone", NAM_KV_CACHE, 6 * MIB, 0), *theirs, *again;
	struct nam_kv_item item = { .key = "k", .key_bytes = 1 };
	struct nam_kv_stat stat;
	uint32_t bytes;

	(void)state;
	assert_int_equal(nam_kv_open(other.worker, "gone", &theirs), 0);
	assert_true(member_sees_used(&me) >= before + 6 * MIB);
	store_end(&me, "gone", kv);
	assert_int_equal(nam_kv_put(other.worker, theirs, "k", 1, "v", 1), -NAM_E_DROPPED);
	assert_int_equal(nam_kv_get(other.worker, theirs, "k", 1, NULL, 0, &bytes), -NAM_E_DROPPED);
	assert_int_equal(nam_kv_delete(other.worker, theirs, "k", 1), -NAM_E_DROPPED);
	assert_int_equal(nam_kv_get_many(other.worker, theirs, &item, 1), -NAM_E_DROPPED);
	assert_int_equal(nam_kv_stat(other.worker, theirs, &stat), -NAM_E_DROPPED);
	/* Another of that name is another. */
	again = make("gone", NAM_KV_CACHE, 6 * MIB, 0);
	assert_int_equal(nam_kv_put(other.worker, theirs, "k", 1, "v", 1), -NAM_E_DROPPED);
	store_end(&me, "gone", again);
	nam_kv_close(theirs);
	for (unsigned i = 0; i < 100 && member_sees_used(&me) > before; i++)
		;
	assert_int_equal(member_sees_used(&me), before);
}

static void
open__a_memory_server_has_nothing_of_it__LOST_until_dropped(void **state)
{
	struct nam_kv *kv = make("lost", NAM_KV_CACHE, 6 * MIB, 0), *again;
	struct nam_rpc_catalog_entry request = { .name = "lost" };
	struct nam_rpc_catalog_entry entry;
	struct nam_rpc_kv_request drop;
	uint32_t bytes = sizeof(entry), none = 0;

	(void)state;
	assert_int_equal(nam_rpc_call(me.worker, 0, NAM_RPC_CATALOG_GET, &request, sizeof(request),
		&entry, &bytes), 0);
	drop.store = nam_catalog_entry_value(entry.superblock);
	assert_int_equal(nam_rpc_call(me.worker, 1, NAM_RPC_KV_DROP, &drop, sizeof(drop), NULL,
		&none), 0);
	assert_int_equal(nam_kv_open(me.worker, "lost", &again), -NAM_E_LOST);
	member_says(&me, "Drop it");
	store_end(&me, "lost", kv);
}

/* The second memory server joins: so the store lies on the others, and its parts are 0 and 2. */
static void
open__a_server_was_added_since__FINDS_THE_PARTS(void **state)
{
	struct nam__server *server = &me.client->servers[me.client->slot_of_id[1]];
	struct nam_server_status status;
	struct nam_kv *kv, *theirs;
	struct nam_kv_stat stat;
	char value[1];
	uint32_t bytes;

	(void)state;
	server->usable = server->joined = false;
	kv = make("older", NAM_KV_STORE, 6 * MIB, 0);
	server->usable = server->joined = true;
	assert_int_equal(nam_kv_open(other.worker, "older", &theirs), 0);
	for (uint8_t key = 0; key < 100; key++)
		assert_int_equal(nam_kv_put(me.worker, kv, &key, 1, &key, 1), 0);
	for (uint8_t key = 0; key < 100; key++) {
		assert_int_equal(nam_kv_get(other.worker, theirs, &key, 1, value, 1, &bytes), 0);
		assert_int_equal(value[0], key);
	}
	assert_int_equal(nam_kv_stat(other.worker, theirs, &stat), 0);
	assert_int_equal(stat.servers, SERVERS - 1);
	assert_int_equal(stat.keys, 100);
	assert_int_equal(nam_kv_properties(theirs)->memory_bytes, 6 * MIB);
	nam_kv_close(theirs);
	nam_kv_close(kv);
	assert_int_equal(nam_kv_drop(other.worker, "older"), 0);
	for (uint32_t slot = 0; slot < SERVERS; slot++) {
		assert_int_equal(nam_server_status_get(me.worker, slot, &status), 0);
		assert_int_equal(status.stores, 0);
	}
}

/* ---- pairs --------------------------------------------------------------------------------- */

static void
pair__of_any_bytes__IS_WHAT_WAS_PUT(void **state)
{
	struct nam_kv *kv = make("pairs", NAM_KV_STORE, 12 * MIB, 0);
	uint8_t key[NAM_KV_KEY_BYTES_MAX], value[NAM_KV_MESSAGE_BYTES_MAX], got[4000];
	uint32_t bytes;

	(void)state;
	for (uint32_t n = 1; n <= NAM_KV_KEY_BYTES_MAX; n++) {
		uint32_t length = n * 15 % (NAM_KV_MESSAGE_BYTES_MAX + 1);

		memset(key, (int)n, n);
		memset(value, (int)(n ^ 0x55), length);
		assert_int_equal(nam_kv_put(me.worker, kv, key, n, value, length), 0);
		assert_int_equal(nam_kv_put(me.worker, kv, key, n, value, length), 0);
	}
	for (uint32_t n = 1; n <= NAM_KV_KEY_BYTES_MAX; n++) {
		uint32_t length = n * 15 % (NAM_KV_MESSAGE_BYTES_MAX + 1);

		memset(key, (int)n, n);
		memset(value, (int)(n ^ 0x55), length);
		assert_int_equal(nam_kv_get(me.worker, kv, key, n, got, sizeof(got), &bytes), 0);
		assert_int_equal(bytes, length);
		assert_memory_equal(got, value, length);
		assert_int_equal(nam_kv_get(me.worker, kv, key, n, got, length, &bytes), 0);
		assert_int_equal(nam_kv_delete(me.worker, kv, key, n), 0);
		assert_int_equal(nam_kv_delete(me.worker, kv, key, n), -NAM_E_NOTFOUND);
		assert_int_equal(nam_kv_get(me.worker, kv, key, n, got, sizeof(got), &bytes),
			-NAM_E_NOTFOUND);
	}
	/* The longest of both in a message; and a value of nothing, which is not no value. */
	assert_int_equal(nam_kv_put(me.worker, kv, key, NAM_KV_KEY_BYTES_MAX, value,
		NAM_KV_MESSAGE_BYTES_MAX), 0);
	assert_int_equal(nam_kv_get(me.worker, kv, key, NAM_KV_KEY_BYTES_MAX, got, sizeof(got),
		&bytes), 0);
	assert_int_equal(bytes, NAM_KV_MESSAGE_BYTES_MAX);
	assert_int_equal(nam_kv_put(me.worker, kv, key, 1, NULL, 0), 0);
	assert_int_equal(nam_kv_get(me.worker, kv, key, 1, got, 0, &bytes), 0);
	assert_int_equal(bytes, 0);
	store_end(&me, "pairs", kv);
}

static void
lengths__beyond_the_limits__LIMIT_SAYS_WHICH(void **state)
{
	struct nam_kv *kv = make("limits", NAM_KV_STORE, MIB, 0);
	uint8_t bytes[4000] = { 0 };
	struct nam_kv_item item = { .key = bytes, .key_bytes = 256 };
	uint32_t got = 99;

	(void)state;
	assert_int_equal(nam_kv_put(me.worker, kv, bytes, 0, bytes, 1), -NAM_E_LIMIT);
	member_says(&me, "a key of 0 bytes; keys have 1 to 255");
	assert_int_equal(nam_kv_put(me.worker, kv, bytes, 256, bytes, 1), -NAM_E_LIMIT);
	assert_int_equal(nam_kv_get(me.worker, kv, bytes, 0, bytes, 1, &got), -NAM_E_LIMIT);
	assert_int_equal(nam_kv_delete(me.worker, kv, bytes, 256), -NAM_E_LIMIT);
	assert_int_equal(nam_kv_get_many(me.worker, kv, &item, 1), 0);
	assert_int_equal(item.rc, -NAM_E_LIMIT);
	assert_int_equal(nam_kv_put(me.worker, kv, bytes, 1, bytes, NAM_KV_VALUE_BYTES_MAX + 1),
		-NAM_E_LIMIT);
	member_says(&me, "a value of 1048577 bytes; values have up to 1048576");
	assert_int_equal(nam_kv_put(me.worker, kv, bytes, 1, bytes, 100), 0);
	assert_int_equal(nam_kv_get(me.worker, kv, bytes, 1, bytes, 99, &got), -NAM_E_LIMIT);
	member_says(&me, "a value of 100 bytes, and room for 99");
	assert_int_equal(got, 99);
	store_end(&me, "limits", kv);
}

static void
put__no_room__REFUSED_BY_A_STORE_AND_EVICTED_BY_A_CACHE(void **state)
{
	static const enum nam_kv_mode modes[] = { NAM_KV_STORE, NAM_KV_CACHE };

	(void)state;
	for (unsigned m = 0; m < 2; m++) {
		struct nam_kv *kv = make("full", modes[m], SERVERS * NAM_KV_PARTITION_BYTES_MIN, 0);
		uint64_t n, there = 0, got;
		struct nam_kv_stat stat;
		uint32_t bytes;
		int rc = 0;

		/* A cell, or a slot, each: 512, or 496, in each of three partitions. */
		for (n = 0; n < 4000; n++) {
			rc = nam_kv_put(me.worker, kv, &n, sizeof(n), &n, sizeof(n));
			if (rc)
				break;
		}
		assert_int_equal(rc, modes[m] == NAM_KV_STORE ? -NAM_E_REMOTE_FULL : 0);
		if (rc)
			member_says(&me, "has no room for a pair of 16 bytes");
		for (uint64_t i = 0; i < n; i++) {
			rc = nam_kv_get(me.worker, kv, &i, sizeof(i), &got, sizeof(got), &bytes);
			if (rc == -NAM_E_NOTFOUND && modes[m] == NAM_KV_CACHE)
				continue;
			assert_int_equal(rc, 0);
			assert_int_equal(got, i);
			there++;
		}
		assert_int_equal(nam_kv_stat(me.worker, kv, &stat), 0);
		assert_int_equal(stat.servers, SERVERS);
		assert_int_equal(stat.keys, there);
		assert_int_equal(stat.bytes, there * 16);
		assert_int_equal(stat.used_bytes, there * 64);
		assert_int_equal(stat.room_bytes, nam_kv_properties(kv)->engine == NAM_KV_CUCKOO ?
			SERVERS * NAM_KV_PARTITION_BYTES_MIN : SERVERS * 512 * 64);
		assert_int_equal(stat.puts, n);
		/* READs do not count, but for the sample of a cache. */
		assert_true(stat.hits == there || (nam_kv_properties(kv)->onesided &&
			stat.hits < there / 10));
		assert_int_equal(stat.misses, n - there);
		assert_int_equal(stat.evictions, n - there);
		assert_int_equal(stat.refusals, modes[m] == NAM_KV_STORE);
		if (modes[m] == NAM_KV_CACHE && nam_kv_properties(kv)->engine == NAM_KV_CHAINED)
			assert_int_equal(there, SERVERS * 512);
		if (modes[m] == NAM_KV_CACHE && nam_kv_properties(kv)->engine == NAM_KV_CUCKOO)
			assert_true(there > stat.slots * 95 / 100);
		store_end(&me, "full", kv);
	}
}

/* ---- many ---------------------------------------------------------------------------------- */

#define ITEMS 2500u

static void
get_many__some_there_some_twice__ANSWERS_IN_THE_CALLERS_ORDER(void **state)
{
	struct nam_kv *kv = make("many", NAM_KV_STORE, 30 * MIB, 0);
	struct nam_kv_item *items = calloc(ITEMS, sizeof(*items));
	uint64_t *keys = calloc(ITEMS, sizeof(*keys));
	uint8_t *values = malloc(ITEMS * 1000ul), value[1000];

	(void)state;
	assert_true(items && keys && values);
	for (uint64_t i = 0; i < ITEMS; i++) {
		memset(value, (int)i, sizeof(value));
		if (i % 3)
			assert_int_equal(nam_kv_put(me.worker, kv, &i, 8, value,
				(uint32_t)(i * 7 % 1000)), 0);
	}
	for (uint32_t i = 0; i < ITEMS; i++) {
		keys[i] = i * 1009ull % 1250;
		items[i] = (struct nam_kv_item){ .key = &keys[i], .key_bytes = 8, .size = 1000,
			.value = values + i * 1000ul };
	}
	assert_int_equal(nam_kv_get_many(me.worker, kv, items, 0), 0);
	assert_int_equal(nam_kv_get_many(me.worker, kv, items, ITEMS), 0);
	for (uint32_t i = 0; i < ITEMS; i++) {
		uint64_t key = keys[i];

		assert_int_equal(items[i].rc, key % 3 ? 0 : -NAM_E_NOTFOUND);
		if (items[i].rc)
			continue;
		assert_int_equal(items[i].value_bytes, key * 7 % 1000);
		memset(value, (int)key, sizeof(value));
		assert_memory_equal(items[i].value, value, items[i].value_bytes);
	}
	items[7].size = 3;
	items[7].key = &keys[1];
	keys[1] = 100;
	assert_int_equal(nam_kv_get_many(me.worker, kv, items, 20), 0);
	assert_int_equal(items[7].rc, -NAM_E_LIMIT);
	member_says(&me, "room for 3");
	free(values);
	free(keys);
	free(items);
	store_end(&me, "many", kv);
}

static void
get_many__few_keys__ONE_REQUEST_TO_EACH_MEMORY_SERVER(void **state)
{
	struct nam_kv *kv = make("few", NAM_KV_STORE, 3 * MIB, 0);
	struct nam_kv_item items[60];
	uint64_t keys[60], values[60], before, after, ops;

	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		keys[i] = i;
		assert_int_equal(nam_kv_put(me.worker, kv, &i, 8, &i, 8), 0);
		items[i] = (struct nam_kv_item){ .key = &keys[i], .key_bytes = 8, .size = 8,
			.value = &values[i] };
	}
	/* Where the buckets are is asked once. */
	assert_int_equal(nam_kv_get_many(me.worker, kv, items, 60), 0);
	for (unsigned server = 0; server < 2; server++) {
		struct nam_server_status status;

		assert_int_equal(nam_server_status_get(me.worker, server, &status), 0);
		before = status.requests;
		ops = nam_worker_counters(me.worker, NAM_OP_LOOKUP)->ops;
		assert_int_equal(nam_kv_get_many(me.worker, kv, items, 60), 0);
		assert_int_equal(nam_worker_counters(me.worker, NAM_OP_LOOKUP)->ops - ops, 60);
		assert_int_equal(nam_server_status_get(me.worker, server, &status), 0);
		after = status.requests;
		/* The request; epoch threads ask nothing; the first status was not counted yet. */
		assert_int_equal(after - before, nam_kv_properties(kv)->onesided ? 1 : 2);
	}
	for (uint64_t i = 0; i < 60; i++)
		assert_int_equal(values[i], i);
	store_end(&me, "few", kv);
}

/* ---- several at a time --------------------------------------------------------------------- */

struct fiber {
	struct nam_kv *kv;
	uint32_t number;
	int wrong;
};

static void
fiber_main(void *arg)
{
	struct fiber *self = arg;

	for (uint32_t i = 0; i < 300; i++) {
		uint32_t key[2] = { self->number, i % 7 }, value[40], got[40], bytes = 0;

		for (unsigned w = 0; w < 40; w++)
			value[w] = self->number * 1000 + i;
		if (nam_kv_put(me.worker, self->kv, key, 8, value, 4 * (i % 40)) ||
			nam_kv_get(me.worker, self->kv, key, 8, got, sizeof(got), &bytes) ||
			bytes != 4 * (i % 40) || memcmp(got, value, bytes))
			self->wrong++;
		if (i % 5 == 0 && nam_kv_delete(me.worker, self->kv, key, 8))
			self->wrong++;
	}
}

static void
fibers__keys_of_their_own__SEE_WHAT_THEY_PUT(void **state)
{
	struct nam_kv *kv = make("fibers", NAM_KV_STORE, 3 * MIB, 2);
	struct fiber fibers[20];

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		fibers[i] = (struct fiber){ kv, i, 0 };
		assert_int_equal(nam_worker_spawn(me.worker, fiber_main, &fibers[i]), 0);
	}
	nam_worker_run(me.worker);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(fibers[i].wrong, 0);
	store_end(&me, "fibers", kv);
}

/* ---- a memory server that ends --------------------------------------------------------------- */

#ifdef NAM_SIM_POINTS
static bool server_ends;

static void
end_when_full(const char *name)
{
	if (strcmp(name, "kv.created") != 0 || !server_ends)
		return;
	server_ends = false;
	local_cluster_stop_server(cluster, 0);
}

/* It has said that its memory is full; the reclaim that follows finds it gone. */
static void
create__a_full_memory_server_ends__PEER_DEAD(void **state)
{
	struct nam_kv_options options;

	(void)state;
	options_init(&options);
	options.memory_bytes = 97 * MIB;
	options.partitions = 1;
	server_ends = true;
	assert_int_equal(nam_kv_create(me.worker, "huge", &options), -NAM_E_FABRIC_PEER_DEAD);
	assert_false(server_ends);
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__options_that_are_none__EINVAL_SAYS_WHY),
		cmocka_unit_test(create__more_than_there_is__REMOTE_FULL_AND_ALL_IS_GIVEN_BACK),
		cmocka_unit_test(names__of_stores_and_indexes__ARE_ONE_SPACE_AND_TOLD_APART),
		cmocka_unit_test(store__its_creator_has_left__IS_THERE),
		cmocka_unit_test(drop__others_have_it_open__DROPPED_AND_MEMORY_COMES_BACK),
		cmocka_unit_test(open__a_memory_server_has_nothing_of_it__LOST_until_dropped),
		cmocka_unit_test(open__a_server_was_added_since__FINDS_THE_PARTS),
		cmocka_unit_test(pair__of_any_bytes__IS_WHAT_WAS_PUT),
		cmocka_unit_test(lengths__beyond_the_limits__LIMIT_SAYS_WHICH),
		cmocka_unit_test(put__no_room__REFUSED_BY_A_STORE_AND_EVICTED_BY_A_CACHE),
		cmocka_unit_test(get_many__some_there_some_twice__ANSWERS_IN_THE_CALLERS_ORDER),
		cmocka_unit_test(get_many__few_keys__ONE_REQUEST_TO_EACH_MEMORY_SERVER),
		cmocka_unit_test(fibers__keys_of_their_own__SEE_WHAT_THEY_PUT),
#ifdef NAM_SIM_POINTS
		/* The last one: the cluster is of no use behind it. */
		cmocka_unit_test(create__a_full_memory_server_ends__PEER_DEAD),
#endif
	};

#ifdef NAM_SIM_POINTS
	nam_race_hook = end_when_full;
#endif
	return cmocka_run_group_tests(tests, start, stop);
}
