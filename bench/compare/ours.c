/* SPDX-License-Identifier: Apache-2.0 */
/* ours.c -- a memory server, and what one thread gets out of it: raw READs and lookups. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "compare.h"
#include "bench/raw/bench.h"

#define READY_PAUSE_MS 100
#define READY_TRIES 600u	/* a minute, for much memory may have to be found */
#define START_TRIES 3u		/* another process may take the port in between */
#define PAIR_BYTES 64u		/* in the index, in blocks of the same size, and room to spare */
#define MEMORY_BYTES_MIN (64ull << 20)
#define REGION_BYTES_MAX (1ull << 30)

/* ---- a memory server ---------------------------------------------------------------------- */

/* At a socket, or at a port of this host. */
static int
choose_address(const struct compare *compare, struct ours *ours)
{
	int port;

	if (!strcmp(ours->fabric, "shm")) {
		snprintf(ours->address, sizeof(ours->address), "shm:%s/memserver",
			compare->folder);
		return 0;
	}
	port = child_free_port();
	if (port < 0)
		return port;
	snprintf(ours->address, sizeof(ours->address), "%s:127.0.0.1:%d", ours->fabric, port);
	return 0;
}

static void
say_memserver(const struct compare *compare, const struct ours *ours, struct child_args *args)
{
	uint64_t bytes = MEMORY_BYTES_MIN + compare->options.keys * PAIR_BYTES;
	uint64_t region;

	bytes = (bytes + (1u << 20) - 1) & ~((1ull << 20) - 1);
	region = bytes < REGION_BYTES_MAX ? bytes : REGION_BYTES_MAX;
	child_say(args, "nam-memserver");
	child_say(args, "--listen");
	child_say(args, "%s", ours->address);
	child_say(args, "--memory");
	child_say(args, "%" PRIu64, bytes);
	child_say(args, "--region");
	child_say(args, "%" PRIu64, region);
	child_say(args, "--rpc-threads");
	child_say(args, "1");
	child_say(args, "--ready-fd");
	child_say(args, "3");
}

/* Until it has said that it is ready.  0; -ECHILD if it has ended; -EINTR; -ETIMEDOUT. */
static int
await_ready(struct ours *ours, int ready_fd)
{
	struct pollfd wait = { .fd = ready_fd, .events = POLLIN };

	for (unsigned i = 0; i < READY_TRIES; i++) {
		int ready = poll(&wait, 1, READY_PAUSE_MS);

		if (bench_signal)
			return -EINTR;
		if (ready > 0 && (wait.revents & POLLIN))
			return 0;
		if (!child_lives(&ours->server))
			return -ECHILD;
	}
	return -ETIMEDOUT;
}

static int
serve_once(const struct compare *compare, struct ours *ours, const char *program)
{
	struct child_args args = { 0 };
	char name[CHILD_NAME_BYTES];
	int fds[2], rc = choose_address(compare, ours);

	if (rc)
		return rc;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	snprintf(name, sizeof(name), "memserver-%s", ours->fabric);
	say_memserver(compare, ours, &args);
	rc = child_start(&ours->server, program, &args, compare->folder, name, fds[1]);
	close(fds[1]);
	if (!rc)
		rc = await_ready(ours, fds[0]);
	close(fds[0]);
	return rc;
}

int
ours_serve(struct compare *compare, struct ours *ours)
{
	char program[PATH_MAX], words[256];
	int rc = -ECHILD;

	if (!child_find("nam-memserver", true, program)) {
		bench_complain("there is no nam-memserver beside this program or in PATH; start "
			"one, and say --cluster");
		return NAM_EXIT_NO;
	}
	for (unsigned i = 0; i < START_TRIES && rc == -ECHILD; i++)
		rc = serve_once(compare, ours, program);
	if (!rc) {
		ours->cluster = ours->address;
		return NAM_EXIT_OK;
	}
	if (rc == -EINTR)
		return NAM_EXIT_SIGNAL + bench_signal;
	child_last_words(&ours->server, words, sizeof(words));
	bench_complain("%s over %s did not get ready: %s", program, ours->fabric,
		rc != -ECHILD ? strerror(-rc) : *words ? words : "it ended at once");
	return NAM_EXIT_REMOTE;
}

/* ---- setting up --------------------------------------------------------------------------- */

/* READs find as much memory as lookups do, so that caches of the processor help both alike. */
static int
take_blocks(struct ours *ours)
{
	struct index_bench *index = ours->index;
	struct nam_worker *worker = index_worker(index);
	struct nam_diag diag = { "" };
	struct nam_index_stat stat;
	int rc = nam_index_stat(worker, index->index, &stat); /* SUSPENDS */

	if (rc)
		return bench_failed("the index's figures", rc, nam_worker_diag(worker));
	rc = blocks_alloc(worker, nam_client_servers(index->client),
		index->options.index.node_bytes, stat.remote_bytes, &ours->blocks, &diag);
	if (rc)
		return bench_failed("memory for raw READs", rc, diag.text);
	rc = raw_blocks_fill(index->pool, &ours->blocks, &index->findings);
	return rc ? bench_failed("filling memory for raw READs", rc, NULL) : NAM_EXIT_OK;
}

int
ours_set_up(struct compare *compare, struct ours *ours)
{
	struct index_bench_options *o;
	struct nam_diag diag;
	int exit_code, rc;

	ours->raw = malloc(sizeof(*ours->raw));
	ours->index = calloc(1, sizeof(*ours->index));
	if (!ours->raw || !ours->index)
		return bench_failed("starting", -ENOMEM, NULL);
	o = &ours->index->options;
	index_options_init(o);
	rc = workload_find("nam-a", &o->workload, &diag);
	if (rc)
		return bench_failed("starting", rc, diag.text);
	o->clients = 1;
	o->cluster = ours->cluster;
	o->keys = compare->options.keys;
	o->seed = compare->options.seed;
	o->fibers = COMPARE_FIBERS_MAX;
	exit_code = index_set_up(ours->index);
	if (exit_code)
		return exit_code;
	ours->fabric = nam_client_fabric(ours->index->client);
	rc = index_load(ours->index);
	/* Errors were printed where they happened. */
	if (rc && !bench_signal)
		return nam_exit_code(rc);
	if (!bench_signal)
		index_warm(ours->index);
	if (bench_signal)
		return NAM_EXIT_SIGNAL + bench_signal;
	if (ours->index->findings.fatal)
		return nam_exit_code(ours->index->findings.fatal);
	return take_blocks(ours);
}

void
ours_tear_down(struct ours *ours)
{
	if (ours->blocks.all)
		blocks_free(&ours->blocks);
	if (ours->index)
		index_tear_down(ours->index);
	free(ours->index);
	free(ours->raw);
	child_end(&ours->server);
}

/* ---- turns -------------------------------------------------------------------------------- */

static int
raw_turn(struct ours *ours, enum raw_loop loop, uint32_t depth, double seconds, uint64_t seed,
	struct turn *turn)
{
	struct index_bench *index = ours->index;
	struct raw_spec spec = {
		.op = RAW_READ,
		.loop = loop,
		.bytes = ours->blocks.bytes,
		.depth = depth,
		.blocks = &ours->blocks,
		.seed = seed,
		.findings = &index->findings,
	};
	int rc = raw_run(index->pool, &spec, 0, seconds, ours->raw);

	if (rc) {
		bench_failed("raw READs", rc, NULL);
		return rc;
	}
	turn->ops = ours->raw->ops;
	turn->seconds = ours->raw->seconds;
	turn->latency = ours->raw->latency;
	return index->findings.fatal;
}

static int
lookups_turn(struct ours *ours, uint32_t fibers, uint32_t batch, double seconds,
	struct turn *turn)
{
	struct index_bench *index = ours->index;

	index->options.fibers = fibers;
	index->options.batch = batch;
	memset(index->result, 0, sizeof(*index->result));
	index_run(index, 0, seconds);
	turn->ops = index->result->ops;
	turn->seconds = index->result->seconds;
	turn->latency = index->result->all;
	return index->findings.fatal;
}

int
ours_turn(struct contender *contender, uint32_t depth, double seconds, uint64_t seed,
	struct turn *ret_turn)
{
	struct ours *ours = contender->ours;
	int rc;

	switch (contender->kind) {
	case CONTENDER_RAW:
		rc = raw_turn(ours, RAW_WINDOW, depth, seconds, seed, ret_turn);
		break;
	case CONTENDER_RAW_FIBERS:
		rc = raw_turn(ours, RAW_FIBERS, depth, seconds, seed, ret_turn);
		break;
	case CONTENDER_LOOKUPS:
		rc = lookups_turn(ours, depth, 1, seconds, ret_turn);
		break;
	default:
		rc = lookups_turn(ours, depth, COMPARE_BATCH, seconds, ret_turn);
		break;
	}
	return !rc && bench_signal ? -EINTR : rc;
}
