/* SPDX-License-Identifier: Apache-2.0 */
/* take.c -- the books of another server become ours (M22): all is checked, then put in place. */
#include "books.h"
#include "memserver/services/runs.h"
#include "memserver/stores.h"
#include "memserver/trees.h"

/* The books to be, with all memory that they need. */
struct draft {
	const struct nam_move_head *head;
	struct nam__books_parts parts;
	struct nam__run **runs[NAM_REGIONS_PER_SERVER];
	uint32_t counts[NAM_REGIONS_PER_SERVER];	/* of runs that have been made */
	uint32_t with_blocks;
	uint32_t strides_count;
	uint32_t strides[NAM__STRIDES_MAX];
	struct nam__view_stage *view;	/* NULL: none */
};

int
nam__books_head_check(const struct nam_server *server, const struct nam_move_head *head)
{
	uint64_t runs_max = 2ull * NAM__RUNS_MAX + NAM_REGIONS_PER_SERVER;

	if (head->server != server->options.id || head->regions != server->memory.count)
		return -NAM_E_REGIONS;
	if (head->runs > runs_max || head->clients > NAM_CLIENTS_MAX ||
		head->words > runs_max + server->memory.bytes / NAM_GADDR_UNIT_BYTES / 64 ||
		head->members > NAM_SERVERS_MAX ||
		head->members != (head->view.number ? head->view.count : 0) ||
		head->trees > NAM__CATALOG_MAX || head->stores > NAM__STORES_MAX ||
		head->partitions > head->stores * NAM_RPC_KV_PARTITIONS_MAX ||
		head->bytes != nam__books_bytes(head))
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

static int
region_check(const struct nam__alloc_region *ours, const struct nam_move_region *region)
{
	bool is_public = region->kind == NAM_MEMORY_PUBLIC;

	/* An IMPORT that failed has lost it, or has made it private. */
	if (!ours->runs_count)
		return -ENOMEM;
	if (region->bytes != ours->bytes || (ours->kind == NAM_MEMORY_PRIVATE &&
			(is_public || region->announced != NAM_MEMORY_PRIVATE)))
		return -NAM_E_REGIONS;
	if (region->kind > NAM_MEMORY_PRIVATE || region->announced > NAM_MEMORY_PRIVATE ||
		(!region->turning && region->announced != region->kind) || region->had_blocks > 1 ||
		region->reserved || is_public != (region->runs != 0) ||
		(ours->pinned && region->announced != NAM_MEMORY_PUBLIC))
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

static bool
stride_note(struct draft *draft, uint32_t stride)
{
	for (uint32_t i = 0; i < draft->strides_count; i++)
		if (draft->strides[i] == stride)
			return true;
	if (draft->strides_count == NAM__STRIDES_MAX)
		return false;
	draft->strides[draft->strides_count++] = stride;
	return true;
}

static bool
run_ok(const struct nam__allocator *allocator, struct draft *draft, const struct nam_move_run *run)
{
	if (run->bytes % NAM_GADDR_UNIT_BYTES || !run->bytes || run->reserved)
		return false;
	if (!run->stride)
		return !run->count && !run->words && !run->batch && !run->label && run->dirty <= 1;
	return run->stride % NAM_GADDR_UNIT_BYTES == 0 && run->count &&
		run->count <= nam__run_most(allocator, run->stride) &&
		(uint64_t)run->count * run->stride == run->bytes && !run->dirty &&
		(!run->words || run->words == (run->count + 63) / 64) &&
		run->batch <= draft->head->batch && ++draft->with_blocks <= NAM__RUNS_MAX &&
		stride_note(draft, run->stride);
}

static bool
word_take(struct nam__run *run, uint32_t word, const struct nam_move_word *from)
{
	uint32_t rest = run->count - 64 * word;
	uint64_t all = rest < 64 ? (1ull << rest) - 1 : UINT64_MAX;

	if ((from->free | from->waiting | from->swept) & ~all || from->free & from->waiting ||
		from->swept & ~(from->free | from->waiting))
		return false;
	for (uint32_t i = 0; i < 64; i++)
		if (from->owners[i] >= NAM_CLIENTS_MAX)
			return false;
	run->bits[word].free = from->free;
	run->bits[word].waiting = from->waiting;
	run->bits[word].swept = from->swept;
	memcpy(run->owners + 64ul * word, from->owners, sizeof(from->owners));
	run->free_count += (uint32_t)__builtin_popcountll(from->free);
	run->waiting_count += (uint32_t)__builtin_popcountll(from->waiting);
	return true;
}

/* *words moves on behind the run's. */
static int
run_take(const struct nam_move_run *from, struct nam_move_word **words,
	const struct nam_move_word *words_end, struct nam__run **ret)
{
	struct nam__run *run;
	bool ok = true;

	if (from->words > (uint64_t)(words_end - *words))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret = run = nam__run_new(from->region, from->offset, from->offset + from->bytes,
		from->stride, from->dirty);
	if (!run)
		return -ENOMEM;
	run->batch = from->batch;
	run->label = from->label;
	if (from->words && nam__run_reserve(run))
		return -ENOMEM;
	for (uint32_t word = 0; ok && word < from->words; word++)
		ok = word_take(run, word, (*words)++);
	return ok && !run->label == !run->waiting_count &&
		(!run->batch || run->free_count == run->count) ? 0 : -NAM_E_FABRIC_PROTOCOL;
}

/* The runs of one region.  *from and *words move on behind them. */
static int
region_take(struct nam__allocator *allocator, struct draft *draft, uint32_t number,
	struct nam_move_run **from, struct nam_move_word **words)
{
	const struct nam_move_run *runs_end = draft->parts.runs + draft->head->runs;
	const struct nam_move_word *words_end = draft->parts.words + draft->head->words;
	const struct nam__alloc_region *ours = &allocator->regions[number];
	const struct nam_move_region *region = &draft->parts.regions[number];
	uint64_t offset;
	int rc = region_check(ours, region);

	if (rc)
		return rc;
	/* The first byte that may be a block's. */
	offset = ours->runs[0]->offset;
	if (region->turning > draft->head->batch || region->runs > (uint64_t)(runs_end - *from))
		return -NAM_E_FABRIC_PROTOCOL;
	draft->runs[number] = calloc(MAX(region->runs, 16), sizeof(struct nam__run *));
	if (!draft->runs[number])
		return -ENOMEM;
	if (!region->runs) {
		draft->counts[number] = 1;
		*draft->runs[number] = nam__run_new(number, offset, ours->bytes, 0, false);
		return *draft->runs[number] ? 0 : -ENOMEM;
	}
	for (uint32_t i = 0; i < region->runs && !rc; i++, (*from)++) {
		if ((*from)->region != number || (*from)->offset != offset ||
			(*from)->bytes > ours->bytes - offset || !run_ok(allocator, draft, *from))
			return -NAM_E_FABRIC_PROTOCOL;
		draft->counts[number]++;
		rc = run_take(*from, words, words_end, &draft->runs[number][i]);
		offset += (*from)->bytes;
	}
	return rc ? rc : offset == ours->bytes ? 0 : -NAM_E_FABRIC_PROTOCOL;
}

static bool
clients_ok(const struct nam_move_client *clients, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_move_client *client = &clients[i];

		if (client->id >= NAM_CLIENTS_MAX || (i && client->id <= client[-1].id) ||
			client->fenced > 2 || client->reserved || client->reserved_more ||
			(!client->incarnation && client->fenced) ||
			client->gap_from_us > client->gap_to_us)
			return false;
	}
	return true;
}

/* Checks all, and gets the memory for it.  On failure the draft is to be dropped, too. */
static int
draft_make(struct nam_server *server, const uint64_t *books, struct draft *draft)
{
	const struct nam_move_head *head = (const void *)books;
	struct nam_move_word *words;
	struct nam_move_run *runs;
	int rc = nam__books_head_check(server, head);

	if (rc)
		return rc;
	draft->head = head;
	draft->parts = nam__books_parts(books);
	if (nam_hash64(books, head->bytes - sizeof(uint64_t)) != *draft->parts.hash ||
		!clients_ok(draft->parts.clients, head->clients))
		return -NAM_E_FABRIC_PROTOCOL;
	runs = draft->parts.runs;
	words = draft->parts.words;
	for (uint32_t i = 0; i < head->regions && !rc; i++)
		rc = region_take(&server->allocator, draft, i, &runs, &words);
	if (rc)
		return rc;
	if (runs != draft->parts.runs + head->runs || words != draft->parts.words + head->words)
		return -NAM_E_FABRIC_PROTOCOL;
	return head->members ? nam__view_stage_make(&head->view, draft->parts.members,
		&draft->view) : 0;
}

/* The rest, that was not put in place. */
static void
draft_free(struct draft *draft)
{
	for (uint32_t i = 0; i < NAM_REGIONS_PER_SERVER; i++) {
		for (uint32_t k = 0; k < draft->counts[i]; k++)
			nam__run_free(draft->runs[i][k]);
		free(draft->runs[i]);
	}
	free(draft->view);
}

/* The caller holds the mutex. */
static void
allocator_place(struct nam__allocator *allocator, struct draft *draft)
{
	allocator->runs_count = allocator->strides_count = 0;
	allocator->batch = draft->head->batch;
	LIST_INIT(&allocator->held);
	memset(allocator->memory, 0, sizeof(allocator->memory));
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam_move_region *from = &draft->parts.regions[i];
		struct nam__alloc_region *region = &allocator->regions[i];

		nam__runs_free(region);
		region->runs = draft->runs[i];
		region->runs_count = draft->counts[i];
		region->runs_size = MAX(region->runs_count, 16);
		draft->runs[i] = NULL;
		draft->counts[i] = 0;
		region->carved_bytes = 0;
		region->kind = (enum nam_memory_kind)from->kind;
		region->had_blocks = from->had_blocks;
		region->turning = from->turning;
		atomic_store_explicit(&region->announced, from->announced, memory_order_relaxed);
		allocator->memory[region->kind].bytes += region->bytes;
		/* The first runs come first in the lists. */
		for (uint32_t k = region->runs_count; k-- > 0;)
			nam__run_enter(allocator, region->runs[k]);
	}
}

static void
trees_drop(struct nam_server *server, const struct nam_move_tree *trees, uint32_t count)
{
	while (count-- > 0)
		(void)!nam__objects_drop(&server->trees, server, trees[count].create.tree);
	nam__objects_idle(&server->trees, server);
}

/* All or none. */
static int
trees_make(struct nam__handler *handler, const struct nam_move_tree *trees, uint32_t count)
{
	struct nam_server *server = handler->server;
	uint32_t made = 0;
	int rc = 0;

	for (; made < count && !rc; made += !rc) {
		const struct nam_move_tree *from = &trees[made];
		struct nam__tree *tree;

		rc = from->owner >= NAM_CLIENTS_MAX || from->reserved ? -NAM_E_FABRIC_PROTOCOL :
			nam__tree_new(server, &from->create, handler->scratch, &tree);
		if (rc)
			break;
		tree->object.owner = from->owner;
		tree->moves = (uint16_t)(from->moves + 1);
		rc = nam__objects_enter(&server->trees, &tree->object);
	}
	trees_drop(server, trees, rc ? made : 0);
	return rc;
}

int
nam__books_take(struct nam__handler *handler, const uint64_t *books)
{
	struct nam_server *server = handler->server;
	struct nam__allocator *allocator = &server->allocator;
	const struct nam_move_region *regions;
	struct draft *draft = calloc(1, sizeof(*draft));
	int rc = draft ? draft_make(server, books, draft) : -ENOMEM;

	if (rc)
		goto free_draft;
	pthread_mutex_lock(&allocator->mutex);
	regions = draft->parts.regions;
	/* Regions that clients do not reach, as the books say. */
	for (uint32_t i = 0; i < allocator->regions_count && !rc; i++)
		if (regions[i].kind == NAM_MEMORY_PRIVATE &&
			regions[i].announced == NAM_MEMORY_PRIVATE &&
			allocator->regions[i].kind != NAM_MEMORY_PRIVATE &&
			!nam__region_make_private(allocator, i))
			rc = -ENOMEM;
	if (!rc)
		allocator_place(allocator, draft);
	pthread_mutex_unlock(&allocator->mutex);
	if (!rc)
		rc = trees_make(handler, draft->parts.trees, draft->head->trees);
	if (rc)
		goto free_draft;
	rc = nam__books_stores_make(server, draft->head, &draft->parts);
	if (rc) {
		trees_drop(server, draft->parts.trees, draft->head->trees);
		goto free_draft;
	}
	for (uint32_t i = 0; i < draft->head->clients; i++) {
		const struct nam_move_client *client = &draft->parts.clients[i];

		server->finished[client->id] = (struct nam__finished){
			.incarnation = client->finished_incarnation,
			.before_us = client->before_us,
			.gap_from_us = client->gap_from_us,
			.gap_to_us = client->gap_to_us,
		};
	}
	nam__membership_take(&server->membership, draft->head, draft->parts.clients,
		draft->head->clients);
	if (draft->view)
		nam__view_stage_take(&server->membership, draft->view);
	/* Never ahead of the clock that leases and versions in public memory were stamped by. */
	server->records_clock_ns = draft->head->now_ns - nam_now_ns();
free_draft:
	if (draft)
		draft_free(draft);
	free(draft);
	return rc;
}
