/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h -- memory servers in threads of the test, a client, a worker and an index: what tests of
 * whole trees stand on.  Everything here aborts the program when it fails.
 */
#ifndef NAM_TESTS_LIB_TREE_H
#define NAM_TESTS_LIB_TREE_H

#include "index/index_internal.h"
#include "cluster.h"

#define TREE_INVARIANTS 16u
#define TREE_NAME "tree"

struct tree {
	struct local_cluster *cluster;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
};

/* Lock time-out of clients that connect from now on; for tests whose other holders are dead. */
extern uint32_t tree_lock_timeout_ms;

void tree_start(struct tree *tree, unsigned servers, uint64_t memory_bytes);
void tree_stop(struct tree *tree);

/* Create TREE_NAME and open it with a cache; an index that is there is dropped first. */
void tree_plant(struct tree *tree, const struct nam_index_options *options);

/* Bytes that the memory servers have ever handed out. */
uint64_t tree_memory_carved(struct tree *tree);

/* Another client with its own worker, and a handle of its own on the index. */
struct tree_guest {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
};

/* @list	the cluster, as local_cluster_list() says */
void tree_guest_come(const char *list, struct tree_guest *guest);
void tree_guest_go(struct tree_guest *guest);
/* Until the memory servers know that the client of this lock word is dead. */
void tree_await_dead(struct tree *tree, uint64_t word);

/* The verifier's findings, by invariant. */
struct tree_violations {
	uint64_t total;
	uint64_t of[TREE_INVARIANTS];
	char first[400];
};

struct tree_violations tree_verify(struct tree *tree);

/* Fails the test with the verifier's first sentence, if it has one. */
void tree_assert_sound(struct tree *tree);

/* The image of the node at `level` that covers a key of 8 bytes, and its address. */
struct nam_gaddr tree_node(struct tree *tree, uint64_t key, unsigned level, uint64_t *image);
/* Write words of an image straight into remote memory, without a lock and unknown to clients. */
void tree_write(struct tree *tree, struct nam_gaddr at, unsigned first_word, const uint64_t *words,
	unsigned count);

#endif /* NAM_TESTS_LIB_TREE_H */
