/* SPDX-License-Identifier: Apache-2.0 */
/* loops.c -- the loops themselves; see run.h. */
#include <inttypes.h>
#include <string.h>

#include "common/rpc/rpc.h"
#include "bench/bench.h"
#include "run.h"

/*
 * Few at a time: each finished request is replaced while the copies of those behind it are still to
 * be made.  So new prefetches are spread over the work instead of coming in bursts.
 */
#define POLL_MAX 4u
#define PREFETCH_LINES_MAX 64u
#define ALWAYS_INLINE inline __attribute__((always_inline))

const char *const raw_op_names[] = { "read", "write", "cas", "faa", "send", "memcpy", NULL };
const char *const raw_loop_names[] = { "window", "fibers", "batch", NULL };

void
raw_wrong(const struct raw_slot *slot, enum raw_op op)
{
	findings_wrong("%s of block %" PRIu64 ": %#" PRIx64 " came back instead of %#" PRIx64,
		raw_op_names[op], slot->block, slot->buffer[0], raw_pattern(slot->block));
}

void
raw_sample(struct raw_part *part, struct raw_slot *slot)
{
	slot->began = ticks_now();
	if (slot->began >= part->share.deadline || bench_signal || findings.fatal)
		part->share.remaining = 0;
	atomic_store_explicit(&part->member->done, part->share.done, memory_order_relaxed);
}

static void
give_up(struct raw_part *part, int rc)
{
	findings_failed(rc, raw_op_names[part->spec->op],
		part->worker ? nam_worker_diag(part->worker) : "");
	part->share.remaining = 0;
}

/* ---- window ------------------------------------------------------------------------------- */

static ALWAYS_INLINE int
window_post(struct raw_part *part, struct raw_slot *slot, enum raw_op op)
{
	const struct raw_spec *spec = part->spec;
	struct nam_gaddr at = blocks_at(spec->blocks, slot->block);
	uint64_t pattern = raw_pattern(slot->block);

	switch (op) {
	case RAW_READ:
		return nam_async_read(part->worker, at, slot->buffer, spec->bytes, slot);
	case RAW_WRITE:
		return nam_async_write(part->worker, at, slot->buffer, spec->bytes, slot);
	case RAW_CAS:
		return nam_async_cas(part->worker, at, pattern, pattern, slot->buffer, slot);
	default:
		return nam_async_fetch_add(part->worker, at, 1, slot->buffer, slot);
	}
}

/* Idle slots are posted until the queue pair is full; those that have finished are idle again. */
static ALWAYS_INLINE void
window(struct raw_part *part, enum raw_op op)
{
	struct raw_slot *idle[RAW_DEPTH_MAX];
	unsigned idle_count = part->spec->depth, depth = part->spec->depth;
	bool prepared = false;		/* the slot on top has its block, but was refused */

	for (unsigned i = 0; i < depth; i++)
		idle[i] = &part->slots[i];
	for (;;) {
		void *finished[POLL_MAX];
		int rc = 0, count;

		while (idle_count && (prepared || raw_next(part, idle[idle_count - 1], op))) {
			prepared = true;
			rc = window_post(part, idle[idle_count - 1], op);
			if (rc)
				break;
			prepared = false;
			idle_count--;
		}
		if (rc && rc != -NAM_E_FABRIC_FULL) {
			give_up(part, rc);
			prepared = false;
		}
		if (idle_count == depth)
			return;
		count = nam_async_poll(part->worker, finished, POLL_MAX);
		if (count < 0) {
			/* The connection is gone: outstanding requests come back in no order. */
			give_up(part, count);
			return;
		}
		/* Yield: the memory server may be a process of this host and need this core. */
		if (!count)
			nam_yield();
		for (int i = 0; i < count; i++) {
			struct raw_slot *slot = finished[i];

			raw_done(part, slot, op);
			idle[idle_count++] = slot;
		}
	}
}

void
raw_loop_window(struct raw_part *part)
{
	if (part->spec->op == RAW_READ)
		window(part, RAW_READ);
	else if (part->spec->op == RAW_WRITE)
		window(part, RAW_WRITE);
	else if (part->spec->op == RAW_CAS)
		window(part, RAW_CAS);
	else
		window(part, RAW_FAA);
}

/* ---- fibers ------------------------------------------------------------------------------- */

struct raw_fiber {
	struct raw_part *part;
	struct raw_slot *slot;
};

/* A PING comes back as it went. */
NAM_FIBER_FN static int
ping(struct raw_part *part, struct raw_slot *slot)
{
	uint8_t reply[NAM_RPC_BODY_MAX];
	uint32_t reply_bytes = sizeof(reply), bytes = part->spec->bytes;
	uint32_t server = (uint32_t)slot->block;
	int rc = nam_rpc_call(part->worker, server, NAM_RPC_PING, slot->buffer, bytes, reply,
		&reply_bytes); /* SUSPENDS */

	if (!rc && (reply_bytes != bytes || memcmp(reply, slot->buffer, bytes) != 0))
		findings_wrong("send: a reply differs from the request");
	return rc;
}

NAM_FIBER_FN static int
one_await(struct raw_part *part, struct raw_slot *slot)
{
	const struct raw_spec *spec = part->spec;
	struct nam_worker *worker = part->worker;
	uint64_t pattern = raw_pattern(slot->block);
	struct nam_gaddr at;

	if (spec->op == RAW_SEND)
		return ping(part, slot); /* SUSPENDS */
	at = blocks_at(spec->blocks, slot->block);
	switch (spec->op) {
	case RAW_READ:
		return nam_read_await(worker, at, slot->buffer, spec->bytes); /* SUSPENDS */
	case RAW_WRITE:
		return nam_write_await(worker, at, slot->buffer, spec->bytes); /* SUSPENDS */
	case RAW_CAS:
		return nam_cas_await(worker, at, pattern, pattern, slot->buffer); /* SUSPENDS */
	default:
		return nam_fetch_add_await(worker, at, 1, slot->buffer); /* SUSPENDS */
	}
}

static void
fiber_main(void *arg)
{
	struct raw_fiber *fiber = arg;
	struct raw_part *part = fiber->part;
	enum raw_op op = part->spec->op;

	while (raw_next(part, fiber->slot, op)) {
		int rc = one_await(part, fiber->slot); /* SUSPENDS */

		if (rc) {
			give_up(part, rc);
			return;
		}
		raw_done(part, fiber->slot, op);
	}
}

void
raw_loop_fibers(struct raw_part *part)
{
	struct raw_fiber fibers[RAW_DEPTH_MAX];

	for (uint32_t i = 0; i < part->spec->depth; i++) {
		int rc;

		fibers[i] = (struct raw_fiber){ part, &part->slots[i] };
		rc = nam_worker_spawn(part->worker, fiber_main, &fibers[i]);
		if (rc) {
			give_up(part, rc);
			break;
		}
	}
	nam_worker_run(part->worker);
}

/* ---- batch -------------------------------------------------------------------------------- */

static void
batch_add(struct nam_batch *batch, struct raw_part *part, struct raw_slot *slot)
{
	const struct raw_spec *spec = part->spec;
	struct nam_gaddr at = blocks_at(spec->blocks, slot->block);
	uint64_t pattern = raw_pattern(slot->block);

	switch (spec->op) {
	case RAW_READ:
		nam_batch_read(batch, at, slot->buffer, spec->bytes);
		break;
	case RAW_WRITE:
		nam_batch_write(batch, at, 0, slot->buffer, spec->bytes);
		break;
	case RAW_CAS:
		nam_batch_cas(batch, at, 0, pattern, pattern, slot->buffer);
		break;
	default:
		nam_batch_fetch_add(batch, at, 0, 1, slot->buffer);
		break;
	}
}

void
raw_loop_batch(struct raw_part *part)
{
	enum raw_op op = part->spec->op;
	struct nam_batch batch;

	nam_batch_init(&batch, part->worker);
	for (;;) {
		uint32_t count = 0;
		int rc;

		while (count < part->spec->depth && raw_next(part, &part->slots[count], op))
			batch_add(&batch, part, &part->slots[count++]);
		if (!count)
			return;
		rc = nam_batch_await(&batch); /* SUSPENDS */
		if (rc) {
			give_up(part, rc);
			return;
		}
		for (uint32_t i = 0; i < count; i++)
			raw_done(part, &part->slots[i], op);
	}
}

/* ---- copies ------------------------------------------------------------------------------- */

static ALWAYS_INLINE const uint8_t *
copy_prefetch(const struct arena *arena, uint64_t block)
{
	const uint8_t *from = arena->base + block * arena->stride;
	uint32_t bytes = arena->bytes;

	if (bytes > PREFETCH_LINES_MAX * 64)
		bytes = PREFETCH_LINES_MAX * 64;
	for (uint32_t at = 0; at < bytes; at += 64)
		__builtin_prefetch(from + at);
	return from;
}

/* The least work of a READ: know where, ask the memory early, copy, look at the result. */
void
raw_loop_copy(struct raw_part *part)
{
	const struct arena *arena = part->spec->arena;
	uint32_t depth = part->spec->depth, filled = 0;
	const uint8_t *from[RAW_DEPTH_MAX];

	while (filled < depth && raw_next(part, &part->slots[filled], RAW_MEMCPY)) {
		from[filled] = copy_prefetch(arena, part->slots[filled].block);
		filled++;
	}
	for (uint32_t at = 0, out = filled; out; at = at + 1 < filled ? at + 1 : 0) {
		struct raw_slot *slot = &part->slots[at];

		if (!from[at])
			continue;
		memcpy(slot->buffer, from[at], arena->bytes);
		raw_done(part, slot, RAW_MEMCPY);
		if (raw_next(part, slot, RAW_MEMCPY)) {
			from[at] = copy_prefetch(arena, slot->block);
		} else {
			from[at] = NULL;
			out--;
		}
	}
}
