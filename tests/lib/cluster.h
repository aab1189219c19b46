/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h -- real memory servers for tests: processes of nam-memserver, or threads of the test.
 *
 * An error in here ends the test program with a message.  Processes die with the thread
 * that started them, whichever way that ends; so start them from the main thread.
 */
#ifndef NAM_TESTS_LIB_CLUSTER_H
#define NAM_TESTS_LIB_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "compute/client.h"

#define CLUSTER_SERVERS_MAX 4u

/* Print a message and end the program. */
void test_die(const char *format, ...) NAM_PRINTF(1, 2) __attribute__((noreturn));

/*
 * `count` times the factor NAM_TEST_SCALE of the environment, at least 1.  Without it, sanitized
 * programs do a tenth, and all others everything.
 */
uint64_t test_scaled(uint64_t count);
/* The same, but no fewer than a test needs to mean anything. */
uint64_t test_scaled_least(uint64_t count, uint64_t least);

/* Memory of a server for what test_scaled() leaves: at least 16 MiB, or what it was. */
uint64_t test_memory(uint64_t bytes);

/*
 * A time within which something must have happened.  On an emulated machine it is times the factor
 * NAM_TEST_SLOWNESS of the environment; without that, as it is.
 */
uint64_t test_bound_ns(uint64_t ns);

/* How long this thread has waited for a processor, since it began; 0: the host does not say. */
uint64_t test_starved_ns(void);

/*
 * A free address: a port of the host in NAM_TEST_FABRIC, for example
 * verbs:10.0.0.1:0, and without it the socket @path.
 */
void test_address(const char *path, char *ret, size_t size);

/* ---- children ----------------------------------------------------------------------------- */

struct child {
	pid_t pid;		/* 0: not running */
	int out;		/* its standard output */
};

/* Start a program.  @argv ends with NULL; argv[0] is a path; standard output is a pipe to us. */
void child_start(struct child *child, const char *const *argv);

/* This program once more: argv[0] is filled in, and goes on to `role`. */
void child_start_self(struct child *child, const char *role, const char *const *args);

/* Exit status, 128 + signal, or -1 if it has not ended within so many milliseconds. */
int child_wait(struct child *child, unsigned timeout_ms);

void child_signal(const struct child *child, int signal_number);

/* SIGSTOP; returns when all of its threads have stopped. */
void child_stop(const struct child *child);

/* SIGKILL, and wait.  Nothing to do for one that has been waited for. */
void child_kill(struct child *child);

/*
 * A line that a child wrote, which is cut off.  False at its end, or when nothing comes
 * within so many milliseconds.
 */
bool child_line(struct child *child, char *line, size_t size, unsigned timeout_ms);

/* ---- memory servers that are processes ---------------------------------------------------- */

struct cluster {
	char folder[64];		/* temporary; removed by cluster_stop() */
	char addresses[CLUSTER_SERVERS_MAX][96];	/* "shm:..." */
	char list[CLUSTER_SERVERS_MAX * 96];		/* what --cluster takes */
	unsigned count;
	uint64_t memory_mib, spare_mib;
	const char *region;
	struct child servers[CLUSTER_SERVERS_MAX];
};

/* @memory_mib: of which test_memory() says how much; @region: as nam-memserver wants it */
void cluster_start(struct cluster *cluster, unsigned count, uint64_t memory_mib,
	const char *region);
/* The same; each has room for so much memory of others. */
void cluster_start_spare(struct cluster *cluster, unsigned count, uint64_t memory_mib,
	const char *region, uint64_t spare_mib);
/* One server, at first or anew after it has ended; waits until it is ready. */
void cluster_start_server(struct cluster *cluster, unsigned number);
/* The same, with another id than its number. */
void cluster_start_server_as(struct cluster *cluster, unsigned number, unsigned id);
/*
 * A successor of the member with that id, or what is to be its backup, likewise.
 *
 * @number	of an address; the count: one more, which the list does not name
 */
void cluster_start_successor(struct cluster *cluster, unsigned number, unsigned id);
void cluster_stop(struct cluster *cluster);

/* The path of a program that was built; static. */
const char *test_program(const char *name);

/* ---- memory servers that are threads ------------------------------------------------------ */

struct local_cluster;
struct nam_server;

struct local_cluster *local_cluster_start(unsigned count, uint64_t memory_bytes,
	uint64_t region_bytes);
/* The same; each has room for so much memory of others. */
struct local_cluster *local_cluster_start_spare(unsigned count, uint64_t memory_bytes,
	uint64_t region_bytes, uint64_t spare_bytes);
/* One more, which the list does not name; its address. */
const char *local_cluster_add(struct local_cluster *cluster);
/* The same with an id that another one may have. */
const char *local_cluster_add_id(struct local_cluster *cluster, uint32_t id);
/* The same, which waits for the memory of that member, or becomes its backup. */
const char *local_cluster_add_successor(struct local_cluster *cluster, uint32_t id);
/* NULL: it has ended. */
struct nam_server *local_cluster_server(const struct local_cluster *cluster, unsigned number);
const char *local_cluster_list(const struct local_cluster *cluster);
const char *local_cluster_address(const struct local_cluster *cluster, unsigned number);
/* One of them ends; its clients see it die. */
void local_cluster_stop_server(struct local_cluster *cluster, unsigned number);
/* All clients must be closed. */
void local_cluster_stop(struct local_cluster *cluster);

/* ---- clients ------------------------------------------------------------------------------ */

/* Defaults, but for what is said here; 0: the default of that, too. */
struct nam_client *test_connect(const char *list, const char *name, uint32_t lock_timeout_ms);
struct nam_worker *test_worker(struct nam_client *client);

/* Memory that children map, too, by its descriptor. */
int test_shared_create(size_t bytes);
void *test_shared_map(int fd, size_t bytes);

/* Of all memory servers, without what waits for readers; *ret_blocks, or NULL: in blocks only. */
uint64_t test_bytes_used(struct nam_worker *worker, const struct cluster *cluster,
	uint64_t *ret_blocks);

#endif /* NAM_TESTS_LIB_CLUSTER_H */
