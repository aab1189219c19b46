/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h -- closed loops of requests: nam-bench rpc, kv, pilaf, ramp and txn. */
#ifndef NAM_BENCH_REQUESTS_REQUESTS_H
#define NAM_BENCH_REQUESTS_REQUESTS_H

#include <sys/queue.h>

#include "bench/raw/bench.h"
#include "bench/session.h"
#include "inserted.h"
#include "options.h"

#define REQUESTS_DICE (1u << 20)	/* sides of the die that says what a request does */
#define TXN_KINDS_MAX 8u		/* of a workload's transactions */

struct requests;
struct requests_part;

extern const struct requests_kind {
	const char *name;		/* the subcommand */
	/* `room` for a request and its reply: a multiple of 8; 0: as options say. */
	size_t room_bytes;
	size_t (*room_bytes_of)(const struct requests_options *options);
	int (*begin)(struct requests *bench);	/* an exit code; complains itself; or NULL */
	void (*end)(struct requests *bench);	/* or NULL */
	/* Before the time is taken, a request; and afterwards. */
	void (*prepare)(struct requests_part *part, void *room);
	/* @rooms: `count` of them, which is 1 without --batch. */
	NAM_FIBER_FN int (*ask)(struct requests_part *part, void *rooms, uint32_t count);
	void (*check)(struct requests_part *part, void *room);
	/* Records that were read so far, for --raw-ratio; NULL: as many as work requests. */
	uint64_t (*reads)(const struct requests *bench);
	/* After the last one: 0, or a negative code after a message; or NULL. */
	int (*measured)(struct requests *bench);
	void (*print)(const struct requests *bench);	/* a line about it */
	void (*json)(const struct requests *bench, cJSON *object);
	void (*swap)(struct requests *bench);	/* --compare: the other store is asked next */
} requests_rpc, requests_kv, requests_pilaf, requests_ramp, requests_txn, requests_rows;

struct requests {
	struct requests_options options;	/* first: session_main() */
	const struct requests_kind *kind;
	struct requests_part *parts;	/* of each member */
	double turn_seconds;		/* how long the one under way is to last */
	struct raw_turns raw;		/* --raw-ratio */
	/* kv, pilaf, ramp, txn */
	char name[32];
	struct zipf zipf;
	/* The throws of REQUESTS_DICE that make a request read, and those that do or insert. */
	uint64_t reads_below, inserts_below;
	/* kv */
	enum kv_phase { KV_GROW, KV_SHRINK, KV_FILL, KV_WARM } phase;	/* before the run */
	uint64_t phase_keys;
	struct nam_kv_stat before, after;	/* the run */
	/* --compare */
	char other_name[32];
	struct {
		double ratio, low, high;	/* of the rates of a pair of turns: quartiles */
		uint32_t pairs;
	} compared;
	/* txn */
	enum txn_pass { TXN_PASS_LOAD, TXN_PASS_WARM, TXN_PASS_SUM, TXN_PASS_CHECK } pass;
	void *rows;			/* of a workload over rows */
	uint64_t rows_count;		/* expected */
	int64_t sum, sum_expected;	/* of all words at the end */
	FILE *history;			/* NULL: not wanted, or written */
};

struct requests_part {
	struct requests *bench;
	struct thread_pool_member *member;
	struct nam_rng rng;
	struct nam_kv *kv;
	/* kv */
	struct nam_kv *other;		/* --compare */
	uint64_t filled;		/* keys of the phase, */
	uint64_t numbered, added;	/* and new ones: with a number so far, and acknowledged */
	struct inserted inserted;	/* those, with --distribution latest */
	struct nam_records *records;
	uint64_t fractured;		/* transactions that read half of another */
	/* txn */
	struct nam_txn_store *store;
	int64_t sum, sum_added;		/* of words: in the pass; by committed transactions */
	uint64_t conflicts, rolled_back, reads, kinds[TXN_KINDS_MAX];
	SLIST_HEAD(, history_event) history;
	uint64_t number;		/* of its requests, so far */
	struct share share;
	struct histogram latency;
};

/* ---- of kv, pilaf, ramp and txn: keys, and what is asked of them ----------------------------- */

/* bench->name, "bench-KIND-CLIENT", and how keys are drawn. */
void requests_keys_init(struct requests *bench);

/* The number of the key that is asked for next, or its rank. */
static inline uint64_t
requests_draw(const struct requests *bench, struct nam_rng *rng)
{
	return bench->options.distribution == DISTRIBUTION_UNIFORM ?
		nam_rng_below(rng, bench->options.keys) : zipf_next(&bench->zipf, rng);
}

/*
 * The keys of a transaction, each once, which follow from the seed.  If few are left to draw from,
 * there are fewer than --transaction-size.  Mostly all are different at once.
 */
uint32_t requests_draw_anew(const struct requests *bench, uint64_t seed, uint64_t *numbers);

static inline uint32_t
requests_draw_some(const struct requests *bench, uint64_t seed, uint64_t *numbers)
{
	struct nam_rng rng = nam_rng_seed(seed);
	const uint32_t size = bench->options.transaction_size;
	uint64_t met = 0;		/* one bit of 64 for each number */
	bool again = false;

	for (uint32_t i = 0; i < size; i++) {
		numbers[i] = requests_draw(bench, &rng);
		again |= met >> numbers[i] % 64 & 1;
		met |= 1ull << numbers[i] % 64;
	}
	return again ? requests_draw_anew(bench, seed, numbers) : size;
}

/* Whether the next request reads, or writes. */
static inline bool
requests_reads(struct requests_part *part)
{
	return nam_rng_below(&part->rng, REQUESTS_DICE) < part->bench->reads_below;
}

/* How keys are drawn, for a person; and all about keys and values. */
const char *requests_distribution(const struct requests_options *o);
void requests_keys_json(const struct requests_options *o, cJSON *object);

/* ---- all ------------------------------------------------------------------------------------- */

/* The sum of a counter of all parts, which is so far into a part. */
uint64_t requests_sum(const struct requests *bench, size_t offset);

/* A call of the library has failed, and that is the end. */
void requests_failed(struct requests_part *part, int rc, const char *what);

#endif /* NAM_BENCH_REQUESTS_REQUESTS_H */
