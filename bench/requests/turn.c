/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c -- one turn of a benchmark of requests: its threads, fibers and counters. */
#include "requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ticks.h"

void
requests_failed(struct requests_part *part, int rc, const char *what)
{
	findings_failed(&session.findings, rc, what, nam_worker_diag(part->member->worker));
	session.findings.fatal = rc;
}

/* A call: some requests, whose time is that of all; false: it failed. */
NAM_FIBER_FN static bool
call(struct requests_part *part, uint8_t *rooms, size_t room_bytes, uint64_t *began)
{
	const struct requests_kind *kind = part->bench->kind;
	uint32_t count = part->bench->options.batch;
	int rc;

	count = count < part->share.remaining ? count : (uint32_t)part->share.remaining;
	part->share.remaining -= count;
	for (uint32_t i = 0; i < count; i++) {
		part->number++;
		kind->prepare(part, rooms + i * room_bytes);
	}
	rc = kind->ask(part, rooms, count); /* SUSPENDS */
	if (rc) {
		requests_failed(part, rc, "a request");
		return false;
	}
	part->share.ended = ticks_now();
	histogram_record_many(&part->latency, part->share.ended - *began, count);
	*began = part->share.ended;
	for (uint32_t i = 0; i < count; i++)
		kind->check(part, rooms + i * room_bytes);
	part->share.done += count;
	return true;
}

static void
fiber_main(void *arg)
{
	struct requests_part *part = arg;
	struct requests *bench = part->bench;
	size_t room_bytes = bench->kind->room_bytes
		? bench->kind->room_bytes : bench->kind->room_bytes_of(&bench->options);
	uint8_t *rooms = calloc(bench->options.batch, room_bytes);
	uint64_t began = ticks_now();

	if (!rooms) {
		findings_failed(&session.findings, -ENOMEM, "starting a fiber", "");
		session.findings.fatal = -ENOMEM;
		return;
	}
	/* The clock is not free: a request ends, and the fiber's next one begins, with one look. */
	while (part->share.remaining && part->share.ended < part->share.deadline && !bench_signal &&
		!session.findings.fatal)
		if (!call(part, rooms, room_bytes, &began)) /* SUSPENDS */
			break;
	free(rooms);
}

static void
job_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	const struct requests_options *o = &bench->options;
	struct requests_part *part = &bench->parts[member->number];
	int rc = 0;

	part->number = member->number;
	share_begin(&part->share, member, o->run.ops, bench->turn_seconds);
	if (o->run.fibers == 1)
		fiber_main(part);
	for (uint32_t i = 0; i < o->run.fibers && o->run.fibers > 1 && !rc; i++)
		rc = nam_worker_spawn(member->worker, fiber_main, part);
	if (rc) {
		findings_failed(&session.findings, rc, "starting the fibers", "fewer --threads or "
			"--fibers take less memory and fewer mappings (vm.max_map_count)");
		session.findings.fatal = rc;
	}
	if (o->run.fibers > 1)
		nam_worker_run(member->worker);
	share_end(&part->share, member);
}

/* Of all kinds of operations. */
static void
counters_sum(struct nam_op_counters *ret)
{
	struct nam_op_counters one;

	memset(ret, 0, sizeof(*ret));
	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++) {
		thread_pool_counters(session.pool, (enum nam_op_kind)kind, &one);
		nam_op_counters_add(ret, &one);
	}
}

void
requests_turn(struct requests *bench, double seconds)
{
	struct nam_op_counters before, after;

	bench->turn_seconds = seconds;
	counters_sum(&before);
	thread_pool_run(session.pool, job_main, bench, NULL, NULL);
	counters_sum(&after);
	counters_subtract(&after, &before);
	nam_op_counters_add(&session.result.counters, &after);
	result_add_shares(&session.result, session.pool);
}
