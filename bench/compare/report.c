/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- who was how quick, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "compare.h"
#include "bench/report.h"
#include "bench/text.h"

/* ---- figures ------------------------------------------------------------------------------ */

double
compare_ratio(const struct contender *one, const struct contender *other)
{
	double ratios[COMPARE_ROUNDS];

	for (unsigned i = 0; i < COMPARE_ROUNDS; i++)
		ratios[i] = other->rates[i] > 0 ? one->rates[i] / other->rates[i] : 0;
	return report_median(ratios, COMPARE_ROUNDS);
}

static bool
is_raw(const struct contender *contender)
{
	return contender->kind == CONTENDER_RAW || contender->kind == CONTENDER_RAW_FIBERS;
}

struct comparison
compare_over(const struct compare *compare, const struct ours *ours)
{
	struct comparison over = { 0 };

	for (unsigned i = 0; i < compare->contenders_count; i++) {
		const struct contender *contender = &compare->contenders[i], **quickest;

		if (contender->ours != ours)
			continue;
		quickest = is_raw(contender) ? &over.raw : &over.lookups;
		if (!*quickest || contender->median > (*quickest)->median)
			*quickest = contender;
	}
	return over;
}

uint64_t
compare_errors(const struct compare *compare)
{
	uint64_t errors = findings_total(&compare->findings);

	for (unsigned i = 0; i < compare->ours_count; i++)
		errors += findings_total(&compare->ours[i].index->findings);
	return errors;
}

static const char *
system_name(const struct contender *contender)
{
	switch (contender->kind) {
	case CONTENDER_RAW:
		return "raw READs";
	case CONTENDER_RAW_FIBERS:
		return "raw READs, fibers";
	case CONTENDER_LOOKUPS:
		return "lookups";
	case CONTENDER_BATCHES:
		return "lookups, batched";
	default:
		return contender->peer->protocol->name;
	}
}

static const char *
transport_name(const struct contender *contender)
{
	return contender->peer ? transport_names[contender->peer->transport]
			       : contender->ours->fabric;
}

/* ---- table -------------------------------------------------------------------------------- */

static void
print_head(const struct compare *compare)
{
	const struct compare_options *o = &compare->options;
	char a[TEXT_BYTES];

	report_heading("compare");
	printf("  pairs       %s in each, keys of 8 bytes, payloads of 8, values of %u; uniform\n",
		text_count(a, (double)o->keys), o->value_bytes);
	printf("  servers     %s", o->cluster ? "those of --cluster"
					      : "nam-memserver (--rpc-threads 1)");
	for (unsigned i = 0; i < compare->peers_count; i++)
		if (compare->peers[i].transport == TRANSPORT_UNIX)
			printf(", %s %s (%s)", compare->peers[i].protocol->name,
				compare->peers[i].version, compare->peers[i].protocol->threads);
	printf("\n  clients     one thread each, at its best depth; %u turns of %.3g s each\n",
		COMPARE_ROUNDS, o->seconds / COMPARE_ROUNDS);
}

static void
print_row(const struct contender *contender, const struct comparison *over)
{
	struct latency_ns latency = latency_of(&contender->sum.latency);
	char rate[TEXT_BYTES], best[TEXT_BYTES], p50[TEXT_BYTES], p99[TEXT_BYTES], depth[24];
	bool batched = contender->kind == CONTENDER_BATCHES;

	snprintf(depth, sizeof(depth), batched ? "%u x %u" : "%u", contender->depth,
		COMPARE_BATCH);
	printf("  %-18s%-6s%8s%9s%9s%9s%9s%8.3f", system_name(contender),
		transport_name(contender), depth, text_count(rate, contender->median),
		text_count(best, contender->best), text_ns(p50, latency.p50),
		text_ns(p99, latency.p99), compare_ratio(contender, over->raw));
	if (is_raw(contender))
		putchar('\n');
	else
		printf("%8.2f x\n", compare_ratio(over->lookups, contender));
}

static void
print_table(const struct compare *compare, const struct ours *ours)
{
	struct comparison over = compare_over(compare, ours);
	char heading[128];

	snprintf(heading, sizeof(heading), "  %-18s%-6s%8s%9s%9s%9s%9s%8s%10s", "system", "over",
		"depth", "rate/s", "best", "p50", "p99", "of raw", "lookups");
	report_heading(heading);
	for (unsigned i = 0; i < compare->contenders_count; i++)
		if (compare->contenders[i].ours == ours)
			print_row(&compare->contenders[i], &over);
	for (unsigned i = 0; i < compare->contenders_count; i++)
		if (compare->contenders[i].peer)
			print_row(&compare->contenders[i], &over);
}

/* The quickest of memcached and redis, over whatever; NULL: neither takes part. */
static const struct contender *
quickest_peer(const struct compare *compare)
{
	const struct contender *quickest = NULL;

	for (unsigned i = 0; i < compare->contenders_count; i++) {
		const struct contender *contender = &compare->contenders[i];

		if (contender->peer && (!quickest || contender->median > quickest->median))
			quickest = contender;
	}
	return quickest;
}

static void
print_verdict(const struct compare *compare, const struct ours *ours)
{
	struct comparison over = compare_over(compare, ours);
	const struct contender *peer = quickest_peer(compare);

	printf("\n  %s over %s: %.2f x raw READs of %u bytes", system_name(over.lookups),
		ours->fabric, compare_ratio(over.lookups, over.raw), ours->blocks.bytes);
	if (peer)
		printf(", %.2f x the quickest GETs, %s over %s",
			compare_ratio(over.lookups, peer), system_name(peer), transport_name(peer));
	putchar('\n');
}

static void
print_results(const struct compare *compare)
{
	print_head(compare);
	for (unsigned i = 0; i < compare->ours_count; i++) {
		print_table(compare, &compare->ours[i]);
		print_verdict(compare, &compare->ours[i]);
	}
	printf("\n  errors      %" PRIu64 "\n", compare_errors(compare));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static cJSON *
json_depths(const struct contender *contender)
{
	cJSON *array = cJSON_CreateArray();

	for (unsigned i = 0; i < contender->depths_count; i++) {
		cJSON *object = cJSON_CreateObject();

		report_number(object, "depth", contender->depths[i]);
		report_number(object, "ops_per_s", contender->depth_rates[i]);
		cJSON_AddItemToArray(array, object);
	}
	return array;
}

static cJSON *
json_system(const struct contender *contender)
{
	bool batched = contender->kind == CONTENDER_BATCHES;
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "system", system_name(contender));
	cJSON_AddStringToObject(object, contender->peer ? "transport" : "fabric",
		transport_name(contender));
	if (contender->peer)
		cJSON_AddStringToObject(object, "version", contender->peer->version);
	report_number(object, "depth", contender->depth);
	report_number(object, "batch", batched ? COMPARE_BATCH : 1);
	report_number(object, "ops", (double)contender->sum.ops);
	report_number(object, "seconds", contender->sum.seconds);
	report_number(object, "ops_per_s", contender->median);
	report_number(object, "best_ops_per_s", contender->best);
	cJSON_AddItemToObject(object, "latency_ns", report_latency(&contender->sum.latency));
	cJSON_AddItemToObject(object, "depths", json_depths(contender));
	return object;
}

/* The comparison over one fabric. */
static cJSON *
json_fabric(const struct compare *compare, const struct ours *ours)
{
	struct comparison over = compare_over(compare, ours);
	cJSON *object = cJSON_CreateObject(), *array;

	cJSON_AddStringToObject(object, "fabric", ours->fabric);
	report_number(object, "memservers", nam_client_servers(ours->index->client));
	cJSON_AddStringToObject(object, "lookups", system_name(over.lookups));
	report_number(object, "raw_bytes", ours->blocks.bytes);
	report_number(object, "raw_ratio", compare_ratio(over.lookups, over.raw));
	array = cJSON_AddArrayToObject(object, "gets");
	for (unsigned i = 0; i < compare->contenders_count; i++) {
		const struct contender *contender = &compare->contenders[i];
		cJSON *item;

		if (!contender->peer)
			continue;
		item = cJSON_CreateObject();
		cJSON_AddStringToObject(item, "system", system_name(contender));
		cJSON_AddStringToObject(item, "transport", transport_name(contender));
		report_number(item, "ratio", compare_ratio(over.lookups, contender));
		report_number(item, "raw_ratio", compare_ratio(contender, over.raw));
		cJSON_AddItemToArray(array, item);
	}
	return object;
}

static cJSON *
json_results(const struct compare *compare)
{
	const struct compare_options *o = &compare->options;
	cJSON *object = cJSON_CreateObject(), *array;

	cJSON_AddStringToObject(object, "workload", "compare");
	report_number(object, "keys", (double)o->keys);
	report_number(object, "key_bytes", 8);
	report_number(object, "value_bytes", o->value_bytes);
	report_number(object, "rounds", COMPARE_ROUNDS);
	report_number(object, "seconds", o->seconds);
	report_number(object, "seed", (double)o->seed);
	report_number(object, "errors", (double)compare_errors(compare));
	array = cJSON_AddArrayToObject(object, "systems");
	for (unsigned i = 0; i < compare->contenders_count; i++)
		cJSON_AddItemToArray(array, json_system(&compare->contenders[i]));
	array = cJSON_AddArrayToObject(object, "fabrics");
	for (unsigned i = 0; i < compare->ours_count; i++)
		cJSON_AddItemToArray(array, json_fabric(compare, &compare->ours[i]));
	return object;
}

int
compare_report(const struct compare *compare)
{
	cJSON *object;
	int rc;

	if (!compare->options.quiet)
		print_results(compare);
	if (!compare->options.json)
		return 0;
	object = json_results(compare);
	rc = report_write(object, compare->options.json);
	cJSON_Delete(object);
	return rc;
}
