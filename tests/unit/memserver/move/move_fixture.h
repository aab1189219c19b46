/* SPDX-License-Identifier: Apache-2.0 */
/* move_fixture.h -- books of a memory server that pass to another one. */
#ifndef NAM_TESTS_UNIT_MEMSERVER_MOVE_MOVE_FIXTURE_H
#define NAM_TESTS_UNIT_MEMSERVER_MOVE_MOVE_FIXTURE_H

#include "tests/unit/memserver/services/alloc_fixture.h"
#include "common/hash/hash.h"
#include "step_fixture.h"

#define ID 3u

struct books {
	uint64_t bytes;
	uint64_t *words;		/* NULL: none */
};

static inline struct nam_move_head *
head_of(const struct books *books)
{
	return (struct nam_move_head *)(void *)books->words;
}

static inline struct nam_move_region *
regions_of(const struct books *books)
{
	return (struct nam_move_region *)(void *)(head_of(books) + 1);
}

static inline struct nam_move_run *
runs_of(const struct books *books)
{
	return (struct nam_move_run *)(void *)(regions_of(books) + head_of(books)->regions);
}

static inline struct nam_move_word *
words_of(const struct books *books)
{
	return (struct nam_move_word *)(void *)(runs_of(books) + head_of(books)->runs);
}

static inline struct nam_move_client *
clients_of(const struct books *books)
{
	return (struct nam_move_client *)(void *)(words_of(books) + head_of(books)->words);
}

static inline struct nam_view_member *
members_of(const struct books *books)
{
	return (struct nam_view_member *)(void *)(clients_of(books) + head_of(books)->clients);
}

/* As if they had come so. */
static inline void
books_seal(const struct books *books)
{
	books->words[books->bytes / 8 - 1] = nam_hash64(books->words, books->bytes - 8);
}

/* 0, or how the first page failed. */
static inline int
export_books(struct fixture *f, struct books *ret)
{
	const struct nam_rpc_move_reply *reply = reply_body(f);
	uint64_t at = 0;

	*ret = (struct books){ 0 };
	do {
		int rc = move_step(f, &f->connection, NAM_RPC_MOVE_EXPORT, at, NULL, 0);
		uint32_t page;

		if (rc && !at)
			return rc;
		assert_int_equal(rc, 0);
		page = f->reply_bytes - (uint32_t)sizeof(*reply);
		assert_true(page && page <= NAM_RPC_MOVE_PAGE_BYTES);
		if (!at) {
			ret->bytes = reply->bytes;
			ret->words = malloc(reply->bytes);
		}
		assert_true(reply->bytes == ret->bytes && page <= ret->bytes - at);
		memcpy((uint8_t *)ret->words + at, reply->page, page);
		at += page;
	} while (at < ret->bytes);
	return 0;
}

/* 0, or how the first page failed that did. */
static inline int
import_books(struct fixture *f, const struct books *books)
{
	int rc = 0;

	for (uint64_t at = 0, page; at < books->bytes && !rc; at += page) {
		page = books->bytes - at < NAM_RPC_MOVE_PAGE_BYTES ? books->bytes - at :
			NAM_RPC_MOVE_PAGE_BYTES;
		rc = move_step(f, &f->connection, NAM_RPC_MOVE_IMPORT, at,
			(const uint8_t *)books->words + at, (uint32_t)page);
	}
	return rc;
}

static inline struct fixture *
server_start(uint32_t id, bool successor, uint64_t memory_bytes, uint64_t region_bytes)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;

	assert_non_null(f);
	fixture_options(f, &options);
	options.id = id;
	options.successor = successor;
	options.memory_bytes = memory_bytes;
	options.region_bytes = region_bytes;
	fixture_start(f, &options);
	return f;
}

static inline void
server_end(struct fixture *f)
{
	void *state = f;

	free(f->connection.move_stage);
	(void)fixture_teardown(&state);
}

/* A memory server, and its successor. */
struct pair {
	struct fixture *old, *next;
};

static inline int
pair_start(void **state, uint64_t memory_bytes, uint64_t region_bytes)
{
	struct pair *pair = malloc(sizeof(*pair));

	*pair = (struct pair){ server_start(ID, false, memory_bytes, region_bytes),
		server_start(ID, true, memory_bytes, region_bytes) };
	*state = pair;
	return 0;
}

static inline int
pair_end(void **state)
{
	struct pair *pair = *state;

	server_end(pair->old);
	server_end(pair->next);
	free(pair);
	return 0;
}

#endif /* NAM_TESTS_UNIT_MEMSERVER_MOVE_MOVE_FIXTURE_H */
