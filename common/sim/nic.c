/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.c -- network cards: what a message waits for on its way there and back.
 *
 * A card is a handful of servers that each do one thing at a time, in the order of asking.  One
 * sends messages, one serves those that arrive; each port has a wire in and a wire out; one is
 * PCIe.  Only the moment at which a server is free again is kept, so a message costs the same at
 * any load:
 *
 *	posted		its own card sends it; the wire out
 *	arrived		the wire in; the other card serves it, an atomic also its slot; PCIe there;
 *			the wire out, for the answer
 *	answered	the wire in; PCIe
 *
 * The round trip is the time of a lone small message; its rest is the time of travel.  Serving
 * takes part in a card's rate, not in the lone message's time.  A message's bytes pass the wire out
 * and the next wire in at the same time unless that one is busy.  Memory is touched when a message
 * arrives, as a whole, in the order in which the card serves messages.
 */
#include <stdlib.h>

#include "sim_internal.h"

#define PS 1000u		/* in a nanosecond: moments are kept in picoseconds */
#define SMALL_BYTES 64u		/* within the round trip */

/* All in picoseconds, but bytes. */
struct price {
	uint64_t in, out;
	uint64_t travel, loaded_travel;		/* one way */
	uint32_t request_bytes, response_bytes;
};

struct sim_nic {
	SLIST_ENTRY(sim_nic) link;
	uint32_t machine;
	uint32_t processes, queue_pairs;
	uint32_t in_flight;		/* that it sent */
	uint64_t out_free, in_free, pcie_free;
	uint64_t wire_out_free[NAM_SIM_PORTS_MAX], wire_in_free[NAM_SIM_PORTS_MAX];
	struct price price[SIM_CLASSES];
	double port_ps_per_byte, pcie_ps_per_byte;
	uint64_t word, miss_service, miss_latency;
	uint64_t *slot_free;
	uint32_t slots_mask;
	uint32_t *cached;		/* [entries]: the number of a queue pair */
	uint32_t entries;
	uint32_t outstanding;
	uint32_t packet_bytes;
};

/* ---- cards -------------------------------------------------------------------------------- */

static struct price
price_of(const struct nam_sim_network *network, const struct nam_sim_op_cost *cost)
{
	double cpu_ns = network->post_ns + network->completion_ns;
	double alone_ns = cost->round_trip_ns - cpu_ns;
	double loaded_ns = cost->loaded_round_trip_ns - cpu_ns;

	return (struct price){
		.in = (uint64_t)(1e6 / cost->in_per_us + 0.5),
		.out = (uint64_t)(1e6 / cost->out_per_us + 0.5),
		.travel = alone_ns > 0 ? (uint64_t)(alone_ns * PS / 2) : 0,
		.loaded_travel = loaded_ns > 0 ? (uint64_t)(loaded_ns * PS / 2) : 0,
		.request_bytes = (uint32_t)cost->request_bytes,
		.response_bytes = (uint32_t)cost->response_bytes,
	};
}

static struct sim_nic *
nic_new(const struct nam_sim_network *network)
{
	struct sim_nic *nic = nam__sim_alloc(sizeof(*nic));

	nic->price[SIM_READ] = price_of(network, &network->read);
	nic->price[SIM_WRITE] = price_of(network, &network->write);
	nic->price[SIM_ATOMIC] = price_of(network, &network->atomic);
	nic->price[SIM_SEND] = price_of(network, &network->send);
	nic->port_ps_per_byte = PS / network->port_bytes_per_ns;
	nic->pcie_ps_per_byte = PS / network->pcie_bytes_per_ns;
	nic->word = (uint64_t)(1e6 / network->word_per_us + 0.5);
	nic->miss_service = (uint64_t)(network->miss_service_ns * PS);
	nic->miss_latency = (uint64_t)(network->miss_latency_ns * PS);
	nic->slots_mask = (uint32_t)network->slots - 1;
	nic->slot_free = nam__sim_alloc((nic->slots_mask + 1) * sizeof(uint64_t));
	nic->entries = (uint32_t)network->queue_pairs;
	nic->cached = nam__sim_alloc(nic->entries * sizeof(uint32_t));
	nic->outstanding = (uint32_t)network->outstanding;
	nic->packet_bytes = (uint32_t)network->packet_bytes;
	SLIST_INSERT_HEAD(&nam__sim.nics, nic, link);
	return nic;
}

void
nam__sim_flow_begin(struct sim_flow *flow, struct nam_sim_process *process)
{
	const struct nam_sim_network *network = nam__sim.options.network;
	struct sim_nic *nic;

	if (!network)
		return;
	if (!process->nic) {
		SLIST_FOREACH(nic, &nam__sim.nics, link)
			if (process->machine && nic->machine == process->machine)
				break;
		nic = nic ?: nic_new(network);
		nic->machine = process->machine;
		process->port = nic->processes++ % (uint32_t)network->ports;
		process->nic = nic;
	}
	flow->nic = process->nic;
	flow->port = (uint8_t)process->port;
	flow->number = ++flow->nic->queue_pairs;
}

void
nam__sim_nics_end(void)
{
	struct sim_nic *nic;

	while ((nic = SLIST_FIRST(&nam__sim.nics))) {
		SLIST_REMOVE_HEAD(&nam__sim.nics, link);
		free(nic->slot_free);
		free(nic->cached);
		free(nic);
	}
}

/* ---- servers ------------------------------------------------------------------------------ */

/* When it begins with us. */
static inline uint64_t
take(uint64_t *free_at, uint64_t at, uint64_t service)
{
	if (at < *free_at)
		at = *free_at;
	*free_at = at + service;
	return at;
}

static inline uint64_t
wire_bytes(const struct sim_nic *nic, uint32_t bytes, uint32_t header_bytes)
{
	uint32_t packets = bytes <= nic->packet_bytes ? 1 :
		(bytes + nic->packet_bytes - 1) / nic->packet_bytes;

	return bytes + (uint64_t)packets * header_bytes;
}

/* When the last byte has left, but for those of a small message, which the round trip counts. */
static uint64_t
wire_out(struct sim_nic *nic, uint32_t port, uint64_t at, uint32_t bytes, uint32_t header_bytes)
{
	uint64_t all = wire_bytes(nic, bytes, header_bytes), small = header_bytes + SMALL_BYTES;

	at = take(&nic->wire_out_free[port], at, (uint64_t)((double)all * nic->port_ps_per_byte));
	return at + (all > small ? (uint64_t)((double)(all - small) * nic->port_ps_per_byte) : 0);
}

/* When the last byte has come, whose first left that much earlier. */
static uint64_t
wire_in(struct sim_nic *nic, uint32_t port, uint64_t at, uint32_t bytes, uint32_t header_bytes)
{
	uint64_t ps = (uint64_t)((double)wire_bytes(nic, bytes, header_bytes) *
		nic->port_ps_per_byte);
	uint64_t *free_at = &nic->wire_in_free[port];

	if (at < *free_at + ps)
		at = *free_at + ps;
	*free_at = at;
	return at;
}

static uint64_t
pcie(struct sim_nic *nic, uint64_t at, uint32_t bytes)
{
	return take(&nic->pcie_free, at, (uint64_t)((double)bytes * nic->pcie_ps_per_byte));
}

/* When an engine begins with a message of that queue pair, whose state the card may lack. */
static uint64_t
engine(struct sim_nic *nic, uint64_t *free_at, uint64_t at, uint64_t service, uint32_t number)
{
	uint32_t *entry = &nic->cached[number % nic->entries];

	if (*entry == number)
		return take(free_at, at, service);
	*entry = number;
	return take(free_at, at, service + nic->miss_service) + nic->miss_latency;
}

static inline bool
fetches(const struct sim_message *message)
{
	return message->class == SIM_READ || message->class == SIM_ATOMIC;
}

/* The bytes that a request carries there and its answer back. */
static inline uint32_t
bytes_there(const struct sim_message *message)
{
	return fetches(message) ? 0 : message->bytes;
}

static inline uint32_t
bytes_back(const struct sim_message *message)
{
	return fetches(message) ? message->bytes : 0;
}

static inline uint64_t
travel(const struct sim_message *message)
{
	const struct sim_flow *flow = &message->qp->flow;
	const struct price *price = &flow->nic->price[message->class];

	return flow->nic->in_flight > flow->in_flight ? price->loaded_travel : price->travel;
}

/* ---- there -------------------------------------------------------------------------------- */

static void
set_out(struct sim_message *message)
{
	struct sim_flow *flow = &message->qp->flow;
	struct sim_nic *nic = flow->nic;
	const struct price *price = &nic->price[message->class];
	uint64_t at;

	at = engine(nic, &nic->out_free, nam__sim_here() * PS, price->out, flow->number);
	if (bytes_there(message))
		at = pcie(nic, at, message->bytes);
	at = wire_out(nic, flow->port, at, bytes_there(message), price->request_bytes);
	flow->in_flight++;
	nic->in_flight++;
	flow->fetching += fetches(message);
	message->in_flight = true;
	message->state = SIM_STEPS;
	at = (at + travel(message)) / PS;
	if (at < flow->arrived_ns)
		at = flow->arrived_ns;
	flow->arrived_ns = at;
	nam__sim_plan(&message->event, at);
}

static inline bool
may_set_out(const struct sim_flow *flow, const struct sim_message *message)
{
	return !((message->flags & NAM_WR_FENCE) && flow->fetching) &&
	       !(fetches(message) && flow->fetching >= flow->nic->outstanding);
}

void
nam__sim_send(struct sim_qp *qp, struct sim_message *message)
{
	struct sim_flow *flow = &qp->flow;

	message->served = false;
	message->received = false;
	if (!flow->blocked && may_set_out(flow, message)) {
		set_out(message);
		return;
	}
	if (!flow->blocked)
		flow->blocked = message;
	message->state = SIM_HELD;
	qp->held++;
}

bool
nam__sim_serve(struct sim_message *message)
{
	struct sim_flow *to = &message->qp->peer->flow;
	struct sim_nic *nic = to->nic;
	const struct price *price = &nic->price[message->class];
	const uint64_t now = nam__sim.now * PS;
	uint64_t at;

	if (message->served)
		return true;
	message->served = true;
	at = wire_in(nic, to->port, now, bytes_there(message), price->request_bytes);
	at = engine(nic, &nic->in_free, at, price->in, to->number);
	if (message->class == SIM_ATOMIC)
		at = take(&nic->slot_free[message->remote & nic->slots_mask], at, nic->word);
	else
		at = pcie(nic, at, message->bytes);
	if (message->class == SIM_SEND && at / PS > nam__sim.now) {
		message->answer_ns = (uint32_t)(travel(message) / PS);
		nam__sim_plan(&message->event, at / PS);
		return false;
	}
	at = wire_out(nic, to->port, at, bytes_back(message), price->response_bytes);
	message->answer_ns = (uint32_t)((at + travel(message) - now) / PS);
	return true;
}

/* ---- datagrams: no answer comes ----------------------------------------------------------- */

uint64_t
nam__sim_datagram_out(struct sim_flow *flow, uint32_t bytes)
{
	struct sim_nic *nic = flow->nic;
	const struct price *price = &nic->price[SIM_SEND];
	uint64_t at;

	at = engine(nic, &nic->out_free, nam__sim_here() * PS, price->out, flow->number);
	at = pcie(nic, at, bytes);
	at = wire_out(nic, flow->port, at, bytes, price->request_bytes);
	return (at + (nic->in_flight ? price->loaded_travel : price->travel)) / PS;
}

uint64_t
nam__sim_datagram_in(struct sim_flow *flow, uint32_t bytes)
{
	struct sim_nic *nic = flow->nic;
	const struct price *price = &nic->price[SIM_SEND];
	uint64_t at;

	at = wire_in(nic, flow->port, nam__sim.now * PS, bytes, price->request_bytes);
	return pcie(nic, engine(nic, &nic->in_free, at, price->in, flow->number), bytes) / PS;
}

/* ---- and back ----------------------------------------------------------------------------- */

bool
nam__sim_receive(struct sim_message *message)
{
	struct sim_flow *flow = &message->qp->flow;
	struct sim_nic *nic = flow->nic;
	uint64_t at = nam__sim.now * PS;

	if (!message->received) {
		message->received = true;
		at = wire_in(nic, flow->port, at, bytes_back(message),
			nic->price[message->class].response_bytes);
		if (bytes_back(message))
			at = pcie(nic, at, message->bytes);
		if (at / PS > nam__sim.now) {
			nam__sim_plan(&message->event, at / PS);
			return false;
		}
	}
	nam__sim_flight_end(message);
	return true;
}

void
nam__sim_flight_end(struct sim_message *message)
{
	struct sim_qp *qp = message->qp;
	struct sim_flow *flow = &qp->flow;

	if (!message->in_flight)
		return;
	message->in_flight = false;
	flow->in_flight--;
	flow->nic->in_flight--;
	flow->fetching -= fetches(message);
	while (flow->blocked && may_set_out(flow, flow->blocked)) {
		struct sim_message *next = flow->blocked;

		flow->blocked = STAILQ_NEXT(next, link);
		qp->held--;
		set_out(next);
	}
}
