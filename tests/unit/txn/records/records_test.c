/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records_test.c -- record stores over three memory servers: names, transactions of two clients,
 * what they cost, and what each error of records.h looks like.
 *
 * NAM_TEST_RECORDS says which store: onesided (the default), star, message, small, hybrid, none,
 * 2pl.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/admin.h"
#include "compute/remote.h"
#include "txn/records/version.h"
#include "kv/kv.h"
#include "tests/lib/index_fixture.h"
#include "txn/records.h"

#define MIB (1ull << 20)
#define SERVERS 3u
#define CACHE_BYTES (4 * MIB)

static struct local_cluster *cluster;
static struct member me, other;
static struct nam_records *mine, *others;
static struct nam_records_options options;
static int star;

static void
choose(void)
{
	const char *wanted = getenv("NAM_TEST_RECORDS");
	bool found = false;

	nam_records_options_init(&options);
	wanted = wanted ? wanted : "onesided";
	star = strcmp(wanted, "onesided") == 0 || strcmp(wanted, "star") == 0;
	if (strcmp(wanted, "onesided") != 0)
		options.commit = NAM_RECORDS_SERVED;
	for (enum nam_ramp i = NAM_RAMP_FAST; i <= NAM_RAMP_LOCKING && !found; i++) {
		found = !strcmp(nam_ramp_name(i), wanted);
		options.algorithm = found ? i : NAM_RAMP_FAST;
	}
	if (!found && !star)
		assert_string_equal(wanted, "message");
}

static struct nam_records *
records_open(const struct member *who, const char *name, uint64_t cache_bytes)
{
	struct nam_records *records;

	assert_int_equal(nam_records_open(who->worker, name, cache_bytes, &records), 0);
	assert_int_equal(nam_records_star(who->worker, records, star), 0);
	return records;
}

static int
start(void **state)
{
	(void)state;
	choose();
	cluster = local_cluster_start(SERVERS, 64 * MIB, 32 * MIB);
	me = member_join(cluster, "me", 5000);
	other = member_join(cluster, "other", 200);
	assert_int_equal(nam_records_create(me.worker, "r", &options), 0);
	mine = records_open(&me, "r", CACHE_BYTES);
	others = records_open(&other, "r", CACHE_BYTES);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	nam_records_close(mine);
	nam_records_close(others);
	assert_int_equal(nam_records_drop(me.worker, "r"), 0);
	member_leave(&other);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

/* Records "<name>0" .. with the same number as value, by one transaction.  Its timestamp. */
static uint64_t
put_numbers(const struct member *who, struct nam_records *records, const char *name, uint32_t count,
	uint64_t number)
{
	struct nam_record_put puts[NAM_RECORDS_MAX];
	char keys[NAM_RECORDS_MAX][32];
	uint64_t timestamp = 0;

	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%s%u", name, i);
		puts[i] = (struct nam_record_put){ keys[i], (uint32_t)strlen(keys[i]), 8, &number };
	}
	if (nam_records_put_all(who->worker, records, puts, count, &timestamp))
		fail_msg("put_all: %s", nam_worker_diag(who->worker));
	assert_int_not_equal(timestamp, 0);
	return timestamp;
}

/* The value of all of them; UINT64_MAX if none is there. */
static uint64_t
get_numbers(const struct member *who, struct nam_records *records, const char *name, uint32_t count)
{
	struct nam_record_get gets[NAM_RECORDS_MAX];
	char keys[NAM_RECORDS_MAX][32];
	uint64_t numbers[NAM_RECORDS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%s%u", name, i);
		gets[i] = (struct nam_record_get){ .key = keys[i], .value = &numbers[i], .size = 8,
			.key_bytes = (uint32_t)strlen(keys[i]) };
		numbers[i] = UINT64_MAX;
	}
	assert_int_equal(nam_records_get_all(who->worker, records, gets, count), 0);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(gets[i].rc, gets[0].rc);
		assert_true(numbers[i] == numbers[0]);
		assert_int_equal(gets[i].timestamp, gets[0].timestamp);
	}
	return numbers[0];
}

/* ---- names --------------------------------------------------------------------------------- */

static void
create__names_that_are_none__EINVAL_SAYS_WHY(void **state)
{
	char name[80];

	(void)state;
	assert_int_equal(nam_records_create(me.worker, "", &options), -EINVAL);
	member_says(&me, "1 to 63 bytes");
	memset(name, 'x', sizeof(name));
	name[59] = '\0';
	assert_int_equal(nam_records_create(me.worker, name, &options), -EINVAL);
	member_says(&me, "up to 58 bytes");
	assert_int_equal(nam_records_create(me.worker, "a b", &options), -EINVAL);
	name[58] = '\0';
	assert_int_equal(nam_records_create(me.worker, name, &options), 0);
	assert_int_equal(nam_records_drop(me.worker, name), 0);
}

static void
ramp_name__others__NULL(void **state)
{
	(void)state;
	assert_null(nam_ramp_name((enum nam_ramp)0));
	assert_null(nam_ramp_name((enum nam_ramp)(NAM_RAMP_LOCKING + 1)));
	assert_string_equal(nam_ramp_title(NAM_RAMP_HYBRID), "RAMP hybrid");
	assert_string_equal(nam_ramp_title(NAM_RAMP_LOCKING), "2pl");
	assert_null(nam_ramp_title((enum nam_ramp)0));
	assert_true(nam_ramp_is_atomic(NAM_RAMP_LOCKING));
	assert_false(nam_ramp_is_atomic(NAM_RAMP_NONE));
	assert_false(nam_ramp_is_atomic((enum nam_ramp)0));
}

static void
create__options_that_do_not_go_together__EINVAL_SAYS_WHY(void **state)
{
	struct nam_records_options bad;
	struct nam_records *records;

	(void)state;
	nam_records_options_init(&bad);
	bad.algorithm = NAM_RAMP_SMALL;
	assert_int_equal(nam_records_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "RAMP-Fast only");
	bad.algorithm = NAM_RAMP_LOCKING;
	assert_int_equal(nam_records_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "memory servers keep its locks");
	bad.algorithm = (enum nam_ramp)9;
	assert_int_equal(nam_records_create(me.worker, "bad", &bad), -EINVAL);
	member_says(&me, "algorithm 9");
	bad.algorithm = NAM_RAMP_HYBRID;
	bad.commit = NAM_RECORDS_SERVED;
	assert_int_equal(nam_records_create(me.worker, "good", &bad), 0);
	assert_int_equal(nam_records_open(me.worker, "good", 0, &records), 0);
	assert_int_equal(nam_records_properties(records)->algorithm, NAM_RAMP_HYBRID);
	assert_int_equal(nam_records_star(me.worker, records, 1), -EINVAL);
	member_says(&me, "not RAMP-Fast");
	nam_records_close(records);
	assert_int_equal(nam_records_drop(me.worker, "good"), 0);
	bad.algorithm = NAM_RAMP_LOCKING;
	assert_int_equal(nam_records_create(me.worker, "good", &bad), 0);
	assert_int_equal(nam_records_open(me.worker, "good", 0, &records), 0);
	assert_int_equal(nam_records_star(me.worker, records, 1), -EINVAL);
	member_says(&me, "has no lock");
	nam_records_close(records);
	assert_int_equal(nam_records_drop(me.worker, "good"), 0);
	assert_int_equal(nam_records_create(me.worker, "good", NULL), 0);
	assert_int_equal(nam_records_open(me.worker, "good", 0, &records), 0);
	assert_int_equal(nam_records_star(me.worker, records, 0), -EINVAL);
	member_says(&me, "committed by its clients");
	nam_records_close(records);
	assert_int_equal(nam_records_drop(me.worker, "good"), 0);
}

static void
names__of_other_kinds__ARE_TOLD_APART(void **state)
{
	struct nam_kv_options kv_options;
	struct nam_records *records;
	struct nam_index *index;
	struct nam_kv *kv;

	(void)state;
	assert_int_equal(nam_records_create(me.worker, "r", &options), -NAM_E_INDEX_EXISTS);
	member_says(&me, "taken");
	nam_kv_options_init(&kv_options);
	kv_options.memory_bytes = SERVERS * NAM_KV_PARTITION_BYTES_MIN;
	kv_options.partitions = 1;
	assert_int_equal(nam_kv_create(me.worker, "r", &kv_options), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_kv_create(me.worker, "pairs", &kv_options), 0);
	assert_int_equal(nam_records_open(me.worker, "pairs", 0, &records), -NAM_E_KIND);
	member_says(&me, "'pairs' is a key-value store and not a record store");
	assert_int_equal(nam_kv_open(me.worker, "r", &kv), -NAM_E_KIND);
	assert_int_equal(nam_index_open(me.worker, "r", 0, &index), -NAM_E_KIND);
	assert_int_equal(nam_records_create(me.worker, "pairs", &options), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_records_open(me.worker, "nothing", 0, &records), -NAM_E_NOINDEX);
	member_says(&me, "no record store 'nothing'");
	assert_int_equal(nam_kv_drop(me.worker, "pairs"), 0);
}

static int
count_name(void *arg, const char *name)
{
	assert_string_equal(name, "r");
	(*(int *)arg)++;
	return 0;
}

static void
list__ONLY_RECORD_STORES(void **state)
{
	int count = 0;

	(void)state;
	assert_int_equal(nam_records_list(me.worker, count_name, &count), 0);
	assert_int_equal(count, 1);
}

/* ---- transactions -------------------------------------------------------------------------- */

static void
put_all__then_get_all_by_anybody__THE_LATEST(void **state)
{
	(void)state;
	assert_true(get_numbers(&me, mine, "a", 4) == UINT64_MAX);
	put_numbers(&me, mine, "a", 4, 1);
	assert_true(get_numbers(&me, mine, "a", 4) == 1);
	assert_true(get_numbers(&other, others, "a", 4) == 1);
	put_numbers(&other, others, "a", 4, 2);
	/* Its address cache is stale now. */
	assert_true(get_numbers(&me, mine, "a", 4) == 2);
	for (uint64_t i = 3; i < 200; i++) {
		const struct member *who = i & 1 ? &me : &other;

		put_numbers(who, i & 1 ? mine : others, "a", 4, i);
		assert_true(get_numbers(&me, mine, "a", 4) == i);
		assert_true(get_numbers(&other, others, "a", 4) == i);
	}
}

static void
put_all__of_as_many_as_there_may_be__ALL_THERE(void **state)
{
	(void)state;
	put_numbers(&me, mine, "many", NAM_RECORDS_MAX, 7);
	assert_true(get_numbers(&other, others, "many", NAM_RECORDS_MAX) == 7);
	put_numbers(&other, others, "many", NAM_RECORDS_MAX, 8);
	assert_true(get_numbers(&me, mine, "many", NAM_RECORDS_MAX) == 8);
}

static void
timestamps__EVER_LATER(void **state)
{
	uint64_t last = 0;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		const struct member *who = i % 3 ? &me : &other;
		uint64_t timestamp = put_numbers(who, i % 3 ? mine : others, "later", 2, i);

		assert_true(timestamp > last);
		last = timestamp;
	}
}

static void
get_all__some_absent_some_twice__EACH_ITS_ANSWER(void **state)
{
	uint64_t numbers[4] = { 0 };
	struct nam_record_get gets[4] = {
		{ .key = "twice0", .key_bytes = 6, .size = 8, .value = &numbers[0] },
		{ .key = "nowhere", .key_bytes = 7, .size = 8, .value = &numbers[1] },
		{ .key = "twice0", .key_bytes = 6, .size = 8, .value = &numbers[2] },
		{ .key = "twice1", .key_bytes = 6, .size = 7, .value = &numbers[3] },
	};

	(void)state;
	put_numbers(&me, mine, "twice", 2, 5);
	assert_int_equal(nam_records_get_all(me.worker, mine, gets, 4), 0);
	assert_int_equal(gets[0].rc, 0);
	assert_int_equal(gets[1].rc, -NAM_E_NOTFOUND);
	assert_int_equal(gets[1].timestamp, 0);
	assert_int_equal(gets[2].rc, 0);
	assert_int_equal(gets[3].rc, -NAM_E_LIMIT);
	assert_int_equal(gets[3].value_bytes, 8);
	assert_true(numbers[0] == 5 && numbers[2] == 5 && numbers[3] == 0);
}

static struct nam_record_get
get_of(const char *key, uint64_t *number)
{
	return (struct nam_record_get){ .key = key, .key_bytes = (uint32_t)strlen(key),
		.size = sizeof(*number), .value = number };
}

static void
get_many__of_all_sorts__EACH_ITS_ANSWER(void **state)
{
	uint64_t numbers[9] = { 0 };
	struct nam_record_get gets[] = {
		get_of("sort0", &numbers[0]), get_of("sort1", &numbers[1]),
		get_of("sort2", &numbers[2]), get_of("sort3", &numbers[3]),
		get_of("sort0", &numbers[4]), get_of("sort0", &numbers[5]),
		get_of("nowhere", &numbers[6]), get_of("sort3", &numbers[7]),
		get_of("", &numbers[8]),
	};
	struct nam_records_reading readings[] = {
		{ &gets[0], 2, 7 }, { &gets[2], 2, 7 }, { &gets[4], 2, 7 }, { &gets[6], 2, 7 },
		{ &gets[0], 0, 7 }, { &gets[0], NAM_RECORDS_MAX + 1, 7 }, { &gets[8], 1, 7 },
		{ &gets[0], UINT32_MAX, 7 }, { &gets[0], 1, 7 },
	};

	(void)state;
	put_numbers(&me, mine, "sort", 4, 5);
	assert_true(get_numbers(&me, mine, "sort", 4) == 5);
	/* Some by addresses that are stale, some by such as are not. */
	put_numbers(&other, others, "sort", 3, 6);
	assert_int_equal(nam_records_get_many(me.worker, mine, readings, 9), -NAM_E_LIMIT);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(readings[i].rc, i < 4 || i == 8 ? 0 : -NAM_E_LIMIT);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(gets[i].rc, i == 6 ? -NAM_E_NOTFOUND : 0);
		assert_true(numbers[i] == (i == 6 ? 0 : i == 3 || i == 7 ? 5 : 6));
	}
	assert_int_equal(nam_records_get_many(me.worker, mine, readings, 4), 0);
	assert_int_equal(nam_records_get_many(me.worker, mine, readings, 0), 0);
}

static void
put_all__without_a_value__DELETED(void **state)
{
	struct nam_record_put puts[2] = { { "gone0", 5, 0, NULL }, { "gone1", 5, 0, NULL } };
	struct nam_record_put empty = { "gone0", 5, 0, "" };
	struct nam_record_get get = { .key = "gone0", .key_bytes = 5 };

	(void)state;
	put_numbers(&me, mine, "gone", 2, 1);
	assert_int_equal(nam_records_put_all(other.worker, others, puts, 2, NULL), 0);
	assert_true(get_numbers(&me, mine, "gone", 2) == UINT64_MAX);
	/* A value of no bytes is a value. */
	assert_int_equal(nam_records_put_all(me.worker, mine, &empty, 1, NULL), 0);
	assert_int_equal(nam_records_get_all(other.worker, others, &get, 1), 0);
	assert_int_equal(get.rc, 0);
	assert_int_equal(get.value_bytes, 0);
}

static void
values__of_any_size__COME_BACK(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 63, 64, 1000, 4096, 65535, 300000,
		NAM_RECORD_VALUE_BYTES_MAX };
	uint8_t *value = malloc(NAM_RECORD_VALUE_BYTES_MAX);
	uint8_t *back = malloc(NAM_RECORD_VALUE_BYTES_MAX);

	(void)state;
	assert_true(value && back);
	for (uint32_t i = 0; i < NAM_RECORD_VALUE_BYTES_MAX; i++)
		value[i] = (uint8_t)(i * 7 + i / 251);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct nam_record_put put = { "size", 4, sizes[i], value };
		struct nam_record_get get = { .key = "size", .key_bytes = 4, .value = back,
			.size = NAM_RECORD_VALUE_BYTES_MAX };

		assert_int_equal(nam_records_put_all(me.worker, mine, &put, 1, NULL), 0);
		memset(back, 0, sizes[i]);
		assert_int_equal(nam_records_get_all(other.worker, others, &get, 1), 0);
		assert_int_equal(get.rc, 0);
		assert_int_equal(get.value_bytes, sizes[i]);
		assert_memory_equal(back, value, sizes[i]);
	}
	free(value);
	free(back);
}

static void
requests__that_make_no_sense__REFUSED(void **state)
{
	uint8_t key[256] = { 0 };
	struct nam_record_put puts[2] = { { "x", 1, 0, "" }, { "x", 1, 0, "" } };
	struct nam_record_get get = { .key = key, .key_bytes = 256 };

	(void)state;
	assert_int_equal(nam_records_put_all(me.worker, mine, puts, 2, NULL), -EINVAL);
	member_says(&me, "records 1 and 2");
	assert_int_equal(nam_records_put_all(me.worker, mine, puts, 0, NULL), -NAM_E_LIMIT);
	assert_int_equal(nam_records_put_all(me.worker, mine, puts, NAM_RECORDS_MAX + 1, NULL),
		-NAM_E_LIMIT);
	puts[0].value_bytes = NAM_RECORD_VALUE_BYTES_MAX + 1;
	assert_int_equal(nam_records_put_all(me.worker, mine, puts, 1, NULL), -NAM_E_LIMIT);
	member_says(&me, "a value of 1048577 bytes");
	puts[0] = (struct nam_record_put){ "x", 0, 0, "" };
	assert_int_equal(nam_records_put_all(me.worker, mine, puts, 1, NULL), -NAM_E_LIMIT);
	assert_int_equal(nam_records_get_all(me.worker, mine, &get, 1), -NAM_E_LIMIT);
	assert_int_equal(nam_records_get_all(me.worker, mine, &get, 0), -NAM_E_LIMIT);
}

/* ---- costs --------------------------------------------------------------------------------- */

static struct nam_op_counters
spent(enum nam_op_kind kind, const struct nam_op_counters *before)
{
	struct nam_op_counters now = *nam_worker_counters(me.worker, kind);

	now.ops -= before->ops;
	now.round_trips -= before->round_trips;
	now.work_requests -= before->work_requests;
	return now;
}

static void
get_all__warm__ONE_ROUND_TRIP_WHATEVER_THE_SIZE(void **state)
{
	(void)state;
	/* tests/sim covers stores that ask memory servers. */
	for (uint32_t count = 1; count <= NAM_RECORDS_MAX && star; count *= 2) {
		struct nam_op_counters before, cost;

		put_numbers(&me, mine, "warm", count, count);
		before = *nam_worker_counters(me.worker, NAM_OP_GET_ALL);
		assert_true(get_numbers(&me, mine, "warm", count) == count);
		cost = spent(NAM_OP_GET_ALL, &before);
		assert_int_equal(cost.ops, 1);
		assert_int_equal(cost.round_trips, 1);
		assert_int_equal(cost.work_requests, count);
	}
}

/* Of 4 records each, of which 32 go together. */
static void
get_many__warm__ROUND_TRIPS_SHARED(void **state)
{
	struct nam_op_counters before, cost;
	uint64_t numbers[40];
	struct nam_record_get gets[40];
	struct nam_records_reading readings[10];
	char keys[40][32];

	(void)state;
	if (!star)
		return;
	for (uint32_t i = 0; i < 40; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "share%u", i % 16);
		gets[i] = get_of(keys[i], &numbers[i]);
		readings[i / 4] = (struct nam_records_reading){ &gets[i / 4 * 4], 4, 7 };
	}
	put_numbers(&me, mine, "share", 16, 9);
	before = *nam_worker_counters(me.worker, NAM_OP_GET_ALL);
	assert_int_equal(nam_records_get_many(me.worker, mine, readings, 10), 0);
	cost = spent(NAM_OP_GET_ALL, &before);
	assert_int_equal(cost.ops, 10);
	assert_int_equal(cost.round_trips, 2);
	assert_int_equal(cost.work_requests, 40);
	for (uint32_t i = 0; i < 40; i++)
		assert_true(!readings[i / 4].rc && !gets[i].rc && numbers[i] == 9);
}

static void
put_all__warm__TWO_ROUND_TRIPS(void **state)
{
	(void)state;
	for (uint32_t count = 1; count <= NAM_RECORDS_MAX; count *= 2) {
		const bool onesided = options.commit == NAM_RECORDS_ONESIDED;
		struct nam_op_counters before, cost;

		for (uint64_t i = 1; i < 3; i++)
			put_numbers(&me, mine, "put", count, i);
		before = *nam_worker_counters(me.worker, NAM_OP_PUT_ALL);
		put_numbers(&me, mine, "put", count, 3);
		cost = spent(NAM_OP_PUT_ALL, &before);
		assert_int_equal(cost.ops, 1);
		assert_int_equal(cost.round_trips, 2);
		if (onesided)
			assert_int_equal(cost.work_requests, 4 * count);
	}
}

/* ---- figures, memory ----------------------------------------------------------------------- */

static void
stat__COUNTS_WHAT_THERE_IS(void **state)
{
	struct nam_record_put gone = { "counted1", 8, 0, NULL };
	struct nam_records *records;
	struct nam_records_stat stat;

	(void)state;
	assert_int_equal(nam_records_create(me.worker, "counts", &options), 0);
	records = records_open(&me, "counts", 0);
	assert_int_equal(nam_records_stat(me.worker, records, &stat), 0);
	assert_int_equal(stat.keys, 0);
	put_numbers(&me, records, "counted", 20, 1);
	put_numbers(&me, records, "counted", 20, 2);
	assert_int_equal(nam_records_put_all(me.worker, records, &gone, 1, NULL), 0);
	assert_int_equal(nam_records_stat(me.worker, records, &stat), 0);
	assert_int_equal(stat.keys, 20);
	assert_int_equal(stat.records, 19);
	assert_int_equal(stat.value_bytes, 19 * 8);
	assert_int_equal(stat.servers, SERVERS);
	assert_true(stat.remote_bytes >= 20 * 128);
	nam_records_close(records);
	assert_int_equal(nam_records_drop(me.worker, "counts"), 0);
}

/* The first words of a record's head or version, READ or WRITTEN by a client with a bug. */
static void
damage(uint64_t at, uint64_t *words, uint32_t count, bool write)
{
	uint64_t *buffer = nam_buffer_take(me.worker, 8 * count);

	memcpy(buffer, words, 8 * count);
	assert_int_equal(write ? nam_write_await(me.worker, NAM_GADDR(at), buffer, 8 * count) :
		nam_read_await(me.worker, NAM_GADDR(at), buffer, 8 * count), 0);
	memcpy(words, buffer, 8 * count);
	nam_buffer_give(me.worker, buffer, 8 * count);
}

static void
assert_corrupt(int rc)
{
	assert_int_equal(rc, -NAM_E_REMOTE_CORRUPT);
	assert_non_null(strstr(nam_worker_diag(other.worker), "record store 'd'"));
}

/* The only record of the store leads to `word`. */
static void
get_of_head(struct nam_records *records, uint64_t head, uint64_t word)
{
	struct nam_record_get get = { .key = "d0", .key_bytes = 2 };
	struct nam_records_stat stat;

	damage(head, &word, 1, true);
	assert_corrupt(nam_records_get_all(other.worker, records, &get, 1));
	assert_corrupt(nam_records_stat(other.worker, records, &stat));
}

static void
records__heads_and_versions_overwritten__REMOTE_CORRUPT(void **state)
{
	struct nam_record_get get = { .key = "d0", .key_bytes = 2 };
	uint64_t head = 0, word = 0, version[4], spoilt[4];
	struct nam_records *records;
	struct nam_index *keys;
	struct nam_cursor *cursor;
	const struct nam_range all = { 0 };
	uint32_t count = 0;

	(void)state;
	assert_int_equal(nam_records_create(me.worker, "d", &options), 0);
	records = records_open(&me, "d", 0);
	(void)put_numbers(&me, records, "d", 1, 7);
	nam_records_close(records);
	assert_int_equal(nam_index_open(me.worker, "d.keys", 0, &keys), 0);
	assert_int_equal(nam_cursor_open(me.worker, keys, &all, &cursor), 0);
	assert_int_equal(nam_cursor_next(cursor, NULL, &head, 1, &count), 0);
	nam_cursor_close(cursor);
	nam_index_close(keys);
	assert_int_equal(count, 1);
	damage(head, &word, 1, false);
	damage(nam_gaddr_untagged(NAM_GADDR(word)).raw, version, 4, false);

	records = records_open(&other, "d", 0);
	/* Too long, too short, no region, behind the region's end, and another record's head. */
	get_of_head(records, head, nam_gaddr_tagged(NAM_GADDR(word), UINT16_MAX).raw);
	get_of_head(records, head, nam_gaddr_untagged(NAM_GADDR(word)).raw);
	get_of_head(records, head, nam_gaddr_make(0x7fff, 65536, 4).raw);
	get_of_head(records, head, nam_gaddr_make(nam_gaddr_region(NAM_GADDR(word)),
		32 * MIB - 64, 1000).raw);
	get_of_head(records, head, nam_gaddr_tagged(NAM_GADDR(head), 2).raw);
	damage(head, &word, 1, true);
	/* A whole address, and a version that is not whole. */
	memset(spoilt, 0x55, sizeof(spoilt));
	damage(nam_gaddr_untagged(NAM_GADDR(word)).raw, spoilt, 4, true);
	assert_corrupt(nam_records_get_all(other.worker, records, &get, 1));
	damage(nam_gaddr_untagged(NAM_GADDR(word)).raw, version, 4, true);
	assert_int_equal(get_numbers(&other, records, "d", 1), 7);
	nam_records_close(records);
	/* No version can be there, so none is given back. */
	word = nam_gaddr_make(0x7fff, 65536, 4).raw;
	damage(head, &word, 1, true);
	assert_int_equal(nam_records_drop(me.worker, "d"), 0);
}

static void
put_all__again_and_again__MEMORY_IS_USED_AGAIN(void **state)
{
	const uint32_t bytes = 100000;
	uint8_t *value = calloc(1, bytes);

	(void)state;
	assert_non_null(value);
	/* Three times what there is at all, and nine times what its memory server has. */
	for (uint32_t i = 0; i < 3 * SERVERS * 64 * MIB / bytes; i++) {
		struct nam_record_put put = { "again", 5, bytes, value };

		assert_int_equal(nam_records_put_all(me.worker, mine, &put, 1, NULL), 0);
	}
	free(value);
}

static void
drop__EVERYTHING_IS_GIVEN_BACK(void **state)
{
	struct member guest = member_join(cluster, "guest", 200);
	struct nam_records *records;
	uint64_t before = member_sees_used(&me);

	(void)state;
	assert_int_equal(nam_records_create(guest.worker, "comes", &options), 0);
	records = records_open(&guest, "comes", CACHE_BYTES);
	for (uint64_t i = 0; i < 100; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "n%u.", (unsigned)i % 50);
		put_numbers(&guest, records, name, 8, i);
	}
	nam_records_close(records);
	assert_int_equal(nam_records_drop(guest.worker, "comes"), 0);
	/* A departing client gives back its block cache. */
	member_leave(&guest);
	assert_int_equal(member_sees_used(&me), before);
}

/* Clients that were there before put new records on it, and read those of others. */
static void
put_all__memory_server_added__NEW_RECORDS_LIE_THERE(void **state)
{
	uint64_t until = nam_now_ns() + test_bound_ns(10000000000ull);
	struct nam_client_options client_options;
	struct nam_records_stat stat = { 0 };
	struct nam_server_added added;
	struct nam_diag diag = { "" };
	uint64_t rounds = 0;
	char name[16];

	(void)state;
	nam_client_options_init(&client_options);
	client_options.cluster = local_cluster_list(cluster);
	if (nam_server_add(&client_options, local_cluster_add(cluster), NULL, NULL, &added, &diag))
		fail_msg("%s", diag.text);
	while (stat.servers <= SERVERS) {
		assert_true(nam_now_ns() < until);
		(void)snprintf(name, sizeof(name), "new%u.", (unsigned)rounds++);
		put_numbers(&me, mine, name, 8, rounds);
		assert_int_equal(nam_records_stat(me.worker, mine, &stat), 0);
	}
	for (uint64_t i = 0; i < rounds; i++) {
		(void)snprintf(name, sizeof(name), "new%u.", (unsigned)i);
		assert_true(get_numbers(&other, others, name, 8) == i + 1);
		put_numbers(&other, others, name, 8, rounds + i);
		assert_true(get_numbers(&me, mine, name, 8) == rounds + i);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__names_that_are_none__EINVAL_SAYS_WHY),
		cmocka_unit_test(ramp_name__others__NULL),
		cmocka_unit_test(create__options_that_do_not_go_together__EINVAL_SAYS_WHY),
		cmocka_unit_test(names__of_other_kinds__ARE_TOLD_APART),
		cmocka_unit_test(list__ONLY_RECORD_STORES),
		cmocka_unit_test(put_all__then_get_all_by_anybody__THE_LATEST),
		cmocka_unit_test(put_all__of_as_many_as_there_may_be__ALL_THERE),
		cmocka_unit_test(timestamps__EVER_LATER),
		cmocka_unit_test(get_all__some_absent_some_twice__EACH_ITS_ANSWER),
		cmocka_unit_test(get_many__of_all_sorts__EACH_ITS_ANSWER),
		cmocka_unit_test(put_all__without_a_value__DELETED),
		cmocka_unit_test(values__of_any_size__COME_BACK),
		cmocka_unit_test(requests__that_make_no_sense__REFUSED),
		cmocka_unit_test(get_all__warm__ONE_ROUND_TRIP_WHATEVER_THE_SIZE),
		cmocka_unit_test(get_many__warm__ROUND_TRIPS_SHARED),
		cmocka_unit_test(put_all__warm__TWO_ROUND_TRIPS),
		cmocka_unit_test(stat__COUNTS_WHAT_THERE_IS),
		cmocka_unit_test(drop__EVERYTHING_IS_GIVEN_BACK),
		cmocka_unit_test(records__heads_and_versions_overwritten__REMOTE_CORRUPT),
		/* Behind the others: its blocks on one memory server stay of their size. */
		cmocka_unit_test(put_all__again_and_again__MEMORY_IS_USED_AGAIN),
		cmocka_unit_test(put_all__memory_server_added__NEW_RECORDS_LIE_THERE),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
