/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- the clients of a cluster, and the end of one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/namctl/namctl.h"

struct list {
	cJSON *json;			/* an array, or NULL: text */
	bool begun;
	uint16_t own;			/* this program's, which is left out */
};

static int
list_one(void *arg, const struct nam_client_info *info)
{
	struct list *list = arg;
	cJSON *object;

	if (info->id == list->own)
		return 0;
	if (!list->json) {
		if (!list->begun)
			printf("%-5s %-11s %-6s %8s  %s\n", "id", "incarnation", "state", "pid",
				"name");
		list->begun = true;
		printf("%-5u %-11u %-6s %8llu  %s\n", info->id, info->incarnation,
			info->alive ? "alive" : "ended", (unsigned long long)info->pid, info->name);
		return 0;
	}
	object = cJSON_CreateObject();
	ctl_json_u64(object, "id", info->id);
	ctl_json_u64(object, "incarnation", info->incarnation);
	cJSON_AddStringToObject(object, "state", info->alive ? "alive" : "ended");
	ctl_json_u64(object, "pid", info->pid);
	cJSON_AddStringToObject(object, "name", info->name);
	cJSON_AddItemToArray(list->json, object);
	return 0;
}

int
ctl_client_list(struct ctl *ctl, char **args)
{
	cJSON *object = ctl->json ? cJSON_CreateObject() : NULL;
	struct list list = {
		.json = object ? cJSON_AddArrayToObject(object, "clients") : NULL,
		.own = nam_client_id(ctl->client),
	};
	int rc = nam_client_list(ctl->worker, list_one, &list); /* SUSPENDS */

	(void)args;
	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, "listing the clients", rc);
	}
	if (object)
		ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_client_fence(struct ctl *ctl, char **args)
{
	struct nam_diag diag = { "" };
	unsigned long id;
	cJSON *object;
	char *end;
	int rc;

	errno = 0;
	id = strtoul(args[0], &end, 10);
	if (errno || end == args[0] || *end || id > UINT16_MAX) {
		ctl_complain("'%s' is no client: its id is a number, as namctl client list tells "
			     "it", args[0]);
		return NAM_EXIT_USAGE;
	}
	rc = nam_client_fence(ctl->worker, (uint16_t)id, 0, &diag); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_FABRIC_CAPABILITY) && ctl->evict)
		rc = ctl_client_evict(ctl, (uint16_t)id, &diag); /* SUSPENDS */
	if (rc) {
		int exit_code = ctl_failed(NULL, rc, diag.text);

		/* Nothing has failed: the client is alive. */
		return nam_err_is(rc, NAM_E_FABRIC_CAPABILITY) ? NAM_EXIT_NO : exit_code;
	}
	ctl_say(ctl, "client %lu is dead: no memory server takes it any more", id);
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "id", id);
		cJSON_AddBoolToObject(object, "dead", true);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}
