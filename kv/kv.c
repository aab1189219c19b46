/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c -- one key: get, put, delete; one request, one reply unless the value is long. */
#include <errno.h>
#include <string.h>

#include "kv_internal.h"

/* A request without a value. */
union request {
	struct nam_rpc_kv_key_request head;
	uint8_t bytes[sizeof(struct nam_rpc_kv_key_request) + NAM_KV_KEY_BYTES_MAX];
};

int
nam__kv_key_check(struct nam_worker *worker, const struct nam_kv *kv, uint32_t key_bytes)
{
	if (key_bytes >= 1 && key_bytes <= NAM_KV_KEY_BYTES_MAX)
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "store '%s': a key of %u bytes; keys "
		"have 1 to %u", kv->name, key_bytes, NAM_KV_KEY_BYTES_MAX);
}

/* A memory server's answer to a client with an open handle of a dropped store. */
int
nam__kv_explain(struct nam_worker *worker, const struct nam_kv *kv, int rc)
{
	if (rc == -NAM_E_DROPPED)
		return nam_diag_set(&worker->diag, rc, "store '%s' was dropped, or a memory server "
			"was restarted: close the handle", kv->name);
	if (rc == -NAM_E_PARTITION)
		return nam_diag_set(&worker->diag, rc, "store '%s' is not what it was when it was "
			"opened: close the handle, and open it again", kv->name);
	return rc;
}

int
nam__kv_damaged(struct nam_worker *worker, const struct nam_kv *kv, const void *key,
	uint32_t key_bytes)
{
	struct nam__kv_place place = nam__kv_place_of(kv, key, key_bytes);

	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT, "store '%s': pairs of partition "
		"%u of the memory server at %s, where the key belongs, were overwritten: drop the "
		"store, and load it anew", kv->name, place.partition,
		worker->client->servers[kv->slots[place.server]].address);
}

static uint32_t
slot_of(const struct nam_kv *kv, const void *key, uint32_t key_bytes)
{
	return kv->slots[nam__kv_place_of(kv, key, key_bytes).server];
}

static uint32_t
request_fill(struct nam_rpc_kv_key_request *request, const struct nam_kv *kv, const void *key,
	uint32_t key_bytes, uint32_t value_bytes)
{
	*request = (struct nam_rpc_kv_key_request){
		.store = kv->store,
		.key_bytes = (uint16_t)key_bytes,
		.value_bytes = (uint16_t)value_bytes,
	};
	memcpy(request->bytes, key, key_bytes);
	return (uint32_t)sizeof(*request) + key_bytes + value_bytes;
}

/* ---- get ----------------------------------------------------------------------------------- */

/* If the value fits into a message; else -NAM_E_LIMIT. */
NAM_FIBER_FN static int
get_short(struct nam_worker *worker, struct nam_kv *kv, uint32_t slot, const void *key,
	uint32_t key_bytes, void *value, uint32_t size, uint32_t *ret_bytes)
{
	uint32_t bytes = NAM_KV_MESSAGE_BYTES_MAX;
	union request request;
	uint8_t *reply = value;
	int rc;

	/* Otherwise a value that is too long for the caller's buffer would fail the call. */
	if (size < bytes)
		reply = nam_buffer_take(worker, bytes);
	if (!reply)
		return -ENOMEM;
	rc = nam_rpc_call(worker, slot, NAM_RPC_KV_GET, &request,
		request_fill(&request.head, kv, key, key_bytes, 0), reply, &bytes); /* SUSPENDS */
	if (!rc && bytes <= size && reply != value && bytes)
		memcpy(value, reply, bytes);
	if (!rc)
		*ret_bytes = bytes;
	if (reply != value)
		nam_buffer_give(worker, reply, NAM_KV_MESSAGE_BYTES_MAX);
	return rc;
}

int
nam_kv_get(struct nam_worker *worker, struct nam_kv *kv, const void *key, uint32_t key_bytes,
	void *value, uint32_t size, uint32_t *ret_bytes)
{
	struct nam_kv_item item = { .key = key, .key_bytes = key_bytes, .value = value,
		.size = size };
	struct nam__kv_read read = { .result = NAM__KV_READ_ASK };
	uint32_t bytes = 0;
	bool large = false;
	int rc = nam__kv_key_check(worker, kv, key_bytes);

	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_LOOKUP);
	if (kv->layouts)
		rc = nam__kv_reads(worker, kv, (struct nam_kv_item *[]){ &item }, 1,
			&read); /* SUSPENDS */
	if (!rc && read.result == NAM__KV_READ_FOUND) {
		rc = item.rc;
		bytes = item.value_bytes;
	} else if (!rc) {
		rc = get_short(worker, kv, slot_of(kv, key, key_bytes), key, key_bytes, value,
			size, &bytes); /* SUSPENDS */
		large = rc == -NAM_E_LIMIT;
		if (!rc && bytes > size)
			rc = -NAM_E_LIMIT;
		if ((!rc || large) && read.result == NAM__KV_READ_ASK_AND_FORGET)
			nam__kv_layout_forget(kv, key, key_bytes);
	}
	nam__op_end(worker);
	if (large) {
		rc = nam__kv_get_alone(worker, kv, &item); /* SUSPENDS */
		bytes = item.value_bytes;
	} else if (rc == -NAM_E_LIMIT) {
		return nam__kv_too_long(worker, kv, bytes, size);
	} else if (rc == -NAM_E_REMOTE_CORRUPT) {
		return nam__kv_damaged(worker, kv, key, key_bytes);
	}
	if (!rc)
		*ret_bytes = bytes;
	return nam__kv_explain(worker, kv, rc);
}

/* ---- put ----------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
put_short(struct nam_worker *worker, struct nam_kv *kv, uint32_t slot, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	struct nam_rpc_kv_key_request *request = nam_buffer_take(worker, NAM_RPC_BYTES_MAX);
	uint32_t none = 0, bytes;
	int rc;

	if (!request)
		return -ENOMEM;
	bytes = request_fill(request, kv, key, key_bytes, value_bytes);
	if (value_bytes)
		memcpy(request->bytes + key_bytes, value, value_bytes);
	rc = nam_rpc_call(worker, slot, NAM_RPC_KV_PUT, request, bytes, NULL,
		&none); /* SUSPENDS */
	nam_buffer_give(worker, request, NAM_RPC_BYTES_MAX);
	return rc;
}

int
nam_kv_put(struct nam_worker *worker, struct nam_kv *kv, const void *key, uint32_t key_bytes,
	const void *value, uint32_t value_bytes)
{
	int rc = nam__kv_key_check(worker, kv, key_bytes);
	bool large = value_bytes > NAM_KV_MESSAGE_BYTES_MAX, sent = true;
	unsigned tries = 0;
	uint32_t slot;

	if (!rc)
		rc = nam__change_check(worker);
	if (rc)
		return rc;
	if (value_bytes > NAM_KV_VALUE_BYTES_MAX)
		return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "store '%s': a value of %u bytes; "
			"values have up to %u", kv->name, value_bytes, NAM_KV_VALUE_BYTES_MAX);
	slot = slot_of(kv, key, key_bytes);
	nam__op_begin(worker, NAM_OP_UPSERT);
again:
	rc = large ? nam__kv_large_put(worker, kv, slot, key, key_bytes, value, value_bytes,
		&sent) : put_short(worker, kv, slot, key, key_bytes, value,
		value_bytes); /* SUSPENDS */
	nam__op_end(worker);
	/* If nothing was sent, no memory of clients was free for a value on its way. */
	if (!sent && nam__memory_retry(worker, rc, &tries)) { /* SUSPENDS */
		nam__op_resume(worker, NAM_OP_UPSERT);
		goto again;
	}
	if (sent && rc == -NAM_E_REMOTE_FULL)
		return nam_diag_set(&worker->diag, rc, "store '%s' has no room for a pair of %u "
			"bytes where its key belongs. Delete others, or make a larger store, or "
			"one of fewer partitions", kv->name, key_bytes + value_bytes);
	if (large && rc == -NAM_E_REMOTE_CORRUPT)
		return nam_diag_set(&worker->diag, rc, "store '%s': another client has written "
			"over a value of %u bytes on its way, or over pairs", kv->name,
			value_bytes);
	if (rc == -NAM_E_REMOTE_CORRUPT)
		return nam__kv_damaged(worker, kv, key, key_bytes);
	return nam__kv_explain(worker, kv, rc);
}

/* ---- delete -------------------------------------------------------------------------------- */

int
nam_kv_delete(struct nam_worker *worker, struct nam_kv *kv, const void *key, uint32_t key_bytes)
{
	union request request;
	uint32_t none = 0;
	int rc = nam__kv_key_check(worker, kv, key_bytes);

	if (!rc)
		rc = nam__change_check(worker);
	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_DELETE);
	rc = nam_rpc_call(worker, slot_of(kv, key, key_bytes), NAM_RPC_KV_DELETE, &request,
		request_fill(&request.head, kv, key, key_bytes, 0), NULL, &none); /* SUSPENDS */
	nam__op_end(worker);
	return nam__kv_explain(worker, kv, rc);
}
