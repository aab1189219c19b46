/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a memory server comes to the cluster; memory passes to successors; backups. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/namctl/namctl.h"

struct wait {
	bool live;			/* standard error is a terminal */
	bool shown;
	time_t since;
};

/* One line, while there is a wait. */
static void
on_wait(void *arg, const char *client)
{
	struct wait *wait = arg;
	time_t now = time(NULL);

	if (!wait->since)
		wait->since = now;
	if (!wait->live || now == wait->since)
		return;
	(void)fprintf(stderr, "\r\033[Kwaiting for %s: %llu s", client,
		(unsigned long long)(now - wait->since));
	wait->shown = true;
}

int
ctl_server_add(struct ctl *ctl, char **args)
{
	struct wait wait = { .live = isatty(STDERR_FILENO) && !ctl->quiet };
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_server_added added;
	int exit_code = ctl_client_options(ctl, &options), rc;
	cJSON *object;

	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = options.timeout_ms;
	rc = nam__store_server_add(&options, &ctl->store, args[0], on_wait, &wait, &added, &diag);
	if (wait.shown)
		(void)fputs("\r\033[K", stderr);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_say(ctl, added.already ? "memory server %u is a member already: view %llu" :
		"memory server %u has been added: view %llu", added.id,
		(unsigned long long)added.view);
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "id", added.id);
		cJSON_AddStringToObject(object, "address", args[0]);
		cJSON_AddBoolToObject(object, "added", !added.already);
		ctl_json_u64(object, "view", added.view);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}

static void
on_move(void *arg, const char *client, uint64_t bytes)
{
	struct wait *wait = arg;

	if (client) {
		on_wait(arg, client);
	} else if (wait->live) {
		(void)fprintf(stderr, "\r\033[Kcopied %llu MiB",
			(unsigned long long)bytes >> 20);
		wait->shown = true;
	}
}

/* An exit code, with a message after a failure. */
static int
successor_fill(struct ctl *ctl, __typeof__(nam__store_server_move) *fill, const char *address,
	struct nam_server_moved *ret_moved)
{
	struct wait wait = { .live = isatty(STDERR_FILENO) && !ctl->quiet };
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int exit_code = ctl_client_options(ctl, &options), rc;

	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = options.timeout_ms;
	rc = fill(&options, &ctl->store, address, on_move, &wait, ret_moved, &diag);
	if (wait.shown)
		(void)fputs("\r\033[K", stderr);
	return rc ? ctl_failed(NULL, rc, diag.text) : NAM_EXIT_OK;
}

int
ctl_server_move(struct ctl *ctl, char **args)
{
	struct nam_server_moved moved;
	int exit_code = successor_fill(ctl, nam__store_server_move, args[0], &moved);
	cJSON *object;

	if (exit_code)
		return exit_code;
	if (moved.already)
		ctl_say(ctl, "memory server %u has its memory there already: view %llu", moved.id,
			(unsigned long long)moved.view);
	else
		ctl_say(ctl, "the memory of memory server %u has moved: %.1f MiB, clients waited "
			"for about %.1f ms, view %llu%s", moved.id, (double)moved.bytes / (1 << 20),
			(double)moved.stopped_us / 1000, (unsigned long long)moved.view,
			moved.retired ? "" : "; the old process is to be ended");
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "id", moved.id);
		cJSON_AddStringToObject(object, "address", args[0]);
		cJSON_AddBoolToObject(object, "moved", !moved.already);
		ctl_json_u64(object, "bytes", moved.bytes);
		ctl_json_u64(object, "stopped_us", moved.stopped_us);
		cJSON_AddBoolToObject(object, "retired", moved.retired);
		ctl_json_u64(object, "view", moved.view);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}

/* ---- backups ------------------------------------------------------------------------------ */

int
ctl_server_back(struct ctl *ctl, char **args)
{
	struct nam_server_moved filled;
	int exit_code = successor_fill(ctl, nam__store_server_back, args[0], &filled);
	cJSON *object;

	if (exit_code)
		return exit_code;
	if (filled.already)
		ctl_say(ctl, "memory server %u has its backup there already: view %llu", filled.id,
			(unsigned long long)filled.view);
	else
		ctl_say(ctl, "memory server %u has a backup: %.1f MiB, clients waited for about "
			"%.1f ms, view %llu", filled.id, (double)filled.bytes / (1 << 20),
			(double)filled.stopped_us / 1000, (unsigned long long)filled.view);
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "id", filled.id);
		cJSON_AddStringToObject(object, "address", args[0]);
		cJSON_AddBoolToObject(object, "backed", !filled.already);
		ctl_json_u64(object, "bytes", filled.bytes);
		ctl_json_u64(object, "stopped_us", filled.stopped_us);
		ctl_json_u64(object, "view", filled.view);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}

/* The member that the argument names, and how to reach its cluster.  Returns an exit code. */
static int
member_take(struct ctl *ctl, const char *text, struct nam_client_options *ret_options,
	uint32_t *ret_id)
{
	unsigned long id;
	char *end;
	int exit_code;

	errno = 0;
	id = strtoul(text, &end, 10);
	if (errno || end == text || *end || id > UINT16_MAX) {
		ctl_complain("'%s' is no memory server: its id is a number, as namctl status "
			"tells it", text);
		return NAM_EXIT_USAGE;
	}
	exit_code = ctl_client_options(ctl, ret_options);
	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = ret_options->timeout_ms;
	*ret_id = (uint32_t)id;
	return NAM_EXIT_OK;
}

static void
json_member(const struct ctl *ctl, uint32_t id, const char *what)
{
	cJSON *object;

	if (!ctl->json)
		return;
	object = cJSON_CreateObject();
	ctl_json_u64(object, "id", id);
	cJSON_AddBoolToObject(object, what, true);
	ctl_json_print(object);
}

int
ctl_server_promote(struct ctl *ctl, char **args)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	uint32_t id;
	int exit_code = member_take(ctl, args[0], &options, &id), rc;

	if (exit_code)
		return exit_code;
	rc = nam__store_server_promote(&options, &ctl->store, id, &diag);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_say(ctl, "the backup of memory server %u has its place, and memory server %u has no "
		"backup now", id, id);
	json_member(ctl, id, "promoted");
	return NAM_EXIT_OK;
}

int
ctl_server_unback(struct ctl *ctl, char **args)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	uint32_t id;
	int exit_code = member_take(ctl, args[0], &options, &id), rc;

	if (exit_code)
		return exit_code;
	rc = nam__store_server_unback(&options, &ctl->store, id, &diag);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_say(ctl, "memory server %u has no backup: a process that was its backup can be ended",
		id);
	json_member(ctl, id, "unbacked");
	return NAM_EXIT_OK;
}

int
ctl_cluster_replicas(struct ctl *ctl, char **args)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	unsigned long replicas;
	cJSON *object;
	char *end;
	int exit_code, rc;

	errno = 0;
	replicas = strtoul(args[0], &end, 10);
	if (errno || end == args[0] || *end || replicas > UINT32_MAX) {
		ctl_complain("'%s' is no number of copies", args[0]);
		return NAM_EXIT_USAGE;
	}
	exit_code = ctl_client_options(ctl, &options);
	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = options.timeout_ms;
	rc = nam__store_cluster_replicas(&options, &ctl->store, (uint32_t)replicas, &diag);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_say(ctl, replicas == 1 ? "no memory server has a backup" : "each memory server gets a "
		"backup from nam-steward: namctl status tells how far it is");
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "replicas", replicas);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}

/* ---- all memory of a process -------------------------------------------------------------- */

struct drain {
	struct ctl *ctl;
	struct wait wait;
	cJSON *moves;			/* NULL: output is for people */
};

/* The memory of a member has moved, or would. */
static void
on_moved(struct drain *drain, const struct nam_drain_step *step)
{
	const struct nam_server_moved *moved = step->moved;
	uint64_t bytes = moved ? moved->bytes : step->bytes;
	cJSON *move;

	if (drain->wait.shown)
		(void)fputs("\r\033[K", stderr);
	drain->wait = (struct wait){ .live = drain->wait.live };
	if (moved)
		ctl_say(drain->ctl, "the memory of memory server %u has moved to %s: %.1f MiB, "
			"clients waited for about %.1f ms", step->id, step->to,
			(double)bytes / (1 << 20), (double)moved->stopped_us / 1000);
	else
		ctl_say(drain->ctl, "the memory of memory server %u would move to %s: %.1f MiB",
			step->id, step->to, (double)bytes / (1 << 20));
	if (!drain->moves)
		return;
	move = cJSON_CreateObject();
	ctl_json_u64(move, "id", step->id);
	cJSON_AddStringToObject(move, "address", step->to);
	ctl_json_u64(move, "bytes", bytes);
	if (moved) {
		ctl_json_u64(move, "stopped_us", moved->stopped_us);
		ctl_json_u64(move, "view", moved->view);
	}
	cJSON_AddItemToArray(drain->moves, move);
}

static void
on_drain(void *arg, const struct nam_drain_step *step)
{
	struct drain *drain = arg;

	if (step->moved || step->planned) {
		on_moved(drain, step);
	} else if (!step->total_bytes) {
		on_move(&drain->wait, step->client, step->bytes);
	} else if (drain->wait.live) {
		(void)fprintf(stderr, "\r\033[Kmemory for memory server %u at %s: %llu of %llu MiB",
			step->id, step->to, (unsigned long long)step->ready_bytes >> 20,
			(unsigned long long)step->total_bytes >> 20);
		drain->wait.shown = true;
	}
}

/* @server	the one to drain; NULL: rebalance */
static int
moves_make(struct ctl *ctl, const char *server, uint32_t *ret_moved, cJSON **ret_moves)
{
	struct drain drain = { .ctl = ctl,
		.wait = { .live = isatty(STDERR_FILENO) && !ctl->quiet },
		.moves = ctl->json ? cJSON_CreateArray() : NULL };
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int exit_code = ctl_client_options(ctl, &options), rc;

	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = options.timeout_ms;
	rc = server ? nam__store_server_drain(&options, &ctl->store, server, on_drain, &drain,
		ret_moved, &diag) : nam__store_rebalance(&options, &ctl->store, ctl->dry_run,
		on_drain, &drain, ret_moved, &diag);
	if (drain.wait.shown)
		(void)fputs("\r\033[K", stderr);
	*ret_moves = drain.moves;
	if (!rc)
		return NAM_EXIT_OK;
	cJSON_Delete(drain.moves);
	return ctl_failed(NULL, rc, diag.text);
}

int
ctl_server_drain(struct ctl *ctl, char **args)
{
	uint32_t moved;
	cJSON *object, *moves;
	int exit_code = moves_make(ctl, args[0], &moved, &moves);

	if (exit_code)
		return exit_code;
	ctl_say(ctl, "the process of the memory server %s has no memory of the cluster%s, and can "
		"be ended", args[0], moved ? " any more" : "");
	if (ctl->json) {
		object = cJSON_CreateObject();
		cJSON_AddStringToObject(object, "server", args[0]);
		cJSON_AddItemToObject(object, "moves", moves);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}

int
ctl_rebalance(struct ctl *ctl, char **args)
{
	uint32_t moved;
	cJSON *object, *moves;
	int exit_code = moves_make(ctl, NULL, &moved, &moves);

	(void)args;
	if (exit_code)
		return exit_code;
	if (!moved)
		ctl_say(ctl, "no move of memory that a process has taken would relieve it");
	if (ctl->json) {
		object = cJSON_CreateObject();
		cJSON_AddBoolToObject(object, "dry_run", ctl->dry_run);
		cJSON_AddItemToObject(object, "moves", moves);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}
