/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h -- what both processes of a queue pair see.  Raise SHM_VERSION whenever it changes. */
#ifndef NAM_COMMON_FABRIC_SHM_WIRE_H
#define NAM_COMMON_FABRIC_SHM_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/fabric/fabric.h"

#define SHM_CACHE_LINE 64
#define SHM_PAGE_BYTES 4096u
#define SHM_SLOTS 16u			/* messages in one ring; a power of two */
#define SHM_MESSAGE_BYTES 4096u
#define SHM_QPS_MAX 1024u		/* queue pairs of one cq */
#define SHM_BELL_WORDS (SHM_QPS_MAX / 64)
#define SHM_SHARE_KEY UINT32_MAX	/* of the share of a queue pair's peer */
#define SHM_REGIONS_MAX 512u		/* of one server: each region has two memories */
/* An even key is of memory that clients may write; the next one, of memory to be READ alone. */
#define SHM_READ_ONLY 1u
/* An even instance is a memory server's; the next one, of its clients that may only READ. */
#define SHM_FOR_READING 1u

/* ---- shared memory ------------------------------------------------------------------------ */

/* A page that the owner of a cq makes, and the peers of all its queue pairs map. */
struct shm_bell {
	/* futex: bit 0, the owner sleeps; the rest changes with every waking and falling asleep */
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t word;
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t summary;	/* bit i: bits[i] may be non-zero */
	_Alignas(SHM_CACHE_LINE) _Atomic uint64_t bits[SHM_BELL_WORDS];
};
_Static_assert(sizeof(struct shm_bell) <= SHM_PAGE_BYTES, "a bell is one page");

struct shm_slot {
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t bytes;
	_Alignas(SHM_CACHE_LINE) uint8_t data[SHM_MESSAGE_BYTES];
};

struct shm_ring {
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t tail;		/* sender: messages ever sent */
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t head;		/* receiver: messages ever taken */
	_Alignas(SHM_CACHE_LINE) _Atomic uint32_t want_space;	/* sender: post to my bell */
	struct shm_slot slots[SHM_SLOTS];
};

struct shm_rings {
	struct shm_ring request;	/* client to server */
	struct shm_ring reply;
};

/* ---- the handshake, over a SOCK_SEQPACKET socket ------------------------------------------ */

#define SHM_MAGIC 0x6d68736eu		/* "nshm" */
#define SHM_MAGIC_CHALLENGE 0x6368736eu	/* "nshc" */
#define SHM_MAGIC_ANSWER 0x6168736eu	/* "nsha" */
#define SHM_VERSION 5u
#define SHM_REGIONS_PER_PACKET 32u

/* Client to server, with the bell of the client's cq, and perhaps its share, as descriptors. */
struct shm_hello {
	uint32_t magic;
	uint32_t version;
	uint64_t known_instance;	/* the one that this domain has mapped, or 0 */
	uint32_t bell_index;		/* the client's bit in its own bell */
	uint32_t bytes;
	uint8_t data[NAM_HELLO_BYTES_MAX];
};

/* Server to client, at most once, in place of the welcome; and what the client answers. */
struct shm_challenge {
	uint32_t magic;
	uint32_t bytes;
	uint8_t data[NAM_REPLY_BYTES_MAX];
};

struct shm_answer {
	uint32_t magic;
	uint32_t bytes;
	uint8_t data[NAM_HELLO_BYTES_MAX];
};

/* Server to client; on success with the rings, the bell of its cq, and perhaps its share. */
struct shm_welcome {
	uint32_t magic;
	uint32_t version;
	uint32_t accepted;
	uint32_t bell_index;		/* the client's bit in the server's bell */
	uint64_t instance;
	uint32_t regions_count;
	uint32_t regions_follow;	/* 0 when the client has them already */
	uint32_t bytes;
	uint32_t reserved;
	uint8_t data[NAM_REPLY_BYTES_MAX];
};

/* Memory of a region.  With the first note of a file, numbered from 0 on, comes its descriptor. */
struct shm_region_note {
	uint64_t bytes;
	uint64_t offset;		/* in its file */
	uint32_t file;
	uint32_t transparent_huge;
	uint32_t withdrawn;		/* now, and perhaps not for ever */
	uint32_t reserved;
};

/* Then, in as many packets as it takes, the regions in the order of their keys. */
struct shm_regions_packet {
	uint32_t magic;
	uint32_t count;
	struct shm_region_note regions[SHM_REGIONS_PER_PACKET];
};

#endif /* NAM_COMMON_FABRIC_SHM_WIRE_H */
