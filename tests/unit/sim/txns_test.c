/* SPDX-License-Identifier: Apache-2.0 */
#include "txns_said.h"

#include <errno.h>

static char *text;
static char diag[SIM_TXNS_DIAG_BYTES];

static void
write_text(void (*write)(const struct sim_txns *, FILE *))
{
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	write(&txns, file);
	fclose(file);
}

static void
assert_text(void (*write)(const struct sim_txns *, FILE *), const char *expected)
{
	write_text(write);
	assert_string_equal(text, expected);
	free(text);
}

/* Into a history without transactions. */
static int
read_text(const char *from, size_t bytes)
{
	FILE *file = fmemopen((void *)(uintptr_t)from, bytes, "r");
	int rc;

	sim_txns_free(&txns);
	sim_txns_init(&txns);
	rc = sim_txns_read_plain(&txns, file, diag);
	fclose(file);
	return rc;
}

static void
assert_malformed(const char *from, const char *says)
{
	diag[0] = '\0';
	assert_int_equal(read_text(from, strlen(from)), -EINVAL);
	assert_string_equal(diag, says);
}

static void
history__that_outgrows_its_arrays__KEEPS_ALL(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 5000; i++) {
		uint32_t txn = sim_txns_begin(&txns, (uint32_t)i % 7, i);

		assert_int_equal(txn, i);
		sim_txns_write(&txns, txn, i, 2 * i);
		sim_txns_read(&txns, txn, i, 2 * i);
		sim_txns_end(&txns, txn, SIM_TXN_COMMITTED, 3 * i, i);
	}
	assert_int_equal(txns.count, 5001);
	for (uint64_t i = 1; i <= 5000; i++) {
		assert_int_equal(txns.txns[i].timestamp, 3 * i);
		assert_int_equal(txns.accesses[2 * i - 1].value, 2 * i);
		assert_int_equal(txns.accesses[2 * i - 1].txn, i);
		assert_false(txns.accesses[2 * i - 1].write);
	}
}

static void
write_json__one_of_each__ONE_LINE_EACH(void **state)
{
	uint32_t open;

	(void)state;
	sim_txns_load(&txns, 7, 1);
	open = sim_txns_begin(&txns, 3, 5);
	sim_txns_write(&txns, open, 9, 90);
	writes(1, 100, "r7=1 w7=70");
	sim_txns_write(&txns, open, 8, 80);
	ended(2, 0, SIM_TXN_ABORTED, "w7=71");
	reads(1, "");
	assert_text(sim_txns_write_json,
		"{\"txn\":0,\"session\":\"loader\",\"number\":0,\"begin_ns\":null,"
		"\"end_ns\":null,\"outcome\":\"committed\",\"timestamp\":null,"
		"\"ops\":[[\"w\",7,1]]}\n"
		"{\"txn\":1,\"session\":3,\"number\":1,\"begin_ns\":5,\"end_ns\":null,"
		"\"outcome\":\"unknown\",\"timestamp\":null,"
		"\"ops\":[[\"w\",9,90],[\"w\",8,80]]}\n"
		"{\"txn\":2,\"session\":1,\"number\":1,\"begin_ns\":10,\"end_ns\":20,"
		"\"outcome\":\"committed\",\"timestamp\":100,"
		"\"ops\":[[\"r\",7,1],[\"w\",7,70]]}\n"
		"{\"txn\":3,\"session\":2,\"number\":1,\"begin_ns\":30,\"end_ns\":40,"
		"\"outcome\":\"aborted\",\"timestamp\":null,\"ops\":[[\"w\",7,71]]}\n"
		"{\"txn\":4,\"session\":1,\"number\":2,\"begin_ns\":50,\"end_ns\":60,"
		"\"outcome\":\"committed\",\"timestamp\":null,\"ops\":[]}\n");
}

static void
write_plain__reads_and_writes__LOADER_FIRST(void **state)
{
	uint32_t slow;

	(void)state;
	sim_txns_load(&txns, 8, 1);
	slow = sim_txns_begin(&txns, 3, 5);
	does(slow, "w9=90");
	writes(1, 100, "r8=1 w7=70");
	does(slow, "w7=71");
	sim_txns_end(&txns, slow, SIM_TXN_COMMITTED, 200, 50);
	reads(2, "r9=0 r7=71 r8=1");
	assert_text(sim_txns_write_plain, "w(7,9223372036854775808,0,0)\n"
		"w(8,1,0,0)\n"
		"w(9,9223372036854775810,0,0)\n"
		"w(9,90,3,1)\n"
		"w(7,71,3,1)\n"
		"r(8,1,1,2)\n"
		"w(7,70,1,2)\n"
		"r(9,9223372036854775810,2,3)\n"
		"r(7,71,2,3)\n"
		"r(8,1,2,3)\n");
}

static void
write_plain__unknown_outcomes__ABORTED_UNLESS_SEEN(void **state)
{
	(void)state;
	ended(1, 100, SIM_TXN_UNKNOWN, "r7=0 w7=70 w8=80");
	ended(1, 101, SIM_TXN_UNKNOWN, "r7=0 w7=71 w8=81");
	ended(1, 102, SIM_TXN_ABORTED, "r7=70 w7=72");
	reads(2, "r7=71");
	assert_text(sim_txns_write_plain, "w(7,9223372036854775808,0,0)\n"
		"w(8,9223372036854775809,0,0)\n"
		"w(7,70,1,-1)\n"
		"w(8,80,1,-1)\n"
		"w(7,71,3,2)\n"
		"w(8,81,3,2)\n"
		"w(7,72,1,-1)\n"
		"r(7,71,2,4)\n");
}

static void
read_plain__what_was_written__THE_SAME_AGAIN(void **state)
{
	char *first;

	(void)state;
	sim_txns_load(&txns, 7, 1);
	writes(1, 100, "w7=70 w8=80");
	ended(2, 101, SIM_TXN_UNKNOWN, "w7=71 w8=81");
	ended(2, 0, SIM_TXN_ABORTED, "w8=82");
	reads(3, "r7=71 r8=81 r9=0");
	writes(2, 102, "r8=81 w9=90 w9=91 r9=91");
	write_text(sim_txns_write_plain);
	first = text;

	assert_int_equal(read_text(first, strlen(first)), 0);

	assert_text(sim_txns_write_plain, first);
	free(first);
	assert_accepted();
}

static void
read_plain__lines_in_any_arrangement__BY_SESSION_AND_TXN(void **state)
{
	static const char from[] = "\n w( 7 , 1, 0,0 )\r\nw(8,0,0,0)\n"
		"w(7,70,1,1)\nw(7,71,2,1)\nr(8,0,1,1)\n\t\nw(9,90,0,5)\nw(9,91,2,-1)\nw(8,80,1,1)";

	(void)state;
	assert_int_equal(read_text(from, strlen(from)), 0);
	assert_int_equal(txns.count, 5);
	assert_int_equal(txns.accesses_count, 7);
	assert_int_equal(txns.txns[1].session, 1);
	assert_int_equal(txns.txns[2].session, 2);
	assert_int_equal(txns.txns[2].name, 1);
	assert_int_equal(txns.txns[3].name, 5);
	assert_int_equal(txns.txns[4].outcome, SIM_TXN_ABORTED);
	assert_int_equal(txns.accesses[6].txn, 1);
	assert_int_equal(txns.accesses[6].value, 80);
	assert_accepted();
}

static void
read_plain__thousands_of_transactions__KEPT_APART(void **state)
{
	char *from;
	size_t bytes;
	FILE *file = open_memstream(&from, &bytes);

	(void)state;
	for (int half = 0; half < 2; half++)
		for (int i = 1; i <= 5000; i++)
			fprintf(file, "w(%d,%d,%d,%d)\n", i, i + 5000 * half, 1 + i % 10, i / 10);
	fclose(file);
	assert_int_equal(read_text(from, bytes), 0);
	free(from);
	assert_int_equal(txns.count, 5001);
	for (size_t i = 0; i < 5000; i++)
		assert_int_equal(txns.accesses[i].txn, txns.accesses[5000 + i].txn);
}

static void
read_plain__each_mistake__SAYS_WHERE(void **state)
{
	static const char form[] =
		"line 2: not r(key,value,session,txn) or w(key,value,session,txn)";
	static const char *const lines[] = { "x(1,2,3,4)", "r 1,2,3,4)", "r(1,2,3,4", "r(1,2,3)",
		"r(1,2,3,4,5)", "r(1,2,3,4) r(1,2,3,4)", "r(-1,2,3,4)", "r(1,,3,4)", "r(1,2,3,-2)",
		"r(1,2,3,-14)", "r(0x1,2,3,4)", "rw(1,2,3,4)", "r(18446744073709551616,2,3,4)",
		"r(1,2,3,99999999999999999999)", "r", "(", "1", "r(1;2;3;4)" };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char from[100];

		snprintf(from, sizeof(from), "w(1,1,1,1)\n%s\nw(2,2,2,2)\n", lines[i]);
		assert_malformed(from, form);
	}
	assert_malformed("r(1,2,4294967296,1)\n", "line 1: a session's number is below 2^32");
	assert_malformed("w(1,0,1,1)\n", "line 1: 0 stands for what was never written");
	assert_malformed("r(1,0,0,0)\n",
		"line 1: transaction 0 of session 0 is the loader's and reads nothing");
	assert_malformed("\nw(1,1,1,1)\nw(1,2,0,0)\n",
		"line 3: the loader's lines, transaction 0 of session 0, come first");
	assert_int_equal(read_text("w(1,2,3,4)\0\n", 12), -EINVAL);
	assert_string_equal(diag, "line 1: a zero byte");
}

static void
read_plain__a_file_that_cannot_be_read__EIO(void **state)
{
	FILE *file = fopen("/", "r");

	(void)state;
	assert_non_null(file);
	assert_int_equal(sim_txns_read_plain(&txns, file, diag), -EIO);
	assert_string_equal(diag, "cannot be read after line 0");
	fclose(file);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(history__that_outgrows_its_arrays__KEEPS_ALL),
		TEST(write_json__one_of_each__ONE_LINE_EACH),
		TEST(write_plain__reads_and_writes__LOADER_FIRST),
		TEST(write_plain__unknown_outcomes__ABORTED_UNLESS_SEEN),
		TEST(read_plain__what_was_written__THE_SAME_AGAIN),
		TEST(read_plain__lines_in_any_arrangement__BY_SESSION_AND_TXN),
		TEST(read_plain__thousands_of_transactions__KEPT_APART),
		TEST(read_plain__each_mistake__SAYS_WHERE),
		TEST(read_plain__a_file_that_cannot_be_read__EIO),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
