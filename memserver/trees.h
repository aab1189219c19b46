/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trees.h -- the trees that this server searches itself: parts of coarse-grained indexes, and the
 * upper levels of hybrid ones.
 *
 * Handlers search and change a tree side by side.  They wait for each other only for the moment in
 * which a node is written.  An unlinked node waits in limbo until no handler sees it any more
 * (objects.h).
 */
#ifndef NAM_MEMSERVER_TREES_H
#define NAM_MEMSERVER_TREES_H

#include "index/server/tree.h"
#include "index/server/partition.h"
#include "memserver_internal.h"

#define NAM__TREE_SCRATCH_BYTES (3u * 16384u)	/* nam__tree_server_scratch_bytes() of any tree */
#define NAM__TREE_CACHE 16u		/* blocks that a tree takes at a time */

/* Unlinked nodes that handlers may still be looking at. */
struct nam__tree_limbo {
	STAILQ_ENTRY(nam__tree_limbo) link;
	uint64_t clock;			/* free once every handler has begun later */
	void *block;
};

struct nam__tree {
	struct nam__object object;
	struct nam_server *server;
	uint32_t stride;
	bool leaves;			/* of a hybrid index: shape.leaf is not 0 */
	uint16_t moves;			/* how often a successor has made it anew */
	struct nam_rpc_tree_create_request shape;
	struct nam__geometry index_g;
	struct nam__geometry g;		/* of the tree: another if it names leaves */
	struct nam__tree_server_tree *local;

	/*
	 * A load under way refuses other changes.  The fields behind its number are the loader's
	 * own.
	 */
	_Atomic uint64_t load;		/* its number, or 0 */
	_Atomic(const struct nam__connection *) loader;
	uint64_t load_clock;		/* a handler that began before may not have seen it */
	struct nam__tree_server_tree *filling;	/* NULL before the tree was found empty */
	struct nam__key load_last;
	bool load_any;

	pthread_mutex_t mutex;		/* of the fields below */
	uint32_t cache_count;
	void *cache[NAM__TREE_CACHE];
	STAILQ_HEAD(, nam__tree_limbo) limbo;	/* of nodes; oldest first */
	uint64_t reusable;		/* nodes that have left limbo since the last query */
};

int nam__tree_new(struct nam_server *server, const struct nam_rpc_tree_create_request *request,
	uint64_t *scratch, struct nam__tree **ret_tree) NAM_MUST_CHECK;
/* No handler may be at work on it. */
void nam__tree_free(struct nam__object *tree);

/* An empty one, in the tree's memory. */
int nam__tree_server_open(struct nam__tree *tree,
	struct nam__tree_server_tree **ret_local) NAM_MUST_CHECK;

/* Nodes that have become reusable since the last call. */
uint64_t nam__tree_reusable(struct nam__tree *tree);

/* Where a block of this server's allocator lies, and the reverse. */
void *nam__block_at(const struct nam_server *server, uint64_t raw);
uint64_t nam__block_address(const struct nam_server *server, const void *block);

/* Loads that came over it are over. */
void nam__trees_connection_closed(struct nam__objects *trees,
	const struct nam__connection *connection);
/* End a load, and what it has filled.  For its connection's handler. */
void nam__tree_load_over(struct nam__tree *tree);

#endif /* NAM_MEMSERVER_TREES_H */
