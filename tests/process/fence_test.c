/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence_test.c -- clients that end while a memory server is stopped, clients that are stopped and
 * continue, and stopped clients that are fenced by hand.
 *
 * The length of a stop matters in one case only, since only a steward fences clients by time.
 * With NAM_TEST_SCALE=12 that stop takes a minute, and the steward fences as it does by default.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/admin.h"
#include "compute/view/presence.h"
#include "compute/worker/worker.h"
#include "index/fine/leaf_change.h"
#include "index/index_internal.h"
#include "tests/lib/cluster.h"

#define INDEX "fenced"
#define LOCK_MS 500u
#define NODE_BYTES 256u
#define KEYS 400u
#define NUMBER 200u			/* in the node that the holder locks */
#define WRITTEN 7000u			/* by the holder, under NUMBER */
#define FAR 100u			/* keys that far from NUMBER are in other nodes */
#define BLOCK_BYTES 1024u		/* a stride of no other block */
#define TRIES 50u
#define ANSWER_MS_MAX 3000u		/* a stop ends before the coordinator's requests do: 5 s */
#define TIMEOUT_MS 20000u
/* A steward waits so long, and a client is stopped for twice as long. */
#define FENCE_MS test_bound_ns(test_scaled_least(2500, 2500))
#define NAP_NS 200000000u
#define CACHE_BYTES (1u << 20)

struct fixture {
	struct cluster cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t image[NODE_BYTES / 8];
	struct nam_gaddr leaf;
};

static struct fixture fixture;

static int
insert(struct nam_worker *worker, struct nam_index *index, uint64_t number)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_insert(worker, index, key, number);
}

static struct nam__key
number_key(const struct nam_index *index)
{
	struct nam__key full;
	uint8_t key[8];

	nam_key_from_u64(NUMBER, key);
	nam__key_encode(&index->g, key, 0, &full);
	return full;
}

static void
leaf_lock(struct nam_worker *worker, struct nam_index *index, struct nam__held *ret_held)
{
	struct nam__key full = number_key(index);
	int rc;

	ret_held->image = nam_buffer_take(worker, index->g.node_bytes);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__lock_covering(worker, index, full.w, 0, ret_held);
	nam__op_end(worker);
	if (rc)
		test_die("the lock: %s", nam_worker_diag(worker));
}

/* ---- the holder: takes a lock, is stopped, and goes on ------------------------------------- */

static int
leaf_write(struct nam_worker *worker, struct nam_index *index, struct nam__held *held)
{
	struct nam__key full = number_key(index);
	struct nam__leaf_outcome outcome;
	int rc;

	nam__leaf_change(&index->g, held->image, NAM_OP_UPDATE, false, full.w, WRITTEN, &outcome);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__write_unlock(worker, index, held, outcome.dirty, outcome.part);
	nam__op_end(worker);
	return rc;
}

/* Says what came of the release, and of the first insert that did not fail with its connection. */
static int
holder_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "holder", LOCK_MS);
	struct nam_worker *worker = test_worker(client);
	struct nam__held held;
	struct nam_index *index;
	int rc = nam_index_open(worker, INDEX, 0, &index);

	if (rc)
		test_die("opening: %s", nam_worker_diag(worker));
	leaf_lock(worker, index, &held);
	printf("locked %u\n", nam_client_id(client));
	(void)fflush(stdout);
	(void)raise(SIGSTOP);
	rc = leaf_write(worker, index, &held);
	printf("unlocked %s\n", nam_err_name(rc));
	for (unsigned i = 0; i < TRIES && rc != -NAM_E_FABRIC_FENCED; i++) {
		rc = insert(worker, index, NUMBER + 1);
		if (rc == -NAM_E_EXISTS)
			rc = 0;
	}
	printf("inserted %s: %s\n", nam_err_name(rc), nam_worker_diag(worker));
	(void)fflush(stdout);
	/* It goes as it is: its connections are gone. */
	_exit(0);
}

/* ---- the coordinator ----------------------------------------------------------------------- */

static int
start(void **state)
{
	struct nam_index_options options;
	struct nam__held held;

	(void)state;
	cluster_start(&fixture.cluster, 2, 64, "4M");
	fixture.client = test_connect(fixture.cluster.list, "coordinator", LOCK_MS);
	fixture.worker = test_worker(fixture.client);
	nam_index_options_init(&options);
	options.node_bytes = NODE_BYTES;
	options.head_interval = 0;
	assert_int_equal(nam_index_create(fixture.worker, INDEX, &options), 0);
	assert_int_equal(nam_index_open(fixture.worker, INDEX, 1u << 20, &fixture.index), 0);
	for (uint64_t number = 0; number < KEYS; number += 2)
		assert_int_equal(insert(fixture.worker, fixture.index, number), 0);
	leaf_lock(fixture.worker, fixture.index, &held);
	fixture.leaf = held.at;
	assert_int_equal(nam__unlock(fixture.worker, &held), 0);
	nam_buffer_give(fixture.worker, held.image, NODE_BYTES);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	nam_index_close(fixture.index);
	nam_worker_close(fixture.worker);
	nam_client_close(fixture.client);
	cluster_stop(&fixture.cluster);
	return 0;
}

/* It holds the lock, and all of its threads are stopped. */
static unsigned
holder_start(struct child *holder)
{
	const char *const args[] = { fixture.cluster.list, NULL };
	unsigned id = 0;
	char line[64];
	int status;

	child_start_self(holder, "holder", args);
	assert_true(child_line(holder, line, sizeof(line), TIMEOUT_MS));
	assert_int_equal(sscanf(line, "locked %u", &id), 1);
	assert_int_equal(waitpid(holder->pid, &status, WUNTRACED), holder->pid);
	assert_true(WIFSTOPPED(status));
	return id;
}

static void
leaf_read(uint64_t *ret_image)
{
	uint64_t *image = nam_buffer_take(fixture.worker, NODE_BYTES);

	assert_int_equal(nam_read_await(fixture.worker, fixture.leaf, image, NODE_BYTES), 0);
	memcpy(ret_image, image, NODE_BYTES);
	nam_buffer_give(fixture.worker, image, NODE_BYTES);
}

/* The holder's lock passes to the next writer (I20), and is free after that. */
static void
expect_lock_to_pass(void)
{
	uint64_t image[NODE_BYTES / 8];
	uint8_t key[8];

	nam_key_from_u64(NUMBER + 1, key);
	assert_int_equal(nam_index_upsert(fixture.worker, fixture.index, key, 1), 0);
	leaf_read(image);
	assert_int_equal(image[0], NAM_LOCK_FREE);
}

static bool
is_far(uint64_t number)
{
	return number + FAR <= NUMBER || number >= NUMBER + FAR;
}

/* Where no lock is needed, and where no lock is held. */
static void
expect_others_to_go_on(void)
{
	uint64_t until_ns = nam_now_ns() + test_bound_ns(TIMEOUT_MS * 1000000ull), payload;
	uint32_t entries = 0, more;
	struct nam_cursor *cursor;
	uint8_t key[8];

	for (uint64_t number = 0; number < KEYS; number++) {
		nam_key_from_u64(number, key);
		if (is_far(number) && number % 2)
			assert_int_equal(nam_index_upsert(fixture.worker, fixture.index, key,
						 number), 0);
		else if (is_far(number))
			assert_int_equal(nam_index_update(fixture.worker, fixture.index, key,
						 number + 1), 0);
		if (!is_far(number) && number % 2)
			continue;
		assert_int_equal(
			nam_index_lookup(fixture.worker, fixture.index, key, &payload), 0);
		assert_int_equal(payload, is_far(number) ? number | 1 : number);
	}
	assert_int_equal(nam_cursor_open(fixture.worker, fixture.index, &(struct nam_range){ 0 },
				 &cursor), 0);
	do {
		assert_int_equal(nam_cursor_next(cursor, NULL, NULL, KEYS, &more), 0);
		entries += more;
	} while (more);
	nam_cursor_close(cursor);
	/* NUMBER + 1 may be there. */
	assert_in_range(entries, KEYS - FAR, KEYS - FAR + 1);
	assert_true(nam_now_ns() < until_ns);
}

/* A block that a stopped client may still see. */
static struct nam_gaddr
block_retire(void)
{
	struct nam_gaddr at;
	uint64_t reusable;

	assert_int_equal(nam_alloc_on(fixture.worker, 0, BLOCK_BYTES, &at), 0);
	nam_retire(fixture.worker, at, BLOCK_BYTES);
	assert_int_equal(nam__limbo_advance(fixture.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	return nam_gaddr_untagged(at);
}

static void
expect_reuse(struct nam_gaddr at)
{
	uint64_t until_ns = nam_now_ns() + test_bound_ns(TIMEOUT_MS * 1000000ull);
	struct nam_gaddr again;
	uint64_t reusable;

	do {
		assert_true(nam_now_ns() < until_ns);
		nam_sleep_ns(1000000);
		assert_int_equal(nam__limbo_advance(fixture.worker, &reusable), 0);
	} while (!reusable);
	assert_int_equal(nam_alloc_on(fixture.worker, 0, BLOCK_BYTES, &again), 0);
	assert_true(nam_gaddr_same(nam_gaddr_untagged(again), at));
	nam_free_unseen(fixture.worker, again, BLOCK_BYTES);
}

struct seen {
	uint32_t fencing;
	uint64_t pid;
	unsigned silent;
};

static void
on_status(void *arg, const struct nam_server_status *status, const char *text)
{
	struct seen *seen = arg;

	(void)text;
	seen->silent += status->rc != 0;
	if (!status->rc && !status->id) {
		seen->fencing = status->fencing.id;
		seen->pid = status->fencing.pid;
	}
}

static struct seen
cluster_seen(void)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct seen seen = { 0 };
	uint64_t bound_ms = test_bound_ns(LOCK_MS * 1000000ull) / 1000000;

	nam_client_options_init(&options);
	options.cluster = fixture.cluster.list;
	options.timeout_ms = bound_ms < ANSWER_MS_MAX ? (uint32_t)bound_ms : ANSWER_MS_MAX;
	assert_int_equal(nam_cluster_status(&options, on_status, &seen, &diag), 0);
	return seen;
}

static uint32_t
state_of(unsigned id)
{
	struct nam_rpc_client_state_reply reply;

	assert_int_equal(nam__client_state_query(fixture.worker, (uint16_t)id, 0, &reply), 0);
	return reply.state;
}

static int
on_client(void *arg, const struct nam_client_info *info)
{
	struct nam_client_info *wanted = arg;

	if (info->id != wanted->id)
		return 0;
	*wanted = *info;
	return 1;
}

/* Whether it is in the list, with that name and process. */
static bool
listed(unsigned id, const char *name, pid_t pid, bool alive)
{
	struct nam_client_info info = { .id = (uint16_t)id };
	int rc = nam_client_list(fixture.worker, on_client, &info);

	assert_true(rc == 0 || rc == 1);
	if (!rc)
		return false;
	assert_int_equal(info.alive, alive);
	assert_string_equal(info.name, name);
	assert_int_equal(info.pid, pid);
	assert_true(info.incarnation > 0);
	return true;
}

static void
await_death(unsigned id)
{
	uint64_t until_ns = nam_now_ns() + test_bound_ns(TIMEOUT_MS * 1000000ull);

	while (state_of(id) != NAM_CLIENT_DEAD) {
		assert_true(nam_now_ns() < until_ns);
		nam_sleep_ns(1000000);
	}
}

/* The first line of the program, or ""; its exit status.  @option may be NULL. */
static int
namctl_fence(unsigned id, const char *option, char *line, size_t size)
{
	char text[12];
	const char *const argv[] = { test_program("namctl"), "--cluster", fixture.cluster.list,
		"client", "fence", text, option, NULL };
	struct child child;

	(void)snprintf(text, sizeof(text), "%u", id);
	child_start(&child, argv);
	if (!child_line(&child, line, size, TIMEOUT_MS))
		line[0] = '\0';
	return child_wait(&child, TIMEOUT_MS);
}

/*
 * From another namespace, in which another process has the client's number: 0, that one lives on,
 * and namctl has refused.
 */
static int
evict_elsewhere(unsigned id, pid_t pid)
{
	static const char script[] = "echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid\n"
		"sleep 60 & other=$!\n"
		"[ $other = \"$1\" ] || echo \"$other is not $1\"\n"
		"\"$2\" --cluster \"$3\" client fence \"$4\" --evict; status=$?\n"
		"kill $other || exit 1\n"
		"[ $status = 6 ]";
	char number[12], text[12];
	/* With a /proc of its own, as a container has: LeakSanitizer looks itself up there. */
	const char *const argv[] = { "/usr/bin/unshare", "--pid", "--fork", "--mount-proc", "sh",
		"-c", script, "sh", number, test_program("namctl"), fixture.cluster.list, text,
		NULL };
	struct child child;

	(void)snprintf(number, sizeof(number), "%d", (int)pid);
	(void)snprintf(text, sizeof(text), "%u", id);
	child_start(&child, argv);
	return child_wait(&child, TIMEOUT_MS);
}

/* ---- tests --------------------------------------------------------------------------------- */

/* The other memory server may have requests of it under way, for all that is known. */
static void
client__killed_while_a_memory_server_is_stopped__IS_NOT_DEAD_BEFORE(void **state)
{
	struct child holder;
	struct seen seen;
	unsigned id = holder_start(&holder);
	pid_t pid = holder.pid;

	(void)state;
	child_signal(&fixture.cluster.servers[1], SIGSTOP);
	child_signal(&holder, SIGKILL);
	assert_int_equal(child_wait(&holder, TIMEOUT_MS), 128 + SIGKILL);
	while (state_of(id) == NAM_CLIENT_ALIVE)
		nam_sleep_ns(1000000);
	for (unsigned i = 0; i < TRIES; i++) {
		assert_int_equal(state_of(id), NAM_CLIENT_FENCING);
		nam_sleep_ns(10000000);
	}
	assert_true(listed(id, "holder", pid, false));
	seen = cluster_seen();
	assert_int_equal(seen.silent, 1);
	assert_int_equal(seen.fencing, id);
	assert_true(seen.pid > 0);
	child_signal(&fixture.cluster.servers[1], SIGCONT);
	await_death(id);
	assert_false(listed(id, "holder", pid, false));
	expect_lock_to_pass();
	seen = cluster_seen();
	assert_int_equal(seen.silent, 0);
	assert_int_equal(seen.fencing, 0);
}

/* After a stop: its work is valid. */
static void
expect_holder_to_go_on(struct child *holder, unsigned id, struct nam_gaddr block)
{
	uint64_t image[NODE_BYTES / 8], payload, violations;
	char line[400];
	uint8_t key[8];

	child_signal(holder, SIGCONT);
	assert_true(child_line(holder, line, sizeof(line), TIMEOUT_MS));
	assert_string_equal(line, "unlocked NAM_E_NONE");
	assert_true(child_line(holder, line, sizeof(line), TIMEOUT_MS));
	assert_non_null(strstr(line, "inserted NAM_E_NONE"));
	assert_int_equal(child_wait(holder, TIMEOUT_MS), 0);
	expect_reuse(block);
	leaf_read(image);
	assert_int_equal(image[0], NAM_LOCK_FREE);
	nam_key_from_u64(NUMBER, key);
	assert_int_equal(nam_index_lookup(fixture.worker, fixture.index, key, &payload), 0);
	assert_int_equal(payload, WRITTEN);
	assert_int_equal(nam_index_verify(fixture.worker, fixture.index, NULL, NULL, &violations),
		0);
	assert_int_equal(violations, 0);
	await_death(id);
}

/* After a stop: it is told, and nothing that it writes takes effect. */
static void
expect_holder_to_be_told(struct child *holder, struct nam_gaddr block)
{
	uint64_t before[NODE_BYTES / 8], after[NODE_BYTES / 8];
	char line[400];

	expect_lock_to_pass();
	expect_reuse(block);
	leaf_read(before);
	child_signal(holder, SIGCONT);
	assert_true(child_line(holder, line, sizeof(line), TIMEOUT_MS));
	/* The request that finds the connection closed says so already. */
	assert_string_equal(line, "unlocked NAM_E_FABRIC_FENCED");
	assert_true(child_line(holder, line, sizeof(line), TIMEOUT_MS));
	assert_non_null(strstr(line, "inserted NAM_E_FABRIC_FENCED"));
	assert_non_null(strstr(line, "connect anew"));
	assert_int_equal(child_wait(holder, TIMEOUT_MS), 0);
	leaf_read(after);
	assert_memory_equal(before, after, NODE_BYTES);
}

/* Not fenced: on every fabric. */
static void
client__stopped_with_a_lock__OTHERS_GO_ON_AND_SO_DOES_IT(void **state)
{
	char who[64];
	struct child holder;
	unsigned id = holder_start(&holder);
	struct nam_gaddr block = block_retire();

	(void)state;
	expect_others_to_go_on();
	assert_int_equal(insert(fixture.worker, fixture.index, NUMBER + 1), -NAM_E_LOCK_TIMEOUT);
	(void)snprintf(who, sizeof(who), "held by client %u, ", id);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), who));
	(void)snprintf(who, sizeof(who), "(holder, pid %d), which is alive", (int)holder.pid);
	assert_non_null(strstr(nam_worker_diag(fixture.worker), who));
	expect_holder_to_go_on(&holder, id, block);
}

/* Where its queue pairs can be taken from it; else its process has to end. */
static void
client__stopped_and_fenced__CHANGES_NOTHING_AND_IS_TOLD(void **state)
{
	bool lasting = fixture.client->caps & NAM_CAP_LASTING;
	struct nam_diag diag = { "" };
	char line[400], pid[32];
	struct child holder;
	unsigned id = holder_start(&holder);
	struct nam_gaddr block = block_retire();

	(void)state;
	(void)snprintf(pid, sizeof(pid), "(holder, pid %d)", (int)holder.pid);
	assert_true(listed(id, "holder", holder.pid, true));
	assert_true(listed(fixture.client->id, "coordinator", getpid(), true));
	assert_int_equal(insert(fixture.worker, fixture.index, NUMBER + 1), -NAM_E_LOCK_TIMEOUT);
	if (lasting) {
		assert_int_equal(nam_client_fence(fixture.worker, (uint16_t)id, 0, &diag),
			-NAM_E_FABRIC_CAPABILITY);
		assert_non_null(strstr(diag.text, pid));
		assert_non_null(strstr(diag.text, "kill"));
		assert_int_not_equal(namctl_fence(id, NULL, line, sizeof(line)), 0);
		assert_int_equal(state_of(id), NAM_CLIENT_ALIVE);
		if (geteuid() == 0) {
			assert_int_equal(evict_elsewhere(id, holder.pid), 0);
			assert_int_equal(state_of(id), NAM_CLIENT_ALIVE);
		}
		assert_int_equal(namctl_fence(id, "--evict", line, sizeof(line)), 0);
		assert_non_null(strstr(line, "is dead"));
		assert_int_equal(child_wait(&holder, TIMEOUT_MS), 128 + SIGKILL);
		await_death(id);
		expect_lock_to_pass();
		expect_reuse(block);
		return;
	}
	/* Nothing has to be killed for that. */
	assert_int_equal(namctl_fence(id, "--evict", line, sizeof(line)), 0);
	assert_non_null(strstr(line, "is dead"));
	assert_int_equal(state_of(id), NAM_CLIENT_DEAD);
	expect_holder_to_be_told(&holder, block);
	/* Once more: it is dead already. */
	assert_int_equal(nam_client_fence(fixture.worker, (uint16_t)id, 0, &diag), 0);
}

/* Over `shm` the steward says so; on other fabrics it fences the client. */
static void
client__stopped_beside_a_steward__GOES_ON_OR_IS_FENCED(void **state)
{
	char fence_ms[24];
	const char *const argv[] = { test_program("nam-steward"), "--cluster", fixture.cluster.list,
		"--collect-s", "0", "--fence-ms", fence_ms, NULL };
	struct child holder, steward;
	struct nam_gaddr block;
	uint64_t until_ns;
	uint8_t key[8];
	unsigned id;

	(void)state;
	nam_key_from_u64(NUMBER, key);
	assert_int_equal(nam_index_update(fixture.worker, fixture.index, key, NUMBER), 0);
	(void)snprintf(fence_ms, sizeof(fence_ms), "%llu", (unsigned long long)FENCE_MS);
	id = holder_start(&holder);
	block = block_retire();
	child_start(&steward, argv);
	until_ns = nam_now_ns() + 2 * FENCE_MS * 1000000;
	do {
		expect_others_to_go_on();
		nam_sleep_ns(NAP_NS);
	} while (nam_now_ns() < until_ns);
	child_signal(&steward, SIGTERM);
	assert_int_equal(child_wait(&steward, TIMEOUT_MS), 0);
	if (!(fixture.client->caps & NAM_CAP_LASTING)) {
		assert_int_equal(state_of(id), NAM_CLIENT_DEAD);
		expect_holder_to_be_told(&holder, block);
		return;
	}
	assert_int_equal(state_of(id), NAM_CLIENT_ALIVE);
	assert_int_equal(nam_index_update(fixture.worker, fixture.index, key, 1),
		-NAM_E_LOCK_TIMEOUT);
	expect_holder_to_go_on(&holder, id, block);
}

/* A lookup by a cache is one READ, which does not reach the memory server any more. */
static void
client__fenced_between_two_lookups__IS_TOLD(void **state)
{
	struct nam_client *client = test_connect(fixture.cluster.list, "reader", LOCK_MS);
	struct nam_worker *worker = test_worker(client);
	bool lasting = client->caps & NAM_CAP_LASTING;
	struct nam_diag diag = { "" };
	struct nam_index *index;
	uint64_t payload;
	uint8_t key[8];
	int rc = 0;

	(void)state;
	nam_key_from_u64(NUMBER, key);
	assert_int_equal(nam_index_open(worker, INDEX, CACHE_BYTES, &index), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam_index_lookup(worker, index, key, &payload), 0);
	assert_int_equal(nam_client_fence(fixture.worker, client->id, 0, &diag),
		lasting ? -NAM_E_FABRIC_CAPABILITY : 0);
	for (unsigned i = 0; i < TRIES && !rc; i++)
		rc = nam_index_lookup(worker, index, key, &payload);
	assert_int_equal(rc, lasting ? 0 : -NAM_E_FABRIC_FENCED);
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
client_fence__not_possible__SAYS_WHY(void **state)
{
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(nam_client_fence(fixture.worker, 0, 0, &diag), -EINVAL);
	assert_int_equal(nam_client_fence(fixture.worker, 4096, 0, &diag), -EINVAL);
	assert_int_equal(nam_client_fence(fixture.worker, fixture.client->id, 0, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "this client"));
	assert_int_equal(nam_client_fence(fixture.worker, 4000, 0, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "4000"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			client__killed_while_a_memory_server_is_stopped__IS_NOT_DEAD_BEFORE),
		cmocka_unit_test(client__stopped_with_a_lock__OTHERS_GO_ON_AND_SO_DOES_IT),
		cmocka_unit_test(client__stopped_and_fenced__CHANGES_NOTHING_AND_IS_TOLD),
		cmocka_unit_test(client__stopped_beside_a_steward__GOES_ON_OR_IS_FENCED),
		cmocka_unit_test(client__fenced_between_two_lookups__IS_TOLD),
		cmocka_unit_test(client_fence__not_possible__SAYS_WHY),
	};

	if (argc > 2 && !strcmp(argv[1], "holder"))
		return holder_main(argv + 2);
	return cmocka_run_group_tests(tests, start, stop);
}
