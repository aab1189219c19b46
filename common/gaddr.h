/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gaddr.h -- remote addresses: one 64-bit word that names a byte of the whole cluster's memory.
 *
 *	63            48 47            32 31                              0
 *	+---------------+---------------+---------------------------------+
 *	|      tag      |   region id   |  offset in units of 64 bytes    |
 *	+---------------+---------------+---------------------------------+
 *
 * A region id names a slab of one memory server's registered memory.  region_table.h finds the
 * slab, so a region can move without a change of pointers.  The tag belongs to the owner of the
 * pointer: the index keeps the low 16 bits of the node's generation there.
 */
#ifndef NAM_COMMON_GADDR_H
#define NAM_COMMON_GADDR_H

#include <stdbool.h>
#include <stdint.h>

#define NAM_GADDR_UNIT_BYTES 64u
#define NAM_REGIONS_MAX 65536u
/* A memory server's regions have ids from server id * this upwards. */
#define NAM_REGIONS_PER_SERVER 256u
#define NAM_SERVERS_MAX (NAM_REGIONS_MAX / NAM_REGIONS_PER_SERVER)
#define NAM_BACKUPS_MAX 2u	/* processes with a copy of one memory server's memory */

/* A remote address.  raw == 0 is null: byte 0 of region 0 is never handed out. */
struct nam_gaddr {
	uint64_t raw;
};

#ifdef __cplusplus
#define NAM_GADDR(raw) (nam_gaddr{ raw })
#else
#define NAM_GADDR(raw) ((struct nam_gaddr){ raw })
#endif
#define NAM_GADDR_NULL NAM_GADDR(0)

static inline struct nam_gaddr
nam_gaddr_make(uint16_t region, uint64_t offset_bytes, uint16_t tag)
{
	return NAM_GADDR((uint64_t)tag << 48 | (uint64_t)region << 32 |
		(uint32_t)(offset_bytes / NAM_GADDR_UNIT_BYTES));
}

static inline uint16_t
nam_gaddr_region(struct nam_gaddr at)
{
	return (uint16_t)(at.raw >> 32);
}

static inline uint16_t
nam_gaddr_tag(struct nam_gaddr at)
{
	return (uint16_t)(at.raw >> 48);
}

static inline uint64_t
nam_gaddr_offset(struct nam_gaddr at)
{
	return (uint64_t)(uint32_t)at.raw * NAM_GADDR_UNIT_BYTES;
}

/* The place without its tag: what identifies memory, for comparing and hashing. */
static inline struct nam_gaddr
nam_gaddr_untagged(struct nam_gaddr at)
{
	return NAM_GADDR(at.raw & 0x0000ffffffffffffull);
}

static inline struct nam_gaddr
nam_gaddr_tagged(struct nam_gaddr at, uint16_t tag)
{
	return NAM_GADDR(nam_gaddr_untagged(at).raw | (uint64_t)tag << 48);
}

static inline bool
nam_gaddr_is_null(struct nam_gaddr at)
{
	return at.raw == 0;
}

static inline bool
nam_gaddr_same(struct nam_gaddr a, struct nam_gaddr b)
{
	return a.raw == b.raw;
}

/*
 * The tag of a block from nam_alloc(): fresh, with zeroes only; used before; or freed by a sweep.
 * A swept block may have been a node that is not dead.
 */
#define NAM_BLOCK_FRESH 0u
#define NAM_BLOCK_RECYCLED 1u
#define NAM_BLOCK_SWEPT 2u

#endif /* NAM_COMMON_GADDR_H */
