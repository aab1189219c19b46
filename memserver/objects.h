/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h -- trees and key-value stores by their numbers.
 *
 * A table is read without a lock, and changes under its mutex.  A dropped object, or an unlinked
 * node of a tree, waits until every handler that was at work then has answered (M10).  Each handler
 * publishes at which count of the server's clock it has begun.
 */
#ifndef NAM_MEMSERVER_OBJECTS_H
#define NAM_MEMSERVER_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/error.h"

struct nam__handler;
struct nam_server;

/* The beginning of a tree or a store. */
struct nam__object {
	uint64_t id;
	STAILQ_ENTRY(nam__object) link;	/* of dropped ones */
	uint64_t clock;			/* free once every handler has begun later */
	uint16_t owner;			/* the id of the client that made it */
	bool suspect, named;		/* for a sweep: no name is known that leads to it; one is */
	_Atomic uint64_t bytes;		/* that it has of the allocator */
};

struct nam__objects {
	_Atomic(struct nam__object *) *slots;	/* by number */
	uint32_t slots_count;		/* twice as many as there may be objects */
	void (*free)(struct nam__object *object);
	pthread_mutex_t mutex;		/* of the fields below, and of changes of slots */
	bool closed;			/* none enters any more */
	_Atomic uint32_t count;
	_Atomic uint32_t dropped_count;
	STAILQ_HEAD(, nam__object) dropped;	/* oldest first */
};

/* For up to `most` of them.  `free` is called when no handler is at work on the object. */
int nam__objects_init(struct nam__objects *objects, uint32_t most,
	void (*free)(struct nam__object *object)) NAM_MUST_CHECK;
/* No handler may be at work.  Accepts zeroes. */
void nam__objects_free(struct nam__objects *objects);

/* The object in a slot, or NULL. */
struct nam__object *nam__objects_at(const struct nam__objects *objects, uint32_t slot);
/* Between nam__work_begin() and nam__work_end(); NULL: there is none. */
struct nam__object *nam__objects_find(const struct nam__objects *objects, uint64_t id);
/* Whether there is none.  Then none enters until they are opened again. */
bool nam__objects_close(struct nam__objects *objects) NAM_MUST_CHECK;
void nam__objects_open(struct nam__objects *objects);
/* -NAM_E_INDEX_EXISTS, -NAM_E_LIMIT, -NAM_E_FABRIC_MOVED (closed): the object is freed. */
int nam__objects_enter(struct nam__objects *objects, struct nam__object *object) NAM_MUST_CHECK;
/* Unlinked at once, and freed later: 0 or -NAM_E_DROPPED. */
int nam__objects_drop(struct nam__objects *objects, struct nam_server *server,
	uint64_t id) NAM_MUST_CHECK;
/* To be called between requests: frees dropped objects that no handler works on any more. */
void nam__objects_idle(struct nam__objects *objects, const struct nam_server *server);

/* Objects and nodes that a handler sees between these two are not reused. */
void nam__work_begin(struct nam__handler *handler);
void nam__work_end(struct nam__handler *handler);
/* Handlers see nothing that was unlinked at a count below this one. */
uint64_t nam__work_oldest(const struct nam_server *server);
/* The count at which something was unlinked; later ones begin with the next. */
uint64_t nam__work_tick(struct nam_server *server);

#endif /* NAM_MEMSERVER_OBJECTS_H */
