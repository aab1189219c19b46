/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- nam-bench compare, from the command line to the report. */
#include "compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/progress.h"
#include "bench/report.h"

#define DEPTH_PASSES 4u
#define DEPTH_SHARE 32		/* of the seconds: a moment */
#define DEPTH_SECONDS_MAX 0.1
/* Of each turn, before it counts: until then caches are those of whose turn was before. */
#define LEAD_IN 0.1

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t raw_depths[] = { 1, 4, 8, 16, 24, 32, 64, 128, 256 };
static const uint32_t fibers[] = { 1, 4, 8, 16, 32, 64, 128, COMPARE_FIBERS_MAX };
static const uint32_t batch_fibers[] = { 1, 2, 4, 8, 16 };
static const uint32_t peer_depths[] = { 1, 4, 16, 64, 128, 256, 512, 1024, 2048,
	PEER_DEPTH_MAX };

static_assert(COUNT(raw_depths) <= COMPARE_DEPTHS_MAX, "room for their rates");
static_assert(COUNT(fibers) <= COMPARE_DEPTHS_MAX, "room for their rates");
static_assert(COUNT(peer_depths) <= COMPARE_DEPTHS_MAX, "room for their rates");

/* ---- who takes part ----------------------------------------------------------------------- */

static void
contender_add(struct compare *compare, enum contender_kind kind, struct ours *ours,
	struct peer *peer)
{
	struct contender *contender = &compare->contenders[compare->contenders_count++];

	contender->kind = kind;
	contender->ours = ours;
	contender->peer = peer;
	switch (kind) {
	case CONTENDER_RAW:
	case CONTENDER_RAW_FIBERS:
		contender->depths = raw_depths;
		contender->depths_count = COUNT(raw_depths);
		return;
	case CONTENDER_LOOKUPS:
		contender->depths = fibers;
		contender->depths_count = COUNT(fibers);
		return;
	case CONTENDER_BATCHES:
		contender->depths = batch_fibers;
		contender->depths_count = COUNT(batch_fibers);
		return;
	default:
		contender->depths = peer_depths;
		contender->depths_count = COUNT(peer_depths);
	}
}

/* Both ways to it, each with a server of its own, for memcached knows only one at a time. */
static int
peers_add(struct compare *compare, const struct protocol *protocol)
{
	const struct compare_options *o = &compare->options;
	char program[PATH_MAX];

	if (!child_find(peer_program(protocol), false, program)) {
		bench_complain("there is no %s in PATH: apt-get install memcached redis-server, or "
			"say --without %s", peer_program(protocol), protocol->name);
		return NAM_EXIT_NO;
	}
	for (int transport = 0; transport < TRANSPORTS_COUNT; transport++) {
		struct peer *peer = &compare->peers[compare->peers_count++];
		int exit_code;

		peer->protocol = protocol;
		peer->transport = (enum transport)transport;
		peer->pairs = o->keys;
		peer->value_bytes = o->value_bytes;
		peer->findings = &compare->findings;
		exit_code = peer_start(peer, program, compare->folder);
		if (exit_code)
			return exit_code;
		contender_add(compare, CONTENDER_PEER, NULL, peer);
	}
	return NAM_EXIT_OK;
}

static int
ours_add(struct compare *compare, const char *fabric)
{
	struct ours *ours = &compare->ours[compare->ours_count++];

	contender_add(compare, CONTENDER_RAW, ours, NULL);
	contender_add(compare, CONTENDER_RAW_FIBERS, ours, NULL);
	contender_add(compare, CONTENDER_LOOKUPS, ours, NULL);
	contender_add(compare, CONTENDER_BATCHES, ours, NULL);
	if (!fabric) {
		ours->cluster = compare->options.cluster;
		return NAM_EXIT_OK;
	}
	ours->fabric = fabric;
	return ours_serve(compare, ours);
}

/* All processes, before there is a thread; nothing of ours, if something of others is missing. */
static int
start_servers(struct compare *compare)
{
	const struct compare_options *o = &compare->options;
	int exit_code = NAM_EXIT_OK;
	int rc = child_folder_make(compare->folder);

	if (rc)
		return bench_failed("a folder for sockets", rc, NULL);
	if (!o->without_memcached)
		exit_code = peers_add(compare, &protocol_memcached);
	if (!exit_code && !o->without_redis)
		exit_code = peers_add(compare, &protocol_redis);
	if (!exit_code && o->cluster)
		exit_code = ours_add(compare, NULL);
	for (unsigned i = 0; i < o->fabrics_count && !exit_code; i++)
		exit_code = ours_add(compare, o->fabrics[i]);
	return exit_code;
}

static int
load(struct compare *compare)
{
	int exit_code = NAM_EXIT_OK;

	progress_begin("load");
	for (unsigned i = 0; i < compare->peers_count && !exit_code; i++) {
		int rc = peer_load(&compare->peers[i]);

		if (rc)
			exit_code = rc == -EINTR ? NAM_EXIT_SIGNAL + bench_signal
						 : NAM_EXIT_REMOTE;
	}
	progress_clear();
	for (unsigned i = 0; i < compare->ours_count && !exit_code; i++)
		exit_code = ours_set_up(compare, &compare->ours[i]);
	return exit_code;
}

static void
tear_down(struct compare *compare)
{
	for (unsigned i = 0; i < compare->ours_count; i++)
		ours_tear_down(&compare->ours[i]);
	for (unsigned i = 0; i < compare->peers_count; i++)
		peer_stop(&compare->peers[i]);
	if (*compare->folder)
		child_folder_remove(compare->folder);
}

/* ---- turns -------------------------------------------------------------------------------- */

static int
turn_once(struct compare *compare, struct contender *contender, uint32_t depth, double seconds,
	uint64_t seed)
{
	if (contender->kind == CONTENDER_PEER)
		return peer_get(contender->peer, depth, seconds, &compare->turn);
	return ours_turn(contender, depth, seconds, seed, &compare->turn);
}

/* The turn is in compare->turn, its rate in *ret_rate. */
static int
turn(struct compare *compare, struct contender *contender, uint32_t depth, double seconds,
	uint64_t seed, double *ret_rate)
{
	int rc;

	progress_show((double)compare->turns_done / compare->turns, compare->turns_done);
	compare->turns_done++;
	rc = turn_once(compare, contender, depth, seconds * LEAD_IN, seed);
	if (!rc)
		rc = turn_once(compare, contender, depth, seconds, seed + 1);
	if (!rc)
		*ret_rate = compare->turn.seconds > 0 ? (double)compare->turn.ops /
								compare->turn.seconds
						      : 0;
	return rc;
}

/* Every depth of one for a moment; the best moment of each depth counts. */
static int
try_depths(struct compare *compare, struct contender *contender, unsigned pass)
{
	double seconds = compare->options.seconds / DEPTH_SHARE;

	if (seconds > DEPTH_SECONDS_MAX)
		seconds = DEPTH_SECONDS_MAX;
	for (unsigned i = 0; i < contender->depths_count; i++) {
		double rate;
		int rc = turn(compare, contender, contender->depths[i], seconds, pass, &rate);

		if (rc)
			return rc;
		if (rate > contender->depth_rates[i])
			contender->depth_rates[i] = rate;
	}
	return 0;
}

/* Several passes over all, so that a bad moment of the machine spoils no best depth. */
static int
find_depths(struct compare *compare)
{
	unsigned count = compare->contenders_count;

	for (unsigned i = 0; i < DEPTH_PASSES * count; i++) {
		int rc = try_depths(compare, &compare->contenders[i % count], i / count);

		if (rc)
			return rc;
	}
	for (unsigned i = 0; i < count; i++) {
		struct contender *contender = &compare->contenders[i];
		unsigned best = 0;

		for (unsigned d = 1; d < contender->depths_count; d++)
			if (contender->depth_rates[d] > contender->depth_rates[best])
				best = d;
		contender->depth = contender->depths[best];
	}
	return 0;
}

/* Each once, beginning with another one than last time. */
static int
round_of_turns(struct compare *compare, unsigned number)
{
	double seconds = compare->options.seconds / COMPARE_ROUNDS;
	unsigned count = compare->contenders_count;

	for (unsigned i = 0; i < count; i++) {
		struct contender *contender = &compare->contenders[(number + i) % count];
		int rc = turn(compare, contender, contender->depth, seconds,
			compare->options.seed + 2 * number, &contender->rates[number]);

		if (rc)
			return rc;
		contender->sum.ops += compare->turn.ops;
		contender->sum.seconds += compare->turn.seconds;
		histogram_merge(&contender->sum.latency, &compare->turn.latency);
	}
	return 0;
}

static void
settle(struct contender *contender)
{
	double rates[COMPARE_ROUNDS];

	memcpy(rates, contender->rates, sizeof(rates));
	contender->median = report_median(rates, COMPARE_ROUNDS);
	contender->best = rates[COMPARE_ROUNDS - 1];
}

static int
measure(struct compare *compare)
{
	unsigned count = compare->contenders_count;
	int rc;

	compare->turns = COMPARE_ROUNDS * count;
	for (unsigned i = 0; i < count; i++)
		compare->turns += DEPTH_PASSES * compare->contenders[i].depths_count;
	progress_begin("turns");
	rc = find_depths(compare);
	for (unsigned i = 0; i < COMPARE_ROUNDS && !rc; i++)
		rc = round_of_turns(compare, i);
	progress_clear();
	for (unsigned i = 0; i < count && !rc; i++)
		settle(&compare->contenders[i]);
	return rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
run(struct compare *compare)
{
	int exit_code = start_servers(compare), rc;

	if (!exit_code)
		exit_code = load(compare);
	if (exit_code)
		return exit_code;
	/* Errors are printed where they happen. */
	rc = measure(compare);
	if (bench_signal)
		return NAM_EXIT_SIGNAL + bench_signal;
	if (rc)
		return nam_exit_code(rc);
	if (compare_report(compare) || compare_errors(compare))
		return NAM_EXIT_NO;
	return NAM_EXIT_OK;
}

int
compare_main(int argc, char **argv)
{
	struct compare *compare = calloc(1, sizeof(*compare));
	int exit_code;

	if (!compare)
		return bench_failed("starting", -ENOMEM, NULL);
	if (compare_options_parse(argc, argv, &compare->options, &exit_code)) {
		free(compare);
		return exit_code;
	}
	ticks_init();
	progress_init(compare->options.quiet);
	bench_catch_signals();
	exit_code = run(compare);
	tear_down(compare);
	free(compare);
	return exit_code;
}
