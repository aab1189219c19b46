/* SPDX-License-Identifier: Apache-2.0 */
/*
 * in_doubt.c -- ending what clients that are gone have left half done.
 *
 * What a writer has prepared is in doubt until it is committed.  If he has no connection any more,
 * nothing of his transaction changes by itself.  It is committed for him if each of its records has
 * its version, or something newer; and nobody ever aborts it, so whoever looks, and when, comes to
 * the same end (txn/README.md, "Collecting").
 */
#include "in_doubt.h"

#include <errno.h>

#include "common/rpc/locking_rpc.h"
#include "ops.h"
#include "protocols.h"

/* ---- one transaction ------------------------------------------------------------------------- */

/* Who leads a transaction of several records. */
static const struct nam_version_leader *
leader_of(const struct nam_records *records, const struct nam_version *version)
{
	const uint8_t *about = nam__version_about_const(version);
	uint32_t before = records->ops->filter_bytes;

	return version->about_bytes < before + sizeof(struct nam_version_leader) ? NULL :
		(const struct nam_version_leader *)(const void *)(about + before);
}

/* An item for a record.  False: its memory server is not known here. */
static bool
record_ask(struct nam__txn *txn, uint64_t head, uint64_t timestamp)
{
	const struct nam_version_sibling record = { 0, head, 0 };
	uint16_t slot = nam__server_slot(txn->worker->client, NAM_GADDR(head));
	struct nam__item *item = &txn->items[txn->count];

	if (slot == UINT16_MAX || txn->count == NAM_RECORDS_MAX)
		return false;
	nam__txn_add_version(txn, &record, timestamp);
	item->slot = slot;
	item->state = NAM__ITEM_ASK;
	return true;
}

/* The records of a version's transaction: its own, and those that it names. */
static bool
txn_of(struct nam__txn *txn, const struct nam_version *version)
{
	bool known = record_ask(txn, version->head, version->timestamp);

	if (txn->records->ops->by_stamps) {
		const struct nam_version_leader *leader = leader_of(txn->records, version);
		const uint64_t *end = (const void *)nam__version_key(version);

		for (const uint64_t *head = leader ? leader->others : end; head < end; head++)
			known = known && record_ask(txn, *head, version->timestamp);
	} else {
		const struct nam_version_sibling *sibling = nam__version_about_const(version);
		const struct nam_version_sibling *end = (const void *)nam__version_key(version);

		for (; sibling < end; sibling++)
			known = known && record_ask(txn, sibling->head, version->timestamp);
	}
	return known;
}

/*
 * Who leads comes last: whoever goes on where we died finds the others by its version, which is not
 * replaced as long as it is only prepared.
 */
NAM_FIBER_FN static int
commit_led(struct nam__txn *txn)
{
	enum nam__item_state states[NAM_RECORDS_MAX];
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++)
		states[i] = txn->items[i].state;
	for (unsigned step = 0; step < 2 && !rc; step++) {
		bool leader = step == 1;

		for (uint32_t i = 0; i < txn->count; i++)
			txn->items[i].state = (i == 0) == leader ? states[i] : NAM__ITEM_DONE;
		rc = txn->records->ops->commit(txn); /* SUSPENDS */
		if (!step)
			nam_race_point("records.collect_between");
	}
	return rc;
}

/*
 * Memory servers say, under the records' locks, what these have.
 * @seen	somebody has committed it at one of its records, so readers need not be waited for
 */
NAM_FIBER_FN static int
end_served(struct nam__doubts *doubts, struct nam__doubt *doubt, struct nam__txn *txn, bool seen)
{
	bool led = doubts->records->ops->by_stamps, lacking = false;
	int rc;

	rc = nam__served_get(txn, true); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		doubt->undecided |= item->stamp < doubt->timestamp;
		item->timestamp = doubt->timestamp;
		item->state = item->stamp == doubt->timestamp ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
		lacking |= item->state == NAM__ITEM_DONE;
	}
	/* Of a transaction that is led, others may end while it can't. */
	doubt->whole = !led || !doubt->undecided;
	if (doubt->undecided)
		return 0;
	if (led && lacking && !seen && !doubt->later && NAM_GUARD(COLLECT_WAIT)) {
		doubt->later = true;
		return 0;
	}
	nam_race_point("records.collect_decided");
	rc = led ? commit_led(txn) : nam__served_commit(txn); /* SUSPENDS */
	nam__collected_retired(doubts->done, txn);
	doubts->done->committed += !rc;
	return rc;
}

int
nam__doubt_end_served(struct nam__doubts *doubts, struct nam__doubt *doubt,
	struct nam__txn *txn, const struct nam_version *version)
{
	(void)version;
	return end_served(doubts, doubt, txn, false); /* SUSPENDS */
}

/* One of it is committed: the others have to be, too. */
int
nam__doubt_end_onesided(struct nam__doubts *doubts, struct nam__doubt *doubt,
	struct nam__txn *txn, const struct nam_version *version)
{
	struct nam__walked *records = doubts->records_of;
	bool all = true;
	int rc;

	doubt->whole = true;
	for (uint32_t i = 0; i < txn->count; i++)
		records[i].at = txn->items[i].head;
	rc = nam__walked_read(doubts->worker, records, txn->count); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		all &= records[i].latest.timestamp >= version->timestamp;
	if (rc || all)
		return rc;
	rc = nam__txn_complete_of(txn, version, doubt->at); /* SUSPENDS */
	doubts->done->committed += !rc;
	return rc;
}

/* ---- one transaction that is led ------------------------------------------------------------- */

/*
 * What has been prepared of a record that has something newer, by who is gone: nobody asks for it
 * any more who has not heard of it elsewhere, and what becomes of the others does not hang on it.
 */
NAM_FIBER_FN static int
end_outrun(struct nam__doubts *doubts, const struct nam__doubt *doubt, struct nam__txn *txn)
{
	int rc;

	txn->count = 0;
	if (!record_ask(txn, doubt->head.raw, doubt->timestamp))
		return 0;
	txn->items[0].at = doubt->at;
	rc = nam__served_commit(txn); /* SUSPENDS */
	nam__collected_retired(doubts->done, txn);
	return rc;
}

/*
 * Ask for the version of the leader, and for the latest one of the record itself, under its lock:
 * items 0 and 1.  1: the leader's is there; 0: it is not.
 */
NAM_FIBER_FN static int
leader_read(struct nam__txn *asked, const struct nam__doubt *doubt, uint64_t leader)
{
	struct nam__item *item = &asked->items[0];
	uint32_t bytes;
	int rc;

	if (!record_ask(asked, leader, doubt->timestamp) ||
		!record_ask(asked, doubt->head.raw, NAM_RECORDS_LATEST))
		return 0;
	rc = nam__served_get(asked, false); /* SUSPENDS */
	if (rc || item->state == NAM__ITEM_NOWHERE || item->timestamp != doubt->timestamp)
		return rc;
	if (item->state == NAM__ITEM_VERSION) {
		bytes = nam__version_at_bytes(item->at);
		rc = nam__item_room(asked, item, bytes);
		if (!rc)
			rc = nam_read_await(asked->worker, item->at, item->image,
				bytes); /* SUSPENDS */
	}
	/* It may have been ended meanwhile, and its block be another's. */
	return rc ? rc : nam__version_whole(item->image, item->at, asked->records->store) &&
		item->image->timestamp == doubt->timestamp && item->image->head == leader;
}

/* What came is the latest, or was: it says when it was replaced. */
static bool
is_committed(const struct nam__item *item)
{
	return item->via == NAM__VIA_HEAD || item->image->current != item->image->timestamp;
}

/*
 * By what the leader's version says.  Where that is gone, or nothing can be decided by it, the
 * version stays until its own record is written.
 */
NAM_FIBER_FN static int
end_led(struct nam__doubts *doubts, struct nam__doubt *doubt, struct nam__txn *txn,
	uint64_t leader)
{
	struct nam__txn *asked = nam__txn_new(doubts->worker, doubts->records);
	int rc = asked ? leader_read(asked, doubt, leader) : -ENOMEM; /* SUSPENDS */

	if (rc > 0)
		rc = txn_of(txn, asked->items[0].image) ?
			end_served(doubts, doubt, txn,
				is_committed(&asked->items[0])) : 0; /* SUSPENDS */
	if (!rc && !doubt->whole) {
		doubt->undecided = asked->count < 2 || (NAM_GUARD(COLLECT_OUTRUN) &&
			asked->items[1].timestamp < doubt->timestamp);
		if (!doubt->undecided)
			rc = end_outrun(doubts, doubt, txn); /* SUSPENDS */
	}
	if (asked)
		nam__txn_free(asked);
	return rc;
}

/* ---- what is in doubt, one by one ------------------------------------------------------------ */

NAM_FIBER_FN static int
end_of_version(struct nam__doubts *doubts, struct nam__doubt *doubt)
{
	struct nam_worker *worker = doubts->worker;
	struct nam_records *records = doubts->records;
	uint32_t bytes = nam__version_at_bytes(doubt->at);
	struct nam_version *version = nam_buffer_take(worker, bytes);
	struct nam__txn *txn = nam__txn_new(worker, records);
	const struct nam_version_leader *leader;
	int rc = version && txn ? 0 : -ENOMEM;

	if (!rc)
		rc = nam_read_await(worker, doubt->at, version, bytes); /* SUSPENDS */
	/* It may have been ended meanwhile, and its block be another's. */
	if (rc || !nam__version_whole(version, doubt->at, records->store) ||
		version->timestamp != doubt->timestamp || version->head != doubt->head.raw)
		goto done;
	leader = records->ops->by_stamps ? leader_of(records, version) : NULL;
	if (leader && leader->head != version->head) {
		rc = end_led(doubts, doubt, txn, leader->head); /* SUSPENDS */
	} else if (!txn_of(txn, version)) {
		doubt->undecided = true;
	} else {
		rc = records->ops->doubt_end(doubts, doubt, txn, version); /* SUSPENDS */
	}
done:
	if (txn)
		nam__txn_free(txn);
	nam_buffer_give(worker, version, bytes);
	return rc;
}

NAM_FIBER_FN static int
end_of_lock(struct nam__doubts *doubts, struct nam__doubt *doubt)
{
	uint16_t slot = nam__server_slot(doubts->worker->client, doubt->head);
	const struct nam__refusal refusal = { NAM_LOCKING_EXPIRED, slot, doubt->head.raw,
		doubt->timestamp };
	struct nam__txn *txn = nam__txn_new(doubts->worker, doubts->records);
	enum nam__settled settled;
	int rc;

	if (!txn)
		return -ENOMEM;
	doubt->undecided = slot == UINT16_MAX;
	rc = doubt->undecided ? 0 : nam__settle(txn, &refusal, &settled); /* SUSPENDS */
	if (!rc && !doubt->undecided) {
		doubts->done->committed += settled == NAM__SETTLED_COMMITTED;
		doubts->done->aborted += settled == NAM__SETTLED_ABORTED;
	}
	nam__collected_retired(doubts->done, txn);
	nam__txn_free(txn);
	doubt->whole = true;
	return rc;
}

/* Of the same transaction another version may have been looked into before. */
static const struct nam__doubt *
doubt_before(const struct nam__doubts *doubts, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (doubts->all[i].ended && doubts->all[i].whole &&
			doubts->all[i].timestamp == doubts->all[number].timestamp)
			return &doubts->all[i];
	return NULL;
}

NAM_FIBER_FN static int
doubt_end(struct nam__doubts *doubts, struct nam__doubt *doubt)
{
	int rc;

	doubt->ended = true;
	doubt->undecided = doubt->whole = false;
	rc = nam_gaddr_is_null(doubt->at) ?
		end_of_lock(doubts, doubt) : /* SUSPENDS */
		end_of_version(doubts, doubt); /* SUSPENDS */
	doubts->done->undecided += doubt->undecided;
	return rc;
}

/* Those that are `later` are kept. */
static void
doubts_forget(struct nam__doubts *doubts)
{
	uint32_t kept = doubts->waiting;

	for (uint32_t i = doubts->waiting; i < doubts->count; i++)
		if (doubts->all[i].later)
			doubts->all[kept++] = doubts->all[i];
	doubts->waiting = doubts->count = kept;
}

int
nam__doubts_end(struct nam__doubts *doubts)
{
	int rc = 0;

	/* Who is not there now was not at work on what was seen before. */
	if (doubts->count > doubts->waiting)
		rc = nam__presence_ask(doubts->worker, &doubts->presence); /* SUSPENDS */
	for (uint32_t i = doubts->waiting; i < doubts->count && !rc; i++) {
		struct nam__doubt *doubt = &doubts->all[i];
		const struct nam__doubt *before = doubt_before(doubts, i);

		if (NAM_GUARD(COLLECT_GONE) && nam__presence_has(&doubts->presence,
			(uint32_t)(doubt->timestamp % NAM_CLIENTS_MAX)))
			continue;
		if (!before)
			rc = doubt_end(doubts, doubt); /* SUSPENDS */
		else
			doubts->done->undecided += before->undecided;
	}
	doubts_forget(doubts);
	return rc;
}

/*
 * A reader may have read something older of a record that lacks the version, before that got
 * something newer.  By the time that he hears of the transaction he has to begin anew.
 */
NAM_FIBER_FN static int
later_end(struct nam__doubts *doubts)
{
	int rc = 0;

	for (uint32_t i = 0; i < doubts->waiting && !rc; i++)
		rc = doubt_end(doubts, &doubts->all[i]); /* SUSPENDS */
	doubts->waiting = doubts->count = 0;
	return rc;
}

int
nam__doubts_end_later(struct nam__doubts *doubts)
{
	int rc;

	if (!doubts->waiting)
		return 0;
	nam__pause_await(doubts->worker, NAM_RECORDS_KEEP_NS); /* SUSPENDS */
	nam__op_begin(doubts->worker, NAM_OP_OTHER);
	rc = later_end(doubts); /* SUSPENDS */
	nam__op_end(doubts->worker);
	return rc;
}

void
nam__doubts_init(struct nam__doubts *doubts, struct nam_worker *worker,
	struct nam_records *records, struct nam_records_collected *done)
{
	doubts->worker = worker;
	doubts->records = records;
	doubts->done = done;
	doubts->waiting = doubts->count = 0;
}

int
nam__doubt_add(struct nam__doubts *doubts, struct nam_gaddr head, struct nam_gaddr at,
	uint64_t timestamp)
{
	int rc = 0;

	if (doubts->count == NAM__DOUBTS_MAX)
		rc = nam__doubts_end(doubts); /* SUSPENDS */
	if (!rc && doubts->count == NAM__DOUBTS_MAX) {
		nam__pause_await(doubts->worker, NAM_RECORDS_KEEP_NS); /* SUSPENDS */
		rc = later_end(doubts); /* SUSPENDS */
	}
	if (rc)
		return rc;
	doubts->all[doubts->count++] = (struct nam__doubt){ .head = head, .at = at,
		.timestamp = timestamp };
	return 0;
}

/* ---- what a record holds that may be in doubt ------------------------------------------------ */

int
nam__doubts_add_latest(struct nam__doubts *doubts, const struct nam__walked *seen)
{
	/* The others of its transaction may not be committed yet. */
	return !seen->head.latest || !seen->latest.about_bytes ? 0 :
		nam__doubt_add(doubts, seen->at, NAM_GADDR(seen->head.latest),
			seen->latest.timestamp); /* SUSPENDS */
}

int
nam__doubts_add_locked(struct nam__doubts *doubts, const struct nam__walked *seen)
{
	return !seen->head.writer ? 0 : nam__doubt_add(doubts, seen->at, NAM_GADDR_NULL,
		seen->head.writer); /* SUSPENDS */
}

int
nam__doubts_add_prepared(struct nam__doubts *doubts, const struct nam__walked *seen)
{
	struct nam__others others;
	int rc;

	nam__others_begin(&others, seen);
	while ((rc = nam__others_next(doubts->worker, doubts->records,
			&others)) > 0) { /* SUSPENDS */
		if (others.version.current != others.version.timestamp)
			continue;
		rc = nam__doubt_add(doubts, seen->at, others.at,
			others.version.timestamp); /* SUSPENDS */
		if (rc)
			break;
	}
	return rc;
}
