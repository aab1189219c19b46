/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c -- a copy of the books of this server, of one moment (M22). */
#include "books.h"
#include "memserver/services/records.h"
#include "memserver/services/runs.h"
#include "memserver/trees.h"

static uint32_t
words_of(const struct nam__run *run)
{
	return run->words ? (run->count + 63) / 64 : 0;
}

static int
runs_count(const struct nam__allocator *allocator, struct nam_move_head *head)
{
	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		if (region->turning == NAM__RESTORING)
			return -EAGAIN;
		if (region->kind == NAM_MEMORY_READ_ONLY ||
			nam__region_announced(region) == NAM_MEMORY_READ_ONLY)
			return -NAM_E_UNMOVABLE;
		if (region->kind != NAM_MEMORY_PUBLIC)
			continue;
		head->runs += region->runs_count;
		for (uint32_t k = 0; k < region->runs_count; k++)
			head->words += words_of(region->runs[k]);
	}
	return 0;
}

static void
word_copy(const struct nam__run *run, uint32_t word, struct nam_move_word *to)
{
	const struct nam__run_bits *bits = &run->bits[word];

	if (word >= run->words) {
		memset(to, 0, sizeof(*to));
		return;
	}
	to->free = bits->free;
	to->waiting = bits->waiting;
	to->swept = bits->swept & (bits->free | bits->waiting);
	memcpy(to->owners, run->owners + 64ul * word, sizeof(to->owners));
}

static void
runs_copy(const struct nam__allocator *allocator, const struct nam__books_parts *parts)
{
	struct nam_move_run *to = parts->runs;
	struct nam_move_word *words = parts->words;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];
		bool is_public = region->kind == NAM_MEMORY_PUBLIC;

		parts->regions[i] = (struct nam_move_region){
			.bytes = region->bytes,
			.turning = region->turning,
			.runs = is_public ? region->runs_count : 0,
			.kind = (uint16_t)region->kind,
			.announced = (uint16_t)nam__region_announced(region),
			.had_blocks = region->had_blocks,
		};
		for (uint32_t k = 0; is_public && k < region->runs_count; k++) {
			const struct nam__run *run = region->runs[k];

			*to++ = (struct nam_move_run){
				.offset = run->offset,
				.bytes = run->bytes,
				.batch = run->batch,
				.label = run->waiting_count ? run->label : 0,
				.region = i,
				.stride = run->stride,
				.count = run->count,
				.words = words_of(run),
				.dirty = run->dirty,
			};
			for (uint32_t word = 0; word < words_of(run); word++)
				word_copy(run, word, words++);
		}
	}
}

static int
allocator_copy(struct nam_server *server, uint32_t stores, uint32_t partitions,
	struct nam__move_stage **ret)
{
	struct nam__allocator *allocator = &server->allocator;
	struct nam_move_head head = { .server = server->options.id,
		.regions = allocator->regions_count };
	struct nam__move_stage *stage = NULL;
	struct nam__books_parts parts;
	int rc;

	pthread_mutex_lock(&allocator->mutex);
	rc = runs_count(allocator, &head);
	head.batch = allocator->batch;
	/* Room for all clients, members and trees that there may be, and for those stores. */
	if (!rc)
		stage = malloc(sizeof(*stage) + nam__books_bytes(&head) +
			NAM_CLIENTS_MAX * sizeof(struct nam_move_client) +
			NAM_SERVERS_MAX * sizeof(struct nam_view_member) +
			NAM__CATALOG_MAX * sizeof(struct nam_move_tree) +
			stores * sizeof(struct nam_move_store) +
			partitions * sizeof(struct nam_rpc_kv_image));
	if (stage) {
		memcpy(stage->books, &head, sizeof(head));
		parts = nam__books_parts(stage->books);
		runs_copy(allocator, &parts);
	}
	pthread_mutex_unlock(&allocator->mutex);
	*ret = stage;
	return rc || stage ? rc : -ENOMEM;
}

/* As far as the lead knows. */
static bool
is_dead(const struct nam__membership *membership, uint16_t id)
{
	const struct nam__member *member = membership->members ? &membership->members[id] : NULL;

	return member && member->incarnation && member->state == NAM_CLIENT_DEAD &&
		member->incarnation == membership->newest[id].incarnation;
}

static void
membership_copy(struct nam_server *server, struct nam_move_head *head)
{
	struct nam__membership *membership = &server->membership;
	struct nam__books_parts parts = nam__books_parts((const uint64_t *)(const void *)head);

	NAM__SCOPED_LOCK(&membership->mutex);
	for (uint16_t id = 0; id < NAM_CLIENTS_MAX; id++) {
		const struct nam__newest *newest = &membership->newest[id];
		struct nam__finished finished;

		nam__finished_get(&server->finished[id], &finished);
		if (!newest->incarnation && !finished.incarnation && !finished.before_us)
			continue;
		parts.clients[head->clients++] = (struct nam_move_client){
			.id = id,
			.incarnation = newest->incarnation,
			.fenced = is_dead(membership, id) ? 2 : newest->fenced,
			.finished_incarnation = finished.incarnation,
			.before_us = finished.before_us,
			.gap_from_us = finished.gap_from_us,
			.gap_to_us = finished.gap_to_us,
		};
	}
	head->newest = membership->newest_of_all;
	head->before = membership->before;
	head->view = membership->view.head;
	head->members = head->view.number ? head->view.count : 0;
	memcpy(nam__books_parts((const uint64_t *)(const void *)head).members,
		membership->view.members, head->members * sizeof(membership->view.members[0]));
}

/* The leaf that the tree of a hybrid index begins with stays: the name of the lowest key. */
static int
tree_copy(struct nam__tree *tree, uint64_t *scratch, struct nam_move_tree *to)
{
	int rc = 0;

	/* The tree's loader has stopped, too. */
	if (atomic_load_explicit(&tree->load, memory_order_acquire))
		return -NAM_E_RESTART_LOCKED;
	*to = (struct nam_move_tree){ .create = tree->shape, .owner = tree->object.owner,
		.moves = tree->moves };
	if (tree->leaves)
		rc = nam__tree_server_lookup(tree->local, scratch, nam__key_lowest.w,
			&to->create.leaf);
	return rc;
}

static int
trees_copy(struct nam__handler *handler, struct nam_move_head *head)
{
	const struct nam__objects *trees = &handler->server->trees;
	struct nam_move_tree *to = nam__books_parts((const void *)head).trees;
	int rc = 0;

	nam__work_begin(handler);
	for (uint32_t slot = 0; slot < trees->slots_count && !rc; slot++) {
		struct nam__tree *tree = (struct nam__tree *)nam__objects_at(trees, slot);

		/* A tree that is being made is not copied: its maker has not stopped. */
		if (tree && head->trees < NAM__CATALOG_MAX)
			rc = tree_copy(tree, handler->scratch, &to[head->trees++]);
	}
	nam__work_end(handler);
	return rc;
}

int
nam__books_copy(struct nam__handler *handler, struct nam__move_stage **ret)
{
	struct nam_server *server = handler->server;
	struct nam__move_stage *stage = NULL;
	struct nam_move_head *head;
	uint32_t stores, partitions;
	int rc = server->stores.dropped_count || server->trees.dropped_count ? -EAGAIN :
		nam__books_stores_count(handler, &stores, &partitions);

	rc = rc ?: allocator_copy(server, stores, partitions, &stage);
	if (rc)
		return rc;
	head = (void *)stage->books;
	membership_copy(server, head);
	rc = trees_copy(handler, head);
	if (rc) {
		free(stage);
		return rc;
	}
	nam__books_stores_copy(handler, head, stores, partitions);
	head->now_ns = nam__records_now(server);
	head->bytes = nam__books_bytes(head);
	*nam__books_parts(stage->books).hash = nam_hash64(head, head->bytes - sizeof(uint64_t));
	stage->step = NAM_RPC_MOVE_EXPORT;
	stage->bytes = stage->count = head->bytes;
	*ret = stage;
	return 0;
}
