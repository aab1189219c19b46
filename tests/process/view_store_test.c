/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_store_test.c -- one suite for all view stores: compare-and-set, leadership, and changes that
 * stop half-way.  Then a real etcd is killed and cut off while changes are under way.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "common/env.h"
#include "compute/admin.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"
#include "steward/etcd_internal.h"
#include "steward/pass.h"
#include "steward/store.h"
#include "tests/lib/cluster.h"
#include "view_store_etcd.h"

#define SHORT_MS 1000u			/* a lease that ends: the least that etcd gives */
#define LONG_MS 60000u			/* longer than a test */
#define TIMEOUT_MS 20000u		/* for what must happen in the end */
#define PAUSE_NS 2000000u
#define NEW 2u				/* number and id of the memory server that comes */
#define KILLS 4u

static struct cluster cluster;
static struct nam_client_options options;
static struct nam_cluster *seeds;

/* ---- a cluster, and its stores --------------------------------------------------------------- */

/* A process that changes the view: a steward, or namctl. */
struct party {
	struct nam__view_store *store;
	struct nam__steward steward;
	struct nam_worker *worker;	/* asks the lead */
};

static char store_name[128];
static const char *store_user, *store_password_file;

static void
party_open(struct party *party, uint32_t lease_ms, uint32_t timeout_ms)
{
	const struct nam__store_options store = { .view_store = store_name,
		.lease_ms = lease_ms, .timeout_ms = timeout_ms, .user = store_user,
		.password_file = store_password_file };
	struct nam_diag diag;

	memset(party, 0, sizeof(*party));
	if (nam__store_open(&store, &party->store, &diag))
		test_die("%s", diag.text);
	party->steward = (struct nam__steward){ .options = &options, .seeds = seeds,
		.store = party->store };
	if (nam__lead_find(&options, seeds, NULL, &party->steward.lead, &diag))
		test_die("%s", diag.text);
	party->worker = party->steward.lead->epoch_worker;
}

/* As a process that was killed: it releases nothing. */
static void
party_drop(struct party *party)
{
	free(party->steward.copied);
	free(party->steward.known);
	nam__client_free(party->steward.lead);
	party->store->ops->close(party->store);
}

static void
party_close(struct party *party)
{
	party->store->ops->release(party->store, party->worker);
	party_drop(party);
}

static int
acquire(struct party *party)
{
	struct nam_diag diag;

	return party->store->ops->acquire(party->store, party->worker, &diag);
}

static int
renew(struct party *party)
{
	struct nam_diag diag;

	return party->store->ops->renew(party->store, party->worker, &diag);
}

/* Still, or once the lease of another one has ended. */
static void
acquire_in_time(struct party *party)
{
	uint64_t end = nam_now_ns() + TIMEOUT_MS * 1000000ull;
	int rc;

	while ((rc = party->store->term ? renew(party) : acquire(party)) && nam_now_ns() < end)
		nam_sleep_ns(PAUSE_NS);
	assert_int_equal(rc, 0);
}

static struct nam__cluster_view *
get(struct party *party)
{
	struct nam__cluster_view *view = NULL;
	struct nam_diag diag = { "" };
	int rc = party->store->ops->get(party->store, party->worker, &view, &diag);

	if (rc)
		test_die("no view: %s: %s", nam_err_name(rc), diag.text);
	return view;
}

/* The client that formed the view has left, and the lead may not have heard of that yet. */
static struct nam__cluster_view *
get_acknowledged(struct party *party)
{
	uint64_t end = nam_now_ns() + TIMEOUT_MS * 1000000ull;
	struct nam__cluster_view *view = get(party);

	while (view->acknowledged < view->head.number && nam_now_ns() < end) {
		free(view);
		nam_sleep_ns(PAUSE_NS);
		view = get(party);
	}
	assert_true(view->acknowledged >= view->head.number);
	return view;
}

static int
change(struct party *party, const struct nam__cluster_view *view, enum nam_rpc_view_change what,
	const struct nam_view_member *member)
{
	struct nam_diag diag;

	return party->store->ops->change(party->store, party->worker, view, what, member, &diag);
}

/* A pass that may find no store. */
static struct nam__steward_passed
pass(struct party *party)
{
	struct nam__steward_passed passed = { 0 };
	struct nam_diag diag;

	if (nam__steward_pass(&party->steward, &passed, &diag) && !party->steward.lead)
		test_die("a pass: %s", diag.text);
	if (party->steward.lead)
		party->worker = party->steward.lead->epoch_worker;
	return passed;
}

/* Until no member is joining. */
static void
pass_until_joined(struct party *party, uint32_t members)
{
	uint64_t end = nam_now_ns() + TIMEOUT_MS * 1000000ull;
	bool joined = false;

	while (!joined && nam_now_ns() < end) {
		struct nam__steward_passed passed = pass(party);
		struct nam__cluster_view *view;

		if (passed.term) {
			view = get(party);
			joined = !nam__view_joining(view) && view->head.count == members;
			free(view);
		}
		nam_sleep_ns(PAUSE_NS);
	}
	assert_true(joined);
}

/* The third memory server, which is no member yet. */
static struct nam_view_member
newcomer(void)
{
	struct nam_view_member member = { .id = NEW, .state = NAM_VIEW_JOINING };
	struct nam_client *client;
	struct nam_diag diag;

	if (nam__prober_open(&options, cluster.addresses[NEW], 0, true, &client, &diag))
		test_die("%s", diag.text);
	member.boot = client->servers[0].boot;
	nam__client_free(client);
	(void)snprintf(member.address, sizeof(member.address), "%s", cluster.addresses[NEW]);
	return member;
}

/* Of no memory server. */
static struct nam_view_member
stranger(uint32_t id)
{
	struct nam_view_member member = { .id = (uint16_t)id, .state = NAM_VIEW_JOINING,
		.boot = 77 + id };

	(void)snprintf(member.address, sizeof(member.address), "shm:/nowhere/%u", id);
	return member;
}

static int
begin(void **state)
{
	(void)state;
	etcd_begin();
	return 0;
}

static int
end(void **state)
{
	(void)state;
	etcd_end();
	return 0;
}

static int
setup(const char *store)
{
	char list[2 * sizeof(cluster.addresses[0])];
	struct nam_diag diag;

	cluster_start(&cluster, 3, 16, "8M");
	(void)snprintf(list, sizeof(list), "%s,%s", cluster.addresses[0], cluster.addresses[1]);
	/* The first client forms the view. */
	nam_client_close(test_connect(list, "first", 0));
	nam_client_options_init(&options);
	options.cluster = cluster.addresses[0];
	if (nam__cluster_read(&options, &seeds, &diag))
		test_die("%s", diag.text);
	if (!strcmp(store, "etcd"))
		(void)snprintf(store_name, sizeof(store_name), "etcd:http://127.0.0.1:%u/test%u",
			etcd.client_port, etcd.clusters++);
	else
		(void)snprintf(store_name, sizeof(store_name), "%s", store);
	return 0;
}

static int
setup_embedded(void **state)
{
	(void)state;
	return setup("embedded");
}

static int
setup_etcd(void **state)
{
	(void)state;
	return setup("etcd");
}

static int
teardown(void **state)
{
	(void)state;
	free(seeds);
	cluster_stop(&cluster);
	return 0;
}

/* ---- all stores ------------------------------------------------------------------------------ */

static void
acquire__another_leads__IS_TERM_until_it_releases(void **state)
{
	struct party first, second;
	uint64_t term;

	(void)state;
	party_open(&first, LONG_MS, 0);
	party_open(&second, LONG_MS, 0);
	assert_int_equal(acquire(&first), 0);
	term = first.store->term;
	assert_true(term > 0);
	assert_int_equal(acquire(&second), -NAM_E_TERM);
	assert_int_equal(renew(&first), 0);
	assert_true(first.store->term == term);
	first.store->ops->release(first.store, first.worker);
	assert_int_equal(acquire(&second), 0);
	assert_true(second.store->term > term);
	party_close(&second);
	party_close(&first);
}

static void
change__from_a_view_that_has_changed__IS_VIEW(void **state)
{
	struct nam__cluster_view *view, *same;
	struct nam_view_member one = stranger(7), other = stranger(8);
	struct party first, second;

	(void)state;
	party_open(&first, LONG_MS, 0);
	party_open(&second, LONG_MS, 0);
	acquire_in_time(&first);
	view = get(&first);
	same = get(&second);
	assert_int_equal(view->head.number, 1);
	assert_int_equal(same->head.number, 1);
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_ADD, &one), 0);
	assert_int_equal(change(&second, same, NAM_RPC_VIEW_ADD, &other), -NAM_E_VIEW);
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_ABORT, &one), -NAM_E_VIEW);
	free(view);
	view = get_acknowledged(&first);
	assert_int_equal(view->head.number, 2);
	assert_int_equal(view->head.count, 3);
	assert_int_equal(view->members[2].id, 7);
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_ADD, &other), -NAM_E_VIEW);
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_UP, &one), 0);
	free(view);
	view = get(&second);
	assert_int_equal(view->head.number, 3);
	assert_int_equal(view->members[2].state, NAM_VIEW_UP);
	free(same);
	free(view);
	party_close(&second);
	party_close(&first);
}

static void
change__by_a_steward_that_stalled__IS_TERM_and_it_does_nothing(void **state)
{
	struct nam__cluster_view *view = NULL, *after;
	struct nam_view_member one = stranger(7);
	struct party first, second;
	struct nam__steward_passed passed;

	(void)state;
	party_open(&first, SHORT_MS, 0);
	party_open(&second, LONG_MS, 0);
	/* While it gets the view, its lease may end on a slow machine. */
	do {
		free(view);
		acquire_in_time(&first);
		view = get(&first);
	} while (!first.store->term);
	acquire_in_time(&second);
	free(get(&second));
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_ADD, &one), -NAM_E_TERM);
	passed = pass(&first);
	assert_int_equal(passed.term, 0);
	assert_int_equal(passed.changes, 0);
	after = get(&second);
	assert_int_equal(after->head.number, 1);
	assert_int_equal(change(&second, after, NAM_RPC_VIEW_ADD, &one), 0);
	free(after);
	free(view);
	party_close(&second);
	party_close(&first);
}

static void
pass__a_member_is_joining__COMES_UP(void **state)
{
	struct nam_view_member one = newcomer();
	struct nam__cluster_view *view;
	struct party first, second;
	int rc;

	(void)state;
	party_open(&first, SHORT_MS, 0);
	do {
		acquire_in_time(&first);
		view = get(&first);
		rc = change(&first, view, NAM_RPC_VIEW_ADD, &one);
		free(view);
	} while (rc == -NAM_E_TERM);
	assert_int_equal(rc, 0);
	party_drop(&first);
	party_open(&second, LONG_MS, 0);
	pass_until_joined(&second, 3);
	view = get(&second);
	assert_int_equal(view->members[2].state, NAM_VIEW_UP);
	assert_int_equal(view->head.number, 3);
	free(view);
	/* Its copy came with that. */
	party_close(&second);
	nam_client_close(test_connect(cluster.addresses[NEW], "by the new one", 0));
}

static void
pass__a_member_that_was_joining_has_ended__IS_ABORTED(void **state)
{
	struct nam_view_member one = newcomer();
	struct nam__cluster_view *view;
	struct party party;

	(void)state;
	party_open(&party, LONG_MS, 0);
	acquire_in_time(&party);
	view = get(&party);
	assert_int_equal(change(&party, view, NAM_RPC_VIEW_ADD, &one), 0);
	free(view);
	child_kill(&cluster.servers[NEW]);
	pass_until_joined(&party, 2);
	party_close(&party);
}

/* Stopped is not dead. */
static void
pass__a_member_that_is_joining_is_silent__STAYS(void **state)
{
	struct nam_view_member one = newcomer();
	struct nam__cluster_view *view;
	struct party party;
	uint32_t timeout_ms = options.timeout_ms;

	(void)state;
	options.timeout_ms = 1000;
	party_open(&party, LONG_MS, 0);
	acquire_in_time(&party);
	view = get(&party);
	assert_int_equal(change(&party, view, NAM_RPC_VIEW_ADD, &one), 0);
	free(view);
	child_stop(&cluster.servers[NEW]);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pass(&party).changes, 0);
	view = get(&party);
	assert_non_null(nam__view_joining(view));
	free(view);
	child_signal(&cluster.servers[NEW], SIGCONT);
	options.timeout_ms = timeout_ms;
	pass_until_joined(&party, 3);
	party_close(&party);
}

/* Each changes the view as often as it can; every success counts. */
static void
change__by_two_at_once__EACH_SUCCESS_IS_ONE_VIEW(void **state)
{
	struct party parties[2];
	struct nam__cluster_view *view;
	uint64_t done = 0;

	(void)state;
	party_open(&parties[0], LONG_MS, 0);
	party_open(&parties[1], LONG_MS, 0);
	acquire_in_time(&parties[0]);
	free(get(&parties[0]));
	for (unsigned i = 0; i < 10; i++) {
		struct nam_view_member members[2] = { stranger(7), stranger(8) };
		struct nam__cluster_view *views[2] = { get(&parties[0]), get(&parties[1]) };
		const struct nam_view_member *joining = nam__view_joining(views[0]);
		unsigned first = i / 2 % 2;

		for (unsigned j = 0; j < 2; j++) {
			unsigned who = j ? !first : first;
			int rc = change(&parties[who], views[who],
				joining ? NAM_RPC_VIEW_ABORT : NAM_RPC_VIEW_ADD,
				joining ? joining : &members[who]);

			assert_int_equal(rc, j ? -NAM_E_VIEW : 0);
			done += !rc;
			/* A decision of the one that does not lead waits for the other one. */
			free(get(&parties[0]));
		}
		free(views[0]);
		free(views[1]);
	}
	view = get(&parties[0]);
	assert_int_equal(view->head.number, 1 + done);
	free(view);
	party_close(&parties[1]);
	party_close(&parties[0]);
}

/* ---- etcd ------------------------------------------------------------------------------------ */

/* It decides, and ends before the lead knows it. */
static void
change__decided_and_not_installed__THE_NEXT_STEWARD_INSTALLS_IT(void **state)
{
	struct nam_view_member one = newcomer();
	struct nam__cluster_view *view;
	struct party steward, other;

	(void)state;
	party_open(&steward, LONG_MS, 0);
	party_open(&other, LONG_MS, 0);
	acquire_in_time(&steward);
	free(get(&steward));
	view = get(&other);
	assert_int_equal(change(&other, view, NAM_RPC_VIEW_ADD, &one), 0);
	free(view);
	view = get(&other);
	assert_int_equal(view->head.number, 1);
	assert_int_equal(change(&other, view, NAM_RPC_VIEW_ADD, &one), -NAM_E_VIEW);
	free(view);
	party_drop(&other);
	pass_until_joined(&steward, 3);
	party_close(&steward);
}

/* The lead takes restarts of members from clients; the record follows. */
static void
get__a_client_has_renewed_a_member__IS_IN_THE_RECORD(void **state)
{
	struct nam_view_member one = newcomer();
	struct nam__cluster_view *view;
	struct nam_server_added added;
	struct nam_diag diag;
	struct party steward, other;

	(void)state;
	party_open(&steward, LONG_MS, 0);
	party_open(&other, LONG_MS, 0);
	acquire_in_time(&steward);
	free(get(&steward));
	view = get(&other);
	assert_int_equal(change(&other, view, NAM_RPC_VIEW_ADD, &one), 0);
	free(view);
	child_kill(&cluster.servers[1]);
	cluster_start_server(&cluster, 1);
	nam_client_close(test_connect(cluster.addresses[0], "renews", 0));
	view = get(&steward);
	assert_int_equal(view->head.number, 3);
	assert_int_equal(view->members[1].renewed, 2);
	assert_non_null(nam__view_joining(view));
	free(view);
	/* The lead has a store that decides, and says so. */
	assert_int_equal(nam_server_add(&options, cluster.addresses[NEW], NULL, NULL, &added,
		&diag), -NAM_E_VIEW_STORE);
	assert_non_null(strstr(diag.text, "--view-store"));
	pass_until_joined(&steward, 3);
	party_drop(&other);
	party_close(&steward);
}

/* Another store, or etcd before it was set up anew, has given higher terms to the lead. */
static void
get__the_lead_has_seen_higher_terms__TERMS_GO_ON_BEHIND_THEM(void **state)
{
	const uint64_t high = 1000000000;
	struct nam_view_member one = stranger(7);
	struct nam__cluster_view *view;
	struct party first, second;
	uint64_t term;

	(void)state;
	party_open(&first, LONG_MS, 0);
	party_open(&second, LONG_MS, 0);
	assert_int_equal(nam__cluster_view_steward(first.worker, 0, NAM_RPC_STEWARD_PRESENT, high,
		0, &term), 0);
	acquire_in_time(&first);
	view = get(&first);
	term = first.store->term;
	assert_true(term > high);
	assert_int_equal(change(&first, view, NAM_RPC_VIEW_ADD, &one), 0);
	free(view);
	first.store->ops->release(first.store, first.worker);
	acquire_in_time(&second);
	assert_true(second.store->term > term);
	view = get(&second);
	assert_true(view->head.term == second.store->term);
	assert_int_equal(change(&second, view, NAM_RPC_VIEW_ABORT, &one), 0);
	free(view);
	party_close(&second);
	party_close(&first);
}

/* Nothing is lost that was reported, and nothing is done twice. */
static void
expect_recorded(struct party *party, const char *where)
{
	const struct nam__store_options store = { .timeout_ms = TIMEOUT_MS };
	struct nam__cluster_view *view = get(party);
	struct nam__record record;
	struct nam__backend *backend;
	struct nam_diag diag;

	assert_int_equal(nam__etcd_open(where, &store, &backend, &diag), 0);
	assert_int_equal(backend->ops->read(backend, &record, &diag), 0);
	assert_int_equal(record.view->head.number, view->head.number);
	assert_int_equal(record.view->head.count, view->head.count);
	backend->ops->close(backend);
	free(record.view);
	free(view);
}

static void
change__etcd_is_cut_off__IS_STORE_and_goes_on_later(void **state)
{
	struct nam_view_member one = stranger(7);
	struct nam__cluster_view *view;
	struct party party;
	int rc;

	(void)state;
	party_open(&party, LONG_MS, 1000);
	acquire_in_time(&party);
	view = get(&party);
	child_stop(&etcd.process);
	assert_int_equal(change(&party, view, NAM_RPC_VIEW_ADD, &one), -NAM_E_FABRIC_STORE);
	assert_int_equal(renew(&party), -NAM_E_FABRIC_STORE);
	/* Clients do not notice. */
	nam_client_close(test_connect(cluster.addresses[1], "meanwhile", 0));
	child_signal(&etcd.process, SIGCONT);
	free(view);
	acquire_in_time(&party);
	view = get(&party);
	/* The request that had no answer may have been carried out. */
	rc = nam__view_joining(view) ? 0 : change(&party, view, NAM_RPC_VIEW_ADD, &one);
	assert_int_equal(rc, 0);
	free(view);
	view = get(&party);
	assert_int_equal(view->head.number, 2);
	free(view);
	expect_recorded(&party, store_name + strlen("etcd:"));
	party_close(&party);
}

/* ADD and ABORT of a stranger in turn; what the store reports is there afterwards. */
static unsigned
change_on(struct party *party, uint64_t until_ns)
{
	struct nam_view_member one = stranger(9);
	unsigned done = 0;

	while (nam_now_ns() < until_ns) {
		struct nam__cluster_view *view = NULL, *after = NULL;
		struct nam_diag diag = { "" };
		bool adds;
		int rc = party->store->term ? 0 : acquire(party);

		if (!rc)
			rc = party->store->ops->get(party->store, party->worker, &view, &diag);
		if (rc)
			continue;
		adds = !nam__view_joining(view);
		rc = change(party, view, adds ? NAM_RPC_VIEW_ADD : NAM_RPC_VIEW_ABORT, &one);
		if (!rc) {
			assert_int_equal(nam__cluster_view_get(party->worker, 0, &after), 0);
			assert_true(after->head.number == view->head.number + 1);
			assert_true(!nam__view_joining(after) != adds);
			done++;
		}
		free(after);
		free(view);
	}
	return done;
}

static void
change__etcd_is_killed_meanwhile__NOTHING_IS_LOST_OR_TWICE(void **state)
{
	struct party party;
	struct nam__cluster_view *view;
	bool changed = false;
	uint64_t seen = 1;
	pid_t killer;

	(void)state;
	party_open(&party, SHORT_MS * 5, 1000);
	acquire_in_time(&party);
	for (unsigned i = 0; i < KILLS; i++) {
		unsigned done = 0;

		killer = fork();
		if (!killer) {
			nam_sleep_ns((30 + 17 * i) * 1000000ull);
			(void)kill(etcd.process.pid, SIGKILL);
			_exit(0);
		}
		assert_true(killer > 0);
		done += change_on(&party, nam_now_ns() + 400000000);
		assert_int_equal(child_wait(&etcd.process, TIMEOUT_MS), 128 + SIGKILL);
		assert_int_equal(child_wait(&(struct child){ .pid = killer, .out = -1 }, 1000), 0);
		etcd_start();
		acquire_in_time(&party);
		view = get(&party);
		assert_true(view->head.number >= seen + done);
		seen = view->head.number;
		free(view);
		expect_recorded(&party, store_name + strlen("etcd:"));
	}
	for (uint64_t i = 0; !changed && i < TIMEOUT_MS / 100; i++)
		changed = change_on(&party, nam_now_ns() + 100000000) > 0;
	assert_true(changed);
	party_close(&party);
}

/* ---- users ----------------------------------------------------------------------------------- */

static int
acquire_as(const char *user, const char *password, struct party *party)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/password", etcd.folder);
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fprintf(file, "%s\n", password);
	(void)fclose(file);
	store_user = user;
	store_password_file = path;
	party_open(party, LONG_MS, 0);
	store_user = store_password_file = NULL;
	return acquire(party);
}

/* The last test: etcd keeps its users. */
static void
acquire__users_are_asked_for__ONLY_WITH_THE_PASSWORD(void **state)
{
	struct party party;

	(void)state;
	etcd_ask_for_users();
	party_open(&party, LONG_MS, 0);
	assert_int_equal(acquire(&party), -NAM_E_FABRIC_PROTOCOL);
	party_drop(&party);
	assert_int_equal(acquire_as("nam", "wrong", &party), -NAM_E_FABRIC_PROTOCOL);
	party_drop(&party);
	assert_int_equal(acquire_as("nam", "secret", &party), 0);
	assert_int_equal(renew(&party), 0);
	/* Tokens end with etcd. */
	child_kill(&etcd.process);
	etcd_start();
	assert_int_equal(renew(&party), 0);
	free(get(&party));
	party_close(&party);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void
open__a_name_that_is_none__IS_EINVAL(void **state)
{
	static const char *const bad[] = { "", "etcd", "etcd:", "etcd:http://h", "etcd:http://h/",
		"etcd:ftp://h/name", "etcd:http:///name", "etcd:http://a,,b/name", "else",
		"etcd:http://a b/name", "etcd:http://1,2,3,4,5,6,7,8,9/name" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct nam__store_options store = { .view_store = bad[i] };
		struct nam__view_store *opened;
		struct nam_diag diag = { "" };

		assert_int_equal(nam__store_open(&store, &opened, &diag), -EINVAL);
		assert_true(diag.text[0]);
	}
}

#define EMBEDDED(name) cmocka_unit_test_setup_teardown(name, setup_embedded, teardown)
#define WITH_ETCD(name) cmocka_unit_test_setup_teardown(name, setup_etcd, teardown)
#define BOTH(name) EMBEDDED(name), WITH_ETCD(name)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__a_name_that_is_none__IS_EINVAL),
		BOTH(acquire__another_leads__IS_TERM_until_it_releases),
		BOTH(change__from_a_view_that_has_changed__IS_VIEW),
		BOTH(change__by_a_steward_that_stalled__IS_TERM_and_it_does_nothing),
		BOTH(change__by_two_at_once__EACH_SUCCESS_IS_ONE_VIEW),
		BOTH(pass__a_member_is_joining__COMES_UP),
		BOTH(pass__a_member_that_was_joining_has_ended__IS_ABORTED),
		BOTH(pass__a_member_that_is_joining_is_silent__STAYS),
		WITH_ETCD(change__decided_and_not_installed__THE_NEXT_STEWARD_INSTALLS_IT),
		WITH_ETCD(get__a_client_has_renewed_a_member__IS_IN_THE_RECORD),
		WITH_ETCD(get__the_lead_has_seen_higher_terms__TERMS_GO_ON_BEHIND_THEM),
		WITH_ETCD(change__etcd_is_cut_off__IS_STORE_and_goes_on_later),
		WITH_ETCD(change__etcd_is_killed_meanwhile__NOTHING_IS_LOST_OR_TWICE),
		WITH_ETCD(acquire__users_are_asked_for__ONLY_WITH_THE_PASSWORD),
	};

	if (access(ETCD, X_OK)) {
		printf("skipped: there is no %s; install etcd-server\n", ETCD);
		return 77;
	}
	return cmocka_run_group_tests(tests, begin, end);
}
