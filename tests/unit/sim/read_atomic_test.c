/* SPDX-License-Identifier: Apache-2.0 */
#include "txns_said.h"

/* ---- true ------------------------------------------------------------------------------------ */

static void
read_atomic__nothing__ACCEPTED(void **state)
{
	(void)state;
	assert_accepted();
}

static void
read_atomic__one_after_another__ACCEPTED(void **state)
{
	(void)state;
	sim_txns_load(&txns, 7, 1);
	reads(1, "r7=1 r8=0");
	writes(1, 100, "w7=70 w8=80");
	reads(2, "r7=70 r8=80 r7=70");
	writes(2, 101, "r7=70 w7=71 r7=71 w7=72 r7=72");
	reads(1, "r7=72 r8=80 r9=0");
	assert_accepted();
}

/* A clock that is behind: its versions are older than what is there, and never seen. */
static void
read_atomic__a_commit_with_an_older_timestamp__ACCEPTED(void **state)
{
	(void)state;
	writes(1, 100, "w7=70 w8=80");
	writes(2, 50, "w7=71 w8=81");
	reads(2, "r7=70 r8=80");
	assert_accepted();
}

static void
read_atomic__a_newer_version_of_another_transaction__ACCEPTED(void **state)
{
	(void)state;
	writes(1, 100, "w7=70 w8=80");
	writes(2, 200, "w8=81");
	reads(3, "r7=70 r8=81");
	assert_accepted();
}

static void
read_atomic__overlapping_readers_that_differ__ACCEPTED(void **state)
{
	uint32_t old, new, writer;

	(void)state;
	writes(1, 100, "w7=70 w8=80");
	old = sim_txns_begin(&txns, 2, clock_ns);
	new = sim_txns_begin(&txns, 3, clock_ns);
	writer = writes(1, 200, "w7=71 w8=81");
	does(new, "r7=71 r8=81");
	does(old, "r7=70 r8=80");
	sim_txns_end(&txns, new, SIM_TXN_COMMITTED, 0, clock_ns);
	sim_txns_end(&txns, old, SIM_TXN_COMMITTED, 0, clock_ns);
	assert_int_equal(txns.txns[writer].outcome, SIM_TXN_COMMITTED);
	assert_accepted();
}

static void
read_atomic__unknown_outcomes_seen_whole_or_not_at_all__ACCEPTED(void **state)
{
	uint32_t open;

	(void)state;
	open = sim_txns_begin(&txns, 1, ++clock_ns);
	does(open, "w7=70 w8=80");
	ended(2, 200, SIM_TXN_UNKNOWN, "w7=71 w8=81");
	ended(3, 300, SIM_TXN_UNKNOWN, "w7=72 w8=82");
	reads(4, "r7=0 r8=0");
	reads(3, "r7=71 r8=81");
	reads(5, "r7=70 r8=80");
	assert_accepted();
}

/* Its session need not see it, even if others do. */
static void
read_atomic__an_own_write_of_unknown_outcome_that_is_not_seen__ACCEPTED(void **state)
{
	(void)state;
	ended(1, 100, SIM_TXN_UNKNOWN, "w7=70");
	reads(1, "r7=0");
	reads(2, "r7=70");
	assert_accepted();
}

static void
read_atomic__reads_of_who_did_not_commit__NOT_LOOKED_AT(void **state)
{
	(void)state;
	ended(1, 0, SIM_TXN_ABORTED, "r7=12345");
	ended(1, 0, SIM_TXN_UNKNOWN, "r7=12345");
	does(sim_txns_begin(&txns, 1, ++clock_ns), "r7=12345");
	assert_accepted();
}

static void
read_atomic__a_timestamp_used_again_after_an_abort__ACCEPTED(void **state)
{
	(void)state;
	ended(1, 100, SIM_TXN_ABORTED, "w7=70");
	writes(1, 100, "w7=71");
	assert_accepted();
}

static void
read_atomic__one_value_in_two_keys__ACCEPTED(void **state)
{
	(void)state;
	writes(1, 100, "w7=70 w8=70");
	writes(1, 101, "w7=71");
	reads(2, "r7=71 r8=70");
	assert_accepted();
}

/* ---- false: what is read --------------------------------------------------------------------- */

static void
read_atomic__a_value_that_nobody_wrote__THIN_AIR(void **state)
{
	(void)state;
	reads(1, "r7=70");
	assert_rejected(SIM_RA_THIN_AIR);
	assert_seen("thin-air: transaction 1 (session 1, 10..20 ns) read key 7 = 70, which no "
		"transaction wrote there\n");
}

static void
read_atomic__a_value_of_another_key__THIN_AIR(void **state)
{
	(void)state;
	writes(1, 100, "w8=80");
	reads(1, "r7=80");
	assert_rejected(SIM_RA_THIN_AIR);
	assert_seen("which no transaction wrote there, but to key 8 transaction 1 (session 1, "
		"timestamp 100, 10..20 ns)\n");
}

static void
read_atomic__a_value_of_who_aborted__ABORTED(void **state)
{
	(void)state;
	ended(1, 100, SIM_TXN_ABORTED, "w7=70");
	reads(2, "r7=70");
	assert_rejected(SIM_RA_ABORTED);
	assert_seen("read key 7 = 70 of transaction 1 (session 1, timestamp 100, 10..20 ns, "
		"aborted), which aborted\n");
}

static void
read_atomic__a_value_that_its_writer_overwrote__INTERMEDIATE(void **state)
{
	(void)state;
	writes(1, 100, "w7=70 w7=71");
	reads(2, "r7=70");
	assert_rejected(SIM_RA_INTERMEDIATE);
}

static void
read_atomic__another_value_than_its_own_write__OWN(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	writes(2, 200, "w7=71 r7=70");
	assert_rejected(SIM_RA_OWN);
	assert_seen("read key 7 = 70 after it wrote 71 there\n");
}

static void
read_atomic__its_own_value_before_the_write__OWN(void **state)
{
	(void)state;
	writes(2, 200, "r7=71 w7=71");
	assert_rejected(SIM_RA_OWN);
}

static void
read_atomic__its_own_value_before_the_last_write__OWN(void **state)
{
	(void)state;
	writes(2, 200, "w7=71 w7=72 r7=71");
	assert_rejected(SIM_RA_OWN);
}

static void
read_atomic__two_values_of_a_key__NON_REPEATABLE(void **state)
{
	uint32_t reader;

	(void)state;
	writes(1, 100, "w7=70");
	reader = sim_txns_begin(&txns, 2, clock_ns);
	does(reader, "r7=70");
	writes(1, 200, "w7=71");
	does(reader, "r7=71 r7=71");
	sim_txns_end(&txns, reader, SIM_TXN_COMMITTED, 0, clock_ns);
	assert_int_equal(check(), 2);
	assert_int_equal(counts[SIM_RA_NON_REPEATABLE], 2);
	assert_seen("read key 7 = 71 after it had read 70 there\n");
}

static void
read_atomic__a_value_before_its_writer_began__FUTURE(void **state)
{
	(void)state;
	reads(1, "r7=70");
	writes(2, 100, "w7=70");
	assert_rejected(SIM_RA_FUTURE);
	options.real_time = false;
	assert_accepted();
}

/* ---- false: what is read together ------------------------------------------------------------ */

static void
read_atomic__one_new_and_one_old__FRACTURED(void **state)
{
	uint32_t reader;

	(void)state;
	writes(1, 100, "w7=70 w8=80");
	reader = sim_txns_begin(&txns, 2, clock_ns);
	writes(1, 200, "w7=71 w8=81");
	does(reader, "r7=71 r8=80");
	sim_txns_end(&txns, reader, SIM_TXN_COMMITTED, 0, clock_ns);
	assert_rejected(SIM_RA_FRACTURED);
	assert_seen("fractured: transaction 2 (session 2, 20..40 ns) read key 7 = 71 of "
		"transaction 3 (session 1, timestamp 200, 30..40 ns), which wrote key 8 as well, "
		"but key 8 = 80 of transaction 1 (session 1, timestamp 100, 10..20 ns), which is "
		"older\n");
}

static void
read_atomic__one_new_and_one_not_there__FRACTURED(void **state)
{
	(void)state;
	options.real_time = false;
	writes(1, 100, "w7=70 w8=80");
	reads(2, "r8=0 r7=70");
	assert_rejected(SIM_RA_FRACTURED);
}

static void
read_atomic__one_new_and_one_loaded__FRACTURED(void **state)
{
	(void)state;
	options.real_time = false;
	sim_txns_load(&txns, 8, 1);
	writes(1, 0, "w7=70 w8=80");
	reads(2, "r8=1 r7=70");
	assert_rejected(SIM_RA_FRACTURED);
}

static void
read_atomic__half_of_a_transaction_of_unknown_outcome__FRACTURED(void **state)
{
	(void)state;
	sim_txns_load(&txns, 8, 1);
	ended(1, 100, SIM_TXN_UNKNOWN, "w7=70 w8=80");
	reads(2, "r8=1 r7=70");
	assert_rejected(SIM_RA_FRACTURED);
	assert_seen(", outcome unknown), which wrote key 8 as well");
}

static void
read_atomic__among_many_keys_of_which_a_reader_reads_few__FRACTURED(void **state)
{
	(void)state;
	options.real_time = false;
	for (uint64_t key = 1; key <= 1000; key++)
		sim_txns_load(&txns, key, 1);
	writes(1, 100, "w1=11 w2=12 w3=13 w4=14 w5=15 w6=16");
	reads(2, "r6=16 r2=1");
	assert_rejected(SIM_RA_FRACTURED);
}

static void
read_atomic__reader_that_writes__FRACTURED(void **state)
{
	(void)state;
	writes(1, 100, "w7=70 w8=80");
	writes(1, 200, "w7=71 w8=81");
	writes(2, 300, "r7=71 r8=80 w8=82");
	assert_rejected(SIM_RA_FRACTURED);
}

/* ---- false: sessions and times --------------------------------------------------------------- */

static void
read_atomic__older_than_its_sessions_write__NOT_MINE(void **state)
{
	(void)state;
	options.real_time = false;
	writes(2, 100, "w7=70");
	writes(1, 200, "w7=71");
	reads(3, "r7=70");
	assert_accepted();
	reads(1, "r7=70");
	assert_rejected(SIM_RA_NOT_MINE);
	assert_seen("read key 7 = 70 of transaction 1 (session 2, timestamp 100, 10..20 ns), which "
		"is older than that of transaction 2 (session 1, timestamp 200, 30..40 ns), which "
		"its session had committed\n");
}

static void
read_atomic__nothing_where_its_session_wrote__NOT_MINE(void **state)
{
	(void)state;
	options.real_time = false;
	writes(1, 0, "w7=70");
	reads(1, "r7=0");
	assert_rejected(SIM_RA_NOT_MINE);
}

static void
read_atomic__older_than_its_session_read__NOT_MONOTONE(void **state)
{
	(void)state;
	options.real_time = false;
	writes(2, 100, "w7=70");
	writes(3, 200, "w7=71");
	reads(1, "r7=71");
	reads(1, "r8=0");
	reads(1, "r7=70");
	assert_rejected(SIM_RA_NOT_MONOTONE);
	reads(1, "r7=70");
	assert_int_equal(check(), 2);
	assert_int_equal(counts[SIM_RA_NOT_MONOTONE], 2);
	options.monotone_reads = false;
	assert_accepted();
}

static void
read_atomic__read_only_and_older_than_what_was_committed__STALE(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	writes(2, 300, "w7=72");
	writes(1, 200, "w7=71");
	reads(3, "r7=71");
	assert_rejected(SIM_RA_STALE);
	assert_seen("which is older than that of transaction 2 (session 2, timestamp 300, 30..40 "
		"ns), which was there before it began\n");
	options.real_time = false;
	assert_accepted();
}

static void
read_atomic__a_reader_that_writes_of_something_old__ACCEPTED(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	writes(1, 200, "w7=71");
	writes(2, 300, "r7=70 w8=80");
	assert_accepted();
}

static void
read_atomic__a_write_that_returned_as_the_reader_began__ACCEPTED(void **state)
{
	uint32_t reader;

	(void)state;
	writes(1, 100, "w7=70");
	writes(1, 200, "w7=71");
	reader = sim_txns_begin(&txns, 2, clock_ns);
	does(reader, "r7=70");
	sim_txns_end(&txns, reader, SIM_TXN_COMMITTED, 0, clock_ns + 10);
	assert_accepted();
}

static void
read_atomic__nothing_where_something_is_loaded__STALE(void **state)
{
	(void)state;
	options.real_time = false;
	sim_txns_load(&txns, 7, 1);
	reads(1, "r7=0");
	assert_rejected(SIM_RA_STALE);
}

/* ---- false: timestamps ----------------------------------------------------------------------- */

static void
read_atomic__a_sessions_timestamp_goes_back__BACKWARDS(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	writes(1, 200, "w8=80");
	writes(2, 50, "w8=81");
	writes(1, 150, "w9=90");
	assert_rejected(SIM_RA_BACKWARDS);
	assert_seen("transaction 4 (session 1, timestamp 150, 70..80 ns) has a timestamp below "
		"that of its session's earlier transaction 2 (session 1, timestamp 200, 30..40 "
		"ns)\n");
	writes(1, 160, "w9=91");
	assert_int_equal(check(), 2);
	assert_int_equal(counts[SIM_RA_BACKWARDS], 2);
}

static void
read_atomic__one_timestamp_for_two__TWICE(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	ended(2, 100, SIM_TXN_UNKNOWN, "w8=80");
	assert_rejected(SIM_RA_TWICE);
	assert_seen("transaction 2 (session 2, timestamp 100, 30..40 ns, outcome unknown) has the "
		"timestamp of transaction 1 (session 1, timestamp 100, 10..20 ns)\n");
}

/* ---- timestamps that are unknown ------------------------------------------------------------- */

static void
read_atomic_untimed__readers_that_agree_on_an_order__ACCEPTED(void **state)
{
	(void)state;
	writes(1, 0, "w7=70 w8=80");
	writes(2, 0, "w7=71 w8=81");
	reads(3, "r7=71 r8=81");
	reads(3, "r7=70 r8=80");
	reads(4, "r7=70 r8=80");
	assert_accepted();
}

static void
read_atomic_untimed__halves_of_two__FRACTURED(void **state)
{
	(void)state;
	writes(1, 0, "w7=70 w8=80");
	writes(2, 0, "w7=71 w8=81");
	reads(3, "r7=71 r8=80");
	assert_rejected(SIM_RA_FRACTURED);
	assert_seen(", which wrote both, too\n");
}

static void
read_atomic_untimed__an_earlier_half_of_one_session__FRACTURED(void **state)
{
	(void)state;
	options.real_time = false;
	writes(1, 0, "w8=80");
	writes(1, 0, "w7=71 w8=81");
	reads(3, "r7=71 r8=80");
	assert_rejected(SIM_RA_FRACTURED);
}

/* 3 saw that the first is older than the second; 4, that it is newer. */
static void
read_atomic_untimed__readers_that_disagree__NO_ORDER(void **state)
{
	(void)state;
	writes(1, 0, "w7=70 w8=80");
	writes(2, 0, "w8=81 w9=91");
	reads(3, "r7=70 r8=81");
	assert_accepted();
	reads(4, "r8=80 r9=91");
	assert_rejected(SIM_RA_NO_ORDER);
	assert_seen("no-order: timestamps are unknown, and these cannot all be true:\n");
	assert_seen("  transaction 1 (session 1, 10..20 ns) is older than transaction 2 (session "
		"2, 30..40 ns): transaction 3 (session 3, 50..60 ns) read key 8 of the second, and "
		"another one of the first, which wrote this key, too\n");
	assert_seen("  transaction 2 (session 2, 30..40 ns) is older than transaction 1 (session "
		"1, 10..20 ns): transaction 4 (session 4, 70..80 ns) read key 8");
}

static void
read_atomic_untimed__back_to_what_a_session_had_read__NO_ORDER(void **state)
{
	(void)state;
	writes(1, 0, "w7=70");
	writes(2, 0, "w7=71");
	reads(3, "r7=70");
	reads(3, "r7=71");
	assert_accepted();
	reads(3, "r7=70");
	assert_rejected(SIM_RA_NO_ORDER);
	assert_seen("read key 7 of the second after its session had read that of the first\n");
	options.monotone_reads = false;
	assert_accepted();
}

static void
read_atomic_untimed__a_circle_by_a_session_and_timestamps__NO_ORDER(void **state)
{
	(void)state;
	options.real_time = false;
	writes(1, 200, "w7=70");
	writes(1, 0, "w8=80");
	writes(2, 100, "w8=81");
	reads(3, "r8=80");
	assert_accepted();
	reads(3, "r8=81");
	assert_rejected(SIM_RA_NO_ORDER);
	assert_seen(": so say their timestamps\n");
	assert_seen(": their session committed them in this order\n");
}

/* ---- what cannot be looked at ---------------------------------------------------------------- */

static void
read_atomic__a_value_written_twice__UNUSABLE(void **state)
{
	(void)state;
	writes(1, 100, "w7=70");
	writes(2, 200, "w7=70");
	assert_rejected(SIM_RA_UNUSABLE);
	assert_seen("transaction 2 (session 2, timestamp 200, 30..40 ns) wrote key 7 = 70, "
		"transaction 1 (session 1, timestamp 100, 10..20 ns) as well\n");
}

static void
read_atomic__zero_written__UNUSABLE(void **state)
{
	(void)state;
	writes(1, 100, "w7=0");
	assert_rejected(SIM_RA_UNUSABLE);
}

static void
read_atomic__more_than_are_told__COUNTED(void **state)
{
	(void)state;
	for (int i = 0; i < 25; i++)
		reads(1, "r7=12345");
	assert_int_equal(check(), 25);
	assert_int_equal(counts[SIM_RA_THIN_AIR], 25);
}

static void
name__of_each_kind__A_WORD(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < SIM_RA_KINDS; kind++)
		assert_true(strlen(sim_read_atomic_name(kind)) > 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(read_atomic__nothing__ACCEPTED),
		TEST(read_atomic__one_after_another__ACCEPTED),
		TEST(read_atomic__a_commit_with_an_older_timestamp__ACCEPTED),
		TEST(read_atomic__a_newer_version_of_another_transaction__ACCEPTED),
		TEST(read_atomic__overlapping_readers_that_differ__ACCEPTED),
		TEST(read_atomic__unknown_outcomes_seen_whole_or_not_at_all__ACCEPTED),
		TEST(read_atomic__an_own_write_of_unknown_outcome_that_is_not_seen__ACCEPTED),
		TEST(read_atomic__reads_of_who_did_not_commit__NOT_LOOKED_AT),
		TEST(read_atomic__a_timestamp_used_again_after_an_abort__ACCEPTED),
		TEST(read_atomic__one_value_in_two_keys__ACCEPTED),
		TEST(read_atomic__a_value_that_nobody_wrote__THIN_AIR),
		TEST(read_atomic__a_value_of_another_key__THIN_AIR),
		TEST(read_atomic__a_value_of_who_aborted__ABORTED),
		TEST(read_atomic__a_value_that_its_writer_overwrote__INTERMEDIATE),
		TEST(read_atomic__another_value_than_its_own_write__OWN),
		TEST(read_atomic__its_own_value_before_the_write__OWN),
		TEST(read_atomic__its_own_value_before_the_last_write__OWN),
		TEST(read_atomic__two_values_of_a_key__NON_REPEATABLE),
		TEST(read_atomic__a_value_before_its_writer_began__FUTURE),
		TEST(read_atomic__one_new_and_one_old__FRACTURED),
		TEST(read_atomic__one_new_and_one_not_there__FRACTURED),
		TEST(read_atomic__one_new_and_one_loaded__FRACTURED),
		TEST(read_atomic__half_of_a_transaction_of_unknown_outcome__FRACTURED),
		TEST(read_atomic__among_many_keys_of_which_a_reader_reads_few__FRACTURED),
		TEST(read_atomic__reader_that_writes__FRACTURED),
		TEST(read_atomic__older_than_its_sessions_write__NOT_MINE),
		TEST(read_atomic__nothing_where_its_session_wrote__NOT_MINE),
		TEST(read_atomic__older_than_its_session_read__NOT_MONOTONE),
		TEST(read_atomic__read_only_and_older_than_what_was_committed__STALE),
		TEST(read_atomic__a_reader_that_writes_of_something_old__ACCEPTED),
		TEST(read_atomic__a_write_that_returned_as_the_reader_began__ACCEPTED),
		TEST(read_atomic__nothing_where_something_is_loaded__STALE),
		TEST(read_atomic__a_sessions_timestamp_goes_back__BACKWARDS),
		TEST(read_atomic__one_timestamp_for_two__TWICE),
		TEST(read_atomic_untimed__readers_that_agree_on_an_order__ACCEPTED),
		TEST(read_atomic_untimed__halves_of_two__FRACTURED),
		TEST(read_atomic_untimed__an_earlier_half_of_one_session__FRACTURED),
		TEST(read_atomic_untimed__readers_that_disagree__NO_ORDER),
		TEST(read_atomic_untimed__back_to_what_a_session_had_read__NO_ORDER),
		TEST(read_atomic_untimed__a_circle_by_a_session_and_timestamps__NO_ORDER),
		TEST(read_atomic__a_value_written_twice__UNUSABLE),
		TEST(read_atomic__zero_written__UNUSABLE),
		TEST(read_atomic__more_than_are_told__COUNTED),
		TEST(name__of_each_kind__A_WORD),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
