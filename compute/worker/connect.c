/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c -- a worker connects on first use to servers that came after it was opened, or says why
 * it cannot.  That blocks the thread, and takes more stack than a fiber has.
 */
#include "compute/backup/backups.h"
#include "worker.h"

#define STACK_BYTES (1u << 20)	/* the resolver of names needs some; committed as touched */
#define AGAIN_NS 100000000ull
#define WHY_NS 1000000000ull		/* another thread asks the lead, for half of it at most */
#define WHY_POLL_NS 100000ull

int
nam__fenced_explain(const struct nam_client *client, struct nam_diag *diag)
{
	return nam_diag_set(diag, -NAM_E_FABRIC_FENCED, "the memory servers have fenced this "
		"client (%u): they closed its connections, and it counts as dead; connect anew",
		client->id);
}

int
nam__failure_explain(struct nam_worker *worker, uint32_t slot, int status)
{
	const char *address = worker->client->servers[slot].address;

	if (status == -NAM_E_FABRIC_FENCED)
		return nam__fenced_explain(worker->client, &worker->diag);
	if (nam_err_is(status, NAM_E_FABRIC_PEER_DEAD))
		return nam_diag_set(&worker->diag, status,
			"the memory server at %s is gone. If it still runs, and only the way there "
			"was cut, its memory is there, so connect anew. If it ended, its memory "
			"ended with it, and it must be restarted", address);
	if (nam_err_is(status, NAM_E_FABRIC_TIMEOUT))
		return nam_diag_set(&worker->diag, status,
			"the memory server at %s does not answer: it is stopped or overloaded, and "
			"the connection ended after timeout_ms (%u); connect anew once it runs",
			address, worker->client->options.timeout_ms);
	return nam_diag_set(&worker->diag, status,
		"the connection to the memory server at %s failed: %s; connect anew",
		address, nam_err_text(status));
}

/* A memory server would refuse it, and end the connection if it is a one-sided request. */
int
nam__change_check(struct nam_worker *worker)
{
	if (__builtin_expect(!worker->reads_only, 1))
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_FABRIC_DENIED, "this client's key is for "
		"reading (%s); changes need one of the role write", worker->client->options.key);
}

struct attempt {
	struct nam_worker *worker;
	uint32_t slot;
	bool asks_why;			/* the lead, in place of connecting */
	int rc;
	struct nam_fiber *fiber;
};

/* A memory server that closed the connection may live, and take this client no more (C21). */
static void
attempt_here(struct attempt *attempt)
{
	struct nam_worker *worker = attempt->worker;

	if (attempt->asks_why)
		attempt->rc = worker->client->is_over(worker->client) ? -NAM_E_FABRIC_FENCED : 0;
	else
		attempt->rc = worker->ops->connect(worker, attempt->slot, &worker->diag);
}

static void
attempt_main(void *arg)
{
	struct attempt *attempt = arg;

	attempt_here(attempt);
	nam_fiber_exit_to(attempt->fiber, attempt->worker->current->fiber);
}

static int
on_stack(struct nam_worker *worker, uint32_t slot, bool asks_why)
{
	struct attempt attempt = { .worker = worker, .slot = slot, .asks_why = asks_why };
	int rc;

	if (worker->current->is_thread) {
		attempt_here(&attempt);
		return attempt.rc;
	}
	rc = nam_fiber_create(attempt_main, &attempt, STACK_BYTES, &attempt.fiber);
	if (rc)
		return nam_diag_set(&worker->diag, rc, "no memory to connect to the memory server "
			"at %s", worker->client->servers[slot].address);
	/* The task is suspended by this alone: no other task of the worker runs meanwhile. */
	nam_fiber_switch(worker->current->fiber, attempt.fiber);
	nam_fiber_destroy(attempt.fiber);
	return attempt.rc;
}

/* The lead is asked once for each server that a client lost; other threads wait for the answer. */
static int
why_lost(struct nam_worker *worker, uint32_t slot, int lost)
{
	struct nam_client *client = worker->client;
	struct nam__server *server = &client->servers[slot];
	uint64_t until_ns = nam_now_ns() + WHY_NS;

	if (!client->is_over || !nam_err_is(lost, NAM_E_FABRIC_PEER_DEAD))
		return lost;
	if (!atomic_exchange_explicit(&server->asked_why, true, memory_order_relaxed)) {
		if (on_stack(worker, slot, true) == -NAM_E_FABRIC_FENCED)
			atomic_store_explicit(&client->fenced, true, memory_order_relaxed);
		/* Release: pairs with the load below. */
		atomic_store_explicit(&server->knows_why, true, memory_order_release);
	}
	while (!atomic_load_explicit(&server->knows_why, memory_order_acquire) &&
		nam_now_ns() < until_ns)
		nam_sleep_ns(WHY_POLL_NS);
	return atomic_load_explicit(&client->fenced, memory_order_relaxed) ?
		-NAM_E_FABRIC_FENCED : lost;
}

int
nam__failure_why(struct nam_worker *worker, int rc)
{
	/* The epoch thread has others to see to.  A member with a backup is not lost. */
	if (nam__is_backed(worker->client, worker->failed_slot) ||
		!nam_err_is(rc, NAM_E_FABRIC_PEER_DEAD) ||
		worker == worker->client->epoch_worker ||
		why_lost(worker, worker->failed_slot, rc) != -NAM_E_FABRIC_FENCED)
		return rc;
	return nam__failure_explain(worker, worker->failed_slot, -NAM_E_FABRIC_FENCED);
}

int
nam__qp_connect(struct nam_worker *worker, uint32_t slot)
{
	const struct nam__server *server = &worker->client->servers[slot];
	struct nam__answering *answering = &worker->answering[slot];
	uint64_t begin_ns, end_ns;
	int none = 0, rc = atomic_load_explicit(&server->lost, memory_order_acquire);

	if (rc)
		return nam__failure_explain(worker, slot, why_lost(worker, slot, rc));
	if (worker->qps[slot])
		return 0;
	/* C32: requests that are repeated must not follow those that it may still carry out. */
	if (answering->ended_boot && answering->ended_boot == server->boot) {
		if (!nam__is_backed(worker->client, slot))
			atomic_compare_exchange_strong(&worker->client->servers[slot].lost, &none,
				-NAM_E_FABRIC_PEER_DEAD);
		return nam__failure_explain(worker, slot, -NAM_E_FABRIC_PEER_DEAD);
	}
	begin_ns = nam_now_ns();
	/* Otherwise tasks that all need this server would stop the others one after another. */
	if (begin_ns < answering->connect_again_ns && answering->refusing_boot == server->boot)
		return nam_diag_set(&worker->diag, answering->refusal,
			"cannot connect to the memory server at %s: %s", server->address,
			nam_err_text(answering->refusal));
	rc = on_stack(worker, slot, false);
	if (!rc)
		return 0;
	/* This client was fenced before it needed the connection. */
	if (rc == -NAM_E_FABRIC_FENCED)
		atomic_store_explicit(&worker->client->fenced, true, memory_order_relaxed);
	end_ns = nam_now_ns();
	answering->refusal = rc;
	answering->refusing_boot = server->boot;
	answering->connect_again_ns = end_ns +
		(end_ns - begin_ns > AGAIN_NS ? end_ns - begin_ns : AGAIN_NS);
	return rc;
}
