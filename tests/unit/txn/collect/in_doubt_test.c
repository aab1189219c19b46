/* SPDX-License-Identifier: Apache-2.0 */
/* in_doubt_test.c -- what a dead client has left: more than is looked into at a time, and large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/index_fixture.h"
#include "txn/collect/in_doubt.h"
#include "txn/records/protocols.h"
#include "txn/records.h"

#define MIB (1ull << 20)
#define PAIRS (NAM__IN_DOUBT_MAX + 20)
#define STUCK 10u			/* of them, whose second record is never written */
#define KEY_BYTES 4u
#define OLD "old"
#define LEFT "left"
#define NEW "new"
#define LARGE 6000u			/* a value that goes with no message */

static struct local_cluster *cluster;
static struct member me;
static struct nam_records *records;
static char keys[PAIRS][2][KEY_BYTES + 1];	/* of the leader, of the other */

static void
put(const char *key, const char *value)
{
	const struct nam_record_put one = { key, KEY_BYTES, (uint32_t)strlen(value) + 1, value };

	assert_int_equal(nam_records_put_all(me.worker, records, &one, 1, NULL), 0);
}

static void
expect(const char *key, const char *value)
{
	static char came[LARGE];
	struct nam_record_get one = { .key = key, .key_bytes = KEY_BYTES, .value = came,
		.size = sizeof(came) };

	assert_int_equal(nam_records_get_all(me.worker, records, &one, 1), 0);
	assert_int_equal(one.rc, 0);
	assert_string_equal(came, value);
}

static int
start(void **state)
{
	struct nam_records_options options;

	(void)state;
	cluster = local_cluster_start(2, 64 * MIB, 32 * MIB);
	me = member_join(cluster, "me", 200);
	nam_records_options_init(&options);
	options.commit = NAM_RECORDS_SERVED;
	options.algorithm = NAM_RAMP_SMALL;
	assert_int_equal(nam_records_create(me.worker, "r", &options), 0);
	assert_int_equal(nam_records_open(me.worker, "r", 4 * MIB, &records), 0);
	for (uint32_t i = 0; i < PAIRS; i++)
		for (uint32_t k = 0; k < 2; k++) {
			(void)snprintf(keys[i][k], sizeof(keys[i][k]), "%c%03u", k ? 'b' : 'a', i);
			put(keys[i][k], OLD);
		}
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

/* ---- writers that die ------------------------------------------------------------------------ */

static void
version_make(struct nam__txn *txn, uint32_t number, uint32_t value_bytes)
{
	const uint32_t about = (uint32_t)sizeof(struct nam_version_leader) + (number ? 0 : 8);
	const uint32_t bytes = nam__version_bytes(nam__version_length(about, KEY_BYTES,
		value_bytes));
	struct nam__item *item = &txn->items[number];
	struct nam_version_leader *leader;
	struct nam_gaddr block;

	assert_int_equal(nam__item_room(txn, item, bytes), 0);
	assert_int_equal(nam_alloc_on(txn->worker, nam__server_slot(txn->worker->client,
		item->head), nam__version_stride(bytes), &block), 0);
	item->at = nam__version_at(nam_gaddr_untagged(block), bytes);
	memset(item->image, 0, bytes);
	*item->image = (struct nam_version){ .store = txn->records->store, .head = item->head.raw,
		.key_id = item->id.word[0], .value_bytes = value_bytes,
		.metadata_bytes = (uint16_t)about, .key_bytes = KEY_BYTES };
	leader = nam__version_metadata(item->image);
	leader->head = txn->items[0].head.raw;
	if (!number)
		leader->others[0] = txn->items[1].head.raw;
	memcpy((uint8_t *)leader + about, item->key, KEY_BYTES);
	memcpy((uint8_t *)leader + about + KEY_BYTES, LEFT, sizeof(LEFT));
}

/* A transaction of both is prepared at the first, which leads, or at both. */
static void
prepare(struct nam_worker *worker, struct nam_records *of, uint32_t pair, uint32_t count,
	uint32_t value_bytes)
{
	struct nam__txn *txn = nam__txn_new(worker, of);
	bool again;

	assert_non_null(txn);
	for (int k = 0; k < 2; k++)
		assert_int_equal(nam__txn_add(txn, keys[pair][k], KEY_BYTES, &again), k);
	assert_int_equal(nam__txn_locate(txn), 0);
	nam__op_begin(worker, NAM_OP_PUT_ALL);
	for (uint32_t k = 0; k < count; k++)
		version_make(txn, k, value_bytes);
	txn->count = count;
	nam__txn_stamp(txn);
	assert_int_equal(nam__served_prepare(txn), 0);
	nam__op_end(worker);
	nam__txn_free(txn);
}

/* Until server 0 has seen the end of all clients but this one. */
static void
await_deaths(void)
{
	uint64_t deadline = nam_now_ns() + 30000000000u;
	struct nam_server_status status = { .clients = UINT32_MAX };

	while (status.clients != 1 && nam_now_ns() < deadline) {
		assert_int_equal(nam_server_status_get(me.worker, 0, &status), 0);
		nam_sleep_ns(1000000);
	}
	assert_int_equal(status.clients, 1);
}

/* All pairs, so many records of each. */
static void
prepare_and_die(uint32_t count, uint32_t value_bytes)
{
	struct member dead = member_join(cluster, "dead", 200);
	struct nam_records *theirs;

	assert_int_equal(nam_records_open(dead.worker, "r", 1 * MIB, &theirs), 0);
	for (uint32_t i = 0; i < PAIRS; i++)
		prepare(dead.worker, theirs, i, count, value_bytes);
	nam_records_close(theirs);
	member_leave(&dead);
	await_deaths();
}

/* ---- and what becomes of it ------------------------------------------------------------------ */

static void
expect_collected(uint64_t committed, uint64_t aborted)
{
	struct nam_records_collected done;

	assert_int_equal(nam_records_collect(me.worker, records, &done), 0);
	assert_int_equal(done.committed, committed);
	assert_int_equal(done.aborted, aborted);
	assert_int_equal(done.undecided, 0);
}

static void
expect_left(uint64_t others)
{
	struct nam_records_stat stat;

	assert_int_equal(nam_records_stat(me.worker, records, &stat), 0);
	assert_int_equal(stat.others, others);
}

static void
collect__more_than_one_look_takes__ALL_ARE_ENDED(void **state)
{
	(void)state;
	prepare_and_die(1, sizeof(LEFT));
	for (uint32_t i = STUCK; i < PAIRS; i++)
		put(keys[i][1], NEW);
	expect_collected(PAIRS - STUCK, STUCK);
	for (uint32_t i = 0; i < PAIRS; i++) {
		expect(keys[i][0], i < STUCK ? OLD : LEFT);
		expect(keys[i][1], i < STUCK ? OLD : NEW);
	}
	nam_sleep_ns(2 * NAM_RECORDS_KEEP_NS);
	expect_collected(0, 0);
	expect_left(0);
}

/* Of about half of the pairs the other's version is met first. */
static void
collect__versions_beside_messages__LEADERS_ARE_READ(void **state)
{
	(void)state;
	prepare_and_die(2, LARGE);
	expect_collected(PAIRS, 0);
	for (uint32_t i = 0; i < PAIRS; i++)
		for (uint32_t k = 0; k < 2; k++)
			expect(keys[i][k], LEFT);
	nam_sleep_ns(2 * NAM_RECORDS_KEEP_NS);
	expect_collected(0, 0);
	expect_left(0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(collect__more_than_one_look_takes__ALL_ARE_ENDED,
			start, stop),
		cmocka_unit_test_setup_teardown(collect__versions_beside_messages__LEADERS_ARE_READ,
			start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
