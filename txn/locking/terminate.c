/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminate.c -- ending a transaction that writes under locks for its writer, who is late or dead.
 *
 * First its locks are sealed, all of them: none of its records can be committed by the writer any
 * more, nor prepared.  So by then it is certain whether any was committed: then all are, else none.
 * Several may do that at once, and stop anywhere: they all come to the same conclusion
 * (txn/README.md, L3).
 */
#include <errno.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

struct part {
	uint64_t head;
	uint64_t at;			/* of the version */
	uint32_t slot;
	uint32_t state;			/* enum nam_locking_state */
};

/* Lies in a buffer of the worker's. */
struct settlement {
	struct nam__txn *txn;		/* who settles */
	uint64_t timestamp;		/* of what is settled */
	uint32_t count;
	struct part parts[NAM_RECORDS_MAX];
};

static int
malformed(const struct settlement *settlement)
{
	return nam_diag_set(&settlement->txn->worker->diag, -NAM_E_FABRIC_PROTOCOL,
		"record store '%s': a memory server says what makes no sense of a transaction that "
		"was not ended", settlement->txn->records->name);
}

static struct nam__post *
post_new(const struct settlement *settlement, uint16_t type, uint32_t flags)
{
	const struct nam__txn *txn = settlement->txn;
	const struct nam_rpc_locking_request request = {
		.request = {
			.store = txn->records->store,
			.timestamp = settlement->timestamp,
			.flags = flags,
		},
		.finished_us = nam__under_way_since_us(txn->records->client),
		.birth_us = txn->birth_us,
	};

	return nam__post_new(txn->worker, type, &request, sizeof(request));
}

/* ---- seal ------------------------------------------------------------------------------------ */

static int
sibling_add(struct settlement *settlement, const struct nam_version_sibling *sibling)
{
	const struct nam_client *client = settlement->txn->records->client;
	uint16_t slot = nam__server_slot(client, NAM_GADDR(sibling->head));
	struct part *part = &settlement->parts[settlement->count];

	if (settlement->count == NAM_RECORDS_MAX || slot == UINT16_MAX)
		return malformed(settlement);
	*part = (struct part){ sibling->head, sibling->at, slot, 0 };
	settlement->count++;
	return 0;
}

/* The lock that is in the way; and its version says which others there are. */
static int
first_sealed(struct settlement *settlement, const uint8_t *reply, uint32_t bytes)
{
	struct nam_rpc_locking_sealed sealed;
	struct nam_version_sibling sibling;
	int rc = 0;

	if (bytes < sizeof(sealed))
		return malformed(settlement);
	memcpy(&sealed, reply, sizeof(sealed));
	if (bytes != sizeof(sealed) + sealed.about_bytes || sealed.about_bytes % sizeof(sibling))
		return malformed(settlement);
	settlement->parts[0].state = sealed.state;
	settlement->parts[0].at = sealed.at;
	for (uint32_t at = 0; at < sealed.about_bytes && !rc; at += sizeof(sibling)) {
		memcpy(&sibling, reply + sizeof(sealed) + at, sizeof(sibling));
		rc = sibling_add(settlement, &sibling);
	}
	return rc;
}

static int
others_sealed(struct settlement *settlement, const struct nam__bundle *bundle, uint32_t bytes)
{
	const struct nam_rpc_locking_sealed *sealed = (const void *)bundle->reply;

	if (bytes != bundle->count * sizeof(*sealed))
		return malformed(settlement);
	for (uint32_t i = 0; i < bundle->count; i++)
		settlement->parts[bundle->items[i]].state = sealed[i].state;
	return 0;
}

/* @first	only that one, and find the others; or else all others */
NAM_FIBER_FN static int
seal(struct settlement *settlement, bool first)
{
	struct nam__post *post = post_new(settlement, NAM_RPC_LOCKING_SEAL,
		first ? NAM_LOCKING_SIBLINGS : 0);
	uint32_t from = first ? 0 : 1, count = settlement->count;
	int rc = post ? 0 : -ENOMEM;

	for (uint32_t i = from; i < count && !rc; i++)
		rc = nam__post_add(post, settlement->parts[i].slot, i, 0,
			&settlement->parts[i].head, 8, NULL, 0);
	if (!rc)
		rc = nam__post_send(post); /* SUSPENDS */
	for (uint32_t i = 0; post && i < post->count && !rc; i++)
		rc = first ? first_sealed(settlement, post->bundles[i].reply,
				post->calls[i].reply_bytes) :
			others_sealed(settlement, &post->bundles[i], post->calls[i].reply_bytes);
	if (post)
		nam__post_free(post);
	return rc;
}

/* ---- end ------------------------------------------------------------------------------------- */

static bool
was_committed(const struct settlement *settlement)
{
	for (uint32_t i = 0; i < settlement->count; i++)
		if (settlement->parts[i].state == NAM_LOCKING_COMMITTED)
			return true;
	return false;
}

static int
ended(struct settlement *settlement, const uint8_t *bytes_of_reply, uint32_t bytes)
{
	const struct nam_rpc_locking_ended *reply = (const void *)bytes_of_reply;

	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_RECORDS_RETIRED_MAX ||
		bytes != sizeof(*reply) + 8 * reply->count)
		return malformed(settlement);
	for (uint32_t i = 0; i < reply->count; i++)
		nam__served_retire(settlement->txn, reply->retired[i]);
	return 0;
}

NAM_FIBER_FN static int
end(struct settlement *settlement)
{
	struct nam__post *post = post_new(settlement, NAM_RPC_LOCKING_END, NAM_LOCKING_SETTLE |
		(was_committed(settlement) ? 0 : NAM_LOCKING_ABORT));
	int rc = post ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < settlement->count && !rc; i++) {
		const struct part *part = &settlement->parts[i];
		struct nam_rpc_records_version version = { part->head, part->at };

		if (part->state == NAM_LOCKING_SEALED)
			rc = nam__post_add(post, part->slot, i, 0, &version, sizeof(version), NULL,
				0);
	}
	if (!rc)
		rc = nam__post_send(post); /* SUSPENDS */
	for (uint32_t i = 0; post && i < post->count && !rc; i++)
		rc = ended(settlement, post->bundles[i].reply, post->calls[i].reply_bytes);
	if (post)
		nam__post_free(post);
	return rc;
}

int
nam__settle(struct nam__txn *txn, const struct nam__refusal *refusal,
	enum nam__settled *ret_settled)
{
	struct settlement *settlement = nam_buffer_take(txn->worker, sizeof(*settlement));
	enum nam__settled settled = NAM__SETTLED_BEFORE;
	int rc;

	if (!settlement)
		return -ENOMEM;
	settlement->txn = txn;
	settlement->timestamp = refusal->timestamp;
	settlement->count = 1;
	settlement->parts[0] = (struct part){ refusal->head, 0, refusal->slot, 0 };
	rc = seal(settlement, true); /* SUSPENDS */
	nam_race_point("locking.sealed_one");
	/* If it is not there any more, somebody has ended it. */
	if (!rc && settlement->parts[0].state == NAM_LOCKING_SEALED) {
		rc = seal(settlement, false); /* SUSPENDS */
		nam_race_point("locking.sealed");
		if (!rc)
			rc = end(settlement); /* SUSPENDS */
		settled = was_committed(settlement) ? NAM__SETTLED_COMMITTED :
			NAM__SETTLED_ABORTED;
	}
	if (ret_settled)
		*ret_settled = settled;
	nam_buffer_give(txn->worker, settlement, sizeof(*settlement));
	return rc;
}
