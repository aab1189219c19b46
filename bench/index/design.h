/* SPDX-License-Identifier: Apache-2.0 */
/* design.h -- an index's design, how it is partitioned, and what each part keeps. */
#ifndef NAM_BENCH_INDEX_DESIGN_H
#define NAM_BENCH_INDEX_DESIGN_H

#include <stdint.h>

#include "common/gaddr.h"
#include "options.h"
#include "bench/load/keys.h"

/* The words for enum nam_index_design and enum nam_partitioning, ended by NULL. */
extern const char *const index_designs[], *const index_partitionings[];

/* "80,12,5,3": each above 0, 100 in all.  0, or -EINVAL with *diag. */
int index_shares_parse(const char *text, struct index_bench_options *o,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Do design, partitioning, shares and the rest fit together?  Settles defaults.  0 or -1. */
int index_design_settle(struct index_bench_options *o) NAM_MUST_CHECK;

/**
 * index_bounds -- where the parts of an index begin that keep shares of the loaded keys.
 *
 * @shares	[parts], in per cent; NULL: all alike
 * @ret_bounds	[parts - 1] keys of keys->key_bytes
 *
 * They ascend, also where there are more parts than keys.
 */
void index_bounds(const struct keys *keys, const double *shares, uint32_t parts,
	uint8_t *ret_bounds);

#endif /* NAM_BENCH_INDEX_DESIGN_H */
