/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.c -- requests about records under locks: READ and RELEASE, PREPARE and END
 * (common/rpc/locking_rpc.h).
 */
#include <errno.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

static struct nam__post *
post_new(const struct nam__txn *txn, uint16_t type, uint32_t flags)
{
	const struct nam_rpc_locking_request request = {
		.request = {
			.store = txn->records->store,
			.timestamp = txn->timestamp,
			.flags = flags,
		},
		.finished_us = nam__under_way_since_us(txn->records->client),
		.birth_us = txn->birth_us,
	};

	return nam__post_new(txn->worker, type, &request, sizeof(request));
}

static int
malformed(struct nam__txn *txn)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_FABRIC_PROTOCOL, "record store '%s': a "
		"memory server answered what makes no sense", txn->records->name);
}

/* A failed message does not undo another's answer: process all, and return the first failure. */
typedef int (*answered_fn)(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes,
	void *arg);

NAM_FIBER_FN static int
send(struct nam__txn *txn, struct nam__post *post, answered_fn answered, void *arg)
{
	int rc = nam__post_send(post), each_rc; /* SUSPENDS */

	/* None was sent. */
	if (rc && !nam_err_is(rc, NAM_E_FABRIC))
		return rc;
	for (uint32_t i = 0; i < post->count; i++) {
		each_rc = post->calls[i].rc ? post->calls[i].rc :
			answered(txn, &post->bundles[i], post->calls[i].reply_bytes, arg);
		rc = rc ? rc : each_rc;
	}
	return rc;
}

/*
 * Keep the most important refusal: a lock to be terminated needs no wait, and the latest timestamp
 * helps a writer whose own is too early.
 */
static void
refused(struct nam__refusal *refusal, uint32_t slot, const struct nam_rpc_locking_reply *reply)
{
	if (reply->refusal < refusal->why || (reply->refusal == refusal->why &&
			reply->timestamp <= refusal->timestamp))
		return;
	*refusal = (struct nam__refusal){ reply->refusal, slot, reply->head, reply->timestamp };
}

/* ---- READ ------------------------------------------------------------------------------------ */

/* The answer about an item, with `left` bytes of the reply from here on. */
static int
got_one(struct nam__txn *txn, struct nam__item *item, const struct nam_rpc_locking_got *got,
	uint32_t left)
{
	int rc;

	if (got->image_bytes > left - sizeof(*got) || (got->image_bytes &&
			got->image_bytes != nam__version_at_bytes(NAM_GADDR(got->at))))
		return malformed(txn);
	item->locked = item->head.raw;
	item->generation = got->generation;
	item->via = NAM__VIA_HEAD;
	item->at.raw = got->at;
	item->timestamp = got->timestamp;
	item->latest = true;
	item->state = got->at ? NAM__ITEM_VERSION : NAM__ITEM_NOWHERE;
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
got(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_reply *reply = (const void *)bundle->reply;
	struct nam__item *items = txn->items;
	uint32_t at = sizeof(*reply);

	if (bytes < at)
		return malformed(txn);
	if (reply->refusal) {
		refused(arg, items[bundle->items[0]].slot, reply);
		return 0;
	}
	for (uint32_t i = 0; i < bundle->count; i++) {
		const struct nam_rpc_locking_got *one = (const void *)(bundle->reply + at);
		int rc;

		if (bytes - at < sizeof(*one))
			return malformed(txn);
		rc = got_one(txn, &items[bundle->items[i]], one, bytes - at);
		if (rc)
			return rc;
		at += (uint32_t)sizeof(*one) + one->image_bytes;
	}
	return at == bytes ? 0 : malformed(txn);
}

int
nam__locks_read(struct nam__txn *txn, struct nam__refusal *ret)
{
	struct nam__post *post = post_new(txn, NAM_RPC_LOCKING_READ, 0);
	int rc = post ? 0 : -ENOMEM;

	*ret = (struct nam__refusal){ 0 };
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];

		if (!nam_gaddr_is_null(item->head))
			rc = nam__post_add(post, item->slot, i, 0, &item->head.raw, 8, NULL, 0);
	}
	if (!rc)
		rc = send(txn, post, got, ret); /* SUSPENDS */
	if (post)
		nam__post_free(post);
	return rc;
}

static int
released(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	uint64_t *lost = arg, one;

	if (bytes != sizeof(one))
		return malformed(txn);
	memcpy(&one, bundle->reply, sizeof(one));
	*lost += one;
	return 0;
}

int
nam__locks_release(struct nam__txn *txn, uint64_t *ret_lost)
{
	struct nam__post *post = post_new(txn, NAM_RPC_LOCKING_RELEASE, 0);
	int rc = post ? 0 : -ENOMEM;

	*ret_lost = 0;
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		struct nam__item *item = &txn->items[i];
		struct nam_rpc_locking_release one = { item->locked, item->generation };

		if (item->locked)
			rc = nam__post_add(post, item->slot, i, 0, &one, sizeof(one), NULL, 0);
		item->locked = 0;
	}
	if (!rc)
		rc = send(txn, post, released, ret_lost); /* SUSPENDS */
	if (post)
		nam__post_free(post);
	return rc;
}

/* ---- PREPARE, END ---------------------------------------------------------------------------- */

static int
prepared(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_reply *reply = (const void *)bundle->reply;

	if (bytes != sizeof(*reply))
		return malformed(txn);
	if (reply->refusal)
		refused(arg, txn->items[bundle->items[0]].slot, reply);
	for (uint32_t i = 0; i < bundle->count && !reply->refusal; i++) {
		struct nam__item *item = &txn->items[bundle->items[i]];

		item->locked = item->head.raw;
	}
	return 0;
}

int
nam__locks_prepare(struct nam__txn *txn, struct nam__refusal *ret)
{
	struct nam__post *post = post_new(txn, NAM_RPC_LOCKING_PREPARE, 0);
	int rc = post ? nam__served_write_large(txn) : -ENOMEM; /* SUSPENDS */

	*ret = (struct nam__refusal){ 0 };
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		uint32_t bytes = nam__item_is_large(item) ? 0 : nam__version_at_bytes(item->at);
		struct nam_rpc_records_prepared one = { item->head.raw, item->at.raw, bytes, 0 };

		rc = nam__post_add(post, item->slot, i, 0, &one, sizeof(one), item->image, bytes);
	}
	if (!rc)
		rc = send(txn, post, prepared, ret); /* SUSPENDS */
	if (post)
		nam__post_free(post);
	return rc;
}

static int
ended(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_ended *reply = (const void *)bundle->reply;
	uint32_t *refused_count = arg;

	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_RECORDS_RETIRED_MAX ||
		bytes != sizeof(*reply) + 8 * reply->count)
		return malformed(txn);
	for (uint32_t i = 0; i < reply->count; i++)
		nam__served_retire(txn, reply->retired[i]);
	for (uint32_t i = 0; i < bundle->count; i++) {
		if (reply->refused >> i & 1)
			++*refused_count;
		else
			txn->items[bundle->items[i]].locked = 0;
	}
	return 0;
}

/* @sweep	of all, and only to hear what can be retired */
NAM_FIBER_FN static int
end(struct nam__txn *txn, uint32_t flags, bool sweep, uint32_t *ret_refused)
{
	struct nam__post *post = post_new(txn, NAM_RPC_LOCKING_END, flags);
	int rc = post ? 0 : -ENOMEM;

	*ret_refused = 0;
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_version version = { item->head.raw,
			sweep ? 0 : item->at.raw };

		if (sweep || item->locked)
			rc = nam__post_add(post, item->slot, i, 0, &version, sizeof(version), NULL,
				0);
	}
	if (!rc)
		rc = send(txn, post, ended, ret_refused); /* SUSPENDS */
	if (post)
		nam__post_free(post);
	return rc;
}

int
nam__locks_end(struct nam__txn *txn, uint32_t flags, uint32_t *ret_refused)
{
	return end(txn, flags, false, ret_refused); /* SUSPENDS */
}

int
nam__locks_sweep(struct nam__txn *txn)
{
	uint32_t refused_count;

	return end(txn, 0, true, &refused_count); /* SUSPENDS */
}
