/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c -- see scenario.h: the director, and the run as a whole. */
#include "scenario.h"

#include <stdarg.h>
#include <stdlib.h>

#include "points.h"
#include "stage.h"

void
sim_fail(struct sim_stage *stage, const char *format, ...)
{
	va_list args;

	if (stage->outcome->failed)
		return;
	stage->outcome->failed = true;
	va_start(args, format);
	(void)vsnprintf(stage->outcome->why, sizeof(stage->outcome->why), format, args);
	va_end(args);
}

/* ---- the director ------------------------------------------------------------------------- */

/* Every other key, one behind the other. */
static int
next_pair(void *arg, void *key, uint64_t *payload)
{
	struct sim_stage *stage = arg;
	uint64_t number = 2 * stage->loaded;

	if (number >= stage->scenario->keys)
		return NAM_INDEX_END;
	sim_key_from_number(stage->scenario, number, key);
	*payload = sim_payload_loaded(stage->scenario, number);
	stage->loaded++;
	if (stage->scenario->record)
		sim_history_load(stage->history, number, *payload);
	return NAM_INDEX_PAIR;
}

static void
load(struct sim_stage *stage, struct nam_worker *worker)
{
	struct nam_index *index = stage->actors[SIM_DIRECTOR].index;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload;
	int rc = 0;

	if (stage->scenario->bulk)
		rc = nam_index_bulk_load(worker, index, next_pair, stage, stage->scenario->bulk,
			NULL);
	else
		while (!rc && next_pair(stage, key, &payload))
			rc = nam_index_insert(worker, index, key, payload);
	if (rc)
		sim_die("loading: %s", nam_err_name(rc));
}

static void
create(struct sim_stage *stage, struct nam_worker *worker)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint8_t bounds[SIM_BOUNDS_BYTES];
	struct nam_index_options options;
	int rc;

	nam_index_options_init(&options);
	options.key_bytes = scenario->key_bytes;
	options.unique = !scenario->pairs;
	options.node_bytes = scenario->node_bytes;
	options.head_interval = scenario->head_interval;
	sim_design_set(scenario, scenario->keys, sim_key_from_number, bounds, &options);
	rc = nam_index_create(worker, SIM_INDEX, &options);
	if (rc)
		sim_die("creating the index: %s", nam_worker_diag(worker));
	if (!sim_actor_open(&stage->actors[SIM_DIRECTOR], worker))
		sim_die("the index cannot be opened");
	load(stage, worker);
}

/* All that the dice have made slow are as fast as ever. */
static void
speed_up(struct sim_stage *stage)
{
	for (uint32_t i = 0; stage->scenario->sim.faults.slow && i < stage->cluster.count; i++)
		nam_sim_process_slow(stage->cluster.servers[i].process, 1);
}

/* One memory server, the same one each time, becomes slow, or as fast as the others again. */
static void
slow_down(struct sim_stage *stage, uint32_t times)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint64_t number = scenario->sim.seed % scenario->servers;

	if (scenario->slow_server)
		nam_sim_process_slow(stage->cluster.servers[number].process, times);
}

/* Memory servers refuse room to trees of their own, whose callers can be told so. */
static void
refuse(const struct sim_stage *stage, bool now)
{
	if (sim_in_parts(stage->scenario))
		nam_sim_faults()->full = now ? stage->scenario->sim.faults.full : 0;
}

static void
director_main(void *arg)
{
	struct sim_stage *stage = arg;
	struct sim_actor *director = &stage->actors[SIM_DIRECTOR];
	struct nam_worker *worker;

	director->stage = stage;
	nam_sim_process_spare(nam_sim_self());
	sim_cluster_await(&stage->cluster);
	worker = sim_actor_connect(director, "director");
	if (!worker)
		sim_die("the director cannot connect");
	/* An address that memory has moved from leads clients nowhere. */
	if (stage->scenario->moves || stage->scenario->failovers || stage->scenario->lead_moves)
		(void)snprintf(stage->cluster.list, sizeof(stage->cluster.list), "%s",
			stage->cluster.servers[0].address);
	refuse(stage, false);
	create(stage, worker);
	if (stage->scenario->kv)
		sim_kv_begin(stage, worker);
	if (stage->scenario->spare)
		sim_memory_take(&stage->cluster, worker, director->index, stage->scenario->spare,
			&stage->ballast);
	slow_down(stage, stage->scenario->slow_server);
	for (uint32_t i = 0; i < stage->scenario->near && i < stage->cluster.count; i++)
		nam_sim_process_place(stage->cluster.servers[i].process, i);
	refuse(stage, true);
	sim_actors_start(stage);
	sim_actors_await(stage);
	refuse(stage, false);
	slow_down(stage, 1);
	speed_up(stage);
	sim_aftermath(stage, &worker);
	nam_index_close(director->index);
	nam_worker_close(worker);
	nam_client_close(director->client);
	stage->outcome->virtual_ns = nam_sim_now_ns();
	sim_cluster_stop(&stage->cluster);
}

/* ---- the run ------------------------------------------------------------------------------ */

struct sim_result
sim_scenario_run(const struct sim_scenario *scenario, struct sim_history *history)
{
	struct sim_result outcome = { .verified = "not", .counted = "not" };
	struct sim_stage stage = {
		.scenario = scenario,
		.outcome = &outcome,
		.history = history,
		.actors_count = 1,
		.planned = (uint64_t)scenario->clients * scenario->workers * scenario->fibers *
			scenario->ops,
	};

	stage.actors = calloc(1 + scenario->clients + SIM_COLLECTORS_MAX + 4 +
		scenario->stewards + scenario->kv, sizeof(*stage.actors));
	sim_history_init(&stage.kv.history);
	if (!stage.actors || nam_sim_begin(&scenario->sim))
		sim_die("the simulation cannot begin");
	sim_points_begin(scenario->sim.seed, scenario->kill_at);
	sim_fault_plan_plan(&stage);
	sim_cluster_start(&stage.cluster, scenario->servers, scenario->handlers,
		scenario->memory_bytes);
	sim_cluster_htm(&stage.cluster, scenario->sim.seed);
	stage.cluster.regions += sim_kv_onesided(scenario);
	stage.cluster.transport = scenario->transport;
	stage.cluster.frame_bytes = scenario->frame_bytes;
	stage.cluster.fetch_bytes = scenario->fetch_bytes;
	if (nam_sim_process_start("director", director_main, &stage, NULL))
		sim_die("cannot start the director");
	outcome.rc = nam_sim_run();
	if (outcome.rc)
		sim_fail(&stage, "the run: %s after %llu ns", nam_err_name(outcome.rc),
			(unsigned long long)nam_sim_now_ns());
	outcome.fingerprint = nam_sim_counted().fingerprint;
	outcome.counts = nam_sim_counted();
	outcome.collectors = stage.collectors;
	nam_sim_end();
	if (scenario->record && !outcome.rc)
		sim_aftermath_history(&stage);
	sim_history_free(&stage.kv.history);
	free(stage.kv.keys);
	free(stage.ballast.blocks);
	for (uint32_t i = 0; i < stage.cluster.count; i++)
		free(stage.ballast.private[i].blocks);
	free(stage.faults);
	free(stage.actors);
	return outcome;
}

struct sim_result
sim_scenario_once(const struct sim_scenario *scenario)
{
	struct sim_history history;
	struct sim_result outcome;

	sim_history_init(&history);
	outcome = sim_scenario_run(scenario, &history);
	sim_history_free(&history);
	return outcome;
}
