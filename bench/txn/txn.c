/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn.c -- nam-bench txn: transactions of a workload, each until it commits.
 *
 * Each committed transaction says by how much it changed the sum of all words.  At the end all
 * records are read, and their sum is compared with that.
 */
#include "txn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "history.h"

#define PASS_RECORDS 16u		/* of a transaction that loads, or sums up */
#define ROUNDS_MAX 64u			/* of all tries of a store, for one transaction */

const struct txn_workload *
txn_workload_of(const struct requests_options *o)
{
	return o->txn_workload == TXN_YCSB_T ? &txn_ycsb_t : &txn_smallbank;
}

const struct txn_store *
txn_store_of(const struct requests_options *o)
{
	return o->txn_store == TXN_2PL ? &txn_store_2pl : &txn_store_serializable;
}

static uint64_t
records_of(const struct requests *bench)
{
	return bench->options.keys * txn_workload_of(&bench->options)->records_per_key;
}

static size_t
room_bytes(const struct requests_options *o)
{
	uint32_t records = o->transaction_size < PASS_RECORDS ? PASS_RECORDS : o->transaction_size;

	return sizeof(struct txn_room) + records * record_room(o);
}

/* ---- one transaction ----------------------------------------------------------------------- */

static void
words_read(struct txn_room *room)
{
	const struct requests_options *o = &room->part->bench->options;

	for (uint32_t i = 0; i < room->count; i++) {
		struct txn_record *record = &room->records[i];
		value_pair wrong = { 0 };

		memcpy(&record->read, txn_value(room, i), sizeof(record->read));
		record_compare(txn_value(room, i), o->value_bytes, (uint64_t)record->read,
			record->number, &wrong);
		room->wrong += (wrong[0] | wrong[1]) != 0;
		record->word = record->read;
		record->writes = false;
	}
}

void
txn_apply(struct txn_room *room)
{
	const struct requests_options *o = &room->part->bench->options;

	room->wrong = 0;
	room->added = 0;
	if (room->kind != TXN_LOAD)
		words_read(room);
	if (room->kind < TXN_KINDS_MAX)
		txn_workload_of(o)->apply(room);
	for (uint32_t i = 0; i < room->count; i++) {
		struct txn_record *record = &room->records[i];

		if (!record->writes)
			continue;
		room->added += record->word - record->read;
		record_fill(txn_value(room, i), o->value_bytes, (uint64_t)record->word,
			record->number);
	}
}

/* Run the transaction until it commits, for a store gives up after some tries. */
NAM_FIBER_FN static int
transact(struct txn_room *room)
{
	const struct requests_options *o = &room->part->bench->options;
	struct history_time began = { 0 };
	uint64_t sequence = 0;
	int rc = -NAM_E_CONFLICT;

	room->conflicts = 0;
	for (uint32_t i = 0; i < room->count; i++)
		room->records[i].key = record_key(room->records[i].number);
	if (o->history)
		began = history_now();
	for (unsigned i = 0; i < ROUNDS_MAX && rc == -NAM_E_CONFLICT; i++) {
		uint32_t tries = 0;

		rc = txn_store_of(o)->run(room, &tries, &sequence); /* SUSPENDS */
		room->conflicts += tries - (rc != -NAM_E_CONFLICT);
	}
	if (o->history && (!rc || sequence) && history_add(room, began, sequence, !rc))
		return rc ? rc : -ENOMEM;
	return rc;
}

static void
complain(struct txn_room *room)
{
	if (room->wrong)
		findings_wrong("a transaction read %u values that no transaction wrote, with "
			"record %" PRIu64, room->wrong, room->records[0].number);
}

/* ---- before and after ---------------------------------------------------------------------- */

static struct txn_room *
room_new(struct requests_part *part)
{
	struct txn_room *room = calloc(1, room_bytes(&part->bench->options));

	if (room)
		room->part = part;
	return room;
}

/* Load or read some records from `first` on. */
NAM_FIBER_FN static int
pass_some(struct txn_room *room, uint64_t first)
{
	const struct requests *bench = room->part->bench;
	int rc;

	room->count = 0;
	for (uint64_t i = first; i < first + PASS_RECORDS && i < records_of(bench); i++)
		room->records[room->count++] = (struct txn_record){ .number = i,
			.word = txn_workload_of(&bench->options)->loaded,
			.writes = room->kind == TXN_LOAD };
	rc = transact(room); /* SUSPENDS */
	if (rc)
		return rc;
	complain(room);
	for (uint32_t i = 0; i < room->count; i++)
		room->part->sum += room->records[i].word;
	return 0;
}

/*
 * Each thread loads its share of the records; then it reads all, so that its handle's cache knows
 * them; and at last its share again.
 */
static void
pass_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	struct requests_part *part = &bench->parts[member->number];
	struct txn_room *room = room_new(part);
	uint64_t step = PASS_RECORDS, first = 0;
	int rc = room ? 0 : -ENOMEM;

	if (bench->pass == TXN_PASS_LOAD && !rc)
		rc = txn_store_of(&bench->options)->open(part, records_of(bench)); /* SUSPENDS */
	if (bench->pass != TXN_PASS_WARM) {
		step *= thread_pool_size(session.pool);
		first = member->number * PASS_RECORDS;
	}
	part->sum = 0;
	if (room)
		room->kind = bench->pass == TXN_PASS_LOAD ? TXN_LOAD : TXN_SUM;
	for (uint64_t i = first; i < records_of(bench) && !rc && !bench_signal; i += step)
		rc = pass_some(room, i); /* SUSPENDS */
	free(room);
	if (rc)
		requests_failed(part, rc, bench->pass == TXN_PASS_LOAD ? "loading the records"
								       : "reading all records");
}

static int
pass(struct requests *bench, enum txn_pass which)
{
	bench->pass = which;
	thread_pool_run(session.pool, pass_main, bench, 0, 0);
	return findings.fatal;
}

static int
begin(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	int rc;

	if (o->history) {
		bench->history = fopen(o->history, "we");
		if (!bench->history)
			return bench_failed(o->history, -errno, NULL);
	}
	requests_keys_init(bench);
	rc = txn_store_of(o)->create(bench, records_of(bench)); /* SUSPENDS */
	if (rc) {
		bench->name[0] = '\0';
		return bench_failed("making the store", rc, nam_worker_diag(session_worker()));
	}
	rc = pass(bench, TXN_PASS_LOAD);
	return nam_exit_code(rc ? rc : pass(bench, TXN_PASS_WARM));
}

static int
history_end(struct requests *bench)
{
	FILE *file = bench->history;
	int rc;

	bench->history = NULL;
	rc = file ? history_write(bench, file) : 0;
	if (rc)
		(void)bench_failed(bench->options.history, rc, NULL);
	return rc;
}

static void
end(struct requests *bench)
{
	struct nam_worker *worker = session_worker();
	const struct txn_store *store = txn_store_of(&bench->options);
	int rc;

	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		store->close(&bench->parts[i]);
	rc = bench->name[0] ? store->drop(worker, bench->name) : 0; /* SUSPENDS */
	if (rc)
		bench_complain("%s: %s", bench->name, nam_worker_diag(worker));
	(void)history_end(bench);
}

/* Read all records, and compare the sum of their words with what transactions added. */
static int
measured(struct requests *bench)
{
	const struct txn_workload *workload = txn_workload_of(&bench->options);
	int rc = pass(bench, TXN_PASS_SUM);

	if (rc || bench_signal)
		return rc;
	bench->sum_expected = workload->loaded * (int64_t)records_of(bench);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++) {
		bench->sum += bench->parts[i].sum;
		bench->sum_expected += bench->parts[i].sum_added;
	}
	if (bench->sum != bench->sum_expected && txn_store_of(&bench->options)->serializable)
		findings_wrong("the sum of all %s is %" PRId64 " instead of %" PRId64,
			workload->words, bench->sum, bench->sum_expected);
	return history_end(bench);
}

/* ---- the run ------------------------------------------------------------------------------- */

static void
prepare(struct requests_part *part, void *arg)
{
	struct txn_room *room = arg;

	room->part = part;
	txn_workload_of(&part->bench->options)->draw(part, room);
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	(void)part;
	(void)count;
	return transact(arg); /* SUSPENDS */
}

static void
check(struct requests_part *part, void *arg)
{
	struct txn_room *room = arg;

	complain(room);
	part->sum_added += room->added;
	part->conflicts += room->conflicts;
	part->reads += room->count;
	part->kinds[room->kind]++;
}

/* ---- results ------------------------------------------------------------------------------- */

static uint64_t
reads(const struct requests *bench)
{
	return requests_sum(bench, offsetof(struct requests_part, reads));
}

#define MEANS(o, phase) ((o)->txn_phases >> (phase) & 1 ? "rpc" : "onesided")

void
txn_phases_print(const struct requests_options *o)
{
	printf("  phases      %s: execute %s, lock %s, validate %s, log %s, commit %s\n",
		o->txn_preset, MEANS(o, 0), MEANS(o, 1), MEANS(o, 2), MEANS(o, 3), MEANS(o, 4));
}

void
txn_paper_print(const char *peak)
{
	if (peak)
		printf("  paper       %s/s at the peak of DrTM+H: 16 machines, ConnectX-4, as "
			"printed there\n", peak);
}

void
txn_kinds_json(const struct requests *bench, const char *const *kinds, cJSON *object)
{
	cJSON *counts = cJSON_AddObjectToObject(object, "kinds");

	for (unsigned i = 0; kinds[i]; i++)
		report_number(counts, kinds[i], (double)requests_sum(bench,
			offsetof(struct requests_part, kinds) + i * sizeof(uint64_t)));
}

static void
print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	const struct txn_workload *workload = txn_workload_of(o);
	double ops = (double)session.result.ops;
	double conflicts = (double)requests_sum(bench, offsetof(struct requests_part, conflicts));

	printf("  workload    %s: %" PRIu64 " %s; values of %u bytes\n", workload->name, o->keys,
		workload->records, o->value_bytes);
	if (o->txn_workload == TXN_YCSB_T)
		printf("  mix         %s; %u to a transaction, %g %% of these read\n",
			requests_distribution(o), o->transaction_size, o->get_percent);
	printf("  store       %s; conflicts %.0f, %.3g %% of all tries\n", txn_store_of(o)->name,
		conflicts, 100 * conflicts / (conflicts + ops));
	if (txn_store_of(o)->serializable)
		txn_phases_print(o);
	txn_paper_print(workload->paper);
	printf("  sum         of all %s: %" PRId64 ", %s%" PRId64 "\n", workload->words,
		bench->sum, bench->sum == bench->sum_expected ? "as expected: " : "instead of ",
		bench->sum_expected);
}

static void
json(const struct requests *bench, cJSON *object)
{
	const struct requests_options *o = &bench->options;
	const struct txn_workload *workload = txn_workload_of(o);

	cJSON_AddStringToObject(object, "transactions", workload->name);
	cJSON_AddStringToObject(object, "store", txn_store_of(o)->name);
	cJSON_AddStringToObject(object, "preset", o->txn_preset);
	cJSON_AddBoolToObject(object, "symmetric", o->run.symmetric);
	report_number(object, "phases", o->txn_phases);
	report_number(object, "keys", (double)o->keys);
	report_number(object, "value_bytes", o->value_bytes);
	if (o->txn_workload == TXN_YCSB_T) {
		cJSON_AddStringToObject(object, "distribution",
			distribution_names[o->distribution]);
		report_number(object, "transaction_size", o->transaction_size);
		report_number(object, "read_ratio", o->get_percent);
	}
	report_number(object, "conflicts",
		(double)requests_sum(bench, offsetof(struct requests_part, conflicts)));
	report_number(object, "sum", (double)bench->sum);
	report_number(object, "sum_expected", (double)bench->sum_expected);
	txn_kinds_json(bench, workload->kinds, object);
}

const struct requests_kind requests_txn = {
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
