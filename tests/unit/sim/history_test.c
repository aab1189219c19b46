/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

static char *text;
static size_t text_bytes;

static void
write_json(void)
{
	FILE *file = open_memstream(&text, &text_bytes);

	sim_history_write_json(&history, file);
	fclose(file);
}

static size_t
write_plain(void)
{
	FILE *file = open_memstream(&text, &text_bytes);
	size_t unsaid = sim_history_write_plain(&history, file);

	fclose(file);
	return unsaid;
}

static void
assert_text(const char *expected)
{
	assert_string_equal(text, expected);
	free(text);
}

static void
outcome__of_each_code__KNOWN(void **state)
{
	static const struct {
		int rc;
		enum sim_outcome outcome;
	} codes[] = {
		{ 0, SIM_DONE },
		{ -NAM_E_EXISTS, SIM_EXISTS },
		{ -NAM_E_NOTFOUND, SIM_NOTFOUND },
		{ -NAM_E_RESTART_HOPS, SIM_NOTHING },
		{ -NAM_E_LOCK_TIMEOUT, SIM_NOTHING },
		{ -NAM_E_LOCK_ORPHANED, SIM_NOTHING },
		{ -NAM_E_REMOTE_FULL, SIM_NOTHING },
		{ -NAM_E_FABRIC_PEER_DEAD, SIM_UNKNOWN },
		{ -NAM_E_FENCED, SIM_UNKNOWN },
		{ -5, SIM_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		does(SIM_INSERT, 7, 70, codes[i].rc);
		assert_int_equal(sim_op_outcome(&history.ops[i]), codes[i].outcome);
		assert_int_equal(sim_op_end(&history.ops[i]), codes[i].outcome == SIM_UNKNOWN ?
			SIM_NEVER : history.ops[i].return_order);
	}
	assert_int_equal(sim_op_outcome(&history.ops[call(SIM_INSERT, 7, 70)]), SIM_UNKNOWN);
}

static void
history__that_outgrows_its_arrays__KEEPS_ALL(void **state)
{
	const struct sim_range all = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		const struct sim_entry entries[] = { { i, i }, { i + 1, i } };
		size_t scan = sim_history_call_scan(&history, 1, 1, &all, i);

		does(SIM_INSERT, i, 2 * i, 0);
		sim_history_return_scan(&history, scan, 0, entries, 2, i);
	}
	for (uint64_t i = 0; i < 5000; i++) {
		const struct sim_scan *scan = &history.scans[history.ops[2 * i].scan];

		assert_int_equal(history.ops[2 * i + 1].payload, 2 * i);
		assert_int_equal(history.ops[2 * i].call_order, 4 * i);
		assert_int_equal(history.ops[2 * i].return_order, 4 * i + 3);
		assert_int_equal(history.entries[scan->first + 1].key, i + 1);
	}
}

static void
write_json__one_of_each__ONE_LINE_EACH(void **state)
{
	const struct sim_range range = { .high = 9, .has_high = true, .limit = 5 };
	const struct sim_entry entries[] = { { 7, 70 }, { 8, 80 } };
	size_t scan;

	(void)state;
	sim_history_load(&history, 8, 80);
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 70);
	looks_up(6, 0);
	(void)call(SIM_DELETE, 7, 0);
	scan = sim_history_call_scan(&history, 2, 3, &range, 500);
	sim_history_return_scan(&history, scan, 0, entries, 2, 600);

	write_json();

	assert_text("{\"op\":0,\"kind\":\"insert\",\"client\":\"loader\",\"session\":0,\"key\":8,"
		"\"payload\":80,\"call_ns\":0,\"return_ns\":0,\"rc\":\"0\"}\n"
		"{\"op\":1,\"kind\":\"insert\",\"client\":1,\"session\":1,\"key\":7,\"payload\":70,"
		"\"call_ns\":20,\"return_ns\":30,\"rc\":\"0\"}\n"
		"{\"op\":2,\"kind\":\"lookup\",\"client\":1,\"session\":2,\"key\":7,\"payload\":70,"
		"\"call_ns\":40,\"return_ns\":50,\"rc\":\"0\"}\n"
		"{\"op\":3,\"kind\":\"lookup\",\"client\":1,\"session\":3,\"key\":6,"
		"\"call_ns\":60,\"return_ns\":70,\"rc\":\"NAM_E_NOTFOUND\"}\n"
		"{\"op\":4,\"kind\":\"delete\",\"client\":1,\"session\":4,\"key\":7,"
		"\"call_ns\":80,\"return_ns\":null,\"rc\":null}\n"
		"{\"op\":5,\"kind\":\"scan\",\"client\":2,\"session\":3,\"high\":9,"
		"\"high_inclusive\":false,\"reverse\":false,\"limit\":5,"
		"\"entries\":[[7,70],[8,80]],"
		"\"call_ns\":500,\"return_ns\":600,\"rc\":\"0\"}\n");
}

static void
write_plain__reads_and_writes__LOADER_FIRST(void **state)
{
	(void)state;
	sim_history_load(&history, 8, 80);
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 70);
	does(SIM_UPDATE, 8, 81, 0);

	assert_int_equal(write_plain(), 0);

	/* Key 7 was absent: 2^63 + 4 operations + unit 0. */
	assert_text("w(7,9223372036854775812,0,0)\n"
		"w(8,80,0,0)\n"
		"w(7,70,1,1)\n"
		"r(7,70,2,2)\n"
		"w(8,81,3,3)\n");
}

static void
write_plain__absence__A_VALUE(void **state)
{
	(void)state;
	looks_up(7, 0);
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_DELETE, 7, 0, 0);
	looks_up(7, 0);

	assert_int_equal(write_plain(), 0);

	assert_text("w(7,9223372036854775812,0,0)\n"
		"r(7,9223372036854775812,1,1)\n"
		"w(7,70,2,2)\n"
		"w(7,9223372036854775810,3,3)\n"
		"r(7,9223372036854775810,4,4)\n");
}

static void
write_plain__unknown_outcomes__ABORTED_UNLESS_SEEN(void **state)
{
	(void)state;
	(void)call(SIM_UPSERT, 7, 70);
	(void)call(SIM_UPSERT, 7, 71);
	looks_up(7, 71);
	looks_up(7, 0);
	does(SIM_INSERT, 7, 72, -NAM_E_EXISTS);
	does(SIM_INSERT, 7, 73, -NAM_E_REMOTE_FULL);

	/* When it was seen absent, and present, is not said. */
	assert_int_equal(write_plain(), 2);

	assert_text("w(7,9223372036854775814,0,0)\n"
		"w(7,70,1,-1)\n"
		"w(7,71,2,1)\n"
		"r(7,71,3,2)\n");
}

static void
write_plain__a_scan__ONE_READ_FOR_EACH_ENTRY(void **state)
{
	const struct sim_range all = { 0 };
	const struct sim_entry entries[] = { { 7, 70 }, { 8, 80 } };
	size_t scan;

	(void)state;
	sim_history_load(&history, 7, 70);
	sim_history_load(&history, 8, 80);
	scan = sim_history_call_scan(&history, 2, 3, &all, 500);
	sim_history_return_scan(&history, scan, 0, entries, 2, 600);

	assert_int_equal(write_plain(), 0);

	assert_text("w(7,70,0,0)\n"
		"w(8,80,0,0)\n"
		"r(7,70,1,1)\n"
		"r(8,80,1,2)\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(outcome__of_each_code__KNOWN),
		TEST(history__that_outgrows_its_arrays__KEEPS_ALL),
		TEST(write_json__one_of_each__ONE_LINE_EACH),
		TEST(write_plain__reads_and_writes__LOADER_FIRST),
		TEST(write_plain__absence__A_VALUE),
		TEST(write_plain__unknown_outcomes__ABORTED_UNLESS_SEEN),
		TEST(write_plain__a_scan__ONE_READ_FOR_EACH_ENTRY),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
