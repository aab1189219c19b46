/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"

static void
now__twice__MONOTONE(void **state)
{
	uint64_t before = nam_now_ns();

	(void)state;
	assert_true(before > 0);
	assert_true(nam_now_ns() >= before);
}

static void
sleep__two_milliseconds__CLOCK_ADVANCES(void **state)
{
	uint64_t before = nam_now_ns();

	(void)state;
	nam_sleep_ns(2000000);
	nam_yield();
	assert_true(nam_now_ns() - before >= 2000000);
}

static void
entropy__twice__DIFFERS(void **state)
{
	(void)state;
	/* Once in 2^64 runs this fails without a fault. */
	assert_true(nam_entropy() != nam_entropy());
}

struct observed {
	char name[16];
	int sigterm_blocked;
	int sigsegv_blocked;
};

static void
observe(void *arg)
{
	struct observed *observed = arg;
	sigset_t mask;

	pthread_getname_np(pthread_self(), observed->name, sizeof(observed->name));
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	observed->sigterm_blocked = sigismember(&mask, SIGTERM);
	observed->sigsegv_blocked = sigismember(&mask, SIGSEGV);
}

static void
thread_start__name__RUNS_UNDER_IT(void **state)
{
	struct observed observed = { .name = "" };
	struct nam_thread *thread;

	(void)state;
	assert_int_equal(nam_thread_start("nam-test", observe, &observed, &thread), 0);
	nam_thread_join(thread);
	assert_string_equal(observed.name, "nam-test");
}

static void
thread_start__long_name__CUT_TO_15_BYTES(void **state)
{
	struct observed observed = { .name = "" };
	struct nam_thread *thread;

	(void)state;
	assert_int_equal(nam_thread_start("a-name-of-many-bytes", observe, &observed, &thread), 0);
	nam_thread_join(thread);
	assert_string_equal(observed.name, "a-name-of-many-");
}

static void
thread_start__signals__LEFT_TO_THE_PROGRAM(void **state)
{
	struct observed observed = { .sigterm_blocked = -1, .sigsegv_blocked = -1 };
	struct nam_thread *thread;
	sigset_t mask;

	(void)state;
	assert_int_equal(nam_thread_start("t", observe, &observed, &thread), 0);
	nam_thread_join(thread);
	assert_int_equal(observed.sigterm_blocked, 1);
	assert_int_equal(observed.sigsegv_blocked, 0);
	/* And the caller's own mask is as before. */
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
}

static uint64_t
fixed_now(void)
{
	return 42;
}

static uint64_t slept_ns;

static uint64_t
fixed_wall(void)
{
	return 43;
}

static void
record_sleep(uint64_t ns)
{
	slept_ns += ns;
}

static int yields;

static void
record_yield(void)
{
	yields++;
}

static uint64_t
fixed_entropy(void)
{
	return 7;
}

static int
refuse_thread(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret_thread)
{
	(void)name;
	(void)fn;
	(void)arg;
	(void)ret_thread;
	return -EAGAIN;
}

static void *joined;

static void
record_join(struct nam_thread *thread)
{
	joined = thread;
}

static uint32_t answered_bytes;

static void
record_answered(const void *reply, uint32_t bytes)
{
	(void)reply;
	answered_bytes = bytes;
}

static void
env_install__own_table__ASKED_INSTEAD_OF_THE_SYSTEM(void **state)
{
	static const struct nam_env mine = { fixed_now, fixed_wall, record_sleep, record_yield,
		fixed_entropy, refuse_thread, record_join, record_answered };
	struct nam_thread *untouched = (struct nam_thread *)&yields;
	struct nam_thread *thread = untouched;

	(void)state;
	nam_env_install(&mine);
	assert_int_equal(nam_now_ns(), 42);
	assert_int_equal(nam_wall_ns(), 43);
	nam_answered(NULL, 24);
	assert_int_equal(answered_bytes, 24);
	nam_sleep_ns(10);
	nam_yield();
	assert_int_equal(slept_ns, 10);
	assert_int_equal(yields, 1);
	assert_int_equal(nam_entropy(), 7);
	assert_int_equal(nam_thread_start("t", observe, NULL, &thread), -EAGAIN);
	assert_ptr_equal(thread, untouched);
	nam_thread_join(thread);
	assert_ptr_equal(joined, thread);

	nam_env_install(NULL);
	assert_true(nam_now_ns() != 42);
}

static void
rng__reference_seed__SPLITMIX64(void **state)
{
	struct nam_rng rng = nam_rng_seed(1234567);

	(void)state;
	/* From the reference implementation's published test vector. */
	assert_true(nam_rng_next(&rng) == 6457827717110365317ull);
	assert_true(nam_rng_next(&rng) == 3203168211198807973ull);
	assert_true(nam_rng_next(&rng) == 9817491932198370423ull);
}

static void
rng_below__bounds__INSIDE(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);
	unsigned seen[10] = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t drawn = nam_rng_below(&rng, 10);

		assert_true(drawn < 10);
		seen[drawn]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(seen[i], 800, 1200);
	assert_int_equal(nam_rng_below(&rng, 1), 0);
	assert_int_equal(nam_rng_below(&rng, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(now__twice__MONOTONE),
		cmocka_unit_test(sleep__two_milliseconds__CLOCK_ADVANCES),
		cmocka_unit_test(entropy__twice__DIFFERS),
		cmocka_unit_test(thread_start__name__RUNS_UNDER_IT),
		cmocka_unit_test(thread_start__long_name__CUT_TO_15_BYTES),
		cmocka_unit_test(thread_start__signals__LEFT_TO_THE_PROGRAM),
		cmocka_unit_test(env_install__own_table__ASKED_INSTEAD_OF_THE_SYSTEM),
		cmocka_unit_test(rng__reference_seed__SPLITMIX64),
		cmocka_unit_test(rng_below__bounds__INSIDE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
