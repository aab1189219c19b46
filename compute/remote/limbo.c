/* SPDX-License-Identifier: Apache-2.0 */
/* limbo.c -- retired blocks, until no reader can see them: by the remote clock of epoch.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/sweep_rpc.h"
#include "compute/remote/block_cache.h"
#include "compute/remote/epoch.h"
#include "compute/view/presence.h"

#define LIMBO_PAUSE_NS 2000000ull
#define LIMBO_DUE 512u				/* blocks without a label, */
#define LIMBO_DUE_BYTES (4u << 20)		/* or bytes of them */

struct retired {
	uint64_t at;
	uint64_t label;
	const void *owner;		/* NULL: it goes to the block cache */
	uint32_t stride;
	bool owned;			/* the memory server knows that it is this client's */
	bool lost;			/* it could not be owned */
};

/* Labels only grow, so reusable blocks are at the front. */
struct nam__limbo {
	struct retired *blocks;		/* labelled ones first, in order */
	uint32_t labelled, count, size;
	uint32_t owned;			/* the first so many are `owned` */
	struct retired *kept;		/* invisible; their owners take them */
	uint32_t kept_count, kept_size;
	uint64_t unlabelled_bytes;
	uint32_t holds;			/* no block gets a label meanwhile */
	bool advancing;			/* a task is at it; others need not */
};

/* Block i of both lists; NULL: there are no more. */
static const struct retired *
block_at(const struct nam__limbo *limbo, uint32_t i)
{
	if (!limbo || i >= limbo->count + limbo->kept_count)
		return NULL;
	return i < limbo->count ? &limbo->blocks[i] : &limbo->kept[i - limbo->count];
}

static struct nam__limbo *
limbo_get(struct nam_worker *worker)
{
	struct nam__limbo *limbo = worker->limbo ?: calloc(1, sizeof(*limbo));

	if (!worker->limbo && limbo) {
		pthread_mutex_lock(&worker->limbo_mutex);
		worker->limbo = limbo;
		pthread_mutex_unlock(&worker->limbo_mutex);
		worker->bytes += sizeof(*limbo);
	}
	return limbo;
}

/* Room for one more. */
static int
list_reserve(struct nam_worker *worker, struct retired **list, uint32_t count, uint32_t *size)
{
	uint32_t wanted = *size ? 2 * *size : 64;
	struct retired *blocks;

	if (count < *size)
		return 0;
	blocks = realloc(*list, wanted * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	worker->bytes += (wanted - *size) * sizeof(*blocks);
	*list = blocks;
	*size = wanted;
	return 0;
}

void
nam__block_leaked(struct nam_client *client, uint32_t stride)
{
	atomic_fetch_add_explicit(&client->limbo_leaked, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&client->bytes_leaked, stride, memory_order_relaxed);
}

static void
retire(struct nam_worker *worker, const void *owner, uint64_t at, uint32_t stride, bool owned)
{
	struct nam__limbo *limbo = limbo_get(worker);
	int rc;

	pthread_mutex_lock(&worker->limbo_mutex);
	rc = limbo ? list_reserve(worker, &limbo->blocks, limbo->count, &limbo->size) : -ENOMEM;
	if (!rc) {
		limbo->blocks[limbo->count++] = (struct retired){ .at = at, .owner = owner,
			.stride = stride, .owned = owned };
		limbo->unlabelled_bytes += stride;
	}
	pthread_mutex_unlock(&worker->limbo_mutex);
	/* If there is nowhere to note it, it must not be reused. */
	if (rc)
		nam__block_leaked(worker->client, stride);
}

void
nam_retire(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	retire(worker, NULL, nam_gaddr_untagged(at).raw, stride, false);
}

void
nam__retire_own(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride)
{
	retire(worker, NULL, nam_gaddr_untagged(at).raw, stride, true);
}

/* The caller holds the mutex. */
static void
limbo_keep(struct nam_worker *worker, struct nam__limbo *limbo, const struct retired *block)
{
	if (list_reserve(worker, &limbo->kept, limbo->kept_count, &limbo->kept_size))
		nam__block_leaked(worker->client, block->stride);
	else
		limbo->kept[limbo->kept_count++] = *block;
}

void
nam__retire_kept(struct nam_worker *worker, const void *owner, struct nam_gaddr at, uint32_t stride)
{
	retire(worker, owner, at.raw, stride, false);
}

/*
 * Give all unlabelled blocks the present time, and advance the clock.
 *
 * C9: the label is exact.  The WRITE that unlinked a block completed before nam_retire(), and so
 * before the FETCH_ADD, which returns E.  A client that publishes more than E has read the word
 * later.  The operations that it vouches for began later still, and none reaches the block.  A
 * client that read E or less may have such operations, so a slot of E still counts.
 */
NAM_FIBER_FN static int
limbo_label(struct nam_worker *worker, struct nam__limbo *limbo)
{
	/* Blocks that other tasks add meanwhile were perhaps unlinked after the FETCH_ADD. */
	uint32_t upto = limbo->count;
	uint64_t epoch;
	int rc;

	if (limbo->labelled == upto || limbo->holds)
		return 0;
	rc = nam__epoch_add(worker, 1, &epoch); /* SUSPENDS */
	if (rc)
		return rc;
	for (; limbo->labelled < upto; limbo->labelled++) {
		limbo->blocks[limbo->labelled].label = epoch;
		limbo->unlabelled_bytes -= limbo->blocks[limbo->labelled].stride;
	}
	return 0;
}

int
nam__epoch_oldest(struct nam_worker *worker, uint64_t *ret_epoch, uint16_t *ret_client)
{
	const uint32_t bytes = 8u * NAM_CLIENTS_MAX;
	uint64_t *slots = nam_buffer_take(worker, bytes);
	uint16_t oldest = worker->client->id;
	int rc;

	if (!slots)
		return -ENOMEM;
	/* A client with a slot of 0 begins its first operation after its WRITE, so after this. */
	rc = nam_read_await(worker, worker->client->epoch_slots, slots, bytes); /* SUSPENDS */
	if (rc)
		goto give_slots;
	if (!slots[oldest]) {
		rc = nam_diag_set(&worker->diag, -NAM_E_FENCED,
			"the memory servers have declared this client (%u) dead; connect anew",
			worker->client->id);
		goto give_slots;
	}
	for (uint16_t i = 0; i < NAM_CLIENTS_MAX; i++) {
		int64_t ahead = slots[i] ? nam_epoch_ahead(slots[oldest], slots[i]) : -1;

		/* If several are oldest, not this client: it is at work, and others may not be. */
		if (ahead > 0 || (!ahead && oldest == worker->client->id))
			oldest = i;
	}
	*ret_epoch = slots[oldest];
	*ret_client = oldest;
give_slots:
	nam_buffer_give(worker, slots, bytes);
	return rc;
}

bool
nam__limbo_take(struct nam_worker *worker, const void *owner, struct nam_gaddr *ret_at)
{
	struct nam__limbo *limbo = worker->limbo;

	for (uint32_t i = limbo ? limbo->kept_count : 0; i > 0; i--) {
		struct retired *block = &limbo->kept[i - 1];

		if (block->owner != owner)
			continue;
		ret_at->raw = block->at;
		pthread_mutex_lock(&worker->limbo_mutex);
		*block = limbo->kept[--limbo->kept_count];
		pthread_mutex_unlock(&worker->limbo_mutex);
		return true;
	}
	return false;
}

void
nam__limbo_give_back(struct nam_worker *worker, const void *owner, struct nam_gaddr at,
	uint32_t stride)
{
	const struct retired block = { .at = at.raw, .owner = owner, .stride = stride };
	struct nam__limbo *limbo = worker->limbo;
	uint32_t last = limbo->kept_count;

	pthread_mutex_lock(&worker->limbo_mutex);
	limbo_keep(worker, limbo, &block);
	/* The last is taken first, so this one goes to the front. */
	if (limbo->kept_count > last) {
		limbo->kept[last] = limbo->kept[0];
		limbo->kept[0] = block;
	}
	pthread_mutex_unlock(&worker->limbo_mutex);
}

/* Own labelled blocks of one memory server from `first` on, as many as one message holds. */
NAM_FIBER_FN static void
some_own(struct nam_worker *worker, struct nam__limbo *limbo, uint32_t first)
{
	struct nam_rpc_sweep_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam_gaddr at = { limbo->blocks[first].at };
	uint16_t slot = nam__server_slot(worker->client, at);
	int rc = request && slot < worker->client->servers_count ? 0 : -ENOMEM;
	struct nam_rpc_sweep_reply reply;
	uint32_t end = first + 1, bytes = sizeof(reply);

	if (!rc) {
		*request = (struct nam_rpc_sweep_request){ .step = NAM_RPC_SWEEP_OWN };
		for (end = first; end < limbo->labelled &&
			request->count < NAM_RPC_SWEEP_BLOCKS; end++) {
			at.raw = limbo->blocks[end].at;
			if (!limbo->blocks[end].owned &&
				nam__server_slot(worker->client, at) == slot)
				request->words[request->count++] = nam_gaddr_untagged(at).raw;
		}
		rc = nam_rpc_call(worker, slot, NAM_RPC_SWEEP, request,
			(uint32_t)(sizeof(*request) + request->count * sizeof(uint64_t)), &reply,
			&bytes); /* SUSPENDS */
	}
	for (uint32_t i = first; i < end; i++) {
		struct retired *block = &limbo->blocks[i];

		at.raw = block->at;
		if (block->owned || nam__server_slot(worker->client, at) != slot)
			continue;
		block->owned = true;
		block->lost = rc != 0;
	}
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
}

/* C9: no reader can see it any more.  That also holds for a block whose owner acts first. */
static bool
is_unseen(const struct retired *block, uint64_t oldest)
{
	bool waits = block->owner ? NAM_GUARD(ENTRY_WAIT) : NAM_GUARD(EPOCH_WAIT);

	return !waits || nam_epoch_ahead(oldest, block->label) > 0;
}

/* Blocks that no reader can see any more go to the block cache, or wait for their owners. */
static uint64_t
limbo_release(struct nam_worker *worker, struct nam__limbo *limbo, uint64_t oldest)
{
	uint32_t count = 0;

	while (count < limbo->labelled && is_unseen(&limbo->blocks[count], oldest))
		count++;
	pthread_mutex_lock(&worker->limbo_mutex);
	for (uint32_t i = 0; i < count; i++) {
		const struct retired *block = &limbo->blocks[i];

		if (block->lost)
			nam__block_leaked(worker->client, block->stride);
		else if (block->owner)
			limbo_keep(worker, limbo, block);
		else
			nam_free_unseen(worker, NAM_GADDR(block->at), block->stride);
	}
	limbo->labelled -= count;
	limbo->owned -= limbo->owned < count ? limbo->owned : count;
	limbo->count -= count;
	memmove(limbo->blocks, limbo->blocks + count, limbo->count * sizeof(*limbo->blocks));
	pthread_mutex_unlock(&worker->limbo_mutex);
	return count;
}

uint32_t
nam__limbos_addresses(struct nam_client *client, uint64_t *ret_at, uint32_t max)
{
	const struct retired *block;
	struct nam_worker *worker;
	uint32_t count = 0;

	pthread_mutex_lock(&client->mutex);
	SLIST_FOREACH(worker, &client->workers, link) {
		pthread_mutex_lock(&worker->limbo_mutex);
		for (uint32_t i = 0; (block = block_at(worker->limbo, i)); i++, count++)
			if (count < max)
				ret_at[count] = block->at;
		pthread_mutex_unlock(&worker->limbo_mutex);
	}
	pthread_mutex_unlock(&client->mutex);
	return count;
}

bool
nam__limbo_waits(const struct nam_worker *worker)
{
	return worker->limbo && worker->limbo->count;
}

void
nam__labels_hold(struct nam_worker *worker)
{
	struct nam__limbo *limbo = limbo_get(worker);

	/* Without a limbo, blocks are lost instead of labelled: see retire(). */
	if (limbo)
		limbo->holds++;
}

void
nam__labels_release(struct nam_worker *worker)
{
	if (worker->limbo && worker->limbo->holds)
		worker->limbo->holds--;
}

bool
nam__limbo_due(const struct nam_worker *worker)
{
	const struct nam__limbo *limbo = worker->limbo;

	return limbo && !limbo->advancing && !limbo->holds &&
		(limbo->count - limbo->labelled >= LIMBO_DUE ||
		limbo->unlabelled_bytes >= LIMBO_DUE_BYTES);
}

int
nam__limbo_advance(struct nam_worker *worker, uint64_t *ret_reusable)
{
	struct nam__limbo *limbo = worker->limbo;
	uint64_t oldest = 0, reusable = 0;
	uint16_t client;
	int rc = 0;

	if (!limbo || !limbo->count || limbo->advancing)
		goto done;
	limbo->advancing = true;
	rc = limbo_label(worker, limbo); /* SUSPENDS */
	/* C26: this client is to use them again, so they are its own from now on. */
	for (; limbo->owned < limbo->labelled && NAM_GUARD(SWEEP_OWN); limbo->owned++)
		if (!limbo->blocks[limbo->owned].owned)
			some_own(worker, limbo, limbo->owned); /* SUSPENDS */
	nam_race_point("limbo.labelled");
	if (!rc)
		rc = nam__epoch_oldest(worker, &oldest, &client); /* SUSPENDS */
	if (!rc)
		reusable = limbo_release(worker, limbo, oldest);
	nam_race_point("limbo.released");
	limbo->advancing = false;
	if (reusable)
		nam__block_cache_return(worker, NAM__BLOCKS_KEPT); /* SUSPENDS */
done:
	if (!rc)
		*ret_reusable = reusable;
	return rc;
}

int
nam__epoch_blame(struct nam_worker *worker, uint16_t id, uint64_t waited_ns, struct nam_diag *why)
{
	struct nam_rpc_client_state_reply client;

	if (nam__client_state_query(worker, id, 0, &client)) /* SUSPENDS */
		client.state = NAM_CLIENT_UNKNOWN;
	if (client.state == NAM_CLIENT_UNKNOWN)
		client = (struct nam_rpc_client_state_reply){ .name = "unknown" };
	return nam_diag_set(why, -NAM_E_LOCK_TIMEOUT, "client %u (%s, pid %llu) has not looked at "
		"the epoch for %llu ms: it is stopped, slow or in a long operation. Let it go on "
		"or end it", id, client.name, (unsigned long long)client.pid,
		(unsigned long long)waited_ns / 1000000);
}

/* Blocks of the first one's stride and server go back for later; their stride becomes 0. */
NAM_FIBER_FN static int
some_free_later(struct nam_worker *worker, struct retired *blocks, uint32_t count)
{
	const uint32_t bytes = NAM_RPC_BODY_MAX, stride = blocks->stride;
	struct nam_rpc_free_request *request = nam_buffer_take(worker, bytes);
	struct nam_client *client = worker->client;
	uint16_t slot = nam__server_slot(client, (struct nam_gaddr){ blocks->at });
	int rc = request && slot < client->servers_count ? 0 : -ENOMEM;

	if (rc) {
		nam__block_leaked(client, stride);
		blocks->stride = 0;
		goto give_request;
	}
	request->stride = stride;
	request->count = 0;
	for (uint32_t i = 0; i < count && request->count < NAM__BLOCKS_PER_FREE; i++) {
		struct nam_gaddr at = { blocks[i].at };

		if (blocks[i].stride != stride || blocks[i].owner ||
			nam__server_slot(client, at) != slot)
			continue;
		request->label = blocks[i].label;
		request->blocks[request->count++] = at.raw;
		blocks[i].stride = 0;
	}
	rc = nam_rpc_call(worker, slot, NAM_RPC_FREE, request,
		(uint32_t)(sizeof(*request) + request->count * sizeof(uint64_t)), NULL,
		NULL); /* SUSPENDS */
	if (!rc)
		atomic_fetch_add_explicit(&client->blocks_waiting, request->count,
			memory_order_relaxed);
	/* Without an answer it is not known what became of them. */
	for (uint32_t i = 0; rc && i < request->count; i++) {
		nam__block_leaked(client, nam_err_is(rc, NAM_E_FABRIC) ? 0 : stride);
		atomic_fetch_add_explicit(&client->bytes_unsure,
			nam_err_is(rc, NAM_E_FABRIC) ? stride : 0, memory_order_relaxed);
	}
give_request:
	nam_buffer_give(worker, request, bytes);
	return rc;
}

/* Memory servers keep the labelled blocks that are left until no reader can see them. */
NAM_FIBER_FN static void
limbo_free_later(struct nam_worker *worker, struct nam__limbo *limbo, uint64_t waited_ns)
{
	struct nam_client *client = worker->client;
	struct nam_diag why = { "" };
	uint64_t epoch;
	uint16_t id;
	int rc = 0;

	for (uint32_t i = 0; i < limbo->labelled && !rc; i++)
		if (limbo->blocks[i].stride && !limbo->blocks[i].owner)
			rc = some_free_later(worker, &limbo->blocks[i],
				limbo->labelled - i); /* SUSPENDS */
	if (!nam__epoch_oldest(worker, &epoch, &id)) /* SUSPENDS */
		(void)nam__epoch_blame(worker, id, waited_ns, &why); /* SUSPENDS */
	pthread_mutex_lock(&client->mutex);
	client->waiting_diag = why;
	pthread_mutex_unlock(&client->mutex);
}

void
nam__limbo_free(struct nam_worker *worker)
{
	struct nam__limbo *limbo = worker->limbo;
	const struct retired *block;
	uint64_t began = nam_now_ns(), reusable;
	uint64_t deadline = began + worker->client->options.timeout_ms * 1000000ull;
	int rc = 0;

	if (!limbo)
		return;
	while (limbo->count) {
		rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
		if (rc || nam_now_ns() >= deadline)
			break;
		/* The epoch threads of all clients have to advance their slots first. */
		if (limbo->count)
			nam_sleep_ns(LIMBO_PAUSE_NS);
	}
	if (!rc && limbo->count)
		limbo_free_later(worker, limbo, nam_now_ns() - began); /* SUSPENDS */
	for (uint32_t i = 0; (block = block_at(limbo, i)); i++)
		if (block->stride)
			nam__block_leaked(worker->client, block->stride);
	pthread_mutex_lock(&worker->limbo_mutex);
	worker->limbo = NULL;
	pthread_mutex_unlock(&worker->limbo_mutex);
	free(limbo->kept);
	free(limbo->blocks);
	free(limbo);
}

uint64_t
nam__limbo_bytes(const struct nam_worker *worker)
{
	const struct retired *block;
	uint64_t bytes = 0;

	for (uint32_t i = 0; (block = block_at(worker->limbo, i)); i++)
		bytes += block->stride;
	return bytes;
}

bool
nam__limbo_has(const struct nam_worker *worker, const void *owner)
{
	const struct retired *block;

	for (uint32_t i = 0; (block = block_at(worker->limbo, i)); i++)
		if (block->owner == owner)
			return true;
	return false;
}

uint64_t
nam_client_blocks_lost(const struct nam_client *client)
{
	return atomic_load_explicit(&client->limbo_leaked, memory_order_relaxed);
}

uint64_t
nam_client_blocks_waiting(struct nam_client *client, struct nam_diag *ret_why)
{
	pthread_mutex_lock(&client->mutex);
	*ret_why = client->waiting_diag;
	pthread_mutex_unlock(&client->mutex);
	return atomic_load_explicit(&client->blocks_waiting, memory_order_relaxed);
}
