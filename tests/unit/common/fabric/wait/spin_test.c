/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fabric/wait/spin.h"

#define NEVER_NS UINT64_MAX

struct looks {
	unsigned count;
	unsigned comes_at;		/* look at which something has come; 0: none */
	uint64_t takes_ns;		/* each */
};

static bool
look(void *arg)
{
	struct looks *looks = arg;

	if (looks->takes_ns)
		nam_sleep_ns(looks->takes_ns);
	return ++looks->count == looks->comes_at;
}

static void
spin__paid__NEXT_IS_TWICE_AS_LONG(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 3000000000, .min_ns = 1000000000 };
	struct nam__spin spin = { .ns = 1000000000 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct looks looks = { .comes_at = 1 };

		assert_true(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
		assert_int_equal(spin.ns, i ? 3000000000 : 2000000000);
	}
}

static void
spin__paid_and_follows__NEXT_IS_BY_WHAT_IT_TOOK(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 1000000000, .min_ns = 400000000,
		.follows = true };
	struct nam__spin spin = { .ns = 1000000000 };
	struct looks looks = { .comes_at = 1 };

	(void)state;
	assert_true(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(spin.ns, 750000000);
	spin.ns = 1;
	looks.count = 0;
	assert_true(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(spin.ns, 400000000);
}

static void
spin__in_vain__HALF_AS_LONG_THEN_NONE_THEN_TRIED(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 4000, .min_ns = 1000, .try_every = 4 };
	struct nam__spin spin = { .ns = 2000 };
	struct looks looks = { .count = 0 };

	(void)state;
	assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(spin.ns, 1000);
	assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(spin.ns, 0);
	looks.count = 0;
	for (unsigned wait = 1; wait < 4; wait++)
		assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(looks.count, 0);
	assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_in_range(looks.count, 1, 1000000);
}

static void
spin__no_time__NO_LOOK(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 4000, .min_ns = 1000 };
	struct nam__spin spin = { .ns = 4000 };
	struct looks looks = { .comes_at = 1 };

	(void)state;
	assert_false(nam__spin(&spin, &limits, 0, look, &looks));
	assert_int_equal(looks.count, 0);
}

static void
spin__processor_lost__NONE_FOR_SOME_SLEEPS(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 1000000000, .min_ns = 1000,
		.try_every = 1, .short_ns = 1000000000, .lost_ns = 1000, .shy_sleeps = 2 };
	struct nam__spin spin = { .ns = 1000000000 };
	struct looks looks = { .takes_ns = 1000000 };

	(void)state;
	assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(looks.count, 1);
	for (unsigned sleep = 0; sleep < 2; sleep++) {
		assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
		assert_int_equal(looks.count, 1);
		nam__spin_slept(&spin, &limits, 5000);
	}
	assert_int_equal(spin.ns, 0);
	nam__spin_slept(&spin, &limits, 5000);
	assert_int_equal(spin.ns, 10000);
	assert_false(nam__spin(&spin, &limits, NEVER_NS, look, &looks));
	assert_int_equal(looks.count, 2);
}

static void
slept__not_shortly__NO_SPIN(void **state)
{
	const struct nam__spin_limits limits = { .max_ns = 8000, .min_ns = 1000, .short_ns = 8000 };
	struct nam__spin spin = { .ns = 0 };

	(void)state;
	nam__spin_slept(&spin, &limits, 8000);
	assert_int_equal(spin.ns, 0);
	nam__spin_slept(&spin, &limits, 7999);
	assert_int_equal(spin.ns, 8000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spin__paid__NEXT_IS_TWICE_AS_LONG),
		cmocka_unit_test(spin__paid_and_follows__NEXT_IS_BY_WHAT_IT_TOOK),
		cmocka_unit_test(spin__in_vain__HALF_AS_LONG_THEN_NONE_THEN_TRIED),
		cmocka_unit_test(spin__no_time__NO_LOOK),
		cmocka_unit_test(spin__processor_lost__NONE_FOR_SOME_SLEEPS),
		cmocka_unit_test(slept__not_shortly__NO_SPIN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
