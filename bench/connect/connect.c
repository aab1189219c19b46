/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c -- nam-bench connect: clients that join the cluster and leave, one after another. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/session.h"
#include "bench/text.h"
#include "bench/ticks.h"

static struct bench_options options = { .threads = 1, .fibers = 1, .seed = 1 };
static struct histogram *latencies;	/* of each member */

static const struct nam_option rows[] = {
	BENCH_CLUSTER,
	BENCH_LENGTH("3"),
	BENCH_OUTPUT,
	{ 0 },
};

static const struct nam_options_table options_table = {
	.program = "nam-bench connect", .usage = "", .rows = rows,
	.purpose = "Measure how long a client takes to connect to all memory servers, in a closed "
		"loop.",
	.after = NAM_EXIT_HELP,
};

static bool
join_and_leave(struct share *share, struct histogram *latency)
{
	struct nam_client_options client_options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	uint64_t began = ticks_now();
	int rc;

	nam_client_options_init(&client_options);
	client_options.cluster = options.cluster;
	client_options.key = options.key;
	rc = nam_client_connect(&client_options, &client, &diag);
	share->ended = ticks_now();
	if (rc) {
		findings_fatal(rc, "connecting", diag.text);
		return false;
	}
	histogram_record(latency, share->ended - began);
	if (nam_client_servers(client) != nam_client_servers(session.client))
		findings_wrong("%u memory servers instead of %u", nam_client_servers(client),
			nam_client_servers(session.client));
	nam_client_close(client);
	share->done++;
	return true;
}

static void
job_main(struct thread_pool_member *member, void *arg)
{
	struct share share;

	(void)arg;
	share_begin(&share, member, options.ops, options.seconds);
	while (share.remaining-- && share.ended < share.deadline && !bench_signal &&
		!findings.fatal && join_and_leave(&share, &latencies[member->number]))
		atomic_store_explicit(&member->done, share.done, memory_order_relaxed);
	share_end(&share, member);
}

static int
resolve(void *arg)
{
	return bench_options_resolve(arg, "connect", 3, 0.001, 2);
}

static int
begin(void *arg)
{
	(void)arg;
	latencies = calloc(options.threads, sizeof(*latencies));
	return latencies ? NAM_EXIT_OK : bench_failed("starting", -ENOMEM, NULL);
}

static int
run(void *arg)
{
	thread_pool_run(session.pool, job_main, arg, options.ops, options.seconds);
	result_add_shares(&session.result, session.pool);
	for (uint32_t i = 0; i < options.threads; i++)
		histogram_merge(&session.result.latency, &latencies[i]);
	return nam_exit_code(findings.fatal);
}

static double
p10_ns(void)
{
	return ticks_ns((uint64_t)histogram_quantile(&session.result.latency, 0.1));
}

static void
print(void *arg)
{
	(void)arg;
	report_heading("connect");
	printf("  clients     %" PRIu64 ", of %u thread%s, to %u memory server%s\n",
		session.result.ops, options.threads, options.threads == 1 ? "" : "s",
		nam_client_servers(session.client),
		nam_client_servers(session.client) == 1 ? "" : "s");
	report_print_latency(&session.result.latency);
	printf("              p10 %s\n", text_ns(p10_ns()));
}

static void
json(void *arg, cJSON *object)
{
	(void)arg;
	cJSON_AddStringToObject(object, "workload", "connect");
	cJSON_AddStringToObject(object, "fabric", nam_client_fabric(session.client));
	report_number(object, "memservers", nam_client_servers(session.client));
	report_number(object, "threads", options.threads);
	report_number(object, "p10_ns", p10_ns());
}

static void
end(void *arg)
{
	(void)arg;
	free(latencies);
}

int
connect_main(int argc, char **argv)
{
	static const struct session_steps steps = {
		&options_table, resolve, begin, run, print, json, end
	};

	return session_main(&steps, argc, argv, &options);
}
