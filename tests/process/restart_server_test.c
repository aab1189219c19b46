/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart_server_test.c -- a memory server ends and comes back with nothing in its memory.
 *
 * kill_server_test.c covers clients connected before; this file covers later ones.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "nam.h"

#define KEYS test_scaled_least(20000, 1000)
#define BOUND_NS test_bound_ns(2000000000)
#define CTL_REMOTE 6			/* namctl(1): remote memory is not as it should be */

static struct cluster cluster;
static struct nam_client *client;
static struct nam_worker *worker;

static void
join(void)
{
	client = test_connect(cluster.list, "test", 0);
	worker = test_worker(client);
}

static void
leave(void)
{
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
make(const char *name)
{
	struct nam_index_options options;
	struct nam_index *index;
	uint8_t key[8];

	nam_index_options_init(&options);
	assert_int_equal(nam_index_create(worker, name, &options), 0);
	assert_int_equal(nam_index_open(worker, name, 1 << 20, &index), 0);
	for (uint64_t n = 0; n < KEYS; n++) {
		nam_key_from_u64(n, key);
		assert_int_equal(nam_index_insert(worker, index, key, n), 0);
	}
	nam_index_close(index);
}

static void
restart(unsigned number)
{
	child_kill(&cluster.servers[number]);
	cluster_start_server(&cluster, number);
}

static int
start(void **state)
{
	(void)state;
	cluster_start(&cluster, 2, 64, "4M");
	join();
	make("old");
	leave();
	restart(1);
	join();
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	leave();
	cluster_stop(&cluster);
	return 0;
}

static int
namctl(const char *command, const char *name, const char *key)
{
	const char *const argv[] = {
		test_program("namctl"), "--cluster", cluster.list, command, name, key, NULL,
	};
	struct child child;

	child_start(&child, argv);
	return child_wait(&child, (unsigned)(test_bound_ns(10000000000) / 1000000));
}

static void
open__server_was_restarted__LOST_AND_SAYS_WHICH(void **state)
{
	struct nam_index *index;

	(void)state;
	assert_int_equal(nam_index_open(worker, "old", 0, &index), -NAM_E_LOST);
	assert_non_null(strstr(nam_worker_diag(worker), "memory server 1 was restarted"));
	assert_non_null(strstr(nam_worker_diag(worker), "'old'"));
}

static void
namctl__server_was_restarted__EXIT_CODE_OF_REMOTE_MEMORY(void **state)
{
	(void)state;
	assert_int_equal(namctl("get", "old", "1"), CTL_REMOTE);
}

/* Nodes of another index lie where the old one's were: dropping that does them no harm. */
static void
drop__server_was_restarted__NAME_GONE_AND_OTHERS_WHOLE(void **state)
{
	struct nam_index *index;
	uint64_t start_ns, violations;

	(void)state;
	make("new");
	start_ns = nam_now_ns();
	assert_int_equal(nam_index_drop(worker, "old"), -NAM_E_LOST);
	assert_in_range(nam_now_ns() - start_ns, 0, BOUND_NS);
	assert_non_null(strstr(nam_worker_diag(worker), "'old' was dropped"));
	assert_int_equal(nam_index_open(worker, "old", 0, &index), -NAM_E_NOINDEX);
	assert_int_equal(nam_index_open(worker, "new", 0, &index), 0);
	assert_int_equal(nam_index_verify(worker, index, NULL, NULL, &violations), 0);
	assert_int_equal(violations, 0);
	nam_index_close(index);
	make("old");
	assert_int_equal(nam_index_drop(worker, "old"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__server_was_restarted__LOST_AND_SAYS_WHICH),
		cmocka_unit_test(namctl__server_was_restarted__EXIT_CODE_OF_REMOTE_MEMORY),
		cmocka_unit_test(drop__server_was_restarted__NAME_GONE_AND_OTHERS_WHOLE),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
