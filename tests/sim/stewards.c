/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stewards.c -- stewards beside clients and memory servers that come.  They die and stall as
 * clients do; the view store is that of the lead.
 */
#include <stdlib.h>

#include "stage.h"
#include "steward/pass.h"

#define LEASE_MS NAM_RPC_STEWARD_LEASE_MIN_MS
#define PASS_PAUSE_NS 2000000u		/* at the most, as long as messages take no longer */
#define PASSES_LED 8u

/* A term is of one steward (C29). */
static void
lead(struct sim_actor *actor, uint64_t term)
{
	struct sim_stage *stage = actor->stage;

	if (term == stage->term && actor->number != stage->term_of)
		sim_fail(stage, "two stewards lead with the term %llu", (unsigned long long)term);
	if (term > stage->term) {
		stage->term = term;
		stage->term_of = actor->number;
		stage->outcome->terms++;
	}
}

void
sim_steward(void *arg)
{
	struct sim_actor *actor = arg;
	struct sim_stage *stage = actor->stage;
	struct nam_client_options options;
	struct nam_cluster *seeds = NULL;
	struct nam__steward steward = { .options = &options };
	struct nam__steward_passed passed;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = stage->cluster.list;
	steward.store = nam__view_store_embedded(LEASE_MS);
	if (!steward.store || nam__cluster_read(&options, &seeds, &diag))
		sim_die("a steward: %s", diag.text);
	steward.seeds = seeds;
	while (!stage->leaving && !nam_sim_zombie()) {
		int rc = nam__steward_pass(&steward, &passed, &diag);

		if (!rc && passed.term && !nam_sim_zombie())
			lead(actor, passed.term);
		/* Clients may have all connections that a peer gets: the next pass tries again. */
		if (rc && rc != -NAM_E_FABRIC_REFUSED && !nam_sim_zombie() &&
			!sim_explained(actor, rc))
			sim_fail(stage, "a steward's pass: %s", diag.text);
		/* A lease is longer than most runs, so some give it back. */
		if (nam_sim_random() % PASSES_LED == 0)
			nam__steward_end(&steward);
		nam_sleep_ns((1 + nam_sim_random() % PASS_PAUSE_NS) *
			stage->scenario->sim.slowness);
	}
	nam__steward_end(&steward);
	steward.store->ops->close(steward.store);
	free(seeds);
}
