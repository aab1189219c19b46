/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No client has installed a view that the backup lacks (C33), so the newest copy that is found has
 * all that clients know.  Later decisions of the lead are dropped, as no client has seen them.
 */
#include "succession.h"

#include <errno.h>
#include <stdlib.h>

#include "common/race.h"
#include "compute/client/names.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"

#define NAMES_AT_ONCE 32u
#define TIMEOUT_MS 1000u		/* for a copy: others may have it, too */

struct succession {
	const struct nam_client_options *options;
	struct nam__cluster_view *view;	/* the newest copy; then the next view */
	struct nam_diag *diag;
};

/* ---- the newest copy ------------------------------------------------------------------------- */

NAM_FIBER_FN static void
copy_look(struct succession *succession, const char *address)
{
	struct nam__cluster_view *copy = NULL;
	struct nam_client *prober;
	struct nam_diag diag;

	if (nam__prober_open(succession->options, address, TIMEOUT_MS, false, &prober, &diag))
		return;
	/* A lead that began anew counts views anew, so such numbers do not compare. */
	if (!nam__cluster_view_get(prober->epoch_worker, 0, &copy) && /* SUSPENDS */
		copy->head.number > (succession->view ? succession->view->head.number : 0) &&
		(!succession->view ||
			copy->members[0].memory == succession->view->members[0].memory)) {
		struct nam__cluster_view *older = succession->view;

		succession->view = copy;
		copy = older;
	}
	nam__client_free(prober);
	free(copy);
}

NAM_FIBER_FN static void
copies_look(struct succession *succession, const struct nam_cluster *seeds)
{
	struct nam__cluster_view *first;

	for (uint32_t i = 0; i < seeds->count; i++)
		copy_look(succession, seeds->servers[i].listen); /* SUSPENDS */
	first = succession->view ? nam__cluster_view_clone(succession->view) : NULL;
	for (uint32_t i = 1; first && i < first->head.count; i++)
		copy_look(succession, first->members[i].address); /* SUSPENDS */
	if (first && first->members[0].backups[0].boot)
		copy_look(succession, first->members[0].backups[0].address); /* SUSPENDS */
	free(first);
}

/* ---- the next view --------------------------------------------------------------------------- */

/*
 * Only one gate may be closed, so a member that joins or moves is given up.  A member whose backup
 * was about to get its place keeps the backup: what clients did for that may be done once more.
 */
static int
make_way(struct nam__cluster_view *view)
{
	const struct nam_view_member *other;

	while ((other = nam__view_joining(view) ?:
			nam_view_leaving(&view->head, view->members)) != NULL) {
		struct nam_view_member *member = &view->members[other - view->members];
		struct nam_view_member asked = *other;

		if (member->state == NAM_VIEW_PROMOTING) {
			member->state = NAM_VIEW_UP;
			view->head.number++;
		} else if (nam_view_change(&view->head, view->members, NAM_RPC_VIEW_ABORT,
				&asked)) {
			return -NAM_E_VIEW;
		}
	}
	return 0;
}

static bool
backup_may_live(const struct succession *succession)
{
	const struct nam_view_member *lead = &succession->view->members[0];
	struct nam_diag diag;

	return lead->known && nam__member_look(succession->options, lead->backups[0].address, 0,
		lead->backups[0].boot, &diag) != -ENOENT;
}

/* A silent member may still be alive. */
static bool
may_succeed(const struct succession *succession)
{
	const struct nam_view_member *lead = &succession->view->members[0];
	struct nam_diag diag;

	return backup_may_live(succession) && nam__member_look(succession->options, lead->address,
		0, lead->boot, &diag) == -ENOENT;
}

/* ---- all of it ------------------------------------------------------------------------------- */

NAM_FIBER_FN static bool
leads(struct nam_client *backup)
{
	struct nam__cluster_view *now = NULL;
	bool does = !nam__cluster_view_get(backup->epoch_worker, 0, &now) && /* SUSPENDS */
		now->head.lead_boot == backup->servers[0].boot;

	free(now);
	return does;
}

/* C33: the next view is decided before the backup has it.  Another program may be first. */
NAM_FIBER_FN static int
install(const struct succession *succession, struct nam__view_store *store,
	struct nam_client *backup)
{
	struct nam__cluster_view *view = succession->view;
	bool decided = view->members[0].state == NAM_VIEW_PROMOTING;
	int rc = 0;

	if (leads(backup)) /* SUSPENDS */
		return 0;
	if (!decided)
		rc = make_way(view) ?: store->ops->succeed(store, view,
			succession->diag); /* SUSPENDS */
	nam_race_point("lead.decided");
	if (!rc)
		rc = nam__cluster_view_copy(backup->epoch_worker, 0, view); /* SUSPENDS */
	return rc && leads(backup) ? 0 : rc; /* SUSPENDS */
}

NAM_FIBER_FN static int
succeed(const struct succession *succession, struct nam__view_store *store,
	struct nam_client **ret_lead)
{
	struct nam_client *backup;
	int rc = nam__prober_open(succession->options,
		succession->view->members[0].backups[0].address, 0, false, &backup,
		succession->diag);

	if (rc)
		return rc;
	rc = install(succession, store, backup); /* SUSPENDS */
	if (rc)
		nam__client_free(backup);
	else
		*ret_lead = backup;
	return rc;
}

/*
 * The lead that was found, or that of the newest copy.  If the lead of that copy has ended, and its
 * backup may live, another process with the id 0 is none: it was started anew.
 */
NAM_FIBER_FN static bool
is_of_this_cluster(const struct succession *succession, struct nam_client *lead)
{
	const struct nam__cluster_view *view = succession->view;
	struct nam__cluster_view *now = NULL;
	bool ours = !view;

	if (view && !nam__cluster_view_get(lead->epoch_worker, 0, &now)) /* SUSPENDS */
		ours = now->head.number && now->head.lead_boot == view->head.lead_boot;
	free(now);
	return ours;
}

/* Copies of seeds may be older. */
NAM_FIBER_FN static struct nam_client *
newest_lead(const struct succession *succession)
{
	struct nam_view_member member = succession->view->members[0];
	struct nam_client *lead;
	struct nam_diag diag;

	nam__member_to_query(&member);
	if (nam__prober_open(succession->options, member.address, TIMEOUT_MS, false, &lead,
			&diag))
		return NULL;
	if (is_of_this_cluster(succession, lead)) /* SUSPENDS */
		return lead;
	nam__client_free(lead);
	return NULL;
}

/* The lead that was found, if any, is none of the newest copy's cluster. */
NAM_FIBER_FN static int
lead_replace(struct succession *succession, struct nam__view_store *store, int found_rc,
	bool *ret_made, struct nam_client **lead, struct nam_diag *diag)
{
	struct nam_client *other = newest_lead(succession); /* SUSPENDS */
	int rc = other ? 0 : found_rc;

	if (!other && may_succeed(succession)) {
		rc = succeed(succession, store, &other); /* SUSPENDS */
		*ret_made = !rc;
	} else if (!other && !found_rc && backup_may_live(succession)) {
		rc = -NAM_E_FABRIC_TIMEOUT;
	}
	if (other && *lead)
		nam__client_free(*lead);
	*lead = other ?: *lead;
	if (!rc || rc == found_rc)
		return rc;
	return nam_diag_set(diag, rc, "the lead has ended, and its backup at %s does not become "
		"the lead: %s", succession->view->members[0].backups[0].address,
		succession->diag->text[0] ? succession->diag->text : nam_err_text(rc));
}

int
nam__lead_open(const struct nam_client_options *options, const struct nam_cluster *seeds,
	struct nam__view_store *store, const struct nam__cluster_view *known, bool *ret_made,
	struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_diag why = { "" };
	struct succession succession = { .options = options, .diag = &why };
	struct nam_client *lead = NULL;
	int rc = nam__lead_find(options, seeds, NULL, &lead, diag); /* SUSPENDS */

	*ret_made = false;
	succession.view = known ? nam__cluster_view_clone(known) : NULL;
	if (rc || !known || !is_of_this_cluster(&succession, lead)) /* SUSPENDS */
		copies_look(&succession, seeds); /* SUSPENDS */
	if (succession.view && (rc || !is_of_this_cluster(&succession, lead))) /* SUSPENDS */
		rc = lead_replace(&succession, store, rc, ret_made, &lead, diag); /* SUSPENDS */
	if (!rc)
		*ret_lead = lead;
	else if (lead)
		nam__client_free(lead);
	free(succession.view);
	return rc;
}

/* ---- a backup for the lead ------------------------------------------------------------------- */

struct naming {
	struct nam_worker *to;
	uint32_t count;
	struct nam_rpc_catalog_entry names[NAMES_AT_ONCE];
};

NAM_FIBER_FN static int
names_put(struct naming *naming)
{
	uint32_t count = naming->count;

	naming->count = 0;
	return count ? nam__names_put(naming->to, naming->names, count) : 0; /* SUSPENDS */
}

NAM_FIBER_FN static int
on_name(void *arg, const struct nam__catalog_name *name)
{
	struct naming *naming = arg;

	naming->names[naming->count++] = nam__name_entry(name->kind, name->name, name->entry);
	return naming->count < NAMES_AT_ONCE ? 0 : names_put(naming); /* SUSPENDS */
}

int
nam__lead_names_copy(struct nam_worker *from, struct nam_worker *to, struct nam_diag *diag)
{
	struct naming naming = { .to = to };
	int rc = nam__catalog_list(from, on_name, &naming); /* SUSPENDS */

	if (!rc)
		rc = names_put(&naming); /* SUSPENDS */
	return rc ? nam_diag_set(diag, rc, "copying the catalog to the memory server at %s: %s",
		to->client->servers[0].address, nam_err_text(rc)) : 0;
}

int
nam__lead_backup_known(struct nam__changer *changer, uint64_t boot, uint64_t timeout_ns,
	int (*within)(void *arg), void *arg)
{
	uint64_t deadline_ns = nam_now_ns() + timeout_ns;
	const struct nam_view_member *lead;
	int rc;

	for (;;) {
		rc = nam__changer_take(changer); /* SUSPENDS */
		lead = rc ? NULL : &changer->view->members[0];
		if (rc || lead->backups[0].boot != boot)
			return rc;
		/* The lead itself has to know that. */
		if (lead->known && !nam__lead_copy_send(changer->options,
				changer->view)) /* SUSPENDS */
			return 0;
		if (nam_now_ns() >= deadline_ns)
			return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "the lead has a "
				"backup, which does not count before all clients know it; give the "
				"command again");
		nam__changer_ended_fence(changer, deadline_ns); /* SUSPENDS */
		if (!lead->known && changer->view->acknowledged >= changer->view->head.number)
			rc = nam__changer_change(changer, NAM_RPC_VIEW_UP, lead); /* SUSPENDS */
		else
			nam_sleep_ns(NAM__CHANGER_PAUSE_NS / 5);
		if (!rc)
			rc = within(arg); /* SUSPENDS */
		if (rc)
			return rc;
	}
}
