/* SPDX-License-Identifier: Apache-2.0 */
/* leaves.c -- scans that note each leaf, and leaves that are compared with their notes. */
#include <errno.h>

#include "common/hash/hash.h"
#include "index/leaves.h"
#include "index/validate.h"
#include "scan_internal.h"

_Static_assert(NAM__WORD_HASH == 1 && NAM__WORD_FRONT == 2, "a stamp is these two words");

/* ---- digests --------------------------------------------------------------------------------- */

static uint64_t
digest_of(const uint64_t *words, unsigned count, uint64_t digest)
{
	for (unsigned i = 0; i < count; i++)
		digest = nam_mix64(digest ^ words[i]);
	return digest;
}

static uint64_t
leaf_digest(const struct nam__geometry *g, uint64_t *image)
{
	uint64_t sum = digest_of(nam__node_low(image), g->full_words, 1);

	if (!nam__node_last(image))
		sum += digest_of(nam__node_high(g, image), g->full_words, 2);
	for (unsigned i = 0; i < nam__node_count(image); i++)
		sum += digest_of(nam__leaf_entry(g, image, i), g->leaf_words, 0);
	return sum;
}

static void
leaf_note(const struct nam__geometry *g, uint64_t *image, struct nam_gaddr at,
	struct nam__leaf_note *ret)
{
	*ret = (struct nam__leaf_note){
		.at = at,
		.stamp = { image[NAM__WORD_HASH], image[NAM__WORD_FRONT] },
		.digest = leaf_digest(g, image),
		.low = nam__node_low(image)[0],
		.high = nam__node_last(image) ? UINT64_MAX : nam__node_high(g, image)[0],
	};
}

/* ---- scans ----------------------------------------------------------------------------------- */

int
nam__leaves_open(struct nam_worker *worker, struct nam_index *index, const struct nam_range *range,
	struct nam_cursor **ret_cursor)
{
	const struct nam_index_traits *traits = nam_index_traits(index->options.design);

	if (traits->partitioned || !traits->client_levels)
		return nam_diag_set(&worker->diag, -NAM_E_DESIGN, "index '%s' is %s: transactions "
			"READ the leaves that they validate, so it must be fine-grained",
			index->name, traits->name);
	return nam_cursor_open(worker, index, range, ret_cursor);
}

int
nam__leaves_next(struct nam_cursor *head, struct nam__leaf_note *ret_note,
	struct nam_entries *ret_entries, bool *ret_more)
{
	struct nam__scan *cursor = (struct nam__scan *)head;
	const struct nam__geometry *g = &cursor->head.index->g;
	uint32_t count;
	int rc = nam__scan_next_leaf(cursor); /* SUSPENDS */

	*ret_more = !rc && cursor->leaf;
	if (!*ret_more)
		return rc;
	leaf_note(g, cursor->leaf, cursor->addresses[nam__scan_slot(cursor, cursor->next - 1)],
		ret_note);
	count = cursor->leaf_end > cursor->leaf_at ? cursor->leaf_end - cursor->leaf_at : 0;
	*ret_entries = (struct nam_entries){
		.first = nam__leaf_entry(g, cursor->leaf, cursor->reverse && count ?
			cursor->leaf_end - 1 : cursor->leaf_at),
		.stride_words = cursor->reverse ? -(int32_t)g->leaf_words : (int32_t)g->leaf_words,
		.key_bytes = g->key_bytes,
		.count = count,
	};
	cursor->remaining -= count < cursor->remaining ? count : cursor->remaining;
	return 0;
}

void
nam__leaves_close(struct nam_cursor *cursor)
{
	nam_cursor_close(cursor); /* SUSPENDS */
}

/* ---- notes ----------------------------------------------------------------------------------- */

bool
nam__leaf_may_cover(const struct nam_index *index, const struct nam__leaf_note *note,
	const void *key)
{
	struct nam__key full;

	nam__key_encode(&index->g, key, 0, &full);
	return full.w[0] >= note->low && full.w[0] <= note->high;
}

int
nam__leaf_again(struct nam_worker *worker, struct nam_index *index,
	const struct nam_index_change *insertions, uint32_t count, struct nam__leaf_note *note)
{
	const struct nam__geometry *g = &index->g;
	uint64_t *image = nam_buffer_take(worker, g->node_bytes), expected = note->digest;
	struct nam__leaf_note now;
	int rc;

	if (!image)
		return -ENOMEM;
	rc = nam__node_read(worker, index, note->at, 0, image); /* SUSPENDS */
	if (!rc) {
		leaf_note(g, image, note->at, &now);
		for (uint32_t i = 0; i < count; i++) {
			struct nam__key entry;

			nam__key_encode(g, insertions[i].key, insertions[i].payload, &entry);
			if (insertions[i].rc || !nam__node_covers(image, entry.w, g->full_words))
				continue;
			entry.w[g->key_words] = insertions[i].payload;
			expected += digest_of(entry.w, g->leaf_words, 0);
		}
		/* I18: changes of other tasks may have gone with these. */
		if (!NAM_GUARD(SERIAL_AGAIN))
			expected = now.digest;
		*note = now.digest == expected ? now : *note;
	}
	nam_buffer_give(worker, image, g->node_bytes);
	if (rc && !nam_err_is(rc, NAM_E_RESTART))
		return rc;
	return rc || now.digest != expected ? -NAM_E_CONFLICT : 0;
}
