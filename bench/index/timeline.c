/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c -- the rate of a run over time, and memory servers that are added meanwhile.
 *
 * One thread looks at the members' counts at the end of each slice, another one adds, since an
 * addition waits for all clients.
 */
#include "bench/bench.h"
#include "bench.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_NS 10000000ull	/* between two looks at `stop` */

/* Until that part of the run is over; false if the run ends before. */
static bool
wait_until(const struct index_timeline *timeline, double part)
{
	double run_ns = timeline->bench->options.run.seconds * 1e9;
	uint64_t until_ns = timeline->began_ns + (uint64_t)(run_ns * part), now_ns;

	while (!timeline->stop && (now_ns = nam_now_ns()) < until_ns)
		nam_sleep_ns(until_ns - now_ns < STEP_NS ? until_ns - now_ns : STEP_NS);
	return !timeline->stop;
}

/* ---- slices ------------------------------------------------------------------------------- */

static uint64_t
done_by_all(void)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		done += atomic_load_explicit(&thread_pool_member(session.pool, i)->done,
			memory_order_relaxed);
	return done;
}

static void
slices_main(void *arg)
{
	struct index_timeline *timeline = arg;
	struct index_bench *bench = timeline->bench;
	uint32_t slices = bench->options.slices;
	uint64_t before = 0, before_ns = timeline->began_ns;

	while (bench->slices_count < slices &&
		wait_until(timeline, (double)(bench->slices_count + 1) / slices)) {
		struct index_slice *slice = &bench->slices[bench->slices_count++];
		uint64_t done = done_by_all(), now_ns = nam_now_ns();

		slice->ops = done - before;
		slice->ops_per_s = (double)slice->ops * 1e9 / (double)(now_ns - before_ns);
		slice->seconds = (double)(now_ns - timeline->began_ns) * 1e-9;
		slice->memservers = nam_client_servers(session.client);
		before = done;
		before_ns = now_ns;
	}
}

/* ---- memory servers ----------------------------------------------------------------------- */

/* Each time as many as there are, after equal parts of the run. */
static void
grow_main(void *arg)
{
	struct index_timeline *timeline = arg;
	const struct index_bench_options *o = &timeline->bench->options;
	uint32_t count = o->run.memservers, parts = 1, part = 0;

	for (uint32_t n = count; n < o->grow; n *= 2)
		parts++;
	while (count < o->grow && wait_until(timeline, (double)++part / parts)) {
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

/* ---- both --------------------------------------------------------------------------------- */

int
index_timeline_start(struct index_timeline *timeline)
{
	struct index_bench *bench = timeline->bench;
	int rc = 0;

	if (bench->options.slices) {
		bench->slices = calloc(bench->options.slices, sizeof(struct index_slice));
		if (!bench->slices)
			return -ENOMEM;
	}
	/* A warm-up has left its counts. */
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		atomic_store_explicit(&thread_pool_member(session.pool, i)->done, 0,
			memory_order_relaxed);
	timeline->began_ns = nam_now_ns();
	if (bench->options.slices)
		rc = nam_thread_start("bench-slices", slices_main, timeline, &timeline->slicer);
	if (!rc && bench->options.grow)
		rc = nam_thread_start("bench-grow", grow_main, timeline, &timeline->grower);
	return rc;
}

void
index_timeline_stop(struct index_timeline *timeline)
{
	if (bench_signal || findings.fatal)
		timeline->stop = true;
	if (timeline->slicer)
		nam_thread_join(timeline->slicer);
	timeline->stop = true;
	if (timeline->grower)
		nam_thread_join(timeline->grower);
}
