/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compute/rpc/call.h"
#include "tests/lib/cluster.h"
#include "tests/lib/fake_server.h"

/* The hook's change of PING replies; set before the call, read in the server's thread. */
enum mischief {
	BEHAVE,
	DROP,
	HOLD,
	TWICE,
	WRONG_TYPE,
	WRONG_ID,
	WRONG_MAGIC,
	WRONG_VERSION,
	POSITIVE_STATUS,
	NEGATIVE_STATUS,
	CUT_SHORT,
	CLOSE,
};

struct fixture {
	struct fake_server *server;
	struct nam_client *client;
	struct nam_worker *worker;
	_Atomic enum mischief mischief;
};

static void
hook(struct fake_server *server, const struct nam_rpc_header *request, struct fake_reply *reply)
{
	struct fixture *fixture = fake_server_hook_arg(server);
	enum mischief mischief = atomic_load(&fixture->mischief);

	if (request->type != NAM_RPC_PING)
		return;
	reply->copies = mischief == DROP ? 0 : mischief == TWICE ? 2 : 1;
	reply->hold = mischief == HOLD;
	reply->close = mischief == CLOSE;
	if (mischief == WRONG_TYPE)
		reply->header.type = NAM_RPC_STATUS;
	if (mischief == WRONG_ID)
		reply->header.id += 1000000;
	if (mischief == WRONG_MAGIC)
		reply->header.magic_version ^= 0x100;
	if (mischief == WRONG_VERSION)
		reply->header.magic_version ^= 0x2;
	if (mischief == POSITIVE_STATUS)
		reply->header.status = 1;
	if (mischief == NEGATIVE_STATUS)
		reply->header.status = -NAM_E_NOTFOUND;
	if (mischief == CUT_SHORT)
		reply->header.body_bytes += NAM_RPC_BYTES_MAX;
}

static int
set_up(void **state)
{
	static struct fixture fixture;
	struct fake_server_options options = { .hook = hook, .hook_arg = &fixture };

	struct nam_client_options client_options;
	struct nam_diag diag = { "" };

	memset(&fixture, 0, sizeof(fixture));
	fixture.server = fake_server_start(&options);
	nam_client_options_init(&client_options);
	client_options.cluster = fake_server_address(fixture.server);
	/* Long, so that a slow machine fails no test; those that wait for it choose their own. */
	client_options.timeout_ms = 60000;
	if (nam_client_connect(&client_options, &fixture.client, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(nam_worker_open(fixture.client, &fixture.worker, &diag), 0);
	*state = &fixture;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *fixture = *state;

	nam_worker_close(fixture->worker);
	nam_client_close(fixture->client);
	fake_server_stop(fixture->server);
	return 0;
}

static int
ping(struct nam_worker *worker, uint64_t value, uint64_t *ret_value)
{
	uint32_t bytes = sizeof(*ret_value);

	return nam_rpc_call(worker, 0, NAM_RPC_PING, &value, sizeof(value), ret_value, &bytes);
}

static void
ping_begin(struct nam_worker *worker, struct nam__call *call, uint64_t value, uint64_t *ret_value)
{
	assert_int_equal(nam__rpc_begin(worker, call, 0, NAM_RPC_PING, &value, sizeof(value),
		ret_value, sizeof(*ret_value)), 0);
}

/* ---- one call ----------------------------------------------------------------------------- */

static void
nam_rpc_call__ping__BODY_ECHOED(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo = 0;

	assert_int_equal(ping(fixture->worker, 4711, &echo), 0);
	assert_int_equal(echo, 4711);
}

static void
nam_rpc_call__largest_body__ECHOED(void **state)
{
	struct fixture *fixture = *state;
	static uint8_t out[NAM_RPC_BODY_MAX], in[NAM_RPC_BODY_MAX];
	uint32_t bytes = sizeof(in);

	for (uint32_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 31);
	assert_int_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_PING, out, sizeof(out), in,
				 &bytes),
		0);
	assert_int_equal(bytes, sizeof(out));
	assert_memory_equal(in, out, sizeof(out));
}

static void
nam_rpc_call__no_body_either_way__OK(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_PING, NULL, 0, NULL, NULL), 0);
}

static void
nam_rpc_call__body_too_large__LIMIT(void **state)
{
	struct fixture *fixture = *state;
	static uint8_t out[NAM_RPC_BODY_MAX + 1];

	assert_int_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_PING, out, sizeof(out), NULL,
				 NULL),
		-NAM_E_LIMIT);
	assert_int_equal(nam_rpc_call(fixture->worker, 1, NAM_RPC_PING, out, 8, NULL, NULL),
		-NAM_E_LIMIT);
}

static void
nam_rpc_call__ping__COST_EXACT(void **state)
{
	struct fixture *fixture = *state;
	const struct nam_op_counters *counters =
		nam_worker_counters(fixture->worker, NAM_OP_OTHER);
	struct nam_op_counters before = *counters;
	uint64_t echo;

	assert_int_equal(ping(fixture->worker, 1, &echo), 0);
	assert_int_equal(counters->round_trips - before.round_trips, 1);
	assert_int_equal(counters->doorbells - before.doorbells, 1);
	assert_int_equal(counters->work_requests - before.work_requests, 1);
	assert_int_equal(counters->bytes_out - before.bytes_out, 24 + 8);
	assert_int_equal(counters->bytes_in - before.bytes_in, 24 + 8);
}

static void
nam_rpc_call__negative_status__RETURNED_and_outputs_untouched(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value = 5, echo = 77;
	uint32_t bytes = sizeof(echo);

	atomic_store(&fixture->mischief, NEGATIVE_STATUS);
	assert_int_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_PING, &value, sizeof(value),
				 &echo, &bytes),
		-NAM_E_NOTFOUND);
	assert_int_equal(echo, 77);
	assert_int_equal(bytes, sizeof(echo));
}

/* ---- malformed replies -------------------------------------------------------------------- */

static void
nam_rpc_call__malformed_reply__PROTOCOL(void **state)
{
	static const enum mischief cases[] = {
		WRONG_TYPE, WRONG_MAGIC, POSITIVE_STATUS, CUT_SHORT
	};
	struct fixture *fixture = *state;
	uint64_t echo = 0;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		atomic_store(&fixture->mischief, cases[i]);
		assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_PROTOCOL);
		assert_int_equal(echo, 0);
		assert_non_null(strstr(nam_worker_diag(fixture->worker),
			fake_server_address(fixture->server)));
	}
	atomic_store(&fixture->mischief, BEHAVE);
	assert_int_equal(ping(fixture->worker, 2, &echo), 0);
}

static void
nam_rpc_call__reply_of_other_version__VERSION(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo;

	atomic_store(&fixture->mischief, WRONG_VERSION);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_VERSION);
}

static void
nam_rpc_call__reply_larger_than_room__PROTOCOL(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value[2] = { 1, 2 };
	uint64_t echo[2] = { 0, 0 };
	uint32_t bytes = 8;

	assert_int_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_PING, value, sizeof(value), echo,
				 &bytes),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(echo[0] | echo[1], 0);
}

static void
nam_rpc_call__reply_sent_twice__SECOND_DROPPED(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo;

	atomic_store(&fixture->mischief, TWICE);
	for (uint64_t i = 0; i < 3 * NAM__RECV_BUFFERS; i++) {
		assert_int_equal(ping(fixture->worker, i, &echo), 0);
		assert_int_equal(echo, i);
	}
}

/* ---- deadlines ---------------------------------------------------------------------------- */

static void
nam_rpc_call__no_reply__TIMEOUT(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo;

	fixture->client->options.timeout_ms = 20;
	atomic_store(&fixture->mischief, DROP);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_TIMEOUT);
	assert_non_null(strstr(nam_worker_diag(fixture->worker), "PING"));
	assert_true(SLIST_EMPTY(&fixture->worker->calls));
}

struct busy {
	struct fixture *fixture;
	uint64_t until_ns;
	int rc;		/* of the call; 1: it has not ended */
};

static void
read_until_it_ends(void *arg)
{
	struct busy *busy = arg;
	struct nam_worker *worker = busy->fixture->worker;
	void *local = nam_buffer_take(worker, 8);

	while (busy->rc == 1 && nam_now_ns() < busy->until_ns)
		if (nam_read_await(worker, worker->client->epoch_word, local, 8)) /* SUSPENDS */
			break;
	nam_buffer_give(worker, local, 8);
}

static void
ping_once(void *arg)
{
	struct busy *busy = arg;
	uint64_t echo;

	busy->rc = ping(busy->fixture->worker, 1, &echo); /* SUSPENDS */
}

/* Their completions fill every poll. */
static void
nam_rpc_call__no_reply_while_other_fibers_read__TIMEOUT(void **state)
{
	struct fixture *fixture = *state;
	struct busy busy = { fixture, nam_now_ns() + test_bound_ns(20000000000), 1 };

	fixture->client->options.timeout_ms = 20;
	atomic_store(&fixture->mischief, DROP);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(nam_worker_spawn(fixture->worker, read_until_it_ends, &busy), 0);
	assert_int_equal(nam_worker_spawn(fixture->worker, ping_once, &busy), 0);
	nam_worker_run(fixture->worker);
	assert_int_equal(busy.rc, -NAM_E_FABRIC_TIMEOUT);
	assert_true(nam_now_ns() < busy.until_ns);
}

/* Work between request and wait does not count as waiting. */
static void
nam__rpc_await__long_after_the_call_began__REPLY_TAKEN(void **state)
{
	struct fixture *fixture = *state;
	uint32_t bytes = sizeof(uint64_t);
	uint64_t timeout_ns = test_bound_ns(1000000000), echo = 0;
	struct nam__call call;

	fixture->client->options.timeout_ms = (uint32_t)(timeout_ns / 1000000);
	ping_begin(fixture->worker, &call, 7, &echo);
	nam_sleep_ns(timeout_ns + timeout_ns / 10);
	assert_int_equal(nam__rpc_await(fixture->worker, &call, &bytes), 0);
	assert_int_equal(echo, 7);
}

static void
nam_rpc_call__reply_to_unknown_id__DROPPED_and_TIMEOUT(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo = 9;

	fixture->client->options.timeout_ms = 20;
	atomic_store(&fixture->mischief, WRONG_ID);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_TIMEOUT);
	assert_int_equal(echo, 9);
}

static void
nam_rpc_call__late_replies__DROPPED_and_next_calls_right(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo = 0;

	fixture->client->options.timeout_ms = 20;
	/* More late replies than receive buffers: each must be posted again. */
	atomic_store(&fixture->mischief, HOLD);
	for (uint64_t i = 0; i < NAM__RECV_BUFFERS + 4; i++)
		assert_int_equal(ping(fixture->worker, 100 + i, &echo), -NAM_E_FABRIC_TIMEOUT);
	atomic_store(&fixture->mischief, BEHAVE);
	fake_server_release(fixture->server);
	fixture->client->options.timeout_ms = 60000;
	for (uint64_t i = 0; i < 2 * NAM__RECV_BUFFERS; i++) {
		assert_int_equal(ping(fixture->worker, i, &echo), 0);
		assert_int_equal(echo, i);
	}
}

static uint64_t
begun_timeout_ns(struct fixture *fixture)
{
	uint64_t echo = 0, begun_ns;
	uint32_t bytes = sizeof(echo);
	struct nam__call call;

	fixture->client->options.timeout_ms = 60000;
	atomic_store(&fixture->mischief, BEHAVE);
	begun_ns = nam_now_ns();
	ping_begin(fixture->worker, &call, 7, &echo);
	begun_ns = call.deadline_ns - begun_ns;
	assert_int_equal(nam__rpc_await(fixture->worker, &call, &bytes), 0);
	return begun_ns;
}

static void
nam_rpc_call__silent_server__LATER_CALLS_END_SOONER_until_it_is_heard(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo = 0;

	fixture->client->options.timeout_ms = 20;
	atomic_store(&fixture->mischief, DROP);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_TIMEOUT);
	assert_true(begun_timeout_ns(fixture) < 30000000000);
	assert_true(begun_timeout_ns(fixture) >= 60000000000);
}

static void
nam_rpc_call__other_calls_answered_meanwhile__NOT_SILENT(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo = 0;
	uint32_t bytes = sizeof(echo);
	struct nam__call call;

	atomic_store(&fixture->mischief, DROP);
	ping_begin(fixture->worker, &call, 7, &echo);
	/* Requests are carried out in order, and this one has an answer of any kind. */
	assert_int_not_equal(nam_rpc_call(fixture->worker, 0, NAM_RPC_STATUS, NULL, 0, NULL, NULL),
		-NAM_E_FABRIC_TIMEOUT);
	fixture->client->options.timeout_ms = 20;
	assert_int_equal(nam__rpc_await(fixture->worker, &call, &bytes), -NAM_E_FABRIC_TIMEOUT);
	assert_true(begun_timeout_ns(fixture) >= 60000000000);
}

/* ---- a server that goes ------------------------------------------------------------------- */

static void
nam_rpc_call__server_closes__PEER_DEAD_and_then_at_once(void **state)
{
	struct fixture *fixture = *state;
	uint32_t seen;
	uint64_t echo;

	atomic_store(&fixture->mischief, CLOSE);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_PEER_DEAD);
	assert_true(atomic_load(&fixture->client->servers[0].lost));
	seen = fake_server_requests(fixture->server, NAM_RPC_PING);
	assert_int_equal(ping(fixture->worker, 1, &echo), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(fake_server_requests(fixture->server, NAM_RPC_PING), seen);
}

/* ---- fibers ------------------------------------------------------------------------------- */

#define FIBERS 64u
#define CALLS_PER_FIBER 50u

struct pinger {
	struct nam_worker *worker;
	uint64_t number;
	uint32_t right;
	int rc;
};

static void
ping_many(void *arg)
{
	struct pinger *pinger = arg;

	for (uint64_t i = 0; i < CALLS_PER_FIBER; i++) {
		uint64_t echo = 0, value = pinger->number << 32 | i;
		int rc = ping(pinger->worker, value, &echo); /* SUSPENDS */

		if (rc)
			pinger->rc = rc;
		pinger->right += !rc && echo == value;
	}
}

static void
nam_rpc_call__many_fibers__EACH_ITS_OWN_REPLY(void **state)
{
	struct fixture *fixture = *state;
	struct pinger pingers[FIBERS];

	for (uint32_t i = 0; i < FIBERS; i++) {
		pingers[i] = (struct pinger){ fixture->worker, i, 0, 0 };
		assert_int_equal(nam_worker_spawn(fixture->worker, ping_many, &pingers[i]), 0);
	}
	nam_worker_run(fixture->worker);
	for (uint32_t i = 0; i < FIBERS; i++) {
		assert_int_equal(pingers[i].rc, 0);
		assert_int_equal(pingers[i].right, CALLS_PER_FIBER);
	}
	assert_true(SLIST_EMPTY(&fixture->worker->calls));
}

static void
nam_rpc_call__server_closes_under_many_fibers__ALL_FAIL(void **state)
{
	struct fixture *fixture = *state;
	struct pinger pingers[FIBERS];

	atomic_store(&fixture->mischief, CLOSE);
	for (uint32_t i = 0; i < FIBERS; i++) {
		pingers[i] = (struct pinger){ fixture->worker, i, 0, 0 };
		assert_int_equal(nam_worker_spawn(fixture->worker, ping_many, &pingers[i]), 0);
	}
	nam_worker_run(fixture->worker);
	for (uint32_t i = 0; i < FIBERS; i++) {
		assert_int_equal(pingers[i].rc, -NAM_E_FABRIC_PEER_DEAD);
		assert_int_equal(pingers[i].right, 0);
	}
}

/* Buffers of calls come back: many calls take no more memory than one. */
static void
nam_rpc_call__many_calls__MEMORY_CONSTANT(void **state)
{
	struct fixture *fixture = *state;
	uint64_t echo;
	size_t bytes;

	assert_int_equal(ping(fixture->worker, 0, &echo), 0);
	bytes = nam_worker_bytes(fixture->worker);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(ping(fixture->worker, i, &echo), 0);
	assert_int_equal(nam_worker_bytes(fixture->worker), bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nam_rpc_call__ping__BODY_ECHOED),
		TEST(nam_rpc_call__largest_body__ECHOED),
		TEST(nam_rpc_call__no_body_either_way__OK),
		TEST(nam_rpc_call__body_too_large__LIMIT),
		TEST(nam_rpc_call__ping__COST_EXACT),
		TEST(nam_rpc_call__negative_status__RETURNED_and_outputs_untouched),
		TEST(nam_rpc_call__malformed_reply__PROTOCOL),
		TEST(nam_rpc_call__reply_of_other_version__VERSION),
		TEST(nam_rpc_call__reply_larger_than_room__PROTOCOL),
		TEST(nam_rpc_call__reply_sent_twice__SECOND_DROPPED),
		TEST(nam_rpc_call__no_reply__TIMEOUT),
		TEST(nam_rpc_call__no_reply_while_other_fibers_read__TIMEOUT),
		TEST(nam__rpc_await__long_after_the_call_began__REPLY_TAKEN),
		TEST(nam_rpc_call__reply_to_unknown_id__DROPPED_and_TIMEOUT),
		TEST(nam_rpc_call__late_replies__DROPPED_and_next_calls_right),
		TEST(nam_rpc_call__silent_server__LATER_CALLS_END_SOONER_until_it_is_heard),
		TEST(nam_rpc_call__other_calls_answered_meanwhile__NOT_SILENT),
		TEST(nam_rpc_call__server_closes__PEER_DEAD_and_then_at_once),
		TEST(nam_rpc_call__many_fibers__EACH_ITS_OWN_REPLY),
		TEST(nam_rpc_call__server_closes_under_many_fibers__ALL_FAIL),
		TEST(nam_rpc_call__many_calls__MEMORY_CONSTANT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
