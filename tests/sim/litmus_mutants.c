/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_mutants.c -- commit protocols of record stores with two steps in the wrong order, each in
 * place of the right one if its guard is off (common/guard.h).
 */
#include <stddef.h>

#include "common/guard.h"
#include "txn/records/ops.h"
#include "txn/records/protocols.h"
#include "litmus_records.h"

/* Violates R3: the heads are READ, and the versions are WRITTEN after the commit. */
static int
prepare_nothing(struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].state = NAM__ITEM_HEAD;
	return nam__txn_find_bases(txn);
}

static int
commit_then_prepare(struct nam__txn *txn)
{
	int rc = nam__txn_commit(txn);

	return rc || !txn->prepared ? rc : nam__onesided_prepare_again(txn);
}

static void
swap_then_claim_came(struct nam__txn *txn, struct nam__item *item)
{
	if (item->base.raw && item->claim == item->base_timestamp)
		nam__version_retire(txn->worker, item->base);
	if (item->word != item->base.raw) {
		nam__item_base_found(txn, item);
		return;
	}
	item->latest = true;
	item->state = NAM__ITEM_DONE;
}

/* Violates R6: the first attempt moves the heads before it claims what they led to. */
static int
commit_then_claim(struct nam__txn *txn)
{
	const uint32_t current = (uint32_t)offsetof(struct nam_version, current);
	struct nam_batch batch;
	int rc;

	nam_race_point("records.commit");
	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		if (item->state != NAM__ITEM_SWAP)
			continue;
		nam_batch_cas(&batch, item->head, 0, item->base.raw, item->at.raw, &item->word);
		if (item->base.raw)
			nam_batch_cas(&batch, item->base, current, item->base_timestamp, 0,
				&item->claim);
	}
	rc = nam_batch_await(&batch);
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].state == NAM__ITEM_SWAP)
			swap_then_claim_came(txn, &txn->items[i]);
	return rc ? rc : nam__txn_commit(txn);
}

/*
 * Violates K3: of the two commits of a collector, the others' and then the leader's, the leader's
 * comes first.  A collector's items have no keys.
 */
static int
commit_leader_first(struct nam__txn *txn)
{
	bool again = txn->prepared;

	if (txn->count < 2 || txn->items[0].key)
		return nam__served_commit(txn);
	for (uint32_t i = 1; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		if (!again)
			item->late = item->state != NAM__ITEM_DONE;
		item->state = again && item->late ? NAM__ITEM_HEAD : NAM__ITEM_DONE;
	}
	txn->items[0].state = again ? NAM__ITEM_DONE : NAM__ITEM_HEAD;
	txn->prepared = !again;
	return nam__served_commit(txn);
}

void
litmus_mutate(struct nam_records *records)
{
	static struct nam__records_ops mutant;

	mutant = *records->ops;
	if (!NAM_GUARD(PREPARE_FIRST)) {
		mutant.prepare = prepare_nothing;
		mutant.commit = commit_then_prepare;
	}
	if (!NAM_GUARD(CLAIM_FIRST))
		mutant.commit = commit_then_claim;
	if (!NAM_GUARD(LEADER_LAST))
		mutant.commit = commit_leader_first;
	records->ops = &mutant;
}
