/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c -- walk the whole tree and check the invariants of index/README.md.
 *
 * Level by level from the root down, each from its leftmost node through the siblings.  Beside
 * them runs the stream of separators of the level above: two sorted lists.
 *
 * Nothing here trusts an image.  Each defect is reported, and the walk goes on where the rest leads
 * to somewhere new.  It ends: every node's low fence must be above that of the one before.
 */
#include <errno.h>

#include "index/fine/fine.h"
#include "index/validate.h"
#include "verify.h"

#define TORN_RETRIES 3u
#define TORN_PAUSE_NS 20000u

struct walk;

/* The separators of one level, in order. */
struct names {
	/* Replaces an image that is used up, or ends the names. */
	NAM_FIBER_FN int (*more)(struct walk *walk);
	uint64_t *image;	/* the node whose separators come next */
	struct nam_gaddr next;	/* the node after it, before which `image` is used up */
	bool asked;		/* hybrid: `image` has come from the memory server */
	unsigned level;
	unsigned entry, count;
	bool over;		/* no more separators */
	bool damaged;		/* not followed to the level's end, so what it lacks is unknown */
};

/* How far the walk along a level has come. */
struct chain {
	struct nam_gaddr next;
	struct nam__key expected;	/* low fence of the next node */
	struct nam__key last_low;	/* of the node before it */
	uint64_t nodes;			/* head nodes apart */
	bool after_head, ended;
	bool damaged;			/* not followed to its end */
};

struct walk {
	struct nam__verifier verifier;
	struct nam__window window;
	struct names names;
	struct chain chain;
	struct nam_gaddr leftmost[NAM__LEVELS_MAX];
	unsigned root_level;
};

/* ---- separators ---------------------------------------------------------------------------- */

static void
names_begin(struct walk *walk, unsigned level)
{
	struct names *names = &walk->names;

	*names = (struct names){
		.image = names->image,
		.more = names->more,
		.next = walk->leftmost[level],
		.level = level,
	};
}

static bool
names_believable(const struct walk *walk, const uint64_t *image, struct nam_gaddr at)
{
	return nam__node_is_whole(walk->verifier.index, image, at) &&
	       nam__node_type(image) == NAM__NODE_INNER &&
	       nam__node_level(image) == walk->names.level &&
	       nam__node_counts_valid(&walk->verifier.index->g, image, NAM__NODE_INNER);
}

/* Hybrid: the names behind those that the memory server has said. */
NAM_FIBER_FN static int
names_query(struct walk *walk)
{
	const struct nam__geometry *g = &walk->verifier.index->g;
	struct names *names = &walk->names;
	struct nam__key from = { { 0 } };
	struct nam_gaddr at;
	int rc;

	if (names->asked && nam__node_last(names->image)) {
		names->over = true;
		return 0;
	}
	if (names->asked)
		memcpy(from.w, nam__node_high(g, names->image), 8 * g->full_words);
	rc = walk->verifier.index->inner->read_covering(walk->verifier.worker,
		walk->verifier.index, from.w, 1, names->image, &at); /* SUSPENDS */
	if (rc)
		return rc;
	names->asked = true;
	names->count = nam__node_count(names->image);
	names->entry = nam__inner_search(g, names->image, from.w);
	return 0;
}

/* The separators of the next node of the level.  Its errors were reported with the level. */
NAM_FIBER_FN static int
names_read(struct walk *walk)
{
	struct nam__verifier *verifier = &walk->verifier;
	const struct nam__geometry *g = &verifier->index->g;
	struct names *names = &walk->names;
	struct nam__key last_low = { 0 };
	bool first = names->count == 0;
	struct nam_gaddr at = names->next;
	int rc;

	names->over = nam_gaddr_is_null(at);
	if (names->over)
		return 0;
	if (!first)
		memcpy(last_low.w, nam__node_low(names->image), 8 * g->full_words);
	names->damaged = !nam__node_readable(verifier->worker, verifier->index, at);
	if (!names->damaged) {
		rc = nam_read_await(verifier->worker, at, names->image,
			g->node_bytes); /* SUSPENDS */
		if (rc)
			return rc;
		names->damaged = !names_believable(walk, names->image, at) ||
			(!first && nam__key_compare(nam__node_low(names->image), last_low.w,
					   g->full_words) <= 0);
	}
	names->over = names->damaged;
	if (names->over)
		return 0;
	names->next = nam__node_last(names->image) ? NAM_GADDR_NULL :
						     nam__node_sibling(names->image);
	names->entry = 0;
	names->count = nam__node_count(names->image);
	return 0;
}

/* Make names->entry the next separator. */
NAM_FIBER_FN static int
names_peek(struct walk *walk)
{
	struct names *names = &walk->names;
	int rc = 0;

	while (!rc && !names->over && names->entry == names->count)
		rc = names->more(walk); /* SUSPENDS */
	return rc;
}

static struct nam_gaddr
names_child(const struct walk *walk)
{
	return nam__inner_child(&walk->verifier.index->g, walk->names.image, walk->names.entry);
}

static void
names_stray(struct walk *walk)
{
	struct nam_gaddr child = names_child(walk);

	nam__violation(&walk->verifier, NAM__I_PARENT,
		"before this node, a separator names region %u offset %llu, which is not in its "
		"place on this level",
		nam_gaddr_region(child), (unsigned long long)nam_gaddr_offset(child));
}

/* I5, I6, I7: which separator names the node just reached? */
NAM_FIBER_FN static int
check_named(struct walk *walk, const uint64_t *image)
{
	const struct nam__geometry *g = &walk->verifier.index->g;
	struct nam__verifier *verifier = &walk->verifier;
	struct names *names = &walk->names;
	int rc, order;

	for (;;) {
		rc = names_peek(walk); /* SUSPENDS */
		if (rc)
			return rc;
		if (names->over) {
			if (!names->damaged)
				nam__violation(verifier, NAM__I_NAMED, "missing separator");
			return 0;
		}
		order = nam__key_compare(nam__inner_entry(g, names->image, names->entry),
			nam__node_low(image), g->full_words);
		if (nam_gaddr_same(names_child(walk), verifier->at)) {
			if (order)
				nam__violation(verifier, NAM__I_SEPARATOR,
					"the node's separator is not its low fence");
			names->entry++;
			return 0;
		}
		if (order > 0) {
			nam__violation(verifier, NAM__I_NAMED, "missing separator");
			return 0;
		}
		names_stray(walk);
		names->entry++;
		if (order == 0)
			return 0;	/* it should have been this node's: one report is enough */
	}
}

/* The level is at its end: so must be the separators. */
NAM_FIBER_FN static int
check_names_over(struct walk *walk)
{
	for (;;) {
		int rc = names_peek(walk); /* SUSPENDS */

		if (rc || walk->names.over)
			return rc;
		names_stray(walk);
		walk->names.entry++;
	}
}

/* ---- siblings ------------------------------------------------------------------------------ */

/* I1 and I10 for the node just reached.  False: the rest cannot be reached or believed. */
static bool
check_chain(struct walk *walk, const uint64_t *image)
{
	const struct nam__geometry *g = &walk->verifier.index->g;
	struct nam__verifier *verifier = &walk->verifier;
	struct chain *chain = &walk->chain;
	bool head = nam__node_type(image) == NAM__NODE_HEAD;
	int order = nam__key_compare(nam__node_low(image), chain->expected.w, g->full_words);

	if (order && head)
		nam__violation(verifier, NAM__I_HEAD, "the head node is not where its range is");
	else if (order && !chain->nodes)
		nam__violation(verifier, NAM__I_CHAIN, "the leftmost node's low fence is not zero");
	else if (order)
		nam__violation(verifier, NAM__I_CHAIN,
			"the node's range begins %s the one to its left ends",
			order > 0 ? "after" : "before");
	if (head && chain->after_head) {
		nam__violation(verifier, NAM__I_HEAD, "the head node follows another one");
		return false;
	}
	if (head && !chain->nodes)
		nam__violation(verifier, NAM__I_HEAD, "the head node is the first of its level");
	if (!head && chain->nodes &&
		nam__key_compare(nam__node_low(image), chain->last_low.w, g->full_words) <= 0)
		return false;
	return true;
}

/* I1: fences and sibling of the node must fit each other.  Sets out for the next one. */
static bool
chain_follow(struct walk *walk, const uint64_t *image)
{
	const struct nam__geometry *g = &walk->verifier.index->g;
	struct nam__verifier *verifier = &walk->verifier;
	struct chain *chain = &walk->chain;
	bool head = nam__node_type(image) == NAM__NODE_HEAD;

	chain->after_head = head;
	chain->next = nam__node_sibling(image);
	if (!head) {
		memcpy(chain->last_low.w, nam__node_low(image), 8 * g->full_words);
		memcpy(chain->expected.w, nam__node_high(g, image), 8 * g->full_words);
		chain->nodes++;
	}
	if (!head && nam__node_last(image)) {
		if (!nam_gaddr_is_null(chain->next))
			nam__violation(verifier, NAM__I_CHAIN,
				"the last node of its level has a sibling");
		chain->ended = true;
		return true;
	}
	if (!head && nam__key_compare(nam__node_low(image), nam__node_high(g, image),
			     g->full_words) >= 0)
		nam__violation(verifier, NAM__I_CHAIN, "the node's range is empty");
	if (!nam_gaddr_is_null(chain->next))
		return true;
	nam__violation(verifier, head ? NAM__I_HEAD : NAM__I_CHAIN,
		"no sibling, and not the last node of its level");
	return false;
}

/* The image of chain->next; a defect in it counts only if it is still there after a moment. */
NAM_FIBER_FN static int
chain_read(struct walk *walk, uint64_t **ret_image)
{
	struct nam__verifier *verifier = &walk->verifier;
	const uint64_t *parent = NULL;
	unsigned entry = 0;
	int rc = 0;

	verifier->at = walk->chain.next;
	if (verifier->level < walk->root_level) {
		rc = names_peek(walk); /* SUSPENDS */
		if (rc)
			return rc;
		if (!walk->names.over) {
			parent = walk->names.image;
			entry = walk->names.entry;
		}
	}
	rc = nam__window_read(&walk->window, verifier->at, parent, entry, ret_image); /* SUSPENDS */
	for (unsigned i = 0; !rc && i < TORN_RETRIES &&
		!nam__node_is_whole(verifier->index, *ret_image, verifier->at); i++) {
		nam__pause_await(verifier->worker, TORN_PAUSE_NS); /* SUSPENDS */
		rc = nam_read_await(verifier->worker, verifier->at, *ret_image,
			verifier->index->g.node_bytes); /* SUSPENDS */
	}
	return rc;
}

/* One node of the chain. */
NAM_FIBER_FN static int
chain_step(struct walk *walk)
{
	struct nam__verifier *verifier = &walk->verifier;
	struct chain *chain = &walk->chain;
	uint64_t *image;
	bool believable;
	int rc = chain_read(walk, &image); /* SUSPENDS */

	if (rc == -NAM_E_NOREGION) {
		nam__violation(verifier, NAM__I_CHAIN, "a pointer leads outside of memory");
		chain->damaged = true;
		return 0;
	}
	if (rc)
		return rc;
	believable = nam__verify_image(verifier, image);
	/* A damaged image may still have a sound header; its fences tell. */
	chain->damaged = (!believable && nam__key_compare(nam__node_low(image), chain->expected.w,
						 verifier->index->g.full_words)) ||
			 !check_chain(walk, image);
	if (chain->damaged)
		return 0;
	if (nam__node_type(image) != NAM__NODE_HEAD) {
		if (verifier->level < walk->root_level)
			rc = check_named(walk, image); /* SUSPENDS */
		else if (chain->nodes)
			nam__violation(verifier, NAM__I_NAMED,
				"missing separator: the node lies to the right of the root");
		if (rc)
			return rc;
	}
	if (!chain->nodes && verifier->level && believable)
		walk->leftmost[verifier->level - 1] =
			nam__inner_child(&verifier->index->g, image, 0);
	chain->damaged = !chain_follow(walk, image);
	return 0;
}

NAM_FIBER_FN static int
level_verify(struct walk *walk, unsigned level)
{
	struct chain *chain = &walk->chain;
	int rc = 0;

	memset(chain, 0, sizeof(*chain));
	chain->next = walk->leftmost[level];
	walk->verifier.level = level;
	if (level < walk->root_level)
		names_begin(walk, level + 1);
	while (!rc && !chain->ended && !chain->damaged)
		rc = chain_step(walk); /* SUSPENDS */
	if (!rc && chain->ended && level < walk->root_level)
		rc = check_names_over(walk); /* SUSPENDS */
	return rc;
}

/* ---- the root ------------------------------------------------------------------------------ */

/* I11, and I9 of the collector's word.  Leaves the root in walk->leftmost[0]. */
NAM_FIBER_FN static int
superblock_verify(struct walk *walk)
{
	struct nam__verifier *verifier = &walk->verifier;
	struct nam_index *index = verifier->index;
	struct nam_superblock block;
	int rc = nam__superblock_read(verifier->worker, index, &block); /* SUSPENDS */

	if (rc)
		return rc;
	verifier->at = index->superblock;
	if (block.magic != NAM_SUPERBLOCK_MAGIC || block.format != NAM_SUPERBLOCK_FORMAT ||
		block.seed != index->g.seed || block.key_bytes != index->g.key_bytes ||
		block.node_bytes != index->g.node_bytes || !block.unique != !index->g.unique ||
		block.head_interval != index->options.head_interval)
		nam__violation(verifier, NAM__I_SUPERBLOCK,
			"the superblock is not what it was when the index was opened");
	if (block.collector)
		nam__violation(verifier, NAM__I_UNLOCKED,
			"client %u, incarnation %u is collecting, or died as it did",
			nam_lock_owner(block.collector), nam_lock_incarnation(block.collector));
	walk->leftmost[0].raw = block.root;
	return 0;
}

/* The root says itself on which level it is.  *ret_levels stays if the pointer leads to none. */
NAM_FIBER_FN static int
root_find(struct walk *walk, unsigned *ret_levels)
{
	struct nam__verifier *verifier = &walk->verifier;
	struct nam_gaddr root = walk->leftmost[0];
	uint64_t *image;
	unsigned level;
	int rc;

	verifier->at = root;
	rc = nam__window_read(&walk->window, root, NULL, 0, &image); /* SUSPENDS */
	if (rc && rc != -NAM_E_NOREGION)
		return rc;
	level = rc ? NAM__LEVELS_MAX : nam__node_level(image);
	walk->window.count = 0;
	if (level >= NAM__LEVELS_MAX) {
		nam__violation(verifier, rc ? NAM__I_SUPERBLOCK : NAM__I_PROMISE,
			"the root pointer leads to no root");
		return 0;
	}
	walk->root_level = level;
	walk->leftmost[0] = NAM_GADDR_NULL;
	walk->leftmost[level] = root;
	*ret_levels = level + 1;
	return 0;
}

/* Hybrid: the chain of a part's leaves, beside the names that the memory server has for them. */
NAM_FIBER_FN static int
leaves_verify(struct walk *walk)
{
	/* Parts have one superblock. */
	int rc = walk->verifier.index->part ? 0 : superblock_verify(walk); /* SUSPENDS */

	if (rc)
		return rc;
	walk->root_level = 1;
	walk->names.more = names_query;
	names_begin(walk, 1);
	rc = names_peek(walk); /* SUSPENDS */
	if (rc)
		return rc;
	walk->leftmost[0] = names_child(walk);
	return level_verify(walk, 0); /* SUSPENDS */
}

NAM_FIBER_FN static int
tree_verify(struct walk *walk)
{
	unsigned levels = 0;
	int rc = superblock_verify(walk); /* SUSPENDS */

	walk->names.more = names_read;
	if (!rc)
		rc = root_find(walk, &levels); /* SUSPENDS */
	for (; !rc && levels > 0; levels--) {
		if (levels <= walk->root_level && nam_gaddr_is_null(walk->leftmost[levels - 1]))
			break;		/* the level above says nothing about this one; reported */
		rc = level_verify(walk, levels - 1); /* SUSPENDS */
	}
	return rc;
}

NAM_FIBER_FN static int
verify(int (*all)(struct walk *walk), struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations)
{
	uint32_t node_bytes = index->g.node_bytes;
	struct walk walk = {
		.verifier = {
			.worker = worker,
			.index = index,
			.violation = violation,
			.arg = arg,
		},
	};
	int rc = -ENOMEM;

	walk.verifier.sorted = nam_buffer_take(worker, node_bytes);
	walk.names.image = nam_buffer_take(worker, node_bytes);
	if (!walk.verifier.sorted || !walk.names.image)
		goto give_images;
	rc = nam__window_init(&walk.window, worker, index);
	if (rc)
		goto give_images;
	rc = all(&walk); /* SUSPENDS */
	nam__window_done(&walk.window);
	*violations += walk.verifier.violations;
give_images:
	nam_buffer_give(worker, walk.names.image, node_bytes);
	nam_buffer_give(worker, walk.verifier.sorted, node_bytes);
	return rc;
}

int
nam__fine_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations)
{
	return verify(tree_verify, worker, index, violation, arg, violations); /* SUSPENDS */
}

int
nam__leaves_verify(struct nam_worker *worker, struct nam_index *index,
	nam_index_violation_fn violation, void *arg, uint64_t *violations)
{
	return verify(leaves_verify, worker, index, violation, arg, violations); /* SUSPENDS */
}
