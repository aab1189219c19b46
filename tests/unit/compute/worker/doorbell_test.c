/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/worker/worker.h"
#include "compute/worker/doorbell.h"
#include "tests/lib/cluster.h"

#define MIB (1ull << 20)
#define BLOCK 256u

static struct local_cluster *cluster;
static struct nam_client *client;
static struct nam_worker *worker;
static struct nam_gaddr blocks[2];	/* one on each server */
static uint64_t *local, *other, *old;

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(2, 4 * MIB, 2 * MIB);
	client = test_connect(local_cluster_list(cluster), "doorbell-test", 0);
	worker = test_worker(client);
	for (unsigned slot = 0; slot < 2; slot++) {
		if (nam_alloc_on(worker, slot, BLOCK, &blocks[slot]))
			return -1;
		blocks[slot] = nam_gaddr_untagged(blocks[slot]);
	}
	local = nam_buffer_take(worker, BLOCK);
	other = nam_buffer_take(worker, BLOCK);
	old = nam_buffer_take(worker, 8);
	return local && other && old ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	nam_worker_close(worker);
	nam_client_close(client);
	local_cluster_stop(cluster);
	return 0;
}

/* The block on a server becomes words seed, seed + 1, ... */
static void
block_set(unsigned slot, uint64_t seed)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		local[i] = seed + i;
	assert_int_equal(nam_write_await(worker, blocks[slot], local, BLOCK), 0);
}

static const struct nam_op_counters *
counters(void)
{
	return nam_worker_counters(worker, NAM_OP_OTHER);
}

static void
doorbell__writes_cas_and_read__TAKE_EFFECT_IN_ORDER(void **state)
{
	(void)state;
	for (unsigned slot = 0; slot < 2; slot++) {
		struct nam__doorbell doorbell;

		block_set(slot, 1000);
		local[3] = 33;
		local[31] = 99;
		nam__doorbell_init(&doorbell, worker, blocks[slot]);
		nam__doorbell_write(&doorbell, 8 * 31, local + 31, 8);
		nam__doorbell_write(&doorbell, 8 * 2, local + 2, 16);
		nam__doorbell_cas(&doorbell, 0, 1000, 7, old);
		nam__doorbell_read(&doorbell, other, BLOCK);
		assert_int_equal(nam__doorbell_await(&doorbell), 0);
		assert_int_equal(*old, 1000);
		assert_int_equal(other[0], 7);
		assert_int_equal(other[3], 33);
		assert_int_equal(other[31], 99);
		for (unsigned i = 1; i < 31; i++)
			if (i != 3)
				assert_int_equal(other[i], 1000 + i);
	}
}

static void
doorbell__cas_that_expects_another_value__CHANGES_NOTHING_AND_SAYS_WHAT_IT_FOUND(void **state)
{
	struct nam__doorbell doorbell;

	(void)state;
	block_set(0, 50);
	nam__doorbell_init(&doorbell, worker, blocks[0]);
	nam__doorbell_cas(&doorbell, 8, 52, 1, old);
	nam__doorbell_read(&doorbell, other, BLOCK);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_int_equal(*old, 51);
	assert_int_equal(other[1], 51);
}

static void
doorbell__awaited_twice__COUNTS_EACH_REQUEST_ONCE(void **state)
{
	struct nam_op_counters before = *counters();
	struct nam__doorbell doorbell;

	(void)state;
	nam__doorbell_init(&doorbell, worker, blocks[1]);
	nam__doorbell_write(&doorbell, 8, local, 24);
	nam__doorbell_cas(&doorbell, 0, 0, 0, old);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_int_equal(counters()->round_trips - before.round_trips, 1);
	assert_int_equal(counters()->doorbells - before.doorbells, 1);
	assert_int_equal(counters()->work_requests - before.work_requests, 2);
	assert_int_equal(counters()->bytes_out - before.bytes_out, 24 + 16);
	assert_int_equal(counters()->bytes_in - before.bytes_in, 8);

	/* It is empty now. */
	before = *counters();
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_int_equal(counters()->round_trips - before.round_trips, 0);
	assert_int_equal(counters()->work_requests - before.work_requests, 0);

	nam__doorbell_read(&doorbell, other, 64);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_int_equal(counters()->round_trips - before.round_trips, 1);
	assert_int_equal(counters()->bytes_in - before.bytes_in, 64);
	assert_int_equal(counters()->bytes_out - before.bytes_out, 0);
}

static void
doorbell__address_of_no_region__NOREGION_AND_NOTHING_POSTED(void **state)
{
	struct nam_op_counters before = *counters();
	struct nam__doorbell doorbell;

	(void)state;
	nam__doorbell_init(&doorbell, worker, nam_gaddr_make(77 * 256, 64, 0));
	nam__doorbell_write(&doorbell, 8, local, 24);
	assert_int_equal(nam__doorbell_await(&doorbell), -NAM_E_NOREGION);
	assert_int_equal(counters()->work_requests - before.work_requests, 0);
	assert_int_equal(counters()->round_trips - before.round_trips, 0);
}

/* More requests at a time than there is room for (2 x 1,024): the last ones wait. */
#define CROWD 400u

struct one_of_many {
	struct nam_worker *worker;
	uint64_t number;
	uint64_t *old;
	int rc;
};

/* Each expects those before it to have been there; one out of turn tries again. */
static void
add_one(void *arg)
{
	struct one_of_many *self = arg;
	struct nam__doorbell doorbell;
	uint64_t seen = self->number;

	do {
		nam__doorbell_init(&doorbell, self->worker, blocks[0]);
		nam__doorbell_cas(&doorbell, 0, seen, seen + 1, self->old);
		for (unsigned i = 1; i < NAM__DOORBELL_MAX; i++)
			nam__doorbell_write(&doorbell, 8 * (1 + i), self->old, 8);
		self->rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
		if (self->rc || *self->old == seen)
			return;
		seen = *self->old;
	} while (true);
}

static void
doorbell__more_fibers_than_the_queue_pair_has_room__ALL_ARE_DONE(void **state)
{
	struct one_of_many *crowd = calloc(CROWD, sizeof(*crowd));
	struct nam_client_options options;
	struct nam_client *many;
	struct nam_worker *by;

	(void)state;
	block_set(0, 0);
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	options.fibers_max = CROWD;
	assert_int_equal(nam_client_connect(&options, &many, NULL), 0);
	by = test_worker(many);
	for (unsigned i = 0; i < CROWD; i++) {
		crowd[i] = (struct one_of_many){ by, i, nam_buffer_take(by, 8), -EBUSY };
		assert_int_equal(nam_worker_spawn(by, add_one, &crowd[i]), 0);
	}
	nam_worker_run(by);
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(crowd[i].rc, 0);
	nam_worker_close(by);
	nam_client_close(many);
	free(crowd);
	assert_int_equal(nam_read_await(worker, blocks[0], other, BLOCK), 0);
	assert_int_equal(other[0], CROWD);
}

static void
doorbell__server_ends__PEER_DEAD_THERE_AND_FINE_ELSEWHERE(void **state)
{
	uint64_t deadline = nam_now_ns() + 5000000000ull;
	struct nam__doorbell doorbell;
	int rc = 0;

	(void)state;
	local_cluster_stop_server(cluster, 1);
	while (!rc && nam_now_ns() < deadline) {
		nam__doorbell_init(&doorbell, worker, blocks[1]);
		nam__doorbell_cas(&doorbell, 0, 0, 0, old);
		nam__doorbell_read(&doorbell, other, BLOCK);
		rc = nam__doorbell_await(&doorbell);
		nam_yield();
	}
	assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
	nam__doorbell_init(&doorbell, worker, blocks[0]);
	nam__doorbell_read(&doorbell, other, BLOCK);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doorbell__writes_cas_and_read__TAKE_EFFECT_IN_ORDER),
		cmocka_unit_test(
		doorbell__cas_that_expects_another_value__CHANGES_NOTHING_AND_SAYS_WHAT_IT_FOUND),
		cmocka_unit_test(doorbell__awaited_twice__COUNTS_EACH_REQUEST_ONCE),
		cmocka_unit_test(doorbell__address_of_no_region__NOREGION_AND_NOTHING_POSTED),
		cmocka_unit_test(doorbell__more_fibers_than_the_queue_pair_has_room__ALL_ARE_DONE),
		cmocka_unit_test(doorbell__server_ends__PEER_DEAD_THERE_AND_FINE_ELSEWHERE),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
