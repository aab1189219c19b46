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

/* The queue pair is the caller's if that is 0. */
static int
answered(struct nam_cm_request *request, struct nam_hello *reply, const char *address,
	struct nam_diag *diag)
{
	int answer = request->answer;

	if (!answer) {
		/* The listener will find that the client has gone. */
		request->qp = NULL;
		request->waiter = NULL;
		return nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "%s: the memory server does not "
			"answer", address);
	}
	if (reply)
		*reply = request->reply;
	request_free(request);
	if (answer > 0)
		return 0;
	if (reply && reply->bytes)
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
	uint64_t until;
	int rc = name_of(address, &name, diag);

	if (reply)
		reply->bytes = reply->absent = 0;
	if (rc)
		return rc;
	if (hello && hello->bytes > NAM_HELLO_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "hello of %u bytes", hello->bytes);
	if (!nam__sim_is_gone(domain->process))
		listener = listener_find(name);
	if (!listener) {
		(void)nam__sim_wait(nam__sim_here() + 2 * way());
		if (reply)
			reply->absent = 1;
		return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "%s: no memory server listens "
			"there", address);
	}
	qp = nam__sim_qp_new(domain, options);
	if (!qp)
		return nam_diag_set(diag, -EINVAL, "%s: no queue pair", address);
	request = ask(listener, qp, hello);
	until = nam__sim_after(pub->patience_ns ?: SIM_CONNECT_NS);
	while (!request->answer && nam__sim_here() < until && !nam__sim_is_gone(domain->process))
		(void)nam__sim_wait(until);
	rc = answered(request, reply, address, diag);
	if (rc)
		nam__sim_qp_destroy(&qp->pub);
	else
		*ret = &qp->pub;
	return rc;
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
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return nam_diag_set(diag, -ENOMEM, "no memory for a listener");
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
answer(struct nam_cm_request *request, int how, const struct nam_hello *reply)
{
	if (!request->qp) {
		request_free(request);
		return;
	}
	if (reply)
		request->reply = *reply;
	request->answer = how;
	nam__sim_wake(request->waiter, way());
}

static void
request_due(struct sim_event *event)
{
	struct nam_cm_request *request = (struct nam_cm_request *)event;
	struct sim_listener *listener = request->listener;

	SIM_EVENT(SIM_WHAT_CONNECT, request->from, 0, "p%u asks to connect", request->from);
	/* Its process may have died meanwhile. */
	if (!listener || !listener->name[0]) {
		answer(request, -1, NULL);
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
		return 0;
	STAILQ_REMOVE_HEAD(&listener->arrived, arrived_link);
	memset(event, 0, sizeof(*event));
	event->kind = NAM_CM_REQUEST;
	event->request = request;
	event->hello = request->hello;
	(void)snprintf(event->peer, sizeof(event->peer), "simulated process %u", request->from);
	return 1;
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
	struct sim_qp *client = request->qp, *qp;

	if (reply && reply->bytes > NAM_HELLO_BYTES_MAX) {
		answer(request, -1, NULL);
		return -EINVAL;
	}
	qp = nam__sim_qp_new(listener->domain, options);
	if (!qp) {
		answer(request, -1, NULL);
		return -EINVAL;
	}
	SIM_EVENT(SIM_WHAT_CONNECT, qp->id, client ? client->id : 0, "q%u accepts q%u", qp->id,
		client ? client->id : 0);
	if (client) {
		qp->peer = client;
		client->peer = qp;
	}
	if (!client || nam__sim_is_gone(client->domain->process))
		nam__sim_qp_close_later(qp);
	answer(request, 1, reply);
	*ret = &qp->pub;
	return 0;
}

void
nam__sim_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	(void)listener;
	answer(request, -1, reply && reply->bytes <= NAM_HELLO_BYTES_MAX ? reply : NULL);
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
		answer(request, -1, NULL);
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
