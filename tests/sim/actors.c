/* SPDX-License-Identifier: Apache-2.0 */
/* actors.c -- the processes of a scenario beside director and memory servers. */
#include <stdlib.h>

#include "compute/admin.h"
#include "compute/worker/worker.h"
#include "stage.h"

#define POLL_NS 200000u
#define COLLECT_PAUSE_NS 100000u
#define SETTLE_NS 50000000u
#define ADD_PAUSE_NS 2000000u

struct nam_worker *
sim_actor_connect(struct sim_actor *actor, const char *name)
{
	struct sim_cluster cluster = actor->stage->cluster;

	if (actor->transport)
		cluster.transport = actor->transport;
	actor->client = sim_client(&cluster, name);
	if (!actor->client) {
		actor->troubled = true;
		return NULL;
	}
	actor->id = actor->client->id;
	actor->incarnation = actor->client->incarnation;
	return sim_worker(actor->client);
}

void
sim_actor_close(struct sim_actor *actor, struct nam_worker *worker)
{
	sim_losses_worker(actor, worker);
	nam_worker_close(worker);
}

void
sim_actor_leave(struct sim_actor *actor, struct nam_worker *worker)
{
	struct nam_client *client = actor->client;

	if (worker)
		sim_actor_close(actor, worker);
	if (!client)
		return;
	sim_losses_client(actor);
	/* If it dies as it leaves there is nothing to be seen there any more. */
	actor->client = NULL;
	nam_client_close(client);
}

bool
sim_actor_open(struct sim_actor *actor, struct nam_worker *worker)
{
	int rc = nam_index_open(worker, SIM_INDEX, actor->stage->scenario->cache_bytes,
		&actor->index);

	if (!rc)
		return true;
	if (!nam_sim_zombie() && !sim_explained(actor, rc))
		sim_fail(actor->stage, "opening the index: %s", nam_err_name(rc));
	return false;
}

/* ---- clients ------------------------------------------------------------------------------ */

static void
work(struct sim_actor *actor, struct nam_worker *worker)
{
	uint32_t fibers = actor->stage->scenario->fibers;
	struct sim_session *sessions = calloc(fibers, sizeof(*sessions));

	if (!sessions)
		abort();
	for (uint32_t i = 0; i < fibers; i++) {
		sessions[i].actor = actor;
		sessions[i].worker = worker;
		sessions[i].rng = nam_rng_seed(nam_sim_random());
		sessions[i].number = actor->number << 16 | ++actor->sessions;
		if (nam_worker_spawn(worker, sim_session_main, &sessions[i]))
			sim_die("cannot spawn a fiber");
	}
	nam_worker_run(worker);
	free(sessions);
}

static void
thread_main(void *arg)
{
	struct sim_actor *actor = arg;
	struct nam_worker *worker = sim_worker(actor->client);

	if (!worker)
		return;
	work(actor, worker);
	sim_actor_close(actor, worker);
}

static void
client_main(void *arg)
{
	struct sim_actor *actor = arg;
	uint32_t count = actor->stage->scenario->workers - 1, started = 0;
	struct nam_thread **threads = calloc(count + 1, sizeof(*threads));
	struct nam_worker *worker = sim_actor_connect(actor, "client");

	if (!threads)
		abort();
	if (!worker || !sim_actor_open(actor, worker))
		goto leave;
	for (; started < count; started++)
		if (nam_thread_start("worker", thread_main, actor, &threads[started]))
			sim_die("cannot start a thread");
	work(actor, worker);
	for (uint32_t i = 0; i < started; i++)
		nam_thread_join(threads[i]);
	nam_index_close(actor->index);
leave:
	sim_actor_leave(actor, worker);
	free(threads);
}

/* ---- the collector ------------------------------------------------------------------------ */

static void
collector_main(void *arg)
{
	struct sim_actor *actor = arg;
	struct nam_worker *worker = sim_actor_connect(actor, "collector");
	int rc = 0;

	actor->sessions = 1;
	if (!worker || !sim_actor_open(actor, worker))
		goto leave;
	while (!actor->stage->leaving && !nam_sim_zombie() && !nam_err_is(rc, NAM_E_FABRIC) &&
		!nam_err_is(rc, NAM_E_FENCED)) {
		rc = sim_collect(actor, worker);
		nam_sleep_ns(COLLECT_PAUSE_NS);
	}
	nam_index_close(actor->index);
leave:
	sim_actor_leave(actor, worker);
}

/* ---- memory servers that come ---------------------------------------------------------------- */

/* Until it is a member, as far as no death or stall explains that it is not. */
static void
add(struct sim_actor *actor, const struct sim_server *server)
{
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_server_added added;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	rc = nam_server_add(&options, server->address, NULL, NULL, &added, &diag);
	if (!rc)
		stage->outcome->added++;
	else if (!nam_sim_zombie() && !sim_explained(actor, rc))
		sim_fail(stage, "adding a memory server: %s", diag.text);
}

static void
adder_main(void *arg)
{
	struct sim_actor *actor = arg;
	struct sim_stage *stage = actor->stage;
	uint32_t id = stage->scenario->servers;

	for (uint32_t i = 0; i < stage->scenario->add; i++) {
		nam_sleep_ns(1 + nam_sim_random() % ADD_PAUSE_NS);
		if (nam_sim_zombie())
			return;
		add(actor, sim_cluster_add(&stage->cluster, id + i));
	}
}

/* ---- all of them -------------------------------------------------------------------------- */

static struct sim_actor *
start(struct sim_stage *stage, const char *name, nam_thread_fn fn)
{
	struct sim_actor *actor = &stage->actors[stage->actors_count];

	actor->stage = stage;
	actor->number = stage->actors_count;
	if (nam_sim_process_start(name, fn, actor, &actor->process))
		sim_die("cannot start a %s", name);
	stage->actors_count++;
	return actor;
}

static void
start_collector(struct sim_stage *stage)
{
	stage->collector = start(stage, "collector", collector_main);
	stage->collectors++;
}

void
sim_actors_start(struct sim_stage *stage)
{
	const struct sim_scenario *scenario = stage->scenario;

	for (uint32_t i = 0; i < scenario->clients; i++) {
		struct sim_actor *actor = start(stage, "client", client_main);

		if (i < scenario->near)
			nam_sim_process_place(actor->process, i % scenario->servers);
	}
	if (scenario->collector)
		start_collector(stage);
	if (scenario->temporary) {
		(void)start(stage, "maker", sim_temporary_maker);
		(void)start(stage, "visitor", sim_temporary_visitor);
	}
	for (uint32_t i = 0; i < scenario->kv; i++)
		(void)start(stage, "kv", sim_kv_client);
	if (scenario->add)
		(void)start(stage, "adder", adder_main);
	if (scenario->moves || scenario->failovers || scenario->lead_moves)
		(void)start(stage, "mover", sim_mover);
	for (uint32_t i = 0; i < scenario->stewards; i++)
		(void)start(stage, "steward", sim_steward);
}

/* As an operator would: one that has died, or has lost a memory server, is replaced. */
static void
look_after(struct sim_stage *stage)
{
	if (stage->collector && nam_sim_process_ended(stage->collector->process) &&
		stage->collectors < SIM_COLLECTORS_MAX && !sim_servers_dead(&stage->cluster))
		start_collector(stage);
}

void
sim_actors_await(struct sim_stage *stage)
{
	for (uint32_t i = 1; i <= stage->scenario->clients; i++)
		while (!nam_sim_process_ended(stage->actors[i].process)) {
			look_after(stage);
			nam_sleep_ns(POLL_NS);
		}
	stage->leaving = true;
	for (uint32_t i = 1; i < stage->actors_count; i++)
		while (!nam_sim_process_ended(stage->actors[i].process))
			nam_sleep_ns(POLL_NS);
	/* Requests of dead processes that were under way arrive. */
	nam_sleep_ns(SETTLE_NS);
}
