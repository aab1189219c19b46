/* SPDX-License-Identifier: Apache-2.0 */
/* Several requests at a time, and one-way requests, by each RPC transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/rpc/mailbox.h"
#include "tests/lib/cluster.h"
#include "tests/lib/fake_server.h"

#define SERVERS 2u
#define HEADER_BYTES 24u

struct fixture {
	struct local_cluster *cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	enum nam_transport transport;
};

static int
start(void **state, enum nam_transport transport)
{
	static struct fixture f;
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	f.cluster = local_cluster_start(SERVERS, 16u << 20, 16u << 20);
	f.transport = transport;
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(f.cluster);
	options.transport = transport;
	options.timeout_ms = 60000;
	if (nam_client_connect(&options, &f.client, &diag) ||
		nam_worker_open(f.client, &f.worker, &diag))
		fail_msg("%s", diag.text);
	*state = &f;
	return 0;
}

static int
start_srq(void **state)
{
	return start(state, NAM_TRANSPORT_SRQ);
}

static int
start_mailbox(void **state)
{
	return start(state, NAM_TRANSPORT_MAILBOX);
}

static int
start_fetch(void **state)
{
	return start(state, NAM_TRANSPORT_FETCH);
}

static int
stop(void **state)
{
	struct fixture *f = *state;

	nam_worker_close(f->worker);
	nam_client_close(f->client);
	local_cluster_stop(f->cluster);
	return 0;
}

static uint64_t
requests_of(struct fixture *f, uint32_t slot)
{
	struct nam_server_status status;

	assert_int_equal(nam_server_status_get(f->worker, slot, &status), 0);
	return status.requests;
}

static const struct nam_op_counters *
counted(const struct fixture *f)
{
	return nam_worker_counters(f->worker, NAM_OP_OTHER);
}

/* An outcome that only a memory server gives: no such index. */
static int
tell_wrong(struct fixture *f)
{
	const struct nam_rpc_catalog_entry wrong = { .name = "absent" };

	return nam_rpc_send_one_way(f->worker, f->client->catalog_slot, NAM_RPC_CATALOG_GET, &wrong,
		sizeof(wrong));
}

static int
send_one_way(struct fixture *f, uint32_t slot)
{
	return nam_rpc_send_one_way(f->worker, slot, NAM_RPC_PING, "12345678", 8);
}

/* ---- several ------------------------------------------------------------------------------ */

static void
call_many(struct fixture *f, unsigned count, uint32_t bytes)
{
	uint8_t *out = malloc((size_t)count * bytes + 1), *in = malloc((size_t)count * bytes + 1);
	struct nam_call calls[NAM_CALLS_MAX];

	for (uint32_t i = 0; i < count * bytes; i++)
		out[i] = (uint8_t)(i * 13 + count);
	for (unsigned i = 0; i < count; i++)
		calls[i] = (struct nam_call){
			.slot = i % SERVERS,
			.type = NAM_RPC_PING,
			.body_bytes = bytes,
			.body = out + (size_t)i * bytes,
			.reply = in + (size_t)i * bytes,
			.reply_size = bytes,
		};
	assert_int_equal(nam_rpc_call_many(f->worker, calls, count), 0);
	assert_memory_equal(in, out, (size_t)count * bytes);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(calls[i].rc, 0);
		assert_int_equal(calls[i].reply_bytes, bytes);
	}
	free(out);
	free(in);
}

static void
nam_rpc_call_many__any_number__EACH_ITS_OWN_REPLY(void **state)
{
	struct fixture *f = *state;
	uint64_t before = requests_of(f, 0) + requests_of(f, 1), sum = 0;

	for (unsigned count = 0; count <= NAM_CALLS_MAX; count++) {
		call_many(f, count, 1 + count * 9);
		sum += count;
	}
	call_many(f, 20, NAM_RPC_BODY_MAX);
	assert_int_equal(requests_of(f, 0) + requests_of(f, 1) - before, sum + 20 + 2);
	assert_true(SLIST_EMPTY(&f->worker->calls));
	assert_int_equal(f->worker->slots_waiting, 0);
}

static void
nam_rpc_call_many__two_servers__A_DOORBELL_EACH(void **state)
{
	struct fixture *f = *state;
	struct nam_op_counters before;
	uint32_t out = HEADER_BYTES + 8, in = out;
	uint64_t fetches;

	call_many(f, 2, 8);
	before = *counted(f);
	call_many(f, 8, 8);
	/* A fetch without a reply is one too many. */
	fetches = f->transport == NAM_TRANSPORT_FETCH ?
		counted(f)->work_requests - before.work_requests - 8 : 0;
	if (f->transport != NAM_TRANSPORT_SRQ)
		in = out = nam_frame_bytes(out);
	if (f->transport == NAM_TRANSPORT_FETCH)
		assert_true(fetches >= 8);
	/* A wake of a memory server that went to sleep meanwhile is one more. */
	if (f->transport == NAM_TRANSPORT_SRQ) {
		assert_int_equal(counted(f)->doorbells - before.doorbells, 2);
		assert_int_equal(counted(f)->work_requests - before.work_requests, 8);
		assert_int_equal(counted(f)->bytes_out - before.bytes_out, 8 * out);
		assert_int_equal(counted(f)->bytes_in - before.bytes_in, 8 * in);
	}
	assert_true(counted(f)->doorbells - before.doorbells <= 2 + fetches + 8);
	if (f->transport != NAM_TRANSPORT_FETCH)
		assert_int_equal(counted(f)->round_trips - before.round_trips, 1);
}

static void
nam_rpc_call_many__one_fails__OTHERS_ANSWERED_and_FIRST_FAILURE_RETURNED(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_catalog_entry wrong = { .name = "absent" };
	uint32_t slot = f->client->catalog_slot;
	struct nam_call calls[3] = {
		{ .slot = slot, .type = NAM_RPC_PING },
		{ .slot = slot, .type = NAM_RPC_CATALOG_GET, .body = &wrong,
			.body_bytes = sizeof(wrong) },
		{ .slot = !slot, .type = NAM_RPC_PING, .body_bytes = UINT32_MAX },
	};

	assert_int_equal(nam_rpc_call_many(f->worker, calls, 3), -NAM_E_NOINDEX);
	assert_int_equal(calls[0].rc, 0);
	assert_int_equal(calls[1].rc, -NAM_E_NOINDEX);
	assert_int_equal(calls[2].rc, -NAM_E_LIMIT);
}

static void
nam_rpc_call_many__too_many_or_no_such_slot__LIMIT(void **state)
{
	struct fixture *f = *state;
	struct nam_call calls[NAM_CALLS_MAX + 1] = { { .slot = SERVERS,
		.type = NAM_RPC_PING } };

	assert_int_equal(nam_rpc_call_many(f->worker, calls, 1), -NAM_E_LIMIT);
	assert_int_equal(nam_rpc_call_many(f->worker, calls, NAM_CALLS_MAX + 1),
		-NAM_E_LIMIT);
	calls[0] = (struct nam_call){ .type = 0 };
	assert_int_equal(nam_rpc_call_many(f->worker, calls, 1), -NAM_E_LIMIT);
}

static void
nam_rpc_call_many__one_server_ends__PEER_DEAD_from_it_only(void **state)
{
	struct fixture *f = *state;
	struct nam_call calls[6];

	call_many(f, 4, 8);
	local_cluster_stop_server(f->cluster, 1);
	for (unsigned i = 0; i < 6; i++)
		calls[i] = (struct nam_call){ .slot = i % 2, .type = NAM_RPC_PING };
	assert_int_equal(nam_rpc_call_many(f->worker, calls, 6), -NAM_E_FABRIC_PEER_DEAD);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(calls[i].rc, i % 2 ? -NAM_E_FABRIC_PEER_DEAD : 0);
	assert_int_equal(f->worker->slots_waiting, 0);
}

/* ---- one-way ------------------------------------------------------------------------------ */

static void
nam_rpc_send_one_way__then_flush__COST_EXACT(void **state)
{
	struct fixture *f = *state;
	uint64_t done = requests_of(f, 0);
	struct nam_op_counters before = *counted(f);

	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(send_one_way(f, 0), 0);
	assert_int_equal(counted(f)->round_trips - before.round_trips, 0);
	assert_int_equal(counted(f)->doorbells - before.doorbells, 10);
	assert_int_equal(counted(f)->work_requests - before.work_requests, 10);
	assert_int_equal(counted(f)->bytes_out - before.bytes_out,
		10 * (HEADER_BYTES + 8));
	before = *counted(f);
	assert_int_equal(nam_rpc_flush(f->worker, 0), 0);
	assert_int_equal(counted(f)->round_trips - before.round_trips, 1);
	assert_int_equal(counted(f)->doorbells - before.doorbells, 1);
	assert_int_equal(counted(f)->bytes_out - before.bytes_out, HEADER_BYTES);
	/* Nothing came for any of the ten, but for this. */
	assert_int_equal(counted(f)->bytes_in - before.bytes_in, HEADER_BYTES);
	before = *counted(f);
	assert_int_equal(nam_rpc_flush(f->worker, 0), 0);
	assert_int_equal(nam_rpc_flush(f->worker, 1), 0);
	assert_int_equal(counted(f)->round_trips - before.round_trips, 0);
	assert_int_equal(requests_of(f, 0) - done, 10 + 1 + 1);
}

/* The acknowledgement comes with whatever is answered next. */
static void
nam_rpc_send_one_way__then_any_call__ACKNOWLEDGED(void **state)
{
	struct fixture *f = *state;
	struct nam_op_counters before;
	unsigned tries = 0;

	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(send_one_way(f, 0), 0);
	do
		call_many(f, 1, 8);
	while (f->worker->one_way[0]->acknowledged != 5 && ++tries < 100);
	assert_int_equal(f->worker->one_way[0]->acknowledged, 5);
	before = *counted(f);
	assert_int_equal(nam_rpc_flush(f->worker, 0), 0);
	assert_int_equal(counted(f)->doorbells - before.doorbells, 0);
}

static void
nam_rpc_send_one_way__more_than_may_be_outstanding__ASKS_FOR_ACKNOWLEDGEMENT(void **state)
{
	struct fixture *f = *state;
	struct nam_op_counters before = *counted(f);

	/* The eight bits of a reply go round a few times. */
	for (unsigned i = 0; i < 20 * NAM_ONE_WAY_MAX; i++)
		assert_int_equal(send_one_way(f, 1), 0);
	assert_int_equal(counted(f)->round_trips - before.round_trips, 19);
	assert_int_equal(nam_rpc_flush(f->worker, 1), 0);
}

static void
nam_rpc_flush__after_a_failure__TOLD_ONCE(void **state)
{
	struct fixture *f = *state;
	uint32_t slot = f->client->catalog_slot;

	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(send_one_way(f, slot), 0);
		assert_int_equal(tell_wrong(f), 0);
		if (i % 3 == 0)
			call_many(f, 2, 8);
		assert_int_equal(send_one_way(f, slot), 0);
		assert_int_equal(nam_rpc_flush(f->worker, slot), -NAM_E_NOINDEX);
		assert_int_equal(nam_rpc_flush(f->worker, slot), 0);
	}
}

static void
nam_rpc_flush__memory_server_ends__PEER_DEAD(void **state)
{
	struct fixture *f = *state;
	int rc;

	assert_int_equal(send_one_way(f, 1), 0);
	assert_int_equal(nam_rpc_flush(f->worker, 1), 0);
	assert_int_equal(send_one_way(f, 0), 0);
	assert_int_equal(send_one_way(f, 1), 0);
	local_cluster_stop_server(f->cluster, 1);
	assert_int_equal(nam_rpc_flush(f->worker, 0), 0);
	/* It may have been in time to acknowledge, but no request asked. */
	assert_int_equal(nam_rpc_flush(f->worker, 1), -NAM_E_FABRIC_PEER_DEAD);
	/* Until the end of the connection is known, more may be sent, and are lost. */
	while (!(rc = send_one_way(f, 1)))
		assert_int_equal(nam_rpc_flush(f->worker, 1), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(nam_rpc_flush(f->worker, SERVERS), -NAM_E_LIMIT);
	assert_int_equal(nam_rpc_send_one_way(f->worker, SERVERS, NAM_RPC_PING, NULL, 0),
		-NAM_E_LIMIT);
}

/* The fake server answers everything but one-way requests. */
static void
nam_rpc_flush__no_acknowledgement__PROTOCOL(void **state)
{
	struct fake_server_options fake_options = { .id = 0 };
	struct fake_server *server = fake_server_start(&fake_options);
	struct nam_client *client = test_connect(fake_server_address(server), "test", 0);
	struct nam_worker *worker = test_worker(client);

	(void)state;
	assert_int_equal(nam_rpc_send_one_way(worker, 0, NAM_RPC_PING, NULL, 0), 0);
	assert_int_equal(nam_rpc_flush(worker, 0), -NAM_E_FABRIC_PROTOCOL);
	assert_non_null(strstr(nam_worker_diag(worker), fake_server_address(server)));
	nam_worker_close(worker);
	nam_client_close(client);
	fake_server_stop(server);
}

/* By each RPC transport. */
#define EACH(test)                                                                                  \
	cmocka_unit_test_setup_teardown(test, start_srq, stop),                                     \
	cmocka_unit_test_setup_teardown(test, start_mailbox, stop),                                 \
	cmocka_unit_test_setup_teardown(test, start_fetch, stop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(nam_rpc_call_many__any_number__EACH_ITS_OWN_REPLY),
		EACH(nam_rpc_call_many__two_servers__A_DOORBELL_EACH),
		EACH(nam_rpc_call_many__one_fails__OTHERS_ANSWERED_and_FIRST_FAILURE_RETURNED),
		EACH(nam_rpc_call_many__too_many_or_no_such_slot__LIMIT),
		EACH(nam_rpc_call_many__one_server_ends__PEER_DEAD_from_it_only),
		EACH(nam_rpc_send_one_way__then_flush__COST_EXACT),
		EACH(nam_rpc_send_one_way__then_any_call__ACKNOWLEDGED),
		EACH(nam_rpc_send_one_way__more_than_may_be_outstanding__ASKS_FOR_ACKNOWLEDGEMENT),
		EACH(nam_rpc_flush__after_a_failure__TOLD_ONCE),
		EACH(nam_rpc_flush__memory_server_ends__PEER_DEAD),
		cmocka_unit_test(nam_rpc_flush__no_acknowledgement__PROTOCOL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
