/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c -- one thread's completion queue and fibers.  A task that has to wait switches straight
 * to the next ready task.  Without one, it polls the completion queue on its own stack.
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/backup/again.h"
#include "compute/backup/backups.h"
#include "common/fabric/list.h"
#include "common/fiber/switch.h"
#include "outstanding_reads.h"

/* Deadlines of RPCs and gates are looked at when idle, and at least once in so many polls. */
#define POLLS_PER_LOOK 1024u
#define POLLS_PER_GATE_STEP 16u
#define GATE_POLL_NS 50000ull
#define IDLE_WAIT_NS 10000000ull
#define PAUSE_SPINS_NS 4000ull		/* so short a pause is looked through */
#define LEFT_PAUSE_NS 1000u
#define PAUSE_YIELDS_NS 100000ull

/* ---- ready tasks ----------------------------------------------------------------------------- */

void
nam__task_ready(struct nam_worker *worker, struct nam__task *task)
{
	STAILQ_INSERT_TAIL(&worker->ready, task, ready);
}

static struct nam__task *
ready_pop(struct nam_worker *worker)
{
	struct nam__task *task = STAILQ_FIRST(&worker->ready);

	if (task)
		STAILQ_REMOVE_HEAD(&worker->ready, ready);
	return task;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void
pauses_end(struct nam_worker *worker)
{
	uint64_t now = nam_now_ns();
	struct nam__task *task;

	while ((task = SLIST_FIRST(&worker->paused)) && task->paused_until_ns <= now) {
		SLIST_REMOVE_HEAD(&worker->paused, link);
		nam__task_ready(worker, task);
	}
}

static void
pause_insert(struct nam_worker *worker, struct nam__task *task, uint64_t ns)
{
	struct nam__task **at = &SLIST_FIRST(&worker->paused);

	task->paused_until_ns = nam_now_ns() + ns;
	while (*at && (*at)->paused_until_ns <= task->paused_until_ns)
		at = &SLIST_NEXT(*at, link);
	SLIST_NEXT(task, link) = *at;
	*at = task;
}

void
nam__pause_await(struct nam_worker *worker, uint64_t ns)
{
	pause_insert(worker, worker->current, ns);
	nam__suspend(worker); /* SUSPENDS */
}

void
nam__pause_set(struct nam_worker *worker, struct nam__task *task, uint64_t ns)
{
	if (!NAM__SLIST_UNLINK(&worker->paused, task, link))
		return;
	if (ns)
		pause_insert(worker, task, ns);
	else
		nam__task_ready(worker, task);
}

/* ---- completions ----------------------------------------------------------------------------- */

/* C32: such a connection to a member with a backup has ended, or is about to. */
static bool
is_end(const struct nam_worker *worker, uint32_t slot, int status)
{
	return nam__is_backed(worker->client, slot) &&
		(nam_err_is(status, NAM_E_FABRIC_PEER_DEAD) ||
			nam_err_is(status, NAM_E_FABRIC_TIMEOUT));
}

static void
failed(struct nam_worker *worker, const struct nam_wc *wc)
{
	worker->failed_slot = nam__slot_of(wc->qp);
	/* Requests that were held back fail without it. */
	if (wc->qp == nam__qp_of(worker, worker->failed_slot) &&
		is_end(worker, worker->failed_slot, wc->status)) {
		worker->answering[worker->failed_slot].ended = ++worker->moves;
		worker->answering[worker->failed_slot].ends = true;
	}
	(void)nam__failure_explain(worker, worker->failed_slot, wc->status);
}

static void
server_closed(struct nam_worker *worker, struct nam_qp *qp)
{
	uint32_t slot = nam__slot_of(qp);

	(void)nam__failure_explain(worker, slot, nam__lost(worker, slot));
	if (nam__is_backed(worker->client, slot)) {
		worker->answering[slot].ended = ++worker->moves;
		worker->answering[slot].ended_boot = worker->answering[slot].boot;
	}
	worker->answering[slot].ends = false;
	if (worker->gate.qp == qp)
		worker->gate.qp = NULL;
	else
		worker->qps[slot] = NULL;
	qp->ops->qp_destroy(qp);
	worker->ops->server_closed(worker, slot);
}

/* The first cause stays: a later one says less.  A process that passed its memory on may end. */
static void
lost(struct nam_worker *worker, uint32_t slot, int status)
{
	struct nam__server *server = &worker->client->servers[slot];
	int none = 0;

	/* The view says what becomes of a member with a backup, and of a backup. */
	if (worker->answering[slot].boot != server->boot || server->standby ||
		nam__is_backed(worker->client, slot))
		return;
	/* Behind a gate, too: the member may have got a backup; without a lead it has none. */
	if (nam__gate_is_of(worker->client, slot) && slot != worker->client->catalog_slot) {
		atomic_compare_exchange_strong(&server->ended_behind_gate, &none, status);
		if (nam__gate_is_of(worker->client, slot))
			return;
	}
	none = 0;
	if (!nam__is_backed(worker->client, slot))
		atomic_compare_exchange_strong(&server->lost, &none, status);
}

static void
completed_rarely(struct nam_worker *worker, const struct nam_wc *wc)
{
	uintptr_t kind = (uintptr_t)wc->context & NAM__CONTEXT_MASK;
	void *of = (void *)((uintptr_t)wc->context - kind);

	if (wc->status)
		failed(worker, wc);
	if (wc->op == NAM_WC_CLOSED) {
		lost(worker, nam__slot_of(wc->qp), wc->status);
		/* There may be completions of its unreliable queue pair in hand. */
		worker->closing[worker->closing_count++] = wc->qp;
	} else if (kind == NAM__CONTEXT_UNSIGNALED) {
		struct nam__task *task = of;

		if (wc->status && !task->rc)
			task->rc = wc->status;
	} else if (kind == NAM__CONTEXT_ASYNC) {
		if (wc->status && !worker->async_rc)
			worker->async_rc = wc->status;
		/* Room was made when the request was posted. */
		worker->async_done[worker->async_done_count++] = of;
	} else {
		((struct nam__completion *)of)->completed(worker, of, wc);
	}
}

void
nam__completed(struct nam_worker *worker, const struct nam_wc *wc)
{
	struct nam__task *task = wc->context;

	if (((uintptr_t)task & NAM__CONTEXT_MASK) != NAM__CONTEXT_TASK || wc->op >= NAM_WC_RECV) {
		completed_rarely(worker, wc);
		return;
	}
	if (__builtin_expect(wc->status, 0)) {
		failed(worker, wc);
		task->rc = task->rc ? task->rc : wc->status;
	}
	if (--task->pending == 0)
		nam__task_ready(worker, task);
}

void
nam__closings_end(struct nam_worker *worker)
{
	while (worker->closing_count)
		server_closed(worker, worker->closing[--worker->closing_count]);
}

/* ---- now and then -------------------------------------------------------------------------- */

/* With more completions there, a reply may have come in time: only the last look's is late. */
static void
check_deadlines(struct nam_worker *worker, bool more)
{
	uint64_t now;

	if (SLIST_EMPTY(&worker->calls))
		return;
	now = nam_now_ns();
	worker->ops->check_deadlines(worker, more ? worker->polls_ns : now);
	worker->polls_ns = now;
}

static void
look_around(struct nam_worker *worker, bool more)
{
	worker->polls = 0;
	/* A request that is formed must go where it was formed for. */
	if (!worker->posting && nam__gates_due(worker)) {
		nam__gates_step(worker);
		worker->polls = POLLS_PER_LOOK - POLLS_PER_GATE_STEP;
	}
	check_deadlines(worker, more);
}

int
nam__poll(struct nam_worker *worker)
{
	struct nam_wc wcs[NAM__POLL_BATCH];
	int count = worker->cq_poll(worker->cq, wcs, NAM__POLL_BATCH);

#pragma GCC unroll 4
	for (int i = 0; i < (int)NAM__POLL_BATCH; i++) {
		if (i >= count)
			break;
		nam__completed(worker, &wcs[i]);
	}
	nam__closings_see_to(worker);
	if (__builtin_expect(worker->slots_waiting != 0, 0))
		count += worker->ops->poll(worker);
	if (__builtin_expect(!SLIST_EMPTY(&worker->paused), 0))
		pauses_end(worker);
	if (++worker->polls >= POLLS_PER_LOOK)
		look_around(worker, count >= (int)NAM__POLL_BATCH);
	return count;
}

/*
 * All tasks pause, for a moment only, and no datagram ends that: they want lock words.  A holder
 * that has lost its processor may get this one by a yield.  A sleep takes longer than such a pause,
 * and its end may take the processor from another holder.
 */
static bool
all_pause_shortly(const struct nam_worker *worker, uint64_t now)
{
	uint32_t others = worker->tasks_alive ? worker->tasks_alive : 1;
	const struct nam__task *task;

	if (worker->peers)
		return false;
	SLIST_FOREACH(task, &worker->paused, link) {
		if (task->paused_until_ns > now + PAUSE_YIELDS_NS)
			return false;
		others--;
	}
	return others == 0;
}

/* Nothing is ready and nothing has completed: sleep until that changes, but not for long. */
static void
idle(struct nam_worker *worker, uint64_t wait_ns)
{
	if (!SLIST_EMPTY(&worker->paused)) {
		uint64_t now = nam_now_ns(), until = SLIST_FIRST(&worker->paused)->paused_until_ns;

		if (until <= now + wait_ns)
			wait_ns = until > now ? until - now : 0;
		if (wait_ns && all_pause_shortly(worker, now)) {
			/* A holder on another processor needs no more. */
			if (wait_ns > PAUSE_SPINS_NS)
				nam_yield();
			wait_ns = 0;
		}
	}
	if (worker->mirror.waiting && wait_ns > GATE_POLL_NS)
		wait_ns = GATE_POLL_NS;
	if (worker->slots_waiting)
		wait_ns = worker->ops->wait_max(worker, wait_ns);
	if (wait_ns)
		worker->cq->ops->cq_wait(worker->cq, wait_ns);
	/* This host may have stood still, and not the memory server. */
	if ((!SLIST_EMPTY(&worker->calls) || nam__gates_due(worker)) &&
		nam__poll(worker) == 0)
		look_around(worker, false);
}

/* The epoch thread opens the gates, so its worker does not wait for that. */
static int
gate_await(struct nam_worker *worker, uint32_t slot)
{
	const struct nam_client *client = worker->client;
	uint64_t until_ns = nam_now_ns() + client->options.timeout_ms * 1000000ull;

	for (;;) {
		nam__gates_step(worker);
		if (nam__gate_slot(worker->gate.turn) != slot || nam__gate_passes(worker, slot))
			return 0;
		if (atomic_load_explicit(&client->servers[client->catalog_slot].lost,
			    memory_order_acquire))
			return nam_diag_set(&worker->diag, nam__lost(worker, client->catalog_slot),
				"the lead is gone, and the memory of the memory server at %s was "
				"moving, so it is not known where it is",
				client->servers[slot].address);
		if (worker == client->epoch_worker || nam_now_ns() >= until_ns)
			return nam_diag_set(&worker->diag, -NAM_E_FABRIC_TIMEOUT,
				"the memory of the memory server at %s is moving to another "
				"process, which has not ended within timeout_ms (%u); try again",
				client->servers[slot].address, client->options.timeout_ms);
		if (!nam__poll(worker))
			nam_sleep_ns(GATE_POLL_NS);
	}
}

/* C32.  The notice of its end is the last one: it comes once nothing more is posted to it. */
bool
nam__posted_in_vain(struct nam_worker *worker, uint32_t slot, uint32_t moves)
{
	struct nam__answering *answering = &worker->answering[slot];
	uint64_t until_ns;

	if ((int32_t)(answering->ended - moves) <= 0 || !NAM_GUARD(POSTED_AGAIN))
		return false;
	if (!answering->ends)
		return true;
	until_ns = nam_now_ns() + worker->client->options.timeout_ms * 1000000ull;
	while (answering->ends && nam_now_ns() < until_ns)
		if (!nam__poll(worker))
			nam_sleep_ns(GATE_POLL_NS);
	/* Without a notice it is not known what becomes of them. */
	return !answering->ends;
}

bool
nam__any_in_vain(struct nam_worker *worker, int rc, uint32_t moves)
{
	bool vain = false;

	for (uint32_t slot = 0; nam_err_is(rc, NAM_E_FABRIC) &&
		slot < worker->client->servers_count; slot++)
		vain |= nam__posted_in_vain(worker, slot, moves);
	return vain;
}

int
nam__qp_open(struct nam_worker *worker, uint32_t slot)
{
	uint64_t until_ns = nam_now_ns() + worker->client->options.timeout_ms * 1000000ull;

	for (;;) {
		int rc = gate_await(worker, slot) ?: nam__qp_connect(worker, slot);

		/* C32: it has ended, and its backup gets its place. */
		if (!rc || !nam__is_backed(worker->client, slot) ||
			rc == -NAM_E_FABRIC_FENCED || !nam_err_is(rc, NAM_E_FABRIC) ||
			worker == worker->client->epoch_worker || nam_now_ns() >= until_ns)
			return rc;
		if (!nam__poll(worker))
			nam_sleep_ns(GATE_POLL_NS);
	}
}

int
nam__qp_open_for(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count)
{
	int rc = nam__qp_open(worker, slot);

	if (!rc)
		nam__wrs_move(worker, slot, wrs, count);
	return rc;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* The task that runs next; waits until there is one. */
static inline struct nam__task *
next_task(struct nam_worker *worker)
{
	struct nam__deferred *deferred = &worker->deferred;
	struct nam__task *next;

	while (!(next = ready_pop(worker))) {
		/* Deferred tasks wait for more of them only while other work is under way. */
		if (deferred->count && (deferred->count >= deferred->enough ||
			(nam__poll(worker) == 0 && STAILQ_EMPTY(&worker->ready))))
			deferred->run(worker);
		else if (!deferred->count && nam__poll(worker) == 0 &&
			STAILQ_EMPTY(&worker->ready))
			idle(worker, IDLE_WAIT_NS);
	}
	return next;
}

void
nam__suspend(struct nam_worker *worker)
{
	struct nam__task *self = worker->current;
	struct nam__task *next = next_task(worker);

	if (next == self)
		return;
	worker->current = next;
	nam__fiber_switch(self->fiber, next->fiber);
}

int
nam__task_await(struct nam_worker *worker)
{
	struct nam__task *self = worker->current;
	int rc;

	if (__builtin_expect(self->pending != 0, 1)) {
		nam__suspend(worker); /* SUSPENDS */
	} else if (self->rc || self->colocated) {
		/* A task that tries again, or never has to wait, must not starve others. */
		self->colocated = false;
		nam_worker_yield(worker); /* SUSPENDS */
	}
	rc = self->rc;
	self->rc = 0;
	return __builtin_expect(rc, 0) ? nam__failure_why(worker, rc) : 0;
}

void
nam_worker_yield(struct nam_worker *worker)
{
	nam__poll(worker);
	nam__give_way(worker); /* SUSPENDS */
}

void
nam__give_way(struct nam_worker *worker)
{
	/* Otherwise a task that yields in a loop would delay deferred tasks for ever. */
	if (worker->deferred.count)
		worker->deferred.run(worker);
	if (STAILQ_EMPTY(&worker->ready) && (!worker->tasks_alive || !nam__poll(worker)))
		return;
	nam__task_ready(worker, worker->current);
	nam__suspend(worker); /* SUSPENDS */
}

/* READs were copies, and their bytes had been counted. */
static void
count_colocated(struct nam__task *task, const struct nam_wr *wrs, unsigned count)
{
	task->colocated = true;
	task->counters->colocated_reads += count;
	for (unsigned i = 0; i < count; i++)
		task->counters->bytes_in -= wrs[i].bytes;
}

bool
nam__posted_otherwise(struct nam_worker *worker, struct nam__task *task, uint32_t slot,
	struct nam_wr *wrs, unsigned count, int rc)
{
	if (rc != NAM_POSTED_COLOCATED)
		return nam__post_for(worker, task, slot, wrs, count);
	count_colocated(task, wrs, count);
	return true;
}

bool
nam__post_for(struct nam_worker *worker, struct nam__task *task, uint32_t slot, struct nam_wr *wrs,
	unsigned count)
{
	int rc;

	/* If what was posted for it before completes in a poll here, it does not wait yet. */
	task->pending++;
	/* A full queue pair empties as its requests complete, which needs no other task to run. */
	for (;;) {
		rc = worker->qps[slot] ? 0 : nam__qp_open_for(worker, slot, wrs, count);
		rc = rc ?: worker->qp_post(worker->qps[slot], wrs, count);
		if (rc != -NAM_E_FABRIC_FULL && !(worker->qps[slot] && is_end(worker, slot, rc)))
			break;
		nam__poll(worker);
	}
	task->pending--;
	if (rc == NAM_POSTED_COLOCATED) {
		count_colocated(task, wrs, count);
		return true;
	}
	if (rc) {
		if (!task->rc)
			task->rc = rc;
		return false;
	}
	task->counters->doorbells++;
	task->counters->work_requests += count;
	for (unsigned i = 0; i < count; i++)
		task->pending += wrs[i].flags & NAM_WR_SIGNALED;
	return false;
}

void
nam__read_for(struct nam_worker *worker, struct nam__task *task, struct nam_gaddr at, void *local,
	uint32_t bytes)
{
	if (!nam__read_post(worker, task, at, local, bytes))
		nam__task_ready(worker, task);
}

/* ---- fibers ------------------------------------------------------------------------------- */

/* Half of the tasks are deferred while the requests of the other half are on their way. */
static void
tasks_alive_set(struct nam_worker *worker, uint32_t count)
{
	worker->tasks_alive = count;
	worker->deferred.enough = count / 2 < NAM__DEFERRED_MAX ? count / 2 : NAM__DEFERRED_MAX;
}

static void
task_main(void *arg)
{
	struct nam__task *task = arg;
	struct nam_worker *worker = task->worker;
	struct nam__task *next;

	task->fn(task->arg);

	SLIST_INSERT_HEAD(&worker->tasks_free, task, link);
	worker->tasks_left -= task->left != 0;
	task->left = 0;
	tasks_alive_set(worker, worker->tasks_alive - 1);
	if (worker->tasks_alive == 0 && worker->joins)
		nam__task_ready(worker, &worker->thread_task);
	next = next_task(worker);
	worker->current = next;
	nam_fiber_exit_to(task->fiber, next->fiber);
}

/* A task that is alive, and not ready yet. */
static int
task_make(struct nam_worker *worker, nam_fiber_fn fn, void *arg, struct nam__task **ret)
{
	const struct nam_client_options *options = &worker->client->options;
	struct nam__task *task = SLIST_FIRST(&worker->tasks_free);
	int rc;

	if (task) {
		SLIST_REMOVE_HEAD(&worker->tasks_free, link);
		nam_fiber_reset(task->fiber, task_main, task);
	} else {
		task = calloc(1, sizeof(*task));
		if (!task)
			return -ENOMEM;
		rc = nam_fiber_create(task_main, task, options->stack_bytes, &task->fiber);
		if (rc) {
			free(task);
			return rc;
		}
		task->worker = worker;
		task->counters = &worker->counters[NAM_OP_OTHER];
		SLIST_INSERT_HEAD(&worker->tasks_made, task, made);
		worker->bytes += sizeof(*task);
		worker->bytes += options->stack_bytes ? options->stack_bytes
						      : NAM_FIBER_STACK_BYTES;
	}
	task->fn = fn;
	task->arg = arg;
	tasks_alive_set(worker, worker->tasks_alive + 1);
	*ret = task;
	return 0;
}

int
nam_worker_spawn(struct nam_worker *worker, nam_fiber_fn fn, void *arg)
{
	struct nam__task *task;
	int rc;

	if (worker->tasks_alive - worker->tasks_left >= worker->client->options.fibers_max)
		return -NAM_E_LIMIT;
	rc = task_make(worker, fn, arg, &task);
	if (!rc)
		nam__task_ready(worker, task);
	return rc;
}

int
nam__task_leave(struct nam_worker *worker, nam_fiber_fn fn, void *arg)
{
	struct nam__task *self = worker->current, *task;
	int rc;

	rc = task_make(worker, fn, arg, &task);
	if (rc)
		return rc;
	task->left = ++worker->lefts;
	worker->tasks_left++;
	/* This task goes on before all others that are ready. */
	STAILQ_INSERT_HEAD(&worker->ready, self, ready);
	worker->current = task;
	nam__fiber_switch(self->fiber, task->fiber);
	return 0;
}

static bool
some_left(const struct nam_worker *worker, uint64_t last)
{
	const struct nam__task *task;

	SLIST_FOREACH(task, &worker->tasks_made, made)
		if (task->left && task->left <= last)
			return true;
	return false;
}

void
nam__left_await(struct nam_worker *worker)
{
	const uint64_t last = worker->lefts;

	/* Each ends with its requests, or with their connections. */
	while (some_left(worker, last))
		nam__pause_await(worker, LEFT_PAUSE_NS); /* SUSPENDS */
}

void
nam_worker_run(struct nam_worker *worker)
{
	worker->joins = worker->tasks_alive;
	if (worker->joins)
		nam__suspend(worker); /* SUSPENDS */
	worker->joins = false;
}

/* ---- state ------------------------------------------------------------------------------- */

const char *
nam_worker_diag(const struct nam_worker *worker)
{
	return worker->diag.text;
}

const struct nam_op_counters *
nam_worker_counters(const struct nam_worker *worker, enum nam_op_kind kind)
{
	return &worker->counters[kind];
}

size_t
nam_worker_bytes(const struct nam_worker *worker)
{
	return worker->bytes;
}
