/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.c -- threads beside a run: a garbage collector, the rate over time, an adder of memory
 * servers, and a failover.  These two are threads of their own, as changes wait for all clients.
 */
#include "bench/bench.h"
#include "bench.h"

#define PAUSE_NS 20000000ull	/* between two passes of the collector */
#define STEP_NS 10000000ull	/* between two looks at `stop` */

/* ---- garbage ------------------------------------------------------------------------------ */

/* False: it failed. */
static bool
collect(struct index_bench *bench, struct nam_worker *worker)
{
	struct nam_collect_stat stat;
	int rc = nam_index_collect(worker, bench->index, &stat); /* SUSPENDS */

	/* Another client's collector is at work: it does our job. */
	if (rc == -NAM_E_LOCK_TIMEOUT)
		return true;
	if (rc) {
		findings_failed(rc, "collect", nam_worker_diag(worker));
		return false;
	}
	bench->collected.passes++;
	bench->collected.merges += stat.merges;
	bench->collected.nodes_retired += stat.nodes_retired;
	bench->collected.nodes_reusable += stat.nodes_reusable;
	return true;
}

static void
collector_main(void *arg)
{
	struct index_background *background = arg;
	struct nam_worker *worker;
	struct nam_diag diag = { "" };
	int rc = nam_worker_open(session.client, &worker, &diag);

	if (rc) {
		findings_failed(rc, "a worker for the collector", diag.text);
		return;
	}
	while (!background->stop && collect(background->bench, worker))
		nam_sleep_ns(PAUSE_NS);
	nam_worker_close(worker);
}

/* ---- slices ------------------------------------------------------------------------------- */

/* Until that part of the run is over; false if the run ends before. */
static bool
wait_until(const struct index_background *background, double part)
{
	double run_ns = background->bench->options.run.seconds * 1e9;
	uint64_t until_ns = background->began_ns + (uint64_t)(run_ns * part), now_ns;

	while (!background->stop && (now_ns = nam_now_ns()) < until_ns)
		nam_sleep_ns(until_ns - now_ns < STEP_NS ? until_ns - now_ns : STEP_NS);
	return !background->stop;
}

static void
slices_main(void *arg)
{
	struct index_background *background = arg;
	struct index_bench *bench = background->bench;
	uint32_t slices = bench->options.slices;
	uint64_t before = 0, before_ns = background->began_ns;

	while (bench->slices_count < slices &&
		wait_until(background, (double)(bench->slices_count + 1) / slices)) {
		struct index_slice *slice = &bench->slices[bench->slices_count++];
		uint64_t done = thread_pool_done(session.pool), now_ns = nam_now_ns();

		slice->ops = done - before;
		slice->ops_per_s = (double)slice->ops * 1e9 / (double)(now_ns - before_ns);
		slice->seconds = (double)(now_ns - background->began_ns) * 1e-9;
		slice->memservers = nam_client_servers(session.client);
		slice->backups = bench->backups;
		before = done;
		before_ns = now_ns;
	}
}

/* ---- memory servers ----------------------------------------------------------------------- */

/* Each time as many as there are, after equal parts of the run. */
static void
grow_main(void *arg)
{
	struct index_background *background = arg;
	const struct index_bench_options *o = &background->bench->options;
	uint32_t count = o->run.memservers, parts = 1, part = 0;

	for (uint32_t n = count; n < o->grow; n *= 2)
		parts++;
	while (count < o->grow && wait_until(background, (double)++part / parts)) {
		uint32_t next = 2 * count < o->grow ? 2 * count : o->grow;

		for (; count < next; count++) {
			struct nam_diag diag = { "" };
			int rc = simulation_grow(session.simulation, &diag);

			if (rc) {
				findings_failed(rc, "adding a memory server", diag.text);
				return;
			}
		}
	}
}

/* ---- a failover ---------------------------------------------------------------------------- */

/* Of the last one, and of others before the run. */
static int
back(struct index_bench *bench, uint32_t id)
{
	struct nam_diag diag = { "" };
	int rc = simulation_back(session.simulation, id, &diag);

	if (rc)
		findings_failed(rc, "a backup", diag.text);
	else
		bench->backups++;
	return rc;
}

static void
failover_main(void *arg)
{
	struct index_background *background = arg;
	struct index_bench *bench = background->bench;
	uint32_t id = bench->options.run.memservers - 1;
	struct nam_diag diag = { "" };
	int rc;

	if (!wait_until(background, 0.25))
		return;
	bench->backups--;
	rc = simulation_fail(session.simulation, id, &diag);
	if (rc)
		findings_failed(rc, "a promotion", diag.text);
	else
		(void)!back(bench, id);
}

/* ---- all ---------------------------------------------------------------------------------- */

int
index_background_start(struct index_background *background)
{
	static const char *const timeline = "starting the threads of --slices, --grow, --failover";
	const struct index_bench_options *o = &background->bench->options;
	const struct {
		bool wanted;
		const char *name, *what;
		nam_thread_fn fn;
	} threads[INDEX_BACKGROUND_THREADS] = {
		{ o->collect, "bench-collect", "starting the collector", collector_main },
		{ o->slices, "bench-slices", timeline, slices_main },
		{ o->grow, "bench-grow", timeline, grow_main },
		{ o->failover, "bench-failover", timeline, failover_main },
	};

	for (uint32_t id = 0; o->failover && id < o->run.memservers; id++) {
		int rc = back(background->bench, id);

		if (rc)
			return rc;
	}
	/* A warm-up has left its counts. */
	thread_pool_reset(session.pool);
	background->began_ns = nam_now_ns();
	for (unsigned i = 0; i < INDEX_BACKGROUND_THREADS; i++) {
		int rc = !threads[i].wanted ? 0 : nam_thread_start(threads[i].name, threads[i].fn,
			background, &background->threads[i]);

		if (rc) {
			(void)bench_failed(threads[i].what, rc, NULL);
			return rc;
		}
	}
	return 0;
}

void
index_background_stop(struct index_background *background)
{
	if (bench_signal || findings.fatal)
		background->stop = true;
	/* The thread of slices first: it ends by itself, with the time of the run. */
	for (unsigned i = 1; i <= INDEX_BACKGROUND_THREADS; i++) {
		struct nam_thread *thread = background->threads[i % INDEX_BACKGROUND_THREADS];

		if (thread)
			nam_thread_join(thread);
		background->stop = true;
	}
}
