/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_cache.c -- a cache of addresses, shared by the threads of a process without a lock.
 *
 * Sets of eight entries of a cache line each.  The sequence number of an entry is odd while it is
 * written.  A reader takes an entry with the same even number before and after; a writer skips an
 * entry that another one writes.  The search for a key begins at an entry that its hash selects.  A
 * key may be in two entries, and the older one may be found: its version is claimed, so R6 holds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "txn_internal.h"

#define WAYS 8u
#define HUGE_BYTES (2u << 20)

struct entry {
	_Atomic uint64_t sequence;
	_Atomic uint64_t id[2];
	_Atomic uint64_t head, at, timestamp, epoch;
	_Atomic uint64_t known;		/* local epoch that was pinned before */
};
_Static_assert(sizeof(struct entry) == 64, "a cache line");

struct nam__addresses {
	const struct nam_client *client;
	uint64_t sets;
	struct entry *entries;
};

int
nam__addresses_new(const struct nam_client *client, uint64_t bytes,
	struct nam__addresses **ret_addresses)
{
	struct nam__addresses *cache;
	uint64_t sets = bytes / (WAYS * sizeof(struct entry));
	size_t size = sets * WAYS * sizeof(struct entry);
	size_t alignment = size < HUGE_BYTES ? sizeof(struct entry) : HUGE_BYTES;

	*ret_addresses = NULL;
	if (!sets)
		return 0;
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	cache->client = client;
	cache->sets = sets;
	cache->entries = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	if (!cache->entries) {
		free(cache);
		return -ENOMEM;
	}
	/* Accesses are random, so huge pages save misses of the TLB. */
	if (size >= HUGE_BYTES)
		(void)madvise(cache->entries, size, MADV_HUGEPAGE);
	memset(cache->entries, 0, size);
	*ret_addresses = cache;
	return 0;
}

void
nam__addresses_free(struct nam__addresses *cache)
{
	if (!cache)
		return;
	free(cache->entries);
	free(cache);
}

/* The i-th entry on the key's way round its set. */
static inline struct entry *
way_of(const struct nam__addresses *cache, const struct nam__record_id *id, unsigned i)
{
	/* The set from the upper bits, and the way from the lower ones. */
	uint64_t set = (uint64_t)((unsigned __int128)id->word[1] * cache->sets >> 64);
	uint64_t way = (id->word[1] + i) % WAYS;

	return &cache->entries[set * WAYS + way];
}

void
nam__addresses_prefetch(const struct nam__addresses *cache, const struct nam__record_id *ids,
	uint32_t count)
{
	if (!cache)
		return;
	for (uint32_t i = 0; i < count; i++)
		__builtin_prefetch(way_of(cache, &ids[i], 0));
}

static inline uint64_t
known_since(const struct nam__addresses *cache)
{
	return atomic_load_explicit(&cache->client->known_since, memory_order_relaxed);
}

static inline uint64_t
get(_Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void
put(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

/*
 * Whether the entry is whole, that key's and not forgotten (R9); false also while it is written.
 *
 * @since	the oldest local epoch of which something is known
 */
static inline __attribute__((always_inline)) bool
entry_read(struct entry *entry, const struct nam__record_id *id, uint64_t since,
	struct nam__address *ret_address)
{
	/* Acquire: pairs with the release in entry_write(). */
	uint64_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);

	if (get(&entry->id[0]) != id->word[0] || get(&entry->id[1]) != id->word[1] ||
		(NAM_GUARD(FORGET_ADDRESSES) && get(&entry->known) < since))
		return false;
	*ret_address = (struct nam__address){
		.head.raw = get(&entry->head),
		.at.raw = get(&entry->at),
		.timestamp = get(&entry->timestamp),
		.epoch = get(&entry->epoch),
	};
	/* The loads above come before the one below. */
	atomic_thread_fence(memory_order_acquire);
	return !(sequence & 1) && get(&entry->sequence) == sequence;
}

bool
nam__addresses_find(const struct nam__addresses *cache, const struct nam__record_id *id,
	struct nam__address *ret_address)
{
	uint64_t since = cache ? known_since(cache) : 0;

	for (unsigned i = 0; cache && i < WAYS; i++)
		if (entry_read(way_of(cache, id, i), id, since, ret_address) &&
			!nam_gaddr_is_null(ret_address->head))
			return true;
	return false;
}

bool
nam__addresses_find_all(const struct nam__addresses *cache, const struct nam__record_id *ids,
	uint32_t count, struct nam__address *ret_addresses)
{
	const struct nam__addresses here = *cache;
	uint64_t since = known_since(cache);

	for (uint32_t i = 0; i < count; i++) {
		struct nam__address *address = &ret_addresses[i];

		/* Nearly all are in the first entry of the search. */
		if ((!entry_read(way_of(&here, &ids[i], 0), &ids[i], since, address) ||
			    nam_gaddr_is_null(address->head)) &&
			!nam__addresses_find(cache, &ids[i], address))
			return false;
		if (nam_gaddr_is_null(address->at))
			return false;
	}
	return true;
}

static void
entry_write(struct entry *entry, const struct nam__record_id *id,
	const struct nam__address *address, uint64_t known)
{
	uint64_t sequence = get(&entry->sequence);

	/* Acquire: the stores below stay below.  After a failure another writer is at it. */
	if ((sequence & 1) || !atomic_compare_exchange_strong_explicit(&entry->sequence, &sequence,
			sequence + 1, memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	put(&entry->id[0], id->word[0]);
	put(&entry->id[1], id->word[1]);
	put(&entry->head, address->head.raw);
	put(&entry->at, address->at.raw);
	put(&entry->timestamp, address->timestamp);
	put(&entry->epoch, address->epoch);
	put(&entry->known, known);
	/* Release: pairs with entry_read(). */
	atomic_store_explicit(&entry->sequence, sequence + 2, memory_order_release);
}

void
nam__addresses_note(struct nam__addresses *cache, const struct nam__record_id *id,
	const struct nam__address *address, uint64_t known)
{
	struct entry *oldest;
	uint64_t since;

	if (!cache)
		return;
	since = known_since(cache);
	oldest = way_of(cache, id, 0);
	for (unsigned i = 0; i < WAYS; i++) {
		struct entry *entry = way_of(cache, id, i);
		struct nam__address is;

		if (entry_read(entry, id, since, &is)) {
			if (is.timestamp > address->timestamp ||
				(is.timestamp == address->timestamp && is.epoch >= address->epoch))
				return;
			oldest = entry;
			break;
		}
		if (get(&entry->epoch) < get(&oldest->epoch))
			oldest = entry;
	}
	entry_write(oldest, id, address, known);
}
