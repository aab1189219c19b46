/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locks.c -- requests about records under locks: READ and RELEASE, PREPARE and END
 * (common/rpc/locking_rpc.h).
 */
#include <string.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/post.h"
#include "txn/records/protocols.h"

/*
 * Keep the most important refusal: a lock to be terminated needs no wait, and the latest timestamp
 * helps a writer whose own is too early.
 */
static void
refused(struct nam__refusal *refusal, const struct nam_rpc_locking_reply *reply)
{
	if (reply->refusal < refusal->why || (reply->refusal == refusal->why &&
			reply->timestamp <= refusal->timestamp))
		return;
	*refusal = (struct nam__refusal){ reply->refusal, reply->head, reply->timestamp };
}

/* ---- READ ------------------------------------------------------------------------------------ */

static void
got_one(struct nam__item *item, const struct nam_rpc_records_got *got, const void *arg)
{
	(void)arg;
	item->locked = item->head.raw;
	item->generation = got->mark;
	item->via = NAM__VIA_HEAD;
	item->latest = true;
}

static int
got(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_reply *reply = (const void *)bundle->reply;

	if (bytes < sizeof(*reply))
		return nam__post_malformed(txn);
	if (!reply->refusal)
		return nam__answers_each(txn, bundle, sizeof(*reply), bytes, got_one, NULL);
	refused(arg, reply);
	return 0;
}

int
nam__locks_read(struct nam__txn *txn, struct nam__refusal *ret)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_LOCKING_READ, 0);

	*ret = (struct nam__refusal){ 0 };
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *item = &txn->items[i];

		if (!nam_gaddr_is_null(item->head))
			nam__post_add(post, item->head.raw, i, &item->head.raw, 8);
	}
	return nam__post_run(post, txn, got, ret); /* SUSPENDS */
}

static int
released(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	uint64_t *lost = arg, one;

	if (bytes != sizeof(one))
		return nam__post_malformed(txn);
	memcpy(&one, bundle->reply, sizeof(one));
	*lost += one;
	return 0;
}

int
nam__locks_release(struct nam__txn *txn, uint64_t *ret_lost)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_LOCKING_RELEASE, 0);

	*ret_lost = 0;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];
		struct nam_rpc_locking_release one = { item->locked, item->generation };

		if (item->locked)
			nam__post_add(post, item->head.raw, i, &one, sizeof(one));
		item->locked = 0;
	}
	return nam__post_run(post, txn, released, ret_lost); /* SUSPENDS */
}

/* ---- PREPARE, END ---------------------------------------------------------------------------- */

static int
prepared(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_reply *reply = (const void *)bundle->reply;

	if (bytes != sizeof(*reply))
		return nam__post_malformed(txn);
	if (reply->refusal)
		refused(arg, reply);
	for (uint32_t i = 0; i < bundle->count && !reply->refusal; i++) {
		struct nam__item *item = &txn->items[bundle->items[i]];

		item->locked = item->head.raw;
	}
	return 0;
}

/* L1: all records are locked before the first END. */
int
nam__locks_prepare(struct nam__txn *txn, struct nam__refusal *ret)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_LOCKING_PREPARE, 0);

	nam__prepare_pack(post, txn); /* SUSPENDS */
	*ret = (struct nam__refusal){ 0 };
	return nam__post_run(post, txn, prepared, ret); /* SUSPENDS */
}

static int
ended(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes, void *arg)
{
	const struct nam_rpc_locking_ended *reply = (const void *)bundle->reply;
	uint32_t *refused_count = arg;
	int rc = nam__retire_answered(txn, bundle, bytes, NULL);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < bundle->count; i++) {
		if (reply->refused >> i & 1)
			++*refused_count;
		else
			txn->items[bundle->items[i]].locked = 0;
	}
	return 0;
}

/*
 * L3: if a lock was sealed meanwhile, the memory server refuses the commit of its writer.
 *
 * @sweep	of all, and only to learn which versions can be retired
 */
NAM_FIBER_FN static int
end(struct nam__txn *txn, uint32_t flags, bool sweep, uint32_t *ret_refused)
{
	struct nam__post *post = nam__post_new(txn, txn->timestamp, NAM_RPC_LOCKING_END, flags);

	*ret_refused = 0;
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *item = &txn->items[i];
		struct nam_rpc_records_version version = { item->head.raw,
			sweep ? 0 : item->at.raw };

		if (sweep || item->locked)
			nam__post_add(post, item->head.raw, i, &version, sizeof(version));
	}
	return nam__post_run(post, txn, ended, ret_refused); /* SUSPENDS */
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
