/* SPDX-License-Identifier: Apache-2.0 */
/* tree_internal.h -- the inside of a server tree, for the code that changes it or walks it. */
#ifndef NAM_INDEX_SERVER_TREE_INTERNAL_H
#define NAM_INDEX_SERVER_TREE_INTERNAL_H

#include "tree.h"
#include "index/node/node.h"

#define NAM__SERVER_IMAGES 3u		/* that the scratch has room for */

struct nam__tree_server_tree {
	struct nam__geometry g;
	struct nam__server_memory memory;
	uint64_t root;			/* a pointer; goes up only */
};

/* Lock a node if its version is this one; unlock it with the next, or with this: unchanged. */
bool nam__tree_server_lock(uint64_t *node, uint64_t version);
void nam__tree_server_unlock(uint64_t *node, uint64_t version);

/* Words [first, end) of an image into a node that is locked. */
void nam__tree_server_store(uint64_t *node, const uint64_t *image, uint32_t first, uint32_t end);

unsigned nam__tree_server_root_level(const struct nam__tree_server_tree *tree);

/* The node at `level` that covers a full key, or did a moment ago: then go on to the right. */
uint64_t *nam__tree_server_find(const struct nam__tree_server_tree *tree, const uint64_t *key,
	unsigned level);

/* A whole image of a node: header and entries, without the lock word.  Returns its version. */
uint64_t nam__tree_server_read(const struct nam__tree_server_tree *tree, const uint64_t *node,
	uint64_t *image);

/*
 * From a node that covers the key, or did (NULL: the root): the one at `level` that does, its
 * image and version.
 */
uint64_t *nam__tree_server_cover(const struct nam__tree_server_tree *tree, uint64_t *node,
	const uint64_t *key, unsigned level, uint64_t *image, uint64_t *ret_version);

#endif /* NAM_INDEX_SERVER_TREE_INTERNAL_H */
