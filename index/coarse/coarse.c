/* SPDX-License-Identifier: Apache-2.0 */
/* coarse.c -- the coarse-grained design: its table, lookups and changes. */
#include <errno.h>

#include "coarse.h"
#include "index/design.h"
#include "index/parts_scan.h"
#include "index/tree_load.h"

#define CALLS_MAX 8u			/* of a lookup of many keys, under way at a time */
#define LOOKUPS_MAX 128u		/* of one request */
#define KEYS_MAX 4096u			/* looked up in one go */

/* A request for one pair, and the reply to it. */
union request {
	struct nam_rpc_tree_point_request head;
	uint8_t bytes[sizeof(struct nam_rpc_tree_point_request) + 8 * (NAM__KEY_WORDS_MAX + 1)];
};

union reply {
	struct nam_rpc_tree_point_reply head;
	uint8_t bytes[sizeof(struct nam_rpc_tree_point_reply) +
		sizeof(struct nam_rpc_tree_point_result)];
};

int
nam__tree_point(struct nam_worker *worker, struct nam_index *index, uint32_t slot,
	enum nam_rpc_tree_point kind, const uint64_t *key, unsigned key_words, uint64_t payload,
	uint64_t *ret_payload)
{
	union request request;
	union reply reply;
	uint64_t since_ns = 0;

	request.head = (struct nam_rpc_tree_point_request){
		.tree = index->tree,
		.kind = (uint16_t)kind,
		.count = 1,
	};
	memcpy(request.head.pairs, key, 8 * key_words);
	request.head.pairs[key_words] = payload;
	for (unsigned tries = 0;; tries++) {
		uint32_t bytes = sizeof(reply);
		int rc = nam_rpc_call(worker, slot, NAM_RPC_TREE_POINT, &request,
			(uint32_t)sizeof(request.head) + 8 * (key_words + 1), &reply,
			&bytes); /* SUSPENDS */

		if (!rc && (bytes != sizeof(reply) || reply.head.count != 1))
			return -NAM_E_FABRIC_PROTOCOL;
		if (!rc)
			rc = (int)reply.head.results[0].status;
		if (!rc && ret_payload)
			*ret_payload = reply.head.results[0].payload;
		/* Only the request as a whole is refused so. */
		if (rc != -NAM_E_RESTART_LOCKED)
			return rc;
		nam__count_restart(worker, NAM_RESTART_LOCKED);
		rc = nam__tree_load_wait(worker, index, tries, &since_ns); /* SUSPENDS */
		if (rc)
			return rc;
	}
}

/* @kind counts the operation, @point is what the memory server is to do. */
NAM_FIBER_FN static int
point(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind,
	enum nam_rpc_tree_point point, const void *key, uint64_t payload, uint64_t *ret_payload)
{
	struct nam__key full;
	int rc;

	nam__key_encode(&index->g, key, payload, &full);
	nam__op_begin(worker, kind);
	rc = nam__tree_point(worker, index, index->parts->slots[nam__part_of(index, full.w)],
		point, full.w, index->g.key_words, payload, ret_payload); /* SUSPENDS */
	nam__op_end(worker);
	return rc == -NAM_E_REMOTE_FULL ? nam__part_full(worker, index, nam__part_of(index,
		full.w)) : rc;
}

NAM_FIBER_FN static int
lookup(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t *ret_payload)
{
	return point(worker, index, NAM_OP_LOOKUP, NAM_RPC_TREE_LOOKUP, key, 0,
		ret_payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
change(struct nam_worker *worker, struct nam_index *index, enum nam_op_kind kind, const void *key,
	uint64_t payload)
{
	static const enum nam_rpc_tree_point points[NAM_OP_KINDS_COUNT] = {
		[NAM_OP_INSERT] = NAM_RPC_TREE_INSERT,
		[NAM_OP_UPSERT] = NAM_RPC_TREE_UPSERT,
		[NAM_OP_UPDATE] = NAM_RPC_TREE_UPDATE,
		[NAM_OP_DELETE] = NAM_RPC_TREE_DELETE,
	};

	return point(worker, index, kind, points[kind], key, payload, NULL); /* SUSPENDS */
}

NAM_FIBER_FN static int
delete_pair(struct nam_worker *worker, struct nam_index *index, const void *key, uint64_t payload)
{
	return point(worker, index, NAM_OP_DELETE, NAM_RPC_TREE_DELETE_PAIR, key, payload,
		NULL); /* SUSPENDS */
}

/* Some of the keys, all of one part, on their way. */
struct read {
	struct nam__call call;
	bool under_way;
	uint32_t count;
	uint32_t positions[LOOKUPS_MAX];
	struct nam_rpc_tree_point_request *request;
	struct nam_rpc_tree_point_reply *reply;
};

struct many {
	struct nam_worker *worker;
	struct nam_index *index;
	const uint8_t *keys;
	uint64_t *ret_payloads;
	int *ret_rcs;
	int rc;				/* the first failure of the fabric */
	struct read outstanding[CALLS_MAX];
};

NAM_FIBER_FN static void
read_land(struct many *many, struct read *read)
{
	uint32_t bytes = 0;
	int rc;

	if (!read->under_way)
		return;
	read->under_way = false;
	rc = nam__rpc_await(many->worker, &read->call, &bytes); /* SUSPENDS */
	if (!rc && (bytes != sizeof(*read->reply) +
				    read->count * sizeof(read->reply->results[0]) ||
			   read->reply->count != read->count))
		rc = -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < read->count && !rc; i++) {
		uint32_t position = read->positions[i];

		many->ret_rcs[position] = (int)read->reply->results[i].status;
		if (!many->ret_rcs[position])
			many->ret_payloads[position] = read->reply->results[i].payload;
	}
	if (!many->rc)
		many->rc = rc;
	read->count = 0;
}

static void
read_start(struct many *many, struct read *read, uint32_t part)
{
	uint32_t words = many->index->g.key_words + 1;
	int rc;

	*read->request = (struct nam_rpc_tree_point_request){
		.tree = many->index->tree,
		.kind = NAM_RPC_TREE_LOOKUP,
		.count = (uint16_t)read->count,
	};
	rc = nam__rpc_begin(many->worker, &read->call, many->index->parts->slots[part],
		NAM_RPC_TREE_POINT, read->request,
		(uint32_t)sizeof(*read->request) + 8 * words * read->count, read->reply,
		NAM_RPC_BODY_MAX);
	if (rc) {
		if (!many->rc)
			many->rc = rc;
		read->count = 0;
		return;
	}
	if (!read->call.colocated)
		many->worker->current->counters->round_trips++;
	read->under_way = true;
}

/* Call i collects keys of the parts i, i + CALLS_MAX, ...: those of one at a time. */
NAM_FIBER_FN static void
look_up_part(struct many *many, uint32_t part, const uint32_t *parts, uint32_t count)
{
	const struct nam__geometry *g = &many->index->g;
	struct read *read = &many->outstanding[part % CALLS_MAX];
	uint32_t most = NAM_RPC_TREE_POINTS_MAX(g->key_words);

	if (most > LOOKUPS_MAX)
		most = LOOKUPS_MAX;
	read_land(many, read); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !many->rc; i++) {
		uint64_t *pair;
		struct nam__key key;

		if (parts[i] != part)
			continue;
		if (read->count == most) {
			read_start(many, read, part);
			read_land(many, read); /* SUSPENDS */
		}
		pair = read->request->pairs + read->count * (size_t)(g->key_words + 1);
		nam__key_encode(g, many->keys + (size_t)i * g->key_bytes, 0, &key);
		memcpy(pair, key.w, 8 * g->key_words);
		pair[g->key_words] = 0;
		read->positions[read->count++] = i;
	}
	if (read->count && !many->rc)
		read_start(many, read, part);
}

NAM_FIBER_FN static int
look_up_some(struct nam_worker *worker, struct nam_index *index, const uint8_t *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	struct many *many = nam_buffer_take(worker, sizeof(*many));
	uint8_t *messages = nam_buffer_take(worker, 2 * CALLS_MAX * NAM_RPC_BYTES_MAX);
	uint32_t *parts = nam_buffer_take(worker, count * (uint32_t)sizeof(*parts));
	struct nam__key key;
	int rc = -ENOMEM;

	if (!many || !messages || !parts)
		goto give;
	many->worker = worker;
	many->index = index;
	many->keys = keys;
	many->ret_payloads = ret_payloads;
	many->ret_rcs = ret_rcs;
	many->rc = 0;
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		many->outstanding[i].under_way = false;
		many->outstanding[i].count = 0;
		many->outstanding[i].request = (void *)(messages + 2 * i * NAM_RPC_BYTES_MAX);
		many->outstanding[i].reply = (void *)(messages + (2 * i + 1) * NAM_RPC_BYTES_MAX);
	}
	for (uint32_t i = 0; i < count; i++) {
		nam__key_encode(&index->g, keys + (size_t)i * index->g.key_bytes, 0, &key);
		parts[i] = nam__part_of(index, key.w);
	}
	for (uint32_t part = 0; part < index->parts->count && !many->rc; part++)
		look_up_part(many, part, parts, count); /* SUSPENDS */
	for (unsigned i = 0; i < CALLS_MAX; i++)
		read_land(many, &many->outstanding[i]); /* SUSPENDS */
	rc = many->rc;
give:
	nam_buffer_give(worker, parts, count * (uint32_t)sizeof(*parts));
	nam_buffer_give(worker, messages, 2 * CALLS_MAX * NAM_RPC_BYTES_MAX);
	nam_buffer_give(worker, many, sizeof(*many));
	return rc;
}

NAM_FIBER_FN static int
lookup_many(struct nam_worker *worker, struct nam_index *index, const void *keys,
	uint32_t count, uint64_t *ret_payloads, int *ret_rcs)
{
	int rc = 0;

	nam__op_begin(worker, NAM_OP_LOOKUP);
	worker->counters[NAM_OP_LOOKUP].ops += (uint64_t)count - 1;
	for (uint32_t i = 0; i < count && !rc; i += KEYS_MAX)
		rc = look_up_some(worker, index,
			(const uint8_t *)keys + (size_t)i * index->g.key_bytes,
			count - i < KEYS_MAX ? count - i : KEYS_MAX, ret_payloads + i,
			ret_rcs + i); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

const struct nam__index_ops nam__coarse_ops = {
	.open = nam__parts_open,
	.close = nam__parts_close,
	.free = nam__parts_free,
	.lookup = lookup,
	.lookup_many = lookup_many,
	.change = change,
	.delete_pair = delete_pair,
	.change_many = nam__coarse_change_many,
	.cursor_open = nam__parts_scan_open,
	.cursor_next = nam__parts_scan_next,
	.cursor_next_entries = nam__parts_scan_next_entries,
	.cursor_close = nam__parts_scan_close,
	.reader = &nam__page_reader,
	.bulk_load = nam__coarse_bulk_load,
	.stat = nam__coarse_stat,
	.verify = nam__coarse_verify,
	.collect = nam__coarse_collect,
};
