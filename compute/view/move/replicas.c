/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas.c -- how many copies of its memory each member is to have, and how one comes about.
 *
 * The number is in the view.  A steward does what follows from it, but for the end of backups that
 * are not wanted any more.
 */
#include "server_move.h"

#include <errno.h>
#include <string.h>

#include "common/cluster.h"
#include "compute/view/changer.h"
#include "compute/view/lead.h"
#include "compute/worker/worker.h"
#include "hosted.h"

/* ---- a backup -------------------------------------------------------------------------------- */

struct backing {
	nam__server_move_fn fn;
	void *arg;
};

static int
on_hosting(void *arg, uint64_t ready_bytes, uint64_t total_bytes)
{
	const struct backing *backing = arg;

	(void)ready_bytes;
	(void)total_bytes;
	return backing->fn(backing->arg, NULL, 0, false);
}

static const struct nam_server_status *
member_find(const struct nam__servers *servers, uint32_t id)
{
	for (uint32_t i = 0; i < servers->count; i++)
		if (nam__is_member(&servers->list[i]) && servers->list[i].id == id)
			return &servers->list[i];
	return NULL;
}

int
nam__member_back(const struct nam_client_options *options, uint32_t id, nam__server_move_fn fn,
	void *arg, char *address, struct nam_server_moved *ret_moved, struct nam_diag *diag)
{
	struct backing backing = { fn, arg };
	struct nam__hosting hosting = { .options = options, .fn = on_hosting, .arg = &backing };
	struct nam__servers servers = { 0 };
	int rc = nam__servers_query(options, &servers, diag); /* SUSPENDS */

	hosting.member = rc ? NULL : member_find(&servers, id);
	if (!rc && !hosting.member)
		rc = nam_diag_set(diag, -NAM_E_CLUSTER, "memory server %u does not answer, or is "
			"no member", id);
	if (!rc) {
		hosting.host = nam__host_choose(&servers, hosting.member, diag);
		rc = hosting.host ? nam__successor_host(&hosting, address, diag) :
			-EDQUOT; /* SUSPENDS */
	}
	if (!rc)
		rc = nam__server_move(options, NAM__SUCCESSOR_BACKS, address, fn, arg, ret_moved,
			diag); /* SUSPENDS */
	nam__servers_free(&servers);
	return rc;
}

/* ---- how many -------------------------------------------------------------------------------- */

/* The process of which a hosted one has that address; NULL: none, it is a process of its own. */
static const char *
host_of(const struct nam__servers *servers, const char *address)
{
	for (uint32_t i = 0; i < servers->count; i++)
		if (nam__hosts(servers->list[i].address, address))
			return servers->list[i].address;
	return NULL;
}

/* The last backup that is left.  If the member's process has ended, that may be the only copy. */
NAM_FIBER_FN static int
backup_end(const struct nam_client_options *options, const struct nam_view_member *member,
	uint64_t boot, struct nam_diag *diag)
{
	struct nam_diag ended;

	if (nam__member_look(options, member->address, member->id, member->boot,
			&ended) == -ENOENT)
		return nam_diag_set(diag, -NAM_E_VIEW, "the process of memory server %u has ended, "
			"and its backup has the only copy; first: namctl server promote %u",
			member->id, member->id);
	return nam__backup_end(options, member->id, boot, diag); /* SUSPENDS */
}

/* The backups of a member beyond that many, by number, the last ones; NULL ends them. */
static const struct nam_view_backup *
surplus(const struct nam_view_member *member, uint32_t backups, uint32_t number)
{
	uint32_t i = NAM_BACKUPS_MAX;

	for (uint32_t left = nam_view_backups(member); left > backups; left--) {
		while (!member->backups[--i].boot)
			;
		if (!number--)
			return &member->backups[i];
	}
	return NULL;
}

/*
 * No member has more backups any more, and those in processes of members give their memory back.
 */
NAM_FIBER_FN static int
backups_end(const struct nam_client_options *options, const struct nam__cluster_view *view,
	uint32_t backups, struct nam_diag *diag)
{
	struct nam__servers servers = { 0 };
	const struct nam_view_backup *one;
	int rc = nam__servers_query(options, &servers, diag); /* SUSPENDS */

	for (uint32_t i = 0; i < view->head.count; i++)
		for (uint32_t n = 0; !rc && (one = surplus(&view->members[i], backups, n)); n++)
			rc = backup_end(options, &view->members[i], one->boot,
				diag); /* SUSPENDS */
	for (uint32_t i = 0; i < view->head.count; i++)
		for (uint32_t n = 0; !rc && (one = surplus(&view->members[i], backups, n)); n++) {
			const char *host = host_of(&servers, one->address);

			/* After a failure the next HOST of that member's successor ends it. */
			if (host)
				(void)!nam__successor_end(options, host, view->members[i].id,
					one->boot); /* SUSPENDS */
		}
	nam__servers_free(&servers);
	return rc;
}

/* A member that is about to get a backup still gets it, or is given up by the steward. */
static bool
is_in_force(const struct nam__cluster_view *view, uint16_t backups)
{
	return view->head.backups == backups &&
		(backups == NAM_BACKUPS_MAX || !nam_view_leaving(&view->head, view->members));
}

NAM_FIBER_FN static int
want(struct nam__changer *changer, uint16_t backups)
{
	uint64_t deadline_ns = nam_now_ns() + changer->lead->options.timeout_ms * 1000000ull;
	struct nam_view_member lead;
	int rc;

	for (;;) {
		rc = nam__changer_take(changer); /* SUSPENDS */
		if (rc || is_in_force(changer->view, backups))
			return rc;
		if (nam_now_ns() >= deadline_ns)
			return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "the memory of a "
				"memory server moves, or no steward installs what the view store "
				"has decided; try again");
		if (changer->view->head.backups == backups) {
			nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
			continue;
		}
		lead = changer->view->members[0];
		lead.wanted = backups;
		rc = nam__changer_change(changer, NAM_RPC_VIEW_BACKUPS, &lead); /* SUSPENDS */
		if (rc)
			return rc;
	}
}

int
nam_cluster_replicas(const struct nam_client_options *options, uint32_t replicas,
	struct nam_diag *diag)
{
	struct nam__changer changer;
	int rc;

	if (!replicas || replicas > NAM_BACKUPS_MAX + 1)
		return nam_diag_set(diag, -EINVAL, "memory has 1 to %u copies, not %u",
			NAM_BACKUPS_MAX + 1, replicas);
	rc = nam__changer_open(&changer, options, diag);
	if (!rc)
		rc = nam__lead_find(options, changer.seeds, NULL, &changer.lead,
			diag); /* SUSPENDS */
	if (!rc)
		rc = want(&changer, (uint16_t)(replicas - 1)); /* SUSPENDS */
	if (!rc && replicas <= NAM_BACKUPS_MAX)
		rc = backups_end(options, changer.view, replicas - 1, diag); /* SUSPENDS */
	nam__changer_close(&changer);
	return rc;
}
