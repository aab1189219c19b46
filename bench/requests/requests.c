/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c -- what nam-bench rpc, kv and ramp have in common. */
#include "requests.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "bench/bench.h"
#include "bench/report.h"
#include "bench/text.h"

#define ZIPF_THETA 0.99

/* ---- keys --------------------------------------------------------------------------------- */

void
requests_keys_init(struct requests *bench)
{
	(void)snprintf(bench->name, sizeof(bench->name), "bench-%s-%u", bench->kind->name,
		nam_client_id(bench->client));
	zipf_init(&bench->zipf, bench->options.keys, ZIPF_THETA);
	bench->reads_below = (uint64_t)ceil(bench->options.get_percent * REQUESTS_DICE / 100);
}

const char *
requests_distribution(const struct requests_options *o)
{
	return o->zipfian ? "zipfian 0.99" : "uniform";
}

void
requests_keys_json(const struct requests_options *o, cJSON *object)
{
	report_number(object, "keys", (double)o->keys);
	cJSON_AddStringToObject(object, "distribution", o->zipfian ? "zipfian" : "uniform");
	if (o->mixed)
		cJSON_AddStringToObject(object, "value_bytes", "mixed");
	else
		report_number(object, "value_bytes", o->value_bytes);
}

/* ---- measuring ---------------------------------------------------------------------------- */

static int
measure(struct requests *bench)
{
	int exit_code = 0;

	if (bench->options.raw_ratio)
		exit_code = requests_ratio_measure(bench);
	else
		requests_turn(bench, bench->options.seconds);
	for (unsigned i = 0; i < thread_pool_size(bench->pool); i++)
		histogram_merge(&bench->result.latency, &bench->parts[i].latency);
	return exit_code ? exit_code : nam_exit_code(bench->findings.fatal);
}

/* ---- reporting ---------------------------------------------------------------------------- */

static const char *
transport_name(const struct requests_options *o)
{
	return o->ramp_transport ? o->ramp_transport : nam_transport_name(o->transport);
}

static void
print_results(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	const struct result *result = &bench->result;
	struct per_op per_op = per_op_of(&result->counters, (double)result->ops);

	report_heading(o->subcommand);
	bench->kind->print(bench);
	printf("  requests    %s, %u client%s of %u thread%s of %u fiber%s\n",
		transport_name(o), o->clients, o->clients == 1 ? "" : "s", o->threads,
		o->threads == 1 ? "" : "s", o->fibers, o->fibers == 1 ? "" : "s");
	printf("  rate        %s/s\n", text_count(result->ops_per_s));
	report_print_latency(&result->latency);
	printf("  per request round trips %.3f  work requests %.3f  bytes in %.1f  out %.1f\n",
		per_op.round_trips, per_op.work_requests, per_op.bytes_in, per_op.bytes_out);
	if (o->raw_ratio)
		printf("  raw         READs of %u bytes, %u under way, %s/s of processor time; "
			"transactions read %.3f times as many\n", bench->raw_bytes,
			bench->raw_depth, text_count(bench->raw_rate), bench->raw_ratio);
	printf("  errors      %" PRIu64 "\n", findings_total(&bench->findings));
}

static int
report(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	cJSON *object;
	int rc;

	if (!o->quiet)
		print_results(bench);
	if (!o->json)
		return 0;
	object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "workload", o->subcommand);
	cJSON_AddStringToObject(object, "fabric", nam_client_fabric(bench->client));
	cJSON_AddStringToObject(object, "transport", transport_name(o));
	bench->kind->json(bench, object);
	report_number(object, "fetch_bytes", o->fetch_bytes);
	report_number(object, "clients", o->clients);
	report_number(object, "threads", o->threads);
	report_number(object, "fibers", o->fibers);
	report_number(object, "batch", o->batch);
	report_number(object, "memservers", nam_client_servers(bench->client));
	if (o->raw_ratio) {
		report_number(object, "raw_bytes", bench->raw_bytes);
		report_number(object, "raw_depth", bench->raw_depth);
		report_number(object, "raw_ops_per_cpu_s", bench->raw_rate);
		report_number(object, "raw_ratio", bench->raw_ratio);
	}
	report_result(object, &bench->result, findings_total(&bench->findings));
	rc = report_write(object, o->json);
	cJSON_Delete(object);
	return rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
connect_client(void *arg, struct nam_client **ret_client)
{
	const struct requests *bench = arg;
	const struct requests_options *o = &bench->options;
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = o->cluster;
	options.name = "nam-bench";
	options.transport = o->transport;
	options.frame_bytes = o->frame_bytes;
	options.fetch_bytes = o->fetch_bytes;
	options.fetch_always = o->fetch_always;
	if (options.fibers_max < o->fibers)
		options.fibers_max = o->fibers;
	rc = nam_client_connect(&options, ret_client, &diag);
	return rc ? bench_failed(NULL, rc, diag.text) : NAM_EXIT_OK;
}

static int
set_up(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	struct thread_pool_others others = { bench->simulation, o->clients, connect_client, bench };
	struct nam_diag diag = { "" };
	int exit_code = connect_client(bench, &bench->client), rc;

	if (exit_code)
		return exit_code;
	rc = thread_pool_start(bench->client, o->threads, bench->simulation ? &others : NULL,
		&bench->pool, &diag);
	if (rc)
		return bench_failed("starting the threads", rc, diag.text);
	bench->parts = calloc(thread_pool_size(bench->pool), sizeof(*bench->parts));
	if (!bench->parts)
		return bench_failed("starting", -ENOMEM, NULL);
	for (unsigned i = 0; i < thread_pool_size(bench->pool); i++) {
		bench->parts[i].bench = bench;
		bench->parts[i].member = thread_pool_member(bench->pool, i);
		bench->parts[i].rng = nam_rng_seed(o->seed * 1000003 + i);
	}
	return bench->kind->begin ? bench->kind->begin(bench) : NAM_EXIT_OK;
}

static int
run_all(void *arg, struct simulation *simulation)
{
	struct requests *bench = arg;
	int exit_code;

	if (simulation) {
		bench->simulation = simulation;
		bench->options.cluster = simulation_cluster(simulation);
	}
	exit_code = set_up(bench);
	if (!exit_code) {
		exit_code = measure(bench);
		if (bench_signal)
			exit_code = NAM_EXIT_SIGNAL + bench_signal;
		if (bench->result.ops && report(bench) && !exit_code)
			exit_code = NAM_EXIT_NO;
		if (!exit_code && findings_total(&bench->findings))
			exit_code = NAM_EXIT_NO;
	}
	if (bench->parts && bench->kind->end)
		bench->kind->end(bench);
	if (bench->pool)
		thread_pool_stop(bench->pool);
	if (bench->client)
		nam_client_close(bench->client);
	free(bench->parts);
	return exit_code;
}

/* The environment's, if no option says one: so that the report can name it. */
static int
choose_transport(struct requests_options *o)
{
	const char *name = getenv("NAM_TRANSPORT");

	if (o->transport)
		return 0;
	o->transport = NAM_TRANSPORT_SRQ;
	if (!name || !*name)
		return 0;
	if (nam_transport_find(name) < 0) {
		bench_complain("NAM_TRANSPORT in the environment is '%s'; known are srq, mailbox, "
			"fetch and datagram", name);
		return -EINVAL;
	}
	o->transport = (enum nam_transport)nam_transport_find(name);
	return 0;
}

int
requests_main(const struct requests_kind *kind, int argc, char **argv)
{
	struct requests *bench = calloc(1, sizeof(*bench));
	struct requests_options *o;
	int exit_code;

	if (!bench)
		return bench_failed("starting", -ENOMEM, NULL);
	bench->kind = kind;
	o = &bench->options;
	if (requests_options_parse(kind->name, argc, argv, o, &exit_code)) {
		free(bench);
		return exit_code;
	}
	exit_code = NAM_EXIT_USAGE;
	if (!choose_transport(o))
		exit_code = simulation_run(&(struct simulation_options){
			.cluster = o->cluster,
			.memservers = o->memservers,
			.rpc_threads = o->rpc_threads,
			.seed = o->seed,
		}, true, run_all, bench);
	free(bench);
	return exit_code;
}
