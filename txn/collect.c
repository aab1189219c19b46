/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- giving back what nobody will ask for any more, and ending what clients that are gone
 * have left half done.
 *
 * What a writer has prepared is in doubt until it is committed.  If he has no connection any more,
 * nothing of his transaction changes by itself, and it is decided by what there is: it can be
 * committed if each of its records has its version, or something newer; else it was committed
 * nowhere, and never will be.  Whoever decides that, and when, comes to the same end
 * (txn/README.md, "Collecting").
 */
#include <errno.h>
#include <string.h>

#include "../common/rpc/locking_rpc.h"
#include "walk.h"

#define DOUBTS_MAX 256u			/* of one batch; what is more waits for another time */
#define LOOKS_MAX 16u
#define SWEEPS_MAX 64u

/* A version whose transaction may have been left. */
struct doubt {
	struct nam_gaddr head;
	struct nam_gaddr at;		/* null: the record is locked for it */
	uint64_t timestamp;
};

/* Lies in a buffer of the worker's. */
struct collection {
	struct nam_records_collected done;
	struct nam__presence presence;
	struct nam__walked seen;		/* a record that is looked at by itself */
	uint32_t count;
	struct doubt doubts[DOUBTS_MAX];
};

/* What a record has of a transaction. */
enum has {
	HAS_NEWER,			/* something that replaced it, or would */
	HAS_COMMITTED,
	HAS_PREPARED,
	HAS_NOTHING,
};

static void
note_retired(struct collection *collection, const struct nam__txn *txn)
{
	collection->done.versions += txn->retired;
	collection->done.bytes += txn->retired_bytes;
}

/* ---- what was replaced ----------------------------------------------------------------------- */

/* A message has no room for more than some; then there may be others. */
NAM_FIBER_FN static int
sweep_all(struct nam__txn *txn)
{
	uint32_t before;
	int rc = 0;

	for (unsigned i = 0; i < SWEEPS_MAX && !rc; i++) {
		before = txn->retired;
		rc = nam__served_sweep(txn); /* SUSPENDS */
		if (txn->retired - before < NAM_RPC_RECORDS_RETIRED_MAX)
			break;
	}
	return rc;
}

NAM_FIBER_FN static int
sweep(struct nam_worker *worker, struct nam_records *records, struct collection *collection,
	const struct nam__walked *seen, uint32_t count)
{
	struct nam__txn *txn = nam__txn_new(worker, records);
	int rc = 0;

	if (!txn)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_version_sibling record = { 0, seen[i].at.raw, 0 };
		uint16_t slot = nam__server_slot(worker->client, seen[i].at);

		if (!seen[i].head.others || slot == UINT16_MAX)
			continue;
		nam__txn_add_version(txn, &record, 0);
		txn->items[txn->count - 1].slot = slot;
	}
	if (txn->count)
		rc = sweep_all(txn); /* SUSPENDS */
	note_retired(collection, txn);
	nam__txn_free(txn);
	return rc;
}

/* ---- what is in doubt ------------------------------------------------------------------------ */

static void
doubt_add(struct collection *collection, struct nam_gaddr head, struct nam_gaddr at,
	uint64_t timestamp)
{
	if (collection->count < DOUBTS_MAX)
		collection->doubts[collection->count++] = (struct doubt){ head, at, timestamp };
}

NAM_FIBER_FN static int
doubts_of(struct nam_worker *worker, const struct nam_records *records,
	struct collection *collection, const struct nam__walked *seen)
{
	struct nam__others others;
	int rc;

	if (records->options.commit == NAM_RECORDS_ONESIDED) {
		/* The others may not be committed yet. */
		if (seen->head.latest && seen->latest.about_bytes)
			doubt_add(collection, seen->at, NAM_GADDR(seen->head.latest),
				seen->latest.timestamp);
		return 0;
	}
	if (records->options.algorithm == NAM_RAMP_LOCKING) {
		if (seen->head.writer)
			doubt_add(collection, seen->at, NAM_GADDR_NULL, seen->head.writer);
		return 0;
	}
	nam__others_begin(&others, seen);
	while ((rc = nam__others_next(worker, records, &others)) > 0) /* SUSPENDS */
		if (others.version.current == others.version.timestamp)
			doubt_add(collection, seen->at, others.at, others.version.timestamp);
	return rc;
}

/* ---- one transaction ------------------------------------------------------------------------- */

/* 1: that is what it has; 0: it was changed meanwhile; or a negative code. */
NAM_FIBER_FN static int
look(struct nam_worker *worker, struct nam_records *records, struct collection *collection,
	const struct nam__item *item, enum has *ret_has)
{
	struct nam__walked *seen = &collection->seen;
	struct nam__others others;
	uint64_t latest;
	int rc;

	seen->at = item->head;
	rc = nam__walked_read(worker, seen, 1); /* SUSPENDS */
	if (rc)
		return rc;
	latest = seen->head.latest;
	*ret_has = HAS_COMMITTED;
	if (seen->latest.timestamp == item->timestamp)
		return 1;
	nam_race_point("records.collect_look");
	nam__others_begin(&others, seen);
	while ((rc = nam__others_next(worker, records, &others)) > 0) { /* SUSPENDS */
		if (others.version.timestamp != item->timestamp)
			continue;
		*ret_has = others.version.current == item->timestamp ? HAS_PREPARED : HAS_NEWER;
		return 1;
	}
	if (rc)
		return rc;
	*ret_has = seen->latest.timestamp > item->timestamp ? HAS_NEWER : HAS_NOTHING;
	if (*ret_has == HAS_NEWER || !NAM_GUARD(COLLECT_AGAIN))
		return 1;
	/* Somebody may have committed it after we READ the head, and before we came to it. */
	rc = nam__walked_read(worker, seen, 1); /* SUSPENDS */
	return rc ? rc : seen->head.latest == latest;
}

/* *ret_all: each record has it, or something newer.  Where it is PREPARED the state is HEAD. */
NAM_FIBER_FN static int
look_at_all(struct nam__txn *txn, struct collection *collection, bool *ret_all, bool *ret_any)
{
	int rc = 1;

	*ret_all = true;
	*ret_any = false;
	for (uint32_t i = 0; i < txn->count && rc > 0; i++) {
		struct nam__item *item = &txn->items[i];
		enum has has = HAS_NOTHING;

		rc = 0;
		for (unsigned looks = 0; looks < LOOKS_MAX && !rc; looks++)
			rc = look(txn->worker, txn->records, collection, item, &has); /* SUSPENDS */
		*ret_all &= has != HAS_NOTHING;
		*ret_any |= has == HAS_PREPARED;
		item->state = has == HAS_PREPARED ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
	}
	return rc > 0 ? 0 : rc ? rc : -NAM_E_RESTART;
}

/* The transaction that a version is of: itself, and those that it names. */
static int
txn_of(struct nam__txn *txn, const struct nam_version *version, struct nam_gaddr at)
{
	const struct nam_version_sibling self = { version->key_id, version->head, at.raw };
	const struct nam_version_sibling *siblings = nam__version_about_const(version);
	uint32_t count = txn->records->options.algorithm == NAM_RAMP_FAST ?
		version->about_bytes / (uint32_t)sizeof(self) : 0;

	if (count >= NAM_RECORDS_MAX)
		return -NAM_E_REMOTE_CORRUPT;
	nam__txn_add_version(txn, &self, version->timestamp);
	for (uint32_t i = 0; i < count; i++)
		nam__txn_add_version(txn, &siblings[i], version->timestamp);
	for (uint32_t i = 0; i < txn->count; i++) {
		uint16_t slot = nam__server_slot(txn->worker->client, txn->items[i].head);

		if (slot == UINT16_MAX)
			return -NAM_E_REMOTE_CORRUPT;
		txn->items[i].slot = slot;
	}
	return 0;
}

NAM_FIBER_FN static int
end_served(struct nam__txn *txn, struct collection *collection)
{
	bool all, any;
	int rc = look_at_all(txn, collection, &all, &any); /* SUSPENDS */

	if (rc == -NAM_E_RESTART) {
		collection->done.undecided++;
		return 0;
	}
	/* Another has done it meanwhile. */
	if (rc || !any)
		return rc;
	nam_race_point("records.collect_decided");
	txn->of_the_gone = true;
	rc = nam__served_commit(txn, !all); /* SUSPENDS */
	note_retired(collection, txn);
	if (!rc && all)
		collection->done.committed++;
	else if (!rc)
		collection->done.aborted++;
	return rc;
}

/* One of it is committed: the others have to be, too. */
NAM_FIBER_FN static int
end_onesided(struct nam__txn *txn, struct collection *collection, const struct nam_version *version,
	struct nam_gaddr at)
{
	bool all, any;
	int rc = look_at_all(txn, collection, &all, &any); /* SUSPENDS */

	if (rc || all)
		return rc == -NAM_E_RESTART ? 0 : rc;
	rc = nam__txn_complete_of(txn, version, at); /* SUSPENDS */
	collection->done.committed += !rc;
	return rc;
}

NAM_FIBER_FN static int
end_of_version(struct nam_worker *worker, struct nam_records *records,
	struct collection *collection, const struct doubt *doubt)
{
	uint32_t bytes = nam__version_at_bytes(doubt->at);
	struct nam_version *version = nam_buffer_take(worker, bytes);
	struct nam__txn *txn = nam__txn_new(worker, records);
	int rc = version && txn ? 0 : -ENOMEM;

	if (!rc)
		rc = nam_read_await(worker, doubt->at, version, bytes); /* SUSPENDS */
	/* It may have been ended meanwhile, and its block be another's. */
	if (rc || !nam__version_whole(version, doubt->at, records->store) ||
		version->timestamp != doubt->timestamp || version->head != doubt->head.raw)
		goto done;
	rc = txn_of(txn, version, doubt->at);
	if (!rc)
		rc = records->options.commit == NAM_RECORDS_SERVED ?
			end_served(txn, collection) : /* SUSPENDS */
			end_onesided(txn, collection, version, doubt->at); /* SUSPENDS */
done:
	if (txn)
		nam__txn_free(txn);
	nam_buffer_give(worker, version, bytes);
	return rc;
}

NAM_FIBER_FN static int
end_of_lock(struct nam_worker *worker, struct nam_records *records, struct collection *collection,
	const struct doubt *doubt)
{
	const struct nam__refusal refusal = { NAM_LOCKING_EXPIRED,
		nam__server_slot(worker->client, doubt->head), doubt->head.raw, doubt->timestamp };
	struct nam__txn *txn = nam__txn_new(worker, records);
	enum nam__settled settled;
	int rc;

	if (!txn)
		return -ENOMEM;
	rc = nam__settle(txn, &refusal, &settled); /* SUSPENDS */
	if (!rc) {
		collection->done.committed += settled == NAM__SETTLED_COMMITTED;
		collection->done.aborted += settled == NAM__SETTLED_ABORTED;
	}
	note_retired(collection, txn);
	nam__txn_free(txn);
	return rc;
}

/* Which others there are is known of a version by itself only. */
static bool
is_decidable(const struct nam_records *records)
{
	return records->options.algorithm != NAM_RAMP_SMALL &&
		records->options.algorithm != NAM_RAMP_HYBRID;
}

NAM_FIBER_FN static int
doubts_end(struct nam_worker *worker, struct nam_records *records, struct collection *collection)
{
	int rc = 0;

	/* Who is not there now was not at work on what was seen before. */
	if (collection->count)
		rc = nam__presence_ask(worker, &collection->presence); /* SUSPENDS */
	for (uint32_t i = 0; i < collection->count && !rc; i++) {
		const struct doubt *doubt = &collection->doubts[i];
		uint32_t client_id = doubt->timestamp % NAM_CLIENTS_MAX;

		if (NAM_GUARD(COLLECT_GONE) && nam__presence_has(&collection->presence, client_id))
			continue;
		if (!is_decidable(records))
			collection->done.undecided++;
		else if (nam_gaddr_is_null(doubt->at))
			rc = end_of_lock(worker, records, collection, doubt); /* SUSPENDS */
		else
			rc = end_of_version(worker, records, collection, doubt); /* SUSPENDS */
	}
	return rc;
}

/* ---- all of a store -------------------------------------------------------------------------- */

NAM_FIBER_FN static int
some_collect(struct nam_worker *worker, struct nam_records *records, const struct nam__walked *seen,
	uint32_t count, void *arg)
{
	struct collection *collection = arg;
	uint64_t reusable;
	int rc = 0;

	collection->done.records += count;
	collection->count = 0;
	if (records->options.commit == NAM_RECORDS_SERVED)
		rc = sweep(worker, records, collection, seen, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = doubts_of(worker, records, collection, &seen[i]); /* SUSPENDS */
	if (!rc)
		rc = doubts_end(worker, records, collection); /* SUSPENDS */
	if (!rc && nam__limbo_due(worker))
		rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
	return rc;
}

int
nam_records_collect(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_collected *ret_collected)
{
	struct collection *collection = nam_buffer_take(worker, sizeof(*collection));
	int rc;

	if (!collection)
		return -ENOMEM;
	memset(&collection->done, 0, sizeof(collection->done));
	rc = nam__records_walk(worker, records, some_collect, collection); /* SUSPENDS */
	if (ret_collected)
		*ret_collected = collection->done;
	nam_buffer_give(worker, collection, sizeof(*collection));
	return rc;
}
