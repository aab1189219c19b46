/* SPDX-License-Identifier: Apache-2.0 */
/*
 * noted.c -- the lead keeps what clients hand over, and the old memory server what its handlers
 * change.  A bit is set after the page has changed, and the mover READs a page after it has taken
 * the bit.  So a change is in what the mover READs, or its bit is taken later (M23).
 */
#include "books.h"
#include "memserver/services/runs.h"
#include "noted.h"

#define REGION_BYTES_MAX (1ull << 38)	/* an address has no more bits */

int
nam__noted_init(struct nam__noted *noted)
{
	return -pthread_mutex_init(&noted->mutex, NULL);
}

void
nam__noted_free(struct nam__noted *noted)
{
	free((void *)noted->words);
	(void)pthread_mutex_destroy(&noted->mutex);
}

void
nam__noted_add(const struct nam__exchange *exchange, uint32_t region, uint64_t offset,
	uint64_t bytes)
{
	uint32_t page = (uint32_t)(offset / NAM_MOVE_NOTE_BYTES);
	uint32_t pages = (uint32_t)((offset + bytes - 1) / NAM_MOVE_NOTE_BYTES) - page + 1;
	struct nam__noted_later *later;

	/* M23 */
	if (!atomic_load_explicit(&exchange->server->noted.active, memory_order_acquire) ||
		!NAM_GUARD(NOTE_SERVED))
		return;
	later = &exchange->connection->handler->noted_later;
	for (uint32_t i = 0; i < later->count; i++)
		if (later->at[i].region == region && later->at[i].page <= page &&
			page + pages <= later->at[i].page + later->at[i].pages)
			return;
	if (later->count == NAM__NOTED_LATER) {
		later->more = true;
		return;
	}
	later->at[later->count].region = region;
	later->at[later->count].page = page;
	later->at[later->count++].pages = pages;
}

void *
nam__memory_public_change(const struct nam__exchange *exchange, struct nam_gaddr at,
	uint32_t bytes)
{
	void *found = nam__memory_public_at(exchange->server, at, bytes);

	if (found)
		nam__noted_add(exchange,
			nam_gaddr_region(at) - nam__first_region_id(exchange->server),
			nam_gaddr_offset(at), bytes);
	return found;
}

static void
pages_set(struct nam__noted *noted, uint32_t region, uint32_t page, uint32_t pages)
{
	_Atomic uint64_t *words = noted->words + (size_t)region * noted->region_words;

	/* Release: the mover that takes the bit READs the change. */
	for (; pages; page++, pages--)
		atomic_fetch_or_explicit(&words[page / 64], 1ull << page % 64,
			memory_order_release);
}

void
nam__noted_region(struct nam_server *server, uint32_t region)
{
	if (atomic_load_explicit(&server->noted.active, memory_order_acquire))
		pages_set(&server->noted, region, 0,
			(uint32_t)(server->memory.mrs[region].bytes / NAM_MOVE_NOTE_BYTES));
}

void
nam__noted_flush(struct nam__handler *handler)
{
	struct nam__noted_later *later = &handler->noted_later;
	struct nam__noted *noted = &handler->server->noted;

	for (uint32_t i = 0; i < later->count; i++)
		pages_set(noted, later->at[i].region, later->at[i].page, later->at[i].pages);
	if (later->more)
		atomic_store_explicit(&noted->lost, true, memory_order_release);
	later->count = 0;
	later->more = false;
}

/* The caller holds the mutex. */
static void
claim_end(struct nam__noted *noted)
{
	atomic_store_explicit(&noted->active, false, memory_order_relaxed);
	noted->claimer = NULL;
}

void
nam__noted_end(struct nam_server *server, uint32_t id)
{
	struct nam__noted *noted = &server->noted;

	NAM__SCOPED_LOCK(&noted->mutex);
	if (noted->claimer && noted->id == id)
		claim_end(noted);
}

void
nam__noted_connection_closed(struct nam__connection *connection)
{
	struct nam__noted *noted = &connection->handler->server->noted;

	NAM__SCOPED_LOCK(&noted->mutex);
	if (noted->claimer == connection)
		claim_end(noted);
}

/* The caller holds the mutex.  All that clients have blocks in is to be copied. */
static void
runs_note(struct nam_server *server)
{
	struct nam__allocator *allocator = &server->allocator;

	NAM__SCOPED_LOCK(&allocator->mutex);
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		for (uint32_t k = 0; region->kind == NAM_MEMORY_PUBLIC && k < region->runs_count;
			k++) {
			const struct nam__run *run = region->runs[k];
			uint64_t first = run->offset / NAM_MOVE_NOTE_BYTES;
			uint64_t last = (run->offset + run->bytes - 1) / NAM_MOVE_NOTE_BYTES;

			if (run->stride)
				pages_set(&server->noted, i, (uint32_t)first,
					(uint32_t)(last - first + 1));
		}
	}
}

/* The caller holds the mutex.  Words for that member. */
static int
words_make(struct nam__noted *noted, const struct nam_rpc_move_claim *claim)
{
	uint32_t region_words = nam_move_note_words(claim->region_bytes);
	uint32_t count = region_words * claim->regions;

	if (count != noted->words_count) {
		_Atomic uint64_t *words = calloc(count, sizeof(*words));

		if (!words)
			return -ENOMEM;
		free((void *)noted->words);
		noted->words = words;
	}
	noted->region_words = region_words;
	noted->words_count = count;
	return 0;
}

/* The lead may claim any member; another memory server claims itself. */
static bool
claim_ok(const struct nam_server *server, const struct nam_rpc_move_claim *claim)
{
	const struct nam__memory *memory = &server->memory;

	if (nam__leads(server) && claim->id)
		return claim->id < NAM_SERVERS_MAX;
	/* Only the last region may be smaller than the first one. */
	return claim->id == server->options.id && claim->regions == memory->count &&
		claim->region_bytes == memory->mrs[0].bytes;
}

int
nam__noted_claim(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	const struct nam_rpc_move_claim *claim = (const void *)request->page;
	struct nam_server *server = exchange->server;
	struct nam__noted *noted = &server->noted;
	int rc;

	if (page_bytes != sizeof(*claim) || request->at || !claim->regions ||
		claim->regions > NAM_REGIONS_PER_SERVER || !claim->region_bytes ||
		claim->region_bytes > REGION_BYTES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!claim_ok(server, claim))
		return -NAM_E_CLUSTER;
	NAM__SCOPED_LOCK(&noted->mutex);
	if (noted->claimer && noted->claimer != exchange->connection)
		return -EAGAIN;
	rc = words_make(noted, claim);
	if (rc)
		return rc;
	if (!noted->claimer || noted->id != claim->id) {
		for (uint32_t i = 0; i < noted->words_count; i++)
			atomic_store_explicit(&noted->words[i], 0, memory_order_relaxed);
		atomic_store_explicit(&noted->lost, false, memory_order_relaxed);
	}
	noted->claimer = exchange->connection;
	noted->id = claim->id;
	/* Handlers see it before clients begin a pass, and so before that is copied. */
	atomic_store_explicit(&noted->active, claim->id == server->options.id,
		memory_order_release);
	if (claim->id == server->options.id)
		runs_note(server);
	return 0;
}

/* A client that leaves: its death loses no notes. */
static void
handed_over_set(struct nam__exchange *exchange)
{
	const struct nam__connection *session = exchange->connection;
	struct nam__membership *membership = &exchange->server->membership;
	struct nam__member *member = &membership->members[session->client_id];

	NAM__SCOPED_LOCK(&membership->mutex);
	if (member->incarnation == session->incarnation)
		member->handed_over = true;
}

int
nam__noted_note(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	const struct nam_rpc_move_notes *notes = (const void *)request->page;
	uint32_t count = (page_bytes - (uint32_t)sizeof(*notes)) /
		(uint32_t)sizeof(notes->noted[0]);
	struct nam__noted *noted = &exchange->server->noted;
	int rc = 0;

	if (!nam__leads(exchange->server) || !exchange->connection->session)
		return -NAM_E_CLUSTER;
	if (page_bytes < sizeof(*notes) || request->at || notes->lost > 1 || notes->leaves > 1 ||
		page_bytes != sizeof(*notes) + count * sizeof(notes->noted[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&noted->mutex);
	for (uint32_t i = 0; noted->claimer && noted->id == notes->id && i < count && !rc; i++) {
		if (notes->noted[i].word < noted->words_count && !notes->noted[i].reserved)
			atomic_fetch_or(&noted->words[notes->noted[i].word],
				notes->noted[i].pages);
		else
			rc = -NAM_E_FABRIC_PROTOCOL;
	}
	if (notes->lost)
		atomic_store(&noted->lost, true);
	pthread_mutex_unlock(&noted->mutex);
	if (!rc && notes->leaves)
		handed_over_set(exchange);
	return rc;
}

int
nam__noted_take(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes)
{
	struct nam_rpc_move_reply *reply = exchange->reply;
	struct nam_rpc_move_notes *notes = (void *)reply->page;
	struct nam__noted *noted = &exchange->server->noted;
	uint32_t count = 0;

	if (page_bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&noted->mutex);
	if (noted->claimer != exchange->connection)
		return -NAM_E_CLUSTER;
	for (uint64_t word = request->at / 8; word < noted->words_count; word++) {
		uint64_t pages;

		if (!atomic_load_explicit(&noted->words[word], memory_order_relaxed))
			continue;
		if (count == NAM_MOVE_NOTED_MAX) {
			reply->bytes = 8 * word;
			break;
		}
		/* Acquire: pairs with pages_set(). */
		pages = atomic_exchange_explicit(&noted->words[word], 0, memory_order_acquire);
		notes->noted[count++] = (struct nam_move_noted){ pages, (uint32_t)word, 0 };
	}
	*notes = (struct nam_rpc_move_notes){ .lost = atomic_exchange(&noted->lost, false) };
	exchange->reply_bytes += (uint32_t)(sizeof(*notes) + count * sizeof(notes->noted[0]));
	return 0;
}
