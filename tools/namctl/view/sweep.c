/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients have left. */
#include <inttypes.h>

#include "tools/namctl/namctl.h"

int
ctl_sweep(struct ctl *ctl, char **args)
{
	struct nam_sweep_stat stat;
	char bytes[24];
	cJSON *object;
	int rc = nam_sweep(ctl->worker, ctl->dry_run, &stat); /* SUSPENDS */

	(void)args;
	if (rc)
		return ctl_worker_failed(ctl, "sweep", rc);
	ctl_say(ctl, "%" PRIu64 " blocks (%s) %s: no index leads to them, and their clients are "
		"dead; %u indexes with %" PRIu64 " nodes", stat.freed_blocks,
		ctl_bytes(bytes, stat.freed_bytes), ctl->dry_run ? "can be freed" : "are free",
		stat.indexes, stat.named_blocks);
	if (ctl->json) {
		object = cJSON_CreateObject();
		cJSON_AddBoolToObject(object, "dry_run", ctl->dry_run);
		ctl_json_u64(object, "indexes", stat.indexes);
		ctl_json_u64(object, "named_blocks", stat.named_blocks);
		ctl_json_u64(object, "suspect_blocks", stat.suspect_blocks);
		ctl_json_u64(object, "freed_blocks", stat.freed_blocks);
		ctl_json_u64(object, "freed_bytes", stat.freed_bytes);
		ctl_json_print(object);
	}
	return NAM_EXIT_OK;
}
