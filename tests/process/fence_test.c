/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence_test.c -- clients that end while a memory server is stopped, and clients that are fenced by
 * hand while they are stopped.
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
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "compute/admin.h"
#include "compute/worker/worker.h"
#include "index/fine/leaf_change.h"
#include "index/index_internal.h"
#include "tests/lib/cluster.h"

#define INDEX "fenced"
#define LOCK_MS 500u
#define NODE_BYTES 256u
#define KEYS 400u
#define NUMBER 200u			/* in the node that the holder locks */
#define TRIES 50u
#define PATIENCE_MS 20000u

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

static void
leaf_lock(struct nam_worker *worker, struct nam_index *index, struct nam__held *ret_held)
{
	struct nam__key full;
	uint8_t key[8];
	int rc;

	ret_held->image = nam_buffer_take(worker, index->g.node_bytes);
	nam_key_from_u64(NUMBER, key);
	nam__key_encode(&index->g, key, 0, &full);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__lock_covering(worker, index, full.w, 0, ret_held);
	nam__op_end(worker);
	if (rc)
		test_die("the lock: %s", nam_worker_diag(worker));
}

/* ---- the holder: takes a lock, is stopped, and goes on ------------------------------------- */

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
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__write_unlock(worker, index, &held, (struct nam__dirty){ 0, 0 },
		NAM__HEADER_FRONT);
	nam__op_end(worker);
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

static unsigned
holder_start(struct child *holder)
{
	const char *const args[] = { fixture.cluster.list, NULL };
	char line[64];
	unsigned id = 0;

	child_start_self(holder, "holder", args);
	assert_true(child_line(holder, line, sizeof(line), PATIENCE_MS));
	assert_int_equal(sscanf(line, "locked %u", &id), 1);
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

	nam_client_options_init(&options);
	options.cluster = fixture.cluster.list;
	options.timeout_ms = LOCK_MS;
	assert_int_equal(nam_cluster_status(&options, on_status, &seen, &diag), 0);
	return seen;
}

static uint32_t
state_of(unsigned id)
{
	struct nam_rpc_client_state_reply reply;

	assert_int_equal(nam__client_state_ask(fixture.worker, (uint16_t)id, 0, &reply), 0);
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
	uint64_t until_ns = nam_now_ns() + test_bound_ns(PATIENCE_MS * 1000000ull);

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
	if (!child_line(&child, line, size, PATIENCE_MS))
		line[0] = '\0';
	return child_wait(&child, PATIENCE_MS);
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
	return child_wait(&child, PATIENCE_MS);
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
	assert_int_equal(child_wait(&holder, PATIENCE_MS), 128 + SIGKILL);
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

/* Where its queue pairs can be taken from it; else its process has to end. */
static void
client__stopped_and_fenced__CHANGES_NOTHING_AND_IS_TOLD(void **state)
{
	bool lasting = fixture.client->caps & NAM_CAP_LASTING;
	uint64_t before[NODE_BYTES / 8], after[NODE_BYTES / 8];
	struct nam_diag diag = { "" };
	char line[400], pid[32];
	struct child holder;
	unsigned id = holder_start(&holder);

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
		assert_int_equal(child_wait(&holder, PATIENCE_MS), 128 + SIGKILL);
		await_death(id);
		expect_lock_to_pass();
		return;
	}
	/* Nothing has to be killed for that. */
	assert_int_equal(namctl_fence(id, "--evict", line, sizeof(line)), 0);
	assert_non_null(strstr(line, "is dead"));
	assert_int_equal(state_of(id), NAM_CLIENT_DEAD);
	expect_lock_to_pass();
	leaf_read(before);
	child_signal(&holder, SIGCONT);
	assert_true(child_line(&holder, line, sizeof(line), PATIENCE_MS));
	/* The request that finds the connection closed says so already. */
	assert_string_equal(line, "unlocked NAM_E_FABRIC_FENCED");
	assert_true(child_line(&holder, line, sizeof(line), PATIENCE_MS));
	assert_non_null(strstr(line, "inserted NAM_E_FABRIC_FENCED"));
	assert_non_null(strstr(line, "connect anew"));
	assert_int_equal(child_wait(&holder, PATIENCE_MS), 0);
	leaf_read(after);
	assert_memory_equal(before, after, NODE_BYTES);
	/* Once more: it is dead already. */
	assert_int_equal(nam_client_fence(fixture.worker, (uint16_t)id, 0, &diag), 0);
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
		cmocka_unit_test(client__stopped_and_fenced__CHANGES_NOTHING_AND_IS_TOLD),
		cmocka_unit_test(client_fence__not_possible__SAYS_WHY),
	};

	if (argc > 2 && !strcmp(argv[1], "holder"))
		return holder_main(argv + 2);
	return cmocka_run_group_tests(tests, start, stop);
}
