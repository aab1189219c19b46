/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients have left. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/namctl/namctl.h"

struct watch {
	const struct nam_sweep_stat *stat;
	bool live;			/* standard error is a terminal */
	bool shown;
	time_t at;
};

/* Called often.  Prints a line each second. */
static bool
look(void *arg)
{
	struct watch *watch = arg;
	uint64_t used = watch->stat->used.blocks, named = watch->stat->named.blocks;
	time_t now = time(NULL);

	if (!watch->at)
		watch->at = now;
	if (watch->live && now != watch->at) {
		/* Between two operations a block may be marked once more. */
		(void)fprintf(stderr, "\r\033[Ksweeping: %" PRIu64 " of %" PRIu64 " blocks, %u "
			"indexes, %u record stores", named < used ? named : used, used,
			watch->stat->indexes, watch->stat->record_stores);
		watch->shown = true;
		watch->at = now;
	}
	return ctl_signal != 0;
}

static void
json_blocks(cJSON *object, const char *blocks_name, const char *bytes_name,
	const struct nam_blocks *blocks)
{
	ctl_json_u64(object, blocks_name, blocks->blocks);
	ctl_json_u64(object, bytes_name, blocks->bytes);
}

static void
json_print(const struct ctl *ctl, const struct nam_sweep_stat *stat, const struct nam_blocks *held)
{
	cJSON *object = ctl_json(ctl);

	cJSON_AddBoolToObject(object, "dry_run", ctl->dry_run);
	ctl_json_u64(object, "indexes", stat->indexes);
	ctl_json_u64(object, "record_stores", stat->record_stores);
	ctl_json_u64(object, "tables", stat->tables);
	json_blocks(object, "used_blocks", "used_bytes", &stat->used);
	json_blocks(object, "named_blocks", "named_bytes", &stat->named);
	json_blocks(object, "held_blocks", "held_bytes", held);
	json_blocks(object, "freed_blocks", "freed_bytes", &stat->freed);
	ctl_json_u64(object, "parts", stat->parts);
	ctl_json_u64(object, "parts_bytes", stat->parts_freed_bytes);
	ctl_json_u64(object, "entries", stat->entries);
	ctl_json_print(object);
}

/* Sums over all memory servers. */
struct memory {
	uint64_t carved, free, waiting;	/* bytes: in blocks; of those, free, or not yet */
};

static void
memory_add(struct memory *sum, const struct nam_memory_figures *memory)
{
	sum->carved += memory->carved_bytes;
	sum->free += memory->free_bytes;
	sum->waiting += memory->waiting_bytes;
}

/* *ret_parts: of trees and key-value stores. */
static int
memory_get(struct ctl *ctl, struct memory *ret_blocks, struct memory *ret_parts)
{
	struct nam_server_status status;

	*ret_blocks = *ret_parts = (struct memory){ 0 };
	for (uint32_t slot = 0; slot < nam_client_servers(ctl->client); slot++) {
		int rc = nam_server_status_get(ctl->worker, slot, &status); /* SUSPENDS */

		if (rc)
			return rc;
		for (unsigned kind = 0; kind < NAM_MEMORY_KINDS; kind++)
			memory_add(kind == NAM_MEMORY_PUBLIC ? ret_blocks : ret_parts,
				&status.figures.memory[kind]);
	}
	return 0;
}

static void
memory_print(const struct ctl *ctl, const char *what, const struct memory *memory)
{
	uint64_t free = memory->free + memory->waiting;

	ctl_print(ctl, "%s %s = %s used + %s free or waiting", ctl_bytes(memory->carved).text, what,
		ctl_bytes(memory->carved - free).text, ctl_bytes(free).text);
}

/*
 * A sweep, with the memory before it if it fails.  *ret_held: of clients that are not dead.
 * Returns an exit code.
 */
static int
run(struct ctl *ctl, const char *command, bool dry, struct nam_sweep_stat *ret_stat,
	struct nam_blocks *ret_held)
{
	struct watch watch = { .stat = ret_stat, .live = isatty(STDERR_FILENO) && !ctl->quiet };
	struct memory blocks, parts;
	bool known = !memory_get(ctl, &blocks, &parts); /* SUSPENDS */
	int rc;

	nam_worker_stop_when(ctl->worker, look, &watch);
	nam_worker_pace(ctl->worker, ctl->pace);
	rc = nam_sweep(ctl->worker, dry, ret_stat); /* SUSPENDS */
	if (watch.shown)
		(void)fputs("\r\033[K", stderr);
	if (rc && rc != -ECANCELED && known) {
		memory_print(ctl, "in blocks", &blocks);
		memory_print(ctl, "of trees and key-value stores", &parts);
	}
	if (rc)
		return ctl_worker_failed(ctl, command, rc);
	ret_held->blocks = ret_stat->used.blocks - ret_stat->named.blocks - ret_stat->freed.blocks;
	ret_held->bytes = ret_stat->used.bytes - ret_stat->named.bytes - ret_stat->freed.bytes;
	return NAM_EXIT_OK;
}

int
ctl_sweep(struct ctl *ctl, char **args)
{
	struct nam_sweep_stat stat = { .entries = 0 };
	struct nam_blocks held;
	int exit_code = run(ctl, "sweep", ctl->dry_run, &stat, &held);

	(void)args;
	if (exit_code)
		return exit_code;
	ctl_print(ctl, "%" PRIu64 " blocks (%s) %s: no name leads to them, and their clients are "
		"dead", stat.freed.blocks, ctl_bytes(stat.freed.bytes).text,
		ctl->dry_run ? "can be freed" : "are free");
	ctl_print(ctl, "%" PRIu64 " (%s) were used = %" PRIu64 " (%s) that names lead to + %" PRIu64
		" (%s) of clients, this one included + %" PRIu64 " (%s)", stat.used.blocks,
		ctl_bytes(stat.used.bytes).text, stat.named.blocks,
		ctl_bytes(stat.named.bytes).text, held.blocks, ctl_bytes(held.bytes).text,
		stat.freed.blocks, ctl_bytes(stat.freed.bytes).text);
	ctl_print(ctl, "%u index%s, %u record store%s, %u table%s", stat.indexes,
		stat.indexes == 1 ? "" : "es", stat.record_stores,
		stat.record_stores == 1 ? "" : "s", stat.tables, stat.tables == 1 ? "" : "s");
	if (stat.parts)
		ctl_print(ctl, "%" PRIu64 " part%s of indexes and key-value stores (%s) without a "
			"name %s", stat.parts, stat.parts == 1 ? "" : "s",
			ctl_bytes(stat.parts_freed_bytes).text,
			ctl->dry_run ? "can be dropped" : "are dropped");
	if (stat.entries)
		ctl_print(ctl, "%" PRIu64 " %s of tables' indexes, whose versions are freed, %s",
			stat.entries, stat.entries == 1 ? "entry" : "entries",
			ctl->dry_run ? "can be deleted" : "are deleted");
	json_print(ctl, &stat, &held);
	return NAM_EXIT_OK;
}

/* ---- books ----------------------------------------------------------------------------------- */

/* The memory servers were asked later.  Returns by how much clients have changed it meanwhile. */
static int64_t
changed_print(const struct ctl *ctl, const struct memory *memory, uint64_t used_bytes)
{
	int64_t changed = (int64_t)(memory->carved - memory->free - memory->waiting - used_bytes);

	if (changed)
		ctl_print(ctl, "and %" PRId64 " bytes that clients took or gave back meanwhile",
			changed);
	return changed;
}

static void
books_blocks(const struct ctl *ctl, cJSON *books, const struct nam_sweep_stat *stat,
	const struct nam_blocks *held, const struct memory *memory)
{
	int64_t changed;

	ctl_print(ctl, "%s in blocks = %s (%" PRIu64 " blocks) that names lead to + %s (%" PRIu64
		") of clients, this one included + %s (%" PRIu64 ") that dead clients left + %s "
		"free + %s that wait for readers until a client lacks memory",
		ctl_bytes(memory->carved).text, ctl_bytes(stat->named.bytes).text,
		stat->named.blocks, ctl_bytes(held->bytes).text, held->blocks,
		ctl_bytes(stat->freed.bytes).text, stat->freed.blocks,
		ctl_bytes(memory->free).text, ctl_bytes(memory->waiting).text);
	changed = changed_print(ctl, memory, stat->used.bytes);
	ctl_json_u64(books, "allocated_bytes", memory->carved);
	json_blocks(books, "used_blocks", "used_bytes", &stat->used);
	json_blocks(books, "named_blocks", "named_bytes", &stat->named);
	json_blocks(books, "held_blocks", "held_bytes", held);
	json_blocks(books, "dead_blocks", "dead_bytes", &stat->freed);
	ctl_json_u64(books, "free_bytes", memory->free);
	ctl_json_u64(books, "waiting_bytes", memory->waiting);
	cJSON_AddNumberToObject(books, "changed_bytes", (double)changed);
}

static void
books_parts(const struct ctl *ctl, cJSON *books, const struct nam_sweep_stat *stat,
	const struct memory *memory)
{
	uint64_t held = stat->parts_used_bytes - stat->parts_named_bytes - stat->parts_freed_bytes;
	uint64_t free = memory->free + memory->waiting;
	cJSON *parts = cJSON_AddObjectToObject(books, "parts");
	int64_t changed;

	ctl_print(ctl, "%s of trees and key-value stores = %s that names lead to + %s of clients + "
		"%s (%" PRIu64 " part%s) that dead clients left + %s free",
		ctl_bytes(memory->carved).text, ctl_bytes(stat->parts_named_bytes).text,
		ctl_bytes(held).text, ctl_bytes(stat->parts_freed_bytes).text, stat->parts,
		stat->parts == 1 ? "" : "s", ctl_bytes(free).text);
	changed = changed_print(ctl, memory, stat->parts_used_bytes);
	ctl_json_u64(parts, "allocated_bytes", memory->carved);
	ctl_json_u64(parts, "used_bytes", stat->parts_used_bytes);
	ctl_json_u64(parts, "named_bytes", stat->parts_named_bytes);
	ctl_json_u64(parts, "held_bytes", held);
	ctl_json_u64(parts, "dead", stat->parts);
	ctl_json_u64(parts, "dead_bytes", stat->parts_freed_bytes);
	ctl_json_u64(parts, "free_bytes", free);
	cJSON_AddNumberToObject(parts, "changed_bytes", (double)changed);
}

int
ctl_books(struct ctl *ctl, cJSON *object)
{
	cJSON *books = cJSON_AddObjectToObject(object, "books");
	struct nam_sweep_stat stat = { .entries = 0 };
	struct memory blocks, parts;
	struct nam_blocks held;
	int exit_code = ctl_connect(ctl), rc;

	if (!exit_code) {
		ctl_catch_signals();
		exit_code = run(ctl, "status --books", true, &stat, &held);
	}
	if (exit_code)
		return exit_code;
	rc = memory_get(ctl, &blocks, &parts); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, "status --books", rc);
	books_blocks(ctl, books, &stat, &held, &blocks);
	books_parts(ctl, books, &stat, &parts);
	return NAM_EXIT_OK;
}
