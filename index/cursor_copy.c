/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cursor_copy.c -- entries where they are, for designs that deliver keys and payloads apart.
 */
#include <errno.h>

#include "index/design.h"

/* The buffer holds the entries, then the payloads, then the keys. */
int
nam__cursor_next_copied(struct nam_cursor *cursor, struct nam_entries *ret_entries)
{
	const struct nam__geometry *g = &cursor->index->g;
	/* Entries that fit, each with the payload and the key that it is made of. */
	const uint32_t most = NAM__COPIED_BYTES / (8 * g->leaf_words + 8 + g->key_bytes);
	uint64_t *entries, *payloads;
	uint8_t *keys;
	int rc;

	if (!cursor->copied)
		cursor->copied = nam_buffer_take(cursor->worker, NAM__COPIED_BYTES);
	entries = cursor->copied;
	if (!entries)
		return -ENOMEM;
	payloads = entries + most * g->leaf_words;
	keys = (uint8_t *)(payloads + most);
	rc = cursor->index->ops->cursor_next(cursor, keys, payloads, most,
		&ret_entries->count); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < ret_entries->count; i++) {
		struct nam__key key;

		nam__key_encode(g, keys + (size_t)i * g->key_bytes, 0, &key);
		memcpy(entries + i * g->leaf_words, key.w, 8 * g->key_words);
		entries[i * g->leaf_words + g->key_words] = payloads[i];
	}
	ret_entries->first = entries;
	ret_entries->stride_words = (int32_t)g->leaf_words;
	return 0;
}
