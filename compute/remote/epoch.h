/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.h -- pins, the limbo of retired blocks, and the extent of an operation.
 */
#ifndef NAM_COMPUTE_REMOTE_EPOCH_H
#define NAM_COMPUTE_REMOTE_EPOCH_H

#include "compute/worker/worker.h"

/* epoch.c: all threads of the process pass a full fence; false: the kernel cannot just now. */
bool nam__barrier_everywhere(struct nam_client *client);
/* epoch.c: before the client's first thread is started; and when it has joined the cluster. */
void nam__epoch_thread_prepare(struct nam_client *client);
int nam__epoch_thread_start(struct nam_client *client, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__epoch_thread_stop(struct nam_client *client);	/* joins; zeroes the epoch slot */
/* Free `memory` with free() once no operation of this process can be using it. */
void nam__garbage_add(struct nam_client *client, void *memory);
/* Blocks in limbo: label them, and put those that no reader can see into the block cache. */
NAM_FIBER_FN int nam__limbo_advance(struct nam_worker *worker, uint64_t *ret_reusable)
	NAM_MUST_CHECK;
/*
 * In between, blocks that this worker retires count as linked.  For an object whose parts are
 * retired while there is still a way to them (C9).  Pairs of calls nest.
 */
void nam__labels_hold(struct nam_worker *worker);
void nam__labels_release(struct nam_worker *worker);
/* Whether it is worth its cost: for retirement without a collector. */
bool nam__limbo_due(const struct nam_worker *worker);
void nam__limbo_free(struct nam_worker *worker);
/*
 * The oldest time that a client may still be in, this one's included, and one that may: another
 * one, if there is any.  Cost: 1 READ of 32 KiB.
 */
NAM_FIBER_FN int nam__epoch_oldest(struct nam_worker *worker, uint64_t *ret_epoch,
	uint16_t *ret_client) NAM_MUST_CHECK;
/*
 * Say which client that is, and for how long it has kept memory from use.  Returns
 * -NAM_E_LOCK_TIMEOUT.  Cost: 1 RPC.
 */
NAM_FIBER_FN int nam__epoch_blame(struct nam_worker *worker, uint16_t id, uint64_t waited_ns,
	struct nam_diag *why);
/* nam_retire() of a block that this client allocated: memory servers know that it is its own. */
void nam__retire_own(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);
/*
 * Retire a block for which the owner has work left once no reader can see it.  It does not go to
 * the block cache, but waits to be taken under this address, tag included.
 */
void nam__retire_kept(struct nam_worker *worker, const void *owner, struct nam_gaddr at,
	uint32_t stride);
/* Take a kept block of this owner that no reader sees; false: there is none. */
bool nam__limbo_take(struct nam_worker *worker, const void *owner, struct nam_gaddr *ret_at);
/* Put a taken block back. */
void nam__limbo_give_back(struct nam_worker *worker, const void *owner, struct nam_gaddr at,
	uint32_t stride);
/* Whether any is to be taken now, or will be. */
bool nam__limbo_has(const struct nam_worker *worker, const void *owner);
/*
 * Addresses of all blocks in limbos of this client's workers, up to `max`, and how many there are.
 * Tags may be set, and some may leave at any time.  Any thread.
 */
uint32_t nam__limbos_addresses(struct nam_client *client, uint64_t *ret_at, uint32_t max);
uint64_t nam__limbo_bytes(const struct nam_worker *worker);
/* Whether any block waits for its readers. */
bool nam__limbo_waits(const struct nam_worker *worker);
/* Note that a remote block was given up. */
void nam__block_leaked(struct nam_client *client, uint32_t stride);

/* From here to its end nothing is reused that was in sight at the beginning. */
static inline uint64_t
nam__epoch_pin(struct nam_worker *worker)
{
	struct nam_client *client = worker->client;

	for (;;) {
		uint64_t epoch = atomic_load_explicit(&client->local_epoch, memory_order_acquire);
		atomic_uint *active = &worker->active[epoch % NAM__LOCAL_EPOCHS];

		atomic_store_explicit(active,
			atomic_load_explicit(active, memory_order_relaxed) + 1,
			memory_order_relaxed);
		/* Pairs with the barrier: it sees the increment, or this sees the new epoch. */
		if (atomic_load_explicit(&client->pin_needs_fence, memory_order_relaxed))
			atomic_thread_fence(memory_order_seq_cst);
		else
			atomic_signal_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&client->local_epoch, memory_order_relaxed) == epoch)
			return epoch;
		atomic_store_explicit(active,
			atomic_load_explicit(active, memory_order_relaxed) - 1,
			memory_order_release);
	}
}

static inline void
nam__epoch_unpin(struct nam_worker *worker, uint64_t epoch)
{
	atomic_uint *active = &worker->active[epoch % NAM__LOCAL_EPOCHS];

	/* Release: the operation's reads come before the epoch thread sees it gone. */
	atomic_store_explicit(active, atomic_load_explicit(active, memory_order_relaxed) - 1,
		memory_order_release);
}

/* remote.c: a FETCH_ADD of the epoch word.  Cost: 1 round trip. */
NAM_FIBER_FN int nam__epoch_add(struct nam_worker *worker, uint64_t add,
	uint64_t *ret_old) NAM_MUST_CHECK;

/* After a pin: requests that follow do not pass a gate that is closed (C28). */
static inline void
nam__gates_see(struct nam_worker *worker)
{
	if (__builtin_expect(worker->gate.turn != atomic_load_explicit(&worker->client->gates,
			memory_order_relaxed), 0))
		nam__gates_step(worker);
}

/*
 * Requests outside of an operation pin for themselves, but for the epoch thread's.  Returns what to
 * unpin, or 0.
 */
static inline uint64_t
nam__request_pin(struct nam_worker *worker)
{
	uint64_t epoch;

	if (worker->current->counters != &worker->counters[NAM_OP_OTHER] ||
		worker == worker->client->epoch_worker)
		return 0;
	epoch = nam__epoch_pin(worker);
	nam__gates_see(worker);
	return epoch;
}

static inline void
nam__request_unpin(struct nam_worker *worker, uint64_t epoch)
{
	if (epoch)
		nam__epoch_unpin(worker, epoch);
}

/*
 * An operation runs between nam__op_begin() and nam__op_end(): they choose its counters and keep
 * what it may see from being reused.  They do not nest: an operation that needs another one ends
 * and resumes after it.  Blocks that it saw before may then be reused, unless it pinned an epoch.
 */
static inline void
nam__op_resume(struct nam_worker *worker, enum nam_op_kind kind)
{
	struct nam__task *task = worker->current;

	task->counters = &worker->counters[kind];
	task->epoch = nam__epoch_pin(worker);
	nam__gates_see(worker);
}

static inline void
nam__op_begin(struct nam_worker *worker, enum nam_op_kind kind)
{
	worker->counters[kind].ops++;
	nam__op_resume(worker, kind);
}

static inline void
nam__op_end(struct nam_worker *worker)
{
	struct nam__task *task = worker->current;

	nam__epoch_unpin(worker, task->epoch);
	task->counters = &worker->counters[NAM_OP_OTHER];
}

/*
 * Whether remote blocks that an operation of local epoch `epoch` saw in use cannot be reused before
 * the operation under way ends.  In use: not taken out of sight yet.
 */
static inline bool
nam__seen_lately(const struct nam_worker *worker, uint64_t epoch)
{
	return worker->current->epoch - epoch <= NAM__EPOCH_MEMORY;
}

#endif /* NAM_COMPUTE_REMOTE_EPOCH_H */
