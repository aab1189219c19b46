/* SPDX-License-Identifier: Apache-2.0 */
/* move_pages.h -- public memory of a member passes to a successor, in pages that were noted. */
#ifndef NAM_COMPUTE_VIEW_MOVE_MOVE_PAGES_H
#define NAM_COMPUTE_VIEW_MOVE_MOVE_PAGES_H

#include "move_ask.h"

/* Which of the three has failed, for a message. */
enum nam__move_at { NAM__MOVE_AT_LEAD, NAM__MOVE_AT_OLD, NAM__MOVE_AT_NEW };

struct nam__move_pages {
	struct nam_client *lead, *old, *new;	/* each asks its memory server, in slot 0 */
	struct nam_rpc_move_claim claim;	/* of that member */
	uint32_t region_words, count;	/* words of a region; of all */
	uint64_t *words;		/* pages that are to be copied; NULL: nothing is claimed */
	uint64_t left;			/* so many */
	bool all;			/* the next TAKE is of all runs */
	enum nam__move_at at;
};

/*
 * From now on pages of that member are noted, once clients know that they have to.  0, -ENOMEM,
 * -EAGAIN: another mover is at work until the deadline, or as the RPC fails.
 */
NAM_FIBER_FN int nam__move_pages_claim(struct nam__move_pages *pages, uint32_t id,
	uint64_t deadline_ns) NAM_MUST_CHECK;
/*
 * Pages that were noted are to be copied.  At first all are, and again if notes were lost.  0,
 * -NAM_E_CLUSTER: the claim has ended, or as the RPC fails.  Cost: 2 RPCs, and 1 for each 252 words
 * that are not 0.
 */
NAM_FIBER_FN int nam__move_pages_take(struct nam__move_pages *pages) NAM_MUST_CHECK;
/*
 * Copy them.  0, -ENOMEM, or as requests fail.  Cost: 1 READ and 1 WRITE for up to 1 MiB of
 * neighbours.
 *
 * @copied	called with the bytes of each; a failure ends it, and comes back
 */
NAM_FIBER_FN int nam__move_pages_copy(struct nam__move_pages *pages,
	int (*copied)(void *arg, uint32_t bytes), void *arg) NAM_MUST_CHECK;
void nam__move_pages_end(struct nam__move_pages *pages);

#endif /* NAM_COMPUTE_VIEW_MOVE_MOVE_PAGES_H */
