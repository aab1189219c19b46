/* SPDX-License-Identifier: Apache-2.0 */
/* roles_test.c -- which requests a memory server takes from a client with a reader's key (M18). */
#include "view_fixture.h"

#include "common/rpc/fence_rpc.h"
#include "common/rpc/tree_rpc.h"

static const uint16_t for_all[] = {
	NAM_RPC_PING, NAM_RPC_REGISTER, NAM_RPC_REGIONS, NAM_RPC_CLIENT_STATE, NAM_RPC_CATALOG_GET,
	NAM_RPC_CATALOG_LIST, NAM_RPC_STATUS, NAM_RPC_TREE_DESCRIBE, NAM_RPC_TREE_POINT,
	NAM_RPC_TREE_SCAN, NAM_RPC_TREE_WALK, NAM_RPC_TREE_FLOOR, NAM_RPC_ECHO, NAM_RPC_KV_DESCRIBE,
	NAM_RPC_KV_GET, NAM_RPC_KV_GET_MANY, NAM_RPC_KV_LAYOUT, NAM_RPC_RECORDS_GET,
	NAM_RPC_PRESENCE, NAM_RPC_VIEW, NAM_RPC_FENCE, NAM_RPC_EPOCH,
	NAM_RPC_SWEEP, NAM_RPC_SERIAL_READ,
};

static bool
is_for_all(uint16_t type)
{
	for (size_t i = 0; i < sizeof(for_all) / sizeof(for_all[0]); i++)
		if (for_all[i] == type)
			return true;
	return false;
}

/* The type alone decides, before the body is looked at. */
static void
dispatch__of_a_reader__TAKES_WHAT_CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;

	f->connection.proven.role = NAM_ROLE_READ;
	for (uint16_t type = 1; type < NAM_RPC_TYPES_COUNT; type++) {
		int rc = call(f, type, NULL, 0);

		if ((rc == -NAM_E_FABRIC_DENIED) == is_for_all(type))
			fail_msg("%s: %s", nam_rpc_type_name(type), nam_err_name(rc));
	}
}

static void
dispatch__of_a_writer__DENIES_NONE_OF_THESE(void **state)
{
	struct fixture *f = *state;

	f->connection.proven.role = NAM_ROLE_WRITE;
	for (uint16_t type = 1; type < NAM_RPC_TYPES_COUNT; type++)
		assert_int_not_equal(call(f, type, NULL, 0), -NAM_E_FABRIC_DENIED);
}

static int
point(struct fixture *f, uint64_t tree, uint32_t kind, uint64_t payload)
{
	const struct nam_rpc_tree_point_request head = {
		.tree = tree, .kind = (uint16_t)kind, .count = 1,
	};
	const uint64_t pair[] = { 5, payload };
	uint8_t request[sizeof(head) + sizeof(pair)];

	memcpy(request, &head, sizeof(head));
	memcpy(request + sizeof(head), pair, sizeof(pair));
	return call(f, NAM_RPC_TREE_POINT, request, sizeof(request));
}

static void
tree_point__of_a_reader__LOOKS_UP_ONLY(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_tree_create_request request = {
		.tree = 7, .key_bytes = 8, .node_bytes = 1024, .unique = 1,
		.part = { .partitioning = 1, .parts = 1 },	/* by range */
	};

	assert_int_equal(call(f, NAM_RPC_TREE_CREATE, &request, sizeof(request)), 0);
	assert_int_equal(point(f, 7, NAM_RPC_TREE_INSERT, 50), 0);
	f->connection.proven.role = NAM_ROLE_READ;
	assert_int_equal(point(f, 7, NAM_RPC_TREE_LOOKUP, 0), 0);
	for (uint32_t kind = 1; kind < NAM_RPC_TREE_POINTS_COUNT; kind++)
		assert_int_equal(point(f, 7, kind, 50), kind == NAM_RPC_TREE_LOOKUP ? 0 :
			-NAM_E_FABRIC_DENIED);
}

static void
view__of_a_reader__IS_ASKED_FOR_AND_ACKNOWLEDGED_ONLY(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	form(f, 2);
	f->connection.proven.role = NAM_ROLE_READ;
	for (uint16_t step = 1; step <= NAM_RPC_VIEW_STEWARD; step++) {
		bool others = step == NAM_RPC_VIEW_COPY;
		bool free = step == NAM_RPC_VIEW_GET || step == NAM_RPC_VIEW_ACK;
		int rc;

		page_fill(f, &draft, step, 0, 0, 0);
		rc = call(f, NAM_RPC_VIEW, &draft, sizeof(struct nam_rpc_view_request));
		if (!others)
			assert_int_equal(rc == -NAM_E_FABRIC_DENIED, !free);
	}
}

static void
fence__of_a_reader__IS_ASKED_ABOUT_ONLY(void **state)
{
	struct fixture *f = *state;

	form(f, 2);
	f->connection.proven.role = NAM_ROLE_READ;
	for (uint16_t step = 1; step <= NAM_RPC_FENCE_PUBLISH; step++) {
		bool next = step == NAM_RPC_FENCE_NEXT;
		const struct nam_rpc_fence_request request = {
			.step = step,
			.client_id = next ? 0 : 9,
			.incarnation = next ? 0 : 1,
		};

		assert_int_equal(call(f, NAM_RPC_FENCE, &request, sizeof(request)), next ? 0 :
			-NAM_E_FABRIC_DENIED);
	}
}

/* ---- the epoch of a client that may not WRITE its slot --------------------------------------- */

static int
publish(struct fixture *f, struct nam__connection *connection, uint64_t epoch)
{
	const struct nam_rpc_epoch_request request = { epoch };

	return call_over(f, connection, NAM_RPC_EPOCH, &request, sizeof(request));
}

static void
epoch__of_a_reader__IS_IN_ITS_SLOT_WHEN_ANSWERED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection reader = { .proven.role = NAM_ROLE_READ }, other = { 0 };
	uint64_t *slots = f->server->membership.epoch_slots;

	form(f, 1);
	assert_int_equal(publish(f, &reader, 7), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(enrol(f, &reader, 1), 0);
	assert_int_equal(enrol(f, &other, 1), 0);
	assert_int_equal(publish(f, &reader, 7), 0);
	assert_int_equal(slots[reader.client_id], 7);
	assert_int_equal(slots[other.client_id], 0);
	assert_int_equal(publish(f, &reader, 0), 0);
	assert_int_equal(slots[reader.client_id], 0);
	leave(f, &other);
	leave(f, &reader);
}

/* M6: its slot may be that of the next one by now. */
static void
epoch__of_a_client_that_is_dead__LEAVES_THE_SLOT(void **state)
{
	struct fixture *f = *state;
	struct nam__connection reader = { .proven.role = NAM_ROLE_READ }, late;
	uint64_t *slots = f->server->membership.epoch_slots;

	form(f, 1);
	assert_int_equal(enrol(f, &reader, 1), 0);
	late = (struct nam__connection){ .client_id = reader.client_id,
		.incarnation = reader.incarnation, .proven.role = NAM_ROLE_READ };
	assert_int_equal(publish(f, &reader, 7), 0);
	leave(f, &reader);
	assert_int_equal(slots[late.client_id], 0);
	assert_int_equal(publish(f, &late, 8), -NAM_E_FENCED);
	assert_int_equal(slots[late.client_id], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(dispatch__of_a_reader__TAKES_WHAT_CHANGES_NOTHING),
		TEST(dispatch__of_a_writer__DENIES_NONE_OF_THESE),
		TEST(tree_point__of_a_reader__LOOKS_UP_ONLY),
		TEST(view__of_a_reader__IS_ASKED_FOR_AND_ACKNOWLEDGED_ONLY),
		TEST(fence__of_a_reader__IS_ASKED_ABOUT_ONLY),
		TEST(epoch__of_a_reader__IS_IN_ITS_SLOT_WHEN_ANSWERED),
		TEST(epoch__of_a_client_that_is_dead__LEAVES_THE_SLOT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
