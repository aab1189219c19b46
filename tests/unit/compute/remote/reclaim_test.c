/* SPDX-License-Identifier: Apache-2.0 */
/* Free memory that one client keeps from the others, and what these say then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/race.h"
#include "compute/remote/epoch.h"
#include "compute/remote/reclaim.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)
#define STRIDE 1088u
#define OTHER_STRIDE 4096u
#define TIMEOUT_MS 2000u
#define NAME_BYTES 64u

static struct local_cluster *cluster;
static struct member me, slow, other;

static int
start(void **state)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	(void)state;
	cluster = local_cluster_start(1, 2 * MIB, MIB);
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	options.name = "me";
	options.timeout_ms = TIMEOUT_MS;
	if (nam_client_connect(&options, &me.client, &diag))
		test_die("%s", diag.text);
	me.worker = test_worker(me.client);
	slow = member_join(cluster, "slow", 0);
	other = member_join(cluster, "other", 0);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	member_leave(&other);
	member_leave(&slow);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

/* All memory is in blocks of one stride, and none of them is in use. */
static void
fill_and_free(void)
{
	static struct nam_gaddr all[4096];
	uint32_t count = 0;

	while (count < 4096 && !nam_alloc(me.worker, STRIDE, &all[count]))
		count++;
	assert_in_range(count, 1000, 4095);
	for (uint32_t i = 0; i < count; i++)
		nam_free_unseen(me.worker, all[i], STRIDE);
}

/* As operations do that find no memory. */
NAM_FIBER_FN static int
alloc_with_timeout(struct nam_worker *worker, struct nam_gaddr *ret_at)
{
	unsigned tries = 0;
	int rc;

	do
		rc = nam_alloc(worker, OTHER_STRIDE, ret_at); /* SUSPENDS */
	while (nam__memory_retry(worker, rc, &tries)); /* SUSPENDS */
	return rc;
}

static unsigned
generation(void)
{
	uint64_t *word = nam_buffer_take(me.worker, 8), value;

	assert_int_equal(nam_read_await(me.worker, me.client->epoch_word, word, 8), 0);
	value = *word;
	nam_buffer_give(me.worker, word, 8);
	return (unsigned)(value / NAM_EPOCH_GENERATION);
}

/* "client 7 (slow, pid": what a message must say. */
static const char *
named(const struct member *member, const char *name)
{
	static char text[NAME_BYTES];

	(void)snprintf(text, sizeof(text), "client %u (%s, pid", nam_client_id(member->client),
		name);
	return text;
}

static void
memory_retry__a_client_does_not_forget__IT_IS_NAMED(void **state)
{
	struct nam_gaddr at;

	(void)state;
	fill_and_free();
	nam__op_begin(slow.worker, NAM_OP_SCAN);
	assert_int_equal(alloc_with_timeout(me.worker, &at), -NAM_E_REMOTE_FULL);
	member_says(&me, named(&slow, "slow"));
	member_says(&me, "try again");
	member_says(&me, "no room for a block of 4096 bytes");
	nam__op_end(slow.worker);
	assert_int_equal(alloc_with_timeout(me.worker, &at), 0);
	nam_free_unseen(me.worker, at, OTHER_STRIDE);
}

/* All memory is retired under the eyes of a client, and the worker that did so closes. */
static void
retire_all_and_close(void)
{
	struct nam_diag why;
	struct nam_gaddr at;
	uint64_t count = 0;

	nam__op_begin(slow.worker, NAM_OP_SCAN);
	for (; !nam_alloc(me.worker, STRIDE, &at); count++)
		nam_retire(me.worker, nam_gaddr_untagged(at), STRIDE);
	assert_in_range(count, 1000, 4095);
	me.client->options.timeout_ms = 100;
	nam_worker_close(me.worker);
	me.client->options.timeout_ms = TIMEOUT_MS;
	me.worker = test_worker(me.client);
	assert_int_equal(nam_client_blocks_waiting(me.client, &why), count);
	assert_non_null(strstr(why.text, named(&slow, "slow")));
	assert_int_equal(nam_client_blocks_lost(me.client), 0);
}

static void
memory_retry__given_back_for_later__ONCE_NO_CLIENT_LOOKS(void **state)
{
	struct nam_server_status status;
	struct nam_gaddr at;

	(void)state;
	retire_all_and_close();
	assert_int_equal(nam_server_status_get(me.worker, 0, &status), 0);
	assert_true(status.waiting_bytes > MIB);
	assert_int_equal(alloc_with_timeout(me.worker, &at), -NAM_E_REMOTE_FULL);
	member_says(&me, named(&slow, "slow"));
	member_says(&me, "try again");
	nam__op_end(slow.worker);
	assert_int_equal(alloc_with_timeout(other.worker, &at), 0);
	nam_free_unseen(other.worker, at, OTHER_STRIDE);
	assert_int_equal(nam_server_status_get(me.worker, 0, &status), 0);
	assert_int_equal(status.waiting_bytes, 0);
}

/* ---- several tasks at once ------------------------------------------------------------------ */

#define FIBERS 8u

struct crowd {
	unsigned full;			/* fibers that found no memory */
	unsigned begun;			/* ... that asked whether it comes back */
	unsigned again;			/* ... and that began once more */
	unsigned failed, explained;
};

/* Whether the worker has this message of a fiber, and it names the slow client as well. */
static bool
explained(const char *own)
{
	const char *text = nam_worker_diag(me.worker);

	return strstr(text, own) && strstr(text, named(&slow, "slow"));
}

/* No fiber makes memory come back before all have found none. */
static void
crowd_main(void *arg)
{
	struct crowd *crowd = arg;
	char own[NAME_BYTES];
	unsigned tries = 0;
	struct nam_gaddr at;
	int rc = nam_alloc(me.worker, OTHER_STRIDE, &at); /* SUSPENDS */

	crowd->full += rc == -NAM_E_REMOTE_FULL;
	while (crowd->full < FIBERS && rc)
		nam_worker_yield(me.worker); /* SUSPENDS */
	(void)snprintf(own, sizeof(own), "fiber %u has no memory", crowd->begun++);
	(void)nam_diag_set(&me.worker->diag, rc, "%s", own);
	while (nam__memory_retry(me.worker, rc, &tries)) { /* SUSPENDS */
		crowd->again++;
		rc = nam_alloc(me.worker, OTHER_STRIDE, &at); /* SUSPENDS */
	}
	crowd->explained += explained(own);
	crowd->failed += rc != 0;
}

static struct crowd
crowd_run(void)
{
	struct crowd crowd = { 0 };

	for (unsigned i = 0; i < FIBERS; i++)
		assert_int_equal(nam_worker_spawn(me.worker, crowd_main, &crowd), 0);
	nam_worker_run(me.worker);
	assert_int_equal(crowd.full, FIBERS);
	return crowd;
}

static void
memory_retry__several_tasks_and_a_slow_client__ONE_ATTEMPT_FOR_ALL(void **state)
{
	unsigned before = generation();
	struct crowd crowd;

	(void)state;
	fill_and_free();
	nam__op_begin(slow.worker, NAM_OP_SCAN);
	crowd = crowd_run();
	nam__op_end(slow.worker);
	assert_int_equal(generation() - before, 1);
	assert_int_equal(crowd.again, 0);
	assert_int_equal(crowd.failed, FIBERS);
	assert_int_equal(crowd.explained, FIBERS);
}

static void
memory_retry__several_tasks__ONE_ATTEMPT_FOR_ALL(void **state)
{
	unsigned before = generation();
	struct crowd crowd;

	(void)state;
	fill_and_free();
	crowd = crowd_run();
	assert_int_equal(generation() - before, 1);
	assert_int_equal(crowd.again, FIBERS);
	assert_int_equal(crowd.failed, 0);
}

/* ---- a memory server that ends --------------------------------------------------------------- */

#ifdef NAM_SIM_POINTS
static bool server_ends;

static void
end_when_held(const char *name)
{
	if (strcmp(name, "reclaim.held") != 0 || !server_ends)
		return;
	server_ends = false;
	local_cluster_stop_server(cluster, 0);
}

static void
memory_retry__the_memory_server_ends_meanwhile__PEER_DEAD(void **state)
{
	struct nam_gaddr at;

	(void)state;
	fill_and_free();
	server_ends = true;
	assert_int_equal(alloc_with_timeout(me.worker, &at), -NAM_E_FABRIC_PEER_DEAD);
	assert_false(server_ends);
	member_says(&me, "is gone");
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			memory_retry__a_client_does_not_forget__IT_IS_NAMED, start, stop),
		cmocka_unit_test_setup_teardown(
			memory_retry__given_back_for_later__ONCE_NO_CLIENT_LOOKS, start, stop),
		cmocka_unit_test_setup_teardown(
			memory_retry__several_tasks_and_a_slow_client__ONE_ATTEMPT_FOR_ALL,
			start, stop),
		cmocka_unit_test_setup_teardown(
			memory_retry__several_tasks__ONE_ATTEMPT_FOR_ALL, start, stop),
#ifdef NAM_SIM_POINTS
		cmocka_unit_test_setup_teardown(
			memory_retry__the_memory_server_ends_meanwhile__PEER_DEAD, start, stop),
#endif
	};

#ifdef NAM_SIM_POINTS
	nam_race_hook = end_when_held;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
