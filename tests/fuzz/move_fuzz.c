/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move_fuzz.c -- books that come to a successor: those of a server that has had clients, damaged,
 * with a hash that fits.  Then it is a backup that is told of blocks.
 *
 * input	how many patches, then these: place, bits; the bytes of pages; how many RUNS, then
 *		these: units of the stride, blocks of the run, scattered blocks, and where all are
 */
#include "common/hash/hash.h"
#include "common/rpc/alloc_rpc.h"
#include "common/rpc/books_rpc.h"
#include "common/rpc/move_rpc.h"
#include "fuzz_server.h"
#include "memserver/mailbox.h"
#include "memserver/services/runs.h"

#define ID 1u
#define PAGES_MAX 64u

static _Alignas(8) uint8_t reply[NAM_RPC_BYTES_MAX];

static void *
reply_body(void)
{
	return reply + sizeof(struct nam_rpc_header);
}

/* The status; *ret_bytes: of the body. */
static int
ask(struct nam_server *server, struct nam__connection *connection, uint16_t type, const void *body,
	uint32_t bytes, uint32_t *ret_bytes)
{
	uint8_t *message = fuzz_memory(sizeof(struct nam_rpc_header) + bytes);
	const struct nam_rpc_header *answer = (const void *)reply;

	nam_rpc_header_fill((void *)message, type, 1, 0, bytes);
	memcpy(message + sizeof(struct nam_rpc_header), body, bytes);
	connection->handler = &server->handlers[0];
	connection->proven.role = NAM_ROLE_ADMIN;
	(void)nam__dispatch(server, connection, message,
		(uint32_t)sizeof(struct nam_rpc_header) + bytes, reply);
	free(message);
	*ret_bytes = answer->body_bytes;
	return answer->status;
}

static int
move(struct nam_server *server, struct nam__connection *connection, uint32_t step, uint64_t at,
	const uint8_t *page, uint32_t bytes, uint32_t *ret_bytes)
{
	struct nam_rpc_move_request *request = fuzz_memory(sizeof(*request) + bytes);
	int rc;

	*request = (struct nam_rpc_move_request){ .step = step, .boot = server->boot, .at = at };
	if (bytes)
		memcpy(request->page, page, bytes);
	rc = ask(server, connection, NAM_RPC_MOVE, request, (uint32_t)sizeof(*request) + bytes,
		ret_bytes);
	free(request);
	return rc;
}

static void
alloc(struct nam_server *server, struct nam__connection *connection, uint32_t stride)
{
	const struct nam_rpc_alloc_request request = { .stride = stride, .count = 40 };
	uint32_t bytes;

	(void)ask(server, connection, NAM_RPC_ALLOC, &request, sizeof(request), &bytes);
}

static void
give(struct nam_server *server, struct nam__connection *connection, uint32_t stride, uint64_t at,
	uint64_t label)
{
	uint64_t body[3] = { 0 };
	struct nam_rpc_free_request *request = (void *)body;
	uint32_t bytes;

	_Static_assert(sizeof(*request) + sizeof(uint64_t) == sizeof(body), "one block");
	*request = (struct nam_rpc_free_request){ .stride = stride, .count = 1, .label = label };
	request->blocks[0] = at;
	(void)ask(server, connection, NAM_RPC_FREE, body, sizeof(body), &bytes);
}

static void
reclaim(struct nam_server *server, struct nam__connection *connection, uint32_t step,
	uint64_t batch)
{
	const struct nam_rpc_reclaim_request request = { .step = step, .batch = batch,
		.want = batch ? 0 : NAM_MEMORY_PRIVATE, .oldest = batch ? 0 : 5 };
	uint32_t bytes;

	(void)ask(server, connection, NAM_RPC_RECLAIM, &request, sizeof(request), &bytes);
}

/* Blocks that are used, free, waiting and held; a region that leaves; clients. */
static void
live(struct nam_server *server, struct nam__connection *connection)
{
	const struct nam_rpc_alloc_reply *blocks = reply_body();

	connection->client_id = 7;
	connection->incarnation = 2;
	if (nam__membership_attach(&server->membership, connection))
		abort();
	alloc(server, connection, 64);
	give(server, connection, 64, blocks->run_at, 0);
	alloc(server, connection, 128);
	give(server, connection, 128, blocks->run_at, 9);
	nam__finished_add(&server->finished[7], 2, 5);
	reclaim(server, connection, NAM_RPC_RECLAIM_HOLD, 0);
}

static uint8_t *
books_take(struct nam_server *server, struct nam__connection *connection, uint64_t *ret_bytes)
{
	const struct nam_rpc_move_reply *page = reply_body();
	uint8_t *books = NULL;
	uint64_t at = 0;
	uint32_t bytes;

	do {
		if (move(server, connection, NAM_RPC_MOVE_EXPORT, at, NULL, 0, &bytes))
			abort();
		if (!books)
			books = fuzz_memory(page->bytes);
		*ret_bytes = page->bytes;
		memcpy(books + at, page->page, bytes - sizeof(*page));
		at += bytes - sizeof(*page);
	} while (at < *ret_bytes);
	return books;
}

static void
books_seal(uint8_t *books, uint64_t bytes)
{
	uint64_t hash = nam_hash64(books, bytes - sizeof(hash));

	memcpy(books + bytes - sizeof(hash), &hash, sizeof(hash));
}

/* Without damage the books are the same. */
static void
compare(struct nam_server *server, struct nam__connection *connection, const uint8_t *books,
	uint64_t books_bytes)
{
	uint64_t bytes;
	uint8_t *again = books_take(server, connection, &bytes);

	((struct nam_move_head *)(void *)again)->now_ns =
		((const struct nam_move_head *)(const void *)books)->now_ns;
	books_seal(again, bytes);
	if (bytes != books_bytes || memcmp(again, books, bytes) != 0)
		abort();
	free(again);
}

/* An address in a region, or in none. */
static uint64_t
block_take(struct fuzz_input *input)
{
	uint16_t unit = fuzz_u16(input);

	return nam_gaddr_make((uint16_t)(ID * NAM_REGIONS_PER_SERVER + unit % 3 % 2),
		unit / 3 * 64ull, unit % 7 ? 0 : NAM_BLOCK_SWEPT).raw;
}

/* The row of runs has no gap, and their counts are those of the bits. */
static void
books_check(const struct nam__allocator *allocator)
{
	uint64_t carved = 0, free_bytes = 0;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];
		uint64_t at = region->runs[0]->offset;

		for (uint32_t k = 0; k < region->runs_count; at += region->runs[k++]->bytes) {
			const struct nam__run *run = region->runs[k];
			uint32_t count = 0;

			for (uint32_t word = 0; word < run->words; word++)
				count += (uint32_t)__builtin_popcountll(run->bits[word].free);
			if (run->offset != at || run->free_count != count ||
				run->bytes < (uint64_t)run->count * run->stride)
				abort();
			carved += run->stride ? run->bytes : 0;
			free_bytes += (uint64_t)count * run->stride;
		}
		if (at != region->bytes)
			abort();
	}
	for (uint32_t kind = 0; kind < NAM_MEMORY_KINDS; kind++) {
		carved -= allocator->memory[kind].carved_bytes;
		free_bytes -= allocator->memory[kind].free_bytes;
	}
	if (carved || free_bytes)
		abort();
}

/* Blocks that a primary has handed out, wherever they are. */
static void
place(struct nam_server *server, struct nam__connection *connection, struct fuzz_input *input)
{
	unsigned requests = fuzz_u8(input) % 32;

	while (requests--) {
		uint64_t page[2 + NAM_MOVE_RUNS_MAX] = { 0 };
		struct nam_rpc_move_runs *runs = (void *)page;
		uint32_t count, bytes;

		runs->stride = (uint32_t)fuzz_u8(input) * 64;
		runs->run_count = fuzz_u8(input);
		count = fuzz_u8(input) % 16;
		runs->run_at = runs->run_count ? nam_gaddr_untagged(NAM_GADDR(block_take(
			input))).raw : 0;
		for (uint32_t i = 0; i < count; i++)
			runs->blocks[i] = block_take(input);
		(void)move(server, connection, NAM_RPC_MOVE_RUNS, 0, (const uint8_t *)page,
			(uint32_t)(sizeof(*runs) + count * sizeof(page[0])), &bytes);
		books_check(&server->allocator);
	}
}

/* Memory is handed out and comes back, whatever the books say. */
static void
serve(struct nam_server *server, struct nam__connection *connection)
{
	const struct nam_rpc_alloc_reply *blocks = reply_body();

	for (uint32_t stride = 64; stride <= 4096; stride *= 2) {
		alloc(server, connection, stride);
		if (blocks->run_count)
			give(server, connection, stride, blocks->run_at, stride % 3);
	}
	reclaim(server, connection, NAM_RPC_RECLAIM_HOLD, 0);
	reclaim(server, connection, NAM_RPC_RECLAIM_RETURN, server->allocator.batch);
	reclaim(server, connection, NAM_RPC_RECLAIM_HOLD, 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct fuzz_server *old = fuzz_server_new(ID), *next = fuzz_server_new(ID);
	struct nam__connection from = { 0 }, to = { 0 };
	unsigned patches = fuzz_u8(&input) % 16;
	uint64_t bytes, at = 0, word;
	uint8_t *books;
	int rc = 0;

	live(&old->server, &from);
	books = books_take(&old->server, &from, &bytes);
	for (unsigned i = 0; i < patches; i++) {
		uint64_t place = fuzz_u16(&input) % (bytes / 8 - 1) * 8;
		uint64_t bits = 0;

		fuzz_take(&input, &bits, sizeof(bits));
		memcpy(&word, books + place, sizeof(word));
		word ^= bits;
		memcpy(books + place, &word, sizeof(word));
	}
	books_seal(books, bytes);
	next->server.phase = NAM_SERVER_SUCCESSOR;
	for (unsigned i = 0; i < PAGES_MAX && at < bytes && !rc; i++) {
		uint32_t page = (1 + fuzz_u16(&input) % (NAM_RPC_MOVE_PAGE_BYTES / 8)) * 8, got;

		if (i == 0 && page < sizeof(struct nam_move_head))
			page = sizeof(struct nam_move_head);
		if (page > bytes - at)
			page = (uint32_t)(bytes - at);
		rc = move(&next->server, &to, NAM_RPC_MOVE_IMPORT, at, books + at, page, &got);
		at += page;
	}
	if (!patches && at == bytes && (rc || next->server.phase != NAM_SERVER_SERVES))
		abort();
	if (!patches && at == bytes)
		compare(&next->server, &to, books, bytes);
	if (next->server.phase == NAM_SERVER_SERVES)
		place(&next->server, &to, &input);
	if (next->server.phase == NAM_SERVER_SERVES)
		serve(&next->server, &to);
	free(books);
	nam__membership_detach(&old->server.membership, &from);
	nam__membership_detach(&next->server.membership, &to);
	fuzz_server_free(old);
	fuzz_server_free(next);
	return 0;
}
