/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct session session;

const char *const bench_transports[] = { "srq", "mailbox", "fetch", "datagram", NULL };

int
bench_options_resolve(struct bench_options *o, const char *subcommand, double seconds,
	double seconds_simulated, uint32_t memservers)
{
	bool simulated;

	if (o->ops && o->seconds > 0)
		return bench_complain("--ops and --seconds: say one of them");
	if (o->json && report_check(o->json))
		return -1;
	if (o->json && !strcmp(o->json, "-"))
		o->quiet = true;
	if (!o->cluster && subcommand)
		o->cluster = getenv("NAM_CLUSTER");
	if (subcommand && (!o->cluster || !*o->cluster))
		return bench_complain("which memory servers?  Say --cluster shm:PATH,shm:PATH or "
			"@FILE, or set NAM_CLUSTER; see nam-bench %s --help", subcommand);
	simulated = simulation_wanted(o->cluster);
	if (!simulated && (o->memservers || o->clients || o->rpc_threads || o->colocate ||
		o->symmetric))
		return bench_complain("%s: only with --cluster sim:PROFILE, a simulated cluster; "
			"real ones are started by themselves",
			o->memservers ? "--memservers" : o->clients ? "--clients" :
			o->rpc_threads ? "--rpc-threads" :
			o->colocate ? "--colocate" : "--symmetric");
	if (!(o->seconds > 0))
		o->seconds = simulated ? seconds_simulated : seconds;
	if (!o->memservers)
		o->memservers = memservers;
	o->clients += !o->clients;
	return 0;
}

struct run {
	struct bench_options *options;
	const struct session_steps *steps;
	void *bench;
	cJSON *object;			/* NULL: there is no result, or it is not wanted as JSON */
};

static int
connect_client(void *arg, struct nam_client **ret_client)
{
	const struct bench_options *o = arg;
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = o->cluster;
	options.key = o->key;
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
start_threads(struct bench_options *o)
{
	struct thread_pool_others others = { session.simulation, o->clients, connect_client, o };
	struct nam_diag diag = { "" };
	int rc = thread_pool_start(session.client, o->threads,
		session.simulation ? &others : NULL, &session.pool, &diag);

	return rc ? bench_failed("starting the threads", rc, diag.text) : NAM_EXIT_OK;
}

/* Before the last step, which frees what is reported. */
static void
report(struct run *run)
{
	if (!session.result.ops)
		return;
	if (!run->options->quiet)
		run->steps->print(run->bench);
	if (!run->options->json)
		return;
	run->object = cJSON_CreateObject();
	run->steps->json(run->bench, run->object);
}

/* The rest, when all workers are closed: only then it is known which blocks were lost. */
static int
report_end(const struct run *run, const struct blocks_left *left)
{
	int rc;

	if (left->lost)
		bench_complain("warning: %" PRIu64 " blocks could not be given back, because other "
			"clients kept them locked or a memory server did not answer; they stay "
			"allocated until a sweep", left->lost);
	if (left->waiting)
		bench_complain("warning: the memory of %" PRIu64 " blocks cannot be used yet%s%s",
			left->waiting, left->why.text[0] ? ": " : "", left->why.text);
	if (!run->object)
		return 0;
	report_result(run->object, &session.result, findings_total(),
		left->lost, left->waiting);
	rc = report_write(run->object, run->options->json);
	cJSON_Delete(run->object);
	return rc;
}

static int
take_steps(struct run *run)
{
	int exit_code = run->steps->begin(run->bench);

	if (!exit_code) {
		exit_code = run->steps->run(run->bench);
		if (bench_signal)
			exit_code = NAM_EXIT_SIGNAL + bench_signal;
		report(run);
		if (!exit_code)
			exit_code = findings_exit_code();
	}
	run->steps->end(run->bench);
	return exit_code;
}

/* The first client of a simulated cluster, or that of a real one. */
static int
run_all(void *arg, struct simulation *simulation)
{
	struct run *run = arg;
	struct blocks_left left;
	int exit_code = NAM_EXIT_OK;

	session.simulation = simulation;
	if (simulation)
		run->options->cluster = simulation_cluster(simulation);
	if (run->options->cluster)
		exit_code = connect_client(run->options, &session.client);
	if (!exit_code)
		exit_code = start_threads(run->options);
	if (!exit_code)
		exit_code = take_steps(run);
	left = thread_pool_stop(session.pool);
	if (report_end(run, &left) && !exit_code)
		exit_code = NAM_EXIT_NO;
	if (session.client)
		nam_client_close(session.client);
	return exit_code;
}

int
session_main(const struct session_steps *steps, int argc, char **argv, void *bench)
{
	struct run run = { bench, steps, bench, NULL };
	int exit_code;

	if (!nam__options_take(steps->table, argc, argv, bench, &exit_code))
		return exit_code;
	if (steps->resolve(bench))
		return NAM_EXIT_USAGE;
	return simulation_run(run.options, run_all, &run);
}
