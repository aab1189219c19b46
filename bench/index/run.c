/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c -- the hot loop: draw an operation and a key, call the library, check, take the time.  Each
 * fiber is a closed loop: one look at the clock ends an operation and begins the next.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench.h"
#include "bench/progress.h"
#include "bench/report.h"

/* The objects of an operation. */
struct item {
	uint64_t key;
	uint64_t payload;	/* of exactly this pair, as it was loaded or inserted */
	uint64_t ordinals;	/* non-unique: a lookup may find ordinals up to this one */
};

/* ---- choosing ----------------------------------------------------------------------------- */

static inline struct item
item_loaded(const struct index_bench *bench, uint64_t pair)
{
	const struct keys *keys = &bench->keys;
	struct item item;

	pair = keys_lasting(keys, pair);
	item.key = keys_loaded(keys, pair);
	item.payload = keys_payload(item.key, pair & ((1ull << keys->dup_shift) - 1));
	item.ordinals = keys->victims_count ? pair & ((1ull << keys->dup_shift) - 1) : 0;
	return item;
}

/*
 * The item of the given rank counted back from the newest: fibers insert side by side, so rank r
 * belongs to fiber r mod fibers.  Beyond what it has inserted lie the loaded pairs, the last first.
 */
static struct item
item_latest(const struct index_bench *bench, struct bench_fiber *self, uint64_t rank)
{
	const struct keys *keys = &bench->keys;
	uint64_t fibers = bench->fibers_count;
	struct bench_fiber *fiber = &bench->fibers[rank % fibers];
	uint64_t back = rank / fibers, inserted;

	/* A fiber knows only of its own pairs that no other fiber deletes them meanwhile. */
	if (bench->options.workload.share[OP_DELETE] > 0)
		fiber = self;
	/* Acquire: pairs with the release after the insert, so it must be found from here on. */
	inserted = atomic_load_explicit(&fiber->inserted, memory_order_acquire);
	if (back < inserted && inserted - 1 - back >= (fiber == self ? self->deleted : 0)) {
		uint64_t number = (inserted - 1 - back) * fibers + fiber->number;
		struct item item;

		item.key = keys_inserted(keys, number, &item.payload);
		item.ordinals = number & ((1ull << keys->dup_shift) - 1);
		return item;
	}
	return item_loaded(bench, keys->pairs - 1 - (rank - inserted * fibers) % keys->pairs);
}

static inline struct item
item_draw(const struct index_bench *bench, struct bench_fiber *fiber, struct nam_rng *rng)
{
	switch (bench->options.workload.distribution) {
	case DISTRIBUTION_UNIFORM:
		return item_loaded(bench, nam_rng_below(rng, bench->keys.pairs));
	case DISTRIBUTION_ZIPFIAN:
		return item_loaded(bench,
			permutation_apply(&bench->scatter, zipf_next(&bench->zipf, rng)));
	default:
		return item_latest(bench, fiber, zipf_next(&bench->zipf, rng));
	}
}

/* The time of an operation by the profile of a simulated cluster; otherwise none. */
static inline void
work(const struct index_bench *bench)
{
	if (__builtin_expect(bench->network != NULL, 0))
		simulation_work(bench->network->operation_ns);
}

/* ---- point operations --------------------------------------------------------------------- */

static void
failed(struct bench_fiber *fiber, int rc, const char *what)
{
	const struct index_bench *bench = fiber->part->bench;
	struct nam_diag why = { "" };

	/* Memory servers do not know names of their trees. */
	if (rc == -NAM_E_DROPPED)
		(void)nam_diag_set(&why, rc, "index '%s' was dropped", bench->name);
	findings_failed(rc, what, why.text[0] ? why.text : nam_worker_diag(fiber->part->worker));
}

static void
missing_or_failed(struct bench_fiber *fiber, int rc, const char *what, uint64_t key)
{
	if (rc == -NAM_E_NOTFOUND)
		findings_missing(1, "%s: key %" PRIu64 " was not found%s", what, key,
			fiber->part->bench->options.load == LOAD_NONE
				? "; an earlier run may have deleted it" : "");
	else
		failed(fiber, rc, what);
}

static void
lookup_wrong(const struct item *item, uint64_t payload)
{
	findings_wrong("lookup: key %" PRIu64 " came with payload %#" PRIx64 ", not %#" PRIx64,
		item->key, payload, item->payload);
}

static inline bool
lookup_right(const struct keys *keys, const struct item *item, uint64_t payload)
{
	uint64_t differences = payload ^ item->payload;

	if (keys->dup_shift)
		return !(differences & KEYS_HASH_MASK) &&
		       payload >> KEYS_HASH_BITS <= item->ordinals;
	return !(differences & (keys->versions ? KEYS_HASH_MASK : UINT64_MAX));
}

NAM_FIBER_FN static inline void
do_lookup(struct bench_fiber *fiber, const struct item *item)
{
	struct index_bench *bench = fiber->part->bench;
	uint64_t payload = 0;
	int rc;

	work(bench);
	keys_write(&bench->keys, item->key, fiber->key);
	rc = nam_index_lookup(fiber->part->worker, fiber->part->index, fiber->key,
		&payload); /* SUSPENDS */
	if (__builtin_expect(!rc && lookup_right(&bench->keys, item, payload), 1))
		return;
	if (rc)
		missing_or_failed(fiber, rc, "lookup", item->key);
	else
		lookup_wrong(item, payload);
}

/* Several at once; each key's answer is checked like any other. */
NAM_FIBER_FN static void
do_lookups(struct bench_fiber *fiber, uint32_t count)
{
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	struct item items[INDEX_BATCH_MAX];
	uint64_t payloads[INDEX_BATCH_MAX];
	int rcs[INDEX_BATCH_MAX], rc;

	for (uint32_t i = 0; i < count; i++) {
		uint8_t *key = fiber->keys + (size_t)i * bench->keys.key_bytes;

		items[i] = item_draw(bench, fiber, &part->rng);
		if (bench->keys.key_bytes > 8)
			keys_prepare(&bench->keys, key);
		keys_write(&bench->keys, items[i].key, key);
	}
	if (__builtin_expect(bench->network != NULL, 0))
		simulation_work(bench->network->batched_operation_ns * count);
	rc = nam_index_lookup_many(part->worker, part->index, fiber->keys, count, payloads,
		rcs); /* SUSPENDS */
	if (rc) {
		failed(fiber, rc, "lookup");
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (rcs[i])
			missing_or_failed(fiber, rcs[i], "lookup", items[i].key);
		else if (!lookup_right(&bench->keys, &items[i], payloads[i]))
			lookup_wrong(&items[i], payloads[i]);
	}
}

NAM_FIBER_FN static void
do_update(struct bench_fiber *fiber, const struct item *item, uint64_t version)
{
	struct index_bench *bench = fiber->part->bench;
	int rc;

	work(bench);
	keys_write(&bench->keys, item->key, fiber->key);
	rc = nam_index_update(fiber->part->worker, fiber->part->index, fiber->key,
		keys_payload(item->key, version & 0xffff)); /* SUSPENDS */
	if (rc)
		missing_or_failed(fiber, rc, "update", item->key);
}

/* A new pair, by insert or upsert. */
NAM_FIBER_FN static void
do_insert(struct bench_fiber *fiber, bool upsert)
{
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	uint64_t n = atomic_load_explicit(&fiber->inserted, memory_order_relaxed);
	uint64_t payload, key;
	int rc;

	work(bench);
	key = keys_inserted(&bench->keys, n * bench->fibers_count + fiber->number, &payload);
	keys_write(&bench->keys, key, fiber->key);
	if (upsert)
		rc = nam_index_upsert(part->worker, part->index, fiber->key,
			payload); /* SUSPENDS */
	else
		rc = nam_index_insert(part->worker, part->index, fiber->key,
			payload); /* SUSPENDS */
	if (!rc)
		/* Release: pairs with item_latest(). */
		atomic_store_explicit(&fiber->inserted, n + 1, memory_order_release);
	else if (rc == -NAM_E_EXISTS)
		findings_wrong("insert: new key %" PRIu64 " exists already", key);
	else
		failed(fiber, rc, "insert");
}

/* An eighth of upserts add a pair; the others meet one that is there. */
NAM_FIBER_FN static void
do_upsert(struct bench_fiber *fiber, uint32_t random)
{
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	struct item item;
	int rc;

	if (random % 8 == 0) {
		do_insert(fiber, true); /* SUSPENDS */
		return;
	}
	work(bench);
	item = item_draw(bench, fiber, &part->rng);
	if (!bench->keys.dup_shift)
		item.payload = keys_payload(item.key, random >> 16);
	keys_write(&bench->keys, item.key, fiber->key);
	rc = nam_index_upsert(part->worker, part->index, fiber->key, item.payload); /* SUSPENDS */
	if (rc)
		failed(fiber, rc, "upsert");
}

/*
 * Delete the fiber's next victim, else the oldest pair that it has inserted, else insert one to
 * delete next time.  Returns what it did.
 */
NAM_FIBER_FN static enum workload_op
do_delete(struct bench_fiber *fiber)
{
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	const struct keys *keys = &bench->keys;
	uint64_t victim = fiber->victims_deleted * bench->fibers_count + fiber->number;
	uint64_t key, payload;
	bool is_victim = victim < keys->victims_count;
	int rc;

	if (is_victim) {
		uint64_t pair = keys_victim(keys, victim);

		key = keys_loaded(keys, pair);
		payload = keys_loaded_payload(keys, pair);
	} else if (fiber->deleted <
		   atomic_load_explicit(&fiber->inserted, memory_order_relaxed)) {
		key = keys_inserted(keys, fiber->deleted * bench->fibers_count + fiber->number,
			&payload);
	} else {
		do_insert(fiber, false); /* SUSPENDS */
		return OP_INSERT;
	}
	work(bench);
	keys_write(keys, key, fiber->key);
	if (bench->options.index.unique)
		rc = nam_index_delete(part->worker, part->index, fiber->key); /* SUSPENDS */
	else
		rc = nam_index_delete_pair(part->worker, part->index, fiber->key,
			payload); /* SUSPENDS */
	if (rc)
		missing_or_failed(fiber, rc, "delete", key);
	else if (is_victim)
		fiber->victims_deleted++;
	else
		fiber->deleted++;
	return OP_DELETE;
}

/* ---- scans -------------------------------------------------------------------------------- */

/* Where a scan begins and ends, for the library and for the check. */
static void
scan_range(struct bench_fiber *fiber, struct nam_range *range, struct scan_check *check)
{
	struct index_bench *bench = fiber->part->bench;
	const struct workload *workload = &bench->options.workload;
	const struct keys *keys = &bench->keys;
	struct nam_rng *rng = &fiber->part->rng;
	bool reverse = bench->options.reverse, unbounded = false;
	uint64_t low = 0, high = 0;

	*range = (struct nam_range){ .reverse = reverse };
	if (workload->selectivity > 0) {
		uint64_t width = (uint64_t)(workload->selectivity * (double)keys->bases + 0.5);
		uint64_t base;

		if (width < 1)
			width = 1;
		if (width > keys->bases)
			width = keys->bases;
		base = nam_rng_below(rng, keys->bases - width + 1);
		low = base << keys->stride_shift;
		high = (base + width) << keys->stride_shift;
		unbounded = base + width == keys->bases;
	} else {
		struct item item = item_draw(bench, fiber, rng);

		range->limit = workload->scan_uniform
				       ? 1 + nam_rng_below(rng, workload->scan_length)
				       : workload->scan_length;
		low = reverse ? 0 : item.key;
		high = item.key + 1;
		unbounded = !reverse;
	}
	keys_write(keys, low, fiber->key);
	keys_write(keys, high, fiber->key_high);
	range->low = fiber->key;
	range->high = unbounded ? NULL : fiber->key_high;
	scan_check_begin(check, keys, low, high, unbounded, reverse);
}

/* The next entries, looked at where they are, or copied out of there: how many. */
NAM_FIBER_FN static int
scan_some(struct bench_fiber *fiber, struct nam_cursor *cursor, struct scan_check *check,
	uint32_t *ret_count)
{
	struct nam_entries entries;
	int rc;

	/* A simulated processor is told what an entry costs, and has the copy in that. */
	if (fiber->part->bench->options.copy || fiber->part->bench->network) {
		rc = nam_cursor_next(cursor, fiber->keys, fiber->payloads, INDEX_SCAN_CAPACITY,
			ret_count); /* SUSPENDS */
		if (!rc)
			scan_check_feed(check, fiber->keys, fiber->payloads, *ret_count);
		return rc;
	}
	rc = nam_cursor_next_entries(cursor, &entries); /* SUSPENDS */
	if (!rc) {
		*ret_count = entries.count;
		scan_check_feed_entries(check, &entries);
	}
	return rc;
}

NAM_FIBER_FN static void
do_scan(struct bench_fiber *fiber)
{
	struct index_part *part = fiber->part;
	struct nam_cursor *cursor;
	struct nam_range range;
	struct scan_check check;
	bool exhausted = false;
	int rc;

	work(part->bench);
	scan_range(fiber, &range, &check);
	rc = nam_cursor_open(part->worker, part->index, &range, &cursor);
	if (rc) {
		failed(fiber, rc, "opening a scan");
		return;
	}
	while (!rc && !exhausted && (!range.limit || check.count < range.limit)) {
		uint32_t count = 0;

		rc = scan_some(fiber, cursor, &check, &count); /* SUSPENDS */
		if (part->bench->network)
			simulation_work(part->bench->network->entry_ns * count);
		exhausted = !count;
	}
	nam_cursor_close(cursor);
	if (rc)
		failed(fiber, rc, "scan");
	else
		scan_check_end(&check, exhausted, range.limit);
	part->entries += check.count;
}

/* ---- the loop ----------------------------------------------------------------------------- */

NAM_FIBER_FN static void
do_rmw(struct bench_fiber *fiber, uint64_t random)
{
	struct index_part *part = fiber->part;
	struct item item = item_draw(part->bench, fiber, &part->rng);
	uint64_t middle;

	do_lookup(fiber, &item); /* SUSPENDS */
	middle = ticks_now();
	histogram_record(&part->rmw_lookup, middle - fiber->last);
	do_update(fiber, &item, random >> 48); /* SUSPENDS */
	histogram_record(&part->rmw_update, ticks_now() - middle);
}

/* Carry out an operation, or one call for several lookups: *ret_count. */
NAM_FIBER_FN static inline enum workload_op
do_op(struct bench_fiber *fiber, uint64_t random, uint32_t *ret_count)
{
	struct index_part *part = fiber->part;
	uint32_t batch = part->bench->options.batch;
	enum workload_op op = op_mix_draw(&part->bench->mix, (uint32_t)random);
	struct item item;

	switch (op) {
	case OP_LOOKUP:
		if (batch > 1) {
			*ret_count = batch <= part->share.remaining + 1
					     ? batch
					     : (uint32_t)part->share.remaining + 1;
			part->share.remaining -= *ret_count - 1;
			do_lookups(fiber, *ret_count); /* SUSPENDS */
			return op;
		}
		item = item_draw(part->bench, fiber, &part->rng);
		do_lookup(fiber, &item); /* SUSPENDS */
		return op;
	case OP_UPDATE:
		item = item_draw(part->bench, fiber, &part->rng);
		do_update(fiber, &item, random >> 48); /* SUSPENDS */
		return op;
	case OP_INSERT:
		do_insert(fiber, false); /* SUSPENDS */
		return op;
	case OP_UPSERT:
		do_upsert(fiber, (uint32_t)(random >> 32)); /* SUSPENDS */
		return op;
	case OP_DELETE:
		return do_delete(fiber); /* SUSPENDS */
	case OP_SCAN:
		do_scan(fiber); /* SUSPENDS */
		return op;
	default:
		do_rmw(fiber, random); /* SUSPENDS */
		return op;
	}
}

static void
fiber_main(void *arg)
{
	struct bench_fiber *fiber = arg;
	struct index_part *part = fiber->part;

	fiber->last = ticks_now();
	while (part->share.remaining) {
		enum workload_op op;
		uint32_t count = 1;
		uint64_t now;

		part->share.remaining--;
		op = do_op(fiber, nam_rng_next(&part->rng), &count); /* SUSPENDS */
		now = ticks_now();
		histogram_record_many(&part->latency[op], now - fiber->last, count);
		fiber->last = now;
		part->share.done += count;
		atomic_store_explicit(&part->member->done, part->share.done, memory_order_relaxed);
		if (__builtin_expect(now >= part->share.deadline || bench_signal ||
				atomic_load_explicit(&findings.fatal, memory_order_relaxed), 0))
			part->share.remaining = 0;
	}
}

/* Lookups at even distances: every inner node gets into the cache. */
static void
warm_main(void *arg)
{
	struct bench_fiber *fiber = arg;
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	uint64_t pairs = bench->keys.pairs;

	for (uint64_t i = fiber->warm_at;
		i < fiber->warm_end && !bench_signal && !findings.fatal &&
		ticks_now() < bench->warm_deadline; i++) {
		struct item item = item_loaded(bench,
			(uint64_t)((unsigned __int128)i * pairs / bench->options.warmup));

		do_lookup(fiber, &item); /* SUSPENDS */
		part->share.done++;
		atomic_store_explicit(&part->member->done, part->share.done, memory_order_relaxed);
	}
}

/* ---- phases ------------------------------------------------------------------------------- */

struct phase {
	struct index_bench *bench;
	nam_fiber_fn fn;
	uint64_t ops;
	double seconds;
};

static void
phase_main(struct thread_pool_member *member, void *arg)
{
	const struct phase *phase = arg;
	struct index_bench *bench = phase->bench;
	struct index_part *part = &bench->parts[member->number];

	part->member = member;
	part->worker = member->worker;
	part->index = index_of_member(bench, member);
	share_begin(&part->share, member, phase->ops, phase->seconds);
	for (uint32_t i = 0; i < bench->options.run.fibers; i++) {
		int rc = nam_worker_spawn(part->worker, phase->fn, &part->fibers[i]);

		if (rc) {
			findings_failed(rc, "starting a fiber", "");
			break;
		}
	}
	nam_worker_run(part->worker);
	part->share.ended = ticks_now();
	share_end(&part->share, member);
}

/* @ret_counters	of the phase, by kind */
static void
phase_run(struct index_bench *bench, nam_fiber_fn fn, uint64_t ops, double seconds,
	struct nam_op_counters ret_counters[NAM_OP_KINDS_COUNT])
{
	struct phase phase = { bench, fn, ops, seconds };

	thread_pool_measure(session.pool, phase_main, &phase, ops, seconds, ret_counters);
}

void
index_phase(struct index_bench *bench, nam_fiber_fn fn, uint64_t ops)
{
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];

	phase_run(bench, fn, ops, 0, counters);
}

void
index_warm(struct index_bench *bench)
{
	uint64_t n = bench->options.warmup;
	uint64_t count = bench->fibers_count / bench->options.run.clients;

	/* Every client has a cache of its own. */
	for (uint64_t i = 0; i < bench->fibers_count; i++) {
		bench->fibers[i].warm_at = n * (i % count) / count;
		bench->fibers[i].warm_end = n * (i % count + 1) / count;
	}
	if (!n)
		return;
	bench->warm_deadline = bench->warm_seconds ?
		ticks_now() + ticks_from_ns(bench->warm_seconds * 1e9) : UINT64_MAX;
	progress_begin("warm-up");
	index_phase(bench, warm_main, n * bench->options.run.clients);
	progress_clear();
	bench->warm_cut |= ticks_now() >= bench->warm_deadline;
	for (uint32_t t = 0; t < index_threads(bench); t++)
		bench->warm_lookups += bench->parts[t].share.done;
}

static const enum nam_op_kind kinds[] = { NAM_OP_LOOKUP, NAM_OP_INSERT, NAM_OP_UPSERT,
	NAM_OP_UPDATE, NAM_OP_DELETE, NAM_OP_SCAN };

#define KINDS_COUNT (sizeof(kinds) / sizeof(kinds[0]))

static void
collect_results(struct index_bench *bench)
{
	struct index_result *result = &bench->result;

	result_add_shares(&session.result, session.pool);
	for (unsigned t = 0; t < index_threads(bench); t++) {
		struct index_part *part = &bench->parts[t];

		part->ops += part->share.done;
		if (t == 0 || part->ops < result->slowest_ops)
			result->slowest_ops = part->ops;
		if (t == 0 || part->ops > result->fastest_ops)
			result->fastest_ops = part->ops;
		result->entries += part->entries;
		for (int op = 0; op < OPS_COUNT; op++) {
			histogram_merge(&session.result.latency, &part->latency[op]);
			histogram_merge(&result->latency[op], &part->latency[op]);
		}
		histogram_merge(&result->latency[OP_LOOKUP], &part->rmw_lookup);
		histogram_merge(&result->latency[OP_UPDATE], &part->rmw_update);
		memset(part->latency, 0, sizeof(part->latency));
		memset(&part->rmw_lookup, 0, sizeof(part->rmw_lookup));
		memset(&part->rmw_update, 0, sizeof(part->rmw_update));
		part->entries = 0;
	}
}

void
index_run(struct index_bench *bench, uint64_t ops, double seconds)
{
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];

	progress_begin("run");
	phase_run(bench, fiber_main, ops, seconds, counters);
	progress_clear();
	for (size_t i = 0; i < KINDS_COUNT; i++) {
		nam_op_counters_add(&bench->result.counters[kinds[i]], &counters[kinds[i]]);
		nam_op_counters_add(&session.result.counters, &counters[kinds[i]]);
	}
	collect_results(bench);
}

/* ---- memory ------------------------------------------------------------------------------- */

int
index_parts_init(struct index_bench *bench)
{
	uint32_t threads = index_threads(bench), fibers = bench->options.run.fibers;
	uint32_t key_bytes = bench->keys.key_bytes;

	bench->parts = calloc(threads, sizeof(struct index_part));
	bench->fibers = calloc(bench->fibers_count, sizeof(struct bench_fiber));
	bench->slices = calloc(bench->options.slices + 1, sizeof(struct index_slice));
	if (!bench->parts || !bench->fibers || !bench->slices)
		return -ENOMEM;
	for (uint32_t t = 0; t < threads; t++) {
		bench->parts[t].bench = bench;
		bench->parts[t].fibers = &bench->fibers[(size_t)t * fibers];
		bench->parts[t].rng = nam_rng_seed(bench->options.run.seed * 0x10001 + t);
	}
	for (uint64_t i = 0; i < bench->fibers_count; i++) {
		struct bench_fiber *fiber = &bench->fibers[i];

		fiber->part = &bench->parts[i / fibers];
		fiber->number = i;
		keys_prepare(&bench->keys, fiber->key);
		keys_prepare(&bench->keys, fiber->key_high);
		fiber->keys = malloc((size_t)INDEX_SCAN_CAPACITY * key_bytes);
		fiber->payloads = malloc(INDEX_SCAN_CAPACITY * sizeof(uint64_t));
		if (!fiber->keys || !fiber->payloads)
			return -ENOMEM;
	}
	return 0;
}

void
index_parts_free(struct index_bench *bench)
{
	for (uint64_t i = 0; bench->fibers && i < bench->fibers_count; i++) {
		free(bench->fibers[i].keys);
		free(bench->fibers[i].payloads);
	}
	free(bench->fibers);
	free(bench->parts);
	free(bench->slices);
}
