/* SPDX-License-Identifier: Apache-2.0 */
/* life.c -- the life of a simulation: options, race points, begin, processes, end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/register.h"
#include "common/race.h"
#include "sim_internal.h"

/* ---- race points -------------------------------------------------------------------------- */

static void __attribute__((unused))
race_point(const char *name)
{
	struct sim *sim = &nam__sim;

	if (!sim->current || !sim->current->process)
		return;
	SIM_EVENT(SIM_WHAT_RACE, sim->current->id, strlen(name), "race point %s", name);
	if (sim->on_race)
		sim->on_race(name);
	if (nam__sim_drawn(sim->current->process, sim->options.faults.race))
		nam__sim_pause("race", name);
}

static bool __attribute__((unused))
fault_point(const char *name)
{
	struct sim *sim = &nam__sim;

	if (!sim->current || !sim->current->process ||
		!nam__sim_drawn(sim->current->process, sim->options.faults.full))
		return false;
	sim->counts.full++;
	SIM_EVENT(SIM_WHAT_FAULT, sim->current->id, strlen(name), "fault full: %s", name);
	return true;
}

void
nam_sim_on_race(void (*fn)(const char *name))
{
	nam__sim.on_race = fn;
}

/* ---- life --------------------------------------------------------------------------------- */

void
nam_sim_options_init(struct nam_sim_options *options)
{
	*options = (struct nam_sim_options){
		.seed = 1,
		.profile = NAM_SIM_VERBS,
		.step_bytes = 64,
		.slowness = 1,
		.limit_ns = 3600ull * 1000000000,
		.faults = {
			.late_ns = 200000,
			.pause_ns = 50000,
			.stall_ns = 40000000,
			.detect_ns = 2000000,
		},
	};
}

static const struct {
	const char *name;
	uint32_t caps;
} profiles[NAM_SIM_PROFILES_COUNT] = {
	[NAM_SIM_STRICT] = { "strict", NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ |
		NAM_CAP_WORD8_ATOMIC | NAM_CAP_ATOMIC_VS_CPU | NAM_CAP_ORDERED_LOADS |
		NAM_CAP_RPC_SRQ | NAM_CAP_LASTING | NAM_CAP_READER_SHARE | NAM_CAP_ORDER_WRITES },
	[NAM_SIM_VERBS] = { "verbs", NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ |
		NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ | NAM_CAP_UD | NAM_CAP_ORDER_WRITES },
	[NAM_SIM_WEAK] = { "weak", NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ | NAM_CAP_UD },
	[NAM_SIM_ROUTED] = { "routed", NAM_CAP_ORDER_WRITE_ATOMIC | NAM_CAP_ORDER_ATOMIC_READ |
		NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ | NAM_CAP_UD },
};

const char *
nam_sim_profile_name(unsigned profile)
{
	return profile < NAM_SIM_PROFILES_COUNT ? profiles[profile].name : NULL;
}

uint32_t
nam_sim_profile_caps(unsigned profile)
{
	return profile < NAM_SIM_PROFILES_COUNT ? profiles[profile].caps : 0;
}

/* Beyond its bits a profile promises an order of WRITEs: see the README. */
static void
rules(struct sim *sim)
{
	bool in_order = sim->options.profile != NAM_SIM_WEAK;

	sim->caps = nam_sim_profile_caps(sim->options.profile);
	for (unsigned b = 0; b < SIM_CLASSES; b++)
		sim->order[SIM_SEND][b] = true;
	sim->order[SIM_WRITE][SIM_WRITE] = sim->caps & NAM_CAP_ORDER_WRITES;
	sim->order[SIM_WRITE][SIM_SEND] = in_order;
	sim->order[SIM_WRITE][SIM_READ] = in_order;
	sim->order[SIM_WRITE][SIM_ATOMIC] = sim->caps & NAM_CAP_ORDER_WRITE_ATOMIC;
	sim->order[SIM_ATOMIC][SIM_ATOMIC] = in_order;
	sim->order[SIM_ATOMIC][SIM_READ] = sim->caps & NAM_CAP_ORDER_ATOMIC_READ;
}

int
nam_sim_begin(const struct nam_sim_options *options)
{
	struct sim *sim = &nam__sim;
	struct nam_rng seed = nam_rng_seed(options->seed);
	int rc;

	if (sim->active)
		return -EBUSY;
	if (options->profile >= NAM_SIM_PROFILES_COUNT ||
		(options->step_bytes != 8 && options->step_bytes != 64) ||
		options->faults.clock_ppm > 100000 || !options->slowness ||
		options->slowness > 1000000)
		return -EINVAL;
	rc = nam__fabric_register(&nam__sim_ops);
	if (rc)
		return rc;
	memset(sim, 0, sizeof(*sim));
	sim->active = true;
	sim->options = *options;
	STAILQ_INIT(&sim->processes);
	STAILQ_INIT(&sim->free_messages);
	sim->chance = nam_rng_seed(nam_rng_next(&seed));
	sim->faults = nam_rng_seed(nam_rng_next(&seed));
	sim->entropy = nam_rng_seed(nam_rng_next(&seed));
	sim->scenario = nam_rng_seed(nam_rng_next(&seed));
	rules(sim);
	nam_env_install(&nam__sim_env);
#ifdef NAM_SIM_POINTS
	nam_race_hook = race_point;
	nam_fault_hook = fault_point;
#endif
	return 0;
}

int
nam_sim_process_start(const char *name, nam_thread_fn fn, void *arg,
	struct nam_sim_process **ret_process)
{
	struct sim *sim = &nam__sim;
	struct nam_sim_process *process = nam__sim_alloc(sizeof(*process));
	struct sim_thread *thread;
	uint32_t ppm = sim->options.faults.clock_ppm;
	int rc;

	process->id = ++sim->ids;
	(void)snprintf(process->name, sizeof(process->name), "%s", name);
	/* No two machines have been up for equally long. */
	process->clock_base_ns = sim->options.network ? 1000000000 :
		nam_rng_below(&sim->chance, 1ull << 50);
	process->clock_ppm = ppm ? (int64_t)nam_rng_below(&sim->chance, 2 * ppm + 1) - ppm : 0;
	STAILQ_INSERT_TAIL(&sim->processes, process, link);
	SIM_EVENT(SIM_WHAT_PROCESS, process->id, 2, "process p%u (%s) starts, clock %+lld ppm",
		process->id, process->name, (long long)process->clock_ppm);
	rc = nam__sim_thread_new(process, name, fn, arg, &thread);
	if (!rc && ret_process)
		*ret_process = process;
	return rc;
}

/* Threads of processes that died come back to unwind. */
static void
revive(struct sim *sim)
{
	struct nam_sim_process *process;
	struct sim_domain *domain;
	struct sim_thread *thread;
	struct sim_qp *qp;

	sim->quiet = true;
	STAILQ_FOREACH(process, &sim->processes, link) {
		if (process->state != SIM_DEAD)
			continue;
		process->state = SIM_ZOMBIE;
		sim->threads_alive += process->threads_alive;
		LIST_FOREACH(domain, &process->domains, link)
			LIST_FOREACH(qp, &domain->qps, link)
				nam__sim_qp_close_later(qp);
		LIST_FOREACH(thread, &process->threads, link) {
			thread->woken = true;
			if (!thread->done && !thread->event.place)
				nam__sim_plan(&thread->event, sim->now);
		}
	}
}

int
nam_sim_run(void)
{
	struct sim *sim = &nam__sim;

	sim->rc = 0;
	nam__sim_run();
	if (!sim->rc) {
		revive(sim);
		nam__sim_run();
		sim->quiet = false;
	}
	return sim->rc;
}

void
nam_sim_end(void)
{
	struct sim *sim = &nam__sim;
	struct nam_sim_process *process;
	struct sim_thread *thread;

	if (!sim->active)
		return;
	while (sim->heap_count) {
		struct sim_event *event = nam__sim_take();

		if (event->due == nam__sim_call_due)
			free(event);
	}
	while ((process = STAILQ_FIRST(&sim->processes))) {
		STAILQ_REMOVE_HEAD(&sim->processes, link);
		while ((thread = LIST_FIRST(&process->threads))) {
			LIST_REMOVE(thread, link);
			nam__sim_thread_free(thread);
		}
		free(process);
	}
	nam__sim_connect_end();
	nam__sim_endpoints_end();
	nam__sim_messages_end();
	nam__sim_nics_end();
	free(sim->heap);
	sim->heap = NULL;
	sim->active = false;
#ifdef NAM_SIM_POINTS
	nam_race_hook = NULL;
	nam_fault_hook = NULL;
#endif
	nam_env_install(NULL);
}

/* ---- processes that die, stand still, or are slow ----------------------------------------- */

void
nam_sim_process_place(struct nam_sim_process *process, uint32_t machine)
{
	process->machine = machine + 1;
}

void
nam_sim_process_borrow(struct nam_sim_process *process)
{
	process->borrows = true;
}

void
nam_sim_process_kill(struct nam_sim_process *process)
{
	struct sim *sim = &nam__sim;
	struct sim_listener *listener;
	struct sim_domain *domain;
	struct sim_qp *qp;

	if (nam__sim_is_gone(process))
		return;
	sim->counts.faults++;
	if (process->serves)
		sim->counts.server_kills++;
	else
		sim->counts.kills++;
	SIM_EVENT(SIM_WHAT_FAULT, process->id, 0, "fault kill: process p%u (%s)", process->id,
		process->name);
	process->state = SIM_DEAD;
	sim->threads_alive -= process->threads_alive;
	LIST_FOREACH(listener, &sim->listeners, link)
		if (listener->domain->process == process)
			listener->name[0] = '\0';
	LIST_FOREACH(domain, &process->domains, link)
		LIST_FOREACH(qp, &domain->qps, link)
			nam__sim_qp_orphan(qp);
	if (sim->current && sim->current->process == process)
		(void)nam__sim_wait(SIM_NEVER);
}

void
nam_sim_process_stall(struct nam_sim_process *process)
{
	if (process->state != SIM_RUNS)
		return;
	nam__sim.counts.faults++;
	nam__sim.counts.stalls++;
	SIM_EVENT(SIM_WHAT_FAULT, process->id, 1, "fault stall: process p%u (%s)", process->id,
		process->name);
	process->state = SIM_STALLED;
}

void
nam_sim_process_resume(struct nam_sim_process *process)
{
	struct sim_thread *thread;

	if (process->state != SIM_STALLED)
		return;
	SIM_EVENT(SIM_WHAT_FAULT, process->id, 2, "process p%u (%s) goes on", process->id,
		process->name);
	process->state = SIM_RUNS;
	LIST_FOREACH(thread, &process->threads, link) {
		if (!thread->held)
			continue;
		thread->held = false;
		if (!thread->event.place)
			nam__sim_plan(&thread->event, nam__sim_here());
	}
}

void
nam_sim_process_slow(struct nam_sim_process *process, uint32_t times)
{
	nam__sim.counts.faults++;
	SIM_EVENT(SIM_WHAT_FAULT, process->id, 1000 + (uint64_t)times,
		"fault slow: process p%u (%s) is %u times as slow as others", process->id,
		process->name, times);
	process->slowness = times;
}

void
nam_sim_process_spare(struct nam_sim_process *process)
{
	process->spared = true;
}

bool
nam_sim_process_mortal(const struct nam_sim_process *process)
{
	return !nam__sim_is_gone(process) && !process->serves && !process->spared;
}

bool
nam_sim_process_alive(const struct nam_sim_process *process)
{
	return !nam__sim_is_gone(process);
}

bool
nam_sim_process_ended(const struct nam_sim_process *process)
{
	return nam__sim_is_gone(process) || !process->threads_alive;
}
