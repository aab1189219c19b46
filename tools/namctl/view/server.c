/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a memory server comes to the cluster; memory passes to successors; backups. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tools/namctl/namctl.h"

/* The state of a call that changes the view. */
struct change {
	struct ctl *ctl;
	struct nam_client_options options;	/* with the view store */
	struct nam_diag diag;
	bool live;			/* standard error is a terminal */
	bool shown;			/* there is a line on it */
	time_t since;			/* of a wait */
	cJSON *moves;			/* of drain and rebalance; NULL: output is for people */
};

/* Returns an exit code, as does end(), which follows the call. */
static int
begin(struct ctl *ctl, struct change *change)
{
	int exit_code, rc;

	*change = (struct change){ .ctl = ctl, .live = isatty(STDERR_FILENO) && !ctl->quiet };
	exit_code = ctl_client_options(ctl, &change->options);
	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = change->options.timeout_ms;
	rc = nam__store_lead(&change->options, &ctl->store, &change->diag);
	if (!rc)
		return NAM_EXIT_OK;
	nam__store_leave(&change->options);
	return ctl_failed(NULL, rc, change->diag.text);
}

static void
line_clear(struct change *change)
{
	if (change->shown)
		(void)fputs("\r\033[K", stderr);
	change->shown = false;
}

static int
end(struct change *change, int rc)
{
	nam__store_leave(&change->options);
	line_clear(change);
	return rc ? ctl_failed(NULL, rc, change->diag.text) : NAM_EXIT_OK;
}

/* Print a line, while there is a wait. */
static void
on_wait(void *arg, const char *client)
{
	struct change *change = arg;
	time_t now = time(NULL);

	if (!change->since)
		change->since = now;
	if (!change->live || now == change->since)
		return;
	(void)fprintf(stderr, "\r\033[Kwaiting for %s: %llu s", client,
		(unsigned long long)(now - change->since));
	change->shown = true;
}

static void
on_move(void *arg, const char *client, uint64_t bytes)
{
	struct change *change = arg;

	if (client) {
		on_wait(arg, client);
	} else if (change->live) {
		(void)fprintf(stderr, "\r\033[Kcopied %llu MiB",
			(unsigned long long)bytes >> 20);
		change->shown = true;
	}
}

int
ctl_server_add(struct ctl *ctl, char **args)
{
	struct nam_server_added added;
	struct change change;
	int exit_code = begin(ctl, &change);
	cJSON *object;

	if (!exit_code)
		exit_code = end(&change, nam_server_add(&change.options, args[0], on_wait, &change,
			&added, &change.diag));
	if (exit_code)
		return exit_code;
	ctl_print(ctl, added.already ? "memory server %u is a member already: view %llu" :
		"memory server %u has been added: view %llu", added.id,
		(unsigned long long)added.view);
	object = ctl_json(ctl);
	ctl_json_u64(object, "id", added.id);
	cJSON_AddStringToObject(object, "address", args[0]);
	cJSON_AddBoolToObject(object, "added", !added.already);
	ctl_json_u64(object, "view", added.view);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

/* @backs	the successor becomes a backup */
static int
successor_fill(struct ctl *ctl, const char *address, bool backs)
{
	struct nam_server_moved moved;
	struct change change;
	int exit_code = begin(ctl, &change);
	cJSON *object;

	if (!exit_code)
		exit_code = end(&change, (backs ? nam_server_back : nam_server_move)(
			&change.options, address, on_move, &change, &moved, &change.diag));
	if (exit_code)
		return exit_code;
	if (moved.already)
		ctl_print(ctl, "memory server %u has its %s there already: view %llu", moved.id,
			backs ? "backup" : "memory", (unsigned long long)moved.view);
	else
		ctl_print(ctl, "%smemory server %u has %s: %.1f MiB, clients waited for about %.1f "
			"ms, view %llu%s", backs ? "" : "the memory of ", moved.id,
			backs ? "a backup" : "moved", (double)moved.bytes / (1 << 20),
			(double)moved.stopped_us / 1000, (unsigned long long)moved.view,
			backs || moved.retired ? "" : "; the old process is to be ended");
	object = ctl_json(ctl);
	ctl_json_u64(object, "id", moved.id);
	cJSON_AddStringToObject(object, "address", address);
	cJSON_AddBoolToObject(object, backs ? "backed" : "moved", !moved.already);
	ctl_json_u64(object, "bytes", moved.bytes);
	ctl_json_u64(object, "stopped_us", moved.stopped_us);
	if (!backs)
		cJSON_AddBoolToObject(object, "retired", moved.retired);
	ctl_json_u64(object, "view", moved.view);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_server_move(struct ctl *ctl, char **args)
{
	return successor_fill(ctl, args[0], false);
}

/* ---- backups ------------------------------------------------------------------------------ */

int
ctl_server_back(struct ctl *ctl, char **args)
{
	return successor_fill(ctl, args[0], true);
}

/* @done	of the member of that id, as JSON says it */
static int
member_change(struct ctl *ctl, const char *text, __typeof__(nam_server_promote) *fn,
	const char *done, uint32_t *ret_id)
{
	struct change change;
	cJSON *object;
	int exit_code = ctl_number_take(text, UINT16_MAX, "memory server: its id is a number, as "
		"namctl status tells it", ret_id);

	if (!exit_code)
		exit_code = begin(ctl, &change);
	if (!exit_code)
		exit_code = end(&change, fn(&change.options, *ret_id, &change.diag));
	if (exit_code)
		return exit_code;
	object = ctl_json(ctl);
	ctl_json_u64(object, "id", *ret_id);
	cJSON_AddBoolToObject(object, done, true);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_server_promote(struct ctl *ctl, char **args)
{
	uint32_t id;
	int exit_code = member_change(ctl, args[0], nam_server_promote, "promoted", &id);

	if (!exit_code)
		ctl_print(ctl, "the backup of memory server %u has its place, and memory server %u "
			"has no backup now", id, id);
	return exit_code;
}

int
ctl_server_unback(struct ctl *ctl, char **args)
{
	uint32_t id;
	int exit_code = member_change(ctl, args[0], nam_server_unback, "unbacked", &id);

	if (!exit_code)
		ctl_print(ctl,
			"memory server %u has no backup: a process that was its backup can be "
			"ended", id);
	return exit_code;
}

int
ctl_cluster_replicas(struct ctl *ctl, char **args)
{
	struct change change;
	uint32_t replicas;
	cJSON *object;
	int exit_code = ctl_number_take(args[0], UINT32_MAX, "number of copies", &replicas);

	if (!exit_code)
		exit_code = begin(ctl, &change);
	if (!exit_code)
		exit_code = end(&change, nam_cluster_replicas(&change.options, replicas,
			&change.diag));
	if (exit_code)
		return exit_code;
	ctl_print(ctl,
		replicas == 1 ? "no memory server has a backup" : replicas == 2 ?
		"each memory server gets a backup from nam-steward: namctl status tells how far it "
		"is" : "each memory server gets two backups from nam-steward, and the lead one: "
		"namctl status tells how far it is");
	object = ctl_json(ctl);
	ctl_json_u64(object, "replicas", replicas);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

/* ---- all memory of a process -------------------------------------------------------------- */

/* The memory of a member has moved, or would. */
static void
on_moved(struct change *change, const struct nam_drain_step *step)
{
	const struct nam_server_moved *moved = step->moved;
	uint64_t bytes = moved ? moved->bytes : step->bytes;
	cJSON *move;

	line_clear(change);
	change->since = 0;
	if (moved)
		ctl_print(change->ctl, "the memory of memory server %u has moved to %s: %.1f MiB, "
			"clients waited for about %.1f ms", step->id, step->to,
			(double)bytes / (1 << 20), (double)moved->stopped_us / 1000);
	else
		ctl_print(change->ctl, "the memory of memory server %u would move to %s: %.1f MiB",
			step->id, step->to, (double)bytes / (1 << 20));
	if (!change->moves)
		return;
	move = cJSON_CreateObject();
	ctl_json_u64(move, "id", step->id);
	cJSON_AddStringToObject(move, "address", step->to);
	ctl_json_u64(move, "bytes", bytes);
	if (moved) {
		ctl_json_u64(move, "stopped_us", moved->stopped_us);
		ctl_json_u64(move, "view", moved->view);
	}
	cJSON_AddItemToArray(change->moves, move);
}

static void
on_drain(void *arg, const struct nam_drain_step *step)
{
	struct change *change = arg;

	if (step->moved || step->planned) {
		on_moved(change, step);
	} else if (!step->total_bytes) {
		on_move(change, step->client, step->bytes);
	} else if (change->live) {
		(void)fprintf(stderr, "\r\033[Kmemory for memory server %u at %s: %llu of %llu MiB",
			step->id, step->to, (unsigned long long)step->ready_bytes >> 20,
			(unsigned long long)step->total_bytes >> 20);
		change->shown = true;
	}
}

int
ctl_server_drain(struct ctl *ctl, char **args)
{
	cJSON *object = ctl_json(ctl);
	struct change change;
	uint32_t moved;
	int exit_code = begin(ctl, &change);

	cJSON_AddStringToObject(object, "server", args[0]);
	change.moves = cJSON_AddArrayToObject(object, "moves");
	if (!exit_code)
		exit_code = end(&change, nam_server_drain(&change.options, args[0], on_drain,
			&change, &moved, &change.diag));
	if (!exit_code) {
		ctl_print(ctl, "the process of the memory server %s has no memory of the cluster%s,"
			" and can be ended", args[0], moved ? " any more" : "");
		ctl_json_print(object);
	} else {
		cJSON_Delete(object);
	}
	return exit_code;
}

int
ctl_server_remove(struct ctl *ctl, char **args)
{
	struct nam_server_removed removed;
	struct change change;
	cJSON *object;
	uint32_t id;
	int exit_code = ctl_number_take(args[0], UINT16_MAX, "memory server: its id is a number, "
		"as namctl status tells it", &id);

	if (!exit_code)
		exit_code = begin(ctl, &change);
	if (!exit_code)
		exit_code = end(&change, nam_server_remove(&change.options, id, &removed,
			&change.diag));
	if (exit_code)
		return exit_code;
	if (removed.memory_at[0])
		ctl_print(ctl, "the process that was memory server %u is no member: the memory is "
			"at %s, and keeps the id", id, removed.memory_at);
	else
		ctl_print(ctl, removed.already ? "memory server %u was removed before: view %llu" :
			"memory server %u has been removed, and its memory is lost: view %llu", id,
			(unsigned long long)removed.view);
	object = ctl_json(ctl);
	ctl_json_u64(object, "id", id);
	cJSON_AddBoolToObject(object, "removed", !removed.already);
	if (removed.memory_at[0])
		cJSON_AddStringToObject(object, "memory_at", removed.memory_at);
	ctl_json_u64(object, "view", removed.view);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_rebalance(struct ctl *ctl, char **args)
{
	cJSON *object = ctl_json(ctl);
	struct change change;
	uint32_t moved;
	int exit_code = begin(ctl, &change);

	(void)args;
	cJSON_AddBoolToObject(object, "dry_run", ctl->dry_run);
	change.moves = cJSON_AddArrayToObject(object, "moves");
	if (!exit_code)
		exit_code = end(&change, nam_rebalance(&change.options, ctl->dry_run, on_drain,
			&change, &moved, &change.diag));
	if (!exit_code) {
		if (!moved)
			ctl_print(ctl,
				"no move of memory that a process has taken would relieve it");
		ctl_json_print(object);
	} else {
		cJSON_Delete(object);
	}
	return exit_code;
}
