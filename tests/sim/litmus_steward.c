/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_steward.c -- scenes of stewards: two at once, one that dies half-way, one that stalls and
 * returns.
 *
 * Some have a record outside of the cluster, as etcd is one; here it is plain memory that outlives
 * every process.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/remote/epoch.h"
#include "compute/view/lead.h"
#include "compute/admin.h"
#include "compute/worker/worker.h"
#include "litmus_steward.h"
#include "memserver/memserver_internal.h"
#include "steward/record.h"

#define NEW_ID 2u			/* the list has 0 and 1 */
#define LEASE_MS 100u			/* the least; most stewards here outlive it once */
#define PASSES_MAX 200u
#define TIMEOUT_MS 2000u

static struct sim_server *new_server;	/* of the scene */

/* ---- the record ------------------------------------------------------------------------------ */

static struct {
	struct nam__record record;
	uint64_t term, lease_ns;
} kept;

struct sim_backend {
	struct nam__backend backend;
	uint32_t lease_ms;
	uint64_t term;			/* 0: does not lead */
};

static struct nam__cluster_view *
view_clone(const struct nam__cluster_view *view)
{
	struct nam__cluster_view *ret = nam__cluster_view_clone(view);

	if (!ret)
		sim_die("no memory for a view");
	return ret;
}

static int
kept_read(struct nam__backend *backend, struct nam__record *ret_record, struct nam_diag *diag)
{
	(void)backend;
	(void)diag;
	*ret_record = kept.record;
	if (kept.record.view)
		ret_record->view = view_clone(kept.record.view);
	return 0;
}

static int
kept_write(struct nam__backend *backend, const struct nam__record *record, uint64_t term,
	struct nam_diag *diag)
{
	(void)backend;
	if (nam_sim_zombie())
		return nam_diag_set(diag, -NAM_E_FABRIC_STORE, "this process has ended");
	if (term && (term != kept.term || nam_sim_now_ns() >= kept.lease_ns))
		return -NAM_E_TERM;
	if (record->revision != kept.record.revision)
		return -NAM_E_VIEW;
	free(kept.record.view);
	kept.record = *record;
	kept.record.revision++;
	kept.record.view = view_clone(record->view);
	return 0;
}

static int
kept_acquire(struct nam__backend *base, uint32_t lease_ms, uint64_t *ret_term,
	struct nam_diag *diag)
{
	struct sim_backend *backend = (struct sim_backend *)base;

	(void)diag;
	if (nam_sim_zombie() || nam_sim_now_ns() < kept.lease_ns)
		return -NAM_E_TERM;
	backend->lease_ms = lease_ms;
	backend->term = ++kept.term;
	kept.lease_ns = nam_sim_now_ns() + lease_ms * 1000000ull;
	*ret_term = backend->term;
	return 0;
}

static int
kept_renew(struct nam__backend *base, struct nam_diag *diag)
{
	struct sim_backend *backend = (struct sim_backend *)base;

	(void)diag;
	if (backend->term != kept.term || nam_sim_now_ns() >= kept.lease_ns)
		return -NAM_E_TERM;
	kept.lease_ns = nam_sim_now_ns() + backend->lease_ms * 1000000ull;
	return 0;
}

static void
kept_release(struct nam__backend *base)
{
	struct sim_backend *backend = (struct sim_backend *)base;

	if (backend->term == kept.term && !nam_sim_zombie())
		kept.lease_ns = 0;
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

static struct nam__view_store *
recorded(void)
{
	struct sim_backend *backend = calloc(1, sizeof(*backend));
	struct nam__view_store *store = NULL;

	if (backend) {
		backend->backend.ops = &kept_ops;
		store = nam__view_store_recorded(&backend->backend, LEASE_MS);
	}
	if (!store)
		sim_die("no memory for a view store");
	return store;
}

struct nam__view_store *
litmus_steward_store(void)
{
	struct nam__view_store *store = nam__view_store_embedded(LEASE_MS);

	if (!store)
		sim_die("no memory for a view store");
	return store;
}

/* The record says the same as the lead. */
static void
expect_recorded(struct actor *self)
{
	struct nam__cluster_view *view = litmus_view_of(self);
	const struct nam__cluster_view *decided = kept.record.view;

	if (!decided || decided->head.number != view->head.number ||
		decided->head.count != view->head.count ||
		memcmp(decided->members, view->members,
			view->head.count * sizeof(view->members[0])) != 0)
		litmus_fail("the record is view %llu of %u members, the lead has view %llu of %u",
			decided ? (unsigned long long)decided->head.number : 0,
			decided ? decided->head.count : 0, (unsigned long long)view->head.number,
			view->head.count);
	free(view);
}

static void
kept_reset(void)
{
	free(kept.record.view);
	memset(&kept, 0, sizeof(kept));
}

/* ---- stewards -------------------------------------------------------------------------------- */

static void
on_event(void *arg, const char *event, const char *fields)
{
	struct litmus_steward *party = arg;

	(void)fields;
	if (!strcmp(event, "leads"))
		party->told_leads = true;
	else if (!strcmp(event, "deposed"))
		party->told_leads = false;
}

void
litmus_steward_begin(struct litmus_steward *party, struct nam__view_store *store)
{
	struct nam_diag diag;

	memset(party, 0, sizeof(*party));
	nam_client_options_init(&party->options);
	party->options.cluster = litmus.cluster.list;
	party->options.timeout_ms = TIMEOUT_MS;
	if (nam__cluster_read(&party->options, &party->seeds, &diag))
		sim_die("%s", diag.text);
	party->steward = (struct nam__steward){
		.options = &party->options,
		.seeds = party->seeds,
		.store = store,
		.event = on_event,
		.arg = party,
	};
}

void
litmus_steward_end(struct litmus_steward *party)
{
	nam__steward_end(&party->steward);
	party->steward.store->ops->close(party->steward.store);
	free(party->seeds);
}

struct nam__steward_passed
litmus_steward_pass(struct litmus_steward *party)
{
	struct nam__steward_passed passed = { 0 };
	struct nam_diag diag;
	int rc = nam__steward_pass(&party->steward, &passed, &diag);

	if (rc && !nam_sim_zombie())
		litmus_fail("a pass: %s", diag.text);
	if (!rc && party->told_leads != (passed.term != 0))
		litmus_fail("a steward of term %llu told operators that it %s",
			(unsigned long long)passed.term, party->told_leads ? "leads" : "follows");
	return passed;
}

/* Until it has changed the view, or no member is joining any more. */
static void
pass_until_done(struct litmus_steward *party)
{
	for (unsigned i = 0; i < PASSES_MAX && !nam_sim_zombie() && !litmus.failed; i++) {
		struct nam__steward_passed passed = litmus_steward_pass(party);

		if (passed.changes || (passed.term && litmus.flags[THREE]))
			break;
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
}

static void
pass_once_leading(struct litmus_steward *party)
{
	for (unsigned i = 0; i < PASSES_MAX && !litmus.failed; i++) {
		if (litmus_steward_pass(party).term)
			break;
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
}

/* ---- half an addition ------------------------------------------------------------------------ */

static void
add_by(struct actor *self, struct nam__view_store *store)
{
	struct nam_client_options options;
	struct nam_server_added added;
	struct nam_diag diag = { "" };
	int rc;

	(void)self;
	new_server = sim_cluster_add(&litmus.cluster, NEW_ID);
	nam_client_options_init(&options);
	options.cluster = litmus.cluster.list;
	options.timeout_ms = TIMEOUT_MS;
	options.view_store = store;
	rc = nam_server_add(&options, new_server->address, NULL, NULL, &added, &diag);
	if (rc && !nam_sim_zombie())
		litmus_fail("server add: %s", diag.text);
	store->ops->close(store);
}

/* Its process is killed on the way. */
static void
add_half(struct actor *self)
{
	add_by(self, litmus_steward_store());
}

static void
add_half_recorded(struct actor *self)
{
	struct nam__view_store *store = recorded();
	struct nam_diag diag;

	if (store->ops->acquire(store, NULL, &diag))
		sim_die("the lease is not free");
	add_by(self, store);
}

static void
die(struct actor *self)
{
	litmus.flags[TWO] = true;
	nam_sim_process_kill(self->process);
}

/* The decision to add is recorded, and the lead does not know it. */
static void
die_first(struct actor *self)
{
	if (!litmus.flags[TWO])
		die(self);
}

static void
die_second(struct actor *self)
{
	litmus.flags[FOUR] = true;
	nam_sim_process_kill(self->process);
}

/* ---- acts ------------------------------------------------------------------------------------ */

static void
steward_after(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_await(TWO);
	litmus_steward_begin(&party, litmus_steward_store());
	pass_until_done(&party);
	litmus_steward_end(&party);
	litmus.flags[THREE] = true;
}

static void
steward_last(struct actor *self)
{
	litmus_await(FOUR);
	if (!litmus.flags[FOUR])
		litmus_fail("the first steward has not decided");
	steward_after(self);
}

static void
steward_after_recorded(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_await(TWO);
	litmus_steward_begin(&party, recorded());
	pass_until_done(&party);
	litmus_steward_end(&party);
	litmus.flags[THREE] = true;
}

/* Not when it adds, but when it brings up. */
static void
stall(struct actor *self)
{
	(void)self;
	if (!litmus.flags[TWO] || litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await_for(FOUR, 4 * LITMUS_TIMEOUT_NS);
}

/* It has begun to add a memory server, all clients know it, and it is to come UP. */
static void
stall_and_return(struct actor *self, struct nam__view_store *(*open)(void))
{
	struct litmus_steward party;
	struct nam__cluster_view *view = litmus_view_of(self);
	struct nam_view_member member = { .state = NAM_VIEW_JOINING };
	struct nam_diag diag;

	new_server = sim_cluster_add(&litmus.cluster, NEW_ID);
	member.id = NEW_ID;
	member.boot = new_server->server->boot;
	memcpy(member.address, new_server->address, sizeof(new_server->address));
	litmus_steward_begin(&party, open());
	pass_once_leading(&party);
	if (party.steward.store->ops->change(party.steward.store,
			party.steward.lead->epoch_worker, view, NAM_RPC_VIEW_ADD, &member, &diag))
		litmus_fail("the addition was refused");
	free(view);
	litmus.flags[TWO] = true;
	pass_until_done(&party);
	litmus.flags[SEEN] = true;
	litmus_steward_end(&party);
}

static void
stall_embedded(struct actor *self)
{
	stall_and_return(self, litmus_steward_store);
}

static void
stall_recorded(struct actor *self)
{
	stall_and_return(self, recorded);
}

/* The memory server has ended meanwhile. */
static void
lead_past(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_await(ONE);
	nam_sim_process_kill(new_server->process);
	litmus_steward_begin(&party, litmus_steward_store());
	pass_until_done(&party);
	litmus_steward_end(&party);
}

/* It would abort; the other one returns at this very moment. */
static void
let_return(struct actor *self)
{
	(void)self;
	litmus.flags[FOUR] = true;
	litmus_await(SEEN);
}

/* The decision of the other one is in the record. */
static void
lead_past_recorded(struct actor *self)
{
	struct litmus_steward party;
	struct nam__cluster_view *view;

	litmus_await(ONE);
	litmus_steward_begin(&party, recorded());
	pass_once_leading(&party);
	view = litmus_view_of(self);
	if (view->head.count != 3 || view->members[2].state != NAM_VIEW_UP)
		litmus_fail("the second steward has not ended what the first one decided");
	free(view);
	litmus.flags[FOUR] = true;
	litmus_await(SEEN);
	litmus_steward_end(&party);
}

/* It has renewed its lease, and stalls until another one leads. */
static void
stall_leading(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_steward_begin(&party, recorded());
	pass_once_leading(&party);
	litmus.flags[TWO] = true;
	if (litmus_steward_pass(&party).term)
		litmus_fail("two stewards lead");
	litmus.flags[SEEN] = true;
	litmus_steward_end(&party);
}

static void
lead_beside(struct actor *self)
{
	struct litmus_steward party;

	(void)self;
	litmus_await(ONE);
	litmus_steward_begin(&party, recorded());
	pass_once_leading(&party);
	litmus.flags[FOUR] = true;
	litmus_await(SEEN);
	litmus_steward_end(&party);
}

/* Both at once, over and over. */
static void
race(struct actor *self, struct nam__view_store *(*open)(void))
{
	for (unsigned i = 0; i < 20 && !litmus.failed; i++) {
		struct litmus_steward party;
		struct nam__cluster_view *view;
		bool done;

		litmus_steward_begin(&party, open());
		(void)litmus_steward_pass(&party);
		litmus_steward_end(&party);
		view = litmus_view_of(self);
		done = litmus.flags[THREE] && !nam__view_joining(view) && view->head.count == 3;
		free(view);
		if (done)
			break;
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
}

static void
race_embedded(struct actor *self)
{
	race(self, litmus_steward_store);
}

static void
race_recorded(struct actor *self)
{
	race(self, recorded);
}

static void
add_beside(struct actor *self)
{
	add_by(self, litmus_steward_store());
	litmus.flags[THREE] = true;
}

/* It never leads: it decides, and one of the stewards does the rest. */
static void
add_beside_recorded(struct actor *self)
{
	add_by(self, recorded());
	litmus.flags[THREE] = true;
}

/* ---- a member that was restarted ------------------------------------------------------------- */

/* No client joins.  Its copy of the view went with its memory. */
static void
renew(struct actor *self)
{
	struct sim_server *server = &litmus.cluster.servers[1];
	struct nam__cluster_view *view;
	struct litmus_steward party;

	sim_server_restart(server);
	litmus_steward_begin(&party, recorded());
	pass_until_done(&party);
	view = litmus_view_of(self);
	if (view->head.number != 2 || view->members[1].boot != server->server->boot ||
		view->members[1].renewed != 2 || server->server->membership.view.head.number != 2)
		litmus_fail("a member was restarted, and view %llu does not say so",
			(unsigned long long)view->head.number);
	if (litmus_steward_pass(&party).changes)
		litmus_fail("the same member is renewed again");
	expect_recorded(self);
	kept_reset();
	litmus_steward_end(&party);
	free(view);
}

/* ---- another life of the lead ---------------------------------------------------------------- */

/* A steward of the first life and one of the second have the same term. */
static void
lead_in_both_lives(struct actor *self)
{
	struct litmus_steward first, second;
	struct nam__steward_passed passed = { 0 };

	(void)self;
	litmus_steward_begin(&first, litmus_steward_store());
	litmus_steward_begin(&second, litmus_steward_store());
	pass_once_leading(&first);
	sim_server_restart(&litmus.cluster.servers[0]);
	pass_once_leading(&second);
	/* It finds the connection of its first life broken, and then the lead. */
	for (unsigned i = 0; i < PASSES_MAX && !litmus.failed; i++) {
		struct nam_diag diag;

		if (!nam__steward_pass(&first.steward, &passed, &diag))
			break;
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
	if (passed.term)
		litmus_fail("two stewards lead, with the terms %llu and %llu",
			(unsigned long long)passed.term,
			(unsigned long long)second.steward.store->term);
	litmus_steward_end(&first);
	litmus_steward_end(&second);
}

static void
note_left_out(void *arg, const char *event, const char *fields)
{
	(void)arg;
	if (!strcmp(event, "left_out") && !strncmp(fields, "id=1 ", 5))
		litmus.flags[FIVE] = true;
}

/* The first client after the restart lists the lead alone. */
static void
leave_out(struct actor *self)
{
	struct litmus_steward one;
	struct nam__steward_passed passed;
	struct nam_client *client;
	struct nam_diag diag = { "" };

	(void)self;
	litmus_steward_begin(&one, litmus_steward_store());
	one.steward.warning = note_left_out;
	pass_once_leading(&one);
	sim_server_restart(&litmus.cluster.servers[0]);
	if (sim_client_try(&litmus.cluster, litmus.cluster.servers[0].address, "other", &client,
			&diag)) {
		litmus_fail("a client after the restart: %s", diag.text);
		return;
	}
	/* The first pass finds the connection of the first life broken. */
	for (unsigned i = 0; i < PASSES_MAX && !litmus.flags[FIVE]; i++) {
		(void)!nam__steward_pass(&one.steward, &passed, &diag);
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
	if (!litmus.flags[FIVE])
		litmus_fail("the steward does not say which member was left out");
	nam_client_close(client);
	litmus_steward_end(&one);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void
end_with(struct actor *self, uint32_t count)
{
	litmus_expect_members(self, count);
	litmus_verify(self);
}

static void
end_with_two(struct actor *self)
{
	end_with(self, 2);
}

static void
end_with_three(struct actor *self)
{
	end_with(self, 3);
}

static void
end_kept(struct actor *self)
{
	kept_reset();
	end_with_two(self);
}

static void
end_recorded(struct actor *self)
{
	expect_recorded(self);
	kept_reset();
	end_with_three(self);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_steward_cases[] = {
	{ { "steward_ends_add", LITMUS_LOADED, { end_with_three, add_half, steward_after },
		{ { "view.added", A, die } } },
		"a process dies that has begun to add a memory server, and a steward goes on",
		2, 0 },
	{ { "steward_dies", LITMUS_LOADED,
		{ end_with_three, add_half, steward_after, steward_last },
		{ { "view.added", A, die }, { "steward.decided", B, die_second } } },
		"the same, and the steward dies before it makes the change; another one leads",
		2, 0 },
	{ { "steward_stalls", LITMUS_LOADED, { end_with_two, stall_embedded, lead_past },
		{ { "steward.decided", A, stall }, { "steward.decided", B, let_return } } },
		"a steward stalls before it makes a change; the memory server dies, another "
		"steward leads, and the first one returns", 2, 0 },
	{ { "steward_two", LITMUS_LOADED,
		{ end_with_three, add_beside, race_embedded, race_embedded }, { { 0 } } },
		"two stewards at once, while a memory server is added", 2, 0 },
	{ { "steward_record_dies", LITMUS_LOADED,
		{ end_recorded, add_half_recorded, steward_after_recorded },
		{ { "view.decided", A, die_first } } },
		"an addition is recorded, and its process dies before the lead knows it", 2, 0 },
	{ { "steward_record_stalls", LITMUS_LOADED,
		{ end_recorded, stall_recorded, lead_past_recorded },
		{ { "view.decided", A, stall } } },
		"a steward stalls after it has recorded a change; another one makes it, and the "
		"first one returns", 2, 0 },
	{ { "steward_says", LITMUS_LOADED, { end_kept, stall_leading, lead_beside },
		{ { "steward.leads", A, stall } } },
		"a steward stalls behind its lease; another one leads, and the first one returns "
		"and says so", 2, 0 },
	{ { "steward_record_two", LITMUS_LOADED,
		{ end_recorded, add_beside_recorded, race_recorded, race_recorded }, { { 0 } } },
		"two stewards at once, with a record, while a memory server is added", 2, 0 },
	{ { "steward_renews", LITMUS_LOADED, { NULL, renew }, { { 0 } } },
		"a memory server is restarted, and a steward with a record says so", 2, 0 },
	{ { "steward_other_life", LITMUS_LOADED, { NULL, lead_in_both_lives }, { { 0 } } },
		"the lead is restarted, another steward leads, and the first one comes back", 2,
		0 },
	{ { "steward_left_out", LITMUS_LOADED, { NULL, leave_out }, { { 0 } } },
		"the lead is restarted, and the first client lists it alone", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
