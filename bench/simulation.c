/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "common/rpc/records_rpc.h"
#include "common/rpc/tree_rpc.h"
#include "memserver/server.h"
#include "bench.h"
#include "progress.h"
#include "ticks.h"

#define PREFIX "sim:"
#define ADDRESS_BYTES 24u
#define AWAIT_NS 100000u
#define LOOK_NS 50000000u		/* between two looks of a steward at processes */
#define LOOKS_MAX 100u
/* Address space, not memory: unwritten pages take none. */
#define MEMORY_BYTES (8ull << 30)

struct memserver {
	struct simulation *simulation;
	struct nam_server *server;	/* NULL before it is ready and after it has ended */
	struct nam_sim_process *process;
	unsigned id;
	bool successor;
	bool failed;
	char address[ADDRESS_BYTES];
};

struct simulation {
	struct nam_sim_network network;
	struct memserver memservers[SIMULATION_MEMSERVERS_MAX];
	unsigned count;
	unsigned machines;		/* of memory servers: those of clients come after them */
	bool colocate, symmetric;
	uint32_t levels;		/* of a tree, that a memory server searches */
	char cluster[SIMULATION_MEMSERVERS_MAX * ADDRESS_BYTES];
	int (*fn)(void *arg, struct simulation *simulation);
	void *arg;
	int exit_code;
};

bool
simulation_wanted(const char *cluster)
{
	return cluster && !strncmp(cluster, PREFIX, strlen(PREFIX));
}

const char *
simulation_cluster(const struct simulation *simulation)
{
	return simulation->cluster;
}

const struct nam_sim_network *
simulation_network(const struct simulation *simulation)
{
	return &simulation->network;
}

/* ---- memory servers ----------------------------------------------------------------------- */

static void
memserver_main(void *arg)
{
	struct memserver *self = arg;
	struct nam_server_options options;
	struct nam_server *server;
	struct nam_diag diag = { "" };
	int rc;

	nam_server_options_init(&options);
	options.listen = self->address;
	options.id = self->id;
	options.successor = self->successor;
	options.memory_bytes = MEMORY_BYTES;
	options.pages = NAM_PAGES_4K;
	options.rpc_threads = (uint32_t)self->simulation->network.rpc_threads;
	options.htm = NAM_HTM_OFF;
	rc = nam_server_start(&options, &server, NULL, &diag);
	if (rc) {
		self->failed = true;
		(void)bench_failed(self->address, rc, diag.text);
		return;
	}
	self->server = server;
	rc = nam_server_run(server);
	self->server = NULL;
	if (rc)
		(void)bench_failed(self->address, rc, NULL);
	nam_server_destroy(server);
}

/* @place	its machine is that of the memory server which was started as that one */
static int
memserver_start(struct simulation *simulation, unsigned id, bool successor, unsigned place)
{
	unsigned each = (unsigned)simulation->network.memservers_per_machine;
	unsigned i = simulation->count;
	struct memserver *memserver = &simulation->memservers[i];
	int rc;

	if (i == SIMULATION_MEMSERVERS_MAX)
		return -NAM_E_LIMIT;
	memserver->simulation = simulation;
	memserver->id = id;
	memserver->successor = successor;
	(void)snprintf(memserver->address, ADDRESS_BYTES, PREFIX "memserver%u", i);
	rc = nam_sim_process_start(memserver->address + strlen(PREFIX), memserver_main, memserver,
		&memserver->process);
	if (rc)
		return rc;
	nam_sim_process_place(memserver->process, place / each);
	if (simulation->symmetric)
		nam_sim_process_borrow(memserver->process);
	simulation->count++;
	return 0;
}

/* @most	with those that come later */
static int
memservers_start(struct simulation *simulation, unsigned count, unsigned most)
{
	unsigned each = (unsigned)simulation->network.memservers_per_machine;
	char *list = simulation->cluster;

	for (unsigned i = 0; i < count; i++) {
		int rc = memserver_start(simulation, i, false, i);

		if (rc)
			return rc;
		list += sprintf(list, "%s%s", i ? "," : "", simulation->memservers[i].address);
	}
	if (most < count)
		most = count;
	simulation->machines = (most + each - 1) / each;
	return 0;
}

/* Until it listens; false if it cannot. */
static bool
memserver_await(const struct memserver *memserver)
{
	while (!memserver->server && !memserver->failed)
		nam_sleep_ns(AWAIT_NS);
	return !memserver->failed;
}

/*
 * It listens then.  A backup is on the machine behind its member's, or on the one where the member
 * was before its first backup got the place.
 */
static int
start_another(struct simulation *simulation, unsigned id, bool successor,
	struct nam_diag *ret_diag)
{
	unsigned each = (unsigned)simulation->network.memservers_per_machine;
	const struct memserver *memserver = &simulation->memservers[simulation->count];
	bool behind = successor && simulation->memservers[id].server;
	int rc = memserver_start(simulation, id, successor, behind ?
		(id + each) % (simulation->machines * each) : id);

	return !rc && memserver_await(memserver) ? 0 : nam_diag_set(ret_diag,
		rc ?: -NAM_E_FABRIC_CONNECT, "another memory server could not be started");
}

static struct nam_client_options
client_options(const struct simulation *simulation)
{
	struct nam_client_options options;

	nam_client_options_init(&options);
	options.cluster = simulation->cluster;
	return options;
}

int
simulation_grow(struct simulation *simulation, struct nam_diag *ret_diag)
{
	const struct memserver *memserver = &simulation->memservers[simulation->count];
	const struct nam_client_options options = client_options(simulation);
	struct nam_server_added added;
	int rc = start_another(simulation, simulation->count, false, ret_diag);

	if (rc)
		return rc;
	return nam_server_add(&options, memserver->address, NULL, NULL, &added, ret_diag);
}

/* ---- backups ------------------------------------------------------------------------------- */

int
simulation_back(struct simulation *simulation, unsigned id, struct nam_diag *ret_diag)
{
	const struct memserver *memserver = &simulation->memservers[simulation->count];
	const struct nam_client_options options = client_options(simulation);
	struct nam_server_moved moved;
	int rc = start_another(simulation, id, true, ret_diag);

	if (rc)
		return rc;
	return nam_server_back(&options, memserver->address, NULL, NULL, &moved, ret_diag);
}

int
simulation_fail(struct simulation *simulation, unsigned id, struct nam_diag *ret_diag)
{
	struct memserver *memserver = &simulation->memservers[id];
	const struct nam_client_options options = client_options(simulation);
	int rc = -EAGAIN;

	nam_sim_process_kill(memserver->process);
	memserver->server = NULL;
	for (unsigned i = 0; i < LOOKS_MAX && rc; i++) {
		nam_sleep_ns(LOOK_NS);
		rc = nam_server_promote(&options, id, ret_diag);
	}
	return rc;
}

void
simulation_levels(struct simulation *simulation, uint32_t levels)
{
	simulation->levels = levels;
}

/* A reply that got records has for each of them this, and behind it its version if there. */
static unsigned
records_got(const uint8_t *body, uint32_t bytes)
{
	struct nam_rpc_records_got got;
	unsigned count = 0;

	for (uint32_t at = 0; at + sizeof(got) <= bytes; count++) {
		memcpy(&got, body + at, sizeof(got));
		at += (uint32_t)sizeof(got) + got.image_bytes;
	}
	return count;
}

/*
 * A memory server's work for a reply, beyond what each request takes: trees searched, pairs copied,
 * records found or prepared.  A record is as a node of a tree: it waits for memory that is not in a
 * cache.  Other replies about records do not say of how many they are.
 */
static uint64_t
serve_ns(void *arg, const void *message, uint32_t bytes)
{
	const struct simulation *simulation = arg;
	const struct nam_sim_network *network = &simulation->network;
	const struct nam_rpc_header *header = message;
	const void *body = header + 1;
	double search_ns = simulation->levels * network->node_ns;

	if (bytes < sizeof(*header) || header->status || !header->body_bytes)
		return 0;
	switch (header->type) {
	case NAM_RPC_TREE_POINT: {
		const struct nam_rpc_tree_point_reply *reply = body;

		return (uint64_t)((double)reply->count * search_ns);
	}
	case NAM_RPC_TREE_SCAN: {
		const struct nam_rpc_tree_scan_reply *reply = body;

		return (uint64_t)(search_ns + reply->count * network->pair_ns);
	}
	case NAM_RPC_TREE_FLOOR: {
		const struct nam_rpc_tree_floor_reply *reply = body;

		return (uint64_t)(search_ns + reply->count * network->pair_ns);
	}
	case NAM_RPC_RECORDS_GET:
		return (uint64_t)(records_got(body, header->body_bytes) * network->node_ns);
	case NAM_RPC_LOCKING_READ:
		return header->body_bytes < sizeof(struct nam_rpc_locking_reply) ? 0 :
			(uint64_t)(records_got((const uint8_t *)body +
				sizeof(struct nam_rpc_locking_reply), header->body_bytes -
				(uint32_t)sizeof(struct nam_rpc_locking_reply)) * network->node_ns);
	case NAM_RPC_RECORDS_PREPARE:
		return (uint64_t)(header->body_bytes / sizeof(uint64_t) * network->node_ns);
	default:
		return 0;
	}
}

/* ---- clients ------------------------------------------------------------------------------ */

int
simulation_client(struct simulation *simulation, unsigned number, nam_thread_fn fn, void *arg)
{
	unsigned each = (unsigned)simulation->network.clients_per_machine;
	struct nam_sim_process *process;
	char name[24];
	int rc;

	(void)snprintf(name, sizeof(name), "client%u", number);
	rc = nam_sim_process_start(name, fn, arg, &process);
	if (!rc)
		nam_sim_process_place(process, simulation->colocate
				? number % simulation->machines
				: simulation->machines + number / each);
	return rc;
}

static void
first_main(void *arg)
{
	struct simulation *simulation = arg;
	unsigned ready = 0;

	while (ready < simulation->count && memserver_await(&simulation->memservers[ready]))
		ready++;
	simulation->exit_code = NAM_EXIT_REMOTE;
	if (ready == simulation->count)
		simulation->exit_code = simulation->fn(simulation->arg, simulation);
	for (unsigned i = 0; i < simulation->count; i++)
		if (simulation->memservers[i].server)
			nam_server_stop(simulation->memservers[i].server);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
run(struct simulation *simulation, const struct bench_options *o)
{
	struct nam_sim_options options;
	int rc;

	nam_sim_options_init(&options);
	options.seed = o->seed;
	options.network = &simulation->network;
	options.profile = simulation->network.strict > 0 ? NAM_SIM_STRICT : NAM_SIM_VERBS;
	options.limit_ns = UINT64_MAX / 2;
	options.serve_ns = serve_ns;
	options.serve_arg = simulation;
	rc = nam_sim_begin(&options);
	if (rc)
		return bench_failed("the simulation", rc, NULL);
	rc = memservers_start(simulation, o->memservers, o->memservers_most);
	if (!rc)
		rc = simulation_client(simulation, 0, first_main, simulation);
	if (!rc)
		rc = nam_sim_run();
	if (rc)
		simulation->exit_code = bench_failed("the simulation", rc, NULL);
	nam_sim_end();
	return simulation->exit_code;
}

int
simulation_run(const struct bench_options *options,
	int (*fn)(void *arg, struct simulation *simulation), void *arg)
{
	bool wanted = simulation_wanted(options->cluster);
	struct simulation *simulation;
	struct nam_diag diag = { "" };
	int exit_code = NAM_EXIT_USAGE;

	bench_catch_signals();
	/* Simulated time is not that of ticks and of progress. */
	progress_init(options->quiet || wanted);
	if (!wanted) {
		ticks_init();
		return fn(arg, NULL);
	}
	simulation = calloc(1, sizeof(*simulation));
	if (!simulation)
		return bench_failed("the simulation", -ENOMEM, NULL);
	simulation->fn = fn;
	simulation->arg = arg;
	simulation->symmetric = options->symmetric;
	simulation->colocate = options->colocate || options->symmetric;
	if (nam_sim_network_read(options->cluster + strlen(PREFIX), &simulation->network, &diag)) {
		bench_complain("--cluster %s: %s", options->cluster, diag.text);
	} else {
		if (options->rpc_threads)
			simulation->network.rpc_threads = options->rpc_threads;
		exit_code = run(simulation, options);
	}
	free(simulation);
	return exit_code;
}
