/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c -- tables of trees and stores, and when their memory can be used again. */
#include "memserver_internal.h"

/* M10: what is retired from now on waits for this request. */
void
nam__work_begin(struct nam__handler *handler)
{
	uint64_t clock = atomic_load_explicit(&handler->server->work_clock, memory_order_relaxed);

	nam_race_point("trees.clock_read");
	atomic_store_explicit(&handler->began, clock, memory_order_relaxed);
	/* Pairs with nam__work_oldest(): one of the two sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
}

void
nam__work_end(struct nam__handler *handler)
{
	atomic_store_explicit(&handler->began, 0, memory_order_release);
}

uint64_t
nam__work_oldest(const struct nam_server *server)
{
	uint64_t oldest = atomic_load_explicit(&server->work_clock, memory_order_relaxed);

	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < server->options.rpc_threads; i++) {
		uint64_t began = atomic_load_explicit(&server->handlers[i].began,
			memory_order_acquire);

		if (began && began < oldest)
			oldest = began;
	}
	return oldest;
}

uint64_t
nam__work_tick(struct nam_server *server)
{
	return atomic_fetch_add_explicit(&server->work_clock, 1, memory_order_acq_rel);
}

/* A slot whose object was unlinked: others of the same hash may come behind it. */
#define GONE ((struct nam__object *)1)

static inline _Atomic(struct nam__object *) *
slot_of(const struct nam__objects *objects, uint64_t id, uint32_t probe)
{
	return &objects->slots[(uint32_t)(nam_mix64(id) + probe) % objects->slots_count];
}

/* The slot of an object, and the object; NULL: there is none. */
static _Atomic(struct nam__object *) *
find(const struct nam__objects *objects, uint64_t id, struct nam__object **ret_object)
{
	*ret_object = NULL;
	for (uint32_t probe = 0; probe < objects->slots_count; probe++) {
		_Atomic(struct nam__object *) *slot = slot_of(objects, id, probe);
		struct nam__object *object = atomic_load_explicit(slot, memory_order_acquire);

		if (!object)
			return NULL;
		if (object == GONE || object->id != id)
			continue;
		*ret_object = object;
		return slot;
	}
	return NULL;
}

struct nam__object *
nam__objects_find(const struct nam__objects *objects, uint64_t id)
{
	struct nam__object *object;

	(void)find(objects, id, &object);
	return object;
}

struct nam__object *
nam__objects_at(const struct nam__objects *objects, uint32_t slot)
{
	struct nam__object *object = atomic_load_explicit(&objects->slots[slot],
		memory_order_acquire);

	return object == GONE ? NULL : object;
}

bool
nam__objects_close(struct nam__objects *objects)
{
	bool none;

	pthread_mutex_lock(&objects->mutex);
	none = objects->closed = !objects->count;
	pthread_mutex_unlock(&objects->mutex);
	return none;
}

void
nam__objects_open(struct nam__objects *objects)
{
	pthread_mutex_lock(&objects->mutex);
	objects->closed = false;
	pthread_mutex_unlock(&objects->mutex);
}

int
nam__objects_enter(struct nam__objects *objects, struct nam__object *object)
{
	_Atomic(struct nam__object *) *slot;
	uint32_t probe = 0;
	int rc = 0;

	pthread_mutex_lock(&objects->mutex);
	if (objects->closed) {
		rc = -NAM_E_FABRIC_MOVED;
	} else if (nam__objects_find(objects, object->id)) {
		rc = -NAM_E_INDEX_EXISTS;
	} else if (objects->count == objects->slots_count / 2) {
		rc = -NAM_E_LIMIT;
	} else {
		do
			slot = slot_of(objects, object->id, probe++);
		while ((uintptr_t)atomic_load_explicit(slot, memory_order_relaxed) >
			(uintptr_t)GONE);
		atomic_store_explicit(slot, object, memory_order_release);
		objects->count++;
	}
	pthread_mutex_unlock(&objects->mutex);
	if (rc)
		objects->free(object);
	return rc;
}

/* Slots that are GONE at the end of a row become empty, so no search passes all. */
static void
clear_end(struct nam__objects *objects, uint32_t at)
{
	uint32_t count = objects->slots_count;

	while (objects->slots[at] == GONE && !objects->slots[(at + 1) % count]) {
		atomic_store_explicit(&objects->slots[at], NULL, memory_order_relaxed);
		at = (at + count - 1) % count;
	}
}

int
nam__objects_drop(struct nam__objects *objects, struct nam_server *server, uint64_t id)
{
	struct nam__object *object;
	_Atomic(struct nam__object *) *slot;

	NAM__SCOPED_LOCK(&objects->mutex);
	slot = find(objects, id, &object);
	if (!slot)
		return -NAM_E_DROPPED;
	atomic_store_explicit(slot, GONE, memory_order_release);
	clear_end(objects, (uint32_t)(slot - objects->slots));
	objects->count--;
	object->clock = nam__work_tick(server);
	STAILQ_INSERT_TAIL(&objects->dropped, object, link);
	atomic_fetch_add_explicit(&objects->dropped_count, 1, memory_order_relaxed);
	return 0;
}

void
nam__objects_idle(struct nam__objects *objects, const struct nam_server *server)
{
	struct nam__object *first;

	if (__builtin_expect(!atomic_load_explicit(&objects->dropped_count,
			memory_order_relaxed), 1))
		return;
	do {
		pthread_mutex_lock(&objects->mutex);
		first = STAILQ_FIRST(&objects->dropped);
		if (first && first->clock >= nam__work_oldest(server))
			first = NULL;
		if (first) {
			STAILQ_REMOVE_HEAD(&objects->dropped, link);
			atomic_fetch_sub_explicit(&objects->dropped_count, 1, memory_order_relaxed);
		}
		pthread_mutex_unlock(&objects->mutex);
		if (first)
			objects->free(first);
	} while (first);
}

int
nam__objects_init(struct nam__objects *objects, uint32_t most,
	void (*free)(struct nam__object *object))
{
	memset(objects, 0, sizeof(*objects));
	STAILQ_INIT(&objects->dropped);
	objects->free = free;
	objects->slots = calloc((size_t)2 * most, sizeof(objects->slots[0]));
	if (!objects->slots)
		return -ENOMEM;
	objects->slots_count = 2 * most;
	return -pthread_mutex_init(&objects->mutex, NULL);
}

void
nam__objects_free(struct nam__objects *objects)
{
	struct nam__object *object;

	if (!objects->slots)
		return;
	for (uint32_t i = 0; i < objects->slots_count; i++) {
		object = nam__objects_at(objects, i);
		if (object)
			objects->free(object);
	}
	while ((object = STAILQ_FIRST(&objects->dropped)) != NULL) {
		STAILQ_REMOVE_HEAD(&objects->dropped, link);
		objects->free(object);
	}
	free(objects->slots);
	objects->slots = NULL;
	(void)pthread_mutex_destroy(&objects->mutex);
}
