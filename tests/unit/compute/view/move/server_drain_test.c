/* SPDX-License-Identifier: Apache-2.0 */
/* server_drain_test.c -- a drain under the lease of a view store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/admin.h"
#include "compute/view/view_store.h"
#include "tests/lib/cluster.h"

#define MEMORY (1u << 20)

/* That of the lead, and a lease beside it. */
struct leased {
	struct nam__view_store store;
	struct nam__view_store *lead;
	unsigned renewed;
	int renew_rc;
};

struct fixture {
	struct local_cluster *cluster;
	struct nam_client_options options;
	struct leased leased;
	uint32_t moved;
	struct nam_diag diag;
};

/* ---- the store ----------------------------------------------------------------------------- */

static struct leased *
leased_of(struct nam__view_store *store)
{
	return (struct leased *)((char *)store - offsetof(struct leased, store));
}

static int
get(struct nam__view_store *store, struct nam_worker *lead, struct nam__cluster_view **ret_view,
	struct nam_diag *diag)
{
	struct nam__view_store *inner = leased_of(store)->lead;

	return inner->ops->get(inner, lead, ret_view, diag);
}

static int
change(struct nam__view_store *store, struct nam_worker *lead, const struct nam__cluster_view *view,
	enum nam_rpc_view_change what, const struct nam_view_member *member, struct nam_diag *diag)
{
	struct nam__view_store *inner = leased_of(store)->lead;

	return inner->ops->change(inner, lead, view, what, member, diag);
}

static int
renew(struct nam__view_store *store, struct nam_worker *lead, struct nam_diag *diag)
{
	struct leased *leased = leased_of(store);

	(void)lead;
	(void)diag;
	leased->renewed++;
	return leased->renew_rc;
}

static const struct nam__view_store_ops ops = { .get = get, .change = change, .renew = renew };

/* ---- two memory servers, of which the lead has room ---------------------------------------- */

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const char *list;

	assert_non_null(f);
	f->cluster = local_cluster_start_spare(2, MEMORY, MEMORY / 2, MEMORY);
	list = local_cluster_list(f->cluster);
	/* It forms the view. */
	nam_client_close(test_connect(list, "first", 0));
	nam_client_options_init(&f->options);
	f->options.cluster = list;
	f->leased = (struct leased){ .store = { .ops = &ops, .name = "leased", .term = 7 },
		.lead = nam__view_store_embedded(0) };
	assert_non_null(f->leased.lead);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	f->leased.lead->ops->close(f->leased.lead);
	local_cluster_stop(f->cluster);
	free(f);
	return 0;
}

static int
drain(struct fixture *f)
{
	f->options.view_store = &f->leased.store;
	return nam_server_drain(&f->options, "1", NULL, NULL, &f->moved, &f->diag);
}

/* ---- tests --------------------------------------------------------------------------------- */

/* The memory of a successor may take longer than the lease lasts. */
static void
drain__STORE_LEADS__RENEWS_ITS_LEASE(void **state)
{
	struct fixture *f = *state;

	if (drain(f))
		fail_msg("%s", f->diag.text);
	assert_int_equal(f->moved, 1);
	assert_true(f->leased.renewed > 0);
}

static void
drain__STORE_DOES_NOT_LEAD__RENEWS_NOTHING(void **state)
{
	struct fixture *f = *state;

	f->leased.store.term = 0;
	if (drain(f))
		fail_msg("%s", f->diag.text);
	assert_int_equal(f->moved, 1);
	assert_int_equal(f->leased.renewed, 0);
}

static void
drain__LEASE_HAS_ENDED__SAYS_SO_AND_MOVES_NOTHING(void **state)
{
	struct fixture *f = *state;

	f->leased.renew_rc = -NAM_E_TERM;
	assert_int_equal(drain(f), -NAM_E_TERM);
	assert_non_null(strstr(f->diag.text, "the lease of this process"));
	assert_int_equal(f->moved, 0);
	/* The next one leads, and finds all as it was. */
	f->leased.renew_rc = 0;
	assert_int_equal(drain(f), 0);
	assert_int_equal(f->moved, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(drain__STORE_LEADS__RENEWS_ITS_LEASE, setup,
			teardown),
		cmocka_unit_test_setup_teardown(drain__STORE_DOES_NOT_LEAD__RENEWS_NOTHING, setup,
			teardown),
		cmocka_unit_test_setup_teardown(drain__LEASE_HAS_ENDED__SAYS_SO_AND_MOVES_NOTHING,
			setup, teardown),
	};

	return cmocka_run_group_tests_name("compute/view/move/server_drain", tests, NULL, NULL);
}
