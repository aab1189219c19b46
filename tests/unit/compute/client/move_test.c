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
#include "compute/view/move/move_internal.h"
#include "compute/worker/notes.h"
#include "compute/worker/worker.h"
#include "tests/lib/cluster.h"

#define MEMORY_BYTES (4ull << 20)
#define REGION_BYTES (1ull << 20)
#define MOVES 1u			/* the id of the member */
#define SHORT_MS 300u
#define PAUSE_NS 1000000u
#define TIMEOUT_NS 20000000000ull

static struct local_cluster *cluster;
static struct nam_client_options options;
static struct nam_client *mover;	/* asks the lead */

static void
on_lead(void *arg, const struct nam_server_status *status, const char *text)
{
	(void)text;
	if (!status->rc && status->id == 0)
		*(uint32_t *)arg = status->clients;
}

/* The lead knows that all clients have left. */
static int
leave_await(void)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;
	struct nam_diag diag;
	uint32_t clients;

	for (;;) {
		clients = UINT32_MAX;
		if (nam_cluster_status(&options, on_lead, &clients, &diag))
			return -1;
		if (!clients || nam_now_ns() >= deadline)
			return clients ? -1 : 0;
		nam_sleep_ns(10 * PAUSE_NS);
	}
}

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
	if (leave_await())
		return -1;
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
				0, TIMEOUT_NS, &state, &diag))
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
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;
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
	assert_true(nam__gate_is_of(client, NAM__GATES_OPEN));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(nam_alloc(worker, 64, &block), 0);
	nam_worker_close(worker);
	nam_client_close(client);
}

/* ---- notes ----------------------------------------------------------------------------------- */

#define PAGE NAM_MOVE_NOTE_BYTES
#define WORDS (uint32_t)(MEMORY_BYTES / NAM_MOVE_NOTE_BYTES / 64)
#define BLOCK_BYTES 16384u

static struct writing {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_gaddr written, swapped, read;	/* at the member */
	struct nam_gaddr elsewhere;
	uint32_t bytes;			/* to the end of a page */
	uint64_t *buffer;
	atomic_uint rounds;
	atomic_bool ends;
	int rc;
} writing;

static void
writing_start(void)
{
	struct nam_gaddr *blocks[] = { &writing.written, &writing.swapped, &writing.read,
		&writing.elsewhere };

	memset(&writing, 0, sizeof(writing));
	writing.client = test_connect(options.cluster, "at work", 0);
	writing.worker = test_worker(writing.client);
	writing.buffer = nam_buffer_take(writing.worker, BLOCK_BYTES);
	assert_non_null(writing.buffer);
	memset(writing.buffer, 0, BLOCK_BYTES);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(nam_alloc_on(writing.worker, i < 3 ?
			writing.client->slot_of_id[MOVES] : 0, BLOCK_BYTES, blocks[i]), 0);
		*blocks[i] = nam_gaddr_untagged(*blocks[i]);
	}
	writing.bytes = BLOCK_BYTES / 2 - (uint32_t)(nam_gaddr_offset(writing.written) % PAGE);
}

static void
writing_end(void)
{
	nam_buffer_give(writing.worker, writing.buffer, BLOCK_BYTES);
	nam_worker_close(writing.worker);
	nam_client_close(writing.client);
}

static struct nam_gaddr
at_page(struct nam_gaddr at, uint32_t page)
{
	return nam_gaddr_make(nam_gaddr_region(at), nam_gaddr_offset(at) + page * PAGE, 0);
}

/* Two pages of a block or three, two words of another, none of the third; and elsewhere. */
static int
write_all(void)
{
	struct nam_worker *worker = writing.worker;
	uint64_t *buffer = writing.buffer;
	uint64_t old;
	int rc = nam_write_await(worker, writing.written, buffer, writing.bytes);

	rc = rc ?: nam_cas_await(worker, at_page(writing.swapped, 1), 0, 0, &old);
	rc = rc ?: nam_fetch_add_await(worker, at_page(writing.swapped, 2), 0, &old);
	rc = rc ?: nam_write_await(worker, writing.elsewhere, buffer, BLOCK_BYTES);
	return rc ?: nam_read_await(worker, writing.read, buffer, BLOCK_BYTES);
}

static void
pages_add(uint64_t words[WORDS], struct nam_gaddr at, uint32_t bytes)
{
	uint64_t offset = (nam_gaddr_region(at) - MOVES * NAM_REGIONS_PER_SERVER) * REGION_BYTES +
		nam_gaddr_offset(at);

	for (uint64_t page = offset / PAGE; page <= (offset + bytes - 1) / PAGE; page++)
		words[page / 64] |= 1ull << page % 64;
}

/* Clients that have ended before that lose no notes. */
static void
claim(void)
{
	const struct nam_rpc_move_claim body = { REGION_BYTES, MOVES, MEMORY_BYTES / REGION_BYTES };
	struct nam_rpc_move_reply reply;
	uint32_t bytes = sizeof(reply);

	fence_all();
	assert_int_equal(nam__move_call(mover, NAM_RPC_MOVE_CLAIM, 0, &body, sizeof(body), 0,
		&reply, &bytes), 0);
}

/* The lead has been told of those pages, or of none, and has lost none. */
static void
assert_noted(bool some)
{
	_Alignas(8) uint8_t room[NAM_RPC_BODY_MAX];
	struct nam_rpc_move_reply *reply = (void *)room;
	const struct nam_rpc_move_notes *notes = (const void *)reply->page;
	uint64_t noted[WORDS] = { 0 }, wanted[WORDS] = { 0 };
	uint32_t bytes = sizeof(room);

	if (some) {
		pages_add(wanted, writing.written, writing.bytes);
		pages_add(wanted, at_page(writing.swapped, 1), 8);
		pages_add(wanted, at_page(writing.swapped, 2), 8);
	}
	assert_int_equal(nam__move_call(mover, NAM_RPC_MOVE_TAKE, 0, NULL, 0, 0, reply, &bytes), 0);
	assert_int_equal(notes->lost, 0);
	for (uint32_t i = 0; i < (bytes - sizeof(*reply) - sizeof(*notes)) /
		sizeof(notes->noted[0]); i++)
		noted[notes->noted[i].word] = notes->noted[i].pages;
	assert_memory_equal(noted, wanted, sizeof(noted));
}

/* NOTE, MOVE or ABORT, and all clients have acknowledged it. */
static void
pass(enum nam_rpc_view_change what)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;
	struct nam__cluster_view *view;
	bool done;

	change(what, NULL, 0);
	do {
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(PAUSE_NS);
		view = view_get();
		done = view->acknowledged >= view->head.number;
		free(view);
	} while (!done);
}

static bool
notes_itself(void)
{
	return writing.worker->qp_post != writing.client->domains[0]->ops->qp_post;
}

static void
notes__of_a_member_that_is_copied__ARE_HANDED_OVER_ONCE(void **state)
{
	(void)state;
	claim();
	writing_start();
	assert_int_equal(write_all(), 0);
	assert_false(notes_itself());
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(false);
	assert_int_equal(write_all(), 0);
	assert_true(notes_itself());
	/* They are handed over with a pass. */
	assert_noted(false);
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(true);
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(false);
	assert_int_equal(write_all(), 0);
	pass(NAM_RPC_VIEW_MOVE);
	assert_noted(true);
	pass(NAM_RPC_VIEW_ABORT);
	assert_null(writing.client->notes);
	assert_int_equal(write_all(), 0);
	assert_false(notes_itself());
	/* The same notes once more. */
	claim();
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(false);
	assert_int_equal(write_all(), 0);
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(true);
	writing_end();
}

static void
keep_writing(void *arg)
{
	(void)arg;
	while (!writing.rc && !writing.ends) {
		writing.rc = write_all();
		writing.rounds++;
	}
}

static void
notes__while_a_worker_is_busy__IT_GOES_ON(void **state)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;
	struct nam_thread *thread;

	(void)state;
	claim();
	writing_start();
	assert_int_equal(nam_thread_start("writer", keep_writing, NULL, &thread), 0);
	pass(NAM_RPC_VIEW_NOTE);
	for (unsigned i = 0; i < 8; i++) {
		unsigned rounds = writing.rounds;

		/* One of these has begun after the pass before. */
		while (writing.rounds < rounds + 2 && nam_now_ns() < deadline)
			nam_sleep_ns(PAUSE_NS);
		assert_true(writing.rounds >= rounds + 2);
		pass(NAM_RPC_VIEW_NOTE);
		assert_noted(true);
	}
	writing.ends = true;
	nam_thread_join(thread);
	assert_int_equal(writing.rc, 0);
	writing_end();
}

static void
notes__of_a_client_that_joins_in_a_pass__ARE_HANDED_OVER(void **state)
{
	(void)state;
	claim();
	pass(NAM_RPC_VIEW_NOTE);
	writing_start();
	assert_int_equal(write_all(), 0);
	pass(NAM_RPC_VIEW_NOTE);
	assert_noted(true);
	writing_end();
}

static void
close__while_a_member_is_copied__LOSES_NO_NOTES(void **state)
{
	(void)state;
	claim();
	for (unsigned some = 0; some < 2; some++) {
		writing_start();
		pass(NAM_RPC_VIEW_NOTE);
		if (some)
			assert_int_equal(write_all(), 0);
		writing_end();
		fence_all();
		assert_noted(some);
	}
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
		TEST(notes__of_a_member_that_is_copied__ARE_HANDED_OVER_ONCE),
		TEST(notes__while_a_worker_is_busy__IT_GOES_ON),
		TEST(notes__of_a_client_that_joins_in_a_pass__ARE_HANDED_OVER),
		TEST(close__while_a_member_is_copied__LOSES_NO_NOTES),
		TEST(status__a_member_moves_and_has_moved__SAYS_SO),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
