/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- remote blocks from a stock that each worker keeps, refilled by one RPC for many.
 *
 * The stock has a size class for each stride and memory server: blocks that were used before, as a
 * stack, and a run of fresh ones.  Blocks never change their stride, so the size classes never mix.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/remote/block_cache.h"
#include "compute/remote/epoch.h"

#define ASK_MIN 16u
#define ASK_MAX 1024u
#define ASK_BYTES_MAX (1u << 20)
/* A size class with more than twice as many blocks is trimmed down to this many. */
#define KEEP_MAX 1024u
/* A server that was full is not asked again before so many allocations have passed it by. */
#define FULL_SKIPS 256u
#define BLOCKS_PER_FREE                                                                            \
	((uint32_t)((NAM_RPC_BODY_MAX - sizeof(struct nam_rpc_free_request)) / sizeof(uint64_t)))

struct class {
	uint64_t run_at;		/* gaddr of the first fresh block */
	uint32_t run_left;
	uint32_t ask;			/* blocks to ask for next time */
	uint64_t *recycled;		/* a stack of gaddrs */
	uint32_t recycled_count, recycled_size;
	uint32_t skips;			/* the server was full: how often yet to pass it by */
	uint32_t unsure;		/* blocks of RPCs without an answer, so far or for good */
	bool refilling;			/* one task asks, the others wait */
	struct nam__task *waiters;
};

struct stride_classes {
	uint32_t stride;
	struct class *classes;		/* by server slot */
};

struct nam__block_cache {
	uint32_t count;
	struct stride_classes strides[];
};

/* ---- size classes ---------------------------------------------------------------------------- */

static struct class *
class_find(const struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	const struct nam__block_cache *cache = worker->block_caches;

	for (uint32_t i = 0; cache && i < cache->count; i++)
		if (cache->strides[i].stride == stride)
			return &cache->strides[i].classes[slot];
	return NULL;
}

/*
 * Size classes stay where they are for as long as the worker lives: tasks point to them as they
 * wait.
 */
static struct class *
class_get(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	uint32_t count = worker->block_caches ? worker->block_caches->count : 0;
	uint32_t servers_count = worker->client->servers_count;
	struct class *classes = class_find(worker, slot, stride);
	struct nam__block_cache *cache;

	if (classes)
		return classes;
	classes = calloc(servers_count, sizeof(*classes));
	if (!classes)
		return NULL;
	cache = realloc(worker->block_caches,
		sizeof(*cache) + (count + 1) * sizeof(struct stride_classes));
	if (!cache) {
		free(classes);
		return NULL;
	}
	for (uint32_t i = 0; i < servers_count; i++)
		classes[i].ask = ASK_MIN;
	cache->strides[count] = (struct stride_classes){ stride, classes };
	cache->count = count + 1;
	worker->block_caches = cache;
	worker->bytes += sizeof(struct stride_classes) + servers_count * sizeof(*classes);
	return &classes[slot];
}

static bool
class_empty(const struct class *class)
{
	return !class->recycled_count && !class->run_left;
}

static struct nam_gaddr
class_pop(struct class *class, uint32_t stride)
{
	struct nam_gaddr at;

	if (class->recycled_count) {
		at.raw = class->recycled[--class->recycled_count];
		return nam_gaddr_tagged(at, NAM_BLOCK_RECYCLED);
	}
	at.raw = class->run_at;
	class->run_at += stride / NAM_GADDR_UNIT_BYTES;
	class->run_left--;
	return nam_gaddr_tagged(at, NAM_BLOCK_FRESH);
}

static int
class_reserve(struct nam_worker *worker, struct class *class, uint32_t more)
{
	uint32_t size = class->recycled_size ? class->recycled_size : 64;
	uint64_t *recycled;

	while (size < class->recycled_count + more)
		size *= 2;
	if (size == class->recycled_size)
		return 0;
	recycled = realloc(class->recycled, size * sizeof(*recycled));
	if (!recycled)
		return -ENOMEM;
	worker->bytes += (size - class->recycled_size) * sizeof(*recycled);
	class->recycled = recycled;
	class->recycled_size = size;
	return 0;
}

void
nam__block_cache_put(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);
	struct class *class = region ? class_get(worker, region->server, stride) : NULL;

	/* A host without memory cannot even remember the block: then it is lost to the cluster. */
	if (!class || class_reserve(worker, class, 1))
		return;
	class->recycled[class->recycled_count++] = nam_gaddr_untagged(at).raw;
	class->skips = 0;
}

void
nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	nam__block_cache_put(worker, at, stride);
}

/* ---- refilling ---------------------------------------------------------------------------- */

static uint32_t
ask_count(const struct class *class, uint32_t stride)
{
	uint32_t most = ASK_BYTES_MAX / stride + 1;

	return class->ask < most ? class->ask : most;
}

static bool
block_plausible(const struct nam_worker *worker, uint32_t slot, uint64_t raw, uint64_t bytes)
{
	struct nam_gaddr at = { raw };
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);

	return region && region->server == slot && !nam_gaddr_tag(at) && raw &&
	       nam_gaddr_offset(at) <= region->bytes &&
	       bytes <= region->bytes - nam_gaddr_offset(at);
}

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
		good = block_plausible(worker, slot, reply->run_at,
			(uint64_t)reply->run_count * request->stride);
	for (uint32_t i = 0; good && i < reply->count; i++)
		good = block_plausible(worker, slot, reply->blocks[i], request->stride);
	if (good)
		return 0;
	return -NAM_E_FABRIC_PROTOCOL;
}

/* Ask the server for blocks and put them on the size class, which is empty. */
NAM_FIBER_FN static int
class_ask(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct class *class)
{
	struct nam_rpc_alloc_request request = { stride, ask_count(class, stride) };
	struct nam_rpc_alloc_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint32_t reply_bytes = NAM_RPC_BODY_MAX;
	int rc;

	if (!reply)
		return -ENOMEM;
	rc = -NAM_E_REMOTE_FULL;
	if (nam_fault_point("alloc.full"))
		goto give_reply;
	class->unsure += request.count;
	rc = nam_rpc_call(worker, slot, NAM_RPC_ALLOC, &request, sizeof(request), reply,
		&reply_bytes); /* SUSPENDS */
	if (!nam_err_is(rc, NAM_E_FABRIC))
		class->unsure -= request.count;
	if (rc)
		goto give_reply;
	rc = reply_check(worker, slot, &request, reply, reply_bytes);
	if (rc) {
		nam_diag_set(&worker->diag, rc,
			"the memory server at %s sent a malformed ALLOC reply",
			worker->client->servers[slot].address);
		goto give_reply;
	}
	nam_race_point("alloc.asked");
	rc = class_reserve(worker, class, reply->count);
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

/* One task asks; whoever comes meanwhile waits for it and then looks at the size class again. */
NAM_FIBER_FN static int
class_refill(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct class *class)
{
	struct nam__task *self = worker->current, *task, *next;
	int rc;

	if (class->refilling) {
		self->next = class->waiters;
		class->waiters = self;
		self->pending = 1;
		return nam__task_await(worker); /* SUSPENDS */
	}
	class->refilling = true;
	rc = class_ask(worker, slot, stride, class); /* SUSPENDS */
	class->refilling = false;
	if (nam_err_is(rc, NAM_E_REMOTE_FULL))
		class->skips = FULL_SKIPS;
	for (task = class->waiters; task; task = next) {
		next = task->next;
		task->pending = 0;
		nam__task_ready(worker, task);
	}
	class->waiters = NULL;
	return rc;
}

NAM_FIBER_FN static int
alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct nam_gaddr *ret_at)
{
	struct class *class;
	int rc;

	if (slot >= worker->client->servers_count || !stride || stride % NAM_GADDR_UNIT_BYTES)
		return nam_diag_set(&worker->diag, -EINVAL,
			"there is no server %u, or %u bytes is not a multiple of %u", slot, stride,
			NAM_GADDR_UNIT_BYTES);
	/* The blocks of a server that is gone are of no use, even if we have some. */
	if (!worker->qps[slot])
		return nam_diag_set(&worker->diag, -NAM_E_FABRIC_PEER_DEAD,
			"the memory server at %s is gone, or the way there was cut; connect anew",
			worker->client->servers[slot].address);
	class = class_get(worker, slot, stride);
	if (!class)
		return -ENOMEM;
	while (class_empty(class)) {
		rc = class_refill(worker, slot, stride, class); /* SUSPENDS */
		if (rc)
			return rc;
	}
	*ret_at = class_pop(class, stride);
	return 0;
}

/* ---- round robin -------------------------------------------------------------------------- */

/* Whether a server that was full lately should be passed by this once. */
static bool
skip_full(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	struct class *class = class_find(worker, slot, stride);

	if (!class || !class->skips || !class_empty(class))
		return false;
	class->skips--;
	return true;
}

/* What the regions of a memory server have in all, whatever is in use of it. */
static uint64_t
server_bytes(const struct nam_client *client, uint32_t id)
{
	const struct nam_region *regions = client->regions.blocks[id];
	uint64_t bytes = 0;

	for (uint32_t i = 0; regions && i < NAM_REGIONS_PER_SERVER; i++)
		bytes += regions[i].bytes;
	return bytes;
}

static int
explain_full(struct nam_worker *worker, uint32_t stride, uint32_t dead_count)
{
	const struct nam_client *client = worker->client;
	char dead[48] = "", text[32];
	uint64_t bytes = 0;

	if (dead_count)
		(void)snprintf(dead, sizeof(dead), " (%u of the servers are gone)", dead_count);
	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++)
		bytes += server_bytes(client, i);
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL,
		"no room for a block of %u bytes: the %u memory servers have %s in all%s, and "
		"what was once cut into blocks of another size stays so; start them with more "
		"--memory, add servers, or restart them to begin anew",
		stride, client->servers_count, nam__bytes_text(bytes, text, sizeof(text)), dead);
}

/*
 * Go round from `first`.  Servers that were full lately are passed by at first, and asked only if
 * nobody else has room.
 */
NAM_FIBER_FN static int
alloc_anywhere(struct nam_worker *worker, uint32_t first, uint32_t stride,
	struct nam_gaddr *ret_at)
{
	uint32_t servers_count = worker->client->servers_count;
	bool asked[NAM_SERVERS_MAX] = { false };
	uint32_t dead_count = 0;
	uint64_t reusable = 0;
	int rc = 0;

	for (uint32_t i = 0; i < 2 * servers_count; i++) {
		uint32_t slot = (first + i) % servers_count;

		if (asked[slot] || (i < servers_count && skip_full(worker, slot, stride)))
			continue;
		asked[slot] = true;
		rc = alloc_on(worker, slot, stride, ret_at); /* SUSPENDS */
		if (nam_err_is(rc, NAM_E_FABRIC_PEER_DEAD))
			dead_count++;
		else if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
			return rc;
	}
	if (dead_count == servers_count)
		return rc;
	/* Perhaps nobody can see any more what this worker has retired. */
	if (nam__limbo_advance(worker, &reusable) == 0 && reusable) { /* SUSPENDS */
		for (uint32_t slot = 0; slot < servers_count; slot++) {
			struct class *class = class_find(worker, slot, stride);

			if (!class || class_empty(class) || !worker->qps[slot])
				continue;
			*ret_at = class_pop(class, stride);
			return 0;
		}
	}
	return explain_full(worker, stride, dead_count);
}

static int
explain_full_on(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	const struct nam__server *server = &worker->client->servers[slot];
	char text[32];

	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL,
		"the memory server at %s has no room for a block of %u bytes, and it has to be "
		"there, whatever room others have; of its %s in all, what was once cut into blocks "
		"of another size stays so; start it with more --memory, or restart all of them to "
		"begin anew", server->address, stride,
		nam__bytes_text(server_bytes(worker->client, server->id), text, sizeof(text)));
}

int
nam_alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct nam_gaddr *ret_at)
{
	uint64_t reusable = 0;
	struct class *class;
	int rc = alloc_on(worker, slot, stride, ret_at); /* SUSPENDS */

	if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
		return rc;
	if (nam__limbo_advance(worker, &reusable) == 0 && reusable) { /* SUSPENDS */
		class = class_find(worker, slot, stride);
		if (class && !class_empty(class)) {
			*ret_at = class_pop(class, stride);
			return 0;
		}
	}
	return explain_full_on(worker, slot, stride);
}

int
nam_alloc(struct nam_worker *worker, uint32_t stride, struct nam_gaddr *ret_at)
{
	uint32_t slot = worker->alloc_next;
	struct class *class = class_find(worker, slot, stride);

	worker->alloc_next = slot + 1 < worker->client->servers_count ? slot + 1 : 0;
	if (!class || class_empty(class) || !worker->qps[slot])
		return alloc_anywhere(worker, slot, stride, ret_at); /* SUSPENDS */
	*ret_at = class_pop(class, stride);
	return 0;
}

/* ---- giving back -------------------------------------------------------------------------- */

NAM_FIBER_FN static int
blocks_free(struct nam_worker *worker, uint32_t slot, struct nam_rpc_free_request *request)
{
	uint32_t bytes = (uint32_t)(sizeof(*request) + request->count * sizeof(uint64_t));

	return nam_rpc_call(worker, slot, NAM_RPC_FREE, request, bytes, NULL,
		NULL); /* SUSPENDS */
}

/* Send back recycled blocks, then the run, until at most `keep` are left.  Stops at a failure. */
NAM_FIBER_FN static void
class_return(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct class *class,
	uint32_t keep)
{
	struct nam_rpc_free_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = request ? 0 : -ENOMEM;

	while (!rc && class->recycled_count + class->run_left > keep) {
		uint32_t excess = class->recycled_count + class->run_left - keep;

		request->stride = stride;
		request->count = excess < BLOCKS_PER_FREE ? excess : BLOCKS_PER_FREE;
		for (uint32_t i = 0; i < request->count; i++)
			request->blocks[i] = nam_gaddr_untagged(class_pop(class, stride)).raw;
		class->unsure += request->count;
		rc = blocks_free(worker, slot, request); /* SUSPENDS */
		if (!rc)
			class->unsure -= request->count;
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
}

NAM_FIBER_FN static void
cache_return_but(struct nam_worker *worker, uint32_t allowed, uint32_t keep)
{
	/* Other tasks may add strides while we are suspended: look the stock up each time. */
	for (uint32_t i = 0; worker->block_caches && i < worker->block_caches->count; i++) {
		struct stride_classes strides = worker->block_caches->strides[i];

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			struct class *class = &strides.classes[slot];

			if (class->recycled_count + class->run_left > allowed)
				class_return(worker, slot, strides.stride, class,
					keep); /* SUSPENDS */
		}
	}
}

void
nam__block_cache_return(struct nam_worker *worker)
{
	cache_return_but(worker, 0, 0); /* SUSPENDS */
}

void
nam__block_cache_trim(struct nam_worker *worker)
{
	cache_return_but(worker, 2 * KEEP_MAX, KEEP_MAX); /* SUSPENDS */
}

void
nam__block_cache_bytes(const struct nam_worker *worker, uint64_t *ret_cache, uint64_t *ret_unsure)
{
	const struct nam__block_cache *cache = worker->block_caches;
	uint64_t kept = 0, unsure = 0;

	for (uint32_t i = 0; cache && i < cache->count; i++) {
		uint64_t stride = cache->strides[i].stride;

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			const struct class *class = &cache->strides[i].classes[slot];

			kept += stride * (class->recycled_count + class->run_left);
			unsure += stride * class->unsure;
		}
	}
	*ret_cache = kept;
	*ret_unsure = unsure;
}

void
nam__block_cache_free(struct nam_worker *worker)
{
	struct nam__block_cache *cache = worker->block_caches;

	for (uint32_t i = 0; cache && i < cache->count; i++) {
		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
			free(cache->strides[i].classes[slot].recycled);
		free(cache->strides[i].classes);
	}
	free(cache);
	worker->block_caches = NULL;
}
