/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.c -- how long a message takes where no network says (then nic.c does).
 *
 * Times are drawn so that everything meets everything: mostly the microseconds of a real network,
 * sometimes long enough that many other operations pass between two steps.
 */
#include "sim_internal.h"

#define WAY_NS 300u		/* to the memory server */
#define WAY_SPREAD_NS 512u	/* powers of two: bits of one random word */
#define SLOW_ONE_IN 16u
#define SLOW_SPREAD_NS 8192u
#define STEP_SPREAD_NS 16u
#define CRAWL_ONE_IN 32u
#define CRAWL_STEP_NS 500u
#define ANSWER_NS 200u
#define ANSWER_SPREAD_NS 256u

void
nam__sim_cost(struct sim_message *message, const struct nam_sim_process *process,
	uint32_t slowness)
{
	struct sim *sim = &nam__sim;
	uint64_t dice, way, late_ns = 0;

	message->step_ns = 0;
	if (sim->options.network)
		return;
	dice = nam_rng_next(&sim->chance);
	way = WAY_NS + dice % WAY_SPREAD_NS;
	dice >>= 9;
	if (dice % SLOW_ONE_IN == 0)
		way += (dice >> 4) % SLOW_SPREAD_NS;
	dice >>= 17;
	message->step_ns = (uint32_t)(dice % STEP_SPREAD_NS);
	dice >>= 4;
	if (dice % CRAWL_ONE_IN == 0)
		message->step_ns = CRAWL_STEP_NS;
	dice >>= 5;
	message->answer_ns = ANSWER_NS + (uint32_t)(dice % ANSWER_SPREAD_NS);
	slowness *= sim->options.slowness;
	way *= slowness;
	message->step_ns *= slowness;
	message->answer_ns *= slowness;
	if (nam__sim_drawn(process, sim->options.faults.late)) {
		late_ns = nam_rng_below(&sim->faults, sim->options.faults.late_ns + 1);
		SIM_EVENT(SIM_WHAT_FAULT, message->id, late_ns,
			"fault late: m%llu %s sets out %llu ns late",
			(unsigned long long)message->id, nam__sim_op_name(message->op),
			(unsigned long long)late_ns);
	}
	message->earliest_ns = nam__sim_here() + way + late_ns;
}
