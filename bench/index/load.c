/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- fill the index: sorted and in bulk, or by inserts in random order. */
#include "bench/bench.h"
#include "bench.h"
#include "bench/progress.h"

#define SHOW_EVERY 65536u

/* ---- in bulk ------------------------------------------------------------------------------ */

struct source {
	struct index_bench *bench;
	uint64_t next;
};

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	struct source *source = arg;
	const struct keys *keys = &source->bench->keys;
	uint64_t pair = source->next;

	if (pair >= keys->pairs)
		return NAM_INDEX_END;
	if (pair % SHOW_EVERY == 0) {
		progress_show((double)pair / (double)keys->pairs, pair);
		if (bench_signal)
			return -NAM_E_ABORT;
	}
	if (keys->key_bytes > 8)
		keys_prepare(keys, key);
	keys_write(keys, keys_loaded(keys, pair), key);
	*payload = keys_loaded_payload(keys, pair);
	if (source->bench->network)
		simulation_work(source->bench->network->entry_ns);
	source->next++;
	return NAM_INDEX_PAIR;
}

static int
load_bulk(struct index_bench *bench)
{
	struct source source = { bench, 0 };
	uint64_t count = 0;
	int rc = nam_index_bulk_load(session_worker(), bench->index, source_next, &source,
		bench->options.fill_percent, &count); /* SUSPENDS */

	bench->load_keys = count;
	if (rc && !bench_signal)
		findings_failed(rc, "bulk load", nam_worker_diag(session_worker()));
	return rc;
}

/* ---- by inserts --------------------------------------------------------------------------- */

/* Every fiber takes its share of a permutation of all pairs. */
static void
insert_main(void *arg)
{
	struct bench_fiber *fiber = arg;
	struct index_part *part = fiber->part;
	struct index_bench *bench = part->bench;
	const struct keys *keys = &bench->keys;

	for (uint64_t i = fiber->number; i < keys->pairs; i += bench->fibers_count) {
		uint64_t pair = permutation_apply(&bench->scatter, i);
		int rc;

		keys_write(keys, keys_loaded(keys, pair), fiber->key);
		rc = nam_index_insert(part->worker, part->index, fiber->key,
			keys_loaded_payload(keys, pair)); /* SUSPENDS */
		if (rc)
			findings_failed(rc, "loading by insert", nam_worker_diag(part->worker));
		part->share.done++;
		atomic_store_explicit(&part->member->done, part->share.done, memory_order_relaxed);
		if (bench_signal || findings.fatal)
			return;
	}
}

static int
load_by_inserts(struct index_bench *bench)
{
	index_phase(bench, insert_main, bench->keys.pairs);
	bench->load_keys = bench->keys.pairs;
	if (findings_total())
		return findings.fatal ? findings.fatal : -NAM_E_ABORT;
	return 0;
}

int
index_load(struct index_bench *bench)
{
	uint64_t began = ticks_now();
	int rc;

	if (bench->options.load == LOAD_NONE)
		return 0;
	progress_begin("load");
	rc = bench->options.load == LOAD_BULK ? load_bulk(bench) : load_by_inserts(bench);
	bench->load_seconds = ticks_ns(ticks_now() - began) * 1e-9;
	progress_clear();
	return rc;
}
