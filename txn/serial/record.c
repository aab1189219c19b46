/* SPDX-License-Identifier: Apache-2.0 */
/* record.c -- records in place: sealed, and verified by their readers. */
#include "serial.h"

#include "common/hash/hash.h"

/* The hash of all bytes behind it. */
static uint64_t
hash_of(const struct nam_serial_record *record, struct nam_gaddr at)
{
	const size_t from = offsetof(struct nam_serial_record, sequence);

	return nam_mix64(nam_hash64((const uint8_t *)record + from,
		nam__serial_bytes(record->key_bytes, record->value_bytes) - from) ^
		nam_mix64(at.raw));
}

void
nam__serial_seal(struct nam_serial_record *record, struct nam_gaddr at)
{
	record->hash = hash_of(record, at);
}

/* Z1 */
bool
nam__serial_whole(const struct nam_txn_store *store, const struct nam_serial_record *image,
	struct nam_gaddr at)
{
	/* Lengths first: they say how much the hash is of. */
	return image->key_bytes <= store->options.key_bytes_max &&
	       image->value_bytes <= store->options.value_bytes_max &&
	       image->store == store->store &&
	       (image->hash == hash_of(image, at) || !NAM_GUARD(SERIAL_HASH));
}

/* Z1: the word is that of the bytes behind it. */
enum nam__serial_look
nam__serial_look(const struct nam_txn_store *store, const struct nam_serial_record *image,
	struct nam_gaddr at)
{
	if (nam__serial_locked(image->word) && NAM_GUARD(SERIAL_LOCKED))
		return NAM__SERIAL_LOCKED;
	if (!nam__serial_whole(store, image, at) ||
		(image->word != image->sequence && NAM_GUARD(SERIAL_LOCKED)))
		return NAM__SERIAL_TORN;
	return NAM__SERIAL_WHOLE;
}

int
nam__serial_dropped(struct nam_worker *worker, const struct nam_txn_store *store)
{
	return nam_diag_set(&worker->diag, -NAM_E_DROPPED, "store '%s' was dropped since it was "
		"opened: close it, and open the one that has its name now", store->name);
}
