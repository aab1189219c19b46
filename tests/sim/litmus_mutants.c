/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_mutants.c -- splits of index nodes and commit protocols of record stores with two steps in
 * the wrong order, and a recovery.  Each stands in place of the right one if its guard is off
 * (common/guard.h).
 */
#include <stddef.h>

#include "common/guard.h"
#include "index/coarse/coarse.h"
#include "index/fine/fine.h"
#include "index/maintain/merge.h"
#include "index/node/divide.h"
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

/* Violates R7: the versions that were replaced are used again while readers may ask for them. */
static int
commit_then_free(struct nam__txn *txn)
{
	int rc = nam__txn_commit(txn);

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		const struct nam__item *item = &txn->items[i];

		if (item->base.raw && item->base.raw != item->at.raw)
			nam_free_unseen(txn->worker, nam_gaddr_untagged(item->base),
				nam__version_stride(nam__version_at_bytes(item->base)));
	}
	return rc;
}

static void
swap_then_claim_came(struct nam__txn *txn, struct nam__item *item)
{
	if (item->base.raw && nam__word_now(item->claim, item->base_timestamp, txn->mark) ==
			txn->mark)
		nam__version_retire(txn->worker, item->base, item->base_timestamp);
	item->word = nam__word_now(item->move, item->base.raw, item->at.raw);
	if (item->word != item->at.raw) {
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

	nam__txn_mark(txn);
	nam_race_point("records.commit");
	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		if (item->state != NAM__ITEM_SWAP)
			continue;
		nam__batch_word_cas(&batch, item->head, 0, item->base.raw, item->at.raw,
			item->move);
		if (item->base.raw)
			nam__batch_word_cas(&batch, item->base, current, item->base_timestamp,
				txn->mark, item->claim);
	}
	rc = nam_batch_await(&batch);
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].state == NAM__ITEM_SWAP)
			swap_then_claim_came(txn, &txn->items[i]);
	return rc ? rc : nam__txn_commit(txn);
}

/*
 * Violates G3: of the two commits of a collector, the others' and then the leader's, the leader's
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
	if (!NAM_GUARD(VERSION_WAIT) && mutant.commit == nam__txn_commit)
		mutant.commit = commit_then_free;
	if (!NAM_GUARD(LEADER_LAST))
		mutant.commit = commit_leader_first;
	records->ops = &mutant;
}

/* ---- splits ------------------------------------------------------------------------------- */

/*
 * A split violates I1 if the link to the right node comes before that node, and I14 if its name
 * comes before the link.
 */
static int
split_out_of_order(struct nam_worker *worker, struct nam_index *index, struct nam__held *held,
	const uint64_t *key, uint64_t value)
{
	bool sibling_first = NAM_GUARD(SIBLING_FIRST), named_last = NAM_GUARD(NAMED_LAST);
	unsigned level = nam__node_level(held->image) + 1;
	uint64_t *right = nam_buffer_take(worker, index->g.node_bytes);
	struct nam__key separator;
	struct nam__dirty dirty;
	struct nam_gaddr at;
	uint32_t generation;
	int rc = nam__node_alloc(worker, index, false, &at, &generation);

	if (rc)
		litmus_fail("no node for a split: %s", nam_err_name(rc));
	nam_race_point("split.allocated");
	nam__node_divide(&index->g, held->image,
		nam__division_point(&index->g, held->image, key), right, generation, &dirty);
	nam__add_to_half(&index->g, held->image, right, key, value, &dirty);
	memcpy(separator.w, nam__node_low(right), 8 * index->g.full_words);
	if (sibling_first)
		rc = nam__new_node_await(worker, index, at, right);
	if (!named_last && !rc)
		rc = index->inner->separator_add(worker, index, separator.w, at, level);
	nam_race_point("split.sibling_written");
	held->image[NAM__WORD_SIBLING] = at.raw;
	if (!rc)
		rc = nam__write_unlock(worker, index, held, dirty, NAM__HEADER_FENCES);
	nam_race_point("split.left_written");
	if (!sibling_first && !rc)
		rc = nam__new_node_await(worker, index, at, right);
	if (named_last && !rc)
		rc = index->inner->separator_add(worker, index, separator.w, at, level);
	nam_buffer_give(worker, right, index->g.node_bytes);
	return rc;
}

/* Violates I15: a client that meets a lock of a dead collector's merge completes it by itself. */
static int
take_beside_others(struct nam_worker *worker, void *index, struct nam_gaddr at, uint64_t dead,
	uint64_t word, void *image)
{
	int rc = dead & NAM_LOCK_MERGES ? nam__merge_resume(worker, index) : 0;

	return rc ? rc : nam__node_take(worker, index, at, dead, word, image);
}

void
litmus_mutate_index(struct nam_index *index)
{
	static struct nam__inner_ops mutant;

	if (!NAM_GUARD(INTENT_ALONE))
		index->recovery.take = take_beside_others;
	if (NAM_GUARD(SIBLING_FIRST) && NAM_GUARD(NAMED_LAST))
		return;
	mutant = index->leaves ? nam__inner_rpc : nam__inner_nodes;
	mutant.split_unlock = split_out_of_order;
	if (index->inner)
		index->inner = &mutant;
	for (uint32_t i = 0; index->leaves && i < index->parts->count; i++)
		index->leaves[i]->inner = &mutant;
}
