/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c -- a list of memory servers, or an INI file that describes them. */
#include "cluster.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "ini.h"

int
nam__parse_number(const char *text, const char *units, const uint64_t *factors, uint64_t *ret_value)
{
	const char *unit;
	uint64_t value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (errno || end[unit != NULL] ||
		(unit && __builtin_mul_overflow(value, factors[unit - units], &value)))
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int
nam_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const uint64_t factors[] = { 1u << 10, 1u << 20, 1u << 30, 1ull << 40, 1u << 10,
		1u << 20, 1u << 30, 1ull << 40 };

	return nam__parse_number(text, "kmgtKMGT", factors, ret_bytes);
}

const char *
nam__bytes_text(uint64_t bytes, char *text, size_t size)
{
	static const struct {
		unsigned shift;
		const char *name;
	} units[] = { { 40, "TiB" }, { 30, "GiB" }, { 20, "MiB" }, { 10, "KiB" } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (bytes >> units[i].shift && !(bytes & ((1ull << units[i].shift) - 1))) {
			(void)snprintf(text, size, "%" PRIu64 " %s", bytes >> units[i].shift,
				units[i].name);
			return text;
		}
	}
	(void)snprintf(text, size, "%" PRIu64 " bytes", bytes);
	return text;
}

/* ---- what both forms must hold to --------------------------------------------------------- */

const char *
nam_cluster_address_limit(const char *address)
{
	_Static_assert(sizeof(((struct nam_cluster_server *)NULL)->listen) == 128 &&
		sizeof(((struct sockaddr_un *)NULL)->sun_path) == 108, "as the texts have it");
	return strncmp(address, "shm:", 4) ? "an address may have 127 bytes" :
		"the path of a Unix socket may have 107 bytes";
}

int
nam__cluster_address_beside(const char *address, uint32_t number, char *ret, size_t size)
{
	const char *colon = strrchr(address, ':');
	char *end = NULL;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	int n;

	if (!port || *end)
		n = snprintf(ret, size, "%s.%u", address, number);
	else if (port + number * NAM_SERVERS_MAX > 65535)
		return -ERANGE;
	else
		n = snprintf(ret, size, "%.*s:%lu", (int)(colon - address), address,
			port + number * NAM_SERVERS_MAX);
	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int
add_address(struct nam_cluster *cluster, const char *address, size_t length, struct nam_diag *diag)
{
	struct nam_cluster_server *server;
	char text[sizeof(server->listen)];
	const char *colon = memchr(address, ':', length);

	if (!colon || colon == address || colon + 1 == address + length)
		return nam_diag_set(diag, -EINVAL, "cluster: '%.*s' is not an address; write for "
			"example shm:/run/nam/a", (int)length, address);
	if (length >= sizeof(server->listen))
		return nam_diag_set(diag, -EINVAL, "cluster: '%.*s' is too long: %s",
			(int)length, address, nam_cluster_address_limit(address));
	if (cluster->count == NAM_SERVERS_MAX)
		return nam_diag_set(diag, -NAM_E_LIMIT, "cluster: more than %u memory servers",
			NAM_SERVERS_MAX);
	memcpy(text, address, length);
	text[length] = '\0';
	for (uint32_t i = 0; i < cluster->count; i++) {
		if (!strcmp(cluster->servers[i].listen, text))
			return nam_diag_set(diag, -NAM_E_CLUSTER, "cluster: '%s' is there twice; "
				"name each memory server once", text);
	}
	server = &cluster->servers[cluster->count++];
	memset(server, 0, sizeof(*server));
	server->id = -1;
	memcpy(server->listen, text, length + 1);
	return 0;
}

static int
parse_list(const char *text, struct nam_cluster *cluster, struct nam_diag *diag)
{
	int rc;

	do {
		size_t length, kept;

		text += strspn(text, " \t");
		length = kept = strcspn(text, ",");
		while (kept && (text[kept - 1] == ' ' || text[kept - 1] == '\t'))
			kept--;
		if (!kept)
			return nam_diag_set(diag, -EINVAL, "cluster: an address is missing; write "
				"for example shm:/run/nam/a,shm:/run/nam/b or "
				"@/etc/nam/cluster.ini");
		rc = add_address(cluster, text, kept, diag);
		text += length;
	} while (!rc && *text++);
	return rc;
}

/* ---- the file ----------------------------------------------------------------------------- */

struct reader {
	struct nam_cluster *cluster;
	char section[32];		/* the one that `server` is for */
	struct nam_cluster_server *server;
};

static const struct {
	const char *name;
	size_t offset;
	size_t size;
} keys[] = {
#define KEY(field)                                                                                  \
	{ #field, offsetof(struct nam_cluster_server, field),                                       \
		sizeof(((struct nam_cluster_server *)NULL)->field) }
	KEY(listen),
	KEY(memory),
	KEY(region),
	KEY(pages),
	KEY(numa),
	KEY(rpc_threads),
	KEY(log_level),
	KEY(metrics),
	KEY(keys),
#undef KEY
};

static int
begin_section(struct reader *reader, const struct nam__ini *ini, const char *section)
{
	struct nam_cluster *cluster = reader->cluster;
	char *end = NULL;
	long id = -1;

	if (!strncmp(section, "server ", 7) && section[7] >= '0' && section[7] <= '9')
		id = strtol(section + 7, &end, 10);
	if (id < 0 || *end || id >= (long)NAM_SERVERS_MAX)
		return nam_diag_set(ini->diag, -EINVAL, "%s:%d: section [%s]: write [server N] "
			"with N from 0 to %u", ini->path, ini->line, section, NAM_SERVERS_MAX - 1);
	for (uint32_t i = 0; i < cluster->count; i++) {
		if (cluster->servers[i].id == id)
			return nam_diag_set(ini->diag, -NAM_E_CLUSTER, "%s:%d: [server %ld] is "
				"there twice; the first is at line %d", ini->path, ini->line, id,
				cluster->servers[i].line);
	}
	/* An id below NAM_SERVERS_MAX that is not there yet: so there is room. */
	reader->server = &cluster->servers[cluster->count++];
	memset(reader->server, 0, sizeof(*reader->server));
	reader->server->id = (int32_t)id;
	reader->server->line = ini->line;
	(void)snprintf(reader->section, sizeof(reader->section), "%s", section);
	return 0;
}

static int
take_key(void *arg, const struct nam__ini *ini, const char *section, const char *name,
	const char *value)
{
	struct reader *reader = arg;

	if (!*section)
		return nam_diag_set(ini->diag, -EINVAL, "%s:%d: '%s' stands before the first "
			"[server N]", ini->path, ini->line, name);
	if (strcmp(section, reader->section)) {
		int rc = begin_section(reader, ini, section);

		if (rc)
			return rc;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char *field = (char *)reader->server + keys[i].offset;

		if (strcmp(keys[i].name, name))
			continue;
		if (*field)
			return nam_diag_set(ini->diag, -EINVAL, "%s:%d: '%s' is there twice in "
				"[%s]", ini->path, ini->line, name, section);
		if (!strcmp(name, "listen") && strlen(value) >= keys[i].size)
			return nam_diag_set(ini->diag, -EINVAL, "%s:%d: listen: the address is "
				"too long: %s", ini->path, ini->line,
				nam_cluster_address_limit(value));
		if (!*value || strlen(value) >= keys[i].size)
			return nam_diag_set(ini->diag, -EINVAL, "%s:%d: %s: the value must have "
				"1 to %zu bytes", ini->path, ini->line, name, keys[i].size - 1);
		memcpy(field, value, strlen(value) + 1);
		return 0;
	}
	return nam_diag_set(ini->diag, -EINVAL, "%s:%d: unknown key '%s'; known are listen, "
		"memory, region, pages, numa, rpc_threads, log_level, metrics, keys", ini->path,
		ini->line, name);
}

static int
parse_file(const char *path, struct nam_cluster *cluster, struct nam_diag *diag)
{
	struct reader reader = { .cluster = cluster };
	int rc = nam__ini_read(path, "cluster file", "[server N]", take_key, &reader, diag);

	if (rc)
		return rc;
	if (cluster->count == 0)
		return nam_diag_set(diag, -EINVAL, "%s: names no memory server; write a section "
			"[server 0] with listen = shm:PATH", path);
	for (uint32_t i = 0; i < cluster->count; i++) {
		struct nam_cluster_server *server = &cluster->servers[i];

		if (!*server->listen)
			return nam_diag_set(diag, -EINVAL, "%s:%d: [server %d] has no "
				"listen = ADDRESS", path, server->line, server->id);
		for (uint32_t j = 0; j < i; j++) {
			if (!strcmp(cluster->servers[j].listen, server->listen))
				return nam_diag_set(diag, -NAM_E_CLUSTER, "%s:%d: [server %d] and "
					"[server %d] listen at the same address '%s'", path,
					server->line, cluster->servers[j].id, server->id,
					server->listen);
		}
	}
	return 0;
}

int
nam_cluster_parse(const char *text, struct nam_cluster *ret_cluster, struct nam_diag *diag)
{
	struct nam_cluster *cluster = calloc(1, sizeof(*cluster));
	int rc;

	if (!cluster)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	if (*text == '@')
		rc = parse_file(text + 1, cluster, diag);
	else
		rc = parse_list(text, cluster, diag);
	if (!rc)
		*ret_cluster = *cluster;
	free(cluster);
	return rc;
}
