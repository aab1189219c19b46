/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- what stores of serializable transactions keep in remote memory.
 *
 * Name -> superblock -> chunks of buckets -> records; superblock -> log directory -> logs.
 */
#ifndef NAM_TXN_SERIAL_LAYOUT_H
#define NAM_TXN_SERIAL_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/gaddr.h"
#include "common/layout.h"

#define NAM__SERIAL_CHUNKS_MAX 512u
#define NAM__SERIAL_INDEXES_MAX 4u

/* A secondary index: of these bytes of the values. */
struct nam_serial_index {
	uint64_t superblock;		/* gaddr; it has a name of its own */
	uint32_t value_offset;
	uint16_t key_bytes;		/* 0: there is no such index, nor one behind it */
	uint8_t key_first;		/* of its records' keys; 0: any */
	uint8_t reserved;
};

/* Constant from before the name is there until the store is dropped. */
struct nam_serial_superblock {
	uint64_t image_hash;		/* of what follows, mixed with the address */
	uint64_t magic;			/* NAM_SERIAL_MAGIC */
	uint64_t store;			/* a random number: in every bucket, record and log */
	uint16_t format;		/* NAM_SERIAL_FORMAT */
	uint16_t key_bytes_max;
	uint32_t value_bytes_max;
	uint64_t records;		/* expected */
	uint32_t chunks_count;		/* a power of two */
	uint32_t chunk_buckets;		/* likewise */
	uint64_t logs;			/* gaddr of the log directory */
	uint32_t phases;		/* enum nam_txn_phase: LOCK_RPC says what CASes words */
	uint32_t tables;		/* 1: the records are rows of tables */
	uint64_t chunks[NAM__SERIAL_CHUNKS_MAX];	/* gaddrs */
	struct nam_serial_index indexes[NAM__SERIAL_INDEXES_MAX];
};
_Static_assert(sizeof(struct nam_serial_superblock) == 4224, "remote layout");

#define NAM_SERIAL_MAGIC 0x31525345534d414eull	/* "NAMSESR1" */
#define NAM_SERIAL_FORMAT 4u

/*
 * A bucket.  Slots are filled from the first one on and stay until the store is dropped.  So does
 * `next`, which is set when all are full.  It leads to eight buckets, and three bits of a key's
 * hash choose among them: others at each depth.
 *
 * offset size	field	written by			a one-sided reader may assume
 * 0	8	store	WRITE by the creator; and by	of its store, or it was dropped
 *			the client that drops it
 * 8	112	slots	CAS 0 -> record			0; or the gaddr of a whole record, whose
 *							key has the tag
 * 120	8	next	CAS 0 -> buckets		0; or the gaddr of eight buckets like
 *							this, one behind the other
 */
#define NAM__SERIAL_SLOTS 14u

struct nam_serial_bucket {
	uint64_t store;
	uint64_t slots[NAM__SERIAL_SLOTS];	/* tag: 16 bits of the hash of the key */
	uint64_t next;
};
_Static_assert(sizeof(struct nam_serial_bucket) == 128, "remote layout");

#define NAM__SERIAL_NEXT 8u			/* buckets behind a full one */
#define NAM__SERIAL_NEXT_BYTES (NAM__SERIAL_NEXT * (uint32_t)sizeof(struct nam_serial_bucket))
#define NAM__SERIAL_DEPTH_MAX 16u		/* 48 bits of the hash */

/*
 * A record, then its key and its value.
 *
 * offset size	field		written by			a one-sided reader may assume
 * 0	8	word		CAS by a transaction that	a sequence: no client writes the
 *				writes it			record; a lock word: its client may;
 *								or DROPPED
 * 8	8	hash		WRITE under the lock		matches what follows, and the
 *								address, or the image is torn
 * 16	8	sequence	same				equals `word`, or the image is torn
 * 24	-	the rest	same; the key is constant	whole if the hash matches
 */
struct nam_serial_record {
	uint64_t word;
	uint64_t hash;
	uint64_t sequence;		/* grows with each transaction that writes the record */
	uint64_t store;
	uint32_t value_bytes;
	uint16_t key_bytes;
	uint8_t absent;			/* 1: there is no value; deleted, or not inserted yet */
	uint8_t reserved;
	uint8_t bytes[];		/* key, value */
};
_Static_assert(sizeof(struct nam_serial_record) == 40, "remote layout");

/* Sequences lie below the owner of a lock word. */
#define NAM__SERIAL_MADE 1ull		/* of a record that no transaction has written yet */
#define NAM__SERIAL_DROPPED 0xffffffffffffull

static inline bool
nam__serial_locked(uint64_t word)
{
	return nam_lock_owner(word) != 0;
}

/* The log directory: for each client id the gaddr of its first log; CAS by the client. */
#define NAM__SERIAL_LOGS_BYTES (8u * NAM_CLIENTS_MAX)

/*
 * A log: the transaction that its owner commits, or has committed last.  Then entries, each a
 * record's gaddr, and the record as it is to be, in whole words.  Then the entries of indexes that
 * it removes, each a record's gaddr, the index's number, and the key in whole words.
 *
 * offset size	field	written by			a one-sided reader may assume
 * 0	8	next	WRITE by its first owner, before	constant: gaddr of the next log of
 *			the directory leads to it		that client id, or 0
 * 8	8	hash	WRITE by the owner, with the	matches what follows and the address, or
 *			rest				the transaction was not committed
 */
struct nam_serial_log {
	uint64_t next;
	uint64_t hash;
	uint64_t word;			/* that the transaction locked with */
	uint64_t store;
	uint64_t sequence;		/* of all its records */
	uint32_t count;			/* of entries */
	uint32_t bytes;			/* of this and the entries */
	uint32_t capacity;		/* of the block */
	uint32_t removes;		/* from indexes */
	uint32_t reserved[2];
	uint64_t entries[];
};
_Static_assert(sizeof(struct nam_serial_log) == 64, "remote layout");

#define NAM__SERIAL_LOG_BYTES_MAX (2u << 20)

#endif /* NAM_TXN_SERIAL_LAYOUT_H */
