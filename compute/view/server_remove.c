/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_remove.c -- a memory server that has ended for good goes out of the view.
 *
 * Its memory is lost, so nothing is left to move.  A memory server that lives is drained instead:
 * the id goes with the memory, and the process is no member any more.
 */
#include <errno.h>
#include <stdio.h>

#include "compute/admin.h"
#include "compute/worker/worker.h"
#include "changer.h"
#include "lead.h"

struct removing {
	struct nam__changer changer;
	uint32_t id;
	uint64_t deadline_ns;
	bool done;
	struct nam_server_removed removed;
};

/* It is no member: it was removed, or never was one. */
static int
absent(struct removing *removing)
{
	removing->done = nam_view_was_removed(&removing->changer.view->head, removing->id);
	return removing->done ? 0 : nam_diag_set(removing->changer.diag, -NAM_E_CLUSTER,
		"the cluster has no memory server %u; `namctl status` lists them", removing->id);
}

/* The view says that it stays. */
static int
refuse(const struct removing *removing, const struct nam_view_member *member)
{
	const struct nam_view_head *head = &removing->changer.view->head;
	struct nam_diag *diag = removing->changer.diag;

	if (head->count == 1)
		return nam_diag_set(diag, -NAM_E_UNMOVABLE, "memory server %u is the only one of "
			"the cluster, and has all of its memory. Add another one first, or drop "
			"what is there and end the process", member->id);
	if (member->id == head->lead)
		return nam_diag_set(diag, -NAM_E_UNMOVABLE, "memory server %u is the lead, whose "
			"id stays in the cluster. `namctl server drain %u` passes all that it has "
			"to another process", member->id, member->id);
	if (nam_view_backup(member))
		return nam_diag_set(diag, -NAM_E_UNMOVABLE, "memory server %u has a backup with "
			"all of its memory. If its process has ended: namctl server promote %u",
			member->id, member->id);
	return 0;
}

/* That process answers. */
static int
alive(struct removing *removing, const struct nam_view_member *member)
{
	if (member->memory == member->boot)
		return nam_diag_set(removing->changer.diag, -NAM_E_UNMOVABLE, "memory server %u "
			"answers at %s and has memory of the cluster. `namctl server drain %u` "
			"passes that to other processes, and then the process can be ended",
			member->id, member->address, member->id);
	removing->done = true;
	(void)snprintf(removing->removed.memory_at, sizeof(removing->removed.memory_at), "%s",
		member->address);
	return 0;
}

NAM_FIBER_FN static int
step(struct removing *removing)
{
	struct nam__changer *changer = &removing->changer;
	const struct nam_view_member *member;
	struct nam_diag why;
	int rc = nam__changer_take(changer); /* SUSPENDS */

	if (rc)
		return rc;
	removing->removed.view = changer->view->head.number;
	member = nam__cluster_view_find(changer->view, removing->id);
	if (!member)
		return absent(removing);
	rc = refuse(removing, member);
	if (rc)
		return rc;
	rc = nam__member_look(changer->options, member->address, member->id, member->boot, &why);
	if (!rc)
		return alive(removing, member);
	if (rc != -ENOENT)
		return nam_diag_set(changer->diag, rc, "memory server %u at %s is silent, and may "
			"have its memory still: end it first (%s)", member->id, member->address,
			why.text);
	if (nam_now_ns() >= removing->deadline_ns)
		return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "another memory server "
			"joins or moves, or no steward installs what the view store has decided; "
			"try again");
	rc = nam__changer_change(changer, NAM_RPC_VIEW_REMOVE, member); /* SUSPENDS */
	removing->removed.already = removing->removed.already && !changer->changed;
	return rc;
}

int
nam_server_remove(const struct nam_client_options *options, uint32_t id,
	struct nam_server_removed *ret_removed, struct nam_diag *diag)
{
	struct removing removing = { .id = id, .removed.already = 1 };
	int rc = nam__changer_open(&removing.changer, options, diag);

	if (!rc && id >= NAM_SERVERS_MAX)
		rc = nam_diag_set(diag, -EINVAL, "ids of memory servers are 0 to %u, not %u",
			NAM_SERVERS_MAX - 1, id);
	if (!rc)
		rc = nam__lead_find(options, removing.changer.seeds, NULL, &removing.changer.lead,
			diag); /* SUSPENDS */
	if (!rc)
		removing.deadline_ns = nam_now_ns() +
			removing.changer.lead->options.timeout_ms * 1000000ull;
	while (!rc && !removing.done)
		rc = step(&removing); /* SUSPENDS */
	if (!rc)
		*ret_removed = removing.removed;
	nam__changer_close(&removing.changer);
	return rc;
}
