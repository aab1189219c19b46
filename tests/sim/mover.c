/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mover.c -- the memory of memory servers moves to other processes while clients are at work (C28).
 *
 * As an operator would do it: a successor is started, and after the move the process that has the
 * memory no more is ended.  The lead's role goes with its memory.
 */
#include "compute/admin.h"
#include "compute/view/lead.h"
#include "stage.h"

#define MOVE_PAUSE_NS 4000000u

/* Whether faults explain that a move fails: any death, and any delay. */
static bool
explained(const struct sim_stage *stage, int rc)
{
	struct nam_sim_counts counts = nam_sim_counted();

	if (sim_full_explained(stage, rc))
		return true;
	if (rc == -NAM_E_UNMOVABLE)
		return sim_kv_onesided(stage->scenario) || stage->scenario->lead_moves;
	if (!nam_err_is(rc, NAM_E_FABRIC) && rc != -NAM_E_VIEW && rc != -NAM_E_CLUSTER)
		return false;
	return counts.kills || counts.server_kills || counts.broken || counts.stalls ||
	       counts.slowed || stage->scenario->slow_server > 1 ||
	       stage->scenario->sim.slowness > 1;
}

static struct sim_server *
holder_of(struct sim_cluster *cluster, uint32_t id)
{
	for (uint32_t i = 0; i < cluster->count; i++)
		if (cluster->servers[i].id == id && sim_server_holds(&cluster->servers[i]))
			return &cluster->servers[i];
	return NULL;
}

static void
move(struct sim_actor *actor, struct sim_server *from, struct sim_server *to)
{
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_server_moved moved;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	stage->moving = true;
	rc = nam_server_move(&options, to->address, NULL, NULL, &moved, &diag);
	if (nam_sim_zombie())
		return;
	nam_sim_note("the memory of memory server %u moves: %s", to->id, nam_err_name(rc));
	stage->outcome->moved += !rc;
	stage->outcome->unmoved += rc != 0;
	if (rc && !explained(stage, rc))
		sim_fail(stage, "moving the memory of memory server %u: %s", to->id, diag.text);
	if (!rc && !moved.retired && !explained(stage, -NAM_E_FABRIC_TIMEOUT))
		sim_fail(stage, "the earlier process of memory server %u was not retired", to->id);
	to->had_memory = sim_server_holds(to);
	if (!rc && !to->had_memory)
		sim_fail(stage, "memory server %u is not where its memory has moved to", to->id);
	if (to->had_memory && !to->id)
		(void)snprintf(stage->cluster.list, sizeof(stage->cluster.list), "%s",
			to->address);
	sim_server_stop(to->had_memory ? from : to);
}

/* A failure is explained; or the process is a backup of its member from now on. */
static bool
back(struct sim_actor *actor, struct sim_server *to)
{
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_server_moved moved;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	rc = nam_server_back(&options, to->address, NULL, NULL, &moved, &diag);
	if (nam_sim_zombie())
		return false;
	nam_sim_note("memory server %u gets a backup: %s", to->id, nam_err_name(rc));
	if (!rc)
		return true;
	if (!explained(stage, rc))
		sim_fail(stage, "a backup of memory server %u: %s", to->id, diag.text);
	sim_server_stop(to);
	return false;
}

/* The process of a member is killed, and its first backup that lives gets its place. */
static void
succeed(struct sim_actor *actor, struct sim_server *from, struct sim_server *to)
{
	struct sim_stage *stage = actor->stage;
	char both[2 * sizeof(from->address) + 1];
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	to->had_memory = from->succeeded = true;
	/* From here on: without a promotion all others would wait, and no steward is there. */
	nam_sim_process_spare(actor->process);
	nam_sim_process_kill(from->process);
	/* The lead that has ended names no backup. */
	(void)snprintf(both, sizeof(both), "%s,%s", from->address, to->address);
	if (!to->id)
		options.cluster = both;
	rc = nam_server_promote(&options, to->id, &diag);
	if (nam_sim_zombie())
		return;
	if (!rc && !to->id)
		(void)snprintf(stage->cluster.list, sizeof(stage->cluster.list), "%s",
			to->address);
	nam_sim_note("its backup gets the place of memory server %u: %s", to->id,
		nam_err_name(rc));
	if (rc && !explained(stage, rc))
		sim_fail(stage, "promoting the backup of memory server %u: %s", to->id, diag.text);
	stage->outcome->promoted += !rc;
	from->succeeded = !rc;
}

/* The process of a member lives, and its first backup gets its place. */
static void
hand_over(struct sim_actor *actor, struct sim_server *from, struct sim_server *to)
{
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	to->had_memory = true;
	nam_sim_process_spare(actor->process);
	rc = nam__member_hand_over(&options, to->id, &diag);
	nam_sim_note("memory server %u passes its place on: %s", to->id, nam_err_name(rc));
	if (rc && !explained(stage, rc))
		sim_fail(stage, "handing over memory server %u: %s", to->id, diag.text);
	stage->outcome->promoted += !rc;
	if (!rc)
		sim_server_stop(from);
}

/* A backup is made in that process.  NULL: it is none. */
static struct sim_server *
backed_by(struct sim_actor *actor, struct sim_server *to)
{
	return !nam_sim_zombie() && back(actor, to) ? to : NULL;
}

/*
 * A member gets a backup, its process is killed, and the backup gets its place.  If it gets two,
 * the first one may be killed in the same instant, or once it has the place.
 */
static void
fail_over(struct sim_actor *actor, struct sim_server *from, struct sim_server *to)
{
	bool twice = actor->stage->scenario->replicas > 2 && to->id;
	struct sim_server *first = backed_by(actor, to), *other = NULL;

	if (first && twice)
		other = backed_by(actor, sim_cluster_successor(&actor->stage->cluster, to->id));
	nam_sleep_ns(1 + nam_sim_random() % MOVE_PAUSE_NS);
	if (!first || nam_sim_zombie())
		return;
	if (other && nam_sim_random() % 2) {
		first->had_memory = first->succeeded = true;
		nam_sim_process_spare(actor->process);
		nam_sim_process_kill(first->process);
		succeed(actor, from, other);
		return;
	}
	(twice && nam_sim_random() % 3 == 0 ? hand_over : succeed)(actor, from, first);
	if (!other || nam_sim_zombie())
		return;
	if (sim_server_holds(first) && sim_server_backs(other))
		succeed(actor, first, other);
	else
		sim_server_stop(other);
}

void
sim_mover(void *arg)
{
	struct sim_actor *actor = arg;
	struct sim_stage *stage = actor->stage;
	uint32_t servers = stage->scenario->servers, many = stage->scenario->moves +
		stage->scenario->failovers;

	for (uint32_t i = 0; i < many + stage->scenario->lead_moves; i++) {
		bool moves = i < stage->scenario->moves;
		uint32_t id = i < many ? moves + (uint32_t)(nam_sim_random() % (servers - moves)) :
			0;
		struct sim_server *from, *to;

		nam_sleep_ns(1 + nam_sim_random() % MOVE_PAUSE_NS);
		if (nam_sim_zombie())
			return;
		to = sim_cluster_successor(&stage->cluster, id);
		/* Clients on its machine reach it as they did. */
		if (id < stage->scenario->near && nam_sim_random() % 2)
			nam_sim_process_place(to->process, id);
		from = holder_of(&stage->cluster, id);
		if (nam_sim_zombie() || !from)
			return;
		(moves || i >= many ? move : fail_over)(actor, from, to);
	}
}
