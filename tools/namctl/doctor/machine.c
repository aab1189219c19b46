/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c -- what this machine has for each fabric, as /sys, /proc and /dev say it. */
#include "machine.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nam.h"

#define TEXT_BYTES 8192
#define CAP_IPC_LOCK_BIT 14

/* ---- parsers ------------------------------------------------------------------------------ */

void
machine_state_parse(const char *text, char ret_state[16])
{
	text += strspn(text, "0123456789: ");
	snprintf(ret_state, 16, "%.*s", (int)strcspn(text, "\n"), text);
}

bool
machine_gid_parse(const char *text, struct machine_gid *ret_gid)
{
	unsigned group[8], any = 0;
	int used = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x%n", &group[0], &group[1], &group[2],
		    &group[3], &group[4], &group[5], &group[6], &group[7], &used) != 8)
		return false;
	for (unsigned i = 0; i < 8; i++)
		any |= group[i];
	if (!any)
		return false;
	/* IPv4 addresses are mapped: ::ffff:a.b.c.d. */
	if (!(group[0] | group[1] | group[2] | group[3] | group[4]) && group[5] == 0xffff)
		snprintf(ret_gid->text, sizeof(ret_gid->text), "%u.%u.%u.%u", group[6] >> 8,
			group[6] & 255, group[7] >> 8, group[7] & 255);
	else
		snprintf(ret_gid->text, sizeof(ret_gid->text), "%.*s", used, text);
	ret_gid->address = (group[0] & 0xffc0) != 0xfe80;
	return true;
}

/* Where the line goes on that begins with name, after at most one word such as "Node 0 ". */
static const char *
find_line(const char *text, const char *name)
{
	size_t length = strlen(name);

	while (text && *text) {
		unsigned node;
		int skip = 0;

		if (sscanf(text, "Node %u %n", &node, &skip) != 1)
			skip = 0;
		if (!strncmp(text + skip, name, length))
			return text + skip + length;
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

bool
machine_field_parse(const char *text, const char *name, int base, uint64_t *ret_value)
{
	char begin[32], *end;
	const char *at;
	uint64_t value;

	snprintf(begin, sizeof(begin), "%s:", name);
	at = find_line(text, begin);
	if (!at)
		return false;
	value = strtoull(at, &end, base);
	if (end == at)
		return false;
	*ret_value = value;
	return true;
}

/* A number of KiB; 0: it is not there. */
static uint64_t
field_bytes(const char *text, const char *name)
{
	uint64_t kib = 0;

	(void)machine_field_parse(text, name, 10, &kib);
	return kib << 10;
}

static bool
limit_word(const char **at, uint64_t *ret)
{
	char *end;

	*at += strspn(*at, " ");
	if (!strncmp(*at, "unlimited", 9)) {
		*at += 9;
		*ret = MACHINE_UNLIMITED;
		return true;
	}
	*ret = strtoull(*at, &end, 10);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

bool
machine_limit_parse(const char *text, const char *name, uint64_t *ret_soft, uint64_t *ret_hard)
{
	const char *at = find_line(text, name);
	uint64_t soft, hard;

	if (!at || !limit_word(&at, &soft) || !limit_word(&at, &hard))
		return false;
	*ret_soft = soft;
	*ret_hard = hard;
	return true;
}

void
machine_choice_parse(const char *text, char ret_choice[16])
{
	const char *at = strchr(text, '[');

	at = at ? at + 1 : "";
	snprintf(ret_choice, 16, "%.*s", (int)strcspn(at, "]"), at);
}

/* ---- files -------------------------------------------------------------------------------- */

/* The path below the root, until the next call. */
static const char *NAM_PRINTF(2, 3)
below(const char *root, const char *format, ...)
{
	static char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", root);
	va_list args;

	va_start(args, format);
	if (n < 0 || n >= PATH_MAX || vsnprintf(path + n, (size_t)(PATH_MAX - n), format, args) < 0)
		*path = '\0';
	va_end(args);
	return path;
}

/* The file's text without the last newline, or "". */
static bool
read_text(char *text, size_t bytes, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n;

	*text = '\0';
	if (!file)
		return false;
	n = fread(text, 1, bytes - 1, file);
	text[n] = '\0';
	if (n && text[n - 1] == '\n')
		text[n - 1] = '\0';
	(void)fclose(file);
	return true;
}

static uint64_t
read_number(const char *path)
{
	char text[40];

	return read_text(text, sizeof(text), path) ? strtoull(text, NULL, 10) : 0;
}

/*
 * Names in a folder that begin with prefix, in the order of their numbers, then of the alphabet; at
 * most max.  The caller frees them.
 */
static int
by_number(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static unsigned
read_names(const char *root, const char *folder, const char *prefix, unsigned max,
	char names[][64])
{
	char path[PATH_MAX];
	struct dirent **entries;
	unsigned count = 0;
	int n;

	snprintf(path, sizeof(path), "%s%s", root, folder);
	n = scandir(path, &entries, NULL, by_number);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (*name != '.' && !strncmp(name, prefix, strlen(prefix)) && count < max &&
			strlen(name) < 64)
			strcpy(names[count++], name);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return count;
}

/* ---- devices ------------------------------------------------------------------------------ */

static void
read_gids(const char *root, const char *port_path, struct machine_port *port)
{
	char names[256][64], text[80];
	char folder[300];
	unsigned count;

	snprintf(folder, sizeof(folder), "%s/gids", port_path);
	count = read_names(root, folder, "", 256, names);
	for (unsigned i = 0; i < count; i++) {
		struct machine_gid gid = { .index = (unsigned)strtoul(names[i], NULL, 10) };

		if (!read_text(text, sizeof(text), below(root, "%s/%s", folder, names[i])) ||
			!machine_gid_parse(text, &gid))
			continue;
		read_text(gid.type, sizeof(gid.type), below(root, "%s/gid_attrs/types/%u",
			port_path, gid.index));
		read_text(gid.interface, sizeof(gid.interface), below(root,
			"%s/gid_attrs/ndevs/%u", port_path, gid.index));
		if (!*port->interface)
			memcpy(port->interface, gid.interface, sizeof(gid.interface));
		if (port->gids < MACHINE_GIDS_MAX)
			port->gid[port->gids] = gid;
		port->gids++;
	}
	if (*port->interface)
		port->interface_mtu = (unsigned)read_number(below(root,
			"/sys/class/net/%s/mtu", port->interface));
}

static void
read_device(const char *root, const char *name, struct machine_device *device)
{
	char names[MACHINE_PORTS_MAX][64], verbs[64][64], folder[160], text[80];
	unsigned count;

	snprintf(device->name, sizeof(device->name), "%.63s", name);
	snprintf(folder, sizeof(folder), "/sys/class/infiniband/%.63s/ports", name);
	device->ports = read_names(root, folder, "", MACHINE_PORTS_MAX, names);
	for (unsigned i = 0; i < device->ports; i++) {
		struct machine_port *port = &device->port[i];
		char path[240];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		port->number = (unsigned)strtoul(names[i], NULL, 10);
		read_text(port->layer, sizeof(port->layer), below(root, "%s/link_layer", path));
		read_text(port->rate, sizeof(port->rate), below(root, "%s/rate", path));
		read_text(text, sizeof(text), below(root, "%s/state", path));
		machine_state_parse(text, port->state);
		read_gids(root, path, port);
	}
	device->node = -1;
	if (read_text(text, sizeof(text), below(root, "/sys/class/infiniband/%s/device/numa_node",
			name)))
		device->node = (int)strtol(text, NULL, 10);
	count = read_names(root, "/sys/class/infiniband_verbs", "uverbs", 64, verbs);
	for (unsigned i = 0; i < count; i++) {
		if (!read_text(text, sizeof(text), below(root,
				"/sys/class/infiniband_verbs/%s/ibdev", verbs[i])) ||
			strcmp(text, name) != 0)
			continue;
		snprintf(device->verbs, sizeof(device->verbs), "%.31s", verbs[i]);
		device->usable = access(below(root, "/dev/infiniband/%s", device->verbs),
			R_OK | W_OK) == 0;
	}
}

static void
read_devices(const char *root, struct machine *machine)
{
	char names[MACHINE_DEVICES_MAX][64];

	machine->devices = read_names(root, "/sys/class/infiniband", "", MACHINE_DEVICES_MAX,
		names);
	for (unsigned i = 0; i < machine->devices; i++)
		read_device(root, names[i], &machine->device[i]);
	/* Whether as modules or built in. */
	machine->verbs_loaded = access(below(root, "/sys/class/infiniband_verbs"), F_OK) == 0;
	machine->cm_loaded = access(below(root, "/sys/class/misc/rdma_cm"), F_OK) == 0 ||
		access(below(root, "/sys/module/rdma_ucm"), F_OK) == 0;
	machine->cm_usable = access(below(root, "/dev/infiniband/rdma_cm"), R_OK | W_OK) == 0;
}

static void
read_nets(const char *root, struct machine *machine)
{
	static const char folder[] = "/sys/class/net";
	char names[MACHINE_NETS_MAX][64], text[16];
	unsigned count = read_names(root, folder, "", MACHINE_NETS_MAX, names);

	machine->nets_known = count > 0;
	/* Drivers that do not say, as those of tunnels, are "unknown" while they work. */
	for (unsigned i = 0; i < count; i++)
		if (strcmp(names[i], "lo") != 0 &&
			read_text(text, sizeof(text), below(root, "%s/%s/operstate", folder,
				names[i])) &&
			(!strcmp(text, "up") || !strcmp(text, "unknown")))
			machine->nets_up++;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
read_pages(const char *root, struct machine *machine)
{
	static const char folder[] = "/sys/kernel/mm/hugepages";
	char names[MACHINE_PAGES_MAX][64];

	machine->sizes = read_names(root, folder, "hugepages-", MACHINE_PAGES_MAX, names);
	for (unsigned i = 0; i < machine->sizes; i++) {
		struct machine_pages *pages = &machine->pages[i];

		pages->bytes = strtoull(names[i] + strlen("hugepages-"), NULL, 10) << 10;
		pages->total = read_number(below(root, "%s/%s/nr_hugepages", folder, names[i]));
		pages->free = read_number(below(root, "%s/%s/free_hugepages", folder, names[i]));
		pages->reserved = read_number(below(root, "%s/%s/resv_hugepages", folder,
			names[i]));
	}
}

static void
read_nodes(const char *root, struct machine *machine)
{
	static const char folder[] = "/sys/devices/system/node";
	char names[MACHINE_NODES_MAX][64], text[TEXT_BYTES];
	unsigned count = read_names(root, folder, "node", MACHINE_NODES_MAX, names);

	for (unsigned i = 0; i < count; i++) {
		struct machine_node *node = &machine->node[machine->nodes];
		static const char pages[] = "hugepages/hugepages-2048kB";

		if (!read_text(text, sizeof(text), below(root, "%s/%s/meminfo", folder, names[i])))
			continue;
		node->number = (unsigned)strtoul(names[i] + strlen("node"), NULL, 10);
		node->memory_bytes = field_bytes(text, "MemTotal");
		node->free_bytes = field_bytes(text, "MemFree");
		node->huge_total = read_number(below(root, "%s/%s/%s/nr_hugepages", folder,
			names[i], pages));
		node->huge_free = read_number(below(root, "%s/%s/%s/free_hugepages", folder,
			names[i], pages));
		machine->nodes++;
	}
}

/* Version 2 mounts one tree; we see our own group's limit, not those above it. */
static void
read_group(const char *root, struct machine *machine)
{
	char text[TEXT_BYTES], limit[40];
	const char *group;

	machine->group_bytes = MACHINE_UNLIMITED;
	if (!read_text(text, sizeof(text), below(root, "/proc/self/cgroup")))
		return;
	group = find_line(text, "0::");
	if (!group)
		return;
	if (read_text(limit, sizeof(limit), below(root, "/sys/fs/cgroup%.*s/memory.max",
			(int)strcspn(group, "\n"), group)) && *limit != 'm' && *limit)
		machine->group_bytes = strtoull(limit, NULL, 10);
}

static void
read_memory(const char *root, struct machine *machine)
{
	char text[TEXT_BYTES];
	uint64_t value = 0, ignored;

	read_text(text, sizeof(text), below(root, "/proc/meminfo"));
	machine->available_bytes = field_bytes(text, "MemAvailable");
	read_text(text, sizeof(text), below(root, "/proc/self/limits"));
	(void)machine_limit_parse(text, "Max locked memory", &machine->memlock_soft,
		&machine->memlock_hard);
	(void)machine_limit_parse(text, "Max open files", &ignored, &machine->files_hard);
	read_text(text, sizeof(text), below(root, "/proc/self/status"));
	machine->may_lock_all = machine_field_parse(text, "CapEff", 16, &value) &&
		value >> CAP_IPC_LOCK_BIT & 1;
	read_text(text, sizeof(text), below(root,
		"/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
	machine_choice_parse(text, machine->shmem_enabled);
	read_pages(root, machine);
	read_nodes(root, machine);
	read_group(root, machine);
}

void
machine_read(const char *root, struct machine *ret_machine)
{
	memset(ret_machine, 0, sizeof(*ret_machine));
	read_devices(root, ret_machine);
	read_nets(root, ret_machine);
	read_memory(root, ret_machine);
}
