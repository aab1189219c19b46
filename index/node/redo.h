/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redo.h -- the codec of redo records, which say what is about to be written of a node.
 *
 * A record lies behind its node, and is written under the node's lock, before the node (I20):
 *
 * offset size	field
 * 0	8	note	kind:16 (enum nam__redo_kind) | part:16 | end:16 | first:16: the entry words
 *			that change, and which words of the header
 * 8	24		hash, front and shape of the image that will be there
 * 32	32		NAM__REDO_HERE: these entry words, or the sibling; NAM__REDO_ELSEWHERE: the
 *			sibling, and the gaddr of a block that has fences and entries in their
 *			places of a node
 */
#ifndef NAM_INDEX_NODE_REDO_H
#define NAM_INDEX_NODE_REDO_H

#include "index/node/node.h"

enum nam__redo_kind { NAM__REDO_NONE, NAM__REDO_HERE, NAM__REDO_ELSEWHERE };

enum nam__redo_word {
	NAM__REDO_NOTE = 0,
	NAM__REDO_HASH,
	NAM__REDO_FRONT,
	NAM__REDO_SHAPE,
	NAM__REDO_ENTRIES,			/* of NAM__REDO_HERE */
	NAM__REDO_SIBLING = NAM__REDO_ENTRIES,
	NAM__REDO_BLOCK,			/* of NAM__REDO_ELSEWHERE */
	NAM__REDO_WORDS = NAM_NODE_STAGGER_BYTES / 8,
};
#define NAM__REDO_ENTRIES_MAX ((uint32_t)NAM__REDO_WORDS - NAM__REDO_ENTRIES)

/* The word behind those that a change of this part of the header has written. */
static inline uint32_t
nam__header_end(const struct nam__geometry *g, enum nam__header_part part)
{
	return part == NAM__HEADER_FENCES ? g->entries_at : NAM__WORD_SHAPE + (uint32_t)part;
}

/* Whether a record has room for the words themselves. */
static inline bool
nam__redo_fits(struct nam__dirty dirty, enum nam__header_part part)
{
	return part < NAM__HEADER_SIBLING ? nam__dirty_words(dirty) <= NAM__REDO_ENTRIES_MAX :
		part == NAM__HEADER_SIBLING && !nam__dirty_words(dirty);
}

/* The words that a block elsewhere has for a record. */
static inline struct nam__dirty
nam__redo_elsewhere(const struct nam__geometry *g, struct nam__dirty dirty,
	enum nam__header_part part)
{
	struct nam__dirty words = dirty;

	if (part == NAM__HEADER_FENCES) {
		words.first = NAM__WORD_LOW;
		words.end = nam__dirty_words(dirty) ? dirty.end : g->entries_at;
	}
	return words;
}

/* The record of a sealed image, without NAM__REDO_BLOCK.  Returns its bytes. */
static inline uint32_t
nam__redo_fill(uint64_t *record, const uint64_t *image, struct nam__dirty dirty,
	enum nam__header_part part)
{
	uint32_t words = nam__dirty_words(dirty);
	bool here = nam__redo_fits(dirty, part);

	if (!words)
		dirty.first = dirty.end = 0;
	record[NAM__REDO_NOTE] =
		(uint64_t)(here ? NAM__REDO_HERE : NAM__REDO_ELSEWHERE) << 48 |
		(uint64_t)part << 32 | (uint64_t)dirty.end << 16 | dirty.first;
	record[NAM__REDO_HASH] = image[NAM__WORD_HASH];
	record[NAM__REDO_FRONT] = image[NAM__WORD_FRONT];
	record[NAM__REDO_SHAPE] = image[NAM__WORD_SHAPE];
	if (part >= NAM__HEADER_SIBLING) {
		record[NAM__REDO_SIBLING] = image[NAM__WORD_SIBLING];
		return 8 * (here ? NAM__REDO_SIBLING + 1 : NAM__REDO_BLOCK + 1);
	}
	if (!here)
		return 8 * (NAM__REDO_BLOCK + 1);
	for (uint32_t i = 0; i < words; i++)
		record[NAM__REDO_ENTRIES + i] = image[dirty.first + i];
	return 8 * (NAM__REDO_ENTRIES + words);
}

/* The words that are to be written again, by a record that clients may have damaged. */
enum nam__redo_kind nam__redo_read(const struct nam__geometry *g, const uint64_t *record,
	struct nam__dirty *ret_dirty, enum nam__header_part *ret_part);

/* The image that a record leads to.  @block is its block elsewhere, or NULL. */
void nam__redo_apply(const struct nam__geometry *g, uint64_t *image, const uint64_t *record,
	const uint64_t *block, struct nam__dirty dirty, enum nam__header_part part);

#endif /* NAM_INDEX_NODE_REDO_H */
