/* SPDX-License-Identifier: Apache-2.0 */
/* workload.h -- which operations, in what shares, on which items. */
#ifndef NAM_BENCH_LOAD_WORKLOAD_H
#define NAM_BENCH_LOAD_WORKLOAD_H

#include <stdint.h>

#include "common/env.h"
#include "common/error.h"

/* X(name, text) */
#define WORKLOAD_OPS(X)                                                                             \
	X(LOOKUP, "lookup")                                                                         \
	X(INSERT, "insert")                                                                         \
	X(UPDATE, "update")                                                                         \
	X(UPSERT, "upsert")                                                                         \
	X(DELETE, "delete")                                                                         \
	X(SCAN, "scan")                                                                             \
	X(RMW, "rmw")		/* read, modify, write: a lookup, then an update of the same key */

enum workload_op {
#define WORKLOAD_OP_ENUM(name, text) OP_##name,
	WORKLOAD_OPS(WORKLOAD_OP_ENUM)
#undef WORKLOAD_OP_ENUM
	OPS_COUNT
};

extern const char *const workload_op_names[OPS_COUNT];

enum distribution {
	DISTRIBUTION_UNIFORM,
	DISTRIBUTION_ZIPFIAN,	/* scrambled: hot items lie anywhere */
	DISTRIBUTION_LATEST,	/* what was inserted last is hottest */
};

/* Ended by NULL. */
extern const char *const distribution_names[];

struct workload {
	char name[24];			/* "ycsb-a"; "mix" if given by shares */
	double share[OPS_COUNT];	/* sums up to 1 */
	enum distribution distribution;
	/* A scan covers a share of the key space, or a number of entries. */
	double selectivity;		/* 0: by number */
	uint32_t scan_length;
	int scan_uniform;		/* number uniform in 1 .. scan_length, else exactly that */
};

/* A workload as its paper defines it.  0, or -EINVAL with the known names in *diag. */
int workload_find(const char *name, struct workload *ret_workload,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Shares in any unit: "lookup=95,insert=5".  0, or -EINVAL with the remedy in *diag. */
int workload_parse_mix(const char *text, struct workload *ret_workload,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Operations drawn from the shares: thresholds on 32 random bits, the largest share first. */
struct op_mix {
	uint32_t last[OPS_COUNT];
	uint8_t op[OPS_COUNT];
};

void op_mix_init(struct op_mix *mix, const struct workload *workload);

static inline enum workload_op
op_mix_draw(const struct op_mix *mix, uint32_t random)
{
	unsigned i = 0;

	while (random > mix->last[i])
		i++;
	return (enum workload_op)mix->op[i];
}

#endif /* NAM_BENCH_LOAD_WORKLOAD_H */
