/* SPDX-License-Identifier: Apache-2.0 */
/* info.c -- services that only tell: PING, ECHO, REGIONS, STATUS. */
#include <stdio.h>
#include <unistd.h>

#include "common/version.h"
#include "index/server/tree.h"
#include "memserver/admission/admit.h"
#include "memserver/move/host.h"

_Static_assert(NAM_RPC_TYPES_COUNT <= NAM_SERVICES_MAX, "each type has figures");

int
nam__service_ping(struct nam__exchange *exchange)
{
	memcpy(exchange->reply, exchange->body, exchange->body_bytes);
	exchange->reply_bytes = exchange->body_bytes;
	return 0;
}

int
nam__service_echo(struct nam__exchange *exchange)
{
	const struct nam_rpc_echo_request *request = exchange->body;
	uint8_t *reply = exchange->reply;

	if (request->reply_bytes > NAM_RPC_BODY_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->reply_bytes; i++)
		reply[i] = (uint8_t)(request->seed + i);
	exchange->reply_bytes = request->reply_bytes;
	return 0;
}

int
nam__service_regions(struct nam__exchange *exchange)
{
	const struct nam_rpc_regions_request *request = exchange->body;
	const struct nam__memory *memory = &exchange->server->memory;
	const struct nam__alloc_region *regions = exchange->server->allocator.regions;
	const struct nam__auth_name name = { exchange->connection->proven.print,
		request->client_id, request->incarnation };
	struct nam_rpc_regions_reply *reply = exchange->reply;
	int rc = 0;

	if (request->client_id >= NAM_CLIENTS_MAX || !request->client_id != !request->incarnation)
		return -NAM_E_FABRIC_PROTOCOL;
	/* A client's connections wait for its memory. */
	if (request->client_id && atomic_load(&exchange->server->phase))
		return -NAM_E_FABRIC_SUCCESSOR;
	if (request->client_id && !nam__auth_vouched_name(exchange->server, &name,
			(const uint8_t *)(request + 1),
			exchange->body_bytes - (uint32_t)sizeof(*request)))
		return -NAM_E_FABRIC_DENIED;
	if (request->client_id)
		rc = nam__membership_name(&exchange->server->membership, exchange->connection,
			request->client_id, request->incarnation);
	if (rc)
		return rc;
	reply->total = memory->count;
	reply->count = 0;
	reply->newest = __atomic_load_n(&exchange->server->membership.newest_of_all,
		__ATOMIC_RELAXED);
	for (uint32_t at = request->first; at < memory->count &&
		reply->count < NAM_RPC_REGIONS_PER_REPLY; at++)
		reply->regions[reply->count++] = (struct nam_rpc_region){
			.id = (uint16_t)(nam__first_region_id(exchange->server) + at),
			.kind = (uint16_t)atomic_load_explicit(&regions[at].announced,
				memory_order_relaxed),
			/* region_restore may change it meanwhile. */
			.rkey = __atomic_load_n(&memory->mrs[at].rkey, __ATOMIC_RELAXED),
			.remote = memory->mrs[at].remote,
			.bytes = memory->mrs[at].bytes,
		};
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		reply->count * sizeof(reply->regions[0]));
	return 0;
}

int
nam__service_colocated(struct nam__exchange *exchange)
{
	const struct nam_rpc_colocated_request *request = exchange->body;
	struct nam_server *server = exchange->server;
	struct nam_rpc_colocated_reply *reply = exchange->reply;

	memset(reply, 0, sizeof(*reply));
	reply->proof = server->proof.fd;
	if (reply->proof >= 0) {
		nam__proof_write(&server->proof, request->nonce);
		nam__boot_id(reply->boot_id);
		reply->pid = (uint64_t)getpid();
		reply->device = server->domain->limits.device;
		reply->count = server->memory.count;
	}
	for (uint32_t i = 0; i < reply->count; i++)
		reply->files[i] = server->memory.mrs[i].fd;
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) +
		reply->count * sizeof(reply->files[0]));
	return 0;
}

static uint64_t
load(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void
figures(struct nam_server *server, struct nam_server_figures *ret)
{
	pthread_mutex_lock(&server->allocator.mutex);
	memcpy(ret->memory, server->allocator.memory, sizeof(ret->memory));
	pthread_mutex_unlock(&server->allocator.mutex);
	ret->accepted = load(&server->accepted);
	for (uint32_t i = 0; i < NAM_REFUSALS_COUNT; i++)
		ret->refused[i] = load(&server->refused[i]);
	for (uint32_t i = 0; i < NAM_SERVER_RESTARTS_COUNT; i++)
		ret->restarts[i] = load(&nam__tree_server_restarts[i]);
	for (uint32_t i = 0; i < server->options.rpc_threads * NAM_SERVICES_MAX; i++) {
		const struct nam__service_counts *counts =
			&server->handlers[i / NAM_SERVICES_MAX].services[i % NAM_SERVICES_MAX];
		struct nam_service_figures *sum = &ret->services[i % NAM_SERVICES_MAX];

		sum->requests += load(&counts->requests);
		sum->failed += load(&counts->failed);
		sum->total_ns += load(&counts->total_ns);
		for (uint32_t k = 0; k < NAM_LATENCIES; k++)
			sum->within[k] += load(&counts->within[k]);
	}
}

void
nam__status(struct nam_server *server, struct nam_rpc_status_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	reply->server_id = server->options.id;
	reply->phase = atomic_load_explicit(&server->phase, memory_order_relaxed);
	reply->handlers = server->options.rpc_threads;
	reply->boot = server->boot;
	reply->pid = (uint64_t)getpid();
	reply->uptime_ns = nam_now_ns() - server->started_ns;
	reply->memory_bytes = server->memory.bytes;
	reply->spare_bytes = nam__hosted_spare(server);
	reply->host = nam__hosted_host(server)->boot;
	reply->page_bytes = 1ull << server->memory.page_bytes_log2;
	reply->transparent_huge = server->memory.transparent_huge;
	reply->regions = server->memory.count;
	reply->connections = atomic_load_explicit(&server->connections_count,
		memory_order_relaxed);
	figures(server, &reply->figures);
	pthread_mutex_lock(&server->membership.mutex);
	reply->clients = server->membership.alive_count;
	pthread_mutex_unlock(&server->membership.mutex);
	pthread_mutex_lock(&server->catalog.mutex);
	for (uint32_t i = 0; i < server->catalog.count; i++) {
		uint32_t kind = nam_catalog_entry_kind(server->catalog.entries[i].superblock);

		reply->indexes += kind == NAM_CATALOG_INDEX;
		reply->stores += kind == NAM_CATALOG_KV;
	}
	pthread_mutex_unlock(&server->catalog.mutex);
	(void)snprintf(reply->version, sizeof(reply->version), "%s", NAM_VERSION);
}

int
nam__service_status(struct nam__exchange *exchange)
{
	const struct nam_rpc_status_request *request = exchange->body;
	uint8_t *reply = exchange->reply;
	uint32_t bytes = NAM_RPC_STATUS_HEAD_BYTES;
	struct nam_rpc_status_reply status;

	if (request->reserved || request->first >= NAM_SERVICES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	nam__status(exchange->server, &status);
	for (uint32_t i = request->first; i < NAM_SERVICES_MAX && !status.next; i++) {
		const struct nam_rpc_status_service one = { .service = i,
			.figures = status.figures.services[i] };

		if (!one.figures.requests)
			continue;
		if (bytes + sizeof(one) > NAM_RPC_BODY_MAX) {
			status.next = i;
			continue;
		}
		memcpy(reply + bytes, &one, sizeof(one));
		bytes += (uint32_t)sizeof(one);
	}
	memcpy(reply, &status, NAM_RPC_STATUS_HEAD_BYTES);
	exchange->reply_bytes = bytes;
	return 0;
}
