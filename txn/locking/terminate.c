/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminate.c -- lock termination: ending a locking transaction whose writer is late or dead.
 *
 * L3: first all of its locks are sealed, so that the writer can neither commit nor prepare any
 * more. Then it is fixed whether any record was committed: if so, all are committed, else none.
 * Several clients may do so at once, and stop anywhere: they all reach the same result.
 */
#include <errno.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

struct part {
	uint64_t head;
	uint64_t at;			/* of the version */
	uint32_t state;			/* enum nam_locking_state */
};

/* Lies in a buffer of the worker's. */
struct termination {
	struct nam__txn *txn;		/* of this client */
	uint64_t timestamp;		/* of the transaction to be ended */
	uint32_t count;
	struct part parts[NAM_RECORDS_MAX];
};

static int
malformed(const struct termination *termination)
{
	return nam_diag_set(&termination->txn->worker->diag, -NAM_E_FABRIC_PROTOCOL,
		"record store '%s': a memory server gave a malformed answer about a transaction "
		"that was not ended", termination->txn->records->name);
}

/* ---- seal ------------------------------------------------------------------------------------ */

/* The lock that is in the way; its version names the other records. */
static int
first_sealed(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	struct termination *termination = arg;
	struct nam_rpc_locking_sealed sealed;
	struct nam_version_sibling sibling;
	struct part *part;

	(void)txn;
	if (bytes < sizeof(sealed))
		return malformed(termination);
	memcpy(&sealed, bundle->reply, sizeof(sealed));
	if (bytes != sizeof(sealed) + sealed.metadata_bytes ||
		sealed.metadata_bytes % sizeof(sibling))
		return malformed(termination);
	termination->parts[0].state = sealed.state;
	termination->parts[0].at = sealed.at;
	for (uint32_t at = 0; at < sealed.metadata_bytes; at += sizeof(sibling)) {
		memcpy(&sibling, bundle->reply + sizeof(sealed) + at, sizeof(sibling));
		if (termination->count == NAM_RECORDS_MAX)
			return malformed(termination);
		part = &termination->parts[termination->count++];
		*part = (struct part){ sibling.head, sibling.at, 0 };
	}
	return 0;
}

static int
others_sealed(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	struct termination *termination = arg;
	const struct nam_rpc_locking_sealed *sealed = (const void *)bundle->reply;

	(void)txn;
	if (bytes != bundle->count * sizeof(*sealed))
		return malformed(termination);
	for (uint32_t i = 0; i < bundle->count; i++)
		termination->parts[bundle->items[i]].state = sealed[i].state;
	return 0;
}

/* @first	only the first, to find the others; or else all others */
NAM_FIBER_FN static int
seal(struct termination *termination, bool first)
{
	struct nam__post *post = nam__post_new(termination->txn, termination->timestamp,
		NAM_RPC_LOCKING_SEAL, first ? NAM_LOCKING_SIBLINGS : 0);
	uint32_t from = first ? 0 : 1, count = termination->count;

	for (uint32_t i = from; i < count; i++)
		nam__post_add(post, termination->parts[i].head, i, &termination->parts[i].head, 8);
	return nam__post_run(post, termination->txn, first ? first_sealed : others_sealed,
		termination); /* SUSPENDS */
}

/* ---- end ------------------------------------------------------------------------------------- */

static bool
was_committed(const struct termination *termination)
{
	for (uint32_t i = 0; i < termination->count; i++)
		if (termination->parts[i].state == NAM_LOCKING_COMMITTED)
			return true;
	return false;
}

NAM_FIBER_FN static int
end(struct termination *termination)
{
	struct nam__post *post = nam__post_new(termination->txn, termination->timestamp,
		NAM_RPC_LOCKING_END, NAM_LOCKING_TERMINATE |
		(was_committed(termination) ? 0 : NAM_LOCKING_ABORT));

	for (uint32_t i = 0; i < termination->count; i++) {
		const struct part *part = &termination->parts[i];
		struct nam_rpc_records_version version = { part->head, part->at };

		if (part->state == NAM_LOCKING_SEALED)
			nam__post_add(post, part->head, i, &version, sizeof(version));
	}
	return nam__post_run(post, termination->txn, nam__retire_answered,
		NULL); /* SUSPENDS */
}

int
nam__lock_terminate(struct nam__txn *txn, const struct nam__refusal *refusal,
	enum nam__terminated *ret_outcome)
{
	struct termination *termination = nam_buffer_take(txn->worker, sizeof(*termination));
	enum nam__terminated outcome = NAM__TERMINATED_BEFORE;
	int rc;

	if (!termination)
		return -ENOMEM;
	termination->txn = txn;
	termination->timestamp = refusal->timestamp;
	termination->count = 1;
	termination->parts[0] = (struct part){ refusal->head, 0, 0 };
	/* L3: from here on its writer cannot commit this record. */
	rc = seal(termination, true); /* SUSPENDS */
	nam_race_point("locking.sealed_one");
	/* If it is not there any more, another client has ended it. */
	if (!rc && termination->parts[0].state == NAM_LOCKING_SEALED) {
		rc = seal(termination, false); /* SUSPENDS */
		nam_race_point("locking.sealed");
		/* L3: its writer can commit none, so the set of committed ones is fixed. */
		if (!rc)
			rc = end(termination); /* SUSPENDS */
		outcome = was_committed(termination) ? NAM__TERMINATED_COMMITTED :
			NAM__TERMINATED_ABORTED;
	}
	if (ret_outcome)
		*ret_outcome = outcome;
	nam_buffer_give(txn->worker, termination, sizeof(*termination));
	return rc;
}
