/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_rpc.h -- requests to trees that a memory server searches itself.  A tree is one part of a
 * coarse-grained index, or the upper levels over one part of a hybrid one's leaves.
 *
 * A tree is named by a number that its creator drew at random.  Keys are key words as in
 * index/node/node.h, `key_words` of them; a full key has the payload behind them if the tree is not
 * unique.  A pair is a key and a payload: key_words + 1 words.
 *
 * A request for a missing tree gets -NAM_E_DROPPED; one with a key that belongs
 * to another part, -NAM_E_PARTITION.
 */
#ifndef NAM_COMMON_RPC_TREE_RPC_H
#define NAM_COMMON_RPC_TREE_RPC_H

#include <string.h>

#include "rpc.h"

#define NAM_RPC_TREE_KEY_WORDS_MAX 9u	/* of a full key */

/* A part of an index.  Its keys: index/server/partition.h. */
struct nam_rpc_tree_part {
	uint32_t partitioning;		/* enum nam_partitioning */
	uint32_t number;		/* 0 .. parts - 1 */
	uint32_t parts;
	uint32_t reserved;
	/* By range: the first key, and the first of the next part; 0 beyond the ends. */
	uint64_t low[8], next[8];
};

/*
 * The tree of a part of a hybrid index names leaves.  Its keys are full keys of the index, lowest
 * in a leaf, each once; its payloads are the leaves' tagged addresses.  The lowest key of all is
 * there from the beginning to the end.
 */
struct nam_rpc_tree_create_request {
	uint64_t tree;			/* not 0 */
	uint32_t key_bytes;		/* of the index */
	uint32_t node_bytes;
	uint32_t unique;
	uint32_t reserved;
	uint64_t leaf;			/* 0, or of a hybrid index: its first leaf */
	struct nam_rpc_tree_part part;
};

struct nam_rpc_tree_request {	/* DESCRIBE, DROP */
	uint64_t tree;
};

struct nam_rpc_tree_describe_reply {
	uint32_t key_bytes;
	uint32_t node_bytes;
	uint32_t unique;
	uint32_t leaves;		/* 1: of a hybrid index */
	struct nam_rpc_tree_part part;
};

enum nam_rpc_tree_point {
	NAM_RPC_TREE_LOOKUP = 1,	/* a key: its payload, of several the smallest */
	NAM_RPC_TREE_INSERT,		/* pairs */
	NAM_RPC_TREE_UPSERT,
	NAM_RPC_TREE_UPDATE,
	NAM_RPC_TREE_DELETE,		/* a key, or in a tree that is not unique a pair */
	NAM_RPC_TREE_DELETE_PAIR,
	NAM_RPC_TREE_POINTS_COUNT
};

/* POINT: several of one kind, carried out in their order. */
struct nam_rpc_tree_point_request {
	uint64_t tree;
	uint16_t kind;			/* enum nam_rpc_tree_point */
	uint16_t count;			/* 1 .. */
	uint32_t reserved;
	uint64_t pairs[];		/* a lookup's payload is 0 */
};

struct nam_rpc_tree_point_result {
	int64_t status;			/* 0 or a negative code */
	uint64_t payload;		/* of a lookup */
};

struct nam_rpc_tree_point_reply {
	uint64_t count;			/* as asked for */
	struct nam_rpc_tree_point_result results[];
};

/* How many fit into a request and their results into the reply. */
#define NAM_RPC_TREE_POINTS_MAX(key_words)                                                          \
	((NAM_RPC_BODY_MAX - (uint32_t)sizeof(struct nam_rpc_tree_point_request)) /                 \
		(8u * ((key_words) + 1u)))

#define NAM_RPC_TREE_REVERSE 1u

struct nam_rpc_tree_scan_request {
	uint64_t tree;
	uint32_t flags;			/* NAM_RPC_TREE_REVERSE */
	uint32_t max;			/* pairs wanted, 1 .. */
	/* Full keys, both included; words behind the full key are 0. */
	uint64_t low[NAM_RPC_TREE_KEY_WORDS_MAX];
	uint64_t high[NAM_RPC_TREE_KEY_WORDS_MAX];
};

struct nam_rpc_tree_scan_reply {
	uint32_t count;			/* pairs that follow */
	uint32_t more;			/* 0: the range ends with them */
	uint64_t pairs[];
};

#define NAM_RPC_TREE_SCAN_MAX(key_words)                                                            \
	((NAM_RPC_BODY_MAX - (uint32_t)sizeof(struct nam_rpc_tree_scan_reply)) /                    \
		(8u * ((key_words) + 1u)))

enum nam_rpc_tree_load {
	NAM_RPC_TREE_LOAD_BEGIN = 1,	/* nothing may be in the tree: pairs go to a second tree */
	NAM_RPC_TREE_LOAD_PAIRS,
	NAM_RPC_TREE_LOAD_END,		/* the pairs appear, all at once */
	NAM_RPC_TREE_LOAD_CANCEL,
};

struct nam_rpc_tree_load_request {
	uint64_t tree;
	uint64_t load;			/* drawn by the loader; the same in all of its requests */
	uint16_t step;			/* enum nam_rpc_tree_load */
	uint16_t fill_percent;		/* BEGIN: of each node, 50 .. 100; else 0 */
	uint32_t count;			/* PAIRS: in order, above all that came before */
	uint64_t pairs[];
};

#define NAM_RPC_TREE_LOAD_MAX(key_words)                                                            \
	((NAM_RPC_BODY_MAX - (uint32_t)sizeof(struct nam_rpc_tree_load_request)) /                  \
		(8u * ((key_words) + 1u)))

/* ---- copying: pages that SCAN answers are those that LOAD takes ---------------------------- */

static inline uint32_t
nam_rpc_tree_key_words(const struct nam_rpc_tree_create_request *create)
{
	return (create->key_bytes + 7) / 8 + !create->unique;
}

static inline uint32_t
nam_rpc_tree_pair_words(const struct nam_rpc_tree_create_request *create)
{
	/* Names of leaves are full keys, each with a payload of its own. */
	return create->leaf ? nam_rpc_tree_key_words(create) + 1 : (create->key_bytes + 7) / 8 + 1;
}

static inline struct nam_rpc_tree_scan_request
nam_rpc_tree_scan_all(const struct nam_rpc_tree_create_request *create)
{
	struct nam_rpc_tree_scan_request scan = { .tree = create->tree, .max = UINT32_MAX };

	for (unsigned i = 0; i < NAM_RPC_TREE_KEY_WORDS_MAX; i++)
		scan.high[i] = UINT64_MAX;
	return scan;
}

static inline bool
nam_rpc_tree_page_valid(const struct nam_rpc_tree_create_request *create,
	const struct nam_rpc_tree_scan_reply *page, uint32_t bytes)
{
	uint32_t words = nam_rpc_tree_pair_words(create);

	return bytes >= sizeof(*page) && page->count <= NAM_RPC_TREE_SCAN_MAX(words - 1) &&
	       bytes == sizeof(*page) + page->count * words * 8;
}

/* Ask for what is behind a page; false: there is nothing. */
static inline bool
nam_rpc_tree_scan_behind(const struct nam_rpc_tree_create_request *create,
	const struct nam_rpc_tree_scan_reply *page, struct nam_rpc_tree_scan_request *scan)
{
	if (!page->count || !page->more)
		return false;
	memcpy(scan->low, page->pairs + (page->count - 1) * nam_rpc_tree_pair_words(create),
		nam_rpc_tree_key_words(create) * 8);
	for (uint32_t i = nam_rpc_tree_key_words(create); i-- > 0;)
		if (++scan->low[i])
			return true;
	return false;	/* it was the highest key */
}

/* WALK: so many nodes of a level, from the one on that covers a full key. */
struct nam_rpc_tree_walk_request {
	uint64_t tree;
	uint32_t level;			/* 0: leaves */
	uint32_t verify;		/* 1: check them, without writers */
	uint64_t from[NAM_RPC_TREE_KEY_WORDS_MAX];
};

struct nam_rpc_tree_walk_reply {
	uint32_t height;		/* levels of the tree */
	uint32_t more;			/* 1: go on from `next` */
	uint64_t nodes;
	uint64_t entries;		/* pairs, or separators */
	uint64_t violations;
	uint64_t next[NAM_RPC_TREE_KEY_WORDS_MAX];
	char text[128];			/* the first violation */
};

/* COLLECT: merge what has become sparse, from the leaf on that covers a full key. */
struct nam_rpc_tree_collect_request {
	uint64_t tree;
	uint32_t level;			/* of the nodes to be merged */
	uint32_t reserved;
	uint64_t from[NAM_RPC_TREE_KEY_WORDS_MAX];
};

struct nam_rpc_tree_collect_reply {
	uint32_t height;
	uint32_t more;
	uint64_t nodes;			/* looked at */
	uint64_t merges;
	uint64_t reusable;		/* nodes whose memory can be used again since then */
	uint64_t next[NAM_RPC_TREE_KEY_WORDS_MAX];
};

/* FLOOR: which leaf to begin with for a full key, and which others are named next to it. */
struct nam_rpc_tree_floor_request {
	uint64_t tree;
	uint32_t alone;			/* 1: no others */
	uint32_t reserved;
	uint64_t key[NAM_RPC_TREE_KEY_WORDS_MAX];
};

struct nam_rpc_tree_floor_reply {
	uint64_t node;			/* gaddr of the node that names them, */
	uint64_t version;		/* and its version: it grows */
	uint32_t count;			/* pairs, 1 .. */
	uint32_t last;			/* 1: nothing is named behind them; else `next` is */
	uint64_t next[NAM_RPC_TREE_KEY_WORDS_MAX];
	uint64_t pairs[];		/* lowest key, leaf; the first is not above the key */
};

/* The largest node that fits into a reply. */
#define NAM_RPC_TREE_INNER_NODE_BYTES 2048u

#endif /* NAM_COMMON_RPC_TREE_RPC_H */
