/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compute/worker/worker.h"
#include "tests/lib/cluster.h"
#include "tests/lib/fake_server.h"

#define TEXT_BYTES 600u

static int
connect_to(const char *cluster, struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client_options options;

	diag->text[0] = '\0';
	nam_client_options_init(&options);
	options.cluster = cluster;
	options.name = "client_test";
	options.timeout_ms = 60000;
	return nam_client_connect(&options, ret_client, diag);
}

static void
assert_mentions(const struct nam_diag *diag, const char *what)
{
	if (!strstr(diag->text, what))
		fail_msg("\"%s\" does not mention \"%s\"", diag->text, what);
}

/* Connect to one fake server and expect a failure whose message names the server. */
static void
expect_failure(const struct fake_server_options *options, int expected, const char *mention)
{
	struct fake_server *server = fake_server_start(options);
	struct nam_client *client = NULL;
	struct nam_diag diag;
	int rc = connect_to(fake_server_address(server), &client, &diag);

	assert_int_equal(rc, expected);
	assert_null(client);
	assert_mentions(&diag, fake_server_address(server));
	if (mention)
		assert_mentions(&diag, mention);
	fake_server_stop(server);
}

/* ---- success ------------------------------------------------------------------------------ */

static void
nam_client_connect__one_server__JOINED(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	char fabric[FAKE_ADDRESS_BYTES];
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(fake_server_address(server), &client, &diag), 0);
	assert_int_equal(nam_client_servers(client), 1);
	assert_int_equal(nam_client_id(client), 1);
	assert_int_equal(client->incarnation, 7);
	snprintf(fabric, sizeof(fabric), "%s", fake_server_address(server));
	*strchr(fabric, ':') = '\0';
	assert_string_equal(nam_client_fabric(client), fabric);
	assert_non_null(nam_region_table_find(&client->regions, nam_gaddr_make(0, 64, 0)));
	assert_null(nam_region_table_find(&client->regions, nam_gaddr_make(1, 64, 0)));
	nam_client_close(client);
	fake_server_stop(server);
}

static void
nam_client_connect__servers_in_any_order__FOUND_BY_ID(void **state)
{
	static const uint32_t ids[] = { 5, 0, 255 };
	struct fake_server *servers[3];
	struct nam_client *client;
	char text[TEXT_BYTES];
	struct nam_diag diag;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fake_server_options options = { .id = ids[i] };

		servers[i] = fake_server_start(&options);
	}
	snprintf(text, sizeof(text), "%s,%s,%s", fake_server_address(servers[0]),
		fake_server_address(servers[1]), fake_server_address(servers[2]));
	assert_int_equal(connect_to(text, &client, &diag), 0);
	assert_int_equal(client->catalog_slot, 1);
	for (uint16_t i = 0; i < 3; i++) {
		struct nam_gaddr at = nam_gaddr_make((uint16_t)(ids[i] * 256), 0, 0);

		assert_int_equal(client->slot_of_id[ids[i]], i);
		assert_int_equal(nam_region_table_find(&client->regions, at)->server, i);
	}
	assert_int_equal(client->slot_of_id[1], UINT16_MAX);
	/* Only the server with the catalog is asked for an id. */
	assert_int_equal(fake_server_requests(servers[0], NAM_RPC_REGISTER), 0);
	assert_int_equal(fake_server_requests(servers[1], NAM_RPC_REGISTER), 1);
	nam_client_close(client);
	for (unsigned i = 0; i < 3; i++)
		fake_server_stop(servers[i]);
}

static void
nam_client_connect__regions_in_pages__ALL_LEARNED(void **state)
{
	struct fake_server_options options = { .regions_count = 8, .regions_per_page = 3 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(fake_server_address(server), &client, &diag), 0);
	/* And again when its slot is published. */
	assert_int_equal(fake_server_requests(server, NAM_RPC_REGIONS), 6);
	for (uint16_t i = 0; i < 8; i++)
		assert_non_null(
			nam_region_table_find(&client->regions, nam_gaddr_make(i, 0, 0)));
	assert_null(nam_region_table_find(&client->regions, nam_gaddr_make(8, 0, 0)));
	nam_client_close(client);
	fake_server_stop(server);
}

static void
nam_client_connect__twice__TWO_IDS(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_client *first, *second;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(fake_server_address(server), &first, &diag), 0);
	assert_int_equal(connect_to(fake_server_address(server), &second, &diag), 0);
	assert_int_not_equal(nam_client_id(first), nam_client_id(second));
	nam_client_close(first);
	nam_client_close(second);
	fake_server_stop(server);
}

/* ---- addresses and versions --------------------------------------------------------------- */

static void
nam_client_connect__no_cluster__EINVAL(void **state)
{
	struct nam_client *client = NULL;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(NULL, &client, &diag), -EINVAL);
	assert_int_equal(connect_to("", &client, &diag), -EINVAL);
	assert_int_equal(connect_to("@/no/such/file", &client, &diag), -ENOENT);
	assert_mentions(&diag, "/no/such/file");
	assert_null(client);
}

static void
nam_client_connect__unknown_fabric__EINVAL(void **state)
{
	struct nam_client *client = NULL;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to("pigeon:loft", &client, &diag), -EINVAL);
	assert_mentions(&diag, "pigeon:loft");
	assert_mentions(&diag, "shm");
	assert_null(client);
}

static void
nam_client_connect__nobody_listens__FABRIC_CONNECT(void **state)
{
	struct nam_client *client = NULL;
	char address[FAKE_ADDRESS_BYTES];
	struct nam_diag diag;

	(void)state;
	test_address("/tmp/nam-nobody-here", address, sizeof(address));
	assert_int_equal(connect_to(address, &client, &diag), -NAM_E_FABRIC_CONNECT);
	assert_mentions(&diag, address);
	assert_mentions(&diag, "--listen");
	assert_null(client);
}

static void
nam_client_connect__other_version__FABRIC_VERSION(void **state)
{
	struct fake_server_options options = {
		.magic_version = NAM_RPC_MAGIC << 8 | (NAM_WIRE_VERSION + 41),
	};
	char theirs[32], ours[32];

	(void)state;
	snprintf(theirs, sizeof(theirs), "version %u", NAM_WIRE_VERSION + 41);
	snprintf(ours, sizeof(ours), "version %u", NAM_WIRE_VERSION);
	expect_failure(&options, -NAM_E_FABRIC_VERSION, theirs);
	/* The same when the server notices first. */
	options.reject_status = -NAM_E_FABRIC_VERSION;
	expect_failure(&options, -NAM_E_FABRIC_VERSION, ours);
}

static void
nam_client_connect__rejected__SERVERS_REASON(void **state)
{
	struct fake_server_options options = { .reject_status = -NAM_E_LIMIT };

	(void)state;
	expect_failure(&options, -NAM_E_FABRIC_REFUSED, "--rpc-threads");
}

/* ---- ids ---------------------------------------------------------------------------------- */

static void
expect_cluster_failure(uint32_t first_id, uint32_t second_id, const char *mention)
{
	struct fake_server_options options = { .id = first_id, .boot = 1 };
	struct fake_server *first = fake_server_start(&options), *second;
	struct nam_client *client = NULL;
	char text[TEXT_BYTES];
	struct nam_diag diag;

	options = (struct fake_server_options){ .id = second_id, .boot = 2 };
	second = fake_server_start(&options);
	snprintf(text, sizeof(text), "%s,%s", fake_server_address(first),
		fake_server_address(second));
	assert_int_equal(connect_to(text, &client, &diag), -NAM_E_CLUSTER);
	assert_null(client);
	assert_mentions(&diag, mention);
	fake_server_stop(first);
	fake_server_stop(second);
}

static void
nam_client_connect__two_servers_with_one_id__CLUSTER(void **state)
{
	(void)state;
	expect_cluster_failure(0, 0, "both have the id 0");
	expect_cluster_failure(3, 3, "both have the id 3");
}

static void
nam_client_connect__no_server_0__CLUSTER(void **state)
{
	(void)state;
	expect_cluster_failure(1, 2, "The catalog lives on the server with id 0");
}

static void
nam_client_connect__one_server_by_two_names__CLUSTER(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	const char *address = fake_server_address(server), *end = strrchr(address, ':') + 1;
	bool is_path = !strncmp(address, "shm:", 4);
	char other[TEXT_BYTES], text[2 * TEXT_BYTES];
	struct nam_client *client = NULL;
	struct nam_diag diag;

	(void)state;
	/* A path of another name, or the same port, written otherwise. */
	snprintf(other, sizeof(other), "%.*s%s%s", (int)(end - address), address,
		is_path ? "/" : "0", end);
	snprintf(text, sizeof(text), "%s,%s", address, other);
	assert_int_equal(connect_to(text, &client, &diag), -NAM_E_CLUSTER);
	assert_mentions(&diag, "one memory server");
	assert_mentions(&diag, other);
	assert_null(client);
	fake_server_stop(server);
}

static void
nam_client_connect__id_contradicts_file__CLUSTER(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	char path[] = "/tmp/nam-cluster-XXXXXX", text[TEXT_BYTES];
	struct nam_client *client = NULL;
	FILE *file = fdopen(mkstemp(path), "w");
	struct nam_diag diag;

	(void)state;
	fprintf(file, "[server 4]\nlisten = %s\n", fake_server_address(server));
	fclose(file);
	snprintf(text, sizeof(text), "@%s", path);
	assert_int_equal(connect_to(text, &client, &diag), -NAM_E_CLUSTER);
	assert_mentions(&diag, fake_server_address(server));
	assert_mentions(&diag, "id is 0");
	assert_mentions(&diag, "says 4");
	unlink(path);
	fake_server_stop(server);
}

static void
nam_client_connect__id_out_of_range__PROTOCOL(void **state)
{
	struct fake_server_options options = { .id = NAM_SERVERS_MAX };

	(void)state;
	expect_failure(&options, -NAM_E_FABRIC_PROTOCOL, "256");
}

/* ---- what servers say about themselves ---------------------------------------------------- */

static void
spoil_regions(struct fake_server *server, const struct nam_rpc_header *request,
	struct fake_reply *reply)
{
	struct nam_rpc_regions_reply *regions = (void *)reply->body;

	if (request->type != NAM_RPC_REGIONS)
		return;
	switch (*(const int *)fake_server_hook_arg(server)) {
	case 0:
		regions->regions[0].id = NAM_REGIONS_PER_SERVER;	/* another server's */
		break;
	case 1:
		regions->regions[0].bytes = 0;
		break;
	case 2:
		regions->regions[0].bytes = (256ull << 30) + 64;
		break;
	case 3:
		regions->regions[1].id = regions->regions[0].id;
		break;
	case 4:
		regions->total++;
		break;
	case 5:
		regions->count = 0;
		break;
	case 6:
		regions->count = UINT16_MAX;
		break;
	case 7:
		reply->header.body_bytes -= 8;
		break;
	case 8:
		reply->header.body_bytes = 0;
		break;
	case 9:
		regions->regions[0].bytes += 8;
		break;
	case 10:
		regions->regions[0].remote = UINT64_MAX - 63;
		break;
	case 11:
		regions->regions[2] = regions->regions[1];
		regions->regions[2].id = 2;
		regions->count = 3;		/* of 2 */
		reply->header.body_bytes += (uint32_t)sizeof(struct nam_rpc_region);
		break;
	default:
		reply->header.status = -NAM_E_FABRIC_PROTOCOL;
	}
}

static void
nam_client_connect__malformed_regions__PROTOCOL(void **state)
{
	(void)state;
	for (int what = 0; what <= 12; what++) {
		struct fake_server_options options = {
			.regions_count = 2,
			.hook = spoil_regions,
			.hook_arg = &what,
		};

		expect_failure(&options, -NAM_E_FABRIC_PROTOCOL, "regions");
	}
}

static void
spoil_register(struct fake_server *server, const struct nam_rpc_header *request,
	struct fake_reply *reply)
{
	struct nam_rpc_register_reply *body = (void *)reply->body;

	if (request->type != NAM_RPC_REGISTER)
		return;
	switch (*(const int *)fake_server_hook_arg(server)) {
	case 0:
		body->client_id = 0;
		break;
	case 1:
		body->client_id = NAM_CLIENTS_MAX;
		break;
	case 2:
		body->epoch_word = 0;
		break;
	case 3:
		body->epoch_word = nam_gaddr_make(9, 64, 0).raw;
		break;
	case 4:
		body->epoch_slots = nam_gaddr_make(0, (4u << 20) - 64, 0).raw;
		break;
	case 5:
		body->epoch_word = nam_gaddr_make(0, 1ull << 37, 0).raw;
		break;
	default:
		reply->header.body_bytes -= 8;
	}
}

static void
nam_client_connect__malformed_registration__PROTOCOL(void **state)
{
	(void)state;
	for (int what = 0; what <= 6; what++) {
		struct fake_server_options options = {
			.hook = spoil_register,
			.hook_arg = &what,
		};

		expect_failure(&options, -NAM_E_FABRIC_PROTOCOL, "REGISTER");
	}
}

static void
refuse_register(struct fake_server *server, const struct nam_rpc_header *request,
	struct fake_reply *reply)
{
	(void)server;
	if (request->type == NAM_RPC_REGISTER)
		reply->header.status = -NAM_E_LIMIT;
}

static void
nam_client_connect__no_client_id_left__LIMIT(void **state)
{
	struct fake_server_options options = { .hook = refuse_register };

	(void)state;
	expect_failure(&options, -NAM_E_LIMIT, "4095");
}

static void
nam_client_connect__epoch_is_0__PROTOCOL(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_client *client = NULL;
	struct nam_diag diag;

	(void)state;
	atomic_store(fake_server_word(server, NAM_META_EPOCH_OFFSET), 0);
	assert_int_equal(connect_to(fake_server_address(server), &client, &diag),
		-NAM_E_FABRIC_PROTOCOL);
	assert_mentions(&diag, "epoch");
	assert_null(client);
	fake_server_stop(server);
}

/* ---- workers and status ------------------------------------------------------------------- */

static void
nam_worker_open__server_restarted__PEER_DEAD(void **state)
{
	struct fake_server_options options = { .id = 0, .boot = 11 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_worker *worker = NULL;
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(fake_server_address(server), &client, &diag), 0);
	fake_server_boot_set(server, 12);
	assert_int_equal(nam_worker_open(client, &worker, &diag), -NAM_E_FABRIC_PEER_DEAD);
	assert_null(worker);
	assert_mentions(&diag, "restarted");
	assert_mentions(&diag, fake_server_address(server));
	fake_server_boot_set(server, 11);
	assert_int_equal(nam_worker_open(client, &worker, &diag), 0);
	nam_worker_close(worker);
	nam_client_close(client);
	fake_server_stop(server);
}

static void
nam_server_status_get__living_server__FIGURES(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_server_status status;
	struct nam_worker *worker;
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(fake_server_address(server), &client, &diag), 0);
	assert_int_equal(nam_worker_open(client, &worker, &diag), 0);
	assert_int_equal(nam_server_status_get(worker, 0, &status), 0);
	assert_int_equal(status.rc, 0);
	assert_string_equal(status.address, fake_server_address(server));
	assert_int_equal(status.memory_bytes, 4u << 20);
	assert_string_equal(status.version, "fake");
	assert_int_equal(nam_server_status_get(worker, 1, &status), -EINVAL);
	nam_worker_close(worker);
	nam_client_close(client);
	fake_server_stop(server);
}

static void
nam_server_status_get__dead_server__ADDRESS_AND_REASON(void **state)
{
	struct fake_server_options options = { .id = 0 };
	struct fake_server *server = fake_server_start(&options);
	struct nam_server_status status;
	struct nam_worker *worker;
	struct nam_client *client;
	char address[TEXT_BYTES];
	struct nam_diag diag;

	(void)state;
	snprintf(address, sizeof(address), "%s", fake_server_address(server));
	assert_int_equal(connect_to(address, &client, &diag), 0);
	assert_int_equal(nam_worker_open(client, &worker, &diag), 0);
	fake_server_stop(server);
	assert_int_equal(nam_server_status_get(worker, 0, &status), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(status.rc, -NAM_E_FABRIC_PEER_DEAD);
	assert_string_equal(status.address, address);
	assert_int_equal(status.memory_bytes, 0);
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
caps_check__a_bit_is_missing__REFUSED_BY_NAME(void **state)
{
	const uint32_t enough = NAM_CAP_WORD8_ATOMIC | NAM_CAP_RPC_SRQ;
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(nam__caps_check(enough, "toy", &diag), 0);
	assert_int_equal(nam__caps_check(NAM_CAP_WORD8_ATOMIC, "toy", &diag),
		-NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "toy lacks shared receive queues"));
	assert_int_equal(nam__caps_check(NAM_CAP_RPC_SRQ, "toy", &diag), -NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "whole words"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_client_connect__one_server__JOINED),
		cmocka_unit_test(nam_client_connect__servers_in_any_order__FOUND_BY_ID),
		cmocka_unit_test(nam_client_connect__regions_in_pages__ALL_LEARNED),
		cmocka_unit_test(nam_client_connect__twice__TWO_IDS),
		cmocka_unit_test(nam_client_connect__no_cluster__EINVAL),
		cmocka_unit_test(nam_client_connect__unknown_fabric__EINVAL),
		cmocka_unit_test(nam_client_connect__nobody_listens__FABRIC_CONNECT),
		cmocka_unit_test(nam_client_connect__other_version__FABRIC_VERSION),
		cmocka_unit_test(nam_client_connect__rejected__SERVERS_REASON),
		cmocka_unit_test(nam_client_connect__two_servers_with_one_id__CLUSTER),
		cmocka_unit_test(nam_client_connect__no_server_0__CLUSTER),
		cmocka_unit_test(nam_client_connect__one_server_by_two_names__CLUSTER),
		cmocka_unit_test(nam_client_connect__id_contradicts_file__CLUSTER),
		cmocka_unit_test(nam_client_connect__id_out_of_range__PROTOCOL),
		cmocka_unit_test(nam_client_connect__malformed_regions__PROTOCOL),
		cmocka_unit_test(nam_client_connect__malformed_registration__PROTOCOL),
		cmocka_unit_test(nam_client_connect__no_client_id_left__LIMIT),
		cmocka_unit_test(nam_client_connect__epoch_is_0__PROTOCOL),
		cmocka_unit_test(nam_worker_open__server_restarted__PEER_DEAD),
		cmocka_unit_test(nam_server_status_get__living_server__FIGURES),
		cmocka_unit_test(nam_server_status_get__dead_server__ADDRESS_AND_REASON),
		cmocka_unit_test(caps_check__a_bit_is_missing__REFUSED_BY_NAME),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
