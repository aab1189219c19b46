/* SPDX-License-Identifier: Apache-2.0 */
/* cached_node.c -- making a cached node out of an inner node's image. */
#include <stdlib.h>

#include "cached_node.h"

/* Number of an high half in the header, entered if it is new; -1: no room for another. */
static int
high_half_number(struct nam__cached_node *node, unsigned *halves_count, uint32_t high_half)
{
	for (unsigned i = 0; i < *halves_count; i++)
		if (node->high_halves[i] == high_half)
			return (int)i;
	if (*halves_count == NAM__HIGH_HALVES)
		return -1;
	node->high_halves[*halves_count] = high_half;
	return (int)(*halves_count)++;
}

/* Fill narrow children; false if they do not fit. */
static bool
fill_narrow(const struct nam__geometry *g, const uint64_t *image, struct nam__cached_node *node)
{
	uint32_t *children = (uint32_t *)(void *)(node->truncated +
						  nam__truncated_padded(node->count));
	unsigned halves_count = 0;

	for (unsigned i = 0; i < node->count; i++) {
		uint64_t raw = nam__inner_child(g, image, i).raw;
		int high_half = high_half_number(node, &halves_count, (uint32_t)(raw >> 32));

		if (high_half < 0 || (uint32_t)raw >> NAM__NARROW_OFFSET_BITS)
			return false;
		children[i] = (uint32_t)high_half << NAM__NARROW_OFFSET_BITS | (uint32_t)raw;
	}
	return true;
}

struct nam__cached_node *
nam__cached_node_new(const struct nam__geometry *g, const uint64_t *image, struct nam_gaddr at)
{
	unsigned count = nam__node_count(image);
	size_t hot_max = sizeof(struct nam__cached_node) + 2ul * nam__truncated_padded(count) +
			 8ul * count;
	size_t cold = sizeof(struct nam__cached_node_cold) + 8ul * (count + 1) * g->full_words;
	struct nam__cached_node_cold *tail;
	uint64_t *wide;
	struct nam__cached_node *node;

	node = aligned_alloc(64, (hot_max + cold + 63) / 64 * 64);
	if (!node)
		return NULL;
	memset(node, 0, sizeof(*node));
	node->count = (uint16_t)count;
	node->last = nam__node_last(image);
	node->high_first = nam__node_high(g, image)[0];
	atomic_init(&node->used, 1);
	node->narrow = fill_narrow(g, image, node);
	wide = (uint64_t *)(void *)(node->truncated + nam__truncated_padded(count));
	for (unsigned i = 0; i < count && !node->narrow; i++)
		wide[i] = nam__inner_child(g, image, i).raw;

	tail = nam__cached_node_cold(node);
	tail->version = nam__node_version(image);
	tail->at = at;
	tail->bytes = (nam__cached_node_hot_bytes(node) + cold + 63) / 64 * 64;
	if (g->full_words == 1)
		for (unsigned i = 0; i < count; i++)
			tail->separators[i] = image[g->entries_at + 2 * i];
	else
		for (unsigned i = 0; i < count; i++)
			memcpy(tail->separators + (size_t)i * g->full_words,
				image + g->entries_at + i * g->inner_words, 8 * g->full_words);
	memcpy(tail->separators + (size_t)count * g->full_words, nam__node_high(g, image),
		8 * g->full_words);
	nam__keys_truncate(tail->separators, count, g->full_words, &node->truncation,
		node->truncated);
	return node;
}
