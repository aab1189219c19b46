/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c -- "sim:NAME": listeners, and clients that ask to connect. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define WAY_NS 2000u
#define WAY_SPREAD_NS 5000u

static uint64_t
way(void)
{
	return WAY_NS + nam_rng_below(&nam__sim.chance, WAY_SPREAD_NS);
}

static struct sim_listener *
listener_find(const char *name)
{
	struct sim_listener *listener;

	LIST_FOREACH(listener, &nam__sim.listeners, link)
		if (!strcmp(listener->name, name))
			break;
	return listener;
}

static int
name_of(const char *address, const char **ret_name, struct nam_diag *diag)
{
	const char *name = strchr(address, ':');

	if (!name || !name[1] || strlen(name + 1) >= sizeof(((struct sim_listener *)NULL)->name))
		return nam_diag_set(diag, -EINVAL, "'%s' is not an address of the simulator; write "
			"for example sim:server0", address);
	*ret_name = name + 1;
	return 0;
}

/* ---- cuts --------------------------------------------------------------------------------- */

static uint32_t
cut_find(const struct nam_sim_process *one, const struct nam_sim_process *other)
{
	const struct sim *sim = &nam__sim;
	uint32_t i = 0;

	while (i < sim->cuts_count && !(sim->cuts[i][0] == one && sim->cuts[i][1] == other) &&
		!(sim->cuts[i][0] == other && sim->cuts[i][1] == one))
		i++;
	return i;
}

bool
nam__sim_is_cut(const struct nam_sim_process *one, const struct nam_sim_process *other)
{
	return cut_find(one, other) < nam__sim.cuts_count;
}

void
nam_sim_process_cut(struct nam_sim_process *one, struct nam_sim_process *other)
{
	struct sim *sim = &nam__sim;
	struct sim_domain *domain;
	struct sim_qp *qp;

	if (one == other || nam__sim_is_cut(one, other) ||
		sim->cuts_count == sizeof(sim->cuts) / sizeof(sim->cuts[0]))
		return;
	sim->counts.faults++;
	SIM_EVENT(SIM_WHAT_FAULT, one->id, other->id, "fault cut: p%u (%s) and p%u (%s)", one->id,
		one->name, other->id, other->name);
	sim->cuts[sim->cuts_count][0] = one;
	sim->cuts[sim->cuts_count++][1] = other;
	LIST_FOREACH(domain, &one->domains, link)
		LIST_FOREACH(qp, &domain->qps, link)
			if (qp->peer && qp->peer->domain && !qp->unreliable_qp &&
				qp->peer->domain->process == other)
				nam__sim_qp_broken(qp);
}

void
nam_sim_process_heal(struct nam_sim_process *one, struct nam_sim_process *other)
{
	struct sim *sim = &nam__sim;
	uint32_t at = cut_find(one, other);

	if (at == sim->cuts_count)
		return;
	SIM_EVENT(SIM_WHAT_FAULT, one->id, other->id, "p%u (%s) and p%u (%s) reach each other",
		one->id, one->name, other->id, other->name);
	sim->cuts_count--;
	memcpy(sim->cuts[at], sim->cuts[sim->cuts_count], sizeof(sim->cuts[at]));
}

static void
request_free(struct nam_cm_request *request)
{
	LIST_REMOVE(request, link);
	nam__sim_unplan(&request->event);
	free(request);
}

/* ---- the client --------------------------------------------------------------------------- */

int
nam__sim_is_near(struct nam_domain *pub, const char *address)
{
	const struct nam_sim_process *process = ((const struct sim_domain *)pub)->process;
	const struct sim_listener *listener = NULL;
	const char *name = NULL;

	if (!name_of(address, &name, NULL))
		listener = listener_find(name);
	return listener && process->machine &&
		listener->domain->process->machine == process->machine;
}

static void request_due(struct sim_event *event);

static struct nam_cm_request *
ask(struct sim_listener *listener, struct sim_qp *qp, const struct nam_hello *hello)
{
	struct nam_cm_request *request = nam__sim_alloc(sizeof(*request));

	request->event.due = request_due;
	request->listener = listener;
	request->qp = qp;
	request->waiter = nam__sim.current;
	request->from = qp->domain->process->id;
	if (hello)
		request->hello = *hello;
	LIST_INSERT_HEAD(&nam__sim.requests, request, link);
	nam__sim_plan(&request->event, nam__sim_here() + way());
	return request;
}

static void
await(const struct nam_cm_request *request, const struct sim_domain *domain, uint64_t until)
{
	while (request->verdict == SIM_NONE && nam__sim_here() < until &&
		!nam__sim_is_gone(domain->process))
		(void)nam__sim_wait(until);
}

/* The request is on its way again if that is 0; else it has been given up. */
static int
meet(struct nam_cm_request *request, const struct nam_qp_options *options, const char *address,
	struct nam_diag *diag)
{
	int rc = nam__sim_is_gone(request->qp->domain->process) ? -NAM_E_FABRIC_PEER_DEAD :
		nam__fabric_answer(options, address, &request->challenge, &request->answer, diag);

	if (rc) {
		request_free(request);
		return rc;
	}
	request->verdict = SIM_NONE;
	nam__sim_plan(&request->event, nam__sim_here() + way());
	return 0;
}

/* The queue pair is the caller's if that is 0. */
static int
decided(struct nam_cm_request *request, const struct nam_qp_options *options,
	struct nam_hello *reply, const char *address, struct nam_diag *diag)
{
	enum sim_verdict verdict = request->verdict;

	if (verdict == SIM_NONE) {
		/* The listener will find that the client has gone. */
		request->qp = NULL;
		request->waiter = NULL;
		return nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "%s: the memory server does not "
			"answer", address);
	}
	*reply = request->reply;
	request_free(request);
	if (verdict == SIM_ACCEPTED)
		return nam__fabric_welcome(options, reply, diag);
	if (reply->bytes)
		return nam_diag_set(diag, -ECONNREFUSED, "%s: the memory server refused the "
			"connection", address);
	return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "%s: the memory server closed the "
		"connection", address);
}

int
nam__sim_connect(struct nam_domain *pub, const char *address, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_qp **ret,
	struct nam_diag *diag)
{
	struct sim_domain *domain = (struct sim_domain *)pub;
	struct sim_listener *listener = NULL;
	struct nam_cm_request *request;
	struct sim_qp *qp;
	const char *name = NULL;
	struct nam_hello own;
	uint64_t until;
	int rc = name_of(address, &name, diag);

	reply = reply ?: &own;
	reply->bytes = reply->absent = 0;
	if (rc)
		return rc;
	if (hello && hello->bytes > NAM_HELLO_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "hello of %u bytes", hello->bytes);
	if (!nam__sim_is_gone(domain->process))
		listener = listener_find(name);
	if (!listener) {
		(void)nam__sim_wait(nam__sim_here() + 2 * way());
		reply->absent = 1;
		return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "%s: no memory server listens "
			"there", address);
	}
	until = nam__sim_after(pub->timeout_ns ?: SIM_CONNECT_NS);
	if (nam__sim_is_cut(domain->process, listener->domain->process)) {
		(void)nam__sim_wait(until);
		return nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "%s: the memory server does not "
			"answer", address);
	}
	qp = nam__sim_qp_new(domain, options);
	if (!qp)
		return nam_diag_set(diag, -EINVAL, "%s: no queue pair", address);
	request = ask(listener, qp, hello);
	await(request, domain, until);
	if (request->verdict == SIM_CHALLENGED) {
		rc = meet(request, options, address, diag);
		if (rc)
			goto destroy_qp;
		await(request, domain, until);
	}
	rc = decided(request, options, reply, address, diag);
	if (rc)
		goto destroy_qp;
	qp->ready = true;
	*ret = &qp->pub;
	return 0;

destroy_qp:
	nam__sim_qp_destroy(&qp->pub);
	return rc;
}

struct nam_qp *
nam_sim_qp_asking(const struct nam_domain *domain)
{
	struct nam_cm_request *request;

	LIST_FOREACH(request, &nam__sim.requests, link)
		if (request->qp && &request->qp->domain->pub == domain)
			return &request->qp->pub;
	return NULL;
}

/* ---- the listener ------------------------------------------------------------------------- */

int
nam__sim_listen(struct nam_domain *pub, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct sim_listener *listener;
	const char *name = NULL;
	int rc = name_of(address, &name, diag);

	if (rc)
		return rc;
	if (listener_find(name))
		return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE,
			"%s: another memory server is listening there", address);
	listener = nam__sim_alloc(sizeof(*listener));
	listener->pub.ops = pub->ops;
	listener->domain = (struct sim_domain *)pub;
	listener->domain->process->serves = true;
	(void)snprintf(listener->name, sizeof(listener->name), "%s", name);
	STAILQ_INIT(&listener->arrived);
	LIST_INSERT_HEAD(&nam__sim.listeners, listener, link);
	*ret = &listener->pub;
	return 0;
}

static void
decide(struct nam_cm_request *request, enum sim_verdict verdict, const struct nam_hello *reply)
{
	if (!request->qp) {
		request_free(request);
		return;
	}
	if (reply)
		request->reply = *reply;
	request->verdict = verdict;
	nam__sim_wake(request->waiter, way());
}

/* Whether the listener still knows the challenge. */
static bool
is_pending(const struct sim_listener *listener, const struct nam_cm_request *request)
{
	return listener->challenges - request->number < NAM__PENDING_MAX &&
		nam__sim.now <= request->challenged_ns + NAM__HANDSHAKE_NS;
}

static void
request_due(struct sim_event *event)
{
	struct nam_cm_request *request = (struct nam_cm_request *)event;
	struct sim_listener *listener = request->listener;

	SIM_EVENT(SIM_WHAT_CONNECT, request->from, request->number, "p%u %s", request->from,
		request->number ? "answers" : "asks to connect");
	/* The listener's process may have died meanwhile. */
	if (!listener || !listener->name[0] ||
		(request->number && !is_pending(listener, request))) {
		decide(request, SIM_REJECTED, NULL);
		return;
	}
	STAILQ_INSERT_TAIL(&listener->arrived, request, arrived_link);
	nam__sim_wake(listener->waiter, 0);
}

int
nam__sim_listener_poll(struct nam_listener *pub, uint64_t timeout_ns, struct nam_cm_event *event)
{
	struct sim_listener *listener = (struct sim_listener *)pub;
	uint64_t until = nam__sim_after(timeout_ns);
	struct nam_cm_request *request;

	while (STAILQ_EMPTY(&listener->arrived) && !listener->woken && nam__sim_here() < until) {
		if (nam__sim_is_gone(listener->domain->process))
			return -NAM_E_FABRIC_PEER_DEAD;
		listener->waiter = nam__sim.current;
		(void)nam__sim_wait(until);
		listener->waiter = NULL;
	}
	listener->woken = false;
	request = STAILQ_FIRST(&listener->arrived);
	if (!request)
		return NAM_LISTENER_QUIET;
	STAILQ_REMOVE_HEAD(&listener->arrived, arrived_link);
	memset(event, 0, sizeof(*event));
	event->kind = request->number ? NAM_CM_ANSWER : NAM_CM_REQUEST;
	event->request = request;
	event->hello = request->hello;
	event->challenge = request->challenge;
	event->answer = request->answer;
	(void)snprintf(event->peer, sizeof(event->peer), "simulated process %u", request->from);
	return NAM_LISTENER_EVENT;
}

void
nam__sim_listener_wake(struct nam_listener *pub)
{
	struct sim_listener *listener = (struct sim_listener *)pub;

	listener->woken = true;
	nam__sim_wake(listener->waiter, 0);
}

/* Must not wait: memory servers call it with a mutex held. */
int
nam__sim_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct sim_listener *listener = (struct sim_listener *)pub;
	struct sim_qp *client = request->qp, *qp = NULL;

	if (!reply || reply->bytes <= NAM_REPLY_BYTES_MAX)
		qp = nam__sim_qp_new(listener->domain, options);
	if (!qp) {
		decide(request, SIM_REJECTED, NULL);
		return -EINVAL;
	}
	qp->ready = true;
	SIM_EVENT(SIM_WHAT_CONNECT, qp->id, client ? client->id : 0, "q%u accepts q%u", qp->id,
		client ? client->id : 0);
	if (client) {
		qp->peer = client;
		client->peer = qp;
	}
	if (!client || nam__sim_is_gone(client->domain->process))
		nam__sim_qp_close_later(qp);
	else if (nam__sim_is_cut(client->domain->process, listener->domain->process))
		nam__sim_qp_broken(qp);
	decide(request, SIM_ACCEPTED, reply);
	*ret = &qp->pub;
	return 0;
}

void
nam__sim_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	(void)listener;
	decide(request, SIM_REJECTED,
		reply && reply->bytes <= NAM_REPLY_BYTES_MAX ? reply : NULL);
}

/*
 * Must not wait, like nam__sim_accept.  From here on the client keeps the request.  A second
 * challenge ends its attempt, as a rejection does.
 */
void
nam__sim_challenge(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_hello *challenge)
{
	struct sim_listener *listener = (struct sim_listener *)pub;

	if (challenge->bytes > NAM_REPLY_BYTES_MAX) {
		decide(request, SIM_REJECTED, NULL);
		return;
	}
	SIM_EVENT(SIM_WHAT_CONNECT, request->from, 1, "p%u is challenged", request->from);
	request->challenge = *challenge;
	request->number = ++listener->challenges;
	request->challenged_ns = nam__sim_here();
	decide(request, SIM_CHALLENGED, NULL);
}

void
nam__sim_listener_close(struct nam_listener *pub)
{
	struct sim_listener *listener = (struct sim_listener *)pub;
	struct nam_cm_request *request;

	if (!listener)
		return;
	while ((request = STAILQ_FIRST(&listener->arrived))) {
		STAILQ_REMOVE_HEAD(&listener->arrived, arrived_link);
		decide(request, SIM_REJECTED, NULL);
	}
	LIST_FOREACH(request, &nam__sim.requests, link)
		if (request->listener == listener)
			request->listener = NULL;
	LIST_REMOVE(listener, link);
	free(listener);
}

void
nam__sim_connect_end(void)
{
	while (!LIST_EMPTY(&nam__sim.requests))
		request_free(LIST_FIRST(&nam__sim.requests));
}
