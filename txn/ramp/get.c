/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c -- transactions that read, by RAMP.
 *
 * First round: for each record its latest version, by the cached address, by its head, or from its
 * memory server.  The siblings that versions name (fracture.c) show which records must be read
 * again, in a newer version: second round (R5).  That version is there, since all versions of a
 * transaction are written before any is committed (R3).  It stays during this operation, which
 * began before anything newer was committed (R7).  If it was replaced all the same, the reader
 * takes the latest version, and checks again.
 */

#include "txn/records/ops.h"
#include "txn/records/protocols.h"

#define ATTEMPTS_MAX 64u

/* ---- one version ----------------------------------------------------------------------------- */

/* P4: after a stale address the reader falls back to the head. */
static void
by_head(const struct nam__txn *txn, struct nam__item *item)
{
	item->state = nam_gaddr_is_null(item->head) ? NAM__ITEM_ABSENT :
		txn->records->ops->look;
	item->via = NAM__VIA_HEAD;
	item->at = NAM_GADDR_NULL;
	item->timestamp = 0;
}

static void
begin(const struct nam__txn *txn, struct nam__item *item)
{
	by_head(txn, item);
	if (nam_gaddr_is_null(item->cached.at) || !txn->records->star)
		return;
	item->at = item->cached.at;
	item->timestamp = item->cached.timestamp;
	item->via = NAM__VIA_CACHE;
	item->state = NAM__ITEM_VERSION;
}

static int
version_arrived(struct nam__txn *txn, struct nam__item *item)
{
	const struct nam_version *version = item->image;
	const struct nam__version_wanted wanted = {
		.at = item->at,
		.store = txn->records->store,
		.head = item->head.raw,
		.timestamp = item->timestamp,
		.latest = item->via == NAM__VIA_CACHE,
	};
	enum nam_restart_cause cause = nam__version_mismatch(version, &wanted);

	if (item->via == NAM__VIA_HEAD)
		txn->misled = cause != NAM_RESTART_CAUSES_COUNT;
	if (cause != NAM_RESTART_CAUSES_COUNT) {
		nam__count_restart(txn->worker, cause);
		by_head(txn, item);
		return 0;
	}
	if (!nam__version_key_is(version, item->key, item->key_bytes)) {
		if (item->via != NAM__VIA_SIBLING)
			return nam_diag_set(&txn->worker->diag, -NAM_E_REMOTE_CORRUPT,
				"record store '%s': two keys have the same 128 bits of hash",
				txn->records->name);
		/* This is a version of another key whose id begins alike. */
		item->collided = item->head.raw;
		item->head = NAM_GADDR_NULL;
		by_head(txn, item);
		return 0;
	}
	item->timestamp = version->timestamp;
	item->latest = item->via != NAM__VIA_SIBLING;
	item->state = NAM__ITEM_FOUND;
	return 0;
}

/* Process the images that came with answers. */
static int
all_arrived(struct nam__txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].state == NAM__ITEM_ARRIVED)
			rc = version_arrived(txn, &txn->items[i]);
	return rc;
}

/* By READ or by request; NAM__STEP_MORE: there was something to do. */
NAM_FIBER_FN static enum nam__step
read_some(struct nam__txn *txn, int *ret_rc)
{
	struct nam__read reads[NAM_RECORDS_MAX];
	uint32_t count = 0;
	bool asking = false;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];
		uint32_t bytes = nam__version_at_bytes(item->at);

		asking |= item->state == NAM__ITEM_REQUEST;
		if (item->state == NAM__ITEM_HEAD) {
			reads[count++] = (struct nam__read){ item->head, &item->word,
				NAM__HEAD_READ_BYTES };
		} else if (item->state == NAM__ITEM_VERSION) {
			rc = nam__version_at_check(txn->worker, txn->records, item->at);
			if (!rc)
				rc = nam__item_room(txn, item, bytes);
			if (rc)
				return nam__step_failed(rc, ret_rc);
			reads[count++] = (struct nam__read){ item->at, item->image, bytes };
		}
	}
	if (!count && !asking)
		return NAM__STEP_DONE;
	if (txn->attempts++ == ATTEMPTS_MAX)
		return nam__step_failed(txn->misled ?
			nam__version_misled(txn->worker, txn->records) :
			nam_diag_set(&txn->worker->diag, -NAM_E_RESTART_DEAD,
				"record store '%s': writers replaced versions before they were "
				"read, %u times; try again", txn->records->name, ATTEMPTS_MAX),
			ret_rc);
	nam_race_point("records.read");
	rc = count ? nam__reads_await(txn->worker, reads, count) : 0; /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		struct nam__item *item = &txn->items[i];

		if (item->state == NAM__ITEM_VERSION) {
			rc = version_arrived(txn, item);
		} else if (item->state == NAM__ITEM_HEAD) {
			/* R10: the tag came with the word. */
			if (!nam__head_is_of(txn->records, item->word, item->tag))
				return nam__step_failed(nam__records_dropped(txn->worker,
					txn->records), ret_rc);
			item->at.raw = item->word;
			item->latest = !item->word;
			item->state = item->word ? NAM__ITEM_VERSION : NAM__ITEM_ABSENT;
		}
	}
	if (!rc && asking)
		rc = nam__served_get(txn, false); /* SUSPENDS */
	if (!rc && asking)
		rc = all_arrived(txn);
	return rc ? nam__step_failed(rc, ret_rc) : NAM__STEP_MORE;
}

int
nam__txn_read(struct nam__txn *txn)
{
	int rc = all_arrived(txn);

	if (rc)
		return rc;
	/* Until every item is here or nowhere. */
	while (read_some(txn, &rc) == NAM__STEP_MORE) /* SUSPENDS */
		;
	return rc;
}

/* ---- all of a transaction -------------------------------------------------------------------- */

int
nam__begin_small(struct nam__txn *txn)
{
	int rc = nam__served_get(txn, true); /* SUSPENDS */

	if (rc)
		return rc;
	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].stamp)
			txn->stamps[txn->stamps_count++] = txn->items[i].stamp;
	return nam__fracture_small(txn); /* SUSPENDS */
}

static inline bool
is_by_sibling(const struct nam__item *item)
{
	return item->state == NAM__ITEM_FOUND && item->via == NAM__VIA_SIBLING;
}

/* T3: for rows of tables all of each transaction, so that replaced versions can go. */
NAM_FIBER_FN static int
complete_for_others(struct nam__txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];
		bool first = is_by_sibling(item);

		for (uint32_t k = 0; k < i; k++)
			first &= !is_by_sibling(&txn->items[k]) ||
				txn->items[k].timestamp != item->timestamp;
		if (first)
			rc = nam__txn_complete_of(txn, item->image, item->at); /* SUSPENDS */
	}
	return rc;
}

/*
 * R6: a version that was found as a sibling may not be committed, and its writer may be dead.  The
 * reader commits it; otherwise a later read of this record alone would go back in time.
 */
NAM_FIBER_FN static int
commit_for_others(struct nam__txn *txn)
{
	enum nam__item_state states[NAM_RECORDS_MAX];
	bool any = false;
	int rc;

	/* A client that may only read leaves it: later, it may meet the older version alone. */
	if (txn->worker->reads_only)
		return 0;
	if (txn->records->rows && NAM_GUARD(ENTRY_REPLACED))
		return complete_for_others(txn); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		states[i] = item->state;
		any |= is_by_sibling(item);
		item->state = is_by_sibling(item) ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
	}
	rc = any ? txn->records->ops->commit(txn) : 0; /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].state = states[i];
	return rc;
}

/* Whether the reader asks for versions by timestamps: memory servers keep these for a time. */
static bool
is_by_stamps(const struct nam__txn *txn)
{
	return txn->records->ops->by_stamps && txn->count > 1;
}

/*
 * G2: the reader asked too long ago for what it has.  It asks a memory server for versions by
 * timestamps.  Such a version may have been replaced and gone, and an older one came instead.  If
 * each version was its record's latest when it was asked for, all that had gone were older.
 */
static bool
is_too_late(const struct nam__txn *txn)
{
	bool latest = true;

	for (uint32_t i = 0; i < txn->count; i++)
		latest &= txn->items[i].state != NAM__ITEM_FOUND || txn->items[i].latest;
	/* A quarter less than the time that versions stay, since clocks differ. */
	return !latest && nam_now_ns() - txn->since_ns >= NAM_RECORDS_KEEP_NS / 4 * 3;
}

/* Read on until no version that is here asks for a newer one. */
NAM_FIBER_FN static inline int
read_on(struct nam__txn *txn)
{
	int rc;

	do
		rc = nam__txn_read(txn); /* SUSPENDS */
	while (!rc && nam__fractured(txn, &rc) == NAM__STEP_MORE); /* SUSPENDS */
	return rc;
}

int
nam__ramp_get(struct nam__txn *txn)
{
	int rc;

	do {
		/* Only if needed: the clock takes as long as two READs. */
		if (is_by_stamps(txn))
			txn->since_ns = nam_now_ns();
		txn->stamps_count = 0;
		for (uint32_t i = 0; i < txn->count; i++) {
			begin(txn, &txn->items[i]);
			txn->items[i].stamp = 0;
		}
		rc = txn->records->ops->begin(txn); /* SUSPENDS */
		if (!rc)
			rc = read_on(txn); /* SUSPENDS */
	} while (!rc && is_by_stamps(txn) && is_too_late(txn));
	return rc ? rc : commit_for_others(txn); /* SUSPENDS */
}

int
nam__txn_get(struct nam__txn *txn)
{
	int rc = nam__txn_locate(txn); /* SUSPENDS */

	if (rc)
		return rc;
	nam__op_begin(txn->worker, NAM_OP_GET_ALL);
	rc = txn->records->ops->get(txn); /* SUSPENDS */
	if (!rc)
		nam__txn_note(txn);
	nam__op_end(txn->worker);
	return rc;
}

int
nam__txn_get_arrived(struct nam__txn *txn)
{
	int rc;

	for (uint32_t i = 0; i < txn->count; i++) {
		begin(txn, &txn->items[i]);
		txn->items[i].state = NAM__ITEM_ARRIVED;
	}
	txn->attempts = 1;
	rc = read_on(txn); /* SUSPENDS */
	if (!rc)
		rc = commit_for_others(txn); /* SUSPENDS */
	if (!rc)
		nam__txn_note(txn);
	return rc;
}
