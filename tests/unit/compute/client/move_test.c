/* SPDX-License-Identifier: Apache-2.0 */
/* move_test.c -- clients of a cluster in which the memory of a member moves, or has moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/admin.h"
#include "compute/view/fence.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"
#include "tests/lib/cluster.h"

#define MEMORY_BYTES (4ull << 20)
#define REGION_BYTES (1ull << 20)
#define MOVES 1u			/* the id of the member */
#define SHORT_MS 300u
#define PAUSE_NS 1000000u
#define PATIENCE_NS 20000000000ull

static struct local_cluster *cluster;
static struct nam_client_options options;
static struct nam_client *mover;	/* asks the lead */

static int
setup(void **state)
{
	struct nam_diag diag;

	(void)state;
	cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	/* The first client forms the view. */
	nam_client_close(test_connect(local_cluster_list(cluster), "first", 0));
	nam_client_options_init(&options);
	options.cluster = local_cluster_address(cluster, 0);
	if (nam__prober_open(&options, options.cluster, 0, false, &mover, &diag))
		test_die("%s", diag.text);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (mover)
		nam__client_free(mover);
	local_cluster_stop(cluster);
	return 0;
}

static struct nam__cluster_view *
view_get(void)
{
	struct nam__cluster_view *view = NULL;

	if (nam__cluster_view_get(mover->epoch_worker, 0, &view))
		test_die("the lead does not say its view");
	return view;
}

/* Of the member, as the view has it.  @address, @boot: of MOVED; NULL, 0 */
static void
change(enum nam_rpc_view_change what, const char *address, uint64_t boot)
{
	struct nam__cluster_view *view = view_get();
	struct nam_view_member one = view->members[MOVES];
	struct nam_view_head head;

	if (address) {
		one.boot = boot;
		(void)snprintf(one.address, sizeof(one.address), "%s", address);
	}
	if (nam__cluster_view_change(mover->epoch_worker, 0, view->head.number, 0, what, &one,
			&head))
		test_die("%s is refused", nam_rpc_view_changes[what]);
	free(view);
}

/* All clients that have ended are dead. */
static void
fence_all(void)
{
	struct nam__cluster_view *view = view_get();
	struct nam_rpc_fence_reply next;
	struct nam_diag diag;
	uint32_t state;

	for (;;) {
		if (nam__fence_next(mover->epoch_worker, 0, &next))
			test_die("the lead does not say which client has ended");
		if (!next.client_id)
			break;
		if (nam__client_fence(mover->epoch_worker, view, next.client_id, next.incarnation,
				0, PATIENCE_NS, &state, &diag))
			test_die("%s", diag.text);
	}
	free(view);
}

/* To a successor, which has nothing of it; its address. */
static const char *
move(void)
{
	const char *address = local_cluster_add_id(cluster, MOVES);
	struct nam_client *client;
	struct nam_diag diag;

	if (nam__prober_open(&options, address, 0, true, &client, &diag))
		test_die("%s", diag.text);
	change(NAM_RPC_VIEW_MOVE, NULL, 0);
	fence_all();
	change(NAM_RPC_VIEW_MOVED, address, client->servers[0].boot);
	nam__client_free(client);
	return address;
}

static int
connect_to(const char *list, uint32_t timeout_ms, struct nam_client **ret_client,
	struct nam_diag *diag)
{
	struct nam_client_options own = options;

	own.cluster = list;
	own.timeout_ms = timeout_ms;
	return nam_client_connect(&own, ret_client, diag);
}

static const struct nam__server *
member_of(const struct nam_client *client)
{
	return &client->servers[client->slot_of_id[MOVES]];
}

/* ---- joining --------------------------------------------------------------------------------- */

static void
connect__a_member_moves__TIMEOUT_that_names_it(void **state)
{
	uint64_t began = nam_now_ns();
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	change(NAM_RPC_VIEW_MOVE, NULL, 0);
	assert_int_equal(connect_to(local_cluster_list(cluster), SHORT_MS, &client, &diag),
		-NAM_E_FABRIC_TIMEOUT);
	assert_in_range((nam_now_ns() - began) / 1000000, SHORT_MS, 100 * SHORT_MS);
	assert_non_null(strstr(diag.text, "memory of memory server 1"));
	assert_non_null(strstr(diag.text, local_cluster_address(cluster, MOVES)));
	assert_non_null(strstr(diag.text, "moving"));
}

static void
end_later(void *arg)
{
	(void)arg;
	nam_sleep_ns(SHORT_MS * 1000000ull);
	nam__client_free(mover);
}

/* The lead aborts the move. */
static void
connect__the_mover_ends_meanwhile__JOINS(void **state)
{
	struct nam_thread *thread;
	struct nam_client *client;
	struct nam_diag diag;
	int rc;

	(void)state;
	change(NAM_RPC_VIEW_MOVE, NULL, 0);
	assert_int_equal(nam_thread_start("mover", end_later, NULL, &thread), 0);
	rc = connect_to(local_cluster_list(cluster), 60000, &client, &diag);
	nam_thread_join(thread);
	mover = NULL;
	assert_int_equal(rc, 0);
	assert_int_equal(client->view_number, 3);
	assert_true(member_of(client)->memory == member_of(client)->boot);
	nam_client_close(client);
}

static void
connect__its_memory_has_moved__KNOWS_THE_SUCCESSOR(void **state)
{
	const char *address = move();
	struct nam__cluster_view *view = view_get();
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(options.cluster, 0, &client, &diag), 0);
	assert_string_equal(member_of(client)->address, address);
	assert_true(member_of(client)->boot == view->members[MOVES].boot);
	assert_true(member_of(client)->memory == view->members[MOVES].memory);
	assert_true(member_of(client)->memory != member_of(client)->boot);
	assert_true(member_of(client)->usable);
	nam_client_close(client);
	free(view);
}

static void
connect__the_list_names_what_it_has_left__IS_CLUSTER(void **state)
{
	const char *address = move();
	struct nam__cluster_view *view;
	struct nam_client *client;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(connect_to(local_cluster_list(cluster), 0, &client, &diag),
		-NAM_E_CLUSTER);
	assert_non_null(strstr(diag.text, local_cluster_address(cluster, MOVES)));
	assert_non_null(strstr(diag.text, "has moved to"));
	assert_non_null(strstr(diag.text, address));
	/* It was no restart. */
	view = view_get();
	assert_int_equal(view->head.number, 3);
	assert_int_equal(view->members[MOVES].renewed, 1);
	free(view);
}

static void
connect__the_list_names_another_one_with_the_id__IS_CLUSTER(void **state)
{
	const char *stranger = local_cluster_add_id(cluster, MOVES);
	struct nam_client *client;
	struct nam_diag diag;
	char list[256];

	(void)state;
	(void)snprintf(list, sizeof(list), "%s,%s", options.cluster, stranger);
	assert_int_equal(connect_to(list, 0, &client, &diag), -NAM_E_CLUSTER);
	assert_non_null(strstr(diag.text, stranger));
	assert_non_null(strstr(diag.text, "answers at"));
	assert_non_null(strstr(diag.text, local_cluster_address(cluster, MOVES)));
	assert_non_null(strstr(diag.text, "another --id"));
}

/* ---- clients at work ------------------------------------------------------------------------- */

static void
follow__a_move_that_is_aborted__GOES_ON(void **state)
{
	struct nam_client *client = test_connect(local_cluster_list(cluster), "at work", 0);
	struct nam_worker *worker = test_worker(client);
	uint64_t deadline = nam_now_ns() + PATIENCE_NS;
	struct nam_gaddr block;

	(void)state;
	change(NAM_RPC_VIEW_MOVE, NULL, 0);
	while (client->view_number < 2 && nam_now_ns() < deadline)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(client->view_number, 2);
	change(NAM_RPC_VIEW_ABORT, NULL, 0);
	while (client->view_number < 3 && nam_now_ns() < deadline)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(client->view_number, 3);
	assert_int_equal(member_of(client)->lost, 0);
	assert_true(member_of(client)->usable);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(nam_alloc(worker, 64, &block), 0);
	nam_worker_close(worker);
	nam_client_close(client);
}

/* ---- status ---------------------------------------------------------------------------------- */

struct seen {
	unsigned count;
	struct nam_server_status all[4];
};

static void
on_server(void *arg, const struct nam_server_status *status, const char *text)
{
	struct seen *seen = arg;

	(void)text;
	seen->all[seen->count++] = *status;
}

static void
status__a_member_moves_and_has_moved__SAYS_SO(void **state)
{
	struct seen seen = { 0 };
	struct nam_diag diag;
	const char *address;

	(void)state;
	change(NAM_RPC_VIEW_MOVE, NULL, 0);
	assert_int_equal(nam_cluster_status(&options, on_server, &seen, &diag), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.all[MOVES].member, NAM_MEMBER_MOVING);
	change(NAM_RPC_VIEW_ABORT, NULL, 0);
	address = move();
	seen.count = 0;
	options.cluster = local_cluster_list(cluster);
	assert_int_equal(nam_cluster_status(&options, on_server, &seen, &diag), 0);
	assert_int_equal(seen.count, 3);
	/* The process that it has left is no member. */
	assert_int_equal(seen.all[1].id, MOVES);
	assert_int_equal(seen.all[1].member, NAM_MEMBER_NONE);
	assert_string_equal(seen.all[2].address, address);
	assert_int_equal(seen.all[2].id, MOVES);
	assert_int_equal(seen.all[2].member, NAM_MEMBER_UP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__a_member_moves__TIMEOUT_that_names_it),
		TEST(connect__the_mover_ends_meanwhile__JOINS),
		TEST(connect__its_memory_has_moved__KNOWS_THE_SUCCESSOR),
		TEST(connect__the_list_names_what_it_has_left__IS_CLUSTER),
		TEST(connect__the_list_names_another_one_with_the_id__IS_CLUSTER),
		TEST(follow__a_move_that_is_aborted__GOES_ON),
		TEST(status__a_member_moves_and_has_moved__SAYS_SO),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
