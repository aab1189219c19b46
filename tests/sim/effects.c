/* SPDX-License-Identifier: Apache-2.0 */
/*
 * effects.c -- the verifier after a run, and which of its findings are explained by clients that
 * died at work or lost a queue pair.
 *
 * They leave locks: one for an operation, a few for a collector, and its word.  Only under such a
 * lock may an image be torn or half of a merge be missing.  Where the chain is torn, the walk along
 * its level ends.  So many separators may be late as splits have left to others, or could not see
 * to any more.  All else is as it must be after any run.
 */
#include <stdlib.h>
#include <string.h>

#include "index/index_internal.h"
#include "index/maintain/verify.h"
#include "stage.h"

struct finding {
	unsigned invariant;
	uint32_t region, level;
	unsigned long long offset;
	char text[400];
};

struct effects {
	struct sim_stage *stage;
	struct nam_worker *worker;
	struct finding *findings;
	uint32_t count, size;
	uint32_t locks;			/* of nodes that a walk comes to */
	uint32_t words;			/* of collectors */
	uint32_t torn, late;
	uint32_t names;			/* hybrid: that lead to no leaf, with no lock near */
};

static void
found(void *arg, unsigned invariant, const char *text)
{
	struct effects *effects = arg;
	struct finding *finding;

	nam_sim_note("violation of I%u: %s", invariant, text);
	if (effects->count == effects->size) {
		effects->size = effects->size ? 2 * effects->size : 16;
		effects->findings = realloc(effects->findings,
			effects->size * sizeof(*effects->findings));
		if (!effects->findings)
			abort();
	}
	finding = &effects->findings[effects->count++];
	*finding = (struct finding){ .invariant = invariant };
	(void)snprintf(finding->text, sizeof(finding->text), "%s", text);
	/* In a tree that a memory server checks itself; no death explains it. */
	if (invariant == NAM__I_SERVER_TREE)
		return;
	if (sscanf(text, "region %u offset %llu level %u", &finding->region, &finding->offset,
		    &finding->level) != 3)
		sim_die("the verifier names no place: %s", text);
}

/* Whether it is dead, or lost its connection. */
static bool
departed(const struct sim_actor *actor)
{
	return actor->troubled || !nam_sim_process_alive(actor->process);
}

/*
 * H3: the request of each departed session to remove a name may have failed.  A pass of the
 * collector removes all such names.
 */
static uint32_t
names_max(const struct sim_stage *stage)
{
	uint32_t most = 0;

	if (stage->scenario->design != NAM_DESIGN_HYBRID || stage->names_removed)
		return 0;
	for (uint32_t i = 1; i < stage->actors_count; i++)
		most += departed(&stage->actors[i]) ? stage->actors[i].sessions : 0;
	return most;
}

static bool
left_by(const struct sim_stage *stage, uint32_t owner, uint32_t incarnation)
{
	for (uint32_t i = 1; i < stage->actors_count; i++) {
		const struct sim_actor *actor = &stage->actors[i];

		if (actor->id == owner && actor->incarnation == incarnation)
			return departed(actor);
	}
	return false;
}

static bool
lock_explained(struct effects *effects, const struct finding *finding)
{
	const char *owner = strstr(finding->text, "client ");
	unsigned id, incarnation;

	if (!owner || sscanf(owner, "client %u, incarnation %u", &id, &incarnation) != 2)
		sim_die("the verifier names no owner: %s", finding->text);
	if (strstr(finding->text, "is collecting"))
		effects->words++;
	else
		effects->locks++;
	return left_by(effects->stage, id, incarnation);
}

/* The header of a node; zeroes: it cannot be READ. */
static struct nam_node_header
header_of(struct effects *effects, struct nam_gaddr at)
{
	struct nam_node_header *header = nam_buffer_take(effects->worker, sizeof(*header)), node;

	if (!header)
		abort();
	*header = (struct nam_node_header){ 0 };
	if (nam_read_await(effects->worker, at, header, sizeof(*header))) /* SUSPENDS */
		*header = (struct nam_node_header){ 0 };
	node = *header;
	nam_buffer_give(effects->worker, header, sizeof(*header));
	return node;
}

/* Whether the node there is locked; every such lock is looked at by itself. */
static bool
locked(struct effects *effects, uint32_t region, uint64_t offset)
{
	return nam_lock_held(header_of(effects, nam_gaddr_make((uint16_t)region, offset, 0)).lock);
}

/*
 * A separator names a node that has left the chain, or the chain passes it by: half a merge.  A
 * name of a hybrid index goes when the node is dead and unlocked: the node that it was merged into
 * is locked for longer.  If the request for that fails, the name stays (H3).
 */
static bool
stray_explained(struct effects *effects, const struct finding *finding)
{
	const char *child = strstr(finding->text, "a separator names ");
	struct nam_node_header node;
	unsigned long long offset;
	unsigned region;

	if (!child || sscanf(child, "a separator names region %u offset %llu", &region,
			&offset) != 2)
		return false;
	node = header_of(effects, nam_gaddr_make((uint16_t)region, offset, 0));
	if (nam__node_dead(&node.lock))
		node = header_of(effects, nam_gaddr_untagged(NAM_GADDR(node.sibling)));
	if (nam_lock_held(node.lock))
		return true;
	if (effects->names == names_max(effects->stage))
		return false;
	effects->names++;
	return true;
}

/* Once the walk has come to a torn image, what it meets next need not fit. */
static bool
after_torn(const struct effects *effects, const struct finding *finding)
{
	for (const struct finding *f = effects->findings; f < finding; f++)
		if (f->invariant == NAM__I_WHOLE && f->level == finding->level)
			return true;
	return false;
}

/* C32: a client died together with that member, so its lock is free at the backup. */
static bool
succeeded(const struct effects *effects, uint32_t region)
{
	const struct sim_cluster *cluster = &effects->stage->cluster;

	for (uint32_t i = 0; i < cluster->count; i++)
		if (cluster->servers[i].succeeded &&
			cluster->servers[i].id == region / NAM_REGIONS_PER_SERVER)
			return true;
	return false;
}

static bool
explained(struct effects *effects, const struct finding *finding)
{
	switch (finding->invariant) {
	case NAM__I_UNLOCKED:
		return lock_explained(effects, finding);
	case NAM__I_NAMED:
	case NAM__I_SERVER_TREE:
	case NAM__I_SUPERBLOCK:
		return false;
	case NAM__I_WHOLE:
		effects->torn++;
		if (succeeded(effects, finding->region))
			return true;
		break;
	case NAM__I_PARENT:
		if (stray_explained(effects, finding))
			return true;
		break;
	case NAM__I_CHAIN:
	case NAM__I_HEAD:
		if (after_torn(effects, finding))
			return true;
		break;
	default:
		break;
	}
	return locked(effects, finding->region, finding->offset);
}

/* The locks that all departed clients can have held. */
static uint32_t
locks_max(const struct sim_stage *stage)
{
	uint32_t each = stage->scenario->collects ? SIM_COLLECTORS_LOCKS : SIM_SESSIONS_LOCKS;
	uint32_t most = 0;

	for (uint32_t i = 1; i < stage->actors_count; i++)
		if (departed(&stage->actors[i]))
			most += i > stage->scenario->clients ? SIM_COLLECTORS_LOCKS :
				each * stage->actors[i].sessions;
	return most;
}

static void
check(struct effects *effects)
{
	struct sim_stage *stage = effects->stage;
	uint64_t late_most = stage->repaired ? 0 : sim_losses_late(stage);

	for (uint32_t i = 0; i < effects->count; i++) {
		const struct finding *finding = &effects->findings[i];

		/* A separator is late if the splitter has left it to others. */
		if (finding->invariant == NAM__I_NAMED && ++effects->late <= late_most)
			continue;
		if (!sim_disturbed(stage) || !explained(effects, finding))
			sim_fail(stage, "I%u: %s", finding->invariant, finding->text);
	}
	if (effects->locks > locks_max(stage))
		sim_fail(stage, "%u nodes are locked; those that can have left locks held %u",
			effects->locks, locks_max(stage));
	if (effects->words > 1)
		sim_fail(stage, "%u collectors' words", effects->words);
}

void
sim_effects_stray(struct sim_stage *stage, struct nam_worker *worker)
{
	struct sim_actor *director = &stage->actors[SIM_DIRECTOR];
	struct nam_gaddr root;
	unsigned level;
	uint64_t seen;
	int rc;

	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__root_find(worker, director->index, &root, &level); /* SUSPENDS */
	nam__op_end(worker);
	if (!rc)
		rc = nam_cas_await(worker, nam_gaddr_untagged(root), NAM_LOCK_FREE,
			nam_lock_word((uint16_t)director->id, (uint16_t)director->incarnation, 1),
			&seen); /* SUSPENDS */
	/* It may be locked by a dead client. */
	stage->outcome->strayed = !rc && seen == NAM_LOCK_FREE;
	if (rc && !sim_disturbed(stage))
		sim_die("there is no root to lock: %s", nam_err_name(rc));
}

void
sim_effects_verify(struct sim_stage *stage, struct nam_worker *worker)
{
	struct sim_result *outcome = stage->outcome;
	struct effects effects = { .stage = stage, .worker = worker };
	int rc = nam_index_verify(worker, stage->actors[SIM_DIRECTOR].index, found, &effects,
		&outcome->violations);

	check(&effects);
	outcome->late += effects.late;
	stage->names = effects.names;
	if (rc) {
		if (!nam_err_is(rc, NAM_E_FABRIC) || !sim_servers_dead(&stage->cluster))
			sim_fail(stage, "the verifier: %s", nam_err_name(rc));
		(void)snprintf(outcome->verified, sizeof(outcome->verified),
			"up to the first node on a dead server");
	} else if (!sim_disturbed(stage)) {
		(void)snprintf(outcome->verified, sizeof(outcome->verified), "whole");
	} else {
		(void)snprintf(outcome->verified, sizeof(outcome->verified),
			"but for %u locks left, %u torn nodes, %u late separators", effects.locks,
			effects.torn, effects.late);
	}
	free(effects.findings);
}
