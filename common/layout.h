/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- bytes in remote memory that several rooms know.
 *
 * The header of a node is here.  index/node/node.h defines its entries from the index's key size.
 * Layouts that only txn/ knows are in txn/table/rows_internal.h and txn/serial/layout.h.
 *
 * All words are little-endian.  A word of an atomic is 8-byte aligned and is touched by atomics
 * only.  Reserved bytes are zero.
 */
#ifndef NAM_COMMON_LAYOUT_H
#define NAM_COMMON_LAYOUT_H

#include <stdbool.h>
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
 * 0	64	-	none: null is here		zero
 * 64	8	epoch	FETCH_ADD of clients		generation:24 | epoch:40; monotone, but for
 *						the wrap after 2^24 generations
 * 72	8	joined	CAS of clients that publish	version:48 | highest id with a name:16
 *			or end a name
 * 80	8	view	the server's CPU		fencing:16 | number of the view:48, or a
 *						later one; fencing: how many clients are.
 *						Clients may damage it: then they ask
 * 88	8	sweep	the server's CPU		the sweep that asks for reports; likewise
 * 96	8	sweeper	CAS by the client that sweeps	0, or a lock word (below)
 * 128	8 each	slots	WRITE by the client whose	0: in no epoch; else the oldest epoch
 *			slot it is; the server's CPU	that the client may still be in.  Whole
 *			zeroes a dead client's slot	words.  4,096 of them.
 * 32896 32 each names	WRITE by the client whose	nothing: `check` says whether it is whole,
 *			name it is			`incarnation` whose it is.  4,096 of them.
 */
#define NAM_META_EPOCH_OFFSET 64u
#define NAM_META_JOINED_OFFSET 72u
#define NAM_META_VIEW_OFFSET 80u
#define NAM_META_SWEEP_OFFSET 88u
#define NAM_META_SWEEPER_OFFSET 96u
#define NAM_META_SLOTS_OFFSET 128u
#define NAM_VIEW_WORD_FENCING 48u	/* of the view word, from this bit on */
#define NAM_META_NAMES_OFFSET (NAM_META_SLOTS_OFFSET + 8u * NAM_CLIENTS_MAX)
#define NAM_META_BYTES (NAM_META_NAMES_OFFSET + 32u * NAM_CLIENTS_MAX)

/* Where datagrams for a client go: fabric/endpoint.h. */
struct nam_client_name {
	uint8_t place[24];
	uint32_t number;
	uint16_t incarnation;		/* 0: the client takes none */
	uint16_t check;			/* of the bytes before it */
};
_Static_assert(sizeof(struct nam_client_name) == 32, "remote layout");

/* Added to the epoch word, this begins a generation: clients forget addresses of the last one. */
#define NAM_EPOCH_GENERATION (1ull << 40)

/* How far word `a` is ahead of `b`. */
static inline int64_t
nam_epoch_ahead(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

/*
 * The superblock of an index: one block, found by name through the catalog of server 0.
 *
 * offset size	field		written by			a one-sided reader may assume
 * 0	8	root		CAS by the last grower		a tagged gaddr; was the root once:
 *								from it on to the right lies all
 * 8	8	collector	CAS by the collector		0, or a lock word (below)
 * 16	8	state		CAS 0 -> 1 by its dropper	1: dropped
 * 24	8	image_hash	the creator, once, before	hash of bytes 32 .. 127 mixed with
 *				the catalog names the block	the address
 * 32	96	the rest	same				constant
 * 128	2048	boots[id]	same				the boot with which the memory
 *								of each of these began; else 0
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
	uint64_t view;			/* its number at creation, or a lower one; 0: none */
	uint8_t servers[32];		/* bit i: server id i holds nodes of this index */
};
_Static_assert(sizeof(struct nam_superblock) == 128, "remote layout");
_Static_assert(offsetof(struct nam_superblock, magic) == 32, "remote layout");
_Static_assert(offsetof(struct nam_superblock, boots_hash) == 80, "remote layout");
_Static_assert(offsetof(struct nam_superblock, view) == 88, "remote layout");

#define NAM_SUPERBLOCK_MAGIC 0x314b4c42534d414eull	/* "NAMSBLK1" */
#define NAM_SUPERBLOCK_FORMAT 4u

/* Behind boots[]: what is being merged (index/maintain/merge.h). */
#define NAM_SUPERBLOCK_INTENT (128u + 8u * NAM_SERVERS_MAX)
#define NAM_SUPERBLOCK_STRIDE (NAM_SUPERBLOCK_INTENT + 64u)

/*
 * A lock word: 0 is free, otherwise its holder.
 *
 *	merges:1 | owner (client id):15 | incarnation:16 | reserved:1 | sequence:31
 *
 * `merges`: the holder changes more than this object under it: it merges nodes.
 * `reserved`: free; it is the turn of the client that the word names, then of any other (C18).
 *
 * CAS only, never inside a WRITE, by one fabric, for ever; the memory server's CPU leaves it alone.
 */
#define NAM_LOCK_FREE 0ull
#define NAM_LOCK_MERGES (1ull << 63)
#define NAM_LOCK_RESERVED (1ull << 31)

static inline uint64_t
nam_lock_word(uint16_t owner, uint16_t incarnation, uint32_t sequence)
{
	return (uint64_t)owner << 48 | (uint64_t)incarnation << 32 | sequence;
}

static inline bool
nam_lock_held(uint64_t word)
{
	return word != NAM_LOCK_FREE && !(word & NAM_LOCK_RESERVED);
}

static inline uint16_t
nam_lock_owner(uint64_t word)
{
	return (uint16_t)(word >> 48 & 0x7fff);
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

/*
 * A record store: its superblock, found by name through the catalog of server 0.  Heads of records
 * are found through an index, "<name>.keys", from the 16 bytes that nam__record_id() makes of keys.
 */
struct nam_records_superblock {
	uint64_t image_hash;		/* of what follows, mixed with the address */
	uint64_t magic;			/* NAM_RECORDS_MAGIC */
	uint64_t store;			/* a random number: it is in every version */
	uint16_t format;		/* NAM_RECORDS_FORMAT */
	uint8_t algorithm;		/* enum nam_ramp */
	uint8_t commit;			/* enum nam_records_commit */
	uint8_t tables;			/* 1: records are rows of tables, whatever their names */
	uint8_t reserved[35];
};
_Static_assert(sizeof(struct nam_records_superblock) == 64, "remote layout");

#define NAM_RECORDS_MAGIC 0x31434552534d414eull	/* "NAMSREC1" */
#define NAM_RECORDS_FORMAT 4u

/*
 * The head of a record.
 *
 * offset size	field	written by			a one-sided reader may assume
 * 0	8	latest	CAS by a committer; or by the	0: there was never a version; else the
 *			memory server's CPU, where	address of the latest that is committed, the
 *			the superblock says so		tag says its length; or DROPPED
 * 8	4	tag	WRITE by the client that makes	of its store (nam__record_tag()), or it was
 *			or drops it, or that CPU	dropped
 * 12	52	the rest	that CPU, or none	nothing
 */
#define NAM_RECORD_HEAD_BYTES 64u
#define NAM_RECORD_DROPPED 1ull		/* no version is there */

/*
 * A version of a record: this, what it says of its siblings (the other records of the transaction),
 * the key, the value.
 *
 * offset size	field		written by			a one-sided reader may assume
 * 0	8	current		WRITE by its writer, with	its timestamp: as far as this word
 *				the rest; then CAS to a mark	goes, nothing newer is committed
 *				of a client that saw a newer,
 *				or the CPU stores what is none
 * 8	8	previous	that CPU, or none		nothing
 * 16	8	hash		WRITE by its writer, before	matches the bytes from 24 on and
 *				others know its address		the address, or it is torn
 * 24	-	the rest	same				constant until the block is reused
 */
struct nam_version {
	uint64_t current;
	uint64_t previous;		/* for memory servers that look for versions by timestamp */
	uint64_t hash;
	uint64_t timestamp;		/* unique: microseconds:52 | client id:12 */
	uint64_t store;			/* that this version belongs to */
	uint64_t head;			/* gaddr of the record's head */
	uint64_t key_id;		/* the first half of nam__record_id() */
	uint32_t value_bytes;
	uint16_t metadata_bytes;	/* of its description of the transaction */
	uint8_t key_bytes;
	uint8_t deleted;		/* 1: there is no value, the record was deleted */
};
_Static_assert(sizeof(struct nam_version) == 64, "remote layout");

/*
 * RAMP_FAST, RAMP_LOCKING: what else the transaction wrote, where it lies since before any was
 * committed.
 */
struct nam_version_sibling {
	uint64_t key_id;
	uint64_t head;
	uint64_t at;			/* of the version; tag: length */
};

/* RAMP_HYBRID: the same as a set of keys: 4 bits each of 256. */
struct nam_version_filter {
	uint64_t bits[4];
};

/*
 * RAMP_SMALL, and RAMP_HYBRID behind the filter: which record leads the transaction, if it has
 * several.  For the client that ends what a dead one has left, not for readers.
 */
struct nam_version_leader {
	uint64_t head;
	uint64_t others[];		/* in the version of that one: the heads of all others */
};

/*
 * Nodes are this much further apart than they are long.  NICs serialise atomics by the low 12
 * address bits; lock words at 1 KiB strides would fall into four slots of 4,096.  The redo record
 * of the last change of the node lies there: index/node/redo.h.
 */
#define NAM_NODE_STAGGER_BYTES 64u

/*
 * Whether blocks of that stride may be nodes.  Their first words are locks, and stay so when blocks
 * are reused.  So nothing else may have such a stride.
 */
static inline bool
nam_stride_is_of_nodes(uint32_t stride)
{
	uint32_t node_bytes = stride - NAM_NODE_STAGGER_BYTES;

	return stride > 2 * NAM_NODE_STAGGER_BYTES && !(node_bytes & (node_bytes - 1));
}

#endif /* NAM_COMMON_LAYOUT_H */
