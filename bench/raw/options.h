/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-bench raw. */
#ifndef NAM_BENCH_RAW_OPTIONS_H
#define NAM_BENCH_RAW_OPTIONS_H

#include "run.h"

enum raw_pages {
	RAW_PAGES_2M,
	RAW_PAGES_THP,
	RAW_PAGES_4K,
};

struct raw_options {
	struct bench_options run;
	enum raw_op op;
	enum raw_loop loop;
	uint32_t bytes;
	uint32_t depth;		/* 0: find the best */
	uint64_t memory_bytes;		/* 0: not said */
	enum raw_pages pages;	/* of copies without a cluster */
	bool compare;
};

/* Returns 0, or 1 when the program is to exit with *ret_exit. */
int raw_options_parse(int argc, char **argv, struct raw_options *ret_options, int *ret_exit)
	NAM_MUST_CHECK;

#endif /* NAM_BENCH_RAW_OPTIONS_H */
