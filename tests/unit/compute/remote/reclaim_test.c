/* SPDX-License-Identifier: Apache-2.0 */
/* Free memory that one client keeps from the others, and what these say then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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
alloc_with_patience(struct nam_worker *worker, struct nam_gaddr *ret_at)
{
	unsigned tries = 0;
	int rc;

	do
		rc = nam_alloc(worker, OTHER_STRIDE, ret_at); /* SUSPENDS */
	while (nam__memory_came_back(worker, rc, &tries)); /* SUSPENDS */
	return rc;
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
memory_came_back__a_client_does_not_forget__IT_IS_NAMED(void **state)
{
	struct nam_gaddr at;

	(void)state;
	fill_and_free();
	nam__op_begin(slow.worker, NAM_OP_SCAN);
	assert_int_equal(alloc_with_patience(me.worker, &at), -NAM_E_REMOTE_FULL);
	member_says(&me, named(&slow, "slow"));
	member_says(&me, "try again");
	member_says(&me, "no room for a block of 4096 bytes");
	nam__op_end(slow.worker);
	assert_int_equal(alloc_with_patience(me.worker, &at), 0);
	nam_free_unseen(me.worker, at, OTHER_STRIDE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			memory_came_back__a_client_does_not_forget__IT_IS_NAMED, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
