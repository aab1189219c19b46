/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/remote/epoch.h"
#include "tests/lib/fake_server.h"
#include "tests/unit/compute/client/member.h"

/* ---- the client's slot -------------------------------------------------------------------- */

static void
nam_client_connect__joined__SLOT_PUBLISHED_and_0_after_close(void **state)
{
	struct fake_server *server = start_server();
	struct member member;

	(void)state;
	join(&member, server);
	assert_int_equal(slot_value(server, nam_client_id(member.client)), 1);
	leave(&member);
	assert_int_equal(slot_value(server, 1), 0);
	fake_server_stop(server);
}

static void
epoch_thread__global_epoch_moves__SLOT_FOLLOWS(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t since;

	(void)state;
	join(&member, server);
	for (uint64_t epoch = 2; epoch < 7; epoch++) {
		atomic_store(fake_server_word(server, NAM_META_EPOCH_OFFSET), epoch);
		since = nam_now_ns();
		while (slot_value(server, 1) != epoch)
			retry_pause(since);
	}
	leave(&member);
	fake_server_stop(server);
}

static void
epoch_thread__operation_under_way__SLOT_STAYS(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t local, since;

	(void)state;
	join(&member, server);
	nam__op_begin(member.worker, NAM_OP_LOOKUP);
	local = local_epoch(&member);
	/* The window is as wide as that; the epoch thread goes to its edge and no further. */
	for (uint64_t i = 1; i <= NAM__LOCAL_EPOCHS - 1; i++) {
		atomic_store(fake_server_word(server, NAM_META_EPOCH_OFFSET), 1 + i);
		await_local_epoch(&member, local + i);
		assert_int_equal(slot_value(server, 1), 1);
	}
	atomic_store(fake_server_word(server, NAM_META_EPOCH_OFFSET), 100);
	for (uint32_t i = 0; i < 20; i++)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(local_epoch(&member), local + NAM__LOCAL_EPOCHS - 1);
	assert_int_equal(slot_value(server, 1), 1);

	nam__op_end(member.worker);
	since = nam_now_ns();
	while (slot_value(server, 1) != 100)
		retry_pause(since);
	leave(&member);
	fake_server_stop(server);
}

static void
epoch_thread__nothing_to_do__LOCAL_EPOCH_RESTS(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t local;

	(void)state;
	join(&member, server);
	local = local_epoch(&member);
	for (uint32_t i = 0; i < 30; i++)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(local_epoch(&member), local);
	leave(&member);
	fake_server_stop(server);
}

/* ---- local memory ------------------------------------------------------------------------- */

static void
nam__garbage_add__no_operation__FREED(void **state)
{
	struct fake_server *server = start_server();
	struct member member;

	(void)state;
	join(&member, server);
	for (uint32_t i = 0; i < 1000; i++)
		nam__garbage_add(member.client, malloc(16));
	await_no_garbage(&member);
	leave(&member);
	fake_server_stop(server);
}

static void
nam__garbage_add__operation_under_way__KEPT_until_it_ends(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t *memory = malloc(sizeof(*memory));
	uint64_t local;

	(void)state;
	join(&member, server);
	nam__op_begin(member.worker, NAM_OP_LOOKUP);
	local = local_epoch(&member);
	*memory = 4711;
	nam__garbage_add(member.client, memory);
	/* The epoch thread has looked at the garbage at least this often. */
	await_local_epoch(&member, local + NAM__LOCAL_EPOCHS - 1);
	assert_true(has_garbage(&member));
	assert_int_equal(*memory, 4711);
	nam__op_end(member.worker);
	await_no_garbage(&member);
	leave(&member);
	fake_server_stop(server);
}

static void
nam__garbage_add__younger_operation_under_way__FREED(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t local;

	(void)state;
	join(&member, server);
	local = local_epoch(&member);
	nam__garbage_add(member.client, malloc(16));
	await_local_epoch(&member, local + 1);
	nam__op_begin(member.worker, NAM_OP_LOOKUP);
	await_no_garbage(&member);
	nam__op_end(member.worker);
	leave(&member);
	fake_server_stop(server);
}

static void
nam_client_close__garbage_left__FREED(void **state)
{
	struct fake_server *server = start_server();
	struct member member;

	(void)state;
	join(&member, server);
	for (uint32_t i = 0; i < 100; i++)
		nam__garbage_add(member.client, malloc(16));
	leave(&member);	/* the leak checker has the last word */
	fake_server_stop(server);
}

static void
nam__garbage_add__server_0_dead__FREED_all_the_same(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t since = nam_now_ns();

	(void)state;
	join(&member, server);
	fake_server_stop(server);
	while (!atomic_load(&member.client->servers[0].lost))
		retry_pause(since);
	nam__garbage_add(member.client, malloc(16));
	await_no_garbage(&member);
	leave(&member);
}

/* ---- readers against a writer ------------------------------------------------------------- */

#define MAGIC 0x600dda7a600dda7aull
#define REPLACEMENTS 3000u

struct node {
	uint64_t magic;
	uint64_t number;
	uint64_t check;
};

struct arena {
	struct nam_client *client;
	_Atomic(struct node *) node;
	atomic_bool done;
	atomic_uint bad;
	atomic_uint reads;
};

static struct node *
node_new(uint64_t number)
{
	struct node *node = malloc(sizeof(*node));

	*node = (struct node){ MAGIC, number, ~number };
	return node;
}

static void
read_until_done(void *arg)
{
	struct arena *arena = arg;
	struct nam_worker *worker;
	struct nam_diag diag;

	if (nam_worker_open(arena->client, &worker, &diag)) {
		atomic_fetch_add(&arena->bad, 1);
		return;
	}
	while (!atomic_load(&arena->done)) {
		struct node *node;

		nam__op_begin(worker, NAM_OP_LOOKUP);
		node = atomic_load_explicit(&arena->node, memory_order_acquire);
		for (uint32_t i = 0; i < 100; i++)
			if (((volatile struct node *)node)->magic != MAGIC ||
				((volatile struct node *)node)->check != ~node->number)
				atomic_fetch_add(&arena->bad, 1);
		nam__op_end(worker);
		atomic_fetch_add(&arena->reads, 1);
	}
	nam_worker_close(worker);
}

static void
readers_against_writer(bool fence)
{
	struct fake_server *server = start_server();
	struct nam_thread *threads[2];
	struct member member;
	struct arena arena;
	struct node *node;

	join(&member, server);
	/* No operation is under way yet, and the epoch thread looks at this each time. */
	if (fence)
		atomic_store(&member.client->pin_needs_fence, true);
	arena = (struct arena){ .client = member.client };
	atomic_store(&arena.node, node_new(0));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam_thread_start("reader", read_until_done, &arena, &threads[i]),
			0);
	for (uint64_t i = 1; i <= REPLACEMENTS; i++) {
		node = atomic_exchange(&arena.node, node_new(i));
		nam__garbage_add(member.client, node);
		if (i % 10 == 0)
			nam_sleep_ns(100000);
	}
	await_no_garbage(&member);
	atomic_store(&arena.done, true);
	for (unsigned i = 0; i < 2; i++)
		nam_thread_join(threads[i]);
	assert_int_equal(atomic_load(&arena.bad), 0);
	assert_true(atomic_load(&arena.reads) > 0);
	assert_int_equal(atomic_load(&member.client->garbage_leaked), 0);
	free(atomic_load(&arena.node));
	leave(&member);
	fake_server_stop(server);
}

static void
nam__op_begin__readers_against_writer__NEVER_FREED_MEMORY(void **state)
{
	(void)state;
	readers_against_writer(false);
}

static void
nam__op_begin__without_membarrier__NEVER_FREED_MEMORY(void **state)
{
	(void)state;
	readers_against_writer(true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_client_connect__joined__SLOT_PUBLISHED_and_0_after_close),
		cmocka_unit_test(epoch_thread__global_epoch_moves__SLOT_FOLLOWS),
		cmocka_unit_test(epoch_thread__operation_under_way__SLOT_STAYS),
		cmocka_unit_test(epoch_thread__nothing_to_do__LOCAL_EPOCH_RESTS),
		cmocka_unit_test(nam__garbage_add__no_operation__FREED),
		cmocka_unit_test(nam__garbage_add__operation_under_way__KEPT_until_it_ends),
		cmocka_unit_test(nam__garbage_add__younger_operation_under_way__FREED),
		cmocka_unit_test(nam_client_close__garbage_left__FREED),
		cmocka_unit_test(nam__garbage_add__server_0_dead__FREED_all_the_same),
		cmocka_unit_test(nam__op_begin__readers_against_writer__NEVER_FREED_MEMORY),
		cmocka_unit_test(nam__op_begin__without_membarrier__NEVER_FREED_MEMORY),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
