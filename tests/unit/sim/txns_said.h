/* SPDX-License-Identifier: Apache-2.0 */
/* txns_said.h -- transactions written down by hand, and what is said of their atomicity. */
#ifndef NAM_TESTS_UNIT_SIM_TXNS_SAID_H
#define NAM_TESTS_UNIT_SIM_TXNS_SAID_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/read_atomic.h"

static struct sim_txns txns;
static struct sim_read_atomic_options options;
static uint64_t counts[SIM_RA_KINDS];
static char *told;	/* by the last check */
static uint64_t clock_ns;

static inline int
set_up(void **state)
{
	(void)state;
	sim_txns_init(&txns);
	sim_read_atomic_options_init(&options);
	clock_ns = 0;
	return 0;
}

static inline int
tear_down(void **state)
{
	(void)state;
	sim_txns_free(&txns);
	free(told);
	told = NULL;
	return 0;
}

/* "w7=70 r8=80": two operations of one transaction. */
static inline void
does(uint32_t txn, const char *ops)
{
	unsigned long long key, value;
	char what;
	int bytes;

	for (; sscanf(ops, " %c%llu=%llu%n", &what, &key, &value, &bytes) == 3; ops += bytes) {
		if (what == 'w')
			sim_txns_write(&txns, txn, key, value);
		else
			sim_txns_read(&txns, txn, key, value);
	}
	assert_string_equal(ops, "");
}

/* One after another, each of 10 ns: from 10 to 20, from 30 to 40. */
static inline uint32_t
ended(uint32_t session, uint64_t timestamp, enum sim_txn_outcome outcome, const char *ops)
{
	uint32_t txn = sim_txns_begin(&txns, session, clock_ns += 10);

	does(txn, ops);
	sim_txns_end(&txns, txn, outcome, timestamp, clock_ns += 10);
	return txn;
}

static inline uint32_t
writes(uint32_t session, uint64_t timestamp, const char *ops)
{
	return ended(session, timestamp, SIM_TXN_COMMITTED, ops);
}

static inline uint32_t
reads(uint32_t session, const char *ops)
{
	return ended(session, 0, SIM_TXN_COMMITTED, ops);
}

static inline uint64_t
check(void)
{
	size_t told_bytes;
	struct sim_findings findings;
	FILE *file;

	free(told);
	told = NULL;
	file = open_memstream(&told, &told_bytes);
	findings = sim_findings_to(file);
	sim_check_read_atomic(&txns, &options, &findings, counts);
	fclose(file);
	return findings.violations;
}

static inline void
assert_accepted(void)
{
	if (check() != 0)
		fail_msg("%s", told);
}

/* One violation, and of that kind. */
static inline void
assert_rejected(enum sim_read_atomic_kind kind)
{
	uint64_t violations = check();

	if (violations != 1 || counts[kind] != 1)
		fail_msg("%d violations, not one of %s:\n%s", (int)violations,
			sim_read_atomic_name(kind), told);
}

#define assert_seen(text)                                                                           \
	do {                                                                                        \
		if (!strstr(told, text))                                                            \
			fail_msg("not told: %s\n%s", text, told);                                   \
	} while (0)

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif /* NAM_TESTS_UNIT_SIM_TXNS_SAID_H */
