/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- the figures of a process's memory servers in the text format of Prometheus. */
#include <inttypes.h>

#include "memserver/move/host.h"

#define SERVERS_MAX NAM_MOVE_HOSTED_MAX	/* hosted ones have the numbers from 1 on */

struct scrape {
	FILE *to;
	uint32_t count;
	struct nam_rpc_status_reply servers[SERVERS_MAX];	/* the process's own is the first */
};

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

static void
family(FILE *to, const char *name, const char *type, const char *help)
{
	(void)fprintf(to, "# HELP nam_%s %s\n# TYPE nam_%s %s\n", name, help, name, type);
}

/* Print a member of the status that has 4 or 8 bytes. */
static void
single(const struct scrape *scrape, const char *name, const char *type, const char *help,
	size_t offset, size_t size)
{
	family(scrape->to, name, type, help);
	for (uint32_t i = 0; i < scrape->count; i++) {
		const struct nam_rpc_status_reply *status = &scrape->servers[i];
		const void *at = (const uint8_t *)status + offset;
		uint64_t value = size == sizeof(uint32_t) ? *(const uint32_t *)at :
			*(const uint64_t *)at;

		(void)fprintf(scrape->to, "nam_%s{id=\"%u\"} %" PRIu64 "\n", name,
			status->server_id, value);
	}
}

static void
write_singles(const struct scrape *scrape)
{
#define MEMBER(name)                                                                                \
	offsetof(struct nam_rpc_status_reply, name),                                                \
		sizeof(((struct nam_rpc_status_reply *)NULL)->name)
	single(scrape, "phase", "gauge", "0: it serves; 1, 2: memory moves to it; 3: its memory "
		"has moved away.", MEMBER(phase));
	single(scrape, "regions", "gauge", "Regions of memory.", MEMBER(regions));
	single(scrape, "clients", "gauge", "Clients that are alive; server 0 knows.",
		MEMBER(clients));
	single(scrape, "indexes", "gauge", "Indexes in the catalog; server 0 has it.",
		MEMBER(indexes));
	single(scrape, "stores", "gauge", "Key-value stores in the catalog; server 0 has it.",
		MEMBER(stores));
	single(scrape, "connections", "gauge", "Connections.", MEMBER(connections));
	single(scrape, "connections_accepted_total", "counter", "Connections that were accepted.",
		MEMBER(figures.accepted));
#undef MEMBER
}

static void
write_info(const struct scrape *scrape)
{
	family(scrape->to, "info", "gauge", "The memory servers of the process.");
	for (uint32_t i = 0; i < scrape->count; i++)
		(void)fprintf(scrape->to, "nam_info{id=\"%u\",version=\"%s\"} 1\n",
			scrape->servers[i].server_id, scrape->servers[i].version);
	family(scrape->to, "uptime_seconds", "gauge", "Since the start.");
	for (uint32_t i = 0; i < scrape->count; i++)
		(void)fprintf(scrape->to, "nam_uptime_seconds{id=\"%u\"} %.3f\n",
			scrape->servers[i].server_id, (double)scrape->servers[i].uptime_ns / 1e9);
}

static void
write_memory(const struct scrape *scrape)
{
	static const char *const names[NAM_MEMORY_KINDS] = { "public", "private", "read_only" };

	family(scrape->to, "memory_bytes", "gauge", "Memory by kind and state. Kinds: public "
		"(blocks of clients), private (trees and key-value stores), read_only (buckets "
		"that clients read). States: untouched, used, free (given back), waiting (given "
		"back, but a client may still read it).");
	for (uint32_t i = 0; i < scrape->count * NAM_MEMORY_KINDS; i++) {
		const struct nam_rpc_status_reply *status = &scrape->servers[i / NAM_MEMORY_KINDS];
		uint32_t kind = i % NAM_MEMORY_KINDS;
		const struct nam_memory_figures *m = &status->figures.memory[kind];
		const struct {
			const char *state;
			uint64_t bytes;
		} states[] = {
			{ "untouched", m->bytes - m->carved_bytes },
			{ "used", m->carved_bytes - m->free_bytes - m->waiting_bytes },
			{ "free", m->free_bytes },
			{ "waiting", m->waiting_bytes },
		};

		for (size_t j = 0; j < sizeof(states) / sizeof(states[0]); j++)
			(void)fprintf(scrape->to, "nam_memory_bytes{id=\"%u\",kind=\"%s\","
				"state=\"%s\"} %" PRIu64 "\n", status->server_id, names[kind],
				states[j].state, states[j].bytes);
	}
}

static void
write_refusals(const struct scrape *scrape)
{
#define TEXT(name, text) text,
	static const char *const reasons[] = { NAM_REFUSALS(TEXT) };
#undef TEXT

	family(scrape->to, "refusals_total", "counter", "Connections that were refused.");
	for (uint32_t i = 0; i < scrape->count; i++)
		for (uint32_t j = 0; j < NAM_REFUSALS_COUNT; j++)
			(void)fprintf(scrape->to, "nam_refusals_total{id=\"%u\",reason=\"%s\"} %"
				PRIu64 "\n", scrape->servers[i].server_id, reasons[j],
				scrape->servers[i].figures.refused[j]);
}

/* The process has these once, for all of its memory servers. */
static void
write_process(FILE *to, const struct nam_rpc_status_reply *own)
{
#define TEXT(name, text) text,
	static const char *const causes[] = { NAM_SERVER_RESTARTS(TEXT) };
#undef TEXT

	family(to, "spare_bytes", "gauge", "For more memory that moves to the process.");
	(void)fprintf(to, "nam_spare_bytes %" PRIu64 "\n", own->spare_bytes);
	family(to, "restarts_total", "counter", "Second looks of handlers at a node of a tree.");
	for (uint32_t i = 0; i < NAM_SERVER_RESTARTS_COUNT; i++)
		(void)fprintf(to, "nam_restarts_total{cause=\"%s\"} %" PRIu64 "\n", causes[i],
			own->figures.restarts[i]);
}

static void
write_latency(FILE *to, const char *labels, const struct nam_service_figures *figures)
{
	uint64_t bound_ns = NAM_LATENCY_FIRST_NS, within = 0;

	for (uint32_t i = 0; i < NAM_LATENCIES; i++, bound_ns *= 4) {
		within += figures->within[i];
		(void)fprintf(to, "nam_request_seconds_bucket{%s,le=\"%.6f\"} %" PRIu64 "\n",
			labels, (double)bound_ns / 1e9, within);
	}
	(void)fprintf(to, "nam_request_seconds_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n"
		"nam_request_seconds_sum{%s} %.9f\n"
		"nam_request_seconds_count{%s} %" PRIu64 "\n", labels, figures->requests, labels,
		(double)figures->total_ns / 1e9, labels, figures->requests);
}

static void
write_failures(FILE *to, const char *labels, const struct nam_service_figures *figures)
{
	(void)fprintf(to, "nam_request_failures_total{%s} %" PRIu64 "\n", labels, figures->failed);
}

/* Types without a request have no lines. */
static void
write_services(const struct scrape *scrape,
	void (*write)(FILE *to, const char *labels, const struct nam_service_figures *figures))
{
	char labels[64];

	for (uint32_t i = 0; i < scrape->count; i++)
		for (uint16_t j = 0; j < NAM_RPC_TYPES_COUNT; j++) {
			if (!scrape->servers[i].figures.services[j].requests)
				continue;
			(void)snprintf(labels, sizeof(labels), "id=\"%u\",service=\"%s\"",
				scrape->servers[i].server_id,
				j ? nam_rpc_type_name(j) : "MALFORMED");
			write(scrape->to, labels, &scrape->servers[i].figures.services[j]);
		}
}

/* With the mutex of the host, so nothing is written meanwhile. */
static int
collect(struct nam_server *server, void *arg)
{
	struct scrape *scrape = arg;

	if (scrape->count < SERVERS_MAX)
		nam__status(server, &scrape->servers[scrape->count++]);
	return 0;
}

int
nam_server_metrics(struct nam_server *server, FILE *to)
{
	struct scrape *scrape = calloc(1, sizeof(*scrape));

	if (!scrape)
		return -ENOMEM;
	scrape->to = to;
	(void)collect(server, scrape);
	(void)nam__hosted_each(server, collect, scrape);
	write_info(scrape);
	write_memory(scrape);
	write_singles(scrape);
	write_refusals(scrape);
	write_process(to, &scrape->servers[0]);
	family(to, "request_seconds", "histogram", "Time that a service takes for a request, "
		"without queues and the network.");
	write_services(scrape, write_latency);
	family(to, "request_failures_total", "counter", "Requests that were answered with an "
		"error.");
	write_services(scrape, write_failures);
	free(scrape);
	return 0;
}
