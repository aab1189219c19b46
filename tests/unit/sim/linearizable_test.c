/* SPDX-License-Identifier: Apache-2.0 */
#include "said.h"

#include "generated.h"
#include "tests/sim/linearizable.h"

static bool unique = true, evicts;
static struct generator generator;

static struct sim_findings
check(void)
{
	struct sim_linearizable_options options;
	struct sim_findings result;

	sim_linearizable_options_init(&options);
	options.unique = unique;
	options.evicts = evicts;
	RUN(sim_check_linearizable(&history, &options, findings), &result);
	return result;
}

static void
assert_true_history(void)
{
	struct sim_findings result = check();

	if (result.violations || result.undecided)
		fail_msg("%s", told);
}

static void
assert_false_history(void)
{
	struct sim_findings result = check();

	assert_int_equal(result.violations, 1);
	assert_int_equal(result.undecided, 0);
}

/* ---- by hand: true --------------------------------------------------------------------------- */

static void
linearizable__nothing__ACCEPTED(void **state)
{
	(void)state;
	assert_true_history();
}

static void
linearizable__one_after_another__ACCEPTED(void **state)
{
	(void)state;
	looks_up(7, 0);
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_INSERT, 7, 71, -NAM_E_EXISTS);
	looks_up(7, 70);
	does(SIM_UPDATE, 7, 72, 0);
	does(SIM_DELETE_PAIR, 7, 70, -NAM_E_NOTFOUND);
	looks_up(7, 72);
	does(SIM_DELETE, 7, 0, 0);
	does(SIM_DELETE, 7, 0, -NAM_E_NOTFOUND);
	does(SIM_UPDATE, 7, 73, -NAM_E_NOTFOUND);
	does(SIM_UPSERT, 7, 74, 0);
	does(SIM_DELETE_PAIR, 7, 74, 0);
	looks_up(7, 0);
	assert_true_history();
}

static void
linearizable__overlapping_writes_seen_in_either_order__ACCEPTED(void **state)
{
	(void)state;
	for (uint64_t last = 1; last <= 2; last++) {
		size_t a = call(SIM_UPSERT, last, 1), b = call(SIM_UPSERT, last, 2);

		returns(a, 0, 0);
		returns(b, 0, 0);
		looks_up(last, last);
	}
	assert_true_history();
}

static void
linearizable__overlapping_writes_of_which_one_is_ruled_out__ACCEPTED(void **state)
{
	(void)state;
	for (uint64_t other = 1; other <= 2; other++) {
		size_t a = call(SIM_UPSERT, other, 1), b = call(SIM_UPSERT, other, 2);

		returns(a, 0, 0);
		returns(b, 0, 0);
		does(SIM_DELETE_PAIR, other, other, -NAM_E_NOTFOUND);
	}
	assert_true_history();
}

static void
linearizable__a_dead_clients_write_seen_much_later__ACCEPTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	(void)call(SIM_UPSERT, 7, 71);
	looks_up(7, 70);
	does(SIM_UPDATE, 7, 72, 0);
	looks_up(7, 72);
	looks_up(7, 71);
	looks_up(7, 71);
	assert_true_history();
}

static void
linearizable__a_dead_clients_delete_makes_room_for_an_insert__ACCEPTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	(void)call(SIM_DELETE, 7, 0);
	does(SIM_INSERT, 7, 71, 0);
	looks_up(7, 71);
	assert_true_history();
}

static void
linearizable__a_fabric_error_whose_write_comes_late__ACCEPTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, -NAM_E_FABRIC_TIMEOUT);
	looks_up(7, 0);
	looks_up(7, 70);
	assert_true_history();
}

/* ---- by hand: false -------------------------------------------------------------------------- */

static void
linearizable__an_insert_that_was_lost__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 0);
	assert_false_history();
	assert_seen("key 7: no order of operations explains #1 lookup(7)");
	assert_seen("it could be 70\n");
	assert_seen("    #0 insert(7, 70) by client 1.0 in 0..10 ns: 0\n");
	assert_seen("  > #1 lookup(7) by client 1.1 in 20..30 ns: NAM_E_NOTFOUND\n");
}

static void
linearizable__an_insert_that_succeeds_twice__REJECTED(void **state)
{
	size_t a, b;

	(void)state;
	a = call(SIM_INSERT, 7, 70);
	b = call(SIM_INSERT, 7, 71);
	returns(b, 0, 0);
	returns(a, 0, 0);
	assert_false_history();
}

static void
linearizable__a_stale_lookup__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_UPDATE, 7, 71, 0);
	looks_up(7, 70);
	assert_false_history();
	assert_seen("70 was written by #0 insert(7, 70)");
}

static void
linearizable__a_new_value_and_then_the_old_one_during_the_write__REJECTED(void **state)
{
	size_t write;

	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	write = call(SIM_UPDATE, 7, 71);
	looks_up(7, 71);
	looks_up(7, 70);
	returns(write, 0, 0);
	assert_false_history();
}

static void
linearizable__a_value_that_nobody_wrote__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 7070);
	assert_false_history();
	assert_seen("nothing ever wrote 7070 there");
}

static void
linearizable__a_value_of_another_key__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_INSERT, 8, 80, 0);
	looks_up(8, 70);
	assert_false_history();
	assert_seen("key 8: ");
}

static void
linearizable__a_deleted_key_that_comes_back__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_DELETE, 7, 0, 0);
	looks_up(7, 0);
	looks_up(7, 70);
	assert_false_history();
}

static void
linearizable__a_value_read_before_its_write_was_called__REJECTED(void **state)
{
	(void)state;
	looks_up(7, 70);
	does(SIM_INSERT, 7, 70, 0);
	assert_false_history();
}

static void
linearizable__two_deletes_of_one_insert__REJECTED(void **state)
{
	size_t a, b;

	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	a = call(SIM_DELETE, 7, 0);
	b = call(SIM_DELETE, 7, 0);
	returns(a, 0, 0);
	returns(b, 0, 0);
	assert_false_history();
}

static void
linearizable__a_write_refused_for_lack_of_room_that_is_seen__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, -NAM_E_REMOTE_FULL);
	looks_up(7, 70);
	assert_false_history();
}

static void
linearizable__a_dead_clients_insert_used_twice__REJECTED(void **state)
{
	(void)state;
	(void)call(SIM_INSERT, 7, 70);
	does(SIM_DELETE, 7, 0, 0);
	does(SIM_DELETE, 7, 0, 0);
	assert_false_history();
}

static void
linearizable__two_scans_that_disagree_on_an_order__REJECTED(void **state)
{
	const struct sim_range all = { 0 };
	const struct sim_entry new = { 7, 71 }, old = { 7, 70 };
	size_t write, scan;

	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	write = call(SIM_UPDATE, 7, 71);
	scan = sim_history_call_scan(&history, 2, 0, &all, 0);
	sim_history_return_scan(&history, scan, 0, &new, 1, 0);
	scan = sim_history_call_scan(&history, 2, 0, &all, 0);
	sim_history_return_scan(&history, scan, 0, &old, 1, 0);
	returns(write, 0, 0);
	assert_false_history();
}

/* Hundreds of changes that may still happen must not multiply. */
static void
linearizable__many_faults_on_few_keys__DECIDED(void **state)
{
	(void)state;
	generator = (struct generator){ .seed = 5, .ops = 20000, .keys = 10, .sessions = 16,
		.faults_percent = 4 };
	sim_history_free(&history);
	generate(&generator, &history);
	assert_true_history();
}

static void
linearizable__too_many_states__UNDECIDED(void **state)
{
	struct sim_linearizable_options options;
	struct sim_findings result;
	size_t writes[16];

	(void)state;
	for (uint64_t i = 0; i < 16; i++)
		writes[i] = call(SIM_UPSERT, 7, 70 + i);
	for (size_t i = 0; i < 16; i++)
		returns(writes[i], 0, 0);
	sim_linearizable_options_init(&options);
	options.states_max = 100;

	RUN(sim_check_linearizable(&history, &options, findings), &result);

	assert_int_equal(result.violations, 0);
	assert_int_equal(result.undecided, 1);
	assert_seen("key 7: undecided");
}

/* ---- by hand: pairs -------------------------------------------------------------------------- */

static void
linearizable_pairs__one_after_another__ACCEPTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 71, 0);
	does(SIM_INSERT, 7, 70, 0);
	does(SIM_INSERT, 7, 70, -NAM_E_EXISTS);
	does(SIM_UPSERT, 7, 70, 0);
	looks_up(7, 70);
	does(SIM_DELETE_PAIR, 7, 70, 0);
	looks_up(7, 71);
	does(SIM_DELETE_PAIR, 7, 70, -NAM_E_NOTFOUND);
	does(SIM_DELETE_PAIR, 7, 71, 0);
	looks_up(7, 0);
	unique = false;
	assert_true_history();
	unique = true;
}

static void
linearizable_pairs__not_the_smallest_payload__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 71, 0);
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 71);
	unique = false;
	assert_false_history();
	unique = true;
	assert_seen("pair (7, 70): ");
}

static void
linearizable_pairs__nothing_found_where_a_pair_is__REJECTED(void **state)
{
	(void)state;
	does(SIM_INSERT, 7, 70, 0);
	looks_up(7, 0);
	unique = false;
	assert_false_history();
	unique = true;
}

/* ---- by hand: a cache ------------------------------------------------------------------------ */

static void
linearizable_cache__a_key_goes_again_and_again__ACCEPTED(void **state)
{
	(void)state;
	does(SIM_UPSERT, 7, 70, 0);
	looks_up(7, 0);
	does(SIM_DELETE, 7, 0, -NAM_E_NOTFOUND);
	does(SIM_UPSERT, 7, 71, 0);
	looks_up(7, 71);
	does(SIM_DELETE, 7, 0, -NAM_E_NOTFOUND);
	evicts = true;
	assert_true_history();
	evicts = false;
	assert_int_equal(check().violations, 1);
}

static void
linearizable_cache__a_key_that_went_comes_back__REJECTED(void **state)
{
	(void)state;
	does(SIM_UPSERT, 7, 70, 0);
	looks_up(7, 0);
	looks_up(7, 70);
	evicts = true;
	assert_false_history();
	evicts = false;
}

static void
linearizable_cache__the_value_before_the_last_one__REJECTED(void **state)
{
	(void)state;
	does(SIM_UPSERT, 7, 70, 0);
	does(SIM_UPSERT, 7, 71, 0);
	looks_up(7, 70);
	evicts = true;
	assert_false_history();
	evicts = false;
}

static void
linearizable_cache__deletes_what_went_before__REJECTED(void **state)
{
	(void)state;
	does(SIM_UPSERT, 7, 70, 0);
	looks_up(7, 0);
	does(SIM_DELETE, 7, 0, 0);
	evicts = true;
	assert_false_history();
	evicts = false;
}

/* ---- against every order --------------------------------------------------------------------- */

#define SMALL_OPS 7u

/* One key as a program would write it: a set of payloads below 8, of one at the most if unique. */
static int
model(const struct sim_op *op, unsigned *payloads, uint64_t *ret_payload)
{
	unsigned bit = 1u << op->payload, present = unique ? *payloads : *payloads & bit;

	switch (op->kind) {
	case SIM_INSERT:
		if (present)
			return -NAM_E_EXISTS;
		*payloads |= bit;
		return 0;
	case SIM_UPSERT:
		*payloads = unique ? bit : *payloads | bit;
		return 0;
	case SIM_UPDATE:
		if (!present)
			return -NAM_E_NOTFOUND;
		*payloads = bit;
		return 0;
	case SIM_DELETE:
		if (!present)
			return -NAM_E_NOTFOUND;
		*payloads = 0;
		return 0;
	case SIM_DELETE_PAIR:
		if (!(*payloads & bit))
			return -NAM_E_NOTFOUND;
		*payloads &= ~bit;
		return 0;
	default:
		*ret_payload = (uint64_t)__builtin_ctz(*payloads | 256);
		return *payloads ? 0 : -NAM_E_NOTFOUND;
	}
}

static bool
known(const struct sim_op *op)
{
	return op->return_order != SIM_NEVER && op->rc != -NAM_E_FABRIC_TIMEOUT;
}

/* Whether one of those left must come before this one. */
static bool
is_preceded(unsigned left, size_t number)
{
	for (size_t i = 0; i < history.ops_count; i++)
		if (left >> i & 1 && i != number && known(&history.ops[i]) &&
				history.ops[i].return_order < history.ops[number].call_order)
			return true;
	return false;
}

/* All orders of what is left, tried. */
static bool
orders_exist(unsigned left, unsigned payloads)
{
	bool all = true;

	if (evicts && payloads && orders_exist(left, 0))
		return true;
	for (size_t i = 0; i < history.ops_count; i++) {
		const struct sim_op *op = &history.ops[i];
		unsigned after = payloads;
		uint64_t payload = op->payload;

		if (!(left >> i & 1))
			continue;
		all = all && !known(op);
		if (is_preceded(left, i))
			continue;
		if (model(op, &after, &payload) != (known(op) ? op->rc : 0))
			continue;
		if (known(op) && op->kind == SIM_LOOKUP && op->rc == 0 && payload != op->payload)
			continue;
		if (orders_exist(left & ~(1u << i), after))
			return true;
	}
	return all;
}

/* A random operation's result; half of the time the sequential one. */
static int
random_rc(struct nam_rng *rng, enum sim_kind kind)
{
	if (nam_rng_below(rng, 8) == 0)
		return -NAM_E_FABRIC_TIMEOUT;
	if (kind == SIM_UPSERT || nam_rng_below(rng, 3) != 0)
		return 0;
	return kind == SIM_INSERT ? -NAM_E_EXISTS : -NAM_E_NOTFOUND;
}

static void
random_small_history(struct nam_rng *rng)
{
	static const enum sim_kind kinds[] = { SIM_INSERT, SIM_UPSERT, SIM_DELETE_PAIR, SIM_LOOKUP,
		SIM_LOOKUP, SIM_UPDATE, SIM_DELETE };
	static const enum sim_kind of_cache[] = { SIM_UPSERT, SIM_DELETE, SIM_LOOKUP, SIM_LOOKUP };
	size_t open[SMALL_OPS], opened = 0, ops = 2 + nam_rng_below(rng, SMALL_OPS - 1);

	sim_history_free(&history);
	while (history.ops_count < ops || opened > 0) {
		if (history.ops_count < ops && opened < 4 && nam_rng_below(rng, 2)) {
			enum sim_kind kind = evicts ? of_cache[nam_rng_below(rng, 4)] :
				kinds[nam_rng_below(rng, unique ? 7 : 5)];

			open[opened++] = call(kind, 7, 1 + nam_rng_below(rng, 3));
		} else if (opened > 0) {
			size_t which = nam_rng_below(rng, opened), op = open[which];

			open[which] = open[--opened];
			if (nam_rng_below(rng, 8) != 0)
				returns(op, random_rc(rng, history.ops[op].kind),
					1 + nam_rng_below(rng, 3));
		}
	}
}

static void
expect_as_all_orders_say(uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);
	size_t truths = 0;

	for (unsigned i = 0; i < 20000; i++) {
		bool truth;

		random_small_history(&rng);
		truth = orders_exist((1u << history.ops_count) - 1, 0);
		truths += truth;
		if (check().violations != !truth) {
			sim_history_write_json(&history, stdout);
			fail_msg("history %u is %s\n%s", i, truth ? "true" : "false", told);
		}
	}
	assert_in_range(truths, 4000, 16000);
}

static void
linearizable__small_random_histories__AS_ALL_ORDERS_SAY(void **state)
{
	(void)state;
	expect_as_all_orders_say(1);
}

static void
linearizable_cache__small_random_histories__AS_ALL_ORDERS_SAY(void **state)
{
	(void)state;
	evicts = true;
	expect_as_all_orders_say(3);
	evicts = false;
}

/* Pairs are looked at one by one, so false histories may pass; true ones must. */
static void
linearizable_pairs__small_random_histories__TRUE_ONES_ACCEPTED(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);
	size_t truths = 0, rejected = 0;

	(void)state;
	unique = false;
	for (unsigned i = 0; i < 20000; i++) {
		bool truth;

		random_small_history(&rng);
		truth = orders_exist((1u << history.ops_count) - 1, 0);
		truths += truth;
		if (check().violations) {
			rejected++;
			if (truth) {
				sim_history_write_json(&history, stdout);
				fail_msg("history %u is true\n%s", i, told);
			}
		}
	}
	unique = true;
	assert_in_range(truths, 2000, 18000);
	assert_true(rejected * 10 > (20000 - truths) * 9);
}

/* ---- long ------------------------------------------------------------------------------------ */

static void
generate_with(uint64_t seed, enum lie lie)
{
	generator = (struct generator){
		.seed = seed,
		.ops = 3000,
		.keys = 10 + (uint32_t)(seed % 3) * 40,
		.sessions = 2 + (uint32_t)(seed % 5),
		.faults_percent = seed % 2 ? 1 : 0,
		.scans_percent = 10,
		.lie = lie,
	};
	sim_history_free(&history);
	generate(&generator, &history);
}

static void
linearizable__generated_histories__ACCEPTED(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 30; seed++) {
		generate_with(seed, LIE_NONE);
		assert_true_history();
	}
}

static void
linearizable__generated_lies__REJECTED(void **state)
{
	(void)state;
	for (enum lie lie = LIE_NONE + 1; lie < LIES; lie++) {
		/* To repeat an entry is no lie about a key. */
		if (lie == LIE_SCAN_REPEATS)
			continue;
		for (uint64_t seed = 0; seed < 5; seed++) {
			generate_with(seed, lie);
			assert_true(check().violations > 0);
		}
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(linearizable__nothing__ACCEPTED),
		TEST(linearizable__one_after_another__ACCEPTED),
		TEST(linearizable__overlapping_writes_seen_in_either_order__ACCEPTED),
		TEST(linearizable__overlapping_writes_of_which_one_is_ruled_out__ACCEPTED),
		TEST(linearizable__a_dead_clients_write_seen_much_later__ACCEPTED),
		TEST(linearizable__a_dead_clients_delete_makes_room_for_an_insert__ACCEPTED),
		TEST(linearizable__a_fabric_error_whose_write_comes_late__ACCEPTED),
		TEST(linearizable__an_insert_that_was_lost__REJECTED),
		TEST(linearizable__an_insert_that_succeeds_twice__REJECTED),
		TEST(linearizable__a_stale_lookup__REJECTED),
		TEST(linearizable__a_new_value_and_then_the_old_one_during_the_write__REJECTED),
		TEST(linearizable__a_value_that_nobody_wrote__REJECTED),
		TEST(linearizable__a_value_of_another_key__REJECTED),
		TEST(linearizable__a_deleted_key_that_comes_back__REJECTED),
		TEST(linearizable__a_value_read_before_its_write_was_called__REJECTED),
		TEST(linearizable__two_deletes_of_one_insert__REJECTED),
		TEST(linearizable__a_write_refused_for_lack_of_room_that_is_seen__REJECTED),
		TEST(linearizable__a_dead_clients_insert_used_twice__REJECTED),
		TEST(linearizable__two_scans_that_disagree_on_an_order__REJECTED),
		TEST(linearizable__many_faults_on_few_keys__DECIDED),
		TEST(linearizable__too_many_states__UNDECIDED),
		TEST(linearizable_pairs__one_after_another__ACCEPTED),
		TEST(linearizable_pairs__not_the_smallest_payload__REJECTED),
		TEST(linearizable_pairs__nothing_found_where_a_pair_is__REJECTED),
		TEST(linearizable_cache__a_key_goes_again_and_again__ACCEPTED),
		TEST(linearizable_cache__a_key_that_went_comes_back__REJECTED),
		TEST(linearizable_cache__the_value_before_the_last_one__REJECTED),
		TEST(linearizable_cache__deletes_what_went_before__REJECTED),
		TEST(linearizable__small_random_histories__AS_ALL_ORDERS_SAY),
		TEST(linearizable_cache__small_random_histories__AS_ALL_ORDERS_SAY),
		TEST(linearizable_pairs__small_random_histories__TRUE_ONES_ACCEPTED),
		TEST(linearizable__generated_histories__ACCEPTED),
		TEST(linearizable__generated_lies__REJECTED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
