/* SPDX-License-Identifier: Apache-2.0 */
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
#include "bench/ticks.h"

#define ZIPF_THETA 0.99
#define DRAWS_MAX 64u			/* for a key that was not drawn yet */

/* ---- keys --------------------------------------------------------------------------------- */

static uint64_t
dice_below(double percent)
{
	return (uint64_t)ceil(percent * REQUESTS_DICE / 100);
}

void
requests_keys_init(struct requests *bench)
{
	(void)snprintf(bench->name, sizeof(bench->name), "bench-%s-%u", bench->options.subcommand,
		nam_client_id(session.client));
	zipf_init(&bench->zipf, bench->options.keys, ZIPF_THETA);
	bench->reads_below = dice_below(bench->options.get_percent);
	bench->inserts_below = dice_below(bench->options.get_percent +
		bench->options.insert_percent);
}

uint32_t
requests_draw_anew(const struct requests *bench, uint64_t seed, uint64_t *numbers)
{
	struct nam_rng rng = nam_rng_seed(seed);
	const uint32_t size = bench->options.transaction_size;
	uint32_t count = 0, tries = 0;

	while (count < size && tries < DRAWS_MAX) {
		uint64_t number = requests_draw(bench, &rng);
		bool again = false;

		for (uint32_t i = 0; i < count; i++)
			again |= numbers[i] == number;
		tries = again ? tries + 1 : 0;
		if (!again)
			numbers[count++] = number;
	}
	return count;
}

const char *
requests_distribution(const struct requests_options *o)
{
	static const char *const names[] = { "uniform", "zipfian 0.99", "latest 0.99" };

	return names[o->distribution];
}

void
requests_keys_json(const struct requests_options *o, cJSON *object)
{
	report_number(object, "keys", (double)o->keys);
	cJSON_AddStringToObject(object, "distribution", distribution_names[o->distribution]);
	if (o->mixed)
		cJSON_AddStringToObject(object, "value_bytes", "mixed");
	else
		report_number(object, "value_bytes", o->value_bytes);
}

/* ---- one turn: threads, fibers and counters ------------------------------------------------ */

uint64_t
requests_sum(const struct requests *bench, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		sum += *(const uint64_t *)((const char *)&bench->parts[i] + offset);
	return sum;
}

void
requests_failed(struct requests_part *part, int rc, const char *what)
{
	findings_fatal(rc, what, nam_worker_diag(part->member->worker));
}

/* A call: some requests, whose time is that of all; false: it failed. */
NAM_FIBER_FN static bool
call(struct requests_part *part, uint8_t *rooms, size_t room_bytes, uint64_t *began)
{
	const struct requests_kind *kind = part->bench->kind;
	uint32_t count = part->bench->options.batch;
	int rc;

	count = count < part->share.remaining ? count : (uint32_t)part->share.remaining;
	part->share.remaining -= count;
	for (uint32_t i = 0; i < count; i++) {
		part->number++;
		kind->prepare(part, rooms + i * room_bytes);
	}
	rc = kind->ask(part, rooms, count); /* SUSPENDS */
	if (rc) {
		requests_failed(part, rc, "a request");
		return false;
	}
	part->share.ended = ticks_now();
	histogram_record_many(&part->latency, part->share.ended - *began, count);
	*began = part->share.ended;
	for (uint32_t i = 0; i < count; i++)
		kind->check(part, rooms + i * room_bytes);
	part->share.done += count;
	return true;
}

static void
fiber_main(void *arg)
{
	struct requests_part *part = arg;
	struct requests *bench = part->bench;
	size_t room_bytes = bench->kind->room_bytes
		? bench->kind->room_bytes : bench->kind->room_bytes_of(&bench->options);
	uint8_t *rooms = calloc(bench->options.batch, room_bytes);
	uint64_t began = ticks_now();

	if (!rooms) {
		findings_fatal(-ENOMEM, "starting a fiber", "");
		return;
	}
	/* The clock is not free: a request ends, and the fiber's next one begins, with one look. */
	while (part->share.remaining && part->share.ended < part->share.deadline && !bench_signal &&
		!findings.fatal)
		if (!call(part, rooms, room_bytes, &began)) /* SUSPENDS */
			break;
	free(rooms);
}

static void
job_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	const struct requests_options *o = &bench->options;
	struct requests_part *part = &bench->parts[member->number];
	int rc = 0;

	part->number = member->number;
	share_begin(&part->share, member, o->run.ops, bench->turn_seconds);
	if (o->run.fibers == 1)
		fiber_main(part);
	for (uint32_t i = 0; i < o->run.fibers && o->run.fibers > 1 && !rc; i++)
		rc = nam_worker_spawn(member->worker, fiber_main, part);
	if (rc)
		findings_fatal(rc, "starting the fibers", "fewer --threads or --fibers take less "
			"memory and fewer mappings (vm.max_map_count)");
	if (o->run.fibers > 1)
		nam_worker_run(member->worker);
	share_end(&part->share, member);
}

static void
turn_run(struct requests *bench, double seconds)
{
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];

	bench->turn_seconds = seconds;
	thread_pool_measure(session.pool, job_main, bench, 0, 0, counters);
	/* No request waits for these. */
	counters[NAM_OP_TXN_FINISH].round_trips = 0;
	for (unsigned kind = 0; kind < NAM_OP_KINDS_COUNT; kind++)
		nam_op_counters_add(&session.result.counters, &counters[kind]);
	result_add_shares(&session.result, session.pool);
}

/* ---- measuring ---------------------------------------------------------------------------- */

#define READS_UNIT 64u			/* of versions, which have headers; of records in place: */
#define READS_UNIT_IN_PLACE 8u

static uint64_t
reads_of(const struct requests *bench)
{
	return bench->kind->reads ? bench->kind->reads(bench)
				  : session.result.counters.work_requests;
}

static double
turn(void *arg, unsigned number)
{
	double cpu_seconds = session.result.cpu_seconds;
	struct requests *bench = arg;
	uint64_t reads = reads_of(bench);

	(void)number;
	turn_run(bench, bench->options.run.seconds / RAW_TURNS);
	return (double)(reads_of(bench) - reads) / (session.result.cpu_seconds - cpu_seconds);
}

/*
 * Transactions that read, by turns with READs of as many bytes out of as much memory, so that both
 * miss the same caches.  Rates are of processor time: the part that others take is of neither.
 */
static int
measure_with_raw(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	uint32_t unit = bench->kind->reads ? READS_UNIT_IN_PLACE : READS_UNIT, units;
	uint64_t reads;

	/* The first turn says how long versions are, and warms what there is to be warmed. */
	turn_run(bench, o->run.seconds / RAW_TURNS);
	reads = reads_of(bench);
	if (findings.fatal || bench_signal || !reads)
		return findings.fatal;
	units = (uint32_t)((double)session.result.counters.bytes_in / (double)reads / unit + 0.5);
	bench->raw = (struct raw_turns){
		.bytes = units ? unit * units : unit,
		.per_cpu = true,
		.seconds = o->run.seconds / RAW_TURNS,
		.seed = o->run.seed,
		.turn = turn,
		.arg = bench,
	};
	bench->raw.memory_bytes = o->keys * bench->raw.bytes;
	return raw_turns_run(&bench->raw);
}

/* Both meet the same moods of the machine if turns are shorter than what other work takes. */
#define COMPARE_SECONDS 0.002

/* The rate of a turn. */
static double
turn_compared(struct requests *bench)
{
	uint64_t ops = session.result.ops;
	double seconds = session.result.seconds;

	turn_run(bench, COMPARE_SECONDS);
	return (double)(session.result.ops - ops) / (session.result.seconds - seconds);
}

/* Pairs of turns, of which one store and then the other has the first. */
static int
measure_by_turns(struct requests *bench)
{
	uint32_t pairs = (uint32_t)(bench->options.run.seconds / (2 * COMPARE_SECONDS)) + 1;
	double *ratios = calloc(pairs, sizeof(*ratios)), rates[2];
	uint32_t count;

	if (!ratios)
		return bench_failed("starting", -ENOMEM, NULL);
	for (count = 0; count < pairs && !findings.fatal && !bench_signal; count++) {
		rates[count % 2] = turn_compared(bench);
		bench->kind->swap(bench);
		rates[(count + 1) % 2] = turn_compared(bench);
		ratios[count] = rates[0] / rates[1];
	}
	/* The first one is that of --engine. */
	if (count % 2)
		bench->kind->swap(bench);
	bench->compared.ratio = report_median(ratios, count);
	bench->compared.low = ratios[count / 4];
	bench->compared.high = ratios[count * 3 / 4];
	bench->compared.pairs = count;
	free(ratios);
	return findings.fatal;
}

static int
measure(void *arg)
{
	struct requests *bench = arg;
	int rc = 0;

	if (bench->options.raw_ratio)
		rc = measure_with_raw(bench);
	else if (bench->options.compare)
		rc = measure_by_turns(bench);
	else
		turn_run(bench, bench->options.run.seconds);
	if (bench->kind->measured && !findings.fatal)
		rc = bench->kind->measured(bench);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		histogram_merge(&session.result.latency, &bench->parts[i].latency);
	return nam_exit_code(rc ? rc : findings.fatal);
}

/* ---- reporting ---------------------------------------------------------------------------- */

static void
print_results(void *arg)
{
	const struct requests *bench = arg;
	const struct requests_options *o = &bench->options;
	const struct result *result = &session.result;
	struct per_op per_op = per_op_of(&result->counters, (double)result->ops);

	report_heading(o->subcommand);
	bench->kind->print(bench);
	printf("  requests    %s, %u client%s of %u thread%s of %u fiber%s\n",
		o->transport_name, o->run.clients, o->run.clients == 1 ? "" : "s", o->run.threads,
		o->run.threads == 1 ? "" : "s", o->run.fibers, o->run.fibers == 1 ? "" : "s");
	printf("  rate        %s/s\n", text_count(result->ops_per_s));
	report_print_latency(&result->latency);
	printf("  per request round trips %.3f  work requests %.3f  bytes in %.1f  out %.1f\n",
		per_op.round_trips, per_op.work_requests, per_op.bytes_in, per_op.bytes_out);
	if (o->raw_ratio)
		printf("  raw         READs of %u bytes, %u under way, %s/s of processor time; "
			"transactions read %.3f times as many\n", bench->raw.bytes,
			bench->raw.raw_depth, text_count(bench->raw.raw_rate), bench->raw.ratio);
	if (o->compare)
		printf("  compare     %.3f times the rate of the other engine, quartiles %.3f and "
			"%.3f: %u pairs of turns; the lines above are of both\n",
			bench->compared.ratio, bench->compared.low, bench->compared.high,
			bench->compared.pairs);
	printf("  errors      %" PRIu64 "\n", findings_total());
}

static void
json_results(void *arg, cJSON *object)
{
	const struct requests *bench = arg;
	const struct requests_options *o = &bench->options;

	cJSON_AddStringToObject(object, "workload", o->subcommand);
	cJSON_AddStringToObject(object, "fabric", nam_client_fabric(session.client));
	cJSON_AddStringToObject(object, "transport", o->transport_name);
	bench->kind->json(bench, object);
	report_number(object, "fetch_bytes", o->run.fetch_bytes);
	report_number(object, "clients", o->run.clients);
	report_number(object, "threads", o->run.threads);
	report_number(object, "fibers", o->run.fibers);
	report_number(object, "batch", o->batch);
	report_number(object, "memservers", nam_client_servers(session.client));
	if (o->raw_ratio) {
		report_number(object, "raw_bytes", bench->raw.bytes);
		report_number(object, "raw_depth", bench->raw.raw_depth);
		report_number(object, "raw_ops_per_cpu_s", bench->raw.raw_rate);
		report_number(object, "raw_ratio", bench->raw.ratio);
	}
	if (o->compare) {
		report_number(object, "compare_ratio", bench->compared.ratio);
		report_number(object, "compare_low", bench->compared.low);
		report_number(object, "compare_high", bench->compared.high);
		report_number(object, "compare_pairs", bench->compared.pairs);
	}
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
set_up(void *arg)
{
	struct requests *bench = arg;

	bench->parts = calloc(thread_pool_size(session.pool), sizeof(*bench->parts));
	if (!bench->parts)
		return bench_failed("starting", -ENOMEM, NULL);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++) {
		bench->parts[i].bench = bench;
		bench->parts[i].member = thread_pool_member(session.pool, i);
		bench->parts[i].rng = nam_rng_seed(bench->options.run.seed * 1000003 + i);
	}
	/* One subcommand has two kinds of workloads. */
	if (bench->options.rows)
		bench->kind = &requests_rows;
	return bench->kind->begin ? bench->kind->begin(bench) : NAM_EXIT_OK;
}

static void
tear_down(void *arg)
{
	struct requests *bench = arg;

	if (bench->parts && bench->kind->end)
		bench->kind->end(bench);
	free(bench->parts);
}

int
requests_main(int argc, char **argv)
{
	static const struct requests_kind *const kinds[] = { &requests_rpc, &requests_kv,
		&requests_pilaf, &requests_ramp, &requests_txn };
	static struct requests bench;
	const struct session_steps steps = {
		.table = requests_options_init(argv[0], &bench.options),
		.resolve = requests_options_resolve,
		.begin = set_up,
		.run = measure,
		.print = print_results,
		.json = json_results,
		.end = tear_down,
	};
	unsigned i = 0;

	while (strcmp(argv[0], kinds[i]->name) != 0)
		i++;
	bench.kind = kinds[i];
	return session_main(&steps, argc, argv, &bench);
}
