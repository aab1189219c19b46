/* SPDX-License-Identifier: Apache-2.0 */
/* host_test.c -- successors within the process of a memory server. */
#include <errno.h>
#include <unistd.h>

#include "memserver/move/host.h"
#include "tests/unit/memserver/server_fixture.h"

#define TIMEOUT_NS 30000000000ull
#define MEMORY (1u << 20)
#define REGION (512u << 10)

static int
setup(void **state)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;

	assert_non_null(f);
	fixture_options(f, &options);
	options.spare_bytes = 5 * MEMORY / 2;
	fixture_start(f, &options);
	*state = f;
	return 0;
}

static int
host(struct fixture *f, uint32_t id, uint64_t bytes, struct nam_rpc_move_hosted *ret)
{
	const struct nam_rpc_move_host wanted = { .memory_bytes = bytes, .region_bytes = REGION,
		.id = id };
	uint64_t until_ns = nam_now_ns() + TIMEOUT_NS;
	int rc;

	do {
		rc = nam__hosted_start(f->server, &wanted, ret);
	} while (!rc && !ret->ready && nam_now_ns() < until_ns && !usleep(1000));
	return rc;
}

static int
unhost(struct fixture *f, uint32_t id, uint64_t boot)
{
	const struct nam_rpc_move_host wanted = { .id = id, .hosted = boot };

	return nam__hosted_end(f->server, &wanted);
}

static int
count(struct nam_server *hosted, void *arg)
{
	assert_int_equal(hosted->phase, NAM_SERVER_SUCCESSOR);
	*(unsigned *)arg += 1;
	return 0;
}

/* Each has its own address, and memory out of what is to spare; the end of the host ends them. */
static void
hosted__ROOM_FOR_TWO__STARTS_TWO(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_move_hosted one, two, again;
	unsigned all = 0;

	assert_int_equal(nam__hosted_spare(f->server), 5 * MEMORY / 2);
	assert_int_equal(host(f, 1, MEMORY, &one), 0);
	assert_int_equal(one.ready, 1);
	assert_int_equal(one.total_bytes, MEMORY);
	assert_int_equal(one.phase, NAM_SERVER_SUCCESSOR);
	assert_int_equal(host(f, 2, MEMORY, &two), 0);
	assert_int_not_equal(one.number, two.number);
	assert_int_not_equal(one.boot, two.boot);
	assert_int_equal(nam__hosted_spare(f->server), MEMORY / 2);
	/* The same again is a question; other regions are another wish. */
	assert_int_equal(host(f, 1, MEMORY, &again), 0);
	assert_memory_equal(&again, &one, sizeof(one));
	assert_int_equal(host(f, 1, MEMORY / 2, &again), -EEXIST);
	assert_int_equal(host(f, 3, MEMORY, &again), -EDQUOT);
	assert_int_equal(nam__hosted_each(f->server, count, &all), 0);
	assert_int_equal(all, 2);
}

static void
hosted__ITS_OWN_ID_OR_BAD_SIZES__ARE_REFUSED(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_move_hosted none;

	assert_int_equal(host(f, 0, MEMORY, &none), -EEXIST);
	assert_int_equal(host(f, NAM_SERVERS_MAX, MEMORY, &none), -EEXIST);
	assert_int_equal(host(f, 1, 0, &none), -EINVAL);
	assert_int_equal(nam__hosted_spare(f->server), 5 * MEMORY / 2);
}

/* An address that is taken is left out. */
static void
hosted__ADDRESS_IS_TAKEN__TAKES_THE_NEXT(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_move_hosted one;
	struct nam_server_options options;
	struct nam_server *other;
	char address[sizeof(f->address) + 8];

	nam_server_options_init(&options);
	(void)snprintf(address, sizeof(address), "%s.1", f->address);
	options.listen = address;
	options.memory_bytes = MEMORY;
	options.pages = NAM_PAGES_4K;
	options.id = 9;
	assert_int_equal(nam_server_start(&options, &other, NULL, &f->diag), 0);
	assert_int_equal(host(f, 1, MEMORY, &one), 0);
	assert_int_equal(one.number, 2);
	nam_server_destroy(other);
}

/* The cause is told once; the next wish tries anew. */
static void
hosted__DOES_NOT_START__SAYS_WHY(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_move_hosted one;
	char listen[sizeof(f->server->listen)];

	memcpy(listen, f->server->listen, sizeof(listen));
	memset(f->server->listen + strlen("shm:"), 'x', sizeof(listen) - 1 - strlen("shm:"));
	assert_int_equal(host(f, 1, MEMORY, &one), -ENAMETOOLONG);
	memcpy(f->server->listen, listen, sizeof(listen));
	assert_int_equal(nam__hosted_spare(f->server), 5 * MEMORY / 2);
	assert_int_equal(host(f, 1, MEMORY, &one), 0);
	assert_int_equal(one.ready, 1);
}

/* It ends only if it is that one, and has had no connection for a while. */
static void
hosted__UNHOST__ENDS_THAT_ONE(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_move_hosted one;
	uint64_t until_ns, from_ns;
	int rc;

	assert_int_equal(unhost(f, 1, 4711), 0);
	assert_int_equal(host(f, 1, MEMORY, &one), 0);
	from_ns = nam_now_ns();
	until_ns = from_ns + TIMEOUT_NS;
	assert_int_equal(unhost(f, 1, one.boot + 2), -NAM_E_CLUSTER);
	do {
		rc = unhost(f, 1, one.boot);
	} while (rc == -EAGAIN && nam_now_ns() < until_ns && !usleep(10000));
	assert_int_equal(rc, 0);
	assert_true(nam_now_ns() - from_ns > 4000000000ull);
	assert_int_equal(nam__hosted_spare(f->server), 5 * MEMORY / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hosted__ROOM_FOR_TWO__STARTS_TWO, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(hosted__ITS_OWN_ID_OR_BAD_SIZES__ARE_REFUSED, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(hosted__ADDRESS_IS_TAKEN__TAKES_THE_NEXT, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(hosted__DOES_NOT_START__SAYS_WHY, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(hosted__UNHOST__ENDS_THAT_ONE, setup,
			fixture_teardown),
	};

	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
