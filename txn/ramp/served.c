/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.c -- records whose heads memory servers move: GET, PREPARE and COMMIT as requests, by
 * whatever RPC transport (GET+ and PUT+ are these over mailboxes).
 *
 * Items are packed into messages, as many as fit into each, and all messages of a step are under
 * way at once.  A version that fits in no message is WRITTEN or READ beside it.
 */
#include <errno.h>
#include <string.h>

#include "common/rpc/records_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

static struct nam__post *
post_new(struct nam__txn *txn, uint16_t type, uint32_t flags)
{
	const struct nam_rpc_records_request request = {
		.store = txn->records->store,
		.timestamp = txn->timestamp,
		.flags = flags,
	};

	return nam__post_new(txn->worker, type, &request, sizeof(request));
}

static int
malformed(struct nam__txn *txn)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_FABRIC_PROTOCOL, "record store '%s': a "
		"memory server answered what makes no sense", txn->records->name);
}

/* ---- GET ------------------------------------------------------------------------------------- */

static int
get_pack(struct nam__post *post, const struct nam__txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_wanted wanted = { item->head.raw, item->timestamp };

		if (item->state == NAM__ITEM_ASK)
			rc = nam__post_add(post, item->slot, i, 8 * NAM_RECORDS_MAX, &wanted,
				sizeof(wanted), NULL, 0);
	}
	for (uint32_t i = 0; i < post->count && !rc; i++) {
		struct nam_call *call = &post->calls[i];

		memcpy(post->bundles[i].body + call->body_bytes, txn->stamps,
			8 * txn->stamps_count);
		call->body_bytes += 8 * txn->stamps_count;
		nam__bundle_request(&post->bundles[i])->stamps = txn->stamps_count;
	}
	return rc;
}

/* The answer about an item, with `left` bytes of the reply from here on. */
static int
got_one(struct nam__txn *txn, struct nam__item *item, const struct nam_rpc_records_got *got,
	uint32_t left, bool stamps_only)
{
	int rc;

	if (got->image_bytes > left - sizeof(*got) || (got->image_bytes &&
			got->image_bytes != nam__version_at_bytes(NAM_GADDR(got->at))))
		return malformed(txn);
	if (stamps_only || !got->at) {
		item->stamp = got->timestamp;
		item->at.raw = got->at;
		item->timestamp = 0;
		item->state = NAM__ITEM_NOWHERE;
		return 0;
	}
	item->via = got->latest ? NAM__VIA_HEAD : NAM__VIA_SIBLING;
	item->at.raw = got->at;
	item->timestamp = got->timestamp;
	item->state = NAM__ITEM_VERSION;
	if (!got->image_bytes)
		return 0;
	rc = nam__item_room(txn, item, got->image_bytes);
	if (rc)
		return rc;
	memcpy(item->image, got + 1, got->image_bytes);
	item->state = NAM__ITEM_CAME;
	return 0;
}

static int
got(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, bool stamps_only)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < bundle->count; i++) {
		struct nam_rpc_records_got one;
		int rc;

		if (bytes - at < sizeof(one))
			return malformed(txn);
		memcpy(&one, bundle->reply + at, sizeof(one));
		rc = got_one(txn, &txn->items[bundle->items[i]],
			(const struct nam_rpc_records_got *)(const void *)(bundle->reply + at),
			bytes - at, stamps_only);
		if (rc)
			return rc;
		at += (uint32_t)sizeof(one) + one.image_bytes;
	}
	return at == bytes ? 0 : malformed(txn);
}

int
nam__served_get(struct nam__txn *txn, bool stamps_only)
{
	struct nam__post *post = post_new(txn, NAM_RPC_RECORDS_GET,
		stamps_only ? NAM_RECORDS_STAMPS_ONLY : 0);
	int rc;

	if (!post)
		return -ENOMEM;
	rc = get_pack(post, txn);
	if (!rc)
		rc = nam__post_send(post); /* SUSPENDS */
	for (uint32_t i = 0; i < post->count && !rc; i++)
		rc = got(txn, &post->bundles[i], post->calls[i].reply_bytes, stamps_only);
	nam__post_free(post);
	return rc;
}

/* ---- PREPARE --------------------------------------------------------------------------------- */

bool
nam__item_is_large(const struct nam__item *item)
{
	return nam__version_at_bytes(item->at) + sizeof(struct nam_rpc_locking_request) +
		sizeof(struct nam_rpc_records_prepared) > NAM_RPC_BODY_MAX;
}

int
nam__served_write_large(struct nam__txn *txn)
{
	struct nam_batch batch;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++)
		if (nam__item_is_large(&txn->items[i]))
			nam_batch_write(&batch, txn->items[i].at, 0, txn->items[i].image,
				nam__version_at_bytes(txn->items[i].at));
	return nam_batch_await(&batch); /* SUSPENDS */
}

static int
prepare_pack(struct nam__post *post, const struct nam__txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		uint32_t bytes = nam__item_is_large(item) ? 0 : nam__version_at_bytes(item->at);
		struct nam_rpc_records_prepared one = { item->head.raw, item->at.raw, bytes, 0 };

		rc = nam__post_add(post, item->slot, i, 0, &one, sizeof(one), item->image, bytes);
	}
	return rc;
}

int
nam__served_prepare(struct nam__txn *txn)
{
	struct nam__post *post = post_new(txn, NAM_RPC_RECORDS_PREPARE, 0);
	int rc;

	if (!post)
		return -ENOMEM;
	rc = nam__served_write_large(txn); /* SUSPENDS */
	if (!rc)
		rc = prepare_pack(post, txn);
	if (!rc)
		rc = nam__post_send(post); /* SUSPENDS */
	for (uint32_t i = 0; i < post->count && !rc; i++) {
		const struct nam__bundle *bundle = &post->bundles[i];

		if (post->calls[i].reply_bytes != 8 * bundle->count)
			rc = malformed(txn);
		for (uint32_t k = 0; k < bundle->count && !rc; k++)
			memcpy(&txn->items[bundle->items[k]].base_timestamp,
				bundle->reply + 8 * k, 8);
	}
	nam__post_free(post);
	return rc;
}

/* ---- COMMIT ---------------------------------------------------------------------------------- */

void
nam__served_retire(struct nam__txn *txn, uint64_t at)
{
	txn->retired++;
	txn->retired_bytes += nam__version_stride(nam__version_at_bytes(NAM_GADDR(at)));
	nam__version_retire(txn->worker, NAM_GADDR(at));
}

static int
committed(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, bool abort)
{
	const struct nam_rpc_records_committed *reply = (const void *)bundle->reply;

	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_RECORDS_RETIRED_MAX ||
		bytes != sizeof(*reply) + 8 * reply->count)
		return malformed(txn);
	/* The writer gives back the blocks of its aborted transaction. */
	for (uint32_t i = 0; i < reply->count && !abort; i++)
		nam__served_retire(txn, reply->retired[i]);
	return 0;
}

/* @at_too	or else only to learn which versions can be retired */
NAM_FIBER_FN static int
commit(struct nam__txn *txn, bool at_too, bool abort)
{
	struct nam__post *post = post_new(txn, NAM_RPC_RECORDS_COMMIT,
		abort ? NAM_RECORDS_ABORT : 0);
	int rc = 0, each_rc;

	if (!post)
		return -ENOMEM;
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_commit version = { item->head.raw,
			at_too ? item->at.raw : 0, at_too ? item->timestamp : 0 };

		if (item->state != NAM__ITEM_DONE)
			rc = nam__post_add(post, item->slot, i, 0, &version, sizeof(version), NULL,
				0);
	}
	if (!rc)
		rc = nam__post_send(post); /* SUSPENDS */
	/* A failed message does not undo another's commits. */
	for (uint32_t i = 0; i < post->count; i++) {
		each_rc = post->calls[i].rc ? post->calls[i].rc : committed(txn, &post->bundles[i],
			post->calls[i].reply_bytes, abort);
		rc = rc ? rc : each_rc;
	}
	nam__post_free(post);
	return rc;
}

int
nam__served_commit(struct nam__txn *txn)
{
	return commit(txn, true, false); /* SUSPENDS */
}

int
nam__served_withdraw(struct nam__txn *txn)
{
	return commit(txn, true, true); /* SUSPENDS */
}

/* Memory servers retire versions some time after these are replaced. */
bool
nam__served_memory_awaited(const struct nam__txn *txn)
{
	(void)txn;
	return true;
}

int
nam__served_sweep(struct nam__txn *txn)
{
	return commit(txn, false, false); /* SUSPENDS */
}
