/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_large.c -- values longer than a message: they travel through staging blocks, which are public
 * memory of the key's memory server.
 *
 * A block is an operation's own until it ends.  Between operations the worker's block cache keeps
 * it.  Any client can write to public memory, so both sides check what they read there (K10).
 */
#include <errno.h>
#include <string.h>

#include "common/hash/hash.h"
#include "kv_internal.h"

_Static_assert((NAM_RPC_KV_STAGING_BYTES - NAM_NODE_STAGGER_BYTES) &
	(NAM_RPC_KV_STAGING_BYTES - NAM_NODE_STAGGER_BYTES - 1), "no stride of nodes");
_Static_assert(NAM_RPC_KV_STAGING_MAX <= NAM_BATCH_MAX, "one doorbell");

struct staging {
	struct nam_worker *worker;
	uint32_t slot;			/* the memory server */
	uint32_t count;
	struct nam_gaddr blocks[NAM_RPC_KV_STAGING_MAX];
};

union large_request {
	struct nam_rpc_kv_large_request head;
	uint8_t bytes[sizeof(struct nam_rpc_kv_large_request) +
		NAM_RPC_KV_STAGING_MAX * sizeof(uint64_t) + NAM_KV_KEY_BYTES_MAX];
};

/* Whether what failed may still be carried out, at any time. */
static inline bool
may_be_late(int rc)
{
	return nam_err_is(rc, NAM_E_FABRIC) || nam_err_is(rc, NAM_E_FENCED);
}

/* ---- staging blocks ------------------------------------------------------------------------ */

/* Take as many staging blocks as a value of so many bytes needs. */
NAM_FIBER_FN static int
staging_reserve(struct staging *staging, uint32_t bytes)
{
	while (staging->count < nam_rpc_kv_staging_count(bytes)) {
		struct nam_gaddr *block = &staging->blocks[staging->count];
		int rc = nam_alloc_on(staging->worker, staging->slot, NAM_RPC_KV_STAGING_BYTES,
			block); /* SUSPENDS */

		if (rc)
			return rc;
		*block = nam_gaddr_untagged(*block);
		staging->count++;
	}
	return 0;
}

/*
 * K11: a request may yet be carried out and then write to its blocks.  They become no other
 * value's, and no other object's.
 */
static void
staging_give(struct staging *staging, bool in_doubt)
{
	struct nam_worker *worker = staging->worker;

	while (staging->count) {
		struct nam_gaddr block = staging->blocks[--staging->count];

		if (NAM_GUARD(KV_IN_DOUBT) && in_doubt)
			nam__block_leaked(worker->client, NAM_RPC_KV_STAGING_BYTES);
		else
			nam_free_unseen(worker, block, NAM_RPC_KV_STAGING_BYTES);
	}
}

/*
 * One doorbell: READ a value from its blocks, or WRITE it there.  K10: any client can write there,
 * so the side that reads compares the hash.
 */
NAM_FIBER_FN static int
staging_move(const struct staging *staging, bool write, uint8_t *local, uint32_t bytes)
{
	const struct nam_gaddr *block = staging->blocks;
	struct nam_batch batch;

	nam_batch_init(&batch, staging->worker);
	for (uint32_t at = 0, n; at < bytes; at += n, block++) {
		n = bytes - at < NAM_RPC_KV_STAGING_BYTES ? bytes - at : NAM_RPC_KV_STAGING_BYTES;
		if (write)
			nam_batch_write(&batch, *block, 0, local + at, n);
		else
			nam_batch_read(&batch, *block, local + at, n);
	}
	return nam_batch_await(&batch); /* SUSPENDS */
}

/* A request with the addresses of all blocks.  Returns its length. */
static uint32_t
request_fill(union large_request *request, const struct staging *staging, const struct nam_kv *kv,
	const void *key, uint32_t key_bytes)
{
	const uint32_t blocks_bytes = staging->count * (uint32_t)sizeof(uint64_t);
	uint64_t *blocks = request->head.blocks;

	request->head = (struct nam_rpc_kv_large_request){
		.store = kv->store,
		.key_bytes = (uint16_t)key_bytes,
		.count = (uint16_t)staging->count,
	};
	for (uint32_t i = 0; i < staging->count; i++)
		blocks[i] = staging->blocks[i].raw;
	memcpy((uint8_t *)blocks + blocks_bytes, key, key_bytes);
	return (uint32_t)sizeof(request->head) + blocks_bytes + key_bytes;
}

/* ---- put ----------------------------------------------------------------------------------- */

int
nam__kv_large_put(struct nam_worker *worker, struct nam_kv *kv, uint32_t slot, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes, bool *ret_staged)
{
	struct staging staging = { .worker = worker, .slot = slot };
	uint8_t *buffer = nam_buffer_take(worker, value_bytes);
	union large_request request;
	uint32_t none = 0, bytes;
	bool in_doubt = false;
	int rc = buffer ? staging_reserve(&staging, value_bytes) : -ENOMEM; /* SUSPENDS */

	*ret_staged = false;
	if (rc)
		goto give;
	memcpy(buffer, value, value_bytes);
	rc = staging_move(&staging, true, buffer, value_bytes); /* SUSPENDS */
	in_doubt = may_be_late(rc);
	if (rc)
		goto give;
	nam_race_point("kv.staged");
	*ret_staged = true;
	bytes = request_fill(&request, &staging, kv, key, key_bytes);
	request.head.value_bytes = value_bytes;
	request.head.checksum = nam_hash64(buffer, value_bytes);
	/* A late PUT only reads the blocks, and by K10 it stores no bytes but these. */
	rc = nam_rpc_call(worker, slot, NAM_RPC_KV_PUT_LARGE, &request, bytes, NULL,
		&none); /* SUSPENDS */
give:
	staging_give(&staging, in_doubt);
	nam_buffer_give(worker, buffer, value_bytes);
	return rc;
}

/* ---- get ----------------------------------------------------------------------------------- */

/* Where the value fits into the blocks, it is there afterwards. */
NAM_FIBER_FN static int
ask(struct staging *staging, struct nam_kv *kv, const struct nam_kv_item *item,
	struct nam_rpc_kv_large_reply *ret_reply)
{
	uint32_t bytes = sizeof(*ret_reply);
	union large_request request;
	int rc = nam_rpc_call(staging->worker, staging->slot, NAM_RPC_KV_GET_LARGE, &request,
		request_fill(&request, staging, kv, item->key, item->key_bytes), ret_reply,
		&bytes); /* SUSPENDS */

	if (!rc && (bytes != sizeof(*ret_reply) || ret_reply->reserved ||
		ret_reply->value_bytes > NAM_KV_VALUE_BYTES_MAX))
		return -NAM_E_FABRIC_PROTOCOL;
	return rc;
}

/* K10: the checksum is of the client's own copy. */
NAM_FIBER_FN static int
fetch(struct staging *staging, const struct nam_kv *kv, const struct nam_rpc_kv_large_reply *reply,
	void *value)
{
	struct nam_worker *worker = staging->worker;
	uint32_t bytes = reply->value_bytes;
	uint8_t *buffer = nam_buffer_take(worker, bytes);
	int rc = buffer ? 0 : -ENOMEM;

	if (!rc)
		rc = staging_move(staging, false, buffer, bytes); /* SUSPENDS */
	if (!rc && NAM_GUARD(KV_STAGED) && nam_hash64(buffer, bytes) != reply->checksum)
		rc = nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "store '%s': another "
			"client has written over a value of %u bytes on its way", kv->name, bytes);
	if (!rc && bytes)
		memcpy(value, buffer, bytes);
	nam_buffer_give(worker, buffer, bytes);
	return rc;
}

/* @ret_bytes	also set if the item has less room than that: -NAM_E_LIMIT */
NAM_FIBER_FN static int
get(struct nam_worker *worker, struct nam_kv *kv, const struct nam_kv_item *item,
	uint32_t *ret_bytes)
{
	uint32_t server = nam__kv_place_of(kv, item->key, item->key_bytes).server;
	struct staging staging = { .worker = worker, .slot = kv->slots[server] };
	struct nam_rpc_kv_large_reply reply = { .value_bytes = 1 };
	bool in_doubt = false;
	int rc;

	/* Each turn has more blocks than the last one. */
	do {
		rc = staging_reserve(&staging, reply.value_bytes); /* SUSPENDS */
		if (rc)
			break;
		rc = ask(&staging, kv, item, &reply); /* SUSPENDS */
		in_doubt = may_be_late(rc);
		if (!rc && reply.value_bytes > item->size)
			rc = -NAM_E_LIMIT;
	} while (!rc && nam_rpc_kv_staging_count(reply.value_bytes) > staging.count);
	if (!rc) {
		/* K10: another client may write to the blocks, and the checksum tells. */
		nam_race_point("kv.got_large");
		rc = fetch(&staging, kv, &reply, item->value); /* SUSPENDS */
	}
	staging_give(&staging, in_doubt);
	if (!rc || rc == -NAM_E_LIMIT)
		*ret_bytes = reply.value_bytes;
	return rc;
}

int
nam__kv_too_long(struct nam_worker *worker, const struct nam_kv *kv, uint32_t bytes, uint32_t room)
{
	return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "store '%s': a value of %u bytes, and "
		"room for %u", kv->name, bytes, room);
}

int
nam__kv_get_alone(struct nam_worker *worker, struct nam_kv *kv, struct nam_kv_item *item)
{
	uint32_t bytes = 0;
	unsigned tries = 0;
	int rc;

	do {
		nam__op_resume(worker, NAM_OP_LOOKUP);
		rc = get(worker, kv, item, &bytes); /* SUSPENDS */
		nam__op_end(worker);
	} while (nam__memory_retry(worker, rc, &tries)); /* SUSPENDS */
	if (rc == -NAM_E_LIMIT)
		return nam__kv_too_long(worker, kv, bytes, item->size);
	if (!rc)
		item->value_bytes = bytes;
	return rc;
}
