/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_plan.c -- faults of processes that a run plans, and the codes that they explain.
 *
 * The simulator draws faults with a rate, message by message.  Here are those of which there
 * shall be so many in a run, each after some operation that is drawn.
 */
#include <stdlib.h>

#include "stage.h"

#define DELAY_NS 30000u

enum fault_kind { KILL_CLIENT, KILL_SERVER, STALL };

static void
resume(void *arg)
{
	nam_sim_process_resume(arg);
}

static struct nam_sim_process *
victim_choose(const struct sim_stage *stage, uint32_t kind)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint64_t dice = nam_sim_random();

	if (kind == KILL_SERVER)
		/* Of those that come later, only a successor. */
		return stage->cluster.servers[dice % (scenario->moves && !scenario->add ?
			stage->cluster.count : scenario->servers)].process;
	return stage->actors[1 + dice % (stage->actors_count - 1)].process;
}

static void
inject(void *arg)
{
	struct sim_stage *stage = arg;
	uint32_t kind = stage->faults[stage->faults_next++].kind;
	struct nam_sim_process *victim = victim_choose(stage, kind);

	if (nam_sim_process_ended(victim))
		return;
	if (kind != STALL) {
		nam_sim_process_kill(victim);
		return;
	}
	nam_sim_process_stall(victim);
	nam_sim_call_after(1 + nam_sim_random() % stage->scenario->sim.faults.stall_ns, resume,
		victim);
}

void
sim_fault_plan_tick(struct sim_stage *stage)
{
	uint32_t *planned = &stage->faults_planned;

	stage->called++;
	for (; *planned < stage->faults_count &&
		stage->faults[*planned].at <= stage->called; ++*planned)
		nam_sim_call_after(nam_sim_random() % DELAY_NS, inject, stage);
}

static int
compare_times(const void *a, const void *b)
{
	const struct sim_planned_fault *left = a, *right = b;

	return left->at < right->at ? -1 : left->at > right->at;
}

void
sim_fault_plan_plan(struct sim_stage *stage)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint32_t count = scenario->kills + scenario->server_kills + scenario->stalls;

	stage->faults = calloc(count + 1, sizeof(stage->faults[0]));
	if (!stage->faults)
		abort();
	stage->faults_count = count;
	for (uint32_t i = 0; i < count; i++) {
		stage->faults[i].at = 1 + nam_sim_random() % stage->planned;
		stage->faults[i].kind = i < scenario->kills ? KILL_CLIENT :
			i < scenario->kills + scenario->server_kills ? KILL_SERVER : STALL;
	}
	qsort(stage->faults, count, sizeof(stage->faults[0]), compare_times);
}

bool
sim_disturbed(const struct sim_stage *stage)
{
	struct nam_sim_counts counts = nam_sim_counted();

	return counts.kills || counts.broken || sim_servers_dead(&stage->cluster);
}

bool
sim_lock_may_stay(const struct sim_stage *stage)
{
	return stage->scenario->spare || stage->scenario->sim.faults.full;
}

/* Whether a client that lives may have ended operations half-way. */
static bool
cut_off(const struct sim_stage *stage)
{
	return nam_sim_counted().broken || sim_servers_dead(&stage->cluster);
}

/* Whether a client may hold a lock for long, or a node stay torn before its reader. */
static bool
late(const struct sim_stage *stage)
{
	struct nam_sim_counts counts = nam_sim_counted();

	/* One that holds a lock may wait for the end of a move. */
	return cut_off(stage) || stage->moving || counts.stalls || counts.slowed ||
	       stage->scenario->slow_server > 1 || stage->scenario->sim.slowness > 1;
}

bool
sim_explained(struct sim_actor *actor, int rc)
{
	/* A server may be so slow that it seems not to answer. */
	bool waited = nam_err_is(rc, NAM_E_FABRIC_TIMEOUT);

	if (nam_err_is(rc, NAM_E_RESTART) || nam_err_is(rc, NAM_E_LOCK_TIMEOUT))
		return late(actor->stage);
	/* The dead leave no locks in trees that memory servers change. */
	if (nam_err_is(rc, NAM_E_LOCK_ORPHANED))
		return sim_one_sided(actor->stage->scenario) && sim_disturbed(actor->stage) &&
		       sim_lock_may_stay(actor->stage);
	if (!nam_err_is(rc, NAM_E_FABRIC) && !nam_err_is(rc, NAM_E_FENCED))
		return false;
	if (!actor->troubled)
		nam_sim_note("actor %u is troubled by %s", actor->number,
			nam_err_name(rc));
	actor->troubled = true;
	return waited || cut_off(actor->stage);
}

bool
sim_full_explained(const struct sim_stage *stage, int rc)
{
	if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
		return false;
	if (stage->scenario->spare || stage->scenario->sim.faults.full)
		return true;
	/* A memory server that is dead has blocks of the index, and ends no round of reclaim. */
	if (stage->scenario->temporary && sim_servers_dead(&stage->cluster))
		return true;
	/* A wait for a dead client's lock delays the reuse of blocks dropped meanwhile. */
	return sim_one_sided(stage->scenario) && stage->scenario->temporary &&
	       sim_disturbed(stage) && sim_losses_explain_full(stage);
}
