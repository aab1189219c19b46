/* SPDX-License-Identifier: Apache-2.0 */
/* noted.h -- which pages of a member have changed since they were copied (move_rpc.h, M23). */
#ifndef NAM_MEMSERVER_MOVE_NOTED_H
#define NAM_MEMSERVER_MOVE_NOTED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/gaddr.h"

#define NAM__NOTED_LATER 256u		/* a request with 32 records looks up fewer blocks */

struct nam__connection;
struct nam__exchange;
struct nam__handler;
struct nam_rpc_move_request;
struct nam_server;

struct nam__noted {
	pthread_mutex_t mutex;		/* of all but bits, `active` and `lost` */
	const struct nam__connection *claimer;	/* NULL: nothing is noted */
	uint32_t id;			/* of the member */
	uint32_t region_words;		/* of each region */
	uint32_t words_count;		/* stays where `active` may be set */
	_Atomic uint64_t *words;	/* bits; stays until the server ends, if it may be active */
	atomic_bool active;		/* it is this server's memory, so handlers note */
	atomic_bool lost;		/* pages have changed that are noted nowhere */
};

/* Pages that a request changes.  They are noted when it is done: not before they have changed. */
struct nam__noted_later {
	uint32_t count;
	bool more;			/* than there is room for */
	struct {
		uint32_t region;
		uint32_t page, pages;
	} at[NAM__NOTED_LATER];
};

int nam__noted_init(struct nam__noted *noted) NAM_MUST_CHECK;
void nam__noted_free(struct nam__noted *noted);

/* A request is about to change so many bytes, at least 1, of a public region. */
void nam__noted_add(const struct nam__exchange *exchange, uint32_t region, uint64_t offset,
	uint64_t bytes);
/* As nam__memory_public_at(), for a request that is about to change them. */
void *nam__memory_public_change(const struct nam__exchange *exchange, struct nam_gaddr at,
	uint32_t bytes);
/* A region is public again, and zero. */
void nam__noted_region(struct nam_server *server, uint32_t region);
/* The request is done. */
void nam__noted_flush(struct nam__handler *handler);

/* The member is neither COPYING nor MOVING any more. */
void nam__noted_end(struct nam_server *server, uint32_t id);
void nam__noted_connection_closed(struct nam__connection *connection);
/* move.c: it keeps no trees and no stores out any more. */
void nam__move_connection_closed(struct nam_server *server, struct nam__connection *connection);

typedef int nam__move_step_fn(struct nam__exchange *exchange,
	const struct nam_rpc_move_request *request, uint32_t page_bytes);

nam__move_step_fn nam__noted_claim, nam__noted_note, nam__noted_take;

#endif /* NAM_MEMSERVER_MOVE_NOTED_H */
