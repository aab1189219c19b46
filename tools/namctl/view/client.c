/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- the clients of a cluster, and the end of one. */
#include <stdio.h>

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
	cJSON *object = ctl_json(ctl);
	struct list list = {
		.json = cJSON_AddArrayToObject(object, "clients"),
		.own = nam_client_id(ctl->client),
	};
	int rc = nam_client_list(ctl->worker, list_one, &list); /* SUSPENDS */

	(void)args;
	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, "listing the clients", rc);
	}
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_client_fence(struct ctl *ctl, char **args)
{
	struct nam_diag diag = { "" };
	uint32_t id;
	cJSON *object;
	int exit_code = ctl_number_take(args[0], UINT16_MAX, "client: its id is a number, as "
		"namctl client list tells it", &id), rc;

	if (exit_code)
		return exit_code;
	rc = nam_client_fence(ctl->worker, (uint16_t)id, 0, &diag); /* SUSPENDS */
	if (nam_err_is(rc, NAM_E_FABRIC_CAPABILITY) && ctl->evict)
		rc = ctl_client_evict(ctl, (uint16_t)id, &diag); /* SUSPENDS */
	if (rc) {
		exit_code = ctl_failed(NULL, rc, diag.text);
		/* Nothing has failed: the client is alive. */
		return nam_err_is(rc, NAM_E_FABRIC_CAPABILITY) ? NAM_EXIT_NO : exit_code;
	}
	ctl_print(ctl, "client %u is dead: no memory server takes it any more", id);
	object = ctl_json(ctl);
	ctl_json_u64(object, "id", id);
	cJSON_AddBoolToObject(object, "dead", true);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}
