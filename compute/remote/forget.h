/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forget.h -- remote addresses that outlive the operation that learned them.
 *
 * A block changes its stride only after every client has forgotten its address.  The client that
 * wants this begins a generation: it adds NAM_EPOCH_GENERATION to the epoch word.  When an epoch
 * thread reads a word of a new generation, it makes all holders forget.  Then it begins a local
 * epoch with that word as its note.  Operations of that epoch and later ones know no old address.
 * By C8 the client's slot gets the word when all older operations have ended.
 *
 * An older operation may add an address to a holder afterwards.  It must have learned the address
 * from an object in use, not from another holder.  An object that keeps addresses and belongs to
 * one task, like a cursor, compares nam__generation() in each of its operations instead.
 */
#ifndef NAM_COMPUTE_REMOTE_FORGET_H
#define NAM_COMPUTE_REMOTE_FORGET_H

#include <sys/queue.h>

#include "compute/worker/worker.h"

/* A part of each handle that keeps remote addresses. */
struct nam__holder {
	LIST_ENTRY(nam__holder) link;
	/* Makes the handle forget, beside its operations.  Does not wait. */
	void (*forget)(struct nam__holder *holder);
};

void nam__holder_enter(struct nam_client *client, struct nam__holder *holder,
	void (*forget)(struct nam__holder *holder));
/* Does nothing for a holder of zeroes. */
void nam__holder_leave(struct nam_client *client, struct nam__holder *holder);
/* For the epoch thread, which has read a word of a new generation. */
void nam__holders_forget(struct nam_client *client, unsigned generation);

/* Addresses from before it are forgotten.  0: no block has changed its stride yet. */
static inline unsigned
nam__generation(const struct nam_client *client)
{
	return atomic_load_explicit(&client->generation, memory_order_acquire);
}

#endif /* NAM_COMPUTE_REMOTE_FORGET_H */
