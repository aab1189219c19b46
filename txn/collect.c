/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- giving back what nobody will ask for any more, and ending what clients that are gone
 * have left half done.
 *
 * What a writer has prepared is in doubt until it is committed.  If he has no connection any more,
 * nothing of his transaction changes by itself.  It is committed for him as soon as each of its
 * records has its version, or something newer; and nobody ever aborts it, so whoever looks, and
 * when, comes to the same end (txn/README.md, "Collecting").
 */
#include <errno.h>
#include <string.h>

#include "../common/rpc/locking_rpc.h"
#include "walk.h"

#define DOUBTS_MAX 256u			/* that are looked into at a time */
#define SWEEPS_MAX 64u

/* A version whose transaction may have been left. */
struct doubt {
	struct nam_gaddr head;
	struct nam_gaddr at;		/* null: the record is locked for it */
	uint64_t timestamp;
	bool ended;			/* it was looked into, */
	bool undecided;			/* and stays */
};

/* Lies in a buffer of the worker's. */
struct collection {
	struct nam_worker *worker;
	struct nam_records *records;
	struct nam_records_collected done;
	struct nam__presence presence;
	struct nam__walked records_of[NAM_RECORDS_MAX];	/* of a transaction */
	uint32_t count;
	struct doubt doubts[DOUBTS_MAX];
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
sweep(struct collection *collection, const struct nam__walked *seen, uint32_t count)
{
	struct nam__txn *txn = nam__txn_new(collection->worker, collection->records);
	int rc = 0;

	if (!txn)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_version_sibling record = { 0, seen[i].at.raw, 0 };
		uint16_t slot = nam__server_slot(collection->worker->client, seen[i].at);

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

/* ---- one transaction ------------------------------------------------------------------------- */

/* The transaction that a version is of: itself, and those that it names.  1; 0: it cannot be. */
static int
txn_of(struct nam__txn *txn, const struct nam_version *version, struct nam_gaddr at)
{
	const struct nam_version_sibling self = { version->key_id, version->head, at.raw };
	const struct nam_version_sibling *siblings = nam__version_about_const(version);
	uint32_t count = txn->records->options.algorithm == NAM_RAMP_FAST ?
		version->about_bytes / (uint32_t)sizeof(self) : 0;

	if (count >= NAM_RECORDS_MAX)
		return 0;
	nam__txn_add_version(txn, &self, version->timestamp);
	for (uint32_t i = 0; i < count; i++)
		nam__txn_add_version(txn, &siblings[i], version->timestamp);
	for (uint32_t i = 0; i < txn->count; i++) {
		uint16_t slot = nam__server_slot(txn->worker->client, txn->items[i].head);

		if (slot == UINT16_MAX)
			return 0;
		txn->items[i].slot = slot;
	}
	return 1;
}

/* Memory servers say, under the records' locks, what these have. */
NAM_FIBER_FN static int
end_served(struct collection *collection, struct doubt *doubt, struct nam__txn *txn)
{
	int rc;

	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].state = NAM__ITEM_ASK;
	rc = nam__served_get(txn, true); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		doubt->undecided |= item->stamp < doubt->timestamp;
		item->timestamp = doubt->timestamp;
		item->state = item->stamp == doubt->timestamp ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
	}
	if (doubt->undecided)
		return 0;
	nam_race_point("records.collect_decided");
	rc = nam__served_commit(txn, false); /* SUSPENDS */
	note_retired(collection, txn);
	collection->done.committed += !rc;
	return rc;
}

/* One of it is committed: the others have to be, too. */
NAM_FIBER_FN static int
end_onesided(struct collection *collection, struct nam__txn *txn,
	const struct nam_version *version, struct nam_gaddr at)
{
	struct nam__walked *records = collection->records_of;
	bool all = true;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++)
		records[i].at = txn->items[i].head;
	rc = nam__walked_read(collection->worker, records, txn->count); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		all &= records[i].latest.timestamp >= version->timestamp;
	if (rc || all)
		return rc;
	rc = nam__txn_complete_of(txn, version, at); /* SUSPENDS */
	collection->done.committed += !rc;
	return rc;
}

/* Whether a version says which others belong to its transaction. */
static bool
names_others(const struct nam_records *records, const struct nam_version *version)
{
	enum nam_ramp algorithm = records->options.algorithm;

	return algorithm != NAM_RAMP_SMALL &&
		(algorithm != NAM_RAMP_HYBRID || !version->about_bytes);
}

NAM_FIBER_FN static int
end_of_version(struct collection *collection, struct doubt *doubt)
{
	struct nam_worker *worker = collection->worker;
	struct nam_records *records = collection->records;
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
	doubt->undecided = !names_others(records, version) || !txn_of(txn, version, doubt->at);
	if (doubt->undecided)
		goto done;
	rc = records->options.commit == NAM_RECORDS_SERVED ?
		end_served(collection, doubt, txn) : /* SUSPENDS */
		end_onesided(collection, txn, version, doubt->at); /* SUSPENDS */
done:
	if (txn)
		nam__txn_free(txn);
	nam_buffer_give(worker, version, bytes);
	return rc;
}

NAM_FIBER_FN static int
end_of_lock(struct collection *collection, struct doubt *doubt)
{
	uint16_t slot = nam__server_slot(collection->worker->client, doubt->head);
	const struct nam__refusal refusal = { NAM_LOCKING_EXPIRED, slot, doubt->head.raw,
		doubt->timestamp };
	struct nam__txn *txn = nam__txn_new(collection->worker, collection->records);
	enum nam__settled settled;
	int rc;

	if (!txn)
		return -ENOMEM;
	doubt->undecided = slot == UINT16_MAX;
	rc = doubt->undecided ? 0 : nam__settle(txn, &refusal, &settled); /* SUSPENDS */
	if (!rc && !doubt->undecided) {
		collection->done.committed += settled == NAM__SETTLED_COMMITTED;
		collection->done.aborted += settled == NAM__SETTLED_ABORTED;
	}
	note_retired(collection, txn);
	nam__txn_free(txn);
	return rc;
}

/* Of the same transaction another version may have been looked into before. */
static const struct doubt *
doubt_before(const struct collection *collection, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (collection->doubts[i].ended &&
			collection->doubts[i].timestamp == collection->doubts[number].timestamp)
			return &collection->doubts[i];
	return NULL;
}

NAM_FIBER_FN static int
doubts_end(struct collection *collection)
{
	int rc = 0;

	/* Who is not there now was not at work on what was seen before. */
	if (collection->count)
		rc = nam__presence_ask(collection->worker, &collection->presence); /* SUSPENDS */
	for (uint32_t i = 0; i < collection->count && !rc; i++) {
		struct doubt *doubt = &collection->doubts[i];
		const struct doubt *before = doubt_before(collection, i);

		if (NAM_GUARD(COLLECT_GONE) && nam__presence_has(&collection->presence,
			(uint32_t)(doubt->timestamp % NAM_CLIENTS_MAX)))
			continue;
		if (before)
			doubt->undecided = before->undecided;
		else if (nam_gaddr_is_null(doubt->at))
			rc = end_of_lock(collection, doubt); /* SUSPENDS */
		else
			rc = end_of_version(collection, doubt); /* SUSPENDS */
		doubt->ended = true;
		collection->done.undecided += doubt->undecided;
	}
	collection->count = 0;
	return rc;
}

/* ---- what is in doubt ------------------------------------------------------------------------ */

NAM_FIBER_FN static int
doubt_add(struct collection *collection, struct nam_gaddr head, struct nam_gaddr at,
	uint64_t timestamp)
{
	int rc = 0;

	if (collection->count == DOUBTS_MAX)
		rc = doubts_end(collection); /* SUSPENDS */
	collection->doubts[collection->count++] = (struct doubt){ head, at, timestamp, false,
		false };
	return rc;
}

NAM_FIBER_FN static int
doubts_of(struct collection *collection, const struct nam__walked *seen)
{
	const struct nam_records *records = collection->records;
	struct nam__others others;
	int rc;

	if (records->options.commit == NAM_RECORDS_ONESIDED)
		/* The others may not be committed yet. */
		return !seen->head.latest || !seen->latest.about_bytes ? 0 :
			doubt_add(collection, seen->at, NAM_GADDR(seen->head.latest),
				seen->latest.timestamp); /* SUSPENDS */
	if (records->options.algorithm == NAM_RAMP_LOCKING)
		return !seen->head.writer ? 0 : doubt_add(collection, seen->at, NAM_GADDR_NULL,
			seen->head.writer); /* SUSPENDS */
	nam__others_begin(&others, seen);
	while ((rc = nam__others_next(collection->worker, records, &others)) > 0) { /* SUSPENDS */
		if (others.version.current != others.version.timestamp)
			continue;
		rc = doubt_add(collection, seen->at, others.at,
			others.version.timestamp); /* SUSPENDS */
		if (rc)
			break;
	}
	return rc;
}

/* ---- all of a store -------------------------------------------------------------------------- */

NAM_FIBER_FN static int
some_collect(struct nam_worker *worker, struct nam_records *records,
	const struct nam__walked *seen, uint32_t count, void *arg)
{
	struct collection *collection = arg;
	uint64_t reusable;
	int rc = 0;

	collection->done.records += count;
	if (records->options.commit == NAM_RECORDS_SERVED)
		rc = sweep(collection, seen, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = doubts_of(collection, &seen[i]); /* SUSPENDS */
	if (!rc)
		rc = doubts_end(collection); /* SUSPENDS */
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
	collection->worker = worker;
	collection->records = records;
	collection->count = 0;
	memset(&collection->done, 0, sizeof(collection->done));
	rc = nam__records_walk(worker, records, some_collect, collection); /* SUSPENDS */
	if (ret_collected)
		*ret_collected = collection->done;
	nam_buffer_give(worker, collection, sizeof(*collection));
	return rc;
}
