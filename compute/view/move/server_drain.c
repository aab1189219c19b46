/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_drain.c -- the memory of members passes to successors within the processes of others, one
 * by one.  That is all of a process, or so much that processes are equally full.  Where it stands
 * is in the view and in these processes, so the same call goes on with what another one has left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/rpc/status_rpc.h"
#include "common/rpc/view_rpc.h"
#include "compute/client/client_internal.h"
#include "compute/view/changer.h"
#include "compute/view/lead.h"
#include "hosted.h"
#include "server_move.h"

#define BUSY_NS 20000000000ull		/* while others join or move */
#define BUSY_PAUSE_NS 50000000u

struct draining {
	const struct nam_client_options *options;
	nam_server_drain_fn fn;
	void *arg;
	struct nam_diag *diag;
	struct nam__servers all;
	const char *server;			/* of the process that is drained */
	uint64_t process;			/* struct nam_server_status.host */
	char address[NAM_VIEW_ADDRESS_BYTES];	/* of that process */
	bool dry;				/* nothing is to move */
	struct nam_drain_step step;
	uint32_t moved;
	struct nam_client_options own;		/* once the lead has moved: it is the seed */
	char lead[NAM_VIEW_ADDRESS_BYTES];
};

/* ---- what is to move ------------------------------------------------------------------------- */

NAM_FIBER_FN static int
look(struct draining *draining)
{
	return nam__servers_query(draining->options, &draining->all, draining->diag); /* SUSPENDS */
}

/* By its id or its address.  NULL: there is none. */
static const struct nam_server_status *
find(const struct draining *draining, const char *server)
{
	char *end;
	unsigned long id = strtoul(server, &end, 10);
	bool by_id = *server && !*end;

	for (uint32_t i = 0; i < draining->all.count; i++) {
		const struct nam_server_status *status = &draining->all.list[i];

		if (by_id ? status->id == id && (nam__is_member(status) || status->rc) :
			!strcmp(status->address, server))
			return status;
	}
	return NULL;
}

/* Whether there is a process at that address whose memory has moved: it is no member any more. */
static bool
has_moved(const struct draining *draining, const char *address)
{
	struct nam_client *prober = NULL;
	struct nam_diag diag;
	int rc = strchr(address, ':') ? nam__prober_connect(draining->options, address, 0, false,
		&prober, &diag) : 0;

	nam__client_free(prober);
	return nam_err_is(rc, NAM_E_FABRIC_MOVED);
}

/* A lead that has retired.  Its backup does not lead yet. */
static bool
is_retired_lead(const struct nam_server_status *status)
{
	return !status->id && nam_err_is(status->rc, NAM_E_FABRIC_MOVED) && status->backup[0];
}

/* The process that is named.  *ret_empty: its memory has moved already. */
static int
process_find(struct draining *draining, const char *server, bool *ret_empty)
{
	const struct nam_server_status *status = find(draining, server);

	*ret_empty = (!status || status->rc) && has_moved(draining, server);
	if (*ret_empty) {
		(void)snprintf(draining->address, sizeof(draining->address), "%s", server);
		return 0;
	}
	if (!status)
		return nam_diag_set(draining->diag, -NAM_E_CLUSTER, "no memory server of this "
			"cluster has the id or the address %s; `namctl status` lists them", server);
	if (status->rc)
		return nam_diag_set(draining->diag, status->rc, "the memory server at %s does not "
			"answer, so its memory cannot move: %s", status->address,
			nam_err_text(status->rc));
	draining->process = status->host;
	for (uint32_t i = 0; i < draining->all.count; i++)
		if (draining->all.list[i].boot == status->host)
			(void)snprintf(draining->address, sizeof(draining->address), "%s",
				draining->all.list[i].address);
	return 0;
}

/* A member in that process, or NULL.  The lead comes first. */
static const struct nam_server_status *
member_next(const struct draining *draining)
{
	const struct nam_server_status *next = NULL;

	for (uint32_t i = 0; i < draining->all.count; i++) {
		const struct nam_server_status *status = &draining->all.list[i];

		if (nam__is_member(status) && status->host == draining->process &&
			(!next || status->id < next->id))
			next = status;
	}
	return next;
}

/* ---- one member ------------------------------------------------------------------------------ */

static void
report(struct draining *draining)
{
	if (draining->fn)
		draining->fn(draining->arg, &draining->step);
}

static void
report_moved(struct draining *draining, const struct nam_server_moved *moved)
{
	draining->step.moved = moved;
	draining->moved++;
	report(draining);
}

static int
on_hosting(void *arg, uint64_t ready_bytes, uint64_t total_bytes)
{
	struct draining *draining = arg;

	draining->step.ready_bytes = ready_bytes;
	draining->step.total_bytes = total_bytes;
	report(draining);
	return 0;
}

static int
on_move(void *arg, const char *client, uint64_t bytes, bool stopped)
{
	struct draining *draining = arg;

	(void)stopped;
	draining->step.client = client;
	draining->step.bytes = bytes;
	report(draining);
	return 0;
}

/* The process that was asked so far is no member any more. */
static void
lead_follow(struct draining *draining, const char *address)
{
	(void)snprintf(draining->lead, sizeof(draining->lead), "%s", address);
	draining->own = *draining->options;
	draining->own.cluster = draining->lead;
	draining->options = &draining->own;
}

NAM_FIBER_FN static int
member_move(struct draining *draining, const struct nam_server_status *member,
	const struct nam_server_status *target)
{
	const struct nam__hosting hosting = { .options = draining->options,
		.member = member, .host = target, .fn = on_hosting, .arg = draining };
	struct nam_server_moved moved;
	char address[NAM_VIEW_ADDRESS_BYTES];
	int rc;

	draining->step = (struct nam_drain_step){ .id = member->id, .to = target->address };
	rc = nam__successor_host(&hosting, address, draining->diag); /* SUSPENDS */
	if (rc)
		return rc;
	draining->step.to = address;
	draining->step.total_bytes = 0;
	rc = nam__server_move(draining->options, NAM__SUCCESSOR_MOVES, address, on_move,
		draining, &moved, draining->diag); /* SUSPENDS */
	if (rc)
		return rc;
	if (!member->id)
		lead_follow(draining, address);
	report_moved(draining, &moved);
	return 0;
}

NAM_FIBER_FN static int
changer_begin(struct draining *draining, struct nam__changer *changer)
{
	int rc = nam__changer_open(changer, draining->options, draining->diag);

	if (!rc)
		rc = nam__lead_find(draining->options, changer->seeds, NULL, &changer->lead,
			draining->diag); /* SUSPENDS */
	return rc ?: nam__changer_take(changer); /* SUSPENDS */
}

/* Its backup leads then.  That is in another process. */
NAM_FIBER_FN static int
lead_hand_over(struct draining *draining, const struct nam_server_status *lead)
{
	struct nam__changer changer;
	struct nam_server_moved moved = { .bytes = 0 };
	int rc = changer_begin(draining, &changer); /* SUSPENDS */

	draining->step = (struct nam_drain_step){ .to = lead->backup };
	if (!rc)
		rc = nam__lead_hand_over(&changer, &moved); /* SUSPENDS */
	nam__changer_close(&changer);
	if (rc)
		return rc;
	lead_follow(draining, lead->backup);
	report_moved(draining, &moved);
	return 0;
}

/* Its first backup gets its place, in another process. */
NAM_FIBER_FN static int
member_hand_over(struct draining *draining, const struct nam_server_status *member)
{
	uint64_t began_ns = nam_now_ns();
	struct nam_server_moved moved = { .retired = 1 };
	int rc;

	draining->step = (struct nam_drain_step){ .id = member->id, .to = member->backup };
	rc = nam__member_hand_over(draining->options, member->id, draining->diag); /* SUSPENDS */
	if (rc)
		return rc;
	moved.stopped_us = (nam_now_ns() - began_ns) / 1000;
	report_moved(draining, &moved);
	return 0;
}

/* ---- backups in that process ----------------------------------------------------------------- */

/* Stewards make others at the same time, and one member is copied at a time. */
NAM_FIBER_FN static int
back_elsewhere(struct draining *draining, const struct nam_view_member *member)
{
	uint64_t until_ns = nam_now_ns() + BUSY_NS;
	char address[NAM_VIEW_ADDRESS_BYTES];
	struct nam_server_moved moved;
	int rc;

	draining->step = (struct nam_drain_step){ .id = member->id, .to = address };
	for (;;) {
		address[0] = '\0';
		rc = nam__member_back(draining->options, member->id, on_move, draining, address,
			&moved, draining->diag); /* SUSPENDS */
		if (rc != -NAM_E_VIEW || nam_now_ns() >= until_ns)
			return rc;
		nam_sleep_ns(BUSY_PAUSE_NS);
	}
}

/* The member gets another one before, if it may have one more; or later, from a steward. */
NAM_FIBER_FN static int
backup_leave(struct draining *draining, const struct nam__cluster_view *view,
	const struct nam_view_member *member, const struct nam_view_backup *backup)
{
	int rc = nam_view_backups(member) < nam_view_backups_max(&view->head, member) ?
		back_elsewhere(draining, member) : 0; /* SUSPENDS */

	/* Only the steward that leads makes backups there. */
	if (rc == -NAM_E_TERM)
		rc = 0;
	if (!rc)
		rc = nam__backup_end(draining->options, member->id, backup->boot,
			draining->diag); /* SUSPENDS */
	/* If this fails, the process keeps its memory until it ends. */
	if (!rc)
		(void)!nam__successor_end(draining->options, draining->address, member->id,
			backup->boot); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
view_take(struct draining *draining, struct nam__cluster_view **ret_view)
{
	struct nam__changer changer;
	int rc = changer_begin(draining, &changer); /* SUSPENDS */

	*ret_view = rc ? NULL : nam__cluster_view_clone(changer.view);
	nam__changer_close(&changer);
	return rc || *ret_view ? rc : -ENOMEM;
}

/* The process is no member any more, so none of them comes back. */
NAM_FIBER_FN static int
backups_leave(struct draining *draining)
{
	struct nam__cluster_view *view;
	int rc = view_take(draining, &view); /* SUSPENDS */

	for (uint32_t i = 0; !rc && i < view->head.count; i++)
		for (uint32_t place = 0; !rc && place < NAM_BACKUPS_MAX; place++) {
			const struct nam_view_member *member = &view->members[i];

			if (nam__hosts(draining->address, member->backups[place].address))
				rc = backup_leave(draining, view, member,
					&member->backups[place]); /* SUSPENDS */
		}
	free(view);
	return rc;
}

/* ---- a process ------------------------------------------------------------------------------- */

/* Another program has ended before the backup led.  It leads, and the process is looked at anew. */
NAM_FIBER_FN static int
lead_succeed(struct draining *draining)
{
	for (uint32_t i = 0; i < draining->all.count; i++) {
		const struct nam_server_status *status = &draining->all.list[i];
		int rc;

		if (!is_retired_lead(status))
			continue;
		rc = nam_server_promote(draining->options, 0, draining->diag); /* SUSPENDS */
		if (rc)
			return rc;
		lead_follow(draining, status->backup);
		return look(draining); /* SUSPENDS */
	}
	return 0;
}

NAM_FIBER_FN static int
drain(struct draining *draining)
{
	const struct nam_server_status *member, *target;
	bool empty = false;
	int rc = look(draining); /* SUSPENDS */

	if (!rc)
		rc = lead_succeed(draining); /* SUSPENDS */
	if (!rc)
		rc = process_find(draining, draining->server, &empty);
	while (!rc && !empty && (member = member_next(draining))) {
		if (member->backup[0]) {
			rc = (member->id ? member_hand_over : lead_hand_over)(draining,
				member) ?: look(draining); /* SUSPENDS */
			continue;
		}
		target = nam__host_choose(&draining->all, member, draining->diag);
		if (!target)
			return -EDQUOT;
		rc = member_move(draining, member, target) ?: look(draining); /* SUSPENDS */
	}
	return rc ?: backups_leave(draining); /* SUSPENDS */
}

/* ---- processes that are equally full --------------------------------------------------------- */

/* The memory of all members in that process. */
static uint64_t
load_of(const struct draining *draining, uint64_t process)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < draining->all.count; i++)
		if (nam__is_member(&draining->all.list[i]) && draining->all.list[i].host == process)
			bytes += draining->all.list[i].memory_bytes;
	return bytes;
}

/* How much less the fuller of both processes has after that move.  0: impossible, or no use. */
static uint64_t
gain_of(const struct draining *draining, const struct nam_server_status *member,
	const struct nam_server_status *target)
{
	uint64_t from, after;

	if (target->rc || target->member != NAM_MEMBER_UP || target->host != target->boot ||
		target->host == member->host || target->spare_bytes < member->memory_bytes)
		return 0;
	from = load_of(draining, member->host);
	after = load_of(draining, target->host) + member->memory_bytes;
	if (after < from - member->memory_bytes)
		after = from - member->memory_bytes;
	return after < from ? from - after : 0;
}

/*
 * The move that relieves a process most.  Only of memory that a process has taken from another one:
 * its own would leave a process that cannot take any.
 */
static bool
move_choose(const struct draining *draining, struct nam_server_status **ret_member,
	struct nam_server_status **ret_target)
{
	struct nam_server_status *servers = draining->all.list;
	uint64_t best = 0, gain;

	for (uint32_t m = 0; m < draining->all.count; m++) {
		if (servers[m].rc || servers[m].member != NAM_MEMBER_UP ||
			servers[m].host == servers[m].boot)
			continue;
		for (uint32_t t = 0; t < draining->all.count; t++) {
			gain = gain_of(draining, &servers[m], &servers[t]);
			if (gain <= best)
				continue;
			best = gain;
			*ret_member = &servers[m];
			*ret_target = &servers[t];
		}
	}
	return best != 0;
}

/* In the state that was asked for only. */
static void
move_pretend(struct draining *draining, struct nam_server_status *member,
	struct nam_server_status *target)
{
	draining->step = (struct nam_drain_step){ .id = member->id, .to = target->address,
		.planned = true, .bytes = member->memory_bytes };
	report(draining);
	for (uint32_t i = 0; i < draining->all.count; i++)
		if (draining->all.list[i].boot == member->host)
			draining->all.list[i].spare_bytes += member->memory_bytes;
	target->spare_bytes -= member->memory_bytes;
	member->host = target->host;
	draining->moved++;
}

/* Each move makes the fuller one of two processes less full, so they end. */
NAM_FIBER_FN static int
rebalance(struct draining *draining)
{
	struct nam_server_status *member, *target;
	int rc = look(draining); /* SUSPENDS */

	while (!rc && move_choose(draining, &member, &target)) {
		if (draining->dry)
			move_pretend(draining, member, target);
		else
			rc = member_move(draining, member, target) ?:
				look(draining); /* SUSPENDS */
	}
	return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int
carry_out(struct draining *draining, int (*steps)(struct draining *draining), uint32_t *ret_moved)
{
	int rc = steps(draining); /* SUSPENDS */

	*ret_moved = draining->moved;
	nam__servers_free(&draining->all);
	return rc;
}

int
nam_server_drain(const struct nam_client_options *options, const char *server,
	nam_server_drain_fn fn, void *arg, uint32_t *ret_moved, struct nam_diag *diag)
{
	struct draining draining = { .options = options, .fn = fn, .arg = arg, .diag = diag,
		.server = server };

	return carry_out(&draining, drain, ret_moved); /* SUSPENDS */
}

int
nam_rebalance(const struct nam_client_options *options, bool dry, nam_server_drain_fn fn, void *arg,
	uint32_t *ret_moved, struct nam_diag *diag)
{
	struct draining draining = { .options = options, .fn = fn, .arg = arg, .diag = diag,
		.dry = dry };

	return carry_out(&draining, rebalance, ret_moved); /* SUSPENDS */
}
