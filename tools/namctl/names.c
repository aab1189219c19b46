/* SPDX-License-Identifier: Apache-2.0 */
/* names.c -- what all commands about names have in common: lists of them, and that one is gone. */
#include <stdio.h>

#include "namctl.h"

/* Into an array, or a line each. */
static int
list_one(void *names, const char *name)
{
	if (names)
		cJSON_AddItemToArray(names, cJSON_CreateString(name));
	else
		puts(name);
	return 0;
}

int
ctl_no_such(const char *what, const char *list, const char *name)
{
	ctl_complain("there is no %s '%s': namctl %s list shows which there are (NAM_E_NOINDEX)",
		what, name, list);
	return NAM_EXIT_NOINDEX;
}

int
ctl_list(struct ctl *ctl, ctl_list_fn list, const char *member, const char *doing)
{
	cJSON *object = ctl_json(ctl), *names = cJSON_AddArrayToObject(object, member);
	int rc = list(ctl->worker, list_one, names); /* SUSPENDS */

	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, doing, rc);
	}
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_dropped(struct ctl *ctl, const char *name, bool lost)
{
	cJSON *object = ctl_json(ctl);

	if (lost)
		ctl_complain("%s", nam_worker_diag(ctl->worker));
	else
		ctl_print(ctl, "dropped %s", name);
	cJSON_AddStringToObject(object, "dropped", name);
	cJSON_AddBoolToObject(object, "memory_left", lost);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}
