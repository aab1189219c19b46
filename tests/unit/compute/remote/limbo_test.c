/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/remote/epoch.h"
#include "tests/lib/fake_server.h"
#include "tests/unit/compute/client/member.h"

#define LATE_NS 2100000000ull
#define FIRST_ALLOC 16u			/* blocks that the first ALLOC asks for */

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

/* Memory that is full may be full of what this worker has retired. */
static void
nam_alloc_on__full_but_for_what_was_retired__REUSED(void **state)
{
	struct fake_server_options options = { .memory_bytes = 256u << 10 };
	struct fake_server *server = fake_server_start(&options);
	uint64_t since = nam_now_ns();
	struct nam_gaddr all[4096], at;
	struct member member;
	uint32_t count = 0;

	(void)state;
	join(&member, server);
	while (count < 4096 && nam_alloc_on(member.worker, 0, STRIDE, &all[count]) == 0)
		count++;
	assert_in_range(count, 2, 4095);
	assert_non_null(strstr(nam_worker_diag(member.worker), "--memory"));
	for (uint32_t i = 0; i < count; i++)
		nam_retire(member.worker, all[i], STRIDE);
	while (nam_alloc_on(member.worker, 0, STRIDE, &at))
		retry_pause(since);
	for (uint32_t i = 1; i < count; i++)
		assert_int_equal(nam_alloc_on(member.worker, 0, STRIDE, &at), 0);
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
	/* The collector's own epoch thread gets past the label, and it is still not enough. */
	own = nam_client_id(collector.client);
	since = nam_now_ns();
	while (slot_value(server, (uint16_t)own) < 2)
		retry_pause(since);
	assert_int_equal(nam__limbo_advance(collector.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	assert_int_equal(slot_value(server, nam_client_id(reader.client)), 1);
	nam__op_end(reader.worker);
	await_reusable(&collector, 1);
	leave(&reader);
	leave(&collector);
	fake_server_stop(server);
}

struct labelling {
	struct member *member;
	struct nam_gaddr late;		/* retired while a label is on its way */
	uint64_t reusable;
	bool asked;			/* for the label */
};

static void
label_main(void *arg)
{
	struct labelling *labelling = arg;

	labelling->asked = true;
	assert_int_equal(nam__limbo_advance(labelling->member->worker, &labelling->reusable),
		0); /* SUSPENDS */
	labelling->asked = false;
}

static void
retire_main(void *arg)
{
	struct labelling *labelling = arg;

	assert_true(labelling->asked);
	nam_retire(labelling->member->worker, labelling->late, STRIDE);
}

static void
nam_retire__while_a_label_is_on_its_way__IS_YOUNGER_THAN_IT(void **state)
{
	struct fake_server *server = start_server();
	struct member member, reader;
	struct labelling labelling = { .member = &member };
	struct nam_gaddr at;
	uint64_t reusable, since;

	(void)state;
	join(&member, server);
	join(&reader, server);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &labelling.late), 0);
	nam_retire(member.worker, at, STRIDE);
	assert_int_equal(nam_worker_spawn(member.worker, label_main, &labelling), 0);
	assert_int_equal(nam_worker_spawn(member.worker, retire_main, &labelling), 0);
	nam_worker_run(member.worker);

	/* The reader begins after the label; it may know of the second block, not of the first. */
	since = nam_now_ns();
	while (slot_value(server, nam_client_id(reader.client)) < 2 ||
		slot_value(server, nam_client_id(member.client)) < 2)
		retry_pause(since);
	nam__op_begin(reader.worker, NAM_OP_SCAN);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(labelling.reusable + reusable, 1);
	nam__op_end(reader.worker);
	await_reusable(&member, 1);
	leave(&reader);
	leave(&member);
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
nam__limbo_advance__one_label_for_all__THREE_ROUND_TRIPS(void **state)
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
		3);
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
	/* As long as an operation runs, the epoch thread has nothing new to publish. */
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
	/*
	 * On a host that starves the epoch thread some may be given up, but none gets lost
	 * uncounted.
	 */
	assert_int_equal(fake_server_blocks_out(server),
		atomic_load(&member.client->limbo_leaked));
	nam_client_close(member.client);
	fake_server_stop(server);
}

static void *
end_operation_late(void *arg)
{
	nam_sleep_ns(LATE_NS);
	nam__op_end(arg);
	return NULL;
}

static void
nam_worker_close__others_look_for_less_than_timeout_ms__NOTHING_LOST(void **state)
{
	struct fake_server *server = start_server();
	struct member collector, reader;
	struct nam_gaddr at;
	pthread_t thread;

	(void)state;
	join(&collector, server);
	join(&reader, server);
	nam__op_begin(reader.worker, NAM_OP_SCAN);
	assert_int_equal(nam_alloc(collector.worker, STRIDE, &at), 0);
	nam_retire(collector.worker, at, STRIDE);
	assert_int_equal(pthread_create(&thread, NULL, end_operation_late, reader.worker), 0);
	nam_worker_close(collector.worker);
	pthread_join(thread, NULL);
	assert_int_equal(nam_client_blocks_lost(collector.client), 0);
	assert_int_equal(fake_server_blocks_out(server), 0);
	leave(&reader);
	nam_client_close(collector.client);
	fake_server_stop(server);
}

static void
nam_worker_close__others_still_look__GIVEN_BACK_FOR_LATER(void **state)
{
	struct fake_server *server = start_server();
	struct member collector, reader;
	struct nam_gaddr at;
	struct nam_diag why;
	char text[32];

	(void)state;
	join(&collector, server);
	join(&reader, server);
	nam__op_begin(reader.worker, NAM_OP_SCAN);
	for (uint32_t i = 0; i < FIRST_ALLOC; i++) {
		assert_int_equal(nam_alloc(collector.worker, STRIDE, &at), 0);
		nam_retire(collector.worker, at, STRIDE);
	}
	/* No RPC follows that could take longer: the block cache is empty. */
	assert_int_equal(fake_server_blocks_out(server), FIRST_ALLOC);
	collector.client->options.timeout_ms = 20;
	nam_worker_close(collector.worker);
	assert_int_equal(nam_client_blocks_lost(collector.client), 0);
	assert_int_equal(nam_client_blocks_waiting(collector.client, &why), FIRST_ALLOC);
	(void)snprintf(text, sizeof(text), "client %u (", nam_client_id(reader.client));
	assert_non_null(strstr(why.text, text));
	assert_int_equal(fake_server_blocks_out(server), FIRST_ALLOC);
	nam__op_end(reader.worker);
	leave(&reader);
	nam_client_close(collector.client);
	fake_server_stop(server);
}

/* The limbo cannot advance any more, so there is nothing to wait for. */
static void
nam_worker_close__server_is_gone__LEAK_COUNTED_at_once(void **state)
{
	struct fake_server *server = start_server();
	uint64_t since = nam_now_ns();
	struct member member;
	struct nam_gaddr at;

	(void)state;
	join(&member, server);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	fake_server_stop(server);
	nam_worker_close(member.worker);
	assert_int_equal(nam_client_blocks_lost(member.client), 1);
	assert_in_range(nam_now_ns() - since, 0, TIMEOUT_MS * 1000000ull - 1);
	nam_client_close(member.client);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_retire__nobody_looks__REUSABLE),
		cmocka_unit_test(nam_alloc_on__full_but_for_what_was_retired__REUSED),
		cmocka_unit_test(nam_retire__before_advance__NOT_REUSED),
		cmocka_unit_test(
			nam__limbo_advance__other_client_in_operation__NOT_REUSABLE_until_it_ends),
		cmocka_unit_test(nam_retire__while_a_label_is_on_its_way__IS_YOUNGER_THAN_IT),
		cmocka_unit_test(nam__limbo_advance__own_operation__NOT_REUSABLE_until_it_ends),
		cmocka_unit_test(nam__limbo_advance__one_label_for_all__THREE_ROUND_TRIPS),
		cmocka_unit_test(nam__limbo_advance__own_slot_zeroed__FENCED),
		cmocka_unit_test(nam_worker_close__blocks_in_limbo__BACK_AT_THE_SERVER),
		cmocka_unit_test(
			nam_worker_close__others_look_for_less_than_timeout_ms__NOTHING_LOST),
		cmocka_unit_test(nam_worker_close__others_still_look__GIVEN_BACK_FOR_LATER),
		cmocka_unit_test(nam_worker_close__server_is_gone__LEAK_COUNTED_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
