/* SPDX-License-Identifier: Apache-2.0 */
/* network.c -- profiles of networks: where they lie, and what is in them. */
#include "network.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ini.h"

#define RATE_MAX 1e6
#define NS_MAX 1e9

/* ---- keys --------------------------------------------------------------------------------- */

static const struct key {
	const char *section, *name;
	size_t offset;
	double min, max;
} keys[] = {
#define KEY(section, name, field, min, max)                                                         \
	{ section, name, offsetof(struct nam_sim_network, field), min, max }
#define OP(op)                                                                                      \
	KEY(#op, "in", op.in_per_us, 0.001, RATE_MAX),                                              \
	KEY(#op, "out", op.out_per_us, 0.001, RATE_MAX),                                            \
	KEY(#op, "round_trip", op.round_trip_ns, 0, NS_MAX),                                        \
	KEY(#op, "loaded_round_trip", op.loaded_round_trip_ns, 0, NS_MAX),                          \
	KEY(#op, "request_bytes", op.request_bytes, 0, 4096),                                       \
	KEY(#op, "response_bytes", op.response_bytes, 0, 4096)
	KEY("machine", "strict", strict, 0, 1),
	KEY("machine", "ports", ports, 1, NAM_SIM_PORTS_MAX),
	KEY("machine", "clients", clients_per_machine, 1, 4096),
	KEY("machine", "memservers", memservers_per_machine, 1, 256),
	OP(read),
	OP(write),
	OP(atomic),
	OP(send),
	KEY("atomic", "one_word", word_per_us, 0.001, RATE_MAX),
	KEY("atomic", "slots", slots, 1, 65536),
	KEY("bandwidth", "port", port_bytes_per_ns, 0.001, 1e6),
	KEY("bandwidth", "pcie", pcie_bytes_per_ns, 0.001, 1e6),
	KEY("bandwidth", "packet_bytes", packet_bytes, 64, 1u << 30),
	KEY("queue_pairs", "cached", queue_pairs, 1, 1u << 20),
	KEY("queue_pairs", "miss_service", miss_service_ns, 0, NS_MAX),
	KEY("queue_pairs", "miss_latency", miss_latency_ns, 0, NS_MAX),
	KEY("queue_pairs", "outstanding", outstanding, 1, 4096),
	KEY("cpu", "post", post_ns, 0, NS_MAX),
	KEY("cpu", "batched_post", batched_post_ns, 0, NS_MAX),
	KEY("cpu", "doorbell", doorbell_ns, 0, NS_MAX),
	KEY("cpu", "poll", poll_ns, 0, NS_MAX),
	KEY("cpu", "completion", completion_ns, 0, NS_MAX),
	KEY("cpu", "copy_kib", copy_ns_per_kib, 0, NS_MAX),
	KEY("cpu", "rpc", rpc_ns, 0, NS_MAX),
	KEY("cpu", "rpc_threads", rpc_threads, 1, 64),
	KEY("cpu", "node", node_ns, 0, NS_MAX),
	KEY("cpu", "pair", pair_ns, 0, NS_MAX),
	KEY("cpu", "operation", operation_ns, 0, NS_MAX),
	KEY("cpu", "batched_operation", batched_operation_ns, 0, NS_MAX),
	KEY("cpu", "entry", entry_ns, 0, NS_MAX),
#undef OP
#undef KEY
};

#define KEYS_COUNT (sizeof(keys) / sizeof(keys[0]))

/* ---- the file ----------------------------------------------------------------------------- */

struct reader {
	struct nam_sim_network network;
	bool seen[KEYS_COUNT];
};

static int
take_key(void *arg, const struct nam__ini *ini, const char *section, const char *name,
	const char *text)
{
	struct reader *reader = arg;
	const struct key *key = keys;
	double value;
	char *end;

	while (key < keys + KEYS_COUNT && (strcmp(key->section, section) ||
		strcmp(key->name, name)))
		key++;
	if (key == keys + KEYS_COUNT)
		return nam_diag_set(ini->diag, -EINVAL, "%s:%d: there is no '%s' in [%s]; the "
			"profiles that come with nam have every key", ini->path, ini->line, name,
			section);
	if (reader->seen[key - keys])
		return nam_diag_set(ini->diag, -EINVAL, "%s:%d: '%s' is there twice in [%s]",
			ini->path, ini->line, name, section);
	value = strtod(text, &end);
	if (end == text || *end || !(value >= key->min && value <= key->max))
		return nam_diag_set(ini->diag, -EINVAL, "%s:%d: [%s] %s: '%s' is not a number "
			"from %g to %g", ini->path, ini->line, section, name, text, key->min,
			key->max);
	reader->seen[key - keys] = true;
	*(double *)((char *)&reader->network + key->offset) = value;
	return 0;
}

static int
read_file(const char *path, struct nam_sim_network *ret_network, struct nam_diag *diag)
{
	struct reader reader = { 0 };
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name);
	uint32_t slots;
	int rc = nam__ini_read(path, "profile", "[SECTION]", take_key, &reader, diag);

	if (rc)
		return rc;
	for (size_t i = 0; i < KEYS_COUNT; i++)
		if (!reader.seen[i])
			return nam_diag_set(diag, -EINVAL, "%s: [%s] has no '%s'", path,
				keys[i].section, keys[i].name);
	slots = (uint32_t)reader.network.slots;
	if (slots & (slots - 1))
		return nam_diag_set(diag, -EINVAL, "%s: [atomic] slots: %u is not a power of two",
			path, slots);
	if (length > 4 && !strcmp(name + length - 4, ".ini"))
		length -= 4;
	(void)snprintf(reader.network.name, sizeof(reader.network.name), "%.*s", (int)length, name);
	*ret_network = reader.network;
	return 0;
}

/* ---- where it lies ------------------------------------------------------------------------ */

/* Installed or built, profiles lie in share/nam/profiles beside the program's folder. */
static bool
find(char path[PATH_MAX], const char *name)
{
	char program[PATH_MAX] = "", *folders, *rest, *folder;
	const char *list = getenv("NAM_PROFILES");
	bool found = false;

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		program[0] = '\0';
	if (asprintf(&folders, "%s:%s/../share/nam/profiles:/usr/local/share/nam/profiles:"
		"/usr/share/nam/profiles", list ?: "", dirname(program)) < 0)
		return false;
	for (rest = folders; !found && (folder = strsep(&rest, ":"));) {
		int written = snprintf(path, PATH_MAX, "%s/%s.ini", folder, name);

		found = *folder && written > 0 && written < PATH_MAX && !access(path, R_OK);
	}
	free(folders);
	return found;
}

int
nam_sim_network_read(const char *name, struct nam_sim_network *ret_network, struct nam_diag *diag)
{
	char path[PATH_MAX];

	if (strchr(name, '/'))
		return read_file(name, ret_network, diag);
	if (!find(path, name))
		return nam_diag_set(diag, -ENOENT, "there is no profile '%s': connectx2, "
			"connectx2-ipoib, connectx3, connect-ib, connectx4, connectx5, connectx6 "
			"and shm come with nam. Say a path, or where %s.ini lies in NAM_PROFILES",
			name, name);
	return read_file(path, ret_network, diag);
}
