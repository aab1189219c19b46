/* SPDX-License-Identifier: Apache-2.0 */
/* move_test.c -- the books of a memory server pass to its successor. */
#include <errno.h>

#include "common/rpc/fence_rpc.h"
#include "common/rpc/kv_rpc.h"
#include "common/rpc/sweep_rpc.h"
#include "kv/kv.h"
#include "memserver/services/records.h"
#include "memserver/stores.h"
#include "move_fixture.h"

#define MEMORY (4ull << 20)
#define REGION (512u << 10)
#define STRIDE 1088u
#define SMALL 64u
#define OTHER 4096u
#define MANY 2000u			/* more than a page of books */
#define DEAD 5u
#define LIVING 6u
#define SWEEP 77u
#define HOUR_NS 3600000000000ull
#define ALL_MAX 70000u

static int
setup(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

/* ---- a server that has had clients --------------------------------------------------------- */

static void
alloc_as(struct fixture *f, uint16_t client, uint32_t stride, uint64_t *blocks, uint32_t count)
{
	f->connection.client_id = client;
	assert_int_equal(ask(f, stride, count), 0);
	assert_int_equal(collect(f, stride, blocks), count);
	f->connection.client_id = 0;
}

static int
sweep(struct fixture *f, uint32_t step, uint64_t label, const uint64_t *words, uint32_t count)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_sweep_request *request = (void *)body;

	*request = (struct nam_rpc_sweep_request){ .step = step, .count = count, .number = SWEEP,
		.label = label };
	if (count)
		memcpy(request->words, words, count * sizeof(*words));
	return call(f, NAM_RPC_SWEEP, body, (uint32_t)(sizeof(*request) + count * sizeof(*words)));
}

/* How many blocks of dead clients there are, if only that one lives. */
static uint64_t
suspects(struct fixture *f, uint16_t living)
{
	const struct nam_rpc_sweep_reply *reply = reply_body(f);
	uint64_t words[NAM_SWEEP_LIVING_WORDS] = { 1ull << living };

	assert_int_equal(sweep(f, NAM_RPC_SWEEP_BEGIN, 0, NULL, 0), 0);
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_SPARE, 0, words, NAM_SWEEP_LIVING_WORDS), 0);
	return reply->blocks;
}

static int
fence(struct fixture *f, uint16_t id, uint16_t incarnation)
{
	const struct nam_rpc_fence_request request = { .step = NAM_RPC_FENCE_CLOSE,
		.client_id = id, .incarnation = incarnation };

	return call(f, NAM_RPC_FENCE, &request, sizeof(request));
}

static int
attach(struct fixture *f, uint16_t id, uint16_t incarnation)
{
	struct nam__connection connection = { .handler = &f->server->handlers[0],
		.client_id = id, .incarnation = incarnation };
	int rc = nam__membership_attach(&f->server->membership, &connection);

	if (!rc)
		nam__membership_detach(&f->server->membership, &connection);
	return rc;
}

static int
view_copy(struct fixture *f, uint64_t number, uint64_t term)
{
	_Alignas(8) uint8_t body[sizeof(struct nam_rpc_view_request) +
		2 * sizeof(struct nam_view_member)] = { 0 };
	struct nam_rpc_view_request *request = (void *)body;

	*request = (struct nam_rpc_view_request){ .step = NAM_RPC_VIEW_COPY, .count = 2,
		.view = { .number = number, .term = term, .lead_boot = 1000, .count = 2 } };
	request->members[0] = (struct nam_view_member){ .state = NAM_VIEW_UP, .boot = 1000,
		.memory = 1000, .since = 1, .renewed = 1, .address = "shm:/a" };
	request->members[1] = (struct nam_view_member){ .id = ID, .state = NAM_VIEW_UP,
		.boot = 1001, .memory = 1001, .since = 1, .renewed = 1, .address = "shm:/b" };
	return call(f, NAM_RPC_VIEW, body, sizeof(body));
}

static struct {
	uint64_t dead[100], living[100], other[10], small[40], many[MANY];
	uint64_t batch;			/* that is held */
} made;

/* Blocks of each kind, held runs, private and leaving regions; clients; a view. */
static void
live(struct fixture *f)
{
	static uint64_t all[ALL_MAX];
	uint32_t count;

	/* All regions have had blocks; those behind the first are free again. */
	oldest_slot = 1;
	count = fill(f, OTHER, all);
	give_all(f, OTHER, all, count);
	(void)reclaim_all(f);
	/* Half of the unused ones are private then. */
	count = (uint32_t)reclaim(f, HOLD_PRIVATE, 0, &made.batch);
	assert_true(count);
	(void)reclaim(f, NAM_RPC_RECLAIM_RETURN, made.batch, NULL);
	assert_true(f->server->allocator.memory[NAM_MEMORY_PRIVATE].bytes);
	alloc_as(f, DEAD, STRIDE, made.dead, 100);
	alloc_as(f, LIVING, STRIDE, made.living, 100);
	alloc_as(f, DEAD, OTHER, made.other, 10);
	alloc_as(f, LIVING, SMALL, made.small, 40);
	alloc_as(f, LIVING, 2 * SMALL, made.many, MANY);
	assert_int_equal(give(f, STRIDE, made.dead, 10), 0);
	assert_int_equal(give_later(f, 9, STRIDE, made.dead + 10, 10), 0);
	/* A sweep frees dead[20]. */
	assert_int_equal(suspects(f, LIVING), 80 + 10);
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_MARK, 0, made.dead + 21, 79), 0);
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_MARK, 0, made.other, 10), 0);
	assert_int_equal(sweep(f, NAM_RPC_SWEEP_END, 8, NULL, 0), 0);
	/* Held, and regions that leave. */
	assert_int_equal(give(f, SMALL, made.small, 40), 0);
	assert_true(reclaim(f, HOLD_PRIVATE, 0, &made.batch));
	assert_int_equal(attach(f, LIVING, 3), 0);
	assert_int_equal(fence(f, DEAD, 2), 0);
	assert_int_equal(fence(f, 4095, 9), 0);
	nam__finished_add(&f->server->finished[LIVING], 3, 1000);
	nam__finished_add(&f->server->finished[LIVING], 4, 2000);
	assert_int_equal(view_copy(f, 5, 2), 0);
}

static void
move_books(struct pair *pair)
{
	struct books books;

	assert_int_equal(export_books(pair->old, &books), 0);
	assert_int_equal(import_books(pair->next, &books), 0);
	free(books.words);
}

/* ---- what is the same ---------------------------------------------------------------------- */

static void
import__of_a_server_with_clients__HAS_EQUAL_BOOKS(void **state)
{
	struct pair *pair = *state;
	struct books before, after;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &before), 0);
	/* Each part is there. */
	assert_true(head_of(&before)->runs && head_of(&before)->words);
	assert_int_equal(head_of(&before)->clients, 3);
	assert_int_equal(head_of(&before)->members, 2);
	assert_int_equal(import_books(pair->next, &before), 0);
	assert_int_equal(export_books(pair->next, &after), 0);
	assert_true(head_of(&after)->now_ns >= head_of(&before)->now_ns);
	head_of(&after)->now_ns = head_of(&before)->now_ns;
	books_seal(&after);
	assert_int_equal(after.bytes, before.bytes);
	assert_memory_equal(after.words, before.words, before.bytes);
	assert_memory_equal(pair->next->server->allocator.memory,
		pair->old->server->allocator.memory, sizeof(pair->old->server->allocator.memory));
	/* It is an ordinary one now. */
	assert_int_equal(import_books(pair->next, &before), -NAM_E_CLUSTER);
	assert_int_equal(call_status(pair->next), 0);
	assert_int_equal(((struct nam_rpc_status_reply *)reply_body(pair->next))->phase,
		NAM_SERVER_SERVES);
	free(before.words);
	free(after.words);
}

/* Copies that the mover would have asked for change nothing. */
static void
export__of_a_server_with_clients__CHANGES_NOTHING(void **state)
{
	struct pair *pair = *state;
	struct books one, two;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &one), 0);
	assert_int_equal(export_books(pair->old, &two), 0);
	head_of(&two)->now_ns = head_of(&one)->now_ns;
	books_seal(&two);
	assert_int_equal(one.bytes, two.bytes);
	assert_memory_equal(one.words, two.words, one.bytes);
	alloc_as(pair->old, LIVING, STRIDE, made.living, 1);
	free(one.words);
	free(two.words);
}

static int
by_word(const void *one, const void *two)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

	return a < b ? -1 : a > b;
}

static void
alloc__after_import__GIVES_THE_SAME_BLOCKS(void **state)
{
	struct pair *pair = *state;
	struct fixture *both[2] = { pair->old, pair->next };
	uint64_t *blocks[2], bytes[2];
	uint32_t counts[2];

	live(pair->old);
	move_books(pair);
	for (int i = 0; i < 2; i++) {
		struct fixture *f = both[i];

		/* Given back by its owner once, and not again. */
		assert_int_equal(give(f, STRIDE, made.living, 3), 0);
		assert_int_equal(give(f, STRIDE, made.living, 1), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(give(f, STRIDE, made.dead, 1), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(give(f, STRIDE, made.dead + 10, 1), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(give(f, SMALL, made.living + 3, 1), -NAM_E_FABRIC_PROTOCOL);
		bytes[i] = reclaim(f, NAM_RPC_RECLAIM_RETURN, made.batch, NULL);
		assert_true(bytes[i]);
		/* Those that wait for readers come when these are gone. */
		oldest_slot = 20;
		(void)reclaim_all(f);
		blocks[i] = malloc(ALL_MAX * sizeof(uint64_t));
		counts[i] = fill(f, STRIDE, blocks[i]);
		counts[i] += fill(f, SMALL, blocks[i] + counts[i]);
		qsort(blocks[i], counts[i], sizeof(uint64_t), by_word);
	}
	assert_int_equal(bytes[0], bytes[1]);
	assert_int_equal(counts[0], counts[1]);
	/* With their tags: one of them was freed by a sweep. */
	assert_memory_equal(blocks[0], blocks[1], counts[0] * sizeof(uint64_t));
	free(blocks[0]);
	free(blocks[1]);
}

static void
alloc__vacant_memory_after_import__IS_ZEROED(void **state)
{
	struct pair *pair = *state;
	uint64_t block;
	uint8_t *at;

	alloc_as(pair->old, LIVING, OTHER, &block, 1);
	assert_int_equal(give(pair->old, OTHER, &block, 1), 0);
	(void)reclaim_all(pair->old);
	move_books(pair);
	/* As if a copier had brought more than it had to. */
	at = nam__memory_public_at(pair->next->server, NAM_GADDR(block), OTHER);
	memset(at, 0xaa, OTHER);
	alloc_as(pair->next, LIVING, OTHER, &block, 1);
	for (uint32_t i = 0; i < OTHER; i++)
		assert_int_equal(at[i], 0);
}

static void
sweep__after_import__KNOWS_THE_OWNERS(void **state)
{
	struct pair *pair = *state;

	live(pair->old);
	/* One that is under way begins anew. */
	(void)suspects(pair->old, LIVING);
	move_books(pair);
	assert_int_equal(sweep(pair->next, NAM_RPC_SWEEP_MARK, 0, made.dead + 30, 1), -EAGAIN);
	assert_int_equal(suspects(pair->old, LIVING), 79 + 10);
	assert_int_equal(suspects(pair->next, LIVING), 79 + 10);
	assert_int_equal(suspects(pair->old, DEAD), 100 + MANY);
	assert_int_equal(suspects(pair->next, DEAD), 100 + MANY);
}

static void
attach__after_import__REFUSES_THE_SAME(void **state)
{
	struct pair *pair = *state;
	struct fixture *both[2] = { pair->old, pair->next };

	live(pair->old);
	/* A client that was fenced meanwhile, here too, and a later one. */
	assert_int_equal(fence(pair->next, LIVING, 3), 0);
	assert_int_equal(fence(pair->next, DEAD, 1), 0);
	assert_int_equal(fence(pair->next, 8, 1), 0);
	move_books(pair);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(attach(both[i], DEAD, 2), -NAM_E_FENCED);
		assert_int_equal(attach(both[i], DEAD, 1), -NAM_E_FENCED);
		assert_int_equal(attach(both[i], 4095, 9), -NAM_E_FENCED);
		assert_int_equal(attach(both[i], LIVING, 2), -NAM_E_FENCED);
		assert_int_equal(attach(both[i], LIVING, 3), i ? -NAM_E_FENCED : 0);
		assert_int_equal(attach(both[i], 8, 1), i ? -NAM_E_FENCED : 0);
		assert_int_equal(both[i]->server->membership.newest_of_all, 9);
		assert_true(nam__finished_has(both[i]->server->finished,
			LIVING + 999ull * NAM_CLIENTS_MAX));
		assert_false(nam__finished_has(both[i]->server->finished,
			LIVING + 1500ull * NAM_CLIENTS_MAX));
		/* M17 */
		assert_int_equal(view_copy(both[i], 6, 1), -NAM_E_TERM);
		assert_int_equal(view_copy(both[i], 4, 2), -NAM_E_VIEW);
		assert_int_equal(view_copy(both[i], 6, 2), 0);
	}
}

static void
import__a_later_view_came__KEEPS_IT(void **state)
{
	struct pair *pair = *state;

	live(pair->old);
	assert_int_equal(view_copy(pair->next, 7, 3), 0);
	move_books(pair);
	assert_int_equal(pair->next->server->membership.view.head.number, 7);
	assert_int_equal(pair->next->server->membership.view.head.term, 3);
}

/* Leases in public memory go on, whatever the clock of the successor's host says. */
static void
records__after_import__HAVE_THE_CLOCK_OF_THE_OLD_SERVER(void **state)
{
	struct pair *pair = *state;
	uint64_t before, after;

	pair->old->server->records_clock_ns = HOUR_NS;
	before = nam__records_now(pair->old->server);
	move_books(pair);
	after = nam__records_now(pair->next->server);
	assert_true(after >= before && after <= nam__records_now(pair->old->server));
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void
import__any_word_damaged__IS_REFUSED_AND_CHANGES_NOTHING(void **state)
{
	struct pair *pair = *state;
	struct fixture *empty = server_start(ID, false, MEMORY, REGION);
	struct books books, ours, fresh;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	for (uint64_t i = 0; i < books.bytes / 8; i++) {
		uint64_t bit = 1ull << i % 64;
		int rc;

		books.words[i] ^= bit;
		rc = import_books(pair->next, &books);
		if (rc != -NAM_E_FABRIC_PROTOCOL && rc != -NAM_E_REGIONS)
			fail_msg("word %u: %s", (unsigned)i, nam_err_name(rc));
		books.words[i] ^= bit;
	}
	/* It is as one that was started just now. */
	pair->next->server->phase = NAM_SERVER_SERVES;
	assert_int_equal(export_books(pair->next, &ours), 0);
	assert_int_equal(export_books(empty, &fresh), 0);
	head_of(&ours)->now_ns = head_of(&fresh)->now_ns;
	books_seal(&ours);
	assert_int_equal(ours.bytes, fresh.bytes);
	assert_memory_equal(ours.words, fresh.words, fresh.bytes);
	pair->next->server->phase = NAM_SERVER_SUCCESSOR;
	assert_int_equal(import_books(pair->next, &books), 0);
	free(books.words);
	free(ours.words);
	free(fresh.words);
	server_end(empty);
}

/* With a hash that fits. */
static void
refused(struct pair *pair, const struct books *books, int rc)
{
	books_seal(books);
	assert_int_equal(import_books(pair->next, books), rc);
	assert_int_equal(pair->next->server->phase, NAM_SERVER_SUCCESSOR);
}

#define WRONG(field, value)                                                                         \
	do {                                                                                        \
		__typeof__(field) saved = field;                                                    \
                                                                                                    \
		field = (__typeof__(field))(value);                                                 \
		refused(pair, &books, -NAM_E_FABRIC_PROTOCOL);                                      \
		field = saved;                                                                      \
	} while (0)

static void
import__books_that_do_not_agree__IS_PROTOCOL(void **state)
{
	struct pair *pair = *state;
	struct nam_move_run *run, *vacant = NULL, *blocks = NULL, *held = NULL;
	struct nam_move_word *word;
	struct nam_move_client *client;
	struct nam_view_member *member;
	struct nam_move_head *head;
	struct books books;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	head = head_of(&books);
	run = runs_of(&books);
	for (uint32_t i = 0; i < head->runs; i++) {
		if (!run[i].stride)
			vacant = &run[i];
		else if (run[i].batch)
			held = &run[i];
		else if (run[i].stride == STRIDE)
			blocks = &run[i];
	}
	assert_true(vacant && blocks && held && blocks->words && blocks->label);
	word = words_of(&books);
	client = clients_of(&books);
	member = members_of(&books);
	WRONG(head->trees, 1);
	WRONG(head->runs, head->runs + 1);
	WRONG(head->words, UINT32_MAX);
	WRONG(head->clients, NAM_CLIENTS_MAX + 1);
	WRONG(head->members, 1);
	WRONG(head->view.count, 1);
	WRONG(head->view.lead_boot, 1);
	WRONG(head->batch, 0);
	WRONG(head->bytes, head->bytes + 8);
	WRONG(regions_of(&books)->kind, NAM_MEMORY_READ_ONLY);
	WRONG(regions_of(&books)->kind, NAM_MEMORY_PRIVATE);
	WRONG(regions_of(&books)->announced, NAM_MEMORY_PRIVATE);
	WRONG(regions_of(&books)->announced, NAM_MEMORY_READ_ONLY);
	WRONG(regions_of(&books)->turning, UINT64_MAX);
	WRONG(regions_of(&books)->runs, regions_of(&books)->runs - 1);
	WRONG(regions_of(&books)->runs, regions_of(&books)->runs + 1);
	WRONG(regions_of(&books)->had_blocks, 2);
	WRONG(regions_of(&books)->reserved, 1);
	WRONG(run->offset, 0);
	WRONG(run->bytes, run->bytes - 64);
	WRONG(run->bytes, UINT64_MAX);
	WRONG(run->region, 1);
	WRONG(run->reserved, 1);
	WRONG(vacant->dirty, 2);
	WRONG(vacant->count, 1);
	WRONG(vacant->words, 1);
	WRONG(vacant->batch, 1);
	WRONG(vacant->label, 1);
	WRONG(blocks->stride, 0);
	WRONG(blocks->stride, STRIDE - 1);
	WRONG(blocks->stride, STRIDE / 2);
	WRONG(blocks->count, blocks->count + 1);
	WRONG(blocks->words, blocks->words - 1);
	WRONG(blocks->words, 0);
	WRONG(blocks->dirty, 1);
	WRONG(blocks->label, 0);
	WRONG(blocks->batch, 1);
	WRONG(held->batch, UINT64_MAX);
	WRONG(word->free, word->free | word->waiting);
	WRONG(word->swept, UINT64_MAX);
	WRONG(word->owners[63], NAM_CLIENTS_MAX);
	WRONG(client->id, NAM_CLIENTS_MAX);
	WRONG(client[1].id, client->id);
	WRONG(client->fenced, 3);
	WRONG(client->incarnation, 0);
	WRONG(client->reserved, 1);
	WRONG(client->reserved_more, 1);
	WRONG(client->gap_from_us, UINT64_MAX);
	WRONG(member->boot, 0);
	WRONG(member->state, NAM_VIEW_JOINING);
	WRONG(member->address[0], 0);
	WRONG(member[1].id, 0);
	books_seal(&books);
	assert_int_equal(import_books(pair->next, &books), 0);
	free(books.words);
}

static void
import__pages_out_of_order__IS_PROTOCOL_AND_MAY_BEGIN_ANEW(void **state)
{
	struct pair *pair = *state;
	struct fixture *f = pair->next;
	struct nam__connection other = { 0 };
	struct books books;
	const uint8_t *bytes;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	bytes = (const uint8_t *)books.words;
	assert_true(books.bytes > NAM_RPC_MOVE_PAGE_BYTES);
#define PAGE(at, page) move_step(f, &f->connection, NAM_RPC_MOVE_IMPORT, at, bytes + (at), page)
	assert_int_equal(PAGE(800, 800), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(PAGE(0, 80), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(PAGE(0, 804), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(PAGE(0, 0), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(PAGE(0, 800), 0);
	assert_int_equal(PAGE(1600, 800), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(PAGE(800, 800), 0);
	assert_int_equal(PAGE(800, 800), -NAM_E_FABRIC_PROTOCOL);
	/* Another connection has its own. */
	assert_int_equal(move_step(f, &other, NAM_RPC_MOVE_IMPORT, 1600, bytes + 1600, 800),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &other, NAM_RPC_MOVE_IMPORT, 0, bytes, 800), 0);
	assert_int_equal(import_books(f, &books), 0);
	assert_int_equal(move_step(f, &other, NAM_RPC_MOVE_IMPORT, 800, bytes + 800, 800),
		-NAM_E_CLUSTER);
	free(other.move_stage);
#undef PAGE
	free(books.words);
}

static void
export__pages_out_of_order__IS_PROTOCOL(void **state)
{
	struct pair *pair = *state;
	struct fixture *f = pair->old;
	struct nam__connection other = { 0 };
	const struct nam_rpc_move_reply *reply = reply_body(f);

	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, 8, NULL, 0),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, 0, NULL, 0), 0);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, 4, NULL, 0),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, 8, "12345678", 8),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &other, NAM_RPC_MOVE_EXPORT, 8, NULL, 0),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, 8, NULL, 0), 0);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, reply->bytes, NULL, 0),
		-NAM_E_FABRIC_PROTOCOL);
}

static void
import__other_regions_or_id__IS_REGIONS(void **state)
{
	struct pair *pair = *state;
	struct fixture *others[] = {
		server_start(ID + 1, true, MEMORY, REGION),
		server_start(ID, true, MEMORY + REGION, REGION),
		server_start(ID, true, MEMORY * 2, REGION * 2),
	};
	struct books books;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(import_books(others[i], &books), -NAM_E_REGIONS);
		assert_int_equal(others[i]->server->phase, NAM_SERVER_SUCCESSOR);
		server_end(others[i]);
	}
	free(books.words);
}

static void
move__wrong_server__IS_CLUSTER(void **state)
{
	struct pair *pair = *state;
	struct fixture *lead = server_start(0, false, MEMORY, REGION);
	struct nam_rpc_move_request request = { .step = NAM_RPC_MOVE_EXPORT,
		.boot = pair->old->server->boot + 1 };
	struct books books;

	assert_int_equal(call(pair->old, NAM_RPC_MOVE, &request, sizeof(request)),
		-NAM_E_CLUSTER);
	/* It gets a backup, and retires only if that counts. */
	assert_int_equal(move_step(lead, &lead->connection, NAM_RPC_MOVE_OPEN, 0, NULL, 0),
		-NAM_E_CLUSTER);
	assert_int_equal(move_step(lead, &lead->connection, NAM_RPC_MOVE_RETIRE, 0, NULL, 0),
		-NAM_E_VIEW);
	assert_int_equal(export_books(pair->old, &books), 0);
	/* It is no successor. */
	assert_int_equal(import_books(pair->old, &books), -NAM_E_CLUSTER);
	free(books.words);
	assert_int_equal(export_books(pair->next, &books), -NAM_E_FABRIC_SUCCESSOR);
	assert_int_equal(move_step(pair->next, &pair->next->connection, NAM_RPC_MOVE_RETIRE, 0,
		NULL, 0), -NAM_E_FABRIC_SUCCESSOR);
	server_end(lead);
}

/* Until the last of two movers has gone. */
static void
leave__a_member__KEEPS_TREES_AND_STORES_OUT_until_connections_end(void **state)
{
	struct fixture *f = ((struct pair *)*state)->old;
	struct nam__connection other = { .handler = f->connection.handler, .proven =
		f->connection.proven };

	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_LEAVE, 0, NULL, 0), 0);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_LEAVE, 0, NULL, 0), 0);
	assert_int_equal(move_step(f, &other, NAM_RPC_MOVE_LEAVE, 0, NULL, 0), 0);
	nam__move_connection_closed(f->server, &f->connection);
	assert_true(f->server->trees.closed && f->server->stores.closed);
	nam__move_connection_closed(f->server, &f->connection);
	assert_true(f->server->trees.closed && f->server->stores.closed);
	nam__move_connection_closed(f->server, &other);
	assert_false(f->server->trees.closed || f->server->stores.closed);
	/* It goes on as before. */
	assert_int_equal(f->server->phase, NAM_SERVER_SERVES);
	assert_int_equal(move_step(((struct pair *)*state)->next,
		&((struct pair *)*state)->next->connection, NAM_RPC_MOVE_LEAVE, 0, NULL, 0),
		-NAM_E_CLUSTER);
}

static void
leave__with_a_tree__IS_UNMOVABLE(void **state)
{
	struct fixture *f = ((struct pair *)*state)->old;

	f->server->trees.count++;
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_LEAVE, 0, NULL, 0),
		-NAM_E_UNMOVABLE);
	f->server->trees.count--;
	f->server->stores.count++;
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_LEAVE, 0, NULL, 0),
		-NAM_E_UNMOVABLE);
	f->server->stores.count--;
	assert_false(f->server->trees.closed || f->server->stores.closed);
}

static void
move__of_a_writer__IS_DENIED(void **state)
{
	struct pair *pair = *state;

	pair->old->connection.proven.role = NAM_ROLE_WRITE;
	for (uint32_t step = NAM_RPC_MOVE_EXPORT; step <= NAM_RPC_MOVE_RETIRE; step++)
		assert_int_equal(move_step(pair->old, &pair->old->connection, step, 0, NULL, 0),
			-NAM_E_FABRIC_DENIED);
}

static void
move__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = ((struct pair *)*state)->old;
	const struct nam_rpc_move_request bad[] = {
		{ .step = 0 },
		{ .step = NAM_RPC_MOVE_LEAVE + 1 },
		{ .step = NAM_RPC_MOVE_EXPORT, .reserved = 1 },
		{ .step = NAM_RPC_MOVE_EXPORT, .at = 1 },
		{ .step = NAM_RPC_MOVE_RETIRE, .at = 8 },
		{ .step = NAM_RPC_MOVE_LEAVE, .at = 8 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nam_rpc_move_request request = bad[i];

		request.boot = f->server->boot;
		assert_int_equal(call(f, NAM_RPC_MOVE, &request, sizeof(request)),
			-NAM_E_FABRIC_PROTOCOL);
	}
	assert_int_equal(call(f, NAM_RPC_MOVE, &bad[0], sizeof(bad[0]) - 1),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RETIRE, 0, "12345678", 8),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call_status(f), 0);
}

static void
export__with_a_store_for_onesided_gets__IS_UNMOVABLE(void **state)
{
	struct fixture *f = ((struct pair *)*state)->old;
	const struct nam_rpc_kv_create_request store = { .store = 7, .memory_bytes = REGION / 2,
		.partitions = 1, .servers = 1, .mode = NAM_KV_STORE, .engine = NAM_KV_CUCKOO };
	const struct nam_rpc_kv_request drop = { .store = 7 };
	struct nam__store *kept;
	struct books books;

	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &store, sizeof(store)), 0);
	kept = (struct nam__store *)nam__objects_find(&f->server->stores, 7);
	/* As if all of its memory was read-only. */
	kept->shape.onesided = true;
	assert_int_equal(export_books(f, &books), -NAM_E_UNMOVABLE);
	kept->shape.onesided = false;
	assert_int_equal(call(f, NAM_RPC_KV_DROP, &drop, sizeof(drop)), 0);
	assert_int_equal(export_books(f, &books), -EAGAIN);
	nam__objects_idle(&f->server->stores, f->server);
	assert_int_equal(export_books(f, &books), 0);
	free(books.words);
}

/* ---- phases -------------------------------------------------------------------------------- */

static void
successor__not_filled__ANSWERS_ONLY_THE_MOVER(void **state)
{
	struct fixture *f = ((struct pair *)*state)->next;
	const struct nam_rpc_regions_request regions = { 0 }, named = { 0, LIVING, 1 };

	assert_int_equal(ask(f, STRIDE, 1), -NAM_E_FABRIC_SUCCESSOR);
	assert_int_equal(call(f, NAM_RPC_REGIONS, &regions, sizeof(regions)), 0);
	assert_int_equal(call(f, NAM_RPC_REGIONS, &named, sizeof(named)),
		-NAM_E_FABRIC_SUCCESSOR);
	assert_int_equal(call_status(f), 0);
	assert_int_equal(((struct nam_rpc_status_reply *)reply_body(f))->phase,
		NAM_SERVER_SUCCESSOR);
}

static void
retire__then_requests__IS_MOVED(void **state)
{
	struct fixture *f = ((struct pair *)*state)->old;
	struct books books;

	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RETIRE, 0, NULL, 0), 0);
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_RETIRE, 0, NULL, 0), 0);
	assert_int_equal(ask(f, STRIDE, 1), -NAM_E_FABRIC_MOVED);
	assert_int_equal(fence(f, LIVING, 1), -NAM_E_FABRIC_MOVED);
	assert_int_equal(export_books(f, &books), -NAM_E_FABRIC_MOVED);
	assert_int_equal(call_status(f), 0);
	assert_int_equal(((struct nam_rpc_status_reply *)reply_body(f))->phase,
		NAM_SERVER_MOVED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(import__of_a_server_with_clients__HAS_EQUAL_BOOKS),
		TEST(export__of_a_server_with_clients__CHANGES_NOTHING),
		TEST(alloc__after_import__GIVES_THE_SAME_BLOCKS),
		TEST(alloc__vacant_memory_after_import__IS_ZEROED),
		TEST(sweep__after_import__KNOWS_THE_OWNERS),
		TEST(attach__after_import__REFUSES_THE_SAME),
		TEST(import__a_later_view_came__KEEPS_IT),
		TEST(records__after_import__HAVE_THE_CLOCK_OF_THE_OLD_SERVER),
		TEST(import__any_word_damaged__IS_REFUSED_AND_CHANGES_NOTHING),
		TEST(import__books_that_do_not_agree__IS_PROTOCOL),
		TEST(import__pages_out_of_order__IS_PROTOCOL_AND_MAY_BEGIN_ANEW),
		TEST(export__pages_out_of_order__IS_PROTOCOL),
		TEST(import__other_regions_or_id__IS_REGIONS),
		TEST(move__wrong_server__IS_CLUSTER),
		TEST(leave__a_member__KEEPS_TREES_AND_STORES_OUT_until_connections_end),
		TEST(leave__with_a_tree__IS_UNMOVABLE),
		TEST(move__of_a_writer__IS_DENIED),
		TEST(move__malformed__IS_PROTOCOL),
		TEST(export__with_a_store_for_onesided_gets__IS_UNMOVABLE),
		TEST(successor__not_filled__ANSWERS_ONLY_THE_MOVER),
		TEST(retire__then_requests__IS_MOVED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
