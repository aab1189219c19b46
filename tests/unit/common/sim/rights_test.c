/* SPDX-License-Identifier: Apache-2.0 */
/* rights_test.c -- clients that may only READ, in the simulator. */
#include "sim_fixture.h"

static void
run_profiles(void (*body)(struct world *world))
{
	struct world *world = malloc(sizeof(*world));

	assert_non_null(world);
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		world_init(world, profile, body);
		world_run(world, 1);
		assert_int_equal(world->rc, 0);
	}
	free(world);
}

static void
open_one(struct world *world)
{
	end_open(world, &world->ends[0]);
	assert_int_equal(end_connect(&world->ends[0], NULL), 0);
}

/* A client that may only READ: its other requests are not carried out. */
static void
reader_body(struct world *world)
{
	static const enum nam_wr_op others[] = { NAM_WR_WRITE, NAM_WR_CAS, NAM_WR_FETCH_ADD };
	struct end *writer = &world->ends[0], *reader = &world->ends[1];

	open_one(world);
	world->rights = NAM_MR_REMOTE_READ;
	memset(world->memory + 64, 0xaa, 64);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		end_open(world, reader);
		assert_int_equal(end_connect(reader, NULL), 0);
		carry_out(reader, (struct nam_wr[]){ request(reader, NAM_WR_READ, 64, 0, 64) }, 1);
		assert_int_equal(reader->local[63], 0xaa);
		reader->local[0] = 0x55;
		post(reader, (struct nam_wr[]){ request(reader, others[i], 64, 0, 8) }, 1);
		assert_int_equal(next(reader).status, -NAM_E_FABRIC_ACCESS);
		assert_int_equal(world->memory[64], 0xaa);
		end_close(reader);
	}
	carry_out(writer, (struct nam_wr[]){ request(writer, NAM_WR_WRITE, 64, 0, 64) }, 1);
	end_close(writer);
}

static void
post__client_may_only_read__OTHERS_ARE_REFUSED(void **state)
{
	(void)state;
	run_profiles(reader_body);
}

/* Its mailbox at the memory server: the flags of a card's queue pair hold for that, too. */
static void
share_body(struct world *world)
{
	struct end *writer = &world->ends[0], *reader = &world->ends[1];
	bool free = nam_sim_profile_caps(world->options.profile) & NAM_CAP_READER_SHARE;
	struct nam_mr share;
	struct nam_diag diag;
	struct nam_wr wr;

	open_one(world);
	assert_int_equal(ops()->share_alloc(world->server_domain, 64, &share, &diag), 0);
	world->rights = NAM_MR_REMOTE_READ;
	end_open(world, reader);
	assert_int_equal(end_connect(reader, NULL), 0);
	wr = request(reader, NAM_WR_WRITE, 0, 0, 8);
	wr.remote = share.remote;
	wr.rkey = share.rkey;
	post(reader, &wr, 1);
	assert_int_equal(next(reader).status, free ? 0 : -NAM_E_FABRIC_ACCESS);
	end_close(reader);
	end_close(writer);
	ops()->mr_release(world->server_domain, &share);
}

static void
write__into_the_share_by_a_reader__AS_THE_CAPABILITY_SAYS(void **state)
{
	(void)state;
	run_profiles(share_body);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(post__client_may_only_read__OTHERS_ARE_REFUSED),
		cmocka_unit_test(write__into_the_share_by_a_reader__AS_THE_CAPABILITY_SAYS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
