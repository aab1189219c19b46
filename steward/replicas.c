/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas.c -- members with a backup (C31, C32 of compute/README).
 *
 * A death is a fact that stays true.  A silent process may live, so it is given up: no client
 * relies on it once that has happened (C34).
 */
#include "pass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/guard.h"
#include "compute/backup/lease.h"
#include "compute/view/lead.h"
#include "compute/view/move/server_move.h"
#include "memserver/server.h"

#define RETRY_NS 5000000000ull		/* after a member could not get a backup */
#define WATCH_MS 50u
#define PROMOTING_MS 2u			/* clients acknowledge within a turn of their thread */

uint32_t
nam__backups_within_ms(const struct nam__cluster_view *view)
{
	bool has = view->head.backups != 0;

	if (nam_view_in_state(&view->head, view->members, NAM_VIEW_PROMOTING))
		return PROMOTING_MS;
	for (uint32_t i = 0; i < view->head.count; i++)
		has |= nam_view_backup(&view->members[i]) != NULL;
	return has ? WATCH_MS : 0;
}

/* ---- ends of processes ----------------------------------------------------------------------- */

static struct nam__silence *
silence_find(struct nam__steward *steward, uint64_t boot)
{
	struct nam__silence *silence = NULL;

	for (uint32_t i = 0; i < NAM__SILENCES_MAX; i++)
		if (steward->silences[i].boot == boot)
			silence = &steward->silences[i];
	return silence;
}

/* From the end of the first attempt that failed, as one proves little. */
static void
silence_note(struct nam__steward *steward, uint64_t boot, bool silent)
{
	struct nam__silence *silence = silence_find(steward, boot);

	if (silent && !silence)
		silence = silence_find(steward, 0);
	if (!silence)
		return;
	if (!silent)
		*silence = (struct nam__silence){ 0 };
	else if (silence->boot != boot)
		*silence = (struct nam__silence){ boot, nam_now_ns() };
}

/* Over a fabric where a client that is stopped loses its connections. */
static bool
is_given_up(struct nam__steward *steward, uint64_t boot)
{
	const struct nam__silence *silence = silence_find(steward, boot);

	return silence && steward->silent_ms && !(steward->lead->caps & NAM_CAP_LASTING) &&
		nam_now_ns() - silence->since_ns >= steward->silent_ms * 1000000ull;
}

void
nam__silences_forget(struct nam__steward *steward)
{
	memset(steward->silences, 0, sizeof(steward->silences));
}

/* 0: it lives; -ENOENT: it has ended; else *ret_silent is set. */
static int
look(struct nam__steward *steward, const char *address, uint32_t id, uint64_t boot,
	bool *ret_silent)
{
	struct nam_diag diag;
	int rc = nam__member_look(steward->options, address, id, boot, &diag);

	silence_note(steward, boot, rc && rc != -ENOENT);
	*ret_silent |= rc && rc != -ENOENT;
	return rc;
}

/*
 * C34: a client that was fenced without its process has no lease any more.  That is certain some
 * time after the last one was.  A process that has ended answers no client, so there is no wait.
 */
static bool
is_over(struct nam__steward *steward, const struct nam_view_member *member)
{
	bool silent = false;

	if (steward->ended_boot == member->boot || !NAM_GUARD(LEASE_WAIT) ||
		steward->lead->caps & NAM_CAP_LASTING)
		return true;
	if (steward->acknowledged.boot == member->boot)
		return nam_now_ns() - steward->acknowledged.since_ns >= NAM__LEASE_OVER_NS;
	steward->acknowledged.boot = member->boot;
	steward->acknowledged.since_ns = nam_now_ns();
	/* Another steward, or another program, has begun with it. */
	if (!is_given_up(steward, member->boot) && look(steward, member->address, member->id,
			member->boot, &silent) == -ENOENT)
		steward->ended_boot = member->boot;
	return steward->ended_boot == member->boot;
}

/* The backup of the lead is not to lead later: it does not count, as other members know (C33). */
static enum nam_rpc_view_change
lead_unback(const struct nam__steward *steward, const struct nam__cluster_view *view)
{
	if (view->members[0].known)
		return NAM_RPC_VIEW_ABORT;
	return nam__copies_send(steward->options, view) ? NAM_RPC_VIEW_UNBACKED : 0; /* SUSPENDS */
}

/*
 * A backup has ended, or is given up while the member or another backup answers.  It need not be
 * fenced, as clients write to all of them.
 *
 * @rcs		of the looks at its backups, by place
 * @answers	that many of the member's processes answer
 */
static enum nam_rpc_view_change
unback_due(struct nam__steward *steward, const struct nam__cluster_view *view,
	struct nam_view_member *member, const int rcs[NAM_BACKUPS_MAX], unsigned answers)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++) {
		uint64_t boot = member->backups[i].boot;
		bool given_up = rcs[i] && rcs[i] != -ENOENT && answers &&
			is_given_up(steward, boot);

		if (!boot || (rcs[i] != -ENOENT && !given_up))
			continue;
		member->boot = boot;
		if (given_up && !member->id)
			return lead_unback(steward, view);
		/* It gets a second one meanwhile. */
		return member->state == NAM_VIEW_UP || member->state == NAM_VIEW_PROMOTING ?
			NAM_RPC_VIEW_UNBACKED : NAM_RPC_VIEW_ABORT;
	}
	return 0;
}

static void
backups_look(struct nam__steward *steward, const struct nam_view_member *member,
	int ret_rcs[NAM_BACKUPS_MAX], unsigned *ret_answers, bool *ret_silent)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++) {
		const struct nam_view_backup *backup = &member->backups[i];

		ret_rcs[i] = backup->boot ? look(steward, backup->address, member->id,
			backup->boot, ret_silent) : 0;
		*ret_answers += backup->boot && !ret_rcs[i];
	}
}

static enum nam_rpc_view_change
promoting_due(struct nam__steward *steward, const struct nam__cluster_view *view,
	struct nam_view_member *member, bool *ret_silent)
{
	int rcs[NAM_BACKUPS_MAX];
	unsigned answers = 0;

	if (view->acknowledged >= view->head.number && is_over(steward, member)) {
		nam__promoted(view, member);
		return NAM_RPC_VIEW_MOVED;
	}
	/* Clients do not acknowledge before a backup answers, or is none any more. */
	if (nam_view_backups(member) < 2)
		return 0;
	backups_look(steward, member, rcs, &answers, ret_silent);
	return answers ? unback_due(steward, view, member, rcs, answers) : 0;
}

/* @member	has a backup; in: of the view; out: what the change is about */
static enum nam_rpc_view_change
due(struct nam__steward *steward, const struct nam__cluster_view *view,
	struct nam_view_member *member, bool *ret_silent)
{
	const struct nam_view_backup *backup = nam_view_backup(member);
	enum nam_rpc_view_change what;
	int rcs[NAM_BACKUPS_MAX];
	unsigned answers;
	int member_rc;
	bool ended;

	if (member->state == NAM_VIEW_PROMOTING)
		return promoting_due(steward, view, member, ret_silent);
	member_rc = look(steward, member->address, member->id, member->boot, ret_silent);
	answers = !member_rc;
	backups_look(steward, member, rcs, &answers, ret_silent);
	what = unback_due(steward, view, member, rcs, answers);
	if (what)
		return what;
	if (!member->id && !member->known && view->head.backups &&
		view->acknowledged >= view->head.number)
		return NAM_RPC_VIEW_UP;
	/* A promotion cannot be given up, so the backup has to answer. */
	ended = member_rc == -ENOENT;
	if (!member->id || rcs[backup - member->backups] ||
		(!ended && !is_given_up(steward, member->boot)))
		return 0;
	steward->ended_boot = ended ? member->boot : steward->ended_boot;
	return NAM_RPC_VIEW_PROMOTE;
}

/* Only one gate may be closed: a member that joins or moves is given up before. */
static enum nam_rpc_view_change
make_way(const struct nam__cluster_view *view, struct nam_view_member *member)
{
	const struct nam_view_member *other = nam__view_joining(view) ?:
		nam_view_leaving(&view->head, view->members);

	if (!other)
		return NAM_RPC_VIEW_PROMOTE;
	*member = *other;
	return other->state == NAM_VIEW_PROMOTING ? 0 : NAM_RPC_VIEW_ABORT;
}

enum nam_rpc_view_change
nam__backups_due(struct nam__steward *steward, const struct nam__cluster_view *view,
	struct nam_view_member *ret_member)
{
	const struct nam_view_member *promoting = nam_view_in_state(&view->head, view->members,
		NAM_VIEW_PROMOTING);
	uint32_t count = view->head.count, first = 0;
	enum nam_rpc_view_change what = 0;
	bool silent = false;

	/* C33: before that, clients acknowledge nothing. */
	*ret_member = view->members[0];
	if (count && ret_member->backups[0].boot && ret_member->state == NAM_VIEW_UP &&
		look(steward, ret_member->backups[0].address, 0, ret_member->backups[0].boot,
			&silent) == -ENOENT) {
		ret_member->boot = ret_member->backups[0].boot;
		return NAM_RPC_VIEW_UNBACKED;
	}
	/* Clients wait for that one. */
	if (promoting) {
		*ret_member = *promoting;
		what = due(steward, view, ret_member, &silent);
		/* A fence asks all others, so backups that are silent, too, go before MOVED. */
		if (what || steward->ended_boot == promoting->boot)
			return what;
	}
	silent = false;
	/* By turns, as one that is silent ends the looks of a pass. */
	while (first < count && view->members[first].id <= steward->watched)
		first++;
	for (uint32_t i = 0; i < count && !what && !silent; i++) {
		*ret_member = view->members[(first + i) % count];
		steward->watched = ret_member->id;
		if (nam_view_backup(ret_member) && ret_member->state != NAM_VIEW_PROMOTING)
			what = due(steward, view, ret_member, &silent);
	}
	if (promoting)
		return what == NAM_RPC_VIEW_UNBACKED || what == NAM_RPC_VIEW_ABORT ? what : 0;
	return what == NAM_RPC_VIEW_PROMOTE ? make_way(view, ret_member) : what;
}

/* ---- backups that are missing ---------------------------------------------------------------- */

struct making {
	struct nam__steward *steward;
	int (*within)(struct nam__steward *steward);
};

static int
on_move(void *arg, const char *client, uint64_t bytes, bool stopped)
{
	const struct making *making = arg;

	(void)client;
	(void)bytes;
	/* A stop is short, and passes would make it longer. */
	return stopped ? 0 : making->within(making->steward);
}

/*
 * The next one by turns, so that one which cannot get a backup does not keep others from it.  One
 * without a backup comes before others that lack a second one.
 */
static const struct nam_view_member *
lacking_find(const struct nam__steward *steward, const struct nam__cluster_view *view)
{
	for (uint32_t count = 0; count < view->head.backups; count++) {
		const struct nam_view_member *first = NULL;

		for (uint32_t i = 0; i < view->head.count; i++) {
			const struct nam_view_member *member = &view->members[i];

			if (nam_view_backups(member) != count ||
				nam_view_backups_max(&view->head, member) == count)
				continue;
			if (member->id > steward->lacking.id)
				return member;
			first = first ?: member;
		}
		if (first)
			return first;
	}
	return NULL;
}

static void
failed(struct nam__steward *steward, uint32_t id, int rc, const struct nam_diag *diag)
{
	char fields[1200], text[2 * sizeof(diag->text)];
	struct nam_diag flags = *diag;

	steward->lacking.until_ns = nam_now_ns() + RETRY_NS;
	/* The attempt is repeated every few seconds, and logged once.  A copy may be given up. */
	if (rc == -ECANCELED || steward->lacking.rc == rc)
		return;
	steward->lacking.rc = rc;
	if (steward->flags)
		flags = steward->flags(diag->text);
	(void)nam_log_quote(flags.text[0] ? flags.text : nam_err_text(rc), text, sizeof(text));
	(void)snprintf(fields, sizeof(fields), "id=%u text=%s", id, text);
	if (steward->warning)
		steward->warning(steward->arg, "no_backup", fields);
}

void
nam__backups_make(struct nam__steward *steward, const struct nam__cluster_view *view,
	int (*within)(struct nam__steward *steward))
{
	struct nam_client_options options = *steward->options;
	struct making making = { steward, within };
	struct nam_server_moved moved = { 0 };
	const struct nam_view_member *member;
	char address[NAM_VIEW_ADDRESS_BYTES], fields[400], quoted[2 * NAM_VIEW_ADDRESS_BYTES];
	struct nam_diag diag = { "" };
	uint32_t id;
	int rc;

	if (!view->head.backups || nam_now_ns() < steward->lacking.until_ns ||
		nam__view_joining(view) || nam_view_leaving(&view->head, view->members))
		return;
	member = lacking_find(steward, view);
	if (!member)
		return;
	id = steward->lacking.id = member->id;
	options.view_store = steward->store;
	rc = nam__member_back(&options, id, on_move, &making, address, &moved,
		&diag); /* SUSPENDS */
	if (rc) {
		failed(steward, id, rc, &diag);
		return;
	}
	steward->lacking.rc = 0;
	(void)snprintf(fields, sizeof(fields), "id=%u address=%s bytes=%llu stopped_us=%llu",
		id, nam_log_quote(address, quoted, sizeof(quoted)),
		(unsigned long long)moved.bytes, (unsigned long long)moved.stopped_us);
	if (steward->event)
		steward->event(steward->arg, "backed", fields);
}
