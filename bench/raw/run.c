/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench/bench.h"
#include "bench/report.h"

#define FILL_BATCH 16u

/* ---- one measurement ---------------------------------------------------------------------- */

struct raw_job {
	const struct raw_spec *spec;
	struct raw_part *parts;
	uint64_t ops;			/* of all; 0: until the time is up */
	double seconds;
};

static void
part_run(struct raw_part *part, const struct raw_job *job)
{
	const struct raw_spec *spec = part->spec;

	share_begin(&part->share, part->member, job->ops, job->seconds);
	if (spec->op == RAW_MEMCPY)
		raw_loop_copy(part);
	else if (spec->op == RAW_SEND || spec->loop == RAW_FIBERS)
		raw_loop_fibers(part);
	else if (spec->loop == RAW_BATCH)
		raw_loop_batch(part);
	else
		raw_loop_window(part);
	part->share.ended = ticks_now();
	share_end(&part->share, part->member);
}

static void
job_main(struct thread_pool_member *member, void *arg)
{
	struct raw_job *job = arg;
	const struct raw_spec *spec = job->spec;
	struct raw_part *part = &job->parts[member->number];
	uint32_t bytes = spec->bytes < 8 ? 8 : spec->bytes, made;

	part->spec = spec;
	part->worker = member->worker;
	part->member = member;
	part->rng = nam_rng_seed(spec->seed + member->number * 0x1000003ull);
	part->slots = calloc(spec->depth, sizeof(struct raw_slot));
	for (made = 0; part->slots && made < spec->depth; made++) {
		/* Registered memory, or any for copies. */
		part->slots[made].buffer = part->worker
			? nam_buffer_take(part->worker, bytes)
			: aligned_alloc(64, (bytes + 63) & ~63u);
		if (!part->slots[made].buffer)
			break;
		memset(part->slots[made].buffer, 0, bytes);
	}
	if (part->slots && made == spec->depth)
		part_run(part, job);
	else
		part->rc = -ENOMEM;
	while (part->slots && made-- > 0)
		if (part->worker)
			nam_buffer_give(part->worker, part->slots[made].buffer, bytes);
		else
			free(part->slots[made].buffer);
	free(part->slots);
}

int
raw_run(const struct raw_spec *spec, uint64_t ops, double seconds, struct result *result)
{
	unsigned threads = thread_pool_size(session.pool);
	struct raw_job job = { .spec = spec, .ops = ops, .seconds = seconds };
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];
	int rc = 0;

	job.parts = calloc(threads, sizeof(struct raw_part));
	if (!job.parts)
		return -ENOMEM;
	memset(result, 0, sizeof(*result));
	thread_pool_measure(session.pool, job_main, &job, 0, 0, counters);
	result->counters = counters[NAM_OP_OTHER];
	for (unsigned i = 0; i < threads; i++) {
		rc = rc ? rc : job.parts[i].rc;
		histogram_merge(&result->latency, &job.parts[i].latency);
	}
	result_add_shares(result, session.pool);
	free(job.parts);
	return rc;
}

/* ---- before and after --------------------------------------------------------------------- */

struct sweep_job {
	const struct raw_spec *spec;
	bool fill;
	atomic_uint_fast64_t added;	/* FETCH_ADDs found */
	atomic_uint_fast64_t written;	/* blocks that a WRITE has changed */
	atomic_int rc;
};

/* Blocks first, first + 1, ... of this batch: write their patterns, or read and look. */
static int
sweep_batch(struct sweep_job *job, struct nam_worker *worker, uint64_t **buffers, uint64_t first,
	unsigned count)
{
	const struct raw_spec *spec = job->spec;
	struct nam_batch batch;
	int rc;

	nam_batch_init(&batch, worker);
	for (unsigned i = 0; i < count; i++) {
		struct nam_gaddr at = blocks_at(spec->blocks, first + i);

		if (!job->fill) {
			nam_batch_read(&batch, at, buffers[i], spec->bytes);
			continue;
		}
		for (uint32_t w = 0; w < spec->bytes / 8; w++)
			buffers[i][w] = raw_pattern(first + i);
		nam_batch_write(&batch, at, 0, buffers[i], spec->bytes);
	}
	rc = nam_batch_await(&batch); /* SUSPENDS */
	for (unsigned i = 0; i < count && !rc && !job->fill; i++) {
		uint64_t pattern = raw_pattern(first + i), begin = buffers[i][0];
		uint64_t last = buffers[i][spec->bytes / 8 - 1];

		if (spec->op == RAW_FAA)
			atomic_fetch_add(&job->added, begin - pattern);
		else if (begin == ~pattern && last == ~pattern)
			atomic_fetch_add(&job->written, 1);
		else if (begin != pattern || last != pattern)
			findings_wrong("block %" PRIu64 " holds %#" PRIx64 " ... %#" PRIx64
				", which no writer wrote", first + i, begin, last);
	}
	return rc;
}

static void
sweep_main(struct thread_pool_member *member, void *arg)
{
	struct sweep_job *job = arg;
	const struct blocks *blocks = job->spec->blocks;
	unsigned threads = thread_pool_size(member->pool), made;
	uint64_t first = blocks->count * member->number / threads;
	uint64_t end = blocks->count * (member->number + 1) / threads;
	uint64_t *buffers[FILL_BATCH];
	int rc = 0;

	for (made = 0; made < FILL_BATCH; made++) {
		buffers[made] = nam_buffer_take(member->worker, blocks->bytes);
		if (!buffers[made])
			break;
	}
	if (made < FILL_BATCH)
		rc = -ENOMEM;
	while (first < end && !rc && !bench_signal) {
		unsigned count = end - first < FILL_BATCH ? (unsigned)(end - first) : FILL_BATCH;

		rc = sweep_batch(job, member->worker, buffers, first, count);
		first += count;
	}
	while (made > 0)
		nam_buffer_give(member->worker, buffers[--made], blocks->bytes);
	if (rc)
		atomic_store(&job->rc, rc);
}

int
raw_blocks_fill(const struct blocks *blocks)
{
	struct raw_spec spec = {
		.op = RAW_READ,
		.bytes = blocks->bytes,
		.blocks = blocks,
	};
	struct sweep_job job = { .spec = &spec, .fill = true };

	thread_pool_run(session.pool, sweep_main, &job, 0, 0);
	return job.rc;
}

int
raw_verify(const struct raw_spec *spec, uint64_t ops)
{
	struct sweep_job job = { .spec = spec };

	thread_pool_run(session.pool, sweep_main, &job, 0, 0);
	if (job.rc)
		return job.rc;
	if (spec->op == RAW_FAA && job.added != ops)
		findings_wrong("%" PRIu64 " FETCH_ADDs of 1 were done and the words have grown by %"
			PRIuFAST64, ops, job.added);
	if (spec->op == RAW_WRITE && ops && !job.written)
		findings_wrong("no block shows any of %" PRIu64 " WRITEs", ops);
	return 0;
}
