/* SPDX-License-Identifier: Apache-2.0 */
/* figure_ramp.c -- what is particular to figures of transactions. */
#include "figure.h"

#define READ_RATIO 95.0		/* the paper's, where it is not x */

const struct figure_ramp_line figure_ramp_lines[FIGURE_RAMP_LINES] = {
	{ "sockets", "fast", "message", true },
	{ "message", "fast", "message", false },
	{ "plus", "fast", "plus", false },
	{ "star", "fast", "star", false },
	{ "onesided", "fast", "onesided", false },
	{ "2pl-sockets", "2pl", "message", true },
};

bool
figure_over_sockets(const struct figure_point *point)
{
	return point->figure->kind == FIGURE_TRANSACTIONS &&
		figure_ramp_lines[point->design].sockets;
}

const struct nam_sim_network *
figure_network(const struct figure_options *o, const struct figure_point *point)
{
	return figure_over_sockets(point) ? &o->sockets : &o->network;
}

unsigned
figure_transaction_size(const struct figure_point *point)
{
	return point->figure->x == X_TRANSACTION_SIZE ? (unsigned)point->x :
		point->figure->transaction_size;
}

double
figure_read_ratio(const struct figure_point *point)
{
	return point->figure->x == X_READ_RATIO ? point->x : READ_RATIO;
}

double
figure_against_sockets(const struct figure_points *points, const struct figure_point *point)
{
	for (size_t i = 0; i < points->count; i++) {
		const struct figure_point *sockets = &points->points[i];

		if (figure_over_sockets(sockets) && sockets->design == FIGURE_SOCKETS &&
			sockets->which == point->which && sockets->x == point->x && sockets->done)
			return point->result.ops_per_s / sockets->result.ops_per_s;
	}
	return 0;
}
