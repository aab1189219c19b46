/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_add.c -- a memory server comes to the cluster while clients are at work.
 *
 * The view says how far an addition is, so any client may go on with it: with that of a process
 * that has ended, or of another one.  Each round asks for the view and makes the one change that
 * is due, by compare-and-set: ABORT of a joining member that is gone, UP of one that all clients
 * know, then ADD.  It waits while a member moves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/race.h"
#include "compute/worker/worker.h"
#include "lead.h"
#include "presence.h"
#include "server_add.h"

#define PAUSE_NS 5000000ull		/* between two looks at the view */
#define LOOK_NS 500000000ull		/* between two looks at a member that joins */

/* A memory server, by itself. */
struct identity {
	uint32_t id;
	uint64_t boot;			/* 0: it has not been asked */
};

struct adding {
	const struct nam_client_options *options;
	struct nam__view_store *store;
	const char *address;
	nam_server_add_fn fn;
	void *arg;
	struct nam_diag *diag;
	uint64_t deadline_ns, look_ns;
	struct nam_client *lead;	/* asks it */
	struct nam__cluster_view *view;	/* in force; asked last */
	struct identity self;		/* of the new one */
	bool changed;			/* the copies are of an earlier view */
	bool done;
	struct nam_server_added added;
};

/* ---- the lead -------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
view_ask(struct adding *adding)
{
	free(adding->view);
	adding->view = NULL;
	adding->diag->text[0] = '\0';
	return adding->store->ops->get(adding->store, adding->lead->epoch_worker, &adding->view,
		adding->diag); /* SUSPENDS */
}

/* The view in force, which is at its members.  The first client forms it. */
NAM_FIBER_FN static int
view_take(struct adding *adding)
{
	struct nam_client *client;
	int rc = view_ask(adding); /* SUSPENDS */

	if (!rc && !adding->view->head.number) {
		rc = nam_client_connect(adding->options, &client, adding->diag); /* SUSPENDS */
		if (rc)
			return rc;
		nam_client_close(client);
		rc = view_ask(adding); /* SUSPENDS */
	}
	if (rc)
		return adding->diag->text[0] ? rc : nam_diag_set(adding->diag, rc,
			"asking the memory server at %s for the view of the cluster: %s",
			adding->lead->servers[0].address, nam_err_text(rc));
	if (adding->changed)
		nam__copies_send(adding->options, adding->view); /* SUSPENDS */
	adding->changed = false;
	return 0;
}

/* By compare-and-set.  If another client has changed the view, the next round sees it. */
NAM_FIBER_FN static int
change(struct adding *adding, enum nam_rpc_view_change what, const struct nam_view_member *member)
{
	int rc;

	adding->diag->text[0] = '\0';
	rc = adding->store->ops->change(adding->store, adding->lead->epoch_worker,
		adding->view, what, member, adding->diag); /* SUSPENDS */

	if (rc == -NAM_E_VIEW) {
		nam_sleep_ns(PAUSE_NS);
		return 0;
	}
	if (rc)
		return adding->diag->text[0] ? rc : nam_diag_set(adding->diag, rc,
			"changing the view at the memory server at %s: %s",
			adding->lead->servers[0].address, nam_err_text(rc));
	adding->changed = true;
	return 0;
}

/* ---- the new one ----------------------------------------------------------------------------- */

/* Its id and its life, once it has started. */
NAM_FIBER_FN static int
probe(struct adding *adding)
{
	const struct nam__server *lead = &adding->lead->servers[0];
	const struct nam_fabric_ops *ops = nam_fabric_find(adding->address, NULL);
	struct nam_client *client;
	int rc;

	if (ops && ops != lead->ops)
		return nam_diag_set(adding->diag, -NAM_E_CLUSTER, "the memory servers at %s and %s "
			"are on different fabrics (%s, %s); a cluster needs one", lead->address,
			adding->address, lead->ops->name, ops->name);
	rc = nam__prober_open(adding->options, adding->address, 0, true, &client, adding->diag);
	if (rc)
		return rc;
	rc = nam__member_ours(client, 0, lead->address, lead->boot, adding->diag); /* SUSPENDS */
	if (!rc)
		adding->self = (struct identity){ client->servers[0].id, client->servers[0].boot };
	nam__client_free(client);
	return rc;
}

/* A member has its id, or its address. */
static int
conflict(const struct adding *adding, const struct nam_view_member *member)
{
	const char *address = adding->address;

	if (member->id != adding->self.id)
		return nam_diag_set(adding->diag, -NAM_E_CLUSTER,
			"the memory server at %s has the id %u, and in the view of this cluster "
			"that address is of memory server %u; start it with --id %u, or at another "
			"address", address, adding->self.id, member->id, member->id);
	return nam_diag_set(adding->diag, -NAM_E_CLUSTER,
		"the memory server at %s has the id %u, as the one at %s, which is a member of "
		"this cluster; start it with another --id", address, member->id, member->address);
}

/* No member is joining. */
NAM_FIBER_FN static int
add(struct adding *adding)
{
	const struct nam__cluster_view *view = adding->view;
	const struct nam_view_member *member;
	struct nam_view_member new = { .state = NAM_VIEW_JOINING };
	int rc = adding->self.boot ? 0 : probe(adding); /* SUSPENDS */

	if (rc)
		return rc;
	member = nam__cluster_view_find(view, adding->self.id);
	if (member && member->boot == adding->self.boot) {
		adding->done = true;
		return 0;
	}
	if (member && (strcmp(member->address, adding->address) != 0 ||
			member->id == view->head.lead))
		return conflict(adding, member);
	new.id = (uint16_t)adding->self.id;
	new.boot = adding->self.boot;
	(void)snprintf(new.address, sizeof(new.address), "%s", adding->address);
	adding->added.already = 0;
	if (member)		/* it was restarted, and is a member already */
		return change(adding, NAM_RPC_VIEW_RENEW, &new); /* SUSPENDS */
	for (uint32_t i = 0; i < view->head.count; i++)
		if (!strcmp(view->members[i].address, new.address))
			return conflict(adding, &view->members[i]);
	rc = change(adding, NAM_RPC_VIEW_ADD, &new); /* SUSPENDS */
	nam_race_point("view.added");
	return rc;
}

/* ---- a member that joins --------------------------------------------------------------------- */

/* The client that has not acknowledged the view yet. */
NAM_FIBER_FN static void
tell_delay(const struct adding *adding, char *text, size_t size)
{
	const struct nam__cluster_view *view = adding->view;
	struct nam_rpc_client_state_reply client = { .name = "" };
	int rc = nam__client_state_ask(adding->lead->epoch_worker, view->delaying,
		view->delaying_incarnation, &client); /* SUSPENDS */

	if (rc)
		(void)snprintf(text, size, "client %u", view->delaying);
	else
		(void)snprintf(text, size, "client %u (%s, pid %llu)", view->delaying, client.name,
			(unsigned long long)client.pid);
}

/* It has not acknowledged the view yet: it is stopped, slow, or does not reach the new one. */
NAM_FIBER_FN static int
wait(struct adding *adding, const struct nam_view_member *member)
{
	const struct nam__cluster_view *view = adding->view;
	bool late = nam_now_ns() >= adding->deadline_ns;
	char client[128];

	if (late || adding->fn)
		tell_delay(adding, client, sizeof(client)); /* SUSPENDS */
	if (late)
		return nam_diag_set(adding->diag, -NAM_E_FABRIC_TIMEOUT,
			"%s has not acknowledged view %llu: it is stopped or slow, or does not "
			"reach the memory server at %s, which stays joining; let that client go on "
			"or end it, and add the memory server again", client,
			(unsigned long long)view->head.number, member->address);
	if (adding->fn)
		adding->fn(adding->arg, client);
	nam_sleep_ns(PAUSE_NS);
	return 0;
}

/* All clients know the one that is joining, which another process may have added. */
NAM_FIBER_FN static int
bring_up(struct adding *adding, const struct nam_view_member *member)
{
	if (member->boot == adding->self.boot)
		adding->added.already = 0;
	nam_race_point("view.up");
	return change(adding, NAM_RPC_VIEW_UP, member); /* SUSPENDS */
}

NAM_FIBER_FN static int
go_on(struct adding *adding, const struct nam_view_member *member)
{
	bool known = adding->view->acknowledged >= adding->view->head.number;
	uint64_t now = nam_now_ns();
	int rc = 0;

	if (known || now >= adding->look_ns) {
		adding->look_ns = now + LOOK_NS;
		rc = nam__member_look(adding->options, member->address, member->id, member->boot,
			adding->diag);
	}
	if (rc == -ENOENT) {
		/* This may be the one: it says what became of it. */
		adding->self.boot = 0;
		return change(adding, NAM_RPC_VIEW_ABORT, member); /* SUSPENDS */
	}
	if (rc && now >= adding->deadline_ns)
		return rc;
	if (known && !rc)
		return bring_up(adding, member); /* SUSPENDS */
	return rc ? 0 : wait(adding, member); /* SUSPENDS */
}

/* One member joins or moves at a time. */
static int
move_await(const struct adding *adding, const struct nam_view_member *moving)
{
	if (nam_now_ns() >= adding->deadline_ns)
		return nam_diag_set(adding->diag, -NAM_E_FABRIC_TIMEOUT,
			"the memory of memory server %u at %s is moving to another one; add the "
			"one at %s when it has arrived", moving->id, moving->address,
			adding->address);
	nam_sleep_ns(PAUSE_NS);
	return 0;
}

/* One change, or none for now. */
NAM_FIBER_FN static int
step(struct adding *adding)
{
	const struct nam_view_member *member;
	int rc = view_take(adding); /* SUSPENDS */

	if (rc)
		return rc;
	member = nam_view_in_state(&adding->view->head, adding->view->members, NAM_VIEW_MOVING);
	if (member)
		return move_await(adding, member);
	member = nam__view_joining(adding->view);
	return member ? go_on(adding, member) : add(adding); /* SUSPENDS */
}

/* It cannot be added.  If it is joining, or another one is, and has ended, clients forget it. */
NAM_FIBER_FN static void
forget(struct adding *adding)
{
	const struct nam_view_member *member;
	struct nam_diag diag, *told = adding->diag;

	adding->diag = &diag;
	if (!view_ask(adding)) { /* SUSPENDS */
		member = nam__view_joining(adding->view);
		if (member && nam__member_look(adding->options, member->address, member->id,
				member->boot, &diag) == -ENOENT)
			(void)!change(adding, NAM_RPC_VIEW_ABORT, member); /* SUSPENDS */
	}
	adding->diag = told;
}

NAM_FIBER_FN static int
steps(struct adding *adding)
{
	int rc = probe(adding); /* SUSPENDS */

	if (rc)
		forget(adding); /* SUSPENDS */
	/* From now on: a memory server that gets its memory takes as long as that takes. */
	adding->deadline_ns = nam_now_ns() + (adding->options->timeout_ms ?: 5000) * 1000000ull;
	while (!rc && !adding->done) {
		rc = step(adding); /* SUSPENDS */
		if (!rc && !adding->done && nam_now_ns() >= adding->deadline_ns + LOOK_NS)
			rc = nam_diag_set(adding->diag, -NAM_E_VIEW, "other clients change the "
				"view of the cluster all the time; add the memory server at %s "
				"again", adding->address);
	}
	return rc;
}

int
nam__server_add(const struct nam_client_options *options, struct nam__view_store *store,
	const char *address, nam_server_add_fn fn, void *arg, struct nam_server_added *ret_added,
	struct nam_diag *diag)
{
	struct nam_client_options one = *options;
	struct nam_cluster *seeds = NULL, *new = NULL;
	struct adding adding = {
		.options = options,
		.store = store,
		.fn = fn,
		.arg = arg,
		.diag = diag,
		.added.already = 1,
	};
	int rc = nam__cluster_read(options, &seeds, diag);

	one.cluster = address;
	if (!rc)
		rc = nam__cluster_read(&one, &new, diag);
	if (!rc && new->count != 1)
		rc = nam_diag_set(diag, -EINVAL, "%u memory servers are to be added; name one at a "
			"time", new->count);
	if (rc)
		goto free_clusters;
	adding.address = new->servers[0].listen;
	rc = nam__lead_find(options, seeds, adding.address, &adding.lead,
		diag); /* SUSPENDS */
	if (!rc)
		rc = steps(&adding); /* SUSPENDS */
	if (!rc) {
		adding.added.id = adding.self.id;
		adding.added.view = adding.view->head.number;
		*ret_added = adding.added;
	}
	if (adding.lead)
		nam__client_free(adding.lead);
	free(adding.view);
free_clusters:
	free(seeds);
	free(new);
	return rc;
}

int
nam_server_add(const struct nam_client_options *options, const char *address, nam_server_add_fn fn,
	void *arg, struct nam_server_added *ret_added, struct nam_diag *diag)
{
	struct nam__view_store *store = nam__view_store_embedded(0);
	int rc;

	if (!store)
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	rc = nam__server_add(options, store, address, fn, arg, ret_added, diag); /* SUSPENDS */
	store->ops->close(store);
	return rc;
}
