/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stewards.c -- stewards beside clients and memory servers that come.  They die and stall as
 * clients do; the view store is that of the lead.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stage.h"
#include "steward/pass.h"

#define LEASE_MS NAM_RPC_STEWARD_LEASE_MIN_MS
#define PASS_PAUSE_NS 2000000u		/* at the most, as long as messages take no longer */
#define PASSES_LED 8u

/* A term of one life of the lead is of one steward (C29). */
static void
lead(struct sim_actor *actor, uint64_t term, uint64_t lead_boot)
{
	struct sim_stage *stage = actor->stage;

	if (lead_boot != stage->term_boot)
		stage->term = 0;
	stage->term_boot = lead_boot;
	if (term == stage->term && actor->number != stage->term_of)
		sim_fail(stage, "two stewards lead with the term %llu", (unsigned long long)term);
	if (term > stage->term) {
		stage->term = term;
		stage->term_of = actor->number;
		stage->outcome->terms++;
	}
}

/* As an operator would name them: those that are there now. */
static struct nam_cluster *
seeds_read(const struct sim_stage *stage, struct nam_client_options *options)
{
	char list[sizeof(stage->cluster.list)] = "";
	struct nam_cluster *seeds = NULL;
	struct nam_diag diag = { "" };
	size_t length = 0;

	for (uint32_t i = 0; i < stage->cluster.count; i++)
		if (nam_sim_process_alive(stage->cluster.servers[i].process))
			length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
				length ? "," : "", stage->cluster.servers[i].address);
	options->cluster = length ? list : stage->cluster.list;
	if (nam__cluster_read(options, &seeds, &diag))
		sim_die("a steward: %s", diag.text);
	options->cluster = stage->cluster.list;
	return seeds;
}

/* The lead has ended, so seeds_read() left it out, and no other member knew of it before. */
static bool
lead_is_unknown(const struct sim_stage *stage, int rc)
{
	return rc == -NAM_E_CLUSTER && !stage->scenario->failovers &&
		!nam_sim_process_alive(stage->cluster.servers[0].process);
}

void
sim_steward(void *arg)
{
	struct sim_actor *actor = arg;
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_cluster *seeds;
	struct nam__steward steward = { .options = &options };
	struct nam__steward_passed passed;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	steward.store = nam__view_store_embedded(LEASE_MS);
	if (!steward.store)
		sim_die("no memory for a view store");
	while (!stage->leaving && !nam_sim_zombie()) {
		int rc;

		steward.seeds = seeds = seeds_read(stage, &options);
		rc = nam__steward_pass(&steward, &passed, &diag);
		free(seeds);
		if (!rc && passed.term && !nam_sim_zombie())
			lead(actor, passed.term, steward.store->lead_boot);
		/* Clients may have all connections that a peer gets: the next pass tries again. */
		if (rc && rc != -NAM_E_FABRIC_REFUSED && !nam_sim_zombie() &&
			!lead_is_unknown(stage, rc) && !sim_explained(actor, rc))
			sim_fail(stage, "a steward's pass: %s", diag.text);
		/* A lease is longer than most runs, so some give it back. */
		if (nam_sim_random() % PASSES_LED == 0)
			nam__steward_end(&steward);
		nam_sleep_ns((1 + nam_sim_random() % PASS_PAUSE_NS) *
			stage->scenario->sim.slowness);
	}
	nam__steward_end(&steward);
	steward.store->ops->close(steward.store);
}
