/* SPDX-License-Identifier: Apache-2.0 */
#include "env.h"

#include "common/hash/hash.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define THREAD_NAME_BYTES 16	/* what the kernel keeps, with the NUL */
#define NS_PER_S 1000000000ull

struct nam_thread {
	pthread_t id;
	nam_thread_fn fn;
	void *arg;
	char name[THREAD_NAME_BYTES];
};

static uint64_t
clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t
os_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t
os_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static void
os_sleep_ns(uint64_t ns)
{
	struct timespec pause = {
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};

	/* A signal cuts the sleep short; callers loop on a condition and look at the clock. */
	nanosleep(&pause, NULL);
}

static void
os_yield(void)
{
	sched_yield();
}

static uint64_t
os_entropy(void)
{
	uint64_t word;
	ssize_t got;

	do
		got = getrandom(&word, sizeof(word), 0);
	while (got < 0 && errno == EINTR);
	if (got == (ssize_t)sizeof(word))
		return word;
	/* A sandbox forbids getrandom.  Seeds need to differ, not to be secret. */
	word = os_now_ns() ^ (uint64_t)getpid() << 32 ^ (uintptr_t)&word;
	return nam_mix64(word);
}

static void *
thread_main(void *arg)
{
	struct nam_thread *thread = arg;

	pthread_setname_np(pthread_self(), thread->name);
	thread->fn(thread->arg);
	return NULL;
}

static int
os_thread_start(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret_thread)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
	struct nam_thread *thread = calloc(1, sizeof(*thread));
	sigset_t block, before;
	int error;

	if (!thread)
		return -ENOMEM;
	thread->fn = fn;
	thread->arg = arg;
	snprintf(thread->name, sizeof(thread->name), "%s", name);
	/* Signals are the program's business: our threads take their own faults only. */
	sigfillset(&block);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&block, faults[i]);
	pthread_sigmask(SIG_BLOCK, &block, &before);	/* a new thread inherits the mask */
	error = pthread_create(&thread->id, NULL, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		free(thread);
		return -error;
	}
	*ret_thread = thread;
	return 0;
}

static void
os_thread_join(struct nam_thread *thread)
{
	pthread_join(thread->id, NULL);
	free(thread);
}

static const struct nam_env os_env = {
	.now_ns = os_now_ns,
	.wall_ns = os_wall_ns,
	.sleep_ns = os_sleep_ns,
	.yield = os_yield,
	.entropy = os_entropy,
	.thread_start = os_thread_start,
	.thread_join = os_thread_join,
};

/* Written before other threads exist, hence plain. */
static const struct nam_env *env = &os_env;

void
nam_env_install(const struct nam_env *replacement)
{
	env = replacement ? replacement : &os_env;
}

uint64_t
nam_now_ns(void)
{
	return env->now_ns();
}

uint64_t
nam_wall_ns(void)
{
	return env->wall_ns();
}

void
nam_sleep_ns(uint64_t ns)
{
	env->sleep_ns(ns);
}

void
nam_yield(void)
{
	env->yield();
}

uint64_t
nam_entropy(void)
{
	return env->entropy();
}

int
nam_thread_start(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret_thread)
{
	return env->thread_start(name, fn, arg, ret_thread);
}

void
nam_thread_join(struct nam_thread *thread)
{
	env->thread_join(thread);
}

void
nam_answered(const void *reply, uint32_t bytes)
{
	if (env->answered)
		env->answered(reply, bytes);
}
