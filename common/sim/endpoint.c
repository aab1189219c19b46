/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c -- endpoints: datagrams between processes that are lost, late, doubled, overtaken.
 *
 * A datagram under way is one event, and with a network two: it reaches the other card, and then
 * memory.  With a network none is lost but for lack of room.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define WAY_NS 2000u
#define LATE_ONE_IN 16u
#define RECEIVES_MAX 512u	/* datagrams that wait for their receiver */

struct sim_datagram {
	struct sim_event event;		/* first: it arrives */
	LIST_ENTRY(sim_datagram) link;	/* sim.datagrams: those under way */
	STAILQ_ENTRY(sim_datagram) arrived_link;
	uint32_t to;			/* number of an endpoint */
	uint32_t bytes;
	bool served;			/* the other card has had it */
	uint8_t data[NAM_DATAGRAM_BYTES_MAX];
};

struct sim_endpoint {
	struct nam_endpoint pub;
	struct nam_sim_process *process;
	struct sim_cq *cq;
	void *context;
	STAILQ_HEAD(, sim_datagram) arrived;
	uint32_t arrived_count;
	uint32_t number;
	struct sim_flow flow;
};

static void due(struct sim_event *event);

int
nam__sim_endpoint_open(struct nam_domain *pub, struct nam_cq *cq, void *context,
	struct nam_endpoint_name *ret_name, struct nam_endpoint **ret)
{
	struct sim_domain *domain = (struct sim_domain *)pub;
	struct sim *sim = &nam__sim;
	struct sim_endpoint *endpoint = nam__sim_alloc(sizeof(*endpoint));

	sim->endpoints = nam__sim_grow(sim->endpoints, sim->endpoints_count, &sim->endpoints_size,
		sizeof(*sim->endpoints));
	/* No endpoint has number 0. */
	if (!sim->endpoints_count)
		sim->endpoints[sim->endpoints_count++] = NULL;
	endpoint->pub.ops = pub->ops;
	endpoint->process = domain->process;
	endpoint->cq = (struct sim_cq *)cq;
	endpoint->context = context;
	endpoint->number = sim->endpoints_count;
	STAILQ_INIT(&endpoint->arrived);
	nam__sim_flow_begin(&endpoint->flow, domain->process);
	sim->endpoints[sim->endpoints_count++] = endpoint;
	*ret_name = (struct nam_endpoint_name){ .number = endpoint->number };
	*ret = &endpoint->pub;
	return 0;
}

int
nam__sim_endpoint_place(struct nam_endpoint *endpoint, const uint8_t *place, uint32_t *ret_handle)
{
	(void)endpoint, (void)place;
	*ret_handle = 0;	/* numbers say everything here */
	return 0;
}

/* ---- on the way --------------------------------------------------------------------------- */

static void
set_out(struct sim_endpoint *from, uint32_t to, const void *data, uint32_t bytes)
{
	struct sim *sim = &nam__sim;
	struct sim_datagram *datagram = nam__sim_alloc(sizeof(*datagram));
	uint64_t late_ns = WAY_NS, at;

	datagram->event.due = due;
	datagram->to = to;
	datagram->bytes = bytes;
	memcpy(datagram->data, data, bytes);
	LIST_INSERT_HEAD(&sim->datagrams, datagram, link);
	if (sim->options.network) {
		at = nam__sim_datagram_out(&from->flow, bytes);
	} else {
		if (!nam_rng_below(&sim->chance, LATE_ONE_IN))
			late_ns = sim->options.faults.late_ns;
		at = nam__sim_here() + sim->options.slowness *
			(1 + nam_rng_below(&sim->chance, late_ns + 1));
	}
	nam__sim_plan(&datagram->event, at);
}

void
nam__sim_endpoint_send(struct nam_endpoint *pub, uint32_t handle, uint32_t number,
	const void *data, uint32_t bytes)
{
	struct sim *sim = &nam__sim;
	struct sim_endpoint *endpoint = (struct sim_endpoint *)pub;
	unsigned copies = 1;

	(void)handle;
	if (!bytes || bytes > NAM_DATAGRAM_BYTES_MAX)
		return;
	nam__sim_work(sim->options.network ? (uint64_t)sim->options.network->post_ns : 0);
	SIM_EVENT(SIM_WHAT_POST, number, bytes, "endpoint e%u sends %u bytes to e%u",
		endpoint->number, bytes, number);
	if (nam__sim_drawn(endpoint->process, sim->options.faults.lose)) {
		sim->counts.lost++;
		copies = 0;
	} else if (nam__sim_drawn(endpoint->process, sim->options.faults.twice)) {
		sim->counts.twice++;
		copies = 2;
	}
	while (copies--)
		set_out(endpoint, number, data, bytes);
}

static void
forget(struct sim_datagram *datagram)
{
	LIST_REMOVE(datagram, link);
	free(datagram);
}

static void
due(struct sim_event *event)
{
	struct sim *sim = &nam__sim;
	struct sim_datagram *datagram = (struct sim_datagram *)event;
	struct sim_endpoint *to = datagram->to < sim->endpoints_count ?
		sim->endpoints[datagram->to] : NULL;
	struct nam_wc wc = { .op = NAM_WC_DATAGRAM };

	if (!to || nam__sim_is_gone(to->process) || to->arrived_count >= RECEIVES_MAX) {
		forget(datagram);
		return;
	}
	if (sim->options.network && !datagram->served) {
		datagram->served = true;
		nam__sim_plan(event, nam__sim_datagram_in(&to->flow, datagram->bytes));
		return;
	}
	SIM_EVENT(SIM_WHAT_RECV, to->number, datagram->bytes, "%u bytes arrive at endpoint e%u",
		datagram->bytes, to->number);
	STAILQ_INSERT_TAIL(&to->arrived, datagram, arrived_link);
	to->arrived_count++;
	wc.context = to->context;
	nam__sim_cq_push(to->cq, &wc);
}

/* ---- arrived ------------------------------------------------------------------------------ */

uint32_t
nam__sim_endpoint_receive(struct nam_endpoint *pub, void *data)
{
	struct sim_endpoint *endpoint = (struct sim_endpoint *)pub;
	struct sim_datagram *datagram = STAILQ_FIRST(&endpoint->arrived);
	uint32_t bytes;

	if (!datagram)
		return 0;
	STAILQ_REMOVE_HEAD(&endpoint->arrived, arrived_link);
	endpoint->arrived_count--;
	bytes = datagram->bytes;
	memcpy(data, datagram->data, bytes);
	forget(datagram);
	return bytes;
}

void
nam__sim_endpoint_close(struct nam_endpoint *pub)
{
	struct sim_endpoint *endpoint = (struct sim_endpoint *)pub;
	struct sim_datagram *datagram;

	if (!endpoint)
		return;
	while ((datagram = STAILQ_FIRST(&endpoint->arrived))) {
		STAILQ_REMOVE_HEAD(&endpoint->arrived, arrived_link);
		forget(datagram);
	}
	nam__sim.endpoints[endpoint->number] = NULL;
	free(endpoint);
}

void
nam__sim_endpoints_end(void)
{
	struct sim_datagram *datagram;

	while ((datagram = LIST_FIRST(&nam__sim.datagrams)))
		forget(datagram);
	free(nam__sim.endpoints);
	nam__sim.endpoints = NULL;
}
