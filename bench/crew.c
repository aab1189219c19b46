/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/env.h"

#define TICK_NS 100000000ull

struct crew {
	struct nam_client *client;
	unsigned size;
	struct crew_member *members;
	struct nam_thread **threads;

	pthread_mutex_t mutex;
	pthread_cond_t called;		/* a job, or the end */
	pthread_cond_t finished;
	unsigned generation;		/* of the job */
	unsigned running;
	crew_job_fn fn;			/* NULL: the end */
	void *arg;
	int rc;				/* of the workers' opening */
	struct nam_diag diag;
};

static void
member_open(struct crew_member *member)
{
	struct crew *crew = member->crew;
	struct nam_diag diag = { "" };
	int rc = 0;

	if (crew->client)
		rc = nam_worker_open(crew->client, &member->worker, &diag);
	pthread_mutex_lock(&crew->mutex);
	if (rc && !crew->rc) {
		crew->rc = rc;
		crew->diag = diag;
	}
	if (--crew->running == 0)
		pthread_cond_signal(&crew->finished);
	pthread_mutex_unlock(&crew->mutex);
}

static void
member_main(void *arg)
{
	struct crew_member *member = arg;
	struct crew *crew = member->crew;
	unsigned seen = 0;

	member_open(member);
	for (;;) {
		crew_job_fn fn;

		pthread_mutex_lock(&crew->mutex);
		while (crew->generation == seen)
			pthread_cond_wait(&crew->called, &crew->mutex);
		seen = crew->generation;
		fn = crew->fn;
		pthread_mutex_unlock(&crew->mutex);
		if (!fn)
			break;
		fn(member, crew->arg);
		pthread_mutex_lock(&crew->mutex);
		if (--crew->running == 0)
			pthread_cond_signal(&crew->finished);
		pthread_mutex_unlock(&crew->mutex);
	}
	if (member->worker)
		nam_worker_close(member->worker);
}

static void
call(struct crew *crew, crew_job_fn fn, void *arg)
{
	pthread_mutex_lock(&crew->mutex);
	crew->fn = fn;
	crew->arg = arg;
	crew->running = crew->size;
	crew->generation++;
	pthread_cond_broadcast(&crew->called);
	pthread_mutex_unlock(&crew->mutex);
}

static uint64_t
done_sum(const struct crew *crew)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < crew->size; i++)
		sum += atomic_load_explicit(&crew->members[i].done, memory_order_relaxed);
	return sum;
}

/* Wait for everybody, looking up every tenth of a second if anyone is to be told. */
static void
wait_all(struct crew *crew, crew_tick_fn tick, void *tick_arg)
{
	uint64_t begin_ns = nam_now_ns();

	pthread_mutex_lock(&crew->mutex);
	while (crew->running) {
		struct timespec until;
		uint64_t until_ns;

		if (!tick) {
			pthread_cond_wait(&crew->finished, &crew->mutex);
			continue;
		}
		until_ns = nam_now_ns() + TICK_NS;
		until.tv_sec = (time_t)(until_ns / 1000000000ull);
		until.tv_nsec = (long)(until_ns % 1000000000ull);
		if (pthread_cond_timedwait(&crew->finished, &crew->mutex, &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&crew->mutex);
		tick(tick_arg, done_sum(crew), (double)(nam_now_ns() - begin_ns) * 1e-9);
		pthread_mutex_lock(&crew->mutex);
	}
	pthread_mutex_unlock(&crew->mutex);
}

double
crew_run(struct crew *crew, crew_job_fn fn, void *arg, crew_tick_fn tick, void *tick_arg)
{
	uint64_t begin_ns;

	for (unsigned i = 0; i < crew->size; i++)
		atomic_store_explicit(&crew->members[i].done, 0, memory_order_relaxed);
	begin_ns = nam_now_ns();
	call(crew, fn, arg);
	wait_all(crew, tick, tick_arg);
	return (double)(nam_now_ns() - begin_ns) * 1e-9;
}

static int
crew_alloc(struct nam_client *client, unsigned threads, struct crew **ret_crew)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	pthread_condattr_t monotonic;

	if (!crew)
		return -ENOMEM;
	crew->client = client;
	crew->threads = calloc(threads, sizeof(struct nam_thread *));
	crew->members = aligned_alloc(64, threads * sizeof(struct crew_member));
	if (!crew->threads || !crew->members) {
		free(crew->members);
		free(crew->threads);
		free(crew);
		return -ENOMEM;
	}
	memset(crew->members, 0, threads * sizeof(struct crew_member));
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->called, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&crew->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*ret_crew = crew;
	return 0;
}

int
crew_start(struct nam_client *client, unsigned threads, struct crew **ret_crew,
	struct nam_diag *diag)
{
	struct crew *crew;
	int rc = crew_alloc(client, threads, &crew);

	if (rc)
		return nam_diag_set(diag, rc, "no memory for %u threads", threads);
	crew->running = threads;
	for (unsigned i = 0; i < threads; i++) {
		char name[24];

		crew->members[i].crew = crew;
		crew->members[i].number = i;
		snprintf(name, sizeof(name), "bench-%u", i);
		rc = nam_thread_start(name, member_main, &crew->members[i], &crew->threads[i]);
		if (rc) {
			pthread_mutex_lock(&crew->mutex);
			crew->running -= threads - i;
			pthread_mutex_unlock(&crew->mutex);
			nam_diag_set(&crew->diag, rc, "thread %u could not be started: %s", i,
				nam_err_text(rc));
			crew->rc = rc;
			break;
		}
		crew->size++;
	}
	wait_all(crew, NULL, NULL);
	if (crew->rc) {
		rc = crew->rc;
		if (diag)
			*diag = crew->diag;
		crew_stop(crew);
		return rc;
	}
	*ret_crew = crew;
	return 0;
}

void
crew_stop(struct crew *crew)
{
	if (!crew)
		return;
	call(crew, NULL, NULL);
	for (unsigned i = 0; i < crew->size; i++)
		nam_thread_join(crew->threads[i]);
	pthread_cond_destroy(&crew->called);
	pthread_cond_destroy(&crew->finished);
	pthread_mutex_destroy(&crew->mutex);
	free(crew->members);
	free(crew->threads);
	free(crew);
}

unsigned
crew_size(const struct crew *crew)
{
	return crew->size;
}

struct crew_member *
crew_member(struct crew *crew, unsigned number)
{
	return &crew->members[number];
}

void
crew_counters(const struct crew *crew, enum nam_op_kind kind, struct nam_op_counters *ret_sum)
{
	memset(ret_sum, 0, sizeof(*ret_sum));
	for (unsigned i = 0; i < crew->size; i++)
		if (crew->members[i].worker)
			nam_op_counters_add(ret_sum,
				nam_worker_counters(crew->members[i].worker, kind));
}
