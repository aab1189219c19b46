/* SPDX-License-Identifier: Apache-2.0 */
/* record_json.c -- operators read the record, too: `etcdctl get nam/NAME/view`. */
#include "etcd_internal.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/view_rpc.h"

/* cJSON's numbers are doubles. */
#define EXACT_MAX (1ull << 53)

static const char *const states[] = { NULL, "joining", "up", "moving", "copying",
	"promoting", NULL };

/* ---- writing --------------------------------------------------------------------------------- */

static void
boot_print(cJSON *object, const char *name, uint64_t boot)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, boot);
	cJSON_AddStringToObject(object, name, text);
}

/* By place.  Most members have none. */
static const struct {
	const char *boot, *address;
} backup_names[NAM_BACKUPS_MAX] = { { "backup", "backup_address" },
	{ "backup_2", "backup_2_address" } };

static cJSON *
member_print(const struct nam_view_member *member)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "id", member->id);
	cJSON_AddStringToObject(object, "address", member->address);
	cJSON_AddStringToObject(object, "state", states[member->state]);
	boot_print(object, "boot", member->boot);
	boot_print(object, "memory", member->memory);
	if (member->wanted)
		cJSON_AddNumberToObject(object, "wanted", member->wanted);
	cJSON_AddNumberToObject(object, "since", (double)member->since);
	cJSON_AddNumberToObject(object, "renewed", (double)member->renewed);
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++) {
		if (!member->backups[i].boot)
			continue;
		boot_print(object, backup_names[i].boot, member->backups[i].boot);
		cJSON_AddStringToObject(object, backup_names[i].address,
			member->backups[i].address);
	}
	if (member->known)
		cJSON_AddNumberToObject(object, "known", member->known);
	return object;
}

/* Ids of members that were removed; most clusters have none. */
static void
removed_print(cJSON *object, const struct nam_view_head *head)
{
	cJSON *array = NULL;

	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++) {
		if (!nam_view_was_removed(head, id))
			continue;
		array = array ?: cJSON_AddArrayToObject(object, "removed");
		cJSON_AddItemToArray(array, cJSON_CreateNumber(id));
	}
}

char *
nam__record_print(const struct nam__record *record)
{
	const struct nam__cluster_view *view = record->view;
	struct nam_view_member member = record->member;
	cJSON *object = cJSON_CreateObject(), *members, *change;
	char *text;

	cJSON_AddNumberToObject(object, "number", (double)view->head.number);
	boot_print(object, "lead_boot", view->head.lead_boot);
	cJSON_AddNumberToObject(object, "terms_before", (double)record->terms_before);
	cJSON_AddNumberToObject(object, "backups", view->head.backups);
	removed_print(object, &view->head);
	members = cJSON_AddArrayToObject(object, "members");
	for (uint32_t i = 0; i < view->head.count; i++)
		cJSON_AddItemToArray(members, member_print(&view->members[i]));
	if (record->change) {
		member.state = NAM_VIEW_JOINING;	/* a change sets both */
		member.memory = member.boot;
		change = member_print(&member);
		cJSON_AddStringToObject(change, "change", nam_rpc_view_changes[record->change]);
		cJSON_AddItemToObject(object, "last", change);
	}
	text = cJSON_PrintUnformatted(object);
	cJSON_Delete(object);
	return text;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool
number_parse(const cJSON *object, const char *name, uint64_t max, uint64_t *ret_number)
{
	const cJSON *item = cJSON_GetObjectItem(object, name);

	if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > (double)max)
		return false;
	*ret_number = (uint64_t)item->valuedouble;
	return true;
}

static bool
boot_parse(const cJSON *object, const char *name, uint64_t *ret_boot)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
	char *end;

	if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return false;
	*ret_boot = strtoull(text, &end, 16);
	return *ret_boot != 0;
}

/* 0: it is none of the words. */
static uint16_t
word_parse(const cJSON *object, const char *name, const char *const *words)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

	for (uint16_t i = 1; text && words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	return 0;
}

/* A field that may be missing: 0. */
static bool
wanted_parse(const cJSON *object, const char *name, uint64_t *ret_wanted)
{
	*ret_wanted = 0;
	return !cJSON_HasObjectItem(object, name) ||
		number_parse(object, name, NAM_BACKUPS_MAX, ret_wanted);
}

static bool
backup_parse(const cJSON *object, uint32_t place, struct nam_view_backup *ret)
{
	const char *address = cJSON_GetStringValue(cJSON_GetObjectItem(object,
		backup_names[place].address));

	if (!cJSON_HasObjectItem(object, backup_names[place].boot))
		return !address;
	if (!address || !*address || strlen(address) >= sizeof(ret->address) ||
		!boot_parse(object, backup_names[place].boot, &ret->boot))
		return false;
	memcpy(ret->address, address, strlen(address) + 1);
	return true;
}

static bool
backups_parse(const cJSON *object, struct nam_view_member *ret)
{
	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
		if (!backup_parse(object, place, &ret->backups[place]))
			return false;
	ret->known = cJSON_HasObjectItem(object, "known") != 0;
	return nam_view_backup(ret) || (!ret->known && ret->state != NAM_VIEW_PROMOTING);
}

static bool
member_parse(const cJSON *object, struct nam_view_member *ret)
{
	const char *address = cJSON_GetStringValue(cJSON_GetObjectItem(object, "address"));
	uint64_t id, wanted;

	if (!address || !*address || strlen(address) >= sizeof(ret->address) ||
		!number_parse(object, "id", NAM_SERVERS_MAX - 1, &id) ||
		!number_parse(object, "since", EXACT_MAX, &ret->since) ||
		!number_parse(object, "renewed", EXACT_MAX, &ret->renewed) ||
		!wanted_parse(object, "wanted", &wanted) ||
		!boot_parse(object, "boot", &ret->boot))
		return false;
	/* Records of earlier versions have none: no memory had moved. */
	ret->memory = ret->boot;
	if (cJSON_HasObjectItem(object, "memory") && !boot_parse(object, "memory", &ret->memory))
		return false;
	ret->id = (uint16_t)id;
	ret->wanted = (uint16_t)wanted;
	ret->state = word_parse(object, "state", states);
	memcpy(ret->address, address, strlen(address) + 1);
	return ret->state != 0 && backups_parse(object, ret);
}

static bool
members_parse(const cJSON *array, struct nam__cluster_view *view)
{
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return false;
	for (item = array->child; item; item = item->next) {
		struct nam_view_member *member = &view->members[view->head.count];

		if (view->head.count == NAM_SERVERS_MAX || !member_parse(item, member) ||
			(view->head.count && member->id <= member[-1].id))
			return false;
		view->head.count++;
	}
	return view->head.count && !view->members[0].id;
}

static bool
removed_parse(const cJSON *array, struct nam_view_head *head)
{
	const cJSON *item;

	if (array && !cJSON_IsArray(array))
		return false;
	for (item = array ? array->child : NULL; item; item = item->next) {
		uint32_t id = (uint32_t)item->valueint;

		if (!cJSON_IsNumber(item) || item->valueint <= 0 || id >= NAM_SERVERS_MAX)
			return false;
		head->removed[id / 8] |= (uint8_t)(1u << id % 8);
	}
	return true;
}

static bool
record_parse(const cJSON *object, struct nam__record *record)
{
	const cJSON *last = cJSON_GetObjectItem(object, "last");
	uint64_t backups;

	if (!number_parse(object, "number", EXACT_MAX, &record->view->head.number) ||
		!record->view->head.number ||
		!boot_parse(object, "lead_boot", &record->view->head.lead_boot) ||
		!number_parse(object, "terms_before", EXACT_MAX, &record->terms_before) ||
		!wanted_parse(object, "backups", &backups) ||
		!removed_parse(cJSON_GetObjectItem(object, "removed"), &record->view->head) ||
		!members_parse(cJSON_GetObjectItem(object, "members"), record->view))
		return false;
	record->view->head.backups = (uint16_t)backups;
	if (!last)
		return true;
	record->change = word_parse(last, "change", nam_rpc_view_changes);
	return record->change && member_parse(last, &record->member);
}

int
nam__record_parse(const char *text, struct nam__record *ret_record)
{
	struct nam__record record = { .view = nam__cluster_view_new() };
	cJSON *object;
	bool ok;

	if (!record.view)
		return -ENOMEM;
	object = cJSON_Parse(text);
	ok = record_parse(object, &record);
	cJSON_Delete(object);
	if (!ok) {
		free(record.view);
		return -NAM_E_REMOTE_CORRUPT;
	}
	record.revision = ret_record->revision;
	*ret_record = record;
	return 0;
}

/* ---- base64 ---------------------------------------------------------------------------------- */

char *
nam__base64_encode(const char *text)
{
	size_t bytes = strlen(text), room = (bytes + 2) / 3 * 4 + 1;
	char *to = malloc(room);

	if (to)
		(void)b64_ntop((const uint8_t *)text, bytes, to, room);
	return to;
}

char *
nam__base64_decode(const char *text)
{
	size_t room = strlen(text) / 4 * 3 + 1;
	char *to = malloc(room);
	int bytes = to ? b64_pton(text, (uint8_t *)to, room) : -1;

	if (bytes < 0) {
		free(to);
		return NULL;
	}
	to[bytes] = '\0';
	return to;
}
