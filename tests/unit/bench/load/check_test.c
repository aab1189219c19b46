/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/load/check.h"
#include "common/exit.h"

/* The result of a scan of pairs first .. end - 1. */
struct delivery {
	uint8_t keys[1024 * 8];
	uint64_t payloads[1024];
	uint32_t count;
};

static struct keys keys;
static struct delivery delivery;

static int
set_up(void **state)
{
	(void)state;
	memset(&findings, 0, sizeof(findings));
	findings.printed = FINDINGS_PRINTED_MAX + 1;	/* be quiet */
	delivery.count = 0;
	return keys_init(&keys, 1000, 0, 8, 7, false, 3);
}

static void
deliver_pair(uint64_t key, uint64_t payload)
{
	nam_key_from_u64(key, delivery.keys + 8 * (size_t)delivery.count);
	delivery.payloads[delivery.count++] = payload;
}

static void
deliver(uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++)
		deliver_pair(keys_loaded(&keys, i), keys_loaded_payload(&keys, i));
}

static void
deliver_inserted(uint64_t number)
{
	uint64_t payload, key = keys_inserted(&keys, number, &payload);

	deliver_pair(key, payload);
}

/* Feed what was delivered, in pieces, to a scan of loaded pairs low .. high - 1. */
static uint64_t
check(uint64_t low, uint64_t high, bool reverse, bool exhausted, uint64_t limit)
{
	struct scan_check scan;

	scan_check_begin(&scan, &keys, keys_loaded(&keys, low),
		keys_loaded(&keys, high), high >= keys.pairs, reverse);
	for (uint32_t at = 0; at < delivery.count; at += 100) {
		uint32_t count = delivery.count - at < 100 ? delivery.count - at : 100;

		scan_check_feed(&scan, delivery.keys + 8 * (size_t)at, delivery.payloads + at,
			count);
	}
	scan_check_end(&scan, exhausted, limit);
	assert_int_equal(scan.count, delivery.count);
	return findings_total();
}

static void
scan__complete__NO_FINDING(void **state)
{
	(void)state;
	deliver(100, 900);
	assert_int_equal(check(100, 900, false, true, 0), 0);
}

static void
scan__whole_index__NO_FINDING(void **state)
{
	(void)state;
	deliver(0, 1000);
	assert_int_equal(check(0, 1000, false, true, 0), 0);
}

static void
scan__limit_reached__NO_FINDING(void **state)
{
	(void)state;
	deliver(100, 150);
	assert_int_equal(check(100, 1000, false, false, 50), 0);
}

static void
scan__limit_not_reached_at_the_end__NO_FINDING(void **state)
{
	(void)state;
	deliver(990, 1000);
	assert_int_equal(check(990, 1000, false, true, 50), 0);
}

static void
scan__too_few_or_too_many__WRONG(void **state)
{
	(void)state;
	deliver(100, 150);
	assert_int_equal(check(100, 1000, false, false, 51), 1);
	assert_int_equal(check(100, 1000, false, false, 49), 2);
}

static void
scan__hole_in_the_middle__MISSING_IS_COUNTED(void **state)
{
	(void)state;
	deliver(100, 200);
	deliver(203, 300);
	assert_int_equal(check(100, 300, false, true, 0), 3);
	assert_int_equal(findings.missing, 3);
}

static void
scan__ends_too_early__MISSING_IS_COUNTED(void **state)
{
	(void)state;
	deliver(100, 200);
	assert_int_equal(check(100, 210, false, true, 0), 10);
}

static void
scan__nothing_though_something_is_there__MISSING(void **state)
{
	(void)state;
	assert_int_equal(check(5, 7, false, true, 0), 2);
}

static void
scan__delivered_twice__WRONG(void **state)
{
	(void)state;
	deliver(100, 200);
	deliver(199, 300);
	assert_true(check(100, 300, false, true, 0) > 0);
	assert_int_equal(findings.missing, 0);
}

static void
scan__outside_the_range__WRONG(void **state)
{
	(void)state;
	deliver(99, 300);
	assert_int_equal(check(100, 300, false, true, 0), 1);
	findings.wrong = 0;
	deliver(300, 301);
	assert_true(check(99, 300, false, true, 0) > 0);
}

static void
scan__payload_that_nobody_wrote__WRONG(void **state)
{
	(void)state;
	deliver(100, 200);
	delivery.payloads[42] ^= 1;
	assert_true(check(100, 200, false, true, 0) > 0);
	assert_true(findings.wrong > 0);
}

static void
scan__version_in_the_payload__RIGHT_ONLY_IF_THERE_ARE_UPDATES(void **state)
{
	(void)state;
	deliver(100, 200);
	delivery.payloads[42] |= 7ull << KEYS_HASH_BITS;
	assert_true(check(100, 200, false, true, 0) > 0);
	findings.wrong = findings.missing = 0;
	keys.versions = true;
	assert_int_equal(check(100, 200, false, true, 0), 0);
}

static void
scan__inserted_pairs_between__NO_FINDING(void **state)
{
	uint64_t payload, number = 0;

	(void)state;
	while (keys_inserted(&keys, number, &payload) >> keys.stride_shift != 150)
		number++;
	deliver(100, 151);
	deliver_inserted(number);
	deliver(151, 200);
	assert_int_equal(check(100, 200, false, true, 0), 0);
}

static void
scan__victims_gone_or_not__NO_FINDING(void **state)
{
	(void)state;
	assert_int_equal(keys_init(&keys, 1000, 0, 8, 7, true, 3), 0);
	for (uint64_t i = 100; i < 200; i++)
		if (!keys_is_victim(&keys, i) || i % 8 == 3)
			deliver(i, i + 1);
	assert_int_equal(check(100, 200, false, true, 0), 0);
}

static void
scan__hole_among_victims__MISSING_IS_COUNTED(void **state)
{
	(void)state;
	assert_int_equal(keys_init(&keys, 1000, 0, 8, 7, true, 3), 0);
	deliver(100, 120);
	deliver(128, 200);
	assert_int_equal(check(100, 200, false, true, 0), 6);
}

static void
scan__downwards__NO_FINDING_AND_HOLES_FOUND(void **state)
{
	(void)state;
	for (uint64_t i = 200; i > 100; i--)
		deliver(i - 1, i);
	assert_int_equal(check(100, 200, true, true, 0), 0);
	assert_int_equal(check(98, 202, true, true, 0), 4);
}

static void
scan__upwards_though_downwards_was_asked__WRONG(void **state)
{
	(void)state;
	deliver(100, 200);
	assert_true(check(100, 200, true, true, 0) > 0);
}

static void
scan__duplicates__ORDER_AND_COMPLETENESS_BY_PAIR(void **state)
{
	(void)state;
	assert_int_equal(keys_init(&keys, 1000, 2, 8, 7, false, 3), 0);
	deliver(100, 200);
	assert_int_equal(check(100, 200, false, true, 0), 0);
	delivery.count = 0;
	deliver(100, 150);
	deliver(151, 200);
	assert_int_equal(check(100, 200, false, true, 0), 1);
}

#define DENSE_FIRST 500u
#define DENSE_COUNT 23u		/* fills a few vectors, and not quite another one */

/* The delivery as a scan has it where it is. */
static const uint64_t *
delivered_entries(void)
{
	static uint64_t entries[2 * DENSE_COUNT];

	for (uint32_t i = 0; i < DENSE_COUNT; i++) {
		entries[2 * i] = nam_key_to_u64(delivery.keys + 8 * (size_t)i);
		entries[2 * i + 1] = delivery.payloads[i];
	}
	return entries;
}

/* Whether each of the quick checks finds fault with the first `count` pairs; all or none must. */
static bool
dense_found(uint32_t count, uint64_t mask)
{
	const uint64_t first = keys_loaded(&keys, DENSE_FIRST);
	const uint64_t *entries = delivered_entries();
	struct dense_check checks[DENSE_CHECKS_MAX];
	unsigned n = dense_checks(checks), found = 0;

	for (unsigned i = 0; i < n; i++) {
		found += !!checks[i].pairs(delivery.keys, delivery.payloads, count, first,
			keys.stride_shift, mask);
		found += !!checks[i].entries(entries, count, first, keys.stride_shift, mask);
	}
	assert_true(found == 0 || found == 2 * n);
	return found;
}

static void
dense__any_bit_of_any_pair__FOUND(void **state)
{
	(void)state;
	deliver(DENSE_FIRST, DENSE_FIRST + DENSE_COUNT);
	for (uint32_t count = 1; count <= DENSE_COUNT; count++)
		assert_false(dense_found(count, UINT64_MAX));
	for (uint32_t bit = 0; bit < 64 * DENSE_COUNT; bit++) {
		delivery.keys[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(dense_found(DENSE_COUNT, UINT64_MAX));
		/* Bytes behind the last pair do not matter. */
		assert_false(dense_found(bit / 64, UINT64_MAX));
		delivery.keys[bit / 8] ^= (uint8_t)(1u << bit % 8);
		delivery.payloads[bit / 64] ^= 1ull << bit % 64;
		assert_true(dense_found(DENSE_COUNT, UINT64_MAX));
		assert_int_equal(dense_found(DENSE_COUNT, KEYS_HASH_MASK),
			bit % 64 < KEYS_HASH_BITS);
		delivery.payloads[bit / 64] ^= 1ull << bit % 64;
	}
}

static void
failed__fabric_or_full__FATAL(void **state)
{
	(void)state;
	findings_failed(-NAM_E_LOCK_TIMEOUT, "insert", "");
	assert_int_equal(findings.fatal, 0);
	findings_failed(-NAM_E_FABRIC_PEER_DEAD, "insert", "");
	findings_failed(-NAM_E_REMOTE_FULL, "insert", "");
	assert_int_equal(findings.fatal, -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(findings_total(), 3);
}

/* Fibers that meet one lock word say one thing, whatever they were doing. */
static void
failed__same_reason_again__PRINTED_ONCE(void **state)
{
	const unsigned printed = findings.printed;

	(void)state;
	findings_failed(-NAM_E_LOCK_ORPHANED, "insert", "the lock word at 1");
	findings_failed(-NAM_E_LOCK_ORPHANED, "lookup", "the lock word at 1");
	assert_int_equal(findings.printed, printed + 1);
	findings_failed(-NAM_E_LOCK_ORPHANED, "insert", "the lock word at 2");
	assert_int_equal(findings.printed, printed + 2);
	assert_int_equal(findings_total(), 3);
}

static void
exit_code__answers_before_failures__AS_DOCUMENTED(void **state)
{
	(void)state;
	assert_int_equal(findings_exit_code(), NAM_EXIT_OK);
	findings_failed(-NAM_E_LOCK_ORPHANED, "insert", "");
	findings_failed(-NAM_E_FABRIC_PEER_DEAD, "insert", "");
	assert_int_equal(findings_exit_code(), NAM_EXIT_REMOTE);
	findings_missing(1, "lookup");
	assert_int_equal(findings_exit_code(), NAM_EXIT_NO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(scan__complete__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__whole_index__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__limit_reached__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__limit_not_reached_at_the_end__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__too_few_or_too_many__WRONG, set_up),
		cmocka_unit_test_setup(scan__hole_in_the_middle__MISSING_IS_COUNTED, set_up),
		cmocka_unit_test_setup(scan__ends_too_early__MISSING_IS_COUNTED, set_up),
		cmocka_unit_test_setup(scan__nothing_though_something_is_there__MISSING, set_up),
		cmocka_unit_test_setup(scan__delivered_twice__WRONG, set_up),
		cmocka_unit_test_setup(scan__outside_the_range__WRONG, set_up),
		cmocka_unit_test_setup(scan__payload_that_nobody_wrote__WRONG, set_up),
		cmocka_unit_test_setup(
			scan__version_in_the_payload__RIGHT_ONLY_IF_THERE_ARE_UPDATES, set_up),
		cmocka_unit_test_setup(scan__inserted_pairs_between__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__victims_gone_or_not__NO_FINDING, set_up),
		cmocka_unit_test_setup(scan__hole_among_victims__MISSING_IS_COUNTED, set_up),
		cmocka_unit_test_setup(scan__downwards__NO_FINDING_AND_HOLES_FOUND, set_up),
		cmocka_unit_test_setup(scan__upwards_though_downwards_was_asked__WRONG, set_up),
		cmocka_unit_test_setup(scan__duplicates__ORDER_AND_COMPLETENESS_BY_PAIR, set_up),
		cmocka_unit_test_setup(dense__any_bit_of_any_pair__FOUND, set_up),
		cmocka_unit_test_setup(failed__fabric_or_full__FATAL, set_up),
		cmocka_unit_test_setup(failed__same_reason_again__PRINTED_ONCE, set_up),
		cmocka_unit_test_setup(exit_code__answers_before_failures__AS_DOCUMENTED, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
