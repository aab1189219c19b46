/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.c -- when memory that readers may still be looking at can be used again.
 *
 * A retired object gets the time of a clock as its label, and an operation pins the time at which
 * it began.  If a label is older than every pin, no operation sees the object.
 *
 *	local	client->local_epoch; pins are worker->active; for this process's own memory (cached
 *		nodes), freed by the epoch thread
 *	remote	the global epoch word; pins are the clients' slots; for remote blocks, reused by the
 *		worker that retired them
 *
 * An operation pins the local clock only, without a round trip.  The epoch thread notes the remote
 * clock before each local epoch begins.  It publishes the note of an epoch a little older than the
 * oldest pinned one.  Operations began later, and saw the blocks that they remember later.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compute/auth/credentials.h"
#include "compute/backup/lease.h"
#include "compute/client/peers.h"
#include "compute/remote/batch.h"
#include "compute/remote/epoch.h"
#include "compute/remote/forget.h"

#define TICK_NS 10000000ull
#define GARBAGE_PER_CHUNK 62u

/* ---- local memory ------------------------------------------------------------------------- */

/* All of one chunk has one label. */
struct nam__garbage {
	TAILQ_ENTRY(nam__garbage) link;
	uint64_t label;
	uint32_t count;
	void *memory[GARBAGE_PER_CHUNK];
};

void
nam__garbage_add(struct nam_client *client, void *memory)
{
	struct nam__garbage *chunk;
	uint64_t label;

	/*
	 * The epoch thread raises local_epoch under the mutex, so the unlinking came before (C7).
	 * A reader that pins the newer value has acquired it, so it sees `memory` unlinked.
	 */
	pthread_mutex_lock(&client->mutex);
	label = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);
	chunk = TAILQ_LAST(&client->garbage, nam__garbages);
	if (!chunk || chunk->label != label || chunk->count == GARBAGE_PER_CHUNK) {
		chunk = malloc(sizeof(*chunk));
		if (!chunk) {
			/* There is nowhere to note it, and it must not be freed now. */
			atomic_fetch_add_explicit(&client->garbage_leaked, 1, memory_order_relaxed);
			goto unlock;
		}
		chunk->label = label;
		chunk->count = 0;
		TAILQ_INSERT_TAIL(&client->garbage, chunk, link);
	}
	chunk->memory[chunk->count++] = memory;
unlock:
	pthread_mutex_unlock(&client->mutex);
}

static void
garbage_free(struct nam__garbages *garbage)
{
	struct nam__garbage *chunk;

	while ((chunk = TAILQ_FIRST(garbage))) {
		TAILQ_REMOVE(garbage, chunk, link);
		for (uint32_t i = 0; i < chunk->count; i++)
			free(chunk->memory[i]);
		free(chunk);
	}
}

/* ---- the epoch thread ------------------------------------------------------------------------ */

/*
 * An operation counts itself in `active`, then loads local_epoch; the epoch thread stores
 * local_epoch, then loads `active`.  At least one sees the other's store.  Both execute a full
 * fence, or the epoch thread makes every thread of the process pass one now.  If that falls after
 * the operation's increment, the epoch thread sees the increment.  Otherwise the operation's second
 * load comes later, sees the new epoch, and withdraws the pin.
 */
bool
nam__barrier_everywhere(struct nam_client *client)
{
	if (!atomic_load_explicit(&client->pin_needs_fence, memory_order_relaxed))
		return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

static bool
epoch_pinned(const struct nam_client *client, uint64_t epoch)
{
	struct nam_worker *worker;

	SLIST_FOREACH(worker, &client->workers, link) {
		/* Acquire: pairs with nam__op_end, so the operation's reads came before. */
		if (atomic_load_explicit(&worker->active[epoch % NAM__LOCAL_EPOCHS],
			    memory_order_acquire))
			return true;
	}
	return false;
}

static uint64_t *
remote_epoch_of(struct nam_client *client, uint64_t local)
{
	return &client->remote_epoch_of[local % NAM__EPOCHS_NOTED];
}

/*
 * Find the oldest local epoch that an operation may have pinned, and free older garbage.
 * nam__barrier_everywhere() has run since local_epoch was raised, or the epoch stays.  It never
 * falls, as new pins are of local_epoch.  A late pin of an older epoch is about to be withdrawn.
 */
static void
garbage_collect(struct nam_client *client, uint64_t local)
{
	struct nam__garbages old = TAILQ_HEAD_INITIALIZER(old);
	struct nam__garbage *chunk;

	pthread_mutex_lock(&client->mutex);
	while (!client->barrier_pending && client->oldest_local_epoch < local &&
		!epoch_pinned(client, client->oldest_local_epoch))
		client->oldest_local_epoch++;
	while ((chunk = TAILQ_FIRST(&client->garbage)) &&
		chunk->label < client->oldest_local_epoch) {
		TAILQ_REMOVE(&client->garbage, chunk, link);
		TAILQ_INSERT_TAIL(&old, chunk, link);
	}
	pthread_mutex_unlock(&client->mutex);
	garbage_free(&old);
}

/* Start a new local epoch if there is a reason and the window has room.  Returns local_epoch. */
static uint64_t
local_epoch_advance(struct nam_client *client, uint64_t remote)
{
	uint64_t local;

	pthread_mutex_lock(&client->mutex);
	local = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);
	/* Counters are modulo the window: none of NAM__LOCAL_EPOCHS epochs ago may be in use. */
	if ((!TAILQ_EMPTY(&client->garbage) ||
			remote != *remote_epoch_of(client, local - NAM__EPOCH_MEMORY)) &&
		client->oldest_local_epoch + NAM__LOCAL_EPOCHS - 2 >= local) {
		local++;
		/* Read before the local epoch began: its operations are at least so young (C8). */
		*remote_epoch_of(client, local) = remote;
		/* Release: pairs with nam__op_begin; and see nam__garbage_add. */
		atomic_store_explicit(&client->local_epoch, local, memory_order_release);
		client->barrier_pending = true;
	}
	pthread_mutex_unlock(&client->mutex);
	/* The kernel may lack memory just now; then nothing grows older before the next tick. */
	if (client->barrier_pending)
		client->barrier_pending = !nam__barrier_everywhere(client);
	return local;
}

static unsigned
generation_of(uint64_t word)
{
	return (unsigned)(word / NAM_EPOCH_GENERATION);
}

/*
 * C16: handles forget before a word of a new generation is noted for the next local epoch.  By C8
 * the slot gets that word when operations from before that epoch have ended.  Returns what can be
 * noted.
 */
NAM_FIBER_FN static uint64_t
generation_follow(struct nam_client *client, uint64_t local, uint64_t remote)
{
	if (generation_of(remote) == atomic_load_explicit(&client->generation,
		memory_order_relaxed))
		return remote;
	/* Regions that are public again may have other keys.  Else: again at the next tick. */
	if (nam__regions_refresh(client)) /* SUSPENDS */
		return *remote_epoch_of(client, local);
	atomic_store_explicit(&client->known_since, local + 1, memory_order_relaxed);
	nam__holders_forget(client, generation_of(remote));
	return remote;
}

/* C22: the lead writes a reader's slot; its reply comes when the slot has the epoch. */
NAM_FIBER_FN static int
slot_publish(struct nam_client *client, uint64_t epoch)
{
	const struct nam_rpc_epoch_request request = { .epoch = epoch };
	struct nam_batch batch;
	int rc;

	if (client->reads_only) {
		rc = nam_rpc_call(client->epoch_worker, client->catalog_slot, NAM_RPC_EPOCH,
			&request, sizeof(request), NULL, NULL); /* SUSPENDS */
	} else {
		*client->epoch_buffer = epoch;
		nam_batch_init(&batch, client->epoch_worker);
		nam_batch_write(&batch, client->epoch_slots, 8u * client->id,
			client->epoch_buffer, 8);
		/* C33: its backup gets it with the session; and this thread waits for no backup. */
		nam__batch_alone(&batch);
		rc = nam_batch_await(&batch); /* SUSPENDS */
	}
	if (!rc)
		client->published_epoch = epoch;
	return rc;
}

/* Look at both clocks.  If server 0 is gone, the remote one stands still. */
NAM_FIBER_FN static void
epoch_thread_tick(struct nam_client *client)
{
	uint64_t began_ns = nam_now_ns(), local, remote, joined, view, sweep;
	int rc;

	/* The words of names, of the view and of sweeps lie behind the epoch. */
	rc = nam_read_await(client->epoch_worker, client->epoch_word, client->epoch_buffer,
		32); /* SUSPENDS */
	local = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);
	remote = rc ? *remote_epoch_of(client, local) : *client->epoch_buffer;
	joined = rc ? client->joined : client->epoch_buffer[1];
	view = rc ? client->view_seen : client->epoch_buffer[2];
	sweep = rc ? client->sweep_seen : client->epoch_buffer[3];
	/* C34: a client that is fenced reads nothing. */
	if (!rc)
		nam__lease_renew(client, began_ns);
	nam_race_point("epoch_thread.epoch_read");
	if (!rc)
		remote = generation_follow(client, local, remote); /* SUSPENDS */
	local = local_epoch_advance(client, remote);
	garbage_collect(client, local);
	nam_race_point("epoch_thread.oldest_found");
	/* Operations may still rely on objects seen a little earlier: nam__seen_lately(). */
	/* C8: not the newest epoch, but one from before the oldest operation. */
	remote = *remote_epoch_of(client, client->oldest_local_epoch - NAM__EPOCH_MEMORY);
	/* After a failed WRITE the slot holds an older time until the next tick: others wait. */
	if (!rc && remote != client->published_epoch)
		rc = slot_publish(client, remote); /* SUSPENDS */
	nam__names_follow(client, joined); /* SUSPENDS */
	client->view_follow(client, view, sweep); /* SUSPENDS */
	/* Even when nothing was posted, take the news that a server closed its connection. */
	nam__poll(client->epoch_worker);
}

static void
epoch_thread_main(void *arg)
{
	struct nam_client *client = arg;

	/* Acquire: pairs with nam__epoch_thread_stop. */
	while (!atomic_load_explicit(&client->closing, memory_order_acquire)) {
		unsigned generation;

		epoch_thread_tick(client); /* SUSPENDS */
		generation = atomic_load_explicit(&client->generation, memory_order_relaxed);
		/*
		 * While a generation begins, a client waits for all slots, without memory.  While
		 * memory moves, requests wait.
		 */
		nam_sleep_ns(generation_of(client->published_epoch) == generation &&
			nam__gate_is_of(client, NAM__GATES_OPEN) ? TICK_NS : TICK_NS / 8);
	}
	client->view_leave(client); /* SUSPENDS */
	/* No client waits for this one any more.  If this fails, the server does it at the end. */
	(void)slot_publish(client, 0); /* SUSPENDS */
}

/* Set both clocks and publish the slot, before any operation can begin. */
NAM_FIBER_FN static int
clocks_start(struct nam_client *client)
{
	uint64_t remote;
	int rc = nam_read_await(client->epoch_worker, client->epoch_word, client->epoch_buffer,
		8); /* SUSPENDS */

	if (rc)
		return rc;
	remote = *client->epoch_buffer;
	atomic_store_explicit(&client->generation, generation_of(remote), memory_order_relaxed);
	/* 0 in a slot means: in no epoch. */
	if (!remote)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < NAM__EPOCHS_NOTED; i++)
		client->remote_epoch_of[i] = remote;
	client->oldest_local_epoch = NAM__LOCAL_EPOCHS;
	atomic_store_explicit(&client->local_epoch, NAM__LOCAL_EPOCHS, memory_order_release);
	return slot_publish(client, remote); /* SUSPENDS */
}

/* Before the second thread: with several, the kernel waits for RCU, for seconds if busy. */
void
nam__epoch_thread_prepare(struct nam_client *client)
{
	atomic_store_explicit(&client->pin_needs_fence, syscall(SYS_membarrier,
		MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0, memory_order_relaxed);
}

int
nam__epoch_thread_start(struct nam_client *client, struct nam_diag *diag)
{
	const struct nam__server *server;
	int rc;

	client->epoch_buffer = nam_buffer_take(client->epoch_worker, 32);
	if (!client->epoch_buffer)
		return nam_diag_set(diag, -ENOMEM, "no memory for a registered buffer");
	rc = clocks_start(client); /* SUSPENDS */
	if (rc)
		return nam_diag_set(diag, rc, "the memory server at %s: its epoch cannot be read, "
			"is 0, or our slot cannot be written%s: %s",
			client->servers[client->catalog_slot].address, client->key ?
			" (a reader's key needs that role in its file here, too)" : "",
			nam_err_text(rc));
	/* C16: before the slot was published, no client waited for this one to learn new keys. */
	rc = nam__regions_refresh(client); /* SUSPENDS */
	server = &client->servers[client->epoch_worker->failed_slot];
	if (nam_err_is(rc, NAM_E_FABRIC_DENIED))
		return nam__denial_explain(client, server, diag);
	if (rc)
		return nam_diag_set(diag, rc, "the regions of the memory server at %s: %s",
			server->address, nam_err_text(rc));
	rc = nam_thread_start("nam-epoch_thread", epoch_thread_main, client, &client->epoch_thread);
	if (rc)
		nam_diag_set(diag, rc, "cannot start the epoch thread: %s", nam_err_text(rc));
	return rc;
}

void
nam__epoch_thread_stop(struct nam_client *client)
{
	if (client->epoch_thread) {
		/* Release: pairs with epoch_thread_main. */
		atomic_store_explicit(&client->closing, true, memory_order_release);
		nam_thread_join(client->epoch_thread);
		client->epoch_thread = NULL;
	}
	/* No worker is left to look at it. */
	garbage_free(&client->garbage);
}
