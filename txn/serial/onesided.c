/* SPDX-License-Identifier: Apache-2.0 */
/* onesided.c -- phases of transactions by READ, CAS and WRITE. */
#include "compute/remote/lock_slot.h"
#include "serial.h"

#define APART (NAM_TXN_ONE_AT_A_TIME | NAM_TXN_ONE_DOORBELL_EACH)

void
nam__serial_apart(const struct nam_txn_store *store, struct nam_batch *batch)
{
	if (!(store->phases & APART))
		return;
	/* Requests that are posted before the wait are never repeated. */
	if (!batch->worker->client->backed)
		nam__batch_post(batch);
	if (store->phases & NAM_TXN_ONE_AT_A_TIME)
		batch->rc = nam_batch_await(batch); /* SUSPENDS */
}

/* ---- execution, validation ------------------------------------------------------------------- */

int
nam__serial_reads_await(struct nam_txn *txn, const struct nam__read *reads, uint32_t count)
{
	struct nam_batch batch;

	if (count <= NAM_BATCH_MAX && !(txn->store->phases & APART))
		return count ? nam__reads_await(txn->worker, reads, count) : 0; /* SUSPENDS */
	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < count; i++) {
		nam__serial_batch_room(&batch, 1); /* SUSPENDS */
		nam_batch_read(&batch, reads[i].at, reads[i].local, reads[i].bytes);
		nam__serial_apart(txn->store, &batch); /* SUSPENDS */
	}
	return nam_batch_await(&batch); /* SUSPENDS */
}

NAM_FIBER_FN static int
all_read(struct nam_txn *txn, uint32_t count)
{
	return nam__serial_reads_await(txn, txn->reads, count); /* SUSPENDS */
}

/* ---- words ----------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
words_cas(struct nam_txn *txn, bool unlock)
{
	struct nam_batch batch;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__serial_item *item = &txn->items[i];

		if (unlock ? !item->locked : !item->next || item->locked)
			continue;
		nam__serial_batch_room(&batch, 1); /* SUSPENDS */
		/* Others are taken back, even if one cannot be. */
		if (unlock)
			batch.rc = 0;
		nam__batch_word_cas(&batch, item->at, 0, unlock ? txn->word : item->sequence,
			unlock ? item->sequence : txn->word, item->cas);
		nam__serial_apart(txn->store, &batch); /* SUSPENDS */
	}
	return nam_batch_await(&batch); /* SUSPENDS */
}

NAM_FIBER_FN static int
word_cas(struct nam_worker *worker, const struct nam_txn_store *store, struct nam_gaddr at,
	uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	(void)store;
	return nam_cas_await(worker, at, compare, swap, ret_old); /* SUSPENDS */
}

/* ---- log, write ------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
log_write(struct nam_worker *worker, const struct nam_txn_store *store, struct nam_gaddr at,
	const struct nam_serial_log *log)
{
	(void)store;
	return nam_write_await(worker, at, log, log->bytes); /* SUSPENDS */
}

/* WRITE a record behind its word, which stays the lock (Z4). */
static void
write_add(const struct nam__serial_item *item, struct nam_batch *batch)
{
	const uint32_t from = offsetof(struct nam_serial_record, hash);
	const struct nam_serial_record *next = item->next;

	nam_batch_write(batch, item->at, from, (const uint8_t *)next + from,
		nam__serial_bytes(next->key_bytes, next->value_bytes) - from);
}

/* Z4: a record's lock becomes the new sequence, once all of it is written. */
static void
release_add(struct nam_txn *txn, struct nam__serial_item *item, struct nam_batch *batch)
{
	nam__batch_word_cas(batch, item->at, 0, txn->word, txn->sequence, item->cas);
}

/*
 * Z4: each record is written before its lock is released.  Both go with one doorbell if the fabric
 * keeps their order, and they are not repeated at a backup.  Otherwise another transaction may have
 * the lock by then.
 */
NAM_FIBER_FN static int
all_write(struct nam_txn *txn)
{
	const struct nam_client *client = txn->worker->client;
	bool together = (client->caps & NAM_CAP_ORDER_WRITE_ATOMIC) && !client->backed;
	struct nam_batch batch;
	int rc = 0;

	nam_batch_init(&batch, txn->worker);
	for (uint32_t pass = together; pass < 2 && !rc; pass++) {
		for (uint32_t i = 0; i < txn->count; i++) {
			struct nam__serial_item *item = &txn->items[i];

			if (!item->next)
				continue;
			/* Requests that are posted before the wait are never repeated. */
			if (together && batch.count + 2 > NAM_BATCH_MAX)
				nam__batch_post(&batch);
			nam__serial_batch_room(&batch, 2); /* SUSPENDS */
			if (pass == 0 || together)
				write_add(item, &batch);
			if (pass == 1)
				release_add(txn, item, &batch);
			nam__serial_apart(txn->store, &batch); /* SUSPENDS */
		}
		if (together)
			nam__batch_post(&batch);
		rc = nam_batch_await(&batch); /* SUSPENDS */
		nam_race_point("serial.written");
	}
	return rc;
}

const struct nam__serial_means nam__serial_onesided = {
	.read = all_read,
	.words_cas = words_cas,
	.word_cas = word_cas,
	.log = log_write,
	.write = all_write,
};
