/* SPDX-License-Identifier: Apache-2.0 */
/* replicas_test.c -- a steward starts backups, and lets them take the place of what has ended. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/view/lead.h"
#include "compute/view/move/server_move.h"
#include "nam.h"
#include "steward/pass.h"
#include "steward/etcd_internal.h"
#include "tests/lib/cluster.h"

#define MEMORY (1u << 20)
#define SERVERS 3u
#define KEYS 200u
#define TIMEOUT_NS 30000000000ull	/* it is a bound, and nothing is measured by it */

struct fixture {
	struct local_cluster *cluster;
	struct nam_client_options options;
	struct nam_cluster *seeds;
	struct nam__steward steward;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned backed, warned;	/* events */
	char warning[1024];
	struct nam_diag diag;
};

static void
on_event(void *arg, const char *event, const char *fields)
{
	struct fixture *f = arg;

	(void)fields;
	f->backed += !strcmp(event, "backed");
}

static struct nam_diag
flags(const char *diag)
{
	struct nam_diag named;

	(void)nam_diag_set(&named, 0, "flags of %s", diag);
	return named;
}

static void
on_warning(void *arg, const char *event, const char *fields)
{
	struct fixture *f = arg;

	if (strcmp(event, "no_backup") != 0)
		return;
	f->warned++;
	(void)snprintf(f->warning, sizeof(f->warning), "%s", fields);
}

static int
setup_spare(void **state, uint64_t spare)
{
	struct nam_index_options index;
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t key[8];

	assert_non_null(f);
	f->cluster = local_cluster_start_spare(SERVERS, MEMORY, MEMORY / 2, spare);
	nam_client_options_init(&f->options);
	f->options.cluster = local_cluster_list(f->cluster);
	f->options.copy_rate = UINT64_MAX;
	f->client = test_connect(f->options.cluster, "replicas", 0);
	f->worker = test_worker(f->client);
	nam_index_options_init(&index);
	assert_int_equal(nam_index_create(f->worker, "kept", &index), 0);
	assert_int_equal(nam_index_open(f->worker, "kept", 0, &f->index), 0);
	for (uint64_t i = 0; i < KEYS; i++) {
		nam_key_from_u64(i, key);
		assert_int_equal(nam_index_insert(f->worker, f->index, key, i), 0);
	}
	assert_int_equal(nam__cluster_read(&f->options, &f->seeds, &f->diag), 0);
	f->steward = (struct nam__steward){ .options = &f->options, .seeds = f->seeds,
		.store = nam__view_store_embedded(10000), .event = on_event,
		.warning = on_warning, .flags = flags, .arg = f };
	assert_non_null(f->steward.store);
	*state = f;
	return 0;
}

static int
setup(void **state)
{
	return setup_spare(state, 4 * MEMORY);
}

static int
setup_full(void **state)
{
	return setup_spare(state, 0);
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	nam__steward_end(&f->steward);
	f->steward.store->ops->close(f->steward.store);
	nam_index_close(f->index);
	nam_worker_close(f->worker);
	nam_client_close(f->client);
	local_cluster_stop(f->cluster);
	free(f->seeds);
	free(f);
	return 0;
}

/* ---- the view ------------------------------------------------------------------------------ */

static struct nam__cluster_view *
view_get(struct fixture *f)
{
	struct nam__cluster_view *view;

	assert_non_null(f->steward.lead);
	assert_int_equal(nam__cluster_view_get(f->steward.lead->epoch_worker, 0, &view), 0);
	return view;
}

static void
pass(struct fixture *f)
{
	struct nam__steward_passed passed;

	if (nam__steward_pass(&f->steward, &passed, &f->diag))
		fail_msg("a pass: %s", f->diag.text);
	assert_true(passed.term);
}

/* All have backups, and are UP; all clients know that of the lead. */
static bool
has_all(struct fixture *f)
{
	struct nam__cluster_view *view = view_get(f);
	bool has = true;

	for (uint32_t i = 0; i < view->head.count; i++)
		has &= view->members[i].state == NAM_VIEW_UP && view->members[i].backups[0].boot &&
			(view->members[i].id || view->members[i].known);
	free(view);
	return has;
}

static void
pass_until_all(struct fixture *f)
{
	uint64_t deadline_ns = nam_now_ns() + TIMEOUT_NS;

	do {
		assert_true(nam_now_ns() < deadline_ns);
		nam_sleep_ns(1000000);
		pass(f);
	} while (!has_all(f));
}

static void
replicas(struct fixture *f, uint32_t number)
{
	if (nam_cluster_replicas(&f->options, number, &f->diag))
		fail_msg("%u replicas: %s", number, f->diag.text);
}

static struct nam_view_member
member_of(struct fixture *f, uint32_t id)
{
	struct nam__cluster_view *view = view_get(f);
	struct nam_view_member member = *nam__cluster_view_find(view, id);

	free(view);
	return member;
}

static void
expect_keys(struct fixture *f)
{
	for (uint64_t i = 0; i < KEYS; i++) {
		uint64_t payload;
		uint8_t key[8];

		nam_key_from_u64(i, key);
		if (nam_index_lookup(f->worker, f->index, key, &payload))
			fail_msg("key %llu: %s", (unsigned long long)i,
				nam_worker_diag(f->worker));
		assert_int_equal(payload, i);
	}
}

/* ---- tests --------------------------------------------------------------------------------- */

static void
pass__backups_are_wanted__EACH_MEMBER_GETS_ONE_in_another_process(void **state)
{
	struct fixture *f = *state;
	struct nam__cluster_view *view;

	pass(f);
	assert_int_equal(f->backed, 0);
	replicas(f, 2);
	pass_until_all(f);
	assert_int_equal(f->backed, SERVERS);
	view = view_get(f);
	assert_int_equal(view->head.backups, 1);
	for (uint32_t i = 0; i < view->head.count; i++)
		assert_null(strstr(view->members[i].backups[0].address, view->members[i].address));
	free(view);
	/* That is all. */
	pass(f);
	assert_int_equal(f->backed, SERVERS);
	expect_keys(f);
}

static void
pass__a_member_has_ended__ITS_BACKUP_HAS_THE_PLACE_and_another_one_comes(void **state)
{
	struct fixture *f = *state;
	uint64_t backup;

	replicas(f, 2);
	pass_until_all(f);
	backup = member_of(f, 1).backups[0].boot;
	local_cluster_stop_server(f->cluster, 1);
	pass_until_all(f);
	assert_int_equal(member_of(f, 1).boot, backup);
	assert_int_not_equal(member_of(f, 1).backups[0].boot, backup);
	expect_keys(f);
	/* The list still names the process that has ended. */
	nam_client_close(test_connect(f->options.cluster, "later", 0));
}

/* With it ends what it hosts: the backup of another member. */
static void
pass__the_lead_has_ended__ITS_BACKUP_LEADS_and_all_goes_on(void **state)
{
	struct fixture *f = *state;
	struct nam_index_options index;
	struct nam_client *later;
	struct nam_worker *worker;
	struct nam_index *other;
	uint64_t backup, memory, payload;
	uint8_t key[8];

	replicas(f, 2);
	pass_until_all(f);
	nam_index_options_init(&index);
	assert_int_equal(nam_index_create(f->worker, "named", &index), 0);
	backup = member_of(f, 0).backups[0].boot;
	memory = member_of(f, 0).memory;
	local_cluster_stop_server(f->cluster, 0);
	pass_until_all(f);
	assert_int_equal(member_of(f, 0).boot, backup);
	assert_int_equal(member_of(f, 0).memory, memory);
	assert_int_not_equal(member_of(f, 0).backups[0].boot, backup);
	expect_keys(f);
	/* Names, ids and epochs go on. */
	assert_int_equal(nam_index_create(f->worker, "named", &index), -NAM_E_INDEX_EXISTS);
	assert_int_equal(nam_index_drop(f->worker, "named"), 0);
	later = test_connect(f->options.cluster, "later", 0);
	worker = test_worker(later);
	assert_int_not_equal(later->id, f->client->id);
	assert_int_equal(nam_index_open(worker, "kept", 0, &other), 0);
	nam_key_from_u64(KEYS, key);
	assert_int_equal(nam_index_insert(worker, other, key, 7), 0);
	assert_int_equal(nam_index_lookup(f->worker, f->index, key, &payload), 0);
	assert_int_equal(payload, 7);
	nam_index_close(other);
	nam_worker_close(worker);
	nam_client_close(later);
}

/* The process of member 2, or of the lead, has that of member 1. */
static void
pass__a_backup_has_ended__THE_MEMBER_GETS_ANOTHER_ONE(void **state)
{
	struct fixture *f = *state;
	uint64_t before[SERVERS] = { 0 }, boots[SERVERS];
	uint32_t id;

	replicas(f, 2);
	pass_until_all(f);
	for (id = 0; id < SERVERS; id++) {
		before[id] = member_of(f, id).backups[0].boot;
		boots[id] = member_of(f, id).boot;
	}
	local_cluster_stop_server(f->cluster, 2);
	pass_until_all(f);
	assert_int_equal(member_of(f, 1).boot, boots[1]);
	assert_int_equal(member_of(f, 2).boot, before[2]);
	for (id = 0; id < SERVERS; id++)
		assert_int_not_equal(member_of(f, id).backups[0].boot, 0);
	expect_keys(f);
}

static void
pass__a_member_joins_as_another_one_ends__IS_GIVEN_UP_FIRST(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member joining = { .id = 9, .boot = 99, .address = "shm:/nowhere" };
	struct nam__cluster_view *view;
	uint64_t backup;

	replicas(f, 2);
	pass_until_all(f);
	backup = member_of(f, 1).backups[0].boot;
	local_cluster_stop_server(f->cluster, 1);
	view = view_get(f);
	assert_int_equal(f->steward.store->ops->change(f->steward.store,
		f->steward.lead->epoch_worker, view, NAM_RPC_VIEW_ADD, &joining, &f->diag), 0);
	free(view);
	pass_until_all(f);
	assert_int_equal(member_of(f, 1).boot, backup);
	view = view_get(f);
	assert_null(nam__cluster_view_find(view, 9));
	free(view);
	expect_keys(f);
}

static void
pass__no_process_has_room__SAYS_SO_ONCE(void **state)
{
	struct fixture *f = *state;

	replicas(f, 2);
	for (unsigned i = 0; i < 3; i++) {
		f->steward.lacking.until_ns = 0;
		pass(f);
	}
	assert_int_equal(f->backed, 0);
	assert_non_null(strstr(f->warning, "flags of "));
	assert_non_null(strstr(f->warning, "--spare"));
	assert_int_equal(f->warned, 1);
	/* Until then it is not tried again. */
	f->warned = 0;
	pass(f);
	assert_int_equal(f->warned, 0);
	expect_keys(f);
}

static void
replicas__one__ENDS_ALL_BACKUPS_and_their_memory_is_spare(void **state)
{
	struct fixture *f = *state;
	uint64_t used;
	uint32_t id;

	replicas(f, 2);
	pass_until_all(f);
	replicas(f, 1);
	pass(f);
	for (id = 0; id < SERVERS; id++)
		assert_int_equal(member_of(f, id).backups[0].boot, 0);
	assert_int_equal(f->backed, SERVERS);
	used = 0;
	for (id = 0; id < SERVERS; id++) {
		struct nam_server_status status;

		assert_int_equal(nam_server_status_get(f->worker, id, &status), 0);
		used += 4 * MEMORY - status.spare_bytes;
	}
	assert_int_equal(used, 0);
	assert_int_equal(nam_cluster_replicas(&f->options, 0, &f->diag), -EINVAL);
	assert_int_equal(nam_cluster_replicas(&f->options, NAM_BACKUPS_MAX + 2, &f->diag),
		-EINVAL);
	replicas(f, 1);
	expect_keys(f);
}

/* An operator reads it with etcdctl. */
static void
record__with_backups_wanted__IS_READ_AS_WRITTEN(void **state)
{
	struct nam__record record = { .view = nam__cluster_view_new(),
		.change = NAM_RPC_VIEW_BACKUPS }, read = { 0 };
	char *text;

	(void)state;
	assert_non_null(record.view);
	record.view->head.number = 7;
	record.view->head.lead_boot = 5;
	record.view->head.count = 1;
	record.view->head.backups = 1;
	record.view->members[0] = (struct nam_view_member){ .state = NAM_VIEW_UP, .boot = 5,
		.memory = 5, .since = 1, .renewed = 1, .address = "tcp:here:1" };
	record.member = record.view->members[0];
	record.member.wanted = 1;
	text = nam__record_print(&record);
	assert_non_null(strstr(text, "\"backups\":1"));
	assert_int_equal(nam__record_parse(text, &read), 0);
	assert_int_equal(read.view->head.backups, 1);
	assert_int_equal(read.change, NAM_RPC_VIEW_BACKUPS);
	assert_int_equal(read.member.wanted, 1);
	free(read.view);
	/* No more than there can be. */
	*strstr(strstr(text, "\"backups\":1"), "1") = '9';
	assert_int_equal(nam__record_parse(text, &read), -NAM_E_REMOTE_CORRUPT);
	free(text);
	free(record.view);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pass__backups_are_wanted__EACH_MEMBER_GETS_ONE_in_another_process),
		TEST(pass__a_member_has_ended__ITS_BACKUP_HAS_THE_PLACE_and_another_one_comes),
		TEST(pass__the_lead_has_ended__ITS_BACKUP_LEADS_and_all_goes_on),
		TEST(pass__a_backup_has_ended__THE_MEMBER_GETS_ANOTHER_ONE),
		TEST(pass__a_member_joins_as_another_one_ends__IS_GIVEN_UP_FIRST),
		cmocka_unit_test_setup_teardown(pass__no_process_has_room__SAYS_SO_ONCE,
			setup_full, teardown),
		TEST(replicas__one__ENDS_ALL_BACKUPS_and_their_memory_is_spare),
		cmocka_unit_test(record__with_backups_wanted__IS_READ_AS_WRITTEN),
	};

	return cmocka_run_group_tests_name("steward/replicas", tests, NULL, NULL);
}
