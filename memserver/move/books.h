/* SPDX-License-Identifier: Apache-2.0 */
/* books.h -- all that this server keeps beside its public memory, as bytes (move_rpc.h). */
#ifndef NAM_MEMSERVER_MOVE_BOOKS_H
#define NAM_MEMSERVER_MOVE_BOOKS_H

#include "common/rpc/books_rpc.h"
#include "common/rpc/move_rpc.h"
#include "memserver/memserver_internal.h"

/* The books of one connection: only its handler touches them. */
struct nam__move_stage {
	uint32_t step;			/* EXPORT: a copy of ours; IMPORT: those that come */
	uint64_t bytes;			/* of all */
	uint64_t count;			/* that have come */
	uint64_t books[];
};

/* A copy of this server's books: 0, or as EXPORT fails. */
int nam__books_copy(struct nam__handler *handler,
	struct nam__move_stage **ret_stage) NAM_MUST_CHECK;
/* Whether books that begin so may be this server's: 0, or as IMPORT fails. */
int nam__books_head_check(const struct nam_server *server,
	const struct nam_move_head *head) NAM_MUST_CHECK;
/*
 * A server that has had no clients takes these books, which are whole, for its own: all or nothing.
 * -ENOMEM, -NAM_E_REMOTE_FULL: some of its regions may have become private.
 */
int nam__books_take(struct nam__handler *handler, const uint64_t *books) NAM_MUST_CHECK;

/* How many there are: 0, or -NAM_E_UNMOVABLE. */
int nam__books_stores_count(struct nam__handler *handler, uint32_t *ret_stores,
	uint32_t *ret_partitions) NAM_MUST_CHECK;
/* No more than those; trees are in the books by then. */
void nam__books_stores_copy(struct nam__handler *handler, struct nam_move_head *head,
	uint32_t stores, uint32_t partitions);
/* All or none.  Their chunks hold anything. */
int nam__books_stores_make(struct nam_server *server, const struct nam_move_head *head,
	const struct nam__books_parts *parts) NAM_MUST_CHECK;
/* Between nam__work_begin() and nam__work_end(): where a piece lies.  0, or as PEEK fails. */
int nam__store_piece(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes, uint8_t **ret) NAM_MUST_CHECK;

#endif /* NAM_MEMSERVER_MOVE_BOOKS_H */
