/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_client_test.c -- clients that die while they write, and what is left to the others.
 *
 * An acknowledged operation stays done.  The next writer takes over a lock that it held.  Only if a
 * node has no redo record and stays torn do operations on that node fail, soon and by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "kill_client.h"
#include "tests/lib/cluster.h"

#define VICTIMS 2u
#define ROUNDS 32u

/* ---- the coordinator ---------------------------------------------------------------------- */

struct fixture {
	struct cluster cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t base;			/* numbers of class 0 that are there, from the first on */
};

static struct fixture fixture;

static int
start(void **state)
{
	(void)state;
	cluster_start(&fixture.cluster, 2, 64, "4M");
	fixture.client = test_connect(fixture.cluster.list, "coordinator", LOCK_MS);
	fixture.worker = test_worker(fixture.client);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	nam_worker_close(fixture.worker);
	nam_client_close(fixture.client);
	cluster_stop(&fixture.cluster);
	return 0;
}

static void
tree_begin(uint64_t base)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 8;
	assert_int_equal(nam_index_create(fixture.worker, INDEX, &options), 0);
	fixture.index = open_index(fixture.worker, 1u << 20);
	fixture.base = base;
	for (uint64_t i = 0; i < base; i++)
		assert_int_equal(insert(fixture.worker, fixture.index, number_of(0, i)), 0);
}

/* A node torn for ever cannot be given back, nor what only it leads to: then drop says so. */
static void
tree_end(int expect)
{
	nam_index_close(fixture.index);
	assert_int_equal(nam_index_drop(fixture.worker, INDEX), expect);
}

/* Damage that dead clients may leave: missing separators, held locks, rarely a torn node. */
struct damage {
	bool torn_allowed;
	unsigned locks, separators, torn, others;
};

static void
note_violation(void *arg, unsigned invariant, const char *text)
{
	struct damage *damage = arg;

	switch (invariant) {
	case 2:
		damage->torn++;
		break;
	case 7:
		damage->separators++;
		break;
	case 9:
		damage->locks++;
		break;
	default:
		if (!damage->torn_allowed)
			print_error("I%u: %s\n", invariant, text);
		damage->others++;
	}
}

static struct damage
tree_verify(bool torn_allowed)
{
	struct damage damage = { .torn_allowed = torn_allowed };
	uint64_t violations;

	assert_int_equal(nam_index_verify(fixture.worker, fixture.index, note_violation, &damage,
				 &violations), 0);
	/* A torn node's contents cannot be believed, so what depends on it is reported as well. */
	if (!damage.torn)
		assert_int_equal(damage.others, 0);
	if (!torn_allowed)
		assert_int_equal(damage.torn, 0);
	return damage;
}

/* ---- killed at random moments ------------------------------------------------------------- */

/* Acknowledged operations, by number. */
static uint8_t acknowledged[NUMBERS_MAX];

/* Reads one report of a victim; false: there are no more. */
static bool
read_acknowledgement(struct child *victim)
{
	uint64_t number;
	ssize_t got = read(victim->out, &number, sizeof(number));

	if (!got)
		return false;
	assert_int_equal(got, sizeof(number));
	assert_true(number < NUMBERS);
	acknowledged[number] = 1;
	return true;
}

/* A round: victims begin, are seen to work, and die. */
static void
kill_round(unsigned round, struct nam_rng *rng)
{
	struct child victims[VICTIMS];

	for (unsigned i = 0; i < VICTIMS; i++) {
		char class[12], begin[24];
		const char *const args[] = { fixture.cluster.list, class, begin, NULL };

		(void)snprintf(class, sizeof(class), "%u",
			VICTIM + (round * VICTIMS + i) % (CLASSES - VICTIM));
		(void)snprintf(begin, sizeof(begin), "%u", round * 1000);
		child_start_self(&victims[i], "victim", args);
	}
	for (unsigned i = 0; i < VICTIMS; i++)
		assert_true(read_acknowledgement(&victims[i]));
	nam_sleep_ns(nam_rng_below(rng, 15000000));
	for (unsigned i = 0; i < VICTIMS; i++) {
		child_signal(&victims[i], SIGKILL);
		while (read_acknowledgement(&victims[i]))
			;
		assert_int_equal(child_wait(&victims[i], 10000), 128 + SIGKILL);
	}
}

static void
start_survivor(struct child *survivor, int *ret_in)
{
	const char *const args[] = { fixture.cluster.list, NULL };
	int saved = dup(STDIN_FILENO), fds[2];
	char line[64];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true(dup2(fds[0], STDIN_FILENO) >= 0);
	child_start_self(survivor, "survivor", args);
	assert_true(dup2(saved, STDIN_FILENO) >= 0);
	close(saved);
	close(fds[0]);
	*ret_in = fds[1];
	assert_true(child_line(survivor, line, sizeof(line), 60000));
	assert_string_equal(line, "at work");
}

/* Its summary, and its entries: they are acknowledged. */
static void
end_survivor(struct child *survivor, int in)
{
	unsigned long long ops = 0, slowest_ms, wrong = 1, number;
	char line[256];
	int status;

	close(in);
	while (child_line(survivor, line, sizeof(line), 60000)) {
		if (sscanf(line, "ops %llu slowest_ms %llu wrong %llu", &ops, &slowest_ms,
			    &wrong) == 3) {
			print_message("survivor: %s\n", line);
		} else if (sscanf(line, "present %llu", &number) == 1 && number < NUMBERS) {
			acknowledged[number] = 1;
		} else {
			fail_msg("survivor said: %s", line);
		}
	}
	status = child_wait(survivor, 10000);
	assert_int_equal(status, 0);
	assert_int_equal(wrong, 0);
	assert_true(ops > 100);
	assert_true(slowest_ms <= BOUND_NS / 1000000);
}

struct dead {
	unsigned id;
	long long pid;
	uint64_t low, high;		/* numbers that the node covers: [low, high) */
};

/* Each must be there, but those of this node (NULL: none). */
static void
check_acknowledged(const struct dead *torn)
{
	unsigned checked = 0;

	for (uint64_t number = 0; number < NUMBERS; number++) {
		uint64_t payload = 0;
		int rc;

		if (!acknowledged[number] ||
			(torn && number >= torn->low && number < torn->high))
			continue;
		checked++;
		rc = lookup(fixture.worker, fixture.index, number, &payload);
		if (rc)
			print_error("%llu: %s\n", (unsigned long long)number, nam_err_name(rc));
		assert_int_equal(rc, 0);
		assert_int_equal(payload, payload_of(number));
	}
	print_message("%u acknowledged entries\n", checked);
}

/* Delivered entries are in order and were written; acknowledged ones are delivered. */
static void
check_scan(bool reverse, int expect)
{
	struct nam_range range = { .reverse = reverse };
	uint8_t keys[200 * 8];
	uint64_t payloads[200], next = reverse ? NUMBERS - 1 : 0;
	struct nam_cursor *cursor;
	uint32_t count;
	int rc;

	assert_int_equal(nam_cursor_open(fixture.worker, fixture.index, &range, &cursor), 0);
	while (!(rc = nam_cursor_next(cursor, keys, payloads, 200, &count)) && count) {
		for (uint32_t i = 0; i < count; i++) {
			uint64_t number = nam_key_to_u64(keys + 8 * i);

			assert_true(number < NUMBERS);
			assert_int_equal(payloads[i], payload_of(number));
			assert_true(reverse ? number <= next : number >= next);
			for (; next != number; next += reverse ? -1ull : 1)
				assert_false(acknowledged[next]);
			next += reverse ? -1ull : 1;
		}
	}
	nam_cursor_close(cursor);
	assert_int_equal(rc, expect);
	if (rc)
		return;
	for (; next < NUMBERS; next += reverse ? -1ull : 1)
		assert_false(acknowledged[next]);
}

static void
check_changes(void)
{
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t start_ns = nam_now_ns();

		assert_int_equal(insert(fixture.worker, fixture.index, number_of(LATE, i)), 0);
		assert_true(nam_now_ns() - start_ns < BOUND_NS);
	}
}

/* Operators look after the tree meanwhile: neither may hang, nor do harm. */
static void
collect_around(int expect)
{
	for (unsigned i = 0; i < 3; i++) {
		uint64_t start_ns = nam_now_ns();
		struct nam_collect_stat stat;

		assert_int_equal(nam_index_collect(fixture.worker, fixture.index, &stat), expect);
		assert_true(nam_now_ns() - start_ns < 3 * BOUND_NS);
	}
}

static void
clients__killed_in_loops_of_inserts__WHAT_WAS_ACKNOWLEDGED_STAYS(void **state)
{
	unsigned rounds = (unsigned)test_scaled(ROUNDS);
	struct nam_rng rng = nam_rng_seed(nam_entropy());
	struct damage damage;
	struct child survivor;
	int in;

	(void)state;
	if (rounds > ROUNDS * 16)
		rounds = ROUNDS * 16;
	if (rounds < 5)
		rounds = 5;
	print_message("seed %llu\n", (unsigned long long)rng.state);
	/* All of class 0, so that scans and half of the survivor's lookups know what to expect. */
	tree_begin(NUMBERS / CLASSES);
	for (uint64_t i = 0; i < fixture.base; i++)
		acknowledged[number_of(0, i)] = 1;
	start_survivor(&survivor, &in);
	for (unsigned round = 0; round < rounds; round++)
		kill_round(round, &rng);
	end_survivor(&survivor, in);

	check_acknowledged(NULL);
	damage = tree_verify(true);
	print_message("left behind: %u locks, %u missing separators, %u torn nodes\n", damage.locks,
		damage.separators, damage.torn);
	check_scan(false, 0);
	check_scan(true, 0);
	check_changes();
	collect_around(0);
	tree_verify(false);
	tree_end(0);
}

/* ---- killed with one particular lock in their hands --------------------------------------- */

static unsigned
height(void)
{
	struct nam_index_stat stat;

	assert_int_equal(nam_index_stat(fixture.worker, fixture.index, &stat), 0);
	return stat.height;
}

static void
lock_and_die(uint64_t number, unsigned level, const char *how, struct dead *ret_dead)
{
	uint64_t *image = nam_buffer_take(fixture.worker, fixture.index->g.node_bytes);
	char number_text[24], level_text[12], line[64];
	const char *const args[] = { fixture.cluster.list, number_text, level_text, how, NULL };
	struct nam_gaddr at;
	struct child locker;
	uint64_t key;

	nam_key_from_u64(number, &key);
	key = __builtin_bswap64(key);
	nam__op_begin(fixture.worker, NAM_OP_OTHER);
	assert_int_equal(nam__read_covering(fixture.worker, fixture.index, &key, level, image, &at),
		0);
	nam__op_end(fixture.worker);
	ret_dead->low = *nam__node_low(image);
	ret_dead->high = nam__node_last(image) ? UINT64_MAX :
						 *nam__node_high(&fixture.index->g, image);
	nam_buffer_give(fixture.worker, image, fixture.index->g.node_bytes);
	(void)snprintf(number_text, sizeof(number_text), "%llu", (unsigned long long)number);
	(void)snprintf(level_text, sizeof(level_text), "%u", level);
	child_start_self(&locker, "locker", args);
	ret_dead->pid = locker.pid;
	assert_true(child_line(&locker, line, sizeof(line), 20000));
	assert_int_equal(sscanf(line, "locked %u", &ret_dead->id), 1);
	assert_int_equal(child_wait(&locker, 20000), 128 + SIGKILL);
}

static void
expect_orphan(int rc, uint64_t start_ns, const struct dead *dead)
{
	char text[64];

	assert_int_equal(rc, -NAM_E_LOCK_ORPHANED);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	(void)snprintf(text, sizeof(text), "client %u,", dead->id);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), text));
	(void)snprintf(text, sizeof(text), "(locker, pid %lld)", dead->pid);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), text));
}

static void
expect_changes_to_fail(uint64_t number, const struct dead *dead)
{
	uint64_t start_ns = nam_now_ns();
	uint8_t key[8];

	nam_key_from_u64(number, key);
	expect_orphan(insert(fixture.worker, fixture.index, number + LATE), start_ns, dead);
	start_ns = nam_now_ns();
	expect_orphan(nam_index_upsert(fixture.worker, fixture.index, key, 1), start_ns, dead);
	start_ns = nam_now_ns();
	expect_orphan(nam_index_update(fixture.worker, fixture.index, key, 1), start_ns, dead);
	start_ns = nam_now_ns();
	expect_orphan(nam_index_delete(fixture.worker, fixture.index, key), start_ns, dead);
}

static void
expect_changes_to_work(uint64_t number)
{
	uint64_t start_ns = nam_now_ns();
	uint8_t key[8];

	nam_key_from_u64(number, key);
	assert_int_equal(insert(fixture.worker, fixture.index, number + LATE), 0);
	assert_int_equal(nam_index_update(fixture.worker, fixture.index, key, payload_of(number)),
		0);
	assert_true(nam_now_ns() - start_ns < BOUND_NS);
	acknowledged[number + LATE] = 1;
	assert_int_equal(tree_verify(false).locks, 0);
}

/* Insert numbers of class LATE, all over the tree but not in [low, high). */
static void
insert_elsewhere(const struct dead *dead, unsigned count)
{
	for (uint64_t i = 0; count; i++) {
		uint64_t number = number_of(LATE, i * 11);

		if (number >= dead->low && number < dead->high)
			continue;
		assert_int_equal(insert(fixture.worker, fixture.index, number), 0);
		acknowledged[number] = 1;
		count--;
	}
}

static void
tree_begin_acknowledged(uint64_t base)
{
	memset(acknowledged, 0, sizeof(acknowledged));
	tree_begin(base);
	for (uint64_t i = 0; i < base; i++)
		acknowledged[number_of(0, i)] = 1;
}

static void
client__dies_with_a_leaf_locked__CHANGES_TO_IT_GO_ON(void **state)
{
	struct damage damage;
	struct dead dead;

	(void)state;
	tree_begin_acknowledged(2000);
	lock_and_die(number_of(0, 500), 0, "whole", &dead);
	check_acknowledged(NULL);
	expect_changes_to_work(number_of(0, 500));
	collect_around(0);
	check_acknowledged(NULL);
	check_scan(false, 0);
	check_scan(true, 0);
	damage = tree_verify(false);
	assert_int_equal(damage.locks, 0);
	assert_int_equal(damage.separators, 0);
	tree_end(0);
}

static void
die_above_the_leaves(unsigned level)
{
	struct dead dead;
	unsigned inserted = 0;

	lock_and_die(number_of(0, 500), level, "whole", &dead);
	/* Below the locked node leaves change and divide as ever; the first separator frees it. */
	for (uint64_t number = dead.low / CLASSES * CLASSES + CLASSES + LATE;
		number < dead.high && number < NUMBERS && inserted < 400; number += CLASSES) {
		uint64_t start_ns = nam_now_ns();

		assert_int_equal(insert(fixture.worker, fixture.index, number), 0);
		assert_true(nam_now_ns() - start_ns < BOUND_NS);
		acknowledged[number] = 1;
		inserted++;
	}
	assert_true(inserted >= 100);
	check_acknowledged(NULL);
	check_scan(false, 0);
	check_scan(true, 0);
	collect_around(0);
	check_acknowledged(NULL);
	check_scan(true, 0);
	assert_int_equal(tree_verify(false).locks, 0);
}

static void
client__dies_with_a_parent_locked__LEAVES_BELOW_GO_ON(void **state)
{
	(void)state;
	tree_begin_acknowledged(2000);
	die_above_the_leaves(1);
	tree_end(0);
}

static void
client__dies_with_the_root_locked__TREE_GOES_ON(void **state)
{
	(void)state;
	tree_begin_acknowledged(2000);
	die_above_the_leaves(height() - 1);
	tree_end(0);
}

/* A tree of one leaf. */
static void
client__dies_with_the_only_leaf_locked__TREE_GOES_ON(void **state)
{
	struct dead dead;

	(void)state;
	tree_begin_acknowledged(5);
	lock_and_die(number_of(0, 0), 0, "whole", &dead);
	check_acknowledged(NULL);
	expect_changes_to_work(number_of(0, 0));
	check_acknowledged(NULL);
	check_scan(false, 0);
	check_scan(true, 0);
	tree_end(0);
}

static void
client__dies_in_the_middle_of_a_write__ONLY_THAT_NODE_IS_LOST(void **state)
{
	struct nam_index_stat stat;
	uint64_t start_ns, payload = 0;
	struct damage damage;
	struct dead dead;

	(void)state;
	tree_begin_acknowledged(2000);
	lock_and_die(number_of(0, 500), 0, "torn", &dead);
	start_ns = nam_now_ns();
	expect_orphan(lookup(fixture.worker, fixture.index, number_of(0, 500), &payload), start_ns,
		&dead);
	expect_changes_to_fail(number_of(0, 500), &dead);
	insert_elsewhere(&dead, 500);
	check_acknowledged(&dead);
	check_scan(false, -NAM_E_LOCK_ORPHANED);
	check_scan(true, -NAM_E_LOCK_ORPHANED);
	damage = tree_verify(true);
	assert_true(damage.torn >= 1);
	start_ns = nam_now_ns();
	assert_int_equal(nam_index_stat(fixture.worker, fixture.index, &stat),
		-NAM_E_LOCK_ORPHANED);
	assert_true(nam_now_ns() - start_ns < 3 * BOUND_NS);
	collect_around(-NAM_E_LOCK_ORPHANED);
	tree_end(-NAM_E_LOCK_ORPHANED);
}

/* Several threads with many fibers each run into the dead client's lock at once. */
struct crowd {
	struct nam_client *client;
	uint64_t number, slowest_ns;
	unsigned wrong;
};

struct crowd_fiber {
	struct crowd *crowd;
	struct nam_worker *worker;
	struct nam_index *index;
};

static void
crowd_insert(void *arg)
{
	struct crowd_fiber *self = arg;
	struct crowd *crowd = self->crowd;
	uint64_t start_ns = nam_now_ns(), took_ns;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(crowd->number + LATE, key);
	rc = nam_index_upsert(self->worker, self->index, key,
		payload_of(crowd->number + LATE)); /* SUSPENDS */
	took_ns = nam_now_ns() - start_ns;
	crowd->wrong += rc != 0;
	if (took_ns > crowd->slowest_ns)
		crowd->slowest_ns = took_ns;
}

static void
crowd_main(void *arg)
{
	struct crowd *crowd = arg;
	struct nam_worker *worker = test_worker(crowd->client);
	struct crowd_fiber fibers[32];
	struct nam_index *index = open_index(worker, 0);

	for (unsigned i = 0; i < 32; i++) {
		fibers[i] = (struct crowd_fiber){ crowd, worker, index };
		if (nam_worker_spawn(worker, crowd_insert, &fibers[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	nam_index_close(index);
	nam_worker_close(worker);
}

static void
client__dies_with_what_many_want__ONE_TAKES_OVER_AND_ALL_GO_ON(void **state)
{
	struct nam_thread *threads[2];
	struct crowd crowds[2];
	struct dead dead;

	(void)state;
	tree_begin_acknowledged(2000);
	lock_and_die(number_of(0, 500), 0, "whole", &dead);
	for (unsigned i = 0; i < 2; i++) {
		crowds[i] = (struct crowd){ fixture.client, number_of(0, 500), 0, 0 };
		assert_int_equal(nam_thread_start("crowd", crowd_main, &crowds[i], &threads[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		nam_thread_join(threads[i]);
		assert_int_equal(crowds[i].wrong, 0);
		assert_true(crowds[i].slowest_ns < BOUND_NS);
	}
	acknowledged[number_of(0, 500) + LATE] = 1;
	assert_int_equal(tree_verify(false).locks, 0);
	check_acknowledged(NULL);
	tree_end(0);
}

/* Dead clients hold back no memory: their epochs end with their connections. */
static void
client__dies_in_the_middle_of_reading__MEMORY_IS_REUSED_ALL_THE_SAME(void **state)
{
	uint64_t deadline, reusable = 0;
	struct nam_rng rng = nam_rng_seed(1);

	(void)state;
	tree_begin_acknowledged(3000);
	kill_round(0, &rng);
	for (uint64_t number = 0; number < NUMBERS; number++) {
		uint8_t key[8];

		if (!acknowledged[number])
			continue;
		nam_key_from_u64(number, key);
		assert_int_equal(nam_index_delete(fixture.worker, fixture.index, key), 0);
	}
	deadline = nam_now_ns() + test_bound_ns(10000000000ull);
	while (!reusable && nam_now_ns() < deadline) {
		struct nam_collect_stat stat = { .nodes_reusable = 0 };

		assert_int_equal(nam_index_collect(fixture.worker, fixture.index, &stat), 0);
		reusable += stat.nodes_reusable;
		nam_sleep_ns(20000000);
	}
	assert_true(reusable > 0);
	tree_end(0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients__killed_in_loops_of_inserts__WHAT_WAS_ACKNOWLEDGED_STAYS),
		cmocka_unit_test(client__dies_with_a_leaf_locked__CHANGES_TO_IT_GO_ON),
		cmocka_unit_test(client__dies_with_a_parent_locked__LEAVES_BELOW_GO_ON),
		cmocka_unit_test(client__dies_with_the_root_locked__TREE_GOES_ON),
		cmocka_unit_test(client__dies_with_the_only_leaf_locked__TREE_GOES_ON),
		cmocka_unit_test(client__dies_in_the_middle_of_a_write__ONLY_THAT_NODE_IS_LOST),
		cmocka_unit_test(client__dies_with_what_many_want__ONE_TAKES_OVER_AND_ALL_GO_ON),
		cmocka_unit_test(
			client__dies_in_the_middle_of_reading__MEMORY_IS_REUSED_ALL_THE_SAME),
	};

	if (argc > 4 && !strcmp(argv[1], "victim"))
		return victim_main(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "survivor"))
		return survivor_main(argv + 2);
	if (argc > 5 && !strcmp(argv[1], "locker"))
		return locker_main(argv + 2);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);	/* "client__dies*" */
	return cmocka_run_group_tests(tests, start, stop);
}
