/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c -- what concerns a coarse-grained index as a whole: figures, checks, collector. */
#include "coarse.h"
#include "compute/worker/pace.h"
#include "index/maintain/verify.h"

/* Go on behind an answer, or to the level above.  Keys must ascend, or the walk would never end. */
static int
walk_on(const struct nam_index *index, uint64_t *from, uint32_t *level, const uint64_t *next,
	bool more, uint32_t height)
{
	if (height > NAM__LEVELS_MAX ||
		(more && nam__key_compare(from, next, index->g.full_words) >= 0))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(from, next, 8 * NAM_RPC_TREE_KEY_WORDS_MAX);
	if (!more) {
		++*level;
		memset(from, 0, 8 * NAM_RPC_TREE_KEY_WORDS_MAX);
	}
	return 0;
}

/* Called for each answer; the tree of part `part`, nodes of `level`. */
typedef void (*walked_fn)(const struct nam_index *index, void *arg, uint32_t part, unsigned level,
	const struct nam_rpc_tree_walk_reply *reply);

/* All nodes of all levels of all parts, a page at a time. */
NAM_FIBER_FN static int
walk_all(struct nam_worker *worker, struct nam_index *index, bool verify, walked_fn fn, void *arg)
{
	for (uint32_t part = 0; part < index->parts->count; part++) {
		struct nam_rpc_tree_walk_request request = { .tree = index->tree,
			.verify = verify };
		struct nam_rpc_tree_walk_reply reply;

		do {
			uint32_t bytes = sizeof(reply), level = request.level;
			int rc = nam_rpc_call(worker, index->parts->slots[part],
				NAM_RPC_TREE_WALK, &request, sizeof(request), &reply,
				&bytes); /* SUSPENDS */

			if (!rc && bytes != sizeof(reply))
				rc = -NAM_E_FABRIC_PROTOCOL;
			if (!rc)
				rc = walk_on(index, request.from, &request.level, reply.next,
					reply.more, reply.height);
			if (rc)
				return rc;
			reply.text[sizeof(reply.text) - 1] = '\0';
			fn(index, arg, part, level, &reply);
		} while (request.level < reply.height);
	}
	return 0;
}

static void
count_walked(const struct nam_index *index, void *arg, uint32_t part, unsigned level,
	const struct nam_rpc_tree_walk_reply *reply)
{
	struct nam_index_stat *stat = arg;
	uint32_t node_bytes = index->g.node_bytes, levels_below = index->leaves != NULL;

	if (index->leaves && node_bytes > NAM_RPC_TREE_INNER_NODE_BYTES)
		node_bytes = NAM_RPC_TREE_INNER_NODE_BYTES;
	if (level + levels_below) {
		stat->inner_nodes += reply->nodes;
	} else {
		stat->leaves += reply->nodes;
		stat->entries += reply->entries;
	}
	if (reply->height + levels_below > stat->height)
		stat->height = reply->height + levels_below;
	stat->servers_nodes[index->client->servers[index->parts->slots[part]].id] += reply->nodes;
	stat->remote_bytes += reply->nodes * (uint64_t)node_bytes;
}

int
nam__coarse_stat(struct nam_worker *worker, struct nam_index *index, struct nam_index_stat *stat,
	const struct nam__seen *seen)
{
	/* Nodes of memory servers are in private memory. */
	(void)seen;
	return walk_all(worker, index, false, count_walked, stat); /* SUSPENDS */
}

struct verifying {
	nam_index_violation_fn violation;
	void *arg;
	uint64_t *violations;
};

static void
verify_walked(const struct nam_index *index, void *arg, uint32_t part, unsigned level,
	const struct nam_rpc_tree_walk_reply *reply)
{
	const struct verifying *verifying = arg;
	struct nam_diag diag;

	(void)level;
	*verifying->violations += reply->violations;
	if (!reply->violations || !verifying->violation)
		return;
	(void)nam_diag_set(&diag, 0, "memory server %u: %s",
		index->client->servers[index->parts->slots[part]].id, reply->text);
	verifying->violation(verifying->arg, NAM__I_SERVER_TREE, diag.text);
}

int
nam__coarse_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations)
{
	struct verifying verifying = { violation, arg, violations };

	return walk_all(worker, index, true, verify_walked, &verifying); /* SUSPENDS */
}

NAM_FIBER_FN static int
collect_part(struct nam_worker *worker, struct nam_index *index, uint32_t part,
	struct nam_collect_stat *stat)
{
	struct nam_rpc_tree_collect_request request = { .tree = index->tree };
	struct nam_rpc_tree_collect_reply reply;

	do {
		uint32_t bytes = sizeof(reply);
		int rc = nam__worker_stopped(worker);

		if (!rc)
			rc = nam_rpc_call(worker, index->parts->slots[part], NAM_RPC_TREE_COLLECT,
				&request, sizeof(request), &reply, &bytes); /* SUSPENDS */
		if (!rc && bytes != sizeof(reply))
			rc = -NAM_E_FABRIC_PROTOCOL;
		if (!rc)
			rc = walk_on(index, request.from, &request.level, reply.next, reply.more,
				reply.height);
		if (rc)
			return rc;
		stat->nodes_visited += reply.nodes;
		stat->merges += reply.merges;
		stat->nodes_retired += reply.merges;
		stat->nodes_reusable += reply.reusable;
	} while (request.level + 1 < reply.height);
	return 0;
}

int
nam__coarse_collect(struct nam_worker *worker, struct nam_index *index,
	struct nam_collect_stat *stat)
{
	int rc = 0;

	nam__op_begin(worker, NAM_OP_COLLECT);
	for (uint32_t part = 0; part < index->parts->count && !rc; part++)
		rc = collect_part(worker, index, part, stat); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}
