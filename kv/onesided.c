/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onesided.c -- GETs by READs of a key's two buckets, without the memory server's processor; or of
 * the one that had the pair lately.
 *
 * A reader trusts a pair whose checksum fits its key, value and store.  A slot has that checksum
 * only while the key has that value (K8).  It trusts nothing else.  If a pair is not found, the
 * reader asks the memory server.  The pair may be in the stash or on its way between the buckets.
 * Or the tables have grown or shrunk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/remote/batch.h"
#include "compute/remote/forget.h"
#include "common/guard.h"
#include "common/race.h"
#include "kv_internal.h"
#include "kv/server/bucket.h"
#include "kv/server/partition.h"

/* READs of a pair that is being written. */
#define TRIES_MAX 3u
/* Hints of a handle, in 32 KiB. */
#define HOT_KEYS 16384u
/* In a cache, one of so many GETs is a request, so that the memory server learns which are hot. */
#define REQUESTS_OF_CACHE 16u

/* Where the buckets of a partition are.  The buckets of an earlier generation are unknown (C16). */
struct nam__kv_layout {
	unsigned generation;
	struct nam__cuckoo_shape shape;
	uint32_t chunks;
	uint64_t addresses[];
};

/* ---- layouts ------------------------------------------------------------------------------- */

static uint32_t
layouts_count(const struct nam_kv *kv)
{
	return kv->servers * kv->options.partitions;
}

int
nam__kv_layouts_init(struct nam_kv *kv)
{
	if (!kv->options.onesided)
		return 0;
	kv->layouts = calloc(layouts_count(kv), sizeof(kv->layouts[0]));
	kv->hot = calloc(HOT_KEYS, sizeof(kv->hot[0]));
	return kv->layouts && kv->hot ? 0 : -ENOMEM;
}

void
nam__kv_layouts_free(struct nam_kv *kv)
{
	for (uint32_t i = 0; kv->layouts && i < layouts_count(kv); i++)
		free(kv->layouts[i]);
	free(kv->layouts);
	free(kv->hot);
	kv->layouts = NULL;
	kv->hot = NULL;
}

static _Atomic(struct nam__kv_layout *) *
layout_of(struct nam_kv *kv, const struct nam__kv_place *place)
{
	return &kv->layouts[place->server * kv->options.partitions + place->partition];
}

/* NULL: not known, or of an earlier generation (K12).  Readers may be looking at it. */
static struct nam__kv_layout *
layout_known(struct nam_kv *kv, const struct nam__kv_place *place)
{
	struct nam__kv_layout *layout = atomic_load_explicit(layout_of(kv, place),
		memory_order_acquire);

	if (layout && NAM_GUARD(FORGET_LAYOUTS) &&
		layout->generation != nam__generation(kv->client))
		return NULL;
	return layout;
}

void
nam__kv_layout_forget(struct nam_kv *kv, const void *key, uint32_t key_bytes)
{
	struct nam__kv_place place = nam__kv_place_of(kv, key, key_bytes);
	struct nam__kv_layout *old = atomic_exchange(layout_of(kv, &place), NULL);

	if (old)
		nam__garbage_add(kv->client, old);
}

static bool
shape_valid(const struct nam_rpc_kv_layout_reply *reply)
{
	const struct nam__cuckoo_shape shape = { reply->level, reply->split };

	return reply->level >= NAM__CUCKOO_LEVEL_MIN && reply->level < 28 &&
	       reply->split < 4u << reply->level && reply->chunks <= NAM__KV_CHUNKS_MAX &&
	       nam__cuckoo_chunks(&shape) <= reply->chunks;
}

/* The part of a layout that one reply has.  @reply	room for a body */
NAM_FIBER_FN static int
layout_query(struct nam_worker *worker, struct nam_kv *kv, const struct nam__kv_place *place,
	uint32_t first, struct nam_rpc_kv_layout_reply *reply, uint32_t *ret_count)
{
	const struct nam_rpc_kv_layout_request request = { kv->store, place->partition, first };
	uint32_t bytes = NAM_RPC_BODY_MAX;
	int rc = nam_rpc_call(worker, kv->slots[place->server], NAM_RPC_KV_LAYOUT, &request,
		sizeof(request), reply, &bytes); /* SUSPENDS */

	if (rc)
		return rc;
	if (bytes <= sizeof(*reply) || (bytes - sizeof(*reply)) % sizeof(uint64_t) ||
		!shape_valid(reply))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_count = (bytes - (uint32_t)sizeof(*reply)) / (uint32_t)sizeof(uint64_t);
	return 0;
}

/* The tables may grow or shrink meanwhile: the first reply says which size this layout has. */
NAM_FIBER_FN static int
layout_learn(struct nam_worker *worker, struct nam_kv *kv, const struct nam__kv_place *place,
	struct nam__kv_layout **ret_layout)
{
	struct nam_rpc_kv_layout_reply *reply = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam__kv_layout *layout = NULL, *old = NULL;
	/* The store may be dropped, and a generation begin, while a reply is on its way. */
	unsigned generation = nam__generation(kv->client);
	uint32_t have = 0, count;
	int rc = reply ? 0 : -ENOMEM;

	do {
		if (!rc)
			rc = layout_query(worker, kv, place, have, reply, &count); /* SUSPENDS */
		if (!rc && !layout) {
			layout = malloc(sizeof(*layout) + reply->chunks * sizeof(uint64_t));
			if (layout)
				*layout = (struct nam__kv_layout){
					.generation = generation,
					.shape = { reply->level, reply->split },
					.chunks = reply->chunks,
				};
			rc = layout ? 0 : -ENOMEM;
		}
		if (rc)
			break;
		if (count > layout->chunks - have)
			count = layout->chunks - have;
		memcpy(layout->addresses + have, reply->addresses, count * sizeof(uint64_t));
		have += count;
	} while (have < layout->chunks);
	if (reply)
		nam_buffer_give(worker, reply, NAM_RPC_BODY_MAX);
	if (rc) {
		free(layout);
		return rc;
	}
	/* K12: it has the generation of before it was asked for. */
	nam_race_point("kv.layout_known");
	old = atomic_exchange(layout_of(kv, place), layout);
	if (old)
		nam__garbage_add(kv->client, old);
	*ret_layout = layout;
	return 0;
}

/* ---- hot keys ------------------------------------------------------------------------------ */

#define TABLE_0 1u
#define TABLE_1 2u
#define TABLES (TABLE_0 | TABLE_1)
#define SLOTS_0 ((1u << NAM__CUCKOO_SLOTS) - 1)
#define SLOTS_1 (SLOTS_0 << NAM__CUCKOO_SLOTS)

/* High bits of the hash, and a table; never 0. */
static inline uint16_t
hot_entry(uint32_t hash, uint32_t tables)
{
	return (uint16_t)((hash >> 16 & ~TABLES) | tables);
}

/* Where to read: the table that had the pair lately, or both. */
static inline uint32_t
hot_tables(const struct nam_kv *kv, uint32_t hash)
{
	uint32_t entry = atomic_load_explicit(&kv->hot[hash % HOT_KEYS], memory_order_relaxed);

	return (entry & ~TABLES) == (hash >> 16 & ~TABLES) && entry ? entry & TABLES : TABLES;
}

static inline void
hot_learn(const struct nam_kv *kv, uint32_t hash, uint32_t tables)
{
	_Atomic(uint16_t) *entry = &kv->hot[hash % HOT_KEYS];

	/* A store only if it changes the entry: other processors share the cache line. */
	if (atomic_load_explicit(entry, memory_order_relaxed) != hot_entry(hash, tables))
		atomic_store_explicit(entry, hot_entry(hash, tables), memory_order_relaxed);
}

/* ---- a pair -------------------------------------------------------------------------------- */

/* A key that is looked for. */
struct sought {
	uint32_t item, hash;
	uint32_t tables;		/* of the buckets to be read */
};

enum look {
	LOOK_FOUND,
	LOOK_TORN,			/* the key's, but being written */
	LOOK_LONG,			/* the rest is in cells */
	LOOK_ABSENT,
};

/* The pair in a slot that has the key's hash, by its checksum (K8). */
static enum look
look_at_slot(const struct nam_kv *kv, const struct nam__cuckoo_bucket *bucket, uint32_t i,
	const void *key, uint32_t key_bytes, const uint8_t **ret_value, uint32_t *ret_bytes)
{
	const struct nam__cuckoo_slot *slot = &bucket->slots[i];
	const uint8_t *data = bucket->data[i];

	if (nam__cuckoo_key_bytes(slot) != key_bytes)
		return LOOK_ABSENT;
	*ret_bytes = nam__cuckoo_value_bytes(slot);
	if (key_bytes + *ret_bytes > NAM__CUCKOO_DATA_BYTES)
		return LOOK_LONG;
	*ret_value = data + key_bytes;
	if (memcmp(data, key, key_bytes) == 0 && (!NAM_GUARD(KV_CHECKSUM) || slot->checksum ==
			nam__cuckoo_checksum_in_line(kv->store, data, key_bytes, *ret_bytes)))
		return LOOK_FOUND;
	return LOOK_TORN;
}

/* @sought	in one of these tables; if the pair is found, in which */
static enum look
look(const struct nam_kv *kv, const struct nam__cuckoo_bucket buckets[2], struct sought *sought,
	const struct nam_kv_item *item, const uint8_t **ret_value, uint32_t *ret_bytes)
{
	enum look result = LOOK_ABSENT;
	uint32_t slots = 0;

	/* Without a branch for each slot: the place of a key is not predictable. */
	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		slots |= (uint32_t)(buckets[0].slots[i].hash == sought->hash) << i |
			 (uint32_t)(buckets[1].slots[i].hash == sought->hash)
				<< (i + NAM__CUCKOO_SLOTS);
	/* Of a bucket that was not read, there is anything. */
	slots &= (sought->tables & TABLE_0 ? SLOTS_0 : 0) |
		 (sought->tables & TABLE_1 ? SLOTS_1 : 0);
	for (; slots; slots &= slots - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(slots), table = i / NAM__CUCKOO_SLOTS;
		enum look here = look_at_slot(kv, &buckets[table], i % NAM__CUCKOO_SLOTS,
			item->key, item->key_bytes, ret_value, ret_bytes);

		if (here == LOOK_FOUND) {
			sought->tables = TABLE_0 << table;
			return here;
		}
		if (here < result)
			result = here;
	}
	return result;
}

/* The READs of a key's two buckets. */
static void
reads_fill(const struct nam__kv_layout *layout, uint32_t hash, struct nam__cuckoo_bucket local[2],
	struct nam__read ret_reads[2])
{
	uint32_t buckets[2];

	nam__cuckoo_buckets_of(&layout->shape, hash, buckets);
	for (uint32_t i = 0; i < 2; i++) {
		struct nam_gaddr chunk = {
			layout->addresses[buckets[i] / NAM__CUCKOO_BUCKETS_PER_CHUNK] };
		uint64_t offset = buckets[i] % NAM__CUCKOO_BUCKETS_PER_CHUNK *
			NAM__CUCKOO_BUCKET_BYTES;

		ret_reads[i] = (struct nam__read){
			.at = nam_gaddr_make(nam_gaddr_region(chunk),
				nam_gaddr_offset(chunk) + offset, 0),
			.local = &local[i],
			.bytes = NAM__CUCKOO_BUCKET_BYTES,
		};
	}
}

/* Whether GET `i` of `count` is to be a request although a READ might do. */
static bool
is_sample(const struct nam_kv *kv, const struct nam_worker *worker, uint32_t i, uint32_t count)
{
	uint64_t ops = worker->counters[NAM_OP_LOOKUP].ops;

	/* Calls of 16 keys each would have the same places in each call. */
	if (count > 1)
		ops = nam_mix64(ops);
	return kv->options.mode == NAM_KV_CACHE && (ops + i) % REQUESTS_OF_CACHE == 0;
}

/*
 * K12: a miss is for the memory server to say.
 *
 * @sought	says afterwards where to read next
 */
static enum nam__kv_read_result
result_of(const struct nam_kv *kv, struct nam_kv_item *item, struct sought *sought,
	const struct nam__cuckoo_bucket buckets[2], bool *ret_again)
{
	bool half = sought->tables != TABLES;
	const uint8_t *value = NULL;
	uint32_t bytes = 0;
	enum look found = look(kv, buckets, sought, item, &value, &bytes);

	/* K8: one bucket without the pair says nothing, for the pair may be in the other. */
	*ret_again = found == LOOK_TORN || (found == LOOK_ABSENT && half);
	if (found == LOOK_FOUND) {
		item->value_bytes = bytes;
		item->rc = bytes > item->size ? -NAM_E_LIMIT : 0;
		if (bytes && !item->rc)
			memcpy(item->value, value, bytes);
		return NAM__KV_READ_FOUND;
	}
	sought->tables = TABLES;
	if (half)
		nam_race_point("kv.not_where_it_was");
	/* Without a tag: where the tables have shrunk, any bytes of a pair may be. */
	if (found == LOOK_ABSENT && !half && (buckets[0].vertex.tag != NAM__CUCKOO_TAG ||
			!buckets[0].vertex.spilled))
		return NAM__KV_READ_ASK_AND_FORGET;
	return NAM__KV_READ_ASK;
}

/* The READs of those that are left, which are `both` for each.  Returns how many. */
static uint32_t
reads_choose(const struct sought *sought, uint32_t left, const struct nam__read *both,
	struct nam__read *ret_reads)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < left; i++) {
		if (sought[i].tables & TABLE_0)
			ret_reads[count++] = both[2 * i];
		if (sought[i].tables & TABLE_1)
			ret_reads[count++] = both[2 * i + 1];
	}
	return count;
}

int
nam__kv_reads(struct nam_worker *worker, struct nam_kv *kv, struct nam_kv_item *const *items,
	uint32_t count, struct nam__kv_read *ret_reads)
{
	struct nam__cuckoo_bucket *local = nam_buffer_take(worker, 2 * count * sizeof(*local));
	struct nam__read both[2 * NAM__KV_READS_MAX], reads[2 * NAM__KV_READS_MAX];
	struct sought sought[NAM__KV_READS_MAX];
	/* Where a READ is only a call, a second one costs less than a hint. */
	const bool hints = !worker->in_post_order;
	uint32_t left = 0;
	int rc = local ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && !rc; i++) {
		struct nam__kv_place place = nam__kv_place_of(kv, items[i]->key,
			items[i]->key_bytes);
		struct nam__kv_layout *layout = layout_known(kv, &place);

		ret_reads[i] = (struct nam__kv_read){ NAM__KV_READ_ASK, place.server };
		if (is_sample(kv, worker, i, count))
			continue;
		if (!layout)
			rc = layout_learn(worker, kv, &place, &layout); /* SUSPENDS */
		if (rc)
			break;
		sought[left] = (struct sought){ i, place.hash, hints ? hot_tables(kv, place.hash) :
			TABLES };
		reads_fill(layout, place.hash, &local[2 * left], &both[2 * left]);
		left++;
	}
	/* A pair that is being written, or is elsewhere by now, is read again. */
	for (uint32_t tries = 0; left && !rc && tries < TRIES_MAX; tries++) {
		uint32_t n = hints ? reads_choose(sought, left, both, reads) : 2 * left, again = 0;

		rc = nam__reads_await(worker, hints ? reads : both, n); /* SUSPENDS */
		for (uint32_t i = 0; i < left && !rc; i++) {
			bool repeat;

			ret_reads[sought[i].item].result = result_of(kv, items[sought[i].item],
				&sought[i], both[2 * i].local, &repeat);
			if (hints)
				hot_learn(kv, sought[i].hash, sought[i].tables);
			if (!repeat)
				continue;
			sought[again] = sought[i];
			memcpy(&both[2 * again++], &both[2 * i], 2 * sizeof(both[0]));
		}
		left = again;
	}
	if (local)
		nam_buffer_give(worker, local, 2 * count * sizeof(*local));
	return rc;
}
