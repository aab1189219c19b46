/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_model.c -- the analytic model of Ziegler et al., section 2.3, tables 1 and 2.
 *
 * What memory servers have to give, divided by what a query takes of it.  A node has P / 3K entries
 * (K = 8), a level's nodes are read as a whole, and a skewed coarse-grained index has one memory
 * server's worth.  Height is rounded up, as in table 1.  It knows neither round trips nor
 * processors, and says nothing of hybrid indexes, of inserts, or of what is cached.
 */
#include <math.h>

#include "figure.h"

#define KEY_BYTES 8.0

double
figure_port_bytes_per_s(const struct nam_sim_network *network)
{
	double ports = network->ports / network->memservers_per_machine;

	return network->port_bytes_per_ns * 1e9 * (ports < 1 ? ports : 1);
}

static double
height(double leaves, double fanout)
{
	double levels = leaves > 1 ? log(leaves) / log(fanout) : 1;

	return ceil(levels - 1e-9);
}

void
figure_model(const struct figure_model_input *input, struct figure_model *ret)
{
	double fanout = input->node_bytes / (3 * KEY_BYTES);
	double leaves = input->keys / fanout, z = input->skewed ? input->amplification : 1;
	bool whole = input->fine || input->skewed;
	double levels = height(whole ? leaves : leaves / input->memservers, fanout);
	double pages;

	if (input->selectivity > 0) {
		/* By hash every memory server is asked. */
		pages = levels * (input->hashed ? input->memservers : 1);
		pages += z * input->selectivity * leaves;
	} else {
		pages = levels + (z > 1 ? z : 0);
	}
	ret->known = true;
	ret->bytes_per_s = input->bytes_per_s *
		(input->skewed && !input->fine ? 1 : input->memservers);
	ret->bytes_per_op = pages * input->node_bytes;
	ret->ops_per_s = ret->bytes_per_s / ret->bytes_per_op;
}
