/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c -- logs of transactions that commit.
 *
 * A client has as many logs as it has had transactions at once.  They are a list in remote memory,
 * which begins in the log directory, and stay there when the client has ended.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/hash/hash.h"
#include "serial.h"

#define CAPACITY_MIN 4096u

static uint64_t
hash_of(const struct nam_serial_log *log, struct nam_gaddr at)
{
	const size_t from = offsetof(struct nam_serial_log, word);

	return nam_mix64(nam_hash64((const uint8_t *)log + from, log->bytes - from) ^
		nam_mix64(at.raw));
}

bool
nam__serial_log_whole(const struct nam_txn_store *store, const struct nam_serial_log *log,
	struct nam_gaddr at, uint32_t bytes)
{
	return log->bytes == bytes && log->store == store->store && log->hash == hash_of(log, at);
}

/* ---- a new one ------------------------------------------------------------------------------- */

/* Z6: first WRITE its header, which leads to `head`, and then let the directory lead to it. */
NAM_FIBER_FN static int
publish(struct nam_worker *worker, struct nam_txn_store *store, struct nam__serial_log_block *block,
	struct nam_serial_log *header, uint64_t cas[2])
{
	const uint32_t offset = 8u * store->client->id;
	struct nam_batch batch;
	uint64_t head = 0;
	int rc;

	do {
		*header = (struct nam_serial_log){ .next = head, .store = store->store,
			.capacity = block->capacity };
		rc = nam_write_await(worker, block->at, header, sizeof(*header)); /* SUSPENDS */
		if (rc)
			return rc;
		block->next = head;
		nam_batch_init(&batch, worker);
		nam__batch_word_cas(&batch, NAM_GADDR(store->shape.logs), offset, head,
			block->at.raw, cas);
		rc = nam_batch_await(&batch); /* SUSPENDS */
		head = rc ? head : nam__word_now(cas, head, block->at.raw);
	} while (!rc && head != block->at.raw);
	return rc;
}

NAM_FIBER_FN static int
block_make(struct nam_worker *worker, struct nam_txn_store *store, uint32_t bytes,
	struct nam__serial_log_block **ret_block)
{
	struct nam__serial_log_block *block = calloc(1, sizeof(*block));
	struct nam_serial_log *header = nam_buffer_take(worker, sizeof(*header) + 64);
	int rc = block && header ? 0 : -ENOMEM;

	if (!rc) {
		block->capacity = CAPACITY_MIN;
		while (block->capacity < bytes)
			block->capacity *= 2;
		rc = nam_alloc(worker, block->capacity, &block->at); /* SUSPENDS */
	}
	if (!rc) {
		block->at = nam_gaddr_untagged(block->at);
		rc = publish(worker, store, block, header, header->entries); /* SUSPENDS */
		if (rc && !nam_err_is(rc, NAM_E_FABRIC))
			nam_free_unseen(worker, block->at, block->capacity);
	}
	if (header)
		nam_buffer_give(worker, header, sizeof(*header) + 64);
	if (rc)
		free(block);
	else
		*ret_block = block;
	return rc;
}

/* ---- those that are free --------------------------------------------------------------------- */

int
nam__serial_log_take(struct nam_worker *worker, struct nam_txn_store *store, uint32_t bytes,
	struct nam__serial_log_block **ret_block)
{
	for (uint32_t i = 0; i < NAM__SERIAL_LOGS_FREE; i++) {
		struct nam__serial_log_block *block = atomic_load_explicit(&store->logs[i],
			memory_order_relaxed);

		if (!block)
			continue;
		/* Acquire: pairs with the release in nam__serial_log_give(). */
		block = atomic_exchange_explicit(&store->logs[i], NULL, memory_order_acquire);
		if (!block)
			continue;
		if (block->capacity >= bytes) {
			*ret_block = block;
			return 0;
		}
		nam__serial_log_give(store, block);
	}
	return block_make(worker, store, bytes, ret_block); /* SUSPENDS */
}

void
nam__serial_log_give(struct nam_txn_store *store, struct nam__serial_log_block *block)
{
	for (uint32_t i = 0; i < NAM__SERIAL_LOGS_FREE; i++) {
		struct nam__serial_log_block *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&store->logs[i], &none, block,
				memory_order_release, memory_order_relaxed))
			return;
	}
	/* The log stays in the directory.  Another one is made when one is wanted. */
	free(block);
}

void
nam__serial_logs_free(struct nam_txn_store *store)
{
	for (uint32_t i = 0; i < NAM__SERIAL_LOGS_FREE; i++)
		free(atomic_load(&store->logs[i]));
}

/* Z5: the caller awaits it before it writes a record. */
int
nam__serial_log_write(struct nam_worker *worker, struct nam_txn_store *store,
	const struct nam__serial_log_block *block, struct nam_serial_log *log)
{
	log->next = block->next;
	log->capacity = block->capacity;
	log->store = store->store;
	log->reserved[0] = log->reserved[1] = 0;
	log->hash = hash_of(log, block->at);
	return NAM_GUARD(SERIAL_LOG) ? nam__serial_means_of(store, NAM__SERIAL_LOG)->log(worker,
		store, block->at, log) : 0; /* SUSPENDS */
}
