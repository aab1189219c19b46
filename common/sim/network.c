/* SPDX-License-Identifier: Apache-2.0 */
/* network.c -- profiles of networks: where they lie, and what is in them. */
#include "network.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	const char *path;
	FILE *file;
	int line, rc;
	struct nam_sim_network network;
	struct nam_diag *diag;
	bool seen[KEYS_COUNT];
};

static int
set_key(struct reader *reader, size_t index, const char *text)
{
	const struct key *key = &keys[index];
	char *end;
	double value = strtod(text, &end);

	if (reader->seen[index])
		return nam_diag_set(reader->diag, -EINVAL, "%s:%d: '%s' is there twice in [%s]",
			reader->path, reader->line, key->name, key->section);
	if (end == text || *end || !(value >= key->min && value <= key->max))
		return nam_diag_set(reader->diag, -EINVAL, "%s:%d: [%s] %s: '%s' is not a number "
			"from %g to %g", reader->path, reader->line, key->section, key->name, text,
			key->min, key->max);
	reader->seen[index] = true;
	*(double *)((char *)&reader->network + key->offset) = value;
	return 0;
}

/* For ini_parse_stream: 1 to go on. */
static int
handle_key(void *arg, const char *section, const char *name, const char *value)
{
	struct reader *reader = arg;

	for (size_t i = 0; !reader->rc && i < KEYS_COUNT; i++) {
		if (strcmp(keys[i].section, section) || strcmp(keys[i].name, name))
			continue;
		reader->rc = set_key(reader, i, value);
		return reader->rc == 0;
	}
	if (!reader->rc)
		reader->rc = nam_diag_set(reader->diag, -EINVAL, "%s:%d: there is no '%s' in [%s]; "
			"the profiles that come with nam have every key", reader->path,
			reader->line, name, section);
	return 0;
}

/* For ini_parse_stream, which does not say at which line it is: so we count. */
static char *
read_line(char *text, int size, void *arg)
{
	struct reader *reader = arg;

	if (reader->rc || !fgets(text, size, reader->file))
		return NULL;
	reader->line++;
	if (!strchr(text, '\n') && !feof(reader->file)) {
		reader->rc = nam_diag_set(reader->diag, -EINVAL, "%s:%d: the line is longer than "
			"%d bytes", reader->path, reader->line, size - 2);
		return NULL;
	}
	return text;
}

static int
whole(const struct reader *reader)
{
	const struct nam_sim_network *network = &reader->network;
	uint32_t slots = (uint32_t)network->slots;

	for (size_t i = 0; i < KEYS_COUNT; i++)
		if (!reader->seen[i])
			return nam_diag_set(reader->diag, -EINVAL, "%s: [%s] has no '%s'",
				reader->path, keys[i].section, keys[i].name);
	if (slots & (slots - 1))
		return nam_diag_set(reader->diag, -EINVAL, "%s: [atomic] slots: %u is not a power "
			"of two", reader->path, slots);
	return 0;
}

static void
name_of(const char *path, struct nam_sim_network *network)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name);

	if (length > 4 && !strcmp(name + length - 4, ".ini"))
		length -= 4;
	(void)snprintf(network->name, sizeof(network->name), "%.*s", (int)length, name);
}

static int
read_file(const char *path, struct nam_sim_network *ret_network, struct nam_diag *diag)
{
	struct reader reader = { .path = path, .diag = diag };
	int malformed;

	reader.file = fopen(path, "re");
	if (!reader.file)
		return nam_diag_set(diag, -errno, "profile '%s': %s", path, strerror(errno));
	malformed = ini_parse_stream(read_line, &reader, handle_key, &reader);
	if (!reader.rc && ferror(reader.file))
		reader.rc = nam_diag_set(diag, -EIO, "profile '%s': cannot be read", path);
	if (!reader.rc && malformed)
		reader.rc = nam_diag_set(diag, malformed < 0 ? -ENOMEM : -EINVAL,
			"%s:%d: neither [SECTION] nor KEY = VALUE", path, malformed);
	(void)fclose(reader.file);
	if (!reader.rc)
		reader.rc = whole(&reader);
	if (reader.rc)
		return reader.rc;
	name_of(path, &reader.network);
	*ret_network = reader.network;
	return 0;
}

/* ---- where it lies ------------------------------------------------------------------------ */

static bool
is_there(char path[PATH_MAX], const char *folder, size_t length, const char *name)
{
	int written = snprintf(path, PATH_MAX, "%.*s/%s.ini", (int)length, folder, name);

	return length && written > 0 && written < PATH_MAX && !access(path, R_OK);
}

/* Installed or built, profiles lie in share/nam/profiles beside the program's folder. */
static size_t
beside_program(char folder[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	if (length <= 0)
		return 0;
	folder[length] = '\0';
	slash = strrchr(folder, '/');
	if (!slash || (size_t)(slash - folder) + sizeof("/../share/nam/profiles") > PATH_MAX)
		return 0;
	memcpy(slash, "/../share/nam/profiles", sizeof("/../share/nam/profiles"));
	return strlen(folder);
}

static bool
find(char path[PATH_MAX], const char *name)
{
	static const char *const folders[] = {
		"/usr/local/share/nam/profiles",
		"/usr/share/nam/profiles",
	};
	const char *list = getenv("NAM_PROFILES");
	char folder[PATH_MAX];

	while (list && *list) {
		size_t length = strcspn(list, ":");

		if (is_there(path, list, length, name))
			return true;
		list += length + (list[length] == ':');
	}
	if (is_there(path, folder, beside_program(folder), name))
		return true;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (is_there(path, folders[i], strlen(folders[i]), name))
			return true;
	return false;
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
			"and shm come with nam; say a path, or where %s.ini lies in NAM_PROFILES",
			name, name);
	return read_file(path, ret_network, diag);
}
