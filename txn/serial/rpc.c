/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.c -- phases of transactions by requests to memory servers (common/rpc/serial_rpc.h).
 *
 * Steps are packed into messages to the memory servers of their addresses.  All messages of a post
 * are under way at once.
 */
#include <errno.h>

#include "common/rpc/serial_rpc.h"
#include "serial.h"

#define STEPS_MAX NAM_TXN_RECORDS_MAX
/* Of a log in a message. */
#define PART_BYTES ((uint32_t)(NAM_RPC_BODY_MAX - sizeof(struct nam_rpc_serial_request) -           \
	sizeof(struct nam_rpc_serial_step)) & ~7u)

/* Lies in a buffer of the worker's. */
struct post {
	struct nam_worker *worker;
	const struct nam_txn_store *store;
	uint16_t type;			/* of all messages */
	int rc;				/* the first failure */
	uint32_t calls_count, steps_count;
	struct nam_call calls[NAM_CALLS_MAX];
	struct message {
		uint8_t *body, *reply;
		uint32_t reply_bytes;	/* that the steps ask for */
	} messages[NAM_CALLS_MAX];
	struct answer {
		void *local;
		uint16_t bytes, call;
	} answers[STEPS_MAX];
};

static struct post *
post_new(struct nam_worker *worker, const struct nam_txn_store *store, uint16_t type)
{
	struct post *post = nam_buffer_take(worker, sizeof(*post));

	if (!post)
		return NULL;
	post->worker = worker;
	post->store = store;
	post->type = type;
	post->rc = 0;
	post->calls_count = post->steps_count = 0;
	return post;
}

static int
message_new(struct post *post, uint16_t slot)
{
	struct message *message = &post->messages[post->calls_count];
	struct nam_call *call = &post->calls[post->calls_count];
	struct nam_rpc_serial_request *request;

	*message = (struct message){
		.body = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
		.reply = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
	};
	if (!message->body || !message->reply) {
		if (message->body)
			nam_buffer_give(post->worker, message->body, NAM_RPC_BYTES_MAX);
		if (message->reply)
			nam_buffer_give(post->worker, message->reply, NAM_RPC_BYTES_MAX);
		return -ENOMEM;
	}
	post->calls_count++;
	request = (void *)message->body;
	*request = (struct nam_rpc_serial_request){ .store = post->store->store };
	*call = (struct nam_call){ .slot = slot, .type = post->type, .body = message->body,
		.body_bytes = sizeof(*request), .reply = message->reply,
		.reply_size = NAM_RPC_BODY_MAX, .rc = -ECANCELED };
	return 0;
}

/* The answers of one message, in the order of its steps. */
static int
answers_take(struct post *post, uint32_t number)
{
	const struct nam_call *call = &post->calls[number];
	const uint8_t *from = post->messages[number].reply;

	if (call->rc == -NAM_E_DROPPED)
		return nam__serial_dropped(post->worker, post->store);
	if (call->rc)
		return call->rc;
	if (call->reply_bytes != post->messages[number].reply_bytes)
		return nam_diag_set(&post->worker->diag, -NAM_E_FABRIC_PROTOCOL, "store '%s': a "
			"memory server gave a malformed answer", post->store->name);
	for (uint32_t i = 0; i < post->steps_count; i++) {
		const struct answer *answer = &post->answers[i];

		if (answer->call != number)
			continue;
		if (answer->bytes)
			memcpy(answer->local, from, answer->bytes);
		from += nam_serial_words(answer->bytes);
	}
	return 0;
}

/* Send what was packed, and take the answers.  A failure does not keep others from theirs. */
NAM_FIBER_FN static void
flush(struct post *post)
{
	int rc = post->rc, sent_rc = rc;

	if (!rc && post->calls_count)
		sent_rc = nam_rpc_call_many(post->worker, post->calls,
			post->calls_count); /* SUSPENDS */
	for (uint32_t i = 0; i < post->calls_count; i++) {
		/* -ECANCELED: it was not sent. */
		int each_rc = post->calls[i].rc == -ECANCELED ? sent_rc : answers_take(post, i);

		post->rc = post->rc ? post->rc : each_rc;
		nam_buffer_give(post->worker, post->messages[i].body, NAM_RPC_BYTES_MAX);
		nam_buffer_give(post->worker, post->messages[i].reply, NAM_RPC_BYTES_MAX);
	}
	post->calls_count = post->steps_count = 0;
}

/* The message to that memory server that has room for a step; or a new one. */
static int
message_find(struct post *post, uint16_t slot, uint32_t step_bytes, uint32_t reply_bytes,
	uint32_t *ret_number)
{
	for (uint32_t i = post->calls_count; i-- > 0;)
		if (post->calls[i].slot == slot &&
			post->calls[i].body_bytes + step_bytes <= NAM_RPC_BODY_MAX &&
			post->messages[i].reply_bytes + reply_bytes <= NAM_RPC_BODY_MAX) {
			*ret_number = i;
			return 0;
		}
	*ret_number = post->calls_count;
	return message_new(post, slot);
}

/*
 * Pack a step.
 *
 * @cas		NULL, or compare and swap
 * @bytes	behind it, step->bytes of them; LOCK: the lock word and the key; or NULL
 * @local	where the answer goes
 */
NAM_FIBER_FN static void
step_add(struct post *post, const struct nam_rpc_serial_step *step, const uint64_t *cas,
	const void *bytes, void *local)
{
	const uint32_t step_bytes = nam_serial_step_bytes(step);
	const uint32_t reply_bytes = nam_serial_reply_bytes(step);
	const uint16_t slot = nam__server_slot(post->worker->client, NAM_GADDR(step->at));
	uint32_t number;
	uint8_t *to;

	if (post->steps_count == STEPS_MAX || post->calls_count == NAM_CALLS_MAX)
		flush(post); /* SUSPENDS */
	if (!post->rc && slot == NAM__NO_SLOT)
		post->rc = -NAM_E_NOREGION;
	if (!post->rc)
		post->rc = message_find(post, slot, step_bytes, reply_bytes, &number);
	if (post->rc)
		return;
	to = post->messages[number].body + post->calls[number].body_bytes;
	post->calls[number].body_bytes += step_bytes;
	post->messages[number].reply_bytes += reply_bytes;
	((struct nam_rpc_serial_request *)(void *)post->messages[number].body)->count++;
	post->answers[post->steps_count++] = (struct answer){ local,
		(uint16_t)(step->step == NAM_SERIAL_READ || step->step == NAM_SERIAL_LOCK ?
			step->bytes : reply_bytes),
		(uint16_t)number };
	memcpy(to, step, sizeof(*step));
	to += sizeof(*step);
	if (cas) {
		memcpy(to, cas, 2 * sizeof(*cas));
		to += 2 * sizeof(*cas);
	}
	if (bytes)
		memcpy(to, bytes, step->step == NAM_SERIAL_LOCK ? sizeof(uint64_t) + step->offset :
			step->bytes);
}

/* Accepts NULL: no memory. */
NAM_FIBER_FN static int
post_run(struct post *post)
{
	int rc = -ENOMEM;

	if (!post)
		return rc;
	flush(post); /* SUSPENDS */
	rc = post->rc;
	nam_buffer_give(post->worker, post, sizeof(*post));
	return rc;
}

/* ---- execution, validation ------------------------------------------------------------------- */

NAM_FIBER_FN static void
read_add(struct post *post, const struct nam__read *read)
{
	const struct nam_rpc_serial_step step = { .at = read->at.raw,
		.bytes = (uint16_t)read->bytes, .step = NAM_SERIAL_READ };

	step_add(post, &step, NULL, NULL, read->local); /* SUSPENDS */
}

NAM_FIBER_FN static int
all_read(struct nam_txn *txn, uint32_t count)
{
	struct post *post = post_new(txn->worker, txn->store, NAM_RPC_SERIAL_READ);

	for (uint32_t i = 0; i < count && post; i++)
		read_add(post, &txn->reads[i]); /* SUSPENDS */
	return post_run(post); /* SUSPENDS */
}

NAM_FIBER_FN static void
lock_add(struct post *post, const struct nam_txn *txn, const struct nam__read *read,
	const struct nam__serial_item *item)
{
	uint64_t more[1 + NAM_TXN_KEY_BYTES_MAX / sizeof(uint64_t)] = { txn->word };
	const struct nam_rpc_serial_step step = { .at = read->at.raw, .offset = item->key_bytes,
		.bytes = (uint16_t)read->bytes, .step = NAM_SERIAL_LOCK };

	memcpy(more + 1, item->key, item->key_bytes);
	step_add(post, &step, NULL, more, read->local); /* SUSPENDS */
}

int
nam__serial_rpc_execute(struct nam_txn *txn, const uint16_t *items, uint32_t count)
{
	struct post *post = post_new(txn->worker, txn->store, NAM_RPC_SERIAL_CHANGE);

	for (uint32_t i = 0; i < count && post; i++) {
		const struct nam__serial_item *item = &txn->items[items[i]];

		if (item->locking)
			lock_add(post, txn, &txn->reads[i], item); /* SUSPENDS */
		else
			read_add(post, &txn->reads[i]); /* SUSPENDS */
	}
	return post_run(post); /* SUSPENDS */
}

/* ---- words ----------------------------------------------------------------------------------- */

/* As nam__batch_word_cas() leaves it. */
NAM_FIBER_FN static void
cas_add(struct post *post, struct nam_gaddr at, uint64_t compare, uint64_t swap, uint64_t seen[2])
{
	const struct nam_rpc_serial_step step = { .at = at.raw, .step = NAM_SERIAL_CAS };
	const uint64_t cas[2] = { compare, swap };

	seen[1] = compare;
	step_add(post, &step, cas, NULL, seen); /* SUSPENDS */
}

NAM_FIBER_FN static int
words_cas(struct nam_txn *txn, bool unlock)
{
	struct post *post = post_new(txn->worker, txn->store, NAM_RPC_SERIAL_CHANGE);
	int rc, failed = 0;

	for (uint32_t i = 0; i < txn->count && post; i++) {
		struct nam__serial_item *item = &txn->items[i];

		/* Others are taken back, even if one cannot be. */
		if (unlock && post->rc) {
			failed = failed ? failed : post->rc;
			post->rc = 0;
		}
		if (unlock ? item->locked : item->next && !item->locked)
			cas_add(post, item->at, unlock ? txn->word : item->sequence,
				unlock ? item->sequence : txn->word, item->cas); /* SUSPENDS */
	}
	if (unlock && post && post->rc) {
		failed = failed ? failed : post->rc;
		post->rc = 0;
	}
	rc = post_run(post); /* SUSPENDS */
	return failed ? failed : rc;
}

NAM_FIBER_FN static int
word_cas(struct nam_worker *worker, const struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	struct post *post = post_new(worker, store, NAM_RPC_SERIAL_CHANGE);
	uint64_t seen[2];
	int rc;

	if (post)
		cas_add(post, at, compare, swap, seen); /* SUSPENDS */
	rc = post_run(post); /* SUSPENDS */
	if (!rc)
		*ret_old = seen[0];
	return rc;
}

/* ---- log, write ------------------------------------------------------------------------------ */

/* Its hash is of all parts, so a log some of whose parts are missing is none. */
NAM_FIBER_FN static int
log_write(struct nam_worker *worker, const struct nam_txn_store *store, struct nam_gaddr at,
	const struct nam_serial_log *log)
{
	struct post *post = post_new(worker, store, NAM_RPC_SERIAL_CHANGE);

	for (uint32_t offset = 0; offset < log->bytes && post; offset += PART_BYTES) {
		const uint32_t left = log->bytes - offset;
		const struct nam_rpc_serial_step step = { .at = at.raw, .offset = offset,
			.bytes = (uint16_t)(left < PART_BYTES ? left : PART_BYTES),
			.step = NAM_SERIAL_LOG };

		step_add(post, &step, NULL, (const uint8_t *)log + offset, NULL); /* SUSPENDS */
	}
	return post_run(post); /* SUSPENDS */
}

/* Z4: the memory server writes a record, then releases its lock. */
NAM_FIBER_FN static int
all_write(struct nam_txn *txn)
{
	const uint32_t from = offsetof(struct nam_serial_record, hash);
	struct post *post = post_new(txn->worker, txn->store, NAM_RPC_SERIAL_CHANGE);
	int rc;

	for (uint32_t i = 0; i < txn->count && post; i++) {
		struct nam__serial_item *item = &txn->items[i];
		const struct nam_serial_record *next = item->next;
		const uint64_t cas[2] = { txn->word, txn->sequence };
		struct nam_rpc_serial_step step = { .at = item->at.raw,
			.step = NAM_SERIAL_COMMIT };

		if (!next)
			continue;
		step.bytes = (uint16_t)(nam__serial_bytes(next->key_bytes, next->value_bytes) -
			from);
		item->cas[1] = txn->word;
		step_add(post, &step, cas, (const uint8_t *)next + from, item->cas); /* SUSPENDS */
	}
	rc = post_run(post); /* SUSPENDS */
	nam_race_point("serial.written");
	return rc;
}

const struct nam__serial_means nam__serial_rpc = {
	.read = all_read,
	.words_cas = words_cas,
	.word_cas = word_cas,
	.log = log_write,
	.write = all_write,
};

/* Z10: no CPU changes words of a member with a backup: such requests are refused.  So NICs may. */
int
nam__serial_word_cas(struct nam_worker *worker, const struct nam_txn_store *store,
	struct nam_gaddr at, uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	int rc = nam__serial_means_of(store, NAM__SERIAL_LOCK)->word_cas(worker, store, at,
		compare, swap, ret_old); /* SUSPENDS */

	return rc != -NAM_E_FABRIC_CAPABILITY ? rc : nam__serial_onesided.word_cas(worker, store,
		at, compare, swap, ret_old); /* SUSPENDS */
}
