/* SPDX-License-Identifier: Apache-2.0 */
/* points.h -- race points by name: how often runs come to each, and clients that die there. */
#ifndef NAM_TESTS_SIM_POINTS_H
#define NAM_TESTS_SIM_POINTS_H

#include <stdint.h>

/* Race points that the seed chooses, about one in 16. */
#define SIM_POINTS_ANY "any"

/*
 * Of the simulation that has begun.  At most two clients die in it, each at a race point of
 * `deadly`: names with commas between them, SIM_POINTS_ANY, or NULL for none.  All draws are of
 * streams of their own.  Builds without race points do nothing.
 */
void sim_points_begin(uint64_t seed, const char *deadly);

/* For each race point, of all simulations of this program: "point NAME REACHED DEATHS". */
void sim_points_print(void);

#endif /* NAM_TESTS_SIM_POINTS_H */
