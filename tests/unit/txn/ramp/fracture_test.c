/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "txn/records/ops.h"
#include "txn/records/protocols.h"

#define SIBLINGS_MAX (NAM_RECORDS_MAX + 7u)
#define OLD 1000ull
#define NEW 2000ull

/* A transaction that has read `count` versions, of which none says anything of others yet. */
struct fixture {
	struct nam_worker worker;
	struct nam_records records;
	struct nam__txn txn;
	struct image {
		struct nam_version version;
		struct nam_version_sibling siblings[SIBLINGS_MAX];
	} images[NAM_RECORDS_MAX];
};

static struct fixture *fixture;

static struct nam_gaddr
head_of(uint32_t i)
{
	return nam_gaddr_make(1, 64 * (i + 1), 0);
}

/* Where the version of the transaction NEW lies. */
static uint64_t
new_of(uint32_t i)
{
	return nam_gaddr_make(2, 64 * (i + 1), 1).raw;
}

/* Ids of which ten bits are the same, or not, for all. */
static uint64_t
id_of(uint32_t i, bool alike)
{
	return alike ? (uint64_t)(i + 1) << 10 | 7 : (uint64_t)(i + 1) * 0x0101;
}

static void
arrange(uint32_t count, bool alike)
{
	memset(&fixture->txn, 0, sizeof(fixture->txn));
	memset(fixture->images, 0, sizeof(fixture->images));
	fixture->txn.worker = &fixture->worker;
	fixture->txn.records = &fixture->records;
	fixture->txn.count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct nam__item *item = &fixture->txn.items[i];

		item->id.word[0] = id_of(i, alike);
		item->head = head_of(i);
		item->timestamp = OLD + i;
		item->state = NAM__ITEM_FOUND;
		item->image = &fixture->images[i].version;
		item->image->timestamp = item->timestamp;
	}
}

/* The transaction NEW wrote item `of`, which was read, and that one. */
static void
name_sibling(uint32_t of, uint64_t key_id, struct nam_gaddr head, uint64_t at)
{
	struct image *image = &fixture->images[of];
	uint32_t k = image->version.metadata_bytes / (uint32_t)sizeof(image->siblings[0]);

	image->siblings[k] = (struct nam_version_sibling){ key_id, head.raw, at };
	image->version.metadata_bytes += (uint16_t)sizeof(image->siblings[0]);
	image->version.timestamp = fixture->txn.items[of].timestamp = NEW;
}

static void
assert_asked(uint32_t i)
{
	const struct nam__item *item = &fixture->txn.items[i];

	assert_int_equal(item->state, NAM__ITEM_VERSION);
	assert_int_equal(item->via, NAM__VIA_SIBLING);
	assert_int_equal(item->at.raw, new_of(i));
	assert_int_equal(item->timestamp, NEW);
}

/* The verdict on the same versions without items. */
static bool
versions_query(void)
{
	struct nam__record_id ids[NAM_RECORDS_MAX];
	const struct nam_version *versions[NAM_RECORDS_MAX];

	for (uint32_t i = 0; i < fixture->txn.count; i++) {
		ids[i] = fixture->txn.items[i].id;
		versions[i] = fixture->txn.items[i].image;
	}
	return nam__versions_query(nam__named_choose(), ids, versions, fixture->txn.count);
}

static int
setup(void **state)
{
	const struct nam_records_options options = { .algorithm = NAM_RAMP_FAST };

	(void)state;
	fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));
	if (!fixture)
		return -1;
	memset(fixture, 0, sizeof(*fixture));
	fixture->worker.current = &fixture->worker.thread_task;
	fixture->worker.thread_task.counters = fixture->worker.counters;
	fixture->records.ops = nam__records_ops_of(&options);
	fixture->records.star = true;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(fixture);
	return 0;
}

static enum nam__step
fractured(void)
{
	int rc = 0;
	enum nam__step step = nam__fractured(&fixture->txn, &rc);

	assert_int_equal(rc, 0);
	return step;
}

static void
fractured__one_older_sibling__ASKED_FOR_wherever_it_is_named(void **state)
{
	(void)state;
	/* With any number of unrequested names before and after it. */
	for (uint32_t count = 1; count <= SIBLINGS_MAX; count++) {
		for (uint32_t place = 0; place < count; place++) {
			arrange(4, false);
			for (uint32_t k = 0; k < count; k++) {
				bool it = k == place;

				name_sibling(1, it ? id_of(2, false) : 99 + (k << 24),
					head_of(it ? 2 : 100 + k), new_of(it ? 2 : k));
			}
			assert_true(versions_query());
			assert_int_equal(fractured(), NAM__STEP_MORE);
			assert_asked(2);
			assert_int_equal(fixture->txn.items[0].state, NAM__ITEM_FOUND);
			assert_int_equal(fixture->txn.items[3].state, NAM__ITEM_FOUND);
			assert_int_equal(fractured(), NAM__STEP_DONE);
		}
	}
}

static void
fractured__ids_that_begin_alike__EACH_ITS_OWN(void **state)
{
	(void)state;
	for (uint32_t missing = 1; missing < NAM_RECORDS_MAX; missing++) {
		arrange(NAM_RECORDS_MAX, true);
		name_sibling(0, id_of(missing, true), head_of(missing), new_of(missing));
		assert_true(versions_query());
		assert_int_equal(fractured(), NAM__STEP_MORE);
		for (uint32_t i = 1; i < NAM_RECORDS_MAX; i++) {
			if (i == missing)
				assert_asked(i);
			else
				assert_int_equal(fixture->txn.items[i].state, NAM__ITEM_FOUND);
		}
	}
}

static void
fractured__all_but_one_are_older__ALL_ASKED_FOR(void **state)
{
	(void)state;
	arrange(NAM_RECORDS_MAX, true);
	for (uint32_t i = 1; i < NAM_RECORDS_MAX; i++)
		name_sibling(0, id_of(i, true), head_of(i), new_of(i));
	assert_int_equal(fractured(), NAM__STEP_MORE);
	for (uint32_t i = 1; i < NAM_RECORDS_MAX; i++)
		assert_asked(i);
}

static void
fractured__siblings_as_new_or_of_other_records__NOTHING_TO_ASK(void **state)
{
	(void)state;
	arrange(3, false);
	name_sibling(0, id_of(1, false), head_of(1), new_of(1));
	name_sibling(1, id_of(0, false), head_of(0), new_of(0));
	name_sibling(1, 99, head_of(99), new_of(99));
	assert_false(versions_query());
	/* Another record whose id begins like this one's. */
	name_sibling(0, id_of(2, false), head_of(9), new_of(9));
	assert_int_equal(fractured(), NAM__STEP_DONE);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(fixture->txn.items[i].state, NAM__ITEM_FOUND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fractured__one_older_sibling__ASKED_FOR_wherever_it_is_named),
		cmocka_unit_test(fractured__ids_that_begin_alike__EACH_ITS_OWN),
		cmocka_unit_test(fractured__all_but_one_are_older__ALL_ASKED_FOR),
		cmocka_unit_test(fractured__siblings_as_new_or_of_other_records__NOTHING_TO_ASK),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
