/* SPDX-License-Identifier: Apache-2.0 */
/* get_many_test.c -- how many transactions of a batch share a round trip, by what they bring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "compute/remote/epoch.h"
#include "tests/lib/index_fixture.h"
#include "txn/records.h"
#include "txn/records/version.h"

#define MIB (1ull << 20)
#define READINGS 10u
#define SIZE 4u				/* records of each */
#define RECORDS 16u			/* all written at once: 15 siblings each */
#define KEY_BYTES 3u
#define TOGETHER 32u			/* records that share a round trip, and bytes of versions */
#define TOGETHER_BYTES 65536u
#define VALUE_BYTES_MAX 40000u
#define MIXED 7u			/* transactions, some of unknown records */

static struct local_cluster *cluster;
static struct member me;
static struct nam_records *records;
static char keys[RECORDS][KEY_BYTES + 1];
static uint8_t written[RECORDS][VALUE_BYTES_MAX], came[READINGS * SIZE][VALUE_BYTES_MAX];

static int
start(void **state)
{
	struct nam_records_options options;

	(void)state;
	cluster = local_cluster_start(2, 64 * MIB, 32 * MIB);
	me = member_join(cluster, "me", 200);
	nam_records_options_init(&options);
	assert_int_equal(nam_records_create(me.worker, "r", &options), 0);
	assert_int_equal(nam_records_open(me.worker, "r", 4 * MIB, &records), 0);
	for (uint32_t i = 0; i < RECORDS; i++)
		(void)snprintf(keys[i], sizeof(keys[i]), "k%02u", i);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	nam_records_close(records);
	assert_int_equal(nam_records_drop(me.worker, "r"), 0);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

static void
put(uint32_t value_bytes)
{
	struct nam_record_put puts[RECORDS];

	for (uint32_t i = 0; i < RECORDS; i++) {
		memset(written[i], (int)(value_bytes + i), value_bytes);
		puts[i] = (struct nam_record_put){ keys[i], KEY_BYTES, value_bytes, written[i] };
	}
	assert_int_equal(nam_records_put_all(me.worker, records, puts, RECORDS, NULL), 0);
}

/* So many round trips. */
static uint32_t
expected(uint32_t value_bytes)
{
	const uint32_t about = (RECORDS - 1) * (uint32_t)sizeof(struct nam_version_sibling);
	uint32_t bytes = SIZE * nam__version_bytes(nam__version_length(about, KEY_BYTES,
		value_bytes));
	uint32_t together = TOGETHER_BYTES / bytes;

	together = together > TOGETHER / SIZE ? TOGETHER / SIZE : together;
	together += !together;
	return (READINGS + together - 1) / together;
}

static void
get_many__values_of_any_length__AS_MANY_TOGETHER_AS_FIT(void **state)
{
	static const uint32_t sizes[] = { 0, 8, 1000, 2100, 3000, 5000, 8000, VALUE_BYTES_MAX };
	struct nam_record_get gets[READINGS * SIZE];
	struct nam_records_reading readings[READINGS];

	(void)state;
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct nam_op_counters is, was;

		put(sizes[s]);
		memset(came, 0, sizeof(came));
		for (uint32_t i = 0; i < READINGS * SIZE; i++) {
			gets[i] = (struct nam_record_get){ .key = keys[i % RECORDS],
				.key_bytes = KEY_BYTES, .size = VALUE_BYTES_MAX,
				.value = came[i] };
			readings[i / SIZE] = (struct nam_records_reading){
				&gets[i / SIZE * SIZE], SIZE, 7 };
		}
		was = *nam_worker_counters(me.worker, NAM_OP_GET_ALL);
		assert_int_equal(nam_records_get_many(me.worker, records, readings, READINGS), 0);
		is = *nam_worker_counters(me.worker, NAM_OP_GET_ALL);
		assert_int_equal(is.ops - was.ops, READINGS);
		assert_int_equal(is.work_requests - was.work_requests, READINGS * SIZE);
		assert_int_equal(is.round_trips - was.round_trips, expected(sizes[s]));
		for (uint32_t i = 0; i < READINGS * SIZE; i++) {
			assert_int_equal(readings[i / SIZE].rc, 0);
			assert_int_equal(gets[i].rc, 0);
			assert_int_equal(gets[i].value_bytes, sizes[s]);
			assert_memory_equal(came[i], written[i % RECORDS], sizes[s]);
		}
	}
}

/* Records of which the first has one of these names; "no" is not there. */
static void
get_mixed(uint32_t bytes)
{
	static const char *const names[MIXED] = { "no1", "k00", "no2", "k01", "k02", "no3", "k03" };
	struct nam_record_get gets[MIXED][SIZE];
	struct nam_records_reading readings[MIXED];

	for (uint32_t i = 0; i < MIXED; i++) {
		for (uint32_t k = 0; k < SIZE; k++)
			gets[i][k] = (struct nam_record_get){ .key = k ? keys[4 * k] : names[i],
				.key_bytes = KEY_BYTES, .size = VALUE_BYTES_MAX,
				.value = came[SIZE * i + k] };
		readings[i] = (struct nam_records_reading){ gets[i], SIZE, 7 };
	}
	assert_int_equal(nam_records_get_many(me.worker, records, readings, MIXED), 0);
	for (uint32_t i = 0; i < MIXED; i++) {
		bool none = names[i][0] == 'n';

		assert_int_equal(readings[i].rc, 0);
		assert_int_equal(gets[i][0].rc, none ? -NAM_E_NOTFOUND : 0);
		for (uint32_t k = none; k < SIZE; k++) {
			uint32_t number = k ? 4 * k : (uint32_t)(names[i][2] - '0');

			assert_int_equal(gets[i][k].value_bytes, bytes);
			assert_memory_equal(came[SIZE * i + k], written[number], bytes);
		}
	}
}

/* Others' memory is given back, so that time goes on: what is known of places is old then. */
static void
age(void)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	const struct nam_record_put beside = { "age", 3, 0, "" };
	const uint64_t until = me.client->local_epoch + 1 + NAM__EPOCH_MEMORY;
	uint64_t reusable;

	for (unsigned i = 0; i < 1000 && me.client->local_epoch < until; i++) {
		assert_int_equal(nam_records_put_all(me.worker, records, &beside, 1, NULL), 0);
		assert_int_equal(nam__limbo_advance(me.worker, &reusable), 0);
		nanosleep(&pause, NULL);
	}
	assert_true(me.client->local_epoch >= until);
}

/*
 * Records behind ended transactions, and before and behind oversized ones.  Places
 * that have become old are noted anew when they are read: each by its own id.
 */
static void
get_many__too_long_among_unknown__EACH_ITS_ANSWER(void **state)
{
	(void)state;
	for (uint32_t bytes = 8; bytes <= VALUE_BYTES_MAX; bytes *= 8) {
		put(bytes);
		get_mixed(bytes);
		age();
		get_mixed(bytes);
		get_mixed(bytes);
	}
}

/* The deleter's timestamp, and nothing else; also where the cache knows that version. */
static void
get_many__deleted__NOTFOUND_AND_NO_VALUE(void **state)
{
	const struct nam_record_put gone = { keys[1], KEY_BYTES, 0, NULL };
	struct nam_record_get gets[2] = {
		{ .key = keys[0], .key_bytes = KEY_BYTES, .size = 8, .value = came[0] },
		{ .key = keys[1], .key_bytes = KEY_BYTES, .size = 8, .value = came[1] },
	};
	struct nam_records_reading reading = { gets, 2, 7 };
	uint64_t timestamp;

	(void)state;
	put(8);
	assert_int_equal(nam_records_get_many(me.worker, records, &reading, 1), 0);
	assert_int_equal(gets[1].value_bytes, 8);
	assert_int_equal(nam_records_put_all(me.worker, records, &gone, 1, &timestamp), 0);
	for (unsigned again = 0; again < 2; again++) {
		assert_int_equal(nam_records_get_many(me.worker, records, &reading, 1), 0);
		assert_int_equal(gets[0].rc, 0);
		assert_int_equal(gets[0].value_bytes, 8);
		assert_int_equal(gets[1].rc, -NAM_E_NOTFOUND);
		assert_int_equal(gets[1].value_bytes, 0);
		assert_true(gets[1].timestamp == timestamp);
	}
}

/* A code and what is said belong together. */
static void
get_many__several_wrong__DIAG_OF_THE_FIRST(void **state)
{
	static const char long_key[NAM_RECORD_KEY_BYTES_MAX + 1];
	struct nam_record_get gets[2] = {
		{ .key = keys[0], .key_bytes = KEY_BYTES, .size = 8, .value = came[0] },
		{ .key = long_key, .key_bytes = sizeof(long_key) },
	};
	struct nam_records_reading readings[4] = {
		{ &gets[0], 1, 7 }, { &gets[1], 1, 7 }, { &gets[0], 0, 7 }, { &gets[0], 1, 7 },
	};

	(void)state;
	put(8);
	assert_int_equal(nam_records_get_many(me.worker, records, readings, 4), -NAM_E_LIMIT);
	assert_non_null(strstr(nam_worker_diag(me.worker), "key"));
	assert_null(strstr(nam_worker_diag(me.worker), "0 records"));
	assert_int_equal(readings[0].rc, 0);
	assert_int_equal(readings[1].rc, -NAM_E_LIMIT);
	assert_int_equal(readings[2].rc, -NAM_E_LIMIT);
	assert_int_equal(readings[3].rc, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_many__values_of_any_length__AS_MANY_TOGETHER_AS_FIT),
		cmocka_unit_test(get_many__too_long_among_unknown__EACH_ITS_ANSWER),
		cmocka_unit_test(get_many__deleted__NOTFOUND_AND_NO_VALUE),
		cmocka_unit_test(get_many__several_wrong__DIAG_OF_THE_FIRST),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
