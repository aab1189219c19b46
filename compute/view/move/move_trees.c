/* SPDX-License-Identifier: Apache-2.0 */
#include "move_internal.h"

#include <errno.h>
#include <string.h>

#include "common/env.h"
#include "compute/view/changer.h"

#define FILL_PERCENT 92u		/* of a tree's nodes, as a bulk load does by default */

/* The state of filling a tree. */
struct filling {
	struct nam_worker *old, *new;
	uint64_t deadline_ns;
	uint64_t *bytes;		/* what is done so far */
	const struct nam_move_tree *tree;
	uint64_t load;
	uint32_t pair_words;
	struct nam_rpc_tree_load_request *request;	/* room for a body */
	struct nam_rpc_tree_scan_reply *page;	/* the same */
};

static bool
is_late(const struct filling *filling)
{
	return nam_now_ns() >= filling->deadline_ns;
}

/* -NAM_E_RESTART_LOCKED: handlers that looked at the empty tree leave it soon. */
NAM_FIBER_FN static int
load(struct filling *filling, uint16_t step, const uint64_t *pairs, uint32_t count)
{
	struct nam_rpc_tree_load_request *request = filling->request;
	uint32_t bytes = count * filling->pair_words * 8, none;
	int rc;

	*request = (struct nam_rpc_tree_load_request){ .tree = filling->tree->create.tree,
		.load = filling->load, .step = step, .count = count,
		.fill_percent = step == NAM_RPC_TREE_LOAD_BEGIN ? FILL_PERCENT : 0 };
	if (bytes)
		memcpy(request->pairs, pairs, bytes);
	for (;;) {
		none = 0;
		rc = nam_rpc_call(filling->new, 0, NAM_RPC_TREE_LOAD,
			request, (uint32_t)sizeof(*request) + bytes, NULL, &none); /* SUSPENDS */
		if (rc != -NAM_E_RESTART_LOCKED || is_late(filling))
			return rc;
		nam_sleep_ns(NAM__CHANGER_PAUSE_NS);
	}
}

enum page { PAGE_LAST, PAGE_MORE };

/* A page of the old tree, and *scan for the next one: an enum page, or < 0. */
NAM_FIBER_FN static int
page_copy(struct filling *filling, struct nam_rpc_tree_scan_request *scan)
{
	const struct nam_rpc_tree_create_request *create = &filling->tree->create;
	const struct nam_rpc_tree_scan_reply *page = filling->page;
	uint32_t bytes = NAM_RPC_BODY_MAX, most = NAM_RPC_TREE_LOAD_MAX(filling->pair_words - 1);
	int rc = nam_rpc_call(filling->old, 0, NAM_RPC_TREE_SCAN, scan,
		sizeof(*scan), filling->page, &bytes); /* SUSPENDS */

	if (!rc && !nam_rpc_tree_page_valid(create, page, bytes))
		rc = -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; !rc && i < page->count; i += most)
		rc = load(filling, NAM_RPC_TREE_LOAD_PAIRS,
			page->pairs + (size_t)i * filling->pair_words,
			page->count - i < most ? page->count - i : most); /* SUSPENDS */
	if (rc)
		return rc;
	*filling->bytes += page->count * filling->pair_words * 8;
	return nam_rpc_tree_scan_behind(create, page, scan) ? PAGE_MORE : PAGE_LAST;
}

NAM_FIBER_FN static int
tree_fill(struct filling *filling)
{
	const struct nam_rpc_tree_create_request *create = &filling->tree->create;
	struct nam_rpc_tree_scan_request scan = nam_rpc_tree_scan_all(create);
	int rc;

	filling->pair_words = nam_rpc_tree_pair_words(create);
	if (filling->pair_words > NAM_RPC_TREE_KEY_WORDS_MAX + 1)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = load(filling, NAM_RPC_TREE_LOAD_BEGIN, NULL, 0); /* SUSPENDS */
	if (rc)
		return rc;
	do {
		rc = is_late(filling) ? -NAM_E_FABRIC_TIMEOUT :
			page_copy(filling, &scan); /* SUSPENDS */
	} while (rc == PAGE_MORE);
	return rc ?: load(filling, NAM_RPC_TREE_LOAD_END, NULL, 0); /* SUSPENDS */
}

int
nam__trees_move(struct nam_worker *old, struct nam_worker *new, const struct nam_move_head *books,
	uint64_t deadline_ns, uint64_t *bytes)
{
	const struct nam_move_tree *trees = nam__books_parts((const void *)books).trees;
	struct filling filling = {
		.old = old,
		.new = new,
		.deadline_ns = deadline_ns,
		.bytes = bytes,
		.load = nam_entropy() | 1,
		.request = nam_buffer_take(new, NAM_RPC_BODY_MAX),
		.page = nam_buffer_take(old, NAM_RPC_BODY_MAX),
	};
	int rc = filling.request && filling.page ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < books->trees; i++) {
		filling.tree = &trees[i];
		rc = tree_fill(&filling); /* SUSPENDS */
	}
	if (filling.request)
		nam_buffer_give(new, filling.request, NAM_RPC_BODY_MAX);
	if (filling.page)
		nam_buffer_give(old, filling.page, NAM_RPC_BODY_MAX);
	return rc;
}
