/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c -- the counts of a memory server as JSON. */
#include "namctl.h"

static void
json_services(cJSON *object, const struct nam_service_figures *services)
{
	cJSON *list = cJSON_AddObjectToObject(object, "services");

	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++) {
		cJSON *service, *within;

		if (!services[i].requests)
			continue;
		service = cJSON_AddObjectToObject(list, nam_service_name(i));
		ctl_json_u64(service, "requests", services[i].requests);
		ctl_json_u64(service, "failed", services[i].failed);
		ctl_json_u64(service, "total_ns", services[i].total_ns);
		within = cJSON_AddArrayToObject(service, "within");
		for (uint32_t j = 0; j < NAM_LATENCIES; j++)
			cJSON_AddItemToArray(within,
				cJSON_CreateNumber((double)services[i].within[j]));
	}
}

void
ctl_json_figures(cJSON *object, const struct nam_server_figures *figures)
{
#define TEXT(name, text) text,
	static const char *const refusals[] = { NAM_REFUSALS(TEXT) };
	static const char *const restarts[] = { NAM_SERVER_RESTARTS(TEXT) };
#undef TEXT
	static const char *const kinds[NAM_MEMORY_KINDS] = { "public", "private",
		"read_only" };
	cJSON *part = cJSON_AddObjectToObject(object, "memory");

	for (uint32_t i = 0; i < NAM_MEMORY_KINDS; i++) {
		cJSON *kind = cJSON_AddObjectToObject(part, kinds[i]);

		ctl_json_u64(kind, "bytes", figures->memory[i].bytes);
		ctl_json_u64(kind, "carved_bytes", figures->memory[i].carved_bytes);
		ctl_json_u64(kind, "free_bytes", figures->memory[i].free_bytes);
		ctl_json_u64(kind, "waiting_bytes", figures->memory[i].waiting_bytes);
	}
	ctl_json_u64(object, "accepted", figures->accepted);
	part = cJSON_AddObjectToObject(object, "refused");
	for (uint32_t i = 0; i < NAM_REFUSALS_COUNT; i++)
		ctl_json_u64(part, refusals[i], figures->refused[i]);
	part = cJSON_AddObjectToObject(object, "restarts");
	for (uint32_t i = 0; i < NAM_SERVER_RESTARTS_COUNT; i++)
		ctl_json_u64(part, restarts[i], figures->restarts[i]);
	json_services(object, figures->services);
}
