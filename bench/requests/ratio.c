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

static int
take_turns(struct requests *bench, const struct blocks *blocks)
{
	double seconds = bench->options.run.seconds / ROUNDS, raw_rates[ROUNDS], ratios[ROUNDS];
	struct raw_rate raw = { 0 };
	int rc = raw_find_depth(blocks, bench->options.run.seed, true, &bench->raw_depth);

	for (unsigned i = 0; i < ROUNDS && !rc && !bench_signal; i++) {
		uint64_t reads = session.result.counters.work_requests;
		double cpu_seconds = session.result.cpu_seconds;

		requests_turn(bench, seconds);
		reads = session.result.counters.work_requests - reads;
		cpu_seconds = session.result.cpu_seconds - cpu_seconds;
		rc = session.findings.fatal;
		if (!rc)
			rc = raw_read_rate(blocks, bench->raw_depth, seconds,
				bench->options.run.seed, &raw);
		raw_rates[i] = raw.per_cpu_s;
		ratios[i] = (double)reads / cpu_seconds / raw.per_cpu_s;
	}
	if (rc || bench_signal)
		return rc;
	bench->raw_ratio = report_median(ratios, ROUNDS);
	bench->raw_rate = report_median(raw_rates, ROUNDS);
	return 0;
}

int
requests_ratio_measure(struct requests *bench)
{
	struct nam_diag diag = { "" };
	struct blocks blocks;
	uint32_t units;
	int rc;

	/* The first turn says how long versions are, and warms what there is to be warmed. */
	requests_turn(bench, bench->options.run.seconds / ROUNDS);
	if (session.findings.fatal || bench_signal || !session.result.counters.work_requests)
		return nam_exit_code(session.findings.fatal);
	/* Of a READ of a transaction, to the next multiple of 64. */
	units = (uint32_t)((double)session.result.counters.bytes_in /
			(double)session.result.counters.work_requests / 64 + 0.5);
	bench->raw_bytes = units ? 64 * units : 64;
	rc = blocks_alloc(session_worker(), nam_client_servers(session.client),
		bench->raw_bytes, bench->options.keys * bench->raw_bytes, &blocks, &diag);
	if (rc)
		return bench_failed("--raw-ratio", rc, diag.text);
	rc = raw_blocks_fill(&blocks);
	if (!rc)
		rc = take_turns(bench, &blocks);
	blocks_free(&blocks);
	return rc ? bench_failed("--raw-ratio", rc, NULL) : NAM_EXIT_OK;
}
