/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promote.c -- a backup gets the place of a process that has ended, or is to end; or a member has
 * none any more.
 *
 * PROMOTE: clients end what they have sent to the backup, take their locks there, and acknowledge.
 * MOVED: they go on at the backup.  A steward that ends in between leaves the rest to the next one.
 */
#include <errno.h>
#include <string.h>

#include "common/race.h"
#include "compute/admin.h"
#include "compute/backup/lease.h"
#include "compute/view/changer.h"
#include "compute/view/lead.h"
#include "compute/view/succession.h"
#include "compute/worker/worker.h"
#include "move_internal.h"

#define OPENS_MAX 100u
#define LATE_TRIES_MAX 16u

struct promoting {
	struct nam__changer changer;
	uint32_t id;
	uint64_t backup;		/* to be taken away: its boot; 0: all of them */
	uint64_t deadline_ns;
	unsigned late_tries;		/* after that */
	uint64_t over_ns;		/* all have acknowledged, and no lease is left then; or 0 */
	struct nam_client *leaves;	/* asks the member's process, which lives; or NULL */
	bool retired;			/* it serves nothing any more */
};

/* A failure, or *ret_member as the view has it now. */
NAM_FIBER_FN static int
look(struct promoting *promoting, const struct nam_view_member **ret_member)
{
	int rc = nam__changer_take(&promoting->changer); /* SUSPENDS */

	if (rc)
		return rc;
	*ret_member = nam__cluster_view_find(promoting->changer.view, promoting->id);
	if (!*ret_member)
		return nam_diag_set(promoting->changer.diag, -NAM_E_CLUSTER,
			"the cluster has no memory server %u", promoting->id);
	return 0;
}

/* C34: another program may have begun this as the member was silent.  It may be repeated. */
static bool
is_over(struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam_diag diag;

	if (promoting->retired || promoting->over_ns ||
		promoting->changer.lead->caps & NAM_CAP_LASTING)
		return nam_now_ns() >= promoting->over_ns;
	promoting->over_ns = nam__member_look(promoting->changer.options, member->address,
		member->id, member->boot, &diag) == -ENOENT ? 1 :
		nam_now_ns() + NAM__LEASE_OVER_NS;
	return nam_now_ns() >= promoting->over_ns;
}

/* 0 only if that process has ended: a silent one may still be alive. */
static int
ended_check(const struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam_diag diag;
	int rc = nam__member_look(promoting->changer.options, member->address, member->id,
		member->boot, &diag);

	return rc == -ENOENT ? 0 : nam_diag_set(promoting->changer.diag, rc ?: -NAM_E_VIEW,
		"the process of memory server %u at %s has not ended, as far as is known (%s): end "
		"it first", member->id, member->address, rc ? diag.text : "it answers");
}

/* One of two backups whose process has ended: clients wait for its answers.  0: none. */
static uint64_t
ended_find(const struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam_diag diag;

	for (uint32_t i = 0; nam_view_backups(member) > 1 && i < NAM_BACKUPS_MAX; i++)
		if (nam__member_look(promoting->changer.options, member->backups[i].address,
				member->id, member->backups[i].boot, &diag) == -ENOENT)
			return member->backups[i].boot;
	return 0;
}

NAM_FIBER_FN static int
promote_step(struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam__changer *changer = &promoting->changer;
	struct nam_view_member to = *member;
	uint64_t ended;
	char client[128];
	int rc;

	/* C34: it serves nothing any more, so no lease matters. */
	if (member->state == NAM_VIEW_PROMOTING && promoting->leaves && !promoting->retired)
		promoting->retired = !nam__move_call(promoting->leaves, NAM_RPC_MOVE_RETIRE, 0,
			NULL, 0, promoting->deadline_ns, NULL, NULL); /* SUSPENDS */
	if (member->state == NAM_VIEW_PROMOTING &&
		changer->view->acknowledged >= changer->view->head.number &&
		is_over(promoting, member)) {
		nam__promoted(changer->view, &to);
		/* C32: all holders have their locks at the backup. */
		nam_race_point("promote.acknowledged");
		return nam__changer_change(changer, NAM_RPC_VIEW_MOVED, &to); /* SUSPENDS */
	}
	if (member->state != NAM_VIEW_PROMOTING && nam_now_ns() >= promoting->deadline_ns)
		return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "another memory server "
			"joins or moves, so the backup of memory server %u does not get its place "
			"yet; try again", promoting->id);
	if (member->state != NAM_VIEW_PROMOTING) {
		rc = promoting->leaves ? 0 : ended_check(promoting, member);
		return rc ?: nam__changer_change(changer, NAM_RPC_VIEW_PROMOTE,
			member); /* SUSPENDS */
	}
	ended = ended_find(promoting, member);
	if (ended) {
		to.boot = ended;
		return nam__changer_change(changer, NAM_RPC_VIEW_UNBACKED, &to); /* SUSPENDS */
	}
	nam__changer_ended_fence(changer, promoting->deadline_ns); /* SUSPENDS */
	if (nam_now_ns() < promoting->deadline_ns) {
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS / 5);
		return 0;
	}
	nam__changer_delay(changer, client, sizeof(client)); /* SUSPENDS */
	return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "%s has not acknowledged that "
		"memory server %u has ended: it is stopped or slow; let it go on or end it, and "
		"try again", client, promoting->id);
}

NAM_FIBER_FN static int
promote(struct promoting *promoting)
{
	const struct nam_view_member *member;
	const struct nam_view_backup *backup;
	uint64_t boot = 0;
	int rc;

	for (;;) {
		rc = look(promoting, &member); /* SUSPENDS */
		/* Another process has its place. */
		if (rc || (boot && member->boot != boot))
			return rc;
		backup = nam_view_backup(member);
		if (!backup)
			return nam_diag_set(promoting->changer.diag, -NAM_E_CLUSTER,
				"memory server %u has no backup, or that has its place already: "
				"see namctl status", member->id);
		boot = member->boot;
		rc = promote_step(promoting, member); /* SUSPENDS */
		if (rc)
			return rc;
	}
}

/* It gets no trees and no stores from then on, as these would be lost. */
NAM_FIBER_FN static int
leave_begin(struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam_diag *diag = promoting->changer.diag;
	int rc = nam__prober_open(promoting->changer.options, member->address, 0, false,
		&promoting->leaves, diag);

	if (rc)
		return rc;
	rc = promoting->leaves->servers[0].boot != member->boot ? -NAM_E_VIEW :
		nam__move_call(promoting->leaves, NAM_RPC_MOVE_LEAVE, 0, NULL, 0,
			promoting->deadline_ns, NULL, NULL); /* SUSPENDS */
	if (rc == -NAM_E_UNMOVABLE)
		return nam_diag_set(diag, rc, "memory server %u keeps parts of indexes with trees "
			"(coarse, hybrid), or of key-value stores, which have one copy and would "
			"be lost. Load them into fine indexes, and drop them; or take its backups "
			"away first, and its memory moves: namctl server unback %u", member->id,
			member->id);
	return rc ? nam_diag_set(diag, rc, "memory server %u at %s does not pass its place on: %s",
		member->id, member->address, nam_err_text(rc)) : 0;
}

/* C32: the process lives, and is of no use afterwards. */
NAM_FIBER_FN static int
hand_over(struct promoting *promoting)
{
	const struct nam_view_member *member;
	int rc = look(promoting, &member); /* SUSPENDS */

	if (!rc && nam_view_backup(member))
		rc = leave_begin(promoting, member); /* SUSPENDS */
	if (!rc)
		rc = promote(promoting); /* SUSPENDS */
	nam__client_free(promoting->leaves);
	return rc;
}

/*
 * C33: the lead's backup may live, so it knows first that it does not count.  Otherwise it could
 * lead later, without what clients write from now on.
 */
NAM_FIBER_FN static bool
is_known_there(const struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam_diag diag;

	return member->id || !nam__lead_copy_send(promoting->changer.options,
			promoting->changer.view) || /* SUSPENDS */
		nam__member_look(promoting->changer.options, member->backups[0].address,
			member->id, member->backups[0].boot, &diag) == -ENOENT;
}

NAM_FIBER_FN static int
unback_step(struct promoting *promoting, const struct nam_view_member *member)
{
	struct nam__changer *changer = &promoting->changer;
	enum nam_rpc_view_change what = member->known ? NAM_RPC_VIEW_ABORT :
		NAM_RPC_VIEW_UNBACKED;
	struct nam_view_member asked = *member;
	bool late = nam_now_ns() >= promoting->deadline_ns;
	int rc;

	if (member->state == NAM_VIEW_PROMOTING)
		return nam_diag_set(changer->diag, -NAM_E_VIEW, "the backup of memory server %u "
			"gets its place", member->id);
	if (what == NAM_RPC_VIEW_UNBACKED && !is_known_there(promoting, member)) { /* SUSPENDS */
		if (!late) {
			nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
			return 0;
		}
		/* The backup is silent: another member knows that it does not count. */
		if (!nam__copies_send(changer->options, changer->view)) /* SUSPENDS */
			return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "the backup of "
				"memory server %u counts no more, but is silent, as are all other "
				"memory servers; end its process, and try again", member->id);
	}
	if (late && promoting->late_tries++ > LATE_TRIES_MAX)
		return nam_diag_set(changer->diag, -NAM_E_FABRIC_TIMEOUT, "memory server %u still "
			"has its backup: others change the view; try again", member->id);
	asked.boot = promoting->backup ?: nam_view_backup(member)->boot;
	rc = nam__changer_change(changer, what, &asked); /* SUSPENDS */
	if (what == NAM_RPC_VIEW_ABORT) {
		changer->changed_for_lead |= changer->changed;
		changer->changed = false;
	}
	return rc;
}

NAM_FIBER_FN static int
unback(struct promoting *promoting)
{
	const struct nam_view_member *member;
	int rc;

	do {
		rc = look(promoting, &member); /* SUSPENDS */
		if (rc || !(promoting->backup ? nam_view_backup_find(member, promoting->backup) :
				nam_view_backup(member)))
			return rc;
		rc = unback_step(promoting, member); /* SUSPENDS */
	} while (!rc);
	return rc;
}

/*
 * C33: it may have ended itself.  Connections that were closed just now may count in the limit of
 * the one that is asked.
 */
NAM_FIBER_FN static int
lead_open(struct nam__changer *changer, bool succeeds)
{
	int rc = -NAM_E_FABRIC_REFUSED;

	if (!succeeds)
		return nam__lead_find(changer->options, changer->seeds, NULL, &changer->lead,
			changer->diag); /* SUSPENDS */
	for (unsigned i = 0; i < OPENS_MAX && rc == -NAM_E_FABRIC_REFUSED; i++) {
		if (i)
			nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
		rc = nam__lead_open(changer->options, changer->seeds, changer->store, NULL,
			&changer->changed, &changer->lead, changer->diag); /* SUSPENDS */
	}
	return rc;
}

static int
with_lead(const struct nam_client_options *options, uint32_t id, uint64_t backup,
	int (*fn)(struct promoting *promoting), struct nam_diag *diag)
{
	struct promoting promoting = { .id = id, .backup = backup };
	int rc = nam__changer_open(&promoting.changer, options, diag);

	if (!rc)
		rc = lead_open(&promoting.changer, fn == promote && !id); /* SUSPENDS */
	if (!rc) {
		promoting.deadline_ns = nam_now_ns() +
			promoting.changer.lead->options.timeout_ms * 1000000ull;
		rc = fn(&promoting); /* SUSPENDS */
	}
	nam__changer_close(&promoting.changer);
	return rc;
}

int
nam_server_promote(const struct nam_client_options *options, uint32_t id, struct nam_diag *diag)
{
	return with_lead(options, id, 0, promote, diag); /* SUSPENDS */
}

int
nam_server_unback(const struct nam_client_options *options, uint32_t id, struct nam_diag *diag)
{
	return with_lead(options, id, 0, unback, diag); /* SUSPENDS */
}

int
nam__member_hand_over(const struct nam_client_options *options, uint32_t id, struct nam_diag *diag)
{
	return with_lead(options, id, 0, hand_over, diag); /* SUSPENDS */
}

int
nam__backup_end(const struct nam_client_options *options, uint32_t id, uint64_t boot,
	struct nam_diag *diag)
{
	return with_lead(options, id, boot, unback, diag); /* SUSPENDS */
}
