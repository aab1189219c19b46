/* SPDX-License-Identifier: Apache-2.0 */
/* lead.c -- the lead, and how the other memory servers are. */
#include "lead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "compute/worker/worker.h"

#define COPY_PATIENCE_MS 1000u		/* for a copy of the view, which is a hint */

int
nam__prober_open(const struct nam_client_options *options, const char *address,
	uint32_t patience_ms, bool waits, struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client *client = NULL;
	int rc;

	diag->text[0] = '\0';
	rc = nam__asker_open(options, address, patience_ms, waits, &client, diag);
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
	rc = nam__asker_open(options, address, 0, false, &client, diag);
	gone = rc ? nam__asked_ended(client, rc) : client->servers[0].id != id ||
		client->servers[0].boot != boot;
	if (client)
		nam__client_free(client);
	return gone ? -ENOENT : rc;
}

/* Its copy of a view names the lead of its cluster. */
int
nam__member_ours(struct nam_client *client, uint32_t slot, const char *lead, uint64_t lead_boot,
	struct nam__cluster_view **ret_copy, struct nam_diag *diag)
{
	const char *address = client->servers[slot].address;
	struct nam__cluster_view *copy;
	struct nam_diag ended;
	int rc = nam__cluster_view_get(client->epoch_worker, slot, &copy); /* SUSPENDS */

	if (rc)
		return nam_diag_set(diag, rc, "asking the memory server at %s for its copy of the "
			"view: %s", address, nam_err_text(rc));
	/* C20: the members of two views have no memory server in common. */
	if (copy->head.number && copy->head.lead_boot != lead_boot && NAM_GUARD(VIEW_BOOT) &&
		!nam__member_look(&client->options, copy->members[0].address, 0,
			copy->head.lead_boot, &ended))
		rc = nam_diag_set(diag, -NAM_E_CLUSTER, "the memory server at %s belongs to the "
			"cluster of the memory server at %s, which is another one than that of the "
			"one at %s; restart it to use it here", address, copy->members[0].address,
			lead);
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

/* If the memory server at a seed's address is the lead, or has a copy of the view: the lead. */
NAM_FIBER_FN static int
lead_ask(const struct nam_client_options *options, const char *address,
	struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_client *seed, *client;
	struct nam__cluster_view *copy;
	int rc = nam__prober_open(options, address, 0, false, &seed, diag);

	if (rc)
		return rc;
	if (!seed->servers[0].id) {
		*ret_lead = seed;
		return 0;
	}
	rc = nam__cluster_view_get(seed->epoch_worker, 0, &copy); /* SUSPENDS */
	if (rc) {
		nam__client_free(seed);
		return nam_diag_set(diag, rc, "asking the memory server at %s for its copy of the "
			"view: %s", address, nam_err_text(rc));
	}
	if (copy->head.number)
		rc = nam__prober_open(options, copy->members[0].address, 0, false, &client, diag);
	if (!rc && copy->head.number) {
		if (leads(client, copy->head.lead_boot, &seed->servers[0])) /* SUSPENDS */
			*ret_lead = client;
		else
			nam__client_free(client);
	}
	nam__client_free(seed);
	free(copy);
	return rc;
}

int
nam__lead_find(const struct nam_client_options *options, const struct nam_cluster *seeds,
	const char *last, struct nam_client **ret_lead, struct nam_diag *diag)
{
	struct nam_client *lead = NULL;
	int rc = 0, failed = 0;

	for (uint32_t i = 0; i < 2 * seeds->count && !lead; i++) {
		const char *seed = seeds->servers[i % seeds->count].listen;

		if ((i >= seeds->count) != (last && !strcmp(seed, last)))
			continue;
		rc = lead_ask(options, seed, &lead, diag); /* SUSPENDS */
		failed = rc ? rc : failed;
	}
	if (lead) {
		*ret_lead = lead;
		return 0;
	}
	return failed ? failed : nam_diag_set(diag, -NAM_E_CLUSTER,
		"none of the %u memory servers that the cluster names has the id 0, or knows where "
		"that one is; name it", seeds->count);
}

void
nam__copies_send(const struct nam_client_options *options, const struct nam__cluster_view *view)
{
	for (uint32_t i = 1; i < view->head.count; i++) {
		struct nam_client *client;
		struct nam_diag diag;

		if (nam__prober_open(options, view->members[i].address, COPY_PATIENCE_MS, false,
			&client, &diag))
			continue;
		if (client->servers[0].boot == view->members[i].boot)
			(void)!nam__cluster_view_copy(client->epoch_worker, 0,
				view); /* SUSPENDS */
		nam__client_free(client);
	}
}

const struct nam_view_member *
nam__view_joining(const struct nam__cluster_view *view)
{
	return nam_view_in_state(&view->head, view->members, NAM_VIEW_JOINING);
}
