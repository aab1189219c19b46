/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_many.c -- many keys at once: READs of their buckets, if clients may.  Otherwise, and for the
 * rest, a request for each memory server, at the same time.
 *
 * A memory server answers as many keys of a request as fit into its reply, in their order.  The
 * others go out again in the next round.  Values longer than a message are got one by one.
 */
#include <errno.h>
#include <string.h>

#include "kv_internal.h"

#define OUTSTANDING_MAX 8u			/* requests under way at a time */
#define ITEMS_MAX 1024u			/* looked at at a time */
#define KEYS_MAX 255u			/* of one request */
/* In the place of a memory server's number. */
#define ANSWERED UINT16_MAX
#define ALONE (UINT16_MAX - 1)		/* its value is longer than a message */

struct read {
	struct nam__call call;
	bool under_way;
	uint32_t count;
	uint16_t positions[KEYS_MAX];
	struct nam_rpc_kv_many_request *request;
	struct nam_rpc_kv_many_reply *reply;
};

struct many {
	struct nam_worker *worker;
	struct nam_kv *kv;
	struct nam_kv_item *items;
	uint32_t count;
	uint32_t left;			/* items without an answer */
	int rc;				/* the first failure */
	uint16_t servers[ITEMS_MAX];	/* of each item; or ANSWERED, ALONE */
	bool forgets[ITEMS_MAX];	/* onesided.c: NAM__KV_READ_ASK_AND_FORGET */
	struct read outstanding[OUTSTANDING_MAX];
};

/* A request with the keys of a memory server, as many as fit. */
static void
read_start(struct many *many, struct read *read, uint32_t server)
{
	const uint32_t room = NAM_RPC_BODY_MAX - (uint32_t)sizeof(*read->request);
	uint8_t *to = read->request->bytes;
	uint32_t at = 0;
	int rc;

	read->count = 0;
	for (uint32_t i = 0; i < many->count && read->count < KEYS_MAX; i++) {
		const struct nam_kv_item *item = &many->items[i];

		if (many->servers[i] != server)
			continue;
		if (room - at < 1 + item->key_bytes)
			break;
		to[at] = (uint8_t)item->key_bytes;
		memcpy(to + at + 1, item->key, item->key_bytes);
		at += 1 + item->key_bytes;
		read->positions[read->count++] = (uint16_t)i;
	}
	if (!read->count)
		return;
	*read->request = (struct nam_rpc_kv_many_request){ many->kv->store, read->count, 0 };
	rc = nam__rpc_begin(many->worker, &read->call, many->kv->slots[server],
		NAM_RPC_KV_GET_MANY, read->request, (uint32_t)sizeof(*read->request) + at,
		read->reply, NAM_RPC_BODY_MAX);
	if (rc) {
		many->rc = rc;
		return;
	}
	many->worker->current->counters->round_trips += !read->call.colocated;
	read->under_way = true;
}

static void
answer(struct many *many, struct nam_kv_item *item, const struct nam_rpc_kv_many_result *result,
	const uint8_t *value)
{
	item->rc = result->status;
	if (!item->rc && result->value_bytes > item->size)
		item->rc = nam__kv_too_long(many->worker, many->kv, result->value_bytes,
			item->size);
	if (item->rc == -NAM_E_REMOTE_CORRUPT)
		(void)nam__kv_damaged(many->worker, many->kv, item->key, item->key_bytes);
	if (item->rc)
		return;
	if (result->value_bytes)
		memcpy(item->value, value, result->value_bytes);
	item->value_bytes = result->value_bytes;
}

/* A memory server's reply: each length is checked before its use. */
static int
reply_take(struct many *many, struct read *read, uint32_t bytes)
{
	const struct nam_rpc_kv_many_reply *reply = read->reply;
	uint32_t left = bytes - (uint32_t)sizeof(*reply);
	const uint8_t *from = reply->bytes;

	if (bytes < sizeof(*reply) || !reply->count || reply->count > read->count)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < reply->count; i++) {
		struct nam_rpc_kv_many_result result;

		if (left < sizeof(result))
			return -NAM_E_FABRIC_PROTOCOL;
		memcpy(&result, from, sizeof(result));
		left -= (uint32_t)sizeof(result);
		from += sizeof(result);
		if (result.status > 0 || result.value_bytes > (result.status ? 0 : left))
			return -NAM_E_FABRIC_PROTOCOL;
		answer(many, &many->items[read->positions[i]], &result, from);
		many->servers[read->positions[i]] = result.status == -NAM_E_LIMIT ? ALONE :
			ANSWERED;
		many->left--;
		left -= result.value_bytes;
		from += result.value_bytes;
	}
	return left ? -NAM_E_FABRIC_PROTOCOL : 0;
}

NAM_FIBER_FN static void
read_land(struct many *many, struct read *read)
{
	uint32_t bytes = 0;
	int rc;

	if (!read->under_way)
		return;
	read->under_way = false;
	rc = nam__rpc_await(many->worker, &read->call, &bytes); /* SUSPENDS */
	if (!rc)
		rc = reply_take(many, read, bytes);
	if (rc && !many->rc)
		many->rc = rc;
}

/* A request to each memory server with keys left, as many at a time as there may be. */
NAM_FIBER_FN static void
round_await(struct many *many)
{
	uint32_t outstanding = many->kv->servers < OUTSTANDING_MAX ? many->kv->servers
		: OUTSTANDING_MAX;

	for (uint32_t first = 0; first < many->kv->servers && !many->rc; first += outstanding) {
		for (uint32_t i = 0; i < outstanding && first + i < many->kv->servers &&
			!many->rc; i++)
			read_start(many, &many->outstanding[i], first + i);
		for (uint32_t i = 0; i < outstanding; i++)
			read_land(many, &many->outstanding[i]); /* SUSPENDS */
	}
}

/* A key of a wrong length has its answer.  Others have a memory server, or reads_await() says. */
static void
items_begin(struct many *many)
{
	const struct nam_kv *kv = many->kv;

	many->left = many->count;
	for (uint32_t i = 0; i < many->count; i++) {
		struct nam_kv_item *item = &many->items[i];

		item->rc = nam__kv_key_check(many->worker, kv, item->key_bytes);
		if (item->rc) {
			many->servers[i] = ANSWERED;
			many->left--;
			continue;
		}
		many->servers[i] = kv->layouts || kv->servers == 1 ? 0 :
			(uint16_t)nam__kv_place_of(kv, item->key, item->key_bytes).server;
	}
}

/* The keys of a doorbell: if READs find the pair of a key, it has its answer. */
NAM_FIBER_FN static void
reads_of(struct many *many, const uint32_t *positions, uint32_t count)
{
	struct nam__kv_read reads[NAM__KV_READS_MAX];
	struct nam_kv_item *items[NAM__KV_READS_MAX];

	for (uint32_t i = 0; i < count; i++)
		items[i] = &many->items[positions[i]];
	many->rc = nam__kv_reads(many->worker, many->kv, items, count, reads); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !many->rc; i++) {
		many->forgets[positions[i]] = reads[i].result == NAM__KV_READ_ASK_AND_FORGET;
		many->servers[positions[i]] = (uint16_t)reads[i].server;
		if (reads[i].result != NAM__KV_READ_FOUND)
			continue;
		if (items[i]->rc == -NAM_E_LIMIT)
			items[i]->rc = nam__kv_too_long(many->worker, many->kv,
				items[i]->value_bytes, items[i]->size);
		many->servers[positions[i]] = ANSWERED;
		many->left--;
	}
}

/* As few doorbells as may be, each with as many keys: a short one would wait for each READ. */
NAM_FIBER_FN static void
reads_await(struct many *many)
{
	uint32_t doorbells = (many->left + NAM__KV_READS_MAX - 1) / NAM__KV_READS_MAX;
	uint32_t each = doorbells ? (many->left + doorbells - 1) / doorbells : 0;
	uint32_t positions[NAM__KV_READS_MAX], n = 0;

	for (uint32_t i = 0; i < many->count && !many->rc; i++) {
		many->forgets[i] = false;
		if (many->servers[i] != ANSWERED)
			positions[n++] = i;
		if (n == each || i + 1 == many->count) {
			if (n)
				reads_of(many, positions, n); /* SUSPENDS */
			n = 0;
		}
	}
}

/* Outside of an operation. */
NAM_FIBER_FN static void
alone_await(struct many *many)
{
	for (uint32_t i = 0; i < many->count && !many->rc; i++) {
		struct nam_kv_item *item = &many->items[i];

		if (many->servers[i] != ALONE)
			continue;
		item->rc = nam__kv_get_alone(many->worker, many->kv, item); /* SUSPENDS */
		if (nam_err_is(item->rc, NAM_E_FABRIC) || item->rc == -NAM_E_DROPPED ||
			item->rc == -ENOMEM)
			many->rc = item->rc;
	}
}

int
nam_kv_get_many(struct nam_worker *worker, struct nam_kv *kv, struct nam_kv_item *items,
	uint32_t count)
{
	uint32_t outstanding = kv->servers < OUTSTANDING_MAX ? kv->servers : OUTSTANDING_MAX;
	struct many *many = nam_buffer_take(worker, sizeof(*many));
	uint8_t *messages = nam_buffer_take(worker, 2 * outstanding * NAM_RPC_BYTES_MAX);
	int rc = -ENOMEM;

	if (!many || !messages)
		goto give;
	/* Not all of it: it is long. */
	many->worker = worker;
	many->kv = kv;
	many->rc = 0;
	for (uint32_t i = 0; i < outstanding; i++) {
		many->outstanding[i].under_way = false;
		many->outstanding[i].request = (void *)(messages + 2 * i * NAM_RPC_BYTES_MAX);
		many->outstanding[i].reply = (void *)(messages + (2 * i + 1) * NAM_RPC_BYTES_MAX);
	}
	nam__op_begin(worker, NAM_OP_LOOKUP);
	worker->current->counters->ops += count ? count - 1 : 0;
	for (uint32_t at = 0; at < count && !many->rc; at += many->count) {
		many->items = items + at;
		many->count = count - at < ITEMS_MAX ? count - at : ITEMS_MAX;
		items_begin(many);
		if (kv->layouts)
			reads_await(many); /* SUSPENDS */
		while (many->left && !many->rc)
			round_await(many); /* SUSPENDS */
		for (uint32_t i = 0; kv->layouts && !many->rc && i < many->count; i++)
			if (many->forgets[i] && many->items[i].rc != -NAM_E_NOTFOUND)
				nam__kv_layout_forget(kv, many->items[i].key,
					many->items[i].key_bytes);
		nam__op_end(worker);
		alone_await(many); /* SUSPENDS */
		nam__op_resume(worker, NAM_OP_LOOKUP);
	}
	nam__op_end(worker);
	rc = nam__kv_explain(worker, kv, many->rc);
give:
	nam_buffer_give(worker, messages, 2 * outstanding * NAM_RPC_BYTES_MAX);
	nam_buffer_give(worker, many, sizeof(*many));
	return rc;
}
