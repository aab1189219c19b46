/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options and limits of a key-value store. */
#ifndef NAM_KV_OPTIONS_H
#define NAM_KV_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NAM_KV_KEY_BYTES_MAX 255u	/* and 1 at least */
#define NAM_KV_VALUE_BYTES_MAX 1048576u	/* 0 is a value */
#define NAM_KV_MESSAGE_BYTES_MAX 3800u	/* longer values cost more: kv.h */
#define NAM_KV_KICKED 8u		/* classes of a histogram */
#define NAM_KV_PARTITIONS_MAX 1024u
#define NAM_KV_PARTITION_BYTES_MIN 65536u
#define NAM_KV_PARTITION_BYTES_MAX 68719476736ull	/* 64 GiB */

enum nam_kv_mode {
	NAM_KV_CACHE = 1,		/* evicts */
	NAM_KV_STORE = 2,		/* refuses */
};

enum nam_kv_engine {
	NAM_KV_CHAINED = 1,		/* Jakiro: buckets of chains */
	NAM_KV_CUCKOO = 2,		/* RHKV: two tables; predicts inserts that would loop */
};

struct nam_kv_options {
	enum nam_kv_mode mode;		/* default cache */
	enum nam_kv_engine engine;	/* default chained */
	/*
	 * Clients get short pairs by one-sided READs of their buckets.  Only cuckoo.  The pairs are
	 * then in read-only regions, which take whole regions of memory servers; default false.
	 */
	bool onesided;
	/*
	 * The memory of all parts together: 64 MiB by default.  A pair takes 64 bytes for its first
	 * 48 bytes of key and value and 64 for each 52 more.  In cuckoo it is 56, and the first 44
	 * if the pair is longer than 48.  Chained takes a seventeenth of the whole for buckets, and
	 * at least 32 KiB of each partition.  Cuckoo leaves up to a 25th of its slots free.  A pair
	 * must fit into a partition.
	 */
	uint64_t memory_bytes;
	uint32_t partitions;		/* of each memory server; 0: up to 16, as memory allows */
};

/* The defaults above. */
void nam_kv_options_init(struct nam_kv_options *options);

#ifdef __cplusplus
}
#endif

#endif /* NAM_KV_OPTIONS_H */
