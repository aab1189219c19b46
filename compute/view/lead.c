/* SPDX-License-Identifier: Apache-2.0 */
/* lead.c -- the lead, and how the other memory servers are. */
#include "lead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "compute/worker/worker.h"

#define COPY_TIMEOUT_MS 1000u		/* for a copy of the view, which is a hint */

int
nam__prober_open(const struct nam_client_options *options, const char *address,
	uint32_t timeout_ms, bool waits, struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client *client = NULL;
	int rc;

	diag->text[0] = '\0';
	rc = nam__prober_connect(options, address, timeout_ms, waits, &client, diag);
	if (rc && client)
		nam__client_free(client);
	if (!rc)
		*ret_client = client;
	return rc;
}

int
nam__member_look(const struct nam_client_options *options, const char *address, uint32_t id,
	uint64_t boot, struct nam_diag *diag)
{
	struct nam_client *client = NULL;
	bool gone;
	int rc;

	diag->text[0] = '\0';
	rc = nam__prober_connect(options, address, 0, false, &client, diag);
	/* A process that has passed its memory on never serves again. */
	gone = rc ? nam__probed_ended(client, rc) || nam_err_is(rc, NAM_E_FABRIC_MOVED) :
		client->servers[0].id != id ||
		client->servers[0].boot != boot;
	nam__client_free(client);
	return gone ? -ENOENT : rc;
}

NAM_FIBER_FN static int
copy_get(struct nam_client *client, uint32_t slot, struct nam__cluster_view **ret_copy,
	struct nam_diag *diag)
{
	int rc = nam__cluster_view_get(client->epoch_worker, slot, ret_copy); /* SUSPENDS */

	return rc ? nam_diag_set(diag, rc, "asking the memory server at %s for its copy of the "
		"view: %s", client->servers[slot].address, nam_err_text(rc)) : 0;
}

/* A member's copy of a view names the lead of its cluster. */
int
nam__member_ours(struct nam_client *client, uint32_t slot, const char *lead, uint64_t lead_boot,
	struct nam__cluster_view **ret_copy, struct nam_diag *diag)
{
	const char *address = client->servers[slot].address;
	struct nam__cluster_view *copy;
	const struct nam_view_backup *backup;
	struct nam_view_member member;
	struct nam_diag ended;
	int rc = copy_get(client, slot, &copy, diag); /* SUSPENDS */

	if (rc)
		return rc;
	/* C20: the members of two views have no memory server in common. */
	member = copy->members[0];
	backup = &member.backups[0];
	nam__member_to_query(&member);
	/* C33: its lead has ended, and has a backup. */
	if (copy->head.number && copy->head.lead_boot != lead_boot && member.known &&
		backup->boot != lead_boot && NAM_GUARD(VIEW_BOOT) && !nam__member_look(
			&client->options, backup->address, 0, backup->boot, &ended))
		rc = nam_diag_set(diag, -NAM_E_CLUSTER, "the memory server at %s belongs to a "
			"cluster whose lead ended, and the backup of that, at %s, becomes the "
			"lead. Leave out the one at %s, which was started anew", address,
			backup->address, lead);
	else if (copy->head.number && copy->head.lead_boot != lead_boot && NAM_GUARD(VIEW_BOOT) &&
		!nam__member_look(&client->options, member.address, 0, copy->head.lead_boot,
			&ended))
		rc = nam_diag_set(diag, -NAM_E_CLUSTER, "the memory server at %s belongs to the "
			"cluster of the memory server at %s, which is not that of the one at %s. "
			"Restart it to use it here", address, member.address, lead);
	if (!rc && ret_copy)
		*ret_copy = copy;
	else
		free(copy);
	return rc;
}

int
nam__member_boot(const struct nam_client_options *options,
	const struct nam__cluster_view *view, const struct nam_view_member *member,
	uint64_t *ret_boot)
{
	struct nam_client *client;
	struct nam_diag diag;
	int rc = nam__prober_open(options, member->address, 0, false, &client, &diag);

	if (rc)
		return rc;
	*ret_boot = client->servers[0].boot;
	if (client->servers[0].id != member->id)
		rc = -NAM_E_CLUSTER;
	else if (*ret_boot != member->boot)
		rc = nam__member_ours(client, 0, view->members[0].address, view->head.lead_boot,
			NULL, &diag); /* SUSPENDS */
	nam__client_free(client);
	return rc;
}

/*
 * The lead that a seed's copy names, or a later life of it that has the seed in its view.  The seed
 * may have missed that copy.
 */
NAM_FIBER_FN static bool
leads(struct nam_client *client, uint64_t lead_boot, const struct nam__server *seed)
{
	const struct nam_view_member *member;
	struct nam__cluster_view *view;
	bool has;

	if (client->servers[0].boot == lead_boot)
		return true;
	if (client->servers[0].id ||
		nam__cluster_view_get(client->epoch_worker, 0, &view)) /* SUSPENDS */
		return false;
	member = nam__cluster_view_find(view, seed->id);
	has = member && member->boot == seed->boot;
	free(view);
	return has;
}

/* The lead that a copy names, if it lives and the seed belongs to its cluster. */
NAM_FIBER_FN static int
copy_query(const struct nam_client_options *options, const struct nam__cluster_view *copy,
	const struct nam__server *seed, struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_view_member lead = copy->members[0];
	struct nam_client *client;
	int rc;

	nam__member_to_query(&lead);
	rc = nam__prober_open(options, lead.address, 0, false, &client, diag);
	if (rc)
		return rc;
	if (leads(client, copy->head.lead_boot, seed)) /* SUSPENDS */
		*ret_lead = client;
	else
		nam__client_free(client);
	return 0;
}

/*
 * If the memory server at a seed's address is the lead, or has a copy of the view: the lead.
 *
 * @ret_fresh	it is that by its id alone: it has no view, and may have been started anew
 */
NAM_FIBER_FN static int
lead_query(const struct nam_client_options *options, const char *address, bool *ret_fresh,
	struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_client *seed;
	struct nam__cluster_view *copy;
	int rc = nam__prober_open(options, address, 0, false, &seed, diag);

	if (rc)
		return rc;
	rc = copy_get(seed, 0, &copy, diag); /* SUSPENDS */
	if (rc) {
		nam__client_free(seed);
		return rc;
	}
	*ret_fresh = !copy->head.number;
	if (!seed->servers[0].id && (*ret_fresh ||
			copy->head.lead_boot == seed->servers[0].boot)) {
		*ret_lead = seed;
		free(copy);
		return 0;
	}
	if (copy->head.number)
		rc = copy_query(options, copy, &seed->servers[0], ret_lead, diag); /* SUSPENDS */
	nam__client_free(seed);
	free(copy);
	return rc;
}

int
nam__lead_find(const struct nam_client_options *options, const struct nam_cluster *seeds,
	const char *last, struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_client *lead = NULL, *fresh = NULL;
	int rc = 0, failed = 0;

	for (uint32_t i = 0; i < 2 * seeds->count && !lead; i++) {
		const char *seed = seeds->servers[i % seeds->count].listen;
		bool is_fresh = false;

		if ((i >= seeds->count) != (last && !strcmp(seed, last)))
			continue;
		rc = lead_query(options, seed, &is_fresh, &lead, diag); /* SUSPENDS */
		failed = rc ? rc : failed;
		/* C33: others may know the backup that has its place. */
		if (lead && is_fresh && !fresh) {
			fresh = lead;
			lead = NULL;
		}
	}
	if (lead && fresh)
		nam__client_free(fresh);
	if (lead || fresh) {
		*ret_lead = lead ?: fresh;
		return 0;
	}
	return failed ? failed : nam_diag_set(diag, -NAM_E_CLUSTER,
		"none of the %u memory servers that the cluster names has the id 0, or knows where "
		"that one is; name it", seeds->count);
}

/* Only if the process with that boot is there.  0 also if it has a later one. */
NAM_FIBER_FN static int
copy_send(const struct nam_client_options *options, const char *address, uint64_t boot,
	const struct nam__cluster_view *view)
{
	struct nam_client *client;
	struct nam_diag diag;
	int rc = nam__prober_open(options, address, COPY_TIMEOUT_MS, false, &client, &diag);

	if (rc)
		return rc;
	if (client->servers[0].boot == boot)
		rc = nam__cluster_view_copy(client->epoch_worker, 0, view); /* SUSPENDS */
	nam__client_free(client);
	return rc == -NAM_E_VIEW ? 0 : rc;
}

int
nam__lead_copy_send(const struct nam_client_options *options, const struct nam__cluster_view *view)
{
	const struct nam_view_member *lead = &view->members[0];

	return lead->backups[0].boot && lead->state != NAM_VIEW_PROMOTING ? copy_send(options,
		lead->backups[0].address, lead->backups[0].boot, view) : 0; /* SUSPENDS */
}

uint32_t
nam__copies_send(const struct nam_client_options *options, const struct nam__cluster_view *view)
{
	uint32_t ret = 0;

	(void)!nam__lead_copy_send(options, view); /* SUSPENDS */
	for (uint32_t i = 1; i < view->head.count; i++)
		ret += !copy_send(options, view->members[i].address, view->members[i].boot,
			view); /* SUSPENDS */
	return ret;
}

const struct nam_view_member *
nam__view_joining(const struct nam__cluster_view *view)
{
	return nam_view_in_state(&view->head, view->members, NAM_VIEW_JOINING);
}
