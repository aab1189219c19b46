/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by way of mailboxes, to a real memory server over shared memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "compute/rpc/mailbox.h"
#include "tests/lib/cluster.h"

#define FIBERS 20u
#define CALLS 200u

struct fixture {
	struct local_cluster *cluster;
	struct nam_client *client;
	struct nam_worker *worker;
};

static const enum nam_transport transports[] = { NAM_TRANSPORT_MAILBOX, NAM_TRANSPORT_FETCH };

static struct fixture
start(enum nam_transport transport, uint32_t frame_bytes, uint32_t fetch_bytes)
{
	struct fixture f = { .cluster = local_cluster_start(1, 16u << 20, 16u << 20) };
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = local_cluster_list(f.cluster);
	options.transport = transport;
	options.frame_bytes = frame_bytes;
	options.fetch_bytes = fetch_bytes;
	options.timeout_ms = 60000;
	if (nam_client_connect(&options, &f.client, &diag) ||
		nam_worker_open(f.client, &f.worker, &diag))
		fail_msg("%s", diag.text);
	return f;
}

static void
stop(struct fixture *f)
{
	nam_worker_close(f->worker);
	nam_client_close(f->client);
	local_cluster_stop(f->cluster);
}

static int
ping(struct nam_worker *worker, uint32_t bytes, uint8_t seed)
{
	uint8_t *mine = malloc(bytes + 1), *echo = malloc(bytes + 1);
	uint32_t got = bytes;
	int rc;

	for (uint32_t i = 0; i < bytes; i++)
		mine[i] = (uint8_t)(i * 13 + seed);
	rc = nam_rpc_call(worker, 0, NAM_RPC_PING, mine, bytes, echo, &got); /* SUSPENDS */
	if (!rc && (got != bytes || memcmp(mine, echo, bytes)))
		rc = -EBADMSG;
	free(mine);
	free(echo);
	return rc;
}

/* Lengths around all bounds: no body, frames that just hold it or just do not, a second READ. */
static void
nam_rpc_call__bodies_of_any_length__ECHOED(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 2; c++) {
		for (uint32_t frame_bytes = 256; frame_bytes <= NAM_FRAME_BYTES_MAX;
			frame_bytes += NAM_FRAME_BYTES_MAX - 256) {
			struct fixture f = start(transports[c], frame_bytes, 104);

			for (uint32_t bytes = 0; bytes < 600; bytes += 7)
				assert_int_equal(ping(f.worker, bytes, (uint8_t)bytes), 0);
			assert_int_equal(ping(f.worker, NAM_RPC_BODY_MAX, 3), 0);
			assert_int_equal(ping(f.worker, NAM_RPC_BODY_MAX - 1, 4), 0);
			stop(&f);
		}
	}
}

struct pinger {
	struct nam_worker *worker;
	uint32_t number, right;
};

static void
ping_often(void *arg)
{
	struct pinger *pinger = arg;

	for (uint32_t i = 0; i < CALLS; i++)
		pinger->right += !ping(pinger->worker, (i * 37 + pinger->number) % 300,
			(uint8_t)(i ^ pinger->number)); /* SUSPENDS */
}

static void
nam_rpc_call__more_fibers_than_places__EACH_ITS_OWN_REPLY(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 2; c++) {
		struct fixture f = start(transports[c], 0, 0);
		struct nam_server_status before, after;
		struct pinger pingers[FIBERS];

		assert_int_equal(nam_server_status_get(f.worker, 0, &before), 0);
		for (uint32_t i = 0; i < FIBERS; i++) {
			pingers[i] = (struct pinger){ f.worker, i, 0 };
			assert_int_equal(nam_worker_spawn(f.worker, ping_often, &pingers[i]), 0);
		}
		nam_worker_run(f.worker);
		for (uint32_t i = 0; i < FIBERS; i++)
			assert_int_equal(pingers[i].right, CALLS);
		assert_int_equal(nam_server_status_get(f.worker, 0, &after), 0);
		/* Each was carried out once. */
		assert_int_equal(after.requests - before.requests, FIBERS * CALLS + 1);
		assert_true(SLIST_EMPTY(&f.worker->calls));
		assert_int_equal(f.worker->slots_waiting, 0);
		stop(&f);
	}
}

static void
nam_rpc_call__memory_server_ends__PEER_DEAD(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 2; c++) {
		struct fixture f = start(transports[c], 0, 0);

		assert_int_equal(ping(f.worker, 8, 1), 0);
		local_cluster_stop_server(f.cluster, 0);
		assert_int_equal(ping(f.worker, 8, 1), -NAM_E_FABRIC_PEER_DEAD);
		assert_int_equal(ping(f.worker, 8, 1), -NAM_E_FABRIC_PEER_DEAD);
		assert_int_equal(f.worker->slots_waiting, 0);
		stop(&f);
	}
}

/* Workers come and go: their places come back, or there would soon be none. */
static void
nam_worker_open__many_times__PLACES_COME_BACK(void **state)
{
	struct fixture f = start(NAM_TRANSPORT_MAILBOX, 0, 0);
	struct nam_diag diag;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		struct nam_worker *worker;

		assert_int_equal(nam_worker_open(f.client, &worker, &diag), 0);
		assert_int_equal(ping(worker, 100, (uint8_t)i), 0);
		nam_worker_close(worker);
	}
	stop(&f);
}

static void
nam_client_connect__frames_or_transport_that_are_none__EINVAL(void **state)
{
	static const uint32_t bad[] = { 64, 130, NAM_FRAME_BYTES_MAX + 64 };
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		nam_client_options_init(&options);
		options.cluster = "shm:/nowhere";
		options.frame_bytes = bad[i];
		assert_int_equal(nam_client_connect(&options, &client, &diag), -EINVAL);
		assert_non_null(strstr(diag.text, "frames"));
	}
	nam_client_options_init(&options);
	options.cluster = "shm:/nowhere";
	options.fetch_bytes = 8;
	assert_int_equal(nam_client_connect(&options, &client, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "fetch"));
	options.fetch_bytes = 0;
	options.transport = NAM_TRANSPORTS_COUNT;
	assert_int_equal(nam_client_connect(&options, &client, &diag), -EINVAL);
	options.transport = NAM_TRANSPORT_DEFAULT;
	assert_int_equal(setenv("NAM_TRANSPORT", "pigeon", 1), 0);
	assert_int_equal(nam_client_connect(&options, &client, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "pigeon"));
	assert_int_equal(unsetenv("NAM_TRANSPORT"), 0);
}

/* The default of client.h, over each fabric. */
static void
nam_worker_open__no_transport_is_named__SRQ_UNLESS_NEAR(void **state)
{
	struct fixture f;

	(void)state;
	assert_int_equal(unsetenv("NAM_TRANSPORT"), 0);
	f = start(NAM_TRANSPORT_DEFAULT, 0, 0);
	assert_int_equal(f.worker->mailboxes[0] != NULL, f.client->servers[0].near);
	assert_true(!f.client->servers[0].near || !strcmp(nam_client_fabric(f.client), "verbs"));
	stop(&f);
}

/* Shared memory and TCP lose nothing, so there is nothing that could; datagrams of a NIC may. */
static void
nam_client_connect__by_datagrams__CAPABILITY_IF_NONE(void **state)
{
	struct local_cluster *cluster = local_cluster_start(1, 16u << 20, 16u << 20);
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	int rc;

	(void)state;
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	options.transport = NAM_TRANSPORT_DATAGRAM;
	rc = nam_client_connect(&options, &client, &diag);
	if (!rc) {
		assert_true(client->caps & NAM_CAP_UD);
		nam_client_close(client);
	} else {
		assert_int_equal(rc, -NAM_E_FABRIC_CAPABILITY);
		assert_non_null(strstr(diag.text, "datagram"));
		assert_non_null(strstr(diag.text, "srq"));
		options.transport = NAM_TRANSPORT_SRQ;
		assert_int_equal(nam_client_connect(&options, &client, &diag), 0);
		assert_false(client->caps & NAM_CAP_UD);
		nam_client_close(client);
	}
	local_cluster_stop(cluster);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_rpc_call__bodies_of_any_length__ECHOED),
		cmocka_unit_test(nam_rpc_call__more_fibers_than_places__EACH_ITS_OWN_REPLY),
		cmocka_unit_test(nam_rpc_call__memory_server_ends__PEER_DEAD),
		cmocka_unit_test(nam_worker_open__many_times__PLACES_COME_BACK),
		cmocka_unit_test(nam_worker_open__no_transport_is_named__SRQ_UNLESS_NEAR),
		cmocka_unit_test(nam_client_connect__by_datagrams__CAPABILITY_IF_NONE),
		cmocka_unit_test(nam_client_connect__frames_or_transport_that_are_none__EINVAL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
