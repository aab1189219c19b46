/* SPDX-License-Identifier: Apache-2.0 */
/* lock_queue.c -- see lock_queue.h. */
#include <sched.h>
#include <string.h>

#include "lock_slot.h"

#define UNIT_MIN_NS 2500u
#define UNIT_MAX_NS 1000000u
#define TIMEOUT_UNITS 4000u		/* in a list */
#define TIMEOUT_UNITS_EACH 60u		/* ... and for each place in it */
#define TIMEOUT_UNITS_ASKED 24u	/* for an answer */
#define TIMEOUT_MAX_NS 50000000u
#define PLACE_UNKNOWN UINT32_MAX
#define PASSED_NS 5000000u		/* then where a word was passed to says nothing any more */
#define MISSED_NS 100000u
#define LOOKS_MAX 3u
#define HOPS_MAX 8u

enum kind {
	ASK = 1,	/* parties[0] asks for a turn; its place follows */
	QUEUED,		/* it has it at `place` of a list */
	FOLLOW,		/* a list that comes behind the receiver's */
	GO,		/* the word is free, or its holder unknown: look; the rest of the list */
};

struct message {
	uint8_t kind;
	uint8_t hops;			/* ASK: how often it was forwarded */
	uint16_t count;
	uint32_t place;
	uint16_t client, incarnation;	/* the receiver */
	uint32_t reserved;
	uint64_t at;
	uint64_t word;			/* GO: that is being freed, or 0 */
	struct nam__peer_id parties[NAM__QUEUE_MAX];
};
#define MESSAGE_BYTES(count) \
	(offsetof(struct message, parties) + (count) * sizeof(struct nam__peer_id))
#define ASK_COUNT (1 + NAM_PLACE_BYTES / sizeof(struct nam__peer_id))
_Static_assert(sizeof(struct message) <= NAM_DATAGRAM_BYTES_MAX, "a message is a datagram");

static struct nam__lock_queue *
queue_of(const struct nam_worker *worker, uint32_t slot)
{
	return &worker->client->locks->queues[slot];
}

/* Threads of this process hold it for some tens of instructions. */
static void
queue_lock(struct nam__lock_queue *queue)
{
	while (atomic_flag_test_and_set_explicit(&queue->busy, memory_order_acquire))
		sched_yield();
}

static void
queue_unlock(struct nam__lock_queue *queue)
{
	atomic_flag_clear_explicit(&queue->busy, memory_order_release);
}

static bool
same(const struct nam__peer_id *a, const struct nam__peer_id *b)
{
	return a->client == b->client && a->incarnation == b->incarnation && a->number == b->number;
}

/* ---- messages ------------------------------------------------------------------------------ */

static bool
send(struct nam_worker *worker, const struct nam__peer_id *to, struct message *message)
{
	message->client = to->client;
	message->incarnation = to->incarnation;
	message->reserved = 0;
	return nam__peer_send(worker, to, message, (uint32_t)MESSAGE_BYTES(message->count));
}

/* A word that is freed for another client: free, and reserved for that client.  0 of 0. */
static uint64_t
reserved(uint64_t word, uint16_t client, uint16_t incarnation)
{
	return word ? nam_lock_word(client, incarnation, (uint32_t)(word | NAM_LOCK_RESERVED)) : 0;
}

/*
 * GO to the first client that is reached, with the rest of the list; others go to its end.
 * Returns the word that is reserved for it.
 */
static uint64_t
send_go(struct nam_worker *worker, struct nam_gaddr at, uint64_t word,
	const struct nam__peer_id *list, uint32_t count)
{
	struct message message = { .kind = GO, .at = at.raw, .word = word };

	for (uint32_t i = 0; i < count; i++) {
		message.count = (uint16_t)(count - 1);
		memcpy(message.parties, &list[i + 1], (count - 1 - i) * sizeof(*list));
		memcpy(&message.parties[count - 1 - i], list, i * sizeof(*list));
		if (send(worker, &list[i], &message))
			return reserved(word, list[i].client, list[i].incarnation);
	}
	return NAM_LOCK_FREE;
}

/* A list that was taken out of a queue, to be sent when other threads do not wait for it. */
struct taken {
	struct nam_gaddr at;
	uint32_t count;
	struct nam__peer_id list[NAM__QUEUE_MAX];
};

static void
take_list(struct nam__lock_slot *slot, struct nam__lock_queue *queue, struct taken *ret)
{
	ret->at = queue->at;
	ret->count = queue->count;
	memcpy(ret->list, queue->list, queue->count * sizeof(ret->list[0]));
	queue->count = 0;
	atomic_store_explicit(&slot->queued, 0, memory_order_relaxed);
}

/* The word of a queue becomes `at`.  The taken clients asked for another word: they look at it. */
static void
turn_to(struct nam__lock_slot *slot, struct nam__lock_queue *queue, struct nam_gaddr at,
	struct taken *ret)
{
	ret->count = 0;
	if (queue->count && !nam_gaddr_same(queue->at, at))
		take_list(slot, queue, ret);
	queue->at = at;
}

/* ---- the client that waits ---------------------------------------------------------------- */

static uint64_t
timeout_ns(const struct nam__lock_queue *queue, const struct nam__peers *peers)
{
	uint64_t units = queue->place == PLACE_UNKNOWN ? TIMEOUT_UNITS_ASKED :
		TIMEOUT_UNITS + (uint64_t)TIMEOUT_UNITS_EACH * queue->place;
	uint64_t ns = units * peers->unit_ns;

	return ns < TIMEOUT_MAX_NS ? ns : TIMEOUT_MAX_NS;
}

/* About a round trip without a queue on its way: quick ones count at once, slow ones slowly. */
static void
unit_note(struct nam__peers *peers, uint64_t trip_ns)
{
	uint64_t *unit = &peers->unit_ns;

	if (trip_ns && trip_ns < *unit)
		*unit = trip_ns > UNIT_MIN_NS ? trip_ns : UNIT_MIN_NS;
	else if (trip_ns > *unit && *unit < UNIT_MAX_NS)
		*unit += *unit / 16;
}

bool
nam__lock_queue_begin(struct nam_worker *worker, uint32_t number, struct nam_gaddr at)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__lock_queue *queue = queue_of(worker, number);
	struct taken taken;
	bool missed, passed;

	queue_lock(queue);
	turn_to(slot, queue, at, &taken);
	queue->go = false;
	queue->go_word = 0;
	queue->looks = 0;
	missed = queue->missed_word && nam_now_ns() - queue->missed_ns < MISSED_NS;
	passed = atomic_load_explicit(&slot->passed, memory_order_relaxed) &&
		 nam_gaddr_same(queue->passed_at, at) &&
		 nam_now_ns() - queue->passed_ns < PASSED_NS;
	if (!passed && nam_gaddr_same(queue->passed_at, at))
		atomic_store_explicit(&slot->passed, false, memory_order_relaxed);
	passed = passed && !queue->count;
	queue_unlock(queue);
	send_go(worker, taken.at, 0, taken.list, taken.count);
	if (!missed)
		queue->missed_word = 0;
	return missed || passed;
}

void
nam__lock_queue_missed(struct nam_worker *worker, uint32_t number, uint64_t word)
{
	struct nam__lock_queue *queue = queue_of(worker, number);

	queue->missed_word = word;
	queue->missed_ns = nam_now_ns();
}

/* The client to ask; 0: none. */
static struct nam__peer_id
holder_of(struct nam__lock_queue *queue, uint64_t word)
{
	if (!word && queue->missed_word)
		word = queue->missed_word;
	queue->missed_word = 0;
	if (!word)
		return queue->passed_to;
	return (struct nam__peer_id){ nam_lock_owner(word), nam_lock_incarnation(word), 0 };
}

bool
nam__lock_queue_wait(struct nam_worker *worker, uint32_t number, struct nam_gaddr at, uint64_t word,
	uint64_t trip_ns)
{
	struct nam__lock_queue *queue = queue_of(worker, number);
	struct message message = { .kind = ASK, .count = ASK_COUNT, .at = at.raw };
	struct nam__peer_id holder;
	bool go, sent, looks;

	if (!worker->peers)
		return false;
	queue_lock(queue);
	looks = word && word == queue->go_word && queue->looks++ < LOOKS_MAX;
	queue_unlock(queue);
	/* The turn came before the CAS that frees the word has arrived. */
	if (looks)
		return true;
	holder = holder_of(queue, word);
	if (!holder.client || holder.client == worker->client->id ||
		!nam__peer_learn(worker, holder.client, holder.incarnation)) /* SUSPENDS */
		return false;
	message.parties[0] = nam__peer_id_own(worker);
	memcpy(&message.parties[1], worker->peers->name.place, NAM_PLACE_BYTES);
	queue_lock(queue);
	message.place = queue->count != 0;
	unit_note(worker->peers, trip_ns);
	queue->worker = worker;
	queue->place = PLACE_UNKNOWN;
	queue->asked = holder;
	go = queue->go;
	queue->go = false;
	if (!go)
		queue->go_word = 0;
	queue->task = go ? NULL : worker->current;
	queue_unlock(queue);
	if (go)
		return true;	/* it came meanwhile */
	sent = send(worker, &holder, &message);
	/* C18: the turn may never come, as datagrams are lost and clients die. */
	if (sent)
		nam__pause_await(worker, timeout_ns(queue, worker->peers)); /* SUSPENDS */
	queue_lock(queue);
	queue->task = NULL;
	queue->go = false;
	queue_unlock(queue);
	return sent;
}

uint64_t
nam__lock_queue_turn(const struct nam_worker *worker, uint32_t number, uint64_t word)
{
	struct nam__lock_queue *queue = queue_of(worker, number);
	uint64_t go_word;

	queue_lock(queue);
	go_word = queue->go_word;
	queue_unlock(queue);
	return go_word ? reserved(go_word, worker->client->id, worker->client->incarnation) : word;
}

void
nam__lock_queue_taken(struct nam_worker *worker, uint32_t number)
{
	struct nam__lock_queue *queue = queue_of(worker, number);
	struct nam__peer_id unknown = { 0 };

	queue_lock(queue);
	for (uint32_t i = 0; i < queue->count && !unknown.client; i++)
		if (!nam__peer_known(worker, queue->list[i].client, queue->list[i].incarnation))
			unknown = queue->list[i];
	queue_unlock(queue);
	if (unknown.client)
		(void)nam__peer_learn(worker, unknown.client, unknown.incarnation); /* SUSPENDS */
}

/* ---- the client that holds ---------------------------------------------------------------- */

uint64_t
nam__lock_queue_pass(struct nam_worker *worker, uint32_t number, uint64_t word)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__lock_queue *queue = queue_of(worker, number);
	struct taken taken;

	if (!worker->peers)
		return NAM_LOCK_FREE;
	queue_lock(queue);
	take_list(slot, queue, &taken);
	/* From now on requests are forwarded. */
	atomic_store_explicit(&slot->at, 0, memory_order_relaxed);
	if (taken.count) {
		queue->passed_at = taken.at;
		queue->passed_ns = nam_now_ns();
		queue->passed_to = taken.list[taken.count - 1];
		atomic_store_explicit(&slot->passed, true, memory_order_relaxed);
	}
	queue_unlock(queue);
	return send_go(worker, taken.at, word, taken.list, taken.count);
}

/* ---- what arrives ------------------------------------------------------------------------- */

/* Append a client that asked.  Its place from 1; 0: full, and the last client takes the rest. */
static uint32_t
append(struct nam__lock_slot *slot, struct nam__lock_queue *queue,
	const struct nam__peer_id *requester)
{
	uint32_t before = queue->task && queue->place != PLACE_UNKNOWN ? queue->place : 0, i = 0;

	while (i < queue->count && !same(&queue->list[i], requester))
		i++;
	if (i == NAM__QUEUE_MAX)
		return 0;
	if (i == queue->count)
		queue->list[queue->count++] = *requester;
	atomic_store_explicit(&slot->queued, queue->count, memory_order_relaxed);
	return before + i + 1;
}

/* A client with a list of its own comes first, or looks again: else two wait for each other. */
static uint32_t
put_first(struct nam__lock_slot *slot, struct nam__lock_queue *queue,
	const struct nam__peer_id *requester)
{
	uint32_t i = 0;

	while (i < queue->count && !same(&queue->list[i], requester))
		i++;
	if (i == NAM__QUEUE_MAX)
		return 0;
	queue->count = (uint16_t)(queue->count + (i == queue->count));
	memmove(&queue->list[1], &queue->list[0], i * sizeof(*requester));
	queue->list[0] = *requester;
	atomic_store_explicit(&slot->queued, queue->count, memory_order_relaxed);
	return 1;
}

static void
asked(struct nam_worker *worker, struct message *message, uint32_t number)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__lock_queue *queue = queue_of(worker, number);
	const struct nam__peer_id requester = message->parties[0];
	struct nam_gaddr at = { message->at };
	struct nam__peer_id next = { 0 };
	bool has_list = message->place != 0, here;
	struct taken taken = { .count = 0 };
	uint32_t place = 0;

	nam__peer_meet(worker, &requester, (const uint8_t *)&message->parties[1]);
	queue_lock(queue);
	here = atomic_load_explicit(&slot->held, memory_order_relaxed) &&
	       atomic_load_explicit(&slot->at, memory_order_relaxed) == at.raw;
	if (here)
		turn_to(slot, queue, at, &taken);
	if (has_list) {
		if (here && !queue->task)
			place = put_first(slot, queue, &requester);
	} else if (here && queue->task && queue->place == PLACE_UNKNOWN) {
		/* Two that ask each other, and are in no list yet, would wait for each other. */
		next = queue->asked;
	} else if (here) {
		place = append(slot, queue, &requester);
		if (!place)
			next = queue->list[NAM__QUEUE_MAX - 1];
	} else if (nam_gaddr_same(queue->passed_at, at) &&
		   nam_now_ns() - queue->passed_ns < PASSED_NS) {
		next = queue->passed_to;
	}
	queue_unlock(queue);
	send_go(worker, taken.at, 0, taken.list, taken.count);
	if (place) {
		message->kind = QUEUED;
		message->count = 0;
		message->place = place;
		send(worker, &requester, message);
	} else if (!next.client || same(&next, &requester) ||
		   message->hops++ >= HOPS_MAX ||
		   !send(worker, &next, message)) {
		send_go(worker, at, 0, &requester, 1);
	}
}

/* Whether a list that has come is for what this client holds or waits for. */
static bool
wanted(const struct nam__lock_slot *slot, const struct nam__lock_queue *queue, uint64_t at)
{
	return atomic_load_explicit(&slot->held, memory_order_relaxed) &&
	       atomic_load_explicit(&slot->at, memory_order_relaxed) == at && queue->at.raw == at;
}

/*
 * Append a list, and cut off the part that was appended.  The rest goes behind `ret_last`.  Those
 * that asked here came first: clients are sent here only when the other list is full.
 */
static void
append_list(struct nam_worker *worker, struct nam__lock_slot *slot, struct nam__lock_queue *queue,
	struct message *message, struct nam__peer_id *ret_last)
{
	const struct nam__peer_id own = nam__peer_id_own(worker);
	uint16_t i = 0;

	while (i < message->count && (same(&message->parties[i], &own) ||
		append(slot, queue, &message->parties[i])))
		i++;
	message->count = (uint16_t)(message->count - i);
	memmove(message->parties, &message->parties[i], message->count * sizeof(own));
	*ret_last = queue->list[NAM__QUEUE_MAX - 1];
}

/* The rest of a list goes behind the last client of a full one; without that, it looks. */
static void
send_follow(struct nam_worker *worker, const struct nam__peer_id *last, struct message *message)
{
	message->kind = FOLLOW;
	if (message->count && (!last->client || !send(worker, last, message)))
		send_go(worker, (struct nam_gaddr){ message->at }, 0, message->parties,
			message->count);
}

static void
follow(struct nam_worker *worker, struct message *message, uint32_t number)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__lock_queue *queue = queue_of(worker, number);
	struct nam__peer_id last = { 0 };

	queue_lock(queue);
	if (wanted(slot, queue, message->at))
		append_list(worker, slot, queue, message, &last);
	queue_unlock(queue);
	send_follow(worker, &last, message);
}

static void
gone(struct nam_worker *worker, struct message *message, uint32_t number)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[number];
	struct nam__lock_queue *queue = queue_of(worker, number);
	const struct nam_gaddr at = { message->at };
	const uint64_t word = message->word;
	struct nam__peer_id last, other = { 0 };
	bool turn;

	queue_lock(queue);
	turn = wanted(slot, queue, at.raw);
	if (turn) {
		queue->go = true;
		queue->go_word = word;
		queue->looks = 0;
		append_list(worker, slot, queue, message, &last);
		if (queue->task && queue->worker == worker)
			nam__pause_set(worker, queue->task, 0);
		else if (queue->task)
			other = nam__peer_id_own(queue->worker);
	}
	queue_unlock(queue);
	if (!turn) {
		send_go(worker, at, word, message->parties, message->count);
		return;
	}
	/* A task of another thread waits. */
	send_go(worker, at, word, &other, other.client != 0);
	send_follow(worker, &last, message);
}

static void
queued(struct nam_worker *worker, const struct message *message, uint32_t number)
{
	struct nam__lock_queue *queue = queue_of(worker, number);

	queue_lock(queue);
	if (queue->at.raw == message->at && queue->task && queue->worker == worker && !queue->go) {
		queue->place = message->place;
		nam__pause_set(worker, queue->task, timeout_ns(queue, worker->peers));
	}
	queue_unlock(queue);
}

static bool
sound(const struct nam_worker *worker, const struct message *message, uint32_t bytes)
{
	return bytes >= MESSAGE_BYTES(0) && message->count <= NAM__QUEUE_MAX &&
	       bytes == MESSAGE_BYTES(message->count) && message->client == worker->client->id &&
	       message->incarnation == worker->client->incarnation &&
	       (message->kind != ASK || message->count == ASK_COUNT) &&
	       nam_region_table_find(&worker->client->regions, (struct nam_gaddr){ message->at });
}

void
nam__lock_queue_arrived(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	struct nam_endpoint *endpoint = worker->peers->endpoint;
	_Alignas(8) uint8_t datagram[NAM_DATAGRAM_BYTES_MAX];
	struct message *message = (void *)datagram;
	uint32_t bytes;

	(void)completion, (void)wc;
	while ((bytes = endpoint->ops->endpoint_receive(endpoint, datagram)) > 0) {
		uint32_t number;

		worker->current->counters->bytes_in += bytes;
		if (!sound(worker, message, bytes))
			continue;
		number = nam__lock_slot_number((struct nam_gaddr){ message->at });
		if (message->kind == ASK)
			asked(worker, message, number);
		else if (message->kind == QUEUED)
			queued(worker, message, number);
		else if (message->kind == FOLLOW)
			follow(worker, message, number);
		else if (message->kind == GO)
			gone(worker, message, number);
	}
}
