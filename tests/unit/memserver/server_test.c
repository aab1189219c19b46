/* SPDX-License-Identifier: Apache-2.0 */
/* server_test.c -- a whole memory server: its options, its door, and clients that come and go. */
#include "server_fixture.h"

#include <errno.h>
#include <inttypes.h>

#include "common/rpc/move_rpc.h"

#define TIMEOUT_NS 30000000000ull
#define WIRE_HELLO (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION)

struct client {
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct nam_qp *qp;
	_Alignas(8) uint8_t in[NAM_RPC_BYTES_MAX];
	_Alignas(8) uint8_t out[NAM_RPC_BYTES_MAX];
};

static void
run_main(void *arg)
{
	assert_int_equal(nam_server_run(arg), 0);
}

static int
setup_running(void **state)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;

	assert_non_null(f);
	fixture_options(f, &options);
	options.rpc_threads = 2;
	fixture_start(f, &options);
	*state = f;
	return 0;
}

static int
client_connect_with(struct fixture *f, struct client *client, const struct nam_wire_hello *wire,
	struct nam_wire_welcome *welcome)
{
	const struct nam_fabric_ops *ops = f->server->ops;
	struct nam_hello hello = { .bytes = sizeof(*wire) }, reply = { 0 };
	struct nam_qp_options options;
	int rc;

	memset(client, 0, sizeof(*client));
	assert_int_equal(ops->domain_open(NULL, &client->domain, &f->diag), 0);
	assert_int_equal(ops->cq_create(client->domain, 64, &client->cq), 0);
	assert_int_equal(ops->rq_create(client->domain, client->cq, 8, &client->rq), 0);
	options = (struct nam_qp_options){ .cq = client->cq, .rq = client->rq,
		.user = client };
	memcpy(hello.data, wire, sizeof(*wire));
	rc = ops->connect(client->domain, f->address, &hello, &options, &reply, &client->qp,
		&f->diag);
	if (welcome) {
		assert_int_equal(reply.bytes, sizeof(*welcome));
		memcpy(welcome, reply.data, sizeof(*welcome));
	}
	return rc;
}

static void
client_connect(struct fixture *f, struct client *client)
{
	const struct nam_wire_hello wire = { .magic_version = WIRE_HELLO };
	struct nam_wire_welcome welcome;

	assert_int_equal(client_connect_with(f, client, &wire, &welcome), 0);
	assert_int_equal(welcome.status, 0);
	assert_int_equal(welcome.regions_count, 2);
	assert_true(welcome.boot);
}

static void
client_close(struct fixture *f, struct client *client)
{
	const struct nam_fabric_ops *ops = f->server->ops;

	ops->qp_destroy(client->qp);
	ops->rq_destroy(client->rq);
	ops->cq_destroy(client->cq);
	ops->domain_close(client->domain);
}

/* The status of the reply; its body is in client->in. */
static int
rpc(struct fixture *f, struct client *client, uint16_t type, const void *body, uint32_t bytes)
{
	const struct nam_fabric_ops *ops = f->server->ops;
	struct nam_rpc_header *request = (struct nam_rpc_header *)(void *)client->out;
	const struct nam_rpc_header *reply = (const struct nam_rpc_header *)(void *)client->in;
	struct nam_recv recv = { client->in, sizeof(client->in), 0, client->in };
	struct nam_wr wr = { .op = NAM_WR_SEND, .local = client->out };
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wc wc;

	nam_rpc_header_fill(request, type, until, 0, bytes);
	if (bytes)
		memcpy(request + 1, body, bytes);
	wr.bytes = (uint32_t)sizeof(*request) + bytes;
	assert_int_equal(ops->rq_post(client->rq, &recv, 1), 0);
	assert_int_equal(ops->qp_post(client->qp, &wr, 1), 0);
	while (ops->cq_poll(client->cq, &wc, 1) == 0) {
		(void)ops->cq_wait(client->cq, TIMEOUT_NS);
		assert_true(nam_now_ns() < until);
	}
	assert_int_equal(wc.op, NAM_WC_RECV);
	assert_int_equal(nam_rpc_check(client->in, wc.bytes), 0);
	assert_true(reply->id == until && reply->type == type);
	return reply->status;
}

static const void *
body_of(const struct client *client)
{
	return client->in + sizeof(struct nam_rpc_header);
}

/* ---- clients ------------------------------------------------------------------------------ */

static void
server__clients_come_and_go__COUNTS_THEM(void **state)
{
	struct fixture *f = *state;
	struct client *clients = aligned_alloc(64, 20 * sizeof(*clients) / 64 * 64 + 64);
	struct nam_thread *thread;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	const struct nam_rpc_status_request asked = { .first = 0 };
	const struct nam_rpc_status_reply *status;
	struct nam_rpc_status_service ping;

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	for (int i = 0; i < 20; i++) {
		client_connect(f, &clients[i]);
		assert_int_equal(rpc(f, &clients[i], NAM_RPC_PING, "ping", 4), 0);
		assert_memory_equal(body_of(&clients[i]), "ping", 4);
	}
	status = body_of(&clients[0]);
	/* A connection is counted a little after it was accepted. */
	do {
		assert_true(nam_now_ns() < until);
		assert_int_equal(rpc(f, &clients[0], NAM_RPC_STATUS, &asked, sizeof(asked)), 0);
	} while (status->connections != 20 || status->figures.accepted != 20);
	assert_int_equal(status->handlers, 2);
	/* The first of those that have had requests. */
	memcpy(&ping, (const uint8_t *)status + NAM_RPC_STATUS_HEAD_BYTES, sizeof(ping));
	assert_int_equal(ping.service, NAM_RPC_PING);
	assert_true(ping.figures.requests == 20);
	assert_true(ping.figures.failed == 0);
	for (int i = 1; i < 20; i++)
		client_close(f, &clients[i]);
	do {
		assert_true(nam_now_ns() < until);
		assert_int_equal(rpc(f, &clients[0], NAM_RPC_STATUS, &asked, sizeof(asked)), 0);
	} while (status->connections != 1);
	/* Both handlers have had their share. */
	for (unsigned i = 0; i < 2; i++)
		assert_true(f->server->handlers[i].services[NAM_RPC_PING].requests > 0);
	nam_server_stop(f->server);
	nam_thread_join(thread);
	client_close(f, &clients[0]);
	free(clients);
}

/* Its other queue pairs go with its session, and then it is dead. */
static void
server__registered_client_disconnects__IS_DEAD(void **state)
{
	struct fixture *f = *state;
	struct client session, worker, other;
	struct nam_thread *thread;
	struct nam_rpc_register_request request = { .pid = 1, .name = "x" };
	struct nam_rpc_client_state_request who = { 0 };
	struct nam_wire_hello wire = { .magic_version = WIRE_HELLO };
	struct nam_wire_welcome welcome;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	const struct nam_rpc_client_state_reply *client;
	struct nam_wc wc = { 0 };

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	client_connect(f, &session);
	client_connect(f, &other);
	assert_int_equal(rpc(f, &session, NAM_RPC_REGISTER, &request, sizeof(request)), 0);
	memcpy(&who, body_of(&session), 4);
	wire.client_id = who.client_id;
	wire.incarnation = who.incarnation;
	assert_int_equal(client_connect_with(f, &worker, &wire, &welcome), 0);
	client_close(f, &session);
	client = body_of(&other);
	do {
		assert_true(nam_now_ns() < until);
		assert_int_equal(rpc(f, &other, NAM_RPC_CLIENT_STATE, &who, sizeof(who)), 0);
	} while (client->state == NAM_CLIENT_ALIVE || client->state == NAM_CLIENT_FENCING);
	assert_int_equal(client->state, NAM_CLIENT_DEAD);
	while (f->server->ops->cq_poll(worker.cq, &wc, 1) == 0)
		assert_true(nam_now_ns() < until);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	/* A late connection of the dead client's is turned away, with the reason. */
	assert_int_equal(client_connect_with(f, &session, &wire, &welcome), -ECONNREFUSED);
	assert_int_equal(welcome.status, -NAM_E_FENCED);
	client_close(f, &session);
	nam_server_stop(f->server);
	nam_thread_join(thread);
	client_close(f, &worker);
	client_close(f, &other);
}

static void
server__bad_hello__IS_REJECTED_WITH_THE_REASON(void **state)
{
	struct fixture *f = *state;
	struct nam_wire_hello wires[] = {
		{ .magic_version = WIRE_HELLO + 1 },
		{ .magic_version = 1 },
		{ .magic_version = WIRE_HELLO, .flags = 1 },
		{ .magic_version = WIRE_HELLO, .reserved = 1 },
		{ .magic_version = WIRE_HELLO, .client_id = 4096 },
		{ .magic_version = WIRE_HELLO, .client_id = 9, .incarnation = 1 },
	};
	const int statuses[] = { -NAM_E_FABRIC_VERSION, -NAM_E_FABRIC_PROTOCOL,
		-NAM_E_FABRIC_PROTOCOL, -NAM_E_FABRIC_PROTOCOL, -NAM_E_FABRIC_PROTOCOL,
		-NAM_E_FENCED };
	struct nam_thread *thread;

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		struct nam_wire_welcome welcome;
		struct client client;

		assert_int_equal(client_connect_with(f, &client, &wires[i], &welcome),
			-ECONNREFUSED);
		assert_int_equal(welcome.status, statuses[i]);
		assert_int_equal(welcome.magic_version, WIRE_HELLO);
		client_close(f, &client);
	}
	nam_server_stop(f->server);
	nam_thread_join(thread);
}

static void
server__memory__IS_REACHED_ONE_SIDED(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_regions_request request = { 0 };
	struct nam_rpc_regions_reply *regions;
	struct nam_thread *thread;
	struct client client;
	uint64_t old = 0;

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	client_connect(f, &client);
	assert_int_equal(rpc(f, &client, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	regions = malloc(sizeof(*regions) + 2 * sizeof(regions->regions[0]));
	memcpy(regions, body_of(&client), sizeof(*regions) + 2 * sizeof(regions->regions[0]));
	for (int i = 0; i < 2; i++) {
		struct nam_wr wr = { .op = NAM_WR_FETCH_ADD, .flags = NAM_WR_SIGNALED, .bytes = 8,
			.rkey = regions->regions[i].rkey, .local = &old, .compare = 1,
			.remote = regions->regions[i].remote + NAM_META_EPOCH_OFFSET };
		struct nam_wc wc;

		assert_int_equal(f->server->ops->qp_post(client.qp, &wr, 1), 0);
		assert_int_equal(f->server->ops->cq_poll(client.cq, &wc, 1), 1);
		assert_int_equal(wc.status, 0);
		assert_int_equal(old, i == 0);
		assert_int_equal(__atomic_load_n((uint64_t *)f->server->memory.mrs[i].base +
			NAM_META_EPOCH_OFFSET / 8, __ATOMIC_SEQ_CST), 1 + (i == 0));
	}
	free(regions);
	nam_server_stop(f->server);
	nam_thread_join(thread);
	client_close(f, &client);
}

/* ---- memory that moves -------------------------------------------------------------------- */

static int
setup_successor(void **state)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;

	assert_non_null(f);
	fixture_options(f, &options);
	options.id = 3;
	options.successor = true;
	fixture_start(f, &options);
	*state = f;
	return 0;
}

static int
setup_other(void **state)
{
	return fixture_setup_id(state, 3);
}

static void
refused_with(struct fixture *f, const struct nam_wire_hello *wire, int status)
{
	struct nam_wire_welcome welcome;
	struct client client;

	assert_int_equal(client_connect_with(f, &client, wire, &welcome), -ECONNREFUSED);
	assert_int_equal(welcome.status, status);
	client_close(f, &client);
}

/* The mover writes before the books are there; clients come afterwards. */
static void
successor__connections__ARE_FOR_ASKING_ONLY(void **state)
{
	struct fixture *f = *state;
	const struct nam_wire_hello plain = { .magic_version = WIRE_HELLO };
	const struct nam_wire_hello named = { .magic_version = WIRE_HELLO, .client_id = 9,
		.incarnation = 1, .flags = NAM_HELLO_PROBE };
	const struct nam_wire_hello asks = { .magic_version = WIRE_HELLO,
		.flags = NAM_HELLO_PROBE };
	const struct nam_rpc_regions_request request = { 0 };
	const struct nam_rpc_regions_reply *regions;
	uint64_t word = 4711;
	struct nam_wr wr = { .op = NAM_WR_WRITE, .flags = NAM_WR_SIGNALED, .bytes = 8,
		.local = &word };
	struct nam_thread *thread;
	struct client client;
	struct nam_wc wc;

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	refused_with(f, &plain, -NAM_E_FABRIC_SUCCESSOR);
	refused_with(f, &named, -NAM_E_FABRIC_SUCCESSOR);
	assert_int_equal(client_connect_with(f, &client, &asks, NULL), 0);
	assert_int_equal(rpc(f, &client, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	regions = body_of(&client);
	wr.rkey = regions->regions[1].rkey;
	wr.remote = regions->regions[1].remote + 4096;
	assert_int_equal(f->server->ops->qp_post(client.qp, &wr, 1), 0);
	while (f->server->ops->cq_poll(client.cq, &wc, 1) == 0)
		(void)f->server->ops->cq_wait(client.cq, TIMEOUT_NS);
	assert_int_equal(wc.status, 0);
	assert_memory_equal((uint8_t *)f->server->memory.mrs[1].base + 4096, &word, 8);
	nam_server_stop(f->server);
	nam_thread_join(thread);
	client_close(f, &client);
}

static void
retire__clients_are_connected__CLOSES_AND_REFUSES_THEM(void **state)
{
	struct fixture *f = *state;
	const struct nam_wire_hello plain = { .magic_version = WIRE_HELLO };
	const struct nam_wire_hello asks = { .magic_version = WIRE_HELLO,
		.flags = NAM_HELLO_PROBE };
	const struct nam_rpc_move_request request = { .step = NAM_RPC_MOVE_RETIRE,
		.boot = f->server->boot };
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct client mover, clients[2];
	struct nam_thread *thread;
	struct nam_wc wc;
	int rc;

	assert_int_equal(nam_thread_start("run", run_main, f->server, &thread), 0);
	for (int i = 0; i < 2; i++)
		client_connect(f, &clients[i]);
	assert_int_equal(client_connect_with(f, &mover, &asks, NULL), 0);
	do {
		assert_true(nam_now_ns() < until);
		rc = rpc(f, &mover, NAM_RPC_MOVE, &request, sizeof(request));
	} while (rc == -EAGAIN);
	assert_int_equal(rc, 0);
	for (int i = 0; i < 2; i++) {
		while (f->server->ops->cq_poll(clients[i].cq, &wc, 1) == 0)
			assert_true(nam_now_ns() < until);
		assert_int_equal(wc.op, NAM_WC_CLOSED);
		client_close(f, &clients[i]);
	}
	refused_with(f, &plain, -NAM_E_FABRIC_MOVED);
	refused_with(f, &asks, -NAM_E_FABRIC_MOVED);
	assert_int_equal(rpc(f, &mover, NAM_RPC_PING, "ping", 4), -NAM_E_FABRIC_MOVED);
	nam_server_stop(f->server);
	nam_thread_join(thread);
	client_close(f, &mover);
}

static void
stop__before_run__ENDS_IT_AT_ONCE(void **state)
{
	struct fixture *f = *state;

	nam_server_stop(f->server);
	assert_int_equal(nam_server_run(f->server), 0);
}

/* ---- options ------------------------------------------------------------------------------ */

static char anywhere[64];	/* an address of this process's own */

static void
check__sizes__FIT_TOGETHER_WHATEVER_THE_HOST_HAS(void **state)
{
	struct nam_server_options options;
	struct nam_diag diag = { "" };

	(void)state;
	nam_server_options_init(&options);
	options.listen = anywhere;
	options.memory_bytes = 1ull << 46;
	options.region_bytes = 1ull << 38;
	assert_int_equal(nam_server_check(&options, &diag), 0);
	options.pages = NAM_PAGES_1G;
	assert_int_equal(nam_server_check(&options, &diag), 0);
	options.region_bytes = 1 << 20;
	assert_int_equal(nam_server_check(&options, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "region_bytes larger"));
	options.memory_bytes = 1 << 20;
	assert_int_equal(nam_server_check(&options, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "multiples of 1G"));
	options.listen = "ib:x";
	assert_int_equal(nam_server_check(&options, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "'ib:x'"));
}

static void
start__option_out_of_range__NAMES_IT(void **state)
{
	static const struct {
		struct nam_server_options options;
		const char *say;
		int rc;
	} cases[] = {
#define BASE .memory_bytes = 1 << 20, .region_bytes = 1 << 20, .numa_node = -1, .rpc_threads = 1
		{ { BASE, .listen = NULL }, "listen", -EINVAL },
		{ { BASE, .listen = "" }, "listen", -EINVAL },
		{ { BASE, .listen = "ib:x" }, "'ib:x'", -EINVAL },
		{ { BASE, .listen = "shm:" }, "path is missing", -EINVAL },
		{ { BASE, .listen = anywhere, .id = 256 }, "id", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1 << 20,
			.rpc_threads = 0, .numa_node = -1 }, "rpc_threads", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1 << 20,
			.rpc_threads = 65, .numa_node = -1 }, "rpc_threads", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1 << 20,
			.rpc_threads = 1, .numa_node = -2 }, "numa_node", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1 << 20,
			.rpc_threads = 1, .numa_node = 900 }, "NUMA node 900", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1000, .region_bytes = 1 << 20,
			.rpc_threads = 1, .numa_node = -1 }, "memory_bytes", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 30, .region_bytes = 1 << 20,
			.rpc_threads = 1, .numa_node = -1 }, "region_bytes larger", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1000,
			.rpc_threads = 1, .numa_node = -1 }, "region_bytes", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1 << 20, .region_bytes = 1 << 20,
			.rpc_threads = 1, .numa_node = -1, .pages = NAM_PAGES_2M },
			"multiples of 2M", -EINVAL },
		{ { BASE, .listen = anywhere, .pages = 99 }, "pages", -EINVAL },
		{ { .listen = anywhere, .memory_bytes = 1ull << 46,
			.region_bytes = 1ull << 38, .rpc_threads = 1, .numa_node = -1,
			.pages = NAM_PAGES_4K }, "memory_bytes", -ENOMEM },
		{ { .listen = anywhere, .memory_bytes = 1ull << 46,
			.region_bytes = 1ull << 38, .rpc_threads = 1, .numa_node = -1,
			.pages = NAM_PAGES_2M }, "nr_hugepages", -ENOMEM },
#undef BASE
	};
	struct nam_diag notice, diag;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nam_server *server = NULL;

		diag.text[0] = '\0';
		assert_int_equal(nam_server_start(&cases[i].options, &server, &notice, &diag),
			cases[i].rc);
		assert_null(server);
		if (!strstr(diag.text, cases[i].say))
			fail_msg("case %zu says '%s'", i, diag.text);
		assert_int_equal(access(anywhere + strlen("shm:"), F_OK), -1);
	}
}

static void
start__same_address_twice__IS_IN_USE(void **state)
{
	struct fixture *f = *state;
	struct nam_server_options options = f->server->options;
	struct nam_server *second = NULL;

	assert_int_equal(nam_server_start(&options, &second, NULL, &f->diag),
		-NAM_E_FABRIC_ADDRESS_IN_USE);
	assert_null(second);
}

static void
start__last_region__MAY_BE_SMALLER(void **state)
{
	struct nam_server_options options;
	struct fixture f;
	char text[160];

	(void)state;
	fixture_options(&f, &options);
	options.memory_bytes = 1280 << 10;
	fixture_start(&f, &options);
	assert_int_equal(f.server->memory.count, 3);
	assert_int_equal(f.server->memory.mrs[2].bytes, 256 << 10);
	nam_server_describe(f.server, text, sizeof(text));
	assert_string_equal(text, "1280 KiB in 3 regions of 512 KiB, 4 KiB pages, 1 handler "
		"thread");
	nam_server_destroy(f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
start__pages_auto__CHOOSES_SOMETHING_AND_SAYS_SO(void **state)
{
	struct nam_server_options options;
	struct fixture f;

	(void)state;
	fixture_options(&f, &options);
	/* Not a multiple of 2 MiB, so there is something to say, and more pages would not help. */
	options.pages = NAM_PAGES_AUTO;
	fixture_start(&f, &options);
	assert_non_null(strstr(f.notice.text, "pages: auto chose"));
	assert_non_null(strstr(f.notice.text, "multiples of 2M"));
	assert_null(strstr(f.notice.text, "nr_hugepages"));
	nam_server_destroy(f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

/* Pages of 2 MiB in use or reserved. */
static uint64_t
pages_taken(void)
{
	static const char *const names[] = { "nr", "resv", "free" };
	uint64_t pages[3] = { 0 };

	for (size_t i = 0; i < 3; i++) {
		char path[96];
		FILE *file;

		(void)snprintf(path, sizeof(path),
			"/sys/kernel/mm/hugepages/hugepages-2048kB/%s_hugepages", names[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		assert_int_equal(fscanf(file, "%" SCNu64, &pages[i]), 1);
		(void)fclose(file);
	}
	return pages[0] + pages[1] - pages[2];
}

static void
start__too_few_huge_pages__SAYS_HOW_MANY_WITH_THOSE_OF_OTHERS(void **state)
{
	struct nam_server_options options = { .listen = anywhere,
		.memory_bytes = 1ull << 46, .region_bytes = 1ull << 38, .rpc_threads = 1,
		.numa_node = -1, .pages = NAM_PAGES_2M };
	struct nam_diag notice = { "" }, diag = { "" };
	struct nam_server *server = NULL;
	char wanted[64];

	(void)state;
	/* Others may take some between two looks. */
	for (int i = 0; i < 100; i++) {
		uint64_t taken = pages_taken();

		(void)snprintf(wanted, sizeof(wanted), "at least %" PRIu64 " (",
			taken + (1u << 25));
		options.pages = NAM_PAGES_2M;
		assert_int_equal(nam_server_start(&options, &server, &notice, &diag), -ENOMEM);
		options.pages = NAM_PAGES_AUTO;
		assert_int_equal(nam_server_start(&options, &server, &notice, NULL), -ENOMEM);
		if (strstr(diag.text, wanted) && strstr(notice.text, wanted))
			return;
	}
	fail_msg("'%s' expected in: %s; and: %s", wanted, diag.text, notice.text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_running, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(server__clients_come_and_go__COUNTS_THEM),
		TEST(server__registered_client_disconnects__IS_DEAD),
		TEST(server__bad_hello__IS_REJECTED_WITH_THE_REASON),
		TEST(server__memory__IS_REACHED_ONE_SIDED),
		cmocka_unit_test_setup_teardown(successor__connections__ARE_FOR_ASKING_ONLY,
			setup_successor, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			retire__clients_are_connected__CLOSES_AND_REFUSES_THEM,
			setup_other, fixture_teardown),
		TEST(stop__before_run__ENDS_IT_AT_ONCE),
		cmocka_unit_test(check__sizes__FIT_TOGETHER_WHATEVER_THE_HOST_HAS),
		cmocka_unit_test(start__option_out_of_range__NAMES_IT),
		TEST(start__same_address_twice__IS_IN_USE),
		cmocka_unit_test(start__last_region__MAY_BE_SMALLER),
		cmocka_unit_test(start__pages_auto__CHOOSES_SOMETHING_AND_SAYS_SO),
		cmocka_unit_test(start__too_few_huge_pages__SAYS_HOW_MANY_WITH_THOSE_OF_OTHERS),
	};

	(void)snprintf(anywhere, sizeof(anywhere), "shm:/tmp/nam-x%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
