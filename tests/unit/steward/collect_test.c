/* SPDX-License-Identifier: Apache-2.0 */
/* collect_test.c -- when a steward collects, and that it does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compute/view/sweep.h"
#include "index/maintain/maintain.h"
#include "steward/collect.h"
#include "tests/lib/tree_model.h"
#include "txn/records.h"

#define SECOND_NS 1000000000ull
#define HOUR_NS (3600 * SECOND_NS)

static struct {
	struct tree tree;
	struct nam_client_options options;
	unsigned collected, not_collected, swept, not_swept;
	char last[800];			/* the fields of the last event of a pass */
} fixture;

static void
on_event(void *arg, const char *event, const char *fields)
{
	(void)arg;
	if (!strcmp(event, "collected"))
		fixture.collected++;
	else if (!strcmp(event, "not_collected"))
		fixture.not_collected++;
	else if (!strcmp(event, "swept"))
		fixture.swept++;
	else if (!strcmp(event, "not_swept"))
		fixture.not_swept++;
	else
		fail_msg("an event %s", event);
	if (!strstr(event, "swept"))
		(void)snprintf(fixture.last, sizeof(fixture.last), "%s", fields);
}

static int
start(void **state)
{
	struct nam_index_options options = tree_options_small();
	struct tree_model model = { 0 };

	(void)state;
	memset(&fixture, 0, sizeof(fixture));
	tree_start(&fixture.tree, 2, 64u << 20);
	nam_client_options_init(&fixture.options);
	fixture.options.cluster = local_cluster_list(fixture.tree.cluster);
	tree_plant(&fixture.tree, &options);
	tree_model_fill(&fixture.tree, &model, 1);
	for (uint64_t number = 0; number < TREE_MODEL_KEYS; number++)
		if (number % 10)
			tree_model_delete(&fixture.tree, &model, number);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	tree_stop(&fixture.tree);
	return 0;
}

static struct nam__collecting
collecting_new(void)
{
	return (struct nam__collecting){
		.options = &fixture.options,
		.every_ns = HOUR_NS,
		.percent = 1,
		.event = on_event,
	};
}

static bool
at_once(void *arg)
{
	(void)arg;
	return true;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void
collect_due__worth_it_or_long_ago__IS_DUE(void **state)
{
	(void)state;
	/* 100 bytes a second. */
	assert_false(nam__collect_due(99 * SECOND_NS, HOUR_NS, 1000, 10 * SECOND_NS, 10000));
	assert_true(nam__collect_due(101 * SECOND_NS, HOUR_NS, 1000, 10 * SECOND_NS, 10000));
	/* Nothing was found, however little memory is left. */
	assert_false(nam__collect_due(HOUR_NS - 1, HOUR_NS, 0, 10 * SECOND_NS, 0));
	assert_true(nam__collect_due(HOUR_NS, HOUR_NS, 0, 10 * SECOND_NS, UINT64_MAX));
	/* Not one pass after the other. */
	assert_false(nam__collect_due(9 * SECOND_NS, HOUR_NS, UINT64_MAX, 1, 1));
	assert_true(nam__collect_due(10 * SECOND_NS, HOUR_NS, UINT64_MAX, 1, 1));
	assert_true(nam__collect_due(SECOND_NS, SECOND_NS, 0, 0, 1));
}

static void
collect_round__stopped__LEAVES_THE_PASS_TO_THE_NEXT(void **state)
{
	struct nam__collecting collecting = collecting_new();
	struct nam_diag diag = { "" };

	(void)state;
	collecting.stop = at_once;
	assert_int_equal(nam__collect_round(&collecting, &diag), -ECANCELED);
	assert_int_equal(fixture.collected + fixture.not_collected, 0);
	nam__collect_free(&collecting);
	tree_assert_sound(&fixture.tree);
}

static void
collect_round__new_names__HAVE_ONE_PASS(void **state)
{
	struct nam__collecting collecting = collecting_new();
	struct nam_records_options options;
	struct nam_diag diag = { "" };
	uint64_t leaves = tree_stat(&fixture.tree).leaves;

	(void)state;
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.collected, 1);
	assert_int_equal(fixture.swept, 1);
	assert_non_null(strstr(fixture.last, "kind=index name=\"" TREE_NAME "\" nodes="));
	assert_null(strstr(fixture.last, "freed_bytes=0"));
	assert_true(tree_stat(&fixture.tree).leaves < leaves / 3);
	tree_assert_sound(&fixture.tree);
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.collected, 1);
	assert_int_equal(fixture.swept, 1);
	/* A store of records, and the index of its keys. */
	nam_records_options_init(&options);
	assert_int_equal(nam_records_create(fixture.tree.worker, "accounts", &options), 0);
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.collected, 3);
	assert_non_null(strstr(fixture.last, "kind=index name=\"accounts.keys\""));
	assert_int_equal(nam_records_drop(fixture.tree.worker, "accounts"), 0);
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(collecting.count, 1);
	assert_int_equal(fixture.not_collected, 0);
	assert_int_equal(fixture.not_swept, 0);
	nam__collect_free(&collecting);
}

static void
collect_round__another_collector_is_at_work__SAYS_SO_AND_GOES_ON(void **state)
{
	struct nam__collecting collecting = collecting_new();
	struct nam_diag diag = { "" };
	struct tree *tree = &fixture.tree;
	uint64_t word;

	(void)state;
	fixture.options.lock_timeout_ms = 50;
	assert_int_equal(nam__collector_enter(tree->worker, tree->index, 0, &word), 0);
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.not_collected, 1);
	assert_non_null(strstr(fixture.last, "text="));
	assert_int_equal(nam__collector_leave(tree->worker, tree->index, word), 0);
	nam__collect_free(&collecting);
}

static void
collect_round__another_client_sweeps__SWEEPS_AGAIN_SOON(void **state)
{
	struct nam__collecting collecting = collecting_new();
	struct nam_diag diag = { "" };
	struct tree *tree = &fixture.tree;
	uint64_t word;

	(void)state;
	fixture.options.timeout_ms = 500;
	assert_int_equal(nam__sweeper_enter(tree->worker, &word), 0);
	assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.not_swept, 1);
	assert_int_equal(fixture.swept, 0);
	nam__sweeper_leave(tree->worker, word);
	assert_true(collecting.sweep_due_ns > nam_now_ns());
	assert_true(collecting.sweep_due_ns < nam_now_ns() + collecting.every_ns);
	collecting.sweep_due_ns = nam_now_ns();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam__collect_round(&collecting, &diag), 0);
	assert_int_equal(fixture.not_swept, 1);
	assert_int_equal(fixture.swept, 1);
	nam__collect_free(&collecting);
}

static void
collect_round__no_memory_server__SAYS_WHY(void **state)
{
	struct nam__collecting collecting = collecting_new();
	struct nam_diag diag = { "" };

	(void)state;
	fixture.options.cluster = "shm:/nonexistent/nam";
	assert_true(nam_err_is(nam__collect_round(&collecting, &diag), NAM_E_FABRIC_CONNECT));
	assert_string_not_equal(diag.text, "");
	nam__collect_free(&collecting);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collect_due__worth_it_or_long_ago__IS_DUE),
		cmocka_unit_test_setup_teardown(
			collect_round__stopped__LEAVES_THE_PASS_TO_THE_NEXT, start, stop),
		cmocka_unit_test_setup_teardown(collect_round__new_names__HAVE_ONE_PASS, start,
			stop),
		cmocka_unit_test_setup_teardown(
			collect_round__another_collector_is_at_work__SAYS_SO_AND_GOES_ON, start,
			stop),
		cmocka_unit_test_setup_teardown(
			collect_round__another_client_sweeps__SWEEPS_AGAIN_SOON, start,
			stop),
		cmocka_unit_test_setup_teardown(collect_round__no_memory_server__SAYS_WHY, start,
			stop),
	};

	return cmocka_run_group_tests_name("steward/collect", tests, NULL, NULL);
}
