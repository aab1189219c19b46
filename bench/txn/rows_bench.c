/* SPDX-License-Identifier: Apache-2.0 */
/* rows_bench.c -- nam-bench txn with workloads over rows. */
#include "rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "txn.h"

#define CACHE_BYTES_MIN (1u << 20)
#define CACHE_BYTES_PER_RECORD 64u	/* an address is 32 of them */

const struct rows_workload *
rows_workload_of(const struct requests_options *o)
{
	switch (o->txn_workload) {
	case TXN_TPCC_NEW_ORDER:
		return &rows_tpcc_new_order;
	case TXN_TPCC:
		return &rows_tpcc;
	case TXN_TPCE:
		return &rows_tpce;
	default:
		return NULL;
	}
}

static const struct rows_workload *
workload(const struct requests *bench)
{
	return rows_workload_of(&bench->options);
}

static size_t
room_bytes(const struct requests_options *o)
{
	return rows_workload_of(o)->room_bytes;
}

static void
prepare(struct requests_part *part, void *arg)
{
	struct rows_room *room = arg;

	room->worker = part->member->worker;
	room->store = part->store;
	workload(part->bench)->draw(part, room);
}

static void
pass_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	struct requests_part *part = &bench->parts[member->number];
	struct rows_room *room = calloc(1, workload(bench)->room_bytes);
	int rc = room ? 0 : -ENOMEM;

	if (bench->pass == TXN_PASS_LOAD && !rc)
		rc = nam_txn_store_open(member->worker, bench->name, bench->options.txn_no_cache
			? 0 : CACHE_BYTES_MIN + bench->rows_count * CACHE_BYTES_PER_RECORD,
			&part->store); /* SUSPENDS */
	if (!rc) {
		room->worker = member->worker;
		room->store = part->store;
		rc = workload(bench)->pass(part, room); /* SUSPENDS */
	}
	free(room);
	if (rc)
		requests_failed(part, rc, bench->pass == TXN_PASS_LOAD ? "loading the rows"
								       : "reading all rows");
}

static int
pass(struct requests *bench, enum txn_pass which)
{
	bench->pass = which;
	thread_pool_run(session.pool, pass_main, bench, 0, 0);
	return findings.fatal ? findings.fatal : bench_signal ? -EINTR : 0;
}

static int
begin(struct requests *bench)
{
	struct nam_txn_store_options options;
	int rc;

	nam_txn_store_options_init(&options);
	options.key_bytes_max = ROWS_KEY_BYTES;
	options.phases = bench->options.txn_phases;
	requests_keys_init(bench);
	rc = workload(bench)->begin(bench, &options);
	bench->rows_count = options.records;
	if (!rc)
		rc = nam_txn_store_create(session_worker(), bench->name, &options); /* SUSPENDS */
	if (rc) {
		bench->name[0] = '\0';
		return bench_failed("making the store", rc, nam_worker_diag(session_worker()));
	}
	rc = pass(bench, TXN_PASS_LOAD);
	return nam_exit_code(rc ? rc : pass(bench, TXN_PASS_WARM));
}

static void
end(struct requests *bench)
{
	struct nam_worker *worker = session_worker();
	int rc;

	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		nam_txn_store_close(bench->parts[i].store);
	rc = bench->name[0] ? nam_txn_store_drop(worker, bench->name) : 0; /* SUSPENDS */
	if (rc)
		bench_complain("%s: %s", bench->name, nam_worker_diag(worker));
	workload(bench)->end(bench);
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *room, uint32_t count)
{
	(void)count;
	return workload(part->bench)->run(room); /* SUSPENDS */
}

static void
check(struct requests_part *part, void *arg)
{
	const struct rows_room *room = arg;

	if (room->missing)
		findings_missing(1, "a transaction of the kind %s has not found a row, or one of "
			"another length", workload(part->bench)->kinds[room->kind]);
	part->conflicts += room->conflicts;
	part->rolled_back += room->rolled_back;
	part->reads += room->count;
	part->kinds[room->kind]++;
}

static int
measured(struct requests *bench)
{
	int rc = pass(bench, TXN_PASS_SUM);

	if (!rc)
		rc = pass(bench, TXN_PASS_CHECK);
	if (!rc && workload(bench)->checked)
		workload(bench)->checked(bench);
	return rc;
}

static uint64_t
reads(const struct requests *bench)
{
	return requests_sum(bench, offsetof(struct requests_part, reads));
}

static void
print(const struct requests *bench)
{
	double conflicts = (double)requests_sum(bench, offsetof(struct requests_part, conflicts));
	double ops = (double)session.result.ops;

	workload(bench)->print(bench);
	printf("  store       serializable; conflicts %.0f, %.3g %% of all tries; rolled back "
		"%" PRIu64 "\n", conflicts, 100 * conflicts / (conflicts + ops),
		requests_sum(bench, offsetof(struct requests_part, rolled_back)));
	txn_phases_print(&bench->options);
	txn_paper_print(workload(bench)->paper);
}

static void
json(const struct requests *bench, cJSON *object)
{
	cJSON_AddStringToObject(object, "transactions", workload(bench)->name);
	cJSON_AddStringToObject(object, "store", "serializable");
	cJSON_AddStringToObject(object, "preset", bench->options.txn_preset);
	cJSON_AddBoolToObject(object, "symmetric", bench->options.run.symmetric);
	report_number(object, "phases", bench->options.txn_phases);
	workload(bench)->json(bench, object);
	report_number(object, "conflicts",
		(double)requests_sum(bench, offsetof(struct requests_part, conflicts)));
	report_number(object, "rolled_back",
		(double)requests_sum(bench, offsetof(struct requests_part, rolled_back)));
	txn_kinds_json(bench, workload(bench)->kinds, object);
}

const struct requests_kind requests_rows = {
	.name = "txn",
	.room_bytes_of = room_bytes,
	.begin = begin,
	.end = end,
	.prepare = prepare,
	.ask = ask,
	.check = check,
	.reads = reads,
	.measured = measured,
	.print = print,
	.json = json,
};
