/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.c -- records whose heads memory servers move: GET, PREPARE and COMMIT as requests, by
 * whatever carrier (GET+ and PUT+ are these over mailboxes).
 *
 * Items are packed into messages, as many as fit into each, and all messages of a step are under
 * way at once.  A version that fits in no message is WRITTEN or READ beside it.
 */
#include <errno.h>
#include <string.h>

#include "../common/rpc/records_rpc.h"
#include "txn_internal.h"

/* A message, and whose items are in it. */
struct parcel {
	uint8_t *body, *reply;
	uint8_t items[NAM_RPC_RECORDS_MAX];
	uint32_t count;
};

/* Lies in a buffer of the worker's. */
struct post {
	struct nam__txn *txn;
	uint32_t count;
	struct nam_call calls[NAM_CALLS_MAX];
	struct parcel parcels[NAM_CALLS_MAX];
};
_Static_assert(NAM_CALLS_MAX >= NAM_RECORDS_MAX, "a message for each record at the most");

static struct post *
post_new(struct nam__txn *txn)
{
	struct post *post = nam_buffer_take(txn->worker, sizeof(*post));

	if (!post)
		return NULL;
	post->txn = txn;
	post->count = 0;
	return post;
}

static void
post_free(struct post *post)
{
	for (uint32_t i = 0; i < post->count; i++) {
		nam_buffer_give(post->txn->worker, post->parcels[i].body, NAM_RPC_BYTES_MAX);
		nam_buffer_give(post->txn->worker, post->parcels[i].reply, NAM_RPC_BYTES_MAX);
	}
	nam_buffer_give(post->txn->worker, post, sizeof(*post));
}

static struct nam_rpc_records_request *
request_of(const struct parcel *parcel)
{
	return (struct nam_rpc_records_request *)(void *)parcel->body;
}

static int
parcel_new(struct post *post, uint32_t slot, uint16_t type, uint32_t flags, uint32_t *ret_number)
{
	struct nam_worker *worker = post->txn->worker;
	struct parcel *parcel = &post->parcels[post->count];

	*parcel = (struct parcel){
		.body = nam_buffer_take(worker, NAM_RPC_BYTES_MAX),
		.reply = nam_buffer_take(worker, NAM_RPC_BYTES_MAX),
	};
	*ret_number = post->count++;
	if (!parcel->body || !parcel->reply)
		return -ENOMEM;
	*request_of(parcel) = (struct nam_rpc_records_request){
		.store = post->txn->records->store,
		.timestamp = post->txn->timestamp,
		.flags = flags,
	};
	post->calls[*ret_number] = (struct nam_call){
		.slot = slot,
		.type = type,
		.body = parcel->body,
		.body_bytes = sizeof(struct nam_rpc_records_request),
		.reply = parcel->reply,
		.reply_size = NAM_RPC_BODY_MAX,
	};
	return 0;
}

/*
 * Add what a request says of an item, and more behind it, to a message to its memory server that
 * has room, `spare` bytes more.
 */
static int
parcel_add(struct post *post, uint32_t number, uint16_t type, uint32_t flags, uint32_t spare,
	const void *about, uint32_t about_bytes, const void *more, uint32_t more_bytes)
{
	uint32_t slot = post->txn->items[number].slot, which;
	struct parcel *parcel;
	struct nam_call *call;
	int rc = 0;

	for (which = 0; which < post->count; which++)
		if (post->calls[which].slot == slot && post->calls[which].body_bytes + about_bytes +
			more_bytes + spare <= NAM_RPC_BODY_MAX)
			break;
	if (which == post->count)
		rc = parcel_new(post, slot, type, flags, &which);
	if (rc)
		return rc;
	parcel = &post->parcels[which];
	call = &post->calls[which];
	memcpy(parcel->body + call->body_bytes, about, about_bytes);
	if (more_bytes)
		memcpy(parcel->body + call->body_bytes + about_bytes, more, more_bytes);
	call->body_bytes += about_bytes + more_bytes;
	parcel->items[parcel->count++] = (uint8_t)number;
	request_of(parcel)->count++;
	return 0;
}

static int
malformed(struct nam__txn *txn)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_FABRIC_PROTOCOL, "record store '%s': a "
		"memory server answered what makes no sense", txn->records->name);
}

/* ---- GET ------------------------------------------------------------------------------------- */

static int
get_pack(struct post *post, uint32_t flags)
{
	struct nam__txn *txn = post->txn;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_wanted wanted = { item->head.raw, item->timestamp };

		if (item->state == NAM__ITEM_ASK)
			rc = parcel_add(post, i, NAM_RPC_RECORDS_GET, flags, 8 * NAM_RECORDS_MAX,
				&wanted, sizeof(wanted), NULL, 0);
	}
	for (uint32_t i = 0; i < post->count && !rc; i++) {
		struct nam_call *call = &post->calls[i];

		memcpy(post->parcels[i].body + call->body_bytes, txn->stamps,
			8 * txn->stamps_count);
		call->body_bytes += 8 * txn->stamps_count;
		request_of(&post->parcels[i])->stamps = txn->stamps_count;
	}
	return rc;
}

/* What a memory server says of an item, with `left` bytes of its reply from here on. */
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
		item->timestamp = 0;	/* what was asked for is no timestamp of the record's */
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
got(struct nam__txn *txn, const struct parcel *parcel, uint32_t bytes, bool stamps_only)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < parcel->count; i++) {
		struct nam_rpc_records_got one;
		int rc;

		if (bytes - at < sizeof(one))
			return malformed(txn);
		memcpy(&one, parcel->reply + at, sizeof(one));
		rc = got_one(txn, &txn->items[parcel->items[i]],
			(const struct nam_rpc_records_got *)(const void *)(parcel->reply + at),
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
	struct post *post = post_new(txn);
	int rc;

	if (!post)
		return -ENOMEM;
	rc = get_pack(post, stamps_only ? NAM_RECORDS_STAMPS_ONLY : 0);
	if (!rc && post->count)
		rc = nam_rpc_call_many(txn->worker, post->calls, post->count); /* SUSPENDS */
	for (uint32_t i = 0; i < post->count && !rc; i++)
		rc = got(txn, &post->parcels[i], post->calls[i].reply_bytes, stamps_only);
	post_free(post);
	return rc;
}

/* ---- PREPARE --------------------------------------------------------------------------------- */

/* Whether a version has to be WRITTEN beside the message. */
static bool
is_large(const struct nam__item *item)
{
	return nam__version_at_bytes(item->at) + sizeof(struct nam_rpc_records_request) +
		sizeof(struct nam_rpc_records_prepared) > NAM_RPC_BODY_MAX;
}

NAM_FIBER_FN static int
write_large(struct nam__txn *txn)
{
	struct nam_batch batch;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++)
		if (is_large(&txn->items[i]))
			nam_batch_write(&batch, txn->items[i].at, 0, txn->items[i].image,
				nam__version_at_bytes(txn->items[i].at));
	return nam_batch_await(&batch); /* SUSPENDS */
}

static int
prepare_pack(struct post *post)
{
	int rc = 0;

	for (uint32_t i = 0; i < post->txn->count && !rc; i++) {
		const struct nam__item *item = &post->txn->items[i];
		uint32_t bytes = is_large(item) ? 0 : nam__version_at_bytes(item->at);
		struct nam_rpc_records_prepared one = { item->head.raw, item->at.raw, bytes, 0 };

		rc = parcel_add(post, i, NAM_RPC_RECORDS_PREPARE, 0, 0, &one, sizeof(one),
			item->image, bytes);
	}
	return rc;
}

int
nam__served_prepare(struct nam__txn *txn)
{
	struct post *post = post_new(txn);
	int rc;

	if (!post)
		return -ENOMEM;
	rc = write_large(txn); /* SUSPENDS */
	if (!rc)
		rc = prepare_pack(post);
	if (!rc)
		rc = nam_rpc_call_many(txn->worker, post->calls, post->count); /* SUSPENDS */
	for (uint32_t i = 0; i < post->count && !rc; i++) {
		const struct parcel *parcel = &post->parcels[i];

		if (post->calls[i].reply_bytes != 8 * parcel->count)
			rc = malformed(txn);
		for (uint32_t k = 0; k < parcel->count && !rc; k++)
			memcpy(&txn->items[parcel->items[k]].base_timestamp,
				parcel->reply + 8 * k, 8);
	}
	post_free(post);
	return rc;
}

/* ---- COMMIT ---------------------------------------------------------------------------------- */

static int
committed(struct nam__txn *txn, const struct parcel *parcel, uint32_t bytes, bool abort)
{
	const struct nam_rpc_records_committed *reply = (const void *)parcel->reply;

	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_RECORDS_RETIRED_MAX ||
		bytes != sizeof(*reply) + 8 * reply->count)
		return malformed(txn);
	/* Blocks of an aborted transaction are its writer's, who knows what to do with them. */
	for (uint32_t i = 0; i < reply->count && !abort; i++)
		nam__version_retire(txn->worker, NAM_GADDR(reply->retired[i]));
	return 0;
}

/* @at_too	or else only to hear what can be retired */
NAM_FIBER_FN static int
commit(struct nam__txn *txn, bool at_too, bool abort)
{
	struct post *post = post_new(txn);
	int rc = 0, each_rc;

	if (!post)
		return -ENOMEM;
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_version version = { item->head.raw,
			at_too ? item->at.raw : 0 };

		if (item->state != NAM__ITEM_DONE)
			rc = parcel_add(post, i, NAM_RPC_RECORDS_COMMIT,
				abort ? NAM_RECORDS_ABORT : 0, 0, &version, sizeof(version), NULL,
				0);
	}
	if (!rc && post->count)
		rc = nam_rpc_call_many(txn->worker, post->calls, post->count); /* SUSPENDS */
	/* What one has carried out another's failure does not undo. */
	for (uint32_t i = 0; i < post->count; i++) {
		each_rc = post->calls[i].rc ? post->calls[i].rc : committed(txn, &post->parcels[i],
			post->calls[i].reply_bytes, abort);
		rc = rc ? rc : each_rc;
	}
	post_free(post);
	return rc;
}

int
nam__served_commit(struct nam__txn *txn, bool abort)
{
	return commit(txn, true, abort); /* SUSPENDS */
}

int
nam__served_sweep(struct nam__txn *txn)
{
	return commit(txn, false, false); /* SUSPENDS */
}
