/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_fixture.h -- what unit tests of index/ share: a cluster of threads, clients, small trees.
 *
 * Everything in here asserts; call it from the test's own stack.
 */
#ifndef NAM_TESTS_LIB_INDEX_FIXTURE_H
#define NAM_TESTS_LIB_INDEX_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/index.h"
#include "cluster.h"
#include "design.h"

/* A client with one worker. */
struct member {
	struct nam_client *client;
	struct nam_worker *worker;
};

struct member member_join(const struct local_cluster *cluster, const char *name,
	uint32_t lock_timeout_ms);
/*
 * start() and stop() of a test program for cmocka.  They make the memory servers `cluster` and the
 * client `me`; in TEST_CLUSTER_OF_TWO, the client `other` as well.
 */
#define TEST_CLUSTER_OF(servers, memory_bytes, region_bytes, join, leave)\
	static struct local_cluster *cluster;\
\
	static int start(void **state)\
	{\
		(void)state;\
		cluster = local_cluster_start(servers, memory_bytes, region_bytes);\
		join;\
		return 0;\
	}\
\
	static int stop(void **state)\
	{\
		(void)state;\
		leave;\
		local_cluster_stop(cluster);\
		return 0;\
	}

#define TEST_CLUSTER(servers, memory_bytes, region_bytes, lock_timeout_ms)\
	static struct member me;\
	TEST_CLUSTER_OF(servers, memory_bytes, region_bytes,\
		me = member_join(cluster, "me", lock_timeout_ms), member_leave(&me))

#define TEST_CLUSTER_OF_TWO(servers, memory_bytes, region_bytes, lock_timeout_ms)\
	static struct member me, other;\
	TEST_CLUSTER_OF(servers, memory_bytes, region_bytes,\
		(me = member_join(cluster, "me", lock_timeout_ms),\
			other = member_join(cluster, "other", lock_timeout_ms)),\
		(member_leave(&other), member_leave(&me)))

/* Without giving anything back: for the memory servers it dies. */
void member_leave(struct member *member);
/* Its diag has that text. */
void member_says(const struct member *who, const char *text);
/* Bytes that are allocated on all memory servers. */
uint64_t member_sees_used(const struct member *who);

struct tree_options {
	uint32_t key_bytes, node_bytes;
	bool pairs;			/* not unique */
	uint32_t head_interval;
};

/* Create an index under a name of its own, which is returned: static until the next call. */
const char *tree_create(struct nam_worker *worker, const struct tree_options *options);
struct nam_index *tree_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes);
/* Both of the above. */
struct nam_index *tree_new(struct nam_worker *worker, const struct tree_options *options,
	uint64_t cache_bytes);

/* Key number `number` of an index's key size, in the order of numbers. */
const void *tree_key(const struct nam_index *index, uint64_t number);
uint64_t tree_key_number(const struct nam_index *index, const void *key);

/* Insert keys first, first + step .. below end, with payload number * 10 + 1. */
void tree_fill(struct nam_worker *worker, struct nam_index *index, uint64_t first, uint64_t end,
	uint64_t step);

/* No violation, and so many entries. */
void tree_check(struct nam_worker *worker, struct nam_index *index, uint64_t entries);

#endif /* NAM_TESTS_LIB_INDEX_FIXTURE_H */
