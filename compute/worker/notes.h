/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes.h -- while the memory of a member is copied, which pages of it this client changes (C30).
 *
 * A worker notes the pages of its WRITEs and ATOMICs as it posts them.  The epoch thread takes the
 * notes while the gate of the member is closed and all is quiet, so what was noted has been done.
 */
#ifndef NAM_COMPUTE_WORKER_NOTES_H
#define NAM_COMPUTE_WORKER_NOTES_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/region_table.h"

struct nam_client;
struct nam_qp;
struct nam_worker;
struct nam_wr;

struct nam__notes {
	SLIST_ENTRY(nam__notes) made;	/* client->notes_made */
	uint32_t slot, id;		/* of the member */
	uint32_t region_words;		/* of each region: move_rpc.h */
	uint32_t count;			/* words */
	uint64_t *taken;		/* the epoch thread's: not handed over yet */
	_Atomic uint64_t words[];
};

/*
 * The epoch thread, or a client that joins: from the next turn of the gates on, workers note.  0,
 * -ENOMEM, or -NAM_E_NOREGION: its regions are not known.
 */
int nam__notes_begin(struct nam_client *client, uint32_t slot) NAM_MUST_CHECK;
/* If they are that slot's, they end.  True: they were. */
bool nam__notes_end(struct nam_client *client, uint32_t slot);
/* The client has no workers any more. */
void nam__notes_free(struct nam_client *client);

/* The worker's next posts are noted, or not: a turn of the gates has begun. */
void nam__notes_follow(struct nam_worker *worker);
/* The gate is closed, and all is quiet: move what was noted to `taken`. */
void nam__notes_take(struct nam__notes *notes);


#endif /* NAM_COMPUTE_WORKER_NOTES_H */
