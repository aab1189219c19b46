/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.c -- records whose heads memory servers move: GET, PREPARE and COMMIT as requests, by any
 * RPC transport (over mailboxes they are GET+ and PUT+).  A version that exceeds a message is
 * WRITTEN or READ beside it.
 */
#include <stddef.h>
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

/* ---- GET ------------------------------------------------------------------------------------- */

int
nam__answers_each(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t at,
	uint32_t bytes, nam__got_fn fn, const void *arg)
{
	for (uint32_t i = 0; i < bundle->count; i++) {
		const struct nam_rpc_records_got *got = (const void *)(bundle->reply + at);
		struct nam__item *item = &txn->items[bundle->items[i]];
		int rc;

		if (bytes - at < sizeof(*got) || !nam__image_bytes_fit(got->image_bytes, got->at,
				bytes - at - (uint32_t)sizeof(*got)))
			return nam__post_malformed(txn);
		item->at.raw = got->at;
		item->timestamp = got->timestamp;
		item->state = got->at ? NAM__ITEM_VERSION : NAM__ITEM_ABSENT;
		fn(item, got, arg);
		rc = got->at ? nam__version_at_check(txn->worker, txn->records, item->at) : 0;
		if (rc)
			return rc;
		if (got->image_bytes && item->state == NAM__ITEM_VERSION) {
			rc = nam__item_room(txn, item, got->image_bytes);
			if (rc)
				return rc;
			memcpy(item->image, got + 1, got->image_bytes);
			item->state = NAM__ITEM_ARRIVED;
		}
		at += (uint32_t)sizeof(*got) + got->image_bytes;
	}
	return at == bytes ? 0 : nam__post_malformed(txn);
}

static void
got_one(struct nam__item *item, const struct nam_rpc_records_got *got, const void *arg)
{
	const bool *stamps_only = arg;

	if (!*stamps_only && got->at) {
		item->via = got->mark ? NAM__VIA_HEAD : NAM__VIA_SIBLING;
		return;
	}
	item->stamp = got->timestamp;
	item->timestamp = 0;
	item->state = NAM__ITEM_ABSENT;
}

static int
got(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	return nam__answers_each(txn, bundle, 0, bytes, got_one, arg);
}

int
nam__served_get(struct nam__txn *txn, bool stamps_only)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_RECORDS_GET,
		stamps_only ? NAM_RECORDS_STAMPS_ONLY : 0);

	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_wanted wanted = { item->head.raw, item->timestamp };

		if (item->state == NAM__ITEM_REQUEST)
			nam__post_add_with(post, item->head.raw, i, 8 * NAM_RECORDS_MAX, &wanted,
				sizeof(wanted), NULL, 0);
	}
	for (uint32_t i = 0; post && !post->rc && i < post->count; i++) {
		struct nam_call *call = &post->calls[i];

		memcpy(post->bundles[i].body + call->body_bytes, txn->stamps,
			8 * txn->stamps_count);
		call->body_bytes += 8 * txn->stamps_count;
		nam__bundle_request(&post->bundles[i])->stamps = txn->stamps_count;
	}
	return nam__post_run(post, txn, got, &stamps_only); /* SUSPENDS */
}

/* ---- PREPARE --------------------------------------------------------------------------------- */

static bool
is_large(const struct nam__item *item)
{
	return nam__version_at_bytes(item->at) + sizeof(struct nam_rpc_locking_request) +
		sizeof(struct nam_rpc_records_prepared) > NAM_RPC_BODY_MAX;
}

/* R3: WRITE the versions that exceed a message, before the request that prepares them. */
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

void
nam__prepare_pack(struct nam__post *post, struct nam__txn *txn)
{
	if (!post)
		return;
	post->rc = write_large(txn); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *item = &txn->items[i];
		uint32_t bytes = is_large(item) ? 0 : nam__version_at_bytes(item->at);
		struct nam_rpc_records_prepared one = { item->head.raw, item->at.raw, bytes, 0 };

		nam__post_add_with(post, item->head.raw, i, 0, &one, sizeof(one), item->image,
			bytes);
	}
}

static int
prepared(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	(void)arg;
	if (bytes != 8 * bundle->count)
		return nam__post_malformed(txn);
	for (uint32_t i = 0; i < bundle->count; i++)
		memcpy(&txn->items[bundle->items[i]].base_timestamp, bundle->reply + 8 * i, 8);
	return 0;
}

int
nam__served_prepare(struct nam__txn *txn)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_RECORDS_PREPARE, 0);

	nam__prepare_pack(post, txn); /* SUSPENDS */
	return nam__post_run(post, txn, prepared, NULL); /* SUSPENDS */
}

/* ---- COMMIT ---------------------------------------------------------------------------------- */

_Static_assert(offsetof(struct nam_rpc_records_committed, retired) ==
	offsetof(struct nam_rpc_locking_ended, retired), "one kind of reply");

int
nam__retire_answered(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes,
	void *arg)
{
	const struct nam_rpc_records_committed *reply = (const void *)bundle->reply;
	const bool *withdraw = arg;

	if (bytes < sizeof(*reply) || reply->count > NAM_RPC_RECORDS_RETIRED_MAX ||
		bytes != sizeof(*reply) + 8 * reply->count)
		return nam__post_malformed(txn);
	/* The writer gives back the blocks of its own aborted transaction. */
	for (uint32_t i = 0; i < reply->count && !(withdraw && *withdraw); i++) {
		struct nam_gaddr at = NAM_GADDR(reply->retired[i]);

		txn->retired++;
		txn->retired_bytes += nam__version_stride(nam__version_at_bytes(at));
		nam__version_retire(txn->worker, at, 0);
	}
	return 0;
}

/*
 * @at_too	or else only to learn which versions can be retired
 * @flags	enum nam_rpc_records_flag
 * @withdraw	abort, and keep the blocks
 */
NAM_FIBER_FN static int
commit(struct nam__txn *txn, bool at_too, uint32_t flags, bool withdraw)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_RECORDS_COMMIT, flags);

	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_commit version = { item->head.raw,
			at_too ? item->at.raw : 0, at_too ? item->timestamp : 0 };

		if (item->state != NAM__ITEM_DONE)
			nam__post_add(post, item->head.raw, i, &version, sizeof(version));
	}
	return nam__post_run(post, txn, nam__retire_answered, &withdraw); /* SUSPENDS */
}

int
nam__served_commit(struct nam__txn *txn)
{
	return commit(txn, true, 0, false); /* SUSPENDS */
}

int
nam__served_withdraw(struct nam__txn *txn)
{
	return commit(txn, true, NAM_RECORDS_ABORT, true); /* SUSPENDS */
}

int
nam__served_abort(struct nam__txn *txn)
{
	return commit(txn, true, NAM_RECORDS_ABORT, false); /* SUSPENDS */
}

int
nam__served_sweep(struct nam__txn *txn)
{
	return commit(txn, false, 0, false); /* SUSPENDS */
}

int
nam__served_close(struct nam__txn *txn)
{
	uint32_t before;
	int rc;

	/* Until nothing is listed: then all are closed, and no writer adds anything. */
	do {
		before = txn->retired;
		rc = commit(txn, false, NAM_RECORDS_CLOSE, false); /* SUSPENDS */
	} while (!rc && txn->retired != before);
	return rc;
}
