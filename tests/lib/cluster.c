/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fiber/fiber.h"
#include "memserver/server.h"

#define READY_MS 20000u
#define ARGS_MAX 32u

#if defined(NAM_FIBER_ASAN) || defined(NAM_FIBER_TSAN)
#define DEFAULT_SCALE 0.1
#else
#define DEFAULT_SCALE 1.0
#endif

void
test_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fputc('\n', stderr);
	exit(1);
}

uint64_t
test_scaled(uint64_t count)
{
	const char *text = getenv("NAM_TEST_SCALE");
	double scale = text && *text ? strtod(text, NULL) : DEFAULT_SCALE;
	uint64_t scaled = (uint64_t)((double)count * scale);

	return scaled ? scaled : 1;
}

uint64_t
test_scaled_least(uint64_t count, uint64_t least)
{
	uint64_t scaled = test_scaled(count);

	return scaled < least ? least : scaled;
}

uint64_t
test_memory(uint64_t bytes)
{
	uint64_t least = 16u << 20, scaled = test_scaled_least(bytes, least) & ~0xfffffull;

	return bytes < least || scaled > bytes ? bytes : scaled;
}

uint64_t
test_bound_ns(uint64_t ns)
{
	const char *text = getenv("NAM_TEST_SLOWNESS");

	return text && *text ? (uint64_t)((double)ns * strtod(text, NULL)) : ns;
}

uint64_t
test_starved_ns(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "re");
	unsigned long long waited = 0;

	if (file && fscanf(file, "%*u %llu", &waited) != 1)
		waited = 0;
	if (file)
		(void)fclose(file);
	return waited;
}

void
test_address(const char *path, char *ret, size_t size)
{
	static atomic_uint ports;
	const char *fabric = getenv("NAM_TEST_FABRIC");
	size_t length = fabric ? strlen(fabric) : 0;

	if (length > 2 && !strcmp(fabric + length - 2, ":0"))
		(void)snprintf(ret, size, "%.*s:%u", (int)(length - 2), fabric,
			10000 + ((unsigned)getpid() * 64 + atomic_fetch_add(&ports, 1)) % 20000);
	else
		(void)snprintf(ret, size, "shm:%s", path);
}

/* ---- children ----------------------------------------------------------------------------- */

/* In the new process.  The parent may have died before we asked to be told. */
static void
become(const char *const *argv, pid_t parent, int out)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(125);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

void
child_start(struct child *child, const char *const *argv)
{
	pid_t parent = getpid();
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		test_die("pipe: %s", strerror(errno));
	(void)fflush(NULL);
	child->pid = fork();
	if (child->pid < 0)
		test_die("fork: %s", strerror(errno));
	if (child->pid == 0)
		become(argv, parent, fds[1]);
	close(fds[1]);
	child->out = fds[0];
}

void
child_start_self(struct child *child, const char *role, const char *const *args)
{
	const char *argv[ARGS_MAX] = { "/proc/self/exe", role };
	unsigned count = 2;

	for (; *args; args++) {
		if (count == ARGS_MAX - 1)
			test_die("too many arguments");
		argv[count++] = *args;
	}
	child_start(child, argv);
}

static int
exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
child_done(struct child *child)
{
	child->pid = 0;
	close(child->out);
	child->out = -1;
}

int
child_wait(struct child *child, unsigned timeout_ms)
{
	uint64_t deadline = nam_now_ns() + timeout_ms * 1000000ull;
	int status;

	for (;;) {
		pid_t pid = waitpid(child->pid, &status, WNOHANG);

		if (pid < 0)
			test_die("waitpid: %s", strerror(errno));
		if (pid == child->pid)
			break;
		if (nam_now_ns() >= deadline)
			return -1;
		nam_sleep_ns(2000000);
	}
	child_done(child);
	return exit_status(status);
}

void
child_signal(const struct child *child, int signal_number)
{
	if (kill(child->pid, signal_number))
		test_die("kill %d: %s", (int)child->pid, strerror(errno));
}

void
child_stop(const struct child *child)
{
	int status;

	child_signal(child, SIGSTOP);
	if (waitpid(child->pid, &status, WUNTRACED) != child->pid || !WIFSTOPPED(status))
		test_die("%d has not stopped", (int)child->pid);
}

void
child_kill(struct child *child)
{
	int status;

	if (!child->pid)
		return;
	child_signal(child, SIGKILL);
	if (waitpid(child->pid, &status, 0) != child->pid)
		test_die("waitpid: %s", strerror(errno));
	child_done(child);
}

bool
child_line(struct child *child, char *line, size_t size, unsigned timeout_ms)
{
	uint64_t now = nam_now_ns(), deadline = now + timeout_ms * 1000000ull;
	size_t length = 0;

	for (; now < deadline; now = nam_now_ns()) {
		struct pollfd readable = { .fd = child->out, .events = POLLIN };
		char byte;

		if (poll(&readable, 1, (int)((deadline - now + 999999) / 1000000)) <= 0)
			continue;
		if (read(child->out, &byte, 1) != 1)
			return false;
		if (byte == '\n') {
			line[length] = '\0';
			return true;
		}
		if (length + 1 < size)
			line[length++] = byte;
	}
	return false;
}

/* ---- memory servers that are processes ---------------------------------------------------- */

const char *
test_program(const char *name)
{
	static char path[4096];
	const char *folder = getenv("NAM_BUILD_DIR");

	if (!folder)
		test_die("NAM_BUILD_DIR must name the folder that the project was built in");
	(void)snprintf(path, sizeof(path), "%s/bin/%s", folder, name);
	return path;
}

/* Those of this program that have to be tidied up after; exit() may come at any point. */
static struct cluster *unfinished;

static void
finish(void)
{
	if (unfinished)
		cluster_stop(unfinished);
}

static void
address_choose(const char *folder, unsigned number, char *address, size_t size)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/%u", folder, number);
	test_address(path, address, size);
}

static void
server_start(struct cluster *cluster, unsigned number, unsigned id_number, const char *role)
{
	struct child *server = &cluster->servers[number];
	char id[12], memory[24], spare[24], line[512];
	const char *const argv[] = {
		test_program("nam-memserver"), "--listen", cluster->addresses[number],
		"--memory", memory, "--region", cluster->region, "--pages", "4k", "--id", id,
		"--spare", spare, "--insecure", role, NULL,
	};

	(void)snprintf(memory, sizeof(memory), "%lluM",
		(unsigned long long)(test_memory(cluster->memory_mib << 20) >> 20));
	(void)snprintf(spare, sizeof(spare), "%lluM",
		(unsigned long long)(test_memory(cluster->spare_mib << 20) >> 20));
	(void)snprintf(id, sizeof(id), "%u", id_number);
	child_start(server, argv);
	if (!child_line(server, line, sizeof(line), READY_MS))
		test_die("memory server %u did not get ready: %s", number, argv[0]);
}

void
cluster_start_server(struct cluster *cluster, unsigned number)
{
	server_start(cluster, number, number, NULL);
}

void
cluster_start_server_as(struct cluster *cluster, unsigned number, unsigned id)
{
	server_start(cluster, number, id, NULL);
}

void
cluster_start_successor(struct cluster *cluster, unsigned number, unsigned id)
{
	if (number == CLUSTER_SERVERS_MAX)
		test_die("there are %u memory servers already", number);
	if (number == cluster->count) {
		address_choose(cluster->folder, number, cluster->addresses[number],
			sizeof(cluster->addresses[number]));
		cluster->count++;
	}
	server_start(cluster, number, id, "--successor");
}

void
cluster_start(struct cluster *cluster, unsigned count, uint64_t memory_mib, const char *region)
{
	cluster_start_spare(cluster, count, memory_mib, region, 0);
}

void
cluster_start_spare(struct cluster *cluster, unsigned count, uint64_t memory_mib,
	const char *region, uint64_t spare_mib)
{
	size_t length = 0;

	memset(cluster, 0, sizeof(*cluster));
	(void)snprintf(cluster->folder, sizeof(cluster->folder), "/tmp/nam-test-XXXXXX");
	if (!mkdtemp(cluster->folder))
		test_die("%s: %s", cluster->folder, strerror(errno));
	cluster->count = count;
	cluster->memory_mib = memory_mib;
	cluster->region = region;
	cluster->spare_mib = spare_mib;
	unfinished = cluster;
	(void)atexit(finish);
	for (unsigned i = 0; i < count; i++) {
		address_choose(cluster->folder, i, cluster->addresses[i],
			sizeof(cluster->addresses[i]));
		length += (size_t)snprintf(cluster->list + length, sizeof(cluster->list) - length,
			"%s%s", i ? "," : "", cluster->addresses[i]);
		cluster_start_server(cluster, i);
	}
}

void
cluster_stop(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++) {
		const char *path = cluster->addresses[i] + strlen("shm:");
		char lock[128];

		child_kill(&cluster->servers[i]);
		if (strncmp(cluster->addresses[i], "shm:", 4))
			continue;
		(void)unlink(path);
		(void)snprintf(lock, sizeof(lock), "%s.lock", path);
		(void)unlink(lock);
	}
	(void)rmdir(cluster->folder);
	unfinished = NULL;
}

/* ---- memory servers that are threads ------------------------------------------------------ */

struct local_cluster {
	char folder[64];
	char list[CLUSTER_SERVERS_MAX * 96];
	unsigned count;
	uint64_t memory_bytes, region_bytes, spare_bytes;	/* of each */
	struct {
		char address[96];
		struct nam_server *server;
		struct nam_thread *thread;
	} servers[CLUSTER_SERVERS_MAX];
};

static void
run_server(void *arg)
{
	int rc = nam_server_run(arg);

	if (rc)
		test_die("a memory server ended: %s", nam_err_text(rc));
}

/* As the environment says. */
static enum nam_htm
test_htm(void)
{
	const char *name = getenv("NAM_TEST_HTM");

	if (!name)
		return NAM_HTM_AUTO;
	if (!strcmp(name, "off"))
		return NAM_HTM_OFF;
	if (strcmp(name, "stand_in") != 0)
		test_die("NAM_TEST_HTM: %s is neither off nor stand_in", name);
	return NAM_HTM_STAND_IN;
}

static const char *
add(struct local_cluster *cluster, uint32_t id, bool successor)
{
	unsigned number = cluster->count++;
	struct nam_server_options options;
	struct nam_diag diag = { "" };
	char *address;

	if (number == CLUSTER_SERVERS_MAX)
		test_die("there are %u memory servers already", number);
	address = cluster->servers[number].address;
	address_choose(cluster->folder, number, address, sizeof(cluster->servers[0].address));
	nam_server_options_init(&options);
	options.insecure = true;
	options.listen = address;
	options.id = id;
	options.memory_bytes = cluster->memory_bytes;
	options.region_bytes = cluster->region_bytes;
	options.spare_bytes = cluster->spare_bytes;
	options.successor = successor;
	options.pages = NAM_PAGES_4K;
	options.htm = test_htm();
	if (nam_server_start(&options, &cluster->servers[number].server, NULL, &diag))
		test_die("memory server %u: %s", number, diag.text);
	if (nam_thread_start("memserver", run_server, cluster->servers[number].server,
		    &cluster->servers[number].thread))
		test_die("no thread for memory server %u", number);
	return address;
}

const char *
local_cluster_add(struct local_cluster *cluster)
{
	return add(cluster, cluster->count, false);
}

const char *
local_cluster_add_id(struct local_cluster *cluster, uint32_t id)
{
	return add(cluster, id, false);
}

const char *
local_cluster_add_successor(struct local_cluster *cluster, uint32_t id)
{
	return add(cluster, id, true);
}

struct nam_server *
local_cluster_server(const struct local_cluster *cluster, unsigned number)
{
	return cluster->servers[number].server;
}

struct local_cluster *
local_cluster_start(unsigned count, uint64_t memory_bytes, uint64_t region_bytes)
{
	return local_cluster_start_spare(count, memory_bytes, region_bytes, 0);
}

struct local_cluster *
local_cluster_start_spare(unsigned count, uint64_t memory_bytes, uint64_t region_bytes,
	uint64_t spare_bytes)
{
	struct local_cluster *cluster = calloc(1, sizeof(*cluster));
	size_t length = 0;

	if (!cluster)
		test_die("no memory");
	(void)snprintf(cluster->folder, sizeof(cluster->folder), "/tmp/nam-test-XXXXXX");
	if (!mkdtemp(cluster->folder))
		test_die("%s: %s", cluster->folder, strerror(errno));
	cluster->memory_bytes = memory_bytes;
	cluster->region_bytes = region_bytes;
	cluster->spare_bytes = spare_bytes;
	while (cluster->count < count) {
		const char *address = local_cluster_add(cluster);

		length += (size_t)snprintf(cluster->list + length, sizeof(cluster->list) - length,
			"%s%s", length ? "," : "", address);
	}
	return cluster;
}

const char *
local_cluster_list(const struct local_cluster *cluster)
{
	return cluster->list;
}

const char *
local_cluster_address(const struct local_cluster *cluster, unsigned number)
{
	return cluster->servers[number].address;
}

void
local_cluster_stop_server(struct local_cluster *cluster, unsigned number)
{
	if (!cluster->servers[number].server)
		return;
	nam_server_stop(cluster->servers[number].server);
	nam_thread_join(cluster->servers[number].thread);
	nam_server_destroy(cluster->servers[number].server);
	cluster->servers[number].server = NULL;
}

void
local_cluster_stop(struct local_cluster *cluster)
{
	for (unsigned i = 0; i < cluster->count; i++)
		local_cluster_stop_server(cluster, i);
	(void)rmdir(cluster->folder);
	free(cluster);
}

/* ---- clients ------------------------------------------------------------------------------ */

struct nam_client *
test_connect(const char *list, const char *name, uint32_t lock_timeout_ms)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = list;
	options.name = name;
	if (lock_timeout_ms)
		options.lock_timeout_ms = lock_timeout_ms;
	rc = nam_client_connect(&options, &client, &diag);
	if (rc)
		test_die("%s: cannot connect: %s: %s", name, nam_err_name(rc), diag.text);
	return client;
}

struct nam_worker *
test_worker(struct nam_client *client)
{
	struct nam_worker *worker;
	struct nam_diag diag = { "" };
	int rc = nam_worker_open(client, &worker, &diag);

	if (rc)
		test_die("cannot open a worker: %s: %s", nam_err_name(rc), diag.text);
	return worker;
}

int
test_shared_create(size_t bytes)
{
	int fd = memfd_create("nam-test", 0);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		test_die("no shared memory: %s", strerror(errno));
	return fd;
}

void *
test_shared_map(int fd, size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		test_die("shared memory cannot be mapped: %s", strerror(errno));
	return map;
}

uint64_t
test_bytes_used(struct nam_worker *worker, const struct cluster *cluster, uint64_t *ret_blocks)
{
	uint64_t used = 0, blocks = 0;

	for (uint32_t i = 0; i < cluster->count; i++) {
		struct nam_server_status status;
		const struct nam_memory_figures *memory = status.figures.memory;
		int rc = nam_server_status_get(worker, i, &status);

		if (rc)
			test_die("status: %s", nam_worker_diag(worker));
		used += status.carved_bytes - status.free_bytes - status.waiting_bytes;
		blocks += memory[NAM_MEMORY_PUBLIC].carved_bytes -
			memory[NAM_MEMORY_PUBLIC].free_bytes -
			memory[NAM_MEMORY_PUBLIC].waiting_bytes;
	}
	if (ret_blocks)
		*ret_blocks = blocks;
	return used;
}
