/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- the inside of nam-bench compare.
 *
 *	bench.c		set up, find the best depths, take turns, report, clean up
 *	options.c	the command line
 *	ours.c		a memory server, raw READs and lookups
 *	peer.c		a client of memcached or redis
 *	server.c		their processes
 *	protocol.c	what is said to them
 *	child.c		processes that end with us
 *	report.c		table and JSON
 */
#ifndef NAM_BENCH_COMPARE_COMPARE_H
#define NAM_BENCH_COMPARE_COMPARE_H

#include "bench/compare/options.h"
#include "peer.h"
#include "bench/index/bench.h"
#include "bench/raw/run.h"

#define COMPARE_ROUNDS 9u	/* short ones: moods of a shared machine last longer */
#define COMPARE_PEERS 4u	/* memcached and redis, over each transport */
#define COMPARE_DEPTHS_MAX 10u
#define COMPARE_CONTENDERS_MAX (4 * COMPARE_FABRICS_MAX + COMPARE_PEERS)
#define COMPARE_BATCH 64u	/* keys of a call that looks up many */
#define COMPARE_FIBERS_MAX 256u

enum contender_kind {
	CONTENDER_RAW,			/* READs of a node, each replaced when it is done */
	CONTENDER_RAW_FIBERS,		/* by fibers, which some fabrics like better */
	CONTENDER_LOOKUPS,		/* each fiber a lookup at a time */
	CONTENDER_BATCHES,		/* ... or a call with many keys */
	CONTENDER_PEER,
};

/* Our own side, over one fabric. */
struct ours {
	const char *fabric, *cluster;
	struct child server;		/* pid 0: started elsewhere */
	char address[CHILD_FOLDER_BYTES + 48];
	struct index_bench *index;
	struct blocks blocks;		/* as much memory as the index has */
	struct raw_result *raw;
};

/* The contenders. */
struct contender {
	enum contender_kind kind;
	struct ours *ours;		/* or */
	struct peer *peer;
	const uint32_t *depths;		/* that are tried */
	unsigned depths_count;
	double depth_rates[COMPARE_DEPTHS_MAX];
	uint32_t depth;			/* the best one */
	double rates[COMPARE_ROUNDS];
	double best, median;
	struct turn sum;		/* of all rounds */
};

struct compare {
	struct compare_options options;
	char folder[CHILD_FOLDER_BYTES];
	struct ours ours[COMPARE_FABRICS_MAX];
	unsigned ours_count;
	struct peer peers[COMPARE_PEERS];
	unsigned peers_count;
	struct contender contenders[COMPARE_CONTENDERS_MAX];
	unsigned contenders_count;
	unsigned turns, turns_done;	/* for the progress line */
	struct turn turn;		/* the last one */
	struct findings findings;	/* of peers */
};

/* ---- ours.c ------------------------------------------------------------------------------- */

/* Start a memory server at an address of its fabric.  Complains itself; an exit code. */
int ours_serve(struct compare *compare, struct ours *ours) NAM_MUST_CHECK;

/* Connect, load the index, warm it, and get memory for READs.  Complains; an exit code. */
int ours_set_up(struct compare *compare, struct ours *ours) NAM_MUST_CHECK;

/* Also after any of these has failed. */
void ours_tear_down(struct ours *ours);

/* One turn, of raw READs or of lookups.  0 or what failed, which is printed. */
int ours_turn(struct contender *contender, uint32_t depth, double seconds, uint64_t seed,
	struct turn *ret_turn) NAM_MUST_CHECK;

/* ---- report.c ----------------------------------------------------------------------------- */

/* The results over this fabric. */
struct comparison {
	const struct contender *raw, *lookups;	/* of each the quicker kind */
};

struct comparison compare_over(const struct compare *compare, const struct ours *ours);

/* How many times as quick one is as another: the median of the rounds. */
double compare_ratio(const struct contender *one, const struct contender *other);

uint64_t compare_errors(const struct compare *compare);

/* 0 or a negative code, printed. */
int compare_report(const struct compare *compare) NAM_MUST_CHECK;

#endif /* NAM_BENCH_COMPARE_COMPARE_H */
