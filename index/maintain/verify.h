/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h -- the two halves of the verifier: one node by itself (verify_node.c), and nodes among
 * each other (verify.c).
 */
#ifndef NAM_INDEX_MAINTAIN_VERIFY_H
#define NAM_INDEX_MAINTAIN_VERIFY_H

#include "maintain.h"

/* The numbers of index/README.md. */
enum nam__invariant {
	NAM__I_CHAIN = 1,	/* siblings divide the key space without gap or overlap */
	NAM__I_WHOLE,		/* an image's hash and ends agree */
	NAM__I_PROMISE,		/* a node is what the pointer to it promises */
	NAM__I_ORDER,		/* entries are in order, distinct, and between the fences */
	NAM__I_SEPARATOR,	/* a separator is the low fence of its child */
	NAM__I_PARENT,		/* separators name nodes of the level below, in its order */
	NAM__I_NAMED,		/* at rest, every node but the root has a separator */
	NAM__I_ALIVE,		/* no dead node is in a chain */
	NAM__I_UNLOCKED,	/* at rest, no lock is held */
	NAM__I_HEAD,		/* head nodes are empty ranges in front of a leaf */
	NAM__I_SUPERBLOCK,	/* the superblock is as it was created */
	NAM__I_SERVER_TREE,	/* server trees are trees: I1, I4, I5, I7 */
};

struct nam__verifier {
	struct nam_worker *worker;
	struct nam_index *index;
	nam_index_violation_fn violation;
	void *arg;
	uint64_t violations;

	/* The node being looked at, for messages. */
	struct nam_gaddr at;
	unsigned level;
	uint64_t *sorted;	/* a copy to bring into order */
};

/* Count a violation and tell the caller; the place is put in front of the sentence. */
void nam__violation(struct nam__verifier *verifier, enum nam__invariant invariant,
	const char *format, ...) NAM_PRINTF(3, 4);

/**
 * nam__verify_image -- check one node by itself: I2, I3, I4, I8, I9 and its part of I5 and I10.
 *
 * verifier->at and verifier->level say what the pointer promised.
 *
 * Returns whether the contents can be believed.
 */
bool nam__verify_image(struct nam__verifier *verifier, const uint64_t *image);

#endif /* NAM_INDEX_MAINTAIN_VERIFY_H */
