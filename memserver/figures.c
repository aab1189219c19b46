/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c -- counts of a memory server, put together for STATUS and for monitoring. */
#include "index/server/tree.h"
#include "memserver_internal.h"

_Static_assert(NAM_RPC_TYPES_COUNT <= NAM_SERVICES_MAX, "each type has figures");

void
nam__count_refusal(struct nam_server *server, int rc)
{
	enum nam_refusal reason = NAM_REFUSED_OTHER;

	if (nam_err_is(rc, NAM_E_FABRIC_STARTING))
		reason = NAM_REFUSED_STARTING;
	else if (nam_err_is(rc, NAM_E_FABRIC_DENIED))
		reason = NAM_REFUSED_KEY;
	else if (nam_err_is(rc, NAM_E_FABRIC_SUCCESSOR) || nam_err_is(rc, NAM_E_FABRIC_MOVED))
		reason = NAM_REFUSED_OTHER;
	else if (nam_err_is(rc, NAM_E_LIMIT))
		reason = NAM_REFUSED_HANDLERS;
	else if (rc == -EDQUOT)
		reason = NAM_REFUSED_PEER;
	else if (rc == -EMFILE)
		reason = NAM_REFUSED_DESCRIPTORS;
	else if (nam_err_is(rc, NAM_E_FABRIC_TIMEOUT) || nam_err_is(rc, NAM_E_FABRIC_PEER_DEAD))
		reason = NAM_REFUSED_UNFINISHED;
	else if (nam_err_is(rc, NAM_E_FABRIC))
		reason = NAM_REFUSED_HELLO;
	else if (nam_err_is(rc, NAM_E_FENCED))
		reason = NAM_REFUSED_CLIENT;
	nam__count(&server->refused[reason], 1);
}

static uint64_t
load(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void
add_service(const struct nam__service_counts *counts, struct nam_service_figures *sum)
{
	sum->requests += load(&counts->requests);
	sum->failed += load(&counts->failed);
	sum->total_ns += load(&counts->total_ns);
	for (uint32_t i = 0; i < NAM_LATENCIES; i++)
		sum->within[i] += load(&counts->within[i]);
}

void
nam__figures(struct nam_server *server, struct nam_server_figures *ret)
{
	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&server->allocator.mutex);
	memcpy(ret->memory, server->allocator.memory, sizeof(ret->memory));
	pthread_mutex_unlock(&server->allocator.mutex);
	ret->accepted = load(&server->accepted);
	for (uint32_t i = 0; i < NAM_REFUSALS_COUNT; i++)
		ret->refused[i] = load(&server->refused[i]);
	for (uint32_t i = 0; i < NAM_SERVER_RESTARTS_COUNT; i++)
		ret->restarts[i] = load(&nam__tree_server_restarts[i]);
	for (uint32_t i = 0; i < server->options.rpc_threads; i++) {
		for (uint32_t type = 0; type < NAM_SERVICES_MAX; type++)
			add_service(&server->handlers[i].services[type], &ret->services[type]);
	}
}
