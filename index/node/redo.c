/* SPDX-License-Identifier: Apache-2.0 */
#include "index/node/redo.h"

enum nam__redo_kind
nam__redo_read(const struct nam__geometry *g, const uint64_t *record, struct nam__dirty *ret_dirty,
	enum nam__header_part *ret_part)
{
	uint64_t note = record[NAM__REDO_NOTE];
	unsigned kind = (unsigned)(note >> 48), part = (unsigned)(note >> 32) & 0xffff;
	struct nam__dirty dirty = { (uint32_t)note & 0xffff, (uint32_t)(note >> 16) & 0xffff };

	if (part > NAM__HEADER_FENCES || dirty.end > g->node_words - 1 ||
		(dirty.end && (dirty.first < g->entries_at || dirty.first >= dirty.end)) ||
		(kind == NAM__REDO_HERE && !nam__redo_fits(dirty, part)))
		return NAM__REDO_NONE;
	*ret_dirty = dirty;
	*ret_part = part;
	return kind == NAM__REDO_HERE || kind == NAM__REDO_ELSEWHERE ? kind : NAM__REDO_NONE;
}

void
nam__redo_apply(const struct nam__geometry *g, uint64_t *image, const uint64_t *record,
	const uint64_t *block, struct nam__dirty dirty, enum nam__header_part part)
{
	struct nam__dirty words = nam__redo_elsewhere(g, dirty, part);

	if (block)
		memcpy(image + words.first, block + words.first, 8 * nam__dirty_words(words));
	else
		memcpy(image + dirty.first, record + NAM__REDO_ENTRIES,
			8 * nam__dirty_words(dirty));
	if (part >= NAM__HEADER_SIBLING)
		image[NAM__WORD_SIBLING] = record[NAM__REDO_SIBLING];
	image[NAM__WORD_HASH] = record[NAM__REDO_HASH];
	image[NAM__WORD_FRONT] = image[g->node_words - 1] = record[NAM__REDO_FRONT];
	image[NAM__WORD_SHAPE] = record[NAM__REDO_SHAPE];
}
