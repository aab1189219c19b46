/* SPDX-License-Identifier: Apache-2.0 */
/* move_internal.h -- what passes to a successor or a backup (server_move.c), part by part. */
#ifndef NAM_COMPUTE_VIEW_MOVE_MOVE_INTERNAL_H
#define NAM_COMPUTE_VIEW_MOVE_MOVE_INTERNAL_H

#include "common/rpc/books_rpc.h"
#include "common/rpc/move_rpc.h"
#include "compute/worker/worker.h"

/* ---- move_call.c ----------------------------------------------------------------------------- */

/*
 * @client		asks a memory server, which has slot 0
 * @page, page_bytes	of the request; up to NAM_RPC_MOVE_PAGE_BYTES
 * @deadline_ns		-EAGAIN before that: it is asked once more; 0: it is not
 * @reply		NULL: it has no page, and is of no interest
 * @ret_bytes		in: room in *reply; out: the reply's
 *
 * 0, -ENOMEM, or as the step fails.
 */
NAM_FIBER_FN int nam__move_call(struct nam_client *client, enum nam_rpc_move_step step, uint64_t at,
	const void *page, uint32_t page_bytes, uint64_t deadline_ns,
	struct nam_rpc_move_reply *reply, uint32_t *ret_bytes) NAM_MUST_CHECK;

/* ---- move_pages.c --------------------------------------------------------------------------- */

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

/* ---- move_store.c --------------------------------------------------------------------------- */

/*
 * @old, @new	the memory server and its successor have slot 0
 * @bytes	is set to what is done so far, again and again
 *
 * 0, -NAM_E_FABRIC_TIMEOUT at the deadline, or as PEEK and POKE.  Cost: 1 RPC to each of both for
 * each 4 KiB, 16 at once.
 */
NAM_FIBER_FN int nam__store_move(struct nam_worker *old, struct nam_worker *new,
	const struct nam_move_store *store, uint64_t deadline_ns, uint64_t *bytes) NAM_MUST_CHECK;

/* ---- move_trees.c --------------------------------------------------------------------------- */

/*
 * @old, @new	the memory server and its successor have slot 0
 * @books	of the old one
 * @bytes	grows by what is done
 *
 * 0, -ENOMEM, -NAM_E_FABRIC_TIMEOUT at the deadline, or as TREE_SCAN and TREE_LOAD.  Cost: 1 RPC to
 * each of both for each 4 KiB.
 */
NAM_FIBER_FN int nam__trees_move(struct nam_worker *old, struct nam_worker *new,
	const struct nam_move_head *books, uint64_t deadline_ns, uint64_t *bytes) NAM_MUST_CHECK;

/* ---- lead_move.c ---------------------------------------------------------------------------- */

/* -NAM_E_UNMOVABLE: the lead has trees or key-value stores. */
int nam__lead_unmovable(struct nam_diag *diag);

/* ---- backup_books.c ------------------------------------------------------------------------- */

/*
 * A copy on the heap, of books that are whole.  All memory is public, and all blocks are used, by
 * clients that are not known: the backup does not hear of blocks that come back.  It has no trees
 * and no stores: these keep one copy.  0, or -ENOMEM.
 */
int nam__backup_books(const uint8_t *books, uint8_t **ret_books,
	uint64_t *ret_bytes) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_MOVE_INTERNAL_H */
