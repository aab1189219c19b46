/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netem_test.c -- the tcp provider over a wire that is slow or lossy; takes tc and the kernel's
 * netem, and is skipped without.
 */
#include "wire_fixture.h"

static void
over_a_bad_wire(struct fixture *f, const char *netem)
{
	struct adds adds = { 0 };
	char command[256];

	(void)snprintf(command, sizeof(command), "tc qdisc replace dev l0 root netem %s", netem);
	assert_int_equal(in_namespace(left, command), 0);
	(void)snprintf(command, sizeof(command), "tc qdisc replace dev r0 root netem %s", netem);
	assert_int_equal(in_namespace(right, command), 0);
	adds_run(f, &adds, 2000);
	while (adds.done < adds.posted)
		adds_take(f, &adds);
	assert_int_equal(remote_word(f, 0), adds.posted);
	for (unsigned i = 0; i < 1u << 20; i++)
		f->client.local[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_WRITE, 64, 0, 1u << 20)), 0);
	assert_memory_equal(remote(f, 64), f->client.local, 1u << 20);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 64, 2u << 20, 1u << 20)), 0);
	assert_memory_equal(f->client.local + (2u << 20), f->client.local, 1u << 20);
}

static void
wire__that_delays__CARRIES_EVERYTHING(void **state)
{
	over_a_bad_wire(*state, "delay 10ms 3ms");
}

static void
wire__that_loses__CARRIES_EVERYTHING_ONCE(void **state)
{
	over_a_bad_wire(*state, "delay 1ms loss 3%");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, wire_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wire__that_delays__CARRIES_EVERYTHING),
		TEST(wire__that_loses__CARRIES_EVERYTHING_ONCE),
	};

	if (!namespaces_open()) {
		puts("skip: network namespaces take root, and ip and nsenter");
		return 77;
	}
	if (in_namespace(left, "tc qdisc add dev l0 root netem delay 1ms")) {
		puts("skip: this kernel has no netem, or tc is not installed");
		return 77;
	}
	(void)in_namespace(left, "tc qdisc del dev l0 root");
	(void)setenv("NAM_TEST_FABRIC", "tcp:" LEFT ":0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
