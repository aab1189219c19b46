/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fracture.c -- whether only a part of a transaction was read, and which versions are missing (R5).
 *
 * Each of Bailis et al.'s three algorithms uses other metadata of versions.  FAST: the siblings, by
 * key id and address.  SMALL: timestamps alone: of each record the reader wants the latest version
 * whose timestamp any record has.  HYBRID: as SMALL, but only for records that are in another
 * version's Bloom filter.
 */

#include "txn/records/ops.h"
#include "txn/records/protocols.h"

#define ID_SET_SIZE 1024u

/* ---- FAST ------------------------------------------------------------------------------------ */

/* Ten bits of an id say whether it may be among those of the items. */
struct id_set {
	uint8_t has[ID_SET_SIZE];	/* 0 or 1 */
};

static inline uint8_t *
id_at(struct id_set *ids_here, uint64_t key_id)
{
	return &ids_here->has[key_id % ID_SET_SIZE];
}

/*
 * Whether one of the siblings may be one of the items, at three instructions for each sibling and
 * no branch.  Mostly none is.
 */
static inline bool
may_query(struct id_set *ids_here, const struct nam_version *version)
{
	const struct nam_version_sibling *siblings;
	uint32_t count = nam__version_siblings(version, &siblings);
	unsigned any = 0;

	for (; count >= 4; count -= 4, siblings += 4)
		any |= *id_at(ids_here, siblings[0].key_id) | *id_at(ids_here, siblings[1].key_id) |
			*id_at(ids_here, siblings[2].key_id) | *id_at(ids_here, siblings[3].key_id);
	for (; count; count--, siblings++)
		any |= *id_at(ids_here, siblings->key_id);
	return any != 0;
}

/* Whether the item is the sibling of a version, and older: then it is asked for. */
static bool
sibling_asks(const struct nam__txn *txn, struct nam__item *item, uint64_t timestamp,
	const struct nam_version_sibling *sibling)
{
	if (item->id.word[0] != sibling->key_id || sibling->head == item->collided ||
		timestamp <= item->timestamp)
		return false;
	if (!nam_gaddr_is_null(item->head) && item->head.raw != sibling->head)
		return false;
	item->head.raw = sibling->head;
	item->at.raw = sibling->at;
	item->timestamp = timestamp;
	item->via = NAM__VIA_SIBLING;
	item->latest = false;
	item->state = txn->records->star ? NAM__ITEM_VERSION : NAM__ITEM_REQUEST;
	return true;
}

static bool
version_asks(struct nam__txn *txn, const struct nam_version *version)
{
	const struct nam_version_sibling *siblings;
	uint32_t count = nam__version_siblings(version, &siblings);
	bool any = false;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < txn->count; k++)
			any |= sibling_asks(txn, &txn->items[k], version->timestamp, &siblings[i]);
	return any;
}

enum nam__step
nam__fractured_fast(struct nam__txn *txn, int *ret_rc)
{
	bool any = false;
	struct id_set ids_here;

	(void)ret_rc;
	nam__clear(&ids_here, sizeof(ids_here));
	for (uint32_t i = 0; i < txn->count; i++)
		*id_at(&ids_here, txn->items[i].id.word[0]) = true;
	/* An item that is asked for anew still has the image that it had. */
	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].state == NAM__ITEM_FOUND &&
			may_query(&ids_here, txn->items[i].image))
			any |= version_asks(txn, txn->items[i].image);
	return any ? NAM__STEP_MORE : NAM__STEP_DONE;
}

/* Whether a version names a newer sibling of one of `versions`. */
static bool
asks_for_newer(const struct nam_version *version, const struct nam__record_id *ids,
	const struct nam_version *const *versions, uint32_t count)
{
	const struct nam_version_sibling *siblings;
	uint32_t siblings_count = nam__version_siblings(version, &siblings);

	for (uint32_t i = 0; i < siblings_count; i++)
		for (uint32_t k = 0; k < count; k++)
			if (ids[k].word[0] == siblings[i].key_id &&
				versions[k]->timestamp < version->timestamp)
				return true;
	return false;
}

static bool
many_query(const struct nam__record_id *ids, const struct nam_version *const *versions,
	uint32_t count)
{
	struct id_set ids_here;

	nam__clear(&ids_here, sizeof(ids_here));
	for (uint32_t i = 0; i < count; i++)
		*id_at(&ids_here, ids[i].word[0]) = true;
	for (uint32_t i = 0; i < count; i++)
		if (__builtin_expect(may_query(&ids_here, versions[i]), 0) &&
			asks_for_newer(versions[i], ids, versions, count))
			return true;
	return false;
}

bool
nam__versions_query(nam__named_fn named, const struct nam__record_id *ids,
	const struct nam_version *const *versions, uint32_t count)
{
	uint64_t wanted[NAM__NAMED_IDS];

	/* R5: versions that are each the latest may be halves of transactions. */
	if (count < 2 || !NAM_GUARD(SECOND_ROUND))
		return false;
	if (count > NAM__NAMED_IDS)
		return many_query(ids, versions, count);
	for (uint32_t i = 0; i < NAM__NAMED_IDS; i++)
		wanted[i] = ids[i < count ? i : 0].word[0];
	if (__builtin_expect(!named(versions, count, wanted), 1))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (asks_for_newer(versions[i], ids, versions, count))
			return true;
	return false;
}

/* ---- SMALL, HYBRID --------------------------------------------------------------------------- */

/*
 * A record that was not in the index is there by now if a transaction that was met wrote it.  The
 * lookup is an operation of its own; this one ends meanwhile.
 */
int
nam__item_look_up_again(struct nam__txn *txn, struct nam__item *item)
{
	uint64_t head;
	int rc;

	nam__op_end(txn->worker);
	rc = nam_index_lookup(txn->worker, txn->records->keys, item->id.word, &head); /* SUSPENDS */
	nam__op_resume(txn->worker, NAM_OP_GET_ALL);
	if (!rc)
		item->head.raw = head;
	return rc == -NAM_E_NOTFOUND ? 0 : rc;
}

/* Ask for the record's latest version among all timestamps that were met. */
NAM_FIBER_FN static int
want_of_stamps(struct nam__txn *txn, struct nam__item *item)
{
	int rc = 0;

	if (nam_gaddr_is_null(item->head))
		rc = nam__item_look_up_again(txn, item); /* SUSPENDS */
	item->state = nam_gaddr_is_null(item->head) ? NAM__ITEM_ABSENT : NAM__ITEM_REQUEST;
	item->via = NAM__VIA_SIBLING;
	item->latest = false;
	item->timestamp = item->state == NAM__ITEM_REQUEST ? NAM_RECORDS_OF_STAMPS : 0;
	return rc;
}

/* Make the stamps those of all items that are here; whether there is a new one. */
static bool
stamps_collect(struct nam__txn *txn)
{
	bool any = false;
	uint32_t count = 0, k;

	for (uint32_t i = 0; i < txn->count; i++) {
		for (k = 0; k < txn->stamps_count; k++)
			if (txn->stamps[k] == txn->items[i].timestamp)
				break;
		any |= txn->items[i].state == NAM__ITEM_FOUND && k == txn->stamps_count;
	}
	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].state == NAM__ITEM_FOUND)
			txn->stamps[count++] = txn->items[i].timestamp;
	txn->stamps_count = count;
	return any;
}

int
nam__fracture_small(struct nam__txn *txn)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++)
		rc = want_of_stamps(txn, &txn->items[i]); /* SUSPENDS */
	return rc;
}

enum nam__step
nam__fractured_small(struct nam__txn *txn, int *ret_rc)
{
	int rc;

	/* Without a new timestamp all versions are as asked for. */
	if (!stamps_collect(txn))
		return NAM__STEP_DONE;
	rc = nam__fracture_small(txn); /* SUSPENDS */
	return rc ? nam__step_failed(rc, ret_rc) : NAM__STEP_MORE;
}

/* The latest transaction here that may have written the record, after its version here. */
static uint64_t
filter_asks(const struct nam__txn *txn, const struct nam__item *item)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam_version *version = txn->items[i].image;

		if (txn->items[i].state == NAM__ITEM_FOUND &&
			version->metadata_bytes >= sizeof(struct nam_version_filter) &&
			version->timestamp > latest && version->timestamp > item->timestamp &&
			nam__filter_has(nam__version_metadata(version), item->id.word[0]))
			latest = version->timestamp;
	}
	return latest;
}

enum nam__step
nam__fractured_hybrid(struct nam__txn *txn, int *ret_rc)
{
	uint64_t asked[NAM_RECORDS_MAX];
	enum nam__step step = NAM__STEP_DONE;
	int rc = 0;

	(void)stamps_collect(txn);
	for (uint32_t i = 0; i < txn->count; i++)
		asked[i] = filter_asks(txn, &txn->items[i]);
	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		/* Filters have false positives: ask once for each transaction. */
		if (asked[i] <= txn->items[i].stamp)
			continue;
		txn->items[i].stamp = asked[i];
		rc = want_of_stamps(txn, &txn->items[i]); /* SUSPENDS */
		step = NAM__STEP_MORE;
	}
	return rc ? nam__step_failed(rc, ret_rc) : step;
}

/* ---- all ------------------------------------------------------------------------------------- */

enum nam__step
nam__fractured(struct nam__txn *txn, int *ret_rc)
{
	enum nam__step step;

	/* R5, by the algorithm of the store. */
	if (txn->count < 2 || !NAM_GUARD(SECOND_ROUND))
		return NAM__STEP_DONE;
	step = txn->records->ops->fractured(txn, ret_rc); /* SUSPENDS */
	if (step == NAM__STEP_MORE)
		nam__count_restart(txn->worker, NAM_RESTART_FRACTURED);
	return step;
}
