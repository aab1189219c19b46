/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h -- the codec of index nodes: words of an image, and pure functions on private images.
 *
 * A node is an array of 64-bit words (common/layout.h has the header):
 *
 *	lock | hash | front | shape | sibling | low fence | high fence | entries ... | rear
 *
 * A key is kept as big-endian words of 8 bytes, the last one padded with zero bytes.  The full key
 * orders entries and separates nodes: the key, in a non-unique index followed by the payload.
 *
 *	leaf entry	key words, payload
 *	inner entry	full key, lowest in the child, and child (tagged gaddr)
 *	head entry	tagged gaddr of one of the leaves that follow
 *
 * Inner entries are sorted.  A leaf's first `sorted` entries are; the few after them are not.
 */
#ifndef NAM_INDEX_NODE_NODE_H
#define NAM_INDEX_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/gaddr.h"
#include "common/layout.h"
#include "common/error.h"
#include "index/node/dirty.h"
#include "index/options.h"

#define NAM__KEY_WORDS_MAX 9u		/* 64 bytes of key and a payload */
#define NAM__LEVELS_MAX 16u

enum nam__node_word {
	NAM__WORD_LOCK = 0,
	NAM__WORD_HASH,
	NAM__WORD_FRONT,
	NAM__WORD_SHAPE,
	NAM__WORD_SIBLING,
	NAM__WORD_LOW,
};

enum nam__node_type {
	NAM__NODE_LEAF = 1,
	NAM__NODE_INNER = 2,
	NAM__NODE_HEAD = 3,
	NAM__NODE_TYPE_MASK = 0x0f,
	NAM__NODE_LAST = 0x40,		/* the high fence is infinite */
	NAM__NODE_DEAD = 0x80,		/* merged away: `sibling` leads to its range's node */
};

struct nam__key {
	uint64_t w[NAM__KEY_WORDS_MAX];
};
extern const struct nam__key nam__key_lowest;	/* of any geometry: none is below it */

struct nam__geometry {
	uint32_t key_bytes;
	uint32_t key_words;
	uint32_t full_words;		/* of a full key */
	uint32_t leaf_words;		/* of a leaf entry: key and payload */
	uint32_t inner_words;		/* of an inner entry: full key and child */
	uint32_t node_bytes;
	uint32_t node_words;
	uint32_t entries_at;		/* word of the first entry */
	uint32_t leaf_capacity;
	uint32_t inner_capacity;
	uint32_t head_capacity;
	uint32_t stride;		/* bytes from node to node in remote memory */
	uint32_t tail_max;		/* unsorted entries that a leaf may carry */
	bool unique;
	uint64_t seed;
};

/* 0, or -EINVAL when the node would hold fewer than 4 entries or a parameter is out of range. */
int nam__geometry_init(struct nam__geometry *geometry, const struct nam_index_options *options,
	uint64_t seed) NAM_MUST_CHECK;

/*
 * The geometry of a server tree (server/tree.h) that names nodes of another one by their full keys.
 * Nodes of the smaller of the two sizes hold as much as an inner node of that size.
 */
void nam__geometry_names(struct nam__geometry *geometry, const struct nam__geometry *of,
	uint32_t node_bytes);

/* ---- header ------------------------------------------------------------------------------- */

static inline unsigned
nam__node_type(const uint64_t *node)
{
	return (unsigned)(node[NAM__WORD_FRONT] >> 8) & NAM__NODE_TYPE_MASK;
}

static inline bool
nam__node_dead(const uint64_t *node)
{
	return node[NAM__WORD_FRONT] >> 8 & NAM__NODE_DEAD;
}

static inline bool
nam__node_last(const uint64_t *node)
{
	return node[NAM__WORD_FRONT] >> 8 & NAM__NODE_LAST;
}

static inline unsigned
nam__node_level(const uint64_t *node)
{
	return (unsigned)node[NAM__WORD_FRONT] & 0xff;
}

static inline uint64_t
nam__node_version(const uint64_t *node)
{
	return node[NAM__WORD_FRONT] >> 16;
}

static inline uint32_t
nam__node_generation(const uint64_t *node)
{
	return (uint32_t)node[NAM__WORD_SHAPE];
}

static inline unsigned
nam__node_count(const uint64_t *node)
{
	return (unsigned)(node[NAM__WORD_SHAPE] >> 48);
}

static inline unsigned
nam__node_sorted(const uint64_t *node)
{
	return (unsigned)(node[NAM__WORD_SHAPE] >> 32) & 0xffff;
}

static inline void
nam__node_set_counts(uint64_t *node, unsigned count, unsigned sorted)
{
	node[NAM__WORD_SHAPE] = (uint64_t)count << 48 | (uint64_t)sorted << 32 |
				(uint32_t)node[NAM__WORD_SHAPE];
}

static inline void
nam__node_set_type(uint64_t *node, unsigned type_and_flags)
{
	node[NAM__WORD_FRONT] = (node[NAM__WORD_FRONT] & ~0xff00ull) |
				(uint64_t)type_and_flags << 8;
}

static inline unsigned
nam__node_type_and_flags(const uint64_t *node)
{
	return (unsigned)(node[NAM__WORD_FRONT] >> 8) & 0xff;
}

static inline struct nam_gaddr
nam__node_sibling(const uint64_t *node)
{
	return (struct nam_gaddr){ node[NAM__WORD_SIBLING] };
}

static inline const uint64_t *
nam__node_low(const uint64_t *node)
{
	return node + NAM__WORD_LOW;
}

static inline const uint64_t *
nam__node_high(const struct nam__geometry *g, const uint64_t *node)
{
	return node + NAM__WORD_LOW + g->full_words;
}

static inline uint64_t *
nam__leaf_entry(const struct nam__geometry *g, uint64_t *node, unsigned number)
{
	return node + g->entries_at + number * g->leaf_words;
}

static inline uint64_t *
nam__inner_entry(const struct nam__geometry *g, uint64_t *node, unsigned number)
{
	return node + g->entries_at + number * g->inner_words;
}

static inline struct nam_gaddr
nam__inner_child(const struct nam__geometry *g, const uint64_t *node, unsigned number)
{
	return (struct nam_gaddr){ node[g->entries_at + number * g->inner_words + g->full_words] };
}

/* ---- keys --------------------------------------------------------------------------------- */

/* @payload counts in a non-unique index only. */
void nam__key_encode(const struct nam__geometry *g, const void *key, uint64_t payload,
	struct nam__key *ret_key);
void nam__key_decode(const struct nam__geometry *g, const uint64_t *words, void *ret_key);

static inline int
nam__key_compare(const uint64_t *a, const uint64_t *b, unsigned words)
{
	for (unsigned i = 0; i < words; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

/* The next full key up or down; false if there is none. */
bool nam__key_up(const struct nam__geometry *g, uint64_t *key);
bool nam__key_down(const struct nam__geometry *g, uint64_t *key);

static inline bool
nam__node_below(const uint64_t *node, const struct nam__geometry *g, const uint64_t *key)
{
	return nam__key_compare(key, nam__node_low(node), g->full_words) < 0;
}

static inline bool
nam__node_beyond(const uint64_t *node, const struct nam__geometry *g, const uint64_t *key)
{
	return !nam__node_last(node) &&
	       nam__key_compare(key, nam__node_high(g, node), g->full_words) >= 0;
}

/* ---- images ------------------------------------------------------------------------------- */

/*
 * An empty node: version 0, unlocked.  @high NULL: the last node of its level.
 * Entries, sibling and seal are the caller's.
 */
void nam__node_init(const struct nam__geometry *g, uint64_t *node, unsigned type, unsigned level,
	uint32_t generation, const uint64_t *low, const uint64_t *high);

/* A new image: version + 1, rear, hash.  To be called once, after the last change. */
void nam__node_seal(const struct nam__geometry *g, uint64_t *node, struct nam_gaddr at);

uint64_t nam__node_hash(const struct nam__geometry *g, const uint64_t *node, struct nam_gaddr at);

/* front == rear: proves a whole image on a fabric with NAM_CAP_ORDERED_LOADS. */
static inline bool
nam__node_ends_agree(const struct nam__geometry *g, const uint64_t *node)
{
	return node[NAM__WORD_FRONT] == node[g->node_words - 1];
}

/* Whether the counts of an image are those of a node of this type: remote bytes are not trusted. */
static inline __attribute__((always_inline)) bool
nam__node_counts_valid(const struct nam__geometry *g, const uint64_t *node, unsigned type)
{
	unsigned count = nam__node_count(node);

	switch (type) {
	case NAM__NODE_LEAF:
		return count <= g->leaf_capacity && nam__node_sorted(node) <= count;
	case NAM__NODE_INNER:
		return count <= g->inner_capacity && (count || nam__node_dead(node));
	case NAM__NODE_HEAD:
		return count <= g->head_capacity;
	default:
		return false;
	}
}

/* ---- leaves ------------------------------------------------------------------------------- */

/* Number of the entry with exactly this full key, or -1. */
int nam__leaf_find(const struct nam__geometry *g, const uint64_t *node, const uint64_t *key);

unsigned nam__leaf_lower_bound(const struct nam__geometry *g, const uint64_t *node,
	const uint64_t *key);

/* Bring all entries into order.  Returns the number of the first that has moved; count: none. */
unsigned nam__leaf_sort(const struct nam__geometry *g, uint64_t *node);

/*
 * Add an entry that is not there to a leaf that is not full.  It goes to the end of the sorted part
 * if it belongs there, else to the tail.  A tail that grows past tail_max is sorted in.
 */
void nam__leaf_add(const struct nam__geometry *g, uint64_t *node, const uint64_t *key_words,
	uint64_t payload, struct nam__dirty *ret_dirty);
void nam__leaf_remove(const struct nam__geometry *g, uint64_t *node, unsigned number,
	struct nam__dirty *ret_dirty);

/* ---- inner nodes -------------------------------------------------------------------------- */

/* Number of the child that covers `key`; the node must cover it. */
unsigned nam__inner_search(const struct nam__geometry *g, const uint64_t *node,
	const uint64_t *key);

/* Insert (key, child) into a node that is not full.  -NAM_E_EXISTS if the separator is there. */
int nam__inner_add(const struct nam__geometry *g, uint64_t *node, const uint64_t *key,
	struct nam_gaddr child, struct nam__dirty *ret_dirty) NAM_MUST_CHECK;
void nam__inner_remove(const struct nam__geometry *g, uint64_t *node, unsigned number,
	struct nam__dirty *ret_dirty);

#endif /* NAM_INDEX_NODE_NODE_H */
