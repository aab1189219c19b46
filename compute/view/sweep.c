/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- the steps of a sweep, and the report that each client makes for it (C26). */
#include "sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/race.h"
#include "compute/remote/epoch.h"
#include "compute/remote/lock.h"

#define PAUSE_NS 10000000ull		/* a tick of an epoch thread; */
#define PAUSE_NS_MAX 160000000ull	/* and longer when it takes longer */
#define SWEEPER_AT (NAM_META_SWEEPER_OFFSET - NAM_META_EPOCH_OFFSET)

/* ---- one sweeper -------------------------------------------------------------------------- */

int
nam__sweeper_enter(struct nam_worker *worker, uint64_t *ret_word)
{
	uint64_t dead;
	int rc = nam__owner_word_enter(worker, worker->client->epoch_word, SWEEPER_AT,
		worker->client->options.timeout_ms * 1000000ull, ret_word, &dead); /* SUSPENDS */
	struct nam_diag said = worker->diag;

	return rc != -NAM_E_LOCK_TIMEOUT ? rc : nam_diag_set(&worker->diag, rc,
		"one client at a time sweeps: %s", said.text);
}

void
nam__sweeper_leave(struct nam_worker *worker, uint64_t word)
{
	(void)!nam__owner_word_leave(worker, worker->client->epoch_word, SWEEPER_AT,
		word); /* SUSPENDS */
}

/* ---- requests ------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
ask(struct nam_worker *worker, uint32_t slot, const struct nam_rpc_sweep_request *request,
	struct nam_rpc_sweep_reply *ret_reply, uint32_t words)
{
	uint32_t expected = (uint32_t)(sizeof(*ret_reply) + words * sizeof(uint64_t));
	uint32_t bytes = expected;
	int rc = nam_rpc_call(worker, slot, NAM_RPC_SWEEP, request,
		(uint32_t)(sizeof(*request) + request->count * sizeof(uint64_t)), ret_reply,
		&bytes); /* SUSPENDS */

	return rc ? rc : bytes == expected && ret_reply->count == words ? 0 :
		-NAM_E_FABRIC_PROTOCOL;
}

static void
sum_add(struct nam_blocks *sum, uint64_t blocks, uint64_t bytes)
{
	sum->blocks += blocks;
	sum->bytes += bytes;
}

/* Take one step at a memory server, slice by slice; add what it replies. */
NAM_FIBER_FN static int
ask_slices(struct nam_worker *worker, uint32_t slot, struct nam_rpc_sweep_request *request,
	struct nam__swept *sum)
{
	uint64_t body[sizeof(struct nam_rpc_sweep_reply) / 8 + 1];
	struct nam_rpc_sweep_reply *reply = (void *)body;
	const uint32_t count = request->count;
	int rc;

	do {
		rc = ask(worker, slot, request, reply, 1); /* SUSPENDS */
		if (rc)
			break;
		sum_add(&sum->suspect, reply->blocks, reply->bytes);
		sum_add(&sum->used, reply->used_blocks, reply->used_bytes);
		sum_add(&sum->named, reply->named_blocks, reply->named_bytes);
		sum->objects += reply->objects;
		sum->objects_bytes += reply->objects_bytes;
		sum->objects_used_bytes += reply->objects_used_bytes;
		sum->objects_named_bytes += reply->objects_named_bytes;
		request->words[count] = reply->words[0];
		request->count = count + 1;
	} while (reply->words[0]);
	request->count = count;
	return rc;
}

/*
 * Take a step at all memory servers that the sweep has begun at; *ret_sum is of their replies.
 *
 * @words	NAM_SWEEP_LIVING_WORDS that the request has; or NULL: none
 */
NAM_FIBER_FN static int
ask_all(struct nam__sweep *sweep, enum nam_rpc_sweep_step step, uint64_t label,
	const uint64_t *words, struct nam__swept *ret_sum, struct nam_diag *diag)
{
	const struct nam_client *client = sweep->worker->client;
	/* The last word is for the slices. */
	uint64_t body[sizeof(struct nam_rpc_sweep_request) / 8 + NAM_SWEEP_LIVING_WORDS + 1];
	struct nam_rpc_sweep_request *request = (void *)body;
	int rc = 0;

	*ret_sum = (struct nam__swept){ 0 };
	*request = (struct nam_rpc_sweep_request){ .step = step, .number = sweep->number,
		.label = label };
	for (uint32_t i = 0; words && i < NAM_SWEEP_LIVING_WORDS; i++)
		request->words[request->count++] = words[i];
	for (uint32_t slot = 0; slot < client->servers_count && !rc; slot++) {
		const struct nam__server *server = &client->servers[slot];

		if (!sweep->begun[slot])
			continue;
		rc = ask_slices(sweep->worker, slot, request, ret_sum); /* SUSPENDS */
		if (rc == -EAGAIN)
			return nam_diag_set(diag, rc, "another sweep has begun, or the memory "
				"of the memory server at %s has moved; sweep again",
				server->address);
		if (rc)
			return nam_diag_set(diag, rc, "the memory server at %s: %s",
				server->address, nam_err_text(rc));
	}
	return rc;
}

/* Which clients are not dead. */
NAM_FIBER_FN static int
living_query(struct nam_worker *worker, uint64_t ret_living[NAM_SWEEP_LIVING_WORDS],
	struct nam_diag *diag)
{
	const struct nam_rpc_sweep_request request = { .step = NAM_RPC_SWEEP_LIVING };
	uint64_t body[sizeof(struct nam_rpc_sweep_reply) / 8 + NAM_SWEEP_LIVING_WORDS];
	struct nam_rpc_sweep_reply *reply = (void *)body;
	int rc = ask(worker, worker->client->catalog_slot, &request, reply,
		NAM_SWEEP_LIVING_WORDS); /* SUSPENDS */

	if (rc)
		return nam_diag_set(diag, rc, "the lead does not say which clients live: %s",
			nam_err_text(rc));
	memcpy(ret_living, reply->words, NAM_SWEEP_LIVING_WORDS * sizeof(uint64_t));
	return 0;
}

/* Asked after BEGIN: blocks of clients that come later are not suspect. */
NAM_FIBER_FN static int
spare_living(struct nam__sweep *sweep, struct nam_diag *diag)
{
	uint64_t living[NAM_SWEEP_LIVING_WORDS];
	struct nam__swept all;
	int rc = living_query(sweep->worker, living, diag); /* SUSPENDS */

	nam_race_point("sweep.living");
	/* C26: if a client was FENCING, its transactions have not been completed. */
	for (uint32_t i = 0; i < NAM_SWEEP_LIVING_WORDS && !rc && NAM_GUARD(SWEEP_FENCING); i++)
		living[i] |= sweep->living[i];
	return rc ?: ask_all(sweep, NAM_RPC_SWEEP_SPARE, 0, living, &all, diag); /* SUSPENDS */
}

/* C26: all operations that are under way have ended. */
NAM_FIBER_FN static int
operations_wait(struct nam_worker *worker, struct nam_diag *diag)
{
	uint64_t timeout_ns = worker->client->options.timeout_ms * 1000000ull;
	uint64_t deadline = nam_now_ns() + timeout_ns, pause_ns = PAUSE_NS, label, oldest;
	uint16_t client;
	int rc = nam__epoch_add(worker, 1, &label); /* SUSPENDS */

	while (!rc) {
		rc = nam__epoch_oldest(worker, &oldest, &client); /* SUSPENDS */
		if (rc || nam_epoch_ahead(oldest, label) > 0)
			break;
		if (nam_now_ns() >= deadline)
			return nam__epoch_blame(worker, client, timeout_ns, diag); /* SUSPENDS */
		nam__pause_await(worker, pause_ns); /* SUSPENDS */
		pause_ns = pause_ns < PAUSE_NS_MAX ? 2 * pause_ns : PAUSE_NS_MAX;
	}
	return rc;
}

int
nam__sweep_open(struct nam__sweep *sweep, struct nam_worker *worker, bool dry,
	struct nam_diag *diag)
{
	*sweep = (struct nam__sweep){ .worker = worker, .dry = dry, .number = nam_entropy() | 1 };
	return living_query(worker, sweep->living, diag); /* SUSPENDS */
}

int
nam__sweep_begin(struct nam__sweep *sweep, struct nam_blocks *ret_used, struct nam_diag *diag)
{
	const struct nam_client *client = sweep->worker->client;
	struct nam__swept all;
	int rc = 0;

	/* C26: an operation may know a version of a dead client that it will commit. */
	if (NAM_GUARD(SWEEP_BARRIER))
		rc = operations_wait(sweep->worker, diag); /* SUSPENDS */
	/* Nothing is allocated at a member before it is UP. */
	for (uint32_t slot = 0; slot < client->servers_count; slot++)
		sweep->begun[slot] = atomic_load_explicit(&client->servers[slot].usable,
			memory_order_acquire);
	if (!rc)
		rc = ask_all(sweep, NAM_RPC_SWEEP_BEGIN, 0, NULL, &all, diag); /* SUSPENDS */
	if (!rc)
		*ret_used = all.suspect;
	return rc ? rc : spare_living(sweep, diag); /* SUSPENDS */
}

/* ---- marks --------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
marks_send(struct nam_worker *worker, uint32_t slot, struct nam_rpc_sweep_request *marks)
{
	struct nam_rpc_sweep_reply reply;
	int rc = ask(worker, slot, marks, &reply, 0); /* SUSPENDS */

	marks->count = 0;
	return rc;
}

static const enum nam_rpc_sweep_step mark_steps[NAM__SWEEP_MARKS] = {
	[NAM__SWEEP_BLOCKS] = NAM_RPC_SWEEP_MARK,
	[NAM__SWEEP_RECORDS] = NAM_RPC_SWEEP_RECORDS,
	[NAM__SWEEP_OBJECTS] = NAM_RPC_SWEEP_OBJECTS,
};

NAM_FIBER_FN static int
mark_on(struct nam__sweep *sweep, uint32_t slot, enum nam__sweep_marks which, uint64_t word)
{
	struct nam_rpc_sweep_request **marks = &sweep->marks[slot][which];

	/* C26: nothing is suspect at a member that has come later. */
	if (!sweep->begun[slot])
		return 0;
	if (!*marks) {
		*marks = calloc(1, NAM_RPC_BODY_MAX);
		if (!*marks)
			return -ENOMEM;
		(*marks)->step = mark_steps[which];
		(*marks)->number = sweep->number;
		(*marks)->label = which == NAM__SWEEP_RECORDS && !sweep->dry;
	}
	(*marks)->words[(*marks)->count++] = word;
	return (*marks)->count < NAM_RPC_SWEEP_BLOCKS ? 0 :
		marks_send(sweep->worker, slot, *marks); /* SUSPENDS */
}

NAM_FIBER_FN static int
mark(struct nam__sweep *sweep, enum nam__sweep_marks which, struct nam_gaddr at)
{
	uint16_t slot = nam__server_slot(sweep->worker->client, at);

	if (slot >= sweep->worker->client->servers_count)
		return -NAM_E_NOREGION;
	if (sweep->marked)
		++*sweep->marked;
	return mark_on(sweep, slot, which, nam_gaddr_untagged(at).raw); /* SUSPENDS */
}

int
nam__sweep_mark(struct nam__sweep *sweep, struct nam_gaddr at)
{
	/* C26: names lead to it. */
	return !NAM_GUARD(SWEEP_MARK) ? 0 : mark(sweep, NAM__SWEEP_BLOCKS, at); /* SUSPENDS */
}

int
nam__sweep_mark_record(struct nam__sweep *sweep, struct nam_gaddr head)
{
	/* C26: records lead to their versions. */
	return mark(sweep, NAM__SWEEP_RECORDS, head); /* SUSPENDS */
}

int
nam__sweep_mark_object(struct nam__sweep *sweep, uint64_t number)
{
	const struct nam_client *client = sweep->worker->client;
	int rc = 0;

	/* C26 */
	for (uint32_t slot = 0; slot < client->servers_count && !rc &&
		NAM_GUARD(SWEEP_OBJECTS); slot++)
		rc = mark_on(sweep, slot, NAM__SWEEP_OBJECTS, number); /* SUSPENDS */
	return rc;
}

void
nam__sweep_free(struct nam__sweep *sweep)
{
	for (uint32_t slot = 0; slot < NAM_SERVERS_MAX; slot++)
		for (unsigned i = 0; i < NAM__SWEEP_MARKS; i++)
			free(sweep->marks[slot][i]);
}

/* ---- blocks without a name ----------------------------------------------------------------- */

int
nam_keep(struct nam_worker *worker, struct nam_gaddr at)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	uint64_t body[(sizeof(struct nam_rpc_sweep_request) + 8) / 8] = { 0 };
	struct nam_rpc_sweep_request *request = (void *)body;
	struct nam_rpc_sweep_reply reply;
	int rc = nam__change_check(worker);

	if (!rc && slot >= worker->client->servers_count)
		rc = -NAM_E_NOREGION;
	request->step = NAM_RPC_SWEEP_KEEP;
	request->count = 1;
	request->words[0] = nam_gaddr_untagged(at).raw;
	return rc ? rc : ask(worker, slot, request, &reply, 0); /* SUSPENDS */
}

/* ---- the end ------------------------------------------------------------------------------- */

/* C26: blocks that they have unlinked are in limbos, and now marked, too. */
NAM_FIBER_FN static int
reports_wait(struct nam__sweep *sweep, struct nam_diag *diag)
{
	/* A new number: clients that have reported before report again. */
	const struct nam_rpc_sweep_request request = {
		.step = NAM_RPC_SWEEP_REPORT,
		.number = nam_entropy() | 1,
	};
	struct nam_worker *worker = sweep->worker;
	uint64_t timeout_ns = worker->client->options.timeout_ms * 1000000ull;
	uint64_t deadline = nam_now_ns() + timeout_ns, pause_ns = PAUSE_NS;
	struct nam_rpc_sweep_reply reply;

	for (;;) {
		int rc = ask(worker, worker->client->catalog_slot, &request, &reply,
			0); /* SUSPENDS */

		if (rc || !reply.client)
			return rc;
		if (nam_now_ns() >= deadline)
			return nam__epoch_blame(worker, reply.client, timeout_ns,
				diag); /* SUSPENDS */
		nam__pause_await(worker, pause_ns); /* SUSPENDS */
		pause_ns = pause_ns < PAUSE_NS_MAX ? 2 * pause_ns : PAUSE_NS_MAX;
	}
}

/* The worker's own words about a failure, if nothing better is known. */
static int
explain(const struct nam__sweep *sweep, int rc, struct nam_diag *diag)
{
	if (rc && !diag->text[0])
		(void)nam_diag_set(diag, rc, "%s", *sweep->worker->diag.text ?
			sweep->worker->diag.text : nam_err_text(rc));
	return rc;
}

int
nam__sweep_quiesce(struct nam__sweep *sweep, struct nam_diag *diag)
{
	struct nam_worker *worker = sweep->worker;
	int rc = 0;

	diag->text[0] = '\0';
	for (uint32_t slot = 0; slot < worker->client->servers_count; slot++)
		for (unsigned i = 0; i < NAM__SWEEP_MARKS && !rc; i++)
			if (sweep->marks[slot][i] && sweep->marks[slot][i]->count)
				rc = marks_send(worker, slot, sweep->marks[slot][i]); /* SUSPENDS */
	nam_race_point("sweep.marked");
	/* C26: operations that may have unlinked a block before it was marked have ended. */
	if (!rc && NAM_GUARD(SWEEP_WAIT))
		rc = operations_wait(worker, diag); /* SUSPENDS */
	if (!rc)
		rc = reports_wait(sweep, diag); /* SUSPENDS */
	nam_race_point("sweep.reported");
	return explain(sweep, rc, diag);
}

/* Ask one memory server about its blocks. */
NAM_FIBER_FN static int
ask_some(struct nam__sweep *sweep, uint32_t slot, const uint64_t *addresses, uint32_t count,
	uint64_t *ret_bits)
{
	uint64_t request_body[sizeof(struct nam_rpc_sweep_request) / 8 + 64] = { 0 };
	uint64_t reply_body[sizeof(struct nam_rpc_sweep_reply) / 8 + 1];
	struct nam_rpc_sweep_request *request = (void *)request_body;
	struct nam_rpc_sweep_reply *reply = (void *)reply_body;
	uint64_t asked = 0, answer;
	int rc;

	request->step = NAM_RPC_SWEEP_ASK;
	request->number = sweep->number;
	for (uint32_t i = 0; i < count; i++) {
		struct nam_gaddr at = nam_gaddr_untagged(NAM_GADDR(addresses[i]));

		if (nam__server_slot(sweep->worker->client, at) != slot)
			continue;
		request->words[request->count++] = at.raw;
		asked |= 1ull << i;
	}
	if (!asked)
		return 0;
	rc = ask(sweep->worker, slot, request, reply, 1); /* SUSPENDS */
	answer = rc ? 0 : reply->words[0];
	for (; asked; asked &= asked - 1, answer >>= 1)
		*ret_bits |= answer & 1 ? asked & -asked : 0;
	return rc;
}

int
nam__sweep_query(struct nam__sweep *sweep, const uint64_t *addresses, uint32_t count,
	uint64_t *ret_bits)
{
	int rc = 0;

	*ret_bits = 0;
	for (uint32_t slot = 0; slot < sweep->worker->client->servers_count && !rc; slot++)
		if (sweep->begun[slot])
			rc = ask_some(sweep, slot, addresses, count, ret_bits); /* SUSPENDS */
	return rc;
}

int
nam__sweep_close(struct nam__sweep *sweep, uint64_t *ret_closed, struct nam_diag *diag)
{
	struct nam__swept all;
	int rc;

	diag->text[0] = '\0';
	/* C26: handles of dropped stores and indexes use no suspect block from here on. */
	rc = ask_all(sweep, NAM_RPC_SWEEP_CLOSE, 0, NULL, &all, diag); /* SUSPENDS */
	*ret_closed = all.suspect.blocks;
	nam_race_point("sweep.closed");
	return explain(sweep, rc, diag);
}

int
nam__sweep_end(struct nam__sweep *sweep, struct nam__swept *ret_swept, struct nam_diag *diag)
{
	uint64_t label = 0;
	int rc = 0;

	diag->text[0] = '\0';
	/* C9: clients that know an address may be looking at the block yet. */
	if (!sweep->dry)
		rc = nam__epoch_add(sweep->worker, 1, &label); /* SUSPENDS */
	if (!rc)
		rc = ask_all(sweep, NAM_RPC_SWEEP_END, label, NULL, ret_swept,
			diag); /* SUSPENDS */
	return explain(sweep, rc, diag);
}

/* ---- reports ------------------------------------------------------------------------------- */

/* The blocks in limbos at one moment; NULL: no memory. */
static uint64_t *
addresses_get(struct nam_client *client, uint32_t *ret_count)
{
	uint64_t *addresses = NULL;
	uint32_t size = 0, count;

	while ((count = nam__limbos_addresses(client, addresses, size)) > size || !addresses) {
		free(addresses);
		size = count + count / 8 + 64;
		addresses = malloc(size * sizeof(*addresses));
		if (!addresses)
			return NULL;
	}
	*ret_count = count;
	return addresses;
}

/* Report to one memory server.  A client that has lost it never gives back a block there. */
NAM_FIBER_FN static int
report_to(struct nam_client *client, uint32_t slot, const uint64_t *addresses, uint32_t count,
	struct nam_rpc_sweep_request *marks)
{
	struct nam_worker *worker = client->epoch_worker;
	int rc = 0;

	marks->step = NAM_RPC_SWEEP_HELD;
	marks->count = 0;
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct nam_gaddr at = nam_gaddr_untagged((struct nam_gaddr){ addresses[i] });

		if (nam__server_slot(client, at) == slot)
			marks->words[marks->count++] = at.raw;
		if (marks->count == NAM_RPC_SWEEP_BLOCKS)
			rc = marks_send(worker, slot, marks); /* SUSPENDS */
	}
	if (!rc && marks->count)
		rc = marks_send(worker, slot, marks); /* SUSPENDS */
	return atomic_load_explicit(&client->servers[slot].lost, memory_order_relaxed) ? 0 : rc;
}

void
nam__sweep_follow(struct nam_client *client, uint64_t number)
{
	const struct nam_rpc_sweep_request request = { .step = NAM_RPC_SWEEP_ACK,
		.number = number };
	struct nam_rpc_sweep_request *marks;
	struct nam_rpc_sweep_reply reply;
	uint64_t now = nam_now_ns();
	uint64_t *addresses;
	uint32_t count = 0;
	int rc = -ENOMEM;

	if (!number || number == client->sweep_seen || now < client->sweep_retry_ns)
		return;
	nam_race_point("sweep.report");
	/* C26: all that was unlinked before this sweep asked. */
	addresses = addresses_get(client, &count);
	marks = calloc(1, NAM_RPC_BODY_MAX);
	if (addresses && marks)
		rc = 0;
	for (uint32_t slot = 0; slot < client->servers_count && count && !rc &&
		NAM_GUARD(SWEEP_REPORT); slot++)
		rc = report_to(client, slot, addresses, count, marks); /* SUSPENDS */
	if (!rc)
		rc = ask(client->epoch_worker, client->catalog_slot, &request, &reply,
			0); /* SUSPENDS */
	if (rc)
		client->sweep_retry_ns = nam__retry_at_ns(now);
	else
		client->sweep_seen = number;
	free(addresses);
	free(marks);
}
