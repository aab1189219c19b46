/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env.h"
#include "index/index.h"
#include "index/maintain.h"
#include "memserver/server.h"
#include "txn/records.h"
#include "txn/sweep.h"

#define LEAST_NS 10000000000ull		/* between two passes of one structure */
#define RETRY_FACTOR 10u		/* after a sweep that failed, times as long as it took */
#define CACHE_BYTES (1u << 20)		/* of an index: the way to its leaves */

struct nam__collected {
	char name[64];
	bool is_index;			/* else a record store */
	bool listed;			/* in this round */
	uint64_t last_ns, over_ns;	/* its last pass; 0: none.  Since the one before it */
	uint64_t freed_bytes;		/* by the last pass */
};

/* The state of one round. */
struct round {
	struct nam__collecting *collecting;
	struct nam_worker *worker;
	uint64_t worth_bytes;
	bool are_indexes;		/* that are being listed */
};

/* The results of one pass. */
struct outcome {
	uint64_t looked_at, freed_bytes;
};

bool
nam__collect_due(uint64_t elapsed_ns, uint64_t every_ns, uint64_t freed_bytes, uint64_t over_ns,
	uint64_t worth_bytes)
{
	double expected = over_ns ? (double)freed_bytes * (double)elapsed_ns / (double)over_ns : 0;

	if (elapsed_ns >= every_ns)
		return true;
	return elapsed_ns >= LEAST_NS && expected > 0 && expected >= (double)worth_bytes;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int
on_name(void *arg, const char *name)
{
	struct round *round = arg;
	struct nam__collecting *collecting = round->collecting;
	struct nam__collected *all;

	for (uint32_t i = 0; i < collecting->count; i++) {
		if (collecting->all[i].is_index == round->are_indexes &&
			!strcmp(collecting->all[i].name, name)) {
			collecting->all[i].listed = true;
			return 0;
		}
	}
	all = realloc(collecting->all, (collecting->count + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	collecting->all = all;
	all += collecting->count++;
	*all = (struct nam__collected){ .is_index = round->are_indexes, .listed = true };
	(void)snprintf(all->name, sizeof(all->name), "%s", name);
	return 0;
}

/* Learn the names; stores that have been dropped are forgotten. */
NAM_FIBER_FN static int
names_update(struct round *round)
{
	struct nam__collecting *collecting = round->collecting;
	uint32_t kept = 0;
	int rc;

	for (uint32_t i = 0; i < collecting->count; i++)
		collecting->all[i].listed = false;
	/* Record stores first: their garbage leaves their indexes sparse. */
	round->are_indexes = false;
	rc = nam_records_list(round->worker, on_name, round); /* SUSPENDS */
	round->are_indexes = true;
	if (!rc)
		rc = nam_index_list(round->worker, on_name, round); /* SUSPENDS */
	for (uint32_t i = 0; i < collecting->count && !rc; i++)
		if (collecting->all[i].listed)
			collecting->all[kept++] = collecting->all[i];
	if (!rc)
		collecting->count = kept;
	return rc;
}

/* ---- passes ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
index_pass(struct nam_worker *worker, const char *name, struct outcome *outcome)
{
	struct nam_collect_stat stat = { 0 };
	struct nam_index *index;
	int rc = nam_index_open(worker, name, CACHE_BYTES, &index); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam_index_collect(worker, index, &stat); /* SUSPENDS */
	outcome->looked_at = stat.nodes_visited;
	outcome->freed_bytes = stat.nodes_retired * nam_index_properties(index)->node_bytes;
	nam_index_close(index);
	return rc;
}

NAM_FIBER_FN static int
records_pass(struct nam_worker *worker, const char *name, struct outcome *outcome)
{
	struct nam_records_collected done = { 0 };
	struct nam_records *records;
	int rc = nam_records_open(worker, name, 0, &records); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam_records_collect(worker, records, &done); /* SUSPENDS */
	outcome->looked_at = done.records;
	outcome->freed_bytes = done.bytes;
	nam_records_close(records);
	return rc;
}

static void
log_one(const struct round *round, const struct nam__collected *one, const struct outcome *outcome,
	uint64_t took_ns, int rc)
{
	const struct nam__collecting *collecting = round->collecting;
	const char *why = nam_worker_diag(round->worker);
	char name[2 * sizeof(one->name)], text[512], fields[800];
	int used;

	(void)nam_log_quote(one->name, name, sizeof(name));
	used = snprintf(fields, sizeof(fields), "kind=%s name=%s %s=%" PRIu64 " freed_bytes=%"
		PRIu64 " ms=%" PRIu64, one->is_index ? "index" : "records", name,
		one->is_index ? "nodes" : "records", outcome->looked_at, outcome->freed_bytes,
		took_ns / 1000000u);
	if (rc) {
		(void)nam_log_quote(*why ? why : nam_err_text(rc), text, sizeof(text));
		(void)snprintf(fields + used, sizeof(fields) - (size_t)used, " text=%s", text);
	}
	collecting->event(collecting->arg, rc ? "not_collected" : "collected", fields);
}

/*
 * It may have been dropped meanwhile, or another collector is at work.  A store of tables' rows is
 * left to sweeps, which open the tables.
 */
NAM_FIBER_FN static int
pass(struct round *round, struct nam__collected *one)
{
	uint64_t since = one->last_ns, began = nam_now_ns();
	struct outcome outcome = { 0 };
	int rc = (one->is_index ? index_pass : records_pass)(round->worker, one->name,
		&outcome); /* SUSPENDS */

	if (rc == -ECANCELED || rc == -NAM_E_NOINDEX)
		return rc == -ECANCELED ? rc : 0;
	one->last_ns = nam_now_ns();
	one->over_ns = since ? began - since : round->collecting->every_ns;
	one->freed_bytes = outcome.freed_bytes;
	if (rc != -NAM_E_KIND)
		log_one(round, one, &outcome, one->last_ns - began, rc);
	return 0;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Blocks of dead clients.  A client that is stopped prevents it; then a later round sweeps. */
NAM_FIBER_FN static int
sweep(struct round *round)
{
	struct nam__collecting *collecting = round->collecting;
	struct nam_sweep_stat stat = { 0 };
	uint64_t began = nam_now_ns(), ended, pause_ns;
	char text[512], fields[700];
	int rc;

	if (began < collecting->sweep_due_ns)
		return 0;
	rc = nam_sweep(round->worker, false, &stat); /* SUSPENDS */
	if (rc == -ECANCELED)
		return rc;
	ended = nam_now_ns();
	pause_ns = rc ? RETRY_FACTOR * (ended - began) : UINT64_MAX;
	collecting->sweep_due_ns = ended +
		(pause_ns < collecting->every_ns ? pause_ns : collecting->every_ns);
	if (!rc)
		(void)snprintf(fields, sizeof(fields), "named_blocks=%" PRIu64 " freed_blocks=%"
			PRIu64 " freed_bytes=%" PRIu64 " ms=%" PRIu64, stat.named.blocks,
			stat.freed.blocks, stat.freed.bytes,
			(ended - began) / 1000000u);
	else
		(void)snprintf(fields, sizeof(fields), "text=%s",
			nam_log_quote(nam_worker_diag(round->worker), text, sizeof(text)));
	collecting->event(collecting->arg, rc ? "not_swept" : "swept", fields);
	return 0;
}

/* A memory server that does not answer has no free memory. */
NAM_FIBER_FN static uint64_t
memory_free(struct nam_worker *worker, const struct nam_client *client)
{
	struct nam_server_status status;
	uint64_t bytes = 0;

	for (uint32_t slot = 0; slot < nam_client_servers(client); slot++)
		if (!nam_server_status_get(worker, slot, &status)) /* SUSPENDS */
			bytes += status.memory_bytes - status.carved_bytes + status.free_bytes;
	return bytes;
}

NAM_FIBER_FN static int
round_run(struct round *round, const struct nam_client *client)
{
	struct nam__collecting *collecting = round->collecting;
	int rc = names_update(round); /* SUSPENDS */

	if (!rc)
		round->worth_bytes = memory_free(round->worker, client) / 100 *
			collecting->percent; /* SUSPENDS */
	for (uint32_t i = 0; i < collecting->count && !rc; i++) {
		struct nam__collected *one = &collecting->all[i];

		if (!one->last_ns || nam__collect_due(nam_now_ns() - one->last_ns,
			collecting->every_ns, one->freed_bytes, one->over_ns, round->worth_bytes))
			rc = pass(round, one); /* SUSPENDS */
	}
	return rc ? rc : sweep(round); /* SUSPENDS */
}

int
nam__collect_round(struct nam__collecting *collecting, struct nam_diag *diag)
{
	struct nam_client_options options = *collecting->options;
	struct round round = { .collecting = collecting };
	struct nam_client *client = NULL;
	int rc;

	options.name = "nam-steward, collecting";
	rc = nam_client_connect(&options, &client, diag);
	if (rc)
		return rc;
	rc = nam_worker_open(client, &round.worker, diag);
	if (!rc) {
		nam_worker_stop_when(round.worker, collecting->stop, collecting->stop_arg);
		nam_worker_pace(round.worker, collecting->pace);
		rc = round_run(&round, client); /* SUSPENDS */
		if (rc && rc != -ECANCELED)
			(void)nam_diag_set(diag, rc, "collecting: %s",
				*nam_worker_diag(round.worker) ? nam_worker_diag(round.worker) :
				nam_err_text(rc));
		nam_worker_close(round.worker);
	}
	nam_client_close(client);
	return rc;
}

void
nam__collect_free(struct nam__collecting *collecting)
{
	free(collecting->all);
	collecting->all = NULL;
	collecting->count = 0;
}
