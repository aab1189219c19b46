/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c -- remote memory as a batch of requests, one doorbell per memory server, one wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backup/again.h"
#include "compute/remote/batch.h"
#include "compute/remote/epoch.h"
#include "compute/remote/lock.h"
#include "compute/worker/doorbell.h"

#define ASYNC_POLL_MAX 16u

/* ---- collecting --------------------------------------------------------------------------- */

/* All that a request needs but its context.  Only atomics have operands. */
static inline __attribute__((always_inline)) void
request_fill(struct nam_wr *wr, uint8_t op, uint8_t flags, void *local, uint32_t bytes)
{
	nam__wr_begin(wr, op, flags);
	wr->bytes = bytes;
	wr->local = local;
}

/* The part that is the same for all; inlined, since an operation adds about seven. */
static inline __attribute__((always_inline)) struct nam_wr *
batch_add(struct nam_batch *batch, uint8_t op, struct nam_gaddr at, uint32_t offset_bytes,
	void *local, uint32_t bytes)
{
	struct nam_wr *wr = &batch->wrs[batch->count];
	int slot;

	if (__builtin_expect(batch->rc != 0, 0))
		return NULL;
	if (__builtin_expect(batch->count == NAM_BATCH_MAX, 0)) {
		batch->rc = -NAM_E_LIMIT;
		return NULL;
	}
	if (!batch->count)
		batch->moves = batch->worker->moves;
	slot = nam__resolve(batch->worker, at, offset_bytes, bytes, wr);
	if (__builtin_expect(slot < 0, 0)) {
		batch->rc = slot;
		return NULL;
	}
	request_fill(wr, op, 0, local, bytes);
	wr->lkey = nam__buffer_lkey(batch->worker, local);
	batch->servers[batch->count++] = (uint16_t)slot;
	return wr;
}

void
nam_batch_read(struct nam_batch *batch, struct nam_gaddr at, void *local, uint32_t bytes)
{
	if (batch_add(batch, NAM_WR_READ, at, 0, local, bytes))
		batch->worker->current->counters->bytes_in += bytes;
}

static inline bool
batch_may_change(struct nam_batch *batch)
{
	if (__builtin_expect(batch->worker->reads_only && !batch->rc, 0))
		batch->rc = nam__change_check(batch->worker);
	return !batch->rc;
}

void
nam_batch_write(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	const void *local, uint32_t bytes)
{
	if (batch_may_change(batch) &&
		batch_add(batch, NAM_WR_WRITE, at, offset_bytes, (void *)(uintptr_t)local, bytes))
		batch->worker->current->counters->bytes_out += bytes;
}

static inline __attribute__((always_inline)) void
batch_atomic(struct nam_batch *batch, uint8_t op, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t compare_or_add, uint64_t swap, uint64_t *local_old)
{
	struct nam_wr *wr = batch_may_change(batch) ?
		batch_add(batch, op, at, offset_bytes, local_old, 8) : NULL;
	struct nam_op_counters *counters = batch->worker->current->counters;

	if (!wr)
		return;
	nam__wr_operands(wr, compare_or_add, swap);
	counters->bytes_out += 16;
	counters->bytes_in += 8;
}

void
nam_batch_cas(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t compare, uint64_t swap, uint64_t *local_old)
{
	batch_atomic(batch, NAM_WR_CAS, at, offset_bytes, compare, swap, local_old);
}

void
nam__batch_lock_cas(struct nam_batch *batch, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *local_old)
{
	uint32_t count = batch->count;

	nam_batch_cas(batch, at, 0, compare, swap, local_old);
	if (batch->count > count)
		batch->wrs[count].hint = NAM_WR_LOCK;
}

void
nam__batch_word_cas(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t compare, uint64_t swap, uint64_t seen[2])
{
	uint32_t count = batch->count;

	seen[1] = compare;
	nam_batch_cas(batch, at, offset_bytes, compare, swap, seen);
	if (batch->count > count)
		batch->wrs[count].hint = NAM_WR_DECIDES;
}

void
nam_batch_fetch_add(struct nam_batch *batch, struct nam_gaddr at, uint32_t offset_bytes,
	uint64_t add, uint64_t *local_old)
{
	batch_atomic(batch, NAM_WR_FETCH_ADD, at, offset_bytes, add, 0, local_old);
}

/* ---- posting ------------------------------------------------------------------------------ */

/* The last completion of a queue pair proves all.  False: they were READs without the network. */
static inline bool
batch_post_run(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count)
{
	struct nam__task *task = worker->current;
	struct nam_qp *qp = worker->qps[slot];
	int rc;

	for (unsigned i = 0; i + 1 < count; i++)
		wrs[i].context = (void *)((uintptr_t)task | NAM__CONTEXT_UNSIGNALED);
	wrs[count - 1].context = task;
	wrs[count - 1].flags |= NAM_WR_SIGNALED;
	rc = qp ? worker->qp_post(qp, wrs, count) : -NAM_E_FABRIC_FULL;
	/* Connects, waits for room, or notes the failure. */
	if (__builtin_expect(rc != 0, 0))
		return !nam__posted_otherwise(worker, task, slot, wrs, count, rc);
	task->counters->doorbells++;
	task->counters->work_requests += count;
	task->pending++;
	return true;
}

/* C32: some have waited until they could be posted, so that one of those moves does not matter. */
static void
batch_late_note(struct nam_batch *batch, uint16_t slot)
{
	for (uint32_t i = 0; i < batch->count; i++)
		if (batch->servers[i] == slot) {
			batch->late |= 1ull << i;
			batch->late_moves[i] = batch->worker->moves;
		}
}

/* The batch touches several servers: collect the requests of each, in their order. */
static __attribute__((noinline)) bool
batch_post_scattered(struct nam_batch *batch)
{
	struct nam_wr run[NAM_BATCH_MAX];
	bool posted[NAM_BATCH_MAX] = { false }, sent = false;
	uint32_t moves;

	for (uint32_t first = 0; first < batch->count; first++) {
		unsigned count = 0;

		if (posted[first])
			continue;
		for (uint32_t i = first; i < batch->count; i++) {
			if (batch->servers[i] != batch->servers[first])
				continue;
			run[count++] = batch->wrs[i];
			posted[i] = true;
		}
		moves = batch->worker->moves;
		sent |= batch_post_run(batch->worker, batch->servers[first], run, count);
		if (__builtin_expect(moves != batch->worker->moves, 0))
			batch_late_note(batch, batch->servers[first]);
	}
	return sent;
}

void
nam__batch_post(struct nam_batch *batch)
{
	bool one_server = true;

	if (__builtin_expect(batch->rc || !batch->count, 0))
		return;
	/* C28 */
	if (__builtin_expect(batch->moves != batch->worker->moves, 0)) {
		for (uint32_t i = 0; i < batch->count; i++)
			nam__wrs_move(batch->worker, batch->servers[i], &batch->wrs[i], 1);
		batch->moves = batch->worker->moves;
	}
	for (uint32_t i = 1; i < batch->count; i++)
		one_server &= batch->servers[i] == batch->servers[0];
	batch->sent |= __builtin_expect(one_server, 1) ?
		batch_post_run(batch->worker, batch->servers[0], batch->wrs, batch->count) :
		batch_post_scattered(batch);
	if (__builtin_expect(one_server && batch->moves != batch->worker->moves, 0))
		batch_late_note(batch, batch->servers[0]);
	batch->posted = true;
	batch->count = 0;
}

int
nam__doorbell_again(struct nam__doorbell *doorbell, uint32_t count, int rc)
{
	struct nam_worker *worker = doorbell->worker;

	while ((rc || doorbell->moves != worker->moves) &&
		nam__posted_in_vain(worker, (uint32_t)doorbell->server, doorbell->moves)) {
		doorbell->count = count;
		nam__doorbell_post(doorbell);
		rc = nam__task_await(worker); /* SUSPENDS */
	}
	return rc;
}

/* Requests without effect become the batch.  False: there are none, or others may have failed. */
static bool
batch_vain_keep(struct nam_batch *batch, uint32_t count, int failed)
{
	bool other = false;
	uint64_t late = batch->late;

	batch->count = 0;
	batch->late = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t moves = late >> i & 1 ? batch->late_moves[i] : batch->moves;

		if (!nam__posted_in_vain(batch->worker, batch->servers[i], moves)) {
			other |= !batch->worker->qps[batch->servers[i]];
			continue;
		}
		batch->wrs[batch->count] = batch->wrs[i];
		batch->wrs[batch->count].flags = 0;
		batch->servers[batch->count++] = batch->servers[i];
	}
	if (failed && (other || !(nam_err_is(failed, NAM_E_FABRIC_PEER_DEAD) ||
			nam_err_is(failed, NAM_E_FABRIC_TIMEOUT))))
		batch->count = 0;
	return batch->count;
}

int
nam_batch_await(struct nam_batch *batch)
{
	struct nam_worker *worker = batch->worker;
	uint64_t pin = nam__request_pin(worker);
	uint32_t count = batch->posted ? 0 : batch->count;
	int rc, failed = 0;

	nam__batch_post(batch);
	rc = batch->rc;
	if (__builtin_expect(batch->posted, 1)) {
		worker->current->counters->round_trips += batch->sent;
		failed = nam__task_await(worker); /* SUSPENDS */
	}
	/* C32 */
	while (__builtin_expect(failed || batch->moves != worker->moves, 0) &&
		batch_vain_keep(batch, count, failed)) {
		count = batch->count;
		nam__batch_post(batch);
		failed = nam__task_await(worker); /* SUSPENDS */
	}
	nam__request_unpin(worker, pin);
	nam_batch_init(batch, worker);
	return rc ? rc : failed;
}

bool
nam__read_in_vain(struct nam_worker *worker, struct nam_gaddr at, uint32_t moves)
{
	uint16_t slot = nam__server_slot(worker->client, at);

	return slot != NAM__NO_SLOT && nam__posted_in_vain(worker, slot, moves);
}

/* ---- READs, all at hand ------------------------------------------------------------------- */

static inline void
read_fill(struct nam_worker *worker, const struct nam__read *read, const struct nam_region *region,
	struct nam_wr *wr)
{
	wr->remote = region->remote + nam_gaddr_offset(read->at);
	wr->rkey = nam_region_rkey(region);
	wr->bytes = read->bytes;
	wr->local = read->local;
	wr->lkey = nam__buffer_lkey(worker, read->local);
}

/* READs from the first one's server come first, the others backwards.  The number of the former. */
static inline int
reads_sort(struct nam_worker *worker, const struct nam__read *reads, uint32_t count,
	struct nam_wr *wrs, uint32_t *servers)
{
	uint32_t front = 0, back = count, server = UINT32_MAX, bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct nam_region *region = nam_region_table_range(&worker->client->regions,
			reads[i].at, reads[i].bytes);
		uint32_t place;
		bool nearby;

		if (__builtin_expect(!region, 0))
			return -NAM_E_NOREGION;
		server = i ? server : region->server;
		/* The memory server is unpredictable: no branch. */
		nearby = region->server == server;
		place = nearby ? front : back - 1;
		front += nearby;
		back -= !nearby;
		servers[place] = region->server;
		nam__wr_begin(&wrs[place], NAM_WR_READ, 0);
		read_fill(worker, &reads[i], region, &wrs[place]);
		bytes += reads[i].bytes;
	}
	worker->current->counters->bytes_in += bytes;
	return (int)front;
}

/* Move READs from the memory server of the first to the front; returns their number. */
static uint32_t
sort_again(struct nam_wr *wrs, uint32_t *servers, uint32_t count)
{
	uint32_t front = 1;

	for (uint32_t i = 1; i < count; i++) {
		struct nam_wr wr = wrs[i];

		if (servers[i] != servers[0])
			continue;
		wrs[i] = wrs[front];
		servers[i] = servers[front];
		wrs[front] = wr;
		servers[front++] = servers[0];
	}
	return front;
}

/* The region is known.  While another READ waited, its memory may have moved (C28). */
static void
read_post_signaled(struct nam_worker *worker, const struct nam__read *read)
{
	struct nam_wr wr;
	int slot = nam__resolve(worker, read->at, 0, read->bytes, &wr);

	nam__wr_begin(&wr, NAM_WR_READ, NAM_WR_SIGNALED);
	wr.bytes = read->bytes;
	wr.local = read->local;
	wr.lkey = nam__buffer_lkey(worker, read->local);
	wr.context = worker->current;
	nam__post(worker, (uint32_t)slot, &wr, 1);
}

/*
 * READ `at` found no room, or its memory server is gone.  It and those behind it wait for room.  If
 * none of them goes out, one that did goes out again, signalled: the task waits for all.
 */
static __attribute__((noinline)) void
reads_post_slowly(struct nam_worker *worker, const struct nam__read *reads, uint32_t at,
	uint32_t count)
{
	for (uint32_t i = at; i < count; i++)
		read_post_signaled(worker, &reads[i]);
	for (uint32_t i = at; i-- > 0 && !worker->current->pending;)
		read_post_signaled(worker, &reads[i]);
}

/* Where a doorbell is only a call, and requests complete in the order of posting: as they come. */
static inline int
reads_post_in_order(struct nam_worker *worker, const struct nam__read *reads, uint32_t count)
{
	const struct nam_region *regions[NAM_BATCH_MAX];
	struct nam__task *task = worker->current;
	uint32_t bytes = 0, i;
	struct nam_wr wr;

	for (i = 0; i < count; i++) {
		regions[i] = nam_region_table_range(&worker->client->regions, reads[i].at,
			reads[i].bytes);
		if (__builtin_expect(!regions[i], 0))
			return -NAM_E_NOREGION;
		bytes += reads[i].bytes;
	}
	task->counters->bytes_in += bytes;
	nam__wr_begin(&wr, NAM_WR_READ, 0);
	wr.context = (void *)((uintptr_t)task | NAM__CONTEXT_UNSIGNALED);
	for (i = 0; i < count; i++) {
		struct nam_qp *qp = worker->qps[regions[i]->server];

		if (i + 1 == count) {
			wr.flags = NAM_WR_SIGNALED;
			wr.context = task;
		}
		read_fill(worker, &reads[i], regions[i], &wr);
		if (__builtin_expect(!qp || worker->qp_post(qp, &wr, 1), 0))
			break;
	}
	task->counters->doorbells += i;
	task->counters->work_requests += i;
	task->pending += i == count;
	if (__builtin_expect(i < count, 0))
		reads_post_slowly(worker, reads, i, count);
	return 0;
}

NAM_FIBER_FN static inline int
reads_once(struct nam_worker *worker, const struct nam__read *reads, uint32_t count)
{
	struct nam_wr wrs[NAM_BATCH_MAX];
	uint32_t servers[NAM_BATCH_MAX], done = 0;
	int nearby;
	bool sent = false;

	if (worker->in_post_order) {
		int rc = reads_post_in_order(worker, reads, count);

		if (rc)
			return rc;
		worker->current->counters->round_trips++;
		return nam__task_await(worker); /* SUSPENDS */
	}
	nearby = reads_sort(worker, reads, count, wrs, servers);
	if (__builtin_expect(nearby < 0, 0))
		return nearby;
	while (done < count) {
		sent |= batch_post_run(worker, servers[done], &wrs[done], (uint32_t)nearby);
		done += (uint32_t)nearby;
		nearby = (int)sort_again(&wrs[done], &servers[done], count - done);
	}
	worker->current->counters->round_trips += sent;
	return nam__task_await(worker); /* SUSPENDS */
}

int
nam__reads_await(struct nam_worker *worker, const struct nam__read *reads, uint32_t count)
{
	uint32_t moves = worker->moves;
	int rc;

	assert(count <= NAM_BATCH_MAX);
	rc = reads_once(worker, reads, count); /* SUSPENDS */
	while (__builtin_expect(rc || moves != worker->moves, 0)) {
		bool vain = false;

		for (uint32_t i = 0; i < count; i++)
			vain |= nam__read_in_vain(worker, reads[i].at, moves);
		if (!vain)
			break;
		moves = worker->moves;
		rc = reads_once(worker, reads, count); /* SUSPENDS */
	}
	return rc;
}

/* ---- batches of one ----------------------------------------------------------------------- */

/* Resolve and post one request of the current task, and wait for it. */
static inline int
post_one(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset, struct nam_wr *wr)
{
	struct nam__task *task = worker->current;
	uint64_t pin = nam__request_pin(worker);
	uint32_t moves;
	int rc, slot;

	wr->lkey = nam__buffer_lkey(worker, wr->local);
	wr->context = task;
	do {
		slot = nam__resolve(worker, at, offset, wr->bytes, wr);
		if (slot < 0) {
			rc = slot;
			break;
		}
		task->counters->round_trips++;
		nam__post(worker, (uint32_t)slot, wr, 1);
		moves = worker->moves;
		rc = nam__task_await(worker); /* SUSPENDS */
	} while (__builtin_expect(rc || moves != worker->moves, 0) &&
		nam__posted_in_vain(worker, (uint32_t)slot, moves));
	nam__request_unpin(worker, pin);
	return rc;
}

int
nam_read_await(struct nam_worker *worker, struct nam_gaddr at, void *local, uint32_t bytes)
{
	uint64_t pin = nam__request_pin(worker);
	uint32_t moves;
	int rc;

	do {
		(void)nam__read_post(worker, worker->current, at, local, bytes);
		moves = worker->moves;
		rc = nam__task_await(worker); /* SUSPENDS */
	} while (__builtin_expect(rc || moves != worker->moves, 0) &&
		nam__read_in_vain(worker, at, moves));
	nam__request_unpin(worker, pin);
	return rc;
}

int
nam_write_await(struct nam_worker *worker, struct nam_gaddr at, const void *local, uint32_t bytes)
{
	struct nam_wr wr;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	request_fill(&wr, NAM_WR_WRITE, NAM_WR_SIGNALED, (void *)(uintptr_t)local, bytes);
	worker->current->counters->bytes_out += bytes;
	return post_one(worker, at, 0, &wr); /* SUSPENDS */
}

/* @hint	NAM_WR_LOCK, or 0 */
NAM_FIBER_FN static int
atomic_await(struct nam_worker *worker, uint8_t op, uint16_t hint, struct nam_gaddr at,
	uint32_t offset, uint64_t compare_or_add, uint64_t swap, uint64_t *ret_old)
{
	int rc = nam__change_check(worker);
	uint64_t *old = rc ? NULL : nam_buffer_take(worker, 8);
	struct nam_wr wr;

	if (!old)
		return rc ? rc : -ENOMEM;
	request_fill(&wr, op, NAM_WR_SIGNALED, old, 8);
	wr.hint = hint;
	nam__wr_operands(&wr, compare_or_add, swap);
	worker->current->counters->bytes_out += 16;
	worker->current->counters->bytes_in += 8;
	rc = post_one(worker, at, offset, &wr); /* SUSPENDS */
	if (!rc)
		*ret_old = *old;
	nam_buffer_give(worker, old, 8);
	return rc;
}

int
nam__member_word_cas(struct nam_worker *worker, uint16_t hint, struct nam_gaddr at,
	uint32_t offset, uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	return atomic_await(worker, NAM_WR_CAS, hint, at, offset, compare, swap,
		ret_old); /* SUSPENDS */
}

int
nam__lock_word_cas(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *ret_old)
{
	return nam__member_word_cas(worker, NAM_WR_LOCK, at, 0, compare, swap,
		ret_old); /* SUSPENDS */
}

int
nam_fetch_add_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t add, uint64_t *ret_old)
{
	return atomic_await(worker, NAM_WR_FETCH_ADD, 0, at, 0, add, 0, ret_old); /* SUSPENDS */
}

/* C33: at the lead alone.  Its backup gets a later epoch when it becomes the lead. */
int
nam__epoch_add(struct nam_worker *worker, uint64_t add, uint64_t *ret_old)
{
	return atomic_await(worker, NAM_WR_FETCH_ADD, NAM_WR_LOCK, worker->client->epoch_word, 0,
		add, 0, ret_old); /* SUSPENDS */
}

/* ---- rolling window ----------------------------------------------------------------------- */

static inline int
async_post(struct nam_worker *worker, struct nam_gaddr at, struct nam_wr *wr, void *context,
	uint32_t bytes_in, uint32_t bytes_out)
{
	struct nam_op_counters *counters = worker->current->counters;
	struct nam_qp *qp;
	/* Earlier requests keep the worker from being idle: gates.c. */
	uint64_t pin = worker->async_pending ? 0 : nam__request_pin(worker);
	int rc, slot = nam__resolve(worker, at, 0, wr->bytes, wr);

	rc = slot < 0 ? slot : 0;
	qp = rc ? NULL : worker->qps[slot];
	if (__builtin_expect(!qp, 0)) {
		rc = rc ?: nam__qp_open_for(worker, (uint32_t)slot, wr, 1);
		if (rc)
			goto unpin;
		qp = worker->qps[slot];
	}
	if (worker->async_pending == worker->async_size) {
		uint32_t size = worker->async_size ? 2 * worker->async_size : 64;
		void **done = realloc(worker->async_done, size * sizeof(void *));

		if (!done) {
			rc = -ENOMEM;
			goto unpin;
		}
		worker->async_done = done;
		worker->async_size = size;
	}
	wr->lkey = nam__buffer_lkey(worker, wr->local);
	wr->context = (void *)((uintptr_t)context | NAM__CONTEXT_ASYNC);
	rc = worker->qp_post(qp, wr, 1);
	if (rc < 0)
		goto unpin;
	worker->async_pending++;
	nam__unawaited_add(worker, 1);
	counters->ops++;
	if (__builtin_expect(rc == NAM_POSTED_COLOCATED, 0)) {
		/* Done, and handed out like any other. */
		counters->colocated_reads++;
		worker->current->colocated = true;
		worker->async_done[worker->async_done_count++] = context;
	} else {
		counters->round_trips++;
		counters->doorbells++;
		counters->work_requests++;
		counters->bytes_in += bytes_in;
		counters->bytes_out += bytes_out;
	}
	rc = 0;
unpin:
	nam__request_unpin(worker, pin);
	return rc;
}

int
nam_async_read(struct nam_worker *worker, struct nam_gaddr at, void *local, uint32_t bytes,
	void *context)
{
	struct nam_wr wr;

	request_fill(&wr, NAM_WR_READ, NAM_WR_SIGNALED, local, bytes);
	return async_post(worker, at, &wr, context, bytes, 0);
}

int
nam_async_write(struct nam_worker *worker, struct nam_gaddr at, const void *local, uint32_t bytes,
	void *context)
{
	struct nam_wr wr;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	request_fill(&wr, NAM_WR_WRITE, NAM_WR_SIGNALED, (void *)(uintptr_t)local, bytes);
	return async_post(worker, at, &wr, context, 0, bytes);
}

static int
async_atomic(struct nam_worker *worker, uint8_t op, struct nam_gaddr at, uint64_t compare_or_add,
	uint64_t swap, uint64_t *local_old, void *context)
{
	struct nam_wr wr;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	request_fill(&wr, op, NAM_WR_SIGNALED, local_old, 8);
	nam__wr_operands(&wr, compare_or_add, swap);
	return async_post(worker, at, &wr, context, 8, 16);
}

int
nam_async_cas(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *local_old, void *context)
{
	return async_atomic(worker, NAM_WR_CAS, at, compare, swap, local_old, context);
}

int
nam_async_fetch_add(struct nam_worker *worker, struct nam_gaddr at, uint64_t add,
	uint64_t *local_old, void *context)
{
	return async_atomic(worker, NAM_WR_FETCH_ADD, at, add, 0, local_old, context);
}

int
nam_async_poll(struct nam_worker *worker, void **contexts, unsigned max)
{
	struct nam_wc wcs[ASYNC_POLL_MAX];
	unsigned count = 0;
	int rc, polled;

	if (__builtin_expect(worker->async_done_count > 0, 0)) {
		/* Leftovers of other completions while another task polled, and colocated READs. */
		if (worker->current->colocated) {
			worker->current->colocated = false;
			nam__poll(worker);
		}
		count = worker->async_done_count < max ? worker->async_done_count : max;
		memcpy(contexts, worker->async_done, count * sizeof(void *));
		worker->async_done_count -= count;
		memmove(worker->async_done, worker->async_done + count,
			worker->async_done_count * sizeof(void *));
	} else {
		polled = worker->cq_poll(worker->cq, wcs, max < ASYNC_POLL_MAX ? max
										: ASYNC_POLL_MAX);
		for (int i = 0; i < polled; i++) {
			uintptr_t context = (uintptr_t)wcs[i].context;

			if ((context & NAM__CONTEXT_MASK) == NAM__CONTEXT_ASYNC &&
				!wcs[i].status && wcs[i].op < NAM_WC_RECV)
				contexts[count++] =
					(void *)(context & ~(uintptr_t)NAM__CONTEXT_MASK);
			else
				nam__completed(worker, &wcs[i]);
		}
		nam__closings_see_to(worker);
	}
	worker->async_pending -= count;
	nam__unawaited_add(worker, -count);
	if (nam__gates_due(worker))
		nam__gates_step(worker);
	rc = worker->async_rc;
	if (__builtin_expect(rc != 0, 0)) {
		worker->async_rc = 0;
		return rc;
	}
	return (int)count;
}
