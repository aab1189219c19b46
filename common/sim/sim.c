/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c -- the simulation as a whole: processes, threads, the thread that runs next, and env.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/register.h"
#include "sim_internal.h"

/* Deep enough for what runs on a thread's own stack, which has less room in real life nowhere. */
#define STACK_BYTES (512u << 10)
#define CLOCK_CALL_NS 20u
#define THREAD_START_NS 5000u
#define WAKE_NS 200u

struct sim nam__sim;

/* ---- events as text -------------------------------------------------------------------- */

const char *
nam__sim_op_name(unsigned op)
{
	static const char *const names[] = {
		[NAM_WR_READ] = "READ", [NAM_WR_WRITE] = "WRITE", [NAM_WR_CAS] = "CAS",
		[NAM_WR_FETCH_ADD] = "FETCH_ADD", [NAM_WR_SEND] = "SEND", [NAM_WC_RECV] = "RECV",
		[NAM_WC_CLOSED] = "CLOSED", [NAM_WC_DATAGRAM] = "DATAGRAM",
	};

	return op < sizeof(names) / sizeof(names[0]) && names[op] ? names[op] : "?";
}

/* "time actor: event": nanoseconds; the actor is p<process>.t<thread>, or - for none. */
void
nam__sim_trace(const char *format, ...)
{
	const struct sim_thread *thread = nam__sim.current;
	FILE *to = nam__sim.options.trace;
	va_list args;

	if (thread && thread->process)
		(void)fprintf(to, "%12llu p%u.t%u: ", (unsigned long long)nam__sim_here(),
			thread->process->id, thread->id);
	else
		(void)fprintf(to, "%12llu -: ", (unsigned long long)nam__sim.now);
	va_start(args, format);
	(void)vfprintf(to, format, args);
	va_end(args);
	(void)fputc('\n', to);
}

void
nam_sim_note(const char *format, ...)
{
	char text[256];
	uint64_t word;
	va_list args;

	if (nam__sim.quiet)
		return;
	memset(text, 0, sizeof(text));
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (size_t i = 0; i < sizeof(text) && text[i]; i += sizeof(word)) {
		memcpy(&word, text + i, sizeof(word));
		nam__sim_mix(SIM_WHAT_NOTE, word, i);
	}
	if (nam__sim.options.trace)
		nam__sim_trace("note: %s", text);
}

/* ---- chance --------------------------------------------------------------------------- */

bool
nam__sim_drawn(const struct nam_sim_process *process, uint32_t per_million)
{
	if (!per_million || process->spared || nam_rng_below(&nam__sim.faults, 1000000) >=
		per_million)
		return false;
	nam__sim.counts.faults++;
	return true;
}

void
nam__sim_pause(const char *fault, const char *where)
{
	struct sim *sim = &nam__sim;
	uint64_t pause_ns = nam_rng_below(&sim->faults, sim->options.faults.pause_ns + 1);

	SIM_EVENT(SIM_WHAT_FAULT, sim->current->id, pause_ns, "fault %s: %s takes %llu ns", fault,
		where, (unsigned long long)pause_ns);
	(void)nam__sim_wait(nam__sim_here() + pause_ns);
}

/* ---- the thread that runs next ------------------------------------------------------------ */

/* Time goes on until a thread has something to do. */
static struct sim_thread *
next_thread(void)
{
	struct sim *sim = &nam__sim;

	sim->current = NULL;
	while (sim->threads_alive) {
		struct sim_event *event = nam__sim_take();
		struct sim_thread *thread;

		if (!event) {
			sim->rc = -EDEADLK;
			break;
		}
		if (event->time > sim->options.limit_ns) {
			sim->rc = -ETIMEDOUT;
			break;
		}
		sim->now = event->time;
		sim->counts.events++;
		if (event->due) {
			event->due(event);
			continue;
		}
		thread = (struct sim_thread *)event;
		if (thread->process->state == SIM_RUNS || thread->process->state == SIM_ZOMBIE) {
			sim->current = thread;
			SIM_EVENT(SIM_WHAT_RUN, thread->id, 0, "runs");
			return thread;
		}
		thread->held = true;
	}
	return &sim->main;
}

static struct nam_fiber *
stack_of(struct sim_thread *thread)
{
	bool started = thread->started;

	thread->started = true;
	nam__sim.counts.switches++;
	return started ? &thread->here : thread->home;
}

static __attribute__((noinline)) void
switch_threads(struct sim_thread *from, struct sim_thread *to)
{
	struct nam_fiber *stack = stack_of(to);

#ifdef NAM_FIBER_TSAN
	from->here.tsan = __tsan_get_current_fiber();
#endif
	nam__fiber_switch(&from->here, stack);
}

bool
nam__sim_wait(uint64_t until)
{
	struct sim *sim = &nam__sim;
	struct sim_thread *self = sim->current, *next;

	self->earliest_ns = sim->now + self->debt_ns;
	self->debt_ns = 0;
	self->woken = false;
	self->waits = true;
	if (until != SIM_NEVER)
		nam__sim_plan(&self->event, until < self->earliest_ns ? self->earliest_ns : until);
	next = next_thread();
	if (next != self)
		switch_threads(self, next);
	sim->current = self;
	self->waits = false;
	return self->woken;
}

void
nam__sim_wake(struct sim_thread *thread, uint64_t delay_ns)
{
	uint64_t at = nam__sim_here() + delay_ns;

	if (!thread || !thread->waits || thread->woken)
		return;
	thread->woken = true;
	if (at < thread->earliest_ns)
		at = thread->earliest_ns;
	if (thread->event.place && thread->event.time <= at)
		return;
	nam__sim_unplan(&thread->event);
	nam__sim_plan(&thread->event, at);
}

/* ---- threads ------------------------------------------------------------------------------ */

static void
thread_main(void *arg)
{
	struct sim_thread *self = arg, *next;

	self->fn(self->arg);
	self->done = true;
	self->process->threads_alive--;
	nam__sim.threads_alive--;
	SIM_EVENT(SIM_WHAT_PROCESS, self->id, 1, "thread ends");
	nam__sim_wake(self->joiner, WAKE_NS);
	next = next_thread();
	nam_fiber_exit_to(self->home, stack_of(next));
}

int
nam__sim_thread_new(struct nam_sim_process *process, const char *name, nam_thread_fn fn, void *arg,
	struct sim_thread **ret)
{
	struct sim_thread *thread = nam__sim_alloc(sizeof(*thread));
	int rc = nam_fiber_create(thread_main, thread, STACK_BYTES, &thread->home);

	if (rc) {
		free(thread);
		return rc;
	}
	thread->process = process;
	thread->fn = fn;
	thread->arg = arg;
	thread->id = ++nam__sim.ids;
	(void)snprintf(thread->name, sizeof(thread->name), "%s", name);
	LIST_INSERT_HEAD(&process->threads, thread, link);
	process->threads_alive++;
	nam__sim.threads_alive++;
	SIM_EVENT(SIM_WHAT_PROCESS, thread->id, 0, "thread %u (%s) of p%u starts", thread->id,
		thread->name, process->id);
	nam__sim_plan(&thread->event, nam__sim_here() +
		nam_rng_below(&nam__sim.chance, THREAD_START_NS));
	*ret = thread;
	return 0;
}

void
nam__sim_thread_free(struct sim_thread *thread)
{
	nam__sim_unplan(&thread->event);
	nam_fiber_destroy(thread->home);
	free(thread);
}

/* ---- env.h -------------------------------------------------------------------------------- */

static uint64_t
env_now_ns(void)
{
	struct sim_thread *thread = nam__sim.current;
	uint64_t here;
	int64_t drift;

	if (!thread || !thread->process)
		return nam__sim.now;
	if (!nam__sim.options.network)
		thread->debt_ns += CLOCK_CALL_NS;
	here = nam__sim_here();
	drift = (int64_t)((__int128)here * thread->process->clock_ppm / 1000000);
	return thread->process->clock_base_ns + here + (uint64_t)drift;
}

uint64_t
nam__sim_after(uint64_t local_ns)
{
	struct sim_thread *thread = nam__sim.current;
	uint64_t here = nam__sim_here();
	unsigned __int128 until;

	if (local_ns == UINT64_MAX)
		return SIM_NEVER;
	until = (unsigned __int128)local_ns * 1000000u /
		(unsigned __int128)(1000000 + thread->process->clock_ppm);
	return until < SIM_NEVER - here ? here + (uint64_t)until : SIM_NEVER;
}

static void
env_sleep_ns(uint64_t ns)
{
	struct sim_thread *self = nam__sim.current;

	if (!self)
		return;
	self->polls = false;
	(void)nam__sim_wait(nam__sim_after(ns));
}

static void
env_yield(void)
{
	if (nam__sim.current)
		(void)nam__sim_wait(nam__sim_here() + 50 + nam_rng_below(&nam__sim.chance, 500));
}

static uint64_t
env_entropy(void)
{
	return nam_rng_next(&nam__sim.entropy);
}

static int
env_thread_start(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret_thread)
{
	struct sim_thread *thread;
	int rc;

	if (!nam__sim.current)
		return -EINVAL;
	rc = nam__sim_thread_new(nam__sim.current->process, name, fn, arg, &thread);
	if (!rc)
		*ret_thread = (struct nam_thread *)thread;
	return rc;
}

/* Of the clients' threads on a machine that poll, the one that is or was done first; or NULL. */
static struct sim_thread *
lender_of(const struct nam_sim_process *server)
{
	struct sim_thread *first = NULL, *thread;
	struct nam_sim_process *process;

	STAILQ_FOREACH(process, &nam__sim.processes, link) {
		if (process->machine != server->machine || process->serves ||
			process->state != SIM_RUNS)
			continue;
		LIST_FOREACH(thread, &process->threads, link) {
			if (thread->polls && thread->event.place &&
				(!first || thread->earliest_ns < first->earliest_ns))
				first = thread;
		}
	}
	return first;
}

uint64_t
nam__sim_serve_ns(uint64_t ns)
{
	const struct nam_sim_process *server = nam__sim.current->process;
	struct sim_thread *lender = server->borrows && ns ? lender_of(server) : NULL;
	uint64_t here = nam__sim_here();

	if (!lender)
		return ns;
	if (lender->earliest_ns < here)
		lender->earliest_ns = here;
	lender->earliest_ns += ns;
	if (lender->event.time < lender->earliest_ns) {
		nam__sim_unplan(&lender->event);
		nam__sim_plan(&lender->event, lender->earliest_ns);
	}
	return lender->earliest_ns - here;
}

/* A request found in memory costs a memory server as much as a message. */
static void
env_answered(const void *reply, uint32_t bytes)
{
	const struct nam_sim_options *options = &nam__sim.options;

	if (!options->network)
		return;
	nam__sim_work(nam__sim_serve_ns((uint64_t)options->network->rpc_ns));
	if (options->serve_ns)
		nam__sim_work(nam__sim_serve_ns(options->serve_ns(options->serve_arg, reply,
			bytes)));
	nam__sim_catch_up(nam__sim.current);
}

static void
env_thread_join(struct nam_thread *handle)
{
	struct sim_thread *thread = (struct sim_thread *)handle;

	while (!thread->done) {
		thread->joiner = nam__sim.current;
		(void)nam__sim_wait(SIM_NEVER);
	}
	LIST_REMOVE(thread, link);
	nam__sim_thread_free(thread);
}

const struct nam_env nam__sim_env = {
	.now_ns = env_now_ns,
	.wall_ns = env_now_ns,
	.sleep_ns = env_sleep_ns,
	.yield = env_yield,
	.entropy = env_entropy,
	.thread_start = env_thread_start,
	.thread_join = env_thread_join,
	.answered = env_answered,
};

/* ---- running ------------------------------------------------------------------------------ */

void
nam__sim_catch_up(struct sim_thread *self)
{
	uint64_t here = nam__sim_here();

	if (nam__sim_first(here)) {
		nam__sim.now = here;
		self->debt_ns = 0;
	} else {
		(void)nam__sim_wait(here);
	}
}

/* Until no thread is left, or no event. */
void
nam__sim_run(void)
{
	struct sim *sim = &nam__sim;
	struct sim_thread *next;

	sim->main.started = true;
	sim->main.home = &sim->main.here;
	next = next_thread();
	if (next != &sim->main)
		switch_threads(&sim->main, next);
	sim->current = NULL;
}

/* ---- measuring ---------------------------------------------------------------------------- */

void
nam_sim_work(uint64_t ns)
{
	nam__sim_work(ns);
}

void
nam_sim_gate_wait(struct nam_sim_gate *gate)
{
	SLIST_INSERT_HEAD(&gate->waiting, nam__sim.current, waiting);
	(void)nam__sim_wait(SIM_NEVER);
}

void
nam_sim_gate_open(struct nam_sim_gate *gate)
{
	struct sim_thread *thread;

	while ((thread = SLIST_FIRST(&gate->waiting))) {
		SLIST_REMOVE_HEAD(&gate->waiting, waiting);
		nam__sim_wake(thread, 0);
	}
}

/* ---- directing ---------------------------------------------------------------------------- */

struct nam_sim_faults *
nam_sim_faults(void)
{
	return &nam__sim.options.faults;
}

struct nam_sim_process *
nam_sim_self(void)
{
	return nam__sim.current ? nam__sim.current->process : NULL;
}

bool
nam_sim_zombie(void)
{
	return nam__sim.current && nam__sim.current->process &&
	       nam__sim_is_gone(nam__sim.current->process);
}

uint64_t
nam_sim_now_ns(void)
{
	return nam__sim_here();
}

void
nam__sim_call_due(struct sim_event *event)
{
	struct sim_call *call = (struct sim_call *)event;

	call->fn(call->arg);
	free(call);
}

void
nam_sim_call_after(uint64_t delay_ns, void (*fn)(void *arg), void *arg)
{
	struct sim_call *call = nam__sim_alloc(sizeof(*call));

	call->event.due = nam__sim_call_due;
	call->fn = fn;
	call->arg = arg;
	nam__sim_plan(&call->event, nam__sim_here() + delay_ns);
}

uint64_t
nam_sim_random(void)
{
	return nam_rng_next(&nam__sim.scenario);
}

struct nam_sim_counts
nam_sim_counted(void)
{
	return nam__sim.counts;
}
