/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- a memory server comes to the cluster; its memory passes to a successor. */
#include <stdio.h>
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

int
ctl_server_move(struct ctl *ctl, char **args)
{
	struct wait wait = { .live = isatty(STDERR_FILENO) && !ctl->quiet };
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_server_moved moved;
	int exit_code = ctl_client_options(ctl, &options), rc;
	cJSON *object;

	if (exit_code)
		return exit_code;
	ctl->store.timeout_ms = options.timeout_ms;
	rc = nam__store_server_move(&options, &ctl->store, args[0], on_move, &wait, &moved, &diag);
	if (wait.shown)
		(void)fputs("\r\033[K", stderr);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
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
