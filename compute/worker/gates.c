/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.c -- how workers stop posting to one memory server, and go on.  A worker with nothing under
 * way sees the turn when it next pins an epoch, before it posts (C28).
 */
#include "gates.h"

#include "doorbell.h"
#include "notes.h"

static uint32_t
turn_of(const struct nam_client *client)
{
	return atomic_load_explicit(&client->gates, memory_order_acquire);
}

/* ---- the epoch thread ------------------------------------------------------------------------ */

static void
turn(struct nam_client *client, uint32_t slot)
{
	uint32_t count = (turn_of(client) >> 16) + 1;

	atomic_store_explicit(&client->gates, count << 16 | slot, memory_order_seq_cst);
}

/* The worker has pinned no epoch, and has no request without a waiter. */
static bool
is_idle(struct nam_worker *worker)
{
	for (uint32_t i = 0; i < NAM__LOCAL_EPOCHS; i++)
		if (atomic_load_explicit(&worker->active[i], memory_order_acquire))
			return false;
	return !atomic_load_explicit(&worker->unawaited, memory_order_acquire);
}

bool
nam__gate_is_of(const struct nam_client *client, uint32_t slot)
{
	return nam__gate_slot(turn_of(client)) == slot;
}

bool
nam__gate_passes(const struct nam_worker *worker, uint32_t slot)
{
	return worker == worker->client->epoch_worker && slot == worker->client->catalog_slot;
}

void
nam__gate_close(struct nam_client *client, uint32_t slot)
{
	if (nam__gate_is_of(client, slot))
		return;
	client->gate_ns = nam_now_ns();
	turn(client, slot);
}

/* C28 */
bool
nam__gate_is_quiet(struct nam_client *client)
{
	uint32_t now = turn_of(client);
	struct nam_worker *worker;
	bool quiet = true;

	nam__gates_step(client->epoch_worker);
	pthread_mutex_lock(&client->mutex);
	SLIST_FOREACH(worker, &client->workers, link)
		/* C28: otherwise requests are under way to memory that is copied. */
		quiet &= !NAM_GUARD(GATE_QUIET) || is_idle(worker) ||
			atomic_load_explicit(&worker->gate.quiet, memory_order_acquire) == now;
	pthread_mutex_unlock(&client->mutex);
	return quiet;
}

void
nam__gates_open(struct nam_client *client)
{
	turn(client, NAM__GATES_OPEN);
	nam__gates_step(client->epoch_worker);
}

/* ---- a worker ------------------------------------------------------------------------------ */

void
nam__qp_drop(struct nam_worker *worker, uint32_t slot)
{
	struct nam_qp *qp = worker->qps[slot];

	worker->qps[slot] = NULL;
	qp->ops->qp_destroy(qp);
	worker->ops->server_closed(worker, slot);
}

void
nam__gate_drop(struct nam_worker *worker)
{
	uint32_t slot = worker->gate.slot;

	/* A step must not put the next connection aside. */
	atomic_store_explicit(&worker->gate.quiet, worker->gate.turn, memory_order_relaxed);
	if (!worker->gate.qp)
		return;
	worker->qps[slot] = worker->gate.qp;
	worker->gate.qp = NULL;
	nam__qp_drop(worker, slot);
}

/* Connections to a process that has passed its memory on.  For backups: nam__backup_fresh(). */
static void
moved_drop(struct nam_worker *worker)
{
	for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
		if (worker->qps[slot] && worker->answering[slot].boot !=
				worker->client->servers[slot].boot)
			nam__qp_drop(worker, slot);
}

void
nam__gates_step(struct nam_worker *worker)
{
	struct nam__gate *gate = &worker->gate;
	uint32_t now = turn_of(worker->client);
	uint32_t slot = nam__gate_slot(now);

	if (gate->turn != now) {
		/* The queue pair that was put aside comes back. */
		if (gate->slot != NAM__GATES_OPEN && gate->qp)
			worker->qps[gate->slot] = gate->qp;
		gate->slot = NAM__GATES_OPEN;
		gate->qp = NULL;
		moved_drop(worker);
		nam__notes_follow(worker);
		worker->moves++;
		gate->turn = now;
		gate->slot = slot;
		if (!TAILQ_EMPTY(&worker->mirror.held))
			worker->mirror.freshen(worker);
	} else if (slot != NAM__GATES_OPEN) {
		/* If it ends now, it is not behind the gate.  Or the member has moved meanwhile. */
		if (gate->qp)
			worker->qps[slot] = gate->qp;
		gate->qp = NULL;
	}
	if (slot == NAM__GATES_OPEN)
		return;
	if (nam__gate_passes(worker, slot)) {
		gate->slot = NAM__GATES_OPEN;
		return;
	}
	/* The drain may post a request behind all others. */
	if (atomic_load_explicit(&gate->quiet, memory_order_relaxed) != now &&
		!nam__mirror_holds(&worker->mirror, slot) && worker->ops->drain(worker, slot))
		/* Release: this thread's loads there come before others' stores. */
		atomic_store_explicit(&gate->quiet, now, memory_order_release);
	gate->qp = worker->qps[gate->slot];
	worker->qps[gate->slot] = NULL;
}

/* ---- requests that were formed before ---------------------------------------------------- */

void
nam__wrs_move(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count)
{
	const struct nam_client *client = worker->client;
	const struct nam_region_block *now = nam_region_table_block(&client->regions,
		client->servers[slot].id);

	/* Requests to a backup are formed as they are posted. */
	if (client->servers[slot].standby)
		return;
	for (unsigned i = 0; now && i < count; i++) {
		const struct nam_region_block *block = now;
		const struct nam_region *from = NULL, *to;

		while (wrs[i].op != NAM_WR_SEND && block &&
			!(from = nam_region_block_at(block, wrs[i].rkey, wrs[i].remote)))
			block = block->replaced;
		if (!from || block == now)
			continue;
		to = &now->regions[from - block->regions];
		wrs[i].remote = to->remote + (wrs[i].remote - from->remote);
		wrs[i].rkey = nam_region_rkey(to);
	}
}

void
nam__doorbell_move(struct nam__doorbell *doorbell)
{
	struct nam_wr object = { .op = NAM_WR_READ, .remote = doorbell->remote,
		.rkey = doorbell->rkey };

	nam__wrs_move(doorbell->worker, (uint32_t)doorbell->server, doorbell->wrs, doorbell->count);
	nam__wrs_move(doorbell->worker, (uint32_t)doorbell->server, &object, 1);
	doorbell->remote = object.remote;
	doorbell->rkey = object.rkey;
	doorbell->moves = doorbell->worker->moves;
}
