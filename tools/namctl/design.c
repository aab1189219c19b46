/* SPDX-License-Identifier: Apache-2.0 */
/* design.c -- an index's design and its parts as people write them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namctl.h"

const char *const ctl_designs[] = { "fine", "coarse", "hybrid", NULL };
const char *const ctl_partitionings[] = { "range", "hash", "round-robin", NULL };

/* ---- bounds -------------------------------------------------------------------------------- */

/*
 * "KEY,KEY,...": as many as there are memory servers, less one.  The caller frees *ret_bounds.
 *
 * @ret_count	how many
 */
static int
bounds_parse(const struct ctl *ctl, const struct key_format *format, uint8_t **ret_bounds,
	uint32_t *ret_count)
{
	uint32_t wanted = nam_client_servers(ctl->client) - 1, count = 0;
	char *copy = strdup(ctl->bounds), *next = copy, *text;
	uint8_t *bounds = malloc((size_t)(wanted ? wanted : 1) * format->bytes);
	struct nam_diag diag = { "" };
	int exit_code = NAM_EXIT_OK;

	if (!copy || !bounds) {
		exit_code = ctl_failed("--bounds", -ENOMEM, NULL);
		goto out;
	}
	for (; (text = strsep(&next, ",")); count++) {
		if (count >= wanted)
			continue;
		if (key_parse(format, text, bounds + (size_t)count * format->bytes, &diag)) {
			ctl_complain("--bounds: %s", diag.text);
			exit_code = NAM_EXIT_USAGE;
			goto out;
		}
	}
	if (count != wanted) {
		ctl_complain("--bounds: %u keys for %u memory servers: say %u, where the parts of "
			"the second and later ones begin", count, wanted + 1, wanted);
		exit_code = NAM_EXIT_USAGE;
	}
out:
	free(copy);
	if (exit_code) {
		free(bounds);
		return exit_code;
	}
	*ret_bounds = bounds;
	*ret_count = count;
	return NAM_EXIT_OK;
}

static int
refuse(const char *option, const char *why)
{
	ctl_complain("%s: %s", option, why);
	return NAM_EXIT_USAGE;
}

int
ctl_parts_resolve(struct ctl *ctl, uint8_t **ret_bounds)
{
	struct nam_index_options *create = &ctl->create;
	const struct nam_index_traits *traits = nam_index_traits(create->design);
	struct nam_diag diag = { "" };
	struct key_format format;
	int exit_code;

	*ret_bounds = NULL;
	if (!traits->partitioned)
		return ctl->bounds ? refuse("--bounds", "a fine-grained index has no parts") :
			ctl->partitioning_set ? refuse("--partition",
				"a fine-grained index has no parts") : NAM_EXIT_OK;
	if (!traits->client_levels && ctl->head_interval_set)
		return refuse("--head-interval", "a coarse-grained index has no head nodes");
	if (ctl->bounds && ctl->partitioning_set && create->partitioning != NAM_PARTITION_RANGE)
		return refuse("--bounds", "only with --partition range");
	if (ctl->bounds)
		create->partitioning = NAM_PARTITION_RANGE;
	else
		return NAM_EXIT_OK;
	if (key_format_choose(ctl->key_type, create->key_bytes, &format, &diag)) {
		ctl_complain("%s", diag.text);
		return NAM_EXIT_USAGE;
	}
	ctl->format = format;
	exit_code = bounds_parse(ctl, &format, ret_bounds, &create->bounds_count);
	create->bounds = *ret_bounds;
	return exit_code;
}

/* ---- what an index is ---------------------------------------------------------------------- */

void
ctl_parts_print(const struct ctl *ctl)
{
	const struct nam_index_options *is = nam_index_properties(ctl->index);
	const uint8_t *bounds = is->bounds;
	char text[KEY_TEXT_BYTES];

	if (!nam_index_traits(is->design)->partitioned)
		return;
	printf("parts            by %s\n", nam_partitioning_name(is));
	for (uint32_t i = 0; i < is->bounds_count; i++) {
		key_print(&ctl->format, bounds + (size_t)i * is->key_bytes, text);
		printf("  part %-9u from %s\n", i + 1, text);
	}
}

void
ctl_index_json(const struct ctl *ctl, const char *name, const struct nam_index_options *is,
	cJSON *object)
{
	const struct nam_index_traits *traits = nam_index_traits(is->design);
	const uint8_t *bounds = traits->partitioned ? is->bounds : NULL;
	cJSON *list;

	cJSON_AddStringToObject(object, "index", name);
	cJSON_AddStringToObject(object, "design", traits->name);
	cJSON_AddStringToObject(object, "partitioning", nam_partitioning_name(is));
	list = bounds ? cJSON_AddArrayToObject(object, "bounds") : NULL;
	for (uint32_t i = 0; list && i < is->bounds_count; i++)
		cJSON_AddItemToArray(list,
			ctl_json_key(&ctl->format, bounds + (size_t)i * is->key_bytes));
	cJSON_AddBoolToObject(object, "unique", is->unique);
	ctl_json_u64(object, "key_bytes", is->key_bytes);
	ctl_json_u64(object, "node_bytes", is->node_bytes);
	if (traits->client_levels)
		ctl_json_u64(object, "head_interval", is->head_interval);
}
