/* SPDX-License-Identifier: Apache-2.0 */
/* figure_model_test.c -- the model of Ziegler et al., section 2.3, and its table 1. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "bench/figure.h"

#define PAGE 1024.0
#define LEAVES 2343750.0	/* 100 M of 8-byte keys, 42.67 in a node: "approx. 2.3M" */
#define BANDWIDTH 50e9

static double keys = 100e6;

static struct figure_model
model(bool fine, bool hashed, bool skewed, double selectivity, double amplification)
{
	struct figure_model_input input = {
		.fine = fine,
		.hashed = hashed,
		.skewed = skewed,
		.memservers = 4,
		.bytes_per_s = BANDWIDTH,
		.node_bytes = PAGE,
		.keys = keys,
		.selectivity = selectivity,
		.amplification = amplification,
	};
	struct figure_model made = { 0 };

	figure_model(&input, &made);
	assert_true(made.known);
	assert_true(fabs(made.ops_per_s * made.bytes_per_op / made.bytes_per_s - 1) < 1e-12);
	return made;
}

static void
near(double value, double wanted)
{
	if (fabs(value - wanted) > 1e-9 * wanted)
		fail_msg("%.17g instead of %.17g", value, wanted);
}

static void
point__uniform__TAKES_A_PAGE_A_LEVEL(void **state)
{
	(void)state;
	near(model(true, false, false, 0, 10).bytes_per_op, 4 * PAGE);
	near(model(false, false, false, 0, 10).bytes_per_op, 4 * PAGE);
	near(model(true, false, false, 0, 10).bytes_per_s, 4 * BANDWIDTH);
	near(model(false, false, false, 0, 10).bytes_per_s, 4 * BANDWIDTH);
}

static void
point__tree_on_each_server__MAY_BE_LOWER(void **state)
{
	(void)state;
	/* 3.5 M leaves need a fifth level, a quarter of them does not; skewed most are in one. */
	keys = 150e6;
	near(model(true, false, false, 0, 1).bytes_per_op, 5 * PAGE);
	near(model(false, false, false, 0, 1).bytes_per_op, 4 * PAGE);
	near(model(false, false, true, 0, 1).bytes_per_op, 5 * PAGE);
	keys = 100e6;
}

static void
point__skewed__READS_Z_PAGES_MORE(void **state)
{
	(void)state;
	near(model(true, false, true, 0, 10).bytes_per_op, 14 * PAGE);
	near(model(false, false, true, 0, 10).bytes_per_op, 14 * PAGE);
	/* Without read amplification as if it were uniform. */
	near(model(true, false, true, 0, 1).bytes_per_op, 4 * PAGE);
}

static void
range__uniform__READS_ITS_SHARE_OF_THE_LEAVES(void **state)
{
	(void)state;
	near(model(true, false, false, 0.001, 10).bytes_per_op, (4 + 0.001 * LEAVES) * PAGE);
	near(model(false, false, false, 0.001, 10).bytes_per_op, (4 + 0.001 * LEAVES) * PAGE);
	/* By hash each of four servers goes down its tree. */
	near(model(false, true, false, 0.001, 10).bytes_per_op, (16 + 0.001 * LEAVES) * PAGE);
}

static void
range__skewed__COARSE_HAS_ONE_MEMORY_SERVER(void **state)
{
	(void)state;
	near(model(true, false, true, 0.001, 10).bytes_per_op, (4 + 0.01 * LEAVES) * PAGE);
	near(model(true, false, true, 0.001, 10).bytes_per_s, 4 * BANDWIDTH);
	near(model(false, false, true, 0.001, 10).bytes_per_s, BANDWIDTH);
	near(model(false, true, true, 0.001, 10).bytes_per_s, BANDWIDTH);
}

static void
port__machine_shared__IS_A_SHARE_OF_ITS_PORTS(void **state)
{
	struct nam_sim_network network = { .ports = 2, .memservers_per_machine = 2,
		.port_bytes_per_ns = 6.8 };

	(void)state;
	near(figure_port_bytes_per_s(&network), 6.8e9);
	/* Alone it has one port all the same; four share two. */
	network.memservers_per_machine = 1;
	near(figure_port_bytes_per_s(&network), 6.8e9);
	network.memservers_per_machine = 4;
	near(figure_port_bytes_per_s(&network), 3.4e9);
}

static void
shares__any_number_of_servers__ARE_A_HUNDRED(void **state)
{
	char text[FIGURE_SHARES_BYTES];

	(void)state;
	figure_shares(4, text);
	assert_string_equal(text, "80,12,5,3");
	figure_shares(1, text);
	assert_string_equal(text, "");
	for (unsigned memservers = 2; memservers <= 64; memservers++) {
		double sum = 0;
		char *next = text, *item;

		figure_shares(memservers, text);
		while ((item = strsep(&next, ","))) {
			double share = strtod(item, NULL);

			assert_true(share > 0);
			sum += share;
		}
		assert_true(fabs(sum - 100) < 0.001);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(point__uniform__TAKES_A_PAGE_A_LEVEL),
		cmocka_unit_test(point__tree_on_each_server__MAY_BE_LOWER),
		cmocka_unit_test(point__skewed__READS_Z_PAGES_MORE),
		cmocka_unit_test(range__uniform__READS_ITS_SHARE_OF_THE_LEAVES),
		cmocka_unit_test(range__skewed__COARSE_HAS_ONE_MEMORY_SERVER),
		cmocka_unit_test(port__machine_shared__IS_A_SHARE_OF_ITS_PORTS),
		cmocka_unit_test(shares__any_number_of_servers__ARE_A_HUNDRED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
