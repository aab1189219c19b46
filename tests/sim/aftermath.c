/* SPDX-License-Identifier: Apache-2.0 */
/* aftermath.c -- what is looked at after a run: contents, memory, and what clients were told. */
#include <errno.h>

#include "compute/remote/epoch.h"
#include "index/maintain.h"
#include "txn/sweep.h"
#include "linearizable.h"
#include "scan_check.h"
#include "stage.h"

#define RECOVERY_PASSES 20u
#define RECOVERY_PAUSE_NS 20000000u
#define SWEEP_PAUSE_NS 200000000u	/* for all ends to be known */

/*
 * The contents, as one more scan of the history.  If dead clients have left something that cannot
 * be read, key by key, so that all the others are known even so.
 */
static void
check_contents(struct sim_stage *stage, struct nam_worker *worker)
{
	struct sim_range everything = { .has_low = false };
	struct sim_session session = {
		.actor = &stage->actors[SIM_DIRECTOR],
		.worker = worker,
		.number = 1,
	};
	uint32_t count = 0, keys = stage->scenario->keys;
	int rc = sim_do_scan(&session, &everything, 2 * sim_pairs_most(stage->scenario, keys) + 1,
		&count);

	stage->outcome->entries = count;
	if (!rc)
		return;
	/* A tree that a memory server changes itself has no half-done changes. */
	if (!sim_disturbed(stage) ||
		(!sim_one_sided(stage->scenario) && !sim_servers_dead(&stage->cluster))) {
		sim_fail(stage, "the last scan: %s", nam_err_name(rc));
		return;
	}
	stage->outcome->entries = 0;
	for (uint64_t key = 0; key < keys; key++) {
		rc = sim_do_point(&session, SIM_LOOKUP, key);
		if (!rc)
			stage->outcome->entries++;
		else if (rc != -NAM_E_NOTFOUND)
			stage->outcome->unreadable++;
		if (rc && rc != -NAM_E_NOTFOUND && !sim_explained(session.actor, rc))
			sim_fail(stage, "the last lookup of key %llu: %s",
				(unsigned long long)key, nam_err_name(rc));
	}
}

static void
delete_all(struct sim_stage *stage, struct nam_worker *worker)
{
	struct nam_index *index = stage->actors[SIM_DIRECTOR].index;
	uint8_t key[NAM_KEY_BYTES_MAX];
	int rc;

	for (uint64_t i = 0; i < sim_pairs_most(stage->scenario, stage->scenario->keys); i++) {
		sim_key_from_number(stage->scenario,
			stage->scenario->pairs ? i / SIM_PAYLOADS : i, key);
		rc = stage->scenario->pairs ?
			nam_index_delete_pair(worker, index, key, 1 + i % SIM_PAYLOADS) :
			nam_index_delete(worker, index, key);
		if (rc && rc != -NAM_E_NOTFOUND)
			sim_fail(stage, "deleting all: %s", nam_err_name(rc));
	}
}

/*
 * Where memory was scarce: once everything is deleted and collected, there is room for half of what
 * there was.  (Not for all: leaves that are filled anew may be fuller or emptier than they were.)
 */
static void
recover(struct sim_stage *stage, struct nam_worker *worker)
{
	struct sim_actor *director = &stage->actors[SIM_DIRECTOR];
	uint64_t half = stage->outcome->entries / 2, keys = stage->scenario->keys;
	/* Memory servers that search have each the room that they had. */
	bool spread = !sim_one_sided(stage->scenario) && half && half < keys;
	uint8_t key[NAM_KEY_BYTES_MAX];
	int rc;

	delete_all(stage, worker);
	for (uint32_t i = 0; i < RECOVERY_PASSES; i++) {
		(void)sim_collect(director, worker);
		nam_sleep_ns(RECOVERY_PAUSE_NS);
	}
	for (uint64_t number = 0; number < half; number++) {
		sim_key_from_number(stage->scenario, spread ? number * keys / half : number, key);
		rc = nam_index_insert(worker, director->index, key, number);
		if (rc)
			sim_fail(stage, "inserting %llu of %llu once there was room: %s",
				(unsigned long long)number,
				(unsigned long long)stage->outcome->entries, nam_err_name(rc));
	}
	sim_effects_verify(stage, worker);
}

/*
 * Nodes that were divided without memory for a parent, or while others kept the parent locked for
 * too long.  Now a pass of the collector names them all.
 */
static void
repair(struct sim_stage *stage, struct nam_worker *worker)
{
	int rc = sim_collect(&stage->actors[SIM_DIRECTOR], worker);

	if (rc)
		sim_fail(stage, "a pass for what was left: %s", nam_err_name(rc));
	stage->repaired = true;
	sim_effects_verify(stage, worker);
}

/* H3: a pass of the collector removes the names that failed requests left. */
static void
remove_names(struct sim_stage *stage, struct nam_worker *worker)
{
	/* One that is about to end may have the collector's word. */
	nam_sleep_ns(SWEEP_PAUSE_NS);
	(void)sim_collect(&stage->actors[SIM_DIRECTOR], worker);
	stage->names_removed = true;
	sim_effects_verify(stage, worker);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
say_counted(struct sim_result *outcome, const char *what)
{
	(void)snprintf(outcome->counted, sizeof(outcome->counted), "%s", what);
}

/*
 * The trees that memory servers keep: those of the index, as it was walked.  There are others only
 * if their maker was kept from dropping them.
 */
static void
check_trees(struct sim_stage *stage, struct sim_memory *memory)
{
	struct sim_trees trees;

	sim_trees_count(stage, &trees);
	if (trees.index_nodes != memory->served_nodes)
		sim_fail(stage, "the trees of the index have %llu nodes, and a walk came to %llu",
			(unsigned long long)trees.index_nodes,
			(unsigned long long)memory->served_nodes);
	if (trees.dropped)
		sim_fail(stage, "%u trees that were dropped are not freed", trees.dropped);
	if (trees.nameless_bytes > 0 && !sim_losses_nameless(stage))
		sim_fail(stage, "%u trees that no name leads to, %llu bytes", trees.nameless,
			(unsigned long long)trees.nameless_bytes);
	memory->reached_bytes += trees.kept_bytes + trees.nameless_bytes;
}

/* Whether all that dead clients had is free: only the director is left. */
static bool
sweep_all(struct sim_stage *stage, struct nam_worker *worker)
{
	struct nam_sweep_stat stat;
	int rc;

	/* Ends take a while to be known. */
	nam_sleep_ns(SWEEP_PAUSE_NS);
	rc = nam_sweep(worker, false, &stat);
	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT && !sim_disturbed(stage))
		sim_fail(stage, "the last sweep: %s (last said: %s)", nam_err_name(rc),
			nam_worker_diag(worker));
	stage->outcome->swept += rc ? 0 : stat.freed.blocks;
	return !rc;
}

/*
 * Every block is in the index, free, or known to be given up; and never two of these.  With sweeps
 * those that were given up, or were lost with the dead, may be free.
 */
static void
check_memory(struct sim_stage *stage, struct nam_worker *worker)
{
	const struct sim_scenario *scenario = stage->scenario;
	bool swept = scenario->sweeps && sweep_all(stage, worker);
	struct sim_result *outcome = stage->outcome;
	struct sim_memory memory;
	struct sim_losses losses;
	int64_t least, most;
	int rc = sim_memory_count(worker, stage->actors[SIM_DIRECTOR].index, &memory);

	if (rc) {
		if (!sim_disturbed(stage))
			sim_fail(stage, "counting blocks: %s", nam_err_name(rc));
		say_counted(outcome, "not: part of the index cannot be read");
		return;
	}
	if (sim_in_parts(stage->scenario))
		check_trees(stage, &memory);
	losses = sim_losses(stage);
	least = (int64_t)(losses.least / memory.stride);
	most = (int64_t)((losses.most + memory.stride - 1) / memory.stride);
	outcome->given_up = stage->given_up / memory.stride;
	outcome->lost = sim_memory_lost(&memory, stage->given_up);
	if (scenario->sweeps)
		least = -(int64_t)((stage->given_up + memory.stride - 1) / memory.stride);
	/* C26: a dead collector's merge was completed; and the director's nodes stay. */
	if (swept && !scenario->temporary && !scenario->kv)
		most = (int64_t)((nam__limbo_bytes(worker) + losses.others) / memory.stride);
	/* A backup does not hear of blocks that come back, so these stay used. */
	if (outcome->promoted || stage->scenario->lead_moves)
		most = (int64_t)(memory.out_bytes / memory.stride);
	if (most)
		(void)snprintf(outcome->counted, sizeof(outcome->counted),
			"%lld lost with the dead, which had %lld to %lld",
			(long long)outcome->lost, (long long)least, (long long)most);
	else
		say_counted(outcome, "all");
	if (outcome->lost < 0 && outcome->lost < least)
		sim_fail(stage, "leak: %lld blocks are free and in the index",
			(long long)-outcome->lost);
	else if (outcome->lost < least)
		sim_fail(stage, "leak: the dead had %lld blocks, of which %lld are in use again",
			(long long)least, (long long)(least - outcome->lost));
	else if (outcome->lost > most)
		sim_fail(stage, "leak: %lld blocks are neither in the index nor free%s",
			(long long)(outcome->lost - most), most ? ", nor lost with the dead" : "");
}

/* The worker that has worked gives back what it had in a block cache; another one counts. */
static struct nam_worker *
replace_worker(struct sim_stage *stage, struct nam_worker *worker)
{
	struct sim_actor *director = &stage->actors[SIM_DIRECTOR];

	sim_memory_lose(worker, director->index, stage->scenario->leaks);
	sim_actor_close(director, worker);
	stage->given_up += sim_memory_given_up(director->client);
	worker = sim_worker(director->client);
	if (!worker)
		sim_die("the director cannot connect again");
	return worker;
}

/* ---- all ---------------------------------------------------------------------------------- */

void
sim_aftermath(struct sim_stage *stage, struct nam_worker **worker)
{
	struct sim_actor *director = &stage->actors[SIM_DIRECTOR];

	if (stage->scenario->kv)
		sim_kv_end(stage, *worker);
	if (stage->scenario->temporary)
		sim_temporary_clear(director, *worker);
	if (stage->scenario->stray)
		sim_effects_stray(stage, *worker);
	sim_effects_verify(stage, *worker);
	check_contents(stage, *worker);
	if (sim_servers_dead(&stage->cluster)) {
		say_counted(stage->outcome, "not: a memory server is dead");
		return;
	}
	if (stage->names)
		remove_names(stage, *worker);
	if (stage->scenario->spare && !stage->given_up && !sim_disturbed(stage))
		recover(stage, *worker);
	sim_memory_give(&stage->cluster, *worker, director->index, &stage->ballast);
	if ((stage->scenario->spare || stage->outcome->late) && !sim_disturbed(stage))
		repair(stage, *worker);
	*worker = replace_worker(stage, *worker);
	check_memory(stage, *worker);
}

void
sim_aftermath_history(struct sim_stage *stage)
{
	struct sim_findings findings = sim_findings_to(stage->scenario->findings);
	struct sim_linearizable_options options;

	sim_linearizable_options_init(&options);
	options.unique = !stage->scenario->pairs;
	sim_check_scans(stage->history, options.unique, &findings);
	sim_check_linearizable(stage->history, &options, &findings);
	if (stage->scenario->kv)
		sim_kv_history(stage, &findings);
	stage->outcome->contradictions = findings.violations;
	stage->outcome->undecided = findings.undecided;
	if (findings.violations)
		sim_fail(stage, "the history contradicts itself in %llu places",
			(unsigned long long)findings.violations);
}
