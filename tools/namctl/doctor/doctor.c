/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c -- the command: what this machine has for each fabric, and what is missing. */
#include "machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/namctl/namctl.h"

static const struct {
	const char *name, *what;
} fabrics[] = {
	{ "shm", "processes on this host" },
	{ "tcp", "between hosts, over any network" },
	{ "verbs", "RDMA between hosts" },
};

#define FABRICS_COUNT (sizeof(fabrics) / sizeof(fabrics[0]))

static const char *const atomics_texts[] = { "unknown", "none", "hca", "global" };
static const char *const level_texts[] = { "note", "defect", "missing" };

/* ---- text --------------------------------------------------------------------------------- */

static void
print_port(const struct machine_port *port)
{
	printf("  port %-9u %s, %s", port->number, port->layer, port->state);
	if (*port->interface)
		printf(", %s", port->interface);
	if (port->interface_mtu)
		printf(" with MTU %u", port->interface_mtu);
	if (port->active_mtu)
		printf(", packets of %u bytes", port->active_mtu);
	printf("%s%s\n", *port->rate ? ", " : "", port->rate);
	for (unsigned i = 0; i < port->gids && i < MACHINE_GIDS_MAX; i++)
		printf("    GID %-8u %s, %s\n", port->gid[i].index, port->gid[i].text,
			*port->gid[i].type ? port->gid[i].type : "IB");
	if (port->gids > MACHINE_GIDS_MAX)
		printf("    and %u more\n", port->gids - MACHINE_GIDS_MAX);
}

static void
print_devices(const struct machine *machine)
{
	for (unsigned i = 0; i < machine->devices; i++) {
		const struct machine_device *device = &machine->device[i];

		printf("device %-9s %s%satomics: %s", device->name, device->verbs,
			*device->verbs ? ", " : "", atomics_texts[device->atomics]);
		if (device->node >= 0)
			printf(", NUMA node %d", device->node);
		putchar('\n');
		for (unsigned j = 0; j < device->ports; j++)
			print_port(&device->port[j]);
	}
	if (!machine->devices)
		puts("devices          none");
	printf("modules          ib_uverbs %s, rdma_ucm %s\n",
		machine->verbs_loaded ? "there" : "missing",
		machine->cm_loaded ? "there" : "missing");
}

/* "8.0 MiB", or what the largest number stands for. */
static struct ctl_text
limit_text(uint64_t bytes)
{
	return bytes == MACHINE_UNLIMITED ? (struct ctl_text){ "unlimited" } : ctl_bytes(bytes);
}

static void
print_memory(const struct machine *machine)
{
	printf("memory           %s available", ctl_bytes(machine->available_bytes).text);
	printf(", limit of this control group: %s\n", limit_text(machine->group_bytes).text);
	printf("locked memory    %s, at most %s%s\n", limit_text(machine->memlock_soft).text,
		limit_text(machine->memlock_hard).text,
		machine->may_lock_all ? "; no limit for this user" : "");
	if (machine->files_hard == MACHINE_UNLIMITED)
		puts("open files       unlimited");
	else
		printf("open files       %" PRIu64 "\n", machine->files_hard);
	for (unsigned i = 0; i < machine->sizes; i++) {
		const struct machine_pages *pages = &machine->pages[i];

		printf("huge pages       %s: %" PRIu64 ", %" PRIu64 " free, %" PRIu64
			" of them promised\n", ctl_bytes(pages->bytes).text, pages->total,
			pages->free, pages->reserved);
	}
	if (*machine->shmem_enabled)
		printf("transparent      %s for shared memory\n", machine->shmem_enabled);
	for (unsigned i = 0; i < machine->nodes; i++) {
		const struct machine_node *node = &machine->node[i];

		printf("NUMA node %-6u %s, %s free, %" PRIu64 " huge pages of 2 MiB, %" PRIu64
			" free\n", node->number, ctl_bytes(node->memory_bytes).text,
			ctl_bytes(node->free_bytes).text, node->huge_total, node->huge_free);
	}
}

static void
print_verdict(const struct findings *findings, const char *fabric, const char *what)
{
	printf("\n%s (%s): %s\n", fabric, what,
		doctor_usable(findings, fabric) ? "usable" : "not usable");
	for (unsigned i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->at[i];

		if (!strcmp(finding->fabric, fabric))
			printf("  %s: %s\n      do: %s\n", level_texts[finding->level],
				finding->what, finding->remedy);
	}
}

/* ---- JSON --------------------------------------------------------------------------------- */

static cJSON *
json_port(const struct machine_port *port)
{
	cJSON *object = cJSON_CreateObject(), *gids;

	ctl_json_u64(object, "port", port->number);
	cJSON_AddStringToObject(object, "link_layer", port->layer);
	cJSON_AddStringToObject(object, "state", port->state);
	cJSON_AddStringToObject(object, "rate", port->rate);
	cJSON_AddStringToObject(object, "interface", port->interface);
	if (port->interface_mtu)
		ctl_json_u64(object, "interface_mtu", port->interface_mtu);
	if (port->active_mtu)
		ctl_json_u64(object, "active_mtu", port->active_mtu);
	gids = cJSON_AddArrayToObject(object, "gids");
	for (unsigned i = 0; i < port->gids && i < MACHINE_GIDS_MAX; i++) {
		cJSON *gid = cJSON_CreateObject();

		ctl_json_u64(gid, "index", port->gid[i].index);
		cJSON_AddStringToObject(gid, "gid", port->gid[i].text);
		cJSON_AddStringToObject(gid, "type", port->gid[i].type);
		cJSON_AddItemToArray(gids, gid);
	}
	return object;
}

static void
json_devices(cJSON *object, const struct machine *machine)
{
	cJSON *devices = cJSON_AddArrayToObject(object, "devices");

	for (unsigned i = 0; i < machine->devices; i++) {
		const struct machine_device *device = &machine->device[i];
		cJSON *one = cJSON_CreateObject(), *ports;

		cJSON_AddStringToObject(one, "name", device->name);
		cJSON_AddStringToObject(one, "verbs", device->verbs);
		cJSON_AddBoolToObject(one, "usable", device->usable);
		cJSON_AddStringToObject(one, "atomics", atomics_texts[device->atomics]);
		cJSON_AddNumberToObject(one, "numa_node", device->node);
		ports = cJSON_AddArrayToObject(one, "ports");
		for (unsigned j = 0; j < device->ports; j++)
			cJSON_AddItemToArray(ports, json_port(&device->port[j]));
		cJSON_AddItemToArray(devices, one);
	}
	cJSON_AddBoolToObject(object, "ib_uverbs", machine->verbs_loaded);
	cJSON_AddBoolToObject(object, "rdma_ucm", machine->cm_loaded);
}

/* No limit is null. */
static void
json_limit(cJSON *object, const char *name, uint64_t value)
{
	if (value == MACHINE_UNLIMITED)
		cJSON_AddNullToObject(object, name);
	else
		ctl_json_u64(object, name, value);
}

static void
json_memory(cJSON *object, const struct machine *machine)
{
	cJSON *list;

	ctl_json_u64(object, "available_bytes", machine->available_bytes);
	json_limit(object, "group_bytes", machine->group_bytes);
	json_limit(object, "memlock_soft_bytes", machine->memlock_soft);
	json_limit(object, "memlock_hard_bytes", machine->memlock_hard);
	cJSON_AddBoolToObject(object, "may_lock_all", machine->may_lock_all);
	json_limit(object, "open_files", machine->files_hard);
	cJSON_AddStringToObject(object, "shmem_enabled", machine->shmem_enabled);
	list = cJSON_AddArrayToObject(object, "huge_pages");
	for (unsigned i = 0; i < machine->sizes; i++) {
		cJSON *one = cJSON_CreateObject();

		ctl_json_u64(one, "bytes", machine->pages[i].bytes);
		ctl_json_u64(one, "total", machine->pages[i].total);
		ctl_json_u64(one, "free", machine->pages[i].free);
		ctl_json_u64(one, "promised", machine->pages[i].reserved);
		cJSON_AddItemToArray(list, one);
	}
	list = cJSON_AddArrayToObject(object, "numa_nodes");
	for (unsigned i = 0; i < machine->nodes; i++) {
		cJSON *one = cJSON_CreateObject();

		ctl_json_u64(one, "node", machine->node[i].number);
		ctl_json_u64(one, "memory_bytes", machine->node[i].memory_bytes);
		ctl_json_u64(one, "free_bytes", machine->node[i].free_bytes);
		ctl_json_u64(one, "huge_pages_2m", machine->node[i].huge_total);
		ctl_json_u64(one, "huge_pages_2m_free", machine->node[i].huge_free);
		cJSON_AddItemToArray(list, one);
	}
}

static cJSON *
json_verdict(const struct findings *findings, const char *fabric)
{
	cJSON *object = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(object, "fabric", fabric);
	cJSON_AddBoolToObject(object, "usable", doctor_usable(findings, fabric));
	list = cJSON_AddArrayToObject(object, "findings");
	for (unsigned i = 0; i < findings->count; i++) {
		const struct finding *finding = &findings->at[i];
		cJSON *one;

		if (strcmp(finding->fabric, fabric) != 0)
			continue;
		one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "level", level_texts[finding->level]);
		cJSON_AddStringToObject(one, "what", finding->what);
		cJSON_AddStringToObject(one, "remedy", finding->remedy);
		cJSON_AddItemToArray(list, one);
	}
	return object;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void
print_json(const struct machine *machine, const struct findings *findings, const char *only)
{
	cJSON *object = cJSON_CreateObject(), *list;

	json_devices(object, machine);
	json_memory(object, machine);
	list = cJSON_AddArrayToObject(object, "fabrics");
	for (size_t i = 0; i < FABRICS_COUNT; i++)
		if (!only || !strcmp(only, fabrics[i].name))
			cJSON_AddItemToArray(list, json_verdict(findings, fabrics[i].name));
	ctl_json_print(object);
}

static void
print_text(const struct machine *machine, const struct findings *findings, const char *only)
{
	print_devices(machine);
	print_memory(machine);
	for (size_t i = 0; i < FABRICS_COUNT; i++)
		if (!only || !strcmp(only, fabrics[i].name))
			print_verdict(findings, fabrics[i].name, fabrics[i].what);
}

/* The fabric that was named is usable, or if none was, any. */
static bool
usable(const struct findings *findings, const char *only)
{
	if (only)
		return doctor_usable(findings, only);
	for (size_t i = 0; i < FABRICS_COUNT; i++)
		if (doctor_usable(findings, fabrics[i].name))
			return true;
	return false;
}

int
ctl_doctor(struct ctl *ctl, char **args)
{
	struct machine *machine;
	struct findings findings;
	const char *only = args[0];
	bool known = !only;

	for (size_t i = 0; only && i < FABRICS_COUNT; i++)
		known |= !strcmp(only, fabrics[i].name);
	if (!known) {
		ctl_complain("doctor: there is no fabric '%s'; say shm, tcp or verbs", only);
		return NAM_EXIT_USAGE;
	}
	machine = malloc(sizeof(*machine));
	if (!machine)
		return ctl_failed("doctor", -ENOMEM, NULL);
	machine_read(ctl->root ? ctl->root : "", machine);
	/* The library knows of the devices of this machine only, and this program runs here. */
	if (!ctl->root) {
		machine_ask_verbs(machine);
#ifndef NAM_VERBS
		machine->verbs_left_out = true;
#endif
	}
	doctor_examine(machine, &findings);
	if (ctl->json)
		print_json(machine, &findings, only);
	else if (!ctl->quiet)
		print_text(machine, &findings, only);
	free(machine);
	return usable(&findings, only) ? NAM_EXIT_OK : NAM_EXIT_NO;
}
