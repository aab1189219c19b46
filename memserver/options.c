/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the command line of nam-memserver. */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/version.h"

static const char usage[] =
	"Usage: nam-memserver --listen ADDRESS [OPTION]...\n"
	"       nam-memserver --config FILE --id N [OPTION]...\n"
	"Serve regions of this host's memory to compute nodes.\n"
	"\n"
	"  -l, --listen ADDRESS   where clients connect, for example shm:/run/nam/server0\n"
	"  -m, --memory SIZE      memory to serve, for example 8G (default 1G)\n"
	"  -r, --region SIZE      size of each region (default 1G); at most 256 regions\n"
	"  -p, --pages KIND       auto, 1G, 2M, thp or 4k (default auto: 2M if the host's pool\n"
	"                         has enough free, else thp if it is enabled for shared memory,\n"
	"                         else 4k)\n"
	"  -n, --numa NODE        take the memory from this NUMA node (default -1: from any)\n"
	"  -t, --rpc-threads N    threads that answer requests, 1 to 64 (default 1)\n"
	"  -i, --id N             this server's number in the cluster, 0 to 255 (default 0);\n"
	"                         server 0 keeps the catalog and the list of clients\n"
	"      --device NAME      over verbs: the RDMA device, if the address does not say it\n"
	"      --gid-index N      ... which of its GIDs clients connect to, with 0.0.0.0\n"
	"      --mtu BYTES        ... of packets, if not what the path has: 256 to 4096\n"
	"  -c, --config FILE      take what is not said here from section [server N] of FILE\n"
	"      --ready-fd FD      write a line to this file descriptor when ready, then close it\n"
	"  -h, --help             show this and exit\n"
	"  -V, --version          show the version and exit\n"
	"\n"
	"Sizes are bytes, or have one of the request slots k, M, G, T (powers of 1,024).\n"
	"Exit status: 0 ended by SIGTERM or SIGINT, 1 failure while running, 2 usage,\n"
	"3 the address is in use, 4 not enough memory or huge pages.\n";

#define READY_FD 1000
#define DEVICE 1001
#define GID_INDEX 1002
#define MTU 1003

static const struct option long_options[] = {
	{ "listen", required_argument, NULL, 'l' },
	{ "memory", required_argument, NULL, 'm' },
	{ "region", required_argument, NULL, 'r' },
	{ "pages", required_argument, NULL, 'p' },
	{ "numa", required_argument, NULL, 'n' },
	{ "rpc-threads", required_argument, NULL, 't' },
	{ "id", required_argument, NULL, 'i' },
	{ "config", required_argument, NULL, 'c' },
	{ "device", required_argument, NULL, DEVICE },
	{ "gid-index", required_argument, NULL, GID_INDEX },
	{ "mtu", required_argument, NULL, MTU },
	{ "ready-fd", required_argument, NULL, READY_FD },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* Where a value was written, for messages: "--memory", or "FILE:3: memory". */
struct origin {
	const char *option;
	const char *file;
	const char *key;
	int line;
};

static int NAM_PRINTF(2, 3)
complain(const struct origin *origin, const char *format, ...)
{
	va_list args;

	(void)fputs("nam-memserver: ", stderr);
	if (origin && origin->file)
		(void)fprintf(stderr, "%s, [server] at line %d: %s: ", origin->file, origin->line,
			origin->key);
	else if (origin)
		(void)fprintf(stderr, "%s: ", origin->option);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
	return -EINVAL;
}

static int
parse_size(const struct origin *origin, const char *text, uint64_t *ret)
{
	if (nam_parse_bytes(text, ret))
		return complain(origin, "'%s' is not a size; write for example 8G", text);
	return 0;
}

static int
parse_number(const struct origin *origin, const char *text, long low, long high, long *ret)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end || errno || value < low || value > high)
		return complain(origin, "'%s' is not a number from %ld to %ld", text, low, high);
	*ret = value;
	return 0;
}

static int
parse_pages(const struct origin *origin, const char *text, enum nam_pages *ret)
{
	static const struct {
		const char *name;
		enum nam_pages pages;
	} kinds[] = {
		{ "auto", NAM_PAGES_AUTO },
		{ "4k", NAM_PAGES_4K },
		{ "4K", NAM_PAGES_4K },
		{ "thp", NAM_PAGES_THP },
		{ "2M", NAM_PAGES_2M },
		{ "1G", NAM_PAGES_1G },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(kinds[i].name, text)) {
			*ret = kinds[i].pages;
			return 0;
		}
	}
	return complain(origin, "'%s' is none of auto, 1G, 2M, thp, 4k", text);
}

/* The texts of command line and file, merged, into numbers; those not in `said` are the file's. */
static int
convert(const struct nam_cluster_server *texts, const struct nam_cluster_server *said,
	const char *file, struct nam_server_options *ret)
{
	struct origin origin = { .line = texts->line };
	long node = ret->numa_node, threads = (long)ret->rpc_threads;
	int rc = 0;

#define FROM(field, name)                                                                           \
	(origin.option = (name), origin.key = #field,                                               \
		origin.file = *said->field ? NULL : file, *texts->field)
	if (FROM(memory, "--memory"))
		rc |= parse_size(&origin, texts->memory, &ret->memory_bytes);
	if (FROM(region, "--region"))
		rc |= parse_size(&origin, texts->region, &ret->region_bytes);
	if (FROM(pages, "--pages"))
		rc |= parse_pages(&origin, texts->pages, &ret->pages);
	if (FROM(numa, "--numa"))
		rc |= parse_number(&origin, texts->numa, -1, 1023, &node);
	if (FROM(rpc_threads, "--rpc-threads"))
		rc |= parse_number(&origin, texts->rpc_threads, 1, 64, &threads);
	ret->numa_node = (int)node;
	ret->rpc_threads = (uint32_t)threads;
#undef FROM
	return rc ? -EINVAL : 0;
}

/* Where the socket is to be: a folder that exists, and no folder itself. */
static int
check_path(const struct origin *origin, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat status;

	if (!*path)
		return complain(origin, "'shm:' has no path; write for example "
			"shm:/run/nam/server0");
	if (!stat(path, &status) && S_ISDIR(status.st_mode))
		return complain(origin, "'%s' is a folder; name a socket in it, for example "
			"shm:%s/server0", path, path);
	if (!slash || slash == path)
		return 0;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	if (stat(folder, &status) ? errno == ENOENT || errno == ENOTDIR : !S_ISDIR(status.st_mode))
		return complain(origin, "shm:%s: there is no folder '%s'; make it, or choose "
			"another path", path, folder);
	return 0;
}

static int
check_listen(const struct origin *origin, const char *address)
{
	if (strchr(address, ','))
		return complain(origin, "'%s': a memory server listens at one address; start one "
			"for each", address);
	if (!strncmp(address, "sim:", 4))
		return complain(origin, "'%s': simulated memory servers are started by whoever "
			"simulates, as in nam-bench index --cluster sim:PROFILE", address);
	if (!strncmp(address, "shm:", 4))
		return check_path(origin, address + 4);
	return 0;
}

/* Fill what the command line leaves open from [server id] of a file. */
static int
read_config(const char *file, uint32_t id, struct nam_cluster_server *texts)
{
	struct nam_cluster *cluster = calloc(1, sizeof(*cluster));
	const struct nam_cluster_server *section = NULL;
	struct nam_diag diag;
	char text[PATH_MAX + 1];
	int rc;

	if (!cluster)
		return complain(NULL, "no memory");
	(void)snprintf(text, sizeof(text), "@%s", file);
	rc = nam_cluster_parse(text, cluster, &diag);
	if (rc) {
		rc = complain(NULL, "--config: %s", diag.text);
		goto free_cluster;
	}
	for (uint32_t i = 0; i < cluster->count; i++) {
		if (cluster->servers[i].id == (int32_t)id)
			section = &cluster->servers[i];
	}
	if (!section) {
		rc = complain(NULL, "--config: %s has no section [server %u]; add it, or choose "
			"another with --id", file, id);
		goto free_cluster;
	}
	texts->line = section->line;
#define FILL(field)                                                                                 \
	if (!*texts->field)                                                                         \
	memcpy(texts->field, section->field, sizeof(texts->field))
	FILL(listen);
	FILL(memory);
	FILL(region);
	FILL(pages);
	FILL(numa);
	FILL(rpc_threads);
#undef FILL
free_cluster:
	free(cluster);
	return rc;
}

static int
copy_text(const char *option, const char *value, char *to, size_t size)
{
	if (!*value)
		return complain(&(struct origin){ .option = option }, "the value is empty");
	if (strlen(value) >= size && !strcmp(option, "--listen"))
		return complain(&(struct origin){ .option = option }, "'%s' is too long: %s", value,
			nam_cluster_address_limit(value));
	if (strlen(value) >= size)
		return complain(&(struct origin){ .option = option }, "'%s' is longer than %zu "
			"bytes", value, size - 1);
	memcpy(to, value, strlen(value) + 1);
	return 0;
}

struct command_line {
	struct nam_cluster_server said;
	const char *config;
	const char *device, *gid_index, *mtu;
	uint32_t id;
	int ready_fd;
};

/* 0, or -EINVAL after a message. */
static int
take_option(struct command_line *line, int option)
{
	const struct origin id = { .option = "--id" }, ready = { .option = "--ready-fd" };
	const struct origin listen = { .option = "--listen" };
	struct nam_cluster_server *said = &line->said;
	long number = 0;
	int rc;

	switch (option) {
	case 'l':
		if (*said->listen)
			return complain(&listen, "'%s' and '%s': a memory server listens at one "
				"address; start one for each", said->listen, optarg);
		return copy_text("--listen", optarg, said->listen, sizeof(said->listen));
	case 'm':
		return copy_text("--memory", optarg, said->memory, sizeof(said->memory));
	case 'r':
		return copy_text("--region", optarg, said->region, sizeof(said->region));
	case 'p':
		return copy_text("--pages", optarg, said->pages, sizeof(said->pages));
	case 'n':
		return copy_text("--numa", optarg, said->numa, sizeof(said->numa));
	case 't':
		return copy_text("--rpc-threads", optarg, said->rpc_threads,
			sizeof(said->rpc_threads));
	case 'c':
		line->config = optarg;
		return 0;
	case DEVICE:
		line->device = optarg;
		return 0;
	case GID_INDEX:
		line->gid_index = optarg;
		return 0;
	case MTU:
		line->mtu = optarg;
		return 0;
	case 'i':
		rc = parse_number(&id, optarg, 0, NAM_SERVERS_MAX - 1, &number);
		line->id = (uint32_t)number;
		return rc;
	case READY_FD:
		rc = parse_number(&ready, optarg, 0, INT_MAX, &number);
		line->ready_fd = (int)number;
		if (!rc && fcntl(line->ready_fd, F_GETFD) < 0)
			return complain(&ready, "file descriptor %d is not open", line->ready_fd);
		return rc;
	default:
		return -EINVAL;
	}
}

enum nam__options_result
nam__options_parse(int argc, char **argv, struct nam__options *ret)
{
	struct origin origin = { .option = "--listen", .key = "listen" };
	struct command_line line = { .ready_fd = -1 };
	int option;

	while ((option = getopt_long(argc, argv, "l:m:r:p:n:t:i:c:hV", long_options, NULL)) != -1) {
		if (option == 'h') {
			(void)fputs(usage, stdout);
			return NAM__OPTIONS_EXIT_OK;
		}
		if (option == 'V') {
			(void)puts("nam-memserver " NAM_VERSION);
			return NAM__OPTIONS_EXIT_OK;
		}
		if (option == '?') {
			/* getopt has said what is wrong. */
			(void)fputs("Try 'nam-memserver --help'.\n", stderr);
			return NAM__OPTIONS_EXIT_USAGE;
		}
		if (take_option(&line, option))
			return NAM__OPTIONS_EXIT_USAGE;
	}
	if (optind < argc) {
		(void)complain(NULL, "'%s' is not an option; try 'nam-memserver --help'",
			argv[optind]);
		return NAM__OPTIONS_EXIT_USAGE;
	}
	ret->texts = line.said;
	ret->ready_fd = line.ready_fd;
	if (line.config && read_config(line.config, line.id, &ret->texts))
		return NAM__OPTIONS_EXIT_USAGE;
	nam_server_options_init(&ret->server);
	ret->server.id = line.id;
	ret->server.listen = ret->texts.listen;
	ret->server.device = line.device;
	ret->server.gid_index = line.gid_index;
	ret->server.mtu = line.mtu;
	if (convert(&ret->texts, &line.said, line.config, &ret->server))
		return NAM__OPTIONS_EXIT_USAGE;
	if (!*ret->texts.listen) {
		(void)complain(NULL, "--listen: where to listen is missing; write for example "
			"--listen shm:/run/nam/server0");
		return NAM__OPTIONS_EXIT_USAGE;
	}
	origin.file = *line.said.listen ? NULL : line.config;
	origin.line = ret->texts.line;
	if (check_listen(&origin, ret->texts.listen))
		return NAM__OPTIONS_EXIT_USAGE;
	return NAM__OPTIONS_RUN;
}
