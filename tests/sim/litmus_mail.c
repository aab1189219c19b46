/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_mail.c -- scenes about messages in mailboxes.  More requests come at a time than a ring
 * has places.  Each must be carried out once, and answered.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/rpc/mailbox.h"
#include "compute/worker/worker.h"
#include "litmus.h"

#define CALLERS 12u			/* more than NAM_FRAMES */
#define CALLS 25u
#define BODY_BYTES_MAX 600u
#define TIMEOUT_MS 20u			/* many times a call */
#define LONG_MS 2000u			/* and one that is lost a few times */

struct caller {
	struct nam_worker *worker;
	uint32_t number;
	uint32_t given_up;
	bool gives_up;			/* which is no failure */
};

/* Any bytes, and every eighth of them names their caller. */
static uint32_t
body_fill(const struct caller *caller, uint32_t call, uint8_t *body)
{
	uint32_t bytes = 8 + (uint32_t)(nam_sim_random() % (BODY_BYTES_MAX - 8));

	for (uint32_t i = 0; i < bytes; i++)
		body[i] = (uint8_t)(i % 8 ? nam_sim_random() : caller->number << 5 ^ call);
	return bytes;
}

static void
call_often(void *arg)
{
	struct caller *caller = arg;
	uint8_t out[BODY_BYTES_MAX], in[BODY_BYTES_MAX];

	for (uint32_t i = 0; i < CALLS && !litmus.failed; i++) {
		uint32_t bytes = body_fill(caller, i, out), got = sizeof(in);
		int rc = nam_rpc_call(caller->worker, 0, NAM_RPC_PING, out, bytes, in, &got);

		if (caller->gives_up && nam_err_is(rc, NAM_E_FABRIC_TIMEOUT))
			caller->given_up++;
		else if (rc)
			litmus_fail("call %u of caller %u: %s", i, caller->number,
				nam_err_name(rc));
		else if (got != bytes || memcmp(in, out, bytes))
			litmus_fail("call %u of caller %u: a reply to something else", i,
				caller->number);
		/* Long enough for a memory server to go to sleep, now and then. */
		if (nam_sim_random() % 16 == 0)
			nam__pause_await(caller->worker, nam_sim_random() % 60000);
	}
}

static uint64_t
requests_answered(struct nam_worker *worker)
{
	struct nam_server_status status;
	int rc = nam_server_status_get(worker, 0, &status);

	if (rc)
		litmus_fail("status: %s", nam_err_name(rc));
	return status.requests;
}

/* @local	how many of the calls went within the machine, at the least */
static void
call_from_many(enum nam_transport transport, uint64_t local, uint32_t timeout_ms, bool gives_up)
{
	/* A client that gives up does so with all places, and does not use SEND. */
	const uint32_t count = gives_up ? NAM_FRAMES : CALLERS;
	uint32_t given_up = 0;
	struct caller callers[CALLERS];
	struct nam_client *client;
	struct nam_worker *worker;
	uint64_t before, after;

	litmus.cluster.transport = transport;
	litmus.cluster.fetch_bytes = 256;	/* some replies are longer */
	worker = sim_come(&litmus.cluster, "mail", &client);
	if (client)
		client->options.timeout_ms = timeout_ms;
	if (!worker)
		sim_die("a worker with mailboxes cannot come");
	before = requests_answered(worker);
	for (uint32_t i = 0; i < count; i++) {
		callers[i] = (struct caller){ worker, i, 0, gives_up };
		if (nam_worker_spawn(worker, call_often, &callers[i]))
			sim_die("no fiber");
	}
	nam_worker_run(worker);
	for (uint32_t i = 0; i < count; i++)
		given_up += callers[i].given_up;
	client->options.timeout_ms = LONG_MS;
	after = requests_answered(worker);
	if (nam_worker_counters(worker, NAM_OP_OTHER)->colocated_calls < local)
		litmus_fail("%llu calls were local", (unsigned long long)
			nam_worker_counters(worker, NAM_OP_OTHER)->colocated_calls);
	/* The first status was not yet counted when it was asked for. */
	if (after - before > count * CALLS + 1 || after - before + given_up < count * CALLS + 1)
		litmus_fail("%u calls, %u given up, and %llu were carried out", count * CALLS,
			given_up, (unsigned long long)(after - before - 1));
	sim_leave(&client, &worker);
}

static void
call_by_mailbox(struct actor *self)
{
	(void)self;
	call_from_many(NAM_TRANSPORT_MAILBOX, 0, TIMEOUT_MS, false);
}

static void
call_and_fetch(struct actor *self)
{
	(void)self;
	call_from_many(NAM_TRANSPORT_FETCH, 0, TIMEOUT_MS, false);
}

static void
call_next_door(struct actor *self)
{
	nam_sim_process_place(self->process, 0);
	nam_sim_process_place(litmus.actors[SERVER].process, 0);
	/* Requests behind a wake-up go by the card. */
	call_from_many(NAM_TRANSPORT_DEFAULT, CALLERS * CALLS / 2, TIMEOUT_MS, false);
}

/* Where there are none, mailboxes will do. */
static bool
unreliable_qps_are(void)
{
	return nam_sim_profile_caps(litmus.profile) & NAM_CAP_UD;
}

static void
call_over_unreliable_qp(struct actor *self)
{
	(void)self;
	nam_sim_faults()->lose = nam_sim_faults()->twice = 200000;
	call_from_many(unreliable_qps_are() ? NAM_TRANSPORT_DATAGRAM : NAM_TRANSPORT_MAILBOX, 0,
		LONG_MS,
		false);
}

static void
call_and_give_up(struct actor *self)
{
	(void)self;
	nam_sim_faults()->lose = 400000;
	nam_sim_faults()->twice = 300000;
	call_from_many(unreliable_qps_are() ? NAM_TRANSPORT_DATAGRAM : NAM_TRANSPORT_MAILBOX, 0,
		unreliable_qps_are() ? 1 : TIMEOUT_MS, unreliable_qps_are());
}

/* ---- one-way requests ------------------------------------------------------------------------ */

#define TELL_ROUNDS 60u

/* Whether the one that fails is among them is for the flush to find out. */
static void
print_some(struct nam_worker *worker, uint32_t slot, bool wrong, uint32_t *told)
{
	const struct nam_rpc_catalog_entry absent = { .name = "absent" };
	uint32_t count = 1 + (uint32_t)(nam_sim_random() % 6);

	for (uint32_t i = 0; i < count; i++) {
		int rc = wrong && !i ? nam_rpc_send_one_way(worker, slot, NAM_RPC_CATALOG_GET,
			&absent,
			sizeof(absent)) : nam_rpc_send_one_way(worker, slot, NAM_RPC_PING, NULL, 0);

		if (rc)
			litmus_fail("a one-way request: %s", nam_err_name(rc));
		++*told;
	}
}

static void
print_rounds(struct nam_worker *worker, uint32_t *told)
{
	for (uint32_t i = 0; i < TELL_ROUNDS && !litmus.failed; i++) {
		bool wrong = nam_sim_random() % 2;
		struct nam_call calls[3] = { { .type = NAM_RPC_PING }, { .type = NAM_RPC_PING },
			{ .type = NAM_RPC_PING } };
		int rc;

		print_some(worker, 0, wrong, told);
		rc = nam_rpc_call_many(worker, calls, 1 + (unsigned)(nam_sim_random() % 3));
		if (rc)
			litmus_fail("calls among them: %s", nam_err_name(rc));
		rc = nam_rpc_flush(worker, 0);
		if (rc != (wrong ? -NAM_E_NOINDEX : 0))
			litmus_fail("round %u, %s that fails, flushes with %s", i,
				wrong ? "with one" : "without any", nam_err_name(rc));
	}
}

static void
send_and_call(enum nam_transport transport)
{
	uint64_t before, after;
	struct nam_client *client;
	struct nam_worker *worker;
	uint32_t told = 0;

	litmus.cluster.transport = transport;
	worker = sim_come(&litmus.cluster, "mail", &client);
	if (client)
		client->options.timeout_ms = TIMEOUT_MS;
	if (!worker)
		sim_die("a worker with mailboxes cannot come");
	print_rounds(worker, &told);
	/* From here on each request is a round trip, or one-way. */
	before = requests_answered(worker);
	for (told = 0; told < 200;)
		print_some(worker, 0, false, &told);
	if (nam_rpc_flush(worker, 0))
		litmus_fail("they are not flushed");
	after = requests_answered(worker);
	/* One to flush whenever there are as many as there may be, and in the end. */
	if (after - before < told + 2 + told / NAM_ONE_WAY_MAX - 1 ||
		after - before > told + 2 + told / NAM_ONE_WAY_MAX)
		litmus_fail("%u were told, and %llu carried out", told,
			(unsigned long long)(after - before));
	sim_leave(&client, &worker);
}

static void
send_by_mailbox(struct actor *self)
{
	(void)self;
	send_and_call(NAM_TRANSPORT_MAILBOX);
}

static void
send_and_fetch(struct actor *self)
{
	(void)self;
	send_and_call(NAM_TRANSPORT_FETCH);
}

const struct litmus_case litmus_mail_cases[] = {
	{ { "crowded_mailbox", 0, { NULL, call_by_mailbox }, { { 0 } } },
		"more requests than a mailbox has places, replies by WRITE", 1, LITMUS_FINE },
	{ { "crowded_fetch", 0, { NULL, call_and_fetch }, { { 0 } } },
		"the same, and replies are fetched", 1, LITMUS_FINE },
	{ { "crowded_unreliable_qp", 0, { NULL, call_over_unreliable_qp }, { { 0 } } },
		"the same over an unreliable queue pair that loses and doubles a fifth", 1,
		LITMUS_FINE },
	{ { "given_up_unreliable_qp", 0, { NULL, call_and_give_up }, { { 0 } } },
		"callers give up after a few tries, and their places are used again", 1,
		LITMUS_FINE },
	{ { "one_way_mailbox", 0, { NULL, send_by_mailbox }, { { 0 } } },
		"one-way requests, some of which fail; calls by mailbox tell of them", 1,
		LITMUS_FINE },
	{ { "one_way_fetch", 0, { NULL, send_and_fetch }, { { 0 } } },
		"the same, and replies are fetched", 1, LITMUS_FINE },
	{ { "crowded_next_door", 0, { NULL, call_next_door }, { { 0 } } },
		"the same within a machine, where a processor copies requests and replies", 1,
		LITMUS_FINE },
	{ { 0 }, NULL, 0, 0 },
};
