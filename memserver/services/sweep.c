/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- blocks that dead clients allocated and that nothing leads to (M19). */
#include <errno.h>
#include <string.h>

#include "common/guard.h"
#include "common/rpc/sweep_rpc.h"
#include "memserver/services/runs.h"

/* ---- books ----------------------------------------------------------------------------------- */

/* Bits of the blocks of word `word` that are used, and do not wait. */
static uint64_t
used(const struct nam__run *run, uint32_t word)
{
	uint32_t rest = run->count - 64 * word;
	uint64_t all = rest < 64 ? (1ull << rest) - 1 : UINT64_MAX;

	return all & ~(run->bits[word].free | run->bits[word].waiting);
}

/* Calls fn for each word of blocks that a client may have allocated, until it fails. */
static int
words_each(struct nam__allocator *allocator,
	int (*fn)(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg),
	void *arg)
{
	int rc = 0;

	for (uint32_t i = 0; i < allocator->regions_count; i++) {
		const struct nam__alloc_region *region = &allocator->regions[i];

		if (region->kind != NAM_MEMORY_PUBLIC)
			continue;
		for (uint32_t k = 0; k < region->runs_count; k++)
			for (uint32_t word = 0; !rc && word < (region->runs[k]->count + 63) / 64;
				word++)
				rc = fn(allocator, region->runs[k], word, arg);
	}
	return rc;
}

static void
count_add(struct nam_rpc_sweep_reply *reply, const struct nam__run *run, uint64_t blocks)
{
	uint32_t count = (uint32_t)__builtin_popcountll(blocks);

	reply->blocks += count;
	reply->bytes += (uint64_t)count * run->stride;
}

static int
suspect_all(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	int rc = nam__run_reserve(run);

	(void)allocator;
	if (rc)
		return rc;
	run->bits[word].suspect = nam_stride_is_of_nodes(run->stride) ? used(run, word) : 0;
	count_add(arg, run, run->bits[word].suspect);
	return 0;
}

struct sparing {
	const uint64_t *living;
	struct nam_rpc_sweep_reply *reply;
};

static int
spare(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	const struct sparing *sparing = arg;

	(void)allocator;
	if (word >= run->words)
		return 0;
	for (uint64_t left = run->bits[word].suspect; left; left &= left - 1) {
		uint32_t bit = (uint32_t)__builtin_ctzll(left);
		uint16_t owner = run->owners[64 * word + bit];

		/* M19: a client that lives may still make a way to it. */
		if (!owner || (NAM_GUARD(SWEEP_OWNER) &&
			(sparing->living[owner / 64] >> owner % 64 & 1)))
			run->bits[word].suspect &= ~(1ull << bit);
	}
	count_add(sparing->reply, run, run->bits[word].suspect);
	return 0;
}

struct ending {
	uint64_t label;
	struct nam_rpc_sweep_reply *reply;
};

static int
end_suspects(struct nam__allocator *allocator, struct nam__run *run, uint32_t word, void *arg)
{
	const struct ending *ending = arg;
	uint64_t blocks = word < run->words ? run->bits[word].suspect : 0;

	if (!blocks)
		return 0;
	run->bits[word].suspect = 0;
	count_add(ending->reply, run, blocks);
	if (ending->label)
		nam__run_wait(allocator, run, word, blocks, ending->label);
	return 0;
}

/* Blocks are named by any address in them.  Those of other kinds of memory are no client's. */
static int
mark(struct nam__allocator *allocator, uint64_t raw, uint16_t owner)
{
	struct nam_gaddr at = { raw };
	uint32_t index = (uint32_t)nam_gaddr_region(at) - allocator->first_region_id;
	const struct nam__alloc_region *region;
	struct nam__run *run;
	uint32_t number;

	if (index >= allocator->regions_count)
		return -NAM_E_FABRIC_PROTOCOL;
	region = &allocator->regions[index];
	number = nam__run_find(region, nam_gaddr_offset(at));
	run = number == UINT32_MAX ? NULL : region->runs[number];
	if (!run || !run->stride || region->kind != NAM_MEMORY_PUBLIC)
		return owner ? -NAM_E_FABRIC_PROTOCOL : 0;
	number = (uint32_t)((nam_gaddr_offset(at) - run->offset) / run->stride);
	if (owner && nam__run_reserve(run))
		return -ENOMEM;
	if (number / 64 >= run->words)
		return 0;
	if (owner && !(used(run, number / 64) >> number % 64 & 1))
		return -NAM_E_FABRIC_PROTOCOL;
	if (owner)
		run->owners[number] = owner;
	run->bits[number / 64].suspect &= ~(1ull << number % 64);
	return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int
begin(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct nam__allocator *allocator = &exchange->server->allocator;

	allocator->sweep = request->number;
	return words_each(allocator, suspect_all, reply);
}

static int
spare_living(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct sparing sparing = { request->words, reply };

	return words_each(&exchange->server->allocator, spare, &sparing);
}

static int
mark_all(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	uint16_t owner = request->step == NAM_RPC_SWEEP_OWN ? exchange->connection->client_id : 0;
	int rc = 0;

	(void)reply;
	if (request->step == NAM_RPC_SWEEP_OWN && !owner)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count && !rc; i++)
		rc = mark(&exchange->server->allocator, request->words[i], owner);
	return rc;
}

static int
end(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct ending ending = { request->label, reply };

	exchange->server->allocator.sweep = 0;
	return words_each(&exchange->server->allocator, end_suspects, &ending);
}

static int
living(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	const struct nam__membership *membership = &exchange->server->membership;

	(void)request;
	reply->killed = membership->killed;
	reply->count = NAM_SWEEP_LIVING_WORDS;
	memset(reply->words, 0, NAM_SWEEP_LIVING_WORDS * sizeof(reply->words[0]));
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX; id++) {
		reply->words[id / 64] |= (uint64_t)nam__member_lives(membership, id) << id % 64;
		if (membership->members[id].state == NAM_CLIENT_FENCING)
			reply->client = id;
	}
	return 0;
}

/* One that is FENCING has no more to report: what is in its limbo is lost with it. */
static int
report(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	struct nam__membership *membership = &exchange->server->membership;

	reply->killed = membership->killed;
	membership->sweep = request->number;
	__atomic_store_n(membership->sweep_word, request->number, __ATOMIC_SEQ_CST);
	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && !reply->client; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE || member->swept == request->number)
			continue;
		reply->client = id;
		reply->incarnation = member->incarnation;
	}
	return 0;
}

static int
acknowledge(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *reply)
{
	const struct nam__connection *connection = exchange->connection;

	(void)reply;
	if (!connection->session)
		return -NAM_E_FABRIC_PROTOCOL;
	exchange->server->membership.members[connection->client_id].swept = request->number;
	return 0;
}

static const struct step {
	/* Under the mutex of the books; or, at the lead, of the members. */
	int (*fn)(struct nam__exchange *exchange, const struct nam_rpc_sweep_request *request,
		struct nam_rpc_sweep_reply *reply);
	enum nam_role role;
	uint32_t count_min, count_max;		/* words */
	bool lead, numbered, goes_on;
} steps[] = {
	[NAM_RPC_SWEEP_BEGIN] = { begin, NAM_ROLE_ADMIN, 0, 0, false, true, false },
	[NAM_RPC_SWEEP_LIVING] = { living, NAM_ROLE_ADMIN, 0, 0, true, false, false },
	[NAM_RPC_SWEEP_SPARE] = { spare_living, NAM_ROLE_ADMIN, NAM_SWEEP_LIVING_WORDS,
		NAM_SWEEP_LIVING_WORDS, false, true, true },
	[NAM_RPC_SWEEP_MARK] = { mark_all, NAM_ROLE_WRITE, 1, NAM_RPC_SWEEP_BLOCKS, false, false,
		false },
	[NAM_RPC_SWEEP_OWN] = { mark_all, NAM_ROLE_WRITE, 1, NAM_RPC_SWEEP_BLOCKS, false, false,
		false },
	[NAM_RPC_SWEEP_REPORT] = { report, NAM_ROLE_ADMIN, 0, 0, true, true, false },
	[NAM_RPC_SWEEP_ACK] = { acknowledge, NAM_ROLE_READ, 0, 0, true, true, false },
	[NAM_RPC_SWEEP_END] = { end, NAM_ROLE_ADMIN, 0, 0, false, true, true },
};

int
nam__service_sweep(struct nam__exchange *exchange)
{
	const struct nam_rpc_sweep_request *request = exchange->body;
	struct nam__allocator *allocator = &exchange->server->allocator;
	struct nam_rpc_sweep_reply *reply = exchange->reply;
	const struct step *step;
	pthread_mutex_t *mutex;
	int rc;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	step = &steps[request->step];
	if (step->lead && exchange->server->options.id != 0)
		return -NAM_E_CLUSTER;
	if ((step->role >= NAM_ROLE_WRITE && !nam__may_change(exchange->connection)) ||
		(step->role >= NAM_ROLE_ADMIN && !nam__is_admin(exchange)))
		return -NAM_E_FABRIC_DENIED;
	if (request->count < step->count_min || request->count > step->count_max ||
		exchange->body_bytes != sizeof(*request) + request->count * sizeof(uint64_t) ||
		!request->number == step->numbered ||
		(request->label && request->step != NAM_RPC_SWEEP_END))
		return -NAM_E_FABRIC_PROTOCOL;
	memset(reply, 0, sizeof(*reply));
	mutex = step->lead ? &exchange->server->membership.mutex : &allocator->mutex;
	pthread_mutex_lock(mutex);
	rc = step->goes_on && request->number != allocator->sweep ? -EAGAIN :
		step->fn(exchange, request, reply);
	pthread_mutex_unlock(mutex);
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + reply->count * sizeof(uint64_t));
	return rc;
}
