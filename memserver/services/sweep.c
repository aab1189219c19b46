/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients allocated and that nothing leads to (M19). */
#include <errno.h>
#include <string.h>

#include "common/env.h"
#include "common/guard.h"
#include "common/rpc/sweep_rpc.h"
#include "memserver/objects.h"
#include "memserver/services/records.h"
#include "memserver/services/runs.h"

#define SLICE_WORDS 64u			/* of 64 blocks: under the mutex at a time */

/* ---- books ----------------------------------------------------------------------------------- */

/* Bits of the blocks of word `word` that are used, and do not wait. */
static uint64_t
used(const struct nam__run *run, uint32_t word)
{
	uint32_t rest = run->count - 64 * word;
	uint64_t all = rest < 64 ? (1ull << rest) - 1 : UINT64_MAX;

	/* It has come since the sweep began, and has no bits. */
	if (word >= run->words)
		return all;
	return all & ~(run->bits[word].free | run->bits[word].waiting);
}

/* The first run that begins there or behind, by its number. */
static uint32_t
run_from(const struct nam__alloc_region *region, uint64_t offset)
{
	uint32_t number = nam__run_find(region, offset);

	return number == UINT32_MAX ? 0 : number + (region->runs[number]->offset < offset);
}

typedef int (*word_fn)(struct nam__allocator *allocator, struct nam__run *run, uint32_t word,
	void *arg);

/*
 * Calls fn for each word of blocks that a client may have allocated, until it fails.  The slice of
 * runs begins at the place (0: the first).  *ret_next: the place where the next slice begins, or 0.
 *
 * Between two slices runs come, grow, end and become one.  Their new blocks are not suspect (M19).
 */
static int
words_some(struct nam__allocator *allocator, uint64_t place, word_fn fn, void *arg,
	uint64_t *ret_next)
{
	struct nam_gaddr at = { place };
	uint32_t i = place ? (uint32_t)nam_gaddr_region(at) - allocator->first_region_id : 0;
	uint64_t offset = place ? nam_gaddr_offset(at) : 0;
	uint32_t words = 0;
	int rc = 0;

	*ret_next = 0;
	for (; i < allocator->regions_count; i++, offset = 0) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		if (region->kind != NAM_MEMORY_PUBLIC)
			continue;
		for (uint32_t k = run_from(region, offset); k < region->runs_count; k++) {
			struct nam__run *run = region->runs[k];

			if (words >= SLICE_WORDS) {
				*ret_next = nam_gaddr_make((uint16_t)(allocator->first_region_id +
					i), run->offset, 0).raw;
				return 0;
			}
			for (uint32_t word = 0; !rc && word < (run->count + 63) / 64;
				word++, words++)
				rc = fn(allocator, run, word, arg);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static void
count_add(const struct nam__run *run, uint64_t bits, uint64_t *blocks, uint64_t *bytes)
{
	uint32_t count = (uint32_t)__builtin_popcountll(bits);

	*blocks += count;
	*bytes += (uint64_t)count * run->stride;
}

static void
suspects_add(struct nam_rpc_sweep_reply *reply, const struct nam__run *run, uint64_t bits)
{
	count_add(run, bits, &reply->blocks, &reply->bytes);
}

static int
suspect_all(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	int rc = nam__run_reserve(run);

	(void)allocator;
	if (rc)
		return rc;
	run->bits[word].suspect = used(run, word);
	run->bits[word].named = 0;
	suspects_add(arg, run, run->bits[word].suspect);
	return 0;
}

struct sparing {
	const uint64_t *living;
	struct nam_rpc_sweep_reply *reply;
};

static int
spare(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	const struct sparing *sparing = arg;

	(void)allocator;
	if (word >= run->words)
		return 0;
	for (uint64_t left = run->bits[word].suspect; left; left &= left - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzll(left);
		uint16_t owner = run->owners[64 * word + bit];

		/* M19: a client that lives may still make a way to it. */
		if (!owner || (NAM_GUARD(SWEEP_OWNER) &&
			(sparing->living[owner / 64] >> owner % 64 & 1)))
			run->bits[word].suspect &= ~(1ull << bit);
	}
	suspects_add(sparing->reply, run, run->bits[word].suspect);
	return 0;
}

/*
 * R10: a handle of a store whose dropper has died may still know this head.  Tags are odd.  Clients
 * READ it meanwhile.
 */
static bool
head_close(uint8_t *block)
{
	uint32_t *tag = (uint32_t *)(void *)(block + offsetof(struct nam__server_head, tag));

	if (!(__atomic_load_n(tag, __ATOMIC_RELAXED) & 1))
		return false;
	__atomic_store_n(tag, 0, __ATOMIC_RELAXED);
	return true;
}

/* M19: the same of an index.  Its collectors would retire nodes that the sweep frees. */
static bool
superblock_close(uint8_t *block)
{
	struct nam_superblock *superblock = (void *)block;

	if (superblock->magic != NAM_SUPERBLOCK_MAGIC || !NAM_GUARD(SWEEP_CLOSE_INDEX) ||
		__atomic_load_n(&superblock->state, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&superblock->state, 1, __ATOMIC_RELAXED);
	return true;
}

struct closing {
	const struct nam__exchange *exchange;
	struct nam_rpc_sweep_reply *reply;
};

static int
close_some(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	const struct closing *closing = arg;
	uint8_t *base = allocator->calls.base(allocator->calls.arg, run->region) + run->offset;
	/* Other blocks are as long. */
	bool (*fn)(uint8_t *block) = run->stride == NAM_RECORD_HEAD_BYTES ? head_close :
		run->stride == NAM_SUPERBLOCK_STRIDE ? superblock_close : NULL;

	if (word >= run->words || !fn)
		return 0;
	for (uint64_t left = run->bits[word].suspect; left; left &= left - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzll(left);

		uint64_t offset = (uint64_t)run->stride * (64 * word + bit);

		if (!fn(base + offset))
			continue;
		nam__noted_add(closing->exchange, run->region, run->offset + offset, run->stride);
		suspects_add(closing->reply, run, 1ull << bit);
	}
	return 0;
}

struct ending {
	uint64_t label;
	struct nam_rpc_sweep_reply *reply;
};

static int
end_suspects(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	const struct ending *ending = arg;
	struct nam_rpc_sweep_reply *reply = ending->reply;
	uint64_t blocks = used(run, word);

	count_add(run, blocks, &reply->used_blocks, &reply->used_bytes);
	if (word >= run->words)
		return 0;
	count_add(run, blocks & run->bits[word].named, &reply->named_blocks, &reply->named_bytes);
	blocks = run->bits[word].suspect;
	run->bits[word].suspect = 0;
	suspects_add(reply, run, blocks);
	if (!blocks || !ending->label)
		return 0;
	run->bits[word].swept |= blocks;
	nam__run_wait(allocator, run, word, blocks, ending->label);
	return 0;
}

/* The block with an address of this server.  Those of other kinds of memory are no client's. */
struct block {
	struct nam__run *run;		/* NULL: there is none */
	uint32_t number;
};

static int
block_at(struct nam__allocator *allocator, uint64_t raw, struct block *ret_block)
{
	struct nam_gaddr at = { raw };
	uint32_t index = (uint32_t)nam_gaddr_region(at) - allocator->first_region_id, number;
	const struct nam__alloc_region *region;
	struct nam__run *run;

	*ret_block = (struct block){ 0 };
	if (index >= allocator->regions_count)
		return -NAM_E_FABRIC_PROTOCOL;
	region = &allocator->regions[index];
	number = nam__run_find(region, nam_gaddr_offset(at));
	run = number == UINT32_MAX ? NULL : region->runs[number];
	if (run && run->stride && region->kind == NAM_MEMORY_PUBLIC)
		*ret_block = (struct block){ run,
			(uint32_t)((nam_gaddr_offset(at) - run->offset) / run->stride) };
	return 0;
}

/* The word of books with the block's bit, or NULL. */
static struct nam__run_bits *
books_of(const struct block *block)
{
	return !block->run || block->number / 64 >= block->run->words ? NULL :
		&block->run->bits[block->number / 64];
}

static uint64_t
bit_of(const struct block *block)
{
	return 1ull << block->number % 64;
}

static int
mark(struct nam__allocator *allocator, uint64_t raw, bool named)
{
	struct nam__run_bits *books;
	struct block block;
	int rc = block_at(allocator, raw, &block);

	books = rc ? NULL : books_of(&block);
	if (books) {
		books->suspect &= ~bit_of(&block);
		books->named |= named ? bit_of(&block) : 0;
	}
	return rc;
}

/* @owner	0: none */
static int
own(struct nam__allocator *allocator, uint64_t raw, uint16_t owner)
{
	struct block block;
	int rc = block_at(allocator, raw, &block);

	if (!rc && !block.run)
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (!rc)
		rc = nam__run_reserve(block.run);
	if (!rc && !(used(block.run, block.number / 64) & bit_of(&block)))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc)
		return rc;
	block.run->owners[block.number] = owner;
	books_of(&block)->suspect &= ~bit_of(&block);
	return 0;
}

/* Clients can write the words of a record: a word that is no address of a block leads to none. */
static void
version_mark(void *arg, uint64_t at)
{
	(void)!mark(arg, nam_gaddr_untagged(NAM_GADDR(at)).raw, true);
}

static int
record_mark(const struct nam__exchange *exchange, uint64_t head_at, bool dry)
{
	const struct nam__server_records records = nam__records_of(exchange, 0);
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam__server_head *head;
	int rc = mark(allocator, head_at, true);

	if (rc || nam__server_record_lock(&records, head_at, &head))
		return rc;
	/* C26: versions that are prepared, or kept for readers, are not the latest. */
	nam__server_record_sweep(&records, head, allocator->sweep_living,
		nam__records_now(exchange->server), dry, version_mark, allocator);
	nam__server_record_unlock(&records, head_at);
	return 0;
}

/* ---- trees and key-value stores -------------------------------------------------------------- */

/* Calls fn for each, between nam__work_begin() and nam__work_end(). */
static void
objects_each(struct nam__exchange *exchange,
	void (*fn)(struct nam__objects *objects, struct nam__object *object, void *arg), void *arg)
{
	struct nam__objects *const tables[] = { &exchange->server->trees,
		&exchange->server->stores };

	for (unsigned i = 0; i < 2; i++)
		for (uint32_t slot = 0; slot < tables[i]->slots_count; slot++) {
			struct nam__object *object = nam__objects_at(tables[i], slot);

			if (object)
				fn(tables[i], object, arg);
		}
}

static void
object_suspect(struct nam__objects *objects, struct nam__object *object, void *arg)
{
	(void)objects;
	(void)arg;
	object->suspect = true;
	object->named = false;
}

static void
object_spare(struct nam__objects *objects, struct nam__object *object, void *arg)
{
	const uint64_t *living = arg;

	(void)objects;
	/* M19 */
	if (!object->owner || living[object->owner / 64] >> object->owner % 64 & 1)
		object->suspect = false;
}

static void
object_mark(struct nam__object *object)
{
	object->suspect = false;
	object->named = true;
}

struct dropping {
	struct nam_server *server;
	struct nam_rpc_sweep_reply *reply;
	bool dry;
};

static void
object_drop(struct nam__objects *objects, struct nam__object *object, void *arg)
{
	const struct dropping *dropping = arg;
	struct nam_rpc_sweep_reply *reply = dropping->reply;

	reply->objects_used_bytes += object->bytes;
	reply->objects_named_bytes += object->named ? object->bytes : 0;
	if (!object->suspect)
		return;
	object->suspect = false;
	reply->objects++;
	reply->objects_bytes += object->bytes;
	/* If its client drops it at this moment, it is gone already. */
	if (!dropping->dry)
		(void)!nam__objects_drop(objects, dropping->server, object->id);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The place that a request for a slice ends with; 0: there is none. */
static uint64_t
place_of(const struct nam_rpc_sweep_request *request)
{
	uint32_t before = request->step == NAM_RPC_SWEEP_SPARE ? NAM_SWEEP_LIVING_WORDS : 0;

	return request->count > before ? request->words[before] : 0;
}

static int
begin(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct nam__allocator *allocator = &exchange->server->allocator;
	uint64_t place = place_of(request);

	/* M19: marks of the other sweep count. */
	if (place && allocator->sweep != request->number)
		return -EAGAIN;
	allocator->sweep = request->number;
	if (!place)
		objects_each(exchange, object_suspect, NULL);
	reply->count = 1;
	return words_some(allocator, place, suspect_all, reply, reply->words);
}

static int
spare_living(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct sparing sparing = { request->words, reply };

	memcpy(allocator->sweep_living, request->words, sizeof(allocator->sweep_living));
	objects_each(exchange, object_spare, allocator->sweep_living);
	reply->count = 1;
	return words_some(allocator, place_of(request), spare, &sparing, reply->words);
}

static int
mark_all(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	int rc = 0;

	(void)reply;
	for (uint32_t i = 0; i < request->count && !rc; i++)
		rc = request->step == NAM_RPC_SWEEP_RECORDS ?
			record_mark(exchange, request->words[i], !request->label) :
			mark(&exchange->server->allocator, request->words[i],
				request->step == NAM_RPC_SWEEP_MARK);
	return rc;
}

static int
objects_mark(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	(void)reply;
	for (uint32_t i = 0; i < request->count; i++) {
		struct nam__object *tree, *store;

		tree = nam__objects_find(&exchange->server->trees, request->words[i]);
		store = nam__objects_find(&exchange->server->stores, request->words[i]);
		if (tree)
			object_mark(tree);
		if (store)
			object_mark(store);
	}
	return 0;
}

static int
own_all(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	bool keep = request->step == NAM_RPC_SWEEP_KEEP;
	uint16_t owner = keep ? 0 : exchange->connection->client_id;
	int rc = keep || owner ? 0 : -NAM_E_FABRIC_PROTOCOL;

	(void)reply;
	for (uint32_t i = 0; i < request->count && !rc; i++)
		rc = own(&exchange->server->allocator, request->words[i], owner);
	return rc;
}

static int
ask(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	int rc = 0;

	reply->count = (request->count + 63) / 64;
	memset(reply->words, 0, reply->count * sizeof(reply->words[0]));
	for (uint32_t i = 0; i < request->count && !rc; i++) {
		const struct nam__run_bits *books;
		struct block block;

		rc = block_at(&exchange->server->allocator, request->words[i], &block);
		books = rc ? NULL : books_of(&block);
		if (books && books->suspect & bit_of(&block))
			reply->words[i / 64] |= 1ull << i % 64;
	}
	return rc;
}

static int
close_suspects(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct closing closing = { exchange, reply };

	reply->count = 1;
	return words_some(&exchange->server->allocator, place_of(request), close_some, &closing,
		reply->words);
}

static int
end(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct dropping dropping = { exchange->server, reply, !request->label };
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct ending ending = { request->label, reply };
	uint64_t place = place_of(request);
	int rc;

	if (!place)
		objects_each(exchange, object_drop, &dropping);
	reply->count = 1;
	rc = words_some(allocator, place, end_suspects, &ending, reply->words);
	if (!rc && !reply->words[0])
		allocator->sweep = 0;
	return rc;
}

static int
living(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	const struct nam__membership *membership = &exchange->server->membership;

	(void)request;
	reply->count = NAM_SWEEP_LIVING_WORDS;
	memset(reply->words, 0, NAM_SWEEP_LIVING_WORDS * sizeof(reply->words[0]));
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX; id++)
		reply->words[id / 64] |= (uint64_t)nam__member_lives(membership, id) << id % 64;
	return 0;
}

/* One that is FENCING has no more to report: its limbo is lost with it. */
static int
report(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct nam__membership *membership = &exchange->server->membership;

	membership->sweep = request->number;
	__atomic_store_n(membership->sweep_word, request->number, __ATOMIC_SEQ_CST);
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && !reply->client; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE || member->swept == request->number)
			continue;
		reply->client = id;
		reply->incarnation = member->incarnation;
	}
	return 0;
}

static int
acknowledge(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	const struct nam__connection *connection = exchange->connection;

	(void)reply;
	if (!connection->session)
		return -NAM_E_FABRIC_PROTOCOL;
	exchange->server->membership.members[connection->client_id].swept = request->number;
	return 0;
}

enum {
	LEAD = 1,			/* at the lead, under the mutex of the members */
	NUMBERED = 2,			/* it has the number of a sweep */
	GOES_ON = 4,			/* of the one that has begun */
	SLICES = 8,			/* one word more, not 0, may be a place */
};

static const struct step {
	/* Under the mutex of the books. */
	int (*fn)(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
		struct nam_rpc_sweep_reply *reply);
	enum nam_role role;
	uint32_t count_min, count_max;		/* words, without a place */
	unsigned flags;
} steps[] = {
	[NAM_RPC_SWEEP_LIVING] = { living, NAM_ROLE_ADMIN, 0, 0, LEAD },
	[NAM_RPC_SWEEP_BEGIN] = { begin, NAM_ROLE_ADMIN, 0, 0, NUMBERED | SLICES },
	[NAM_RPC_SWEEP_SPARE] = { spare_living, NAM_ROLE_ADMIN, NAM_SWEEP_LIVING_WORDS,
		NAM_SWEEP_LIVING_WORDS, NUMBERED | GOES_ON | SLICES },
	[NAM_RPC_SWEEP_MARK] = { mark_all, NAM_ROLE_ADMIN, 1, NAM_RPC_SWEEP_BLOCKS,
		NUMBERED | GOES_ON },
	[NAM_RPC_SWEEP_RECORDS] = { mark_all, NAM_ROLE_ADMIN, 1, NAM_RPC_SWEEP_BLOCKS,
		NUMBERED | GOES_ON },
	[NAM_RPC_SWEEP_OBJECTS] = { objects_mark, NAM_ROLE_ADMIN, 1, NAM_RPC_SWEEP_BLOCKS,
		NUMBERED | GOES_ON },
	[NAM_RPC_SWEEP_HELD] = { mark_all, NAM_ROLE_WRITE, 1, NAM_RPC_SWEEP_BLOCKS, 0 },
	[NAM_RPC_SWEEP_OWN] = { own_all, NAM_ROLE_WRITE, 1, NAM_RPC_SWEEP_BLOCKS, 0 },
	[NAM_RPC_SWEEP_KEEP] = { own_all, NAM_ROLE_WRITE, 1, NAM_RPC_SWEEP_BLOCKS, 0 },
	[NAM_RPC_SWEEP_REPORT] = { report, NAM_ROLE_ADMIN, 0, 0, LEAD | NUMBERED },
	[NAM_RPC_SWEEP_ACK] = { acknowledge, NAM_ROLE_READ, 0, 0, LEAD | NUMBERED },
	[NAM_RPC_SWEEP_ASK] = { ask, NAM_ROLE_ADMIN, 1, NAM_RPC_SWEEP_BLOCKS,
		NUMBERED | GOES_ON },
	[NAM_RPC_SWEEP_CLOSE] = { close_suspects, NAM_ROLE_ADMIN, 0, 0,
		NUMBERED | GOES_ON | SLICES },
	[NAM_RPC_SWEEP_END] = { end, NAM_ROLE_ADMIN, 0, 0, NUMBERED | GOES_ON | SLICES },
};

/* Whether the request has the words, the number and the label of its step. */
static bool
well_formed(const struct step *step, const struct nam_rpc_sweep_request *request,
	uint32_t body_bytes)
{
	uint32_t count = request->count;

	if (body_bytes != sizeof(*request) + (uint64_t)count * sizeof(uint64_t))
		return false;
	if (step->flags & SLICES && count == step->count_max + 1 && request->words[count - 1])
		count--;
	return count >= step->count_min && count <= step->count_max &&
	       !request->number == !(step->flags & NUMBERED) &&
	       (!request->label || request->step == NAM_RPC_SWEEP_END ||
		       request->step == NAM_RPC_SWEEP_RECORDS);
}

int
nam__service_sweep(struct nam__exchange *exchange)
{
	const struct nam_rpc_sweep_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam_rpc_sweep_reply *reply = exchange->reply;
	const struct step *step;
	pthread_mutex_t *mutex;
	int rc;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	step = &steps[request->step];
	if (step->flags & LEAD && !nam__leads(exchange->server))
		return -NAM_E_CLUSTER;
	if ((step->role >= NAM_ROLE_WRITE && !nam__may_change(exchange->connection)) ||
		(step->role >= NAM_ROLE_ADMIN && !nam__is_admin(exchange)))
		return -NAM_E_FABRIC_DENIED;
	if (!well_formed(step, request, exchange->body_bytes))
		return -NAM_E_FABRIC_PROTOCOL;
	memset(reply, 0, sizeof(*reply));
	mutex = step->flags & LEAD ? &exchange->server->membership.mutex : &allocator->mutex;
	pthread_mutex_lock(mutex);
	rc = step->flags & GOES_ON && request->number != allocator->sweep ? -EAGAIN :
		step->fn(exchange, request, reply);
	pthread_mutex_unlock(mutex);
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + reply->count * sizeof(uint64_t));
	return rc;
}
