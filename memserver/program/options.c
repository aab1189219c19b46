/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the command line of nam-memserver. */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/exit.h"
#include "common/options/options.h"
#include "http.h"

/* The socket's folder exists, and the socket itself is no folder. */
static int
check_path(const char *path, struct nam_diag *diag)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat status;

	if (!*path)
		return nam_diag_set(diag, -EINVAL, "'shm:' has no path; write for example "
			"shm:/run/nam/server0");
	if (!stat(path, &status) && S_ISDIR(status.st_mode))
		return nam_diag_set(diag, -EINVAL, "'%s' is a folder; name a socket in it, "
			"for example shm:%s/server0", path, path);
	if (!slash || slash == path)
		return 0;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	if (stat(folder, &status) ? errno == ENOENT || errno == ENOTDIR : !S_ISDIR(status.st_mode))
		return nam_diag_set(diag, -EINVAL, "shm:%s: there is no folder '%s'; make it, or "
			"choose another path", path, folder);
	return 0;
}

static int
check_listen(const char *address, struct nam_diag *diag)
{
	if (strchr(address, ','))
		return nam_diag_set(diag, -EINVAL, "'%s': a memory server listens at one "
			"address; start one for each", address);
	if (!strncmp(address, "sim:", 4))
		return nam_diag_set(diag, -EINVAL, "'%s': a simulation starts its own memory "
			"servers, as in nam-bench index --cluster sim:PROFILE", address);
	return strncmp(address, "shm:", 4) ? 0 : check_path(address + 4, diag);
}

static int
take_listen(void *options, const char *text, struct nam_diag *diag)
{
	struct nam__options *o = options;

	if (!*text)
		return nam_diag_set(diag, -EINVAL, "the value is empty");
	if (o->server.listen)
		return nam_diag_set(diag, -EINVAL, "'%s' and '%s': a memory server listens at one "
			"address; start one for each", o->server.listen, text);
	if (strlen(text) >= sizeof(o->section.listen))
		return nam_diag_set(diag, -EINVAL, "'%s' is too long: %s", text,
			nam_cluster_address_limit(text));
	o->server.listen = text;
	return 0;
}

static int
take_ready_fd(void *options, const char *text, struct nam_diag *diag)
{
	struct nam__options *o = options;
	char *end;
	long fd = strtol(text, &end, 10);

	if (end == text || *end || fd < 0 || fd > INT_MAX)
		return nam_diag_set(diag, -EINVAL, "'%s' is not a number from 0 to %d", text,
			INT_MAX);
	if (fcntl((int)fd, F_GETFD) < 0)
		return nam_diag_set(diag, -EINVAL, "file descriptor %ld is not open", fd);
	o->ready_fd = (int)fd;
	return 0;
}

static int
take_metrics(void *options, const char *text, struct nam_diag *diag)
{
	int rc = nam__http_check(text, diag);

	if (!rc)
		((struct nam__options *)options)->metrics = text;
	return rc;
}

#define FIELD(field) NAM_OPTION_FIELD(struct nam__options, field)

/* In the order of enum nam_pages. */
static const char *const pages[] = { "auto", "4k", "thp", "2M", "1G", NULL };

/* In the order of enum nam_htm. */
static const char *const htm[] = { "auto", "on", "off", NULL };

/* In the order of enum nam_log_level. */
static const char *const log_levels[] = { "error", "warn", "info", "debug", NULL };

static const struct nam_option rows[] = {
	{ "listen", "ADDRESS", "Where clients connect, for example shm:/run/nam/server0.",
		NAM_OPTION_CALL, FIELD(server.listen), .letter = 'l', .take = take_listen },
	{ "memory", "SIZE", "Memory to serve, for example 8G (default 1G).", NAM_OPTION_BYTES,
		FIELD(server.memory_bytes), .letter = 'm', .max = UINT64_MAX },
	{ "region", "SIZE", "Size of each region (default: a sixteenth of the memory, 16M to "
		"256M); at most 256 regions.",
		NAM_OPTION_BYTES, FIELD(server.region_bytes), .letter = 'r', .max = UINT64_MAX },
	{ "pages", "KIND", "Pages: auto (default), 1G, 2M, thp or 4k. auto takes 2M if the host's "
		"pool has enough free, else thp if it is enabled for shared memory, else 4k.",
		NAM_OPTION_CHOICE, FIELD(server.pages), .letter = 'p', .choices = pages },
	{ "numa", "NODE", "Take the memory from this NUMA node (default -1: from any).",
		NAM_OPTION_COUNT, FIELD(server.numa_node), .letter = 'n', .min = -1, .max = 1023 },
	{ "rpc-threads", "N", "Threads that answer requests, 1 to 64 (default 1).",
		NAM_OPTION_COUNT, FIELD(server.rpc_threads), .letter = 't', .min = 1, .max = 64 },
	{ "htm", "WHEN", "Hardware transactions in key-value stores: auto (default: with "
		"several --rpc-threads, if a trial shows that this processor has RTM or HLE), on "
		"or off.", NAM_OPTION_CHOICE, FIELD(server.htm), .choices = htm },
	{ "id", "N", "This server's number in the cluster, 0 to 255 (default 0). Server 0 keeps "
		"the catalog and the list of clients.", NAM_OPTION_COUNT, FIELD(server.id),
		.letter = 'i', .max = NAM_SERVERS_MAX - 1 },
	{ "successor", NULL, "Wait for the memory of the running server of this number. Then serve "
		"in its place (`namctl server move`), or be its backup (`namctl server back`). "
		"It has as much memory, in regions of the same size.",
		NAM_OPTION_FLAG, FIELD(server.successor) },
	{ "spare", "SIZE", "So much more memory to take if that of other memory servers moves "
		"here (`namctl server drain`; default 0). Each has an address of its own: PATH.N, "
		"or a port that is N * 256 above this one.", NAM_OPTION_BYTES,
		FIELD(server.spare_bytes), .max = UINT64_MAX },
	{ "device", "NAME", "Over verbs: the RDMA device, if the address does not name it.",
		NAM_OPTION_TEXT, FIELD(server.device) },
	{ "gid-index", "N", "Over verbs: the GID of the device that clients connect to, with "
		"0.0.0.0.", NAM_OPTION_TEXT, FIELD(server.gid_index) },
	{ "mtu", "BYTES", "Over verbs: the size of packets, 256 to 4096 (default: the path's).",
		NAM_OPTION_TEXT, FIELD(server.mtu) },
	{ "keys", "FILE", "Admit only clients that hold a key of this file (`namctl key new`). "
		"SIGHUP reads it again; the holders of removed keys are fenced.", NAM_OPTION_TEXT,
		FIELD(server.keys) },
	{ "insecure", NULL, "Without --keys: listen at an address that other hosts reach. Each of "
		"them may then read and change all memory.", NAM_OPTION_FLAG,
		FIELD(server.insecure) },
	{ "log-level", "LEVEL", "Events on stderr, one a line: error, warn, info (default) or "
		"debug.", NAM_OPTION_CHOICE, FIELD(server.log_level), .choices = log_levels },
	{ "metrics", "[HOST:]PORT", "Serve metrics for Prometheus at http://HOST:PORT/metrics "
		"(default HOST: 127.0.0.1).", NAM_OPTION_CALL, FIELD(metrics),
		.take = take_metrics },
	{ "config", "FILE", "Take options that the command line lacks from section [server N] of "
		"FILE.", NAM_OPTION_TEXT, FIELD(config), .letter = 'c' },
	{ "ready-fd", "FD", "Write a line to this file descriptor when ready, then close it.",
		NAM_OPTION_CALL, .take = take_ready_fd },
	{ 0 },
};

static const struct {
	const char *name, *key;
	size_t text;			/* in struct nam_cluster_server */
} keys[NAM__KEYS_COUNT] = {
#define KEY(name, key)                                                                              \
	{ name, #key, offsetof(struct nam_cluster_server, key) }
	KEY("listen", listen),
	KEY("memory", memory),
	KEY("region", region),
	KEY("pages", pages),
	KEY("numa", numa),
	KEY("rpc-threads", rpc_threads),
	KEY("metrics", metrics),
	KEY("keys", keys),
	KEY("log-level", log_level),
#undef KEY
};

static void
note_taken(void *options, const struct nam_option *row, const char *text)
{
	(void)text;
	for (unsigned i = 0; i < NAM__KEYS_COUNT; i++)
		((struct nam__options *)options)->on_command_line[i] |=
			!strcmp(keys[i].name, row->name);
}

static const struct nam_options_table table = {
	.program = "nam-memserver",
	.usage = "--listen ADDRESS\n--config FILE --id N",
	.purpose = "Serve regions of this host's memory to compute nodes.",
	.after = "Sizes are bytes, or have one of the suffixes k, M, G, T (powers of 1,024).\n"
		"Exit status: 0 ended by SIGTERM or SIGINT, 1 failure while running, 2 usage, "
		"3 the address is in use, 4 not enough memory or huge pages.",
	.rows = rows,
	.taken = note_taken,
};

struct nam_diag
nam__options_named(const char *text)
{
	return nam__options_flags(&table, "--", text);
}

/* Read [server id] of the file, for settings that the command line lacks. */
static int
read_section(const struct nam__options *o, struct nam_cluster_server *ret_section,
	struct nam_diag *diag)
{
	struct nam_cluster *cluster = calloc(1, sizeof(*cluster));
	char text[PATH_MAX + 1];
	int rc;

	if (!cluster)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	(void)snprintf(text, sizeof(text), "@%s", o->config);
	rc = nam_cluster_parse(text, cluster, diag);
	if (rc)
		goto free_cluster;
	rc = nam_diag_set(diag, -ENOENT, "%s has no section [server %u]; add it, or choose another "
		"with --id", o->config, o->server.id);
	for (uint32_t i = 0; i < cluster->count; i++) {
		if (cluster->servers[i].id == (int32_t)o->server.id) {
			*ret_section = cluster->servers[i];
			rc = 0;
		}
	}
free_cluster:
	free(cluster);
	return rc;
}

static const char *
key_text(const struct nam_cluster_server *section, unsigned i)
{
	return (const char *)section + keys[i].text;
}

struct nam__place
nam__options_place(const struct nam__options *o, const char *name)
{
	struct nam__place place;
	unsigned i = 0;

	while (strcmp(keys[i].name, name) != 0)
		i++;
	if (!o->config || o->on_command_line[i])
		(void)snprintf(place.text, sizeof(place.text), "--%s", name);
	else
		(void)snprintf(place.text, sizeof(place.text), "%s, [server] at line %d: %s",
			o->config, o->section.line, keys[i].key);
	return place;
}

/* Keys that the command line lacks: 0, or -EINVAL with file, line and key in *diag. */
static int
take_section(struct nam__options *o, struct nam_diag *diag)
{
	struct nam_diag cause = { "" };

	for (unsigned i = 0; i < NAM__KEYS_COUNT; i++) {
		const char *text = key_text(&o->section, i);

		if (!o->on_command_line[i] && *text &&
			nam__option_set(&table, keys[i].name, text, o, &cause))
			return nam_diag_set(diag, -EINVAL, "%s: %s",
				nam__options_place(o, keys[i].name).text, cause.text);
	}
	if (!o->server.listen)
		return nam_diag_set(diag, -EINVAL, "--listen: the address is missing; write for "
			"example --listen shm:/run/nam/server0");
	if (check_listen(o->server.listen, &cause))
		return nam_diag_set(diag, -EINVAL, "%s: %s", nam__options_place(o, "listen").text,
			cause.text);
	return 0;
}

int
nam__options_reload(const struct nam__options *o, enum nam_log_level *ret_level,
	struct nam_diag *ret_left, struct nam_diag *diag)
{
	struct nam__options fresh = *o;
	struct nam_diag cause = { "" };
	size_t used = 0;
	int rc;

	if (!o->config)
		return nam_diag_set(diag, -ENOENT, "there is no --config to read again");
	fresh.server = o->command_line;
	rc = read_section(o, &fresh.section, diag) ?: take_section(&fresh, diag);
	if (rc)
		return rc;
	rc = nam_server_check(&fresh.server, &cause);
	if (rc)
		return nam_diag_set(diag, rc, "%s, [server] at line %d: %s", o->config,
			fresh.section.line, nam__options_flags(&table, "", cause.text).text);
	*ret_left = (struct nam_diag){ "" };
	for (unsigned i = 0; i < NAM__KEYS_COUNT - 1; i++) {	/* the last is the log level */
		if (o->on_command_line[i] ||
			!strcmp(key_text(&fresh.section, i), key_text(&o->section, i)))
			continue;
		used += (size_t)snprintf(ret_left->text + used, sizeof(ret_left->text) - used,
			"%s%s", used ? " " : "", keys[i].key);
	}
	*ret_level = fresh.server.log_level;
	return 0;
}

bool
nam__options_parse(int argc, char **argv, struct nam__options *ret, int *ret_exit)
{
	struct nam_diag diag = { "" };

	*ret = (struct nam__options){ .ready_fd = -1 };
	nam_server_options_init(&ret->server);
	if (!nam__options_take(&table, argc, argv, ret, ret_exit))
		return false;
	*ret_exit = NAM_EXIT_USAGE;
	if (ret->config && read_section(ret, &ret->section, &diag)) {
		(void)fprintf(stderr, "nam-memserver: --config: %s\n", diag.text);
		return false;
	}
	ret->command_line = ret->server;
	if (!take_section(ret, &diag))
		return true;
	(void)fprintf(stderr, "nam-memserver: %s\n", diag.text);
	return false;
}
