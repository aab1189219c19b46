/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_lead.c -- scenes in which the lead has a backup, and its process ends (C33). */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/remote.h"
#include "compute/remote/epoch.h"
#include "compute/view/lead.h"
#include "compute/view/move/move_internal.h"
#include "litmus.h"
#include "memserver/memserver_internal.h"

#define LEAD 0u
#define NAME "named"
#define EPOCHS 1000u
#define TIMEOUT_MS 2000u

static struct sim_server *backup;	/* of the scene */
static uint64_t latest;			/* epoch that a client knows */

/* ---- steps ----------------------------------------------------------------------------------- */

static void
back(struct actor *self)
{
	(void)self;
	litmus_await(ONE);
	backup = litmus_back(LEAD);
	litmus.flags[SEEN] = true;
}

static void
back_kill_promote(struct actor *self)
{
	back(self);
	litmus_await(TWO);
	litmus_fail_over(LEAD);
	(void)snprintf(litmus.cluster.list, sizeof(litmus.cluster.list), "%s", backup->address);
	litmus.flags[FOUR] = true;
}

/* An index has the name that another one had before. */
static void
name_anew(struct actor *self)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	if (nam_index_create(self->worker, "before", &options))
		litmus_fail("a name: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	if (nam_index_create(self->worker, NAME, &options) ||
		nam_index_drop(self->worker, "before"))
		litmus_fail("a name: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = true;
}

static void
raise_epoch(struct actor *self)
{
	uint64_t before = 0;

	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	if (nam__epoch_add(self->worker, EPOCHS, &before))
		litmus_fail("the epoch: %s", nam_worker_diag(self->worker));
	latest = before + EPOCHS;
	/* Its epoch thread has met that. */
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	litmus.flags[TWO] = true;
}

/* The lead gets a view, and its backup does not get it before clients had time to follow. */
static void
change_unseen(struct actor *self)
{
	struct nam__cluster_view *view = NULL, *own = NULL;
	struct nam_client_options options;
	struct nam_view_member lead;
	struct nam_view_head head;
	const struct actor *a = &litmus.actors[A];
	uint64_t number;

	back(self);
	litmus_await(TWO);
	view = litmus_view_of(self);
	lead = view->members[0];
	lead.wanted = 1;
	if (nam__cluster_view_change(self->worker, self->client->catalog_slot, view->head.number,
			0, NAM_RPC_VIEW_BACKUPS, &lead, &head))
		litmus_fail("a change");
	nam_sleep_ns(4 * LITMUS_TICKS_NS);
	number = backup->server->membership.view.head.number;
	if (atomic_load(&a->client->view_number) > number)
		litmus_fail("a client has view %llu, and the lead's backup has %llu",
			(unsigned long long)atomic_load(&a->client->view_number),
			(unsigned long long)number);
	free(view);
	own = litmus_view_of(self);
	nam_client_options_init(&options);
	(void)!nam__lead_copy_send(&options, own);
	free(own);
	nam_sleep_ns(4 * LITMUS_TICKS_NS);
	if (atomic_load(&a->client->view_number) != head.number)
		litmus_fail("a client has view %llu instead of %llu",
			(unsigned long long)atomic_load(&a->client->view_number),
			(unsigned long long)head.number);
	litmus.flags[FOUR] = true;
}

static void
stay(struct actor *self)
{
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
}

static struct nam_client_options
options_of_mover(const char *list)
{
	struct nam_client_options options;

	nam_client_options_init(&options);
	options.cluster = list;
	options.timeout_ms = TIMEOUT_MS;
	return options;
}

static void
move_lead(struct actor *self)
{
	struct nam_client_options options = options_of_mover(litmus.cluster.list);
	struct nam_server_moved moved = { 0 };
	struct nam_diag diag = { "" };

	(void)self;
	litmus_await(ONE);
	backup = sim_cluster_successor(&litmus.cluster, LEAD);
	if (nam_server_move(&options, backup->address, NULL, NULL, &moved, &diag))
		litmus_fail("moving the lead: %s", diag.text);
	if (!moved.retired || moved.already)
		litmus_fail("the earlier lead was not retired");
	litmus.flags[SEEN] = true;
	backup->had_memory = true;
	sim_server_stop(&litmus.cluster.servers[LEAD]);
	litmus_await(TWO);
	(void)snprintf(litmus.cluster.list, sizeof(litmus.cluster.list), "%s", backup->address);
	litmus.flags[FOUR] = true;
}

static int
retire_lead(void)
{
	struct nam_client_options options = options_of_mover(litmus.cluster.servers[LEAD].address);
	struct nam_client *prober = NULL;
	struct nam_diag diag;
	int rc = nam__prober_connect(&options, options.cluster, 0, false, &prober, &diag);

	if (!rc)
		rc = nam__move_call(prober, NAM_RPC_MOVE_RETIRE, 0, NULL, 0, nam_now_ns() +
			TIMEOUT_MS * 1000000ull, NULL, NULL);
	nam__client_free(prober);
	return rc;
}

/* The lead retires, and its mover ends before the backup leads. */
static void
retire_half(struct actor *self)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	back(self);
	if (retire_lead())
		litmus_fail("the lead does not retire");
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	options = options_of_mover(litmus.cluster.list);
	if (nam_server_promote(&options, LEAD, &diag))
		litmus_fail("a promotion: %s", diag.text);
	sim_server_stop(&litmus.cluster.servers[LEAD]);
	litmus_await(TWO);
	(void)snprintf(litmus.cluster.list, sizeof(litmus.cluster.list), "%s", backup->address);
	litmus.flags[FOUR] = true;
}

/* It has no backup that counts. */
static void
retire_unready(struct actor *self)
{
	(void)self;
	litmus_await(ONE);
	if (retire_lead() != -NAM_E_VIEW)
		litmus_fail("a lead without a backup retires");
	litmus.flags[SEEN] = true;
	litmus.flags[FOUR] = true;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* A client of the new lead; the director has one of the earlier one. */
static void
expect_new_lead(struct actor *self)
{
	struct nam__cluster_view *view;
	struct nam_client *later;

	litmus_await(FOUR);
	view = litmus_view_of(self);
	if (strcmp(view->members[LEAD].address, backup->address) != 0 ||
		view->head.lead_boot != backup->server->boot)
		litmus_fail("the lead is at %s", view->members[LEAD].address);
	free(view);
	later = sim_client(&litmus.cluster, "later");
	if (!later) {
		litmus_fail("no client can join");
		return;
	}
	if (later->id == self->client->id || later->id == litmus.actors[A].id)
		litmus_fail("two clients have the id %u", later->id);
	nam_client_close(later);
}

static void
end_inserted(struct actor *self)
{
	expect_new_lead(self);
	for (unsigned who = A; who <= B; who++)
		for (unsigned i = 0; i < LITMUS_KEYS; i++)
			litmus_expect(self, LITMUS_KEYS_FROM * (1 + who) + i, 0);
	litmus_verify(self);
}

static void
end_named(struct actor *self)
{
	struct nam_index *index = NULL;
	int rc;

	expect_new_lead(self);
	rc = nam_index_open(self->worker, NAME, 0, &index);
	if (rc)
		litmus_fail("a name is lost: %s", nam_worker_diag(self->worker));
	else
		nam_index_close(index);
	if (nam_index_open(self->worker, "before", 0, &index) != -NAM_E_NOINDEX)
		litmus_fail("a name is back");
	litmus_verify(self);
}

static void
end_epoch(struct actor *self)
{
	uint64_t word;

	expect_new_lead(self);
	word = litmus_read_word(self, self->client->epoch_word);
	if (nam_epoch_ahead(word, latest) < 0)
		litmus_fail("the epoch is %llu, and a client knew %llu", (unsigned long long)word,
			(unsigned long long)latest);
	litmus_verify(self);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_lead_cases[] = {
	{ { "lead_promoted", LITMUS_LOADED,
		{ end_inserted, litmus_insert_on, litmus_insert_on, back_kill_promote },
		{ { 0 } } },
		"the lead is killed while two clients insert, and its backup leads", 2, 0 },
	{ { "lead_names", LITMUS_LOADED, { end_named, name_anew, NULL, back_kill_promote },
		{ { 0 } } },
		"the same, after names have come and gone", 2, 0 },
	{ { "lead_epoch", LITMUS_LOADED, { end_epoch, raise_epoch, NULL, back_kill_promote },
		{ { 0 } } },
		"the same, after the epoch has risen", 2, 0 },
	{ { "lead_view", LITMUS_LOADED, { NULL, stay, NULL, change_unseen }, { { 0 } } },
		"the lead's view changes, and its backup gets that late", 2, 0 },
	{ { "lead_moved", LITMUS_LOADED,
		{ end_inserted, litmus_insert_on, litmus_insert_on, move_lead },
		{ { 0 } } },
		"the lead moves while two clients insert", 2, 0 },
	{ { "lead_retired", LITMUS_LOADED,
		{ end_inserted, litmus_insert_on, litmus_insert_on, retire_half },
		{ { 0 } } },
		"the lead retires, and its mover ends", 2, 0 },
	{ { "lead_unready", LITMUS_LOADED, { NULL, stay, NULL, retire_unready }, { { 0 } } },
		"the lead is to retire, and has no backup", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
