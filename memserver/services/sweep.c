/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients allocated and that nothing leads to (M19). */
#include "common/rpc/sweep_rpc.h"
#include "memserver/objects.h"
#include "memserver/services/records.h"
#include "memserver/services/runs.h"

#define SLICE_WORDS 64u			/* of 64 blocks: under the mutex at a time */

/* Bits of the blocks of word `word` that are used, and do not wait. */
static uint64_t
used(const struct nam__run *run, uint32_t word)
{
	uint32_t rest = run->count - 64 * word;
	uint64_t all = rest < 64 ? (1ull << rest) - 1 : UINT64_MAX;

	/* A run that has come since the sweep began has no bits. */
	return word >= run->words ? all : all & ~(run->bits[word].free | run->bits[word].waiting);
}

/* The first run that begins there or behind, by its number. */
static uint32_t
run_from(const struct nam__alloc_region *region, uint64_t offset)
{
	uint32_t number = nam__run_find(region, offset);

	return number == UINT32_MAX ? 0 : number + (region->runs[number]->offset < offset);
}

struct sweep {
	struct nam__exchange *exchange;
	struct nam__allocator *allocator;
	const struct nam_rpc_sweep_request *request;
	struct nam_rpc_sweep_reply *reply;
};

/* The place that a request for a slice ends with; 0: there is none. */
static uint64_t
place_of(const struct nam_rpc_sweep_request *request)
{
	uint32_t before = request->step == NAM_RPC_SWEEP_SPARE ? NAM_SWEEP_LIVING_WORDS : 0;

	return request->count > before ? request->words[before] : 0;
}

/*
 * Calls fn for each word of blocks that a client may have allocated, until it fails, from the place
 * of the request on.  The reply has the place where the next slice begins.  In between, runs come,
 * grow and end; their new blocks are not suspect (M19).
 */
static int
words_some(const struct sweep *sweep,
	int (*fn)(const struct sweep *sweep, struct nam__run *run, uint32_t word))
{
	const struct nam__allocator *allocator = sweep->allocator;
	struct nam_gaddr at = { place_of(sweep->request) };
	uint32_t i = at.raw ? (uint32_t)nam_gaddr_region(at) - allocator->first_region_id : 0;
	uint64_t offset = at.raw ? nam_gaddr_offset(at) : 0;
	uint32_t words = 0;
	int rc = 0;

	sweep->reply->count = 1;
	sweep->reply->words[0] = 0;
	for (; i < allocator->regions_count; i++, offset = 0) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		if (region->kind != NAM_MEMORY_PUBLIC)
			continue;
		for (uint32_t k = run_from(region, offset); k < region->runs_count; k++) {
			struct nam__run *run = region->runs[k];

			if (words >= SLICE_WORDS) {
				sweep->reply->words[0] = nam_gaddr_make((uint16_t)(
					allocator->first_region_id + i), run->offset, 0).raw;
				return 0;
			}
			for (uint32_t word = 0; !rc && word < (run->count + 63) / 64;
				word++, words++)
				rc = fn(sweep, run, word);
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

static int
suspect_all(const struct sweep *sweep, struct nam__run *run, uint32_t word)
{
	int rc = nam__run_reserve(run);

	if (rc)
		return rc;
	run->bits[word].suspect = used(run, word);
	run->bits[word].named = 0;
	count_add(run, run->bits[word].suspect, &sweep->reply->blocks, &sweep->reply->bytes);
	return 0;
}

static int
spare(const struct sweep *sweep, struct nam__run *run, uint32_t word)
{
	const uint64_t *living = sweep->allocator->sweep_living;

	if (word >= run->words)
		return 0;
	for (uint64_t left = run->bits[word].suspect; left; left &= left - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzll(left);
		uint16_t owner = run->owners[64 * word + bit];

		/* M19: a client that lives may still make a way to it. */
		if (!owner || (NAM_GUARD(SWEEP_OWNER) && (living[owner / 64] >> owner % 64 & 1)))
			run->bits[word].suspect &= ~(1ull << bit);
	}
	count_add(run, run->bits[word].suspect, &sweep->reply->blocks, &sweep->reply->bytes);
	return 0;
}

/*
 * R10: a handle whose dropper has died may still know this head, and READ it, so its tag is
 * cleared.  Tags are odd: a block that begins with an even word is no head.
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

static int
close_some(const struct sweep *sweep, struct nam__run *run, uint32_t word)
{
	const struct nam__allocator_memory *calls = &sweep->allocator->calls;
	uint8_t *base = calls->base(calls->arg, run->region);
	/* Other blocks are as long. */
	bool (*fn)(uint8_t *block) = run->stride == NAM_RECORD_HEAD_BYTES ? head_close :
		run->stride == NAM_SUPERBLOCK_STRIDE ? superblock_close : NULL;

	if (word >= run->words || !fn)
		return 0;
	for (uint64_t left = run->bits[word].suspect; left; left &= left - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzll(left);
		uint64_t offset = run->offset + (uint64_t)run->stride * (64 * word + bit);

		if (!fn(base + offset))
			continue;
		nam__noted_add(sweep->exchange, run->region, offset, run->stride);
		count_add(run, 1ull << bit, &sweep->reply->blocks, &sweep->reply->bytes);
	}
	return 0;
}

static int
end_suspects(const struct sweep *sweep, struct nam__run *run, uint32_t word)
{
	struct nam_rpc_sweep_reply *reply = sweep->reply;
	uint64_t blocks = used(run, word);

	count_add(run, blocks, &reply->used_blocks, &reply->used_bytes);
	if (word >= run->words)
		return 0;
	count_add(run, blocks & run->bits[word].named, &reply->named_blocks, &reply->named_bytes);
	blocks = run->bits[word].suspect;
	run->bits[word].suspect = 0;
	count_add(run, blocks, &reply->blocks, &reply->bytes);
	if (!blocks || !sweep->request->label)
		return 0;
	run->bits[word].swept |= blocks;
	nam__run_wait(sweep->allocator, run, word, blocks, sweep->request->label);
	return 0;
}

/* Blocks of other kinds of memory belong to no client. */
static int
block_at(const struct nam__allocator *allocator, uint64_t raw, struct nam__block *ret)
{
	return nam__block_find(allocator, raw, NAM_MEMORY_PUBLIC, ret) ? 0 : -NAM_E_FABRIC_PROTOCOL;
}

/* The word of books with the block's bit, or NULL. */
static struct nam__run_bits *
books_of(const struct nam__block *block)
{
	return !block->run || block->number / 64 >= block->run->words ? NULL :
		&block->run->bits[block->number / 64];
}

static uint64_t
bit_of(const struct nam__block *block)
{
	return 1ull << block->number % 64;
}

static int
mark(struct nam__allocator *allocator, uint64_t raw, bool named)
{
	struct nam__run_bits *books;
	struct nam__block block;
	int rc = block_at(allocator, raw, &block);

	books = rc ? NULL : books_of(&block);
	if (books) {
		books->suspect &= ~bit_of(&block);
		books->named |= named ? bit_of(&block) : 0;
	}
	return rc;
}

static int
mark_one(const struct sweep *sweep, uint32_t i)
{
	return mark(sweep->allocator, sweep->request->words[i],
		sweep->request->step == NAM_RPC_SWEEP_MARK);
}

static int
own_one(const struct sweep *sweep, uint32_t i)
{
	bool keep = sweep->request->step == NAM_RPC_SWEEP_KEEP;
	uint16_t owner = keep ? 0 : sweep->exchange->connection->client_id;
	struct nam__block block;
	int rc = block_at(sweep->allocator, sweep->request->words[i], &block);

	if (!rc && (!block.run || (!keep && !owner)))
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

static int
ask_one(const struct sweep *sweep, uint32_t i)
{
	struct nam_rpc_sweep_reply *reply = sweep->reply;
	const struct nam__run_bits *books;
	struct nam__block block;
	int rc = block_at(sweep->allocator, sweep->request->words[i], &block);

	if (i % 64 == 0)
		reply->words[reply->count++] = 0;
	books = rc ? NULL : books_of(&block);
	if (books && books->suspect & bit_of(&block))
		reply->words[i / 64] |= 1ull << i % 64;
	return rc;
}

/* Clients can write the words of a record: a word that is no address of a block leads to none. */
static void
version_mark(void *arg, uint64_t at)
{
	(void)!mark(arg, nam_gaddr_untagged(NAM_GADDR(at)).raw, true);
}

static int
record_mark(const struct sweep *sweep, uint32_t i)
{
	const struct nam__server_records records = nam__records_of(sweep->exchange, 0);
	struct nam__allocator *allocator = sweep->allocator;
	uint64_t head_at = sweep->request->words[i];
	struct nam__server_head *head;
	int rc = mark(allocator, head_at, true);

	if (rc || !NAM_GUARD(SWEEP_RECORDS) || nam__server_record_lock(&records, head_at, &head))
		return rc;
	/* C26: versions that are prepared, or kept for readers, are not the latest. */
	nam__server_record_sweep(&records, head, allocator->sweep_living,
		nam__records_now(sweep->exchange->server), !sweep->request->label, version_mark,
		allocator);
	nam__server_record_unlock(&records, head_at);
	return 0;
}

static void
objects_each(const struct sweep *sweep, void (*fn)(const struct sweep *sweep,
	struct nam__objects *objects, struct nam__object *object))
{
	struct nam_server *server = sweep->exchange->server;
	struct nam__objects *const tables[] = { &server->trees, &server->stores };

	for (unsigned i = 0; i < 2; i++)
		for (uint32_t slot = 0; slot < tables[i]->slots_count; slot++) {
			struct nam__object *object = nam__objects_at(tables[i], slot);

			if (object)
				fn(sweep, tables[i], object);
		}
}

static void
object_suspect(const struct sweep *sweep, struct nam__objects *objects, struct nam__object *object)
{
	(void)sweep;
	(void)objects;
	object->suspect = true;
	object->named = false;
}

static void
object_spare(const struct sweep *sweep, struct nam__objects *objects, struct nam__object *object)
{
	const uint64_t *living = sweep->allocator->sweep_living;

	(void)objects;
	/* M19 */
	if (!object->owner || living[object->owner / 64] >> object->owner % 64 & 1)
		object->suspect = false;
}

/* A tree and a store may have the same number. */
static int
object_mark(const struct sweep *sweep, uint32_t i)
{
	struct nam_server *server = sweep->exchange->server;
	struct nam__object *const objects[] = {
		nam__objects_find(&server->trees, sweep->request->words[i]),
		nam__objects_find(&server->stores, sweep->request->words[i]),
	};

	for (unsigned k = 0; k < 2; k++)
		if (objects[k]) {
			objects[k]->suspect = false;
			objects[k]->named = true;
		}
	return 0;
}

static void
object_drop(const struct sweep *sweep, struct nam__objects *objects, struct nam__object *object)
{
	struct nam_rpc_sweep_reply *reply = sweep->reply;

	reply->objects_used_bytes += object->bytes;
	reply->objects_named_bytes += object->named ? object->bytes : 0;
	if (!object->suspect)
		return;
	object->suspect = false;
	reply->objects++;
	reply->objects_bytes += object->bytes;
	/* If its client drops it at this moment, it is gone already. */
	if (sweep->request->label)
		(void)!nam__objects_drop(objects, sweep->exchange->server, object->id);
}

static int
begin(const struct sweep *sweep)
{
	bool goes_on = place_of(sweep->request);

	/* M19: marks of the other sweep count. */
	if (goes_on && sweep->allocator->sweep != sweep->request->number)
		return -EAGAIN;
	sweep->allocator->sweep = sweep->request->number;
	if (!goes_on)
		objects_each(sweep, object_suspect);
	return words_some(sweep, suspect_all);
}

static int
spare_living(const struct sweep *sweep)
{
	memcpy(sweep->allocator->sweep_living, sweep->request->words,
		sizeof(sweep->allocator->sweep_living));
	objects_each(sweep, object_spare);
	return words_some(sweep, spare);
}

static int
close_suspects(const struct sweep *sweep)
{
	return words_some(sweep, close_some);
}

static int
end(const struct sweep *sweep)
{
	int rc;

	if (!place_of(sweep->request))
		objects_each(sweep, object_drop);
	rc = words_some(sweep, end_suspects);
	if (!rc && !sweep->reply->words[0])
		sweep->allocator->sweep = 0;
	return rc;
}

static int
living(const struct sweep *sweep)
{
	const struct nam__membership *membership = &sweep->exchange->server->membership;
	struct nam_rpc_sweep_reply *reply = sweep->reply;

	reply->count = NAM_SWEEP_LIVING_WORDS;
	memset(reply->words, 0, NAM_SWEEP_LIVING_WORDS * sizeof(reply->words[0]));
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX; id++)
		reply->words[id / 64] |= (uint64_t)nam__member_lives(membership, id) << id % 64;
	return 0;
}

/* A client that is FENCING has no more to report: its limbo is lost with it. */
static int
report(const struct sweep *sweep)
{
	struct nam__membership *membership = &sweep->exchange->server->membership;
	uint64_t number = sweep->request->number;

	membership->sweep = number;
	__atomic_store_n(membership->sweep_word, number, __ATOMIC_SEQ_CST);
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && !sweep->reply->client; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE || member->swept == number)
			continue;
		sweep->reply->client = id;
		sweep->reply->incarnation = member->incarnation;
	}
	return 0;
}

static int
acknowledge(const struct sweep *sweep)
{
	const struct nam__connection *connection = sweep->exchange->connection;
	struct nam__membership *membership = &sweep->exchange->server->membership;

	if (!connection->session)
		return -NAM_E_FABRIC_PROTOCOL;
	membership->members[connection->client_id].swept = sweep->request->number;
	return 0;
}

enum {
	LEAD = 1,			/* at the lead, under the mutex of the members */
	NUMBERED = 2,			/* it has the number of a sweep */
	GOES_ON = 4,			/* of the one that has begun */
	SLICES = 8,			/* one word more, not 0, may be a place */
};

/* A step on the whole; and one on each word, which has at least one. */
#define WHOLE(step, fn, role, count, flags)                                                        \
	[NAM_RPC_SWEEP_##step] = { fn, NULL, NAM_ROLE_##role, count, count, flags }
#define EACH(step, fn, role, flags)                                                                \
	[NAM_RPC_SWEEP_##step] = { NULL, fn, NAM_ROLE_##role, 1, NAM_RPC_SWEEP_BLOCKS, flags }

static const struct step {
	/* Under the mutex of the books. */
	int (*whole)(const struct sweep *sweep);
	int (*each)(const struct sweep *sweep, uint32_t i);
	enum nam_role role;
	uint32_t count_min, count_max;		/* words, without a place */
	unsigned flags;
} steps[] = {
	WHOLE(LIVING, living, ADMIN, 0, LEAD),
	WHOLE(BEGIN, begin, ADMIN, 0, NUMBERED | SLICES),
	WHOLE(SPARE, spare_living, ADMIN, NAM_SWEEP_LIVING_WORDS, NUMBERED | GOES_ON | SLICES),
	EACH(MARK, mark_one, ADMIN, NUMBERED | GOES_ON),
	EACH(RECORDS, record_mark, ADMIN, NUMBERED | GOES_ON),
	EACH(OBJECTS, object_mark, ADMIN, NUMBERED | GOES_ON),
	EACH(HELD, mark_one, WRITE, 0),
	EACH(OWN, own_one, WRITE, 0),
	EACH(KEEP, own_one, WRITE, 0),
	WHOLE(REPORT, report, ADMIN, 0, LEAD | NUMBERED),
	WHOLE(ACK, acknowledge, READ, 0, LEAD | NUMBERED),
	EACH(ASK, ask_one, ADMIN, NUMBERED | GOES_ON),
	WHOLE(CLOSE, close_suspects, ADMIN, 0, NUMBERED | GOES_ON | SLICES),
	WHOLE(END, end, ADMIN, 0, NUMBERED | GOES_ON | SLICES),
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

/* With the mutex of its step. */
static int
run_step(const struct step *step, const struct sweep *sweep)
{
	int rc = 0;

	if (step->flags & GOES_ON && sweep->request->number != sweep->allocator->sweep)
		return -EAGAIN;
	if (step->whole)
		return step->whole(sweep);
	for (uint32_t i = 0; i < sweep->request->count && !rc; i++)
		rc = step->each(sweep, i);
	return rc;
}

int
nam__service_sweep(struct nam__exchange *exchange)
{
	const struct nam_rpc_sweep_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam_rpc_sweep_reply *reply = exchange->reply;
	const struct sweep sweep = { exchange, allocator, request, reply };
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
	rc = run_step(step, &sweep);
	pthread_mutex_unlock(mutex);
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + reply->count * sizeof(uint64_t));
	return rc;
}
