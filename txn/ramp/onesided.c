/* SPDX-License-Identifier: Apache-2.0 */
/* onesided.c -- prepare by WRITE (R3), and the slots of a commit by CAS (commit.c; D2). */
#include "txn/records/protocols.h"

/* WRITE all versions.  @look	READ the heads as well, the first time */
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
		nam_batch_write(&batch, item->at, 0, item->image, nam__version_at_bytes(item->at));
		if (look)
			nam_batch_read(&batch, item->head, &item->word, sizeof(item->word));
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

	return rc ? rc : nam__txn_find_bases(txn); /* SUSPENDS */
}

int
nam__onesided_prepare_again(struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].state = NAM__ITEM_SWAP;
	return versions_write(txn, false); /* SUSPENDS */
}
