/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- what nam-bench index found, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench.h"
#include "bench/report.h"
#include "bench/text.h"

/* Which of the library's kinds an operation is; rmw is two and has none. */
static const enum nam_op_kind kind_of[OPS_COUNT] = {
	[OP_LOOKUP] = NAM_OP_LOOKUP,
	[OP_INSERT] = NAM_OP_INSERT,
	[OP_UPDATE] = NAM_OP_UPDATE,
	[OP_UPSERT] = NAM_OP_UPSERT,
	[OP_DELETE] = NAM_OP_DELETE,
	[OP_SCAN] = NAM_OP_SCAN,
	[OP_RMW] = NAM_OP_OTHER,
};

/* ---- figures ------------------------------------------------------------------------------ */

/* The cost of one operation of this kind; a read-modify-write is a lookup and an update. */
static struct per_op
per_op_by(const struct index_bench *bench, enum workload_op op)
{
	const struct nam_op_counters *counters;

	if (op == OP_RMW) {
		struct per_op lookup = per_op_by(bench, OP_LOOKUP);
		struct per_op update = per_op_by(bench, OP_UPDATE);

		return per_op_sum(&lookup, &update);
	}
	counters = &bench->result.counters[kind_of[op]];
	return per_op_of(counters, (double)counters->ops);
}

/* Memory of a memory server's process beyond its regions, which are shared memory; 0: unknown. */
static uint64_t
private_bytes(uint64_t pid)
{
	char line[128];
	uint64_t kb = 0;
	FILE *file;

	snprintf(line, sizeof(line), "/proc/%" PRIu64 "/status", pid);
	file = fopen(line, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		uint64_t some;

		if (sscanf(line, "RssAnon: %" SCNu64, &some) == 1 ||
			sscanf(line, "RssFile: %" SCNu64, &some) == 1)
			kb += some;
	}
	fclose(file);
	return kb << 10;
}

static double
bytes_per_entry(const struct nam_index_stat *stat)
{
	return stat->entries ? (double)stat->remote_bytes / (double)stat->entries : 0;
}

/* --raw-ratio: bytes that the workload moves per byte that raw READs move. */
static double
bandwidth_ratio(const struct index_bench *bench)
{
	const struct result *all = &session.result;
	struct per_op per_op = per_op_of(&all->counters, (double)all->ops);

	return (per_op.bytes_in + per_op.bytes_out) / bench->options.index.node_bytes *
	       bench->raw.ratio;
}

/* Leaves that were where the cache said, of all that were wanted. */
static double
hit_rate(const struct nam_op_counters *sum)
{
	uint64_t wanted = sum->cache_hits + sum->cache_misses + sum->cache_stale;

	return wanted ? (double)sum->cache_hits / (double)wanted : 0;
}

/* ---- table -------------------------------------------------------------------------------- */

static void
print_parts(const struct index_bench_options *o)
{
	if (!nam_index_traits(o->index.design)->partitioned)
		return;
	printf("  parts       by %s", nam_partitioning_name(&o->index));
	for (uint32_t i = 0; i < o->shares_count; i++)
		printf("%s%g", i ? "/" : ", ", o->shares[i]);
	printf("%s\n", o->shares_count ? " % of the loaded keys" : "");
}

static void
print_head(const struct index_bench *bench)
{
	const struct index_bench_options *o = &bench->options;

	if (bench->network) {
		char heading[64];

		snprintf(heading, sizeof(heading), "index, simulated: %s", bench->network->name);
		report_heading(heading);
	} else {
		report_heading("index");
	}
	printf("  workload    %s (", o->workload.name);
	for (int op = 0, first = 1; op < OPS_COUNT; op++) {
		if (!(o->workload.share[op] > 0))
			continue;
		printf("%s%s %.3g %%", first ? "" : ", ", workload_op_names[op],
			o->workload.share[op] * 100);
		first = 0;
	}
	printf("), %s\n", distribution_names[o->workload.distribution]);
	if (o->workload.share[OP_SCAN] > 0 && o->workload.selectivity > 0)
		printf("  scans       %g of the key space\n", o->workload.selectivity);
	else if (o->workload.share[OP_SCAN] > 0)
		printf("  scans       %s%u entries%s%s\n",
			o->workload.scan_uniform ? "1 to " : "", o->workload.scan_length,
			o->reverse ? ", downwards" : "", o->copy ? ", copied out" : "");
	printf("  index       %s, %s, keys of %u bytes, nodes of %u bytes, cache %s\n",
		nam_index_traits(o->index.design)->name, o->index.unique ? "unique" : "non-unique",
		o->index.key_bytes, o->index.node_bytes, text_bytes((double)o->cache_bytes));
	print_parts(o);
	printf("  cluster     %u memory server%s over %s", nam_client_servers(session.client),
		nam_client_servers(session.client) == 1 ? "" : "s",
		nam_client_fabric(session.client));
	if (bench->network)
		printf(", of %.0f handler threads each", bench->network->rpc_threads);
	if (o->run.transport)
		printf(", requests by %s", nam_transport_name(o->run.transport));
	putchar('\n');
	printf("  clients     ");
	if (bench->network)
		printf("%u of ", o->run.clients);
	printf("%u thread%s of %u fibers", o->run.threads, o->run.threads == 1 ? "" : "s",
		o->run.fibers);
	if (o->batch > 1)
		printf(", lookups of %u keys a call", o->batch);
	putchar('\n');
	if (bench->load_keys)
		printf("  loaded      %s pairs %s in %.3g s: %s/s\n",
			text_count((double)bench->load_keys),
			o->load == LOAD_BULK ? "in bulk" : "by inserts", bench->load_seconds,
			text_count((double)bench->load_keys / bench->load_seconds));
}

/* Decimal places that leave a blank before the number in a column of six. */
static int
places(double value)
{
	return value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
}

static void
print_row(const char *name, double ops, const struct histogram *histogram,
	const struct per_op *per_op)
{
	struct latency_ns latency = latency_of(histogram);

	printf("  %-7s%8s%9s%9s%9s%6.*f%6.*f%6.*f%9.1f%8.1f\n", name, text_count(ops),
		text_ns(latency.p50), text_ns(latency.p99), text_ns(latency.max),
		places(per_op->round_trips), per_op->round_trips, places(per_op->doorbells),
		per_op->doorbells, places(per_op->work_requests), per_op->work_requests,
		per_op->bytes_in, per_op->bytes_out);
}

static void
print_operations(const struct index_bench *bench)
{
	const struct index_result *result = &bench->result;
	const struct nam_op_counters *sum = &session.result.counters;
	struct per_op per_op;

	report_heading("  op          ops      p50      p99      max trips bells   wrs bytes in"
		       "     out");
	for (int op = 0; op < OPS_COUNT; op++) {
		double ops = (double)histogram_count(&result->latency[op]);

		if (!(ops > 0))
			continue;
		per_op = per_op_by(bench, (enum workload_op)op);
		print_row(workload_op_names[op], ops, &result->latency[op], &per_op);
	}
	per_op = per_op_of(sum, (double)session.result.ops);
	print_row("all", (double)session.result.ops, &session.result.latency, &per_op);
	printf("\n  splits %" PRIu64 "; restarts %" PRIu64, sum->splits,
		nam_op_counters_restarts(sum));
	for (int cause = 0; cause < NAM_RESTART_CAUSES_COUNT; cause++)
		if (sum->restarts[cause])
			printf(", %s %" PRIu64,
				nam_restart_cause_name((enum nam_restart_cause)cause),
				sum->restarts[cause]);
	putchar('\n');
	if (sum->colocated_reads || sum->colocated_calls)
		printf("  local READs %" PRIu64 ", requests %" PRIu64
			": copies within the own host\n", sum->colocated_reads,
			sum->colocated_calls);
	if (index_has_cache(bench))
		printf("  cache hits %.2f %%: %" PRIu64 "; misses %" PRIu64 "; stale %" PRIu64 "\n",
			hit_rate(sum) * 100, sum->cache_hits, sum->cache_misses, sum->cache_stale);
}

static void
print_slices(const struct index_bench *bench)
{
	if (!bench->slices_count)
		return;
	report_heading(bench->options.failover ? "  until      rate/s   memory servers   backups" :
		"  until      rate/s   memory servers");
	for (uint32_t i = 0; i < bench->slices_count; i++) {
		const struct index_slice *slice = &bench->slices[i];

		printf("  %-9s%8s%17u", text_ns(slice->seconds * 1e9),
			text_count(slice->ops_per_s), slice->memservers);
		if (bench->options.failover)
			printf("%10u", slice->backups);
		printf("\n");
	}
}

static void
print_servers(struct index_bench *bench)
{
	for (uint32_t slot = 0; slot < nam_client_servers(session.client); slot++) {
		struct nam_server_status status;
		uint64_t beyond;

		if (slot == INDEX_SERVERS_SHOWN) {
			printf("              and more servers\n");
			return;
		}
		if (nam_server_status_get(session_worker(), slot, &status)) /* SUSPENDS */
			continue;
		printf("  server %-4u %s of %s in use", status.id,
			text_bytes((double)(status.carved_bytes - status.free_bytes)),
			text_bytes((double)status.memory_bytes));
		beyond = bench->network ? 0 : private_bytes(status.pid);
		if (beyond)
			printf(", its process %s beyond that", text_bytes((double)beyond));
		putchar('\n');
	}
}

static void
print_memory(struct index_bench *bench)
{
	const struct nam_index_stat *stat = &bench->final_stat;

	report_heading("memory");
	if (bench->loaded_stat_known && bench->options.load != LOAD_NONE)
		printf("  loaded      %.2f bytes of remote memory per entry\n",
			bytes_per_entry(&bench->loaded_stat));
	if (bench->final_stat_known)
		printf("  now         %.2f bytes per entry: %s entries in %s, leaves %.0f %% full, "
		       "height %u\n", bytes_per_entry(stat), text_count((double)stat->entries),
			text_bytes((double)stat->remote_bytes), stat->leaf_fill * 100,
			stat->height);
	if (bench->final_stat_known && nam_index_traits(bench->options.index.design)->client_levels)
		printf("  cache       %s for %" PRIu64 " inner nodes\n",
			text_bytes((double)stat->cache_bytes), stat->cache_nodes);
	printf("  worker      %s\n", text_bytes((double)nam_worker_bytes(session_worker())));
	print_servers(bench);
}

void
index_print(void *arg)
{
	struct index_bench *bench = arg;
	const struct index_result *result = &bench->result;

	print_head(bench);
	printf("  rate        %s operations/s over %.3g s", text_count(session.result.ops_per_s),
		session.result.seconds);
	if (result->entries)
		printf(", %s entries/s scanned",
			text_count((double)result->entries / session.result.seconds));
	putchar('\n');
	if (bench->warm_cut)
		printf("  warm-up     ended after %u s and %s lookups, so the cache may not be "
		       "full: --warmup asks for more\n", bench->warm_seconds,
			text_count((double)bench->warm_lookups));
	report_print_latency(&session.result.latency);
	if (index_threads(bench) > 1)
		printf("  threads     the slowest completed %" PRIu64 " operations, the fastest %"
		       PRIu64 "\n", result->slowest_ops, result->fastest_ops);
	if (bench->raw.ratio > 0)
		printf("  raw READs   %s/s of %u bytes at depth %u\n"
		       "  ratio       workload / raw: operations %.3f, bytes %.3f\n",
			text_count(bench->raw.raw_rate), bench->options.index.node_bytes,
			bench->raw.raw_depth, bench->raw.ratio, bandwidth_ratio(bench));
	print_operations(bench);
	print_slices(bench);
	if (bench->collected.passes)
		printf("  collector   %" PRIu64 " passes, %" PRIu64 " merges, %" PRIu64
		       " nodes retired, %" PRIu64 " reusable again\n", bench->collected.passes,
			bench->collected.merges, bench->collected.nodes_retired,
			bench->collected.nodes_reusable);
	print_memory(bench);
	report_heading("answers");
	if (bench->verified)
		printf("  verified    %" PRIu64 " entries, %" PRIu64 " violations\n",
			bench->verified_entries, bench->violations);
	printf("  errors      %" PRIu64 " (wrong %" PRIuFAST64 ", missing %" PRIuFAST64
	       ", failed %" PRIuFAST64 ")\n", findings_total(),
		findings.wrong, findings.missing, findings.failed);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void
json_operations(cJSON *object, const struct index_bench *bench)
{
	const struct index_result *result = &bench->result;
	cJSON *inside = cJSON_AddObjectToObject(object, "by_operation");

	for (int op = 0; op < OPS_COUNT; op++) {
		double ops = (double)histogram_count(&result->latency[op]);
		struct per_op per_op;
		cJSON *one;

		if (!(ops > 0))
			continue;
		per_op = per_op_by(bench, (enum workload_op)op);
		one = cJSON_AddObjectToObject(inside, workload_op_names[op]);
		report_number(one, "ops", ops);
		report_latency(one, &result->latency[op]);
		report_per_op(one, &per_op);
	}
}

/* How often walks began anew, and what the cache knew. */
static void
json_walks(cJSON *object, const struct nam_op_counters *sum, bool has_cache)
{
	cJSON *causes = cJSON_AddObjectToObject(object, "restarts"), *cache;

	for (int cause = 0; cause < NAM_RESTART_CAUSES_COUNT; cause++)
		report_number(causes, nam_restart_cause_name((enum nam_restart_cause)cause),
			(double)sum->restarts[cause]);
	report_number(object, "splits", (double)sum->splits);
	report_number(object, "cache_misses", (double)sum->cache_misses);
	if (!has_cache)
		return;
	cache = cJSON_AddObjectToObject(object, "cache");
	report_number(cache, "hits", (double)sum->cache_hits);
	report_number(cache, "misses", (double)sum->cache_misses);
	report_number(cache, "stale", (double)sum->cache_stale);
	report_number(cache, "hit_rate", hit_rate(sum));
}

static void
json_slices(cJSON *object, const struct index_bench *bench)
{
	cJSON *slices;

	if (!bench->slices_count)
		return;
	slices = cJSON_AddArrayToObject(object, "slices");
	for (uint32_t i = 0; i < bench->slices_count; i++) {
		const struct index_slice *slice = &bench->slices[i];
		cJSON *one = cJSON_CreateObject();

		report_number(one, "seconds", slice->seconds);
		report_number(one, "ops", (double)slice->ops);
		report_number(one, "ops_per_s", slice->ops_per_s);
		report_number(one, "memservers", slice->memservers);
		if (bench->options.failover)
			report_number(one, "backups", slice->backups);
		cJSON_AddItemToArray(slices, one);
	}
}

static void
json_memory(cJSON *object, struct index_bench *bench)
{
	cJSON *memory = cJSON_AddObjectToObject(object, "memory");
	cJSON *servers;

	if (bench->loaded_stat_known)
		report_number(memory, "loaded_bytes_per_entry",
			bytes_per_entry(&bench->loaded_stat));
	if (bench->final_stat_known) {
		const struct nam_index_stat *stat = &bench->final_stat;

		report_number(memory, "bytes_per_entry", bytes_per_entry(stat));
		report_number(memory, "entries", (double)stat->entries);
		report_number(memory, "remote_bytes", (double)stat->remote_bytes);
		report_number(memory, "leaf_fill", stat->leaf_fill);
		report_number(memory, "height", stat->height);
		report_number(memory, "cache_bytes", (double)stat->cache_bytes);
		report_number(memory, "cache_nodes", (double)stat->cache_nodes);
	}
	report_number(memory, "worker_bytes", (double)nam_worker_bytes(session_worker()));
	servers = cJSON_AddArrayToObject(memory, "servers");
	for (uint32_t slot = 0; slot < nam_client_servers(session.client); slot++) {
		struct nam_server_status status;
		cJSON *server;

		if (nam_server_status_get(session_worker(), slot, &status)) /* SUSPENDS */
			continue;
		server = cJSON_CreateObject();
		report_number(server, "id", status.id);
		report_number(server, "memory_bytes", (double)status.memory_bytes);
		report_number(server, "carved_bytes", (double)status.carved_bytes);
		report_number(server, "free_bytes", (double)status.free_bytes);
		report_number(server, "page_bytes", (double)status.page_bytes);
		if (!bench->network)
			report_number(server, "process_bytes",
				(double)private_bytes(status.pid));
		cJSON_AddItemToArray(servers, server);
	}
}

static void
json_head(cJSON *object, const struct index_bench *bench)
{
	const struct index_bench_options *o = &bench->options;
	cJSON *load;

	cJSON_AddStringToObject(object, "workload", o->workload.name);
	cJSON_AddStringToObject(object, "fabric", nam_client_fabric(session.client));
	cJSON_AddStringToObject(object, "design", nam_index_traits(o->index.design)->name);
	cJSON_AddStringToObject(object, "index", nam_index_traits(o->index.design)->name);
	cJSON_AddStringToObject(object, "partitioning", nam_partitioning_name(&o->index));
	if (o->run.transport)
		cJSON_AddStringToObject(object, "transport", nam_transport_name(o->run.transport));
	if (o->shares_count) {
		cJSON *shares = cJSON_AddArrayToObject(object, "shares");

		for (uint32_t i = 0; i < o->shares_count; i++)
			cJSON_AddItemToArray(shares, cJSON_CreateNumber(o->shares[i]));
	}
	cJSON_AddBoolToObject(object, "unique", o->index.unique);
	report_number(object, "memservers", nam_client_servers(session.client));
	cJSON_AddBoolToObject(object, "simulated", bench->network != NULL);
	if (bench->network) {
		cJSON_AddStringToObject(object, "profile", bench->network->name);
		report_number(object, "rpc_threads", bench->network->rpc_threads);
		cJSON_AddBoolToObject(object, "colocated", o->run.colocate);
	}
	if (o->workload.share[OP_SCAN] > 0 && o->workload.selectivity > 0)
		report_number(object, "selectivity", o->workload.selectivity);
	report_number(object, "clients", o->run.clients);
	report_number(object, "threads", o->run.threads);
	report_number(object, "fibers", o->run.fibers);
	report_number(object, "batch", o->batch);
	report_number(object, "keys", (double)o->keys);
	report_number(object, "key_bytes", o->index.key_bytes);
	report_number(object, "node_bytes", o->index.node_bytes);
	report_number(object, "cache_mb", (double)o->cache_bytes / (1u << 20));
	cJSON_AddStringToObject(object, "distribution",
		distribution_names[o->workload.distribution]);
	report_number(object, "seed", (double)o->run.seed);
	if (bench->load_keys) {
		load = cJSON_AddObjectToObject(object, "load");
		cJSON_AddStringToObject(load, "method", o->load == LOAD_BULK ? "bulk" : "insert");
		report_number(load, "keys", (double)bench->load_keys);
		report_number(load, "seconds", bench->load_seconds);
		report_number(load, "keys_per_s", (double)bench->load_keys / bench->load_seconds);
	}
}

void
index_json(void *arg, cJSON *object)
{
	struct index_bench *bench = arg;
	const struct index_result *result = &bench->result;

	json_head(object, bench);
	report_number(object, "warmup_lookups", (double)bench->warm_lookups);
	if (result->entries) {
		report_number(object, "entries_scanned", (double)result->entries);
		report_number(object, "entries_per_s",
			(double)result->entries / session.result.seconds);
	}
	report_number(object, "slowest_thread_ops", (double)result->slowest_ops);
	report_number(object, "fastest_thread_ops", (double)result->fastest_ops);
	json_operations(object, bench);
	json_walks(object, &session.result.counters, index_has_cache(bench));
	if (bench->raw.ratio > 0) {
		report_number(object, "raw_read_ops_per_s", bench->raw.raw_rate);
		report_number(object, "raw_read_depth", bench->raw.raw_depth);
		report_number(object, "raw_ratio", bench->raw.ratio);
		report_number(object, "raw_bytes_ratio", bandwidth_ratio(bench));
	}
	json_slices(object, bench);
	json_memory(object, bench);
	if (bench->verified) {
		report_number(object, "verified_entries", (double)bench->verified_entries);
		report_number(object, "violations", (double)bench->violations);
	}
}
