/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/remote/reclaim.h"

#include <string.h>

#include "compute/remote/block_cache.h"
#include "compute/remote/epoch.h"

#define TRIES_MAX 9u			/* each may halve 256 unused regions; */
#define TRIES_READ_ONLY_MAX 256u	/* or make one of them read-only */
#define PAUSE_NS 2000000ull
#define BLAMED_SHARE 16u
#define LIMBO_NS 200000000ull		/* for this worker's retired blocks to become free */

/* Retired and cached blocks go back to servers as far as they can.  Whether a retired one did. */
NAM_FIBER_FN static bool
blocks_return(struct nam_worker *worker)
{
	uint64_t deadline = nam_now_ns() + LIMBO_NS, reusable, all = 0;

	while (nam__limbo_waits(worker)) {
		if (nam__limbo_advance(worker, &reusable)) /* SUSPENDS */
			break;
		all += reusable;
		if (!nam__limbo_waits(worker) || nam_now_ns() >= deadline)
			break;
		nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
	}
	nam__block_cache_return(worker, 0); /* SUSPENDS */
	return all > 0;
}

/* The kind of memory that lacked last. */
static enum nam_memory_kind
kind_wanted(const struct nam_worker *worker)
{
	if (worker->public_full)
		return NAM_MEMORY_PUBLIC;
	return worker->lacks_count ? NAM_MEMORY_READ_ONLY : NAM_MEMORY_PRIVATE;
}

/* Take one step at one server; *batch comes from HOLD.  Add the bytes to the sum. */
NAM_FIBER_FN static int
reclaim_at(struct nam_worker *worker, uint32_t slot, uint64_t oldest, uint64_t *batch,
	struct nam_rpc_reclaim_reply *sum)
{
	enum nam_memory_kind wanted = oldest ? kind_wanted(worker) : 0;
	const struct nam_rpc_reclaim_request request = {
		.step = oldest ? NAM_RPC_RECLAIM_HOLD : NAM_RPC_RECLAIM_RETURN,
		.want = wanted,
		.batch = oldest ? 0 : *batch,
		.oldest = oldest,
		.stride = wanted == NAM_MEMORY_READ_ONLY ? worker->lacks_stride : 0,
		.count = wanted == NAM_MEMORY_READ_ONLY ? worker->lacks_count : 0,
	};
	struct nam_rpc_reclaim_reply reply;
	uint32_t reply_bytes = sizeof(reply);
	int rc = nam_rpc_call(worker, slot, NAM_RPC_RECLAIM, &request, sizeof(request), &reply,
		&reply_bytes); /* SUSPENDS */

	if (rc)
		return rc;
	if (reply_bytes != sizeof(reply))
		return -NAM_E_FABRIC_PROTOCOL;
	*batch = reply.batch;
	sum->bytes += reply.bytes;
	sum->freed_bytes += reply.freed_bytes;
	sum->waiting_bytes += reply.waiting_bytes;
	return 0;
}

/* batches[slot] is 0 where a server holds nothing, or is gone. */
NAM_FIBER_FN static int
hold_at_all(struct nam_worker *worker, uint64_t oldest, uint64_t *batches,
	struct nam_rpc_reclaim_reply *ret_sum)
{
	struct nam_client *client = worker->client;

	memset(ret_sum, 0, sizeof(*ret_sum));
	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		int rc = reclaim_at(worker, slot, oldest, &batches[slot], ret_sum); /* SUSPENDS */

		/* Clients could not learn its regions: their epoch threads would wait for it. */
		if (rc && !atomic_load_explicit(&client->servers[slot].lost, memory_order_acquire))
			return rc;
	}
	return 0;
}

/* Again for a while, as clients may have just gone on.  *ret_freed: blocks became free. */
NAM_FIBER_FN static bool
hold_for(struct nam_worker *worker, uint64_t *batches, bool *ret_freed, struct nam_diag *why,
	int *failure)
{
	uint64_t deadline = nam_now_ns() + LIMBO_NS, oldest;
	struct nam_rpc_reclaim_reply sum;
	uint16_t client;

	for (;;) {
		*failure = nam__epoch_oldest(worker, &oldest, &client); /* SUSPENDS */
		if (!*failure)
			*failure = hold_at_all(worker, oldest, batches, &sum); /* SUSPENDS */
		if (*failure)
			return false;
		*ret_freed |= sum.freed_bytes > 0;
		if (!sum.waiting_bytes)
			break;
		if (nam_now_ns() >= deadline) {
			(void)nam__epoch_blame(worker, client, LIMBO_NS, why); /* SUSPENDS */
			break;
		}
		nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
	}
	return sum.bytes > 0;
}

/* For all clients to forget, as they may be slow; but one that was too slow gets less time. */
static uint64_t
round_ns(struct nam_client *client)
{
	bool blamed;

	pthread_mutex_lock(&client->mutex);
	blamed = client->reclaim_diag.text[0];
	pthread_mutex_unlock(&client->mutex);
	return client->options.timeout_ms * 1000000ull / (blamed ? BLAMED_SHARE : 1);
}

/* C16: begin a generation and wait until all clients have forgotten what was before. */
NAM_FIBER_FN static int
generation_begin(struct nam_worker *worker, struct nam_diag *why)
{
	uint64_t timeout_ns = round_ns(worker->client), word, oldest;
	uint64_t deadline = nam_now_ns() + timeout_ns;
	uint16_t client;
	int rc = nam__epoch_add(worker, NAM_EPOCH_GENERATION, &word); /* SUSPENDS */

	/* 0 is for clusters in which no block has changed its stride: nam__generation(). */
	if (!rc && !((word + NAM_EPOCH_GENERATION) / NAM_EPOCH_GENERATION))
		rc = nam__epoch_add(worker, NAM_EPOCH_GENERATION, &word); /* SUSPENDS */
	nam_race_point("reclaim.generation");
	while (!rc && NAM_GUARD(FORGET_WAIT)) {
		rc = nam__epoch_oldest(worker, &oldest, &client); /* SUSPENDS */
		/* A slot with this word or a later one is of a client that has forgotten. */
		if (rc || nam_epoch_ahead(oldest, word + NAM_EPOCH_GENERATION) >= 0)
			break;
		if (nam_now_ns() >= deadline)
			return nam__epoch_blame(worker, client, timeout_ns, why); /* SUSPENDS */
		nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
	}
	return rc;
}

/* Whether memory came back.  *why stays "" unless a client was in the way; *failure is a code. */
NAM_FIBER_FN static bool
reclaim(struct nam_worker *worker, struct nam_diag *why, int *failure)
{
	uint64_t batches[NAM_SERVERS_MAX] = { 0 };
	bool any = blocks_return(worker); /* SUSPENDS */
	struct nam_rpc_reclaim_reply sum = { 0 };

	if (!hold_for(worker, batches, &any, why, failure)) /* SUSPENDS */
		return any;
	nam_race_point("reclaim.held");
	*failure = generation_begin(worker, why); /* SUSPENDS */
	if (*failure)
		return any;
	/* C16: no client knows an address in these runs.  A silent server keeps them. */
	for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
		if (batches[slot])
			*failure = reclaim_at(worker, slot, 0, &batches[slot],
				&sum) ?: *failure; /* SUSPENDS */
	/* Runs that serve their stride again may be free a moment later.  Tries are counted. */
	return any || !*failure;
}

/*
 * Nothing came back.  If a memory server is gone, the operation has one more try, to say so.  One
 * that ends fences its clients before their connections close.
 */
static bool
server_gone(struct nam_client *client, int failure, unsigned *tries)
{
	bool gone = nam_err_is(failure, NAM_E_FABRIC_PEER_DEAD) || failure == -NAM_E_FENCED;

	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		int lost = atomic_load_explicit(&client->servers[slot].lost, memory_order_acquire);

		gone |= nam_err_is(lost, NAM_E_FABRIC_PEER_DEAD) || lost == -NAM_E_FABRIC_FENCED;
	}
	if (gone)
		*tries = TRIES_READ_ONLY_MAX;
	return gone;
}

/* The message of an operation for which nothing came back: in the way was the client, if any. */
static void
explain(struct nam_worker *worker, const struct nam_diag *full)
{
	struct nam_client *client = worker->client;

	worker->diag = *full;
	pthread_mutex_lock(&client->mutex);
	if (!strstr(full->text, client->reclaim_diag.text))
		(void)nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL, "free memory cannot be used "
			"yet: %s, then try again; until then: %s", client->reclaim_diag.text,
			full->text);
	pthread_mutex_unlock(&client->mutex);
}

/* As nam__memory_reclaim(), for the kind of memory that lacked last. */
NAM_FIBER_FN static bool
last_kind_reclaim(struct nam_worker *worker, unsigned *tries)
{
	struct nam_client *client = worker->client;
	struct nam_diag diag, why = { "" };
	enum nam_memory_kind wanted = kind_wanted(worker);
	bool busy = false, freed;
	int failure = 0;

	if (++*tries > (wanted == NAM_MEMORY_READ_ONLY ? TRIES_READ_ONLY_MAX : TRIES_MAX))
		return false;
	diag = worker->diag;
	if (!atomic_compare_exchange_strong_explicit(&client->reclaiming, &busy, true,
		    memory_order_acquire, memory_order_relaxed)) {
		/* Clients have one round, and memory servers as long as that to answer. */
		uint64_t deadline = nam_now_ns() + 2 * round_ns(client) + LIMBO_NS;

		/* Another task is at it.  If the same memory lacked, its failure is this one's. */
		while (atomic_load_explicit(&client->reclaiming, memory_order_acquire))
			if (nam_now_ns() < deadline)
				nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
			else
				return false;
		freed = !atomic_load_explicit(&client->reclaim_failed[wanted],
			memory_order_relaxed);
		if (!freed)
			explain(worker, &diag);
		return freed || server_gone(client, 0, tries);
	}
	freed = reclaim(worker, &why, &failure); /* SUSPENDS */
	if (freed)
		why.text[0] = '\0';
	pthread_mutex_lock(&client->mutex);
	client->reclaim_diag = why;
	pthread_mutex_unlock(&client->mutex);
	for (uint32_t kind = 0; kind < NAM_MEMORY_KINDS; kind++)
		atomic_store_explicit(&client->reclaim_failed[kind], kind == wanted && !freed,
			memory_order_relaxed);
	/* Release: pairs with the load above. */
	atomic_store_explicit(&client->reclaiming, false, memory_order_release);
	explain(worker, &diag);
	return freed || server_gone(client, failure, tries);
}

bool
nam__memory_reclaim(struct nam_worker *worker, unsigned *tries)
{
	bool freed = last_kind_reclaim(worker, tries); /* SUSPENDS */

	worker->public_full = false;
	worker->lacks_count = 0;
	return freed;
}
