/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory servers an index lies on, while the cluster grows; and when it is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/guard.h"
#include "index/coarse/coarse.h"
#include "tests/lib/index_fixture.h"

#define MIB (1ull << 20)

TEST_CLUSTER(2, 4 * MIB, 1 * MIB, 200)

static void
create_of(enum nam_index_design design)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.design = design;
	assert_int_equal(nam_index_create(me.worker, "x", &options), 0);
}

/* As the view says of the second memory server. */
static int
open_after(uint64_t since, uint64_t renewed)
{
	struct nam__server *server = &me.client->servers[me.client->slot_of_id[1]];
	uint64_t since_now = server->view_since, renewed_now = server->view_renewed;
	struct nam_index *index;
	int rc;

	server->view_since = since;
	server->view_renewed = renewed;
	rc = nam_index_open(me.worker, "x", 0, &index);
	if (!rc)
		nam_index_close(index);
	server->view_since = since_now;
	server->view_renewed = renewed_now;
	return rc;
}

/*
 * In view 5 both are members.  Its boot is the one that the superblock has, if it has any.  So it
 * is with a server that was added after the index was made, and has nodes of it since.
 */
static void
open__member_renewed_since__LOST(void **state)
{
	static const enum nam_index_design designs[] = { NAM_DESIGN_FINE, NAM_DESIGN_HYBRID };
	uint64_t number = atomic_exchange(&me.client->view_number, 5);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		create_of(designs[i]);
		assert_int_equal(open_after(2, 2), 0);
		/* It was restarted before the index was made, */
		assert_int_equal(open_after(2, 5), 0);
		/* or is new, */
		assert_int_equal(open_after(7, 7), 0);
		/* or is joining. */
		assert_int_equal(open_after(0, 0), 0);
		assert_int_equal(open_after(2, 6), -NAM_E_LOST);
		member_says(&me, "memory server 1, which may have nodes of index 'x'");
		assert_int_equal(open_after(6, 7), -NAM_E_LOST);
		/* In other builds it cannot be turned off. */
		if (!nam_guard_off("view-lost")) {
			assert_int_equal(open_after(2, 6), 0);
			nam_guards_on();
		}
		assert_int_equal(nam_index_drop(me.worker, "x"), 0);
	}
	me.client->view_number = number;
}

/* Its parts are on the memory servers that the superblock names, and so are all its nodes. */
static void
open__coarse_and_another_member_renewed__OPENS(void **state)
{
	uint64_t number = atomic_exchange(&me.client->view_number, 5);

	(void)state;
	create_of(NAM_DESIGN_COARSE);
	assert_int_equal(open_after(6, 7), 0);
	assert_int_equal(nam_index_drop(me.worker, "x"), 0);
	me.client->view_number = number;
}

/* A process with another boot may have the memory; another memory has no nodes. */
static void
open__of_another_boot__LOST_if_the_memory_is_another(void **state)
{
	struct nam__server *server = &me.client->servers[me.client->slot_of_id[1]];
	uint64_t boot = server->boot, memory = server->memory;
	struct nam_index *index;

	(void)state;
	for (int design = NAM_DESIGN_FINE; design <= NAM_DESIGN_HYBRID; design++) {
		create_of((enum nam_index_design)design);
		server->boot = boot + 1;
		assert_int_equal(nam_index_open(me.worker, "x", MIB, &index), 0);
		nam_index_close(index);
		server->memory = memory + 1;
		assert_int_equal(nam_index_open(me.worker, "x", MIB, &index), -NAM_E_LOST);
		server->boot = boot;
		server->memory = memory;
		assert_int_equal(nam_index_drop(me.worker, "x"), 0);
	}
}

/* A memory server joins: clients know it, and nothing is made there. */
static void
create__a_server_joins__LIES_ON_THE_OTHERS(void **state)
{
	struct nam__server *server = &me.client->servers[me.client->slot_of_id[1]];
	struct nam_index *index;

	(void)state;
	for (int design = NAM_DESIGN_FINE; design <= NAM_DESIGN_HYBRID; design++) {
		server->usable = server->joined = false;
		create_of((enum nam_index_design)design);
		server->usable = server->joined = true;
		assert_int_equal(nam_index_open(me.worker, "x", MIB, &index), 0);
		assert_int_equal(index->servers[0], 1);
		if (index->parts)
			assert_int_equal(index->parts->count, 1);
		tree_fill(me.worker, index, 0, 500, 1);
		tree_check(me.worker, index, 500);
		nam_index_close(index);
		assert_int_equal(nam_index_drop(me.worker, "x"), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__member_renewed_since__LOST),
		cmocka_unit_test(open__coarse_and_another_member_renewed__OPENS),
		cmocka_unit_test(open__of_another_boot__LOST_if_the_memory_is_another),
		cmocka_unit_test(create__a_server_joins__LIES_ON_THE_OTHERS),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
