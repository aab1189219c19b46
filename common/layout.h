/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- every byte that lives in remote memory, except the inside of index nodes, whose
 * header is here and whose entries index/node.h defines from the index's key size.
 *
 * All words are little-endian.  Whatever an atomic touches is 8-byte aligned and is touched by
 * atomics only.  Reserved bytes are zero.
 */
#ifndef NAM_COMMON_LAYOUT_H
#define NAM_COMMON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "remote layouts are little-endian; a big-endian host needs conversions here"
#endif

#define NAM_CLIENTS_MAX 4096u

/*
 * The meta page: the first bytes of region 0 of server 0.
 *
 * offset size	field	written by			a one-sided reader may assume
 * 0	64	-	nobody: null is here		zero
 * 64	8	epoch	FETCH_ADD of collectors		monotone
 * 128	8 each	slots	WRITE by the client whose	0: in no epoch; else the oldest epoch
 *			slot it is; the server's CPU	that the client may still be in.  Whole
 *			zeroes a dead client's, after	words.  4,096 of them.
 *			its connections are gone
 */
#define NAM_META_EPOCH_OFFSET 64u
#define NAM_META_SLOTS_OFFSET 128u
#define NAM_META_BYTES (NAM_META_SLOTS_OFFSET + 8u * NAM_CLIENTS_MAX)

/*
 * The superblock of an index: one block, found by name through the catalog of server 0.
 *
 * offset size	field		written by			a one-sided reader may assume
 * 0	8	root		CAS by who grew the tree	a tagged gaddr; was the root once:
 *								from it on to the right lies all
 * 8	8	collector	CAS by the collector		0, or a lock word (below)
 * 16	8	state		CAS 0 -> 1 by who drops it	1: dropped
 * 24	8	image_hash	the creator, once, before	hash of bytes 32 .. 127 mixed with
 *				the catalog names the block	the address
 * 32	96	the rest	same				constant
 * 128	2048	boots[id]	same				of which life of each server
 *								these are; else 0
 */
struct nam_superblock {
	uint64_t root;
	uint64_t collector;
	uint64_t state;
	uint64_t image_hash;
	uint64_t magic;			/* NAM_SUPERBLOCK_MAGIC */
	uint32_t format;		/* NAM_SUPERBLOCK_FORMAT */
	uint32_t design;		/* enum nam_index_design */
	uint64_t seed;			/* of node hashes: unlike in any other index */
	uint32_t key_bytes;		/* 8 .. 64 */
	uint32_t node_bytes;		/* power of two, 256 .. 16384 */
	uint32_t unique;		/* 0 or 1 */
	uint32_t head_interval;		/* leaves from head node to head node; 0: no head nodes */
	uint32_t servers_count;		/* memory servers at creation */
	uint32_t partitioning;		/* enum nam_partitioning; 0: one tree for all keys */
	uint64_t boots_hash;		/* of boots[], which follows this struct in the block */
	uint32_t reserved2[2];
	uint8_t servers[32];		/* bit i: server id i holds nodes of this index */
};
_Static_assert(sizeof(struct nam_superblock) == 128, "remote layout");
_Static_assert(offsetof(struct nam_superblock, magic) == 32, "remote layout");
_Static_assert(offsetof(struct nam_superblock, boots_hash) == 80, "remote layout");

#define NAM_SUPERBLOCK_MAGIC 0x314b4c42534d414eull	/* "NAMSBLK1" */
#define NAM_SUPERBLOCK_FORMAT 2u
#define NAM_SUPERBLOCK_STRIDE (128u + 8u * NAM_SERVERS_MAX)

/*
 * A lock word: 0 is free, otherwise who holds it.
 *
 *	owner (client id):16 | incarnation:16 | sequence:32
 *
 * CAS only, never inside a WRITE, by one fabric, for ever; the memory server's CPU leaves it alone.
 */
#define NAM_LOCK_FREE 0ull

static inline uint64_t
nam_lock_word(uint16_t owner, uint16_t incarnation, uint32_t sequence)
{
	return (uint64_t)owner << 48 | (uint64_t)incarnation << 32 | sequence;
}

static inline uint16_t
nam_lock_owner(uint64_t word)
{
	return (uint16_t)(word >> 48);
}

static inline uint16_t
nam_lock_incarnation(uint64_t word)
{
	return (uint16_t)(word >> 32);
}

/*
 * The header of an index node.  After it: low fence, high fence (key_stride bytes each), the
 * entries, and in the node's last 8 bytes the rear copy of `front`.
 *
 * offset size	field	written by			a one-sided reader may assume
 * 0	8	lock	CAS only			nothing: readers ignore it
 * 8	8	hash	WRITE under the lock		matches words 2 .. of the same image, or
 *							the image is torn
 * 16	8	front	WRITE under the lock, last	version:48 | type:8 | level:8; the
 *							version grows by 1 per image
 * 24	8	shape	WRITE under the lock		count:16 | sorted:16 | generation:32
 * 32	8	sibling	WRITE under the lock		tagged gaddr of the node to the right, or
 *							null; in a dead node, of the node that
 *							took over its key range
 * end-8 8	rear	WRITE under the lock, first	equals front, or the image is torn
 *
 * On a fabric with ORDERED_LOADS front == rear proves a whole image; on others only the hash does.
 */
struct nam_node_header {
	uint64_t lock;
	uint64_t hash;
	uint64_t front;
	uint64_t shape;
	uint64_t sibling;
};
_Static_assert(sizeof(struct nam_node_header) == 40, "remote layout");

/* Nodes are this much further apart than they are long: NICs serialise atomics by the low 12
 * address bits, and lock words at 1 KiB strides would fall into four slots of 4,096. */
#define NAM_NODE_STAGGER_BYTES 64u

#endif /* NAM_COMMON_LAYOUT_H */
