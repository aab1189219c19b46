/* SPDX-License-Identifier: Apache-2.0 */
/* Time is counted: a look takes a microsecond, and a yield as long as a test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fabric/wait/spin.h"

#define NEVER_NS 3600000000000ull
#define MAX_NS 64000u
#define LOST_NS 30000u

static const struct nam__spin_limits limits = { .max_ns = MAX_NS, .lost_ns = LOST_NS };
static uint64_t time_ns, yield_ns;
static unsigned looks_count, comes_at;	/* look at which something has come; 0: none */

static uint64_t
now(void)
{
	return time_ns;
}

static void
yield(void)
{
	time_ns += yield_ns;
}

static int
set_up(void **state)
{
	static const struct nam_env env = { .now_ns = now, .yield = yield };

	(void)state;
	nam_env_install(&env);
	looks_count = comes_at = 0;
	yield_ns = 0;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	nam_env_install(NULL);
	return 0;
}

static bool
look(void *arg)
{
	(void)arg;
	time_ns += 1000;
	return ++looks_count == comes_at;
}

/* How many looks a wait takes. */
static unsigned
looks_of(struct nam__spin *spin, uint64_t timeout_ns)
{
	looks_count = 0;
	assert_false(nam__spin(spin, &limits, &timeout_ns, look, NULL));
	return looks_count;
}

static void
spin__paid__NEXT_IS_LONG(void **state)
{
	struct nam__spin spin = { .ns = 2000 };
	uint64_t timeout_ns = NEVER_NS;

	(void)state;
	comes_at = 2;
	assert_true(nam__spin(&spin, &limits, &timeout_ns, look, NULL));
	assert_int_equal(spin.ns, MAX_NS);
}

static void
spin__in_vain__HALF_AS_LONG_THEN_NONE_THEN_TRIED(void **state)
{
	struct nam__spin spin = { .ns = MAX_NS };

	(void)state;
	for (unsigned looks = MAX_NS / 1000; looks; looks /= 2)
		assert_int_equal(looks_of(&spin, NEVER_NS), looks);
	for (unsigned wait = 1; wait < NAM__SPIN_TRY_EVERY; wait++)
		assert_int_equal(looks_of(&spin, NEVER_NS), 0);
	assert_int_equal(looks_of(&spin, NEVER_NS), MAX_NS / 1000);
}

static void
spin__short_timeout__ALL_OF_IT_AND_NEXT_IS_AS_LONG(void **state)
{
	struct nam__spin spin = { .ns = 2000 };
	uint64_t timeout_ns = NAM__SPIN_SHORT_NS;

	(void)state;
	assert_false(nam__spin(&spin, &limits, &timeout_ns, look, NULL));
	assert_int_equal(looks_count, NAM__SPIN_SHORT_NS / 1000);
	assert_int_equal(timeout_ns, 0);
	assert_int_equal(spin.ns, 2000);
	assert_int_equal(looks_of(&spin, NAM__SPIN_SHORT_NS + 1), 2);
}

static void
spin__no_time__NO_LOOK(void **state)
{
	struct nam__spin spin = { .ns = MAX_NS };

	(void)state;
	assert_int_equal(looks_of(&spin, 0), 0);
}

static void
spin__in_vain__TIMEOUT_IS_SHORTER(void **state)
{
	struct nam__spin spin = { .ns = MAX_NS };
	uint64_t timeout_ns = NEVER_NS;

	(void)state;
	assert_false(nam__spin(&spin, &limits, &timeout_ns, look, NULL));
	assert_int_equal(timeout_ns, NEVER_NS - MAX_NS);
}

static void
spin__processor_lost__NONE_FOR_SOME_SLEEPS_TWICE_AS_MANY_THE_NEXT_TIME(void **state)
{
	struct nam__spin spin = { .ns = MAX_NS };

	(void)state;
	yield_ns = LOST_NS + 1;
	for (unsigned sleeps = NAM__SPIN_SHY_MIN; sleeps <= 2 * NAM__SPIN_SHY_MIN; sleeps *= 2) {
		assert_int_equal(looks_of(&spin, NEVER_NS), NAM__SPIN_ALONE_NS / 1000 + 1);
		for (unsigned sleep = 0; sleep < sleeps; sleep++) {
			/* A short wait, too, is then a sleep. */
			assert_int_equal(looks_of(&spin, sleep % 2 ? 1000 : NEVER_NS), 0);
			nam__spin_slept(&spin, &limits, sleep % 2 ? UINT64_MAX : 5000);
		}
		assert_int_equal(spin.ns, 0);
		nam__spin_slept(&spin, &limits, 5000);
		assert_int_equal(spin.ns, MAX_NS);
	}
}

static void
spin__paid_after_losses__FEWER_SLEEPS_THE_NEXT_TIME(void **state)
{
	struct nam__spin spin = { .ns = MAX_NS, .shy_next = 8 * NAM__SPIN_SHY_MIN };

	(void)state;
	for (unsigned i = 0; i < 2 * NAM__SPIN_FORGIVE_EVERY; i++)
		nam__spin_paid(&spin, &limits);
	yield_ns = LOST_NS + 1;
	(void)looks_of(&spin, NEVER_NS);
	assert_int_equal(spin.shy, 2 * NAM__SPIN_SHY_MIN);
}

static void
spin__long_yields_that_do_not_matter__ALL_OF_IT(void **state)
{
	const struct nam__spin_limits none_lost = { .max_ns = 10 * MAX_NS };
	struct nam__spin spin = { .ns = 10 * MAX_NS };
	uint64_t timeout_ns = NEVER_NS;

	(void)state;
	yield_ns = 99000;
	assert_false(nam__spin(&spin, &none_lost, &timeout_ns, look, NULL));
	assert_int_equal(spin.shy, 0);
	assert_in_range(looks_count, 5 + (10 * MAX_NS - 5000) / 100000, 12);
}

static void
slept__not_shortly__NO_SPIN(void **state)
{
	struct nam__spin spin = { .ns = 0 };

	(void)state;
	nam__spin_slept(&spin, &limits, MAX_NS);
	assert_int_equal(spin.ns, 0);
	nam__spin_slept(&spin, &limits, MAX_NS - 1);
	assert_int_equal(spin.ns, MAX_NS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(spin__paid__NEXT_IS_LONG, set_up),
		cmocka_unit_test_setup(spin__in_vain__HALF_AS_LONG_THEN_NONE_THEN_TRIED, set_up),
		cmocka_unit_test_setup(spin__short_timeout__ALL_OF_IT_AND_NEXT_IS_AS_LONG, set_up),
		cmocka_unit_test_setup(spin__no_time__NO_LOOK, set_up),
		cmocka_unit_test_setup(spin__in_vain__TIMEOUT_IS_SHORTER, set_up),
		cmocka_unit_test(
			spin__processor_lost__NONE_FOR_SOME_SLEEPS_TWICE_AS_MANY_THE_NEXT_TIME),
		cmocka_unit_test_setup(spin__paid_after_losses__FEWER_SLEEPS_THE_NEXT_TIME, set_up),
		cmocka_unit_test_setup(spin__long_yields_that_do_not_matter__ALL_OF_IT, set_up),
		cmocka_unit_test_setup(slept__not_shortly__NO_SPIN, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
