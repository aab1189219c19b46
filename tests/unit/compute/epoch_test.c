/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keeper does it does in its own time, so these tests wait for an event that must come, or
 * show that one does not come while later ones do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/compute_internal.h"
#include "lib/fake_server.h"

#define STRIDE 1088u
#define PATIENCE_NS 60000000000ull
#define PAUSE_NS 1000000ull

struct member {
	struct nam_client *client;
	struct nam_worker *worker;
};

static struct fake_server *
start_server(void)
{
	struct fake_server_options options = { .id = 0 };

	return fake_server_start(&options);
}

static void
join(struct member *member, const struct fake_server *server)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = fake_server_address(server);
	options.rpc_timeout_ms = 60000;
	if (nam_client_connect(&options, &member->client, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(nam_worker_open(member->client, &member->worker, &diag), 0);
}

static void
leave(struct member *member)
{
	nam_worker_close(member->worker);
	nam_client_close(member->client);
}

static uint64_t
slot_value(const struct fake_server *server, uint16_t client_id)
{
	return atomic_load(fake_server_word(server, NAM_META_SLOTS_OFFSET + 8u * client_id));
}

static uint64_t
local_epoch(const struct member *member)
{
	return atomic_load(&member->client->local_epoch);
}

static bool
has_garbage(const struct member *member)
{
	bool has;

	pthread_mutex_lock(&member->client->mutex);
	has = member->client->garbage != NULL;
	pthread_mutex_unlock(&member->client->mutex);
	return has;
}

/* Once more, or has it taken too long? */
static bool
patience(uint64_t since_ns)
{
	nam_sleep_ns(PAUSE_NS);
	if (nam_now_ns() - since_ns > PATIENCE_NS)
		fail_msg("it never happened");
	return true;
}

static void
await_local_epoch(const struct member *member, uint64_t epoch)
{
	uint64_t since = nam_now_ns();

	while (local_epoch(member) < epoch)
		patience(since);
}

static void
await_no_garbage(const struct member *member)
{
	uint64_t since = nam_now_ns();

	while (has_garbage(member))
		patience(since);
}

/* How many blocks of this member's limbo may be reused in the end. */
static uint64_t
await_reusable(const struct member *member, uint64_t wanted)
{
	uint64_t since = nam_now_ns(), sum = 0, more;

	while (sum < wanted) {
		assert_int_equal(nam__limbo_advance(member->worker, &more), 0);
		sum += more;
		if (sum < wanted)
			patience(since);
	}
	return sum;
}

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
keeper__global_epoch_moves__SLOT_FOLLOWS(void **state)
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
			patience(since);
	}
	leave(&member);
	fake_server_stop(server);
}

static void
keeper__operation_under_way__SLOT_STAYS(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	uint64_t local, since;

	(void)state;
	join(&member, server);
	nam__op_begin(member.worker, NAM_OP_LOOKUP);
	local = local_epoch(&member);
	/* The window is as wide as that; the keeper goes to its edge and no further. */
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
		patience(since);
	leave(&member);
	fake_server_stop(server);
}

static void
keeper__nothing_to_do__LOCAL_EPOCH_RESTS(void **state)
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
	/* The keeper has looked at the garbage at least this often. */
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
	while (!atomic_load(&member.client->servers[0].dead))
		patience(since);
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
	/* No operation is under way yet, and the keeper looks at this each time. */
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

/* ---- remote blocks ------------------------------------------------------------------------ */

static void
nam_retire__nobody_looks__REUSABLE(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	struct nam_gaddr at, again;

	(void)state;
	join(&member, server);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	assert_int_equal(await_reusable(&member, 1), 1);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &again), 0);
	assert_int_equal(nam_gaddr_tag(again), NAM_BLOCK_RECYCLED);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(again), nam_gaddr_untagged(at)));
	leave(&member);
	fake_server_stop(server);
}

static void
nam_retire__before_advance__NOT_REUSED(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	struct nam_gaddr at, again;

	(void)state;
	join(&member, server);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(nam_alloc(member.worker, STRIDE, &again), 0);
		assert_false(nam_gaddr_same(nam_gaddr_untagged(again), nam_gaddr_untagged(at)));
	}
	leave(&member);
	fake_server_stop(server);
}

static void
nam__limbo_advance__other_client_in_operation__NOT_REUSABLE_until_it_ends(void **state)
{
	struct fake_server *server = start_server();
	struct member collector, reader;
	struct nam_gaddr at;
	uint64_t reusable, own, since;

	(void)state;
	join(&collector, server);
	join(&reader, server);
	nam__op_begin(reader.worker, NAM_OP_SCAN);
	assert_int_equal(nam_alloc(collector.worker, STRIDE, &at), 0);
	nam_retire(collector.worker, at, STRIDE);
	assert_int_equal(nam__limbo_advance(collector.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	/* The collector's own keeper gets past the label, and it is still not enough. */
	own = nam_client_id(collector.client);
	since = nam_now_ns();
	while (slot_value(server, (uint16_t)own) < 2)
		patience(since);
	assert_int_equal(nam__limbo_advance(collector.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	assert_int_equal(slot_value(server, nam_client_id(reader.client)), 1);
	nam__op_end(reader.worker);
	await_reusable(&collector, 1);
	leave(&reader);
	leave(&collector);
	fake_server_stop(server);
}

static void
nam__limbo_advance__own_operation__NOT_REUSABLE_until_it_ends(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	struct nam_gaddr at;
	uint64_t reusable, local;

	(void)state;
	join(&member, server);
	nam__op_begin(member.worker, NAM_OP_COLLECT);
	local = local_epoch(&member);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	await_local_epoch(&member, local + 1);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	nam__op_end(member.worker);
	await_reusable(&member, 1);
	leave(&member);
	fake_server_stop(server);
}

static void
nam__limbo_advance__one_label_for_all__TWO_ROUND_TRIPS(void **state)
{
	struct fake_server *server = start_server();
	struct nam_op_counters before;
	struct member member;
	struct nam_gaddr at;
	uint64_t reusable;

	(void)state;
	join(&member, server);
	for (uint32_t i = 0; i < 200; i++) {
		assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
		nam_retire(member.worker, at, STRIDE);
	}
	before = *nam_worker_counters(member.worker, NAM_OP_OTHER);
	/* The slot is 1 for now, and so is the label. */
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(nam_worker_counters(member.worker, NAM_OP_OTHER)->round_trips -
				 before.round_trips,
		2);
	assert_int_equal(atomic_load(fake_server_word(server, NAM_META_EPOCH_OFFSET)), 2);
	if (reusable < 200)
		await_reusable(&member, 200 - reusable);
	/* An empty limbo costs nothing. */
	before = *nam_worker_counters(member.worker, NAM_OP_OTHER);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	assert_int_equal(nam_worker_counters(member.worker, NAM_OP_OTHER)->round_trips,
		before.round_trips);
	leave(&member);
	fake_server_stop(server);
}

static void
nam__limbo_advance__own_slot_zeroed__FENCED(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	struct nam_gaddr at;
	uint64_t reusable = 33;

	(void)state;
	join(&member, server);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	/* As long as an operation runs, the keeper has nothing new to publish. */
	nam__op_begin(member.worker, NAM_OP_COLLECT);
	atomic_store(fake_server_word(server, NAM_META_SLOTS_OFFSET + 8), 0);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), -NAM_E_FENCED);
	assert_int_equal(reusable, 33);
	assert_non_null(strstr(nam_worker_diag(member.worker), "dead"));
	nam__op_end(member.worker);
	leave(&member);
	fake_server_stop(server);
}

static void
nam_worker_close__blocks_in_limbo__BACK_AT_THE_SERVER(void **state)
{
	struct fake_server *server = start_server();
	struct member member;
	struct nam_gaddr at;

	(void)state;
	join(&member, server);
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
		nam_retire(member.worker, at, STRIDE);
	}
	nam_worker_close(member.worker);
	/* On a machine that starves the keeper some may be given up, but none gets lost uncounted. */
	assert_int_equal(fake_server_blocks_out(server),
		atomic_load(&member.client->limbo_leaked));
	nam_client_close(member.client);
	fake_server_stop(server);
}

static void
nam_worker_close__others_still_look__LEAK_COUNTED(void **state)
{
	struct fake_server *server = start_server();
	struct member collector, reader;
	struct nam_gaddr at;

	(void)state;
	join(&collector, server);
	join(&reader, server);
	nam__op_begin(reader.worker, NAM_OP_SCAN);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(nam_alloc(collector.worker, STRIDE, &at), 0);
		nam_retire(collector.worker, at, STRIDE);
	}
	nam_worker_close(collector.worker);
	assert_int_equal(atomic_load(&collector.client->limbo_leaked), 5);
	assert_int_equal(fake_server_blocks_out(server), 5);
	nam__op_end(reader.worker);
	leave(&reader);
	nam_client_close(collector.client);
	fake_server_stop(server);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_client_connect__joined__SLOT_PUBLISHED_and_0_after_close),
		cmocka_unit_test(keeper__global_epoch_moves__SLOT_FOLLOWS),
		cmocka_unit_test(keeper__operation_under_way__SLOT_STAYS),
		cmocka_unit_test(keeper__nothing_to_do__LOCAL_EPOCH_RESTS),
		cmocka_unit_test(nam__garbage_add__no_operation__FREED),
		cmocka_unit_test(nam__garbage_add__operation_under_way__KEPT_until_it_ends),
		cmocka_unit_test(nam__garbage_add__younger_operation_under_way__FREED),
		cmocka_unit_test(nam_client_close__garbage_left__FREED),
		cmocka_unit_test(nam__garbage_add__server_0_dead__FREED_all_the_same),
		cmocka_unit_test(nam__op_begin__readers_against_writer__NEVER_FREED_MEMORY),
		cmocka_unit_test(nam__op_begin__without_membarrier__NEVER_FREED_MEMORY),
		cmocka_unit_test(nam_retire__nobody_looks__REUSABLE),
		cmocka_unit_test(nam_retire__before_advance__NOT_REUSED),
		cmocka_unit_test(
			nam__limbo_advance__other_client_in_operation__NOT_REUSABLE_until_it_ends),
		cmocka_unit_test(nam__limbo_advance__own_operation__NOT_REUSABLE_until_it_ends),
		cmocka_unit_test(nam__limbo_advance__one_label_for_all__TWO_ROUND_TRIPS),
		cmocka_unit_test(nam__limbo_advance__own_slot_zeroed__FENCED),
		cmocka_unit_test(nam_worker_close__blocks_in_limbo__BACK_AT_THE_SERVER),
		cmocka_unit_test(nam_worker_close__others_still_look__LEAK_COUNTED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
