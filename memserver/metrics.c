/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- the figures of a memory server in the text format of Prometheus. */
#include <inttypes.h>

#include "memserver_internal.h"

static void
family(FILE *to, const char *name, const char *type, const char *help)
{
	(void)fprintf(to, "# HELP nam_%s %s\n# TYPE nam_%s %s\n", name, help, name, type);
}

static void
single(FILE *to, const char *name, const char *type, const char *help, uint64_t value)
{
	family(to, name, type, help);
	(void)fprintf(to, "nam_%s %" PRIu64 "\n", name, value);
}

static void
write_memory(FILE *to, const struct nam_memory_figures *kinds)
{
	static const char *const names[NAM_MEMORY_KINDS] = { "public", "private",
		"read_only" };

	family(to, "memory_bytes", "gauge", "Memory by kind (public: blocks of clients; private: "
		"trees and key-value stores; read_only: buckets that clients read) and state "
		"(untouched, used, free: given back, waiting: given back, but a client may still "
		"read it).");
	for (uint32_t i = 0; i < NAM_MEMORY_KINDS; i++) {
		const struct nam_memory_figures *m = &kinds[i];
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
			(void)fprintf(to, "nam_memory_bytes{kind=\"%s\",state=\"%s\"} %" PRIu64
				"\n", names[i], states[j].state, states[j].bytes);
	}
}

static void
write_causes(FILE *to, const char *name, const char *label, const char *help,
	const char *const *causes, const uint64_t *counts, uint32_t count)
{
	family(to, name, "counter", help);
	for (uint32_t i = 0; i < count; i++)
		(void)fprintf(to, "nam_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, causes[i],
			counts[i]);
}

/* Types without a request have no lines. */
static void
write_latency(FILE *to, const char *service, const struct nam_service_figures *figures)
{
	uint64_t bound_ns = NAM_LATENCY_FIRST_NS, within = 0;

	for (uint32_t i = 0; i < NAM_LATENCIES; i++, bound_ns *= 4) {
		within += figures->within[i];
		(void)fprintf(to, "nam_request_seconds_bucket{service=\"%s\",le=\"%.6f\"} %" PRIu64
			"\n", service, (double)bound_ns / 1e9, within);
	}
	(void)fprintf(to, "nam_request_seconds_bucket{service=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
		"nam_request_seconds_sum{service=\"%s\"} %.9f\n"
		"nam_request_seconds_count{service=\"%s\"} %" PRIu64 "\n", service,
		figures->requests, service, (double)figures->total_ns / 1e9, service,
		figures->requests);
}

static void
write_services(FILE *to, const struct nam_service_figures *services)
{
	family(to, "request_seconds", "histogram", "Time that a service takes for a request, "
		"without queues and the network.");
	for (uint16_t i = 0; i < NAM_RPC_TYPES_COUNT; i++) {
		if (services[i].requests)
			write_latency(to, i ? nam_rpc_type_name(i) : "MALFORMED", &services[i]);
	}
	family(to, "request_failures_total", "counter", "Requests that were answered with an "
		"error.");
	for (uint16_t i = 0; i < NAM_RPC_TYPES_COUNT; i++) {
		if (services[i].requests)
			(void)fprintf(to, "nam_request_failures_total{service=\"%s\"} %" PRIu64
				"\n", i ? nam_rpc_type_name(i) : "MALFORMED", services[i].failed);
	}
}

void
nam_server_metrics(struct nam_server *server, FILE *to)
{
#define TEXT(name, text) text,
	static const char *const refusals[] = { NAM_REFUSALS(TEXT) };
	static const char *const restarts[] = { NAM_SERVER_RESTARTS(TEXT) };
#undef TEXT
	struct nam_rpc_status_reply status;

	nam__status(server, &status);
	family(to, "info", "gauge", "The memory server.");
	(void)fprintf(to, "nam_info{id=\"%u\",version=\"%s\"} 1\n", status.server_id,
		status.version);
	family(to, "uptime_seconds", "gauge", "Since the start.");
	(void)fprintf(to, "nam_uptime_seconds %.3f\n", (double)status.uptime_ns / 1e9);
	write_memory(to, status.figures.memory);
	single(to, "regions", "gauge", "Regions of memory.", status.regions);
	single(to, "clients", "gauge", "Clients that are alive; server 0 knows.", status.clients);
	single(to, "indexes", "gauge", "Indexes in the catalog; server 0 has it.", status.indexes);
	single(to, "stores", "gauge", "Key-value stores in the catalog; server 0 has it.",
		status.stores);
	single(to, "connections", "gauge", "Connections.", status.connections);
	single(to, "connections_accepted_total", "counter", "Connections that were accepted.",
		status.figures.accepted);
	write_causes(to, "refusals_total", "reason", "Connections that were refused.", refusals,
		status.figures.refused, NAM_REFUSALS_COUNT);
	write_causes(to, "restarts_total", "cause", "Second looks of handlers at a node of a tree.",
		restarts, status.figures.restarts, NAM_SERVER_RESTARTS_COUNT);
	write_services(to, status.figures.services);
}
