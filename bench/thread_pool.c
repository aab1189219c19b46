/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/env.h"
#include "progress.h"
#include "ticks.h"

#define TICK_NS 100000000ull

/* A client and its threads, which are members first, first + 1, ... */
struct team {
	struct thread_pool *pool;
	struct nam_client *client;
	unsigned first;
};

struct thread_pool {
	unsigned size;
	unsigned threads;		/* of each client */
	unsigned teams_count;
	struct team *teams;
	struct thread_pool_member *members;
	struct thread_pool_others others;
	bool simulated;			/* then gates are what conditions are otherwise */
	struct nam_sim_gate called_gate, finished_gate;
	unsigned teams_alive;		/* that others run */
	struct blocks_left left;	/* by clients whose workers are closed */

	pthread_mutex_t mutex;
	pthread_cond_t called;		/* a job, or the end */
	pthread_cond_t finished;
	unsigned generation;		/* of the job */
	unsigned running;
	thread_pool_job_fn fn;			/* NULL: the end */
	void *arg;
	int rc;				/* of the workers' opening */
	struct nam_diag diag;
};

/* ---- waiting for each other --------------------------------------------------------------- */

/* A simulated thread runs alone until it waits, so it needs no mutex. */
static void
lock(struct thread_pool *pool)
{
	if (!pool->simulated)
		pthread_mutex_lock(&pool->mutex);
}

static void
unlock(struct thread_pool *pool)
{
	if (!pool->simulated)
		pthread_mutex_unlock(&pool->mutex);
}

static void
wait_for(struct thread_pool *pool, struct nam_sim_gate *gate, pthread_cond_t *condition)
{
	if (pool->simulated)
		nam_sim_gate_wait(gate);
	else
		pthread_cond_wait(condition, &pool->mutex);
}

/* `count` more have done their part, or failed. */
static void
finished(struct thread_pool *pool, unsigned count, int rc, const struct nam_diag *diag)
{
	lock(pool);
	if (rc && !pool->rc) {
		pool->rc = rc;
		pool->diag = *diag;
	}
	pool->running -= count;
	if (pool->running == 0 && pool->simulated)
		nam_sim_gate_open(&pool->finished_gate);
	else if (pool->running == 0)
		pthread_cond_signal(&pool->finished);
	unlock(pool);
}

/* ---- members ------------------------------------------------------------------------------ */

static void
member_open(struct thread_pool_member *member)
{
	struct thread_pool *pool = member->pool;
	struct nam_client *client = pool->teams[member->number / pool->threads].client;
	struct nam_diag diag = { "" };
	int rc = 0;

	if (client)
		rc = nam_worker_open(client, &member->worker, &diag);
	finished(pool, 1, rc, &diag);
}

static void
member_main(void *arg)
{
	struct thread_pool_member *member = arg;
	struct thread_pool *pool = member->pool;
	unsigned seen = 0;

	member_open(member);
	for (;;) {
		thread_pool_job_fn fn;

		lock(pool);
		while (pool->generation == seen)
			wait_for(pool, &pool->called_gate, &pool->called);
		seen = pool->generation;
		fn = pool->fn;
		unlock(pool);
		if (!fn)
			break;
		fn(member, pool->arg);
		finished(pool, 1, 0, NULL);
	}
	if (member->worker)
		nam_worker_close(member->worker);
}

static void
call(struct thread_pool *pool, thread_pool_job_fn fn, void *arg)
{
	lock(pool);
	pool->fn = fn;
	pool->arg = arg;
	pool->running = pool->size;
	pool->generation++;
	if (pool->simulated)
		nam_sim_gate_open(&pool->called_gate);
	else
		pthread_cond_broadcast(&pool->called);
	unlock(pool);
}

uint64_t
thread_pool_done(const struct thread_pool *pool)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < pool->size; i++)
		done += atomic_load_explicit(&pool->members[i].done, memory_order_relaxed);
	return done;
}

void
thread_pool_reset(struct thread_pool *pool)
{
	for (unsigned i = 0; i < pool->size; i++)
		atomic_store_explicit(&pool->members[i].done, 0, memory_order_relaxed);
}

/* Wait for all members; thread_pool_run() says what is shown meanwhile. */
static void
wait_all(struct thread_pool *pool, uint64_t ops, double seconds)
{
	bool shown = progress_wanted() && !pool->simulated && (ops || seconds > 0);
	uint64_t begin_ns = nam_now_ns();

	lock(pool);
	while (pool->running) {
		struct timespec until;
		uint64_t until_ns, done;

		if (!shown) {
			wait_for(pool, &pool->finished_gate, &pool->finished);
			continue;
		}
		until_ns = nam_now_ns() + TICK_NS;
		until.tv_sec = (time_t)(until_ns / 1000000000ull);
		until.tv_nsec = (long)(until_ns % 1000000000ull);
		if (pthread_cond_timedwait(&pool->finished, &pool->mutex, &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&pool->mutex);
		done = thread_pool_done(pool);
		progress_show(ops ? (double)done / (double)ops
				  : (double)(nam_now_ns() - begin_ns) * 1e-9 / seconds, done);
		pthread_mutex_lock(&pool->mutex);
	}
	unlock(pool);
}

void
thread_pool_run(struct thread_pool *pool, thread_pool_job_fn fn, void *arg, uint64_t ops,
	double seconds)
{
	thread_pool_reset(pool);
	call(pool, fn, arg);
	wait_all(pool, ops, seconds);
}

static void
counters_take(const struct thread_pool *pool, struct nam_op_counters ret[NAM_OP_KINDS_COUNT])
{
	memset(ret, 0, NAM_OP_KINDS_COUNT * sizeof(*ret));
	for (unsigned i = 0; i < pool->size; i++)
		for (int kind = 0; pool->members[i].worker && kind < NAM_OP_KINDS_COUNT; kind++)
			nam_op_counters_add(&ret[kind], nam_worker_counters(
				pool->members[i].worker, (enum nam_op_kind)kind));
}

void
thread_pool_measure(struct thread_pool *pool, thread_pool_job_fn fn, void *arg, uint64_t ops,
	double seconds, struct nam_op_counters ret_counters[NAM_OP_KINDS_COUNT])
{
	struct nam_op_counters before[NAM_OP_KINDS_COUNT];
	const uint64_t *from = (const uint64_t *)before;	/* every field is a count */
	uint64_t *to = (uint64_t *)ret_counters;

	counters_take(pool, before);
	thread_pool_run(pool, fn, arg, ops, seconds);
	counters_take(pool, ret_counters);
	for (size_t i = 0; i < sizeof(before) / (sizeof(*to)); i++)
		to[i] -= from[i];
}

void
share_begin(struct share *share, const struct thread_pool_member *member, uint64_t ops,
	double seconds)
{
	unsigned size = member->pool->size;

	*share = (struct share){
		.remaining = ops ? ops / size + (member->number < ops % size) : UINT64_MAX,
		.cpu_ns = ticks_cpu_ns(),
		.began = ticks_now(),
	};
	share->ended = share->began;
	share->deadline = ops ? UINT64_MAX : share->began + ticks_from_ns(seconds * 1e9);
}

void
share_end(const struct share *share, struct thread_pool_member *member)
{
	member->share = *share;
	member->share.cpu_ns = member->pool->simulated ? 0 : ticks_cpu_ns() - share->cpu_ns;
}

void
result_add_shares(struct result *sum, const struct thread_pool *pool)
{
	uint64_t began = UINT64_MAX, ended = 0;

	for (unsigned i = 0; i < pool->size; i++) {
		const struct share *share = &pool->members[i].share;

		sum->ops += share->done;
		sum->cpu_seconds += (double)share->cpu_ns * 1e-9;
		began = share->began < began ? share->began : began;
		ended = share->ended > ended ? share->ended : ended;
	}
	sum->seconds += ended > began ? ticks_ns(ended - began) * 1e-9 : 0;
	sum->ops_per_s = sum->seconds > 0 ? (double)sum->ops / sum->seconds : 0;
}

/* ---- life --------------------------------------------------------------------------------- */

static void
thread_pool_free(struct thread_pool *pool)
{
	free(pool->members);
	free(pool->teams);
	free(pool);
}

static struct thread_pool *
thread_pool_alloc(unsigned clients, unsigned threads)
{
	struct thread_pool *pool = calloc(1, sizeof(*pool));
	unsigned size = clients * threads;
	pthread_condattr_t monotonic;

	if (!pool)
		return NULL;
	pool->members = aligned_alloc(64, size * sizeof(struct thread_pool_member));
	pool->teams = calloc(clients, sizeof(struct team));
	if (!pool->members || !pool->teams) {
		thread_pool_free(pool);
		return NULL;
	}
	for (unsigned i = 0; i < size; i++)
		pool->members[i] = (struct thread_pool_member){ .pool = pool, .number = i };
	pool->threads = threads;
	pool->teams_count = clients;
	pool->running = size;
	pool->simulated = nam_sim_self() != NULL;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->called, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return pool;
}

static void
team_start(struct team *team)
{
	struct thread_pool *pool = team->pool;
	struct nam_diag diag;

	for (unsigned i = 0; i < pool->threads; i++) {
		unsigned number = team->first + i;
		char name[24];
		int rc;

		snprintf(name, sizeof(name), "bench-%u", number);
		rc = nam_thread_start(name, member_main, &pool->members[number],
			&pool->members[number].thread);
		if (rc) {
			(void)nam_diag_set(&diag, rc, "thread %u could not be started: %s", number,
				nam_err_text(rc));
			finished(pool, pool->threads - i, rc, &diag);
			break;
		}
		lock(pool);
		pool->size++;
		unlock(pool);
	}
}

static void
team_join(struct team *team)
{
	struct thread_pool_member *members = &team->pool->members[team->first];

	for (unsigned i = 0; i < team->pool->threads && members[i].thread; i++)
		nam_thread_join(members[i].thread);
}

static void
count_left(struct thread_pool *pool, struct nam_client *client)
{
	struct nam_diag why;

	pool->left.lost += nam_client_blocks_lost(client);
	pool->left.waiting += nam_client_blocks_waiting(client, &why);
	if (why.text[0])
		pool->left.why = why;
}

/* A simulated client's life. */
static void
team_main(void *arg)
{
	struct team *team = arg;
	struct thread_pool *pool = team->pool;
	struct nam_diag diag = { "it could not connect" };

	if (pool->others.connect(pool->others.arg, &team->client)) {
		finished(pool, pool->threads, -NAM_E_FABRIC_CONNECT, &diag);
	} else {
		team_start(team);
		team_join(team);
		count_left(pool, team->client);
		nam_client_close(team->client);
	}
	if (--pool->teams_alive == 0)
		nam_sim_gate_open(&pool->finished_gate);
}

static void
teams_start(struct thread_pool *pool)
{
	struct nam_diag diag;

	for (unsigned i = 0; i < pool->teams_count; i++) {
		struct team *team = &pool->teams[i];
		int rc;

		team->pool = pool;
		team->first = i * pool->threads;
		if (i == 0) {
			team_start(team);
			continue;
		}
		rc = simulation_client(pool->others.simulation, i, team_main, team);
		if (rc) {
			(void)nam_diag_set(&diag, rc, "client %u could not be started", i);
			finished(pool, (pool->teams_count - i) * pool->threads, rc, &diag);
			break;
		}
		pool->teams_alive++;
	}
}

int
thread_pool_start(struct nam_client *client, unsigned threads,
	const struct thread_pool_others *others, struct thread_pool **ret_pool,
	struct nam_diag *diag)
{
	unsigned clients = others ? others->clients : 1;
	struct thread_pool *pool = thread_pool_alloc(clients, threads);
	int rc;

	if (!pool)
		return nam_diag_set(diag, -ENOMEM, "no memory for %u threads", clients * threads);
	if (others)
		pool->others = *others;
	pool->teams[0].client = client;
	teams_start(pool);
	wait_all(pool, 0, 0);
	rc = pool->rc;
	if (!rc) {
		*ret_pool = pool;
		return 0;
	}
	if (diag)
		*diag = pool->diag;
	(void)thread_pool_stop(pool);
	return rc;
}

struct blocks_left
thread_pool_stop(struct thread_pool *pool)
{
	struct blocks_left left = { 0 };

	if (!pool)
		return left;
	call(pool, NULL, NULL);
	team_join(&pool->teams[0]);
	while (pool->teams_alive)
		nam_sim_gate_wait(&pool->finished_gate);
	if (pool->teams[0].client)
		count_left(pool, pool->teams[0].client);
	left = pool->left;
	pthread_cond_destroy(&pool->called);
	pthread_cond_destroy(&pool->finished);
	pthread_mutex_destroy(&pool->mutex);
	thread_pool_free(pool);
	return left;
}

unsigned
thread_pool_size(const struct thread_pool *pool)
{
	return pool->size;
}

struct thread_pool_member *
thread_pool_member(struct thread_pool *pool, unsigned number)
{
	return &pool->members[number];
}
