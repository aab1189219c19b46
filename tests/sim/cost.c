/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c -- see cost.h. */
#include "cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define MEMORY_BYTES (32u << 20)

/* ---- telling ------------------------------------------------------------------------------ */

void
cost_fail(struct cost_stage *stage, const char *format, ...)
{
	size_t length = strlen(stage->why);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(stage->why + length, sizeof(stage->why) - length, format, args);
	va_end(args);
	length = strlen(stage->why);
	(void)snprintf(stage->why + length, sizeof(stage->why) - length, " (%s)\n",
		nam_sim_profile_name(stage->profile));
}

void
cost_expect(struct cost_stage *stage, const char *what, int rc, int expected)
{
	if (rc != expected)
		cost_fail(stage, "%s: %s", what, nam_err_name(rc));
}

/* ---- counting ----------------------------------------------------------------------------- */

void
cost_begin(struct cost_stage *stage)
{
	memcpy(stage->before, stage->worker->counters, sizeof(stage->before));
}

static void
counters_subtract(struct nam_op_counters *from, const struct nam_op_counters *what)
{
	from->ops -= what->ops;
	from->round_trips -= what->round_trips;
	from->doorbells -= what->doorbells;
	from->work_requests -= what->work_requests;
	from->bytes_in -= what->bytes_in;
	from->bytes_out -= what->bytes_out;
	from->splits -= what->splits;
	from->late_separators -= what->late_separators;
	from->colocated_reads -= what->colocated_reads;
	from->colocated_calls -= what->colocated_calls;
	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		from->restarts[i] -= what->restarts[i];
}

struct nam_op_counters
cost_spent(const struct cost_stage *stage)
{
	struct nam_op_counters spent = { 0 };

	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++) {
		nam_op_counters_add(&spent, &stage->worker->counters[kind]);
		counters_subtract(&spent, &stage->before[kind]);
	}
	return spent;
}

static void
compare(struct cost_stage *stage, const char *what, const char *figure, uint64_t is,
	uint64_t expected)
{
	if (is != expected)
		cost_fail(stage, "%s: %llu %s, not %llu", what, (unsigned long long)is, figure,
			(unsigned long long)expected);
}

void
cost_end(struct cost_stage *stage, enum nam_op_kind kind, const char *what,
	const struct cost *expected)
{
	uint64_t caps = stage->client->caps, ops, more = 0;
	struct nam_op_counters spent = cost_spent(stage);

	if (!(caps & NAM_CAP_ORDER_ATOMIC_READ))
		more += expected->locks;
	if (!(caps & NAM_CAP_ORDER_WRITE_ATOMIC))
		more += expected->releases;
	if (!(caps & NAM_CAP_ORDER_WRITES))
		more += expected->releases + expected->kept;
	compare(stage, what, "round trips", spent.round_trips, expected->round_trips + more);
	compare(stage, what, "doorbells", spent.doorbells,
		(expected->doorbells ? expected->doorbells : expected->round_trips) + more);
	compare(stage, what, "colocated READs", spent.colocated_reads, expected->colocated_reads);
	compare(stage, what, "colocated calls", spent.colocated_calls, expected->colocated_calls);
	if (expected->requests)
		compare(stage, what, "requests", spent.work_requests, expected->requests);
	if (expected->bytes_in || expected->bytes_out) {
		compare(stage, what, "bytes in", spent.bytes_in, expected->bytes_in);
		compare(stage, what, "bytes out", spent.bytes_out, expected->bytes_out);
	}
	ops = stage->worker->counters[kind].ops - stage->before[kind].ops;
	if (kind != NAM_OP_OTHER)
		compare(stage, what, "operations", ops, expected->ops ? expected->ops : 1);
	for (unsigned i = 0; i < NAM_OP_KINDS_COUNT; i++)
		if (i != kind && i != NAM_OP_OTHER)
			compare(stage, what, nam_op_kind_name((enum nam_op_kind)i),
				stage->worker->counters[i].round_trips,
				stage->before[i].round_trips);
}

/* ---- pairs -------------------------------------------------------------------------------- */

uint64_t
cost_key(const struct cost_stage *stage, uint64_t number, uint8_t *ret_key)
{
	memset(ret_key, 0, stage->options.key_bytes);
	nam_key_from_u64(10 * (number / (stage->pairs_of_a_key ? stage->pairs_of_a_key : 1)),
		ret_key);
	return number + 1;
}

int
cost_source(void *arg, void *key, uint64_t *payload)
{
	struct cost_stage *stage = arg;

	if (stage->supplied == stage->pairs)
		return NAM_INDEX_END;
	*payload = cost_key(stage, stage->supplied++, key);
	return NAM_INDEX_PAIR;
}

void
cost_warm(struct cost_stage *stage)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload;

	/* A leaf has more than ten. */
	for (uint64_t i = 0; i < stage->pairs; i += 10) {
		cost_key(stage, i, key);
		if (nam_index_lookup(stage->worker, stage->index, key, &payload))
			cost_fail(stage, "pair %llu is not there", (unsigned long long)i);
	}
}

void
cost_cache(struct cost_stage *stage)
{
	uint64_t round_trips;
	struct nam_gaddr at;

	do {
		round_trips = stage->worker->counters[NAM_OP_OTHER].round_trips;
		cost_expect(stage, "a block",
			nam_alloc(stage->worker, stage->index->g.stride, &at), 0);
	} while (stage->worker->counters[NAM_OP_OTHER].round_trips == round_trips &&
		 !stage->why[0]);
}

struct nam_index_stat
cost_stat(struct cost_stage *stage)
{
	struct nam_index_stat stat = { 0 };

	cost_expect(stage, "stat", nam_index_stat(stage->worker, stage->index, &stat), 0);
	return stat;
}

struct nam_worker *
cost_worker_new(struct cost_stage *stage)
{
	struct nam_worker *first = stage->worker;

	stage->worker = sim_worker(stage->client);
	if (!stage->worker)
		sim_die("no second worker");
	return first;
}

void
cost_worker_back(struct cost_stage *stage, struct nam_worker *first)
{
	nam_worker_close(stage->worker);
	stage->worker = first;
}

/* ---- the stage ---------------------------------------------------------------------------- */

static void
plant(struct cost_stage *stage)
{
	int rc = nam_index_create(stage->worker, COST_INDEX, &stage->options);

	if (!rc)
		rc = nam_index_open(stage->worker, COST_INDEX, stage->cache_bytes, &stage->index);
	stage->supplied = 0;
	if (!rc && stage->pairs)
		rc = nam_index_bulk_load(stage->worker, stage->index, cost_source, stage,
			stage->fill_percent, NULL);
	if (rc)
		sim_die("the index: %s", nam_worker_diag(stage->worker));
}

static void
client_main(void *arg)
{
	struct cost_stage *stage = arg;

	sim_cluster_await(&stage->cluster);
	stage->worker = sim_come(&stage->cluster, "cost", &stage->client);
	if (!stage->worker)
		sim_die("the client cannot come");
	plant(stage);
	stage->act(stage);
	nam_index_close(stage->index);
	sim_leave(&stage->client, &stage->worker);
	sim_cluster_stop(&stage->cluster);
}

void
cost_stage_init(struct cost_stage *stage, void (*act)(struct cost_stage *stage))
{
	memset(stage, 0, sizeof(*stage));
	nam_index_options_init(&stage->options);
	stage->cache_bytes = COST_CACHE_BYTES;
	stage->act = act;
}

static void
perform(struct cost_stage *stage)
{
	struct nam_sim_process *process;
	struct nam_sim_options options;
	int rc;

	nam_sim_options_init(&options);
	options.seed = 1;
	options.profile = stage->profile;
	options.step_bytes = 64;
	sim_cluster_begin(&options, &stage->cluster, stage->servers ? stage->servers : 1, 1,
		MEMORY_BYTES);
	if (nam_sim_process_start("client", client_main, stage, &process))
		sim_die("the client cannot be started");
	nam_sim_process_place(process, 0);
	for (uint32_t i = 0; i < stage->near; i++)
		nam_sim_process_place(stage->cluster.servers[i].process, 0);
	rc = nam_sim_run();
	if (rc)
		cost_fail(stage, "the run: %s", nam_err_name(rc));
	nam_sim_end();
}

void
cost_play(struct cost_stage *stage)
{
	stage->why[0] = '\0';
	for (unsigned i = 0; i < NAM_SIM_PROFILES_COUNT; i++) {
		stage->profile = (enum nam_sim_profile)i;
		perform(stage);
	}
	if (stage->why[0])
		fail_msg("%s", stage->why);
}
