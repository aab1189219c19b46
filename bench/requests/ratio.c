/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ratio.c -- transactions that read, by turns with READs of as many bytes out of as much
 * memory, so that both meet the same moods of the machine and miss the same caches.
 *
 * Both are counted per second of processor time: what others take of it belongs to neither.
 */
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/raw/bench.h"
#include "requests.h"

#define ROUNDS 5u
#define SEARCH_SECONDS 0.05

/* READs for each second of processor time. */
static int
raw_turn(struct requests *bench, const struct blocks *blocks, uint32_t depth, double seconds,
	double *ret_rate)
{
	struct raw_rate rate;
	int rc = raw_read_rate(bench->pool, blocks, &bench->findings, depth, seconds,
		bench->options.seed, &rate);

	if (!rc)
		*ret_rate = rate.per_cpu_s;
	return rc;
}

static int
find_depth(struct requests *bench, const struct blocks *blocks)
{
	double best = 0, rate;
	int rc = 0;

	for (uint32_t depth = 4; depth <= 64 && !rc; depth *= 2) {
		rc = raw_turn(bench, blocks, depth, SEARCH_SECONDS, &rate);
		if (rc || rate <= best)
			continue;
		best = rate;
		bench->raw_depth = depth;
	}
	return rc;
}

static int
take_turns(struct requests *bench, const struct blocks *blocks)
{
	double seconds = bench->options.seconds / ROUNDS, raw_rates[ROUNDS], ratios[ROUNDS];
	int rc = find_depth(bench, blocks);

	for (unsigned i = 0; i < ROUNDS && !rc && !bench_signal; i++) {
		uint64_t reads = bench->counters.work_requests;
		double cpu_seconds = bench->cpu_seconds;

		requests_turn(bench, seconds);
		reads = bench->counters.work_requests - reads;
		cpu_seconds = bench->cpu_seconds - cpu_seconds;
		rc = bench->findings.fatal;
		if (!rc)
			rc = raw_turn(bench, blocks, bench->raw_depth, seconds, &raw_rates[i]);
		if (!rc)
			ratios[i] = (double)reads / cpu_seconds / raw_rates[i];
	}
	if (rc || bench_signal)
		return rc;
	bench->raw_ratio = report_median(ratios, ROUNDS);
	bench->raw_rate = report_median(raw_rates, ROUNDS);
	return 0;
}

/* The bytes of a READ of a transaction, to the next multiple of 64. */
static uint32_t
read_bytes(const struct requests *bench)
{
	double bytes = (double)bench->counters.bytes_in / (double)bench->counters.work_requests;
	uint32_t units = (uint32_t)(bytes / 64 + 0.5);

	return units ? 64 * units : 64;
}

int
requests_ratio_measure(struct requests *bench)
{
	struct nam_diag diag = { "" };
	struct blocks blocks;
	int rc;

	/* The first turn says how long versions are, and warms what there is to be warmed. */
	requests_turn(bench, bench->options.seconds / ROUNDS);
	if (bench->findings.fatal || bench_signal || !bench->counters.work_requests)
		return nam_exit_code(bench->findings.fatal);
	bench->raw_bytes = read_bytes(bench);
	rc = blocks_alloc(bench->parts[0].member->worker, nam_client_servers(bench->client),
		bench->raw_bytes, bench->options.keys * bench->raw_bytes, &blocks, &diag);
	if (rc)
		return bench_failed("--raw-ratio", rc, diag.text);
	rc = raw_blocks_fill(bench->pool, &blocks, &bench->findings);
	if (!rc)
		rc = take_turns(bench, &blocks);
	blocks_free(&blocks);
	return rc ? bench_failed("--raw-ratio", rc, NULL) : NAM_EXIT_OK;
}
