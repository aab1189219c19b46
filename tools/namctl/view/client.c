/* SPDX-License-Identifier: Apache-2.0 */
/* client.c -- the end of a client. */
#include <errno.h>
#include <stdlib.h>

#include "tools/namctl/namctl.h"

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
		ctl_complain("'%s' is no client: its id is a number, as namctl status and messages "
			     "about locks tell it", args[0]);
		return NAM_EXIT_USAGE;
	}
	rc = nam_client_fence(ctl->worker, (uint16_t)id, 0, &diag);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_say(ctl, "client %lu is dead: no memory server takes it any more", id);
	if (ctl->json) {
		object = cJSON_CreateObject();
		ctl_json_u64(object, "id", id);
		cJSON_AddBoolToObject(object, "dead", true);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}
