/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_view.c -- scenes in which memory servers come while clients are at work.
 *
 * A leaf that lies at a memory server which a client does not know is outside of memory for it:
 * NAM_E_NOREGION.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/worker/worker.h"
#include "litmus.h"
#include "memserver/memserver_internal.h"
#include "steward/pass.h"
#include "txn/sweep.h"

#define NEW_ID 2u			/* the list has 0 and 1 */
#define KEYS_FROM 1000u
#define KEYS_MAX 100u
#define HOLD_NS (2 * LITMUS_SHORT_NS)
#define TIMEOUT_MS 2000u

static struct sim_server *new_server;	/* of the scene */
static uint64_t next_key;
static uint64_t there;			/* a key whose leaf lies there; 0: none */

/* ---- steps ----------------------------------------------------------------------------------- */

static int
try_add(const char *list, const char *address, uint32_t timeout_ms, struct nam_diag *diag)
{
	struct nam_client_options options;
	struct nam_server_added added;

	nam_client_options_init(&options);
	options.cluster = list;
	options.timeout_ms = timeout_ms;
	return nam_server_add(&options, address, NULL, NULL, &added, diag);
}

void
litmus_server_add(const char *address)
{
	struct nam_diag diag = { "" };
	int rc = try_add(litmus.cluster.list, address, TIMEOUT_MS, &diag);

	if (rc && !nam_sim_zombie())
		litmus_fail("server add: %s", diag.text);
}

struct nam__cluster_view *
litmus_view_of(struct actor *self)
{
	struct nam__cluster_view *view;

	if (nam__cluster_view_get(self->worker, self->client->catalog_slot, &view))
		sim_die("no view: %s", nam_worker_diag(self->worker));
	return view;
}

/* A change without the courtesy of waiting until it is due.  Until the lead accepts it. */
static void
change(struct actor *self, enum nam_rpc_view_change what)
{
	int rc = -NAM_E_VIEW;

	for (unsigned i = 0; rc == -NAM_E_VIEW && i < TIMEOUT_MS; i++) {
		struct nam__cluster_view *view = litmus_view_of(self);
		struct nam_view_member member = { .id = (uint16_t)new_server->id,
			.boot = new_server->server->boot };
		struct nam_view_head head;

		memcpy(member.address, new_server->address, sizeof(new_server->address));
		rc = nam__cluster_view_change(self->worker, self->client->catalog_slot,
			view->head.number, 0, what, &member, &head);
		free(view);
		if (rc)
			nam_sleep_ns(1000000);
	}
	if (rc)
		litmus_fail("change %d of the view: %s", (int)what, nam_err_name(rc));
}

void
litmus_server_await(const struct actor *self, uint32_t id)
{
	const struct nam_client *client = self->client;

	/* Its epoch thread looks at the view word every 10 ms. */
	for (unsigned i = 0; i < 2 * LITMUS_TICKS_NS / LITMUS_POLL_NS; i++) {
		uint16_t slot = client->slot_of_id[id];

		if (slot != NAM__NO_SLOT && client->servers[slot].usable)
			return;
		nam_sleep_ns(LITMUS_POLL_NS);
	}
}

/* Insert until a leaf lies at the new memory server, as far as there are keys. */
static void
insert_there(struct actor *self)
{
	litmus_server_await(self, NEW_ID);
	for (unsigned i = 0; i < KEYS_MAX && !there && !litmus.failed; i++, next_key++) {
		struct nam_gaddr leaf;

		litmus_insert(self, next_key);
		leaf = litmus_leaf_of(self, next_key, NULL);
		if (self->client->servers[litmus_server_of(self, leaf)].id == NEW_ID)
			there = next_key;
	}
}

static void
start_new(void)
{
	new_server = sim_cluster_add(&litmus.cluster, NEW_ID);
	next_key = KEYS_FROM;
	there = 0;
}

/* The client's threads go on; its epoch thread does not, for a while. */
static void
hold_for_a_while(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(SEEN, HOLD_NS);
}

/* The same.  Off: violates C20, since the client acknowledges what it has not installed. */
static void
hold_installing(struct actor *self)
{
	const struct nam_client *client = self->client;
	struct nam__cluster_view *view;

	if (!litmus.flags[ONE] && !NAM_GUARD(VIEW_INSTALLED)) {
		if (nam__cluster_view_get(client->epoch_worker, client->lead_slot, &view))
			sim_die("no view: %s", nam_worker_diag(client->epoch_worker));
		(void)!nam__cluster_view_ack(client->epoch_worker, client->lead_slot,
			view->head.number);
		free(view);
	}
	hold_for_a_while(self);
}

static void
look_up_all(struct actor *self)
{
	litmus_await(INSERTED);
	litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	if (there)
		litmus_expect(self, there, 0);
	litmus.flags[SEEN] = true;
}

void
litmus_expect_members(struct actor *self, uint32_t count)
{
	struct nam__cluster_view *view = NULL;

	for (unsigned i = 0; i < 100; i++) {
		free(view);
		view = litmus_view_of(self);
		if (view->acknowledged == view->head.number)
			break;
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
	if (view->acknowledged != view->head.number)
		litmus_fail("client %u has not installed view %llu", view->delaying,
			(unsigned long long)view->head.number);
	if (view->head.count != count)
		litmus_fail("the view has %u members", view->head.count);
	for (uint32_t i = 0; i < view->head.count; i++)
		if (view->members[i].state != NAM_VIEW_UP)
			litmus_fail("memory server %u is joining", view->members[i].id);
	free(view);
}

static void
end_with_three(struct actor *self)
{
	litmus_expect_members(self, 3);
	if (!there)
		litmus_fail("no leaf lies at the new memory server");
	else
		litmus_expect(self, there, 0);
	litmus_verify(self);
}

/* ---- one addition ---------------------------------------------------------------------------- */

/* UP is asked for at once, again and again. */
static void
add_in_haste(struct actor *self)
{
	start_new();
	change(self, NAM_RPC_VIEW_ADD);
	change(self, NAM_RPC_VIEW_UP);
	insert_there(self);
	litmus.flags[INSERTED] = true;
}

/* Keys are inserted while it is joining. */
static void
insert_before_up(struct actor *self)
{
	start_new();
	change(self, NAM_RPC_VIEW_ADD);
	litmus_await(ONE);
	insert_there(self);
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
	change(self, NAM_RPC_VIEW_UP);
	if (!there)
		insert_there(self);
}

/* The other client has read the view, and has not registered. */
static void
add_meanwhile(struct actor *self)
{
	litmus_await(ONE);
	start_new();
	litmus_server_add(new_server->address);
	insert_there(self);
	litmus.flags[TWO] = true;
	litmus.flags[INSERTED] = true;
}

/* As it begins, it reads the view word; not before this has looked up. */
static void
hold_follow(struct actor *self)
{
	(void)self;
	if (litmus.flags[TWO])
		litmus_await_for(SEEN, HOLD_NS);
}

/* ---- a client outside ------------------------------------------------------------------------ */

static void
come_from_outside(struct actor *self)
{
	char list[sizeof(litmus.cluster.list) + sizeof(new_server->address) + 1];
	struct actor other = { .who = self->who };
	struct nam_diag diag = { "" };
	int rc;

	start_new();
	(void)snprintf(list, sizeof(list), "%s,%s", litmus.cluster.list, new_server->address);
	rc = sim_client_try(&litmus.cluster, list, "outsider", &other.client, &diag);
	if (rc == -NAM_E_CLUSTER) {
		litmus_server_add(new_server->address);
		rc = sim_client_try(&litmus.cluster, list, "insider", &other.client, &diag);
	}
	if (rc)
		sim_die("connecting: %s", diag.text);
	other.worker = sim_worker(other.client);
	if (!other.worker || nam_index_open(other.worker, LITMUS_INDEX, 1u << 20, &other.index))
		sim_die("the other client cannot come");
	insert_there(&other);
	litmus.flags[INSERTED] = true;
	litmus_await(SEEN);
	nam_index_close(other.index);
	nam_worker_close(other.worker);
	nam_client_close(other.client);
}

/* ---- a memory server that was restarted ------------------------------------------------------ */

#define OTHER_INDEX "other"

static void
join(struct actor *other, enum who who)
{
	struct nam_diag diag = { "" };

	*other = (struct actor){ .who = who };
	if (sim_client_try(&litmus.cluster, litmus.cluster.list, "other", &other->client, &diag))
		sim_die("connecting: %s", diag.text);
	other->worker = sim_worker(other->client);
	if (!other->worker)
		sim_die("a worker cannot come");
}

static void
leave(struct actor *other)
{
	nam_index_close(other->index);
	nam_worker_close(other->worker);
	nam_client_close(other->client);
}

static void
make_other_index(struct actor *other)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 0;
	if (nam_index_create(other->worker, OTHER_INDEX, &options) ||
		nam_index_open(other->worker, OTHER_INDEX, 1u << 20, &other->index))
		sim_die("the index: %s", nam_worker_diag(other->worker));
	for (uint64_t number = 0; number < 100; number++)
		litmus_insert(other, number);
}

/*
 * This client would renew the member, has read the view for that, and waits.  The memory server is
 * restarted once more, and a client that joins renews it.  Then this one goes on.
 */
static void
renew_late(struct actor *self)
{
	struct sim_server *server = &litmus.cluster.servers[1];
	struct nam__cluster_view *view = litmus_view_of(self);
	struct nam_view_member member = view->members[1];
	struct nam_view_head head;
	struct actor first, second;
	int rc;

	sim_server_restart(server);
	member.boot = server->server->boot;
	sim_server_restart(server);
	join(&first, B);
	make_other_index(&first);
	rc = nam__cluster_view_change(self->worker, self->client->catalog_slot,
		view->head.number, 0, NAM_RPC_VIEW_RENEW, &member, &head);
	free(view);
	/* A view that names a life that is over makes this client give the memory server up. */
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	for (uint64_t number = 100; number < 200; number++)
		litmus_insert(&first, number);
	join(&second, C);
	if (nam_index_open(second.worker, OTHER_INDEX, 1u << 20, &second.index))
		litmus_fail("open: %s", nam_worker_diag(second.worker));
	else
		litmus_expect(&second, 199, 0);
	if (!litmus.failed)
		litmus_verify(&second);
	if (rc != -NAM_E_VIEW)
		litmus_fail("a change of an earlier view: %s", nam_err_name(rc));
	leave(&second);
	leave(&first);
}

/* The index was made before the memory server came, has leaves there, and they are gone. */
static void
lose_later(struct actor *self)
{
	struct actor other;
	int rc;

	start_new();
	litmus_server_add(new_server->address);
	insert_there(self);
	sim_server_restart(new_server);
	join(&other, B);
	rc = nam_index_open(other.worker, LITMUS_INDEX, 1u << 20, &other.index);
	if (!rc)
		litmus_expect(&other, there, 0);
	else if (rc != -NAM_E_LOST)
		litmus_fail("open: %s", nam_worker_diag(other.worker));
	leave(&other);
}

/* ---- two leads ------------------------------------------------------------------------------- */

/* A lead of its own, and a memory server that has another lead. */
static void
form_beside(struct actor *self)
{
	const struct sim_server *lead = sim_cluster_add(&litmus.cluster, 0);
	struct nam_client *client;
	struct nam_diag diag = { "" };
	char list[sizeof(litmus.cluster.list) + sizeof(lead->address) + 1];
	int rc;

	(void)self;
	(void)snprintf(list, sizeof(list), "%s,%s", lead->address,
		litmus.cluster.servers[1].address);
	rc = sim_client_try(&litmus.cluster, list, "other", &client, &diag);
	if (!rc)
		nam_client_close(client);
	if (rc != -NAM_E_CLUSTER)
		litmus_fail("two leads have a memory server: %s", nam_err_name(rc));
	if (lead->server->membership.view.head.number)
		litmus_fail("the second lead has a view");
}

/* The lead is restarted, and a member misses the copy of its view. */
static void
miss_copy(struct actor *self)
{
	struct sim_server *lead = &litmus.cluster.servers[0], *missed = &litmus.cluster.servers[1];
	struct nam__view *copy = &missed->server->membership.view, old = *copy;
	struct nam_client_options options;
	struct nam_cluster *seeds;
	struct nam__steward steward = { .options = &options };
	struct nam__steward_passed passed;
	struct nam_diag diag = { "" };
	struct actor other;

	sim_server_restart(lead);
	join(&other, self->who);
	*copy = old;
	nam_client_options_init(&options);
	options.cluster = missed->address;
	steward.store = nam__view_store_embedded(NAM_RPC_STEWARD_LEASE_MIN_MS);
	if (!steward.store || nam__cluster_read(&options, &seeds, &diag))
		sim_die("a steward: %s", diag.text);
	steward.seeds = seeds;
	if (nam__steward_pass(&steward, &passed, &diag))
		litmus_fail("a pass: %s", diag.text);
	else if (copy->head.lead_boot != lead->server->boot || copy->head.number != passed.view)
		litmus_fail("the copy is of another life of the lead");
	nam__steward_end(&steward);
	steward.store->ops->close(steward.store);
	free(seeds);
	nam_worker_close(other.worker);
	nam_client_close(other.client);
}

/* The lead is restarted, and the first client of its new life lists so many memory servers. */
static struct nam_client *
come_after_restart(uint32_t listed)
{
	char list[2 * sizeof(litmus.cluster.servers[0].address) + 1];
	struct nam_client *client = NULL;
	struct nam_diag diag = { "" };

	sim_server_restart(&litmus.cluster.servers[0]);
	(void)snprintf(list, sizeof(list), "%s%s%s", litmus.cluster.servers[0].address,
		listed > 1 ? "," : "", listed > 1 ? litmus.cluster.servers[1].address : "");
	if (sim_client_try(&litmus.cluster, list, "other", &client, &diag))
		litmus_fail("a client after the restart: %s", diag.text);
	return client;
}

static void
expect_formed(uint32_t members)
{
	uint32_t count = litmus.cluster.servers[0].server->membership.view.head.count;

	if (count != members)
		litmus_fail("the view has %u members instead of %u", count, members);
}

static void
list_two(struct actor *self)
{
	struct nam_client *client = come_after_restart(2);

	(void)self;
	if (!client)
		return;
	expect_formed(3);
	nam_client_close(client);
}

/* The other one would take clients of the new life for those that it had before. */
static void
list_one(struct actor *self)
{
	struct sim_server *lead = &litmus.cluster.servers[0], *other = &litmus.cluster.servers[1];
	struct nam_client *client = come_after_restart(1);
	struct nam_diag diag = { "" };
	int rc;

	(void)self;
	if (!client)
		return;
	expect_formed(1);
	rc = try_add(lead->address, other->address, TIMEOUT_MS, &diag);
	if (rc != -NAM_E_CLUSTER)
		litmus_fail("a member of the view before is added: %s", nam_err_name(rc));
	sim_server_restart(other);
	if (try_add(lead->address, other->address, TIMEOUT_MS, &diag))
		litmus_fail("server add: %s", diag.text);
	expect_formed(2);
	nam_client_close(client);
}

/* ---- ends at any time ------------------------------------------------------------------------ */

static void
add_new(struct actor *self)
{
	(void)self;
	start_new();
	litmus_server_add(new_server->address);
}

static void
die(struct actor *self)
{
	litmus.flags[TWO] = true;
	nam_sim_process_kill(self->process);
}

/* The addition goes on where the other process left it. */
static void
add_again(struct actor *self)
{
	litmus_await(TWO);
	litmus_server_add(new_server->address);
	insert_there(self);
}

static void
kill_new(struct actor *self)
{
	(void)self;
	if (!litmus.flags[TWO])
		nam_sim_process_kill(new_server->process);
	litmus.flags[TWO] = true;
}

/* It dies while it is joining; another memory server takes its id. */
static void
add_another(struct actor *self)
{
	struct nam_diag diag = { "" };
	int rc;

	start_new();
	rc = try_add(litmus.cluster.list, new_server->address, TIMEOUT_MS, &diag);
	if (!nam_err_is(rc, NAM_E_FABRIC))
		litmus_fail("adding a memory server that has died: %s", nam_err_name(rc));
	litmus_expect_members(self, 2);
	start_new();
	litmus_server_add(new_server->address);
	insert_there(self);
}

/* Restarted while it is joining: the addition begins anew. */
static void
restart_new(struct actor *self)
{
	(void)self;
	if (!litmus.flags[TWO])
		sim_server_restart(new_server);
	litmus.flags[TWO] = true;
}

static void
add_and_insert(struct actor *self)
{
	start_new();
	litmus_server_add(new_server->address);
	insert_there(self);
}

/* Two at once: one at a time is joining. */
static void
add_beside(struct actor *self)
{
	const struct sim_server *server = sim_cluster_add(&litmus.cluster, NEW_ID + 1);

	(void)self;
	litmus_server_add(server->address);
}

static void
end_with_four(struct actor *self)
{
	litmus_expect_members(self, 4);
	litmus_verify(self);
}

/* ---- a sweep --------------------------------------------------------------------------------- */

/* A memory server comes, and gets a leaf, after the others have been told that a sweep begins. */
static void
sweep_beside(struct actor *self)
{
	struct nam_sweep_stat stat;
	int rc = nam_sweep(self->worker, false, &stat);

	if (rc)
		litmus_fail("a sweep: %s: %s", nam_err_name(rc), nam_worker_diag(self->worker));
}

static void
add_beside_sweep(struct actor *self)
{
	litmus_await(ONE);
	add_and_insert(self);
	litmus.flags[TWO] = true;
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_view_cases[] = {
	{ { "view_slow_client", LITMUS_LOADED,
		{ end_with_three, add_in_haste, NULL, look_up_all },
		{ { "view.word_seen", C, hold_for_a_while } } },
		"a client is slow to follow while a memory server comes UP and gets a leaf", 2, 0 },
	{ { "view_early_ack", LITMUS_LOADED,
		{ end_with_three, add_in_haste, NULL, look_up_all },
		{ { "view.installing", C, hold_installing } } },
		"the same, and the client has read the view, but has not installed its members",
		2, 0 },
	{ { "view_eager", LITMUS_LOADED,
		{ end_with_three, insert_before_up, NULL, look_up_all },
		{ { "view.word_seen", C, hold_for_a_while } } },
		"a client allocates while a memory server joins, and another is slow to follow",
		2, 0 },
	{ { "view_late_joiner", LITMUS_LOADED,
		{ end_with_three, add_meanwhile, look_up_all },
		{ { "view.registering", B, litmus_hold_first },
			{ "view.word_seen", B, hold_follow } } },
		"a memory server comes between the view that a client reads and its registration",
		2, 0 },
	{ { "view_outsider", LITMUS_LOADED,
		{ end_with_three, come_from_outside, look_up_all }, { { 0 } } },
		"a client's list names a memory server that was never added", 2, 0 },
	{ { "view_stale_renew", LITMUS_LOADED, { NULL, renew_late }, { { 0 } } },
		"a memory server is restarted twice, and a change of the view names its first life",
		2, 0 },
	{ { "view_lost_later", LITMUS_LOADED, { NULL, lose_later }, { { 0 } } },
		"a memory server that came after an index was made, and has leaves, is restarted",
		2, 0 },
	{ { "view_two_leads", LITMUS_LOADED, { NULL, form_beside }, { { 0 } } },
		"a client would form the view of a second lead, with a memory server of the first",
		2, 0 },
	{ { "view_missed_copy", LITMUS_LOADED, { NULL, miss_copy }, { { 0 } } },
		"the lead is restarted, a member misses the copy of its view, and is the seed of a "
		"steward", 2, 0 },
	{ { "view_restart_lists_two", LITMUS_LOADED, { NULL, list_two }, { { 0 } } },
		"the lead is restarted, and the first client lists two of three members", 3, 0 },
	{ { "view_restart_lists_one", LITMUS_LOADED, { NULL, list_one }, { { 0 } } },
		"the lead is restarted, the first client lists it alone, the other one is added", 2,
		0 },
	{ { "view_adder_dies", LITMUS_LOADED, { end_with_three, add_new, add_again },
		{ { "view.added", A, die } } },
		"a process dies that has begun to add a memory server; another one goes on", 2, 0 },
	{ { "view_adder_dies_late", LITMUS_LOADED, { end_with_three, add_new, add_again },
		{ { "view.up", A, die } } },
		"the same, when all clients know the memory server", 2, 0 },
	{ { "view_joiner_dies", LITMUS_LOADED, { end_with_three, add_another },
		{ { "view.added", A, kill_new } } },
		"a memory server dies while it is joining, and another one takes its id", 2, 0 },
	{ { "view_joiner_restarts", LITMUS_LOADED, { end_with_three, add_and_insert },
		{ { "view.added", A, restart_new } } },
		"a memory server is restarted while it is joining", 2, 0 },
	{ { "view_two_adds", LITMUS_LOADED, { end_with_four, add_and_insert, add_beside },
		{ { 0 } } },
		"two processes add a memory server each, at once", 2, 0 },
	{ { "view_sweep", LITMUS_LOADED, { end_with_three, sweep_beside, add_beside_sweep },
		{ { "sweep.living", A, litmus_hold_first } } },
		"a memory server comes and gets a leaf when a sweep has begun", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
