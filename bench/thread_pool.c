/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/env.h"

#define TICK_NS 100000000ull

/* A client and its threads, which are members first, first + 1, ... */
struct team {
	struct crew *crew;
	struct nam_client *client;
	unsigned first;
	unsigned started;
};

struct crew {
	unsigned size;
	unsigned threads;		/* of each client */
	unsigned teams_count;
	struct team *teams;
	struct crew_member *members;
	struct nam_thread **handles;
	struct crew_others others;
	bool simulated;			/* then gates are what conditions are otherwise */
	struct nam_sim_gate called_gate, finished_gate;
	unsigned teams_alive;		/* that others run */

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

/* ---- waiting for each other --------------------------------------------------------------- */

/* Of simulated threads only one runs at a time, until it waits: no mutex then. */
static void
lock(struct crew *crew)
{
	if (!crew->simulated)
		pthread_mutex_lock(&crew->mutex);
}

static void
unlock(struct crew *crew)
{
	if (!crew->simulated)
		pthread_mutex_unlock(&crew->mutex);
}

static void
wait_called(struct crew *crew)
{
	if (crew->simulated)
		nam_sim_gate_wait(&crew->called_gate);
	else
		pthread_cond_wait(&crew->called, &crew->mutex);
}

static void
wait_finished(struct crew *crew)
{
	if (crew->simulated)
		nam_sim_gate_wait(&crew->finished_gate);
	else
		pthread_cond_wait(&crew->finished, &crew->mutex);
}

/* So many more have done their part, or failed to. */
static void
finished(struct crew *crew, unsigned count, int rc, const struct nam_diag *diag)
{
	lock(crew);
	if (rc && !crew->rc) {
		crew->rc = rc;
		crew->diag = *diag;
	}
	crew->running -= count;
	if (crew->running == 0 && crew->simulated)
		nam_sim_gate_open(&crew->finished_gate);
	else if (crew->running == 0)
		pthread_cond_signal(&crew->finished);
	unlock(crew);
}

/* ---- members ------------------------------------------------------------------------------ */

static void
member_open(struct crew_member *member)
{
	struct crew *crew = member->crew;
	struct nam_client *client = crew->teams[member->number / crew->threads].client;
	struct nam_diag diag = { "" };
	int rc = 0;

	if (client)
		rc = nam_worker_open(client, &member->worker, &diag);
	finished(crew, 1, rc, &diag);
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

		lock(crew);
		while (crew->generation == seen)
			wait_called(crew);
		seen = crew->generation;
		fn = crew->fn;
		unlock(crew);
		if (!fn)
			break;
		fn(member, crew->arg);
		finished(crew, 1, 0, NULL);
	}
	if (member->worker)
		nam_worker_close(member->worker);
}

static void
call(struct crew *crew, crew_job_fn fn, void *arg)
{
	lock(crew);
	crew->fn = fn;
	crew->arg = arg;
	crew->running = crew->size;
	crew->generation++;
	if (crew->simulated)
		nam_sim_gate_open(&crew->called_gate);
	else
		pthread_cond_broadcast(&crew->called);
	unlock(crew);
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

	lock(crew);
	while (crew->running) {
		struct timespec until;
		uint64_t until_ns;

		if (!tick || crew->simulated) {
			wait_finished(crew);
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
	unlock(crew);
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

/* ---- life --------------------------------------------------------------------------------- */

static void
crew_free(struct crew *crew)
{
	free(crew->members);
	free(crew->handles);
	free(crew->teams);
	free(crew);
}

static int
crew_alloc(unsigned clients, unsigned threads, struct crew **ret_crew)
{
	struct crew *crew = calloc(1, sizeof(*crew));
	size_t size = (size_t)clients * threads;
	pthread_condattr_t monotonic;

	if (!crew)
		return -ENOMEM;
	crew->handles = calloc(size, sizeof(struct nam_thread *));
	crew->members = aligned_alloc(64, size * sizeof(struct crew_member));
	crew->teams = calloc(clients, sizeof(struct team));
	if (!crew->handles || !crew->members || !crew->teams) {
		crew_free(crew);
		return -ENOMEM;
	}
	memset(crew->members, 0, size * sizeof(struct crew_member));
	crew->threads = threads;
	crew->teams_count = clients;
	crew->simulated = nam_sim_self() != NULL;
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->called, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&crew->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*ret_crew = crew;
	return 0;
}

static void
team_start(struct team *team)
{
	struct crew *crew = team->crew;
	struct nam_diag diag;

	for (unsigned i = 0; i < crew->threads; i++) {
		unsigned number = team->first + i;
		char name[24];
		int rc;

		snprintf(name, sizeof(name), "bench-%u", number);
		rc = nam_thread_start(name, member_main, &crew->members[number],
			&crew->handles[number]);
		if (rc) {
			(void)nam_diag_set(&diag, rc, "thread %u could not be started: %s", number,
				nam_err_text(rc));
			finished(crew, crew->threads - i, rc, &diag);
			break;
		}
		lock(crew);
		crew->size++;
		unlock(crew);
		team->started++;
	}
}

static void
team_join(struct team *team)
{
	for (unsigned i = 0; i < team->started; i++)
		nam_thread_join(team->crew->handles[team->first + i]);
}

/* A simulated client's life. */
static void
team_main(void *arg)
{
	struct team *team = arg;
	struct crew *crew = team->crew;
	struct nam_diag diag = { "it could not connect" };

	if (crew->others.connect(crew->others.arg, &team->client)) {
		finished(crew, crew->threads, -NAM_E_FABRIC_CONNECT, &diag);
	} else {
		team_start(team);
		team_join(team);
		nam_client_close(team->client);
	}
	if (--crew->teams_alive == 0)
		nam_sim_gate_open(&crew->finished_gate);
}

static void
teams_start(struct crew *crew)
{
	struct nam_diag diag;

	for (unsigned i = 0; i < crew->teams_count; i++) {
		struct team *team = &crew->teams[i];
		int rc;

		team->crew = crew;
		team->first = i * crew->threads;
		if (i == 0) {
			team_start(team);
			continue;
		}
		rc = simulation_client(crew->others.simulation, i, team_main, team);
		if (rc) {
			(void)nam_diag_set(&diag, rc, "client %u could not be started", i);
			finished(crew, (crew->teams_count - i) * crew->threads, rc, &diag);
			break;
		}
		crew->teams_alive++;
	}
}

int
crew_start_simulated(struct nam_client *client, unsigned threads, const struct crew_others *others,
	struct crew **ret_crew, struct nam_diag *diag)
{
	unsigned clients = others ? others->clients : 1;
	struct crew *crew;
	int rc = crew_alloc(clients, threads, &crew);

	if (rc)
		return nam_diag_set(diag, rc, "no memory for %u threads", clients * threads);
	if (others)
		crew->others = *others;
	crew->teams[0].client = client;
	crew->running = clients * threads;
	for (unsigned i = 0; i < clients * threads; i++) {
		crew->members[i].crew = crew;
		crew->members[i].number = i;
	}
	teams_start(crew);
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

int
crew_start(struct nam_client *client, unsigned threads, struct crew **ret_crew,
	struct nam_diag *diag)
{
	return crew_start_simulated(client, threads, NULL, ret_crew, diag);
}

void
crew_stop(struct crew *crew)
{
	if (!crew)
		return;
	call(crew, NULL, NULL);
	team_join(&crew->teams[0]);
	while (crew->teams_alive)
		nam_sim_gate_wait(&crew->finished_gate);
	pthread_cond_destroy(&crew->called);
	pthread_cond_destroy(&crew->finished);
	pthread_mutex_destroy(&crew->mutex);
	crew_free(crew);
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
