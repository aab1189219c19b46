/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- nam-bench index, from the command line to the report. */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

#define WARMUP_MIN 100000u
#define WARMUP_SECONDS 5

/* ---- setting up --------------------------------------------------------------------------- */

/* Which pairs there are, once this process has an id. */
static int
lay_out_keys(struct index_bench *bench)
{
	struct index_bench_options *o = &bench->options;
	const double *share = o->workload.share;
	bool victims = share[OP_DELETE] > 0 && o->load != LOAD_NONE;

	if (keys_init(&bench->keys, o->keys, o->dup_shift, o->index.key_bytes,
		    nam_client_id(session.client), victims, o->run.seed)) {
		bench_complain("--keys: %" PRIu64 " leave no gaps for inserts", o->keys);
		return NAM_EXIT_USAGE;
	}
	/* An earlier run on a kept index may have updated it, or inserted. */
	bench->keys.versions = !o->dup_shift && (share[OP_UPDATE] > 0 || share[OP_RMW] > 0 ||
							share[OP_UPSERT] > 0 ||
							o->load == LOAD_NONE);
	return NAM_EXIT_OK;
}

static void
lay_out(struct index_bench *bench)
{
	struct index_bench_options *o = &bench->options;
	const double *share = o->workload.share;
	bool changes = share[OP_INSERT] > 0 || share[OP_UPSERT] > 0 || share[OP_DELETE] > 0;

	bench->dense = !changes && o->load != LOAD_NONE;
	bench->fibers_count = (uint64_t)index_threads(bench) * o->run.fibers;
	op_mix_init(&bench->mix, &o->workload);
	zipf_init(&bench->zipf, o->keys, o->theta);
	permutation_init(&bench->scatter, o->keys, o->run.seed + 2);
	bench->warm_seconds = o->warmup == UINT64_MAX ? WARMUP_SECONDS : 0;
	if (o->warmup == UINT64_MAX) {
		/* Several lookups under each of the lowest inner nodes. */
		uint64_t fanout = o->index.node_bytes / 16, least = WARMUP_MIN;

		/* Simulated, there is nothing but the cache to be warmed, but of each client. */
		if (bench->network)
			least = 16 * fanout;
		o->warmup = o->keys * (bench->network ? 4 : 16) / (fanout * fanout);
		if (o->warmup < least)
			o->warmup = o->keys < least ? o->keys : least;
		if (!index_has_cache(bench))
			o->warmup = 0;
	}
}

/* An index that was kept: is it of the kind that the options say?  0 or -1. */
static int
check_properties(const struct index_bench *bench)
{
	const struct nam_index_options *is = nam_index_properties(bench->index);
	const struct nam_index_traits *traits = nam_index_traits(is->design);
	const struct index_bench_options *o = &bench->options;
	const struct nam_index_options *wanted = &o->index;

	if (o->design_set && traits != nam_index_traits(wanted->design))
		return bench_complain("index '%s' is %s: leave --design away", bench->name,
			traits->name);
	if (o->partitioning_set && strcmp(nam_partitioning_name(is),
					    nam_partitioning_name(wanted)) != 0)
		return bench_complain("index '%s' is %s, partitioning %s: leave --partition away",
			bench->name, traits->name, nam_partitioning_name(is));
	if (is->key_bytes != wanted->key_bytes)
		return bench_complain("index '%s' has keys of %u bytes: say --key-bytes %u",
			bench->name, is->key_bytes, is->key_bytes);
	if (is->unique != wanted->unique)
		return bench_complain("index '%s' is %s: %s", bench->name,
			is->unique ? "unique" : "not unique",
			is->unique ? "leave --non-unique away" : "say --non-unique");
	if (o->node_bytes_set && is->node_bytes != wanted->node_bytes)
		return bench_complain("index '%s' has nodes of %u bytes: leave --node-bytes away",
			bench->name, is->node_bytes);
	if (o->head_interval_set && is->head_interval != wanted->head_interval)
		return bench_complain("index '%s' has %u leaves per head node: leave "
			"--head-interval away", bench->name, is->head_interval);
	return 0;
}

/* By range: where parts begin, for nam_index_create().  An exit code. */
static int
set_bounds(struct index_bench *bench)
{
	struct index_bench_options *o = &bench->options;
	uint32_t servers = nam_client_servers(session.client);

	if (o->shares_count && o->shares_count != servers) {
		bench_complain("--shares: %u shares for %u memory servers", o->shares_count,
			servers);
		return NAM_EXIT_USAGE;
	}
	if (!nam_index_traits(o->index.design)->partitioned ||
		o->index.partitioning != NAM_PARTITION_RANGE || servers < 2)
		return NAM_EXIT_OK;
	bench->bounds = malloc((size_t)servers * o->index.key_bytes);
	if (!bench->bounds)
		return bench_failed("starting", -ENOMEM, NULL);
	index_bounds(&bench->keys, o->shares_count ? o->shares : NULL, servers, bench->bounds);
	o->index.bounds = bench->bounds;
	o->index.bounds_count = servers - 1;
	return NAM_EXIT_OK;
}

static int
open_index(struct index_bench *bench)
{
	struct index_bench_options *o = &bench->options;
	struct nam_worker *worker = session_worker();
	int exit_code = NAM_EXIT_OK, rc;

	if (o->name)
		snprintf(bench->name, sizeof(bench->name), "%s", o->name);
	else
		snprintf(bench->name, sizeof(bench->name), "nam-bench.%u",
			nam_client_id(session.client));
	if (o->load != LOAD_NONE) {
		exit_code = set_bounds(bench);
		if (exit_code)
			return exit_code;
		rc = nam_index_create(worker, bench->name, &o->index);
		if (rc == -NAM_E_INDEX_EXISTS) {
			bench_complain("index '%s' exists already: use it with --load none, choose "
				"another --name, or 'namctl index drop %s'", bench->name,
				bench->name);
			return NAM_EXIT_CONFLICT;
		}
		if (rc)
			return bench_failed("creating the index", rc, nam_worker_diag(worker));
		bench->created = true;
	}
	rc = nam_index_open(worker, bench->name, o->cache_bytes, &bench->index);
	if (rc)
		return bench_failed(bench->name, rc, nam_worker_diag(worker));
	if (o->load == LOAD_NONE && check_properties(bench))
		exit_code = NAM_EXIT_USAGE;
	o->index = *nam_index_properties(bench->index);
	return exit_code;
}

/* Simulated clients beside the first open the index, each for itself. */
static void
open_main(struct thread_pool_member *member, void *arg)
{
	struct index_bench *bench = arg;
	uint32_t client = member->number / bench->options.run.threads;
	int rc;

	if (!client || member->number % bench->options.run.threads)
		return;
	rc = nam_index_open(member->worker, bench->name, bench->options.cache_bytes,
		&bench->others[client]);
	if (rc)
		findings_fatal(rc, "opening the index", nam_worker_diag(member->worker));
}

static int
others_open(struct index_bench *bench)
{
	if (bench->others || bench->options.run.clients < 2)
		return 0;
	bench->others = calloc(bench->options.run.clients, sizeof(struct nam_index *));
	if (!bench->others)
		return -ENOMEM;
	thread_pool_run(session.pool, open_main, bench, 0, 0);
	return findings.fatal;
}

static void
others_close(struct index_bench *bench)
{
	for (uint32_t i = 1; bench->others && i < bench->options.run.clients; i++)
		if (bench->others[i])
			nam_index_close(bench->others[i]);
	free(bench->others);
}

static int
set_up(void *arg)
{
	struct index_bench *bench = arg;
	int exit_code, rc;

	if (session.simulation)
		bench->network = simulation_network(session.simulation);
	exit_code = lay_out_keys(bench);
	if (!exit_code)
		exit_code = open_index(bench);
	if (exit_code)
		return exit_code;
	lay_out(bench);
	rc = index_parts_init(bench);
	return rc ? bench_failed("preparing the threads", rc, NULL) : NAM_EXIT_OK;
}

static void
tear_down(void *arg)
{
	struct index_bench *bench = arg;

	others_close(bench);
	if (bench->index)
		nam_index_close(bench->index);
	if (bench->created && !bench->options.keep) {
		struct nam_worker *worker = session_worker();
		int rc = nam_index_drop(worker, bench->name); /* SUSPENDS */

		if (rc && !findings.fatal)
			bench_failed("dropping the index", rc, nam_worker_diag(worker));
	}
	index_parts_free(bench);
	free(bench->bounds);
}

/* ---- measuring ---------------------------------------------------------------------------- */

static double
turn(void *arg, unsigned number)
{
	struct index_bench *bench = arg;
	const struct index_bench_options *o = &bench->options;
	uint64_t ops = o->run.ops / RAW_TURNS + (number < o->run.ops % RAW_TURNS);
	uint64_t ops_before = session.result.ops;
	double seconds_before = session.result.seconds;

	/* READs have had the caches. */
	index_warm(bench);
	index_run(bench, o->run.ops && !ops ? 1 : ops, o->run.seconds / RAW_TURNS);
	return (double)(session.result.ops - ops_before) /
	       (session.result.seconds - seconds_before);
}

/* By turns with READs of one node, out of as much memory as the index has. */
static int
measure_with_raw(struct index_bench *bench)
{
	const struct index_bench_options *o = &bench->options;
	int rc;

	bench->raw = (struct raw_turns){
		.bytes = o->index.node_bytes,
		.memory_bytes = bench->loaded_stat_known ? bench->loaded_stat.remote_bytes
							 : 256u << 20,
		.seconds = o->run.ops ? 0.5 : o->run.seconds / RAW_TURNS,
		.seed = o->run.seed,
		.turn = turn,
		.arg = bench,
	};
	rc = raw_turns_run(&bench->raw);
	if (bench->raw.rate > 0)
		session.result.ops_per_s = bench->raw.rate;
	return rc;
}

static int
measure(struct index_bench *bench)
{
	const struct index_bench_options *o = &bench->options;
	struct index_background background = { .bench = bench };
	int rc;

	index_warm(bench);
	if (findings.fatal)
		return findings.fatal;
	rc = index_background_start(&background);
	if (!rc && o->raw_ratio)
		rc = measure_with_raw(bench);
	else if (!rc)
		index_run(bench, o->run.ops, o->run.seconds);
	index_background_stop(&background);
	return rc ? rc : findings.fatal;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
take_stat(struct index_bench *bench, struct nam_index_stat *stat, bool *known)
{
	int rc = nam_index_stat(session_worker(), bench->index, stat); /* SUSPENDS */

	if (rc)
		bench_failed("the index's figures", rc, nam_worker_diag(session_worker()));
	*known = !rc;
	return rc;
}

static int
run(void *arg)
{
	struct index_bench *bench = arg;
	uint32_t levels = nam_index_traits(bench->options.index.design)->client_levels, height;
	int rc = 0;

	if (bench->options.load == LOAD_INSERT)
		rc = others_open(bench);
	if (!rc)
		rc = index_load(bench);
	if (!rc && !bench_signal)
		rc = others_open(bench);
	if (!rc && !bench_signal)
		rc = take_stat(bench, &bench->loaded_stat, &bench->loaded_stat_known);
	height = bench->loaded_stat.height;
	if (!rc && session.simulation)
		simulation_levels(session.simulation, height > levels ? height - levels : 0);
	if (!rc && !bench_signal)
		rc = measure(bench);
	if (!rc && !bench_signal)
		rc = take_stat(bench, &bench->final_stat, &bench->final_stat_known);
	if (!rc && !bench_signal && bench->options.verify) {
		rc = index_verify(bench);
		if (rc && rc != -EINTR)
			bench_failed("verifying", rc, nam_worker_diag(session_worker()));
	}
	/* Errors were printed where they happened. */
	return nam_exit_code(rc);
}

int
index_main(int argc, char **argv)
{
	static const struct session_steps steps = {
		&index_options_table, index_options_resolve, set_up, run, index_print, index_json,
		tear_down
	};
	static struct index_bench bench;

	index_options_init(&bench.options);
	return session_main(&steps, argc, argv, &bench);
}
