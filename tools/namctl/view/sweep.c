/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients have left. */
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

/* Called often.  One line each second. */
static bool
look(void *arg)
{
	struct watch *watch = arg;
	time_t now = time(NULL);

	if (!watch->at)
		watch->at = now;
	if (watch->live && now != watch->at) {
		(void)fprintf(stderr, "\r\033[Ksweeping: %" PRIu64 " blocks of %u indexes and %u "
			"record stores", watch->stat->named.blocks, watch->stat->indexes,
			watch->stat->record_stores);
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
	cJSON *object = cJSON_CreateObject();

	cJSON_AddBoolToObject(object, "dry_run", ctl->dry_run);
	ctl_json_u64(object, "indexes", stat->indexes);
	ctl_json_u64(object, "record_stores", stat->record_stores);
	ctl_json_u64(object, "tables", stat->tables);
	json_blocks(object, "used_blocks", "used_bytes", &stat->used);
	json_blocks(object, "named_blocks", "named_bytes", &stat->named);
	json_blocks(object, "held_blocks", "held_bytes", held);
	json_blocks(object, "freed_blocks", "freed_bytes", &stat->freed);
	ctl_json_u64(object, "parts", stat->parts);
	ctl_json_u64(object, "entries", stat->entries);
	ctl_json_print(object);
}

int
ctl_sweep(struct ctl *ctl, char **args)
{
	char freed[24], used[24], named[24], held_text[24];
	struct nam_sweep_stat stat = { .entries = 0 };
	struct watch watch = { .stat = &stat, .live = isatty(STDERR_FILENO) && !ctl->quiet };
	struct nam_blocks held;
	int rc;

	(void)args;
	nam_worker_stop_when(ctl->worker, look, &watch);
	nam_worker_pace(ctl->worker, ctl->pace);
	rc = nam_sweep(ctl->worker, ctl->dry_run, &stat); /* SUSPENDS */
	if (watch.shown)
		(void)fputs("\r\033[K", stderr);
	if (rc)
		return ctl_worker_failed(ctl, "sweep", rc);
	held.blocks = stat.used.blocks - stat.named.blocks - stat.freed.blocks;
	held.bytes = stat.used.bytes - stat.named.bytes - stat.freed.bytes;
	ctl_say(ctl, "%" PRIu64 " blocks (%s) %s: no name leads to them, and their clients are "
		"dead", stat.freed.blocks, ctl_bytes(freed, stat.freed.bytes),
		ctl->dry_run ? "can be freed" : "are free");
	ctl_say(ctl, "%" PRIu64 " (%s) were used = %" PRIu64 " (%s) that names lead to + %" PRIu64
		" (%s) of other clients + %" PRIu64 " (%s)", stat.used.blocks,
		ctl_bytes(used, stat.used.bytes), stat.named.blocks,
		ctl_bytes(named, stat.named.bytes), held.blocks, ctl_bytes(held_text, held.bytes),
		stat.freed.blocks, freed);
	ctl_say(ctl, "%u indexes, %u record stores, %u tables", stat.indexes, stat.record_stores,
		stat.tables);
	if (stat.parts)
		ctl_say(ctl, "%" PRIu64 " parts of indexes and key-value stores without a name %s",
			stat.parts, ctl->dry_run ? "can be dropped" : "are dropped");
	if (stat.entries)
		ctl_say(ctl, "%" PRIu64 " entries of tables' indexes %s: their rows were never "
			"committed", stat.entries, ctl->dry_run ? "can be deleted" : "are deleted");
	if (ctl->json)
		json_print(ctl, &stat, &held);
	return NAM_EXIT_OK;
}
