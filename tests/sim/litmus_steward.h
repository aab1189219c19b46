/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_steward.h -- stewards in scenes. */
#ifndef NAM_TESTS_SIM_LITMUS_STEWARD_H
#define NAM_TESTS_SIM_LITMUS_STEWARD_H

#include "litmus.h"
#include "steward/pass.h"

#define LITMUS_STEWARD_PAUSE_NS 5000000u

struct litmus_steward {
	struct nam_client_options options;
	struct nam_cluster *seeds;
	struct nam__steward steward;
	bool told_leads;		/* the last event about that */
};

/* The store on the lead. */
struct nam__view_store *litmus_steward_store(void);
void litmus_steward_begin(struct litmus_steward *party, struct nam__view_store *store);
void litmus_steward_end(struct litmus_steward *party);
struct nam__steward_passed litmus_steward_pass(struct litmus_steward *party);

#endif /* NAM_TESTS_SIM_LITMUS_STEWARD_H */
