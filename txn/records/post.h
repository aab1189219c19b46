/* SPDX-License-Identifier: Apache-2.0 */
/*
 * post.h -- requests about several records, packed into messages to their memory servers.
 *
 * Each message takes as many records as fit; all messages of a post are in flight at once.
 */
#ifndef NAM_TXN_RECORDS_POST_H
#define NAM_TXN_RECORDS_POST_H

#include "common/rpc/locking_rpc.h"
#include "compute/worker/worker.h"
#include "txn_internal.h"

/* A message, and the numbers of its records. */
struct nam__bundle {
	uint8_t *body, *reply;
	uint8_t items[NAM_RPC_RECORDS_MAX];
	uint32_t count;
};

/* Lies in a buffer of the worker's. */
struct nam__post {
	struct nam_worker *worker;
	uint16_t type;			/* of all messages, */
	uint32_t head_bytes;		/* and of the header of each */
	struct nam_rpc_locking_request head;	/* without locks: only its beginning */
	int rc;				/* the first failure of nam__post_add() */
	uint32_t count;
	struct nam_call calls[NAM_CALLS_MAX];
	struct nam__bundle bundles[NAM_CALLS_MAX];
};
_Static_assert(NAM_CALLS_MAX >= NAM_RECORDS_MAX, "a message for each record at the most");

/* An empty one, or NULL: no memory, which all functions below accept. */
struct nam__post *nam__post_new(const struct nam__txn *txn, uint64_t timestamp, uint16_t type,
	uint32_t flags);

static inline struct nam_rpc_records_request *
nam__bundle_request(const struct nam__bundle *bundle)
{
	return (struct nam_rpc_records_request *)(void *)bundle->body;
}

/*
 * Add the part of a request about record `number` to a message to the memory server of its head
 * that has room for it.  The second adds `more` behind it, where the message has room for `spare`
 * bytes, too.
 */
void nam__post_add(struct nam__post *post, uint64_t head, uint32_t number, const void *entry,
	uint32_t entry_bytes);
void nam__post_add_with(struct nam__post *post, uint64_t head, uint32_t number, uint32_t spare,
	const void *entry, uint32_t entry_bytes, const void *more, uint32_t more_bytes);

/* Process the answer to a message. */
typedef int (*nam__answered_fn)(struct nam__txn *txn, const struct nam__bundle *bundle,
	uint32_t bytes, void *arg);

/*
 * Send all messages as nam_rpc_call_many(), unless post->rc is a failure, process the answers, and
 * free the post; NULL is -ENOMEM.  A failed message does not undo the work of another: all
 * answers are processed, and the first failure is returned.
 */
NAM_FIBER_FN int nam__post_run(struct nam__post *post, struct nam__txn *txn,
	nam__answered_fn answered, void *arg) NAM_MUST_CHECK;

/* The diag of an answer that is not well formed. */
int nam__post_malformed(struct nam__txn *txn);

#endif /* NAM_TXN_RECORDS_POST_H */
