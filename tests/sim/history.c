/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "facts.h"

void
sim_history_init(struct sim_history *history)
{
	memset(history, 0, sizeof(*history));
}

void
sim_history_free(struct sim_history *history)
{
	free(history->ops);
	free(history->scans);
	free(history->entries);
	sim_history_init(history);
}

size_t
sim_history_call(struct sim_history *history, uint32_t client, uint32_t session,
	enum sim_kind kind, uint64_t key, uint64_t payload, uint64_t now_ns)
{
	history->ops = sim_grow(history->ops, history->ops_count, &history->ops_room,
		sizeof(*history->ops));
	history->ops[history->ops_count] = (struct sim_op){
		.key = key,
		.payload = payload,
		.call_ns = now_ns,
		.return_ns = SIM_NEVER,
		.call_order = history->order++,
		.return_order = SIM_NEVER,
		.client = client,
		.session = session,
		.scan = SIM_NO_SCAN,
		.kind = kind,
	};
	return history->ops_count++;
}

void
sim_history_return(struct sim_history *history, size_t number, int rc, uint64_t payload,
	uint64_t now_ns)
{
	struct sim_op *op = &history->ops[number];

	assert(number < history->ops_count && op->return_order == SIM_NEVER);
	op->rc = rc;
	op->return_ns = now_ns;
	op->return_order = history->order++;
	if (op->kind == SIM_LOOKUP && rc == 0)
		op->payload = payload;
}

void
sim_history_load(struct sim_history *history, uint64_t key, uint64_t payload)
{
	size_t op = sim_history_call(history, SIM_LOADER, 0, SIM_INSERT, key, payload, 0);

	sim_history_return(history, op, 0, 0, 0);
}

size_t
sim_history_call_scan(struct sim_history *history, uint32_t client, uint32_t session,
	const struct sim_range *range, uint64_t now_ns)
{
	size_t op = sim_history_call(history, client, session, SIM_SCAN,
		range->has_low ? range->low : 0, 0, now_ns);

	history->scans = sim_grow(history->scans, history->scans_count, &history->scans_room,
		sizeof(*history->scans));
	history->scans[history->scans_count] = (struct sim_scan){ .range = *range };
	history->ops[op].scan = (uint32_t)history->scans_count++;
	return op;
}

void
sim_history_return_scan(struct sim_history *history, size_t op, int rc,
	const struct sim_entry *entries, size_t count, uint64_t now_ns)
{
	struct sim_scan *scan = &history->scans[history->ops[op].scan];

	scan->first = history->entries_count;
	scan->count = count;
	for (size_t i = 0; i < count; i++) {
		history->entries = sim_grow(history->entries, history->entries_count,
			&history->entries_room, sizeof(*history->entries));
		history->entries[history->entries_count++] = entries[i];
	}
	sim_history_return(history, op, rc, 0, now_ns);
}

/*
 * The promise of each operation's header about a code.  A code that may have changed something
 * counts as unknown, so that a new code costs sharpness and not a false alarm.
 */
enum sim_outcome
sim_op_outcome(const struct sim_op *op)
{
	if (op->return_order == SIM_NEVER)
		return SIM_UNKNOWN;
	if (op->rc == 0)
		return SIM_DONE;
	if (op->rc == -NAM_E_EXISTS)
		return SIM_EXISTS;
	if (op->rc == -NAM_E_NOTFOUND)
		return SIM_NOTFOUND;
	if (nam_err_is(op->rc, NAM_E_RESTART) || nam_err_is(op->rc, NAM_E_REMOTE_FULL) ||
			nam_err_is(op->rc, NAM_E_LOCK_TIMEOUT) ||
			nam_err_is(op->rc, NAM_E_LOCK_ORPHANED))
		return SIM_NOTHING;
	return SIM_UNKNOWN;
}

uint64_t
sim_op_end(const struct sim_op *op)
{
	return sim_op_outcome(op) == SIM_UNKNOWN ? SIM_NEVER : op->return_order;
}

static const char *const kinds[] = {
	[SIM_INSERT] = "insert",
	[SIM_UPSERT] = "upsert",
	[SIM_UPDATE] = "update",
	[SIM_DELETE] = "delete",
	[SIM_DELETE_PAIR] = "delete_pair",
	[SIM_LOOKUP] = "lookup",
	[SIM_SCAN] = "scan",
};

static bool
has_payload(const struct sim_op *op)
{
	switch (op->kind) {
	case SIM_INSERT:
	case SIM_UPSERT:
	case SIM_UPDATE:
	case SIM_DELETE_PAIR:
		return true;
	case SIM_LOOKUP:
		return op->return_order != SIM_NEVER && op->rc == 0;
	default:
		return false;
	}
}

const char *
sim_op_text(const struct sim_history *history, size_t number, char text[SIM_OP_TEXT_BYTES])
{
	const struct sim_op *op = &history->ops[number];
	char who[32] = "the loader", args[96], when[64];

	if (op->client != SIM_LOADER)
		snprintf(who, sizeof(who), "client %" PRIu32 ".%" PRIu32, op->client, op->session);
	if (op->kind == SIM_SCAN) {
		const struct sim_scan *scan = &history->scans[op->scan];

		snprintf(args, sizeof(args), "%" PRIu64 " .. %" PRIu64 "%s%s, %zu entries",
			scan->range.has_low ? scan->range.low : 0,
			scan->range.has_high ? scan->range.high : UINT64_MAX,
			!scan->range.has_high || scan->range.high_inclusive ? " included" : "",
			scan->range.reverse ? ", reverse" : "", scan->count);
	} else if (op->kind == SIM_LOOKUP && has_payload(op)) {
		snprintf(args, sizeof(args), "%" PRIu64 ") = (%" PRIu64, op->key, op->payload);
	} else if (has_payload(op)) {
		snprintf(args, sizeof(args), "%" PRIu64 ", %" PRIu64, op->key, op->payload);
	} else {
		snprintf(args, sizeof(args), "%" PRIu64, op->key);
	}
	if (op->return_order == SIM_NEVER)
		snprintf(when, sizeof(when), "from %" PRIu64 " ns on: no return", op->call_ns);
	else
		snprintf(when, sizeof(when), "in %" PRIu64 "..%" PRIu64 " ns: %s", op->call_ns,
			op->return_ns, op->rc == 0 ? "0" : nam_err_name(op->rc));
	snprintf(text, SIM_OP_TEXT_BYTES, "#%zu %s(%s) by %s %s", number, kinds[op->kind], args,
		who, when);
	return text;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

static void
write_json_scan(const struct sim_history *history, const struct sim_scan *scan, FILE *file)
{
	const struct sim_range *range = &scan->range;

	if (range->has_low)
		fprintf(file, ",\"low\":%" PRIu64, range->low);
	if (range->has_high)
		fprintf(file, ",\"high\":%" PRIu64 ",\"high_inclusive\":%s", range->high,
			range->high_inclusive ? "true" : "false");
	fprintf(file, ",\"reverse\":%s,\"limit\":%" PRIu64 ",\"entries\":[",
		range->reverse ? "true" : "false", range->limit);
	for (size_t i = 0; i < scan->count; i++) {
		const struct sim_entry *entry = &history->entries[scan->first + i];

		fprintf(file, "%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", entry->key,
			entry->payload);
	}
	fputc(']', file);
}

void
sim_history_write_json(const struct sim_history *history, FILE *file)
{
	for (size_t i = 0; i < history->ops_count; i++) {
		const struct sim_op *op = &history->ops[i];

		fprintf(file, "{\"op\":%zu,\"kind\":\"%s\"", i, kinds[op->kind]);
		if (op->client == SIM_LOADER)
			fputs(",\"client\":\"loader\",\"session\":0", file);
		else
			fprintf(file, ",\"client\":%" PRIu32 ",\"session\":%" PRIu32, op->client,
				op->session);
		if (op->kind == SIM_SCAN)
			write_json_scan(history, &history->scans[op->scan], file);
		else
			fprintf(file, ",\"key\":%" PRIu64, op->key);
		if (has_payload(op))
			fprintf(file, ",\"payload\":%" PRIu64, op->payload);
		fprintf(file, ",\"call_ns\":%" PRIu64, op->call_ns);
		if (op->return_order == SIM_NEVER)
			fputs(",\"return_ns\":null,\"rc\":null}\n", file);
		else
			fprintf(file, ",\"return_ns\":%" PRIu64 ",\"rc\":\"%s\"}\n", op->return_ns,
				op->rc == 0 ? "0" : nam_err_name(op->rc));
	}
}
