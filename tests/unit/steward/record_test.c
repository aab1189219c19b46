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
#include "steward/etcd_internal.h"
#include "tests/lib/cluster.h"

#define LEASE_MS 1000u
#define SUCCESSOR 5000u			/* a boot */
#define BACKUP 6000u			/* likewise */

/* ---- a backend in memory --------------------------------------------------------------------- */

/* All backends have it in common. */
static struct {
	char *text;			/* as record_json.c writes it; NULL: no record */
	uint64_t revision, term;
} kept;

struct own {
	struct nam__backend backend;
	uint64_t term;
};

static int
kept_read(struct nam__backend *backend, struct nam__record *ret_record, struct nam_diag *diag)
{
	(void)backend;
	(void)diag;
	memset(ret_record, 0, sizeof(*ret_record));
	ret_record->revision = kept.revision;
	return kept.text ? nam__record_parse(kept.text, ret_record) : 0;
}

static int
kept_write(struct nam__backend *backend, const struct nam__record *record, uint64_t term,
	struct nam_diag *diag)
{
	(void)backend;
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
kept_acquire(struct nam__backend *base, uint32_t lease_ms, uint64_t *ret_term,
	struct nam_diag *diag)
{
	(void)lease_ms;
	(void)diag;
	((struct own *)base)->term = ++kept.term;
	*ret_term = kept.term;
	return 0;
}

static int
kept_renew(struct nam__backend *base, struct nam_diag *diag)
{
	(void)diag;
	return ((struct own *)base)->term == kept.term ? 0 : -NAM_E_TERM;
}

static void
kept_release(struct nam__backend *backend)
{
	(void)backend;
}

static void
kept_close(struct nam__backend *backend)
{
	free(backend);
}

static const struct nam__backend_ops kept_ops = {
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
	own->backend.ops = &kept_ops;
	store = nam__view_store_recorded(&own->backend, LEASE_MS);
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
	if (what == NAM_RPC_VIEW_BACKED || what == NAM_RPC_VIEW_UNBACKED ||
		one.state == NAM_VIEW_PROMOTING) {
		one.boot = BACKUP;
		(void)snprintf(one.address, sizeof(one.address), "shm:/backup");
	}
	store->moves = what == NAM_RPC_VIEW_NOTE || what == NAM_RPC_VIEW_MOVE;
	rc = store->ops->change(store, lead->epoch_worker, view, what, &one, diag);
	free(view);
	return rc;
}

/* The first client is dead. */
static void
fence_first(struct nam__view_store *store)
{
	uint64_t until_ns = nam_now_ns() + 10000000000ull;
	struct nam__cluster_view *view = get(store);
	struct nam_diag diag;
	uint32_t state;
	int rc;

	/* The lead may not have noticed yet that its process has ended. */
	do
		rc = nam__client_fence(lead->epoch_worker, view, 1, 1, store->term, 10000000000u,
			&state, &diag);
	while (rc == -NAM_E_FABRIC_CAPABILITY && nam_now_ns() < until_ns);
	assert_int_equal(rc, 0);
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
	assert_true(record.view->members[1].backups[0].boot == view->members[1].backups[0].boot);
	assert_string_equal(record.view->members[1].backups[0].address,
		view->members[1].backups[0].address);
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
	assert_int_equal(change(other, NAM_RPC_VIEW_NOTE, &diag), -NAM_E_TERM);
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

/* It could not give up, as the store or the lead did not answer. */
static void
get__the_mover_moves_no_more__ITS_MOVE_IS_ABORTED(void **state)
{
	struct nam__view_store *mover = store_open(true);
	struct nam_diag diag;

	(void)state;
	assert_int_equal(change(mover, NAM_RPC_VIEW_NOTE, &diag), 0);
	assert_int_equal(state_of(mover, 2), NAM_VIEW_COPYING);
	mover->moves = false;
	assert_int_equal(state_of(mover, 3), NAM_VIEW_UP);
	mover->ops->close(mover);
}

/* ---- backups --------------------------------------------------------------------------------- */

static uint64_t
backup_of(struct nam__view_store *store)
{
	struct nam__cluster_view *view = get(store);
	uint64_t backup = view->members[1].backups[0].boot;

	free(view);
	return backup;
}

/* View 3. */
static void
back(struct nam__view_store *store)
{
	struct nam_diag diag = { "" };

	fence_first(store);
	assert_int_equal(change(store, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(change(store, NAM_RPC_VIEW_BACKED, &diag), 0);
	assert_int_equal(state_of(store, 3), NAM_VIEW_UP);
	assert_int_equal(backup_of(store), BACKUP);
}

static void
change__backed_and_unbacked__IS_IN_THE_RECORD(void **state)
{
	struct nam__view_store *store = store_open(true);
	struct nam__record record = { 0 };
	struct nam_diag diag;

	(void)state;
	back(store);
	assert_int_equal(nam__record_parse(kept.text, &record), 0);
	assert_int_equal(record.change, NAM_RPC_VIEW_BACKED);
	assert_int_equal(record.view->members[1].backups[0].boot, BACKUP);
	assert_string_equal(record.view->members[1].backups[0].address, "shm:/backup");
	free(record.view);
	assert_int_equal(change(store, NAM_RPC_VIEW_UNBACKED, &diag), 0);
	assert_int_equal(state_of(store, 4), NAM_VIEW_UP);
	assert_int_equal(backup_of(store), 0);
	store->ops->close(store);
}

static void
change__backed_without_the_lease__IS_TERM(void **state)
{
	struct nam__view_store *leads = store_open(true), *other = store_open(false);
	struct nam_diag diag = { "" };

	(void)state;
	fence_first(leads);
	assert_int_equal(change(leads, NAM_RPC_VIEW_MOVE, &diag), 0);
	assert_int_equal(change(other, NAM_RPC_VIEW_BACKED, &diag), -NAM_E_TERM);
	assert_non_null(strstr(diag.text, "steward"));
	assert_int_equal(state_of(leads, 2), NAM_VIEW_MOVING);
	other->ops->close(other);
	leads->ops->close(leads);
}

/* Clients wait, and no steward gives a promotion up. */
static void
change__promotion_without_the_lease__GOES_ON_TO_ITS_END(void **state)
{
	struct nam__view_store *leads = store_open(true), *other = store_open(false);
	struct nam_diag diag;

	(void)state;
	back(leads);
	assert_int_equal(change(other, NAM_RPC_VIEW_PROMOTE, &diag), 0);
	assert_int_equal(state_of(leads, 4), NAM_VIEW_PROMOTING);
	assert_int_equal(change(other, NAM_RPC_VIEW_MOVED, &diag), 0);
	assert_int_equal(state_of(leads, 5), NAM_VIEW_UP);
	assert_int_equal(backup_of(leads), 0);
	other->ops->close(other);
	leads->ops->close(leads);
}

static void
get__the_steward_of_a_promotion_has_ended__GOES_ON_WITH_IT(void **state)
{
	struct nam__view_store *first = store_open(true), *next;
	struct nam__cluster_view *view;
	struct nam_diag diag;

	(void)state;
	back(first);
	assert_int_equal(change(first, NAM_RPC_VIEW_PROMOTE, &diag), 0);
	assert_int_equal(state_of(first, 4), NAM_VIEW_PROMOTING);
	next = store_open(true);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(state_of(next, 4), NAM_VIEW_PROMOTING);
	assert_int_equal(backup_of(next), BACKUP);
	assert_int_equal(change(next, NAM_RPC_VIEW_ABORT, &diag), -NAM_E_VIEW);
	assert_int_equal(change(next, NAM_RPC_VIEW_MOVED, &diag), 0);
	assert_int_equal(state_of(next, 5), NAM_VIEW_UP);
	view = get(next);
	assert_int_equal(view->members[1].boot, BACKUP);
	assert_string_equal(view->members[1].address, "shm:/backup");
	assert_int_equal(view->members[1].backups[0].boot, 0);
	free(view);
	first->ops->close(first);
	next->ops->close(next);
}

/* It is in the record, and the lead has not heard of it. */
static void
get__the_steward_ended_as_it_decided_a_promotion__IS_INSTALLED(void **state)
{
	struct nam__view_store *first = store_open(true), *next;
	struct nam__record record = { 0 };
	struct nam_diag diag;

	(void)state;
	back(first);
	assert_int_equal(kept_read(NULL, &record, &diag), 0);
	record.change = NAM_RPC_VIEW_PROMOTE;
	record.member = record.view->members[1];
	assert_int_equal(nam_view_change(&record.view->head, record.view->members, record.change,
		&record.member), 0);
	assert_int_equal(kept_write(NULL, &record, 0, &diag), 0);
	free(record.view);
	next = store_open(true);
	assert_int_equal(state_of(next, 4), NAM_VIEW_PROMOTING);
	assert_int_equal(backup_of(next), BACKUP);
	first->ops->close(first);
	next->ops->close(next);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void
record_parse__what_was_printed__IS_THE_SAME(void **state)
{
	struct nam__record record = { .change = NAM_RPC_VIEW_MOVE,
		.view = nam__cluster_view_new() },
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
	record.view->head.removed[0] = 1 << 7;
	record.view->head.removed[31] = 1 << 7;
	one->state = NAM_VIEW_MOVING;
	one->memory = 3;
	record.member = *one;
	text = nam__record_print(&record);
	assert_non_null(strstr(text, "\"state\":\"moving\""));
	assert_non_null(strstr(text, "\"memory\":\"0000000000000003\""));
	assert_non_null(strstr(text, "\"change\":\"move\""));
	assert_int_equal(nam__record_parse(text, &again), 0);
	assert_int_equal(again.change, NAM_RPC_VIEW_MOVE);
	assert_non_null(strstr(text, "\"removed\":[7,255]"));
	assert_memory_equal(&again.view->head, &record.view->head, sizeof(again.view->head));
	assert_memory_equal(again.view->members, record.view->members, 2 * sizeof(*one));
	free(again.view);
	free(record.view);
	free(text);
}

/* Of each change, and of a member with a backup in each state that allows it. */
static void
record_parse__backups_that_were_printed__ARE_THE_SAME(void **state)
{
	static const uint16_t states[] = { NAM_VIEW_UP, NAM_VIEW_PROMOTING };
	struct nam__record record = { .view = nam__cluster_view_new() };
	struct nam_view_member *one = &record.view->members[1];

	(void)state;
	record.view->head = (struct nam_view_head){ .number = 5, .lead_boot = 9, .count = 2 };
	record.view->members[0] = (struct nam_view_member){ .state = NAM_VIEW_UP, .boot = 9,
		.memory = 9, .since = 1, .renewed = 1, .address = "shm:/0" };
	*one = (struct nam_view_member){ .id = 1, .boot = 71, .memory = 71, .since = 1,
		.renewed = 1, .backups[0].boot = 0xfedcba9876543210, .address = "shm:/1" };
	memset(one->backups[0].address, 'b', sizeof(one->backups[0].address) - 1);
	for (uint16_t what = 1; what <= NAM_RPC_VIEW_CHANGES; what++) {
		struct nam__record again = { 0 };
		char *text;

		one->state = states[what % 2];
		record.change = what;
		record.member = *one;
		text = nam__record_print(&record);
		assert_non_null(strstr(text, what % 2 ? "\"promoting\"" : "\"up\""));
		assert_non_null(strstr(text, "\"backup\":\"fedcba9876543210\""));
		assert_int_equal(nam__record_parse(text, &again), 0);
		assert_int_equal(again.change, what);
		assert_memory_equal(again.view->members, record.view->members, 2 * sizeof(*one));
		assert_true(again.member.backups[0].boot == one->backups[0].boot);
		assert_string_equal(again.member.backups[0].address, one->backups[0].address);
		free(again.view);
		free(text);
	}
	free(record.view);
}

static int
parse_with(const char *field, struct nam__record *record)
{
	char text[1024];

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

static void
record_parse__malformed_backup__IS_CORRUPT(void **state)
{
	static const char *const bad[] = {
		/* Both, or none. */
		"\"backup\":\"0000000000000008\",",
		"\"backup_address\":\"shm:/b\",",
		"\"backup\":\"0000000000000008\",\"backup_address\":\"\",",
		"\"backup\":\"0000000000000008\",\"backup_address\":8,",
		"\"backup\":\"0000000000000000\",\"backup_address\":\"shm:/b\",",
		"\"backup\":\"8\",\"backup_address\":\"shm:/b\",",
		"\"backup\":\"000000000000000G\",\"backup_address\":\"shm:/b\",",
		"\"backup\":8,\"backup_address\":\"shm:/b\",",
		"\"backup\":null,\"backup_address\":\"shm:/b\",",
	};
	char text[512], address[NAM_VIEW_ADDRESS_BYTES + 1];
	struct nam__record record = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_with(bad[i], &record), -NAM_E_REMOTE_CORRUPT);
	assert_int_equal(parse_with("\"backup\":\"0000000000000008\","
		"\"backup_address\":\"shm:/b\",", &record), 0);
	assert_int_equal(record.view->members[0].backups[0].boot, 8);
	assert_string_equal(record.view->members[0].backups[0].address, "shm:/b");
	free(record.view);
	/* It has an end. */
	memset(address, 'x', sizeof(address));
	address[NAM_VIEW_ADDRESS_BYTES] = '\0';
	(void)snprintf(text, sizeof(text), "\"backup\":\"0000000000000008\","
		"\"backup_address\":\"%s\",", address);
	assert_int_equal(parse_with(text, &record), -NAM_E_REMOTE_CORRUPT);
}

static void
record_parse__promoting_without_a_backup__IS_CORRUPT(void **state)
{
	static const char format[] = "{\"number\":1,\"lead_boot\":\"0000000000000009\","
		"\"terms_before\":0,\"members\":[{\"id\":0,\"address\":\"shm:/0\","
		"\"state\":\"%s\",\"boot\":\"0000000000000009\",%s\"since\":1,\"renewed\":1}]}";
	static const char backup[] = "\"backup\":\"0000000000000008\","
		"\"backup_address\":\"shm:/b\",";
	struct nam__record record = { 0 };
	char text[512];

	(void)state;
	(void)snprintf(text, sizeof(text), format, "promoting", backup);
	assert_int_equal(nam__record_parse(text, &record), 0);
	assert_int_equal(record.view->members[0].state, NAM_VIEW_PROMOTING);
	free(record.view);
	(void)snprintf(text, sizeof(text), format, "promoting", "");
	assert_int_equal(nam__record_parse(text, &record), -NAM_E_REMOTE_CORRUPT);
	(void)snprintf(text, sizeof(text), format, "promoted", backup);
	assert_int_equal(nam__record_parse(text, &record), -NAM_E_REMOTE_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(change__move_and_moved_by_the_steward_that_leads__IS_IN_THE_RECORD),
		TEST(change__move_without_the_lease__IS_TERM_and_says_what_to_do),
		TEST(get__the_mover_led_before__ITS_MOVE_IS_ABORTED),
		TEST(get__the_mover_moves_no_more__ITS_MOVE_IS_ABORTED),
		TEST(change__backed_and_unbacked__IS_IN_THE_RECORD),
		TEST(change__backed_without_the_lease__IS_TERM),
		TEST(change__promotion_without_the_lease__GOES_ON_TO_ITS_END),
		TEST(get__the_steward_of_a_promotion_has_ended__GOES_ON_WITH_IT),
		TEST(get__the_steward_ended_as_it_decided_a_promotion__IS_INSTALLED),
		cmocka_unit_test(record_parse__what_was_printed__IS_THE_SAME),
		cmocka_unit_test(record_parse__backups_that_were_printed__ARE_THE_SAME),
		cmocka_unit_test(record_parse__of_an_earlier_version__NO_MEMORY_HAS_MOVED),
		cmocka_unit_test(record_parse__malformed_backup__IS_CORRUPT),
		cmocka_unit_test(record_parse__promoting_without_a_backup__IS_CORRUPT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
