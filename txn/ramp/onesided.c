/* SPDX-License-Identifier: Apache-2.0 */
/* onesided.c -- prepare by WRITE (R3); a drop, which commits nothing in place of all versions. */
#include "compute/remote/batch.h"
#include "txn/records/protocols.h"

/* R3: WRITE all versions.  @look	READ the heads as well, the first time */
NAM_FIBER_FN static int
versions_write(struct nam__txn *txn, bool look)
{
	struct nam_batch batch;
	int rc;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		if (batch.count + 2 > NAM_BATCH_MAX)
			nam__batch_post(&batch);
		nam__batch_unseen_write(&batch, item->at, item->image,
			nam__version_at_bytes(item->at));
		if (look)
			nam_batch_read(&batch, item->head, &item->word, NAM__HEAD_READ_BYTES);
	}
	rc = nam_batch_await(&batch); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc && look; i++)
		nam__item_base_found(txn, &txn->items[i]);
	return rc;
}

int
nam__onesided_prepare(struct nam__txn *txn)
{
	int rc = versions_write(txn, true); /* SUSPENDS */

	if (!rc)
		rc = nam__txn_find_bases(txn); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].dropped)
			rc = nam__records_dropped(txn->worker, txn->records);
	return rc;
}

int
nam__onesided_prepare_again(struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].state = NAM__ITEM_SWAP;
	return versions_write(txn, false); /* SUSPENDS */
}

int
nam__onesided_close(struct nam__txn *txn)
{
	const uint64_t none = 0;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++) {
		txn->items[i].at.raw = NAM_RECORD_DROPPED;
		txn->items[i].timestamp = UINT64_MAX;
	}
	rc = nam__txn_commit(txn); /* SUSPENDS */
	/* R10: no head is of the store any more. */
	return rc ? rc : nam__heads_write(txn, false, sizeof(uint64_t), &none,
		sizeof(none)); /* SUSPENDS */
}
