/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- remote blocks from a stock that each worker keeps, refilled by one RPC for many.
 *
 * The stock has a shelf for each stride and memory server: blocks that were used before, as a
 * stack, and a run of fresh ones.  Blocks never change their stride, so the shelves never mix.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/compute_internal.h"

#define ASK_MIN 16u
#define ASK_MAX 1024u
#define ASK_BYTES_MAX (1u << 20)
/* A shelf with more than twice as many blocks is trimmed down to this many. */
#define KEEP_MAX 1024u
/* A server that was full is not asked again before so many allocations have passed it by. */
#define FULL_SKIPS 256u
#define BLOCKS_PER_FREE                                                                            \
	((uint32_t)((NAM_RPC_BODY_MAX - sizeof(struct nam_rpc_free_request)) / sizeof(uint64_t)))

struct shelf {
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

struct stride_shelves {
	uint32_t stride;
	struct shelf *shelves;		/* by server slot */
};

struct nam__stock {
	uint32_t count;
	struct stride_shelves strides[];
};

/* ---- shelves ------------------------------------------------------------------------------ */

static struct shelf *
shelf_find(const struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	const struct nam__stock *stock = worker->stocks;

	for (uint32_t i = 0; stock && i < stock->count; i++)
		if (stock->strides[i].stride == stride)
			return &stock->strides[i].shelves[slot];
	return NULL;
}

/* Shelves stay where they are for as long as the worker lives: tasks point to them as they wait. */
static struct shelf *
shelf_get(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	uint32_t count = worker->stocks ? worker->stocks->count : 0;
	uint32_t servers_count = worker->client->servers_count;
	struct shelf *shelves = shelf_find(worker, slot, stride);
	struct nam__stock *stock;

	if (shelves)
		return shelves;
	shelves = calloc(servers_count, sizeof(*shelves));
	if (!shelves)
		return NULL;
	stock = realloc(worker->stocks,
		sizeof(*stock) + (count + 1) * sizeof(struct stride_shelves));
	if (!stock) {
		free(shelves);
		return NULL;
	}
	for (uint32_t i = 0; i < servers_count; i++)
		shelves[i].ask = ASK_MIN;
	stock->strides[count] = (struct stride_shelves){ stride, shelves };
	stock->count = count + 1;
	worker->stocks = stock;
	worker->bytes += sizeof(struct stride_shelves) + servers_count * sizeof(*shelves);
	return &shelves[slot];
}

static bool
shelf_empty(const struct shelf *shelf)
{
	return !shelf->recycled_count && !shelf->run_left;
}

static struct nam_gaddr
shelf_pop(struct shelf *shelf, uint32_t stride)
{
	struct nam_gaddr at;

	if (shelf->recycled_count) {
		at.raw = shelf->recycled[--shelf->recycled_count];
		return nam_gaddr_tagged(at, NAM_BLOCK_RECYCLED);
	}
	at.raw = shelf->run_at;
	shelf->run_at += stride / NAM_GADDR_UNIT_BYTES;
	shelf->run_left--;
	return nam_gaddr_tagged(at, NAM_BLOCK_FRESH);
}

static int
shelf_reserve(struct nam_worker *worker, struct shelf *shelf, uint32_t more)
{
	uint32_t size = shelf->recycled_size ? shelf->recycled_size : 64;
	uint64_t *recycled;

	while (size < shelf->recycled_count + more)
		size *= 2;
	if (size == shelf->recycled_size)
		return 0;
	recycled = realloc(shelf->recycled, size * sizeof(*recycled));
	if (!recycled)
		return -ENOMEM;
	worker->bytes += (size - shelf->recycled_size) * sizeof(*recycled);
	shelf->recycled = recycled;
	shelf->recycled_size = size;
	return 0;
}

void
nam__stock_put(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);
	struct shelf *shelf = region ? shelf_get(worker, region->server, stride) : NULL;

	/* A host without memory cannot even remember the block: then it is lost to the cluster. */
	if (!shelf || shelf_reserve(worker, shelf, 1))
		return;
	shelf->recycled[shelf->recycled_count++] = nam_gaddr_untagged(at).raw;
	shelf->skips = 0;
}

void
nam_free_unseen(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	nam__stock_put(worker, at, stride);
}

/* ---- refilling ---------------------------------------------------------------------------- */

static uint32_t
ask_count(const struct shelf *shelf, uint32_t stride)
{
	uint32_t most = ASK_BYTES_MAX / stride + 1;

	return shelf->ask < most ? shelf->ask : most;
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

/* Ask the server for blocks and put them on the shelf, which is empty. */
NAM_FIBER_FN static int
shelf_ask(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct shelf *shelf)
{
	struct nam_rpc_alloc_request request = { stride, ask_count(shelf, stride) };
	struct nam_rpc_alloc_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	uint32_t reply_bytes = NAM_RPC_BODY_MAX;
	int rc;

	if (!reply)
		return -ENOMEM;
	rc = -NAM_E_REMOTE_FULL;
	if (nam_fault_point("alloc.full"))
		goto give_reply;
	shelf->unsure += request.count;
	rc = nam_rpc_call(worker, slot, NAM_RPC_ALLOC, &request, sizeof(request), reply,
		&reply_bytes); /* SUSPENDS */
	if (!nam_err_is(rc, NAM_E_FABRIC))
		shelf->unsure -= request.count;
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
	rc = shelf_reserve(worker, shelf, reply->count);
	if (rc)
		goto give_reply;
	/* No other task has asked, so there is no run; recycled blocks may have come back. */
	if (reply->run_count) {
		shelf->run_at = reply->run_at;
		shelf->run_left = reply->run_count;
	}
	if (reply->count)
		memcpy(shelf->recycled + shelf->recycled_count, reply->blocks,
			reply->count * sizeof(uint64_t));
	shelf->recycled_count += reply->count;
	shelf->skips = 0;
	if (shelf->ask < ASK_MAX)
		shelf->ask *= 2;
give_reply:
	nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	return rc;
}

/* One task asks; whoever comes meanwhile waits for it and then looks at the shelf again. */
NAM_FIBER_FN static int
shelf_refill(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct shelf *shelf)
{
	struct nam__task *self = worker->current, *task, *next;
	int rc;

	if (shelf->refilling) {
		self->next = shelf->waiters;
		shelf->waiters = self;
		self->pending = 1;
		return nam__task_await(worker); /* SUSPENDS */
	}
	shelf->refilling = true;
	rc = shelf_ask(worker, slot, stride, shelf); /* SUSPENDS */
	shelf->refilling = false;
	if (nam_err_is(rc, NAM_E_REMOTE_FULL))
		shelf->skips = FULL_SKIPS;
	for (task = shelf->waiters; task; task = next) {
		next = task->next;
		task->pending = 0;
		nam__task_ready(worker, task);
	}
	shelf->waiters = NULL;
	return rc;
}

NAM_FIBER_FN static int
alloc_on(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct nam_gaddr *ret_at)
{
	struct shelf *shelf;
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
	shelf = shelf_get(worker, slot, stride);
	if (!shelf)
		return -ENOMEM;
	while (shelf_empty(shelf)) {
		rc = shelf_refill(worker, slot, stride, shelf); /* SUSPENDS */
		if (rc)
			return rc;
	}
	*ret_at = shelf_pop(shelf, stride);
	return 0;
}

/* ---- round robin -------------------------------------------------------------------------- */

/* Whether a server that was full lately should be passed by this once. */
static bool
skip_full(struct nam_worker *worker, uint32_t slot, uint32_t stride)
{
	struct shelf *shelf = shelf_find(worker, slot, stride);

	if (!shelf || !shelf->skips || !shelf_empty(shelf))
		return false;
	shelf->skips--;
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
			struct shelf *shelf = shelf_find(worker, slot, stride);

			if (!shelf || shelf_empty(shelf) || !worker->qps[slot])
				continue;
			*ret_at = shelf_pop(shelf, stride);
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
	struct shelf *shelf;
	int rc = alloc_on(worker, slot, stride, ret_at); /* SUSPENDS */

	if (!nam_err_is(rc, NAM_E_REMOTE_FULL))
		return rc;
	if (nam__limbo_advance(worker, &reusable) == 0 && reusable) { /* SUSPENDS */
		shelf = shelf_find(worker, slot, stride);
		if (shelf && !shelf_empty(shelf)) {
			*ret_at = shelf_pop(shelf, stride);
			return 0;
		}
	}
	return explain_full_on(worker, slot, stride);
}

int
nam_alloc(struct nam_worker *worker, uint32_t stride, struct nam_gaddr *ret_at)
{
	uint32_t slot = worker->alloc_next;
	struct shelf *shelf = shelf_find(worker, slot, stride);

	worker->alloc_next = slot + 1 < worker->client->servers_count ? slot + 1 : 0;
	if (!shelf || shelf_empty(shelf) || !worker->qps[slot])
		return alloc_anywhere(worker, slot, stride, ret_at); /* SUSPENDS */
	*ret_at = shelf_pop(shelf, stride);
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
shelf_return(struct nam_worker *worker, uint32_t slot, uint32_t stride, struct shelf *shelf,
	uint32_t keep)
{
	struct nam_rpc_free_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	int rc = request ? 0 : -ENOMEM;

	while (!rc && shelf->recycled_count + shelf->run_left > keep) {
		uint32_t excess = shelf->recycled_count + shelf->run_left - keep;

		request->stride = stride;
		request->count = excess < BLOCKS_PER_FREE ? excess : BLOCKS_PER_FREE;
		for (uint32_t i = 0; i < request->count; i++)
			request->blocks[i] = nam_gaddr_untagged(shelf_pop(shelf, stride)).raw;
		shelf->unsure += request->count;
		rc = blocks_free(worker, slot, request); /* SUSPENDS */
		if (!rc)
			shelf->unsure -= request->count;
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
}

NAM_FIBER_FN static void
stock_return_but(struct nam_worker *worker, uint32_t allowed, uint32_t keep)
{
	/* Other tasks may add strides while we are suspended: look the stock up each time. */
	for (uint32_t i = 0; worker->stocks && i < worker->stocks->count; i++) {
		struct stride_shelves strides = worker->stocks->strides[i];

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			struct shelf *shelf = &strides.shelves[slot];

			if (shelf->recycled_count + shelf->run_left > allowed)
				shelf_return(worker, slot, strides.stride, shelf,
					keep); /* SUSPENDS */
		}
	}
}

void
nam__stock_return(struct nam_worker *worker)
{
	stock_return_but(worker, 0, 0); /* SUSPENDS */
}

void
nam__stock_trim(struct nam_worker *worker)
{
	stock_return_but(worker, 2 * KEEP_MAX, KEEP_MAX); /* SUSPENDS */
}

void
nam__stock_bytes(const struct nam_worker *worker, uint64_t *ret_stock, uint64_t *ret_unsure)
{
	const struct nam__stock *stock = worker->stocks;
	uint64_t kept = 0, unsure = 0;

	for (uint32_t i = 0; stock && i < stock->count; i++) {
		uint64_t stride = stock->strides[i].stride;

		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++) {
			const struct shelf *shelf = &stock->strides[i].shelves[slot];

			kept += stride * (shelf->recycled_count + shelf->run_left);
			unsure += stride * shelf->unsure;
		}
	}
	*ret_stock = kept;
	*ret_unsure = unsure;
}

void
nam__stock_free(struct nam_worker *worker)
{
	struct nam__stock *stock = worker->stocks;

	for (uint32_t i = 0; stock && i < stock->count; i++) {
		for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
			free(stock->strides[i].shelves[slot].recycled);
		free(stock->strides[i].shelves);
	}
	free(stock);
	worker->stocks = NULL;
}
