/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c -- transactions that write: prepare by WRITE, commit by CAS.
 *
 * Prepare: every version is WRITTEN to a block of its record's memory server, and names the others
 * with their addresses.  No reader can see any of them.  Commit, after all WRITEs have completed
 * (R3): each head is moved to its version.  From the first one on, readers find the others through
 * it.  If the client dies before, its blocks are lost; if it dies later, readers complete the
 * transaction.
 */
#include <errno.h>
#include <string.h>

#include "compute/remote/reclaim.h"
#include "txn/records/ops.h"
#include "txn/records/protocols.h"
#include "txn/server/records.h"

#define LIMBO_PAUSE_NS 2000000ull
#define AGAIN_MAX 100u	/* a transaction begins anew after its addresses were forgotten */

/* ---- records that are new -------------------------------------------------------------------- */

/* On a memory server that has room.  If one turns out to be full, it is not chosen again. */
NAM_FIBER_FN static int
head_place(struct nam__txn *txn, struct nam__item *item)
{
	struct nam_worker *worker = txn->worker;
	const struct nam_client *client = txn->records->client;
	int rc = -NAM_E_REMOTE_FULL;

	for (uint32_t i = 0; rc == -NAM_E_REMOTE_FULL && i < client->servers_count; i++)
		rc = nam_alloc_on(worker, nam_alloc_slot(client,
			(uint32_t)(item->id.word[0] >> 32)), NAM_RECORD_HEAD_BYTES,
			&item->head); /* SUSPENDS */
	item->head = rc ? NAM_GADDR_NULL : nam_gaddr_untagged(item->head);
	item->made = !rc;
	return rc;
}

/* The same bytes into all heads, or into those that are new (R10). */
int
nam__heads_write(struct nam__txn *txn, bool made, uint32_t offset, const void *bytes,
	uint32_t count)
{
	void *local = nam_buffer_take(txn->worker, count);
	struct nam_batch batch;
	int rc;

	if (!local)
		return -ENOMEM;
	memcpy(local, bytes, count);
	nam_batch_init(&batch, txn->worker);
	for (uint32_t i = 0; i < txn->count; i++)
		if (!made || txn->items[i].made)
			nam_batch_write(&batch, txn->items[i].head, offset, local, count);
	rc = nam_batch_await(&batch); /* SUSPENDS */
	nam_buffer_give(txn->worker, local, count);
	return rc;
}

/* R11: enter a head into the index, or find the one that another client has just entered. */
NAM_FIBER_FN static int
head_enter(struct nam__txn *txn, struct nam__item *item)
{
	struct nam_index *keys = txn->records->keys;
	struct nam_gaddr head = item->head;
	int rc;

	nam_race_point("records.head");
	rc = nam_index_insert(txn->worker, keys, item->id.word, head.raw); /* SUSPENDS */
	if (!rc || nam_err_is(rc, NAM_E_FABRIC)) {
		item->made = false;
	} else if (rc == -NAM_E_EXISTS) {
		rc = nam_index_lookup(txn->worker, keys, item->id.word,
			&item->head.raw); /* SUSPENDS */
		nam_free_unseen(txn->worker, head, NAM_RECORD_HEAD_BYTES);
		item->made = false;
	}
	return rc;
}

/* For the records that have none. */
NAM_FIBER_FN static int
heads_make(struct nam__txn *txn)
{
	/* R10: heads of this store, which lead nowhere. */
	const struct nam__server_head empty = { .tag = nam__record_tag(txn->records->store) };
	uint32_t count = 0;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		if (!nam_gaddr_is_null(txn->items[i].head))
			continue;
		rc = head_place(txn, &txn->items[i]); /* SUSPENDS */
		count++;
	}
	/* R11: the heads are written before the index leads to them. */
	if (count && !rc)
		rc = nam__heads_write(txn, true, 0, &empty, sizeof(empty)); /* SUSPENDS */
	for (uint32_t i = 0; i < txn->count && !rc; i++)
		if (txn->items[i].made)
			rc = head_enter(txn, &txn->items[i]); /* SUSPENDS */
	/* After a broken connection a WRITE may be in flight. */
	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].made && nam_err_is(rc, NAM_E_FABRIC))
			nam__block_leaked(txn->records->client, NAM_RECORD_HEAD_BYTES);
		else if (txn->items[i].made)
			nam_free_unseen(txn->worker, txn->items[i].head, NAM_RECORD_HEAD_BYTES);
	return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint32_t
length_of(const struct nam__txn *txn, uint32_t number, const struct nam_record_put *put)
{
	return nam__version_length(nam__metadata_bytes(txn, number), put->key_bytes,
		put->value_bytes);
}

/* No head that the transaction knows has been forgotten, while it had no pin. */
static bool
heads_are_good(const struct nam__txn *txn)
{
	return txn->generation == nam__generation(txn->records->client);
}

/* Versions that memory servers keep are given up; the heads stay what they are meanwhile. */
NAM_FIBER_FN static int
heads_sweep(struct nam__txn *txn)
{
	uint64_t epoch = nam__epoch_pin(txn->worker);
	int rc = heads_are_good(txn) ? txn->records->ops->sweep(txn) : 0; /* SUSPENDS */

	nam__epoch_unpin(txn->worker, epoch);
	return rc;
}

/*
 * A block for a version.  If memory is full, the writer waits until replaced versions can be reused
 * (R7); without a pin, for which reuse would wait.
 */
NAM_FIBER_FN static int
block_take(struct nam__txn *txn, struct nam__item *item, uint32_t bytes)
{
	struct nam_worker *worker = txn->worker;
	uint64_t deadline_ns = nam_now_ns() + worker->client->options.lock_timeout_ms * 1000000ull;
	/* Memory servers retire versions some time after these are replaced. */
	bool served = txn->records->ops->served;
	struct nam_gaddr block;
	uint64_t reusable = 0;
	uint16_t slot = nam__server_slot(worker->client, item->head);
	int rc, swept, limbo_rc = 0;

	if (slot == NAM__NO_SLOT)
		return nam__version_misled(worker, txn->records);
	for (;;) {
		swept = 0;
		rc = nam_alloc_on(worker, slot, nam__version_stride(bytes), &block); /* SUSPENDS */
		if (rc != -NAM_E_REMOTE_FULL || limbo_rc || nam_now_ns() >= deadline_ns ||
			!(served || nam__limbo_bytes(worker)))
			break;
		limbo_rc = heads_sweep(txn); /* SUSPENDS */
		if (!limbo_rc)
			limbo_rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
		/* The entries of rows go before the memory (T2). */
		if (!limbo_rc && txn->records->rows)
			swept = txn->records->rows_sweep(worker, txn->records->tables,
				UINT32_MAX); /* SUSPENDS */
		limbo_rc = swept < 0 ? swept : limbo_rc;
		reusable += swept > 0 ? (uint64_t)swept : 0;
		if (!reusable)
			nam__pause_await(worker, LIMBO_PAUSE_NS); /* SUSPENDS */
	}
	if (rc)
		return rc;
	item->at = nam__version_at(nam_gaddr_untagged(block), bytes);
	item->owned = true;
	return 0;
}

NAM_FIBER_FN static int
blocks_take(struct nam__txn *txn, const struct nam_record_put *puts)
{
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc; i++) {
		uint32_t bytes = nam__version_bytes(length_of(txn, i, &puts[i]));

		rc = nam__item_room(txn, &txn->items[i], bytes);
		if (!rc)
			rc = block_take(txn, &txn->items[i], bytes); /* SUSPENDS */
	}
	return rc;
}

/* No reader has seen the blocks; but after a broken connection a WRITE may be in flight. */
static void
blocks_give(struct nam__txn *txn, bool broken)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];
		uint32_t stride;

		if (!item->owned)
			continue;
		stride = nam__version_stride(nam__version_at_bytes(item->at));
		if (broken)
			nam__block_leaked(txn->records->client, stride);
		else
			nam_free_unseen(txn->worker, nam_gaddr_untagged(item->at), stride);
	}
}

/* ---- prepare --------------------------------------------------------------------------------- */

/* All but the siblings and the timestamp. */
static void
image_fill(struct nam__txn *txn, uint32_t number, const struct nam_record_put *put)
{
	const struct nam__item *item = &txn->items[number];
	uint32_t length = length_of(txn, number, put);
	struct nam_version *version = item->image;
	uint8_t *at;

	*version = (struct nam_version){
		.store = txn->records->store,
		.head = item->head.raw,
		.key_id = item->id.word[0],
		.value_bytes = put->value_bytes,
		.metadata_bytes = (uint16_t)nam__metadata_bytes(txn, number),
		.key_bytes = (uint8_t)put->key_bytes,
		.deleted = !put->value,
	};
	at = (uint8_t *)nam__version_metadata(version) + version->metadata_bytes;
	memcpy(at, put->key, put->key_bytes);
	if (put->value_bytes)
		memcpy(at + put->key_bytes, put->value, put->value_bytes);
	memset((uint8_t *)version + length, 0, nam__version_bytes(length) - length);
}

void
nam__txn_stamp(struct nam__txn *txn)
{
	txn->timestamp = nam__timestamp_next(txn->records->client);
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		item->timestamp = item->image->timestamp = txn->timestamp;
		nam__version_seal(item->image, item->at);
	}
}

/*
 * R4: other hosts' clocks may be ahead.  The replaced version must be older; otherwise it would win
 * over this transaction although it was there before.
 */
NAM_FIBER_FN static int
stamp_later(struct nam__txn *txn)
{
	uint64_t latest = 0;
	int rc;

	for (uint32_t i = 0; i < txn->count; i++)
		if (txn->items[i].base_timestamp > latest)
			latest = txn->items[i].base_timestamp;
	if (latest < txn->timestamp || !NAM_GUARD(COMMIT_FORWARD))
		return 0;
	nam__timestamp_seen(txn->records->client, latest);
	rc = txn->records->ops->withdraw(txn); /* SUSPENDS */
	if (rc)
		return rc;
	nam__txn_stamp(txn);
	return txn->records->ops->prepare_again(txn); /* SUSPENDS */
}

/* ---- all of a transaction -------------------------------------------------------------------- */

int
nam__ramp_put(struct nam__txn *txn, bool *ret_unused)
{
	int rc;

	nam__txn_stamp(txn);
	rc = txn->records->ops->prepare(txn); /* SUSPENDS */
	/* R4: later than the versions that it replaces. */
	if (!rc)
		rc = stamp_later(txn); /* SUSPENDS */
	if (rc) {
		/* After a broken connection a WRITE may be in flight. */
		*ret_unused = !nam_err_is(rc, NAM_E_FABRIC) &&
			txn->records->ops->withdraw(txn) == 0; /* SUSPENDS */
		return rc;
	}
	txn->prepared = true;
	nam_race_point("records.prepared");
	/* R3: all versions can be READ by now. */
	rc = txn->records->ops->commit(txn); /* SUSPENDS */
	/* Committed or late: in both cases each was the latest during this operation. */
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].latest = true;
	return rc;
}

static int
check(struct nam__txn *txn, const struct nam_record_put *puts, uint32_t count)
{
	struct nam_worker *worker = txn->worker;
	bool again;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t bytes = puts[i].value ? puts[i].value_bytes : 0;
		int rc = nam__txn_add(txn, puts[i].key, puts[i].key_bytes, &again);

		if (rc < 0)
			return rc;
		if (again)
			return nam_diag_set(&worker->diag, -EINVAL, "record store '%s': records %d "
				"and %u of a transaction have the same key: put each once",
				txn->records->name, rc + 1, i + 1);
		if (bytes != puts[i].value_bytes || bytes > NAM_RECORD_VALUE_BYTES_MAX)
			return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "record store '%s': a "
				"value of %u bytes; values have up to %u, and none where a record "
				"is deleted", txn->records->name, puts[i].value_bytes,
				NAM_RECORD_VALUE_BYTES_MAX);
	}
	return 0;
}

/*
 * Heads of new records, blocks, and what goes beside them.  All of it may need memory, so there is
 * no pin meanwhile.  Memory comes back only when older operations have ended.
 */
NAM_FIBER_FN static int
make(struct nam__txn *txn, const struct nam_record_put *puts, const struct nam__put_hooks *beside)
{
	int rc;

	nam__epoch_unpin(txn->worker, txn->epoch);
	rc = heads_make(txn); /* SUSPENDS */
	if (!rc)
		rc = blocks_take(txn, puts); /* SUSPENDS */
	/* The addresses of the versions are known, to this client only. */
	if (!rc && beside)
		rc = beside->make(txn, beside->arg); /* SUSPENDS */
	txn->epoch = nam__epoch_pin(txn->worker);
	return rc;
}

NAM_FIBER_FN static int
put_made(struct nam__txn *txn, const struct nam_record_put *puts, bool *ret_unused)
{
	int rc;

	nam__op_begin(txn->worker, NAM_OP_PUT_ALL);
	for (uint32_t i = 0; i < txn->count; i++)
		image_fill(txn, i, &puts[i]);
	nam__metadata_fill(txn);
	rc = txn->records->ops->put(txn, ret_unused); /* SUSPENDS */
	if (!rc)
		nam__txn_note(txn);
	nam__op_end(txn->worker);
	return rc;
}

/* NAM__STEP_MORE: once more, for blocks of other strides may be where heads were. */
NAM_FIBER_FN static enum nam__step
put_once(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, const struct nam__put_hooks *beside,
	uint64_t *ret_timestamp, int *ret_rc)
{
	enum nam__step step = NAM__STEP_DONE;
	struct nam__txn *txn;
	bool unused = true, undo;
	int rc;

	if (!count || count > NAM_RECORDS_MAX)
		return nam__step_failed(nam_diag_set(&worker->diag, -NAM_E_LIMIT, "record store "
			"'%s': %u records; a transaction has 1 to %u", records->name, count,
			NAM_RECORDS_MAX), ret_rc);
	txn = nam__txn_new(worker, records);
	if (!txn)
		return nam__step_failed(-ENOMEM, ret_rc);
	rc = check(txn, puts, count);
	if (!rc)
		rc = nam__txn_locate(txn); /* SUSPENDS */
	if (!rc) {
		rc = make(txn, puts, beside); /* SUSPENDS */
		if (!rc && !heads_are_good(txn))
			step = NAM__STEP_MORE;
		else if (!rc)
			rc = put_made(txn, puts, &unused); /* SUSPENDS */
		undo = (rc || step == NAM__STEP_MORE) && !txn->prepared;
		if (undo && beside)
			beside->unmake(txn, beside->arg); /* SUSPENDS */
		if (undo)
			blocks_give(txn, !unused);
	}
	if (ret_timestamp && txn->timestamp && (!rc || nam_err_is(rc, NAM_E_FABRIC)))
		*ret_timestamp = txn->timestamp;
	nam__txn_free(txn);
	return rc ? nam__step_failed(rc, ret_rc) : step;
}

int
nam__records_put(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, const struct nam__put_hooks *beside,
	uint64_t *ret_timestamp)
{
	unsigned tries = 0, again = 0;
	enum nam__step step;
	uint64_t reusable;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	do {
		rc = 0;
		step = put_once(worker, records, puts, count, beside, ret_timestamp,
			&rc); /* SUSPENDS */
	} while ((step == NAM__STEP_MORE && again++ < AGAIN_MAX) ||
		nam__memory_retry(worker, rc, &tries)); /* SUSPENDS */
	if (step == NAM__STEP_MORE)
		rc = -NAM_E_RESTART;
	/* R7: replaced versions can be reused some time later. */
	if (nam__limbo_due(worker) && nam__limbo_advance(worker, &reusable)) /* SUSPENDS */
		reusable = 0;	/* another time */
	return rc;
}

int
nam_records_put_all(struct nam_worker *worker, struct nam_records *records,
	const struct nam_record_put *puts, uint32_t count, uint64_t *ret_timestamp)
{
	return nam__records_put(worker, records, puts, count, NULL, ret_timestamp); /* SUSPENDS */
}
