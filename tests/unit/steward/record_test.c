/* SPDX-License-Identifier: Apache-2.0 */
/* record_test.c -- changes that another store decides, and its record as text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/view/fence.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"
#include "steward/record.h"
#include "steward/record_json.h"
#include "tests/lib/cluster.h"

#define LEASE_MS 1000u
#define SUCCESSOR 5000u			/* a boot */

/* ---- a keeper in memory ---------------------------------------------------------------------- */

/* All keepers have it in common. */
static struct {
	char *text;			/* as record_json.c writes it; NULL: no record */
	uint64_t revision, term;
} kept;

struct own {
	struct nam__keeper keeper;
	uint64_t term;
};

static int
kept_read(struct nam__keeper *keeper, struct nam__record *ret_record, struct nam_diag *diag)
{
	(void)keeper;
	(void)diag;
	memset(ret_record, 0, sizeof(*ret_record));
	ret_record->revision = kept.revision;
	return kept.text ? nam__record_parse(kept.text, ret_record) : 0;
}

static int
kept_write(struct nam__keeper *keeper, const struct nam__record *record, uint64_t term,
	struct nam_diag *diag)
{
	(void)keeper;
	(void)diag;
	if (term && term != kept.term)
		return -NAM_E_TERM;
	if (record->revision != kept.revision)
		return -NAM_E_VIEW;
	free(kept.text);
	kept.text = nam__record_print(record);
	kept.revision++;
	return kept.text ? 0 : -ENOMEM;
}

/* The lease of the one before ends at once. */
static int
kept_acquire(struct nam__keeper *base, uint32_t lease_ms, uint64_t *ret_term,
	struct nam_diag *diag)
{
	(void)lease_ms;
	(void)diag;
	((struct own *)base)->term = ++kept.term;
	*ret_term = kept.term;
	return 0;
}

static int
kept_renew(struct nam__keeper *base, struct nam_diag *diag)
{
	(void)diag;
	return ((struct own *)base)->term == kept.term ? 0 : -NAM_E_TERM;
}

static void
kept_release(struct nam__keeper *keeper)
{
	(void)keeper;
}

static void
kept_close(struct nam__keeper *keeper)
{
	free(keeper);
}

static const struct nam__keeper_ops kept_ops = {
	.name = "kept",
	.read = kept_read,
	.write = kept_write,
	.acquire = kept_acquire,
	.renew = kept_renew,
	.release = kept_release,
	.close = kept_close,
};

/* ---- a cluster ------------------------------------------------------------------------------- */

static struct local_cluster *cluster;
static struct nam_client *lead;

static int
setup(void **state)
{
	struct nam_client_options options;
	struct nam_diag diag;

	(void)state;
	memset(&kept, 0, sizeof(kept));
	cluster = local_cluster_start(3, 4 << 20, 1 << 20);
	nam_client_close(test_connect(local_cluster_list(cluster), "first", 0));
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	if (nam__prober_open(&options, local_cluster_address(cluster, 0), 0, false, &lead, &diag))
		test_die("%s", diag.text);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	nam__client_free(lead);
	local_cluster_stop(cluster);
	free(kept.text);
	return 0;
}

static struct nam__view_store *
store_open(bool leads)
{
	struct own *own = calloc(1, sizeof(*own));
	struct nam__view_store *store;
	struct nam_diag diag;

	assert_non_null(own);
	own->keeper.ops = &kept_ops;
	store = nam__view_store_recorded(&own->keeper, LEASE_MS);
	assert_non_null(store);
	if (leads)
		assert_int_equal(store->ops->acquire(store, lead->epoch_worker, &diag), 0);
	return store;
}

static struct nam__cluster_view *
get(struct nam__view_store *store)
{
	struct nam__cluster_view *view = NULL;
	struct nam_diag diag = { "" };

	if (store->ops->get(store, lead->epoch_worker, &view, &diag))
		fail_msg("%s", diag.text);
	return view;
}

/* Of the member with id 1. */
static int
change(struct nam__view_store *store, enum nam_rpc_view_change what, struct nam_diag *diag)
{
	struct nam__cluster_view *view = get(store);
	struct nam_view_member one = view->members[1];
	int rc;

	if (what == NAM_RPC_VIEW_MOVED) {
		one.boot = SUCCESSOR;
		(void)snprintf(one.address, sizeof(one.address), "shm:/successor");
	}
	rc = store->ops->change(store, lead->epoch_worker, view, what, &one, diag);
	free(view);
	return rc;
}

/* The first client is dead. */
static void
fence_first(struct nam__view_store *store)
{
	struct nam__cluster_view *view = get(store);
	struct nam_diag diag;
	uint32_t state;

	assert_int_equal(nam__client_fence(lead->epoch_worker, view, 1, 1, store->term,
		10000000000u, &state, &diag), 0);
	assert_int_equal(state, NAM_CLIENT_DEAD);
	free(view);
}

/* The state of member 1, and the number of its view; the record has the same. */
static enum nam_view_state
state_of(struct nam__view_store *store, uint64_t number)
{
	struct nam__cluster_view *view = get(store);
	struct nam__record record = { 0 };
	enum nam_view_state state = view->members[1].state;

	assert_int_equal(view->head.number, number);
	assert_int_equal(nam__record_parse(kept.text, &record), 0);
	assert_int_equal(record.view->head.number, number);
	assert_int_equal(record.view->members[1].state, state);
	assert_true(record.view->members[1].memory == view->members[1].memory);
	assert_true(record.view->members[1].boot == view->members[1].boot);
	free(record.view);
	free(view);
	return state;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void
change__move_and_moved_by_the_steward_that_leads__IS_IN_THE_RECORD(void **state)
{
	struct nam__view_store *store = store_open(true);
	struct nam__record record = { 0 };
	struct nam_diag diag;

	(void)state;
	assert_int_equal(change(store, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(state_of(store, 2), NAM_VIEW_MOVING);
	/* It is decided, and the lead waits for a client. */
	assert_int_equal(change(store, NAM_RPC_VIEW_MOVED, &diag), -NAM_E_VIEW);
	fence_first(store);
	assert_int_equal(state_of(store, 3), NAM_VIEW_UP);
	assert_int_equal(nam__record_parse(kept.text, &record), 0);
	assert_int_equal(record.change, NAM_RPC_VIEW_MOVED);
	assert_int_equal(record.view->members[1].boot, SUCCESSOR);
	assert_true(record.view->members[1].memory != SUCCESSOR);
	free(record.view);
	store->ops->close(store);
}

static void
change__move_without_the_lease__IS_TERM_and_says_what_to_do(void **state)
{
	struct nam__view_store *leads = store_open(true), *other = store_open(false);
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(state_of(leads, 1), NAM_VIEW_UP);
	assert_int_equal(change(other, NAM_RPC_VIEW_MOVE, &diag), -NAM_E_TERM);
	assert_non_null(strstr(diag.text, "steward"));
	assert_int_equal(change(leads, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(change(other, NAM_RPC_VIEW_MOVED, &diag), -NAM_E_TERM);
	assert_int_equal(state_of(leads, 2), NAM_VIEW_MOVING);
	other->ops->close(other);
	leads->ops->close(leads);
}

static void
get__the_mover_led_before__ITS_MOVE_IS_ABORTED(void **state)
{
	struct nam__view_store *mover = store_open(true), *next;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(change(mover, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(state_of(mover, 2), NAM_VIEW_MOVING);
	next = store_open(true);
	assert_int_equal(state_of(next, 3), NAM_VIEW_UP);
	assert_int_not_equal(change(mover, NAM_RPC_VIEW_MOVED, &diag), 0);
	assert_int_equal(state_of(next, 3), NAM_VIEW_UP);
	/* Its own goes on. */
	assert_int_equal(change(next, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(state_of(next, 4), NAM_VIEW_MOVING);
	mover->ops->close(mover);
	next->ops->close(next);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void
record_parse__what_was_printed__IS_THE_SAME(void **state)
{
	struct nam__record record = { .change = NAM_RPC_VIEW_MOVE, .view = nam__record_view_new() },
		again = { 0 };
	struct nam_view_member *one = &record.view->members[1];
	char *text;

	(void)state;
	record.view->head = (struct nam_view_head){ .number = 5, .lead_boot = 9, .count = 2 };
	for (uint16_t id = 0; id < 2; id++) {
		record.view->members[id] = (struct nam_view_member){ .id = id,
			.state = NAM_VIEW_UP, .boot = 70u + id, .memory = 70u + id, .since = 1,
			.renewed = 1 };
		(void)snprintf(record.view->members[id].address, 16, "shm:/%u", id);
	}
	one->state = NAM_VIEW_MOVING;
	one->memory = 3;
	record.member = *one;
	text = nam__record_print(&record);
	assert_non_null(strstr(text, "\"state\":\"moving\""));
	assert_non_null(strstr(text, "\"memory\":\"0000000000000003\""));
	assert_non_null(strstr(text, "\"change\":\"move\""));
	assert_int_equal(nam__record_parse(text, &again), 0);
	assert_int_equal(again.change, NAM_RPC_VIEW_MOVE);
	assert_memory_equal(again.view->members, record.view->members, 2 * sizeof(*one));
	free(again.view);
	free(record.view);
	free(text);
}

static int
parse_with(const char *field, struct nam__record *record)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "{\"number\":1,\"lead_boot\":\"0000000000000009\","
		"\"terms_before\":0,\"members\":[{\"id\":0,\"address\":\"shm:/0\","
		"\"state\":\"up\",\"boot\":\"0000000000000009\",%s\"since\":1,"
		"\"renewed\":1}]}", field);
	return nam__record_parse(text, record);
}

static void
record_parse__of_an_earlier_version__NO_MEMORY_HAS_MOVED(void **state)
{
	struct nam__record record = { 0 };

	(void)state;
	assert_int_equal(parse_with("", &record), 0);
	assert_int_equal(record.view->members[0].memory, 9);
	free(record.view);
	assert_int_equal(parse_with("\"memory\":\"0000000000000008\",", &record), 0);
	assert_int_equal(record.view->members[0].memory, 8);
	free(record.view);
	assert_int_equal(parse_with("\"memory\":\"0000000000000000\",", &record),
		-NAM_E_REMOTE_CORRUPT);
	assert_int_equal(parse_with("\"memory\":8,", &record), -NAM_E_REMOTE_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(change__move_and_moved_by_the_steward_that_leads__IS_IN_THE_RECORD),
		TEST(change__move_without_the_lease__IS_TERM_and_says_what_to_do),
		TEST(get__the_mover_led_before__ITS_MOVE_IS_ABORTED),
		cmocka_unit_test(record_parse__what_was_printed__IS_THE_SAME),
		cmocka_unit_test(record_parse__of_an_earlier_version__NO_MEMORY_HAS_MOVED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
