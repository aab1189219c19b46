/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass.c -- one pass of a steward.
 *
 * Every decision rests on the view that it changes, and on facts that stay true.  The end of a life
 * of a memory server is such a fact.  So a steward that stalls in a pass and returns finds another
 * number or another term, and changes nothing.
 */
#include "pass.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/race.h"
#include "compute/view/fence.h"
#include "compute/view/lead.h"
#include "compute/view/succession.h"
#include "compute/view/presence.h"
#include "compute/worker/worker.h"
#include "memserver/server.h"

#define ROUNDS_MAX 16u			/* changes of one pass, and races that were lost */
#define FENCES_MAX 16u			/* of one pass */
#define LOOKS_MAX 8u			/* of one round, at members that are UP */
#define FENCE_TIMEOUT_NS 100000000ull	/* for memory servers to destroy queue pairs */
#define SILENT_MS_MIN 1000u		/* clients give signs of life every 250 ms */
#define WITHIN_NS 50000000ull		/* between passes, while memory is copied */

static void
log_event(const struct nam__steward *steward, const char *event, const char *format, ...)
	NAM_PRINTF(3, 4);

static void
log_event(const struct nam__steward *steward, const char *event, const char *format, ...)
{
	char fields[400];
	va_list args;

	if (!steward->event)
		return;
	va_start(args, format);
	(void)vsnprintf(fields, sizeof(fields), format, args);
	va_end(args);
	steward->event(steward->arg, event, fields);
}

/* ---- leading --------------------------------------------------------------------------------- */

/* The term is 0 afterwards if another steward leads. */
NAM_FIBER_FN static int
lead(struct nam__steward *steward, struct nam_diag *diag)
{
	struct nam__view_store *store = steward->store;
	struct nam_worker *worker = steward->lead->epoch_worker;
	uint64_t term = store->term;
	int rc = term ? store->ops->renew(store, worker, diag) : -NAM_E_TERM; /* SUSPENDS */
	bool deposed;

	deposed = term && rc == -NAM_E_TERM;
	if (deposed)
		log_event(steward, "deposed", "term=%llu", (unsigned long long)term);
	if (rc == -NAM_E_TERM)
		rc = store->ops->acquire(store, worker, diag); /* SUSPENDS */
	if (store->term != term || deposed)
		nam__silences_forget(steward);
	if (!rc && store->term && (store->term != term || deposed))
		log_event(steward, "leads", "term=%llu store=%s", (unsigned long long)store->term,
			store->name);
	return rc == -NAM_E_TERM ? 0 : rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Whether it has been like that for so long: the member that joins silent, or that client late. */
static bool
has_lasted(struct nam__steward *steward, uint64_t view, uint16_t client, uint16_t incarnation,
	uint32_t ms)
{
	uint64_t now = nam_now_ns();

	if (steward->late.view != view || steward->late.client != client ||
		steward->late.incarnation != incarnation) {
		steward->late.view = view;
		steward->late.since_ns = now;
		steward->late.client = client;
		steward->late.incarnation = incarnation;
	}
	return steward->fence_ms && now - steward->late.since_ns >= ms * 1000000ull;
}

static uint32_t
silence_ms(const struct nam__steward *steward)
{
	return steward->fence_ms > SILENT_MS_MIN ? steward->fence_ms : SILENT_MS_MIN;
}

/*
 * A client lives and does not acknowledge the member that is joining: it does not reach it.  Twice
 * the time, in which one that is stopped has been silent for long.
 */
static bool
is_out_of_reach(struct nam__steward *steward, const struct nam__cluster_view *view)
{
	return view->acknowledged < view->head.number &&
	       view->delaying && view->delaying_ms < silence_ms(steward) &&
	       has_lasted(steward, view->head.number, view->delaying,
			view->delaying_incarnation, 2 * silence_ms(steward));
}

/*
 * The change that is due to the member that is joining; 0: none.  If it stays silent, or a client
 * does not reach it, it is taken out again: nothing lies there yet (C20, C25).
 */
static enum nam_rpc_view_change
due(struct nam__steward *steward, const struct nam__cluster_view *view,
	const struct nam_view_member *member, bool *ret_silent)
{
	struct nam_diag diag;
	int rc = nam__member_look(steward->options, member->address, member->id, member->boot,
		&diag);

	*ret_silent = rc && rc != -ENOENT;
	if (rc == -ENOENT || (rc ?
			has_lasted(steward, view->head.number, 0, 0, steward->fence_ms) :
			is_out_of_reach(steward, view)))
		return NAM_RPC_VIEW_ABORT;
	return !rc && view->acknowledged >= view->head.number ? NAM_RPC_VIEW_UP : 0;
}

/*
 * The next member, by turns, that was restarted, or NULL.  A member that does not answer may take
 * as long as the time-out of a request, so the rest is left to the next pass.
 */
NAM_FIBER_FN static const struct nam_view_member *
restarted_find(struct nam__steward *steward, const struct nam__cluster_view *view,
	struct nam_view_member *ret_renewed)
{
	uint32_t count = view->head.count, at = 0;

	while (at < count && view->members[at].id <= steward->looked)
		at++;
	for (uint32_t i = 0; i < count && i < LOOKS_MAX; i++) {
		const struct nam_view_member *member = &view->members[(at + i) % count];
		int rc = 0;

		*ret_renewed = *member;
		/* A member with a backup is not renewed. */
		if (member->id != view->head.lead && member->state == NAM_VIEW_UP &&
			!nam_view_backup(member))
			rc = nam__member_boot(steward->options, view, member,
				&ret_renewed->boot); /* SUSPENDS */
		steward->looked = member->id;
		if (rc)
			break;
		if (ret_renewed->boot != member->boot)
			return ret_renewed;
	}
	return NULL;
}

/* ---- fencing --------------------------------------------------------------------------------- */

/*
 * @reason	if it was alive
 * @text	quoted: why it failed; NULL: it did not
 */
static void
client_report(const struct nam__steward *steward, uint16_t id, uint16_t incarnation,
	const struct nam_rpc_client_state_reply *client, const char *reason, const char *text)
{
	bool lived = client->state == NAM_CLIENT_ALIVE;
	nam__steward_event_fn fn = lived || text ? steward->warning : steward->event;
	char name[4 * sizeof(client->name)], fields[1600];

	if (!fn)
		return;
	(void)snprintf(fields, sizeof(fields), "client=%u incarnation=%u reason=%s pid=%llu "
		"name=%s%s%s", id, incarnation, lived ? reason : "ended",
		(unsigned long long)client->pid, nam_log_quote(client->name, name, sizeof(name)),
		text ? " text=" : "", text ? text : "");
	fn(steward->arg, text ? "not_fenced" : "fenced", fields);
}

/* If the fence fails, the next pass tries again. */
NAM_FIBER_FN static int
fence(const struct nam__steward *steward, const struct nam__cluster_view *view, uint16_t id,
	uint16_t incarnation, const char *reason)
{
	struct nam_rpc_client_state_reply client;
	struct nam_diag why = { "" };
	char text[2 * sizeof(why.text)];
	uint32_t state;
	int rc = nam__client_state_query(steward->lead->epoch_worker, id, incarnation,
		&client); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__client_fence(steward->lead->epoch_worker, view, id, incarnation,
		steward->store->term, FENCE_TIMEOUT_NS, &state, &why); /* SUSPENDS */

	if (!rc) {
		client_report(steward, id, incarnation, &client, reason, NULL);
		return 0;
	}
	(void)nam_log_quote(*why.text ? why.text : nam_err_text(rc), text, sizeof(text));
	client_report(steward, id, incarnation, &client, reason, text);
	return rc;
}

/* Clients whose session connection has closed. */
NAM_FIBER_FN static int
ended_fence(const struct nam__steward *steward, const struct nam__cluster_view *view)
{
	struct nam_rpc_fence_reply next = { 0 };
	uint16_t id = 0;
	int rc = 0;

	for (unsigned i = 0; !rc && i < FENCES_MAX; i++) {
		rc = nam__fence_next(steward->lead->epoch_worker, id, &next); /* SUSPENDS */
		/* Round by id: this one has been tried. */
		if (rc || !next.client_id || next.client_id <= id)
			break;
		id = next.client_id;
		(void)!fence(steward, view, id, next.incarnation, "ended"); /* SUSPENDS */
	}
	return rc;
}

/* A client that is stopped or cut off, and is in the way of others. */
struct stopped {
	uint16_t client;		/* 0: none */
	uint16_t incarnation;
	const char *reason;
};

/* Otherwise the memory server is gone, or its host, and with it the locks there. */
static bool
reaches(const struct nam__steward *steward, const struct nam__cluster_view *view, uint16_t id)
{
	const struct nam_view_member *member = nam__cluster_view_find(view, id);
	struct nam_diag diag;

	return member && !nam__member_look(steward->options, member->address, id, member->boot,
		&diag);
}

/*
 * A client that has not acknowledged the view for fence_ms, in silence, if all else is ready for a
 * member.  Or a client that has held back the epoch for so long and gave no sign of life.  Or a
 * client that has lost a memory server for so long, which others reach (C25).
 */
static struct stopped
stopped_find(struct nam__steward *steward, const struct nam__cluster_view *view, bool awaited)
{
	struct stopped stopped = { 0 };

	if (awaited && view->delaying && view->delaying_ms >= silence_ms(steward) &&
		has_lasted(steward, view->head.number, view->delaying,
			view->delaying_incarnation, steward->fence_ms))
		stopped = (struct stopped){ view->delaying, view->delaying_incarnation,
			"stopped" };
	else if (steward->fence_ms && view->silent && view->silent_ms >= silence_ms(steward))
		stopped = (struct stopped){ view->silent, view->silent_incarnation, "stopped" };
	else if (steward->fence_ms && view->cut && view->cut_ms >= steward->fence_ms &&
		reaches(steward, view, view->cut_from))
		stopped = (struct stopped){ view->cut, view->cut_incarnation, "cut_off" };
	if (stopped.client == steward->stays.client &&
		stopped.incarnation == steward->stays.incarnation &&
		nam_now_ns() < steward->stays.until_ns)
		stopped.client = 0;
	return stopped;
}

/* @awaited	a member is joining or moving, and waits for clients only */
NAM_FIBER_FN static void
stopped_fence(struct nam__steward *steward, const struct nam__cluster_view *view, bool awaited)
{
	struct stopped stopped = stopped_find(steward, view, awaited), now;
	struct nam__cluster_view *again;
	int rc;

	if (!stopped.client ||
		nam__cluster_view_get(steward->lead->epoch_worker, 0, &again)) /* SUSPENDS */
		return;
	/* The client may have gone on while the member was looked at. */
	now = stopped_find(steward, again, awaited);
	if (again->head.number == view->head.number && now.client == stopped.client &&
		now.incarnation == stopped.incarnation) {
		rc = fence(steward, view, now.client, now.incarnation,
			now.reason); /* SUSPENDS */
		steward->stays.client = now.client;
		steward->stays.incarnation = now.incarnation;
		steward->stays.until_ns = rc == -NAM_E_FABRIC_CAPABILITY ? UINT64_MAX :
			nam_now_ns() + steward->fence_ms * 1000000ull;
	}
	free(again);
}

/* The lead was restarted, and the first client did not list that member, nor one that knows it. */
static void
left_out_report(const struct nam__steward *steward, const struct nam__cluster_view *view)
{
	const struct nam__cluster_view *before = steward->copied;
	char fields[400];

	for (uint32_t i = 0; before && steward->warning && i < before->head.count; i++) {
		const struct nam_view_member *member = &before->members[i];

		if (before->head.lead_boot == view->head.lead_boot ||
			nam__cluster_view_find(view, member->id))
			continue;
		(void)snprintf(fields, sizeof(fields), "id=%u address=%s "
			"remedy=\"restart it, then: namctl server add %s\"", member->id,
			member->address, member->address);
		steward->warning(steward->arg, "left_out", fields);
	}
}

/*
 * Once for each view, since a member may have missed the copy that its author sent.  True: the view
 * is kept.
 */
NAM_FIBER_FN static bool
copies_send(struct nam__steward *steward, struct nam__cluster_view *view)
{
	const struct nam__cluster_view *copied = steward->copied;

	if (!view->head.number || (copied && copied->head.lead_boot == view->head.lead_boot &&
			copied->head.number == view->head.number)) {
		/* C33: clients wait for that one, which may have been lost. */
		if (view->acknowledged < view->head.number)
			(void)!nam__lead_copy_send(steward->options, view); /* SUSPENDS */
		return false;
	}
	left_out_report(steward, view);
	nam__copies_send(steward->options, view); /* SUSPENDS */
	free(steward->copied);
	steward->copied = view;
	return true;
}

/*
 * The change that is due in that view, or 0.
 *
 * @ret_member	what it is about
 */
NAM_FIBER_FN static int
change_find(struct nam__steward *steward, const struct nam__cluster_view *view,
	enum nam_rpc_view_change *ret_what, struct nam_view_member *ret_member)
{
	const struct nam_view_member *joining = view->head.number ? nam__view_joining(view) : NULL,
		*restarted;
	bool silent = false;
	int rc;

	*ret_what = nam__backups_due(steward, view, ret_member); /* SUSPENDS */
	if (!*ret_what && joining) {
		*ret_what = due(steward, view, joining, &silent);
		*ret_member = *joining;
	}
	if (*ret_what)
		return 0;
	stopped_fence(steward, view, joining ? !silent :
		nam_view_leaving(&view->head, view->members) != NULL); /* SUSPENDS */
	rc = ended_fence(steward, view); /* SUSPENDS */
	restarted = rc ? NULL : restarted_find(steward, view, ret_member); /* SUSPENDS */
	*ret_what = restarted ? NAM_RPC_VIEW_RENEW : 0;
	return rc;
}

/* C33: a steward that does not lead knows the backup of the lead, too. */
static void
known_set(struct nam__steward *steward, struct nam__cluster_view *view)
{
	if (view && !view->head.number) {
		free(view);
		return;
	}
	free(steward->known);
	steward->known = view;
}

NAM_FIBER_FN static int
known_get(struct nam__steward *steward)
{
	struct nam__cluster_view *view;
	int rc = nam__cluster_view_get(steward->lead->epoch_worker, 0, &view); /* SUSPENDS */

	if (!rc)
		known_set(steward, view);
	return rc;
}

enum round { ROUND_CHANGED, ROUND_NOTHING_DUE };

/* An enum round, or < 0. */
NAM_FIBER_FN static int
round_do(struct nam__steward *steward, struct nam__steward_passed *passed, struct nam_diag *diag)
{
	struct nam__view_store *store = steward->store;
	struct nam_worker *worker = steward->lead->epoch_worker;
	enum nam_rpc_view_change what = 0;
	struct nam__cluster_view *view;
	struct nam_view_member member;
	int rc = store->ops->get(store, worker, &view, diag); /* SUSPENDS */

	if (rc)
		return rc;
	passed->view = view->head.number;
	passed->within_ms = nam__backups_within_ms(view);
	/* The lead has seen a later term. */
	if (!store->term) {
		free(view);
		return -NAM_E_TERM;
	}
	rc = change_find(steward, view, &what, &member); /* SUSPENDS */
	if (!what && !rc && copies_send(steward, view)) { /* SUSPENDS */
		known_set(steward, NULL);
		return ROUND_NOTHING_DUE;
	}
	if (what) {
		nam_race_point("steward.decided");
		rc = store->ops->change(store, worker, view, what, &member, diag); /* SUSPENDS */
	}
	if (what && !rc) {
		passed->changes++;
		passed->made_way |= what == NAM_RPC_VIEW_ABORT || what == NAM_RPC_VIEW_PROMOTE;
		log_event(steward, "view", "number=%llu change=%s id=%u",
			(unsigned long long)view->head.number + 1, nam_rpc_view_changes[what],
			member.id);
	}
	known_set(steward, view);
	if (rc && rc != -NAM_E_VIEW)
		return rc;
	return what ? ROUND_CHANGED : ROUND_NOTHING_DUE;
}

static void
lead_leave(struct nam__steward *steward)
{
	nam__client_free(steward->lead);
	steward->lead = NULL;
}

/* C33: or its backup becomes the lead, as it has ended. */
NAM_FIBER_FN static int
lead_open(struct nam__steward *steward, struct nam_diag *diag)
{
	struct nam__view_store *store = steward->store;
	bool made;
	int rc = nam__lead_open(steward->options, steward->seeds, store,
		steward->known ?: steward->copied, &made, &steward->lead, diag); /* SUSPENDS */

	if (made)
		log_event(steward, "succeeded", "address=%s", steward->lead->servers[0].address);
	return rc;
}

/* Rounds until nothing is due. */
NAM_FIBER_FN static int
rounds_once(struct nam__steward *steward, struct nam__steward_passed *passed,
	struct nam_diag *diag)
{
	int rc = 0;

	diag->text[0] = '\0';
	if (!steward->lead)
		rc = lead_open(steward, diag); /* SUSPENDS */
	if (!rc)
		rc = lead(steward, diag); /* SUSPENDS */
	nam_race_point("steward.leads");
	if (!rc && !steward->store->term)
		rc = known_get(steward); /* SUSPENDS */
	for (unsigned i = 0; !rc && i < ROUNDS_MAX && steward->store->term; i++)
		rc = round_do(steward, passed, diag); /* SUSPENDS */
	if (rc == ROUND_NOTHING_DUE)
		rc = 0;
	if (rc == -NAM_E_TERM) {
		log_event(steward, "deposed", "view=%llu", (unsigned long long)passed->view);
		steward->store->term = 0;
		rc = 0;
	}
	if (rc) {
		if (!diag->text[0])
			(void)nam_diag_set(diag, rc, "asking the lead: %s", nam_err_text(rc));
		if (!nam_err_is(rc, NAM_E_FABRIC_STORE))
			lead_leave(steward);
	}
	passed->term = steward->store->term;
	steward->passed_ns = nam_now_ns();
	return rc;
}

/* If the lead has ended, and may be succeeded: once more. */
NAM_FIBER_FN static int
rounds_do(struct nam__steward *steward, struct nam__steward_passed *passed, struct nam_diag *diag)
{
	bool had_lead = steward->lead;
	int rc = rounds_once(steward, passed, diag); /* SUSPENDS */

	if (rc && had_lead && !steward->lead)
		rc = rounds_once(steward, passed, diag); /* SUSPENDS */
	return rc;
}

/*
 * A pass while memory is copied, now and then.  The copy ends with a failure, with the lease, as a
 * member has ended, and if no backups are wanted any more.
 */
NAM_FIBER_FN static int
pass_within(struct nam__steward *steward)
{
	struct nam__steward_passed passed = { 0 };
	struct nam_diag diag;
	int rc;

	if (steward->stop && atomic_load(steward->stop))
		return -ECANCELED;
	if (nam_now_ns() - steward->passed_ns < WITHIN_NS)
		return 0;
	rc = rounds_do(steward, &passed, &diag); /* SUSPENDS */
	if (!rc && (passed.made_way || (steward->copied && !steward->copied->head.backups)))
		return -ECANCELED;
	return !rc && !passed.term ? -NAM_E_TERM : rc;
}

int
nam__steward_pass(struct nam__steward *steward, struct nam__steward_passed *ret_passed,
	struct nam_diag *diag)
{
	struct nam__steward_passed passed = { 0 };
	int rc = rounds_do(steward, &passed, diag); /* SUSPENDS */

	if (rc)
		return rc;
	/* The copy is of the view that has just been found without anything due. */
	if (passed.term && steward->copied && steward->copied->head.number == passed.view)
		nam__backups_make(steward, steward->copied, pass_within); /* SUSPENDS */
	passed.term = steward->store->term;
	*ret_passed = passed;
	return 0;
}

void
nam__steward_end(struct nam__steward *steward)
{
	free(steward->copied);
	steward->copied = NULL;
	known_set(steward, NULL);
	if (steward->lead && steward->store->term)
		steward->store->ops->release(steward->store,
			steward->lead->epoch_worker); /* SUSPENDS */
	lead_leave(steward);
}
