/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "generated.h"
#include "tests/sim/linearizable.h"
#include "tests/sim/scan_check.h"

#define ENTRIES(...) ((const struct sim_entry[]){ __VA_ARGS__ })
#define COUNT(...) (sizeof(ENTRIES(__VA_ARGS__)) / sizeof(struct sim_entry))

static bool unique = true;

static uint64_t
check(void)
{
	struct sim_findings result;

	RUN(sim_check_scans(&history, unique, findings), &result);
	assert_int_equal(result.undecided, 0);
	return result.violations;
}

static uint64_t
check_contents(const struct sim_entry *entries, size_t count)
{
	struct sim_findings result;

	RUN(sim_check_contents(&history, unique, entries, count, findings), &result);
	return result.violations;
}

#define CONTENTS(...) check_contents(ENTRIES(__VA_ARGS__), COUNT(__VA_ARGS__))

static size_t
calls_scan(struct sim_range range)
{
	return sim_history_call_scan(&history, 9, 0, &range, 10 * history.order);
}

static void
delivers(size_t scan, const struct sim_entry *entries, size_t count)
{
	sim_history_return_scan(&history, scan, 0, entries, count, 10 * history.order);
}

/* A scan with nothing going on meanwhile. */
#define SCAN(range, ...) delivers(calls_scan(range), ENTRIES(__VA_ARGS__), COUNT(__VA_ARGS__))

static struct sim_range
range(uint64_t low, uint64_t high)
{
	return (struct sim_range){ .low = low, .high = high, .has_low = true, .has_high = true };
}

static struct sim_range
closed(struct sim_range closed_range)
{
	closed_range.high_inclusive = true;
	return closed_range;
}

static struct sim_range
reversed(struct sim_range reversed_range)
{
	reversed_range.reverse = true;
	return reversed_range;
}

static struct sim_range
limited(struct sim_range limited_range, uint64_t limit)
{
	limited_range.limit = limit;
	return limited_range;
}

/* 10, 20, .. 50 with payloads 100, 200, .. */
static int
set_up_five(void **state)
{
	set_up(state);
	for (uint64_t key = 10; key <= 50; key += 10)
		sim_history_load(&history, key, 10 * key);
	return 0;
}

/* ---- true ------------------------------------------------------------------------------------ */

static void
scan__all_in_order__ACCEPTED(void **state)
{
	(void)state;
	SCAN(range(0, 100), { 10, 100 }, { 20, 200 }, { 30, 300 }, { 40, 400 }, { 50, 500 });
	SCAN(reversed(range(0, 100)), { 50, 500 }, { 40, 400 }, { 30, 300 }, { 20, 200 },
		{ 10, 100 });
	SCAN(range(20, 40), { 20, 200 }, { 30, 300 });
	SCAN(closed(range(20, 40)), { 20, 200 }, { 30, 300 },
		{ 40, 400 });
	SCAN(((struct sim_range){ .limit = 2 }), { 10, 100 }, { 20, 200 });
	SCAN(((struct sim_range){ .limit = 2, .reverse = true }), { 50, 500 }, { 40, 400 });
	assert_int_equal(check(), 0);
}

static void
scan__what_changes_meanwhile__MAY_BE_SEEN_OR_NOT(void **state)
{
	size_t scans[4], insert, delete, update;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		scans[i] = calls_scan(range(15, 45));
	insert = call(SIM_INSERT, 25, 250);
	delete = call(SIM_DELETE, 30, 0);
	update = call(SIM_UPDATE, 40, 401);
	returns(insert, 0, 0);
	returns(delete, 0, 0);
	returns(update, 0, 0);
	delivers(scans[0], ENTRIES({ 20, 200 }, { 30, 300 }, { 40, 400 }), 3);
	delivers(scans[1], ENTRIES({ 20, 200 }, { 25, 250 }, { 40, 401 }), 3);
	delivers(scans[2], ENTRIES({ 20, 200 }, { 25, 250 }, { 30, 300 }, { 40, 401 }), 4);
	delivers(scans[3], ENTRIES({ 20, 200 }, { 40, 400 }), 2);
	assert_int_equal(check(), 0);
}

static void
scan__changes_of_dead_clients__MAY_BE_SEEN_OR_NOT(void **state)
{
	(void)state;
	(void)call(SIM_INSERT, 25, 250);
	(void)call(SIM_DELETE, 30, 0);
	SCAN(range(15, 35), { 20, 200 }, { 30, 300 });
	SCAN(range(15, 35), { 20, 200 }, { 25, 250 });
	assert_int_equal(check(), 0);
}

static void
scan__that_failed_on_its_way__CHECKED_SO_FAR(void **state)
{
	size_t scan = calls_scan(range(0, 100));

	(void)state;
	sim_history_return_scan(&history, scan, -NAM_E_FABRIC_TIMEOUT,
		ENTRIES({ 10, 100 }, { 20, 200 }), 2, 0);
	scan = calls_scan(range(0, 100));
	sim_history_return_scan(&history, scan, -NAM_E_FABRIC_TIMEOUT, NULL, 0, 0);
	(void)calls_scan(range(0, 100));
	assert_int_equal(check(), 0);
	scan = calls_scan(range(0, 100));
	sim_history_return_scan(&history, scan, -NAM_E_FABRIC_TIMEOUT,
		ENTRIES({ 20, 200 }), 1, 0);
	assert_int_equal(check(), 1);
	assert_seen("(10, 0) is missing");
}

/* ---- false ----------------------------------------------------------------------------------- */

static void
scan__without_a_key_that_is_there__REJECTED(void **state)
{
	(void)state;
	SCAN(range(0, 40), { 10, 100 }, { 30, 300 });
	assert_int_equal(check(), 1);
	assert_seen("scan(0 .. 40, 2 entries) by client 9.0");
	assert_seen("(20, 0) is missing: it was there throughout");
	assert_seen("#1 insert(20, 200) by the loader");
}

static void
scan__that_ends_early__REJECTED(void **state)
{
	(void)state;
	SCAN(range(30, 100), { 30, 300 }, { 40, 400 });
	SCAN(limited(range(30, 100), 3), { 30, 300 }, { 40, 400 });
	SCAN(reversed(range(0, 30)), { 20, 200 });
	assert_int_equal(check(), 3);
}

static void
scan__without_a_key_that_was_only_looked_at_and_updated__REJECTED(void **state)
{
	size_t scan;

	(void)state;
	does(SIM_DELETE, 20, 0, 0);
	does(SIM_INSERT, 20, 201, 0);
	looks_up(20, 201);
	scan = calls_scan(range(20, 30));
	does(SIM_UPDATE, 20, 202, 0);
	delivers(scan, NULL, 0);
	assert_int_equal(check(), 1);
}

static void
scan__with_a_key_that_nobody_wrote__REJECTED(void **state)
{
	(void)state;
	looks_up(25, 0);
	SCAN(range(20, 30), { 20, 200 }, { 25, 250 });
	SCAN(range(50, 100), { 50, 500 }, { 99, 990 });
	assert_int_equal(check(), 2);
	assert_seen("(25, 250) was invented: nothing ever wrote this key");
}

static void
scan__with_a_key_that_was_deleted_before__REJECTED(void **state)
{
	(void)state;
	does(SIM_DELETE, 20, 0, 0);
	SCAN(range(20, 30), { 20, 200 });
	assert_int_equal(check(), 1);
	assert_seen("(20, 200) was invented");
	assert_seen("delete(20)");
}

static void
scan__with_a_key_seen_absent_and_not_inserted_since__REJECTED(void **state)
{
	size_t delete = call(SIM_DELETE, 20, 0);

	(void)state;
	looks_up(20, 0);
	SCAN(range(20, 30), { 20, 200 });
	returns(delete, 0, 0);
	assert_int_equal(check(), 1);
	assert_seen("(20, 200) was invented: the key was absent at the time");
}

static void
scan__with_a_key_inserted_afterwards__REJECTED(void **state)
{
	(void)state;
	SCAN(range(20, 30), { 20, 200 }, { 25, 250 });
	does(SIM_INSERT, 25, 250, 0);
	assert_int_equal(check(), 1);
}

static void
scan__with_an_overwritten_payload__REJECTED(void **state)
{
	(void)state;
	does(SIM_UPDATE, 20, 201, 0);
	SCAN(range(20, 30), { 20, 200 });
	does(SIM_UPDATE, 20, 202, 0);
	assert_int_equal(check(), 1);
	assert_seen("(20, 200) was invented: that payload was not there at the time");
	assert_seen("update(20, 201)");
	assert_null(strstr(told, "update(20, 202)"));
}

static void
scan__with_a_payload_of_another_key__REJECTED(void **state)
{
	(void)state;
	SCAN(range(20, 30), { 20, 300 });
	assert_int_equal(check(), 1);
}

static void
scan__with_a_key_twice__REJECTED(void **state)
{
	size_t scan = calls_scan(range(20, 40));

	(void)state;
	does(SIM_UPDATE, 20, 201, 0);
	delivers(scan, ENTRIES({ 20, 200 }, { 20, 201 }, { 30, 300 }), 3);
	assert_int_equal(check(), 1);
	assert_seen("(20, 201) comes twice");
}

static void
scan__out_of_order__REJECTED(void **state)
{
	(void)state;
	SCAN(range(20, 40), { 30, 300 }, { 20, 200 });
	SCAN(reversed(range(20, 40)), { 20, 200 }, { 30, 300 });
	assert_int_equal(check(), 2);
	assert_seen("(20, 200) comes out of order");
	assert_seen("(30, 300) comes out of order");
}

static void
scan__beyond_its_range__REJECTED(void **state)
{
	(void)state;
	SCAN(range(20, 40), { 20, 200 }, { 30, 300 }, { 40, 400 });
	SCAN(range(20, 40), { 10, 100 }, { 20, 200 }, { 30, 300 });
	SCAN(limited(range(20, 40), 3), { 20, 200 }, { 30, 300 }, { 40, 400 });
	SCAN(range(20, 20), { 20, 200 });
	SCAN(range(0, 0), { 10, 100 });
	assert_int_equal(check(), 5);
	assert_seen("(40, 400) lies outside the range");
	assert_seen("(10, 100) lies outside the range");
}

static void
scan__beyond_its_limit__REJECTED(void **state)
{
	(void)state;
	SCAN(limited(range(0, 100), 2), { 10, 100 }, { 20, 200 }, { 30, 300 });
	assert_int_equal(check(), 1);
	assert_seen("(30, 300) is beyond the limit");
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void
scan_pairs__of_one_key__EACH_LOOKED_AT(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_INSERT, 7, 72, 0);
	does(SIM_INSERT, 7, 71, 0);
	does(SIM_DELETE_PAIR, 7, 72, 0);
	unique = false;
	SCAN(range(0, 100), { 7, 70 }, { 7, 71 });
	SCAN(limited(range(0, 100), 1), { 7, 70 });
	SCAN(limited(reversed(range(0, 100)), 1), { 7, 71 });
	assert_int_equal(check(), 0);
	SCAN(range(0, 100), { 7, 70 });
	SCAN(range(0, 100), { 7, 71 }, { 7, 70 });
	SCAN(range(0, 100), { 7, 70 }, { 7, 71 }, { 7, 72 });
	SCAN(limited(range(0, 100), 1), { 7, 71 });
	assert_int_equal(check(), 4);
	unique = true;
}

/* ---- contents -------------------------------------------------------------------------------- */

static void
contents__as_the_history_says__ACCEPTED(void **state)
{
	size_t a, b;

	(void)state;
	does(SIM_DELETE, 10, 0, 0);
	does(SIM_INSERT, 60, 600, 0);
	does(SIM_UPDATE, 20, 201, 0);
	(void)call(SIM_INSERT, 70, 700);
	(void)call(SIM_DELETE, 50, 0);
	a = call(SIM_UPDATE, 30, 301);
	b = call(SIM_UPDATE, 30, 302);
	returns(a, 0, 0);
	returns(b, 0, 0);
	assert_int_equal(CONTENTS({ 20, 201 }, { 30, 301 }, { 40, 400 }, { 50, 500 }, { 60, 600 }),
		0);
	assert_int_equal(CONTENTS({ 20, 201 }, { 30, 302 }, { 40, 400 }, { 60, 600 }, { 70, 700 }),
		0);
}

static void
contents__without_an_entry__REJECTED(void **state)
{
	(void)state;
	assert_int_equal(CONTENTS({ 10, 100 }, { 20, 200 }, { 30, 300 }, { 50, 500 }), 1);
	assert_seen("the final contents: (40, 0) is missing");
}

static void
contents__with_a_deleted_entry__REJECTED(void **state)
{
	(void)state;
	does(SIM_DELETE, 50, 0, 0);
	assert_int_equal(CONTENTS({ 10, 100 }, { 20, 200 }, { 30, 300 }, { 40, 400 }, { 50, 500 }),
		1);
}

static void
contents__with_an_invented_entry__REJECTED(void **state)
{
	(void)state;
	assert_int_equal(CONTENTS({ 10, 100 }, { 20, 200 }, { 30, 300 }, { 40, 400 }, { 50, 500 },
		{ 60, 600 }), 1);
}

static void
contents__with_an_entry_twice__REJECTED(void **state)
{
	(void)state;
	assert_int_equal(CONTENTS({ 10, 100 }, { 20, 200 }, { 20, 200 }, { 30, 300 }, { 40, 400 },
		{ 50, 500 }), 1);
}

static void
contents__with_a_lost_update__REJECTED(void **state)
{
	(void)state;
	does(SIM_UPSERT, 50, 501, 0);
	assert_int_equal(CONTENTS({ 10, 100 }, { 20, 200 }, { 30, 300 }, { 40, 400 }, { 50, 500 }),
		1);
}

/* ---- long ------------------------------------------------------------------------------------ */

static struct generator generator;

static void
generate_with(uint64_t seed, enum lie lie)
{
	generator = (struct generator){
		.seed = seed,
		.ops = 3000,
		.keys = 100,
		.sessions = 2 + (uint32_t)(seed % 9),
		.faults_percent = seed % 2,
		.scans_percent = 30,
		.lie = lie,
	};
	sim_history_free(&history);
	generate(&generator, &history);
}

static void
scan__generated_histories__ACCEPTED(void **state)
{
	struct sim_entry entries[100];

	(void)state;
	for (uint64_t seed = 0; seed < 30; seed++) {
		generate_with(seed, LIE_NONE);
		if (check())
			fail_msg("%s", told);
		if (check_contents(entries, generated_contents(&generator, entries)))
			fail_msg("%s", told);
	}
}

static void
scan__generated_lies__REJECTED(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 10; seed++) {
		generate_with(seed, LIE_SCAN_SKIPS);
		assert_true(check() > 0);
		generate_with(seed, LIE_SCAN_REPEATS);
		assert_true(check() > 0);
	}
}

static void
contents__generated_with_one_entry_changed__REJECTED(void **state)
{
	struct sim_entry entries[100];

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed += 2) {
		size_t count, victim;

		generate_with(seed, LIE_NONE);
		count = generated_contents(&generator, entries);
		victim = count / 2;
		entries[victim].payload++;
		assert_true(check_contents(entries, count) > 0);
		memmove(entries + victim, entries + victim + 1,
			(count - victim - 1) * sizeof(entries[0]));
		assert_true(check_contents(entries, count - 1) > 0);
	}
}

/* A result that times alone rule out has no order: this check gives no false alarm. */
static void
scan__histories_with_lies__REJECTED_ONLY_WHERE_NO_ORDER_EXPLAINS_THEM(void **state)
{
	struct sim_linearizable_options options;
	unsigned rejected = 0;

	(void)state;
	sim_linearizable_options_init(&options);
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct sim_findings result;

		generator = (struct generator){ .seed = seed, .ops = 25, .keys = 4, .sessions = 4,
			.faults_percent = 10, .scans_percent = 40,
			.lie = (enum lie)(LIE_LOST_CHANGE + seed % 4) };
		sim_history_free(&history);
		generate(&generator, &history);
		if (check() == 0)
			continue;
		rejected++;
		RUN(sim_check_linearizable(&history, &options, findings), &result);
		assert_true(result.violations > 0);
	}
	assert_in_range(rejected, 20, 280);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_five, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(scan__all_in_order__ACCEPTED),
		TEST(scan__what_changes_meanwhile__MAY_BE_SEEN_OR_NOT),
		TEST(scan__changes_of_dead_clients__MAY_BE_SEEN_OR_NOT),
		TEST(scan__that_failed_on_its_way__CHECKED_SO_FAR),
		TEST(scan__without_a_key_that_is_there__REJECTED),
		TEST(scan__that_ends_early__REJECTED),
		TEST(scan__without_a_key_that_was_only_looked_at_and_updated__REJECTED),
		TEST(scan__with_a_key_that_nobody_wrote__REJECTED),
		TEST(scan__with_a_key_that_was_deleted_before__REJECTED),
		TEST(scan__with_a_key_seen_absent_and_not_inserted_since__REJECTED),
		TEST(scan__with_a_key_inserted_afterwards__REJECTED),
		TEST(scan__with_an_overwritten_payload__REJECTED),
		TEST(scan__with_a_payload_of_another_key__REJECTED),
		TEST(scan__with_a_key_twice__REJECTED),
		TEST(scan__out_of_order__REJECTED),
		TEST(scan__beyond_its_range__REJECTED),
		TEST(scan__beyond_its_limit__REJECTED),
		cmocka_unit_test_setup_teardown(scan_pairs__of_one_key__EACH_LOOKED_AT, set_up,
			tear_down),
		TEST(contents__as_the_history_says__ACCEPTED),
		TEST(contents__without_an_entry__REJECTED),
		TEST(contents__with_a_deleted_entry__REJECTED),
		TEST(contents__with_an_invented_entry__REJECTED),
		TEST(contents__with_an_entry_twice__REJECTED),
		TEST(contents__with_a_lost_update__REJECTED),
		TEST(scan__generated_histories__ACCEPTED),
		TEST(scan__generated_lies__REJECTED),
		TEST(contents__generated_with_one_entry_changed__REJECTED),
		TEST(scan__histories_with_lies__REJECTED_ONLY_WHERE_NO_ORDER_EXPLAINS_THEM),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
