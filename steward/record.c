/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c -- how a record outside and the view of the lead follow each other.
 *
 * Decisions go from the record to the lead.  Facts, which are the first view and members that were
 * restarted, go from the lead to the record.
 */
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/race.h"

#define ROUNDS_MAX 8u			/* of one reconciliation: steps, and races that were lost */

struct recorded {
	struct nam__view_store store;
	struct nam__backend *backend;
	uint64_t lease_term;		/* the backend's, if store.term is not 0 */
	uint64_t move_term;		/* of the last MOVE that it has decided; 0: none */
};

static struct recorded *
recorded_of(struct nam__view_store *store)
{
	return (struct recorded *)store;
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool
backups_equal(const struct nam_view_member *one, const struct nam_view_member *other)
{
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (one->backups[i].boot != other->backups[i].boot ||
			strcmp(one->backups[i].address, other->backups[i].address) != 0)
			return false;
	return true;
}

static bool
members_equal(const struct nam_view_member *one, const struct nam_view_member *other)
{
	return one->id == other->id && one->state == other->state && one->boot == other->boot &&
		one->memory == other->memory && one->since == other->since &&
		one->renewed == other->renewed && one->known == other->known &&
		!strcmp(one->address, other->address) && backups_equal(one, other);
}

static bool
same_life(const struct nam__cluster_view *one, const struct nam__cluster_view *other)
{
	return one->head.lead_boot == other->head.lead_boot;
}

static bool
views_equal(const struct nam__cluster_view *one, const struct nam__cluster_view *other)
{
	if (!same_life(one, other) || one->head.number != other->head.number ||
		one->head.count != other->head.count ||
		one->head.backups != other->head.backups ||
		memcmp(one->head.removed, other->head.removed, sizeof(one->head.removed)) != 0)
		return false;
	for (uint32_t i = 0; i < one->head.count; i++)
		if (!members_equal(&one->members[i], &other->members[i]))
			return false;
	return true;
}

/* ---- the record ------------------------------------------------------------------------------ */

static int
record_read(struct recorded *recorded, struct nam__record *ret_record, struct nam_diag *diag)
{
	return recorded->backend->ops->read(recorded->backend, ret_record, diag);
}

/* With the lease, if it leads. */
static int
record_write(struct recorded *recorded, const struct nam__record *record, struct nam_diag *diag)
{
	int rc = recorded->backend->ops->write(recorded->backend, record,
		recorded->store.term ? recorded->lease_term : 0, diag);

	if (rc == -NAM_E_TERM)
		recorded->store.term = 0;
	return rc;
}

/* ---- the record and the lead ----------------------------------------------------------------- */

/* The record's last change is decided, and not installed yet. */
static bool
is_due(const struct nam__record *record, const struct nam__cluster_view *lead)
{
	return record->view && record->change && same_life(record->view, lead) &&
		record->view->head.number == lead->head.number + 1;
}

NAM_FIBER_FN static int
install(struct recorded *recorded, struct nam_worker *worker, const struct nam__cluster_view *lead,
	enum nam_rpc_view_change what, const struct nam_view_member *member)
{
	struct nam_view_head head;
	int rc;

	nam_race_point("view.decided");
	rc = nam__cluster_view_change(worker, 0, lead->head.number, recorded->store.term, what,
		member, &head); /* SUSPENDS */
	if (rc == -NAM_E_TERM)
		recorded->store.term = 0;
	return rc;
}

/*
 * The lead has gone on without the record: a client formed the view, or renewed a member, or the
 * lead was restarted.  A change that was decided meanwhile is decided once more, on top.
 */
NAM_FIBER_FN static int
take_over(struct recorded *recorded, const struct nam__record *record,
	const struct nam__cluster_view *lead, struct nam_diag *diag)
{
	struct nam__record new = { .revision = record->revision,
		.terms_before = record->terms_before, .view = nam__cluster_view_clone(lead) };
	int rc;

	if (!new.view)
		return -ENOMEM;
	if (record->view && record->change && same_life(record->view, lead) &&
		!nam_view_change(&new.view->head, new.view->members, record->change,
			&record->member)) {
		new.change = record->change;
		new.member = record->member;
	}
	rc = record_write(recorded, &new, diag);
	free(new.view);
	return rc;
}

/*
 * A change of the lead's view: written, and installed if it leads.  record->view is of no use
 * afterwards.
 */
NAM_FIBER_FN static int
decide(struct recorded *recorded, struct nam_worker *worker, struct nam__record *record,
	const struct nam__cluster_view *lead, enum nam_rpc_view_change what,
	const struct nam_view_member *member, struct nam_diag *diag)
{
	uint64_t term = recorded->store.term;
	int rc;

	free(record->view);
	record->change = (uint16_t)what;
	record->member = *member;
	record->view = nam__cluster_view_clone(lead);
	/* As the lead will do it. */
	rc = record->view ? nam_view_change(&record->view->head, record->view->members, what,
		member) : -ENOMEM;
	if (!rc)
		rc = record_write(recorded, record, diag);
	if (!rc && (what == NAM_RPC_VIEW_NOTE || what == NAM_RPC_VIEW_MOVE))
		recorded->move_term = term;
	return !rc && term ? install(recorded, worker, lead, what, member) : rc; /* SUSPENDS */
}

/*
 * A member whose mover led before this store, and has ended or lost its lease.  Or this process was
 * its mover, and could not give up.  NULL: there is none.
 */
static const struct nam_view_member *
abandoned_find(const struct recorded *recorded, const struct nam__cluster_view *lead)
{
	const struct nam_view_member *leaving = nam_view_leaving(&lead->head, lead->members);

	/* A promotion goes on by the next steward. */
	return (recorded->store.moves && recorded->move_term == recorded->store.term) ||
		!leaving || leaving->state == NAM_VIEW_PROMOTING ? NULL : leaving;
}

/* RECONCILED: the lead's view is the record's, or cannot become it for now. */
enum reconcile { RECONCILE_MORE, RECONCILED };

/* Take one step.  An enum reconcile, or < 0. */
NAM_FIBER_FN static int
reconcile(struct recorded *recorded, struct nam_worker *worker,
	const struct nam__cluster_view *lead, struct nam_diag *diag)
{
	const struct nam_view_member *abandoned = abandoned_find(recorded, lead);
	struct nam__record record = { 0 };
	bool done = false;
	int rc = record_read(recorded, &record, diag);

	if (rc)
		return rc;
	if (!lead->head.number || (record.view && views_equal(record.view, lead))) {
		done = !abandoned;
		if (abandoned)
			rc = decide(recorded, worker, &record, lead, NAM_RPC_VIEW_ABORT, abandoned,
				diag); /* SUSPENDS */
	} else if (is_due(&record, lead)) {
		rc = install(recorded, worker, lead, record.change, &record.member); /* SUSPENDS */
		/* A client has not acknowledged; or the next round sees another view. */
		done = rc == -NAM_E_VIEW;
	} else {
		rc = take_over(recorded, &record, lead, diag); /* SUSPENDS */
	}
	free(record.view);
	if (rc && rc != -NAM_E_VIEW)
		return rc;
	return done ? RECONCILED : RECONCILE_MORE;
}

/*
 * The lead has seen this term, or a later one.  If the lease is still held, those were terms of
 * another store, or of etcd before it was set up anew.  This store's terms go on behind them.
 */
NAM_FIBER_FN static int
raise_terms(struct recorded *recorded, const struct nam__cluster_view *lead, struct nam_diag *diag)
{
	struct nam__record record = { 0 };
	int rc = record_read(recorded, &record, diag);

	if (!rc && record.terms_before < lead->head.term) {
		record.terms_before = lead->head.term;
		if (!record.view)
			record.view = nam__cluster_view_clone(lead);
		rc = record.view ? record_write(recorded, &record, diag) : -ENOMEM;
	}
	if (!rc)
		recorded->store.term = record.terms_before + recorded->lease_term;
	free(record.view);
	return rc;
}

NAM_FIBER_FN static int
present(struct recorded *recorded, struct nam_worker *worker, const struct nam__cluster_view *lead,
	struct nam_diag *diag)
{
	uint64_t term;
	int rc = 0;

	if (lead->head.term > recorded->store.term)
		rc = raise_terms(recorded, lead, diag); /* SUSPENDS */
	if (!rc)
		rc = nam__cluster_view_steward(worker, 0, NAM_RPC_STEWARD_PRESENT,
			recorded->store.term, 0, &term); /* SUSPENDS */
	if (rc == -NAM_E_TERM)
		recorded->store.term = 0;
	return rc == -NAM_E_TERM ? 0 : rc;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* A store that does not lead only looks.  The record begins with the first view. */
NAM_FIBER_FN static int
get(struct nam__view_store *store, struct nam_worker *worker, struct nam__cluster_view **ret_view,
	struct nam_diag *diag)
{
	struct recorded *recorded = recorded_of(store);
	struct nam__cluster_view *lead = NULL;
	bool presented = false, done = false;
	int rc = 0;

	for (unsigned i = 0; !rc && i < ROUNDS_MAX; i++) {
		free(lead);
		lead = NULL;
		rc = nam__cluster_view_get(worker, 0, &lead); /* SUSPENDS */
		if (rc || done || !store->term || !lead->head.number)
			break;
		if (presented)
			rc = reconcile(recorded, worker, lead, diag); /* SUSPENDS */
		else
			rc = present(recorded, worker, lead, diag); /* SUSPENDS */
		presented = presented || !rc;
		done = rc == RECONCILED;
		/* Another one leads; or the record has changed, and is read again. */
		if (done || rc == -NAM_E_TERM || rc == -NAM_E_VIEW)
			rc = 0;
	}
	if (rc)
		free(lead);
	else
		*ret_view = lead;
	return rc;
}

/*
 * The next steward that leads sees that the mover has ended, and gives a move up.  It gives up no
 * promotion, so that any program may go on with one.
 */
static bool
needs_term(const struct nam__cluster_view *view, enum nam_rpc_view_change what,
	const struct nam_view_member *member)
{
	const struct nam_view_member *now = nam_view_find(&view->head, view->members, member->id);

	return what == NAM_RPC_VIEW_NOTE || what == NAM_RPC_VIEW_MOVE ||
		what == NAM_RPC_VIEW_BACKED ||
		(what == NAM_RPC_VIEW_MOVED && now && now->state != NAM_VIEW_PROMOTING);
}

/*
 * A decision that the lead has not installed may be replaced by the steward that leads.  No client
 * has seen it, and no other steward can install it any more.
 */
NAM_FIBER_FN static int
change(struct nam__view_store *store, struct nam_worker *worker,
	const struct nam__cluster_view *view, enum nam_rpc_view_change what,
	const struct nam_view_member *member, struct nam_diag *diag)
{
	struct recorded *recorded = recorded_of(store);
	struct nam__record record = { 0 };
	int rc;

	if (!store->term && needs_term(view, what, member))
		return nam_diag_set(diag, -NAM_E_TERM, "a steward leads, and only a process that "
			"leads moves memory; end the stewards meanwhile");
	rc = record_read(recorded, &record, diag);
	if (!rc && (!record.view || !(views_equal(record.view, view) ||
			(store->term && is_due(&record, view)))))
		rc = -NAM_E_VIEW;
	if (!rc)
		rc = decide(recorded, worker, &record, view, what, member, diag); /* SUSPENDS */
	free(record.view);
	return rc;
}

/* Decided before, and perhaps not installed. */
static bool
has_succeeded(const struct nam__cluster_view *view)
{
	return view->members[0].state == NAM_VIEW_PROMOTING &&
		view->head.lead_boot == view->members[0].backups[0].boot;
}

/*
 * A decision of the record that no memory server knows has been seen by no client.  So only its
 * number counts.
 */
static int
succeed(struct nam__view_store *store, struct nam__cluster_view *view, struct nam_diag *diag)
{
	struct recorded *recorded = recorded_of(store);
	struct nam__record record = { 0 };
	int rc = record_read(recorded, &record, diag);

	if (rc)
		return rc;
	if (record.view && has_succeeded(record.view) &&
		record.view->head.number > view->head.number &&
		record.view->members[0].boot == view->members[0].boot) {
		view->head = record.view->head;
		memcpy(view->members, record.view->members,
			view->head.count * sizeof(view->members[0]));
		free(record.view);
		return 0;
	}
	record.change = NAM_RPC_VIEW_PROMOTE;
	record.member = view->members[0];
	if (record.view && record.view->head.number > view->head.number)
		view->head.number = record.view->head.number;
	if (store->term > view->head.term)
		view->head.term = store->term;
	rc = nam_view_change(&view->head, view->members, record.change, &record.member);
	free(record.view);
	record.view = view;
	return rc ?: record_write(recorded, &record, diag);
}

static int
acquire(struct nam__view_store *store, struct nam_worker *worker, struct nam_diag *diag)
{
	struct recorded *recorded = recorded_of(store);
	struct nam__backend *backend = recorded->backend;
	struct nam__record record = { 0 };
	int rc = backend->ops->acquire(backend, store->lease_ms, &recorded->lease_term, diag);

	(void)worker;
	if (rc)
		return rc;
	rc = record_read(recorded, &record, diag);
	if (rc) {
		backend->ops->release(backend);
		return rc;
	}
	store->term = record.terms_before + recorded->lease_term;
	free(record.view);
	return 0;
}

static int
renew(struct nam__view_store *store, struct nam_worker *worker, struct nam_diag *diag)
{
	struct nam__backend *backend = recorded_of(store)->backend;
	int rc = backend->ops->renew(backend, diag);

	(void)worker;
	if (rc == -NAM_E_TERM)
		store->term = 0;
	return rc;
}

static void
release(struct nam__view_store *store, struct nam_worker *worker)
{
	struct nam__backend *backend = recorded_of(store)->backend;

	(void)worker;
	backend->ops->release(backend);
	store->term = 0;
}

static void
close(struct nam__view_store *store)
{
	struct recorded *recorded = recorded_of(store);

	recorded->backend->ops->close(recorded->backend);
	free(recorded);
}

static const struct nam__view_store_ops ops = {
	.get = get,
	.change = change,
	.succeed = succeed,
	.acquire = acquire,
	.renew = renew,
	.release = release,
	.close = close,
};

struct nam__view_store *
nam__view_store_recorded(struct nam__backend *backend, uint32_t lease_ms)
{
	struct recorded *recorded = calloc(1, sizeof(*recorded));

	if (!recorded)
		return NULL;
	recorded->store = (struct nam__view_store){ .ops = &ops,
		.name = backend->ops->name, .lease_ms = lease_ms };
	recorded->backend = backend;
	return &recorded->store;
}
