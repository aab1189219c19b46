/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failover_test.c -- a member with a backup is killed while eight client processes are at work.
 *
 * Each fiber owns a class of keys of a fine-grained index, and knows its entries exactly: no
 * operation may fail, or show another state.  Afterwards the index has what the clients were told,
 * and the verifier finds nothing.  If a client is killed, too, each of its fibers may have made one
 * change that nothing has acknowledged.
 *
 * A client that meets anything wrong prints it and ends; each wait for progress sees that.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "nam.h"

#define INDEX "kept"
#define MEMBER 1u			/* the id of the one with a backup */
#define CLIENTS 8u
#define SERVERS 3u			/* with a steward */
#define FIBERS 2u			/* of a client */
#define OWNERS (CLIENTS * FIBERS)
#define KEYS_MAX (1500u * OWNERS)
#define KEYS (at_most(test_scaled_least(1500, 300), 1500) * OWNERS)
/* Of each fiber, between two steps of the coordinator. */
#define OPS at_most(test_scaled_least(500, 50), 500)
#define ROUNDS test_scaled_least(4, 2)
#define MANY 16u
#define RANGE_KEYS 200u
/* How long anything may take: it is a bound, and nothing is measured by it. */
#define TIMEOUT_MS (unsigned)(test_bound_ns(60000000000ull) / 1000000)

/* More rounds take no larger ones. */
static uint64_t
at_most(uint64_t count, uint64_t most)
{
	return count < most ? count : most;
}

/* Of one key: payloads, or 0: it is not there.  Both are the same but during a change. */
struct entry {
	atomic_ullong now;		/* acknowledged */
	atomic_ullong next;
};

/* All processes have it mapped. */
struct board {
	atomic_bool ends;
	atomic_ullong ops[OWNERS];
	atomic_ullong longest_ns;	/* operation, until it is asked for */
	struct entry entries[KEYS_MAX];
};

static struct board *board;

/* ---- clients ------------------------------------------------------------------------------- */

struct fiber {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_rng rng;
	unsigned owner;
	uint64_t changes;
};

static void
expect(const struct fiber *self, const char *what, uint64_t number, int rc, int wanted)
{
	if (rc != wanted)
		test_die("%s of key %llu by fiber %u: %s instead of %s: %s", what,
			(unsigned long long)number, self->owner, nam_err_name(rc),
			nam_err_name(wanted), nam_worker_diag(self->worker));
}

static void
expect_payload(const struct fiber *self, const char *what, uint64_t number, uint64_t payload)
{
	unsigned long long now = atomic_load(&board->entries[number].now);

	if (payload != now)
		test_die("%s of key %llu by fiber %u: %llx instead of %llx", what,
			(unsigned long long)number, self->owner, (unsigned long long)payload, now);
}

static uint64_t
own_key(struct fiber *self)
{
	return nam_rng_below(&self->rng, KEYS / OWNERS) * OWNERS + self->owner;
}

static void
step_change(struct fiber *self)
{
	uint64_t number = own_key(self), next = 0;
	struct entry *entry = &board->entries[number];
	bool is_there = atomic_load(&entry->now) != 0;
	uint64_t dice = nam_rng_below(&self->rng, 10);
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	if (!is_there || dice >= 3)
		next = ++self->changes << 8 | (self->owner + 1);
	atomic_store(&entry->next, next);
	if (!next)
		rc = nam_index_delete(self->worker, self->index, key); /* SUSPENDS */
	else if (dice >= 7)
		rc = nam_index_upsert(self->worker, self->index, key, next); /* SUSPENDS */
	else if (is_there)
		rc = nam_index_update(self->worker, self->index, key, next); /* SUSPENDS */
	else
		rc = nam_index_insert(self->worker, self->index, key, next); /* SUSPENDS */
	expect(self, "a change", number, rc, 0);
	atomic_store(&entry->now, next);
}

static void
step_lookup(struct fiber *self)
{
	uint64_t number = own_key(self), payload = 0;
	bool is_there = atomic_load(&board->entries[number].now) != 0;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	rc = nam_index_lookup(self->worker, self->index, key, &payload); /* SUSPENDS */
	expect(self, "a lookup", number, rc, is_there ? 0 : -NAM_E_NOTFOUND);
	expect_payload(self, "a lookup", number, payload);
}

static void
step_lookup_many(struct fiber *self)
{
	uint64_t numbers[MANY], payloads[MANY] = { 0 };
	uint8_t keys[MANY][8];
	int rcs[MANY], rc;

	for (unsigned i = 0; i < MANY; i++) {
		numbers[i] = own_key(self);
		nam_key_from_u64(numbers[i], keys[i]);
	}
	rc = nam_index_lookup_many(self->worker, self->index, keys, MANY, payloads,
		rcs); /* SUSPENDS */
	expect(self, "many lookups", numbers[0], rc, 0);
	for (unsigned i = 0; i < MANY; i++) {
		bool is_there = atomic_load(&board->entries[numbers[i]].now) != 0;

		expect(self, "one of many lookups", numbers[i], rcs[i],
			is_there ? 0 : -NAM_E_NOTFOUND);
		if (is_there)
			expect_payload(self, "one of many lookups", numbers[i], payloads[i]);
	}
}

/* The fiber's own entries from `low` below `high`, each once; all others may change meanwhile. */
static void
step_scan(struct fiber *self)
{
	uint64_t low = nam_rng_below(&self->rng, KEYS - RANGE_KEYS), high = low + RANGE_KEYS;
	uint64_t keys[RANGE_KEYS], payloads[RANGE_KEYS], seen[RANGE_KEYS] = { 0 };
	uint8_t low_key[8], high_key[8];
	struct nam_range range = { .low = low_key, .high = high_key,
		.reverse = nam_rng_below(&self->rng, 2) };
	struct nam_cursor *cursor;
	uint32_t count;
	int rc;

	nam_key_from_u64(low, low_key);
	nam_key_from_u64(high, high_key);
	expect(self, "a cursor", low, nam_cursor_open(self->worker, self->index, &range, &cursor),
		0);
	do {
		rc = nam_cursor_next(cursor, keys, payloads, RANGE_KEYS, &count); /* SUSPENDS */
		expect(self, "a scan", low, rc, 0);
		for (uint32_t i = 0; i < count; i++) {
			uint64_t number = nam_key_to_u64(&keys[i]);

			if (number < low || number >= high)
				test_die("a scan from %llu: key %llu", (unsigned long long)low,
					(unsigned long long)number);
			if (seen[number - low])
				test_die("a scan from %llu%s: key %llu with %llx and %llx",
					(unsigned long long)low, range.reverse ? " down" : "",
					(unsigned long long)number,
					(unsigned long long)seen[number - low],
					(unsigned long long)payloads[i]);
			seen[number - low] = payloads[i];
		}
	} while (count);
	nam_cursor_close(cursor);
	for (uint64_t number = low; number < high; number++)
		if (number % OWNERS == self->owner)
			expect_payload(self, "a scan", number, seen[number - low]);
}

static void
note_pause(uint64_t ns)
{
	unsigned long long longest = atomic_load(&board->longest_ns);

	while (ns > longest &&
		!atomic_compare_exchange_weak(&board->longest_ns, &longest, ns))
		;
}

static void
fiber_main(void *arg)
{
	struct fiber *self = arg;

	while (!atomic_load(&board->ends)) {
		uint64_t dice = nam_rng_below(&self->rng, 20), began_ns = nam_now_ns();

		if (dice < 10)
			step_change(self); /* SUSPENDS */
		else if (dice < 17)
			step_lookup(self); /* SUSPENDS */
		else if (dice < 19)
			step_lookup_many(self); /* SUSPENDS */
		else
			step_scan(self); /* SUSPENDS */
		note_pause(nam_now_ns() - began_ns);
		atomic_fetch_add(&board->ops[self->owner], 1);
	}
}

/* Requests to a member that has ended wait for the promotion, however slow this machine is. */
static struct nam_client *
connect_patient(const char *list, const char *name)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = list;
	options.name = name;
	options.timeout_ms = TIMEOUT_MS;
	options.lock_timeout_ms = TIMEOUT_MS;
	if (nam_client_connect(&options, &client, &diag))
		test_die("%s: cannot connect: %s", name, diag.text);
	return client;
}

/* Arguments: cluster, descriptor of the board, number, bytes of its cache. */
static int
client_main(char **argv)
{
	struct nam_client *client = connect_patient(argv[0], "failover");
	struct nam_worker *worker = test_worker(client);
	unsigned number = (unsigned)strtoul(argv[2], NULL, 10);
	struct fiber fibers[FIBERS];
	struct nam_index *index;

	board = test_shared_map((int)strtol(argv[1], NULL, 10), sizeof(*board));
	if (nam_index_open(worker, INDEX, strtoull(argv[3], NULL, 10), &index))
		test_die("cannot open: %s", nam_worker_diag(worker));
	for (unsigned i = 0; i < FIBERS; i++) {
		unsigned owner = number * FIBERS + i;

		fibers[i] = (struct fiber){ .worker = worker, .index = index, .owner = owner,
			.rng = nam_rng_seed(owner + 1), .changes = 0 };
		if (nam_worker_spawn(worker, fiber_main, &fibers[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker);
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}

/* ---- the coordinator ------------------------------------------------------------------------- */

static struct cluster cluster;
static struct child clients[CLIENTS], steward;
static int board_fd;
static unsigned member;			/* the number of the process that has its place */

/* namctl, to the lead.  Its exit status; -1: it has not ended in time. */
static int
namctl(const char *one, const char *two, const char *three)
{
	char timeout[12];
	const char *const argv[] = { test_program("namctl"), "--cluster", cluster.list,
		"--timeout-ms", timeout, "--copy-rate", "0", one, two, three, NULL };
	const char *const plain[] = { argv[0], argv[1], argv[2], argv[3], argv[4], one, two, three,
		NULL };
	struct child child;
	int status;

	(void)snprintf(timeout, sizeof(timeout), "%u", TIMEOUT_MS);
	child_start(&child, two && !strcmp(two, "back") ? argv : plain);
	status = child_wait(&child, 2 * TIMEOUT_MS);
	if (status < 0)
		child_kill(&child);
	return status;
}

/* Every fiber of these clients has made so many operations more. */
static void
progress_await(unsigned first, unsigned count)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_MS * 1000000ull;
	unsigned long long begun[OWNERS];

	for (unsigned i = first * FIBERS; i < (first + count) * FIBERS; i++)
		begun[i] = atomic_load(&board->ops[i]);
	for (unsigned i = first * FIBERS; i < (first + count) * FIBERS; i++)
		while (atomic_load(&board->ops[i]) < begun[i] + OPS) {
			if (nam_now_ns() >= deadline)
				print_error("fiber %u stands still\n", i);
			assert_true(nam_now_ns() < deadline);
			assert_int_equal(child_wait(&clients[i / FIBERS], 1), -1);
		}
}

/* The process that has the member's place gets a backup: the other one of both numbers. */
static unsigned
backup_make(void)
{
	unsigned backup = member == MEMBER ? 2 : MEMBER;

	cluster_start_successor(&cluster, backup, MEMBER);
	assert_int_equal(namctl("server", "back", cluster.addresses[backup]), 0);
	return backup;
}

static int
begin_with(unsigned count, uint64_t spare_mib)
{
	static const char *const caches[] = { "0", "4194304" };
	struct nam_index_options options;
	struct nam_client *client;
	struct nam_worker *worker;
	char fd[12], number[12];

	memset(board, 0, sizeof(*board));
	cluster_start_spare(&cluster, count, 64, "4M", spare_mib);
	member = MEMBER;
	client = connect_patient(cluster.list, "coordinator");
	worker = test_worker(client);
	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 8;
	assert_int_equal(nam_index_create(worker, INDEX, &options), 0);
	nam_worker_close(worker);
	nam_client_close(client);
	(void)snprintf(fd, sizeof(fd), "%d", board_fd);
	for (unsigned i = 0; i < CLIENTS; i++) {
		const char *const args[] = { cluster.list, fd, number, caches[i % 2], NULL };

		(void)snprintf(number, sizeof(number), "%u", i);
		child_start_self(&clients[i], "client", args);
	}
	return 0;
}

static int
begin(void **state)
{
	(void)state;
	return begin_with(2, 0);
}

/* The lead and two members; each has room for the memory of others. */
static int
begin_with_steward(void **state)
{
	const char *argv[] = { NULL, "--cluster", cluster.list, "--copy-rate", "0", NULL };

	(void)state;
	if (begin_with(SERVERS, 2 * 64 * (SERVERS + ROUNDS)))
		return -1;
	argv[0] = test_program("nam-steward");
	child_start(&steward, argv);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	child_kill(&steward);
	for (unsigned i = 0; i < CLIENTS; i++)
		child_kill(&clients[i]);
	cluster_stop(&cluster);
	return 0;
}

/* The index has what was acknowledged, or what a client that was killed had begun. */
static void
entries_check(struct nam_worker *worker, struct nam_index *index)
{
	uint64_t lost = 0, there = 0;

	for (uint64_t number = 0; number < KEYS; number++) {
		const struct entry *entry = &board->entries[number];
		uint64_t payload = 0;
		uint8_t key[8];
		int rc;

		nam_key_from_u64(number, key);
		rc = nam_index_lookup(worker, index, key, &payload);
		assert_true(!rc || rc == -NAM_E_NOTFOUND);
		there += payload != 0;
		if (payload == atomic_load(&entry->now) || payload == atomic_load(&entry->next))
			continue;
		lost++;
		print_error("key %llu has %llx instead of %llx\n", (unsigned long long)number,
			(unsigned long long)payload, atomic_load(&entry->now));
	}
	assert_int_equal(lost, 0);
	assert_true(there > 0);
}

/* Clients that live end in order. */
static void
finish(bool all_live)
{
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t violations, operations = 0;

	atomic_store(&board->ends, true);
	for (unsigned i = 0; i < CLIENTS; i++)
		if (clients[i].pid)
			assert_int_equal(child_wait(&clients[i], TIMEOUT_MS), 0);
	for (unsigned i = 0; i < OWNERS; i++)
		operations += atomic_load(&board->ops[i]);
	print_message("%llu operations\n", (unsigned long long)operations);
	/* A client that was killed may have left locks and late separators, and no damage. */
	assert_int_equal(namctl("index", "verify", INDEX), 0);
	client = connect_patient(cluster.list, "coordinator");
	worker = test_worker(client);
	assert_int_equal(nam_index_open(worker, INDEX, 0, &index), 0);
	entries_check(worker, index);
	if (all_live) {
		assert_int_equal(nam_index_verify(worker, index, NULL, NULL, &violations), 0);
		assert_int_equal(violations, 0);
	}
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
}

/* Again and again: a process that has ended comes back as the next backup, at its address. */
static void
member__killed_again_and_again__BACKUPS_HAVE_ALL_THAT_WAS_ACKNOWLEDGED(void **state)
{
	(void)state;
	progress_await(0, CLIENTS);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned backup = backup_make();

		progress_await(0, CLIENTS);
		assert_int_equal(namctl("gc", INDEX, NULL), 0);
		child_kill(&cluster.servers[member]);
		/* Clients meet the death before the promotion, or after that. */
		nam_sleep_ns(round % 2 * 200000000u);
		assert_int_equal(namctl("server", "promote", "1"), 0);
		member = backup;
		progress_await(0, CLIENTS);
	}
	finish(true);
}

static void
backup__killed_and_taken_away__CLIENTS_GO_ON_AND_ANOTHER_ONE_HAS_ALL(void **state)
{
	unsigned backup;

	(void)state;
	progress_await(0, CLIENTS);
	backup = backup_make();
	progress_await(0, CLIENTS);
	child_kill(&cluster.servers[backup]);
	assert_int_equal(namctl("server", "unback", "1"), 0);
	progress_await(0, CLIENTS);
	backup = backup_make();
	progress_await(0, CLIENTS);
	child_kill(&cluster.servers[member]);
	assert_int_equal(namctl("server", "promote", "1"), 0);
	member = backup;
	progress_await(0, CLIENTS);
	finish(true);
}

static void
member_and_client__killed__OTHER_CLIENTS_GO_ON(void **state)
{
	(void)state;
	progress_await(0, CLIENTS);
	(void)backup_make();
	progress_await(0, CLIENTS);
	child_kill(&cluster.servers[member]);
	child_kill(&clients[0]);
	assert_int_equal(namctl("server", "promote", "1"), 0);
	progress_await(1, CLIENTS - 1);
	finish(false);
}

struct count {
	unsigned members, backed, copies;
};

static void
on_status(void *arg, const struct nam_server_status *status, const char *text)
{
	struct count *count = arg;

	(void)text;
	if (status->rc || status->member == NAM_MEMBER_NONE ||
		status->member == NAM_MEMBER_SUCCESSOR)
		return;
	count->members++;
	/* The lead has two copies at the most. */
	count->backed += status->backup[0] && status->member == NAM_MEMBER_UP &&
		(count->copies == 2 || !status->id || status->backup_2[0]);
}

/* So many members have all of them so many copies. */
static void
copies_await(unsigned members, unsigned copies)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_MS * 1000000ull;
	struct nam_client_options options;
	struct nam_diag diag;
	struct count count;

	nam_client_options_init(&options);
	options.cluster = cluster.list;
	do {
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(10000000u);
		count = (struct count){ .copies = copies };
		if (nam_cluster_status(&options, on_status, &count, &diag))
			fail_msg("status: %s", diag.text);
	} while (count.members != members || count.backed != members);
}

/* The process that has ended may still have its place: members are promoted one at a time. */
static void
add(unsigned number)
{
	uint64_t deadline = nam_now_ns() + TIMEOUT_MS * 1000000ull;

	while (namctl("server", "add", cluster.addresses[number])) {
		assert_true(nam_now_ns() < deadline);
		nam_sleep_ns(100000000u);
	}
}

static int
compare_pauses(const void *one, const void *other)
{
	unsigned long long a = *(const unsigned long long *)one;
	unsigned long long b = *(const unsigned long long *)other;

	return (a > b) - (a < b);
}

/* By turns each process, the lead's too, and each comes back as another member. */
static void
members__killed_with_a_steward__BACKUPS_TAKE_THEIR_PLACE_and_new_ones_come(void **state)
{
	unsigned long long *pauses = calloc(ROUNDS, sizeof(*pauses));

	(void)state;
	assert_non_null(pauses);
	assert_int_equal(namctl("cluster", "replicas", "2"), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned killed = round % SERVERS;

		copies_await(SERVERS + round, 2);
		progress_await(0, CLIENTS);
		atomic_store(&board->longest_ns, 0);
		child_kill(&cluster.servers[killed]);
		progress_await(0, CLIENTS);
		pauses[round] = atomic_load(&board->longest_ns) / 1000000;
		cluster_start_server_as(&cluster, killed, SERVERS + round);
		add(killed);
	}
	qsort(pauses, ROUNDS, sizeof(*pauses), compare_pauses);
	print_message("%u kills, longest operation after each: median %llu ms, most %llu ms\n",
		(unsigned)ROUNDS, pauses[ROUNDS / 2], pauses[ROUNDS - 1]);
	free(pauses);
	finish(true);
}

/* All processes but the lead's.  So each member's ends together with one of its backups. */
static void
members__all_but_the_lead_killed_at_once__THIRD_COPIES_TAKE_THEIR_PLACE(void **state)
{
	(void)state;
	assert_int_equal(namctl("cluster", "replicas", "3"), 0);
	copies_await(SERVERS, 3);
	progress_await(0, CLIENTS);
	for (unsigned i = 1; i < SERVERS; i++)
		child_kill(&cluster.servers[i]);
	progress_await(0, CLIENTS);
	finish(true);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			member__killed_again_and_again__BACKUPS_HAVE_ALL_THAT_WAS_ACKNOWLEDGED,
			begin, end),
		cmocka_unit_test_setup_teardown(
			backup__killed_and_taken_away__CLIENTS_GO_ON_AND_ANOTHER_ONE_HAS_ALL,
			begin, end),
		cmocka_unit_test_setup_teardown(member_and_client__killed__OTHER_CLIENTS_GO_ON,
			begin, end),
		cmocka_unit_test_setup_teardown(
			members__killed_with_a_steward__BACKUPS_TAKE_THEIR_PLACE_and_new_ones_come,
			begin_with_steward, end),
		cmocka_unit_test_setup_teardown(
			members__all_but_the_lead_killed_at_once__THIRD_COPIES_TAKE_THEIR_PLACE,
			begin_with_steward, end),
	};

	if (argc > 5 && !strcmp(argv[1], "client"))
		return client_main(argv + 2);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);	/* "backup__*" */
	board_fd = test_shared_create(sizeof(*board));
	board = test_shared_map(board_fd, sizeof(*board));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
