/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of an index, and integers as keys. */
#ifndef NAM_INDEX_OPTIONS_H
#define NAM_INDEX_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the work is done; index/README.md compares them. */
enum nam_index_design {
	NAM_DESIGN_FINE = 1,		/* one tree over all memory servers; compute does it all */
	NAM_DESIGN_COARSE = 2,		/* a tree on each memory server, which does it all */
	NAM_DESIGN_HYBRID = 3,		/* leaves as fine; each memory server says where those of
					 * its part of the keys are */
};

/* The traits of a design, for programs that print and compare indexes. */
struct nam_index_traits {
	const char *name;		/* "fine", "coarse", "hybrid" */
	bool partitioned;		/* each memory server keeps a part of the keys */
	/* Levels, from the leaves, that clients read, cache and link by head nodes; memory servers
	 * search the others.  UINT32_MAX: all. */
	uint32_t client_levels;
};

/* A number that is no design has the name "unknown". */
const struct nam_index_traits *nam_index_traits(enum nam_index_design design);

/* Coarse and hybrid: which memory server keeps a key. */
enum nam_partitioning {
	NAM_PARTITION_RANGE = 1,	/* each a range of keys */
	NAM_PARTITION_HASH = 2,
	NAM_PARTITION_ROUND_ROBIN = 3,	/* successive numbers (the key's last 8 bytes) in turn */
};

#define NAM_KEY_BYTES_MIN 8u
#define NAM_KEY_BYTES_MAX 64u
#define NAM_NODE_BYTES_MIN 256u
#define NAM_NODE_BYTES_MAX 16384u

struct nam_index_options {
	enum nam_index_design design;	/* default fine */
	enum nam_partitioning partitioning;	/* default hash; of fine nothing else */
	/*
	 * By range: the lowest keys of the second, third, ... memory server's part, in the order of
	 * their ids.  They are one key less than the index has servers, ascending, the first above
	 * the lowest key there is.  Else, and of fine, NULL.
	 */
	const void *bounds;
	uint32_t bounds_count;		/* of these keys */
	uint32_t key_bytes;		/* default 8 */
	bool unique;			/* default true */
	uint32_t node_bytes;		/* default 1024; a power of two that holds 4 entries */
	uint32_t head_interval;		/* leaves per head node, or as many as it can name; default
					 * 32; 0: no head nodes; of coarse one of these */
};

/* "range", "hash", "round-robin"; "none" of a design without parts. */
const char *nam_partitioning_name(const struct nam_index_options *options);

/* The defaults above. */
void nam_index_options_init(struct nam_index_options *options);

/* Integers as 8-byte keys whose byte order is their numeric order. */
static inline void
nam_key_from_u64(uint64_t value, void *ret_key)
{
	uint64_t big = __builtin_bswap64(value);

	__builtin_memcpy(ret_key, &big, 8);
}

static inline uint64_t
nam_key_to_u64(const void *key)
{
	uint64_t big;

	__builtin_memcpy(&big, key, 8);
	return __builtin_bswap64(big);
}

#ifdef __cplusplus
}
#endif

#endif /* NAM_INDEX_OPTIONS_H */
