/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector_dies_test.c -- a collector or a loader is killed at some moment; other clients complete
 * or undo what it leaves behind.
 *
 *	process_collector_dies		many moments of each
 *	process_collector_dies --seed S	other moments
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "index/maintain/verify.h"
#include "tests/lib/tree.h"

#define KEYS test_scaled_least(6000, 1000)
#define KEPT 10u		/* one key in so many is not deleted */
#define READY_MS 20000u
#define LOAD_NS 15000000u		/* about as long as a load takes */

static uint64_t seed = 1;
static uint64_t load_keys;	/* of an index whose loader dies */

/* ---- the processes that die ---------------------------------------------------------------- */

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	uint64_t *left = arg;

	if (!*left)
		return NAM_INDEX_END;
	nam_key_from_u64(load_keys - *left, key);
	*payload = load_keys - *left + 1;
	--*left;
	return NAM_INDEX_PAIR;
}

/* Print our client id and incarnation, then go about it until the end. */
static int
die_at_work(const char *work, const char *list)
{
	struct tree_guest guest;
	int rc = 0;

	tree_guest_come(list, &guest);
	printf("%u %u\n", guest.client->id, guest.client->incarnation);
	(void)fflush(stdout);
	while (!rc && !strcmp(work, "--collect")) {
		struct nam_collect_stat stat;

		rc = nam_index_collect(guest.worker, guest.index, &stat);
		if (!rc && !stat.merges && !stat.heads_written)
			break;
	}
	if (!strcmp(work, "--load")) {
		uint64_t left = load_keys;

		rc = nam_index_bulk_load(guest.worker, guest.index, source_next, &left, 0, NULL);
	}
	if (rc)
		(void)fprintf(stderr, "%s: %s: %s\n", work, nam_err_name(rc),
			nam_worker_diag(guest.worker));
	nam_sleep_ns(60000000000ull);
	return 0;
}

/* Let a process work for so long, kill it, and wait until the memory servers know. */
static void
kill_at_work(struct tree *tree, const char *work, uint64_t after_ns)
{
	const char *args[] = { local_cluster_list(tree->cluster), NULL };
	struct nam__lock_holder holder;
	struct child child = { 0 };
	unsigned id, incarnation;
	uint64_t word, deadline;
	char line[64];

	child_start_self(&child, work, args);
	if (!child_line(&child, line, sizeof(line), READY_MS) ||
		sscanf(line, "%u %u", &id, &incarnation) != 2)
		test_die("the child did not come up");
	nam_sleep_ns(after_ns);
	child_kill(&child);
	word = nam_lock_word((uint16_t)id, (uint16_t)incarnation, 1);
	deadline = nam_now_ns() + READY_MS * 1000000ull;
	while (nam__lock_holder_query(tree->worker, word, &holder) || !holder.dead) {
		if (nam_now_ns() > deadline)
			test_die("the memory servers do not notice that client %u died", id);
		nam_sleep_ns(1000000);
	}
}

/* ---- what is left -------------------------------------------------------------------------- */

/* Of each `kept` keys (0: of all of them none) the first is there. */
static void
check_answers(struct tree *tree, uint64_t keys, uint64_t kept, uint64_t step)
{
	struct tree_guest guest;

	tree_guest_come(local_cluster_list(tree->cluster), &guest);
	for (uint64_t n = 0; n < keys; n += step) {
		uint64_t payload = 0;
		uint8_t key[8];
		int rc;

		nam_key_from_u64(n, key);
		rc = nam_index_lookup(guest.worker, guest.index, key, &payload);
		if (rc != (kept && n % kept == 0 ? 0 : -NAM_E_NOTFOUND) ||
			(!rc && payload != n + 1))
			fail_msg("key %llu: %s, payload %llu; seed %llu", (unsigned long long)n,
				nam_err_name(rc), (unsigned long long)payload,
				(unsigned long long)seed);
	}
	tree_guest_go(&guest);
}

/* A lock may stay until a client wants it.  Returns how many there are. */
static uint64_t
check_sound(struct tree *tree)
{
	struct tree_violations violations = tree_verify(tree);

	if (violations.total != violations.of[NAM__I_UNLOCKED])
		fail_msg("%llu violations, the first: %s; seed %llu",
			(unsigned long long)violations.total, violations.first,
			(unsigned long long)seed);
	return violations.of[NAM__I_UNLOCKED];
}

static void
plant_sparse(struct tree *tree)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 4;
	tree_plant(tree, &options);
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[8];

		nam_key_from_u64(n, key);
		assert_int_equal(nam_index_insert(tree->worker, tree->index, key, n + 1), 0);
	}
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[8];

		nam_key_from_u64(n, key);
		if (n % KEPT)
			assert_int_equal(nam_index_delete(tree->worker, tree->index, key), 0);
	}
}

static void
uproot(struct tree *tree)
{
	nam_index_close(tree->index);
	tree->index = NULL;
	assert_int_equal(nam_index_drop(tree->worker, TREE_NAME), 0);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void
collect__killed_at_any_moment__NEXT_COLLECTOR_COMPLETES_IT(void **state)
{
	struct nam_rng rng = nam_rng_seed(seed);
	uint64_t rounds = test_scaled(40), locked = 0;
	struct tree tree;
	(void)state;

	tree_start(&tree, 2, 64u << 20);
	for (uint64_t round = 0; round < rounds; round++) {
		struct nam_collect_stat stat;

		plant_sparse(&tree);
		kill_at_work(&tree, "--collect", nam_rng_below(&rng, test_bound_ns(900000)));
		check_answers(&tree, KEYS, KEPT, 1);
		if (nam_index_collect(tree.worker, tree.index, &stat))
			fail_msg("collecting: %s; seed %llu", nam_worker_diag(tree.worker),
				(unsigned long long)seed);
		locked += check_sound(&tree);
		check_answers(&tree, KEYS, KEPT, 1);
		uproot(&tree);
	}
	print_message("%llu rounds: %llu locks left\n", (unsigned long long)rounds,
		(unsigned long long)locked);
	tree_stop(&tree);
}

static void
bulk_load__killed_at_any_moment__ALL_OR_NOTHING(void **state)
{
	struct nam_rng rng = nam_rng_seed(seed);
	struct nam_index_options options;
	uint64_t rounds = test_scaled(16), full = 0;
	struct tree tree;
	(void)state;

	nam_index_options_init(&options);
	for (uint64_t round = 0; round < rounds; round++) {
		struct nam_collect_stat stat;
		struct tree_guest guest;
		uint64_t payload;
		uint8_t key[8];
		int rc;

		/* The blocks of a dead loader stay allocated: new servers each time. */
		tree_start(&tree, 2, 16u << 20);
		tree_plant(&tree, &options);
		kill_at_work(&tree, "--load", nam_rng_below(&rng, test_bound_ns(LOAD_NS)));
		tree_guest_come(local_cluster_list(tree.cluster), &guest);
		nam_key_from_u64(7, key);
		rc = nam_index_lookup(guest.worker, guest.index, key, &payload);
		tree_guest_go(&guest);
		full += !rc;
		check_answers(&tree, load_keys, !rc, 97);
		assert_int_equal(nam_index_collect(tree.worker, tree.index, &stat), 0);
		check_sound(&tree);
		uproot(&tree);
		tree_stop(&tree);
	}
	print_message("%llu rounds: %llu full\n", (unsigned long long)rounds,
		(unsigned long long)full);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collect__killed_at_any_moment__NEXT_COLLECTOR_COMPLETES_IT),
		cmocka_unit_test(bulk_load__killed_at_any_moment__ALL_OR_NOTHING),
	};

	load_keys = test_scaled_least(300000, 20000);
	if (argc == 3 && !strcmp(argv[1], "--seed"))
		seed = strtoull(argv[2], NULL, 0);
	else if (argc == 3)
		return die_at_work(argv[1], argv[2]);
	/* The holder of a lock or a torn node is known to be dead: no need to wait. */
	tree_lock_timeout_ms = (uint32_t)(test_bound_ns(200000000) / 1000000);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
