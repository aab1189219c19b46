/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions stay on the main stack: cmocka leaves a failed test with longjmp, which must not cross
 * from one stack to another.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fiber/fiber.h"

struct party {
	struct nam_fiber *home;
	struct nam_fiber *self;
	struct nam_fiber *next;
	int steps;
	int limit;
	double sum;
};

static void
step_until_limit(void *arg)
{
	struct party *party = arg;

	while (party->steps < party->limit) {
		party->steps++;
		nam_fiber_switch(party->self, party->home);	/* SUSPENDS */
	}
	nam_fiber_exit_to(party->self, party->home);
}

static void
party_open(struct party *party, nam_fiber_fn fn, size_t stack_bytes)
{
	memset(party, 0, sizeof(*party));
	assert_int_equal(nam_fiber_adopt(&party->home), 0);
	assert_int_equal(nam_fiber_create(fn, party, stack_bytes, &party->self), 0);
}

static void
party_close(struct party *party)
{
	nam_fiber_destroy(party->self);
	nam_fiber_destroy(party->home);
}

static void
switch__first_time__RUNS_FN(void **state)
{
	struct party party;

	(void)state;
	party_open(&party, step_until_limit, 0);
	party.limit = 1;
	assert_int_equal(party.steps, 0);
	nam_fiber_switch(party.home, party.self);
	assert_int_equal(party.steps, 1);
	nam_fiber_switch(party.home, party.self);
	party_close(&party);
}

static void
switch__many_times__GOES_ON_WHERE_IT_LEFT(void **state)
{
	struct party party;

	(void)state;
	party_open(&party, step_until_limit, 0);
	party.limit = 1000;
	for (int i = 1; i <= 1000; i++) {
		nam_fiber_switch(party.home, party.self);
		assert_int_equal(party.steps, i);
	}
	nam_fiber_switch(party.home, party.self);
	assert_int_equal(party.steps, 1000);
	party_close(&party);
}

static void
destroy__suspended_or_never_run__ALLOWED(void **state)
{
	struct party party;

	(void)state;
	party_open(&party, step_until_limit, 0);
	party_close(&party);
	party_open(&party, step_until_limit, 0);
	party.limit = 2;
	nam_fiber_switch(party.home, party.self);
	party_close(&party);
	nam_fiber_destroy(NULL);
}

static void
reset__after_exit__RUNS_AGAIN(void **state)
{
	struct party party;

	(void)state;
	party_open(&party, step_until_limit, 0);
	for (int round = 0; round < 300; round++) {
		party.steps = 0;
		party.limit = 1;
		if (round)
			nam_fiber_reset(party.self, step_until_limit, &party);
		nam_fiber_switch(party.home, party.self);
		assert_int_equal(party.steps, 1);
		nam_fiber_switch(party.home, party.self);
	}
	party_close(&party);
}

/* Keeps more values alive across a switch than there are registers. */
static void
carry_registers(void *arg)
{
	struct party *party = arg;
	uint64_t whole[12];
	double real[12];

	for (int i = 0; i < 12; i++) {
		whole[i] = (uint64_t)(party->limit + i);
		real[i] = party->limit * 0.5 + i;
	}
	for (int round = 0; round < 10; round++) {
		nam_fiber_switch(party->self, party->next);	/* SUSPENDS */
		for (int i = 0; i < 12; i++) {
			whole[i] += 3;
			real[i] += 0.25;
		}
	}
	for (int i = 0; i < 12; i++)
		party->sum += (double)whole[i] + real[i];
	nam_fiber_exit_to(party->self, party->next == party->home ? party->home : party->next);
}

#define RING 5

static void
switch__ring_of_fibers__LOCALS_SURVIVE(void **state)
{
	struct party parties[RING];
	struct nam_fiber *home;

	(void)state;
	memset(parties, 0, sizeof(parties));
	assert_int_equal(nam_fiber_adopt(&home), 0);
	for (int i = 0; i < RING; i++) {
		parties[i].limit = 1000 * (i + 1);
		parties[i].home = home;
		assert_int_equal(
			nam_fiber_create(carry_registers, &parties[i], 0, &parties[i].self), 0);
	}
	for (int i = 0; i < RING; i++)
		parties[i].next = i + 1 < RING ? parties[i + 1].self : home;

	/* Ten laps, and one more in which each exits to the next. */
	for (int lap = 0; lap < 11; lap++)
		nam_fiber_switch(home, parties[0].self);

	for (int i = 0; i < RING; i++) {
		double limit = parties[i].limit;

		assert_true(parties[i].sum ==
			    12 * (limit + 30) + 12 * (limit * 0.5 + 2.5) + 2 * 66);
		nam_fiber_destroy(parties[i].self);
	}
	nam_fiber_destroy(home);
}

/* The compiler may assume that calls keep the stack 16-byte aligned; movaps faults if not. */
static void
check_alignment(void *arg)
{
	struct party *party = arg;
	_Alignas(16) volatile char block[16];

	block[0] = 1;
	party->steps = (uintptr_t)__builtin_frame_address(0) % 16 == 0 &&
		       (uintptr_t)&block[0] % 16 == 0;
	nam_fiber_exit_to(party->self, party->home);
}

static void
create__any_colour__STACK_ALIGNED(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct party party;

		party_open(&party, check_alignment, 0);
		nam_fiber_switch(party.home, party.self);
		assert_int_equal(party.steps, 1);
		party_close(&party);
	}
}

static void __attribute__((noinline))
use_stack(size_t bytes)
{
	volatile char block[1024];

	for (size_t i = 0; i < sizeof(block); i += 64)
		block[i] = (char)i;
	if (bytes > sizeof(block))
		use_stack(bytes - sizeof(block));
	block[0] = block[64];
}

static void
use_half(void *arg)
{
	struct party *party = arg;

	use_stack((size_t)party->limit);
	party->steps = 1;
	nam_fiber_exit_to(party->self, party->home);
}

static void
create__large_stack__USABLE(void **state)
{
	struct party party;

	(void)state;
	/* Sanitizers enlarge frames several times. */
	party_open(&party, use_half, (size_t)4 << 20);
	party.limit = 512 << 10;
	nam_fiber_switch(party.home, party.self);
	assert_int_equal(party.steps, 1);
	party_close(&party);
}

static void
create__impossible_size__NO_MEMORY(void **state)
{
	struct nam_fiber *untouched = (struct nam_fiber *)state;
	struct nam_fiber *fiber = untouched;

	assert_int_not_equal(nam_fiber_create(step_until_limit, NULL, SIZE_MAX - 4096, &fiber), 0);
	assert_int_not_equal(nam_fiber_create(step_until_limit, NULL, SIZE_MAX / 4, &fiber), 0);
	assert_ptr_equal(fiber, untouched);
}

static void
return_at_once(void *arg)
{
	(void)arg;
}

/* In a child: run a fiber that does what it must not.  The signal that ended it, or 0. */
static int
signal_of_child(nam_fiber_fn fn, int limit)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct party party = { .limit = limit };

		/* The sanitizers' reports on this do not belong in the log. */
		close(STDERR_FILENO);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		signal(SIGABRT, SIG_DFL);
		if (nam_fiber_adopt(&party.home) ||
			nam_fiber_create(fn, &party, 16384, &party.self))
			_exit(99);
		nam_fiber_switch(party.home, party.self);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
switch__stack_overflow__HITS_THE_GUARD_PAGE(void **state)
{
	(void)state;
	assert_int_equal(signal_of_child(use_half, 1 << 20), SIGSEGV);
}

static void
switch__fn_returns__ABORTS(void **state)
{
	(void)state;
	assert_int_equal(signal_of_child(return_at_once, 0), SIGABRT);
}

/* Deep frames that are abandoned at exit must not poison the stack for its next user. */
static void
leave_from_the_depth(void *arg)
{
	struct party *party = arg;
	volatile char block[2000];

	memset((char *)block, 1, sizeof(block));
	party->steps += block[1999];
	nam_fiber_exit_to(party->self, party->home);
}

static void
exit__deep_frames_then_other_fiber__NOTHING_LEFT_BEHIND(void **state)
{
	(void)state;
	for (int round = 0; round < 50; round++) {
		struct party party;

		party_open(&party, leave_from_the_depth, 0);
		nam_fiber_switch(party.home, party.self);
		nam_fiber_reset(party.self, use_half, &party);
		party.limit = 8 << 10;
		nam_fiber_switch(party.home, party.self);
		assert_int_equal(party.steps, 1);
		party_close(&party);
	}
}

static void *
run_party(void *arg)
{
	struct party party = { 0 };
	int *ret_steps = arg;

	if (nam_fiber_adopt(&party.home) ||
		nam_fiber_create(step_until_limit, &party, 0, &party.self))
		return NULL;
	party.limit = 5000;
	for (int i = 0; i <= party.limit; i++)
		nam_fiber_switch(party.home, party.self);
	*ret_steps = party.steps;
	nam_fiber_destroy(party.self);
	nam_fiber_destroy(party.home);
	return NULL;
}

static void
adopt__several_threads__EACH_ITS_OWN(void **state)
{
	pthread_t threads[4];
	int steps[4] = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_party, &steps[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(steps[i], 5000);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(switch__first_time__RUNS_FN),
		cmocka_unit_test(switch__many_times__GOES_ON_WHERE_IT_LEFT),
		cmocka_unit_test(destroy__suspended_or_never_run__ALLOWED),
		cmocka_unit_test(reset__after_exit__RUNS_AGAIN),
		cmocka_unit_test(switch__ring_of_fibers__LOCALS_SURVIVE),
		cmocka_unit_test(create__any_colour__STACK_ALIGNED),
		cmocka_unit_test(create__large_stack__USABLE),
		cmocka_unit_test(create__impossible_size__NO_MEMORY),
		cmocka_unit_test(switch__stack_overflow__HITS_THE_GUARD_PAGE),
		cmocka_unit_test(switch__fn_returns__ABORTS),
		cmocka_unit_test(exit__deep_frames_then_other_fiber__NOTHING_LEFT_BEHIND),
		cmocka_unit_test(adopt__several_threads__EACH_ITS_OWN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
