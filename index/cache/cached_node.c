/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cached_node.c -- making a segment out of an inner node's image.
 */
#include <stdlib.h>

#include "cached_node.h"

/* Number of an upper half in the header, entered if it is new; -1: no room for another. */
static int
upper_number(struct nam__segment *segment, unsigned *uppers_count, uint32_t upper)
{
	for (unsigned i = 0; i < *uppers_count; i++)
		if (segment->uppers[i] == upper)
			return (int)i;
	if (*uppers_count == NAM__SEGMENT_UPPERS)
		return -1;
	segment->uppers[*uppers_count] = upper;
	return (int)(*uppers_count)++;
}

/* Fill narrow children; false if they do not fit. */
static bool
fill_narrow(const struct nam__geometry *g, const uint64_t *image, struct nam__segment *segment)
{
	uint32_t *children = (uint32_t *)(void *)(segment->slices +
						  nam__slices_padded(segment->count));
	unsigned uppers_count = 0;

	for (unsigned i = 0; i < segment->count; i++) {
		uint64_t raw = nam__inner_child(g, image, i).raw;
		int upper = upper_number(segment, &uppers_count, (uint32_t)(raw >> 32));

		if (upper < 0 || (uint32_t)raw >> NAM__NARROW_OFFSET_BITS)
			return false;
		children[i] = (uint32_t)upper << NAM__NARROW_OFFSET_BITS | (uint32_t)raw;
	}
	return true;
}

static void
fill_wide(const struct nam__geometry *g, const uint64_t *image, struct nam__segment *segment)
{
	uint64_t *children = (uint64_t *)(void *)(segment->slices +
						  nam__slices_padded(segment->count));

	for (unsigned i = 0; i < segment->count; i++)
		children[i] = nam__inner_child(g, image, i).raw;
}

struct nam__segment *
nam__segment_new(const struct nam__geometry *g, const uint64_t *image, struct nam_gaddr at)
{
	unsigned count = nam__node_count(image);
	size_t hot_max = sizeof(struct nam__segment) + 2ul * nam__slices_padded(count) +
			 8ul * count;
	size_t cold = sizeof(struct nam__segment_cold) + 8ul * (count + 1) * g->full_words;
	struct nam__segment_cold *tail;
	struct nam__segment *segment;

	segment = aligned_alloc(64, (hot_max + cold + 63) / 64 * 64);
	if (!segment)
		return NULL;
	memset(segment, 0, sizeof(*segment));
	segment->count = (uint16_t)count;
	segment->last = nam__node_last(image);
	segment->high_first = nam__node_high(g, image)[0];
	atomic_init(&segment->used, 1);
	segment->narrow = fill_narrow(g, image, segment);
	if (!segment->narrow)
		fill_wide(g, image, segment);

	tail = nam__segment_cold(segment);
	tail->version = nam__node_version(image);
	tail->at = at;
	tail->bytes = (nam__segment_hot_bytes(segment) + cold + 63) / 64 * 64;
	if (g->full_words == 1)
		for (unsigned i = 0; i < count; i++)
			tail->separators[i] = image[g->entries_at + 2 * i];
	else
		for (unsigned i = 0; i < count; i++)
			memcpy(tail->separators + (size_t)i * g->full_words,
				image + g->entries_at + i * g->inner_words, 8 * g->full_words);
	memcpy(tail->separators + (size_t)count * g->full_words, nam__node_high(g, image),
		8 * g->full_words);
	nam__slice(tail->separators, count, g->full_words, &segment->slicing, segment->slices);
	return segment;
}
