/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_many.c -- many changes of a coarse-grained index: rounds of messages, one for each kind of
 * change and memory server.  They may be carried out in any order, and a change that finds no
 * memory may be tried again.  So a round has one change of each key at the most.
 */
#include <errno.h>
#include <string.h>

#include "coarse.h"
#include "compute/remote/reclaim.h"
#include "index/design.h"

/* A change has one of these instead of the number of its message. */
#define WAITS 0xffu			/* for a later round */
#define DONE 0xfeu

/* Pairs of one kind for one memory server. */
struct message {
	uint32_t part;
	enum nam_change_kind kind;
	uint32_t count;
	uint32_t at;			/* so many were filled in, or looked at */
	struct nam_rpc_tree_point_request *request;
	struct nam_rpc_tree_point_reply *reply;
};

struct many {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_index_change *changes;
	const struct nam__sorted *sorted;
	uint32_t count;
	uint32_t left;			/* without an rc */
	unsigned tries;			/* for memory to come back */
	uint32_t messages_count;
	uint32_t pair_bytes;
	uint8_t *bytes;			/* of the messages and their replies */
	uint8_t *message_of;		/* [count], or WAITS, or DONE */
	struct message messages[NAM_CALLS_MAX];
	struct nam_call calls[NAM_CALLS_MAX];
};

static inline struct nam_index_change *
change_at(const struct many *many, uint32_t i)
{
	return &many->changes[many->sorted[i].number];
}

/* The message that takes a change, WAITS if there are as many as can be. */
static uint8_t
message_for(struct many *many, uint32_t part, enum nam_change_kind kind)
{
	uint32_t most = NAM_RPC_TREE_POINTS_MAX(many->index->g.key_words);

	/* Changes come in the order of parts: the message is one of the last. */
	for (uint32_t i = many->messages_count; i-- > 0 && many->messages[i].part == part;)
		if (many->messages[i].kind == kind && many->messages[i].count < most)
			return (uint8_t)i;
	if (many->messages_count == NAM_CALLS_MAX)
		return WAITS;
	many->messages[many->messages_count] = (struct message){ .part = part, .kind = kind };
	return (uint8_t)many->messages_count++;
}

/* The first change of each key that is left, as far as there are messages for them. */
static void
choose(struct many *many)
{
	const struct nam_index_change *last = NULL;

	many->messages_count = 0;
	for (uint32_t i = 0; i < many->count; i++) {
		const struct nam_index_change *change = change_at(many, i);

		if (many->message_of[i] == DONE)
			continue;
		if (!last || !nam__change_same_key(&many->index->g, last, change)) {
			many->message_of[i] = message_for(many, many->sorted[i].part, change->kind);
			if (many->message_of[i] != WAITS)
				many->messages[many->message_of[i]].count++;
		}
		last = change;
	}
}

static void
messages_begin(struct many *many)
{
	static const uint16_t points[] = {
		[NAM_CHANGE_INSERT] = NAM_RPC_TREE_INSERT,
		[NAM_CHANGE_UPSERT] = NAM_RPC_TREE_UPSERT,
		[NAM_CHANGE_UPDATE] = NAM_RPC_TREE_UPDATE,
		[NAM_CHANGE_DELETE] = NAM_RPC_TREE_DELETE,
		[NAM_CHANGE_DELETE_PAIR] = NAM_RPC_TREE_DELETE_PAIR,
	};
	uint8_t *bytes = many->bytes;

	for (uint32_t i = 0; i < many->messages_count; i++) {
		struct message *message = &many->messages[i];
		struct nam_call *call = &many->calls[i];

		message->request = (void *)bytes;
		*message->request = (struct nam_rpc_tree_point_request){
			.tree = many->index->tree,
			.kind = points[message->kind],
			.count = (uint16_t)message->count,
		};
		*call = (struct nam_call){
			.slot = many->index->parts->slots[message->part],
			.type = NAM_RPC_TREE_POINT,
			.body = message->request,
			.body_bytes = (uint32_t)sizeof(*message->request) +
				many->pair_bytes * message->count,
			.reply_size = (uint32_t)(sizeof(*message->reply) +
				message->count * sizeof(message->reply->results[0])),
			.rc = -ENOMEM,		/* stays if none was sent */
		};
		bytes += call->body_bytes;
		call->reply = bytes;
		message->reply = (void *)bytes;
		bytes += call->reply_size;
	}
}

static void
messages_fill(struct many *many)
{
	const struct nam__geometry *g = &many->index->g;

	for (uint32_t i = 0; i < many->count; i++) {
		const struct nam_index_change *change = change_at(many, i);
		struct message *message;
		struct nam__key key;
		uint64_t *pair;

		if (many->message_of[i] >= many->messages_count)
			continue;
		message = &many->messages[many->message_of[i]];
		pair = message->request->pairs + message->at++ * (size_t)(g->key_words + 1);
		nam__key_encode(g, change->key, 0, &key);
		memcpy(pair, key.w, 8 * g->key_words);
		pair[g->key_words] = change->kind == NAM_CHANGE_DELETE ? 0 : change->payload;
		many->worker->counters[nam__change_op(change->kind)].ops++;
	}
}

static void
replies_take(struct many *many)
{
	for (uint32_t i = 0; i < many->messages_count; i++) {
		struct nam_call *call = &many->calls[i];

		many->messages[i].at = 0;
		if (!call->rc && (call->reply_bytes != call->reply_size ||
					 many->messages[i].reply->count != many->messages[i].count))
			call->rc = -NAM_E_FABRIC_PROTOCOL;
	}
	for (uint32_t i = 0; i < many->count; i++) {
		uint8_t number = many->message_of[i];
		struct message *message;

		if (number >= many->messages_count)
			continue;
		message = &many->messages[number];
		change_at(many, i)->rc = many->calls[number].rc ? many->calls[number].rc :
			(int)message->reply->results[message->at].status;
		message->at++;
	}
}

/* Alone, and counted once. */
NAM_FIBER_FN static int
change_again(struct many *many, const struct nam_index_change *change)
{
	const struct nam__index_ops *ops = many->index->ops;
	enum nam_op_kind kind = nam__change_op(change->kind);

	many->worker->counters[kind].ops--;
	if (change->kind == NAM_CHANGE_DELETE_PAIR)
		return ops->delete_pair(many->worker, many->index, change->key,
			change->payload); /* SUSPENDS */
	return ops->change(many->worker, many->index, kind, change->key,
		change->payload); /* SUSPENDS */
}

/* The round is over but for changes that a bulk load kept out, or for which memory came back. */
NAM_FIBER_FN static void
round_end(struct many *many)
{
	for (uint32_t i = 0; i < many->count; i++) {
		struct nam_index_change *change = change_at(many, i);

		if (many->message_of[i] >= many->messages_count)
			continue;
		many->message_of[i] = DONE;
		many->left--;
		if (change->rc == -NAM_E_REMOTE_FULL)
			change->rc = nam__part_full(many->worker, many->index,
				many->sorted[i].part);
		if (change->rc == -NAM_E_RESTART_LOCKED)
			change->rc = change_again(many, change); /* SUSPENDS */
		while (nam__memory_retry(many->worker, change->rc,
			&many->tries)) /* SUSPENDS */
			change->rc = change_again(many, change); /* SUSPENDS */
	}
}

NAM_FIBER_FN static void
round_await(struct many *many)
{
	choose(many);
	messages_begin(many);
	messages_fill(many);
	nam__op_resume(many->worker, nam__change_op(many->messages[0].kind));
	/* Each has its own rc. */
	(void)!nam_rpc_call_many(many->worker, many->calls, many->messages_count); /* SUSPENDS */
	nam__op_end(many->worker);
	replies_take(many);
	round_end(many); /* SUSPENDS */
}

void
nam__coarse_change_many(struct nam_worker *worker, struct nam_index *index,
	struct nam_index_change *changes, const struct nam__sorted *sorted, uint32_t count)
{
	uint32_t pair_bytes = 8 * (index->g.key_words + 1);
	uint32_t bytes = count * (pair_bytes + (uint32_t)sizeof(struct nam_rpc_tree_point_result)) +
		NAM_CALLS_MAX * (uint32_t)(sizeof(struct nam_rpc_tree_point_request) +
			sizeof(struct nam_rpc_tree_point_reply));
	struct many *many = nam_buffer_take(worker, sizeof(*many));
	uint8_t *messages = nam_buffer_take(worker, bytes);
	uint8_t *message_of = nam_buffer_take(worker, count);

	for (uint32_t i = 0; i < count; i++)
		changes[sorted[i].number].rc = -ENOMEM;
	if (!many || !messages || !message_of)
		goto give;
	many->worker = worker;
	many->index = index;
	many->changes = changes;
	many->sorted = sorted;
	many->count = many->left = count;
	many->tries = 0;
	many->pair_bytes = pair_bytes;
	many->bytes = messages;
	many->message_of = message_of;
	memset(message_of, WAITS, count);
	while (many->left)
		round_await(many); /* SUSPENDS */
give:
	nam_buffer_give(worker, message_of, count);
	nam_buffer_give(worker, messages, bytes);
	nam_buffer_give(worker, many, sizeof(*many));
}
