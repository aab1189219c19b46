/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- remote blocks.  Each stride and memory server has a size class: a stack of recycled
 * blocks and a run of fresh ones.  One RPC refills it.  Blocks keep their stride (C6).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backup/again.h"
#include "compute/backup/backed.h"
#include "compute/remote/block_cache.h"
#include "compute/remote/spare.h"
#include "compute/remote/epoch.h"

#define ASK_MAX 1024u
#define ASK_BYTES_MAX (1u << 20)
/* A server that is full, or fuller than others, is asked after so many allocations elsewhere. */
#define SKIPS 256u
#define FREE_SLACK (UINT16_MAX / 8u)	/* so much less free memory than another server may have */

/* ---- refilling ---------------------------------------------------------------------------- */

static int
reply_check(const struct nam_worker *worker, uint32_t slot,
	const struct nam_rpc_alloc_request *request, const struct nam_rpc_alloc_reply *reply,
	uint32_t reply_bytes)
{
	bool good = reply_bytes >= sizeof(*reply) && reply->count <= NAM_RPC_ALLOC_SCATTERED_MAX &&
		    reply_bytes == sizeof(*reply) + reply->count * sizeof(uint64_t) &&
		    reply->run_count <= request->count &&
		    reply->count <= request->count - reply->run_count &&
		    reply->run_count + reply->count > 0;

	if (good && reply->run_count)
		good = nam__server_has(worker->client, slot, reply->run_at,
			(uint64_t)reply->run_count * request->stride);
	for (uint32_t i = 0; good && i < reply->count; i++) {
		struct nam_gaddr at = NAM_GADDR(reply->blocks[i]);

		good = (!nam_gaddr_tag(at) || nam_gaddr_tag(at) == NAM_BLOCK_SWEPT) &&
			nam__server_has(worker->client, slot, nam_gaddr_untagged(at).raw,
				request->stride);
	}
	return good ? 0 : -NAM_E_FABRIC_PROTOCOL;
}

/* C32: if the process has ended meanwhile, its blocks do not count: the backup is asked. */
NAM_FIBER_FN static int
blocks_get(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_alloc_request *request,
	struct nam_rpc_alloc_reply *reply)
{
	uint32_t reply_bytes, moves;
	int rc;

	do {
		reply_bytes = NAM_RPC_BODY_MAX;
		moves = worker->moves;
		rc = nam_rpc_call(worker, slot, NAM_RPC_ALLOC, request, sizeof(*request), reply,
			&reply_bytes); /* SUSPENDS */
		nam_race_point("alloc.asked");
		if (!rc)
			rc = reply_check(worker, slot, request, reply, reply_bytes);
		if (rc == -NAM_E_FABRIC_PROTOCOL)
			return nam_diag_set(&worker->diag, rc,
				"the memory server at %s sent a malformed ALLOC reply",
				worker->client->servers[slot].address);
		/* C31: the backup knows the blocks before they are used. */
		if (!rc)
			rc = nam__backed_runs(worker, slot, request->stride, reply); /* SUSPENDS */
	} while (__builtin_expect(rc || moves != worker->moves, 0) &&
		nam__posted_in_vain(worker, slot, moves));
	return rc;
}

/* Ask the server for blocks and put them on the size class, which is empty. */
NAM_FIBER_FN static int
class_fetch(struct nam_worker *worker, uint32_t slot, uint32_t stride, bool reserve,
	struct nam__block_class *class)
{
	uint32_t most = ASK_BYTES_MAX / stride + 1;
	struct nam_rpc_alloc_request request = {
		.stride = stride,
		.count = (uint16_t)(reserve ? 1 : class->ask < most ? class->ask : most),
		.reserve = reserve,
	};
	struct nam_rpc_alloc_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc;

	if (!reply)
		return -ENOMEM;
	rc = -NAM_E_REMOTE_FULL;
	if (nam_fault_point("alloc.full"))
		goto give_reply;
	class->unsure += request.count;
	rc = blocks_get(worker, slot, &request, reply); /* SUSPENDS */
	if (!nam_err_is(rc, NAM_E_FABRIC))
		class->unsure -= request.count;
	if (rc)
		goto give_reply;
	atomic_store_explicit(&worker->client->servers[slot].free, reply->free,
		memory_order_relaxed);
	rc = nam__class_reserve(worker, class, reply->count);
	if (rc)
		goto give_reply;
	/* No other task has asked, so there is no run; recycled blocks may have come back. */
	if (reply->run_count) {
		class->run_at = reply->run_at;
		class->run_left = reply->run_count;
	}
	if (reply->count)
		memcpy(class->recycled + class->recycled_count, reply->blocks,
			reply->count * sizeof(uint64_t));
	class->recycled_count += reply->count;
	class->skips = 0;
	if (class->ask < ASK_MAX)
		class->ask *= 2;
give_reply:
	nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

/* The first task asks; other tasks wait for it and then look at the size class again. */
NAM_FIBER_FN static int
class_refill(struct nam_worker *worker, uint32_t slot, uint32_t stride, bool reserve,
	struct nam__block_class *class)
{
	struct nam__task *self = worker->current, *task;
	int rc;

	if (class->refilling) {
		SLIST_INSERT_HEAD(&class->waiters, self, link);
		self->pending = 1;
		return nam__task_await(worker); /* SUSPENDS */
	}
	class->refilling = true;
	rc = class_fetch(worker, slot, stride, reserve, class); /* SUSPENDS */
	class->refilling = false;
	if (nam_err_is(rc, NAM_E_REMOTE_FULL)) {
		class->skips = SKIPS;
		atomic_store_explicit(&worker->client->servers[slot].free, 0, memory_order_relaxed);
	}
	while ((task = SLIST_FIRST(&class->waiters))) {
		SLIST_REMOVE_HEAD(&class->waiters, link);
		task->pending = 0;
		nam__task_ready(worker, task);
	}
	return rc;
}

NAM_FIBER_FN static int
alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride, bool reserve,
	struct nam_gaddr *ret_at)
{
	struct nam__block_class *class;
	int rc;

	if (slot >= worker->client->servers_count || !stride || stride % NAM_GADDR_UNIT_BYTES)
		return nam_diag_set(&worker->diag, -EINVAL,
			"there is no server %u, or %u bytes is not a multiple of %u", slot, stride,
			NAM_GADDR_UNIT_BYTES);
	/* Cached blocks of a server that is gone are of no use. */
	rc = worker->qps[slot] ? 0 : nam__qp_open(worker, slot);
	if (rc)
		return rc;
	class = nam__class_get(worker, slot, stride);
	if (!class)
		return -ENOMEM;
	while (nam__class_empty(class)) {
		rc = class_refill(worker, slot, stride, reserve, class); /* SUSPENDS */
		if (rc)
			return rc;
	}
	*ret_at = nam__class_pop(class, stride);
	return 0;
}

/* ---- the choice of a server --------------------------------------------------------------- */

/* Whether blocks may be allocated there. */
static bool
usable(const struct nam_client *client, uint32_t slot)
{
	return atomic_load_explicit(&client->servers[slot].usable, memory_order_acquire);
}

/* The bytes of all regions of a memory server, in use or not. */
static uint64_t
server_bytes(const struct nam_client *client, uint32_t id)
{
	const struct nam_region_block *block = nam_region_table_block(&client->regions, id);
	uint64_t bytes = 0;

	for (uint32_t i = 0; block && i < NAM_REGIONS_PER_SERVER; i++)
		bytes += block->regions[i].bytes;
	return bytes;
}

static int
explain_full(struct nam_worker *worker, uint32_t stride, uint32_t dead_count)
{
	const struct nam_client *client = worker->client;
	char dead[48] = "", text[32];
	uint32_t servers_count = 0;
	uint64_t bytes = 0;

	if (dead_count)
		(void)snprintf(dead, sizeof(dead), " (%u of the servers are gone)", dead_count);
	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		if (!usable(client, slot))
			continue;
		servers_count++;
		bytes += server_bytes(client, client->servers[slot].id);
	}
	worker->public_full = true;
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL,
		"no room for a block of %u bytes. The %u memory servers have %s in all%s, in use, "
		"or among used blocks of other sizes. Drop or collect what is not needed, "
		"sweep for dead clients (namctl sweep), start nam-memserver there with more "
		"--memory, or add servers",
		stride, servers_count, nam__bytes_text(bytes, text, sizeof(text)), dead);
}

static bool
cached_pop(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct nam_gaddr *ret_at)
{
	struct nam__block_class *class = nam__class_find(worker, slot, stride);

	if (!class || nam__class_empty(class))
		return false;
	*ret_at = nam__class_pop(class, stride);
	return true;
}

/* The least free memory of a server that is not passed by, in 65,535ths. */
static uint32_t
free_least(const struct nam_client *client)
{
	uint32_t most = FREE_SLACK;

	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		const struct nam__server *server = &client->servers[slot];
		uint32_t free = atomic_load_explicit(&server->free, memory_order_relaxed);

		if (free > most && usable(client, slot) &&
			!atomic_load_explicit(&server->lost, memory_order_relaxed))
			most = free;
	}
	return most - FREE_SLACK;
}

/* The memory servers that are not lost, and have so much free memory. */
static uint32_t
candidates(const struct nam_client *client, uint32_t least, uint16_t slots[NAM_SERVERS_MAX])
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		const struct nam__server *server = &client->servers[slot];

		if (usable(client, slot) &&
			!atomic_load_explicit(&server->lost, memory_order_relaxed) &&
			atomic_load_explicit(&server->free, memory_order_relaxed) >= least)
			slots[count++] = (uint16_t)slot;
	}
	return count;
}

uint32_t
nam_alloc_slot(const struct nam_client *client, uint32_t hash)
{
	uint16_t slots[NAM_SERVERS_MAX];
	uint32_t count = candidates(client, free_least(client) ?: 1, slots);

	if (!count)
		count = candidates(client, 0, slots);
	return count ? slots[(uint64_t)hash * count >> 32] : client->catalog_slot;
}

/* A few blocks now and then show whether it has got memory back. */
static bool
pass_by(const struct nam__server *server, struct nam__block_class *class, uint32_t least)
{
	if (class->skips)
		return --class->skips > 0;
	if (atomic_load_explicit(&server->free, memory_order_relaxed) >= least)
		return false;
	class->ask = NAM__ASK_FIRST;
	return ++class->passes % SKIPS > 0;
}

/* Round from `first`; servers with less than `least` 65,535ths free only if no other has room. */
NAM_FIBER_FN static int
alloc_anywhere(struct nam_worker *worker, uint32_t first, uint32_t least, uint32_t stride,
	struct nam_gaddr *ret_at)
{
	uint32_t servers_count = worker->client->servers_count;
	bool asked[NAM_SERVERS_MAX] = { false };
	uint32_t dead_count = 0, usable_count = 0;
	uint64_t reusable = 0;
	int rc = 0;

	for (uint32_t i = 0; i < 2 * servers_count; i++) {
		uint32_t slot = (first + i) % servers_count;
		struct nam__block_class *class = nam__class_find(worker, slot, stride);

		if (asked[slot] || !usable(worker->client, slot))
			continue;
		if (i < servers_count && class && nam__class_empty(class) &&
			pass_by(&worker->client->servers[slot], class, least))
			continue;
		asked[slot] = true;
		usable_count++;
		rc = alloc_on(worker, slot, stride, false, ret_at); /* SUSPENDS */
		if (rc && !worker->qps[slot])
			dead_count++;
		else if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
			return rc;
	}
	if (dead_count && dead_count == usable_count)
		return rc;
	/* Perhaps no reader can see this worker's retired blocks any more. */
	if (nam__limbo_advance(worker, &reusable) == 0 && reusable) /* SUSPENDS */
		for (uint32_t slot = 0; slot < servers_count; slot++)
			if (worker->qps[slot] && cached_pop(worker, slot, stride, ret_at))
				return 0;
	return explain_full(worker, stride, dead_count);
}

int
nam_alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct nam_gaddr *ret_at)
{
	uint64_t reusable = 0;
	const struct nam__server *server;
	char text[32];
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	rc = alloc_on(worker, slot, stride, false, ret_at); /* SUSPENDS */

	if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
		return rc;
	if (nam__limbo_advance(worker, &reusable) == 0 && reusable && /* SUSPENDS */
		cached_pop(worker, slot, stride, ret_at))
		return 0;
	server = &worker->client->servers[slot];
	worker->public_full = true;
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL,
		"the memory server at %s has no room for a block of %u bytes, and it has to be "
		"there, whatever room others have. Its %s in all are in use, or among "
		"used blocks of other sizes. Drop or collect what is not needed, sweep for dead "
		"clients (namctl sweep), or start nam-memserver with more --memory",
		server->address, stride,
		nam__bytes_text(server_bytes(worker->client, server->id), text, sizeof(text)));
}

int
nam__spare_take(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	struct nam_gaddr *ret_at)
{
	struct nam__block_class *class = nam__class_find(worker, slot, stride);
	int rc;

	if (class && class->spares_count) {
		ret_at->raw = class->spares[--class->spares_count];
		*ret_at = nam_gaddr_tagged(*ret_at, NAM_BLOCK_FRESH);
		return 0;
	}
	rc = nam_alloc_on(worker, slot, stride, ret_at); /* SUSPENDS */
	return nam_err_is(rc, NAM_E_REMOTE_FULL) ? alloc_on(worker, slot, stride, true,
		ret_at) : rc; /* SUSPENDS */
}

void
nam__spare_give(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at, uint32_t stride)
{
	struct nam__block_class *class = nam__class_find(worker, slot, stride);

	if (class && class->spares_count < NAM__SPARES)
		class->spares[class->spares_count++] = nam_gaddr_untagged(at).raw;
	else
		nam_free_unseen(worker, at, stride);
}

/* Blocks in the block cache have been allocated already, wherever they lie. */
NAM_FIBER_FN static int
alloc_next(struct nam_worker *worker, bool evenly, uint32_t stride, struct nam_gaddr *ret_at)
{
	uint32_t slot = worker->alloc_next;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	worker->alloc_next = slot + 1 < worker->client->servers_count ? slot + 1 : 0;
	if (worker->qps[slot] && cached_pop(worker, slot, stride, ret_at))
		return 0;
	return alloc_anywhere(worker, slot, evenly ? 0 : free_least(worker->client), stride,
		ret_at); /* SUSPENDS */
}

int
nam_alloc(struct nam_worker *worker, uint32_t stride, struct nam_gaddr *ret_at)
{
	return alloc_next(worker, false, stride, ret_at); /* SUSPENDS */
}

int
nam_alloc_evenly(struct nam_worker *worker, uint32_t stride, struct nam_gaddr *ret_at)
{
	return alloc_next(worker, true, stride, ret_at); /* SUSPENDS */
}
