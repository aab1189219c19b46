/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- closed loops of one kind of request on random blocks.
 *
 * Three ways to keep `depth` requests in flight, all through the public interface:
 *
 *	window	each finished request is replaced at once (nam_async_*): the fastest
 *	fibers	`depth` fibers with one request each (nam_*_await)
 *	batch	`depth` requests behind one doorbell per memory server, all awaited (nam_batch_*)
 *
 * and a fourth that knows no fabric: a plain loop of prefetched copies out of local memory.
 */
#ifndef NAM_BENCH_RAW_RUN_H
#define NAM_BENCH_RAW_RUN_H

#include "bench/session.h"
#include "blocks.h"
#include "bench/ticks.h"

enum raw_op {
	RAW_READ,
	RAW_WRITE,
	RAW_CAS,
	RAW_FAA,
	RAW_SEND,
	RAW_MEMCPY,
	RAW_OPS_COUNT
};

enum raw_loop {
	RAW_WINDOW,
	RAW_FIBERS,
	RAW_BATCH,
	RAW_LOOPS_COUNT
};

#define RAW_DEPTH_MAX 512u
#define RAW_SAMPLE_EVERY 64u	/* one request in so many has its latency taken */

/* Ended by NULL. */
extern const char *const raw_op_names[RAW_OPS_COUNT + 1];
extern const char *const raw_loop_names[RAW_LOOPS_COUNT + 1];

struct raw_spec {
	enum raw_op op;
	enum raw_loop loop;
	uint32_t bytes;
	uint32_t depth;
	const struct blocks *blocks;	/* all but SEND, MEMCPY */
	const struct arena *arena;	/* MEMCPY */
	uint64_t seed;
};

/* Measure once.  @ops	0: as long as `seconds` says.  Returns 0 or -ENOMEM. */
int raw_run(const struct raw_spec *spec, uint64_t ops, double seconds,
	struct result *result) NAM_MUST_CHECK;

/* Write its pattern into every block: what READs expect there. */
int raw_blocks_fill(const struct blocks *blocks) NAM_MUST_CHECK;

/* After WRITEs or FETCH_ADDs: are all of them there?  @ops: how many there were in all runs. */
int raw_verify(const struct raw_spec *spec, uint64_t ops) NAM_MUST_CHECK;

/* ---- for the loops' files ------------------------------------------------------------------ */

/* A request, and where its answer goes. */
struct raw_slot {
	uint64_t *buffer;
	uint64_t block;
	uint64_t began;			/* ticks, if it is a sample; else 0 */
};

struct raw_part {
	const struct raw_spec *spec;
	struct nam_worker *worker;
	struct thread_pool_member *member;
	struct nam_rng rng;
	struct share share;
	uint64_t posted;
	struct raw_slot *slots;		/* depth */
	struct histogram latency;
	int rc;				/* -ENOMEM */
};

void raw_loop_window(struct raw_part *part);
void raw_loop_fibers(struct raw_part *part);
void raw_loop_batch(struct raw_part *part);
void raw_loop_copy(struct raw_part *part);

void raw_wrong(const struct raw_slot *slot, enum raw_op op);
/* Every RAW_SAMPLE_EVERY requests: the time, and whether it is up. */
void raw_sample(struct raw_part *part, struct raw_slot *slot);

/* Choose a block and prepare the slot's buffer; false when nothing more is to be posted. */
static inline bool
raw_next(struct raw_part *part, struct raw_slot *slot, enum raw_op op)
{
	const struct raw_spec *spec = part->spec;
	uint64_t blocks_count = op == RAW_MEMCPY ? spec->arena->count
				: op == RAW_SEND ? nam_client_servers(session.client)
						 : spec->blocks->count;

	if (!part->share.remaining)
		return false;
	part->share.remaining--;
	slot->block = nam_rng_below(&part->rng, blocks_count);
	slot->began = 0;
	if (part->posted++ % RAW_SAMPLE_EVERY == 0)
		raw_sample(part, slot);
	if (op == RAW_WRITE) {
		slot->buffer[0] = ~raw_pattern(slot->block);
		slot->buffer[spec->bytes / 8 - 1] = ~raw_pattern(slot->block);
	} else if (op == RAW_SEND) {
		slot->buffer[0] = part->posted;
	}
	return true;
}

static inline void
raw_done(struct raw_part *part, struct raw_slot *slot, enum raw_op op)
{
	uint64_t pattern = raw_pattern(slot->block);
	bool right = true;

	if (op == RAW_READ || op == RAW_MEMCPY)
		right = slot->buffer[0] == pattern &&
			slot->buffer[part->spec->bytes / 8 - 1] == pattern;
	else if (op == RAW_CAS)
		right = slot->buffer[0] == pattern;
	if (__builtin_expect(!right, 0))
		raw_wrong(slot, op);
	if (slot->began)
		histogram_record(&part->latency, ticks_now() - slot->began);
	part->share.done++;
}

#endif /* NAM_BENCH_RAW_RUN_H */
