/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_add.c -- a memory server comes to the cluster while clients are at work.
 *
 * The view says how far an addition is.  So any client may go on with it, also if another process
 * began it or has ended.  Each round asks for the view and makes the one change that is due, by
 * compare-and-set.  It is ABORT of a joining member that is gone, UP of one that all clients know,
 * then ADD.  It waits while a member moves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/race.h"
#include "compute/admin.h"
#include "compute/worker/worker.h"
#include "changer.h"
#include "lead.h"

#define LOOK_NS 500000000ull		/* between two looks at a member that joins */

/* A memory server, by itself. */
struct identity {
	uint32_t id;
	uint64_t boot;			/* 0: it has not been asked */
	bool has_copy;			/* of the view of another life of the lead, or of another */
};

struct adding {
	struct nam__changer changer;
	const char *address;
	nam_server_add_fn fn;
	void *arg;
	uint64_t deadline_ns, look_ns;
	struct identity self;		/* of the new one */
	bool done;
	struct nam_server_added added;
};

/* ---- the new one ----------------------------------------------------------------------------- */

/* Learn the id and the boot of the new server, once it has started. */
NAM_FIBER_FN static int
probe(struct adding *adding)
{
	const struct nam__server *lead = &adding->changer.lead->servers[0];
	const struct nam_fabric_ops *ops = nam_fabric_find(adding->address, NULL);
	struct nam_diag *diag = adding->changer.diag;
	struct nam__cluster_view *copy = NULL;
	struct nam_client *client;
	int rc;

	if (ops && ops != lead->ops)
		return nam_diag_set(diag, -NAM_E_CLUSTER, "the memory servers at %s and %s "
			"are on different fabrics (%s, %s); a cluster needs one", lead->address,
			adding->address, lead->ops->name, ops->name);
	rc = nam__prober_open(adding->changer.options, adding->address, 0, true, &client, diag);
	if (rc)
		return rc;
	rc = nam__member_ours(client, 0, lead->address, lead->boot, &copy, diag); /* SUSPENDS */
	if (!rc)
		adding->self = (struct identity){ client->servers[0].id, client->servers[0].boot,
			copy->head.number && copy->head.lead_boot != lead->boot };
	nam__client_free(client);
	free(copy);
	return rc;
}

/* A member has its id, or its address. */
static int
conflict(const struct adding *adding, const struct nam_view_member *member)
{
	const char *address = adding->address;

	if (member->id != adding->self.id)
		return nam_diag_set(adding->changer.diag, -NAM_E_CLUSTER,
			"the memory server at %s has the id %u, and in the view of this cluster "
			"that address is of memory server %u. Start nam-memserver with --id %u, or "
			"at another address", address, adding->self.id, member->id, member->id);
	return nam_diag_set(adding->changer.diag, -NAM_E_CLUSTER,
		"the memory server at %s has the id %u, as the one at %s, which is a member of "
		"this cluster. Start nam-memserver with another --id", address, member->id,
		member->address);
}

/* No member is joining. */
NAM_FIBER_FN static int
add(struct adding *adding)
{
	const struct nam__cluster_view *view = adding->changer.view;
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
	/* C20: it has names of that life's clients, and would take this one's for old ones. */
	if (adding->self.has_copy && NAM_GUARD(VIEW_AFTER))
		return nam_diag_set(adding->changer.diag, -NAM_E_CLUSTER, "the memory server at "
			"%s was a member of the view before memory server 0 was restarted, or of "
			"another cluster. Restart it, and add it again", adding->address);
	/* C20 */
	if (nam_view_was_removed(&view->head, adding->self.id))
		return nam_diag_set(adding->changer.diag, -NAM_E_CLUSTER, "the memory server at "
			"%s has the id %u, which one had that was removed: indexes and stores may "
			"have addresses there. Start nam-memserver with an id that none had",
			adding->address, adding->self.id);
	new.id = (uint16_t)adding->self.id;
	new.boot = adding->self.boot;
	(void)snprintf(new.address, sizeof(new.address), "%s", adding->address);
	adding->added.already = 0;
	if (member)		/* it was restarted, and is a member already */
		return nam__changer_change(&adding->changer, NAM_RPC_VIEW_RENEW,
			&new); /* SUSPENDS */
	for (uint32_t i = 0; i < view->head.count; i++)
		if (!strcmp(view->members[i].address, new.address))
			return conflict(adding, &view->members[i]);
	rc = nam__changer_change(&adding->changer, NAM_RPC_VIEW_ADD, &new); /* SUSPENDS */
	nam_race_point("view.added");
	return rc;
}

/* ---- a member that joins --------------------------------------------------------------------- */

/* A client has not acknowledged the view: it is stopped, slow, or does not reach the new one. */
NAM_FIBER_FN static int
wait(struct adding *adding, const struct nam_view_member *member)
{
	const struct nam__cluster_view *view = adding->changer.view;
	bool late = nam_now_ns() >= adding->deadline_ns;
	char client[128];

	if (late || adding->fn)
		nam__changer_delay(&adding->changer, client, sizeof(client)); /* SUSPENDS */
	if (late)
		return nam_diag_set(adding->changer.diag, -NAM_E_FABRIC_TIMEOUT,
			"%s has not acknowledged view %llu: it is stopped or slow, or does not "
			"reach the memory server at %s, which stays joining. Let that client go on "
			"or end it, and add the memory server again", client,
			(unsigned long long)view->head.number, member->address);
	if (adding->fn)
		adding->fn(adding->arg, client);
	nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	return 0;
}

/* C20: all clients know the one that is joining, which another process may have added. */
NAM_FIBER_FN static int
bring_up(struct adding *adding, const struct nam_view_member *member)
{
	if (member->boot == adding->self.boot)
		adding->added.already = 0;
	nam_race_point("view.up");
	return nam__changer_change(&adding->changer, NAM_RPC_VIEW_UP, member); /* SUSPENDS */
}

NAM_FIBER_FN static int
go_on(struct adding *adding, const struct nam_view_member *member)
{
	bool known = adding->changer.view->acknowledged >= adding->changer.view->head.number;
	uint64_t now = nam_now_ns();
	int rc = 0;

	if (known || now >= adding->look_ns) {
		adding->look_ns = now + LOOK_NS;
		rc = nam__member_look(adding->changer.options, member->address, member->id,
			member->boot, adding->changer.diag);
	}
	if (rc == -ENOENT) {
		/* The member may be the one that is added: it says what became of it. */
		adding->self.boot = 0;
		return nam__changer_change(&adding->changer, NAM_RPC_VIEW_ABORT,
			member); /* SUSPENDS */
	}
	if (rc && now >= adding->deadline_ns)
		return rc;
	if (known && !rc)
		return bring_up(adding, member); /* SUSPENDS */
	return rc ? 0 : wait(adding, member); /* SUSPENDS */
}

/* A member joins or moves only after the one before. */
static int
move_await(const struct adding *adding, const struct nam_view_member *moving)
{
	if (nam_now_ns() >= adding->deadline_ns)
		return nam_diag_set(adding->changer.diag, -NAM_E_FABRIC_TIMEOUT,
			"the memory of memory server %u at %s is moving to another one; add the "
			"one at %s when it has arrived", moving->id, moving->address,
			adding->address);
	nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	return 0;
}

NAM_FIBER_FN static int
step(struct adding *adding)
{
	const struct nam__cluster_view *view;
	const struct nam_view_member *member;
	int rc = nam__changer_take(&adding->changer); /* SUSPENDS */

	if (rc)
		return rc;
	view = adding->changer.view;
	member = nam_view_leaving(&view->head, view->members);
	if (member)
		return move_await(adding, member);
	member = nam__view_joining(view);
	return member ? go_on(adding, member) : add(adding); /* SUSPENDS */
}

/* No member is added.  If one is joining, and has ended, clients forget it. */
NAM_FIBER_FN static void
forget(struct adding *adding)
{
	const struct nam_view_member *member;
	struct nam_diag diag, *diag_before = adding->changer.diag;

	adding->changer.diag = &diag;
	if (!nam__changer_query(&adding->changer)) { /* SUSPENDS */
		member = nam__view_joining(adding->changer.view);
		if (member && nam__member_look(adding->changer.options, member->address, member->id,
				member->boot, &diag) == -ENOENT)
			(void)!nam__changer_change(&adding->changer, NAM_RPC_VIEW_ABORT,
				member); /* SUSPENDS */
	}
	adding->changer.diag = diag_before;
}

NAM_FIBER_FN static int
steps(struct adding *adding)
{
	int rc = probe(adding); /* SUSPENDS */

	if (rc)
		forget(adding); /* SUSPENDS */
	/* From now on: a memory server that gets its memory takes as long as that takes. */
	adding->deadline_ns = nam_now_ns() +
		(adding->changer.options->timeout_ms ?: 5000) * 1000000ull;
	while (!rc && !adding->done) {
		rc = step(adding); /* SUSPENDS */
		if (!rc && !adding->done && nam_now_ns() >= adding->deadline_ns + LOOK_NS)
			rc = nam_diag_set(adding->changer.diag, -NAM_E_VIEW, "other clients change "
				"the view of the cluster all the time; add the memory server at %s "
				"again", adding->address);
	}
	return rc;
}

int
nam_server_add(const struct nam_client_options *options, const char *address, nam_server_add_fn fn,
	void *arg, struct nam_server_added *ret_added, struct nam_diag *diag)
{
	struct nam_client_options one = *options;
	struct nam_cluster *new = NULL;
	struct adding adding = { .fn = fn, .arg = arg, .added.already = 1 };
	int rc = nam__changer_open(&adding.changer, options, diag);

	one.cluster = address;
	if (!rc)
		rc = nam__cluster_read(&one, &new, diag);
	if (!rc && new->count != 1)
		rc = nam_diag_set(diag, -EINVAL, "%u memory servers are to be added; name one at a "
			"time", new->count);
	if (!rc) {
		adding.address = new->servers[0].listen;
		rc = nam__lead_find(options, adding.changer.seeds, adding.address,
			&adding.changer.lead, diag); /* SUSPENDS */
	}
	if (!rc)
		rc = steps(&adding); /* SUSPENDS */
	if (!rc) {
		adding.added.id = adding.self.id;
		adding.added.view = adding.changer.view->head.number;
		*ret_added = adding.added;
	}
	nam__changer_close(&adding.changer);
	free(new);
	return rc;
}
