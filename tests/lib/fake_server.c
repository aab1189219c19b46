/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env.h"
#include "common/gaddr.h"
#include "common/rpc/alloc_rpc.h"
#include "common/rpc/status_rpc.h"
#include "common/rpc/sweep_rpc.h"
#include "common/rpc/view_rpc.h"
#include "cluster.h"

#define RECVS 64u
#define QPS_MAX 64u
#define HELD_MAX 64u
#define REPLIES_MAX 256u
#define FREE_MAX 8192u
#define IDLE_NS 1000000u

struct outgoing {
	uint8_t bytes[NAM_RPC_BYTES_MAX];
	struct nam_qp *qp;
	uint32_t size;
	bool busy;
};

struct fake_server {
	struct fake_server_options options;
	char address[FAKE_ADDRESS_BYTES];
	const struct nam_fabric_ops *ops;
	struct nam_domain *domain;
	struct nam_listener *listener;
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct nam_mr memory;		/* exported */
	struct nam_mr buffers;
	uint8_t (*recvs)[NAM_RPC_BYTES_MAX];
	struct outgoing *outgoing;
	struct nam_qp *qps[QPS_MAX];
	struct outgoing *held[HELD_MAX];
	uint32_t held_count;
	uint64_t carved;		/* bytes from the front of the memory */
	uint64_t free_blocks[FREE_MAX];
	uint32_t free_strides[FREE_MAX];
	uint32_t free_count;
	uint16_t clients;
	_Atomic uint64_t boot;
	atomic_uint requests[NAM_RPC_TYPES_COUNT];
	atomic_int blocks_out;
	atomic_bool stop, release;
	struct nam_thread *thread;
};

static void
must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fake server: %s failed\n", what);
	abort();
}

/* ---- replies ------------------------------------------------------------------------------ */

static uint64_t
region_bytes(const struct fake_server *server)
{
	return server->options.memory_bytes / server->options.regions_count;
}

/* The first region's id is the server id's first; addresses are carved from it only. */
static struct nam_gaddr
address_of(const struct fake_server *server, uint64_t offset_bytes)
{
	return nam_gaddr_make((uint16_t)(server->options.id * NAM_REGIONS_PER_SERVER), offset_bytes,
		0);
}

static uint32_t
answer_regions(struct fake_server *server, const struct nam_rpc_regions_request *request,
	struct nam_rpc_regions_reply *reply)
{
	reply->total = server->options.regions_count;
	reply->count = 0;
	for (uint32_t i = request->first; i < reply->total; i++) {
		if (reply->count == server->options.regions_per_page)
			break;
		reply->regions[reply->count++] = (struct nam_rpc_region){
			.id = (uint16_t)(server->options.id * NAM_REGIONS_PER_SERVER + i),
			.rkey = server->memory.rkey,
			.remote = server->memory.remote + i * region_bytes(server),
			.bytes = region_bytes(server),
		};
	}
	return (uint32_t)(sizeof(*reply) + reply->count * sizeof(struct nam_rpc_region));
}

static int32_t
answer_alloc(struct fake_server *server, const struct nam_rpc_alloc_request *request,
	struct nam_rpc_alloc_reply *reply, uint32_t *ret_bytes)
{
	uint64_t keep = server->carved + (request->reserve ? 0ull : server->options.reserve_bytes);
	uint64_t room = keep < region_bytes(server) ? (region_bytes(server) - keep) /
		request->stride : 0;

	memset(reply, 0, sizeof(*reply));
	for (uint32_t i = 0; i < server->free_count && reply->count < request->count &&
			     reply->count < NAM_RPC_ALLOC_SCATTERED_MAX;) {
		if (server->free_strides[i] != request->stride) {
			i++;
			continue;
		}
		reply->blocks[reply->count++] = server->free_blocks[i];
		server->free_count--;
		server->free_blocks[i] = server->free_blocks[server->free_count];
		server->free_strides[i] = server->free_strides[server->free_count];
	}
	if (room > (uint32_t)(request->count - reply->count))
		room = (uint32_t)(request->count - reply->count);
	if (room) {
		reply->run_at = address_of(server, server->carved).raw;
		reply->run_count = (uint32_t)room;
		server->carved += room * request->stride;
	}
	if (!reply->count && !reply->run_count)
		return -NAM_E_REMOTE_FULL;
	reply->free = (uint16_t)((server->options.memory_bytes - server->carved) * UINT16_MAX /
		server->options.memory_bytes);
	atomic_fetch_add(&server->blocks_out, (int)(reply->count + reply->run_count));
	*ret_bytes = (uint32_t)(sizeof(*reply) + reply->count * sizeof(uint64_t));
	return 0;
}

static void
take_back(struct fake_server *server, const struct nam_rpc_free_request *request)
{
	/* With a label they wait, here for ever. */
	if (request->label)
		return;
	for (uint32_t i = 0; i < request->count; i++) {
		must(server->free_count < FREE_MAX, "remembering a free block");
		server->free_blocks[server->free_count] = request->blocks[i];
		server->free_strides[server->free_count++] = request->stride;
	}
	atomic_fetch_sub(&server->blocks_out, (int)request->count);
}

/* Without services. */
static void
answer_status(const struct fake_server *server, void *reply)
{
	const struct nam_rpc_status_reply status = {
		.server_id = server->options.id,
		.boot = server->boot,
		.pid = (uint64_t)getpid(),
		.regions = server->options.regions_count,
		.memory_bytes = server->options.memory_bytes,
		.version = "fake",
	};

	memcpy(reply, &status, NAM_RPC_STATUS_HEAD_BYTES);
}

static void
answer(struct fake_server *server, const struct nam_rpc_header *request, struct fake_reply *reply)
{
	const void *in = request + 1;
	void *out = reply->body;
	uint32_t bytes = 0;
	int32_t status = 0;

	switch (request->type) {
	case NAM_RPC_PING:
		bytes = request->body_bytes;
		memcpy(out, in, bytes);
		break;
	case NAM_RPC_REGISTER:
		*(struct nam_rpc_register_reply *)out = (struct nam_rpc_register_reply){
			.client_id = ++server->clients,
			.incarnation = 7,
			.epoch_word = address_of(server, NAM_META_EPOCH_OFFSET).raw,
			.epoch_slots = address_of(server, NAM_META_SLOTS_OFFSET).raw,
		};
		bytes = sizeof(struct nam_rpc_register_reply);
		break;
	case NAM_RPC_REGIONS:
		bytes = answer_regions(server, in, out);
		break;
	case NAM_RPC_ALLOC:
		status = answer_alloc(server, in, out, &bytes);
		break;
	case NAM_RPC_FREE:
		take_back(server, in);
		break;
	case NAM_RPC_STATUS:
		answer_status(server, out);
		bytes = NAM_RPC_STATUS_HEAD_BYTES;
		break;
	case NAM_RPC_VIEW:
		memset(out, 0, sizeof(struct nam_rpc_view_reply));
		bytes = sizeof(struct nam_rpc_view_reply);
		break;
	case NAM_RPC_SWEEP:
		memset(out, 0, sizeof(struct nam_rpc_sweep_reply));
		bytes = sizeof(struct nam_rpc_sweep_reply);
		break;
	default:
		status = -NAM_E_FABRIC_PROTOCOL;
	}
	nam_rpc_header_fill(&reply->header, request->type, request->id, status, bytes);
	reply->copies = 1;
}

/* ---- messages ----------------------------------------------------------------------------- */

static void
send_out(struct fake_server *server, struct outgoing *out)
{
	struct nam_wr wr = {
		.op = NAM_WR_SEND,
		.flags = NAM_WR_SIGNALED,
		.bytes = out->size,
		.lkey = server->buffers.lkey,
		.local = out->bytes,
		.context = out,
	};

	must(!server->ops->qp_post(out->qp, &wr, 1), "posting a reply");
}

static struct outgoing *
outgoing_get(struct fake_server *server)
{
	for (uint32_t i = 0; i < REPLIES_MAX; i++) {
		if (!server->outgoing[i].busy) {
			server->outgoing[i].busy = true;
			return &server->outgoing[i];
		}
	}
	must(0, "finding room for a reply");
	return NULL;
}

static void
reply_out(struct fake_server *server, struct nam_qp *qp, const struct fake_reply *reply)
{
	for (uint32_t i = 0; i < reply->copies; i++) {
		struct outgoing *out = outgoing_get(server);

		out->qp = qp;
		out->size = (uint32_t)sizeof(reply->header) + reply->header.body_bytes;
		if (out->size > NAM_RPC_BYTES_MAX)
			out->size = NAM_RPC_BYTES_MAX;
		memcpy(out->bytes, &reply->header, sizeof(reply->header));
		memcpy(out->bytes + sizeof(reply->header), reply->body,
			out->size - sizeof(reply->header));
		if (!reply->hold) {
			send_out(server, out);
			continue;
		}
		must(server->held_count < HELD_MAX, "holding a reply");
		server->held[server->held_count++] = out;
	}
}

static void
receive_post(struct fake_server *server, uint8_t *bytes)
{
	struct nam_recv recv = {
		.buffer = bytes,
		.bytes = NAM_RPC_BYTES_MAX,
		.lkey = server->buffers.lkey,
		.context = bytes,
	};

	must(!server->ops->rq_post(server->rq, &recv, 1), "posting a receive buffer");
}

/* The queue pair goes, and with it what was to be sent over it. */
static void
qp_drop(struct fake_server *server, struct nam_qp *qp)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (server->qps[i] == qp)
			server->qps[i] = NULL;
	for (uint32_t i = 0; i < server->held_count; i++)
		if (server->held[i]->qp != qp)
			server->held[kept++] = server->held[i];
	server->held_count = kept;
	for (uint32_t i = 0; i < REPLIES_MAX; i++)
		if (server->outgoing[i].qp == qp)
			server->outgoing[i].busy = false;
	server->ops->qp_destroy(qp);
}

static void
request_in(struct fake_server *server, const struct nam_wc *wc)
{
	const struct nam_rpc_header *request = wc->context;
	struct fake_reply *reply = calloc(1, sizeof(*reply));

	must(reply != NULL, "calloc");
	must(!nam_rpc_check(request, wc->bytes), "understanding a request");
	if (request->type < NAM_RPC_TYPES_COUNT)
		atomic_fetch_add(&server->requests[request->type], 1);
	answer(server, request, reply);
	if (server->options.hook)
		server->options.hook(server, request, reply);
	if (reply->close)
		qp_drop(server, wc->qp);
	else
		reply_out(server, wc->qp, reply);
	free(reply);
}

static void
completion_take(struct fake_server *server, const struct nam_wc *wc)
{
	switch (wc->op) {
	case NAM_WC_RECV:
		request_in(server, wc);
		receive_post(server, wc->context);
		break;
	case NAM_WC_CLOSED:
		qp_drop(server, wc->qp);
		break;
	default:
		((struct outgoing *)wc->context)->busy = false;
	}
}

/* ---- connections -------------------------------------------------------------------------- */

static void
connection_take(struct fake_server *server, struct nam_cm_event *event)
{
	struct nam_wire_welcome welcome = {
		.magic_version = server->options.magic_version,
		.status = server->options.reject_status,
		.server_id = server->options.id,
		.regions_count = server->options.regions_count,
		.boot = server->boot,
	};
	struct nam_qp_options options = { .cq = server->cq, .rq = server->rq };
	struct nam_hello hello = { .bytes = sizeof(welcome) };
	uint32_t i = 0;

	memcpy(hello.data, &welcome, sizeof(welcome));
	if (welcome.status) {
		server->ops->reject(server->listener, event->request, &hello);
		return;
	}
	while (server->qps[i])
		must(++i < QPS_MAX, "finding room for a connection");
	/* A client may be gone again already. */
	if (server->ops->accept(server->listener, event->request, &options, &hello,
		    &server->qps[i]))
		server->qps[i] = NULL;
}

static void
server_main(void *arg)
{
	struct fake_server *server = arg;
	struct nam_cm_event event;
	struct nam_wc wc;

	while (!atomic_load(&server->stop)) {
		bool worked = false;

		while (server->ops->listener_poll(server->listener, 0, &event) ==
			NAM_LISTENER_EVENT) {
			connection_take(server, &event);
			worked = true;
		}
		while (server->ops->cq_poll(server->cq, &wc, 1) == 1) {
			completion_take(server, &wc);
			worked = true;
		}
		if (atomic_exchange(&server->release, false)) {
			for (uint32_t i = 0; i < server->held_count; i++)
				send_out(server, server->held[i]);
			server->held_count = 0;
		} else if (!worked) {
			server->ops->cq_wait(server->cq, IDLE_NS);
		}
	}
}

/* ---- life --------------------------------------------------------------------------------- */

static void
memory_set_up(struct fake_server *server)
{
	size_t bytes = sizeof(*server->recvs) * RECVS + sizeof(*server->outgoing) * REPLIES_MAX;
	struct nam_diag diag;
	uint8_t *buffers;

	must(!server->ops->region_alloc(server->domain, server->options.memory_bytes, 12, 0, -1,
		     &server->memory, &diag),
		"region_alloc");
	server->carved = (NAM_META_BYTES + 4095) & ~4095ull;
	*fake_server_word(server, NAM_META_EPOCH_OFFSET) = 1;
	bytes = (bytes + 4095) & ~(size_t)4095;
	buffers = aligned_alloc(4096, bytes);
	must(buffers != NULL, "aligned_alloc");
	memset(buffers, 0, bytes);
	must(!server->ops->mr_register(server->domain, buffers, bytes, NAM_MR_LOCAL,
		     &server->buffers, &diag),
		"mr_register");
	server->recvs = (void *)buffers;
	server->outgoing = (void *)(buffers + sizeof(*server->recvs) * RECVS);
	for (uint32_t i = 0; i < RECVS; i++)
		receive_post(server, server->recvs[i]);
}

struct fake_server *
fake_server_start(const struct fake_server_options *options)
{
	static atomic_uint number;
	struct fake_server *server = calloc(1, sizeof(*server));
	struct nam_fabric_options fabric = { .listens = 1 };
	struct nam_diag diag = { "" };
	char path[64];

	must(server != NULL, "calloc");
	server->options = *options;
	server->boot = options->boot ? options->boot : 1000 + options->id;
	if (!options->magic_version)
		server->options.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION;
	if (!options->memory_bytes)
		server->options.memory_bytes = 4u << 20;
	if (!options->regions_count)
		server->options.regions_count = 1;
	if (!options->regions_per_page)
		server->options.regions_per_page = NAM_RPC_REGIONS_PER_REPLY;
	snprintf(path, sizeof(path), "/tmp/nam-fake-%d-%u", getpid(), atomic_fetch_add(&number, 1));
	test_address(options->path ? options->path : path, server->address,
		sizeof(server->address));
	fabric.address = server->address;
	server->ops = nam_fabric_find(server->address, NULL);
	must(server->ops != NULL, "finding the provider");
	must(!server->ops->domain_open(&fabric, &server->domain, &diag), diag.text);
	must(!server->ops->cq_create(server->domain, 4096, &server->cq), "cq_create");
	must(!server->ops->rq_create(server->domain, server->cq, RECVS, &server->rq), "rq_create");
	memory_set_up(server);
	must(!server->ops->listen(server->domain, server->address, &server->listener, &diag),
		diag.text);
	must(!nam_thread_start("fake-server", server_main, server, &server->thread), "a thread");
	return server;
}

void
fake_server_stop(struct fake_server *server)
{
	atomic_store(&server->stop, true);
	server->ops->cq_wake(server->cq);
	nam_thread_join(server->thread);
	server->ops->listener_close(server->listener);
	for (uint32_t i = 0; i < QPS_MAX; i++)
		if (server->qps[i])
			server->ops->qp_destroy(server->qps[i]);
	server->ops->rq_destroy(server->rq);
	server->ops->cq_destroy(server->cq);
	server->ops->mr_release(server->domain, &server->buffers);
	server->ops->mr_release(server->domain, &server->memory);
	server->ops->domain_close(server->domain);
	free(server->recvs);
	free(server);
}

const char *
fake_server_address(const struct fake_server *server)
{
	return server->address;
}

void *
fake_server_hook_arg(const struct fake_server *server)
{
	return server->options.hook_arg;
}

void
fake_server_boot_set(struct fake_server *server, uint64_t boot)
{
	server->boot = boot;
}

void
fake_server_release(struct fake_server *server)
{
	atomic_store(&server->release, true);
	server->ops->cq_wake(server->cq);
}

uint32_t
fake_server_requests(const struct fake_server *server, uint16_t type)
{
	return atomic_load(&server->requests[type]);
}

uint32_t
fake_server_blocks_out(const struct fake_server *server)
{
	return (uint32_t)atomic_load(&server->blocks_out);
}

_Atomic uint64_t *
fake_server_word(const struct fake_server *server, uint64_t offset_bytes)
{
	return (_Atomic uint64_t *)(void *)((uint8_t *)server->memory.base + offset_bytes);
}
