/* SPDX-License-Identifier: Apache-2.0 */
/*
 * in_doubt.c -- ending transactions of dead clients.
 *
 * A prepared version is in doubt until it is committed.  If its writer has no connection any more,
 * its transaction does not change by itself (G1).  The collector commits it if each of its records
 * has its version, or something newer, and aborts it if one has neither.  One client at a time
 * decides (G8).  See txn/README.md, "Collecting".
 */
#include "in_doubt.h"

#include <errno.h>

#include "common/rpc/locking_rpc.h"
#include "common/rpc/records_rpc.h"
#include "index/maintain/collector_word.h"
#include "txn/records/ops.h"
#include "txn/records/protocols.h"

/* ---- one client decides ---------------------------------------------------------------------- */

/* G8: under the collector's word of the keys.  A dead client's is taken over. */
NAM_FIBER_FN static int
decide_alone(struct nam__recovery *recovery, bool *ret_refused)
{
	int rc = 0;

	if (!recovery->word && !recovery->refused && NAM_GUARD(COLLECT_ALONE)) {
		rc = nam__collector_enter(recovery->worker, recovery->records->keys,
			NAM_RECORDS_KEEP_NS, &recovery->word); /* SUSPENDS */
		if (rc)
			recovery->word = 0;
		recovery->refused = rc == -NAM_E_LOCK_TIMEOUT || rc == -NAM_E_LOCK_ORPHANED;
		recovery->done.busy = rc == -NAM_E_LOCK_TIMEOUT;
	}
	*ret_refused = recovery->refused;
	return recovery->refused ? 0 : rc;
}

int
nam__recovery_leave(struct nam__recovery *recovery, int rc)
{
	int leave_rc = 0;

	/* G8: after a failure a COMMIT of this client may come late, until its connections end. */
	if (recovery->word && !nam_err_is(rc, NAM_E_FABRIC)) {
		nam__op_begin(recovery->worker, NAM_OP_OTHER);
		leave_rc = nam__collector_leave(recovery->worker, recovery->records->keys,
			recovery->word); /* SUSPENDS */
		nam__op_end(recovery->worker);
	}
	recovery->word = 0;
	return rc ? rc : leave_rc;
}

/* ---- one transaction ------------------------------------------------------------------------- */

/* The leader of a transaction of several records. */
static const struct nam_version_leader *
leader_of(const struct nam_records *records, const struct nam_version *version)
{
	const uint8_t *about = nam__version_metadata(version);
	uint32_t before = records->ops->filter_bytes;

	return version->metadata_bytes < before + sizeof(struct nam_version_leader) ? NULL :
		(const struct nam_version_leader *)(const void *)(about + before);
}

/* An item for a record.  False: its memory server is unknown. */
static bool
record_request(struct nam__txn *txn, uint64_t head, uint64_t timestamp)
{
	const struct nam_version_sibling record = { 0, head, 0 };
	struct nam__item *item = &txn->items[txn->count];

	if (nam__server_slot(txn->worker->client, NAM_GADDR(head)) == NAM__NO_SLOT ||
		txn->count == NAM_RECORDS_MAX)
		return false;
	nam__txn_add_version(txn, &record, timestamp);
	item->state = NAM__ITEM_REQUEST;
	return true;
}

/* The records of a version's transaction: its own, and those that it names. */
static bool
txn_of(struct nam__txn *txn, const struct nam_version *version)
{
	bool known = record_request(txn, version->head, version->timestamp);

	if (txn->records->ops->by_stamps) {
		const struct nam_version_leader *leader = leader_of(txn->records, version);
		const uint64_t *end = (const void *)nam__version_key(version);

		for (const uint64_t *head = leader ? leader->others : end; head < end; head++)
			known = known && record_request(txn, *head, version->timestamp);
	} else {
		const struct nam_version_sibling *sibling = nam__version_metadata(version);
		const struct nam_version_sibling *end = (const void *)nam__version_key(version);

		for (; sibling < end; sibling++)
			known = known && record_request(txn, sibling->head, version->timestamp);
	}
	return known;
}

/*
 * G3: the leader is ended last.  If this collector dies, the next one finds the others by the
 * leader's version, which is not replaced as long as it is only prepared.
 */
NAM_FIBER_FN static int
end_all(struct nam__txn *txn, bool led, bool abort)
{
	enum nam__item_state states[NAM_RECORDS_MAX];
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++)
		states[i] = txn->items[i].state;
	for (unsigned step = led ? 0 : 1; step < 2 && !rc; step++) {
		for (uint32_t i = 0; i < txn->count && led; i++)
			txn->items[i].state = (i == 0) == (step == 1) ? states[i] : NAM__ITEM_DONE;
		rc = abort ? nam__served_abort(txn) : /* SUSPENDS */
			txn->records->ops->commit(txn); /* SUSPENDS */
		if (!step)
			nam_race_point("records.collect_between");
	}
	return rc;
}

/* Memory servers report the records' versions, under the records' locks. */
int
nam__in_doubt_end_served(struct nam__recovery *recovery, struct nam__in_doubt *one,
	struct nam__txn *txn, const struct nam_version *version)
{
	bool led = recovery->records->ops->by_stamps, lacking = false, abort = false;
	int rc = decide_alone(recovery, &one->undecided); /* SUSPENDS */

	(void)version;
	if (!rc && !one->undecided)
		rc = nam__served_get(txn, true); /* SUSPENDS */
	if (rc || one->undecided)
		return rc;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		/* Neither the version nor a newer one: no client has committed any of it. */
		abort |= item->stamp < one->timestamp;
		item->timestamp = one->timestamp;
		item->state = item->stamp == one->timestamp ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
		lacking |= item->state == NAM__ITEM_DONE;
	}
	one->whole = true;
	/* G2: unless a commit is known, wait for readers. */
	if (led && lacking && !abort && !one->seen && !one->later && NAM_GUARD(COLLECT_WAIT)) {
		one->later = true;
		return 0;
	}
	nam_race_point("records.collect_decided");
	rc = end_all(txn, led, abort); /* SUSPENDS */
	nam__collected_retired(&recovery->done, txn);
	recovery->done.committed += !rc && !abort;
	recovery->done.aborted += !rc && abort;
	return rc;
}

/* One version of the transaction is committed, so the others must be, too. */
int
nam__in_doubt_end_onesided(struct nam__recovery *recovery, struct nam__in_doubt *one,
	struct nam__txn *txn, const struct nam_version *version)
{
	struct nam__walked *records = recovery->records_of;
	bool all = true;
	int rc;

	one->whole = true;
	for (uint32_t i = 0; i < txn->count; i++)
		records[i].at = txn->items[i].head;
	rc = nam__walked_read(recovery->worker, records, txn->count); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		all &= records[i].latest.timestamp >= version->timestamp;
	if (rc || all)
		return rc;
	rc = nam__txn_complete_of(txn, version, one->at); /* SUSPENDS */
	recovery->done.committed += !rc;
	return rc;
}

/* ---- one transaction with a leader ----------------------------------------------------------- */

/*
 * G4: the record has something newer than the prepared version.  Only a reader that met the
 * transaction elsewhere asks for this version, and the other records do not depend on it.  Or the
 * leader was never prepared, so none is committed.
 */
NAM_FIBER_FN static int
end_alone(struct nam__recovery *recovery, const struct nam__in_doubt *one, struct nam__txn *txn,
	bool abort)
{
	int rc;

	txn->count = 0;
	if (!record_request(txn, one->head.raw, one->timestamp))
		return 0;
	txn->items[0].at = one->at;
	rc = abort ? nam__served_abort(txn) : nam__served_commit(txn); /* SUSPENDS */
	nam__collected_retired(&recovery->done, txn);
	recovery->done.aborted += !rc && abort;
	return rc;
}

/*
 * Ask for the leader's version, item 0, and for the record's latest one, item 1, under its lock.
 * *ret_there: the leader's is there.
 */
NAM_FIBER_FN static int
leader_read(struct nam__txn *asked, const struct nam__in_doubt *one, uint64_t leader,
	bool *ret_there)
{
	struct nam__item *item = &asked->items[0];
	uint32_t bytes;
	int rc;

	*ret_there = false;
	if (!record_request(asked, leader, one->timestamp) ||
		!record_request(asked, one->head.raw, NAM_RECORDS_LATEST))
		return 0;
	rc = nam__served_get(asked, false); /* SUSPENDS */
	if (rc || item->state == NAM__ITEM_ABSENT || item->timestamp != one->timestamp)
		return rc;
	if (item->state == NAM__ITEM_VERSION) {
		bytes = nam__version_at_bytes(item->at);
		rc = nam__item_room(asked, item, bytes);
		if (!rc)
			rc = nam_read_await(asked->worker, item->at, item->image,
				bytes); /* SUSPENDS */
	}
	/* The leader's version may have gone meanwhile, and its block may be reused. */
	*ret_there = !rc && nam__version_whole(item->image, item->at, asked->records->store,
		false) && item->image->timestamp == one->timestamp && item->image->head == leader;
	return rc;
}

/*
 * Decide by the leader's version.  If that is gone, and its record has something newer, the version
 * stays until its own record is written.
 */
NAM_FIBER_FN static int
end_led(struct nam__recovery *recovery, struct nam__in_doubt *one, struct nam__txn *txn,
	uint64_t leader)
{
	struct nam__txn *asked = nam__txn_new(recovery->worker, recovery->records);
	bool there = false, abort;
	int rc = asked ? decide_alone(recovery, &one->undecided) : -ENOMEM; /* SUSPENDS */

	if (!rc && !one->undecided)
		rc = leader_read(asked, one, leader, &there); /* SUSPENDS */
	if (rc || one->undecided)
		goto free_asked;
	if (there) {
		const struct nam__item *item = &asked->items[0];

		/* The leader's version is the latest, or was: `current` then says when it went. */
		one->seen = item->via == NAM__VIA_HEAD ||
			item->image->current != item->image->timestamp;
		rc = !txn_of(txn, item->image) ? 0 :
			nam__in_doubt_end_served(recovery, one, txn, NULL); /* SUSPENDS */
	}
	if (!rc && !one->whole) {
		abort = !there && asked->count == 2 && asked->items[0].timestamp < one->timestamp;
		/* G4: dropped alone only if its record has something newer. */
		one->undecided = asked->count < 2 || (!abort && NAM_GUARD(COLLECT_OUTRUN) &&
			asked->items[1].timestamp < one->timestamp);
		if (!one->undecided)
			rc = end_alone(recovery, one, txn, abort); /* SUSPENDS */
	}
free_asked:
	nam__txn_free(asked);
	return rc;
}

/* ---- all versions in doubt ------------------------------------------------------------------- */

NAM_FIBER_FN static int
end_of_version(struct nam__recovery *recovery, struct nam__in_doubt *one)
{
	struct nam_worker *worker = recovery->worker;
	struct nam_records *records = recovery->records;
	uint32_t bytes = nam__version_at_bytes(one->at);
	struct nam_version *version = nam_buffer_take(worker, bytes);
	struct nam__txn *txn = nam__txn_new(worker, records);
	const struct nam_version_leader *leader;
	int rc = version && txn ? 0 : -ENOMEM;

	if (!rc)
		rc = nam_read_await(worker, one->at, version, bytes); /* SUSPENDS */
	/* The transaction may have ended meanwhile, and the block may be reused. */
	if (rc || !nam__version_whole(version, one->at, records->store, false) ||
		version->timestamp != one->timestamp || version->head != one->head.raw)
		goto done;
	leader = records->ops->by_stamps ? leader_of(records, version) : NULL;
	if (leader && leader->head != version->head) {
		rc = end_led(recovery, one, txn, leader->head); /* SUSPENDS */
	} else if (!txn_of(txn, version)) {
		one->undecided = true;
	} else {
		rc = records->ops->in_doubt_end(recovery, one, txn, version); /* SUSPENDS */
	}
done:
	nam__txn_free(txn);
	nam_buffer_give(worker, version, bytes);
	return rc;
}

NAM_FIBER_FN static int
end_of_lock(struct nam__recovery *recovery, struct nam__in_doubt *one)
{
	const struct nam__refusal refusal = { NAM_LOCKING_EXPIRED, one->head.raw, one->timestamp };
	struct nam__txn *txn = nam__txn_new(recovery->worker, recovery->records);
	enum nam__terminated outcome;
	int rc;

	if (!txn)
		return -ENOMEM;
	one->undecided = nam__server_slot(recovery->worker->client, one->head) == NAM__NO_SLOT;
	rc = one->undecided ? 0 : nam__lock_terminate(txn, &refusal, &outcome); /* SUSPENDS */
	if (!rc && !one->undecided) {
		recovery->done.committed += outcome == NAM__TERMINATED_COMMITTED;
		recovery->done.aborted += outcome == NAM__TERMINATED_ABORTED;
	}
	nam__collected_retired(&recovery->done, txn);
	nam__txn_free(txn);
	one->whole = true;
	return rc;
}

NAM_FIBER_FN static int
in_doubt_end(struct nam__recovery *recovery, struct nam__in_doubt *one)
{
	int rc;

	one->ended = true;
	one->undecided = one->whole = one->seen = false;
	rc = nam_gaddr_is_null(one->at) ?
		end_of_lock(recovery, one) : /* SUSPENDS */
		end_of_version(recovery, one); /* SUSPENDS */
	recovery->done.undecided += one->undecided;
	return rc;
}

int
nam__recovery_run(struct nam__recovery *recovery)
{
	uint32_t kept = recovery->waiting, before;
	int rc = 0;

	/* G1: a client that is absent now was not at work on versions that were seen before. */
	if (recovery->count > recovery->waiting)
		rc = nam__presence_query(recovery->worker, &recovery->presence); /* SUSPENDS */
	for (uint32_t i = recovery->waiting; i < recovery->count && !rc; i++) {
		struct nam__in_doubt *one = &recovery->all[i], *all = recovery->all;

		if (NAM_GUARD(COLLECT_GONE) && nam__presence_has(&recovery->presence,
			(uint32_t)(one->timestamp % NAM_CLIENTS_MAX)))
			continue;
		/* Another version of the same transaction may have been processed before. */
		for (before = 0; before < i; before++)
			if (all[before].ended && all[before].whole &&
				all[before].timestamp == one->timestamp)
				break;
		if (before == i)
			rc = in_doubt_end(recovery, one); /* SUSPENDS */
		else
			recovery->done.undecided += all[before].undecided;
	}
	for (uint32_t i = recovery->waiting; i < recovery->count; i++)
		if (recovery->all[i].later)
			recovery->all[kept++] = recovery->all[i];
	if (kept && !recovery->waiting)
		recovery->epoch = nam__epoch_pin(recovery->worker);
	recovery->waiting = recovery->count = kept;
	return rc;
}

void
nam__recovery_forget(struct nam__recovery *recovery)
{
	if (recovery->waiting)
		nam__epoch_unpin(recovery->worker, recovery->epoch);
	recovery->waiting = recovery->count = 0;
}

/*
 * G2: a reader may have read an older version of a record that lacks this one.  When it now meets
 * the transaction, it must restart, since it began 75 ms ago and more.
 */
NAM_FIBER_FN static int
later_end(struct nam__recovery *recovery)
{
	int rc = 0;

	for (uint32_t i = 0; i < recovery->waiting && !rc; i++)
		rc = in_doubt_end(recovery, &recovery->all[i]); /* SUSPENDS */
	nam__recovery_forget(recovery);
	return rc;
}

int
nam__recovery_run_later(struct nam__recovery *recovery)
{
	int rc;

	if (!recovery->waiting)
		return 0;
	nam__pause_await(recovery->worker, NAM_RECORDS_KEEP_NS); /* SUSPENDS */
	nam__op_begin(recovery->worker, NAM_OP_OTHER);
	rc = later_end(recovery); /* SUSPENDS */
	nam__op_end(recovery->worker);
	return rc;
}

int
nam__recovery_add(struct nam__recovery *recovery, struct nam_gaddr head, struct nam_gaddr at,
	uint64_t timestamp)
{
	int rc = 0;

	if (recovery->count == NAM__IN_DOUBT_MAX)
		rc = nam__recovery_run(recovery); /* SUSPENDS */
	if (!rc && recovery->count == NAM__IN_DOUBT_MAX) {
		nam__pause_await(recovery->worker, NAM_RECORDS_KEEP_NS); /* SUSPENDS */
		rc = later_end(recovery); /* SUSPENDS */
	}
	if (rc)
		return rc;
	recovery->all[recovery->count++] = (struct nam__in_doubt){ .head = head, .at = at,
		.timestamp = timestamp };
	return 0;
}

/* ---- finding versions in doubt --------------------------------------------------------------- */

int
nam__in_doubt_add_latest(struct nam__recovery *recovery, const struct nam__walked *seen)
{
	/* The others of its transaction may not be committed yet. */
	return !seen->head.latest || !seen->latest.metadata_bytes ? 0 :
		nam__recovery_add(recovery, seen->at, NAM_GADDR(seen->head.latest),
			seen->latest.timestamp); /* SUSPENDS */
}

int
nam__in_doubt_add_locked(struct nam__recovery *recovery, const struct nam__walked *seen)
{
	return !seen->head.writer ? 0 : nam__recovery_add(recovery, seen->at, NAM_GADDR_NULL,
		seen->head.writer); /* SUSPENDS */
}

int
nam__in_doubt_add_prepared(struct nam__recovery *recovery, const struct nam__walked *seen)
{
	struct nam__chain chain;
	int rc = 0;

	nam__chain_begin(&chain, seen);
	while (nam__chain_next(recovery->worker, recovery->records, &chain,
			&rc) == NAM__STEP_MORE) { /* SUSPENDS */
		if (chain.version.current != chain.version.timestamp)
			continue;
		rc = nam__recovery_add(recovery, seen->at, chain.at,
			chain.version.timestamp); /* SUSPENDS */
		if (rc)
			break;
	}
	return rc;
}
