/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_test.c -- a client of a member that has a backup, loses it, or ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/admin.h"
#include "compute/backup/backups.h"
#include "compute/remote/batch.h"
#include "compute/worker/doorbell.h"
#include "compute/worker/worker.h"
#include "memserver/memserver_internal.h"
#include "tests/lib/cluster.h"

#define MEMORY_BYTES (4ull << 20)
#define REGION_BYTES (1ull << 20)
#define MEMBER 1u			/* its id, and its number in the cluster */
#define BACKUP 2u			/* its number in the cluster */
#define BLOCK 256u
#define LAST (BLOCK / 8 - 1)		/* word of a block */
#define PAUSE_NS 1000000u
#define TIMEOUT_NS 60000000000ull
#define TIMEOUT_MS 60000u

static struct local_cluster *cluster;
static struct nam_client_options options;
static struct nam_client *client;
static struct nam_worker *worker;
static uint32_t slot;			/* of the member */
static struct nam_gaddr block, elsewhere;	/* at the member; at the lead */
static uint64_t *local, *old;

static int
start(enum nam_transport transport)
{
	struct nam_diag diag = { "" };

	cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	options.timeout_ms = TIMEOUT_MS;
	options.transport = transport;
	if (nam_client_connect(&options, &client, &diag))
		test_die("%s", diag.text);
	worker = test_worker(client);
	slot = client->slot_of_id[MEMBER];
	if (nam_alloc_on(worker, slot, BLOCK, &block) ||
		nam_alloc_on(worker, client->slot_of_id[0], BLOCK, &elsewhere))
		return -1;
	block = nam_gaddr_untagged(block);
	elsewhere = nam_gaddr_untagged(elsewhere);
	local = nam_buffer_take(worker, BLOCK);
	old = nam_buffer_take(worker, 8);
	return local && old ? 0 : -1;
}

static int
setup(void **state)
{
	(void)state;
	return start(NAM_TRANSPORT_SRQ);
}

static int
setup_mailbox(void **state)
{
	(void)state;
	return start(NAM_TRANSPORT_MAILBOX);
}

static int
setup_fetch(void **state)
{
	(void)state;
	return start(NAM_TRANSPORT_FETCH);
}

static int
teardown(void **state)
{
	(void)state;
	nam_buffer_give(worker, local, BLOCK);
	nam_buffer_give(worker, old, 8);
	nam_worker_close(worker);
	nam_client_close(client);
	local_cluster_stop(cluster);
	return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The client has followed the view so far: the member has a backup, or has none. */
static void
follow_await(bool backed)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;

	while (nam__is_backed(client, slot) != backed ||
		!nam__gate_is_of(client, NAM__GATES_OPEN)) {
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(PAUSE_NS);
	}
}

/* The worker knows that its connection to that slot has ended. */
static void
end_await(uint32_t at)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;

	while (worker->qps[at]) {
		void *context;

		assert_true(nam_now_ns() < deadline);
		assert_int_equal(nam_async_poll(worker, &context, 1), 0);
		nam_sleep_ns(PAUSE_NS);
	}
}

static void
back(void)
{
	const char *address = local_cluster_add_successor(cluster, MEMBER);
	struct nam_server_moved moved;
	struct nam_diag diag = { "" };

	if (nam_server_back(&options, address, NULL, NULL, &moved, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(moved.id, MEMBER);
	assert_int_equal(moved.retired, 0);
	follow_await(true);
}

/* The bytes at that address of a memory server. */
static uint64_t *
at(unsigned number, struct nam_gaddr address, uint32_t bytes)
{
	uint64_t *words = nam__memory_public_at(local_cluster_server(cluster, number), address,
		bytes);

	assert_non_null(words);
	return words;
}

static void
local_fill(uint64_t seed)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		local[i] = seed + i;
}

/* The member has the words seed, seed + 1, ..., and its backup has `other`. */
static void
assert_words(uint64_t seed, uint64_t other)
{
	for (unsigned i = 0; i < BLOCK / 8; i++) {
		assert_int_equal(at(MEMBER, block, BLOCK)[i], seed + i);
		assert_int_equal(at(BACKUP, block, BLOCK)[i], other + i);
	}
}

static struct nam_op_counters
counters(void)
{
	return *nam_worker_counters(worker, NAM_OP_OTHER);
}

/* So many more than in `before`. */
static void
assert_cost(const struct nam_op_counters *before, unsigned round_trips, unsigned doorbells,
	unsigned requests)
{
	struct nam_op_counters now = counters();

	assert_int_equal(now.round_trips - before->round_trips, round_trips);
	assert_int_equal(now.doorbells - before->doorbells, doorbells);
	assert_int_equal(now.work_requests - before->work_requests, requests);
}

/* ---- WRITEs ---------------------------------------------------------------------------------- */

static void
back__memory_that_was_written_before__IS_AT_THE_BACKUP(void **state)
{
	(void)state;
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	back();
	assert_words(100, 100);
}

static void
write__of_a_block__IS_AT_BOTH_for_two_round_trips(void **state)
{
	struct nam_op_counters before;

	(void)state;
	back();
	/* It learns of the backup, and connects. */
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_words(100, 100);
	local_fill(200);
	before = counters();
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_cost(&before, 2, 2, 2);
	assert_int_equal(counters().bytes_out - before.bytes_out, 2 * BLOCK);
	assert_words(200, 200);
	before = counters();
	memset(local, 0, BLOCK);
	assert_int_equal(nam_read_await(worker, block, local, BLOCK), 0);
	assert_cost(&before, 1, 1, 1);
	assert_int_equal(local[7], 207);
	/* Other members have none. */
	before = counters();
	assert_int_equal(nam_write_await(worker, elsewhere, local, BLOCK), 0);
	assert_cost(&before, 1, 1, 1);
	assert_int_equal(at(0, elsewhere, BLOCK)[7], 207);
}

/* A task awaits both. */
static void
unseen__written_beside_a_read__IS_AT_BOTH_for_one_round_trip(void **state)
{
	struct nam_op_counters before;
	struct nam_batch batch;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	for (uint64_t seed = 200; seed < 220; seed++) {
		local_fill(seed);
		before = counters();
		nam_batch_init(&batch, worker);
		nam__batch_unseen_write(&batch, block, local, BLOCK);
		nam_batch_read(&batch, block, old, 8);
		assert_int_equal(nam_batch_await(&batch), 0);
		assert_cost(&before, 1, 2, 3);
		assert_words(seed, seed);
		assert_int_equal(*old, seed);
		assert_false(nam__mirror_holds(&(worker)->mirror, slot));
	}
	/* Beside another WRITE it is one like that. */
	local_fill(300);
	before = counters();
	nam_batch_init(&batch, worker);
	nam__batch_unseen_write(&batch, block, local, BLOCK / 2);
	nam_batch_write(&batch, block, BLOCK / 2, local + BLOCK / 16, BLOCK / 2);
	assert_int_equal(nam_batch_await(&batch), 0);
	assert_cost(&before, 2, 2, 4);
	assert_words(300, 300);
}

/* READs come from the member. */
static void
read__of_a_block_that_differs__IS_THE_MEMBERS(void **state)
{
	(void)state;
	back();
	at(BACKUP, block, BLOCK)[3] = 77;
	at(MEMBER, block, BLOCK)[3] = 78;
	assert_int_equal(nam_read_await(worker, block, local, BLOCK), 0);
	assert_int_equal(local[3], 78);
}

static void
write__step_by_step__IS_AT_THE_BACKUP_FIRST(void **state)
{
	void *context = NULL;
	bool between = false;
	int done = 0;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	for (uint64_t seed = 200; seed < 220; seed++) {
		local_fill(seed);
		assert_int_equal(nam_async_write(worker, block, local, BLOCK, old), 0);
		assert_true(nam__mirror_holds(&(worker)->mirror, slot));
		do {
			bool there = at(BACKUP, block, BLOCK)[LAST] == local[LAST];
			bool here = at(MEMBER, block, BLOCK)[LAST] == local[LAST];

			assert_true(there || !here);
			between |= there && !here;
			done = nam_async_poll(worker, &context, 1);
		} while (done == 0);
		assert_int_equal(done, 1);
		assert_ptr_equal(context, old);
		assert_false(nam__mirror_holds(&(worker)->mirror, slot));
		assert_words(seed, seed);
	}
	assert_true(between);
}

static void
write__many_at_once__ARE_AT_BOTH(void **state)
{
	unsigned posted = 0, done = 0;
	void *contexts[16];

	(void)state;
	back();
	local_fill(500);
	while (done < BLOCK / 8) {
		int rc = 0;

		while (posted < BLOCK / 8 && !rc) {
			rc = nam_async_write(worker, nam_gaddr_make(nam_gaddr_region(block),
				nam_gaddr_offset(block) + posted / 8 * 64, 0),
				local + posted / 8 * 8, 64, old);
			assert_true(!rc || rc == -NAM_E_FABRIC_FULL);
			posted += !rc;
		}
		rc = nam_async_poll(worker, contexts, 16);
		assert_true(rc >= 0);
		done += (unsigned)rc;
	}
	assert_int_equal(done, posted);
	assert_words(500, 500);
}

/* As they would be without a backup: the last one is what both have. */
static void
write__one_block_many_times_at_once__BOTH_HAVE_THE_LAST(void **state)
{
	uint64_t *buffer = nam_buffer_take(worker, 16 * BLOCK);
	uint64_t contexts[16];
	void *done[16];

	(void)state;
	assert_non_null(buffer);
	back();
	for (unsigned round = 0; round < 3; round++) {
		unsigned count = 0;

		for (unsigned i = 0; i < 16; i++) {
			for (unsigned word = 0; word < BLOCK / 8; word++)
				buffer[i * BLOCK / 8 + word] = 1000 * (16 * round + i) + word;
			assert_int_equal(nam_async_write(worker, block, buffer + i * BLOCK / 8,
				BLOCK, &contexts[i]), 0);
		}
		while (count < 16) {
			int rc = nam_async_poll(worker, done + count, 16 - count);

			assert_in_range(rc, 0, 16 - count);
			count += (unsigned)rc;
		}
		for (unsigned i = 0; i < 16; i++)
			assert_ptr_equal(done[i], &contexts[i]);
		assert_words(1000 * (16 * round + 15), 1000 * (16 * round + 15));
	}
	nam_buffer_give(worker, buffer, 16 * BLOCK);
}

/* ---- doorbells and batches ------------------------------------------------------------------- */

/* The lock word is the member's alone. */
static void
doorbell__writes_and_the_cas_of_a_lock_word__WRITES_ARE_AT_BOTH(void **state)
{
	struct nam_op_counters before;
	struct nam__doorbell doorbell;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	local[3] = 33;
	local[31] = 99;
	before = counters();
	nam__doorbell_init(&doorbell, worker, block);
	nam__doorbell_write(&doorbell, 8 * 31, local + 31, 8);
	nam__doorbell_write(&doorbell, 8 * 3, local + 3, 8);
	nam__doorbell_cas(&doorbell, 0, 100, 7, old);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_cost(&before, 2, 2, 5);
	assert_int_equal(*old, 100);
	for (unsigned number = MEMBER; number <= BACKUP; number++) {
		assert_int_equal(at(number, block, BLOCK)[0], number == MEMBER ? 7 : 100);
		assert_int_equal(at(number, block, BLOCK)[3], 33);
		assert_int_equal(at(number, block, BLOCK)[31], 99);
		assert_int_equal(at(number, block, BLOCK)[5], 105);
	}
	/* No WRITE: one round trip. */
	before = counters();
	nam__doorbell_init(&doorbell, worker, block);
	nam__doorbell_cas(&doorbell, 0, 7, 100, old);
	nam__doorbell_read(&doorbell, local, BLOCK);
	assert_int_equal(nam__doorbell_await(&doorbell), 0);
	assert_cost(&before, 1, 1, 2);
	assert_int_equal(local[0], 100);
	assert_int_equal(local[3], 33);
}

static void
batch__to_the_member_and_another_one__IS_AT_ALL_THREE(void **state)
{
	struct nam_batch batch;

	(void)state;
	back();
	local_fill(300);
	nam_batch_init(&batch, worker);
	nam_batch_write(&batch, block, 0, local, BLOCK);
	nam_batch_write(&batch, elsewhere, 0, local, BLOCK);
	nam_batch_write(&batch, block, 8, local, 8);
	assert_int_equal(nam_batch_await(&batch), 0);
	for (unsigned i = 0; i < BLOCK / 8; i++) {
		assert_int_equal(at(0, elsewhere, BLOCK)[i], 300 + i);
		assert_int_equal(at(MEMBER, block, BLOCK)[i], i == 1 ? 300 : 300 + i);
		assert_int_equal(at(BACKUP, block, BLOCK)[i], i == 1 ? 300 : 300 + i);
	}
}

/* ---- atomics --------------------------------------------------------------------------------- */

static void
cas__of_a_word__IS_DECIDED_BY_THE_BACKUP_and_carried_to_the_member(void **state)
{
	struct nam_op_counters before;
	uint64_t seen = 0;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_int_equal(nam_cas_await(worker, block, 100, 7, &seen), 0);
	before = counters();
	assert_int_equal(nam_cas_await(worker, block, 7, 8, &seen), 0);
	assert_int_equal(counters().round_trips - before.round_trips, 2);
	assert_int_equal(seen, 7);
	assert_int_equal(*at(MEMBER, block, 8), 8);
	assert_int_equal(*at(BACKUP, block, 8), 8);
	/* Another word: nothing changes. */
	assert_int_equal(nam_cas_await(worker, block, 7, 9, &seen), 0);
	assert_int_equal(seen, 8);
	assert_int_equal(*at(MEMBER, block, 8), 8);
	assert_int_equal(*at(BACKUP, block, 8), 8);
	/* A client has ended in between: its word is carried to the member. */
	*at(BACKUP, block, 8) = 10;
	assert_int_equal(nam_cas_await(worker, block, 8, 11, &seen), 0);
	assert_int_equal(seen, 10);
	assert_int_equal(*at(MEMBER, block, 8), 10);
	assert_int_equal(*at(BACKUP, block, 8), 10);
	/* Elsewhere it is one. */
	before = counters();
	assert_int_equal(nam_cas_await(worker, elsewhere, *at(0, elsewhere, 8), 5, &seen), 0);
	assert_int_equal(counters().round_trips - before.round_trips, 1);
	assert_int_equal(*at(0, elsewhere, 8), 5);
}

static void
atomics__that_a_backup_does_not_follow__ARE_REFUSED_and_change_nothing(void **state)
{
	struct nam_batch batch;
	uint64_t seen = 4711;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_int_equal(nam_fetch_add_await(worker, block, 1, &seen), -NAM_E_FABRIC_CAPABILITY);
	assert_int_equal(seen, 4711);
	nam_batch_init(&batch, worker);
	nam_batch_cas(&batch, block, 0, 100, 1, old);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_FABRIC_CAPABILITY);
	nam_batch_fetch_add(&batch, block, 8, 1, old);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_FABRIC_CAPABILITY);
	/* With a WRITE, too. */
	local_fill(900);
	nam_batch_write(&batch, block, 16, local, 8);
	nam_batch_cas(&batch, block, 0, 100, 1, old);
	assert_int_equal(nam_batch_await(&batch), -NAM_E_FABRIC_CAPABILITY);
	assert_int_equal(nam_async_cas(worker, block, 100, 1, old, old),
		-NAM_E_FABRIC_CAPABILITY);
	assert_int_equal(nam_async_fetch_add(worker, block, 1, old, old),
		-NAM_E_FABRIC_CAPABILITY);
	assert_words(100, 100);
	/* The connections go on, and lock words are others. */
	nam__batch_lock_cas(&batch, block, 100, 1, old);
	assert_int_equal(nam_batch_await(&batch), 0);
	assert_int_equal(*at(MEMBER, block, 8), 1);
	assert_int_equal(*at(BACKUP, block, 8), 100);
	assert_int_equal(nam_fetch_add_await(worker, elsewhere, 1, &seen), 0);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_words(900, 900);
}

/* ---- requests to memory servers -------------------------------------------------------------- */

static uint64_t
carved_bytes(struct nam__allocator *books)
{
	uint64_t bytes;

	pthread_mutex_lock(&books->mutex);
	bytes = books->memory[NAM_MEMORY_PUBLIC].carved_bytes;
	pthread_mutex_unlock(&books->mutex);
	return bytes;
}

/* Blocks are the backup's, too, before they are used. */
static void
alloc__at_the_member__IS_TOLD_TO_THE_BACKUP(void **state)
{
	struct nam__allocator *books;
	struct nam_gaddr other;
	uint64_t carved;

	(void)state;
	back();
	books = &local_cluster_server(cluster, BACKUP)->allocator;
	carved = carved_bytes(books);
	/* Of another size class than those before. */
	assert_int_equal(nam_alloc_on(worker, slot, 4 * BLOCK, &other), 0);
	assert_in_range(carved_bytes(books) - carved, 4 * BLOCK, REGION_BYTES);
	other = nam_gaddr_untagged(other);
	local_fill(400);
	assert_int_equal(nam_write_await(worker, other, local, BLOCK), 0);
	assert_int_equal(at(MEMBER, other, BLOCK)[9], 409);
	assert_int_equal(at(BACKUP, other, BLOCK)[9], 409);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void
unback__the_member__IS_WRITTEN_ALONE(void **state)
{
	struct nam_op_counters before;
	struct nam_diag diag = { "" };
	uint64_t seen;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	if (nam_server_unback(&options, MEMBER, &diag))
		fail_msg("%s", diag.text);
	follow_await(false);
	local_fill(200);
	before = counters();
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_cost(&before, 1, 1, 1);
	assert_words(200, 100);
	before = counters();
	assert_int_equal(nam_fetch_add_await(worker, block, 3, &seen), 0);
	assert_int_equal(nam_cas_await(worker, block, 203, 200, &seen), 0);
	assert_cost(&before, 2, 2, 2);
	assert_int_equal(seen, 203);
	assert_words(200, 100);
	/* The process may end, and again is no failure. */
	local_cluster_stop_server(cluster, BACKUP);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_int_equal(nam_server_unback(&options, MEMBER, &diag), 0);
}

/* Once the backup has ended and is none any more, the client goes on. */
static void
unback__the_backup_has_ended__WRITES_GO_ON(void **state)
{
	struct nam_diag diag = { "" };

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	local_cluster_stop_server(cluster, BACKUP);
	end_await(nam__backup_slot(slot, 0));
	local_fill(200);
	assert_int_equal(nam_async_write(worker, block, local, BLOCK, old), 0);
	for (unsigned i = 0; i < 100; i++) {
		void *context;

		assert_int_equal(nam_async_poll(worker, &context, 1), 0);
	}
	assert_int_equal(at(MEMBER, block, BLOCK)[0], 100);
	if (nam_server_unback(&options, MEMBER, &diag))
		fail_msg("%s", diag.text);
	follow_await(false);
	for (uint64_t deadline = nam_now_ns() + TIMEOUT_NS;;) {
		void *context;
		int done = nam_async_poll(worker, &context, 1);

		assert_in_range(done, 0, 1);
		if (done)
			break;
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(PAUSE_NS);
	}
	assert_int_equal(at(MEMBER, block, BLOCK)[0], 200);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
}

static void
promote(void)
{
	struct nam_diag diag = { "" };
	int rc = nam_server_promote(&options, MEMBER, &diag);

	if (rc)
		fail_msg("%s", diag.text);
}

static void
promote__the_member_has_ended__THE_CLIENT_GOES_ON_at_the_backup(void **state)
{
	struct nam_op_counters before;
	struct nam_diag diag = { "" };
	struct nam_gaddr other;
	uint64_t seen;

	(void)state;
	back();
	local_fill(100);
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	/* It has not ended. */
	assert_int_not_equal(nam_server_promote(&options, MEMBER, &diag), 0);
	assert_non_null(strstr(diag.text, "has not ended"));
	local_cluster_stop_server(cluster, MEMBER);
	promote();
	follow_await(false);
	memset(local, 0, BLOCK);
	assert_int_equal(nam_read_await(worker, block, local, BLOCK), 0);
	assert_int_equal(local[31], 131);
	assert_string_equal(client->servers[slot].address,
		local_cluster_address(cluster, BACKUP));
	local_fill(200);
	before = counters();
	assert_int_equal(nam_write_await(worker, block, local, BLOCK), 0);
	assert_int_equal(nam_fetch_add_await(worker, block, 5, &seen), 0);
	assert_cost(&before, 2, 2, 2);
	assert_int_equal(seen, 200);
	assert_int_equal(at(BACKUP, block, BLOCK)[0], 205);
	assert_int_equal(at(BACKUP, block, BLOCK)[9], 209);
	assert_int_equal(nam_alloc_on(worker, slot, 8 * BLOCK, &other), 0);
}

static struct {
	atomic_uint rounds;
	atomic_bool ends;
	atomic_int rc;
} writing;

static void
keep_writing(void *arg)
{
	uint64_t seen;

	(void)arg;
	while (!writing.rc && !writing.ends) {
		local_fill(1000 + writing.rounds);
		local[0] = writing.rounds;
		writing.rc = nam_write_await(worker, block, local, BLOCK);
		if (!writing.rc)
			writing.rc = nam_cas_await(worker, block, writing.rounds,
				writing.rounds + 1, &seen);
		if (!writing.rc)
			writing.rc = nam_read_await(worker, block, local, BLOCK);
		if (!writing.rc && local[0] != writing.rounds + 1)
			writing.rc = -NAM_E_REMOTE_CORRUPT;
		writing.rounds++;
	}
}

static void
rounds_await(unsigned more)
{
	unsigned until = writing.rounds + more;
	uint64_t deadline = nam_now_ns() + TIMEOUT_NS;

	while (writing.rounds < until && !writing.rc && nam_now_ns() < deadline)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(writing.rc, 0);
	assert_true(writing.rounds >= until);
}

/* A backup comes, the member ends, and its backup has its place: while a client writes. */
static void
promote__while_a_worker_writes__NO_REQUEST_FAILS(void **state)
{
	struct nam_thread *thread;

	(void)state;
	memset(&writing, 0, sizeof(writing));
	assert_int_equal(nam_thread_start("writer", keep_writing, NULL, &thread), 0);
	rounds_await(2);
	back();
	rounds_await(10);
	local_cluster_stop_server(cluster, MEMBER);
	promote();
	rounds_await(10);
	writing.ends = true;
	nam_thread_join(thread);
	assert_int_equal(writing.rc, 0);
	assert_int_equal(at(BACKUP, block, BLOCK)[0], writing.rounds);
	assert_int_equal(at(BACKUP, block, BLOCK)[9], 1000 + writing.rounds - 1 + 9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(back__memory_that_was_written_before__IS_AT_THE_BACKUP),
		TEST(write__of_a_block__IS_AT_BOTH_for_two_round_trips),
		TEST(unseen__written_beside_a_read__IS_AT_BOTH_for_one_round_trip),
		TEST(read__of_a_block_that_differs__IS_THE_MEMBERS),
		TEST(write__step_by_step__IS_AT_THE_BACKUP_FIRST),
		TEST(write__many_at_once__ARE_AT_BOTH),
		TEST(write__one_block_many_times_at_once__BOTH_HAVE_THE_LAST),
		TEST(doorbell__writes_and_the_cas_of_a_lock_word__WRITES_ARE_AT_BOTH),
		TEST(batch__to_the_member_and_another_one__IS_AT_ALL_THREE),
		TEST(cas__of_a_word__IS_DECIDED_BY_THE_BACKUP_and_carried_to_the_member),
		TEST(atomics__that_a_backup_does_not_follow__ARE_REFUSED_and_change_nothing),
		TEST(alloc__at_the_member__IS_TOLD_TO_THE_BACKUP),
		cmocka_unit_test_setup_teardown(alloc__at_the_member__IS_TOLD_TO_THE_BACKUP,
			setup_mailbox, teardown),
		cmocka_unit_test_setup_teardown(alloc__at_the_member__IS_TOLD_TO_THE_BACKUP,
			setup_fetch, teardown),
		TEST(unback__the_member__IS_WRITTEN_ALONE),
		TEST(unback__the_backup_has_ended__WRITES_GO_ON),
		TEST(promote__the_member_has_ended__THE_CLIENT_GOES_ON_at_the_backup),
		TEST(promote__while_a_worker_writes__NO_REQUEST_FAILS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
