/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_cache.c -- a cache of addresses, shared by the threads of a process without a lock.
 *
 * Sets of eight entries of a cache line each.  An entry has a sequence number that is odd while it
 * is written; readers take what has the same even number before and after, writers let be what
 * another is at.  A key's way round its set begins at an entry of its own, which is where it mostly
 * is.  It may end up in two entries, and the older one may be found: what that leads to is claimed.
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
	uint64_t reserved;
};
_Static_assert(sizeof(struct entry) == 64, "a cache line");

struct nam__places {
	uint64_t sets;
	struct entry *entries;
};

int
nam__places_new(uint64_t bytes, struct nam__places **ret_places)
{
	struct nam__places *places;
	uint64_t sets = bytes / (WAYS * sizeof(struct entry));
	size_t size = sets * WAYS * sizeof(struct entry);
	size_t alignment = size < HUGE_BYTES ? sizeof(struct entry) : HUGE_BYTES;

	*ret_places = NULL;
	if (!sets)
		return 0;
	places = calloc(1, sizeof(*places));
	if (!places)
		return -ENOMEM;
	places->sets = sets;
	places->entries = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	if (!places->entries) {
		free(places);
		return -ENOMEM;
	}
	/* Looked at here and there, each time at another page; without the advice it works, too. */
	if (size >= HUGE_BYTES)
		(void)madvise(places->entries, size, MADV_HUGEPAGE);
	memset(places->entries, 0, size);
	*ret_places = places;
	return 0;
}

void
nam__places_free(struct nam__places *places)
{
	if (!places)
		return;
	free(places->entries);
	free(places);
}

/* The i-th entry on the key's way round its set. */
static inline struct entry *
way_of(const struct nam__places *places, const struct nam__record_id *id, unsigned i)
{
	/* The set from the upper bits, and the way from the lower ones. */
	uint64_t set = (uint64_t)((unsigned __int128)id->word[1] * places->sets >> 64);
	uint64_t way = (id->word[1] + i) % WAYS;

	return &places->entries[set * WAYS + way];
}

void
nam__places_prefetch(const struct nam__places *places, const struct nam__record_id *ids,
	uint32_t count)
{
	if (!places)
		return;
	for (uint32_t i = 0; i < count; i++)
		__builtin_prefetch(way_of(places, &ids[i], 0));
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

/* Whether the entry is whole and that key's; false also if somebody is writing it. */
static inline __attribute__((always_inline)) bool
entry_read(struct entry *entry, const struct nam__record_id *id, struct nam__place *ret_place)
{
	/* Acquire: pairs with the release of who wrote it last. */
	uint64_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);

	if (get(&entry->id[0]) != id->word[0] || get(&entry->id[1]) != id->word[1])
		return false;
	*ret_place = (struct nam__place){
		.head.raw = get(&entry->head),
		.at.raw = get(&entry->at),
		.timestamp = get(&entry->timestamp),
		.epoch = get(&entry->epoch),
	};
	/* The loads above come before the one below. */
	atomic_thread_fence(memory_order_acquire);
	return !(sequence & 1) && get(&entry->sequence) == sequence;
}

static bool
find(const struct nam__places *places, const struct nam__record_id *id,
	struct nam__place *ret_place)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (entry_read(way_of(places, id, i), id, ret_place) &&
			!nam_gaddr_is_null(ret_place->head))
			return true;
	return false;
}

bool
nam__places_find(const struct nam__places *places, const struct nam__record_id *id,
	struct nam__place *ret_place)
{
	return places && find(places, id, ret_place);
}

bool
nam__places_find_all(const struct nam__places *places, const struct nam__record_id *ids,
	uint32_t count, struct nam__place *ret_places)
{
	const struct nam__places here = *places;

	for (uint32_t i = 0; i < count; i++) {
		struct nam__place *place = &ret_places[i];

		/* Nearly all are in the first entry where one looks. */
		if ((!entry_read(way_of(&here, &ids[i], 0), &ids[i], place) ||
			nam_gaddr_is_null(place->head)) && !find(places, &ids[i], place))
			return false;
		if (nam_gaddr_is_null(place->at))
			return false;
	}
	return true;
}

static void
entry_write(struct entry *entry, const struct nam__record_id *id, const struct nam__place *place)
{
	uint64_t sequence = get(&entry->sequence);

	/* Acquire: the stores below stay below.  Who fails leaves it to the other. */
	if ((sequence & 1) || !atomic_compare_exchange_strong_explicit(&entry->sequence, &sequence,
			sequence + 1, memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	put(&entry->id[0], id->word[0]);
	put(&entry->id[1], id->word[1]);
	put(&entry->head, place->head.raw);
	put(&entry->at, place->at.raw);
	put(&entry->timestamp, place->timestamp);
	put(&entry->epoch, place->epoch);
	/* Release: pairs with entry_read(). */
	atomic_store_explicit(&entry->sequence, sequence + 2, memory_order_release);
}

void
nam__places_note(struct nam__places *places, const struct nam__record_id *id,
	const struct nam__place *place)
{
	struct entry *oldest;

	if (!places)
		return;
	oldest = way_of(places, id, 0);
	for (unsigned i = 0; i < WAYS; i++) {
		struct entry *entry = way_of(places, id, i);
		struct nam__place is;

		if (entry_read(entry, id, &is)) {
			if (is.timestamp > place->timestamp ||
				(is.timestamp == place->timestamp && is.epoch >= place->epoch))
				return;
			oldest = entry;
			break;
		}
		if (get(&entry->epoch) < get(&oldest->epoch))
			oldest = entry;
	}
	entry_write(oldest, id, place);
}
